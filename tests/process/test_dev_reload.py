"""Autoreload: every save is served, whatever its kind, and nobody is refused or answered by old code meanwhile."""

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from processes import suspend
from starter import EVERY_SHAPE, PATIENCE, SHAPES, Server, Start, asking, by_rename, lives, wait_for

from poorhttp.system import timing

APP = """
import os, time
MARKS = os.environ["MARKS"]
{extra}

def application(environ, start_response):
    path = environ["PATH_INFO"]
    text = str(os.getpid()) if path == "/pid" else "{text}"
    if path == "/slow":
        open(os.path.join(MARKS, "slow"), "w").close()
        time.sleep(0.5)
    if path == "/held":
        open(os.path.join(MARKS, "held"), "w").close()
        while not os.path.exists(os.path.join(MARKS, "release")):
            time.sleep(0.01)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [text.encode()]
"""


def write(path: Path, text: str, **extra: str) -> None:
    """Save as many editors do: another file takes the name."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(APP.format(text=text, extra=extra.get("extra", "")))
    fresh.rename(path)


ENDLESS = """
import os, time

def ticks():
    while True:
        yield b"tick\\n"
        time.sleep(0.01)

def application(environ, start_response):
    if environ["PATH_INFO"] == "/asleep":
        open(os.path.join(os.environ["MARKS"], "asleep"), "w").close()
        time.sleep(60)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return ticks() if environ["PATH_INFO"] == "/stream" else [b"{text}"]
"""

IMPORTING = """
import sys
sys.path.insert(0, {elsewhere!r})
open(os.path.join(MARKS, "importing"), "w").close()
while not os.path.exists(os.path.join(MARKS, "import")):
    time.sleep(0.01)
