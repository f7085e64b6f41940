"""One serving process, with an engine that does nothing but obey its control descriptors."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

try:
    __import__("poorhttp._engine")
except ImportError:  # not built: every test here brings an engine of its own
    sys.modules["poorhttp._engine"] = types.ModuleType("poorhttp._engine")
    sys.modules["poorhttp._engine"].Engine = object  # type: ignore[attr-defined]

from poorhttp.config.addresses import Address
from poorhttp.listen import sockets
from poorhttp.logs.log import ErrorLog
from poorhttp.process import worker
from poorhttp.process.workers import processes
from poorhttp.system import signals, timing

FAKE_ENGINE = '''
import os, select, signal, threading

class Engine:
    """Calls the application once in each slot, then waits for what comes on the control descriptors."""

    made = []

    def __init__(self, app, listeners, control, access_log, error_log, config, report=None, row=None,
                 countdown=None):
        self.app, self.listeners, self.control = app, listeners, control
        self.access_log, self.error_log, self.config = access_log, error_log, config
        self.is_last = countdown is not None and os.read(countdown, 1) == b""
        self.slots, self.heard = {}, []
        self.stops = {signal.SIGTERM, signal.SIGQUIT} | ({signal.SIGINT} if report is None or callable(report) else set())
        self.stopped = threading.Event()
        self.made.append(self)

    def watch(self):
        pass

    def run(self, slot):
        self.slots[slot] = threading.current_thread()
        self.app(slot)
        while slot == 0 and not self.stopped.is_set():
            poll = select.poll()
            for descriptor in self.control:
                poll.register(descriptor, select.POLLIN)
            for descriptor, _ in poll.poll(50):
                self._hear(descriptor)
        self.stopped.wait()

    def _hear(self, descriptor):
        data = os.read(descriptor, 100)
        self.heard += data
        if not data or set(data) & self.stops:
            self.stopped.set()

    def stop(self):
        self.stopped.set()

    def stopped_at_once_by(self):
        return 0

    def has_failed(self):
        return False


def SignalHandler(handler):
    return handler


def on_parent_death(kills):
    pass
'''


class Settings:
    """As much of a Config as a worker looks at."""

    threads = 1
    graceful_timeout = 30.0
    health = ""
    processes = 1
    accesslog = ""


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class of the fake engine, in its place; `made` lists its instances."""
    space: dict[str, Any] = {}
    exec(FAKE_ENGINE, space)
    monkeypatch.setattr(worker, "Engine", space["Engine"])
    return space["Engine"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ErrorLog]:
    made = ErrorLog(str(tmp_path / "error.log"), "info", False, "")
    yield made
    os.close(made.fileno())


def settings(**values: Any) -> Any:
    made = Settings()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def send(signum: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), signum)


def nothing(slot: int) -> None:
    """An application that returns at once."""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_engine_and_ends_the_serving(engine: Any, log: ErrorLog, signum: int) -> None:
    worker.serve(nothing, [], settings(), log, -1, ready=send(signum))
    assert engine.made[0].heard == [signum]


def test_a_process_alone_stops_last(engine: Any, log: ErrorLog) -> None:
    worker.serve(nothing, [], settings(), log, -1, ready=send(signal.SIGTERM))
    assert engine.made[0].is_last


def test_a_socket_that_was_passed_is_not_shut(engine: Any, log: ErrorLog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as passed:
        taken = [sockets.take(passed.fileno())]
        worker.serve(nothing, taken, settings(), log, -1, ready=send(signal.SIGTERM))
    assert not engine.made[0].is_last


def test_the_end_of_the_lifeline_ends_the_serving(engine: Any, log: ErrorLog) -> None:
    lifeline, held = os.pipe()
    worker.serve(nothing, [], settings(), log, -1, lifeline, ready=lambda: os.close(held))
    os.close(lifeline)
    assert engine.made[0].control[1:] == [lifeline]
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1):
        assert signal.getsignal(signum) == signal.SIG_IGN  # nothing is left to do but to leave


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.0, "at once"), (0.04, "at once"), (0.06, "in 0.1 s"), (5.0, "in 5.0 s")]
)
def test_when_the_next_worker_starts(seconds: float, told: str) -> None:
    assert processes.when(seconds) == told


