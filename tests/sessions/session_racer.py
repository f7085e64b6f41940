"""One of two processes that use the same session: keys|count|fork NAME ADDRESS [ID] [NUMBER]."""

import os
import sys

from poorhttp.sessions import Conflict, Sessions, open_store


def session(sessions, token):
    return sessions.session(
        {"wsgi.url_scheme": "https", "wsgi.errors": sys.stderr, "HTTP_COOKIE": f"__Host-session={token}"}
    )


def keys(name, address, token, number):
    """Each request adds a key of its own, and one within a value that both change."""
    sessions = Sessions(address)
    for index in range(int(number)):
        mine = session(sessions, token)
        mine[f"{name}{index}"] = index
        mine["shared"][f"{name}{index}"] = index
        assert mine.close() is None


def count(name, address, token, number):
    sessions = Sessions(address, concurrency="lock", lock_timeout=30)
    for _ in range(int(number)):
        mine = session(sessions, token)
        mine["count"] += 1
        assert mine.close() is None


def fork(name, address):
    """Parent and child use a store that the parent has used before the fork; neither gets an answer of the other."""
    store = open_store(address)
    common = os.urandom(32).hex()
    store.save(common, b"common", 60, None)
    store.load(common)
    child = os.fork()
    me = b"child" if not child else b"parent"
    key = os.urandom(32).hex()
    version = store.save(key, me, 60, None)
    for index in range(40):
        assert store.load(common)[0] == b"common"
        data, version = store.load(key)
        assert data.startswith(me), data
        version = store.save(key, me + b"%d" % index, 60, version)
        try:
            store.save(key, b"", 60, "0" * 16)
        except Conflict:
            continue
        raise AssertionError("a wrong version was taken")
    if not child:
        store.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for _ in range(10):  # the end of the child has not ended the parent's connection
        assert store.load(common)[0] == b"common"
    store.close()


{"keys": keys, "count": count, "fork": fork}[sys.argv[1]](*sys.argv[2:])
