"""What tests of the bench in small need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the bench is no part of the installed package

from bench import launch
from bench.client import Missing


@pytest.fixture(scope="session")
def tally() -> None:
    """The load `tally`, compiled."""
    try:
        launch.compile_c("tally")
    except Missing as missing:
        pytest.skip(str(missing))
