"""Real front servers for tests: lighttpd, HAProxy and nginx before some backends, with the least that they must be told.

Knows their configuration and how they are started and ended; knows nothing of poorhttp. Contract: a front that was
entered accepts connections, and is gone when it is left.
"""

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from starter import wait_for

PLACES = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"

LIGHTTPD = """
server.modules = ( "mod_proxy" )
server.document-root = "{directory}"
server.errorlog = "{directory}/lighttpd.log"
server.bind = "127.0.0.1"
server.port = {port}
proxy.balance = "least-connection"
proxy.server = ( "" => ( {backends} ) )
"""

# redispatch 1: the next try is for another server, at once. Without retry-on, only what could not connect is tried again.
HAPROXY = """
defaults
    mode http
    timeout connect 1s
    timeout client 30s
    timeout server 30s
    option http-server-close
    retries 3
    option redispatch 1
    retry-on conn-failure empty-response
    default-server check inter 500ms fall 1 rise 1
listen front
    bind 127.0.0.1:{port}
    http-request disable-l7-retry if !METH_GET
    balance leastconn
    {backends}
"""

# nginx tries the next one by itself, after what was sent too, unless the method is POST or the like.
NGINX = """
{user}
daemon off;
pid {directory}/nginx.pid;
error_log {directory}/nginx.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {directory};
    proxy_temp_path {directory};
    fastcgi_temp_path {directory};
    uwsgi_temp_path {directory};
    scgi_temp_path {directory};
    upstream backends {{ least_conn; {backends} }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://backends; }}
    }}
}}
"""


@dataclass(frozen=True)
class Front:
    name: str
    package: str
    configuration: str
    backend: Callable[[int], str]
    separator: str
    command: Callable[[str, Path], list[str]]
    repeats: bool  # whether it sends a GET to another backend when one dies with it

    def program(self) -> str | None:
        return shutil.which(self.name, path=PLACES)

    @contextlib.contextmanager
    def before(self, ports: Sequence[int], directory: Path) -> Iterator[int]:
        """The port of this front before backends at these ports."""
        port = free_port()
        lines = self.separator.join(self.backend(each) for each in ports)
        file = directory / f"{self.name}.conf"
        user = "user root;" if Path("/proc/self").owner() == "root" else ""
        file.write_text(self.configuration.format(directory=directory, port=port, backends=lines, user=user))
        program = self.program()
        assert program
        with (directory / f"{self.name}.out").open("wb") as output:
            process = subprocess.Popen(self.command(program, file), stdout=output, stderr=output)
        try:
            wait_for(lambda: accepts(port) or process.poll() is not None, f"{self.name} to accept")
            assert process.poll() is None, (directory / f"{self.name}.out").read_text()
            yield port
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


FRONTS = (
    Front(
        "lighttpd",
        "lighttpd",
        LIGHTTPD,
        lambda port: f'( "host" => "127.0.0.1", "port" => {port} )',
        ", ",
        lambda program, file: [program, "-D", "-f", str(file)],
        repeats=False,
    ),
    Front(
        "haproxy",
        "haproxy",
        HAPROXY,
        lambda port: f"server s{port} 127.0.0.1:{port}",
        "\n    ",
        lambda program, file: [program, "-db", "-f", str(file)],
        repeats=True,
    ),
    Front(
        "nginx",
        "nginx-light",
        NGINX,
        lambda port: f"server 127.0.0.1:{port} max_fails=1 fail_timeout=1s;",
        " ",
        lambda program, file: [program, "-p", str(file.parent), "-c", str(file)],
        repeats=True,
    ),
)
