"""The servers that are measured: each one's command line and how it tells its version. Data only.

A command is a list of arguments with these names filled in: {poorhttp} (the program beside the interpreter given by
--python), {python} (that of bench/.venv-peers, for the others), {port}, {module} and {name} of the application, {spec}
(what poorhttp is given: module:name, or the directory of the examples), {threads}, {pool} (threads for the application
besides that of the loop: none where one thread is to do all), {bare} (the compiled loop), {body}
(a file with the answer), {processes}, {request_body} (bytes), {mode} (keep or close).
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Server:
    name: str
    command: tuple[str, ...]
    version: tuple[str, ...]
    note: str  # what a fair reader should know of the command line
    unix: tuple[str, str] | None = None  # what of the command names an address -> what names {socket} instead


SCHEME = ("127.0.0.1:{port}", "unix:{socket}")


def poorhttp(name: str, *options: str, note: str) -> Server:
    command = ("{poorhttp}", "{spec}", "--bind", "127.0.0.1:{port}", *options)
    return Server(name, command, ("{python}", "-m", "poorhttp", "--version"), note, SCHEME)


def peer(name: str, package: str, *arguments: str, note: str, unix: tuple[str, str] | None = None) -> Server:
    version = f"from importlib.metadata import version; print({package!r}, version({package!r}))"
    return Server(name, ("{python}", *arguments), ("{python}", "-c", version), note, unix)


# fmt: off
IMPORT = "from {module} import {name} as app; "
GUNICORN = ("-m", "gunicorn", "--bind", "127.0.0.1:{port}", "--workers", "{processes}", "--backlog", "2048",
            "--keep-alive", "15", "--no-control-socket", "--log-level", "warning")

ALL = (
    Server("bare", ("{bare}", "{port}", "{body}", "{request_body}", "{mode}"), ("cc", "--version"),
           "the limit: one thread, a fixed answer, no parsing"),
    poorhttp("single", "--type", "single", note="defaults"),
    poorhttp("threading", "--type", "threading", "--threads", "{threads}", note="defaults"),
    poorhttp("forking", "--type", "forking", "--processes", "4", note="defaults"),
    peer("bjoern", "bjoern", "-c", IMPORT + "import bjoern; bjoern.run(app, '127.0.0.1', {port})",
         note="has no settings; one thread only; no access log", unix=("'127.0.0.1', {port}", "'unix:{socket}'")),
    peer("fastwsgi", "fastwsgi", "-c",
         IMPORT + "import fastwsgi; fastwsgi.run(wsgi_app=app, host='127.0.0.1', port={port}, loglevel=0)",
         note="one thread only; logging off"),
    peer("granian", "granian", "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", "{port}",
         "--workers", "{processes}", "--runtime-threads", "1", "--blocking-threads", "{threads}", "--http", "1",
         "--no-ws", "--backlog", "2048", "--log-level", "warning", "{module}:{name}",
         note="HTTP/1 only and no websockets, which spares it a protocol detection; always a supervisor beside"),
    peer("waitress", "waitress", "-m", "waitress", "--listen=127.0.0.1:{port}", "--threads={threads}",
         "--backlog=2048", "--connection-limit=16384", "{module}:{name}",
         note="limits raised so that it never refuses; no access log",
         unix=("--listen=127.0.0.1:{port}", "--unix-socket={socket}")),
    peer("cheroot", "cheroot", "-c",
         IMPORT + "from cheroot.wsgi import Server; s = Server(('127.0.0.1', {port}), app, numthreads={threads}, "
         "request_queue_size=2048); s.keep_alive_conn_limit = 16384; s.start()",
         note="keeps only 10 idle connections by default, here 16384"),
    peer("gunicorn", "gunicorn", *GUNICORN, "--worker-class", "sync", "{module}:{name}",
         note="sync worker: closes each connection; always a supervisor beside; control socket off", unix=SCHEME),
    peer("gthread", "gunicorn", *GUNICORN, "--worker-class", "gthread", "--threads", "{threads}", "{module}:{name}",
         note="gunicorn's threaded worker; always a supervisor beside; control socket off; keep-alive 15 s, not 2 s"),
    peer("pyuwsgi", "pyuwsgi", "-c", "import pyuwsgi, sys; pyuwsgi.run(sys.argv[1:])", "--http-socket",
         "127.0.0.1:{port}", "--module", "{module}:{name}", "--threads", "{threads}", "--enable-threads",
         "--listen", "2048", "--need-app", "--die-on-term", "--disable-logging", "--single-interpreter",
         "--add-header", "Connection: close",
         note="HTTP parser in the worker, no router process; closes each connection, here announced (its "
              "--http11-socket keeps them, but serves one to its end while the others wait); request log off",
         unix=("127.0.0.1:{port}", "{socket}")),
    peer("peregrine", "peregrine-server", "-m", "peregrine", "--port", "{port}", "--protocol", "wsgi", "--no-auto-venv",
         "--no-http2", "--no-websockets", "--log-level", "warning", "--wsgi-threads", "{threads}", "{module}:{name}",
         note="HTTP/1 only; no access log"),
    peer("freastal", "freastal", "-c", IMPORT + "import freastal; freastal.serve(app, '127.0.0.1', {port})",
         note="one thread only; no access log"),
    peer("fastpysgi", "fastpysgi", "-c",
         IMPORT + "import fastpysgi; fastpysgi.run(app, host='127.0.0.1', port={port}, loglevel=0)",
         note="successor of fastwsgi; one thread only; logging off"),
    peer("weft", "weft-server", "-m", "weft", "--port", "{port}", "--protocol", "wsgi", "--no-auto-venv",
         "--no-http2", "--no-websockets", "--log-level", "warning", "--wsgi-threads", "{pool}", "{module}:{name}",
         note="HTTP/1 only; no access log; its wheel for CPython 3.11 cannot be imported"),
    peer("m0serve", "m0serve", "-m", "m0serve", "--host", "127.0.0.1", "--port", "{port}", "--protocol", "wsgi",
         "--workers", "1", "--blocking-threads", "{pool}", "--max-keepalive-requests", "0", "{module}:{name}",
         note="keeps connections for any number of requests, not 1000; no access log"),
)

UWSGI = peer(
    "uwsgi", "pyuwsgi", "-c", "import pyuwsgi, sys; pyuwsgi.run(sys.argv[1:])", "--http-socket", "127.0.0.1:{port}",
    "--module", "{module}:{name}", "--binary-path", "{python}", "--master", "--processes",
    "{processes}", "--listen", "2048", "--need-app",
    "--hook-master-start", "unix_signal:15 gracefully_kill_them_all", "--disable-logging", "--single-interpreter",
    "--add-header", "Connection: close",
    note="as pyuwsgi, with a master and processes; TERM is told to be graceful, which it is not by itself",
)

OURS = ("single", "threading", "forking")
SERVERS = {server.name: server for server in (*ALL, UWSGI)}
BEFORE = {f"{name}-before": replace(SERVERS[name], name=f"{name}-before", note="defaults, of the build to compare with")
          for name in OURS}  # the same of another build of poorhttp, which --before names
SERVERS |= BEFORE
RELOADING = {
    **{name: Server(name, ("{poorhttp}", "dev", "{module}.py", "--port", "{port}", "--type", name),
                    SERVERS[name].version, "defaults of dev") for name in OURS},
    **{name: replace(SERVERS[name], command=(*SERVERS[name].command, "--reload")) for name in ("gunicorn", "granian")},
    "flask-run": peer("flask-run", "flask", "-m", "flask", "--app", "{module}:{name}", "run", "--debug", "--port",
                      "{port}",
                      note="looks at all files each second, for watchdog is not installed; the debugger is on"),
    "runserver": peer("runserver", "django", "-m", "django", "runserver", "127.0.0.1:{port}", "--pythonpath", ".",
                      "--settings", "settings",
                      note="looks at all files each second, for pywatchman is not installed"),
    "watchfiles": peer("watchfiles", "watchfiles", "-m", "watchfiles", "--filter", "python",
                       "{python} -m waitress --listen=127.0.0.1:{port} --threads={threads} {module}:{name}", ".",
                       note="starts waitress anew"),
}  # what reloads when a file is saved, with the options that make it do so
# fmt: on
THREADED = ("threading", "gthread")
