"""Working configurations of front servers for a given configuration: lighttpd, nginx and HAProxy.

Knows what each of the three sets by itself, and what it passes on as a client wrote it. Does not know where those
programs are. No client can write a field that poorhttp believes.
"""

from __future__ import annotations

from poorhttp.errors import ConfigError
from poorhttp.listen.sockets import LOOPBACK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from poorhttp.config.addresses import Address
    from poorhttp.config.model import Config

TIME_TO_ANSWER = 10
"""Seconds that the front server waits longer than poorhttp, which then tells the client itself."""
LIGHTTPD_HEAD = 65535
"""The largest request head that lighttpd can be told to take, in bytes."""
HAPROXY_ROOM, HAPROXY_FIELDS = 16 << 10, 20
"""The bytes that HAProxy needs in its buffer beside a request head, and how many fields it may add."""
ANSWER_HEAD = "32k"
"""The largest answer head that nginx takes: a buffer of this size for each request."""


def render(program: str, config: Config) -> str:
    """Return the configuration of `program` (lighttpd, nginx, haproxy) for servers of this one. Raises ConfigError if
    one cannot be told in advance, or the program cannot do what the settings ask for.
    """
    backends = [_reachable(each) for each in config.addresses]
    if config.proxy_protocol and program != "haproxy":
        raise ConfigError(f"{program} cannot speak the PROXY protocol to HTTP servers", "set proxy_protocol = no")
    lines = {"lighttpd": _lighttpd, "nginx": _nginx, "haproxy": _haproxy}[program](config, backends)
    family = "forwarded" if _is_standard(config) else "x-forwarded"
    wanted = "" if config.forwarded or config.proxy_protocol else f"; needs `forwarded = {family}` in poorhttp.ini"
    return "\n".join([f"# {program} in front of poorhttp{wanted}", *lines]) + "\n"


def _reachable(address: Address) -> Address:
    if address.fd:
        raise ConfigError(f"fd:{address.fd} is a socket whose address is not known here", "set port, or bind")
    if address.path.startswith("@"):
        raise ConfigError(
            f"no front server can reach the abstract socket unix:{address.path}", "name a path, or a port"
        )
    if not address.path and not address.port:
        raise ConfigError("port 0 is any free one, which no front server can know", "set port, or bind")
    return type(address)(LOOPBACK.get(address.host, address.host), address.port, address.path)


def _is_standard(config: Config) -> bool:
    return config.forwarded == ("forwarded",)


def _waits(config: Config) -> str:
    return f"{int(config.request_timeout) + TIME_TO_ANSWER if config.request_timeout else 3600}s"


def _lighttpd(config: Config, backends: Sequence[Address]) -> list[str]:
    sendfile = ', "x-sendfile" => "enable"' if config.sendfile_header else ""
    places = [
        f'"socket" => "{each.path}"' if each.path else f'"host" => "{each.host}", "port" => {each.port}'
        for each in backends
    ]
    standard = ['proxy.forwarded = ( "for" => 1, "proto" => 1, "host" => 1 )'] if _is_standard(config) else []
    cleared = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Prefix", "X-Forwarded-User", "X-Real-IP", "X-Request-ID")
    limit = [
        "# Any file that lighttpd may read is sent where an answer names it. To limit that, beside x-sendfile:",
        '#     "x-sendfile-docroot" => ( "/srv/files" )',
    ]
    return [
        "server.port = 80",
        "# Its own default is 8192, and more than 65535 is not possible.",
        f"server.max-request-field-size = {min(config.max_head, LIGHTTPD_HEAD)}",
        "# Started by root it stays root, unless it is told whose it is to be:",
        '# server.username = "www-data"',
        '# server.groupname = "www-data"',
        'server.document-root = "/var/empty"',
        'server.modules += ( "mod_setenv", "mod_proxy" )',
        "",
        "# Else a stream of events would be held back until its end, and an answer that breaks off would look whole.",
        "server.stream-response-body = 1",
        "",
        "# X-Forwarded-For, -Proto and -Host are set by lighttpd; these would come as the client wrote them.",
        "setenv.set-request-header = ( " + ", ".join(f'"{name}" => ""' for name in cleared) + " )",
        "",
        *standard,
        *(limit if config.sendfile_header else []),
        'proxy.balance = "least-connection"',
        'proxy.server = ( "" => (',
        ",\n".join(f"    ( {place}{sendfile} )" for place in places),
        ") )",
    ]


