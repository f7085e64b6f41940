"""`poorhttp status --watch`: the status again each second; in a terminal in its place, else block after block.

Knows terminals. Does not know what is shown (`poorhttp.status.reader`).
Contract: however it ends, the terminal is as it was.
"""

from __future__ import annotations

import sys

from poorhttp.errors import PoorhttpError, put
from poorhttp.operate import control
from poorhttp.stdlib import os, select, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from poorhttp.config.config import Config

PERIOD = 1.0
"""Seconds between two looks."""

CLEAR, HOME, REST = "\x1b[2J", "\x1b[H", "\x1b[J"
OTHER, FORMER = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""To the terminal's second screen without a cursor, and back."""


def run(settings: Config, is_json: bool) -> int:
    """Show it until the server is gone, a key or a signal ends it; return the exit code of `status` then."""
    is_terminal = not is_json and os.isatty(0) and os.isatty(1)
    try:
        with _Terminal() if is_terminal else _Pipe() as place:
            return _loop(settings, is_json, place)
    except (BrokenPipeError, KeyboardInterrupt):
        return control.RUNNING


def _loop(settings: Config, is_json: bool, place: _Pipe) -> int:
    rates = Rates()
    while True:
        began = time.monotonic()
        lines: list[str] = []
        if is_json:
            code, said = control.facts(settings)
            lines = [said]
        else:
            code = control.status(settings, lines.append, rates, place.width())
        place.show(lines, code)
        if code != control.RUNNING or place.wait(max(began + PERIOD - time.monotonic(), 0.0)):
            return code


class Rates:
    """Requests per second of each process, from what is told one time after another."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[float, int]] = {}

    def of(self, told: dict[str, Any], now: float) -> dict[int, float] | None:
        """Since the last time; None at the first one."""
        counts = {row["pid"]: row["requests"] for row in told["processes"]}
        before, self._before = self._before, {pid: (now, count) for pid, count in counts.items()}
        rates = {}
        for pid, count in counts.items():
            then, less = before.get(pid, (now, count))
            if now > then:
                rates[pid] = max(count - less, 0) / (now - then)
        return rates or None


class _Pipe:
    """Somewhere that is no terminal."""

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def width(self) -> int:
        """Characters of a line, 0: any."""
        return 0

    def show(self, lines: list[str], code: int) -> None:
        put("\n".join(lines) + "\n")

    def wait(self, seconds: float) -> bool:
        """Whether it is to end."""
        time.sleep(seconds)
        return False


class _Terminal(_Pipe):
    """A terminal, whose second screen is used."""

    def __enter__(self) -> _Terminal:
        from poorhttp.stdlib import signal, termios

        self._mode = termios.tcgetattr(0)
        mode = termios.tcgetattr(0)
        # Ctrl-C is a key too: its signal may be ignored, and Ctrl-Z's would leave the terminal as it is here.
        mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
        self._old = [(each, signal.signal(each, _interrupt)) for each in (signal.SIGTERM, signal.SIGHUP)]
        termios.tcsetattr(0, termios.TCSADRAIN, mode)
        sys.stdout.write(OTHER + CLEAR)
        self._last: list[str] = []
        return self

    def __exit__(self, *_: object) -> None:
        from contextlib import suppress

        from poorhttp.stdlib import signal, termios

        for each in self._old:
            signal.signal(each[0], signal.SIG_IGN)  # what comes now would leave it half done
        with suppress(OSError, PoorhttpError, termios.error):  # after a HUP it may be gone
            termios.tcsetattr(0, termios.TCSADRAIN, self._mode)
            put(FORMER + "".join(f"{line}\n" for line in self._last))
        for signum, old in self._old:
            signal.signal(signum, old)

    def width(self) -> int:
        return os.get_terminal_size(1).columns

    def show(self, lines: list[str], code: int) -> None:
        rows = os.get_terminal_size(1).lines or len(lines) + 1  # some do not tell
        shown = "\r\n".join(f"{line}\x1b[K" for line in lines[: max(rows - 1, 1)])
        put(f"{HOME}{shown}{REST}")
        self._last = lines if code != control.RUNNING else []

    def wait(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while select.select([0], [], [], max(end - time.monotonic(), 0.0))[0]:
            keys = os.read(0, 64)
            if not keys or not {*keys}.isdisjoint(b"qQ\x03"):
                return True
        return False


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt
