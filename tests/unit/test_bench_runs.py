"""Long runs of the bench: how far they are, what is missing, what an interrupted one leaves, and how it goes on."""

import argparse
import contextlib
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import __main__, launch, measure, progress, record, report, runs
from bench.__main__ import resume
from bench.client import Failure, Missing
from bench.report import Result
from bench.servers import SERVERS
from bench.workloads import WORKLOADS, Target

FACTS = {"date": "2026-11-28 10:00:00 +0000", "command": "python -m bench cost", "cpu": "one",
         "servers": {"single": {"version": "1"}}}  # fmt: skip
PARTIAL = {**FACTS, "partial": "ended by Ctrl-C after 1 of 4 measurements"}
ROWS = [("hello", "single"), ("hello", "bare"), ("flask", "single")]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "RECORDS", tmp_path / "records")
    return tmp_path / "records"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_the_time_left_is_that_of_the_row_or_its_workload_or_all(clock: list[float]) -> None:
    stream = io.StringIO()
    shown = progress.Progress([*ROWS, *ROWS], stream)
    for seconds in (10, 30, 80, 12):
        with shown.measuring("a row"):
            clock[0] += seconds
    lines = stream.getvalue().splitlines()
    assert lines[0] == "a row; 1 of 6" and shown.left() == 30 + 80
    assert lines[1].startswith("a row; 2 of 6, 50 s left, until "), "each row as the first"
    assert lines[2].startswith("a row; 3 of 6, 1 min 20 s left, until "), "unknown: 20; then 10, 30, 20"


