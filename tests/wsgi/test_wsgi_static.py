"""Files of a document root through the real server: the kernel sends them, HEAD and parts are framed right."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from client import Response
from server import Server, Shape

DATA = bytes(range(256)) * 4000

TABLE = """
from poorhttp import http

def root(req):
    req.write(req.document_root())
    return http.DONE

handlers = {"/root": (http.METHOD_GET, root)}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    (place / "dispatch_table.py").write_text(TABLE)
    (place / "www" / "sub").mkdir(parents=True)
    (place / "www" / "data.bin").write_bytes(DATA)
    (place / "www" / "small.txt").write_bytes(b"0123456789")
    (place / "www" / "out").symlink_to(place / "dispatch_table.py")
    (place / "site.ini").write_text("[mime-type]\nbin = application/x-own\n")
    return place


@pytest.fixture
def server(serve: Callable[..., Server], site: Path, any_shape: Shape) -> Server:
    return serve(str(site), any_shape, document=site / "www", index=True)


def test_a_file(server: Server) -> None:
    for _ in range(3):
        answer = server.get("/data.bin")
        assert (answer.status, answer.body == DATA, answer.framing) == (200, True, "length")
    assert server.get("/small.txt").body == b"0123456789"


def test_head_and_a_next_request_on_the_same_connection(server: Server) -> None:
    with server.connect() as client:
        for _ in range(2):
            head = client.request("/data.bin", method="HEAD")
            assert (head.status, head.header("Content-Length"), head.body) == (200, str(len(DATA)), b"")
            assert client.request("/data.bin", "Range: bytes=100000-299999").body == DATA[100000:300000]
            assert client.request("/data.bin", "Range: bytes=-7").body == DATA[-7:]
            assert client.request("/data.bin", "Range: bytes=3-5").body == DATA[3:6]
            etag = head.header("ETag")
            assert client.request("/data.bin", f"If-None-Match: {etag}").status == 304
            assert client.request("/data.bin", f"Range: bytes={len(DATA)}-").status == 416
            assert client.request("/small.txt", method="POST", body=b"x").status == 405
            assert client.request("/data.bin").body == DATA


def test_several_parts(server: Server) -> None:
    answer = server.get("/data.bin", "Range: bytes=0-99999, 500000-600000")
    assert answer.status == 206
    assert answer.header("Content-Length") == str(len(answer.body))
    assert DATA[:100000] in answer.body and DATA[500000:600001] in answer.body
    assert len(answer.body) < 200_001 + 1000


@pytest.mark.parametrize(
    "target",
    ["/../dispatch_table.py", "/%2e%2e/dispatch_table.py", "/sub/..%2f../dispatch_table.py", "/out", "//etc/passwd",
     "/..%5cdispatch_table.py", "/%00", "/sub%2f..%2f..%2fdispatch_table.py"],
)  # fmt: skip
def test_nothing_escapes(server: Server, target: str) -> None:
    answer = server.get(target)
    assert answer.status in (400, 404) and b"METHOD_GET" not in answer.body


def test_listing_and_slash(server: Server) -> None:
    answer = server.get("/")
    assert re.findall(r'<td><a href="(.*?)"', answer.body.decode()) == ["sub/", "data.bin", "small.txt"]
    assert server.get("/sub?x=y").header("Location") == "/sub/?x=y"
    assert server.get("/sub?a\\b").header("Location") == "/sub/?a%5Cb"


def test_the_document_root_is_known_to_handlers(server: Server, site: Path) -> None:
    assert server.get("/root").body.decode() == str(site / "www")


def test_types_of_the_ini_file(serve: Callable[..., Server], site: Path) -> None:
    server = serve(str(site), document=site / "www", ini="[mime-type]\nbin = application/x-own\n")
    assert server.get("/data.bin").header("Content-Type") == "application/x-own"
    assert server.get("/").status == 404


def test_a_file_that_is_sent_leaves_no_descriptor(server: Server, until: Callable[..., Any]) -> None:
    before = server.descriptors()
    answers: list[Response] = [server.get("/data.bin", *fields) for fields in ((), ("Range: bytes=0-1,5-6",)) * 20]
    assert {answer.status for answer in answers} == {200, 206}
    until(lambda: server.descriptors() <= before, "the descriptors are closed")


def test_a_client_that_goes_away_in_the_middle_leaves_no_descriptor(
    server: Server, compose: Callable[..., bytes], until: Callable[..., Any]
) -> None:
    before = server.descriptors()
    for fields in (), ("Range: bytes=0-500000",), ("Range: bytes=0-300000,400000-900000",):
        client = server.connect(receive_buffer=4096)
        client.send(compose("/data.bin", *fields))
        client.head_only()
        client.reset()
    until(lambda: server.descriptors() <= before, "the descriptors are closed")


def test_a_small_sendfile_needs_no_copy(server: Server) -> None:
    """The kernel sends a large file: the process does not grow by it."""
    pid = server.pids()[0]
    server.get("/data.bin")
    before = psutil.Process(pid).memory_info().rss
    for _ in range(20):
        server.get("/data.bin")
    assert psutil.Process(pid).memory_info().rss < before + len(DATA)


def test_faults_are_told_at_the_start(site: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def application(environ, start_response): ...\n")
    for application, document, says in (
        (site, site / "none", "No such file or directory"),
        (site, site, "clients could read the application"),
        (tmp_path / "app.py", site / "www", "app.py is no dispatch table"),
    ):
        command = [sys.executable, "-m", "poorhttp", "check", str(application), "--port=0", f"--document={document}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode and says in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_without_a_document_root_nothing_of_it_is_imported(site: Path) -> None:
    code = (
        "import sys; from poorhttp.app.loader import load; load(sys.argv[1], '/');"
        "print([name for name in sys.modules if name.startswith('poorhttp.dispatch.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(site)], capture_output=True, text=True, timeout=60, check=True
    )
    modules = ("static", "contained", "ranges", "listing", "media_types", "codings", "uri_path", "pages")
    assert not [name for name in modules if f"'poorhttp.dispatch.{name}'" in done.stdout]
