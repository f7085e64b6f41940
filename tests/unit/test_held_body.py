"""The body that a handler has written so far: that of the engine and the one in Python, which takes its place."""

import gc
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
    """A body with a limit, which keeps what is flushed."""

    class Body(base):
        def __init__(self, limit, *, flushed=None):
            self._limit = limit
            self.sent = []
            self.flushed = flushed

        def flush(self):
            taken = self._take()
            self.sent.append(taken)
            if self.flushed:
                self.flushed(self)

    return Body


@pytest.fixture(params=[_engine.HeldBody, held_body.HeldBody], ids=["engine", "python"])
def made(request):
    return subclass(request.param)


class Text(str):
    """What is encoded are its characters."""

    def encode(self, *args):
        return b"other"

    def __len__(self):
        return 0


class Blob(bytes):
    def __len__(self):
        return 0


def test_text_is_utf8_and_bytes_stay(made):
    body = made(100)
    for data in ("a\u017e\U0001f600", b"\xff\x00", Text("\u017e"), Blob(b"z"), "", b""):
        body.write(data)
    assert body._take() == "a\u017e\U0001f600".encode() + b"\xff\x00" + "\u017e".encode() + b"z"
    assert (body._take(), body.sent) == (b"", [])


@pytest.mark.parametrize(
    ("data", "raw"), [("", False), ("\u017e", False), (Text("x"), False), (b"", True), (Blob(b"x"), True)]
)
def test_whether_something_was_given_as_bytes(made, data, raw):
    body = made(100)
    body.write(data)
    body.write("text")
    assert body._holds
    body._take()
    assert (body._raw, body._holds) == (raw, False)
    body._drop()
    assert not body._raw


@pytest.mark.parametrize("data", [None, 5, ["a"], bytearray(b"a"), memoryview(b"a"), object])
def test_other_types_are_refused_and_leave_the_body_as_it_was(made, data):
    body = made(100)
    body.write("before")
    with pytest.raises(TypeError) as refused:
        body.write(data)
    assert str(refused.value) == f"req.write() takes str or bytes, not {type(data).__name__}: {data!r}"
    assert (body._take(), body._raw) == (b"before", False)


def test_what_cannot_tell_of_itself_raises_what_it_raises(made):
    class Loud:
        def __repr__(self):
            raise KeyError("loud")

    with pytest.raises(KeyError, match="loud"):
        made(100).write(Loud())


@pytest.mark.parametrize("text", ["\ud800", "a\udcff", Text("\ud800")])
def test_a_lone_surrogate_is_refused_where_it_is_written(text):
    body = subclass(_engine.HeldBody)(100)
    body.write("before")
    with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
        body.write(text)
    assert body._take() == b"before"


def test_the_engine_counts_bytes():
    body = subclass(_engine.HeldBody)(4)
    body.write("\u017e\u017e")
    assert not body.sent
    body.write("a")
    assert body.sent == [b"\xc5\xbe\xc5\xbea"]


@pytest.mark.parametrize("limit", [4, 0, -1])
def test_what_is_more_than_the_limit_is_flushed(made, limit):
    body = made(limit)
    body.write("abc" if limit > 0 else "")
    assert body._holds is (limit > 0)
    assert b"".join(body.sent) == b""
    body.write("\u017e\u017e")
    assert b"".join(body.sent) == (b"abc" if limit > 0 else b"") + b"\xc5\xbe" * 2
    assert not body._holds


def test_a_body_of_megabytes_keeps_nothing(made):
    body = made(1 << 24)
    for _ in range(16):
        body.write("x" * (1 << 20))
    assert not body.sent
    body.write("y")
    assert [len(each) for each in body.sent] == [(1 << 24) + 1]
    assert body._take() == b""


def test_what_is_sealed_is_flushed_before_the_next_write(made):
    body = made(100)
    body.write("before")
    body._seal()
    assert (body._raw, body.sent) == (True, [])
    body.write("behind")
    body.write(" it")
    assert (body.sent, body._take()) == ([b"before"], b"behind it")
    body._seal()
    body._drop()
    body.write("new")
    assert (body.sent, body._take()) == ([b"before"], b"new")


def test_who_sends_may_write(made):
    """A server's write() that runs Python, which comes back to the body."""

    def flushed(body):
        if len(body.sent) < 50:
            body.write(f"{len(body.sent)}, " * 2)

    body = made(4, flushed=flushed)
    body._seal()
    body.write("first")
    assert b"".join(body.sent) + body._take() == b"".join(b"%d, " % number * 2 for number in range(1, 50)) + b"first"


def test_what_flush_raises_comes_out_of_write(made):
    def flushed(body):
        raise ValueError("sent too much")

    body = made(0, flushed=flushed)
    with pytest.raises(ValueError, match="sent too much"):
        body.write("x")
    assert body.sent == [b"x"]


def test_write_may_be_replaced(made):
    class Shouting(made):
        def write(self, data):
            super().write(data.upper())

    body = Shouting(100)
    body.write("loud")
    body.note = "any attribute"
    body.write = lambda data: None
    body.write("silent")
    assert (body._take(), vars(body)["note"]) == (b"LOUD", "any attribute")


def test_a_body_that_refers_to_itself_is_collected(made):
    body = made(100)
    body.write("x")
    body.itself = body
    seen = weakref.ref(body)
    del body
    gc.collect()
    assert seen() is None


def test_memory_that_there_is_not_is_an_error():
    """And not the end of the process."""
    code = (
        "import resource; from poorhttp._engine import HeldBody; body = HeldBody(); body._limit = 1 << 40\n"
        "text = 'x' * (1 << 26); resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "try:\n    while True: body.write(text)\n"
        "except MemoryError: print('refused')"
    )
    done = run("-c", code)
    assert (done.stdout, done.stderr) == ("refused\n", "")


def test_write_takes_its_argument_by_name_too(made):
    body = made(100)
    body.write(data="named")
    with pytest.raises(TypeError):
        body.write()
    assert body._take() == b"named"


def test_threads_that_share_a_body_lose_nothing():
    body = subclass(_engine.HeldBody)(1000)
    threads = [threading.Thread(target=lambda: [body.write("0123456789") for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(map(len, body.sent)) + len(body._take()) == 4 * 2000 * 10


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
