"""Atomic operations on memory: atom and red (PTX ISA 9.1, 9.7.13.5 and 9.7.13.6).

Lanes that use the same address execute one after the other: in lane order under seed 0, in any order under others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.instructions import Instruction
from tcemu.instructions.elements import Elements, elements_of, space_of
from tcemu.instructions.facts import Space
from tcemu.machine.data_movement import Where, access, answer, loaded, patterns_of, places, strength, unsigned
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, Order
from tcemu.machine.reductions import step_of

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
    size, element, register = moved.bytes, moved.element, moved.register
    patterns, state = patterns_of(instruction, moved), space_of(instruction)
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
        olds: list[tuple[Where, Array]] = []
        for each in places(core, by, instruction, state, where):
            access(core, by, instruction, each, False, size, _READS.get(order, "relaxed"))
            found = access(core, by, instruction, each, True, size, _WRITES.get(order, "relaxed"))
            old = _exchange(core, by, each, found, [each.of(one) for one in operands], steps[each.space])
            olds.append((each, old.view(element).astype(register)))
        return answer(core, olds) if answers else None

    return act


def _exchange(
    core: Core, by: By, where: Where, found: Array, operands: list[Array], step: Callable[..., Array]
) -> Array:
    """Change the units `found` (n,) lane by lane; return the bytes (n, size) that each lane found."""
    memory, scheduler, size = where.memory, core.grid.scheduler, operands[0].shape[1]
    before = memory.read(found, "u1", size)
    old = before.copy()
    for lanes in _turns(scheduler.strategy.lanes(len(found)), found):
        places = found[lanes]
        held = memory.read(places, "u1", size)
        old[lanes] = held
        memory.write(places, step(held, *[each[lanes] for each in operands]))
    if memory.read(found, "u1", size).tobytes() == before.tobytes():
        loaded(core, by, where, before, True)
    else:
        scheduler.changed(core.strand)
    return old


def _turns(order: Sequence[int], found: Array) -> list[Any]:
    """Lanes that can execute together, because no two use the same unit; where two do, `order` decides."""
    units = found.tolist()
    if len(set(units)) == len(units):
        return [slice(None)]
    turns: list[Any] = []
    taken = dict.fromkeys(units, 0)
    for lane in order:
        unit = units[lane]
        if taken[unit] == len(turns):
            turns.append([])
        turns[taken[unit]].append(lane)
        taken[unit] += 1
    return turns


def _narrowed(core: Core, given: npt.ArrayLike, moved: Elements) -> npt.ArrayLike:
    """An operand whose 16-bit elements are the low halves of its registers."""
    if moved.bits >= 32:
        return given
    values = core.values(given)
    return values.astype(unsigned(moved)) if values.dtype.kind in "iu" else values
