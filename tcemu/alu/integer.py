"""Integer arithmetic, also with a carry (PTX ISA 9.1, 9.7.1 and 9.7.2); what concerns single bits is in `bits`."""

from __future__ import annotations

import operator
from functools import partial

from tcemu.alu.floats import size
from tcemu.alu.row import Meaning, Ops, Row, Value, Words, plain


def is_signed(words: Words, name: str = "itype") -> bool:
    """Whether the type that the row calls `name` is signed."""
    return words[name][0] == "s"


def extended(ops: Ops, x: Value, *, signed: bool, bits: int) -> Value:
    """Widened as its type demands, or cut off."""
    return ops.signed(x, bits) if signed else ops.unsigned(x, bits)


def minus(ops: Ops, negative: Value, x: Value) -> Value:
    """-x where a mask is set, else x."""
    return ops.select(negative, -x, x)


def packed(meaning: Meaning, bits: int = 16) -> Meaning:
    """A meaning for packed operands: it is applied to their parts."""
    return partial(_in_parts, meaning, bits)


def _in_parts(meaning: Meaning, bits: int, ops: Ops, words: Words, *values: Value) -> Value:
    return ops.joined(meaning(ops, words, *(ops.parts(each, bits) for each in values)), size(values[0]))


# ------------------------------------------------------------------------------------------------ sums


