"""The crates that the engine and its fuzz targets are built from: their licences, sources, and known defects.

Knows both Cargo.lock by way of `cargo metadata`. KNOWN is what the RustSec database held at REVIEWED of the crates of the
engine and its tests; of what only the fuzz targets need not all was looked up. This check sees no advisory that is
newer, for which `cargo audit` asks the database itself. A crate that becomes part of the
engine must be looked up there and be put into ENGINE.
"""

from __future__ import annotations

import json
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
REVIEWED = "2026-11-21"

# What is linked into poorhttp/_engine on Linux; what only builds or tests it is not in here.
ENGINE = {
    *("bitflags", "errno", "httpdate", "itoa", "libc", "linux-raw-sys", "memchr", "once_cell"),
    *("pyo3", "pyo3-ffi", "rustix"),
}
# Licences that ask for no more than their text, or that Rust's own library has.
LICENCES = {"Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause", "MIT", "NCSA", "Unicode-3.0", "Unlicense"}
# SHA-256 of the name that Cargo.lock has for Rust's own registry.
REGISTRY = "c19b7c6f923b580ac259164a89f2577984ad5ab09ee9d583b888f934adbbe8d0"
# crate: the first version in which all that is known of it is repaired, and what that was.
KNOWN = {
    "once_cell": ("1.0.1", "RUSTSEC-2019-0017"),
    "pyo3": (
        "0.29.0",
        "RUSTSEC-2020-0074, RUSTSEC-2024-0378, RUSTSEC-2025-0020, RUSTSEC-2026-0013, RUSTSEC-2026-0176 and -0177",
    ),
    "rustix": ("0.38.19", "CVE-2024-43806"),
    "shlex": ("1.3.0", "RUSTSEC-2024-0006"),
    "smallvec": (
        "1.6.1",
        "RUSTSEC-2018-0003, RUSTSEC-2018-0018, RUSTSEC-2019-0009, RUSTSEC-2019-0012, RUSTSEC-2021-0003",
    ),
}

Package = dict[str, Any]


def numbers(version: str) -> tuple[int, ...]:
    """`1.2.3-alpha+build` as (1, 2, 3)."""
    return tuple(int(part) for part in re.split(r"[-+]", version)[0].split("."))


def is_allowed(expression: str | None) -> bool:
    """Whether a licence expression (SPDX) can be met: `A OR B` by one of them, `A AND B` by both. AND binds closer.

    A slash is how crates wrote OR before SPDX.
    """
    if not expression:
        return False
    expression = expression.replace("/", " OR ")
    while (inner := re.search(r"\(([^()]*)\)", expression)) is not None:
        met = "MIT" if is_allowed(inner[1]) else "none"
        expression = expression[: inner.start()] + met + expression[inner.end() :]
    return any(all(one in LICENCES for one in each.split(" AND ")) for each in expression.split(" OR "))


def faults(package: Package) -> list[str]:
    """What is wrong with one package of `cargo metadata`."""
    name, version = package["name"], package["version"]
    found = []
    if package["source"] is not None and sha256(package["source"].encode()).hexdigest() != REGISTRY:
        found.append(f"{name} comes from {package['source']}")
    if not is_allowed(package["license"]):
        found.append(f"{name} has the licence {package['license']}")
    repaired, advisories = KNOWN.get(name, ("0", ""))
    if numbers(version) < numbers(repaired):
        found.append(f"{name} {version} is older than {repaired}: {advisories}")
    return found


def linked(metadata: dict[str, Any]) -> set[str]:
    """The names of what gets into the engine: normal dependencies, transitively, but not macros and what they need."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    found: set[str] = set()
    todo = [metadata["resolve"]["root"]]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            package = packages[dependency["pkg"]]
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
            if is_normal and not is_macro and package["name"] not in found:
                found.add(package["name"])
                todo.append(dependency["pkg"])
    return found


def metadata_of(folder: Path) -> dict[str, Any]:
    """Fails where Cargo.lock does not fit Cargo.toml. Crates that were never fetched are, once."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.fixture(scope="module")
