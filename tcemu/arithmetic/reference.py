"""What a tensor core computes, in plain Python integers: one output element, step by step.

This is the definition. The kernels in tcemu.kernels are its fast twins, and tests keep them equal to it, bit for bit.
Patterns go in and come out; nothing here rounds in floating point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch

from tcemu.arithmetic.model import ADDEND, BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.formats import Format, Rounding, Unpacked, lookup, round_exact, unpack

#: How each result type is rounded by a fused sum (Fasi et al. 2021; silicon).
ROUNDING: dict[str, Rounding] = {"f32": "rz", "f16": "rn"}
#: The only NaN that fused sums and the routines on ordinary cores return: all ones except the sign.
CANONICAL_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}


@dataclass(frozen=True)
class Term:
    """One term of a fused sum: a product, or the addend (k is None).

    >>> from tcemu.arithmetic import FusedSums, fused_sum
    >>> f16, f32 = tcemu.formats.lookup("f16"), tcemu.formats.lookup("f32")
    >>> two, zero = tcemu.formats.unpack(f16, 0x4000), tcemu.formats.unpack(f32, 0)
    >>> steps = fused_sum(FusedSums(fraction=25, block=None, floor=None), [(0, two, two)], zero, f32)
    >>> steps.terms[0].k, steps.terms[0].exponent, steps.terms[0].cut
    (0, 2, False)
    """

    k: int | None
    #: Exact value: significand * 2^(exponent - point); the significand has the sign.
    significand: int
    exponent: int
    point: int
    #: The part that is kept, in units of 2^(largest - fraction), and whether anything was cut off.
    kept: int
    cut: bool


@dataclass(frozen=True)
class FusedSum:
    """A fused sum step by step: terms, the exponent they were aligned to, the exact sum of what was kept, the result.

    >>> from tcemu.arithmetic import FusedSums, fused_sum
    >>> f16, f32 = tcemu.formats.lookup("f16"), tcemu.formats.lookup("f32")
    >>> two, zero = tcemu.formats.unpack(f16, 0x4000), tcemu.formats.unpack(f32, 0)
    >>> steps = fused_sum(FusedSums(fraction=25, block=None, floor=None), [(0, two, two)], zero, f32)
    >>> steps.total * 2.0 ** (steps.largest - steps.fraction)  # the exact sum of what was kept
    4.0
    """

    terms: tuple[Term, ...]
    largest: int
    fraction: int
    total: int
    #: The pattern of the result.
    result: int
    #: "" for an ordinary sum, otherwise why the result is infinite or NaN.
    special: str = ""


def fused_sum(
    model: FusedSums, products: Sequence[tuple[int, Unpacked, Unpacked]], addend: Unpacked, result: Format
) -> FusedSum:
    """One fused sum of `products` (k, a, b) and `addend`, rounded to `result`.

    >>> from tcemu.arithmetic import FusedSums, fused_sum
    >>> f16, f32 = tcemu.formats.lookup("f16"), tcemu.formats.lookup("f32")
    >>> two, zero = tcemu.formats.unpack(f16, 0x4000), tcemu.formats.unpack(f32, 0)
    >>> steps = fused_sum(FusedSums(fraction=25, block=None, floor=None), [(0, two, two)], zero, f32)
    >>> hex(steps.result)  # 4.0
    '0x40800000'
    """
    special = _special(products, addend, result)
    if special:
        return FusedSum((), 0, model.fraction, 0, special[0], special[1])
    parts: list[tuple[int | None, int, int, int]] = [
        (k, _signed(a) * _signed(b), a.exponent + b.exponent, a.fraction + b.fraction) for k, a, b in products
    ]
    parts.append((None, _signed(addend), addend.exponent, addend.fraction))
    # A zero takes no part in the search for the largest exponent, whatever its own exponent field says.
    exponents = [exponent for _, significand, exponent, _ in parts if significand]
    floor = model.floor if model.floor is not None else min(exponents, default=0)
    largest = max([*exponents, floor])
    terms = tuple(_aligned(*part, largest, model.fraction) for part in parts)
    total = sum(term.kept for term in terms)
    pattern = round_exact(
        result, total, largest - model.fraction, ROUNDING[result.name], keep=model.keep, overflow="infinity"
    )
    return FusedSum(terms, largest, model.fraction, total, pattern)


def _signed(number: Unpacked) -> int:
    return -number.significand if number.negative else number.significand


def _aligned(k: int | None, significand: int, exponent: int, point: int, largest: int, fraction: int) -> Term:
    """Cut a term off, toward zero, `fraction` bits behind the binary point of the largest exponent."""
    shift = fraction + exponent - largest - point
    magnitude = abs(significand)
    kept = magnitude << shift if shift >= 0 else magnitude >> -shift
    cut = shift < 0 and kept << -shift != magnitude
    return Term(k, significand, exponent, point, -kept if significand < 0 else kept, cut)


def _special(
    products: Sequence[tuple[int, Unpacked, Unpacked]], addend: Unpacked, result: Format
) -> tuple[int, str] | None:
    """The result's pattern and the reason if an operand is infinite or NaN, which is decided before any alignment."""
    nan = CANONICAL_NAN[result.name]
    signs = {addend.negative} if addend.kind == "infinity" else set()
    if addend.kind == "nan":
        return nan, "c is NaN"
    for k, a, b in products:
        kinds = {a.kind, b.kind}
        if "nan" in kinds:
            return nan, f"a factor at k = {k} is NaN"
        if "infinity" in kinds:
            if "zero" in kinds:
                return nan, f"infinity times zero at k = {k}"
            signs.add(a.negative != b.negative)
    if len(signs) == 2:
        return nan, "infinities of both signs"
    if not signs:
        return None
    negative = signs.pop()
    return (result.infinity_bits or 0) | (result.sign_bit if negative else 0), "an infinite term"


