"""The suites of `python -m bench sessions`: what a module must have to be one, and by which name it is known.

`bench.sessions` is the suite OWN, measured like other scenarios. Measures nothing itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import Protocol

from bench import sessions, sessions_django, sessions_libraries, sessions_tornado
from bench.launch import Setting
from bench.measure import Measurement
from bench.report import Results
from bench.workloads import Row, Target

OWN = "own"


class Suite(Protocol):
    """A module that measures sessions in another way than `bench.sessions`, chosen by --suite.

    It has records, tables and targets of its own, under the name that `key_of` gives.
    """

    ROUNDS: int  # by default
    PROGRAMS: tuple[str, ...]  # in C, which are compiled before
    NAMES: tuple[str, ...]  # that --only takes
    SERVED_BY: tuple[str, ...]  # servers whose versions and command lines stand in the record

    def rows(self, arguments: argparse.Namespace, setting: Setting) -> Iterator[tuple[Row, Measurement]]: ...
    def sections(self, results: Results) -> Iterator[str]: ...
    def targets(self) -> Iterable[Target]: ...
    def facts(self) -> dict[str, object]: ...  # what else stands in the record, such as versions of programs


# By their names among the commands.
SUITES: dict[str, Suite] = {
    "sessions-django": sessions_django,
    "sessions-libraries": sessions_libraries,
    "sessions-tornado": sessions_tornado,
}


def key_of(suite: str) -> str:
    """The name of a suite among the commands of the bench, and of its records: `sessions`, `sessions-django`."""
    return "sessions" if suite == OWN else f"sessions-{suite}"


def add_arguments(command: argparse.ArgumentParser) -> str:
    """Add --suite; returns the help of --only."""
    known = {OWN: sessions.NAMES, **{key.removeprefix(key_of("")): suite.NAMES for key, suite in SUITES.items()}}
    command.add_argument("--suite", choices=list(known), default=OWN,
                         help="what is measured: what a session costs a page of the dispatch table in each store "
                         "(own, the default), or the sessions of another framework")  # fmt: skip
    return "of the suite " + "; ".join(f"{suite}: {', '.join(names)}" for suite, names in known.items())
