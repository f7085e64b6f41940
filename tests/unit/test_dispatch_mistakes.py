"""What a handler does wrong or too late, and what its author is told: which function, where it is, what to write."""

import re
from pathlib import Path

import pytest
from dispatching import answer, returns, table, write

from poorhttp import http
from poorhttp.dispatch import TableError, application

HERE = Path(__file__).name


def line_of(function):
    return f"{HERE}:{function.__code__.co_firstlineno})"


# Generators


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (http.HTTP_FORBIDDEN, 403, "403"),
        (http.HTTP_CREATED, 201, "before"),
        (http.DONE, 200, "before"),
        (None, 200, "before"),
        ("returned", 200, "beforereturned"),
        (http.Response("own", 410), 410, "beforeown"),
        (iter(["a", "b"]), 200, "beforeab"),
        (http.DECLINED, 404, "404"),
    ],
)
def test_a_value_that_a_generator_returns_without_a_block_is_that_of_the_handler(value, code, text):
    def handler(req):
        req.write("before")
        if req:
            return value
        yield "never"

    sent = answer(handler)
    assert sent.code == code and (text in sent.text if code >= 400 else text == sent.text)
    assert sent.log == ""


@pytest.mark.parametrize("value", [("a", 404), True, 7])
def test_a_wrong_value_of_a_generator_is_that_of_the_handler(value):
    def handler(req):
        return value
        yield "never"

    for names in {}, {"errors": {404: handler}}:
        sent = answer(returns(404) if names else handler, names=names)
        assert sent.code == 500 and f"{handler.__qualname__} returned" in sent.log and line_of(handler) in sent.log


def test_a_response_may_have_a_generator_that_returns():
    def blocks():
        return http.HTTP_GONE
        yield "never"

    assert answer(lambda req: http.Response(blocks(), 201)).code == 410


def test_an_error_page_may_be_a_generator_that_returns():
    def page(req):
        return "own"
        yield "never"

    sent = answer(returns(404), names={"errors": {404: page}})
    assert (sent.code, sent.text) == (404, "own")


@pytest.mark.parametrize("value", [http.HTTP_FORBIDDEN, "text", ("a", 404), False])
def test_a_value_that_a_generator_returns_too_late_is_logged(value):
    def handler(req):
        yield "block"
        return value

    sent = answer(handler)
    assert (sent.code, sent.text, sent.log.count("\n")) == (200, "block", 1)
    assert re.search(
        r"\[E\] GET /: the generator .*handler returned .* behind its first block, where it is lost", sent.log
    )
    assert line_of(handler) in sent.log


@pytest.mark.parametrize("value", [None, http.DONE, http.OK, http.HTTP_OK])
def test_a_generator_may_end_as_a_handler_that_has_written(value):
    def handler(req):
        yield "block"
        return value

    assert answer(handler).log == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda req: setattr(req, "status", 404),
        lambda req: setattr(req, "content_type", "text/plain"),
        lambda req: req.headers_out.add("X-Late", "1"),
        lambda req: req.set_cookie("late", "1"),
    ],
    ids=["status", "content_type", "headers_out", "cookie"],
)
@pytest.mark.parametrize("names", [{}, {"post_process": lambda req: req.flush()}], ids=["served", "flushed"])
def test_a_head_that_a_generator_sets_too_late_is_logged_once(change, names):
    def handler(req):
        yield "block"
        change(req)
        yield "more"

    sent = answer(handler, names=names)
    assert (sent.code, sent.text, sent.log.count("\n")) == (200, "blockmore", 1)
    assert "status or headers were set too late: the head went out with the generator's first block" in sent.log


def test_a_head_that_a_generator_sets_in_time_is_not():
    def handler(req):
        req.status = 404
        req.set_cookie("early", "1")
        yield "block"

    assert (answer(handler).code, answer(handler).log) == (404, "")


# Return values


def test_the_place_of_a_handler_is_told():
    def forgetful(req):
        pass

    assert answer(forgetful).log.endswith(f"write it by req.write() ({__file__}:{forgetful.__code__.co_firstlineno})\n")


def test_the_place_of_a_hook_is_told():
    def refuse(req):
        return http.HTTP_FORBIDDEN

    assert line_of(refuse) in answer(write("x"), names={"pre_process": refuse}).log


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", ["setreq", "pre_process"])
def test_a_hook_that_returns_a_bool_lets_no_request_through(name, value):
    sent = answer(write("secret"), names={name: returns(value)})
    assert sent.code == 500 and "secret" not in sent.text and f"returned {value}, which does not end" in sent.log


def test_a_tuple_is_answered_with_what_its_author_means():
    sent = answer(returns(("no", 404)))
    assert sent.code == 500 and 'http.Response("no", http.HTTP_NOT_FOUND)' in sent.log


DEEP = []
DEEP.append(DEEP)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [0, {1}]}, "value['a'][1] is of type set: JSON has str, int, float"),
        ({"a": {(1, 2): 3}}, "value['a'] has a key of type tuple: keys are str"),
        ([1.5, float("nan")], "value[1] is nan: JSON has no such number"),
        ([(0, b"")], "value[0][1] is of type bytes"),
        (DEEP, "it holds values more than 100 levels deep, or itself"),
    ],
    ids=["type", "key", "number", "tuple", "circle"],
)
def test_what_json_does_not_have_is_told_with_its_place(value, says):
    def handler(req):
        return value

    for names in {}, {"errors": {404: handler}}:
        sent = answer(returns(404) if names else handler, names=names)
        assert sent.code == 500 and line_of(handler) in sent.log
        assert f"{handler.__qualname__} returned what JSON does not have: {says}" in sent.log


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("x", 99), "the status of http.Response is 99"),
        (("x", 600), "the status of http.Response is 600"),
        (("x", True), "the status of http.Response is True"),
        (("x", "text/css"), "the status of http.Response is 'text/css'"),
        (("x", 200, {"X": "1"}), "the content_type of http.Response is {'X': '1'}"),
        (("x", 200, "a\nb"), "control character"),
    ],
)
def test_a_wrong_response_is_told_where_it_is_made(arguments, says):
    def handler(req):
        return http.Response(*arguments)

    sent = answer(handler)
    assert sent.code == 500 and says in sent.log
    assert f'{HERE}", line {handler.__code__.co_firstlineno + 1}' in sent.log
    assert http.Response("x", http.HTTPStatus.NOT_FOUND, None).status == 404


def test_a_table_is_refused_before_its_first_request():
    with pytest.raises(TableError, match="errors\\[404\\] calls"):
        application(table(handlers={}, errors={404: lambda: "page"}))
    with pytest.raises(TableError, match="converters\\['a'\\] calls"):
        application(table(handlers={}, converters={"a": (".", lambda: 0)}))
