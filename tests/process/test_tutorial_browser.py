"""What docs/tutorial.md says of browsers, in Chromium: which forms of other sites reach the guest book, with which cookie."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import tutorial
from browser import MISSING, PATH, Browser
from starter import Start
from tutorial import PASSWORD, Reader

pytestmark = pytest.mark.skipif(PATH is None, reason=MISSING)

BEFORE = "Forms on other sites"
FIELDS = {"/": {"text": "evil"}, "/login": {"name": "eve", "password": PASSWORD}, "/logout": {"": ""}}


class Evil(http.server.BaseHTTPRequestHandler):
    """A page whose form is sent to the address in its query as soon as it is loaded."""

    def do_GET(self) -> None:
        address = self.path.partition("?")[2]
        fields = FIELDS["/" + address.rpartition("/")[2]]
        inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
        page = f'<form method="post" action="{address}">{inputs}</form><script>document.forms[0].submit()</script>'
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def evil() -> Iterator[int]:
    """The port of another site."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(20)


@pytest.fixture
def reader(tmp_path: Path, launch: Start) -> Iterator[Reader]:
    made = Reader(tmp_path, launch)
    steps = tutorial.steps()
    for title in [*steps][: [*steps].index(BEFORE)]:
        made.follow(steps[title])
    made.type("python3 accounts.py eve")
    with contextlib.closing(made.browser):
        yield made


@pytest.mark.timeout(180)
def test_forms_of_other_sites(reader: Reader, evil: int, tmp_path: Path) -> None:
    """`localhost` is another site than `127.0.0.1`; another port of `127.0.0.1` is a neighbour, of the same site."""
    assert reader.server is not None
    site = f"http://127.0.0.1:{reader.server.port}"
    with Browser(tmp_path / "profile") as browser:

        def log_in() -> None:
            browser.go(f"{site}/login")
            browser.await_text("Password")
            browser.value(
                "document.forms[0].name.value = 'ada';"
                f"document.forms[0].password.value = '{PASSWORD}'; document.forms[0].submit()"
            )
            browser.await_text("Log out ada")

        def see(host: str, path: str, text: str) -> None:
            """Load the page of another host, and wait for what its form brings."""
            browser.go(f"http://{host}:{evil}/?{site}{path}")
            browser.await_text(text)

        def home(text: str, entries: int) -> None:
            """Load the guest book: it has this text, and so many entries of other sites."""
            browser.go("about:blank")
            browser.go(f"{site}/")
            browser.await_text(text)
            assert browser.value("document.body.innerText").count("evil") == entries

        log_in()
        see("localhost", "/", "Password")  # the page for the login: no cookie came with the form
        home("Log out ada", entries=0)
        see("127.0.0.1", "/", "ada, 20")
        home("Log out ada", entries=1)
        see("localhost", "/login", "Log out eve")
        see("localhost", "/logout", "Log out eve")
        home("Log out eve", entries=1)
        reader.follow(tutorial.steps()[BEFORE])
        log_in()
        for host in "localhost", "127.0.0.1":
            for path in FIELDS:
                see(host, path, "403 - Forbidden")
                home("Log out ada", entries=1)
