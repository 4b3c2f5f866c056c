"""An explanation of an instruction as plain data: operands, layouts, gates, arithmetic, and how each is known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from tcemu.arithmetic.words import KNOWN, in_sentences, in_words
from tcemu.errors import ArithmeticUnknown
from tcemu.instructions.describe import Description, bytes_needed, describe, memory
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.parse import parse
from tcemu.instructions.table import family_of
from tcemu.instructions.targets import TARGETS, Gate, Target, target_named
from tcemu.layouts.evidence import evidence
from tcemu.layouts.formulas import digits, formulas

#: The default target, if the instruction exists there; tcemu.run has the same default.
DEFAULT_TARGET = "sm_90a"


@dataclass(frozen=True)
class LayoutLine:
    """Which lane holds what of one operand."""

    role: str
    shape: tuple[int, ...]
    #: "(h g) (t p) -> (g t) (h p)", and the digits' sizes.
    pattern: str
    sizes: dict[str, int]
    #: The layout as sums: {"row": "8 h + g", "lane": "4 g + t", ...}, and the digits' ranges.
    formulas: dict[str, str]
    digits: str
    #: How many times each element is held.
    copies: int
    known: str
    note: str


@dataclass(frozen=True)
class Arithmetic:
    """What the target computes; `known` is empty if that is unknown."""

    line: str
    sentences: str
    known: str
    #: What that word of evidence means, and what was compared.
    evidence: str
    note: str


@dataclass(frozen=True)
class Elsewhere:
    """What other chips compute; chips with the same result are listed together."""

    targets: tuple[str, ...]
    line: str
    known: str


@dataclass(frozen=True)
class Explanation:
    """Everything that the tables say about one instruction on one target."""

    opcode: str
    family: str
    about: str
    target: str
    shape: tuple[int, ...]
    section: str
    ptx: str
    targets: str
    operands: tuple[Description, ...]
    layouts: tuple[LayoutLine, ...]
    #: Why there are no layouts, if they have not been published.
    unknown: str
    #: None for an instruction that only moves bits.
    arithmetic: Arithmetic | None
    elsewhere: tuple[Elsewhere, ...]
    #: Lines of Python that run it on zeros; empty if it cannot run alone.
    example: tuple[str, ...]
    #: Rules for the program, addresses, metadata and scales.
    rules: tuple[str, ...]
    #: Why the machine does not execute it; empty if it does.
    unsupported: str = ""


def default_target(gate: Gate) -> str:
    """sm_90a, otherwise the first later target that the gate admits, otherwise the first of all."""
    names = list(TARGETS)
    later = names[names.index(DEFAULT_TARGET) :]
    return next(name for name in [*later, *names] if gate.admits(target_named(name)))


def explain(instruction: str | Instruction, target: str | None = None, ptx: str | None = None) -> Explanation:
    """What is known about `instruction` on `target` (by default sm_90a, or the first target that has it).

    Raises what tcemu.parse raises: IllegalInstruction and TargetError.
    """
    parsed = parse(instruction, ptx=ptx)
    name = default_target(parsed.gate) if target is None else str(target_named(target))
    parsed, chip = parse(parsed, name), target_named(name)
    family = family_of(parsed)
    unknown, layouts, operands = "", tuple[LayoutLine, ...](), tuple[Description, ...]()
    try:
        operands = describe(parsed)
        layouts = tuple(_layout(parsed, role, chip) for role in parsed.fragments)
    except ArithmeticUnknown as error:
        unknown = str(error)
    return Explanation(
        parsed.opcode,
        parsed.family,
        family.about,
        name,
        tuple(size for size in parsed.shape if size),
        parsed.section,
        parsed.gate.ptx,
        parsed.gate.targets,
        operands,
        layouts,
        unknown,
        _arithmetic(parsed, chip) if family.computes else None,
        _elsewhere(parsed, chip) if family.computes else (),
        _example(parsed, family, name, operands),
        (
            *_rules(family, parsed),
            *(rule for operand in operands for rule in operand.rules),
            *(family.tells(parsed, chip) if family.tells else ()),
        ),
        parsed.unsupported,
    )


def _rules(family: Family, instruction: Instruction) -> list[str]:
    """The family's rules; one that begins with qualifiers applies only if the opcode has one of them."""
    words = set(instruction.opcode.split("."))

    def concerns(rule: str) -> bool:
        return not rule.startswith(".") or not words.isdisjoint(re.findall(r"(?:^|\s)\.([\w:]*\w)", rule))

    return [rule for rule in family.rules if concerns(rule)]


