"""A dispatch table and its hooks: what is refused at load, which function is called, in which order."""

import types

import pytest
from dispatching import answer, call, raises, returns, table, write

from poorhttp import http
from poorhttp.dispatch import Table, TableError, application

# The table


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (types.ModuleType("dispatch_table"), "there is no 'handlers'; expected handlers = "),
        (table(handlers=[]), "'handlers' is \\[\\], which is no dict"),
        (table(handlers={"light": (2, print)}), "a path that begins with /"),
        (table(handlers={"/": print}), "expected \\(http.METHOD_GET, function\\)"),
        (table(handlers={"/": (print, 2)}), "expected \\(http.METHOD_GET, function\\)"),
        (table(handlers={"/": ()}), "expected \\(http.METHOD_GET, function\\)"),
        (table(handlers={"/": {}}), "expected \\(http.METHOD_GET, function\\)"),
        (table(handlers={"/": (512, print)}), "has the methods 512"),
        (table(handlers={"/": ("GET", print)}), "has the methods 'GET'"),
        (table(handlers={"/": {2: "light"}}), "'light', which cannot be called"),
        (table(handlers={"/": [(2, print), (3, print)]}), "two functions for GET"),
        (table(handlers={}, errors=[]), "'errors' is \\[\\], which is no dict; expected errors = "),
        (table(handlers={}, errors={"404": print}), "the key '404'"),
        (table(handlers={}, errors={404: None}), "errors\\[404\\] is None"),
        (table(handlers={}, setreq=1), "'setreq' is 1"),
        (types.SimpleNamespace(handler={"/": (2, print)}), "there is 'handler' and no .* did you mean 'handlers'\\?"),
        (types.SimpleNamespace(site=Table()), "'site' is a Table; expected handlers, .* = site.handlers, site.errors"),
        (table(handlers={}, error={404: print}), "there is 'error' and no .* did you mean 'errors'\\?"),
    ],
)
def test_a_wrong_table_is_refused_when_the_application_is_made(bad, says):
    with pytest.raises(TableError, match=says):
        application(bad)


def test_a_name_like_errors_that_holds_no_pages_is_left_alone():
    for other in print, {"name": 1}, {}:
        application(table(handlers={}, error=other))
    application(table(handlers={}, errors={}, error={404: print}))


@pytest.mark.parametrize(
    "entry",
    [
        [(http.METHOD_GET, write("got")), (http.METHOD_POST, write("posted"))],
        ((http.METHOD_GET, write("got")), (http.METHOD_POST, write("posted"))),
        {http.METHOD_GET: write("got"), http.METHOD_POST: write("posted")},
    ],
)
def test_one_uri_may_have_a_function_for_each_method(entry):
    app = application(table(handlers={"/": entry}))
    assert call(app).text == "got"
    assert call(app, method="POST").text == "posted"
    assert call(app, method="PUT").header("Allow") == "HEAD, GET, POST, OPTIONS"


def test_an_empty_path_is_the_root():
    assert answer(write("root"), path="", environ={"SCRIPT_NAME": "/mounted"}).text == "root"


def test_a_path_is_utf8():
    app = application(table(handlers={"/žluť": (http.METHOD_GET, write("yellow"))}))
    assert call(app, "/žluť".encode().decode("latin-1")).text == "yellow"


def test_a_path_that_is_not_utf8_is_a_bad_request():
    sent = answer(write("page"), path="/\xff\xfe")
    assert sent.code == 400
    assert sent.log == ""


# Hooks


def test_hooks_run_in_order_around_the_handler():
    order = []
    names = {name: lambda req, name=name: order.append(name) for name in ("post_process", "pre_process", "setreq")}

    def handler(req):
        order.append("handler")
        return http.DONE

    assert answer(handler, names=names).code == 200
    assert order == ["setreq", "pre_process", "handler", "post_process"]


def test_setreq_adds_attributes_and_runs_for_unknown_uris_too():
    seen = []

    def setreq(req):
        req.answer_to_all = 42
        seen.append(req.uri)

    def handler(req):
        req.write(str(req.answer_to_all))
        return http.DONE

    app = application(table(handler, setreq=setreq))
    assert call(app).text == "42"
    assert call(app, "/nowhere").code == 404
    assert seen == ["/", "/nowhere"]


def test_setreq_may_end_the_request():
    assert answer(write("secret"), names={"setreq": raises(http.SERVER_RETURN(http.HTTP_FORBIDDEN))}).code == 403


@pytest.mark.parametrize("name", ["setreq", "pre_process"])
def test_a_value_that_a_hook_returns_is_an_error(name):
    """It would not refuse the request, as its author thinks."""

    def refuse(req):
        return http.HTTP_FORBIDDEN

    sent = answer(write("secret"), names={name: refuse})
    assert sent.code == 500 and "secret" not in sent.text
    assert "refuse returned 403, which does not end the request" in sent.log
    for value in None, http.OK, http.DONE:
        assert answer(write("page"), names={name: returns(value)}).text == "page"


def test_setreq_may_lead_to_another_uri():
    def setreq(req):
        req.uri = "/"

    assert answer(write("home"), path="/old", names={"setreq": setreq}).text == "home"


@pytest.mark.parametrize("handler", [write("page"), raises(ValueError()), returns(404), returns(None)])
def test_post_process_runs_once_and_may_add_headers(handler):
    runs = []

    def post_process(req):
        runs.append(req.status)
        req.headers_out.add("X-After", "yes")

    sent = answer(handler, names={"post_process": post_process})
    assert runs == [sent.code]
    assert sent.header("X-After") == "yes"


def test_post_process_that_fails_is_a_500():
    sent = answer(write("page"), names={"post_process": raises(KeyError("lost"))})
    assert sent.code == 500
    assert "KeyError: 'lost'" in sent.log
    assert b"page" not in sent.body


def test_default_handler_answers_what_the_table_does_not_know():
    app = application(table(write("home"), default_handler=write("default")))
    assert call(app, "/nowhere").text == "default"
    assert call(app).text == "home"
    assert call(app, "/nowhere", "BREW", valid=False).code == 501


def test_declined_goes_to_the_default_handler_then_to_404():
    assert answer(returns(http.DECLINED), names={"default_handler": write("default")}).text == "default"
    assert answer(returns(http.DECLINED), names={"default_handler": returns(http.DECLINED)}).code == 404
    assert answer(returns(http.DECLINED), names={"default_handler": raises(ValueError())}).code == 500
    assert answer(returns(http.DECLINED)).code == 404
