"""Where applications are found, and which words meet a mistake."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from wsgiref.util import setup_testing_defaults

import pytest

from poorhttp.app import failures, loader, places
from poorhttp.errors import LoadError

GOOD = "def application(environ, start_response):\n    return [b'ok']\n"


@pytest.fixture(autouse=True)
def fresh_imports(monkeypatch, tmp_path):
    """Leave neither modules nor paths behind."""
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    yield
    for name in set(sys.modules) - set(before):
        if not name.startswith("poorhttp"):
            del sys.modules[name]


@pytest.fixture
def load(tmp_path):
    """Write the files, then load."""

    def load_spec(spec, **files):
        for name, text in files.items():
            path = tmp_path / (name.replace("__SLASH__", "/") + ".py")
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_text(text)
        return loader.load(spec, str(tmp_path))

    return load_spec


@pytest.fixture
def fault(load):
    def load_and_fail(spec, **files):
        with pytest.raises(LoadError) as caught:
            load(spec, **files)
        assert caught.value.exit_code == 3
        assert caught.value.hint
        load_and_fail.detail = caught.value.detail
        return f"{caught.value.message} | {caught.value.hint}"

    return load_and_fail


def call(app):
    environ = {}
    setup_testing_defaults(environ)
    return b"".join(app(environ, lambda status, headers: None))


FRAMEWORK = "class Framework:\n    def __call__(self, environ, start_response): ...\n"

TABLE = """
from poorhttp import http
def page(req):
    req.write(text)
    return http.DONE
handlers = {"/": (http.METHOD_GET, page)}
"""


@pytest.mark.parametrize(
    "spec", ["one", "one:application", "one.py", "./one.py", "one.py:application", "one:make()", "one:space.app"]
)
def test_found(load, spec):
    more = "import types\nspace = types.SimpleNamespace(app=application)\nmake = lambda: application\n"
    assert call(load(spec, one=GOOD + more)) == b"ok"


def test_app_is_the_second_default(load):
    assert call(load("one", one=GOOD.replace("application", "app"))) == b"ok"


def test_the_default_application_goes_first(load):
    assert call(load("one", one=GOOD + "app = None\n")) == b"ok"


@pytest.mark.parametrize("spec", ["pkg.wsgi", "pkg/wsgi.py", "pkg.wsgi:application"])
def test_a_module_of_a_package_knows_its_package(load, spec):
    files = {"pkg__SLASH____init__": "", "pkg__SLASH__other": "x = b'ok'\n"}
    text = "from .other import x\ndef application(environ, start_response): return [x]\n"
    assert call(load(spec, pkg__SLASH__wsgi=text, **files)) == b"ok"


@pytest.mark.parametrize("spec", ["pkg", "./pkg", "pkg:application"])
def test_a_package(load, spec):
    assert call(load(spec, pkg__SLASH____init__=GOOD)) == b"ok"


@pytest.mark.parametrize("spec", ["one", "one:application"])
def test_a_module_beside_a_directory_of_its_name(load, spec, tmp_path):
    """As Python has it: a directory without __init__.py is a module only where there is no other of its name."""
    (tmp_path / "one" / "static").mkdir(parents=True)
    assert call(load(spec, one=GOOD)) == b"ok"


def test_a_module_beside_the_dispatch_table_of_its_name(load):
    """A table has no application to name; without a name the directory is meant."""
    files = {"one": GOOD, "one__SLASH__dispatch_table": "text = 'table'\n" + TABLE}
    assert call(load("one:application", **files)) == b"ok"
    assert call(load("one", **files)) == b"table"


@pytest.mark.parametrize("spec", ["one", "one:application"])
def test_an_installed_package_beside_a_directory_of_its_name(load, spec, tmp_path, monkeypatch):
    """The directory may be where its sources were unpacked."""
    (tmp_path / "one" / "src").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    assert call(load(spec, installed__SLASH__one__SLASH____init__=GOOD)) == b"ok"


def test_a_package_goes_before_a_module_of_its_name(load):
    other = GOOD.replace("ok", "module")
    assert call(load("one:application", one=other, one__SLASH____init__=GOOD)) == b"ok"


@pytest.mark.parametrize("spec", ["site", "site/", "site/dispatch_table.py"])
def test_a_directory_with_a_dispatch_table(load, spec, tmp_path):
    table = "from text_of_site import text\n" + TABLE
    assert call(load(spec, site__SLASH__dispatch_table=table, site__SLASH__text_of_site="text = '7'\n")) == b"7"
    assert sys.path[0] == str(tmp_path / "site")


def test_current_directory_with_a_dispatch_table(load):
    assert call(load("./", dispatch_table="text = '1'\n" + TABLE)) == b"1"


def test_a_file_whose_name_is_no_identifier(load):
    assert call(load("my-app.py", **{"my-app": GOOD})) == b"ok"


def test_classes_methods_and_callables_are_applications(load):
    text = """
