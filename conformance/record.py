"""Writes what came out of a suite: JSON for programs, Markdown for people, one of each, always of the last run."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from conformance.case import Case
from conformance.deviations import room_of
from conformance.download import AIOHTTP, GUARDIAN, GUNICORN, HERE
from conformance.run import Result, summary

RECORDS = HERE / "records"
SOURCES = {
    "gunicorn": f"`tests/requests` of gunicorn {GUNICORN[1]}",
    "llhttp": f"`vendor/llhttp/test/request` of aiohttp {AIOHTTP[1]}",
    "desync": f"`tests` of the crate {GUARDIAN[0]} {GUARDIAN[1]}",
    "corpus": "`tests/corpus`, which holds poorhttp's own policy",
}
LEGEND = (
    "Ahead is who has fewer fails, hangs and deaths together. A deviation, that is a difference from the suite with a"
    " reason from a specification, listed in `deviations.py`, is no failure, for peers neither; nor is a warning."
)
Results = Mapping[str, list[Result]]  # by server


def facts() -> dict[str, str]:
    """When, where and of what; no names of this machine. Records, which a run itself writes, make no tree dirty."""
    changed = said("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)conformance/records")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "commit": (said("git", "rev-parse", "--short=12", "HEAD") or "unknown") + ("-dirty" if changed else ""),
        "python": platform.python_version(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores",
    }


def said(*command: str) -> str:
    return subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False).stdout.strip()


def table(results: Results, versions: Mapping[str, str]) -> str:
    rows = {name: summary(found) for name, found in results.items()}
    columns = list(next(iter(rows.values())))
    lines = [f"| server | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name, row in rows.items():
        cells = " | ".join("" if value is None else str(value) for value in row.values())
        lines.append(f"| {versions[name]} | {cells} |")
    return "\n".join(lines)


def markdown(suite: str, results: Results, cases: list[Case], versions: Mapping[str, str]) -> str:
    parts = [f"# {suite}: {SOURCES[suite]}", "\n".join(f"- {name}: {value}" for name, value in facts().items())]
    parts += [table(results, versions), LEGEND]
    by_name = {case.name: case for case in cases}
    if looser := list(accepted_only_here(results, by_name)):
        parts.append("## Refused by peers, accepted by poorhttp\n\n" + "\n".join(looser))
    for server, found in results.items():
        lines = []
        for result in found:
            if result.kind != "pass":
                way = f", {result.way}" if result.way not in ("", "whole") else ""
                line = f"- {result.kind}: {code(result.case)}: {result.why}{way}"
                room = room_of(by_name[result.case]) if result.kind == "deviation" else None
                lines.append(f"{line}. {room.section}: {room.reason}" if room else line)
        if lines:
            parts.append(f"## {versions[server]}\n\n" + "\n".join(sorted(lines)))
    return "\n\n".join(parts) + "\n"


def accepted_only_here(results: Results, cases: Mapping[str, Case]) -> Iterator[str]:
    """A line for each case that poorhttp accepts, with a reason, and some peer refuses as the suite wants it."""
    passed = {name: {result.case for result in found if result.kind == "pass"} for name, found in results.items()}
    for result in results.get("poorhttp", []):
        room = room_of(cases[result.case]) if result.kind == "deviation" else None
        strict = [name for name in passed if result.case in passed[name]]
        if room and room.may == "accept" and strict:
            yield f"- {code(result.case)}: {', '.join(strict)}. {room.section}: {room.reason}"


def code(text: str) -> str:
    """Text as code: names of cases hold backticks."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def write(suite: str, results: Results, cases: list[Case], versions: Mapping[str, str]) -> None:
    """Write records/SUITE.json and records/SUITE.md."""
    RECORDS.mkdir(exist_ok=True)
    told = {
        "suite": suite,
        "source": SOURCES[suite],
        **facts(),
        "servers": {
            name: {
                "version": versions[name],
                **summary(found),
                "not passed": [asdict(result) for result in found if result.kind != "pass"],
            }
            for name, found in results.items()
        },
    }
    (RECORDS / f"{suite}.json").write_text(json.dumps(told, indent=1) + "\n")
    (RECORDS / f"{suite}.md").write_text(markdown(suite, results, cases, versions))
