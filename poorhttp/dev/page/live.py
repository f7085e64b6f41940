"""Browsers that load their page again by themselves (`--live`): a script in each page listens to server-sent events
(HTML standard, section 9.2) from the supervisor.

Knows the script and the streams. Does not know what has changed. The supervisor never waits for a browser. A page
learns only that something has changed, and only if it comes from the host that is served.
"""

from __future__ import annotations

import base64
import hashlib
import socket
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from poorhttp.errors import ConfigError
from poorhttp.pages.document import POLICY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from poorhttp.app.callables import WSGI
    from poorhttp.config.addresses import Address

MOST = 64
"""Streams at the same time; the oldest one is closed for a new one."""

LARGEST_HEAD = 16384

SCRIPT = """<script>(() => {
let stream;
const listen = () => {
  if (stream) stream.close();
  if (document.hidden) return;
  stream = new EventSource("http://" + location.hostname + ":%d/?since=%r");
  stream.addEventListener("page", () => location.reload());
  stream.addEventListener("style", () => {
    for (const link of document.querySelectorAll('link[rel~="stylesheet"][href]')) {
      const url = new URL(link.href);
      url.searchParams.set("poorhttp", Date.now());
      if (url.host === location.host) link.href = url;
    }
  });
};
document.addEventListener("visibilitychange", listen);
listen();
})()</script>
"""
"""A hidden page holds no stream, as a browser has six connections to a host for all its tabs."""


class Streams:
    """The streams to browsers. A forked child must close `descriptors`."""

    def __init__(self, addresses: tuple[Address, ...]) -> None:
        host = next((each.host for each in addresses if each.host), "127.0.0.1")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            self._listener.bind((host, 0))
            self._listener.listen(MOST)
        except OSError as error:
            raise ConfigError(f"cannot listen on {host} for --live: {error.strerror}", "leave out --live") from None
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._streams: dict[int, tuple[socket.socket, bytearray]] = {}
        self._listening: set[int] = set()  # those that have sent a request, and may listen
        self._newest = {b"page": 0.0, b"style": 0.0}

    def descriptors(self) -> list[int]:
        """The descriptors to wait on until they are readable."""
        return [self._listener.fileno(), *self._streams]

    def hear(self, ready: set[int]) -> None:
        """Accept a new browser, read requests, drop browsers that are gone."""
        for descriptor in ready & self._streams.keys():
            self._read(descriptor)
        if self._listener.fileno() in ready:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            stream.setblocking(False)
            while len(self._streams) >= MOST:
                self._drop(next(iter(self._streams)))
            self._streams[stream.fileno()] = stream, bytearray()

    def tell(self, what: bytes, since: float) -> None:
        """Tell all browsers what to load again: b"page", or its style sheets (b"style"). since: when the process that
        serves now was started; older pages are told when they listen next.
        """
        self._newest[what] = since
        for descriptor in list(self._listening):
            self._send(descriptor, _event(what))

    def _read(self, descriptor: int) -> None:
        stream, head = self._streams[descriptor]
        try:
            data = stream.recv(LARGEST_HEAD)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        head += data
        if not data or len(head) > LARGEST_HEAD:
            self._drop(descriptor)
        elif head.endswith(b"\r\n\r\n") and descriptor not in self._listening:
            self._begin(descriptor, head.decode("latin-1"))

    def _begin(self, descriptor: int, head: str) -> None:
        request, *lines = head.split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        origin = fields.get("origin", "")
        if not request.startswith("GET /") or not _is_of(origin, fields.get("host", "")):
            self._send(descriptor, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self._drop(descriptor)
            return
        self._listening.add(descriptor)
        answer = (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
            f"Access-Control-Allow-Origin: {origin}\r\nConnection: close\r\n\r\n: here\n\n"
        )
        self._send(descriptor, answer.encode("latin-1"))
        since = _since(request)
        missed = [what for what, newest in self._newest.items() if since < newest]
        if missed:  # loading the page loads its style sheets too
            self._send(descriptor, _event(missed[0]))

    def _send(self, descriptor: int, data: bytes) -> None:
        try:
            if descriptor in self._streams and self._streams[descriptor][0].send(data) == len(data):
                return
        except OSError:
            pass
        self._drop(descriptor)

    def _drop(self, descriptor: int) -> None:
        self._listening.discard(descriptor)
        if descriptor in self._streams:
            self._streams.pop(descriptor)[0].close()


def _event(what: bytes) -> bytes:
    return b"event: %s\ndata:\n\n" % what


def _is_of(origin: str, host: str) -> bool:
    """Whether the page comes from this host, by an address or by localhost: other names could be made to lead here."""
    try:
        asked, name = urlsplit(f"//{host}").hostname or "", urlsplit(origin).hostname
        if asked != name:
            return False
        if asked != "localhost" and not asked.endswith(".localhost"):
            ip_address(asked)
    except ValueError:
        return False
    return True


def _since(request: str) -> float:
    try:
        return float(parse_qs(urlsplit(request.split(" ")[1]).query)["since"][0])
    except (KeyError, IndexError, ValueError):
        return 0.0


class Refreshed:
    """The wrapper that adds the script to the pages of an application. since: as in `Streams.tell`."""

    def __init__(self, app: WSGI, port: int, since: float) -> None:
        self._app = app
        self._script = (SCRIPT % (port, since)).encode()
        code = self._script[len(b"<script>") : -len(b"</script>\n")]
        digest = base64.b64encode(hashlib.sha256(code).digest()).decode()
        self._policy = f"{POLICY}; script-src 'sha256-{digest}'; connect-src http://*:{port}"

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        has_script: list[bool] = []
        if "text/html" in environ.get("HTTP_ACCEPT", ""):  # the page of the browser's cache may have another script
            environ.pop("HTTP_IF_NONE_MATCH", None)
            environ.pop("HTTP_IF_MODIFIED_SINCE", None)

        def begin(status: str, fields: list[tuple[str, str]], exc_info: Any = None) -> Any:
            has_script[:] = [_is_page(status, fields)]
            if has_script[0]:
                fields = [(name, self._changed(name, value)) for name, value in fields]
            return start_response(status, fields, exc_info) if exc_info else start_response(status, fields)

        answer = self._app(environ, begin)
        if environ["REQUEST_METHOD"] == "HEAD" or has_script == [False]:
            return answer
        return _Extended(answer, has_script, self._script)

    def _changed(self, name: str, value: str) -> str:
        if name.lower() == "content-length" and value.isdigit():
            return str(int(value) + len(self._script))
        return self._policy if value == POLICY else value


class _Extended:
    """The iterable of an answer, with the script behind it."""

    def __init__(self, answer: Iterable[bytes], has_script: list[bool], script: bytes) -> None:
        self._answer, self._has_script, self._script = answer, has_script, script
        if hasattr(answer, "close"):
            self.close = answer.close

    def __iter__(self) -> Iterator[bytes]:
        yield from self._answer
        if self._has_script == [True]:
            yield self._script


def _is_page(status: str, fields: list[tuple[str, str]]) -> bool:
    """Whether an answer is a whole HTML page without a content coding."""
    known = {name.lower(): value.lower() for name, value in fields}
    kind = known.get("content-type", "").partition(";")[0].strip()
    return kind == "text/html" and "content-encoding" not in known and status[:3] not in ("204", "206", "304")