def _nginx(config: Config, backends: Sequence[Address]) -> list[str]:
    # Else who refuses once, as for the moment of a restart, is left out for ten seconds, in which another may go too.
    servers = [f"        server {f'unix:{each.path}' if each.path else each} max_fails=0;" for each in backends]
    keeps = config.keepalive_timeout >= 2
    idle = f"        keepalive_timeout {int(config.keepalive_timeout) - 1}s;"
    kept = ["        keepalive 16;", idle] if keeps else []
    quoted = [
        "    map $remote_addr $poorhttp_for {",
        '        ~: "\\"[$remote_addr]\\"";',
        "        default $remote_addr;",
        "    }",
    ]
    fields = {
        "Host": "$http_host",
        "Connection": '""',
        "X-Forwarded-For": "$remote_addr",
        "X-Forwarded-Proto": "$scheme",
        "X-Forwarded-Host": "$http_host",
        "X-Forwarded-Prefix": '""',
        "X-Forwarded-User": '""',
        "X-Real-IP": '""',
        "X-Request-ID": "$request_id",
        "Forwarded": '"for=$poorhttp_for;proto=$scheme;host=\\"$http_host\\""' if _is_standard(config) else '""',
    }
    return [
        "events {}",
        "http {",
        "    upstream poorhttp {",
        "        least_conn;",
        *servers,
        *kept,
        "    }",
        *(quoted if _is_standard(config) else []),
        "    server {",
        "        listen 80;",
        f"        client_max_body_size {config.max_body};",
        f"        large_client_header_buffers 2 {config.max_head};",
        "        location / {",
        "            proxy_pass http://poorhttp;",
        "            proxy_http_version 1.1;",
        f"            proxy_buffer_size {ANSWER_HEAD};",
        f"            proxy_buffers 4 {ANSWER_HEAD};",
        f"            proxy_read_timeout {_waits(config)};",
        "            # nginx would pass on what the client wrote.",
        *(f"            proxy_set_header {name} {value};" for name, value in fields.items()),
        "        }",
        *_nginx_files(config),
        "    }",
        "}",
    ]


def _nginx_files(config: Config) -> list[str]:
    name, _, prefix = config.sendfile_header.partition(" ")
    if not name:
        return []
    if name.lower() != "x-accel-redirect":
        raise ConfigError(f"nginx does not know {name}", "set sendfile_header = X-Accel-Redirect /files")
    return [f"        location {prefix}/ {{", "            internal;", "            alias /;", "        }"]


def _haproxy(config: Config, backends: Sequence[Address]) -> list[str]:
    if config.sendfile_header:
        raise ConfigError("HAProxy sends no files", "remove sendfile_header")
    check = ["    option httpchk", f"    http-check send meth GET uri {config.health} ver HTTP/1.1 hdr Host poorhttp"]
    proxy = " send-proxy-v2 check-send-proxy" if config.proxy_protocol else ""
    rest = 'proto=%[var(txn.proto)];host=\\"%[req.hdr(host)]\\"'
    standard = [
        "    http-request set-var-fmt(txn.from) %[src]",
        f"    http-request set-header Forwarded for=%[src];{rest}",
        f'    http-request set-header Forwarded for=\\"[%[src]]\\";{rest} if {{ var(txn.from) -m sub : }}',
    ]
    return [
        "global",
        f"    tune.bufsize {config.max_head + HAPROXY_ROOM}",
        f"    tune.http.maxhdr {config.max_fields + HAPROXY_FIELDS}",
        "defaults",
        "    mode http",
        "    timeout connect 5s",
        "    timeout client 60s",
        f"    timeout server {_waits(config)}",
        "    timeout http-request 10s",
        "    retry-on conn-failure empty-response",
        "    option redispatch",
        "frontend web",
        "    bind :80",
        "    http-request disable-l7-retry unless METH_GET",
        "    # HAProxy would pass on what the client wrote.",
        "    http-request del-header X-Forwarded- -m beg",
        "    http-request del-header X-Real-IP",
        "    http-request del-header Forwarded",
        "    http-request set-var(txn.proto) str(http)",
        "    http-request set-var(txn.proto) str(https) if { ssl_fc }",
        "    http-request set-header X-Forwarded-For %[src]",
        "    http-request set-header X-Forwarded-Proto %[var(txn.proto)]",
        "    http-request set-header X-Forwarded-Host %[req.hdr(host)] if { req.hdr(host) -m found }",
        "    http-request set-header X-Request-ID %[uuid]",
        *(standard if _is_standard(config) else []),
        "    default_backend poorhttp",
        "backend poorhttp",
        "    balance leastconn",
        *(check if config.health else []),
        *(
            f"    server poorhttp{number} {f'unix@{each.path}' if each.path else each} check{proxy}"
            for number, each in enumerate(backends, 1)
        ),
    ]
