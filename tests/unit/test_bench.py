"""The bench's pure parts: statistics, what /proc says, verdicts and tables; and the bare loop by its own checks."""

import contextlib
import io
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import venv
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import client, launch, load, measure, proc, record, report, robust, servers, sessions, stores, table
from bench.__main__ import with_before
from bench.client import Failure
from bench.report import Result
from bench.servers import OURS, SERVERS
from bench.workloads import COST, MEMORY, STARTING, WORKLOADS, Target

HELLO = WORKLOADS["hello"]
SMAPS = """\
55d0-55d4 r-xp 00001000 fe:00 4242                       /usr/bin/server
Rss:                  40 kB
Pss:                  20 kB
Anonymous:             8 kB
VmFlags: rd ex mr mw me
7f00-7f09 rw-p 00000000 00:00 0                          [heap]
Rss:                 100 kB
Anonymous:           100 kB
"""
GROWS = """
print(flush=True), input()
block = bytearray(b"x") * (32 << 20)
print(flush=True), input()
del block
print(flush=True), input()
"""
WRK = (
    '{"requests": %d, "bytes": %d, "seconds": 2.0, "p50": 0.001, "p99": 0.002, '
    '"errors": {"connect": 0, "read": %d, "write": 0, "status": 0, "timeout": 0}}'
)


def rounds(column: str, *values: float) -> Result:
    return Result([{column: value} for value in values])


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (50, 50), (99, 99), (99.1, 100), (100, 100)], ids=str)
def test_percentile_is_the_nearest_rank(percent: float, expected: int) -> None:
    assert expected == report.percentile(list(range(100, 0, -1)), percent)


def test_ratio_compares_within_a_round_and_takes_the_smallest_of_the_others() -> None:
    results = {
        ("w", "mine"): rounds("cpu", 10, 20, 30),
        ("w", "a"): rounds("cpu", 5, 40, 10),
        ("w", "b"): rounds("cpu", 20, 10, 20),
    }
    assert report.ratio(results, ("w", "mine"), [("w", "a"), ("w", "b")], "cpu") == pytest.approx(2)


def test_the_best_other_is_the_smallest_or_the_largest_of_those_that_count() -> None:
    others = (("w", "a"), ("w", "b"), ("w", "dead"), ("w", "absent"))
    results = {("w", "a"): rounds("cpu", 5, 1, 5), ("w", "b"): rounds("cpu", 4, 4, 9), ("w", "dead"): Result([], ["x"])}
    target = Target("text", ("w", "mine"), "cpu", "<=", 1, over=others, leaves_out_failed=True)
    assert report.best(target, results) == "b" and report.best(replace(target, sense=">="), results) == "a"
    assert report.best(replace(target, over=()), results) == report.best(target, {}) == ""


def test_spread_is_none_for_a_single_round() -> None:
    assert report.spread(rounds("rate", 5), "rate") is None
    assert report.spread(rounds("rate", 90, 100, 110), "rate") == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("sense", "value", "expected"),
    [("<=", 10, "met"), ("<", 10, "MISSED"), (">=", 10, "met"), (">=", 9.9, "MISSED"), ("<=", 10.1, "MISSED")],
)
def test_verdict_on_the_limit(sense: str, value: float, expected: str) -> None:
    target = Target("text", ("w", "s"), "p99", sense, 10)
    assert expected == report.verdict(target, {("w", "s"): rounds("p99", value)})


def test_what_must_never_happen_counts_in_each_round() -> None:
    results = {("w", "s"): rounds("errors", 0, 0, 7), ("w", "other"): rounds("errors", 1, 1, 1)}
    target = Target("text", ("w", "s"), "errors", "<=", 0)
    assert report.measured(target, results) == 7 and report.verdict(target, results) == "MISSED"
    assert report.measured(replace(target, limit=1), results) == 0
    assert report.measured(replace(target, over=(("w", "other"),)), results) == 0


def test_one_failed_round_is_a_failure_and_no_number() -> None:
    target = Target("text", ("w", "s"), "cpu", "<=", 2, over=(("w", "bare"),))
    result = Result([{"cpu": 1e-6}], ["answered 1 of 16 requests"])
    results = {("w", "s"): result, ("w", "bare"): rounds("cpu", 1e-6, 1e-6)}
    assert report.verdict(target, results) == "FAILED"
    line = report.result_table(results, "w", {"CPU": "cpu", "x bare": "/cpu"}).splitlines()[2]
    assert "**FAILED** in 1 of 2 rounds: answered 1 of 16 requests" in line
    assert not any(cell.strip() == "0" for cell in line.split("|"))


