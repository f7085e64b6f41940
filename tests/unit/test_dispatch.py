"""poorhttp.dispatch: tables, requests, answers, error pages and forms, all through wsgiref's validator."""

import importlib
import io
import os
import re
import sys
import time
import types
from email.utils import parsedate_to_datetime
from pathlib import Path
from wsgiref.util import FileWrapper

import pytest
from dispatching import answer, call, raises, returns, table, write
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import Table, TableError, application
from poorhttp.dispatch.headers import Headers
from poorhttp.dispatch.pages import escape, page, traceback_page
from poorhttp.dispatch.redirect import checked_target
from poorhttp.dispatch.request import Request

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: \[[^\]]*\] \[[SACEWNID0]\] .*")


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


# Output


def test_str_is_utf8_and_bytes_stay():
    def handler(req):
        req.write("žluť ")
        req.write(b"\xff")
        return http.DONE

    sent = answer(handler)
    assert sent.body == "žluť ".encode() + b"\xff"
    assert sent.header("Content-Length") == str(len(sent.body))


class Untold:
    def __repr__(self):
        raise AssertionError("a value may tell and cost anything")


@pytest.mark.parametrize("data", [None, 5, ["a"], bytearray(b"a"), Untold()])
def test_other_types_are_refused_where_they_are_written(data):
    sent = answer(write(data))
    assert sent.code == 500
    assert f"req.write() takes str or bytes, not {type(data).__name__}\n" in sent.log


class Translated:
    """Text that is made when it is used, as frameworks have it."""

    __class__ = str

    def __len__(self):
        return len(str(self))

    def __str__(self):
        return "žluť"

    def encode(self):
        return str(self).encode()


def test_what_only_says_that_it_is_text_is_taken():
    sent = answer(write(Translated()))
    assert (sent.code, sent.text) == (200, "žluť")


@pytest.mark.parametrize(
    ("content_type", "data", "sent_type"),
    [
        ("text/html", "ž", "text/html; charset=utf-8"),
        ("text/css", "ž", "text/css; charset=utf-8"),
        ("text/html; charset=UTF-8", "ž", "text/html; charset=UTF-8"),
        ("text/html", b"\xbe", "text/html"),
        ("application/json", "ž", "application/json"),
    ],
)
def test_the_charset_is_named_where_text_was_written(content_type, data, sent_type):
    def handler(req):
        req.content_type = content_type
        req.write(data)
        return http.DONE

    assert answer(handler).header("Content-Type") == sent_type


def test_a_content_type_among_the_headers_replaces_the_attribute():
    def handler(req):
        req.headers_out["content-type"] = "image/png"
        req.write(b"\x89PNG")
        return http.DONE

    assert answer(handler).header("Content-Type") == "image/png"


def test_nothing_is_sent_before_the_handler_has_returned():
    def handler(req):
        req.write("x" * 65536)
        raise ValueError

    sent = answer(handler)
    assert sent.code == 500
    assert b"xxx" not in sent.body
    assert sent.writes == 0


def test_output_above_the_limit_is_streamed():
    def handler(req):
        for _ in range(10):
            req.write("x" * 9_998 + "ž")
        return http.DONE

    sent = answer(handler)
    assert sent.code == 200
    assert sent.body == (b"x" * 9_998 + "ž".encode()) * 10
    assert sent.writes == 1
    assert sent.header("Content-Length") is None


def test_flush_sends_at_once():
    def handler(req):
        req.headers_out["Content-Length"] = "10"
        req.write("first")
        req.flush()
        req.write("after")
        return http.DONE

    sent = answer(handler)
    assert (sent.body, sent.writes) == (b"firstafter", 1)
    assert sent.header("Content-Length") == "10"


def test_an_exception_behind_the_first_byte_is_the_servers_to_end():
    def handler(req):
        req.write("first")
        req.flush()
        raise ValueError("too late")

    log = io.StringIO()
    with pytest.raises(ValueError, match="too late"):
        answer(handler, environ={"wsgi.errors": log})
    assert log.getvalue() == ""  # the server tells of what it was given


def test_a_status_behind_the_first_byte_is_logged():
    def handler(req):
        req.write("first")
        req.flush()
        return http.HTTP_NOT_FOUND

    sent = answer(handler)
    assert (sent.code, sent.body) == (200, b"first")
    assert "404 comes too late" in sent.log


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("change", ["status", "cookie"])
def test_a_head_that_is_set_behind_the_first_byte_is_logged(change, is_late):
    def handler(req):
        req.headers_out.add("X-Set", "1")
        if is_late:
            req.write("x" * 70_000)
        if change == "status":
            req.status = 404
        else:
            req.err_headers_out.add("Set-Cookie", "session=1")
        return http.DONE

    sent = answer(handler)
    assert ("Set-Cookie" in dict(sent.headers)) == (change == "cookie" and not is_late)
    assert ("set too late" in sent.log) == is_late


def test_a_server_that_sent_nothing_yet_gets_a_500_after_flush():
    def handler(req):
        req.flush()
        raise ValueError

    sent = answer(handler)
    assert sent.code == 500
    assert sent.body == b"500 - Internal Server Error\n"
    assert sent.log.count("Traceback") == 1


def test_a_lone_surrogate_is_a_500():
    sent = answer(write("\ud800"))
    assert sent.code == 500
    assert "UnicodeEncodeError" in sent.log


@pytest.mark.parametrize("status", [100, 199, 600, "404", None])
def test_a_status_that_no_answer_has_is_a_500(status):
    def handler(req):
        req.status = status
        return http.DONE

    sent = answer(handler)
    assert sent.code == 500
    assert "from 200 to 599" in sent.log


