"""Applications that change the standard library when they are imported: gevent, eventlet, and stopped clocks.

The server calls what Python has, whatever stands in its place; and greenlets that are switched inside of a call, which
move the stack of the call aside, do it no harm.
"""

import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from starter import PATIENCE, Server, Start, wait_for

from poorhttp.status import reader

NEEDED = ("gevent", "eventlet", "freezegun", "time_machine")
"""Not to be imported here: they change this process too."""

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason="to be installed: pip install -e '.[test]'"),
]

IMPORTS = {
    "gevent": "from gevent import monkey, sleep, spawn\nmonkey.patch_all()\n",
    "eventlet": """
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import eventlet
from eventlet import sleep, spawn
eventlet.monkey_patch()
""",
}

APPLICATION = """
import os
import queue
import subprocess
import threading
import time

VERSION = 1
ticks = [0]
lock = threading.Lock()
pool = queue.Queue()
pool.put("from a pool")


def tick():
    while True:
        ticks[0] += 1
        sleep(0.01)


spawn(tick)


def pid(start_response):
    return str(os.getpid())


def nap(start_response):
    with lock:
        found = pool.get()
        before = ticks[0]
        time.sleep(0.1)
        pool.put(found)
    return found if ticks[0] > before else "nothing else ran"


def wait(start_response):
    time.sleep(60)


def program(start_response):
    return subprocess.run(["echo", "a program"], capture_output=True, text=True).stdout.strip()


def thread(start_response):
    done = []
    other = threading.Thread(target=lambda: (time.sleep(0.01), done.append("a thread")))
    other.start()
    other.join()
    return done[0]


def greenlet(start_response):
    def write():
        start_response("200 OK", [("Content-Type", "text/plain")])(b"from another ")
        done.append("greenlet")

    done = []
    spawn(write)
    while not done:
        sleep(0.01)
    return done[0]


def stream(start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])

    def blocks():
        for number in range(3):
            sleep(0.01)
            yield b"%d" % number

    return blocks()


def application(environ, start_response):
    body = globals()[environ["PATH_INFO"].strip("/") or "pid"](start_response)
    if not isinstance(body, str):
        return body
    if environ["PATH_INFO"] != "/greenlet":
        start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{VERSION} {body}".encode() if environ["PATH_INFO"] == "/" else body.encode()]
"""


def two_at_once(server: Server, path: str) -> list[tuple[int, str]]:
    with ThreadPoolExecutor(2) as clients:
        return list(clients.map(server.get, [path] * 2))


@pytest.mark.parametrize(
    ("maker", "shape"), [("gevent", "1x1"), ("gevent", "1x4"), ("gevent", "2x1"), ("eventlet", "2x2")]
)
def test_it_is_served_reloaded_and_stopped(start: Start, tmp_path: Path, shape: str, maker: str) -> None:
    source = IMPORTS[maker] + APPLICATION
    server = start(shape, source=source)
    for path, body in {
        "/nap": "from a pool",
        "/program": "a program",
        "/thread": "a thread",
        "/greenlet": "from another greenlet",
        "/stream": "012",
    }.items():
        assert two_at_once(server, path) == [(200, body)] * 2, path
    old = server.workers()
    (tmp_path / "app.py").write_text(source.replace("VERSION = 1", "VERSION = 2"))
    server.send(signal.SIGHUP)
    wait_for(lambda: server.get()[1].startswith("2 "), "the new version", 60)
    if shape in ("2x1", "2x2"):
        wait_for(lambda: not server.workers() & old, "the end of the old workers")
        server.await_serving(2)
        psutil.Process(min(server.workers())).kill()
        server.await_text("died: killed by SIGKILL")
        server.await_serving(2)
    assert server.get("/nap") == (200, "from a pool")
    assert server.stop() == 0
    assert "Traceback" not in server.said, server.said
    is_told = f"{maker} replaces threads by greenlets: each process serves with one thread" in server.said
    assert is_told == (shape in ("1x4", "2x2"))
    kind = {"1x1": "single", "1x4": "threading"}.get(shape, "forking")
    assert re.search(rf"^{kind}, \d process(es)? x 1 thread$", server.said, re.MULTILINE)


def test_a_program_under_development(launch: Start, tmp_path: Path) -> None:
    source = IMPORTS["gevent"] + APPLICATION
    (tmp_path / "app.py").write_text(source)
    server = launch("dev", "app.py", "--bind=127.0.0.1:0", "--type=threading")
    server.await_address()
    server.await_text("loaded in")
    assert server.get("/nap") == (200, "from a pool")
    (tmp_path / "app.py").write_text(source.replace("VERSION = 1", "VERSION = 2"))
    wait_for(lambda: server.get()[1].startswith("2 "), "the new version", 60)
    assert server.stop() == 0
    assert "Traceback" not in server.said, server.said


