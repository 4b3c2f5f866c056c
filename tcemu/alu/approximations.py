"""Approximations (PTX ISA 9.1, 9.7.3 and 9.7.4): exact arithmetic around the functions of MUFU.

MUFU takes subnormal numbers as 0, and gives 0 instead of them. Without .ftz, operands that it does not take are scaled
first, by a power of 2, and the result is scaled back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tcemu.alu import mufu
from tcemu.alu.floating import single
from tcemu.alu.floats import INFINITY, INVALID, NAN, QUIET, SIGN, is_nan
from tcemu.alu.integer import packed
from tcemu.alu.rounding import from_bf16, narrowed, to_bf16
from tcemu.alu.row import Meaning, Ops, Row, Value, Words

_LEAST = 0x00800000  # the smallest normal number
_SIZE = 0x7FFFFFFF


def _power(exponent: int) -> int:
    """A power of 2, as the bits of a float."""
    return (exponent + 127) << 23


def _with_nan(ops: Ops, x: Value) -> Value:
    return ops.select((x & _SIZE) > INFINITY["f32"], NAN["f32"], x)


def _small(x: Value) -> Value:
    return (x & _SIZE) < _LEAST


def _scales(ops: Ops, x: Value) -> Value:
    """What brings an operand to where its reciprocal is a normal number, and the reciprocal to what it was."""
    one = ops.constant(_power(0), 32)
    return ops.select(_small(x), _power(24), ops.select((x & _SIZE) > _power(126), _power(-2), one))


def rcp(ops: Ops, words: Words, x: Value) -> Value:
    """The reciprocal."""
    if "ftz" in words:
        return mufu.rcp(ops, x)
    scale = _scales(ops, x)
    return _with_nan(ops, ops.fmul(mufu.rcp(ops, ops.fmul(x, scale)), scale))


def root(function: str, back: int, ops: Ops, words: Words, x: Value) -> Value:
    """The square root or its reciprocal; of a subnormal number, times 2^24, it is 2^-`back` times as large."""
    compute = mufu.FUNCTIONS[function]
    if "ftz" in words:
        return compute(ops, x)
    small = _small(x)
    result = compute(ops, ops.select(small, ops.fmul(x, _power(24)), x))
    return ops.select(small, _with_nan(ops, ops.fmul(result, _power(back))), result)


def lg2(ops: Ops, words: Words, x: Value) -> Value:
    """The logarithm to base 2."""
    if "ftz" in words:
        return mufu.lg2(ops, x)
    small = _small(x)
    result = mufu.lg2(ops, ops.select(small, ops.fmul(x, _power(24)), x))
    return ops.select(small, _with_nan(ops, ops.fsub(result, 0x41C00000)), result)


def ex2(ops: Ops, words: Words, x: Value) -> Value:
    """2 to the power of x: of what is below -126, the square of 2^(x / 2)."""
    if "ftz" in words:
        return mufu.ex2(ops, x)
    low = ops.fcompare("lt", x, 0xC2FC0000)
    result = mufu.ex2(ops, ops.select(low, ops.fmul(x, _power(-1)), x))
    return ops.select(low, ops.fmul(result, result), result)


#: 1 / (2 pi) as F32, in F64.
_TURNS = 0x3FC45F3060000000


def wave(function: str, ops: Ops, words: Words, x: Value) -> Value:
    """The sine or cosine, of x in turns: x / (2 pi) as F32, cut off."""
    exact = ops.fmul(ops.fwiden(x, 64), _TURNS)
    cut = exact & ((1 << 64) - (1 << 29))
    return mufu.FUNCTIONS[function](ops, ops.fnarrow(cut, 32))


def tanh(ops: Ops, words: Words, x: Value) -> Value:
    """The hyperbolic tangent."""
    return mufu.tanh(ops, x)


def quotient(ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """x times the reciprocal of y; both are scaled first where that is not a normal number."""
    if "ftz" not in words:
        x, y = _scaled(ops, words, _small(y), x, y, 24)
    if words["op"] == "full":
        x, y = _scaled(ops, words, (y & _SIZE) > _power(126), x, y, -2)
    return single("mul", ops, words, x, mufu.rcp(ops, y))


def _scaled(ops: Ops, words: Words, where: Value, x: Value, y: Value, exponent: int) -> tuple[Value, Value]:
    """Two operands times a power of 2, in some lanes."""
    power = ops.constant(_power(exponent), 32)
    one, other = (ops.select(where, single("mul", ops, words, each, power), each) for each in (x, y))
    return one, other


# ------------------------------------------------------------------------------------------------ 16 and 64 bits


def half(function: str, ops: Ops, words: Words, x: Value) -> Value:
    """A function of F16: that of F32, cut off; 2^16 and more is infinity."""
    result = mufu.FUNCTIONS[function](ops, ops.fwiden(x, 32))
    cut = ops.select((result & _SIZE) < _power(16), narrowed(ops, result, 16, "rz"), INFINITY["f16"])
    return ops.select(is_nan(ops, result, "f32"), NAN["f16"], cut)


def brain(function: str, ops: Ops, words: Words, x: Value) -> Value:
    """A function of BF16: that of F32, cut off."""
    return to_bf16(ops, mufu.FUNCTIONS[function](ops, from_bf16(ops, x)), "rz")


def of_high_word(compute: Callable[..., Value], ops: Ops, words: Words, x: Value) -> Value:
    """A function of the high word of a float of 64 bits; the low word of the result is 0."""
    return ops.unsigned(compute(ops, ops.unsigned(x >> 32, 32), mufu.HIGH_WORD), 64) << 32


def rsqrt_in_double(ops: Ops, words: Words, x: Value) -> Value:
    """The reciprocal square root of 64 bits: that of the high word, and one step of an iteration of third order."""
    zero, negative = (x << 1) == 0, ops.less(x, 0)
    small = ops.less(x, 1 << 52)
    scaled = ops.select(small, ops.fmul(x, _in_double(54)), x)
    y = of_high_word(mufu.rsqrt, ops, words, scaled)
    error = ops.fma(scaled, ops.fmul(y, y) ^ SIGN["f64"], _in_double(0))
    result = ops.fma(ops.fma(error, _THREE_EIGHTHS, _in_double(-1)), ops.fmul(y, error), y)
    result = ops.select(small, ops.fmul(result, _in_double(27)), result)
    result = ops.select(x == INFINITY["f64"], 0, ops.select(negative, INVALID, result))
    result = ops.select(is_nan(ops, x, "f64"), x | QUIET, result)
    return ops.select(zero, x | INFINITY["f64"], result)


def _in_double(exponent: int) -> int:
    """A power of 2, as the bits of a float of 64 bits."""
    return (exponent + 1023) << 52


_THREE_EIGHTHS = 0x3FD8000000000000


# ------------------------------------------------------------------------------------------------ the rows


def _row(spelling: str, section: str, meaning: Meaning) -> Row:
    """The row of a function of one operand."""
    kind = spelling.rpartition(".")[2]
    return Row(spelling, kind, kind, meaning, section)


def _both(spelling: str, section: str, meaning: Meaning) -> list[Row]:
    """The row of a type of 16 bits, and that of two of them in a register."""
    return [_row(spelling, section, meaning), _row(f"{spelling}x2", section, packed(meaning))]


ROWS = (
    Row("div.op{.ftz}.f32", "f32", "f32 f32", quotient, "9.7.3.8", {"op": "approx full"}),
    _row("rcp.approx{.ftz}.f32", "9.7.3.13", rcp),
    _row("rcp.approx.ftz.f64", "9.7.3.14", partial(of_high_word, mufu.rcp)),
    _row("sqrt.approx{.ftz}.f32", "9.7.3.15", partial(root, "sqrt", -12)),
    _row("rsqrt.approx{.ftz}.f32", "9.7.3.16", partial(root, "rsqrt", 12)),
    _row("rsqrt.approx.f64", "9.7.3.16", rsqrt_in_double),
    _row("rsqrt.approx.ftz.f64", "9.7.3.17", partial(of_high_word, mufu.rsqrt)),
    _row("sin.approx{.ftz}.f32", "9.7.3.18", partial(wave, "sin")),
    _row("cos.approx{.ftz}.f32", "9.7.3.19", partial(wave, "cos")),
    _row("lg2.approx{.ftz}.f32", "9.7.3.20", lg2),
    _row("ex2.approx{.ftz}.f32", "9.7.3.21", ex2),
    _row("tanh.approx.f32", "9.7.3.22", tanh),
    *_both("tanh.approx.f16", "9.7.4.9", partial(half, "tanh")),
    *_both("tanh.approx.bf16", "9.7.4.9", partial(brain, "tanh")),
    *_both("ex2.approx.f16", "9.7.4.10", partial(half, "ex2")),
    *_both("ex2.approx.ftz.bf16", "9.7.4.10", partial(brain, "ex2")),
)