import part
open(os.path.join(MARKS, "imported"), "w").close()
"""

Dev = Callable[..., Server]


@pytest.fixture
def dev(launch: Start, tmp_path: Path) -> Dev:
    """Start `poorhttp dev` in a shape, and wait until it serves."""

    def begin(shape: str = "1x1", *arguments: str, awaits: str = "loaded in", **environ: str) -> Server:
        if not (tmp_path / "app.py").exists():
            write(tmp_path / "app.py", "0")
        server = launch("dev", "app.py", "--port=0", *SHAPES[shape], *arguments, **environ)
        server.await_address()
        server.await_text(awaits)
        return server

    return begin


def serves(server: Server, text: str) -> None:
    """The very next answer is that of the new code: nothing is tried twice."""
    status, body = server.get()
    assert (status, body) == (200, text)


@pytest.fixture
def prepared() -> Callable[[Server], None]:
    """Wait until the next process has come as far as it can, so that a save finds it ready."""

    def wait(server: Server) -> None:
        wait_for(lambda: len(server.workers()) >= 2, "a process that waits")

    return wait


@EVERY_SHAPE
def test_every_shape_serves_what_was_saved(dev: Dev, tmp_path: Path, shape: str) -> None:
    server = dev(shape)
    serves(server, "0")
    for number in range(1, 6):
        write(tmp_path / "app.py", str(number))
        serves(server, str(number))
    assert "Traceback" not in server.said
    assert server.stop(signal.SIGINT) == 0


def test_a_fresh_process_each_time_and_no_code_in_the_supervisor(dev: Dev, tmp_path: Path) -> None:
    count = 'open(os.path.join(MARKS, "imports"), "a").write(f"{os.getpid()}\\n")'
    write(tmp_path / "app.py", "0", extra=count)
    server = dev()
    for number in range(1, 4):
        write(tmp_path / "app.py", str(number), extra=count)
        serves(server, str(number))
    pids = (server.marks / "imports").read_text().split()
    assert len(set(pids)) == len(pids) == 4  # once for each version
    assert str(server.process.pid) not in pids


def test_nobody_is_accepted_while_another_process_looks_whom_to_accept(launch: Start, tmp_path: Path) -> None:
    write(tmp_path / "app.py", "0")
    passed = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    with passed[0] as looked_at, passed[1] as other:
        server = launch("dev", "app.py", passed=passed)
        server.await_text("loaded in")
        fcntl.lockf(looked_at, fcntl.LOCK_EX)
        with socket.create_connection(looked_at.getsockname()) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            server.port = other.getsockname()[1]
            serves(server, "0")  # and so it has heard of the client, who came before
            looked_at.setblocking(False)
            looked_at.accept()[0].close()
        fcntl.lockf(looked_at, fcntl.LOCK_UN)
        server.port = looked_at.getsockname()[1]
        serves(server, "0")
        assert server.stop() == 0


def in_place(path: Path, text: bytes) -> None:
    with path.open("r+b") as file:
        file.truncate(len(text))
        file.write(text)


def truncated_first(path: Path, text: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        time.sleep(0.005)
        file.write(text[: len(text) // 2])
        time.sleep(0.005)
        file.write(text[len(text) // 2 :])


def backup_first(path: Path, text: bytes) -> None:
    path.rename(path.with_name(f"{path.name}~"))
    path.write_bytes(text)


def deleted_first(path: Path, text: bytes) -> None:
    path.unlink()
    path.write_bytes(text)


def older(path: Path, text: bytes) -> None:
    fresh = path.with_name("restored")
    fresh.write_bytes(text)
    os.utime(fresh, (1_000_000_000, 1_000_000_000))
    fresh.rename(path)


def same_time(path: Path, text: bytes) -> None:
    status = path.stat()
    path.write_bytes(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


SAVES = [in_place, by_rename, truncated_first, backup_first, deleted_first, older, same_time]


@pytest.mark.parametrize("name", ["app.py", "views.py", "page.txt"])
def test_no_way_of_saving_is_missed(dev: Dev, tmp_path: Path, name: str) -> None:
    """Each edit has the size of the one before, within the same second: the trap of stale bytecode."""
    (tmp_path / "views.py").write_text("TEXT = '<00>'\n")
    (tmp_path / "page.txt").write_text("<00>")
    read = {"app.py": "'<00>'", "views.py": "__import__('views').TEXT", "page.txt": "open('page.txt').read()"}[name]
    source = (
        f"TEXT = {read}\n"
        "def application(environ, start_response):\n"
        "    start_response('200 OK', [])\n"
        "    return [TEXT.encode()]\n"
    )
    (tmp_path / "app.py").write_text(source)
    server = dev()
    for number, save in enumerate((save for save in SAVES for _ in range(3)), 1):
        before, after = f"{number - 1:02}", f"{number:02}"
        content = (tmp_path / name).read_text().replace(f"<{before}>", f"<{after}>")
        save(tmp_path / name, content.encode())
        assert server.get() == (200, f"<{after}>"), save.__name__


def test_bytecode_of_another_process_is_not_believed(dev: Dev, tmp_path: Path) -> None:
    """It is of the same second and the same size as what is there now."""
    source = "def application(environ, start_response):\n    start_response('200 OK', [])\n    return [b'{}']\n"
    (tmp_path / "views.py").write_text(source.format(0))
    (tmp_path / "app.py").write_text("from views import application\n")
    server = dev()
    serves(server, "0")
    for number in range(1, 6):
        wait_for(lambda: time.time() % 1 < 0.5, "the first half of a second")
        fresh = tmp_path / "fresh"
        fresh.write_text(source.format(number))
        (tmp_path / "views.py").write_text(source.format("x"))
        subprocess.run(
            [sys.executable, "-m", "compileall", "-q", "views.py"], cwd=tmp_path, check=True, timeout=PATIENCE
        )
        stale = (tmp_path / "views.py").stat()
        os.utime(fresh, ns=(stale.st_atime_ns, stale.st_mtime_ns))
        fresh.rename(tmp_path / "views.py")
        serves(server, str(number))


def test_what_was_read_without_being_imported(dev: Dev, tmp_path: Path) -> None:
    """A template at the first request, a file that was not there, one that goes away."""
    source = (
        "import os\n"
        "try:\n    ENV = open('.env').read()\nexcept FileNotFoundError:\n    ENV = 'none'\n"
        "CACHE = {}\n"
        "def application(environ, start_response):\n"
        "    if 'page' not in CACHE:\n        CACHE['page'] = open('templates/page.html').read()\n"
        "    start_response('200 OK', [])\n    return [f\"{ENV} {CACHE['page']}\".encode()]\n"
    )
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").write_text("0")
    (tmp_path / "app.py").write_text(source)
    server = dev()
    serves(server, "none 0")
    (tmp_path / "templates" / "page.html").write_text("1")
    wait_for(
        lambda: server.get()[1] == "none 1", "the template"
    )  # the supervisor may hear of its first reading only now
    (tmp_path / ".env").write_text("some")
    serves(server, "some 1")
    (tmp_path / ".env").unlink()
    serves(server, "none 1")


@pytest.mark.parametrize("is_there", [True, False], ids=["a directory", "none yet"])
def test_a_template_that_comes_to_hide_another_one(dev: Dev, tmp_path: Path, is_there: bool) -> None:
    """The first place was looked at in vain, by trying to open it, as Django does."""
    for place in ["own"] * is_there + ["base"]:
        (tmp_path / "templates" / place).mkdir(parents=True)
    (tmp_path / "templates" / "base" / "page.html").write_text("base")
    extra = (
        "def content():\n"
        "    for place in 'own', 'base':\n"
        "        try: return open(f'templates/{place}/page.html').read()\n"
        "        except FileNotFoundError: pass\n"
        "CONTENT = content()\n"
    )
    write(tmp_path / "app.py", '" + CONTENT + "', extra=extra)
    server = dev()
    serves(server, "base")
    (tmp_path / "templates" / "own").mkdir(exist_ok=True)
    for text in "one", "two":
        (tmp_path / "templates" / "own" / "page.html").write_text(text)
        serves(server, text)
    (tmp_path / "templates" / "own" / "page.html").unlink()
    serves(server, "base")


def test_an_env_file_that_is_opened_only_where_it_is(dev: Dev, tmp_path: Path) -> None:
    write(tmp_path / "app.py", "0", extra="ENV = open('.env').read() if os.path.isfile('.env') else 'none'")
    (tmp_path / "app.py").write_text((tmp_path / "app.py").read_text().replace('"0"', "ENV"))
    server = dev()
    serves(server, "none")
    for text in "one", "two":
        (tmp_path / ".env").write_text(text)
        serves(server, text)
    (tmp_path / ".env").unlink()
    serves(server, "none")


def test_a_library_by_ctypes(dev: Dev, tmp_path: Path) -> None:
    """Built anew; whether it can be used does not matter here."""
    source = (
        "import ctypes\n"
        "try:\n    ctypes.CDLL('./own.so')\nexcept OSError as error:\n    TEXT = str(error)\n"
        "def application(environ, start_response):\n"
        "    start_response('200 OK', [])\n    return [TEXT.encode()]\n"
    )
    (tmp_path / "app.py").write_text(source)
    (tmp_path / "own.so").write_text("no library of any kind" * 9)
    server = dev()
    before = server.get()
    (tmp_path / "own.so").write_text("")
    assert server.get() != before
    server.await_text("reloaded own.so")


READS = {
    "open": ("shop/words.txt", "open(os.path.join(os.path.dirname(shop.__file__), 'words.txt')).read()"),
    "pkgutil": ("shop/data/words.txt", "__import__('pkgutil').get_data('shop', 'data/words.txt').decode()"),
    "resources": (
        "shop/words.txt",
        "__import__('importlib.resources').resources.files('shop').joinpath('words.txt').read_text()",
    ),
    "beside": ("settings.toml", "open(os.path.join(os.path.dirname(shop.__file__), '..', 'settings.toml')).read()"),
    "elsewhere": ("etc/settings.toml", "open('etc/settings.toml').read()"),
}


@pytest.mark.parametrize("when", ["at the import", "in a request"])
@pytest.mark.parametrize("how", READS)
def test_the_data_of_a_package_and_files_beside_it(dev: Dev, tmp_path: Path, how: str, when: str) -> None:
    path, read = READS[how]
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("0")
    (tmp_path / "shop").mkdir(exist_ok=True)
    text = (
        f"TEXT = {read}\ndef text(): return TEXT"
        if when == "at the import"
        else f"CACHE = []\ndef text():\n    CACHE or CACHE.append({read})\n    return CACHE[0]"
    )
    (tmp_path / "shop" / "__init__.py").write_text("")
    (tmp_path / "shop" / "views.py").write_text(f"import os, shop\n{text}\n")
    write(tmp_path / "app.py", '" + shop.views.text() + "', extra="import shop.views")
    server = dev()
    serves(server, "0")
    for number in range(1, 4):
        (tmp_path / path).write_text(str(number))
        wait_for(lambda number=number: server.get()[1] == str(number), "the new content")
        server.await_text(f"reloaded {path}  ")


def test_what_belongs_to_others_reloads_nothing(dev: Dev, tmp_path: Path) -> None:
    """Installed packages, what git keeps, bytecode: though they were imported or read. An edit behind them is seen."""
    files = ["site-packages/library.py", ".git/HEAD", ".git/refs/heads/main", "__pycache__/made.txt"]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("VALUE = 0\n")
    extra = (
        f"import sys; sys.path.append('site-packages')\nimport library\nREAD = [open(name).read() for name in {files}]"
    )
    write(tmp_path / "app.py", "0", extra=extra)
    server = dev()
    serves(server, "0")
    for number in range(1, 4):
        for name in files:
            (tmp_path / name).write_text(f"VALUE = {number}\n")
            by_rename(tmp_path / name, f"VALUE = -{number}\n".encode())
        for place in "site-packages", ".git", "__pycache__":
            (tmp_path / place / f"new{number}.py").write_text("")
        write(tmp_path / "app.py", str(number), extra=extra)
        serves(server, str(number))
        wait_for(lambda number=number: server.said.count("] reloaded") >= number, "a line for each save")
    assert re.findall(r"\] reloaded (.*?)  ", server.said) == ["app.py"] * 3


def test_new_and_deleted_modules(dev: Dev, tmp_path: Path) -> None:
    source = (
        "import os, importlib\n"
        "NAMES = sorted(each[:-3] for each in os.listdir('plugins') if each.endswith('.py'))\n"
        "def application(environ, start_response):\n"
        "    start_response('200 OK', [])\n    return [' '.join(NAMES).encode()]\n"
    )
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "one.py").write_text("")
    (tmp_path / "app.py").write_text(source)
    server = dev()
    serves(server, "one")
    (tmp_path / "plugins" / "two.py").write_text("")
    serves(server, "one two")
    (tmp_path / "plugins" / "one.py").unlink()
    serves(server, "two")


EMPTY = {
    "a package": ("from shop.home import TEXT", "shop/home.py", 500),
    "one in it": ("from shop.views.home import TEXT", "shop/views/home.py", 500),
    "its beginning": ("import shop\nTEXT = shop.TEXT", "shop/__init__.py", 500),
    "a path": ("sys.path.insert(0, 'shop')\nimport home\nTEXT = home.TEXT", "shop/home.py", 500),
    "a path from the outside": ("from home import TEXT", "src/home.py", 500),
    "what may be missing": ("try: from shop.home import TEXT\nexcept ImportError: TEXT = 'none'", "shop/home.py", 200),
}


@pytest.mark.parametrize("what", EMPTY)
def test_the_first_module_in_a_directory(launch: Start, tmp_path: Path, what: str) -> None:
    """Nothing was imported from there before."""
    imports, path, status = EMPTY[what]
    (tmp_path / path).parent.mkdir(parents=True)
    write(tmp_path / "app.py", "0", extra=f"import sys\n{imports}")
    (tmp_path / "app.py").write_text((tmp_path / "app.py").read_text().replace('"0"', "TEXT"))
    search = os.pathsep.join([str(tmp_path / "src"), str(Path(__file__).parents[2])])
    server = launch("dev", "app.py", "--port=0", PYTHONPATH=search)
    server.await_address()
    server.await_text("loaded in" if status == 200 else "a page shows it")
    assert server.get()[0] == status
    for text in "one", "two":
        (tmp_path / path).write_text(f"TEXT = {text!r}\n")
        serves(server, text)
    (tmp_path / path).unlink()
    assert server.get()[0] == status


def test_a_symlink_to_another_release(dev: Dev, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"release{number}").mkdir()
        write(tmp_path / f"release{number}" / "app.py", str(number))
        os.utime(tmp_path / f"release{number}" / "app.py", (1_000_000_000, 1_000_000_000))
    (tmp_path / "current").symlink_to("release0")
    (tmp_path / "app.py").symlink_to("current/app.py")
    server = dev()
    for number in (1, 2, 0, 1):
        (tmp_path / "next").symlink_to(f"release{number}")
        (tmp_path / "next").rename(tmp_path / "current")
        serves(server, str(number))
    write(tmp_path / "release1" / "app.py", "edited")
    serves(server, "edited")


def test_a_look_for_packages_is_no_interest_in_all_that_is_there(dev: Dev, tmp_path: Path) -> None:
    look = "import importlib.metadata\nlist(importlib.metadata.distributions())"
    write(tmp_path / "app.py", "0", extra=look)
    server = dev()
    (tmp_path / "note.txt").write_text("")
    write(tmp_path / "app.py", "1", extra=look)
    serves(server, "1")
    server.await_text("reloaded app.py  ")
    assert server.said.count("] reloaded") == 1


def test_nobody_is_answered_before_all_that_was_read_is_watched(dev: Dev, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "part.py").write_text("TEXT = 'old'\n")
    write(tmp_path / "app.py", "old", extra=IMPORTING.format(elsewhere=str(elsewhere)))
    (tmp_path / "app.py").write_text((tmp_path / "app.py").read_text().replace('"old"', "part.TEXT"))
    server = dev(awaits="")
    server.await_mark("importing")
    suspend(server.process.pid)
    try:
        (server.marks / "import").touch()
        server.await_mark("imported")
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.settimeout(0.3)
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with pytest.raises(TimeoutError):
                client.recv(1)
            (elsewhere / "part.py").write_text("TEXT = 'new'\n")
            server.send(signal.SIGCONT)
            client.settimeout(PATIENCE)
            assert client.makefile().read().endswith("new")
    finally:
        server.send(signal.SIGCONT)


def test_a_file_that_changes_before_the_supervisor_has_heard_of_it(dev: Dev, tmp_path: Path) -> None:
    """It is read in a request, by a process that serves already."""
    (tmp_path / "page.txt").write_text("0")
    write(tmp_path / "app.py", '" + content() + "', extra="def content():\n    return open('page.txt').read()")
    server = dev()
    suspend(server.process.pid)
    try:
        serves(server, "0")
        by_rename(tmp_path / "page.txt", b"1")
    finally:
        server.send(signal.SIGCONT)
    server.await_text("reloaded page.txt")


def test_twenty_files_at_once_are_one_reload(dev: Dev, tmp_path: Path) -> None:
    """At once for the supervisor, which sleeps meanwhile: on a busy machine another program may come between two files
    for longer than a silence after which it looks, and then there are two reloads.
    """
    names = [f"part{number}" for number in range(20)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("TEXT = '0'\n")
    lines = "".join(f"import {name}\n" for name in names)
    texts = ", ".join(f"{name}.TEXT" for name in names)
    (tmp_path / "app.py").write_text(
        f"{lines}def application(environ, start_response):\n"
        f"    start_response('200 OK', [])\n    return [''.join([{texts}]).encode()]\n"
    )
    server = dev()
    for number in range(1, 4):
        suspend(server.process.pid)
        try:
            for name in names:
                (tmp_path / f"{name}.py").write_text(f"TEXT = '{number}'\n")
        finally:
            server.send(signal.SIGCONT)
        serves(server, str(number) * 20)
    wait_for(lambda: server.said.count("] reloaded") >= 3, "a line for each batch")
    assert re.findall(r"\] reloaded (.*?)  ", server.said) == ["part0.py and 19 more"] * 3


def test_edits_while_the_application_is_loaded(dev: Dev, tmp_path: Path) -> None:
    server = dev()
    for number in range(10):
        for step in range(5):
            write(tmp_path / "app.py", f"{number}.{step}", extra="time.sleep(0.05)")
            time.sleep(0.02)
        serves(server, f"{number}.4")
        await_idle(server)  # a save in the very moment of its readiness would count as one of the load


def test_an_application_that_is_saved_during_each_load_is_served(dev: Dev, tmp_path: Path) -> None:
    """As an editor that saves by itself, while an import takes its time."""
    slow = "time.sleep(0.4)"
    server = dev()
    for number in range(15):
        write(tmp_path / "app.py", f"v{number}", extra=slow)
        time.sleep(0.25)  # so that the save comes while that is loaded
    assert server.get() == (200, "v14")
    write(tmp_path / "app.py", "end", extra=slow)
    assert server.get() == (200, "end")


def test_saves_right_behind_each_answer_are_not_let_be(dev: Dev, tmp_path: Path, shape: str) -> None:
    server = dev(shape)
    for number in range(20):
        write(tmp_path / "app.py", f"v{number}")
        assert server.get() == (200, f"v{number}")


def begin_in_a_place(launch: Start, tmp_path: Path) -> tuple[Server, Path]:
    """A server whose working directory is nobody else's, and that directory."""
    place = tmp_path / "place"
    place.mkdir()
    write(place / "app.py", "one")
    server = launch("dev", "app.py", "--port=0", inside=("env", "--chdir", str(place)))
    server.await_address()
    assert server.get() == (200, "one")
    return server, place


