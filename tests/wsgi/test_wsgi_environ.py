"""The environ: exactly what PEP 3333 and CGI say, true to the shape, fresh for each request.

Knows PEP 3333; knows the few extras that poorhttp promises.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest

import poorhttp

TYPES = """
import json

def application(environ, start_response):
    facts = {
        "type": type(environ).__name__,
        "exact": type(environ) is dict,
        "types": {key: type(value).__name__ for key, value in environ.items()},
        "keys": sorted(environ),
        "version": environ["wsgi.version"],
        "multithread": environ["wsgi.multithread"],
        "multiprocess": environ["wsgi.multiprocess"],
        "run_once": environ["wsgi.run_once"],
        "url_scheme": environ["wsgi.url_scheme"],
        "input_terminated": environ.get("wsgi.input_terminated"),
        "leaked": environ.get("test.leak"),
        "method_name": environ["REQUEST_METHOD"],
        "debug": environ.get("poorhttp.debug"),
        "options": environ.get("poorhttp.options"),
        "log_level": environ.get("poorhttp.log_level"),
        "strings": {key: value for key, value in environ.items() if type(value) is str},
        "read": environ["wsgi.input"].read().decode("latin-1"),
    }
    environ["test.leak"] = "from before"
    environ["REQUEST_METHOD"] = "CHANGED"
    environ["HTTP_LEAK"] = "x"
    environ.pop("wsgi.errors")
    del environ["SERVER_NAME"]
    body = json.dumps(facts).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
"""

REQUIRED = {
    "REQUEST_METHOD",
    "SCRIPT_NAME",
    "PATH_INFO",
    "QUERY_STRING",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REQUEST_URI",
    "SERVER_ADMIN",
    "wsgi.version",
    "wsgi.url_scheme",
    "wsgi.input",
    "wsgi.errors",
    "wsgi.multithread",
    "wsgi.multiprocess",
    "wsgi.run_once",
    "wsgi.input_terminated",
    "wsgi.file_wrapper",
    "poorhttp.debug",
    "poorhttp.options",
    "poorhttp.log_level",
}


@pytest.fixture
def server(serve: Any, any_shape: Any) -> Any:
    return serve(TYPES, any_shape)


def test_environ_is_exactly_a_dict_of_native_strings(server: Any) -> None:
    facts = server.get("/", "X-A: caf\xe9").json()
    assert facts["exact"], facts["type"]
    assert set(facts["keys"]) >= REQUIRED
    for key, kind in facts["types"].items():
        if not key.startswith(("wsgi.", "poorhttp.")):
            assert kind == "str", key
    assert facts["strings"]["HTTP_X_A"] == "caf\xe9"


def test_constants(server: Any) -> None:
    facts = server.get("/").json()
    assert facts["version"] == [1, 0]
    assert facts["types"]["wsgi.version"] == "tuple"
    assert facts["url_scheme"] == "http"
    assert facts["run_once"] is False
    assert facts["input_terminated"] is True


def test_flags_are_true_to_the_shape(server: Any) -> None:
    """The one test that must know the shape: PEP 3333 asks for it."""
    processes, threads = server.shape
    facts = server.get("/").json()
    assert facts["multithread"] is (threads > 1)
    assert facts["multiprocess"] is (processes > 1)


@pytest.mark.parametrize(
    ("kind", "multithread", "multiprocess"),
    [("single", False, False), ("threading", True, False), ("forking", False, True)],
)
def test_flags_of_the_three_types(serve: Any, kind: str, multithread: bool, multiprocess: bool) -> None:
    facts = serve(TYPES, type=kind, processes=0, threads=0).get("/").json()
    assert facts["multithread"] is multithread
    assert facts["multiprocess"] is multiprocess


def test_environ_is_fresh_for_each_request(server: Any) -> None:
    with server.connect() as client:
        for _ in range(5):
            facts = client.request("/").json()
            assert facts["leaked"] is None
            assert facts["method_name"] == "GET"
            assert "HTTP_LEAK" not in facts["keys"]
            assert {"SERVER_NAME", "wsgi.errors"} <= set(facts["keys"])


ALTERING = """
import json

kept = []

def application(environ, start_response):
    if KEEPS:
        kept.append((environ, dict(environ)))
    usual = all(environ == copy for environ, copy in kept) or KEEPS
    length = int(environ.get("CONTENT_LENGTH") or 0)
    usual &= environ["wsgi.input"].read() == b"data"[:length]
    others = ("SERVER_PORT", "REMOTE_PORT", "wsgi.input", "wsgi.errors")
    said = {key: value for key, value in environ.items() if key not in others}
    body = json.dumps([usual, environ["REMOTE_PORT"], said], default=repr, sort_keys=True).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    exec(environ["QUERY_STRING"].replace("%20", " ") or "pass")
    return [body]
