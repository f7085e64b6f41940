"""`poorhttp.system.program`: a program that is started as a child, waited for and killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from poorhttp.system.program import Program

Begin = Callable[..., Program]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Start Python with this code, in the directory of the test: what it prints is in the files `output` and `errors`."""
    started = []

    def begin(code: str, directory: Path = tmp_path) -> Program:
        streams = [os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT, 0o600) for name in ("output", "errors")]
        try:
            started.append(Program(["-c", code], {b"GIVEN": b"a b"}, str(directory), *streams))
        finally:
            for each in streams:
                os.close(each)
        return started[-1]

    yield begin
    for each in started:
        each.kill()


def test_it_runs_in_its_directory_with_what_it_is_given(begin: Begin, tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), dict(os.environ)['GIVEN'], sys.stdin.read()); sys.exit('wrong')"
    program = begin(code)
    assert program.wait(30) == 1 == program.poll()
    assert (tmp_path / "output").read_text() == f"{tmp_path} a b \n" and (tmp_path / "errors").read_text() == "wrong\n"


def test_a_module_in_the_present_directory_is_not_imported(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "present"
    place.mkdir()
    for name in sys.stdlib_module_names.difference(sys.builtin_module_names):
        (place / f"{name}.py").write_text("raise SystemError")
    monkeypatch.chdir(place)
    assert begin("pass").wait(30) == 0


def test_it_is_waited_for_and_killed(begin: Begin) -> None:
    program = begin("import time; time.sleep(60)")
    assert program.poll() is None and program.wait(0.05) is None
    program.kill()
    assert program.poll() == -signal.SIGKILL
    program.kill()  # nobody


def test_one_that_somebody_else_has_reaped_counts_as_ended(begin: Begin) -> None:
    program = begin("pass")
    os.waitpid(program.pid, 0)
    assert program.poll() == 0
    program.kill()


def test_a_directory_that_is_not_there_is_an_error(begin: Begin, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        begin("pass", tmp_path / "missing")


def test_several_threads_wait_for_it(begin: Begin) -> None:
    program, codes = begin("import sys; sys.exit(7)"), list[int | None]()
    threads = [threading.Thread(target=lambda: codes.append(program.wait(30))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert codes == [7] * 4


def test_no_hook_of_a_fork_runs(begin: Begin) -> None:
    hooks: list[str] = []
    is_on = [True]
    os.register_at_fork(before=lambda: hooks.append("before") if is_on else None)
    try:
        assert begin("pass").wait(30) == 0
    finally:
        is_on.clear()
    assert not hooks
