"""What a handler writes: text and bytes, the buffer and the stream, HEAD, and answers without a body."""

import io
import re
import types

import pytest
from dispatching import answer, call, table, write

from poorhttp import http
from poorhttp.dispatch import TableError, application

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


def test_head_announces_no_length_where_a_file_follows_a_generator(tmp_path):
    (tmp_path / "end.txt").write_text("end")

    def handler(req):
        yield "some "

    names = {"post_process": lambda req: req.sendfile(str(tmp_path / "end.txt"))}
    assert answer(handler, names=names).body == b"some end"
    assert answer(handler, method="HEAD", names=names).header("Content-Length") is None
