"""Which session engine: the page of advice that a record of `sessions --suite django` gives, and its curves.

Every sentence is made from figures: what is faster, by how much, and where it turns. Two figures count as equal if they
are nearer to each other than EQUAL. Knows the names of the rows; measures nothing, and draws nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from bench import report
from bench.curves import Curves
from bench.runs import Run
from bench.sessions_django_report import COUNTS, MODES, NONE, READS_AS, TITLES, WEBS, Figures

EQUAL = 0.05
COOKIE, FILES, REDIS, DATABASE, KEPT, ASYNC = "cookie", "file", "cache", "db", "db-kept", "db-kept-async"
READS, WRITES = 0.9, 0.1  # of the requests, for a site that mostly reads
WHEN = {"read": "when the session is read", "write": "when it is read and written"}
HEAD = """\
What the engines of Django cost a small page. A number like 0.85 is the rate of requests as a part of that of the same
page without a session, which was measured beside it. Figures that are nearer to each other than {equal:.0%} count as
equal. Where a sentence says nothing else, poorhttp serves with four workers on one core, and 20 clients ask for a
thousand sessions in turn. The server of the store has the other core, together with the clients. Redis is asked over
TCP, PostgreSQL over a unix socket.
"""


class Advice:
    """What the figures of one run say. A method gives no sentence where the figures for it are missing."""

    def __init__(self, results: report.Results) -> None:
        self.figures = Figures(results)
        self.web = _first("forking", self.figures.webs())
        self.count = _first("thousand", self.figures.counts())
        self.sizes = self.figures.sizes()

    def text(self) -> str:
        subjects = (self.connection, self.commit, self.files, self.database, self.cookies, self.size,
                    self.one_session, self.undone, self.servers, self.failures)  # fmt: skip
        told = "\n".join(f"- {sentence}" for subject in subjects for sentence in subject())
        head = HEAD.format(equal=EQUAL).strip()
        return "\n\n".join(filter(None, [*self.short(), head, self.best(), told]))

    def part(self, mode: str, engine: str, size: str, count: str = "", web: str = "") -> float | None:
        """The rate as a part of that without session, of the count and the server that the page is about."""
        return self.figures.share(mode, count or self.count, web or self.web, engine, size)

    def parts(self, mode: str, size: str, web: str = "") -> dict[str, float]:
        """That part for each engine that has one."""
        found = {engine: self.part(mode, engine, size, web=web) for engine in self.figures.engines(mode)}
        return {engine: part for engine, part in found.items() if part}

    def mixed(self, size: str) -> dict[str, float]:
        """That part where nine requests of ten read and one writes: by the time that each takes."""
        found = {}
        for engine, write in self.parts("write", size).items():
            if read := self.part("read", READS_AS.get(engine, engine), size):
                found[engine] = 1 / (READS / read + WRITES / write)
        return found

    def best(self) -> str:
        """A table: for each size the fastest engines, and those that equal them."""
        kinds: dict[str, Callable[[str], dict[str, float]]] = {
            "fastest when read": lambda size: self.parts("read", size),
            "fastest when read and written": lambda size: self.parts("write", size),
            "fastest when one request of ten writes": self.mixed,
        }
        lines = [[size, *(_leaders(parts(size)) for parts in kinds.values())] for size in self.sizes]
        return report.table(["size", *kinds], lines)

    def short(self) -> Iterator[str]:
        """Which engines are the fastest, and at which sizes; those that equal them count too."""
        fastest: dict[str, list[str]] = {engine: [] for engine in self.figures.engines("write")}
        for size in self.sizes:
            for engine in _near(self.mixed(size)):
                fastest[engine].append(size)
        ranked = sorted((engine for engine in fastest if fastest[engine]), key=lambda engine: -len(fastest[engine]))
        if ranked:
            told = "; ".join(f"{TITLES[engine]} at {', '.join(fastest[engine])}" for engine in ranked)
            best = f"the fastest engine, or one within {EQUAL:.0%} of it,"
            yield f"**In short**: if one request of ten writes, {best} is {told}."

    def connection(self) -> Iterator[str]:
        found = {words: self.times(mode, KEPT, DATABASE) for mode, words in WHEN.items()}
        if told := [f"{_span(times)} {words}" for words, times in found.items() if times]:
            yield (
                "**A connection that is kept** (`CONN_MAX_AGE`) multiplies the rate that PostgreSQL allows with a "
                f"connection for each request by {', and by '.join(told)}. "
                f"{_worth([each for times in found.values() for each in times])}"
            )

    def commit(self) -> Iterator[str]:
        if times := self.times("write", ASYNC, KEPT):
            yield (
                "**A commit that does not wait for the disk** (`synchronous_commit = off`) multiplies the rate of "
                f"written sessions in PostgreSQL, with a kept connection, by {_span(times)}. {_worth(times)} "
                "The price has no figure here: the last sessions may be gone if the machine loses its power."
            )

    def files(self) -> Iterator[str]:
        told = []
        for mode, words in WHEN.items():
            kinds: dict[str, list[str]] = {"faster": [], "equal": [], "slower": []}
            for size in self.sizes:
                parts = self.parts(mode, size)
                if FILES in parts and REDIS in parts:
                    kinds[_compared(parts[FILES], parts[REDIS])].append(size)
            if found := [f"{kind} at {self._listed(sizes)}" for kind, sizes in kinds.items() if sizes]:
                told.append(f"{words}, {'; '.join(found)}")
        if told:
            yield (
                f"**Files beside Redis** on the same machine are, {'. They are, '.join(told)}. The article, with Redis "
                "on another machine, found files faster below about 64 KB."
            )

    def database(self) -> Iterator[str]:
        told = []
        for engine in (DATABASE, KEPT):
            of_redis, slowest, count = [], 0, 0
            for mode in MODES:
                for size in self.sizes:
                    parts = self.parts(mode, size)
                    others = [parts[other] for other in (COOKIE, FILES, REDIS) if other in parts]
                    if engine in parts and others:
                        count += 1
                        slowest += parts[engine] < min(others) * (1 - EQUAL)
                    if engine in parts and REDIS in parts:
                        of_redis.append(parts[engine] / parts[REDIS])
            if count:
                beside = f", with {_span(of_redis)} times the rate of Redis" * bool(of_redis)
                told.append(f"{TITLES[engine]} is the slowest in {slowest} of {count} comparisons{beside}")
        if told:
            yield (
                f"**The database beside files, Redis and cookies.** {'. '.join(told)}. The article found its database "
                "far slower than all others."
            )

    def cookies(self) -> Iterator[str]:
        fitting = [size for size in self.sizes if COOKIE in self.parts("read", size)]
        if fitting:
            tried = [size for size in self.sizes if ("read", size) in self._asked(COOKIE)]
            too_large = [size for size in tried if size not in fitting]
            reason = f", but not {too_large[0]}" if too_large else ""
            parts = [part for mode in MODES for size in fitting if (part := self.part(mode, COOKIE, size))]
            yield (
                f"**Signed cookies** hold {fitting[-1]} of this data, which Django compresses"
                f"{reason}. The page has {_span(parts)} of its rate without "
                "session. What they take of the network has no figure here: the client sends all of it with each "
                "request."
            )

    def size(self) -> Iterator[str]:
        first, last = self.sizes[0], self.sizes[-1]
        if first == last:
            return
        told = []
        for mode, words in WHEN.items():
            small, large = self.parts(mode, first), self.parts(mode, last)
            if left := {engine: part / small[engine] for engine, part in large.items() if engine in small}:
                told.append(f"{words}, {_between(left, '.0%')}")
        if told:
            yield f"**The size.** At {last} an engine has a part of its rate at {first}: {'; '.join(told)}."

    def one_session(self) -> Iterator[str]:
        """What the article's one session hides."""
        told = []
        for mode, words in WHEN.items():
            times = {}
            for engine in self.figures.engines(mode):
                found = [many / one for size in self.sizes if (many := self.part(mode, engine, size, "thousand"))
                         and (one := self.part(mode, engine, size, "one"))]  # fmt: skip
                if found:
                    times[engine] = median(found)
            if times:
                told.append(f"{words}, {_between(times, '.2f')}")
        if told:
            yield (
                "**A thousand sessions, or one as in the article.** The part of the rate that a thousand leave, "
                f"divided by the part that one leaves, in the median over the sizes: {'; '.join(told)}."
            )

    def undone(self) -> Iterator[str]:
        told = []
        for count, words in (("one", "if all 20 clients have one session"), ("thousand", "with a thousand sessions")):
            shares = {}
            for engine in self.figures.engines("write"):
                found = [self.figures.middle("write", count, self.web, engine, size, "lost") for size in self.sizes]
                if known := [value for value in found if value is not None]:
                    shares[engine] = max(known) / 100
            if shares:
                told.append(f"{words}, {_between(shares, '.1%')}")
        if told:
            yield (
                "**Two requests that change one session at once** are not merged: the later one writes back what it "
                f"had read. At the worst size so many of all writes were undone: {'; '.join(told)}."
            )

    def servers(self) -> Iterator[str]:
        """How far the advice is that of the other server, too."""
        for other in self.figures.webs():
            same = count = 0
            for mode in MODES:
                for size in self.sizes:
                    mine, theirs = self.parts(mode, size), self.parts(mode, size, web=other)
                    if mine and theirs:
                        count += 1
                        best = _extremes(theirs)[1]
                        same += mine.get(best, 0) >= max(mine.values()) * (1 - EQUAL)
            if count and other != self.web:
                times = _span(self._times_of_server(other))
                yield (
                    f"**{WEBS[other]}.** The engine that is the fastest there is also the fastest here, or equals "
                    f"it, in {same} of {count} comparisons. {WEBS[self.web]} has {times} times the rate of "
                    f"{WEBS[other]}."
                )

    def failures(self) -> Iterator[str]:
        if failed := [" ".join(row) for row, result in self.figures.results.items() if result.failures]:
            yield f"**Without a figure**, as they failed: {', '.join(failed)}."

    def times(self, mode: str, engine: str, over: str) -> list[float]:
        """One engine's part divided by another's, at each size."""
        parts = [self.parts(mode, size) for size in self.sizes]
        return [each[engine] / each[over] for each in parts if engine in each and over in each]

    def _times_of_server(self, other: str) -> list[float]:
        """The rate of the page's server divided by that of another one, with each engine at each size."""
        found = []
        for mode in MODES:
            for engine in self.figures.engines(mode):
                for size in self.sizes:
                    mine, theirs = (self.figures.middle(mode, self.count, web, engine, size, "rate")
                                    for web in (self.web, other))  # fmt: skip
                    if mine and theirs:
                        found.append(mine / theirs)
        return found

    def _listed(self, sizes: Sequence[str]) -> str:
        return ", ".join(sizes) if len(sizes) < max(2, len(self.sizes)) else "all sizes"

    def _asked(self, engine: str) -> list[tuple[str, str]]:
        """Mode and size of the engine's rows, whether they have a figure or not."""
        rows = ((*row[0].split(), *row[1].split()) for row in self.figures.results)
        return [(row[0], row[4]) for row in rows if row[1:4] == (self.count, self.web, engine)]


