"""Asynchronous copies: cp.async, and the groups of all copies (PTX ISA 9.1, 9.7.9.25); bulk_copy.py has the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, briefly, is_whole
from tcemu.instructions import Instruction
from tcemu.instructions.facts import Space
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import (
    By,
    CopiesArrive,
    CopiesCommitted,
    CopiesWaited,
    Copy,
    CopyIssued,
    CopyLanded,
    GroupKind,
)
from tcemu.machine.masks import LANES
from tcemu.machine.mbarrier_operations import mbarriers_of
from tcemu.machine.mbarriers import Mbarriers
from tcemu.machine.pending import Groups, Task, youngest_of

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: What a copy reads or writes: the space, the addresses (n,) and the number of bytes at each.
Region = tuple[Space, Array, int]
_BYTE = np.dtype(np.uint8)

# ---------------------------------------------------------------------------------------------------- cp.async


@executes("cp.async")
def cp_async(instruction: Instruction) -> Act:
    """cp.async (9.7.9.25.3): each lane copies `size` bytes (4, 8, 16) from global to shared memory.

    It reads only `src_size` bytes of the source (an integer, or one for each lane) and fills the rest with zeros. More
    than `size` is undefined: it copies `size` bytes here.
    """
    cache = instruction.words["cache"]
    sizes = (4, 8, 16) if cache == "ca" else (16,)

    def act(
        core: Core,
        destination: npt.ArrayLike,
        source: npt.ArrayLike,
        size: int,
        src_size: npt.ArrayLike | None = None,
    ) -> None:
        if not is_whole(size) or size not in sizes:
            raise OperandError(
                f"cp.async copies 4, 8 or 16 bytes, and with .cg only 16; got .{cache}, {briefly(size)} (PTX ISA "
                f"{instruction.section})"
            )
        by = core.begin(instruction)
        if by is None:
            return
        to = core.own(core.integers(instruction, "destination", destination))
        start = core.own(core.integers(instruction, "source", source))
        taken = None
        if src_size is not None:  # an unsigned register
            taken = core.own(core.integers(instruction, "src-size", src_size)) & 0xFFFFFFFF
        place = _find(core, by, instruction, "shared", to, size)
        reads, read = _source(core, by, instruction, start, size, taken)
        groups = core.copies["cp.async"]
        lanes, whole, shared = core.own(LANES), size * len(to), core.block.shared
        writes: Region = ("shared", to, size)
        copy = Copy("cp.async", instruction, by, reads, writes, whole, groups.next, lanes=lanes, src_size=taken)
        begin(core, copy, lambda: shared.write(place, read()), groups)

    return act


def _source(
    core: Core, by: By, instruction: Instruction, start: Array, size: int, sizes: Array | None
) -> tuple[Region, Callable[[], Array]]:
    """What a cp.async reads from `start` (n,) on, of which `sizes` (n,) bytes count, and a function that reads it."""
    if sizes is None or bool((sizes >= size).all()):
        units = _find(core, by, instruction, "global", start, size)
        return ("global", start, size), partial(core.block.grid.memory.read, units, size, _BYTE)
    taken = np.minimum(sizes, size)
    _check_source(core, by, instruction, start, taken, size)
    return ("global", *_pieces(start, taken)), partial(_padded, core, start, taken, size)


def _find(core: Core, by: By, instruction: Instruction, space: Space, addresses: Array, size: int) -> Array:
    """The units of `size` bytes that a copy accesses, once they have been checked."""
    try:
        return core.memory(space).find(instruction, addresses, size)[0]
    except AddressError as error:
        core.fault(by, instruction, space, error)


def _check_source(core: Core, by: By, instruction: Instruction, start: Array, taken: Array, size: int) -> None:
    """Check that the source is aligned to `size` and that the bytes to be read exist."""
    reading = taken > 0
    check(core, by, instruction, "global", start[reading], 1, size)
    check(core, by, instruction, "global", (start + taken - 1)[reading], 1, 1)


def _padded(core: Core, start: Array, taken: Array, size: int) -> Array:
    """The bytes that are read, then zeros up to `size`."""
    data = np.zeros((len(start), size), np.uint8)
    places = start[:, None] + np.arange(size, dtype=np.int64)
    wanted = np.arange(size, dtype=np.int64) < taken[:, None]
    data[wanted] = core.block.grid.memory.bytes[places[wanted]]
    return data


def _pieces(starts: Array, counts: Array) -> tuple[Array, int]:
    """Pieces of equal size that cover `counts` (n,) bytes from `starts` (n,): their addresses and their size."""
    size = int(counts[0])
    if size and (counts == size).all():
        return starts, size
    size = int(np.gcd.reduce(counts)) or 1
    ends = starts + counts
    pieces = [np.arange(start, end, size, dtype=np.int64) for start, end in zip(starts, ends, strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *pieces]), size


@executes("cp.async.commit_group", "cp.async.bulk.commit_group")
def commit_group(instruction: Instruction) -> Act:
    """commit_group: this warp's copies that are not in a group yet become a group."""
    kind = _kind(instruction)

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(CopiesCommitted, by, kind, core.copies[kind].commit())

    return act


