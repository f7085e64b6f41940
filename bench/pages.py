"""The records as two pages: one for browsers that holds all it needs, and one in Markdown with its pictures beside it.

Knows neither how a run was measured nor how a chart is drawn. The same records give the same bytes.
"""

from __future__ import annotations

import html
import re
import string
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from bench import caches_advice, curves, markup, ranking, report, sessions_advice
from bench.caches import CACHES, SHARED
from bench.client import Failure
from bench.launch import HERE
from bench.runs import BadRecord, Run, read_all, replaced
from bench.servers import OURS
from bench.workloads import Target

Chart = ranking.Ranking | curves.Curves
Sections = Callable[[report.Results], Iterable[str]]
Commands = Mapping[str, tuple[Sections, Sequence[Target]]]

TEMPLATE = HERE / "page.html"
MANUAL = HERE / "README.md"
HTML, MARKDOWN, CHARTS = "report.html", "README.md", "charts"
NAMES = {
    "cost": "Cost of a request", "front": "Behind lighttpd", "memory": "Memory",
    "memory-workers": "Memory of workers", "start": "Start", "faults": "Faults",
    "robust": "Robustness", "scale": "Scale", "reload": "From a save to new code", "table": "The dispatch table",
    "sessions": "Sessions", "sessions-django": "Sessions of Django",
    "sessions-libraries": "Sessions beside other libraries",
    "sessions-tornado": "Session engines, as in an article on Tornado",
    "caches": "Caches", "article": "The article of 2010", "sweep": "Many connections",
}  # fmt: skip
KEY = (("ours", "poorhttp, in each of its types, and its cache"), ("peer", "other servers and caches"),
       ("limit", "a bare loop, which parses nothing: the limit of kept connections"))  # fmt: skip
OUR_NAMES = (*OURS, *ranking.IN_WORKERS.ours, SHARED, CACHES[SHARED].title)
OUR_ROW = re.compile(rf"<tr>(<td[^>]*>(?:{'|'.join(map(re.escape, OUR_NAMES))})</td>)")
# Command -> title, file, and what makes the advice of results; a paragraph comes first that says it in short.
ADVICE: Mapping[str, tuple[str, str, Callable[[report.Results], str]]] = {
    "sessions-django": ("Which session engine", "which-session-engine.md", sessions_advice.advice),
    "caches": ("Which cache", "which-cache.md", caches_advice.advice),
}
CURVES: Mapping[str, Callable[[Run], Iterable[curves.Curves]]] = {"sessions-django": sessions_advice.curves}
ADVISED = "Sentences that follow from the figures of the newest run: whatever it names comes from there."
INTRODUCTION = """\
What poorhttp costs beside its peers, and what its users notice of reloads, stops and kills. Each chart and each table
comes from one run, on one machine; figures of different runs cannot be compared. poorhttp measured this itself: read
[the bias]({bias}) first, and [the method]({method}).

Bars begin at zero. Each bar is the median of the rounds, and a thin line on it goes from the smallest to the largest
round. A server that failed has no number anywhere, only its reason.
"""
FOOT = "Written by `python -m bench report` from the records beside it."
CHOICE = """\
Of the runs under the same Python the one with the most peers is drawn, and then each other run that has a peer which no
chart shows yet. All numbers are in [the tables](#runs).
"""
TARGETS = """\
A target is what this bench asks of poorhttp today. It is judged by the newest whole run that measured it. Of {all}
targets {met} are met, {missed} missed, {failed} failed, and {absent} not measured by any run here.
"""
REPLACED = (
    "The rows of these records have all been measured again, by a newer run of the same command under the same Python."
)


@dataclass
class Part:
    """A heading, Markdown and charts below it, and parts below these."""

    title: str
    text: str = ""
    charts: Sequence[Chart] = ()
    parts: list[Part] = field(default_factory=list)
    is_folded: bool = False  # where a page can be folded
    beside: str = ""  # the file in which the same can be read where a page cannot be folded


