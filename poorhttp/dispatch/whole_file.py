"""Writing a file that others see whole or not at all. Knows files, and nothing of forms."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

BLOCK = 65536


def write(path: str, source: IO[bytes]) -> None:
    """Copy `source`, from its start, to a new file beside `path`, and let that take the place of `path`.

    The mode is that of a file which open() makes. Raises OSError, which names `path`; then `path` is as it was.
    """
    beside = os.path.join(os.path.dirname(path), f".{os.urandom(8).hex()}.part")
    try:
        _copy(source, beside, path)
    except OSError as error:
        if error.filename == beside:
            raise OSError(error.errno, error.strerror, path) from None
        raise


def _copy(source: IO[bytes], beside: str, path: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o666)
    try:
        with open(descriptor, "wb") as file:
            source.seek(0)
            while block := source.read(BLOCK):
                file.write(block)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
