"""`make wheels`: wheels of poorhttp in dist/, for several CPythons and processors, from one machine.

A wheel for this machine is built as pip does it. For each other one the engine is compiled alone, against the glibc of
2012 (manylinux2014, 2.17) by zig's linker, and takes the place of the engine in a copy of that wheel. Needs a Rust
compiler with the standard library of each target, on Debian 12:

    dpkg --add-architecture arm64 && dpkg --add-architecture armhf && apt-get update
    apt-get install rustc-web cargo-web libstd-rust-web-dev:arm64 libstd-rust-web-dev:armhf

(with rustup: `rustup target add aarch64-unknown-linux-gnu armv7-unknown-linux-gnueabihf`). A target that the compiler
lacks is named, and the run fails at its end. Each wheel is checked by auditwheel, and must not have more than 2 MB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
GLIBC = (2, 17)
MOST = 2_000_000
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
# The processor as a wheel names it: Rust's name of the target, and what ends the name of the engine.
TARGETS = {
    "x86_64": ("x86_64-unknown-linux-gnu", "x86_64-linux-gnu"),
    "aarch64": ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu"),
    "armv7l": ("armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf"),
}


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", str(ROOT))
    lacking = [target for target, _ in TARGETS.values() if not has_library(target)]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        run(sys.executable, "-m", "build", "--wheel", "--outdir", str(work), str(ROOT))
        (built,) = work.glob("*.whl")
        run(sys.executable, "-m", "wheel", "unpack", "--dest", str(work), str(built))
        (content,) = (path for path in work.iterdir() if path.is_dir())
        for processor, (target, suffix) in TARGETS.items():
            for python in PYTHONS if target not in lacking else ():
                put_engine(content, compiled(target, python), python, suffix)
                check(pack(content, python, processor))
    for target in lacking:
        print(f"no wheels for {target}: the Rust compiler lacks its standard library", file=sys.stderr)
    return 1 if lacking else 0


def has_library(target: str) -> bool:
    command = ["rustc", "--print", "target-libdir", "--target", target]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return any(Path(told).glob("libstd-*"))


def compiled(target: str, python: str) -> Path:
    """The engine for a processor and a version of Python."""
    environ = {"PYO3_CROSS_PYTHON_VERSION": python, "PYO3_CROSS": "1", "PYO3_BUILD_EXTENSION_MODULE": "1"}
    glibc = ".".join(map(str, GLIBC))
    run("cargo-zigbuild", "zigbuild", "--locked", "--release", "--lib", "--target", f"{target}.{glibc}", **environ)
    return ROOT / "target" / target / "release" / "lib_engine.so"


def put_engine(content: Path, engine: Path, python: str, suffix: str) -> None:
    package = content / "poorhttp"
    for other in package.glob("_engine*.so"):
        other.unlink()
    shutil.copy(engine, package / f"_engine.cpython-{python.replace('.', '')}-{suffix}.so")


def pack(content: Path, python: str, processor: str) -> Path:
    """The wheel that the folder is the content of, with the tags of its engine. Returns its path in dist/."""
    version = f"cp{python.replace('.', '')}"
    major, minor = GLIBC
    platforms = (f"manylinux_{major}_{minor}_{processor}", f"manylinux2014_{processor}")
    (about,) = content.glob("*.dist-info/WHEEL")
    lines = [line for line in about.read_text(encoding="utf-8").splitlines() if line and not line.startswith("Tag:")]
    lines += [f"Tag: {version}-{version}-{platform}" for platform in platforms]
    about.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", str(DIST), str(content))
    (packed,) = DIST.glob(f"*-{version}-{version}-*{platforms[0]}*.whl")
    return packed


def check(wheel: Path) -> None:
    """End with a message if a wheel needs more than it says, or is too large."""
    told = subprocess.run(["auditwheel", "show", str(wheel)], capture_output=True, text=True, check=False)
    wanted = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_"
    if told.returncode or wanted not in told.stdout:
        sys.exit(f"{wheel.name} needs more than {wanted}: {told.stdout}{told.stderr}")
    if (size := wheel.stat().st_size) > MOST:
        sys.exit(f"{wheel.name} has {size:,} bytes; expected at most {MOST:,}")
    print(f"{wheel.name}: {size:,} bytes")


def run(*command: str, **environ: str) -> None:
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environ}, check=True)


if __name__ == "__main__":
    sys.exit(main())
