"""poorhttp in place of another server: the same application, listeners of our own, threads of this very process.

Knows how an engine is made of settings and run from threads; knows nothing of the suites that use it. Contract: `run`
serves on the calling thread until `stop`; `change` serves on with other settings and the same listeners. The error log
goes to the file that the variable POORHTTP_FUNCTIONAL_LOG names, where the runner looks for a panic afterwards.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

from poorhttp._engine import Engine
from poorhttp.config import config
from poorhttp.config.units import Address
from poorhttp.listen import sockets
from poorhttp.logs.log import ErrorLog

LOG = "POORHTTP_FUNCTIONAL_LOG"
ANY = {"0.0.0.0", "::", "", None, "localhost"}


def bound(address: Any) -> Any:
    """A listening socket for `(host, port)` or the path of a unix socket; on 127.0.0.1 for every address."""
    if isinstance(address, tuple):
        host, port = address
        where = Address("127.0.0.1" if host in ANY else host, port)
    else:
        where = Address(path=address)
    sock = sockets.bind(where)
    sockets.begin(sock, 2048)
    return sock


class Log(ErrorLog):
    """The error log, which also tells `heard(text)` of each traceback."""

    __slots__ = ("heard",)

    def __init__(self, heard: Callable[[BaseException], object] | None) -> None:
        super().__init__(os.environ[LOG], "debug", False, "")
        self.heard = heard

    def exception(self, exc: BaseException, remote: str, request: str) -> bytes:
        if self.heard is not None:
            self.heard(exc)
        return super().exception(exc, remote, request)


class Serving:
    """One engine after the other on the same listeners.

    app: called for each request. listeners: bound sockets, which this closes in the end.
    settings: as for `poorhttp.run`. heard: called with each exception that the error log gets.
    left: called on each thread that leaves the engine.
    """

    def __init__(
        self,
        app: Callable[..., Iterable[bytes]],
        listeners: list[Any],
        settings: dict[str, Any],
        heard: Callable[[BaseException], object] | None = None,
        left: Callable[[], object] = lambda: None,
    ) -> None:
        self._app, self._listeners, self._settings = app, listeners, {"graceful_timeout": 20, **settings}
        self._heard, self._left = heard, left
        self._turn = threading.Condition()
        self._engine, self._threads = self._made()
        self._entered: Engine | None = None

    def run(self) -> None:
        """Serve until stopped."""
        try:
            while True:
                with self._turn:
                    engine, threads = self._engine, self._threads
                    self._entered = engine
                self._serve(engine, threads)
                with self._turn:
                    self._entered = None
                    self._turn.notify_all()
                    if self._engine is engine:
                        return
        finally:
            self._refuse()
            sockets.close([each for each in self._listeners if each.family == socket.AF_UNIX])

    def stop(self) -> None:
        """Let `run` return, when what is in flight is answered; nobody can connect meanwhile."""
        self._engine.stop()
        self._refuse()

    def _refuse(self) -> None:
        """Listen no more. The socket stays open: some ask it for its port afterwards."""
        for each in self._listeners:
            with contextlib.suppress(OSError):  # it does so already
                each.shutdown(socket.SHUT_RD)

    def change(self, **settings: Any) -> None:
        """Serve on with these settings as well; connections that are open now are closed when they are idle."""
        self._settings |= settings
        with self._turn:
            old = self._engine
            self._engine, self._threads = self._made()
            old.stop()
            # The old engine may still accept what has connected; nobody may connect to it after this.
            if not self._turn.wait_for(lambda: self._entered is not old, 20):
                raise RuntimeError("the engine with the old settings did not stop")

    def _made(self) -> tuple[Engine, int]:
        read = config.from_keywords({"type": "single", "threads": 10, **self._settings}, {}, os.getcwd())
        descriptors = [each.fileno() for each in self._listeners]
        return Engine(self._app, descriptors, [], -1, Log(self._heard), read), read.threads

    def _serve(self, engine: Engine, threads: int) -> None:
        others = [threading.Thread(target=self._enter, args=(engine, slot)) for slot in range(1, threads)]
        for each in others:
            each.start()
        self._enter(engine, 0)
        for each in others:
            each.join()

    def _enter(self, engine: Engine, slot: int) -> None:
        try:
            engine.run(slot)
        finally:
            self._left()
