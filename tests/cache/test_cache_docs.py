"""The snippets of docs/cache.md, run as they stand there; and its figures beside what they describe."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from poorhttp.cache import Cache

TEXT = (Path(__file__).parents[2] / "docs" / "cache.md").read_text(encoding="utf-8")
SNIPPETS = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", TEXT, re.DOTALL))


def module(name: str, path: str) -> Any:
    """Run a snippet, with its files beside `path`."""
    made = ModuleType(name)
    text = SNIPPETS[name].replace("/dev/shm/mysite", path)
    exec(compile(text, f"{name}.py", "exec"), made.__dict__)
    return made


def test_every_snippet_is_known() -> None:
    assert set(SNIPPETS) == {"page", "counting", "settings", "large"} and len(SNIPPETS) == TEXT.count("```python")


def test_a_page(path: str) -> None:
    snippet = module("page", path)
    assert snippet.page("a") == snippet.page("a") == "<h1>a</h1>"
    assert snippet.cache.stats()["hits"] == 1


def test_counting(path: str) -> None:
    snippet = module("counting", path)
    assert [snippet.is_allowed("a") for _ in range(11)] == [True] * 10 + [False]
    assert (snippet.once("a"), snippet.once("a"), snippet.once("b")) == (True, False, True)


def test_a_large_store(path: str) -> None:
    store = module("large", path).sessions.store
    version = store.save("key", b"data", 60, None)
    assert store.load("key") == (b"data", version)


def test_the_settings_of_django(path: str) -> None:
    pytest.importorskip("django")
    from django.utils.module_loading import import_string

    settings = module("settings", path).CACHES["default"]
    backend = import_string(settings.pop("BACKEND"))(settings.pop("LOCATION"), settings)
    backend.set("key", "value")
    assert backend.get("key") == "value"


def test_each_method_is_in_the_table() -> None:
    methods = {name for name, _ in inspect.getmembers(Cache, inspect.isroutine) if not name.startswith("_")}
    assert methods - {"lay_out"} == {name for name in methods if re.search(rf"`{name}\b", TEXT)}
    assert re.search(r"default size of 64\s+MiB, which has 16 shards", TEXT)
    assert Cache().largest == 1 << 20 and Cache().size == 64 << 20
    stats = re.search(r"`stats\(\)` \| (.*) \|", TEXT)
    assert stats and set(re.findall(r"`(\w+)`", stats[1])) == set(Cache(size=1 << 20).stats())