@pytest.fixture(autouse=True)
def _same_signals() -> Iterator[None]:
    """Give back what a supervised worker leaves ignored."""
    old = {signum: signal.getsignal(signum) for signum in signals.HANDLED}
    yield
    for signum, handler in old.items():
        signal.signal(signum, handler)


def test_a_supervised_worker_leaves_the_terminal_to_its_supervisor(engine: Any, log: ErrorLog) -> None:
    """It hears what the terminal sends to all, and what it starts does not ignore that; but nothing follows from it."""
    lifeline, held = os.pipe()
    told, report = os.pipe()
    signums = {signal.SIGINT, signal.SIGHUP}
    goes_on: list[bool] = []

    def release() -> None:
        made = engine.made[0]
        end = time.monotonic() + 10
        while not signums <= set(made.heard) and time.monotonic() < end:
            time.sleep(0.01)
        goes_on.append(not made.stopped.is_set())
        os.close(held)

    def ready() -> None:
        assert signal.SIG_IGN not in map(signal.getsignal, signums)
        for signum in signums:
            os.kill(os.getpid(), signum)
        threading.Thread(target=release).start()

    worker.serve(nothing, [], settings(), log, -1, lifeline, report, ready=ready)
    for each in (lifeline, told, report):
        os.close(each)
    assert goes_on == [True]


def test_signals_are_as_before_afterwards(engine: Any, log: ErrorLog) -> None:
    before = [signal.getsignal(signum) for signum in signals.HANDLED]
    descriptors = set(os.listdir("/proc/self/fd"))
    worker.serve(nothing, [], settings(), log, -1, ready=send(signal.SIGTERM))
    assert [signal.getsignal(signum) for signum in signals.HANDLED] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert set(os.listdir("/proc/self/fd")) == descriptors


def test_the_engine_gets_descriptors_and_logs(engine: Any, log: ErrorLog) -> None:
    config = settings()
    with socket.socket() as listener:
        number = listener.fileno()
        worker.serve(nothing, [listener], config, log, 7, ready=send(signal.SIGTERM))
    made = engine.made[0]
    assert (made.listeners, made.access_log, made.error_log, made.config) == ([number], 7, log, config)


def test_only_the_engine_keeps_a_port_open(engine: Any, log: ErrorLog, tmp_path: Path) -> None:
    """But a unix socket that was made here is looked at once more, when it is removed."""
    made = sockets.bind(Address(path=str(tmp_path / "made")))
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as passed:
        worker.serve(nothing, [tcp, passed, made], settings(), log, -1, ready=send(signal.SIGTERM))
        assert tcp.fileno() == passed.fileno() == -1
    assert made.getsockname() == str(tmp_path / "made")
    sockets.close([made])


def test_every_slot_has_its_thread_and_the_main_one_has_the_first(engine: Any, log: ErrorLog) -> None:
    worker.serve(nothing, [], settings(threads=4), log, -1, ready=send(signal.SIGTERM))
    slots = engine.made[0].slots
    assert sorted(slots) == [0, 1, 2, 3]
    assert slots[0] is threading.main_thread()
    assert [slots[slot].name for slot in (1, 2, 3)] == ["poorhttp-1", "poorhttp-2", "poorhttp-3"]
    assert not any(slots[slot].is_alive() or slots[slot].daemon for slot in (1, 2, 3))


@pytest.mark.parametrize("failing", [0, 2])
def test_a_failing_slot_ends_them_all(engine: Any, log: ErrorLog, failing: int) -> None:
    def app(slot: int) -> None:
        if slot == failing:
            raise RuntimeError("out of order")

    with pytest.raises(RuntimeError, match="out of order"):
        worker.serve(app, [], settings(threads=3), log, -1)
    assert not any(thread.is_alive() for slot, thread in engine.made[0].slots.items() if slot)


def test_a_failing_ready_ends_the_threads(engine: Any, log: ErrorLog) -> None:
    def ready() -> None:
        raise SystemExit(0)

    with pytest.raises(SystemExit):
        worker.serve(nothing, [], settings(threads=3), log, -1, ready=ready)
    assert not any(thread.is_alive() for thread in engine.made[0].slots.values() if thread.name != "MainThread")


