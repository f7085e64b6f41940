"""The bench's comparison of 2010: its clients by servers that misbehave, its formulas, its tables and its pictures."""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib
import psutil
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import (
    apache,
    article,
    article_memory,
    article_report,
    charts,
    client,
    front,
    launch,
    record,
    report,
    visits,
)
from bench.article_2010 import ENDED_EARLY, PRINTED
from bench.client import Failure
from bench.launch import Setting
from bench.report import ABSENT, Result
from bench.servers import OURS, SERVERS

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
PAGE = b"<p>It is 10:00:00</p>"
NEEDS_CC = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler: apt-get install gcc")
NEEDS_LIGHTTPD = pytest.mark.skipif(
    not shutil.which("lighttpd", path=front.PLACES), reason="lighttpd is not installed: apt-get install lighttpd"
)
NEEDS_APACHE = pytest.mark.skipif(
    not (shutil.which("apache2", path=front.PLACES) and (apache.MODULES / "mod_python.so").exists()),
    reason="mod_python is not installed: apt-get install apache2 libapache2-mod-python",
)


@pytest.fixture(scope="module", autouse=True)
def programs() -> None:
    if shutil.which("cc"):
        launch.compile_c("bare")
        launch.compile_c("visits")


@pytest.fixture
def answering() -> Iterator[Callable[..., int]]:
    """A server that gives each connection these parts, waits between them, and closes; gives its port."""
    with contextlib.ExitStack() as stack:

        def start(*parts: bytes, pause: float = 0.0, most: int = 1 << 30) -> int:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1000))
            thread = threading.Thread(target=serve, args=(listener, parts, pause, most), daemon=True)
            thread.start()
            stack.callback(thread.join, 10)
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
            return int(listener.getsockname()[1])

        def serve(listener: socket.socket, parts: tuple[bytes, ...], pause: float, most: int) -> None:
            kept = []
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    if most <= 0:
                        kept.append(sock)
                        continue
                    most -= 1
                    with sock:
                        sock.recv(4096)
                        for i, part in enumerate(parts):
                            time.sleep(pause if i else 0)
                            sock.sendall(part)
            for sock in kept:
                sock.close()

        yield start


@NEEDS_CC
def test_the_serial_client_gives_the_numbers_of_the_article(tmp_path: Path) -> None:
    page = article.PAGES["light"]
    setting = Setting(work=tmp_path)
    answer = launch.expected(page, setting)
    with launch.running(SERVERS["bare"], page, setting) as run:
        numbers = visits.serial(run.port, "/", answer, 0.3)
        assert 0 < numbers["arrived"] <= numbers["ans t"] <= numbers["res t"] < 0.1
        assert numbers["ans/s"] == pytest.approx(1 / numbers["ans t"])
        assert numbers["res/s"] == pytest.approx(1 / numbers["res t"])
        assert 0 < numbers["real/s"] < numbers["res/s"], "what the client does besides is in real/s only"
        assert numbers["real/s"] == pytest.approx(numbers["requests"] / numbers["seconds"])
        assert 0 < numbers["p50"] <= numbers["p99"]
        with pytest.raises(Failure, match=r"^0 of \d[\d,]* answers were right; [\d,]+ wrong, 0 unfinished$"):
            visits.serial(run.port, "/", answer.replace(b"Hello", b"Howdy"), 0.1)
    with pytest.raises(Failure, match="refused"):
        visits.serial(run.port, "/", answer, 0.1)


@NEEDS_CC
def test_an_answer_counts_from_its_15th_byte_and_a_page_from_its_end(answering: Callable[..., int]) -> None:
    port = answering(HEAD[:14], HEAD[14:], PAGE, pause=0.2)
    numbers = visits.serial(port, "/", PAGE, 0.1)
    assert numbers["requests"] == 1
    assert 0.2 <= numbers["ans t"] <= numbers["res t"] - 0.15


