"""Logic and shifts (PTX ISA 9.1, 9.7.8)."""

from __future__ import annotations

import functools
import operator

from tcemu.alu.floats import size
from tcemu.alu.row import Ops, Row, Value, Words, plain


def _shifted(ops: Ops, x: Value, amount: Value, *, left: bool, signed: bool = False) -> Value:
    """By the width or more, every bit is shifted out, and 0 or the sign is left."""
    bits, known = size(x), ops.number(amount)
    by = min(known, bits - 1) if known is not None else ops.unsigned(ops.smaller(amount, bits - 1), bits)
    if signed:
        return ops.shift_signed(x, by)
    moved = x << by if left else x >> by
    if known is not None:
        return moved if known < bits else x & 0
    return ops.select(amount > bits - 1, 0, moved)


def _left(ops: Ops, words: Words, x: Value, amount: Value) -> Value:
    return _shifted(ops, x, amount, left=True)


def _right(ops: Ops, words: Words, x: Value, amount: Value) -> Value:
    return _shifted(ops, x, amount, left=False, signed=words["type"][0] == "s")


def _funnel(ops: Ops, words: Words, low: Value, high: Value, amount: Value) -> Value:
    """32 of the 64 bits of two registers, after a shift."""
    amount = amount & 31 if words["mode"] == "wrap" else ops.smaller(amount, 32)
    both, by = ops.unsigned(low, 64) | (ops.unsigned(high, 64) << 32), ops.unsigned(amount, 64)
    return ops.unsigned((both << by) >> 32 if words["side"] == "l" else both >> by, 32)


def _not_set(ops: Ops, words: Words, x: Value) -> Value:
    return ops.unsigned(x == 0, size(x))


def by_table(ops: Ops, words: Words, x: Value, y: Value, z: Value, table: Value) -> Value:
    """The function of three bits whose results are the bits of an immediate: of x = 1, y = 0 and z = 1, bit 5."""
    results = ops.number(table)
    if results is None:  # which PTX does not allow, but a test of all tables at once does
        sides = [((~x, x)[n >> 2], (~y, y)[n >> 1 & 1], (~z, z)[n & 1]) for n in range(8)]
        return functools.reduce(operator.or_, (a & b & c & -(table >> n & 1) for n, (a, b, c) in enumerate(sides)))
    number, other = results & 15, results >> 4
    clear, is_set = _of_two(y, z, number), _of_two(y, z, other)
    if number == other:
        return clear
    if number == 15 - other:
        return x ^ clear
    if number == 0:
        return x & is_set
    if other == 15:
        return x | clear
    return clear ^ (x & (clear ^ is_set))


def _of_two(y: Value, z: Value, results: int) -> Value:
    """A function of two bits, by its four results."""
    simple = {0: lambda: y & 0, 2: lambda: ~y & z, 4: lambda: y & ~z, 6: lambda: y ^ z, 8: lambda: y & z}
    simple |= {10: lambda: z, 12: lambda: y, 14: lambda: y | z}
    return ~simple[15 - results]() if results & 1 else simple[results]()


def _with_predicate(
    ops: Ops, words: Words, x: Value, y: Value, z: Value, table: Value, q: Value
) -> tuple[Value, Value]:
    result = by_table(ops, words, x, y, z, table)
    return result, operator.or_(result != 0, q) if words["BoolOp"] == "or" else (result != 0) & q


_LOGIC = {"btype": "pred b16 b32 b64"}

ROWS = (
    Row("and.btype", "btype", "btype btype", plain(operator.and_), "9.7.8.1", _LOGIC),
    Row("or.btype", "btype", "btype btype", plain(operator.or_), "9.7.8.2", _LOGIC),
    Row("xor.btype", "btype", "btype btype", plain(operator.xor), "9.7.8.3", _LOGIC),
    Row("not.btype", "btype", "btype", plain(operator.invert), "9.7.8.4", _LOGIC),
    Row("cnot.btype", "btype", "btype", _not_set, "9.7.8.5"),
    Row("lop3.b32", "b32", "b32 b32 b32 u32", by_table, "9.7.8.6"),
    Row(
        "lop3.BoolOp.b32",
        "b32|pred",
        "b32 b32 b32 u32 pred",
        _with_predicate,
        "9.7.8.6",
        {"BoolOp": "or and"},
    ),
    Row("shf.side.mode.b32", "b32", "b32 b32 u32", _funnel, "9.7.8.7", {"side": "l r", "mode": "clamp wrap"}),
    Row("shl.btype", "btype", "btype u32", _left, "9.7.8.8"),
    Row("shr.type", "type", "type u32", _right, "9.7.8.9", {"type": "b16 b32 b64 u16 u32 u64 s16 s32 s64"}),
)
