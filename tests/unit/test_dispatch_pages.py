"""Error pages and the error log: nothing that a client sends becomes markup, or a line."""

import json
import sys

import pytest
from dispatching import LOG_LINE, answer, raises, returns, write
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch.pages import page, traceback_page

# Pages


@given(st.text(), st.text(), st.text())
def test_nothing_on_a_page_is_markup(uri, method, webmaster):
    text = page(405, method, uri, webmaster)
    plain = page(405, "", "", webmaster and "x")
    assert text.count("<") == plain.count("<")
    assert text.count(">") == plain.count(">")
    assert text.count('"') == plain.count('"')
    text.encode("utf-8")


@given(st.text())
def test_nothing_in_a_traceback_is_markup(trace):
    text = traceback_page(500, "/", trace, (), "")
    striped = text.count("<pre>")
    assert text.count("<") == traceback_page(500, "/", "", (), "").count("<") + 2 * striped
    text.encode("utf-8")


@given(st.text(alphabet=st.characters(max_codepoint=255)))
def test_any_path_is_answered(path):
    sent = answer(write("page"), path=path, valid=False)
    assert sent.code in (200, 400, 404)
    assert "<script" not in sent.text


def test_an_escaped_uri():
    sent = answer(write("page"), path="/<script>alert('x')</script>{title}")
    assert "<code>/&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;{title}</code>" in sent.text


# JSON

PROBLEM = "application/problem+json"


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        ("application/json", True),
        ("application/vnd.api+json, */*;q=0.1", True),
        ("application/json, text/html", False),
        ("application/json, text/html;q=0", True),
        ("application/json;q=0", False),
        ("*/*", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("handler", [returns(404), raises(ValueError("hidden"))], ids=["status", "exception"])
def test_a_client_that_asks_for_json_gets_error_pages_as_json(handler, accept, is_json):
    sent = answer(handler, environ={"HTTP_ACCEPT": accept})
    assert (sent.header("Content-Type") == PROBLEM) == is_json
    assert sent.header("Vary") == "Accept" and "hidden" not in sent.text
    if is_json:
        words = {404: "Not Found", 500: "Internal Server Error"}
        assert json.loads(sent.text) == {"title": words[sent.code], "status": sent.code}
    else:
        assert sent.text.startswith("<!DOCTYPE html>")


def test_json_tells_the_reason_to_the_author_only():
    environ = {"HTTP_ACCEPT": "application/json"}
    handler = raises(http.SERVER_RETURN(403, "only for <members>", "\ud800"))
    assert json.loads(answer(handler, environ=environ).text) == {"title": "Forbidden", "status": 403}
    told = json.loads(answer(handler, environ=environ, settings={"debug": True}).text)
    assert told == {"title": "Forbidden", "status": 403, "detail": "only for <members> \ud800"}
    told = json.loads(answer(raises(ValueError("why")), environ=environ, settings={"debug": True}).text)
    assert told["detail"] == "ValueError: why" and "raise error" in told["traceback"]


def test_json_is_for_default_error_pages_only():
    environ = {"HTTP_ACCEPT": "application/json"}
    sent = answer(returns(404), environ=environ, names={"errors": {404: write("own")}})
    assert (sent.text, sent.header("Vary"), sent.header("Content-Type")) == ("own", None, "text/html; charset=utf-8")
    sent = answer(returns(302), environ=environ)
    assert "<h1>302" in sent.text and sent.header("Vary") is None


def test_vary_of_the_site_is_kept():
    def handler(req):
        req.err_headers_out["vary"] = "Cookie"
        return 404

    assert answer(handler).header("Vary") == "Cookie, Accept"


# Reasons


def test_a_page_of_the_site_may_tell_why():
    def own(req):
        return f"because: {req.reason}"

    names = {"errors": dict.fromkeys((400, 403, 404, 500), own)}
    for handler, told in [
        (lambda req: req.form["title"], "the field 'title' is missing"),
        (raises(http.SERVER_RETURN(403, "only for", "members")), "only for members"),
        (raises(http.SERVER_RETURN(403)), ""),
        (returns(404), ""),
        (raises(ValueError("hidden")), ""),
    ]:
        assert answer(handler, names=names).text == f"because: {told}"


def test_a_reason_is_told_for_its_status_only():
    def own(req):
        return f"{req.reason or sys.exc_info()[1]}"

    names = {"errors": {500: own}, "post_process": raises(KeyError("later"))}
    assert answer(raises(http.SERVER_RETURN(403, "members")), names=names).text == "'later'"


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


@pytest.mark.parametrize("level", ["error", -1, 16, None, 3.0])
def test_a_wrong_level_is_told(level):
    sent = answer(lambda req: req.log_error("x", level))
    assert sent.code == 500 and f"is http.LOG_ERR or the like, not {level!r}" in sent.log
