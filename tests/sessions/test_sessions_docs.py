"""The snippets of docs/sessions.md, run as they stand there; and its tables beside what they describe."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from session_client import Client

from poorhttp import http
from poorhttp.dispatch import application
from poorhttp.sessions import SessionError, Sessions
from poorhttp.sessions.addresses import FORMS
from poorhttp.sessions.policy import Policy

TEXT = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text(encoding="utf-8")
SNIPPETS = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", TEXT, re.DOTALL))


@pytest.fixture(autouse=True)
def gone_afterwards() -> Iterator[None]:
    """Modules that are named like those of other tests are gone when the test is over."""
    yield
    for name in SNIPPETS:
        sys.modules.pop(name, None)


def module(name: str, directory: Path) -> ModuleType:
    """Run a snippet, with its store in a directory."""
    made = ModuleType(name)
    made.__file__ = str(directory / f"{name}.py")
    sys.modules[name] = made
    exec(compile(SNIPPETS[name].replace("/var/lib/mysite", str(directory)), f"{name}.py", "exec"), made.__dict__)
    return made


def asked(app: Any, times: int = 2) -> list[str]:
    """What a browser gets that asks several times."""
    client = Client(is_valid=False)
    client.sessions.wrap = lambda inner: inner  # type: ignore[method-assign]
    return [client.ask(app) for _ in range(times)]


def test_every_snippet_is_known() -> None:
    assert len(SNIPPETS) == TEXT.count("```python") == 6


def test_the_table(tmp_path: Path) -> None:
    table = module("dispatch_table", tmp_path)
    assert asked(application(table)) == ["You were here 1 times.", "You were here 2 times."]
    table.sessions.store.close()


@pytest.mark.parametrize("name", ["flask_app", "bottle_app"])
def test_the_frameworks(name: str, tmp_path: Path) -> None:
    app = module(name, tmp_path).app
    assert asked(app) == ["You were here 1 times.", "You were here 2 times."]
    (app.wsgi_app if name == "flask_app" else app).sessions.store.close()


def test_login_and_logout(tmp_path: Path) -> None:
    snippet, client = module("login", tmp_path), Client()
    client.do(lambda session: session.update(cart=[1]))
    before = client.token
    client.do(lambda session: snippet.login(session, "root"))
    assert client.token != before and client.do(dict) == "{'cart': [1], 'user': 'root'}"
    client.do(snippet.logout)
    assert not client.jar


def test_the_signed_cookie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SESSION_SECRET", raising=False)
    with pytest.raises(SessionError, match=r"need secrets=\.\.\., which is None: make a secret with python3 -c"):
        module("signed", tmp_path)
    monkeypatch.setenv("SESSION_SECRET", "s" * 32)
    sessions: Sessions = module("signed", tmp_path).sessions
    client = Client()
    client.sessions = sessions
    client.do(lambda session: session.update(a="x" * 2900))
    assert client.do(lambda session: len(session["a"])) == "2900"


def test_forms_of_other_sites(tmp_path: Path) -> None:
    handlers = {"/": (http.METHOD_POST, lambda req: "changed")}
    app = application(SimpleNamespace(handlers=handlers, pre_process=module("origin", tmp_path).pre_process))
    client = Client()
    client.sessions = SimpleNamespace(wrap=lambda inner: inner)  # type: ignore[assignment]

    def post(**fields: str) -> str:
        client.ask(app, REQUEST_METHOD="POST", **fields)
        return client.status

    assert post() == post(HTTP_ORIGIN="https://www.example.org") == "200 OK"
    for origin in "http://www.example.org", "https://www.example.org:444", "https://evil.example", "null", "":
        assert post(HTTP_ORIGIN=origin) == "403 Forbidden"


def test_the_tables_have_every_address_and_every_setting() -> None:
    addresses = re.findall(r"^\| `(\w+):", TEXT, re.MULTILINE)
    assert sorted(addresses) == sorted([*FORMS, "cookie"])
    settings = dict(re.findall(r"^\| `(\w+)` \|([^|]*)\|", TEXT, re.MULTILINE))
    named = {*settings, "lock_timeout"}
    assert named == {*set(Policy.__slots__) - {"refresh"}, *("cookie", "secure", "same_site", "persistent", "secrets")}
    policy = Policy()
    for name in "idle", "absolute", "rotation_grace", "max_bytes":
        assert float(settings[name]) == getattr(policy, name)
