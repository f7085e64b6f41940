"""What the policy says and no corpus case can show: what comes behind a refusal, spoofed names, 100, Date, HEAD.

Knows the server from the outside, the corpus as material, and tests/POLICY.md, whose lines it holds to name tests.
"""

from __future__ import annotations

import ast
import contextlib
import email.utils
import itertools
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
INVALID = sorted((TESTS / "corpus" / "invalid").glob("*.http"))
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


# ------------------------------------------------------------------------------------------------------- refusals


def test_a_refusal_is_the_last_word(serve: Any, until: Any) -> None:
    """Whatever a refused client sends afterwards, in segments of its own, is thrown away: no answer, no call, no line."""
    server = serve("echo")
    lines, calls = len(server.error_lines()), 0
    for path in INVALID:
        facts = json.loads(path.with_suffix(".json").read_text(encoding="ascii"))
        calls += facts.get("after", 0)
        with server.connect() as client:
            client.send(path.read_bytes())
            for _ in range(facts.get("after", 0)):
                assert client.response().status == 200, path
            assert client.response().status == facts["status"], path
            client.send_split(b"\r\n\r\n", SMUGGLED, b"BAD LINE\r\n", SMUGGLED)
            with contextlib.suppress(OSError):
                client.half_close()
            assert client.rest() == b"", path
    server.clients.clear()
    until(lambda: len(server.error_lines()) >= lines + len(INVALID), "a line for each refusal")
    assert len(server.error_lines()) == lines + len(INVALID), "and no other"
    assert not [note for note in server.notes() if "smuggled" in note]
    assert len(server.notes()) == calls


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (f"Content-Length: {1 << 40}", 413),
        (f"Content-Length: {len(SMUGGLED)}\r\nExpect: the-impossible", 417),
        (f"Content-Length: {len(SMUGGLED)}\r\nExpect: the-impossible\r\nConnection: keep-alive", 417),
        ("Transfer-Encoding: gzip", 501),
        ("Transfer-Encoding: gzip, chunked", 501),
        (f"Content-Length: {len(SMUGGLED)}\r\nContent-Length: {len(SMUGGLED)}", 400),
    ],
)
@pytest.mark.parametrize("is_one_segment", [True, False])
def test_the_body_of_a_refused_request_is_no_request(
    serve: Any, any_shape: Any, head: str, status: int, is_one_segment: bool
) -> None:
    server = serve("hello", any_shape)
    raw = f"POST /refused HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n".encode()
    with server.connect() as client:
        if is_one_segment:
            client.send(raw + SMUGGLED)
            assert client.response().status == status
        else:
            client.send(raw)
            assert client.response().status == status
            client.send_split(SMUGGLED)
        with contextlib.suppress(OSError):
            client.half_close()
        assert client.rest() == b""
    assert not {"/smuggled", "/refused"} & set(server.notes())


