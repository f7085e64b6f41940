"""Patterns of a dispatch table: what they match, in which order, what is refused at load, and paths built from them."""

import contextlib
import re
import subprocess
import sys
import timeit
import types
import uuid
from pathlib import Path
from urllib.parse import unquote

import pytest
from dispatching import answer, call, raises, table, write
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import Table, TableError, application
from poorhttp.dispatch.converters import BUILT_IN
from poorhttp.dispatch.pages import escape
from poorhttp.dispatch.table import read_routes

ROOT = Path(__file__).resolve().parents[2]


def shows(name):
    """A handler that writes `name` and the values that it was given."""

    def handler(req, *values):
        assert list(req.path_args.values()) == list(values)
        req.content_type = "text/plain"
        req.write(repr((name, *values)))
        return http.DONE

    handler.__name__ = name
    return handler


def routed(*patterns, **names):
    """An application whose handlers show by which pattern they were reached."""
    return application(table(handlers={each: (http.METHOD_GET, shows(each)) for each in patterns}, **names))


def reached(app, path):
    """(pattern, value, ...) of the handler that answered; None for 404."""
    sent = call(app, path.encode().decode("latin-1"))
    assert sent.code in (200, 404), sent.log
    return eval(sent.text, {"UUID": uuid.UUID}) if sent.code == 200 else None


def in_table(pattern, **names):
    return application(table(handlers={pattern: (http.METHOD_GET, lambda req, *values: http.DONE)}, **names))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("", "Jo\u017eka o'Neil", "Jo\u017eka o'Neil"),
        ("", "..", ".."),
        (":int", "007", 7),
        (":int", "-5", -5),
        (":float", "2.5", 2.5),
        (":float", "-3", -3.0),
        (":word", "w\xf6rd_1", "w\xf6rd_1"),
        (":hex", "C0ffee", "C0ffee"),
        (":uuid", "01234567-89ab-cdef-0123-456789ABCDEF", uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")),
        (":re:[a-c]+:", "abc", "abc"),
        (":re:<(x|y)>:", "<x>", "<x>"),
        (":path", "a/b//c/", "a/b//c/"),
        (":year", "1999", 1999),
        (":even", "12", 12),
    ],
)
def test_a_value_of_each_kind(kind, text, value):
    def even(text):
        if int(text) % 2:
            raise ValueError("odd")
        return int(text)

    app = routed(f"/x/<v{kind}>", converters={"year": (r"[0-9]{4}", int), "even": (r"[0-9]+", even)})
    assert reached(app, f"/x/{text}") == (f"/x/<v{kind}>", value)
    for path in ("/x/", "/x", "/y/" + text, f"/x/{text}\n"):
        assert kind in ("", ":path") or reached(app, path) is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("", "a/b"),
        (":int", "5.0"),
        (":int", "+5"),
        (":int", "1_0"),
        (":int", " 5"),
        (":int", "\u0665"),
        (":int", "-"),
        (":int", "--5"),
        (":int", "9" * 5000),
        (":float", "."),
        (":float", "1."),
        (":float", ".5"),
        (":float", "1e5"),
        (":float", "inf"),
        (":float", "nan"),
        (":float", "9" * 400),
        (":word", "a-b"),
        (":hex", "0x1"),
        (":uuid", "0123456789abcdef0123456789abcdef"),
        (":uuid", "{01234567-89ab-cdef-0123-456789abcdef}"),
        (":re:[a-c]+:", "abcd"),
        (":re:.*:", ""),
        (":path", ""),
        (":even", "13"),
    ],
)
def test_a_text_of_another_kind_is_not_found(kind, text):
    def even(text):
        if int(text) % 2:
            raise ValueError("odd")
        return int(text)

    assert reached(routed(f"/x/<v{kind}>", converters={"even": (r"[0-9]+", even)}), f"/x/{text}") is None


def test_values_come_in_order_and_by_name():
    def handler(req, year, title):
        assert req.path_args == {"year": year, "title": title}
        req.write(f"{year + 1} {title}")
        return http.DONE

    app = application(table(handlers={"/<year:int>/<title>.html": (http.METHOD_GET, handler)}))
    assert call(app, "/1999/a.html.html").text == "2000 a.html"
    assert answer(lambda req: req.write(repr(req.path_args)) or http.DONE).text == "{}"


