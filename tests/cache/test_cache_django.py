"""The backend for Django: all of its cache API, templates, sessions and pages."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import pytest

pytest.importorskip("django")

from django.core.cache.backends.base import BaseCache, CacheKeyWarning
from django.core.exceptions import ImproperlyConfigured
from django.utils.safestring import SafeString, mark_safe

from poorhttp.cache.django import SharedCache

SIZE = 4 << 20


def made(path: str, /, **params: Any) -> SharedCache:
    options = {"size": SIZE, **params.pop("OPTIONS", {})}
    return SharedCache(path, {"OPTIONS": options, **params})


@pytest.fixture
def backend(path: str) -> SharedCache:
    return made(path)


def test_values(backend: SharedCache) -> None:
    for value in "text", b"bytes", 1, 1.5, True, None, [1, {"a": None}]:
        backend.set("key", value)
        assert backend.get("key", "none") == value and type(backend.get("key")) is type(value)
        assert backend.has_key("key") and "key" in backend
    assert backend.add("key", 1) is False and backend.add("other", 1) is True
    assert backend.delete("key") is True and backend.delete("key") is False
    assert backend.get("key") is None and backend.get("key", "none") == "none"
    assert backend.get_or_set("made", lambda: 7) == 7 == backend.get_or_set("made", 8)
    assert backend.set_many({"a": 1, "b": 2}) == [] and backend.get_many(["a", "b", "c"]) == {"a": 1, "b": 2}
    backend.delete_many(["a", "c"])
    assert backend.get_many(["a", "b"]) == {"b": 2}
    backend.clear()
    assert backend.get("b") is None


def test_keys_may_be_of_any_type(backend: SharedCache) -> None:
    backend.set(1, "one")
    backend.set(b"1", "bytes")
    assert backend.get("1") == "one" and backend.get(b"1") == "bytes" == backend.get("b'1'")


def test_counting(backend: SharedCache) -> None:
    backend.set("count", 1, 60)
    assert backend.incr("count") == 2 and backend.incr("count", 10) == 12 and backend.decr("count") == 11
    for number in 1.5, 2**70, 2**63 - 1:
        backend.set("number", number)
        assert backend.incr("number") == number + 1 == backend.get("number")
    backend.set("number", 1)
    assert backend.incr("number", 0.5) == 1.5
    for do in backend.incr, backend.decr:
        with pytest.raises(ValueError, match="Key ':1:none' not found"):
            do("none")
    backend.set("text", "a")
    with pytest.raises(TypeError):
        backend.incr("text")


def test_timeouts(path: str) -> None:
    backend = made(path, TIMEOUT=0.2)
    assert backend.default_timeout == 0, "Django makes it an int"
    backend.set("key", 1)
    assert backend.get("key") is None
    backend = made(path, TIMEOUT=None)
    backend.set("key", 1)
    backend.set("short", 1, 0.2)
    backend.set("touched", 1, 0.2)
    assert backend.touch("touched", 60) is True and backend.touch("none") is False
    start = time.monotonic()
    while "short" in backend:
        assert time.monotonic() - start < 5
    assert backend.get("key") == backend.get("touched") == 1
    for timeout in 0, -1:
        backend.set("key", 1, timeout)
        assert backend.get("key") is None
    backend.set("key", 1)
    assert backend.touch("key", 0) is True and backend.get("key") is None


def test_a_count_keeps_its_timeout(backend: SharedCache) -> None:
    backend.set("count", 1, 0.3)
    start = time.monotonic()
    while "count" in backend:
        assert time.monotonic() - start < 5
        try:
            backend.incr("count")
        except ValueError:
            break


def test_versions_and_prefixes(path: str) -> None:
    one, two, other = made(path), made(path, VERSION=2), made(path, KEY_PREFIX="other")
    one.set("key", "one")
    assert two.get("key") is other.get("key") is None and two.get("key", version=1) == "one"
    assert one.incr_version("key") == 2
    assert one.get("key") is None and two.get("key") == "one"
    assert two.decr_version("key") == 1 and one.get("key") == "one"
    other.set("key", "other")
    one.version = 2
    assert one.get("key") is None and other.get("key") == "other"


def test_a_function_for_keys(path: str) -> None:
    backend = made(path, KEY_FUNCTION=lambda key, prefix, version: f"{key}/{prefix}/{version}", KEY_PREFIX="p")
    backend.set("key", 1)
    assert backend._cache.get("key/p/1") == 1 == backend.get("key")

    class Own(SharedCache):
        def make_key(self, key: str, version: int | None = None) -> str:
            return f"own {key}"

    own = Own(path, {"OPTIONS": {"size": SIZE}})
    with pytest.warns(CacheKeyWarning):
        own.set("key", 2)
    assert backend._cache.get("own key") == 2


def test_a_function_for_keys_may_come_later(backend: SharedCache) -> None:
    """Django's own tests set one."""
    backend.key_func = lambda key, prefix, version: f"{key} of {version}"
    with pytest.warns(CacheKeyWarning):
        backend.set("key", 1)
    assert backend._cache.get("key of 1") == 1


