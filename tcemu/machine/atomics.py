"""Atomic operations on memory: atom and red (PTX ISA 9.1, 9.7.13.5 and 9.7.13.6).

Lanes that use the same address execute one after the other: in lane order under seed 0, in any order under others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.instructions import Instruction
from tcemu.instructions.elements import Elements, elements_of, space_of
from tcemu.instructions.facts import Space
from tcemu.machine.data_movement import Where, access, answer, loaded, memories, patterns_of, strength
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, Order
from tcemu.machine.memory import apart
from tcemu.machine.reductions import Step, atomic_step, unsigned

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
    patterns, state = patterns_of(instruction, moved, kept=False), space_of(instruction)
    answers, whole = instruction.family == "atom", element.itemsize == register.itemsize
    steps: dict[Space, Step] = {
        "shared": atomic_step(instruction, flush=False),
        "global": atomic_step(instruction, flush=True),
    }

    def act(core: Core, addresses: npt.ArrayLike, *values: npt.ArrayLike) -> Any:
        by = core.begin(instruction)
        if by is None:
            return core.blank(moved.registers, moved.register) if answers else None
        where = core.integers(instruction, "address", addresses)
        operands = [patterns(core, _narrowed(core, each, moved)) for each in values]
        olds: list[tuple[Where, Array]] = []
        for each in memories(core, by, instruction, state, where):
            units = access(core, by, instruction, each, False, size, _READS.get(order, "relaxed"))
            if core.watched:
                access(core, by, instruction, each, True, size, _WRITES.get(order, "relaxed"))
            old = _exchange(core, by, each, units, [each.of(one) for one in operands], steps[each.space], size)
            olds.append((each, old.view(register) if whole else old.view(element).astype(register)))
        return answer(core, olds) if answers else None

    return act


def _exchange(core: Core, by: By, where: Where, units: Array, operands: list[Array], step: Step, size: int) -> Array:
    """Change `units` (n, 1) of memory lane by lane; return the numbers (n, count) that each lane read."""
    memory, scheduler, kind = where.memory, core.grid.scheduler, step.dtype
    operands = [each.view(kind) for each in operands]
    before = old = memory.read(units, size, kind)
    order = scheduler.strategy.lanes(len(units))
    if apart(units):
        after = step.new(old, *operands)
        memory.write(units, after)
    else:
        old, queues = before.copy(), _queues(order, units.ravel().tolist())
        if step.chain is not None and len(queues) < max(map(len, queues)):
            for lanes in queues:
                run = step.chain.accumulate(np.concatenate((before[lanes[:1]], operands[0][lanes])), dtype=kind)
                old[lanes] = run[:-1]
                memory.write(units[lanes[-1:]], run[-1:])
        else:  # those who are first, together, then the second, and so on
            for turn in zip_longest(*queues):
                lanes = [lane for lane in turn if lane is not None]
                held = old[lanes] = memory.read(units[lanes], size, kind)
                memory.write(units[lanes], step.new(held, *[each[lanes] for each in operands]))
        after = memory.read(units, size, kind)
    if after.tobytes() == before.tobytes():
        loaded(core, by, where, before, True)
    else:
        scheduler.changed(core.strand)
    return old


def _queues(order: Sequence[int], units: list[int]) -> list[list[int]]:
    """The lanes that use the same unit, in their order, for each unit."""
    queues: dict[int, list[int]] = {}
    for lane in order:
        queues.setdefault(units[lane], []).append(lane)
    return list(queues.values())


def _narrowed(core: Core, value: npt.ArrayLike, moved: Elements) -> npt.ArrayLike:
    """An operand whose 16-bit elements are the low halves of its registers."""
    if moved.bits >= 32:
        return value
    values = core.values(value)
    return values.astype(unsigned(moved)) if values.dtype.kind in "iu" else values
