"""What the dispatch table costs beside the same page without it, and beside other frameworks, on the same server.

Knows the scenarios, how each is measured and what the figures may be. The pages of a scenario are served at the same
time, each by a server of its own on the one core, and are asked in turns, so that what disturbs one disturbs all.
Numbers are microseconds of CPU for each request, unless a name says otherwise.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from bench import front, load, proc, record, scenario
from bench.client import Failure, check, get
from bench.launch import Running, Setting, expected, running
from bench.scenario import Limit, Scenario
from bench.servers import SERVERS, Server
from bench.workloads import WORKLOADS, Workload

TABLE = Workload("table", "a line of text", ("single",), directory="bench/apps/table", path="/hello", tally=True)
FLASK = replace(TABLE, name="flask", module="flask_page", needs=("flask",), app="application", directory="", path="/")
FILE = b"x" * 102_400
FILE_NAME = "file.txt"


@dataclass(frozen=True)
class Size:
    turns: int
    seconds: float  # of load in each turn


FULL = Size(7, 1.0)
QUICK = Size(1, 0.5)


@dataclass(frozen=True)
class Page:
    """Where a page is asked for, what is asked, and what the answer must be."""

    run: Running
    workload: Workload
    answer: bytes


Turns = dict[str, list[dict[str, float]]]


def take_turns(pages: dict[str, Page], size: Size) -> Turns:
    """Ask for each page once in each turn: `cpu` and `wall`, microseconds for each request."""
    for page in pages.values():
        load.run(page.run.port, page.workload, page.answer, min(size.seconds, 0.5))
    turns: Turns = {name: [] for name in pages}
    for _ in range(size.turns):
        for name, page in pages.items():
            before = proc.exact_cpu(page.run.process.pid)
            numbers = load.run(page.run.port, page.workload, page.answer, size.seconds)
            spent = proc.exact_cpu(page.run.process.pid) - before
            turns[name].append({"cpu": spent / numbers["requests"] * 1e6, "wall": 1e6 / numbers["rate"]})
    for page in pages.values():
        check(page.run.port, page.workload, page.answer)
    return turns


def middles(turns: Turns) -> dict[str, float]:
    """The median CPU of each page."""
    return {name: median(each["cpu"] for each in numbers) for name, numbers in turns.items()}


def times(turns: Turns, page: str, over: str) -> float:
    """The median of the ratios within the turns."""
    return median(one["cpu"] / other["cpu"] for one, other in zip(turns[page], turns[over], strict=True))


def added(turns: Turns, page: str, over: str, column: str = "cpu") -> float:
    """The median of the differences within the turns."""
    return median(one[column] - other[column] for one, other in zip(turns[page], turns[over], strict=True))


def served(
    stack: ExitStack, workload: Workload, setting: Setting, variables: dict[str, str] | None = None,
    extra: tuple[str, ...] = (),
) -> Page:  # fmt: skip
    """A page of a server of ours that runs until the stack closes. variables: of its environment."""
    setting = replace(setting, variables=variables or {})
    run = stack.enter_context(running(SERVERS["single"], workload, setting, extra))
    return Page(run, workload, expected(workload, setting))


def with_cookie(page: Page, path: str) -> Page:
    """The page at this path, asked for by a client that has logged in."""
    assert isinstance(page.run.port, int)
    _, cookie = get(page.run.port, "/login", patience=10)
    if not cookie:
        raise Failure("no cookie of a login")
    asking = replace(page.workload, path=path, cookie=cookie)
    check(page.run.port, asking, page.answer)
    return replace(page, workload=asking)


def article(server: Server, setting: Setting, size: Size, name: str) -> dict[str, float]:
    """A page of the examples, which is checked against that of the bare function."""
    table = replace(WORKLOADS["light"], name=name, path=f"/{name}")
    bare = replace(
        table, name=f"{name}-bare", module="bare_pages", app=name, directory="", answer=expected(table, setting)
    )
    with ExitStack() as stack:
        turns = take_turns({"table": served(stack, table, setting), "bare": served(stack, bare, setting)}, size)
    return {**middles(turns), "times": times(turns, "table", "bare")}


def patterns(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """The last pattern of a small table and of a large one."""
    with ExitStack() as stack:
        pages = {}
        for name, count in (("ten", 10), ("thousand", 1000)):
            workload = replace(TABLE, name=name, path=f"/page{count // 2 - 1}-abc")
            pages[name] = served(stack, workload, setting, {"PATTERNS": str(count)})
        turns = take_turns(pages, size)
    return {**middles(turns), "times": times(turns, "thousand", "ten")}


def frameworks(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """One line of text, by each of the frameworks."""
    others = {
        name: replace(FLASK, name=name, module=f"{name}_page", needs=(name,)) for name in ("flask", "bottle", "falcon")
    }
    bare = replace(FLASK, name="bare", module="pages", app="hello", needs=())
    with ExitStack() as stack:
        pages = {"table": TABLE, "bare": bare, **others}
        return middles(take_turns({name: served(stack, page, setting) for name, page in pages.items()}, size))


def cookie(server: Server, setting: Setting, size: Size) -> dict[str, float]:
    """What reading a session from a signed cookie adds to a page, of the table and of Flask."""
    with_session = replace(TABLE, name="session")
    flask = replace(FLASK, name="flask-session", module="flask_cookie", path="/login")
    with ExitStack() as stack:
        turns = take_turns(
            {
                "table": served(stack, TABLE, setting),
                "table read": with_cookie(served(stack, with_session, setting, {"SESSIONS": "cookie:"}), "/read"),
                "flask": served(stack, FLASK, setting),
                "flask read": with_cookie(served(stack, flask, setting), "/read"),
            },
            size,
        )
    adds, theirs = added(turns, "table read", "table"), added(turns, "flask read", "flask")
    return {**middles(turns), "adds": adds, "flask adds": theirs, "times": adds / theirs}


def file(server: Server, setting: Setting, size: Size, tally: bool) -> dict[str, object]:
    """A file by the document root of the table, and by nginx."""
    root = setting.work / "document"
    root.mkdir(exist_ok=True)
    (root / FILE_NAME).write_bytes(FILE)
    workload = replace(TABLE, name="file", path=f"/{FILE_NAME}", answer=FILE, tally=tally)
    with ExitStack() as stack:
        ours = served(stack, workload, setting, extra=("--document", str(root)))
        theirs = Page(stack.enter_context(front.nginx(root, setting)), workload, FILE)
        check(theirs.run.port, workload, FILE)
        turns = take_turns({"table": ours, "nginx": theirs}, size)
    version = record.said([front.program("nginx"), "-v"])
    return {**middles(turns), "times": times(turns, "table", "nginx"), "remark": version}


# fmt: off
OURS = ("single",)
PAIR = {"table µs": "table", "bare function µs": "bare", "times": "times", "± times": "~times"}
ALL = (
    *(Scenario(name, f"the article's {name} page, through the table and as a bare WSGI function",
               partial(article, name=name), (Limit("table / bare function", "times", "<=", 1.25, "x"),), PAIR, OURS)
      for name in ("light", "heavy")),
    Scenario("patterns", "a page whose path has a parameter, in a table with ten patterns and with a thousand",
             patterns, (Limit("a thousand / ten", "times", "<=", 1.2, "x"),),
             {"ten µs": "ten", "a thousand µs": "thousand", "times": "times", "± times": "~times"}, OURS),
    Scenario("frameworks", "a line of text by the table and by other frameworks", frameworks, (),
             {f"{name} µs": name for name in ("bare", "table", "falcon", "bottle", "flask")}, OURS),
    Scenario("cookie", "what reading a session from a signed cookie adds to a page", cookie,
             (Limit("the table's / Flask's", "times", "<=", 0.5, "x"),),
             {"table µs": "table", "with session µs": "table read", "adds µs": "adds", "Flask µs": "flask",
              "with its session µs": "flask read", "that adds µs": "flask adds", "times": "times",
              "± times": "~times"}, OURS),
    *(Scenario(name, f"a file of 100 KB, of the document root and of nginx, asked for by {client}",
               partial(file, tally=tally), (Limit("document / nginx", "times", "<=", 1.3, "x"),),
               {"document µs": "table", "nginx µs": "nginx", "times": "times", "± times": "~times"}, OURS)
      for name, client, tally in (("file-wrk", "wrk", False), ("file-tally", "tally, which takes all at once", True))),
)
# fmt: on
SCENARIOS = {each.name: each for each in ALL}
targets = partial(scenario.targets, ALL)
rows = partial(scenario.rows, ALL)
