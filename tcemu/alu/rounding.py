"""Roundings that processors lack: to odd, and in the directions .rz, .rm and .rp.

A number that was rounded to odd in a wider format rounds to a narrower one as if it had not been rounded before (Boldo
and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from tcemu.alu.floats import ONE, magnitude, size
from tcemu.alu.row import Ops, Value


def nearest(operation: str, ops: Ops, *values: Value) -> Value:
    """An operation of IEEE 754 on floats of 32 or 64 bits, rounded to nearest."""
    if operation == "rcp":
        kind = f"f{size(values[0])}"
        return ops.fdiv(ops.constant(ONE[kind], size(values[0])), values[0])
    return getattr(ops, {"fma": "fma"}.get(operation, f"f{operation}"))(*values)


def with_error(ops: Ops, x: Value, y: Value) -> tuple[Value, Value]:
    """The sum rounded to nearest, and its error, which is exact (Dekker); if it overflowed, an infinite one."""
    kind = f"f{size(x)}"
    swap = magnitude(x, kind) < magnitude(y, kind)
    large, small = ops.select(swap, y, x), ops.select(swap, x, y)
    total = ops.fadd(x, y)
    return total, ops.fsub(small, ops.fsub(total, large))


def _made_odd(ops: Ops, result: Value, inexact: Value, further: Value) -> Value:
    """A rounded number, or where it was inexact and is even, its neighbour: `further` from 0 or nearer."""
    step = ops.select(further, 1, -1, bits=size(result))
    return result + ops.select(inexact & ((result & 1) == 0), step, 0)


def odd(ops: Ops, total: Value, error: Value) -> Value:
    """A number rounded to odd instead of to nearest, from its error."""
    return _made_odd(ops, total, ops.fcompare("ne", error, 0), ~ops.less(total ^ error, 0))


def directed(ops: Ops, result: Value, below: Value, above: Value, rnd: str) -> Value:
    """A number rounded in a direction instead of to nearest.

    `below` is a mask of the lanes where the exact number is smaller, `above` of those where it is larger.
    """
    bits, negative = size(result), ops.less(result, 0)
    if rnd == "rm":
        return result + ops.select(below, ops.select(negative, 1, -1, bits=bits), 0)
    if rnd == "rp":
        return result + ops.select(above, ops.select(negative, -1, 1, bits=bits), 0)
    return result + ops.select((negative & above) | (~negative & below), -1, ops.constant(0, bits))


def narrowed(ops: Ops, x: Value, bits: int, rnd: str = "rn") -> Value:
    """A float of 64 or 32 bits as one of half as many; which NaN is open. `rnd` may be "odd"."""
    result = ops.fnarrow(x, bits)
    if rnd == "rn":
        return result
    back = ops.fwiden(result, 2 * bits)
    if rnd == "odd":
        kind = f"f{2 * bits}"
        return _made_odd(ops, result, ops.fcompare("ne", back, x), magnitude(x, kind) > magnitude(back, kind))
    return directed(ops, result, ops.fcompare("gt", back, x), ops.fcompare("lt", back, x), rnd)


def to_bf16(ops: Ops, x: Value, rnd: str = "rn") -> Value:
    """A float of 32 bits as BF16, which is its upper half."""
    if rnd == "rn":
        raised = x + ((x >> 16) & 1) + 0x7FFF
    elif rnd == "rz":
        raised = x
    else:
        raised = x + ops.select(ops.less(x, 0), *(0xFFFF, 0) if rnd == "rm" else (0, 0xFFFF), bits=32)
    return ops.select(ops.fcompare("nan", x, x), 0x7FFF, ops.unsigned(raised >> 16, 16))


def from_bf16(ops: Ops, x: Value) -> Value:
    """BF16 as a float of 32 bits."""
    return ops.unsigned(x, 32) << 16
