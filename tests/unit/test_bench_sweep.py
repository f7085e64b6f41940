"""Many connections: what a run of wrk is worth, which clients wait in vain, the order of a round, the limit of memory."""

import argparse
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import confine, launch, load, proc, report, sweep, sweep_report
from bench.__main__ import parse
from bench.client import Failure, Missing
from bench.report import Result
from bench.servers import OURS, SERVERS, members
from bench.sweep import row_name
from bench.workloads import WORKLOADS, Target

TAIL = [0.010] * 50 + [0.020] * 50 + [0.500]  # percentiles 99.00 to 100.00, seconds
CLIENTS = 100


def of_wrk(requests: int = 10_000, size: int = 10_000 * 100, **errors: int) -> dict[str, Any]:
    counts = {"connect": 0, "read": 0, "write": 0, "status": 0, "timeout": 0, **errors}
    return {"requests": requests, "bytes": size, "seconds": 2.0, "p50": 0.001, "p99": 0.010, "tail": TAIL,
            "errors": counts}  # fmt: skip


def judged(silences: list[float] | None = None, **told: int) -> dict[str, Any]:
    workload = replace(WORKLOADS["hello"], connections=CLIENTS)
    return sweep.judged(of_wrk(**told), [0.0] * CLIENTS if silences is None else silences, workload, 13, waited=2.0)


