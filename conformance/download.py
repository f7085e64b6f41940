"""The packages that hold the suites: fetched once by the registries' own clients, pinned, checked, never committed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "suites"

# name, version, SHA-256 of the source distribution
GUNICORN = ("gunicorn", "27.0.1", "b1514965361c8b7e8107a80aa2a92636878df1ccfac6dd204a676426e04d9e3e")
AIOHTTP = ("aiohttp", "3.14.5", "5558a7f5a05af9ecf744af91e5baefc436f93c9333e656c27ec253f9a6bbe178")
# name, version, SHA-256 of the crate
GUARDIAN = ("http_desync_guardian", "0.1.3", "ad6e2c57ee440735bff81df73424914248782406defb1c301042baae2cf4ae74")
PATIENCE = 180  # seconds for one download


class Unavailable(Exception):
    """A suite cannot be had; the text says why, and which command was tried."""


class Broken(Exception):
    """A suite was had, and is not what it should be."""


def sdist(package: tuple[str, str, str], wanted: str) -> Path:
    """The directory `wanted` of a source distribution: downloaded by pip, verified, only that directory unpacked."""
    name, version, digest = package
    archive = CACHE / f"{name}-{version}.tar.gz"
    if not archive.exists():
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:",
             "--disable-pip-version-check", f"--dest={CACHE}", f"{name}=={version}"])  # fmt: skip
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != digest:
        raise Broken(f"{archive.name} has SHA-256 {found}, expected {digest}: remove it if it is damaged")
    directory = CACHE / f"{name}-{version}" / wanted
    if not directory.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as tar, tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            for member in tar:
                file = tar.extractfile(member) if member.name.startswith(f"{name}-{version}/{wanted}/") else None
                if file:
                    path = Path(scratch, member.name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(file.read())
            with contextlib.suppress(OSError):  # another run was faster
                Path(scratch, directory.relative_to(CACHE)).rename(directory)
    return directory


def crate(package: tuple[str, str, str], wanted: str) -> Path:
    """The directory `wanted` of a crate: vendored by cargo, which verifies it, for a manifest that nobody builds."""
    name, version, digest = package
    project = CACHE / f"{name}-{version}"
    vendored = project / "vendor" / name
    if not vendored.exists():
        (project / "src").mkdir(parents=True, exist_ok=True)
        (project / "src" / "lib.rs").touch()
        manifest = f'[package]\nname = "suite"\n[dependencies]\n{name} = "={version}"\n[workspace]\n'
        (project / "Cargo.toml").write_text(manifest)
        run(["cargo", "vendor", "--quiet", f"--manifest-path={project / 'Cargo.toml'}", str(vendored.parent)])
    found = json.loads((vendored / ".cargo-checksum.json").read_text())["package"]
    if found != digest:
        raise Broken(f"{name} {version} has SHA-256 {found}, expected {digest}: remove {vendored}")
    return vendored / wanted


def run(command: list[str]) -> None:
    """Run a downloading command in the cache; raises Unavailable with its last words."""
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command, cwd=CACHE, capture_output=True, text=True, errors="replace", timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["no message"]
        raise Unavailable(f"{' '.join(command)}: {words[-1]}")
