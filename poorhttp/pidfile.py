"""The file with the number of this process: written whole, replaced where it is stale, removed only where it is ours.

Knows one path. Does not know who is looked for by it (`poorhttp.control`).
"""

from __future__ import annotations

import os

from poorhttp.errors import ConfigError, say

LIMIT = 1 << 22
"""Process numbers are smaller (PID_MAX_LIMIT of Linux)."""


def write(path: str) -> str:
    """Write this process's number, whole or not at all; return the path. Raises ConfigError if another one lives."""
    try:
        if _is_ours(path):
            return path  # written by the image before this one
        draft = f"{path}.{os.getpid()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        try:
            os.write(descriptor, b"%d\n" % os.getpid())
            os.rename(draft, path)
        except OSError:
            os.unlink(draft)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        hint = "is its directory there, and may this user write in it?"
        raise ConfigError(f"cannot write the pidfile {path}: {error.strerror}", hint) from None
    return path


def remove(path: str) -> None:
    """Remove it if it names this process: neither a forked child nor a server that was replaced removes another's."""
    try:
        if path and _read(path) == str(os.getpid()):
            os.unlink(path)
    except OSError as error:
        say(f"note: cannot remove the pidfile {path}: {error.strerror}")


def check(path: str) -> None:
    """Whether `write` could write it, if no server lived. Raises ConfigError."""
    try:
        _number(path, _read(path) or "")
    except OSError as error:
        raise ConfigError(f"cannot read the pidfile {path}: {error.strerror}", "ask its owner") from None
    if not os.access(os.path.dirname(path), os.W_OK | os.X_OK):
        hint = "is its directory there, and may this user write in it?"
        raise ConfigError(f"cannot write the pidfile {path}", hint)


def _is_ours(path: str) -> bool:
    """Whether it is this process's already. Raises ConfigError where it is another living one's, or no pidfile."""
    from poorhttp import control

    text = _read(path)
    if text is None:
        return False
    pid = _number(path, text)
    if pid == os.getpid():
        return True
    if text and control.wrote(pid, os.stat(path).st_mtime):
        raise ConfigError(f"the pidfile {path} names process {pid}, which is alive", f"stop it first: kill {pid}")
    say(f"note: replaced the stale pidfile {path}")
    return False


def _number(path: str, text: str) -> int:
    pid = int(text) if text.isdecimal() and len(text) < 9 else LIMIT
    if pid == 0 or (pid >= LIMIT and text):
        raise ConfigError(f"{path} is there and is no pidfile", "choose another pidfile, or remove it")
    return pid


def _read(path: str) -> str | None:
    """Return the text, "?" for what is no regular file, None where there is none. A link is not followed (OSError)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        return os.read(descriptor, 64).decode("latin-1").strip() if os.path.isfile(descriptor) else "?"
    finally:
        os.close(descriptor)
