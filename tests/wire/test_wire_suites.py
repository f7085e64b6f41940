"""Suites that others wrote, fed to our protocol cut in every way, and to a real server whole, byte by byte and in two.

Knows the runner in conformance/; what a suite expects, and where we deviate from it, stands there. A suite that cannot
be downloaded is skipped, with the command that failed; one that was, and has too few cases, is an error.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance import download, gunicorn, protocol, suites
from conformance.apps.echo import READING
from conformance.apps.echo import read as read_body
from conformance.case import Case, Request, with_host
from conformance.deviations import ROOM, room_of
from conformance.download import Broken, Unavailable
from conformance.judge import Verdict, judge
from conformance.record import markdown
from conformance.run import Result, over_protocol, over_sockets, with_settings
from conformance.servers import SERVERS, Server, command, running
from conformance.talk import Answer, Exchange, parse, ways

pytestmark = pytest.mark.timeout(300)  # a first run downloads, and compiles the example
PATIENCE = 20.0  # seconds for an answer on a loaded machine; a good one is there at once

SUITES = pytest.mark.parametrize("suite", list(suites.SUITES))


@pytest.fixture(scope="module")
def all_cases() -> dict[str, list[Case]]:
    return {}


@pytest.fixture
def cases(suite: str, all_cases: dict[str, list[Case]]) -> list[Case]:
    if suite not in all_cases:
        try:
            all_cases[suite] = suites.cases(suite)
        except Unavailable as error:
            pytest.skip(f"no suite {suite}: {error}")
    return all_cases[suite]


@pytest.fixture(scope="module")
def ask() -> Iterator[protocol.Ask]:
    if not shutil.which("cargo"):
        pytest.skip("no cargo to build the example `verdicts`: install Rust (https://rustup.rs/)")
    with protocol.running() as ask:
        yield ask


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("poorhttp") as server:
        yield server


# Ours is cut like this by tests/corpus.rs.
@pytest.mark.parametrize("suite", [suite for suite in suites.SUITES if suite != "corpus"])
def test_the_protocol_gives_the_verdict_of_the_suite_however_it_is_cut(
    suite: str, cases: list[Case], ask: protocol.Ask
) -> None:
    check(suite, list(over_protocol(ask, cases)), len(cases))


@SUITES
def test_a_server_gives_the_verdict_of_the_suite(suite: str, cases: list[Case], server: Server) -> None:
    check(suite, list(over_sockets(server, cases, cuts=4, patience=PATIENCE, slow=PATIENCE)), len(cases))


def test_the_cases_of_gunicorn_that_are_about_a_setting() -> None:
    try:
        settled = gunicorn.settled()
    except Unavailable as error:
        pytest.skip(f"no suite gunicorn: {error}")
    results = list(with_settings("poorhttp", settled, cuts=10, patience=PATIENCE, slow=PATIENCE))
    assert {result.case: result for result in results if result.kind not in ("pass", "deviation")} == {}
    assert len(results) == 9  # with the 134 of `cases`, all that there are


def check(suite: str, results: list[Result], count: int) -> None:
    """Every case passes, or deviates with a listed reason."""
    assert len(results) == count >= suites.LEAST[suite]
    bad = {result.case: result for result in results if result.kind not in ("pass", "deviation")}
    assert bad == {}


@SUITES
def test_every_listed_reason_is_of_a_case(suite: str, cases: list[Case]) -> None:
    rooms = [room for room in ROOM if room.suite == suite]
    settled = gunicorn.settled() if suite == "gunicorn" else []
    used = {id(room_of(case)) for case in [*cases, *settled]}
    assert [room for room in rooms if id(room) not in used] == []


def test_ways_keep_the_bytes() -> None:
    case = accepted()
    for suite, count in ("", 5), ("gunicorn", 8):
        cut = dict(ways(replace(case, suite=suite), 3))
        assert len(cut) == count
        assert all(b"".join(pieces) == case.raw for pieces in cut.values())
    assert cut["in lines"][1:3] == [b"Host: a\r\n", b"X-One: 1\r\n"]
    assert len(cut["in random pieces"]) > 9


class TwoLines(io.BytesIO):
    """Takes two lines for one."""

    def readline(self, size: int | None = -1, /) -> bytes:
        return super().readline(size) + super().readline(size)

    def __iter__(self) -> Iterator[bytes]:  # type: ignore[override]
        return iter(self.readline, b"")

    def readlines(self, hint: int | None = -1, /) -> list[bytes]:
        return list(self)


class TooMuch(io.BytesIO):
    """Gives more than was asked for, and something behind its end."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None or size < 0 else size + 1) or b"x"


