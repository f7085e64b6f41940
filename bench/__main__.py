"""The bench's command line: `python -m bench COMMAND`; `report` writes pages about what the others measured.

A command that measures prints Markdown and keeps it as a record.

Exit status: 0 where no target was missed, 1 where one was missed or what it needs failed, or the run did not come to
its end, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from bench import (
    article,
    article_report,
    caches,
    caches_report,
    faults,
    front,
    launch,
    measure,
    memory,
    memory_workers,
    pages,
    record,
    reload,
    report,
    robust,
    scale,
    sessions,
    sessions_django,
    sessions_libraries,
    sessions_tornado,
    sweep,
    sweep_report,
    table,
)
from bench.client import Failure
from bench.measure import Measurement, named
from bench.runs import identity
from bench.servers import RELOADING, SERVERS, WEIGHED, Server, members
from bench.workloads import COST, FRONT, MEMORY, START, STARTING, TCP, UNIX, WORKERS_MEMORY, WORKLOADS, Row

Rows = Iterator[tuple[Row, Measurement]]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# fmt: off
COST_COLUMNS = {
    "req/s": "rate", "± req/s": "~rate", "CPU µs/req": "cpu", "± CPU": "~cpu", "x bare": "/cpu", "p50 ms": "p50",
    "p99 ms": "p99", "PSS MiB": "pss", "alone MiB": "alone", "processes": "processes", "threads": "threads",
}
TALLY_COLUMNS = {
    "req/s": "rate", "± req/s": "~rate", "CPU µs/req": "cpu", "x bare": "/cpu", "p50 ms": "p50", "p99 ms": "p99",
    "± p99": "~p99", "p99.9 ms": "p99.9", "least served %": "least", "long/s": "long", "core %": "core",
    "threads": "threads",
}
FRONT_COLUMNS = {
    "req/s": "rate", "CPU µs/req": "cpu", "± CPU": "~cpu", "lighttpd's CPU µs/req": "front", "± lighttpd's": "~front",
    "p50 ms": "p50", "p99 ms": "p99",
}
# fmt: on


def main() -> int:
    arguments = parse()
    if arguments.command == "report":
        return pages.main({name: parts[1:] for name, parts in COMMANDS.items()}, record.RECORDS)
    for signum in SIGNALS:  # so that the servers are ended on the way out
        # Under nohup HUP stays ignored. INT is not, though a shell ignores it in the background: watchfiles ends by it.
        if signum == signal.SIGINT or signal.getsignal(signum) != signal.SIG_IGN:
            signal.signal(signum, interrupted)
    with tempfile.TemporaryDirectory(prefix="bench-") as work:
        os.chmod(work, 0o711)  # if root runs the bench, Apache is another user, with mod_python and with mod_wsgi
        setting = launch.Setting(python=os.path.abspath(arguments.python), work=Path(work))
        setting.peers = os.path.abspath(getattr(arguments, "peers", setting.peers))
        if arguments.command == "cost":
            setting.before = arguments.before and os.path.abspath(arguments.before)
        try:
            for name in PROGRAMS.get(key_of(arguments), ()):
                launch.compile_c(name)
            measure.pin_to(launch.LOAD_CORE)
        except Failure as failure:
            print(f"error: {failure}", file=sys.stderr)
            return 1
        try:
            return run(arguments, setting)
        except Failure as failure:
            print(f"error: {failure}", file=sys.stderr)
        except KeyboardInterrupt as end:
            print(f"\nended by {end}: all servers are ended, nothing is recorded", file=sys.stderr)
        return 1


def interrupted(signum: int, _: object) -> None:
    """Handle a signal: end the run and its servers."""
    raise KeyboardInterrupt("Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name)


def key_of(arguments: argparse.Namespace) -> str:
    """The name of what is measured, in COMMANDS: the command, but for `cost --front`, `memory --app` and the suites of
    `sessions`.
    """
    if arguments.command == "memory" and arguments.app:
        return "memory-workers"
    if arguments.command == "sessions":
        return sessions.key_of(arguments.suite)
    return "front" if arguments.command == "cost" and arguments.front else arguments.command


def run(arguments: argparse.Namespace, setting: launch.Setting) -> int:
    key = key_of(arguments)
    rows, sections, targets = COMMANDS[key]
    chosen = list(rows(arguments, setting))
    if not chosen:
        raise Failure("nothing to measure: no row has all that was named; see --help")
    facts = record.surroundings(setting, servers_of(arguments, chosen), sys.argv[1:])
    if hasattr(arguments, "seconds"):
        facts["seconds"] = arguments.seconds
    if arguments.command == "robust":
        facts["slowhttptest"] = record.said(["slowhttptest", "-h"])
    if key in ("faults", "front"):
        facts["lighttpd"] = record.version_of(front.program, "-v")
    if arguments.command == "article":
        facts |= article.facts()
    if key in SUITES:
        facts |= SUITES[key].facts()
    if key == "memory-workers":
        facts |= memory_workers.facts(arguments, setting)
    if arguments.command == "caches":
        facts |= caches.facts(setting)
    order = measure.in_order
    if arguments.command == "sweep":
        facts |= sweep.facts(arguments)
        order = partial(sweep.shuffled, arguments.seed)
    results = {row: report.Result() for row, _ in chosen}
    resumed = resume(arguments.resume, facts, results) if arguments.resume else None
    try:
        measure.take_turns(chosen, arguments.rounds, results, order)
    except (KeyboardInterrupt, Exception) as end:
        if arguments.quick or arguments.no_record or not any(result.turns() for result in results.values()):
            raise
        for signum in SIGNALS:  # a second Ctrl-C must not cut the record off
            signal.signal(signum, signal.SIG_IGN)
        why = str(end)
        if isinstance(end, Exception):
            traceback.print_exception(end)
            why = repr(end)
        done, all_turns = sum(result.turns() for result in results.values()), len(chosen) * arguments.rounds
        facts["partial"] = f"ended by {why} after {done} of {all_turns} measurements"
    verdicts = report.target_table(targets, results)
    body = "\n\n".join(sections(results))
    if arguments.quick:
        verdicts += "\n\nA quick check that the bench works: shortened, so the numbers and the verdicts say nothing."
    is_partial = "partial" in facts
    title = f"{arguments.command if key == 'front' else key}{', PARTIAL' * is_partial}"
    markdown = f"# {title}\n\n{record.heading(facts)}\n\n## Targets\n\n{verdicts}\n\n{body}"
    path = None
    if not (arguments.quick or arguments.no_record):
        name = arguments.record or ("cost-front" if key == "front" else key)
        has_pictures = arguments.command == "article" and not is_partial
        path = record.write(
            name + "-partial" * is_partial, facts, results, markdown,
            pictures(results, str(facts["date"])[:10]) if has_pictures else {},
        )  # fmt: skip
        if resumed:
            record.remove(resumed)
    print(markdown)
    if path:
        print(f"record: {path.relative_to(record.RECORDS.parents[1])}", file=sys.stderr)
    if path and is_partial:
        print(f"{facts['partial']}; the same command goes on with --resume {identity(path)}", file=sys.stderr)
        return 1
    bad = ("FAILED",) if arguments.quick else ("MISSED", "FAILED")
    return int(any(report.verdict(target, results) in bad for target in targets))


def resume(name: str, facts: dict[str, object], results: dict[Row, report.Result]) -> Path:
    """Take over what an interrupted run has measured; returns its record. Raises Failure if that does not fit."""
    path, earlier, measured = record.read_partial(name)
    record.ensure_same(earlier, facts)
    if other := [row for row in measured if row not in results]:
        row = ", ".join(other[0])
        raise Failure(f"{name} has the row {row}, which is not measured here; its command: {earlier['command']}")
    results |= measured
    facts["resumed"] = f"begun {earlier['date']}, {earlier['partial']}"
    return path


def pictures(results: report.Results, date: str) -> dict[str, str]:
    """The article's charts; none, and a word why, where they cannot be drawn."""
    try:
        return dict(article_report.pictures(results, date))
    except Failure as failure:
        print(f"no pictures: {failure}", file=sys.stderr)
        return {}


