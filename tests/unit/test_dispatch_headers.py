"""Fields of an answer and of a request, and redirects: nothing gets out of its line."""

import pytest
from dispatching import answer
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch.headers import Headers, RequestHeaders
from poorhttp.dispatch.redirect import checked_target

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


# Fields of a request


def test_an_empty_variable_of_cgi_is_no_field():
    fields = RequestHeaders({"CONTENT_TYPE": "", "CONTENT_LENGTH": "", "HTTP_X_EMPTY": ""})
    assert "Content-Type" not in fields and fields.get("Content-Length", "none") == "none"
    assert (list(fields), len(fields), fields["X-Empty"]) == (["X-Empty"], 1, "")
    with pytest.raises(KeyError):
        fields["Content-Type"]


def test_a_field_that_passes_for_content_type_is_none():
    """Servers that take _ for - give it for the line `Content_Type: x`."""
    fields = RequestHeaders({"HTTP_CONTENT_TYPE": "text/x", "HTTP_X_HTTP_Y": "1", "wsgi.input": None})
    assert fields.items() == [("X-Http-Y", "1")]
    fields = RequestHeaders({"HTTP_CONTENT_TYPE": "text/x", "CONTENT_TYPE": "text/plain"})
    assert fields.items() == [("Content-Type", "text/plain")]
