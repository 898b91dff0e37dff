"""`python -m tests.simulation --seconds 600 --seed 0` runs seeds for ten minutes; without `--seconds` it runs one."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simulate import run_seed


def main() -> int:
    """Run seeds; returns 1 if one fails, else 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=0, help="the first seed, or, without --seconds, the only one")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long seeds are run, one after another")
    parser.add_argument("--every", action="store_true", help="go on after a seed that fails")
    parser.add_argument("--whole", action="store_true", help="do not shrink the schedules that fail")
    asked = parser.parse_args()
    end, seed, failures = time.monotonic() + asked.seconds, asked.seed, 0
    while True:
        failed = run_seed(seed, shrink=not asked.whole)
        if failed is not None:
            failures += 1
            print(f"{failed}\n", flush=True)  # noqa: T201 a program
        seed += 1
        if time.monotonic() >= end or (failed is not None and not asked.every):
            break
    print(f"{seed - asked.seed} seeds from {asked.seed}, {failures} failed")  # noqa: T201
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
