"""One file: the whole suite."""

from pathlib import Path

from session_engines import SingleFile
from session_suite import TestOutage as TestOutage
from session_suite import TestRaces as TestRaces
from session_suite import TestStore as TestStore
from session_suite import any_key

from poorhttp.sessions import open_store

ENGINE = SingleFile


def test_a_damaged_line_is_skipped_and_purged(tmp_path: Path) -> None:
    place, whole, damaged = tmp_path / "sessions", any_key(), any_key()
    store = open_store(f"file:{place}")
    version = store.save(whole, b"1", 60, None)
    lines = [
        f'["{damaged}", "tr',
        '["a", 1, 2, 3]',
        '["b"]',
        '["c", "1", 9e9, "\u0100"]',
        '["d", ' + "[" * 100_000,
        '["é"]',
    ]
    with place.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines))
    assert store.load(whole) == (b"1", version)
    assert [store.load(key) for key in (damaged, "a", "b", "c")] == [None] * 4
    assert store.touch(damaged, 60) is False
    store.save(damaged, b"2", 60, None)
    assert store.load(damaged)[0] == b"2"
    assert store.purge() >= 3
    assert store.purge() == 0 and store.load(whole) == (b"1", version)
