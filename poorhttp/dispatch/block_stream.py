"""An iterator of text and bytes as a body: each block is sent when it is there.

Knows WSGI iterables (PEP 3333). Knows nothing of requests. Contract: the first block is taken when this is made;
`close()`, which a WSGI server calls, closes a generator.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any


class BlockStream:
    """An iterable of bytes, from blocks of str, which is sent as utf-8, or bytes.

    size and modified are None: they are not known, in contrast to those of a `FileSlice`.
    """

    size: None = None
    modified: None = None

    def __init__(
        self, blocks: Iterator[str | bytes], written: Callable[[], bytes], ended: Callable[[Any], object]
    ) -> None:
        """written: returns the bytes that the generator has written since the last block; they go before the next one.
        ended: is called behind the last block with what the generator has returned.

        returned: what it has returned without a block, else None. An exception of the iterator before its first block
        is raised here.
        """
        self._blocks = blocks
        self._written = written
        self._ended = ended
        self.returned: Any = None
        self._first = b""
        try:
            self._first = _encoded(next(blocks))
        except StopIteration as end:
            self.returned = end.value

    def wrapped(self, file_wrapper: object) -> Iterable[bytes]:
        return self

    def __iter__(self) -> Iterator[bytes]:
        if self._first:
            yield self._first
        while True:
            try:
                block = next(self._blocks)
            except StopIteration as end:
                self._ended(end.value)
                break
            data = self._written() + _encoded(block)
            if data:
                yield data
        data = self._written()
        if data:
            yield data

    def close(self) -> None:
        close: Any = getattr(self._blocks, "close", None)
        if close is not None:
            close()


def _encoded(block: str | bytes) -> bytes:
    if isinstance(block, str):
        return block.encode()
    if not isinstance(block, bytes):
        raise TypeError(f"a generator yields str or bytes, not {type(block).__name__}")
    return block
