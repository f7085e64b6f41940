"""The pages about the bench's records: which runs are shown, what is drawn of them, and that no text becomes markup."""

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import markup, pages, ranking, report, runs
from bench.__main__ import COMMANDS as ALL
from bench.client import Failure
from bench.record import RECORDS
from bench.report import Result

COMMANDS = {name: (sections, targets) for name, (_, sections, targets) in ALL.items()}
HOSTILE = "<script>alert(1)</script> | `x` **b** [a](javascript:alert(1)) \\ \x1b[31m\u202e &amp; {title} $body"
VOID = {"meta", "br", "img", "input", "link", "hr"}


def write(
    directory: Path, name: str, results: list[dict[str, Any]], date: str = "2026-01-02", python: str = "3.11.7"
) -> None:
    facts = {
        "date": f"{date} 03:04:05 +0000", "command": f"python -m bench cost --record {name}", "cpu": "a CPU",
        "python of poorhttp": f"CPython {python}",
        "servers": {row["server"]: {"version": "1", "command": "x", "note": HOSTILE} for row in results},
    }  # fmt: skip
    (directory / f"{name}.json").write_text(json.dumps({"surroundings": facts, "results": results}))


def row(server: str, *cpu: float, workload: str = "hello", failure: str = "", remark: str = "") -> dict[str, Any]:
    rounds = [{"cpu": each * 1e-6, "rate": 1.0} for each in cpu]
    return {"workload": workload, "server": server, "rounds": rounds, "failures": [failure] * bool(failure),
            "remark": remark}  # fmt: skip


class Tags(HTMLParser):
    """Fails where elements are not closed in their order; collects names and identifiers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.links: set[str] = set()
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(directory: Path) -> tuple[str, str]:
    """Both pages about the records in the directory."""
    html, markdown = pages.write(COMMANDS, directory)
    return html.read_text(), markdown.read_text()


@pytest.mark.parametrize("path", sorted(RECORDS.rglob("*.json")), ids=runs.identity)
def test_each_committed_record_is_read(path: Path) -> None:
    run = runs.read(path)
    assert run.results and run.command in COMMANDS and re.fullmatch(r"3\.\d+", run.python)
    assert (
        f"[{runs.identity(path)}]" in (RECORDS / pages.MARKDOWN).read_text()
        or f"- {runs.identity(path)}: " in (RECORDS / pages.MARKDOWN).read_text()
    ), "write the report anew: python -m bench report"


def test_the_committed_pages_are_whole() -> None:
    page = Tags((RECORDS / pages.HTML).read_text())
    assert len(page.ids) == len(set(page.ids))
    assert {link for link in page.links if link[1:] not in page.ids} == set()
    assert page.names & {"svg", "table", "details"} == {"svg", "table", "details"}


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path, "one", [row("bare", 1, 2), row("single", 2, 3), row("bjoern", 3, 3)])
    before = made(tmp_path), [path.read_bytes() for path in sorted(tmp_path.rglob("*.svg"))]
    assert len(before[1]) == 1
    assert before == (made(tmp_path), [path.read_bytes() for path in sorted(tmp_path.rglob("*.svg"))])


def test_a_failure_is_told_and_is_no_number(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path, "one", [row("bare", 1), row("single", 2), row("granian", failure="timed out"), row("bjoern", 3)])
    html, markdown = made(tmp_path)
    assert '<td class="failed"><strong>FAILED</strong> in 1 of 1 rounds: timed out</td>' in html
    assert "granian failed: timed out" in markdown
    chart = next((tmp_path / pages.CHARTS).iterdir()).read_text()
    assert ">failed: timed out</text>" in chart and ">granian</text>" in chart
    (failed,) = re.findall(
        r"<tr>\s*<td[^>]*>granian</td>(.*?)</tr>", html.partition('id="runs"')[2].partition("bare</td>")[2][300:]
    )[-1:]
    assert not re.search(r">0[.\d]*<", failed)


def test_a_chart_compares_within_the_rounds() -> None:
    results = {("hello", "bare"): Result([{"cpu": 1.0}, {"cpu": 2.0}, {"cpu": 4.0}]),
               ("hello", "single"): Result([{"cpu": 2.0}, {"cpu": 3.0}, {"cpu": 4.0}]),
               ("hello", "single-before"): Result([{"cpu": 2.0}])}  # fmt: skip
    bars = ranking.bars(results, "hello", ranking.COST[0])
    assert [(bar.server, bar.value, bar.low, bar.high) for bar in bars] == [
        ("bare", 1, 1, 1), ("single", 1.5, 1, 2)]  # fmt: skip


def test_without_the_yardstick_there_is_no_ratio() -> None:
    results = {("hello", "bare"): Result([], ["did not start"]), ("hello", "single"): Result([{"cpu": 2.0}])}
    assert ranking.bars(results, "hello", ranking.COST[0]) == []


def test_failures_are_counted_for_each_kill() -> None:
    drawing = ranking.DRAWN["faults"]["kill"][0]
    results = {("kill", "forking"): Result([{"failed": 600.0, "kills": 300}]),
               ("kill", "granian"): Result([{"failed": 500.0, "kills": 5}]),
               ("kill", "uwsgi"): Result([{"failed": 0.0, "kills": 0}]),
               ("kill", "waitress"): Result([{}], remark="has no workers")}  # fmt: skip
    found = [(bar.server, bar.value, bar.note) for bar in ranking.bars(results, "kill", drawing)]
    assert found[:2] == [("forking", 2, ""), ("granian", 100, "")]
    assert {("uwsgi", None, "not measured"), ("waitress", None, "has no workers")} == set(found[2:])
    assert drawing.what == "requests that failed at the first try, for each kill"


def test_a_record_without_rows_is_named_and_shows_nothing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path, "empty", [])
    html, markdown = made(tmp_path)
    assert f"- {tmp_path.name}/empty: measured nothing" in markdown and "No run has a peer." in html
    Tags(html)


@pytest.mark.parametrize("rate", [99.5, 196_948, 1_196_948], ids=str)
def test_the_number_behind_the_longest_bar_is_within_the_chart(tmp_path: Path, rate: float) -> None:
    pytest.importorskip("matplotlib")
    rows = [{**row(server, 1, workload="kept 100"), "rounds": [{"rate": rate, "p99": 1.0, "unserved": 1}]}
            for server in ("single", "granian")]  # fmt: skip
    write(tmp_path, "one", rows)
    run = replace(runs.read_all(tmp_path)[0], command="sweep")
    chart = next(iter(ranking.rankings([run], "sweep", {})))
    shown = f"{report.number(rate)} *"
    found = re.search(rf'<text [^>]*x="([\d.]+)"[^>]*>{re.escape(shown)}</text>', ranking.svg(chart))
    assert found, ranking.svg(chart)
    letter = 0.7 * 7.5  # points: a bold digit
    assert float(found[1]) + letter * len(shown) <= ranking.WIDTH * 72


def test_there_may_be_no_record(tmp_path: Path) -> None:
    Tags(made(tmp_path)[0])


def test_what_others_wrote_is_shown_as_it_stands(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row("bare", 1), row("single", 2, remark=HOSTILE), row("bjoern", failure=HOSTILE), row("granian", 9),
            row(HOSTILE, 1), row("single", 1, workload=HOSTILE)]  # fmt: skip
    write(tmp_path, "one", rows)
    html, markdown = made(tmp_path)
    page = Tags(html)
    assert page.names >= {"table", "script"} and html.count("<script>") == 1 and "\x1b" not in html + markdown
    assert not any(link.startswith("javascript") for link in page.links)
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt; | `x` **b** [a](javascript:alert(1)) \\") >= 3
    assert "<script>" not in markdown.replace("\\<script>", "").replace("\\</script>", "")
    for chart in (tmp_path / pages.CHARTS).iterdir():
        Tags(chart.read_text())
        assert "<script" not in chart.read_text()


def replaced(directory: Path) -> dict[str, list[str]]:
    """What newer records of the directory replace, without the directory's name."""
    start = f"{directory.name}/"
    found = runs.replaced(runs.read_all(directory))
    return {name.removeprefix(start): [each.removeprefix(start) for each in newer] for name, newer in found.items()}


