"""What a handler may return besides a status: text, JSON, generators and whole responses."""

import json
from html import unescape

import pytest
from dispatching import answer, call, raises, returns, table, write
from hypothesis import given
from hypothesis import strategies as st

from poorhttp import http
from poorhttp.dispatch import application

HTML = "text/html; charset=utf-8"
JSON = "application/json"


@pytest.mark.parametrize(
    ("returned", "body", "content_type"),
    [
        ("<p>\u017e</p>", "<p>\u017e</p>".encode(), HTML),
        (b"\xff", b"\xff", HTML),
        ("", b"", HTML),
        (b"", b"", HTML),
        ({"a": ["\u017e", None, 1.5]}, b'{"a":["\\u017e",null,1.5]}', JSON),
        ([], b"[]", JSON),
        ({}, b"{}", JSON),
        (http.Response("x"), b"x", HTML),
        (http.Response(), b"", HTML),
        (http.Response([1], content_type="application/problem+json"), b"[1]", "application/problem+json"),
    ],
)
def test_a_page_may_be_returned(returned, body, content_type):
    sent = answer(returns(returned))
    assert (sent.code, sent.body, sent.header("Content-Type")) == (200, body, content_type)
    assert sent.header("Content-Length") == str(len(body))
    head = answer(returns(returned), method="HEAD")
    assert (head.body, head.headers) == (b"", sent.headers)


def test_what_is_returned_follows_what_was_written():
    def handler(req):
        req.content_type = "text/plain"
        req.write("written, ")
        return "returned"

    sent = answer(handler)
    assert (sent.text, sent.header("Content-Type")) == ("written, returned", "text/plain; charset=utf-8")


def test_none_means_it_is_written():
    assert answer(lambda req: req.write("x")).text == "x"
    assert (answer(lambda req: req.write("")).code, answer(lambda req: req.write("")).body) == (200, b"")
    assert answer(lambda req: req.flush()).body == b""


def test_none_is_right_for_a_status_without_content():
    def handler(req):
        req.status = http.HTTP_NO_CONTENT

    assert (answer(handler).status, answer(handler).log) == ("204 No Content", "")


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_forgetting_both_is_a_500_that_names_the_handler(method):
    def forgetful(req):
        pass

    sent = answer(forgetful, method=method, settings={"debug": True})
    assert sent.code == 500
    assert method == "HEAD" or f"{forgetful.__module__}.{forgetful.__qualname__} returned None" in unescape(sent.text)
    assert "forgetful returned None and has written nothing" in sent.log


def test_json_is_a_whole_answer():
    def handler(req):
        req.write("text")
        return {"a": 1}

    sent = answer(handler)
    assert sent.code == 500
    assert "returned a value of type dict after it had written something" in sent.log


@pytest.mark.parametrize("value", [{"a": {1}}, [float("nan")], {(1, 2): 3}, [[]]], ids=str)
def test_what_json_cannot_say_is_a_500(value):
    if value == [[]]:
        value[0].append(value)
    sent = answer(returns(value))
    assert sent.code == 500 and "Traceback" in sent.log
    assert sent.header("Content-Type") == HTML


@given(
    st.recursive(
        st.none() | st.text() | st.integers() | st.booleans(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_what_is_returned_as_json_is_read_back(value):
    sent = answer(returns({"value": value}))
    assert sent.code == 200 and json.loads(sent.body) == {"value": value}


# Generators


def test_a_generator_is_sent_block_by_block():
    def handler(req):
        req.content_type = "text/plain"
        req.headers_out["X-Late"] = "set before the first block"
        req.write("0")
        yield "\u017e"
        seen.append(list(blocks))
        yield b"\xff"
        seen.append(list(blocks))
        yield ""

    seen, blocks = [], []
    app = application(table(handler))

    def server(environ, start_response):
        for block in app(environ, lambda *head: start_response(*head) and blocks.append):
            blocks.append(block)
            yield block

    sent = call(server, valid=False)
    assert blocks == [b"0", "\u017e".encode(), b"\xff"]
    assert seen == [blocks[:2], blocks]
    assert sent.header("X-Late") and sent.header("Content-Length") is None
    assert answer(handler).body == b"0\xc5\xbe\xff"
    assert answer(returns(iter(["a", b"b"]))).body == b"ab"
    assert answer(returns(iter([]))).body == b""


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_generator_is_closed(method):
    def handler(req):
        try:
            yield "a"
            yield "b"
        finally:
            closed.append(True)

    closed = []
    sent = answer(handler, method=method)
    assert closed == [True]
    assert (sent.code, sent.body, sent.header("Content-Length")) == (200, b"ab" if method == "GET" else b"", None)


def test_what_a_generator_writes_goes_out_in_order():
    def handler(req):
        yield "1"
        req.write("2")
        yield "3"
        req.write("4" * 100_000)

    assert answer(handler).text == "123" + "4" * 100_000


def test_a_generator_may_flush_before_its_first_block():
    def handler(req):
        req.write("1")
        req.flush()
        yield "2"

    sent = answer(handler)
    assert (sent.text, sent.writes) == ("12", 1)


def test_a_generator_has_nothing_to_flush():
    def handler(req):
        yield "1"
        req.write("2")
        req.flush()

    with pytest.raises(RuntimeError, match="what it yields is sent at once"):
        answer(handler)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("early"), 500),
        (http.SERVER_RETURN(http.HTTP_FORBIDDEN), 403),
        (http.SERVER_RETURN(http.DECLINED), 404),
        (http.SERVER_RETURN(http.Response("own", 410)), 410),
    ],
)
def test_a_generator_may_end_as_a_handler_does_before_its_first_block(error, code):
    def handler(req):
        req.write("half")
        raise error
        yield "never"

    for sent in answer(handler), answer(raises(error)), call(application(table(handlers={}, default_handler=handler))):
        assert sent.code == code and ("half" not in sent.text or code == 410)


