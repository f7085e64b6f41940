"""What servers weigh and do when idle, and the arguments of `python -m bench memory`, which also weighs workers.

Knows the rows and the tables of a fixed answer, of idle connections and of the installed package; `measure` takes the
numbers. Applications in several workers (`--app`) are in `memory_workers`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from bench import measure, memory_workers
from bench.launch import Setting
from bench.measure import Measurement, named
from bench.report import Results, result_table
from bench.servers import members
from bench.workloads import APPLICATIONS, Row

NAMES = tuple(dict.fromkeys((*members("memory"), *members("idle"))))  # for --only, without --app
# fmt: off
WEIGHT_COLUMNS = {"PSS MiB": "pss", "alone MiB": "alone", "private dirty MiB": "dirty", "processes": "processes",
                  "threads": "threads"}
IDLE_COLUMNS = {"switches": "switches", "switches with connections": "connected", "connections": "count",
                "bytes of each": "each"}
TABLES = {
    "hello": ("hello: memory after a few answers", WEIGHT_COLUMNS),
    "idle": ("idle: context switches in 10 s, and memory of idle connections", IDLE_COLUMNS),
    "installed": ("installed", {"MiB": "size"}),
}
# fmt: on


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "weigh these applications in one process and in four workers, before and after load"
    parser.add_argument("--app", nargs="+", choices=APPLICATIONS, help=what)
    what = f"with --app: of load for each page, default {memory_workers.SECONDS:g}"
    parser.add_argument("--seconds", type=float, help=what)


def complete(arguments: argparse.Namespace) -> None:
    """Set the default of --seconds, which goes where there is no --app. Raises ValueError for what does not fit."""
    known, given = (memory_workers.NAMES, "with") if arguments.app else (NAMES, "without")
    if unknown := [name for name in arguments.only or () if name not in known]:
        raise ValueError(f"--only {unknown[0]}: {given} --app there are {', '.join(known)}")
    if arguments.app:
        arguments.seconds = memory_workers.SECONDS if arguments.seconds is None else arguments.seconds
    elif arguments.seconds is not None:
        raise ValueError("--seconds: only with --app")
    else:
        del arguments.seconds


def rows(arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]:
    for server in named(arguments.only, members("memory")):
        yield ("hello", server.name), partial(measure.weight, server, setting)
    for server in named(arguments.only, members("idle")):
        seconds, count = (1, 1000) if arguments.quick else (10, 10_000)
        yield ("idle", server.name), partial(measure.idle, server, setting, seconds, count)
    if not arguments.only:
        yield ("installed", "poorhttp"), partial(measure.installed, setting)


def sections(results: Results) -> Iterator[str]:
    for name in dict.fromkeys(row[0] for row in results):
        heading, columns = TABLES[name]
        yield f"## {heading}\n\n{result_table(results, name, columns)}"
