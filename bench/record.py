"""Where and with what it was measured, and the files that keep it: JSON for programs, Markdown for people."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.client import Failure
from bench.launch import HERE, ROOT, Setting, environment, python_of
from bench.report import Result, Results
from bench.servers import Server
from bench.workloads import Row

RECORDS = HERE / "records"
CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")
INTERPRETER = ("-c", "import platform as p; print(p.python_implementation(), p.python_version())")
ABSENT = "not installed"
NOT_INSTALLED = re.compile(r"(importlib\.metadata\.PackageNotFoundError|ModuleNotFoundError)\b")
NONE: Mapping[str, str] = {}
OF_A_RUN = ("date", "command", "load average at start", "partial", "resumed")  # facts that each run has for itself


def surroundings(setting: Setting, servers: Iterable[Server], arguments: list[str]) -> dict[str, object]:
    """Machine, kernel, versions, commit and command line."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "command": " ".join(["python -m bench", *arguments]),
        "commit": said(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]),
        "cpu": f"{cpu_name()}, {os.cpu_count()} cores",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB",
        "load average at start": f"{os.getloadavg()[0]:.2f}",
        "python of poorhttp": said([setting.python, *INTERPRETER]),
        **({"python of the build before": said([setting.before, *INTERPRETER])} if setting.before else {}),
        "python of the peers": said([setting.peers, *INTERPRETER]),
        "python of the bench": f"{platform.python_implementation()} {platform.python_version()}",
        "wrk": said(["wrk", "-v"]),
        "congestion control": CONGESTION.read_text().strip(),
        "servers": {server.name: server_version(server, setting) for server in dict.fromkeys(servers)},
    }


def server_version(server: Server, setting: Setting) -> dict[str, object]:
    python = python_of(server, setting)
    command = [part if part != "{python}" else python for part in server.version]
    return {"version": said(command, server.is_ours()), "command": " ".join(server.command), "note": server.note}


def said(command: list[str], ours: bool = False) -> str:
    """The first line that a command prints, or why there is none."""
    try:
        done = subprocess.run(
            command, env=environment(ours), cwd=HERE / "apps", capture_output=True, text=True, timeout=20, check=False
        )
    except FileNotFoundError:
        return ABSENT
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({type(error).__name__})"
    lines = (done.stdout or done.stderr).strip().splitlines()
    if not lines:
        return "unknown (printed nothing)"
    if not lines[0].startswith("Traceback"):
        return lines[0]
    return ABSENT if NOT_INSTALLED.match(lines[-1]) else f"unknown ({lines[-1]})"


def version_of(program: Callable[[], str], option: str) -> str:
    """What a program says of its version, or that it is not installed. program: finds it; may raise Failure."""
    try:
        return said([program(), option])
    except Failure as failure:
        return str(failure)


def versions(python: str, packages: Sequence[str]) -> dict[str, str]:
    """Package -> its version where this Python has it, else ABSENT."""
    code = (
        "import sys\nfrom importlib.metadata import PackageNotFoundError, version\nfor name in sys.argv[1:]:\n"
        f"    try: print(version(name))\n    except PackageNotFoundError: print({ABSENT!r})"
    )
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, timeout=60, check=False)
    return dict(zip(packages, done.stdout.splitlines(), strict=False))


def file_system_of_data() -> str:
    """The kind of file system that temporary directories lie on."""
    return said(["stat", "-f", "-c", "%T", tempfile.gettempdir()])


def cpu_name() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def heading(facts: dict[str, object]) -> str:
    """The surroundings as Markdown."""
    lines = [f"- {name}: {value}" for name, value in facts.items() if name != "servers"]
    servers = facts["servers"]
    assert isinstance(servers, dict)
    lines += [f"- {name}: {what['version']}; {what['note']}; `{what['command']}`" for name, what in servers.items()]
    return "\n".join(lines)


def write(
    name: str, facts: dict[str, object], results: Results, markdown: str, pictures: Mapping[str, str] = NONE
) -> Path:
    """Write bench/records/DATE/NAME.json and .md, never over an older record; returns the latter's path.

    pictures: SVG by name, written to DATE/NAME-PICTURE.svg and shown at the end of the Markdown.
    """
    directory = RECORDS / time.strftime("%Y-%m-%d")
    directory.mkdir(parents=True, exist_ok=True)
    taken = {path.stem for path in directory.iterdir()}
    stem = next(s for s in (name, *(f"{name}-{i}" for i in range(2, 1000))) if s not in taken)
    rows = [{"workload": row[0], "server": row[1], **asdict(result)} for row, result in results.items()]
    path = directory / f"{stem}.md"
    text = json.dumps({"surroundings": facts, "results": rows}, indent=1, ensure_ascii=False)
    path.with_suffix(".json").write_text(without_paths(text) + "\n")
    shown = "\n\n## Pictures" * bool(pictures)
    for picture, svg in pictures.items():
        path.with_name(f"{stem}-{picture}.svg").write_text(svg)
        shown += f"\n\n![{picture}]({stem}-{picture}.svg)"
    path.write_text(without_paths(markdown) + shown + "\n")
    return path


def read_partial(name: str) -> tuple[Path, dict[str, object], dict[Row, Result]]:
    """The JSON file of a record that a run has left when it was interrupted, its facts and what it measured.

    name: the file, or its `DATE/NAME` in bench/records. Raises Failure if it is no such record.
    """
    found = [path.with_suffix(".json") for path in (Path(name), RECORDS / name) if path.with_suffix(".json").exists()]
    if not found:
        raise Failure(f"{name}: no such file, here or in bench/records")
    try:
        data = json.loads(found[0].read_text())
        facts, rows = data["surroundings"], data["results"]
        results = {(row.pop("workload"), row.pop("server")): Result(**row) for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{name}: not a record of the bench: {error!r}") from error
    if "partial" not in facts:
        raise Failure(f"{name}: that run was not interrupted; nothing is left to measure")
    return found[0], facts, results


def ensure_same(earlier: Mapping[str, object], facts: Mapping[str, object]) -> None:
    """Raise Failure if the rounds before were measured on another machine, by other versions, or of other servers."""
    before, now = (_flat(json.loads(without_paths(json.dumps(each)))) for each in (earlier, facts))
    for name in dict.fromkeys((*before, *now)):
        if name not in OF_A_RUN and before.get(name) != now.get(name):
            raise Failure(f"the record does not fit: {name} was {before.get(name)}, and is {now.get(name)}")


def _flat(facts: Mapping[str, Any]) -> dict[str, object]:
    return {name: fact for name, fact in facts.items() if name != "servers"} | facts["servers"]


def remove(path: Path) -> None:
    """Remove a record that another one replaces."""
    for suffix in (".json", ".md"):
        path.with_suffix(suffix).unlink(missing_ok=True)


def without_paths(text: str) -> str:
    """The text without directories of this machine, which say nothing elsewhere."""
    return re.sub(r"(?<![\w.{}/])/(?:[\w.+-]+/)+(?=[\w.+-])", "", text)
