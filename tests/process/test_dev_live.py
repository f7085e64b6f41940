"""Browsers that load their page again by themselves: the stream and the script as any program sees them, and Chromium."""

import re
import socket
import time
from http.client import HTTPResponse
from pathlib import Path

import psutil
import pytest
from browser import MISSING, PATH, Browser
from starter import SHAPES, Server, Start, by_rename, wait_for

HTML = """
from pathlib import Path
from wsgiref.util import FileWrapper
def application(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/style.css":
        start_response("200 OK", [("Content-Type", "text/css")])
        return [Path("style.css").read_bytes()]
    fields = [("Content-Type", "text/plain" if path == "/text" else "text/html; charset=utf-8")]
    if path == "/packed":
        fields.append(("Content-Encoding", "gzip"))
    if path == "/file":
        start_response("200 OK", fields + [("Content-Length", "12")])
        return environ["wsgi.file_wrapper"](open("page.html", "rb"))
    body = b"<link rel=stylesheet href=/style.css><p>ONE</p>"
    if path == "/write":
        start_response("200 OK", fields)(body)
        return []
    if path == "/late":
        return late(start_response, fields, body)
    start_response("200 OK", fields + [("Content-Length", str(len(body)))])
    return [body]
def late(start_response, fields, body):
    start_response("200 OK", fields)
    yield body
"""


@pytest.fixture
def serve(launch: Start, tmp_path: Path) -> Start:
    def begin(*arguments: str) -> Server:
        (tmp_path / "app.py").write_text(HTML)
        (tmp_path / "style.css").write_text("p { color: rgb(1, 2, 3) }")
        (tmp_path / "page.html").write_text("<p>FILE</p>\n")
        server = launch("dev", "app.py", "--port=0", *arguments)
        server.await_address()
        return server

    return begin


def change(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(path.read_text().replace(old, new))


def told_to(body: str) -> tuple[int, float]:
    """Port and time of the script in a page."""
    found = re.search(r':(\d+)/\?since=([0-9.]+)"', body)
    assert found, body
    return int(found[1]), float(found[2])


class Stream:
    """A browser's end."""

    def __init__(self, port: int, since: float, host: str = "127.0.0.1", origin: str = "http://127.0.0.1:1") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        head = f"GET /?since={since!r} HTTP/1.1\r\nHost: {host}:{port}\r\nOrigin: {origin}\r\n\r\n"
        for byte in head.encode():
            self._socket.sendall(bytes([byte]))
        self.said = ""
        self.await_text("\r\n\r\n")

    def await_text(self, text: str) -> None:
        end = time.monotonic() + 20
        while text not in self.said:
            assert time.monotonic() < end, self.said
            data = self._socket.recv(4096)
            assert data, self.said
            self.said += data.decode()

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("path", ["/", "/write", "/late", "/file"])
def test_a_page_has_the_script_at_its_end(serve: Start, path: str) -> None:
    status, body = serve("--live").get(path)
    assert status == 200
    assert body.count("<script>") == 1
    assert body.endswith("</script>\n")
    assert "ONE" in body or "FILE" in body


@pytest.mark.parametrize("path", ["/text", "/packed", "/style.css"])
def test_what_is_no_page_is_left_alone(serve: Start, path: str) -> None:
    assert "<script>" not in serve("--live").get(path)[1]


def test_without_live_there_is_no_script(serve: Start) -> None:
    assert serve().get() == (200, "<link rel=stylesheet href=/style.css><p>ONE</p>")


def test_head_tells_the_length_of_the_page(serve: Start) -> None:
    server = serve("--live")
    lengths = []
    for method in ("HEAD", "GET"):
        connection = server.connection()
        connection.request(method, "/")
        answer = connection.getresponse()
        body = answer.read()
        lengths.append(int(answer.headers["Content-Length"]))
        assert len(body) == (lengths[0] if method == "GET" else 0)
        connection.close()
    assert lengths[0] == lengths[1]


def test_a_save_a_mistake_and_its_end_are_told(serve: Start, tmp_path: Path, shape: str) -> None:
    server = serve("--live", *SHAPES[shape])
    stream = Stream(*told_to(server.get()[1]))
    change(tmp_path, "ONE", "TWO")
    stream.await_text("event: page\ndata:\n\n")
    status, body = server.get()
    assert status == 200 and "TWO" in body
    stream.said = ""
    change(tmp_path, "import Path", "import Poth")
    stream.await_text("event: page\ndata:\n\n")
    server.await_text("a page shows it")  # where it takes long, another page says so before
    connection = server.connection()
    connection.request("GET", "/", headers={"Accept": "text/html"})
    answer = connection.getresponse()
    page = answer.read().decode()
    connection.close()
    assert answer.status == 500
    assert told_to(page)[0] == told_to(body)[0]
    assert "script-src 'sha256-" in answer.headers["Content-Security-Policy"]
    stream.said = ""
    change(tmp_path, "import Poth", "import Path")
    stream.await_text("event: page\ndata:\n\n")
    stream.close()


@pytest.mark.parametrize("changed", [["style"], ["page"], ["page", "style"]])
def test_a_page_that_is_old_when_it_asks_is_told_at_once(serve: Start, tmp_path: Path, changed: list[str]) -> None:
    server = serve("--live")
    port, since = told_to(server.get()[1])
    server.get("/style.css")
    for count, what in enumerate(changed, 1):
        if what == "page":
            change(tmp_path, "ONE", "TWO")
            assert "TWO" in server.get()[1]
            server.get("/style.css")  # as a browser does: what nobody but a process of before has read does not count
        else:
            by_rename(tmp_path / "style.css", b"p { color: rgb(4, 5, 6) }")
            assert "rgb(4, 5, 6)" in server.get("/style.css")[1]
        wait_for(lambda count=count: server.said.count("reloaded") == count, "the reload")
    stream = Stream(port, since)
    stream.await_text(f"event: {changed[0]}\ndata:\n\n")
    assert stream.said.count("event:") == 1
    stream.close()


@pytest.fixture
def serve_files(launch: Start, tmp_path: Path) -> Server:
    (tmp_path / "dispatch_table.py").write_text("handlers = {}\n")
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "style.css").write_text("p { color: rgb(1, 2, 3) }")
    (tmp_path / "www" / "index.html").write_text("<link rel=stylesheet href=/style.css><p>FILE</p>")
    server = launch("dev", "--live", "--document=www", "--port=0")
    server.await_address()
    return server


