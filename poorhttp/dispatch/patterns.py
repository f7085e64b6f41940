"""A path with parameters, such as `/user/<id:int>`: reading it, matching a path, and building a path from it.

Knows one pattern; `routes` knows in which order several are tried. Contract: a wrong pattern is refused when it is
read. Matching takes time in proportion to the length of the path, except for regular expressions of the application.
"""

from __future__ import annotations

from poorhttp.dispatch.converters import PLAIN, REST, converter_named, matching
from poorhttp.dispatch.faults import TableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from poorhttp.dispatch.converters import Converter

EXPECTED = "a path such as '/user/<name>' or '/user/<id:int>'"


class Segment:
    """The part of a pattern between two slashes, with at least one parameter.

    prefix: the text before the first parameter. parts: for each parameter its kind, and the text that follows it.
    read: that of the parameter which is the whole segment, as most are; else None. key: equal for two segments that
    match the same texts.
    """

    __slots__ = ("key", "parts", "prefix", "read")

    def __init__(self, prefix: str, parts: list[tuple[Converter, str]]) -> None:
        self.prefix = prefix
        self.parts = parts
        self.read = parts[0][0].read if not prefix and len(parts) == 1 and not parts[0][1] else None
        self.key = (prefix, tuple((converter.key, behind) for converter, behind in parts))

    def order(self) -> tuple[int, list[int]]:
        """Of two segments the one with more text of its own is tried first, then the one with the narrower kind."""
        text = sum(len(behind) for _, behind in self.parts)
        return -text, [converter.rank for converter, _ in self.parts]

    def match(self, text: str) -> list[Any] | None:
        """The values in `text`, which begins with the prefix; None if it does not match.

        A parameter takes at least one character, and ends where the text that follows it stands for the first time;
        the last one ends where the text that follows it ends the segment.
        """
        if self.read is not None:
            try:
                return [self.read(text)]
            except ValueError:
                return None
        values = []
        at = len(self.prefix)
        last = len(self.parts) - 1
        for number, (converter, behind) in enumerate(self.parts):
            if number < last:
                end = text.find(behind, at + 1)
            else:
                end = len(text) - len(behind) if text.endswith(behind) else -1
            if end <= at:
                return None
            try:
                values.append(converter.read(text[at:end]))
            except ValueError:
                return None
            at = end + len(behind)
        return values

    def splits(self, texts: list[str]) -> bool:
        """Whether `match` finds these texts, one for each parameter, where they stand in the segment."""
        each = zip(texts, self.parts[:-1], strict=False)  # the last one ends where the segment ends
        return all((text + behind).find(behind, 1) == len(text) for text, (_, behind) in each)


