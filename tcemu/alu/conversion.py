"""Conversions: cvt (PTX ISA 9.1, 9.7.9.21)."""

from __future__ import annotations

from functools import partial

from tcemu.alu.floats import INFINITY, NAN, SIGN, clamped, finished, flushed, is_nan, magnitude, size
from tcemu.alu.integer import extended
from tcemu.alu.rounding import directed, from_bf16, narrowed, odd, to_bf16, with_error
from tcemu.alu.row import Known, Meaning, Ops, Row, Value, Words, bits

_ROUNDED = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


# ------------------------------------------------------------------------------------------------ between integers


def _between_integers(ops: Ops, words: Words, x: Value) -> Value:
    """Widened by the type that it had, or cut off; with .sat, the nearest number that there is."""
    source, target = words["from"], words["to"]
    width, signed = bits(target), source[0] == "s"
    if "sat" in words:
        x = _clamped(ops, x, signed, target)
    return extended(ops, x, signed=signed, bits=width)


def _clamped(ops: Ops, x: Value, signed: bool, target: str) -> Value:
    """Clamped to the range of another type."""
    most = (1 << (bits(target) - (target[0] == "s"))) - 1
    least = -most - 1 if target[0] == "s" else 0
    width = size(x)
    limit = (1 << (width - signed)) - 1
    if signed:
        if least > -limit - 1:
            x = ops.larger_signed(x, least)
        return ops.smaller_signed(x, most) if most < limit else x
    return ops.smaller(x, most) if most < limit else x


# ------------------------------------------------------------------------------------------------ floats to integers


def _as_single(ops: Ops, words: Words, x: Value, kind: str) -> Value:
    """F16 or BF16 as F32; others as they are."""
    if kind == "bf16":
        return flushed(ops, words, from_bf16(ops, x), "f32")
    return ops.fwiden(x, 32) if kind == "f16" else flushed(ops, words, x, kind)


def _to_integer(ops: Ops, words: Words, x: Value) -> Value:
    """Rounded to a whole number, and to the nearest that there is.

    A NaN gives 0, or where the float or the integer has 64 bits, the integer whose highest bit alone is set.
    """
    source, target = words["from"], words["to"]
    x = _as_single(ops, words, x, source)
    whole = ops.fround(x, _ROUNDED[words["irnd"]])
    width = bits(target)
    result = ops.to_signed(whole, width) if target[0] == "s" else ops.to_unsigned(whole, width)
    if width < 64 and source != "f64":
        return result
    return ops.select(is_nan(ops, whole, f"f{size(whole)}"), 1 << (width - 1), result)


# ------------------------------------------------------------------------------------------------ integers to floats


def _exactly(ops: Ops, x: Value, *, signed: bool) -> Value:
    """An integer as a float of 64 bits, rounded to odd."""
    return odd(ops, *_with_error(ops, x, signed=signed))


def _with_error(ops: Ops, x: Value, *, signed: bool) -> tuple[Value, Value]:
    """An integer of 64 bits as a rounded float, and the error."""
    top = ops.shift_signed(x, 32) if signed else x >> 32
    high = ops.from_signed(top, 64) if signed else ops.from_unsigned(top, 64)
    return with_error(ops, ops.fmul(high, 0x41F0000000000000), ops.from_unsigned(x & 0xFFFFFFFF, 64))


def _from_integer(ops: Ops, words: Words, x: Value) -> Value:
    """Rounded to a float; .ftz has no effect."""
    result = _float_of(ops, words, x)
    return clamped(ops, result, words["to"]) if "sat" in words else result


