"""What a request takes from the environ: the host, the client, options, and the body as bytes."""

import io

import pytest
from dispatching import answer, ask

from poorhttp import http
from poorhttp.dispatch.request import Request


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


@pytest.mark.parametrize("length", ["x", "+5", "5_0", "\u0665", "1.0"])
def test_read_refuses_a_wrong_content_length(length):
    sent = answer(lambda req: req.read() and http.DONE, method="POST", valid=False, environ={"CONTENT_LENGTH": length})
    assert sent.code == 400
