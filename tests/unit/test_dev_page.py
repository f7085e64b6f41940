"""Error pages of a server in the making: what they show, to whom, and what they never do."""

import contextlib
import json
import re
import sys
from importlib import import_module

import pytest
from error_pages import HTML, LOCAL, STATUS, body, raised

from poorhttp.app.places import seen
from poorhttp.config.addresses import Address
from poorhttp.config.settings import SETTINGS
from poorhttp.dev import settings
from poorhttp.dev.page import pages, problem
from poorhttp.errors import ConfigError


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/html,*/*;q=0.8", "text/html; charset=utf-8"),
        ("TEXT/HTML", "text/html; charset=utf-8"),
        ("text/html;q=0, */*", "text/plain; charset=utf-8"),
        ("*/*", "text/plain; charset=utf-8"),
        ("text/*", "text/plain; charset=utf-8"),
        ("", "text/plain; charset=utf-8"),
        ("application/json", "application/problem+json"),
        ("application/problem+json, */*", "application/problem+json"),
        ("application/vnd.api+json", "application/problem+json"),
        ("image/png", "text/plain; charset=utf-8"),
    ],
)
def test_what_the_client_names_is_what_it_gets(accept, kind):
    assert body(ValueError("wrong"), HTTP_ACCEPT=accept)[0] == kind


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]", "[::1]:8080", "app.localhost:1", "localhost.:80"]
)
@pytest.mark.parametrize("remote", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
def test_this_machine_may_see_it(host, remote):
    environ = {"REMOTE_ADDR": remote, "HTTP_HOST": host, "HTTP_DNT": "1", "HTTP_SEC_FETCH_SITE": "none"}
    assert pages.may_see({**environ, "HTTP_CACHE_CONTROL": "no-cache", "HTTP_X_SKIP": "1", "HTTP_AVIATION": "1"})


@pytest.mark.parametrize(
    ("host", "is_it"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("127.0.0.1.nip.io", False),
        ("127.attacker.example", False),
        ("128.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:192.0.2.1", False),
        ("", False),
    ],
)
def test_loopback_is_an_address_not_a_name(host, is_it):
    assert settings.is_loopback(host) is is_it
    if host:
        with (
            contextlib.nullcontext()
            if is_it
            else pytest.raises(ConfigError, match="can be reached from other machines")
        ):
            settings.refuse_public((Address(host=host, port=1),))


@pytest.mark.parametrize(
    "change",
    [
        {"REMOTE_ADDR": "192.0.2.1"},
        {"REMOTE_ADDR": ""},
        {"REMOTE_ADDR": "::ffff:192.0.2.1"},
        {"HTTP_HOST": "attacker.example"},
        {"HTTP_HOST": "attacker.example:80"},
        {"HTTP_HOST": "localhost.attacker.example"},
        {"HTTP_HOST": "attackerlocalhost"},
        {"HTTP_HOST": "127.0.0.1.nip.io"},
        {"HTTP_HOST": "localhost:80@attacker.example"},
        {"HTTP_HOST": ".localhost"},
        {"HTTP_HOST": ""},
        {"HTTP_X_FORWARDED_FOR": "192.0.2.1"},
        {"HTTP_X_FORWARDED_HOST": "example.com"},
        {"HTTP_FORWARDED": "for=192.0.2.1"},
        {"HTTP_VIA": "1.1 proxy"},
        {"HTTP_X_REAL_IP": "192.0.2.1"},
        {"HTTP_CF_CONNECTING_IP": "192.0.2.1"},
        {"HTTP_CF_RAY": "1"},
        {"HTTP_CDN_LOOP": "cloudflare"},
        {"HTTP_TRUE_CLIENT_IP": "192.0.2.1"},
        {"HTTP_X_CLIENT_IP": "192.0.2.1"},
        {"HTTP_X_AZURE_CLIENTIP": "192.0.2.1"},
        {"HTTP_FASTLY_CLIENT_IP": "192.0.2.1"},
        {"HTTP_X_ORIGINAL_HOST": "example.com"},
        {"HTTP_X_ORIGINAL_FORWARDED_FOR": "192.0.2.1"},
        {"HTTP_X_ENVOY_EXTERNAL_ADDRESS": "192.0.2.1"},
        {"HTTP_X_REMOTE_ADDR": "192.0.2.1"},
        {"poorhttp.forwarded": True},
        {"REMOTE_ADDR": "127.attacker.example"},
    ],
    ids=str,
)
@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
def test_nobody_else_does(change, accept):
    error = raised("hidden = 'in the source'\nraise ValueError('hidden')\n")
    _, _, data = pages.answer(problem.of(error), {**LOCAL, "HTTP_ACCEPT": accept, **change}, STATUS)
    assert b"hidden" not in data and b"views" not in data and b"Traceback" not in data
    assert b"Internal Server Error" in data


def test_text_is_what_python_says():
    error = raised("def f():\n    return usr\nuser = 1\nf()\n")
    _, text = body(error, HTTP_ACCEPT="*/*")
    assert text.startswith("Traceback (most recent call last):\n")
    assert '  File "/author/views.py", line 2, in f\n    return usr\n' in text
    assert "NameError: name 'usr' is not defined" in text
    assert "Did you mean: 'user'?" in text or "\nhint: did you mean user?\n" in text
    assert "\n/author/views.py:2\n" in text
    if sys.version_info >= (3, 11):
        assert "           ^^^" in text


def test_frames_of_importing_are_left_out_by_their_place_alone():
    error = raised(
        "def f():\n    import_module('no_such_module')\nf()\n", "/importlib/a.py", import_module=import_module
    )
    _, text = body(error)
    assert text.count('File "') == text.count('File "/importlib/a.py"') == 2


def test_causes_contexts_and_notes():
    source = (
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
        "    new = ValueError('second')\n    new.__notes__ = ['a note']\n    raise new from error\n"
    )
    _, text = body(raised(source))
    assert (
        text.index("ZeroDivisionError: division by zero")
        < text.index("direct cause")
        < text.index("ValueError: second")
    )
    if sys.version_info >= (3, 11):
        assert "a note" in text
    _, text = body(raised("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise KeyError('second')\n"))
    assert "During handling of the above exception" in text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_groups():
    _, text = body(
        raised("raise ExceptionGroup('many', [ValueError('one'), ExceptionGroup('more', [TypeError('two')])])")
    )
    for each in "many (2 sub-exceptions)", "part 1:", "ValueError: one", "TypeError: two":
        assert each in text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
@pytest.mark.parametrize("accept", ["text/html", "*/*", "application/json"])
def test_groups_are_bounded_and_say_how_many_are_left_out(accept):
    wide = raised("raise ExceptionGroup('many', [ValueError(f'number {n}.') for n in range(20_000)])\n")
    text = body(wide, HTTP_ACCEPT=accept)[1]
    assert "number 14." in text and "number 15." not in text and len(text) < 20_000
    assert "ExceptionGroup, the other parts:" in text and "left out: 19985 of 20000" in text
    nest = "for n in range({}):\n    error = ExceptionGroup(f'level {{n}}.', [error] * {})\nraise error\n"
    text = body(raised(nest.format(50, 1), error=ValueError("inmost")), HTTP_ACCEPT=accept)[1]
    assert "level 39." in text and "level 38." not in text and "left out: 1 of 1" in text
    text = body(raised(nest.format(4, 15), error=ValueError("inmost")), HTTP_ACCEPT=accept)[1]
    assert "level 0." in text and "left out: 14 of 15" in text and len(text) < 60_000


@pytest.mark.parametrize(
    ("error", "title"),
    [
        (KeyError("a  b"), "KeyError: 'a  b'"),
        (KeyError(), "KeyError"),
        (ValueError("\n  on the second line\n"), "ValueError: on the second line"),
        (LookupError("400 Bad Request\n\nKeyError: 'name'"), "LookupError: 400 Bad Request KeyError: 'name'"),
        (LookupError('no such tag\n  File "a.html"'), 'LookupError: no such tag File "a.html"'),
        (SyntaxError("wrong", ("/author/a.py", 1, 3, "a b")), "SyntaxError: wrong"),
    ],
    ids=str,
)
def test_the_title_has_the_whole_message_in_one_line(error, title):
    error.__notes__ = ["a note"]
    assert problem.of(error)["title"] == title


def test_json_is_a_problem():
    _, text = body(raised("def f():\n    1 / 0\nf()\n"), HTTP_ACCEPT="application/json")
    told = json.loads(text)
    assert (told["type"], told["title"], told["status"]) == ("about:blank", "Internal Server Error", 500)
    assert told["detail"] == "ZeroDivisionError: division by zero"
    assert told["where"] == "/author/views.py:2"
    assert told["frames"][-1] == {"file": "/author/views.py", "line": 2, "name": "f", "theirs": True}


def test_html_opens_own_frames_and_folds_others():
    error = raised("import json\ndef f():\n    value = 'seen'\n    json.loads(value)\nf()\n")
    _, text = body(error, **HTML)
    own = re.findall(r'<details class="own" open>.*?</details>', text, re.DOTALL)
    assert len(own) == 2 and "json.loads(value)" in own[1] and "<mark>" in own[1]
    assert re.search(r"<details><summary><code>[^<]*decoder\.py:\d+", text)
    assert "&#x27;seen&#x27;" in text  # a variable
    assert "GET /a?b=c" in text


def test_what_has_no_frames_is_told_once():
    try:
        compile("x = = 1\n", "/author/views.py", "exec")
    except SyntaxError as error:
        _, text = body(error.with_traceback(None), **HTML)
    assert text.count("x = = 1") == 1 and "As Python shows it" not in text
    assert "As Python shows it" in body(raised("exec('x = = 1')\n"), **HTML)[1]
    _, _, data = pages.answer(problem.plain("still importing"), HTML, STATUS)
    assert b"As Python shows it" not in data
    assert b"of the end" in pages.answer(problem.plain("dead", text="of the end"), HTML, STATUS)[2]


@pytest.mark.parametrize("accept", ["text/html", "*/*", "application/json"])
@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "</pre><img src=x>", '" onload="', "\ud800\x00", "é€😀"])
def test_everything_is_escaped(text, accept):
    source = f"def f(value):\n    # {text if text.isprintable() else ''}\n    raise ValueError(value)\nf(value)\n"
    environ = {"HTTP_ACCEPT": accept, "HTTP_X_THING": text, "REQUEST_URI": text, "HTTP_USER_AGENT": text}
    kind, shown = body(raised(source, value=text), **environ)
    if kind.startswith("text/html"):
        assert "<script" not in shown and "<img" not in shown and 'onload="' not in shown.replace("&quot;", "")
    elif kind == "application/problem+json":
        told = json.loads(shown)
        assert told["detail"] == f"ValueError: {text}"
        assert told["traceback"].endswith(f"ValueError: {text}\n")
        assert all(each.isprintable() or each == "\n" for each in shown) and shown.isascii()
    else:
        assert not [each for each in shown if not (each.isprintable() or each in "\n\t")]
        assert ("ValueError: " + text.replace("\ud800\x00", "\\ud800\\x00") + "\n") in shown


