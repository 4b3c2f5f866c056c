"""What the models of the arithmetic table mean, on exact rational numbers and without a bit of the package.

A term of a fused sum is a value and the exponent that its pattern stands for: a subnormal has that of the smallest
normal number, a product the sum of its factors'. Nothing else is ever normalised.
"""

import math
from fractions import Fraction

from tcemu.arithmetic import FmaGroups, ScaledSums

#: exponent bits, mantissa bits, bits below that are ignored.
FIELDS = {
    "f32": (8, 23, 0), "tf32": (8, 10, 13), "bf16": (8, 7, 0), "f16": (5, 10, 0), "e5m2": (5, 2, 0), "e4m3": (4, 3, 0),
    "e3m2": (3, 2, 0), "e2m3": (2, 3, 0), "e2m1": (2, 1, 0),
}  # fmt: skip


def take_apart(name, pattern):
    """(value, exponent) of a pattern; the value is a Fraction, or "nan", or an infinity as a float."""
    exponent_bits, mantissa_bits, ignored = FIELDS[name]
    code = pattern >> ignored
    bias = (1 << (exponent_bits - 1)) - 1
    sign = -1 if code >> (exponent_bits + mantissa_bits) & 1 else 1
    field, mantissa = code >> mantissa_bits & ((1 << exponent_bits) - 1), code & ((1 << mantissa_bits) - 1)
    if name == "e4m3" and field == 15 and mantissa == 7:
        return "nan", 0
    if name in ("f32", "tf32", "bf16", "f16", "e5m2") and field == (1 << exponent_bits) - 1:
        return ("nan" if mantissa else sign * math.inf), 0
    exponent = max(field, 1) - bias
    significand = Fraction(mantissa + ((1 << mantissa_bits) if field else 0), 1 << mantissa_bits)
    return sign * significand * Fraction(2) ** exponent, exponent


def scale(name, pattern):
    """(value, exponent) of a scale, or ("nan", 0); it has no sign."""
    if name == "ue8m0":
        return ("nan", 0) if pattern == 255 else (Fraction(2) ** (pattern - 127), pattern - 127)
    value, exponent = take_apart("e4m3", pattern & 0x7F)
    return value, exponent


def exact(model, names, a, b, c, scales=()):
    """The pattern of d = a . b + c, or None where something is infinite or NaN on the way."""
    value, exponent = take_apart(names["c"], c)
    left, right = (
        [take_apart(names[role], pattern) for pattern in patterns] for role, patterns in (("a", a), ("b", b))
    )
    if any(not isinstance(x, Fraction) for x, _ in (*left, *right, (value, exponent))):
        return None
    if isinstance(model, FmaGroups):
        return _groups(model, names, left, right, value)
    if isinstance(model, ScaledSums):
        return _scaled(model, names, left, right, (value, exponent), scales)
    return _fused(model, names, left, right, (value, exponent))


def _fused(model, names, left, right, addend):
    """A chain of fused sums."""
    result = model.via or names["d"]
    if model.through:  # what is converted is normal wherever the wider format lets it be
        left, right = ([_normal(model.through, x) for x, _ in factors] for factors in (left, right))
    if model.widen and names["c"] != result:
        addend = _normal(result, addend[0])
    running = addend if model.addend == "first" else (Fraction(0), 0)
    for ks in _chain(model, len(left)):
        terms = [(left[k][0] * right[k][0], left[k][1] + right[k][1]) for k in ks]
        pattern = _sum(result, [*terms, running], [], model)
        running = take_apart(result, pattern)
        if not isinstance(running[0], Fraction):
            return None
    if model.addend == "last":
        pattern = rounded(result, running[0] + addend[0], None, nearest=True)
    if model.via:
        value, _ = take_apart(result, pattern)
        # a conversion, unlike a sum, keeps the sign of what becomes zero
        pattern = rounded(names["d"], value, None, nearest=True) or (0x8000 if value < 0 else 0)
    return pattern


