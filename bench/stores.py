"""The stores that sessions may lie in, each with its real server: started on a free port or socket, ended.

Knows their programs, the libraries that speak to them, and where their data lies: in a temporary directory of their
own. Knows neither sessions nor what is asked of a store. The tests of sessions start the same servers.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from bench import record
from bench.client import Failure, Missing
from bench.launch import ENDS_WITH_US, LOAD_CORE, READY, ROOT, free_port, pinned


class Store:
    """A kind of store. library: the module that speaks to it, extra: what installs that; "" where none is needed.
    address: as `poorhttp.sessions.open_store` takes it.
    """

    library = extra = ""
    address = ""

    def __init__(self) -> None:
        """Raises Missing."""
        self.directory = Path(tempfile.mkdtemp(prefix="sessions-"))

    def version(self) -> str:
        """What its server tells of itself; "" where there is none."""
        return ""

    def stop(self) -> None:
        """End the server, and remove the data."""
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def opened(kind: type[Store], cores: Collection[int] = (LOAD_CORE,)) -> Iterator[Store]:
    """A store whose server stands on these cores; ended and removed afterwards. Raises Missing, or Failure."""
    try:
        with pinned(cores):
            store = kind()
    except (RuntimeError, subprocess.SubprocessError) as error:
        raise Failure(f"no server: {error}") from error
    try:
        yield store
    finally:
        store.stop()


def ensure_library(kind: type[Store], python: str) -> None:
    """Raise Missing if this Python, which runs poorhttp, lacks the library that speaks to the store."""
    if kind.library:
        done = subprocess.run([python, "-c", f"import {kind.library}"], capture_output=True, timeout=60, check=False)
        if done.returncode:
            raise Missing(kind.library, f"pip install 'poorhttp[{kind.extra}]'")


class Cookie(Store):
    address = "cookie:"


class Memory(Store):
    address = "memory:"


class Files(Store):
    """A store in files. path: of the file or the directory."""

    kind = ""

    def __init__(self) -> None:
        super().__init__()
        (self.directory / "data").mkdir()
        self.path = self.directory / "data" / "sessions"
        self.address = f"{self.kind}:{self.path}"


class SingleFile(Files):
    kind = "file"


class Directory(Files):
    kind = "directory"


class Sqlite(Files):
    kind = "sqlite"


class SharedCache(Files):
    kind = "cache"


class DiskCache(Files):
    kind = library = extra = "diskcache"


class Served(Store):
    """A store with a server. user: as which that runs; None: as this process does."""

    user: str | None = None
    process: subprocess.Popen[bytes] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
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

    def version(self) -> str:
        return record.said([self.command[0], "--version"])

    def is_up(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def start(self) -> None:
        log = self.directory / "log"
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*ENDS_WITH_US, *self.command],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **self.owner(),
            )
        deadline = time.monotonic() + 2 * READY
        while not self.is_up():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.command[0]} does not serve: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)

    def owner(self) -> dict[str, object]:
        return {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}

    def end(self) -> None:
        process, self.process = self.process, None
        if process is not None and process.poll() is None:
            process.send_signal(self.ending())
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def ending(self) -> signal.Signals:
        return signal.SIGTERM

    def stop(self) -> None:
        self.end()
        super().stop()


class Redis(Served):
    library = extra = "redis"
    appends_only = True  # to a file of all changes; else what changed may be lost when it ends

    def prepared(self) -> list[str]:
        flags = {"port": self.port, "bind": "127.0.0.1", "dir": self.directory, "unixsocket": self.directory / "socket"}
        flags["appendonly"] = "yes" if self.appends_only else "no"
        words = (word for name, value in flags.items() for word in (f"--{name}", str(value)))
        return [program("redis-server", "redis-server"), *words]

    def found_at(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


class RedisCache(Redis):
    """Redis as distributions configure it, which is a cache."""

    appends_only = False


class Memcached(Served):
    library, extra = "pymemcache", "memcached"

    def prepared(self) -> list[str]:
        server = program("memcached", "memcached")
        return [server, "-l", "127.0.0.1", "-p", str(self.port), *(["-u", "nobody"] if os.getuid() == 0 else [])]

    def found_at(self) -> str:
        return f"memcached://127.0.0.1:{self.port}"


class Postgresql(Served):
    library, extra = "psycopg", "postgresql"

    def prepared(self) -> list[str]:
        server = Path(postgres())
        self.asking = str(server.with_name("pg_isready"))
        data = self.directory / "data"
        if os.getuid() == 0:  # as which PostgreSQL does not run
            self.user = "postgres"
            shutil.chown(self.directory, self.user, self.user)
        make = [str(server.with_name("initdb")), "-D", str(data), "-A", "trust", "-U", "site", "--no-sync"]
        subprocess.run(make, check=True, capture_output=True, cwd="/", timeout=60, **self.owner())
        words = ("-D", str(data), "-k", str(self.directory), "-p", str(self.port), "-c", "listen_addresses=")
        return [str(server), *words]

    def found_at(self) -> str:
        return f"postgresql://site@/postgres?host={self.directory}&port={self.port}"

    def is_up(self) -> bool:
        ask = [self.asking, "--quiet", "-h", str(self.directory), "-p", str(self.port)]
        return subprocess.run(ask, timeout=30, check=False).returncode == 0

    def ending(self) -> signal.Signals:
        return signal.SIGINT  # its word for a stop that waits for no client


class Mariadb(Served):
    library, extra = "pymysql", "mariadb"

    def prepared(self) -> list[str]:
        server = program("mariadbd", "mariadb-server")
        data, me = self.directory / "data", ["--user=root"] if os.getuid() == 0 else []
        make = [program("mariadb-install-db", "mariadb-server"), "--no-defaults", f"--datadir={data}", "--skip-test-db"]
        make += ["--auth-root-authentication-method=normal", *me]
        subprocess.run(make, check=True, capture_output=True, timeout=60)
        self.socket = self.directory / "socket"
        first = self.directory / "first.sql"
        first.write_text("CREATE DATABASE IF NOT EXISTS sessions;\n")
        small = ["--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--skip-networking"]
        files = [f"--datadir={data}", f"--socket={self.socket}", f"--init-file={first}"]
        return [server, "--no-defaults", *files, *me, *small]

    def found_at(self) -> str:
        return f"mariadb://root@localhost/sessions?unix_socket={self.socket}"

    def is_up(self) -> bool:
        """Its greeting comes when the file of the first statements is done."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as attempt:
            attempt.settimeout(5)
            attempt.connect(str(self.socket))
            return bool(attempt.recv(1))
        return False


