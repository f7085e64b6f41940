"""`poorhttp status --watch`: shows the status each second, in a terminal in place, else block after block.

Knows terminals. Does not know what is shown. However it ends, the terminal is as it was before.
"""

from __future__ import annotations

import sys

from poorhttp.errors import PoorhttpError, put
from poorhttp.operate import control
from poorhttp.stdlib import os, select, time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from poorhttp.config.model import Config

PERIOD = 1.0
"""Seconds between two looks."""

CLEAR, HOME, REST = "\x1b[2J", "\x1b[H", "\x1b[J"
OTHER, FORMER = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Escape sequences: to the second screen of the terminal without a cursor, and back."""


def run(settings: Config, is_json: bool) -> int:
    """Show the status until the server is gone, or a key or signal ends it. Return the last exit code of `status`."""
    is_terminal = not is_json and os.isatty(0) and os.isatty(1)
    try:
        with _Terminal() if is_terminal else _Pipe() as place:
            return _loop(settings, is_json, place)
    except (BrokenPipeError, KeyboardInterrupt):
        return control.RUNNING


def _loop(settings: Config, is_json: bool, place: _Pipe) -> int:
    rates = control.Rates()
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


class _Pipe:
    """Output that is no terminal."""

    def __enter__(self) -> _Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def width(self) -> int:
        """The width of a line in characters; 0: any."""
        return 0

    def show(self, lines: list[str], code: int) -> None:
        put("\n".join(lines) + "\n")

    def wait(self, seconds: float) -> bool:
        """Wait; return whether the user wants to leave."""
        time.sleep(seconds)
        return False


class _Terminal(_Pipe):
    """A terminal. The status is on its second screen."""

    def __enter__(self) -> _Terminal:
        from poorhttp.stdlib import signal, termios

        self._mode = termios.tcgetattr(0)
        mode = termios.tcgetattr(0)
        # Ctrl-C is read as a key, since its signal may be ignored. Ctrl-Z would leave the terminal in this mode.
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
            signal.signal(each[0], signal.SIG_IGN)  # another signal would interrupt this
        with suppress(OSError, PoorhttpError, termios.error):  # after HUP the terminal may be gone
            termios.tcsetattr(0, termios.TCSADRAIN, self._mode)
            put(FORMER + "".join(f"{line}\n" for line in self._last))
        for signum, old in self._old:
            signal.signal(signum, old)

    def width(self) -> int:
        return os.get_terminal_size(1).columns

    def show(self, lines: list[str], code: int) -> None:
        rows = os.get_terminal_size(1).lines or len(lines) + 1  # some terminals report 0
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
