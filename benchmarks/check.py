"""How long a learner waits for a check, right and wrong, and what it takes in memory: python benchmarks/check.py.

Every exercise is checked with its solution and with its first wrong answer, the second time, when what is compiled is
compiled; the times are processor time. The bound is a second.
"""

from __future__ import annotations

import time
import tracemalloc
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tcemu.course import judged
from tcemu.course.lint import cases

#: Seconds that a check may take.
BOUND = 1.0


def timed(call: Callable[[], object]) -> float:
    """Seconds of the second call."""
    call()
    start = time.process_time()
    call()
    return time.process_time() - start


def peak(call: Callable[[], object]) -> float:
    """The most memory that a call holds, in MB."""
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 1e6


def main() -> None:
    """Print the slowest checks, and how many are slower than the bound."""
    rows = []
    for case in cases(Path(__file__).resolve().parent.parent):
        right = timed(case.solution.verdict)
        answer = case.wrong[0].of(case.exercise.given())
        wrong = timed(partial(judged, case.exercise, answer))
        rows.append((max(right, wrong), right, wrong, peak(case.solution.verdict), case.exercise.name))
    rows.sort(reverse=True)
    print(f"{'exercise':28}{'right':>10}{'wrong':>10}{'memory':>12}")
    for _, right, wrong, memory, name in rows[:12]:
        print(f"{name:28}{right:8.2f} s{wrong:8.2f} s{memory:9.1f} MB")
    slow = sum(row[0] > BOUND for row in rows)
    middle = rows[len(rows) // 2][0]
    print(f"{len(rows)} exercises; the middle one takes {middle:.2f} s; {slow} take more than {BOUND:g} s")


if __name__ == "__main__":
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args()
    main()
