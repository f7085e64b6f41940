"""breakpoint() in an application under development: a prompt in the terminal, and reloads that wait for its end."""

import contextlib
import http.client
import os
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starter import PATIENCE, SHAPES, Server, Start, wait_for

from poorhttp.config import reading
from poorhttp.config.flags import parse_flags
from poorhttp.dev.settings import for_process

APP = """
import os, signal
{extra}

def inner(environ):
    if environ["PATH_INFO"] == "/stop":
        secret = 6
        {breakpoint}
        found = secret * 7
        found += 1
        return str(found)
    if environ["PATH_INFO"] == "/pid":
        return str(os.getpid())
    return "plain"

def application(environ, start_response):
    text = inner(environ)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [("{text} " + text).encode()]
"""

ON_TERMINAL = """
import os, sys

terminal = os.open(sys.argv[1], os.O_RDWR)  # of this session from now on
os.dup2(terminal, 0)
os.dup2(terminal, 1)
os.execv(sys.argv[2], sys.argv[2:])
"""

HOLDING = "reloads wait"
PROMPT = "(Pdb) "


def write(path: Path, text: str, extra: str = "", breakpoint: str = "breakpoint()") -> None:
    fresh = path.with_name(".fresh")
    fresh.write_text(APP.format(text=text, extra=extra, breakpoint=breakpoint))
    fresh.rename(path)


class Terminal:
    """The other end of a terminal: what is typed, and what is to be seen."""

    def __init__(self) -> None:
        self._end, self._kept = os.openpty()
        self.name = os.ttyname(self._kept)
        self._seen = bytearray()
        self._read_to = 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def expect(self, text: str) -> None:
        """Wait for a text behind the last one that was waited for."""
        wait_for(lambda: text.encode() in self._seen[self._read_to :], f"{text!r} in the terminal, not {self!r}")
        self._read_to = self._seen.index(text.encode(), self._read_to) + len(text)

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def flags(self) -> tuple[int, object]:
        attributes = termios.tcgetattr(self._kept)
        return attributes[3], attributes[6][termios.VINTR]

    def close(self) -> None:
        os.close(self._kept)  # the last one: its reader finds the end
        self._thread.join(PATIENCE)
        os.close(self._end)

    def __repr__(self) -> str:
        return bytes(self._seen).decode(errors="replace")

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._end, 4096):
                self._seen += data


class Asked(threading.Thread):
    """A request that is asked for in the background."""

    def __init__(self, server: Server, path: str = "/stop") -> None:
        super().__init__()
        self._server, self._path = server, path
        self.answer: tuple[int, str] | None = None
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.answer = self._server.get(self._path)

    def end(self) -> tuple[int, str] | None:
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.answer


Dev = Callable[..., Server]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    print(terminal)
    terminal.close()


@pytest.fixture
def dev(terminal: Terminal, launch: Start, tmp_path: Path) -> Dev:
    """Start `poorhttp dev` in the terminal."""

    def begin(shape: str, *arguments: str, awaits: str = "loaded in", **environ: str) -> Server:
        if not (tmp_path / "app.py").exists():
            write(tmp_path / "app.py", "old")
        inside = (sys.executable, "-c", ON_TERMINAL, terminal.name)
        environ = {"PYTHONBREAKPOINT": "", "TERM": "dumb", "HOME": str(tmp_path), **environ}
        server = launch("dev", "app.py", "--port=0", *SHAPES[shape], *arguments, inside=inside, **environ)
        server.await_address()
        server.await_text(awaits)
        return server

    return begin


def test_a_prompt_in_every_shape_and_a_save_that_waits_for_its_end(
    dev: Dev, terminal: Terminal, tmp_path: Path, shape: str
) -> None:
    server = dev(shape)
    before = terminal.flags()
    asked = Asked(server)
    terminal.expect(PROMPT)
    terminal.type("p secret * 111\n")
    terminal.expect("666")
    terminal.expect(PROMPT)
    write(tmp_path / "app.py", "new")
    server.await_text(HOLDING)
    if shape != "1x1":
        assert server.get() == (200, "old plain")
    write(tmp_path / "app.py", "newest")
    terminal.type("n\n")
    terminal.expect(PROMPT)
    if shape != "1x1":
        assert server.get() == (200, "old plain")
    assert "reloaded" not in server.said
    terminal.type("c\n")
    assert asked.end() == (200, "old 43")
    server.await_text("reloaded app.py")
    assert server.get() == (200, "newest plain")
    assert server.said.count(HOLDING) == 1
    assert terminal.flags() == before
    assert server.stop(signal.SIGINT) == 0


