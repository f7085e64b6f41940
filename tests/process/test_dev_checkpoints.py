"""Autoreload: a save goes on from right before the module that was saved, where that equals a cold start, else not."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from starter import SHAPES, Server, Start, lives, wait_for

EDITS = int(os.environ.get("EDITS", "40"))

APP = """
import os
import first
import leaf
def application(environ, start_response):
    start_response("200 OK", [])
    return [f"{first.VALUE} {first.PROCESS} {leaf.VALUE} {os.getpid()}".encode()]
"""
FIRST = "import os\nVALUE = {}\nPROCESS = os.getpid()\n{}\n"


def begin(launch: Start, directory: Path, *arguments: str, first: str = "") -> Server:
    (directory / "app.py").write_text(APP)
    (directory / "first.py").write_text(FIRST.format(0, first))
    (directory / "leaf.py").write_text("VALUE = 0\n")
    server = launch("dev", "app.py", "--port=0", *arguments)
    server.await_address()
    server.await_text("loaded in")
    return server


def save(server: Server, name: str, text: str) -> list[str]:
    """The words of the first answer after a save."""
    lines = server.said.count("] reloaded")
    (server.directory / name).write_text(text)
    status, body = server.get()
    assert status == 200, body
    wait_for(lambda: server.said.count("] reloaded") > lines, "a line in the log")
    return body.split()


def await_checkpoint(server: Server, most: int = 30) -> int:
    """Edit the leaf until the log tells of a checkpoint; the number of the last edit."""
    for number in range(1, most):
        assert save(server, "leaf.py", f"VALUE = {number}\n")[2] == str(number)
        if "(checkpoint)" in server.said:
            return number
        time.sleep(0.05 * number)  # the zygote may need that long
    pytest.fail("nobody ever went on from a checkpoint")


def test_an_edit_of_a_leaf_imports_nothing_before_it_again(launch: Start, tmp_path: Path, shape: str) -> None:
    server = begin(launch, tmp_path, *SHAPES[shape])
    number = await_checkpoint(server)
    for each in range(number + 1, number + 4):
        _, imported_by, value, serving = save(server, "leaf.py", f"VALUE = {each}\n")
        assert value == str(each)
        assert imported_by != serving
    assert server.said.count("(checkpoint)") >= 3


def test_an_edit_before_it_is_imported(launch: Start, tmp_path: Path) -> None:
    server = begin(launch, tmp_path)
    number = await_checkpoint(server)
    for each in range(1, 4):
        value, imported_by, leaf, serving = save(server, "first.py", FIRST.format(each, ""))
        assert (value, leaf) == (str(each), str(number))
        assert imported_by == serving
        assert save(server, "leaf.py", f"VALUE = {number + each}\n")[:1] == [str(each)]
        number += each


def test_a_mistake_in_the_leaf_is_shown_and_mended(launch: Start, tmp_path: Path) -> None:
    server = begin(launch, tmp_path)
    number = await_checkpoint(server)
    (tmp_path / "leaf.py").write_text("VALUE = (\n")
    status, body = server.get()
    assert status == 500 and "SyntaxError" in body
    assert save(server, "leaf.py", f"VALUE = {number + 1}\n")[2] == str(number + 1)


def test_a_module_that_goes_is_missed(launch: Start, tmp_path: Path) -> None:
    server = begin(launch, tmp_path)
    await_checkpoint(server)
    (tmp_path / "leaf.py").unlink()
    status, body = server.get()
    assert status == 500 and "No module named 'leaf'" in body
    (tmp_path / "leaf").mkdir()
    assert save(server, "leaf/__init__.py", "VALUE = 'package'\n")[2] == "package"


UNFIT = {
    "threads": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
        "threads run already",
    ),
    "descriptors": ("FILE = open('first.py')", "descriptors are open already"),
    "children": ("import subprocess\nCHILD = subprocess.Popen(['sleep', '1000'])", "it has started other processes"),
    "children that were": ("os.system('true')", "it has started other processes"),
    "handlers": ("import signal\nsignal.signal(signal.SIGALRM, print)", "signal handlers were changed"),
    "hooks": ("os.register_at_fork(before=list)", "something is to be done at forks"),
    "files": ("with open('made', 'w'): pass", "files were written already"),
    "directories": ("import tempfile\nPLACE = tempfile.TemporaryDirectory()", "files were written already"),
    "databases": ("import sqlite3\nsqlite3.connect('data').close()", "files were written already"),
    "connections": (
        "import socket\nwith socket.socket(socket.AF_UNIX) as sock: sock.connect_ex('nobody')",
        "it has connected to others",
    ),
    "locks": ("import multiprocessing\nLOCK = multiprocessing.Lock()", "it has mapped memory"),
    "memory": ("import mmap\nSHARED = mmap.mmap(-1, 4096)", "it has mapped memory"),
    "chance": ("import random\nrandom.seed(1)", "random numbers were drawn or seeded already"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_where_nobody_may_wait_nobody_does(launch: Start, tmp_path: Path, name: str) -> None:
    what, why = UNFIT[name]
    server = begin(launch, tmp_path, first=what)
    for number in range(1, 30):
        _, imported_by, value, serving = save(server, "leaf.py", f"VALUE = {number}\n")
        assert value == str(number)
        assert imported_by == serving
        if f"(zygote: {why})" in server.said:
            break
        time.sleep(0.1 * number)  # the zygote may need that long
    else:
        pytest.fail("no reason in the log")
    assert "(checkpoint)" not in server.said


REFUSING = """
import sys
def refuse(event, arguments):
    if event == "open" and arguments[0] == "/proc/self/smaps":
        raise RuntimeError("not here")