class Iterable:
    def __init__(self, environ, start_response): pass
    def __iter__(self): return iter([b"ok"])
class Callable:
    def __call__(self, environ, start_response, more=1): return [b"ok"]
    def method(self, environ, start_response): return [b"ok"]
    @classmethod
    def cls(cls, environ, start_response): return [b"ok"]
    @staticmethod
    def static(*args): return [b"ok"]
class Proxy:
    def __getattr__(self, name): return getattr(Callable(), name, self)
    def __call__(self, *args): return [b"ok"]
import functools
partial = functools.partial(Callable.static, None)
one, proxy = Callable(), Proxy()
"""
    for spec in ("Iterable", "one", "one.method", "Callable.cls", "Callable.static", "proxy", "partial"):
        assert call(load(f"mixed:{spec}", mixed=text)) == b"ok"


# Mistakes


@pytest.mark.parametrize(
    ("spec", "files", "words"),
    [
        ("simpel", {"simple": GOOD}, "did you mean simple?"),
        ("simpel", {"simple": GOOD}, "0 or on Python's path"),
        ("A", {"a": GOOD}, "did you mean a?"),
        ("one.pyy", {"one": GOOD}, "0 or on Python's path | did you mean one.py?"),
        ("one.PY", {"one": GOOD}, "0 or on Python's path | did you mean one.py?"),
        ("one.x", {"one": GOOD}, "0 or on Python's path | did you mean one?"),
        ("pkg.wsg", {"pkg__SLASH____init__": "", "pkg__SLASH__wsgi": GOOD}, "did you mean pkg.wsgi?"),
        (
            "simpel.py",
            {"simple": GOOD, "zoo": ""},
            "simpel.py does not exist | did you mean simple.py? there are: simple.py",
        ),
        ("no/such.py", {}, "no/such.py does not exist | there is no directory"),
        ("one:aplication", {"one": GOOD}, "one has no attribute 'aplication' | did you mean one:application?"),
        ("one:zzz", {"one": GOOD}, "one has no attribute 'zzz' | callables in it: one:application"),
        (
            "one",
            {"one": GOOD.replace("application", "main")},
            "one has neither application nor app | callables in it: one:main",
        ),
        ("one", {"one": ""}, "one has neither application nor app | define application"),
        ("one:x", {"one": "x = 5\n"}, "one:x is not callable: it is of type int | a WSGI application is a function"),
        (
            "one:make(",
            {"one": GOOD},
            "'one:make(' is not the name of a module | did you mean 'one:make()'? write module",
        ),
        ("./one.py:make(", {"one": GOOD}, "one.py:make( does not exist | did you mean 'one.py:make()'? write module"),
        (
            "one:make(1)",
            {"one": GOOD},
            "'one:make(1)' is not the name of a module | poorhttp calls a factory without arguments",
        ),
        ("a..b", {}, "'a..b' is not the name of a module"),
        (":app", {}, "'' is not the name of a module"),
        ("one.txt/", {}, "one.txt does not exist"),
        ("my.app.py", {"my.app": GOOD}, "my.app.py cannot be imported by its name"),
        ("socket.py", {"socket": GOOD}, "socket.py is hidden by the module socket of "),
        ("sys.py", {"sys": GOOD}, "sys.py is hidden by the module sys of Python"),
        ("./", {"one": GOOD}, "no dispatch_table.py in this directory | there are: one.py"),
        (
            "./",
            {"manage": "", "site/wsgi": GOOD},
            "no dispatch_table.py in this directory | there are: manage.py, site/wsgi.py",
        ),
        ("./", {}, "no dispatch_table.py in this directory | write dispatch_table.py, as poorhttp init does"),
        ("site", {"site__SLASH__one": GOOD}, "site: no dispatch_table.py in this directory | there are: site/one.py"),
        ("site:app", {"site__SLASH__one": GOOD}, "site: no dispatch_table.py in this directory | there are: site/"),
        ("bare", {"bare__SLASH__one": GOOD}, "bare: no dispatch_table.py in this directory | there are: bare/one.py"),
        (
            "bare.one:app",
            {"bare__SLASH__one__SLASH__two": ""},
            "bare/one: no dispatch_table.py in this directory | there",
        ),
        ("./", {"app2": GOOD}, "no dispatch_table.py in this directory | there are: app2.py; name the one to serve"),
        ("one:foo", {"one": ""}, "one has no attribute 'foo' | define foo"),
        (
            "album.py",
            {"album": "def page(req): ...\nhandlers = {'/': (2, page)}\n"},
            "album.py has neither application nor app | it has handlers: a dispatch table is a file named"
            " dispatch_table.py, and its directory is served, as in poorhttp .",
        ),
        ("site/album.py", {"site__SLASH__album": "handlers = {}\n"}, "is served, as in poorhttp site"),
        ("one", {"one": "handlers = []\n"}, "one has neither application nor app | define application"),
        ("stop", {}, "a command goes before everything else: poorhttp stop"),
        ("help", {}, "did you mean --help?"),
        ("check-config", {}, "did you mean --check-config?"),
        ("README.md", {}, "no module 'README' in "),
        ("one.application", {"one": GOOD}, "no module 'one.application' | did you mean one:application?"),
        (
            "pkg.wsgi.application",
            {"pkg__SLASH____init__": "", "pkg__SLASH__wsgi": GOOD},
            "no module 'pkg.wsgi.application' | did you mean pkg.wsgi:application?",
        ),
        (
            "pkg/wsgi",
            {"pkg__SLASH__wsgi": GOOD},
            "pkg/wsgi does not exist | did you mean pkg/wsgi.py? there are: pkg/w",
        ),
        (
            "manage.py",
            {"manage": "def main(): ...\n", "site__SLASH__wsgi": GOOD},
            "manage.py has neither application nor app | did you mean site/wsgi.py?",
        ),
        (
            "pkg",
            {"pkg__SLASH____init__": "", "pkg__SLASH__wsgi": GOOD},
            "pkg has neither application nor app | did you mean pkg/wsgi.py?",
        ),
        (
            "one",
            {"one": "from two import Framework\nserver = Framework()\ndef create(): ...\n", "two": FRAMEWORK},
            "| callables in it: one:server, one:create()",
        ),
        ("two", {"two": FRAMEWORK}, "| callables in it: two:Framework()"),
        (
            "two:Framework",
            {"two": FRAMEWORK},
            "two:Framework is a class that takes no arguments | if it makes the application, write two:Framework()",
        ),
        (
            "one:A",
            {"one": "class A:\n    def __init__(self): ...\n"},
            "one:A takes (): that is no WSGI application | if",
        ),
        (
            "one:A",
            {"one": "class A:\n    def __init__(self, x): ...\n"},
            "one:A takes (x): that is no WSGI application",
        ),
        (
            "bare.one",
            {"bare__SLASH__one": "from two import x\n", "bare__SLASH__two": ""},
            "bare/two.py is there: name the application by its file, bare/one.py",
        ),
        (
            "bare.one",
            {"bare__SLASH__one": "from two import x\n", "bare__SLASH__two__SLASH____init__": ""},
            "bare/two/__init__.py is there: name the application by its file, bare/one.py",
        ),
        (
            "pkg.one",
            {"pkg__SLASH____init__": "", "pkg__SLASH__one": "import two\n", "pkg__SLASH__two": ""},
            "pkg/two.py is in a package: import it as pkg.two",
        ),
        (
            "pkg/one.py",
            {"pkg__SLASH____init__": "", "pkg__SLASH__one": "import two\n", "pkg__SLASH__two": ""},
            "pkg/two.py is in a package: import it as pkg.two",
        ),
        ("bare.one", {"bare__SLASH__one": "import no_such\n"}, "| is it installed for "),
        (
            "pkg.one",
            {"pkg__SLASH____init__": "", "pkg__SLASH__one": "raise ModuleNotFoundError('no')\n"},
            "| is it installed for ",
        ),
        ("one.py", {"one": "from one import x\n"}, "one.py hides the installed one, and so imports itself"),
        (
            "one",
            {"one": "import two\n", "two": "from one import x\n"},
            "| the traceback above is the application's own",
        ),
        ("one", {"one": "import json\njson.loads('')\n"}, "one.py:2: json.decoder.JSONDecodeError: Expecting value"),
        ("./", {"dispatch_table": ""}, "dispatch_table.py: there is no 'handlers' | expected handlers = {'/': ("),
        ("./", {"dispatch_table": "handlers = []"}, "dispatch_table.py: 'handlers' is [], which is no dict | expected"),
        (
            "./",
            {"dispatch_table": "handlers = {'/': 'page'}"},
            "dispatch_table.py: handlers['/'] is 'page' | expected (http.METHOD_GET, function), a list",
        ),
        (
            "./",
            {"dispatch_table": "handlers = {'/': ('GET', print)}"},
            "dispatch_table.py: handlers['/'] has the methods 'GET' | expected http.METHOD_GET or the like",
        ),
        (
            "./",
            {"dispatch_table": "handlers = {}\nsetreq = 1"},
            "dispatch_table.py: 'setreq' is 1, which cannot be called | expected a function of one argument, req",
        ),
        ("one:make", {"one": "def make(): pass\n"}, "one:make takes (): that is no WSGI application | if it makes"),
        ("one:f", {"one": "def f(a, b, c): pass\n"}, "one:f takes (a, b, c): that is no WSGI application | it takes"),
        ("one:f()", {"one": "def f(): return 7\n"}, "one:f() is not callable: it is of type int"),
        (
            "one:f()",
            {"one": "def f(): raise OSError('gone')\n"},
            "one.py:1: OSError: gone | the traceback",
        ),
        ("one:f()", {"one": "def f(x): ...\n"}, "argument: 'x' | poorhttp calls a factory without arguments"),
        ("one:open()", {"one": "open = open\n"}, "| poorhttp calls a factory without arguments"),
        ("one", {"one": "\0"}, "null bytes | is the file complete?"),
        (
            "one",
            {"one": "x = 'a"},
            "one.py:1: SyntaxError: unterminated string literal (detected at line 1) | the traceback above is the application's own",
        ),
    ],
)
def test_mistakes(fault, spec, files, words):
    assert words in fault(spec, **files)


@pytest.mark.parametrize("spec", [".", "./"])
def test_a_directory_without_a_table_is_named_in_full(fault, tmp_path, spec):
    assert fault(spec).startswith(f"{tmp_path}: no dispatch_table.py in this directory | ")


@pytest.fixture
def denied(tmp_path):
    """What is said to whom the mode of a file counts for, as it does not for root."""
    inside = []
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("needs setpriv: apt-get install util-linux")
        inside = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]

    def load_and_fail(spec):
        code = "import sys\nfrom poorhttp import errors\nfrom poorhttp.app import loader\n"
        code += f"try: loader.load({spec!r}, {str(tmp_path)!r})\nexcept errors.LoadError as error: errors.tell(error)\n"
        done = subprocess.run(
            [*inside, sys.executable, "-c", code],
            check=False,
            cwd=tmp_path,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(Path(loader.__file__).parents[2])},
            timeout=30,
            text=True,
        )
        return done.stderr

    return load_and_fail


@pytest.mark.parametrize("mode", [0o000, 0o444])
@pytest.mark.parametrize("spec", ["./closed", "closed/one.py"])
def test_a_directory_that_is_closed(denied, tmp_path, spec, mode):
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "dispatch_table.py").touch()
    (tmp_path / "closed" / "one.py").touch()
    (tmp_path / "closed").chmod(mode)
    said = denied(spec)
    (tmp_path / "closed").chmod(0o755)
    name = spec.removeprefix("./")
    assert said == f"error: {name}: Permission denied\nhint: may this user look into each directory of this path?\n"


def test_a_file_that_may_not_be_read(denied, tmp_path):
    (tmp_path / "one.py").touch(mode=0o000)
    assert denied("one").endswith("/one.py'\nhint: may this user read the file?\n")


def test_a_directory_that_may_not_be_listed(denied, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o111)
    said = denied("./closed")
    (tmp_path / "closed").chmod(0o755)
    assert (
        said
        == "error: closed: no dispatch_table.py in this directory\nhint: write dispatch_table.py, as poorhttp init does\n"
    )
    (tmp_path / "closed").chmod(0o111)
    said = denied("closed.app")
    (tmp_path / "closed").chmod(0o755)
    assert said.startswith("error: no module 'closed.app' in ")


@pytest.mark.parametrize(
    "text",
    [
        "async def application(scope, receive, send): pass\n",
        "def application(scope, receive, send): pass\n",
        "class A:\n    async def __call__(self, scope, receive, send): pass\napplication = A()\n",
        "class A:\n    async def run(self, scope, receive, send): pass\napplication = A().run\n",
    ],
)
def test_asgi(fault, text):
    assert fault("one", one=text).startswith("one:application is an ASGI application | poorhttp serves WSGI")


@pytest.mark.parametrize("body", ["yield b''", "return [b'']"])
def test_wsgi_with_a_stray_async(fault, body):
    said = fault("one", one=f"async def application(environ, start_response): {body}\n")
    assert said == "one:application is an async function, which WSGI does not know | write def, not async def"


def test_the_traceback_of_a_failing_module_is_its_own(fault):
    said = fault("one", one="import two\n", two="def f():\n    1 / 0\nf()\n")
    assert said == "two.py:2: ZeroDivisionError: division by zero | the traceback above is the application's own"
    files = [line.split('"')[1].rsplit("/")[-1] for line in fault.detail.splitlines() if line.startswith("  File")]
    assert files == ["one.py", "two.py", "two.py"]


def test_the_traceback_has_no_frame_of_ours_or_of_importlib(fault):
    text = """
