"""Chains of fused multiply-adds of binary64 in all four roundings, by 128-bit integers alone."""

import numpy as np
from numba import njit

NEAREST, TOWARD_ZERO, DOWN, UP = range(4)
_QUIET, _SIGN, _INFINITY = np.uint64(1 << 51), np.uint64(1 << 63), np.uint64(0x7FF << 52)
#: What an invalid operation returns, as 0 * infinity.
INVALID = np.uint64(0xFFF8 << 48)
_ONE, _ZERO = np.uint64(1), np.uint64(0)


@njit(cache=True)
def _length(x):
    """Bits of a uint64 up to its leading one."""
    n = 0
    for step in (32, 16, 8, 4, 2, 1):
        if x >> np.uint64(step):
            n += step
            x >>= np.uint64(step)
    return n + (1 if x else 0)


@njit(cache=True)
def _up(high, low, shift):
    """(high, low) << shift, for 0 <= shift < 128."""
    if shift == 0:
        return high, low
    s = np.uint64(shift)
    if shift >= 64:
        return low << (s - np.uint64(64)), _ZERO
    return (high << s) | (low >> (np.uint64(64) - s)), low << s


@njit(cache=True)
def _down(high, low, shift):
    """(high, low) >> shift, and 1 if set bits were shifted out."""
    if shift == 0:
        return high, low, _ZERO
    if shift >= 128:
        return _ZERO, _ZERO, _ONE if high | low else _ZERO
    s = np.uint64(shift)
    if shift >= 64:
        s -= np.uint64(64)
        rest = low if shift == 64 else low | (high << (np.uint64(64) - s))
        return _ZERO, high >> s, _ONE if rest else _ZERO
    fell = low << (np.uint64(64) - s)
    return high >> s, (low >> s) | (high << (np.uint64(64) - s)), _ONE if fell else _ZERO


@njit(cache=True)
def _split(x):
    """(significand, exponent of its last bit) of a finite pattern."""
    field = np.int64((x & _INFINITY) >> np.uint64(52))
    fraction = x & np.uint64((1 << 52) - 1)
    if field == 0:
        return fraction, np.int64(-1074)
    return fraction | np.uint64(1 << 52), field - 1075


@njit(cache=True)
def _product(x, y):
    """The 128-bit product of two uint64 as (high, low)."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & mask, x >> half, y & mask, y >> half
    low, middle = x0 * y0, x1 * y0
    other, high = x0 * y1, x1 * y1
    carry = (low >> half) + (middle & mask) + (other & mask)
    return high + (middle >> half) + (other >> half) + (carry >> half), (carry << half) | (low & mask)


@njit(cache=True)
def _round(negative, high, low, sticky, exponent, mode):
    """The pattern of a positive (high, low) * 2^exponent (a little more if sticky), rounded once."""
    length = _length(high) + 64 if high else _length(low)
    # exponent of the last bit kept: 53 bits, or the subnormal grid
    last = max(exponent + length - 53, np.int64(-1074))
    drop = last - exponent
    if drop <= 0:
        high, low = _up(high, low, -drop)
        half = rest = _ZERO
    elif drop > 127:
        high, low, half, rest = _ZERO, _ZERO, _ZERO, _ONE
    else:
        high, low, rest = _down(high, low, drop - 1)
        half = low & _ONE
        high, low, _ = _down(high, low, 1)
    rest |= sticky
    inexact = (half | rest) != 0
    away = (mode == DOWN and negative) or (mode == UP and not negative)
    if (mode == NEAREST and half and (rest or low & _ONE)) or (away and inexact):
        low += _ONE
    # a carry into the exponent field just adds up; subnormals have no hidden bit and last == -1074
    pattern = (np.uint64(last + 1074) << np.uint64(52)) + low
    if pattern >= _INFINITY:
        pattern = _INFINITY if mode == NEAREST or away else _INFINITY - _ONE
    return pattern | _SIGN if negative else pattern


@njit(cache=True)
def fma_exact(a, b, c, mode):
    """The pattern of a * b + c of three finite patterns, computed with integers, in any rounding."""
    negative_p, negative_c = ((a ^ b) & _SIGN) != 0, (c & _SIGN) != 0
    sa, ea = _split(a)
    sb, eb = _split(b)
    sc, ec = _split(c)
    high, low = _product(sa, sb)
    exponent = ea + eb
    if not (high | low):
        if sc:
            return c
        if negative_p == negative_c:
            return c
        return _SIGN if mode == DOWN else _ZERO
    if not sc:
        return _round(negative_p, high, low, _ZERO, exponent, mode)
    # Both with the leading bit at place 125: two places of headroom, and twenty zeros below the product.
    lift = 126 - (_length(high) + 64 if high else _length(low))
    high, low = _up(high, low, lift)
    exponent -= lift
    lift = 126 - _length(sc)
    high_c, low_c = _up(_ZERO, sc, lift)
    ec -= lift
    if ec > exponent or (ec == exponent and (high_c > high or (high_c == high and low_c > low))):
        high, low, exponent, high_c, low_c, ec = high_c, low_c, ec, high, low, exponent
        negative_p, negative_c = negative_c, negative_p
    high_c, low_c, sticky = _down(high_c, low_c, exponent - ec)
    if negative_p == negative_c:
        total = low + low_c
        high, low = high + high_c + (_ONE if total < low else _ZERO), total
    else:
        borrow = low_c + sticky  # bits shifted out: borrow a whole unit, and return the rest as sticky
        high_c += _ONE if borrow < low_c else _ZERO
        high, low = high - high_c - (_ONE if low < borrow else _ZERO), low - borrow
        if not (high | low | sticky):
            return _SIGN if mode == DOWN else _ZERO
    return _round(negative_p, high, low, sticky, exponent, mode)


@njit(cache=True)
def _special(a, b, c):
    """The pattern of a * b + c if one of them is infinite or NaN; returns a NaN quiet, b's before c's before a's."""
    magnitude = ~_SIGN
    for x in (b, c, a):
        if x & magnitude > _INFINITY:
            return x | _QUIET
    if (a & magnitude == _INFINITY and not b & magnitude) or (b & magnitude == _INFINITY and not a & magnitude):
        return INVALID
    product = (a ^ b) & _SIGN | _INFINITY
    if a & magnitude != _INFINITY and b & magnitude != _INFINITY:
        return c
    if c & magnitude == _INFINITY and c != product:
        return INVALID
    return product


@njit(cache=True)
def link(a, b, c, mode):
    """a * b + c of three patterns, as a pattern."""
    if a & _INFINITY == _INFINITY or b & _INFINITY == _INFINITY or c & _INFINITY == _INFINITY:
        return _special(a, b, c)
    return fma_exact(a, b, c, mode)


@njit(cache=True)
def chain64(a, b, c, d, mode):
    """d[w] = a[w] @ b[w] + c[w] by a chain of fused multiply-adds in ascending k; uint64 patterns."""
    tiles, rows, depth = a.shape
    columns = b.shape[2]
    for w in range(tiles):
        for m in range(rows):
            for n in range(columns):
                running = c[w, m, n]
                for k in range(depth):
                    running = link(a[w, m, k], b[w, k, n], running, mode)
                d[w, m, n] = running
