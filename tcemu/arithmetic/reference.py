"""What a tensor core computes, in plain Python integers: one output element, step by step.

This is the definition. The kernels in tcemu.kernels are its fast twins, and tests keep them equal to it, bit for bit.
Patterns go in and come out; nothing here rounds in floating point.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from tcemu.arithmetic.fused import ROUNDING, FusedSum, aligned, fused_sum, special_result
from tcemu.arithmetic.ieee import CANONICAL_NAN, add_nearest, fma64, signed, sum_nearest, widen
from tcemu.arithmetic.model import ADDEND, BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.formats import Format, Rounding, Unpacked, lookup, round_exact, unpack

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
    return sum_nearest([unpack(result, pattern)], formats["d"]) if model.via else pattern


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
    return c if formats["c"] == result else widen(unpack(formats["c"], c), result)


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
    sums = {ADDEND: widen(unpack(formats["c"], c), single)}
    for index, ks in enumerate(model.groups):
        start = [unpack(single, 0)] if model.from_zero else []
        pattern = sum_nearest(start, single, (left[ks[0]], right[ks[0]]))
        for k in ks[1:]:
            pattern = sum_nearest([unpack(single, pattern)], single, (left[k], right[k]))
        sums[index] = pattern
    total = sums[model.order[0]]
    for index in model.order[1:]:
        total = add_nearest(total, sums[index], single)
    return sum_nearest([unpack(single, total)], formats["d"])


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
        special = special_result([(k, left[k], right[k]) for k in ks], running, result)
        if special:
            c = special[0]
            continue
        groups = [range(k, k + model.group) for k in ks[:: model.group]]
        parts = [
            _group(model, group, left, right, first[group[0] // cover], second[group[0] // cover]) for group in groups
        ]
        # products that cancel still count with their exponent; zeros do not
        exponents = [exponent for group, (_, exponent, _) in zip(groups, parts, strict=True) if takes_part(group)]
        parts.append((signed(running), running.exponent, running.fraction))
        exponents += [] if running.is_zero else [running.exponent]
        largest = max([*exponents, model.floor if model.floor is not None else min(exponents, default=0)])
        total = sum(aligned(None, *part, largest, model.fraction).kept for part in parts)
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
    total = sum(signed(left[k]) * signed(right[k]) << (power - low) for k, power in zip(ks, powers, strict=True))
    # the scales alone set the place of the point: the sum is not normalised into the exponent
    exponent = x.exponent + y.exponent + (low if model.group == 1 else 0)
    point = left[0].fraction + right[0].fraction + x.fraction + y.fraction - (0 if model.group == 1 else low)
    return total * x.significand * y.significand, exponent, point