def test_a_record_goes_when_newer_ones_have_its_rows_under_the_same_python(tmp_path: Path) -> None:
    write(tmp_path, "old", [row("single", 1), row("bjoern", 1)], "2026-01-01")
    write(tmp_path, "one", [row("single", 1)], "2026-01-02")
    write(tmp_path, "other", [row("bjoern", 1)], "2026-01-03", "3.13.0")
    assert runs.replaced(runs.read_all(tmp_path)) == {}
    write(tmp_path, "third", [row("bjoern", 1)], "2026-01-04")
    assert replaced(tmp_path) == {"old": ["third", "one"]}


def test_a_row_that_was_not_measured_replaces_none(tmp_path: Path) -> None:
    write(tmp_path, "old", [row("single", 1), row("bjoern", 1)], "2026-01-01")
    write(tmp_path, "new", [row("single", 1), row("bjoern", remark="not installed")], "2026-01-02")
    assert runs.replaced(runs.read_all(tmp_path)) == {}
    write(tmp_path, "newer", [row("bjoern", failure="ended")], "2026-01-03")
    assert replaced(tmp_path) == {"old": ["newer", "new"]}


def test_overviews_are_on_the_page_too(tmp_path: Path) -> None:
    rows = [row("single", 1, workload="kept 100"), row("granian", 1, workload="kept 100")]
    for name, python in (("x", "3.11.7"), ("y", "3.13.0")):
        write(tmp_path, name, rows, python=python)
        path = tmp_path / f"{name}.json"
        path.write_text(path.read_text().replace("bench cost", "bench sweep"))
    text, _ = made(tmp_path)
    page = Tags(text)
    assert len(page.ids) == len(set(page.ids))
    assert "<summary>kept: kept connections</summary>" in text and "<summary>kept 100: 100 connections" in text
    assert "As multiples of the best peer" in text and "1 x granian" in text


