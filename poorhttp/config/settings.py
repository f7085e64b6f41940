"""Every setting, declared once: name, unit, default, meaning. Flag, variable, ini key, help and documents are derived.

Data only. A class attribute is the declaration (`Setting`), the attribute of the same name of a `Config` is the value,
and the type checker sees the type of the value.
"""

from __future__ import annotations

from poorhttp.config.addresses import PORT, Addresses, Host, Networks
from poorhttp.config.paths import Application, ControlSocket, Function, Path
from poorhttp.config.units import (
    Bytes,
    Choice,
    Count,
    Counts,
    FieldValue,
    Mode,
    Names,
    Seconds,
    Span,
    Switch,
    Text,
)
from poorhttp.config.urls import CheckPath, CheckPaths, EditorUrl, SendfileHeader, UrlPath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, TypeVar

    T = TypeVar("T")

    class Unit(Protocol[T]):
        """The methods of a unit; see poorhttp.config.units."""

        @property
        def metavar(self) -> str: ...
        def parse(self, text: str, directory: str = "") -> T: ...
        def show(self, value: T) -> str: ...


class Setting:
    """The declaration of one setting; short: letter of the short flag, or ""."""

    __slots__ = ("default", "help", "name", "short", "unit")

    def __init__(self, unit: Unit[Any], default: Any, help: str, short: str) -> None:
        self.unit, self.default, self.help, self.short = unit, default, help, short

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    @property
    def shown_default(self) -> str:
        return self.unit.show(self.default)


def setting(unit: Unit[T], default: T, help: str, *, short: str = "") -> T:
    """Declare a setting; to the type checker it is the value that a `Config` has under this name."""
    return Setting(unit, default, help, short)  # type: ignore[return-value]


PREFIX = "POORHTTP_"
SECTION, OPTIONS, ENVIRON, MIME_TYPES = "http", "application", "environ", "mime-type"

IS_TRIAL = "POORHTTP_IS_TRIAL"
"""Variable that is 1 in a process that loads the application only to find out whether that works."""

LEVELS = ("emerg", "alert", "crit", "error", "warning", "notice", "info", "debug")
LEVEL_NAMES = {
    **{str(number): level for number, level in enumerate((*LEVELS, "debug"))},
    "critical": "crit",
    "err": "error",
    "warn": "warning",
}
"""Numbers of Poor Http 2010 (8: everything) and names of Poor Http 1.0."""

PRESETS = {"single": (1, 1), "forking": (4, 1), "threading": (1, 16)}
"""type -> the values of processes and threads that 0 stands for."""

GROUPS = {
    "serving": "application",
    "files": "document",
    "running": "debug",
    "behind a proxy": "trusted_proxies",
    "logs": "errorlog",
    "deadlines": "keepalive_timeout",
    "limits": "max_request_line",
}
"""Each group of settings -> its first one."""

X_FORWARDED = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")
"""Fields that proxies usually set themselves, unlike x-forwarded-prefix."""