def main(commands: Commands, directory: Path) -> int:
    """Write the pages, or tell why not; returns the exit status."""
    try:
        for path in write(commands, directory):
            print(path)
    except (BadRecord, Failure) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def write(commands: Commands, directory: Path) -> list[Path]:
    """Write both pages and the charts beside the records. Raises BadRecord, and Failure where matplotlib is missing.

    commands: the names of the records' commands, each with what makes sections of results, and its targets.
    """
    parts = list(document(read_all(directory), commands))
    drawn = {chart.name: _drawing(chart).svg(chart) for chart in _charts(parts)}
    charts = directory / CHARTS
    charts.mkdir(exist_ok=True)
    for old in charts.glob("*.svg"):
        old.unlink()
    for name, svg in drawn.items():
        (charts / f"{name}.svg").write_text(ranking.alone(svg), encoding="utf-8")
    advised = [each for part in parts for each in part.parts if each.beside in {name for _, name, _ in ADVICE.values()}]
    for part in advised:
        (directory / part.beside).write_text(_alone(part), encoding="utf-8")
    (directory / HTML).write_text(as_html(parts, drawn), encoding="utf-8")
    (directory / MARKDOWN).write_text(as_markdown(parts), encoding="utf-8")
    return [directory / HTML, directory / MARKDOWN, *(directory / part.beside for part in advised)]


def document(runs: Sequence[Run], commands: Commands) -> Iterator[Part]:
    """The report. runs: the newest first."""
    old = replaced(runs)
    kept = [run for run in runs if run.name not in old]
    yield Part("Targets", parts=list(targets(kept, commands)))
    if advised := list(advice(kept)):
        yield Part("Advice", ADVISED, parts=advised)
    charts = list(_chart_parts(kept, commands))
    yield Part("Charts", CHOICE if charts else "No run has a peer.", parts=charts)
    yield from manual()
    yield Part("Runs", "The newest first.", parts=[_run_part(run, commands) for run in kept])
    if old:
        lines = [f"- {name}: {', '.join(newer) or 'measured nothing'}" for name, newer in old.items()]
        yield Part("Records that newer runs replace", "\n".join([REPLACED, *lines]))


def targets(runs: Sequence[Run], commands: Commands) -> Iterator[Part]:
    """How many targets are met, and the tables of them. runs: the newest first."""
    rows: dict[str, list[list[str]]] = {"MISSED": [], "FAILED": [], "met": [], "not run": []}
    for command, (_, asked) in commands.items():
        for target in asked:
            of = [run for run in runs if run.command == command and not run.is_partial]
            run = next((each for each in of if report.verdict(target, each.results) != "not run"), None)
            text, *cells = report.target_row(target, run.results if run else {})
            row = [f"{command}: {text}", *cells, run.name if run else report.ABSENT]
            if run and cells[-1] in ("MISSED", "FAILED"):
                row += [report.best(target, run.results), target.why]
            rows[cells[-1]].append(row)
    heading = [*report.TARGET_HEADING, "run"]
    absent = rows["not run"]
    count = sum(map(len, rows.values()))
    yield Part("", TARGETS.format(all=count, met=len(rows["met"]), missed=len(rows["MISSED"]),
                                  failed=len(rows["FAILED"]), absent=len(absent)))  # fmt: skip
    if short := rows["MISSED"] + rows["FAILED"]:
        yield Part("Missed", report.table([*heading, "the best other", "why, where it is known"], short))
    if rows["met"]:
        yield Part("Met", report.table(heading, rows["met"]), is_folded=True)
    if absent:
        yield Part("Not measured", report.table(heading[:2], [row[:2] for row in absent]), is_folded=True)


