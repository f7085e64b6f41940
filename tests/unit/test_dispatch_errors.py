"""Answers that are errors: statuses, wrong results, unknown URIs, error handlers and exceptions."""

import sys

import pytest
from dispatching import LOG_LINE, answer, call, raises, returns, table, write

from poorhttp import http
from poorhttp.dispatch import application
from poorhttp.pages.document import escape

# What a handler returns


@pytest.mark.parametrize("outcome", [http.DONE, http.OK, http.HTTP_OK])
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
        (True, " returned True: expected str, bytes, dict, list, a generator, http.Response, http.DONE or a status"),
        (False, " returned False: expected"),
        (7, " returned 7: expected str, bytes, dict, list, a generator, http.Response, http.DONE or a status"),
        (100, " returned 100"),
        (10**5000, " returned a value of type int: expected"),
        (("password", "hidden"), " returned a value of type tuple: a body with a status is http.Response("),
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
    def own_page(error, status):
        told.append(str(error))
        assert status == "500 Internal Server Error"
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

    sent = answer(raises(ValueError("seen")), names={"errors": {500: internal}})
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


def own_page(error, status):
    """The page of a server that shows details to some clients only."""
    return {"Content-Type": "text/plain"}, b"of the server: " + str(error).encode()


LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost"}


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "Traceback"),
        ({"poorhttp.error_page": own_page, **LOCAL}, "of the server: failed"),
        ({"poorhttp.error_page": own_page}, "own"),
        ({"poorhttp.debug": False, **LOCAL}, "own"),
    ],
    ids=["another server", "this machine", "another machine", "no debug"],
)
def test_the_author_gets_the_traceback_in_place_of_the_sites_own_page(environ, says):
    names = {"errors": {500: write("own")}}
    sent = answer(raises(ValueError("failed")), names=names, settings={"debug": True}, environ=environ)
    assert sent.code == 500 and says in sent.text and (sent.text == "own") == (says == "own")
    assert answer(returns(500), names=names, settings={"debug": True}, environ=environ).text == "own"


def test_the_author_gets_the_traceback_of_an_error_handler_that_fails():
    names = {"errors": {404: raises(KeyError("of the page")), 500: raises(KeyError("of the page"))}}
    for handler in returns(404), returns(500):
        sent = answer(handler, names=names, settings={"debug": True})
        assert sent.code == 500 and "Traceback" in sent.text and "of the page" in sent.text
        sent = answer(handler, names=names)
        assert sent.code == 500 and "Traceback" not in sent.text and "of the page" in sent.log


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


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("on purpose")


@pytest.mark.parametrize("settings", [{}, {"debug": True}])
def test_an_exception_whose_text_cannot_be_had_is_a_page_too(settings):
    sent = answer(raises(Unspeakable()), settings=settings)
    assert sent.code == 500 and "GET /: Unspeakable: a text that cannot be shown: ValueError\n" in sent.log
