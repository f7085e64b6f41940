"""Shows what `sweep` measured, servers against connections, and holds what poorhttp must reach there.

Knows the names of the numbers; measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from bench.report import ABSENT, Results, cell, middle, number, result_table, table
from bench.servers import OURS, members
from bench.sweep import BY_ARTICLE, CLOSED, JUDGED, KEPT, row_name
from bench.workloads import Row, Target

MODES = {KEPT: "kept connections", CLOSED: "a new connection for each request"}
COLUMNS = {
    "req/s": "rate", "± req/s": "~rate", "p50 ms": "p50", "p99 ms": "p99", "errors": "errors", "unserved": "unserved",
    "CPU %": "core", "CPU µs/req": "cpu", "alone MiB": "alone", "PSS MiB": "pss", "processes": "processes",
    "threads": "threads",
}  # fmt: skip
OVERVIEWS = {
    "requests per second": "rate",
    "p99, ms": "p99",
    "CPU per request, µs": "cpu",
    "clients unserved": "unserved",
    "memory, MiB": "alone",
}
Best = Callable[[Sequence[float]], float]
COMPARED: dict[str, tuple[str, Best]] = {
    "requests per second": ("rate", max),
    "p99": ("p99", min),
    "CPU per request": ("cpu", min),
    "memory": ("alone", min),
    "errors": ("errors", min),
    "unserved": ("unserved", min),
}
PEERS = tuple(name for name in members("sweep") if name not in (*OURS, *BY_ARTICLE, "bare"))


def targets() -> Iterator[Target]:
    """For `single`, which has one process, and for `forking` where a second processor counts."""
    for mode in MODES:
        for count in JUDGED:
            name = row_name(mode, count)
            for ours, names in (("single", ("requests per second", "p99", "memory")),
                                ("forking", ("requests per second", "p99"))):  # fmt: skip
                for each in names:
                    column, best = COMPARED[each]
                    yield Target(
                        f"{name}, {each}: {ours} / the best peer", (name, ours), column, ">=" if best is max else "<=",
                        1.0, over=tuple((name, peer) for peer in PEERS), leaves_out_failed=True,
                        serves=partial(serves, count), why=_why(mode, ours, each),
                    )  # fmt: skip
            for each in ("errors", "unserved"):
                yield Target(f"{name}, {each}: single", (name, "single"), COMPARED[each][0], "<=", 0, "")


def _why(mode: str, ours: str, what: str) -> str:
    """Why a peer may be ahead; the manual's chapter on the sweep says more."""
    if what == "memory":
        return "poorhttp has settings, logs and a watchdog; bjoern and pyruvate import little of Python"
    if (ours, what) == ("forking", "p99"):
        return "four processes share the CPUs with wrk, if there are but two"
    return "wrk is the limit: a new connection costs it more CPU than it costs a fast server" if mode == CLOSED else ""


def serves(count: int, numbers: Mapping[str, float]) -> bool:
    """Whether a round is one to compare with: unserved clients, and errors, are at most a hundredth of `count`."""
    return max(numbers.get("unserved", 0), numbers.get("errors", 0)) <= count / 100


def sections(results: Results) -> Iterator[str]:
    for mode, what in MODES.items():
        names = [name for name in dict.fromkeys(row[0] for row in results) if name.split()[0] == mode]
        if names:
            parts = [f"## {mode}: {what}", "As multiples of the best peer:", standing(names, results)]
            for heading, column in OVERVIEWS.items():
                parts += [f"**{heading[0].upper()}{heading[1:]}:**", matrix(names, column, results)]
            yield "\n\n".join(parts)
        for name in names:
            yield f"## {name}: {name.split()[1]} connections, {what}\n\n{result_table(results, name, COLUMNS)}"


def standing(names: Sequence[str], results: Results) -> str:
    """Each number of poorhttp as a multiple of that of the best peer which serves its clients, with the peer's name."""
    servers = {server for _, server in results}
    lines = [
        [name.split()[1], ours, *(_beside_best(results, name, ours, *compared) for compared in COMPARED.values())]
        for name in names
        for ours in OURS
        if ours in servers
    ]
    return table(["connections", "poorhttp", *COMPARED], lines)


def _beside_best(results: Results, name: str, ours: str, column: str, best: Best) -> str:
    mine = _middle(results, (name, ours), column)
    peers = {
        peer: value
        for peer in PEERS
        if (value := _middle(results, (name, peer), column)) is not None
        and all(serves(int(name.split()[1]), numbers) for numbers in results[name, peer].rounds)
    }
    if mine is None:
        return ABSENT
    if not peers:
        return "no peer serves" if any((name, peer) in results for peer in PEERS) else ABSENT
    value = best(list(peers.values()))
    peer = next(peer for peer in peers if peers[peer] == value)
    return f"{number(mine / value)} x {peer}" if value else f"{number(mine)}; {peer} 0"


def matrix(names: Sequence[str], column: str, results: Results) -> str:
    """A line for each server, a column for each number of connections."""
    servers = dict.fromkeys(server for name, server in results if name in names)
    lines = [[server, *(_cell(results, (name, server), column) for name in names)] for server in servers]
    return table(["server", *(name.split()[1] for name in names)], lines)


def _cell(results: Results, row: Row, column: str) -> str:
    if row not in results:
        return ABSENT
    return "failed" if results[row].failures else cell(results, row, column)


def _middle(results: Results, row: Row, column: str) -> float | None:
    return middle(results[row], column) if row in results else None