def servers_of(arguments: argparse.Namespace, rows: Iterable[tuple[Row, Measurement]]) -> Iterator[Server]:
    """The servers of the rows; those of `sessions` are stores, all used by one server."""
    known = {"reload": RELOADING, "memory-workers": WEIGHED}.get(key_of(arguments), SERVERS)
    if arguments.command == "sessions":
        suite = SUITES.get(key_of(arguments))
        yield from (SERVERS[name] for name in (suite.SERVED_BY if suite else ("single",)))
    yield from (known[row[1]] for row, _ in rows if row[1] in known)


def cost_rows(arguments: argparse.Namespace, setting: launch.Setting) -> Rows:
    for workload in WORKLOADS.values():
        if not arguments.workload or workload.name in arguments.workload:
            for server in named(arguments.only, with_before(workload.servers) if setting.before else workload.servers):
                yield (workload.name, server.name), partial(measure.cost, server, workload, setting, arguments.seconds)


def with_before(servers: Iterable[str]) -> list[str]:
    """The servers, each of ours followed by that of the build before."""
    return [name for server in servers for name in (server, f"{server}-before") if name in SERVERS]


def cost_sections(results: report.Results) -> Iterator[str]:
    for name in dict.fromkeys(row[0] for row in results):
        workload = WORKLOADS[name]
        columns = TALLY_COLUMNS if workload.tally else COST_COLUMNS
        columns = {head: name for head, name in columns.items() if name != "/cpu" or "bare" in workload.servers}
        table = report.result_table(results, name, columns)
        yield f"## {name}: {workload.what}\n\n{workload.terms()}.\n\n{table}"