def arguments(*words: str, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    monkeypatch.setattr(sys, "argv", ["bench", "sweep", *words])
    return parse()


def test_a_run_without_faults() -> None:
    numbers = judged()
    assert (numbers["rate"], numbers["p50"], numbers["p99"]) == (5000, 1.0, 10.0)
    assert numbers["errors"] == numbers["unserved"] == 0


def test_a_client_is_unserved_if_it_has_nothing_for_half_of_the_run_or_no_connection() -> None:
    assert judged([0.9, 1.0, 1.9] + [0.0] * 97)["unserved"] == 2
    assert judged([0.0] * 90, connect=500)["unserved"] == 10
    assert judged([0.0] * CLIENTS, connect=500)["unserved"] == 0, "wrk has tried again"


def test_an_error_page_is_no_answer() -> None:
    numbers = judged(status=4000, read=7)
    assert (numbers["requests"], numbers["rate"]) == (6000, 3000)
    assert (numbers["errors"], numbers["remark"]) == (4007, "read errors, status errors")


@pytest.mark.parametrize(
    ("silences", "told", "reason"),
    [
        ([1.9] * CLIENTS, {"requests": 0}, "no right answer: 0 right answers, 100 of 100 clients wait"),
        ([0.0] * CLIENTS, {"status": 10_000}, "no right answer: .* errors: status 10,000"),
        ([1.9] * CLIENTS, {"requests": 100}, r"no answer in the last 1\.0 s: 100 right answers, 100 of 100"),
        ([], {"connect": CLIENTS, "requests": 1}, "no answer in the last"),
        ([0.0] * CLIENTS, {"size": 129_999}, "129,999 bytes are too few"),
    ],
    ids=["dead", "refusing", "stalled", "unreachable", "short"],
)
def test_a_dead_run_is_a_failure_with_a_reason(silences: list[float], told: dict[str, int], reason: str) -> None:
    with pytest.raises(Failure, match=reason):
        judged(silences, **told)


def test_what_has_no_answer_is_in_the_percentile() -> None:
    answers = [random.Random(1).expovariate(100) for _ in range(20_000)]
    tail = [report.percentile(answers, 99 + i / 100) for i in range(101)]
    for count in (0, 50, 150, 300, 5000):
        silent = [1.0 + i / count for i in range(count)]
        exact = report.percentile(answers + silent, 99)
        assert sweep.percentile_99(tail, len(answers), silent) == pytest.approx(exact, rel=0.03), count


def test_each_round_has_its_own_order_of_servers_and_the_same_seed_gives_it_again() -> None:
    rows = [((name, server), dict) for name in ("kept 100", "kept 200") for server in "abcdefgh"]
    first, again, second, other = (sweep.shuffled(*each, rows) for each in ((1, 1), (1, 1), (1, 2), (2, 1)))
    assert first == again and first != second != other != first
    for order in (first, second, other):
        assert sorted(row for row, _ in order) == [row for row, _ in rows]
        assert [row[0] for row, _ in order] == [row[0] for row, _ in rows], "connections come as they were given"


def test_rows_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(*words: str) -> list[tuple[str, str]]:
        return [row for row, _ in sweep.rows(arguments(*words, monkeypatch=monkeypatch), launch.Setting())]

    assert rows("--only", "single", "--mode", "closed", "--connections", "7", "9", "7") == [
        ("closed 7", "single"), ("closed 9", "single")]  # fmt: skip
    assert {row[0] for row in rows()} == {f"{mode} {n}" for mode in ("kept", "closed") for n in sweep.CONNECTIONS}
    quick = rows("--quick")
    assert {row[0].split()[1] for row in quick} == {"100", "1000", "10000"}
    assert {server for _, server in quick} == set(members("sweep"))
    with pytest.raises(SystemExit):
        rows("--connections", "1")


def test_the_time_grows_with_the_connections() -> None:
    assert [sweep.longer(5, count) for count in (100, 2500, 5000, 10_000)] == [5, 5, 10, 20]


def test_the_six_servers_of_the_article_are_there_as_they_were_and_corrected() -> None:
    named = {"bjoern", "cherrypy", "gunicorn", "meinheld", "mod-wsgi", "uwsgi"}
    assert set(members("as in the article")) == {f"{name}-article" for name in named}
    assert named <= set(sweep_report.PEERS) and not set(sweep_report.PEERS) & {*OURS, *sweep.BY_ARTICLE, "bare"}
    assert set(sweep.BY_ARTICLE) <= set(members("sweep"))


def test_targets_name_rows_and_columns_that_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    words = arguments("--quick", monkeypatch=monkeypatch)
    rows = {row for row, _ in sweep.rows(words, launch.Setting())}
    targets = list(sweep_report.targets())
    assert {row for target in targets for row in (target.row, *target.over)} <= rows
    assert {target.column for target in targets} <= set(sweep_report.COLUMNS.values())


def test_a_target_leaves_out_peers_that_failed_and_takes_the_largest_where_more_is_better() -> None:
    target = Target("rate", ("w", "single"), "rate", ">=", 1.0, over=(("w", "a"), ("w", "b"), ("w", "dead")))
    results = {("w", "single"): Result([{"rate": 90}]), ("w", "a"): Result([{"rate": 100}]),
               ("w", "b"): Result([{"rate": 50}]), ("w", "dead"): Result([], ["no right answer"])}  # fmt: skip
    assert report.verdict(target, results) == "FAILED"
    lenient = replace(target, leaves_out_failed=True)
    assert report.measured(lenient, results) == pytest.approx(0.9) and report.verdict(lenient, results) == "MISSED"
    assert report.verdict(lenient, results | {("w", "single"): Result([], ["ended"])}) == "FAILED"
    assert report.verdict(lenient, {("w", "single"): Result([{"rate": 90}])}) == "not run"


def test_tables_tell_how_far_ahead_and_why_not_there() -> None:
    def numbers(rate: float, unserved: int = 0) -> Result:
        return Result([{"rate": rate, "p99": 2.0, "unserved": unserved, "errors": 0, "alone": 1 << 20}])

    name = row_name("kept", 100)
    results = {(name, "single"): numbers(110), (name, "bjoern"): numbers(100, 1), (name, "granian"): numbers(200, 2),
               (name, "weft"): Result([], ["cannot be imported"]), (name, "meinheld"): Result(remark="not installed"),
               (name, "bjoern-article"): numbers(500)}  # fmt: skip
    overview, rows = sweep_report.sections(results)
    assert overview.startswith("## kept: ") and rows.startswith("## kept 100: ")
    assert re.search(r"\| 100 +\| single +\| 1\.10 x bjoern +\| 1 x bjoern ", overview)
    assert "granian 0" not in overview, "it leaves more than one client in a hundred unserved"
    target = next(each for each in sweep_report.targets() if each.row == (name, "single") and each.column == "rate")
    assert report.measured(target, results) == pytest.approx(1.1)
    assert "| weft           | failed |" in overview and "**FAILED** in 1 of 1 rounds: cannot be imported" in rows
    assert any("| meinheld " in line and "not installed" in line for line in rows.splitlines())
    alone = {row: result for row, result in results.items() if row[1] in ("single", "granian")}
    assert re.search(r"\| 100 +\| single +\| no peer serves ", next(sweep_report.sections(alone)))


def test_a_server_that_is_not_installed_has_that_in_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "allow_descriptors", lambda _: 0)  # it is of this process, which has other tests
    setting = launch.Setting(peers=str(tmp_path / "python"), work=tmp_path)
    with pytest.raises(Missing, match="make bench-peers"):
        sweep.measure(SERVERS["bjoern"], replace(WORKLOADS["hello"], name="kept 2", connections=2), setting, 1)