def add_nearest(x: int, y: int, form: Format) -> int:
    """x + y of two patterns of `form`, an ordinary IEEE addition to nearest even; NaN is the canonical one."""
    return _sum_nearest([unpack(form, x), unpack(form, y)], form)


def fma_nearest(x: int, y: int, z: int, form: Format) -> int:
    """x * y + z of three patterns of `form`, rounded once to nearest even; NaN is the canonical one."""
    return _sum_nearest([unpack(form, z)], form, (unpack(form, x), unpack(form, y)))


def _sum_nearest(terms: Sequence[Unpacked], form: Format, factor: tuple[Unpacked, Unpacked] | None = None) -> int:
    """The exact sum of terms (and a product), rounded once to nearest even: an addition, or a fused multiply-add."""
    numbers: list[tuple[int, int, bool, str]] = [
        (_signed(term), term.exponent - term.fraction, term.negative, term.kind) for term in terms
    ]
    if factor:
        a, b = factor
        kind = "nan" if "nan" in (a.kind, b.kind) else "infinity" if "infinity" in (a.kind, b.kind) else "normal"
        kind = "nan" if kind == "infinity" and "zero" in (a.kind, b.kind) else kind
        power = a.exponent - a.fraction + b.exponent - b.fraction
        numbers.append((_signed(a) * _signed(b), power, a.negative != b.negative, kind))
    infinite = {negative for _, _, negative, kind in numbers if kind == "infinity"}
    if any(kind == "nan" for *_, kind in numbers) or len(infinite) == 2:
        return CANONICAL_NAN[form.name]
    if infinite:
        return (form.infinity_bits or 0) | (form.sign_bit if infinite.pop() else 0)
    if all(number == 0 for number, *_ in numbers):
        return form.sign_bit if all(negative for _, _, negative, _ in numbers) else 0
    low = min(power for _, power, _, _ in numbers)
    total = sum(number << (power - low) for number, power, _, _ in numbers)
    pattern = round_exact(form, total, low, "rn")
    return pattern if pattern or total >= 0 else form.sign_bit