"""
ALTERATIONS = (
    "",
    "",
    "environ['REQUEST_METHOD']='ALTERED'",
    "environ['a']='new'",
    "environ.pop('HTTP_HOST',0)",
    "environ.clear()",
    "environ.update(PATH_INFO='/altered')",
    "environ.setdefault('b',[])",
    "kept.append((environ,dict(environ)))",
    "raise%20KeyError",
)
CHUNKED = "1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
OLD = "1.0\r\nConnection: keep-alive\r\n"
PARTS: dict[str, tuple[Any, ...]] = {
    "method": ("GET", "PUT"),
    "target": ("/a", "/b", "http://c/a"),
    "version and body": (
        ("1.1\r\nHost: a\r\n", ""),
        (CHUNKED, "4\r\ndata\r\n0\r\n\r\n"),
        (CHUNKED, "0\r\n\r\n"),
        (f"{OLD}Content-Length: 4\r\n", "data"),
        (OLD, ""),
        (f"{OLD}Host: b\r\n", ""),
    ),
    "fields": (
        "",
        "X-A: 1\r\n",
        "X-A: 2\r\n",
        "X-A: 1\r\nCookie: a=b\r\n",
        "X_A: 1\r\nProxy: a\r\n",
        f"X-A: {'a' * 9000}\r\n",
    ),
}


def test_environ_says_nothing_of_another_request(serve: Any, any_shape: Any) -> None:
    """The same as where the application keeps each environ, whatever it did with the ones before."""
    servers = [serve(f"KEEPS = {keeps}\n{ALTERING}", any_shape, errors=["KeyError"]) for keeps in (False, True)]
    chance = random.Random(1)
    with contextlib.ExitStack() as closing:
        pairs = [[closing.enter_context(server.connect()) for server in servers] for _ in range(3)]
        parts = {name: values[0] for name, values in PARTS.items()}
        for _ in range(600):
            # One after another has most in common, as those of a client have.
            changed = chance.choice(list(PARTS))
            parts[changed] = chance.choice(PARTS[changed])
            (version, body), query = parts["version and body"], chance.choice(ALTERATIONS)
            head = f"{parts['method']} {parts['target']}?{query} HTTP/{version}{parts['fields']}\r\n{body}"
            said = []
            for client in chance.choice(pairs):
                response = client.send(head).response()
                if response.status == 200:
                    usual, port, told = response.json()
                    assert usual and port == str(client.sock.getsockname()[1])
                said.append(told if response.status == 200 else response.status)
            assert said[0] == said[1], head


def test_server_name_and_port_are_never_empty(server: Any) -> None:
    with server.connect() as client:
        client.send("GET / HTTP/1.0\r\n\r\n")
        strings = client.response(version="1.0").json()["strings"]
    assert strings["SERVER_NAME"] == "127.0.0.1"
    assert strings["SERVER_PORT"] == str(server.address[1])
    assert "HTTP_HOST" not in strings


def test_host_does_not_change_the_server_name(server: Any) -> None:
    strings = server.get("/").json()["strings"]
    assert strings["HTTP_HOST"] == "example.com"
    assert strings["SERVER_NAME"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", "/"),
        ("//a//b/", "//a//b/"),
        ("/a%20b", "/a b"),
        ("/%C3%A9", "/\xc3\xa9"),
        ("/%ff%00%0d%0a", "/\xff\0\r\n"),
        ("/a%2Fb", "/a/b"),
        ("/%2541", "/%41"),
        ("/a/../b", "/a/../b"),
        ("/a;b=c", "/a;b=c"),
    ],
)
def test_path_info_is_decoded_once_and_kept(server: Any, target: str, path: str) -> None:
    strings = server.get(target + "?q=%20&r=%C3").json()["strings"]
    assert strings["PATH_INFO"] == path
    assert strings["SCRIPT_NAME"] == ""
    assert strings["QUERY_STRING"] == "q=%20&r=%C3", "raw"
    assert strings["REQUEST_URI"] == target + "?q=%20&r=%C3", "raw"


def test_content_type_and_length_have_no_prefix(server: Any) -> None:
    facts = server.get("/", "Content-Type: text/x", method="POST", body=b"abc").json()
    assert facts["strings"]["CONTENT_TYPE"] == "text/x"
    assert facts["strings"]["CONTENT_LENGTH"] == "3"
    assert not [key for key in facts["keys"] if key.startswith("HTTP_CONTENT_TYPE") or key == "HTTP_CONTENT_LENGTH"]


@pytest.mark.parametrize("body", [b"", b"abc"])
def test_a_length_can_be_read_however_many_zeros_it_has(server: Any, body: bytes) -> None:
    """int() refuses more than 4300 digits, zeros too."""
    facts = server.get("/", "Content-Length: " + "0" * 5000 + str(len(body)), method="POST", body=body).json()
    assert facts["strings"]["CONTENT_LENGTH"] == str(len(body))
    assert facts["read"] == body.decode()


def test_other_content_fields_keep_the_prefix(server: Any) -> None:
    strings = server.get("/", "Content-Encoding: x", "Content-Language: cs").json()["strings"]
    assert strings["HTTP_CONTENT_ENCODING"] == "x"
    assert strings["HTTP_CONTENT_LANGUAGE"] == "cs"


def test_a_chunked_body_ends_by_itself(server: Any) -> None:
    """CONTENT_LENGTH is absent, or the length after decoding as RFC 3875, 4.1.2 has it."""
    facts = server.get("/", "Transfer-Encoding: chunked", method="POST", body=b"3\r\nabc\r\n0\r\n\r\n").json()
    assert facts["read"] == "abc"
    assert facts["strings"].get("CONTENT_LENGTH", "") in ("", "3")
    assert facts["input_terminated"] is True


def test_httpoxy(server: Any) -> None:
    assert "HTTP_PROXY" not in server.get("/", "Proxy: http://evil/", "pRoXy: b").json()["keys"]


def test_an_underscore_spoofs_nothing(server: Any) -> None:
    strings = server.get("/", "X-Real: yes", "X_Real: no", "Content_Type: forged", "Content_Length: 7").json()[
        "strings"
    ]
    assert strings["HTTP_X_REAL"] == "yes"
    assert not strings.get("CONTENT_TYPE")
    assert not strings.get("CONTENT_LENGTH")
    assert "HTTP_CONTENT_TYPE" not in strings


def test_repeated_fields_are_joined(server: Any) -> None:
    strings = server.get(
        "/", "X-A: 1", "Cookie: a=1", "x-a: 2", "Cookie: b=2", "X-A:", "Accept: a", "Accept: b"
    ).json()["strings"]
    assert strings["HTTP_X_A"] == "1,2,"
    assert strings["HTTP_COOKIE"] == "a=1; b=2"
    assert strings["HTTP_ACCEPT"] == "a,b"


def test_every_usual_field_is_told(server: Any) -> None:
    """A lookup table for usual names must not mix them up."""
    names = [
        "Accept",
        "Accept-Charset",
        "Accept-Encoding",
        "Accept-Language",
        "Access-Control-Request-Headers",
        "Access-Control-Request-Method",
        "Authorization",
        "Cache-Control",
        "Cookie",
        "DNT",
        "Date",
        "Forwarded",
        "From",
        "If-Match",
        "If-Modified-Since",
        "If-None-Match",
        "If-Range",
        "If-Unmodified-Since",
        "Max-Forwards",
        "Origin",
        "Pragma",
        "Priority",
        "Range",
        "Referer",
        "Sec-Fetch-Dest",
        "Sec-Fetch-Mode",
        "Sec-Fetch-Site",
        "Sec-Fetch-User",
        "TE",
        "Upgrade-Insecure-Requests",
        "User-Agent",
        "Via",
        "Warning",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Proto",
        "X-Real-Ip",
        "X-Request-Id",
        "X-Requested-With",
    ]
    for spelled in (names, [name.lower() for name in names], [name.upper() for name in names]):
        strings = server.get("/", *[f"{name}: v-{name}" for name in spelled]).json()["strings"]
        for name in spelled:
            assert strings["HTTP_" + name.upper().replace("-", "_")] == f"v-{name}"


def test_methods_are_case_sensitive(server: Any) -> None:
    for method in ("GET", "get", "Patch", "X-OWN"):
        assert server.get("/", method=method).json()["strings"]["REQUEST_METHOD"] == method


def test_facts_of_the_configuration(serve: Any, any_shape: Any) -> None:
    ini = "[application]\ncolour = blue\n[environ]\nTEST_Own = from the ini, \N{SNOWMAN}\n"
    server = serve(TYPES, any_shape, ini=ini, webmaster="Ji\u0159\xed", debug=True, log_level="debug")
    facts = server.get("/").json()
    assert facts["strings"]["SERVER_ADMIN"].encode("latin-1").decode() == "Ji\u0159\xed"
    assert facts["strings"]["TEST_Own"].encode("latin-1").decode() == "from the ini, \N{SNOWMAN}"
    assert facts["options"] == {"colour": "blue"}
    assert facts["debug"] is True
    assert facts["log_level"] == "debug"


ERRORS = """
def application(environ, start_response):
    stream = environ["wsgi.errors"]
    stream.write("first \\u20ac\\n")
    stream.writelines(["second\\n", "third\\n"])
    stream.flush()
    print("printed", environ["PATH_INFO"], file=stream)
    if environ["PATH_INFO"] == "/close":
        stream.close()
    start_response("200 OK", [("Content-Length", "0")])
    return []
"""


def test_wsgi_errors_is_a_text_stream_to_the_error_log(serve: Any, any_shape: Any, until: Any) -> None:
    server = serve(ERRORS, any_shape)
    assert server.get("/there").status == 200
    until(lambda: "printed /there" in server.errors(), "the text in the error log")
    for text in ("first ", "second\n", "third\n"):
        assert text in server.errors()


def test_an_application_that_closes_wsgi_errors_closes_it_for_no_other(serve: Any, any_shape: Any, until: Any) -> None:
    server = serve(ERRORS, any_shape)
    for path in ("/close", "/close", "/after"):
        assert server.get(path).status == 200
    until(lambda: "printed /after" in server.errors(), "the text in the error log")


def test_the_software_has_the_version_of_the_package(serve: Any) -> None:
    software = serve("echo").get("/").json()["environ"]["SERVER_SOFTWARE"]
    assert software == f"poorhttp/{poorhttp.__version__}"
