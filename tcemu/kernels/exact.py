"""The one scalar rule of fused sums, by integers: for what the vectors of `tcemu.kernels.sums` cannot do.

A sum of products and an accumulator is aligned to its largest exponent, cut off, added, and rounded once. A float
format is six numbers: exponent bits, mantissa bits, bias, padding bits, infinities (0 or 1), NaN kind (0 none, 1 IEEE,
2 all ones). tcemu.arithmetic says what the numbers mean.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float32, int64, uint32

from tcemu.kernels.emit.code import bits32, inlined, value32
from tcemu.kernels.host.compiling import njit
from tcemu.kernels.sums import QUIET, QUIET_HALF

FINITE, INFINITE, NAN = 0, 1, 2
#: Which patterns of a format are NaN: as in IEEE 754, or only those with all bits set.
IEEE, ALL_ONES = 1, 2
_F16, _F32 = (5, 10, 15, 0, 1, 1), (8, 23, 127, 0, 1, 1)


@inlined
def unpack(pattern, fmt):  # type: ignore[no-untyped-def]
    """(signed significand as an integer, exponent, class) of a pattern; a subnormal number has that of its format."""
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
def _shifted(number, shift):  # type: ignore[no-untyped-def]
    """number * 2^shift toward zero; what is shifted up fits in 62 bits."""
    if shift >= 0:
        return number << shift
    shift = min(-shift, int64(63))
    return -((-number) >> shift) if number < 0 else number >> shift


@njit(cache=True, nogil=True)
def rounded(number, exponent, fmt, keep, nearest):  # type: ignore[no-untyped-def]
    """The pattern of number * 2^exponent: toward zero, or to nearest even; overflow is infinite, zero is +0."""
    if number == 0:
        return int64(0)
    magnitude = abs(number)
    emin = 1 - fmt[2]
    top = max(int64(math.frexp(float(magnitude))[1]) - 1 + exponent, emin)
    drop = top - keep - exponent
    if drop <= 0:
        kept = magnitude << -drop
    elif drop > 62:
        kept = int64(0)
    else:
        kept = magnitude >> drop
        if nearest:
            rest = magnitude - (kept << drop)
            half = int64(1) << (drop - 1)
            if rest > half or (rest == half and kept & 1):
                kept += 1
    code = ((top - emin) << fmt[1]) + (kept << (fmt[1] - keep))
    infinity = ((int64(1) << fmt[0]) - 1) << fmt[1]
    if code > infinity:
        code = infinity
    if number < 0 and code != 0:
        code |= int64(1) << (fmt[0] + fmt[1])
    return code


@njit(cache=True, nogil=True)
def _sum(a, b, c, fmt_a, fmt_b, fmt_c, fraction, floor):  # type: ignore[no-untyped-def]
    """c + the sum of a[i] * b[i], all patterns: (total, unit, class), a total in units of 2^unit, or its sign."""
    sc, pc, kc = unpack(c, fmt_c)
    bad, plus, minus = kc == NAN, kc == INFINITE and sc > 0, kc == INFINITE and sc < 0
    largest = max(int64(floor), pc) if sc != 0 else int64(floor)
    for i in range(a.shape[0]):
        sa, pa, ka = unpack(a[i], fmt_a)
        sb, pb, kb = unpack(b[i], fmt_b)
        if ka | kb:
            bad |= ka == NAN or kb == NAN or sa == 0 or sb == 0
            plus |= (sa > 0) == (sb > 0)
            minus |= (sa > 0) != (sb > 0)
        elif sa != 0 and sb != 0:
            largest = max(largest, pa + pb)
    if bad or (plus and minus):
        return int64(0), int64(0), NAN
    if plus or minus:
        return int64(1) if plus else int64(-1), int64(0), INFINITE
    total = _shifted(sc, fraction - fmt_c[1] + pc - largest)
    point = fmt_a[1] + fmt_b[1]
    for i in range(a.shape[0]):
        sa, pa, _ = unpack(a[i], fmt_a)
        sb, pb, _ = unpack(b[i], fmt_b)
        if sa != 0 and sb != 0:
            total += _shifted(sa * sb, fraction - point + pa + pb - largest)
    return total, largest - fraction, FINITE


@njit(cache=True, nogil=True)
def _encoded(total, unit, kind, fmt, keep, nearest, nan):  # type: ignore[no-untyped-def]
    """The pattern of what `_sum` has found."""
    if kind == FINITE:
        return rounded(total, unit, fmt, keep, nearest)
    infinity = ((int64(1) << fmt[0]) - 1) << fmt[1]
    return int64(nan) if kind == NAN else infinity | (int64(total < 0) << (fmt[0] + fmt[1]))


@njit(cache=True, nogil=True)
def exact(a, b, c, fmt_a, fmt_b, rule):  # type: ignore[no-untyped-def]
    """One fused sum, as a float32 pattern; c is one too, and a float16 accumulator is the float32 of its value.

    rule: fraction bits F, the floor of E, fraction bits kept, and whether results are float16, to nearest.
    """
    if not rule[3]:
        total, unit, kind = _sum(a, b, c, fmt_a, fmt_b, _F32, rule[0], rule[1])
        return uint32(_encoded(total, unit, kind, _F32, rule[2], False, QUIET))
    total, unit, kind = _sum(a, b, converted(c, _F32, _F16), fmt_a, fmt_b, _F16, rule[0], rule[1])
    return uint32(converted(_encoded(total, unit, kind, _F16, rule[2], True, QUIET_HALF), _F16, _F32))


@njit(cache=True, nogil=True)
def converted(pattern, source, target):  # type: ignore[no-untyped-def]
    """The pattern of a number in another format, to nearest even; a NaN has all mantissa bits."""
    significand, exponent, kind = unpack(pattern, source)
    sign = ((int64(pattern) >> (source[0] + source[1])) & 1) << (target[0] + target[1])
    infinity = ((int64(1) << target[0]) - 1) << target[1]
    if kind != FINITE:
        return sign | infinity if kind == INFINITE else infinity | ((int64(1) << target[1]) - 1)
    return sign | rounded(abs(significand), exponent - source[1], target, target[1], True)


@njit(cache=True, nogil=True)
def chain(a, b, c, d, fmt_a, fmt_b, fmt_c, fmt_d, order, block, fraction, floor, keep, nearest, nan):  # type: ignore[no-untyped-def]
    """d[w] = a[w] @ b[w] + c[w], where C keeps the exponents of its own format: a chain of sums of `block` products.

    a (w, m, k), b (w, k, n), c and d (w, m, n) are patterns. `order` lists k in the order of the chain.
    """
    x, y = np.empty(block, np.int64), np.empty(block, np.int64)
    for w in range(d.shape[0]):
        for m in range(d.shape[1]):
            for n in range(d.shape[2]):
                running, form = int64(c[w, m, n]), fmt_c
                for start in range(0, order.size, block):
                    for i in range(block):
                        k = order[start + i]
                        x[i], y[i] = a[w, m, k], b[w, k, n]
                    total, unit, kind = _sum(x, y, running, fmt_a, fmt_b, form, fraction, floor)
                    running, form = _encoded(total, unit, kind, fmt_d, keep, nearest, nan), fmt_d
                d[w, m, n] = running


@njit(cache=True, nogil=True, error_model="numpy")
def fused_tree(a, b, ks, parents, sums, first, fmt_a, fmt_b, rule, products, join):  # type: ignore[no-untyped-def]
    """A tree of fused sums at single elements of D: sums[node, e] for all nodes from `first` on.

    A node continues its parent's sum with the products of one instruction: `ks[node]` says which. Parents come before
    their children; -1 is a sum of +0. a, b (elements, k) and sums (nodes, elements) are uint32 patterns, of float32 in
    the sums. products[s]: which of a node's products the sum s has. With `join`, the products start from +0, and the
    parent's sum is added to theirs, to nearest.
    """
    x, y = np.empty(products.shape[1], np.uint32), np.empty(products.shape[1], np.uint32)
    for node in range(first, ks.shape[0]):
        for e in range(a.shape[0]):
            before = sums[parents[node], e] if parents[node] >= 0 else uint32(0)
            running = uint32(0) if join else before
            for s in range(products.shape[0]):
                for i in range(products.shape[1]):
                    k = ks[node, products[s, i]]
                    x[i], y[i] = a[e, k], b[e, k]
                running = exact(x, y, running, fmt_a, fmt_b, rule)
            if join:
                total = float32(value32(before) + value32(running))
                running = uint32(QUIET) if total != total else bits32(total)
            sums[node, e] = running


@njit(cache=True, nogil=True, error_model="numpy")
def plain(a, b, c, fmt_a, fmt_b, rule):  # type: ignore[no-untyped-def]
    """c[m, j] = one fused sum of c[m, j], a[m, k] and b[k, j]; c are float32 patterns."""
    for j in range(c.shape[1]):
        column = np.ascontiguousarray(b[:, j])
        for m in range(c.shape[0]):
            c[m, j] = exact(np.ascontiguousarray(a[m]), column, c[m, j], fmt_a, fmt_b, rule)
