"""Asynchronous copies: cp.async, bulk copies and tensor copies (PTX ISA 9.1, 9.7.9.25 to 9.7.9.27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, briefly
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import (
    By,
    CopiesArrive,
    CopiesCommitted,
    CopiesWaited,
    Copy,
    CopyIssued,
    CopyKind,
    CopyLanded,
    Space,
)
from tcemu.machine.masks import LANES
from tcemu.machine.mbarriers import places_of
from tcemu.machine.memory import Bytes
from tcemu.machine.pending import Groups, Task
from tcemu.machine.reductions import step_of
from tcemu.machine.tensor_map import Places, TensorMap

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: What a copy reads or writes: the space, the addresses (n,) and the number of bytes at each.
Side = tuple[Space, Array, int]

#: The unit of bulk copies: sizes and addresses are multiples of it.
UNIT = 16

# ---------------------------------------------------------------------------------------------------- cp.async


@executes("cp.async")
def cp_async(instruction: Instruction) -> Act:
    """cp.async (9.7.9.25.3): each lane copies `size` bytes (4, 8, 16) from global to shared memory.

    It reads only `src_size` bytes of the source (an integer, or one for each lane) and fills the rest with zeros.
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
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size not in sizes:
            raise OperandError(
                f"cp.async copies 4, 8 or 16 bytes, and with .cg only 16; got .{cache}, {briefly(size)} (PTX ISA "
                f"{instruction.section})"
            )
        by = core.begin(instruction)
        if by is None:
            return
        active = core.active
        to = core.integers(instruction, "destination", destination)[active]
        start = core.integers(instruction, "source", source)[active]
        taken = np.full(len(to), size)
        if src_size is not None:
            taken = core.integers(instruction, "src-size", src_size)[active]
            if (taken < 0).any() or (taken > size).any():
                raise OperandError(
                    f"{instruction}: src-size must be 0 to {size}; got {taken.min()} to {taken.max()} (PTX ISA "
                    f"{instruction.section})"
                )
        _check(core, by, instruction, "shared", to, size, size)
        _check_source(core, by, instruction, start, taken, size)
        groups = core.copies["cp.async"]
        reads: Side = ("global", *_pieces(start, taken))
        copy = Copy(
            "cp.async", instruction, by, reads, ("shared", to, size), size * len(to), groups.next, lanes=LANES[active]
        )
        _begin(core, copy, lambda: _move_lanes(core, to, start, taken, size), groups)

    return act


def _check_source(core: Core, by: By, instruction: Instruction, start: Array, taken: Array, size: int) -> None:
    """Check that the source is aligned to `size` and that the bytes to be read exist."""
    if (taken == size).all():
        _check(core, by, instruction, "global", start, size, size)
        return
    reading = taken > 0
    _check(core, by, instruction, "global", start[reading], 1, size)
    _check(core, by, instruction, "global", (start + taken - 1)[reading], 1, 1)


def _move_lanes(core: Core, to: Array, start: Array, taken: Array, size: int) -> None:
    memory = core.block.grid.memory
    if (taken == size).all():
        data = memory.read(start, size)
    else:
        data = np.zeros((len(to), size), np.uint8)
        places = start[:, None] + np.arange(size)
        wanted = np.arange(size) < taken[:, None]
        data[wanted] = memory.bytes[places[wanted]]
    core.block.shared.write(to, data)


def _pieces(starts: Array, counts: Array) -> tuple[Array, int]:
    """Pieces of equal size that cover `counts` (n,) bytes from `starts` (n,): their addresses and their size."""
    size = int(counts[0])
    if size and (counts == size).all():
        return starts, size
    size = int(np.gcd.reduce(counts)) or 1
    pieces = [np.arange(start, start + count, size) for start, count in zip(starts, counts, strict=True)]
    return np.concatenate([np.zeros(0, np.int64), *pieces]), size


@executes("cp.async.commit_group", "cp.async.bulk.commit_group")
def commit_group(instruction: Instruction) -> Act:
    """commit_group: this warp's copies so far that are in no group become a group."""
    kind = _kind(instruction)

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(CopiesCommitted, by, kind, core.copies[kind].commit())

    return act


@executes("cp.async.wait_group", "cp.async.bulk.wait_group")
def wait_group(instruction: Instruction) -> Act:
    """wait_group N: wait until at most the N youngest groups of this warp are under way; .read: until they are read."""
    kind, read = _kind(instruction), "read" in instruction.words

    def act(core: Core, pending: int) -> None:
        youngest = immediate(instruction, pending)
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


def _kind(instruction: Instruction) -> CopyKind:
    return "bulk" if ".bulk" in instruction.family else "cp.async"