def test_an_application_that_closes_what_is_not_its_own_is_told_so(engine: Any, log: ErrorLog, tmp_path: Path) -> None:
    def app(slot: int) -> None:
        os.close(engine.made[0].control[0])
        os.close(signal.set_wakeup_fd(-1))
        engine.made[0].stop()

    with pytest.raises(SystemExit) as left:
        worker.serve(app, [], settings(), log, -1)
    assert left.value.code == 1
    assert "the application has closed descriptors of the server" in (tmp_path / "error.log").read_text()


def test_usr1_reopens_both_logs(engine: Any, log: ErrorLog, tmp_path: Path) -> None:
    error, access = tmp_path / "error.log", tmp_path / "access.log"
    descriptor = os.open(access, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    error.rename(tmp_path / "error.log.1")
    access.rename(tmp_path / "access.log.1")

    def ready() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)

    worker.serve(nothing, [], settings(accesslog=str(access)), log, descriptor, ready=ready)
    os.write(descriptor, b"x")
    os.close(descriptor)
    assert error.exists()
    assert access.read_bytes() == b"x"


def test_hup_says_that_there_is_no_reload_here(engine: Any, log: ErrorLog, tmp_path: Path) -> None:
    def ready() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)

    worker.serve(nothing, [], settings(), log, -1, ready=ready)
    assert "[W] reload ignored: poorhttp.run()" in (tmp_path / "error.log").read_text()


def test_boot_turns_a_stop_into_a_clean_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "REPEAT", 30.0)
    for signum in signals.STOPS:
        boot = signals.Boot()
        try:
            with pytest.raises(SystemExit) as caught:
                os.kill(os.getpid(), signum)
            assert caught.value.code == 0
            os.kill(os.getpid(), signum)  # the first one told twice
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGHUP)
        finally:
            boot.restore()


def test_boot_insists_where_a_stop_was_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    boot = signals.Boot()
    try:
        with contextlib.suppress(SystemExit):
            os.kill(os.getpid(), signal.SIGTERM)
        monkeypatch.setattr(timing, "REPEAT", 0.0)
        with pytest.raises(SystemExit):
            os.kill(os.getpid(), signal.SIGTERM)
        boot.silence()
        for signum in signals.STOPS:
            os.kill(os.getpid(), signum)
    finally:
        boot.restore()


def test_boot_remembers_a_stop_that_was_swallowed() -> None:
    boot = signals.Boot()
    try:
        with contextlib.suppress(SystemExit):  # as an application with a bare except does
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit):
            boot.check()
        os.kill(os.getpid(), signal.SIGUSR1)
        heard: list[int] = []
        for signum in (signal.SIGTERM, signal.SIGHUP):  # as whoever goes on without new logs
            signal.signal(signum, lambda number, _: heard.append(number))
        signals.raise_delayed()
        signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))  # as whoever serves then
        signals.raise_delayed()
        signals.raise_delayed()
        assert heard == [signal.SIGTERM, signal.SIGUSR1]
    finally:
        boot.restore()


@pytest.fixture
def patient() -> Iterator[signals.Boot]:
    """One for which clients wait. The alarm, which it leaves as it was, is that of the time limit of a test otherwise."""
    limit, left = signal.signal(signal.SIGALRM, signal.SIG_IGN), signal.setitimer(signal.ITIMER_REAL, 0.0)
    boot = signals.Boot()
    boot.answer_first(lambda: True)
    try:
        yield boot
    finally:
        boot.restore()
        alarm = signal.getitimer(signal.ITIMER_REAL), signal.signal(signal.SIGALRM, limit)
        signal.setitimer(signal.ITIMER_REAL, *left)
    assert alarm == ((0.0, 0.0), signal.SIG_IGN)


def test_boot_has_a_stop_heard_later_where_clients_wait(patient: signals.Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "REPEAT", 30.0)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)  # the first one told twice
    os.kill(os.getpid(), signal.SIGHUP)
    patient.check()
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    heard: list[int] = []
    for signum in signal.SIGTERM, signal.SIGHUP:
        signal.signal(signum, lambda number, _: heard.append(number))
    signals.raise_delayed()
    assert heard == [signal.SIGTERM, signal.SIGHUP]


