"""wsgi.file_wrapper: the same bytes by sendfile and by read(), from the file's place, within Content-Length; close().

Knows PEP 3333's optional platform-specific file handling.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

APP = '''
import io, os, tempfile
from gate import HERE, note

CONTENT = b"".join(b"line %d\\n" % number for number in range(20000))

class Noted:
    """A file-like object around another one; `fileno` is there only where the other way would hide it."""
    def __init__(self, inner, tag, fileno):
        self.inner, self.tag = inner, tag
        if fileno:
            self.fileno = inner.fileno

    def read(self, size=-1):
        return self.inner.read(size)

    def tell(self):
        return self.inner.tell()

    def close(self):
        note("close " + self.tag)
        self.inner.close()

def opened(kind, tag, offset):
    path = os.path.join(HERE, "content")
    if not os.path.exists(path):
        temporary = path + "." + tag
        with open(temporary, "wb") as file:
            file.write(CONTENT)
        os.rename(temporary, path)
    if kind == "file":
        file = open(path, "rb")
    elif kind == "unbuffered":
        file = open(path, "rb", buffering=0)
    elif kind == "unsized":
        return open("/proc/version", "rb")
    elif kind == "of the kernel":
        return open("/sys/devices/system/cpu/online", "rb")
    elif kind == "written":
        file = tempfile.TemporaryFile()
        file.write(CONTENT)
        file.seek(0)
        file.read(4)
        file.write(b"HEADER")
        file.seek(0)
        return file
    elif kind == "write-only":
        return io.FileIO(path, "a")
    elif kind == "empty":
        open(os.path.join(HERE, "empty"), "wb").close()
        return open(os.path.join(HERE, "empty"), "rb")
    elif kind == "noted":
        file = Noted(open(path, "rb"), tag, True)
        file.inner.seek(offset)
        return file
    elif kind == "large":
        path = os.path.join(HERE, "large")
        with open(path, "wb") as file:
            file.truncate(32 << 20)
        return open(path, "rb")
    elif kind == "large-read-only":
        return Noted(open(os.path.join(HERE, "large"), "rb"), tag, False)
    elif kind == "bytes":
        file = io.BytesIO(CONTENT)
    elif kind == "read-only":
        file = Noted(open(path, "rb"), tag, False)
        file.inner.seek(offset)
        return file
    elif kind == "pipe":
        reader, writer = os.pipe()
        os.write(writer, CONTENT[offset:60000])
        os.close(writer)
        return os.fdopen(reader, "rb")
    file.seek(offset)
    return file

def application(environ, start_response):
    environ["PATH_INFO"] = environ["PATH_INFO"].replace("_", " ")
    query = dict(pair.split("=") for pair in environ["QUERY_STRING"].split("&") if pair)
    offset = int(query.get("offset", 0))
    file = opened(environ["PATH_INFO"].strip("/"), query.get("tag", "x"), offset)
    headers = [("Content-Type", "text/plain")]
    if "length" in query:
        headers.append(("Content-Length", query["length"]))
    if "first" in query:
        file.readline()
    block = [int(query["block"])] if "block" in query else []
    wrapper = environ["wsgi.file_wrapper"](file, *block)
    if "iterate" in query:
        body = b"".join(wrapper)
        wrapper.close()
        start_response("200 OK", headers)
        return [body]
    write = start_response("200 OK", headers)
    if "write" in query:
        write(b"written before\\n")
    return wrapper
'''
CONTENT = b"".join(b"line %d\n" % number for number in range(20000))
KINDS = ["file", "unbuffered", "noted", "bytes", "read-only"]
tags = iter(range(1_000_000))


@pytest.fixture
def server(serve: Any, any_shape: Any) -> Any:
    return serve(APP, any_shape, errors=["declared"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_file(server: Any, kind: str) -> None:
    with server.connect() as client:
        for _ in range(2):
            assert client.request(f"/{kind}").body == CONTENT


def test_a_file_is_sent_by_the_kernel(start: Any) -> None:
    """It counts what sendfile sends as written by the process; what is read and goes to send(2) it does not."""
    server = start(APP)

    def written() -> int:
        text = Path(f"/proc/{server.pid}/io").read_text(encoding="ascii")
        return int(text.partition("wchar: ")[2].split()[0])

    for kind, is_sent in {"large": True, "large-read-only": False}.items():
        before = written()
        assert server.get(f"/{kind}").body == bytes(32 << 20)
        assert (written() - before > 32 << 20) is is_sent


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [0, 1, 8191, 8192, 100_000, len(CONTENT) - 1, len(CONTENT)])
def test_from_its_place(server: Any, kind: str, offset: int) -> None:
    with server.connect() as client:
        assert client.request(f"/{kind}?offset={offset}").body == CONTENT[offset:]
        assert client.request(f"/{kind}?offset={offset}&block=1000").body == CONTENT[offset:]


@pytest.mark.parametrize("kind", ["file", "unbuffered", "bytes"])
def test_after_a_buffered_read(server: Any, kind: str) -> None:
    """The file's own position counts, not that of the descriptor, which a buffer has moved ahead."""
    assert server.get(f"/{kind}?first=1").body == CONTENT[len(b"line 0\n") :]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [0, 1, 5000, 100_000])
