"""The programs in docs/uploads.md and docs/testing.md, run as they stand there."""

import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
from dispatching import call
from werkzeug.test import Client

from poorhttp import http
from poorhttp.dispatch import application
from poorhttp.sessions import Sessions

DOCS = Path(__file__).parents[2] / "docs"
PICTURE = b"\x89PNG<script>"


def program(page, name):
    """The text of the program `name` in one of the pages."""
    (found,) = re.findall(rf"```python\n# {name}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    return found


def test_the_album(tmp_path):
    text = program("uploads.md", "dispatch_table.py").replace("/var/lib/mysite/uploads", str(tmp_path))
    album = types.ModuleType("album")
    exec(compile(text, "album.py", "exec"), album.__dict__)
    app = application(album)
    head = b'--x\r\nContent-Disposition: form-data; name="photo"; filename="../me.html"\r\n\r\n'
    sent = call(
        app, "/upload", "POST", head + PICTURE + b"\r\n--x--\r\n", CONTENT_TYPE="multipart/form-data; boundary=x"
    )
    assert sent.code == 303
    (name,) = os.listdir(tmp_path)
    assert sent.header("Location") == f"/photo/{name}"
    sent = call(app, f"/photo/{name}")
    assert sent.body == PICTURE and sent.header("X-Content-Type-Options") == "nosniff"
    assert sent.header("Content-Disposition") == 'attachment; filename="me.html"'
    assert call(app, "/photo/abc").code == 404


def test_the_tests_of_the_guest_book(tmp_path):
    pages = [page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))]
    tables = re.findall(r"```python\n(# dispatch_table\.py\n.*?)```", "\n".join(pages), re.DOTALL)
    (table,) = (each for each in tables if "Leave your name" in each)
    (tmp_path / "dispatch_table.py").write_text(table)
    (tmp_path / "test_site.py").write_text(program("testing.md", "test_site.py"))
    assert "2 passed" in said_by_pytest(tmp_path)


def said_by_pytest(directory):
    """What pytest says of the tests in a directory."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_table_whose_store_is_elsewhere_is_tested_with_sessions_in_memory(tmp_path):
    for name in "dispatch_table.py", "test_visits.py":
        text = program("testing.md", name)
        (tmp_path / name).write_text(text.replace("/var/lib/mysite", "/proc/none"))
    assert "1 passed" in said_by_pytest(tmp_path)
    (tmp_path / "test_visits.py").write_text("import dispatch_table\n")
    with pytest.raises(AssertionError, match="there is no such directory"):
        said_by_pytest(tmp_path)


def test_sessions_in_memory_under_the_client_of_werkzeug():
    def count(req):
        req.session["count"] = req.session.get("count", 0) + 1
        return str(req.session["count"])

    table = types.SimpleNamespace(handlers={"/": (http.METHOD_GET, count)}, sessions=Sessions("memory:"))
    client = Client(application(table))
    assert [client.get("/").text for _ in range(3)] == ["1", "2", "3"]
    assert Client(application(table)).get("/").text == "1"