def test_boot_has_a_stop_heard_later_where_all_is_loaded(patient: signals.Boot) -> None:
    patient.check()
    os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGQUIT])
def test_boot_waits_for_nobody_where_more_is_asked_for(patient: signals.Boot, signum: int) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), signum)
    assert patient.signum == signum
    with pytest.raises(SystemExit):
        patient.check()


def test_boot_waits_no_longer_than_it_may(patient: signals.Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "STOP_WHILE_LOADING", 0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(SystemExit):
        time.sleep(60)
    with pytest.raises(SystemExit):
        patient.check()


@pytest.mark.parametrize("has_asked", [False, True])
def test_a_child_of_the_application_waits_for_nobody(patient: signals.Boot, has_asked: bool) -> None:
    if has_asked:
        os.kill(os.getpid(), signal.SIGTERM)
    pid = os.fork()
    if not pid:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except SystemExit:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_boot_forgets_the_stop_of_a_server_before() -> None:
    for _ in range(2):
        boot = signals.Boot()
        try:
            signals.raise_delayed()
            with pytest.raises(SystemExit):
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            boot.restore()


def test_after_serving_no_signal_interrupts_the_clean_up(engine: Any, log: ErrorLog) -> None:
    boot = signals.Boot()
    try:
        boot.check()
        worker.serve(nothing, [], settings(), log, -1, ready=send(signal.SIGTERM))
        for signum in signals.STOPS:
            os.kill(os.getpid(), signum)
    finally:
        boot.restore()


PRELUDE = """
import atexit, os, signal, sys, threading, time, types
module = types.ModuleType("poorhttp._engine")
sys.modules["poorhttp._engine"] = module
exec({engine!r}, module.__dict__)
from poorhttp.listen import sockets
from poorhttp.process import worker
from poorhttp.system import signals, timing
from poorhttp.logs.log import ErrorLog
from poorhttp.config.addresses import Address

class config:
    threads, graceful_timeout, accesslog, health = 1, 30.0, "", ""

log = ErrorLog("-", "info", False, "")

def say(text):
    os.write(1, text.encode() + b"\\n")
"""


class Script:
    """A Python process with the fake engine that runs some lines and says what it is doing on its standard output."""

    def __init__(self, lines: str, *arguments: str) -> None:
        text = PRELUDE.format(engine=FAKE_ENGINE) + textwrap.dedent(lines)
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env=environ,
        )

    def await_line(self, wanted: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().decode().strip() == wanted

    def end(self) -> tuple[int, str, str]:
        """Wait for the end: exit code, standard output, standard error."""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out.decode(), err.decode()

    def insist(self, signum: int) -> None:
        """Send the signal again and again, as somebody does who wants it to be over."""
        for _ in range(50):
            self.process.send_signal(signum)
            try:
                self.process.wait(2 * timing.REPEAT)
                return
            except subprocess.TimeoutExpired:
                continue


@pytest.fixture
def script() -> Iterator[Callable[..., Script]]:
    made: list[Script] = []

    def build(lines: str, *arguments: str) -> Script:
        made.append(Script(lines, *arguments))
        return made[-1]

    yield build
    for each in made:
        each.process.kill()
        each.process.communicate()


def test_a_second_signal_leaves_an_application_that_hangs(script: Callable[..., Script]) -> None:
    hanging = script("""
        def app(slot):
            sys.stdout.write("unflushed")
            log.stream.write("unflushed")
            say("hanging")
            time.sleep(1000)
        worker.serve(app, [], config, log, -1)
    """)
    hanging.await_line("hanging")
    hanging.insist(signal.SIGTERM)
    code, out, err = hanging.end()
    assert (code, out) == (128 + signal.SIGTERM, "unflushed") and err.endswith("[S] stopping: SIGTERM\nunflushed")


def test_the_same_stop_told_twice_waits_for_the_application(script: Callable[..., Script]) -> None:
    slow = script("""
        def app(slot):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            say("answered")
        timing.REPEAT = 30.0
        worker.serve(app, [], config, log, -1)
        say("back")
    """)
    code, out, err = slow.end()
    assert (code, out) == (0, "answered\nback\n") and err.count("stopping: SIGTERM") == len(err.splitlines()) == 1


def test_what_was_made_is_removed_before_a_process_is_left(script: Callable[..., Script]) -> None:
    hanging = script("""
        def app(slot):
            os.kill(os.getpid(), signal.SIGQUIT)
        worker.serve(app, [], config, log, -1, clean_up=lambda: say("cleaned up"))
    """)
    assert hanging.end()[:2] == (128 + signal.SIGQUIT, "cleaned up\n")


def test_a_failing_clean_up_does_not_keep_a_process(script: Callable[..., Script]) -> None:
    hanging = script("""
        def app(slot):
            os.kill(os.getpid(), signal.SIGQUIT)
        worker.serve(app, [], config, log, -1, clean_up=lambda: 1 / 0)
    """)
    assert hanging.end()[0] == 128 + signal.SIGQUIT


def test_a_second_signal_is_in_the_exit_code_though_the_application_is_not_at_work(
    engine: Any, log: ErrorLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "REPEAT", 0.0)
    assert worker.serve(nothing, [], settings(), log, -1, ready=send(signal.SIGTERM)) == 0
    assert worker.serve(nothing, [], settings(), log, -1, ready=send(signal.SIGQUIT)) == 0

    def insist() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

    assert worker.serve(nothing, [], settings(), log, -1, ready=insist) == 128 + signal.SIGINT


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_is_in_the_exit_code_though_another_thread_hangs(
    script: Callable[..., Script], signum: int
) -> None:
    hanging = script("""
        timing.REPEAT = 0.0
        timing.LATE = 0.1
        def app(slot):
            if slot:
                say("hanging")
                time.sleep(1000)
        config.threads = 2
        class Engine(worker.Engine):
            def run(self, slot):
                super().run(slot)
                if slot == 0:
                    os.kill(os.getpid(), int(sys.argv[1]))
        worker.Engine = Engine
        worker.serve(app, [], config, log, -1)
    """, str(int(signum)))  # fmt: skip
    hanging.await_line("hanging")
    hanging.process.send_signal(signal.SIGTERM)
    assert hanging.end()[0] == 128 + signum


# An application that takes the wake-up descriptor of the interpreter


def deafen() -> None:
    """What an asyncio loop does that had a signal handler and is closed."""
    loop = asyncio.new_event_loop()
    loop.add_signal_handler(signal.SIGUSR2, nothing, 0)
    loop.close()


@pytest.mark.parametrize("signum", signals.STOPS)
def test_a_signal_reaches_the_engine_though_the_wake_up_is_gone(engine: Any, log: ErrorLog, signum: int) -> None:
    def ready() -> None:
        deafen()
        os.kill(os.getpid(), signum)

    assert worker.serve(nothing, [], settings(), log, -1, ready=ready) == 0
    assert engine.made[0].heard == [signum]


def test_the_wake_up_is_ours_again_after_a_signal(engine: Any, log: ErrorLog) -> None:
    def ready() -> None:
        deafen()
        for signum in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), signum)

    worker.serve(nothing, [], settings(), log, -1, ready=ready)
    assert engine.made[0].heard == [signal.SIGTERM, signal.SIGINT]


