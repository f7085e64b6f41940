"""Every case of the corpus against a real server: whole, byte by byte, with trailing bytes.

Knows the corpus and its facts (tests/corpus/README.md) and what WSGI makes of a request. The application is the echo of
conftest, which records each call, so that a test sees what the application was told and that it was told nothing.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parents[1] / "corpus"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: example.com\r\n\r\n"
MANY = (2, 2)  # processes and threads: how bytes are read does not depend on them, so one such server is enough


def cases(kind: str) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in sorted((CORPUS / kind).glob("*.http"))]


def facts_of(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="ascii"))
    return facts


def split_small(raw: bytes) -> list[bytes]:
    """Byte by byte; the middle of what is large in pieces of 97."""
    if len(raw) <= 3000:
        return [raw[i : i + 1] for i in range(len(raw))]
    middle = raw[1000:-1000]
    return [
        *split_small(raw[:1000]),
        *(middle[i : i + 97] for i in range(0, len(middle), 97)),
        *split_small(raw[-1000:]),
    ]


# ------------------------------------------------------------------------------------------------------------ valid


def expected_environ(request: dict[str, Any]) -> dict[str, str]:
    """What PEP 3333 and the policy make of the fields."""
    environ: dict[str, str] = {}
    for name, value in request["fields"]:
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = "HTTP_" + key
        joint = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = environ[key] + joint + value if key in environ else value
    if "host" in request:
        environ["HTTP_HOST"] = request["host"]
    environ.pop("HTTP_TRANSFER_ENCODING", None)  # whether the application sees it is not decided; the body is decoded
    if "CONTENT_LENGTH" in environ:
        environ["CONTENT_LENGTH"] = str(int(environ["CONTENT_LENGTH"]))
    return environ


def check_call(record: dict[str, Any], request: dict[str, Any]) -> None:
    environ = record["environ"]
    assert record["body"] == request["body"]
    assert environ["REQUEST_METHOD"] == request["method"]
    assert environ["SCRIPT_NAME"] == ""
    assert environ["PATH_INFO"] == request["path"]
    assert environ["QUERY_STRING"] == request["query"]
    assert environ["SERVER_PROTOCOL"] == "HTTP/" + request["version"]
    told = {key: value for key, value in environ.items() if key.startswith(("HTTP_", "CONTENT_"))}
    told.pop("HTTP_TRANSFER_ENCODING", None)
    if told.get("CONTENT_TYPE") == "":
        del told["CONTENT_TYPE"]  # CGI allows it empty or absent
    if told.get("CONTENT_LENGTH"):
        told["CONTENT_LENGTH"] = str(int(told["CONTENT_LENGTH"]))
    elif request["content_length"] is None:
        told.pop("CONTENT_LENGTH", None)  # CGI allows it empty or absent
    if request["content_length"] is None and told.get("CONTENT_LENGTH") == str(len(request["body"])):
        del told["CONTENT_LENGTH"]  # and of a chunked body the length after decoding (RFC 3875, 4.1.2)
    assert told == expected_environ(request)


def check_valid(server: Any, until: Any, path: Path, pieces: list[bytes]) -> None:
    requests = facts_of(path)["requests"]
    called = [request for request in requests if not request.get("answered_by_server")]
    before = len(server.notes())
    client = server.connect()
    client.send_split(*pieces)
    for request in requests:
        response = client.response(request["method"], request["version"])
        assert response.status in ((200, 204) if request.get("answered_by_server") else (200,)), response
        assert response.closes is not request["persistent"], "Connection: close exactly where it ends here"
        if request["version"] == "1.0" and request["persistent"]:
            assert (response.header("Connection") or "").lower() == "keep-alive"
        assert response.interim in ([], [100])
        if request["method"] == "HEAD":
            assert int(response.header("Content-Length")) > 0
        elif not request.get("answered_by_server"):
            check_call(response.json(), request)
    if not requests or requests[-1]["persistent"]:
        assert client.is_silent(), "open after a response that persists"
        client.half_close()
        client.expect_close()
    else:
        assert client.rest_or_reset() == b"", "bytes behind the last request may meet a closed socket"
    until(lambda: len(server.notes()) >= before + len(called), "the records of the calls")
    records = [json.loads(line) for line in server.notes()[before:]]
    assert len(records) == len(called)
    for record, request in zip(records, called, strict=True):
        check_call(record, request)


@pytest.mark.parametrize("path", cases("valid"))
def test_valid(serve: Any, until: Any, path: Path) -> None:
    """Whole to threads of several processes, byte by byte to one; a failure prints which."""
    raw = path.read_bytes()
    print("whole")
    check_valid(serve("echo", MANY), until, path, [raw])
    print("byte by byte")
    check_valid(serve("echo"), until, path, split_small(raw))
    print("with another request behind it")
    check_valid_with_another(serve("echo"), path)


def check_valid_with_another(server: Any, path: Path) -> None:
    """What follows a request is the next one where the connection persists, and nothing where it does not."""
    requests = facts_of(path)["requests"]
    persists = not requests or requests[-1]["persistent"]
    with server.connect() as client:
        client.send(path.read_bytes() + SMUGGLED)
        for request in requests:
            assert client.response(request["method"], request["version"]).status in (200, 204)
        if persists:
            assert client.response().json()["environ"]["PATH_INFO"] == "/smuggled"
            client.half_close()
            client.expect_close()
        else:
            assert client.rest_or_reset() == b""
    assert any("/smuggled" in note for note in server.notes()[-1:]) is persists


# ---------------------------------------------------------------------------------------------------------- invalid


def check_invalid(server: Any, until: Any, path: Path, pieces: list[bytes]) -> None:
    """The good requests before are answered, the bad one is refused once, told once, and nothing after it is read."""
    facts = facts_of(path)
    after = facts.get("after", 0)
    calls, lines, pids = len(server.notes()), len(server.error_lines()), server.pids()
    began = time.monotonic()
    client = server.connect()
    client.send_split(*pieces)
    for _ in range(after):
        good = client.response()
        assert good.status == 200
        assert not good.closes
    refused = client.response()
    assert refused.status == facts["status"], refused
    assert refused.closes
    assert refused.framing == "length", "a client sees where the refusal ends"
    assert refused.interim == []
    client.half_close()
    client.expect_close()
    assert time.monotonic() - began < 5, "refused on what is there, not at a deadline"
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")
    assert server.get("*", method="OPTIONS").status in (200, 204)
    told = server.error_lines()[lines:]
    assert len(told) == 1, told
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: \[127\.0\.0\.1\] \[[A-Z0]\] ", told[0]), told[0]
    assert told[0].isprintable(), "nothing that the client sent can act on a terminal or forge a line"
    assert len(server.notes()) == calls + after, "the application saw nothing of it"
    assert server.pids() == pids


@pytest.mark.parametrize("path", cases("invalid"))
def test_invalid(serve: Any, until: Any, path: Path) -> None:
    """Whole to threads of several processes, in other ways to one; a failure prints which."""
    raw = path.read_bytes()
    print("whole")
    check_invalid(serve("echo", MANY), until, path, [raw])
    print("byte by byte")
    check_invalid(serve("echo"), until, path, split_small(raw))
    print("with a request behind it")
    check_invalid(serve("echo"), until, path, [raw + SMUGGLED])
    print("with much behind it")
    check_invalid_with_much_behind(serve("echo"), until, path)


def check_invalid_with_much_behind(server: Any, until: Any, path: Path) -> None:
    """A client that goes on sending can still read the refusal: the close lingers."""
    facts, lines = facts_of(path), len(server.error_lines())
    with server.connect() as client:
        client.send_split(path.read_bytes(), *[b"x" * 10_000] * 20)
        for _ in range(facts.get("after", 0)):
            assert client.response().status == 200
        assert client.response().status == facts["status"]
        client.half_close()
        client.expect_close()
    until(lambda: len(server.error_lines()) > lines, "a line in the error log")


def test_refusals_come_within_a_tenth_of_a_second(serve: Any) -> None:
    """Never by waiting for more. What was late, as it may be on a busy machine, is tried again; no case is late each time."""
    server = serve("echo")

    def is_late(path: Path) -> bool:
        with server.connect() as client:
            began = time.monotonic()
            client.send(path.read_bytes())
            for _ in range(facts_of(path).get("after", 0)):
                client.response()
            client.response()
            return time.monotonic() - began >= 0.1

    paths = sorted((CORPUS / "invalid").glob("*.http"))
    assert len(paths) > 300
    assert [path.name for path in paths if all(is_late(path) for _ in range(5))] == []
