"""Explorers of single numbers: their bits, how they are rounded, what happens at the end of a range."""

from __future__ import annotations

import math

import numpy as np

from tcemu import show
from tcemu.formats import FORMATS, lookup
from tcemu.instructions import Instruction, matmul, parse
from tcemu.show.explorers.explorer import Choice, Explorer, Range, Values
from tcemu.show.picture import Picture


def bits_of_a_number(form: str = "e4m3", pattern: int = 0) -> Explorer:
    """The bits of one number, with a list of all formats and sliders for sign, exponent and mantissa.

    If you choose another format, the number stays the same or becomes the nearest one that the format has. Raises
    FormatError for an unknown format, and for a pattern that the format does not have.
    """
    row = lookup(form)
    show.number_bits(row, pattern)  # raises for an invalid pattern
    controls: dict[str, Range | Choice] = {"form": Choice("format", tuple(FORMATS), row.name)}
    tops = _field_limits(row.name)
    for name, start in row.fields(pattern)._asdict().items():
        controls[name] = Range(name, tops[name], int(start))
    return Explorer(_bits, controls, lambda form, **_: _field_limits(form), _same_number)


def _field_limits(name: str) -> dict[str, float]:
    form = lookup(name)
    return {"sign": int(form.signed), "exponent": (1 << form.exponent) - 1, "mantissa": (1 << form.mantissa) - 1}


def _pattern(form: str, sign: int, exponent: int, mantissa: int) -> int:
    row = lookup(form)
    return ((sign << row.exponent | exponent) << row.mantissa | mantissa) << row.padding


def _bits(form: str, sign: int, exponent: int, mantissa: int) -> Picture:
    return show.number_bits(form, _pattern(form, sign, exponent, mantissa))


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


def rounding_of_a_number(form: str = "e4m3", number: float = 1.3, high: float = 4.0) -> Explorer:
    """The results of each rounding of a number between 0 and `high`, in steps of 0.001.

    Raises OperandError for a format that does not reach `high`, and for a number that the slider does not have.
    """
    names = tuple(name for name, row in FORMATS.items() if row.kind == "float" and row.largest > high and row.zero)
    controls: dict[str, Range | Choice] = {
        "form": Choice("format", names, form),
        "number": Range("number", high, number, 0.001),
    }
    return Explorer(lambda form, number: show.rounding(form, float(number)), controls)


def end_of_s32(instruction: str | Instruction, a: int = 127, b: int = 127, c: int = 2**31 - 4001) -> Explorer:
    """c + a · b near the end of s32, with and without .satfinite; sliders for a and b, factors of an integer mma.

    `instruction` is one without .satfinite. The sliders go from 0 to the largest number of each type. Raises
    IllegalInstruction, and OperandError for a factor that a slider does not have.
    """
    found = parse(instruction)
    m, n, k = found.shape
    clamping = found.opcode.replace(".s32", ".satfinite.s32", 1)

    def draw(a: int, b: int) -> Picture:
        left, right = np.zeros((m, k), found.types["a"].dtype), np.zeros((k, n), found.types["b"].dtype)
        addend = np.zeros((m, n), np.int32)
        left[0, 0], right[0, 0], addend[0, 0] = a, b, c
        wraps, clamps = (int(matmul(left, right, addend, instruction=op)[0, 0]) for op in (found, clamping))
        return show.end_of_s32(c, a * b, wraps, clamps)

    tops = [int(found.types[role].largest) for role in "ab"]
    return Explorer(draw, {"a": Range("a", tops[0], a), "b": Range("b", tops[1], b)})


def pair_of_words(a: int = 0, b: int = 0, operation: str = "xor", bit: int = 0) -> Explorer:
    """Two words of 32 b1 elements, combined and counted; a list of operations, and a slider for the bit of b to flip.

    Raises OperandError for a word that has more than 32 bits, and for another operation than xor and and.
    """

    def draw(operation: str, bit: int) -> Picture:
        return show.popcount(a, b ^ 1 << bit, operation)

    return Explorer(
        draw, {"operation": Choice("operation", ("xor", "and"), operation), "bit": Range("flip bit of b", 31, bit)}
    )
