"""Memcached: the whole suite on Debian's memcached."""

import pytest
from session_engines import Memcached
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import refuses_rubbish

pytest.importorskip("pymemcache")

ENGINE = Memcached


REPLIES = [
    *(b"VALUE a 0 zz\r\n", b"VALUE\r\n", b"\r\n", b"\xff\xff\r\n", b"VALUE x 0 5\r\nab\r\nEND\r\n"),
    *(b"VALUE poorhttp:session:aa 0 2 7\r\nab\r\nEND\r\n", b"STORED x\r\n"),
]


@pytest.mark.parametrize("reply", REPLIES)
def test_an_answer_that_is_none_of_memcached_is_an_error(reply: bytes) -> None:
    refuses_rubbish("memcached://127.0.0.1:{}?timeout=0.5", reply)
