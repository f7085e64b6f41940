"""Every way in which an answer can be framed: method, version, wish to persist, status, announced length, kind of body.

Knows RFC 9112 section 6 and 9, RFC 9110 sections 6.4, 8.6 and 15, and PEP 3333 as one function that says what must come;
knows nothing of the encoder. One process answers all of them; what comes is compared to the byte.
"""

from __future__ import annotations

import contextlib
import email.utils
import itertools
import time
from typing import Any, NamedTuple

import pytest

BODY = b"abcde"
APP = """
import io

BODY = b"abcde"

def application(environ, start_response):
    status, announced, kind = environ["PATH_INFO"].strip("/").split("/")
    headers = [("X-Mark", "m")]
    if announced != "-":
        headers.append(("Content-Length", announced))
    write = start_response(status + " Own Words", headers)
    if kind in ("write", "write-only"):
        write(BODY[:3])
    return {
        "list-0": lambda: [],
        "list-empty": lambda: [b""],
        "bytes-0": lambda: b"",
        "str-0": lambda: "",
        "bytearray-0": bytearray,
        "list-1": lambda: [BODY],
        "tuple-1": lambda: (BODY,),
        "list-2": lambda: [BODY[:3], BODY[3:]],
        "generator": lambda: iter([b"", BODY[:3], b"", BODY[3:]]),
        "generator-0": lambda: iter([]),
        "generator-empty": lambda: iter([b"", b""]),
        "write": lambda: [BODY[3:]],
        "write-only": lambda: [],
        "file": lambda: environ["wsgi.file_wrapper"](io.BytesIO(BODY), 2),
        "kernel": lambda: environ["wsgi.file_wrapper"](kernel()),
    }[kind]()

def kernel():
    import tempfile
    file = tempfile.TemporaryFile(buffering=0)
    file.write(BODY)
    file.seek(0)
    return file
"""
WHOLE = {"list-0": 0, "list-empty": 0, "bytes-0": 0, "str-0": 0, "bytearray-0": 0, "list-1": 5, "tuple-1": 5,
         "list-2": 5, "generator-0": 0, "generator-empty": 0, "kernel": 5}  # kinds whose length is known when the head is sent  # fmt: skip
LENGTHS = {**WHOLE, "generator": 5, "write": 5, "write-only": 3, "file": 5}
STATUSES = [200, 204, 205, 206, 304, 404, 500, 599]
ANNOUNCED = ["-", "0", "2", "3", "4", "5", "6", "9"]
WISHES = ["", "close", "keep-alive"]


class Case(NamedTuple):
    method: str
    version: str
    wish: str
    status: int
    announced: str
    kind: str

    @property
    def path(self) -> str:
        return f"/{self.status}/{self.announced}/{self.kind}"

    @property
    def wishes(self) -> bool:
        """Whether the client wants the connection to go on (RFC 9112 9.3)."""
        return self.wish == "keep-alive" if self.version == "1.0" else self.wish != "close"

    @property
    def request(self) -> bytes:
        wish = f"Connection: {self.wish}\r\n" if self.wish else ""
        return f"{self.method} {self.path} HTTP/{self.version}\r\nHost: a\r\n{wish}\r\n".encode()


class Expected(NamedTuple):
    """fields: the framing fields of the answer. body: as it is on the wire. persists. warning: in the error log."""

    fields: dict[str, str]
    body: bytes
    persists: bool
    warning: str = ""

    def connection(self, case: Case) -> dict[str, str]:
        """What the head says; of a body in pieces it cannot know yet that it will be too short."""
        is_surprise = self.warning == "shorter" and case.kind not in WHOLE and case.wishes
        if not self.persists and not is_surprise:
            return {"Connection": "close"}
        return {"Connection": "keep-alive"} if case.version == "1.0" else {}