PATHS = {
    "/author/views.py": "/author/views.py",
    '/a b/it\'s "so".py': "/a%20b/it%27s%20%22so%22.py",
    "/a/<b>&{line}?#%:1.py": "/a/%3Cb%3E%26%7Bline%7D%3F%23%25%3A1.py",
    "/é/日本.py": "/%C3%A9/%E6%97%A5%E6%9C%AC.py",
    "/a/\udcff\x1b.py": "/a/%FF%1B.py",
}


@pytest.mark.parametrize("path", PATHS, ids=ascii)
def test_places_are_links_to_the_editor(path):
    """The place on top, and that of each frame."""
    told = problem.of(raised("def f():\n    1 / 0\nf()\n"))
    told["file"] = path
    for frame in told["sections"][0]["frames"]:
        frame["file"] = path
    for editor, href in [
        (SETTINGS["editor"].default, f"vscode://file{PATHS[path]}:2"),
        ("x-e.d+1://open?url=file://{path}&line={line}", f"x-e.d+1://open?url=file://{PATHS[path]}&amp;line=2"),
        ("idea:{path}", f"idea:{PATHS[path]}"),
    ]:
        _, _, data = pages.answer(told, HTML, STATUS, 0, editor)
        links = re.findall(r'<a href="([^"<>]*)"><code>', data.decode())
        assert len(links) == data.count(b"<a") == data.count(b"href") == 3
        assert links[0] == links[2] == href
        for change in {"HTTP_HOST": "attacker.example"}, {"HTTP_ACCEPT": "application/json"}, {"HTTP_ACCEPT": "*/*"}:
            assert b"<a" not in pages.answer(told, {**HTML, **change}, STATUS, 0, editor)[2]
    assert b"<a" not in pages.answer(told, HTML, STATUS)[2]


