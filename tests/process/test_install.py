"""What is built from this tree installs elsewhere: a source distribution and, from that, a wheel.

Contract: the wheel needs no compiler, no index and no other package, and serves the examples in a fresh environment;
where there is no Rust compiler, what the source distribution says names it.
"""

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from starter import ROOT

LIMIT = 13 << 18
"""Bytes that the installed package may have, bytecode included: 3.25 MiB. `bench memory` asks for 3 MiB."""


OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
"""The environment of whoever has nothing of this tree."""


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=280, check=False, env={**OUTSIDE, **variables}
    )


def environment(path: Path) -> Path:
    """The directory of the programs of a new environment."""
    done = run(sys.executable, "-m", "venv", path)
    assert done.returncode == 0, done.stderr
    return path / "bin"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution and the wheel. What was compiled of this tree is not compiled again."""
    directory = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--outdir", directory, ROOT, CARGO_TARGET_DIR=str(ROOT / "target"))
    if "NewConnectionError" in done.stdout + done.stderr:
        pytest.skip("the build tools cannot be fetched: install where there is a network")
    assert done.returncode == 0, done.stdout + done.stderr
    (source,), (wheel,) = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return source, wheel


@pytest.mark.timeout(300)
def test_a_wheel_serves_the_examples_in_a_fresh_environment(built: tuple[Path, Path], tmp_path: Path) -> None:
    source, wheel = built
    programs = environment(tmp_path / "venv")
    done = run(programs / "pip", "install", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    (package,) = (tmp_path / "venv").glob("lib/python*/site-packages/poorhttp")
    assert sum(file.stat().st_size for file in package.rglob("*") if file.is_file()) <= LIMIT
    assert run("tar", "-xzf", source, "-C", tmp_path).returncode == 0
    (unpacked,) = tmp_path.glob("poorhttp-*")
    command = [programs / "poorhttp", "-c", unpacked / "poorhttp.ini", "--port=0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=OUTSIDE) as server:
        try:
            assert server.stderr is not None
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+", line)))
            for path in ("", "light", "heavy"):
                with urllib.request.urlopen(address + path, timeout=20) as answer:
                    assert answer.status == 200 and answer.read()
            server.terminate()
            assert server.wait(20) == 0
        finally:
            server.kill()


@pytest.mark.timeout(300)
def test_without_a_rust_compiler_it_is_said_what_to_install(built: tuple[Path, Path], tmp_path: Path) -> None:
    source, _ = built
    programs = Path(sys.executable).parent
    done = run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        source,
        "-w",
        tmp_path,
        PATH=str(programs),
        HOME=str(tmp_path),
    )
    assert done.returncode != 0
    assert "can't find Rust compiler" in done.stdout + done.stderr
    assert "https://rustup.rs" in done.stdout + done.stderr