def test_a_partial_record_replaces_nothing_and_decides_no_target(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [row("bare", 1), row("single", 1), row("bjoern", 1)]
    write(tmp_path, "whole", rows, "2026-01-01")
    write(tmp_path, "begun", [*rows, row("weft", 1)], "2026-01-02")
    path = tmp_path / "begun.json"
    path.write_text(path.read_text().replace('"cpu": "a CPU"', '"cpu": "a CPU", "partial": "ended by Ctrl-C"'))
    assert runs.replaced(runs.read_all(tmp_path)) == {}
    html, markdown = made(tmp_path)
    assert re.search(r"single / bare loop \| <= 1.12 x +\| 1 +\| met +\| \S+/whole", re.sub(" +", " ", markdown))
    assert "1 round; partial: ended before its end" in html and "partial: ended by Ctrl-C" in html


def test_a_missed_target_names_the_best_other_and_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path, "one", [row("bare", 1), row("single", 2), row("peregrine", 1.5), row("freastal", 1.8)])
    _, markdown = made(tmp_path)
    missed = markdown.partition("### Missed")[2].partition("### ")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in missed.strip().splitlines()]
    assert cells[0][-2:] == ["the best other", "why, where it is known"]
    (line,) = (each for each in cells if "Peregrine and freastal" in each[0])
    assert line[2] == "1.33" and line[-2] == "peregrine" and "fewer deadlines" in line[-1]
    assert "the best other" not in markdown.partition("### Met")[2].partition("## ")[0]


def test_each_peer_is_drawn_and_none_twice(tmp_path: Path) -> None:
    bare = [row("bare", 1), row("single", 1)]
    write(tmp_path, "most", [*bare, row("bjoern", 1), row("granian", 1)], "2026-01-01")
    write(tmp_path, "new", [*bare, row("weft", 1)], "2026-01-02")
    write(tmp_path, "again", [*bare, row("granian", 1)], "2026-01-03")
    write(tmp_path, "ours", bare, "2026-01-04")
    found = ranking.rankings(runs.read_all(tmp_path), "cost", {"hello": "a title"})
    names = [f"{tmp_path.name}/{name}" for name in ("most", "new")]
    assert [(each.run.name, each.title) for each in found] == [(name, "a title") for name in names]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Expecting value"),
        ("[]", "list indices"),
        ("{}", "no 'surroundings' in it"),
        ('{"surroundings": {"command": "python -m bench cost", "date": "today", "servers": {}}}', "'today'"),
    ],
    ids=["empty", "a list", "no fields", "no date"],
)
def test_a_file_that_is_no_record_is_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(runs.BadRecord, match=rf"^x\.json: .*{told}.*is it a record"):
        runs.read_all(tmp_path)


@pytest.mark.parametrize("value", ["1", None, True, float("nan"), float("inf")])
def test_a_figure_is_a_finite_number(tmp_path: Path, value: object) -> None:
    bad = row("single", 1)
    bad["rounds"][0]["cpu"] = value
    write(tmp_path, "x", [bad])
    with pytest.raises(runs.BadRecord, match=r"hello, single: cpu is .*, not a number"):
        runs.read_all(tmp_path)


def test_a_workload_of_another_time_has_all_its_numbers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path, "x", [row("single", 2, workload="forgotten"), row("single", 3)])
    html, _ = made(tmp_path)
    assert "<summary>forgotten</summary>" in html and "<summary>hello: a fixed answer</summary>" in html


def test_matplotlib_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "one", [row("bare", 1), row("single", 2), row("bjoern", 3)])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(Failure, match="matplotlib"):
        pages.write(COMMANDS, tmp_path)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("## A `b`", '<h2 id="a-b">A <code>b</code></h2>'),
        ("one\ntwo **x**", "<p>one\ntwo <strong>x</strong></p>"),
        ("- one\n  more\n- two\n\n      code <\n\nafter", "<ul>\n<li>one\nmore</li>\n<li>two\n<pre>code &lt;</pre></li>\n</ul>\n<p>after</p>"),
        ("[a](b.md#c) [x](https://y)", '<p><a href="b.md#c">a</a> [x](https://y)</p>'),
        ("a < b & \\<c\\> \\`", "<p>a &lt; b &amp; &lt;c&gt; `</p>"),
    ],
    ids=["heading", "paragraph", "list", "link", "escaped"],
)  # fmt: skip
def test_markdown_becomes_html(text: str, html: str) -> None:
    assert markup.rendered(text) == html


def test_a_table_becomes_html() -> None:
    text = "| a | b |\n|---|---|\n| x\\|y | 1,234 |\n| z | met |"
    html = markup.rendered(text)
    assert html.count("<tr>") == 3 and '<td class="short">x|y</td>' in html and '<td class="short met">met</td>' in html
