"""Bar charts as SVG, from numbers alone: knows neither servers nor records.

The text of a picture stays text, so that it is small, can be searched, and has the font of the page that it is in.
Equal numbers give equal files.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.client import Missing
from bench.report import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")  # of Okabe and Ito: the colour-blind tell them apart too
WIDTH, BAR, AROUND = 5.2, 0.17, 1.1  # inches: a chart's width, a bar's height, the height of all that is not bars
SETTINGS = {
    "svg.fonttype": "none", "svg.hashsalt": "bench", "font.family": "sans-serif", "font.size": 8,
    "axes.spines.top": False, "axes.spines.right": False,
}  # fmt: skip
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
# Half of what matplotlib writes has no effect: turns by nothing, names that nothing refers to, the font of each text.
SHORTER = (
    (r' transform="rotate\(-0 [^)]*\)"', ""),
    (r" font-family: [^;\"]*;", ""),
    (r"<!--.*?-->", ""),
    (r' id="[a-z]+(\d[a-z])?(_\d+|\.axis_\d+)"', ""),
    (r"(?m)^\s+", ""),
    (r"\n(?=[LzQ]|\"[ />])", ""),
    (r"\n(?=</g>)", ""),
    (r"<svg ", '<svg font-family="Helvetica, Arial, DejaVu Sans, sans-serif" '),
)


@dataclass(frozen=True)
class Bars:
    """A chart of horizontal bars: a group of them for each of `groups`, from top to bottom.

    series: a name for the legend and one value for each group; None draws no bar.
    """

    title: str
    unit: str  # and in which direction it is better
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    absent: Mapping[str, str]  # group -> why it has no bars, which is written in their place


def svg(charts: Sequence[Bars], columns: int = 2) -> str:
    """A picture of all the charts, row by row. Raises Missing where matplotlib is not installed."""
    columns = max(1, min(columns, len(charts)))
    lines = -(-len(charts) // columns)  # rounded up
    heights = [
        AROUND + BAR * max(len(each.groups) * (len(each.series) + 1) for each in charts[i * columns :][:columns])
        for i in range(lines)
    ]
    with new_figure(WIDTH * columns, sum(heights), layout="constrained") as figure:
        grid = figure.add_gridspec(lines, columns, height_ratios=heights)
        for i, chart in enumerate(charts):
            _draw(figure.add_subplot(grid[i // columns, i % columns]), chart)
        return written(figure)


@contextlib.contextmanager
def new_figure(width: float, height: float, layout: str, settings: Mapping[str, object] = SETTINGS) -> Iterator[Figure]:
    """An empty figure, in inches; the settings hold until the block ends. Raises Missing without matplotlib."""
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError as error:
        raise Missing("matplotlib", "pip install 'poorhttp[bench]'") from error
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasSVG(figure)
        yield figure


def written(figure: Figure) -> str:
    """The figure as SVG; an equal figure gives the same bytes."""
    output = io.StringIO()
    figure.savefig(output, format="svg", metadata=NO_METADATA)
    text = output.getvalue()
    # Parts of micrometres go too, within tags: between them stand the numbers of the chart.
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), text)
    for found, instead in SHORTER:
        text = re.sub(found, instead, text, flags=re.DOTALL)
    return text


def _draw(axes, chart: Bars) -> None:
    from matplotlib.ticker import MaxNLocator

    count = len(chart.series)
    for i, (name, values) in enumerate(chart.series.items()):
        places = [group * (count + 1) + i for group, value in enumerate(values) if value is not None]
        sizes = [value for value in values if value is not None]
        bars = axes.barh(places, sizes, height=0.9, label=name, color=COLOURS[i], clip_on=False)
        axes.bar_label(bars, list(map(number, sizes)), padding=2, fontsize=7)
    for group, name in enumerate(chart.groups):
        if name in chart.absent:
            place = group * (count + 1) + (count - 1) / 2
            axes.text(0, place, f" {chart.absent[name]}", va="center", fontsize=7, color="#666666")
    axes.set_yticks([group * (count + 1) + (count - 1) / 2 for group in range(len(chart.groups))], chart.groups)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(chart.groups) * (count + 1) - 1.2, -0.8)
    axes.margins(x=0.14)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel(chart.unit)
    axes.set_title(chart.title, fontsize=9, fontweight="bold", loc="left", pad=18)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=count, frameon=False, borderpad=0, handlelength=1)