@pytest.mark.parametrize(
    ("pattern", "path", "values"),
    [
        ("/<a>-<b>", "/x-y-z", ("x", "y-z")),
        ("/<a:int>-<b:int>", "/-5--3", (-5, -3)),
        ("/<name>.<ending>", "/archive.tar.gz", ("archive", "tar.gz")),
        ("/<name>.<ending>", "/.hidden", None),
        ("/v<a>", "/v", None),
        ("/v<a>v", "/vv", None),
        ("/v<a>v", "/vvv", ("v",)),
        ("/<a>", "/", None),
        ("/<a>/", "/x/", ("x",)),
        ("/<a>/", "/x", None),
        ("/<a>//<b>", "/x//y", ("x", "y")),
    ],
)
def test_text_around_parameters(pattern, path, values):
    assert reached(routed(pattern), path) == (values if values is None else (pattern, *values))


ORDER = [
    ("/x/me", "/x/me"),
    ("/x/v<n:int>", "/x/v7"),
    ("/x/<n>.html", "/x/7.html"),
    ("/x/<n:re:2[0-9]{3}:>", "/x/2024"),
    ("/x/<n:uuid>", "/x/01234567-89ab-cdef-0123-456789abcdef"),
    ("/x/<n:int>", "/x/7"),
    ("/x/<n:float>", "/x/7.5"),
    ("/x/<n:hex>", "/x/7f"),
    ("/x/<n:word>", "/x/word"),
    ("/x/<n>", "/x/a word"),
    ("/x/<n:path>", "/x/a/word"),
]


@pytest.mark.parametrize("patterns", [ORDER, ORDER[::-1]], ids=["narrow first", "wide first"])
def test_the_narrower_pattern_wins_in_any_order_of_the_table(patterns):
    app = routed(*[pattern for pattern, _ in patterns])
    for pattern, path in patterns:
        found = reached(app, path)
        assert found is not None and found[0] == pattern


def test_a_path_that_is_no_text_has_no_parameters():
    def leads_elsewhere(req):
        req.uri = "/\udcff"

    app = routed("/<name>", "/<rest:path>", setreq=leads_elsewhere)
    assert call(app, "/x").code == 404


def test_a_branch_that_ends_nowhere_is_left_again():
    app = routed("/user/admin/log", "/user/admin/<x>/log", "/user/<name>/edit", "/<rest:path>")
    assert reached(app, "/user/admin/edit") == ("/user/<name>/edit", "admin")
    assert reached(app, "/user/admin/log") == ("/user/admin/log",)
    assert reached(app, "/user/admin/x") == ("/<rest:path>", "user/admin/x")


def test_regular_expressions_are_tried_in_the_order_of_the_table():
    app = routed("/<a:re:[a-m]+:>", "/<b:re:[a-z]+:>")
    assert reached(app, "/abc") == ("/<a:re:[a-m]+:>", "abc")
    assert reached(app, "/xyz") == ("/<b:re:[a-z]+:>", "xyz")


def test_a_converter_that_fails_is_a_500():
    app = in_table("/<x:bad>", converters={"bad": (".+", raises(KeyError("lost")))})
    assert call(app, "/x").code == 500


# What is wrong with a table


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("/<", "a < without its end"),
        ("/<name", "a < without its end"),
        ("/<name:re:[a-z]+>", "a < without its end"),
        ("/name>", "a > without a <"),
        ("/<>", "the parameter ''"),
        ("/<a b>", "the parameter 'a b'"),
        (
            "/<name:itn>",
            "unknown converter 'itn'; expected <name:converter>, .* :uuid, :int, :float, :hex, :word, :path, :re",
        ),
        ("/<name:>", "unknown converter ''"),
        ("/<int:id>", "unknown converter 'id': did you mean <id:int>\\?"),
        ("/<name:re:[:>", "regular expression '\\['"),
        ("/<name:re::>", "an empty regular expression"),
        ("/<a><b>", "two parameters with nothing between"),
        ("/<a>/<a>", "the parameter 'a' twice"),
        ("/<a:path>/x", "not the whole end"),
        ("/x<a:path>", "not the whole end"),
        ("/<a:path>.html", "not the whole end"),
        ("user/<name>", "a path that begins with /"),
    ],
)
def test_a_wrong_pattern_is_refused_at_load(pattern, says):
    with pytest.raises(TableError, match=says):
        in_table(pattern)


