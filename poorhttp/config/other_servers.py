"""Options of other WSGI servers, and for each of them our setting, or a sentence about what replaces it.

Knows names only. The hint for an unknown option, after which it is imported, and the tables of docs/coming-from.md are
derived from it.
"""

from __future__ import annotations

TLS = "the front server handles TLS: --print-nginx, --print-lighttpd or --print-haproxy prints its configuration"
HTTP = "the front server speaks HTTP to poorhttp: set bind here, and proxy_pass in nginx"
PATH = "chdir comes first on Python's path; set PYTHONPATH in the section [environ] for more"
ENVIRON = "set variables in the section [environ] of the ini file"
UMASK = "the server keeps its umask; socket_mode sets the mode of unix sockets"
STRICT = "ambiguous requests are always refused; there is no setting for that"
GREENLETS = "set type to single, forking or threading; slow clients need no greenlets, and calls that wait need threads"
BACKGROUND = "poorhttp start serves in the background"
TASKS = "run tasks that are no requests by cron or by a program of their own"

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
    "--initgroups": "user sets the groups of that user too",
    "-n, --name": "processes keep their command line as their name",
    "--access-logfile": "accesslog",
    "--access-logformat": "accesslog_format",
    "--error-logfile, --log-file": "errorlog",
    "--log-level": "log_level",
    "--capture-output": "poorhttp start sends standard output and standard error to the error log",
    "--log-config, --log-config-json, --logger-class": "the application configures its own logs",
    "--log-syslog, --log-syslog-to": "set errorlog = |logger -t poorhttp",
    "--statsd-host": "Prometheus can read status_path",
    "--limit-request-line": "max_request_line",
    "--limit-request-fields": "max_fields",
    "--limit-request-field_size": "max_head",
    "--forwarded-allow-ips, --proxy-allow-from": "trusted_proxies",
    "--forwarder-headers": "forwarded",
    "--proxy-protocol": "proxy_protocol",
    "--header-map": "header fields with an underscore in their name never reach the application",
    "--permit-obsolete-folding, --permit-unconventional-http-method, --permit-unconventional-http-version": STRICT,
    "--strip-header-spaces, --casefold-http-method": STRICT,
    "--protocol": HTTP,
    "--certfile, --keyfile, --ca-certs, --ciphers, --cert-reqs, --ssl-version": TLS,
    "--reload": "autoreload",
    "--reload-extra-file": "autoreload watches each file that the application has opened",
    "--reload-engine": "autoreload uses inotify if that works",
    "--paste": "write a module that calls paste.deploy.loadapp, and give it as APP",
    "--no-sendfile": "the kernel sends files if it can",
    "--worker-tmp-dir": "workers report by a pipe, and need no directory",
    "--control-socket": "control_socket",
}

UWSGI = {
    "--http, --http-socket, --http11-socket": "bind",
    "-s, --socket, --uwsgi-socket, --fastcgi-socket, --scgi-socket": HTTP,
    "--https": TLS,
    "--wsgi-file, --file": "give the file as APP: poorhttp file.py",
    "-w, --module, --wsgi": "give the module as APP: poorhttp module",
    "--callable": "write it after the module or the file: poorhttp module:name",
    "--mount, --manage-script-name": "forwarded = x-forwarded-prefix sets SCRIPT_NAME; a server has one application",
    "--ini": "give an ini file with the settings of poorhttp as -c FILE",
    "[uwsgi]": "write the settings of poorhttp into the section [http]",
    "-M, --master": "type = forking has a supervisor",
    "--processes, --workers": "processes",
    "-p": "set processes; -p is pidfile here",
    "--cheaper": "set processes = 2..8 for a number by load",
    "--threads": "threads",
    "-T, --enable-threads": "threads of the application always run",
    "--gevent, --asyncio, --async": GREENLETS,
    "--lazy-apps, --lazy": "--preload=no loads the application in each worker",
    "--need-app": "the start always fails if the application cannot be loaded",
    "-i, --single-interpreter": "a process always has one interpreter",
    "-t, --harakiri": "request_timeout",
    "-z, --socket-timeout, --http-timeout": "body_timeout while a client sends, write_timeout while it receives",
    "--http-keepalive": "keepalive_timeout",
    "--worker-reload-mercy, --reload-mercy": "graceful_timeout",
    "-l, --listen": "backlog",
    "--reuse-port": "reuse_port",
    "--buffer-size": "max_head",
    "-b": "set max_head; -b is bind here",
    "--limit-post": "max_body",
    "--post-buffering": "body_memory",
    "--max-requests": "max_requests",
    "--max-requests-delta": "max_requests_jitter",
    "--reload-on-rss, --reload-on-as, --evil-reload-on-rss, --evil-reload-on-as": "memory",
    "--chdir, --chdir2": "chdir",
    "--pythonpath, --python-path, --pp": PATH,
    "-H, --home, --virtualenv, --venv": "start the poorhttp of that environment: VENV/bin/poorhttp",
    "--env": ENVIRON,
    "--plugin, --plugins": "poorhttp serves Python only, and needs no plugin",
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
    "--touch-reload": "poorhttp reload -c FILE reloads, as HUP does; poorhttp dev reloads after each save",
    "--py-autoreload, --python-autoreload": "autoreload",
    "--die-on-term": "TERM always stops the server",
    "--vacuum": "a stop always removes unix sockets and the pidfile",
    "--logto": "errorlog",
    "--logger, --req-logger": "set errorlog or accesslog to |program",
    "--log-format": "accesslog_format",
    "-L, --disable-logging": "requests are logged only if accesslog is set",
    "--stats": "status_path",
    "--static-map, --static-index, --check-static": "`document` of a dispatch table, or the front server",
    "--emperor": "write a service for each application, as in examples/poorhttp.service",
    "--spooler, --mule, --cron": TASKS,
}

WAITRESS = {
    "--listen": "bind",
    "--host": "address",
    "--port": "port",
    "--unix-socket": "bind",
    "--unix-socket-perms": "socket_mode",
    "--ipv4, --ipv6": "set bind: :8080 is IPv4, [::]:8080 is IPv6",
    "--app": "give it as APP: poorhttp module:name",
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
    "--trusted-proxy-count": "list all proxies in trusted_proxies",
    "--clear-untrusted-proxy-headers": "if forwarded is set, these fields of other clients never reach the application",
    "--url-scheme": "list x-forwarded-proto in forwarded, and let the front server set that field",
    "--url-prefix": "list x-forwarded-prefix in forwarded, and let the front server set that field",
    "--server-name": "SERVER_NAME is the host that the client asked for",
    "--ident": "server_header",
    "--expose-tracebacks": "debug",
    "--recv-bytes, --send-bytes, --outbuf-overflow, --outbuf-high-watermark": "there is no setting for buffers",
    "--cleanup-interval, --asyncore-loop-timeout, --asyncore-use-poll": "there is no setting for the event loop",
}

MORE = {
    "--ssl-cert, --ssl-key, --ssl-certfile, --ssl-keyfile, --ssl-certificate": TLS,
    "--logfile": "errorlog",
}
"""Options of several other servers, which the page leaves out."""

SERVERS = {"gunicorn": GUNICORN, "uWSGI": UWSGI, "waitress": WAITRESS}


def answer(word: str, names: dict[str, str]) -> str:
    """Return the hint for an option that is not ours, be it a flag, a key or a keyword; "" if no table has it. names:
    setting -> the form in which the user would write it.
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
    """Return an option without dashes, as flags, keys and keywords have it in common; a short flag stays as it is."""
    return word if len(word) == 2 and word[0] == "-" else word.lstrip("-").replace("-", "_").lower()
