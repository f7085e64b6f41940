"""The bench's caches: the workload of DiskCache's article, what makes an answer wrong, its tables, and the advice; and
each cache that is installed, asked by real processes for a moment.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from array import array
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import caches, caches_advice, caches_article, caches_processes, caches_report, pages, report
from bench import caches_workload as workload
from bench.__main__ import COMMANDS as ALL
from bench.caches_processes import Seen
from bench.caches_workload import DELETE, GET, NOTHING, REFUSED, SET
from bench.client import Failure, Missing
from bench.launch import Setting
from bench.report import Result

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {name: (sections, targets) for name, (_, sections, targets) in ALL.items()}
TINY = caches.Size(processes=2, operations=1_500, warm_up=51, calls=1)
Operations = list[tuple[int, int, int]]

# ---------------------------------------------------------------------------------------------------- The workload


def test_the_operations_are_exactly_those_of_the_article() -> None:
    found = workload.timed(caches_article.PROCESSES, caches_article.OPERATIONS, caches_article.WARM_UP)
    assert found == caches_article.COUNTS == {"get": 712546, "set": 71530, "delete": 7916}
    assert sum(found.values()) == 791992
    assert (caches.FULL.processes, caches.FULL.operations, caches.FULL.warm_up) == (8, 100_000, 1_001)


def test_keys_and_values_are_those_of_the_article() -> None:
    drawn = list(workload.operations(0, 20_000))
    assert {key for _, key, _ in drawn} == set(range(1100))
    assert {repeats for _, _, repeats in drawn} == set(range(1, 100))
    assert workload.value(12, 3) == b"121212"


def test_the_operations_are_handed_over_as_they_are() -> None:
    flat = array("H", workload.encoded(3, 500))
    assert list(zip(flat[::3], flat[1::3], flat[2::3], strict=True)) == list(workload.operations(3, 500))


def given(monkeypatch: pytest.MonkeyPatch, *lists: Operations) -> workload.Written:
    """Let the processes have these operations; returns what they write."""
    monkeypatch.setattr(workload, "operations", lambda process, count: iter(lists[process][:count]))
    return workload.written(len(lists), max(map(len, lists)))


def sum_of(number: int, repeats: int) -> int:
    return crc32(workload.value(number, repeats))


OURS: Operations = [(GET, 7, 1), (SET, 7, 2), (GET, 7, 1), (SET, 7, 5), (GET, 7, 1), (DELETE, 7, 1), (GET, 7, 1)]
THEIRS: Operations = [(SET, 7, 9), (SET, 8, 4), *[(GET, 8, 1)] * 5]
FIRST = crc32(workload.first_value(7))


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ([FIRST, 0, sum_of(1, 2), 0, sum_of(3, 5), 0, NOTHING], ""),
        ([NOTHING] * 7, ""),
        ([sum_of(0, 9), 0, sum_of(0, 9), 0, sum_of(0, 9), 0, sum_of(0, 9)], ""),
        ([FIRST, REFUSED, FIRST, REFUSED, FIRST, 0, NOTHING], ""),
        ([12345, 0, 0, 0, 0, 0, 0], "operation 0: a value at key 7 that nobody wrote there"),
        ([sum_of(1, 4), 0, 0, 0, 0, 0, 0], "operation 0: a value at key 7 that nobody wrote there"),
        ([FIRST, 0, FIRST, 0, 0, 0, 0], "operation 2: an old value at key 7, .* by its operation 1"),
        ([0, 0, 0, 0, sum_of(1, 2), 0, 0], "operation 4: an old value at key 7, .* by its operation 3"),
        ([0, 0, 0, 0, 0, 0, sum_of(3, 5)], "operation 6: an old value at key 7, .* by its operation 5"),
    ],
    ids=["its own", "nothing", "of the other process", "sets refused", "garbage", "of another key", "first", "old", "deleted"],
)  # fmt: skip
def test_what_a_get_may_find(monkeypatch: pytest.MonkeyPatch, seen: list[int], told: str) -> None:
    known = given(monkeypatch, OURS, THEIRS)
    if told:
        with pytest.raises(Failure, match=rf"^process 0, {told}"):
            workload.ensure_right(0, seen, known)
    else:
        workload.ensure_right(0, seen, known)


def test_a_value_that_two_operations_may_have_written_is_not_called_old(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [*[(GET, 1, 1)], (SET, 7, 6), (SET, 7, 2), (GET, 7, 1)]
    theirs = [*[(GET, 1, 1)] * 11, (SET, 7, 3)]
    known = given(monkeypatch, ours, theirs)
    assert workload.value(1, 6) == workload.value(11, 3)
    workload.ensure_right(0, [0, 0, 0, sum_of(1, 6)], known)


def test_a_process_that_is_alone_knows_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, OURS)
    assert workload.lost([FIRST, 0, sum_of(1, 2), 0, sum_of(3, 5), 0, NOTHING]) == 0
    assert workload.lost([NOTHING, 0, sum_of(1, 2), 0, NOTHING, 0, NOTHING]) == 2
    with pytest.raises(Failure, match="operation 4: not the last value at key 7"):
        workload.lost([FIRST, 0, sum_of(1, 2), 0, sum_of(1, 2), 0, NOTHING])


def test_what_is_left_must_have_been_written_there(monkeypatch: pytest.MonkeyPatch) -> None:
    known = given(monkeypatch, OURS)
    left = [NOTHING] * workload.KEYS
    left[7] = sum_of(3, 5)
    workload.ensure_known(left, known)
    left[8] = sum_of(3, 5)
    with pytest.raises(Failure, match="key 8: a value that nobody wrote there"):
        workload.ensure_known(left, known)


# ------------------------------------------------------------------------------------------------ Figures and tables


def seen(scale: int, misses: int, began: int) -> Seen:
    times = {action: array("q", [scale * each for each in range(1, 101)]) for action in workload.ACTIONS}
    return Seen(times, {"get": misses, "set": 0, "delete": 1}, array("I", [0] * 400), began, began + 10**9, 60)


def test_figures_are_over_the_operations_of_all_processes() -> None:
    numbers = caches.figures([seen(1_000, 5, 0), seen(3_000, 7, 10**9)])
    assert (numbers["get count"], numbers["get miss"], numbers["delete miss"]) == (200, 12, 2)
    assert (numbers["get median"], numbers["set p99"], numbers["get max"]) == (75, 294, 300)
    assert numbers["set total"] == pytest.approx(0.0202) and numbers["total"] == pytest.approx(3 * 0.0202)
    assert numbers["count"] == 600 and numbers["rate"] == 400 and numbers["clock"] == 0.06


def result(get: float, put: float, put_p99: float, missed: int = 69_185, kept: int = 1100) -> Result:
    numbers: dict[str, float] = {
        f"{action} {name}": value
        for action, count, median, p99 in (("get", 712_546, get, 2 * get), ("set", 71_530, put, put_p99),
                                           ("delete", 7_916, put, put_p99))
        for name, value in {"count": count, "miss": 0, "median": median, "p90": p99, "p99": p99, "max": 10 * p99,
                            "total": 1.5}.items()
    }  # fmt: skip
    numbers |= {"get miss": missed, "kept": kept, "count": 791_992, "total": 4.5, "rate": 1e5, "clock": 0.06}
    return Result([numbers])


def results(**others: Result) -> dict[tuple[str, str], Result]:
    """Of each cache: poorhttp.cache is the fastest; others: in place of these."""
    found = {
        "locmem": result(6, 6, 10, 140_750, 0), "memcached": result(90, 100, 200), "redis": result(160, 170, 250),
        "diskcache": result(30, 180, 5_000), "filebased": result(110, 900, 2_000, 103_843, 1000),
        "shared": result(5, 7, 20), "pylibmc": Result([], [], "pylibmc is not installed: pip"), **others,
    }  # fmt: skip
    return {("djangocache", name): each for name, each in found.items()}


def test_the_tables_are_those_of_the_article() -> None:
    (text,) = caches_report.sections(results())
    plain = " ".join(text.split())
    assert text.startswith("## djangocache: 8 processes at once, 1,100 keys; ")
    assert "| diskcache | get | 712,546 | 69,185 | 30 | 60 | 60 | 0.600 | 1.50 |" in plain
    assert "| diskcache | total | 791,992 | | | | | | 4.50 |" in plain
    assert "are, of each cache, exactly the article's: get 712,546, set 71,530, delete 7,916." in plain
    assert "| diskcache | set | 180 | 179 | 5,000 | 1,355 | 5,000 | 5,032 | 0 | 0 |" in plain
    assert "| shared | set |" in plain.partition("| cache | action | Median µs | article: Median µs")[0]


def test_other_operations_than_the_articles_are_told() -> None:
    found = results()
    found[("djangocache", "redis")].rounds[0]["get count"] = 5
    (text,) = caches_report.sections(found)
    assert "The article timed other operations than this run" in text and "exactly" not in text


def test_a_cache_without_figures_has_its_reason_and_no_number() -> None:
    failed, missing = Result([], ["process 1, operation 7: a value"]), Result([], [], "redis is not installed: pip")
    (text,) = caches_report.sections(results(shared=failed, redis=missing))
    line, other = (
        next(line for line in text.splitlines() if line.startswith(f"| {name} ")) for name in ("shared", "redis")
    )
    assert "FAILED" in line and "process 1, operation 7: a value" in line and "redis is not installed: pip" in other
    assert not any(cell.strip().replace(".", "").isdigit() for cell in (line + other).split("|"))


def test_the_listing_is_beside_what_the_article_printed() -> None:
    rows = {("listing", name): Result([{"glob1": 50.0, "glob": 60.0, "set": 500.0}]) for name in caches.LISTINGS}
    (text,) = caches_report.sections(rows)
    plain = " ".join(text.split())
    assert "| 100 | 50 | 60 | 500 | 8.946 | 89.5 | |" in plain
    assert "| 100,000 | 50 | 60 | 500 | 6,450.000 | 64,500 | |" in plain
    assert 'did not take 8.946 ms, "more than five milliseconds", but 89.5 µs.' in plain


def test_targets_name_rows_and_columns_that_there_are() -> None:
    rows = {row for row, _ in caches.rows((), Setting(), caches.QUICK)}
    assert len(rows) == 2 * len(caches.CACHES) + len(caches.LISTINGS)
    for target in caches.targets():
        assert {target.row, *target.over} <= rows and target.column in result(1, 1, 1).rounds[0]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"pylibmc": result(80, 90, 100)}, ["met"] * 5),
        ({}, ["met", "not run", "met", "not run", "met"]),
        ({"pylibmc": result(80, 90, 100), "shared": result(7, 19, 20, 73_000)},
         ["MISSED", "met", "MISSED", "MISSED", "MISSED"]),
        ({"pylibmc": result(40, 40, 50)}, ["met", "MISSED", "met", "MISSED", "met"]),
        ({"pylibmc": result(80, 90, 100), "diskcache": Result([], ["broken"])}, ["FAILED", "met", "FAILED", "met", "met"]),
        ({"shared": Result([], [], "not there")}, ["not run"] * 5),
    ],
    ids=["fast", "without the faster client", "slow", "a faster client", "a failed one", "without ours"],
)  # fmt: skip
def test_targets_compare_with_the_faster_client(others: dict[str, Result], expected: list[str]) -> None:
    found = results(**others)
    targets = [target for target in caches.targets() if target.row[0] == "djangocache"]
    assert [report.verdict(target, found) for target in targets] == expected


def test_rows_are_chosen_by_scenario_and_by_cache() -> None:
    def rows(*names: str) -> list[tuple[str, str]]:
        return [row for row, _ in caches.rows(names, Setting(), caches.QUICK)]

    assert rows("redis") == [("djangocache", "redis"), ("alone", "redis")]
    assert rows("listing") == [("listing", name) for name in caches.LISTINGS]
    assert rows("alone", "shared") == [("alone", "shared")]


# -------------------------------------------------------------------------------------------------------- The advice


def test_the_advice_names_what_the_figures_name() -> None:
    text = caches_advice.advice(results())
    assert "| 66 | \N{EN DASH} |" in " ".join(text.split()), "no process was alone"
    assert text.startswith(
        "Of the caches that processes share, poorhttp.cache costs a page least: 57 µs for 10 gets (5 µs each) and one set (7 µs)."
    )
    assert (
        "**Several processes on one machine: poorhttp.cache.** A page costs 57 µs; with DiskCache, the next one, 480 µs, "
        "8.42 times as much. It needs no server." in text
    )
    assert "**Several machines that share a cache: Memcached.**" in text and "with Redis 1.77 ms" in text
    assert "of which each process has its own, a page costs 66 µs" in text and "another one found 0, so 19.8 %" in text
    assert (
        "**Much is written: poorhttp.cache.** A set takes 7 µs, and with Django's files, the slowest, 900 µs." in text
    )
    assert "5 ms or more with DiskCache" in text
    assert "Django's files 14.6 %, where the best has 9.71 %. Here Django's files may keep 1,000 of 1,100 keys." in text
    assert "the cache is 0.567 % of the page with poorhttp.cache, and 16.7 % with Django's files" in text


def test_other_figures_give_other_advice() -> None:
    text = caches_advice.advice(results(shared=result(500, 900, 1_000), redis=result(10, 20, 30)))
    assert text.startswith("Of the caches that processes share, Redis costs a page least: 120 µs")
    assert "**Several processes on one machine: Redis.**" in text
    assert "It is a server to run. Without a server DiskCache costs least, 480 µs, 4 times as much." in text
    assert "**Several machines that share a cache: Redis.**" in text and "**Much is written: Redis.**" in text
    assert "**Processes that need not share: Django's memory.**" in text


def test_what_has_no_figures_is_told_and_not_chosen() -> None:
    text = caches_advice.advice(results(shared=Result([], [], "poorhttp.cache.django is not installed: x"),
                                        redis=Result([], ["no server"])))  # fmt: skip
    assert "**Several processes on one machine: DiskCache.**" in text
    assert "Redis (**FAILED** in 1 of 1 rounds: no server)" in text
    assert "poorhttp.cache (poorhttp.cache.django is not installed: x)" in text
    assert "| Redis" not in text and "with Redis" not in text


def test_one_cache_alone_gives_no_advice() -> None:
    assert caches_advice.advice({("djangocache", "redis"): result(1, 2, 3)}) == ""
    assert caches_advice.advice({}) == ""


def test_the_only_process_has_an_advice_of_its_own() -> None:
    alone = {("alone", name): each for (_, name), each in results(locmem=result(3, 3, 9, kept=0)).items()}
    text = caches_advice.advice(results() | alone)
    assert (
        "**A single process: Django's memory.** Where nothing else runs, a page costs 33 µs; with poorhttp.cache, "
        in text
    )
    plain = " ".join(text.split())
    assert "| Django's memory | no | no | 6 | 6 | 10 | 19.8 | 66 | 33 |" in plain, "together, and alone"


def write_record(directory: Path, found: dict[tuple[str, str], Result], **more: str) -> None:
    rows = [{"workload": row[0], "server": row[1], "rounds": each.rounds, "failures": each.failures,
             "remark": each.remark} for row, each in found.items()]  # fmt: skip
    facts: dict[str, Any] = {"date": "2026-01-02 03:04:05 +0000", "command": "python -m bench caches", "cpu": "a CPU",
                             "python of poorhttp": "CPython 3.11.7", "servers": {}, **more}  # fmt: skip
    (directory / "x.json").write_text(json.dumps({"surroundings": facts, "results": rows}))


def test_the_report_has_charts_and_a_page_of_advice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_record(tmp_path, results())
    html, markdown, advice = pages.write(COMMANDS, tmp_path)
    assert advice.name == "which-cache.md" and advice.read_text().startswith("# Which cache\n\nOf the caches that")
    assert f"All figures are of the run {tmp_path.name}/x: a CPU, CPython 3.11.7." in advice.read_text()
    assert "- [Which cache](which-cache.md): Of the caches that processes share, " in markdown.read_text()
    assert "<strong>Several processes on one machine: poorhttp.cache.</strong>" in html.read_text()
    assert '<tr class="ours"><td class="short">poorhttp.cache</td>' in html.read_text()
    charts = {path.name.partition("-x-")[2]: path for path in (tmp_path / pages.CHARTS).iterdir()}
    named = {f"djangocache-{action}-{name}.svg" for action in workload.ACTIONS for name in ("median", "p90", "p99")}
    assert set(charts) == named
    assert "var(--ours)" in charts["djangocache-get-median.svg"].read_text()


def test_a_run_that_was_ended_gives_no_advice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write_record(tmp_path, results(), partial="ended by Ctrl-C")
    assert len(pages.write(COMMANDS, tmp_path)) == 2 and not (tmp_path / "which-cache.md").exists()


# ------------------------------------------------------------------------------------------------------ Real caches


# pylibmc has wheels for some Pythons only.
THERE = [name for name in caches.CACHES if name != "pylibmc" or importlib.util.find_spec("pylibmc")]


@pytest.mark.parametrize("name", THERE)
def test_a_cache_in_small_gives_the_figures_that_are_shown(name: str) -> None:
    try:
        numbers = caches.together(caches.CACHES[name], Setting(), TINY)
    except Missing as missing:
        pytest.skip(str(missing))
    assert set(result(1, 1, 1).rounds[0]) | {"remark"} == set(numbers)
    assert all(numbers[f"{action} {name}"] > 0 for action in ("get", "set") for name in ("count", "median", "total"))
    assert numbers["get median"] <= numbers["get p90"] <= numbers["get p99"] <= numbers["get max"]
    assert (numbers["kept"] == 0) is (name == "locmem")


@pytest.mark.parametrize("name", ["memcached", "redis", "diskcache", "shared"])
def test_one_process_finds_all_that_it_has_written(name: str) -> None:
    try:
        numbers = caches.alone(caches.CACHES[name], Setting(), TINY)
    except Missing as missing:
        pytest.skip(str(missing))
    assert numbers["lost"] == 0 and numbers["kept"] == workload.KEYS


def test_a_cache_that_gives_the_value_of_another_key_has_failed() -> None:
    """All keys become one: the documentation of `str`."""
    same = {"KEY_FUNCTION": "builtins.getattr", "KEY_PREFIX": "__doc__"}
    cache = caches.Cache("confused", caches.CACHES["locmem"].backend, more=same)
    with pytest.raises(Failure, match=r"process \d, operation \d+: a value at key \d+ that nobody wrote there"):
        caches.together(cache, Setting(), TINY)


def test_a_server_that_is_gone_is_a_failure_with_its_reason() -> None:
    cache = caches.Cache("gone", caches.CACHES["redis"].backend, lambda store: f"redis://unix:{store.directory}/none")
    with pytest.raises(Failure, match=r"^fill: .*\w"):
        caches.together(cache, Setting(), TINY)


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(caches_processes, "BEYOND", 1.0)
    monkeypatch.setattr(caches_processes, "KEYS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = {
            "BACKEND": caches.CACHES["redis"].backend,
            "LOCATION": f"redis://127.0.0.1:{silent.getsockname()[1]}",
        }
        place = caches_processes.Place(sys.executable, settings, tmp_path)
        with pytest.raises(Failure, match=r"^fill: 1 keys take more than 1 s"):
            caches_processes.fill(place)
        with pytest.raises(Failure, match=r"^process 0 does not end, at 2 ms for each operation"):
            caches_processes.work(place, 2, 10, 1)


def test_a_library_that_is_not_there_is_told_by_its_name() -> None:
    with pytest.raises(Missing, match=r"^no-such-package is not installed: pip install"):
        caches.together(caches.Cache("absent", "x", needs=("no-such-package",)), Setting(), TINY)


def test_a_backend_that_is_not_there_is_a_failure_with_its_name() -> None:
    with pytest.raises(Failure, match=r"^fill: .*poorhttp\.no_such"):
        caches.together(caches.Cache("absent", "poorhttp.no_such.Cache"), Setting(), TINY)


def test_a_listing_in_small_gives_the_figures_that_are_shown() -> None:
    numbers = caches.listing(10, Setting(), TINY)
    assert numbers["glob"] > 0 and numbers["set"] > numbers["glob"]


def test_the_command_shows_its_tables() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "caches", "--quick", "--only", "alone", "listing", "locmem", "10"],
        cwd=ROOT, timeout=60, capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain = " ".join(done.stdout.split())
    assert "## alone: one process, which does what the first of the others does" in plain
    assert "| locmem | get | " in plain and "| 10 | " in plain and "- diskcache: " in plain
