"""Tables: of the formats, of what instructions there are, what each target computes, and how fast they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from math import prod
from typing import Any

from tcemu.arguments import explained
from tcemu.arithmetic.words import in_words
from tcemu.errors import ArithmeticUnknown, IllegalInstruction, OperandError, TargetError, briefly, listing
from tcemu.formats import FORMATS, Format
from tcemu.instructions import Instruction, parse
from tcemu.instructions.catalogue import catalogue
from tcemu.instructions.targets import GENERATIONS, target_named
from tcemu.show.folded import KEEPS_KEYS
from tcemu.show.inputs import formats_of, targets_of
from tcemu.show.words import neat, value
from tcemu.timing.costs import CostTable, costs

#: JupyterLab aligns cells right by default.
_LEFT = ' style="text-align:left"'


@dataclass(frozen=True)
class Table:
    """A title, the names of the columns, and the rows as text; the first column names the row.

    >>> table = tcemu.show.format_table(["e4m3", "e5m2"])
    >>> [row[0] for row in table.rows], table.columns[:3]
    (['e4m3', 'e5m2'], ('format', 'bits', 'largest'))
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": str(self)}

    @property
    def html(self) -> str:
        """A table with a caption and header cells, for screen readers."""
        head = "".join(f'<th scope="col"{_LEFT}>{escape(name)}</th>' for name in self.columns)
        rows = ([escape(cell) for cell in row] for row in self.rows)
        body = "".join(
            f'<tr><th scope="row"{_LEFT}>{first}</th>{"".join(f"<td{_LEFT}>{cell}</td>" for cell in others)}</tr>'
            for first, *others in rows
        )
        caption = f'<caption style="text-align:left;font-weight:600">{escape(self.title)}</caption>'
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        # it scrolls in a narrow page, by keyboard too
        name = f'tabindex="0" role="group" aria-label="{escape(self.title)}"{KEEPS_KEYS}'
        return f'<div class="tcemu-scroll" style="overflow-x:auto" {name}>{table}</div>'

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.columns))]
        texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self.title, *(text.rstrip() for text in texts)])


@explained
def format_table(formats: Iterable[Format | str] = FORMATS) -> Table:
    """One row for each format: fields, largest and smallest values, infinity and NaN, all derived from the record.

    >>> print(tcemu.show.format_table(["e4m3"]).rows[0][0])
    e4m3
    """
    rows = formats_of(formats)
    columns = ("format", "bits", "largest", "smallest normal", "smallest subnormal", "infinity", "NaN patterns")
    return Table("Number formats", columns, tuple(_format(form) for form in rows))


def _format(form: Format) -> tuple[str, ...]:
    if form.kind != "float":
        sign = "sign + " if form.signed else ""
        return (form.name, f"{sign}{form.mantissa}", value(int(form.largest)), "", "", "no", "none")
    fields = f"{form.signed:d} + {form.exponent} + {form.mantissa}"
    large = value(form.largest, 9 if form.largest < 1e6 else 4)
    small = neat(form.smallest_subnormal) if form.zero and form.mantissa else "none"
    infinity, signs = "yes" if form.infinities else "no", 1 + form.signed
    nans = signs * ((1 << form.mantissa) - 1) if form.nan == "ieee" else signs  # not counting the padding
    normal = neat(form.smallest_normal)
    return (form.name, fields, large, normal, small, infinity, str(nans) if form.has_nan else "none")


@explained
def shape_table(family: str = "mma", target: str | None = None) -> Table:
    """Every shape and type of a family: how wide an element is in a register, and the registers of a lane.

    Types of A and B with the same shape, width and targets are one row. In the last column, sm_80 means that chip and
    every later one, sm_120f the chips of its family with an f or an a target. Raises IllegalInstruction for a family
    that does not exist or does not multiply registers, TargetError for an unknown target.

    >>> tcemu.show.shape_table("mma").rows[-1]
    ('m16n8k256', 'b1 .xor', '1 bit, 32 in a register', '4', '2', '4 of s32', 'sm_80')
    """
    forms = [each for each in catalogue(target, family=family) if {"a", "b", "d"} <= set(each.fragments)]
    if not forms:
        raise IllegalInstruction(f"{family} has no forms with A, B and D in registers, so there is nothing to list")
    rows: dict[tuple[object, ...], list[Instruction]] = {}
    for each in forms:
        rows.setdefault(_order(each), []).append(each)
    ordered = sorted(rows.items(), key=lambda item: item[0])
    where = f" on {target}" if target else ""
    columns = ("shape", "types of A and B", "element", "A", "B", "C and D", "from")
    return Table(f"{family}{where}: registers of a lane", columns, tuple(_shape(each) for _, each in ordered))


def _order(instruction: Instruction) -> tuple[object, ...]:
    """Wide elements first, then by K and M; then by the qualifier and the gate."""
    a, (m, _, k) = instruction.fragments["a"], instruction.shape
    return -a.container.width, k, m, _qualifier(instruction), a.shape, instruction.gate.since


def _qualifier(instruction: Instruction) -> str:
    """The word beside the types that tells forms of one shape and width apart: .kind, or b1's operation."""
    word = instruction.words.get("kind", "") or instruction.words.get("op", "")
    return f".{word}" if word else ""


def _shape(forms: list[Instruction]) -> tuple[str, ...]:
    first = forms[0]
    a, b = (first.fragments[role] for role in "ab")
    types = ", ".join(dict.fromkeys(each.types[role].name for each in forms for role in "ab"))
    inside = f", {a.elements_per_register} in a register" if a.elements_per_register > 1 else ""
    width = f"{a.container.width} bit{'s' * (a.container.width > 1)}{inside}"
    results = dict.fromkeys((each.fragments["d"].registers, each.types["d"].name) for each in forms)
    registers = ", ".join(f"{count} of {name}" for count, name in sorted(results, reverse=True))
    shape = str(first.shape) if len(a.shape) == 2 else f"{first.shape}, {a.shape[0]} products"
    named = f"{types} {_qualifier(first)}".strip()
    return shape, named, width, str(a.registers), str(b.registers), registers, listing(first.gate.since, "or")