@pytest.mark.parametrize("has_rich", [True, False])
def test_a_terminal_shows_one_line(has_rich: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if has_rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    ours, its = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with open(its, "w") as terminal:
        shown = progress.Progress(ROWS, terminal)
        with shown.measuring("round 1 of 1: hello, single"):
            pass
        shown.end()
    text = ""
    with open(ours, "rb", buffering=0) as screen, contextlib.suppress(OSError):  # as a terminal that is closed ends
        while part := screen.read(10_000):
            text += part.decode()
    assert "round 1 of 1: hello, single; 1 of 3" in text and ("━" in text) is has_rich
    assert re.fullmatch(r".*left.*|.*1 of 3(\s|\x1b\[\?25h|\x1b\[\d?[AK])+", text, re.DOTALL), "nothing of it stays"


def test_a_terminal_that_was_closed_voids_no_measurement() -> None:
    with open("/dev/full", "w") as stream:
        shown = progress.Progress(ROWS, stream)
        for _ in ROWS:
            with shown.measuring("a row"):
                pass
        shown.end()
        with contextlib.suppress(OSError):
            stream.close()


STORE = """
import time; from bench import stores
try:
    store = stores.Redis()
    print(store.process.pid, store.directory, flush=True)
    time.sleep(60)
except stores.Missing as missing:
    print(missing)
"""


def test_a_store_ends_with_a_bench_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", STORE], cwd=launch.ROOT, stdout=subprocess.PIPE, text=True) as bench:
        try:
            pid, _, directory = bench.stdout.readline().strip().partition(" ")
            if not launch.ENDS_WITH_US or not pid.isdigit():
                pytest.skip(
                    f"{pid} {directory}" if launch.ENDS_WITH_US else "needs setpriv: apt-get install util-linux"
                )
            store = psutil.Process(int(pid))
        finally:
            bench.kill()
    left = psutil.wait_procs([store], timeout=20)[1]  # it saves its data first, and does not end if it cannot
    for process in left:
        process.kill()
    shutil.rmtree(directory, ignore_errors=True)
    assert not left


LEAVES = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_server_is_ended_with_what_has_left_its_session() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        child = psutil.Process(int(server.stdout.readline()))
        launch.stop(server)
    assert psutil.wait_procs([child], timeout=10)[1] == []


def test_what_is_measured_already_is_not_measured_again(capsys: pytest.CaptureFixture[str]) -> None:
    results = {ROWS[0]: Result([{"rate": 1.0}]), ROWS[1]: Result([], ["dead"])}
    rows = [(row, lambda: {"rate": 2.0}) for row in ROWS]
    assert measure.take_turns(rows, 2, results) is results
    assert results[ROWS[0]].rounds == [{"rate": 1.0}, {"rate": 2.0}]
    assert (results[ROWS[1]].rounds, results[ROWS[1]].failures) == ([{"rate": 2.0}], ["dead"])
    assert len(results[ROWS[2]].rounds) == 2
    assert capsys.readouterr().err.splitlines()[0] == "round 1 of 2: flask, single; 1 of 4"


def test_an_interrupted_run_keeps_what_it_has() -> None:
    def interrupted() -> dict[str, float]:
        raise KeyboardInterrupt

    results: dict[tuple[str, str], Result] = {}
    with pytest.raises(KeyboardInterrupt):
        measure.take_turns([(ROWS[0], lambda: {"rate": 1.0}), (ROWS[1], interrupted)], 2, results)
    assert results == {ROWS[0]: Result([{"rate": 1.0}]), ROWS[1]: Result()}


@pytest.mark.parametrize("fault", [subprocess.TimeoutExpired("x", 30), psutil.AccessDenied(1), OSError(5, "x")])
def test_what_goes_wrong_in_a_measurement_is_a_failure_of_its_row(fault: Exception) -> None:
    def broken() -> dict[str, float]:
        raise fault

    results = measure.take_turns([(ROWS[0], broken), (ROWS[1], lambda: {"rate": 1.0})], 1)
    assert results[ROWS[0]].failures == [str(fault)] and results[ROWS[1]].rounds == [{"rate": 1.0}]


def test_a_remark_of_one_round_stays() -> None:
    told = iter(["ended early", ""])
    results = measure.take_turns([(ROWS[0], lambda: {"rate": 1.0, "remark": next(told)})], 2)
    assert results[ROWS[0]].remark == "ended early"


def of_start(monkeypatch: pytest.MonkeyPatch, *rows: tuple[tuple[str, str], Callable[[], dict[str, float]]]) -> int:
    """Run the bench's `start` with these rows; gives its exit status."""
    monkeypatch.setattr(__main__, "SIGNALS", ())
    monkeypatch.setattr(record, "surroundings", lambda *_: {**FACTS, "servers": {}})
    monkeypatch.setitem(__main__.COMMANDS, "start", (lambda *_: iter(rows), lambda _: ["a section"], ()))
    arguments = argparse.Namespace(command="start", quick=False, no_record=False, record=None, resume=None, rounds=1,
                                   only=None)  # fmt: skip
    return __main__.run(arguments, launch.Setting())


def test_a_fault_of_the_bench_leaves_what_was_measured(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> dict[str, float]:
        raise KeyError("nonsense")

    assert of_start(monkeypatch, (ROWS[0], lambda: {"rate": 1.0}), (ROWS[1], broken), (ROWS[2], broken)) == 1
    (path,) = records.glob("*/start-partial.json")
    _, facts, results = record.read_partial(str(path))
    assert facts["partial"] == "ended by KeyError('nonsense') after 1 of 3 measurements"
    assert results[ROWS[0]].rounds == [{"rate": 1.0}]
    assert "Traceback" in capsys.readouterr().err


def test_a_run_of_nothing_is_refused(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failure, match="nothing to measure"):
        of_start(monkeypatch)
    assert not records.exists()
    for rounds in ("0", "-1"):
        monkeypatch.setattr(sys, "argv", ["bench", "start", "--rounds", rounds])
        with pytest.raises(SystemExit):
            __main__.parse()


def test_what_is_not_installed_is_a_remark_and_no_number() -> None:
    def missing() -> dict[str, float]:
        raise Missing("wrk", "apt-get install wrk")

    results = measure.take_turns([(ROWS[0], missing)], 2)
    assert results[ROWS[0]] == Result(remark="wrk is not installed: apt-get install wrk")
    assert report.verdict(Target("text", ROWS[0], "rate", ">=", 1), results) == "not run"
    line = report.result_table(results, "hello", {"req/s": "rate"}).splitlines()[2]
    assert [cell.strip() for cell in line.split("|")[1:-1]] == ["single", report.ABSENT, results[ROWS[0]].remark]


def test_a_peer_that_is_not_installed_is_named(tmp_path: Path) -> None:
    venv.create(tmp_path / "peers", symlinks=True)
    for python, what in ((tmp_path / "none", f"the Python of the peers, {tmp_path}/none,"),
                         (tmp_path / "peers" / "bin" / "python", "bjoern")):  # fmt: skip
        setting = launch.Setting(peers=str(python), work=tmp_path)
        with pytest.raises(Missing) as caught, launch.running(SERVERS["bjoern"], WORKLOADS["hello"], setting):
            pass
        assert str(caught.value) == f"{what} is not installed: make bench-peers"
    of_python = replace(SERVERS["bjoern"], packages=(), version=("{python}", "--version"))  # as servers.ini may have it
    with pytest.raises(Missing, match="the Python of the peers"):
        launch.ensure_installed(of_python, WORKLOADS["hello"], launch.Setting(peers=str(tmp_path / "none")))


def test_what_an_application_imports_is_named_if_it_is_not_installed(tmp_path: Path) -> None:
    venv.create(tmp_path / "ours", symlinks=True)
    setting = launch.Setting(python=str(tmp_path / "ours" / "bin" / "python"), work=tmp_path)
    with pytest.raises(Missing, match=r"flask is not installed: pip install -e '\.\[bench\]'"):
        launch.expected(WORKLOADS["flask"], setting)


def test_each_debian_package_that_a_message_names_is_installed_by_make() -> None:
    listed = (launch.HERE / "systems.txt").read_text().splitlines()
    listed = {word for line in listed if not line.startswith("#") for word in line.split()}
    code = "".join(path.read_text() for path in launch.HERE.glob("*.py"))
    named = {word for found in re.findall(r'apt-get install ([a-z0-9 -]+)"', code) for word in found.split()}
    named |= set(re.findall(r'program\("[a-z-]+", "([a-z-]+)"', code))
    assert named >= {"wrk", "redis-server", "mariadb-server"} and named <= listed


def test_a_partial_record_is_read_as_it_was_written(records: Path) -> None:
    results = {ROWS[0]: Result([{"rate": 1.5}], ["dead"], "remark"), ROWS[1]: Result()}
    path = record.write("cost-partial", PARTIAL, results, "text")
    assert record.read_partial(runs.identity(path)) == (path.with_suffix(".json"), PARTIAL, results)
    assert record.read_partial(str(path.with_suffix(".json")))[2] == results
    taken: dict[tuple[str, str], Result] = {row: Result() for row in ROWS}
    facts = {**FACTS, "date": "2026-11-29"}
    assert resume(runs.identity(path), facts, taken) == path.with_suffix(".json")
    assert list(taken) == ROWS and taken == {**results, ROWS[2]: Result()}
    assert facts["resumed"] == "begun 2026-11-28 10:00:00 +0000, ended by Ctrl-C after 1 of 4 measurements"
    record.remove(path)
    assert not list(records.rglob("*.*"))


@pytest.mark.parametrize(
    ("facts", "rows", "what"),
    [
        ({**FACTS, "cpu": "two"}, ROWS, "cpu was one, and is two"),
        ({**FACTS, "seconds": 5.0}, ROWS, "seconds was None, and is 5.0"),
        ({**FACTS, "servers": {"single": {"version": "2"}}}, ROWS, "single was .*'1'.*, and is .*'2'"),
        (FACTS, ROWS[1:], "has the row hello, single, which is not measured here; its command: python -m bench cost"),
    ],
)
def test_a_record_that_does_not_fit_is_refused(facts: dict, rows: list, what: str, records: Path) -> None:
    path = record.write("cost-partial", PARTIAL, {ROWS[0]: Result([{"rate": 1.0}])}, "text")
    with pytest.raises(Failure, match=what):
        resume(runs.identity(path), facts, {row: Result() for row in rows})


@pytest.mark.parametrize(
    ("text", "what"),
    [(None, "no such file, here or in bench/records"), ("{", "not a record of the bench"), ("[]", "not a record"),
     (json.dumps({"surroundings": FACTS, "results": []}), "that run was not interrupted"),
     (json.dumps({"surroundings": PARTIAL, "results": [{"workload": "a"}]}), "not a record of the bench")],
)  # fmt: skip
def test_what_is_no_partial_record_is_refused(text: str | None, what: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "x.json").write_text(text)
    with pytest.raises(Failure, match=what):
        record.read_partial(str(tmp_path / "x"))


RUN = """
import sys; from pathlib import Path
from bench import __main__, record
record.RECORDS = Path(sys.argv.pop(1))
sys.exit(__main__.main())
"""


def run(records: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", RUN, str(records), "start", "--only", "single", "threading", *options]
    return subprocess.Popen(command, cwd=launch.ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def family(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_was_interrupted_is_resumed(signum: int, tmp_path: Path) -> None:
    records = tmp_path / "records"
    first = run(records, "--rounds", "1000")
    lines: list[str] = []
    while not any("2 of 1000: start, single" in line for line in lines):
        lines.append(first.stderr.readline())
        assert lines[-1]
    wait(lambda: bool(family(first.pid)))
    left = family(first.pid)
    first.send_signal(signum)
    output, errors = first.communicate(timeout=30)
    assert first.returncode == 1 and "# start, PARTIAL" in output and "Traceback" not in errors
    assert "the same command goes on with --resume" in errors and not psutil.wait_procs(left, timeout=5)[1]
    (path,) = records.glob("*/start-partial.json")
    data = json.loads(path.read_text())
    told = "Ctrl-C" if signum == signal.SIGINT else "SIGTERM"
    assert data["surroundings"]["partial"] in (
        f"ended by {told} after {count} of 2000 measurements" for count in (2, 3)
    )
    second = run(records, "--rounds", "2", "--resume", f"{path.parent.name}/{path.stem}")
    output, errors = second.communicate(timeout=60)
    assert second.returncode in (0, 1) and "round 1 of 2" not in errors, errors
    (path,) = records.glob("*/*.json")
    data = json.loads(path.read_text())
    assert path.stem == "start" and "partial" not in data["surroundings"]
    assert [len(row["rounds"]) for row in data["results"]] == [2, 2]