@pytest.mark.parametrize("key", ["with space", "x" * 300, "tab\t", "\x7f", "line\n", "\0"])
def test_what_memcached_would_refuse_is_warned_of_as_by_other_backends(backend: SharedCache, key: str) -> None:
    with pytest.warns(CacheKeyWarning) as ours:
        backend.set(key, 1)
    with pytest.warns(CacheKeyWarning) as theirs:
        BaseCache({}).make_and_validate_key(key)
    assert [str(each.message) for each in ours] == [str(each.message) for each in theirs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert backend.get(key) == 1


def test_other_keys_are_not_warned_of(backend: SharedCache) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key in "Příliš", "\u200b\u00a0", "a" * 240, "'\"%":
            backend.set(key, key)
            assert backend.get(key) == key
            assert backend.make_and_validate_key(key) == BaseCache({}).make_and_validate_key(key)


def test_safe_text_stays_safe(backend: SharedCache) -> None:
    backend.set("key", mark_safe("<b>"))
    found = backend.get("key")
    assert type(found) is SafeString and found == "<b>"


def test_what_json_would_alter_needs_pickle(path: str, backend: SharedCache) -> None:
    with pytest.raises(
        TypeError, match=r'of type tuple: .* open the cache with "OPTIONS": \{"pickle": True\} in CACHES'
    ):
        backend.set("key", (1, 2))
    pickling = made(path, OPTIONS={"pickle": True})
    pickling.set("key", (1, {2}, math.nan))
    assert pickling.get("key")[:2] == (1, {2})


def test_all_threads_have_one_cache(path: str) -> None:
    found = []
    threads = [threading.Thread(target=lambda: found.append(made(path)._cache)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(map(id, found))) == 1


def test_settings_that_cannot_be_are_named(path: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"LOCATION is missing; expected the path of a file"):
        SharedCache("", {})
    with pytest.raises(ImproperlyConfigured, match=r"unknown OPTIONS \['pickel'\]; expected size"):
        made(path, OPTIONS={"pickel": True})
    made(path, OPTIONS={"MAX_ENTRIES": 10, "CULL_FREQUENCY": 2})


def test_asynchronous(backend: SharedCache) -> None:
    async def do() -> None:
        await backend.aset("key", 1)
        assert await backend.aget("key") == 1 and await backend.aincr("key") == 2
        assert await backend.aget_or_set("other", 3) == 3 and await backend.ahas_key("other")
        assert await backend.atouch("key", 60) and await backend.adelete("key")

    asyncio.run(do())


SITE = """
import sys
import django
from django.conf import settings
from django.core.cache import cache, caches
from django.http import HttpResponse
from django.template import Context, Template
from django.test import Client
from django.urls import path
from django.views.decorators.cache import cache_page

BACKEND = "poorhttp.cache.django.SharedCache"
settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="x",
    CACHES={
        "default": {"BACKEND": BACKEND, "LOCATION": sys.argv[1]},
        "pages": {"BACKEND": BACKEND, "LOCATION": sys.argv[1] + ".pages", "OPTIONS": {"pickle": True}},
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
    INSTALLED_APPS=["django.contrib.sessions"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
)
calls = 0

def count(request):
    request.session["visits"] = request.session.get("visits", 0) + 1
    return HttpResponse(f"{request.session['visits']}")

@cache_page(60, cache="pages")
def page(request):
    global calls
    calls += 1
    return HttpResponse("page")

urlpatterns = [path("", count), path("page", page)]
django.setup()
client = Client()
assert [client.get("/").content for _ in range(3)] == [b"1", b"2", b"3"]
assert [client.get("/page").content for _ in range(3)] == [b"page"] * 3 and calls == 1
template = Template("{% load cache %}{% cache 60 name %}<b>{{ value }}</b>{% endcache %}")
assert [template.render(Context({"value": value})) for value in "<a"] == ["<b>&lt;</b>"] * 2
cache.set("key", "value")
assert caches["default"].get("key") == "value" and caches["pages"].get("key") is None
"""


def test_a_site(path: str) -> None:
    done = subprocess.run([sys.executable, "-c", SITE, path], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
