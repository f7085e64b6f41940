"""What a trial could load and the new image could not: it is tried again, and nobody is lost meanwhile."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starter import PATIENCE, ROOT, SHAPES, SUPERVISED, Server, Start, asking, wait_for
from versions import VERSION, write

pytestmark = pytest.mark.timeout(120)

AWAY = """
if os.path.exists("tried"):
    raise ConnectionError("the database is away")
open("tried", "w").close()
"""
AWAY_UNTIL_BACK = AWAY.replace('("tried"):', '("tried") and not os.path.exists("back"):')
SLOW = """
if os.path.exists("tried"):
    open("here", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
"""


def configure(directory: Path, text: str) -> None:
    (directory / "poorhttp.ini").write_text(f"[http]\napplication = app.py\n{text}\n")


def configured(launch: Start, directory: Path, text: str, *more: str) -> Server:
    """A server with this configuration, and version 0 of the application."""
    configure(directory, text)
    write(directory, "0")
    server = launch("-c", "poorhttp.ini", *more)
    server.await_address()
    return server


def command(action: str, server: Server) -> tuple[int, str]:
    """Run `poorhttp ACTION`: exit code, and what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "poorhttp", action, "--pidfile=run.pid"],
        cwd=server.directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_what_only_the_trial_could_load_is_tried_again(start: Start, shape: str, tmp_path: Path) -> None:
    """A database that goes away in between: old workers serve meanwhile, and clients wait where there are none."""
    server = start(shape, source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", AWAY_UNTIL_BACK)
    server.send(signal.SIGHUP)
    server.await_text("the database is away")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.get)
        if len(server.workers()) == 2:
            assert answer.result(PATIENCE) == (200, answer.result()[1])
        (tmp_path / "back").touch()
        assert answer.result(PATIENCE)[0] == 200
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    assert server.stop() == 0


def test_status_and_reload_tell_that_it_is_tried_again(start: Start, shape: str, tmp_path: Path) -> None:
    server = start(shape, "--pidfile=run.pid", source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", AWAY)
    failed = "the new program does not start, although its trial did: app.py:8: ConnectionError: the database is away"
    code, said = command("reload", server)
    assert (code, f"reload failed, {failed}" in said) == (1, True), said
    server.await_text("trying again in 2 s")
    code, said = command("status", server)
    assert code == 0 and "\nlast reload: failed, " in said and failed in said, said
    assert len(re.findall(r"^ *\d+  serving ", said, re.MULTILINE)) == len(server.workers()), said
    write(tmp_path, "2")
    assert command("reload", server) == (0, f"pid {server.process.pid}: reload succeeded\n")
    assert server.get()[1].startswith("2 ")
    assert server.stop() == 0


def test_what_is_tried_again_is_tried_less_and_less_often_until_somebody_asks(
    start: Start, shape: str, tmp_path: Path
) -> None:
    server = start(shape, source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", AWAY)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 4 s")
    assert re.findall(r"trying again in (\S+) s", server.said)[:3] == ["1", "2", "4"]
    server.send(signal.SIGHUP)
    wait_for(lambda: server.said.count("trying again in 1 s") == 2, "a try for somebody who asked")
    write(tmp_path, "2")
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get()[1].startswith("2 "), "the new code")
    assert server.stop() == 0


