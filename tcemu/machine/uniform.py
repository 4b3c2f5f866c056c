"""Operands of which an instruction takes one value for all lanes, given as registers that have one for each lane.

PTX's operands are registers, so each lane has a value of its own. If the active lanes agree, that is the operand. If
they do not, an instruction that each lane executes for itself, such as a copy, or each of several sets of lanes, as
with membermasks, is executed once for each set that agrees; any other is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tcemu.errors import OperandError
from tcemu.instructions import Instruction
from tcemu.machine.lanes import lanes
from tcemu.machine.masks import LANES, lanes_of
from tcemu.machine.registers import WARP, Registers

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Act = Callable[..., Any]
_REGISTERS = np.ndarray, Registers
_SEQUENCES = tuple, list
#: Kinds of operands that the instruction itself takes from registers.
_CHECKED = "pointer", "stride"
#: What may have a value for each lane.
_EACH_LANE = *_REGISTERS, *_SEQUENCES
#: What the values of one lane look like: (32,), or one register for each lane.
_SHAPES = (WARP,), (WARP, 1)


def agreeing(instruction: Instruction, act: Act) -> Act:
    """The same for operands that may be registers where the instruction takes one value."""
    places = _shared_operands(instruction)
    if not any(places.values()):
        return act

    def agreed(core: Core, *operands: Any) -> Any:
        for place in places[len(operands)]:
            if isinstance(operand := operands[place], _EACH_LANE) and _several(operand):
                return _execute(core, instruction, act, operands, places[len(operands)])
        return act(core, *operands)

    return agreed


def _shared_operands(instruction: Instruction) -> dict[int, list[int]]:
    """By the number of operands: the places of those that have one value for all lanes, or may be a descriptor."""
    sources, places = instruction.sources, dict[int, list[int]]()
    least = sum(not each.optional for each in sources)
    for more in range(len(sources) - least + 1):  # so many of those that may be left out are there
        optional = [each for each in sources if each.optional][:more]
        operands = [each for each in sources if not each.optional or each in optional]
        one = [(each.uniform and each.kind not in _CHECKED) or each.described for each in operands]
        places[len(operands)] = [place for place, whether in enumerate(one) if whether]
    return places


def _several(operand: Any) -> bool:
    """Whether an operand has a value for each lane."""
    if isinstance(operand, _SEQUENCES):
        return any(isinstance(each, _REGISTERS) and _several(each) for each in operand)
    return operand.shape in _SHAPES and operand.dtype.kind in "iub"


def _execute(core: Core, instruction: Instruction, act: Act, operands: Sequence[Any], places: Sequence[int]) -> Any:
    """Execute the instruction once for each set of active lanes that give the same values."""
    several = [place for place in places if isinstance(operands[place], _EACH_LANE)]
    several = [place for place in several if _several(operands[place])]
    columns = {place: _column(core, operands[place]) for place in several}
    active, groups = LANES[core.active].tolist(), dict[tuple[Any, ...], int]()
    for lane in active or [0]:
        key = tuple(column[lane] for column in columns.values())
        groups[key] = groups.get(key, 0) | (1 << lane & core.bits)
    if len(groups) == 1:
        return act(core, *_with(operands, zip(several, next(iter(groups)), strict=True)))
    if not _each_for_itself(instruction):
        raise _disagree(instruction, columns, active)
    bits, results = core.bits, []
    for key, mask in groups.items():
        core.bits = mask
        try:
            results.append((mask, act(core, *_with(operands, zip(several, key, strict=True)))))
        finally:
            core.bits = bits
    return merged(core, results)


def _column(core: Core, operand: Any) -> list[Any]:
    """Of each lane, the value of an operand: a number, a bool or, of coordinates, a tuple."""
    if isinstance(operand, _SEQUENCES):
        each = [
            _column(core, one) if isinstance(one, _REGISTERS) and _several(one) else [one] * WARP for one in operand
        ]
        return list(zip(*each, strict=True))
    column: list[Any] = core.values(operand).reshape(WARP).tolist()
    return column


def _with(operands: Sequence[Any], changes: Any) -> list[Any]:
    """The operands with some replaced."""
    changed = list(operands)
    for place, value in changes:
        changed[place] = value
    return changed


def _each_for_itself(instruction: Instruction) -> bool:
    """Whether sets of lanes execute the instruction separately: with membermasks, or without waiting for others."""
    return not instruction.aligned and all(each.role != "barrier" for each in instruction.sources)


def _disagree(instruction: Instruction, columns: dict[int, list[Any]], active: Sequence[int]) -> OperandError:
    names = [each.role for each in instruction.sources]
    place, values = next((place, each) for place, each in columns.items() if len({each[lane] for lane in active}) > 1)
    first = active[0]
    other = next(lane for lane in active if values[lane] != values[first])
    return OperandError(
        f"{instruction} takes one value for {names[place]}, so all lanes that execute it must give the same; "
        f"lane {first} gives {_shown(values[first])}, lane {other} gives {_shown(values[other])}. Compute it from what "
        f"does not depend on the lane (PTX ISA {instruction.section})"
    )


def _shown(value: Any) -> str:
    return hex(value) if type(value) is int and abs(value) > 0xFFFF else str(value)


# ---------------------------------------------------------------------------------------------------- results


def merged(core: Core, results: Sequence[tuple[int, Any]]) -> Any:
    """One result from those of several sets of lanes, given with their masks: what each lane got."""
    first = results[0][1]
    if first is None:
        return None
    if isinstance(first, tuple):
        return tuple(merged(core, [(mask, each[n]) for mask, each in results]) for n in range(len(first)))
    arrays = [(mask, _rows(core, each)) for mask, each in results]
    whole = np.zeros_like(arrays[0][1])
    for mask, rows in arrays:
        whole[lanes_of(mask)] = rows[lanes_of(mask)]
    if isinstance(first, Registers):
        return core.made(whole, core.bits)
    return lanes(whole)


def _rows(core: Core, result: Any) -> np.ndarray[Any, Any]:
    """A result as rows (32, ...)."""
    if isinstance(result, Registers):
        return result.seen()  # not every lane of it was written, and nobody reads it yet
    array = np.asarray(result)
    return array if array.ndim else array.repeat(WARP)
