"""`sessions --suite django` and `libraries` without servers: rows, what is no result, and the advice that figures give."""

import argparse
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import (
    __main__,
    curves,
    launch,
    load,
    pages,
    runs,
    sessions_advice,
    sessions_django,
    sessions_libraries,
    stores,
    suites,
)
from bench import sessions_django_report as tables
from bench.client import Failure, Unable
from bench.report import Result
from bench.sessions_django import Case, Sessions, Visitors
from bench.workloads import WORKLOADS

ROWS = {"none": 1000.0, "cookie": 900.0, "file": 800.0, "cache": 780.0, "db": 200.0, "db-kept": 600.0}


def chosen(*names: str, quick: bool = False) -> list[tuple[str, str]]:
    arguments = argparse.Namespace(only=names, quick=quick)
    return [row for row, _ in sessions_django.rows(arguments, launch.Setting())]


def test_a_suite_has_a_name_of_its_own_among_commands_and_records() -> None:
    assert suites.key_of("own") == "sessions" and suites.key_of("django") == "sessions-django"
    assert runs.command_of("python -m bench sessions --suite django --rounds 2") == "sessions-django"
    assert runs.command_of("python -m bench sessions --suite=django") == "sessions-django"
    assert runs.command_of("python -m bench sessions --suite own") == "sessions"
    assert {suites.key_of("django"), "sessions"} <= __main__.COMMANDS.keys() and pages.NAMES["sessions-django"]


@pytest.mark.parametrize(
    ("options", "told"),
    [(["--suite", "django", "--only", "sqlite"], "--only sqlite: the suite django has read, write, one"),
     (["--only", "db"], "--only db: the suite own has sessions, cookie"),
     (["--suite", "flask"], "invalid choice: 'flask'")],
)  # fmt: skip
def test_what_a_suite_does_not_have_is_told(
    options: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "sessions", *options])
    with pytest.raises(SystemExit) as ended:
        __main__.parse()
    assert ended.value.code == 2 and told in capsys.readouterr().err


def test_a_suite_has_rounds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "sessions", "--suite", "django", "--only", "db", "4KB"])
    (Path(sys.executable).parent / "poorhttp").exists() or pytest.skip("no poorhttp beside this Python")
    arguments = __main__.parse()
    assert arguments.rounds == sessions_django.ROUNDS and __main__.key_of(arguments) == "sessions-django"


def test_names_of_each_sort_choose_rows_and_the_page_without_session_is_always_beside() -> None:
    assert chosen("read", "one", "32KB", "db", "file") == [
        ("read one forking", "none 32KB"), ("read one gunicorn", "none 32KB"),
        ("read one forking", "file 32KB"), ("read one gunicorn", "file 32KB"),
        ("read one forking", "db 32KB"), ("read one gunicorn", "db 32KB"),
    ]  # fmt: skip
    rows = chosen()
    assert len(rows) == len(set(rows)) and ("read one forking", "db-async 4KB") not in rows
    assert {target.row for target in sessions_django.targets()} <= set(rows)
    assert {row for target in sessions_django.targets() for row in target.over} <= set(rows)
    assert {word for row in rows for part in row for word in part.split()} == set(sessions_django.NAMES)


def test_rows_beside_other_libraries_have_the_targets_and_all_stores() -> None:
    rows = [row for row, _ in sessions_libraries.rows(argparse.Namespace(only=None, quick=True), launch.Setting())]
    assert {target.row for target in sessions_libraries.targets()} <= set(rows)
    assert {name for row in rows for name in row} == set(sessions_libraries.NAMES)
    assert all(set(library.stores) <= set(stores.STORES) for library in sessions_libraries.LIBRARIES.values())
    with pytest.raises(Unable, match="a cookie does not hold 64KB"):
        sessions_libraries.measure("cookie", "64KB", launch.Setting(), sessions_libraries.QUICK)


@pytest.mark.parametrize(("ours", "others"), [(-3.0, 40.0), (40.0, 0.0), (-3.0, -2.0)])
def test_what_the_noise_hides_is_no_figure(ours: float, others: float) -> None:
    assert sessions_libraries.times(30.0, 40.0) == 0.75
    with pytest.raises(Failure, match="the machine did much else meanwhile"):
        sessions_libraries.times(ours, others)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """A site that keeps what it is told, by cookie."""
    kept = {f"sessionid={n}": {"number": n, "token": "", "digest": f"d{n}", "visits": 5} for n in range(20)}

    def told(port: int, path: str, cookie: str) -> tuple[dict[str, Any], str]:
        if path.startswith("/put"):
            kept[cookie]["token"] = path.partition("=")[2].replace("+", " ")
        return dict(kept[cookie]), cookie

    monkeypatch.setattr(sessions_django, "_told", told)
    return kept