def test_a_stop_while_it_is_tried_again_leaves_no_file(start: Start, shape: str, tmp_path: Path) -> None:
    more = ("--pidfile=run.pid", f"--control-socket={tmp_path}/control.sock", "--bind=unix:server.sock")
    server = start(shape, *more, source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", AWAY)
    server.send(signal.SIGHUP)
    server.await_text("the database is away")
    wait_for(lambda: server.said.count("trying again") > 1, "the second try")
    assert server.stop() == 0
    assert [each.name for each in tmp_path.iterdir() if each.suffix in (".pid", ".sock")] == []


def test_what_is_tried_again_keeps_who_came_to_a_new_address(launch: Start, shape: str, tmp_path: Path) -> None:
    """And removes it where it is stopped."""
    server = configured(launch, tmp_path, "bind = 127.0.0.1:0", *SHAPES[shape])
    write(tmp_path, "1", AWAY_UNTIL_BACK)
    configure(tmp_path, "bind = 127.0.0.1:0, unix:new.sock")
    server.send(signal.SIGHUP)
    server.await_text("trying again in 1 s")
    with asking(tmp_path / "new.sock") as answer:
        server.await_text("trying again in 2 s")
        (tmp_path / "back").touch()
        assert answer.read().startswith(b"HTTP/1.1 200 ")
    (tmp_path / "back").unlink()
    configure(tmp_path, "bind = 127.0.0.1:0, unix:new.sock, unix:newer.sock")
    (tmp_path / "tried").unlink()
    server.send(signal.SIGHUP)
    wait_for(lambda: server.said.count("trying again in 1 s") == 2, "the next new address")
    assert (tmp_path / "newer.sock").exists()
    assert server.stop() == 0
    assert list(tmp_path.glob("*.sock")) == []


def test_what_is_tried_again_hears_a_count_that_comes_with_a_reload(
    start: Start, supervised: str, tmp_path: Path
) -> None:
    server = start(supervised, source=VERSION.format(version="0", more=""))
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    write(tmp_path, "1", SLOW + AWAY_UNTIL_BACK)
    server.send(signal.SIGHUP)
    wait_for((tmp_path / "here").exists, "the new image")
    server.send(signal.SIGTTIN)
    server.send(signal.SIGHUP)
    (tmp_path / "go").touch()
    server.await_text("trying again in 1 s")
    (tmp_path / "back").touch()
    server.await_text("number of workers set to 3")
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    assert server.stop() == 0


def test_what_is_tried_again_keeps_its_shape(launch: Start, tmp_path: Path) -> None:
    """Without a supervisor nobody would let the old workers go."""
    server = configured(launch, tmp_path, "bind = 127.0.0.1:0\ntype = forking")
    write(tmp_path, "1", AWAY_UNTIL_BACK)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 1 s")
    configure(tmp_path, "bind = 127.0.0.1:0\ntype = single")
    (tmp_path / "back").touch()
    server.send(signal.SIGHUP)
    server.await_text("a reload cannot change a supervisor with workers into one process")
    assert server.get()[1].startswith("0 ")
    configure(tmp_path, "bind = 127.0.0.1:0\ntype = forking")
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    assert server.stop() == 0


def test_what_cannot_be_executed_again_is_tried_again(start: Start, supervised: str, tmp_path: Path) -> None:
    """The directory of the start is away for a moment, as a deployment may have it."""
    server = start(supervised, source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", AWAY)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 1 s")
    away = tmp_path.with_name(f"{tmp_path.name}-away")
    tmp_path.rename(away)
    server.send(signal.SIGHUP)
    server.await_text("FileNotFoundError")
    assert server.get()[1].startswith("0 ")
    write(away, "2")
    away.rename(tmp_path)
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get()[1].startswith("2 "), "the new code")
    assert server.stop() == 0


def test_old_workers_open_their_logs_anew_while_it_is_tried_again(
    start: Start, supervised: str, tmp_path: Path
) -> None:
    server = start(supervised, "--accesslog=access.log", source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", AWAY)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 2 s")
    (tmp_path / "access.log").rename(tmp_path / "access.old")
    server.send(signal.SIGUSR1)
    log = tmp_path / "access.log"
    wait_for(lambda: server.get()[0] == 200 and log.exists() and log.read_text(), "a line in the new log")
    assert server.stop() == 0


@pytest.mark.parametrize("when", ["first image", "pause", "second image"])
def test_what_is_tried_again_hears_how_many_workers_there_are_to_be(
    start: Start, supervised: str, tmp_path: Path, when: str
) -> None:
    server = start(supervised, source=VERSION.format(version="0", more=""))
    wait_for(lambda: len(server.workers()) == 2, "two workers")
    here = tmp_path / "here"
    write(tmp_path, "1", SLOW + AWAY_UNTIL_BACK)
    server.send(signal.SIGHUP)
    wait_for(here.exists, "the first image")
    if when == "first image":
        server.send(signal.SIGTTIN)
    here.unlink()
    (tmp_path / "go").touch()
    server.await_text("trying again in 1 s")
    (tmp_path / "go").unlink()
    if when == "pause":
        server.send(signal.SIGTTIN)
    wait_for(here.exists, "the second image")
    if when == "second image":
        server.send(signal.SIGTTIN)
    (tmp_path / "back").touch()
    (tmp_path / "go").touch()
    server.await_text("number of workers set to 3")
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    assert server.stop() == 0