def saturating(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The signed sum, or the largest or smallest number if it is too large or too small."""
    total = x + y
    limit = ops.shift_signed(x, 31) ^ 0x7FFFFFFF
    return ops.select(ops.less((total ^ x) & (total ^ y), 0), limit, total)


def _saturating_difference(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    total = x - y
    limit = ops.shift_signed(x, 31) ^ 0x7FFFFFFF
    return ops.select(ops.less((total ^ x) & (x ^ y), 0), limit, total)


def _sum_of_differences(ops: Ops, words: Words, x: Value, y: Value, z: Value) -> Value:
    smaller, larger = _extreme("min", ops, words, x, y), _extreme("max", ops, words, x, y)
    return larger - smaller + z


def carried(ops: Ops, words: Words, x: Value, y: Value, carry: Value | None = None) -> tuple[Value, Value]:
    """The sum of two numbers and a carry, and whether it carries."""
    total = x + y
    if carry is None:
        return total, total < x
    more = total + ops.unsigned(carry, size(x))
    return more, (total < x) | (more < total)


def _subtracted(ops: Ops, words: Words, x: Value, y: Value, carry: Value | None = None) -> tuple[Value, Value]:
    """The sum of x, ~y and a carry. So CC.CF is, on GPUs, where the manual has a borrow, clear if there is one."""
    total = x - y
    if carry is None:
        return total, y <= x
    return total - ops.unsigned(~carry, size(x)), (y < x) | ((x == y) & carry)


def _first(meaning: Meaning) -> Meaning:
    """Without the carry that it returns."""
    return partial(_take_first, meaning)


def _take_first(meaning: Meaning, ops: Ops, words: Words, *values: Value) -> Value:
    return meaning(ops, words, *values)[0]


# ------------------------------------------------------------------------------------------------ products


def low(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The low half of a product."""
    return x * y


def high(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The high half of a product."""
    return ops.high_product_signed(x, y) if is_signed(words) else ops.high_product(x, y)


def wide(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The whole product."""
    signed, bits = is_signed(words), 2 * size(x)
    return extended(ops, x, signed=signed, bits=bits) * extended(ops, y, signed=signed, bits=bits)


def _of_24_bits(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """The low or high 32 of the 48 bits of a product."""

    def cut(value: Value) -> Value:
        return ops.shift_signed(value << 8, 8) if is_signed(words) else value & 0xFFFFFF

    product = wide(ops, words, cut(x), cut(y))
    return ops.unsigned(product >> 16 if words["half"] == "hi" else product, 32)


def _plus(product: Meaning, ops: Ops, words: Words, x: Value, y: Value, z: Value) -> Value:
    result = product(ops, words, x, y)
    return saturating(ops, words, result, z) if "sat" in words else result + z


def _plus_carried(
    product: Meaning, ops: Ops, words: Words, x: Value, y: Value, z: Value, carry: Value | None = None
) -> tuple[Value, Value]:
    return carried(ops, words, product(ops, words, x, y), z, carry)


# ------------------------------------------------------------------------------------------------ quotients


def _divided(ops: Ops, words: Words, x: Value, y: Value, *, remainder: bool = False) -> Value:
    """Rounded toward 0; a divisor of 0 gives ones, in the quotient and in the remainder."""
    by_zero, operation = y == 0, ops.remainder if remainder else ops.divide
    safe = ops.select(by_zero, 1, y)
    if is_signed(words):
        left, right = ops.less(x, 0), ops.less(y, 0)
        result = operation(minus(ops, left, x), minus(ops, right, safe))
        result = minus(ops, left if remainder else left ^ right, result)
    else:
        result = operation(x, safe)
    return ops.select(by_zero, -1, result)


# ------------------------------------------------------------------------------------------------ signs


def _absolute(ops: Ops, words: Words, x: Value) -> Value:
    return minus(ops, ops.less(x, 0), x)


def _extreme(name: str, ops: Ops, words: Words, x: Value, y: Value) -> Value:
    signed = is_signed(words)
    choose = {
        ("min", False): ops.smaller,
        ("max", False): ops.larger,
        ("min", True): ops.smaller_signed,
        ("max", True): ops.larger_signed,
    }[name, signed]
    result = choose(x, y)
    return ops.larger_signed(result, 0) if "relu" in words else result


# ------------------------------------------------------------------------------------------------ the rows

_NARROW = {"itype": "u16 s16 u32 s32"}
_SIGNED = {"itype": "s16 s32 s64"}
_WORDS = {"itype": "u32 s32", "half": "lo hi"}
_PAIRS = {"itype": "u16x2 s16x2"}
_CARRYING = {"itype": "u32 s32 u64 s64"}


def _row(spelling: str, operands: int, section: str, meaning: Meaning, words: Words | None = None) -> Row:
    """A row whose operands and result have the type at the end of the spelling."""
    kind = spelling.rpartition(".")[2]
    return Row(spelling, kind, " ".join([kind] * operands), meaning, section, words or {})


def _extremes() -> list[Row]:
    rows = []
    for name, section in (("min", "9.7.1.12"), ("max", "9.7.1.13")):
        meaning = partial(_extreme, name)
        rows += [
            _row(f"{name}.itype", 2, section, meaning),
            _row(f"{name}.itype", 2, section, packed(meaning), _PAIRS),
            _row(f"{name}.relu.itype", 2, section, meaning, {"itype": "s32"}),
            _row(f"{name}.relu.itype", 2, section, packed(meaning), {"itype": "s16x2"}),
        ]
    return rows


def _carrying() -> list[Row]:
    """Those that write CC.CF, read it, or both."""
    rows = []
    forms: tuple[tuple[str, str, int, int, Meaning], ...] = (
        ("add", "addc", 2, 1, carried),
        ("sub", "subc", 2, 3, _subtracted),
        ("mad.lo", "madc.lo", 3, 5, partial(_plus_carried, low)),
        ("mad.hi", "madc.hi", 3, 5, partial(_plus_carried, high)),
    )
    for name, reading, operands, section, meaning in forms:
        types, own, next_one = " ".join(["itype"] * operands), f"9.7.2.{section}", f"9.7.2.{section + 1}"
        rows += [
            Row(f"{name}.cc.itype", "itype", types, meaning, own, _CARRYING, carry="out"),
            Row(f"{reading}.itype", "itype", types, _first(meaning), next_one, _CARRYING, carry="in"),
            Row(f"{reading}.cc.itype", "itype", types, meaning, next_one, _CARRYING, carry="in out"),
        ]
    return rows


ROWS = (
    _row("add.itype", 2, "9.7.1.1", plain(operator.add)),
    _row("add.itype", 2, "9.7.1.1", packed(plain(operator.add)), _PAIRS),
    _row("add.sat.s32", 2, "9.7.1.1", saturating),
    _row("sub.itype", 2, "9.7.1.2", plain(operator.sub)),
    _row("sub.sat.s32", 2, "9.7.1.2", _saturating_difference),
    _row("mul.lo.itype", 2, "9.7.1.3", low),
    _row("mul.hi.itype", 2, "9.7.1.3", high),
    Row("mul.wide.itype", "wide", "itype itype", wide, "9.7.1.3", _NARROW),
    _row("mad.lo.itype", 3, "9.7.1.4", partial(_plus, low)),
    _row("mad.hi.itype", 3, "9.7.1.4", partial(_plus, high)),
    _row("mad.hi.sat.itype", 3, "9.7.1.4", partial(_plus, high), {"itype": "s32"}),
    Row("mad.wide.itype", "wide", "itype itype wide", partial(_plus, wide), "9.7.1.4", _NARROW),
    _row("mul24.half.itype", 2, "9.7.1.5", _of_24_bits, _WORDS),
    _row("mad24.half.itype", 3, "9.7.1.6", partial(_plus, _of_24_bits), _WORDS),
    _row("mad24.half.sat.itype", 3, "9.7.1.6", partial(_plus, _of_24_bits), {"itype": "s32", "half": "hi"}),
    _row("sad.itype", 3, "9.7.1.7", _sum_of_differences),
    _row("div.itype", 2, "9.7.1.8", _divided),
    _row("rem.itype", 2, "9.7.1.9", partial(_divided, remainder=True)),
    _row("abs.itype", 1, "9.7.1.10", _absolute, _SIGNED),
    _row("neg.itype", 1, "9.7.1.11", plain(operator.neg), _SIGNED),
    *_extremes(),
    *_carrying(),
)