def front_rows(arguments: argparse.Namespace, setting: launch.Setting) -> Rows:
    for name in arguments.workload or ("hello", "light"):
        for over in (TCP, UNIX):
            for server in named(arguments.only, members("fronted")):
                measurement = partial(measure.cost_behind, server, WORKLOADS[name], setting, arguments.seconds, over)
                yield (f"{name}, {over}", server.name), measurement


def front_sections(results: report.Results) -> Iterator[str]:
    for name in dict.fromkeys(row[0] for row in results):
        workload, _, over = name.partition(", ")
        what = f"{WORKLOADS[workload].what}, behind lighttpd over {over}"
        table = report.result_table(results, name, FRONT_COLUMNS)
        yield f"## {name}: {what}\n\n{WORKLOADS[workload].terms()}; to the server a connection each.\n\n{table}"


def start_rows(arguments: argparse.Namespace, setting: launch.Setting) -> Rows:
    for server in named(arguments.only, START.servers):
        yield ("start", server.name), partial(measure.first_answer, server, setting)


def start_sections(results: report.Results) -> Iterator[str]:
    columns = {"ms, median": "first", "± rounds": "~first"}
    yield f"## start: {START.what}\n\n{report.result_table(results, 'start', columns)}"


def scenario_rows(arguments: argparse.Namespace, setting: launch.Setting) -> Rows:
    module = SCENARIOS[arguments.command]
    return module.rows(arguments.only, setting, module.QUICK if arguments.quick else module.FULL)


def scenario_sections(command: str, results: report.Results) -> Iterator[str]:
    for name in dict.fromkeys(row[0] for row in results):
        scenario = SCENARIOS[command].SCENARIOS[name]
        yield f"## {name}: {scenario.what}\n\n{report.result_table(results, name, scenario.columns)}"


# The suites of `sessions` besides its own, by their names among the commands: each is a module, see `sessions.Suite`.
SUITES: dict[str, sessions.Suite] = {
    "sessions-django": sessions_django,
    "sessions-libraries": sessions_libraries,
    "sessions-tornado": sessions_tornado,
}
SCENARIOS = {"robust": robust, "faults": faults, "scale": scale, "reload": reload, "table": table, "sessions": sessions,
             "caches": caches}  # fmt: skip
PROGRAMS = {**dict.fromkeys(("cost", "memory", "start"), ("bare", "tally")),
            **dict.fromkeys(("table", "sessions", "scale"), ("tally",)),
             "article": ("bare", "visits"), "sweep": ("bare",),
             **{key: suite.PROGRAMS for key, suite in SUITES.items()}}  # fmt: skip
