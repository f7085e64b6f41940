"""The application is immortal (PEP 683) in the workers of a server, where the interpreter is known to allow it."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest
from starter import PATIENCE, ROOT, SUPERVISED, Server, Start, run, wait_for

IS_KNOWN = (3, 12) <= sys.version_info < (3, 14) and not sysconfig.get_config_var("Py_GIL_DISABLED")
known = pytest.mark.skipif(
    not IS_KNOWN, reason="no object is immortal under this Python; CPython 3.12 and 3.13 know it"
)

APP = '''
"""Tells what of it is immortal, and what is called when it lets go of something."""

import gc
import os
import sys
import tempfile
import threading
import weakref

called = []


class Plain:
    pass


class Subclass(dict):
    pass


class Finalized:
    def __del__(self):
        called.append("__del__")


class OfFinalized(Finalized):
    pass


class Local(threading.local):
    pass


def generate():
    kept = yield 1
    yield kept


def enclosing():
    kept = "kept in a cell"
    return lambda: kept


inner = enclosing()
plain, watched = Plain(), Plain()
plain.attribute = [f"a text {number}" for number in range(3)]
held_tuple = (f"in a tuple, {os.getpid()}", 10**30, 1.5, b"bytes of " + bytes(str(os.getpid()), "ascii"))
going = generate()
next(going)
THINGS = {
    "function": enclosing, "code": enclosing.__code__, "constants": enclosing.__code__.co_consts,
    "closure": inner.__closure__[0], "class": Plain, "instance": plain, "module": sys.modules[__name__],
    "attribute": plain.attribute, "item": plain.attribute[0], "tuple": held_tuple, "integer": held_tuple[1],
    "float": held_tuple[2], "bytes": held_tuple[3], "subclass": Subclass(),
}
OTHERS = {
    "finalized": Finalized(), "of finalized": OfFinalized(), "generator": going, "lock": threading.Lock(),
    "local": Local(), "file": open(os.devnull), "frame": sys._getframe(), "array": bytearray(b"array"),
}
alone = [Finalized()]
weak = weakref.ref(watched, lambda _: called.append("callback"))


def application(environ, start_response):
    global watched
    path = environ["PATH_INFO"]
    if path == "/immortal":
        said = [name for name, thing in sorted(THINGS.items()) if sys.getrefcount(thing) > 1 << 30]
    elif path == "/others":
        said = [name for name, thing in sorted(OTHERS.items()) if sys.getrefcount(thing) > 1 << 30]
    elif path == "/drop":
        watched = None
        alone.clear()
        new = Plain()
        weak_new = weakref.ref(new, lambda _: called.append("callback of a new object"))
        del new
        gc.collect()
        said = [*called, str(weak() is None)]
    elif path == "/grow":
        plain.attribute.extend(str(number) for number in range(1000))
        plain.new = [plain]
        held = dict(vars(plain))
        del plain.attribute[3:]
        said = [str(len(plain.attribute)), str(gc.get_freeze_count() > 1000)]
    elif path == "/unfreeze":
        gc.unfreeze()
        gc.collect()
        gc.collect()
        said = [plain.attribute[0], str(gc.get_freeze_count() > 1000)]
    else:
        said = [str(os.getpid())]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return ["\\n".join(said).encode()]
'''
NEEDED = "it needs CPython 3.12 or 3.13 with the GIL"
THINGS = [
    "attribute",
    "bytes",
    "class",
    "closure",
    "code",
    "constants",
    "float",
    "function",
    "instance",
    "integer",
    "item",
    "module",
    "subclass",
    "tuple",
]


def lines(server: Server, path: str) -> list[str]:
    status, body = server.get(path)
    assert status == 200
    return body.splitlines()


def told(server: Server) -> tuple[str | None, str]:
    """What `status` knows of it: as JSON and in words."""
    words = ("status", f"--pidfile={server.directory / 'run.pid'}")
    (code, text), (_, board) = run(server.directory, *words), run(server.directory, *words, "--json")
    assert code == 0
    immortal: str | None = json.loads(board)["board"]["immortal"]
    return immortal, next((line for line in text.splitlines() if line.startswith("application immortal")), "")


@pytest.fixture
def begin(start: Start) -> Start:
    def begun(shape: str, *arguments: str, source: str = APP) -> Server:
        server = start(shape, "--pidfile=run.pid", *arguments, source=source)
        if shape in SUPERVISED:
            wait_for(lambda: len(server.workers()) == 2, "two workers")
        return server

    return begun


@known
def test_what_is_loaded_is_immortal_in_a_worker(begin: Start, supervised: str) -> None:
    server = begin(supervised)
    assert lines(server, "/immortal") == THINGS
    assert lines(server, "/others") == []
    assert told(server) == ("yes", "application immortal: yes")
    assert server.stop() == 0
    assert "[E]" not in server.said and "[W]" not in server.said


@known
def test_what_the_application_has_frozen_is_immortal_too(begin: Start) -> None:
    server = begin("2x1", source=APP + "\ngc.freeze()\n")
    assert lines(server, "/immortal") == THINGS
    assert server.stop() == 0


@known
def test_finalizers_run_and_an_immortal_object_is_never_gone(begin: Start) -> None:
    """`alone` is immortal, and the object with `__del__` in it is not. A weak reference stays, and calls nothing."""
    server = begin("2x1")
    assert lines(server, "/drop") == ["__del__", "callback of a new object", "False"]
    assert server.stop() == 0


@known
def test_immortal_objects_change_as_ever(begin: Start) -> None:
    server = begin("2x1")
    for _ in range(20):
        assert lines(server, "/grow") == ["3", "True"]
        assert lines(server, "/unfreeze") == ["a text 0", "True"]
    assert lines(server, "/immortal") == THINGS
    assert server.stop() == 0


@pytest.mark.parametrize("setting", ["immortal", "preload"])
def test_not_if_a_setting_says_so(begin: Start, setting: str) -> None:
    server = begin("2x1", f"--{setting}=no")
    assert lines(server, "/immortal") == []
    assert told(server) == (f"no, {setting} = no", f"application immortal: no, {setting} = no")
    assert server.stop() == 0


@pytest.mark.parametrize("shape", ["1x1", "1x4"])
def test_not_where_there_are_no_workers(begin: Start, shape: str) -> None:
    server = begin(shape)
    assert lines(server, "/immortal") == []
    assert told(server) == (None, "")
    assert server.stop() == 0


@pytest.mark.skipif(IS_KNOWN, reason="this Python has immortal objects")
def test_another_python_is_named(begin: Start) -> None:
    server = begin("2x1")
    assert lines(server, "/immortal") == []
    assert told(server) == (f"no, {NEEDED}", f"application immortal: no, {NEEDED}")
    assert server.stop() == 0


@known
def test_an_application_that_forbids_to_look_at_objects_is_served(begin: Start) -> None:
    guard = """