@pytest.mark.skipif(PATH is None, reason=MISSING)
@pytest.mark.parametrize(("path", "text"), [("/sub/", "index.py"), ("/debug-info", "Python")])
def test_pages_of_the_table_may_run_the_script(launch: Start, tmp_path: Path, path: str, text: str) -> None:
    (tmp_path / "dispatch_table.py").write_text("handlers = {}\n")
    (tmp_path / "www" / "sub").mkdir(parents=True)
    (tmp_path / "www" / "sub" / "index.py").write_text("")
    server = launch("dev", "--live", "--document=www", "--index=yes", "--port=0")
    server.await_address()
    with Browser(tmp_path / "profile") as browser:
        browser.go(f"http://localhost:{server.port}{path}")
        browser.await_text(text)
        (tmp_path / "dispatch_table.py").write_text(f"1 / 0  # {text}\n")
        browser.await_text("ZeroDivisionError")


def test_files_in_document_are_watched(serve_files: Server, tmp_path: Path) -> None:
    stream = Stream(*told_to(serve_files.get()[1]))
    serve_files.get("/style.css")
    by_rename(tmp_path / "www" / "style.css", b"p { color: rgb(4, 5, 6) }")
    stream.await_text("event: style\ndata:\n\n")
    assert "rgb(4, 5, 6)" in serve_files.get("/style.css")[1]
    by_rename(tmp_path / "www" / "index.html", b"<p>NEW</p>")
    stream.await_text("event: page\ndata:\n\n")
    assert "<p>NEW</p>" in serve_files.get()[1]
    stream.close()


