"""docs/tutorial.md, followed by a reader who does all that it says: each step shows what the page promises, and the last
state is examples/guestbook/. The server of its last step is tried behind the real lighttpd in test_tutorial_served.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
import tutorial
from fronts import program
from starter import ROOT, Start
from tutorial import PASSWORD, Reader

EXAMPLE = ROOT / "examples" / "guestbook"
PNG = b"\x89PNG\r\n\x1a\n and more"


def a_page(reader: Reader) -> None:
    page = reader.get()
    assert "I &lt;3 it." in page and page.count("<article>") == 2


def a_style_sheet(reader: Reader) -> None:
    sheet = reader.ask("/style.css")
    assert sheet.headers["Content-Type"] == "text/css; charset=utf-8" and "color-scheme" in sheet.text
    assert reader.ask("/storage.py").status_code == reader.ask("/../dispatch_table.py").status_code == 404


def a_form(reader: Reader) -> None:
    sent = reader.ask("/", data={"author": "<Eve>", "text": "<script>"})
    assert [each.status_code for each in sent.history] == [303]
    assert sent.text.count("<article>") == 3 and "&lt;script&gt;" in sent.text and "&lt;Eve&gt;" in sent.text
    assert reader.get() == sent.text
    assert reader.ask("/", data={"author": "Eve"}).status_code == 400
    assert with_a_change_saved(reader).count("<article>") == 2


def a_database(reader: Reader) -> None:
    assert reader.said == f"The tables are in {reader.directory / 'guestbook.db'}\n"
    reader.ask("/", data={"author": "Eve'); DROP TABLE entries; --", "text": "x" * 3000})
    page = with_a_change_saved(reader)
    assert page.count("<article>") == 1 and "Eve&#x27;); DROP" in page and page.count("x") < 2100
    assert reader.ask("/guestbook.db").status_code == 404


def users_and_passwords(reader: Reader) -> None:
    assert reader.said.endswith("True False\n")
    assert PASSWORD.encode() not in (reader.directory / "guestbook.db").read_bytes()


def login(reader: Reader) -> None:
    assert "Log in" in reader.get() and "<form" not in reader.get()
    assert "<h1>Log in</h1>" in reader.ask("/", data={"text": "unwanted"}).text
    for wrong in {"name": "ada", "password": "guess"}, {"name": "eve", "password": PASSWORD}:
        refused = reader.ask("/login", data=wrong)
        assert refused.status_code == 403 and "is wrong" in refused.text and not reader.browser.cookies
    assert "Log out ada" in reader.ask("/login", data={"name": "ada", "password": PASSWORD}).text
    written = reader.ask("/", data={"text": "I was here", "author": "Eve"}).text
    assert "I was here" in written and "<footer>ada," in written and "unwanted" not in written
    (kept,) = reader.browser.cookies
    assert "<form" not in reader.ask("/logout", data={"": ""}).text
    reader.browser.cookies.set_cookie(kept)
    assert "<form" not in reader.get(), "the session has ended at the server too"


def forms_on_other_sites(reader: Reader) -> None:
    assert reader.said.partition("HTTP/1.1 ")[2].startswith("403 Forbidden")
    assert "POST" not in reader.said and "<h1>403 - Forbidden</h1>" in reader.said
    for origin, status in ("null", 403), ("https://127.0.0.1", 403):
        reader.browser.headers["Origin"] = origin
        assert reader.ask("/login", data={"name": "ada", "password": PASSWORD}).status_code == status
    assert reader.server is not None
    reader.browser.headers["Origin"] = f"http://127.0.0.1:{reader.server.port}"
    assert "Log out ada" in reader.ask("/login", data={"name": "ada", "password": PASSWORD}).text


def pictures(reader: Reader) -> None:
    page = reader.ask("/", data={"text": "with a picture"}, files={"picture": ("../../p.html", PNG, "text/html")}).text
    (path,) = re.findall(r'<img src="(.*?)"', page)
    picture = reader.ask(path)
    assert picture.content == PNG and picture.headers["Content-Type"] == "image/png"
    assert picture.headers["X-Content-Type-Options"] == "nosniff"
    refused = reader.ask("/", data={"text": "with a page"}, files={"picture": ("p.png", b"<script>", "image/png")})
    assert refused.status_code == 415 and "neither a PNG nor a JPEG" in refused.text
    assert "with a page" not in reader.get()
    empty = reader.ask("/", files={"text": (None, "without one"), "picture": ("", b"", "application/octet-stream")})
    assert "without one" in empty.text and empty.text.count("<img") == 1
    for number in "0", "999", "9" * 18, "9" * 30, "-1", "1.0", "%d9%a1":
        assert reader.ask(f"/picture/{number}").status_code == 404
    assert reader.ask("/", data={"text": "y"}, files={"picture": ("p.png", PNG + bytes(2**22))}).status_code == 413


def a_page_for_errors(reader: Reader) -> None:
    answer = reader.ask("/nothing")
    assert answer.status_code == 404 and "There is no such page." in answer.text and "/style.css" in answer.text


def a_test(reader: Reader) -> None:
    assert reader.said.endswith("\nOK\n")
    pages, tested = reader.directory / "dispatch_table.py", reader.get()
    whole = pages.read_text()
    for broken in (
        ("<p>{escape(text)}", "<p>{text}"),
        ('"Origin", here', '"Origin-", here'),
        ("user is None:", "user == 0:"),
    ):
        assert whole.count(broken[0]) >= 1
        pages.write_text(whole.replace(*broken))
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "unittest"],
            cwd=reader.directory,
            env=reader.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1 and "FAILED" in done.stderr, broken
    pages.write_text(whole)
    assert reader.get() == tested, "the tests have left the data alone"


def with_a_change_saved(reader: Reader) -> str:
    """The page after a word of it was changed; the change is taken back afterwards."""
    pages = reader.directory / "dispatch_table.py"
    whole = pages.read_text()
    pages.write_text(whole.replace("<button>Write", "<button>Send"))
    page = reader.get()
    assert "<button>Send" in page
    pages.write_text(whole)
    return page


SEEN: dict[str, Callable[[Reader], None]] = {
    "A page": a_page,
    "A style sheet": a_style_sheet,
    "A form": a_form,
    "A database": a_database,
    "Users and passwords": users_and_passwords,
    "Login": login,
    "Forms on other sites": forms_on_other_sites,
    "Pictures": pictures,
    "A page for errors": a_page_for_errors,
    "Tests": a_test,
}
SERVED = "A server"


@pytest.fixture
def reader(tmp_path: Path, launch: Start) -> Iterator[Reader]:
    program("curl")
    with contextlib.closing(requests.Session()) as browser:
        made = Reader(tmp_path, launch)
        made.browser = browser
        yield made


@pytest.mark.timeout(180)
def test_each_step_shows_what_the_page_says(reader: Reader) -> None:
    steps = tutorial.steps()
    assert [*steps] == [*SEEN, SERVED]
    assert sum(map(len, steps.values())) == tutorial.TEXT.count("\n```") // 2
    for title, look in SEEN.items():
        reader.follow(steps[title])
        look(reader)
    files = {path.relative_to(EXAMPLE): path for path in EXAMPLE.rglob("*") if path.is_file() and "__" not in str(path)}
    for name, path in files.items():
        assert (reader.directory / name).read_text() == path.read_text(), name
    made = {path.name for path in reader.directory.rglob("*.*") if "__" not in str(path)}
    assert {name for name in made if ".db" not in name} == {path.name for path in files.values()}


def test_a_block_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a comment with the name of its file"):
        tutorial.read_block("python", "import os\n")


def test_changes_replace_what_is_there_and_add_the_rest_above_the_table() -> None:
    old = '"""What."""\n\nimport a\nimport b\n\nA = 1\n\n\ndef f():\n    pass\n\n\nhandlers = {}\n'
    new = "import c\n\nimport d\n\n\ndef g():\n    pass\n\n\nA = 2\n\nhandlers = {1: g}\n"
    made = '"""What."""\n\nimport c\n\nimport d\n\nA = 2\n\n\ndef f():\n    pass\n\n\ndef g():\n    pass\n\n\nhandlers = {1: g}\n'
    assert tutorial.changed(old, new) == made
