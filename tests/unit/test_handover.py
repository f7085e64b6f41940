"""What one image hands to the next, and what it refuses to take."""

import os

import pytest

from poorhttp import reload
from poorhttp.errors import PoorhttpError


def handover() -> reload.Handover:
    made = reload.Handover()
    made.sockets = {"127.0.0.1:8080": (5, 0, 0), "unix:/run/a b.sock": (6, 7, 8)}
    made.workers = {100: 9, 101: -1}
    made.pidfile = "/run/poor http.pid"
    return made


def test_what_is_handed_over_arrives() -> None:
    made = handover()
    found = reload.Handover.parse(str(made))
    assert (found.sockets, found.workers, found.pidfile) == (made.sockets, made.workers, made.pidfile)
    assert sorted(found.descriptors()) == [5, 6, 9]


@pytest.mark.parametrize(
    "text", ["x", "socket 1 2 3", "socket a 0 0 b", "worker 1", "worker 1 2 3", "socket 9999 0 0 a"]
)
def test_what_no_reload_wrote_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(reload.HANDOVER, text)
    with pytest.raises(PoorhttpError, match="POORHTTP_HANDOVER"):
        reload.received()
    assert reload.HANDOVER not in os.environ


def test_an_ordinary_start_receives_nothing() -> None:
    assert reload.received() is None
    assert reload.tried() is None


def test_the_environment_of_the_next_image_is_that_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADDED_SINCE", "yes")
    environ = reload._first_environ()
    assert b"ADDED_SINCE" not in environ
    assert environ[b"PATH"] == os.environb[b"PATH"]
