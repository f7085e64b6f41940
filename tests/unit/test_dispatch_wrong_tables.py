"""Patterns and tables that are refused at load, by a message that names what is wrong."""

import types

import pytest
from dispatching import call, in_table, routed, table
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import Table, TableError, application


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


@pytest.mark.parametrize(("name", "says"), [("route", r"@table.route\('/path'\)"), ("error", r"@table.error\(http")])
def test_a_decorator_without_parentheses_is_refused(name, says):
    def page(req):
        return "page"

    with pytest.raises(TableError, match=f"above page without an argument; expected {says}"):
        getattr(Table(), name)(page)


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
        ("/", lambda req, *, a: 0),
        ("/<a>", lambda req, *rest, a, b=1: 0),
    ],
)
def test_a_function_that_cannot_take_the_values_is_refused_at_load(pattern, function):
    with pytest.raises(
        TableError, match=r"calls <lambda> with \d arguments, and it takes [^;]+; expected def <lambda>\(req"
    ):
        application(table(handlers={pattern: (http.METHOD_GET, function)}))


@pytest.mark.parametrize("function", [lambda req, a, b=1: 0, lambda *values: 0, lambda req, *values: 0, print])
def test_a_function_that_can_take_the_values_is_taken(function):
    application(table(handlers={"/<a>": (http.METHOD_GET, function)}))


@pytest.mark.parametrize("function", [lambda: 0, lambda req, more: 0, lambda req, *, more: 0])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("errors", lambda function: {404: function}),
        *[(name, lambda function: function) for name in ("setreq", "pre_process", "post_process", "default_handler")],
    ],
)
def test_a_function_that_cannot_take_the_request_is_refused_at_load(name, value, function):
    with pytest.raises(TableError, match=rf"{name}.* calls <lambda> with 1 arguments.*expected def <lambda>\(req\)"):
        application(table(handlers={}, **{name: value(function)}))


class Wrapper:
    def wrap(self, serve, makes_pages):
        return serve


def hook(req):
    return None


CONVERTERS = {"even": ("[02468]", int)}


@pytest.mark.parametrize(
    ("wrong", "value", "right"),
    [
        ("preprocess", hook, "pre_process"),
        ("pre_proces", hook, "pre_process"),
        ("PreProcess", hook, "pre_process"),
        ("before_request", hook, "pre_process"),
        ("post_porcess", hook, "post_process"),
        ("after_request", hook, "post_process"),
        ("set_req", hook, "setreq"),
        ("default_handlers", hook, "default_handler"),
        ("sesions", Wrapper(), "sessions"),
        ("session", Wrapper(), "sessions"),
        ("convertors", CONVERTERS, "converters"),
        ("converter", CONVERTERS, "converters"),
        ("error", {404: hook}, "errors"),
        ("error_handlers", {404: hook}, "errors"),
        ("handler", {"/": (http.METHOD_GET, hook)}, "handlers"),
    ],
)
def test_a_misspelt_name_of_a_table_is_refused(wrong, value, right):
    names = {wrong: value} if right == "handlers" else {"handlers": {"/<n:even>": (http.METHOD_GET, handler)}}
    with pytest.raises(TableError, match=f"there is '{wrong}' and no '{right}': did you mean '{right}'\\?"):
        application(types.SimpleNamespace(**{**names, wrong: value}))
    if right in ("pre_process", "sessions"):
        made = Table()
        setattr(made, wrong, value)
        with pytest.raises(TableError, match=f"did you mean '{right}'"):
            application(made)


@pytest.mark.parametrize(
    "names",
    [
        {"handler": hook, "error": hook, "session": hook, "converter": hook},
        {"error": {"name": 1}, "errors_": {}, "converter": {"md": hook}, "session": {}, "session_": http},
        {"preprocess": lambda image, size: 0, "setreq_": 5, "default_handlers": {}},
        {"process": hook, "getreq": hook, "reset_req": hook, "send_req": hook, "reprocess": hook, "setting": hook},
        {"_preprocess": hook, "__session__": Wrapper()},
        {"preprocess": hook, "pre_process": hook},
        {"preprocess": hook, "handlers": {"/": [(http.METHOD_POST, hook)]}},
        {"preprocess": hook, "setreq": hook},
        {"error": {404: hook}, "errors": {}},
    ],
)
def test_a_helper_with_a_name_of_its_own_is_left_alone(names):
    application(table(**{"handlers": {}, **names}))


def test_a_helper_that_a_module_imports_is_left_alone():
    module = types.ModuleType("dispatch_table")
    module.handlers, module.preprocess = {}, hook
    application(module)
    exec("def preprocess(req): pass", vars(module))
    with pytest.raises(TableError, match="did you mean 'pre_process'"):
        application(module)


class Unready:
    """What cannot be shown, as an object of a library that is not set up."""

    def __repr__(self):
        raise RuntimeError("not ready")


def handler(req, *values):
    return "page"


MASKS = st.sampled_from([http.METHOD_GET, http.METHOD_POST, http.METHOD_ALL, 0, -1, 1 << 9, True, "GET", None])
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.binary(max_size=4)
    | st.builds(Unready)
    | st.builds(lambda: 10**5000)
    | st.sampled_from([handler, print, int, Table(), http, float("nan"), "/", "/<a>", object()]),
    lambda each: (
        st.lists(each, max_size=3)
        | st.tuples(each, each)
        | st.dictionaries(st.text(max_size=5) | MASKS, each, max_size=3)
    ),
    max_leaves=8,
)
PATHS = st.sampled_from(
    ["/", "/x", "/<a>", "/<b>", "/<a:int>", "/<a:even>", "/<a:re:[:>", "/<a>/<a>", "//", "/\ud800"]
) | st.text(max_size=6).map("/".__add__)
PAIRS = st.tuples(MASKS, st.just(handler) | ANY)
ENTRIES = PAIRS | st.lists(PAIRS, max_size=3) | st.dictionaries(MASKS, st.just(handler) | ANY, max_size=2) | ANY
NAMES = (
    "errors",
    "error",
    "setreq",
    "pre_process",
    "post_process",
    "default_handler",
    "converters",
    "sessions",
    "handler",
    "session",
    "convertors",
    "preprocess",
)


@given(st.dictionaries(PATHS, ENTRIES, max_size=4) | ANY, st.dictionaries(st.sampled_from(NAMES), ANY, max_size=3))
def test_any_table_is_served_or_refused_by_a_message_of_one_line(handlers, others):
    try:
        app = application(types.SimpleNamespace(handlers=handlers, **others))
    except TableError as error:
        told = str(error)
    else:
        told = "" if others else call(app, "/x").status
    assert len(told) < 1000 and "\n" not in told