def test_an_unregistered_status_has_the_words_of_its_class():
    def handler(req):
        req.status = 299
        return http.DONE

    assert answer(handler).status == "299 OK"


# HEAD and answers without a body


def test_head_is_get_without_the_body():
    app = application(table(handlers={"/": (http.METHOD_GET, write("page"))}))
    head, get = call(app, method="HEAD"), call(app)
    assert (head.status, head.headers, head.body) == (get.status, get.headers, b"")


def test_head_of_a_long_page_counts_it():
    sent = answer(write("ž" * 100_000), method="HEAD")
    assert (sent.header("Content-Length"), sent.body, sent.writes) == ("200000", b"", 0)


def test_head_of_text_bytes_and_a_file_is_that_of_get(file):
    def handler(req):
        req.write("\u017e" * 40_000)
        req.sendfile(file)
        req.write(b"\xff" * 70_000)
        return http.DONE

    head, got = answer(handler, method="HEAD"), answer(handler)
    assert (head.header("Content-Length"), head.body, head.writes) == ("406000", b"", 0)
    assert got.body == "\u017e".encode() * 40_000 + Path(file).read_bytes() + b"\xff" * 70_000
    assert head.header("Content-Type") == got.header("Content-Type")


def test_the_type_of_a_file_behind_text_that_was_sent_is_the_same_for_head(file):
    def handler(req):
        req.write("text")
        req.flush()
        req.sendfile(file)
        return http.DONE

    head, got = answer(handler, method="HEAD"), answer(handler)
    assert head.header("Content-Type") == got.header("Content-Type") == "text/html; charset=utf-8"


@pytest.mark.parametrize("limit", [-1, float("inf"), 1 << 63, "5", None])
def test_a_buffer_limit_that_is_none_is_refused_at_once(limit):
    with pytest.raises(TableError, match=re.escape(f"buffer_limit is {limit!r}")):
        application(types.SimpleNamespace(handlers={}), buffer_limit=limit)


def test_head_of_a_long_page_that_fails_is_still_a_500():
    def handler(req):
        req.write("x" * 100_000)
        raise ValueError

    sent = answer(handler, method="HEAD")
    assert (sent.code, sent.body) == (500, b"")


def test_a_handler_may_leave_out_the_work_for_head():
    def handler(req):
        req.headers_out["Content-Length"] = "123456"
        return http.DONE

    assert answer(handler, method="HEAD").header("Content-Length") == "123456"
    assert answer(handler).header("Content-Length") == "0"


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_content_have_neither_body_nor_type(status):
    def handler(req):
        req.headers_out["Content-Type"] = "text/plain"
        req.write("page")
        return status

    sent = answer(handler)
    assert (sent.code, sent.body, sent.headers) == (status, b"", [])


# What a handler returns


@pytest.mark.parametrize("outcome", [http.DONE, http.OK, http.HTTP_OK, True])
def test_results_that_mean_it_is_written(outcome):
    def handler(req):
        req.write("page")
        return outcome

    sent = answer(handler)
    assert (sent.code, sent.body) == (200, b"page")


def test_created_keeps_what_was_written():
    def handler(req):
        req.write("made")
        req.headers_out["Location"] = "/1"
        return http.HTTP_CREATED

    sent = answer(handler)
    assert (sent.status, sent.text, sent.header("Location")) == ("201 Created", "made", "/1")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 500, 501, 503])
def test_an_error_status_is_a_page(status):
    def handler(req):
        req.headers_out["X-Page"] = "lost"
        req.err_headers_out["X-Error"] = "kept"
        req.content_type = "image/png"
        req.write("half a pag")
        return status

    for sent in (answer(handler), answer(raises(http.SERVER_RETURN(status)))):
        assert sent.code == status
        assert f"<h1>{status} - " in sent.text
        assert "half" not in sent.text
        assert sent.header("Content-Type") == "text/html; charset=utf-8"
        assert sent.header("X-Page") is None
    assert answer(handler).header("X-Error") == "kept"


def test_http_error_is_a_500():
    assert answer(returns(http.HTTP_ERROR)).code == 500


def test_status_enumerations_work():
    assert answer(returns(http.HTTPStatus.NOT_FOUND)).status == "404 Not Found"


def test_a_redirect_status_keeps_the_headers():
    def handler(req):
        req.headers_out["Location"] = "/new"
        return http.HTTP_SEE_OTHER

    sent = answer(handler)
    assert (sent.status, sent.header("Location")) == ("303 See Other", "/new")
    assert "303 - See Other" in sent.text


