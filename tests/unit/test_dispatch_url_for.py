"""Paths that are built from a function of the table and its parameters."""

import re
import types
from urllib.parse import unquote

import pytest
from dispatching import call, shows, table
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import application
from poorhttp.dispatch.table import read_routes
from poorhttp.pages.document import escape


def built(target, *, handlers=None, environ=None, converters=None, **values):
    found = []
    names = {"converters": converters or {}}

    def asks(req):
        found.append(req.url_for(target, **values))
        return http.DONE

    names["handlers"] = {"/asks": (http.METHOD_GET, asks), **handlers}
    sent = call(application(types.SimpleNamespace(**names)), "/asks", **(environ or {}))
    assert sent.code == 200, sent.log
    return found[0]


def test_a_path_is_built_from_a_function_or_its_name():
    user, home = shows("user"), shows("home")
    handlers = {"/user/<id:int>/<name>": (http.METHOD_GET, user), "/": (http.METHOD_GET, home), "/home": (2, home)}
    assert built("user", handlers=handlers, id=5, name="a b&c/\u017e?"[:5]) == "/user/5/a%20b%26c"
    assert built(user, handlers=handlers, id=-5, name="\u017e?#%") == "/user/-5/%C5%BE%3F%23%25"
    assert built(home, handlers=handlers) == "/"
    assert built("home", handlers=handlers, environ={"SCRIPT_NAME": "/m\xc5\xbe"}) == "/m%C5%BE/"


def test_the_path_with_the_parameters_that_are_given():
    page = shows("page")
    handlers = {"/": (http.METHOD_GET, page), "/p/<n:int>": (http.METHOD_GET, page)}
    assert built(page, handlers=handlers) == "/"
    assert built(page, handlers=handlers, n=3) == "/p/3"


@pytest.mark.parametrize(
    ("pattern", "values", "error"),
    [
        ("/<a>", {}, "TypeError: '/<a>' takes the values a, not nothing"),
        ("/<a>", {"a": 1, "b": 2}, "TypeError: '/<a>' takes the values a, not a, b"),
        ("/<a>", {"a": ""}, "ValueError: the value '' of 'a' cannot stand in a path"),
        ("/<a>", {"a": "x/y"}, "ValueError: the value 'x/y' of 'a' cannot stand in a path"),
        ("/<a>", {"a": ".."}, "would lead elsewhere"),
        ("/x/<a>", {"a": "."}, "would lead elsewhere"),
        ("/<a:path>", {"a": "/evil.example"}, "would lead elsewhere"),
        ("/<a:path>", {"a": "x/../y"}, "would lead elsewhere"),
        ("/<a>", {"a": "\ud800"}, "UnicodeEncodeError"),
        ("/<a:int>", {"a": "5x"}, "ValueError: the value '5x' of 'a' cannot stand in a path: not an integer"),
        ("/<a:int>", {"a": True}, "ValueError"),
        ("/<a:float>", {"a": float("nan")}, "ValueError"),
        ("/<a:year>", {"a": 99}, "ValueError: the value 99 of 'a' cannot stand in a path: not of the form"),
    ],
)
def test_what_cannot_be_built(pattern, values, error):
    app = {}

    def asks(req):
        req.url_for("page", **values)

    handlers = {pattern: (http.METHOD_GET, shows("page")), "/asks": (http.METHOD_GET, asks)}
    app = application(table(handlers=handlers, converters={"year": ("[0-9]{4}", int)}), debug=True)
    sent = call(app, "/asks")
    assert sent.code == 500 and escape(error) in sent.text


@pytest.mark.parametrize(
    ("patterns", "values", "says"),
    [
        (["/<a>.<b>"], {"a": "archive.tar", "b": "gz"}, "would find other values than"),
        (["/x/<n:int>/<a>--<b>-<c>"], {"n": 1, "a": "1", "b": "2-3", "c": "4"}, "would find other values than"),
        (["/user/<a>", "/user/new"], {"a": "new"}, "would lead to handlers['/user/new']: '/user/new'"),
        (["/n/<a>", "/n/<i:int>"], {"a": "5"}, "would lead to handlers['/n/<i:int>']: '/n/5'"),
        (["/<a:path>", "/x/<b>"], {"a": "x/y"}, "would lead to handlers['/x/<b>']: '/x/y'"),
    ],
)
def test_a_path_that_would_be_read_back_otherwise_is_not_built(patterns, values, says):
    page = shows("page")
    handlers = {pattern: (http.METHOD_GET, shows(pattern)) for pattern in patterns}
    routes = read_routes(table(handlers={**handlers, patterns[0]: (http.METHOD_GET, page)}))
    with pytest.raises(ValueError, match=re.escape(says)):
        routes.build(page, values)


