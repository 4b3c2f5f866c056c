"""Explorers of fragments: who holds what, and how an instruction's result changes with a register."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from tcemu import show
from tcemu.errors import OperandError, listing
from tcemu.formats.arrays import as_array
from tcemu.instructions import TARGETS, Instruction, parse, run
from tcemu.show.explorers.explorer import Choice, Explorer, Range, Values, ranges
from tcemu.show.picture import Picture


def who_holds_what(instruction: str | Instruction, lane: int = 0) -> Explorer:
    """A, B and D of an instruction or opcode, and a slider for the lane whose elements are marked.

    Raises IllegalInstruction for text that is not an instruction, OperandError for a lane that does not exist.
    """
    found = parse(instruction)
    lanes = found.fragments["a"].lanes
    return Explorer(lambda lane: show.mma_map(found, lane=lane), {"lane": Range("lane", lanes - 1, lane)})


def flip_one_bit(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    target: str = "sm_90a",
    **start: Any,
) -> Explorer:
    """Change one bit of one register of A or B, and see which elements of D change.

    `a`, `b` and `c` are registers; `start` may give operand ("a" or "b"), lane, register and bit. Raises OperandError
    for a start that is not possible.
    """
    found = parse(instruction)
    operands = {role: as_array(given, f"operand {role}") for role, given in {"a": a, "b": b, "c": c}.items()}
    d = found.fragments["d"]
    before = d.unpack(run(found, *operands.values(), target=target))

    def draw(operand: str, lane: int, register: int, bit: int) -> Picture:
        registers = operands[operand].copy()
        registers[lane, register] ^= registers.dtype.type(1 << bit)
        after = d.unpack(run(found, *(operands | {operand: registers}).values(), target=target))
        cause = f"bit {bit} of register {operand}{register} in lane {lane}"
        return show.changes(before, after, d.format, cause=cause)

    def limits(operand: str, **_: object) -> dict[str, float]:
        return {"register": found.fragments[operand].registers - 1}

    chosen: Values = {"operand": "a", "lane": 0, "register": 0, "bit": 0}
    unknown = [name for name in start if name not in chosen]
    if unknown:
        raise OperandError(f"no control is called {unknown[0]!r}; there are {listing(chosen, 'and')}")
    chosen |= start
    most = max(found.fragments[role].registers for role in "ab") - 1
    controls: dict[str, Range | Choice] = {
        "operand": Choice("operand", ("a", "b"), chosen["operand"]),
        "lane": Range("lane", found.lanes - 1, chosen["lane"]),
        "register": Range("register", most, chosen["register"]),
        "bit": Range("bit", 8 * operands["a"].itemsize - 1, chosen["bit"]),
    }
    return Explorer(draw, controls, limits)


def probe_one_element(instruction: str | Instruction, target: str = "sm_90a", **start: Any) -> Explorer:
    """A one in one element of A or B, and the registers that respond; see show.probe.

    `start` may give operand ("a" or "b"), lane, register, element and answers ("d" or "partner"). Raises OperandError
    for a start that is not possible.
    """
    found = parse(instruction)
    chosen: Values = {"operand": "a", "lane": 0, "register": 0, "element": 0, "answers": "d"} | start
    show.probe(found, target=target, **chosen)  # raises for what is not possible
    fragments = [found.fragments[role] for role in "ab"]
    controls: dict[str, Range | Choice] = {
        "operand": Choice("operand", ("a", "b"), chosen["operand"]),
        "lane": Range("lane", found.lanes - 1, chosen["lane"]),
        "register": Range("register", max(each.registers for each in fragments) - 1, chosen["register"]),
        "element": Range("element", max(each.elements_per_register for each in fragments) - 1, chosen["element"]),
        "answers": Choice("who answers", ("d", "partner"), chosen["answers"]),
    }

    def limits(operand: str, **_: object) -> dict[str, float]:
        return {"register": found.fragments[operand].registers - 1}

    return Explorer(lambda **at: show.probe(found, target=target, **at), controls, limits)


def tile_that_is_loaded(instruction: str | Instruction, rows: int, columns: int, **start: int) -> Explorer:
    """Which elements of a row-major matrix a wmma.load reads: a slider for the pointer, a list of strides.

    Both count elements and have only values that the instruction accepts; `start` may give first and ldm. See
    show.loaded.
    """
    found = parse(instruction)
    chosen: Values = {"first": 0, "ldm": columns} | start
    show.loaded(found, rows, columns, **chosen)  # raises for what is not possible
    strides = tuple(str(stride) for stride in range(16, 2 * columns + 1, 16))
    controls: dict[str, Range | Choice] = {
        "first": Range("pointer", rows * columns - 16, chosen["first"], 16),
        "ldm": Choice("stride", strides, str(chosen["ldm"])),
    }
    return Explorer(lambda first, ldm: show.loaded(found, rows, columns, first, int(ldm)), controls)


def fragment_by_target(
    instruction: str | Instruction, role: str = "", lane: int = 0, target: str = "sm_90a", targets: Sequence[str] = ()
) -> Explorer:
    """The map of an operand on one architecture after the other: a list of targets, a slider for the lane.

    `role` may be left out if the instruction has one operand in registers. The default `targets` are one of each
    generation that has the instruction. Raises OperandError for a start that is not possible.
    """
    found = parse(instruction)
    which = role or next(iter(found.fragments))
    names = tuple(targets) or tuple(name for name in _GENERATIONS if found.gate.admits(TARGETS[name]))
    controls: dict[str, Range | Choice] = {
        "target": Choice("target", names, target),
        "lane": Range("lane", found.fragments[which].lanes - 1, lane),
    }
    return Explorer(lambda target, lane: _on(found, target, which, lane), controls)


#: One architecture of each generation.
_GENERATIONS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def _on(instruction: Instruction, target: str, role: str, lane: int) -> Picture:
    drawn = show.fragment_map(instruction.on(TARGETS[target]).fragments[role], lane=lane)
    return replace(drawn, title=f"{drawn.title}, on {target}")


def swap_registers(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    role: str = "a",
    target: str = "sm_90a",
    **start: int,
) -> Explorer:
    """Swap two registers of A or B in every lane, and see which elements of D change.

    `a`, `b` and `c` are registers, and `role` says whose are swapped; `start` may give first and second. Raises
    OperandError for a start that is not possible.
    """
    found = parse(instruction)
    operands = {name: as_array(given, f"operand {name}") for name, given in {"a": a, "b": b, "c": c}.items()}
    d = found.fragments["d"]
    before = d.unpack(run(found, *operands.values(), target=target))

    def draw(first: int, second: int) -> Picture:
        registers = operands[role].copy()
        registers[..., [first, second]] = registers[..., [second, first]]
        after = d.unpack(run(found, *(operands | {role: registers}).values(), target=target))
        cause = f"{role}{first} and {role}{second} are swapped" if first != second else "nothing is swapped"
        return show.changes(before, after, d.format, cause=cause)

    most = found.fragments[role].registers - 1
    return Explorer(draw, ranges({"first": most, "second": most}, start))


def fragment_of_a_form(opcodes: Iterable[str | Instruction], role: str = "a", lane: int = 0) -> Explorer:
    """The map of one operand, with a list of instructions to choose from and a slider for the lane that is marked.

    Raises IllegalInstruction for text that is not an instruction, OperandError for a lane that does not exist.
    """
    forms = {_form(found): found for found in map(parse, opcodes)}
    names = tuple(forms)
    lanes = min(found.fragments[role].lanes for found in forms.values())
    controls: dict[str, Range | Choice] = {
        "form": Choice("shape and types", names, names[0] if names else ""),
        "lane": Range("lane", lanes - 1, lane),
    }
    return Explorer(lambda form, lane: show.fragment_map(forms[form].fragments[role], lane=lane), controls)


def _form(instruction: Instruction) -> str:
    """The shape and the types of A and B: "m16n8k32 s8 x u8"."""
    types = dict.fromkeys(instruction.types[role].name for role in "ab")
    return f"{instruction.shape} {' x '.join(types)}"