def test_wrk_is_told_how_long_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load.shutil, "which", lambda _: "wrk")
    command = load.wrk_command(80, replace(WORKLOADS["hello"], close=True, connections=7), 3, 2, 13)
    assert {"-t2", "-c7", "-d3s", "13s", "Connection: close"} <= set(command)
    monkeypatch.setattr(load.shutil, "which", lambda _: None)
    with pytest.raises(Missing, match="wrk is not installed"):
        load.wrk_command(80, WORKLOADS["hello"], 3)


def test_wrk_without_a_result_is_a_failure() -> None:
    assert load.result_of_wrk(f"noise\nBENCH {json.dumps(of_wrk())}\n") == of_wrk()
    with pytest.raises(Failure, match="wrk gave no result: unable to connect"):
        load.result_of_wrk("unable to connect")


@pytest.mark.parametrize(
    ("printed", "reason"),
    [("unable to connect", "wrk gave no result: unable to connect"),
     (f"BENCH {json.dumps(of_wrk())}", r"wrk had ended before the kernel was asked for its clients, which was 0\.\d s late")],
    ids=["dead", "late"],
)  # fmt: skip
def test_clients_are_looked_at_while_wrk_runs(printed: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", f"print({printed!r})"]
    monkeypatch.setattr(load, "wrk_command", lambda *_, **__: command)
    with subprocess.Popen(["sleep", "60"]) as server, socket.create_server(("127.0.0.1", 0)) as listener:
        try:
            with pytest.raises(Failure, match=reason):
                sweep.under_load(
                    launch.Running(server, listener.getsockname()[1]), WORKLOADS["hello"], b"Hello, World!", 1
                )
        finally:
            server.kill()


def test_clients_without_an_answer_are_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert proc.silences(port) == []
        where = ("127.0.0.1", port)
        with (socket.create_connection(where), server.accept()[0],
              socket.create_connection(where) as client, server.accept()[0] as serving):  # fmt: skip
            deadline = time.monotonic() + 10
            while min(proc.silences(port)) < 0.3 and time.monotonic() < deadline:
                time.sleep(0.02)
            serving.send(b"x")
            client.recv(1)
            served, other = sorted(proc.silences(port))
            assert other >= 0.3 and other - served >= 0.25, "however late this is looked at"


def test_a_connection_that_has_not_come_about_counts_the_tries() -> None:
    def message(state: int, tries: int, attributes: bytes = b"") -> bytes:
        body = struct.pack("=BBBB", 2, state, 0, tries) + bytes(68) + attributes
        return struct.pack("=IHHII", 16 + len(body), proc.BY_FAMILY, 2, 0, 0) + body

    info = bytes(proc.LAST_RECEIVED) + struct.pack("=I", 2500) + bytes(80)
    attributes = struct.pack("=HHI", 8, 1, 0) + struct.pack("=HH", 4 + len(info), proc.TCP_INFO) + info
    part = message(proc.CONNECTING, 3) + message(proc.ESTABLISHED, 0, attributes)
    assert proc.parse_silences(part) == ([3.0, 2.5], False)
    assert proc.parse_silences(struct.pack("=IHHIII", 20, 3, 2, 0, 0, 0)) == ([], True)


MAY_CONFINE = not confine.fact().startswith("not limited")
NEEDS_GROUP = pytest.mark.skipif(not MAY_CONFINE, reason="needs a control group that can be written")


@NEEDS_GROUP
def test_a_server_that_needs_more_memory_is_killed_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "MEBIBYTES", 24)
    with confine.limited() as group:
        assert group
        small = [*group.command(), sys.executable, "-c", "pass"]
        assert subprocess.run(small, timeout=30, check=False).returncode == 0
        confine.ensure_enough(group)
        large = [*group.command(), sys.executable, "-c", "b'x' * (100 << 20)"]
        assert subprocess.run(large, timeout=30, check=False).returncode == -9
        with pytest.raises(Failure, match="the kernel killed 1 of its processes: 24 MiB were not enough"):
            confine.ensure_enough(group)
    assert not group.path.exists()


