"""Which implementation computes: the numba kernels or the plain-Python reference. Only the chosen one is imported.

The environment variable TCEMU_KERNELS selects "numba" or "reference". If it is empty, the kernels compute where numba
is installed. But loading numba takes as long as some thousand products by the reference: whoever wants a few small
answers gets them from the reference, before numba would have been loaded. The two never differ by a bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from math import inf
from typing import TypeVar

from tcemu.errors import KernelsUnavailable, did_you_mean, install, listing

Part = TypeVar("Part")
BACKENDS = ("numba", "reference")
#: So many products the reference computes in about the time in which numba is loaded with one kernel (measured: 16,000
#: to 25,000). Loading it then at most doubles the time of any program; one that needs less waits for nothing.
WORTH_LOADING = 16_384
#: An element that is only moved takes less than a product by so many bits.
MOVED = 10


class _State:
    """What has been chosen for good, and the products that the reference has computed until then."""

    chosen = ""
    products = 0


def backend(products: float = inf) -> str:
    """The implementation for so many products, "numba" or "reference". Raises KernelsUnavailable.

    The environment is read until an implementation is chosen for good.
    """
    return _State.chosen or _choose(products)


def computed(products: int) -> None:
    """Tell that the reference has computed so many products."""
    _State.products += products


def _choose(products: float) -> str:
    asked = os.environ.get("TCEMU_KERNELS", "")
    if asked and asked not in BACKENDS:
        raise KernelsUnavailable(
            f"TCEMU_KERNELS={asked!r}: it must be {listing(BACKENDS)}, or empty.{did_you_mean(asked, BACKENDS)}"
        )
    if not asked and _State.products + products <= WORTH_LOADING:
        return "reference"
    _State.chosen = asked if asked == "reference" else _load(asked)
    return _State.chosen


def _load(asked: str) -> str:
    """Load numba where it is installed, and say what it compiles."""
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
    """Call `work` with each part, on all cores at once where the kernels compute, which let go of the interpreter.

    The error of the first part that fails is raised.
    """
    threads = min(cores(), len(parts)) if len(parts) > 1 and backend() == "numba" else 1
    if threads <= 1:
        for part in parts:
            work(part)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads, thread_name_prefix="tcemu") as pool:
        for _ in pool.map(work, parts):
            pass