def expected(case: Case) -> Expected:
    """What must come."""
    asked = case.wishes
    told = None if case.announced == "-" else int(case.announced)
    if case.status == 205:
        told = 0  # RFC 9110 15.3.6
    if case.status == 204:
        return Expected({}, b"", asked)  # RFC 9110 8.6
    if case.status == 304:
        return Expected({"Content-Length": str(told)} if told is not None else {}, b"", asked)
    given = BODY[: LENGTHS[case.kind]]
    known = told if told is not None else WHOLE.get(case.kind)
    if case.method == "HEAD":
        # Told as GET would, but an empty list may mean that the application left the body out.
        is_told = told is not None or known
        return Expected({"Content-Length": str(known)} if is_told else {}, b"", asked)
    if known is not None:
        warning = "longer" if len(given) > known else "shorter" if len(given) < known else ""
        if warning == "longer" and case.kind in ("file", "kernel"):
            warning = ""  # PEP 3333: a file is sent until Content-Length bytes are
        return Expected({"Content-Length": str(known)}, given[:known], asked and warning != "shorter", warning)
    if case.version == "1.0":
        return Expected({}, given, False)  # RFC 9112 6.1: no chunked; the body ends with the connection
    blocks = [given] if case.kind == "write-only" else [b"ab", b"cd", b"e"] if case.kind == "file" else [b"abc", b"de"]
    body = b"".join(b"%x\r\n%s\r\n" % (len(block), block) for block in blocks) + b"0\r\n\r\n"
    return Expected({"Transfer-Encoding": "chunked"}, body, asked)


def answer(client: Any, length: int) -> tuple[bytes, dict[str, str], bytes]:
    """Status line, fields and `length` bytes of what comes behind the head, however it is framed."""
    while b"\r\n\r\n" not in client.buffer:
        client._more()
    head, _, client.buffer = client.buffer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines)
    assert len(fields) == len(lines), lines
    body = bytearray()
    client._take(length, body)
    return status.encode(), fields, bytes(body)


def check(server: Any, case: Case, cut: list[Any]) -> str:
    """Ask, compare; return what the log must say. A client that has still to be reset is added to `cut`."""
    expect = expected(case)
    with contextlib.ExitStack() as closing:
        client = closing.enter_context(server.connect())
        client.send(case.request)
        status, fields, body = answer(client, len(expect.body))
        assert status == b"HTTP/1.1 %d Own Words" % case.status
        date = email.utils.parsedate_to_datetime(fields.pop("Date"))
        assert abs(date.timestamp() - time.time()) < 5
        assert fields.pop("Server") == "poorhttp"
        assert fields.pop("X-Mark") == "m"
        assert fields == expect.fields | expect.connection(case)
        assert body == expect.body
        if expect.persists:
            client.send(b"GET /200/-/list-1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            status, fields, body = answer(client, 5)
            assert (status, fields["Content-Length"], body) == (b"HTTP/1.1 200 Own Words", "5", BODY)
        if expect.warning == "shorter":
            closing.pop_all()
            cut.append(client)
        else:
            client.expect_close()
    server.clients.clear()
    return expect.warning


@pytest.mark.parametrize("shape", [(1, 1), (2, 2)], ids=["1x1", "2x2"])
@pytest.mark.parametrize("kind", LENGTHS)
def test_every_answer_is_framed_as_it_must_be(serve: Any, until: Any, shape: Any, kind: str) -> None:
    server = serve(APP, shape)
    before = len(server.error_lines())
    warnings, cut = [], []
    for case in itertools.starmap(
        Case, itertools.product(["GET", "HEAD"], ["1.0", "1.1"], WISHES, STATUSES, ANNOUNCED, [kind])
    ):
        try:
            warning = check(server, case, cut)
        except (AssertionError, EOFError, KeyError) as error:
            raise AssertionError(f"{case}: {error}") from error
        warnings += [(warning, f"({case.method} {case.path})")] if warning else []
    for client in cut:
        with client, pytest.raises(ConnectionResetError):
            client.rest()
    until(lambda: len(server.error_lines()) - before >= len(warnings), "a line for each wrong length")
    lines = server.error_lines()[before:]
    assert len(lines) == len(warnings), "and no other"
    told = sorted((word, line.rpartition(" (")[2]) for line in lines for word in ("longer", "shorter") if word in line)
    assert told == sorted((word, request.removeprefix("(")) for word, request in warnings)
    assert all("] [W] " in line for line in lines)
