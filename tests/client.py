"""A strict client: a raw connection on which everything that is read must be HTTP/1.1 to the letter.

Knows sockets and the grammar of answers. Knows neither poorhttp nor processes.
"""

from __future__ import annotations

import json
import re
import select
import socket
from typing import Any

from processes import PATIENCE


class Response:
    """One response as it was read.

    framing: none, length, chunked or close. complete: false where the body ended before its end. was_reset: the connection
    did so by a reset. interim: the statuses of the 1xx responses before it.
    """

    def __init__(self, status: int, reason: str, headers: list[tuple[str, str]]) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self.body = b""
        self.framing = "none"
        self.complete = True
        self.was_reset = False
        self.interim: list[int] = []

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """The value of a field that comes at most once."""
        values = self.all(name)
        assert len(values) <= 1, f"{name} comes {len(values)} times: {values}"
        return values[0] if values else None

    @property
    def closes(self) -> bool:
        return (self.header("Connection") or "").lower() == "close"

    def json(self) -> Any:
        return json.loads(self.body)

    def __repr__(self) -> str:
        return f"<Response {self.status} {self.headers} {self.body[:80]!r} {self.framing}>"


STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) ([\t \x21-\x7e\x80-\xff]*)")
FIELD_LINE = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+): ?([\x21-\x7e\x80-\xff](?:[\t \x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?|)"
)
CHUNK_LINE = re.compile(rb"[0-9A-Fa-f]{1,16}")


class Client:
    """A raw connection. Every read has a deadline; what is read must be HTTP/1.1 to the letter."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""
        self.sock.settimeout(PATIENCE)

    def send(self, data: bytes | str) -> Client:
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        return self

    def send_split(self, *pieces: bytes) -> bool:
        """Send each piece by itself; False where the server has hung up before the end."""
        try:
            for piece in pieces:
                self.sock.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def request(
        self, target: str = "/", *lines: str, method: str = "GET", body: bytes = b"", version: str = "1.1"
    ) -> Response:
        """Send one request with a Host (and a Content-Length where there is a body) and read its response."""
        self.send(compose(target, *lines, method=method, body=body, version=version))
        return self.response(method, version)

    def response(self, method: str = "GET", version: str = "1.1", *, truncated: bool = False) -> Response:
        """Read one response; interim ones are noted in it. `truncated` allows the body to end before its end."""
        interim: list[int] = []
        while True:
            response = self._head(version)
            if response.status >= 200:
                break
            assert response.header("Content-Length") is None and response.header("Transfer-Encoding") is None
            interim.append(response.status)
        response.interim = interim
        try:
            self._body(response, method)
        except (EOFError, ConnectionResetError) as error:
            if not truncated:
                raise
            response.complete = False
            response.was_reset = isinstance(error, ConnectionResetError)
        return response

    def _head(self, version: str) -> Response:
        status_line = self._line()
        match = STATUS_LINE.fullmatch(status_line)
        assert match, f"not a status line: {status_line!r}"
        headers: list[tuple[str, str]] = []
        while line := self._line():
            field = FIELD_LINE.fullmatch(line)
            assert field, f"not a field line: {line!r}"
            headers.append((field[1].decode("latin-1"), field[2].decode("latin-1")))
        response = Response(int(match[1]), match[2].decode("latin-1"), headers)
        if response.status >= 200:
            assert len(response.all("Date")) == 1, headers
            assert len(response.all("Server")) <= 1, headers
        assert len(response.all("Connection")) <= 1, headers
        assert len(response.all("Content-Length")) <= 1, headers
        assert not (response.all("Content-Length") and response.all("Transfer-Encoding")), headers
        if version == "1.0":
            assert not response.all("Transfer-Encoding"), "no Transfer-Encoding to an HTTP/1.0 client"
        return response

    def _body(self, response: Response, method: str) -> None:
        coding, length = response.header("Transfer-Encoding"), response.header("Content-Length")
        if response.status == 204:
            assert coding is None and length is None, response.headers
        if method == "HEAD" or response.status in (204, 304):
            return
        if coding is not None:
            assert coding == "chunked"
            response.framing = "chunked"
            self._chunks(response)
        elif length is not None:
            assert re.fullmatch(r"[0-9]+", length)
            response.framing = "length"
            self._exactly(response, int(length))
        else:
            response.framing = "close"
            assert response.closes, "a body that ends with the connection needs Connection: close"
            try:
                response.body = self.rest()
            except ConnectionResetError:
                response.body, self.buffer = self.buffer, b""
                raise

    def _chunks(self, response: Response) -> None:
        body = bytearray()
        try:
            while size := self._chunk_size():
                self._take(size, body)
                assert self._line() == b"", "CRLF after a chunk"
            assert self._line() == b"", "no trailers are expected"
        finally:
            response.body = bytes(body)

    def _exactly(self, response: Response, size: int) -> None:
        body = bytearray()
        try:
            self._take(size, body)
        finally:
            response.body = bytes(body)

    def _chunk_size(self) -> int:
        line = self._line()
        assert CHUNK_LINE.fullmatch(line), f"not a chunk line: {line!r}"
        return int(line, 16)

    def _take(self, size: int, body: bytearray) -> None:
        """Move the next `size` bytes to `body`; as many as there are before EOFError."""
        end = len(body) + size
        while True:
            wanted = end - len(body)
            body += self.buffer[:wanted]
            self.buffer = self.buffer[wanted:]
            if len(body) == end:
                return
            self._more()

    def _line(self) -> bytes:
        while b"\n" not in self.buffer:
            assert len(self.buffer) < 1_000_000
            self._more()
        line, _, self.buffer = self.buffer.partition(b"\n")
        assert line.endswith(b"\r") and b"\r" not in line[:-1], f"a line ends with CRLF: {line!r}"
        return line[:-1]

    def _more(self) -> None:
        if not self._receive():
            raise EOFError(f"closed after {self.buffer!r}")

    def _receive(self) -> bytes:
        data = self.sock.recv(262144)
        self.buffer += data
        return data

    def body_piece(self) -> bytes:
        """The data of the next chunk, after `head_only`."""
        piece = bytearray()
        self._take(self._chunk_size(), piece)
        assert self._line() == b""
        return bytes(piece)

    def last_chunk(self) -> bool:
        return self._line() == b"0" and self._line() == b""

    def head_only(self, version: str = "1.1") -> Response:
        return self._head(version)

    def rest(self) -> bytes:
        """All bytes until the server closes in order; a reset is an error, and leaves in `buffer` what came before it."""
        body, self.buffer = bytearray(self.buffer), b""
        try:
            while data := self.sock.recv(262144):
                body += data
        except ConnectionResetError:
            self.buffer = bytes(body)
            raise
        return bytes(body)

    def rest_or_reset(self) -> bytes:
        try:
            return self.rest()
        except ConnectionResetError:
            data, self.buffer = self.buffer, b""
            return data

    def expect_close(self) -> None:
        """The server closes now, in order, and says nothing more."""
        rest = self.rest()
        assert rest == b"", f"unexpected bytes before the close: {rest[:300]!r}"

    def is_silent(self) -> bool:
        """True while there is nothing to read and the connection is open."""
        return not self.buffer and not select.select([self.sock], [], [], 0)[0]

    def half_close(self) -> Client:
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def reset(self) -> None:
        """Close with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compose(target: str = "/", *lines: str, method: str = "GET", body: bytes = b"", version: str = "1.1") -> bytes:
    """The bytes of one request."""
    fields = [f"{method} {target} HTTP/{version}", "Host: example.com", *lines]
    if body and not any(line.lower().startswith(("content-length:", "transfer-encoding:")) for line in lines):
        fields.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*fields, "", ""]).encode("latin-1") + body
