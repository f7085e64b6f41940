"""What is read from a scoreboard, whatever is in it, and how it is shown."""

import json
import os
import time
from binascii import crc32
from collections.abc import Iterator
from pathlib import Path
from sys import byteorder
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import stdlib
from poorhttp.operate.control import Rates
from poorhttp.status import calls, pidfile, reader, render
from poorhttp.status.layout import CELL, FACTS, HEAD, LAYOUT, MAGIC, NAME, ROW, SUMS, WORD
from poorhttp.status.scoreboard import Scoreboard
from poorhttp.system import procfs

HOSTILE = b"GET /<script>\x1b[2J\x9b\r\n&\"'\xff\x00%0a"


@pytest.fixture
def scoreboard() -> Iterator[Scoreboard]:
    made = Scoreboard(2, 3)
    yield made
    os.close(made.descriptor)


def write(scoreboard: Scoreboard, slot: int, words: dict[int, int], cell: int = -1) -> None:
    """Write words of a row, or of one of its cells."""
    row = scoreboard.row(slot)
    assert row is not None
    start = row.offset if cell < 0 else row.offset + ROW + cell * CELL
    for index, word in words.items():
        os.pwrite(scoreboard.descriptor, word.to_bytes(WORD, byteorder), start + index * WORD)


def call_of(line: bytes, began: int, host: bytes = b"a.example", request_id: bytes = b"") -> bytes:
    """A cell as the engine leaves it, of a call for 192.0.2.7 by HTTP/1.1."""
    client = bytes(10) + b"\xff\xff" + bytes((192, 0, 2, 7))
    texts = (line, host, request_id)
    before, after = (began, began + 1, 4, began, 0, 0), (1, *map(len, texts))
    cell = b"".join(number.to_bytes(WORD, byteorder) for number in before) + client
    cell += b"".join(number.to_bytes(WORD, byteorder) for number in after)
    return (cell + b"".join(text + bytes(-len(text) % WORD) for text in texts)).ljust(CELL, b"\0")


def serve(scoreboard: Scoreboard, slot: int, line: bytes, age: float = 2.0, **more: bytes) -> None:
    """Let the first thread of a slot be in a call."""
    began = int(time.clock_gettime(calls.CLOCK) * 1000 - age * 1000)
    row = scoreboard.row(slot)
    assert row is not None
    os.pwrite(scoreboard.descriptor, call_of(line, began, **more), row.offset + ROW)


def started(scoreboard: Scoreboard, slot: int = 0, pid: int = 0) -> int:
    """Let this process be in a slot."""
    pid = pid or os.getpid()
    scoreboard.take(slot, pid)
    counts = {4: 7, 5: 20, 6: 100, 7: 10, 8: 1, 9: 1, 10: 2, 11: 14, 12: 3}
    write(scoreboard, slot, {0: pid, 1: int(time.time()) - 5, 2: 2, 3: 3} | counts)
    return pid


def gathered(scoreboard: Scoreboard) -> dict[str, Any]:
    told = reader.read_scoreboard(scoreboard.descriptor)
    assert told is not None
    return told


def test_a_row_is_read_as_the_engine_writes_it(scoreboard: Scoreboard) -> None:
    pid = started(scoreboard)
    serve(scoreboard, 0, b"POST /slow?token=1")
    told = gathered(scoreboard)
    row = told["processes"][0]
    assert (row["pid"], row["state"], row["threads"], row["busy"]) == (pid, "serving", 3, 1)
    assert row["answers"] == {"1xx": 1, "2xx": 90, "3xx": 2, "4xx": 14, "5xx": 3}
    call = row["calls"][0]
    assert (call["method"], call["path"]) == ("POST", "/slow") and 1.9 < call["seconds"] < 60
    assert (told["requests"], told["refused"], told["connections"]) == (100, 10, 7)
    assert row["pss"] and 5 <= row["seconds"] < 60


def test_what_clients_sent_is_harmless_wherever_it_is_shown(scoreboard: Scoreboard) -> None:
    started(scoreboard)
    serve(scoreboard, 0, HOSTILE)
    told = gathered(scoreboard)
    for line in render.text(told):
        assert line.isascii() and line.isprintable()
    assert "\\x1b[2J\\x9b\\r\\n" in "".join(render.text(told))
    shown = render.html(told)
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "&#x27;\\xff\\x00%0a" in shown
    assert shown.replace("\n", "").isprintable()
    assert json.loads(render.json(told))["processes"][0]["calls"][0]["path"].startswith("/<script>\\x1b")
    assert "script" not in render.prometheus(told)


