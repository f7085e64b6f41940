"""Under the real Apache with mod_python a dispatch table gives the answers that it gives under poorhttp, but for times."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from apache import Apache, Site, needs_apache
from comparing import INI, REQUESTS, TABLE, Ask, Request, asker, exchange, write_files
from processes import package_home
from server import Server

pytestmark = needs_apache

EXAMPLES = Path(package_home()) / "examples"

OPTIONS = """
    PythonOption poorhttp.webmaster "gr\u00fc\u00dfe@example.com"
    PythonOption poorhttp.document DIRECTORY/www
    PythonOption poorhttp.index yes
    PythonOption Greeting "ahoj sv\u011bte"
"""


def manual() -> str:
    """The configuration in the manual, with the places of the test."""
    page = (Path(package_home()) / "docs" / "apache.md").read_text(encoding="utf-8")
    text = page.partition("```apache\n")[2].partition("```")[0]
    places = {"/srv/site/www": "DIRECTORY/www", "/srv/site": "DIRECTORY/site-manual", "/srv/poorhttp": package_home()}
    for place, here in places.items():
        assert place in text
        text = text.replace(place, here)
    return text


@pytest.fixture(scope="module")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apache]:
    made = tmp_path_factory.mktemp("made") / "hello"
    command = [sys.executable, "-m", "poorhttp", "init", str(made)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    started = Apache(
        Site("table", TABLE, OPTIONS),
        Site("examples", EXAMPLES, OPTIONS),
        Site("tour", EXAMPLES / "tour", OPTIONS + "    PythonInterpreter main_interpreter"),
        Site("manual", TABLE, location="/unused", host=manual()),
        Site("made", made, host="ServerAdmin root@localhost"),
        Site("unowned", made),
    )
    write_files(started.directory / "www")
    (started.directory / "apache" / "page").mkdir()  # what Apache's own files have is never seen
    try:
        yield started.start()
    finally:
        started.stop()


@pytest.fixture
def both(apache: Apache, serve: Callable[..., Server]) -> tuple[Ask, Ask]:
    """Ask Apache, and poorhttp with the same table."""
    ours = serve(str(apache.application("table")), errors=("on purpose",), ini=INI.format(directory=apache.directory))
    return apache.ask("table"), asker(ours.address[1])


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: f"{each[0]} {each[1]}")
def test_the_answers_are_those_of_poorhttp(both: tuple[Ask, Ask], request_: Request) -> None:
    """Status, reason, fields and body; for GET also those of HEAD."""
    method, path, body, fields = request_
    under_apache, under_poorhttp = (ask(method, path, body, **fields) for ask in both)
    assert under_apache == under_poorhttp
    if method == "GET":
        under_apache, under_poorhttp = (ask("HEAD", path, **fields) for ask in both)
        # Apache leaves out a length of 0, as RFC 9110 section 8.6 allows.
        assert [field for field in under_poorhttp[2] if field != ("content-length", "0")] == under_apache[2]
        assert under_apache[:2] == under_poorhttp[:2]


def test_an_http_1_0_client_without_host_is_served(apache: Apache) -> None:
    answer = exchange(apache.connect("table"), b"GET /told HTTP/1.0\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK") and b'"hostname":"localhost"' in body
    assert exchange(apache.connect("table"), b"GET /stream HTTP/1.0\r\n\r\n").endswith(b"\r\n\r\nfirst second")


@pytest.mark.parametrize("path", ["/", "/light", "/heavy", "/missing"])
def test_the_examples_are_the_same(apache: Apache, serve: Callable[..., Server], path: str) -> None:
    ours = asker(serve(str(apache.application("examples")), ini=INI.format(directory=apache.directory)).address[1])
    assert apache.ask("examples")("GET", path) == ours("GET", path)
    assert "Initialisation ..." in apache.log()


@pytest.mark.parametrize("path", ["/", "/hello/w%C3%B6rld", "/sum/20/22", "/countdown", "/old", "/nothing", "/fail"])
def test_the_tour_is_the_same(apache: Apache, serve: Callable[..., Server], path: str) -> None:
    settings = {"errors": ("always fails",), "ini": INI.format(directory=apache.directory)}
    ours = asker(serve(str(apache.application("tour")), **settings).address[1])
    assert apache.ask("tour")("GET", path) == ours("GET", path)


def test_the_configuration_of_the_manual_works(apache: Apache) -> None:
    ask = apache.ask("manual")
    assert b'"options":{"greeting":"Good morning"}' in ask("GET", "/cookie")[3]
    assert b"webmaster: root@localhost" in ask("GET", "/missing")[3]
    assert ask("GET", "/page.txt")[0] == 200


def test_the_table_that_init_writes_is_the_same(apache: Apache, serve: Callable[..., Server]) -> None:
    ours = asker(serve(str(apache.application("made"))).address[1])
    for path in ("/", "/missing"):
        assert apache.ask("made")("GET", path) == ours("GET", path)
    assert b"It works" in apache.ask("made")("GET", "/")[3]
    assert b"no address given" not in apache.ask("unowned")("GET", "/missing")[3]
