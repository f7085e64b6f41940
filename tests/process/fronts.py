"""Real front servers for tests: lighttpd, nginx and HAProxy with the configurations that poorhttp prints for them.

Knows how they are started and ended, and what of a printed text cannot be as it is in a test: port, user and files.
Contract: a front that was entered listens, and is gone with its processes when it is left.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from starter import ROOT, wait_for

sys.path.insert(0, str(ROOT))

from bench.launch import free_port

PLACES = "/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin"
PORTS = {"lighttpd": "server.port = 80", "nginx": "listen 80;", "haproxy": "bind :80"}


def program(name: str) -> str:
    path = shutil.which(name, path=PLACES)
    if path is None:
        pytest.skip(f"{name} is not installed: apt-get install {name}")
    return path


def listens(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        return probe.connect_ex((host.strip("[]"), port)) == 0


def printed(name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "poorhttp", f"--print-{name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout


def placed(name: str, text: str, port: int, directory: Path, host: str) -> Path:
    """Write a printed configuration for a test: another port, and no files but its own."""
    assert text.count(PORTS[name]) == 1
    moved = {
        "lighttpd": f'server.bind = "{host}"\nserver.port = {port}',
        "nginx": f"listen {host}:{port};",
        "haproxy": f"bind {host}:{port}",
    }
    text = text.replace(PORTS[name], moved[name])
    if name == "nginx":
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        own = "".join(f"    {kind}_temp_path {directory}/{kind};\n" for kind in kinds)
        text = text.replace("http {\n", f"http {{\n    access_log off;\n{own}", 1)
        user = "user root;\n" if os.getuid() == 0 else ""  # else its workers cannot reach the test's directory
        text = f"{user}pid {directory}/nginx.pid;\nerror_log {directory}/nginx.log;\ndaemon off;\n{text}"
    file = directory / f"{name}.conf"
    file.write_text(text)
    return file


def check(name: str, file: Path) -> None:
    flags = {"lighttpd": ["-tt", "-f"], "nginx": ["-t", "-e", "stderr", "-c"], "haproxy": ["-c", "-f"]}[name]
    done = subprocess.run([program(name), *flags, str(file)], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[warn" not in done.stderr.lower(), done.stderr


@contextlib.contextmanager
def running(name: str, command: list[str], output: Path, host: str, port: int, patience: float) -> Iterator[None]:
    """A server that listens there, run in the directory of its output. patience: seconds that its end may take."""
    with output.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=output.parent)
    try:
        wait_for(lambda: listens(host, port) or process.poll() is not None, f"{name} to listen")
        assert process.poll() is None, output.read_text()
        yield
    finally:
        workers = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        process.wait(patience)
        psutil.wait_procs(workers, 10)
        assert not [worker for worker in workers if worker.is_running()]


@contextlib.contextmanager
def before(name: str, text: str, directory: Path, host: str = "127.0.0.1") -> Iterator[int]:
    """The port of this front with this printed configuration."""
    port = free_port()
    file = placed(name, text, port, directory, host)
    check(name, file)
    flags = {"lighttpd": ["-D", "-f"], "nginx": ["-e", "stderr", "-c"], "haproxy": ["-db", "-f"]}[name]
    with running(name, [program(name), *flags, str(file)], directory / "front.log", host, port, patience=10):
        yield port