def test_what_is_tried_again_lets_go_of_what_is_not_wanted_any_more_once_it_serves(
    launch: Start, shape: str, tmp_path: Path
) -> None:
    """Not before: the old workers serve at that socket, and who waits there is served by the new code."""
    server = configured(launch, tmp_path, "bind = 127.0.0.1:0, unix:server.sock\npidfile = old.pid", *SHAPES[shape])
    write(tmp_path, "1", AWAY_UNTIL_BACK)
    configure(tmp_path, "bind = 127.0.0.1:0\npidfile = new.pid")
    server.send(signal.SIGHUP)
    wait_for(lambda: server.said.count("trying again") > 1, "the second try")
    with asking(tmp_path / "server.sock") as answer:
        (tmp_path / "back").touch()
        assert answer.read().startswith(b"HTTP/1.1 200 ")
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    wait_for(lambda: not (tmp_path / "server.sock").exists(), "the end of the socket")
    assert server.stop() == 0
    assert list(tmp_path.glob("*.pid")) == []


WAITS = """

def application(environ, start_response):
    open("asked", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.02)
    start_response("200 OK", [("Content-Length", "4")])
    return [b"done"]
"""

ONCE = """
if os.path.exists("tried"):
    open("loading", "w").close()
    while True:
        time.sleep(0.01)  # a signal that comes right before one is heard after it
open("tried", "w").close()
"""


def test_a_stop_while_the_new_image_loads_lets_the_old_workers_finish(
    start: Start, supervised: str, tmp_path: Path
) -> None:
    server = start(supervised, source=VERSION.format(version="0", more="") + WAITS)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.get)
        wait_for((tmp_path / "asked").exists, "the request")
        write(tmp_path, "1", ONCE)
        server.send(signal.SIGHUP)
        wait_for((tmp_path / "loading").exists, "the new image")
        server.send(signal.SIGTERM)
        server.await_text("stopping 2 workers: SIGTERM")
        (tmp_path / "go").touch()
        assert answer.result(PATIENCE) == (200, "done")
    assert server.end() == 0


@pytest.mark.parametrize(("first", "behind"), [(signal.SIGTERM, None), (signal.SIGINT, signal.SIGHUP)])
def test_a_stop_while_it_is_tried_again_lets_the_old_workers_finish(
    start: Start, supervised: str, tmp_path: Path, first: "signal.Signals", behind: "signal.Signals | None"
) -> None:
    server = start(supervised, source=VERSION.format(version="0", more="") + WAITS)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(server.get)
        wait_for((tmp_path / "asked").exists, "the request")
        write(tmp_path, "1", AWAY)
        server.send(signal.SIGHUP)
        server.await_text("trying again in 4 s")
        server.send(first)
        wait_for(lambda: len(server.workers()) == 1, "the worker that has nothing in flight to be gone")
        if behind:
            server.send(behind)
        (tmp_path / "go").touch()
        assert answer.result(PATIENCE) == (200, "done")
    assert server.end() == 0


def test_a_stop_while_it_is_tried_again_has_an_end(start: Start, supervised: str, tmp_path: Path) -> None:
    """Where a worker does not come to one, because of what its application does at the exit: as at any other stop."""
    source = VERSION.format(version="0", more="import atexit\natexit.register(time.sleep, 3600)\n")
    server = start(supervised, "--graceful-timeout=0.5", source=source)
    write(tmp_path, "1", AWAY)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 2 s")
    assert server.stop() == 1


BREAKS_INI = """
if "POORHTTP_IS_TRIAL" in os.environ:
    with open("poorhttp.ini", "a") as file:
        file.write("nonsense = 1\\n")
"""
MOVES_LOGS = """
if "POORHTTP_IS_TRIAL" in os.environ:
    os.rename("logs", "logs.away")
"""


