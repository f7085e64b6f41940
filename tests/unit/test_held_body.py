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

WRITING = ("environ", "errors", "examples", "files", "headers", "output", "pages", "returns", "table")
"""Subjects of the table: each kind of body must pass all of their tests."""


def subclass(base):
    """A body with room, which keeps what is sent."""

    class Body(base):
        _raw = False

        def __init__(self, room, *, sending=None):
            self._hold(room)
            self.sent = []
            self.sending = sending

        def flush(self):
            self.sent.append(self._take())
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


def test_what_was_written_is_taken_as_bytes_in_order(made):
    body = made(100)
    for data in ["a\u017e", Text("\u017e"), "", "b"]:
        assert body.write(data) is None
    assert (body._take(), body._raw, body._room, body._holds()) == ("a\u017e\u017eb".encode(), False, 100, False)
    for data in ["a\u017e", b"\xff\x00", Text("\u017e"), Blob(b"z"), "", b""]:
        assert body.write(data) is None
    assert (body._take(), body._raw, body.sent) == (b"a\xc5\xbe\xff\x00\xc5\xbez", True, [])
    assert (body._take(), body._room) == (b"", 100)


def test_what_is_no_text_is_told_and_nothing_of_it_sent(made):
    body = made(100)
    body.write("before")

    def write_and_take():
        body.write("\ud800")
        body._take()

    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        write_and_take()
    assert body._holds()
    body._hold(50)
    assert (body._holds(), body._take(), body._room) == (False, b"", 50)


@pytest.mark.parametrize("data", ["", b""])
def test_what_is_empty_was_written_too(made, data):
    body = made(100)
    assert not body._holds()
    body.write(data)
    assert body._holds()


@pytest.mark.parametrize("data", [None, 5, ["a"], bytearray(b"a"), memoryview(b"a"), object])
def test_other_types_are_refused_and_leave_the_body_as_it_was(made, data):
    body = made(100)
    body.write("before")
    with pytest.raises(TypeError, match=f"not {re.escape(repr(data))}"):
        body.write(data)
    assert (body._room, body._take()) == (94, b"before")


def test_what_cannot_tell_of_itself_raises_what_it_raises(made):
    class Loud:
        def __repr__(self):
            raise KeyError("loud")

    with pytest.raises(KeyError, match="loud"):
        made(100).write(Loud())


@pytest.mark.parametrize("room", [4, 0])
def test_what_is_more_than_there_is_room_for_is_sent(made, room):
    body = made(room)
    if room > 0:
        body.write("abc")
        body.write("d")
        assert (body._room, body.sent) == (0, [])
    body.write("e")
    assert body.sent == [b"abcde" if room > 0 else b"e"]
    assert (body._holds(), body._room) == (False, room)


def test_without_room_what_is_held_is_sent_before_more_is(made):
    body = made(100)
    body.write("before")
    body._room = -1
    body.write("behind")
    assert (body.sent, body._room, body._take()) == ([b"before"], 94, b"behind")


def test_a_handler_that_sends_may_write(made):
    """A server's write() that runs Python, which comes back to the body."""

    def sending(body):
        if len(body.sent) < 50:
            body.write(f"{len(body.sent)}, " * 2)

    body = made(4, sending=sending)
    body.write("first")
    assert body.sent == [b"first"] + [f"{number}, ".encode() * 2 for number in range(1, 50)]


def test_what_sending_raises_comes_out_of_write(made):
    def sending(body):
        raise ValueError("sent too much")

    body = made(0, sending=sending)
    with pytest.raises(ValueError, match="sent too much"):
        body.write("x")
    assert body.sent == [b"x"]


def test_write_may_be_replaced(made):
    class Shouting(made):
        def write(self, data):
            super().write(data.upper())

    body = Shouting(100)
    body.write("loud")
    body.write = lambda data: None
    body.write("silent")
    assert body._take() == b"LOUD"


def test_write_takes_its_argument_by_name_too(made):
    body = made(100)
    body.write(data="named")
    with pytest.raises(TypeError):
        body.write()
    assert body._take() == b"named"


def test_threads_that_share_a_body_lose_nothing():
    body = subclass(_engine.HeldBody)(1 << 20)
    threads = [threading.Thread(target=lambda: [body.write("0123456789") for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (body._room, body._take()) == ((1 << 20) - 80_000, b"0123456789" * 8000)


def test_a_body_is_freed_with_its_parts(made):
    body = made(100)
    text = "".join(["a part ", "of its own"])
    before = sys.getrefcount(text)
    body.write(text)
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
    modules = [str(Path(__file__).with_name(f"test_dispatch_{name}.py")) for name in WRITING]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/inner"]
    done = run("-m", "pytest", *plugins, *modules, *options)
    assert done.returncode == 0, done.stdout
