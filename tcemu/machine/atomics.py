"""Atomic operations on memory: atom and red (PTX ISA 9.1, 9.7.13.5 and 9.7.13.6).

Lanes that use the same address go one after the other: in the order of lanes under seed 0, in any order under others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.instructions import Instruction
from tcemu.instructions.elements import Elements, elements_of
from tcemu.instructions.facts import Space
from tcemu.machine.data_movement import Where, access, loaded, patterns_of, places, strength, unsigned
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, Order
from tcemu.machine.reductions import step_of
from tcemu.machine.registers import POISON, WARP

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: The order of the reading part, and of the writing part, of an atomic operation with a given order.
_READS: dict[Order, Order] = {"acquire": "acquire", "acq_rel": "acquire"}
_WRITES: dict[Order, Order] = {"release": "release", "acq_rel": "release"}


@executes("atom", "red")
def atomic(instruction: Instruction) -> Act:
    """atom and red: every active lane, one after the other; atom returns the old values, registers (32, 1).

    f32 additions in global memory flush subnormals to zero; those in shared memory do not.
    """
    moved, order = elements_of(instruction), strength(instruction)
    patterns = patterns_of(instruction, moved)
    answers = instruction.family == "atom"
    steps: dict[Space, Callable[..., Array]] = {
        "shared": step_of(instruction, flush=False),
        "global": step_of(instruction, flush=True),
    }

    def act(core: Core, addresses: npt.ArrayLike, *given: npt.ArrayLike) -> Any:
        by = core.begin(instruction)
        if by is None:
            return core.blank(moved.registers, moved.register) if answers else None
        where = core.integers(instruction, "address", addresses)
        operands = [patterns(core, _narrowed(core, each, moved)).view(np.uint8) for each in given]
        found = np.full((WARP, moved.registers), POISON, moved.register)
        for each in places(core, by, instruction, where):
            access(core, by, instruction, each, False, moved.bytes, _READS.get(order, "relaxed"))
            access(core, by, instruction, each, True, moved.bytes, _WRITES.get(order, "relaxed"))
            old = _exchange(core, by, each, moved.bytes, [one[each.lanes] for one in operands], steps[each.space])
            found[each.lanes] = old.view(moved.element).astype(moved.register)
        return core.made(found, core.bits) if answers else None

    return act


def _exchange(
    core: Core, by: By, where: Where, size: int, operands: list[Array], step: Callable[..., Array]
) -> Array:
    """Change memory lane by lane; return the bytes (n, size) that each lane found."""
    memory, addresses = where.memory, where.addresses
    before = memory.read(addresses, size)
    old = np.zeros_like(before)
    for lane in core.block.grid.scheduler.strategy.lanes(len(addresses)):
        place = addresses[lane : lane + 1]
        old[lane] = memory.read(place, size)
        memory.write(place, step(old[lane], *(each[lane] for each in operands)).reshape(1, size))
    if np.array_equal(memory.read(addresses, size), before):
        loaded(core, by, where, before, True)
    else:
        core.block.grid.scheduler.changed(core.strand)
    return old


def _narrowed(core: Core, given: npt.ArrayLike, moved: Elements) -> Array:
    """An operand whose 16-bit elements are the low halves of its registers."""
    values = core.values(given)
    return values.astype(unsigned(moved)) if moved.bits < 32 and values.dtype.kind in "iu" else values
