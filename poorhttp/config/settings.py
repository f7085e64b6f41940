"""Every setting, once: name, unit, default, meaning. Flag, variable, ini key, help and documents follow by rule.

Knows the settings and the names that older versions had for them. Does not know where values come from.
Contract: data only; nothing here acts. A class attribute is the declaration (`Setting`), the attribute of the same name
of a `Config` is the value, and the type checker sees the type of the value.
"""

from __future__ import annotations

from poorhttp.config.units import (
    PORT,
    Addresses,
    Application,
    Bytes,
    Choice,
    ControlSocket,
    Count,
    Counts,
    EditorUrl,
    FieldValue,
    Function,
    Host,
    Mode,
    Names,
    Networks,
    Path,
    Question,
    Seconds,
    SendfileHeader,
    Span,
    Switch,
    Text,
    UrlPath,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol, TypeVar

    T = TypeVar("T")

    class Unit(Protocol[T]):
        """What a unit can do; see poorhttp.config.units."""

        @property
        def metavar(self) -> str: ...
        def parse(self, text: str, directory: str = "") -> T: ...
        def show(self, value: T) -> str: ...


class Setting:
    """The declaration of one setting; short: letter of the short flag, "" for none."""

    __slots__ = ("default", "group", "help", "name", "short", "unit")

    def __init__(self, unit: Unit[Any], default: Any, group: str, help: str, short: str) -> None:
        self.unit, self.default, self.group, self.help, self.short = unit, default, group, help, short

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


def setting(unit: Unit[T], default: T, group: str, help: str, *, short: str = "") -> T:
    """Declare a setting; to the type checker it is the value that a `Config` has under this name."""
    return Setting(unit, default, group, help, short)  # type: ignore[return-value]


PREFIX = "POORHTTP_"
SECTION, OPTIONS, ENVIRON = "http", "application", "environ"

IS_TRIAL = "POORHTTP_IS_TRIAL"
"""The variable, 1, in a process that loads the application only to find out whether it can be."""

LEVELS = ("emerg", "alert", "crit", "error", "warning", "notice", "info", "debug")
LEVEL_NAMES = {
    **{str(number): level for number, level in enumerate((*LEVELS, "debug"))},
    "critical": "crit",
    "err": "error",
    "warn": "warning",
}
"""Numbers of Poor Http 2010 (8: everything) and names of Poor Http 1.0."""

PRESETS = {"single": (1, 1), "forking": (4, 1), "threading": (1, 16)}
"""type -> (processes, threads), where they are 0."""

SERVING, RUNNING, PROXY, LOGS, DEADLINES, LIMITS = "serving", "running", "behind a proxy", "logs", "deadlines", "limits"

X_FORWARDED = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host")
"""What front servers set as a rule; x-forwarded-prefix is passed on by most as the client wrote it."""


class Settings:
    """The settings, in the order in which help, ini file and docs/settings.md show them."""

    __slots__ = ()

    application = setting(
        Application(), "./", SERVING, "module:name, file.py[:name], or a directory with dispatch_table.py"
    )
    chdir = setting(
        Path("DIRECTORY", empty=True),
        "",
        SERVING,
        "directory to run in, with APP and its modules; empty: where it is started",
    )
    type = setting(Choice(*PRESETS), "single", SERVING, "single, forking (processes) or threading (threads)")
    processes = setting(
        Counts(0, 1024), Span(0, 0), SERVING, "processes that serve, or 2..8: by load; 0: by type (1, forking 4)"
    )
    threads = setting(Count(0, 1024), 0, SERVING, "threads of each process; 0: by type (1, threading 16)")
    preload = setting(Switch(), True, SERVING, "load once, before workers are forked; no: in each of them")
    address = setting(Host(), "127.0.0.1", SERVING, "address to listen on", short="a")
    port = setting(PORT, 8080, SERVING, "port to listen on; 0: any free one")
    bind = setting(
        Addresses(),
        (),
        SERVING,
        "in place of address and port: host:port, unix:/path, unix:@name, fd:name; commas",
        short="b",
    )
    socket_mode = setting(Mode(), -1, SERVING, "mode of unix sockets, such as 660; empty: by the umask")
    socket_owner = setting(Text(), "", SERVING, "owner of unix sockets, as user:group; empty: who serves")
    reuse_port = setting(
        Switch(), False, SERVING, "share TCP ports with servers that do, once it serves (SO_REUSEPORT)"
    )
    backlog = setting(Count(1, 65535), 2048, SERVING, "connections that may wait to be accepted")

    debug = setting(Switch(), False, RUNNING, "error pages tell clients of this machine what went wrong", short="d")
    autoreload = setting(Switch(), False, RUNNING, "serve new code as soon as it is saved (--reload)")
    check_path = setting(
        Question(), "", RUNNING, "path or URL that new code must answer below 500 before it serves; or empty"
    )
    child_exit = setting(
        Function(), "", RUNNING, "module:function, called with the process number of each worker that ended"
    )
    editor = setting(
        EditorUrl(), "vscode://file/{path}:{line}", RUNNING, "URL by which error pages link to files; or empty"
    )
    pidfile = setting(Path(empty=True), "", RUNNING, "file for the process number while the server runs", short="p")
    user = setting(Text(), "", RUNNING, "become this user once the sockets are bound (start as root)")
    group = setting(Text(), "", RUNNING, "and this group; empty: that of the user")
    status_path = setting(
        UrlPath(), "", RUNNING, "path that tells loopback and trusted clients what the server does; empty: none"
    )
    control_socket = setting(
        ControlSocket(), "", RUNNING, "unix socket that tells the same to who may connect, its user; empty: none"
    )
    webmaster = setting(Text(), "root@localhost", RUNNING, "who is named on error pages and as SERVER_ADMIN")
    server_header = setting(FieldValue(), "poorhttp", RUNNING, "value of the Server field; empty: no such field")

    trusted_proxies = setting(
        Networks(),
        ("127.0.0.0/8", "::1", "unix"),
        PROXY,
        "who is believed: addresses, networks, unix; or none",
    )
    forwarded = setting(
        Names("forwarded", *X_FORWARDED, "x-forwarded-prefix", also={"x-forwarded": X_FORWARDED}),
        (),
        PROXY,
        "by which fields: x-forwarded, forwarded, or their names; or no",
    )
    proxy_protocol = setting(Switch(), False, PROXY, "connections begin with a header of the PROXY protocol, 1 or 2")
    health = setting(UrlPath(), "", PROXY, "path that the server answers, 200, or 503 while it leaves; empty: none")
    request_id = setting(
        Choice("no", "yes", "answer"),
        "no",
        PROXY,
        "each request has one, its proxy's or new: no, yes, answer (to clients)",
    )
    sendfile_header = setting(
        SendfileHeader(),
        "",
        PROXY,
        "let the proxy send files: X-Sendfile, or X-Accel-Redirect /prefix",
    )

    errorlog = setting(Path(dash=True, pipe=True), "-", LOGS, "error log; -: standard error; or a program")
    accesslog = setting(
        Path(dash=True, empty=True, pipe=True),
        "",
        LOGS,
        "access log; -: standard output, empty: none; or a pipe to a program",
    )
    accesslog_format = setting(Choice("poor", "combined", "json"), "poor", LOGS, "poor, combined or json")
    log_level = setting(Choice(*LEVELS, also=LEVEL_NAMES), "info", LOGS, "least urgent level logged, emerg to debug")

    keepalive_timeout = setting(Seconds(), 15.0, DEADLINES, "close a connection idle for so long")
    head_timeout = setting(Seconds(0.001), 10.0, DEADLINES, "a request's head must be there by then")
    body_timeout = setting(Seconds(0.001), 30.0, DEADLINES, "longest silence within a request's body")
    body_rate = setting(Bytes(), 500, DEADLINES, "least bytes per second of a request's body")
    request_timeout = setting(Seconds(), 60.0, DEADLINES, "the application must answer by then; 0: no limit")
    slow_request = setting(
        Seconds(), 5.0, DEADLINES, "name a request in the log while it still runs after so long; 0: none"
    )
    write_timeout = setting(Seconds(0.001), 30.0, DEADLINES, "longest time in which a client reads nothing")
    linger_timeout = setting(Seconds(), 2.0, DEADLINES, "wait for the client to read the last answer")
    graceful_timeout = setting(Seconds(), 30.0, DEADLINES, "requests in flight may last so long at a stop")

    max_request_line = setting(Bytes(64, 1 << 20), 8 << 10, LIMITS, "longest request line")
    # A Kerberos ticket of 64 KiB is 87 KB in base64; Mercurial sends the heads of a repository in fields of 1 KiB.
    max_head = setting(Bytes(256, 16 << 20), 128 << 10, LIMITS, "largest request head")
    max_fields = setting(Count(1, 10000), 200, LIMITS, "most header fields of a request")
    max_body = setting(Bytes(), 64 << 20, LIMITS, "largest request body")
    body_memory = setting(Bytes(0, 1 << 30), 256 << 10, LIMITS, "a larger body goes to a temporary file")
    max_connections = setting(Count(1, 1 << 20), 16384, LIMITS, "connections of each process")
    max_connections_per_address = setting(
        Count(0, 1 << 20), 4096, LIMITS, "those of one client address (not of loopback); 0: no limit"
    )
    max_requests = setting(Count(0, 1 << 31), 0, LIMITS, "a worker is replaced after so many (forking); 0: never")
    max_requests_jitter = setting(Count(0, 1 << 31), 0, LIMITS, "and at random up to so many more")
    memory = setting(Bytes(), 0, LIMITS, "of the whole process tree: above it the fattest worker is replaced; 0: any")


SETTINGS = {name: each for name, each in vars(Settings).items() if isinstance(each, Setting)}

OLD_KEYS = {
    ("daemon", "pidfile"): "pidfile",
    ("daemon", "user"): "user",
    ("daemon", "group"): "group",
    ("logging", "level"): "log_level",
    ("logging", "errorlog"): "errorlog",
    ("logging", "accesslog"): "accesslog",
    ("python", "module"): "application",
    ("python", "debug"): "debug",
}
"""(section, key) of Poor Http 1.0 -> setting."""

UNUSED_KEYS = {
    "http": ("secret", "secretkey", "memcache", "document", "document_root", "sdocument", "index", "path", "optimize"),
    "logging": ("format",),
    "python": ("path", "optimize"),
}
"""Keys of older versions that have no counterpart."""

UNUSED_SECTIONS = ("mime-type", "poor")