class Loud:
    def __repr__(self):
        raise AssertionError("nobody asks for this")


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (None, " returned None and has written nothing: return the page, or write it by req.write()"),
        (7, " returned 7: expected str, bytes, dict, list, a generator, http.Response, http.DONE or a status"),
        (100, " returned 100"),
        (10**5000, " returned a value of type int: expected"),
        (("password", "hidden"), " returned a value of type tuple"),
        (Loud(), " returned a value of type Loud"),
        (http.Response(Loud()), " returned a value of type Response with a body of a value of type Loud: expected str"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_wrong_result_is_explained_in_the_log_and_with_debug_on_the_page(outcome, says):
    sent = answer(returns(outcome))
    assert sent.code == 500
    assert f"the handler dispatching.returns.<locals>.<lambda>{says}" in sent.log
    assert "returned" not in sent.text
    assert escape(says) in answer(returns(outcome), settings={"debug": True}).text
    own = {"errors": {404: returns(outcome)}}
    sent = answer(returns(http.HTTP_NOT_FOUND), names=own)
    assert (
        sent.code == 500 and "error handler for 404: the handler dispatching.returns" in sent.log and says in sent.log
    )
    assert escape(says) in answer(returns(http.HTTP_NOT_FOUND), names=own, settings={"debug": True}).text


@pytest.mark.parametrize("names", [{}, {"errors": {404: lambda req: ("hidden",)}}], ids=["handler", "error handler"])
def test_the_page_of_the_server_decides_who_sees_a_wrong_result(names):
    def own_page(error):
        told.append(str(error))
        return {"Content-Type": "text/plain", "Vary": "Accept"}, b"own page"

    told = []
    environ = {"poorhttp.debug": True, "poorhttp.error_page": own_page}
    sent = answer(returns(http.HTTP_NOT_FOUND if names else ("hidden",)), names=names, environ=environ)
    assert (sent.code, sent.text, sent.header("Vary")) == (500, "own page", "Accept")
    assert len(told) == 1 and "returned a value of type tuple" in told[0] and "hidden" not in told[0]


def test_server_return_without_a_code_is_a_wrong_result():
    sent = answer(raises(http.SERVER_RETURN()))
    assert sent.code == 500
    assert "returned None" in sent.log


# Routing failures


def test_404():
    sent = answer(write("page"), path="/nowhere", environ={"SERVER_ADMIN": "admin@example.com"})
    assert sent.status == "404 Not Found"
    assert "<title>404 - Page Not Found</title>" in sent.text
    assert "<code>/nowhere</code>" in sent.text
    assert "webmaster: admin@example.com" in sent.text


@pytest.mark.parametrize("told", ["Ji\xc5\x99\xc3\xad", "Ji\u0159\xed"], ids=["as in PEP 3333", "as text"])
def test_the_webmaster_of_a_page(told):
    assert "webmaster: Ji\u0159\xed" in answer(write("page"), path="/nowhere", environ={"SERVER_ADMIN": told}).text


def test_405_names_the_methods():
    app = application(table(handlers={"/": (http.METHOD_GET | http.METHOD_PUT, write("page"))}))
    sent = call(app, method="DELETE")
    assert sent.status == "405 Method Not Allowed"
    assert sent.header("Allow") == "HEAD, GET, PUT, OPTIONS"


def test_options_names_the_methods_unless_the_table_answers_it():
    own = write("own")
    app = application(
        table(handlers={"/": (http.METHOD_GET, write("page")), "/own": (http.METHOD_OPTIONS | http.METHOD_PUT, own)})
    )
    sent = call(app, method="OPTIONS")
    assert (sent.status, sent.body, sent.header("Allow")) == ("204 No Content", b"", "HEAD, GET, OPTIONS")
    assert call(app, "/own", "OPTIONS").text == "own"
    assert call(app, "/own", "GET").header("Allow") == "PUT, OPTIONS"
    assert call(app, "/nowhere", "OPTIONS").code == 404


@pytest.mark.parametrize("path", ["/", "/nowhere"])
def test_501_for_a_method_that_nobody_knows(path):
    app = application(table(write("page")))
    sent = call(app, path, "BREW", valid=False)  # the validator warns about such methods
    assert sent.status == "501 Not Implemented"


# Error handlers


def test_errors_replace_the_default_page():
    def not_found(req):
        req.write(f"no {req.uri}, {req.status}")
        return http.OK

    app = application(table(returns(403), errors={404: not_found, 403: write("keep out")}))
    assert (call(app, "/x").code, call(app, "/x").text) == (404, "no /x, 404")
    assert (call(app).code, call(app).text) == (403, "keep out")


def test_the_handler_of_500_sees_the_exception():
    def internal(req):
        req.write(repr(sys.exc_info()[1]))
        return http.DONE

    sent = answer(raises(ValueError("seen")), names={"errors": {500: internal}}, settings={"debug": True})
    assert (sent.code, sent.text) == (500, "ValueError('seen')")


@pytest.mark.parametrize(
    ("handler", "code", "says"),
    [
        (raises(KeyError("again")), 500, "KeyError"),
        (returns(None), 500, "returned None and has written nothing"),
        (returns({1, 2}), 500, "returned a value of type set"),
        (returns({"a": {1}}), 500, "TypeError: Object of type set is not JSON serializable"),
        (returns(404), 404, ""),
        (returns(410), 410, ""),
        (raises(http.SERVER_RETURN(http.HTTP_FORBIDDEN)), 403, ""),
        (raises(http.SERVER_RETURN(http.DONE)), 404, ""),
    ],
)
def test_an_error_handler_that_fails_ends_in_a_default_page(handler, code, says):
    sent = answer(write("page"), path="/x", names={"errors": {404: handler, 500: handler}})
    assert sent.code == code
    assert says in sent.log


def test_the_handler_of_a_redirect_keeps_the_location():
    def handler(req):
        req.headers_out["Location"] = "/new"
        return http.HTTP_MOVED_TEMPORARILY

    sent = answer(handler, names={"errors": {302: write("moved")}})
    assert (sent.code, sent.text, sent.header("Location")) == (302, "moved", "/new")


# Exceptions


def test_the_traceback_is_logged_and_not_shown():
    sent = answer(raises(ValueError("the reason")))
    assert sent.status == "500 Internal Server Error"
    assert "the reason" not in sent.text
    assert "Traceback (most recent call last)" in sent.log
    first, *rest = sent.log.splitlines()
    assert LOG_LINE.fullmatch(first)
    assert first.endswith("[192.0.2.7] [E] GET /: ValueError: the reason")
    assert all(line.startswith("    ") for line in rest)
    assert "dispatcher.py" not in sent.log


@pytest.mark.parametrize("debug", [True, "yes", "On", "1"])
def test_debug_shows_the_traceback_escaped(debug):
    sent = answer(raises(ValueError("<script>")), environ={"poorhttp.debug": debug})
    assert "Exception Traceback" in sent.text
    assert "ValueError: &lt;script&gt;" in sent.text
    assert "<script>" not in sent.text
    assert "Python / 3" in sent.text


@pytest.mark.parametrize("debug", [False, "no", "off", "0", ""])
def test_the_server_can_switch_debug_off(debug):
    sent = answer(raises(ValueError), settings={"debug": True}, environ={"poorhttp.debug": debug})
    assert "Traceback" not in sent.text


def mistaken_attribute(req):
    import http

    return http.METHOD_GET


def mistaken_name(req):
    from http import METHOD_GET

    return METHOD_GET


@pytest.mark.parametrize("handler", [mistaken_attribute, mistaken_name])
def test_the_http_of_the_standard_library_is_told_from_ours_once(handler):
    app = application(table(handler))
    assert "[E] GET /: this http is the standard library's; write: from poorhttp import http\n" in call(app).log
    again = call(app).log
    assert "Traceback" in again
    assert "from poorhttp import http" not in again


@pytest.mark.parametrize("error", [AttributeError("http"), ImportError("http"), KeyError("http")])
def test_other_errors_are_told_without_that_hint(error):
    assert "poorhttp import" not in answer(raises(error)).log


def test_an_exception_cannot_forge_a_log_line():
    sent = answer(raises(ValueError("x\n2030-01-01 00:00:00: [-] [N] forged\x1b[31m\u2028")))
    assert sum(bool(LOG_LINE.fullmatch(line)) for line in sent.log.split("\n")) == 1
    assert "\x1b" not in sent.log


@pytest.mark.parametrize("end", [SystemExit, KeyboardInterrupt])
def test_the_end_of_the_process_passes_through(end):
    with pytest.raises(end):
        answer(raises(end()))


# Headers


@pytest.mark.parametrize("name", ["Set-Cookie", "Link", "Vary", "WWW-Authenticate", "Via", "Warning", "X-Own"])
def test_a_field_that_is_a_list_may_be_repeated(name):
    def handler(req):
        req.headers_out.add(name, "a=1")
        req.headers_out.add(name.lower(), "b=2")
        return http.DONE

    assert [value for known, value in answer(handler).headers if known.lower() == name.lower()] == ["a=1", "b=2"]


@pytest.mark.parametrize("name", ["Content-Type", "Content-Length", "Location", "ETag", "Last-Modified", "Retry-After"])
def test_a_second_value_is_refused_where_a_field_has_one(name):
    headers = Headers()
    headers.add(name, "1")
    with pytest.raises(ValueError, match=f"{name.lower()} is set already to '1'"):
        headers.add(name.lower(), "2")


def test_assigning_replaces_all_fields_of_a_name():
    headers = Headers()
    headers.add("Set-Cookie", "a=1")
    headers.add("X-One", "1")
    headers.add("x-one", "2")
    headers["x-ONE"] = "3"
    assert headers.items() == [("Set-Cookie", "a=1"), ("x-ONE", "3")]
    del headers["X-ONE"]
    assert ("x-one" in headers, headers.get("x-one", "none"), len(headers)) == (False, "none", 1)
    with pytest.raises(KeyError):
        del headers["X-ONE"]
    with pytest.raises(KeyError):
        headers["X-ONE"]


@pytest.mark.parametrize("name", ["", "a b", "a:", "ž", "a\r\nb", "Connection", "transfer-encoding", "Status"])
def test_names_that_an_application_cannot_send(name):
    with pytest.raises(ValueError, match="header"):
        Headers().add(name, "x")


@pytest.mark.parametrize("value", [5, None, b"x"])
def test_values_are_text(value):
    with pytest.raises(TypeError, match="a header value is str"):
        Headers()["X-One"] = value


@given(st.text())
def test_no_header_value_gets_out_of_its_line(value):
    headers = Headers()
    try:
        headers.add("X-Value", value)
    except ValueError:
        assert any(char < " " or char == "\x7f" or char > "\xff" for char in value)
    else:
        line = value.encode("latin-1")
        assert not any(byte < 32 or byte == 127 for byte in line)
        sent = answer(lambda req: req.headers_out.add("X-Value", value) or http.DONE)
        assert sent.header("X-Value") == value


@given(st.text(), st.text())
def test_whatever_is_set_the_head_stays_whole(name, value):
    def handler(req):
        req.headers_out[name] = value
        req.content_type = value
        return http.DONE

    for known, sent_value in answer(handler, valid=False).headers:
        line = f"{known}: {sent_value}".encode("latin-1")
        assert b"\r" not in line
        assert b"\n" not in line
        assert b"\0" not in line
        assert known.isascii()


def test_a_wrong_content_type_is_a_clean_500():
    def handler(req):
        req.content_type = "text/html\r\nX-Evil: 1"
        return http.DONE

    sent = answer(handler)
    assert (sent.code, sent.header("X-Evil")) == (500, None)
    assert "control character '\\r'" in sent.log


def test_both_kinds_of_headers_are_sent_and_the_page_wins():
    def handler(req):
        req.err_headers_out.add("X-Both", "error")
        req.err_headers_out.add("Set-Cookie", "a=1")
        req.headers_out.add("Set-Cookie", "b=2")
        req.headers_out.add("x-both", "page")
        return http.DONE

    sent = answer(handler)
    assert sent.header("x-both") == "page"
    assert [value for name, value in sent.headers if name == "Set-Cookie"] == ["b=2", "a=1"]


def test_headers_in_is_a_view_of_the_environ():
    def handler(req):
        assert req.headers_in is req.headers_in
        assert req.headers_in["user-agent"] == req.headers_in.get("USER-AGENT") == req.user_agent == "robot"
        assert req.headers_in.get("content-type") == "text/x"
        assert "X-Absent" not in req.headers_in
        assert req.headers_in.get("X-Absent", "none") == "none"
        assert dict(req.headers_in.items())["User-Agent"] == "robot"
        assert {"Content-Type", "User-Agent"} <= set(req.headers_in.keys())
        assert len(req.headers_in) == len(list(req.headers_in))
        return http.DONE

    assert answer(handler, environ={"HTTP_USER_AGENT": "robot", "CONTENT_TYPE": "text/x"}).code == 200


# Redirects


@pytest.mark.parametrize(("permanent", "status"), [(0, 302), (1, 301), (False, 302), (True, 301)])
def test_redirect(permanent, status):
    def handler(req):
        req.write("dropped")
        http.redirect(req, "/light?a=1&b=2", permanent)

    sent = answer(handler)
    assert (sent.code, sent.header("Location")) == (status, "/light?a=1&b=2")
    assert 'href="/light?a=1&amp;b=2"' in sent.text
    assert "dropped" not in sent.text


def test_redirect_with_a_text():
    assert answer(lambda req: http.redirect(req, "/x", text="gone <b>there</b>")).text == "gone <b>there</b>"


def test_redirect_is_too_late_behind_the_first_byte():
    def handler(req):
        req.write("x")
        req.flush()
        http.redirect(req, "/x")

    with pytest.raises(RuntimeError, match="part of the answer has been sent"):
        answer(handler)


@pytest.mark.parametrize(
    ("uri", "target"),
    [
        ("http://example.com/", "http://example.com/"),
        ("HTTPS://example.com/a:b", "HTTPS://example.com/a:b"),
        ("light", "light"),
        ("?a=b:c", "?a=b:c"),
        ("/a:b//c", "/a:b//c"),
        ("/žluť kůň", "/%C5%BElu%C5%A5%20k%C5%AF%C5%88"),
        ('/"<>', "/%22%3C%3E"),
        ("/%C5", "/%C5"),
    ],
)
def test_targets_that_are_allowed(uri, target):
    assert checked_target(uri) == target


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/a\r\nSet-Cookie: x",
        "/\0",
        "/a\x7f",
        "//evil.example",
        " //evil.example",
        "/\\evil.example",
        "\\\\evil",
        "javascript:alert(1)",
        "data:text/html,x",
        "mailto:a@b",
        "https:evil.example",
        "http:/evil.example",
        " /x",
        "/\ud800",
    ],
)
def test_targets_that_are_refused(uri):
    with pytest.raises(ValueError, match=r"cannot redirect|surrogates"):
        checked_target(uri)


