"""Feed suites of raw HTTP/1.1 requests to poorhttp and its peers, and tell who does what is right.

`python -m conformance [--server NAME ...] [--suite NAME ...]`. A case goes from its suite (suites.py, and one module
each) as a Case (case.py) in pieces over a socket (talk.py) to a server (servers.py); what comes back is judged
(judge.py, deviations.py) and recorded (record.py). The peers are those of bench/.venv-peers, or of the virtual
environment that the variable PEERS names.

Exit status: 0; 1 where poorhttp fails a case, something of it hangs or dies, a peer is ahead of it in a suite, or a
rejection takes longer than 100 ms; 2 where a suite or a server cannot be had, or the usage is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Iterator

from conformance import gunicorn, protocol, record
from conformance.case import Case
from conformance.download import Broken, Unavailable
from conformance.run import Result, over_protocol, over_sockets, summary, with_settings
from conformance.servers import SERVERS, Dead, running, version
from conformance.suites import SUITES, cases

SETTLED = "poorhttp, with the setting of each case"  # the cases of gunicorn that are about a setting
OURS = ("protocol", "poorhttp", SETTLED)  # the protocol alone, cut everywhere; and the server
CUTS, ALL = 2, 2000  # two-part cuts of each case over a socket, and of each to poorhttp with --every-cut
PATIENCE = 0.5  # seconds for an answer that is due, before the client half-closes
SLOW = 0.1  # seconds for a rejection
BAD = ("fail", "hangs", "deaths")


def main() -> int:
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the servers are ended on the way out
    try:
        versions = {name: "poorhttp's protocol" if name == "protocol" else version(name) for name in arguments.server}
        found = {suite: cases(suite) for suite in arguments.suite}
        results = run(arguments.server, found, ALL if arguments.every_cut else CUTS)
        if "poorhttp" in arguments.server and "gunicorn" in found:
            settled = gunicorn.settled()
            results["gunicorn"][SETTLED] = list(with_settings("poorhttp", settled, CUTS, PATIENCE, SLOW))
            found["gunicorn"] += settled
            versions[SETTLED] = f"{versions['poorhttp']}, with the setting of each case"
    except (Unavailable, Broken, Dead) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    wrong: list[str] = []
    for suite, by_server in results.items():
        print(f"\n## {suite}\n\n{record.table(by_server, versions)}\n\n{record.LEGEND}\n")
        wrong += faults(suite, by_server)
        if not arguments.no_record and set(arguments.server) == {"protocol", *SERVERS}:
            record.write(suite, by_server, found[suite], versions)
    if arguments.verbose:
        for suite, by_server in results.items():
            for server, listed in by_server.items():
                for result in listed:
                    if result.kind not in ("pass", "deviation"):
                        print(f"{server}, {suite}, {result.case}: {result.kind}: {result.why} {result.way}")
    if "poorhttp" in arguments.server:
        print("\n".join(wrong) or "No case that poorhttp fails, none that hangs, and no peer ahead.")
    return int(bool(wrong))


def run(servers: list[str], found: dict[str, list[Case]], cuts: int) -> dict[str, dict[str, list[Result]]]:
    """Results by suite and server; each server is started once. cuts: for poorhttp."""
    results: dict[str, dict[str, list[Result]]] = {suite: {} for suite in found}
    for server in servers:
        with contextlib.ExitStack() as stack:
            ask = stack.enter_context(protocol.running()) if server == "protocol" else None
            started = None if ask else stack.enter_context(running(server))
            for suite, all_cases in found.items():
                print(f"{server}: {suite}, {len(all_cases)} cases", file=sys.stderr)
                if ask:
                    results[suite][server] = list(over_protocol(ask, all_cases))
                elif started:
                    results[suite][server] = list(
                        over_sockets(started, all_cases, cuts if server == "poorhttp" else CUTS, PATIENCE, SLOW)
                    )
    return results


def faults(suite: str, by_server: dict[str, list[Result]]) -> Iterator[str]:
    """A line for each thing that must not be."""
    for server in (name for name in OURS if name in by_server):
        for result in by_server[server]:
            if result.kind in ("fail", "hang", "died"):
                yield f"{server}, {suite}, {result.case}: {result.kind}: {result.why} {result.way}"
            if result.rejection is not None and result.rejection > SLOW:
                yield f"{server}, {suite}, {result.case}: refused after {result.rejection * 1000:.0f} ms"
    if "poorhttp" in by_server:
        ours = badness(by_server["poorhttp"])
        for server, results in by_server.items():
            if server not in OURS and badness(results) < ours:
                yield f"{suite}: {server} is ahead, with {badness(results)} bad cases against {ours}"


def badness(results: list[Result]) -> int:
    row = summary(results)
    return sum(int(str(row[column])) for column in BAD)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m conformance", description=(__doc__ or "").partition("\n")[0])
    names = ["protocol", *SERVERS]
    parser.add_argument("--server", nargs="+", metavar="NAME", choices=names, default=names, help=", ".join(names))
    parser.add_argument(
        "--suite", nargs="+", metavar="NAME", choices=list(SUITES), default=list(SUITES), help=", ".join(SUITES)
    )
    parser.add_argument("--every-cut", action="store_true", help=f"cut each case for poorhttp at {ALL:,} places")
    parser.add_argument("--no-record", action="store_true", help="a run of all servers is recorded otherwise")
    parser.add_argument("--verbose", action="store_true", help="list what is no pass")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
