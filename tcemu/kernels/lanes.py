"""Fused sums of very many tiles: a vector has one lane for each tile, so that every operand is a vector.

The registers of LANES tiles are turned, so that a word of all of them lies side by side; from there on no element is
moved: an index table says which word it is in. What the sweep does for an output is what `tcemu.kernels.sums` does.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import float32, int8, int32, int64, uint8, uint32, uint64

from tcemu.kernels import sums as fast
from tcemu.kernels.compiling import njit
from tcemu.kernels.sums import _aligned, _limit, _raise, _round_half, _round_zero, _to_half, _wide_result
from tcemu.kernels.tiles import _narrowed
from tcemu.kernels.vectors import bits32, down, from_bits32, larger, turn, up, whole_vectors

#: Tiles of a vector: two vectors of words, half of one of bytes.
LANES = 32


@njit(cache=True, nogil=True)
def turn_in(words, first, turned):  # type: ignore[no-untyped-def]
    """turned[i * LANES + l] = words[first + l, i]; lanes behind the last row repeat it."""
    count, size = words.shape[0], words.shape[1]
    whole = size // 16 * 16 if first + LANES <= count else 0
    for i in range(0, whole, 16):
        for half in range(0, LANES, 16):
            source = uint64(words.ctypes.data) + uint64(((first + half) * size + i) * 4)
            target = uint64(turned.ctypes.data) + uint64((i * LANES + half) * 4)
            turn(source, uint64(size * 4), target, uint64(LANES * 4))
    for lane in range(LANES):
        row = min(first + lane, count - 1)
        for i in range(whole, size):
            turned[i * LANES + lane] = words[row, i]


@njit(cache=True, nogil=True)
def turn_out(turned, first, words):  # type: ignore[no-untyped-def]
    """words[first + l, i] = turned[i * LANES + l]; lanes behind the last row are dropped."""
    count, size = words.shape[0], words.shape[1]
    whole = size // 16 * 16 if first + LANES <= count else 0
    for i in range(0, whole, 16):
        for half in range(0, LANES, 16):
            source = uint64(turned.ctypes.data) + uint64((i * LANES + half) * 4)
            target = uint64(words.ctypes.data) + uint64(((first + half) * size + i) * 4)
            turn(source, uint64(LANES * 4), target, uint64(size * 4))
    for lane in range(min(LANES, count - first)):
        for i in range(whole, size):
            words[first + lane, i] = turned[i * LANES + lane]


@njit(cache=True, nogil=True)
def _windows(turned, table, mask, fmt, normal, starts):  # type: ignore[no-untyped-def]
    """Where the window of each lane starts; small formats fit in one, whatever the elements."""
    whole_vectors()
    if fmt[0] <= 5:
        starts[:] = 1 - fmt[2] - (fmt[1] if normal else 0)
        return
    shift, mantissa = uint32(fmt[3]), uint32(fmt[1])
    magnitudes, limit = uint32((1 << (fmt[0] + fmt[1])) - 1), _limit(fmt)
    top = np.zeros(LANES, np.uint32)
    for e in range(table.shape[1]):
        word, bit = table[0, e], table[1, e]
        for j in range(LANES):
            magnitude = uint32(down(uint32(down(turned[word * LANES + j], bit) & mask), shift) & magnitudes)
            magnitude = uint32(0) if magnitude >= limit else magnitude
            top[j] = larger(magnitude, top[j])
    for j in range(LANES):
        highest = max(int64(top[j] >> mantissa), 1) - fmt[2]
        starts[j] = max(min(highest - fast.SPAN, fast.HIGHEST // 2), fast.LOWEST // 2)


@njit(cache=True, nogil=True)
def _pack(turned, table, mask, fmt, normal, starts, value, exponent, flags):  # type: ignore[no-untyped-def]
    """`fast.pack` for all lanes; `normal`: subnormals are normalised, as in a wider format."""
    whole_vectors()
    shift, mantissa = uint32(fmt[3]), uint32(fmt[1])
    magnitudes, limit = uint32((1 << (fmt[0] + fmt[1])) - 1), _limit(fmt)
    low, hidden = uint32((1 << fmt[1]) - 1), uint32(1 << fmt[1])
    sign = uint32(31 - fmt[0] - fmt[1])
    lowest = np.empty(LANES, np.int32)
    for j in range(LANES):
        lowest[j] = int32(starts[j] + fmt[2])
    unit, centre = int32(127 - fast.CENTRE - fmt[1]), int32(127 - fast.CENTRE)
    for e in range(table.shape[1]):
        word, bit = table[0, e], table[1, e]
        for j in range(LANES):
            code = down(uint32(down(turned[word * LANES + j], bit) & mask), shift)
            magnitude = uint32(code & magnitudes)
            field = int32(down(magnitude, mantissa))
            significand = int32(uint32(magnitude & low) | uint32(hidden if field > 0 else uint32(0)))
            power = int32(larger(field, int32(1)) - lowest[j])
            special = magnitude >= limit
            outside = ((power < 0) | (power > fast.SPAN)) & (magnitude != 0) & (not special)
            if normal:
                outside = False
            out = special | outside | (magnitude == 0)
            x = float32(float32(significand) * from_bits32(int32(int32(unit + power) << 23)))
            if normal:
                power = int32(int32(bits32(x) >> 23) - centre)
            x = from_bits32(int32(bits32(x) | int32(up(code, sign) & uint32(0x80000000))))
            value[e * LANES + j] = float32(0.0) if out else x
            exponent[e * LANES + j] = int8(fast.ABSENT) if out else int8(power)
            flags[j] |= uint8(uint8(fast.SPECIAL if special else 0) | uint8(fast.OUTSIDE if outside else 0))


@njit(cache=True, nogil=True)
def _accumulators(turned, table, mask, half, c):  # type: ignore[no-untyped-def]
    """`tiles.widen` for all lanes."""
    whole_vectors()
    for e in range(table.shape[1]):
        word, bit = table[0, e], table[1, e]
        for j in range(LANES):
            bits = uint32(down(turned[word * LANES + j], bit) & mask)
            if half:
                size = uint32(bits & uint32(0x7FFF))
                normal = uint32(uint32(size << uint32(13)) + uint32(0x38000000))
                normal = uint32(fast.INFINITY) if size == uint32(0x7C00) else normal
                normal = uint32(fast.QUIET) if size > uint32(0x7C00) else normal
                tiny = uint32(bits32(float32(float32(int32(size)) * float32(2.0**-24))))
                found = normal if size >= uint32(0x400) else tiny
                bits = uint32(found | uint32(uint32(bits << uint32(16)) & uint32(1 << 31)))
            bits = uint32(fast.QUIET) if uint32(bits & uint32(0x7FFFFFFF)) > uint32(fast.INFINITY) else bits
            c[e * LANES + j] = int32(uint32(0) if bits == uint32(1 << 31) else bits)


@njit(cache=True, nogil=True)
def prepare(  # type: ignore[no-untyped-def]
    a, b, c, table_a, table_b, table_c, numbers, bases, flags, value_a, exponent_a, value_b, exponent_b, running
):
    """Load and pack the operands of all tiles, in blocks of LANES; a, b, c (tiles, words), the rest (blocks, ...).

    numbers: both formats, the masks of a, b and c, whether accumulators are float16, whether subnormals of a and b are
    normalised.
    """
    fmt_a, fmt_b = numbers[:6], numbers[6:12]
    mask_a, mask_b, mask_c = uint32(numbers[12]), uint32(numbers[13]), uint32(numbers[14])
    turned_a = np.empty(a.shape[1] * LANES, np.uint32)
    turned_b = np.empty(b.shape[1] * LANES, np.uint32)
    turned_c = np.empty(c.shape[1] * LANES, np.uint32)
    starts_a, starts_b = np.empty(LANES, np.int32), np.empty(LANES, np.int32)
    for block in range(bases.shape[0]):
        first = block * LANES
        turn_in(a, first, turned_a)
        turn_in(b, first, turned_b)
        turn_in(c, first, turned_c)
        flags[block] = 0
        normal_a, normal_b = numbers[16] != 0, numbers[17] != 0
        _windows(turned_a, table_a, mask_a, fmt_a, normal_a, starts_a)
        _windows(turned_b, table_b, mask_b, fmt_b, normal_b, starts_b)
        for j in range(LANES):
            bases[block, j] = starts_a[j] + starts_b[j]
        _pack(turned_a, table_a, mask_a, fmt_a, normal_a, starts_a, value_a[block], exponent_a[block], flags[block])
        _pack(turned_b, table_b, mask_b, fmt_b, normal_b, starts_b, value_b[block], exponent_b[block], flags[block])
        _accumulators(turned_c, table_c, mask_c, numbers[15] != 0, running[block])


@njit(cache=True, nogil=True)
def _pack_odd(turned, table, mask, fmt, signs, value, exponent):  # type: ignore[no-untyped-def]
    """`fast.pack_special` and, where value is not empty, `fast.pack_wide` for all lanes."""
    whole_vectors()
    patterns = np.empty(LANES, np.uint32)
    for e in range(table.shape[1]):
        word, bit = table[0, e], table[1, e]
        for j in range(LANES):
            patterns[j] = uint32(down(turned[word * LANES + j], bit) & mask)
        low, high = e * LANES, (e + 1) * LANES
        fast.pack_special(patterns, fmt, signs[low:high])
        if value.shape[0]:
            fast.pack_wide(patterns, fmt, value[low:high], exponent[low:high])


@njit(cache=True, nogil=True)
def prepare_odd(a, b, table_a, table_b, numbers, signs_a, signs_b, value_a, exponent_a, value_b, exponent_b):  # type: ignore[no-untyped-def]
    """What `prepare` leaves out: NaN and infinities, and where the values are not empty, exponents of any size."""
    fmt_a, fmt_b, mask_a, mask_b = numbers[:6], numbers[6:12], uint32(numbers[12]), uint32(numbers[13])
    turned_a = np.empty(a.shape[1] * LANES, np.uint32)
    turned_b = np.empty(b.shape[1] * LANES, np.uint32)
    for block in range(signs_a.shape[0]):
        turn_in(a, block * LANES, turned_a)
        turn_in(b, block * LANES, turned_b)
        _pack_odd(turned_a, table_a, mask_a, fmt_a, signs_a[block], value_a[block], exponent_a[block])
        _pack_odd(turned_b, table_b, mask_b, fmt_b, signs_b[block], value_b[block], exponent_b[block])


@njit(cache=True, nogil=True)
def store(running, half, per, width, table, d):  # type: ignore[no-untyped-def]
    """d (tiles, words): word i holds the results table[e, i], e < per, `width` bits each; see `tiles.store`."""
    whole_vectors()
    turned = np.empty(table.shape[1] * LANES, np.uint32)
    for block in range(running.shape[0]):
        for e in range(per):
            shift = uint32(e * width)
            for i in range(table.shape[1]):
                number, at = uint64(table[e, i] * LANES), uint64(i * LANES)
                for j in range(LANES):
                    bits = running[block, number + uint64(j)]
                    nan = int32(bits & int32(0x7FFFFFFF)) > int32(fast.INFINITY)
                    if half:
                        pattern = uint32(uint32(0x7FFF) if nan else _narrowed(bits))
                    else:
                        bits = int32(0) if bits == int32(-0x80000000) else bits
                        pattern = uint32(fast.QUIET) if nan else uint32(bits)
                    before = uint32(0) if e == 0 else turned[at + uint64(j)]
                    turned[at + uint64(j)] = uint32(before | up(pattern, shift))
        turn_out(turned, block * LANES, d)


@cache
def sweep_of(depth: int, half: bool, special: bool = False, wide: bool = False) -> Any:
    """`fast.sweep_of` where a lane is a tile; with what `fast.specials` does, and as `fast.wide_of`."""
    lower = depth if depth <= 16 else depth // 2

    def sweep(a, ea, b, eb, sa, sb, c, bases, rule, sums, rows, chained):  # type: ignore[no-untyped-def]
        """c[t] (rows * columns * LANES): chains of `sums` fused sums from there, or where `chained` from zero.

        a, ea (blocks, sums * rows * depth * LANES), b, eb (blocks, sums * columns * depth * LANES); bases (blocks,
        LANES): the sum of the starts of both windows. rule: fraction bits F, the floor of E, fraction bits kept. sa and
        sb: like a and b, from `fast.pack_special`. On the wide way ea and eb are int32, and there are no windows.
        """
        whole_vectors()
        floor = int32(max(rule[1], fast.BOTTOM))
        highest, marks = np.empty(LANES, np.int32), np.zeros(LANES, np.int32)
        mask = int32(int64(-1) << (0 if half else 23 - rule[2]))
        far, unit, scale = int32((rule[0] + 2) << 23), int32(rule[0] << 23), int32((254 + rule[0]) << 23)
        columns = c.shape[1] // (rows * LANES)
        peak, offset = np.empty(LANES, np.uint8), np.empty(LANES, np.uint8)
        least, top = np.empty(LANES, np.int32), np.empty(LANES, np.int32)
        aside = np.empty(LANES, np.int32)
        for t in range(c.shape[0]):
            for j in range(LANES):
                start = int64(127 + bases[t, j])
                offset[j] = uint8(start)
                least[j] = int32(max(rule[1] + 127, start) << 23) if half else int32(start << 23)
                top[j] = int32((rule[0] + 2 * fast.CENTRE + start) << 23)
            for m in range(rows):
                for n in range(columns):
                    at = uint64((m * columns + n) * LANES)
                    if chained:
                        for j in range(LANES):
                            aside[j] = c[t, at + uint64(j)]
                            c[t, at + uint64(j)] = int32(0)
                    for i in range(sums):
                        at_a = uint64((i * rows + m) * depth * LANES)
                        at_b = uint64((i * columns + n) * depth * LANES)
                        if special:
                            for j in range(LANES):
                                bits = c[t, at + uint64(j)]
                                e_c = int32(bits & int32(fast.INFINITY))
                                x = from_bits32(bits if e_c == int32(fast.INFINITY) else int32(0))
                                for k in range(depth):
                                    x += sa[t, at_a + uint64(k * LANES + j)] * sb[t, at_b + uint64(k * LANES + j)]
                                infinite = int32(bits32(x) if abs(x) > float32(100.0) else 0)
                                marks[j] = int32(fast.QUIET) if x != x else infinite
                        if wide:
                            for j in range(LANES):
                                most = floor
                                for k in range(depth):
                                    here = uint64(k * LANES + j)
                                    both = int32(ea[t, at_a + here] + eb[t, at_b + here])
                                    most = larger(both, most)
                                highest[j] = most
                            for j in range(LANES):
                                bits, most = c[t, at + uint64(j)], highest[j]
                                raised, term = _raise(bits, most, int32(rule[0]))
                                total, rest = int32(0), int32(0)
                                for k in range(lower):
                                    here = uint64(k * LANES + j)
                                    both = int32(ea[t, at_a + here] + eb[t, at_b + here])
                                    product = a[t, at_a + here] * b[t, at_b + here]
                                    total = int32(total + _aligned(product, both, raised))
                                for k in range(lower, depth):
                                    here = uint64(k * LANES + j)
                                    both = int32(ea[t, at_a + here] + eb[t, at_b + here])
                                    product = a[t, at_a + here] * b[t, at_b + here]
                                    rest = int32(rest + _aligned(product, both, raised))
                                result = _wide_result(bits, total, rest, term, raised)
                                if special:
                                    result = marks[j] if marks[j] != 0 else result
                                c[t, at + uint64(j)] = result
                            continue
                        for j in range(LANES):
                            largest = int8(-128)
                            for k in range(depth):
                                both = int8(ea[t, at_a + uint64(k * LANES + j)] + eb[t, at_b + uint64(k * LANES + j)])
                                largest = larger(both, largest)
                            peak[j] = uint8(0) if largest < 0 else uint8(largest + offset[j])
                        for j in range(LANES):
                            bits = c[t, at + uint64(j)]
                            e_p, e_c = int32(uint32(peak[j]) << uint32(23)), int32(bits & int32(fast.INFINITY))
                            held = from_bits32(bits if e_c > 0 else int32(0))
                            if half:
                                e_c = larger(e_c, int32((127 - 14) << 23)) if e_c > 0 else e_c
                            e = larger(larger(e_p, least[j]), e_c)
                            through = int32(e - e_p) >= far
                            addend = int32(top[j] - e)
                            term = int32(held * from_bits32(int32(scale - e)))
                            total, rest = int32(0), int32(0)
                            for k in range(lower):
                                product = a[t, at_a + uint64(k * LANES + j)] * b[t, at_b + uint64(k * LANES + j)]
                                total = int32(total + int32(from_bits32(bits32(product) + addend)))
                            for k in range(lower, depth):
                                product = a[t, at_a + uint64(k * LANES + j)] * b[t, at_b + uint64(k * LANES + j)]
                                rest = int32(rest + int32(from_bits32(bits32(product) + addend)))
                            if depth < 16:
                                whole = int32(total + term)
                                negative = int32(whole >> 31)
                            elif depth == 16:
                                whole = int32(total + term)
                                negative = int32(int32((total & term) | ((total | term) & whole)) >> 31)
                            else:
                                whole = int32(int32(total + rest) + term)
                                near = float32(float32(float32(total) + float32(rest)) + float32(term))
                                sure = abs(near) > float32(1 << 30)
                                negative = int32(bits32(near) if sure else whole) >> 31
                            magnitude = uint32(uint32(whole ^ negative) - uint32(negative))
                            power = from_bits32(int32(e - unit))
                            if half:
                                result = _round_half(magnitude, negative, power)
                            else:
                                result = _round_zero(magnitude, negative, power, mask)
                            result = int32(bits & mask) if through else result
                            if special:
                                result = marks[j] if marks[j] != 0 else result
                            c[t, at + uint64(j)] = result
                    if chained:
                        for j in range(LANES):
                            x = float32(from_bits32(aside[j]) + from_bits32(c[t, at + uint64(j)]))
                            if half:
                                x = from_bits32(bits32(_to_half(abs(x))) | (bits32(x) & int32(-0x80000000)))
                            c[t, at + uint64(j)] = int32(fast.QUIET) if x != x else bits32(x)

    kind = ("to_nearest" if half else "toward_zero") + "_specials" * special + "_wide" * wide
    sweep.__qualname__ = f"fused_sums_of_{depth}_{kind}_of_many"  # what is said while it compiles
    return njit(cache=True, nogil=True, error_model="numpy")(sweep)
