"""`python -m tests.fuzz [DOOR …]`: run many cases and print counts, the worst time and memory, and every finding."""

from __future__ import annotations

import argparse
import os
import sys

from tests.fuzz.doors import DOORS, LONG_RUN
from tests.fuzz.harness import run


def main() -> int:
    """Run the doors asked for, one after the other; return 1 if there was a finding."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("doors", nargs="*", metavar="DOOR", help=f"one of: {', '.join(DOORS)} (default: all)")
    parser.add_argument("--count", type=int, help="cases per door (default: the number for a long run)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seconds", type=float, help="start no case after this time (per door)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", action="store_true", help="show tracebacks and the outcome of every case")
    arguments = parser.parse_args()
    unknown = set(arguments.doors) - set(DOORS)
    if unknown:
        parser.error(f"unknown door: {', '.join(sorted(unknown))}")
    failed = False
    for door in arguments.doors or DOORS:
        count = arguments.count or LONG_RUN[door]
        workers = min(arguments.workers, count)
        summary = run(
            door,
            count=count,
            seed=arguments.seed,
            first=arguments.first,
            workers=workers,
            show=arguments.show,
            seconds=arguments.seconds,
        )
        print(summary.describe(), flush=True)  # noqa: T201 (a report is what this command is for)
        failed |= bool(summary.findings)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