@given(st.text())
def test_no_target_gets_out_of_its_line(uri):
    try:
        target = checked_target(uri)
    except ValueError:
        return
    assert target.isascii()
    assert target.isprintable()
    assert " " not in target
    assert not target.startswith(("//", "/\\"))
    assert not target.lower().startswith("javascript:")


# Pages


@given(st.text(), st.text(), st.text())
def test_nothing_on_a_page_is_markup(uri, method, webmaster):
    text = page(405, method, uri, webmaster)
    plain = page(405, "", "", "")
    assert text.count("<") == plain.count("<")
    assert text.count(">") == plain.count(">")
    assert text.count('"') == plain.count('"')
    text.encode("utf-8")


@given(st.text())
def test_nothing_in_a_traceback_is_markup(trace):
    text = traceback_page("/", trace, (), "")
    striped = text.count("<pre>")
    assert text.count("<") == traceback_page("/", "", (), "").count("<") + 2 * striped
    text.encode("utf-8")


@given(st.text(alphabet=st.characters(max_codepoint=255)))
def test_any_path_is_answered(path):
    sent = answer(write("page"), path=path, valid=False)
    assert sent.code in (200, 400, 404)
    assert "<script" not in sent.text


def test_an_escaped_uri():
    sent = answer(write("page"), path="/<script>alert('x')</script>{title}")
    assert "<code>/&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;{title}</code>" in sent.text


