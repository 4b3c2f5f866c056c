"""What all floating-point instructions share: NaNs, .ftz, .sat and .relu, on the bits of floats."""

from __future__ import annotations

from tcemu.alu.arrays import width
from tcemu.alu.row import Ops, Value, Words

#: Exponent and fraction bits, by width; 16 is f16. BF16 has the exponent of f32.
SIGN = {16: 1 << 15, 32: 1 << 31, 64: 1 << 63}
INFINITY = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}
ONE = {16: 0x3C00, 32: 0x3F800000, 64: 0x3FF0000000000000}
#: The NaN that instructions of 16 and 32 bits give, whatever the NaN of an operand.
NAN = {16: 0x7FFF, 32: 0x7FFFFFFF}


def size(x: Value) -> int:
    """The bits of a value of either backend."""
    return x.bits if hasattr(x, "bits") else width(x)


def is_nan(ops: Ops, x: Value) -> Value:
    """A mask of NaNs."""
    bits = size(x)
    return (x & (SIGN[bits] - 1)) > INFINITY[bits] if bits == 16 else ops.fcompare("nan", x, x)


def with_nan(ops: Ops, x: Value) -> Value:
    """A result whose NaNs are those of the hardware."""
    return ops.select(is_nan(ops, x), NAN[size(x)], x)


def flushed(ops: Ops, words: Words, x: Value) -> Value:
    """With .ftz, subnormal numbers become zeros of their sign."""
    if "ftz" not in words:
        return x
    bits = size(x)
    return ops.select((x & INFINITY[bits]) == 0, x & SIGN[bits], x)


def saturated(ops: Ops, words: Words, x: Value) -> Value:
    """With .sat, clamped to 0 to 1; a NaN becomes +0."""
    if "sat" not in words:
        return x
    one = ONE[size(x)]
    x = ops.select(ops.less_equal(x, 0) | is_nan(ops, x), 0, x)
    return ops.smaller(x, one)


def finished(ops: Ops, words: Words, x: Value) -> Value:
    """A result of 32 or 16 bits: its NaN, .ftz and .sat."""
    if "sat" in words:
        return flushed(ops, words, saturated(ops, words, x))
    return flushed(ops, words, with_nan(ops, x))