def immediate(instruction: Instruction, given: Any) -> int:
    """N of a wait_group, an integer of at least 0. Raises OperandError."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
        raise OperandError(
            f"{instruction}: N is an immediate, an integer of at least 0; got {briefly(given)} (PTX ISA "
            f"{instruction.section})"
        )
    return int(given)


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
        mbarriers, before = core.block.mbarriers, core.copies["cp.async"].under_way
        for place, mask in places_of(core, by, instruction, address):
            count = mask.bit_count()
            phase = mbarriers.expect_more(core, by, instruction, place, 0 if noinc else count)
            core.tell(CopiesArrive, by, place, phase)

            def arrive(place: int = place, count: int = count) -> None:
                core.block.pending.finish(before)
                mbarriers.arrive(core, by, instruction, place, count)

            core.block.pending.add(Task((core.index, "arrive", len(before)), arrive))

    return act


# ---------------------------------------------------------------------------------------------------- bulk copies


@executes("cp.async.bulk.load")
def bulk_load(instruction: Instruction) -> Act:
    """cp.async.bulk into shared memory (9.7.9.25.5): each active lane copies `size` bytes, which `mbarrier` counts."""

    def act(
        core: Core, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike, mbarrier: npt.ArrayLike
    ) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        given = {"destination": destination, "source": source, "size": size, "mbarrier": mbarrier}
        for to, start, count, barrier in _each_lane(core, instruction, given):
            _check_bulk(core, by, instruction, to, start, count)
            move = _copying(core.block.grid.memory, start, core.block.shared, to, count)
            reads, writes = _units("global", start, count), _units("shared", to, count)
            _load(core, by, instruction, reads, writes, count, barrier, move)

    return act


@executes("cp.async.bulk.store", "cp.reduce.async.bulk")
def bulk_store(instruction: Instruction) -> Act:
    """cp.async.bulk out of shared memory: each active lane copies `size` bytes, in a group of bulk copies.

    cp.reduce.async.bulk (9.7.9.25.4.2) combines them with the bytes in memory, as red.global does; .f32 sums flush
    subnormals to zero, as the manual says.
    """
    reduces = instruction.family == "cp.reduce.async.bulk"
    combine = step_of(instruction, flush=True) if reduces else None

    def act(core: Core, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        given = {"destination": destination, "source": source, "size": size}
        for to, start, count in _each_lane(core, instruction, given):
            _check_bulk(core, by, instruction, start, to, count)
            move = _copying(core.block.shared, start, core.block.grid.memory, to, count, combine)
            reads, writes = _units("shared", start, count), _units("global", to, count)
            _store(core, by, instruction, reads, writes, count, move)

    return act


@executes("cp.async.bulk.tensor.load")
def tensor_load(instruction: Instruction) -> Act:
    """cp.async.bulk.tensor into shared memory, tile mode (9.7.9.27.1): each active lane copies a box.

    `mbarrier` counts the whole box, `tensor_map.bytes`.
    """

    def act(
        core: Core,
        destination: npt.ArrayLike,
        tensor_map: TensorMap,
        coordinates: Sequence[int],
        mbarrier: npt.ArrayLike,
    ) -> None:
        _check_map(instruction, tensor_map)
        by = core.begin(instruction)
        if by is None:
            return
        given = {"destination": destination, "mbarrier": mbarrier}
        for to, barrier in _each_lane(core, instruction, given):
            places, reads, writes = _box(core, by, instruction, tensor_map, coordinates, to, storing=False)
            far, near = core.block.grid.memory.bytes, core.block.shared.bytes
            load = partial(tensor_map.load_at, places, far, near)
            _load(core, by, instruction, reads, writes, tensor_map.bytes, barrier, load)

    return act


@executes("cp.async.bulk.tensor.store")
def tensor_store(instruction: Instruction) -> Act:
    """cp.async.bulk.tensor out of shared memory, tile mode: each active lane copies the box at `source`."""

    def act(core: Core, tensor_map: TensorMap, coordinates: Sequence[int], source: npt.ArrayLike) -> None:
        _check_map(instruction, tensor_map)
        by = core.begin(instruction)
        if by is None:
            return
        for (start,) in _each_lane(core, instruction, {"source": source}):
            places, writes, reads = _box(core, by, instruction, tensor_map, coordinates, start, storing=True)
            far, near = core.block.grid.memory.bytes, core.block.shared.bytes
            store = partial(tensor_map.store_at, places, far, near)
            _store(core, by, instruction, reads, writes, tensor_map.bytes, store)

    return act


@executes("cp.async.bulk.prefetch.tensor")
def prefetch_tensor(instruction: Instruction) -> Act:
    """cp.async.bulk.prefetch.tensor (9.7.9.27.1.4): a hint to the caches; this machine has none."""

    def act(core: Core, tensor_map: TensorMap, coordinates: Sequence[int]) -> None:
        _check_map(instruction, tensor_map)
        by = core.begin(instruction)
        if by is None:
            return
        try:
            tensor_map.places(coordinates)
        except AddressError as error:
            core.fault(by, instruction, "global", error)

    return act


def _each_lane(core: Core, instruction: Instruction, given: dict[str, npt.ArrayLike]) -> list[Any]:
    """The operands of each active lane, as one tuple per lane; usually only one elected lane is active."""
    columns = [core.integers(instruction, role, each)[core.active].tolist() for role, each in given.items()]
    return list(zip(*columns, strict=True))


def _load(
    core: Core,
    by: By,
    instruction: Instruction,
    reads: Side,
    writes: Side,
    count: int,
    barrier: int,
    move: Callable[[], None],
) -> None:
    """Start a copy that completes on an mbarrier."""
    mbarriers = core.block.mbarriers
    phase = mbarriers.expect_more(core, by, instruction, barrier, 0)
    copy = Copy("bulk", instruction, by, reads, writes, count, mbarrier=barrier, phase=phase)

    def land() -> None:
        move()
        core.tell(CopyLanded, copy)
        mbarriers.complete_tx(core, by, instruction, barrier, count)

    core.tell(CopyIssued, copy)
    core.block.pending.add(Task(copy, land))


def _store(
    core: Core, by: By, instruction: Instruction, reads: Side, writes: Side, count: int, move: Callable[[], None]
) -> None:
    groups = core.copies["bulk"]
    _begin(core, Copy("bulk", instruction, by, reads, writes, count, groups.next), move, groups)


def _begin(core: Core, copy: Copy, move: Callable[[], None], groups: Groups) -> None:
    """Start a copy that completes with its group."""

    def land() -> None:
        move()
        core.tell(CopyLanded, copy)

    core.tell(CopyIssued, copy)
    task = Task(copy, land)
    groups.open.append(task)
    core.block.pending.add(task)


# ---------------------------------------------------------------------------------------------------- checks


def _check(
    core: Core, by: By, instruction: Instruction, space: Space, addresses: Array, size: int, align: int
) -> None:
    try:
        core.memory(space).check(instruction, addresses, size, align)
    except AddressError as error:
        core.fault(by, instruction, space, error)


def _check_bulk(core: Core, by: By, instruction: Instruction, shared: int, far: int, count: int) -> None:
    if count <= 0 or count % UNIT:
        raise OperandError(
            f"{instruction}: the size must be a multiple of {UNIT} bytes; got {count} (PTX ISA {instruction.section})"
        )
    _check(core, by, instruction, "shared", np.array([shared]), count, UNIT)
    _check(core, by, instruction, "global", np.array([far]), count, UNIT)


def _check_map(instruction: Instruction, given: Any) -> None:
    if not isinstance(given, TensorMap):
        raise OperandError(f"{instruction} takes a TensorMap; got {briefly(given)} (PTX ISA {instruction.section})")
    rank = int(instruction.words["dim"][0])
    if given.rank != rank:
        raise OperandError(
            f"{instruction} copies a box of {rank} dimensions; the tensor map has {given.rank} (PTX ISA "
            f"{instruction.section})"
        )


def _units(space: Space, address: int, count: int) -> Side:
    return space, np.arange(address, address + count, UNIT), UNIT


def _copying(
    source: Bytes,
    start: int,
    destination: Bytes,
    to: int,
    count: int,
    combine: Callable[[Array, Array], Array] | None = None,
) -> Callable[[], None]:
    """A function that copies a run of bytes, or combines it with the bytes at the destination."""

    def move() -> None:
        there, given = destination.bytes[to : to + count], source.bytes[start : start + count]
        there[...] = given if combine is None else combine(there.copy(), given)

    return move


def _box(
    core: Core,
    by: By,
    instruction: Instruction,
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    address: int,
    *,
    storing: bool,
) -> tuple[Places, Side, Side]:
    """The places of a box, and what it accesses in global and in shared memory, both checked."""
    space: Space = "shared"
    try:
        places = tensor_map.places(coordinates, address, storing=storing)
        far, near = places.copied, places.stored if storing else places.shared_addresses
        core.block.shared.check(instruction, near, places.size, 1)
        # the last unit of a store may extend past the array into the gap after it
        own = places if places.whole or not storing else tensor_map.places(coordinates, address)
        space = "global"
        core.block.grid.memory.check(instruction, own.copied, own.size, 1)
    except AddressError as error:
        core.fault(by, instruction, "global" if "global memory" in str(error) else space, error)
    return places, ("global", far, places.size), ("shared", near, places.size)
