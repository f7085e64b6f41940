"""Modules of the application that are named like those of Python: the server needs none of them."""

import http.client
import json
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from starter import PATIENCE, Server, Start, wait_for

pytestmark = pytest.mark.timeout(120)

APPLICATION = """
import os

VERSION = 1


def application(environ, start_response):
    if environ["PATH_INFO"] == "/fail":
        raise ValueError("failed as asked")
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{VERSION} {os.getpid()}".encode()]
"""

NAMED = """
import fcntl, html, json, queue, random, re, select, socket, subprocess, threading, token, traceback

WHO = [getattr(each, "WHO", "Python's") for each in (html, json, queue, random, re, select, socket, subprocess, token)]


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [" ".join(WHO).encode()]
"""


def loaded_by_python() -> set[str]:
    """The modules that `python -m` has imported before those of the program, in this environment."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "told.py").write_text("import sys\nprint(*sys.modules)\n")
        told = subprocess.run(
            [sys.executable, "-m", "told"], cwd=directory, capture_output=True, text=True, check=True, timeout=PATIENCE
        )
    return {name.partition(".")[0] for name in told.stdout.split()}


def shadow_all(directory: Path) -> None:
    """Write a module of each name that the standard library has, which cannot be imported."""
    # From 3.13 on Python itself imports these when it formats a traceback, wherever it finds them then.
    spared = {"__future__", "ast", "tokenize"} if sys.version_info >= (3, 13) else {"__future__"}
    names = sys.stdlib_module_names.difference(sys.builtin_module_names, loaded_by_python(), spared)
    assert {"json", "subprocess", "select", "html"} <= names
    for name in names:
        (directory / f"{name}.py").write_text(f"raise SystemError('{name} of the application')\n")


def ask(port: int, path: str, accept: str = "*/*") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", path, headers={"Accept": accept})
    answer = connection.getresponse()
    told = answer.status, answer.read().decode()
    connection.close()
    return told


def look_everywhere(server: Server) -> None:
    """Ask for a page, for one that fails, and for what the server does in each form."""
    assert ask(server.port, "/")[0] == 200
    assert ask(server.port, "/fail")[0] == 500
    server.await_text('raise ValueError("failed as asked")')
    assert json.loads(ask(server.port, "/status?json")[1])["requests"] >= 2
    assert "<title>" in ask(server.port, "/status", "text/html")[1]
    assert "poorhttp_requests_total" in ask(server.port, "/status/metrics")[1]


@pytest.mark.parametrize("more", [(), ("--debug",)], ids=["plain", "debug"])
@pytest.mark.parametrize("kind", ["1x1", "1x4", "2x1"])
def test_the_server_imports_none_of_them(start: Start, tmp_path: Path, kind: str, more: tuple[str, ...]) -> None:
    shadow_all(tmp_path)
    server = start(kind, "--status-path=/status", *more, source=APPLICATION)
    look_everywhere(server)
    (tmp_path / "app.py").write_text(APPLICATION.replace("VERSION = 1", "VERSION = 2"))
    server.send(signal.SIGHUP)
    wait_for(lambda: ask(server.port, "/")[1].startswith("2 "), "the new version")
    if kind == "2x1":
        server.await_text("left: exit code 0")
        wait_for(lambda: list(server.states().values()) == ["serving"] * 2, "two workers")
        psutil.Process(min(server.workers())).kill()
        server.await_text("died: killed by SIGKILL")
        wait_for(lambda: list(server.states().values()) == ["serving"] * 2, "two workers again")
    look_everywhere(server)
    assert server.stop() == 0
    assert "of the application" not in server.said and "fault of poorhttp" not in server.said


def test_a_program_under_development_imports_none_of_them(launch: Start, tmp_path: Path) -> None:
    shadow_all(tmp_path)
    (tmp_path / "app.py").write_text(APPLICATION)
    server = launch("dev", "app.py", "--live", "--bind=127.0.0.1:0")
    server.await_address()
    wait_for(lambda: server.get()[1].startswith("1 "), "the application")
    status, page = ask(server.port, "/fail", "text/html")
    assert status == 500 and "failed as asked" in page
    (tmp_path / "app.py").write_text(APPLICATION.replace("VERSION = 1", "VERSION = 2"))
    wait_for(lambda: server.get()[1].startswith("2 "), "the new version")
    assert server.stop() == 0
    assert "of the application" not in server.said and "fault of poorhttp" not in server.said


@pytest.mark.parametrize("more", [(), ("--debug",), ("--type=forking", "--preload=no")], ids=["plain", "debug", "late"])
def test_none_of_those_in_chdir_is_imported(launch: Start, tmp_path: Path, more: tuple[str, ...]) -> None:
    place = tmp_path / "site"
    place.mkdir()
    shadow_all(place)
    (place / "app.py").write_text(APPLICATION)
    server = launch("app.py", "--chdir=site", "--bind=127.0.0.1:0", "--status-path=/status", *more)
    server.await_address()
    look_everywhere(server)
    assert server.stop() == 0
    assert "of the application" not in server.said and "fault of poorhttp" not in server.said


PROGRAM = """
import {imported}
import sys

