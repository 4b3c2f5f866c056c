"""Times of several works, which take turns, so that other load on the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

Work = Callable[[], object]
Clock = Callable[[], float]
ROUNDS = 7
#: Seconds that the threads of a BLAS spin after a product, at most.
_SPIN = 0.5


def rest() -> None:
    """Wait until the threads of numpy's BLAS have stopped spinning, which takes a core from the next work."""
    time.sleep(_SPIN)


def seconds(work: Work, clock: Clock = time.perf_counter) -> float:
    """What one call takes by a clock."""
    start = clock()
    work()
    return clock() - start


def times(works: Sequence[Work], rounds: int = ROUNDS, clock: Clock = time.perf_counter) -> list[tuple[float, ...]]:
    """What each call of each work takes, after a round that does not count."""
    every = [[seconds(work, clock) for work in works] for _ in range(rounds + 1)]
    return list(zip(*every[1:], strict=True))


def best(works: Sequence[Work], rounds: int = ROUNDS, clock: Clock = time.perf_counter) -> list[float]:
    """The shortest time of each work."""
    return [min(each) for each in times(works, rounds, clock)]