class Ferretdb(Served):
    """MongoDB's wire protocol as FerretDB 1.24.0 speaks it, over SQLite: not MongoDB itself."""

    library, extra = "pymongo", "mongodb"

    def prepared(self) -> list[str]:
        server = ROOT / ".cache" / "ferretdb" / "ferretdb"
        if not server.exists():
            if shutil.which("go") is None:
                raise Missing("FerretDB", "apt-get install golang, then make ferretdb")
            raise Missing("FerretDB", "make ferretdb")
        data = self.directory / "data"
        data.mkdir()
        return [
            *(str(server), "--handler=sqlite", f"--sqlite-url=file:{data}/", f"--listen-addr=127.0.0.1:{self.port}"),
            *("--debug-addr=-", "--telemetry=disable", f"--state-dir={self.directory}", "--log-level=error"),
        ]

    def found_at(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/sessions"

    def version(self) -> str:
        note = "the wire protocol of MongoDB, but FerretDB over SQLite, whose speed says nothing of MongoDB's"
        return f"{note}; {super().version()}"


def postgres() -> str:
    """Path of PostgreSQL's server, of the newest version that Debian has installed. Raises Missing."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return os.path.realpath(program("postgres", "postgresql", *places))


def program(name: str, package: str, *places: str) -> str:
    """Path of a program, also in these directories. Raises Missing."""
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *places]))
    if path is None:
        raise Missing(name, f"apt-get install {package}")
    return path


STORES: dict[str, type[Store]] = {
    "cookie": Cookie,
    "memory": Memory,
    "file": SingleFile,
    "directory": Directory,
    "sqlite": Sqlite,
    "postgresql": Postgresql,
    "mariadb": Mariadb,
    "memcached": Memcached,
    "redis": Redis,
    "ferretdb": Ferretdb,
    "diskcache": DiskCache,
    "cache": SharedCache,
}