@NEEDS_CC
@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ((HEAD + PAGE[:-1],), "reset"),
        ((b"HTTP/1.1 500 Internal Server Error\r\n\r\n" + PAGE,), "status"),
        ((HEAD + PAGE + b"x",), "wrong"),
        ((HEAD + PAGE.replace(b"It", b"Is"),), "wrong"),
        ((b"",), "reset"),
    ],
    ids=["cut", "500", "longer", "other", "nothing"],
)
def test_what_is_not_the_page_is_no_answer(answering: Callable[..., int], parts: tuple[bytes, ...], kind: str) -> None:
    with pytest.raises(Failure, match=rf"^0 of [\d,]+ answers were right; [\d,]+ {kind}, 0 unfinished$"):
        visits.serial(answering(*parts), "/", PAGE, 0.1)


@NEEDS_CC
def test_the_time_of_day_may_differ(answering: Callable[..., int]) -> None:
    port = answering(HEAD + PAGE.replace(b"10:00:00", b"23:59:59"))
    assert visits.serial(port, "/", PAGE, 0.1)["errors"] == 0


@NEEDS_CC
def test_the_parallel_client_starts_as_many_each_second(answering: Callable[..., int]) -> None:
    numbers = visits.parallel(answering(HEAD + PAGE), "/", PAGE, 2, each=7)
    assert numbers["requests"] == 14 and numbers["stopped"] == 0 and numbers["unfinished"] == 0
    assert 2 <= numbers["seconds"] < 3 and numbers["real/s"] == pytest.approx(14 / numbers["seconds"])


@NEEDS_CC
def test_the_parallel_client_ends_when_too_many_have_no_answer(answering: Callable[..., int]) -> None:
    numbers = visits.parallel(answering(HEAD + PAGE, most=5), "/", PAGE, 9, each=20, limit=30)
    assert numbers["stopped"] == 1 and numbers["unfinished"] == 30 and numbers["requests"] == 5
    assert 1 <= numbers["seconds"] < 3


@NEEDS_CC
def test_a_test_without_any_answer_is_a_failure(answering: Callable[..., int]) -> None:
    with pytest.raises(Failure, match="0 of 30 answers were right; 30 unfinished"):
        visits.parallel(answering(most=0), "/", PAGE, 9, each=20, limit=30)


@NEEDS_CC
@pytest.mark.skipif(not shutil.which("prlimit"), reason="prlimit is not installed: apt-get install util-linux")
def test_what_the_client_lacks_is_no_fault_of_the_server(
    answering: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "ENDS_WITH_US", ("prlimit", "--nofile=6", "--"))
    with pytest.raises(Failure, match=r"^the client ended: no descriptor for request \d+: Too many open files$"):
        visits.parallel(answering(most=0), "/", PAGE, 1, each=20)


class Alive:
    """A process that has not ended."""

    returncode = None

    def poll(self) -> None:
        return None


