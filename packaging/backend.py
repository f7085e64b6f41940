"""How pip builds poorhttp: by setuptools, once it is sure that a Rust compiler is there which is new enough.

Without one setuptools-rust ends with a traceback that names no package of the system; this names the command.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable", "build_sdist", "build_wheel", "get_requires_for_build_editable", "get_requires_for_build_sdist",
    "get_requires_for_build_wheel", "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel",
]  # fmt: skip

ROOT = Path(__file__).parent.parent
RUSTUP = "install it from https://rustup.rs/"
COMMANDS = {
    "debian": "sudo apt install cargo",
    "debian 12": "sudo apt install rustc-web cargo-web",
    "debian 11": RUSTUP,
    "ubuntu": "sudo apt install rustup gcc && rustup default stable",
    "ubuntu 22.04": RUSTUP,
    "fedora": "sudo dnf install cargo",
    "alpine": "sudo apk add cargo",
    "arch": "sudo pacman -S rust",
}
"""By ID of os-release, and by ID and VERSION_ID where a release needs something else."""


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    ensure_compiler()
    return build_meta.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings: dict | None = None) -> list[str]:
    ensure_compiler()
    return build_meta.get_requires_for_build_editable(config_settings)


def ensure_compiler() -> None:
    """End the build with a message, and without a traceback, where Rust is missing or too old."""
    needed = re.search(r'(?m)^rust-version = "(\d+)\.(\d+)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert needed
    found = [version_of("rustc"), version_of("cargo")]
    if any(version is None or version < (int(needed[1]), int(needed[2])) for version in found):
        told = " and ".join(f"{name} {'is missing' if version is None else f'is {version[0]}.{version[1]}'}"
                            for name, version in zip(("rustc", "cargo"), found, strict=True))  # fmt: skip
        raise SystemExit(f"poorhttp is compiled by Rust {needed[1]}.{needed[2]} or newer, but {told}: {advice()}")


def version_of(program: str) -> tuple[int, int] | None:
    """Major and minor version; None where the program is missing, or does not tell."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    told = re.search(r"(\d+)\.(\d+)", done.stdout)
    return (int(told[1]), int(told[2])) if told else None


def advice(os_release: Path = Path("/etc/os-release")) -> str:
    """What to do on this system. Distributions made of others name these in ID_LIKE."""
    text = os_release.read_text(encoding="utf-8", errors="replace") if os_release.is_file() else ""
    told = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)', text))
    system = told.get("ID", "")
    for name in (f"{system} {told.get('VERSION_ID', '')}", system, *told.get("ID_LIKE", "").split()):
        if name in COMMANDS:
            return COMMANDS[name]
    return RUSTUP
