"""`python -m conformance.functional [SUITE ...]`: run the suites (all of them, or those named) and print the counts.

Ends with 1 where a test fails otherwise than `deviations.py` says, where too few ran, or where a suite cannot be had.
"""

from __future__ import annotations

import argparse
import sys

from conformance.functional.suites import (
    DEVIATES,
    FAILED,
    SKIPPED,
    SUITES,
    UNRUN,
    Broken,
    Unavailable,
    fetch,
    run,
    shortfall,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m conformance.functional", description=__doc__)
    parser.add_argument("suite", nargs="*", choices=[[], *SUITES], help=", ".join(SUITES))
    parser.add_argument("--select", default="", help="only tests that match this expression of pytest -k")
    parser.add_argument("--reasons", action="store_true", help="also list each test that did not simply pass")
    told = parser.parse_args()
    try:
        unpacked = fetch()
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    wrong = False
    for name in told.suite or SUITES:
        try:
            outcome = run(name, unpacked, select=told.select)
        except Broken as error:
            print(error)
            wrong = True
            continue
        print(f"{name:10} {outcome.summary()}")
        shown = (DEVIATES, UNRUN, SKIPPED) if told.reasons else ()
        for test, (what, why) in sorted(outcome.tests.items()):
            if what in (*shown, FAILED):
                print(f"  {what}: {test}\n    {why}")
        short = "" if told.select else shortfall(name, outcome)
        if short:
            print(f"  {short}")
        wrong = wrong or bool(short) or outcome.count(FAILED) > 0
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
