"""What floating-point instructions share, on the bits of floats: NaNs, .ftz, .sat and .relu."""

from __future__ import annotations

from tcemu.alu.arrays import width
from tcemu.alu.row import Ops, Value, Words

#: The bits of floats, by type: of the sign, of infinity, and of 1.
SIGN = {"f16": 1 << 15, "bf16": 1 << 15, "f32": 1 << 31, "f64": 1 << 63}
INFINITY = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}
#: The NaN that instructions of 16 and 32 bits give, whatever the NaN of an operand.
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}
#: The NaN that instructions of 64 bits give if no operand is one, and the bit that they set in an operand's.
INVALID, QUIET = 0xFFF8000000000000, 1 << 51


def size(x: Value) -> int:
    """The bits of a value of either backend."""
    return int(x.bits) if hasattr(x, "bits") else width(x)


def magnitude(x: Value, kind: str) -> Value:
    """Without its sign."""
    return x & (SIGN[kind] - 1)


def is_nan(ops: Ops, x: Value, kind: str) -> Value:
    """A mask of NaNs."""
    if kind in ("f32", "f64"):
        return ops.fcompare("nan", x, x)
    return magnitude(x, kind) > INFINITY[kind]


def propagated(ops: Ops, result: Value, *operands: Value) -> Value:
    """A result of 64 bits: of the operands that are NaNs, it is the last one, made quiet."""
    source = operands[0]
    for each in operands[1:]:
        source = ops.select(is_nan(ops, each, "f64"), each, source)
    nan = ops.select(is_nan(ops, source, "f64"), source | QUIET, INVALID)
    return ops.select(is_nan(ops, result, "f64"), nan, result)


def flushed(ops: Ops, words: Words, x: Value, kind: str) -> Value:
    """With .ftz, subnormal numbers become zeros of their sign."""
    if "ftz" not in words:
        return x
    return ops.select((x & INFINITY[kind]) == 0, x & SIGN[kind], x)


def clamped(ops: Ops, x: Value, kind: str) -> Value:
    """Clamped to 0 to 1; a NaN becomes +0."""
    return ops.smaller(ops.select(ops.less_equal(x, 0) | is_nan(ops, x, kind), 0, x), ONE[kind])


def finished(ops: Ops, words: Words, x: Value, kind: str, tiny: Value | None = None) -> Value:
    """A result of 16 or 32 bits: its NaN, .ftz, .sat and .relu.

    `tiny` is a mask of the lanes where .ftz gives 0, if that does not depend on the result alone.
    """
    if "ftz" in words:
        x = ops.select((x & INFINITY[kind]) == 0 if tiny is None else tiny, x & SIGN[kind], x)
    if "sat" in words:
        return clamped(ops, x, kind)
    x = ops.select(is_nan(ops, x, kind), NAN[kind], x)
    return ops.larger_signed(x, 0) if "relu" in words else x
