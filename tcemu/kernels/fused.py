"""Fused sums on tiles: many small matrices at once, each output a chain of exact sums, each rounded once.

A float format is six numbers in an int64 array: exponent bits, mantissa bits, bias, padding bits, infinities (0 or 1),
NaN kind (0 none, 1 IEEE, 2 all ones). tcemu.arithmetic says what the numbers mean.
"""

from __future__ import annotations

import math

import numpy as np

from tcemu.kernels.compiling import njit

FINITE, INFINITE, NAN = 0, 1, 2
#: Exponent of a term that takes no part in the search for the largest one.
ABSENT = -(1 << 20)


@njit(cache=True, nogil=True, inline="always")
def _unpack(pattern, fmt):  # type: ignore[no-untyped-def]
    """(signed significand, exponent, class) of one pattern; a zero has exponent ABSENT."""
    exponent_bits, mantissa_bits = fmt[0], fmt[1]
    code = np.int64(pattern) >> fmt[3]
    mantissa = code & ((np.int64(1) << mantissa_bits) - 1)
    ones = (np.int64(1) << exponent_bits) - 1
    exponent = (code >> mantissa_bits) & ones
    negative = (code >> (mantissa_bits + exponent_bits)) & 1
    if exponent == ones:
        if fmt[5] == 1:
            kind = NAN if mantissa != 0 else INFINITE
            return (np.int64(-1) if negative else np.int64(1)), np.int64(0), kind
        if fmt[5] == 2 and mantissa == (np.int64(1) << mantissa_bits) - 1:
            return np.int64(1), np.int64(0), NAN
    if exponent == 0:
        significand, power = mantissa, 1 - fmt[2]
    else:
        significand, power = mantissa | (np.int64(1) << mantissa_bits), exponent - fmt[2]
    if significand == 0:
        power = np.int64(ABSENT)
    return (-significand if negative else significand), power, FINITE


@njit(cache=True, nogil=True, inline="always")
def _shifted(number, shift):  # type: ignore[no-untyped-def]
    """number * 2^shift, truncated toward zero."""
    if shift >= 0:
        return number << shift
    if shift < -62:
        return np.int64(0)
    return -((-number) >> -shift) if number < 0 else number >> -shift


@njit(cache=True, nogil=True)
def _round(number, exponent, fmt, keep, nearest):  # type: ignore[no-untyped-def]
    """The pattern of number * 2^exponent: toward zero, or to nearest even; overflow is infinite, zero is +0."""
    if number == 0:
        return np.int64(0)
    magnitude = abs(number)
    emin = 1 - fmt[2]
    top = max(np.int64(math.frexp(float(magnitude))[1]) - 1 + exponent, emin)
    drop = top - keep - exponent
    if drop <= 0:
        kept = magnitude << -drop
    elif drop > 62:
        kept = np.int64(0)
    else:
        kept = magnitude >> drop
        if nearest:
            rest = magnitude - (kept << drop)
            half = np.int64(1) << (drop - 1)
            if rest > half or (rest == half and kept & 1):
                kept += 1
    code = ((top - emin) << fmt[1]) + (kept << (fmt[1] - keep))
    infinity = ((np.int64(1) << fmt[0]) - 1) << fmt[1]
    if code > infinity:
        code = infinity
    if number < 0 and code != 0:
        code |= np.int64(1) << (fmt[0] + fmt[1])
    return code


@njit(cache=True, nogil=True)
def _add(x, y, fmt, nan):  # type: ignore[no-untyped-def]
    """x + y of two patterns of one format, rounded to nearest even, with the one NaN `nan`."""
    sx, ex, kx = _unpack(x, fmt)
    sy, ey, ky = _unpack(y, fmt)
    if kx == NAN or ky == NAN or (kx == INFINITE and ky == INFINITE and sx != sy):
        return nan
    if kx == INFINITE or ky == INFINITE:
        return np.int64(x) if kx == INFINITE else np.int64(y)
    if sx == 0 and sy == 0:
        return np.int64(x) & np.int64(y)  # -0 only where both are -0
    if sx == 0 or sy == 0:
        return np.int64(y) if sx == 0 else np.int64(x)
    high, low = max(ex, ey), min(ex, ey)
    gap = high - low
    big, small = (sx, sy) if ex >= ey else (sy, sx)
    if gap > 30:  # the smaller one only breaks ties: a sticky bit far below replaces it
        return _round(big * (np.int64(1) << 30) + (1 if small > 0 else -1), high - 30 - fmt[1], fmt, fmt[1], True)
    return _round((big << gap) + small, low - fmt[1], fmt, fmt[1], True)