# ---------------------------------------------------------------------------------------------- one output


@singledispatch
def dot(
    model: Model, a: Sequence[int], b: Sequence[int], c: int, formats: dict[str, Format], qualifiers: dict[str, str]
) -> int:
    """The pattern of d = a . b + c.

    `a` and `b` are patterns for ascending k, `formats` has keys a, b, c, d, and `qualifiers` are those of the
    instruction that change arithmetic: rounding (rn, rz, rm, rp), satfinite, op (xor, and).

    >>> from tcemu.arithmetic import dot, find
    >>> formats = {role: tcemu.formats.lookup(name) for role, name in zip("abcd", ("f16", "f16", "f32", "f32"))}
    >>> model = find(90, "mma", "m16n8k16", "f16", "f16", "f32", "f32").model
    >>> hex(dot(model, [0x3C00, 0x4000], [0x4000, 0x4000], 0x3F800000, formats, {}))  # 1 * 2 + 2 * 2 + 1 = 7
    '0x40e00000'
    """
    raise TypeError(model)


@dot.register
def _(
    model: FusedSums, a: Sequence[int], b: Sequence[int], c: int, formats: dict[str, Format], qualifiers: dict[str, str]
) -> int:
    result = _sum_format(model, formats)
    pattern = fused_sums(model, a, b, c, formats)[-1].result
    if model.addend == "last":
        pattern = add_nearest(pattern, _addend(c, formats, result), result)
    return _sum_nearest([unpack(result, pattern)], formats["d"]) if model.via else pattern


def fused_sums(
    model: FusedSums, a: Sequence[int], b: Sequence[int], c: int, formats: dict[str, Format]
) -> tuple[FusedSum, ...]:
    """Every fused sum of the chain behind one output, step by step; if c is added last, the first starts from +0.

    >>> from tcemu.arithmetic import find, fused_sums
    >>> formats = {role: tcemu.formats.lookup(name) for role, name in zip("abcd", ("f16", "f16", "f32", "f32"))}
    >>> model = find(90, "mma", "m16n8k16", "f16", "f16", "f32", "f32").model
    >>> (steps,) = fused_sums(model, [0x3C00, 0x4000], [0x4000, 0x4000], 0x3F800000, formats)
    >>> steps.largest, [(term.k, term.exponent) for term in steps.terms]  # aligned to 2^2, the exponent of 2 * 2
    (2, [(0, 1), (1, 2), (None, 0)])
    """
    left, right = (
        [_through(model, formats[role], pattern) for pattern in patterns] for role, patterns in (("a", a), ("b", b))
    )
    result, sums = _sum_format(model, formats), []
    if model.addend == "last":
        running = unpack(result, 0)
    elif model.widen:
        running = unpack(result, _addend(c, formats, result))
    else:
        running = unpack(formats["c"], c)
    for ks in model.sums(len(a)):
        sums.append(fused_sum(model, [(k, left[k], right[k]) for k in ks], running, result))
        running = unpack(result, sums[-1].result)
    return tuple(sums)


def _sum_format(model: FusedSums, formats: dict[str, Format]) -> Format:
    """The format in which the chain runs."""
    return lookup(model.via) if model.via else formats["d"]


def _addend(c: int, formats: dict[str, Format], result: Format) -> int:
    """The addend in the format of the sums: an f16 one is widened, so that its subnormals become normal."""
    return c if formats["c"] == result else _widen(unpack(formats["c"], c), result)


