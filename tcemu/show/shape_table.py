"""Tables of what exists: the shapes of a family with their registers, and opcodes with the verdict on each."""

from __future__ import annotations

from collections.abc import Iterable

from tcemu.arguments import explained
from tcemu.errors import IllegalInstruction, OperandError, TargetError, briefly, listing
from tcemu.instructions import Instruction, parse
from tcemu.instructions.catalogue import catalogue
from tcemu.show.table import Table


@explained
def shape_table(family: str = "mma", target: str | None = None) -> Table:
    """Every shape and type of a family: how wide an element is in a register, and the registers of a lane.

    Types of A and B with the same shape, width and targets are one row. In the last column, sm_80 means that chip and
    every later one, sm_120f the chips of its family with an f or an a target. Raises IllegalInstruction for a family
    that does not exist or does not multiply registers, TargetError for an unknown target.

    >>> tcemu.show.shape_table("mma").rows[-1]
    ('m16n8k256', 'b1 .xor', '1 bit, 32 in a register', '4', '2', '4 of s32', 'sm_80')
    """
    found = [each for each in catalogue(target, family=family) if {"a", "b", "d"} <= set(each.fragments)]
    if not found:
        raise IllegalInstruction(f"{family} has no forms with A, B and D in registers, so there is nothing to list")
    rows: dict[tuple[object, ...], list[Instruction]] = {}
    for each in found:
        rows.setdefault(_key(each), []).append(each)
    ordered = sorted(rows.items(), key=lambda item: item[0])
    where = f" on {target}" if target else ""
    columns = ("shape", "types of A and B", "element", "A", "B", "C and D", "from")
    return Table(f"{family}{where}: registers of a lane", columns, tuple(_row(each) for _, each in ordered))


def _key(instruction: Instruction) -> tuple[object, ...]:
    """Wide elements first, then by K and M; then by the qualifier and the gate."""
    a, (m, _, k) = instruction.fragments["a"], instruction.shape
    return -a.container.width, k, m, _qualifier(instruction), a.shape, instruction.gate.since


def _qualifier(instruction: Instruction) -> str:
    """The word beside the types that tells forms of one shape and width apart: .kind, or b1's operation."""
    word = instruction.words.get("kind", "") or instruction.words.get("op", "")
    return f".{word}" if word else ""


def _row(found: list[Instruction]) -> tuple[str, ...]:
    first = found[0]
    a, b = (first.fragments[role] for role in "ab")
    types = ", ".join(dict.fromkeys(each.types[role].name for each in found for role in "ab"))
    inside = f", {a.elements_per_register} in a register" if a.elements_per_register > 1 else ""
    width = f"{a.container.width} bit{'s' * (a.container.width > 1)}{inside}"
    results = dict.fromkeys((each.fragments["d"].registers, each.types["d"].name) for each in found)
    registers = ", ".join(f"{count} of {name}" for count, name in sorted(results, reverse=True))
    shape = str(first.shape) if len(a.shape) == 2 else f"{first.shape}, {a.shape[0]} products"
    named = f"{types} {_qualifier(first)}".strip()
    return shape, named, width, str(a.registers), str(b.registers), registers, listing(first.gate.since, "or")


@explained
def legal_table(opcodes: Iterable[str], target: str | None = None) -> Table:
    """What tcemu.parse says about each of some opcodes: that it exists, and where, or the error.

    >>> print(tcemu.show.legal_table(["mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"]).rows[0][1])
    no: .m16n8k32 cannot be combined with the other qualifiers: .shape must be .m8n8k4, .m16n8k8 or .m16n8k16 here. \
Nearest legal form: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 (PTX ISA 9.1, 9.7.14.5.14 \
Multiply-and-Accumulate Instruction: mma)
    """
    if isinstance(opcodes, str) or not isinstance(opcodes, Iterable):
        raise OperandError(f"opcodes must be a list of strings; got {briefly(opcodes)}")
    where = f" on {target}" if target else ""
    rows = tuple((str(opcode), _verdict(opcode, target)) for opcode in opcodes)
    return Table(f"Is it an instruction{where}?", ("opcode", "verdict"), rows)


def _verdict(opcode: str, target: str | None) -> str:
    try:
        found = parse(opcode, target=target)
    except IllegalInstruction as error:
        said = str(error).removeprefix(f"{opcode}: ")
        return f"no: {said.replace(opcode, 'it', 1) if said.startswith(opcode) else said}"
    return f"yes: {found.gate}"


#: Families that multiply.
_MULTIPLY = ("wmma.mma", "mma", "mma.sp", "mma.block_scale", "wgmma")


@explained
def target_table(targets: Iterable[str], families: Iterable[str] = _MULTIPLY) -> Table:
    """How many forms of each family a target has. Raises TargetError and IllegalInstruction for unknown names.

    >>> tcemu.show.target_table(["sm_90", "sm_90a"], ["mma", "wgmma"]).rows
    (('sm_90', '110', 'none'), ('sm_90a', '110', '1074'))
    """
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise TargetError(f"targets must be a list of names, such as ['sm_80', 'sm_90a']; got {briefly(targets)}")
    names = tuple(families)
    rows = tuple((name, *(str(len(catalogue(name, family=family)) or "none") for family in names)) for name in targets)
    return Table(f"Forms of {listing(names, 'and')}", ("target", *names), rows)
