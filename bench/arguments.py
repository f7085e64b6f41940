"""The bench's command line: which commands there are, what each of them takes, and what is wrong in it.

Knows the names of servers, scenarios and suites; measures nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import (
    article,
    caches,
    faults,
    launch,
    memory,
    memory_workers,
    reload,
    robust,
    scale,
    sessions,
    suites,
    sweep,
    table,
)
from bench.servers import BEFORE, members
from bench.suites import SUITES
from bench.workloads import START, WORKLOADS

SCENARIOS = {"robust": robust, "faults": faults, "scale": scale, "reload": reload, "table": table, "sessions": sessions,
             "caches": caches}  # fmt: skip
# Command -> rounds by default, and what it measures.
ABOUT = {
    "cost": (5, "requests per second, CPU per request, latencies, memory under load"),
    "memory": (3, "memory, idle connections, wake-ups when idle, installed size"),
    "start": (20, "from exec to the first answer"),
    "robust": (1, "poorhttp alone, under clients that are slow, many, huge, tiny or rude"),
    "faults": (1, "what clients notice of reloads, killed workers, stops, lost backends"),
    "scale": (3, "a second process on two cores; four workers of a Flask application"),
    "reload": (1, "from a save to the first answer of the new code"),
    "table": (3, "the dispatch table beside bare functions, other frameworks and nginx"),
    "sessions": (3, "what a session costs, in each store; --suite: beside other frameworks and libraries"),
    "caches": (3, "what a cache of Django costs: in memory, in files, in a server, poorhttp.cache"),
    "article": (1, "the comparison of 2010: poorhttp, Apache with mod_python, lighttpd"),
    "sweep": (3, "100 to 10,000 connections, kept and closed, against all servers"),
}
REPORT = "write pages about all records, with charts"


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """words: by default those of the process. Ends the process with status 2 if something is wrong in them."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measures what poorhttp costs, beside its peers.",
        epilog="The method, and how long each command takes: bench/README.md",
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, title="commands")
    for name, (rounds, about) in ABOUT.items():
        command = commands.add_parser(name, help=about, description=about)
        names, what = _names(name)
        if name == "sessions":
            names, what = None, suites.add_arguments(command)
        command.add_argument("--rounds", type=int, help=f"default {rounds}")
        command.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=what)
        command.add_argument("--python", default=sys.executable, help="interpreter that runs poorhttp")
        command.add_argument("--quick", action="store_true", help="one short round, no record: does the bench work?")
        command.add_argument("--record", metavar="NAME", help="the record's name, default the command's")
        command.add_argument("--no-record", action="store_true")
        command.add_argument("--resume", metavar="RECORD", help="of an interrupted run: measure what is missing there")
    _add_special(commands.choices)
    commands.add_parser("report", help=REPORT, description=REPORT)
    arguments = parser.parse_args(words)
    if arguments.command != "report":
        try:
            _complete(arguments)
        except ValueError as error:
            commands.choices[arguments.command].error(str(error))
    return arguments


def _names(command: str) -> tuple[list[str], str]:
    """What --only takes, and its help."""
    if command == "article":
        return list(article.NAMES), f"tests, pages and configurations: {', '.join(article.NAMES)}"
    if command in SCENARIOS:
        scenarios = SCENARIOS[command].SCENARIOS
        servers = (server for each in scenarios.values() for server in (*each.servers, *each.absent))
        names = list(dict.fromkeys((*scenarios, *servers)))
        return names, f"scenarios and servers: {', '.join(names)}"
    asked = (server for workload in WORKLOADS.values() for server in workload.servers)
    measured = {
        "cost": (*asked, *members("fronted"), *BEFORE),
        "memory": (*memory.NAMES, *memory_workers.NAMES),
        "start": START.servers,
        "sweep": members("sweep"),
    }
    names = list(dict.fromkeys(measured[command]))
    return names, f"servers: {', '.join(names)}"


def _add_special(commands: dict[str, argparse.ArgumentParser]) -> None:
    """What only some commands take."""
    cost = commands["cost"]
    cost.add_argument("--seconds", type=float, default=4.0, help="of load in each round, default 4")
    commands["article"].add_argument("--seconds", type=float, default=article.SECONDS,
                                     help="of each test of each configuration, default 60")  # fmt: skip
    memory.add_arguments(commands["memory"])
    sweep.add_arguments(commands["sweep"])
    cost.add_argument("--workload", nargs="+", metavar="NAME", choices=list(WORKLOADS),
                      help=f"some of {', '.join(WORKLOADS)}")  # fmt: skip
    cost.add_argument("--front", choices=["lighttpd"], help="behind it, over TCP and over unix sockets")
    cost.add_argument("--before", metavar="FILE", default="", help="interpreter that runs another build of poorhttp, "
                      "measured in turns with this one as `single-before` and `threading-before`")  # fmt: skip
    for name in ("cost", "memory", "sweep", "sessions"):
        commands[name].add_argument("--peers", metavar="FILE", default=launch.PEERS_PYTHON,
                                    help="interpreter that runs the peers")  # fmt: skip


def _complete(arguments: argparse.Namespace) -> None:
    """Fill in what depends on other arguments. Raises ValueError for what does not fit together."""
    for option in ("python", "before"):
        python = getattr(arguments, option, "")
        if python and not (Path(python).parent / "poorhttp").exists():
            raise ValueError(f"--{option} {python}: no poorhttp is beside it; name a Python that has one")
    if arguments.resume and (arguments.quick or arguments.no_record):
        raise ValueError("--resume goes on with a record: give neither --quick nor --no-record")
    if arguments.command == "memory":
        memory.complete(arguments)
    if not 0 < getattr(arguments, "seconds", 1.0) < math.inf:
        raise ValueError(f"--seconds {arguments.seconds:g}: must be more than 0")
    suite = SUITES.get(key_of(arguments))
    if arguments.command == "sessions":
        known = suite.NAMES if suite else sessions.NAMES
        if unknown := [name for name in arguments.only or () if name not in known]:
            raise ValueError(f"--only {unknown[0]}: the suite {arguments.suite} has {', '.join(known)}")
    rounds = suite.ROUNDS if suite else ABOUT[arguments.command][0]
    if arguments.rounds is None:
        arguments.rounds = 1 if arguments.quick else rounds
    if arguments.rounds < 1:
        raise ValueError(f"--rounds {arguments.rounds}: must be at least 1")
    if arguments.quick:
        arguments.seconds = 1.0


def key_of(arguments: argparse.Namespace) -> str:
    """The name of what is measured, in COMMANDS: the command, but for `cost --front`, `memory --app` and the suites of
    `sessions`.
    """
    if arguments.command == "memory" and arguments.app:
        return "memory-workers"
    if arguments.command == "sessions":
        return suites.key_of(arguments.suite)
    return "front" if arguments.command == "cost" and arguments.front else arguments.command