@NEEDS_GROUP
def test_what_is_left_in_a_group_is_ended_with_it() -> None:
    with confine.limited() as group:
        assert group
        left = subprocess.Popen([*group.command(), "sleep", "60"], start_new_session=True)
        deadline = time.monotonic() + 10
        while str(left.pid) not in (group.path / "cgroup.procs").read_text().split():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert left.wait(10) == -9 and not group.path.exists()


def test_without_a_control_group_nothing_is_limited_and_that_is_told(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()  # of version 1
    with confine.limited(tmp_path) as group:
        assert group is None
    assert confine.fact(tmp_path) == "not limited: no control group can be written (no group has a limit of memory)"
    assert not list(tmp_path.rglob("bench-*"))


def test_a_group_that_cannot_limit_leaves_it_to_the_next_one_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As version 2 has it for the group of a login, whose own processes are in it."""
    (tmp_path / "own").write_text("0::/user/login\n")
    monkeypatch.setattr(confine, "OWN", tmp_path / "own")
    (tmp_path / "user" / "login").mkdir(parents=True)
    group = tmp_path / "user" / f"bench-{os.getpid()}"
    group.mkdir()
    (group / "memory.max").write_text("max")
    assert confine._made(tmp_path) == confine.Group(group)
    assert (group / "memory.max").read_text() == str(512 << 20) and not list((tmp_path / "user" / "login").iterdir())


def test_a_group_that_a_killed_bench_has_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    _, parent = confine._own(tmp_path)
    abandoned, living = parent / "bench-99999999", parent / "bench-1"
    abandoned.mkdir()
    living.mkdir()
    assert confine.fact(tmp_path).startswith("not limited")
    assert not abandoned.exists() and living.exists()


def test_the_record_tells_the_seed_and_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "allow_descriptors", lambda _: 20_000)
    facts = sweep.facts(arguments("--seed", "7", monkeypatch=monkeypatch))
    assert facts["seed of the order"] == 7 and facts["open files"] == "at most 20000 for each process"
    told = "512 MiB for each server" if MAY_CONFINE else "not limited"
    assert facts["CPUs of the servers"] == "0 and 1" and str(facts["memory of the servers"]).startswith(told)


def test_machines_with_four_processors_leave_the_servers_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep.os, "cpu_count", lambda: 4)
    assert sweep.load_cores() == (2, 3)
    monkeypatch.setattr(sweep.os, "cpu_count", lambda: 2)
    assert sweep.load_cores() == (1,)
