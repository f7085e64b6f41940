"""All paths of a table: which function answers a request, and which path leads to a function.

Knows the order in which patterns are tried. Knows nothing of requests. Patterns are kept in a tree of segments, so that
the time for one path does not grow with the number of patterns. Contract: two patterns for the same paths, and a
pattern that no path reaches, are a TableError that names both entries.
"""

from __future__ import annotations

from poorhttp.dispatch.faults import TableError
from poorhttp.dispatch.patterns import Pattern
from poorhttp.dispatch.percent import PATH, encoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, TypeAlias

    from poorhttp.dispatch.patterns import Segment

    Handler: TypeAlias = Callable[..., Any]
    Methods: TypeAlias = dict[str, Handler]


class Routes:
    """exact: the methods of each path without parameters. patterns: all entries in the order of the table."""

    def __init__(self) -> None:
        self.exact: dict[str, Methods] = {}
        self.patterns: list[tuple[Pattern, Methods]] = []
        self._tree = _Node()
        self._keys: dict[tuple[object, ...], Pattern] = {}

    def add(self, pattern: Pattern, methods: Methods) -> None:
        """Raises TableError if another pattern matches the same paths."""
        self.patterns.append((pattern, methods))
        if not pattern.names:
            self.exact[pattern.text] = methods
            return
        known = self._keys.setdefault(pattern.key, pattern)
        if known is not pattern:
            fault = f"handlers[{known.text!r}] and handlers[{pattern.text!r}] are for the same paths"
            raise TableError(fault, "one entry; several methods of it are a list: [(http.METHOD_GET, function), ...]")
        self._tree.add(pattern, methods)

    def find(self, path: str) -> tuple[Pattern, Methods, list[Any]] | None:
        """The pattern that matches `path`, its methods, and the values of its parameters.

        In each segment exact text goes before parameters, and `:path` comes last; of two parameters the one goes
        before that has more text of its own around it, then the narrower kind: regular expressions and own converters
        in the order of the table, uuid, int, float, hex, word, any text.
        """
        if not self._keys or not _is_text(path):
            return None
        values: list[Any] = []
        found = self._tree.find(path.split("/"), 0, values)
        return None if found is None else (*found, values)

    def in_order(self) -> list[tuple[Pattern, Methods]]:
        """All entries in the order in which they are tried for a path; see `find`."""
        return [entry for entry in self.patterns if not entry[0].names] + list(self._tree.entries())

    def refuse_unreachable(self) -> None:
        """Raise TableError for a pattern that is never reached, as other patterns match all its samples.

        Patterns with regular expressions have no samples, so they are not refused. Converters whose functions may have
        effects are not called.
        """
        certain = Routes()
        for pattern, methods in self.patterns:
            if pattern.names and all(converter.is_certain for converter in pattern.converters()):
                certain.add(pattern, methods)
        for pattern, _ in certain.patterns:
            takers = []
            for sample in pattern.samples():
                found = certain.find(sample)
                if found is None or found[0] is pattern:
                    break
                takers.append(found[0])
            else:
                if takers:
                    fault = f"no path reaches handlers[{pattern.text!r}]: handlers[{takers[0].text!r}] takes them all"
                    raise TableError(fault, "a narrower pattern there, or one of the two")

    def build(self, target: str | Handler, values: Mapping[str, Any]) -> str:
        """The path that leads to a function, given by itself or by its name, with these values; percent-encoded.

        If it has several, the first one in the table whose parameters have these names. Raises LookupError if there is
        none, or if several functions have this name; TypeError and ValueError as `Pattern.build`; ValueError also for a
        path that leads to another entry.
        """
        entries = [
            (pattern, function)
            for pattern, methods in self.patterns
            for function in methods.values()
            if function is target or (isinstance(target, str) and getattr(function, "__name__", None) == target)
        ]
        shown = target if isinstance(target, str) else getattr(target, "__name__", repr(target))
        if not entries:
            raise LookupError(f"no entry of the table has the function {shown}")
        suited = [entry for entry in entries if values.keys() == set(entry[0].names)] or entries[:1]
        if any(function is not suited[0][1] for _, function in suited):
            raise LookupError(f"the table has several functions with the name {shown}: give the function itself")
        pattern = suited[0][0]
        path = pattern.build(values)
        address = encoded(path.encode("utf-8"), PATH)
        taker = self._taker(path)
        if taker != pattern.text:
            raise ValueError(f"{pattern.text!r} with {dict(values)!r} would lead to handlers[{taker!r}]: {path!r}")
        return address

    def _taker(self, path: str) -> str | None:
        """The text of the entry that `path` leads to."""
        if path in self.exact:
            return path
        found = self.find(path)
        return None if found is None else found[0].text


def _is_text(path: str) -> bool:
    """Whether a path can be sent back to a client: the name of a file may be no utf-8, and then has lone surrogates."""
    try:
        return path.isascii() or bool(path.encode())
    except UnicodeEncodeError:
        return False


class _Node:
    """The place in the tree behind some segments, with the segments that may follow."""

    __slots__ = ("end", "lengths", "parameters", "rest", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, _Node] = {}
        # By the text before the first parameter; `lengths` has the lengths of these texts, the longest first.
        self.parameters: dict[str, list[tuple[Segment, _Node]]] = {}
        self.lengths: list[int] = []
        self.end: tuple[Pattern, Methods] | None = None
        self.rest: tuple[Pattern, Methods] | None = None

    def add(self, pattern: Pattern, methods: Methods) -> None:
        node = self
        for segment in pattern.segments:
            node = node.texts.setdefault(segment, _Node()) if isinstance(segment, str) else node._behind(segment)
        if pattern.takes_rest:
            node.rest = (pattern, methods)
        else:
            node.end = (pattern, methods)

    def find(self, segments: list[str], at: int, values: list[Any]) -> tuple[Pattern, Methods] | None:
        """The end that the segments from `at` on lead to; adds to `values`. No node is visited twice."""
        if at == len(segments):
            return self.end
        text = segments[at]
        node = self.texts.get(text)
        found = None if node is None else node.find(segments, at + 1, values)
        if found is None and self.lengths and text:
            found = self._find_parameter(segments, at, values)
        if found is None and self.rest is not None:
            rest = "/".join(segments[at:])
            if rest:
                values.append(rest)
                return self.rest
        return found

    def entries(self) -> Iterator[tuple[Pattern, Methods]]:
        """All entries behind this node, in the order in which `find` tries them."""
        if self.end is not None:
            yield self.end
        for node in self.texts.values():
            yield from node.entries()
        for length in self.lengths:
            for prefix, others in self.parameters.items():
                if len(prefix) == length:
                    for _, node in others:
                        yield from node.entries()
        if self.rest is not None:
            yield self.rest

    def _find_parameter(self, segments: list[str], at: int, values: list[Any]) -> tuple[Pattern, Methods] | None:
        text = segments[at]
        count = len(values)
        for length in self.lengths:
            for segment, node in self.parameters.get(text[:length], ()):
                own = segment.match(text)
                if own is None:
                    continue
                values += own
                found = node.find(segments, at + 1, values)
                if found is not None:
                    return found
                del values[count:]
        return None

    def _behind(self, segment: Segment) -> _Node:
        """The node behind a segment with parameters, which is made if it is not there yet."""
        others = self.parameters.setdefault(segment.prefix, [])
        for other, node in others:
            if other.key == segment.key:
                return node
        node = _Node()
        others.append((segment, node))
        others.sort(key=lambda each: each[0].order())  # stable: else the order of the table counts
        self.lengths = sorted({len(prefix) for prefix in self.parameters}, reverse=True)
        return node