def advice(runs: Sequence[Run]) -> Iterator[Part]:
    """A part for each question that a whole run answers. runs: the newest first."""
    for command, (title, file, text_of) in ADVICE.items():
        whole = [run for run in runs if run.command == command and not run.is_partial]
        found = ((run, text) for run in whole if (text := text_of(run.results)))
        for run, text in islice(found, 1):
            short, _, rest = text.partition("\n\n")
            origin = f"All figures are of the run {run.name}: {run.facts['cpu']}, {run.facts['python of poorhttp']}."
            drawn = list(CURVES[command](run)) if command in CURVES else []
            yield Part(title, short, parts=[Part("", f"{rest}\n\n{origin}", drawn)], beside=file)


def _alone(part: Part) -> str:
    """A part of text and pictures as a page of its own."""
    below = (block for each in part.parts for block in _markdown(each, 2))
    return "\n\n".join([f"# {part.title}", part.text, *below, FOOT]) + "\n"


def _chart_parts(runs: Sequence[Run], commands: Commands) -> Iterator[Part]:
    for command, (sections, _) in commands.items():
        titles: dict[str, str] = {}
        for run in runs:
            if run.command == command:
                titles |= {name: _title(text) for name, text in _sections(run, sections).items()}
        if charts := list(ranking.rankings(runs, command, titles)):
            yield Part(NAMES.get(command, command), charts=charts)


def _name(section: str) -> str:
    """The name in the heading of a section: `hello` of `## hello: a fixed answer`."""
    return section.partition("\n")[0].removeprefix("## ").partition(": ")[0]


def _title(section: str) -> str:
    """The heading of a section, `## hello: a fixed answer`, as `A fixed answer (hello)`, without signs of Markdown."""
    name, _, what = section.partition("\n")[0].removeprefix("## ").replace("`", "").partition(": ")
    return f"{what[0].upper()}{what[1:]} ({name})" if what else name