@pytest.mark.parametrize(
    "words",
    [
        {2: 5},  # it is being written
        {3: 1},  # what stands there is of a call before this one
        {9: CELL},  # more than there is room for
        {11: 1 << 62},
        {1: 0},  # it is over
        {},  # it has just begun
    ],
)
def test_what_is_not_whole_is_left_out(scoreboard: Scoreboard, words: dict[int, int]) -> None:
    started(scoreboard)
    serve(scoreboard, 0, b"GET /path", age=-60.0 if words == {} else 2.0)  # it stays new, however slow this machine is
    write(scoreboard, 0, words, 0)
    row = gathered(scoreboard)["processes"][0]
    assert row["calls"] == [] and row["busy"] == (0 if 1 in words else 1)


def test_a_cell_that_changes_while_it_is_read_is_left_out() -> None:
    cell = call_of(b"GET /", 1)
    changed = cell[: 2 * WORD] + (6).to_bytes(WORD, byteorder) + cell[3 * WORD :]
    assert reader._call(cell, cell, cell) is not None
    for three in ((changed, cell, cell), (cell, changed, cell), (cell, cell, changed)):
        assert reader._call(*three) is None


def test_what_a_worker_was_about_is_known_when_it_is_dead(scoreboard: Scoreboard) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    started(scoreboard, scoreboard.next_slot(), child)
    serve(scoreboard, 0, b"GET http://x.example/a%20b?q=\xff\x1b", request_id=b"17")
    (call,) = calls.of_row(scoreboard.free(child))
    assert (call.method, call.path(), call.client, call.is_given_up) == ("GET", "/a%20b", "192.0.2.7", False)
    assert call.about() == "GET http://x.example/a%20b?q=\xff\x1b (request id 17)" and 1.9 < call.seconds() < 60
    assert call.head() == b"GET http://x.example/a%20b?q=\xff\x1b HTTP/1.1\r\nHost: a.example\r\n\r\n"
    assert list(calls.of_row(b"")) == []


@given(
    st.binary(min_size=3 * WORD, max_size=3 * WORD),
    st.lists(st.integers(0, 200) | st.integers(0, 2**64 - 1), min_size=3, max_size=3),
    st.binary(min_size=CELL - 12 * WORD, max_size=CELL - 12 * WORD),
)
def test_whatever_is_in_a_cell_is_harmless(facts: bytes, lengths: list[int], texts: bytes) -> None:
    numbers = b"".join(length.to_bytes(WORD, byteorder) for length in lengths)
    call = calls.of_cell(call_of(b"", 1)[: 6 * WORD] + facts + numbers + texts)
    if call is not None:
        assert call.head().endswith(b"\r\n\r\n") and isinstance(call.path() + call.about() + call.client, str)


@pytest.mark.parametrize(
    ("octets", "client"),
    [
        (bytes(16), ""),
        (bytes(10) + b"\xff\xff\x7f\0\0\1", "127.0.0.1"),
        (bytes(15) + b"\1", "::1"),
        (b"\x20\1\x0d\xb8" + bytes(11) + b"\7", "2001:db8::7"),
    ],
)
def test_the_client_of_a_call(octets: bytes, client: str) -> None:
    cell = call_of(b"GET /", 1)
    call = calls.of_cell(cell[: 6 * WORD] + octets + cell[8 * WORD :])
    assert call is not None and call.client == client


@pytest.mark.parametrize(
    ("target", "path"),
    [("/", "/"), ("/a?b", "/a"), ("//a/b?c", "//a/b"), ("http://a?b", ""), ("http://a/b?c", "/b"), ("*", ""), ("", "")],
)
def test_the_path_of_a_call(target: str, path: str) -> None:
    call = calls.of_cell(call_of(b"GET " + target.encode(), 1))
    assert call is not None and call.path() == path


def test_what_a_worker_counted_is_not_lost_with_it(scoreboard: Scoreboard) -> None:
    child = os.fork()
    if not child:
        os._exit(0)
    started(scoreboard, scoreboard.next_slot(), child)
    assert scoreboard.next_slot() == 1
    os.waitpid(child, 0)
    told = gathered(scoreboard)
    assert (told["requests"], told["connections"], told["processes"]) == (100, 0, []), "dead, and not yet known to be"
    assert len(scoreboard.free(child)) == ROW + 3 * CELL
    assert scoreboard.free(child) == b""
    assert scoreboard.next_slot() == 0
    told = gathered(scoreboard)
    assert (told["requests"], told["accepted"], told["connections"], told["processes"]) == (100, 20, 0, [])
    assert told["answers"] == {"1xx": 1, "2xx": 90, "3xx": 2, "4xx": 14, "5xx": 3}
    started(scoreboard)
    assert gathered(scoreboard)["requests"] == 200


