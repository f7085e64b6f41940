"""Autoreload: others' modules are imported in advance where that is as good as a cold start, else not, and the log says
why. Whatever is done, the application finds what it would find after a cold start.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from starter import Server, Start, wait_for

APP = """
{before}
import library, os, sys
NUMBER = {number}
def application(environ, start_response):
    start_response("200 OK", [])
    return [f"{{NUMBER}} {{library.VALUE}} {{os.getpid()}}".encode()]
"""


Begin = Callable[..., Server]


@pytest.fixture
def begin(launch: Start, tmp_path: Path) -> Begin:
    """Start with a module of somebody else's, and wait until what can be prepared is."""

    def start(library: str, before: str = "", **files: str) -> Server:
        place = tmp_path / "site-packages"
        place.mkdir(exist_ok=True)
        (place / "library.py").write_text(library)
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        (tmp_path / "app.py").write_text(APP.format(number=0, before=before))
        search = os.pathsep.join([str(place), str(Path(__file__).parents[2])])
        server = launch("dev", "app.py", "--port=0", PYTHONPATH=search)
        server.await_address()
        server.await_text("loaded in")
        return server

    return start


def save(server: Server, number: int, before: str = "") -> str:
    """The answer to the first request after a save, without number and process."""
    said = server.said.count("reloaded")
    (server.directory / "app.py").write_text(APP.format(number=number, before=before))
    status, body = server.get()
    first, value, _ = body.split()
    assert (status, first) == (200, str(number))
    wait_for(lambda: server.said.count("reloaded") > said, "a line in the log")
    return value


def is_prepared(server: Server, count: int) -> None:
    """Wait for so many processes: who serves, the zygote, and who waits for the word."""
    wait_for(lambda: len(server.workers()) >= count, f"{count} processes")


def reloads_by(server: Server, way: str, processes: int, value: str, before: str = "", since: int = 0) -> None:
    """Save until the log tells of this way: the first process may have been begun before it was known. since: how much
    of the log is older.
    """
    for number in range(1, 30):
        is_prepared(server, min(processes, 2) if since else processes)
        assert save(server, number, before) == value
        if f" ms ({way}" in server.said[since:]:
            return
        time.sleep(0.1 * number)  # whoever is being prepared may need that long
    pytest.fail(f"never reloaded by {way}")


def test_a_zygote_has_imported_what_is_not_the_authors(begin: Begin, tmp_path: Path) -> None:
    server = begin("import os\nVALUE = os.getpid()\n")
    for number in range(1, 30):
        is_prepared(server, 3)
        (tmp_path / "app.py").write_text(APP.format(number=number, before=""))
        _, imported_by, serving = server.get()[1].split()
        if imported_by != serving:
            break
        time.sleep(0.1 * number)
    assert imported_by != serving, "the module was imported by another process than the one that serves"
    server.await_text("(zygote)")
    assert psutil.Process(int(serving)).ppid() == server.process.pid


def test_a_signal_loads_everything_anew_and_each_load_says_how(begin: Begin, tmp_path: Path) -> None:
    server = begin("import os\nVALUE = os.getpid()\n")
    server.await_text(" ms (cold); watching")

    def fork_from_the_zygote(first: int) -> None:
        for number in range(first, first + 30):
            is_prepared(server, 3)
            (tmp_path / "app.py").write_text(APP.format(number=number, before=""))
            _, imported_by, serving = server.get()[1].split()
            if imported_by != serving:
                return
            time.sleep(0.1 * (number - first))
        pytest.fail("never forked from a zygote")

    fork_from_the_zygote(1)
    is_prepared(server, 3)
    before = server.workers()
    server.send(signal.SIGUSR2)
    wait_for(lambda: server.said.count(" ms (cold); watching") == 2, "everything to be loaded")
    _, imported_by, serving = server.get()[1].split()
    assert imported_by == serving
    wait_for(lambda: not before & server.workers(), "those who waited to be gone")
    fork_from_the_zygote(100)
    is_prepared(server, 3)
    time.sleep(1.1)  # one that dies young would not be started again
    os.kill(int(server.get()[1].split()[2]), signal.SIGKILL)
    server.await_text(" ms (zygote); watching")
    _, imported_by, serving = server.get()[1].split()
    assert imported_by != serving


def test_a_package_without_a_file_is_the_authors(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "home.py").touch()
    server = begin("VALUE = 'x'\n", "import views.home")
    reloads_by(server, "zygote", 3, "x", "import views.home")
    assert "nothing is imported in advance" not in server.said