def test_targets_of_rows_that_a_run_does_not_have_are_counted() -> None:
    targets = [Target("one", ("w", "s"), "p99", "<=", 10), Target("other", ("x", "s"), "p99", "<=", 10),
               Target("ratio", ("w", "s"), "p99", "<=", 1, over=(("w", "bare"),))]  # fmt: skip
    text = report.target_table(targets, {("w", "s"): rounds("p99", 5)})
    assert "| one " in text and "| ratio " in text and "not run" in text and "other" not in text
    assert text.endswith("\n\nThis run does not have the rows of 1 of the 3 targets.")
    assert report.target_table(targets, {}) == "This run does not have the rows of 3 of the 3 targets."


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["/nowhere/python"], "not installed"),
        ([sys.executable, "-c", "from importlib.metadata import version; version('no-such-package')"], "not installed"),
        ([sys.executable, "-c", "import no_such_module"], "not installed"),
        ([sys.executable, "-c", "1 / 0"], "unknown (ZeroDivisionError: division by zero)"),
        ([sys.executable, "-c", ""], "unknown (printed nothing)"),
        ([sys.executable, "-c", "print('1.2'); print('more'); exit(1)"], "1.2"),
    ],
    ids=["program", "package", "module", "fault", "nothing", "version"],
)
def test_a_version_is_the_first_line_or_why_there_is_none(command: list[str], told: str) -> None:
    assert record.said(command) == told


def test_a_target_without_its_rows_was_not_run() -> None:
    assert {"not run"} == {report.verdict(target, {}) for target in (*COST, *MEMORY, *STARTING)}


@pytest.mark.parametrize(
    ("value", "text"), [(None, report.ABSENT), (0, "0"), (0.01234, "0.0123"), (1.2, "1.20"), (12345.6, "12,346")]
)  # fmt: skip
def test_number_has_three_digits(value: float | None, text: str) -> None:
    assert text == report.number(value)


def test_table_escapes_what_would_break_it() -> None:
    assert "a\\|b c" in report.table(["one", "two"], [["x", "a|b\nc"]])


def test_parse_fields_reads_kilobytes_and_counts() -> None:
    text = "55d0-7ffe ---p 00000000 00:00 0  [rollup]\nPss:    12 kB\nThreads:\t3\nName:\tx\n"
    assert proc.parse_fields(text) == {"Pss": 12 * 1024, "Threads": 3}


def test_parse_smaps_counts_file_pages_without_private_copies() -> None:
    assert proc.parse_smaps(SMAPS) == {("fe:00", "4242", "00001000"): 32 * 1024}


def test_this_process_is_read_from_proc() -> None:
    own = os.getpid()
    assert own in proc.tree(own)
    assert proc.shape(own)[1] >= 1
    assert 0 < proc.memory(own)["pss"] <= proc.memory(own)["alone"] * 1.01
    assert proc.pss_of_each(own)[own] > 0


def test_parse_diag_counts_what_is_accepted_and_from_the_peer() -> None:
    def answer(kind: int, peer: bytes = b"", inode: int = 0) -> bytes:
        message = struct.pack("=4x4x16s16s28xI", b"\x7f\0\0\1", peer, inode)
        return struct.pack("=IHHII", 16 + len(message), kind, 2, 0, 0) + message

    ours, other = b"\x7f\0\0\1", b"\x7f\0\0\2"
    part = answer(proc.BY_FAMILY, ours, 7) + answer(proc.BY_FAMILY, other, 8) + answer(proc.BY_FAMILY, ours, 0)
    assert proc.parse_diag(part, ours) == (1, False)
    assert proc.parse_diag(part + answer(3), other) == (1, True)


def test_an_accepted_connection_is_counted_and_one_in_the_queue_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            assert proc.accepted(port, "127.0.0.1") == 0
            accepted, _ = server.accept()
            with accepted:
                assert proc.accepted(port, "127.0.0.1") == 1
                assert proc.accepted(port, "127.0.0.2") == 0


def test_descriptors_of_this_process_are_counted() -> None:
    before = proc.descriptors(os.getpid())
    with open(os.devnull):
        assert proc.descriptors(os.getpid()) == before + 1


