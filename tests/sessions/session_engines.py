"""Each kind of store with a server of its own: started on a free port or socket, stalled, stopped, started again.

Knows the programs and where their data lies (a temporary directory). A program that is not installed skips the test.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from processes import suspend, wait_for

ROOT = Path(__file__).parents[2]
PATIENCE = 30
"""Seconds that a store may take for an exchange, on a machine that is busy with other tests."""

IMPATIENCE = 1.5
"""Seconds where a store is to be given up."""


def program(name: str, package: str, *places: str) -> str:
    """Path of a program; skips the test where it is not installed."""
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *places]))
    if path is None:
        pytest.skip(f"{name} is not there, install it: apt-get install {package}")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Engine:
    """A kind of store. address: of a store whose data only the tests of one module use."""

    library = ""
    is_shared = True
    works_on_open_files = False
    blocks_readers = False
    """Whether a stalled store does not answer readers either."""
    precision = 0.3
    """Seconds that a record may live longer than it should."""

    def __init__(self) -> None:
        if self.library:
            pytest.importorskip(self.library)
        self.directory = Path(tempfile.mkdtemp(prefix="sessions-"))
        self.address = ""

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
        shutil.rmtree(self.directory, ignore_errors=True)


# ------------------------------------------------------------------------------------------- Stores without a server


class Memory(Engine):
    is_shared = False

    def __init__(self) -> None:
        super().__init__()
        self.address = "memory:"


class Files(Engine):
    """Stores in files. They are away where their directory is a file."""

    kind = ""
    name = "sessions"

    def __init__(self) -> None:
        super().__init__()
        (self.directory / "data").mkdir()
        self.path = self.directory / "data" / self.name
        self.address = f"{self.kind}:{self.path}?timeout={PATIENCE}"

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
    kind = "directory"

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
    kind = "file"

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        with Path(f"{self.path}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class Sqlite(Files):
    kind = "sqlite"
    database = ""
    works_on_open_files = True

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        with contextlib.closing(sqlite3.connect(self.path / self.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield


class DiskCache(Sqlite):
    kind = "diskcache"
    database = "cache.db"
    library = "diskcache"


# ------------------------------------------------------------------------------------------------ Stores with a server


class Served(Engine):
    """A store with a server."""

    user: str | None = None
    blocks_readers = True

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.command = self.prepared()
            self.address = self.found_at()
            self.start()
        except BaseException:
            self.stop()
            raise

    def prepared(self) -> list[str]:
        """Make the data; return the command of the server."""
        raise NotImplementedError

    def found_at(self) -> str:
        raise NotImplementedError

    def is_up(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def start(self) -> None:
        owner = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, **owner
            )
        process = self.process
        wait_for(lambda: self.is_up() or process.poll() is not None, 30)
        assert process.poll() is None, (self.directory / "log").read_text()

    def family(self) -> list[psutil.Process]:
        assert self.process is not None
        parent = psutil.Process(self.process.pid)
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
        self.end()
        try:
            yield
        finally:
            self.start()

    def end(self) -> None:
        process, self.process = self.process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)  # PostgreSQL's word for a stop that waits for no client
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def stop(self) -> None:
        self.end()
        super().stop()


class Redis(Served):
    library = "redis"

    def prepared(self) -> list[str]:
        server = program("redis-server", "redis-server")
        flags = {"port": self.port, "bind": "127.0.0.1", "dir": self.directory, "unixsocket": self.directory / "socket"}
        flags["appendonly"] = "yes"
        return [server, *(word for name, value in flags.items() for word in (f"--{name}", str(value)))]

    def found_at(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0?timeout={PATIENCE}"


class Memcached(Served):
    library = "pymemcache"
    precision = 2.2

    def prepared(self) -> list[str]:
        server = program("memcached", "memcached")
        return [server, "-l", "127.0.0.1", "-p", str(self.port), *(["-u", "nobody"] if os.getuid() == 0 else [])]

    def found_at(self) -> str:
        return f"memcached://127.0.0.1:{self.port}?timeout={PATIENCE}"


class Postgresql(Served):
    library = "psycopg"

    def prepared(self) -> list[str]:
        places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
        server = os.path.realpath(program("postgres", "postgresql", *places))
        data = self.directory / "data"
        if os.getuid() == 0:  # as which PostgreSQL does not run
            self.user = "postgres"
            shutil.chown(self.directory, self.user, self.user)
        make = [str(Path(server).with_name("initdb")), "-D", str(data), "-A", "trust", "-U", "site", "--no-sync"]
        owner = {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}
        subprocess.run(make, check=True, capture_output=True, cwd="/", timeout=60, **owner)
        return [server, "-D", str(data), "-k", str(self.directory), "-p", str(self.port), "-c", "listen_addresses="]

    def found_at(self) -> str:
        return f"postgresql://site@/postgres?host={self.directory}&port={self.port}&timeout={PATIENCE}"

    def is_up(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(f"postgresql://site@/postgres?host={self.directory}&port={self.port}").close()
            return True
        return False


class Mariadb(Served):
    library = "pymysql"

    def prepared(self) -> list[str]:
        server = program("mariadbd", "mariadb-server")
        data, me = self.directory / "data", ["--user=root"] if os.getuid() == 0 else []
        make = [program("mariadb-install-db", "mariadb-server"), "--no-defaults", f"--datadir={data}", "--skip-test-db"]
        make += ["--auth-root-authentication-method=normal", *me]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
        self.socket = self.directory / "socket"
        small = ["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--skip-networking"]
        return [server, "--no-defaults", f"--datadir={data}", f"--socket={self.socket}", *me, *small]

    def found_at(self) -> str:
        return f"mariadb://root@localhost/sessions?unix_socket={self.socket}&timeout={PATIENCE}"

    def is_up(self) -> bool:
        import pymysql

        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as attempt:
            attempt.connect(str(self.socket))
            with (
                pymysql.connect(unix_socket=str(self.socket), user="root") as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("CREATE DATABASE IF NOT EXISTS sessions")
            return True
        return False

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        super().end()


class Ferretdb(Served):
    """MongoDB's wire protocol as FerretDB 1.24.0 speaks it, over SQLite: not MongoDB itself."""

    library = "pymongo"

    def prepared(self) -> list[str]:
        server = ROOT / ".cache" / "ferretdb" / "ferretdb"
        if not server.exists():
            if shutil.which("go") is None:
                pytest.skip("no FerretDB, and no Go to build it with")
            pytest.skip("FerretDB is not there, install it: make ferretdb")
        data = self.directory / "data"
        data.mkdir()
        return [
            *(str(server), "--handler=sqlite", f"--sqlite-url=file:{data}/", f"--listen-addr=127.0.0.1:{self.port}"),
            *("--debug-addr=-", "--telemetry=disable", f"--state-dir={self.directory}", "--log-level=error"),
        ]

    def found_at(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/sessions?timeout={PATIENCE}"