@pytest.mark.parametrize("file", ["<string>", "<frozen importlib>", "", "/a/\ud800.py"], ids=ascii)
def test_what_is_no_file_is_no_link(file):
    told = problem.of(raised("1 / 0\n"))
    told["file"] = told["sections"][0]["frames"][0]["file"] = file
    assert b"<a" not in pages.answer(told, HTML, STATUS, 0, SETTINGS["editor"].default)[2]
    assert b"<a" not in pages.answer(problem.plain("still importing"), HTML, STATUS, 1, SETTINGS["editor"].default)[2]


def test_the_page_does_nothing_by_itself():
    _, fields, data = pages.answer(problem.of(ValueError("wrong")), HTML, STATUS)
    told = dict(fields)
    assert told["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    assert told["Content-Security-Policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in told["Content-Security-Policy"]
    assert told["Cache-Control"] == "no-store" and told["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in told
    assert not re.search(rb"<(script|form|a|iframe|img|link|input|button)\b", data)
    assert b'http-equiv="refresh"' not in data
    error = raised("def f():\n    1 / 0\nf()\n")
    _, _, data = pages.answer(problem.of(error), HTML, STATUS, 0, SETTINGS["editor"].default)
    assert not re.search(rb"<(script|form|iframe|img|link|input|button)\b|\b(on\w+|ping|target|download)=", data)
    _, fields, data = pages.answer(problem.plain("still importing"), HTML, "503 Service Unavailable", 1)
    assert b'http-equiv="refresh" content="1"' in data and dict(fields)["Retry-After"] == "1"


@pytest.mark.parametrize("accept", ["text/html", "*/*"])
def test_no_terminal_is_given_an_order(accept):
    text = "a\x1b]0;title\x07\x9b2J\rb\u202ec\x7f\tä"
    error = raised("raise ValueError(given)\n", given=text)
    assert text in json.loads(body(error, HTTP_ACCEPT="application/json")[1])["traceback"]
    _, text = body(error, HTTP_ACCEPT=accept, HTTP_X_THING="\x9b2J")
    assert not [each for each in text if not (each.isprintable() or each in "\n\t")]
    assert "a\\x1b]0;title\\x07\\x9b2J\\rb\\u202ec\\x7f\tä" in text


def test_a_path_is_shown_as_it_is_seen_from_the_current_directory_if_there_is_one(tmp_path, monkeypatch):
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    within, beside = str(place / "app.py"), str(tmp_path / "app.py")
    assert [seen(each) for each in (within, beside, "app.py")] == ["app.py", beside, "app.py"]
    place.rmdir()
    assert [seen(each) for each in (within, beside, "app.py")] == [within, beside, "app.py"]


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_nothing_that_a_class_says_of_itself_costs_the_page(error):
    """Nor what Python asks its instances when it sorts them, nor the dict in which a class is made."""

    def fail(*_):
        raise error

    lies = {"__getattribute__": fail, "__eq__": fail, "__hash__": type.__hash__, "__repr__": fail}
    meta = type("Meta", (type,), lies)
    liar = meta("Liar", (), {"__lt__": fail})
    nowhere = type("Nowhere", (), {"__module__": liar()})
    text = type("Text", (str,), {"__format__": fail, "__str__": fail})
    named = type("Named", (), {})
    named.__qualname__ = text("Named")
    given = {"a": liar(), "b": liar, "c": {liar(), liar()}, "d": nowhere(), "e": named(), "f": frozenset("x")}
    shown = body(raised("def f(a, b, c, d, e, f):\n    raise ValueError('seen')\nf(**given)\n", given=given), **HTML)[1]
    assert "ValueError: seen" in shown and "/author/views.py:2" in shown
    for each in ".Liar&gt;", ".Meta&gt;", "set([&lt;", "&lt;Nowhere, which cannot be shown: TypeError", ".Named&gt;":
        assert each in shown
    assert "frozenset([&#x27;x&#x27;])" in shown
    space = type("Space", (dict,), {"items": fail, "keys": fail, "__iter__": fail})
    making = type("Making", (type,), {"__prepare__": lambda *_: space()})
    shown = body(raised("class A(metaclass=making):\n    raise ValueError('seen')\n", making=making))[1]
    assert "ValueError: seen" in shown and "in A\n" in shown
    lying = meta("Lying", (Exception,), {})
    shown = body(raised("raise given\n", given=lying("hidden")))[1]
    assert f"Lying, which cannot be shown: {error.__name__}\n" in shown
    assert '"/author/views.py", line 1' in shown


def test_descriptions_are_bounded():
    names = {"long": "x" * 100_000, "wide": list(range(100_000)), "many": {n: n for n in range(100_000)}}
    deep = []
    for _ in range(2000):
        deep = [deep]
    error = raised(
        "def f(long, wide, many, deep):\n    raise ValueError(long)\nf(**given)\n", given={**names, "deep": deep}
    )
    assert len(body(error, **HTML)[1]) < 40_000
    told = problem.of(raised("def f(n):\n    f(n + 1)\nf(0)\n"))
    assert re.search(r"\n  \[left out: \d{3,} calls]\n  File", told["trace"])
    assert len(json.dumps(problem.bounded(told, 50_000))) < 120_000


def test_a_fault_of_the_configuration_has_its_hint():
    told = problem.of(ConfigError("unknown key: 'prot'", "did you mean port?"))
    assert (told["title"], told["hint"], told["sections"]) == ("unknown key: 'prot'", "did you mean port?", [])
    assert pages.text_of(told) == "unknown key: 'prot'\n\nhint: did you mean port?\n"


def test_an_exception_that_hides_its_traceback_costs_no_page():
    class Hiding(Exception):
        @property
        def __traceback__(self):
            raise SystemExit

    with pytest.raises(Hiding) as caught:
        raise Hiding
    assert "Hiding" in body(caught.value)[1]


def test_a_module_whose_source_cannot_be_told_costs_no_page():
    import linecache

    class Loader:
        def get_source(self, name):
            raise ValueError("none")

    error = raised("raise KeyError('seen')\n", file="/author/odd.py", __loader__=Loader(), __name__="odd")
    del linecache.cache["/author/odd.py"]
    assert "KeyError" in body(error)[1]