def test_exact_cpu_grows_with_work() -> None:
    before = proc.exact_cpu(os.getpid())
    sum(range(2_000_000))
    assert 0.001 < proc.exact_cpu(os.getpid()) - before < 60


def test_cpu_time_of_a_dead_child_stays_in_the_account() -> None:
    before = proc.cpu(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(5_000_000))"], check=True, timeout=30)
    assert proc.cpu(os.getpid()) > before


def test_wrk_result_in_milliseconds() -> None:
    numbers = load.parse_wrk("noise\nBENCH " + WRK % (1000, 100_000, 0), HELLO, 13)
    assert numbers == {"requests": 1000, "rate": 500.0, "errors": 0, "p50": 1.0, "p99": 2.0}


@pytest.mark.parametrize(
    ("requests", "size", "faults"), [(0, 0, 0), (1000, 100_000, 2), (1000, 12_999, 0)], ids=["none", "faults", "short"]
)
def test_wrk_result_that_is_a_failure(requests: int, size: int, faults: int) -> None:
    with pytest.raises(Failure):
        load.parse_wrk("BENCH " + WRK % (requests, size, faults), HELLO, 13)


@pytest.mark.parametrize(("command", "option"), [("scale", "--python"), ("cost", "--before")])
def test_a_python_without_poorhttp_is_refused(command: str, option: str, tmp_path: Path) -> None:
    """Else all that is not poorhttp would be measured first."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", command, "--no-record", option, str(tmp_path / "python")],
        cwd=Path(__file__).parents[2],
        timeout=60,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"{option} {tmp_path}/python: no poorhttp is beside it; name a Python that has one" in done.stderr


def test_a_tally_gives_the_share_of_the_least_served_client() -> None:
    text = '{"answers": [30, 10, 20], "others": [%s], "p50": 1.0, "p99": 2.0, "p99.9": 3.0}'
    numbers = load.parse_tally(text % "", 2.0)
    assert numbers == {"requests": 60, "rate": 30.0, "least": 50.0, "p50": 1.0, "p99": 2.0, "p99.9": 3.0}
    assert load.parse_tally(text % "3, 2", 2.0)["long"] == 2.5


def test_a_tally_without_an_answer_is_a_failure() -> None:
    with pytest.raises(Failure, match="no client"):
        load.parse_tally('{"answers": [0, 0], "others": [], "p50": 9.0, "p99": 9.0, "p99.9": 9.0}', 2.0)


def test_compare_ignores_the_clock_only() -> None:
    client.compare(b"<p>2026-11-21 10:00:00</p>", b"<p>2026-11-22 23:59:59</p>")
    with pytest.raises(Failure, match="wrong answer"):
        client.compare(b"<p>10:00:00</p>", b"<b>10:00:00</b>")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3;x=y\r\ncde\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\nabcde",
    ],
    ids=["length", "chunked", "until the end"],
)
def test_read_answer_in_each_framing(answer: bytes) -> None:
    assert client.read_answer(io.BytesIO(answer)) == b"abcde"


def test_read_answer_refuses_another_status() -> None:
    with pytest.raises(Failure, match="500"):
        client.read_answer(io.BytesIO(b"HTTP/1.1 500 Oh\r\n\r\n"))


def test_a_failing_measurement_does_not_stop_the_others() -> None:
    def fails() -> dict[str, float]:
        raise Failure("no answer")

    results = measure.take_turns([(("w", "a"), fails), (("w", "b"), lambda: {"rate": 1.0})], rounds=2)
    assert results[("w", "a")].failures == ["no answer"] * 2
    assert results[("w", "b")].rounds == [{"rate": 1.0}] * 2


def test_robust_rows_are_chosen_by_scenario_and_by_server() -> None:
    def rows(*names: str) -> list[tuple[str, str]]:
        return [row for row, _ in robust.rows(names, launch.Setting(), robust.QUICK)]

    assert rows("heads", "single") == [("heads", "single")]
    assert rows("heads", "disk") == [(name, server) for name in ("heads", "disk") for server in OURS]
    assert {server for _, server in rows("forking")} == {"forking"}
    assert {name for name, _ in rows()} == set(robust.SCENARIOS)


def test_robust_targets_name_rows_and_limits_that_are_shown() -> None:
    rows = [row for row, _ in robust.rows((), launch.Setting(), robust.FULL)]
    assert {target.row for target in robust.targets()} == set(rows)
    for scenario in robust.ALL:
        assert {limit.column for limit in scenario.limits} <= {*scenario.columns.values(), "missing"}


@pytest.mark.parametrize("length", [200, 8_000, 9_001, 64_000])
def test_a_head_has_the_length_it_should_have(length: int) -> None:
    head = robust.head_of(length)
    assert len(head) == length and head.startswith(b"GET / HTTP/1.1\r\n") and head.endswith(b"v\r\n\r\n")
    assert head.count(b"\r\n") <= 93 and all(line.count(b": ") == 1 for line in head.split(b"\r\n")[1:-2])


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        (b"Date: a\r\n\r\nHello, World!Date: b\r\n\r\nHello, World!", ""),
        (b"X: a\r\n\r\nHello, World!X: b\r\n\r\nHello, World!", "of 2 kinds"),
        (b"X: a\r\n\r\nHello, World!X: a\r\n\r\nHello, W", "1 of 2 answers"),
    ],
    ids=["right", "unlike", "cut off"],
)
def test_pipelined_answers_are_counted_and_compared(answers: bytes, fault: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(answers)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(Failure, match=fault) if fault else contextlib.nullcontext():
            robust.read_answers(ours, 2)


def test_memory_that_grows_is_seen_although_it_shrinks_again() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", GROWS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        child.stdout.readline()
        with robust.Growth(launch.Running(child, 0)) as growth:
            child.stdin.write(b"\n")
            child.stdin.flush()
            child.stdout.readline()
            assert robust.until(lambda: growth.numbers()["growth"] > 30 << 20, 10)
            child.stdin.write(b"\n")
            child.stdin.flush()
            child.stdout.readline()
        assert 30 << 20 < growth.numbers()["growth"] < 60 << 20
    finally:
        child.kill()
        child.communicate()


def test_records_hold_no_directory_of_the_machine() -> None:
    text = "log: /home/me/.venv/bin/python3: No module; http://127.0.0.1:80/a/b; `bench/records/x`"
    assert record.without_paths(text) == "log: python3: No module; http://127.0.0.1:80/a/b; `bench/records/x`"


@pytest.mark.parametrize("module", [table, sessions], ids=lambda module: module.__name__)
def test_targets_of_the_table_and_of_sessions_name_rows_and_columns_that_are_shown(module) -> None:
    rows = {row for row, _ in module.rows((), launch.Setting(), module.QUICK)}
    targets = list(module.targets())
    assert targets and {target.row for target in targets} <= rows
    for target in targets:
        assert target.column in module.SCENARIOS[target.row[0]].columns.values()


def test_each_store_of_sessions_is_a_row() -> None:
    from poorhttp.sessions.addresses import KINDS

    kinds = {"ferretdb" if kind == "mongodb" else kind for kind in KINDS}  # as which it is labelled
    assert set(stores.STORES) == {"cookie", *kinds}
    assert [row for row, _ in sessions.rows(["redis"], launch.Setting(), sessions.QUICK)] == [("sessions", "redis")]


def test_pages_are_compared_within_a_turn() -> None:
    def turns(*cpu: float) -> list[dict[str, float]]:
        return [{"cpu": each, "wall": 2 * each} for each in cpu]

    taken = {"mine": turns(20, 50, 12), "other": turns(10, 40, 4)}
    assert table.middles(taken) == {"mine": 20, "other": 10}
    assert table.times(taken, "mine", "other") == 2
    assert table.added(taken, "mine", "other") == 10 and table.added(taken, "mine", "other", "wall") == 20


CLOSES = """
import socket, sys, threading, time
def serve(sock):
    with sock:
        while sock.recv(4096):
            sock.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 13\\r\\n\\r\\nHello, World!")
            threading.Timer(0.3, sock.shutdown, (socket.SHUT_RDWR,)).start()
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def test_connections_that_the_server_closes_are_not_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SETTLE", 0.4)
    monkeypatch.setattr(measure, "allow_descriptors", lambda _: 0)  # it is of this process, which has other tests
    server = servers.Server("closing", ("{python}", "-c", CLOSES, "{port}"), (), "")
    setting = launch.Setting(peers=sys.executable, work=tmp_path)
    with pytest.raises(Failure, match="holds only 0 of 3 idle connections"):
        measure.idle(server, setting, 0.1, 3)