def test_the_wake_up_of_a_living_loop_is_left_to_it(engine: Any, log: ErrorLog) -> None:
    other, wake = os.pipe()
    os.set_blocking(wake, False)
    seen: list[int] = []

    def ready() -> None:
        signal.set_wakeup_fd(wake)
        os.kill(os.getpid(), signal.SIGTERM)
        seen.append(signal.set_wakeup_fd(wake))

    worker.serve(nothing, [], settings(), log, -1, ready=ready)
    assert seen == [wake]
    assert os.read(other, 100) == bytes([signal.SIGTERM])
    assert engine.made[0].heard == [signal.SIGTERM]
    os.close(other)
    os.close(wake)


def test_quit_leaves_at_once(script: Callable[..., Script]) -> None:
    hanging = script("""
        def app(slot):
            say("hanging")
            time.sleep(1000)
        worker.serve(app, [], config, log, -1)
    """)
    hanging.await_line("hanging")
    hanging.process.send_signal(signal.SIGQUIT)
    assert hanging.end()[0] == 128 + signal.SIGQUIT


def test_an_application_that_does_not_return_in_time_is_left(script: Callable[..., Script]) -> None:
    hanging = script("""
        def app(slot):
            say("hanging")
            time.sleep(1000)
        config.graceful_timeout = 0.0
        worker.serve(app, [], config, log, -1)
    """)
    hanging.await_line("hanging")
    hanging.process.send_signal(signal.SIGTERM)
    code, _, err = hanging.end()
    assert code == 1
    assert "did not return in time" in err


