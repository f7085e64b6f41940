"""Feeds the cases of a suite to one server and collects a result for each: the worst verdict of all ways of cutting."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from conformance import gunicorn, protocol
from conformance.apps.echo import READING
from conformance.case import Case
from conformance.judge import Verdict, judge, worst
from conformance.servers import Server, running
from conformance.talk import exchange, ways

DEATH = 0.02  # seconds that a process may take to end after its connections closed
AGAIN = 2  # times that a slow rejection is looked at again: the machine may have been busy


@dataclass(frozen=True)
class Result:
    case: str
    kind: str
    why: str = ""
    way: str = ""  # of cutting, where the verdict came from
    rejection: float | None = None  # seconds from the last byte to the refusal, the slowest of all ways
    ways: int = 0  # connections that it was given over


def over_sockets(server: Server, cases: Iterable[Case], cuts: int, patience: float, slow: float) -> Iterator[Result]:
    """patience: seconds for an answer before the client half-closes. slow: seconds; a later refusal is timed anew."""
    for case in cases:
        verdicts: dict[str, Verdict] = {}
        rejections = []
        for way, pieces in read_and_cut(server, case, cuts):
            verdict, seconds = once(server, case, pieces, patience)
            for _ in range(AGAIN):
                if seconds is None or not slow < seconds < patience:  # at patience it waited for the client's end
                    break
                verdict, again = once(server, case, pieces, patience)
                seconds = min(seconds, again) if again is not None else seconds
            verdicts[way] = verdict
            rejections += [] if seconds is None else [seconds]
            if verdict.kind in ("hang", "died"):
                break  # the other ways would only take as long again
        bad = worst(verdicts.values())
        way = next(way for way, verdict in verdicts.items() if verdict == bad)
        yield Result(case.name, *bad, way if bad.kind != "pass" else "", max(rejections, default=None), len(verdicts))


def with_settings(name: str, cases: list[Case], cuts: int, patience: float, slow: float) -> Iterator[Result]:
    """Cases that are about settings, each against a server with just these."""
    for settings in sorted({case.settings for case in cases}):
        meant = [case for case in cases if case.settings == settings]
        with running(name, settings, gunicorn.preface(settings)) as server:
            yield from over_sockets(server, meant, cuts, patience, slow)


def read_and_cut(server: Server, case: Case, cuts: int) -> Iterator[tuple[str, list[bytes]]]:
    """The ways of cutting, and for the bodies of gunicorn's cases each with all ways in which an application reads."""
    has_body = any(request and request.body for request in case.requests)
    for reading in READING if case.suite == "gunicorn" and has_body else [""]:
        server.reading.write_text(reading)
        for way, pieces in ways(case, cuts):
            yield way if reading in ("", "read") else f"{way}, {reading}", pieces


def once(server: Server, case: Case, pieces: list[bytes], patience: float) -> tuple[Verdict, float | None]:
    """The verdict on one connection, and how long a refusal that was due took."""
    try:
        said = exchange(server.port, pieces, case, patience)
    except OSError as error:
        return (Verdict("died", f"no connection: {error}") if server.died() else Verdict("fail", str(error))), None
    if not said.answers:
        time.sleep(DEATH)
    verdict = Verdict("died", "a process ended") if server.died() else judge(case, said)
    refused = case.end == "refused" and (said.answers[-1].status >= 400 if said.answers else said.closed)
    return verdict, said.seconds if refused else None


def over_protocol(ask: protocol.Ask, cases: Iterable[Case]) -> Iterator[Result]:
    for case in cases:
        said, differs = ask(case)
        kind, why = Verdict("fail", "the verdict depends on the cut") if differs else judge(case, said)
        yield Result(case.name, kind, why, differs)


def summary(results: list[Result]) -> dict[str, object]:
    """The row of a table: counts, and the slowest rejection in milliseconds."""
    kinds = Counter(result.kind for result in results)
    slowest = max((result.rejection for result in results if result.rejection is not None), default=None)
    return {
        "cases": len(results), "connections": sum(result.ways for result in results) or None,
        "pass": kinds["pass"], "warn": kinds["warn"], "fail": kinds["fail"],
        "deviations": kinds["deviation"], "hangs": kinds["hang"], "deaths": kinds["died"],
        "slowest rejection, ms": None if slowest is None else round(slowest * 1000, 1),
    }  # fmt: skip