def test_slots_run_out_and_do_no_harm(scoreboard: Scoreboard) -> None:
    for pid in range(1, 13):
        scoreboard.take(scoreboard.next_slot(), pid)
    assert scoreboard.next_slot() == -1 and scoreboard.row(-1) is None
    scoreboard.take(-1, 99)
    assert scoreboard.free(99) == b""
    assert scoreboard.row(99) is None


def test_the_last_reload(scoreboard: Scoreboard) -> None:
    assert gathered(scoreboard)["last_reload"] is None and "last reload: none" in render.text(gathered(scoreboard))
    scoreboard.note_reload("failed", "exit code 3\nname value")
    told = gathered(scoreboard)
    assert told["last_reload"]["result"] == "failed" and told["last_reload"]["why"] == "exit code 3 name value"
    assert abs(told["last_reload"]["time"] - time.time()) < 60
    assert "poorhttp_last_reload_success 0\n" in render.prometheus(told)
    scoreboard.note_reload("trying")
    assert "last_reload" not in render.prometheus(gathered(scoreboard))
    scoreboard.note_reload("succeeded")
    assert "poorhttp_last_reload_success 1\n" in render.prometheus(gathered(scoreboard))


def test_a_head_that_is_being_written_is_read_again_and_then_not_at_all(
    scoreboard: Scoreboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoreboard.tell(title="app.py")
    read, asked = os.pread, []

    def pread(descriptor: int, size: int, offset: int) -> bytes:
        data = read(descriptor, size, offset)
        if offset == 64:
            asked.append(1)
            return data if len(asked) == 3 else data[:20] + b"!" + data[21:]
        return data

    monkeypatch.setattr(stdlib.os, "pread", pread)
    assert reader._facts(scoreboard.descriptor)["title"] == "app.py"
    assert reader._facts(scoreboard.descriptor) == {}


def test_what_is_no_board_is_not_read(scoreboard: Scoreboard) -> None:
    assert reader._shape(scoreboard.descriptor) == (12, 3)
    other = os.memfd_create("other")
    try:
        assert reader.read_scoreboard(other) is None
        for head in (b"", b"poorhttp", b"poorhttp" + bytes(24), os.pread(scoreboard.descriptor, HEAD, 0)):
            os.ftruncate(other, 0)
            os.pwrite(other, head, 0)
            assert reader._shape(other) == (0, 0), "rows that are not there"
        os.ftruncate(other, 1 << 24)
        assert reader._shape(other) == (12, 3)
        for offset, number in ((8, LAYOUT + 1), (16, 1 << 62), (24, 1 << 40)):
            os.pwrite(other, os.pread(scoreboard.descriptor, HEAD, 0), 0)
            os.pwrite(other, number.to_bytes(WORD, byteorder), offset)
            assert reader._shape(other) == (0, 0)
    finally:
        os.close(other)


def test_any_bytes_are_read_without_a_fault(scoreboard: Scoreboard) -> None:
    """The application could write there too: the reader is perhaps root."""
    size = os.fstat(scoreboard.descriptor).st_size
    os.pwrite(scoreboard.descriptor, b"\xff" * (size - HEAD), HEAD)
    for slot in range(3):
        write(scoreboard, slot, {0: os.getpid()})
    told = gathered(scoreboard)
    render.text(told)
    render.html(told)
    render.prometheus(told)
    scoreboard.tell(reload="\x1b[2J", reload_time="9" * 400, started="-1")
    told = gathered(scoreboard)
    assert all(line.isprintable() for line in render.text(told))


def claim(rows: int, cells: int) -> int:
    """A scoreboard with so many rows, all of them this process's and with a call in each cell."""
    descriptor = os.memfd_create(NAME)
    numbers = b"".join(number.to_bytes(WORD, byteorder) for number in (LAYOUT, rows, cells))
    text = f"pid {os.getpid()}\nstarted 1".encode()
    facts = len(text).to_bytes(WORD, byteorder) + crc32(text).to_bytes(WORD, byteorder) + text
    row = os.getpid().to_bytes(WORD, byteorder).ljust(ROW, b"\0") + call_of(b"GET /x", 1) * cells
    os.pwrite(descriptor, MAGIC + numbers, 0)
    os.pwrite(descriptor, facts, FACTS)
    size = ROW + cells * CELL
    os.ftruncate(descriptor, HEAD + rows * size)
    for index in range(rows):  # the others have holes where their calls would be
        os.pwrite(descriptor, row if index < 2 else row[:ROW], HEAD + index * size)
    return descriptor


def test_a_process_has_one_row_whatever_a_board_claims() -> None:
    descriptor = claim(reader.MOST_ROWS, reader.MOST_CELLS)
    try:
        told = reader.read_scoreboard(descriptor)
        assert told is not None and [row["pid"] for row in told["processes"]] == [os.getpid()]
        assert len(told["processes"][0]["calls"]) == reader.MOST_CELLS
    finally:
        os.close(descriptor)
    descriptor = claim(reader.MOST_ROWS + 1, 1)
    try:
        assert reader._shape(descriptor) == (0, 0), "no server has so many"
    finally:
        os.close(descriptor)


def test_what_takes_too_long_is_not_looked_at(scoreboard: Scoreboard, monkeypatch: pytest.MonkeyPatch) -> None:
    started(scoreboard)
    serve(scoreboard, 0, b"GET /path")
    monkeypatch.setattr(reader, "LONGEST", -1.0)
    told = gathered(scoreboard)
    assert told["requests"] == 100 and [row["calls"] for row in told["processes"]] == [[]]


def test_the_main_process_of_a_worker(scoreboard: Scoreboard, tmp_path: Path) -> None:
    lock, descriptor = pidfile.write(str(tmp_path / "pid")), os.open(tmp_path / "pid", os.O_RDONLY)
    assert reader.find_main_process(os.getpid()) == os.getpid()
    scoreboard.tell(pid="7")
    assert reader.find_main_process(os.getpid()) == 7
    assert not pidfile.wrote(os.getpid(), descriptor), "a worker of another process"
    scoreboard.tell(pid=str(os.getpid()))
    assert pidfile.wrote(os.getpid(), descriptor)
    os.close(lock)
    os.close(descriptor)


def test_a_reader_that_is_not_told_does_not_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    def listdir(path: str) -> list[str]:
        raise PermissionError

    monkeypatch.setattr(stdlib.os, "listdir", listdir)
    with pytest.raises(PermissionError):
        reader.read_server(os.getpid())
    assert reader._rows_of_child(os.getpid(), time.monotonic() + 60) == []


@pytest.mark.parametrize(
    ("path", "query", "accept", "kind"),
    [
        ("/server-status", "", "*/*", render.JSON),
        ("/server-status", "", "", render.JSON),
        ("/server-status", "", "text/html,application/xhtml+xml,*/*;q=0.8", render.HTML),
        ("/server-status", "json", "text/html", render.JSON),
        ("/server-status", "", "application/json", render.JSON),
        ("/server-status", "prometheus", "text/html", render.PROMETHEUS),
        ("/server-status/metrics", "", "text/html", render.PROMETHEUS),
    ],
)
def test_everybody_gets_what_he_understands(path: str, query: str, accept: str, kind: str) -> None:
    assert render.wanted(path, query, accept) == kind


def test_the_format_of_prometheus(scoreboard: Scoreboard) -> None:
    started(scoreboard)
    serve(scoreboard, 0, b"GET /path")
    lines = render.prometheus(gathered(scoreboard)).splitlines()
    named = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(named) == len(set(named))
    for line in lines:
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert name.partition("{")[0] in named
            float(value)
    assert 'poorhttp_responses_total{class="4xx"} 14' in lines and "poorhttp_threads_busy 1" in lines


def test_requests_per_second() -> None:
    rates = Rates()

    def told(**counts: int) -> dict[str, Any]:
        return {"processes": [{"pid": int(pid[1:]), "requests": count} for pid, count in counts.items()]}

    assert rates.of(told(p1=10), 100.0) is None
    assert rates.of(told(p1=30, p2=5), 102.0) == {1: 10.0}
    assert rates.of(told(p1=30, p2=7), 103.0) == {1: 0.0, 2: 2.0}
    assert rates.of(told(p2=1), 104.0) == {2: 0.0}, "another process of the same number"


def test_the_sums_are_those_of_the_readers() -> None:
    assert set(SUMS) == {"accepted", "requests", "refused", "cut", "1xx", "3xx", "4xx", "5xx", "dropped"}
    assert procfs.lives(os.getpid())
