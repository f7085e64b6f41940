"""Applications that do everything wrong: every character in every place of a head, every type, every moment.

Knows PEP 3333 and what it leaves to the application; holds that whatever an application does costs its own request and
nothing else: a 500 that tells nothing, or an answer that is seen to be incomplete, a line in the error log, and the same
process serves on. What is served is compared to the byte, so nothing is injected.
"""

from __future__ import annotations

import contextlib
import string
from typing import Any

import pytest

TOKEN = set("!#$%&'*+-.^_`|~" + string.ascii_letters + string.digits)  # RFC 9110 5.6.2
VALUE = {"\t", *map(chr, range(0x20, 0x7F)), *map(chr, range(0x80, 0x100))}  # RFC 9110 5.5
DIGITS = set(string.digits)
# Beyond latin-1: what narrows to CR, LF, NUL, a digit, or a letter; digits, spaces and ends of line of Unicode;
# surrogates, alone and as surrogateescape makes them of bytes; the last of all.
BEYOND = [0x100, 0x10A, 0x10D, 0x120, 0x130, 0x132, 0x13A, 0x17F, 0x660, 0x661, 0x20AC, 0x2003, 0x2028, 0x2029, 0x212A,
          0xD800, 0xDC0A, 0xDC0D, 0xDC80, 0xDCFF, 0xDFFF, 0xFEFF, 0xFF10, 0xFF1A, 0x1D7D8, 0x1F600, 0x10FFFF]  # fmt: skip
CHARACTERS = [chr(number) for number in [*range(256), *BEYOND]]

CHARACTERS_APP = """
PLACES = {
    "status-first": ("{}11 OK", "X-A", "b"),
    "status-second": ("2{}1 OK", "X-A", "b"),
    "status-third": ("21{} OK", "X-A", "b"),
    "status-space": ("200{}OK", "X-A", "b"),
    "status-alone": ("200{}", "X-A", "b"),
    "reason-first": ("200 {}K", "X-A", "b"),
    "reason-middle": ("200 O{}K", "X-A", "b"),
    "reason-last": ("200 O{}", "X-A", "b"),
    "name-alone": ("200 OK", "{}", "b"),
    "name-first": ("200 OK", "{}-A", "b"),
    "name-middle": ("200 OK", "X{}A", "b"),
    "name-last": ("200 OK", "X-{}", "b"),
    "value-alone": ("200 OK", "X-A", "{}"),
    "value-first": ("200 OK", "X-A", "{}b"),
    "value-middle": ("200 OK", "X-A", "a{}b"),
    "value-last": ("200 OK", "X-A", "a{}"),
    "length-alone": ("200 OK", "Content-Length", "{}"),
    "length-first": ("200 OK", "Content-Length", "{}1"),
    "length-last": ("200 OK", "content-length", "1{}"),
    "second-value": ("200 OK", "X-A", "b", "X-B", "c{}"),
}

def application(environ, start_response):
    place, number = environ["PATH_INFO"].strip("/").split("/")
    status, *fields = [text.replace("{}", chr(int(number))) for text in PLACES[place]]
    length = int(fields[1]) if place.startswith("length") and fields[1].isascii() and fields[1].isdigit() else 2
    start_response(status, list(zip(fields[::2], fields[1::2])))
    return [b"x" * length]
"""
SPACE: dict[str, Any] = {}
exec(CHARACTERS_APP, SPACE)
PLACES: dict[str, tuple[str, ...]] = SPACE["PLACES"]
RIGHT = {
    "status-first": set("2345"),
    "status-second": DIGITS,
    "status-third": DIGITS,
    "status-space": {" "},
    "status-alone": {" "},
    "reason": VALUE,
    "name": TOKEN,
    "value": VALUE,
    "second": VALUE,
    "length": DIGITS,
}