USED = """
import os
import socket
import subprocess
import gevent

gevent.sleep(0.01)
socket.getaddrinfo("localhost", 80)  # by a thread of gevent's, which no fork has
subprocess.run(["true"])  # whose end is heard by a signal handler in C


def application(environ, start_response):
    found = socket.getaddrinfo("localhost", 80)[0][4][0]
    pid = gevent.get_hub().threadpool.apply(os.getpid)
    code = subprocess.run(["true"]).returncode
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{found} {pid == os.getpid()} {code}".encode()]
"""


def test_a_hub_that_was_used_before_the_fork_goes_on_in_each_worker(start: Start) -> None:
    server = start("2x1", source=IMPORTS["gevent"] + USED)
    assert two_at_once(server, "/") == [(200, "127.0.0.1 True 0")] * 2
    assert server.stop() == 0


def test_a_late_call_costs_no_other_greenlet_anything(start: Start) -> None:
    """While it waits another one runs on its thread, which is not late."""
    server = start("2x1", "--request-timeout=0.5", source=IMPORTS["gevent"] + APPLICATION)
    assert server.get("/wait")[0] == 504
    server.await_text("RequestTimeout is not raised in it")
    assert "failed with RequestTimeout" not in server.said
    server.await_serving(2)
    assert server.get("/nap") == (200, "from a pool")
    assert server.stop() == 0


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_quit_cuts_a_call_off_that_waits_for_other_greenlets(start: Start, shape: str) -> None:
    server = start(shape, source=IMPORTS["gevent"] + APPLICATION)
    with ThreadPoolExecutor(1) as client:
        waiting = client.submit(server.get, "/wait")
        wait_for(lambda: calls(server), "the call to begin")
        began = time.monotonic()
        assert server.stop(signal.SIGQUIT) == 131
        assert time.monotonic() - began < PATIENCE / 3
        assert waiting.exception() is not None


def test_a_check_says_what_does_not_work(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(IMPORTS["gevent"] + APPLICATION)
    server = launch("--check-config", "app.py", "--type=threading")
    assert server.end(60) == 0
    assert "note: gevent replaces threads by greenlets: each process serves with one thread, not 16" in server.said


STACK = """
import time
from functools import reduce

from greenlet import getcurrent, greenlet


def deep(depth):
    return reduce(lambda one, other: deep(depth - 1) if depth else busy(), [0, 1])  # frames of C


def busy():
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        sorted([3, 1, 2], key=str)
        time.sleep(0.001)


def others():
    while True:
        getcurrent().parent.switch()
        deep(60)


other = greenlet(others)
other.switch()  # its stack begins here, above that of each call


def application(environ, start_response):
    other.parent = getcurrent()
    other.switch()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [environ["PATH_INFO"].encode()]
"""


def test_what_is_told_of_a_call_does_not_lie_on_its_stack(start: Start) -> None:
    """Which another greenlet overwrites for the time in which it runs: that ended the process by SIGSEGV."""
    server = start("1x1", "--slow-request=0.1", source=STACK)
    for number in range(3):
        path = f"/{number}" + "x" * 50
        with ThreadPoolExecutor(1) as client:
            answer = client.submit(server.get, path)
            wait_for(lambda: path in calls(server), f"{path} on the board")  # noqa: B023
            assert answer.result() == (200, path)
        server.await_text(f"[W] slow request: GET {path} has been at work")
    assert server.stop() == 0


def calls(server: Server) -> list[str]:
    """The paths of what the application is called for now."""
    told = reader.read_server(server.process.pid) or {"processes": []}
    return [call["path"] for process in told["processes"] for call in process["calls"]]


CLOCKS = {
    "freezegun": "from freezegun import freeze_time\nfreeze_time('2001-02-03').start()\n",
    "time-machine": "import time_machine\ntime_machine.travel('2001-02-03 00:00Z', tick=False).start()\n",
}

STOPPED = """
import os
import time


def application(environ, start_response):
    if environ["PATH_INFO"] == "/fail":
        raise ValueError
    while environ["PATH_INFO"] == "/late":
        pass
    if environ["PATH_INFO"] == "/die":
        os._exit(3)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(int(time.time())).encode()]
"""


@pytest.mark.parametrize(("clock", "shape"), [("freezegun", "1x1"), ("time-machine", "2x1")])
def test_clocks_of_the_server_go_on(start: Start, shape: str, clock: str) -> None:
    began = time.strftime("%Y-%m-%d")
    server = start(shape, "--request-timeout=0.5", source=CLOCKS[clock] + STOPPED)
    assert server.get() == (200, "981158400"), "that of the application stands still"
    assert server.get("/fail")[0] == 500
    assert server.get("/late")[0] == 504
    if shape == "2x1":
        for _ in range(3):  # the next one waits longer each time
            with pytest.raises(ConnectionError):
                server.get("/die")
            server.await_serving(2)
    server.send(signal.SIGHUP)
    server.await_text("reloaded: ")
    assert server.get()[0] == 200
    assert server.stop() == 0
    dates = set(re.findall(r"(?m)^([\d-]{10}) [\d:]{8}: ", server.said))
    assert dates and dates <= {began, time.strftime("%Y-%m-%d")}