def test_within_content_length(server: Any, kind: str, length: int) -> None:
    with server.connect() as client:
        response = client.request(f"/{kind}?offset=10&length={length}")
        assert response.header("Content-Length") == str(length)
        assert response.body == CONTENT[10 : 10 + length]
        assert client.request("/bytes?length=6").body == b"line 0", "not a byte more"


@pytest.mark.parametrize("kind", KINDS)
def test_content_length_beyond_the_file_breaks_off(server: Any, until: Any, kind: str) -> None:
    lines = len(server.error_lines())
    with server.connect() as client:
        client.send(f"GET /{kind}?length={len(CONTENT) + 10} HTTP/1.1\r\nHost: a\r\n\r\n")
        response = client.response(truncated=True)
        assert response.was_reset
        assert response.body == CONTENT
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")


@pytest.mark.parametrize("kind", KINDS)
def test_on_1_0(server: Any, kind: str) -> None:
    assert server.get(f"/{kind}?offset=5", version="1.0").body == CONTENT[5:]


@pytest.mark.parametrize("kind", KINDS)
def test_head(server: Any, kind: str) -> None:
    with server.connect() as client:
        assert client.request(f"/{kind}?length=500", method="HEAD").header("Content-Length") == "500"
        assert client.request("/bytes?length=6").body == b"line 0"


