"""The listing of a directory: a page with name, time, size and type of each file that a client may have.

Knows the page and its order. It is told which files may be opened. Contract: every name is escaped, every link is
percent-encoded bytes and relative; of a large directory `MOST` entries are read, hidden ones included.
"""

from __future__ import annotations

import os
import stat
import time

from poorhttp.dispatch.error_log import printable
from poorhttp.dispatch.percent import NAME, encoded
from poorhttp.pages.document import document, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST = 10_000

_COLUMNS = {"name": "Name", "modified": "Last Modified", "size": "Size", "type": "Type"}
_DIRECTORY = "Directory"

_TABLE = """\
  <table class="listing">
   <thead><tr>{heads}</tr></thead>
   <tbody>
{rows}   </tbody>
  </table>
{note}"""


class Entry:
    """A file or directory of the listing."""

    __slots__ = ("is_directory", "kind", "modified", "name", "size")

    def __init__(self, name: str, status: os.stat_result, kind: str) -> None:
        self.name = name
        self.is_directory = stat.S_ISDIR(status.st_mode)
        self.modified = status.st_mtime
        self.size = 0 if self.is_directory else status.st_size
        self.kind = _DIRECTORY if self.is_directory else kind

    def key(self, column: str) -> tuple[object, str]:
        """What it is ordered by; entries that are alike there, by their names."""
        return {"modified": self.modified, "size": self.size, "type": self.kind}.get(column, ""), self.name


class Listing:
    """What a directory has for clients: regular files and directories with names that are not hidden."""

    def __init__(
        self, directory: int, type_of: Callable[[str], tuple[str, bool]], may_follow: Callable[[bytes], bool]
    ) -> None:
        """directory: its descriptor. type_of: from a name to a media type. may_follow: from the name of a symbolic
        link to whether it leads where clients may go.
        """
        self.is_cut = False
        self.entries: list[Entry] = []
        with os.scandir(directory) as found:
            for count, each in enumerate(found):
                if count == MOST:
                    self.is_cut = True
                    break
                if each.name.startswith(".") or each.name.endswith("~"):
                    continue
                try:
                    status = each.stat()
                    if each.is_symlink() and not may_follow(os.fsencode(each.name)):
                        continue
                except OSError:  # a link to nothing, or a file that is gone already
                    continue
                if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                    self.entries.append(Entry(each.name, status, type_of(each.name)[0].partition(";")[0]))

    def page(self, path: str, query: str, *, has_parent: bool) -> str:
        """The page. path: of the directory, as a person reads it. query: of the request, `sort=size` or `sort=-size`.
        has_parent: whether the directory above it is for clients too.
        """
        column, is_descending = _order(query)
        entries = sorted(self.entries, key=lambda entry: entry.key(column), reverse=is_descending)
        entries.sort(key=lambda entry: not entry.is_directory)
        rows = "".join(_row(entry) for entry in entries)
        if has_parent:
            rows = f'    <tr><td><a href="../">..</a></td><td></td><td></td><td>{_DIRECTORY}</td></tr>\n{rows}'
        note = f"  <p>There may be more: only {MOST} entries of a directory are read.</p>\n" if self.is_cut else ""
        title = escape(f"Index of {printable(_text(path))}")
        return document(title, _TABLE.format(heads="".join(_heads(column, is_descending)), rows=rows, note=note))


def _order(query: str) -> tuple[str, bool]:
    """The column and the direction that a query asks for; else by name."""
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if name == "sort" and value.removeprefix("-") in _COLUMNS:
            return value.removeprefix("-"), value.startswith("-")
    return "name", False


def _heads(column: str, is_descending: bool) -> Iterator[str]:
    for name, title in _COLUMNS.items():
        minus = "-" if name == column and not is_descending else ""
        direction = "descending" if is_descending else "ascending"
        sorting = f' aria-sort="{direction}"' if name == column else ""
        yield f'<th{sorting}><a href="?sort={minus}{name}">{title}</a></th>'


def _row(entry: Entry) -> str:
    slash = "/" if entry.is_directory else ""
    address = encoded(os.fsencode(entry.name), NAME) + slash
    link = f'<a href="{address}"><bdi>{escape(printable(_text(entry.name)))}</bdi>{slash}</a>'
    modified = time.strftime("<span>%Y-%m-%d</span> %H:%M", time.localtime(entry.modified))
    size = "" if entry.is_directory else f'<span title="{entry.size} bytes">{_size(entry.size)}</span>'
    return f"    <tr><td>{link}</td><td>{modified}</td><td>{size}</td><td>{escape(entry.kind)}</td></tr>\n"


def _text(name: str) -> str:
    """A name that can be shown: a byte that is not UTF-8 becomes a replacement character."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _size(size: float) -> str:
    """1536 -> `1.5 KiB`."""
    if size < 1024:
        return f"{size:.0f} B"
    for unit in "KiB", "MiB", "GiB":
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"
