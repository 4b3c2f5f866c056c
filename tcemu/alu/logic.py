"""Logic and shifts (PTX ISA 9.1, 9.7.8)."""

from __future__ import annotations

import operator

from tcemu.alu.floats import size
from tcemu.alu.row import Ops, Row, Value, Words, plain

_LOGIC = {"btype": "pred b16 b32 b64"}


def places(ops: Ops, x: Value, amount: Value) -> tuple[Value, Value]:
    """How far x is shifted, as a number of its width that is less than that, and where the amount is not."""
    bits = size(x)
    too_far = amount > bits - 1
    return ops.unsigned(ops.smaller(amount, bits - 1), bits), too_far


def left(ops: Ops, words: Words, x: Value, amount: Value) -> Value:
    """Shift left; by the width or more, 0."""
    by, too_far = places(ops, x, amount)
    return ops.select(too_far, 0, x << by)


def right(ops: Ops, words: Words, x: Value, amount: Value) -> Value:
    """Shift right; by the width or more, copies of the sign, or 0."""
    by, too_far = places(ops, x, amount)
    if words["type"][0] == "s":
        return ops.shift_signed(x, by)
    return ops.select(too_far, 0, x >> by)



ROWS = (
    Row("and.btype", "btype", "btype btype", plain(operator.and_), "9.7.8.1", _LOGIC),
    Row("or.btype", "btype", "btype btype", plain(operator.or_), "9.7.8.2", _LOGIC),
    Row("xor.btype", "btype", "btype btype", plain(operator.xor), "9.7.8.3", _LOGIC),
    Row("not.btype", "btype", "btype", plain(operator.invert), "9.7.8.4", _LOGIC),
    Row("shl.btype", "btype", "btype u32", left, "9.7.8.8"),
    Row("shr.type", "type", "type u32", right, "9.7.8.9", {"type": "b16 b32 b64 u16 u32 u64 s16 s32 s64"}),
)