def forbid(event, arguments):
    if event == "gc.get_objects":
        raise RuntimeError("forbidden here")


sys.addaudithook(forbid)
"""
    server = begin("2x1", source=APP + guard)
    assert lines(server, "/immortal") == []
    assert told(server)[0] == "no, RuntimeError: forbidden here"
    assert server.stop() == 0


@known
def test_new_workers_are_like_the_first_ones(begin: Start) -> None:
    """One that dies is replaced from the process that loaded the application; a reload loads it anew."""
    server = begin("2x1")
    before = server.workers()
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    wait_for(lambda: len(server.workers() - before) == 2, "two new workers")
    assert lines(server, "/immortal") == THINGS
    server.send(signal.SIGHUP)
    server.await_text("reloaded")
    assert lines(server, "/immortal") == THINGS
    assert server.stop() == 0


@known
def test_a_thread_that_fills_a_tuple_goes_on(begin: Start, tmp_path: Path) -> None:
    """A tuple that is being made cannot be resized unless there is one reference to it."""
    slow = """
import time

made = []


def items():
    for number in range(3000):
        time.sleep(0.0005)
        yield number


def make():
    while not os.path.exists(os.environ["MARKS"] + "/enough"):
        made.append(len(tuple(items())))
    open(os.environ["MARKS"] + f"/made-{set(made)}", "w").close()


threading.Thread(target=make).start()
time.sleep(0.1)
"""
    server = begin("2x1", source=APP + slow)
    time.sleep(1)
    (server.marks / "enough").touch()
    server.await_mark("made-{3000}")
    assert server.stop() == 0
    assert "SystemError" not in server.said


@known
def test_an_interpreter_with_immortal_objects_ends_in_order(tmp_path: Path) -> None:
    """It takes apart what it has loaded, text that is interned above all, and some of that is immortal."""
    code = """
import argparse, asyncio, atexit, ctypes, decimal, email.message, http.client, json, logging.config, multiprocessing.pool
import sqlite3, ssl, sys, unittest.mock, urllib.request, xml.dom.minidom, xml.etree.ElementTree, zoneinfo
from types import SimpleNamespace
from poorhttp.process.workers import immortal

settings = SimpleNamespace(preload=True, immortal=True)
names = [sys.intern(f"a name {number}") for number in range(1000)]
file = open("written", "w")
file.write("to the end")
print(immortal.make(settings))
for number in range(1000):
    setattr(settings, f"a name {number}", names)
print(immortal.make(settings))
atexit.register(print, "over")
"""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, cwd=tmp_path, env=environ, capture_output=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"yes\nyes\nover\n", b"")
    assert (tmp_path / "written").read_text() == "to the end"