@pytest.mark.parametrize("kind", ["noted", "read-only"])
@pytest.mark.parametrize("how", ["whole", "head", "length", "gone"])
def test_the_file_is_closed_once(server: Any, kind: str, how: str) -> None:
    tag = f"f{next(tags)}"
    with server.connect() as client:
        if how == "gone":
            client.send(f"GET /{kind}?tag={tag} HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.head_only().status == 200
            client.reset()
        else:
            extra = "&length=100" if how == "length" else ""
            client.request(f"/{kind}?tag={tag}{extra}", method="HEAD" if how == "head" else "GET")
        server.await_note(f"close {tag}")
        assert server.get("/bytes?length=6").body == b"line 0"
        assert server.notes().count(f"close {tag}") == 1


def test_a_file_without_a_place_is_read(server: Any) -> None:
    """A pipe has a descriptor that sendfile cannot use."""
    assert server.get("/pipe").body == CONTENT[:60000]


@pytest.mark.parametrize("kind", KINDS)
def test_the_wrapper_is_an_iterable(server: Any, kind: str) -> None:
    """A middleware that iterates over it gets the same bytes."""
    assert server.get(f"/{kind}?iterate=1&block=777").body == CONTENT
    assert server.get(f"/{kind}?iterate=1&offset=100").body == CONTENT[100:]


@pytest.mark.parametrize("kind", KINDS)
def test_write_before_the_file(server: Any, kind: str) -> None:
    assert server.get(f"/{kind}?write=1").body == b"written before\n" + CONTENT


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_reader_gets_all_of_it(server: Any, kind: str) -> None:
    with server.connect(receive_buffer=4096) as client:
        client.send(f"GET /{kind}?length={len(CONTENT)} HTTP/1.1\r\nHost: a\r\n\r\n")
        with server.connect() as other:
            assert other.request("/bytes?length=6").body == b"line 0"
        assert client.response().body == CONTENT


@pytest.mark.parametrize("kind", KINDS)
def test_pipelined_files_come_in_order(server: Any, compose: Any, kind: str) -> None:
    with server.connect() as client:
        client.send(b"".join(compose(f"/{kind}?offset={offset}") for offset in range(0, 50_000, 10_000)))
        for offset in range(0, 50_000, 10_000):
            assert client.response().body == CONTENT[offset:]


def test_no_descriptor_is_left(server: Any, until: Any) -> None:
    server.get("/file")
    base = server.descriptors()
    for kind in KINDS:
        for _ in range(5):
            server.get(f"/{kind}?length=10")
    until(lambda: server.descriptors() <= base, "the descriptors of the files")


LARGE = """
import os
from gate import HERE

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return environ["wsgi.file_wrapper"](open(os.path.join(HERE, "large"), "rb"))
"""


@pytest.mark.parametrize("end", ["shrinks", "shrinks and grows", "client leaves"])
def test_a_file_that_is_not_sent_to_its_end(start: Any, any_shape: Any, until: Any, end: str) -> None:
    """One that becomes shorter is told as any other short body; the access log has what was sent."""
    length, left = 40_000_000, 20_000_000  # neither fits into the buffers of two sockets
    server = start(LARGE, any_shape, linger_timeout=0.2)
    path = server.directory / "large"
    path.write_bytes(b"")
    os.truncate(path, length)
    with server.connect() as client:
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.head_only().header("Content-Length") == str(length)
        if end == "client leaves":
            client.reset()
        else:
            os.truncate(path, left)
            assert len(client.rest_or_reset()) == left
        if end == "shrinks and grows":
            os.truncate(path, length)
    until(lambda: any('"GET / HTTP/1.1"' in line for line in server.request_lines()), "a line in the access log")
    logged = next(line for line in server.request_lines() if '"GET / HTTP/1.1"' in line)
    if end == "client leaves":
        assert int(logged.split()[-1]) < left
        assert server.error_lines() == []
    else:
        assert logged.endswith(f" 200 {left}")
        told = f"the file became shorter: the body is {length - left} bytes shorter than its Content-Length (GET /)"
        assert [line for line in server.error_lines() if told in line and "[W]" in line] == server.error_lines() != []


INTERRUPTED = """
import io
import poorhttp

class Interrupted(io.FileIO):
    def fileno(self):
        raise poorhttp.RequestTimeout("between two steps")

io.FileIO = Interrupted  # what the server takes for a plain file

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return environ["wsgi.file_wrapper"](Interrupted(__file__))
"""


def test_a_timeout_while_a_file_is_asked_for_its_number_is_not_swallowed(start: Any) -> None:
    server = start(INTERRUPTED, errors=["RequestTimeout"])
    assert server.get("/").status == 504
    assert "between two steps" in server.errors()


def test_what_has_no_size_is_read(server: Any) -> None:
    """A file of /proc is made as it is read, and says that it has none; an empty one is just empty."""
    with server.connect() as client:
        response = client.request("/unsized")
        assert response.body.startswith(b"Linux version ")
        assert client.request("/empty").body == b""
        response = client.request("/unsized?length=5")
        assert (response.body, response.header("Content-Length")) == (b"Linux", "5")


def test_what_says_a_false_size_is_read(server: Any) -> None:
    """A file of /sys is a page long whatever it holds."""
    online = Path("/sys/devices/system/cpu/online")
    if not online.exists():
        pytest.skip(f"there is no {online}")
    assert server.get("/of_the_kernel").body == online.read_bytes()


def test_what_is_written_and_not_in_the_file_yet(server: Any) -> None:
    assert server.get("/written").body == CONTENT[:4] + b"HEADER" + CONTENT[10:]


def test_a_file_that_cannot_be_read_is_a_failure(start: Any) -> None:
    server = start(APP, errors=["not readable", "UnsupportedOperation"])
    assert server.get("/bytes?length=6").body == b"line 0"
    server.get("/file?length=6")  # makes it
    assert server.get("/write-only").status == 500


COLLECTED = """
import gc, weakref

class Filelike:
    def read(self, size=-1):
        return b""

def application(environ, start_response):
    filelike = Filelike()
    filelike.wrapper = environ["wsgi.file_wrapper"](filelike)
    is_there = weakref.ref(filelike)
    del filelike
    gc.collect()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"there" if is_there() else b"gone"]
"""


def test_a_file_that_refers_to_its_wrapper_is_collected(serve: Any) -> None:
    assert serve(COLLECTED).get("/").body == b"gone"