sys.addaudithook(refuse)
"""


def test_an_application_that_refuses_a_look_at_its_memory(launch: Start, tmp_path: Path) -> None:
    server = begin(launch, tmp_path, first=REFUSING)
    number = await_checkpoint(server)
    save(server, "leaf.py", f"VALUE = {number + 1}\n")
    assert "has died" not in server.said


def test_what_another_process_wrote_since_is_read_again(launch: Start, tmp_path: Path) -> None:
    """No edit, as the application writes it itself; but what a cold start would find."""
    (tmp_path / "data").write_text("0")
    first = "import os\nPROCESS = os.getpid()\nVALUE = open('data').read()\n"
    (tmp_path / "first.py").write_text(first)
    (tmp_path / "app.py").write_text(
        APP.replace(
            "    start_response",
            "    if environ['PATH_INFO'] == '/write': open('data', 'w').write('1')\n    start_response",
        )
    )
    (tmp_path / "leaf.py").write_text("VALUE = 0\n")
    server = launch("dev", "app.py", "--port=0")
    server.await_address()
    server.await_text("loaded in")
    number = await_checkpoint(server)
    server.get("/write")
    assert save(server, "leaf.py", f"VALUE = {number + 1}\n")[0] == "1"
    server.await_text("(zygote: data goes before leaf.py)")


def test_what_came_since_is_found(launch: Start, tmp_path: Path) -> None:
    """Nobody is told who asks whether a file is there."""
    server = begin(launch, tmp_path, first="VALUE = os.path.exists('flag')")
    number = await_checkpoint(server)
    (tmp_path / "flag").touch()
    assert save(server, "leaf.py", f"VALUE = {number + 1}\n")[0] == "True"
    server.await_text("(zygote: files came or went)")


def test_an_env_file_that_came_since_is_found(launch: Start, tmp_path: Path) -> None:
    server = begin(launch, tmp_path, first="VALUE = os.path.exists('.env')")
    await_checkpoint(server)
    assert save(server, ".env", "")[0] == "True"
    server.await_text("(zygote: files came or went)")


def test_a_log_that_was_rotated_is_left_alone(launch: Start, tmp_path: Path) -> None:
    server = begin(launch, tmp_path, "--accesslog=access")
    number = await_checkpoint(server)
    wait_for(lambda: (tmp_path / "access").read_text().count("GET") == number, "the requests before in the old file")
    (tmp_path / "access").rename(tmp_path / "access.1")
    server.send(signal.SIGUSR1)
    for each in range(number + 1, number + 4):
        save(server, "leaf.py", f"VALUE = {each}\n")
    wait_for(lambda: (tmp_path / "access").read_text().count("GET") == 3, "three requests in the new file")


def test_an_import_in_a_request_is_no_place_to_wait(launch: Start, tmp_path: Path) -> None:
    server = begin(launch, tmp_path)
    app = APP.replace("import leaf\n", "").replace("    start_response", "    import leaf\n    start_response")
    save(server, "app.py", app)
    for number in range(1, 12):
        assert save(server, "leaf.py", f"VALUE = {number}\n")[2] == str(number)
        time.sleep(0.05 * number)  # for a zygote
    server.await_text("(zygote)")
    assert "(checkpoint" not in server.said and "already" not in server.said


def test_a_child_of_the_authors_is_nobody_who_waits(launch: Start, tmp_path: Path) -> None:
    child = "if os.fork() == 0:\n    import leaf\n    os._exit(0)\nos.wait()"
    server = begin(launch, tmp_path, first=child)
    for number in range(1, 30):
        assert save(server, "leaf.py", f"VALUE = {number}\n")[2] == str(number)
        if "(zygote: it has started other processes)" in server.said:
            break
        time.sleep(0.05 * number)
    else:
        pytest.fail("no reason in the log")
    assert "(checkpoint)" not in server.said


def test_a_process_that_dies_on_the_way_is_no_answer(launch: Start, tmp_path: Path) -> None:
    """What a process makes of it that has imported everything itself is."""
    server = begin(launch, tmp_path)
    await_checkpoint(server)
    assert (
        save(server, "leaf.py", "import first, os\nVALUE = 'x' if first.PROCESS == os.getpid() else os._exit(9)\n")[2]
        == "x"
    )
    server.await_text("(zygote: a process that went on from a checkpoint has died)")


def test_killed_checkpoints_are_made_anew(launch: Start, tmp_path: Path) -> None:
    server = begin(launch, tmp_path)
    number = await_checkpoint(server)
    for _ in range(5):
        number += 1
        serving = int(save(server, "leaf.py", f"VALUE = {number}\n")[3])
        for pid in server.workers() - {serving}:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
    before = server.said.count("(checkpoint)")
    for _ in range(30):
        number += 1
        assert save(server, "leaf.py", f"VALUE = {number}\n")[2] == str(number)
        if server.said.count("(checkpoint)") > before:
            return
        time.sleep(0.05 * (number % 30))  # for a zygote
    pytest.fail("no checkpoint any more")


def test_few_wait(launch: Start, tmp_path: Path) -> None:
    """Whatever is edited in whatever order, in haste too, and nobody is forgotten as a zombie."""
    names = [f"part{number}" for number in range(8)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("VALUE = 0\n")
    server = begin(launch, tmp_path, first="\n".join(f"import {name}" for name in names))
    await_checkpoint(server)
    for number in range(1, 30):
        name = names[number % 8]
        (tmp_path / f"{name}.py").write_text(f"VALUE = {number}\n")
        if number % 3:
            assert server.get()[0] == 200

    def few() -> bool:
        """The process that serves, the zygote, a fork of one that waits, and two of these."""
        children = psutil.Process(server.process.pid).children()
        return len(children) <= 5 and all(map(lives, children))

    wait_for(few, "at most five")


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_nobody_is_left_behind(launch: Start, tmp_path: Path, is_killed: bool) -> None:
    server = begin(launch, tmp_path)
    await_checkpoint(server)
    wait_for(lambda: len(server.workers()) >= 4, "a server, a zygote, a checkpoint before the leaf, and its fork")
    if is_killed:
        server.send(signal.SIGKILL)
        server.end()
        wait_for(lambda: not server.left(), "nobody")
    else:
        assert server.stop() == 0
        assert not server.left()


def test_a_stop_in_the_middle_of_an_import(launch: Start, tmp_path: Path) -> None:
    """At any moment: who is just being forked then ends too."""
    for moment in range(8):
        server = begin(launch, tmp_path)
        await_checkpoint(server)
        (tmp_path / "first.py").write_text(FIRST.format(moment + 1, ""))
        time.sleep(0.01 + 0.004 * moment)
        server.workers()
        assert server.stop() == 0
        assert not server.left()


# A project at random, against a cold start

DIGEST = """
import sys
def shown(value):
    if isinstance(value, type):
        return value.__module__, value.__qualname__, [shown(each) for each in value.__bases__]
    if callable(value):
        return value.__module__, value.__qualname__
    return value if type(value) in (int, str, list) else None
