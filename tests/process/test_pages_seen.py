"""Each page as a browser shows it: on a phone and on a desk, in light and dark colours, without a complaint."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from browser import MISSING, PATH, Browser
from starter import Server, Start, wait_for

from poorhttp import http
from poorhttp.dispatch import application
from poorhttp.dispatch.request import Request
from poorhttp.sessions import Sessions

pytestmark = pytest.mark.skipif(PATH is None, reason=MISSING)

PHONE, DESK = 360, 1280

REPORT = (Path(__file__).parents[2] / "bench" / "records" / "report.html").as_uri()

CONTRAST = """
(() => {
  const parsed = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = parsed(getComputedStyle(each).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [];
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const texts = [...element.childNodes].filter((each) => each.nodeType === 3 && each.data.trim());
    if (!texts.length || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const [one, other] = [light(parsed(ink)), light(behind(element))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    found.push([ratio, texts[0].data.trim()]);
  }
  return found;
})()
"""
"""The contrast of each text with what is behind it (WCAG 2.2, section 1.4.3), with the text."""

LONG = "a-very-long-name-of-a-file-that-does-not-fit-on-a-phone-without-wrapping-" + "x" * 80

FILES = {"a.css": 20, "b.png": 3000, "c.txt": 1, f"{LONG}.txt": 5}

TABLE = """
import os
import time

from poorhttp import http

def page(req):
    return "page"

def broken(req, number):
    basket = {"bread": 1, "butter": number}
    raise KeyError("there is no price for butter, nor for anything whose name is as long as this sentence")

def held(req, name):
    while not os.path.exists("go"):
        time.sleep(0.01)
    return "held"

handlers = {
    "/": (http.METHOD_GET, page),
    "/broken/<number:int>": (http.METHOD_GET, broken),
    "/held/<name>": (http.METHOD_GET, held),
}
"""


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Not on the terminal of the tests."""


def page(req: Request) -> str:
    return "page"


def form(req: Request) -> str:
    return f"{req.args['name']} is {req.args.getfirst('age', 0, int)}"


def broken(req: Request, number: int) -> str:
    raise KeyError(f"{number}: there is no price for butter, nor for anything that is as long as this sentence")


def article(req: Request, year: int, month: int, title: str) -> str:
    return f"{title} of {month}/{year}"


def setreq(req: Request) -> None:
    """Called before each request."""


EVERYTHING = SimpleNamespace(
    handlers={
        "/": (http.METHOD_GET, page),
        "/form": [(http.METHOD_GET, form), (http.METHOD_POST, page)],
        "/blog/<year:year>/<month:int>/<title:re:[a-z0-9]+(-[a-z0-9]+){0,20}:>.html": (http.METHOD_GET, article),
        "/broken/<number:int>": (http.METHOD_GET, broken),
    },
    converters={"year": (r"(19|20)[0-9]{2}", int)},
    errors={http.HTTP_GONE: page},
    setreq=setreq,
    sessions=Sessions("memory:"),
)
"""A table with all that /debug-info shows."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a table under the server of the standard library: its own pages, no better ones of a server."""
    root = tmp_path_factory.mktemp("www")
    (root / "files" / "empty").mkdir(parents=True)
    for name, size in FILES.items():
        (root / "files" / name).write_bytes(b"x" * size)
    options = {"greeting": "hello", "db_password": "qwerty1uiop"}
    app = application(EVERYTHING, debug=True, options=options, document=str(root), index=True)
    with make_server("127.0.0.1", 0, app, handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(30)


def check(browser: Browser, url: str, text: str) -> None:
    """Look at a page in each size and colour. text: which it shows."""
    browser.complaints.clear()
    for width in PHONE, DESK:
        for scheme in "light", "dark":
            browser.show(width, scheme)
            browser.go(url)
            browser.await_text(text)
            browser.value("document.querySelectorAll('details').forEach((each) => { each.open = true })")
            assert browser.value("document.documentElement.scrollWidth") <= width, (url, width)
            dark = browser.value("getComputedStyle(document.body).backgroundColor")
            assert (dark == "rgb(255, 255, 255)") is (scheme == "light"), (url, dark)
            contrasts = browser.value(CONTRAST)
            assert contrasts and [each for each in contrasts if each[0] < 4.5] == [], (url, scheme)
    assert browser.complaints == [], url


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/nowhere", "404 - Page Not Found"),
        ("/" + LONG * 3, LONG),
        ("/form", "the field 'name' is missing"),
        (f"/form?name=1&age={LONG}", LONG),
        ("/broken/7", "Exception Traceback"),
        ("/debug-info", "Environ"),
        ("/files/", "Index of /files/"),
        ("/files/empty/", "Index of /files/empty/"),
    ],
)
def test_pages_of_a_table(browser: Browser, plain: str, path: str, text: str) -> None:
    check(browser, plain + path, text)


def test_pages_of_the_server(browser: Browser, launch: Start, tmp_path: Path) -> None:
    (tmp_path / "dispatch_table.py").write_text(TABLE)
    server = launch(".", "--debug", "--port=0", "--type=threading", "--status-path=/server-status")
    server.await_address()
    url = f"http://127.0.0.1:{server.port}"
    check(browser, f"{url}/broken/7", "no price for butter")
    check(browser, f"{url}/nowhere", "404")
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", f"/held/{LONG}")
        wait_for(lambda: "/held/" in ask(server, "/server-status"), "the call to be seen")
        check(browser, f"{url}/server-status", LONG)
        (tmp_path / "go").touch()
        assert connection.getresponse().read() == b"held"


def ask(server: Server, path: str) -> str:
    with contextlib.closing(server.connection()) as connection:
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def test_the_report_of_the_bench(browser: Browser) -> None:
    check(browser, REPORT, "Written by python -m bench report")


def test_a_click_on_a_head_sorts_a_table_of_the_report(browser: Browser) -> None:
    """By numbers, and what has none stays at the end."""
    browser.show(DESK, "light")
    browser.go(REPORT)
    browser.await_text("Written by python -m bench report")
    wait_for(lambda: browser.value("document.readyState") == "complete", "the script of the page")
    table = "[...document.querySelectorAll('table')].find((each) => each.innerHTML.includes('FAILED'))"
    column = "document.querySelector('[aria-sort]').cellIndex"
    shown = f"[...table.tBodies[0].rows].map((row) => row.cells[{column}].textContent.replace(/,/g, ''))"
    for sign in 1, -1:
        click = "table.tHead.querySelectorAll('button')[1].click()"
        cells = browser.value(f"(() => {{ const table = {table}; {click}; return {shown}; }})()")
        numbers = [float(cell) for cell in cells if cell != "\N{EN DASH}"]
        assert len(numbers) > 1 and numbers == sorted(numbers, key=lambda number, sign=sign: sign * number)
        assert cells[len(numbers) :] == ["\N{EN DASH}"] * (len(cells) - len(numbers)) != []


def test_a_click_on_a_column_sorts_by_it(browser: Browser, plain: str) -> None:
    """And a second one in the other direction; the head tells which."""
    browser.show(DESK, "light")
    browser.go(f"{plain}/files/")
    browser.await_text("Index of")
    for column, by in (2, lambda name: FILES[name]), (0, str):
        for direction in "ascending", "descending":
            browser.value(f"document.querySelectorAll('th a')[{column}].click()")
            head = f"document.querySelectorAll('th')[{column}].getAttribute('aria-sort')"
            wait_for(lambda head=head, wanted=direction: browser.value(head) == wanted, f"{direction} order")
            shown = browser.value("[...document.querySelectorAll('td bdi')].map((each) => each.innerText)")
            assert shown == ["empty", *sorted(FILES, key=by, reverse=direction == "descending")]
