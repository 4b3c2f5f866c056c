"""The threads that compute: one for each core. They wait for the next call, because starting one takes a while."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Part = TypeVar("Part")


@cache
def cores() -> int:
    """Processor cores that this process may use."""
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