class Stream:
    """Answers as they come, read without any repair."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.file = client.sock.makefile("rb")

    def answer(self) -> tuple[bytes, list[bytes], bytes]:
        """Status line, field lines without Date and Server, which must be there once, and the body."""
        status, lines = self.line(), []
        while line := self.line():
            lines.append(line)
        own = [line for line in lines if line.startswith((b"Date: ", b"Server: "))]
        assert len(own) == 2, lines
        rest = [line for line in lines if line not in own]
        length = [int(line.partition(b": ")[2]) for line in rest if line.startswith(b"Content-Length: ")]
        body = b"".join(self.chunks()) if b"Transfer-Encoding: chunked" in rest else self.file.read(length[0])
        assert not length or len(body) == length[0], "the body is whole"
        return status, rest, body

    def chunks(self) -> Any:
        while size := int(self.line(), 16):
            yield self.file.read(size)
            assert self.line() == b""
        assert self.line() == b""

    def line(self) -> bytes:
        line = self.file.readline()
        assert line.endswith(b"\r\n"), line
        return bytes(line[:-2])

    def close(self) -> None:
        self.file.close()
        self.client.close()


def is_500(status: bytes, lines: list[bytes], body: bytes) -> bool:
    names = sorted(line.partition(b":")[0] for line in lines)
    is_plain = status == b"HTTP/1.1 500 Internal Server Error" and names == [b"Content-Length", b"Content-Type"]
    return is_plain and b"failed" in body and b"Traceback" not in body


@pytest.mark.parametrize("place", PLACES)
def test_every_character_in_every_place_of_a_head(serve: Any, until: Any, place: str) -> None:
    """What is right is sent as it is, one byte a character; all else is a 500, and a line in the log."""
    server = serve(CHARACTERS_APP, errors=["app.py"])
    right = RIGHT.get(place) or RIGHT[place.partition("-")[0]]
    before, pids = server.errors().count("Traceback"), server.pids()
    status, *fields = PLACES[place]
    with contextlib.closing(Stream(server.connect())) as stream:
        for character in CHARACTERS:
            stream.client.send(b"GET /%s/%d HTTP/1.1\r\nHost: a\r\n\r\n" % (place.encode(), ord(character)))
            answer = stream.answer()
            if character not in right:
                assert is_500(*answer), (character, answer)
                continue
            told = [text.replace("{}", character).encode("latin-1") for text in (status, *fields)]
            assert answer[0] == b"HTTP/1.1 " + told[0] + (b" " if len(told[0]) == 3 else b""), (character, answer)
            if place.startswith("length"):
                assert answer[1] == [b"Content-Length: %d" % int(told[2])], (character, answer)
            else:
                lines = [b"%s: %s" % pair for pair in zip(told[1::2], told[2::2], strict=True)]
                assert answer[1] == [*lines, b"Content-Length: 2"], (character, answer)
    wrong = sum(1 for character in CHARACTERS if character not in right)
    until(lambda: server.errors().count("Traceback") >= before + wrong, "a traceback for each")
    assert server.errors().count("Traceback") == before + wrong
    assert server.pids() == pids


# ------------------------------------------------------------------------------------------- types, bodies, moments

TYPES_APP = '''
import collections, io, sys, types, threading
from gate import note

SERVED = b"served"
OK = [("X-A", "b")]
CASES = {}

def case(expected, *tables):
    """Register under a name: what must come is `expected`."""
    def register(function):
        CASES[function.__name__] = (expected, function)
        return function
    return register

def each(prefix, expected, table, function):
    for name, value in table.items():
        CASES[prefix + "-" + name] = (expected, lambda start_response, value=value: function(start_response, value))

class LyingStr(str):
    """Says one thing, holds another."""
    def __str__(self): return "500 Evil\\r\\nInjected: yes"
    __repr__ = __str__
    def __format__(self, spec): return str(self)
    def __len__(self): return 1 << 60
    def __getitem__(self, index): return "\\n"
    def __iter__(self): return iter("\\r\\n")
    def __eq__(self, other): raise RuntimeError("compared")
    def __hash__(self): return 0
    def __contains__(self, other): return True
    def __bool__(self): return False
    def encode(self, *_): return b"\\r\\n"
    def startswith(self, *_): return True
    def split(self, *_): return []

class LyingList(list):
    def __iter__(self): return iter([("Injected", "yes")])
    def __len__(self): return 1 << 60
    def __getitem__(self, index): return ("Injected", "yes")
    def __bool__(self): return False
    def copy(self): return [("Injected", "yes")]

class LyingTuple(tuple):
    def __iter__(self): return iter(("Injected", "yes"))
    def __len__(self): return 7
    def __getitem__(self, index): return "Injected"

class LyingBytes(bytes):
    def __len__(self): return 1 << 60
    def __iter__(self): return iter(b"injected")
    def __getitem__(self, index): return b"injected"
    def __bytes__(self): return b"injected"
    def __bool__(self): return False
    def __str__(self): return "injected"
    __repr__ = __str__

def pretending(what):
    class Pretending:
        __class__ = property(lambda self: what)
        def __len__(self): return 2
        def __getitem__(self, index): return "200 OK"[index]
    return Pretending()

class BadRepr:
    def __repr__(self): raise RuntimeError("repr")
    __str__ = __repr__

class BaseRepr:
    def __repr__(self): raise SystemExit("repr")

class DeepRepr:
    def __repr__(self): return repr(self)

class OddRepr:
    def __repr__(self): return "\\udc80\\x1b[31m\\r\\n2026-01-01 00:00:00: [-] [C] forged" * 100

class NotStrRepr:
    def __repr__(self): return 5

class Meta(type):
    @property
    def __name__(cls): raise RuntimeError("name")
    def __repr__(cls): raise RuntimeError("repr of the type")
    def __instancecheck__(cls, other): raise RuntimeError("instancecheck")

class Faceless(metaclass=Meta):
    pass

class FacelessError(Exception, metaclass=Meta):
    pass

self_list = []
self_list.append(self_list)
OBJECTS = {
    "none": None, "true": True, "int": 200, "float": 200.0, "complex": 2j, "bytes": b"200 OK",
    "bytearray": bytearray(b"200 OK"), "memoryview": memoryview(b"200 OK"), "object": object(), "type": str,
    "ellipsis": ..., "not-implemented": NotImplemented, "error": ValueError("200 OK"), "lambda": lambda: "200 OK",
    "module": types, "user-string": collections.UserString("200 OK"), "pretending": pretending(str),
    "bad-repr": BadRepr(), "base-repr": BaseRepr(), "deep-repr": DeepRepr(), "odd-repr": OddRepr(),
    "not-str-repr": NotStrRepr(), "faceless": Faceless(), "faceless-type": Faceless,
}

def body_after(start_response, status, headers):
    start_response(status, headers)
    return [SERVED]

# -------------------------------------------------------------------------------------------------------- status

each("status", "500", OBJECTS | {"list": ["200 OK"], "tuple": ("200 OK",), "dict": {"200 OK": 1}, "self": self_list,
     "empty": "", "huge": "2" * 5_000_000, "huge-bad": "200 " + "x" * 5_000_000 + "\\n", "600": "600 X", "999": "999 X",
     "100": "100 Continue", "101": "101 Switching Protocols", "103": "103 Early Hints", "199": "199 X", "000": "000 X"},
     lambda start_response, value: body_after(start_response, value, OK))
each("status", "served", {"lying": LyingStr("200 OK"), "bare": "200", "space": "200 ", "reason-huge": "200 " + "x" * 3_000_000},
     lambda start_response, value: body_after(start_response, value, OK))

# -------------------------------------------------------------------------------------------------------- headers

each("headers", "500", OBJECTS | {
     "tuple": tuple(OK), "dict": dict(OK), "items": dict(OK).items(), "set": set(OK), "frozenset": frozenset(OK),
     "map": map(tuple, OK), "deque": collections.deque(OK), "user-list": collections.UserList(OK), "str": "X-A: b",
     "pretending-list": pretending(list), "self": self_list, "lists": [["X-A", "b"]], "sets": [{"X-A", "b"}],
     "two-characters": ["ab"], "two-bytes": [b"ab"], "strings": ["X-A: b"], "nested": [OK], "nested-tuple": [(OK[0],)],
     "dicts": [{"X-A": "b"}], "short": [("X-A",)], "long": [("X-A", "b", "c")], "empty-tuple": [()],
     "names-list": [(["X-A"], "b")], "values-list": [("X-A", ["b"])], "last-bad": [*OK] * 1000 + [("X-A", "\\n")]},
     lambda start_response, value: body_after(start_response, "200 OK", value))
each("header", "500", {name: value for name, value in OBJECTS.items()},
     lambda start_response, value: body_after(start_response, "200 OK", [value]))
each("name", "500", OBJECTS | {"huge": "X" * 3_000_000 + " "},
     lambda start_response, value: body_after(start_response, "200 OK", [(value, "b")]))
each("value", "500", OBJECTS | {"huge": "b" * 3_000_000 + "\\n"},
     lambda start_response, value: body_after(start_response, "200 OK", [("X-A", value)]))
each("headers", "served", {
     "lying": LyingList(OK), "lying-tuple": [LyingTuple(OK[0])], "lying-strings": [(LyingStr("X-A"), LyingStr("b"))],
     "named-tuple": [collections.namedtuple("Header", "name value")("X-A", "b")], "many": OK * 20_000,
     "huge-name": [("X" * 1_000_000, "b")], "huge-value": [("X-A", "b" * 3_000_000)], "empty": []},
     lambda start_response, value: body_after(start_response, "200 OK", value))

# -------------------------------------------------------------------------------------------------------- bodies

def returned(start_response, value):
    start_response("200 OK", OK)
    return value

each("body", "500", OBJECTS | {"text": "text", "list-of-int": [5], "list-of-none": [None], "list-of-lists": [[b"x"]],
     "list-of-bytearray": [bytearray(b"x")], "list-of-memoryview": [memoryview(b"x")], "range": range(3),
     "self": self_list, "bad-block": [BadRepr()], "base-block": [BaseRepr()], "deep-block": [DeepRepr()],
     "odd-block": [OddRepr()], "faceless-block": [Faceless()], "pretending-block": [pretending(bytes)],
     "empty-then-text": [b"", "text"]}, returned)
each("body", "served", {"tuple": (SERVED,), "set": {SERVED}, "frozenset": frozenset([SERVED]), "dict": {SERVED: 1},
     "deque": collections.deque([SERVED]), "lying-bytes": [LyingBytes(SERVED)], "lying-two": [LyingBytes(b"ser"), b"ved"],
     "chain": collections.ChainMap({SERVED: 1}), "user-list": collections.UserList([b"ser", b"ved"])}, returned)
each("body", "cut", {"then-text": [SERVED, "text"], "then-none": [SERVED, None], "then-faceless": [SERVED, Faceless()],
     "then-base": [SERVED, BaseRepr()]}, returned)

@case("served")
def body_file(start_response):
    return returned(start_response, io.BytesIO(SERVED))

@case("500")
def body_async(start_response):
    async def produce():
        yield SERVED
    return returned(start_response, produce())

@case("500")
def body_coroutine(start_response):
    async def produce():
        return SERVED
    coroutine = produce()
    coroutine.close()
    return returned(start_response, coroutine)

@case("500")
def iter_of_nothing(start_response):
    class Bad:
        def __iter__(self): return 5
    return returned(start_response, Bad())

@case("500")
def iter_is_none(start_response):
    class Bad:
        __iter__ = None
    return returned(start_response, Bad())

@case("500")
def next_is_missing(start_response):
    class Bad:
        def __iter__(self): return object()
    return returned(start_response, Bad())

def lying_length(length):
    class Lying(list):
        def __len__(self):
            return length() if callable(length) else length
        def __iter__(self):
            return iter([b"ser", b"ved"])
        def __length_hint__(self):
            return self.__len__()
    return Lying([b"x"])

def raising(error):
    def function(*_):
        raise error
    return function

each("len", "served", {"one": lying_length(1), "zero": lying_length(0), "huge": lying_length(1 << 62),
     "beyond": lying_length(1 << 70), "negative": lying_length(-5), "text": lying_length("one"), "none": lying_length(None),
     "raises": lying_length(raising(ZeroDivisionError("len"))), "exits": lying_length(raising(SystemExit(3)))}, returned)

# ---------------------------------------------------------------------------------------------------- exceptions

class EvilStr(Exception):
    def __str__(self): raise RuntimeError("str")
    __repr__ = __str__

class BaseStr(Exception):
    def __str__(self): raise SystemExit("str")
    __repr__ = __str__

class NotStr(Exception):
    def __str__(self): return 5

class OddStr(Exception):
    def __str__(self): return "\\udc80 \\x1b[31m\\r\\n2026-01-01 00:00:00: [-] [C] forged"

class Pretender(Exception):
    __class__ = property(lambda self: KeyboardInterrupt)

class NoTrace(Exception):
    __traceback__ = property(lambda self: raising(RuntimeError("traceback"))())

class Noted(Exception):
    __notes__ = 5

class NewIsNone(Exception):
    def __new__(cls, *_): return None

class NeedsMore(Exception):
    def __init__(self, one, two, three): pass

class Stop2(StopIteration):
    pass

circle = ValueError("circle")
circle.__cause__ = KeyError("half")
circle.__cause__.__cause__ = circle
deep = ValueError("the deepest")
for _ in range(3000):
    outer = ValueError("deep")
    outer.__context__ = deep
    deep = outer
ERRORS = {
    "exception": Exception("x"), "base": BaseException("x"), "keyboard": KeyboardInterrupt(), "exit": SystemExit(3),
    "exit-none": SystemExit(), "exit-text": SystemExit("bye"), "generator-exit": GeneratorExit(),
    "memory": MemoryError(), "recursion": RecursionError("x"), "os": OSError(5, "x"), "pipe": BrokenPipeError(32, "x"),
    "reset": ConnectionResetError(104, "x"), "aborted": ConnectionAbortedError("x"), "blocking": BlockingIOError(11, "x"),
    "timeout": TimeoutError(), "interrupted": InterruptedError(), "async-stop": StopAsyncIteration(),
    "unicode": UnicodeDecodeError("utf-8", b"\\xff", 0, 1, "x"), "unicode-surrogate": UnicodeEncodeError("utf-8", "\\udc80", 0, 1, "x"),
    "syntax": SyntaxError("x", ("f\\n", 5, 3, "\\udc80", 1, 2)), "syntax-odd": SyntaxError(None, (None, None, None, None)),
    "warning": UserWarning("x"), "surrogate": ValueError("\\udc80"), "evil-str": EvilStr(), "base-str": BaseStr(),
    "not-str": NotStr(), "odd-str": OddStr(), "pretender": Pretender(), "no-trace": NoTrace(), "noted": Noted(),
    "circle": circle, "deep": deep, "huge": ValueError("x" * 1_000_000), "faceless": FacelessError("x"),
    "not-exception": 5, "new-is-none": NewIsNone, "needs-more": NeedsMore,
}

def throw(error):
    raise error

class Iterable:
    """An iterable that fails where it is told to."""
    def __init__(self, error, at):
        self.error, self.at = error, at

    def __iter__(self):
        if self.at == "iter":
            raise self.error
        return self.produce() if self.at != "next" else self

    def __next__(self):
        raise self.error

    def produce(self):
        if self.at == "empty":
            yield b""
            raise self.error
        yield SERVED
        if self.at == "end":
            raise self.error

    def close(self):
        note("closed")
        if self.at == "close":
            raise self.error

each("call", "500", ERRORS | {"stop": StopIteration(5)}, lambda start_response, error: throw(error))
each("call-started", "500", ERRORS, lambda start_response, error: (start_response("200 OK", OK), throw(error)))
for at, expected in (("iter", "500"), ("next", "500"), ("empty", "500"), ("end", "cut"), ("close", "served")):
    each("at-" + at, expected, ERRORS, lambda start_response, error, at=at: returned(start_response, Iterable(error, at)))
each("at-iter", "500", {"stop": StopIteration(5), "stop-2": Stop2()},
     lambda start_response, error: returned(start_response, Iterable(error, "iter")))
each("at-next", "empty", {"stop": StopIteration(5), "stop-2": Stop2()},
     lambda start_response, error: returned(start_response, Iterable(error, "next")))

def written(start_response, error):
    start_response("200 OK", OK)(SERVED)
    raise error

each("written", "cut", ERRORS, written)

class Closing:
    """Its `close` is something else than a method."""
    def __iter__(self):
        return iter([SERVED])

def closing(value):
    return type("Closes", (Closing,), {"close": value})()

each("close", "served", {
    "none": closing(None), "int": closing(5), "text": closing("close"), "needs-more": closing(lambda self, more: None),
    "raising-property": closing(property(raising(ZeroDivisionError("property")))),
    "exiting-property": closing(property(raising(SystemExit("property")))),
    "attribute-error": closing(property(raising(AttributeError("close")))),
    "type": closing(Faceless), "generator": closing(lambda self: (yield)), "deep": closing(lambda self: self.close()),
}, returned)

# ------------------------------------------------------------------------------------------------------- moments

@case("500")
def no_arguments(start_response):
    start_response()

@case("500")
def one_argument(start_response):
    start_response("200 OK")

@case("500")
def four_arguments(start_response):
    start_response("200 OK", OK, None, None)

@case("500")
def by_keyword(start_response):
    start_response(status="200 OK", headers=OK)

@case("500")
def twice(start_response):
    start_response("200 OK", OK)
    start_response("200 OK", OK)

@case("500")
def never(start_response):
    return [SERVED]

@case("500")
def never_but_written(start_response):
    return (block for block in [b"", SERVED])

@case("500")
def replaced_by_bad(start_response):
    start_response("200 OK", OK)
    start_response("200 OK\\n", OK, (ValueError, ValueError("x"), None))

@case("500")
def bad_then_caught(start_response):
    try:
        start_response("200 OK", [("X-A", "b"), ("X-B", "\\r\\nInjected: yes")])
    except ValueError:
        pass
    return [SERVED]

@case("served")
def bad_then_good(start_response):
    for status, headers in (("bad", OK), ("200 OK", [("X-Bad", "1"), ("X-B", "\\n")]), ("200 OK", None), (None, OK)):
        try:
            start_response(status, headers)
        except (TypeError, ValueError):
            pass
    return body_after(start_response, "200 OK", OK)

each("info-before", "served", {name: value for name, value in OBJECTS.items() if value is not None} | {"empty": (), "nones": (None,) * 3},
     lambda start_response, info: (start_response("404 X", [("X-First", "1")]), start_response("200 OK", OK, info), [SERVED])[2])

def after_the_first(start_response, info):
    start_response("200 OK", OK)
    yield SERVED
    start_response("500 Late", OK, info)
    yield b"more"

each("info-after", "cut", OBJECTS | {"empty": (), "nones": (None,) * 3, "lying": LyingTuple((1, 2, 3)),
     "exit": (SystemExit, SystemExit(3), None), "faceless": (None, FacelessError("x"), None),
     "dict": {1: ValueError("of a dict")}, "type": (None, ValueError, None)}, after_the_first)

def in_close(action):
    class Acting(Closing):
        def close(self):
            note("closed")
            action()
    return Acting()

@case("served")
def start_in_close(start_response):
    start_response("200 OK", OK)
    return in_close(lambda: start_response("200 Again", OK))

@case("served")
def start_in_close_with_info(start_response):
    start_response("200 OK", OK)
    return in_close(lambda: start_response("200 Again", OK, (ValueError, ValueError("x"), None)))

@case("500")
def start_in_close_after_a_fault(start_response):
    def start_and_write():
        start_response("200 Again", OK, (ValueError, ValueError("x"), None))
    class Acting(Closing):
        def __iter__(self): raise ValueError("iter")
        def close(self): start_and_write()
    start_response("404 X", OK)
    return Acting()

@case("served")
def start_in_iteration(start_response):
    class Starting:
        def __iter__(self):
            start_response("200 OK", OK)
            return iter([b"", SERVED])
    return Starting()

@case("served")
def start_in_del(start_response):
    class Dying:
        def __del__(self):
            try:
                start_response("500 Dead", OK)
            except AssertionError:
                note("closed")
    start_response("200 OK", OK)
    Dying()
    return [SERVED]

@case("served")
def write_in_iteration(start_response):
    write = start_response("200 OK", OK)
    def produce():
        write(b"ser")
        yield b"v"
        write(b"e")
        yield b"d"
    return produce()

each("write", "served", {name: value for name, value in OBJECTS.items() if name != "bytes"} | {"text": "text", "list": [SERVED]},
     lambda start_response, value: write_wrong(start_response, value))

def write_wrong(start_response, value):
    write = start_response("200 OK", OK)
    try:
        write(value)
    except TypeError:
        return [SERVED]
    return [b"written"]

@case("served")
def write_lying(start_response):
    start_response("200 OK", OK)(LyingBytes(SERVED))
    return []

@case("served")
def write_arguments(start_response):
    write = start_response("200 OK", OK)
    for arguments in ((), (b"a", b"b")):
        try:
            write(*arguments)
        except TypeError:
            continue
        write(b"wrong")
    return [SERVED]

kept = []

def keep(start_response):
    """Three things that may be kept beyond their request."""
    write = start_response("200 OK", OK)
    kept[:] = [start_response, write, start_response.__self__]
    return [SERVED]

@case("served")
def kept_beyond(start_response):
    """What was kept is dead, and does not speak in the answer of another."""
    start, write, exchange = kept or [None] * 3
    for call in (lambda: start("200 Stolen", [("Injected", "1")]), lambda: write(b"injected"),
                 lambda: start("200 Stolen", OK, (ValueError, ValueError("x"), None)),
                 lambda: exchange.write(b"injected"), lambda: exchange.start_response("200 Stolen", [])):
        try:
            call() if kept else raising(RuntimeError())()
        except RuntimeError:
            continue
        raise ValueError("it lives")
    return keep(start_response)

@case("served")
def kept_beyond_by_a_thread(start_response):
    faults = []
    def run():
        try:
            kept[1](b"injected") if kept else raising(RuntimeError())()
        except RuntimeError as error:
            faults.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert faults
    return keep(start_response)

@case("served")
def tampered(start_response):
    """The types that the server lends cannot be changed or made."""
    exchange, faults = start_response.__self__, 0
    for tamper in (lambda: setattr(type(exchange), "write", None), lambda: setattr(exchange, "committed", True),
                   lambda: type(exchange)(), lambda: delattr(type(exchange), "start_response"),
                   lambda: setattr(exchange, "__class__", object),
                   lambda: type("Sub", (type(exchange),), {})()):
        try:
            tamper()
        except (AttributeError, TypeError):
            faults += 1
    if faults != 6:
        raise ValueError(f"{faults} of 6")
    return body_after(start_response, "200 OK", OK)

# ------------------------------------------------------------------------------------------------------- the rest

def emptied(environ, start_response):
    environ.clear()
    environ[5] = environ
    return body_after(start_response, "200 OK", OK)

def errors_closed(environ, start_response):
    environ["wsgi.errors"].close()
    return body_after(start_response, "200 OK", OK)

class Reader:
    def __init__(self, *blocks):
        self.blocks = list(blocks)
    def read(self, size=-1):
        block = self.blocks.pop(0)
        if isinstance(block, BaseException):
            raise block
        return block

each("wrapper", "served", {"plain": lambda: Reader(SERVED, b""), "lying": lambda: Reader(b"served", LyingEmpty())},
     lambda start_response, make: wrapped(start_response, make))
each("wrapper", "500", {"none": lambda: Reader(None), "text": lambda: Reader("text"), "int": lambda: Reader(5),
     "list": lambda: Reader([b"x"]), "raises": lambda: Reader(OSError(5, "x")), "exits": lambda: Reader(SystemExit(3)),
     "nothing": lambda: object()}, lambda start_response, make: wrapped(start_response, make))
each("wrapper", "cut", {"then-none": lambda: Reader(SERVED, None), "then-raises": lambda: Reader(SERVED, OSError(5, "x"))},
     lambda start_response, make: wrapped(start_response, make))

class LyingEmpty(bytes):
    def __len__(self): return 0

def wrapped(start_response, make):
    start_response("200 OK", OK)
    return threading.current_thread().environ["wsgi.file_wrapper"](make(), 5)

def application(environ, start_response):
    name = environ["PATH_INFO"].strip("/")
    threading.current_thread().environ = environ
    if name == "cases":
        body = "\\n".join(f"{name} {expected}" for name, (expected, _) in CASES.items()).encode()
        start_response("200 OK", OK)
        return [body]
    if name in ("emptied", "errors_closed"):
        return globals()[name](environ, start_response)
    return CASES[name][1](start_response)
'''
DECLARED = ["Error", "Exit", "Interrupt", "Stop", "Exception", "app.py", "the application", "Warning"]


def check(stream: Stream, name: str, expected: str) -> bool:
    """Ask for one case; whether the connection goes on."""
    stream.client.send(f"GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n")
    if expected == "cut":
        return False
    answer = stream.answer()
    assert b"Injected" not in b"".join(answer[1]).replace(b"X-", b"")
    if expected == "500":
        assert is_500(*answer), answer
    else:
        assert answer[0].startswith(b"HTTP/1.1 200"), answer
        assert answer[2] == (b"served" if expected == "served" else b""), answer
    return True


def fault_of_cut(client: Any) -> str:
    """What is wrong with the end of an answer that has begun, and breaks off."""
    response = client.response(truncated=True)
    right = (200, b"served", "chunked", True)
    seen = (response.status, response.body, response.framing, response.was_reset)
    return "" if seen == right else f"{seen}, not {right}"


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (2, 2)], ids=["1x1", "1x4", "2x2"])
def test_whatever_an_application_does_costs_its_own_request(serve: Any, until: Any, shape: Any) -> None:
    server = serve(TYPES_APP, shape, errors=DECLARED)
    pids = server.pids()
    cases = dict(line.split(" ") for line in server.get("/cases").body.decode().splitlines())
    assert len(cases) > 500
    faults, broken = [], []
    stream = Stream(server.connect())
    for name, expected in cases.items():
        before = server._error_log.stat().st_size
        try:
            goes_on = check(stream, name, expected)
            if expected in ("500", "cut"):
                log = server._error_log
                until(lambda log=log, before=before: log.stat().st_size > before, "a line in the error log", 2)
        except (AssertionError, OSError, ValueError, IndexError, pytest.fail.Exception) as error:
            faults.append(f"{name} ({expected}): {type(error).__name__}: {str(error)[:300]}")
            goes_on = False
        if not goes_on:
            broken.append((name, expected, stream))
            stream = Stream(server.connect())
    stream.close()
    for name, expected, stream in broken:
        if expected == "cut" and (fault := fault_of_cut(stream.client)):
            faults.append(f"{name} (cut): {fault}")
        stream.close()
    assert not faults, "\n".join(faults[:20])
    for name in ("emptied", "errors_closed"):
        assert server.get(f"/{name}").body == b"served"
        assert server.get("/body-tuple").body == b"served"
    assert server.pids() == pids, "the same processes"
    forged = [line for line in server.errors().splitlines() if "forged" in line and not line.startswith("    ")]
    assert not [line for line in forged if line.startswith("2026-01-01")], "no text passes for a line of the server"


PANIC = "panic in the engine, please report it: as asked"
PANIC_APP = """
# An application that raises what PyO3 makes of a panic: where Python has returned, the engine panics with it.
def fail():
    raise next(kind for kind in BaseException.__subclasses__() if kind.__name__ == "PanicException")("as asked")

def begun():
    yield b"begun"
    fail()

def application(environ, start_response):
    if environ["PATH_INFO"] == "/before":
        fail()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"served"] if environ["PATH_INFO"] == "/" else begun()
"""


def test_a_panic_behind_python_costs_one_connection(serve: Any, any_shape: Any, until: Any) -> None:
    server = serve(PANIC_APP, any_shape, errors=[PANIC, "PanicException"])
    pids = server.pids()
    for number, name in enumerate(("before", "begun") * 3, 1):
        with server.connect() as client:
            client.send(f"GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n")
            if name == "before":
                answer = client.response()
                assert (answer.status, answer.closes) == (500, True)
                client.expect_close()
            else:
                answer = client.response(truncated=True)
                assert (answer.status, answer.body, answer.was_reset) == (200, b"begun", True)
        until(lambda number=number: server.errors().count(PANIC) == number, "a line for each")
        assert server.get("/").body == b"served"
    assert server.pids() == pids