def test_a_thread_that_does_not_return_in_time_is_left(script: Callable[..., Script]) -> None:
    hanging = script("""
        def app(slot):
            if slot:
                say("hanging")
                time.sleep(1000)
        config.threads = 2
        worker.serve(app, [], config, log, -1)
    """)
    hanging.await_line("hanging")
    hanging.process.send_signal(signal.SIGTERM)
    code, _, err = hanging.end()
    assert code == 1
    assert "did not return in time" in err


def test_a_forked_process_leaves_like_an_interpreter(script: Callable[..., Script]) -> None:
    """Threads are awaited, atexit is called once, buffers are flushed, and the callers' clean-up is left to them."""
    forked = script("""
        atexit.register(lambda: say(f"atexit in {'parent' if os.getpid() == parent else 'child'}"))
        parent = os.getpid()
        pid = os.fork()
        try:
            if pid == 0:
                threading.Thread(target=lambda: (time.sleep(0.05), say("thread"))).start()
                sys.stdout.write("unflushed\\n")
                signals.leave(7, log, 5.0)
            say(f"code {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")
        finally:
            say("clean-up")
    """)
    code, out, _ = forked.end()
    assert code == 0
    assert out.splitlines() == ["thread", "atexit in child", "unflushed", "code 7", "clean-up", "atexit in parent"]


def test_a_failing_atexit_does_not_keep_a_process(script: Callable[..., Script]) -> None:
    forked = script("""
        def fail():
            raise SystemExit(9)
        pid = os.fork()
        if pid == 0:
            atexit.register(fail)
            signals.leave(0, log, 5.0)
        say(f"code {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}")
    """)
    assert forked.end()[1] == "code 0\n"


HEAVY = "{'argparse', 'configparser', 'dataclasses', 'html', 'inspect', 'logging', 're', 'traceback', 'typing'}"


def test_serving_imports_almost_nothing(script: Callable[..., Script]) -> None:
    """Memory: what one thread does not need is not loaded, unless the interpreter has it anyway."""
    show = f"print(sorted({HEAVY} & set(sys.modules)))"
    command = [sys.executable, "-c", f"import sys; {show}"]
    bare = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    assert script(f"from poorhttp.process import supervisor; {show}").end()[1] == bare.stdout


def test_what_another_thread_takes_reaches_the_next_image(script: Callable[..., Script]) -> None:
    """A signal that is blocked where the image changes is a byte, once a thread that does not block it has written it."""
    run = script(
        """
        import _signal as signal, fcntl, termios
        there, here = os.pipe()
        os.set_blocking(here, False)
        os.set_inheritable(there, True)
        signal.set_wakeup_fd(here)
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        signal.pthread_sigmask(signal.SIG_BLOCK, signals.HANDLED)
        signals.hold_back()
        for signum in signals.HANDLED:
            os.kill(os.getpid(), signum)
        def written():
            return int.from_bytes(fcntl.ioctl(there, termios.FIONREAD, bytes(4)), sys.byteorder)
        while written() < len(signals.HANDLED):  # one that the thread has taken only would be lost with it
            time.sleep(0.001)
        text = f"import os; print({{*os.read({there}, 100)}})"
        os.execv(sys.executable, [sys.executable, "-c", text])
        """
    )
    code, out, err = run.end()
    assert (code, err) == (0, "")
    assert set(signals.HANDLED) == eval(out)