def _through(model: FusedSums, form: Format, pattern: int) -> Unpacked:
    """The operand as the multiplier sees it: first converted to `model.through`, if there is one."""
    number = unpack(form, pattern)
    if model.through is None:
        return number
    wider = lookup(model.through)
    if number.kind == "nan":
        return unpack(wider, wider.nan_bits or 0)
    if number.kind == "infinity":
        return unpack(wider, (wider.infinity_bits or 0) | (wider.sign_bit if number.negative else 0))
    converted = round_exact(wider, number.significand, number.exponent - number.fraction, "rn")
    return unpack(wider, converted | (wider.sign_bit if number.negative else 0))


@dot.register
def _(
    model: FmaGroups, a: Sequence[int], b: Sequence[int], c: int, formats: dict[str, Format], qualifiers: dict[str, str]
) -> int:
    single = lookup("f32")
    left, right = ([unpack(formats[role], pattern) for pattern in patterns] for role, patterns in (("a", a), ("b", b)))
    sums = {ADDEND: _widen(unpack(formats["c"], c), single)}
    for index, ks in enumerate(model.groups):
        start = [unpack(single, 0)] if model.from_zero else []
        pattern = _sum_nearest(start, single, (left[ks[0]], right[ks[0]]))
        for k in ks[1:]:
            pattern = _sum_nearest([unpack(single, pattern)], single, (left[k], right[k]))
        sums[index] = pattern
    total = sums[model.order[0]]
    for index in model.order[1:]:
        total = add_nearest(total, sums[index], single)
    return _sum_nearest([unpack(single, total)], formats["d"])


def _widen(number: Unpacked, form: Format) -> int:
    return _sum_nearest([number], form)


@dot.register
def _(
    model: FmaChain, a: Sequence[int], b: Sequence[int], c: int, formats: dict[str, Format], qualifiers: dict[str, str]
) -> int:
    for x, y in zip(a, b, strict=True):
        c = fma64(x, y, c, _rounding(qualifiers))
    return c


#: By the .rounding qualifier; without one, as with .rn.
_ROUNDINGS: dict[str, Rounding] = {"rn": "rn", "rz": "rz", "rm": "rm", "rp": "rp"}


def _rounding(qualifiers: dict[str, str]) -> Rounding:
    return _ROUNDINGS[qualifiers.get("rounding", "rn")]


def fma64(x: int, y: int, z: int, rounding: Rounding) -> int:
    """x * y + z of three f64 patterns, rounded once."""
    form = lookup("f64")
    a, b, c = (unpack(form, pattern) for pattern in (x, y, z))
    for number, pattern in ((b, y), (c, z), (a, x)):  # the order in which an H200 prefers NaN operands
        if number.kind == "nan":
            return pattern | 1 << 51
    negative = a.negative != b.negative
    infinite = {
        sign for hit, sign in (("infinity" in (a.kind, b.kind), negative), (c.kind == "infinity", c.negative)) if hit
    }
    if ("infinity" in (a.kind, b.kind) and "zero" in (a.kind, b.kind)) or len(infinite) == 2:
        return 0xFFF8 << 48
    if infinite:
        return (form.infinity_bits or 0) | (form.sign_bit if infinite.pop() else 0)
    power, other = a.exponent + b.exponent - 2 * form.mantissa, c.exponent - form.mantissa
    low = min(power, other)
    total = (_signed(a) * _signed(b) << (power - low)) + (_signed(c) << (other - low))
    if total:
        pattern = round_exact(form, total, low, rounding)
        return pattern if pattern or total > 0 else form.sign_bit
    both_zero = a.is_zero or b.is_zero
    if both_zero and negative == c.negative:
        return z
    return form.sign_bit if rounding == "rm" else 0


@dot.register
def _(
    model: IntegerDot,
    a: Sequence[int],
    b: Sequence[int],
    c: int,
    formats: dict[str, Format],
    qualifiers: dict[str, str],
) -> int:
    left, right = ([_integer(formats[role], p) for p in patterns] for role, patterns in (("a", a), ("b", b)))
    total = sum(x * y for x, y in zip(left, right, strict=True)) + _integer(formats["c"], c)
    if qualifiers.get("satfinite"):
        total = min(max(total, -(1 << 31)), (1 << 31) - 1)
    return total & 0xFFFFFFFF


