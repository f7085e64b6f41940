"""The bench's command line: `python -m bench COMMAND`; `report` writes pages about what the others measured.

A command that measures prints Markdown and keeps it as a record.

Exit status: 0 where no target was missed, 1 where one was missed or what it needs failed, or the run did not come to
its end, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from bench import (
    article,
    article_report,
    caches,
    caches_report,
    front,
    launch,
    measure,
    memory,
    memory_workers,
    pages,
    record,
    report,
    scratch,
    sweep,
    sweep_report,
)
from bench.arguments import SCENARIOS, key_of, parse
from bench.client import Failure
from bench.measure import Measurement, named
from bench.runs import identity
from bench.servers import RELOADING, SERVERS, WEIGHED, Server, members
from bench.suites import SUITES
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
    scratch.remove_abandoned()
    with scratch.directory() as work:
        work.chmod(0o711)  # if root runs the bench, Apache is another user, with mod_python and with mod_wsgi
        setting = launch.Setting(python=os.path.abspath(arguments.python), work=work)
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


def run(arguments: argparse.Namespace, setting: launch.Setting) -> int:
    key = key_of(arguments)
    rows, sections, targets = COMMANDS[key]
    chosen = list(rows(arguments, setting))
    if not chosen:
        raise Failure("nothing to measure: no row has all that was named; see --help")
    tell_absent(arguments, (row for row, _ in chosen))
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


def tell_absent(arguments: argparse.Namespace, rows: Iterable[Row]) -> None:
    """Say on stderr which servers were asked for, but are in none of the rows."""
    if arguments.command in ("cost", "memory", "start", "sweep") and arguments.only:
        measured = {row[1] for row in rows}
        if absent := [name for name in arguments.only if name not in measured]:
            print(f"without a row here: {', '.join(absent)}; workloads.ini says which have one", file=sys.stderr)


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

if __name__ == "__main__":
    sys.exit(main())
