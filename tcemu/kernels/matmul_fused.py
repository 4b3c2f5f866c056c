"""Fused sums over a tile of a matrix product: vectors where the arithmetic allows it, one element at a time where not.

A tile holds some hundred rows of A, some hundred columns of B and the accumulators between them. All ways give the same
bits for every input; the fast one needs four vector operations a product, `exact` some forty scalar ones.

The fast way. The product of two significands of at most 12 bits is exact in float32, and so is its product with a power
of two while both stay in range. With E known, a term is therefore

    int32(a * b * 2^(F - E))         the conversion truncates toward zero, as the silicon does

and the power of two is an integer addition to the exponent field of a * b. E itself is a maximum over bytes: the
exponents of the elements of a tile, counted from the start of its *window*, fit in 0..SPAN. The window keeps away from
where a result could leave the normal range of float32. Tiles with an element outside it go the way of `matmul_wide`.
NaN and infinities, and what neither way can take, are *odd*: rows and columns with something odd are left to `exact`,
the plain integer rule.

Accumulators are float32 patterns throughout; a float16 accumulator is the float32 of the same value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, int8, int32, int64, njit, uint32

from tcemu.kernels.matmul_exact import INFINITY, QUIET, WIDTH, bits32, exact, from_bits32, inlined, larger, smaller
from tcemu.kernels.matmul_wide import pack_wide, sweep_wide

#: Binades of the window of one operand; sums of two exponents fit in a byte.
SPAN = 48
#: Byte that stands for the exponent of a zero. Added to any exponent of the window, or to itself, it is negative and no
#: byte wraps around.
ABSENT = -(SPAN + 1)
#: Elements are scaled by 2^-CENTRE below the start of their window, so that every power of two that a term needs is at
#: least 2^1 and below 2^126: adding it to the exponent field of a product never wraps, and leaves a zero below one.
CENTRE = 50
#: The highest sum of two window starts: above it an infinite accumulator would not pass through.
HIGHEST = 5
#: The lowest: below it a result could be subnormal.
LOWEST = -100

SPECIAL, OUTSIDE = 1, 2


# ------------------------------------------------------------------------------------------------------ packed operands


@njit(cache=True, nogil=True)
def _highest(patterns, fmt):  # type: ignore[no-untyped-def]
    """The largest exponent of a finite element, at least that of the format's subnormals."""
    shift, mantissa = uint32(fmt[3]), uint32(fmt[1])
    ones = uint32((1 << fmt[0]) - 1)
    skip = uint32(ones if fmt[5] == 1 else ones + uint32(1))  # exponent field of NaN and infinity
    top = uint32(1)
    for i in range(patterns.shape[0]):
        field = uint32(((patterns[i] >> shift) >> mantissa) & ones)
        top = max(top, uint32(0) if field == skip else field)
    return int64(top) - fmt[2]


