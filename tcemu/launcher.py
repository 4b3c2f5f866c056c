"""tcemu.launch: a kernel on the machine, with the sanitizer listening."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from tcemu.errors import Interrupted, LaunchError, TcemuError, briefly, counted
from tcemu.machine.allocation import Shared
from tcemu.machine.arguments import buffer_name, called_as_documented, check_arguments
from tcemu.machine.events import Observer
from tcemu.machine.launch import RESIDENT, Kernel, Launch, check_observers
from tcemu.machine.launch import launch as run
from tcemu.machine.pending import Policy
from tcemu.machine.schedule import Schedule
from tcemu.sanitizer.sanitizer import Mode, Sanitizer
from tcemu.schedules.sweep import sweep

__all__ = ["launch", "observing", "replacing"]

#: Makes the observers of a launch, from its kernel.
Begin = Callable[[Kernel], Sequence[Observer]]
_BEGIN: ContextVar[Begin | None] = ContextVar("begin", default=None)
_INSTEAD: ContextVar[Callable[..., Launch] | None] = ContextVar("instead", default=None)
#: By the identity of an array that still exists: the array, the kernel of the launch that wrote it last, and whether
#: that let another grid begin.
_WRITTEN: dict[int, tuple[weakref.ref[Any], str, bool]] = {}


@called_as_documented
def launch(
    kernel: Kernel,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    args: Sequence[Any] = (),
    *,
    shared: int | Shared = 0,
    target: str = "sm_90a",
    seed: int = 0,
    seeds: int | Iterable[int] | None = None,
    policy: Policy | Sequence[Policy] = "late",
    schedule: str | None = None,
    resident: int = RESIDENT,
    cluster: int | Sequence[int] | None = None,
    non_portable_cluster: bool = False,
    operations: int | None = None,
    sanitizer: Mode = "raise",
    observers: Sequence[Observer] = (),
) -> Launch:
    """Run `kernel(warp, *args)` once for each warp of a grid, and report what the PTX manual leaves undefined.

    `grid` is the number of blocks and `block` the number of threads in each, as one number or up to three (x, y, z);
    `shared` is the number of bytes of shared memory for each block, or its named arrays
    (tcemu.machine.allocation.Shared), which reports then name. Numpy arrays in `args` live in global memory: the kernel
    gets a pointer to each, and after the launch they hold what it wrote. All other arguments are passed as is.

    Warps take turns where they wait; a `seed` other than 0 lets them take turns anywhere, in an order that the seed
    fixes. `policy` says when asynchronous effects appear: "late" (at the wait, or when nothing else can run), "early"
    (at once) or "random". With several policies, the kernel runs once under each, on the same input; the arrays get the
    results of the first, and the result's `parted` says where the others differ.

    `seeds` is a number of seeds, which are tried from 0 on, or the seeds themselves: the kernel runs once under each,
    as it does with several policies, and an error names its seed. `schedule` repeats an order that
    tcemu.search_schedules has found; it replaces seed and policy.

    At most `resident` blocks are in flight at a time, and each sees what the others write to global memory. With seed
    0, the next block starts when one has ended, or when those in flight do nothing but poll memory. With `cluster`, the
    number of blocks in one, again up to (x, y, z), the blocks of a cluster start together. A cluster has at most 8
    blocks; with `non_portable_cluster`, up to 16 on the GPUs that allow it.

    `sanitizer` is "raise" (UndefinedBehaviour at the first broken rule), "warn", "collect" (the result's `reports`
    lists all broken rules) or "off". Each of `observers` is called with every event (tcemu.machine.events).

    Raises LaunchError: UndefinedBehaviour, MemoryFault, Deadlock, Unending, or what no GPU would launch. If the
    sanitizer has warned of the cause or collected it, the result has the error as `error` instead, and the arrays do
    not change; in mode "collect", this holds for any TcemuError that follows a report. An error that is raised has the
    reports: a TcemuError as `launch.reports`, and any other that follows a report in a note.

    A kernel that loops forever and never waits runs until you interrupt it (Ctrl+C, or Kernel > Interrupt in
    Jupyter): the launch then raises a KeyboardInterrupt that says where each warp was, and the arrays do not change.
    With `operations`, it raises Unending instead, which says the same, soon after a warp has executed that many
    operations.

    >>> def scale(warp, x, factor):
    ...     here = x.at(warp.threads)  # an address for each lane, in bytes
    ...     values = warp.ld_global(here).view(np.float32)
    ...     warp.st_global(here, factor * values)
    >>> x = np.arange(64, dtype=np.float32)
    >>> result = tcemu.launch(scale, grid=1, block=64, args=(x, 0.5))
    >>> x[:4], result.reports
    (array([0. , 0.5, 1. , 1.5], dtype=float32), [])
    >>> def last_wins(warp, out):
    ...     warp.st_global(out.at(warp.laneid), warp.warpid, order="relaxed")
    >>> out = np.zeros(32, np.uint32)
    >>> (parted,) = tcemu.launch(last_wins, block=64, args=(out,), seeds=10).parted
    >>> parted.cause, parted.values, out[0]
    ('seed', (np.uint32(1), np.uint32(0)), np.uint32(1))
    >>> tcemu.launch(last_wins, block=64, args=(out,), schedule="late backwards").parted, out[0]
    ([], np.uint32(0))
    """
    begin, instead = _BEGIN.get(), _INSTEAD.get()
    if instead is not None:
        options: dict[str, Any] = {"shared": shared, "target": target, "seed": seed, "seeds": seeds, "policy": policy}
        options |= {"schedule": schedule, "resident": resident, "cluster": cluster}
        options |= {"non_portable_cluster": non_portable_cluster, "operations": operations}
        options |= {"sanitizer": sanitizer, "observers": observers}
        return instead(kernel, grid, block, args, **options)
    watch = Sanitizer(sanitizer if begin is None else "off", _outputs(kernel, args))
    observers = check_observers(observers)
    check_arguments(kernel, args, grid, block)
    made = [] if begin is None else begin(kernel)
    listening = [*observers, *made, *([] if watch.mode == "off" else [watch])]
    more: dict[str, Any] = {"shared": shared, "target": target, "resident": resident, "cluster": cluster}
    more |= {"non_portable_cluster": non_portable_cluster, "operations": operations, "observers": listening}
    more |= _order(seed, seeds, policy, schedule)
    try:
        if seeds is None:
            result = run(kernel, grid, block, args, **more)
        else:
            result = sweep(kernel, grid, block, args, **more, failed=lambda: bool(watch.errors))
    except Interrupted as error:
        error.launch.reports = watch.reports
        raise
    except Exception as error:
        ended = _ended(error, watch)
        if ended is None:
            raise
        result = ended
    result.reports = watch.reports
    _remember(result, args)
    return result


def replaced() -> bool:
    """Whether something else takes the place of tcemu.launch now."""
    return _INSTEAD.get() is not None or _BEGIN.get() is not None


def _remember(result: Launch, args: Sequence[Any]) -> None:
    """Which arrays this launch has written, for later ones."""
    lets = bool(result.counts["griddepcontrol.launch_dependents"])
    for number in result.changed:
        key = id(args[number])
        _WRITTEN[key] = weakref.ref(args[number], partial(_forget, key)), result.kernel, lets


def _forget(key: int, _: object) -> None:
    _WRITTEN.pop(key, None)


def _outputs(kernel: object, args: object) -> dict[str, str]:
    """The arguments that an earlier launch has written, by name: the kernel that did so last.

    They matter only for kernels that are written to overlap.
    """
    code, writers = getattr(kernel, "__code__", None), {}
    waits = code is not None and any("griddepcontrol" in str(each) for each in (*code.co_names, *code.co_consts))
    for number, argument in enumerate(args if isinstance(args, list | tuple) else ()):
        written, writer, lets = _WRITTEN.get(id(argument), (None, "", False))
        if written is not None and written() is argument and (lets or waits):
            writers[buffer_name(kernel, number)] = writer
    return writers


def _ended(error: Exception, watch: Sanitizer) -> Launch | None:
    """The result of a launch that an error ended, if reports stand for the error; else None, and the error has them."""
    result: Launch | None = getattr(error, "launch", None)
    if result is None and isinstance(error, TcemuError):
        return None  # it never began
    if result is not None:
        result.reports = watch.reports
    if watch.mode == "raise" or not watch.errors:
        return None
    if result is not None and (watch.mode == "collect" or isinstance(error, LaunchError)):
        result.error = error  # type: ignore[assignment] # only a TcemuError has a result
        return result
    count, first = len(watch.errors), watch.errors[0]
    error.add_note(f"Before this, the sanitizer reported {counted(count, 'broken rule')}; the first: {first}")
    return None


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


@contextmanager
def replacing(instead: Callable[..., Launch] | None) -> Iterator[None]:
    """Call `instead` in place of tcemu.launch inside a with statement, with the same arguments; None: tcemu.launch.

    >>> from tcemu.launcher import replacing
    >>> asked = []
    >>> with replacing(lambda kernel, grid, block, args, **options: asked.append((grid, options["shared"]))):
    ...     tcemu.launch(lambda warp: warp.bar_sync(), 2, shared=1024)
    >>> asked
    [(2, 1024)]
    """
    token = _INSTEAD.set(instead)
    try:
        yield
    finally:
        _INSTEAD.reset(token)


def _order(seed: int, seeds: object, policy: object, schedule: object) -> dict[str, Any]:
    """The strategy that decides the order. Raises LaunchError if several arguments would decide it."""
    if schedule is not None:
        if seed or seeds is not None or policy != "late":
            raise LaunchError("a schedule fixes the whole order: leave out seed, seeds and policy")
        read = Schedule.parse(schedule)
        return {"policy": read.policy, "strategy": read.strategy()}
    if seeds is None:
        return {"seed": seed, "policy": policy}
    if seed:
        raise LaunchError(f"seeds lists every seed: leave out seed; got seed={briefly(seed)} and {briefly(seeds)}")
    return {"seeds": seeds, "policy": policy}