class Endless(io.BytesIO):
    """Gives something behind its end."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size) or b"x"


@pytest.mark.parametrize("way", READING)
def test_every_way_of_reading_notices_a_wrong_stream(way: str) -> None:
    data = b"one\ntwo\r\n\nthree"
    assert read_body(io.BytesIO(data), way) == data
    assert read_body(io.BytesIO(b""), way) == b""
    with pytest.raises(AssertionError):
        read_body(TwoLines(data) if "line" in way or way == "iteration" else TooMuch(data), way)
    if way != "read 1" and way != "read sizes":
        with pytest.raises(AssertionError, match="behind the end"):
            read_body(Endless(data), way)


def test_a_host_is_put_where_none_is() -> None:
    raw = b"GET / HTTP/1.1\r\n\r\nGET /two HTTP/1.1\r\nhost: b\r\n\r\nGET /three HTTP/1.0\r\n\r\n"
    assert with_host(Case("", "", raw, (None, None, None), "nothing")).raw == raw.replace(
        b"/ HTTP/1.1\r\n", b"/ HTTP/1.1\r\nHost: example.com\r\n"
    )


# The judge must be able to say no.


def accepted() -> Case:
    request = Request("POST", "/a", "b", "hello", (("X-One", "1"),))
    raw = b"POST /a?b HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nContent-Length: 5\r\n\r\nhello"
    return Case("", "accepted", raw, (request,), "nothing")


SEEN = {"method": "POST", "path": "/a", "query": "b", "fields": {"HTTP_X_ONE": "1", "HTTP_HOST": "a"}, "body": "hello"}
REFUSED = Case("", "refused", b"\0", (), "refused")
OK, BAD = Answer(200, SEEN), Answer(400)


def said(*answers: Answer, closed: bool = True) -> Exchange:
    return Exchange(answers, closed)


@pytest.mark.parametrize(
    ("case", "exchange", "kind"),
    [
        (accepted(), said(OK), "pass"),
        (accepted(), said(Answer(200, SEEN | {"body": "hell"})), "fail"),
        (accepted(), said(Answer(200, SEEN | {"path": "/"})), "fail"),
        (accepted(), said(Answer(200, SEEN | {"fields": {}})), "fail"),
        (accepted(), said(Answer(200, None)), "fail"),
        (accepted(), said(OK, OK), "fail"),
        (accepted(), said(BAD), "fail"),
        (accepted(), said(Answer(500)), "fail"),
        (accepted(), said(), "fail"),
        (accepted(), said(closed=False), "hang"),
        (REFUSED, said(BAD), "pass"),
        (REFUSED, said(BAD, OK), "fail"),
        (REFUSED, said(OK), "fail"),
        (REFUSED, said(Answer(500)), "warn"),
        (REFUSED, said(), "warn"),
        (REFUSED, said(closed=False), "hang"),
        (Case("", "", b"", (), "incomplete"), said(OK), "warn"),
        (Case("", "", b"", (), "incomplete"), said(), "pass"),
        (Case("", "", b"", (), "either"), said(OK), "pass"),
        (Case("", "", b"", (), "either"), said(OK, OK), "fail"),
        (Case("", "", b"", (), "refused", 431), said(BAD), "warn"),
        (Case("gunicorn", "invalid/pp_01", b"", (), "refused"), said(), "deviation"),
        (Case("gunicorn", "invalid/pp_01", b"", (), "refused"), said(closed=False), "hang"),
        (Case("gunicorn", "invalid/pp_01", b"", (), "refused"), said(OK), "fail"),
    ],
)
def test_the_judge(case: Case, exchange: Exchange, kind: str) -> None:
    verdict: Verdict = judge(case, exchange)
    assert verdict.kind == kind, verdict


def test_a_record_tells_what_a_peer_refuses_and_poorhttp_accepts() -> None:
    case = replace(REFUSED, suite="gunicorn", name="invalid/041")
    ours, strict, lax = (Result(case.name, kind) for kind in ("deviation", "pass", "fail"))
    results = {"poorhttp": [ours], "strict": [strict], "lax": [lax]}
    text = markdown("gunicorn", results, [case], {name: name for name in results})
    assert "## Refused by peers, accepted by poorhttp\n\n- `invalid/041`: strict. RFC 9110 8.3: " in text
    assert "no failure, for peers neither" in text
    assert "Refused by peers" not in markdown(
        "gunicorn", results | {"strict": [lax]}, [case], dict.fromkeys(results, "")
    )


def test_a_trailer_that_the_application_sees_is_a_fault() -> None:
    raw = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Late: 1\r\n\r\n"
    case = Case("", "", raw, (Request("POST", "/", "", "", ()),), "nothing")
    seen = {"method": "POST", "path": "/", "query": "", "fields": {}, "body": ""}
    assert judge(case, said(Answer(200, seen))).kind == "pass"
    assert judge(case, said(Answer(200, seen | {"fields": {"HTTP_X_LATE": "1"}}))).kind == "fail"


def test_answers_are_parsed_in_their_order() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nno"
    assert parse(data, ["GET"], closed=True) == [Answer(200, {}), Answer(400, None, True)]
    assert parse(data, ["GET"], closed=False) == [Answer(200, {})]
    assert parse(b"rubbish", [], closed=True) == [Answer(0)]


def test_a_download_that_fails_tells_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "CACHE", tmp_path)
    for name, value in {"INDEX_URL": "http://127.0.0.1:9/", "RETRIES": "0", "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    with pytest.raises(Unavailable, match=r"pip download .*gunicorn=="):
        download.sdist(download.GUNICORN, "tests/requests")


def test_a_damaged_download_is_no_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "CACHE", tmp_path)
    name, version, _ = download.GUNICORN
    (tmp_path / f"{name}-{version}.tar.gz").write_bytes(b"rubbish")
    with pytest.raises(Broken, match="SHA-256"):
        download.sdist(download.GUNICORN, "tests/requests")


def test_a_suite_of_too_few_cases_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(suites.corpus.cases())
    monkeypatch.setattr(suites.corpus, "cases", lambda: iter(whole[: suites.LEAST["corpus"] - 1]))
    with pytest.raises(Broken, match="corpus: 599 cases, at least 600 expected"):
        suites.cases("corpus")


def test_a_server_that_dies_is_noticed_and_started_again() -> None:
    with running("poorhttp") as server:
        assert not server.died()
        server.process.kill()
        server.process.wait()
        assert server.died()
        assert server.answers()


@pytest.mark.parametrize("name", list(SERVERS))
def test_a_peer_is_started_with_a_command_that_says_all(name: str) -> None:
    words = command(name, 18080)
    assert any("18080" in word for word in words) and not any("{" in word for word in words)
