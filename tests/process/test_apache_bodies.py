"""Bodies under the real Apache with mod_python: uploads, files and streams, and clients that leave in the middle."""

from __future__ import annotations

import hashlib
import http.client
import random
import socket
from collections.abc import Iterator

import pytest
from apache import Apache, Site, needs_apache
from comparing import exchange
from processes import wait_for

pytestmark = needs_apache

TABLE = """
import hashlib, os, time
from poorhttp import http

DATA = "DIRECTORY/data/"

def await_gate(name):
    end = time.monotonic() + 20
    while not os.path.exists(DATA + name):
        assert time.monotonic() < end, name
        time.sleep(0.005)

def form(req):
    return {name: req.form.getlist(name) for name in ("a", "b")}

def upload(req):
    digest = hashlib.sha256()
    size = 0
    while block := req.files["f"].file.read(65536):
        digest.update(block)
        size += len(block)
    return f"{size} {digest.hexdigest()} {req.form['a']}"

def raw(req):
    digest = hashlib.sha256()
    while block := req.read(50_000):
        digest.update(block)
    return digest.hexdigest()

def lines(req):
    return [line.decode() for line in req.environ["wsgi.input"]]

def unread(req):
    return http.HTTP_FORBIDDEN

def cut(req):
    yield "first"
    raise ValueError("in the middle")

def short(req):
    req.headers_out["Content-Length"] = "100"
    yield "first"

def flushed(req):
    req.write("before ")
    req.flush()
    await_gate("flushed")
    return "after"

def yielded(req):
    yield "before "
    await_gate("yielded")
    yield "after"

def failing(req):
    req.write("first")
    req.flush()
    raise ValueError("after flush")

def large(req):
    for _ in range(1000):
        req.write(b"x" * 100_000)
    return http.DONE

def file(req):
    return http.sendfile(req, DATA + "large")

def closed(req):
    try:
        while True:
            yield "x" * 100_000
    finally:
        open(DATA + "closed", "w").close()

def noted(req):
    req.log_error("a line\\x1b[31m with \\u0159 and\\nanother")
    req.environ["wsgi.errors"].write("nul \\0 surrogate \\udcff end\\n")
    return "noted"

handlers = {"/" + function.__name__: (http.METHOD_GET_POST, function) for function in (
    form, upload, raw, lines, unread, cut, short, flushed, yielded, failing, large, file, closed, noted)}
"""

MULTIPART = {"Content_Type": "multipart/form-data; boundary=b"}


@pytest.fixture(scope="module")
def apache() -> Iterator[Apache]:
    started = Apache(
        Site("table", TABLE, "    PythonOption poorhttp.document DIRECTORY/www"),
        Site("impatient", TABLE, host="RequestReadTimeout body=1"),
        Site("debug", TABLE, "    PythonOption poorhttp.debug yes"),
        Site(
            "compressed",
            TABLE,
            "    PythonOption poorhttp.document DIRECTORY/www\n    SetOutputFilter DEFLATE",
            host="DeflateAlterETag NoChange",
        ),
    )
    data = random.Random(1).randbytes(3_000_000)
    (started.directory / "data" / "large").write_bytes(data)
    (started.directory / "www" / "large.bin").write_bytes(data)
    (started.directory / "www" / "page.txt").write_text("0123456789" * 20000)
    try:
        yield started.start()
    finally:
        started.stop()


def test_an_upload_of_some_megabytes_arrives(apache: Apache) -> None:
    content = random.Random(2).randbytes(5_000_000)
    head = b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n'
    body = head + content + b'\r\n--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n'
    told = f"5000000 {hashlib.sha256(content).hexdigest()} 1"
    assert apache.ask("table")("POST", "/upload", body, **MULTIPART)[3].decode() == told
    assert apache.ask("table")("POST", "/raw", body)[3].decode() == hashlib.sha256(body).hexdigest()


def test_a_body_is_a_file_of_lines(apache: Apache) -> None:
    assert apache.ask("table")("POST", "/lines", b"one\ntwo\n\nfour")[3] == b'["one\\n","two\\n","\\n","four"]'


def test_a_client_that_expects_100_gets_it_before_its_body(apache: Apache) -> None:
    with apache.connect("table") as client:
        head = b"POST /form HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n"
        client.sendall(head + b"Content-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
        assert exchange(client, b"a=1").endswith(b'{"a":["1"],"b":[]}')


def test_a_body_that_nobody_reads_does_not_become_the_next_request(apache: Apache) -> None:
    body = b"GET /noted HTTP/1.1\r\nHost: a\r\n\r\n"
    head = b"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = exchange(
        apache.connect("table"), head + body, b"GET /missing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    assert answer.count(b"HTTP/1.1 ") == 2 and b"HTTP/1.1 403" in answer and b"HTTP/1.1 404" in answer


@pytest.mark.parametrize("site", ["table", "debug"])
@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/form", "application/x-www-form-urlencoded", b"a=12"),
        (
            "/upload",
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\nab',
        ),
        ("/raw", "application/octet-stream", b"x" * 100_000),
        ("/raw", "application/octet-stream", b""),
    ],
)
def test_a_client_that_stops_in_its_body_is_no_fault_of_the_application(
    apache: Apache, site: str, path: str, kind: str, body: bytes
) -> None:
    """It gets 408, as from poorhttp; nothing of a form that was cut is used, and there is no traceback."""
    client = apache.connect(site)
    client.sendall(
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: 200000\r\n\r\n".encode()
    )
    client.sendall(body)
    client.shutdown(socket.SHUT_WR)
    answer = exchange(client)
    assert answer.startswith(b"HTTP/1.1 408 ") and b"Connection: close" in answer
    assert b"Traceback" not in answer and "Client read error" not in no_debug(apache.log())