def visitors(count: int = 20) -> Visitors:
    made = Sessions(b"page", [f"sessionid={n}" for n in range(count)], [f"d{n}" for n in range(count)])
    return Visitors(launch.Running(None, 1), made)  # type: ignore[arg-type]


def test_visitors_find_what_they_told(site: dict[str, dict[str, Any]]) -> None:
    them = visitors()
    them.keep("before the load")
    them.find("before the load")
    assert [number for number in range(20) if site[f"sessionid={number}"]["token"]] == list(range(0, 20, 2))
    assert them.visits() == 100


@pytest.mark.parametrize(("name", "value"), [("token", "of another"), ("digest", "d4"), ("number", None)])
def test_a_session_that_is_read_back_otherwise_is_a_failure(
    name: str, value: str | None, site: dict[str, dict[str, Any]]
) -> None:
    them = visitors()
    them.keep("a word")
    site["sessionid=6"][name] = value
    with pytest.raises(Failure, match=f"session 6 is not read back as it was written: {name} is {value!r}"):
        them.find("a word")


@pytest.mark.parametrize("visits", [0, 101])
def test_writes_that_are_nowhere_or_too_many_are_a_failure(visits: int) -> None:
    assert sessions_django.lost(25, 100) == 75
    with pytest.raises(Failure, match=f"{visits} visits are in the sessions, but 100 requests wrote one each"):
        sessions_django.lost(visits, 100)


def test_a_session_that_does_not_fit_into_a_cookie_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told = '{"page": "x", "sessions": [{"cookie": "%s", "digest": ""}]}' % ("c" * 4090)
    monkeypatch.setattr(
        sessions_django.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, told.encode(), b"")
    )
    with pytest.raises(Unable, match="does not fit: a cookie of 4,100 bytes, of 4,096"):
        sessions_django.filled(Case("forking", "cookie", "read", "one", "4KB"), launch.Setting(), 1)


def answering(listener: socket.socket, cookies: list[bytes], answer: bytes) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, client.makefile("rb") as stream:
            while (line := stream.readline()).strip():
                if line.startswith(b"Cookie: "):
                    cookies.append(line[8:].strip())
            client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)


@pytest.mark.skipif(not shutil.which("cc"), reason="needs cc: apt-get install gcc")
def test_tally_sends_the_requests_of_a_file_in_turn(tmp_path: Path) -> None:
    launch.compile_c("tally")
    workload = replace(WORKLOADS["hello"], connections=2, close=True)
    asked = tmp_path / "requests"
    asked.write_bytes(b"".join(load.request(replace(workload, cookie=f"sessionid={n}")) + b"\0" for n in range(3)))
    cookies: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answering, args=(listener, cookies, b"page"))
        thread.start()
        try:
            numbers = load.tally(listener.getsockname()[1], workload, b"page", 0.3, asked)
            asked.write_bytes(b"GET")
            with pytest.raises(Failure, match="does not end with a zero byte"):
                load.tally(listener.getsockname()[1], workload, b"page", 0.1, asked)
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
    assert len(cookies) == numbers["requests"] + 2 > 6
    counts = [cookies.count(b"sessionid=%d" % n) for n in range(3)]
    assert max(counts) - min(counts) <= 1 and sum(counts) == len(cookies)


def run(results: dict[tuple[str, str], Result], name: str = "one") -> runs.Run:
    facts = {
        "cpu": "a CPU",
        "python of poorhttp": "CPython 3.11.7",
        "command": "python -m bench sessions --suite django",
    }
    return runs.Run(name, "sessions-django", datetime.now(timezone.utc), facts, {}, results)


def measured(sizes: Sequence[str] = ("0KB", "64KB")) -> dict[tuple[str, str], Result]:
    """Files are 800 of 1000 at first and 400 later; Redis 780 and 460; writing takes twice as long."""
    results = {}
    for size in sizes:
        for mode in ("read", "write"):
            for count in ("one", "thousand"):
                for engine, rate in ROWS.items():
                    slower = 1 if engine == "none" else (2 if mode == "write" else 1) * (2 if size != "0KB" else 1)
                    faster = 1.2 if (engine, size) == ("cache", "64KB") else 1
                    numbers = {"rate": rate / slower * faster, "cpu": 0.001}
                    if mode == "write" and engine not in ("none", "cookie"):
                        numbers["lost"] = 60.0 if count == "one" else 0.5
                    results[f"{mode} {count} forking", f"{engine} {size}"] = Result([numbers])
    return results


def test_the_table_has_rates_and_their_part_of_those_without_session() -> None:
    results = measured()
    results["read one forking", "file 64KB"] = Result([], ["ended"])
    text = next(tables.sections(results))
    assert text.startswith("## read one forking: a session that is read, one for all 20 clients")
    lines = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("|")}
    assert [cell.strip() for cell in lines["files"].split("|")[2:4]] == ["800 (0.800)", "failed"]
    assert [cell.strip() for cell in lines["without session"].split("|")[2:4]] == ["1,000", "1,000"]
    assert "**FAILED** in 1 of 1 rounds: ended" in lines["file 64KB"] and " 0 " not in lines["file 64KB"]


