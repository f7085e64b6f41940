"""`python -m conformance.functional [SUITE ...]`: run the suites (all of them, or those named) and print the counts.

`--record` writes what came out of all of them to conformance/records/, in JSON and in Markdown.

Ends with 1 where a test fails otherwise than `deviations.py` says, where too few ran, or where a suite cannot be had.
"""

from __future__ import annotations

import argparse
import json
import sys

from conformance.functional.suites import (
    ARCHIVES,
    DEVIATES,
    FAILED,
    PASSED,
    SKIPPED,
    SUITES,
    UNRUN,
    Broken,
    Outcome,
    Unavailable,
    fetch,
    run,
    shortfall,
)
from conformance.record import RECORDS, code, facts

PEERS = "does not apply, these are the tests of the peers themselves"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.functional", description=__doc__)
    parser.add_argument("suite", nargs="*", choices=[[], *SUITES], help=", ".join(SUITES))
    parser.add_argument("--select", default="", help="only tests that match this expression of pytest -k")
    parser.add_argument("--reasons", action="store_true", help="also list each test that did not simply pass")
    parser.add_argument("--record", action="store_true", help="write conformance/records/functional.json and .md")
    told = parser.parse_args()
    if told.record and (told.suite or told.select):
        parser.error("--record is of all suites, whole")
    try:
        unpacked = fetch()
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    wrong = False
    outcomes = {}
    for name in told.suite or SUITES:
        try:
            outcome = run(name, unpacked, select=told.select)
        except Broken as error:
            print(error)
            wrong = True
            continue
        outcomes[name] = outcome
        print(f"{name:10} {outcome.summary()}")
        shown = (DEVIATES, UNRUN, SKIPPED) if told.reasons else ()
        for test, (what, why) in sorted(outcome.tests.items()):
            if what in (*shown, FAILED):
                print(f"  {what}: {test}\n    {why}")
        short = "" if told.select else shortfall(name, outcome)
        if short:
            print(f"  {short}")
        wrong = wrong or bool(short) or outcome.count(FAILED) > 0
    if told.record and len(outcomes) == len(SUITES):
        record(outcomes)
    return int(wrong)


def record(outcomes: dict[str, Outcome]) -> None:
    """Write the counts, and each test that did not simply pass with its reason."""
    pins = [line.partition(" ")[0] for line in ARCHIVES.read_text().splitlines()]
    pinned = [pin for pin in pins if pin.partition("==")[0].lower() in outcomes]
    columns = (PASSED, DEVIATES, FAILED, UNRUN, SKIPPED)
    counts = {
        name: {"cases": len(outcome.tests), **{column: outcome.count(column) for column in columns}}
        for name, outcome in outcomes.items()
    }
    others = {
        name: {test: {"outcome": what, "why": why} for test, (what, why) in sorted(outcome.tests.items()) if why}
        for name, outcome in outcomes.items()
    }
    suites = {name: {**counts[name], "not passed": others[name]} for name in outcomes}
    said = {"suite": "functional", "source": pinned, **facts(), "peers": PEERS, "suites": suites}
    lines = ["# functional: the tests of other servers, with poorhttp in their place", ""]
    lines += [f"- {name}: {value}" for name, value in {"of": ", ".join(pinned), **facts()}.items()]
    lines += ["", f"| suite | cases | {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) + 1)}"]
    lines += [f"| {name} | {' | '.join(map(str, count.values()))} |" for name, count in counts.items()]
    lines += ["", f"Peers: {PEERS}."]
    for name, tests in others.items():
        lines += ["", f"## {name}", ""]
        lines += [f"- {one['outcome']}: {code(test)}: {' '.join(one['why'].split())}" for test, one in tests.items()]
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / "functional.json").write_text(json.dumps(said, indent=1) + "\n")
    (RECORDS / "functional.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
