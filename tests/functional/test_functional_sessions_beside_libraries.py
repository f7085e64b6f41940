"""`sessions --suite libraries` in small: each library in real stores, and the numbers that are shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the bench is no part of the installed package

from bench import launch, sessions_libraries  # noqa: E402
from bench.client import Missing  # noqa: E402
from bench.sessions_libraries import COLUMNS, LIBRARIES  # noqa: E402
from bench.table import Size  # noqa: E402

pytestmark = pytest.mark.usefixtures("tally")


@pytest.mark.parametrize("name", ["cookie", "memory", "directory", "memcached", "redis"])
def test_a_row_in_small_gives_the_numbers_that_are_shown(name: str, tmp_path: Path) -> None:
    try:
        numbers = sessions_libraries.measure(name, "1KB", launch.Setting(work=tmp_path), Size(1, 0.4))
    except Missing as missing:
        pytest.skip(str(missing))
    having = [key for key, library in LIBRARIES.items() if name in library.stores]
    columns = [column for column in COLUMNS if (name, column) != ("memory", "first")]
    assert {f"{key} {column}" for key in having for column in columns} <= numbers.keys()
    assert ("times" in numbers) is (len(having) > 1)
