"""Scalar video instructions: arithmetic of a byte, a half or the whole of each operand (PTX ISA 9.1, 9.7.18.1).

No GPU since Maxwell has them: ptxas makes several instructions of each. Where these differ from the manual's text, they
are what is here, since they are what a GPU executes:

- .sat to u32 of vadd, vsub, vabsdiff, vmin and vmax raises what is below 0, but does not lower what is above.
- .sat to a byte or half lowers what is above its largest value, and makes the largest of what is below 0. That of vshl
  and vshr is to 32 bits, of which it takes the lowest.
- What is put in .h1 of d is the high half of the 32 bits of the result. It is 0 after .sat, except that of shifts.
- A secondary .min or .max into u32 compares 64 bits without a sign, so that what is below 0 is the larger one. Of vadd
  and vsub, and of vshl and vshr with .sat, it compares the s32 that the low 32 bits of the result are. That of vset has
  a sign if a has one.
- vmad takes whole registers and c as signed, also where their type is u32, and does not care for the type of d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tcemu.alu.bits import part
from tcemu.alu.integer import extended, is_signed
from tcemu.alu.row import Meaning, Ops, Row, Value, Words
from tcemu.alu.video import ARITHMETIC, COMPARISONS

#: Of d, a and b, the part that a selector names, such as "b3" or "h0"; empty for all of it.
Selectors = tuple[str, str, str]
_WHOLE: Selectors = ("", "", "")
_WIDTHS = {"": 32, "h": 16, "b": 8}


def _taken(ops: Ops, value: Value, selector: str, *, signed: bool) -> Value:
    """A byte, half or all of an operand, extended to 64 bits."""
    if selector:
        value = part(ops, value, int(selector[1]), _WIDTHS[selector[0]], signed=signed)
    return extended(ops, value, signed=signed, bits=64)


def _short(ops: Ops, value: Value, bits: int) -> Value:
    """The number that the low bits are, with a sign."""
    return ops.shift_signed(value << (64 - bits), 64 - bits)


def _between(ops: Ops, value: Value, low: int, high: int) -> Value:
    return ops.smaller_signed(ops.larger_signed(value, low), high)


def _saturated(ops: Ops, value: Value, made: str, *, signed: bool, upwards: bool = True) -> Value:
    """The nearest number that d or its part can have; see above for what is not the nearest."""
    bits = _WIDTHS[made[:1]]
    if bits < 32:
        return ops.smaller(value, (1 << bits - signed) - 1)
    if signed:
        return _between(ops, value, -(1 << 31), (1 << 31) - 1)
    return _between(ops, value, 0, (1 << 32) - 1) if upwards else ops.larger_signed(value, 0)


def _finished(ops: Ops, words: Words, value: Value, z: Value, made: str, *, signed: bool) -> Value:
    """d: the low bits of the result, of the secondary operation on it and z, or of z with a part replaced."""
    if made:
        bits = _WIDTHS[made[0]]
        ones, low = (1 << bits) - 1, bits * int(made[1])
        value = ops.unsigned(value, 32)
        return (z & (ones << low ^ 0xFFFFFFFF)) | ((value >> 16 if made == "h1" else value) & ones) << low
    if "op2" in words:
        value = _SECOND[words["op2"], signed](ops, value, extended(ops, z, signed=signed, bits=64))
    return ops.unsigned(value, 32)


_SECOND: dict[tuple[str, bool], Callable[[Ops, Value, Value], Value]] = {
    ("add", False): lambda _, x, y: x + y,
    ("add", True): lambda _, x, y: x + y,
    ("min", False): lambda ops, x, y: ops.smaller(x, y),
    ("min", True): lambda ops, x, y: ops.smaller_signed(x, y),
    ("max", False): lambda ops, x, y: ops.larger(x, y),
    ("max", True): lambda ops, x, y: ops.larger_signed(x, y),
}


def _arithmetic(
    name: str, ops: Ops, words: Words, x: Value, y: Value, z: Value = None, selectors: Selectors = _WHOLE
) -> Value:
    made, of_x, of_y = selectors
    x = _taken(ops, x, of_x, signed=is_signed(words, "atype"))
    y = _taken(ops, y, of_y, signed=is_signed(words, "btype"))
    value, signed = ARITHMETIC[name](ops, x, y), is_signed(words, "dtype")
    if "sat" in words:
        value = _saturated(ops, value, made, signed=signed, upwards=False)
    if name in ("vadd", "vsub"):
        value = _short(ops, value, 32)
    return _finished(ops, words, value, z, made, signed=signed)


def _shift(
    name: str, ops: Ops, words: Words, x: Value, y: Value, z: Value = None, selectors: Selectors = _WHOLE
) -> Value:
    """By 32 at most. What is saturated is the number that the low 34 bits of the shifted one are."""
    made, of_x, of_y = selectors
    x = _taken(ops, x, of_x, signed=is_signed(words, "atype"))
    amount = _taken(ops, y, of_y, signed=False)
    amount = ops.smaller(amount, 32) if words["mode"] == "clamp" else amount & 31
    value, signed = x << amount if name == "vshl" else ops.shift_signed(x, amount), is_signed(words, "dtype")
    if "sat" in words:
        value = _short(ops, _saturated(ops, _short(ops, value, 34), "", signed=signed), 32)
    return _finished(ops, words, value, z, made, signed=signed)


def _comparison(ops: Ops, words: Words, x: Value, y: Value, z: Value = None, selectors: Selectors = _WHOLE) -> Value:
    made, of_x, of_y = selectors
    x = _taken(ops, x, of_x, signed=is_signed(words, "atype"))
    y = _taken(ops, y, of_y, signed=is_signed(words, "btype"))
    value = ops.unsigned(COMPARISONS[words["cmp"]](ops, x, y), 64)
    return _finished(ops, words, value, z, made, signed=is_signed(words, "atype"))


def _product_and_sum(
    ops: Ops,
    words: Words,
    x: Value,
    y: Value,
    z: Value,
    selectors: Selectors = _WHOLE,
    minus: tuple[bool, bool] = (False, False),
) -> Value:
    """a * b + c, with 1 more for .po; `minus` says whether the product and c are negated."""
    _, of_x, of_y = selectors
    signs = [is_signed(words, kind) for kind in ("atype", "btype")]
    x = _taken(ops, x, of_x, signed=signs[0] or not of_x)
    y = _taken(ops, y, of_y, signed=signs[1] or not of_y)
    z = ops.signed(z, 64)
    value = (-(x * y) if minus[0] else x * y) + (-z if minus[1] else z) + ("po" in words)
    signed = any(signs) or any(minus)
    by = {"": 0, "shr7": 7, "shr15": 15}[words.get("scale", "")]
    value = ops.shift_signed(value, by) if signed else value >> by
    return ops.unsigned(_saturated(ops, value, "", signed=signed) if "sat" in words else value, 32)


# ------------------------------------------------------------------------------------------------ the rows

_TYPES = dict.fromkeys(("dtype", "atype", "btype"), "u32 s32")
_OP2 = {"op2": "add min max"}


def _forms(spelling: str, result: str, meaning: Meaning, words: dict[str, str]) -> Iterator[Row]:
    """The forms of two operands, with a secondary operation, and with a third operand for the rest of d."""
    yield Row(spelling, result, "b32 b32", meaning, "9.7.18.1", words, parts=1)
    yield Row(f"{spelling}.op2", result, f"b32 b32 {result}", meaning, "9.7.18.1", words | _OP2, parts=1)
    yield Row(
        spelling, result, f"b32 b32 {result}", meaning, "9.7.18.1", words, parts=1, extra="merge", known="kernels"
    )


def _rows() -> Iterator[Row]:
    for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
        spelling = f"{name}.dtype.atype.btype{{.sat}}"
        yield from _forms(spelling, "dtype", partial(_arithmetic, name), _TYPES)
    shifted = {"dtype": "u32 s32", "atype": "u32 s32", "mode": "clamp wrap"}
    for name in ("vshl", "vshr"):
        spelling = f"{name}.dtype.atype.u32{{.sat}}.mode"
        yield from _forms(spelling, "dtype", partial(_shift, name), shifted)
    types, product = _TYPES | {"scale": "shr7 shr15"}, ("dtype", "b32 b32 b32", _product_and_sum, "9.7.18.1")
    yield Row("vmad.dtype.atype.btype{.sat}{.scale}", *product, types, parts=1, extra="minus")
    yield Row("vmad.dtype.atype.btype.po{.sat}{.scale}", *product, types, parts=1)
    compared = {"atype": "u32 s32", "btype": "u32 s32", "cmp": " ".join(COMPARISONS)}
    yield from _forms("vset.atype.btype.cmp", "u32", _comparison, compared)


ROWS = tuple(_rows())