def test_the_client_sends_its_cookie() -> None:
    assert b"\r\nCookie: a=B\r\n" in client.request(replace(HELLO, cookie="a=B"))


def test_a_store_that_is_not_installed_has_that_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoLibrary(stores.Memory):
        library, extra = "no_such_library", "redis"

    with pytest.raises(client.Missing, match=r"no_such_library is not installed: pip install 'poorhttp\[redis\]'"):
        sessions.session(NoLibrary, launch.Setting(), sessions.QUICK)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(client.Missing, match="memcached is not installed: apt-get install memcached"):
        sessions.session(stores.Memcached, launch.Setting(), sessions.QUICK)


MAY_MOUNT = shutil.which("unshare") and not subprocess.call(
    ["unshare", "--mount", "--map-root-user", "true"], stderr=subprocess.DEVNULL
)
NEEDS_MOUNT = pytest.mark.skipif(not MAY_MOUNT, reason="needs `unshare --mount --map-root-user`")
TINY = replace(robust.QUICK, connects=300, transfer=1 << 23, stall=0.2, pieces=1 << 12, requests=2000, resets=30)


@pytest.mark.parametrize(
    "name",
    ["full", "descriptors", "reset", "upload", "chunked", "download", "written", "file", pytest.param("disk", marks=NEEDS_MOUNT),
     "chunks", "head", "pipeline", "unread"],
)  # fmt: skip
def test_a_scenario_in_small_gives_the_numbers_that_are_judged(name: str, tmp_path: Path) -> None:
    numbers = robust.SCENARIOS[name].measure(SERVERS["single"], launch.Setting(work=tmp_path), TINY)
    for limit in robust.SCENARIOS[name].limits:
        assert isinstance(numbers[limit.column], (int, float))