COMMANDS = {
    "cost": (cost_rows, cost_sections, COST),
    "front": (front_rows, front_sections, FRONT),
    "memory": (memory.rows, memory.sections, MEMORY),
    "memory-workers": (memory_workers.rows, memory_workers.sections, WORKERS_MEMORY),
    "start": (start_rows, start_sections, STARTING),
    "article": (article.rows, article_report.sections, article.TARGETS),
    "sweep": (sweep.rows, sweep_report.sections, tuple(sweep_report.targets())),
    **{name: (scenario_rows, partial(scenario_sections, name), tuple(module.targets()))
       for name, module in SCENARIOS.items()},
    "caches": (scenario_rows, caches_report.sections, tuple(caches.targets())),
    **{key: (suite.rows, suite.sections, tuple(suite.targets())) for key, suite in SUITES.items()},
}  # fmt: skip
ROUNDS = {
    "cost": 5,
    "memory": 3,
    "start": 20,
    "robust": 1,
    "faults": 1,
    "scale": 3,
    "reload": 1,
    "table": 3,
    "sessions": 3,
    "caches": 3,
    "article": 1,
    "sweep": 3,
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ROUNDS:
        command = commands.add_parser(name)
        command.add_argument("--rounds", type=int, help=f"default {ROUNDS[name]}")
        names, what = list(SERVERS), "servers"
        if name == "sweep":
            names = list(members("sweep"))
        if name == "article":
            names = list(article.NAMES)
            what = f"tests, pages and configurations: {', '.join(names)}"
        if name in SCENARIOS:
            scenarios = SCENARIOS[name].SCENARIOS
            servers = (server for each in scenarios.values() for server in (*each.servers, *each.absent))
            names = list(dict.fromkeys((*scenarios, *servers)))
            what = f"scenarios and servers: {', '.join(names)}"
        if name == "memory":
            names, what = None, memory.add_arguments(command)
        if name == "sessions":
            names, what = None, sessions.add_arguments(command, names, SUITES)
        command.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=what)
        command.add_argument("--python", default=sys.executable, help="interpreter that runs poorhttp")
        command.add_argument("--quick", action="store_true", help="one short round, no record: does the bench work?")
        command.add_argument("--record", metavar="NAME", help="the record's name, default the command's")
        command.add_argument("--no-record", action="store_true")
        command.add_argument("--resume", metavar="RECORD", help="of an interrupted run: measure what is missing there")
    cost = commands.choices["cost"]
    cost.add_argument("--seconds", type=float, default=4.0, help="of load in each round, default 4")
    commands.choices["article"].add_argument("--seconds", type=float, default=article.SECONDS,
                                             help="of each test of each configuration, default 60")  # fmt: skip
    sweep.add_arguments(commands.choices["sweep"])
    cost.add_argument("--workload", nargs="+", metavar="NAME", choices=list(WORKLOADS))
    cost.add_argument("--front", choices=["lighttpd"], help="behind it, over TCP and over unix sockets")
    cost.add_argument("--before", metavar="FILE", default="", help="interpreter that runs another build of poorhttp, "
                      "measured in turns with this one as `single-before` and `threading-before`")  # fmt: skip
    for name in ("cost", "memory", "sweep", "sessions"):
        commands.choices[name].add_argument("--peers", metavar="FILE", default=launch.PEERS_PYTHON,
                                            help="interpreter that runs the peers")  # fmt: skip
    commands.add_parser("report", help="write pages about the records, with charts")
    arguments = parser.parse_args()
    if arguments.command == "report":
        return arguments
    for option in ("python", "before"):
        python = getattr(arguments, option, "")
        if python and not (Path(python).parent / "poorhttp").exists():
            parser.error(f"--{option} {python}: no poorhttp is beside it; name a Python that has one")
    if arguments.resume and (arguments.quick or arguments.no_record):
        parser.error("--resume goes on with a record: give neither --quick nor --no-record")
    if arguments.command == "memory":
        memory.complete(arguments, parser.error)
    if not 0 < getattr(arguments, "seconds", 1.0) < math.inf:
        parser.error(f"--seconds {arguments.seconds:g}: must be more than 0")
    suite = SUITES.get(key_of(arguments))
    if arguments.command == "sessions":
        known = suite.NAMES if suite else sessions.NAMES
        if unknown := [name for name in arguments.only or () if name not in known]:
            parser.error(f"--only {unknown[0]}: the suite {arguments.suite} has {', '.join(known)}")
    rounds = suite.ROUNDS if suite else ROUNDS[arguments.command]
    if arguments.rounds is None:
        arguments.rounds = 1 if arguments.quick else rounds
    if arguments.rounds < 1:
        parser.error(f"--rounds {arguments.rounds}: must be at least 1")
    if arguments.quick:
        arguments.seconds = 1.0
    return arguments


if __name__ == "__main__":
    sys.exit(main())