from importlib import import_module
from poorhttp import http
try:
    http.METHOD_GTE
except AttributeError as error:
    import_module("two")
"""
    said = fault("one", one=text, two="1 / 0\n")
    assert said.startswith("two.py:1: ZeroDivisionError")
    files = [line.split('"')[1].rsplit("/")[-1] for line in fault.detail.splitlines() if line.startswith("  File")]
    assert files == ["one.py", "one.py", "two.py"]
    assert "did you mean METHOD_GET?" in fault.detail


def test_a_wrong_table_is_told_without_a_traceback(fault):
    fault("./", dispatch_table="handlers = {'light': print}")
    assert fault.detail == ""


def test_syntax_error(fault):
    assert fault("one", one="def f(:\n").startswith("one.py:1: SyntaxError: ")
    assert 'one.py", line 1' in fault.detail
    assert "loader.py" not in fault.detail


def test_a_file_that_is_no_python(fault, tmp_path):
    (tmp_path / "README.md").touch()
    assert fault("README.md") == f"README.md is no Python file | {failures.FORMS}"


def test_a_file_that_is_not_there_is_no_mistyped_command(fault):
    assert "did you mean" not in fault("README.md")


def test_a_name_that_is_nearly_one(fault):
    said = fault("one", one="user = 1\n\nprint(usre)\n")
    assert said.startswith("one.py:3: NameError: name 'usre' is not defined")
    assert "id you mean user?" in said.replace("mean: 'user'", "mean user")


def test_missing_dependency(fault):
    said = fault("one", one="import no_such_package\n")
    expected = "one.py:1: ModuleNotFoundError: No module named 'no_such_package' | is it installed for"
    assert said.startswith(expected)


def test_a_module_of_the_application_that_is_not_there(fault):
    assert fault("one", one="import two\n", tow="").endswith(
        f"No module named 'two' | did you mean tow? Or is it installed for {sys.executable}?"
    )
    package = {"pkg__SLASH____init__": "", "pkg__SLASH__views": ""}
    said = fault("two", two="import pkg.vews\n", **package)
    assert said.endswith("No module named 'pkg.vews' | did you mean pkg.views?")
    said = fault("three", three="from pkg.forms import form\n", **package)
    assert said.endswith("No module named 'pkg.forms' | there is no module of this name in pkg")


@pytest.mark.parametrize(
    ("word", "hint"), [("stat", "did you mean poorhttp status?"), ("time", "callables in it: time:")]
)
def test_a_word_that_is_a_module_of_python_may_be_a_command(tmp_path, word, hint):
    with pytest.raises(LoadError) as caught:
        loader.load(word, str(tmp_path), may_be_command=True)
    assert hint in caught.value.hint


@pytest.mark.parametrize("path", ["None", "[None]"])
def test_a_package_that_is_none_costs_no_hint(tmp_path, path):
    (tmp_path / "app.py").write_text(
        f"import sys, types\nsys.modules['stub'] = stub = types.ModuleType('stub')\nstub.__path__ = {path}\n"
        "import stub.views\n"
    )
    with pytest.raises(LoadError, match=r"stub\.views") as caught:
        loader.load("app.py", str(tmp_path))
    assert "is it installed" in caught.value.hint


@pytest.mark.parametrize("word", ["statu", "reloads"])
def test_an_application_whose_name_is_nearly_a_command(tmp_path, word):
    (tmp_path / f"{word}.py").write_text(GOOD)
    assert call(loader.load(word, str(tmp_path), may_be_command=True)) == b"ok"
    (tmp_path / f"{word}2.py").write_text("")
    with pytest.raises(LoadError, match="define application"):
        loader.load(f"{word}2", str(tmp_path), may_be_command=True)


def test_a_path_is_whole_where_the_current_directory_is_the_root(monkeypatch, tmp_path):
    assert places.seen(str(tmp_path / "one.py")) == "one.py"
    monkeypatch.chdir("/")
    assert places.seen(str(tmp_path / "one.py")) == str(tmp_path / "one.py")


def test_relative_import_without_a_package(fault):
    assert "name the module with its package" in fault("one", one="from . import two\n")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("import http\nhandlers = {'/': (http.METHOD_GET, None)}\n", "write: from poorhttp import http"),
        ("from http import METHOD_GET\n", "write: from poorhttp.http import ..."),
    ],
)
def test_http_of_the_standard_library(fault, text, hint):
    assert hint in fault("./", dispatch_table=text)


def test_exit_while_imported(fault):
    said = fault("one", one="import sys\nsys.exit('bye')\n")
    assert said.startswith("one.py:2: SystemExit: bye | the module ended Python")


def test_ctrl_c_passes_through(load):
    with pytest.raises(KeyboardInterrupt):
        load("one", one="raise KeyboardInterrupt\n")


def test_title(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/dispatch_table.py").write_text("")
    assert places.title("simple:app") == "simple:app"
    assert places.title(f"{tmp_path}/simple.py:app") == "simple.py:app"
    assert places.title(f"{tmp_path}/site") == "site/dispatch_table.py"
    assert places.title("/elsewhere/simple.py") == "/elsewhere/simple.py"
