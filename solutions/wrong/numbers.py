"""Wrong answers of notebook 01 that people give, with words that the diagnosis contains."""

import math

import numpy as np

from tcemu import formats

E4M3 = formats.lookup("e4m3")


# ---------------------------------------------------------------------------------------------- e5m2_value


def value(pattern, bias=15, infinite=True, subnormal=True, signed=True):
    """The rule with a part left out."""
    sign = -1.0 if pattern >> 7 and signed else 1.0
    field, mantissa = pattern >> 2 & 31, pattern & 3
    if field == 31 and infinite:
        return math.nan if mantissa else sign * math.inf
    if field == 0 and subnormal:
        return sign * mantissa / 4 * 2.0 ** (1 - bias)
    return sign * (1 + mantissa / 4) * 2.0 ** (field - bias)


def positive(pattern):
    """Without the sign."""
    return value(pattern, signed=False)


def always_one(pattern):
    """With an implicit 1 for subnormals."""
    return value(pattern, subnormal=False)


def ordinary(pattern):
    """The general rule for every pattern."""
    return value(pattern, infinite=False, subnormal=False)


def no_infinity(pattern):
    """NaN for every exponent field of ones, and a sign that is a whole number."""
    return math.nan if pattern >> 2 & 31 == 31 else value(pattern) + 0.0


def no_minus_zero(pattern):
    """A sign that is a whole number: −1 · 0 is 0."""
    return value(pattern) + 0.0


def halved_subnormals(pattern):
    """2⁻¹⁵ where 2⁻¹⁴ is due, and a whole-number sign."""
    return value(pattern) / 2 + 0.0 if pattern >> 2 & 31 == 0 else value(pattern)


def bias_16(pattern):
    """Half of 32."""
    return value(pattern, bias=16)


def as_e4m3(pattern):
    """The other format of 8 bits."""
    return float(E4M3.decode(np.uint8(pattern)))


def four_and_three(pattern):
    """The fields of e4m3, with e5m2's bias and no subnormals."""
    return (-1.0 if pattern >> 7 else 1.0) * (1 + (pattern & 7) / 8) * 2.0 ** ((pattern >> 3 & 15) - 15)


def one_nan(pattern):
    """As e4m3 uses its last exponent."""
    exponent = pattern >> 2 & 31
    if pattern & 127 == 127:
        return math.nan
    size = (pattern & 3) / 4 * 2.0**-14 if exponent == 0 else (1 + (pattern & 3) / 4) * 2.0 ** (exponent - 15)
    return -size if pattern >> 7 else size


def eighths(pattern):
    """Three mantissa bits."""
    sign, field, mantissa = -1.0 if pattern >> 7 else 1.0, pattern >> 2 & 31, pattern & 3
    if field == 31:
        return value(pattern)
    return sign * mantissa / 8 * 2.0**-14 if field == 0 else sign * (1 + mantissa / 8) * 2.0 ** (field - 15)


def always_infinite(pattern):
    """No NaN."""
    found = value(pattern)
    return (-math.inf if pattern >> 7 else math.inf) if math.isnan(found) else found


# ---------------------------------------------------------------------------------------------- scale_for


def rounded_down(largest):
    """floor for ceil."""
    return 127 + math.floor(math.log2(largest / 448))


def without_bias(largest):
    """The exponent itself."""
    return math.ceil(math.log2(largest / 448))


def from_256(largest):
    """The highest power of two in place of the largest number."""
    return 127 + math.ceil(math.log2(largest / 256))


def fits_when_rounded(largest):
    """Up to 464."""
    return 127 + int(np.ceil(np.log2(largest / 464)))


def always_the_next(largest):
    """Also where the quotient is a power of two."""
    return 128 + int(np.floor(np.log2(largest / 448)))


def to_the_nearest(largest):
    """round for ceil."""
    return 127 + round(math.log2(largest / 448))


def never_below_one(largest):
    """No scale for small numbers."""
    return 127 + max(0, math.ceil(math.log2(largest / 448)))


def inverse(largest):
    """Divided the other way round."""
    return 127 - math.ceil(math.log2(largest / 448))


# ---------------------------------------------------------------------------------------------- e4m3_patterns


def truncated(numbers):
    """Toward zero."""
    return E4M3.encode(numbers, rounding="rz", satfinite=True)


def ties_away(numbers):
    """Half up, as at school."""
    return E4M3.encode(numbers, rounding="rna", satfinite=True)


def upper_bytes_of_f16(numbers):
    """A cast to f16, and its upper byte."""
    return (numbers.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8)


def ties_down(numbers):
    """The first of the nearest."""
    positive = E4M3.decode(np.arange(127, dtype=np.uint8))
    nearest = np.abs(positive - np.abs(numbers)[:, None]).argmin(axis=1)
    return (nearest | 128 * np.signbit(numbers)).astype(np.uint8)


def sign_of_the_rounded(numbers):
    """A small negative number rounds to 0, which is not less than 0."""
    found = formats.lookup("e4m3").encode(numbers, satfinite=True)
    return np.where(found & 0x7F == 0, 0, found).astype(np.uint8)


def overflowing(numbers):
    """NaN for what is too large."""
    return E4M3.encode(numbers)


def flushed(numbers):
    """Subnormals become zero."""
    found = E4M3.encode(numbers, satfinite=True)
    return np.where(found & 0x78 == 0, found & 0x80, found).astype(np.uint8)


WRONG = {
    "e5m2_value": [
        (positive, "The sign is missing"),
        (always_one, "no implicit leading 1"),
        (bias_16, "The bias of e5m2 is 15"),
        (as_e4m3, "as e4m3"),
        (four_and_three, "You read the pattern as e4m3"),
        (one_nan, "the exponent field 31 is infinity or NaN"),
        (eighths, "it counts quarters"),
        (always_infinite, "only mantissa 0 is infinity"),
        (ordinary, "have rules of their own"),
        (no_infinity, "e5m2 has infinity"),
        (no_minus_zero, "Only −0 is wrong"),
        (halved_subnormals, "The smallest exponent is −14"),
    ],
    "scale_for": [
        (rounded_down, "rounded the exponent down"),
        (without_bias, "with bias 127"),
        (from_256, "448, not 256"),
        (to_the_nearest, "to the nearest"),
        (fits_when_rounded, "449 to 464 fit only after rounding"),
        (always_the_next, "you took the next one"),
        (never_below_one, "can be less than 1"),
        (inverse, "The scale multiplies"),
    ],
    "e4m3_patterns": [
        (truncated, "You truncated"),
        (ties_away, "Ties go to the even pattern"),
        (ties_down, "you rounded them toward zero"),
        (upper_bytes_of_f16, "the upper bytes of f16"),
        (overflowing, "not NaN"),
        (sign_of_the_rounded, "take the sign from the number"),
        (flushed, "has subnormals"),
    ],
}
