"""Explorers of fragments: who holds what, and how an instruction's result changes with a register."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from tcemu import show
from tcemu.formats.arrays import as_array
from tcemu.instructions import TARGETS, Instruction, parse, run
from tcemu.instructions.targets import GENERATIONS
from tcemu.show.explorers.explorer import Choice, Explorer, Range, controls
from tcemu.show.picture import Picture

Registers = npt.NDArray[Any]


def who_holds_what(instruction: str | Instruction, lane: int = 0) -> Explorer:
    """A, B and D of an instruction or opcode, and a slider for the lane whose elements are marked.

    Raises IllegalInstruction for text that is not an instruction, OperandError for a lane that does not exist.
    """
    mma = parse(instruction)
    lanes = mma.fragments["a"].lanes
    return Explorer(lambda lane: show.mma_map(mma, lane=lane), controls({"lane": lane}, lane=lanes - 1))


def _changed(
    instruction: Instruction, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike
) -> Callable[[str, Callable[[Registers], None], str], Picture]:
    """A function that changes the registers of one operand, and draws which elements of D are then different."""
    operands = {role: as_array(each, f"operand {role}") for role, each in {"a": a, "b": b, "c": c}.items()}
    d = instruction.fragments["d"]
    before = d.unpack(run(instruction, *operands.values()))

    def draw(role: str, change: Callable[[Registers], None], cause: str) -> Picture:
        registers = operands[role].copy()
        change(registers)
        after = d.unpack(run(instruction, *(operands | {role: registers}).values()))
        return show.changes(before, after, d.format, cause=cause)

    return draw


def flip_one_bit(
    instruction: str | Instruction, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike, **start: Any
) -> Explorer:
    """Change one bit of one register of A or B, and see which elements of D change.

    `a`, `b` and `c` are registers; `start` may give operand ("a" or "b"), lane, register and bit. Raises OperandError
    for a start that is not possible.
    """
    mma = parse(instruction)
    changed = _changed(mma, a, b, c)

    def draw(operand: str, lane: int, register: int, bit: int) -> Picture:
        def flip(registers: Registers) -> None:
            registers[lane, register] ^= registers.dtype.type(1 << bit)

        return changed(operand, flip, f"bit {bit} of register {operand}{register} in lane {lane}")

    last_bit = 8 * as_array(a, "operand a").itemsize - 1
    return Explorer(
        draw,
        controls(start, operand=("a", "b"), lane=mma.lanes - 1, register=_last_register(mma), bit=last_bit),
        lambda operand, **_: {"register": mma.fragments[operand].registers - 1},
    )


def swap_registers(
    instruction: str | Instruction, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike, **start: int
) -> Explorer:
    """Swap two registers of A in every lane, and see which elements of D change.

    `a`, `b` and `c` are registers; `start` may give first and second. Raises OperandError for a start that is not
    possible.
    """
    mma = parse(instruction)
    changed = _changed(mma, a, b, c)

    def draw(first: int, second: int) -> Picture:
        def swap(registers: Registers) -> None:
            registers[..., [first, second]] = registers[..., [second, first]]

        return changed("a", swap, f"a{first} and a{second} are swapped" if first != second else "nothing is swapped")

    last = mma.fragments["a"].registers - 1
    return Explorer(draw, controls(start, first=last, second=last))


def _last_register(mma: Instruction) -> int:
    """The largest number of a register of A or of B."""
    return max(mma.fragments[role].registers for role in "ab") - 1


def probe_one_element(instruction: str | Instruction, **start: Any) -> Explorer:
    """A one in one element of A or B, and the registers that respond; see show.probe.

    `start` may give operand ("a" or "b"), lane, register, element and answers ("d" or "partner"). Raises OperandError
    for a start that is not possible.
    """
    mma = parse(instruction)
    show.probe(mma, **start)  # raises for what is not possible
    elements = max(mma.fragments[role].elements_per_register for role in "ab")
    return Explorer(
        lambda **at: show.probe(mma, **at),
        controls(
            start,
            operand=("a", "b"),
            lane=mma.lanes - 1,
            register=_last_register(mma),
            element=elements - 1,
            answers=Choice("who answers", ("d", "partner"), "d"),
        ),
        lambda operand, **_: {"register": mma.fragments[operand].registers - 1},
    )


def tile_that_is_loaded(instruction: str | Instruction, rows: int, columns: int, **start: int) -> Explorer:
    """Which elements of a row-major matrix a wmma.load reads: a slider for the pointer, a list of strides.

    Both count elements and have only values that the instruction accepts; `start` may give first and ldm. See
    show.loaded.
    """
    load = parse(instruction)
    first, ldm = start.get("first", 0), start.get("ldm", columns)
    show.loaded(load, rows, columns, first, ldm)  # raises for what is not possible
    strides = tuple(str(stride) for stride in range(16, 2 * columns + 1, 16))
    return Explorer(
        lambda first, ldm: show.loaded(load, rows, columns, first, int(ldm)),
        controls(
            {**start, "ldm": str(ldm)},
            first=Range("pointer", rows * columns - 16, step=16),
            ldm=Choice("stride", strides, ""),
        ),
    )


def fragment_by_target(instruction: str | Instruction, **start: Any) -> Explorer:
    """The map of an instruction's first operand on one architecture after the other: a list of targets, a slider.

    There is one target of each generation that has the instruction; `start` may give target and lane. Raises
    OperandError for a start that is not possible.
    """
    parsed = parse(instruction)
    role = next(iter(parsed.fragments))
    targets = [name for name in GENERATIONS if parsed.gate.admits(TARGETS[name])]

    def draw(target: str, lane: int) -> Picture:
        drawn = show.fragment_map(parsed.on(TARGETS[target]).fragments[role], lane=lane)
        return replace(drawn, title=f"{drawn.title}, on {target}")

    return Explorer(draw, controls({"target": "sm_90a"} | start, target=targets, lane=parsed.fragments[role].lanes - 1))


def fragment_of_a_form(opcodes: Iterable[str | Instruction], **start: Any) -> Explorer:
    """The map of A, with a list of instructions to choose from and a slider for the lane that is marked.

    `start` may give form and lane. Raises IllegalInstruction for text that is not an instruction, OperandError for a
    start that is not possible.
    """
    forms = {}
    for form in map(parse, opcodes):
        types = dict.fromkeys(form.types[role].name for role in "ab")
        forms[f"{form.shape} {' x '.join(types)}"] = form.fragments["a"]  # "m16n8k32 s8 x u8"
    lanes = min(a.lanes for a in forms.values())
    return Explorer(
        lambda form, lane: show.fragment_map(forms[form], lane=lane),
        controls(start, form=Choice("shape and types", tuple(forms), next(iter(forms))), lane=lanes - 1),
    )