def test_a_request_that_waits_at_a_prompt_gets_the_code_saved_meanwhile(
    dev: Dev, terminal: Terminal, tmp_path: Path
) -> None:
    """And does not open it once more: the one thread accepts who waits as soon as the call is over."""
    server = dev("1x1")
    for version in range(5):
        write(tmp_path / "app.py", f"old {version}")
        wait_for(lambda: server.get("/plain") == (200, f"old {version} plain"), "the old code")  # noqa: B023
        asked = Asked(server)
        terminal.expect(PROMPT)
        held = server.said.count(HOLDING)
        write(tmp_path / "app.py", f"new {version}", breakpoint="pass")
        wait_for(lambda: server.said.count(HOLDING) > held, "the reload to be held")  # noqa: B023
        with contextlib.closing(server.connection()) as waiting:
            waiting.request("GET", "/stop")
            terminal.type("c\n")
            assert asked.end() == (200, f"old {version} 43")
            assert waiting.getresponse().read() == f"new {version} 43".encode()
    assert server.stop(signal.SIGINT) == 0


def test_ctrl_c_says_one_line(dev: Dev, terminal: Terminal, tmp_path: Path, shape: str) -> None:
    """The developer who waits for the next save sees it in the terminal too."""
    server = dev(shape)
    write(tmp_path / "app.py", "new")
    assert server.get() == (200, "new plain")
    server.await_text("reloaded app.py")
    server.workers()
    said, began = len(server.said), time.monotonic()
    terminal.type("\x03")
    assert server.end() == 0
    assert time.monotonic() - began < 2
    assert [line.partition("[-] ")[2] for line in server.said[said:].splitlines()] == ["[S] stopped"]
    terminal.expect("^C")
    assert repr(terminal) == "^C"


@pytest.mark.parametrize("shape", ["1x1", "1x4"])
@pytest.mark.parametrize("keys", ["q\n", "\x03", "p secr\x03"])
def test_quit_and_ctrl_c_end_the_call_and_nothing_else(
    dev: Dev, terminal: Terminal, tmp_path: Path, shape: str, keys: str
) -> None:
    server = dev(shape)
    before = terminal.flags()
    for _ in range(2):
        asked = Asked(server)
        terminal.expect(PROMPT)
        terminal.type(keys)
        answer = asked.end()
        assert answer is not None
        assert answer[0] == 500
        assert "BdbQuit" in answer[1]
        assert terminal.flags() == before
    write(tmp_path / "app.py", "new")
    assert server.get() == (200, "new plain")
    assert HOLDING not in server.said
    terminal.type("\x03")  # nobody debugs: it is the server's
    assert server.end() == 0


@pytest.mark.parametrize("shape", ["1x1", "1x4", "2x1"])
def test_steps_end_where_the_call_returns_to_the_server(
    dev: Dev, terminal: Terminal, tmp_path: Path, shape: str
) -> None:
    server = dev(shape)
    asked = Asked(server)
    terminal.expect(PROMPT)
    write(tmp_path / "app.py", "new")
    server.await_text(HOLDING)
    while asked.answer is None:
        terminal.type("n\n")
        wait_for(lambda: asked.answer is not None or repr(terminal).endswith(PROMPT), "a prompt, or the answer")
        time.sleep(0.01)
    assert asked.end() == (200, "old 43")
    server.await_text("reloaded app.py")
    assert server.get() == (200, "new plain")


@pytest.mark.parametrize("shape", ["1x4", "2x1"])
def test_a_process_that_dies_with_its_prompt_open_frees_the_reload(
    dev: Dev, terminal: Terminal, tmp_path: Path, shape: str
) -> None:
    server = dev(shape)
    before = terminal.flags()
    asked = Asked(server)
    terminal.expect(PROMPT)
    write(tmp_path / "app.py", "new")
    server.await_text(HOLDING)
    assert terminal.flags() != before
    terminal.type("os.kill(os.getpid(), signal.SIGKILL)\n")
    assert asked.end() is None
    wait_for(lambda: terminal.flags() == before, "the terminal to be as it was")
    assert server.get() == (200, "new plain")


