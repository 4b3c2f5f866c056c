"""Data movement: ld, st, prefetch (PTX ISA 9.1, 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, briefly
from tcemu.instructions import Instruction
from tcemu.instructions.elements import Elements, StateSpace, elements_of, order_of, space_of
from tcemu.instructions.facts import Space
from tcemu.machine.addresses import BLOCK, RANKS, Part, all_global, parts, rank_of
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Accessed, By, Order
from tcemu.machine.masks import FULL, LANES, lanes_of
from tcemu.machine.memory import Bytes, Located
from tcemu.machine.reductions import unsigned
from tcemu.machine.registers import POISON, WARP, Registers
from tcemu.machine.tensor_map import TensorMap

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------------- where


class Where(NamedTuple):
    """The active lanes whose addresses lie in one memory, and their addresses (n,) there."""

    space: Space
    memory: Bytes
    #: the block whose shared memory it is, if it is shared memory
    block: Block
    lanes: Array
    addresses: Array

    def only(self, lanes: Array) -> Where:
        """The same for those of the lanes that are in a mask, bool (32,)."""
        return self._replace(lanes=self.lanes & lanes, addresses=self.addresses[lanes[self.lanes]])

    def of(self, values: Array) -> Array:
        """The rows of these lanes, from rows (32, n) for all lanes."""
        return values if len(self.addresses) == WARP else values[self.lanes]


#: Every lane, as a mask.
_ALL = lanes_of(FULL)
#: Where(...), which goes through a function of Python, takes twice as long.
_where = tuple.__new__


def memories(core: Core, by: By, instruction: Instruction, state: StateSpace, addresses: Array) -> list[Where]:
    """The memories that the active lanes address, one entry for each; `state` is the space of the instruction."""
    active, block = lanes_of(core.bits), core.block
    if state == "generic" and all_global(addresses):
        state = "global"
    if state == "shared" or state == "global":
        memory = block.shared if state == "shared" else block.grid.memory
        here = addresses if core.bits == FULL else addresses[active]
        return [_where(Where, (state, memory, block, active, here))]
    if state == "shared::cluster":
        return list(_of_cluster(core, by, instruction, active, addresses, rank_of(addresses, block.rank)))
    wheres: list[Where] = []
    for part in parts(addresses):
        lanes = part.lanes & active
        if not lanes.any():
            continue
        if part.window in ("local", "param"):
            at = int(addresses[lanes][0])
            error = AddressError(
                f"{instruction}: lane {int(lanes.argmax())}: address {at:#x} lies in the window of {part.window} "
                f"memory, which this kernel does not have (PTX ISA {instruction.section})",
                "bounds",
            )
            core.fault(by, instruction, "global", error)
        if part.window == "global":
            wheres.append(Where("global", block.grid.memory, block, lanes, part.addresses[lanes]))
        else:
            wheres += _of_cluster(
                core, by, instruction, lanes, part.addresses, _ranks(core, by, instruction, lanes, part)
            )
    return wheres


def _ranks(core: Core, by: By, instruction: Instruction, lanes: Array, part: Part) -> Array:
    """The ranks (32,) of the blocks whose shared memory generic addresses lie in. Ends the launch for other blocks."""
    first = core.block.slot - core.block.rank
    slots = part.addresses // BLOCK
    foreign = lanes & (slots // RANKS != first // RANKS)
    if foreign.any():
        lane = int(foreign.argmax())
        whose = "a block of another cluster"
        if not core.block.shape.cluster:
            whose = f"block {slots[lane] // RANKS}"
        message = (
            f"{instruction}: lane {lane}: the generic address lies in the shared memory of {whose}; a thread reaches "
            f"that of its own block and cluster only (PTX ISA {instruction.section})"
        )
        core.fault(by, instruction, "shared", AddressError(message, "owner"))
    return np.asarray(slots - first)


def _of_cluster(
    core: Core, by: By, instruction: Instruction, lanes: Array, addresses: Array, ranks: Array
) -> Iterator[Where]:
    """The same for addresses in the shared memory of the blocks with these ranks, all (32,)."""
    for rank in np.unique(ranks[lanes]).tolist():
        here = lanes & (ranks == rank)
        own = rank == core.block.rank
        block = core.block if own else core.block.cluster.block(core, by, instruction, rank)
        inside = addresses[here]
        yield Where("shared", block.shared, block, here, np.where(inside < 0, inside, inside % BLOCK))


def access(
    core: Core,
    by: By,
    instruction: Instruction,
    where: Where,
    writes: bool,
    size: int,
    order: Order,
    data: Array | None = None,
) -> Array:
    """Check an access of `size` bytes at each of the addresses, report it, and return the units that it finds."""
    try:
        units, extent, _ = where.memory.find(instruction, where.addresses, size, where.lanes)
    except AddressError as error:
        core.fault(by, instruction, where.space, error)
    if core.grid.observers:
        lanes = LANES if len(where.addresses) == WARP else LANES[where.lanes]
        owner, stored = core.owner(where.block), None if data is None else data.view(np.uint8)
        details = where.addresses, size, extent, lanes, False, order, stored, owner
        core.grid.tell(Accessed, by, instruction, where.space, writes, *details)
    return units


def strength(instruction: Instruction) -> Order:
    """The memory order of an access, empty for a weak one."""
    order: Any = order_of(instruction).order
    return "" if order == "weak" else order


# ---------------------------------------------------------------------------------------------------- ld, st


@executes("ld")
def ld(instruction: Instruction) -> Act:
    """ld (9.7.9.8): registers (32, n) from byte addresses (32,), or one for all."""
    moved, order = elements_of(instruction), strength(instruction)
    register, element, count, size = moved.register, moved.element, moved.registers, moved.bytes
    whole, strong, state = element.itemsize == register.itemsize, bool(order), space_of(instruction)
    kind = register if whole else element

    def act(core: Core, addresses: npt.ArrayLike) -> Registers:
        by = core.begin(instruction)
        if by is None:
            return core.blank(count, register)
        where = core.integers(instruction, "address", addresses)
        together = _by_all(core, by, instruction, state, where, size)
        if together is not None:
            memory, (units, extent, named) = together
            if core.grid.observers:
                core.grid.tell(Accessed, by, instruction, state, False, where, size, extent, LANES, False, order)
            data = memory.read(units, size, kind)
            if core.grid.scheduler.polls(core.strand, (named, data.tobytes(), memory), strong):
                _poll(core, by, memories(core, by, instruction, state, where)[0])
            return core.made(data if whole else data.astype(register), FULL)
        loads: list[tuple[Where, Array]] = []
        for each in memories(core, by, instruction, state, where):
            numbers = access(core, by, instruction, each, False, size, order)
            data = each.memory.read(numbers, size, kind)
            loaded(core, by, each, data, strong)
            loads.append((each, data if whole else data.astype(register)))  # a signed element extends its sign
        return answer(core, loads)

    return act


def _by_all(
    core: Core, by: By, instruction: Instruction, state: StateSpace, addresses: Array, size: int
) -> tuple[Bytes, Located] | None:
    """The memory that all lanes access, and what they find there; None if not all do, or `state` names no memory."""
    if core.bits != FULL or (state != "shared" and state != "global"):
        return None
    memory = core.block.shared if state == "shared" else core.grid.memory
    try:
        return memory, memory.find(instruction, addresses, size, _ALL)
    except AddressError as error:
        core.fault(by, instruction, state, error)


def answer(core: Core, loads: list[tuple[Where, Array]]) -> Registers:
    """Registers with the values that lanes have found, rows (n, count) for each memory."""
    first = loads[0][1]
    if len(first) == WARP:
        return core.made(first, FULL)
    bits = np.full((WARP, first.shape[1]), POISON, first.dtype)
    for each, held in loads:
        bits[each.lanes] = held
    return core.made(bits, core.bits)


def loaded(core: Core, by: By, where: Where, data: Array, strong: bool) -> None:
    """Report a load to the scheduler: a loop that keeps loading the same values waits for other warps."""
    seen = where.addresses.tobytes(), data.tobytes(), where.memory
    if core.grid.scheduler.polls(core.strand, seen, strong):
        _poll(core, by, where)


def _poll(core: Core, by: By, where: Where) -> None:
    """Other warps run, because this one polls memory."""
    at = int(where.addresses[0])
    core.look(by, "memory", at, partial(_polled, core, where), elsewhere=where.space == "global")


def _polled(core: Core, where: Where) -> str:
    """What a warp waits for that polls memory."""
    at = int(where.addresses[0])
    whose = "" if where.block is core.block else f" of block {where.block.number}"
    arrays = where.memory.ranges if where.space == "global" else ()
    named = "".join(f" (byte {at - first} of {name})" for first, end, name in arrays if first <= at < end)
    return f"{where.space} memory{whose} at {at}{named} to change, which it polls"


@executes("st")
def st(instruction: Instruction) -> Act:
    """st (9.7.9.11): store values (32, n), (32,) or one for all; floats of the element's width keep their bits."""
    moved, order = elements_of(instruction), strength(instruction)
    size, patterns, state = moved.bytes, patterns_of(instruction, moved, kept=False), space_of(instruction)

    def act(core: Core, addresses: npt.ArrayLike, values: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        where = core.integers(instruction, "address", addresses)
        written = patterns(core, values)
        together = _by_all(core, by, instruction, state, where, size)
        if together is not None:
            memory, (units, extent, _) = together
            if core.grid.observers:
                details = where, size, extent, LANES, False, order, written.view(np.uint8)
                core.grid.tell(Accessed, by, instruction, state, True, *details)
            memory.write_lanes(units, written, _ALL)
            return
        for each in memories(core, by, instruction, state, where):
            data = each.of(written)
            units = access(core, by, instruction, each, True, size, order, data)
            each.memory.write_lanes(units, data, each.lanes)

    return act


def patterns_of(instruction: Instruction, moved: Elements, *, kept: bool = True) -> Callable[[Core, Any], Array]:
    """A function that reads an operand: elements (32, count) as their bits in memory.

    Unless they are `kept` after the instruction, by an observer or by it, they may be the content of registers itself.
    """
    count, bits, stored, shape = moved.registers, moved.bits, unsigned(moved), (WARP, moved.registers)

    @lru_cache(maxsize=64)
    def same(number: int) -> Array:
        array = np.full(shape, np.asarray(number).astype(stored))
        array.flags.writeable = False
        return array

    def patterns(core: Core, values: Any) -> Array:
        if type(values) is int and -(1 << 63) <= values < 1 << 63:
            return same(values)
        if type(values) is Registers:
            array = values.used() if kept or core.watched else values.content()
        else:
            array = core.values(values)
        if array.dtype == stored and array.shape == shape:  # the usual form of values
            return array if array.flags.c_contiguous else np.ascontiguousarray(array)
        if array.dtype.kind == "f" and array.dtype.itemsize * 8 == bits:
            array = array.astype(array.dtype.newbyteorder("=")).view(f"u{array.dtype.itemsize}")
        if array.dtype.kind not in "iu":
            raise OperandError(
                f"{instruction} stores integers, or floats of {bits} bits; got dtype {array.dtype}. Pass bits with "
                f".view(np.uint32) or Fragment.pack (PTX ISA {instruction.section})"
            )
        if array.shape == (WARP,) and count == 1:
            array = array[:, None]
        if array.shape not in ((), shape):
            wanted = "(32, 1) or (32,)" if count == 1 else f"(32, {count})"
            raise OperandError(
                f"{instruction} takes values {wanted}, or one for all; got shape {array.shape} (PTX ISA "
                f"{instruction.section})"
            )
        if array.shape != shape:
            array = np.broadcast_to(array, shape)
        return np.ascontiguousarray(array, stored) if array.dtype == stored else array.astype(stored, "C")

    return patterns


@executes("prefetch", "prefetchu", "cp.async.bulk.prefetch")
def prefetch(instruction: Instruction) -> Act:
    """prefetch (9.7.9.15): a hint to the caches; this machine has none."""

    def act(core: Core, *operands: npt.ArrayLike) -> None:
        if core.begin(instruction) is not None:
            for operand, value in zip(instruction.sources, operands, strict=False):
                core.integers(instruction, operand.role, value)

    return act


@executes("prefetch.tensormap")
def prefetch_tensormap(instruction: Instruction) -> Act:
    """prefetch.tensormap: the same for a tensor map."""

    def act(core: Core, tensor_map: TensorMap) -> None:
        if not isinstance(tensor_map, TensorMap):
            message = f"{instruction} takes a TensorMap; got {briefly(tensor_map)}"
            raise OperandError(f"{message} (PTX ISA {instruction.section})")
        core.begin(instruction)

    return act