# The log


@pytest.mark.parametrize(
    ("level", "letter"),
    [(0, "S"), (1, "A"), (2, "C"), (3, "E"), (4, "W"), (5, "N"), (6, "I"), (7, "D"), (8, "0"), (8 | 3, "E")],
)
def test_log_lines(level, letter):
    def handler(req):
        req.log_error("text with ž", level)
        return http.DONE

    line = answer(handler, environ={"poorhttp.log_level": "8"}).log
    assert LOG_LINE.fullmatch(line.rstrip("\n"))
    assert line.endswith(f": [192.0.2.7] [{letter}] text with ž\n")


@pytest.mark.parametrize(
    ("threshold", "letters"),
    [("error", "SACE"), ("emerg", "S"), ("debug", "SACEWNID"), ("3", "SACE"), (5, "SACEWN"), ("nonsense", "SACEWNI")],
)
def test_the_threshold(threshold, letters):
    def handler(req):
        for level in range(9):
            req.log_error("x", level)
        return http.DONE

    log = answer(handler, environ={"poorhttp.log_level": threshold}).log
    assert "".join(line.split("[")[2][0] for line in log.splitlines()) == letters


@given(st.text())
def test_no_message_gets_out_of_its_line(message):
    def handler(req):
        req.log_error(message)
        return http.DONE

    log = answer(handler, valid=False, environ={"REMOTE_ADDR": message}).log
    assert log.count("\n") == 1
    assert log[:-1].isprintable()
    assert log[:-1].splitlines() == [log[:-1]]


