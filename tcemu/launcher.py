"""tcemu.launch: a kernel on the machine, with the sanitizer listening."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from typing import Any

from tcemu.errors import LaunchError, briefly, counted
from tcemu.machine.events import Observer
from tcemu.machine.launch import Kernel, Launch
from tcemu.machine.launch import launch as run
from tcemu.machine.pending import Policy
from tcemu.sanitizer.sanitizer import Mode, Sanitizer

__all__ = ["launch", "observing"]

#: Makes the observers of a launch, from its kernel.
Begin = Callable[[Kernel], Sequence[Observer]]
_BEGIN: ContextVar[Begin | None] = ContextVar("begin", default=None)


def launch(
    kernel: Kernel,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    args: Sequence[Any] = (),
    *,
    shared: int = 0,
    target: str = "sm_90a",
    seed: int = 0,
    policy: Policy | Sequence[Policy] = "late",
    sanitizer: Mode = "raise",
    observers: Sequence[Observer] = (),
) -> Launch:
    """Run `kernel(warp, *args)` once for each warp of a grid, and report what the PTX manual leaves undefined.

    `grid` is the number of blocks and `block` the number of threads in each, as one number or up to three (x, y, z);
    `shared` is the number of bytes of shared memory for each block. Numpy arrays in `args` live in global memory: the
    kernel gets a pointer to each, and after the launch they hold what it wrote. All other arguments are passed as is.

    Warps take turns where they wait; a `seed` other than 0 lets them take turns anywhere, in an order that the seed
    fixes. `policy` says when asynchronous effects appear: "late" (at the wait, or when nothing else can go on), "early"
    (at once) or "random". With several policies, the kernel runs once under each, on the same input; the arrays get the
    results of the first, and the result's `parted` says where the others differ.

    `sanitizer` is "raise" (UndefinedBehaviour at the first broken rule), "warn", "collect" (the result's `reports`
    lists all broken rules) or "off". Each of `observers` is called with every event (tcemu.machine.events).

    Raises LaunchError: UndefinedBehaviour, MemoryFault, Deadlock, or what no GPU would launch. If the sanitizer has
    warned of the cause or collected it, the result has the error as `error` instead, and the arrays do not change.

    >>> def scale(warp, x, factor):
    ...     here = x.at(warp.threads)  # an address for each lane, in bytes
    ...     values = warp.ld_global(here).view(np.float32)
    ...     warp.st_global(here, factor * values)
    >>> x = np.arange(64, dtype=np.float32)
    >>> result = tcemu.launch(scale, grid=1, block=64, args=(x, 0.5))
    >>> x[:4], result.reports
    (array([0. , 0.5, 1. , 1.5], dtype=float32), [])
    """
    begin = _BEGIN.get()
    watch = Sanitizer(sanitizer if begin is None else "off")
    if not isinstance(observers, list | tuple):
        raise LaunchError(f"observers is a tuple of functions that take an event; got {briefly(observers)}")
    _check_arguments(kernel, args)
    made = [] if begin is None else begin(kernel)
    listening = [*observers, *made, *([] if watch.mode == "off" else [watch])]
    more: dict[str, Any] = {"shared": shared, "target": target, "seed": seed, "policy": policy, "observers": listening}
    try:
        result = run(kernel, grid, block, args, **more)
    except LaunchError as error:
        if error.launch is None or watch.mode == "raise" or not watch.errors:
            raise
        result = error.launch
        result.error = error
    result.reports = watch.reports
    return result


@contextmanager
def observing(begin: Begin) -> Iterator[None]:
    """Observe all launches inside a with statement, also those that other functions make.

    At the beginning of each launch, `begin` is called with the kernel and returns the launch's observers. The launches
    have no sanitizer of their own; `begin` may return one.

    >>> from tcemu.gemm import mma_pipeline
    >>> from tcemu.launcher import observing
    >>> from tcemu.timing import Timeline
    >>> timeline = Timeline()
    >>> A = np.ones((64, 64), np.float16)
    >>> with observing(lambda kernel: [timeline]):
    ...     D, result = mma_pipeline.multiply(A, A)
    >>> timeline.cycles > 0
    True
    """
    token = _BEGIN.set(begin)
    try:
        yield
    finally:
        _BEGIN.reset(token)


def _check_arguments(kernel: object, args: object) -> None:
    """Raise LaunchError unless the kernel takes a warp and this number of arguments."""
    if not callable(kernel) or not isinstance(args, list | tuple):
        return  # the machine reports what is wrong
    try:
        signature(kernel).bind(None, *args)
    except TypeError as error:
        given = counted(len(args), "argument")
        raise LaunchError(
            f"the kernel is called with the warp and then args=, which has {given}: {error}. Its parameters are "
            f"{signature(kernel)}"
        ) from None
    except ValueError:  # a callable without a known signature
        return
