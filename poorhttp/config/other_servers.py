"""What other WSGI servers call it: for each of their options a setting of ours, or a sentence.

Knows names alone. Contract: the answer to an option that is not ours, and docs/coming-from.md, are derived from these
tables. Imported only where somebody has written such an option.
"""

from __future__ import annotations

TLS = "TLS is the front server's: --print-nginx, --print-lighttpd or --print-haproxy writes its configuration"
HTTP = "front servers reach it by HTTP: set bind, and in nginx proxy_pass"
PATH = "chdir goes first on Python's path; PYTHONPATH in the section [environ] adds to it"
ENVIRON = "the section [environ] of the ini file sets variables"
UMASK = "the umask of the start is kept; socket_mode is that of unix sockets"
STRICT = "what is ambiguous is refused, and no setting changes that"
GREENLETS = "type is single, forking or threading; slow clients need no greenlets, calls that wait need threads"
BACKGROUND = "poorhttp start serves in the background"
TASKS = "there are no tasks beside requests: cron, or a program of their own, runs them"

GUNICORN = {
    "-b, --bind": "bind",
    "-w, --workers": "processes",
    "-k, --worker-class": GREENLETS,
    "--threads": "threads",
    "--worker-connections": "max_connections",
    "-t, --timeout": "request_timeout",
    "--graceful-timeout": "graceful_timeout",
    "--keep-alive": "keepalive_timeout",
    "--max-requests": "max_requests",
    "--max-requests-jitter": "max_requests_jitter",
    "--backlog": "backlog",
    "--reuse-port": "reuse_port",
    "--preload": "preload",
    "--chdir": "chdir",
    "--pythonpath": PATH,
    "-e, --env": ENVIRON,
    "-D, --daemon": BACKGROUND,
    "-p, --pid": "pidfile",
    "-u, --user": "user",
    "-g, --group": "group",
    "-m, --umask": UMASK,
    "--initgroups": "user brings its groups along",
    "-n, --name": "processes keep the name of their command line",
    "--access-logfile": "accesslog",
    "--access-logformat": "accesslog_format",
    "--error-logfile, --log-file": "errorlog",
    "--log-level": "log_level",
    "--capture-output": "poorhttp start writes what is printed to the error log",
    "--log-config, --log-config-json, --logger-class": "the application logs as it wants; the server has two logs",
    "--log-syslog, --log-syslog-to": "a log may be a program: errorlog = |logger -t poorhttp",
    "--statsd-host": "status_path tells Prometheus",
    "--limit-request-line": "max_request_line",
    "--limit-request-fields": "max_fields",
    "--limit-request-field_size": "max_head",
    "--forwarded-allow-ips, --proxy-allow-from": "trusted_proxies",
    "--forwarder-headers": "forwarded",
    "--proxy-protocol": "proxy_protocol",
    "--header-map": "fields with an underscore in their name never reach the application",
    "--permit-obsolete-folding, --permit-unconventional-http-method, --permit-unconventional-http-version": STRICT,
    "--strip-header-spaces, --casefold-http-method": STRICT,
    "--protocol": HTTP,
    "--certfile, --keyfile, --ca-certs, --ciphers, --cert-reqs, --ssl-version": TLS,
    "--reload": "autoreload",
    "--reload-extra-file": "with autoreload each file that the application has opened is watched",
    "--reload-engine": "autoreload takes inotify where that works",
    "--paste": "write a module that calls paste.deploy.loadapp, and name it as APP",
    "--no-sendfile": "files are sent by the kernel where it can",
    "--worker-tmp-dir": "workers tell by a pipe that they live",
    "--control-socket": "control_socket",
}