def test_a_client_that_goes_away_changes_nothing(dev: Dev, terminal: Terminal, tmp_path: Path) -> None:
    server = dev("1x4")
    connection = server.connection()
    connection.request("GET", "/stop")
    terminal.expect(PROMPT)
    connection.close()
    write(tmp_path / "app.py", "new")
    server.await_text(HOLDING)
    terminal.type("p secret * 111\n")
    terminal.expect("666")
    assert server.get() == (200, "old plain")
    terminal.type("c\n")
    server.await_text("reloaded app.py")
    assert server.get() == (200, "new plain")


@pytest.mark.parametrize("shape", ["1x4", "2x1"])
def test_two_breakpoints_have_the_terminal_one_after_the_other(
    dev: Dev, terminal: Terminal, tmp_path: Path, shape: str
) -> None:
    asked = "open(os.environ['MARKS'] + '/asked', 'a').write('x'); breakpoint()"
    write(tmp_path / "app.py", "old", breakpoint=asked)
    server = dev(shape)
    both = [Asked(server), Asked(server)]
    terminal.expect(PROMPT)
    wait_for(lambda: (server.marks / "asked").read_text() == "xx", "both to have come to it")
    write(tmp_path / "app.py", "new")
    server.await_text(HOLDING)
    terminal.type("c\n")
    terminal.expect(PROMPT)
    terminal.type("c\n")
    assert [each.end() for each in both] == [(200, "old 43")] * 2
    server.await_text("reloaded app.py")
    assert server.get() == (200, "new plain")


def test_a_breakpoint_at_import_and_pdb_by_name(dev: Dev, terminal: Terminal, tmp_path: Path) -> None:
    server = dev("1x1")
    write(tmp_path / "app.py", "new", extra="import pdb; pdb.set_trace(); x = 6")
    terminal.expect(PROMPT)
    write(tmp_path / "app.py", "newest")
    server.await_text(HOLDING)
    terminal.type("c\n")
    server.await_text("reloaded app.py")
    wait_for(lambda: server.get() == (200, "newest plain"), "the newest code")


def test_nobody_is_late_at_a_breakpoint_unless_that_is_set(tmp_path: Path) -> None:
    def limits(*arguments: str) -> tuple[float, float]:
        settings = reading.read(parse_flags(arguments, str(tmp_path)), {}, str(tmp_path))
        served = for_process(settings, ())
        return served.request_timeout, served.slow_request

    assert limits("dev", "app.py") == limits("app.py", "--reload") == (0, 0)
    assert limits("dev", "app.py", "--request-timeout=7", "--slow-request=3") == (7, 3)


def test_ctrl_c_of_another_stops_the_server_and_sets_the_terminal(dev: Dev, terminal: Terminal) -> None:
    server = dev("1x4")
    before = terminal.flags()
    asked = Asked(server)
    terminal.expect(PROMPT)
    assert terminal.flags() != before
    server.stop(signal.SIGINT)
    asked.end()
    assert terminal.flags() == before


def test_without_a_terminal_it_is_passed_over(launch: Start, tmp_path: Path, shape: str) -> None:
    write(tmp_path / "app.py", "old")
    server = launch("dev", "app.py", "--port=0", *SHAPES[shape], PYTHONBREAKPOINT="")
    server.await_address()
    for _ in range(2):
        assert server.get("/stop") == (200, "old 43")
    wait_for(lambda: server.said.count("there is no terminal") == 2, "a line for each")
    assert "app.py:9: a breakpoint" in server.said or "app.py:8: a breakpoint" in server.said
    write(tmp_path / "app.py", "new")
    assert server.get("/stop") == (200, "new 43")


def test_an_author_who_brings_a_hook_keeps_it(dev: Dev, tmp_path: Path) -> None:
    hook = "import sys; sys.breakpointhook = lambda *a, **b: None"
    write(tmp_path / "app.py", "old", extra=hook)
    server = dev("1x4")
    assert server.get("/stop") == (200, "old 43")


def test_variable_for_none_is_obeyed(dev: Dev) -> None:
    server = dev("1x4", PYTHONBREAKPOINT="0")
    assert server.get("/stop") == (200, "old 43")