def metadata() -> dict[str, Any]:
    return metadata_of(ROOT)


@pytest.mark.parametrize("folder", [".", "fuzz"])
def test_every_package_has_a_known_source_a_free_licence_and_no_known_defect(folder: str) -> None:
    packages = metadata_of(ROOT / folder)["packages"]
    assert len(packages) > len(ENGINE)
    assert [fault for package in packages for fault in faults(package)] == []


def test_what_is_linked_into_the_engine_was_looked_up(metadata: dict[str, Any]) -> None:
    assert linked(metadata) == ENGINE


@pytest.mark.parametrize(("folder", "own"), [(".", ["poorhttp"]), ("fuzz", ["poorhttp", "poorhttp-fuzz"])])
def test_every_package_of_the_lock_has_its_checksum(folder: str, own: list[str]) -> None:
    entries = (ROOT / folder / "Cargo.lock").read_text(encoding="utf-8").split("[[package]]")[1:]
    without = [entry for entry in entries if not re.search(r'^checksum = "[0-9a-f]{64}"$', entry, re.MULTILINE)]
    assert [re.findall(r'^name = "(.*)"$', entry, re.MULTILINE) for entry in without] == [[name] for name in own]


# ------------------------------------------------------------------------------------------------ that it can fail


def package(**changed: Any) -> Package:
    return {"name": "x", "version": "1.0.0", "license": "MIT", "source": None} | changed


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"license": "GPL-3.0-only"}, "licence"),
        ({"license": None}, "licence"),
        ({"license": "MIT AND GPL-3.0-only"}, "licence"),
        ({"license": "(MIT OR Apache-2.0) AND GPL-3.0-only"}, "licence"),
        ({"source": "git+https://example.com/x"}, "comes from"),
        ({"source": "registry+https://example.com/index"}, "comes from"),
        ({"name": "pyo3", "version": "0.28.3"}, "RUSTSEC-2026-0176"),
        ({"name": "rustix", "version": "0.38.18"}, "CVE-2024-43806"),
    ],
)
def test_a_bad_package_is_found(changed: Package, words: str) -> None:
    assert len(faults(package(**changed))) == 1
    assert words in faults(package(**changed))[0]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"source": None},
        {"license": "GPL-3.0-only OR MIT"},
        {"license": "MIT/Apache-2.0"},
        {"license": "(MIT OR GPL-3.0-only) AND Unicode-3.0"},
        {"license": "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only"},
        {"name": "pyo3", "version": "0.29.0"},
        {"name": "pyo3", "version": "0.100.0-beta.1"},
    ],
)
def test_a_good_package_passes(changed: Package) -> None:
    assert faults(package(**changed)) == []


def test_a_new_dependency_of_the_engine_is_found(metadata: dict[str, Any]) -> None:
    """Two crates more, one of them by way of the other; what only a macro or a test needs is no part of the engine."""
    root = metadata["resolve"]["root"]
    normal, other = [{"kind": None}], [{"kind": "dev"}]
    library, macro = [{"kind": ["lib"]}], [{"kind": ["proc-macro"]}]
    packages = [
        *({"id": name, "name": name, "targets": library} for name in ("new", "newer", "tester")),
        {"id": "macro", "name": "macro", "targets": macro},
    ]
    nodes = [
        {"id": root, "deps": [{"pkg": name, "dep_kinds": normal} for name in ("new", "macro")]},
        {"id": "new", "deps": [{"pkg": "newer", "dep_kinds": normal}, {"pkg": "tester", "dep_kinds": other}]},
        *({"id": name, "deps": []} for name in ("newer", "tester", "macro")),
    ]
    assert linked({"packages": packages, "resolve": {"root": root, "nodes": nodes}}) == {"new", "newer"}
