"""A real lighttpd before some servers: its configuration, start and end.

mod_proxy opens a connection to a backend for each request and closes it afterwards. It tries the next backend where one
refuses, and leaves the refusing one alone for `disable-time` seconds (default 1); a request that was sent it does not
send again. All of that is so without a word in its configuration.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence

from bench.client import Failure, connect
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


def program() -> str:
    """The path of lighttpd; raises Failure where there is none."""
    found = shutil.which("lighttpd", path=PLACES)
    if found is None:
        raise Failure("lighttpd is not installed: apt-get install lighttpd")
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
    with pinned({core}):
        process = subprocess.Popen(
            [*ENDS_WITH_US, program(), "-D", "-f", str(configuration)], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    try:
        _wait(process, port)
        yield Running(process, port)
    finally:
        process.kill()
        process.communicate(timeout=STOP)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + READY
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Failure(f"lighttpd ended: {last_line(process.communicate()[1])}")
        with contextlib.suppress(OSError):
            connect(port).close()
            return
        time.sleep(0.02)
    raise Failure("lighttpd does not accept")