def content(name):
    return name, sorted((key, shown(value)) for key, value in vars(sys.modules[name]).items()
        if not key.startswith("__") and shown(value) is not None)
def digest():
    parts = [name for name in sys.modules if name.startswith("part")]
    names, others = list(parts), set()  # not those that only an earlier edit has imported
    while names:
        for value in vars(sys.modules[names.pop()]).values():
            name = getattr(value, "__module__", getattr(value, "__name__", ""))
            if name.startswith("lib") and name not in others:
                others.add(name)
                names.append(name)
    return "\\n".join(repr(content(name)) for name in [*parts, *sorted(others)])
def application(environ, start_response):
    start_response("200 OK", [])
    return [digest().encode()]
"""
COLD = "import os, sys; sys.path[0] = os.getcwd(); import app; print(app.digest(), end='')"

OTHERS = 6
LOOKS = [
    "import os\nLEVEL = os.environ.get('LEVEL_{0}', 'none')",
    "import os\nPLACE = os.path.basename(os.getcwd())",
    "from json import dumps\nTEXT = dumps(['{0}'])",
    "from colorsys import rgb_to_hsv as TAKEN\nCOLOUR = str(TAKEN(1, 1, 1))",
    "import json\nTEXT = json.dumps({{1: complex({0})}}, default=str)",
    "import sys\nDEPTH = sys.getrecursionlimit()",
]
MEDDLES = [
    "import os\nos.environ['LEVEL_{0}'] = 'high'",
    "import os\nos.environ['OTHER'] = 'high'",
    "import os\nos.chdir('/usr')",
    "import json\njson.dumps = lambda *_, **__: 'patched'",
    "import json\njson.JSONEncoder.default = lambda *_: 'patched'",
    "import colorsys\ncolorsys.rgb_to_hsv = colorsys.rgb_to_hls",
    "import colorsys\ndef rgb_to_hsv(*_): return 'own'\ncolorsys.rgb_to_hsv = rgb_to_hsv",
    "import sys\nsys.setrecursionlimit(2000 + {0})",
]
"""What the author's code does now and then that others' modules notice, if it is done before they are imported."""


class Project:
    """Modules that import and change each other, and make use of modules that are not the author's."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory, self.random = directory, random.Random(seed)
        self.others = directory / "site-packages"
        self.others.mkdir()
        self.count = 6
        self.meddling: set[int] = set()
        for number in range(OTHERS):
            self.write_other(number)
        for number in range(self.count):
            self.write(number)
        self.write_app()

    def environ(self) -> dict[str, str]:
        return {"PYTHONPATH": os.pathsep.join([str(self.others), str(Path(__file__).parents[2])])}

    def write_other(self, number: int) -> None:
        """One that is installed; what it is made of depends on others at the time of its import."""
        lines = [
            LOOKS[number % len(LOOKS)].format(number),
            self.random.choice(LOOKS).format(number),
            "NOTED = []\nCOUNT = 0\nclass Base:\n    pass",
        ]
        if number:
            other = self.random.randrange(number)
            lines.append(f"import lib{other}\nclass Own(lib{other}.Base):\n    LEVEL = lib{other}.__name__")
        if number == OTHERS - 1:
            lines.append("import os\nCOPY = dict(os.environ).get('OTHER', 'none')")
        (self.others / f"lib{number}.py").write_text("\n".join(lines) + "\n")

    def write_app(self) -> None:
        order = self.random.sample(range(self.count), self.random.randint(2, self.count))
        imports = "".join(f"import part{number}\n" for number in order)
        (self.directory / "app.py").write_text(imports + DIGEST)

    def write(self, number: int) -> None:
        lines = [f"VALUE = {self.random.randrange(1000)}", "COUNT = 0"]
        for other in range(number + 1, self.count):
            lines.append(
                self.random.choice(
                    [
                        "",
                        "",
                        f"import part{other}",
                        f"from part{other} import VALUE as OF_{other}",
                        f"import part{other}\npart{other}.COUNT += 1\nSEEN_{other} = part{other}.COUNT",
                        f"try:\n    import part{other}\nexcept Exception:\n    FAILED_{other} = 1",
                    ]
                )
            )
        other = self.random.randrange(OTHERS)
        lines.append(
            self.random.choice(
                [
                    "",
                    f"from lib{other} import Base\nclass Own(Base):\n    pass",
                    f"import lib{other}\nlib{other}.NOTED.append(__name__)\nlib{other}.COUNT += 1",
                    f"import lib{other}\nNOTED = list(lib{other}.NOTED)",
                ]
            )
        )
        self.meddling.discard(number)
        if self.random.random() < 0.05:
            self.meddling.add(number)
            what = self.random.choice(MEDDLES).format(self.random.randrange(OTHERS))
            lines.insert(self.random.randrange(len(lines)), what)
        if self.random.random() < 0.03:
            lines.insert(self.random.randrange(len(lines)), self.random.choice(["1 / 0", "import part99", "VALUE = ("]))
        (self.directory / f"part{number}.py").write_text("\n".join(lines) + "\n")

    def edit(self) -> None:
        chance = self.random.random()
        favourite = self.random.choice([self.count - 1, self.random.randrange(self.count), *self.meddling])
        if chance < 0.05:
            self.write_app()
        elif chance < 0.10:
            self.write(self.random.randrange(self.count))
            self.write(favourite)
        elif chance < 0.15:
            (self.directory / f"part{favourite}.py").unlink(missing_ok=True)
            self.meddling.discard(favourite)
        elif chance < 0.20:
            os.utime(self.directory / "app.py")
            self.write(favourite)
        else:
            self.write(favourite)

    def cold(self) -> str:
        """What a cold start makes of it; "" where it fails."""
        done = subprocess.run(
            [sys.executable, "-B", "-c", COLD],
            cwd=self.directory,
            env=os.environ | self.environ(),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return done.stdout if done.returncode == 0 else ""


def await_zygote(server: Server, most: float) -> None:
    """Unless none is to be expected, at most so many seconds."""
    end = time.monotonic() + most
    while time.monotonic() < end and len(server.workers()) < 3 and " (cold: the app" not in server.said[-300:]:
        time.sleep(0.02)


@pytest.mark.timeout(60 + EDITS)
def test_a_checkpoint_is_as_good_as_a_cold_start(launch: Start, tmp_path: Path) -> None:
    """EDITS=1000 in the environment makes so many edits."""
    project = Project(tmp_path, EDITS)
    server = launch("dev", "app.py", "--port=0", **project.environ())
    server.await_address()
    server.await_text("a page shows it" if not project.cold() else "loaded in")
    for number in range(EDITS + 30):
        if number >= EDITS and "(checkpoint)" in server.said:
            break
        project.edit()
        status, body = server.get()
        expected = project.cold()
        if number % 4:  # now and then there is no zygote
            time.sleep(0.05)
            await_zygote(server, 0.3 if number < EDITS else 0.05 * (number - EDITS))
        assert status == (200 if expected else 500), f"edit {number}"
        assert (body if status == 200 else "") == expected, f"edit {number}"
    server.await_text("(checkpoint)")
    ways = [f"{server.said.count(f'({way}')} {way}" for way in ("checkpoint", "zygote", "cold")]
    print(f"{EDITS} edits: {', '.join(ways)}, {server.said.count('a page shows it')} failed")
    assert server.said.count("(checkpoint") + server.said.count("(zygote") >= EDITS / 3
