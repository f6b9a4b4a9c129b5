"""`python -m tests.fuzz --seed 0 --requests 10000 --minutes 10 --state FILE`; exit status 1 when something is bad."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.driver import Settings, fuzz, summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Hostile requests against the engine.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=10_000, help="numbers 0 to this are asked")
    parser.add_argument("--minutes", type=float, default=10.0, help="at most; call again to go on")
    parser.add_argument("--state", type=Path, required=True, help="outcomes, a JSON line each; read to go on")
    given = parser.parse_args()
    outcomes = fuzz(Settings(given.seed, given.requests, given.minutes, given.state))
    print(summary(outcomes))
    return int(any(outcome["bad"] for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