@pytest.mark.parametrize(
    ("converters", "says"),
    [
        ([], "no dict; expected converters = "),
        ({"int": (".", str)}, ":int is built in"),
        ({"a b": (".", str)}, "the key 'a b'"),
        ({"re": (".", str)}, "the key 're'"),
        ({"a": str}, "converters\\['a'\\] is <class 'str'>; expected converters = "),
        ({"a": ".+"}, "converters\\['a'\\] is '.\\+'"),
        ({"a": (".+", None)}, "None, which cannot be called; expected a function of one argument, the text"),
        ({"a": ("(", str)}, "regular expression '\\('"),
        ({"a": ("x{99999999999}", str)}, "regular expression"),
    ],
)
def test_a_wrong_converter_is_refused_at_load(converters, says):
    with pytest.raises(TableError, match=says):
        in_table("/", converters=converters)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/user/<name>", "/user/<id>"),
        ("/<a:int>/<b>", "/<x:int>/<y>"),
        ("/<a:path>", "/<b:path>"),
        ("/v<a>-<b:int>", "/v<x>-<y:int>"),
        ("/<a:re:[a-z]+:>", "/<b:re:[a-z]+:>"),
    ],
)
def test_two_entries_for_the_same_paths_are_refused_and_named(one, other):
    with pytest.raises(TableError) as caught:
        routed(one, other)
    assert f"handlers[{one!r}] and handlers[{other!r}] are for the same paths" in str(caught.value)


@pytest.mark.parametrize(
    ("dead", "taker"),
    [
        ("/x/<name>", "/x/<all:re:.+:>"),
        ("/x/<n:int>", "/x/<all:re:[^/]+:>"),
        ("/x/<n:int>/<m>", "/x/<all:re:.*:>/<m>"),
        ("/x/v<name>", "/x/v<all:re:.+:>"),
    ],
)
def test_an_entry_that_no_path_reaches_is_refused_with_the_one_that_takes_its_paths(dead, taker):
    for order in ((dead, taker), (taker, dead)):
        with pytest.raises(TableError) as caught:
            routed(*order)
        assert f"no path reaches handlers[{dead!r}]: handlers[{taker!r}] takes them all" in str(caught.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/<a>", "/<b:re:[^@]+:>"),
        ("/<a>", "/<b:re:.{1,255}:>"),
        ("/<a>", "/<b:re:..+:>"),
        ("/<a>/<b>", "/<a:int>/<b>"),
        ("/<a>/<b:int>", "/<a:int>/<b>"),
        ("/<a:int>", "/<b:re:[0-9]+:>"),
        ("/<a>", "/<b>.html"),
        ("/<a:path>", "/<b>"),
    ],
)
def test_entries_that_share_some_paths_are_allowed(one, other):
    routed(one, other)


def test_a_converter_with_a_function_of_its_own_is_not_tried_at_load():
    called = []
    routed("/<a>", "/<b:user>", converters={"user": (".+", called.append)})
    assert called == []


@pytest.mark.parametrize(
    ("pattern", "function"),
    [
        ("/<a>", lambda req: 0),
        ("/<a>", lambda req, a, b: 0),
        ("/", lambda req, a: 0),
        ("/", lambda: 0),
        ("/<a>/<b>", lambda req, a, /: 0),
    ],
)
def test_a_function_that_cannot_take_the_values_is_refused_at_load(pattern, function):
    with pytest.raises(
        TableError, match=r"calls <lambda> with \d arguments, and it takes \d; expected def <lambda>\(req"
    ):
        application(table(handlers={pattern: (http.METHOD_GET, function)}))


@pytest.mark.parametrize("function", [lambda req, a, b=1: 0, lambda *values: 0, lambda req, *values: 0, print])
def test_a_function_that_can_take_the_values_is_taken(function):
    application(table(handlers={"/<a>": (http.METHOD_GET, function)}))


# Methods


def test_each_method_of_a_pattern_may_have_a_function_of_its_own():
    entry = {http.METHOD_GET: shows("got"), http.METHOD_PUT | http.METHOD_PATCH: shows("put")}
    app = application(table(handlers={"/<name>": entry}, default_handler=write("default")))
    assert call(app, "/x").text == "('got', 'x')"
    assert call(app, "/x", "PATCH").text == "('put', 'x')"
    assert call(app, "/x", "HEAD").header("Content-Length") == "12"
    allow = "HEAD, GET, PUT, OPTIONS, PATCH"
    assert (call(app, "/x", "DELETE").code, call(app, "/x", "DELETE").header("Allow")) == (405, allow)
    assert (call(app, "/x", "OPTIONS").code, call(app, "/x", "OPTIONS").header("Allow")) == (204, allow)
    assert call(app, "/x", "BREW", valid=False).code == 501
    assert call(app, "/x/y").text == "default"


