"""Bits and bytes of integers (PTX ISA 9.1, 9.7.1.14 to 9.7.1.24, and prmt)."""

from __future__ import annotations

from functools import partial

from tcemu.alu.floats import size
from tcemu.alu.integer import is_signed
from tcemu.alu.row import Meaning, Ops, Row, Value, Words


def _counted(count: str, ops: Ops, words: Words, x: Value) -> Value:
    return ops.unsigned(getattr(ops, count)(x), 32)


def _highest_bit(ops: Ops, words: Words, x: Value) -> Value:
    """The number of the first bit that is not a sign, or how far left it must move; ones if there is none."""
    bits = size(x)
    if is_signed(words):
        x = x ^ ops.shift_signed(x, bits - 1)
    zeros = ops.unsigned(ops.leading_zeros(x), 32)
    if "shiftamt" in words:
        return ops.select(zeros == bits, -1, zeros)
    return bits - 1 - zeros


def _nth_set(ops: Ops, x: Value, n: Value) -> Value:
    """The place of the bit before which n are set, counted from the lowest; ones if there is none."""
    enough, place = n < ops.ones(x), x & 0
    for step in (16, 8, 4, 2, 1):
        count = ops.ones((x >> place) & ((1 << step) - 1))
        beyond = n >= count
        n, place = ops.select(beyond, n - count, n), ops.select(beyond, place + step, place)
    return ops.select(enough, place & 31, -1)


def _fns(ops: Ops, words: Words, mask: Value, base: Value, offset: Value) -> Value:
    """The n-th bit that is set from a base, upwards or downwards; with an offset of 0, the base itself.

    An offset of -2**31 has no absolute value; silicon answers 0.
    """
    down, inside = ops.less(offset, 0), base < 32
    start = base & 31
    start = ops.select(down, 31 - start, start)
    ahead = (ops.select(down, ops.bits_reversed(mask), mask) >> start) << start
    distance = ops.select(down, -offset, offset)
    place = _nth_set(ops, ahead, distance - 1)
    place = ops.select(down & (place < 32), 31 - place, place)
    itself = ops.select(((mask >> (base & 31)) & 1) == 1, base, -1)
    nth = ops.select(inside, ops.select(offset == 0, itself, place), -1)
    return ops.select(offset == 1 << 31, 0, nth)


def _of_length(ops: Ops, x: Value, length: Value, *, signed: bool) -> Value:
    """The `length` low bits of x, extended; 0 of none, and all of as many as it has or more."""
    bits = size(x)
    away = bits - ops.larger(ops.smaller(length, bits), 1)
    kept = ops.shift_signed(x << away, away) if signed else (x << away) >> away
    return ops.select(length == 0, 0, kept)


def _field(ops: Ops, x: Value, bits: int) -> Value:
    """A place or length: 8 bits of it count in instructions of 32 bits, and all in those of 64, which are emulated."""
    return x & 0xFF if bits == 32 else ops.unsigned(x, 64)


def _extracted(ops: Ops, words: Words, x: Value, place: Value, length: Value) -> Value:
    bits, signed = size(x), is_signed(words)
    place, length = (_field(ops, each, bits) for each in (place, length))
    by = ops.smaller(place, bits - 1)
    moved = ops.shift_signed(x, by) if signed else ops.select(place > bits - 1, 0, x >> by)
    return _of_length(ops, moved, length, signed=signed)


def _inserted(ops: Ops, words: Words, x: Value, y: Value, place: Value, length: Value) -> Value:
    bits = size(x)
    place, length = (_field(ops, each, bits) for each in (place, length))
    by = ops.smaller(place, bits - 1)
    ones = _of_length(ops, ~(x & 0), length, signed=False)
    mask = ops.select(place > bits - 1, 0, ones << by)
    return (y & ~mask) | ((x << by) & mask)


def _sized(ops: Ops, words: Words, x: Value, length: Value) -> Value:
    length = length & 31 if words["mode"] == "wrap" else length
    return _of_length(ops, x, length, signed=is_signed(words))


def _masked(ops: Ops, words: Words, place: Value, length: Value) -> Value:
    """Ones from a place on; what is beyond bit 31 does not exist."""
    by = place & 31
    if words["mode"] == "wrap":
        return _of_length(ops, ~(place & 0), length & 31, signed=False) << by
    return ops.select(place > 31, 0, _of_length(ops, ~(place & 0), length, signed=False) << by)


