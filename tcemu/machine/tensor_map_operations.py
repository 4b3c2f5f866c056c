"""Tensor maps that kernels change: tensormap.replace, tensormap.cp_fenceproxy, fence.proxy.tensormap.

PTX ISA 9.1, 9.7.9.28, 9.7.13.16 and 9.7.13.4. A kernel changes a map in shared memory or in place, publishes it in
global memory, and passes its address there to a tensor copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, briefly, is_whole
from tcemu.instructions import Instruction
from tcemu.instructions.elements import space_of
from tcemu.instructions.facts import Space
from tcemu.machine.addresses import window_of
from tcemu.machine.data_movement import memories
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Accessed, By, Faulted, TensorMapFenced, TensorMapRead
from tcemu.machine.masks import LANES
from tcemu.machine.memory import Bytes
from tcemu.machine.registers import WARP
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import ALIGN, BYTES, FIELDS, map_of, put

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: A map is accessed in pieces of this size: the widest that a thread loads.
_PIECE = 16


@executes("tensormap.replace")
def replace(instruction: Instruction) -> Act:
    """tensormap.replace (9.7.9.28): each active lane changes one field of the map at its address.

    `ordinal` says which entry of box_dim, global_dim, global_stride or element_stride. It is a weak write of the map.
    """
    field, numbered = instruction.words["field"], instruction.facts.numbered

    def act(core: Core, address: npt.ArrayLike, *operands: Any) -> None:
        ordinal = _ordinal(instruction, operands[0]) if numbered else 0
        by = core.begin(instruction)
        if by is None:
            return
        values = core.integers(instruction, "new_value", operands[-1])
        where = core.integers(instruction, "tensor_map", address)
        for end in memories(core, by, instruction, space_of(instruction), where):
            for lane, at in zip(LANES[end.lanes].tolist(), end.addresses.tolist(), strict=True):
                _access(core, by, instruction, end.space, end.memory, at, [lane], writes=True)
                words = end.memory.bytes[at : at + BYTES].view(np.uint32).copy()
                put(words, field, ordinal, int(values[lane]))
                end.memory.bytes[at : at + BYTES] = words.view(np.uint8)

    return act


def _ordinal(instruction: Instruction, ordinal: Any) -> int:
    most = FIELDS[instruction.words["field"]].entries
    if not is_whole(ordinal) or not 0 <= ordinal < most:
        raise OperandError(
            f"{instruction}: the ordinal must be 0 (the innermost dimension) to {most - 1}; got {briefly(ordinal)} "
            f"(PTX ISA {instruction.section})"
        )
    return int(ordinal)


@executes("tensormap.cp_fenceproxy")
def cp_fenceproxy(instruction: Instruction) -> Act:
    """tensormap.cp_fenceproxy (9.7.13.16): the warp copies a map to global memory, and then fences it: .release."""

    def act(core: Core, destination: npt.ArrayLike, source: npt.ArrayLike, size: Any) -> None:
        _check_size(instruction, size)
        by = core.begin(instruction)
        if by is None:
            return
        to, start = (_one(core, instruction, *each) for each in (("destination", destination), ("source", source)))
        lanes = LANES[core.active].tolist()
        far, near = core.block.grid.memory, core.block.shared
        _access(core, by, instruction, "shared", near, start, lanes, writes=False)
        _access(core, by, instruction, "global", far, to, lanes, writes=True)
        far.bytes[to : to + BYTES] = near.bytes[start : start + BYTES]
        core.tell(TensorMapFenced, by, "release", instruction.words["scope"])

    return act


@executes("fence.proxy")
def fence_proxy(instruction: Instruction) -> Act:
    """fence.proxy.tensormap::generic (9.7.13.4): .release after a map was changed, .acquire before it is used."""
    semantics, scope = instruction.words["order"], instruction.words["scope"]

    def act(core: Core, *ranged: Any) -> None:
        if ranged:
            _check_size(instruction, ranged[1])
        by = core.begin(instruction)
        if by is not None:
            place = _one(core, instruction, "address", ranged[0]) if ranged else -1
            core.tell(TensorMapFenced, by, semantics, scope, place)

    return act


def described(core: Core, by: By, instruction: Instruction, operand: Any) -> TensorMap:
    """The tensor map that a copy uses: a constant of the launch, or the one at a generic address in global memory."""
    if isinstance(operand, TensorMap):
        return operand
    place = _one(core, instruction, "tensor_map", operand)
    if window_of(place) != "global":
        message = f"{instruction}: the tensor map at {place:#x} lies in {window_of(place)} memory, not in global memory"
        core.fault(by, instruction, "global", AddressError(f"{message} (PTX ISA {instruction.section})", "bounds"))
    memory = core.block.grid.memory
    _check(core, by, instruction, "global", memory, place)
    core.tell(TensorMapRead, by, instruction, place)
    try:
        return map_of(memory.bytes[place : place + BYTES].tobytes())
    except OperandError as error:
        message = f"the {BYTES} bytes at {place} are not a tensor map that a copy can use: {error}"
        core.tell(Faulted, by, instruction, "map", "global", message, place)
        advice = "Pass a TensorMap, or the address of one that the kernel has made"
        raise OperandError(f"{instruction}: {message}. {advice}") from None


def _one(core: Core, instruction: Instruction, role: str, operand: Any) -> int:
    """The address that all active lanes give."""
    values = np.unique(core.integers(instruction, role, operand)[core.active])
    if len(values) > 1:
        raise OperandError(
            f"{instruction}: {role} must be one address for all active lanes; got {briefly(values.tolist())} (PTX ISA "
            f"{instruction.section})"
        )
    return int(values[0])


def _check_size(instruction: Instruction, size: Any) -> None:
    if isinstance(size, bool) or size != BYTES:
        raise OperandError(
            f"{instruction}: the size must be {BYTES}, the bytes of a tensor map; got {briefly(size)} (PTX ISA "
            f"{instruction.section})"
        )


def _check(core: Core, by: By, instruction: Instruction, space: Space, memory: Bytes, place: int) -> None:
    try:
        memory.check(instruction, np.array([place], np.int64), BYTES, ALIGN)
    except AddressError as error:
        core.fault(by, instruction, space, error)


def _access(
    core: Core, by: By, instruction: Instruction, space: Space, memory: Bytes, place: int, lanes: Any, *, writes: bool
) -> None:
    """Check an access to a whole map by some lanes, which share it, and report it."""
    _check(core, by, instruction, space, memory, place)
    pieces = np.arange(place, place + BYTES, _PIECE, dtype=np.int64)
    share = np.repeat(lanes, -(-len(pieces) // len(lanes)))[: len(pieces)]
    if len(lanes) == WARP:
        pieces, share = np.arange(place, place + BYTES, BYTES // WARP, dtype=np.int64), np.array(lanes)
    extent = place, place + BYTES
    core.tell(Accessed, by, instruction, space, writes, pieces, BYTES // len(pieces), extent, share)