@executes("cp.async.wait_group", "cp.async.bulk.wait_group")
def wait_group(instruction: Instruction) -> Act:
    """wait_group N: wait until at most the N latest groups of this warp are pending; .read: until they are read."""
    kind, read = _kind(instruction), "read" in instruction.words

    def act(core: Core, pending: int) -> None:
        youngest = youngest_of(instruction, pending)
        by = core.begin(instruction)
        if by is not None:
            below = core.copies[kind].wait(core.block.pending, youngest)
            core.tell(CopiesWaited, by, kind, below, read)

    return act


@executes("cp.async.wait_all")
def wait_all(instruction: Instruction) -> Act:
    """cp.async.wait_all: wait for every cp.async of this warp, committed or not."""

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            groups = core.copies["cp.async"]
            core.tell(CopiesCommitted, by, "cp.async", groups.commit())
            core.tell(CopiesWaited, by, "cp.async", groups.wait(core.block.pending, 0), False)

    return act


def _kind(instruction: Instruction) -> GroupKind:
    return "bulk" if ".bulk" in instruction.family else "cp.async"


@executes("cp.async.mbarrier.arrive")
def mbarrier_arrive(instruction: Instruction) -> Act:
    """cp.async.mbarrier.arrive: each active lane arrives at the mbarrier once its cp.async so far have ended.

    Without .noinc the phase expects that many more arrivals, so the count of mbarrier.init need not include them.
    """
    noinc = "noinc" in instruction.words

    def act(core: Core, address: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        before = core.copies["cp.async"].under_way
        for mbarriers, place, mask in mbarriers_of(core, by, instruction, address):
            count = mask.bit_count()
            phase = mbarriers.expect_more(core, by, instruction, place, 0 if noinc else count)
            core.tell(CopiesArrive, by, place, phase)

            def arrive(mbarriers: Mbarriers = mbarriers, place: int = place, count: int = count) -> None:
                core.block.pending.finish(before)
                mbarriers.arrive(core, by, instruction, place, count)

            core.block.pending.add(Task((core.index, "arrive", len(before)), arrive))

    return act


# ---------------------------------------------------------------------------------------------------- all copies


def begin(core: Core, copy: Copy, move: Callable[[], None], groups: Groups) -> None:
    """Start a copy that completes with its group."""

    def land() -> None:
        move()
        core.tell(CopyLanded, copy)

    core.tell(CopyIssued, copy)
    task = Task(copy, land)
    groups.open.append(task)
    core.block.pending.add(task)


def check(core: Core, by: By, instruction: Instruction, space: Space, addresses: Array, size: int, align: int) -> None:
    """Check what a copy accesses. Ends the launch if an address is outside the memory or misaligned."""
    try:
        core.memory(space).check(instruction, addresses, size, align)
    except AddressError as error:
        core.fault(by, instruction, space, error)
