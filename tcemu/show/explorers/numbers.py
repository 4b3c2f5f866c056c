"""Explorers of single numbers: their bits, how they are rounded, what happens at the end of a range."""

from __future__ import annotations

import math

import numpy as np

from tcemu import show
from tcemu.formats import FORMATS, lookup
from tcemu.instructions import Instruction, matmul, parse
from tcemu.show.explorers.explorer import Choice, Explorer, Range, Values, controls
from tcemu.show.picture import Picture


def bits_of_a_number(form: str = "e4m3", pattern: int = 0) -> Explorer:
    """The bits of one number, with a list of all formats and sliders for sign, exponent and mantissa.

    If you choose another format, the number stays the same or becomes the nearest one that the format has. Raises
    FormatError for an unknown format, and for a pattern that the format does not have.
    """
    row = lookup(form)
    show.number_bits(row, pattern)  # raises for an invalid pattern
    start = {"form": row.name, **{name: int(field) for name, field in row.fields(pattern)._asdict().items()}}
    return Explorer(
        lambda form, **fields: show.number_bits(form, _pattern(form, **fields)),
        controls(start, form=Choice("format", tuple(FORMATS), row.name), **_field_limits(row.name)),
        lambda form, **_: _field_limits(form),
        _same_number,
    )


def _field_limits(name: str) -> dict[str, int]:
    form = lookup(name)
    return {"sign": int(form.signed), "exponent": (1 << form.exponent) - 1, "mantissa": (1 << form.mantissa) - 1}


def _pattern(form: str, sign: int, exponent: int, mantissa: int) -> int:
    row = lookup(form)
    return ((sign << row.exponent | exponent) << row.mantissa | mantissa) << row.padding


def _same_number(before: Values, after: Values) -> Values:
    """The fields of the same number in the new format, or of the nearest one."""
    if before["form"] == after["form"]:
        return after
    form = lookup(after["form"])
    number = lookup(before["form"]).decode(_pattern(**before)).item()
    if not form.signed:
        number = abs(number)
    kept = math.isinf(number) and form.infinities
    nearest = form.encode(number, satfinite=not kept).item()
    return after | {name: int(field) for name, field in form.fields(nearest)._asdict().items()}


def rounding_of_a_number(form: str = "e4m3", number: float = 1.3) -> Explorer:
    """The results of each rounding of a number between 0 and 4, in steps of 0.001.

    Raises OperandError for a format that does not reach 4, and for a number that the slider does not have.
    """
    high = 4.0
    names = tuple(name for name, row in FORMATS.items() if row.kind == "float" and row.largest > high and row.zero)
    return Explorer(
        lambda form, number: show.rounding(form, float(number)),
        {"form": Choice("format", names, form), "number": Range("number", high, number, 0.001)},
    )


def end_of_s32(instruction: str | Instruction, a: int = 127, b: int = 127) -> Explorer:
    """2147479647 + a · b, near the end of s32, with and without .satfinite; sliders for a and b.

    `instruction` is an integer mma without .satfinite. The sliders go from 0 to the largest number of each type. Raises
    IllegalInstruction, and OperandError for a factor that a slider does not have.
    """
    wrapping, c = parse(instruction), 2**31 - 4001
    (m, n, k), types = wrapping.shape, wrapping.types
    clamping = wrapping.opcode.replace(".s32", ".satfinite.s32", 1)

    def draw(a: int, b: int) -> Picture:
        left, right = np.zeros((m, k), types["a"].dtype), np.zeros((k, n), types["b"].dtype)
        addend = np.zeros((m, n), np.int32)
        left[0, 0], right[0, 0], addend[0, 0] = a, b, c
        wraps, clamps = (int(matmul(left, right, addend, instruction=op)[0, 0]) for op in (wrapping, clamping))
        return show.end_of_s32(c, a * b, wraps, clamps)

    return Explorer(draw, controls({"a": a, "b": b}, **{role: int(types[role].largest) for role in "ab"}))


def pair_of_words(a: int = 0, b: int = 0, bit: int = 0) -> Explorer:
    """Two words of 32 b1 elements, combined and counted; a list of operations, and a slider for the bit of b to flip.

    Raises OperandError for a word that has more than 32 bits.
    """
    return Explorer(
        lambda operation, bit: show.popcount(a, b ^ 1 << bit, operation),
        controls({"bit": bit}, operation=("xor", "and"), bit=Range("flip bit of b", 31)),
    )
