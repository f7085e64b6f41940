"""The kinds of value that a parameter of a pattern may have: `<id:int>`, `<name>`, and those of the application.

Knows which text is of which kind, and how it is turned into a value. Knows nothing of paths. Contract: `re` is
imported only for a table that has a regular expression, `uuid` only for one that has a `:uuid`.
"""

from __future__ import annotations

from poorhttp.dispatch.faults import TableError, checked_function, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")

CONVERTERS = "converters = {'year': (r'[0-9]{4}', int)}: a regular expression, and a function that takes the text"


class Converter:
    """One kind of value.

    read: makes the value of a text that is not empty and has no slash; raises ValueError for text of another kind.
    rank: a kind with a lower number is tried before. key: equal for two that take the same texts.
    samples: texts of this kind that are of no kind with a lower rank, () if they are not known.
    is_certain: whether `read` decides by the text alone and has no effects, so that it may be tried on samples.
    """

    __slots__ = ("is_certain", "key", "rank", "read", "samples")

    def __init__(
        self, key: object, rank: int, read: Callable[[str], Any], samples: tuple[str, ...] = (), is_certain: bool = True
    ) -> None:
        self.key = key
        self.rank = rank
        self.read = read
        self.samples = samples
        self.is_certain = is_certain


def _read_int(text: str) -> int:
    # int() would take +5, 5_0, spaces and digits of other scripts.
    if not _DIGITS.issuperset(text.removeprefix("-")):
        raise ValueError("not an integer")
    return int(text)  # ValueError: a lone minus, or more digits than Python converts


def _read_float(text: str) -> float:
    whole, point, fraction = text.removeprefix("-").partition(".")
    if not whole or bool(point) != bool(fraction) or not _DIGITS.issuperset(whole + fraction):
        raise ValueError("not a decimal number")
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("the number is too large")
    return value


def _read_word(text: str) -> str:
    if not text.replace("_", "a").isalnum():
        raise ValueError("not of letters, digits and _")
    return text


def _read_hex(text: str) -> str:
    if not _HEX.issuperset(text):
        raise ValueError("not hexadecimal")
    return text


def _read_uuid(text: str) -> Any:
    from uuid import UUID

    if [len(part) for part in text.split("-")] != [8, 4, 4, 4, 12] or not _HEX.issuperset(text.replace("-", "")):
        raise ValueError("not a UUID")
    return UUID(text)


def _read_text(text: str) -> str:
    return text


# Every printable character of ASCII but the slash. No two letters or digits stand side by side, so that no expression
# takes long for it.
_PUNCTUATION = "!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~ "
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_ANY = "".join(letter + _PUNCTUATION[at % len(_PUNCTUATION)] for at, letter in enumerate(_LETTERS))
_ANY_TEXTS = (_ANY, "~", "\u017e \u6f22", "-", _ANY * 9)

PLAIN = Converter("", 6, _read_text, _ANY_TEXTS)
# The only kind that takes slashes: the rest of the path. It is tried when all others have failed.
REST = Converter("path", 7, _read_text, tuple(f"{text}/{text}" for text in _ANY_TEXTS))

BUILT_IN = {
    "uuid": Converter("uuid", 1, _read_uuid, ("01234567-89ab-cdef-0123-456789abcdef",)),
    "int": Converter("int", 2, _read_int, ("-7", "7", "0", "12345678901234567890", "1" * 300)),
    "float": Converter("float", 3, _read_float, ("-7.25", "0.5", "1234567890.0123456789", "1" * 300 + ".5")),
    "hex": Converter("hex", 4, _read_hex, ("c0ffee", "A", "0123456789abcdefABCDEF", "f0" * 300)),
    "word": Converter("word", 5, _read_word, ("_", "w\xf6rd_", "Word", "z9", "\u6f22", "x_" * 300)),
    "path": REST,
}


def matching(expression: str, where: str) -> Converter:
    """The kind `:re:expression:`. Raises TableError for a wrong regular expression."""
    return Converter(("re", expression), 0, _reader(expression, str, where))


def read_converters(table: object) -> dict[str, Converter]:
    """`converters` of the table, and those that are built in, by name. Raises TableError."""
    own = getattr(table, "converters", {})
    if not isinstance(own, dict):
        raise TableError(f"'converters' is {shown(own)}, which is no dict", CONVERTERS)
    return {**BUILT_IN, **{_checked_name(name): _own(name, entry) for name, entry in own.items()}}


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.isidentifier() or name == "re":
        raise TableError(f"'converters' has the key {shown(name)}", "a name of letters, other than 're'")
    if name in BUILT_IN:
        raise TableError(f"'converters' has {name!r}, and :{name} is built in", "another name")
    return name


def _own(name: str, entry: Any) -> Converter:
    where = f"converters[{name!r}]"
    if not isinstance(entry, (tuple, list)) or len(entry) != 2 or not isinstance(entry[0], str):
        raise TableError(f"{where} is {shown(entry)}", CONVERTERS)
    expression, function = entry
    checked_function(function, where, "a function of one argument, the text", arguments=("text",))
    return Converter(("own", name), 0, _reader(expression, function, where), is_certain=function is str)


def _reader(expression: str, function: Callable[[str], Any], where: str) -> Callable[[str], Any]:
    import re

    try:
        fullmatch = re.compile(expression).fullmatch
    except (re.error, OverflowError, RecursionError) as error:
        fault = f"{where} has the regular expression {expression!r}: {error}"
        raise TableError(fault, "an expression that re.compile takes") from None

    def read(text: str) -> Any:
        if fullmatch(text) is None:
            raise ValueError(f"not of the form {expression}")
        return function(text)

    return read


def converter_named(name: str, known: Mapping[str, Converter], where: str) -> Converter:
    """The kind with this name. Raises TableError that lists those there are."""
    converter = known.get(name)
    if converter is None:
        names = ", ".join(f":{each}" for each in known)
        raise TableError(
            f"{where} has the unknown converter {name!r}",
            f"<name:converter>, where the converter is one of {names}, :re:...: or one in 'converters'",
        )
    return converter
