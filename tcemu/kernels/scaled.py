"""Sums of products with a scale for each block of k, on tiles: aligned, cut off, added exactly, rounded toward zero."""

from __future__ import annotations

import numpy as np

from tcemu.kernels.compiling import njit
from tcemu.kernels.fused import ABSENT, FINITE, INFINITE, NAN, _answer, _round, _shifted, _unpack


@njit(cache=True, nogil=True)
def chain_scaled(  # type: ignore[no-untyped-def]
    a, b, c, d, scale_a, scale_b, fmt_a, fmt_b, fmt_d, fmt_s, zero, group, block, fraction, floor, keep, nan, places
):
    """d[w] = (a[w] * scale_a[w]) @ (b[w] * scale_b[w]) + c[w]: chains of sums of `block` products each.

    a (w, m, k), b (w, k, n), c, d (w, m, n), scale_a (w, m, s), scale_b (w, s, n) are patterns; scale i covers k / s
    products. `group` products are added exactly before they become one term. `zero` 0: the scale format has no zero,
    its exponent field 0 is one more power of two. `places` is empty or, for a sparse A, (w, m, k): the rows of a longer
    B that its elements meet.
    """
    tiles, rows, depth = a.shape
    length, columns, scales = b.shape[1], b.shape[2], scale_a.shape[2]
    sparse = places.size > 0
    cover = depth // scales
    sa, pa, ka = np.empty(depth, np.int64), np.empty(depth, np.int64), np.empty(depth, np.int64)
    # an extra column holds what a row of a sparse A meets
    sb = np.empty((columns + 1, length), np.int64)
    pb = np.empty((columns + 1, length), np.int64)
    kb = np.empty((columns + 1, length), np.int64)
    terms, powers = np.empty(block, np.int64), np.empty(block, np.int64)
    point = fmt_a[1] + fmt_b[1] + 2 * fmt_s[1]
    # no product of the two formats is below this exponent: a group is added in units of it
    low = 2 - fmt_a[2] - fmt_b[2]
    for w in range(tiles):
        for n in range(columns):
            for k in range(length):
                sb[n, k], pb[n, k], kb[n, k] = _unpack(b[w, k, n], fmt_b)
        for m in range(rows):
            for k in range(depth):
                sa[k], pa[k], ka[k] = _unpack(a[w, m, k], fmt_a)
            for n in range(columns):
                column = n
                if sparse:
                    column = columns
                    for k in range(depth):
                        met = places[w, m, k]
                        sb[column, k], pb[column, k], kb[column, k] = sb[n, met], pb[n, met], kb[n, met]
                running = np.int64(c[w, m, n])
                for start in range(0, depth, block):
                    sc, pc, kc = _unpack(running, fmt_d)
                    bad, plus, minus = kc == NAN, kc == INFINITE and sc > 0, kc == INFINITE and sc < 0
                    largest = pc
                    count = 0
                    for first in range(start, start + block, group):
                        x, ex, kx = _scale(scale_a[w, m, first // cover], fmt_s, zero)
                        y, ey, ky = _scale(scale_b[w, first // cover, n], fmt_s, zero)
                        bad |= kx == NAN or ky == NAN
                        total, power, live = np.int64(0), np.int64(0), False
                        for k in range(first, first + group):
                            if ka[k] | kb[column, k]:
                                bad |= ka[k] == NAN or kb[column, k] == NAN or sa[k] == 0 or sb[column, k] == 0
                                plus |= (sa[k] > 0) == (sb[column, k] > 0)
                                minus |= (sa[k] > 0) != (sb[column, k] > 0)
                            number = sa[k] * sb[column, k]
                            live |= number != 0
                            if group == 1:
                                total, power = number, pa[k] + pb[column, k]
                            elif number != 0:
                                total += number << (pa[k] + pb[column, k] - low)
                        terms[count] = total * x * y
                        powers[count] = (power if group == 1 else low) + ex + ey
                        if live and x != 0 and y != 0:
                            # the point of a group stays that of its scales, even if its products cancel
                            largest = max(largest, powers[count] if group == 1 else ex + ey)
                        count += 1
                    if bad or (plus and minus):
                        running = np.int64(nan)
                        continue
                    if plus or minus:
                        running = _answer(1 if plus else 2, fmt_d, nan)
                        continue
                    largest = max(largest, np.int64(floor))
                    total = _shifted(sc, fraction - fmt_d[1] + pc - largest)
                    for i in range(count):
                        total += _shifted(terms[i], fraction - point + powers[i] - largest) if terms[i] != 0 else 0
                    running = _round(total, largest - fraction, fmt_d, keep, False)
                d[w, m, n] = running


@njit(cache=True, nogil=True)
def _scale(pattern, fmt, zero):  # type: ignore[no-untyped-def]
    """(significand, exponent, class) of a scale, which has no sign."""
    if zero:
        significand, power, kind = _unpack(np.int64(pattern) & ((np.int64(1) << (fmt[0] + fmt[1])) - 1), fmt)
        return significand, (power if significand != 0 else np.int64(ABSENT)), kind
    if np.int64(pattern) == (np.int64(1) << fmt[0]) - 1:
        return np.int64(1), np.int64(0), NAN
    return np.int64(1), np.int64(pattern) - fmt[2], FINITE
