"""Markdown to HTML, as far as the bench writes Markdown: headings, paragraphs, lists, tables, code, bold, links.

Everything else is shown as it stands, so that no text of a record becomes an element of the page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

CELLS = re.compile(r"(?<!\\)\|")
INLINE = re.compile(r"\\([!-/:-@\[-`{-~])|`([^`]+)`|\*\*(.+?)\*\*|\[([^\]]+)\]\(([\w./#-]+)\)")
FIGURE = re.compile(r"[-+]?[\d,.]+%?|–")  # noqa: RUF001
FIRST = re.compile(r"\A<p>(.*?)</p>", re.DOTALL)  # of a list item
SHORT = 34  # letters
VERDICTS = {"met": "met", "MISSED": "missed", "FAILED": "failed", "not run": "absent"}


def rendered(text: str, deeper: int = 0) -> str:
    """The HTML of the Markdown. deeper: how many levels its headings go down."""
    return "\n".join(_blocks(text.split("\n"), deeper))


def _blocks(lines: list[str], deeper: int) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip():
            at += 1
        elif heading := re.match(r"(#+) (.*)", line):
            level = len(heading[1]) + deeper
            yield f'<h{level} id="{anchor(heading[2])}">{inline(heading[2])}</h{level}>'
            at += 1
        else:
            starts, render = next((s, r) for s, r in KINDS if re.match(s, line))
            end = at + 1
            while end < len(lines) and _goes_on(starts, lines, end):
                end += 1
            yield render(lines[at:end], deeper)
            at = end


def _goes_on(starts: str, lines: list[str], at: int) -> bool:
    """Whether the line belongs to the block that began with a line like `starts`."""
    line = lines[at]
    if starts == LIST:
        following = next((each for each in lines[at:] if each.strip()), "")
        return bool(re.match(rf"{LIST}|  ", line if line.strip() else following))
    if starts == TEXT:
        return bool(line.strip()) and not re.match(rf"#+ |{LIST}|{TABLE}", line)
    return bool(re.match(starts, line))


def _table(lines: list[str], _deeper: int) -> str:
    rows = [[cell.strip() for cell in CELLS.split(line.strip())[1:-1]] for line in lines]
    head, body = rows[0], rows[2:]
    kinds = [_column([row[i] for row in body if i < len(row)]) for i in range(len(head))]
    heads = "".join(
        f'<th scope="col"{_classes(kind)}>{inline(cell)}</th>' for cell, kind in zip(head, kinds, strict=True)
    )
    lined = "\n".join(
        "<tr>" + "".join(f"<td{_classes(kind, _cell(cell))}>{inline(cell)}</td>"
                         for cell, kind in zip(row, kinds, strict=False)) + "</tr>" for row in body
    )  # fmt: skip
    return f'<div class="scroll"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{lined}\n</tbody>\n</table></div>'


def _column(cells: list[str]) -> str:
    """How a column is set: figures to the right, short words on one line."""
    if cells and all(FIGURE.fullmatch(cell) for cell in cells):
        return "figure"
    return "short" if max(map(len, cells), default=0) <= SHORT else ""


def _cell(cell: str) -> str:
    return "failed" if cell.startswith("**FAILED**") else VERDICTS.get(cell, "")


def _classes(*names: str) -> str:
    shown = " ".join(filter(None, names))
    return f' class="{shown}"' if shown else ""


def _list(lines: list[str], deeper: int) -> str:
    items: list[list[str]] = []
    for line in lines:
        if line.startswith("- "):
            items.append([])
        items[-1].append(line[2:])
    inner = [FIRST.sub(r"\1", rendered("\n".join(item), deeper), count=1) for item in items]
    return "<ul>\n" + "\n".join(f"<li>{item}</li>" for item in inner) + "\n</ul>"


def _code(lines: list[str], _deeper: int) -> str:
    return f"<pre>{html.escape(chr(10).join(line[4:] for line in lines))}</pre>"


def _paragraph(lines: list[str], _deeper: int) -> str:
    return f"<p>{inline(chr(10).join(lines))}</p>"


LIST, TABLE, CODE, TEXT = "- ", r"\|", "    ", ""
KINDS = ((LIST, _list), (TABLE, _table), (CODE, _code), (TEXT, _paragraph))


def inline(text: str) -> str:
    """The HTML of text within a block."""

    def element(found: re.Match[str]) -> str:
        escaped, code, bold, words, link = found.groups()
        if escaped:
            return html.escape(escaped)
        if code:
            return f"<code>{html.escape(code)}</code>"
        return f"<strong>{inline(bold)}</strong>" if bold else f'<a href="{link}">{inline(words)}</a>'

    parts = []
    at = 0
    for found in INLINE.finditer(text):
        parts += [html.escape(text[at : found.start()]), element(found)]
        at = found.end()
    return "".join([*parts, html.escape(text[at:])])


def anchor(heading: str) -> str:
    """What GitHub makes of a heading: small letters, no punctuation, a hyphen for each space."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
