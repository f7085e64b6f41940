"""Redis: the whole suite on Debian's redis-server."""

import threading

import pytest
from processes import wait_for
from session_engines import IMPATIENCE, Redis
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import any_key, refuses_rubbish

from poorhttp.sessions import StoreDown, open_store

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


BUSY = """
local first = redis.call('TIME')
repeat local now = redis.call('TIME') until (now[1] - first[1]) * 1000000 + now[2] - first[2] > ARGV[1] * 1000000
"""


def test_a_command_that_redis_executes_late_was_sent_once(engine) -> None:
    """By default redis-py sends it again after a time-out: the record would be there, and the answer a Conflict."""
    impatient, key = open_store(engine.impatient), any_key()
    impatient.load(key)
    with redis.Redis.from_url(engine.address.partition("?")[0]) as client:
        client.config_resetstat()
        busy = threading.Thread(target=client.eval, args=(BUSY, 0, IMPATIENCE + 1))
        busy.start()
        wait_for(lambda: is_busy(engine))
        with pytest.raises(StoreDown):
            impatient.save(key, b"1", 60, None)
        busy.join()
        wait_for(lambda: impatient.load(key) is not None)
        assert client.info("commandstats")["cmdstat_set"]["calls"] == 1
    impatient.close()


def is_busy(engine) -> bool:
    """Whether Redis leaves a new client without an answer."""
    with redis.Redis.from_url(engine.address.partition("?")[0], socket_timeout=0.1, retry=None) as client:
        try:
            client.ping()
        except redis.TimeoutError:
            return True
    return False


@pytest.mark.parametrize(
    "reply", [b":5", b"*1\r\n:1", b"+OK", b"$-5", b"$abc", b"xx", b"$5\r\nab\r\nc", b"_", b"", b"\xff\xff"]
)
def test_an_answer_that_is_none_of_redis_is_an_error(reply: bytes) -> None:
    refuses_rubbish("redis://127.0.0.1:{}?timeout=0.5", reply + b"\r\n")