def part(ops: Ops, value: Value, number: int, bits: int, *, signed: bool) -> Value:
    """One of the parts of 32 bits, the lowest of which is 0, extended to 32 bits."""
    moved = value << (32 - bits * (number + 1))
    return ops.shift_signed(moved, 32 - bits) if signed else moved >> (32 - bits)


def _dot_product(step: int, ops: Ops, words: Words, x: Value, y: Value, z: Value) -> Value:
    """Products of the parts of x and bytes of y, added to z: of all four bytes, or of two that .lo or .hi selects."""
    signed, other_signed = is_signed(words, "atype"), is_signed(words, "btype")
    first = 2 if words.get("half") == "hi" else 0
    for number in range(32 // step):
        z = z + part(ops, x, number, step, signed=signed) * part(ops, y, first + number, 8, signed=other_signed)
    return z


#: The bytes that a mode of prmt selects by the two low bits of its last operand; see the manual's tables.
_SELECTED = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def _permuted(ops: Ops, words: Words, x: Value, y: Value, selectors: Value) -> Value:
    """Four of the eight bytes of x and y; the high bit of a selector replicates the byte's sign instead."""
    if "mode" in words:
        selectors = ops.table(selectors & 3, f"prmt_{words['mode']}", _SELECTED[words["mode"]], 32)
    known, result = ops.number(selectors), x & 0
    both = ops.unsigned(x, 64) | (ops.unsigned(y, 64) << 32)
    for number in range(4):
        if known is not None:
            chosen = known >> 4 * number & 15
            byte = (y if chosen & 4 else x) << (24 - 8 * (chosen & 3))
            byte = ops.shift_signed(byte, 31) & (0xFF << 24) if chosen & 8 else byte & (0xFF << 24)
            result = result | byte >> (24 - 8 * number)
            continue
        chosen = selectors >> 4 * number
        byte = ops.unsigned(both >> ops.unsigned((chosen & 7) << 3, 64), 32) & 0xFF
        sign = -(byte >> 7) & 0xFF
        result = result | ops.select((chosen & 8) == 0, byte, sign) << 8 * number
    return result


# ------------------------------------------------------------------------------------------------ the rows

_MODES = {"mode": "clamp wrap"}
_SIGNS = {"atype": "u32 s32", "btype": "u32 s32"}


def _products(spelling: str, section: str, meaning: Meaning) -> list[Row]:
    """Of two unsigned operands the sum is unsigned, of others signed; its bits are the same."""
    halves = {"half": "lo hi"} if "half" in spelling else {}
    return [
        Row(spelling, "u32", "b32 b32 u32", meaning, section, {"atype": "u32", "btype": "u32", **halves}),
        Row(spelling, "s32", "b32 b32 s32", meaning, section, {"atype": "s32", "btype": "u32 s32", **halves}),
        Row(spelling, "s32", "b32 b32 s32", meaning, section, {"atype": "u32", "btype": "s32", **halves}),
    ]


ROWS = (
    *(
        Row(f"{name}.btype", "u32", "btype", partial(_counted, count), section, {"btype": "b32 b64"})
        for name, count, section in (("popc", "ones", "9.7.1.14"), ("clz", "leading_zeros", "9.7.1.15"))
    ),
    Row("bfind{.shiftamt}.itype", "u32", "itype", _highest_bit, "9.7.1.16", {"itype": "u32 s32 u64 s64"}),
    Row("fns.b32", "b32", "b32 b32 s32", _fns, "9.7.1.17"),
    Row("brev.btype", "btype", "btype", lambda ops, _, x: ops.bits_reversed(x), "9.7.1.18", {"btype": "b32 b64"}),
    Row("bfe.itype", "itype", "itype u32 u32", _extracted, "9.7.1.19", {"itype": "u32 s32 u64 s64"}),
    Row("bfi.btype", "btype", "btype btype u32 u32", _inserted, "9.7.1.20", {"btype": "b32 b64"}),
    Row("szext.mode.itype", "itype", "itype u32", _sized, "9.7.1.21", {"itype": "u32 s32", **_MODES}),
    Row("bmsk.mode.b32", "b32", "u32 u32", _masked, "9.7.1.22", _MODES),
    *_products("dp4a.atype.btype", "9.7.1.23", partial(_dot_product, 8)),
    *_products("dp2a.half.atype.btype", "9.7.1.24", partial(_dot_product, 16)),
    Row("prmt.b32{.mode}", "b32", "b32 b32 b32", _permuted, "9.7.9.7", {"mode": " ".join(_SELECTED)}),
)
