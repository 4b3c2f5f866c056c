"""Synchronisation of lanes and threads: votes, elect, fences, grid dependencies (PTX ISA 9.1, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import and_, or_, xor
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from tcemu import alu
from tcemu.instructions import Instruction
from tcemu.instructions.elements import order_of
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Fenced, GridWaited, MbarriersFenced, ProxyFenced
from tcemu.machine.lanes import lanes
from tcemu.machine.masks import FULL, bits_of, lanes_of
from tcemu.machine.registers import POISON, WARP, Registers

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------------- lanes

#: The result of a vote, from the active lanes and those of them whose predicate is true, as bits.
_VOTES: dict[str, Callable[[int, int], Any]] = {
    "all": lambda lanes, true: true == lanes,
    "any": lambda _, true: true != 0,
    "uni": lambda lanes, true: true in (0, lanes),
    "ballot": lambda _, true: true,
}


@executes("vote.sync")
def vote(instruction: Instruction) -> Act:
    """vote.sync (9.7.13.9): all, any, uni of the active lanes' predicates as a bool, ballot as an int of 32 bits."""
    result = _VOTES[instruction.words["mode"]]

    def act(core: Core, predicate: npt.ArrayLike, *membermask: Any) -> Any:
        core.check_membermask(instruction, *membermask)
        core.begin(instruction)
        return result(core.bits, core.bits & bits_of(core.predicate(instruction, predicate)))

    return act


@executes("match.sync")
def match(instruction: Instruction) -> Act:
    """match.sync (9.7.13.10): for each lane the mask of the lanes with its value.

    match.all.sync d|p: all active lanes if they have one value, else 0, and whether they have.
    """
    whole, kept = instruction.words["mode"] == "all", np.uint64 if instruction.words["type"] == "b64" else np.uint32

    def act(core: Core, values: npt.ArrayLike, *membermask: Any) -> Any:
        core.check_membermask(instruction, *membermask)
        core.begin(instruction)
        held = core.integers(instruction, "a", values).astype(kept)
        same = held[:, None] == held
        if core.bits != FULL:
            same &= core.active[:, None] & core.active
        masks = np.packbits(same, axis=1, bitorder="little").view("<u4")[:, 0]
        if not whole:
            return masks
        alike = bool(core.bits) and bool((masks[core.active] == core.bits).all())
        return masks * np.uint32(alike), alike

    return act


#: For the 32 numbers of a warp, Python's functions take half as long as numpy's.
_REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "add": sum,
    "min": min,
    "max": max,
    "and": partial(reduce, and_),
    "or": partial(reduce, or_),
    "xor": partial(reduce, xor),
}


def _of_floats(instruction: Instruction) -> Callable[[list[int]], int]:
    """Minima and maxima of the patterns of floats: what max.f32 gives of three, the last of them twice."""
    words = instruction.words
    opcode = ".".join([words["op"], *(words[each] for each in ("nan", "abs") if each in words), "f32"])
    row = cast("alu.Ordinary", alu.find(opcode, operands=3))

    def combine(patterns: list[int]) -> int:
        values = [np.array([each], np.uint32) for each in patterns]
        return int(reduce(lambda x, y: row.meaning(alu.ARRAYS, x, y, y), [*values, values[0]])[0])

    return combine


@executes("redux.sync")
def redux(instruction: Instruction) -> Act:
    """redux.sync (9.7.13.12): the reduction of the active lanes' 32-bit values, which all of them get, (32, 1)."""
    real = instruction.words["type"] == "f32"
    combine = _of_floats(instruction) if real else _REDUCTIONS[instruction.words["op"]]
    kind = np.int32 if instruction.words["type"] == "s32" else np.uint32

    def act(core: Core, values: npt.ArrayLike, *membermask: Any) -> Registers:
        core.check_membermask(instruction, *membermask)
        if core.begin(instruction) is None:
            return core.blank(1)
        if real and (floats := core.values(values)).dtype == np.float32:
            values = floats.view(np.uint32)
        held = core.own(core.integers(instruction, "a", values)).astype(kind)
        bits = np.empty((WARP, 1), np.uint32)
        bits.fill(combine(held.tolist()) & 0xFFFFFFFF)
        if core.bits != FULL:
            bits[~core.active] = POISON
        return core.made(bits, core.bits)

    return act


@executes("activemask")
def activemask(instruction: Instruction) -> Act:
    """activemask (9.7.13.11): the mask of the active lanes, an int."""

    def act(core: Core) -> int:
        core.begin(instruction)
        return core.bits

    return act


@executes("elect.sync")
def elect(instruction: Instruction) -> Act:
    """elect.sync d|p (9.7.13.14): the number of one active lane, the first, and a predicate that is true in it alone.

    If no lane is active, the number is -1.
    """

    def act(core: Core, *membermask: Any) -> tuple[int, Array]:
        core.check_membermask(instruction, *membermask)
        core.begin(instruction)
        first = core.bits & -core.bits
        return first.bit_length() - 1, lanes(lanes_of(first).copy())

    return act


# ---------------------------------------------------------------------------------------------------- fences


@executes("fence", "membar")
def fence(instruction: Instruction) -> Act:
    """fence and membar (9.7.13.4): order this thread's strong accesses; membar is fence.sc under its old name."""
    semantics, scope = order_of(instruction)

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(Fenced, by, semantics, scope)

    return act


@executes("fence.proxy.async")
def fence_proxy_async(instruction: Instruction) -> Act:
    """fence.proxy.async (9.7.13.4): what these lanes wrote before becomes visible to the async proxy."""

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(ProxyFenced, by, instruction.facts.spaces)

    return act


@executes("fence.mbarrier_init")
def fence_mbarrier_init(instruction: Instruction) -> Act:
    """fence.mbarrier_init (9.7.13.4): mbarriers that these lanes initialised are visible to bulk copies."""

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            core.tell(MbarriersFenced, by)

    return act


@executes("griddepcontrol")
def griddepcontrol(instruction: Instruction) -> Act:
    """griddepcontrol (9.7.13.13): wait for the grid that this one depends on, or let the one that depends on it begin.

    Neither does anything in a grid that overlaps no other, as on the hardware.
    """
    waits = instruction.words["action"] == "wait"

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        grid = core.block.grid
        if not waits:
            grid.trigger(core.block)
            return
        before = grid.prerequisite
        if before is not None and not before.complete:
            core.wait(by, "grid", before.launch, lambda: before.complete, lambda: f"the grid of {before.kernel} to end")
        core.tell(GridWaited, by, -1 if before is None else before.launch)

    return act
