"""The manual of the engine: what Python (policy) can ask of Rust (bytes).

The life of an `Engine`: `__init__` in the process that serves, `adopt` for connections of its predecessor, `watch`,
then `run` on each thread. `run` returns after `stop`, or after a byte on a control descriptor. If `makes_way` is true
then, `listeners` and `take_unread` give what a successor goes on with.

The engine reads each setting once, in `Engine.__init__`, from the attribute of `Config` with the name of the setting.
It has no defaults. Times in `Config` are seconds, sizes are bytes. Descriptors that are passed stay the caller's: the
engine duplicates them, but for those of logs.
"""

from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Self

from poorhttp.config.model import Config
from poorhttp.logs.log import ErrorLog
from poorhttp.status.scoreboard import Row

TIMING: dict[str, int]
"""Times that the engine and Python must agree on, by name, in milliseconds."""

WORDS: dict[str, int]
"""The bytes on a control descriptor that are no signals, by name."""

REPORTS: dict[str, int]
"""The bytes that the engine of a worker writes to its `report`, by name."""

class RequestTimeout(BaseException):
    """Raised inside an application that gave nothing for `request_timeout` seconds.

    It is no Exception, so that a framework which answers all Exceptions does not swallow it.
    """

class SignalHandler:
    """A signal handler that calls `handler`, and once more if a RequestTimeout was raised in the first call.

    A RequestTimeout for the late call of the main thread is raised in the first Python code that runs there, which may
    be the handler's.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None: ...
    def __call__(self, signal: int, frame: FrameType | None) -> None: ...

class HeldBody:
    """The part of an answer's body that was written and not sent; the base of poorhttp.dispatch.answer.Answer.

    Accepts any arguments, for the `__init__` of a subclass, which must call `_hold` and define `_refuse` and `flush`.
    poorhttp.dispatch.held_body is this class in Python.
    """

    @property
    def _limit(self) -> int: ...
    _room: int  # bytes (in Python: characters) that may be added; below 0 the next `write` first sends what is held
    _raw: bool  # of the subclass: `_take` sets it if some of the body was written as bytes

    def __new__(cls, *args: object, **kwargs: object) -> Self: ...
    def _hold(self, limit: int) -> None:
        """Forget what is held, and make room for `limit` bytes."""

    def write(self, data: str | bytes) -> None:
        """Add to the body: str is encoded as utf-8, bytes stay as they are. Sends only when the buffer is full.

        Raises UnicodeEncodeError for lone surrogates: here, or (in Python) in `_take`, which then leaves all as it was.
        """

    def _take(self) -> bytes:
        """Return what is held, and hold nothing any more."""

    def _holds(self) -> bool:
        """Whether something was written, even if it was empty."""

    def _refuse(self, data: object) -> None:
        """Of the subclass: raise TypeError for data that is neither str nor bytes."""

    def flush(self) -> None:
        """Of the subclass: take what is held and send it."""

class OpenFile:
    """A file that is open, until `close`; poorhttp.dispatch.contained has this class in Python.

    path: absolute. follows_links: whether symbolic links on the way are followed; else one is an OSError (ELOOP).
    Raises OSError; ValueError for a NUL.
    """

    name: bytes  # whose ending tells the type
    mode: int  # st_mode, with the type of the file
    file_size: int  # bytes
    modified_ns: int  # since the epoch

    def __init__(self, path: bytes, follows_links: bool) -> None: ...
    def take(self) -> int:
        """Return the descriptor, which the caller closes from now on."""

    def body(self, first: int, end: int) -> FileBody:
        """Return the bytes from `first` to before `end` as a body, which closes the file from now on."""

    def replace_by(self, suffix: bytes) -> bool:
        """Become the regular file whose name has this suffix, if there is one that is not older; return whether."""

    def close(self) -> None:
        """Close what was neither taken nor became a body."""

class FileBody:
    """A part of a file, which the engine sends if it is what the application returned."""

    size: int  # bytes that are left
    to_end: bool
    modified: None

    def wrapped(self, file_wrapper: object) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
    def close(self) -> None: ...

class CacheTable:
    """Values under keys in memory that processes share; the base of poorhttp.cache.Cache, which opens the file.

    Keys are str or bytes ("a" is b"a"), of 1,024 bytes at most. bytes, str, and int of 64 bits are kept as they are;
    for all else a subclass has `_pack` and `_unpack`. timeout: seconds until a value is over, None for never; one
    of 0 or less is over at once. If the lock of a part is not free for `patience`, a change raises TimeoutError, and
    `get` and `in` find nothing. Raises TypeError, and ValueError for a value above `largest` and after `close`.
    """

    LAYOUT: int  # of the file; files of another one cannot be used
    OVERHEAD: int  # bytes of the file beside its size; the first 4,096 of them are the caller's
    SIZES: tuple[int, int]  # the least and the largest size

    largest: int  # bytes that a value may have

    @staticmethod
    def lay_out(descriptor: int) -> None:
        """Make a cache of a new file, of OVERHEAD bytes more than its size. Raises OSError."""

    def __new__(cls, name: str, descriptor: int, secret: int, second: int, patience: int) -> Self:
        """name: for messages. descriptor: of a file that was laid out. secret, second: 64 bits each, the same for all
        who use the file. patience: milliseconds. Raises OSError.
        """

    def get(self, key: str | bytes, default: object = None) -> object:
        """The value of a key."""

    def load(self, key: str | bytes, default: object = None) -> object:
        """As `get`, but raises TimeoutError."""

    def set(self, key: str | bytes, value: object, timeout: float | None = None) -> None:
        """Put a value under a key. If memory is short, it may be given up at once."""

    def add(self, key: str | bytes, value: object, timeout: float | None = None) -> bool:
        """Put a value if there is none; return whether it was put."""

    def replace(self, key: str | bytes, prefix: bytes, value: object, timeout: float | None = None) -> bool:
        """Put a value if the one that is there is bytes that start with `prefix`; return whether it was put."""

    def incr(self, key: str | bytes, delta: int = 1, default: int | None = None, timeout: float | None = None) -> int:
        """Add to an int, and return the sum. The timeout stays what it is.

        If there is no value, begin with `default` and `timeout`. Raises KeyError if that is None, TypeError for a value
        that is no int of 64 bits, OverflowError if the sum would be none.
        """

    def delete(self, key: str | bytes) -> bool:
        """Remove a value; return whether there was one."""

    def touch(self, key: str | bytes, timeout: float | None = None) -> bool:
        """Let a value be over `timeout` seconds from now; return whether there is one."""

    def __contains__(self, key: str | bytes) -> bool: ...
    def clear(self) -> None:
        """Remove all values. Counters go on."""

    def _stats(self) -> list[int]:
        """Hits, misses, items, bytes, evictions, memory."""

    def close(self) -> None:
        """Refuse what is asked from now on. The memory is given back with the object."""

    def _pack(self, value: object) -> tuple[int, bytes]:
        """Of the subclass: the kind, from 3 to 255, and the bytes of a value."""

    def _unpack(self, kind: int, data: bytes) -> object:
        """Of the subclass: the value of bytes of a kind."""

def take_waiting(listener: int) -> list[int]:
    """Close a listening socket to new clients, in all processes that share it, and accept the clients that wait.

    listener: a descriptor that does not block. Returns the descriptors of the connections. Leaves clients in the queue
    if this process would run out of descriptors. Raises OSError.
    """

def log_lost(config: Config, access_log: int, client: str | None, head: bytes, request_id: str, status: int) -> None:
    """Add the line of a request whose process is gone to the access log, with 0 bytes sent.

    access_log: as for an `Engine`. client: an address, None on a unix socket. head: the head of the request, as far as
    it is known. request_id: "" for none. Does not wait for the reader of the log. Raises ValueError if client is no
    address.
    """

def make_immortal(kinds: Sequence[type], python_class: type) -> int | None:
    """Make objects of these kinds immortal (PEP 683): those that the collector tracks, and those to which they refer.

    kinds: types, whose own instances may be immortal. An instance of a class in Python may be if the class has no
    `__del__` and its base may be. What other objects refer to is not looked at. python_class: any class in Python.
    Returns how many objects were mortal. Returns None, and does nothing, under an interpreter that it does not know.
    """

def give_back_memory() -> None:
    """Give the system back the pages of the heap in which nothing is allocated, where glibc keeps them."""

def try_temporary_file() -> None:
    """Make a temporary file as for a large request body, and let go of it. Raises OSError."""

def check_head(status: str, headers: list[tuple[str, str]]) -> int | None:
    """Check the status and the headers of an answer as `start_response` does.

    Returns how many bytes the body must have; None if there is no Content-Length, or if such an answer has no body.
    Raises TypeError or ValueError for what a server would answer with 500.
    """

def on_parent_death(kills: bool) -> None:
    """Tell the kernel what to do with this process when the thread that forked it ends (PR_SET_PDEATHSIG, prctl(2)).

    kills: kill it; False: continue it (SIGCONT), so that a stopped process sees the end of its parent too. The kernel
    forgets this when the process changes its user. A sandbox may refuse it, which has no effect.
    """

class Engine:
    """The server of one process. Build it after the fork, never before: it owns an epoll instance and an eventfd."""

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        listeners: Sequence[int],
        control: Sequence[int],
        access_log: int,
        error_log: ErrorLog,
        config: Config,
        report: int | Callable[[int], None] | None = None,
        row: Row | None = None,
        countdown: int | None = None,
    ) -> None:
        """Prepare to serve `app`.

        listeners: descriptors of bound, listening, non-blocking stream sockets (tcp or unix).

        control: descriptors from which single bytes are read. End of file means that the parent died: the process ends
            within half a second or so. After each byte, and also after a signal without a byte, the handlers of Python
            run on the thread of slot 0, which must be the main thread. The bytes:

            SIGTERM    stop gracefully; a worker tells its `report` instead
            SIGINT     stop gracefully, with one second for what is in flight; a worker ignores it
            SIGQUIT    stop at once, as after a second signal
            STOP       of `WORDS`: stop gracefully, a worker too
            INTERRUPT  stop gracefully, with one second for what is in flight, a worker too
            DRAIN      close each connection with its next answer, then stop, one second later at the latest. A worker
                       accepts nobody meanwhile.

            A process whose threads have not returned kills itself: two seconds after `graceful_timeout`, or two seconds
            after a stop at once.

        access_log: descriptor to which whole lines are appended; -1 for none. To reopen it, `os.dup2` onto the number.

        error_log: where faults are logged. Its `stream` becomes `wsgi.errors`. Its `fileno()` gets the last line of a
            process whose interpreter does not answer any more.

        report: where calls that do not return, waiting clients, load and `max_requests` are reported, in the single
            bytes of `REPORTS`. A worker passes a descriptor that does not block; if it was told to drain and all its
            threads are stuck, it kills itself. A single process passes a function, which is called on another thread.

        row: the row of this process in the scoreboard. Its `answer` is a WSGI application, which answers requests for
            `config.status_path`, and all requests on the last of `listeners` if `config.control_socket` is set.

        countdown: a pipe that does not block, shared by all processes that stop. At a stop each process accepts the
            clients that wait, then takes one byte. The process that reads end of file is the last one: it closes the
            listeners to new clients, accepts those that came meanwhile, and closes, so that hardly any client is reset.
            None if a process that does not stop accepts there too.

        If `config` has `accept_pauses` (a `dev` server): while one of these descriptors is readable, no client is
        accepted.

        Raises OSError if a descriptor cannot be used, AttributeError or ValueError if `config` lacks a setting or a
        setting has another type.
        """

    def watch(self) -> None:
        """Start the thread that watches the others; else the first `run` starts it. Raises OSError."""

    def run(self, slot: int) -> None:
        """Serve until the engine is stopped. Call it once from each of `config.threads` threads, with slot 0, 1, 2 ...

        If `config.health` is set and there is one process, call it once more with the next slot: that thread answers
        health checks and never calls the application. Raises RuntimeError for a slot that is taken or too large, or if
        the thread that watches the others cannot be started.
        """

    def stop(self) -> None:
        """Accept no more, finish what is in flight (within `graceful_timeout`), then let every `run` return."""

    def listeners(self) -> list[int]:
        """The engine's own descriptors of the listeners, for a look at them or for a successor. Empty after a stop."""

    def take_unread(self) -> list[tuple[int, int]]:
        """Connections that were accepted and of which nothing was read, with the index of their listener.

        They are the caller's from now on. Call it if `makes_way` is true.
        """

    def adopt(self, connection: int, listener: int) -> None:
        """Serve a connection of `take_unread` of the predecessor. Call it before `run`. Raises OSError."""

    def stopped_at_once_by(self) -> int:
        """The first signal that asked to stop at once, which is SIGQUIT or a second signal; 0 for none."""

    def has_failed(self) -> bool:
        """Whether the engine stopped because its descriptors failed: the application has closed them."""

    def makes_way(self) -> bool:
        """Whether the engine has drained for a successor (DRAIN), and no stop came meanwhile."""

    def note_fork(self) -> None:
        """Tell that a child is about to be forked, which may hold the sockets of connections open."""

    def abandon(self) -> None:
        """Serve no more and keep no port, in a child that the application forked. It ends when its call returns."""

    def stats(self) -> dict[str, int]:
        """Counts since the start, but for the first: `connections` (open now), `accepted`, `requests`, `refused`
        (answered by the server) and `cut` (closed without an answer).
        """