def manual() -> Iterator[Part]:
    """Bias and method, as bench/README.md tells them."""
    chapters = re.split(r"^## ", MANUAL.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    told = {title: text.strip() for title, _, text in (chapter.partition("\n") for chapter in chapters)}
    yield Part("Bias", told.pop("BIAS"), beside="../README.md#bias")
    told = {title: text for title, text in told.items() if title != "Report"}
    parts = [Part(title, text, is_folded=True) for title, text in told.items()]
    yield Part("Method", "How each command measures.", parts=parts, beside="../README.md#method")


def _run_part(run: Run, commands: Commands) -> Part:
    facts = "\n".join(f"- {name}: {value}" for name, value in run.facts.items() if name != "command")
    servers = report.table(
        ["server", "version", "note"], [[name, told["version"], told["note"]] for name, told in run.servers.items()]
    )
    parts = [Part("Machine and versions", f"{facts}\n\n{servers}", is_folded=True)]
    sections = commands[run.command][0] if run.command in commands else None
    for text in _sections(run, sections).values():
        title, _, body = text.partition("\n")
        parts.append(Part(title.removeprefix("## "), body.strip(), is_folded=True))
    return Part(run.name, run.facts["command"], parts=parts, beside=f"{run.name}.md")


def _sections(run: Run, sections: Sections | None) -> dict[str, str]:
    """The sections of the run by their names, which are those of workloads, or of overviews over several of them."""
    if found := {_name(text): text for text in _known(sections, run.results)}:
        return found
    for workload in dict.fromkeys(row[0] for row in run.results):
        of = {row: result for row, result in run.results.items() if row[0] == workload}
        texts = {_name(text): text for text in _known(sections, of)}
        found[workload] = texts.get(workload) or _all_numbers(of, workload)
    return found


def _known(sections: Sections | None, results: report.Results) -> list[str]:
    """What the bench of today makes of the results; nothing where it does not know one of their workloads."""
    try:
        return list(sections(results)) if sections else []
    except KeyError:
        return []


def _all_numbers(of: report.Results, workload: str) -> str:
    columns = dict.fromkeys(column for result in of.values() for numbers in result.rounds for column in numbers)
    return f"## {workload}\n\n{report.result_table(of, workload, {each: each for each in columns})}"


def _drawing(chart: Chart) -> Any:
    """The module that draws it and tells it in words."""
    return curves if isinstance(chart, curves.Curves) else ranking


def _charts(parts: Iterable[Part]) -> Iterator[Chart]:
    for part in parts:
        yield from part.charts
        yield from _charts(part.parts)


def _origin(chart: Chart, where: str) -> str:
    """What the chart comes from. where: the link to its run."""
    facts = chart.run.facts
    rounds = max(
        (len(result.rounds) for row, result in chart.run.results.items() if row[0] == chart.workload), default=0
    )
    told = (facts["cpu"], facts["python of poorhttp"], f"{rounds} round{'s' * (rounds != 1)}")
    told += ("partial: ended before its end",) * chart.run.is_partial
    return f"[{chart.run.name}]({where}): {'; '.join(told)}"


def as_markdown(parts: Iterable[Part]) -> str:
    """The page for people who read the repository; method and bias are links."""
    lines = ["# Bench report", INTRODUCTION.format(bias="../README.md#bias", method="../README.md#method").strip(),
             f"The same page for browsers, with tables that can be sorted: [{HTML}]({HTML}). {FOOT}"]  # fmt: skip

    for part in parts:
        if part.beside:
            lines.extend([f"## {part.title}", f"It is in [the manual of the bench]({part.beside})."])
        else:
            lines.extend(_markdown(part, 2))
    return "\n\n".join(lines) + "\n"


def _markdown(part: Part, level: int) -> list[str]:
    """The blocks of a part: its heading, what it says, its pictures, and the parts below it."""
    lines = [text for text in (f"{'#' * level} {part.title}" if part.title else "", part.text.strip()) if text]
    for chart in part.charts:
        picture = f"![{_drawing(chart).words(chart)}]({CHARTS}/{chart.name}.svg)"
        lines.extend([picture, _origin(chart, f"{chart.run.name}.md")])
    entries: list[str] = []
    for each in part.parts:
        if each.beside:
            entries.append(f"- [{each.title}]({each.beside}): {each.text}")
        else:
            lines.extend(_markdown(each, level + 1))
    return [*lines, "\n".join(entries)] if entries else lines


def as_html(parts: Sequence[Part], drawn: Mapping[str, str]) -> str:
    """The page for browsers. drawn: the picture of each chart."""
    introduction = markup.rendered(INTRODUCTION.format(bias="#bias", method="#method"))
    key = "".join(f'<span><i style="background: var(--{name})"></i>{words}</span>' for name, words in KEY)
    links = "".join(f'<li><a href="#{markup.anchor(part.title)}">{html.escape(part.title)}</a></li>' for part in parts)
    body = [f'<h1>Bench report</h1>\n{introduction}\n<p class="key">{key}</p>\n<nav><ul>{links}</ul></nav>']
    body += [_html(part, 2, drawn) for part in parts]
    body.append(f"<footer>{markup.rendered(FOOT)}</footer>")
    return string.Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title="poorhttp: bench report", light=ranking.variables(False), dark=ranking.variables(True),
        body="\n".join(body),
    )  # fmt: skip


def _html(part: Part, level: int, drawn: Mapping[str, str]) -> str:
    inner = [OUR_ROW.sub(r'<tr class="ours">\1', markup.rendered(part.text, level - 1))]
    if part.charts:
        inner += ['<div class="charts">', *(_figure(chart, drawn[chart.name]) for chart in part.charts), "</div>"]
    inner += [_html(each, level + 1, drawn) for each in part.parts]
    text = "\n".join(inner)
    title = markup.inline(part.title)
    if part.is_folded:
        return f"<details>\n<summary>{title}</summary>\n{text}\n</details>"
    anchor = f' id="{markup.anchor(part.title)}"' if part.title else ""
    return f"<section{anchor}>\n<h{level}>{title}</h{level}>\n{text}\n</section>" if part.title else text


def _figure(chart: Chart, svg: str) -> str:
    caption = markup.inline(_origin(chart, "#" + markup.anchor(chart.run.name)))
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"