def test_a_server_that_hangs_has_no_numbers(
    answering: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers while it is warmed, and its client has had some answers, which came quickly."""
    port = answering(HEAD + PAGE, most=2)

    @contextlib.contextmanager
    def serving(*_: object) -> Iterator[article.Served]:
        yield article.Served(launch.Running(Alive(), port), [], 0)  # type: ignore[arg-type]

    monkeypatch.setattr(article, "serving", serving)
    monkeypatch.setattr(article, "expected", lambda *_: PAGE)
    monkeypatch.setattr(launch, "READY", 0.1)
    monkeypatch.setattr(client, "PATIENCE", 0.3)
    for name in ("serial", "parallel"):
        monkeypatch.setattr(visits, name, lambda *_: {"requests": 5, "stopped": 1, "seconds": 1.0})
    with pytest.raises(Failure, match="timed out"):
        article.speed(article.CONFIGURATIONS["single"], "parallel", article.PAGES["light"], Setting(work=tmp_path), 1.0)


def test_the_article_is_copied_rightly() -> None:
    """Its rates are the inverse of its times, and its sums are right but for the one that BENCHMARKS.md names."""
    for table in ("serial light", "parallel light"):
        for row in PRINTED[table].values():
            for rate, seconds in (("ans/s", "ans t"), ("res/s", "res t")):
                assert 1 / row[rate] == pytest.approx(row[seconds], rel=0.02)
    memory = PRINTED["memory"]
    assert memory["lighttpd-4"]["4 x size"] == memory["lighttpd"]["size"] + 4 * memory["single"]["size"]
    assert memory["forking"]["4 x size"] == 10 * memory["forking"]["size"]
    assert {*ENDED_EARLY, *PRINTED["serial light"], *memory} <= article.CONFIGURATIONS.keys()
    assert tuple(memory) == article.MEMORY_ORDER


def test_ps_is_read() -> None:
    text = "    PID    PPID  SIZE    VSZ CMD\n      1       0   100   2000 a b c\n  22222       1     0      0 [x]\n"
    assert article_memory.parse_ps(text) == {1: (100, 2000), 22222: (0, 0)}
    assert article_memory.ps()[os.getpid()][1] > 1000


def test_sizes_are_added_as_in_the_article(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent, 10, with workers of 100 and 120; lighttpd, 5, before servers of one process."""
    sizes = {1: (10, 1000), 2: (100, 2000), 3: (120, 3000), 4: (5, 50), 5: (200, 600), 6: (210, 700)}
    monkeypatch.setattr(article_memory, "ps", lambda: sizes)
    monkeypatch.setattr(article_memory.proc, "tree", lambda root: {1: [1, 2, 3]}.get(root, [root]))
    monkeypatch.setattr(article_memory, "shared", lambda pids: (len(pids), 0))

    def weighed(servers: list[int], in_front: int, multiplied: int) -> list[float]:
        found = article_memory.weigh(servers, in_front, multiplied)
        return [found[column] for column in ("size", "vsize", "4 x size", "N", "N x size", "pss")]

    assert weighed([1], 0, 4) == [120, 3000, 4 * 120 + 10, 2, 230, 3]
    assert weighed([5], 0, 1) == [200, 600, 200, 1, 200, 1]
    assert weighed([5, 6], 4, 4) == [215, 750, 4 * 210 + 5, 2, 415, 3]
    assert weighed([], 4, 1) == [5, 50, 5, 1, 5, 1]
    with pytest.raises(Failure, match="process 9 has ended"):
        weighed([5], 9, 1)


def chosen(*names: str) -> list[tuple[str, str]]:
    arguments = argparse.Namespace(only=names, seconds=60.0, rounds=1)
    return [row for row, _ in article.rows(arguments, Setting())]


def test_rows_are_chosen_by_test_page_and_configuration() -> None:
    assert chosen("serial", "light", "single", "apache") == [("serial light", "single"), ("serial light", "apache")]
    assert chosen("memory") == [("memory", name) for name in article.MEMORY_ORDER]
    assert {row[0] for row in chosen("single")} == {
        "serial light", "serial heavy", "parallel light", "parallel heavy", "memory",
    }  # fmt: skip
    assert {target.row for target in article.TARGETS} <= set(chosen())
    assert {row for target in article.TARGETS for row in target.over} <= set(chosen())
    assert {target.row[1] for target in article.TARGETS} == set(OURS)


def test_a_test_of_no_length_is_refused() -> None:
    command = [sys.executable, "-m", "bench", "article", "--seconds", "0"]
    done = subprocess.run(command, cwd=launch.ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "--seconds 0: must be more than 0" in done.stderr


def results(**rounds: dict[str, float]) -> dict[tuple[str, str], Result]:
    base = {"ans/s": 5000.0, "res/s": 4000.0, "real/s": 3000.0, "ans t": 0.0002, "res t": 0.00025, "stopped": 0}
    found = {("parallel light", name): Result([base | numbers]) for name, numbers in rounds.items()}
    return {**found, ("parallel light", "apache"): Result([], ["mod_python is not installed"])}


def test_a_table_has_the_names_of_the_article_and_its_numbers() -> None:
    (section,) = article_report.sections(results(single={}, bare={}))
    assert "\n\n`ans t`, `req t` and `arrived` are seconds.\n\n" in section
    heading, _, single, bare, failed = section.splitlines()[4:9]
    columns = ["ans/s", "req/s", "preq/s", "ans t", "req t"]
    assert [cell.strip() for cell in heading.split("|")[2:12]] == [*columns, *(f"2010: {name}" for name in columns)]
    assert [cell.strip() for cell in single.split("|")[1:4]] == ["Single", "5,000", "4,000"]
    assert "| 9.14 " in single and "2010: ended early" in single
    assert bare.count(ABSENT) == 5
    assert "**FAILED** in 1 of 1 rounds: mod_python is not installed" in failed and failed.count(ABSENT) == 5
    assert "| 4.96 " in failed and not any(cell.strip() == "0" for cell in failed.split("|"))


def test_half_of_the_better_apache_is_the_limit() -> None:
    target = next(each for each in article.TARGETS if each.row == ("parallel light", "single") and each.over)
    rows = {name: Result([{"ans t": value}]) for name, value in (("single", 1), ("apache", 9), ("apache-kept", 1.9))}
    verdict = report.verdict(target, {("parallel light", name): result for name, result in rows.items()})
    assert verdict == "MISSED"


def test_pictures_are_small_whole_and_the_same_each_time() -> None:
    rows = results(single={}, forking={"stopped": 1}, bare={})
    (name, svg), *others = article_report.pictures(rows, "2026-01-01")
    assert name == "parallel-light" and not others
    assert svg == dict(article_report.pictures(rows, "2026-01-01"))[name]
    assert len(svg) < 20_000
    texts = [(element.text or "").strip() for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    # Twice rates and twice times, of then and of now.
    assert texts.count("Single *") == 2 and texts.count("Single") == 2 and texts.count("Forking *") == 2
    assert texts.count("failed") == 2 and "Bare loop (the limit)" not in texts
    assert {"2026-01-01: parallel light", "per second, larger is better; * ended early"} <= set(texts)
    assert {"5,000", "9.14", "0.200", "109"} <= set(texts), "the values stand beside their bars"


def test_pictures_of_one_column_for_a_narrow_page() -> None:
    bars = charts.Bars("a & b", "c", ["x"], {"one": [1.0], "two": [None]}, {})
    narrow, wide = (ET.fromstring(charts.svg([bars, bars], columns)) for columns in (1, 2))
    assert float(narrow.attrib["width"].removesuffix("pt")) * 2 == float(wide.attrib["width"].removesuffix("pt"))


def test_without_matplotlib_there_are_words_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert matplotlib.__version__
    with pytest.raises(Failure, match=r"pip install 'poorhttp\[bench\]'"):
        charts.svg([])


def test_a_record_shows_its_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "RECORDS", tmp_path)
    path = record.write("article", {"servers": {}}, {}, "# article", {"serial-light": "<svg/>"})
    assert path.with_name(f"{path.stem}-serial-light.svg").read_text() == "<svg/>"
    assert f"![serial-light]({path.stem}-serial-light.svg)" in path.read_text()


@pytest.mark.parametrize(
    ("configuration", "package"), [("apache", "libapache2-mod-python"), ("lighttpd-2", "apt-get install lighttpd")]
)
def test_what_is_not_installed_is_named(
    configuration: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (apache, front):
        monkeypatch.setattr(module, "PLACES", str(tmp_path))
    with pytest.raises(Failure, match=package):
        article.speed(
            article.CONFIGURATIONS[configuration], "serial", article.PAGES["light"], Setting(work=tmp_path), 0.1
        )


@NEEDS_CC
@pytest.mark.parametrize(
    ("name", "test", "page"),
    [
        ("threading", "parallel", "light"),
        ("forking", "serial", "heavy"),
        pytest.param("lighttpd-2", "serial", "heavy", marks=NEEDS_LIGHTTPD),
        pytest.param("apache", "serial", "heavy", marks=NEEDS_APACHE),
        pytest.param("apache-plain", "serial", "light", marks=NEEDS_APACHE),
    ],
)
def test_a_configuration_in_small_gives_the_numbers_that_are_shown(
    name: str, test: str, page: str, tmp_path: Path
) -> None:
    """Afterwards no process of it is left, neither those that were started nor their children."""
    before = set(psutil.pids())
    with shared_by_all(tmp_path) as work:
        numbers = article.speed(article.CONFIGURATIONS[name], test, article.PAGES[page], Setting(work=work), 0.3)
    shown = {*article_report.COLUMNS[test].values(), *article_report.BESIDE[test].values()}
    assert shown - {"cpu"} <= numbers.keys() and numbers["errors"] == 0 and numbers.get("cpu", 1.0) > 0
    left = [pid for pid in set(psutil.pids()) - before if str(work) in " ".join(_command(pid))]
    assert not left


@NEEDS_CC
@NEEDS_LIGHTTPD
@pytest.mark.parametrize("name", ["lighttpd-4", "forking"])
def test_memory_in_small_gives_the_numbers_that_are_shown(name: str, tmp_path: Path) -> None:
    with shared_by_all(tmp_path) as work:
        numbers = article.weight(article.CONFIGURATIONS[name], Setting(work=work))
    shown = {*article_report.COLUMNS["memory"].values(), *article_report.BESIDE["memory"].values()}
    assert shown <= numbers.keys()
    assert numbers["N"] == 4
    assert 0 < numbers["uss"] <= numbers["pss"] and 0 < numbers["size"] <= numbers["N x size"] < numbers["vsize"] * 50


@contextlib.contextmanager
def shared_by_all(directory: Path) -> Iterator[Path]:
    """A directory below /tmp, as the bench has it: pytest's own may not be entered by Apache's user."""
    work = Path("/tmp") / f"bench-test-{os.getpid()}-{directory.name}"
    work.mkdir(mode=0o711)
    try:
        yield work
    finally:
        shutil.rmtree(work)


def _command(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.Error:
        return []


@NEEDS_CC
@pytest.mark.parametrize(
    ("signum", "status"),
    [(signal.SIGINT, 1), (signal.SIGHUP, 1), (signal.SIGTERM, 1), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_bench_that_is_interrupted_leaves_no_process_behind(signum: int, status: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "article", "--only", "parallel", "light", "forking", "--no-record"]
    bench = subprocess.Popen(
        command, cwd=launch.ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # under nohup it is ignored, and the bench heeds that
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        family: list[psutil.Process] = []  # the client, a supervisor and four workers
        while len(family) < 6 or not any("visits parallel" in " ".join(_command(child.pid)) for child in family):
            assert time.monotonic() < deadline and bench.poll() is None
            family = psutil.Process(bench.pid).children(recursive=True)
            time.sleep(0.02)
        bench.send_signal(signum)
        _, errors = bench.communicate(timeout=60)
        _, left = psutil.wait_procs(family, timeout=0.1 if status == 1 else 10)
    finally:
        bench.kill()
        bench.communicate()
    assert bench.returncode == status and not left
    assert "Traceback" not in errors and "round 1 of 1: parallel light, forking; 1 of 1\n" in errors
    assert ("ended by Ctrl-C" in errors) is (signum == signal.SIGINT)
    assert not list(tmp_path.glob("bench-*")) or signum == signal.SIGKILL
