"""Units: how a text becomes a value of a setting, and back. Here are times, sizes, numbers and words.

Knows no setting and no flag. A unit, also in `addresses`, `paths` and `urls`, has `parse(text, directory)`, which
returns the value or raises ValueError whose text says what was expected, and `show(value)`, whose text gives that value
again.
"""

from __future__ import annotations

YEAR = 365 * 24 * 3600.0
TIMES = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "h": 3600.0}
SIZES = {"": 1.0, "k": 1024.0, "m": 1024.0**2, "g": 1024.0**3}
WORDS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}


class Seconds:
    """A time: `5`, `1.5`, `250ms`, `2m`, `1h`; a float, from `low` to a year."""

    metavar = "SECONDS"

    def __init__(self, low: float = 0.0) -> None:
        self.low = low

    def parse(self, text: str, directory: str = "") -> float:
        value = _scaled(text, TIMES)
        if value is None or not self.low <= value <= YEAR:
            raise ValueError(f"a time such as 5, 1.5, 250ms or 2m (seconds, at least {self.show(self.low)})")
        return round(value, 6)

    def show(self, value: float) -> str:
        return f"{value:.6f}".rstrip("0").rstrip(".")


class Bytes:
    """A size: `500`, `64k`, `1.5m`, `1g` (powers of 1024); an int, from `low` to `high`."""

    metavar = "BYTES"

    def __init__(self, low: int = 0, high: int = 1 << 40) -> None:
        self.low, self.high = low, high

    def parse(self, text: str, directory: str = "") -> int:
        value = _scaled(text, SIZES)
        if value is None or not value.is_integer() or not self.low <= value <= self.high:
            raise ValueError(f"a size such as 500, 64k or 1m, from {self.show(self.low)} to {self.show(self.high)}")
        return int(value)

    def show(self, value: int) -> str:
        for suffix, size in ("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10):
            if value and value % size == 0:
                return f"{value // size}{suffix}"
        return str(value)


class Count:
    """A number of things: an int from `low` to `high`."""

    def __init__(self, low: int, high: int, metavar: str = "N") -> None:
        self.low, self.high, self.metavar = low, high, metavar

    def parse(self, text: str, directory: str = "") -> int:
        value = int(text) if is_digits(text) else -1
        if not self.low <= value <= self.high:
            raise ValueError(f"a whole number from {self.low} to {self.high}")
        return value

    def show(self, value: int) -> str:
        return str(value)


class Span(int):
    """Two bounds of a number: the lower one as an int, and `most`; written `2..8`, or `4` if both are the same."""

    most: int

    def __new__(cls, least: int, most: int) -> Span:
        self = super().__new__(cls, least)
        self.most = most
        return self

    def __str__(self) -> str:
        return f"{int(self)}..{self.most}" if self.most > self else int.__repr__(self)


class Counts:
    """A number of things, fixed or between two bounds: a `Span` from `low` to `high`."""

    metavar = "N[..M]"

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def parse(self, text: str, directory: str = "") -> Span:
        least, dots, most = (part.strip() for part in text.partition(".."))
        try:
            low = Count(self.low, self.high).parse(least)
            span = Span(low, Count(max(low, 1), self.high).parse(most) if dots else low)
            if dots and not low:
                raise ValueError
        except ValueError:
            raise ValueError(f"a whole number from {self.low} to {self.high}, or two bounds such as 2..8") from None
        return span

    def show(self, value: Span) -> str:
        return str(value)


class Switch:
    """Yes or no; a bool."""

    metavar = ""

    def parse(self, text: str, directory: str = "") -> bool:
        if text.lower() not in WORDS:
            raise ValueError("yes or no")
        return WORDS[text.lower()]

    def show(self, value: bool) -> str:
        return "yes" if value else "no"


class Choice:
    """One of `names`; `also` maps other spellings to them."""

    metavar = "NAME"

    def __init__(self, *names: str, also: dict[str, str] | None = None) -> None:
        self.names, self.also = names, also or {}

    def parse(self, text: str, directory: str = "") -> str:
        name = text.lower()
        name = self.also.get(name, name)
        if name not in self.names:
            raise ValueError(f"one of {', '.join(self.names)}")
        return name

    def show(self, value: str) -> str:
        return value


class Names:
    """`alone`, or any of `names`, separated by commas; a tuple, empty for `no`. also: word -> names it stands for."""

    metavar = "NAMES"

    def __init__(self, alone: str, *names: str, also: dict[str, tuple[str, ...]]) -> None:
        self.alone, self.names, self.also = alone, names, also

    def parse(self, text: str, directory: str = "") -> tuple[str, ...]:
        words = text.lower().replace(",", " ").split()
        found = {name for word in words for name in self.also.get(word, (word,))}
        if words in (["no"], [self.alone]):
            return tuple(words) if words == [self.alone] else ()
        if not found or not found <= set(self.names):
            raise ValueError(f"no, {self.alone}, or some of {', '.join([*self.also, *self.names])}")
        return tuple(name for name in self.names if name in found)

    def show(self, value: tuple[str, ...]) -> str:
        return ", ".join(value) or "no"


class Text:
    """Any text."""

    metavar = "TEXT"

    def parse(self, text: str, directory: str = "") -> str:
        return text

    def show(self, value: str) -> str:
        return value


class Mode:
    """The permissions of a file: three or four octal digits; -1 for "", which means not set."""

    metavar = "MODE"

    def parse(self, text: str, directory: str = "") -> int:
        if not text:
            return -1
        if len(text.removeprefix("0o")) not in (3, 4) or not set(text.removeprefix("0o")) <= set("01234567"):
            raise ValueError("three octal digits such as 660")
        return int(text, 8)

    def show(self, value: int) -> str:
        return "" if value < 0 else f"{value:o}"


class FieldValue(Text):
    """The value of a header field: printable US-ASCII, or empty (RFC 9110 section 5.5 without its obsolete text)."""

    def parse(self, text: str, directory: str = "") -> str:
        if not (text.isascii() and text.isprintable()):
            raise ValueError("printable ASCII text, or empty")
        return text


def is_digits(text: str) -> bool:
    """Whether the text is a decimal number in ASCII of a sane length."""
    return text.isascii() and text.isdecimal() and len(text) < 16


def _scaled(text: str, scales: dict[str, float]) -> float | None:
    """Return 12 * scales["k"] for `12k`; None if this is not a plain decimal number with a known suffix."""
    text = text.lower()
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    scale = scales.get(text[len(number) :])
    if scale is None or not is_digits(number.replace(".", "", 1)):
        return None
    return float(number) * scale