FAULTS = {
    "line": b"HEAD /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
    "head": b"HEAD / HTTP/1.1\r\nHost: a\r\nBad Name: b\r\n\r\n",
    "host": b"HEAD / HTTP/1.1\r\n\r\n",
    "body": b"HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_refusal_of_head_has_no_body(serve: Any, fault: str) -> None:
    """RFC 9110 9.3.2: also then."""
    with serve("hello").connect() as client:
        client.send(FAULTS[fault])
        response = client.response("HEAD")
        assert response.status == 400 and response.closes
        client.half_close()
        client.expect_close()


@pytest.mark.parametrize("fault", FAULTS)
def test_the_refusal_of_head_has_no_body_behind_an_empty_line(serve: Any, fault: str) -> None:
    with serve("hello").connect() as client:
        client.send(b"\r\n" + FAULTS[fault])
        assert client.response("HEAD").status == 400
        client.half_close()
        client.expect_close()


# --------------------------------------------------------------------------------------------------- spoofed names

NAMES = ["Content-Type", "X-Forwarded-For", "X-Real-Ip", "Remote-User", "User-Agent", "X-A-B-C", "If-Match"]


def spellings(name: str) -> list[str]:
    """The name with underscores for some or all of its hyphens, in three cases."""
    parts = name.split("-")
    joints = itertools.product("-_", repeat=len(parts) - 1)
    mixed = ["".join(map("".join, zip(parts, [*joint, ""], strict=True))) for joint in joints if "_" in joint]
    return [cased for one in mixed for cased in (one, one.lower(), one.upper())]


@pytest.mark.parametrize("name", NAMES)
def test_no_spelling_spoofs_a_variable(serve: Any, name: str) -> None:
    """With an underscore a name is never heard, alone, before or behind the true one."""
    server = serve("echo")
    variable = name.upper().replace("-", "_")
    variable = variable if variable == "CONTENT_TYPE" else "HTTP_" + variable
    forged = [f"{spelling}: forged" for spelling in spellings(name)]
    for lines, expected in (
        (forged, ""),
        ([*forged, f"{name}: true"], "true"),
        ([f"{name}: true", *forged], "true"),
        ([*forged, f"{name}: true", *forged], "true"),
    ):
        environ = server.get("/", *lines).json()["environ"]
        assert environ.get(variable, "") == expected
        assert not [value for value in environ.values() if "forged" in value]


@pytest.mark.parametrize(
    "spelling", ["Content_Length: 3", "content_length: 3", "Transfer_Encoding: chunked", "TRANSFER_ENCODING: chunked"]
)
def test_no_spelling_frames(serve: Any, compose: Any, spelling: str) -> None:
    server = serve("echo")
    with server.connect() as client:
        client.send(compose("/1", spelling, method="POST") + compose("/2", spelling, method="POST", body=b"hello"))
        first, second = client.response().json(), client.response().json()
        assert (first["body"], second["body"]) == ("", "hello")
        assert (first["environ"].get("CONTENT_LENGTH", ""), second["environ"]["CONTENT_LENGTH"]) == ("", "5")
        assert client.request("/3").json()["environ"]["PATH_INFO"] == "/3"


@pytest.mark.parametrize("spelling", ["Connection_: close", "Expect_: x", "_Host: b", "Host_: b", "_: x"])
def test_no_spelling_steers(serve: Any, spelling: str) -> None:
    with serve("echo").connect() as client:
        response = client.request("/", spelling)
        assert (response.status, response.closes) == (200, False)
        assert response.json()["environ"]["HTTP_HOST"] == "example.com"


# -------------------------------------------------------------------------------------------------------- trailers


@pytest.mark.parametrize(
    ("trailers", "status"),
    [
        (b"".join(b"X-%d: 1\r\n" % number for number in range(200)), 200),
        (b"".join(b"X-%d: 1\r\n" % number for number in range(201)), 431),
        (b"X-A: " + b"a" * 16_000 + b"\r\n", 200),
        (b"X-A: " + b"a" * 16_500 + b"\r\n", 431),
        (b"X-" + b"a" * 16_500 + b": b\r\n", 431),
    ],
    ids=["number", "one-more", "bytes", "more-bytes", "name"],
)
def test_trailers_are_bounded(serve: Any, trailers: bytes, status: int) -> None:
    with serve("echo").connect() as client:
        client.send_split(CHUNKED, b"0\r\n" + trailers + b"\r\n")
        assert client.response().status == status


# ------------------------------------------------------------------------------------------------------- 100, Date


@pytest.mark.parametrize(
    ("head", "pieces"),
    [
        ("Content-Length: 5", [b"h", b"ello"]),
        ("Transfer-Encoding: chunked", [b"5", b"\r\nhello\r\n0\r\n\r\n"]),
        ("Content-Length: 5", [b"hello"]),
    ],
)
def test_no_100_where_some_of_the_body_came(serve: Any, any_shape: Any, head: str, pieces: list[bytes]) -> None:
    """RFC 9110 10.1.1: who sends the body does not wait for leave."""
    with serve("echo", any_shape).connect() as client:
        raw = f"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{head}\r\n\r\n".encode()
        client.send(raw + pieces[0])
        for piece in pieces[1:]:
            assert client.is_silent()
            client.send(piece)
        response = client.response()
        assert response.interim == []
        assert response.json()["body"] == "hello"


def test_100_once_though_asked_twice(serve: Any) -> None:
    with serve("echo").connect() as client:
        for _ in range(2):
            client.send(
                b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
            )
            assert client.head_only().status == 100
            client.send(b"o")
            assert client.is_silent()
            client.send(b"k")
            response = client.response()
            assert (response.interim, response.json()["body"]) == ([], "ok")


def date_of(response: Any) -> float:
    return email.utils.parsedate_to_datetime(response.header("Date")).timestamp()


def test_date_goes_on(serve: Any, until: Any) -> None:
    """It is made once a second, not once: that of answers of the application, of the server and of refusals."""
    server = serve("hello")
    asked = [{"target": "/"}, {"target": "*", "method": "OPTIONS"}, {"target": "/", "method": "CONNECT"}]
    first = [date_of(server.get(**one)) for one in asked]
    until(lambda: date_of(server.get("/")) > max(first), "the date to change")
    second = [date_of(server.get(**one)) for one in asked]
    assert all(after > before for before, after in zip(first, second, strict=True))
    assert all(abs(date - time.time()) < 5 for date in second)


# ------------------------------------------------------------------------------------------------------- POLICY.md


def policy() -> list[tuple[str, str]]:
    """The lines of POLICY.md with the cell that names their tests."""
    text = (TESTS / "POLICY.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return [(row[0].strip(), row[-1].strip()) for row in rows if row[-1].strip() != "test"]


def functions(path: Path) -> set[str]:
    if path.suffix == ".rs":
        return set(re.findall(r"\bfn (\w+)\(", path.read_text(encoding="utf-8")))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def exists(name: str) -> bool:
    kind, _, case = name.partition("/")
    if kind in ("valid", "invalid"):
        return any((TESTS / "corpus" / kind).glob(f"{case}.http"))
    module, _, function = name.partition("::")
    wanted = module if module.endswith(".rs") else f"test_{module}.py"
    found = [path for folder in (TESTS, ROOT / "src") for path in folder.rglob(wanted)]
    return len(found) == 1 and function in functions(found[0])


def test_every_line_of_the_policy_has_a_test() -> None:
    rows = policy()
    assert len(rows) > 100
    for line, cell in rows:
        names = re.findall(r"`([^`]+)`", cell)
        assert names, line
        assert not [name for name in names if not exists(name)], line
