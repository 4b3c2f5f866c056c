"""Floating-point arithmetic (PTX ISA 9.1, 9.7.3 to 9.7.5).

Each operation is computed in a format in which one more rounding does no harm: exactly, rounded to odd, or with at
least twice the bits of the result and two more.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tcemu.alu.double import double
from tcemu.alu.floats import INFINITY, NAN, SIGN, finished, flushed, is_nan, magnitude, propagated
from tcemu.alu.integer import packed
from tcemu.alu.rounding import from_bf16, narrowed, nearest, odd, to_bf16, with_error
from tcemu.alu.row import Meaning, Ops, Row, Value, Words


def in_double(operation: str, ops: Ops, rnd: str, *operands: Value) -> Value:
    """An operation on floats of 32 bits whose result of 64 bits can be rounded again.

    It is exact, rounded to odd, or (quotients and roots) too far from all floats of 32 bits for its rounding to matter.
    """
    x, *others = (ops.fwiden(each, 64) for each in operands)
    if operation not in ("add", "sub", "fma"):
        return nearest(operation, ops, x, *others)
    y = others[-1] ^ SIGN["f64"] if operation == "sub" else others[-1]
    if operation == "fma":
        x = ops.fmul(x, others[0])
    total = odd(ops, *with_error(ops, x, y))
    if rnd != "rm":
        return total
    # Rounded down, a sum of 0 is -0 unless both summands are +0.
    return ops.select(magnitude(total, "f64") == 0, (x | y) & SIGN["f64"], total)


#: .ftz flushes a result that would be subnormal if exponents had no limit: one that rounds up to the smallest normal
#: number only because subnormal numbers have fewer bits is flushed too. So results are looked at times a power of 2:
#: the power as F32 and F64, and the smallest normal number times it.
_UP = {"f16": 0x45800000, "f32": 0x4B800000}
_UP_IN_DOUBLE = 0x4170000000000000
_LEAST = {"f16": 0x3400, "f32": 0x0C800000}
#: The operands that are multiplied by the power, of those operations that may round up so.
_SCALED = {"mul": (0,), "div": (0,), "fma": (0, 2)}


def _tiny(ops: Ops, scaled: Value, kind: str) -> Value:
    return magnitude(scaled, kind) < _LEAST[kind]


def single(operation: str, ops: Ops, words: Words, *operands: Value) -> Value:
    """An operation on F32."""
    rnd, tiny = words.get("rnd", "rn"), None
    values = [flushed(ops, words, each, "f32") for each in operands]
    if rnd == "rn":
        result = nearest(operation, ops, *values)
        if "ftz" in words and operation in _SCALED:
            for number in _SCALED[operation]:
                values[number] = ops.fmul(values[number], _UP["f32"])
            tiny = _tiny(ops, nearest(operation, ops, *values), "f32")
    else:
        exact = in_double(operation, ops, rnd, *values)
        result = narrowed(ops, exact, 32, rnd)
        if "ftz" in words:
            tiny = _tiny(ops, narrowed(ops, ops.fmul(exact, _UP_IN_DOUBLE), 32, rnd), "f32")
    return finished(ops, words, result, "f32", tiny)


def half(operation: str, ops: Ops, words: Words, *operands: Value) -> Value:
    """An operation on F16, by way of F32."""
    x, y, *rest = (ops.fwiden(flushed(ops, words, each, "f16"), 32) for each in operands)
    exact = nearest("mul" if rest else operation, ops, x, y)
    if rest:
        exact = odd(ops, *with_error(ops, exact, rest[0]))
    tiny = None
    if "ftz" in words and operation in _SCALED:
        tiny = _tiny(ops, narrowed(ops, ops.fmul(exact, _UP["f16"]), 16), "f16")
    return finished(ops, words, narrowed(ops, exact, 16), "f16", tiny)


def brain(operation: str, ops: Ops, words: Words, *values: Value) -> Value:
    """An operation on BF16, whose products may be too small for F32."""
    rnd = words["rnd"]
    values = tuple(from_bf16(ops, each) for each in values)
    if operation in ("add", "sub"):
        result = nearest(operation, ops, *values)
    else:
        result = narrowed(ops, in_double(operation, ops, rnd, *values), 32, "odd")
    return finished(ops, words, to_bf16(ops, result, rnd), "bf16")


def mixed(operation: str, ops: Ops, words: Words, *values: Value) -> Value:
    """An operation whose operands except the last are F16 or BF16, the others F32."""
    brain = words["type"] == "bf16"
    wide = (from_bf16(ops, each) if brain else ops.fwiden(each, 32) for each in values[:-1])
    return single(operation, ops, words, *wide, values[-1])


# ------------------------------------------------------------------------------------------------ one or the other


def _ordered(ops: Ops, x: Value, kind: str) -> Value:
    """A signed integer that is ordered as the float is, -0 below +0; twice, it is the float again."""
    return x ^ (ops.shift_signed(x, SIGN[kind].bit_length() - 1) & (SIGN[kind] - 1))


def extreme(larger: bool, kind: str, ops: Ops, words: Words, x: Value, y: Value, *more: Value) -> Value:
    """The minimum or maximum: of a number and a NaN the number, or with .NaN a NaN."""
    x, y = flushed(ops, words, x, kind), flushed(ops, words, y, kind)
    sign = (x ^ y) & SIGN[kind]
    if "xorsign" in words or "abs" in words:
        x, y = magnitude(x, kind), magnitude(y, kind)
    choose = ops.larger_signed if larger else ops.smaller_signed
    result = _ordered(ops, choose(_ordered(ops, x, kind), _ordered(ops, y, kind)), kind)
    one, other = is_nan(ops, x, kind), is_nan(ops, y, kind)
    result = ops.select(one, y, ops.select(other, x, result))
    if "xorsign" in words:
        result = result | sign
    if kind == "f64":
        return propagated(ops, result, result)
    return ops.select(one | other if "NaN" in words else one & other, NAN[kind], result)


def extreme_of_three(larger: bool, ops: Ops, words: Words, x: Value, y: Value, z: Value) -> Value:
    """The minimum or maximum of three numbers of 32 bits, with .abs of their magnitudes."""
    return extreme(larger, "f32", ops, words, extreme(larger, "f32", ops, words, x, y), z)


# ------------------------------------------------------------------------------------------------ signs and classes


def negated(kind: str, ops: Ops, words: Words, x: Value) -> Value:
    """-x."""
    return _sign_changed(ops, words, x, kind, x ^ SIGN[kind])


def absolute(kind: str, ops: Ops, words: Words, x: Value) -> Value:
    """x without its sign."""
    return _sign_changed(ops, words, x, kind, magnitude(x, kind))


def _sign_changed(ops: Ops, words: Words, x: Value, kind: str, result: Value) -> Value:
    if kind == "f64":
        return propagated(ops, result, x)
    return finished(ops, words, result, kind)


def copysign(kind: str, ops: Ops, words: Words, x: Value, y: Value) -> Value:
    """y with the sign of x."""
    return (x & SIGN[kind]) | magnitude(y, kind)


def tested(kind: str, ops: Ops, words: Words, x: Value) -> Value:
    """Whether a number is of a class."""
    size, infinity = magnitude(x, kind), INFINITY[kind]
    least = infinity & -infinity
    return {
        "finite": lambda: size < infinity,
        "infinite": lambda: size == infinity,
        "number": lambda: size <= infinity,
        "notanumber": lambda: size > infinity,
        "normal": lambda: (size == 0) | ((size - least) < (infinity - least)),
        "subnormal": lambda: (size - 1) < (least - 1),
    }[words["op"]]()


# ------------------------------------------------------------------------------------------------ the rows


def _row(spelling: str, operands: int, section: str, meaning: Meaning, **words: str) -> Row:
    """A row whose operands and result have the type at the end of the spelling."""
    kind = spelling.rpartition(".")[2]
    return Row(spelling, kind, " ".join([kind] * operands), meaning, section, words)


def _both(spelling: str, operands: int, section: str, meaning: Meaning, **words: str) -> list[Row]:
    """The row of a type of 16 bits, and that of two of them in a register."""
    return [
        _row(spelling, operands, section, meaning, **words),
        _row(f"{spelling}x2", operands, section, packed(meaning), **words),
    ]


_ROUNDED = {"rnd": "rn rz rm rp"}
_TO_NEAREST = {"rnd": "|rn"}
_CLASSES = {"op": "finite infinite number notanumber normal subnormal"}


def _arithmetic() -> list[Row]:
    """Sums, differences and products of all types."""
    rows = []
    for number, name in enumerate(("add", "sub", "mul"), 1):
        full, short = f"9.7.3.{number + 2}", f"9.7.4.{number}"
        rows += [
            _row(f"{name}{{.rnd}}{{.ftz}}{{.sat}}.f32", 2, full, partial(single, name)),
            Row(
                f"{name}{{.rnd}}{{.ftz}}.f32x2",
                "b64",
                "b64 b64",
                packed(partial(single, name), 32),
                full,
                known="manual",
            ),
            _row(f"{name}{{.rnd}}.f64", 2, full, partial(double, name)),
            *_both(f"{name}{{.rnd}}{{.ftz}}{{.sat}}.f16", 2, short, partial(half, name), **_TO_NEAREST),
            *_both(f"{name}{{.rnd}}.bf16", 2, short, partial(brain, name), **_TO_NEAREST),
        ]
    return rows


def _mixed() -> list[Row]:
    """F32 with operands of 16 bits."""
    kinds = {"type": "f16 bf16"}
    return [
        Row("add{.rnd}{.sat}.f32.type", "f32", "type f32", partial(mixed, "add"), "9.7.5.1", kinds, known="manual"),
        Row("sub{.rnd}{.sat}.f32.type", "f32", "type f32", partial(mixed, "sub"), "9.7.5.2", kinds, known="manual"),
        Row(
            "fma.rnd{.sat}.f32.type",
            "f32",
            "type type f32",
            partial(mixed, "fma"),
            "9.7.5.3",
            {**kinds, **_ROUNDED},
            known="manual",
        ),
    ]


def _extremes() -> list[Row]:
    """Minima and maxima of all types."""
    rows = []
    for number, name in enumerate(("min", "max")):
        full, short = f"9.7.3.{number + 11}", f"9.7.4.{number + 7}"
        of = {kind: partial(extreme, name == "max", kind) for kind in ("f16", "bf16", "f32", "f64")}
        of_three = partial(extreme_of_three, name == "max")
        rows += [
            _row(f"{name}{{.ftz}}{{.NaN}}.f32", 2, full, of["f32"]),
            _row(f"{name}{{.ftz}}{{.NaN}}.xorsign.abs.f32", 2, full, of["f32"]),
            replace(_row(f"{name}{{.ftz}}{{.NaN}}{{.abs}}.f32", 3, full, of_three), known="manual"),
            _row(f"{name}.f64", 2, full, of["f64"]),
            *_both(f"{name}{{.ftz}}{{.NaN}}.f16", 2, short, of["f16"]),
            *_both(f"{name}{{.ftz}}{{.NaN}}.xorsign.abs.f16", 2, short, of["f16"]),
            *_both(f"{name}{{.NaN}}.bf16", 2, short, of["bf16"]),
            *_both(f"{name}{{.NaN}}.xorsign.abs.bf16", 2, short, of["bf16"]),
        ]
    return rows


def _signs() -> list[Row]:
    """Absolute values and negations of all types."""
    rows = []
    for name, meaning, full, short in (
        ("abs", absolute, "9.7.3.9", "9.7.4.6"),
        ("neg", negated, "9.7.3.10", "9.7.4.5"),
    ):
        rows += [
            _row(f"{name}{{.ftz}}.f32", 1, full, partial(meaning, "f32")),
            _row(f"{name}.f64", 1, full, partial(meaning, "f64")),
            *_both(f"{name}{{.ftz}}.f16", 1, short, partial(meaning, "f16")),
            *_both(f"{name}.bf16", 1, short, partial(meaning, "bf16")),
        ]
    return rows


ROWS = (
    *(Row(f"testp.op.{kind}", "pred", kind, partial(tested, kind), "9.7.3.1", _CLASSES) for kind in ("f32", "f64")),
    _row("copysign.f32", 2, "9.7.3.2", partial(copysign, "f32")),
    _row("copysign.f64", 2, "9.7.3.2", partial(copysign, "f64")),
    *_arithmetic(),
    _row("fma.rnd{.ftz}{.sat}.f32", 3, "9.7.3.6", partial(single, "fma"), **_ROUNDED),
    Row(
        "fma.rnd{.ftz}.f32x2",
        "b64",
        "b64 b64 b64",
        packed(partial(single, "fma"), 32),
        "9.7.3.6",
        _ROUNDED,
        known="manual",
    ),
    _row("mad.rnd{.ftz}{.sat}.f32", 3, "9.7.3.7", partial(single, "fma"), **_ROUNDED),
    _row("fma.rnd.f64", 3, "9.7.3.6", partial(double, "fma"), **_ROUNDED),
    _row("mad.rnd.f64", 3, "9.7.3.7", partial(double, "fma"), **_ROUNDED),
    *_both("fma.rnd{.ftz}{.sat}.f16", 3, "9.7.4.4", partial(half, "fma"), rnd="rn"),
    *_both("fma.rnd{.ftz}.relu.f16", 3, "9.7.4.4", partial(half, "fma"), rnd="rn"),
    *_both("fma.rnd{.relu}.bf16", 3, "9.7.4.4", partial(brain, "fma"), rnd="rn"),
    *_mixed(),
    _row("div.rnd{.ftz}.f32", 2, "9.7.3.8", partial(single, "div"), **_ROUNDED),
    _row("div.rnd.f64", 2, "9.7.3.8", partial(double, "div"), **_ROUNDED),
    _row("rcp.rnd{.ftz}.f32", 1, "9.7.3.13", partial(single, "rcp"), **_ROUNDED),
    _row("rcp.rnd.f64", 1, "9.7.3.13", partial(double, "rcp"), **_ROUNDED),
    _row("sqrt.rnd{.ftz}.f32", 1, "9.7.3.15", partial(single, "sqrt"), **_ROUNDED),
    _row("sqrt.rnd.f64", 1, "9.7.3.15", partial(double, "sqrt"), **_ROUNDED),
    *_extremes(),
    *_signs(),
)