def _float_of(ops: Ops, words: Words, x: Value) -> Value:
    source, target, rnd = words["from"], words["to"], words["frnd"]
    signed, width = source[0] == "s", bits(source)
    if width < 32:
        x = extended(ops, x, signed=signed, bits=32)
    convert = ops.from_signed if signed else ops.from_unsigned
    exact = target == "f64" and width < 64
    if exact or (rnd == "rn" and target in ("f32", "f64")):
        return convert(x, bits(target))
    if target == "f64":
        total, error = _with_error(ops, x, signed=signed)
        return directed(ops, total, ops.fcompare("lt", error, 0), ops.fcompare("gt", error, 0), rnd)
    wide = _exactly(ops, x, signed=signed) if width == 64 else convert(x, 64)
    if target == "f32":
        return narrowed(ops, wide, 32, rnd)
    return _short(ops, narrowed(ops, wide, 32, "odd"), target, rnd)


def _short(ops: Ops, x: Value, kind: str, rnd: str) -> Value:
    """A float of 32 bits as F16 or BF16."""
    return to_bf16(ops, x, rnd) if kind == "bf16" else narrowed(ops, x, 16, rnd)


# ------------------------------------------------------------------------------------------------ between floats


def _to_whole(kind: str, ops: Ops, words: Words, x: Value) -> Value:
    """Rounded to a whole number of the same type."""
    value = ops.fround(_as_single(ops, words, x, kind), _ROUNDED[words["irnd"]])
    if kind == "f64":
        return clamped(ops, value, kind) if "sat" in words else _quiet(ops, value)
    result = value if kind == "f32" else _short(ops, value, kind, "rn")
    return finished(ops, words, result, kind)


def _quiet(ops: Ops, x: Value) -> Value:
    return ops.select(is_nan(ops, x, "f64"), x | 1 << 51, x)


def _same(kind: str, ops: Ops, words: Words, x: Value) -> Value:
    """.sat and .ftz alone; without them, the number as it is, but for a NaN of 16 bits."""
    x = flushed(ops, words, x, kind)
    if "sat" in words:
        return clamped(ops, x, kind)
    return finished(ops, words, x, kind) if "ftz" in words or bits(kind) == 16 else x


def _widened(source: str, target: str, ops: Ops, words: Words, x: Value) -> Value:
    value = _as_single(ops, words, x, source)
    if target == "f32" and source == "bf16" and "ftz" not in words:
        return value
    if target == "f32" or "ftz" in words:
        value = finished(ops, words, value, "f32")
    if target == "f32":
        return value
    wide = ops.fwiden(value, 64)
    return clamped(ops, wide, "f64") if "sat" in words else _quiet(ops, wide)


def _narrowed(source: str, target: str, ops: Ops, words: Words, x: Value) -> Value:
    """Rounded to a narrower type. Of F64, a NaN keeps its sign and the upper bits of its payload."""
    rnd, source_bits = words["frnd"], x
    if target == "bf16":
        x = flushed(ops, words, x, source)
    if target == "f32":
        result = narrowed(ops, x, 32, rnd)
    else:
        result = _short(ops, narrowed(ops, x, 32, "odd") if source == "f64" else x, target, rnd)
    if "satfinite" in words:
        limit = INFINITY[target] - 1
        result = ops.select(magnitude(result, target) == INFINITY[target], (result & SIGN[target]) | limit, result)
    if target == "f16":
        words = {name: word for name, word in words.items() if name != "ftz"}  # which has no effect
    result = finished(ops, words, result, target)
    if source != "f64" or "sat" in words:
        return result
    return ops.select(is_nan(ops, source_bits, "f64"), _short_nan(ops, source_bits, target), result)


def _short_nan(ops: Ops, x: Value, kind: str) -> Value:
    """A NaN of 64 bits in fewer, made quiet."""
    width = bits(kind)
    fraction = (INFINITY[kind] & -INFINITY[kind]).bit_length() - 1
    payload = ops.unsigned(x >> (52 - fraction), width) & ((1 << fraction) - 1)
    sign = ops.unsigned(x >> 32 if width == 32 else x >> 48, width) & SIGN[kind]
    return sign | payload | INFINITY[kind] | 1 << (fraction - 1)