def test_a_working_directory_that_is_exchanged(launch: Start, tmp_path: Path) -> None:
    """By another one of its name, as a checkout or an unpacked archive is."""
    server, place = begin_in_a_place(launch, tmp_path)
    for number in range(2):
        shutil.copytree(place, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
        write(tmp_path / "copy" / "app.py", f"copy {number}")
        place.rename(tmp_path / f"old{number}")
        (tmp_path / "copy").rename(place)
        assert server.get() == (200, f"copy {number}")
    shutil.rmtree(place)
    assert server.get()[0] == 500
    place.mkdir()
    write(place / "app.py", "again")
    assert server.get() == (200, "again")
    write(place / "app.py", "and again")
    assert server.get() == (200, "and again")


def test_a_working_directory_that_is_removed_bit_by_bit(launch: Start, tmp_path: Path) -> None:
    """As a large one is: its end, of which the kernel does not tell while somebody is in it, comes after a load."""
    server, place = begin_in_a_place(launch, tmp_path)
    for number in range(2):
        (place / "app.py").unlink()
        assert server.get()[0] == 500
        shutil.rmtree(place)
        place.mkdir()
        write(place / "app.py", f"again {number}")
        assert server.get() == (200, f"again {number}")
        write(place / "app.py", f"and again {number}")
        assert server.get() == (200, f"and again {number}")


def test_a_working_directory_that_is_elsewhere_for_a_while(launch: Start, tmp_path: Path) -> None:
    """Its code is not to be had then, though the processes are in it; another one of its name has other code."""
    server, place = begin_in_a_place(launch, tmp_path)
    for number in range(3):
        shutil.copytree(place, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
        write(tmp_path / "copy" / "app.py", f"copy {number}")
        place.rename(tmp_path / f"old{number}")
        status, text = server.get()
        assert (status, f"the working directory is gone: {place}:" in text) == (500, True)
        (tmp_path / "copy").rename(place)
        assert server.get() == (200, f"copy {number}")
    for seconds in 0.0, 0.3, 1.0:  # without one, and with processes that were prepared meanwhile
        place.rename(tmp_path / "elsewhere")
        assert server.get()[0] == 500
        time.sleep(seconds)
        (tmp_path / "elsewhere").rename(place)
        assert server.get() == (200, "copy 2")
    write(place / "app.py", "again")
    assert server.get() == (200, "again")


def test_what_changes_nothing_reloads_nothing(dev: Dev, tmp_path: Path, prepared: Callable[[Server], None]) -> None:
    """The same content once more, an editor's own files, what the application writes."""
    (tmp_path / "log.txt").write_text("")
    write(tmp_path / "app.py", "0", extra="open('log.txt').read(); open('log.txt', 'a').write('x')")
    server = dev()
    prepared(server)
    serves(server, "0")
    wait_for(lambda: is_asleep(server), "the contents to be taken down, half a second after the last word")
    for _ in range(3):
        for name in (".app.py.swp", "app.py~", "#app.py#", "4913", "notes.txt", "log.txt"):
            (tmp_path / name).write_text("something")
        write(tmp_path / "app.py", "0", extra="open('log.txt').read(); open('log.txt', 'a').write('x')")
        os.utime(tmp_path / "app.py")
        serves(server, "0")
    assert "reloaded" not in server.said


def is_asleep(server: Server) -> bool:
    """Whether the supervisor has nothing to do, and has not had for a second."""
    process = psutil.Process(server.process.pid)
    before = process.num_ctx_switches()
    time.sleep(1)
    return process.num_ctx_switches() == before


def test_nothing_is_refused_and_nothing_is_stale(dev: Dev, tmp_path: Path, shape: str) -> None:
    """Four clients with requests that last, while the file is saved again and again."""
    server = dev(shape)
    saved = [0]
    faults: list[str] = []
    answered = [0]
    is_over = threading.Event()

    def ask(path: str) -> None:
        while not is_over.is_set():
            before = saved[0]
            try:
                status, body = server.get(path)
            except Exception as error:
                faults.append(repr(error))
                continue
            answered[0] += 1
            if status != 200 or int(body) < before:
                faults.append(f"{status} {body}, saved was {before}")

    threads = [threading.Thread(target=ask, args=(path,)) for path in ("/", "/", "/slow", "/slow")]
    for thread in threads:
        thread.start()
    try:
        for number in range(1, 11):
            write(tmp_path / "app.py", str(number))
            saved[0] = number
            serves(server, str(number))
            time.sleep(0.1)
    finally:
        is_over.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert faults == []
    assert answered[0] > 10


def test_a_connection_that_says_nothing_yet_meets_the_new_code(dev: Dev, tmp_path: Path) -> None:
    """Browsers open some in advance."""
    server = dev()
    serves(server, "0")
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as early:
        time.sleep(0.2)
        write(tmp_path / "app.py", "1")
        serves(server, "1")
        early.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert early.makefile("rb").read().endswith(b"\r\n\r\n1")


def test_a_call_that_lasts_delays_nobody_and_is_finished(dev: Dev, tmp_path: Path, shape: str) -> None:
    server = dev(shape)
    answers: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: answers.append(server.get("/held")))
    thread.start()
    try:
        server.await_mark("held")
        write(tmp_path / "app.py", "1")
        serves(server, "1")
        assert not answers
    finally:
        (server.marks / "release").touch()
        thread.join(PATIENCE)
    assert answers == [(200, "0")]


STALLED = """
def stall():
    while not os.path.exists(os.path.join(MARKS, "release")):
        time.sleep(0.01)

os.register_at_fork(after_in_parent=stall)
"""


def save(server: Server, tmp_path: Path) -> None:
    write(tmp_path / "app.py", "1")
    serves(server, "1")


def stop(server: Server, tmp_path: Path) -> None:
    server.send(signal.SIGTERM)
    supervisor = psutil.Process(server.process.pid)
    wait_for(lambda: not supervisor.net_connections(), "the supervisor to let go of the port")


@pytest.mark.parametrize("end", [save, stop])
def test_a_process_that_serves_and_has_not_told_so_yet_finishes_its_requests(
    dev: Dev, tmp_path: Path, end: Callable[[Server, Path], None]
) -> None:
    """One worker serves, while the process above it is held up."""
    write(tmp_path / "app.py", "0", extra=STALLED)
    server = dev("2x1", awaits="autoreload")
    answers: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: answers.append(server.get("/held")))
    thread.start()
    try:
        server.await_mark("held")
        assert "loaded in" not in server.said
        end(server, tmp_path)
        assert not answers
    finally:
        (server.marks / "release").touch()
        thread.join(PATIENCE)
    assert answers == [(200, "0")]
    assert (server.end() if end is stop else server.stop()) == 0


