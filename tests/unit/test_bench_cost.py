"""Rows of `bench cost`: what a load takes for an answer, what a server cannot do, and the applications of bodies."""

import io
import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import client, launch, load, measure, scale
from bench.client import Failure, Unable
from bench.report import Result
from bench.servers import SERVERS
from bench.workloads import WORKLOADS, Workload

COMPILES = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
HELLO = WORKLOADS["hello"]
BODY = b"x" * 30
CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n" + b"A;a=b\r\nxxxxxxxxxx\r\n" * 3
FRAMINGS = {
    "length": (b"Content-Length: 30\r\n\r\n" + BODY, False),
    "chunks": (CHUNKS + b"0\r\n\r\n", False),
    "chunks and close": (b"Connection: close\r\n" + CHUNKS + b"0\r\n\r\n", True),
    "until the end": (b"\r\n" + BODY, True),
}


class Answering:
    """A server of one client at a time, which gives this answer, in two parts, to each request."""

    def __init__(self, answer: bytes, closes: bool) -> None:
        self._answer = b"HTTP/1.1 200 OK\r\n" + answer
        self._closes = closes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Answering":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                with closing(self._listener.accept()[0]) as sock:
                    self.connections += 1
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with suppress(OSError):
                        self._serve(sock)

    def _serve(self, sock: socket.socket) -> None:
        while sock.recv(1000):
            sock.sendall(self._answer[:-4])
            sock.sendall(self._answer[-4:])
            if self._closes:
                return


def tally(port: int, answer: bytes = BODY) -> dict[str, float]:
    launch.compile_c("tally")
    return load.tally(port, replace(HELLO, connections=1), answer, 0.2)


@COMPILES
@pytest.mark.parametrize(("answer", "closes"), FRAMINGS.values(), ids=FRAMINGS)
def test_a_tally_takes_an_answer_in_each_framing(answer: bytes, closes: bool) -> None:
    with Answering(answer, closes) as server:
        numbers = tally(server.port)
        assert numbers["requests"] > 10 and numbers["least"] == 100
        assert server.connections > 10 if closes else server.connections == 1


@COMPILES
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"Content-Length: 29\r\n\r\n" + BODY[1:], r"wrong answer; its bytes \(29\)"),
        (CHUNKS[:-19] + b"0\r\n\r\n", r"wrong answer; its bytes \(20\)"),
        (CHUNKS, "closed within an answer"),
        (b"Content-Length: 31\r\n\r\n" + BODY, "closed within an answer"),
        (b"\r\n" + BODY + b"x", r"wrong answer; its bytes \(31\)"),
    ],
    ids=["short", "a chunk less", "no last chunk", "cut off", "longer"],
)
def test_a_tally_takes_no_other_answer(answer: bytes, fault: str) -> None:
    with Answering(answer, closes=True) as server, pytest.raises(Failure, match=fault):
        tally(server.port)


@COMPILES
@pytest.mark.parametrize("name", ["bare", "single"])
def test_a_fixed_answer_over_a_unix_socket(name: str, tmp_path: Path) -> None:
    for program in ("bare", "tally"):
        launch.compile_c(program)
    numbers = measure.cost(SERVERS[name], WORKLOADS["unix"], launch.Setting(work=tmp_path), 0.3)
    assert numbers["rate"] > 100 and numbers["cpu"] > 0 and numbers["least"] > 0


def test_a_load_over_a_unix_socket_is_that_of_tally() -> None:
    assert all(each.tally for each in WORKLOADS.values() if each.unix)


@COMPILES
@pytest.mark.parametrize("name", ["stream", "file", "post100k", "post10m", "json1k"])
def test_our_answers_are_right(name: str, tmp_path: Path) -> None:
    workload = replace(WORKLOADS[name], connections=2)
    launch.compile_c("tally")
    with launch.running(SERVERS["single"], workload, launch.Setting(work=tmp_path)) as run:
        assert run.remark == ""
        if workload.tally or shutil.which("wrk"):
            answer = launch.expected(workload, launch.Setting(work=tmp_path))
            assert load.run(run.port, workload, answer, 0.3)["requests"] > 0


