"""A build without a Rust compiler that is new enough: one sentence tells what to do on this system."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOK = "import backend; print(backend.get_requires_for_build_wheel())"


def build(programs: Path) -> subprocess.CompletedProcess[str]:
    """The first hook that pip calls, where only these programs are installed."""
    environ = {**os.environ, "PATH": str(programs), "PYTHONPATH": str(ROOT / "packaging")}
    command = [sys.executable, "-c", HOOK]
    return subprocess.run(command, cwd=programs, env=environ, capture_output=True, text=True, timeout=60, check=False)


def install(folder: Path, name: str, version: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\necho '{name} {version} (0000000 2022-11-01)'\n", encoding="utf-8")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("programs", "told"),
    [
        ({}, "rustc is missing and cargo is missing"),
        ({"rustc": "1.63.0", "cargo": "1.65.0"}, "rustc is 1.63 and cargo is 1.65"),
        ({"rustc": "1.85.0"}, "rustc is 1.85 and cargo is missing"),
    ],
)
def test_without_a_compiler_one_sentence_tells_what_to_do(tmp_path: Path, programs: dict[str, str], told: str) -> None:
    for name, version in programs.items():
        install(tmp_path, name, version)
    done = build(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"poorhttp is compiled by Rust 1.85 or newer, but {told}: ")
    assert done.stderr.count("\n") == 1 and not done.stdout


def test_with_a_compiler_setuptools_goes_on(tmp_path: Path) -> None:
    for name in ("rustc", "cargo"):
        install(tmp_path, name, "1.85.0")
    done = build(tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("]\n"), done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('ID=debian\nVERSION_ID="13"\n', "sudo apt install cargo"),
        ('ID=debian\nVERSION_ID="12"\n', "sudo apt install rustc-web cargo-web"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "sudo apt install rustup gcc && rustup default stable"),
        ("ID=fedora\nVERSION_ID=43\n", "sudo dnf install cargo"),
        ("ID=alpine\nVERSION_ID=3.22.1\n", "sudo apk add cargo"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "sudo apt install rustup gcc && rustup default stable"),
        ("ID=plan9\n", "install it from https://rustup.rs/"),
        ("\xff\n=\n", "install it from https://rustup.rs/"),
    ],
)
def test_the_advice_is_that_of_the_system(
    tmp_path: Path, text: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "packaging")
    import backend

    (tmp_path / "os-release").write_text(text, encoding="latin-1")
    assert backend.advice(tmp_path / "os-release") == told
    assert backend.advice(tmp_path / "missing") == backend.RUSTUP
