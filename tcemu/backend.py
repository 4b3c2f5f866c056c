"""Which implementation computes: the numba kernels or the plain-Python reference. Only the chosen one is imported.

The environment variable TCEMU_KERNELS selects "numba" or "reference"; if it is empty, the faster one that is installed
is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TypeVar

from tcemu.errors import KernelsUnavailable, did_you_mean, listing

Part = TypeVar("Part")
BACKENDS = ("numba", "reference")


@cache
def backend() -> str:
    """The implementation in use, "numba" or "reference". The environment is read once. Raises KernelsUnavailable."""
    asked = os.environ.get("TCEMU_KERNELS", "")
    if asked and asked not in BACKENDS:
        raise KernelsUnavailable(
            f"TCEMU_KERNELS={asked!r}: it must be {listing(BACKENDS)}, or empty.{did_you_mean(asked, BACKENDS)}"
        )
    if asked == "reference":
        return asked
    obstacle = _obstacle()
    if obstacle and asked:
        raise KernelsUnavailable(
            f"TCEMU_KERNELS=numba, but {obstacle}. Run pip install numba, or set TCEMU_KERNELS=reference"
        )
    if obstacle:
        return "reference"
    from tcemu.kernels.announce import announce_compilation

    announce_compilation()
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
    threads = min(cores(), len(parts)) if backend() == "numba" else 1
    if threads <= 1:
        for part in parts:
            work(part)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads, thread_name_prefix="tcemu") as pool:
        for _ in pool.map(work, parts):
            pass