@pytest.mark.parametrize("more", [BREAKS_INI, MOVES_LOGS], ids=["configuration", "log"])
def test_a_stop_that_comes_many_times_where_there_are_no_workers_leaves_no_file(
    launch: Start, tmp_path: Path, more: str
) -> None:
    """What fails after the trial is read before the application: no handler of a start is there yet."""
    (tmp_path / "logs").mkdir()
    text = "bind = 127.0.0.1:0, unix:server.sock\npidfile = run.pid\ntype = single"
    server = configured(launch, tmp_path, text)
    configure(tmp_path, text + ("\nerrorlog = logs/error.log" if more is MOVES_LOGS else ""))
    write(tmp_path, "1", more)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 2 s")
    while server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
    # A signal that comes so late that it is a second one asks for an end at once, which removes the files too.
    assert server.process.returncode in (0, 128 + signal.SIGTERM)
    assert [each.name for each in tmp_path.iterdir() if each.suffix in (".pid", ".sock")] == []


TAKES_ALL = """
if os.path.exists("tried") and not os.path.exists("back"):
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    os.kept = []
    try:
        while True:
            os.kept.append(open(os.devnull))
    except OSError:
        raise ConnectionError("all descriptors are taken") from None
open("tried", "w").close()
"""


def test_descriptors_that_the_new_program_has_all_taken_end_nothing(start: Start, shape: str, tmp_path: Path) -> None:
    server = start(shape, source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", TAKES_ALL)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 2 s")
    if shape in SUPERVISED:
        assert server.get()[1].startswith("0 ")
    (tmp_path / "back").touch()
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    assert server.stop() == 0


INSTALLS = """
if os.path.exists("tried") and not os.path.exists("back"):
    import threading
    os.rename("site/poorhttp", "site/away")
    open("back", "w").close()
    threading.Timer(0.3, os.rename, ("site/away", "site/poorhttp")).start()
    raise ConnectionError("poorhttp is being installed")
open("tried", "w").close()
"""


def test_a_server_whose_files_are_gone_for_a_moment_goes_on(launch: Start, shape: str, tmp_path: Path) -> None:
    """As while poorhttp is being installed anew."""
    shutil.copytree(ROOT / "poorhttp", tmp_path / "site" / "poorhttp")
    write(tmp_path, "0")
    server = launch("app.py", "--bind=127.0.0.1:0", *SHAPES[shape], PYTHONPATH=str(tmp_path / "site"))
    server.await_address()
    write(tmp_path, "1", INSTALLS)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 1 s")
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    assert server.stop() == 0


def test_a_worker_that_ends_while_it_is_tried_again_is_named_where_child_exit_cannot_be_called(
    start: Start, supervised: str, tmp_path: Path
) -> None:
    hooks = 'import os\nif os.path.exists("broken"):\n    raise ConnectionError("away")\n\ndef gone(pid):\n    pass\n'
    (tmp_path / "hooks.py").write_text(hooks)
    server = start(supervised, "--child-exit=hooks:gone", source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", 'if os.path.exists("tried"):\n    open("broken", "w").close()\n' + AWAY)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 2 s")
    pid = min(server.workers())
    os.kill(pid, signal.SIGKILL)
    server.await_text(f"hooks:gone is not called for [{pid}]: hooks.py:3: ConnectionError: away")
    assert server.stop() == 0


def test_workers_that_were_sent_away_stay_away_while_it_is_tried_again(
    start: Start, supervised: str, tmp_path: Path
) -> None:
    server = start(supervised, source=VERSION.format(version="0", more=""))
    write(tmp_path, "1", AWAY_UNTIL_BACK)
    server.send(signal.SIGHUP)
    server.await_text("trying again in 1 s")
    server.send(signal.SIGWINCH)
    server.await_text("SIGWINCH: the workers leave")
    wait_for(lambda: not server.workers(), "the workers to leave")
    (tmp_path / "back").touch()
    time.sleep(2.5)  # in which the next try would begin
    assert not server.workers() and "reloaded: " not in server.said
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get()[1].startswith("1 "), "the new code")
    assert server.stop() == 0
