"""Options of other WSGI servers, and for each of them our setting, or a sentence about what replaces it.

Knows names only. The hints for an unknown option and for a file of another server, after which it is imported, and the
tables of docs/coming-from.md are derived from it.
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
PASTE = "write a module that calls paste.deploy.loadapp, and give it as APP"
CHEAPER = "set processes = 2..8 for a number by load"
LIMITS = "set MemoryMax=, LimitNPROC=, LimitNOFILE=, CPUAffinity= or RootDirectory= in the unit of systemd"
LINES = "each line of the access log has time, status and client; with forwarded, the client of the front server"
OUTPUT = "poorhttp start sends standard output and standard error to the error log"
SYSLOG = "set errorlog = |logger -t poorhttp"
NAMES = "processes keep their command line as their name"
STATISTICS = "Prometheus can read status_path"
SENDFILE = "the kernel sends files if it can"
BUFFERS = "there is no setting for buffers"
UNITS = "a unit of systemd runs other programs: ExecStartPre=, ExecStartPost=, ExecStopPost="
FORKED = "the application calls os.register_at_fork while it is loaded"
ENDED = "the application calls atexit.register"
MIDDLEWARE = "a WSGI middleware around the application, or the front server"
LOGROTATE = "rename the logs, then poorhttp logrotate -c FILE"
RELOADS = "poorhttp reload -c FILE reloads, as HUP does; poorhttp dev reloads after each save"
PREFIXED = "list x-forwarded-prefix in forwarded, and let the front server set that field"
SCHEME = "list x-forwarded-proto in forwarded, and let the front server set that field"
FILES = "`document` of a dispatch table, or the front server"
HTTP1 = "poorhttp speaks HTTP/1.1; the front server speaks HTTP/2 with clients"
LEAVING = "a client that leaves closes its connection, and is no error of the application"

GUNICORN = {
    "-c, --config": "give an ini file as -c FILE; no file is read unless it is named",
    "--check-config": "--check-config loads the application too",
    "--print-config": "--print-config shows where each value comes from",
    "wsgi_app": "give it as APP: poorhttp module:name",
    "-b, --bind": "bind",
    "-w, --workers": "processes",
    "-k, --worker-class": GREENLETS,
    "--threads": "threads",
    "--worker-connections": "max_connections",
    "-t, --timeout": "request_timeout",
    "--graceful-timeout": "graceful_timeout",
    "--keep-alive, keepalive": "keepalive_timeout",
    "--max-requests": "max_requests",
    "--max-requests-jitter": "max_requests_jitter",
    "--backlog": "backlog",
    "--reuse-port": "reuse_port",
    "--preload, preload_app": "preload",
    "--chdir": "chdir",
    "--pythonpath": PATH,
    "-e, --env, raw_env": ENVIRON,
    "-D, --daemon": BACKGROUND,
    "-p, --pid, pidfile": "pidfile",
    "-u, --user": "user",
    "-g, --group": "group",
    "-m, --umask": UMASK,
    "--initgroups": "user sets the groups of that user too",
    "-n, --name, proc_name, default_proc_name": NAMES,
    "--access-logfile, accesslog": "accesslog",
    "--access-logformat, access_log_format": "accesslog_format",
    "--error-logfile, --log-file, errorlog": "errorlog",
    "--log-level, loglevel": "log_level",
    "--capture-output, -R, --enable-stdio-inheritance": OUTPUT,
    "--log-config, --log-config-json, --logger-class": "the application configures its own logs",
    "logconfig, logconfig_dict, logconfig_json": "the application configures its own logs",
    "--log-syslog, --log-syslog-to, --log-syslog-prefix, --log-syslog-facility": SYSLOG,
    "--disable-redirect-access-to-syslog, syslog, syslog_addr, syslog_prefix, syslog_facility": SYSLOG,
    "--statsd-host, --statsd-prefix, --dogstatsd-tags, --enable-backlog-metric": STATISTICS,
    "--spew": "poorhttp status names the calls that last; the error log has the stack of a call that is late",
    "--limit-request-line": "max_request_line",
    "--limit-request-fields": "max_fields",
    "--limit-request-field_size": "max_head",
    "--forwarded-allow-ips, --proxy-allow-from, proxy_allow_ips": "trusted_proxies",
    "--forwarder-headers": "forwarded",
    "secure_scheme_headers": SCHEME,
    "--root-path": PREFIXED,
    "--proxy-protocol": "proxy_protocol",
    "--header-map": "header fields with an underscore in their name never reach the application",
    "--permit-obsolete-folding, --permit-unconventional-http-method, --permit-unconventional-http-version": STRICT,
    "--strip-header-spaces, --casefold-http-method, --http-parser": STRICT,
    "--protocol, --uwsgi-allow-from, uwsgi_allow_ips": HTTP,
    "--certfile, --keyfile, --ca-certs, --ciphers, --cert-reqs, --ssl-version": TLS,
    "--do-handshake-on-connect, --suppress-ragged-eofs, ssl_context": TLS,
    "--http-protocols, --http2-cleartext, --http2-max-concurrent-streams": HTTP1,
    "--http2-initial-window-size, --http2-max-frame-size, --http2-max-header-list-size": HTTP1,
    "--asgi-loop, --asgi-lifespan, --asgi-disconnect-grace-period": "poorhttp serves WSGI, and no ASGI",
    "--websocket-max-message-size": "poorhttp serves WSGI, and no WebSockets",
    "--reload": "autoreload",
    "--reload-extra-file, reload_extra_files": "autoreload watches each file that the application has opened",
    "--reload-engine": "autoreload uses inotify if that works",
    "--paste, --paster, --paste-global, raw_paste_global_conf": PASTE,
    "--no-sendfile, sendfile": SENDFILE,
    "--worker-tmp-dir": "workers report by a pipe, and need no directory",
    "tmp_upload_dir": "large bodies go to the directory that the variable TMPDIR names",
    "--control-socket": "control_socket",
    "--no-control-socket, control_socket_disable": "there is no control socket unless control_socket is set",
    "--control-socket-mode": "the control socket is for the user of the server and for root",
    "on_starting, when_ready, on_reload, nworkers_changed, pre_exec, on_exit": UNITS,
    "pre_fork, post_fork, post_worker_init": FORKED,
    "worker_int, worker_exit": ENDED,
    "worker_abort": "poorhttp.RequestTimeout is raised in a call that is late",
    "child_exit": "child_exit",
    "pre_request, post_request": MIDDLEWARE,
    "--dirty-app, --dirty-workers, --dirty-timeout, --dirty-threads, --dirty-graceful-timeout": TASKS,
    "dirty_apps, on_dirty_starting, dirty_post_fork, dirty_worker_init, dirty_worker_exit": TASKS,
}

UWSGI = {
    "--http, --http-socket, --http11-socket": "bind",
    "-s, --socket, --uwsgi-socket, --fastcgi-socket, --scgi-socket, --protocol, --socket-protocol": HTTP,
    "--https": TLS,
    "--http-chunked-input, --http-auto-chunked": "chunked bodies are read and written without a setting",
    "--enable-proxy-protocol, --http-enable-proxy-protocol": "proxy_protocol",
    "--wsgi-file, --file": "give the file as APP: poorhttp file.py",
    "-w, --module, --wsgi": "give the module as APP: poorhttp module",
    "--callable": "write it after the module or the file: poorhttp module:name",
    "--mount, --manage-script-name": "forwarded = x-forwarded-prefix sets SCRIPT_NAME; a server has one application",
    "--paste, --ini-paste, --pecan": PASTE,
    "--ini": "give an ini file with the settings of poorhttp as -c FILE",
    "--xml, --yaml": "write the settings of poorhttp into an ini file, and give it as -c FILE",
    "[uwsgi]": "write the settings of poorhttp into the section [http]",
    "--strict": "an unknown setting is always refused",
    "--show-config": "--print-config shows each value and where it comes from",
    "-M, --master": "type = forking has a supervisor",
    "--no-orphans": "workers always end with their supervisor",
    "--thunder-lock": "a client wakes one worker, without a lock",
    "--processes, --workers": "processes",
    "-p": "set processes; -p is pidfile here",
    "--cheaper, --cheaper-initial, --cheaper-step, --cheaper-algo, --cheap, --idle": CHEAPER,
    "--threads": "threads",
    "-T, --enable-threads": "threads of the application always run",
    "--thread-stacksize": "threads have the stack that ulimit -s allows",
    "--gevent, --gevent-monkey-patch, --async, --loop": GREENLETS,
    "--asyncio, --greenlet": GREENLETS,
    "--lazy-apps, --lazy": "--preload=no loads the application in each worker",
    "--need-app": "the start always fails if the application cannot be loaded",
    "-i, --single-interpreter": "a process always has one interpreter",
    "--import, --python-import, --shared-import": "the module of the application imports it",
    "--py-call-osafterfork": "functions of os.register_at_fork are always called",
    "-t, --harakiri": "request_timeout",
    "--harakiri-verbose, --py-tracebacker": "the error log has the stack of a call that is late",
    "--log-slow": "slow_request",
    "-z, --socket-timeout, --http-timeout": "body_timeout while a client sends, write_timeout while it receives",
    "--http-keepalive": "keepalive_timeout",
    "--worker-reload-mercy, --reload-mercy": "graceful_timeout",
    "-l, --listen": "backlog",
    "--reuse-port": "reuse_port",
    "--buffer-size": "max_head",
    "-b": "set max_head; -b is bind here",
    "--limit-post": "max_body",
    "--post-buffering": "body_memory",
    "--chunked-input-limit": "max_body holds for chunked bodies too",
    "--post-buffering-bufsize": BUFFERS,
    "-v, --max-vars": "set max_fields; -v is version here",
    "--ignore-sigpipe, --ignore-write-errors, --disable-write-exception": LEAVING,
    "-R, --max-requests": "max_requests",
    "--max-worker-lifetime, --max-worker-lifetime-delta": "max_requests and memory replace workers",
    "--max-requests-delta": "max_requests_jitter",
    "--reload-on-rss, --reload-on-as, --evil-reload-on-rss, --evil-reload-on-as": "memory",
    "--chdir, --chdir2": "chdir",
    "--limit-as, --limit-nproc, --max-fd, --cpu-affinity, --chroot": LIMITS,
    "-m, --memory-report": "poorhttp status shows the memory",
    "--pythonpath, --python-path, --pp": PATH,
    "-H, --home, --virtualenv, --venv": "start the poorhttp of that environment: VENV/bin/poorhttp",
    "--env": ENVIRON,
    "--plugin, --plugins": "poorhttp serves Python only, and needs no plugin",
    "-O, --optimize": "set the variable PYTHONOPTIMIZE where poorhttp is started",
    "--uid": "user",
    "--gid": "group",
    "--add-gid, --no-initgroups": "user sets the groups of that user too",
    "--umask": UMASK,
    "-C, --chmod-socket, --chmod": "socket_mode",
    "--chown-socket": "socket_owner",
    "--pidfile, --safe-pidfile": "pidfile",
    "--daemonize": BACKGROUND,
    "-d": f"{BACKGROUND}; -d is debug here",
    "--stop": "poorhttp stop -c FILE stops the server of its pidfile",
    "--reload": "poorhttp reload -c FILE reloads the server of its pidfile; --reload is autoreload here",
    "--touch-reload, --touch-workers-reload, --touch-chain-reload, --fs-reload, --master-fifo": RELOADS,
    "--py-autoreload, --python-autoreload": "autoreload",
    "--die-on-term": "TERM always stops the server",
    "--vacuum": "a stop always removes unix sockets and the pidfile",
    "--logto": "errorlog",
    "--logger, --req-logger": "set errorlog or accesslog to |program",
    "--log-syslog": SYSLOG,
    "--log-format, --logformat": "accesslog_format",
    "--log-date, --logdate, --log-4xx, --log-5xx, --log-x-forwarded-for": LINES,
    "--log-master": "workers write whole lines into one log",
    "--log-maxsize, --log-backupname, --log-reopen, --touch-logrotate, --touch-logreopen": LOGROTATE,
    "-L, --disable-logging": "requests are logged only if accesslog is set",
    "--stats, --stats-server": "status_path",
    "--stats-http, --stats-push, --carbon, --enable-metrics": STATISTICS,
    "--auto-procname, --procname, --procname-prefix, --procname-prefix-spaced, --procname-master": NAMES,
    "--static-map, --static-map2, --static-index, --static-safe, --check-static": FILES,
    "--static-gzip-all, --static-expires, --mime-file": FILES,
    "--offload-threads, --disable-sendfile": SENDFILE,
    "--route, --route-run, --add-header, --http-auto-gzip": MIDDLEWARE,
    "--catch-exceptions": "debug",
    "--cache2, --sharedarea, --queue": "poorhttp.cache is a cache that processes share",
    "--exec-asap, --exec-pre-app, --hook-asap, --hook-as-root": UNITS,
    "--hook-post-fork": FORKED,
    "--attach-daemon, --attach-daemon2, --smart-attach-daemon": "a program of its own gets a unit of its own",
    "--emperor": "write a service for each application, as in examples/poorhttp.service",
    "--spooler, --mule, --cron": TASKS,
}

WAITRESS = {
    "--listen": "bind",
    "--host": "address",
    "--port": "port",
    "--unix-socket, sockets": "bind",
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
    "--log-untrusted-proxy-headers": "fields of other clients are removed without a line in the log",
    "--url-scheme": SCHEME,
    "--url-prefix": PREFIXED,
    "--server-name": "SERVER_NAME is the host that the client asked for",
    "--ident": "server_header",
    "--expose-tracebacks": "debug",
    "--log-socket-errors": LEAVING,
    "--channel-request-lookahead": "a call goes on if its client leaves",
    "--recv-bytes, --send-bytes, --outbuf-overflow, --outbuf-high-watermark": BUFFERS,
    "--cleanup-interval, --asyncore-loop-timeout, --asyncore-use-poll": "there is no setting for the event loop",
}

VALUES = {
    ("type", "sync"): "set type to single or forking",
    **{("type", each): GREENLETS for each in ("gevent", "eventlet", "tornado", "gevent_wsgi", "gevent_pywsgi")},
}
"""(setting, value) of another server -> what to write."""

MORE = {
    "--ssl-cert, --ssl-key, --ssl-certfile, --ssl-keyfile, --ssl-certificate": TLS,
    "--logfile": "errorlog",
    "[app:main], [pipeline:main], [composite:main]": PASTE,
    "[server:main]": "write the settings of poorhttp into the section [http] of a file of its own",
}
"""Options of several other servers, which the page leaves out."""

NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

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


def explained(text: str, server: str) -> str:
    """Return a line for each setting in a configuration of another server: its name there, and what it is here. Lines
    without a name of that server are left out.
    """
    meant = {_plain(option): ours for options, ours in SERVERS[server].items() for option in options.split(", ")}
    found = {}
    for line in (each.removeprefix("def ") for each in text.split("\n")):
        name = line[: len(line) - len(line.lstrip(NAME_CHARACTERS))]
        if line[len(name) :].lstrip()[:1] in ("=", "(") and _plain(name) in meant:
            found[name] = meant[_plain(name)]
    return "\n".join(f"{name}: {ours if ' ' in ours else f'set {ours}'}" for name, ours in found.items())


def _found(word: str, table: dict[str, str]) -> list[str]:
    return [ours for options, ours in table.items() if _plain(word) in map(_plain, options.split(", "))]


def _plain(word: str) -> str:
    """Return an option without dashes, as flags, keys and keywords have it in common; a short flag stays as it is."""
    return word if len(word) == 2 and word[0] == "-" else word.lstrip("-").replace("-", "_").lower()
