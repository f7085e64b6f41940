"""Uploads where the disk for temporary files is full: an error that says so, to the client and in the log."""

import socket
from pathlib import Path

import pytest
from starter import SHAPES, Start, mounts, wait_for, without

TABLE = """
import os

from poorhttp import http

def upload(req):
    return f"{len(req.files['file'].value)} bytes"

def descriptors(req):
    return str(len(os.listdir("/proc/self/fd")))

handlers = {"/": (http.METHOD_POST, upload), "/descriptors": (http.METHOD_GET, descriptors)}
"""
PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'


def post(port: int, size: int) -> tuple[int, bytes]:
    """Upload a file of so many bytes."""
    body = PART + b"x" * size + b"\r\n--b--\r\n"
    head = b"POST / HTTP/1.0\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(head + body)
        with client.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            return status, answer.read().partition(b"\r\n\r\n")[2]


@mounts
@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_an_upload_that_finds_no_room_is_refused(launch: Start, tmp_path: Path, shape: str) -> None:
    """The body has room for itself above 256 KiB, and the file in it once more above 64 KiB."""
    (tmp_path / "dispatch_table.py").write_text(TABLE)
    (tmp_path / "temporary").mkdir()
    small = without("mount -t tmpfs -o size=1m none temporary")
    server = launch(".", "--bind=127.0.0.1:0", *SHAPES[shape], inside=small, TMPDIR=str(tmp_path / "temporary"))
    server.await_address()
    assert post(server.port, 200_000) == (200, b"200000 bytes")
    before = int(server.get("/descriptors")[1])
    for size, status, told in (
        (700_000, 500, "[E] POST /: OSError: [Errno 28] No space left on device"),
        (5_000_000, 503, "the body could not be kept in a temporary file: No space left on device"),
    ):
        for _ in range(3):
            assert post(server.port, size)[0] == status
        server.await_text(told)
    assert post(server.port, 400_000) == (200, b"400000 bytes")
    wait_for(lambda: int(server.get("/descriptors")[1]) <= before, "the descriptors to be closed")
    assert server.stop() == 0
