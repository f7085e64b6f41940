"""What a front server gets beside answers: request ids, the health of the server, and files to send itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

ID = re.compile(r"[0-9a-f]{32}")
Ask = Callable[..., Any]


def told(response: Any) -> dict[str, str]:
    assert response.status == 200, response
    environ: dict[str, str] = response.json()["environ"]
    return environ


# ------------------------------------------------------------------------------------------------------ request id


def test_no_request_has_an_id_by_default(serve: Ask) -> None:
    environ = told(serve("echo").get("/", "X-Request-ID: mine"))
    assert environ["HTTP_X_REQUEST_ID"] == "mine"
    assert "poorhttp.request_id" not in environ


def test_each_request_has_its_own(serve: Ask, compose: Callable[..., bytes]) -> None:
    with serve("echo", request_id="yes").connect() as client:
        client.send(compose() * 50)
        responses = [client.response() for _ in range(50)]
    ids = {told(response)["poorhttp.request_id"] for response in responses}
    assert len(ids) == 50
    assert all(map(ID.fullmatch, ids))
    assert {told(response)["HTTP_X_REQUEST_ID"] for response in responses} == ids
    assert responses[0].header("X-Request-ID") is None


def test_workers_make_different_ones(serve: Ask) -> None:
    server = serve("echo", (2, 2), request_id="yes")
    ids = {told(server.get())["poorhttp.request_id"] for _ in range(40)}
    assert len(ids) == 40


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        (["0123-abc_DEF.:+/=@"], True),
        (["x" * 128], True),
        (["x" * 129], False),
        ([""], False),
        (["a b"], False),
        (['"'], False),
        (["a\\"], False),
        (["\xe9"], False),
        (["a,b"], False),
        (["a", "b"], False),
    ],
)
def test_that_of_a_front_server_is_taken_where_it_is_plain(serve: Ask, given: list[str], is_taken: bool) -> None:
    environ = told(serve("echo", request_id="yes").get("/", *(f"X-Request-ID: {each}" for each in given)))
    assert (environ["poorhttp.request_id"] == given[0]) is is_taken
    assert is_taken or ID.fullmatch(environ["poorhttp.request_id"])
    assert environ["HTTP_X_REQUEST_ID"] == environ["poorhttp.request_id"]


def test_that_of_a_client_is_not(serve: Ask) -> None:
    environ = told(serve("echo", request_id="yes", trusted_proxies="none").get("/", "X-Request-ID: forged"))
    assert ID.fullmatch(environ["HTTP_X_REQUEST_ID"])


def test_it_is_answered_and_logged(start: Ask) -> None:
    server = start("echo", request_id="answer", accesslog_format="json")
    response = server.get("/", "X-Request-ID: from-the-front")
    assert response.header("X-Request-ID") == "from-the-front"
    made = server.get("/made")
    assert made.header("X-Request-ID") == told(made)["poorhttp.request_id"]
    lines = [json.loads(line) for line in server.request_lines(3)[-2:]]
    assert [line["request_id"] for line in lines] == ["from-the-front", made.header("X-Request-ID")]


def test_an_application_may_answer_with_its_own(start: Ask) -> None:
    source = """
    def application(environ, start_response):
        if environ["PATH_INFO"] == "/fails":
            raise KeyError("boom")
        start_response("200 OK", [("x-request-id", "its own")] if environ["PATH_INFO"] == "/own" else [])
        return [b"x"]
    """
    server = start(source, request_id="answer", errors=["boom"])
    assert server.get("/own").header("X-Request-ID") == "its own"
    assert ID.fullmatch(server.get("/").header("X-Request-ID"))
    failed = server.get("/fails")
    assert (failed.status, bool(ID.fullmatch(failed.header("X-Request-ID")))) == (500, True)
