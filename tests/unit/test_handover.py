"""What one image hands to the next, and what it refuses to take."""

import marshal
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from poorhttp.listen.systemd import Manager
from poorhttp.logs.log import ErrorLog
from poorhttp.process.start import load_failed
from poorhttp.reload import bytecode, execution, handover, trial
from poorhttp.reload.handover import Handover
from poorhttp.reload.reload import Reload

ROOT = Path(__file__).parents[2]


def example() -> Handover:
    made = Handover()
    made.sockets = {"127.0.0.1:8080": (5, 0, 0), "control:unix:/run/a b.sock": (6, 7, 8)}
    made.workers = {100: (9, 17, False, False), 101: (10, -1, True, True)}
    made.wanted, made.configured = 3, "2..4"
    made.passed = [(3, "web"), (4, "")]
    made.connections = [(11, "[::1]:80"), (12, "unix:/run/a b")]
    made.countdown, made.signals = [13, 14], 15
    made.pidfile, made.lock, made.streams, made.pause = "/run/poor http.pid", 16, [1, 2], 4.0
    return made


def test_what_is_handed_over_arrives() -> None:
    made = example()
    found = Handover.parse(made.dump())
    assert (found.sockets, found.workers, found.pidfile) == (made.sockets, made.workers, made.pidfile)
    assert found.lock == 16
    assert (found.wanted, found.configured, found.passed) == (3, "2..4", made.passed)
    assert (found.connections, found.countdown, found.pause) == (made.connections, made.countdown, 4.0)
    assert found.streams == [1, 2]
    assert sorted(found.descriptors()) == [3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17]


def test_the_pause_before_the_next_try_doubles_up_to_half_a_minute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In one program that cannot be left; HUP begins anew."""
    now, log = 0.0, tmp_path / "log"
    monkeypatch.setattr(load_failed, "time", SimpleNamespace(monotonic=lambda: now))
    error_log, manager, made = ErrorLog(str(log), "debug", False, ""), Manager(), Handover()
    reload = Reload(Handover(), "", "", [], error_log, manager)
    retry = load_failed.Retry(reload, OSError("away"), made, error_log, manager, None)
    pauses, given = [], []
    for _ in range(7):
        assert retry.due() is None
        pauses.append(retry.seconds_left())
        now += retry.seconds_left()
        assert retry.due() is reload
        given.append(reload.handover.pause)
        retry.failed(OSError("away"))
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert given == [2, 4, 8, 16, 30, 30, 30]
    retry.begin()
    assert (retry.due(), reload.handover.pause) == (reload, 1)
    made.pause = 8.0
    assert load_failed.Retry(reload, OSError("away"), made, error_log, manager, None).seconds_left() == 8


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        marshal.dumps(1),
        marshal.dumps((os.getpid(), 1)),
        marshal.dumps((os.getpid(), {})),
        "parent",
        "no socket",
    ],
    ids=[
        "nothing",
        "a word",
        "a number",
        "no facts",
        "too few facts",
        "of the parent",
        "a descriptor that is not open",
    ],
)
def test_what_no_reload_wrote_is_ignored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: bytes | str
) -> None:
    made = Handover()
    made.sockets = {"a": (9999, 0, 0)} if data == "no socket" else {}
    pid = os.getppid() if data == "parent" else os.getpid()
    told = os.memfd_create("told")
    os.write(told, data if isinstance(data, bytes) else marshal.dumps((pid, vars(made))))
    monkeypatch.setenv(handover.HANDOVER, str(told))
    assert handover.received() is None
    os.close(told)  # it is whose it was
    assert handover.HANDOVER not in os.environ
    assert capsys.readouterr().err.startswith("note: POORHTTP_HANDOVER is ignored: ")


def test_more_is_handed_over_than_a_variable_of_the_environment_holds() -> None:
    """10,000 connections of which nothing was read."""
    source = """if True:
    import os, sys
    from poorhttp.reload import execution, handover
    found = handover.received()
    if found is None:
        made = handover.Handover()
        made.connections = [(os.open(os.devnull, os.O_RDONLY), "unix:/run/a b")] * 10_000
        execution.execute(made, os.getcwd())
    print(len(found.connections), set(found.connections), handover.HANDOVER in os.environ)
    """
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", source], env=environ, timeout=30, capture_output=True, text=True, check=True
    )
    assert done.stdout == "10000 {(3, 'unix:/run/a b')} False\n"


@pytest.mark.parametrize("told", ["x", "-1", "0", "99999", f"{1 << 40}", "127.0.0.1:80"])
def test_a_descriptor_that_no_reload_passed_is_ignored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], told: str
) -> None:
    monkeypatch.setenv(handover.HANDOVER, told)
    assert handover.received() is None
    assert capsys.readouterr().err.startswith("note: POORHTTP_HANDOVER is ignored: ")
    os.fstat(0)


def test_only_children_are_adopted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A process of somebody else would be told to end, and killed where it did not."""
    pipes = [os.open(os.devnull, os.O_WRONLY) for _ in range(3)]
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        made = Handover()
        made.workers = {child.pid: (pipes[0], pipes[1], False, False), os.getppid(): (pipes[2], -1, False, False)}
        told = os.memfd_create("told")
        os.write(told, made.dump())
        monkeypatch.setenv(handover.HANDOVER, str(told))
        monkeypatch.setattr(bytecode, "recompile_edited", lambda: None)
        found = handover.received()
        assert found is not None and found.workers == {child.pid: (pipes[0], pipes[1], False, False)}
        assert f"worker {os.getppid()} of POORHTTP_HANDOVER is ignored" in capsys.readouterr().err
    finally:
        child.communicate(b"\n", timeout=30)
        for each in pipes:
            os.close(each)


