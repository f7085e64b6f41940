"""Fixtures `engine` and `store`: the kind of store that a module names as ENGINE, and one store of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from poorhttp.sessions import Store, open_store

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