def test_any_object_can_be_logged():
    assert "[N] {'a': 1}" in answer(lambda req: req.log_error({"a": 1}) or http.DONE).log


def test_details_of_server_return_are_for_debugging():
    handler = raises(http.SERVER_RETURN(http.HTTP_NOT_FOUND, "no such article"))
    assert answer(handler).log == ""
    assert "no such article" in answer(handler, environ={"poorhttp.log_level": "debug"}).log


# The request


def ask(question, **environ):
    """The value of `question(req)` inside a handler."""
    found = []
    sent = answer(lambda req: found.append(question(req)) or http.DONE, environ=environ)
    assert sent.code == 200, sent.log
    return found[0]


@pytest.mark.parametrize(
    ("environ", "hostname", "url"),
    [
        ({"HTTP_HOST": "example.com:8080"}, "example.com", "http://example.com:8080/x"),
        ({"HTTP_HOST": "[::1]:8080"}, "[::1]", "http://[::1]:8080/x"),
        ({"HTTP_HOST": "evil.example/@"}, "127.0.0.1", "http://127.0.0.1/x"),
        ({"HTTP_HOST": "", "SERVER_NAME": "::1", "SERVER_PORT": "8080"}, "[::1]", "http://[::1]:8080/x"),
        ({"HTTP_HOST": "h", "wsgi.url_scheme": "https", "HTTPS": "on"}, "h", "https://h/x"),
    ],
)
def test_where_the_client_came_to(environ, hostname, url):
    assert ask(lambda req: (req.hostname, req.construct_url("/x")), **environ) == (hostname, url)


def test_the_address_of_the_client():
    assert ask(lambda req: (req.remote_addr, req.remote_host, req.get_remote_host())) == ("192.0.2.7",) * 3
    assert ask(lambda req: req.get_remote_host(), REMOTE_HOST="client.example") == "client.example"


def test_the_environ_has_two_names():
    assert ask(lambda req: req.subprocess_env is req.environ)


def test_facts_may_be_replaced():
    def question(req):
        req.remote_addr = "198.51.100.1"
        return req.remote_addr, req.remote_host

    assert ask(question) == ("198.51.100.1", "198.51.100.1")


def test_an_unknown_attribute_is_an_error():
    assert ask(lambda req: hasattr(req, "database")) is False
    assert Request.remote_addr.__doc__ is None or isinstance(Request.remote_addr.__doc__, str)


def test_options_come_from_the_server_or_from_the_application():
    def question(req):
        options = req.get_options()
        req.get_options()["a"] = "changed"
        assert req.get_options() == options
        return options

    assert ask(question) == {}
    assert ask(question, **{"poorhttp.options": {"a": "1"}}) == {"a": "1"}
    found = []
    answer(lambda req: found.append(req.get_options()) or http.DONE, settings={"options": {"b": "2"}})
    assert found == [{"b": "2"}]


def test_document_root():
    assert ask(lambda req: req.document_root()) == ""
    assert ask(lambda req: req.document_root(), DOCUMENT_ROOT="/srv/www") == "/srv/www"


def test_read_stops_at_content_length():
    def handler(req):
        req.write(req.read(2) + b"|" + req.read() + b"|" + req.read() + req.read(1))
        return http.DONE

    behind = io.BytesIO(b"abcdeGET / HTTP/1.1")
    sent = answer(handler, method="POST", environ={"wsgi.input": behind, "CONTENT_LENGTH": "5"})
    assert sent.body == b"ab|cde|"
    assert behind.tell() == 5


def test_read_goes_to_the_end_where_the_server_marks_it():
    environ = {"wsgi.input_terminated": True, "CONTENT_LENGTH": "", "wsgi.input": io.BytesIO(b"chunked body")}
    assert (
        answer(lambda req: req.write(req.read()) or http.DONE, method="POST", environ=environ).body == b"chunked body"
    )


URLENCODED = "application/x-www-form-urlencoded"


class Trickling(io.BytesIO):
    """Gives at most two bytes at a time, and at the end what it was told to."""

    def __init__(self, data, end=b""):
        super().__init__(data)
        self.end = end

    def read(self, length=-1):
        data = super().read(2 if length < 0 else min(length, 2))
        if not data and self.end:
            raise self.end
        return data


@pytest.mark.parametrize("is_terminated", [True, False])
@pytest.mark.parametrize("end", [b"", OSError("the client has left")])
def test_of_a_body_that_ends_too_early_nothing_is_used(is_terminated, end):
    """408 and no traceback, whether the server says so by an error or by an early end."""
    environ = {"wsgi.input_terminated": is_terminated, "CONTENT_LENGTH": "10", "CONTENT_TYPE": URLENCODED}
    for handler in (lambda req: req.read(), lambda req: req.read(8), lambda req: req.form["a"]):
        log = io.StringIO()
        body = Trickling(b"a=1&b=2", end)
        sent = answer(handler, method="POST", environ={**environ, "wsgi.input": body, "wsgi.errors": log})
        assert (sent.code, log.getvalue()) == (408, "")


def test_read_goes_on_where_a_server_gives_less_at_a_time():
    environ = {"wsgi.input": Trickling(b"abcde"), "CONTENT_LENGTH": "5"}
    sent = answer(lambda req: req.read(3) + b"|" + req.read(), method="POST", environ=environ)
    assert sent.body == b"abc|de"