def _layout(instruction: Instruction, role: str, target: Target) -> LayoutLine:
    fragment = instruction.fragments[role]
    known = evidence(instruction.family, role, target.number, str(instruction.shape))
    layout = fragment.layout
    return LayoutLine(
        role,
        fragment.shape,
        layout.pattern,
        dict(layout.sizes),
        formulas(fragment),
        digits(fragment),
        layout.copies,
        known.known,
        known.note,
    )


def depth(instruction: Instruction) -> int:
    """The products that take part in one element of D: with a sparse A, those of the stored elements."""
    return instruction.facts.stored or instruction.shape.k


def _arithmetic(instruction: Instruction, target: Target) -> Arithmetic:
    try:
        row = instruction.arithmetic(target)
    except ArithmeticUnknown as error:
        return Arithmetic("unknown", str(error), "", "", "")
    products = depth(instruction)
    sentences = in_sentences(row.model, products, instruction.types["d"].name)
    return Arithmetic(in_words(row.model, products), sentences, row.known, KNOWN[row.known], row.note)


def _elsewhere(instruction: Instruction, target: Target) -> tuple[Elsewhere, ...]:
    groups: dict[tuple[str, str], list[str]] = {}
    for chip in _chips():
        admitted = [name for name in chip if instruction.gate.admits(target_named(name))]
        if admitted and target.number != target_named(chip[0]).number:
            arithmetic = _arithmetic(instruction, target_named(admitted[0]))
            groups.setdefault((arithmetic.line, arithmetic.known), []).append(chip[0])
    return tuple(Elsewhere(tuple(names), line, known) for (line, known), names in groups.items())


@cache
def _chips() -> tuple[tuple[str, ...], ...]:
    """The names of each chip's targets."""
    numbers = dict.fromkeys(target.number for target in TARGETS.values())
    return tuple(tuple(name for name, target in TARGETS.items() if target.number == number) for number in numbers)


def _example(
    instruction: Instruction, family: Family, target: str, operands: tuple[Description, ...]
) -> tuple[str, ...]:
    """Lines of Python that make operands of zeros and call tcemu.run."""
    if not operands or any(operand.direction == "in" and not operand.example for operand in operands):
        return ()
    lines, arguments = ["import numpy as np, tcemu", *_opcode(instruction.opcode)], []
    for operand in operands:
        if operand.registers is not None and operand.example:
            lines.append(f"{operand.name} = {operand.example}")
            arguments.append(operand.name)
        elif operand.example:
            arguments.append(operand.example)
    space = memory(instruction, family)
    if space:
        lines.append(f"{space} = np.zeros({bytes_needed(instruction)}, np.uint8)")
        arguments.append(f"{space}={space}")
    out = next((f"{operand.name} = " for operand in operands if operand.direction == "out"), "")
    return (*lines, *_call(out, [*arguments, f'target="{target}"']))


def _opcode(opcode: str, width: int = 76) -> list[str]:
    """The opcode as a Python string, in two pieces if it does not fit `width`."""
    whole = f'opcode = "{opcode}"'
    if len(whole) <= width:
        return [whole]
    cut = opcode.rindex(".", 0, width - 16)
    return ["opcode = (", f'    "{opcode[:cut]}"', f'    "{opcode[cut:]}"', ")"]


def _call(out: str, arguments: list[str], width: int = 76) -> list[str]:
    """The call of tcemu.run, on one line if it fits `width`, otherwise broken between arguments."""
    whole = f"{out}tcemu.run(opcode, {', '.join(arguments)})"
    if len(whole) <= width:
        return [whole]
    lines = [f"{out}tcemu.run(", "    opcode,"]
    for argument in arguments:
        if len(lines[-1]) + len(argument) + 2 <= width:
            lines[-1] += f" {argument},"
        else:
            lines.append(f"    {argument},")
    return [*lines, ")"]
