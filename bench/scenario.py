"""What a scenario is: how it is measured, of which servers, what is shown and what the figures may be.

Knows neither servers nor what is done to them: `robust`, `faults` and `scale` hold lists of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bench.launch import Setting
from bench.servers import OURS, SERVERS, Server
from bench.workloads import Row, Target


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
    measure: Callable[[Server, Setting, Any], dict[str, float]]  # the last one: how much of everything
    limits: tuple[Limit, ...]
    columns: dict[str, str]
    servers: tuple[str, ...] = OURS
    absent: dict[str, str] = field(default_factory=dict)  # servers to which it does not apply -> why


def targets(scenarios: Iterable[Scenario]) -> Iterator[Target]:
    """One for each limit of each scenario and each server of ours."""
    for scenario in scenarios:
        for server in scenario.servers:
            for limit in scenario.limits if server in OURS else ():
                text = f"{scenario.what}, {server}: {limit.text}"
                yield Target(text, (scenario.name, server), limit.column, limit.sense, limit.limit, limit.unit)


def rows(
    scenarios: Iterable[Scenario], names: Iterable[str] | None, setting: Setting, size: Any,
    servers: Mapping[str, Server] = SERVERS,
) -> Iterator[tuple[Row, Callable[[], dict[str, Any]]]]:  # fmt: skip
    """The measurements that names of scenarios and of servers choose; all where none of its sort is named."""
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
                yield (scenario.name, server), measure
