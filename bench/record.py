"""Where and with what it was measured, and the files that keep it: JSON for programs, Markdown for people."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from bench.launch import HERE, ROOT, Setting, environment, is_ours, python_of
from bench.report import Results
from bench.servers import Server

RECORDS = HERE / "records"
CONGESTION = Path("/proc/sys/net/ipv4/tcp_congestion_control")
NONE: Mapping[str, str] = {}


def surroundings(setting: Setting, servers: Iterable[Server], arguments: list[str]) -> dict[str, object]:
    """Machine, kernel, versions, commit and command line."""
    interpreter = ("-c", "import platform as p; print(p.python_implementation(), p.python_version())")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "command": " ".join(["python -m bench", *arguments]),
        "commit": said(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]),
        "cpu": f"{cpu_name()}, {os.cpu_count()} cores",
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB",
        "load average at start": f"{os.getloadavg()[0]:.2f}",
        "python of poorhttp": said([setting.python, *interpreter]),
        **({"python of the build before": said([setting.before, *interpreter])} if setting.before else {}),
        "python of the peers": said([setting.peers, *interpreter]),
        "python of the bench": f"{platform.python_implementation()} {platform.python_version()}",
        "wrk": said(["wrk", "-v"]),
        "congestion control": CONGESTION.read_text().strip(),
        "servers": {server.name: server_version(server, setting) for server in dict.fromkeys(servers)},
    }


def server_version(server: Server, setting: Setting) -> dict[str, object]:
    python = python_of(server, setting)
    command = [part if part != "{python}" else python for part in server.version]
    return {"version": said(command, is_ours(server)), "command": " ".join(server.command), "note": server.note}


def said(command: list[str], ours: bool = False) -> str:
    """The first line that a command prints, or why there is none."""
    try:
        done = subprocess.run(
            command, env=environment(ours), cwd=HERE / "apps", capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unknown ({type(error).__name__})"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown (printed nothing)"


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
    """Write bench/records/DATE-NAME.json and .md, never over an older record; returns the latter's path.

    pictures: SVG by name, written to DATE-NAME-PICTURE.svg and shown at the end of the Markdown.
    """
    RECORDS.mkdir(exist_ok=True)
    stem = f"{time.strftime('%Y-%m-%d')}-{name}"
    taken = {path.stem for path in RECORDS.iterdir()}
    stem = next(s for s in (stem, *(f"{stem}-{i}" for i in range(2, 1000))) if s not in taken)
    rows = [{"workload": row[0], "server": row[1], **asdict(result)} for row, result in results.items()]
    path = RECORDS / f"{stem}.md"
    text = json.dumps({"surroundings": facts, "results": rows}, indent=1, ensure_ascii=False)
    path.with_suffix(".json").write_text(without_paths(text) + "\n")
    shown = "\n\n## Pictures" * bool(pictures)
    for picture, svg in pictures.items():
        path.with_name(f"{stem}-{picture}.svg").write_text(svg)
        shown += f"\n\n![{picture}]({stem}-{picture}.svg)"
    path.write_text(without_paths(markdown) + shown + "\n")
    return path


def without_paths(text: str) -> str:
    """The text without directories of this machine, which say nothing elsewhere."""
    return re.sub(r"(?<![\w.{}/])/(?:[\w.+-]+/)+(?=[\w.+-])", "", text)