class Pattern:
    """A path with or without parameters.

    text: as it was written. names: of the parameters, in order. segments: between the slashes of the path, each a str
    or a `Segment`. takes_rest: whether the last parameter is a `:path`, which is not among the segments.
    """

    def __init__(self, text: str, converters: Mapping[str, Converter]) -> None:
        """Raises TableError."""
        self.text = text
        self.names: tuple[str, ...] = ()
        self.segments: list[str | Segment] = []
        self.takes_rest = False
        self._pieces: list[str | tuple[str, Converter]] = []
        self._read(converters)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for two patterns that match the same paths."""
        parts = (segment if isinstance(segment, str) else segment.key for segment in self.segments)
        return (*parts, self.takes_rest)

    def converters(self) -> list[Converter]:
        return [piece[1] for piece in self._pieces if not isinstance(piece, str)]

    def samples(self) -> list[str]:
        """Paths that this pattern matches and as few others as possible; none if one of its kinds has no samples."""
        converters = self.converters()
        if not all(converter.samples for converter in converters):
            return []
        count = max([len(converter.samples) for converter in converters], default=0)
        return ["".join([_sample(piece, number) for piece in self._pieces]) for number in range(count)]

    def build(self, values: Mapping[str, Any]) -> str:
        """The path with these values, not encoded. Raises TypeError for a value missing or too many, ValueError for
        values that the pattern would not read back.
        """
        if values.keys() != set(self.names):
            raise TypeError(f"{self.text!r} takes the values {_listed(self.names)}, not {_listed(values)}")
        texts = [piece if isinstance(piece, str) else _written(*piece, values) for piece in self._pieces]
        path = "".join(texts)
        # A browser takes // for the start of a host, and resolves dots before it asks.
        if path.startswith("//") or not {".", ".."}.isdisjoint(path.split("/")):
            raise ValueError(f"{self.text!r} with {dict(values)!r} would lead elsewhere: {path!r}")
        written = [text for text, piece in zip(texts, self._pieces, strict=True) if not isinstance(piece, str)]
        for segment in self.segments:
            if isinstance(segment, Segment):
                count = len(segment.parts)
                if not segment.splits(written[:count]):
                    raise ValueError(f"{self.text!r} would find other values than {dict(values)!r} in {path!r}")
                written = written[count:]
        return path

    def _read(self, converters: Mapping[str, Converter]) -> None:
        rest = self.text
        while rest:
            literal, opened, rest = rest.partition("<")
            if ">" in literal:
                raise TableError(f"handlers[{self.text!r}] has a > without a <", EXPECTED)
            if literal:
                self._pieces.append(literal)
            if opened:
                rest = self._add_parameter(rest, converters)
        self.names = tuple([piece[0] for piece in self._pieces if not isinstance(piece, str)])
        self._split()

    def _add_parameter(self, rest: str, converters: Mapping[str, Converter]) -> str:
        """Read `name>` or `name:kind>` or `name:re:expression:>` from the start of `rest`, and return what follows."""
        where = f"handlers[{self.text!r}]"
        if self._pieces and not isinstance(self._pieces[-1], str):
            raise TableError(f"{where} has two parameters with nothing between them", "text between them, or a slash")
        head, colon, expression = rest.partition(":re:")
        if colon and ">" not in head:
            expression, closed, rest = expression.partition(":>")
            name, converter = head, matching(expression, where)
            if not expression:
                raise TableError(f"{where} has an empty regular expression", "<name:re:[a-z]+:>")
        else:
            head, closed, rest = rest.partition(">")
            name, colon, kind = head.partition(":")
            if name in converters and kind.isidentifier() and kind not in converters:
                fault = f"{where} has the unknown converter {kind!r}: did you mean <{kind}:{name}>?"
                raise TableError(fault, "the name, then the converter")
            converter = converter_named(kind, converters, where) if colon else PLAIN
        if not closed:
            raise TableError(f"{where} has a < without its end", "<name>, <name:kind> or <name:re:...:>")
        if not name.isidentifier():
            raise TableError(f"{where} has the parameter {name!r}", "a name of letters, digits and _")
        if any(piece[0] == name for piece in self._pieces if not isinstance(piece, str)):
            raise TableError(f"{where} has the parameter {name!r} twice", "another name for each")
        self._pieces.append((name, converter))
        return rest

    def _split(self) -> None:
        """Make segments of the pieces."""
        segment: list[str | Converter] = []
        for piece in self._pieces:
            if not isinstance(piece, str):
                segment.append(piece[1])
                continue
            first, *others = piece.split("/")
            segment.append(first)
            for text in others:
                self._add_segment(segment)
                segment = [text]
        if REST in segment:
            if segment not in ([REST], ["", REST]):
                raise self._misplaced()
            self.takes_rest = True
        else:
            self._add_segment(segment)

    def _add_segment(self, found: list[str | Converter]) -> None:
        if REST in found:
            raise self._misplaced()
        texts = [each for each in found if isinstance(each, str)]
        kinds = [each for each in found if not isinstance(each, str)]
        if not kinds:
            self.segments.append("".join(texts))
            return
        texts += [""] * (len(kinds) + 1 - len(texts))  # nothing follows the last parameter
        self.segments.append(Segment(texts[0], list(zip(kinds, texts[1:], strict=True))))

    def _misplaced(self) -> TableError:
        fault = f"handlers[{self.text!r}] has a :path that is not the whole end of the path"
        return TableError(fault, "/files/<name:path>")


def _sample(piece: str | tuple[str, Converter], number: int) -> str:
    if isinstance(piece, str):
        return piece
    samples = piece[1].samples
    return samples[number % len(samples)]


def _written(name: str, converter: Converter, values: Mapping[str, Any]) -> str:
    """A value as text that the converter reads."""
    text = str(values[name])
    if not text or ("/" in text and converter is not REST):
        raise ValueError(f"the value {values[name]!r} of {name!r} cannot stand in a path: it is empty or has a slash")
    try:
        converter.read(text)
    except ValueError as error:
        raise ValueError(f"the value {values[name]!r} of {name!r} cannot stand in a path: {error}") from None
    return text


def _listed(names: Any) -> str:
    return ", ".join(map(str, names)) or "nothing"