def needs(name: str, package: str) -> pytest.MarkDecorator:
    missing = not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    return pytest.mark.skipif(missing, reason=f"needs {name}: apt-get install {package}")


@needs("cc", "gcc")
@pytest.mark.parametrize(
    "name",
    [pytest.param("light", marks=needs("wrk", "wrk")), "patterns", "cookie",
     pytest.param("file-tally", marks=needs("nginx", "nginx"))],
)  # fmt: skip
def test_a_scenario_of_the_table_in_small_gives_the_numbers_that_are_shown(name: str, tmp_path: Path) -> None:
    launch.compile_c("tally")
    scenario = table.SCENARIOS[name]
    numbers = scenario.measure(SERVERS["single"], launch.Setting(work=tmp_path), table.Size(1, 0.1))
    for column in scenario.columns.values():
        assert numbers[column.removeprefix("~")] > 0


@needs("cc", "gcc")
@pytest.mark.parametrize("kind", [stores.Cookie, stores.Sqlite, stores.Redis], ids=lambda kind: kind.__name__)
def test_a_store_in_small_gives_the_numbers_that_are_shown(kind: type[stores.Store], tmp_path: Path) -> None:
    launch.compile_c("tally")
    try:
        numbers = sessions.session(kind, launch.Setting(work=tmp_path), sessions.Size(1, 0.2))
    except client.Missing as missing:
        pytest.skip(str(missing))
    of_redis = {"get cpu", "read times", "write times"}
    shown = {column.removeprefix("~") for column in sessions.SCENARIOS["sessions"].columns.values()}
    assert shown - of_redis <= numbers.keys() and (of_redis <= numbers.keys()) is (kind is stores.Redis)


def test_another_build_and_the_peers_have_their_own_interpreters(tmp_path: Path) -> None:
    setting = launch.Setting(python="/this/python", before="/before/python", peers="/peers/python", work=tmp_path)
    workload = WORKLOADS["flask"]

    def words(name: str) -> list[str]:
        return launch.fill(SERVERS[name], workload, setting, 8080)

    assert with_before(["single", "bjoern"]) == ["single", "single-before", "bjoern"]
    assert [words("threading")[0], words("threading-before")[0]] == ["/this/poorhttp", "/before/poorhttp"]
    assert words("threading")[1:] == words("threading-before")[1:]
    assert words("threading")[-1] == "16" and "--threads=8" in words("waitress")
    assert words("waitress")[0] == "/peers/python"
    assert launch.environment(ours=True)["PYTHONPATH"] == str(launch.APPS), "the checkout hides what is installed"


