"""What a scenario is: how it is measured, of which servers, what is shown and what the figures may be.

Knows neither servers nor what is done to them: `robust`, `faults` and `scale` hold lists of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench import proc
from bench.launch import Setting
from bench.servers import OURS, SERVERS
from bench.workloads import Row, Target

STOLEN = 1.0  # percent of the time of all processors that other machines of the host may have meanwhile


@dataclass(frozen=True)
class Limit:
    """`column` is `sense` `limit`."""

    text: str
    column: str
    sense: str
    limit: float
    unit: str = ""


@dataclass(frozen=True)
class Scenario:
    name: str
    what: str
    measure: Callable[[Any, Setting, Any], dict[str, Any]]  # of a server; the last one: how much of everything
    limits: tuple[Limit, ...]
    columns: dict[str, str]
    servers: tuple[str, ...] = OURS
    absent: dict[str, str] = field(default_factory=dict)  # servers to which it does not apply -> why
    attempts: int = 1  # at most, where the host takes the time of the machine


def targets(scenarios: Iterable[Scenario]) -> Iterator[Target]:
    """One for each limit of each scenario and each server of ours."""
    for scenario in scenarios:
        for server in scenario.servers:
            for limit in scenario.limits if server in OURS else ():
                text = f"{scenario.what}, {server}: {limit.text}"
                yield Target(text, (scenario.name, server), limit.column, limit.sense, limit.limit, limit.unit)


def rows(
    scenarios: Iterable[Scenario], names: Iterable[str] | None, setting: Setting, size: Any,
    servers: Mapping[str, Any] = SERVERS,
) -> Iterator[tuple[Row, Callable[[], dict[str, Any]]]]:  # fmt: skip
    """The measurements that names of scenarios and of servers choose; all where none of its sort is named.

    servers: what a measurement is given for the name of a server.
    """
    known = {scenario.name: scenario for scenario in scenarios}
    chosen = set(names or ())
    for scenario in known.values():
        for server in (*scenario.servers, *scenario.absent):
            if all(not chosen & sort.keys() or name in chosen
                   for name, sort in ((scenario.name, known), (server, servers))):  # fmt: skip
                if server in scenario.absent:
                    measure: Callable[[], dict[str, Any]] = partial(dict, remark=scenario.absent[server])
                else:
                    measure = partial(scenario.measure, servers[server], setting, size)
                    if scenario.attempts > 1:
                        never = [each.column for each in scenario.limits if (each.sense, each.limit) == ("<=", 0)]
                        measure = partial(undisturbed, measure, scenario.attempts, never)
                yield (scenario.name, server), measure


def undisturbed(measure: Callable[[], dict[str, Any]], most: int, never: Iterable[str] = ()) -> dict[str, Any]:
    """What it measures; of several attempts not the best one but that of which the host took the least time.

    What is judged is late by as much as the whole machine stands still, which `steal` of proc(5) tells. never: what
    must not happen at all, and counts in each attempt.
    """
    attempts: list[tuple[float, dict[str, Any]]] = []
    while len(attempts) < most and not any(share <= STOLEN for share, _ in attempts):
        before = proc.stolen()
        numbers = measure()
        stolen, ticks = (now - then for now, then in zip(proc.stolen(), before, strict=True))
        attempts.append((100 * stolen / max(1, ticks), numbers))
    share, numbers = min(attempts, key=lambda attempt: attempt[0])
    if len(attempts) == 1:
        return numbers
    note = f"{share:.1f} % of the time stolen by the host, more in {len(attempts) - 1} other attempts"
    total = {column: sum(each[column] for _, each in attempts) for column in never}
    return {**numbers, **total, "remark": "; ".join(filter(None, [numbers.get("remark", ""), note]))}
