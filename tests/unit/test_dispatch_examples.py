"""The examples, called as a server calls them."""

import importlib
import re
import sys
from pathlib import Path

import pytest
from dispatching import call

from poorhttp.dispatch import application

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    names = ("dispatch_table", "light", "heavy", "hello", "simple", "flask_hello")
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


def test_the_articles_pages(examples):
    app = application(examples("dispatch_table"))
    first = call(app)
    assert "light version of the test" in first.text
    assert first.header("Content-Type") == "text/html; charset=utf-8"
    assert re.search(r"<code>\d{4}-\d\d-\d\d</code>.*\n.*<code>\d\d:\d\d:\d\d</code>", first.text)
    assert first.log.endswith("[N] Initialisation ...\n")
    assert call(app, "/light").log == ""
    heavy = call(app, "/heavy").text
    assert heavy.count(" - ok</code>") == 5
    assert heavy.count(" - fail</code>") == 10
    assert sys.version in heavy
    assert call(app, "/light", "POST").code == 405
    assert call(app, "/nowhere").code == 404


def test_hello(examples):
    assert call(examples("hello").application).body == b"Hello, world!"


def test_simple(examples):
    app = examples("simple").application
    assert 'value=""' in call(app).text
    assert "&lt;b&gt; ž" in call(app, method="POST", body=b"text=%3Cb%3E+%C5%BE").text
    assert "&lt;i&gt;" in call(app, QUERY_STRING="text=<i>").text
    assert call(app, "/x").code == 404
    assert call(app, method="PUT").header("Allow") == "GET, HEAD, POST"


def test_flask(examples):
    pytest.importorskip("flask")
    assert call(examples("flask_hello").app).text == "<p>Hello from Flask</p>"