@pytest.mark.parametrize(
    "text",
    ["x", "x\ny\nz", f"{os.getpid()}", f"{os.getppid()}\nshape"],
    ids=["a word", "no number", "a line too few", "the parent"],
)
def test_a_trial_of_no_server_is_refused(text: str) -> None:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), trial.TRIAL: text}
    done = subprocess.run(
        [sys.executable, "-m", "poorhttp", "app"], env=environ, timeout=30, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "error: POORHTTP_TRIAL is not what a server says that is to be reloaded\nhint: unset it\n"
    )


@pytest.mark.parametrize("handed", ["", " 0", f" {handover.FORMAT + 1}"])
def test_a_trial_for_a_server_that_hands_over_otherwise_is_refused(handed: str) -> None:
    """The running server goes on then; without what it hands over the new image would not serve."""
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), trial.TRIAL: f"{os.getpid()}{handed}\nshape\n"}
    done = subprocess.run(
        [sys.executable, "-m", "poorhttp", "app"], env=environ, timeout=30, capture_output=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "error: the running server is of a version that hands over what this one cannot take\n"
        "hint: restart it: poorhttp restart\n"
    )


def test_what_is_handed_over_has_the_format_of_its_number() -> None:
    """A change of the facts needs another number: a server of before must not hand over to this one."""
    facts = "sockets workers countdown wanted configured passed connections signals pidfile lock streams pause"
    assert (handover.FORMAT, " ".join(vars(Handover()))) == (4, facts)


def test_an_ordinary_start_receives_nothing() -> None:
    assert handover.received() is None
    assert trial.tried() is None


def test_old_bytecode_of_an_edit_in_the_same_second_is_not_trusted(tmp_path: Path) -> None:
    """Twice: what is compiled then must not be trusted for the next edit either."""
    (tmp_path / "edited.py").write_text("import sys; sys.exit(int('1'))\n")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    load = [sys.executable, "-c", "from poorhttp.reload import bytecode; bytecode.recompile_edited(); import edited"]
    second = int(time.time()) - 5
    for number in range(1, 4):
        (tmp_path / "edited.py").write_text(f"import sys; sys.exit(int('{number}'))\n")
        os.utime(tmp_path / "edited.py", ns=(second * 10**9 + number, second * 10**9 + number))
        for cached in tmp_path.glob("__pycache__/edited*"):
            os.utime(cached, (second, second))
        assert subprocess.run(load, env=environ, timeout=30, check=False).returncode == number
    assert list(tmp_path.glob("__pycache__/edited*")) != [], "there was bytecode to be trusted"


def test_the_environment_of_the_next_image_is_that_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADDED_SINCE", "yes")
    environ = execution.first_environ()
    assert b"ADDED_SINCE" not in environ
    assert environ[b"PATH"] == os.environb[b"PATH"]


def test_after_a_stop_no_trial_begins(tmp_path: Path) -> None:
    """The stop came while the thread that wants one was not yet so far: what a server has is closed by now."""
    log = tmp_path / "log"
    late = Reload(Handover(), str(tmp_path), "", [], ErrorLog(str(log), "debug", False, ""), Manager())
    late.cancel()
    late.begin()
    assert not late.is_trying() and log.read_text() == ""


def test_an_image_that_cannot_be_executed_leaves_the_process_where_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The directory of the start may be another one now: the old code stays with its own."""
    for name in "old", "new":
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "old")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no such Python"))
    with pytest.raises(FileNotFoundError):
        execution.execute(Handover(), str(tmp_path / "new"))
    assert os.getcwd() == str(tmp_path / "old")
