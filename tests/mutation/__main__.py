"""`python -m tests.mutation --room analysis --faults 40 --seed 0`: how many deliberate faults do the tests notice?

First the quick tests run once under coverage, which tells what runs each line (`--map FILE` keeps that). Then each fault,
drawn by the seed, is put into a copy of the checkout, and the tests that run its line are run there, those of its
module first, until one fails. Where only other processes run the line, such as workers, the tests that go with its
module or room are run, the slow ones too. The table says what survived: each is to be judged.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from run import QUICK
from tests.mutation import runners
from tests.mutation.forks import pytest_of
from tests.mutation.operators import Fault, faults, with_fault
from tests.mutation.runners import ROOT, Runners

ROOMS = ("lowering", "analysis", "hlo", "engines", "compilation")
MOST_S = 120  # of tests for one fault, as long as they take without it
SLOW_TOO = "not (browser or libraries)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--room", choices=ROOMS, action="append", help="again for several; all by default")
    parser.add_argument("--faults", type=int, default=20, help="of each room")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--map", type=Path, help="what runs each line: read where it is of these sources, else written")
    given = parser.parse_args()
    os.environ.update(JAX_PLATFORMS="cpu", PYTHONDONTWRITEBYTECODE="1")
    noticed: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve() / "checkout"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", ".*_cache", "node_modules"))
        known = runners.read(given.map, copy)
        for room in given.room or ROOMS:
            for fault in drawn(room, given.faults, given.seed):
                what = is_noticed(fault, copy, *what_runs(fault, known))
                noticed.setdefault(room, []).append(what is not None)
                print(f"{'noticed ' if what else 'SURVIVED'} {fault.file}:{fault.line}: {fault.what}", flush=True)
                print(f"         {what or ''}", flush=True)
    print("\n| room | faults | noticed |\n|---|---|---|")
    for room, found in noticed.items():
        print(f"| {room} | {len(found)} | {sum(found) / len(found):.0%} |")
    return 0


def drawn(room: str, count: int, seed: int) -> list[Fault]:
    """Faults of a room, lines drawn evenly: a line with many faults is no likelier than others."""
    source = random.Random(f"{room} {seed}")
    by_line: dict[tuple[str, int], list[Fault]] = {}
    for path in sorted((ROOT / "inspector" / room).rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        for fault in faults(file, path.read_text()):
            by_line.setdefault((file, fault.line), []).append(fault)
    lines = source.sample(sorted(by_line), min(count, len(by_line)))
    return [source.choice(by_line[line]) for line in lines]


def what_runs(fault: Fault, known: Runners) -> tuple[list[str], str]:
    """The tests to run, `MOST_S` of them, and pytest's marks: those that run the line, else those that go with its module."""
    found = known.of(fault.file, fault.line)
    spent = itertools.accumulate(known.seconds[test] for test in found)
    chosen = [test for test, until in zip(found, spent, strict=True) if until <= MOST_S]
    return (chosen, QUICK) if chosen else (runners.by_name(fault.file), SLOW_TOO)


def is_noticed(fault: Fault, copy: Path, tests: Sequence[str], marks: str = QUICK) -> str | None:
    """The first test that fails with the fault in place, or what else pytest ends with; None where all pass."""
    file = copy / fault.file
    before = file.read_text()
    file.write_text(with_fault(before, fault))
    try:
        code, said = pytest_of(copy, marks, tests)
    finally:
        file.write_text(before)
    if code in (0, 5, None):
        return None
    return next((line for line in said if line.startswith(("FAILED", "ERROR"))), f"pytest ended with {code}")


if __name__ == "__main__":
    sys.exit(main())
