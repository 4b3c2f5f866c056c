"""Bugs that need a rare order: how many the search finds, and how many random orders find with as many runs.

    python benchmarks/schedules.py [RUNS]

The kernels are those of tests/schedules/kernels_rare.py, which are clean under seed 0.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

import tcemu
from tcemu.errors import TcemuError
from tcemu.machine.strategy import Policy

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "schedules"))
from kernels_rare import RARE

POLICIES: tuple[Policy, ...] = ("late", "early", "random")


def fails(row: Any, seed: int, policy: Policy) -> bool:
    """Whether a kernel fails under a seed and a policy."""
    kernel, grid, block, args = row.arguments(mended=False)
    try:
        tcemu.launch(kernel, grid, block, args, seed=seed, policy=policy, **row.options)
        if row.check is not None:
            row.check(*args)
    except (TcemuError, AssertionError):
        return True
    return False


def by_chance(row: Any, runs: int) -> int | None:
    """The runs under random orders until one fails; None if none of them does."""
    tries = (number for number in range(1, runs + 1) if fails(row, number, POLICIES[number % 3]))
    return next(tries, None)


def searched(row: Any, runs: int) -> tuple[int | None, str]:
    """The runs of the search until one fails, and the schedule."""
    found = tcemu.search_schedules(*row.arguments(mended=False), **row.options, check=row.check, runs=runs, work=10**12)
    return (found.runs, found.failures[0].replay) if found.failures else (None, "")


def main(runs: int) -> None:
    """Print a line for each kernel, and the shares."""
    print(f"{'runs until it fails, of ' + str(runs):44} search  random")
    rows = []
    for row in RARE:
        (found, replay), chance = searched(row, runs), by_chance(row, runs)
        rows.append((found, chance))
        print(f"{row.name:44} {found or '-':>6}  {chance or '-':>6}  {replay}")
    for budget in sorted({min(each, runs) for each in (25, 100, runs)}):
        shares = [sum(each is not None and each <= budget for each in column) for column in zip(*rows, strict=True)]
        print(f"found within {budget:4} runs, of {len(rows)} kernels: search {shares[0]}, random {shares[1]}")


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("runs", type=int, nargs="?", default=400, help="runs of each kernel; 400 if not given")
    main(options.parse_args().runs)