def test_a_client_that_falls_silent_in_its_body_gets_408_when_its_time_is_over(apache: Apache) -> None:
    client = apache.connect("impatient")
    head = b"POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    answer = exchange(client, head + b"Content-Length: 10\r\n\r\na=12")
    assert answer.startswith(b"HTTP/1.1 408 ") and "POST /form" not in no_debug(apache.log())


def no_debug(log: str) -> str:
    """Without the lines of the level info: the site under debug says there why a request was refused."""
    return "\n".join(line for line in log.splitlines() if " [I] " not in line)


def test_a_chunked_body_is_refused(apache: Apache) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", apache.ports["table"], timeout=20)
    connection.request("POST", "/form", iter([b"a=1"]), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
    assert connection.getresponse().status == 411
    connection.close()


@pytest.mark.parametrize("path", ["/file", "/large.bin"])
def test_a_large_file_is_sent_whole_and_in_parts(apache: Apache, path: str) -> None:
    content = (apache.directory / "data" / "large").read_bytes()
    status, _, fields, _ = apache.ask("table")("GET", path)
    assert (status, dict(fields)["content-length"]) == (200, "3000000")
    connection = http.client.HTTPConnection("127.0.0.1", apache.ports["table"], timeout=20)
    connection.request("GET", path, headers={"Range": "bytes=1000000-2999998"})
    answer = connection.getresponse()
    if path == "/file":  # what a handler sends is the whole
        assert (answer.status, answer.read()) == (200, content)
    else:
        assert (answer.status, answer.read()) == (206, content[1_000_000:2_999_999])
    connection.close()


@pytest.mark.parametrize("name", ["flushed", "yielded"])
def test_what_is_flushed_arrives_before_the_rest_is_made(apache: Apache, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", apache.ports["table"], timeout=20)
    connection.request("GET", f"/{name}")
    answer = connection.getresponse()
    assert answer.read(7) == b"before "
    (apache.directory / "data" / name).touch()
    assert answer.read() == b"after"
    connection.close()


@pytest.mark.parametrize("path", ["/cut", "/short", "/failing"])
def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole(apache: Apache, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", apache.ports["table"], timeout=20)
    connection.request("GET", path)
    with pytest.raises(http.client.IncompleteRead) as error:
        connection.getresponse().read()
    assert error.value.partial == b"first"
    connection.close()
    words = {"/cut": "in the middle", "/short": "lacks 95 bytes", "/failing": "after flush"}
    wait_for(lambda: words[path] in apache.log(), "a line in the log")


@pytest.mark.parametrize("path", ["/large", "/file", "/large.bin", "/closed"])
def test_a_client_that_leaves_is_no_error(apache: Apache, path: str) -> None:
    """Its traceback would say nothing to anybody; the application's iterable is closed, and the next request is served."""
    with apache.connect("table") as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        client.recv(10)
    if path == "/closed":
        wait_for((apache.directory / "data" / "closed").exists, "the generator to be closed")
    assert apache.ask("table")("GET", "/noted")[0] == 200
    assert "client closed" not in apache.log()


def test_lines_of_the_log_are_single_lines_of_printable_characters(apache: Apache) -> None:
    assert apache.ask("table")("GET", "/noted")[0] == 200
    log = apache.log()
    assert "[N] a line\\\\x1b[31m with \\xc5\\x99 and\\\\nanother" in log
    assert "nul \\\\x00 surrogate \\\\udcff end" in log


def test_the_page_for_debugging_is_for_clients_on_this_machine(apache: Apache) -> None:
    secret = {"Authorization": "Basic c2VjcmV0"}
    status, _, _, body = apache.ask("debug")("GET", "/debug-info", Host="localhost", **secret)
    assert status == 200 and b"mod_python" in body and b"/upload" in body and b"c2VjcmV0" not in body
    assert apache.ask("debug")("GET", "/debug-info", Host="example.com")[0] == 404
    assert apache.ask("table")("GET", "/debug-info", Host="localhost")[0] == 404


def test_answers_that_apache_compresses_are_still_conditional(apache: Apache) -> None:
    ask = apache.ask("compressed")
    _, _, fields, body = ask("GET", "/page.txt", Accept_Encoding="gzip")
    assert ("content-encoding", "gzip") in fields and len(body) < 2000
    etag = dict(fields)["etag"]
    assert ask("GET", "/page.txt", Accept_Encoding="gzip", If_None_Match=etag)[0] == 304
