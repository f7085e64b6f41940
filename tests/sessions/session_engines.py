"""Each kind of store with a server of its own: stalled, away for a while, started again.

`bench.stores` knows the programs and where their data lies. What is not installed skips the test.
"""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cache_locks import locked
from processes import suspend

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench import stores

PATIENCE = 30
"""Seconds that a store may take for an exchange, on a machine that is busy with other tests."""

IMPATIENCE = 1.5
"""Seconds where a store is to be given up."""


class Engine:
    """A kind of store. address: of a store whose data only the tests of one module use."""

    kind: type[stores.Store]
    is_shared = True
    works_on_open_files = False
    blocks_readers = False
    """Whether a stalled store does not answer readers either."""
    precision = 0.3
    """Seconds that a record may live longer than it should."""

    def __init__(self) -> None:
        if self.kind.library:
            pytest.importorskip(self.kind.library)
        try:
            self.server = self.kind()
        except stores.Missing as missing:
            pytest.skip(str(missing))
        self.directory = self.server.directory
        self.address = self.patient()

    def patient(self) -> str:
        address = self.server.address
        return f"{address}{'&' if '?' in address else '?'}timeout={PATIENCE}"

    @property
    def impatient(self) -> str:
        """The address, with a timeout that tests can wait for."""
        return self.address.replace(f"timeout={PATIENCE}", f"timeout={IMPATIENCE}")

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Let the store not answer for a while."""
        raise NotImplementedError
        yield

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """Let the store be away for a while."""
        raise NotImplementedError
        yield

    def stop(self) -> None:
        self.server.stop()


# ------------------------------------------------------------------------------------------- Stores without a server


class Memory(Engine):
    kind = stores.Memory
    is_shared = False

    def patient(self) -> str:
        return self.server.address


class Files(Engine):
    """Stores in files. They are away where their directory is a file."""

    server: stores.Files

    @property
    def path(self) -> Path:
        return self.server.path

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        (self.directory / "data").rename(self.directory / "aside")
        (self.directory / "data").touch()
        try:
            yield
        finally:
            (self.directory / "data").unlink()
            (self.directory / "aside").rename(self.directory / "data")


class Directory(Files):
    kind = stores.Directory

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Somebody holds every lock."""
        with contextlib.ExitStack() as stack:
            for number in range(256):
                (self.path / f"{number:02x}").mkdir(parents=True, exist_ok=True)
                file = stack.enter_context((self.path / f"{number:02x}" / "lock").open("w"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


class SingleFile(Files):
    kind = stores.SingleFile

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        with Path(f"{self.path}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class Sqlite(Files):
    kind = stores.Sqlite
    database = ""
    works_on_open_files = True

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        with contextlib.closing(sqlite3.connect(self.path / self.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield


class SharedCache(Files):
    kind = stores.SharedCache
    works_on_open_files = blocks_readers = True

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        with locked(str(self.path), shards=16):
            yield


class DiskCache(Sqlite):
    kind = stores.DiskCache
    database = "cache.db"


# ------------------------------------------------------------------------------------------------ Stores with a server


class Served(Engine):
    """A store with a server."""

    server: stores.Served
    blocks_readers = True

    def family(self) -> list[psutil.Process]:
        assert self.server.process is not None
        parent = psutil.Process(self.server.process.pid)
        return [parent, *parent.children(recursive=True)]

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        stopped = self.family()
        suspend(*(process.pid for process in stopped))
        try:
            yield
        finally:
            for process in reversed(stopped):
                process.resume()

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        self.server.end()
        try:
            yield
        finally:
            self.server.start()


class Redis(Served):
    kind = stores.Redis


class Memcached(Served):
    kind = stores.Memcached
    precision = 2.2


class Postgresql(Served):
    kind = stores.Postgresql


class Mariadb(Served):
    kind = stores.Mariadb


class Ferretdb(Served):
    kind = stores.Ferretdb
