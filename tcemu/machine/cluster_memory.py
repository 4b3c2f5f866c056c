"""Shared memory of the cluster: mapa, getctarank, st.async, red.async (PTX ISA 9.1, 9.7.9.12, 9.7.9.23, 9.7.9.24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, counted
from tcemu.instructions import Instruction
from tcemu.instructions.elements import elements_of, space_of
from tcemu.machine.addresses import BLOCK, SHARED, generic, mapped, rank_of, window_of
from tcemu.machine.asynchronous_copy import Region
from tcemu.machine.bulk_copy import begin_counted
from tcemu.machine.data_movement import Where, memories, patterns_of
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, Copy
from tcemu.machine.masks import LANES
from tcemu.machine.reductions import step_of

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: The new bytes at one address, from the old ones and a lane's.
Step = Callable[[Array, Array], Array]

# ---------------------------------------------------------------------------------------------------- addresses


@executes("mapa")
def mapa(instruction: Instruction) -> Act:
    """mapa (9.7.9.23): the same place in the shared memory of the block with rank `cta` of the cluster.

    Returns an int or, if an operand has a value for each lane, int64 (32,).
    """
    whole = space_of(instruction) == "generic"

    def act(core: Core, address: npt.ArrayLike, cta: npt.ArrayLike) -> Any:
        by = core.begin(instruction)
        operand = core.integers(instruction, "a", address)
        ranks = core.integers(instruction, "cta", cta)
        if by is None:
            return 0
        for rank in np.unique(ranks[core.active]).tolist():
            if not 0 <= rank < core.block.shape.ranks:
                message = f"{instruction}: a cluster of {counted(core.block.shape.ranks, 'block')} has no rank {rank}"
                core.fault(
                    by, instruction, "shared", AddressError(f"{message} (PTX ISA {instruction.section})", "rank")
                )
        _owners(core, by, instruction, operand)  # which checks that they are in shared memory
        inside = (operand - SHARED if whole else operand) % BLOCK
        block = core.block
        addresses = generic(inside, block.slot - block.rank + ranks) if whole else mapped(inside, ranks)
        return _uniform(core, addresses, address, cta)

    return act


@executes("getctarank")
def getctarank(instruction: Instruction) -> Act:
    """getctarank (9.7.9.24): the rank of the block whose shared memory an address lies in, an int or int64 (32,)."""

    def act(core: Core, address: npt.ArrayLike) -> Any:
        by = core.begin(instruction)
        operand = core.integers(instruction, "a", address)
        return 0 if by is None else _uniform(core, _owners(core, by, instruction, operand), address)

    return act


def _owners(core: Core, by: By, instruction: Instruction, addresses: Array) -> Array:
    """The ranks of the blocks whose shared memory the addresses (32,) lie in."""
    if space_of(instruction) == "shared::cluster":
        return np.asarray(rank_of(addresses, core.block.rank))
    for address in addresses[core.active].tolist():
        if window_of(address) != "shared":
            message = f"{instruction}: the generic address {address:#x} lies in {window_of(address)} memory"
            core.fault(by, instruction, "shared", AddressError(f"{message} (PTX ISA {instruction.section})", "bounds"))
    return np.asarray((addresses - SHARED) // BLOCK - core.block.slot + core.block.rank)


def _uniform(core: Core, answers: Array, *operands: npt.ArrayLike) -> Any:
    """One number if every operand was one number."""
    return int(answers[0]) if all(core.values(each).ndim == 0 for each in operands) else answers


# ---------------------------------------------------------------------------------------------------- st.async


@executes("st.async", "red.async")
def store(instruction: Instruction) -> Act:
    """st.async and red.async: each active lane stores or combines its value, and an mbarrier counts the bytes.

    The mbarrier is in the block that has the destination. The lanes that name one mbarrier make one copy.
    """
    moved = elements_of(instruction)
    patterns = patterns_of(instruction, moved)
    step = step_of(instruction, flush=False) if instruction.family == "red.async" else None

    def act(core: Core, addresses: npt.ArrayLike, values: npt.ArrayLike, mbarrier: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        data = patterns(core, values).view(np.uint8)
        where = core.integers(instruction, "address", addresses)
        counters = core.integers(instruction, "mbarrier", mbarrier)
        for end in memories(core, by, instruction, space_of(instruction), where):
            if end.space != "shared":
                message = f"{instruction}: a generic address in {end.space} memory; it must lie in shared memory"
                core.fault(
                    by, instruction, "global", AddressError(f"{message} (PTX ISA {instruction.section})", "bounds")
                )
            for counter in np.unique(counters[end.lanes]).tolist():
                here = end.only(counters == counter)
                place = _counter(core, by, instruction, here, counter)
                _begin(core, by, instruction, here, place, data[here.lanes], step)

    return act


def _counter(core: Core, by: By, instruction: Instruction, end: Where, address: int) -> int:
    """The place of the mbarrier, which must be in the block of the destination."""
    if space_of(instruction) == "generic":
        address = mapped(0, 0) + address - generic(0, core.block.slot - core.block.rank)
    block, place = core.shared_at(by, instruction, address)
    if block is not end.block:
        message = (
            f"{instruction}: the destination lies in the shared memory of the block with rank {end.block.rank}, the "
            f"mbarrier in that of rank {block.rank}; they must be in the same block (PTX ISA {instruction.section})"
        )
        core.fault(by, instruction, "shared", AddressError(message, "apart"))
    return place


def _begin(
    core: Core, by: By, instruction: Instruction, end: Where, place: int, data: Array, step: Step | None
) -> None:
    """Start one copy: the bytes (n, size) of the lanes of `end`, which the mbarrier at `place` counts."""
    size, memory = data.shape[1], end.memory
    try:
        units, *_ = memory.find(instruction, end.addresses, size, end.lanes)
    except AddressError as error:
        core.fault(by, instruction, "shared", error)
    phase = end.block.mbarriers.expect_more(core, by, instruction, place, 0)
    nothing: Region = ("shared", np.zeros(0, np.int64), 1)
    writes: Region = ("shared", end.addresses, size)
    copy = Copy(
        "st.async",
        instruction,
        by,
        nothing,
        writes,
        data.size,
        mbarrier=place,
        phase=phase,
        lanes=LANES[end.lanes],
        owner=core.owner(end.block),
    )

    def move() -> None:
        for at, value in zip(units[:, None], data[:, None], strict=True):
            memory.write(at, value if step is None else step(memory.read(at, size, data.dtype), value))

    begin_counted(core, copy, end.block, move)