def advice(results: report.Results) -> str:
    """The page, as Markdown; "" where no engine has a figure for both reading and writing."""
    found = Advice(results)
    return found.text() if any(found.short()) else ""


def curves(run: Run) -> Iterator[Curves]:
    """For each of what was measured, the rates of all engines over the sizes."""
    figures = Figures(run.results)
    sizes = figures.sizes()
    for workload in sorted(dict.fromkeys(row[0] for row in run.results)):
        mode, count, web = workload.split()
        lines = {TITLES[engine]: [figures.middle(mode, count, web, engine, size, "rate") for size in sizes]
                 for engine in (NONE, *figures.engines(mode))}  # fmt: skip
        lines = {name: values for name, values in lines.items() if any(value is not None for value in values)}
        if lines:
            name = re.sub(r"[^\w.]+", "-", f"{run.name}-{workload}".lower())
            title = f"{WEBS[web]}: {MODES[mode]} ({workload})"
            what = f"requests per second over the size; sessions: {COUNTS[count]}; more is better"
            yield Curves(name, workload, title, what, sizes, lines, run, TITLES[NONE])


def _first(wanted: str, among: Sequence[str]) -> str:
    return wanted if wanted in among or not among else among[0]


def _leaders(parts: Mapping[str, float]) -> str:
    """The fastest, and what equals it, each with its part."""
    return "; ".join(f"{TITLES[engine]} {parts[engine]:.2f}" for engine in _near(parts)) or report.ABSENT


