"""Bulk copies and tensor copies (PTX ISA 9.1, 9.7.9.25.4 to 9.7.9.27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, briefly
from tcemu.instructions import Instruction
from tcemu.instructions.facts import Space
from tcemu.machine.asynchronous_copy import Region, begin, check
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, Copy, CopyIssued, CopyLanded
from tcemu.machine.im2col import Im2colMap
from tcemu.machine.memory import Bytes
from tcemu.machine.pending import Task
from tcemu.machine.reductions import Combine, box_reduction, step_of
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_operations import described
from tcemu.machine.tensor_map_pieces import Pieces

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: The tensor map of a copy and the coordinates of its box; a bulk copy has neither.
Box = tuple[TensorMap | None, Sequence[int]]
_NO_BOX: Box = None, ()
#: The unit of bulk copies: sizes and addresses are multiples of it.
UNIT = 16

# ---------------------------------------------------------------------------------------------------- bulk copies


@executes("cp.async.bulk.load")
def bulk_load(instruction: Instruction) -> Act:
    """cp.async.bulk into shared memory (9.7.9.25.4.1): each active lane copies `size` bytes; `mbarrier` counts them.

    The source is in global memory or in the block's own shared memory. With .multicast::cluster, each block of
    `cta_mask` gets the bytes, and its own mbarrier counts them.
    """
    return _into_shared(instruction, None)


@executes("cp.reduce.async.bulk")
def bulk_reduce(instruction: Instruction) -> Act:
    """cp.reduce.async.bulk (9.7.9.25.4.2): as cp.async.bulk, but combines the bytes with those at the destination.

    In global memory it combines as red.global does; .f32 sums flush subnormals to zero, as the manual says.
    """
    combine = step_of(instruction, flush=True)
    return (_into_shared if instruction.facts.completes else _into_global)(instruction, combine)


@executes("cp.async.bulk.store")
def bulk_store(instruction: Instruction) -> Act:
    """cp.async.bulk out of shared memory: each active lane copies `size` bytes, in a group of bulk copies."""
    return _into_global(instruction, None)


def _into_shared(instruction: Instruction, combine: Combine | None) -> Act:
    near = instruction.words["src"] == "shared::cta"
    space: Space = "shared" if near else "global"

    def act(
        core: Core,
        destination: npt.ArrayLike,
        source: npt.ArrayLike,
        size: npt.ArrayLike,
        mbarrier: npt.ArrayLike,
        cta_mask: Any = None,
    ) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        far = core.block.shared if near else core.block.grid.memory
        operands = {"destination": destination, "source": source, "size": size, "mbarrier": mbarrier}
        for to, start, count, barrier in each_lane(core, instruction, operands):
            for here in _ends(core, by, instruction, to, barrier, cta_mask):
                _check_bulk(core, by, instruction, here.to, start, count, space)
                move = _copying(far, start, here.block.shared, here.to, count, combine)
                reads, writes = _units(space, start, count), _units("shared", here.to, count)
                _load(core, by, instruction, here, reads, writes, move, count)

    return act


def _into_global(instruction: Instruction, combine: Combine | None) -> Act:
    def act(core: Core, destination: npt.ArrayLike, source: npt.ArrayLike, size: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        operands = {"destination": destination, "source": source, "size": size}
        for to, start, count in each_lane(core, instruction, operands):
            _check_bulk(core, by, instruction, start, to, count)
            move = _copying(core.block.shared, start, core.block.grid.memory, to, count, combine)
            reads, writes = _units("shared", start, count), _units("global", to, count)
            _store(core, by, instruction, reads, writes, count, move)

    return act


@executes("cp.async.bulk.tensor.load")
def tensor_load(instruction: Instruction) -> Act:
    """cp.async.bulk.tensor into shared memory (9.7.9.27.1): each active lane copies a box or, im2col, pixels.

    `mbarrier` counts the whole box, `tensor_map.bytes`. The offsets of im2col mode come first in `more`. With
    .multicast::cluster, each block of the mask gets the box, and its own mbarrier counts it.
    """
    windows, multicast = instruction.facts.windows, "multicast" in instruction.words

    def act(
        core: Core,
        destination: npt.ArrayLike,
        tensor_map: TensorMap | npt.ArrayLike,
        coordinates: Sequence[int],
        mbarrier: npt.ArrayLike,
        *more: Any,
    ) -> None:
        offsets = more[0] if windows else ()
        cta_mask = more[windows] if multicast else None
        by, tensor_map = _begin(core, instruction, tensor_map)
        if by is None:
            return
        operands = {"destination": destination, "mbarrier": mbarrier}
        for to, barrier in each_lane(core, instruction, operands):
            for here in _ends(core, by, instruction, to, barrier, cta_mask):
                pieces, reads, writes = _box(core, by, instruction, tensor_map, coordinates, here.to, offsets=offsets)
                far, near = core.block.grid.memory.bytes, here.block.shared.bytes
                move = partial(tensor_map.load_at, pieces, far, near)
                box = tensor_map, coordinates
                _load(core, by, instruction, here, reads, writes, move, tensor_map.bytes, box)

    return act


@executes("cp.async.bulk.tensor.store")
def tensor_store(instruction: Instruction) -> Act:
    """cp.async.bulk.tensor out of shared memory, tile mode: each active lane copies the box at `source`."""
    return _box_into_global(instruction, lambda _: None)


@executes("cp.reduce.async.bulk.tensor")
def tensor_reduce(instruction: Instruction) -> Act:
    """cp.reduce.async.bulk.tensor (9.7.9.27.1.3): as cp.async.bulk.tensor, but combines the elements of the box.

    How an element is combined is inferred from cp.reduce.async.bulk: .f32 sums flush subnormals to zero. So is what
    happens to the rest of a unit of 16 bytes that the edge of the tensor cuts: it is combined as a store writes it.
    """
    return _box_into_global(instruction, partial(box_reduction, instruction))


def _box_into_global(instruction: Instruction, combine_of: Callable[[str], Combine | None]) -> Act:
    """Copies boxes in groups; `combine_of` says how elements of a type are combined."""

    def act(
        core: Core, tensor_map: TensorMap | npt.ArrayLike, coordinates: Sequence[int], source: npt.ArrayLike
    ) -> None:
        by, tensor_map = _begin(core, instruction, tensor_map)
        if by is None:
            return
        combine = combine_of(tensor_map.element)
        for (start,) in each_lane(core, instruction, {"source": source}):
            pieces, writes, reads = _box(core, by, instruction, tensor_map, coordinates, start, storing=True)
            far, near = core.block.grid.memory.bytes, core.block.shared.bytes
            store = partial(tensor_map.store_at, pieces, far, near, combine)
            _store(core, by, instruction, reads, writes, tensor_map.bytes, store, (tensor_map, coordinates))

    return act


@executes("cp.async.bulk.prefetch.tensor")
def prefetch_tensor(instruction: Instruction) -> Act:
    """cp.async.bulk.prefetch.tensor (9.7.9.27.1.4): a hint to the caches; this machine has none."""
    windows = instruction.facts.windows

    def act(core: Core, tensor_map: TensorMap | npt.ArrayLike, coordinates: Sequence[int], *more: Any) -> None:
        by, tensor_map = _begin(core, instruction, tensor_map)
        if by is None:
            return
        try:
            tensor_map.pieces(coordinates, offsets=more[0] if windows else ())
        except AddressError as error:
            core.fault(by, instruction, "global", error)

    return act


def each_lane(core: Core, instruction: Instruction, operands: dict[str, npt.ArrayLike]) -> list[Any]:
    """The operands of each active lane, one tuple per lane; usually only one elected lane is active."""
    columns = [core.integers(instruction, role, each)[core.active].tolist() for role, each in operands.items()]
    return list(zip(*columns, strict=True))


class End(NamedTuple):
    """One destination of a copy: a block of the cluster, and the addresses in its shared memory."""

    block: Block
    to: int
    #: the block that has the mbarrier, which is another one only in a pair
    counter: Block
    mbarrier: int
    #: its number among the destinations of a multicast
    number: int = 0


def _ends(core: Core, by: By, instruction: Instruction, to: int, mbarrier: int, cta_mask: Any) -> list[End]:
    """The destinations of a copy: the block whose shared memory `to` lies in or, of a multicast, those of the mask.

    With .cta_group::2, the mbarrier is in the block of its pair that has the same place there as the given one's block.
    """
    pair = instruction.words.get("group") == "cta_group::2"
    if instruction.words["dst"] == "shared::cta" and not pair:
        return [End(core.block, to, core.block, mbarrier)]
    (block, here), (other, counter) = (core.shared_at(by, instruction, address) for address in (to, mbarrier))
    blocks = [block]
    if "multicast" in instruction.words:
        blocks = [core.block.cluster.block(core, by, instruction, rank) for rank in _ranks(instruction, cta_mask)]
    elif block is not other and not (pair and block.rank // 2 == other.rank // 2):
        must = "in a pair of blocks" if pair else "in the same block"
        message = (
            f"{instruction}: the destination lies in the shared memory of the block with rank {block.rank}, the "
            f"mbarrier in that of rank {other.rank}; they must be {must} (PTX ISA {instruction.section})"
        )
        core.fault(by, instruction, "shared", AddressError(message, "apart"))
    return [
        End(each, here, _counter(core, by, instruction, each, other) if pair else each, counter, number)
        for number, each in enumerate(blocks)
    ]


def _counter(core: Core, by: By, instruction: Instruction, block: Block, named: Block) -> Block:
    """The block whose mbarrier counts what `block` gets: of its pair, the one in the same place as `named`."""
    rank = block.rank & ~1 | named.rank & 1
    return block if rank == block.rank else core.block.cluster.block(core, by, instruction, rank)


def _ranks(instruction: Instruction, cta_mask: Any) -> list[int]:
    """The ranks that a mask of 16 bits names, at least one."""
    if isinstance(cta_mask, bool) or not isinstance(cta_mask, int | np.integer) or not 0 < cta_mask < 1 << 16:
        raise OperandError(
            f"{instruction}: ctaMask has 16 bits, one for each rank of the cluster, at least one of them set; got "
            f"{briefly(cta_mask)} (PTX ISA {instruction.section})"
        )
    return [rank for rank in range(16) if int(cta_mask) >> rank & 1]


def _load(
    core: Core,
    by: By,
    instruction: Instruction,
    here: End,
    reads: Region,
    writes: Region,
    move: Callable[[], None],
    count: int,
    box: Box = _NO_BOX,
) -> None:
    """Start a copy of `count` bytes that completes on an mbarrier."""
    block, barrier = here.block, here.mbarrier
    phase = here.counter.mbarriers.expect_more(core, by, instruction, barrier, 0)
    copy = Copy("bulk", instruction, by, reads, writes, count, mbarrier=barrier, phase=phase, number=here.number)
    copy.owner = core.owner(block)
    if here.counter is not block:
        copy.counter = core.owner(here.counter)
    copy.tensor_map, copy.coordinates = box[0], tuple(box[1])
    begin_counted(core, copy, block, move, here.counter)


def begin_counted(core: Core, copy: Copy, block: Block, move: Callable[[], None], counter: Block | None = None) -> None:
    """Start a copy into the shared memory of a block; the mbarrier that counts the bytes is there or in `counter`."""
    by, instruction, counting = copy.by, copy.instruction, counter or block

    def land() -> None:
        for each in (block, counting):
            if each is not core.block:  # which may meanwhile have exited
                each.cluster.block(core, by, instruction, each.rank)
        move()
        core.tell(CopyLanded, copy)
        counting.mbarriers.complete_tx(core, by, instruction, copy.mbarrier, copy.bytes)

    core.tell(CopyIssued, copy)
    core.block.pending.add(Task(copy, land))


def _store(
    core: Core,
    by: By,
    instruction: Instruction,
    reads: Region,
    writes: Region,
    count: int,
    move: Callable[[], None],
    box: Box = _NO_BOX,
) -> None:
    groups = core.copies["bulk"]
    copy = Copy("bulk", instruction, by, reads, writes, count, groups.next)
    copy.tensor_map, copy.coordinates = box[0], tuple(box[1])
    begin(core, copy, move, groups)


# ---------------------------------------------------------------------------------------------------- checks


def _check_bulk(
    core: Core, by: By, instruction: Instruction, shared: int, far: int, count: int, space: Space = "global"
) -> None:
    """Check the size and both ends; all blocks have the same amount of shared memory."""
    if count <= 0 or count % UNIT:
        message = f"{instruction}: the size must be a multiple of {UNIT} bytes; got {count}"
        core.fault(by, instruction, "shared", AddressError(f"{message} (PTX ISA {instruction.section})", "alignment"))
    check(core, by, instruction, "shared", np.array([shared], np.int64), count, UNIT)
    check(core, by, instruction, space, np.array([far], np.int64), count, UNIT)


def _begin(core: Core, instruction: Instruction, tensor_map: Any) -> tuple[By | None, TensorMap]:
    """Begin a tensor copy, given a map or the address of one in global memory; the map must fit the instruction."""
    if isinstance(tensor_map, TensorMap):
        _check_map(instruction, tensor_map)
    elif core.values(tensor_map).dtype.kind not in "iu":
        message = f"{instruction} takes a TensorMap, or the address of one in global memory; got {briefly(tensor_map)}"
        raise OperandError(f"{message} (PTX ISA {instruction.section})")
    by = core.begin(instruction)
    if by is not None and not isinstance(tensor_map, TensorMap):
        tensor_map = described(core, by, instruction, tensor_map)
        _check_map(instruction, tensor_map)
    return by, tensor_map


def _check_map(instruction: Instruction, tensor_map: TensorMap) -> None:
    rank = int(instruction.words["dim"][0])
    if tensor_map.rank != rank:
        raise OperandError(
            f"{instruction} copies a box of {rank} dimensions; the tensor map has {tensor_map.rank} (PTX ISA "
            f"{instruction.section})"
        )
    kind = Im2colMap if instruction.words.get("mode", "").startswith(Im2colMap.mode) else TensorMap
    if tensor_map.mode != kind.mode:
        raise OperandError(
            f"{instruction} copies in {kind.mode} mode and takes a map of {kind.encoder}; got one of "
            f"{tensor_map.encoder}. A GPU stops with an illegal instruction (PTX ISA {instruction.section})"
        )


def _units(space: Space, address: int, count: int) -> Region:
    return space, np.arange(address, address + count, UNIT, dtype=np.int64), UNIT


def _copying(
    source: Bytes,
    start: int,
    destination: Bytes,
    to: int,
    count: int,
    combine: Combine | None = None,
) -> Callable[[], None]:
    """A function that copies a run of bytes, or combines it with the bytes at the destination."""

    def move() -> None:
        target, data = destination.bytes[to : to + count], source.bytes[start : start + count]
        target[...] = data if combine is None else combine(target.copy(), data)

    return move


def _box(
    core: Core,
    by: By,
    instruction: Instruction,
    tensor_map: TensorMap,
    coordinates: Sequence[int],
    address: int,
    *,
    storing: bool = False,
    offsets: Sequence[int] = (),
) -> tuple[Pieces, Region, Region]:
    """The pieces of a box, and what it accesses in global and in shared memory, both checked."""
    try:
        pieces = tensor_map.pieces(coordinates, address, storing=storing, offsets=offsets)
        far, near = pieces.copied, pieces.stored if storing else pieces.shared_addresses
        core.block.shared.check(instruction, near, pieces.size, 1)
        # the last unit of a store may extend past the array into the gap after it
        own = pieces if pieces.whole or not storing else tensor_map.pieces(coordinates, address)
        core.block.grid.memory.check(instruction, own.copied, own.size, 1)
    except AddressError as error:
        core.fault(by, instruction, error.space or "shared", error)
    return pieces, ("global", far, pieces.size), ("shared", near, pieces.size)