@explained
def legal_table(opcodes: Iterable[str], target: str | None = None) -> Table:
    """What tcemu.parse says about each of some opcodes: that it exists, and where, or the error.

    Raises OperandError for what is not a list of strings, and TargetError for an unknown target.

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
        form = parse(opcode, target=target)
    except IllegalInstruction as error:
        said = str(error).removeprefix(f"{opcode}: ")
        return f"no: {said.replace(opcode, 'it', 1) if said.startswith(opcode) else said}"
    return f"yes: {form.gate}"


#: Families that multiply.
_MULTIPLY = ("wmma.mma", "mma", "mma.sp", "mma.block_scale", "wgmma")


@explained
def target_table(targets: Iterable[str], families: Iterable[str] = _MULTIPLY) -> Table:
    """How many forms of each family a target has. Raises TargetError and IllegalInstruction for unknown names.

    >>> tcemu.show.target_table(["sm_90", "sm_90a"], ["mma", "wgmma"]).rows
    (('sm_90', '110', 'none'), ('sm_90a', '110', '1074'))
    """
    names = tuple(families)
    rows = tuple((target, *(str(len(catalogue(target, family=family)) or "none") for family in names))
                 for target in targets_of(targets))  # fmt: skip
    return Table(f"Forms of {listing(names, 'and')}", ("target", *names), rows)


@explained
def arithmetic_table(instruction: Instruction, targets: Iterable[str] = GENERATIONS) -> Table:
    """One row for each target: what it computes, how that is known, and what it was compared with.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> [row[0] for row in tcemu.show.arithmetic_table(mma, ["sm_80", "sm_90a"]).rows]
    ['sm_80', 'sm_90a']
    """
    instruction = parse(instruction)
    columns = ("target", "computes", "known from", "note")
    rows = tuple(_computed(instruction, name) for name in targets_of(targets))
    return Table(f"Arithmetic of {instruction}", columns, rows)


def _computed(instruction: Instruction, name: str) -> tuple[str, ...]:
    target = target_named(name)
    if not instruction.gate.admits(target):
        return (name, "does not exist there", "", f"needs {instruction.gate.targets}")
    try:
        row = instruction.arithmetic(target)
    except ArithmeticUnknown as unknown:
        return (name, "unknown", "", str(unknown))
    depth = instruction.facts.stored or instruction.shape.k
    return (name, in_words(row.model, depth), row.known, row.note)


#: What is shown unless it is asked otherwise: the same types from the slowest form to the fastest, and fp8.
_FORMS = (
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16",
    "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3",
)


@explained
def speed_table(instructions: Iterable[Instruction | str] = _FORMS, target: str = "sm_90a") -> Table:
    """One row for each form: its multiply-adds, its cycles, how many a clock, and the share of what wgmma does.

    The cycles are the measured interval of one warp (of wgmma: one warpgroup), and that of the SM when sixteen warps
    execute the form. The share refers to the largest wgmma with the same type of A, which reaches the peak.
    Raises CostUnknown for a form or a target that was not measured.

    >>> table = tcemu.show.speed_table(["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"])
    >>> table.rows[0][1:]
    ('2048', '6', '1339', '65 %')
    """
    if isinstance(instructions, str | Instruction) or not isinstance(instructions, Iterable):
        raise TargetError(f"instructions must be a list of opcodes; got {briefly(instructions)}")
    table = costs(target)
    forms = [parse(each) for each in instructions]
    peaks = _peaks(table)
    columns = ("instruction", "multiply-adds", "cycles, one warp", "multiply-adds a clock", "share of wgmma's")
    rows = tuple(_speed(table, form, peaks) for form in forms)
    return Table(f"Speed on one SM of {target}, measured on an {table.provenance['gpu']}", columns, rows)


def _speed(table: CostTable, form: Instruction, peaks: Mapping[str, float]) -> tuple[str, ...]:
    rate = _rate(table, form)
    alone = {"a": "shared"} if _asynchronous(form) else {"warps": 1}
    interval = table.find(str(form), "interval", alone).median
    peak = peaks.get(form.fragments["a"].type)
    share = f"{100 * rate / peak:.0f} %" if peak else "no wgmma of this type"
    return (str(form), f"{_products(form)}", f"{interval:.0f}", f"{rate:.0f}", share)


def _peaks(table: CostTable) -> dict[str, float]:
    """The rate of the largest dense wgmma, by the type of A."""
    largest = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n256k")
    names = {row.instruction for row in table if largest.match(row.instruction)}
    peaks: dict[str, float] = {}
    for form in map(parse, sorted(names)):
        kind = form.fragments["a"].type
        peaks[kind] = max(peaks.get(kind, 0), _rate(table, form))
    return peaks


def _rate(table: CostTable, form: Instruction) -> float:
    """Multiply-adds a clock of one SM."""
    what, how = ("interval", {"a": "shared"}) if _asynchronous(form) else ("SM interval", {"warps": 16})
    return _products(form) / table.find(str(form), what, how).median


def _products(form: Instruction) -> int:
    """Multiply-adds of one instruction: of m8n8k4 those of its four products."""
    return prod(form.fragments["d"].shape) * form.shape.k


def _asynchronous(form: Instruction) -> bool:
    return form.opcode.startswith("wgmma")