@njit(cache=True, nogil=True)
def chain(  # type: ignore[no-untyped-def]
    a, b, c, d, fmt_a, fmt_b, fmt_c, fmt_d, order, block, fraction, floor, keep, nearest, first, nan
):
    """d[w] = a[w] @ b[w] + c[w], each output a chain of fused sums of `block` products.

    a (w, m, k), b (w, k, n), c and d (w, m, n) are patterns. `order` lists k in the order of the chain. `first` 1: c is
    a term of the first sum; 0: the chain starts from +0 and c is added last, to nearest.
    """
    tiles, rows, depth = a.shape
    columns = b.shape[2]
    # significands are shifted up so far that aligning a product only shifts down
    lift = fraction - fmt_a[1] - fmt_b[1]
    sa, pa, ka = np.empty((rows, depth), np.int64), np.empty((rows, depth), np.int64), np.empty((rows, depth), np.int64)
    sb, pb = np.empty((columns, depth), np.int64), np.empty((columns, depth), np.int64)
    kb = np.empty((columns, depth), np.int64)
    for w in range(tiles):
        special = np.int64(0)
        for i in range(depth):
            k = order[i]
            for n in range(columns):
                sb[n, i], pb[n, i], kb[n, i] = _unpack(b[w, k, n], fmt_b)
                special |= kb[n, i]
            for m in range(rows):
                sa[m, i], pa[m, i], ka[m, i] = _unpack(a[w, m, k], fmt_a)
                special |= ka[m, i]
        for m in range(rows):
            for n in range(columns):
                running = np.int64(c[w, m, n]) if first else np.int64(0)
                fmt_running = fmt_c if first else fmt_d
                for start in range(0, depth, block):
                    stop = min(start + block, depth)
                    sc, pc, kc = _unpack(running, fmt_running)
                    if special | kc:
                        kind = _special(sc, kc, sa[m], ka[m], sb[n], kb[n], start, stop)
                        if kind >= 0:
                            running = _answer(kind, fmt_d, nan)
                            fmt_running = fmt_d
                            continue
                    largest = max(pc, np.int64(floor))
                    for i in range(start, stop):
                        largest = max(largest, pa[m, i] + pb[n, i])
                    total = _shifted(sc, fraction - fmt_running[1] + pc - largest)
                    for i in range(start, stop):
                        number = (sa[m, i] * sb[n, i]) << lift
                        sign = number >> 63
                        down = min(largest - pa[m, i] - pb[n, i], 63)
                        total += ((((number ^ sign) - sign) >> down) ^ sign) - sign
                    running = _round(total, largest - fraction, fmt_d, keep, nearest)
                    fmt_running = fmt_d
                if not first:
                    running = _add(running, np.int64(c[w, m, n]), fmt_d, nan)
                d[w, m, n] = running


@njit(cache=True, nogil=True)
def _special(sc, kc, sa, ka, sb, kb, start, stop):  # type: ignore[no-untyped-def]
    """What infinities and NaNs make of a sum: 0 NaN, 1 +infinity, 2 -infinity; -1 if there are none."""
    plus, minus, bad = kc == INFINITE and sc > 0, kc == INFINITE and sc < 0, kc == NAN
    for i in range(start, stop):
        if ka[i] | kb[i]:
            bad |= ka[i] == NAN or kb[i] == NAN or sa[i] == 0 or sb[i] == 0
            plus |= (sa[i] > 0) == (sb[i] > 0)
            minus |= (sa[i] > 0) != (sb[i] > 0)
    if bad or (plus and minus):
        return 0
    return 1 if plus else 2 if minus else -1


@njit(cache=True, nogil=True)
def _answer(kind, fmt, nan):  # type: ignore[no-untyped-def]
    """The pattern of what _special found."""
    infinity = ((np.int64(1) << fmt[0]) - 1) << fmt[1]
    return np.int64(nan) if kind == 0 else infinity if kind == 1 else infinity | (np.int64(1) << (fmt[0] + fmt[1]))
