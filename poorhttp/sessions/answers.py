"""One answer on its way from the application to the server, held at its head until the session was saved.

Knows `start_response`, `write()` and iteration of PEP 3333. Knows nothing of how a session is kept.
"""

from __future__ import annotations

from poorhttp.sessions.errors import SessionError, StoreDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    from _typeshed import OptExcInfo
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from poorhttp.sessions.session import Session

    class Saver(Protocol):
        def fields(self, environ: WSGIEnvironment, session: Session, is_failed: bool) -> list[tuple[str, str]]:
            """Save a session; return the fields that the answer needs for it."""


UNAVAILABLE = b"503 - Service Unavailable\n"
DOWN = [("Cache-Control", "no-store"), ("Retry-After", "5")]
"""The fields of an answer that was made because the store is down."""


class Answer:
    """is_started: whether the application has called start_response. is_refused: whether the client gets `page`, 503,
    in place of the application's answer.

    An application that makes pages of the errors of a session is told by start_response, which then saves the session
    and raises what fails; its next answer is sent, and the session is not saved.
    """

    _status = ""
    _headers: list[tuple[str, str]]
    _exc_info: OptExcInfo | None = None
    _extra: list[tuple[str, str]]  # the fields for the session, once it was saved
    _write: Callable[[bytes], object]
    is_started = is_refused = _has_begun = _is_told = False
    page: list[bytes]

    def __init__(
        self,
        sessions: Saver,
        session: Session,
        environ: WSGIEnvironment,
        start_response: StartResponse,
        makes_pages: bool = False,
    ) -> None:
        self._sessions = sessions
        self._session = session
        self._environ = environ
        self._start_response = start_response
        self._makes_pages = makes_pages

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: OptExcInfo | None = None
    ) -> Callable[[bytes], object]:
        """The application's start_response; the server's is called when the session was saved. Raises what saving
        raises, if the application makes pages of that.
        """
        if self._has_begun and not self.is_refused:
            # The server raises it again if something was sent; else this head takes the place of the one before.
            return self._start_response(status, with_fields(headers, self._extra), exc_info)
        if self._status and exc_info is None:
            raise AssertionError("start_response was called twice without exc_info (PEP 3333)")
        self._status, self._headers = status, headers
        if exc_info is not None:
            self._exc_info = exc_info
        if self._makes_pages:
            try:
                self.begin()
            except BaseException as error:
                self._status = ""  # so that another answer may be started
                if isinstance(error, SessionError):  # the lines in here that found it tell an author nothing
                    raise error.with_traceback(None) from error.__cause__
                raise
        self.is_started = True
        return self.write

    def write(self, data: bytes) -> None:
        """The application's write()."""
        send = self.begin()
        if not self.is_refused:
            send(data)

    def begin(self) -> Callable[[bytes], object]:
        """Save the session and send the head, once; return the server's write()."""
        if self._has_begun:
            return self._write
        try:
            self._extra = self._fields()
        except StoreDown as error:
            if not self._makes_pages:
                return self._refuse(error)
            self._is_told = True
            raise
        except BaseException:
            self._session.abandon()
            self._is_told = True
            raise
        headers = with_fields(self._headers, self._extra) if self._extra else self._headers
        if self._exc_info is None:  # a server may count the arguments, so the third is not always there
            self._write = self._start_response(self._status, headers)
        else:
            self._write = self._start_response(self._status, headers, self._exc_info)
        self._has_begun = True  # said by itself, for the start_response of a test often returns None
        return self._write

    def refused(self, error: StoreDown) -> Iterable[bytes]:
        """Answer 503 for an application that raised; raise the error again if part of an answer was sent."""
        self._session.abandon()
        if self._has_begun and not self.is_refused:
            raise error
        if not self.is_refused:
            self._refuse(error)
        return self.page

    def abandon(self) -> None:
        """The server has closed an answer: if no byte of it was sent, nothing is saved."""
        self._session.abandon()

    def _fields(self) -> list[tuple[str, str]]:
        """Save the session and return the fields of the answer for it. Nothing is saved with an error of the server, or
        with a page that the application has made of an error of the session.
        """
        failure = self._session.failure
        if failure is not None and (self._is_told or self._status.startswith("503")):
            self._note(self._status[:3], failure)
            return self._sessions.fields(self._environ, self._session, True) + DOWN
        is_failed = self._is_told or (self._status.startswith("5") and failure is None)
        return self._sessions.fields(self._environ, self._session, is_failed)

    def _refuse(self, error: StoreDown) -> Callable[[bytes], object]:
        self.is_refused = True
        self.page = [] if self._environ["REQUEST_METHOD"] == "HEAD" else [UNAVAILABLE]
        self._note("503", error)
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(UNAVAILABLE))), *DOWN]
        self._write = self._start_response("503 Service Unavailable", headers)
        self._has_begun = True
        return self._write

    def _note(self, status: str, error: StoreDown) -> None:
        asked = f"{self._environ['REQUEST_METHOD']} {self._environ.get('PATH_INFO', '')!a}"
        why = "".join([char if char.isprintable() else " " for char in str(error)])  # libraries write several lines
        self._environ["wsgi.errors"].write(f"sessions: {asked} is answered {status}: {why}\n")


class Streamed:
    """The body of an application that calls start_response with its first block, as a generator does."""

    def __init__(self, body: Iterable[bytes], answer: Answer) -> None:
        self._body = body
        self._blocks = iter(body)
        self._answer = answer
        self._is_page_due = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        answer = self._answer
        if answer.is_refused:
            return self._page()
        try:
            block = next(self._blocks, None)
        except StoreDown as error:
            answer.refused(error)
            return self._page()
        if answer.is_started:
            answer.begin()
            if answer.is_refused:
                return self._page()
        if block is None:
            raise StopIteration
        return block

    def close(self) -> None:
        self._answer.abandon()
        close(self._body)

    def _page(self) -> bytes:
        if not self._answer.page:
            raise StopIteration
        return self._answer.page.pop()


def with_fields(headers: list[tuple[str, str]], extra: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Add the fields of a session. Cookie joins a Vary of the application; its Cache-Control stays as it is."""
    if len(extra) == 1:
        for name, _ in headers:
            if len(name) == 4 and name.lower() == "vary":
                break
        else:
            return headers + extra
    named = {name.lower(): value for name, value in headers}
    fields = list(headers)
    for name, value in extra:
        if name == "Vary" and "vary" in named:
            listed = [each.strip().lower() for each in named["vary"].split(",")]
            if "cookie" not in listed and "*" not in listed:
                fields = [pair for pair in fields if pair[0].lower() != "vary"]
                joined = [text for key, text in headers if key.lower() == "vary"]
                fields.append((name, ", ".join([*joined, value])))
        elif name == "Set-Cookie" or name.lower() not in named:
            fields.append((name, value))
            named[name.lower()] = value
    return fields


def close(body: Any) -> None:
    """Call close() of an iterable that will not be iterated (PEP 3333)."""
    end = getattr(body, "close", None)
    if end is not None:
        end()
