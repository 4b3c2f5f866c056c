"""f32 arithmetic against exact fractions, which this file rounds by itself."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcemu.gemm import scalar

SPECIALS = [0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x00000001, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF]
SPECIALS += [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x4B800001, 0x33800000, 0x34000001]
patterns = st.one_of(st.sampled_from(SPECIALS), st.integers(0, 2**32 - 1))


def f32(pattern):
    return np.uint32(pattern).view(np.float32)


def nearest(exact, sign_of_zero):
    """The f32 pattern nearest to a fraction, ties to even; overflow is infinity."""
    if exact == 0:
        return 0x80000000 if sign_of_zero else 0
    sign, size = exact < 0, abs(exact)
    exponent = -149
    while size / Fraction(2) ** exponent >= 1 << 24:
        exponent += 1
    units = size / Fraction(2) ** exponent
    whole, rest = divmod(units.numerator, units.denominator)
    half = Fraction(rest, units.denominator) - Fraction(1, 2)
    whole += half > 0 or (half == 0 and whole % 2)
    if whole >= 1 << 24:
        whole, exponent = whole // 2, exponent + 1
    biased = exponent + 150 if whole >= 1 << 23 else 0
    magnitude = 0x7F800000 if biased >= 255 else (biased << 23) + (whole & 0x7FFFFF)
    return sign << 31 | magnitude


def expected(a, b, c):
    """The f32 pattern of a * b + c."""
    special = [float(x) for x in (a, b, c)]
    if not all(np.isfinite(special)):
        with np.errstate(all="ignore"):
            found = np.float64(special[0]) * np.float64(special[1]) + np.float64(special[2])
        return 0x7FFFFFFF if np.isnan(found) else 0x7F800000 | int(found < 0) << 31
    product = Fraction(special[0]) * Fraction(special[1])
    negative = bool(np.signbit(a)) != bool(np.signbit(b))
    both_negative_zero = product == 0 and negative and special[2] == 0 and bool(np.signbit(c))
    return nearest(product + Fraction(special[2]), both_negative_zero)


@given(patterns, patterns, patterns)
def test_fma(a, b, c):
    a, b, c = map(f32, (a, b, c))
    assert int(scalar.fma(a, b, c).view(np.uint32)) == expected(a, b, c)


@given(patterns, patterns, st.integers(-2, 2))
def test_fma_near_cancellation(a, b, off):
    """C is within a few units of the product, so that the last bits count."""
    a, b = f32(a), f32(b)
    c = f32((int(scalar.mul(-a, b).view(np.uint32)) + off) % 2**32)
    assert int(scalar.fma(a, b, c).view(np.uint32)) == expected(a, b, c)


def test_fma_at_ties():
    """1 + 2^-24 is a tie; the smallest term on either side decides."""
    tie, least = np.float32(2**-24), np.float32(2**-149)
    for sign in (1, -1):
        c = np.float32(1 + 2**-23 * (sign < 0))
        assert int(scalar.fma(tie, 1, c).view(np.uint32)) == expected(tie, np.float32(1), c)
    a = np.float32(1 + 2**-23)
    for c in (least, -least, np.float32(0), np.float32(-(2**-46)), np.float32(-(2**-24))):
        assert int(scalar.fma(a, a, c).view(np.uint32)) == expected(a, a, c)


@given(patterns, patterns)
def test_add_mul(a, b):
    a, b = f32(a), f32(b)
    assert int(scalar.add(a, b).view(np.uint32)) == expected(a, np.float32(1), b)
    zero = f32(0x80000000 if bool(np.signbit(a)) != bool(np.signbit(b)) else 0)
    assert int(scalar.mul(a, b).view(np.uint32)) == expected(a, b, zero)


@given(patterns, patterns)
def test_div(a, b):
    a, b = f32(a), f32(b)
    found = int(scalar.div(a, b).view(np.uint32))
    if np.isfinite(a) and np.isfinite(b) and b:
        negative = bool(np.signbit(a)) != bool(np.signbit(b))
        assert found == nearest(Fraction(float(a)) / Fraction(float(b)), negative)
    elif np.isnan(a) or np.isnan(b) or (np.isinf(a) and np.isinf(b)) or (a == 0 and b == 0):
        assert found == 0x7FFFFFFF


@pytest.mark.parametrize(
    ("a", "b", "larger"),
    [
        (0x00000000, 0x80000000, 0x00000000),
        (0x80000000, 0x00000000, 0x00000000),
        (0x80000000, 0x80000000, 0x80000000),
        (0x7FC00001, 0xFF800000, 0xFF800000),
        (0xFFFFFFFF, 0x7F800001, 0x7FFFFFFF),
        (0xBF800000, 0x00000001, 0x00000001),
    ],
)
def test_max(a, b, larger):
    """PTX ISA 9.7.3, max: if one of the inputs is NaN, the other is the result; +0 is larger than -0."""
    assert int(scalar.maximum(f32(a), f32(b)).view(np.uint32)) == larger


def test_conversion_to_halves():
    found = scalar.cvt_f16x2(np.float32([1, 65520, np.nan]), np.float32([-2, 2**-25, -70000]))
    assert [hex(each) for each in found] == ["0xc0003c00", "0x7c00", "0xfc007fff"]


def test_powers_of_two():
    """Whole powers are exact, others are within two units; the bits are tested in tests/alu."""
    whole = np.arange(-126, 1).astype(np.float32)
    assert np.array_equal(scalar.ex2(whole), 2.0**whole)
    assert scalar.ex2(np.float32([-np.inf, -127])).tolist() == [0, 0]
    x = np.linspace(-20, 0, 1001, dtype=np.float32)
    assert np.abs(scalar.ex2(x) / 2.0 ** x.astype(float) - 1).max() < 2**-22
    assert scalar.ex2(x[0]).shape == ()
