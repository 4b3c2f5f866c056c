"""Which implementation computes: the numba kernels, numpy or the plain-Python reference. Only the chosen is imported.

The environment variable TCEMU_KERNELS selects "numba", "arrays" or "reference". If it is empty, the kernels compute if
numba is installed, and else whole arrays of numpy (`tcemu.arithmetic.arrays`), as in a browser. But numba takes as long
to load as the reference takes for thousands of products, so the reference gives the first small answers, and a program
that needs no more never waits for numba. They never differ by a bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from math import inf
from threading import Thread
from typing import TypeVar

from tcemu.errors import KernelsUnavailable, did_you_mean, listing
from tcemu.extras import IN_BROWSER, install
from tcemu.kernels.host import threads
from tcemu.kernels.host.threads import cores

Part = TypeVar("Part")
BACKENDS = ("numba", "arrays", "reference")
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
    """The implementation that computes this many products, one of BACKENDS. Raises KernelsUnavailable.

    The environment is read for the first answer, and again when an implementation is chosen for good.
    """
    return _State.chosen or _choose(products)


def load_soon() -> None:
    """Start to load the kernels in the background: a reader who has a slider in view will compute again and again."""
    if not _State.chosen and not IN_BROWSER:
        Thread(target=_load_quietly, name="tcemu-load").start()


def _load_quietly() -> None:
    with suppress(KernelsUnavailable):  # the next computation raises it
        if backend() == "numba":
            from tcemu.kernels.host.compiling import prepare

            prepare()


def computed(products: int) -> None:
    """Count `products` that the reference has computed."""
    _State.products += products


def backend_of_move(elements: int) -> str:
    """`backend` for a move of this many elements, which it counts."""
    products = elements >> MOVED
    chosen = backend(products)
    if chosen != "numba":
        computed(products)
    return chosen


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
    if small and not asked and not IN_BROWSER:
        return "reference"
    _State.chosen = _load(asked) if asked in {"", "numba"} else asked
    return _State.chosen


def _load(asked: str) -> str:
    """Load numba if it is installed, and show a notice when it compiles."""
    obstacle = _obstacle()
    if obstacle and asked:
        raise KernelsUnavailable(
            f"TCEMU_KERNELS=numba, but {obstacle}. Run {install('numba')}, or set TCEMU_KERNELS=reference"
        )
    if obstacle:
        return "arrays"
    from tcemu.kernels.host.compiling import announce_compilation
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


def on_all_cores(work: Callable[[Part], None], parts: Sequence[Part]) -> None:
    """Call `work` with each part, on all cores at once if the kernels compute, since they release the interpreter lock.

    Raises the error of the first part that fails.
    """
    threads.share(work, parts, cores() if len(parts) > 1 and backend() == "numba" else 1)
