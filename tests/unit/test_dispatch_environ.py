"""What a request takes from the environ: the host, the client, options, and the body as bytes."""

import io

import pytest
from dispatching import answer, ask

from poorhttp import http
from poorhttp.dispatch.request import Request

URLENCODED = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("environ", "hostname", "url"),
    [
        ({"HTTP_HOST": "example.com:8080"}, "example.com", "http://example.com:8080/x"),
        ({"HTTP_HOST": "[::1]:8080"}, "[::1]", "http://[::1]:8080/x"),
        ({"HTTP_HOST": "evil.example/@"}, "127.0.0.1", "http://127.0.0.1/x"),
        ({"HTTP_HOST": "", "SERVER_NAME": "::1", "SERVER_PORT": "8080"}, "[::1]", "http://[::1]:8080/x"),
        ({"HTTP_HOST": "h", "wsgi.url_scheme": "https", "HTTPS": "on"}, "h", "https://h/x"),
    ],
)
def test_where_the_client_came_to(environ, hostname, url):
    assert ask(lambda req: (req.hostname, req.construct_url("/x")), **environ) == (hostname, url)


def test_the_address_of_the_client():
    assert ask(lambda req: (req.remote_addr, req.remote_host, req.get_remote_host())) == ("192.0.2.7",) * 3
    assert ask(lambda req: req.get_remote_host(), REMOTE_HOST="client.example") == "client.example"


def test_the_environ_has_two_names():
    assert ask(lambda req: req.subprocess_env is req.environ)


def test_facts_may_be_replaced():
    def question(req):
        req.remote_addr = "198.51.100.1"
        return req.remote_addr, req.remote_host

    assert ask(question) == ("198.51.100.1", "198.51.100.1")


def test_an_unknown_attribute_is_an_error():
    assert ask(lambda req: hasattr(req, "database")) is False
    assert Request.remote_addr.__doc__ is None or isinstance(Request.remote_addr.__doc__, str)


def test_options_come_from_the_server_or_from_the_application():
    def question(req):
        options = req.get_options()
        req.get_options()["a"] = "changed"
        assert req.get_options() == options
        return options

    assert ask(question) == {}
    assert ask(question, **{"poorhttp.options": {"a": "1"}}) == {"a": "1"}
    found = []
    answer(lambda req: found.append(req.get_options()) or http.DONE, settings={"options": {"b": "2"}})
    assert found == [{"b": "2"}]


def test_document_root():
    assert ask(lambda req: req.document_root()) == ""
    assert ask(lambda req: req.document_root(), DOCUMENT_ROOT="/srv/www") == "/srv/www"


def test_read_stops_at_content_length():
    def handler(req):
        req.write(req.read(2) + b"|" + req.read() + b"|" + req.read() + req.read(1))
        return http.DONE

    behind = io.BytesIO(b"abcdeGET / HTTP/1.1")
    sent = answer(handler, method="POST", environ={"wsgi.input": behind, "CONTENT_LENGTH": "5"})
    assert sent.body == b"ab|cde|"
    assert behind.tell() == 5


def test_read_goes_to_the_end_where_the_server_marks_it():
    environ = {"wsgi.input_terminated": True, "CONTENT_LENGTH": "", "wsgi.input": io.BytesIO(b"chunked body")}
    assert (
        answer(lambda req: req.write(req.read()) or http.DONE, method="POST", environ=environ).body == b"chunked body"
    )


class Trickling(io.BytesIO):
    """Gives at most two bytes at a time, and at the end what it was told to."""

    def __init__(self, data, end=b""):
        super().__init__(data)
        self.end = end

    def read(self, length=-1):
        data = super().read(2 if length < 0 else min(length, 2))
        if not data and self.end:
            raise self.end
        return data


@pytest.mark.parametrize("is_terminated", [True, False])
@pytest.mark.parametrize("end", [b"", OSError("the client has left")])
def test_of_a_body_that_ends_too_early_nothing_is_used(is_terminated, end):
    """408 and no traceback, whether the server says so by an error or by an early end."""
    environ = {"wsgi.input_terminated": is_terminated, "CONTENT_LENGTH": "10", "CONTENT_TYPE": URLENCODED}
    for handler in (lambda req: req.read(), lambda req: req.read(8), lambda req: req.form["a"]):
        log = io.StringIO()
        body = Trickling(b"a=1&b=2", end)
        sent = answer(handler, method="POST", environ={**environ, "wsgi.input": body, "wsgi.errors": log})
        assert (sent.code, log.getvalue()) == (408, "")


def test_read_goes_on_where_a_server_gives_less_at_a_time():
    environ = {"wsgi.input": Trickling(b"abcde"), "CONTENT_LENGTH": "5"}
    sent = answer(lambda req: req.read(3) + b"|" + req.read(), method="POST", environ=environ)
    assert sent.body == b"abc|de"


def test_a_chunked_body_that_the_server_cannot_read_is_refused():
    """Else it would be taken for an empty one."""
    body = io.BytesIO(b"3\r\na=1\r\n0\r\n\r\n")
    environ = {
        "HTTP_TRANSFER_ENCODING": "chunked",
        "CONTENT_LENGTH": "",
        "CONTENT_TYPE": URLENCODED,
        "wsgi.input": body,
    }
    assert answer(lambda req: req.form["a"], method="POST", environ=environ).code == 411
    assert answer(lambda req: "unread", method="POST", environ=environ).code == 200


@pytest.mark.parametrize("length", ["x", "+5", "5_0", "\u0665", "1.0", "9" * 5000])
def test_read_refuses_a_wrong_content_length(length):
    sent = answer(lambda req: req.read() and http.DONE, method="POST", valid=False, environ={"CONTENT_LENGTH": length})
    assert sent.code == 400