def _near(parts: Mapping[str, float]) -> list[str]:
    """The fastest engine, and those that equal it; none where there is none."""
    ranked = sorted(parts, key=parts.__getitem__, reverse=True)
    return [engine for engine in ranked if parts[engine] >= parts[ranked[0]] * (1 - EQUAL)]


def _extremes(values: Mapping[str, float]) -> tuple[str, str]:
    """The names of the smallest and of the largest."""
    return min(values, key=values.__getitem__), max(values, key=values.__getitem__)


def _between(values: Mapping[str, float], form: str) -> str:
    """The smallest and the largest, each with its engine."""
    least, most = _extremes(values)
    told = [f"{values[engine]:{form}} ({TITLES[engine]})" for engine in dict.fromkeys((least, most))]
    return " to ".join(told)


def _compared(mine: float, other: float) -> str:
    if abs(mine - other) <= EQUAL * max(mine, other):
        return "equal"
    return "faster" if mine > other else "slower"


def _span(values: Sequence[float]) -> str:
    """The smallest and the largest: `1.20 to 3.41`."""
    low, high = report.number(min(values)), report.number(max(values))
    return low if low == high else f"{low} to {high}"


def _worth(times: Sequence[float]) -> str:
    """What the factors say of a switch."""
    better = sum(each > 1 + EQUAL for each in times)
    return f"It is faster in {better} of {len(times)} comparisons."