def test_a_call_that_lasts_too_long_is_ended(dev: Dev, tmp_path: Path) -> None:
    server = dev("1x1", "--graceful-timeout=0.3")
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        old = int(server.get("/pid")[1])
        client.sendall(b"GET /held HTTP/1.0\r\n\r\n")
        server.await_mark("held")
        write(tmp_path / "app.py", "1")
        serves(server, "1")
        assert client.recv(100) == b""
    server.await_text("cut off: what an old process had in flight took too long")
    wait_for(lambda: not psutil.pid_exists(old), "the old process to be gone")
    assert int(server.get("/pid")[1]) != old
    serves(server, "1")


def test_an_old_process_too_many_is_told_of(dev: Dev, tmp_path: Path) -> None:
    server = dev()
    clients = []
    for number in range(10):
        write(tmp_path / "app.py", f"v{number}")
        serves(server, f"v{number}")
        clients.append(server.connection())
        clients[-1].request("GET", "/held")
        server.await_mark("held")
        (server.marks / "held").unlink()
    write(tmp_path / "app.py", "end")
    serves(server, "end")
    server.await_text("an old process is killed: there are more than 8")
    (server.marks / "release").touch()
    assert clients[-1].getresponse().read() == b"v9"
    for each in clients:
        each.close()


def test_an_open_stream_delays_nobody(dev: Dev, tmp_path: Path, shape: str) -> None:
    """It goes on for as long as what is in flight may, beside the new code."""
    extra = (
        "def events():\n"
        "    try:\n"
        "        while True:\n"
        "            yield b'data: tick\\n\\n'\n"
        "            time.sleep(0.01)\n"
        "    finally:\n"
        "        open(os.path.join(MARKS, 'ended'), 'w').close()\n"
        "def application(environ, start_response):\n"
        "    if environ['PATH_INFO'] == '/events':\n"
        "        start_response('200 OK', [('Content-Type', 'text/event-stream')])\n"
        "        return events()\n"
        "    return plain(environ, start_response)\n"
    )

    def save(text: str) -> None:
        source = APP.format(text=text, extra="").replace("def application", "def plain")
        by_rename(tmp_path / "app.py", f"{source}{extra}".encode())

    save("0")
    server = dev(shape, "--graceful-timeout=60")
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client, client.makefile("rb") as stream:
        client.sendall(b"GET /events HTTP/1.0\r\n\r\n")
        for number in range(1, 4):
            assert any(b"data: tick" in line for line in stream)
            save(str(number))
            serves(server, str(number))
            assert not (server.marks / "ended").exists()
        for _ in range(100):  # of the first code still
            stream.readline()
        assert stream.readline()
    server.await_mark("ended")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_leaves_nothing_behind(dev: Dev, shape: str, signum: int) -> None:
    server = dev(shape, "--pidfile=server.pid")
    everybody = psutil.Process(server.process.pid).children(recursive=True)
    began = time.monotonic()
    assert server.stop(signum) == 0
    assert time.monotonic() - began < 5
    assert server.said.rstrip().endswith("[S] stopped")
    assert "Traceback" not in server.said
    assert not (server.directory / "server.pid").exists()
    _, alive = psutil.wait_procs(everybody, PATIENCE)
    assert not alive
    wait_for(server.refuses, "the port to be free")


