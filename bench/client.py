"""A client that checks: asks for an answer and compares it byte for byte with the expected one.

Knows HTTP/1.1 as far as these servers speak it; measures nothing. Every wait has a deadline.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
from typing import BinaryIO

from bench.workloads import Workload

PATIENCE = 15.0  # seconds for each read
# The time of day and its digests; and what Django writes into a form against forgery, other letters each time.
CHANGING = re.compile(rb"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|\b(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9A-Za-z]{64})\b")


class Failure(Exception):
    """Something that makes a measurement void; the text goes into the table in its place."""


class Missing(Failure):
    """Something is not installed, so there is nothing to measure. command: what installs it."""

    def __init__(self, what: str, command: str) -> None:
        super().__init__(f"{what} is not installed: {command}")


class Unable(Failure):
    """The server lacks what the workload needs, and says so; the text goes beside its row, which has no numbers."""


def connect(where: int | str) -> socket.socket:
    """A socket connected to a port of 127.0.0.1 or to a path; its every operation ends within PATIENCE seconds."""
    if isinstance(where, int):
        return socket.create_connection(("127.0.0.1", where), timeout=PATIENCE)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(PATIENCE)
    try:
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock


def request(workload: Workload, path: str = "") -> bytes:
    """The bytes of one request of the workload."""
    head = f"{'POST' if workload.request_body else 'GET'} {path or workload.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if workload.close:
        head += "Connection: close\r\n"
    if workload.cookie:
        head += f"Cookie: {workload.cookie}\r\n"
    if workload.request_body:
        head += f"Content-Length: {workload.request_body}\r\n"
    return head.encode() + b"\r\n" + b"x" * workload.request_body


def get(port: int, target: str, cookie: str = "", patience: float = PATIENCE) -> tuple[bytes, str]:
    """The body of an answer, and the cookie that it sets, or ""; raises Failure unless the answer is 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request("GET", target, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Failure(f"no answer to {target}: {error!r}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise Failure(f"{target} was answered by {answer.status} {answer.reason}")
    return body, (answer.getheader("Set-Cookie") or "").partition(";")[0]


def read_answer(stream: BinaryIO) -> bytes:
    """The body of the next answer; raises Unable if its status is 501, Failure if it is another one than 200, EOFError
    where it does not come whole.
    """
    return read_answer_and_end(stream)[0]


def read_answer_and_end(stream: BinaryIO) -> tuple[bytes, bool]:
    """What `read_answer` gives, and whether the answer announces that the connection ends."""
    line, fields, body = read_response(stream)
    if line.split()[1:2] == [b"501"]:
        raise Unable(body.decode("latin-1")[:80])
    if line.split()[1:2] != [b"200"]:
        raise Failure(f"answered {line.decode('latin-1').strip()!r}")
    return body, fields.get(b"connection") == b"close"


def read_response(stream: BinaryIO) -> tuple[bytes, dict[bytes, bytes], bytes]:
    """Status line, fields (all in small letters) and body of the next answer; raises EOFError where it is cut off."""
    line = stream.readline()
    if not line:
        raise EOFError("closed without an answer")
    fields = {}
    while (field := stream.readline()).strip() != b"":
        name, _, value = field.partition(b":")
        fields[name.lower()] = value.strip().lower()
    if not field:
        raise EOFError("closed within the head of an answer")
    if fields.get(b"transfer-encoding") == b"chunked":
        return line, fields, b"".join(_chunks(stream))
    length = fields.get(b"content-length")
    body = stream.read() if length is None else stream.read(int(length))
    if length is not None and len(body) < int(length):
        raise EOFError(f"closed after {len(body)} of {int(length)} bytes of an answer")
    return line, fields, body


def compare(body: bytes, expected: bytes) -> None:
    """Raise Failure unless the bodies are equal but for what is another one at each request."""
    if CHANGING.sub(b"-", body) != CHANGING.sub(b"-", expected):
        raise Failure(f"wrong answer: {body[:60]!r} ({len(body)} bytes) instead of {len(expected)} bytes")


def check(where: int | str, workload: Workload, expected: bytes) -> str:
    """Check the answers as the workload will ask for them; what is odd, but no fault, is returned as a remark."""
    try:
        with connect(where) as sock, sock.makefile("rb") as stream:
            return _check_on(sock, stream, workload, expected)
    except (OSError, EOFError) as error:
        raise Failure(f"no answer: {error or type(error).__name__}") from error


def _check_on(sock: socket.socket, stream: BinaryIO, workload: Workload, expected: bytes) -> str:
    sock.sendall(request(workload) * workload.pipeline)
    for number in range(workload.pipeline):
        try:
            body, is_last = read_answer_and_end(stream)
            compare(body, expected)
            if is_last and number + 1 < workload.pipeline:
                raise Unable("closes each connection")
        except (OSError, EOFError) as error:
            raise Failure(f"answered {number} of {workload.pipeline} requests: {error}") from error
    if workload.close:
        if stream.read(1):
            raise Failure("bytes after the answer to a request with Connection: close")
        return ""
    with contextlib.suppress(EOFError, ConnectionError):
        sock.sendall(request(workload))
        compare(read_answer(stream), expected)
        return ""
    return "closes each connection"


def _chunks(stream: BinaryIO) -> list[bytes]:
    chunks = []
    while size := int(stream.readline().split(b";")[0], 16):
        chunks.append(stream.read(size))
        stream.readline()
    stream.readline()
    return chunks
