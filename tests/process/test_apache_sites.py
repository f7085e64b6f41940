"""Sites under the real Apache, with each of its modules for processes and threads: sessions, https, and mount points."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from apache import Apache, Site, needs_apache
from comparing import Ask, asker
from login import COOKIE, LOGIN, SQLITE, Browser
from processes import package_home, wait_for

pytestmark = needs_apache

FACTS = """
from poorhttp import http

def facts(req, rest=""):
    req.set_cookie("plain", "1")
    names = ("SCRIPT_NAME", "PATH_INFO", "REQUEST_URI", "wsgi.url_scheme", "wsgi.multithread", "wsgi.multiprocess")
    return {**{name: req.environ[name] for name in names}, "uri": req.uri, "rest": rest,
            "link": req.construct_url(req.url_for("named", rest="a b")), "options": req.get_options()}

def cut(req):
    yield "first"
    raise ValueError("in the middle")

def streamed(req):
    yield "x" * 100_000
    yield "y" * 100_000

def named(req, rest):
    return facts(req, rest)

handlers = {"/": (http.METHOD_GET, facts), "/cut": (http.METHOD_GET, cut), "/streamed": (http.METHOD_GET, streamed),
            "/named/<rest:path>": (http.METHOD_GET, named)}
"""

FILES = "    PythonOption poorhttp.document DIRECTORY/www\n    PythonOption poorhttp.index yes"

# A second table of the same host needs an interpreter of its own: both are modules of one name.
OTHERS = f"""
<Location /app/named/inner>
    PythonOption greeting inner
</Location>
<Location /login>
    SetHandler mod_python
    PythonHandler poorhttp.dispatch.mod_python
    PythonInterpreter login
    PythonPath "['DIRECTORY/site-sqlite', '{package_home()}'] + sys.path"
    PythonAutoReload Off
</Location>
"""

PATTERN = f"""
<LocationMatch ^/(named|other)/>
    SetHandler mod_python
    PythonHandler poorhttp.dispatch.mod_python
    PythonPath "['DIRECTORY/site-mounted', '{package_home()}'] + sys.path"
    PythonAutoReload Off