CUT = (signal.SIGINT, 130), (signal.SIGTERM, 1), (signal.SIGQUIT, 0)


@pytest.mark.parametrize(("signum", "code"), CUT, ids=["INT", "TERM", "QUIT"])
def test_a_stop_that_cuts_a_call_off(dev: Dev, tmp_path: Path, shape: str, signum: int, code: int) -> None:
    """It has the same exit code in each shape, and nobody is left who does not come back."""
    (tmp_path / "app.py").write_text(ENDLESS.format(text="0"))
    server = dev(shape, "--graceful-timeout=0.3")
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client:
        client.sendall(b"GET /asleep HTTP/1.0\r\n\r\n")
        server.await_mark("asleep")
        everybody = psutil.Process(server.process.pid).children(recursive=True)
        server.send(signum)
        assert server.process.wait(PATIENCE) == code
        wait_for(lambda: not any(map(lives, everybody)), "the workers to be gone", 0.8)
        assert client.recv(100) == b""


def test_ctrl_c_leaves_an_old_process_a_moment_too(dev: Dev, tmp_path: Path, shape: str) -> None:
    """It has been told to finish; a second signal, behind a moment, would cut it off."""
    server = dev(shape)
    with asking(("127.0.0.1", server.port), "/held") as answer:
        server.await_mark("held")
        write(tmp_path / "app.py", "1")
        new = int(server.get("/pid")[1])
        time.sleep(1.1 * timing.REPEAT)  # else it would be the first one told twice
        server.send(signal.SIGINT)
        wait_for(lambda: not psutil.pid_exists(new), "the new process to be gone, with which the old one was told")
        (server.marks / "release").touch()
        assert b" 200 " in answer.readline()
    assert server.end() == 0


