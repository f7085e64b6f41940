"""Fixtures `engine` and `store`: the kind of store that a module names as ENGINE, and one store of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from poorhttp.sessions import Store, open_store

sys.path.insert(0, str(Path(__file__).parent))

pytest.register_assert_rewrite("session_suite")


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[object]:
    engine = request.module.ENGINE()
    yield engine
    engine.stop()


@pytest.fixture
def store(engine) -> Iterator[Store]:
    store = open_store(engine.address)
    yield store
    store.close()