import poorhttp

if __name__ == "__main__":
    poorhttp.run({named}, {settings} status_path="/status", address="127.0.0.1:0", config="server.ini")
    print([sys.modules[name].WHO for name in "{imported}".split(", ") if name != "app"], sys.path[0])
"""


@pytest.mark.parametrize("settings", ["", "debug=True,", "type='forking',"], ids=["plain", "debug", "forking"])
@pytest.mark.parametrize("named", ["app.application", "'app:application'"])
@pytest.mark.parametrize("imported", ["app", "app, html, json, token"], ids=["not imported", "imported"])
def test_a_program_that_calls_run_imports_none_of_them(
    tmp_path: Path, imported: str, named: str, settings: str
) -> None:
    """And has its own as before while it serves, and afterwards."""
    shadow_all(tmp_path)
    for name in "html", "json", "token":
        (tmp_path / f"{name}.py").write_text("WHO = 'own'\n")
    (tmp_path / "app.py").write_text(APPLICATION)
    (tmp_path / "server.ini").write_text("[http]\nthreads = 1\n")
    (tmp_path / "program.py").write_text(PROGRAM.format(imported=imported, named=named, settings=settings))
    said = tmp_path / "said"
    with (
        said.open("w") as output,
        subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, stdout=output, stderr=output) as program,
    ):
        try:
            address = re.compile(r"http://127\.0\.0\.1:(\d+)/")
            wait_for(lambda: address.search(said.read_text()) or program.poll() is not None, "an address or an end")
            assert program.poll() is None, said.read_text()
            port = int(address.search(said.read_text())[1])  # type: ignore[index]
            assert ask(port, "/")[0] == 200
            assert ask(port, "/fail", "text/html")[0] == 500
            assert json.loads(ask(port, "/status?json")[1])["requests"] >= 2
        finally:
            program.terminate()
            program.wait(PATIENCE)
    assert program.returncode == 0
    assert 'raise ValueError("failed as asked")' in said.read_text()
    assert f"{['own'] * imported.count(',')} {tmp_path}" in said.read_text()


@pytest.mark.parametrize("command", [("--check-config",), ("check",)])
def test_a_check_imports_none_of_them(tmp_path: Path, command: tuple[str, ...]) -> None:
    shadow_all(tmp_path)
    (tmp_path / "app.py").write_text(APPLICATION)
    arguments = [sys.executable, "-m", "poorhttp", *command, "app.py", "--port=0"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stderr


def test_a_fault_at_the_load_is_told_without_them(tmp_path: Path) -> None:
    shadow_all(tmp_path)
    (tmp_path / "app.py").write_text("import missing\n")
    arguments = [sys.executable, "-m", "poorhttp", "app.py", "--port=0"]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 3, done.stderr
    assert "error: app.py:1: ModuleNotFoundError: No module named 'missing'" in done.stderr


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["beside it", "in PYTHONPATH"])
@pytest.mark.parametrize("words", [("app.py",), ("app.py", "--type=forking", "--debug"), ("dev", "app.py")])
def test_the_application_imports_its_own(
    launch: Start, tmp_path: Path, words: tuple[str, ...], is_elsewhere: bool
) -> None:
    """As in a process of its own, in which the interpreter has not imported those of Python before."""
    named = {"html", "json", "queue", "random", "re", "select", "socket", "subprocess", "token"} - loaded_by_python()
    place = tmp_path / "elsewhere" if is_elsewhere else tmp_path
    place.mkdir(exist_ok=True)
    for name in named:
        (place / f"{name}.py").write_text("WHO = 'own'\n")
    (tmp_path / "app.py").write_text(NAMED)
    server = launch(*words, "--bind=127.0.0.1:0", PYTHONPATH=str(place))
    server.await_address()
    wait_for(lambda: server.get()[0] == 200, "the application")
    assert server.get()[1].split().count("own") == len(named) > 3
    assert server.stop() == 0
