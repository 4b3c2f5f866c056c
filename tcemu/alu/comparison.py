"""Comparison and selection (PTX ISA 9.1, 9.7.6 and 9.7.7)."""

from __future__ import annotations

from tcemu.alu.floats import flushed
from tcemu.alu.row import Ops, Row, Value, Words


def integers(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """A comparison of integers."""
    how = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(words["CmpOp"], words["CmpOp"])
    if how in ("eq", "ne"):
        return x == y if how == "eq" else x != y
    if how in ("gt", "ge"):
        x, y, how = y, x, "lt" if how == "gt" else "le"
    if words["type"][0] == "s":
        return ops.less(x, y) if how == "lt" else ops.less_equal(x, y)
    return x < y if how == "lt" else x <= y


def compared(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """A comparison of floats of 32 or 64 bits."""
    return ops.fcompare(words["CmpOp"], flushed(ops, words, x, "f32"), flushed(ops, words, y, "f32"))


def selected(ops: Ops, words: Words, x: Value, y: Value, which: Value) -> Value:
    """One or the other."""
    return ops.select(which, x, y)


INTEGERS = "u16 u32 u64 s16 s32 s64"
_FLOATING = {"CmpOp": "eq ne lt le gt ge equ neu ltu leu gtu geu num nan"}

ROWS = (
    Row("setp.CmpOp.type", "pred", "type type", integers, "9.7.6.2", {"CmpOp": "eq ne lt le gt ge", "type": INTEGERS}),
    Row("setp.CmpOp.type", "pred", "type type", integers, "9.7.6.2", {"CmpOp": "lo ls hi hs", "type": "u16 u32 u64"}),
    Row("setp.CmpOp.type", "pred", "type type", integers, "9.7.6.2", {"CmpOp": "eq ne", "type": "b16 b32 b64"}),
    Row("setp.CmpOp{.ftz}.f32", "pred", "f32 f32", compared, "9.7.6.2", _FLOATING),
    Row("setp.CmpOp.f64", "pred", "f64 f64", compared, "9.7.6.2", _FLOATING),
    Row("selp.type", "type", "type type pred", selected, "9.7.6.3", {"type": f"b16 b32 b64 {INTEGERS} f32 f64"}),
)
