"""Files that a handler sends by its own path: parts, types, validators, and what is no file."""

import os
import re
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from wsgiref.util import FileWrapper

import pytest
from dispatching import answer

from poorhttp import http


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