@pytest.mark.parametrize("is_old", [False, True], ids=["who serves", "an old one"])
def test_a_stop_ends_an_open_stream_in_its_time(dev: Dev, tmp_path: Path, shape: str, is_old: bool) -> None:
    (tmp_path / "app.py").write_text(ENDLESS.format(text="0"))
    server = dev(shape, "--graceful-timeout=1")
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as client, client.makefile("rb") as stream:
        client.sendall(b"GET /stream HTTP/1.0\r\n\r\n")
        assert any(b"tick" in line for line in stream)
        if is_old:
            (tmp_path / "app.py").write_text(ENDLESS.format(text="1"))
            serves(server, "1")
            time.sleep(0.4)  # else the second TERM would be the first one told twice
        assert server.stop(signal.SIGTERM) == 0
    assert "late to stop" not in server.said
    assert "did not stop cleanly" not in server.said


@pytest.mark.parametrize("whom", ["supervisor", "process"])
def test_a_kill_leaves_nobody_behind(dev: Dev, tmp_path: Path, shape: str, whom: str) -> None:
    server = dev(shape)
    everybody = psutil.Process(server.process.pid).children(recursive=True)
    if whom == "supervisor":
        server.process.kill()
        _, alive = psutil.wait_procs(everybody, PATIENCE)
        assert not alive
        wait_for(server.refuses, "nobody to have the port, nor who was only just begun")
        return
    serves(server, "0")
    time.sleep(1.1)  # one that dies young would not be started again
    one = psutil.Process(int(server.get("/pid")[1]))
    (one if one.ppid() == server.process.pid else one.parent() or one).kill()
    server.await_text("loading the application again")
    serves(server, "0")
    write(tmp_path / "app.py", "1")
    serves(server, "1")


