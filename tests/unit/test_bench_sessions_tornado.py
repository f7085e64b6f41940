"""Session engines as in an article on Tornado: what ab's words are worth, which runs count, tables, chart and counts."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import launch, load, pages, ranking, runs, sessions_tornado, sessions_tornado_report
from bench.__main__ import COMMANDS, parse
from bench.client import Failure, Missing
from bench.report import ABSENT, Result
from bench.sessions_tornado import ENGINES, FULL, Site
from bench.sessions_tornado_report import CASES, PRINTED, TITLES
from bench.stores import Directory
from bench.workloads import HELLO, Row

AB = """\
This is ApacheBench, Version 2.3 <$Revision$>

Benchmarking 127.0.0.1 (be patient).....done


Server Software:        nginx/1.22.1
Server Hostname:        127.0.0.1
Server Port:            8080

Document Path:          /store?value=a
Document Length:        13 bytes

Concurrency Level:      300
Time taken for tests:   5.000 seconds
Complete requests:      {complete}
Failed requests:        {failed}
   (Connect: 0, Receive: 0, Length: {failed}, Exceptions: 0)
{more}Total transferred:      2960000 bytes
HTML transferred:       {size} bytes
Requests per second:    2000.00 [#/sec] (mean)
Time per request:       150.000 [ms] (mean)

Percentage of the requests served within a certain time (ms)
  50%    140
  66%    150
  99%    310
 100%    900 (longest request)
"""


def of_ab(complete: int = 10_000, failed: int = 0, more: str = "", size: int = 130_000) -> str:
    return AB.format(complete=complete, failed=failed, more=more, size=size)


def test_ab_is_read() -> None:
    assert load.parse_ab(of_ab(), 10_000, 13) == {"requests": 10_000, "rate": 2000.0, "p50": 140.0, "p99": 310.0}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (of_ab(complete=9_999), "ab had 9,999 answers to 10,000 requests; no faults"),
        (of_ab(failed=7), "ab had 10,000 answers to 10,000 requests; 7 failed requests"),
        (of_ab(more="Non-2xx responses:      3\n"), "3 non-2xx responses"),
        (of_ab(more="Write errors:           2\n"), "2 write errors"),
        (of_ab(size=129_990), "ab had 129,990 bytes for 10,000 answers of 13"),
        ("Benchmarking 127.0.0.1 (be patient)...", r"ab gave no result: Benchmarking"),
    ],
    ids=["missing", "length", "status", "write", "cut", "dead"],
)
def test_an_answer_that_is_not_whole_voids_the_run_of_ab(text: str, reason: str) -> None:
    with pytest.raises(Failure, match=re.escape(reason)):
        load.parse_ab(text, 10_000, 13)


def rows(*words: str, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    monkeypatch.setattr(sys, "argv", ["bench", "sessions", "--suite", "tornado", *words])
    arguments: argparse.Namespace = parse()
    return [row for row, _ in sessions_tornado.rows(arguments, launch.Setting())]


def test_rows_are_cases_and_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = rows(monkeypatch=monkeypatch)
    assert everything == [(case, name) for case in CASES
                          for name in (sessions_tornado.GROWING if case == "grown" else ENGINES)]  # fmt: skip
    assert rows("--only", "redis", "new", monkeypatch=monkeypatch) == [("new", "redis")]
    assert rows("--only", "redis", monkeypatch=monkeypatch) == [(case, "redis") for case in CASES]
    with pytest.raises(SystemExit):
        rows("--only", "single", monkeypatch=monkeypatch)


def test_each_engine_has_a_title_and_those_of_the_article_its_numbers() -> None:
    assert list(TITLES) == list(ENGINES) and set(PRINTED) == set(ENGINES) - {"none"}
    assert {name: round(100 * printed.share, 1) for name, printed in PRINTED.items()} == {
        **{"tornado": 100, "file": 9.8, "directory": 53.4, "mariadb": 83.2, "memcached": 90.6, "redis": 87.2},
        "ferretdb": 97.3,  # the article says 97.4
    }


def test_engines_that_read_all_sessions_get_the_smaller_load_of_the_article() -> None:
    assert {name: FULL.of(engine) for name, engine in ENGINES.items()} == {
        name: (1_000, 10) if name in ("file", "ferretdb") else (10_000, 300) for name in ENGINES
    }


def test_a_failure_tells_the_log_once() -> None:
    with pytest.raises(Failure, match=r"^ab gave up; log: started; nginx: no errors$"), sessions_tornado.told_once():
        raise Failure("ab gave up; log: started; log: started; nginx: no errors; log: started")
    with pytest.raises(Missing, match=r"^ab is not installed"), sessions_tornado.told_once():
        raise Missing("ab", "apt-get install apache2-utils")


class Visited:
    """Answers of a site, by cookie, in place of those that come over the network."""

    def __init__(self, *values: str) -> None:
        self.values = {f"session={i}": value for i, value in enumerate(values)}

    def ask(self, port: int, target: str, cookie: str = "") -> tuple[str, str]:
        return self.values[cookie], ""


def kept(case: str, *values: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site: Any = Site(0, None, (), Directory())  # type: ignore[arg-type]
    visited = Visited(*values)
    monkeypatch.setattr(sessions_tornado, "ask", visited.ask)
    try:
        sessions_tornado.ensure_kept(site, case, list(visited.values))
    finally:
        site.store.stop()


@pytest.mark.parametrize(
    ("case", "values"),
    [("new", ("first-0",)), ("cookie", ("a",)), ("changed", ("9", "4", "8"))],
)
def test_what_was_stored_is_found(case: str, values: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    kept(case, *values, monkeypatch=monkeypatch)


@pytest.mark.parametrize(
    ("case", "values", "reason"),
    [
        ("new", ("nothing",), "stored 'first-0', but read 'nothing'"),
        ("cookie", ("first-0",), "stored 'a', but read 'first-0'"),
        ("changed", ("9", "5", "8"), "visitor 1 of 3 finds '5', which is none of the numbers it stored"),
        ("changed", ("9", "first-1", "8"), "visitor 1 of 3 finds 'first-1'"),
    ],
)
def test_what_was_lost_or_mixed_up_is_a_failure(
    case: str, values: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Failure, match=reason):
        kept(case, *values, monkeypatch=monkeypatch)


def test_sessions_that_were_not_made_are_a_failure() -> None:
    site: Any = Site(0, None, (), Directory())  # type: ignore[arg-type]
    try:
        sessions_tornado.ensure_made(site, 10_000, 10_000)
        with pytest.raises(Failure, match="should have made 10,000 sessions; the store has 9,990 more than before"):
            sessions_tornado.ensure_made(site, 9_990, 10_000)
    finally:
        site.store.stop()


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_sessions_are_counted(kind: str, tmp_path: Path) -> None:
    code = (
        "import sys; from poorhttp.sessions import open_store; store = open_store(sys.argv[1])\n"
        "for number in range(7): store.save(f'{number:064x}', b'data', 60, None)"
    )
    address = f"{kind}:{tmp_path}/sessions"
    command = [sys.executable, "-c", code, address]
    subprocess.run(command, cwd=launch.ROOT, env=launch.environment(ours=False), check=True, timeout=30)
    script = launch.APPS / "count_sessions.py"
    done = subprocess.run([sys.executable, script, address], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "7\n"


def results() -> dict[Row, Result]:
    return {
        ("new", "none"): Result([{"rate": 4000.0, "cpu": 1e-4}, {"rate": 5000.0, "cpu": 1e-4}]),
        ("new", "redis"): Result([{"rate": 2000.0, "cpu": 2e-4, "store": 5e-5}, {"rate": 2400.0, "cpu": 2e-4,
                                                                                  "store": 5e-5}], [], "Redis 7"),
        ("new", "file"): Result([{"rate": 30.0}], ["ab gave up: timeout"]),
        ("new", "tornado"): Result([{"rate": 1000.0}, {"rate": 1000.0}]),
        ("grown", "redis"): Result([{"rate": 1000.0}, {"rate": 2000.0}]),
        ("changed", "redis"): Result([{"rate": 1000.0}]),
    }  # fmt: skip


def cells(text: str, title: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(f"| {title} "))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_a_row_has_its_runs_shares_and_what_was_printed_in_2010() -> None:
    new, grown, changed = sessions_tornado_report.sections(results())
    assert new.startswith(f"## new: {CASES['new']}\n")
    assert cells(new, "Redis") == [
        *("Redis", "2,000", "2,400", "2,000", "2,400", "49.0%", "220.0%", "1,410", "1,418", "87.2%"),
        f"Redis 7; 2010: {PRINTED['redis'].note}",
    ]
    assert cells(grown, "Redis")[1:7] == ["1,000", "2,000", "1,000", "2,000", "32.5%", "150.0%"], "those of `new`"
    assert "2010" not in changed, "the article's client had no cookie"
    assert cells(changed, "Redis")[1:6] == ["1,000", "1,000", "1,000", ABSENT, ABSENT]


def test_a_run_that_died_is_no_number() -> None:
    text = next(iter(sessions_tornado_report.sections(results())))
    row = cells(text, "one file")
    assert row[1:7] == [ABSENT] * 6 and row[-1].startswith("**FAILED** in 1 of 2 rounds: ab gave up: timeout")


def test_the_chart_shows_shares_beside_those_of_the_article() -> None:
    pytest.importorskip("matplotlib")
    drawn = ranking.DRAWN["sessions-tornado"]["new"][0]
    bars = {bar.server: bar for bar in ranking.bars(results(), "new", drawn)}
    assert bars["redis"].value == pytest.approx(0.49) and bars["file"].is_failed and bars["none"].value == 1
    assert ranking.kind_of("redis", drawn) == "ours" and ranking.kind_of("tornado", drawn) == "peer"
    facts = {"date": "2026-11-28 10:00:00 +0000", "command": "python -m bench sessions --suite tornado"}
    chart = ranking.Ranking("name", "new", "Title", drawn, list(bars.values()), runs.Run(
        "run", "sessions-tornado", runs.datetime.now(), facts, {}, results()))  # fmt: skip
    assert "Redis 0.490 (2010: 0.872); Tornado alone 0.225; one file failed" in ranking.words(chart)
    picture = ranking.svg(chart)
    assert ">Redis</text>" in picture and ">failed: ab gave up: timeout</text>" in picture
    plain = ranking.svg(ranking.Ranking(*list(vars(chart).values())[:3], ranking.ENGINES, chart.bars, chart.run))
    assert picture.count("<path") > plain.count("<path"), "a line for each number of 2010"


def test_the_report_has_the_tables_and_the_chart(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    surroundings = {"date": "2026-11-28 10:00:00 +0000", "command": "python -m bench sessions --suite tornado",
                    "cpu": "a CPU", "python of poorhttp": "CPython 3.11.2", "servers": {}}  # fmt: skip
    told = [{"workload": case, "server": name, **vars(result)} for (case, name), result in results().items()]
    (tmp_path / "one.json").write_text(json.dumps({"surroundings": surroundings, "results": told}))
    commands = {name: parts[1:] for name, parts in COMMANDS.items()}
    html, markdown = (path.read_text() for path in pages.write(commands, tmp_path)[:2])
    assert "<svg" in html and "2010: best" in html and "87.2%" in html
    assert "Redis 0.490 (2010: 0.872)" in markdown


def test_the_value_and_the_page_are_those_that_the_bench_expects() -> None:
    assert sessions_tornado.PAGE.answer == HELLO
    for name in ("parameter/dispatch_table.py", "tornado_page.py"):
        assert f'PAGE = "{HELLO.decode()}"' in (launch.APPS / name).read_text()