class Settings:
    """The settings, in the order in which help, ini file and docs/settings.md show them."""

    __slots__ = ()

    application = setting(Application(), "./", "module:name, file.py[:name], or a directory with dispatch_table.py")
    chdir = setting(
        Path("DIRECTORY", empty=True),
        "",
        "working directory, in which APP and its modules are; empty = where it started",
    )
    type = setting(Choice(*PRESETS), "single", "single, forking (several processes) or threading (several threads)")
    processes = setting(
        Counts(0, 1024), Span(0, 0), "number of processes that serve; 2..8 = by load; 0 = by type (1, forking 4)"
    )
    threads = setting(Count(0, 1024), 0, "number of threads in each process; 0 = by type (1, threading 16)")
    preload = setting(Switch(), True, "load the application once, before workers are forked; no = in each of them")
    immortal = setting(Switch(), True, "count no references to what is loaded; workers share more memory")
    address = setting(Host(), "127.0.0.1", "address to listen on", short="a")
    port = setting(PORT, 8080, "port to listen on; 0 = any free port")
    bind = setting(
        Addresses(), (), "replaces address and port; list of host:port, unix:/path, unix:@name, fd:name", short="b"
    )
    socket_mode = setting(Mode(), -1, "file mode of unix sockets, such as 660; empty = by the umask")
    socket_owner = setting(Text(), "", "owner of unix sockets, user:group; empty = the user of the server")
    reuse_port = setting(Switch(), False, "share TCP ports with other servers that set this (SO_REUSEPORT)")
    backlog = setting(Count(1, 65535), 4096, "length of the listen queue: clients that wait to be accepted")

    document = setting(
        Path("DIRECTORY", empty=True), "", "directory of files that the dispatch table serves; empty = none"
    )
    index = setting(Switch(), False, "list the directories in document that have no index.html")
    follow_symlinks = setting(Switch(), False, "serve also files to which symbolic links lead out of document")

    debug = setting(Switch(), False, "show clients on this machine error pages with the traceback", short="d")
    autoreload = setting(Switch(), False, "serve new code as soon as it is saved (also --reload)")
    check_path = setting(
        CheckPath(), "", "path or URL that new code must answer below 500 before it serves; empty = none"
    )
    warmup = setting(CheckPaths(), (), "paths or URLs that the application is asked before it serves; empty = none")
    child_exit = setting(Function(), "", "module:function, called with the process number of each worker that ended")
    editor = setting(EditorUrl(), "vscode://file/{path}:{line}", "URL of links to files on error pages; empty = none")
    pidfile = setting(
        Path(empty=True), "", "file with the process number while the server runs; empty = none", short="p"
    )
    user = setting(Text(), "", "user to become after the sockets are bound (start as root); empty = none")
    group = setting(Text(), "", "group to become with it; empty = the group of the user")
    status_path = setting(UrlPath(), "", "path of the status page, for loopback and trusted clients; empty = none")
    control_socket = setting(
        ControlSocket(), "", "unix socket of the status page, for the user of the server; empty = none"
    )
    webmaster = setting(Text(), "root@localhost", "contact on error pages, also SERVER_ADMIN")
    server_header = setting(FieldValue(), "poorhttp", "value of the header field Server; empty = no field")

    trusted_proxies = setting(
        Networks(), ("127.0.0.0/8", "::1", "unix"), "believed proxies: addresses, networks, unix; or none"
    )
    forwarded = setting(
        Names("forwarded", *X_FORWARDED, "x-forwarded-prefix", also={"x-forwarded": X_FORWARDED}),
        (),
        "header fields they may set: x-forwarded, forwarded, or field names; or no",
    )
    proxy_protocol = setting(Switch(), False, "connections begin with a header of the PROXY protocol, 1 or 2")
    health = setting(
        UrlPath(), "", "health check path: 200, or 503 while stopping, being replaced or stuck; empty = none"
    )
    request_id = setting(
        Choice("no", "yes", "answer"),
        "no",
        "request ids, the proxy's or new ones: no, yes, or answer (sent to the client too)",
    )
    sendfile_header = setting(
        SendfileHeader(), "", "let the proxy send files: X-Sendfile, or X-Accel-Redirect /prefix; empty = no"
    )

    errorlog = setting(
        Path(dash=True, pipe=True), "-", "error log: a file, - for standard error, or a pipe to a program"
    )
    accesslog = setting(
        Path(dash=True, empty=True, pipe=True),
        "",
        "access log: a file, - for standard output, or a pipe to a program; empty = none",
    )
    accesslog_format = setting(
        Choice("poor", "combined", "json"), "poor", "format of the access log: poor, combined or json"
    )
    log_level = setting(Choice(*LEVELS, also=LEVEL_NAMES), "info", "least urgent level logged, emerg to debug")

    keepalive_timeout = setting(Seconds(), 15.0, "close an idle connection after this time")
    head_timeout = setting(Seconds(0.001), 10.0, "time limit for receiving the head of a request")
    body_timeout = setting(Seconds(0.001), 30.0, "longest pause within the body of a request")
    body_rate = setting(Bytes(), 500, "lowest rate of a request body, in bytes per second")
    request_timeout = setting(Seconds(), 60.0, "time limit for the application to answer; 0 = no limit")
    slow_request = setting(Seconds(), 5.0, "log a request that is still running after this time; 0 = never")
    write_timeout = setting(Seconds(0.001), 30.0, "longest pause of a client in reading an answer")
    linger_timeout = setting(Seconds(), 2.0, "how long a closing connection waits for its client to read")
    graceful_timeout = setting(Seconds(), 30.0, "how long a stop waits for the requests in flight")

    max_request_line = setting(Bytes(64, 1 << 20), 8 << 10, "longest request line")
    # A Kerberos ticket of 64 KiB is 87 KB in base64; Mercurial sends the heads of a repository in fields of 1 KiB.
    max_head = setting(Bytes(256, 16 << 20), 128 << 10, "largest request head")
    max_fields = setting(Count(1, 10000), 200, "largest number of header fields in a request")
    max_body = setting(Bytes(), 64 << 20, "largest request body")
    body_memory = setting(Bytes(0, 1 << 30), 256 << 10, "a request body above this goes to a temporary file")
    max_connections = setting(Count(1, 1 << 20), 16384, "largest number of connections of each process")
    max_connections_per_address = setting(
        Count(0, 1 << 20), 4096, "connections of one client address, except loopback; 0 = no limit"
    )
    max_requests = setting(Count(0, 1 << 31), 0, "replace a worker after so many requests (forking); 0 = never")
    max_requests_jitter = setting(Count(0, 1 << 31), 0, "random number, up to this one, added to max_requests")
    memory = setting(Bytes(), 0, "memory limit of all processes; above it the largest worker is replaced; 0 = no limit")


SETTINGS = {name: each for name, each in vars(Settings).items() if isinstance(each, Setting)}

OLD_KEYS = {
    ("http", "document_root"): "document",
    ("daemon", "pidfile"): "pidfile",
    ("daemon", "user"): "user",
    ("daemon", "group"): "group",
    ("logging", "level"): "log_level",
    ("logging", "errorlog"): "errorlog",
    ("logging", "accesslog"): "accesslog",
    ("python", "module"): "application",
    ("python", "debug"): "debug",
}
"""(section, key) of older versions -> setting."""

UNUSED_KEYS = {
    "http": ("secret", "secretkey", "memcache", "sdocument", "path", "optimize"),
    "logging": ("format",),
    "python": ("path", "optimize"),
}
"""Keys of older versions that have no counterpart."""

UNUSED_SECTIONS = ("poor",)