def _chain(model, depth):
    """The k of each sum."""
    ks = list(range(depth))
    if model.order == "pairs":  # the low halves of the registers, then the high ones
        ks = [k for k in ks if k % 4 < 2] + [k for k in ks if k % 4 >= 2]
    size = model.block or (depth // 2 if model.order == "pairs" else depth)
    return [ks[start : start + size] for start in range(0, depth, size)]


def _scaled(model, names, left, right, addend, scales):
    """Fused sums of groups of scaled products."""
    first, second = ([scale(names["scale"], pattern) for pattern in patterns] for patterns in scales)
    if any(value == "nan" for value, _ in (*first, *second)):
        return None
    depth, running = len(left), addend
    for start in range(0, depth, model.block or depth):
        terms, present = [running], [running[1]] if running[0] else []
        for group in range(start, start + (model.block or depth), model.group):
            (x, ex), (y, ey) = (s[group * len(s) // depth] for s in (first, second))
            products = [left[k][0] * right[k][0] for k in range(group, group + model.group)]
            own = left[group][1] + right[group][1] if model.group == 1 else 0
            terms.append((sum(products, Fraction(0)) * x * y, ex + ey + own))
            if any(products) and x and y:  # whether or not they cancel
                present.append(ex + ey + own)
        pattern = _sum(names["d"], terms, present, model)
        running = take_apart(names["d"], pattern)
        if not isinstance(running[0], Fraction):
            return None
    return pattern


def _sum(result, terms, present, model):
    """One fused sum; `present` are exponents that count although their terms may be zero."""
    known = [exponent for term, exponent in terms if term] + present
    if model.floor is not None:
        known.append(model.floor)
    unit = Fraction(2) ** (max(known, default=0) - model.fraction)
    total = sum((int(term / unit) for term, _ in terms), 0) * unit  # int() cuts towards zero
    return rounded(result, total, getattr(model, "keep", None), nearest=result == "f16")


def _groups(model, names, left, right, addend):
    """Ordinary f32 arithmetic; None if the result is zero, because other tests check its sign."""
    sums = {-1: addend}
    for index, ks in enumerate(model.groups):
        total = Fraction(0)
        for k in ks:
            total, _ = take_apart("f32", rounded("f32", total + left[k][0] * right[k][0], None, nearest=True))
            if not isinstance(total, Fraction):
                return None
        sums[index] = total
    total = sums[model.order[0]]
    for index in model.order[1:]:
        total, _ = take_apart("f32", rounded("f32", total + sums[index], None, nearest=True))
        if not isinstance(total, Fraction):
            return None
    # a conversion, unlike a sum, keeps the sign of what becomes zero
    return (rounded(names["d"], total, None, nearest=True) or (0x8000 if total < 0 else 0)) if total else None


def _normal(name, value):
    """(value, exponent) of a number that the format `name` holds."""
    bias = (1 << (FIELDS[name][0] - 1)) - 1
    return value, max(_top(value), 1 - bias) if value else 1 - bias


def _top(value):
    """The exponent of the highest bit."""
    size = abs(value)
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess - (size < Fraction(2) ** guess)


def rounded(name, value, keep, nearest):
    """The pattern of a Fraction, toward zero or to nearest even, with `keep` fraction bits; a zero is +0."""
    exponent_bits, mantissa_bits, _ = FIELDS[name]
    bits, bias = keep if keep is not None else mantissa_bits, (1 << (exponent_bits - 1)) - 1
    if not value:
        return 0
    size = abs(value)
    exponent = max(_top(value), 1 - bias)
    steps = size / Fraction(2) ** (exponent - bits)
    whole = round(steps) if nearest else int(steps)  # round() takes ties to even
    got = whole * Fraction(2) ** (exponent - bits)
    sign = 1 << (exponent_bits + mantissa_bits) if value < 0 and whole else 0
    if got >= Fraction(2) ** (bias + 1):
        return sign | ((1 << exponent_bits) - 1) << mantissa_bits
    if got < Fraction(2) ** (1 - bias):
        return sign | int(got / Fraction(2) ** (1 - bias - mantissa_bits))
    exponent += got >= Fraction(2) ** (exponent + 1)
    mantissa = int((got / Fraction(2) ** exponent - 1) * (1 << mantissa_bits))
    return sign | (exponent + bias) << mantissa_bits | mantissa