@njit(cache=True, nogil=True)
def _pack(patterns, fmt, start, value, exponent, odd):  # type: ignore[no-untyped-def]
    """Fill value (float32, scaled by 2^-(start + CENTRE)), exponent (bytes from `start`) and odd (bytes, 0 or 1).

    All are flat. Returns SPECIAL where something is NaN or infinite, plus OUTSIDE where something misses the window.
    """
    shift, mantissa = uint32(fmt[3]), uint32(fmt[1])
    ones = uint32((1 << fmt[0]) - 1)
    magnitudes = uint32((1 << (fmt[0] + fmt[1])) - 1)
    # Patterns from here on are NaN or infinite.
    limit = uint32(magnitudes + uint32(1))
    if fmt[5] == 1:
        limit = uint32(ones << mantissa)
    elif fmt[5] == 2:
        limit = magnitudes
    align, sign = uint32(23 - fmt[1]), uint32(31 - fmt[0] - fmt[1])
    # An element's bits, put where float32 has them, are its value times 2^(bias - 127); two steps, so that neither
    # factor leaves the range.
    total = 127 - fmt[2] - start - CENTRE
    first = from_bits32((total // 2 + 127) << 23)
    second = from_bits32((total - total // 2 + 127) << 23)
    lowest = int32(start + fmt[2])  # exponent field at the window's start
    found = uint32(0)
    for i in range(patterns.shape[0]):
        code = uint32(patterns[i] >> shift)
        magnitude = uint32(code & magnitudes)
        field = int32(larger(int32(magnitude >> mantissa), int32(1)) - lowest)
        special = magnitude >= limit
        outside = ((field < 0) | (field > SPAN)) & (magnitude != 0) & (not special)
        out = special | outside | (magnitude == 0)
        bits = uint32((magnitude << align) | ((code << sign) & uint32(0x80000000)))
        x = float32(float32(from_bits32(bits) * first) * second)
        value[i] = float32(0.0) if out else x
        exponent[i] = int8(ABSENT) if out else int8(field)
        odd[i] = special | outside
        found |= uint32(uint32(SPECIAL if special else 0) | uint32(OUTSIDE if outside else 0))
    return found


# ------------------------------------------------------------------------------------------------------- vector passes


@inlined
def _round_zero(magnitude, negative, power, mask):  # type: ignore[no-untyped-def]
    """The pattern of +-magnitude * power, toward zero to 24 bits and then to the bits of `mask`; magnitude is uint32.

    Where the magnitude has n > 24 bits, magnitude >> 24 has its top bit just below the 24 that stay: clearing its bits
    leaves a number that the conversion, which rounds to nearest, rounds down.
    """
    x = float32(uint32(magnitude & ~uint32(magnitude >> uint32(24))))
    return int32((bits32(x * power) & mask) | int32(negative & int32(-0x80000000)))


@inlined
def _round_half(magnitude, negative, power):  # type: ignore[no-untyped-def]
    """The pattern of +-magnitude * power, rounded once to float16, nearest even; magnitude is uint32."""
    # More than 24 bits: the lower eight become one that says whether any of them was set, far below float16's last.
    sticky = uint32(
        (magnitude & uint32(0xFFFFFF00)) | (uint32((magnitude & uint32(0xFF)) + uint32(0xFF)) & uint32(0x100))
    )
    x = float32(float32(sticky if magnitude >= uint32(1 << 24) else magnitude) * power)
    # Adding 2^(e + 13) pushes all but ten fraction bits out of float32; e stops at -14, where subnormals begin.
    field = larger(int32(bits32(x) >> 23), int32(127 - 14))
    field = smaller(field, int32(240))
    magic = from_bits32(int32(field + 13) << 23)
    x = float32(float32(x + magic) - magic)
    x = float32(np.inf) if x > float32(65504.0) else x
    bits = bits32(x)
    return int32(bits | int32(negative & int32(-0x80000000))) if bits != 0 else int32(0)


def _sweep_of(depth: int, half: bool) -> Any:
    """One fused sum of `depth` products for every element of a tile.

    The loops over k have constant bounds: the compiler unrolls them and makes vectors of the loops over j.
    """
    lower = min(depth, 16)

    @njit(cache=True, nogil=True, error_model="numpy")
    def sweep(a, ea, b, eb, c, peak, numbers):  # type: ignore[no-untyped-def]
        """c[m, j] = the fused sum of c[m, j] and a[m, k] * b[k, j].

        a, ea (rows, depth); b, eb flat, WIDTH to a row; c (rows, columns) float32 patterns; peak (columns,) is scratch;
        numbers come from `_numbers`.
        """
        offset, least, low, cap = int32(numbers[0]), int32(numbers[1]), int32(numbers[2]), int32(numbers[3])
        top, scale, origin, mask = int32(numbers[4]), int32(numbers[5]), int32(numbers[6]), int32(numbers[7])
        for m in range(a.shape[0]):
            for j in range(c.shape[1]):
                largest = int8(-128)
                for k in range(depth):
                    largest = larger(int8(ea[m, k] + eb[WIDTH * k + j]), largest)
                peak[j] = largest
            for j in range(c.shape[1]):
                bits = c[m, j]
                # E, counted from the window's start, and whether c passes because no product reaches its lowest bit.
                field = int32(uint32(uint32(bits) << uint32(1)) >> uint32(24))
                e_c, e_p = int32(field - offset), int32(peak[j])
                if half:
                    e_c = larger(e_c, least) if field > 0 else int32(-1000)
                through = (e_p < 0) | (e_c >= cap)
                e = larger(e_p, e_c)
                if half:  # where the result is float32, the window lies above the floor
                    e = larger(e, low)
                addend = int32(int32(top - smaller(e, cap)) << 23)
                term = int32(from_bits32(bits) * from_bits32(int32(addend + scale)))
                total = int32(0)
                for k in range(lower):
                    total = int32(total + int32(from_bits32(bits32(a[m, k] * b[WIDTH * k + j]) + addend)))
                if depth < 16:
                    whole = int32(total + term)
                    negative = int32(whole >> 31)
                elif depth == 16:
                    # At most 16 * 2^27: no overflow yet. With c there can be one, but not in sign where both agree.
                    whole = int32(total + term)
                    negative = int32(int32((total & term) | ((total | term) & whole)) >> 31)
                else:
                    rest = int32(0)
                    for k in range(lower, depth):
                        rest = int32(rest + int32(from_bits32(bits32(a[m, k] * b[WIDTH * k + j]) + addend)))
                    whole = int32(int32(total + rest) + term)
                    near = float32(float32(float32(total) + float32(rest)) + float32(term))
                    sure = abs(near) > float32(1 << 30)
                    negative = int32(bits32(near) if sure else whole) >> 31
                magnitude = uint32(uint32(whole ^ negative) - uint32(negative))
                power = from_bits32(origin - addend)
                if half:
                    result = _round_half(magnitude, negative, power)
                else:
                    result = _round_zero(magnitude, negative, power, mask)
                c[m, j] = int32(bits & mask) if through else result

    return sweep


_zero4, _zero8, _zero16, _zero32 = _sweep_of(4, False), _sweep_of(8, False), _sweep_of(16, False), _sweep_of(32, False)
_half4, _half8, _half16, _half32 = _sweep_of(4, True), _sweep_of(8, True), _sweep_of(16, True), _sweep_of(32, True)


@njit(cache=True, nogil=True)
def _numbers(base, fraction, floor, keep, nearest):  # type: ignore[no-untyped-def]
    """What `fuse` needs of a rule, for windows that start at exponents whose sum is `base`."""
    return (
        int32(127 + base),
        int32((-14 if nearest else -126) - base),  # exponent of a subnormal accumulator
        int32(max(floor, int64(-10000)) - base),
        int32(98 + fraction),  # every product is below 2^98 of its window: with this E all vanish
        int32(fraction + 2 * CENTRE),
        int32((127 - base - 2 * CENTRE) << 23),
        int32((127 + base + 2 * CENTRE) << 23),
        int32(-1) << int32(0 if nearest else 23 - keep),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _join(part, c, half):  # type: ignore[no-untyped-def]
    """c[j] += part[j], the ordinary addition of the format, rounded to nearest even."""
    for j in range(c.shape[0]):
        x = float32(from_bits32(c[j]) + from_bits32(part[j]))
        if half:
            # float32 has more than twice the bits of float16: rounding twice is rounding once.
            size = abs(x)
            field = larger(int32(bits32(size) >> 23), int32(127 - 14))
            field = smaller(field, int32(240))
            magic = from_bits32(int32(field + 13) << 23)
            size = float32(float32(size + magic) - magic)
            size = float32(np.inf) if size > float32(65504.0) else size
            x = from_bits32(bits32(size) | (bits32(x) & int32(-0x80000000)))
        c[j] = int32(QUIET) if x != x else bits32(x)


# ------------------------------------------------------------------------------------------------------------- the tile


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep(half, a, ea, b, eb, c, peak, numbers):  # type: ignore[no-untyped-def]
    depth = a.shape[1]
    if depth == 16:
        if half:
            _half16(a, ea, b, eb, c, peak, numbers)
        else:
            _zero16(a, ea, b, eb, c, peak, numbers)
    elif depth == 8:
        if half:
            _half8(a, ea, b, eb, c, peak, numbers)
        else:
            _zero8(a, ea, b, eb, c, peak, numbers)
    elif depth == 4:
        if half:
            _half4(a, ea, b, eb, c, peak, numbers)
        else:
            _zero4(a, ea, b, eb, c, peak, numbers)
    elif half:
        _half32(a, ea, b, eb, c, peak, numbers)
    else:
        _zero32(a, ea, b, eb, c, peak, numbers)


@njit(cache=True, nogil=True, error_model="numpy")
def _exceptions(a, b, c, odd_a, odd_b, rows, columns, fixed, fmt_a, fmt_b, rule):  # type: ignore[no-untyped-def]
    """One fused sum by `exact` where a row of a or a column of b is odd, into `fixed`; rows and columns say which."""
    depth = a.shape[1]
    for m in range(a.shape[0]):
        rows[m] = 0
        for k in range(depth):
            rows[m] |= odd_a[m, k]
    for j in range(c.shape[1]):
        columns[j] = 0
    for k in range(depth):
        for j in range(c.shape[1]):
            columns[j] |= odd_b[WIDTH * k + j]
    for m in range(a.shape[0]):
        for j in range(c.shape[1]):
            if rows[m] | columns[j]:
                nan = (c[m, j] & int32(0x7FFFFFFF)) > INFINITY  # and so it stays: no need to look
                fixed[m, j] = QUIET if nan else exact(a[m], b[:, j], c[m, j], fmt_a, fmt_b, rule)


@njit(cache=True, nogil=True, error_model="numpy")
def tile(a, b, c, fmt_a, fmt_b, chain, rule, join, fast, scratch):  # type: ignore[no-untyped-def]
    """c = a @ b + c for one tile, in place, k in the order of the sums.

    a (blocks, rows, L) and b (blocks, L, WIDTH): uint32 patterns, C-contiguous, L products (4, 8, 16 or 32) to a fused
    sum; c (rows, columns): int32, float32 patterns, columns a multiple of 64 and at most WIDTH. An instruction is
    `chain` sums. rule (int64): fraction bits F, floor of E, fraction bits kept, 1 for float16 results rounded to
    nearest. With `join` every instruction starts from zero and adds c last. Without `fast` everything is taken as odd.
    scratch: six flat arrays, float32, int8 and uint8 of at least a.size, then the same for b.
    """
    blocks, rows, depth = a.shape
    half = rule[3] != 0
    flat_a, flat_b = a.reshape(a.size), b.reshape(b.size)
    value_a, exponent_a, odd_a = scratch[0][: a.size], scratch[1][: a.size], scratch[2][: a.size]
    value_b, exponent_b, odd_b = scratch[3][: b.size], scratch[4][: b.size], scratch[5][: b.size]
    # As low as the largest element allows and the results permit, so that as little as possible lies outside.
    start_a = max(min(_highest(flat_a, fmt_a) - SPAN, HIGHEST // 2), LOWEST // 2)
    start_b = max(min(_highest(flat_b, fmt_b) - SPAN, HIGHEST // 2), LOWEST // 2)
    found = _pack(flat_a, fmt_a, start_a, value_a, exponent_a, odd_a)
    found |= _pack(flat_b, fmt_b, start_b, value_b, exponent_b, odd_b)
    numbers = _numbers(start_a + start_b, rule[0], rule[1], rule[2], half)
    # Toward zero, to all bits of float32, of formats with IEEE's NaN: what `matmul_wide` can do.
    wide = (found & OUTSIDE) != 0 and fast and not half and rule[2] == 23 and depth <= 16 and fmt_a[5] + fmt_b[5] == 2
    power_a, power_b = np.empty(a.size if wide else 0, np.int32), np.empty(b.size if wide else 0, np.int32)
    if wide:
        found &= SPECIAL
        pack_wide(flat_a, fmt_a, value_a, power_a, odd_a)
        pack_wide(flat_b, fmt_b, value_b, power_b, odd_b)
    odds = found != 0 or not fast
    if not fast:
        odd_a[:] = 1
    value_a, exponent_a = value_a.reshape(a.shape), exponent_a.reshape(a.shape)
    odd_a, power_a = odd_a.reshape(a.shape), power_a.reshape(a.shape if wide else (0, 0, 0))
    peak, peak_wide = np.empty(c.shape[1], np.int8), np.empty(c.shape[1], np.int32)
    partial = np.zeros(c.shape if join else (1, 1), np.int32)
    fixed = np.empty(c.shape if odds else (1, 1), np.int32)
    odd_rows, odd_columns = np.zeros(rows, np.uint8), np.zeros(c.shape[1], np.uint8)

    for i in range(blocks):
        running = partial if join else c
        if join and i % chain == 0:
            partial[:] = 0
        first, last = i * depth * WIDTH, (i + 1) * depth * WIDTH
        if odds:
            _exceptions(
                a[i], b[i], running, odd_a[i], odd_b[first:last], odd_rows, odd_columns, fixed, fmt_a, fmt_b, rule
            )
        panel = value_b[first:last]
        if wide:
            sweep_wide(value_a[i], power_a[i], panel, power_b[first:last], running, peak_wide, rule[0], rule[1])
        elif fast:
            _sweep(half, value_a[i], exponent_a[i], panel, exponent_b[first:last], running, peak, numbers)
        if odds:
            for m in range(rows):
                for j in range(c.shape[1]):
                    if odd_rows[m] | odd_columns[j]:
                        running[m, j] = fixed[m, j]
        if join and i % chain == chain - 1:
            for m in range(rows):
                _join(partial[m], c[m], half)
