"""What a handler has written so far: the class of the engine and the one in Python, which takes its place."""

import gc
import re
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from poorhttp import _engine
from poorhttp.dispatch import held_body

ROOT = Path(__file__).resolve().parents[2]


def subclass(base):
    """A body with room, which keeps what is sent."""

    class Body(base):
        def __init__(self, room, *, sending=None):
            self._parts = []
            self._room = self.room = room
            self.sent = []
            self.sending = sending

        def _make_room(self):
            self.sent.append(self._parts[:])
            self._parts.clear()
            self._room = self.room
            if self.sending:
                self.sending(self)

        def _refuse(self, data):
            raise TypeError(f"not {data!r}")

    return Body


@pytest.fixture(params=[_engine.HeldBody, held_body.HeldBody], ids=["engine", "python"])
def made(request):
    return subclass(request.param)


class Text(str):
    pass


class Blob(bytes):
    pass


def test_parts_are_kept_as_they_were_written(made):
    body = made(100)
    parts = ["a\u017e", b"\xff\x00", Text("\u017e"), Blob(b"z"), "", b"", "\ud800"]
    for data in parts:
        assert body.write(data) is None
    assert all(kept is data for kept, data in zip(body._parts, parts, strict=True))
    assert (body._room, body.sent) == (100 - 7, [])


@pytest.mark.parametrize("data", [None, 5, ["a"], bytearray(b"a"), memoryview(b"a"), object])
def test_other_types_are_refused_and_leave_the_body_as_it_was(made, data):
    body = made(100)
    body.write("before")
    with pytest.raises(TypeError, match=f"not {re.escape(repr(data))}"):
        body.write(data)
    assert (body._parts, body._room) == (["before"], 94)


def test_what_cannot_tell_of_itself_raises_what_it_raises(made):
    class Loud:
        def __repr__(self):
            raise KeyError("loud")

    with pytest.raises(KeyError, match="loud"):
        made(100).write(Loud())


@pytest.mark.parametrize("room", [4, 0, -1])
def test_what_is_more_than_there_is_room_for_is_sent(made, room):
    body = made(room)
    if room > 0:
        body.write("abc")
        body.write("\u017e")
        assert (body._room, body.sent) == (0, [])
    body.write("\u017e")
    assert body.sent == [["abc", "\u017e", "\u017e"] if room > 0 else ["\u017e"]]
    assert (body._parts, body._room) == ([], room)


def test_who_sends_may_write(made):
    """A server's write() that runs Python, which comes back to the body."""

    def sending(body):
        if len(body.sent) < 50:
            body.write(f"{len(body.sent)}, " * 2)

    body = made(4, sending=sending)
    body.write("first")
    assert body.sent == [["first"]] + [[f"{number}, " * 2] for number in range(1, 50)]


def test_what_sending_raises_comes_out_of_write(made):
    def sending(body):
        raise ValueError("sent too much")

    body = made(0, sending=sending)
    with pytest.raises(ValueError, match="sent too much"):
        body.write("x")
    assert body.sent == [["x"]]


def test_write_may_be_replaced(made):
    class Shouting(made):
        def write(self, data):
            super().write(data.upper())

    body = Shouting(100)
    body.write("loud")
    body.write = lambda data: None
    body.write("silent")
    assert body._parts == ["LOUD"]


@pytest.mark.parametrize("base", [_engine.HeldBody, held_body.HeldBody])
def test_without_parts_nothing_is_written(base):
    with pytest.raises(AttributeError, match="_parts"):
        base().write("x")


def test_write_takes_its_argument_by_name_too(made):
    body = made(100)
    body.write(data="named")
    with pytest.raises(TypeError):
        body.write()
    assert body._parts == ["named"]


def test_threads_that_share_a_body_lose_nothing():
    body = subclass(_engine.HeldBody)(1 << 20)
    threads = [threading.Thread(target=lambda: [body.write("0123456789") for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(body._parts), body._room) == (8000, (1 << 20) - 80_000)


def test_a_body_is_freed_with_its_parts(made):
    body = made(100)
    text = "".join(["a part ", "of its own"])
    before = sys.getrefcount(text)
    body.write(text)
    assert sys.getrefcount(text) == before + 1
    seen = weakref.ref(body)
    body.itself = body
    del body
    gc.collect()
    assert (seen(), sys.getrefcount(text)) == (None, before)


def test_what_is_held_may_know_who_holds_it(made):
    body = made(100)
    text = Text("a part")
    text.holder = body
    body.write(text)
    seen = weakref.ref(body)
    del body, text
    gc.collect()
    assert seen() is None


def run(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("first", "module"),
    [("pass", "poorhttp.dispatch.held_body"), ("import poorhttp._engine", "poorhttp._engine")],
    ids=["another server", "poorhttp"],
)
def test_only_a_process_that_has_the_engine_uses_it(first, module):
    done = run("-c", f"{first}; from poorhttp.dispatch.answer import Answer; print(Answer.__base__.__module__)")
    assert (done.stdout, done.stderr) == (f"{module}\n", "")


@pytest.mark.parametrize("plugins", [[], ["-p", "poorhttp._engine"]], ids=["another server", "poorhttp"])
def test_dispatch_is_the_same_under_both(tmp_path, plugins):
    # A directory of its own: pytest removes old ones, and would meet those of the processes beside it at that.
    tests = ["tests/unit/test_dispatch.py", "-q", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/inner"]
    done = run("-m", "pytest", *plugins, *tests)
    assert done.returncode == 0, done.stdout