UWSGI = {
    "--http, --http-socket, --http11-socket": "bind",
    "-s, --socket, --uwsgi-socket, --fastcgi-socket, --scgi-socket": HTTP,
    "--https": TLS,
    "--wsgi-file, --file": "name the file as APP: poorhttp file.py",
    "-w, --module, --wsgi": "name the module as APP: poorhttp module",
    "--callable": "write it behind the module or the file: poorhttp module:name",
    "--mount, --manage-script-name": "x-forwarded-prefix in forwarded sets SCRIPT_NAME; one server has one application",
    "--ini": "-c FILE names an ini file, with the names of poorhttp",
    "[uwsgi]": "the settings of poorhttp are in the section [http]",
    "-M, --master": "type = forking has a supervisor",
    "--processes, --workers": "processes",
    "-p": "processes sets how many there are; -p is pidfile here",
    "--cheaper": "processes = 2..8 goes by the load",
    "--threads": "threads",
    "-T, --enable-threads": "threads of the application run always",
    "--gevent, --asyncio, --async": GREENLETS,
    "--lazy-apps, --lazy": "--preload=no loads the application in each worker",
    "--need-app": "a start ends where the application cannot be loaded",
    "-i, --single-interpreter": "a process has one interpreter",
    "-t, --harakiri": "request_timeout",
    "-z, --socket-timeout, --http-timeout": "body_timeout is for what a client sends, write_timeout for what it takes",
    "--http-keepalive": "keepalive_timeout",
    "--worker-reload-mercy, --reload-mercy": "graceful_timeout",
    "-l, --listen": "backlog",
    "--reuse-port": "reuse_port",
    "--buffer-size": "max_head",
    "-b": "max_head is that of a request's head; -b is bind here",
    "--limit-post": "max_body",
    "--post-buffering": "body_memory",
    "--max-requests": "max_requests",
    "--max-requests-delta": "max_requests_jitter",
    "--reload-on-rss, --reload-on-as, --evil-reload-on-rss, --evil-reload-on-as": "memory",
    "--chdir, --chdir2": "chdir",
    "--pythonpath, --python-path, --pp": PATH,
    "-H, --home, --virtualenv, --venv": "start the poorhttp of that environment: VENV/bin/poorhttp",
    "--env": ENVIRON,
    "--plugin, --plugins": "Python is built in",
    "--uid": "user",
    "--gid": "group",
    "--umask": UMASK,
    "-C, --chmod-socket, --chmod": "socket_mode",
    "--chown-socket": "socket_owner",
    "--pidfile, --safe-pidfile": "pidfile",
    "--daemonize": BACKGROUND,
    "-d": f"{BACKGROUND}; -d is debug here",
    "--stop": "poorhttp stop -c FILE stops the server of its pidfile",
    "--reload": "poorhttp reload -c FILE reloads the server of its pidfile; --reload is autoreload here",
    "--touch-reload": "poorhttp reload -c FILE reloads, as HUP does; poorhttp dev does so after each save",
    "--py-autoreload, --python-autoreload": "autoreload",
    "--die-on-term": "TERM stops it",
    "--vacuum": "a stop removes unix sockets and pidfile",
    "--logto": "errorlog",
    "--logger, --req-logger": "errorlog and accesslog may be programs: |program",
    "--log-format": "accesslog_format",
    "-L, --disable-logging": "requests are logged only where accesslog is set",
    "--stats": "status_path",
    "--static-map, --static-index, --check-static": "static files are the front server's",
    "--emperor": "a service for each application, as in examples/poorhttp.service, takes its place",
    "--spooler, --mule, --cron": TASKS,
}

WAITRESS = {
    "--listen": "bind",
    "--host": "address",
    "--port": "port",
    "--unix-socket": "bind",
    "--unix-socket-perms": "socket_mode",
    "--ipv4, --ipv6": "bind names the addresses: :8080 is IPv4, [::]:8080 IPv6",
    "--app": "name it as APP: poorhttp module:name",
    "--call": "write a factory as poorhttp 'module:factory()'",
    "--threads": "threads",
    "--backlog": "backlog",
    "--connection-limit": "max_connections",
    "--channel-timeout": "keepalive_timeout",
    "--max-request-header-size": "max_head",
    "--max-request-body-size": "max_body",
    "--inbuf-overflow": "body_memory",
    "--trusted-proxy": "trusted_proxies",
    "--trusted-proxy-headers": "forwarded",
    "--trusted-proxy-count": "trusted_proxies names all of them, however many there are",
    "--clear-untrusted-proxy-headers": "where forwarded is set, such fields of others never reach the application",
    "--url-scheme": "x-forwarded-proto in forwarded takes it from the front server",
    "--url-prefix": "x-forwarded-prefix in forwarded takes it from the front server",
    "--server-name": "SERVER_NAME is what the client has asked for",
    "--ident": "server_header",
    "--expose-tracebacks": "debug",
    "--recv-bytes, --send-bytes, --outbuf-overflow, --outbuf-high-watermark": "buffers need no setting",
    "--cleanup-interval, --asyncore-loop-timeout, --asyncore-use-poll": "the event loop needs no setting",
}

MORE = {
    "--ssl-cert, --ssl-key, --ssl-certfile, --ssl-keyfile, --ssl-certificate": TLS,
    "--logfile": "errorlog",
}
"""Of several others, and not on the page."""

SERVERS = {"gunicorn": GUNICORN, "uWSGI": UWSGI, "waitress": WAITRESS}


def answer(word: str, names: dict[str, str]) -> str:
    """Return the hint for an option that is not ours, as a flag, a key or a keyword; "" where no table has it.

    names: how a setting is written there, by its name.
    """
    meant = {server: ours for server, table in SERVERS.items() for ours in _found(word, table)}
    if len(set(meant.values())) > 1:
        return "; ".join(f"{server}'s {word}: {names.get(ours, ours)}" for server, ours in meant.items())
    for ours in (*meant.values(), *_found(word, MORE)):
        return f"did you mean {names[ours]}?" if ours in names else ours
    return ""


def _found(word: str, table: dict[str, str]) -> list[str]:
    return [ours for options, ours in table.items() if _plain(word) in map(_plain, options.split(", "))]


def _plain(word: str) -> str:
    """An option without what differs between a flag, a key and a keyword; a single letter is a flag alone."""
    return word if len(word) == 2 and word[0] == "-" else word.lstrip("-").replace("-", "_").lower()


def page() -> str:
    """Return the tables as they stand in docs/coming-from.md (Markdown)."""
    from poorhttp.config.settings import SETTINGS

    parts = []
    for server, table in SERVERS.items():
        lines = [f"## From {server}", "", f"| {server} | poorhttp |", "|---|---|"]
        for options, ours in table.items():
            names = ", ".join(f"`{each}`" for each in options.split(", "))
            lines.append(f"| {names} | {f'`{ours}`' if ours in SETTINGS else ours.replace('|', '&#124;')} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
