"""The Python in docs/, run as it stands there: each snippet is a module that works when it is pasted.

Pages whose snippets need a store, a server or a reader have tests of their own, which ELSEWHERE names.
"""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

import pytest
from dispatching import Sent, call

import poorhttp
from poorhttp.dispatch import application

ROOT = Path(__file__).resolve().parents[2]
FOUND = {
    path.stem: re.findall(r"^```python\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for path in (ROOT / "docs").glob("*.md")
}
SNIPPETS = {page: snippets for page, snippets in FOUND.items() if snippets}
ELSEWHERE = {
    "cache": "cache/test_cache_docs.py",
    "warmup": "process/test_warmup_docs.py",
    "sessions": "sessions/test_sessions_docs.py",
    "monitoring": "process/test_metrics.py",
    "tutorial": "process/test_tutorial.py",
    "uploads": "unit/test_guides.py",
    "testing": "unit/test_guides.py",
}
FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}
HERE = [(page, number) for page in SNIPPETS if page not in ELSEWHERE for number in range(len(SNIPPETS[page]))]

Run = Callable[[str, int], ModuleType]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Import a snippet from a file of its own. The first one of docs/dispatch.md is there as `dispatch_table`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "dispatch_table.py").write_text(SNIPPETS["dispatch"][0], encoding="utf-8")
    made = ["dispatch_table"]

    def imported(page: str, number: int) -> ModuleType:
        made.append(f"snippet_{page}_{number}")
        text = SNIPPETS[page][number].replace("/srv/site", str(tmp_path))
        (tmp_path / "www").mkdir(exist_ok=True)
        (tmp_path / f"{made[-1]}.py").write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        return importlib.import_module(made[-1])

    yield imported
    for name in made:
        sys.modules.pop(name, None)


def post(app: Any, path: str, **fields: str) -> Sent:
    return call(app, path, "POST", urlencode(fields).encode(), **FORM)


@pytest.mark.parametrize(("page", "number"), HERE)
def test_each_snippet_works_when_it_is_pasted(run: Run, page: str, number: int) -> None:
    module = run(page, number)
    if hasattr(module, "handlers"):
        application(module)


def test_what_is_tested_elsewhere_is() -> None:
    for page, file in ELSEWHERE.items():
        assert f"{page}.md" in (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert page in SNIPPETS


def test_the_table(run: Run) -> None:
    app = application(run("dispatch", 0))
    page = call(app, "/guestbook")
    assert (page.text, page.header("Content-Type")) == ("Leave your name\n", "text/plain; charset=utf-8")
    assert page.header("Cache-Control") == "no-store"
    sent = post(app, "/guestbook", name="Ada")
    assert sent.code == 302 and sent.header("Location") == "/guestbook" and "Ada was here" in sent.log
    assert call(app, "/nothing").text == "<p>There is no such page.</p>"


def test_decorators(run: Run) -> None:
    app = application(run("dispatch", 1))
    assert call(app, "/user/Ada").text == "Ada"
    missing = call(app, "/nothing")
    assert (missing.code, missing.text) == (404, "There is no such page.")


def test_a_template(run: Run) -> None:
    app = application(run("dispatch", 2))
    assert call(app, "/hello/<Ada>").text == "<h1>Hello &lt;Ada&gt;</h1>"


def test_under_other_servers(run: Run) -> None:
    assert call(run("dispatch", len(SNIPPETS["dispatch"]) - 1).application, "/guestbook").text == "Leave your name\n"


def test_a_pattern(run: Run) -> None:
    module = run("patterns", 0)
    app = application(module)
    assert call(app, "/blog/1999/a b.html").text == "a b of 2000"
    assert call(app, "/blog/99/a.html").code == 404
    (path,) = re.findall(r"here `(/.*?)`", (ROOT / "docs" / "patterns.md").read_text(encoding="utf-8"))
    module.handlers["/"] = (2, lambda req: req.url_for("article", year=1999, title="a b"))
    assert call(application(module)).text == path


def test_fields_of_a_form(run: Run) -> None:
    app = application(run("request", 0))
    parts = [("tag", "", "a"), ("tag", "", "b"), ("name", "", "Ada"), ("photo", '; filename="p.png"', "12345")]
    body = "".join(
        f'--edge\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{text}\r\n' for name, more, text in parts
    )
    multipart = {"CONTENT_TYPE": "multipart/form-data; boundary=edge"}
    sent = call(app, "/upload", "POST", f"{body}--edge--\r\n".encode(), QUERY_STRING="page=7", **multipart)
    assert sent.text == '{"page":7,"tags":["a","b"],"name":"Ada","bytes":5}'
    assert post(app, "/upload", tag="a").code == 400
    assert call(app, "/upload", "POST", QUERY_STRING="page=x", **multipart).code == 400


def test_where_a_client_may_be_sent(run: Run) -> None:
    app = application(run("request", 1))

    def led(target: str) -> tuple[int, str | None]:
        sent = call(app, "/login", QUERY_STRING=urlencode({"next": target}))
        return sent.code, sent.header("Location")

    assert led("/cart?item=1") == (303, "/cart?item=1")
    assert led("") == (303, "/")
    for host in "https://evil.example", "//evil.example", "/\\evil.example", "/\t/evil.example", " //evil.example":
        assert led(host) == (400, None)


def test_a_field_for_static_files(run: Run, tmp_path: Path) -> None:
    module = run("files", 0)
    (tmp_path / "www" / "static").mkdir(parents=True)
    (tmp_path / "www" / "static" / "a.css").write_text("p {}")
    module.handlers = {}  # type: ignore[attr-defined]
    app = application(module, document=str(tmp_path / "www"))
    assert call(app, "/static/a.css").header("Cache-Control") == "max-age=3600"


def test_a_program_that_serves_itself(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(poorhttp, "run", lambda app, **settings: asked.update(settings, app=app))
    exec(compile(SNIPPETS["serving"][0], "serving.py", "exec"), {"__name__": "__main__"})
    assert asked["type"] == "threading" and asked["address"] == "127.0.0.1:8080"
    assert call(asked["app"]).body == b"Hello, world!"
