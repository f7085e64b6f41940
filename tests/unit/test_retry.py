"""Code that the trial could load and the new program cannot: when it is tried again."""

from __future__ import annotations

import pytest

from poorhttp.errors import ConfigError
from poorhttp.listen.systemd import Manager
from poorhttp.logs.log import ErrorLog
from poorhttp.process.start.load_failed import Retry
from poorhttp.process.workers.plan import State
from poorhttp.reload.handover import Handover
from poorhttp.reload.reload import Reload


@pytest.fixture
def retry(tmp_path) -> Retry:
    handover, manager, log = Handover(), Manager(), ErrorLog(str(tmp_path / "error.log"), "info", False, "")
    reload = Reload(handover, str(tmp_path), "1 process", [], log, manager, None)
    return Retry(reload, ConfigError("the port is no number"), handover, log, manager, None)


def test_it_is_due_after_a_pause_or_at_once_when_asked_for(retry: Retry) -> None:
    assert retry.due(State(1, 1.0)) is None and 0 < (retry.seconds_left() or 0) <= 1
    retry.begin()
    assert retry.due(State(1, 1.0)) is not None and retry.seconds_left() == 0


def test_a_stop_ends_the_tries_and_no_time_is_waited_for_any_more(retry: Retry) -> None:
    """Else the supervisor would look without a pause until its last worker is gone."""
    retry.begin()
    retry.cancel()
    assert retry.due(State(1, 1.0)) is None and retry.seconds_left() is None


def test_where_no_worker_is_wanted_nothing_is_tried_until_somebody_asks(retry: Retry) -> None:
    """After WINCH; TTIN wants one again."""
    none, one = State(0, 1.0), State(1, 1.0)
    assert retry.due(none) is None and retry.seconds_left() is None
    assert retry.due(one) is None and retry.seconds_left() is not None
    retry.begin()
    assert retry.due(none) is not None


def test_the_error_log_says_why(retry: Retry, tmp_path) -> None:
    assert "trying again in 1 s, or at once after HUP: the port is no number" in (tmp_path / "error.log").read_text()
