"""Launches a kernel: checks the arguments, then runs the grid, block after block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import isasyncgen, iscoroutine, isgenerator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import ClusterMisfit, Interrupted, LaunchError, TcemuError, briefly, counted, is_whole, listing, shown
from tcemu.instructions.targets import target_named
from tcemu.machine.allocation import Shared
from tcemu.machine.arguments import buffer_name, check_kernel, check_tuple
from tcemu.machine.block import Index3, Shape
from tcemu.machine.core import RUNNING, Core
from tcemu.machine.events import Observer
from tcemu.machine.global_memory import GlobalMemory, is_buffer
from tcemu.machine.grid import Grid
from tcemu.machine.methods.calls import wrong_call
from tcemu.machine.pending import POLICIES, Policy, check_policy
from tcemu.machine.sites import launched
from tcemu.machine.strategy import InOrder
from tcemu.machine.warp import Warp
from tcemu.progress import PATIENCE, Progress

Array = npt.NDArray[Any]
Kernel = Callable[..., object]

#: Limits on all targets (PTX ISA 9.1, 11; CUDA programming guide, compute capabilities).
MAX_THREADS = 1024
_MAX_GRID = (2**31 - 1, 65535, 65535)
#: Registers of a multiprocessor, and the most that one thread can have.
_REGISTERS, _MOST = 65536, 255
#: Bytes of shared memory that a block may have, by chip.
_SHARED = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 120: 99, 121: 99}
_SHARED_NEWER = 227
#: The oldest chip with clusters; the most blocks of a cluster on all of them, and on those that allow more.
_CLUSTERS, _PORTABLE, _NOT_PORTABLE = 90, 8, {90: 16, 100: 16, 103: 16}
#: Blocks in flight, if a launch does not say how many: one for each multiprocessor of an H100 or H200.
RESIDENT = 132


@dataclass
class Launch:
    """The result of a launch.

    >>> result = tcemu.launch(lambda warp: warp.bar_sync(), grid=2, block=64)
    >>> result.blocks, result.counts["bar.sync"]  # two blocks of two warps
    (2, 4)
    """

    kernel: str
    grid: Index3
    block: Index3
    target: str
    seed: int
    policy: str
    #: Instructions that warps executed, by opcode; if several policies were tried, under the last one.
    counts: Counter[str] = field(default_factory=Counter)
    #: The numbers of the arguments that the kernel has changed.
    changed: tuple[int, ...] = ()
    #: Blocks that ended; if several policies were tried, under the last one.
    blocks: int = 0
    #: The reports of observers that report, such as the sanitizer.
    reports: list[Any] = field(default_factory=list)
    #: The error that ended the launch early, if reports came before it.
    error: TcemuError | None = None
    #: The arrays whose content depended on the policy or seed, if several were tried.
    parted: list[Parting] = field(default_factory=list)
    #: Of several seeds, the first under which something was reported or the launch ended early.
    failing: int | None = None

    def __repr__(self) -> str:
        size = f"{counted(self.blocks, 'block')} of {self.block}, {counted(self.counts.total(), 'instruction')}"
        size += f", policy {self.policy}"
        results = f", {counted(len(self.reports), 'report')}" if self.reports else ""
        if self.parted:
            causes = listing(dict.fromkeys(f"the {each.cause}" for each in self.parted), "and")
            results += f", {counted(len(self.parted), 'array')} depend{'s' * (len(self.parted) == 1)} on {causes}"
        return f"<launch of {self.kernel} on {self.target}: {size}{results}{', ended early' if self.error else ''}>"


@dataclass(frozen=True)
class Parting:
    """An array whose content depends on when asynchronous effects appear: the kernel is wrong.

    >>> def hasty(warp, source, out):
    ...     warp.cp_async(4 * warp.laneid, source.at(warp.laneid), 4)
    ...     warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * warp.laneid))  # no thread has waited for the copies
    >>> source, out = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    >>> more = {"shared": 128, "policy": ("late", "early"), "sanitizer": "off"}
    >>> (parted,) = tcemu.launch(hasty, args=(source, out), **more).parted
    >>> parted.argument, parted.index, parted.policies, parted.values
    (1, (1,), ('late', 'early'), (np.uint32(0), np.uint32(1)))
    """

    argument: int
    index: tuple[int, ...]
    policies: tuple[str, str]
    values: tuple[Any, Any]
    #: what the result depends on: "policy", "seed" or "schedule"; `policies` are then two of those
    cause: str = "policy"
    #: what the array is called, if not by its number
    name: str = ""

    def __str__(self) -> str:
        one, other = (f"{value!r} under {policy}" for value, policy in zip(self.values, self.policies, strict=True))
        where, name = ", ".join(map(str, self.index)), self.name or f"argument {self.argument}"
        return f"{name} at [{where}] is {one}, {other}: the result depends on the {self.cause}"


def shape_of(
    grid: int | Sequence[int],
    block: int | Sequence[int],
    shared: int | Shared,
    target: str,
    seed: int,
    policy: Policy,
    cluster: int | Sequence[int] | None = None,
    non_portable_cluster: bool = False,
) -> Shape:
    """The checked shape of a launch. Raises LaunchError if no GPU would launch it."""
    if not isinstance(target, str):
        raise LaunchError(f"a target must be a string, e.g. 'sm_90a'; got {shown(target)}")
    names, shared = (shared, shared.nbytes) if isinstance(shared, Shared) else (None, shared)
    parsed = target_named(target)
    target, chip = str(parsed), parsed.number
    most = 1024 * _SHARED.get(chip, _SHARED_NEWER)
    blocks = _three("grid", grid, _MAX_GRID)
    threads = _three("block", block, (1024, 1024, 64))
    count = int(np.prod(threads))
    if count > MAX_THREADS:
        raise LaunchError(f"a block has at most {MAX_THREADS} threads; {threads} has {count}")
    if not is_whole(shared) or not 0 <= shared <= most:
        raise LaunchError(
            f"shared= must be a number of bytes, on {target} at most {most} for a block; got {briefly(shared)}"
        )
    if not is_whole(seed) or seed < 0:
        raise LaunchError(f"a seed must be an integer of at least 0; got {briefly(seed)}")
    registers = min(_REGISTERS // count // 8 * 8, _MOST)
    clusters = None if cluster is None else _cluster(cluster, blocks, target, chip, non_portable_cluster)
    return Shape(blocks, threads, int(shared), target, policy, int(seed), registers, clusters, names)


def _cluster(cluster: int | Sequence[int], grid: Index3, target: str, chip: int, more: object) -> Index3:
    """The blocks of a cluster, which divide those of the grid; `more` admits sizes that not every GPU has."""
    if chip < _CLUSTERS:
        raise ClusterMisfit(f"clusters exist from sm_{_CLUSTERS} on; the target is {target}")
    if not isinstance(more, bool):
        raise LaunchError(f"non_portable_cluster must be True or False; got {briefly(more)}")
    most = _NOT_PORTABLE.get(chip, _PORTABLE)
    size = _three("cluster", cluster, (most, most, most), ClusterMisfit)
    count = int(np.prod(size))
    if count > most:
        raise ClusterMisfit(f"a cluster has at most {most} blocks on {target}; {size} has {count}")
    if count > _PORTABLE and not more:
        raise ClusterMisfit(
            f"a cluster of more than {_PORTABLE} blocks is not portable; {size} has {count}. On {target}, up to "
            f"{most} are possible with non_portable_cluster=True, which stands for the attribute of the kernel that "
            "the host sets: cudaFuncAttributeNonPortableClusterSizeAllowed"
        )
    if any(whole % part for whole, part in zip(grid, size, strict=True)):
        raise ClusterMisfit(f"each dimension of the grid must be a multiple of the cluster's; got {grid} and {size}")
    return size


def launch(
    kernel: Kernel,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    args: Sequence[Any] = (),
    *,
    shared: int | Shared = 0,
    target: str = "sm_90a",
    seed: int = 0,
    policy: Policy | Sequence[Policy] = "late",
    resident: int = RESIDENT,
    cluster: int | Sequence[int] | None = None,
    non_portable_cluster: bool = False,
    operations: int | None = None,
    observers: Sequence[Observer] = (),
    strategy: InOrder | None = None,
) -> Launch:
    """Run `kernel(warp, *args)` once for each warp of each block, as tcemu.launch does, without a sanitizer.

    A `strategy` decides in place of the seed and the policy; it serves one run only. A TcemuError that ends the
    launch carries the result so far, in `launch`; the arrays are then unchanged.
    """
    check_kernel(kernel)
    policies = policies_of(policy)
    shape = shape_of(grid, block, shared, target, seed, policies[0], cluster, non_portable_cluster)
    check_resident(resident, shape)
    check_operations(operations)
    check_tuple(args)
    buffers = [(buffer_name(kernel, n), argument) for n, argument in enumerate(args) if is_buffer(argument)]
    result = Launch(name_of(kernel), shape.grid, shape.block, shape.target, shape.seed, ", ".join(policies))
    listening, outcomes = check_observers(observers), []
    try:
        for each in policies:
            memory = GlobalMemory(buffers)
            pointers = iter(memory.pointers)
            passed = [next(pointers) if is_buffer(argument) else argument for argument in args]
            running = Grid(replace(shape, policy=each), memory, listening, resident, strategy, operations)
            _run(kernel, passed, running, result)
            outcomes.append(memory)
        changed = outcomes[0].changed()
        outcomes[0].copy_back()
    except (TcemuError, Interrupted) as error:
        error.launch = result
        raise
    places = [number for number, argument in enumerate(args) if is_buffer(argument)]
    result.changed = tuple(place for place, changed in zip(places, changed, strict=True) if changed)
    contents = [memory.contents() for memory in outcomes] if outcomes[1:] else []
    result.parted = partings(places, policies, contents, kernel=kernel) if contents else []
    return result


def policies_of(policy: object) -> list[Policy]:
    """One policy or several, as a list. Raises LaunchError for what is none."""
    policies = [check_policy(each) for each in (policy if isinstance(policy, list | tuple) else [policy])]
    if not policies:
        raise LaunchError(f"policy must be one or more of {', '.join(POLICIES)}; got none")
    return policies


def check_resident(resident: object, shape: Shape) -> None:
    """Raise LaunchError unless it is a number of blocks in flight."""
    if not is_whole(resident) or resident < shape.ranks:
        least = f"{shape.ranks}" if shape.ranks == 1 else f"{shape.ranks}, the blocks of a cluster"
        raise LaunchError(f"resident must be the number of blocks in flight, at least {least}; got {briefly(resident)}")


def check_operations(operations: object) -> None:
    """Raise LaunchError unless it is a limit on the operations of a warp, or None."""
    if operations is not None and (not is_whole(operations) or operations < 1):
        raise LaunchError(f"operations= must be the most operations of a warp, at least 1; got {briefly(operations)}")


def check_observers(observers: object) -> tuple[Observer, ...]:
    """The observers of a launch. Raises LaunchError for anything else."""
    if not isinstance(observers, list | tuple) or not all(callable(each) for each in observers):
        raise LaunchError(f"observers must be a tuple of functions that take an event; got {briefly(observers)}")
    return tuple(observers)


def name_of(kernel: Kernel) -> str:
    """What a kernel is called in results and reports."""
    return getattr(kernel, "__qualname__", type(kernel).__name__)


def _run(kernel: Kernel, args: Sequence[Any], grid: Grid, result: Launch) -> None:
    """Run all blocks under one policy; after a while, a bar shows how many have ended."""
    try:
        with (
            launched(kernel),
            Progress(result.kernel, prod(result.grid), "blocks", patience=PATIENCE) as bar,
        ):
            grid.bar = bar
            grid.run(body_of(kernel, args))
    finally:
        result.counts, result.blocks = Counter(grid.counts), grid.done


def body_of(kernel: Kernel, args: Sequence[Any]) -> Callable[[Core], Callable[[], None]]:
    """What each warp of a launch runs, from its core."""
    return lambda core: _body(kernel, core, args)


def _body(kernel: Kernel, core: Core, args: Sequence[Any]) -> Callable[[], None]:
    def body() -> None:
        RUNNING.set(core)  # in this warp's own context: it is a greenlet
        try:
            came = kernel(Warp(core), *args)
        except TypeError as error:
            wrong = wrong_call(Warp, error)
            if wrong is None:
                raise
            raise wrong.with_traceback(error.__traceback__) from None
        if isgenerator(came) or iscoroutine(came) or isasyncgen(came):
            if iscoroutine(came):
                came.close()  # prevents Python's warning that it was never awaited
            raise LaunchError(f"{name_of(kernel)} has a yield or is async, so it did not run; write a plain function")
        core.bits = core.present
        if core.present:
            core.exit()

    return body


def partings(
    pointers: Sequence[int],
    policies: Sequence[str],
    contents: Sequence[Sequence[Array]],
    cause: str = "policy",
    kernel: object = None,
) -> list[Parting]:
    """For each array that differs between the first policy and another, the first place of a difference.

    A kernel of a front end may have an attribute `scratch`: arrays that nobody reads behind the launch.
    """
    partings, scratch = list[Parting](), getattr(kernel, "scratch", ())
    for pointer, *versions in zip(pointers, *contents, strict=True):
        if pointer in scratch:
            continue
        for policy, other in zip(policies[1:], versions[1:], strict=True):
            differ = _bits(versions[0]) != _bits(other)
            if differ.any():
                index = tuple(int(i) for i in np.argwhere(differ.reshape(*other.shape, -1).any(axis=-1))[0])
                values = versions[0][index], other[index]
                partings.append(
                    Parting(pointer, index, (policies[0], policy), values, cause, buffer_name(kernel, pointer))
                )
                break
    return partings


def _bits(array: Array) -> npt.NDArray[np.uint8]:
    """Bytes (..., itemsize), so that NaNs can be compared."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)


def _three(
    what: str, size: int | Sequence[int], most: Sequence[int], misfit: type[LaunchError] = LaunchError
) -> Index3:
    several = tuple(size) if isinstance(size, list | tuple) else ()
    numbers = (size,) if isinstance(size, int | np.integer) else several
    fits = 1 <= len(numbers) <= 3 and all(
        is_whole(number) and 1 <= number <= limit for number, limit in zip(numbers, most, strict=False)
    )
    if not fits:
        hint = ": // divides without a remainder" if any(isinstance(each, float) for each in numbers or (size,)) else ""
        raise misfit(f"{what} must be one to three numbers from 1 to {tuple(most)}; got {briefly(size)}{hint}")
    x, y, z = (*(int(number) for number in numbers), 1, 1)[:3]
    return x, y, z