@pytest.mark.parametrize(
    ("pattern", "values", "path"),
    [
        ("/<a>.<b>", {"a": "archive", "b": "tar.gz"}, "/archive.tar.gz"),
        ("/<a>.<b>", {"a": ".a", "b": "b."}, "/.a.b."),
        ("/<a>-<b>/<c>-<d>.html", {"a": "1", "b": "2-", "c": "-", "d": "x.html"}, "/1-2-/--x.html.html"),
        ("/<a>--<b>", {"a": "x-", "b": "y"}, None),
        ("/<a>'&<b>", {"a": "a'b", "b": "&lt;"}, "/a%27b%27%26%26lt;"),
        ("/<a>/<rest:path>", {"a": "a'b", "rest": "c&d/e'"}, "/a%27b/c%26d/e%27"),
    ],
)
def test_values_beside_each_other(pattern, values, path):
    page = shows("page")
    routes = read_routes(table(handlers={pattern: (http.METHOD_GET, page)}))
    if path is None:
        with pytest.raises(ValueError, match="would find other values"):
            routes.build(page, values)
    else:
        assert routes.build(page, values) == path
        assert routes.find(unquote(path))[2] == list(values.values())


def test_an_unknown_or_ambiguous_function():
    one, other = shows("page"), shows("page")
    handlers = {"/1/<a>": (http.METHOD_GET, one), "/2/<a>": (http.METHOD_GET, other)}
    for target, says in ("missing", "no entry of the table has the function missing"), ("page", "several functions"):
        app = application(table(lambda req, target=target: req.url_for(target, a=1)), debug=True)
        if target == "page":
            handlers["/"] = (http.METHOD_GET, lambda req: req.url_for("page", a=1))
            app = application(table(handlers=handlers), debug=True)
        sent = call(app)
        assert sent.code == 500 and says in sent.text
    assert built(other, handlers=handlers, a=1) == "/2/1"


KINDS = {
    "": st.text(min_size=1),
    ":int": st.integers(-(10**20), 10**20),
    ":float": st.floats(-1e15, 1e15).filter(lambda number: "e" not in str(number)),
    ":word": st.from_regex(r"\w+", fullmatch=True),
    ":hex": st.from_regex("[0-9a-fA-F]+", fullmatch=True),
    ":uuid": st.uuids(),
    ":re:[^/]{2,5}:": st.from_regex("[^/]{2,5}", fullmatch=True),
    ":path": st.text(min_size=1),
}


@pytest.mark.parametrize("kind", KINDS)
@given(st.data())
def test_what_is_built_is_read_back(kind, data):
    from urllib.parse import unquote_to_bytes

    value = data.draw(KINDS[kind])
    got, paths = [], []

    def page(req, value):
        got.append(value)
        return http.DONE

    def asks(req):
        try:
            paths.append(req.url_for(page, v=value))
        except ValueError:
            paths.append(None)
        return http.DONE

    app = application(table(handlers={f"/x/<v{kind}>": (2, page), "/asks": (2, asks)}))
    call(app, "/asks")
    (path,) = paths
    if path is None:
        text = str(value)
        is_dotted = not {".", ".."}.isdisjoint(text.split("/"))
        is_encodable = text.isprintable() or not any("\ud800" <= char <= "\udfff" for char in text)
        assert is_dotted or not is_encodable or ("/" in text and kind != ":path")
        return
    assert path.isascii() and path.startswith("/x/") and not {"?", "#", " ", "\\", '"', "<"} & set(path)
    call(app, unquote_to_bytes(path).decode("latin-1"))
    assert got == [value]
