"""The boundary between policy (Python) and bytes (Rust): one class, and three small ones.

Times are seconds in `Config` and in messages; sizes are bytes. Every setting the engine obeys is read from the
`Config` attribute of the same name, once, in `Engine.__init__`; the engine has no defaults of its own.
"""

from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Self

from poorhttp.config.config import Config
from poorhttp.logs.log import ErrorLog
from poorhttp.status.scoreboard import Row

class RequestTimeout(BaseException):
    """Raised inside an application that gave nothing for `request_timeout` seconds.

    No Exception, so that a framework which answers every Exception itself does not swallow it.
    """

class SignalHandler:
    """A signal handler that calls the given one, once more where a RequestTimeout of the late call of the main thread
    was raised in it.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None: ...
    def __call__(self, signal: int, frame: FrameType | None) -> None: ...

class HeldBody:
    """What was written of an answer and not sent; the base of poorhttp.dispatch.answer.Answer.

    Takes any arguments, for the `__init__` of a subclass. poorhttp.dispatch.held_body is the same in Python.
    """

    @property
    def _limit(self) -> int: ...
    _room: int  # how many bytes may be added (in Python: characters); below 0 what is held is sent before more is
    _raw: bool  # the subclass's: set by `_take` where some of it was bytes

    def __new__(cls, *args: object, **kwargs: object) -> Self: ...
    def _hold(self, limit: int) -> None:
        """Hold nothing, with room for so much."""

    def write(self, data: str | bytes) -> None:
        """Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full.

        Raises UnicodeEncodeError for lone surrogates: here, or in `_take`, where it leaves all as it was.
        """

    def _take(self) -> bytes:
        """What was written, and hold nothing any more."""

    def _holds(self) -> bool:
        """Whether something was written, were it empty."""

    def _refuse(self, data: object) -> None:
        """The subclass's: raise TypeError for what is neither str nor bytes."""

    def flush(self) -> None:
        """The subclass's: take what is held and send it."""

def take_waiting(listener: int) -> list[int]:
    """Let nobody in any more at a listening socket that does not block, in no process, and take who waits there: the
    descriptors of the connections, as many as leave this process some to go on. It listens no more. Raises OSError.
    """

def log_lost(config: Config, access_log: int, client: str | None, head: bytes, request_id: str, status: int) -> None:
    """Add the line of a request whose process is gone to the access log, with 0 bytes sent. head: its head, as far as
    it is known; access_log: as for an `Engine`. Waits for no reader of the log. Raises ValueError for no address.
    """

def try_temporary_file() -> None:
    """Make a temporary file, where a large request body would go, and let go of it. Raises OSError."""

def check_head(status: str, headers: list[tuple[str, str]]) -> int | None:
    """Check the status and the headers of an answer as `start_response` does. Returns how many bytes its body must
    have; None where no Content-Length was given, or where the answer has no body. Raises TypeError or ValueError for
    what would be answered 500.
    """

def on_parent_death(kills: bool) -> None:
    """Let the kernel kill this process when the thread that forked it ends (PR_SET_PDEATHSIG of prctl(2)). `kills`
    False: let the kernel continue it then (SIGCONT), so that a process which was stopped sees the end of its parent
    too. That is forgotten where the process becomes another user, and does nothing where a sandbox refuses it.
    """

class Engine:
    """One process's server. Build it after fork, never before: it owns an epoll instance and an eventfd."""

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        listeners: Sequence[int],
        control: Sequence[int],
        access_log: int,
        error_log: ErrorLog,
        config: Config,
        report: int | Callable[[int], None] | None = None,
        board: Row | None = None,
        countdown: int | None = None,
    ) -> None:
        """Prepare to serve `app`.

        listeners: descriptors of bound, listening, non-blocking stream sockets (tcp or unix); the engine duplicates
            them, the caller keeps and closes its own.
        control: descriptors to read; each byte is a signal number (SIGTERM: stop gracefully, or tell `report`; SIGINT:
            stop gracefully, but what is in flight gets a second, or do nothing where there is a `report`; the second
            one or SIGQUIT: stop at once) or none (255: stop gracefully; 254: as SIGINT in any case; 0: close each
            connection with its next answer, and stop a second later or when all are gone; a worker accepts nobody
            meanwhile). End of file means that the parent died: all is over within half a second or so. After each byte
            Python's own handlers run, on the thread of slot 0, which must be the main thread; they run too where a
            signal came without its byte. Two seconds after `graceful_timeout`, or after a stop at once, a process whose
            threads have not left kills itself.
        access_log: descriptor to which whole lines are appended, -1 for none. Reopen by `os.dup2` onto the same number.
        error_log: where faults are told (see poorhttp.logs.log.ErrorLog); its `stream` becomes `wsgi.errors`, its
            `fileno()` gets the last line of a process whose interpreter does not answer any more.

        report: where the engine tells of calls that do not return, clients that wait, load and `max_requests`. For a
            worker: a descriptor that does not block, for single bytes (see poorhttp.process.worker); where the worker
            was told to drain and all its threads are stuck, it kills its process. For a process alone: a function,
            which is called on another thread.

        board: this process's row in the memory that shows what it does, and what answers who asks for that (at
            `config.status_path`, and anything on the last of `listeners` where `config.control_socket` is set).

        countdown: a descriptor that does not block, from which a process takes a byte when it has accepted, at a stop,
            who waited. Who finds end of file is the last one: it lets nobody in any more, accepts who came meanwhile,
            and closes, so that hardly anybody is reset; None where others accept there that do not stop.

        Where `config` has `gates` (see poorhttp.dev), descriptors, nobody is accepted while one of them is readable.

        Raises OSError where a descriptor cannot be used, AttributeError or TypeError where `config` lacks a setting.
        """

    def watch(self) -> None:
        """Start the thread that watches the others, unless the first `run` is to do so. Raises OSError where it cannot
        be started.
        """

    def run(self, slot: int) -> None:
        """Serve until stopped. Call it once from each of `config.threads` threads, with slot 0, 1, 2 ...

        With `config.health` and one process there is one thread more, which never calls the application.
        """

    def stop(self) -> None:
        """Accept no more, finish what is in flight (`graceful_timeout` at most), then let every run() return."""

    def listeners(self) -> list[int]:
        """Descriptors of the listeners, the engine's own: to be looked at, or, where it makes way, for a successor.

        Empty after a stop.
        """

    def take_unread(self) -> list[tuple[int, int]]:
        """Connections that were accepted and of which nothing was read, the caller's from now on, with the numbers of
        their listeners: for a successor. Call it when it makes way.
        """

    def adopt(self, connection: int, listener: int) -> None:
        """Go on with such a connection, of which it has a copy; before run()."""

    def stopped_at_once_by(self) -> int:
        """The first signal that asked to stop at once: a QUIT, or a second one of the others; 0 for none."""

    def has_failed(self) -> bool:
        """Whether it stopped because nothing could be waited for any more: the application took its descriptors."""

    def makes_way(self) -> bool:
        """Whether it has finished for a successor's sake, after a 0 byte, and no stop came meanwhile."""

    def abandon(self) -> None:
        """In a child that the application forked: serve no more, keep no port; it ends as it returns from its call."""

    def stats(self) -> dict[str, int]:
        """Counts since the start: `connections` (open now), `accepted`, `requests`, `refused` with an answer, and `cut`
        without one.
        """
