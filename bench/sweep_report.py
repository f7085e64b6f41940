"""Shows what `sweep` measured: a table for each number, servers against connections; and what poorhttp should be.

Knows the names of the numbers; measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench.report import ABSENT, Result, Results, cell, middle, number, table
from bench.report import remark as failure_or_remark
from bench.servers import OURS, members
from bench.sweep import BY_ARTICLE, CLOSED, JUDGED, KEPT, row_name
from bench.workloads import Row, Target

METRICS = {
    "requests per second": "rate",
    "p50, ms": "p50",
    "p99, ms": "p99",
    "errors": "errors",
    "clients that wait in vain": "unserved",
    "CPU of the server, %": "core",
    "CPU µs per request": "cpu",
    "memory, MiB": "alone",
}
MODES = {KEPT: "kept connections", CLOSED: "a new connection for each request"}
KINDS = ("connect", "read", "write", "status", "timeout")  # of errors, as wrk tells them apart
Best = Callable[[Sequence[float]], float]
COMPARED: dict[str, tuple[str, Best]] = {
    "requests per second": ("rate", max),
    "p99": ("p99", min),
    "memory": ("alone", min),
    "errors": ("errors", min),
    "clients that wait": ("unserved", min),
}
PEERS = tuple(name for name in members("sweep") if name not in (*OURS, *BY_ARTICLE, "bare"))


def targets() -> Iterator[Target]:
    """`single`, which has one process, in all; `forking` where it counts that many peers have two."""
    for mode in MODES:
        for count in JUDGED:
            name = row_name(mode, count)
            for ours, what in (("single", ("requests per second", "p99", "memory")),
                               ("forking", ("requests per second", "p99"))):  # fmt: skip
                for each in what:
                    column, best = COMPARED[each]
                    yield Target(
                        f"{name}, {each}: {ours} / the best peer", (name, ours), column, ">=" if best is max else "<=",
                        1.0, over=tuple((name, peer) for peer in PEERS), leaves_out_failed=True,
                    )  # fmt: skip
            for each in ("errors", "clients that wait"):
                yield Target(f"{name}, {each}: single", (name, "single"), COMPARED[each][0], "<=", 0, "")


def sections(results: Results) -> Iterator[str]:
    for mode, what in MODES.items():
        names = [name for name in dict.fromkeys(row[0] for row in results) if name.split()[0] == mode]
        if not names:
            continue
        yield f"## {mode}: {what}\n\n{standing(names, results)}"
        for heading, column in METRICS.items():
            yield f"### {mode}, {heading}\n\n{matrix(names, column, results)}"
        if told := list(remarks(names, results)):
            yield f"### {mode}, remarks\n\n" + table(["server", "connections", "remark"], told)


def standing(names: Sequence[str], results: Results) -> str:
    """Each number of ours as a multiple of that of the best peer, and which peer that is."""
    servers = dict.fromkeys(server for _, server in results)
    lines = [
        [name.split()[1], ours, *(_beside_best(results, name, ours, *compared) for compared in COMPARED.values())]
        for name in names
        for ours in OURS
        if ours in servers
    ]
    return table(["connections", "poorhttp", *COMPARED], lines)


def _beside_best(results: Results, name: str, ours: str, column: str, best: Best) -> str:
    mine = _middle(results, (name, ours), column)
    peers = {peer: value for peer in PEERS if (value := _middle(results, (name, peer), column)) is not None}
    if mine is None or not peers:
        return ABSENT
    value = best(list(peers.values()))
    peer = next(peer for peer in peers if peers[peer] == value)
    return f"{number(mine / value)} x {peer}" if value else f"{number(mine)}; {peer} 0"


def matrix(names: Sequence[str], column: str, results: Results) -> str:
    """A line for each server, a column for each number of connections."""
    servers = dict.fromkeys(server for name, server in results if name in names)
    lines = [[server, *(_cell(results, (name, server), column) for name in names)] for server in servers]
    return table(["server", *(name.split()[1] for name in names)], lines)


def remarks(names: Sequence[str], results: Results) -> Iterator[list[str]]:
    """Server, numbers of connections, and what is to be said of them: most of all why a run failed."""
    where: dict[tuple[str, str], list[str]] = {}
    for (name, server), result in results.items():
        if name in names and (text := _remark(result)):
            where.setdefault((server, text), []).append(name.split()[1])
    yield from ([server, ", ".join(counts), text] for (server, text), counts in where.items())


def _remark(result: Result) -> str:
    if result.failures:
        return failure_or_remark(result)
    kinds = {kind: sum(numbers.get(f"{kind} errors", 0) for numbers in result.rounds) for kind in KINDS}
    found = ", ".join(f"{kind} {count:,.0f}" for kind, count in kinds.items() if count)
    return "; ".join(part for part in (result.remark, f"errors: {found}" if found else "") if part)


def _cell(results: Results, row: Row, column: str) -> str:
    if row not in results:
        return ABSENT
    return "failed" if results[row].failures else cell(results, row, column)


def _middle(results: Results, row: Row, column: str) -> float | None:
    return middle(results[row], column) if row in results else None