def unable(server: str, workload: Workload, tmp_path: Path) -> Result:
    """What the row of a server says."""
    setting = launch.Setting(work=tmp_path)
    row = ("row", server)
    return measure.take_turns([(row, lambda: measure.cost(SERVERS[server], workload, setting, 0.1))], 1)[row]


@pytest.mark.parametrize(
    ("server", "workload", "why"),
    [("fastwsgi", "unix", "no unix sockets"), ("bjoern", "blocked", "has one thread")],
)  # fmt: skip
def test_what_a_server_cannot_do_is_a_remark(server: str, workload: str, why: str, tmp_path: Path) -> None:
    assert unable(server, WORKLOADS[workload], tmp_path) == Result(remark=why)


def test_what_a_server_says_that_it_cannot_do_is_a_remark() -> None:
    lacking = b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 20\r\n\r\nno wsgi.file_wrapper"
    with pytest.raises(Unable, match=r"^no wsgi\.file_wrapper$"):
        client.read_answer(io.BytesIO(lacking))


@pytest.mark.parametrize(
    ("field", "kind"), [(b"Connection: close\r\n", Unable), (b"", Failure)], ids=["announced", "without a word"]
)
def test_a_server_that_closes_each_connection_cannot_pipeline(field: bytes, kind: type[Failure]) -> None:
    answer = field + b"Content-Length: 13\r\n\r\nHello, World!"
    with Answering(answer, closes=True) as server, pytest.raises(Failure) as caught:
        client.check(server.port, WORKLOADS["pipelined"], b"Hello, World!")
    assert type(caught.value) is kind


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, bytes]]:
    """Status and body that an application of bodies gives."""
    monkeypatch.syspath_prepend(launch.APPS)
    bodies = import_module("bodies")

    def call(name: str, **environ: Any) -> tuple[str, bytes]:
        heads: list[str] = []
        body = b"".join(getattr(bodies, name)(environ, lambda status, fields: heads.append(status)))
        return heads[0], body

    return call


@pytest.mark.parametrize("size", [0, 1024, 65_536, 200_000])
def test_the_application_tells_a_wrong_body(called: Callable[..., tuple[str, bytes]], size: int) -> None:
    def post(body: bytes) -> bytes:
        return called("post", CONTENT_LENGTH=str(size), **{"wsgi.input": io.BytesIO(body)})[1]

    assert post(b"x" * size) == b"Hello, World!"
    if size:
        assert post(b"x" * (size - 1)) == post(b"x" * (size - 1) + b"y") == b"wrong body"


def test_the_application_sends_a_file_only_where_the_server_can(called: Callable[..., tuple[str, bytes]]) -> None:
    def wrapper(file: BinaryIO) -> list[bytes]:
        with file:
            return [file.read()]

    assert called("file") == ("501 Not Implemented", b"no wsgi.file_wrapper")
    assert called("file", **{"wsgi.file_wrapper": wrapper}) == ("200 OK", b"x" * 102_400)


def test_a_kilobyte_of_json() -> None:
    body = launch.expected(WORKLOADS["json1k"], launch.Setting())
    assert 900 < len(body) < 1100 and json.loads(body)["rows"]


@COMPILES
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_two_processes_that_compute_are_measured_by_a_load_on_one_core(tmp_path: Path) -> None:
    launch.compile_c("tally")
    numbers = scale.SCENARIOS["compute"].measure(SERVERS["forking"], launch.Setting(work=tmp_path), scale.Size(0.3))
    assert numbers["times"] > 0 and numbers["two load"] < 50
    assert {column.removeprefix("~") for column in scale.SPEED_COLUMNS.values()} <= numbers.keys()
