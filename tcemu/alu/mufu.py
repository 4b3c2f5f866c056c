"""MUFU, the function unit behind the approximations of PTX: eight functions by quadratic interpolation.

The unit is that of Oberman and Siu, "A High-Performance Area-Efficient Multifunction Interpolator" (ARITH-17, 2005).
The high bits of the operand's fraction choose a segment, whose coefficients are in a table; the other 17 bits are x:

    c0 + c1 * x + c2 * square(x)

Only the square is not exact: its small partial products are left out. `mufu.csv` has the coefficients. They were solved
for from the answers of an H100: in each segment, they are the only ones of their widths (26, 16 and 10 bits, as in the
paper; 25, 15 and 11 for the sine) that give all answers, up to the last place of c0.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from itertools import accumulate
from pathlib import Path

from tcemu.alu.floats import INFINITY, NAN, SIGN
from tcemu.alu.row import Ops, Value

#: Bits of x.
_X = 17
_FRACTION, _ONE = 0x7FFFFF, 0x800000
_INFINITY, _NAN, _SIGN = INFINITY["f32"], NAN["f32"], SIGN["f32"]
_SIZE = _SIGN - 1


@dataclass(frozen=True)
class _Steps:
    """The unit of each column of a table, and what is added to all sums.

    They are multiples of 2^-17 of a place: of the last of 24 bits, or, for lg2, sin and tanh, of 2^-23.
    """

    c0: int
    c1: int
    c2: int
    bias: int = 0


#: The bias rounds, and makes up on average for what the square leaves out.
_STEPS = {
    "rcp": _Steps(c0=1 << 15, c1=2, c2=1, bias=8092),
    "rsqrt": _Steps(c0=1 << 15, c1=2, c2=2, bias=-1),
    "sqrt": _Steps(c0=1 << 16, c1=2, c2=1, bias=-2),
    "ex2": _Steps(c0=1 << 15, c1=4, c2=1, bias=24456),
    "lg2": _Steps(c0=1 << 14, c1=4, c2=2, bias=3348),
    "sin": _Steps(c0=1 << 15, c1=8, c2=2),
    "tanh": _Steps(c0=1 << 16, c1=2, c2=1),
}


@cache
def _tables() -> dict[str, tuple[list[int], list[int], list[int]]]:
    """The columns of each function's coefficients."""
    tables: dict[str, tuple[list[int], list[int], list[int]]] = {name: ([], [], []) for name in _STEPS}
    with Path(__file__).with_name("mufu.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            steps, columns = _STEPS[row["function"]], tables[row["function"]]
            columns[0].append(int(row["c0"]) * steps.c0 + steps.bias)
            columns[1].append(int(row["c1"]) * steps.c1)
            columns[2].append(int(row["c2"]) * steps.c2)
    return tables


def square(ops: Ops, x: Value) -> Value:
    """x * x / 2^19 of 17 bits, without the partial products that are smaller than 1.

    A product of bits i and j counts twice: 2^(i + j + 1). The high eight bits have no smaller one but that of the
    lowest with itself. Each lower bit meets the bits that are high enough.
    """
    high = x >> 9
    total = (high * high - (high & 1)) >> 1
    for place in range(2, 9):
        total = total + ((x >> (18 - place)) & -(x >> place & 1))
    return total


def interpolated(ops: Ops, name: str, segment: Value, x: Value) -> Value:
    """The sum, in 64 bits, of the unit of `_Steps`."""
    columns = zip(("c0", "c1", "c2"), _tables()[name], (64, 32, 32), strict=True)
    c0, c1, c2 = (
        ops.table(segment, f"mufu.{name}.{column}", [each % (1 << bits) for each in entries], bits)
        for column, entries, bits in columns
    )
    return c0 + ops.signed(c1, 64) * ops.unsigned(x, 64) + (ops.signed(c2 * square(ops, x), 64) << 2)


def _in_64(ops: Ops, name: str, size: Value, first: Value | int = 0) -> Value:
    """Interpolated in 64 segments, which the fraction's high six bits choose; `first` is that of the table's half."""
    return interpolated(ops, name, (size >> _X & 63) + first, size & ((1 << _X) - 1))


def _float(ops: Ops, total: Value) -> Value:
    """A positive number of 2^-40, below 2^13, as a float of 32 bits, cut off."""
    bits = (ops.from_unsigned(total, 64) >> 29) - ((1023 - 127 + 40) << 23)
    return ops.select(total == 0, 0, ops.unsigned(bits, 32))


def _shifted(ops: Ops, x: Value, exponent: Value) -> Value:
    """The significand of a float times 2^exponent, cut off; bits beyond 32 are lost."""
    whole = x & _FRACTION | _ONE
    left, right = ops.smaller(exponent, 31), ops.smaller(-exponent, 31)
    return ops.select(ops.less(exponent, 0), whole >> right, whole << left)


@dataclass(frozen=True)
class Format:
    """How many bits the fraction of an operand has, and the bias of its exponent."""

    fraction: int
    bias: int

    @property
    def infinity(self) -> int:
        """The bits of infinity."""
        return (2 * self.bias + 1) << self.fraction


SINGLE, HIGH_WORD = Format(23, 127), Format(20, 1023)
#: Every function of MUFU, by its name.
FUNCTIONS: dict[str, Callable[..., Value]] = {}


def _function(compute: Callable[..., Value]) -> Callable[..., Value]:
    """Let native code have a function's code once, however often it is called; it is long."""

    @wraps(compute)
    def called(ops: Ops, x: Value, *form: Format) -> Value:
        name = ".".join(["mufu", compute.__name__, *(str(each.bias) for each in form)])
        return ops.once(name, lambda ops, x: compute(ops, x, *form), x)

    FUNCTIONS[compute.__name__] = called
    return called


@_function
def rcp(ops: Ops, x: Value, form: Format = SINGLE) -> Value:
    """The reciprocal."""
    size, rest = x & _SIZE, form.fraction - 7
    exponent = size >> form.fraction
    total = interpolated(ops, "rcp", size >> rest & 127, (size & ((1 << rest) - 1)) << (_X - rest))
    scaled = (2 * form.bias - 2 - exponent) << form.fraction
    result = ops.unsigned(total >> (_X + 23 - form.fraction), 32) + scaled
    result = ops.select(ops.less(result, 1 << form.fraction), 0, result)
    result = ops.select(exponent == 0, form.infinity, result) | x & _SIGN
    return ops.select(size > form.infinity, _NAN, result)


@_function
def rsqrt(ops: Ops, x: Value, form: Format = SINGLE) -> Value:
    """The reciprocal square root: the second half of the table is for 2 to 4. That of a power of 4 is exact."""
    one, rest = 1 << form.fraction, form.fraction - 6
    exponent = x >> form.fraction
    segment = (x >> rest & 63) + ((~exponent & 1) << 6)
    total = interpolated(ops, "rsqrt", segment, (x & ((1 << rest) - 1)) << (_X - rest))
    scaled = (form.bias - 2 + ((form.bias + 1) >> 1) - ((exponent + 1) >> 1)) << form.fraction
    result = ops.unsigned(total >> (_X + 23 - form.fraction), 32) + scaled
    result = ops.select((x & (2 * one - 1)) == one, scaled + 2 * one, result)
    return _of_positive(ops, x, result, x & _SIGN | form.infinity, 0, form)


def _of_positive(
    ops: Ops, x: Value, result: Value, of_zero: Value | int, of_infinity: int, form: Format = SINGLE
) -> Value:
    """What a function of positive numbers gives for the others."""
    infinity = form.infinity
    result = ops.select(x > infinity, _NAN, ops.select(x == infinity, of_infinity, result))
    return ops.select((x & infinity) == 0, of_zero, result)


@_function
def sqrt(ops: Ops, x: Value) -> Value:
    """The square root: the second half of the table is for 2 to 4."""
    total = _in_64(ops, "sqrt", x, (~x >> 23 & 1) << 6)
    result = ops.unsigned(total >> (_X + 1), 32) + ((((x >> 23) + 125) >> 1) << 23)
    return _of_positive(ops, x, result, x & _SIGN, _INFINITY)


@_function
def lg2(ops: Ops, x: Value) -> Value:
    """The logarithm to base 2, cut off to 36 bits after the point.

    Of the powers of 2, only 1 is treated apart. A negative logarithm is made positive by inverting its bits, which is
    one place less.
    """
    total = (ops.signed((x >> 23) - 127, 64) << 36) + (_in_64(ops, "lg2", x) >> 4)
    negative = ops.less(total, 0)
    result = _float(ops, ops.select(negative, ~total, total) << 4)
    result = ops.select(x == 0x3F800000, 0, result)
    return _of_positive(ops, x, ops.select(negative, result | _SIGN, result), _SIGN | _INFINITY, _INFINITY)


@_function
def ex2(ops: Ops, x: Value) -> Value:
    """2 to the power of x, x cut off to 23 bits after the point.

    A negative fraction is made positive by inverting its bits, which is one place less.
    """
    size, negative = x & _SIZE, x > (_SIGN - 1)
    fixed = _shifted(ops, size, (size >> 23) - 127)
    below = ops.select((fixed & _FRACTION) == 0, -fixed, ~fixed)
    fixed = ops.select(negative, below, fixed)
    whole = ops.shift_signed(fixed, 23)
    result = ops.unsigned(_in_64(ops, "ex2", fixed) >> _X, 32) + ((whole + 126) << 23)
    result = ops.select(ops.less(whole, -126), 0, result)
    result = ops.select(size >= 0x43000000, ops.select(negative, 0, _INFINITY, 32), result)
    return ops.select(size > _INFINITY, _NAN, result)


def _turned(ops: Ops, turns: Value) -> Value:
    """The sine of multiples of 2^-25 turns: a quarter turn backwards is that forwards with inverted bits."""
    down = (turns >> 23 & 1) == 1
    fixed = ops.select(down, ~turns, turns) & _FRACTION
    result = ops.select(fixed == 0, 0, _float(ops, _in_64(ops, "sin", fixed)))
    return result | (turns >> 24 & 1) << 31


def _turns(ops: Ops, x: Value) -> Value:
    return _shifted(ops, x, (x >> 23 & 255) - 125)


@_function
def sin(ops: Ops, x: Value) -> Value:
    """The sine of x turns, x cut off to 25 bits after the point."""
    result = _turned(ops, _turns(ops, x)) ^ x & _SIGN
    return ops.select((x & _INFINITY) == _INFINITY, _NAN, result)


@_function
def cos(ops: Ops, x: Value) -> Value:
    """The cosine of x turns, x cut off to 25 bits after the point."""
    result = _turned(ops, _turns(ops, x) + _ONE)
    return ops.select((x & _INFINITY) == _INFINITY, _NAN, result)


#: tanh has 2^n segments for each exponent from 2^-8 to 2^2: n.
_SPLIT = (0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3)
_FIRST = tuple(accumulate((1 << split for split in _SPLIT), initial=0))[:-1]


@_function
def tanh(ops: Ops, x: Value) -> Value:
    """The hyperbolic tangent: x itself below 2^-8, 1 from 8."""
    size = x & _SIZE
    row = ops.smaller((size >> 23) - 119, len(_SPLIT) - 1)
    split, first = (ops.table(row, f"mufu.tanh.{name}", each, 32) for name, each in (("n", _SPLIT), ("first", _FIRST)))
    fraction = size & _FRACTION
    total = interpolated(ops, "tanh", first + (fraction >> (23 - split)), fraction >> (6 - split) & ((1 << _X) - 1))
    result = ops.select(size < 0x3B800000, size, ops.select(size > 0x40FFFFFF, 0x3F800000, _float(ops, total)))
    return ops.select(size > _INFINITY, _NAN, result | x & _SIGN)
