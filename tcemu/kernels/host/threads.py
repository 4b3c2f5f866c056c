"""The threads that compute, one for each core, and how they share a matrix.

They wait for the next call, because starting one takes a while. How they share a batch,
`tcemu.kernels.batch.sharing` says. Nothing here needs numpy or numba.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    import numpy.typing as npt

    Array = npt.NDArray[Any]


Part = TypeVar("Part")


@cache
def cores() -> int:
    """Processor cores that this process may use: one in a browser, where there are no threads."""
    if sys.platform == "emscripten":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share(work: Callable[[Part], None], parts: Sequence[Part], most: int) -> None:
    """Call `work` with each part, in at most `most` threads, the caller's among them, and never in more than cores.

    Raises the error of the first part that fails.
    """
    count = min(most, cores(), len(parts))
    if count <= 1:
        for part in parts:
            work(part)
        return
    from concurrent.futures import wait  # which takes 5 ms to import

    left, failed = deque(enumerate(parts)), {}

    def some() -> None:
        while left:
            try:
                number, part = left.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                work(part)
            except Exception as error:  # noqa: BLE001 - the caller gets it
                failed[number] = error

    helpers: list[Future[None]] = []
    try:
        helpers += [_pool().submit(some) for _ in range(count - 1)]
        some()
    finally:
        left.clear()  # after an interruption nothing new begins
        wait([helper for helper in helpers if not helper.cancel()])
    if failed:
        raise failed[min(failed)]


def join(work: Callable[[], None], most: int) -> None:
    """Call `work` in this thread, and in at most `most` - 1 others that may join; returns when this thread is done.

    The others must not matter: they may still be at it, and their errors are not raised.
    """
    helpers = [_pool().submit(work) for _ in range(min(most, cores()) - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            helper.cancel()


@cache
def _pool() -> ThreadPoolExecutor:
    """The threads that help this one; a process that fork creates makes its own."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(cores() - 1, 1), thread_name_prefix="tcemu")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


# ------------------------------------------------------------------------------------------------- whole matrices


#: Rows of A and of C, and columns of B and of C, from which a thread takes a tile of a matrix: m0, m1, n0, n1.
Corner = tuple[int, int, int, int]
#: Those of a tile, at most; its columns are a constant, so that a compiler knows the distance of its rows.
ROWS_OF_TILE, COLUMNS = 256, 256
#: If a product has fewer multiplications than this, a second thread costs more than it gains.
SERIAL = 1 << 21


def check_shapes(a: Array, b: Array, c: Array) -> None:
    """Raise ValueError unless a @ b + c is possible."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"shapes {a.shape} @ {b.shape} + {c.shape}")


def share_matrix(work: Callable[[Corner], None], rows: int, columns: int, depth: int, threads: int | None) -> None:
    """Run `work` for all tiles of a (rows, columns) matrix, in as many threads as the size justifies."""
    most = min(cores(), threads or cores()) if rows * columns * depth > SERIAL else 1
    across = -(-columns // COLUMNS)
    height = ROWS_OF_TILE
    while most > 1 and height > 16 and across * -(-rows // height) < 4 * most:
        height //= 2
    tiles = [
        (m, min(m + height, rows), n, min(n + COLUMNS, columns))
        for m in range(0, rows, height)
        for n in range(0, columns, COLUMNS)
    ]
    share(work, tiles, most)
