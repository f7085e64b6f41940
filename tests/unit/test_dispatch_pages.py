"""Error pages and the error log: nothing that a client sends becomes markup, or a line."""

import pytest
from dispatching import LOG_LINE, answer, raises, write
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