MAKES = {
    "a directory for a while": "with tempfile.TemporaryDirectory(): pass",
    "one here": "with tempfile.TemporaryDirectory(dir='.') as place: os.mkdir(place + '/part')\nos.listdir('.')",
    "one that stays": "os.listdir('.'); place = tempfile.mkdtemp(dir='.')",
    "links": "os.listdir('.'); os.symlink('app.py', tempfile.mktemp(dir='.')); os.link('app.py', tempfile.mktemp(dir='.'))",
    "a file of the same name": "place = tempfile.mkdtemp(); open(place + '/app.py', 'w').close(); shutil.rmtree(place)",
}


@pytest.mark.parametrize("what", MAKES)
def test_what_the_application_makes_and_removes_reloads_nothing_and_hides_nothing(
    dev: Dev, tmp_path: Path, what: str, prepared: Callable[[Server], None]
) -> None:
    extra = f"import shutil, tempfile\n{MAKES[what]}"
    write(tmp_path / "app.py", "0", extra=extra)
    server = dev()
    prepared(server)
    serves(server, "0")
    assert "reloaded" not in server.said
    write(tmp_path / "app.py", "1", extra=extra)
    serves(server, "1")
    server.await_text("reloaded")
    assert server.said.count("reloaded") == 1


def await_end(server: Server, pid: str) -> None:
    """A process is gone, and the supervisor has done what is to be done then."""
    wait_for(lambda: not psutil.pid_exists(int(pid)), "the old process to be gone")
    await_idle(server)


def await_idle(server: Server) -> None:
    above = psutil.Process(server.process.pid)
    wait_for(lambda: above.status() == psutil.STATUS_SLEEPING, "a supervisor that waits")


def test_what_a_process_wrote_that_is_gone_is_edited(dev: Dev, tmp_path: Path) -> None:
    """A file that the first start makes, and later ones read only."""
    extra = (
        "if not os.path.exists('settings'): open('settings', 'w').write('made')\n"
        "open('log', 'a').write('x'); LOG = open('log').read()\n"
        "TEXT = open('settings').read()"
    )
    write(tmp_path / "app.py", "0", extra=extra)
    source = (tmp_path / "app.py").read_text().replace('"0"', "TEXT")
    (tmp_path / "app.py").write_text(source)
    server = dev()
    old = server.get("/pid")[1]
    serves(server, "made")
    by_rename(tmp_path / "app.py", f"{source}# saved\n".encode())
    serves(server, "made")
    await_end(server, old)
    for text in "one", "two":
        by_rename(tmp_path / "settings", text.encode())
        serves(server, text)
    wait_for(lambda: server.said.count("reloaded") == 3, "a line for each save")


def test_what_a_process_writes_that_leaves_reloads_nothing(dev: Dev, tmp_path: Path) -> None:
    """Into a file that it has open, and that the new one reads only."""
    write(tmp_path / "app.py", "0", extra="LOG = open('log', 'a')")
    late = "    LOG.write('late'); LOG.flush(); open('late' + path[1:], 'w').close()\n    start_response("
    (tmp_path / "app.py").write_text((tmp_path / "app.py").read_text().replace("    start_response(", late))
    server = dev()
    old = server.get("/pid")[1]
    (tmp_path / "log").write_text("")
    holder = threading.Thread(target=server.get, args=("/held",))
    holder.start()
    try:
        server.await_mark("held")
        write(tmp_path / "app.py", "1", extra="LOG = open('log').read(); NAMES = os.listdir('.')")
        serves(server, "1")
    finally:
        (server.marks / "release").touch()
        holder.join(PATIENCE)
    await_end(server, old)
    assert (tmp_path / "log").read_text() == "late"
    write(tmp_path / "app.py", "2")
    serves(server, "2")
    wait_for(lambda: server.said.count("reloaded") >= 2, "a line for each save")
    assert server.said.count("reloaded") == server.said.count("reloaded app.py  ") == 2


def test_a_pipe_that_is_read_is_left_alone(dev: Dev, tmp_path: Path, prepared: Callable[[Server], None]) -> None:
    os.mkfifo(tmp_path / "pipe")
    extra = "PIPE = os.open('pipe', os.O_RDONLY | os.O_NONBLOCK)"
    write(tmp_path / "app.py", "0", extra=extra)
    server = dev()
    prepared(server)
    serves(server, "0")
    time.sleep(1)  # contents are taken down half a second after the last word
    write(tmp_path / "app.py", "1", extra=extra)
    serves(server, "1")
    assert server.stop(signal.SIGINT) == 0


