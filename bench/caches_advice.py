"""Which cache to take, in sentences that follow from the figures of one run. Pure: results in, Markdown out.

A sentence names the cache that a figure names, whichever that is. What has no figures is told, and chosen nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench import report
from bench.caches import CACHES, ENTRIES
from bench.caches_article import PROCESSES
from bench.caches_workload import KEYS

TOGETHER = "djangocache"
GETS = 10  # of a page, which also has one set
PAGE = 10_000.0  # microseconds that a page takes without them
LIMITED = ENTRIES["OPTIONS"]["MAX_ENTRIES"]
INTRODUCTION = """\
{processes} processes asked each cache at once: {keys:,} keys, 90 gets, 9 sets and a delete in a hundred, values of some
244 bytes. "A page" is {gets} gets and one set, by their medians. The processes and the server of the cache shared all
cores of the machine, so a get from a server also waited until the server had a core, and then the process. The last
column is of one process that asked alone. Servers were asked over TCP on the same machine. Another machine,
larger values, or a network give other figures: measure there with `python -m bench caches`."""


@dataclass(frozen=True)
class Figures:
    """What is compared of a cache. Times are microseconds, medians unless the name says otherwise."""

    name: str
    get: float
    set: float
    set_p99: float
    missed: float  # percent of the gets
    kept: float  # keys of one process that another one found

    @property
    def title(self) -> str:
        return CACHES[self.name].title

    @property
    def page(self) -> float:
        return GETS * self.get + self.set

    @property
    def is_shared(self) -> bool:
        """Whether a process finds what another one wrote."""
        return self.kept > 0

    @property
    def has_server(self) -> bool:
        return CACHES[self.name].has_server


def advice(results: report.Results) -> str:
    """Paragraphs, of which the first one is the shortest advice; "" where no two caches have figures."""
    all_figures = sorted(_figures(results, TOGETHER), key=lambda each: each.page)
    if len(all_figures) < 2:
        return ""
    shared = [each for each in all_figures if each.is_shared]
    alone = sorted(_figures(results, "alone"), key=lambda each: each.page)
    points = [
        *_of_one_machine(shared),
        *_of_several_machines([each for each in shared if each.has_server]),
        *_of_one_process(alone),
        *_without_sharing(all_figures, shared),
        *_of_writes(shared),
        *_of_losses(shared),
        *_of_pages(shared),
        *_without_figures(results),
    ]
    introduction = INTRODUCTION.format(processes=PROCESSES, keys=KEYS, gets=GETS)
    return "\n\n".join([_shortest(all_figures, shared), introduction, _table(all_figures, alone), "\n".join(points)])


def _figures(results: report.Results, of: str) -> Iterator[Figures]:
    columns = ("get median", "set median", "set p99", "get miss", "get count", "kept")
    for (workload, name), result in results.items():
        numbers = [report.middle(result, column) for column in columns]
        get, put, put_p99, missed, count, kept = (number or 0.0 for number in numbers)
        if workload == of and name in CACHES and None not in numbers and min(get, put, count) > 0:
            yield Figures(name, get, put, put_p99, 100 * missed / count, kept)


def _shortest(all_figures: Sequence[Figures], shared: Sequence[Figures]) -> str:
    best = (shared or all_figures)[0]
    among = "the caches that processes share" if shared else "the caches that were measured, none of which is shared"
    return (
        f"Of {among}, {best.title} costs a page least: {us(best.page)} for {GETS} gets ({us(best.get)} each) and one "
        f"set ({us(best.set)})."
    )


def _table(all_figures: Sequence[Figures], alone: Sequence[Figures]) -> str:
    heads = ["cache", "shared by processes", "server to run", "get µs", "set µs", "P99 of set µs", "gets that miss %",
             "a page µs", "a page of one process alone µs"]  # fmt: skip
    pages = {each.name: each.page for each in alone}
    lines = [
        [each.title, _yes(each.is_shared), _yes(each.has_server),
         *map(report.number, (each.get, each.set, each.set_p99, each.missed, each.page, pages.get(each.name)))]
        for each in all_figures
    ]  # fmt: skip
    return report.table(heads, lines)


def _of_one_machine(shared: Sequence[Figures]) -> Iterator[str]:
    if not shared:
        return
    best, *others = shared
    text = f"- **Several processes on one machine: {best.title}.** A page costs {us(best.page)}"
    if others:
        text += f"; with {others[0].title}, the next one, {us(others[0].page)}, {_times(others[0].page, best.page)}"
    text += ". It is a server to run." if best.has_server else ". It needs no server."
    simple = next((each for each in shared if not each.has_server), None)
    if best.has_server and simple:
        text += (f" Without a server {simple.title} costs least, {us(simple.page)}, "
                 f"{_times(simple.page, best.page)}.")  # fmt: skip
    yield text


def _of_several_machines(served: Sequence[Figures]) -> Iterator[str]:
    if served:
        best, *others = served
        beside = "".join(f"; with {each.title} {us(each.page)}" for each in others)
        yield (f"- **Several machines that share a cache: {best.title}.** Only a server can be asked from elsewhere. "
               f"Here, on the same machine, a page costs {us(best.page)}{beside}. The network comes on top of it, "
               f"{GETS + 1} times for each page.")  # fmt: skip


def _of_one_process(alone: Sequence[Figures]) -> Iterator[str]:
    if len(alone) > 1:
        first, second, *_ = alone
        yield (
            f"- **A single process: {first.title}.** Where nothing else runs, a page costs {us(first.page)}; with "
            f"{second.title}, the next one, {us(second.page)}."
        )


def _without_sharing(all_figures: Sequence[Figures], shared: Sequence[Figures]) -> Iterator[str]:
    for own in (each for each in all_figures if shared and not each.is_shared):
        best = shared[0]
        yield (
            f"- **Processes that need not share: {min(own, best, key=lambda each: each.page).title}.** With "
            f"{own.title}, of which each process has its own, a page costs {us(own.page)}, with {best.title} "
            f"{us(best.page)}. Of {KEYS:,} keys that one process wrote another one found {report.number(own.kept)}, so "
            f"{report.number(own.missed)} % of the gets missed, with {best.title} {report.number(best.missed)} %."
        )


def _of_writes(shared: Sequence[Figures]) -> Iterator[str]:
    if len(shared) > 1:
        by_median = sorted(shared, key=lambda each: each.set)
        by_p99 = sorted(shared, key=lambda each: each.set_p99)
        yield (f"- **Much is written: {by_median[0].title}.** A set takes {us(by_median[0].set)}, and with "
               f"{by_median[-1].title}, the slowest, {us(by_median[-1].set)}. Of a hundred sets the slowest takes "
               f"{us(by_p99[0].set_p99)} or more with {by_p99[0].title}, and {us(by_p99[-1].set_p99)} or more with "
               f"{by_p99[-1].title}.")  # fmt: skip


def _of_losses(shared: Sequence[Figures]) -> Iterator[str]:
    least = min((each.missed for each in shared), default=0.0)
    losing = [each for each in shared if each.missed > 1.1 * least]
    if losing:
        told = ", ".join(f"{each.title} {report.number(each.missed)} %" for each in losing)
        bounded = [each.title for each in losing if "MAX_ENTRIES" in CACHES[each.name].more.get("OPTIONS", {})]
        why = f" Here {' and '.join(bounded)} may keep {LIMITED:,} of {KEYS:,} keys." if bounded else ""
        yield (f"- **What is thrown away:** more gets miss than must: {told}, where the best has "
               f"{report.number(least)} %.{why}")  # fmt: skip


def _of_pages(shared: Sequence[Figures]) -> Iterator[str]:
    if len(shared) > 1:
        first, last = (100 * each.page / (PAGE + each.page) for each in (shared[0], shared[-1]))
        yield (f"- **Whether it matters:** where the rest of a page takes {PAGE / 1e3:g} ms, the cache is "
               f"{report.number(first)} % of the page with {shared[0].title}, and {report.number(last)} % with "
               f"{shared[-1].title}.")  # fmt: skip


def _without_figures(results: report.Results) -> Iterator[str]:
    told = [
        f"{CACHES[name].title} ({report.remark(result) or 'not measured'})"
        for (workload, name), result in results.items()
        if workload == TOGETHER and name in CACHES and report.middle(result, "count") is None
    ]
    if told:
        yield f"- **Without figures, and so not compared:** {'; '.join(told)}."


def us(microseconds: float) -> str:
    return f"{report.number(microseconds)} µs" if microseconds < 1e3 else f"{report.number(microseconds / 1e3)} ms"


def _times(more: float, less: float) -> str:
    return f"{report.number(more / less)} times as much"


def _yes(whether: bool) -> str:
    return "yes" if whether else "no"