@pytest.mark.parametrize(("threads", "pool"), [(1, "0"), (8, "8")])
def test_a_server_of_one_thread_has_none_beside_that_of_the_loop(threads: int, pool: str, tmp_path: Path) -> None:
    command = launch.fill(SERVERS["m0serve"], replace(HELLO, threads=threads), launch.Setting(work=tmp_path), 8080)
    assert command[command.index("--blocking-threads") + 1] == pool


def test_the_expected_answer_needs_no_poorhttp_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(
        launch.ROOT / "poorhttp", tmp_path / "poorhttp", ignore=shutil.ignore_patterns("_engine*", "__pycache__")
    )
    monkeypatch.setattr(launch, "ROOT", tmp_path)
    venv.create(tmp_path / "peer", symlinks=True)
    setting = launch.Setting(python=str(tmp_path / "peer" / "bin" / "python"))
    assert launch.expected(WORKLOADS["light"], setting)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
@pytest.mark.parametrize("name", ["hello", "pipelined", "close", "answer1m", "post10k", "json1k", "file"])
def test_the_bare_loop_answers_as_each_workload_asks(name: str, tmp_path: Path) -> None:
    launch.compile_c("bare")
    with launch.running(SERVERS["bare"], WORKLOADS[name], launch.Setting(work=tmp_path)) as run:
        assert run.remark == ""
    assert run.process.returncode is not None


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
@pytest.mark.parametrize("close", [False, True], ids=["keep", "close"])
def test_a_tally_counts_what_each_client_gets(close: bool, tmp_path: Path) -> None:
    launch.compile_c("bare")
    launch.compile_c("tally")
    workload = replace(HELLO, connections=3, long=2, tally=True, close=close)
    with launch.running(SERVERS["bare"], workload, launch.Setting(work=tmp_path)) as run:
        numbers = load.run(run.port, workload, HELLO.answer, 0.2)
        assert numbers["rate"] > 50 and numbers["long"] > 50 and 0 < numbers["least"] <= 100
        assert 0 < numbers["p50"] <= numbers["p99"] <= numbers["p99.9"]
        with pytest.raises(Failure, match=r"wrong answer; its bytes \(13\)"):
            load.run(run.port, workload, b"Hello, Moon!!", 0.2)
    with pytest.raises(Failure, match="cannot connect"):
        load.run(run.port, workload, HELLO.answer, 0.2)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
def test_a_tally_waits_for_the_answers_that_are_due(tmp_path: Path) -> None:
    """A request that starves counts with its whole time, and its client with no answer."""

    def answer_late(server: socket.socket) -> None:
        with server.accept()[0] as one, server.accept()[0] as other:
            time.sleep(0.3)
            for sock in (one, other):
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
            one.recv(100), other.recv(100)  # closed with nothing unread, the answers arrive

    launch.compile_c("tally")
    with socket.create_server(("127.0.0.1", 0)) as server:
        late = threading.Thread(target=answer_late, args=(server,))
        late.start()
        asks = ("1", "GET / HTTP/1.1\r\n\r\n", "1", "GET /long HTTP/1.1\r\n\r\n")
        done = subprocess.run(
            [launch.BUILD / "tally", str(server.getsockname()[1]), "0.1", *asks],
            input=b"OK", capture_output=True, timeout=20, check=True,
        )  # fmt: skip
        late.join()
    data = json.loads(done.stdout)
    assert data["answers"] == data["others"] == [0] and data["p50"] > 250


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
@pytest.mark.parametrize("name", ["flask", "django", "mixed"])
def test_a_workload_of_clients_in_small_gives_the_numbers_that_are_judged(name: str, tmp_path: Path) -> None:
    launch.compile_c("tally")
    workload, setting = WORKLOADS[name], launch.Setting(work=tmp_path)
    numbers = measure.cost(SERVERS["threading"], workload, setting, 0.3)
    assert {target.column for target in COST if target.row[0] == name} <= numbers.keys()
    assert (
        numbers["core"] > 0
        and "least" in numbers
        and ("long" in numbers) is (name == "mixed") is ("cpu" not in numbers)
    )
    assert launch.expected(workload, setting).count(b"<tr class=") == (0 if name == "mixed" else 20)


def test_a_free_port_is_for_who_asks_for_it_by_number() -> None:
    port = launch.free_port()
    with socket.socket() as careless, pytest.raises(OSError, match="in use"):
        careless.bind(("127.0.0.1", port))
    socket.create_server(("127.0.0.1", port)).close()  # sets SO_REUSEADDR
