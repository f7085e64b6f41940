"""Patterns of a dispatch table: what they match, in which order, by which methods, and what they cost."""

import contextlib
import subprocess
import sys
import timeit
import types
import uuid
from pathlib import Path

import pytest
from dispatching import answer, call, in_table, raises, reached, routed, shows, table, write
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import Table, TableError, application
from poorhttp.dispatch.converters import BUILT_IN

ROOT = Path(__file__).resolve().parents[2]


# Patterns


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
