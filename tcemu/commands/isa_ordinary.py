"""`tcemu isa` of ordinary instructions, which kernels in CUDA C++ and PTX execute: one opcode, or a mnemonic's."""

from __future__ import annotations

from tcemu import alu
from tcemu.commands.report import Part, Report
from tcemu.errors import IllegalInstruction, listing, nearest, shown

_ABOUT = "An ordinary instruction, of each thread by itself. Kernels in CUDA C++ and PTX execute it."


def ordinary(word: str) -> Report | None:
    """What is known about an opcode or a mnemonic; None if it is none of an ordinary instruction.

    Raises IllegalInstruction for an opcode with the mnemonic of one that the table does not have.
    """
    if alu.find(word) or alu.find(word, pair=True):
        return _opcode(word)
    mnemonic, dot, _ = word.partition(".")
    rows = [row for row in alu.rows() if row.mnemonic == mnemonic]
    if rows and dot:
        near = nearest(word[:80], [each for each in alu.opcodes() if each.startswith(f"{mnemonic}.")], 3, cutoff=0)
        raise IllegalInstruction(
            f"{shown(word)}: the table has no such form of {mnemonic}. Nearest: {listing(near)}. "
            f"`tcemu isa {mnemonic}` lists all forms"
        )
    return _mnemonic(word, rows) if rows else None


def _opcode(opcode: str) -> Report:
    forms = [found for pair in (False, True) if (found := alu.find(opcode, pair=pair))]
    first = forms[0]
    results = " or ".join("|".join(form.results) for form in forms)
    carry = " It reads CC.CF." * first.carry_in + " It writes CC.CF." * first.carry_out
    known = f"Known: {first.known}, {alu.KNOWN[first.known]}."
    sentences = (f"{_ABOUT}{carry}", f"Manual: PTX ISA 9.1, {first.section}, {first.title}.", known)
    more = alu.find(opcode, operands=len(first.operands) + 1)
    counts = [first] if more is None or more.operands == first.operands else [first, more]
    types = (("result", results), ("operands", " or ".join(", ".join(each.operands) for each in counts)))
    operands = Part("Operands", columns=("", "types"), rows=types)
    cells = (first.opcode, results, ", ".join(first.operands), first.section, first.known)
    columns = ("opcode", "results", "operands", "section", "known")
    return Report(
        first.opcode, (Part("", sentences), operands), columns, (cells,), dict(zip(columns, cells, strict=True))
    )


def _mnemonic(word: str, rows: list[alu.Row]) -> Report:
    columns = ("spelling", "results", "operands", "section")
    cells = tuple((row.spelling, row.results, row.operands, row.section) for row in rows)
    words = {name: choices.lstrip("|") for row in rows for name, choices in row.choices().items()}
    slots = tuple((f".{name}", choices) for name, choices in words.items())
    parts = (
        Part("", (_ABOUT, "Words in braces may be absent. tcemu isa OPCODE says how one is known."), columns, cells),
        Part("Words", columns=("", "one of"), rows=slots),
    )
    data = [dict(zip(columns, each, strict=True)) for each in cells]
    return Report(word, parts[: 1 + bool(slots)], columns, cells, data)
