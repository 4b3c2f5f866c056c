"""a * b + c of floats, rounded once: numpy has no such function.

Floats of 32 bits: their product is exact in 64 bits; the sum, rounded to odd there (Boldo and Melquiond, "Emulation of
FMA and correctly rounded sums", 2008), rounds to 32 bits as if it had not been rounded before. Floats of 64 bits: the
same with the product in two parts, of fractions near 1; exponents are integers until the end.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any


def exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def exact_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product of 64-bit floats and its error (Dekker), if nothing overflows or underflows."""
    split = 134217729.0  # 2**27 + 1
    a_high, b_high = (x * split - (x * split - x) for x in (a, b))
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def odd(total: Array, error: Array) -> Array:
    """A 64-bit float that was rounded to nearest, rounded to odd instead, from the sign of its error."""
    bits = total.view(np.int64)
    away = (error > 0) == (total > 0)
    wrong = (error != 0) & (bits & 1 == 0) & np.isfinite(total)
    return (bits + np.where(wrong, np.where(away, 1, -1), 0)).view(np.float64)


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """The fused multiply-add of arrays of 32- or 64-bit floats."""
    if a.dtype == np.float32:
        total, error = exact_sum(a.astype(np.float64) * b, c.astype(np.float64))
        return odd(total, error).astype(np.float32)
    simple = np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c, a * b + c)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (a != 0) & (b != 0)
    (a, i), (b, j), (c, k) = (np.frexp(np.where(finite, x, 1.0)) for x in (a, b, c))
    k = np.where(c == 0, -5000, k)
    return np.where(finite, _scaled_multiply_add(a, b, c, i.astype(np.int64) + j, k.astype(np.int64)), simple)


#: What is further below the other summand than this changes a result only by its sign.
_FAR = 220
#: A result of this exponent or less is 0.
_LEAST = -1200


def _scaled_multiply_add(a: Array, b: Array, c: Array, i: Array, k: Array) -> Array:
    """a * b * 2**i + c * 2**k of fractions in 1/2 to 1."""
    top = np.maximum(i, k)
    high, low = exact_product(a, b)
    near, other = (np.maximum(each - top, -_FAR).astype(np.int32) for each in (i, k))
    first, rest = exact_sum(np.ldexp(c, other), np.ldexp(low, near))
    total, error = exact_sum(np.ldexp(high, near), first)
    tail = odd(*exact_sum(error, rest))
    top = np.clip(top, _LEAST, 3000).astype(np.int32)
    result = total + tail
    # A subnormal result has fewer bits. Its last one is that of a large number, to which it is added.
    large = np.copysign(np.ldexp(1.0, np.clip(52 - 1074 - top, -1000, 1000)), result)
    first, rest = exact_sum(large, total)
    subnormal = np.copysign(first + odd(*exact_sum(rest, tail)) - large, result)
    return np.ldexp(np.where(np.frexp(result)[1] + top < -1021, subnormal, result), top)
