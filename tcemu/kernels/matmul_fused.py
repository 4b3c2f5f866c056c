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

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import float32, int8, int32, int64, njit, uint32

from tcemu.kernels.matmul_exact import INFINITY, QUIET, WIDTH, _bits32, _from_bits32, _larger, _smaller, exact, inlined
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

Array = npt.NDArray[Any]


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
    first = _from_bits32((total // 2 + 127) << 23)
    second = _from_bits32((total - total // 2 + 127) << 23)
    lowest = int32(start + fmt[2])  # exponent field at the window's start
    found = uint32(0)
    for i in range(patterns.shape[0]):
        code = uint32(patterns[i] >> shift)
        magnitude = uint32(code & magnitudes)
        field = int32(_larger(int32(magnitude >> mantissa), int32(1)) - lowest)
        special = magnitude >= limit
        outside = ((field < 0) | (field > SPAN)) & (magnitude != 0) & (not special)
        out = special | outside | (magnitude == 0)
        bits = uint32((magnitude << align) | ((code << sign) & uint32(0x80000000)))
        x = float32(float32(_from_bits32(bits) * first) * second)
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
    return int32((_bits32(x * power) & mask) | int32(negative & int32(-0x80000000)))


@inlined
def _round_half(magnitude, negative, power):  # type: ignore[no-untyped-def]
    """The pattern of +-magnitude * power, rounded once to float16, nearest even; magnitude is uint32."""
    # More than 24 bits: the lower eight become one that says whether any of them was set, far below float16's last.
    sticky = uint32(
        (magnitude & uint32(0xFFFFFF00)) | (uint32((magnitude & uint32(0xFF)) + uint32(0xFF)) & uint32(0x100))
    )
    x = float32(float32(sticky if magnitude >= uint32(1 << 24) else magnitude) * power)
    # Adding 2^(e + 13) pushes all but ten fraction bits out of float32; e stops at -14, where subnormals begin.
    field = _larger(int32(_bits32(x) >> 23), int32(127 - 14))
    field = _smaller(field, int32(240))
    magic = _from_bits32(int32(field + 13) << 23)
    x = float32(float32(x + magic) - magic)
    x = float32(np.inf) if x > float32(65504.0) else x
    bits = _bits32(x)
    return int32(bits | int32(negative & int32(-0x80000000))) if bits != 0 else int32(0)


@njit(cache=True, nogil=True, error_model="numpy")
def _join(part, c, half):  # type: ignore[no-untyped-def]
    """c += part, the ordinary addition of the format, rounded to nearest even."""
    for m in range(c.shape[0]):
        for j in range(c.shape[1]):
            x = float32(_from_bits32(c[m, j]) + _from_bits32(part[m, j]))
            if half:
                # float32 has more than twice the bits of float16: rounding twice is rounding once.
                size = abs(x)
                field = _larger(int32(_bits32(size) >> 23), int32(127 - 14))
                field = _smaller(field, int32(240))
                magic = _from_bits32(int32(field + 13) << 23)
                size = float32(float32(size + magic) - magic)
                size = float32(np.inf) if size > float32(65504.0) else size
                x = _from_bits32(_bits32(size) | (_bits32(x) & int32(-0x80000000)))
            c[m, j] = int32(QUIET) if x != x else _bits32(x)


def _sweep_of(depth: int, half: bool) -> Any:
    """One fused sum of `depth` products for every element of a tile.

    The loops over k have constant bounds: the compiler unrolls them and makes vectors of the loops over j.
    """
    lower = min(depth, 16)

    def sweep(a, ea, b, eb, c, part, peak, numbers, chain):  # type: ignore[no-untyped-def]
        """c[m, j] = a chain of fused sums from c[m, j], the products of one being a[i, m, k] * b[i, k, j].

        a, ea (sums, rows, depth); b, eb (sums, depth * WIDTH); c (rows, columns) float32 patterns; peak (columns,) is
        scratch; numbers come from `_numbers`. With `chain`, chains of so many sums start from zero, in part, a matrix
        like c, and are then added to c.
        """
        offset, least, low, cap = int32(numbers[0]), int32(numbers[1]), int32(numbers[2]), int32(numbers[3])
        top, scale, origin, mask = int32(numbers[4]), int32(numbers[5]), int32(numbers[6]), int32(numbers[7])
        running = part if chain else c
        for i in range(a.shape[0]):
            if chain and i % chain == 0:
                part[:] = 0
            for m in range(a.shape[1]):
                for j in range(c.shape[1]):
                    largest = int8(-128)
                    for k in range(depth):
                        largest = _larger(int8(ea[i, m, k] + eb[i, WIDTH * k + j]), largest)
                    peak[j] = largest
                for j in range(c.shape[1]):
                    bits = running[m, j]
                    # E from the window's start, and whether c passes because no product reaches its lowest bit.
                    field = int32(uint32(uint32(bits) << uint32(1)) >> uint32(24))
                    e_c, e_p = int32(field - offset), int32(peak[j])
                    if half:
                        e_c = _larger(e_c, least) if field > 0 else int32(-1000)
                    through = (e_p < 0) | (e_c >= cap)
                    e = _larger(e_p, e_c)
                    if half:  # where the result is float32, the window lies above the floor
                        e = _larger(e, low)
                    addend = int32(int32(top - _smaller(e, cap)) << 23)
                    term = int32(_from_bits32(bits) * _from_bits32(int32(addend + scale)))
                    total = int32(0)
                    for k in range(lower):
                        total = int32(total + int32(_from_bits32(_bits32(a[i, m, k] * b[i, WIDTH * k + j]) + addend)))
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
                            rest = int32(rest + int32(_from_bits32(_bits32(a[i, m, k] * b[i, WIDTH * k + j]) + addend)))
                        whole = int32(int32(total + rest) + term)
                        near = float32(float32(float32(total) + float32(rest)) + float32(term))
                        sure = abs(near) > float32(1 << 30)
                        negative = int32(_bits32(near) if sure else whole) >> 31
                    magnitude = uint32(uint32(whole ^ negative) - uint32(negative))
                    power = _from_bits32(origin - addend)
                    if half:
                        result = _round_half(magnitude, negative, power)
                    else:
                        result = _round_zero(magnitude, negative, power, mask)
                    running[m, j] = int32(bits & mask) if through else result
            if chain and i % chain == chain - 1:
                _join(part, c, half)

    sweep.__qualname__ = (
        f"fused_sums_of_{depth}_to_nearest" if half else f"fused_sums_of_{depth}"
    )  # what is said while it compiles
    return njit(cache=True, nogil=True, error_model="numpy")(sweep)


_SWEEPS = {(depth, half): _sweep_of(depth, half) for depth in (4, 8, 16, 32) for half in (False, True)}


def _numbers(base: int, rule: Rule) -> Array:
    """What a sweep needs of a rule, for windows that start at exponents whose sum is `base`."""
    half = rule.half
    return np.array(
        [
            127 + base,
            (-14 if half else -126) - base,  # exponent of a subnormal accumulator
            max(rule.floor, -10000) - base,
            98 + rule.fraction,  # every product is below 2^98 of its window: with this E all vanish
            rule.fraction + 2 * CENTRE,
            (127 - base - 2 * CENTRE) << 23,
            (127 + base + 2 * CENTRE) << 23,
            -1 << (0 if half else 23 - rule.keep),
        ],
        np.int64,
    )


# ------------------------------------------------------------------------------------------------------------- the tile


@njit(cache=True, nogil=True, error_model="numpy")
def _exceptions(a, b, c, odd_a, odd_b, rows, columns, fixed, fmt_a, fmt_b, numbers):  # type: ignore[no-untyped-def]
    """One fused sum by `exact` where a row of a or a column of b is odd, into `fixed`; rows and columns say which.

    Returns whether there is any.
    """
    depth = a.shape[1]
    rows[:] = 0
    columns[:] = 0
    for m in range(a.shape[0]):
        for k in range(depth):
            rows[m] |= odd_a[m, k]
    for k in range(depth):
        for j in range(c.shape[1]):
            columns[j] |= odd_b[WIDTH * k + j]
    found = False
    for m in range(a.shape[0]):
        for j in range(c.shape[1]):
            if rows[m] | columns[j]:
                nan = (c[m, j] & int32(0x7FFFFFFF)) > INFINITY  # and so it stays: no need to look
                fixed[m, j] = QUIET if nan else exact(a[m], b[j::WIDTH], c[m, j], fmt_a, fmt_b, numbers)
                found = True
    return found


@njit(cache=True, nogil=True)
def _correct(c, fixed, rows, columns):  # type: ignore[no-untyped-def]
    """c = fixed where `_exceptions` said so."""
    for m in range(c.shape[0]):
        for j in range(c.shape[1]):
            if rows[m] | columns[j]:
                c[m, j] = fixed[m, j]


class Rule(NamedTuple):
    """Fraction bits F, the floor of E, fraction bits kept, and whether results are float16 rounded to nearest."""

    fraction: int
    floor: int
    keep: int
    half: bool


class Scratch:
    """Memory of one thread: the packed forms of a tile of A and of one of B, of at most so many elements."""

    def __init__(self, of_a: int, of_b: int) -> None:
        types = (np.float32, np.int8, np.uint8)
        self._rooms = tuple(tuple(np.empty(size, dtype) for dtype in types) for size in (of_a, of_b))

    def parts(self, operand: int, shape: tuple[int, ...]) -> list[Array]:
        """Value, exponent and odd for operand 0 or 1 of a shape."""
        return [room[: math.prod(shape)].reshape(shape) for room in self._rooms[operand]]


def tile(
    a: Array, b: Array, c: Array, formats: tuple[Array, Array], rule: Rule, chain: int, fast: bool, scratch: Scratch
) -> None:
    """c = a @ b + c for one tile, in place, k in the order of the sums.

    a (sums, rows, L) and b (sums, L * WIDTH): uint32 patterns, C-contiguous, L products (4, 8, 16 or 32) to a fused
    sum; c (rows, columns): int32, float32 patterns, columns a multiple of 64 and at most WIDTH. With `chain`, chains of
    so many sums start from zero and c is added last. Without `fast` everything is taken as odd.
    """
    depth, (fmt_a, fmt_b) = a.shape[2], formats
    value_a, exponent_a, odd_a = scratch.parts(0, a.shape)
    value_b, exponent_b, odd_b = scratch.parts(1, b.shape)
    # As low as the largest element allows and the results permit, so that as little as possible lies outside.
    start_a = max(min(_highest(a.ravel(), fmt_a) - SPAN, HIGHEST // 2), LOWEST // 2)
    start_b = max(min(_highest(b.ravel(), fmt_b) - SPAN, HIGHEST // 2), LOWEST // 2)
    found = _pack(a.ravel(), fmt_a, start_a, value_a.ravel(), exponent_a.ravel(), odd_a.ravel())
    found |= _pack(b.ravel(), fmt_b, start_b, value_b.ravel(), exponent_b.ravel(), odd_b.ravel())
    part, peak = (np.empty_like(c) if chain else c), np.empty(c.shape[1], np.int8)
    numbers, sweep = _numbers(start_a + start_b, rule), _SWEEPS[depth, rule.half]
    if fast and not found:
        sweep(value_a, exponent_a, value_b, exponent_b, c, part, peak, numbers, chain)
        return

    # Toward zero, to all bits of float32, of formats with IEEE's NaN: what `matmul_wide` can do.
    wide = fast and found & OUTSIDE and rule.keep == 23 and depth <= 16 and fmt_a[5] == fmt_b[5] == 1
    if wide:
        found &= SPECIAL
        exponent_a, exponent_b = np.empty(a.shape, np.int32), np.empty(b.shape, np.int32)
        pack_wide(a.ravel(), fmt_a, value_a.ravel(), exponent_a.ravel(), odd_a.ravel())
        pack_wide(b.ravel(), fmt_b, value_b.ravel(), exponent_b.ravel(), odd_b.ravel())
        peak = np.empty(c.shape[1], np.int32)
    if not fast:
        odd_a[:] = 1
    fixed, odd_rows, odd_columns = np.empty_like(c), np.empty(c.shape[0], np.uint8), np.empty(c.shape[1], np.uint8)
    whole = np.array(rule, np.int64)
    for i in range(len(a)):
        if chain and i % chain == 0:
            part[:] = 0
        odd = (found or not fast) and _exceptions(
            a[i], b[i], part, odd_a[i], odd_b[i], odd_rows, odd_columns, fixed, fmt_a, fmt_b, whole
        )
        one = slice(i, i + 1)
        if wide:
            sweep_wide(value_a[i], exponent_a[i], value_b[i], exponent_b[i], part, peak, rule.fraction, rule.floor)
        elif fast:
            sweep(value_a[one], exponent_a[one], value_b[one], exponent_b[one], part, part, peak, numbers, 0)
        if odd:
            _correct(part, fixed, odd_rows, odd_columns)
        if chain and i % chain == chain - 1:
            _join(part, c, rule.half)