def test_two_functions_for_one_method_are_named():
    with pytest.raises(TableError, match=r"handlers\['/<a>'\] has two functions for GET: one and two"):
        application(table(handlers={"/<a>": [(http.METHOD_GET, shows("one")), (http.METHOD_GET, shows("two"))]}))


# Decorators


def test_a_table_of_decorators_is_that_of_a_module():
    made = Table()

    @made.route("/")
    @made.route("/user/<name>")
    def page(req, name="nobody"):
        req.write(name)
        return http.DONE

    @made.route("/user/<name>", method=http.METHOD_PUT | http.METHOD_DELETE)
    def change(req, name):
        req.write(f"{req.method} {name} {made.shared}")
        return http.DONE

    @made.error(http.HTTP_NOT_FOUND)
    def missing(req):
        req.write("missing")
        return http.DONE

    made.shared = "shared"
    made.setreq = lambda req: req.log_error("called")
    module = types.SimpleNamespace(handlers=made.handlers, errors=made.errors, setreq=made.setreq)
    for app in application(made), application(module):
        assert call(app).text == "nobody"
        assert call(app, "/user/x").text == "x"
        sent = call(app, "/user/x", "DELETE")
        assert sent.text == "DELETE x shared" and "called" in sent.log
        assert call(app, "/user/x", "POST").header("Allow") == "HEAD, GET, PUT, DELETE, OPTIONS"
        assert (call(app, "/x").code, call(app, "/x").text) == (404, "missing")


def test_a_wrong_decoration_is_a_table_error():
    made = Table()
    made.route("/x")(shows("one"))
    made.route("/x", http.METHOD_GET_POST)(shows("two"))
    with pytest.raises(TableError, match=r"handlers\['/x'\] has two functions for GET: one and two"):
        application(made)
    made.error(404)(shows("one"))
    with pytest.raises(TableError, match=r"errors\[404\] has two functions: one and two"):
        made.error(404)(shows("two"))


# Building paths


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


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_a_table_error(text):
    with contextlib.suppress(TableError):
        in_table("/" + text)


@given(st.text(st.sampled_from("abc/<>:0-.")), st.text(st.sampled_from("abc/01-.%\xc5\xbe<")))
def test_any_path_is_answered_by_any_pattern(pattern, path):
    try:
        app = in_table("/" + pattern)
    except TableError:
        return
    sent = call(app, "/" + path)
    assert sent.code in (200, 400, 404)
    assert "Traceback" not in sent.log


# Cost


def test_the_samples_of_a_kind_are_of_no_narrower_kind():
    kinds = sorted(BUILT_IN.values(), key=lambda each: each.rank)
    for at, kind in enumerate(kinds):
        kind.read(kind.samples[0])
        for narrower in kinds[:at]:
            with pytest.raises(ValueError):  # noqa: PT011
                narrower.read(kind.samples[0])


@pytest.mark.parametrize("shape", ["/p{}", "/p{}/<x>", "/<x:int>/p{}", "/p{}-<x>", "/a/<x>/p{}/<y:int>/edit"])
def test_a_thousand_patterns_cost_about_what_ten_do(shape):
    """A list of regular expressions would be some fifty times as slow, so there is room for a busy machine."""
    best = []
    for count in (10, 1000):
        routes = {shape.format(number): (2, lambda req, *values: http.DONE) for number in range(count)}
        path = shape.format(count - 1).replace("<x>", "7").replace("<x:int>", "7").replace("<y:int>", "7")
        app = application(table(handlers=routes))
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path}
        best.append(min(timeit.repeat(lambda: app(environ, lambda *head: None), number=100, repeat=30)))  # noqa: B023
    assert best[1] < 2 * best[0]


@pytest.mark.parametrize(
    ("pattern", "loads"), [("/<a>/<b:int>-<c:float>", set()), ("/<a:re:x:>", {"re"}), ("/<a:uuid>", {"uuid"})]
)
def test_a_table_loads_only_what_its_patterns_need(pattern, loads):
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from poorhttp.dispatch import application;"
        f"table = type('table', (), {{'handlers': {{{pattern!r}: (2, print)}}}});"
        "app = application(table); print(*({'re', 'uuid', 'json', 'urllib', 'functools'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.split())
    assert found == loads or (loads and loads <= found)


def test_a_path_of_many_segments_is_cheap():
    app = routed("/<a>/<b>/<c>", "/<a>/<b>/x", "/<rest:path>")
    path = "/a" * 20_000
    assert reached(app, path) == ("/<rest:path>", path[1:])
