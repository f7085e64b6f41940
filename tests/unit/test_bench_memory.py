"""The bench's memory of workers: which rows there are, when a tree is at rest, which targets count, what is drawn."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import client, launch, load, memory_workers, pages, proc, ranking, record, report, runs
from bench.__main__ import COMMANDS
from bench.arguments import key_of, parse
from bench.client import Failure, Unable
from bench.report import Result
from bench.servers import OURS, SERVERS, WEIGHED
from bench.workloads import APPLICATIONS, HELLO, WORKERS, WORKERS_MEMORY, WORKLOADS, Target, weighed

OF_FORKING = ["forking", "forking-warm", "forking-mortal", "forking-mortal-warm"]
BUSY = "while True: pass"


def rows(*words: str) -> list[tuple[str, str]]:
    given = parse(["memory", *words])
    return [row for row, _ in COMMANDS[key_of(given)][0](given, launch.Setting())]


def test_a_name_chooses_its_server_with_each_other_setting_of_it() -> None:
    found = rows("--app", "hello", "--only", "gunicorn", "forking")
    assert found == [(f"hello, {count}", name) for count in WORKERS for name in [*OF_FORKING, "gunicorn"]]
    assert set(rows("--app", *APPLICATIONS)) == {
        weighed(name, count, server) for name in APPLICATIONS for count in WORKERS for server in WEIGHED
    }


def test_without_applications_it_is_what_it_was() -> None:
    found = rows("--only", "single")
    assert found == [("hello", "single"), ("idle", "single")]
    assert not hasattr(parse(["memory"]), "seconds")
    assert parse(["memory", "--app", "hello"]).seconds == memory_workers.SECONDS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--app", "hello", "--only", "bjoern"), "--only bjoern: with --app there are single, forking, gunicorn"),
        (("--only", "uwsgi"), "--only uwsgi: without --app there are bare, single"),
        (("--only", "forking-warm"), "invalid choice: 'forking-warm'"),
        (("--seconds", "3"), "--seconds: only with --app"),
        (("--app", "hello", "--seconds", "0"), "--seconds 0: must be more than 0"),
        (("--app", "bottle"), "invalid choice: 'bottle'"),
    ],
    ids=["server", "other server", "row", "seconds", "nothing", "application"],
)
def test_what_does_not_fit_together_is_refused(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(["memory", *words])
    assert told in capsys.readouterr().err


def test_targets_name_rows_that_are_measured_and_wait_for_immortal_objects() -> None:
    measured = {weighed(name, count, server) for name in APPLICATIONS for count in WORKERS for server in WEIGHED}
    for target in WORKERS_MEMORY:
        assert {target.row, *target.over} <= measured
        assert WEIGHED[target.row[1]].is_ours() and target.needs == "immortal"


@pytest.mark.parametrize(("immortal", "verdict"), [((1, 1), "met"), ((0, 0), "not run"), ((1, 0), "not run")])
def test_a_target_counts_only_where_each_round_has_what_it_needs(immortal: tuple[int, int], verdict: str) -> None:
    target = Target("text", ("w", "mine"), "pss", "<=", 2, over=(("w", "other"),), needs="immortal")
    mine = Result([{"pss": 3.0, "immortal": each} for each in immortal])
    assert report.verdict(target, {("w", "mine"): mine, ("w", "other"): Result([{"pss": 2.0}] * 2)}) == verdict
    assert report.verdict(target, {("w", "mine"): Result([{"pss": 3.0}])}) == "not run"


def test_servers_with_another_setting_are_ours_and_are_in_no_other_command() -> None:
    assert [name for name, server in WEIGHED.items() if server.is_ours()] == ["single", *OF_FORKING]
    assert set(SERVERS) & set(WEIGHED) == {*OURS, "gunicorn", "uwsgi", "granian", "waitress"} - {"threading"}


@pytest.mark.parametrize("server", WEIGHED.values(), ids=lambda server: server.name)
def test_command_lines_are_complete(server: launch.Server, tmp_path: Path) -> None:
    page = memory_workers.pages("django", 4)[0]
    command = launch.fill(server, page, launch.Setting(work=tmp_path), 8080)
    assert not any("{" in part for part in command)
    assert ("/, /admin/login/" in command) == ("warm" in server.name) and ("--preload" in command) == (
        server.name == "gunicorn")  # fmt: skip


def test_each_page_is_asked_for_on_new_connections() -> None:
    assert [(page.path, page.close, page.tally, page.processes) for page in memory_workers.pages("django", 4)] == [
        ("/", True, False, 4), ("/admin/login/", True, False, 4)]  # fmt: skip
    assert [page.answer for page in memory_workers.pages("hello", 1)] == [HELLO]


def test_a_server_of_one_process_is_not_weighed_with_four(tmp_path: Path) -> None:
    with pytest.raises(Unable, match="one process"):
        memory_workers.weight(WEIGHED["waitress"], "hello", 4, launch.Setting(work=tmp_path), 1, 1)


def row(workload: str, server: str, numbers: dict[str, float]) -> dict[str, Any]:
    return {"workload": workload, "server": server, "rounds": [numbers], "failures": [], "remark": ""}


def recorded(directory: Path, *results: dict[str, Any]) -> runs.Run:
    """A record with these rows, as it is read."""
    facts = {"date": "2026-01-02 03:04:05 +0000", "command": "python -m bench memory --app django flask",
             "cpu": "a CPU", "python of poorhttp": "CPython 3.13.0", "servers": {}}  # fmt: skip
    path = directory / "x.json"
    path.write_text(json.dumps({"surroundings": facts, "results": results}))
    return runs.read(path)


@pytest.mark.skipif(not shutil.which("wrk"), reason="needs wrk: apt-get install wrk")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
@pytest.mark.parametrize(("name", "processes"), [("single", 1), ("forking", 2)])
def test_in_small_each_number_that_is_shown_is_there(name: str, processes: int, tmp_path: Path) -> None:
    numbers = memory_workers.weight(WEIGHED[name], "hello", processes, launch.Setting(work=tmp_path), 1, 1)
    for column in (*memory_workers.COLUMNS.values(), "rate 1", "pss after", "private"):
        assert column.startswith("~") or numbers[column] > 0, column
    assert numbers["processes"] == (1 if name == "single" else processes + 1)
    assert numbers["worker after"] <= numbers["private"] < numbers["alone after"]
    assert numbers["immortal"] == (sys.version_info >= (3, 12))
    remark = numbers.pop("remark")
    (result,) = recorded(tmp_path, row("hello, one", name, numbers)).results.values()
    assert result.rounds == [numbers] and isinstance(remark, str)


def test_a_tree_that_computes_is_not_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_workers, "PATIENCE", 0.6)
    with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:
        try:
            with pytest.raises(Failure, match=r"1 processes do not come to rest in 0\.6 s"):
                memory_workers.until_at_rest(busy.pid, 1)
        finally:
            busy.kill()


def test_a_worker_that_does_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the helper of a server that takes less than its workers is none of them."""
    spent = {7: 0.01, 8: 1.0, 9: 0.0, 10: 2.0}
    looks: list[dict[int, float]] = []

    def look(root: int) -> dict[int, float]:
        looks.append(spent if looks else dict.fromkeys(spent, 0.0))
        return looks[-1]

    monkeypatch.setattr(proc, "cpu_of_each", look)
    monkeypatch.setattr(load, "run", lambda *_: {"rate": 5.0})
    asked = [(page, HELLO) for page in memory_workers.pages("django", 2)]
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        run = launch.Running(process, 0)
        assert memory_workers.under_load(run, asked, 2, 1) == ([5.0, 5.0], [8, 10])
        looks.clear()
        with pytest.raises(Failure, match="only 3 of 4 workers did anything"):
            memory_workers.under_load(run, asked, 4, 1)
    assert len(looks) == 1 + memory_workers.LOADS


