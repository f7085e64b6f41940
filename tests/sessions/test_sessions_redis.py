"""Redis: the whole suite on Debian's redis-server."""

import pytest
from session_engines import Redis
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import any_key, refuses_rubbish

from poorhttp.sessions import open_store

redis = pytest.importorskip("redis")

ENGINE = Redis


def test_valkey_and_unix_sockets_have_addresses(engine, store) -> None:
    key = any_key()
    store.save(key, b"1", 60, None)
    for address in engine.address.replace("redis:", "valkey:"), f"unix://{engine.directory}/socket?db=0&timeout=30":
        other = open_store(address)
        assert other.load(key) == store.load(key)
        other.close()


def test_a_server_that_has_forgotten_the_script_gets_it_again(engine, store) -> None:
    key = any_key()
    version = store.save(key, b"1", 60, None)
    version = store.save(key, b"2", 60, version)
    with redis.Redis.from_url(engine.address.partition("?")[0]) as client:
        client.script_flush()
    store.save(key, b"3", 60, version)
    assert store.load(key)[0] == b"3"


@pytest.mark.parametrize(
    "reply", [b":5", b"*1\r\n:1", b"+OK", b"$-5", b"$abc", b"xx", b"$5\r\nab\r\nc", b"_", b"", b"\xff\xff"]
)
def test_an_answer_that_is_none_of_redis_is_an_error(reply: bytes) -> None:
    refuses_rubbish("redis://127.0.0.1:{}?timeout=0.5", reply + b"\r\n")