def test_the_advice_is_made_from_the_figures() -> None:
    text = sessions_advice.advice(measured())
    assert "signed cookie 0.90 " in text
    assert "or one within 5% of it, is signed cookie at 0KB, 64KB; Redis at 64KB." in text
    assert "by 3.00 when the session is read, and by 3.00 when it is read and written. It is faster in 4 of 4" in text
    assert "when the session is read, equal at 0KB; slower at 64KB" in text
    assert "PostgreSQL (new connections) is the slowest in 4 of 4 comparisons, with 0.214 to 0.256 times" in text
    assert "if all 20 clients have one session, 60.0% (files); with a thousand sessions, 0.5% (files)" in text
    assert "synchronous_commit" not in text and "Without a figure" not in text and "gunicorn" not in text


def test_other_figures_give_other_advice() -> None:
    results = measured()
    for row in results:
        if row[1].startswith("db-kept "):
            results[row] = Result([{"rate": 950.0, "lost": 10.0}])
    results["write thousand forking", "db-kept-async 0KB"] = Result([{"rate": 950.0}])
    results["read thousand forking", "file 64KB"] = Result([], ["ended"])
    text = sessions_advice.advice(results)
    assert "or one within 5% of it, is PostgreSQL (kept) at 0KB, 64KB" in text
    assert "PostgreSQL (kept) is the slowest in 0 of 4 comparisons" in text
    assert "with a kept connection, by 1. It is faster in 0 of 1 comparisons." in text
    assert "**Without a figure**, as they failed: read thousand forking file 64KB." in text


@pytest.mark.parametrize(
    ("kept", "told"), [([], False), (["none"], False), (["cookie", "none"], True), (["db", "none"], True)], ids=str
)
def test_a_record_of_few_rows_gives_few_sentences_or_none(kept: list[str], told: bool) -> None:
    results = {row: result for row, result in measured(["4KB"]).items() if row[1].split()[0] in kept}
    text = sessions_advice.advice(results)
    assert bool(text) is told and "Files beside Redis" not in text and ("Signed cookies" in text) is ("cookie" in kept)


def test_curves_have_gaps_where_there_is_no_number() -> None:
    assert list(curves.pieces([1.0, None, 2.0, 3.0])) == [([-0.08, 0.08], [1.0, 1.0]), ([2.0, 3.0], [2.0, 3.0])]
    results = measured()
    results["read one forking", "cookie 64KB"] = Result(remark="does not fit")
    shown = next(each for each in sessions_advice.curves(run(results)) if each.workload == "read one forking")
    assert shown.curves["signed cookie"] == [900.0, None] and shown.baseline in shown.curves
    assert "signed cookie 900 at 0KB, – at 64KB" in curves.words(shown)  # noqa: RUF001


@pytest.fixture
def picture() -> Iterator[str]:
    pytest.importorskip("matplotlib")
    shown = next(sessions_advice.curves(run(measured())))
    yield curves.svg(shown)
    assert curves.svg(shown) == curves.svg(shown)


def test_the_picture_names_each_curve_and_has_the_colours_of_the_page(picture: str) -> None:
    assert picture.startswith("<svg ") and 'role="img"' in picture and "var(--limit)" in picture
    for engine in ROWS:
        assert f">{tables.TITLES[engine]}</text>" in picture
    assert picture.count(f"stroke: {curves.COLOURS[0]}") == 2, "the curve, and its line in the legend"
    assert not re.search(r"<use|<defs|clip-path", picture)


def test_the_advice_is_a_page_of_its_own_and_a_chapter_for_browsers(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bench import record

    facts: dict[str, object] = {
        "date": "2026-01-02 03:04:05 +0000", "command": "python -m bench sessions --suite django", "cpu": "a CPU",
        "python of poorhttp": "CPython 3.11.7", "servers": {},
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "RECORDS", tmp_path)
        record.write("sessions-django", facts, measured(), "text")
    commands = {name: parts[1:] for name, parts in __main__.COMMANDS.items()}
    html, markdown, own = pages.write(commands, tmp_path)
    assert own.name == "which-session-engine.md"
    assert f"- [Which session engine]({own.name}): **In short**" in markdown.read_text()
    text = own.read_text()
    assert text.startswith("# Which session engine\n\n**In short**") and text.count("](charts/") == 4
    assert all((tmp_path / link).exists() for link in re.findall(r"\]\((charts/[^)]+)\)", text))
    page = html.read_text()
    assert 'id="which-session-engine"' in page and page.count("<svg ") == 4