@pytest.mark.parametrize(
    ("path", "accept", "status"), [("/", "text/html,*/*;q=0.8", 200), ("/style.css", "text/css,*/*;q=0.1", 304)]
)
def test_no_page_with_the_script_of_an_earlier_start_comes_from_the_cache(
    serve_files: Server, path: str, accept: str, status: int
) -> None:
    def ask(**fields: str) -> HTTPResponse:
        connection = serve_files.connection()
        connection.request("GET", path, headers={"Accept": accept, **fields})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    first = ask()
    assert first.headers["ETag"] and first.headers["Last-Modified"]
    again = ask(**{"If-None-Match": first.headers["ETag"], "If-Modified-Since": first.headers["Last-Modified"]})
    assert again.status == status


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1", "http://elsewhere.test"),
        ("elsewhere.test", "http://elsewhere.test"),  # a name that was made to lead here
        ("127.0.0.1", ""),
        ("[", "http://127.0.0.1"),
    ],
)
def test_pages_of_others_are_told_nothing(serve: Start, tmp_path: Path, host: str, origin: str) -> None:
    stream = Stream(*told_to(serve("--live").get()[1]), host=host, origin=origin)
    assert stream.said.startswith("HTTP/1.1 403 ")
    stream.close()


def test_many_and_bad_browsers_delay_nothing(serve: Start, tmp_path: Path) -> None:
    server = serve("--live")
    port, since = told_to(server.get()[1])
    held = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(100)]
    held[0].close()
    for each in held[50:]:
        try:
            each.sendall(b"x" * 20000)
        except OSError:
            continue  # it made room already
    stream = Stream(port, since)
    silent = socket.create_connection(("127.0.0.1", port), 10)
    other = Stream(port, since)  # so that the silent one is in before
    change(tmp_path, "ONE", "TWO")
    stream.await_text("event: page")
    other.await_text("event: page")
    silent.setblocking(False)
    with pytest.raises(BlockingIOError):  # who has not asked is told nothing
        silent.recv(1)
    assert "TWO" in server.get()[1]
    for each in (*held, stream, silent, other):
        each.close()


@pytest.mark.skipif(PATH is None, reason=MISSING)
def test_a_browser_sees_each_save(serve: Start, tmp_path: Path) -> None:
    server = serve("--live")
    with Browser(tmp_path / "profile") as browser:
        browser.go(f"http://localhost:{server.port}/")
        browser.await_text("ONE")
        colour = "getComputedStyle(document.querySelector('p')).color"
        wait_for(lambda: browser.value(colour) == "rgb(1, 2, 3)", "the first colour")
        browser.value("document.mark = 1")
        (tmp_path / "style.css").write_text("p { color: rgb(4, 5, 6) }")
        wait_for(lambda: browser.value(colour) == "rgb(4, 5, 6)", "the second colour")
        assert browser.value("document.mark") == 1, "the page itself was not loaded again"
        change(tmp_path, "ONE", "TWO")
        browser.await_text("TWO")
        change(tmp_path, "import Path", "import Poth")
        browser.await_text("cannot import name 'Poth'")
        change(tmp_path, "import Poth", "import Path")
        browser.await_text("TWO")
        change(tmp_path, '    path = environ["PATH_INFO"]', '    path = environ["PATH_INFO"]; 1 / (path != "/")')
        browser.await_text("ZeroDivisionError: division by zero")
        change(tmp_path, '; 1 / (path != "/")', "")
        browser.await_text("TWO")


@pytest.mark.skipif(PATH is None, reason=MISSING)
def test_a_page_that_is_hidden_holds_no_stream_and_catches_up(serve: Start, tmp_path: Path) -> None:
    server = serve("--live")
    port, _ = told_to(server.get()[1])

    def streams() -> int:
        connections = psutil.Process(server.process.pid).net_connections("tcp")
        return sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in connections)

    def become(hidden: str) -> None:
        browser.value(f"Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}})")
        browser.value("document.dispatchEvent(new Event('visibilitychange'))")

    with Browser(tmp_path / "profile") as browser:
        browser.go(f"http://localhost:{server.port}/")
        browser.await_text("ONE")
        wait_for(lambda: streams() == 1, "the stream")
        become("true")
        wait_for(lambda: streams() == 0, "its end")
        change(tmp_path, "ONE", "TWO")
        wait_for(lambda: "TWO" in server.get()[1], "the new code")
        assert "ONE" in browser.value("document.body.innerText")
        become("false")
        browser.await_text("TWO")
        wait_for(lambda: streams() == 1, "the stream of the new page")