def test_a_chunked_body_that_the_server_cannot_read_is_refused():
    """Else it would be taken for an empty one."""
    body = io.BytesIO(b"3\r\na=1\r\n0\r\n\r\n")
    environ = {
        "HTTP_TRANSFER_ENCODING": "chunked",
        "CONTENT_LENGTH": "",
        "CONTENT_TYPE": URLENCODED,
        "wsgi.input": body,
    }
    assert answer(lambda req: req.form["a"], method="POST", environ=environ).code == 411
    assert answer(lambda req: "unread", method="POST", environ=environ).code == 200


@pytest.mark.parametrize("length", ["x", "+5", "5_0", "\u0665", "1.0"])
def test_read_refuses_a_wrong_content_length(length):
    sent = answer(lambda req: req.read() and http.DONE, method="POST", valid=False, environ={"CONTENT_LENGTH": length})
    assert sent.code == 400


# Files


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(range(256)) * 1000)
    return str(path)


@pytest.mark.parametrize("wrapper", [None, FileWrapper])
@pytest.mark.parametrize(
    ("offset", "limit", "size"), [(0, -1, 256_000), (10, -1, 255_990), (5, 100_000, 100_000), (10**9, -1, 0), (0, 0, 0)]
)
def test_sendfile(file, wrapper, offset, limit, size):
    sizes = []

    def handler(req):
        sizes.append(req.sendfile(file, offset, limit))
        return http.DONE

    environ = {"wsgi.file_wrapper": wrapper} if wrapper else {}
    sent = answer(handler, environ=environ, valid=not wrapper)  # the validator knows no file wrappers
    assert sent.body == Path(file).read_bytes()[offset:][: None if limit < 0 else limit]
    assert (sizes, sent.header("Content-Length")) == ([size], str(size))
    assert sent.header("Content-Type") == "application/octet-stream"


def test_the_file_wrapper_gets_a_file_at_its_position(file):
    given = []

    def wrapper(opened, block):
        given.append((opened.tell(), os.lseek(opened.fileno(), 0, os.SEEK_CUR)))
        return FileWrapper(opened, block)

    answer(lambda req: http.sendfile(req, file, 7), environ={"wsgi.file_wrapper": wrapper}, valid=False)
    assert given == [(7, 7)]


def test_a_file_among_text_keeps_its_place(file):
    def handler(req):
        req.content_type = "text/plain"
        req.write("before ")
        req.sendfile(file, 65, 3)
        req.write(" between ")
        req.sendfile(file, 97, 2)
        req.sendfile(file, 99, 1)
        return http.DONE

    sent = answer(handler)
    assert sent.body == b"before ABC between abc"
    assert sent.header("Content-Length") is None


def test_text_before_a_file_is_counted(file):
    def handler(req):
        req.write("before ")
        req.sendfile(file, 65, 3)
        return http.DONE

    sent = answer(handler)
    assert (sent.body, sent.header("Content-Length")) == (b"before ABC", "10")


def test_head_of_a_file(file):
    sent = answer(lambda req: http.sendfile(req, file), method="HEAD")
    assert (sent.header("Content-Length"), sent.body) == ("256000", b"")


def test_an_error_behind_a_file_discards_it(file):
    def handler(req):
        req.sendfile(file)
        raise ValueError

    sent = answer(handler)
    assert sent.code == 500
    assert sent.header("Content-Type") == "text/html; charset=utf-8"


def test_what_is_no_file_is_404(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("absent", "pipe", "loop", "pipe/below", "a\0b", "\ud800", "x" * 300, ""):
        sent = answer(lambda req, name=name: http.sendfile(req, f"{tmp_path}/{name}"))
        assert sent.code == 404, name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("style.css", "text/css"),
        ("page.HTML", "text/html"),
        ("what?is.png", "image/png"),
        ("data:x.svg", "image/svg+xml"),
        ("archive.tar.gz", "application/octet-stream"),
        ("drawing.svgz", "application/octet-stream"),
        ("without", "application/octet-stream"),
    ],
)
def test_the_type_of_a_file_is_that_of_its_name(tmp_path, name, kind):
    (tmp_path / name).write_bytes(b"x")
    assert answer(lambda req: http.sendfile(req, f"{tmp_path}/{name}")).header("Content-Type") == kind


def test_a_type_of_the_handlers_own_stays(file):
    def handler(req):
        req.content_type = "text/plain"
        return http.sendfile(req, file)

    assert answer(handler).header("Content-Type") == "text/plain"


MODIFIED = 784111777  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110
SAME = "Sun, 06 Nov 1994 08:49:37 GMT"
BEFORE, AFTER = "Sun, 06 Nov 1994 08:49:36 GMT", "Mon, 07 Nov 1994 08:49:37 GMT"


@pytest.fixture
def old(file):
    os.utime(file, ns=(0, MODIFIED * 10**9 + 5))
    return file


def conditional(file, method="GET", handler=None, **fields):
    return answer(
        handler or (lambda req: http.sendfile(req, file)),
        method=method,
        environ={f"HTTP_{name}": value for name, value in fields.items()},
    )


def test_a_whole_file_has_validators(old):
    sent = conditional(old)
    assert (sent.code, sent.header("Last-Modified")) == (200, SAME)
    etag = sent.header("ETag")
    assert re.fullmatch(r'"[0-9a-f]+-[0-9a-f]+"', etag)
    os.utime(old, ns=(0, MODIFIED * 10**9 + 6))
    assert conditional(old).header("ETag") != etag


