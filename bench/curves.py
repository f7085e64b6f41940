"""Curves over a row of sizes: which numbers of a run they show, in words and as SVG.

The lower end is zero, and the places stand at equal distances. What has no number has a gap. Knows neither what was
measured nor on which page the picture stands; its colours are those of `ranking`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench import charts, ranking
from bench.report import ABSENT, number
from bench.runs import Run

# Okabe's and Ito's, but for yellow, which cannot be seen on paper; then lines that are told apart by their dashes.
COLOURS = ("#e69f00", "#009e73", "#d55e00", "#0072b2", "#56b4e9", "#cc79a7", "#8c6bb1")
DASHES = ((0, ()), (0, (5, 1.5)))
WIDTH, HEIGHT, LINE, AXIS = 3.75, 1.9, 0.16, 0.3  # inches; of the axes, of a line of the legend and so on


@dataclass(frozen=True)
class Curves:
    """One picture, with the run that its numbers come from.

    curves: a name and one number for each of the places, or None. baseline: the name of the one that all are compared
    with, which may be absent.
    """

    name: str  # of its file
    workload: str
    title: str
    what: str  # the number, its unit, and what is better
    places: Sequence[str]
    curves: Mapping[str, Sequence[float | None]]
    run: Run
    baseline: str = ""


def words(shown: Curves) -> str:
    """The picture in words."""
    told = (
        f"{name} " + ", ".join(f"{number(value) if value is not None else ABSENT} at {place}"
                               for place, value in zip(shown.places, values, strict=True))
        for name, values in shown.curves.items()
    )  # fmt: skip
    return f"{shown.title}: {shown.what}. " + "; ".join(told)


def pieces(values: Sequence[float | None]) -> Iterator[tuple[list[float], list[float]]]:
    """The parts of a curve between its gaps, each as places and values; a single value is a short line."""
    part: list[tuple[float, float]] = []
    for place, value in (*enumerate(values), (len(values), None)):
        if value is not None:
            part.append((float(place), value))
        elif part:
            if len(part) == 1:
                ((at, height),) = part
                part = [(at - 0.08, height), (at + 0.08, height)]
            yield [at for at, _ in part], [height for _, height in part]
            part = []


def svg(shown: Curves) -> str:
    """The picture, in colours of a style sheet that has those of `ranking`. Raises Missing without matplotlib."""
    light = {name: colours[0] for name, colours in ranking.COLOURS.items()}
    title = textwrap.wrap(shown.title, ranking.LETTERS[0])
    what = textwrap.wrap(shown.what, ranking.LETTERS[1])
    head, legend = ranking.TITLE * len(title + what) + 0.12, LINE * len(shown.curves) + 0.05
    height = head + HEIGHT + AXIS + legend
    settings = {**charts.SETTINGS, "text.color": light["ink"], "text.parse_math": False}
    with charts.new_figure(WIDTH, height, "none", settings) as figure:
        ranking.write_head(figure, title, what, height)
        axes = figure.add_axes((0.12, (legend + AXIS) / height, 0.84, HEIGHT / height))
        _draw(axes, shown, light)
        _explain(figure, shown, light, height)
        text = charts.written(figure)
    return ranking.styled(text, words(shown))


def _styles(shown: Curves, light: Mapping[str, str]) -> Iterator[tuple[str, dict[str, object]]]:
    """How the line of each curve is drawn."""
    others = [name for name in shown.curves if name != shown.baseline]
    for name in shown.curves:
        if name == shown.baseline:
            yield name, {"color": light["limit"], "linestyle": (0, (1.5, 1.5)), "linewidth": 1.1}
        else:
            at = others.index(name)
            dash = DASHES[at // len(COLOURS) % len(DASHES)]
            yield name, {"color": COLOURS[at % len(COLOURS)], "linestyle": dash, "linewidth": 1.5}


def _draw(axes, shown: Curves, light: Mapping[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    most = max((value for values in shown.curves.values() for value in values if value is not None), default=1)
    axes.patch.set_visible(False)
    axes.set(xlim=(-0.2, len(shown.places) - 0.8), ylim=(0, most * 1.08))
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    ticks = [tick for tick in axes.get_yticks() if 0 <= tick <= most * 1.08]
    axes.tick_params(length=0, labelsize=6.5, labelcolor=light["faint"], pad=2)
    axes.set_yticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.set_xticks(range(len(shown.places)), shown.places)
    for tick in ticks:
        axes.plot([-0.2, len(shown.places) - 0.8], [tick, tick], color=light["line"], linewidth=0.5, zorder=0,
                  clip_on=False)  # fmt: skip
    for name, style in _styles(shown, light):
        for places, values in pieces(shown.curves[name]):
            axes.plot(places, values, clip_on=False, **style)


def _explain(figure, shown: Curves, light: Mapping[str, str], height: float) -> None:
    """The legend, a line for each curve, below the axes."""
    from matplotlib.lines import Line2D

    for line, (name, style) in enumerate(_styles(shown, light)):
        at = (LINE * (len(shown.curves) - line) - 0.06) / height
        figure.add_artist(Line2D([0.03, 0.1], [at, at], transform=figure.transFigure, clip_on=False, **style))
        figure.text(0.12, at, name, fontsize=7, va="center", color=light["ink"])
