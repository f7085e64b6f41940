"""Fixtures `path` and `cache`: a file in memory that is gone after the test, and a cache in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from poorhttp.cache import Cache


@pytest.fixture
def path() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="poorhttp-test-", dir="/dev/shm") as directory:
        yield str(Path(directory) / "cache")


@pytest.fixture
def cache(path: str) -> Cache:
    return Cache(path, 4 << 20)
