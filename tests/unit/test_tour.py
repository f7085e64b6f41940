"""examples/tour: every link of its first page leads to what is said there."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from dispatching import call

from poorhttp.dispatch import application

TOUR = Path(__file__).resolve().parents[2] / "examples" / "tour"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(TOUR))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    yield importlib.import_module("dispatch_table")
    sys.modules.pop("dispatch_table", None)


@pytest.fixture
def tour(table: ModuleType) -> Any:
    return application(table)


def test_each_link_is_answered(tour: Any) -> None:
    links = re.findall(r'href="(.*?)"', call(tour).text)
    answers = {link: call(tour, link).code for link in links}
    others = {link: code for link, code in answers.items() if code != 200}
    assert others == {"/old": 301, "/nothing": 404, "/fail": 500} and len(answers) == 7


def test_each_page_of_the_table_is_linked_to(table: ModuleType, tour: Any) -> None:
    linked = "".join(re.findall(r'(?:href|action)="(/\w*)', call(tour).text))
    assert all(re.match(r"/\w*", pattern)[0] in linked for pattern in table.handlers)  # type: ignore[index]


def test_what_the_pages_show(tour: Any) -> None:
    assert call(tour, "/hello/<b>").text == '<p>Hello, &lt;b&gt;. <a href="/hello/%3Cb%3E!">Louder</a></p>\n'
    assert call(tour, "/sum/20/22").text == '{"a":20,"b":22,"sum":42}'
    assert call(tour, "/countdown").text == "5\n4\n3\n2\n1\nLift-off\n"
    assert "&lt;i&gt;" in call(tour, "/<i>").text
    assert call(tour, "/upload", "POST").code == 400


def test_visits_are_counted(tour: Any) -> None:
    first = call(tour, "/visits")
    cookie = str(first.header("Set-Cookie")).partition(";")[0]
    assert "here 1 times" in first.text and "here 2 times" in call(tour, "/visits", HTTP_COOKIE=cookie).text


def test_a_file_is_uploaded(tour: Any) -> None:
    field = 'Content-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain'
    sent = call(
        *(tour, "/upload", "POST", f"--edge\r\n{field}\r\n\r\n12345\r\n--edge--\r\n".encode()),
        CONTENT_TYPE="multipart/form-data; boundary=edge",
    )
    assert sent.text == '{"name":"a.txt","type":"text/plain","bytes":5}'
