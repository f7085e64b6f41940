"""What is built from this tree installs elsewhere: a source distribution and, from that, a wheel.

Contract: the wheel needs no compiler, no index and no other package, and serves the tour of examples/ in a fresh environment,
where `man poorhttp` works;
where there is no Rust compiler, what the source distribution says names it.

The engine was compiled when this tree was installed, and is not compiled again: the source distribution must have all
that cargo reads, byte by byte, and the wheel gets what cargo makes of it here. `make dist` compiles it.
"""

import filecmp
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from starter import ROOT

from share.files import FILES

LIMIT = 17 << 18
"""Bytes that the installed package may have, bytecode included: 4.25 MiB. `bench memory` asks for 3."""

OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
"""The environment of a user who has nothing of this tree."""

PIP = Path(sys.executable).with_name("pip")
"""As the README calls it: cargo compiles again for an interpreter of another name."""

NO_SOURCE = ".git", ".venv*", ".*cache*", "__pycache__", "*.egg-info", "*.so", "target", "build", "dist"
"""Names in this tree of what was made from it."""

CARGO_HERE = """#!/bin/sh
cd {root} && exec cargo "$@"
"""
"""cargo as setuptools-rust calls it in an unpacked source distribution, with `Cargo.toml` for a path."""


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, env={**OUTSIDE, **variables}
    )


def succeed(*command: str | Path, **variables: str) -> str:
    """Run a command that must not fail: its standard output."""
    done = run(*command, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built in a copy: a new directory beside the package makes servers of other tests reload."""
    directory = tmp_path_factory.mktemp("dist")
    tree = shutil.copytree(ROOT, directory / "tree", symlinks=True, ignore=shutil.ignore_patterns(*NO_SOURCE))
    succeed(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", directory, tree)
    (source,) = directory.glob("*.tar.gz")
    return source


@pytest.fixture(scope="module")
def unpacked(source: Path) -> Path:
    succeed("tar", "-xzf", source, "-C", source.parent)
    (unpacked,) = source.parent.glob("poorhttp-*/")
    return unpacked


def files(directory: Path) -> list[str]:
    """Relative to it, those below it."""
    return sorted(str(each.relative_to(directory)) for each in directory.rglob("*") if each.is_file())


def test_cargo_reads_the_same_in_the_source_distribution(unpacked: Path) -> None:
    """And finds all that Cargo.toml names."""
    rust = [f"src/{each}" for each in files(ROOT / "src")]
    assert files(unpacked / "src") == files(ROOT / "src")
    same, other, missing = filecmp.cmpfiles(
        ROOT, unpacked, ["build.rs", "Cargo.lock", "Cargo.toml", "pyproject.toml", *rust], shallow=False
    )
    assert same and not other and not missing, (other, missing)
    told = json.loads(
        succeed("cargo", "metadata", "--no-deps", "--format-version=1", "--manifest-path", unpacked / "Cargo.toml")
    )
    targets = [Path(target["src_path"]) for package in told["packages"] for target in package["targets"]]
    assert targets and all(path.is_relative_to(unpacked) and path.is_file() for path in targets), targets


@pytest.mark.timeout(300)
def test_a_wheel_serves_the_examples_in_a_fresh_environment(source: Path, unpacked: Path, tmp_path: Path) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text(CARGO_HERE.format(root=shlex.quote(str(ROOT))))
    cargo.chmod(0o755)
    succeed(PIP, "wheel", "--no-deps", "--no-build-isolation", source, "-w", tmp_path, CARGO=str(cargo))
    (wheel,) = tmp_path.glob("*.whl")
    succeed(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    succeed(PIP, "--python", programs / "python", "install", "--no-index", wheel)
    (package,) = (tmp_path / "venv").glob("lib/python*/site-packages/poorhttp")
    assert sum(file.stat().st_size for file in package.rglob("*") if file.is_file()) <= LIMIT
    assert files(tmp_path / "venv/share") == sorted(name.removeprefix("share/") for name in FILES)
    if shutil.which("man"):  # which looks beside each directory of PATH, as in an activated environment
        told = succeed("man", "--where", "poorhttp", PATH=f"{programs}:{os.environ['PATH']}", MANPATH="")
        assert Path(told.strip()) == tmp_path / "venv/share/man/man1/poorhttp.1"
    command = [programs / "poorhttp", "-c", unpacked / "poorhttp.ini", "--port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=OUTSIDE) as server:
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+", line)))
            for path in ("", "hello/world", "sum/1/2"):
                with urllib.request.urlopen(address + path, timeout=20) as answer:
                    assert answer.status == 200 and answer.read()
            server.terminate()
            assert server.wait(20) == 0
        finally:
            server.kill()


def test_without_a_rust_compiler_it_is_said_what_to_install(source: Path, tmp_path: Path) -> None:
    done = run(
        *(PIP, "wheel", "--no-deps", "--no-build-isolation", source, "-w", tmp_path),
        PATH=str(PIP.parent),
        HOME=str(tmp_path),
    )
    assert done.returncode != 0
    assert "can't find Rust compiler" in done.stdout + done.stderr
    assert "https://rustup.rs" in done.stdout + done.stderr