</LocationMatch>
"""


@pytest.fixture(scope="module", params=["prefork", "worker", "event"])
def apache(request: pytest.FixtureRequest) -> Iterator[Apache]:
    started = Apache(
        Site("sqlite", LOGIN.replace("SESSIONS", SQLITE)),
        Site("cookie", LOGIN.replace("SESSIONS", COOKIE)),
        Site("secure", LOGIN.replace("SESSIONS", SQLITE), is_tls=True),
        Site("facts", FACTS, is_tls=True),
        Site("mounted", FACTS, FILES, location="/app/", host=OTHERS),
        Site("pattern", FACTS, location="/unused", host=PATTERN),
        mpm=request.param,
    )
    (started.directory / "www" / "directory").mkdir()
    (started.directory / "www" / "directory" / "file.txt").write_text("a file")
    try:
        yield started.start()
    finally:
        started.stop()


def secure(apache: Apache, name: str) -> Ask:
    context = ssl.create_default_context(cafile=str(apache.directory / "certificate.pem"))
    return asker(apache.ports[name], context)


def facts_of(ask: Ask, path: str) -> dict[str, Any]:
    status, _, _, body = ask("GET", path, Host="localhost")
    assert status == 200
    facts: dict[str, Any] = json.loads(body)
    return facts


@pytest.mark.parametrize("name", ["sqlite", "cookie", "secure"])
def test_a_client_logs_in_and_out(apache: Apache, name: str) -> None:
    browser = Browser(secure(apache, name) if name == "secure" else apache.ask(name))
    assert browser.ask("GET", "/") == (200, b"nobody")
    assert browser.ask("POST", "/login", b"user=anna")[0] == 302
    assert browser.cookie.startswith("__Host-session=" if name == "secure" else "session=")
    assert ("Secure" in browser.attributes) == (name == "secure")
    assert browser.ask("GET", "/") == (200, b"anna")
    assert browser.ask("GET", "/broken")[0] == 500
    assert browser.ask("GET", "/") == (200, b"anna")
    before = browser.cookie
    assert browser.ask("POST", "/login", b"user=bert")[0] == 302
    assert browser.cookie != before
    assert browser.ask("POST", "/logout", b"")[0] == 302
    assert browser.ask("GET", "/") == (200, b"nobody")


def test_processes_and_threads_share_the_sessions_of_one_browser(apache: Apache) -> None:
    browser = Browser(apache.ask("sqlite"))
    assert browser.ask("GET", "/count") == (200, b"1")
    fields = {"Host": "localhost", "Cookie": browser.cookie}
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda _: int(apache.ask("sqlite")("GET", "/count", **fields)[3]), range(20)))
    assert sorted(counts) == list(range(2, 22))


def test_https_is_told_to_the_application(apache: Apache) -> None:
    status, _, fields, body = secure(apache, "facts")("GET", "/", Host="localhost")
    facts = json.loads(body)
    assert (status, facts["wsgi.url_scheme"], facts["link"]) == (200, "https", "https://localhost/named/a%20b")
    assert [value for name, value in fields if name == "set-cookie"] == [
        "plain=1; Path=/; Secure; HttpOnly; SameSite=Lax"
    ]


def test_processes_that_have_threads_say_so(apache: Apache, request: pytest.FixtureRequest) -> None:
    facts = facts_of(apache.ask("mounted"), "/app/")
    has_threads = "prefork" not in request.node.name
    assert (facts["wsgi.multithread"], facts["wsgi.multiprocess"]) == (has_threads, True)


@pytest.mark.parametrize(
    ("path", "rest_of_path"),
    [("/app/", "/"), ("/app/named/x%20y/z?q", "/named/x y/z"), ("/app/named//%2e%2E/named/a", "/named/a")],
)
def test_the_path_of_a_location_is_the_mount_point(apache: Apache, path: str, rest_of_path: str) -> None:
    facts = facts_of(apache.ask("mounted"), path)
    assert (facts["SCRIPT_NAME"], facts["PATH_INFO"], facts["uri"]) == ("/app", rest_of_path, rest_of_path)
    assert facts["REQUEST_URI"] == path
    assert facts["link"] == "http://localhost/app/named/a%20b"


def test_options_of_an_inner_location_do_not_move_the_mount_point(apache: Apache) -> None:
    inner, outer = (facts_of(apache.ask("mounted"), path) for path in ("/app/named/inner", "/app/"))
    assert (inner["options"], inner["SCRIPT_NAME"]) == ({"greeting": "inner"}, "/app")
    assert outer["options"] == {}


def test_files_below_a_mount_point(apache: Apache) -> None:
    ask = apache.ask("mounted")
    assert ask("GET", "/app/directory/file.txt")[3] == b"a file"
    assert ("location", "/app/directory/?x") in ask("GET", "/app/directory?x")[2]
    assert b"<title>/app/directory/" in ask("GET", "/app/directory/")[3].replace(b"Index of ", b"")


def test_another_table_is_mounted_beside_it(apache: Apache) -> None:
    browser = Browser(apache.ask("mounted"))
    assert browser.ask("GET", "/login/count") == (200, b"1")
    assert browser.ask("GET", "/login/count") == (200, b"2")
    assert browser.ask("GET", "/login") == (200, b"nobody")
    assert apache.ask("mounted")("GET", "/login/named/x")[0] == 404


def test_an_answer_that_breaks_off_ends_its_connection_and_no_other(apache: Apache) -> None:
    """Not as if it were whole; and the client does not wait for the rest."""
    with closing(http.client.HTTPConnection("127.0.0.1", apache.ports["mounted"], timeout=20)) as connection:
        for _ in range(2):
            connection.request("GET", "/app/streamed")
            assert len(connection.getresponse().read()) == 200_000
        connection.request("GET", "/app/cut")
        with pytest.raises(http.client.IncompleteRead) as error:
            connection.getresponse().read()
        assert error.value.partial == b"first"
    assert apache.ask("mounted")("GET", "/app/")[0] == 200


def test_a_client_that_leaves_its_answer_is_no_error(apache: Apache) -> None:
    with apache.connect("mounted") as client:
        client.sendall(b"GET /app/streamed HTTP/1.1\r\nHost: a\r\n\r\n")
    assert apache.ask("mounted")("GET", "/app/")[0] == 200
    assert "client closed" not in apache.log()


def test_below_a_pattern_of_locations_paths_are_whole(apache: Apache) -> None:
    facts = facts_of(apache.ask("pattern"), "/named/x")
    assert (facts["SCRIPT_NAME"], facts["PATH_INFO"]) == ("", "/named/x")
    assert facts["link"] == "http://localhost/named/a%20b"


def test_a_graceful_restart_serves_changed_code(apache: Apache) -> None:
    table = apache.application("pattern") / "dispatch_table.py"
    table.write_text(FACTS + 'handlers["/changed"] = (http.METHOD_GET, lambda req: "changed")\n')
    apache.reload()
    ask = apache.ask("pattern")
    wait_for(lambda: ask("GET", "/unused/changed")[0] == 200, "the changed table to be served")
