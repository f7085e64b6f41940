"""The tests of every store: the module of a store imports the classes, and pytest collects them there."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from processes import wait_for

from poorhttp.sessions import Conflict, Sessions, Store, StoreDown, open_store

RACER = Path(__file__).with_name("session_racer.py")
BYTES = bytes(range(256)) + "Příliš".encode()


def any_key() -> str:
    return token_hex(32)


def gone(store: Store, key: str, limit: float) -> bool:
    """Wait until a record has expired."""
    deadline = time.monotonic() + limit
    while store.load(key) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    return store.load(key) is None


class TestStore:
    """The contract of `poorhttp.sessions.store`."""

    def test_an_unknown_key_has_no_record(self, store: Store) -> None:
        assert store.load(any_key()) is None
        assert store.touch(any_key(), 60) is False
        store.delete(any_key())

    @pytest.mark.parametrize("data", [BYTES, b"", b"x" * 300_000], ids=["any bytes", "empty", "300 KB"])
    def test_a_record_comes_back_as_it_was(self, store: Store, data: bytes) -> None:
        key = any_key()
        store.save(key, data, 60, None)
        found = store.load(key)
        assert found is not None and found[0] == data

    def test_a_new_record_replaces_none(self, store: Store) -> None:
        key = any_key()
        store.save(key, b"first", 60, None)
        with pytest.raises(Conflict):
            store.save(key, b"second", 60, None)
        assert store.load(key)[0] == b"first"

    def test_only_the_version_that_was_read_is_replaced(self, store: Store) -> None:
        key = any_key()
        of_save = store.save(key, b"1", 60, None)
        _, of_load = store.load(key)
        newer = store.save(key, b"2", 60, of_load)
        for stale in of_save, of_load:
            with pytest.raises(Conflict):
                store.save(key, b"3", 60, stale)
        assert store.load(key)[0] == b"2"
        store.save(key, b"4", 60, newer)
        assert store.load(key)[0] == b"4"

    def test_a_record_that_was_deleted_is_not_brought_back(self, store: Store) -> None:
        key = any_key()
        of_save = store.save(key, b"1", 60, None)
        _, of_load = store.load(key)
        store.delete(key)
        assert store.load(key) is None
        for version in of_save, of_load:
            with pytest.raises(Conflict):
                store.save(key, b"2", 60, version)
        assert store.touch(key, 60) is False
        assert store.load(key) is None

    def test_a_record_ends_at_its_time(self, store: Store, engine) -> None:
        key = any_key()
        start = time.monotonic()
        version = store.save(key, b"1", 1, None)
        saved = time.monotonic()
        asked = [saved]  # when each question began: a pause of the machine lets it end at any time
        while store.load(key) is not None and asked[-1] < saved + 5:
            time.sleep(0.02)
            asked.append(time.monotonic())
        assert time.monotonic() > start + 0.9
        assert max(asked[:-1], default=saved) < saved + 1.1 + engine.precision
        assert store.touch(key, 60) is False
        with pytest.raises(Conflict):
            store.save(key, b"2", 60, version)
        store.save(key, b"3", 60, None)
        assert store.load(key)[0] == b"3"

    def test_a_record_that_is_touched_ends_later(self, store: Store, engine) -> None:
        key = any_key()
        lifetime = 3  # seconds: longer than a busy machine pauses
        store.save(key, b"1", lifetime, None)
        before = store.load(key)
        assert store.touch(key, 60) is True
        time.sleep(lifetime + 0.2 + engine.precision)
        assert store.load(key) == before
        store.save(key, b"2", 60, before[1])

    def test_records_may_live_for_months(self, store: Store) -> None:
        key = any_key()
        version = store.save(key, b"1", 90 * 86400, None)
        store.save(key, b"2", 90 * 86400, version)
        assert store.touch(key, 90 * 86400)
        assert store.load(key)[0] == b"2"

    def test_purge_removes_what_has_expired_and_nothing_else(self, store: Store, engine) -> None:
        old, live = any_key(), any_key()
        store.save(old, b"1", 0.5, None)
        store.save(live, b"2", 60, None)
        assert gone(store, old, 5)
        assert store.purge() >= 0
        assert store.load(live)[0] == b"2"
        assert store.purge() == 0

    def test_a_closed_store_opens_again(self, store: Store, engine) -> None:
        key = any_key()
        store.save(key, b"1", 60, None)
        store.close()
        assert (store.load(key) is not None) or not engine.is_shared

    def test_of_threads_that_save_at_once_each_is_told_the_truth(self, store: Store) -> None:
        key = any_key()
        store.save(key, b"0", 60, None)
        failures: list[BaseException] = []

        def count() -> None:
            done = 0
            try:
                while done < 10:
                    data, version = store.load(key)
                    try:
                        store.save(key, b"%d" % (int(data) + 1), 60, version)
                        done += 1
                    except Conflict:
                        time.sleep(0.001)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        assert not failures and store.load(key)[0] == b"40"


def session_of(sessions: Sessions, token: str = "") -> Any:
    """A session, as a request over https with this id gets it."""
    environ = {"wsgi.url_scheme": "https", "wsgi.errors": sys.stderr, "HTTP_COOKIE": f"__Host-session={token}"}
    return sessions.session(environ)


def race(*arguments: str) -> None:
    """Run the racer in two processes at once."""
    command = [sys.executable, str(RACER), arguments[0]]
    racers = [
        subprocess.Popen([*command, name, *arguments[1:]], stderr=subprocess.PIPE, text=True) for name in ("a", "b")
    ]
    failures = [racer.communicate(timeout=55)[1] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], failures


class TestRaces:
    """Two processes that change the same session."""

    def test_no_change_of_two_processes_is_lost(self, engine) -> None:
        sessions = Sessions(engine.address)
        session = session_of(sessions)
        session["shared"] = {}
        token = session.close()
        race("keys", engine.address, token, "15")
        found = dict(session_of(sessions, token))
        sessions.store.close()
        assert set(found) == {"shared", *(f"{name}{number}" for name in "ab" for number in range(15))}
        assert set(found["shared"]) == {f"{name}{number}" for name in "ab" for number in range(15)}

    def test_under_the_lock_two_processes_count_together(self, engine) -> None:
        sessions = Sessions(engine.address)
        session = session_of(sessions)
        session["count"] = 0
        token = session.close()
        race("count", engine.address, token, "15")
        assert session_of(sessions, token)["count"] == 30
        sessions.store.close()

    def test_a_forked_worker_leaves_the_connection_that_it_inherited(self, engine) -> None:
        done = subprocess.run(
            [sys.executable, str(RACER), "fork", "-", engine.address],
            capture_output=True,
            text=True,
            timeout=55,
            check=False,
        )
        assert done.returncode == 0, done.stderr


class TestOutage:
    """A store that is away, or does not answer."""

    def test_a_store_that_is_away_is_an_error_and_works_when_it_is_back(self, engine, store: Store) -> None:
        key = any_key()
        store.save(key, b"1", 60, None)
        impatient = open_store(engine.impatient)
        wait_for(lambda: works(impatient, key))
        if engine.works_on_open_files:
            impatient.close()
        with engine.down():
            for do in operations(impatient, key):
                with pytest.raises(StoreDown):
                    do()
        wait_for(lambda: works(impatient, any_key()))
        impatient.close()

    def test_a_store_that_does_not_answer_is_given_up(self, engine, store: Store) -> None:
        key = any_key()
        version = store.save(key, b"1", 60, None)
        impatient = open_store(engine.impatient)
        wait_for(lambda: works(impatient, key))
        with engine.stalled():
            start = time.monotonic()
            with pytest.raises(StoreDown):
                impatient.save(key, b"2", 60, version)
            if engine.blocks_readers:
                fresh = open_store(engine.impatient)
                for each in impatient, fresh:
                    with pytest.raises(StoreDown):
                        each.load(key)
                fresh.close()
            assert time.monotonic() - start < 20
        wait_for(lambda: saved_again(impatient, key), seconds=30)  # what was given up may still be carried out
        impatient.close()


@contextlib.contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """The port of a server that gives the same reply to all that it receives, which no store does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clients: list[socket.socket] = []

        def answer(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                while client.recv(65536):
                    client.sendall(reply)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    clients.append(listener.accept()[0])
                    threading.Thread(target=answer, args=(clients[-1],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def refuses_rubbish(address: str, reply: bytes) -> None:
    """Whatever a server answers, an operation succeeds, or it raises what the contract names."""
    with answering(reply) as port:
        store = open_store(address.format(port))
        for do in operations(store, any_key()):
            with contextlib.suppress(StoreDown, Conflict):
                do()
        store.close()


def works(store: Store, key: str) -> bool:
    try:
        store.touch(key, 60)
    except StoreDown:
        return False
    return True


def saved_again(store: Store, key: str) -> bool:
    try:
        data, version = store.load(key)
        store.save(key, data + b"3", 60, version)
    except (Conflict, StoreDown):
        return False
    return True


def operations(store: Store, key: str) -> list[Any]:
    return [
        lambda: store.load(key),
        lambda: store.save(key, b"1", 60, None),
        lambda: store.save(key, b"1", 60, "0" * 16),
        lambda: store.touch(key, 60),
        lambda: store.delete(key),
    ]
