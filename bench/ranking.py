"""Charts that rank servers by one number: what is drawn of which record, and each picture as SVG.

Bars begin at zero, the best server is on top, each bar has its number beside it, and a thin line shows the spread of
its rounds. poorhttp has the same colour in every chart. What failed, or does not apply, has words in place of a bar.
A line across a bar is what others once printed of the same.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from bench import charts, sessions_tornado_report
from bench.caches import CACHES, SHARED
from bench.report import UNITS, Result, number
from bench.runs import Run, unescaped
from bench.servers import OURS, WEIGHED
from bench.workloads import Row

BARE = "bare"
TITLES = {
    BARE: "bare loop", **{name: f"poorhttp {name}" for name in OURS}, "pyuwsgi": "uWSGI", "uwsgi": "uWSGI",
    "gunicorn": "gunicorn sync", "gthread": "gunicorn gthread", "fastwsgi": "FastWSGI", "weft": "Weft",
    "peregrine": "Peregrine", "flask-run": "flask run", "watchfiles": "watchfiles + waitress",
    "lighttpd-1": "lighttpd + single", "lighttpd-2": "lighttpd + 2 x single", "lighttpd-4": "lighttpd + 4 x single",
    "uwsgi-http": "uWSGI, --http", "cherrypy": "CherryPy", "mod-wsgi": "mod_wsgi-express",
    "bjoern-article": "bjoern, article", "cherrypy-article": "CherryPy, article",
    "gunicorn-article": "gunicorn, article", "meinheld-article": "meinheld, article",
    "mod-wsgi-article": "mod_wsgi, article", "uwsgi-article": "uWSGI, article",
    "apache": "Apache", "apache-kept": "Apache, kept", "apache-plain": "Apache, plain",
}  # fmt: skip
BEHIND = ("lighttpd-1", "lighttpd-2", "lighttpd-4")  # poorhttp behind lighttpd, in `article`
# A colour's name in a style sheet, and the colour in light and in dark; blue and vermilion are Okabe's and Ito's.
COLOURS = {
    "ours": ("#0072b2", "#56b4e9"),
    "peer": ("#a7adb4", "#6e7681"),
    "limit": ("#4a5058", "#c3c9cf"),
    "ink": ("#1f2328", "#dcdfe2"),
    "faint": ("#59636e", "#9da7b0"),
    "line": ("#d8dce0", "#363b40"),
    "edge": ("#b5301f", "#ff8a70"),
    "paper": ("#ffffff", "#16181a"),
}
WIDTH = 3.75  # inches
BAR, TITLE, AXIS = 0.2, 0.16, 0.42  # inches of height: of a row, of a line of the title, of all else
LETTERS = 48, 70  # in a line of the title, and of what is below it
NOTE = 46  # letters in place of a bar
PALE = 0.45  # the opacity of a bar that has a darker part
NUMBER = 1 / 6  # of the width of the bars, which the number behind a bar takes at least
LETTER = 0.033  # of it, which a bold letter of that number takes
LARGER = 1.6  # a picture that is a file of its own is larger by this, so that its letters have the size of a page's


@dataclass(frozen=True)
class Drawing:
    """What is drawn of a workload."""

    column: str
    what: str  # the number, and its unit
    unit: float = 0.0  # how much of the column's unit is one of the chart's; 0: what a table of the numbers takes
    each: str = ""  # the column of what it is counted for: the number is divided by that of the same round
    over: str = ""  # the server whose number in the same round it is divided by
    is_more_better: bool = False
    ours: Sequence[str] = OURS
    titles: Mapping[str, str] = field(default_factory=dict)  # of servers, where they are not those of TITLES
    printed: Mapping[str, float] = field(default_factory=dict)  # by others, of some of the servers
    part: str = ""  # the column of a part of it, which is drawn darker


@dataclass(frozen=True)
class Bar:
    server: str
    value: float | None
    low: float = 0.0  # of the rounds
    high: float = 0.0
    note: str = ""  # in place of the bar
    is_failed: bool = False
    part: float = 0.0  # of the value
    is_marked: bool = False  # it left clients without an answer, so its number is that of fewer clients


@dataclass(frozen=True)
class Ranking:
    """One chart, with the run that its numbers come from."""

    name: str  # of its file
    workload: str
    title: str
    drawing: Drawing
    bars: Sequence[Bar]  # the best first
    run: Run


COST = (Drawing("cpu", "CPU per request, times that of the bare loop", over=BARE),)
RATE = Drawing("rate", "requests per second", is_more_better=True)
P99 = Drawing("p99", "99th percentile of the answer's time, ms")
SAVE = (Drawing("p50", "from a save to the first new answer, median, ms"),)
FAILED = (Drawing("failed", "requests that failed at the first try"),)
TIMED = {"median": "median", "p90": "90th percentile", "p99": "99th percentile"}
SCALE = (Drawing("times", "requests per second, times those of one process", is_more_better=True),)
ENGINES = Drawing("rate", "requests per second, times those without sessions", over="none", is_more_better=True,
                  ours=sessions_tornado_report.OURS, titles=sessions_tornado_report.TITLES)  # fmt: skip
SHARES = {name: printed.share for name, printed in sessions_tornado_report.PRINTED.items() if name != "tornado"}
IN_WORKERS = Drawing(
    "pss after", "PSS after load, MiB; the dark part is private to one process", part="private",
    ours=tuple(name for name, server in WEIGHED.items() if server.is_ours()),
    titles={"forking-warm": "forking, warmed", "forking-mortal": "forking, mortal",
            "forking-mortal-warm": "mortal, warmed", "gunicorn": "gunicorn --preload"},
)  # fmt: skip
OF_CACHES = Drawing("", "", ours=(SHARED,), titles={name: cache.title for name, cache in CACHES.items()})
# command -> workload -> what is drawn of it; "" is for all others
DRAWN: Mapping[str, Mapping[str, Sequence[Drawing]]] = {
    "cost": {
        "": COST, "sleep": (RATE,), "blocked": (P99,), "mixed": (P99,),
        **dict.fromkeys(("flask", "django", "compute"), (P99, RATE)),
    },
    "front": {"": (Drawing("cpu", "CPU per request without that of lighttpd, µs"),)},
    "memory": {
        "hello": (Drawing("judged", "memory of all processes, MiB"),),
        "idle": (Drawing("each", "private memory of an idle connection, bytes"),),
    },
    "memory-workers": {"": (IN_WORKERS,)},
    "start": {"": (Drawing("first", "ms, median of the starts"),)},
    "faults": {
        "": FAILED,
        "kill": tuple(replace(drawing, what=f"{drawing.what}, for each kill", each="kills")
                      for drawing in (*FAILED, Drawing("lost", "requests that failed at the second try too"))),
    },
    "scale": dict.fromkeys(("light", "heavy", "compute"), SCALE),
    "reload": dict.fromkeys(("bare", "flask", "django", "heavy", "leaf", "load"), SAVE),
    "article": {
        "memory": (Drawing("pss", "memory of all processes (PSS), MiB"),),
        "": (Drawing("ans t", "from connect to the status line (ans t), mean, ms", unit=1e-3),
             Drawing("p99", "from connect to the status line, 99th percentile, ms")),
    },
    "sweep": {"": (RATE, P99)},
    "sessions-tornado": {
        "": (ENGINES,),
        sessions_tornado_report.ARTICLE: (
            replace(ENGINES, what=f"{ENGINES.what} (a line across: the article's best run)", printed=SHARES),
        ),
    },
    "caches": {
        "djangocache": tuple(replace(OF_CACHES, column=f"{action} {name}", what=f"a {action}, {words}, µs")
                             for action in ("get", "set", "delete") for name, words in TIMED.items()),
        "alone": tuple(replace(OF_CACHES, column=f"{action} median", what=f"a {action}, median, µs")
                       for action in ("get", "set")),
    },
}  # fmt: skip


def rankings(runs: Sequence[Run], command: str, titles: Mapping[str, str]) -> Iterator[Ranking]:
    """The charts of a command. titles: of each workload. runs: the newest first.

    Each comes from one run, since figures of two runs cannot be compared. Of the runs under the same Python the one
    with the most peers is drawn, of equal ones the newest; then each other one with a peer which no chart shows yet.
    """
    drawn = DRAWN.get(command, {})
    runs = [run for run in runs if run.command == command]
    for workload in dict.fromkeys(row[0] for run in runs for row in run.results):
        for drawing in drawn.get(workload, drawn.get("", ())):
            found = [(run, bars(run.results, workload, drawing)) for run in runs]
            shown: set[tuple[str, str]] = set()
            for run, best in sorted(found, key=lambda pair: len(peers(pair[1], drawing)), reverse=True):
                new = {(run.python, peer) for peer in peers(best, drawing)} - shown
                if new and {bar.server for bar in best} & set(drawing.ours):
                    shown |= new
                    name = re.sub(r"[^\w.]+", "-", f"{run.name}-{workload}-{drawing.column}".lower())
                    yield Ranking(name, workload, titles.get(workload, workload), drawing, best, run)


def peers(bars: Sequence[Bar], drawing: Drawing) -> list[str]:
    return [bar.server for bar in bars if bar.server not in (*drawing.ours, BARE)]


def bars(results: Mapping[Row, Result], workload: str, drawing: Drawing) -> list[Bar]:
    """A bar for each server, the best first, then the failed; none where nothing has such a number."""
    shown = [
        _bar(results, (workload, server), drawing)
        for of, server in results
        if of == workload and not server.endswith("-before")
    ]
    if all(bar.value is None for bar in shown):
        return []
    sign = -1 if drawing.is_more_better else 1
    return sorted(shown, key=lambda bar: (bar.value is None, not bar.is_failed, sign * (bar.value or 0)))


def _bar(results: Mapping[Row, Result], row: Row, drawing: Drawing) -> Bar:
    result = results[row]
    server = row[1]
    if result.failures:
        return Bar(server, None, note=f"failed: {result.failures[0]}", is_failed=True)
    over = results.get((row[0], drawing.over)) if drawing.over else None
    values = [numbers.get(drawing.column) for numbers in result.rounds]
    if drawing.each and None not in values:
        counts = [numbers.get(drawing.each) for numbers in result.rounds]
        values = [value / count if count else None for value, count in zip(values, counts, strict=True)]
    if not values or None in values or (drawing.over and (over is None or over.failures)):
        return Bar(server, None, note=result.remark or "not measured")
    if over:
        values = [mine / theirs[drawing.column] for mine, theirs in zip(values, over.rounds, strict=False)]
    else:
        values = [value / (drawing.unit or UNITS.get(drawing.column, 1)) for value in values]
    parts = [numbers.get(drawing.part, 0) / UNITS.get(drawing.part, 1) for numbers in result.rounds]
    is_marked = any(numbers.get("unserved") for numbers in result.rounds)
    return Bar(server, median(values), min(values), max(values), part=median(parts), is_marked=is_marked)


def title_of(server: str, drawing: Drawing) -> str:
    return drawing.titles.get(server) or TITLES.get(server, server)


def kind_of(server: str, drawing: Drawing) -> str:
    """Which of COLOURS its bar has."""
    return "ours" if server in (*drawing.ours, *BEHIND) else "limit" if server == BARE else "peer"


def words(ranking: Ranking) -> str:
    """The chart in words."""
    drawing = ranking.drawing
    told = []
    for bar in ranking.bars:
        printed = f" (2010: {number(drawing.printed[bar.server])})" if bar.server in drawing.printed else ""
        value = bar.note if bar.value is None else number(bar.value)
        part = f" ({drawing.part} {number(bar.part)})" if bar.part else ""
        told.append(f"{title_of(bar.server, drawing)} {value}{part}{printed}")
    return f"{ranking.title}: {drawing.what}. " + "; ".join(told)


def svg(ranking: Ranking) -> str:
    """The picture, in colours that a style sheet must name as `COLOURS` does. Raises Missing without matplotlib."""
    light = {name: colours[0] for name, colours in COLOURS.items()}
    title = textwrap.wrap(ranking.title, LETTERS[0])
    better = "more is better" if ranking.drawing.is_more_better else "less is better"
    mark = "; * left clients unserved" * any(bar.is_marked for bar in ranking.bars)
    what = textwrap.wrap(f"{ranking.drawing.what}; {better}{mark}", LETTERS[1])
    height = AXIS + TITLE * len(title + what) + BAR * len(ranking.bars)
    settings = {**charts.SETTINGS, "text.color": light["ink"], "text.parse_math": False}
    with charts.new_figure(WIDTH, height, "none", settings) as figure:
        write_head(figure, title, what, height)
        bottom = 0.2 / height
        axes = figure.add_axes((0.33, bottom, 0.65, BAR * len(ranking.bars) / height))
        _draw(axes, ranking, light)
        text = charts.written(figure)
    return styled(text, words(ranking))


def write_head(figure, title: Sequence[str], what: Sequence[str], height: float) -> None:
    """Write the lines of a title, and below it those that say what is shown. height: of the figure, in inches."""
    figure.patch.set_visible(False)
    figure.text(0.02, 1 - 0.06 / height, "\n".join(title), fontsize=8.5, fontweight="bold", va="top", linespacing=1.3)
    figure.text(0.02, 1 - (0.07 + TITLE * len(title)) / height, "\n".join(what), fontsize=7.5, va="top",
                color=COLOURS["faint"][0], linespacing=1.3)  # fmt: skip


def _draw(axes, ranking: Ranking, light: Mapping[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    drawing = ranking.drawing
    longest = max(*(bar.high for bar in ranking.bars), *drawing.printed.values(), 0.0)
    letters = max((len(_number_of(bar)) for bar in ranking.bars if bar.value is not None), default=0)
    right = longest / (1 - max(NUMBER, LETTER * letters)) or 1
    axes.patch.set_visible(False)
    axes.set(xlim=(0, right), ylim=(len(ranking.bars) - 0.5, -0.5))
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.spines["left"].set(color=light["faint"], linewidth=0.8)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.tick_params(length=0, labelsize=6.5, labelcolor=light["faint"], pad=2)
    axes.set_yticks([])
    ticks = [tick for tick in axes.get_xticks() if 0 <= tick <= right and (longest or not tick)]
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    for tick in ticks:
        axes.plot(
            [tick, tick], [-0.5, len(ranking.bars) - 0.5], color=light["line"], linewidth=0.5, zorder=0, clip_on=False
        )
    for place, bar in enumerate(ranking.bars):
        kind = kind_of(bar.server, drawing)
        weight, colour = ("bold", "ours") if kind == "ours" else ("normal", "ink")
        axes.text(-0.02 * right, place, title_of(bar.server, drawing), ha="right", va="center", fontsize=7.5,
                  fontweight=weight, color=light[colour])  # fmt: skip
        if bar.value is None:
            told = unescaped(bar.note)
            told = told if len(told) <= NOTE else f"{told[: NOTE - 1]}…"
            axes.text(0.02 * right, place, told, va="center", fontsize=6.3,
                      color=light["edge" if bar.is_failed else "faint"])  # fmt: skip
            continue
        shade = PALE if bar.part else None
        axes.barh([place], [bar.value], height=0.7, color=light[kind], alpha=shade, clip_on=False)
        if bar.part:
            axes.barh([place], [bar.part], height=0.7, color=light[kind], clip_on=False)
        if bar.high > bar.low:
            axes.plot([bar.low, bar.high], [place, place], color=light["ink"], linewidth=0.9, clip_on=False)
        end = bar.high
        if (printed := drawing.printed.get(bar.server)) is not None:
            axes.plot(
                [printed, printed], [place - 0.42, place + 0.42], color=light["ink"], linewidth=1.8, clip_on=False
            )
            end = printed if end < printed < end + NUMBER * right else end
        axes.text(end + 0.02 * right, place, _number_of(bar), va="center", fontsize=7.5, fontweight=weight,
                  color=light["ink"])  # fmt: skip


def _number_of(bar: Bar) -> str:
    """What stands behind the bar."""
    return number(bar.value) + " *" * bar.is_marked


def styled(text: str, told: str) -> str:
    """The picture in named colours, and without what has no effect. told: what it shows, in words."""
    text = re.sub(r"\A.*?(?=<svg )|<defs>.*?</defs>|</?g/?>", "", text, flags=re.DOTALL)
    for name, (light, _) in COLOURS.items():
        text = re.sub(rf"(fill|stroke): {light}", rf"\1: var(--{name})", text)
    told = html.escape(unescaped(told))
    head = (f'role="img" aria-label="{told}" stroke-linejoin="round" '
            'font-family="Helvetica, Arial, DejaVu Sans, sans-serif"')  # fmt: skip
    text = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>',
                  lambda tag: f'<svg xmlns="http://www.w3.org/2000/svg" {tag[1]} {head}>', text, count=1)  # fmt: skip
    return re.sub(r"\n+", "\n", text)


def variables(dark: bool) -> str:
    """The colours as a style sheet declares them."""
    return " ".join(f"--{name}: {colours[dark]};" for name, colours in COLOURS.items())


def alone(picture: str) -> str:
    """The picture as a file of its own: with its size, and its colours, light and dark, on paper."""
    style = (
        f"<style>svg {{ {variables(False)} background: var(--paper); }}\n"
        f"@media (prefers-color-scheme: dark) {{ svg {{ {variables(True)} }} }}</style>"
    )
    # What knows no variables takes the colour before them.
    picture = re.sub(
        r"(fill|stroke): var\(--(\w+)\)", lambda found: f"{found[1]}: {COLOURS[found[2]][0]}; {found[0]}", picture
    )

    def head(tag: re.Match[str]) -> str:
        width, height = (round(LARGER * float(size)) for size in tag[2].split())
        return f'{tag[1]} width="{width}" height="{height}">{style}'

    return re.sub(r'(<svg [^>]*?viewBox="0 0 ([^"]*)"[^>]*)>', head, picture, count=1)