def test_a_file_of_the_future_was_modified_now(file):
    os.utime(file, (0, time.time() + 10**6))
    assert parsedate_to_datetime(conditional(file).header("Last-Modified")).timestamp() <= time.time()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"IF_NONE_MATCH": "{etag}"}, 304),
        ({"IF_NONE_MATCH": 'W/{etag}, "other"'}, 304),
        ({"IF_NONE_MATCH": '"a,b" , {etag}'}, 304),
        ({"IF_NONE_MATCH": "*"}, 304),
        ({"IF_NONE_MATCH": '"other"'}, 200),
        ({"IF_NONE_MATCH": ""}, 200),
        ({"IF_NONE_MATCH": '"other"', "IF_MODIFIED_SINCE": SAME}, 200),
        ({"IF_NONE_MATCH": "{etag}", "IF_MODIFIED_SINCE": BEFORE}, 304),
        ({"IF_MODIFIED_SINCE": SAME}, 304),
        ({"IF_MODIFIED_SINCE": "Sunday, 06-Nov-94 08:49:37 GMT"}, 304),
        ({"IF_MODIFIED_SINCE": "Sun Nov  6 08:49:37 1994"}, 304),
        ({"IF_MODIFIED_SINCE": AFTER}, 304),
        ({"IF_MODIFIED_SINCE": BEFORE}, 200),
        ({"IF_MODIFIED_SINCE": "yesterday"}, 200),
        ({"IF_MODIFIED_SINCE": "Sun, 99 Nov 99999999999999999999 08:49:37 GMT"}, 200),
        ({"IF_MATCH": "{etag}"}, 200),
        ({"IF_MATCH": "*", "IF_UNMODIFIED_SINCE": BEFORE}, 200),
        ({"IF_MATCH": '"other"'}, 412),
        ({"IF_MATCH": "W/{etag}"}, 412),
        ({"IF_MATCH": "{etag}", "IF_NONE_MATCH": "{etag}"}, 304),
        ({"IF_UNMODIFIED_SINCE": SAME}, 200),
        ({"IF_UNMODIFIED_SINCE": BEFORE}, 412),
        ({"IF_UNMODIFIED_SINCE": "never"}, 200),
    ],
)
def test_a_condition_of_a_request_for_a_file(old, method, fields, code):
    etag = conditional(old).header("ETag")
    sent = conditional(old, method, **{name: value.format(etag=etag) for name, value in fields.items()})
    assert sent.code == code
    assert sent.body == (Path(old).read_bytes() if (method, code) == ("GET", 200) else b"")
    assert sent.header("Content-Length") == {200: "256000", 304: None, 412: "0"}[code]
    assert (sent.header("ETag"), sent.header("Last-Modified")) == (etag, SAME)
    assert (sent.header("Content-Type") is None) == (code == 304)


def test_validators_of_the_handlers_own_are_compared(old):
    def handler(req):
        req.headers_out["ETag"] = 'W/"7"'
        req.headers_out["Last-Modified"] = AFTER
        return http.sendfile(req, old)

    sent = conditional(old, handler=handler, IF_MODIFIED_SINCE=SAME)
    assert (sent.code, sent.header("ETag"), sent.header("Last-Modified")) == (200, 'W/"7"', AFTER)
    assert conditional(old, handler=handler, IF_NONE_MATCH='"7"').code == 304
    assert conditional(old, handler=handler, IF_MATCH='W/"7"').code == 412


def test_what_is_not_a_whole_file_to_get_has_no_validators(old):
    def behind_text(req):
        req.write("x")
        return http.sendfile(req, old)

    def before_text(req):
        req.sendfile(old)
        req.write("x")
        return http.DONE

    def with_status(req):
        req.status = 404
        return http.sendfile(req, old)

    def in_part(req):
        return http.sendfile(req, old, 1)

    for handler in (behind_text, before_text, with_status, in_part):
        for method in ("GET", "HEAD"):
            sent = conditional(old, method, handler, IF_NONE_MATCH="*")
            assert sent.code in (200, 404) and sent.header("ETag") is None, handler
    sent = conditional(old, "POST", IF_NONE_MATCH="*")
    assert (sent.code, sent.header("Last-Modified"), len(sent.body)) == (200, None, 256_000)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_403(file):
    os.chmod(file, 0)
    assert answer(lambda req: http.sendfile(req, file)).code == 403


def test_a_negative_offset_is_the_applications_fault(file):
    assert answer(lambda req: http.sendfile(req, file, -1)).code == 500


# The examples


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    names = ("dispatch_table", "light", "heavy", "hello", "simple", "flask_hello")
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


def test_the_articles_pages(examples):
    app = application(examples("dispatch_table"))
    first = call(app)
    assert "light version of the test" in first.text
    assert first.header("Content-Type") == "text/html; charset=utf-8"
    assert re.search(r"<code>\d{4}-\d\d-\d\d</code>.*\n.*<code>\d\d:\d\d:\d\d</code>", first.text)
    assert first.log.endswith("[N] Initialisation ...\n")
    assert call(app, "/light").log == ""
    heavy = call(app, "/heavy").text
    assert heavy.count(" - ok</code>") == 5
    assert heavy.count(" - fail</code>") == 10
    assert sys.version in heavy
    assert call(app, "/light", "POST").code == 405
    assert call(app, "/nowhere").code == 404


def test_hello(examples):
    assert call(examples("hello").application).body == b"Hello, world!"


def test_simple(examples):
    app = examples("simple").application
    assert 'value=""' in call(app).text
    assert "&lt;b&gt; ž" in call(app, method="POST", body=b"text=%3Cb%3E+%C5%BE").text
    assert "&lt;i&gt;" in call(app, QUERY_STRING="text=<i>").text
    assert call(app, "/x").code == 404
    assert call(app, method="PUT").header("Allow") == "GET, HEAD, POST"


def test_flask(examples):
    pytest.importorskip("flask")
    assert call(examples("flask_hello").app).text == "<p>Hello from Flask</p>"
