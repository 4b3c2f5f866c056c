"""Exercises of notebook 01: e5m2 by pattern, a scale, and rounding to e4m3."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Values
from tcemu.course.judges.reals import Reals
from tcemu.course.record import Exercise, Given
from tcemu.formats import lookup

Array = npt.NDArray[Any]


# ---------------------------------------------------------------------------------------------- e5m2 by pattern


def _e5m2() -> Array:
    form = lookup("e5m2")
    return form.decode(form.codes())


def _e5m2_mistakes() -> Iterable[tuple[str, Array]]:
    form = lookup("e5m2")
    codes, right = form.codes(), _e5m2()
    exponent = codes.astype(int) >> 2 & 31
    with np.errstate(invalid="ignore"):
        no_minus_zero = right + 0.0
        for zeros in (right, no_minus_zero):
            yield (
                "e5m2 has infinity: the exponent field 31 is NaN only if the mantissa is not 0.",
                (np.where(exponent == 31, np.nan, zeros)),
            )
        yield "Only −0 is wrong: 0x80 has a sign, too. In Python -1 * 0 is 0; multiply by -1.0 instead.", no_minus_zero
        yield (
            "This is the rule for ordinary numbers. The exponent fields 0 and 31 have rules of their own.",
            (np.where(codes >> 7, -1.0, 1.0) * (1 + (codes & 3) / 4) * 2.0 ** (exponent - 15)),
        )
        yield "The sign is missing: the highest bit set means a negative number.", np.abs(right)
        yield (
            "Subnormals: where the exponent field is 0, there is no implicit leading 1.",
            (np.where(exponent == 0, np.copysign(2.0**-15 * (1 + (codes & 3) / 4), right), right)),
        )
        for halved in (right / 2, right / 2 + 0.0):  # with and without −0
            yield (
                "The smallest exponent is −14: subnormals have the exponent of the smallest normal numbers.",
                (np.where(exponent == 0, halved, right)),
            )
        number = np.isfinite(right)
        yield (
            "The mantissa has 2 bits, so it counts quarters: m / 4.",
            (
                np.where(
                    number, np.copysign(np.where(exponent == 0, (codes & 3) / 8, 1 + (codes & 3) / 8), right), right
                )
                * np.where(number, 2.0 ** (np.maximum(exponent, 1) - 15.0), 1)
            ),
        )
        yield "Minus infinity exists, too.", np.where(np.isinf(right), np.inf, right)
        for bias, says in ((16, "15, half of 32 minus 1"), (7, "15; 7 is the bias of e4m3")):
            yield f"The bias of e5m2 is {says}.", replace(form, bias=bias).decode(codes)
        ordinary = np.where(exponent == 31, np.copysign(2.0**16 * (1 + (codes & 3) / 4), 1 - 2.0 * (codes >> 7)), right)
        yield "An exponent field of all ones means infinity, or NaN if the mantissa is not 0, as in f16.", ordinary
        no_nan = np.where(np.isnan(right), np.copysign(np.inf, 1 - 2.0 * (codes >> 7)), right)
        yield "With the exponent field of all ones, only mantissa 0 is infinity; the others are NaN.", no_nan
        yield (
            "Pattern 0x80 is −0.0. Whole numbers have no −0: give the zero its sign as a float.",
            (np.where(right == 0, 0.0, right)),
        )
        fours = "e5m2 has 5 exponent bits and 2 mantissa bits. You read the pattern as e4m3."
        yield fours, lookup("e4m3").decode(codes)
        for bias, subnormals, ends in product((7, 8, 15, 16), (True, False), ("numbers", "NaN", "infinity")):
            yield fours, _fours(codes, bias, subnormals, ends)
        wide = (codes & 7) / 8
        size = np.where(exponent == 0, wide * 2.0**-14, (1 + wide) * 2.0 ** (exponent - 15.0))
        yield (
            "The mantissa is two bits, pattern & 3; the third one is the lowest of the exponent.",
            (np.where(exponent == 31, np.where(codes & 7, np.nan, np.inf), size) * np.where(codes >> 7, -1.0, 1.0)),
        )
        yield "The sign of subnormal numbers is missing.", np.where(exponent == 0, np.abs(right), right)
        last = (codes & 0x7F) == 0x7F
        yield (
            "Only e4m3 has numbers up to the last pattern. In e5m2 the exponent field 31 is infinity or NaN.",
            (np.where(last, np.nan, ordinary)),
        )


def _fours(codes: Array, bias: int, subnormals: bool, ends: str) -> Array:
    """The patterns read as 4 exponent bits and 3 mantissa bits, in the ways in which people do."""
    exponent, mantissa = codes.astype(int) >> 3 & 15, (codes & 7) / 8
    size = (1 + mantissa) * 2.0 ** (exponent - bias)
    if subnormals:
        size = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), size)
    if ends == "infinity":
        size = np.where(exponent == 15, np.where(mantissa == 0, np.inf, np.nan), size)
    if ends == "NaN":
        size = np.where(codes & 0x7F == 0x7F, np.nan, size)
    return np.where(codes >> 7, -1.0, 1.0) * size


# ---------------------------------------------------------------------------------------------- a scale for e4m3

_LARGEST = tuple(range(1, 65)) + tuple(range(400, 520, 4)) + tuple(range(1792, 70000, 1792))


def _scale(largest: Array, top: float, bias: int = 127, whole: Callable[[Array], Array] = np.ceil) -> Array:
    """The pattern of a power of two; rounded up, `largest` divided by it is at most `top`."""
    pattern: Array = whole(np.log2(np.asarray(largest, np.float64) / top)).astype(np.int64) + bias
    return pattern


_SCALE_FOR = Function(
    {"largest": _LARGEST},
    ("pattern",),
    lambda largest: _scale(largest, 448),
    (
        ("You rounded the exponent down, so the largest number is too large for e4m3.",
         lambda largest: _scale(largest, 448, whole=np.floor)),
        ("You rounded the exponent to the nearest. Round it up: otherwise the largest number is sometimes too large.",
         lambda largest: _scale(largest, 448, whole=np.round)),
        ("A scale can be less than 1: a block of small numbers then uses all of e4m3.",
         lambda largest: np.maximum(_scale(largest, 448), 127)),
        ("This is the exponent of the scale. Its pattern is 127 more: ue8m0 is an exponent with bias 127.",
         lambda largest: _scale(largest, 448, bias=0)),
        ("The bias of ue8m0 is 127.", lambda largest: _scale(largest, 448, bias=128)),
        ("The largest e4m3 number is 448, not 256: its last exponent has seven more numbers.",
         lambda largest: _scale(largest, 256)),
        ("The largest e4m3 number is 448. 480 would be the next pattern, which is NaN.",
         lambda largest: _scale(largest, 480)),
        ("449 to 464 fit only after rounding: they become 448. The largest number / scale is to be at most 448.",
         lambda largest: _scale(largest, 464)),
        ("Where largest / 448 is a power of two, it is the scale itself: you took the next one.",
         lambda largest: _scale(largest, 448, whole=lambda power: np.floor(power) + 1)),
        ("e4m3's largest number is 448; you took another format's.", lambda largest: _scale(largest, 57344)),
        ("e4m3's largest number is 448; you took another format's.", lambda largest: _scale(largest, 6)),
        ("240 is the largest number if all patterns with the highest exponent are reserved, as in IEEE. e4m3's is 448.",
         lambda largest: _scale(largest, 240)),
        ("This is the scale itself. Its pattern is the exponent + 127: ue8m0 holds nothing but an exponent.",
         lambda largest: 2 ** np.maximum(_scale(largest, 448) - 127, 0)),
        ("This is the rule of the MX formats: the exponent of the largest number, minus 8. Numbers above 448 saturate.",
         lambda largest: _scale(largest, 256, whole=np.floor)),
        ("The scale multiplies: element × scale is the number. So a large number needs a large scale.",
         lambda largest: 254 - _scale(largest, 448)),
    ),
    how="numbers from 1 to 69888",
    wider={"largest": range(1, 1 << 20)},
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- rounding to e4m3


def _numbers(rng: np.random.Generator) -> Mapping[str, Any]:
    """Numbers of every size, ties included, and a few that are too large."""
    near = lookup("e4m3").decode(rng.integers(0, 126, 40).astype(np.uint8))
    middle = (near + lookup("e4m3").decode(rng.integers(1, 126, 40).astype(np.uint8))) / 2
    between = rng.integers(1, 2**16, 40) * 2.0 ** rng.integers(-28, -6, 40)
    tiny, huge = 2.0 ** -np.arange(7, 13), np.array([448, 456, 464, 465, 480, 1000, 57344])
    ties = lookup("e4m3").decode(np.arange(1, 40, dtype=np.uint8)) + 2.0**-10
    numbers = np.concatenate([near, middle, between, tiny, huge, ties[:8]])
    signs = 1 - 2.0 * rng.integers(0, 2, len(numbers))
    return {"numbers": np.append(signs * numbers, -0.0).astype(np.float32)}


def _e4m3(given: Given, rounding: str = "rn", satfinite: bool = True) -> Array:
    return lookup("e4m3").encode(given.numbers, rounding=rounding, satfinite=satfinite)


def _e4m3_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    right = _e4m3(given)
    yield "You truncated: numbers that do not fit must be rounded to the nearest.", _e4m3(given, "rz")
    yield "Ties go to the even pattern; you rounded them away from zero.", _e4m3(given, "rna")
    below = np.nextafter(given.numbers, np.float32(0))  # what was a tie is now nearer to zero
    yield (
        "Ties go to the even pattern; you rounded them toward zero.",
        (np.where(given.numbers == 0, right, lookup("e4m3").encode(below, satfinite=True))),
    )
    yield (
        "−0.0 has a pattern of its own: −0.0 < 0 is False, but np.signbit sees the sign.",
        (np.where(given.numbers == 0, 0, right)),
    )
    yield (
        "A negative number that rounds to zero is −0: take the sign from the number, not from what it rounds to.",
        (np.where(right & 0x7F == 0, 0, right).astype(np.uint8)),
    )
    yield "Numbers that are too large become 448 with .satfinite, not NaN.", _e4m3(given, satfinite=False)
    yield (
        "Numbers below 2⁻⁶ are not zero: e4m3 has subnormals, down to 2⁻⁹.",
        (np.where(np.abs(given.numbers) < 2.0**-6, right & 0x80, right).astype(np.uint8)),
    )
    subnormal = right & 0x78 == 0
    yield (
        "Numbers below 2⁻⁶ are not zero: e4m3 has subnormals, down to 2⁻⁹.",
        (np.where(subnormal, right & 0x80, right).astype(np.uint8)),
    )
    yield "The sign is missing.", right & 0x7F
    yield (
        "240 is the largest number where all of the highest exponent is reserved, as in IEEE. e4m3's is 448.",
        (np.where(right & 0x7F > 0x77, right & 0x80 | 0x77, right).astype(np.uint8)),
    )
    yield (
        "A sign bit is added to the magnitude: it is not two's complement.",
        (np.where(right & 0x80, -(right & 0x7F).astype(np.int16), right).astype(np.uint8)),
    )
    yield "These are patterns of e5m2.", lookup("e5m2").encode(given.numbers, satfinite=True)
    yield (
        "These are the upper bytes of f16, and so patterns of e5m2.",
        ((given.numbers.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)),
    )


EXERCISES = [
    Exercise(
        "e5m2_value",
        "Read any e5m2 pattern",
        "Write `e5m2_value(pattern)`, which returns the value of an e5m2 pattern, 0 to 255, as a Python float: "
        "including infinity, NaN and −0.",
        Reals("pattern", range(256), _e5m2, _e5m2_mistakes, "{:#04x}".format, "e5m2_value", "all 256 patterns"),
        minutes=10,
        only=(),
        know="the rule, infinities and subnormals of notebook 01",
        section="",
        hints=(
            "Sign: pattern >> 7. Exponent field: pattern >> 2 & 31. Mantissa: pattern & 3. The bias is 15.",
            "Three cases: exponent field 31, exponent field 0, and all others.",
            "With the exponent field 0 the value is (0 + m / 4) · 2⁻¹⁴. float('inf') and float('nan') exist.",
        ),
    ),
    Exercise(
        "scale_for",
        "A scale for e4m3",
        "The largest number of a block is `largest`, a whole number. Write `scale_for(largest)`, which returns the "
        "ue8m0 pattern of the smallest scale, a power of two, for which largest / scale is at most 448.",
        _SCALE_FOR,
        minutes=10,
        only=(),
        know="scales, notebook 01",
        section="",
        hints=(
            "The scale is 2 to the power of the smallest whole number that is at least log2(largest / 448).",
            "ue8m0 holds an exponent with bias 127: the pattern of 1 is 127.",
        ),
    ),
    Exercise(
        "e4m3_patterns",
        "Round to e4m3",
        "Write `e4m3_patterns(numbers)`, which returns the e4m3 patterns (uint8) of a float32 array, as "
        "`cvt.rn.satfinite.e4m3x2.f32` rounds them: to the nearest, ties to the even pattern, and numbers that are "
        "too large to 448. Do not use `encode`; you may use `decode` to make the table of all e4m3 numbers.",
        Values(_e4m3, np.uint8, _e4m3_mistakes, lambda index: f"The pattern of number {index[0]}", how="every pattern"),
        minutes=30,
        only=("tcemu.formats.lookup", "tcemu.formats.Format.decode", "tcemu.formats.Format.codes"),
        know="rounding and what e4m3 cannot hold, notebook 01",
        section="",
        hints=(
            "Patterns 0 to 126 are the positive numbers, in ascending order. np.searchsorted finds the neighbours.",
            "Compare the distances to the lower and to the upper neighbour. If they are equal, take the even pattern.",
            "The sign is bit 7. Set it at the end, also for zeros: np.signbit finds it.",
        ),
        points=3,
        draw=_numbers,
    ),
]  # fmt: skip
