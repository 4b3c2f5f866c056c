"""Integer instructions: arithmetic, extended precision, bits and bytes (PTX ISA 9.1, 9.7.1 and 9.7.2)."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from tcemu.alu.floats import size
from tcemu.alu.row import Ops, Row, Value, Words, plain


def is_signed(words: Words, name: str = "itype") -> bool:
    """Whether the type that the row calls `name` is signed."""
    return words[name][0] == "s"


def extended(ops: Ops, x: Value, *, signed: bool, bits: int) -> Value:
    """Widened by its type."""
    return ops.signed(x, bits) if signed else ops.unsigned(x, bits)


def minus(ops: Ops, negative: Value, x: Value) -> Value:
    """-x where a mask is set, else x."""
    return ops.select(negative, -x, x)


# ------------------------------------------------------------------------------------------------ products


def high(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The high half of a product."""
    return ops.high_product_signed(x, y) if is_signed(words) else ops.high_product(x, y)


def wide(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The whole product."""
    signed, bits = is_signed(words), 2 * size(x)
    return extended(ops, x, signed=signed, bits=bits) * extended(ops, y, signed=signed, bits=bits)


def low(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The low half of a product."""
    return x * y


def plus(product: Any, ops: Ops, words: Words, x: Value, y: Value, z: Value) -> Value:
    """A multiply-add of one of these products."""
    return product(ops, words, x, y) + z


def saturating_sum(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The signed sum, or the largest or smallest number."""
    total = x + y
    limit = ops.shift_signed(x, 31) ^ 0x7FFFFFFF
    return ops.select(ops.less((total ^ x) & (total ^ y), 0), limit, total)


def of_24_bits(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """48 bits of a product of 24-bit numbers: the low or the high 32 of them."""
    signed = is_signed(words)

    def cut(value: Value) -> Value:
        return ops.shift_signed(value << 8, 8) if signed else value & 0xFFFFFF

    product = wide(ops, words, cut(x), cut(y))
    return ops.unsigned(product >> 16 if words["half"] == "hi" else product, 32)


# ------------------------------------------------------------------------------------------------ quotients


def _divided(ops: Ops, words: Words, x: Value, y: Value, *, remainder: bool) -> Value:
    """Rounded toward 0; a divisor of 0 gives ones, in the quotient and in the remainder."""
    by_zero, operation = y == 0, ops.remainder if remainder else ops.divide
    safe = ops.select(by_zero, 1, y)
    if is_signed(words):
        left, right = ops.less(x, 0), ops.less(y, 0)
        found = operation(minus(ops, left, x), minus(ops, right, safe))
        found = minus(ops, left if remainder else left ^ right, found)
    else:
        found = operation(x, safe)
    return ops.select(by_zero, -1, found)


divided, remaining = partial(_divided, remainder=False), partial(_divided, remainder=True)


# ------------------------------------------------------------------------------------------------ one or the other


def smaller(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The minimum."""
    return ops.smaller_signed(x, y) if is_signed(words) else ops.smaller(x, y)


def larger(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The maximum."""
    return ops.larger_signed(x, y) if is_signed(words) else ops.larger(x, y)


def in_parts(meaning: Any, bits: int, ops: Ops, words: Words, *values: Value) -> Value:
    """A meaning applied to the parts of packed operands."""
    whole = size(values[0])
    return ops.joined(meaning(ops, words, *(ops.parts(each, bits) for each in values)), whole)


def packed(meaning: Any, bits: int = 16) -> Any:
    """A meaning of packed operands."""
    return partial(in_parts, meaning, bits)


# ------------------------------------------------------------------------------------------------ the rows


ROWS = (
    Row("add.itype", "itype", "itype itype", plain(operator.add), "9.7.1.1"),
    Row("add.sat.s32", "s32", "s32 s32", saturating_sum, "9.7.1.1"),
    Row("sub.itype", "itype", "itype itype", plain(operator.sub), "9.7.1.2"),
    Row("mul.lo.itype", "itype", "itype itype", low, "9.7.1.3"),
    Row("mul.hi.itype", "itype", "itype itype", high, "9.7.1.3"),
    Row("mul.wide.itype", "wide", "itype itype", wide, "9.7.1.3", {"itype": "u16 s16 u32 s32"}),
    Row("mad.lo.itype", "itype", "itype itype itype", partial(plus, low), "9.7.1.4"),
    Row("mad.hi.itype", "itype", "itype itype itype", partial(plus, high), "9.7.1.4"),
    Row(
        "mad.wide.itype", "wide", "itype itype wide", partial(plus, wide), "9.7.1.4",
        {"itype": "u16 s16 u32 s32"},
    ),
    Row("div.itype", "itype", "itype itype", divided, "9.7.1.8"),
    Row("rem.itype", "itype", "itype itype", remaining, "9.7.1.9"),
    Row("neg.itype", "itype", "itype", plain(operator.neg), "9.7.1.11", {"itype": "s16 s32 s64"}),
    Row("min.itype", "itype", "itype itype", smaller, "9.7.1.12"),
    Row("max.itype", "itype", "itype itype", larger, "9.7.1.13"),
)
