"""The suites: where each is, which stand-in it gets, how it is fetched and run, what its outcome says.

Knows pip, archives and the command line of pytest. Knows neither servers nor single tests (the stand-ins and
`deviations.py` do). Contract: `fetch` leaves everything unpacked in a cache that needs no network afterwards, or raises
Unavailable with the reason and the command; `run` gives the outcome of every test that was found, or raises Broken.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from conformance.functional.deviations import LEFT_OUT
from conformance.functional.serving import LOG

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".cache" / "functional"
ARCHIVES = HERE / "archives.txt"
DOWNLOAD = ["-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r", str(ARCHIVES)]
COMMAND = "python -m conformance.functional"
PATIENCE = 300.0
"""Seconds that a whole suite may take; each of its tests has its own limit."""

PASSED, DEVIATES, UNRUN, SKIPPED, FAILED = "passed", "deviates", "not run", "skipped", "failed"
"""The outcomes of a test: as its author wants it; as `deviations.py` says; left out there; skipped by itself; wrong."""


class Suite(NamedTuple):
    """tests: files or node ids below `home`, a directory of the cache. floor: tests that must pass, at least."""

    home: str
    tests: tuple[str, ...]
    floor: int


SUITES = {
    "waitress": Suite("waitress-3.0.2", ("tests",), 90),
    "cheroot": Suite("wheels", ("cheroot/test",), 18),
    "cherrypy": Suite("wheels", ("cherrypy/test",), 170),
    "django": Suite(
        "django-5.2.19/tests",
        # All that start a live server, but those for browsers.
        (
            "servers/tests.py",
            "servers/test_liveserverthread.py",
            "staticfiles_tests/test_liveserver.py",
            "file_storage/tests.py::FileLikeObjectTestCase",
        ),
        20,
    ),
}


class Unavailable(Exception):
    """The archives are not there and cannot be fetched."""


class Broken(Exception):
    """A suite did not come to an end that can be judged; the text is what it said."""


class Outcome(NamedTuple):
    """What became of each test: its id -> (one of the outcomes, why)."""

    tests: dict[str, tuple[str, str]]

    def count(self, *outcomes: str) -> int:
        counts = collections.Counter(outcome for outcome, _ in self.tests.values())
        return sum(counts[outcome] for outcome in outcomes)

    def failures(self) -> list[str]:
        return [f"{test}: {why}" for test, (outcome, why) in sorted(self.tests.items()) if outcome == FAILED]

    def summary(self) -> str:
        ran = self.count(PASSED, DEVIATES, FAILED)
        parts = [f"{self.count(each)} {each}" for each in (PASSED, DEVIATES, FAILED, UNRUN, SKIPPED)]
        return f"{len(self.tests)} found, {ran} ran: {', '.join(parts)}"


def fetch() -> Path:
    """Return the directory with all archives unpacked. Raises Unavailable."""
    unpacked = CACHE / hashlib.sha256(ARCHIVES.read_bytes()).hexdigest()[:16]
    if unpacked.exists():
        return unpacked
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        archives, room = Path(scratch, "archives"), Path(scratch, "room")
        command = [sys.executable, *DOWNLOAD, "--dest", str(archives)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            error = (done.stderr or done.stdout).strip().rpartition("\n")[2]
            raise Unavailable(f"pip says {error!r}; with a network `{COMMAND}` fetches the archives")
        for archive in archives.iterdir():
            _unpack(archive, room)
        try:
            room.rename(unpacked)
        except OSError:
            if not unpacked.exists():  # another run was faster
                raise
    return unpacked


def _unpack(archive: Path, room: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(room / "wheels")
    else:
        with tarfile.open(archive) as source:
            # The archive is the very file whose digest is pinned; the filter is not in every Python 3.10.
            source.extractall(room, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def run(name: str, unpacked: Path, *, select: str = "") -> Outcome:
    """Run one suite: its outcome. select: an expression of `pytest -k`, "" for all. Raises Broken."""
    suite = SUITES[name]
    scratch = Path(tempfile.mkdtemp(prefix="poorhttp-functional-"))
    try:
        result, log = scratch / "result.json", scratch / "error.log"
        # Some suites write beside their files; runs may be at the same time.
        home = shutil.copytree(unpacked / suite.home, scratch / "home", symlinks=True)
        code, said = _ended(
            _command(name, suite, home, select), scratch, _environment(name, home, unpacked, result, log)
        )
        if not result.exists():
            raise Broken(f"{name}: exit code {code}\n{said[-6000:]}")
        outcome = Outcome({test: (each[0], each[1]) for test, each in json.loads(result.read_text()).items()})
        text = log.read_text(errors="replace") if log.exists() else ""
        if "panic" in text:
            raise Broken(f"{name}: the engine panicked\n{text[-6000:]}")
        # 0: all passed, 1: some failed; everything else is no result.
        if code not in (0, 1) or (code == 1) != bool(outcome.failures()):
            raise Broken(f"{name}: exit code {code}, {outcome.summary()}\n{said[-6000:]}")
        return outcome
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def shortfall(name: str, outcome: Outcome) -> str:
    """What keeps a run with too few tests from passing; "" if there were enough."""
    passed, floor = outcome.count(PASSED), SUITES[name].floor
    return f"{name}: {passed} tests passed, expected {floor} at least" if passed < floor else ""


def _command(name: str, suite: Suite, home: Path, select: str) -> list[str]:
    plugins = ["conformance.functional.judge", f"conformance.functional.in_{name}"]
    return [
        sys.executable,
        "-m",
        "pytest",
        "--quiet",
        *("-c", os.devnull, f"--rootdir={home}", "-p", "no:cacheprovider", "--import-mode=append"),
        # What these suites leave open is theirs; what poorhttp leaves open its own tests see.
        *("-o", "filterwarnings=default", "--timeout=30"),
        *(word for plugin in plugins for word in ("-p", plugin)),
        *(["-k", select] if select else []),
        *(str(home / each) for each in suite.tests),
        *(f"--ignore={home / suite.tests[0] / each}" for each in left_out(name)),
    ]


def _ended(command: list[str], directory: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run to the end, or to that of all patience: exit code and output. Nothing of it is left afterwards."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = -signal.SIGKILL
        finally:
            # The servers that the tests fork, too: the process has a session of its own.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def left_out(name: str) -> list[str]:
    """The files of a suite that `deviations.py` leaves out."""
    return [f"test_{each}.py" for names in LEFT_OUT[name].values() for each in names]


def _environment(name: str, home: Path, unpacked: Path, result: Path, log: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("POORHTTP_", "PYTEST_"))}
    paths = [home, unpacked / "wheels", unpacked / "django-5.2.19", ROOT]
    told = {"FUNCTIONAL_SUITE": name, "FUNCTIONAL_RESULT": str(result), LOG: str(log), "WEBTEST_INTERACTIVE": "false"}
    return kept | told | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
