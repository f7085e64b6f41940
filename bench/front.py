"""A real lighttpd or nginx before some servers, and a real nginx beside them: configuration, start and end.

mod_proxy opens a connection to a backend for each request and closes it afterwards. It tries the next backend where one
refuses, and leaves the refusing one alone for `disable-time` seconds (default 1); a request that was sent it does not
send again. All of that is so without a word in its configuration.

nginx is one process, and stands where the servers do. It sends files; or it gives requests to backends in turn, each on
a connection of its own by HTTP/1.0, as it does without a word in its configuration.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from bench.client import Failure, Missing, Unable, connect
from bench.launch import ENDS_WITH_US, READY, STOP, Running, Setting, Where, free_port, last_line, pinned

PLACES = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
CONFIGURATION = """\
server.modules = ( "mod_proxy" )
server.document-root = "{directory}"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{directory}/lighttpd.log"
server.max-fds = 8192
server.max-keep-alive-requests = 65535
proxy.server = ( "" => (
{backends}
) )
{more}
"""
NGINX = """\
daemon off;
master_process off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {log};
events {{ worker_connections {connections}; }}
http {{
    access_log off;
    sendfile on;
    types {{ text/plain txt; }}
    keepalive_requests 1000000000;
    client_body_temp_path {directory}/nginx-body;
    proxy_temp_path {directory}/nginx-proxy;
    fastcgi_temp_path {directory}/nginx-fastcgi;
    uwsgi_temp_path {directory}/nginx-uwsgi;
    scgi_temp_path {directory}/nginx-scgi;
    {serving}
}}
"""
CONNECTIONS = 512, 4096  # that nginx takes by default, and before backends, where each client needs two


def program(name: str = "lighttpd") -> str:
    """The path of a program; raises Missing where there is none."""
    found = shutil.which(name, path=PLACES)
    if found is None:
        raise Missing(name, f"apt-get install {name}")
    return found


def backend(where: Where) -> str:
    """A backend at this port of 127.0.0.1, or at this path of a unix socket, as a line of the configuration."""
    return f'( "socket" => "{where}" )' if isinstance(where, str) else f'( "host" => "127.0.0.1", "port" => {where} )'


@contextlib.contextmanager
def lighttpd(backends: Sequence[Where], setting: Setting, core: int, more: str = "") -> Iterator[Running]:
    """lighttpd, on one core, before these backends; ready when it accepts. more: further lines of configuration."""
    port = free_port()
    lines = ",\n".join(f"    {backend(where)}" for where in backends)
    configuration = setting.work / "lighttpd.conf"
    configuration.write_text(CONFIGURATION.format(directory=setting.work, port=port, backends=lines, more=more))
    with _running([program(), "-D", "-f", str(configuration)], port, {core}) as run:
        yield run


@contextlib.contextmanager
def nginx(root: Path, setting: Setting) -> Iterator[Running]:
    """nginx, on the core of the servers, for the files of a directory; ready when it accepts."""
    port = free_port()
    serving = f"server {{ listen 127.0.0.1:{port}; root {root}; }}"
    with _nginx(port, setting, serving, "stderr", CONNECTIONS[0]) as run:
        yield run


@contextlib.contextmanager
def nginx_before(backends: Sequence[int], setting: Setting) -> Iterator[Running]:
    """nginx, on the core of the servers, before backends at these ports; ready when it accepts.

    Raises Failure at the end if nginx has logged an error, which no client need have seen: nginx asks the next backend.
    """
    port, log = free_port(), setting.work / "nginx-errors.log"
    log.unlink(missing_ok=True)
    places = " ".join(f"server 127.0.0.1:{each};" for each in backends)
    serving = (
        f"upstream backends {{ {places} }}\n"
        f"    server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://backends; }} }}"
    )
    with _nginx(port, setting, serving, str(log), CONNECTIONS[1]) as run:
        try:
            yield run
        except (Missing, Unable):
            raise
        except Failure as failure:
            raise Failure(f"{failure}; nginx: {last_line(log.read_bytes()) or 'no errors'}") from failure
        if told := last_line(log.read_bytes()):
            raise Failure(f"nginx has logged: {told}")


@contextlib.contextmanager
def _nginx(port: int, setting: Setting, serving: str, log: str, connections: int) -> Iterator[Running]:
    configuration = setting.work / "nginx.conf"
    configuration.write_text(NGINX.format(directory=setting.work, serving=serving, log=log, connections=connections))
    command = [program("nginx"), "-p", str(setting.work), "-e", "stderr", "-c", str(configuration)]
    with _running(command, port, setting.cores) as run:
        yield run


@contextlib.contextmanager
def _running(command: list[str], port: int, cores: Collection[int]) -> Iterator[Running]:
    with pinned(cores):
        process = subprocess.Popen(
            [*ENDS_WITH_US, *command], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
    try:
        _wait(process, port)
        yield Running(process, port)
    finally:
        process.kill()
        process.communicate(timeout=STOP)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline, name = time.monotonic() + READY, process.args[len(ENDS_WITH_US)]
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure(f"{name} ended: {last_line(process.communicate()[1])}")
        with contextlib.suppress(OSError):
            connect(port).close()
            return
        time.sleep(0.02)
    raise Failure(f"{name} does not accept")
