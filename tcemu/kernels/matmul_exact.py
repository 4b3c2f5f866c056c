"""One fused sum by the plain integer rule, for any operands; and the small tools of the vector passes.

Accumulators are float32 patterns; a float16 accumulator is the float32 of the same value.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int32, int64, uint32

from tcemu.kernels.compiling import njit

#: Columns of a packed tile of B; a constant, so that the compiler knows the distance of its rows.
WIDTH = 256

#: The only NaN of results, as float32 and as float16.
QUIET, QUIET_HALF = 0x7FFFFFFF, 0x7FFF
INFINITY = 0x7F800000

FINITE, INFINITE, NAN = 0, 1, 2
#: Which patterns of a format are NaN: as in IEEE 754, or only those with all bits set.
IEEE, ALL_ONES = 1, 2

#: Small functions inside the loops: LLVM does not vectorise a loop with a call that is not inlined.
inlined = njit(cache=True, nogil=True, forceinline=True)


# ------------------------------------------------------------------------------------------- patterns of host floats


@inlined
def _bits32(x):  # type: ignore[no-untyped-def]
    """The pattern of a float32, as int32."""
    return np.float32(x).view(np.int32)


@inlined
def _from_bits32(bits):  # type: ignore[no-untyped-def]
    """The float32 of a pattern."""
    return np.int32(bits).view(np.float32)


@inlined
def _bits64(x):  # type: ignore[no-untyped-def]
    """The pattern of a float64, as int64."""
    return np.float64(x).view(np.int64)


@inlined
def _from_bits64(bits):  # type: ignore[no-untyped-def]
    """The float64 of a pattern."""
    return np.int64(bits).view(np.float64)


@inlined
def _larger(x, y):  # type: ignore[no-untyped-def]
    """max in the type given: numba's widens to 64 bits, which halves the lanes."""
    return x if x > y else y  # noqa: FURB136


@inlined
def _smaller(x, y):  # type: ignore[no-untyped-def]
    """min in the type given."""
    return x if x < y else y  # noqa: FURB136


# ------------------------------------------------------------------------------------------ one element, any operands


@inlined
def _unpack(pattern, fmt):  # type: ignore[no-untyped-def]
    """(signed significand as an integer, exponent, class) of an element; see `matmul.fused` for `fmt`."""
    code = int64(pattern) >> fmt[3]
    mantissa = code & ((int64(1) << fmt[1]) - 1)
    ones = (int64(1) << fmt[0]) - 1
    field = (code >> fmt[1]) & ones
    negative = (code >> (fmt[0] + fmt[1])) & 1
    kind = FINITE
    if fmt[5] == IEEE and field == ones:
        kind = INFINITE if mantissa == 0 else NAN
    elif fmt[5] == ALL_ONES and field == ones and mantissa == (int64(1) << fmt[1]) - 1:
        kind = NAN
    if field > 0:
        mantissa |= int64(1) << fmt[1]
    return (-mantissa if negative else mantissa), max(field, int64(1)) - fmt[2], kind


@inlined
def _truncate(number, shift):  # type: ignore[no-untyped-def]
    """number * 2^shift toward zero; |number| < 2^24 and shift <= 35."""
    if shift >= 0:
        return number << shift
    shift = min(-shift, int64(63))
    return -((-number) >> shift) if number < 0 else number >> shift


@inlined
def _power(exponent):  # type: ignore[no-untyped-def]
    """2.0**exponent for -1022 <= exponent <= 1023."""
    return _from_bits64((int64(exponent) + 1023) << 52)


@njit(cache=True, nogil=True)
def exact(a, b, c, fmt_a, fmt_b, rule):  # type: ignore[no-untyped-def]
    """One fused sum by the integer rule: c + sum of a[i] * b[i], all patterns; returns the pattern of the result."""
    fraction, floor, keep, nearest = rule[0], rule[1], rule[2], rule[3]
    emin = int64(-14 if nearest else -126)
    terms = a.shape[0]
    # The accumulator: like every operand, a subnormal of its own format is not normalised.
    field_c = (int64(c) >> 23) & 255
    significand_c = int64(c) & 0x7FFFFF
    if field_c > 0:
        significand_c |= 0x800000
    power_c = max(field_c, int64(1)) - 127
    bad = field_c == 255 and significand_c != 0x800000
    plus, minus = field_c == 255 and int32(c) >= 0, field_c == 255 and int32(c) < 0
    largest = floor
    if significand_c != 0:
        largest = max(largest, max(power_c, emin))
    if int32(c) < 0:
        significand_c = -significand_c
    for i in range(terms):
        sa, pa, ka = _unpack(a[i], fmt_a)
        sb, pb, kb = _unpack(b[i], fmt_b)
        if ka | kb:
            bad |= ka == NAN or kb == NAN or sa == 0 or sb == 0
            plus |= (sa > 0) == (sb > 0)
            minus |= (sa > 0) != (sb > 0)
        elif sa != 0 and sb != 0:
            largest = max(largest, pa + pb)
    if bad or (plus and minus):
        return uint32(QUIET)
    if plus or minus:
        return uint32(INFINITY) if plus else uint32(INFINITY | 0x80000000)
    total = _truncate(significand_c, fraction - 23 + power_c - largest)
    point = fmt_a[1] + fmt_b[1]
    for i in range(terms):
        sa, pa, ka = _unpack(a[i], fmt_a)
        sb, pb, kb = _unpack(b[i], fmt_b)
        total += _truncate(sa * sb, fraction - point + pa + pb - largest)
    if total == 0:
        return uint32(0)
    magnitude, unit = abs(total), largest - fraction
    top = int64((_bits64(float64(magnitude)) >> 52) - 1023) + unit
    drop = max(top, emin) - keep - unit
    if drop > 0:
        drop = min(drop, int64(62))
        kept = magnitude >> drop
        if nearest:
            rest, half = magnitude - (kept << drop), int64(1) << (drop - 1)
            if rest > half or (rest == half and kept & 1):
                kept += 1
        magnitude, unit = kept, unit + drop
        if magnitude == 0:
            return uint32(0)
    value = float64(magnitude) * _power(unit)
    if nearest and value > 65504.0:
        value = np.inf
    pattern = uint32(_bits32(value))  # at most 24 bits are left: exact, or infinite from 2^128 on
    return pattern | uint32(0x80000000) if total < 0 else pattern
