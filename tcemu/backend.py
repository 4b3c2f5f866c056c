"""Which implementation computes: the numba kernels or the plain-Python reference. Only the chosen one is imported.

The environment variable TCEMU_KERNELS selects "numba" or "reference". If it is empty, the kernels compute if numba is
installed. But numba takes as long to load as the reference takes for thousands of products, so the reference gives the
first small answers, and a program that needs no more never waits for numba. The two never differ by a bit.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from math import inf
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

from tcemu.errors import KernelsUnavailable, did_you_mean, install, listing

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Part = TypeVar("Part")
BACKENDS = ("numba", "reference")
#: The number of products that the reference computes in about the time that numba takes to load with one kernel
#: (measured: 16,000 to 25,000). Loading numba then at most doubles a program's time, and a smaller program never waits.
WORTH_LOADING = 16_384
#: Moving an element costs 2 ** -MOVED times as much as a product.
MOVED = 10


class _State:
    """The final choice, and the number of products that the reference computed before it."""

    chosen = ""
    products = 0
    #: whether the environment leaves the choice open for the first small answers
    free = False


def backend(products: float = inf) -> str:
    """The implementation that computes this many products, "numba" or "reference". Raises KernelsUnavailable.

    The environment is read for the first answer, and again when an implementation is chosen for good.
    """
    return _State.chosen or _choose(products)


def load_soon() -> None:
    """Start to load the kernels in the background: a reader who has a slider in view will compute again and again."""
    if not _State.chosen:
        Thread(target=_load_quietly, name="tcemu-load").start()


def _load_quietly() -> None:
    with suppress(KernelsUnavailable):  # the next computation raises it
        backend()


def computed(products: int) -> None:
    """Count `products` that the reference has computed."""
    _State.products += products


def _choose(products: float) -> str:
    small = _State.products + products <= WORTH_LOADING
    if small and _State.free:
        return "reference"
    asked = os.environ.get("TCEMU_KERNELS", "")
    if asked and asked not in BACKENDS:
        raise KernelsUnavailable(
            f"TCEMU_KERNELS={asked!r}: it must be {listing(BACKENDS)}, or empty.{did_you_mean(asked, BACKENDS)}"
        )
    _State.free = not asked
    if small and not asked:
        return "reference"
    _State.chosen = asked if asked == "reference" else _load(asked)
    return _State.chosen


def _load(asked: str) -> str:
    """Load numba if it is installed, and show a notice when it compiles."""
    obstacle = _obstacle()
    if obstacle and asked:
        raise KernelsUnavailable(
            f"TCEMU_KERNELS=numba, but {obstacle}. Run {install('numba')}, or set TCEMU_KERNELS=reference"
        )
    if obstacle:
        return "reference"
    from tcemu.kernels.announce import announce_compilation
    from tcemu.notice import Notice

    notice = Notice()
    announce_compilation(notice.begin, notice.end)
    return "numba"


def _obstacle() -> str:
    """Why numba cannot be used, or "". An installed numba may still fail to import, for example with a newer numpy."""
    try:
        import_module("numba")
    except ImportError as error:
        return f"numba is not installed or cannot be imported: {error}"
    return ""


@cache
def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def on_all_cores(work: Callable[[Part], None], parts: Sequence[Part]) -> None:
    """Call `work` with each part, on all cores at once if the kernels compute, since they release the interpreter lock.

    Raises the error of the first part that fails.
    """
    threads = min(cores(), len(parts)) if len(parts) > 1 and backend() == "numba" else 1
    if threads <= 1:
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

    # This thread works, too. The others stay for the next call: to start one takes as long as hundreds of warps.
    helpers: list[Future[None]] = []
    try:
        helpers += [_pool().submit(some) for _ in range(threads - 1)]
        some()
    finally:
        left.clear()  # after an interruption nothing new begins
        wait([helper for helper in helpers if not helper.cancel()])
    if failed:
        raise failed[min(failed)]


@cache
def _pool() -> ThreadPoolExecutor:
    """The threads that help this one; a process that fork creates makes its own."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(max(cores() - 1, 1), thread_name_prefix="tcemu")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