def test_the_installed_command_is_not_the_authors(launch: Start, tmp_path: Path) -> None:
    """It is a script in a directory like any other, and what Python runs."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "poorhttp"
    # Away with "python -m poorhttp", so that what is left was said to this script.
    command.write_text("import sys\ndel sys.argv[1:4]\nfrom poorhttp.cli import entry\nentry()\n")
    (tmp_path / "app.py").write_text("import colorsys\n" + APP.format(number=0, before="").replace("library, ", ""))
    server = launch("dev", "app.py", "--port=0", inside=(sys.executable, str(command)))
    server.await_address()
    server.await_text("loaded in")
    is_prepared(server, 3)
    (tmp_path / "app.py").write_text("import colorsys\ndef application(environ, start_response):\n    1 / 0\n")
    assert server.get()[0] == 500
    server.await_text("(zygote)")


def test_threads_are_not_forked(begin: Begin) -> None:
    """The process that was prepared serves itself then."""
    library = (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\nVALUE = 'x'\n"
    )
    server = begin(library)
    reloads_by(server, "prepared: library starts threads)", 2, "x")


def test_descriptors_are_not_shared(begin: Begin) -> None:
    server = begin("import socket\nSOCKET = socket.socket()\nVALUE = 'x'\n")
    reloads_by(server, "prepared: library keeps descriptors)", 2, "x")


def test_files_are_not_shared(begin: Begin) -> None:
    """The first process that ends would remove those of all that come after."""
    library = "import os, tempfile\nPLACE = tempfile.TemporaryDirectory()\n"
    library += "def __getattr__(name):\n    if name != 'VALUE':\n        raise AttributeError(name)\n"
    library += "    return 'x' if os.path.isdir(PLACE.name) else 'gone'\n"
    server = begin(library)
    reloads_by(server, "prepared: library writes files)", 2, "x")


def test_memory_is_not_shared(begin: Begin) -> None:
    """A process that is killed with such a lock would keep it for all that come after."""
    server = begin("import multiprocessing\nLOCK = multiprocessing.Lock()\nVALUE = 'x'\n")
    reloads_by(server, "prepared: it has mapped memory)", 2, "x")


REFUSED = {
    "a variable": (
        "import os\nVALUE = os.environ.get('LEVEL', 'none')\n",
        "import os; os.environ['LEVEL'] = 'high'",
        "high",
        "the application sets LEVEL, which others read when they are imported",
    ),
    "a native variable": (
        "VALUE = 'x'\n",
        "import os; os.environ['OMP_NUM_THREADS'] = '1'",
        "x",
        "app.py sets OMP_NUM_THREADS",
    ),
    "a patch": (
        "import time\nVALUE = time.sleep.__name__\n",
        "import time\ndef patched(seconds): pass\ntime.sleep = patched",
        "patched",
        "time.sleep was replaced",
    ),
    "a class of loggers": (
        "import logging\nVALUE = type(logging.getLogger('library')).__name__\n",
        "import logging\nclass Own(logging.Logger): pass\nlogging.setLoggerClass(Own)",
        "Own",
        "logging._loggerClass was replaced",
    ),
    "a module in the place of another one": (
        "try:\n    import other\n    VALUE = other.__name__\nexcept ImportError:\n    VALUE = 'none'\n",
        "import colorsys, sys; sys.modules['other'] = colorsys",
        "colorsys",
        "other is another module now",
    ),
    "a finder": (
        "import sys\nVALUE = 'found' if hasattr(sys, 'asked') else 'not'\n",
        "import sys\nclass Finder:\n    def find_spec(*of): sys.asked = of\nsys.meta_path.insert(0, Finder)",
        "found",
        "modules are found in another way",
    ),
    "a handler": (
        "import signal\nsignal.signal(signal.SIGALRM, print)\nVALUE = 'x'\n",
        "",
        "x",
        "signal handlers were changed",
    ),
    "a plugin": ("import plugin\nVALUE = plugin.VALUE\n", "", "own", "plugin is the application's"),
    "a function": (
        "from json import dumps\nVALUE = dumps(1)\n",
        "import json\ndef patched(what): return 'patched'\njson.dumps = patched",
        "patched",
        "json.dumps was replaced",
    ),
    "a function in its own clothes": (
        "from json import dumps\nVALUE = dumps(1)\n",
        "import functools, json\n@functools.wraps(json.dumps)\ndef patched(what): return 'patched'\njson.dumps = patched",
        "patched",
        "json.dumps was replaced",
    ),
    "a function of a module that he imports": (
        "from colorsys import rgb_to_hsv\nVALUE = rgb_to_hsv()\n",
        "import colorsys\ncolorsys.rgb_to_hsv = lambda: 'own'",
        "own",
        "colorsys.rgb_to_hsv was replaced",
    ),
    "a function by another one": (
        "from colorsys import rgb_to_hsv\nVALUE = rgb_to_hsv.__name__\n",
        "import colorsys\ncolorsys.rgb_to_hsv = colorsys.rgb_to_hls",
        "rgb_to_hls",
        "colorsys.rgb_to_hsv was replaced",
    ),
    "a method": (
        "import json\nVALUE = json.dumps({'x'})\n",
        "import json\njson.JSONEncoder.default = lambda self, what: 1",
        "1",
        "json.encoder.JSONEncoder.default was replaced",
    ),
    "a function that was not there": (
        "import builtins\nVALUE = getattr(builtins, 'translate', str)('x')\n",
        "import builtins\nbuiltins.translate = lambda what: 'y'",
        "y",
        "builtins.translate was replaced",
    ),
    "a variable of a copy": (
        "import os\nVALUE = dict(os.environ).get('LEVEL', 'none')\n",
        "import os; os.environ['LEVEL'] = 'high'",
        "high",
        "the application sets LEVEL, which others read when they are imported",
    ),
    "a variable that goes": (
        "import os\nVALUE = os.environb.get(b'HOME', b'none').decode()\n",
        "import os; os.environ.pop('HOME')",
        "none",
        "the application sets HOME, which others read when they are imported",
    ),
    "a directory": (
        "import os\nVALUE = os.path.basename(os.getcwd())\n",
        "import os; os.chdir('/usr')",
        "usr",
        "the application changes the working directory",
    ),
    "arguments": (
        "import sys\nVALUE = sys.argv[-1]\n",
        "import sys; sys.argv[1:] = ['own']",
        "own",
        "the application changes sys.argv",
    ),
    "a limit": (
        "import sys\nVALUE = sys.getrecursionlimit()\n",
        "import sys; sys.setrecursionlimit(5000)",
        "5000",
        "the application changes the limit of recursion",
    ),
    "a precision": (
        "import decimal\nVALUE = decimal.Decimal(1) / 3\n",
        "import decimal; decimal.getcontext().prec = 3",
        "0.333",
        "the application changes the decimal context",
    ),
    "a mask": (
        "import os\nVALUE = os.umask(0)\nos.umask(VALUE)\n",
        "import os; os.umask(0o27)",
        "23",
        "the application changes the umask",
    ),
    "a filter": (
        "import warnings\ntry:\n    warnings.warn('x')\n    VALUE = 'warned'\nexcept UserWarning:\n    VALUE = 'raised'\n",
        "import warnings; warnings.simplefilter('error')",
        "raised",
        "the application changes which warnings are errors",
    ),
    "a locale": (
        "import locale\nVALUE = locale.setlocale(locale.LC_TIME)\n",
        "import locale; locale.setlocale(locale.LC_TIME, 'C.UTF-8')",
        "C.UTF-8",
        "the application changes the locale",
    ),
    "an order": (
        "import sys\nVALUE = 'yes' if sys.path[-1].endswith('site-packages') else 'no'\n",
        "import sys\nsys.path.append(sys.path.pop([x.endswith('site-packages') for x in sys.path].index(True)))",
        "yes",
        "the application changes the order of sys.path",
    ),
    "an exit": (
        "import sys\nif 'app' not in sys.modules: sys.exit('alone')\nVALUE = 'x'\n",
        "",
        "x",
        "library: SystemExit",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_the_author_is_not_imported_in_advance(begin: Begin, name: str) -> None:
    library, before, value, why = REFUSED[name]
    server = begin(library, before, plugin="VALUE = 'own'\n")
    assert server.get()[1].split()[1] == value
    reloads_by(server, f"cold: {why})", 2, value, before)
    server.await_text(f"nothing is imported in advance: {why}")


NEEDY = "import sys\nif 'app' not in sys.modules: raise RuntimeError('no settings')\nVALUE = 'x'\n"


def test_what_needs_the_application_is_imported_in_its_turn(begin: Begin, tmp_path: Path) -> None:
    """As models of Django need its settings; all else is imported in advance."""
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "needy.py").write_text(NEEDY)
    server = begin("import os\nVALUE = os.getpid()\n", "import needy")
    for number in range(1, 30):
        is_prepared(server, 3)
        imported_by = save(server, number, "import needy")
        if imported_by != server.get()[1].split()[2]:
            break
        time.sleep(0.1 * number)
    server.await_text("(zygote)")
    assert "nothing is imported in advance" not in server.said


def test_a_module_that_imports_one_which_needs_the_application_depends_on_it_too(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "needy.py").write_text(NEEDY)
    library = "try:\n    from needy import VALUE\nexcept RuntimeError:\n    VALUE = 'without'\n"
    server = begin(library)
    assert server.get()[1].split()[1] == "x"
    reloads_by(server, "cold: others ask for needy, which needs the application)", 2, "x")


def test_a_module_of_the_same_name_goes_before(begin: Begin, tmp_path: Path) -> None:
    """The author puts his own in front of the installed one, once that was imported in advance."""
    server = begin("VALUE = 'theirs'\n")
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "library.py").write_text("VALUE = 'own'\n")
    reloads_by(server, "zygote", 3, "theirs")
    before = "import sys; sys.path.insert(0, 'vendor')"
    for number in range(1, 4):
        assert save(server, number, before) == "own"


def test_a_module_that_imports_one_which_only_the_author_finds_depends_on_him(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "hidden.py").write_text("VALUE = 'own'\n")
    library = "try:\n    from hidden import VALUE\nexcept ImportError:\n    VALUE = 'none'\n"
    before = "import sys; sys.path.insert(0, 'vendor')"
    server = begin(library, before)
    assert server.get()[1].split()[1] == "own"
    reloads_by(server, "cold: hidden is the application's)", 2, "own", before)


SINCE = (
    "a variable",
    "a native variable",
    "a patch",
    "a finder",
    "a function by another one",
    "a variable of a copy",
    "a directory",
)


@pytest.mark.parametrize("name", SINCE)
def test_what_the_author_does_since_counts(begin: Begin, name: str) -> None:
    """He did nothing of it when the zygote was made."""
    library, before, value, why = REFUSED[name]
    server = begin(library)
    reloads_by(server, "zygote", 3, server.get()[1].split()[1])
    assert save(server, 1, before) == value
    server.await_text(f"nothing is imported in advance: {why}")


@pytest.mark.parametrize("name", ["a variable", "a patch", "a function", "a function by another one", "a directory"])
def test_what_the_author_does_no_more_counts_no_more(begin: Begin, name: str) -> None:
    library, before, value, why = REFUSED[name]
    server = begin(library)
    ordinary = server.get()[1].split()[1]
    reloads_by(server, "zygote", 3, ordinary)
    for number in range(1, 4):
        assert save(server, number, before) == value
        is_prepared(server, 2)
    server.await_text(f"(cold: {why})")
    reloads_by(server, "zygote", 3, ordinary, since=len(server.said))


def test_others_may_look_at_the_environment_for_their_children(begin: Begin) -> None:
    """Nothing of it stays."""
    library = "import ctypes.util\nctypes.util.find_library('c')\nVALUE = 'x'\n"
    before = "import os; os.environ['LEVEL'] = 'high'"
    reloads_by(begin(library, before), "zygote", 3, "x", before)


def test_what_was_installed_since_counts(begin: Begin, tmp_path: Path) -> None:
    server = begin("VALUE = 'old'\n")
    is_prepared(server, 3)
    assert save(server, 1) == "old"
    is_prepared(server, 3)
    fresh = tmp_path / "site-packages" / "fresh.py"
    fresh.write_text("VALUE = 'newer'\n")
    fresh.rename(tmp_path / "site-packages" / "library.py")
    assert save(server, 2) == "newer"


def test_a_killed_zygote_is_made_anew(begin: Begin) -> None:
    server = begin("VALUE = 'x'\n")
    reloads_by(server, "zygote", 3, "x")
    serving = int(server.get()[1].split()[2])
    for number in range(100, 103):
        is_prepared(server, 3)
        for pid in server.workers() - {serving}:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        assert save(server, number) == "x"
        serving = int(server.get()[1].split()[2])
    before = server.said.count("(zygote)")
    for number in range(1, 30):
        is_prepared(server, 3)
        save(server, number)
        if server.said.count("(zygote)") > before:
            return
        time.sleep(0.1 * number)
    pytest.fail("no zygote any more")


def test_a_process_that_waits_does_nothing(begin: Begin) -> None:
    """No process wakes up while nothing happens."""
    server = begin("VALUE = 'x'\n")
    reloads_by(server, "zygote", 3, "x")

    def switches() -> int:
        everybody = [psutil.Process(pid) for pid in (server.process.pid, *server.workers())]
        return sum(each.num_ctx_switches().voluntary for each in everybody)

    def is_quiet() -> bool:
        try:
            before = switches()
            time.sleep(2)
            return switches() - before <= 4
        except psutil.NoSuchProcess:  # one that finished what it had
            return False

    # On a busy machine what is still to be done may begin late.
    wait_for(is_quiet, "two seconds in which nobody wakes up")
