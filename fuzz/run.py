"""Runs the fuzz targets one after the other, from the corpus of the tests, and may record it.

    python -m fuzz.run --programs FOLDER fuzz/corpus --seconds 600 --record     # as `make fuzz` does

Knows what libFuzzer prints. Ends with 1 at the first crash, whose input is then in fuzz/artifacts/TARGET.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from conformance.record import RECORDS, facts
from fuzz import seeds

HERE = Path(__file__).parent
TARGETS = ("head", "body", "protocol", "response")
SAID = re.compile(r"INFO: Seed: (?P<seed>\d+).*\n#\d+\s+DONE +cov: (?P<edges>\d+).* corp: (?P<inputs>\d+)/.*"
                  r"^Done (?P<runs>\d+) runs in (?P<seconds>\d+) second", re.MULTILINE | re.DOTALL)  # fmt: skip


def fuzz(program: Path, inputs: Path, options: list[str]) -> dict[str, str]:
    """What libFuzzer says of a run in the end; exits where it found a crash, a panic or a hang."""
    artifacts = HERE / "artifacts" / program.name
    artifacts.mkdir(parents=True, exist_ok=True)
    common = [f"-dict={HERE / 'http.dict'}", f"-max_len={seeds.LONGEST}", f"-artifact_prefix={artifacts}/"]
    done = subprocess.run(
        [program, inputs, *common, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        errors="replace",
    )  # fmt: skip
    artifacts.with_suffix(".log").write_text(done.stdout)
    said = SAID.search(done.stdout)
    if done.returncode or said is None:
        sys.exit(f"{done.stdout[-5000:]}\n{program.name} ended with {done.returncode}; its input is in {artifacts}")
    print(f"{program.name}: " + ", ".join(f"{name} {value}" for name, value in said.groupdict().items()), flush=True)
    return said.groupdict()


def record(outcomes: dict[str, dict[str, str]]) -> None:
    """Write records/fuzz.md: `seed` and the inputs of the corpus begin the same run again."""
    columns = list(next(iter(outcomes.values())))
    lines = ["# fuzz: libFuzzer over the targets of `fuzz/`, no crash", ""]
    lines += [f"- {name}: {value}" for name, value in facts().items()]
    lines += ["", f"| target | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    lines += [f"| {target} | {' | '.join(said.values())} |" for target, said in outcomes.items()]
    (RECORDS / "fuzz.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the fuzz targets.")
    parser.add_argument("folder", type=Path, help="inputs, a folder for each target")
    parser.add_argument("--programs", type=Path, required=True, help="where the built targets are")
    parser.add_argument("--seconds", type=int, required=True, help="for each target, at most")
    parser.add_argument("--runs", type=int, default=-1, help="for each target, at most")
    parser.add_argument("--seed", type=int, default=0, help="of what is tried; 0: another one each time")
    parser.add_argument("--record", action="store_true", help="write conformance/records/fuzz.md")
    given = parser.parse_args()
    seeds.main(given.folder)
    options = [f"-max_total_time={given.seconds}", f"-runs={given.runs}", f"-seed={given.seed}"]
    outcomes = {target: fuzz(given.programs / target, given.folder / target, options) for target in TARGETS}
    if given.record:
        record(outcomes)


if __name__ == "__main__":
    main()