def test_reload_as_a_command_reloads(launch: Start, tmp_path: Path) -> None:
    write(tmp_path / "app.py", "0")
    (tmp_path / "my.ini").write_text("[http]\napplication = app.py\nport = 0\nautoreload = yes\npidfile = run.pid\n")
    server = launch("-c", "my.ini")
    server.await_address()
    server.await_text("loaded in")
    subprocess.run([sys.executable, "-m", "poorhttp", "reload", "-c", "my.ini"], cwd=tmp_path, check=True)
    wait_for(lambda: server.said.count("loaded in") == 2, "the application to be loaded again")
    serves(server, "0")


def test_the_ini_file_counts_too(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "my.ini").write_text(
        "[http]\napplication = app.py\nport = 0\nautoreload = yes\n[environ]\nGREETING = 0\n"
    )
    write(tmp_path / "app.py", '" + os.environ["GREETING"] + "')
    server = launch("-c", "my.ini")
    server.await_address()
    server.await_text("loaded in")
    serves(server, "0")
    (tmp_path / "my.ini").write_text((tmp_path / "my.ini").read_text().replace("GREETING = 0", "GREETING = 1"))
    server.await_text("reloaded my.ini")
    serves(server, "1")


OTHERS = ("single", "forking"), ("forking", "single"), ("forking", "threading")


@pytest.mark.parametrize("types", OTHERS, ids="-".join)
def test_another_type_can_be_stopped_too(launch: Start, tmp_path: Path, types: tuple[str, str]) -> None:
    write(tmp_path / "app.py", "0")
    text = "[http]\napplication = app.py\nport = 0\ngraceful_timeout = 60\ntype = {}\n"
    (tmp_path / "my.ini").write_text(text.format(types[0]))
    server = launch("dev", "-c", "my.ini")
    server.await_address()
    server.await_text("loaded in")
    for which in (*types[1:], *types):
        old = int(server.get("/pid")[1])
        by_rename(tmp_path / "my.ini", text.format(which).encode())
        write(tmp_path / "app.py", which)
        serves(server, which)
        wait_for(lambda pid=old: not psutil.pid_exists(pid), "the old process to be gone")
        old = int(server.get("/pid")[1])
        write(tmp_path / "app.py", "again")
        serves(server, "again")
        wait_for(lambda pid=old: not psutil.pid_exists(pid), "the next one to be gone")
    assert server.stop(signal.SIGINT) == 0
    assert "late to stop" not in server.said


def test_what_only_a_start_heeds_is_told_once(launch: Start, tmp_path: Path) -> None:
    write(tmp_path / "app.py", "0")
    text = "[http]\napplication = app.py\nport = {}\nautoreload = yes\n{}"
    steps = [
        (8081, "", "address is 127.0.0.1:8081 now: start again for that"),
        (8081, "threads = 2\n", ""),
        (8082, "pidfile = a.pid\n", f"address is 127.0.0.1:8082, pidfile is {tmp_path / 'a.pid'} now: start again"),
        (0, "", ""),
        (8082, "", "address is 127.0.0.1:8082 now: start again"),
    ]
    (tmp_path / "my.ini").write_text(text.format(0, ""))
    server = launch("-c", "my.ini")
    server.await_address()
    server.await_text("loaded in")
    told = 0
    for number, (port, more, line) in enumerate(steps, 1):
        by_rename(tmp_path / "my.ini", text.format(port, more).encode())
        wait_for(lambda count=number: server.said.count("reloaded my.ini") == count, "the configuration to be read")
        server.await_text(line)
        write(tmp_path / "app.py", str(number))
        serves(server, str(number))
        told += bool(line)
        assert server.said.count("start again for that") == told
    assert not (tmp_path / "a.pid").exists()


@pytest.mark.parametrize("shape", ["1x1", "2x1"])
def test_what_is_not_served_is_told(dev: Dev, tmp_path: Path, shape: str) -> None:
    server = dev(shape, "--status-path=/status", "--control-socket=control.sock")
    for name in ("status_path", "control_socket"):
        server.await_text(f"note: {name} is not served with autoreload")
    assert server.get("/status")[1] == "0"  # as any path of the application
    assert not (tmp_path / "control.sock").exists()


def test_one_line_says_what_was_reloaded(dev: Dev, tmp_path: Path) -> None:
    server = dev()
    write(tmp_path / "app.py", "1")
    serves(server, "1")
    server.await_text("reloaded")
    assert re.search(r"\[S\] reloaded app\.py  \d+ ms", server.said)
    assert server.said.count("reloaded") == 1


def test_where_nobody_tells_of_changes_they_are_looked_for(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "patch").mkdir()
    (tmp_path / "patch" / "sitecustomize.py").write_text(
        "import poorhttp.dev.watch.inotify as module\ndef refuse():\n    raise OSError(28, 'No space left on device')\n"
        "module.Inotify = refuse\n"
    )
    write(tmp_path / "app.py", "0")
    search = os.pathsep.join([str(tmp_path / "patch"), str(Path(__file__).parents[2])])
    server = launch("dev", "app.py", "--port=0", PYTHONPATH=search)
    server.await_address()
    server.await_text("looking at 1 file")
    server.await_text("fs.inotify.max_user_watches")
    for number in range(1, 4):
        write(tmp_path / "app.py", str(number))
        wait_for(lambda number=number: server.get()[1] == str(number), "the new code")