def test_libraries_of_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"ours": "6.0", "theirs": "5.2.19"}
    monkeypatch.setattr(record, "versions", lambda python, packages: dict.fromkeys(packages, versions[python]))
    given = argparse.Namespace(app=["hello", "django"])
    setting = launch.Setting(python="ours", peers="theirs")
    with pytest.raises(Failure, match=r"django is 6\.0 beside poorhttp, 5\.2\.19 beside the peers"):
        memory_workers.facts(given, setting)
    versions["theirs"] = record.ABSENT
    assert memory_workers.facts(given, setting) == {"django": "6.0"}


def test_a_form_of_django_differs_by_its_token_only() -> None:
    form = b'<input name="csrfmiddlewaretoken" value="%s"><b>%s</b>'
    client.compare(form % (b"a1" * 32, b"x"), form % (b"Zz" * 32, b"x"))
    with pytest.raises(Failure):
        client.compare(form % (b"a1" * 32, b"x"), form % (b"a1" * 32, b"y"))


def test_private_memory_is_a_part_of_what_a_process_has() -> None:
    own = os.getpid()
    assert 0 < proc.private_of_each(own)[own] <= proc.pss_of_each(own)[own]


def test_the_private_part_is_drawn_and_told(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    mebibyte = 2**20
    run = recorded(
        tmp_path,
        row("django, four", "forking-warm", {"pss after": 65 * mebibyte, "private": 20 * mebibyte, "immortal": 1}),
        row("django, four", "gunicorn", {"pss after": 100 * mebibyte, "private": 60 * mebibyte}),
    )
    assert run.command == "memory-workers"
    (chart,) = ranking.rankings([run], run.command, {})
    assert "forking, warmed 65 (private 20); gunicorn --preload 100 (private 60)" in ranking.words(chart)
    drawn = ranking.svg(chart)
    assert drawn.count(f"opacity: {ranking.PALE}") == 2
    html, _ = pages.write({name: parts[1:] for name, parts in COMMANDS.items()}, tmp_path)
    text = html.read_text()
    assert "<summary>django, four: Django with its admin" in text and re.search(
        r'<tr class="ours"><td[^>]*>forking-warm<', text
    )
    assert "forking, warmed / gunicorn --preload" in text.partition('id="targets"')[2].partition("Not measured")[0]


def test_an_application_has_pages() -> None:
    assert set(APPLICATIONS) == {"hello", "flask", "django"}
    assert all(WORKLOADS[name].paths for name in APPLICATIONS)