def _between_short(source: str, target: str, ops: Ops, words: Words, x: Value) -> Value:
    """F16 as BF16, or the other way."""
    return finished(ops, words, _short(ops, _as_single(ops, words, x, source), target, words["frnd"]), target)


def _two(meaning: Meaning, ops: Ops, words: Words, high: Value, low: Value) -> Value:
    """Two conversions in a register, the first one in the upper half."""
    one, other = (meaning(ops, words, each) for each in (high, low))
    width = 2 * size(one)
    return ops.unsigned(one, width) << (width // 2) | ops.unsigned(other, width)


def _to_tf32(ops: Ops, words: Words, x: Value) -> Value:
    """The upper 19 bits of F32. With .rna, which is emulated, a NaN keeps them, or with .satfinite, all but 1."""
    sign, size = x & SIGN["f32"], magnitude(x, "f32")
    if words["frnd"] == "rna":
        result = ops.select(size < INFINITY["f32"], size + 0x1000, size) & 0xFFFFE000
        if "satfinite" in words:
            result = ops.select(result >= INFINITY["f32"], result - 0x2000, result)
        return result | sign
    nearest = ((size >> 13) & 1) + 0xFFF if words["frnd"] == "rn" else 0
    result = ((size + nearest) & 0xFFFFE000) | sign
    result = ops.select(size > INFINITY["f32"], 0x7FFFE000, result)
    return ops.larger_signed(result, 0) if "relu" in words else result


# ------------------------------------------------------------------------------------------------ 8 bits and fewer

#: Of small formats: fraction bits, bias, the largest number as F32, and the pattern of a NaN (or what stands for one).
_SMALL = {
    "e4m3": (3, 7, 0x43E00000, 0x7F),
    "e5m2": (2, 15, 0x47600000, 0x7F),
    "e2m1": (1, 1, 0x40C00000, 0x07),
    "e2m3": (3, 1, 0x40F00000, 0x1F),
    "e3m2": (2, 3, 0x41E00000, 0x1F),
}


def _to_small(kind: str, ops: Ops, words: Words, x: Value) -> Value:
    """F32 in a small format, rounded to nearest and not beyond the largest number."""
    fraction, bias, largest, nan = _SMALL[kind]
    least = 1 - bias
    size = ops.smaller(magnitude(x, "f32"), largest)
    # Added to a power of 2 whose last bit is that of the result, a number is rounded as the result is.
    exponent = ops.larger(size >> 23, 127 + least)
    power = (exponent + (23 - fraction)) << 23
    size = ops.fsub(ops.fadd(size, power), power)
    # So is a subnormal one, added to the smallest normal number.
    start = (127 + least) << 23
    normal = (size - (start - (1 << 23))) >> (23 - fraction)
    code = ops.select(size < start, (ops.fadd(size, start) - start) >> (23 - fraction), normal)
    sign = ops.less(x, 0)
    code = code | ops.select(sign, 1 << (_width(kind) - 1), ops.constant(0, 32))
    if "relu" in words:
        code = ops.select(sign, 0, code)
    return ops.select(is_nan(ops, x, "f32"), nan, code)


def _width(kind: str) -> int:
    """The bits of a small format."""
    return 1 + int(kind[1]) + int(kind[3])


def _two_small(kind: str, ops: Ops, words: Words, high: Value, low: Value) -> Value:
    step = 4 if kind == "e2m1" else 8
    one, other = (_to_small(kind, ops, words, each) for each in (high, low))
    return ops.unsigned(one << step | other, 2 * step)


def _two_small_of_pair(kind: str, ops: Ops, words: Words, x: Value) -> Value:
    high, low = (ops.fwiden(ops.unsigned(each, 16), 32) for each in (x >> 16, x))
    return _two_small(kind, ops, words, high, low)


def _from_two_small(kind: str, ops: Ops, words: Words, x: Value) -> Value:
    """Two of a small format as F16."""
    fraction, bias, _, nan = _SMALL[kind]
    step, width = 4 if kind == "e2m1" else 8, _width(kind)
    halves = []
    for code in (ops.unsigned(x, 32), ops.unsigned(x, 32) >> step):
        size = code & ((1 << (width - 1)) - 1)
        value = ops.fmul(size << (23 - fraction), (127 + 127 - bias) << 23)  # exponents differ by their biases
        value = value | ((code >> (width - 1)) & 1) << 31
        half = ops.fnarrow(value, 16)
        if kind == "e4m3":
            half = ops.select(size == nan, NAN["f16"], half)
        if kind == "e5m2":
            half = ops.select(size > 0x7C, NAN["f16"], ops.select(size == 0x7C, _infinite(ops, code), half))
        halves.append(ops.larger_signed(half, 0) if "relu" in words else half)
    return ops.unsigned(halves[0], 32) | ops.unsigned(halves[1], 32) << 16


def _infinite(ops: Ops, code: Value) -> Value:
    return ops.unsigned((code & 0x80) << 8, 16) | INFINITY["f16"]


def _packed(ops: Ops, words: Words, high: Value, low: Value, rest: Value | None = None) -> Value:
    """Two saturated integers side by side, and above them what comes from a third register."""
    target = words["to"]
    width = int(target[1:])
    one, other = (_clamped_to(ops, each, target) & ((1 << width) - 1) for each in (high, low))
    both = one << width | other
    return both if rest is None else rest << 2 * width | both


def _clamped_to(ops: Ops, x: Value, target: str) -> Value:
    signed, width = target[0] == "s", int(target[1:])
    most = (1 << (width - signed)) - 1
    return ops.smaller_signed(ops.larger_signed(x, -most - 1 if signed else 0), most)


# ------------------------------------------------------------------------------------------------ the rows

_SECTION = "9.7.9.21"
_INTEGERS = "u8 s8 u16 s16 u32 s32 u64 s64"
_LONGER = "u16 s16 u32 s32 u64 s64"
_IRND, _FRND = {"irnd": " ".join(_ROUNDED)}, {"frnd": "rn rz rm rp"}


def _row(
    spelling: str, meaning: Meaning, types: tuple[str, str], words: Words | None = None, known: Known = "silicon"
) -> Row:
    return Row(f"cvt{spelling}", *types, meaning, _SECTION, words or {}, known=known)


def _contains(target: str, source: str) -> bool:
    """Whether an integer type has all numbers of another, so that .sat is not a qualifier."""
    signed = target[0] == "s"
    return (signed or source[0] == "u") and bits(source) + (source[0] == "u") <= bits(target) + (not signed)


def _with_integers() -> list[Row]:
    both, kinds = ("to", "from"), _INTEGERS.split()
    saturating = [
        _row(".sat.to.from", _between_integers, both, {"to": to, "from": " ".join(others)})
        for to in kinds
        if (others := [each for each in kinds if not _contains(to, each)])
    ]
    return [
        _row(".to.from", _between_integers, both, {"to": _INTEGERS, "from": _INTEGERS}),
        *saturating,
        _row(".irnd{.ftz}{.sat}.to.from", _to_integer, both, {**_IRND, "to": _INTEGERS, "from": "f32"}),
        _row(".irnd{.sat}.to.from", _to_integer, both, {**_IRND, "to": _INTEGERS, "from": "f16 f64"}),
        _row(".irnd.to.from", _to_integer, both, {**_IRND, "to": _INTEGERS, "from": "bf16"}),
        _row(".frnd{.ftz}{.sat}.to.from", _from_integer, both, {**_FRND, "to": "f32", "from": _INTEGERS}),
        _row(".frnd{.sat}.to.from", _from_integer, both, {**_FRND, "to": "f16 f64", "from": _INTEGERS}),
        _row(".frnd.to.from", _from_integer, both, {**_FRND, "to": "bf16", "from": _INTEGERS}),
    ]


def _of_one_type() -> list[Row]:
    rows = []
    for kind, optional in (("f32", "{.ftz}{.sat}"), ("f16", "{.sat}"), ("f64", "{.sat}"), ("bf16", "")):
        rows += [
            _row(f".irnd{optional}.{kind}.{kind}", partial(_to_whole, kind), (kind, kind), _IRND),
            _row(f"{optional}.{kind}.{kind}", partial(_same, kind), (kind, kind)),
        ]
    return rows


def _between_floats() -> list[Row]:
    rows = []
    for target, source, optional in (
        ("f64", "f32", "{.ftz}{.sat}"),
        ("f32", "f16", "{.ftz}{.sat}"),
        ("f64", "f16", "{.sat}"),
        ("f32", "bf16", "{.frnd}{.ftz}"),
        ("f64", "bf16", "{.frnd}"),
    ):
        meaning = partial(_widened, source, target)
        words = _FRND if "frnd" in optional else {}  # which has no effect, because nothing is rounded
        rows.append(_row(f"{optional}.{target}.{source}", meaning, (target, source), words))
    for target, source, optional in (
        ("f32", "f64", "{.ftz}{.sat}"),
        ("f16", "f32", "{.ftz}{.sat}"),
        ("f16", "f64", "{.sat}"),
        ("bf16", "f32", "{.ftz}"),
        ("bf16", "f64", ""),
    ):
        meaning = partial(_narrowed, source, target)
        rows.append(_row(f".frnd{optional}.{target}.{source}", meaning, (target, source), _FRND))
    for target, source in (("f16", "bf16"), ("bf16", "f16")):
        meaning = partial(_between_short, source, target)
        rows.append(_row(f"{{.frnd}}.{target}.{source}", meaning, (target, source), {"frnd": "|rn rz rm rp"}))
    to_even_or_zero = {"frnd": "rn rz"}
    for target in ("f16", "bf16"):
        meaning, two = partial(_narrowed, "f32", target), f"{target}x2"
        rows += [
            _row(f".frnd{optional}.{target}.f32", meaning, (target, "f32"), to_even_or_zero)
            for optional in (".relu", ".satfinite", ".relu.satfinite")
        ]
        spelling = f".frnd{{.relu}}{{.satfinite}}.{two}.f32"
        rows.append(_row(spelling, partial(_two, meaning), (two, "f32 f32"), to_even_or_zero))
    return rows


def _to_few_bits() -> list[Row]:
    rows = [
        _row(".frnd.tf32.f32", _to_tf32, ("b32", "f32"), {"frnd": "rna rn rz"}),
        _row(".frnd.satfinite.tf32.f32", _to_tf32, ("b32", "f32"), {"frnd": "rna"}),
        _row(".frnd.relu.tf32.f32", _to_tf32, ("b32", "f32"), {"frnd": "rn rz"}),
    ]
    for kind in _SMALL:
        two = f"{kind}x2"
        known: Known = "silicon" if kind in ("e4m3", "e5m2") else "manual"
        to_it = f".rn.satfinite{{.relu}}.{two}"
        rows += [
            _row(f"{to_it}.f32", partial(_two_small, kind), (two, "f32 f32"), known=known),
            _row(f"{to_it}.f16x2", partial(_two_small_of_pair, kind), (two, "f16x2"), known=known),
            _row(f".rn{{.relu}}.f16x2.{two}", partial(_from_two_small, kind), ("f16x2", two), known=known),
        ]
    return rows


_PACKED = (
    Row("cvt.pack.sat.to.s32", "b32", "s32 s32", _packed, "9.7.9.22", {"to": "u16 s16"}),
    Row("cvt.pack.sat.to.s32.b32", "b32", "s32 s32 b32", _packed, "9.7.9.22", {"to": "u8 s8 u4 s4 u2 s2"}),
)

ROWS = (*_with_integers(), *_of_one_type(), *_between_floats(), *_to_few_bits(), *_PACKED)
