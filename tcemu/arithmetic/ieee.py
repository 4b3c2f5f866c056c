"""Additions and fused multiply-adds of single numbers, as the ordinary cores of a GPU do them: with one rounding."""

from __future__ import annotations

from collections.abc import Sequence

from tcemu.formats import Format, Rounding, Unpacked, lookup, round_exact, unpack

#: The only NaN that fused sums and the routines on ordinary cores return: all ones except the sign.
CANONICAL_NAN = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}


def signed(number: Unpacked) -> int:
    """The significand with the sign."""
    return -number.significand if number.negative else number.significand


def add_nearest(x: int, y: int, form: Format) -> int:
    """x + y of two patterns of `form`, an ordinary IEEE addition to nearest even; NaN is the canonical one."""
    return sum_nearest([unpack(form, x), unpack(form, y)], form)


def fma_nearest(x: int, y: int, z: int, form: Format) -> int:
    """x * y + z of three patterns of `form`, rounded once to nearest even; NaN is the canonical one."""
    return sum_nearest([unpack(form, z)], form, (unpack(form, x), unpack(form, y)))


def sum_nearest(terms: Sequence[Unpacked], form: Format, factor: tuple[Unpacked, Unpacked] | None = None) -> int:
    """The exact sum of terms (and a product), rounded once to nearest even: an addition, or a fused multiply-add."""
    numbers: list[tuple[int, int, bool, str]] = [
        (signed(term), term.exponent - term.fraction, term.negative, term.kind) for term in terms
    ]
    if factor:
        a, b = factor
        kind = "nan" if "nan" in (a.kind, b.kind) else "infinity" if "infinity" in (a.kind, b.kind) else "normal"
        kind = "nan" if kind == "infinity" and "zero" in (a.kind, b.kind) else kind
        power = a.exponent - a.fraction + b.exponent - b.fraction
        numbers.append((signed(a) * signed(b), power, a.negative != b.negative, kind))
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


def widen(number: Unpacked, form: Format) -> int:
    """The pattern of a number in another format: exact if that is wider."""
    return sum_nearest([number], form)


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
    total = (signed(a) * signed(b) << (power - low)) + (signed(c) << (other - low))
    if total:
        pattern = round_exact(form, total, low, rounding)
        return pattern if pattern or total > 0 else form.sign_bit
    both_zero = a.is_zero or b.is_zero
    if both_zero and negative == c.negative:
        return z
    return form.sign_bit if rounding == "rm" else 0
