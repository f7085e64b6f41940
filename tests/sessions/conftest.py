"""Fixtures `engine` and `store`: the kind of store that a module names as ENGINE, and one store of it. Fixture `client`: a
browser of a site with sessions in memory, and of one with sessions in cookies.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from session_client import Client, kept_in

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


@pytest.fixture
def careless() -> Iterator[None]:
    """For a client library that leaves something open: it is collected in the test that made the library do so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(params=["memory", "cookie"])
def client(request: pytest.FixtureRequest) -> Client:
    return kept_in(request.param)