def _integer(form: Format, pattern: int) -> int:
    value = pattern & form.code_mask
    return value - ((value & form.sign_bit) << 1)


@dot.register
def _(
    model: BitDot, a: Sequence[int], b: Sequence[int], c: int, formats: dict[str, Format], qualifiers: dict[str, str]
) -> int:
    both = (x ^ y if qualifiers["op"] == "xor" else x & y for x, y in zip(a, b, strict=True))
    return (sum(pattern.bit_count() for pattern in both) + c) & 0xFFFFFFFF


# ---------------------------------------------------------------------------------------------- block scaling

Scales = tuple[Sequence[int], Sequence[int]]


def dot_scaled(
    model: ScaledSums, a: Sequence[int], b: Sequence[int], c: int, scales: Scales, formats: dict[str, Format]
) -> int:
    """The pattern of d = (a scale_a) . (b scale_b) + c, for the scales of one row of A and one column of B.

    `formats` has a key scale besides a, b, c, d; each scale covers an equal share of k.
    """
    result, cover = formats["d"], len(a) // len(scales[0])
    left, right = ([unpack(formats[role], pattern) for pattern in patterns] for role, patterns in (("a", a), ("b", b)))
    first, second = ([_positive(unpack(formats["scale"], pattern)) for pattern in patterns] for patterns in scales)
    block = model.block or len(a)

    def takes_part(group: Sequence[int]) -> bool:
        scaled = not (first[group[0] // cover].is_zero or second[group[0] // cover].is_zero)
        return scaled and any(not (left[k].is_zero or right[k].is_zero) for k in group)

    for start in range(0, len(a), block):
        ks = range(start, start + block)
        used = {k // cover for k in ks}
        if any(scale.kind == "nan" for i in used for scale in (first[i], second[i])):
            return CANONICAL_NAN[result.name]
        running = unpack(result, c)
        special = _special([(k, left[k], right[k]) for k in ks], running, result)
        if special:
            c = special[0]
            continue
        groups = [range(k, k + model.group) for k in ks[:: model.group]]
        parts = [
            _group(model, group, left, right, first[group[0] // cover], second[group[0] // cover]) for group in groups
        ]
        # products that cancel still count with their exponent; zeros do not
        exponents = [exponent for group, (_, exponent, _) in zip(groups, parts, strict=True) if takes_part(group)]
        parts.append((_signed(running), running.exponent, running.fraction))
        exponents += [] if running.is_zero else [running.exponent]
        largest = max([*exponents, model.floor if model.floor is not None else min(exponents, default=0)])
        total = sum(_aligned(None, *part, largest, model.fraction).kept for part in parts)
        c = round_exact(result, total, largest - model.fraction, ROUNDING[result.name], overflow="infinity")
    return c


def _positive(scale: Unpacked) -> Unpacked:
    """A scale has no sign."""
    return Unpacked(scale.kind, False, scale.significand, scale.exponent, scale.fraction)


def _group(
    model: ScaledSums, ks: Sequence[int], left: Sequence[Unpacked], right: Sequence[Unpacked], x: Unpacked, y: Unpacked
) -> tuple[int, int, int]:
    """(significand, exponent, point) of the exact sum of a group of products times its two scales."""
    powers = [left[k].exponent + right[k].exponent for k in ks]
    low = powers[0] if model.group == 1 else min(0, *powers)
    total = sum(_signed(left[k]) * _signed(right[k]) << (power - low) for k, power in zip(ks, powers, strict=True))
    # the scales alone set the place of the point: the sum is not normalised into the exponent
    exponent = x.exponent + y.exponent + (low if model.group == 1 else 0)
    point = left[0].fraction + right[0].fraction + x.fraction + y.fraction - (0 if model.group == 1 else low)
    return total * x.significand * y.significand, exponent, point