def test_a_later_failure_of_a_generator_is_the_servers_to_end():
    def handler(req):
        yield "half"
        raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        answer(handler)


def test_a_failure_behind_the_generator_discards_it():
    def handler(req):
        try:
            yield "a"
        finally:
            closed.append(True)

    closed = []
    sent = answer(handler, names={"post_process": raises(KeyError("lost"))})
    assert (sent.code, closed) == (500, [True]) and "500" in sent.text


@pytest.mark.parametrize("block", [1, None, ["a"]])
def test_a_generator_yields_text_or_bytes(block):
    sent = answer(returns(iter([block])))
    assert sent.code == 500 and "a generator yields str or bytes, not" in sent.log
    with pytest.raises(TypeError, match="yields str or bytes"):
        answer(returns(iter(["a", block])))


def test_a_generator_behind_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"file, ")

    def handler(req):
        req.sendfile(str(tmp_path / "file"))
        return iter(["block"])

    assert answer(handler).text == "file, block"


def test_flush_sends_a_generator_whole():
    assert answer(returns(iter("abc")), names={"post_process": lambda req: req.flush()}).text == "abc"


# Responses


def test_a_response_has_status_type_and_headers():
    def handler(req):
        req.headers_out["X-One"] = "replaced"
        req.headers_out["X-Two"] = "kept"
        fields = [("x-one", "1"), ("Link", "<a>"), ("Link", "<b>")]
        return http.Response(b"made", http.HTTP_CREATED, "text/plain", fields)

    sent = answer(handler)
    assert (sent.status, sent.body, sent.header("Content-Type")) == ("201 Created", b"made", "text/plain")
    assert [(name.lower(), value) for name, value in sent.headers if not name.startswith("Content")] == [
        ("x-two", "kept"),
        ("x-one", "1"),
        ("link", "<a>"),
        ("link", "<b>"),
    ]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("body", ["x", "x" * 100_000, iter(["x"])], ids=["str", "large", "generator"])
def test_reset_content_has_no_content(method, body):
    response = http.Response(body, http.HTTP_RESET_CONTENT, headers={"Content-Length": "5"})
    sent = answer(returns(response), method=method)
    assert (sent.code, sent.header("Content-Length"), sent.body) == (205, "0", b"")


def test_a_response_with_an_error_status_has_its_own_body():
    sent = answer(returns(http.Response({"error": "gone"}, 410)), names={"errors": {410: write("not asked")}})
    assert (sent.code, sent.text) == (410, '{"error":"gone"}')


@pytest.mark.parametrize("returned", ["own", http.Response("own"), iter(["own"])], ids=["str", "Response", "generator"])
def test_an_error_handler_may_return_its_page(returned):
    sent = answer(write("page"), path="/x", names={"errors": {404: returns(returned)}})
    assert (sent.code, sent.text) == (404, "own")


def test_an_error_handler_may_change_the_status():
    sent = answer(write("page"), path="/x", names={"errors": {404: returns(http.Response("own", 410))}})
    assert (sent.code, sent.text) == (410, "own")


@pytest.mark.parametrize(
    "settings",
    [
        {"status": 99},
        {"status": "200"},
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": [("X",)]},
        {"content_type": "text/plain\n"},
        {"body": http.Response("x")},
    ],
)
def test_a_wrong_response_is_a_clean_500(settings):
    sent = answer(lambda req: http.Response(**{"body": "x", **settings}))
    assert sent.code == 500 and sent.header("X") is None and "500" in sent.text


def test_a_response_behind_the_first_byte_is_the_servers_to_end():
    def handler(req):
        req.write("a")
        req.flush()
        return http.Response("b", 404)

    with pytest.raises(RuntimeError, match="comes too late"):
        answer(handler)


def test_abort_ends_a_handler():
    sent = answer(lambda req: http.abort(http.HTTP_FORBIDDEN, "not yours"), environ={"poorhttp.log_level": "debug"})
    assert sent.code == 403 and "403: not yours" in sent.log
    assert answer(lambda req: http.abort(http.Response("own", 418))).text == "own"


class Lazy(str):
    pass


def test_subclasses_are_what_they_extend():
    assert answer(returns(Lazy("x"))).text == "x"
    assert answer(returns(type("Record", (dict,), {})(a=1))).text == '{"a":1}'
