"""Fused sums over tiles: the vector passes that whole matrices and batches of instructions share.

A tile holds some rows of one operand, whose elements are read one at a time, and some columns of the other, which lie
side by side in vectors of `width` lanes; the accumulators stand between them. All ways give the same bits.

The fast way. The product of two significands of at most 12 bits is exact in float32, and so is its product with a power
of two while both stay in range. With E known, a term is therefore

    int32(a * b * 2^(F - E))         the conversion truncates toward zero, as the silicon does

and the power of two is an integer addition to the exponent field of a * b. E itself is a maximum over bytes: the
exponents of the elements of a tile, counted from the start of its *window*, fit in 0..SPAN. The window keeps away from
where a result could leave the normal range of float32.

The wide way takes tiles with an element outside the window, as bf16 and tf32 have them: the power of two that aligns a
product is made for each product, in some ten vector operations where the window needs four.

NaN and infinities are left out of both, and decided by another pass: with +-1 for every finite number, the sum of the
products in the processor's own arithmetic is infinite or NaN exactly where the result is.

Accumulators are float32 patterns throughout; a float16 accumulator is the float32 of the same value.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import float32, int8, int32, int64, njit, uint8, uint32

from tcemu.kernels.vectors import bits32, down, from_bits32, inlined, larger, smaller, up, whole_vectors

QUIET = 0x7FFFFFFF
INFINITY = 0x7F800000

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
#: What `pack` finds: NaN or infinity; something outside the window.
SPECIAL, OUTSIDE = 1, 2
#: Pattern of an element that takes no part at all: what a sparse A does not store.
PRUNED = 0xFFFFFFFF

#: Exponent of a zero on the wide way: a sum with it is far below any other.
NOWHERE = -10000
#: Below every exponent of a product of two float32.
BOTTOM = -300


# ------------------------------------------------------------------------------------------------------ packed operands


@inlined
def _limit(fmt):  # type: ignore[no-untyped-def]
    """Patterns without their sign from here on are NaN or infinite."""
    magnitudes = uint32((1 << (fmt[0] + fmt[1])) - 1)
    if fmt[5] == 1:
        return uint32(((1 << fmt[0]) - 1) << fmt[1])
    return magnitudes if fmt[5] == 2 else uint32(magnitudes + uint32(1))


@njit(cache=True, nogil=True)
def window(patterns, fmt):  # type: ignore[no-untyped-def]
    """Where the window of these elements starts; `fmt` as `blocks.pack` takes it.

    Small formats fit in one, whatever the elements. Else as low as the largest element allows and the results permit,
    so that as little as possible lies outside.
    """
    whole_vectors()
    if fmt[0] <= 5:
        return 1 - fmt[2] - fmt[1] * fmt[6]
    shift, mantissa = uint32(fmt[3]), uint32(fmt[1])
    magnitudes, limit = uint32((1 << (fmt[0] + fmt[1])) - 1), _limit(fmt)
    top = uint32(0)
    for i in range(patterns.shape[0]):
        magnitude = uint32(down(patterns[i], shift) & magnitudes)
        magnitude = uint32(0) if (magnitude >= limit) | (patterns[i] == uint32(PRUNED)) else magnitude
        top = larger(magnitude, top)
    highest = max(int64(top >> mantissa), 1) - fmt[2]
    return max(min(highest - SPAN, HIGHEST // 2), LOWEST // 2)


@njit(cache=True, nogil=True)
def pack(patterns, fmt, normal, start, value, exponent):  # type: ignore[no-untyped-def]
    """Fill value (float32, scaled by 2^-(start + CENTRE)) and exponent (bytes from `start`); all are flat.

    `normal`: subnormals are normalised, as in a wider format. Returns SPECIAL where something is NaN or infinite, plus OUTSIDE where something misses the window; both
    count as zeros.
    """
    whole_vectors()
    shift, mantissa = uint32(fmt[3]), uint32(fmt[1])
    magnitudes, limit = uint32((1 << (fmt[0] + fmt[1])) - 1), _limit(fmt)
    low, hidden = uint32((1 << fmt[1]) - 1), uint32(1 << fmt[1])
    sign = uint32(31 - fmt[0] - fmt[1])
    lowest = int32(start + fmt[2])  # exponent field at the window's start
    unit = int32(127 - CENTRE - fmt[1])  # exponent field of the last bit of an element at the window's start
    centre = int32(127 - CENTRE)
    found = uint32(0)
    for i in range(patterns.shape[0]):
        code = uint32(0) if patterns[i] == uint32(PRUNED) else down(patterns[i], shift)
        magnitude = uint32(code & magnitudes)
        field = int32(down(magnitude, mantissa))
        significand = int32(uint32(magnitude & low) | uint32(hidden if field > 0 else uint32(0)))
        power = int32(larger(field, int32(1)) - lowest)
        special = magnitude >= limit
        outside = ((power < 0) | (power > SPAN)) & (magnitude != 0) & (not special) & (not normal)
        out = special | outside | (magnitude == 0)
        x = float32(float32(significand) * from_bits32(int32(int32(unit + power) << 23)))
        power = int32(int32(bits32(x) >> 23) - centre) if normal else power
        x = from_bits32(int32(bits32(x) | int32(up(code, sign) & uint32(0x80000000))))
        value[i] = float32(0.0) if out else x
        exponent[i] = int8(ABSENT) if out else int8(power)
        found |= uint32(uint32(SPECIAL if special else 0) | uint32(OUTSIDE if outside else 0))
    return found


@njit(cache=True, nogil=True)
def pack_wide(patterns, numbers, form, value, exponent):  # type: ignore[no-untyped-def]
    """Fill value (signed significands from 1 to 2, float32; less for subnormals) and exponent (int32); all are flat.

    The format's six numbers start at numbers[form].
    """
    whole_vectors()
    fmt = numbers[form:]
    shift, mantissa = uint32(fmt[3]), uint32(fmt[1])
    magnitudes, limit = uint32((1 << (fmt[0] + fmt[1])) - 1), _limit(fmt)
    low, hidden = uint32((1 << fmt[1]) - 1), uint32(1 << fmt[1])
    sign = uint32(31 - fmt[0] - fmt[1])
    bias, unit = int32(fmt[2]), from_bits32(int32(int32(127 - fmt[1]) << 23))
    for i in range(patterns.shape[0]):
        code = uint32(0) if patterns[i] == uint32(PRUNED) else down(patterns[i], shift)
        magnitude = uint32(code & magnitudes)
        field = int32(down(magnitude, mantissa))
        significand = int32(uint32(magnitude & low) | uint32(hidden if field > 0 else uint32(0)))
        out = (magnitude >= limit) | (magnitude == 0)
        x = float32(float32(significand) * unit)
        x = from_bits32(int32(bits32(x) | int32(up(code, sign) & uint32(0x80000000))))
        value[i] = float32(0.0) if out else x
        exponent[i] = int32(NOWHERE) if out else int32(larger(field, int32(1)) - bias)


@njit(cache=True, nogil=True)
def pack_special(patterns, numbers, form, value):  # type: ignore[no-untyped-def]
    """Fill value (float32): NaN, infinities and zeros as they are, +-1 for what is finite, 2 for what was pruned.

    The format's six numbers start at numbers[form].
    """
    whole_vectors()
    fmt = numbers[form:]
    shift = uint32(fmt[3])
    magnitudes, limit = uint32((1 << (fmt[0] + fmt[1])) - 1), _limit(fmt)
    infinite = uint32(((1 << fmt[0]) - 1) << fmt[1]) if fmt[4] else uint32(PRUNED)
    sign = uint32(31 - fmt[0] - fmt[1])
    for i in range(patterns.shape[0]):
        code = down(patterns[i], shift)
        magnitude = uint32(code & magnitudes)
        size = int32(0x3F800000 if magnitude != 0 else 0)
        size = int32(QUIET if magnitude >= limit else size)
        size = int32(INFINITY if magnitude == infinite else size)
        x = from_bits32(int32(size | int32(up(code, sign) & uint32(0x80000000))))
        value[i] = float32(2.0) if patterns[i] == uint32(PRUNED) else x


# ------------------------------------------------------------------------------------------------------------- rounding


@inlined
def _round_zero(magnitude, negative, power, mask):  # type: ignore[no-untyped-def]
    """The pattern of +-magnitude * power, toward zero to 24 bits and then to the bits of `mask`; magnitude is uint32.

    Where the magnitude has n > 24 bits, magnitude >> 24 has its top bit just below the 24 that stay: clearing its bits
    leaves a number that the conversion, which rounds to nearest, rounds down.
    """
    x = float32(uint32(magnitude & ~uint32(magnitude >> uint32(24))))
    return int32((bits32(x * power) & mask) | int32(negative & int32(-0x80000000)))


@inlined
def _to_half(size):  # type: ignore[no-untyped-def]
    """A float32 that is not negative, rounded to float16, nearest even."""
    # Adding 2^(e + 13) pushes all but ten fraction bits out of float32; e stops at -14, where subnormals begin.
    field = larger(int32(bits32(size) >> 23), int32(127 - 14))
    field = smaller(field, int32(240))
    magic = from_bits32(int32(field + 13) << 23)
    size = float32(float32(size + magic) - magic)
    return float32(np.inf) if size > float32(65504.0) else size


@inlined
def _round_half(magnitude, negative, power):  # type: ignore[no-untyped-def]
    """The pattern of +-magnitude * power, rounded once to float16, nearest even; magnitude is uint32."""
    # More than 24 bits: the lower eight become one that says whether any of them was set, far below float16's last.
    sticky = uint32(
        (magnitude & uint32(0xFFFFFF00)) | (uint32((magnitude & uint32(0xFF)) + uint32(0xFF)) & uint32(0x100))
    )
    bits = bits32(_to_half(float32(float32(sticky if magnitude >= uint32(1 << 24) else magnitude) * power)))
    return int32(bits | int32(negative & int32(-0x80000000))) if bits != 0 else int32(0)


@njit(cache=True, nogil=True, error_model="numpy")
def join(part, c, half):  # type: ignore[no-untyped-def]
    """c += part, the ordinary addition of the format, rounded to nearest even."""
    whole_vectors()
    for m in range(c.shape[0]):
        for j in range(c.shape[1]):
            x = float32(from_bits32(c[m, j]) + from_bits32(part[m, j]))
            if half:
                # float32 has more than twice the bits of float16: rounding twice is rounding once.
                x = from_bits32(bits32(_to_half(abs(x))) | (bits32(x) & int32(-0x80000000)))
            c[m, j] = int32(QUIET) if x != x else bits32(x)


# ----------------------------------------------------------------------------------------------------------- the sweeps


@cache
def sweep_of(depth: int, half: bool, width: int) -> Any:
    """The fast way for fused sums of `depth` products, results in float16 or float32, vectors of `width` lanes.

    The loops over k have constant bounds: the compiler unrolls them and makes vectors of the loops over j.
    """
    lower = depth if depth <= 16 else depth // 2  # so many sum up without an overflow

    def sweep(a, ea, b, eb, c, part, bases, share, rule, chain, first, stop):  # type: ignore[no-untyped-def]
        """c[t, m, j] = the sums first..stop of a chain that goes on from c[t, m, j].

        The products of sum i are a[t // share, i, m, k] * b[t, i, k, j]. a, ea (tiles / share, sums, rows, depth); b,
        eb (tiles, sums, depth * width); c (tiles, rows, columns) float32 patterns. bases (tiles / share,): the sum of
        the starts of both windows. rule: fraction bits F, the floor of E, fraction bits kept. With `chain`, chains of
        so many sums start from zero, in part, an array like c, and are then added to c; else part is c.
        """
        whole_vectors()
        fraction = int32(rule[0])
        mask = int32(int64(-1) << (0 if half else 23 - rule[2]))
        # With E this far above the exponents of the products all of them vanish, and c passes: NaN and infinities too.
        far, unit, scale = int32((rule[0] + 2) << 23), int32(rule[0] << 23), int32((254 + rule[0]) << 23)
        peak = np.empty(width, np.uint8)
        for t in range(c.shape[0]):
            s = t // share
            offset = int32(127 + bases[s])  # exponent field of the start of the window of products
            least = int32(max(rule[1] + 127, int64(offset)) << 23) if half else int32(offset << 23)
            top = int32(int64(fraction + 2 * CENTRE + offset) << 23)
            for i in range(first, stop):
                if chain and i % chain == 0:
                    part[t] = 0
                for m in range(c.shape[1]):
                    for j in range(c.shape[2]):
                        largest = int8(-128)
                        for k in range(depth):
                            largest = larger(int8(ea[s, i, m, k] + eb[t, i, width * k + j]), largest)
                        peak[j] = uint8(0) if largest < 0 else uint8(largest + offset)
                    for j in range(c.shape[2]):
                        bits = part[t, m, j]
                        # Exponents stand where float32 has them, so that none of them needs to be moved.
                        e_p, e_c = int32(uint32(peak[j]) << uint32(23)), int32(bits & int32(INFINITY))
                        # A subnormal lies below all that is kept beside a product, and costs the processor much.
                        held = from_bits32(bits if e_c > 0 else int32(0))
                        if half:
                            e_c = larger(e_c, int32((127 - 14) << 23)) if e_c > 0 else e_c
                        e = larger(larger(e_p, least), e_c)
                        through = int32(e - e_p) >= far
                        addend = int32(top - e)
                        term = int32(held * from_bits32(int32(scale - e)))
                        total = int32(0)
                        for k in range(lower):
                            product = a[s, i, m, k] * b[t, i, width * k + j]
                            total = int32(total + int32(from_bits32(bits32(product) + addend)))
                        if depth < 16:
                            whole = int32(total + term)
                            negative = int32(whole >> 31)
                        elif depth == 16:
                            # At most 16 * 2^27: no overflow yet. With c there can be one, but not in the sign where
                            # both agree.
                            whole = int32(total + term)
                            negative = int32(int32((total & term) | ((total | term) & whole)) >> 31)
                        else:
                            rest = int32(0)
                            for k in range(lower, depth):
                                product = a[s, i, m, k] * b[t, i, width * k + j]
                                rest = int32(rest + int32(from_bits32(bits32(product) + addend)))
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
                        part[t, m, j] = int32(bits & mask) if through else result
                if chain and i % chain == chain - 1:
                    join(part[t], c[t], half)

    kind = "to_nearest" if half else "toward_zero"
    sweep.__qualname__ = f"fused_sums_of_{depth}_{kind}_on_{width}_lanes"  # what is said while it compiles
    return njit(cache=True, nogil=True, error_model="numpy")(sweep)


@inlined
def _raise(bits, most, fraction):  # type: ignore[no-untyped-def]
    """(F - E, the aligned accumulator), for an accumulator and the largest exponent of the products."""
    field = int32(uint32(uint32(bits) << uint32(1)) >> uint32(24))
    e_c = int32(larger(field, int32(1)) - 127)
    e = most if int32(bits & QUIET) == 0 else larger(most, e_c)
    raised = int32(fraction - e)
    # The significand of c as an integer: a subnormal float costs the processor much.
    significand = int32(int32(bits & 0x7FFFFF) | int32(0x800000 if field > 0 else 0))
    lift = larger(int32(int32(e_c + raised) - 23), int32(-100))
    lift = smaller(lift, int32(100))  # where it is more, c is zero
    size = int32(float32(float32(significand) * from_bits32(int32(int32(lift + 127) << 23))))
    return raised, int32(-size) if bits < 0 else size


@inlined
def _aligned(product, exponent, raised):  # type: ignore[no-untyped-def]
    """A product of significands times 2^(exponent + raised), toward zero."""
    # 2^-100 takes every product below one, and no further than float32's normal range.
    power = larger(int32(exponent + raised), int32(-100))
    return int32(float32(product * from_bits32(int32(int32(power + 127) << 23))))


@inlined
def _wide_result(bits, total, rest, term, raised):  # type: ignore[no-untyped-def]
    """The pattern of (total + rest + term) * 2^-raised, toward zero, after the accumulator `bits`."""
    whole = int32(int32(total + rest) + term)
    near = float32(float32(float32(total) + float32(rest)) + float32(term))
    sure = abs(near) > float32(1 << 30)
    negative = int32(bits32(near) if sure else whole) >> 31
    magnitude = uint32(uint32(whole ^ negative) - uint32(negative))
    # What lies below the last place of a subnormal is cut first, then all but 24 bits (see `_round_zero`).
    drop = larger(int32(-149 + raised), int32(0))
    magnitude = uint32(0) if drop > 31 else down(magnitude, uint32(smaller(drop, int32(31))))
    x = float32(uint32(magnitude & ~uint32(magnitude >> uint32(24))))
    # The pattern of x * 2^(drop - raised): a normal number's by its exponent; a subnormal's is x in units of the last
    # place of float32.
    power = int32(int32(bits32(x) >> 23) + int32(drop - raised))
    normal = int32(bits32(x) + int32(int32(drop - raised) << 23))
    normal = int32(INFINITY) if power > 254 else normal
    places = smaller(larger(int32(149 - raised), int32(0)), int32(31))
    result = normal if power > 0 else int32(up(uint32(int32(x)), uint32(places)))
    result = int32(result | int32(negative & int32(-0x80000000)))
    result = int32(0) if magnitude == 0 else result
    return bits if int32(bits & INFINITY) == INFINITY else result


@cache
def wide_of(depth: int, width: int) -> Any:
    """The wide way for fused sums of `depth` products, results in float32 toward zero, vectors of `width` lanes."""
    lower = depth if depth <= 16 else depth // 2  # so many sum up without an overflow

    def sweep(a, ea, b, eb, c, share, rule, first, stop):  # type: ignore[no-untyped-def]
        """c[t, m, j] = the sums first..stop of a chain that goes on from c[t, m, j]; the results may be subnormal.

        As for `sweep_of`, but for the exponents, which are int32.
        """
        whole_vectors()
        places, least = int32(rule[0]), int32(max(rule[1], BOTTOM))
        peak = np.empty(width, np.int32)
        for t in range(c.shape[0]):
            s = t // share
            for i in range(first, stop):
                for m in range(c.shape[1]):
                    for j in range(c.shape[2]):
                        largest = least
                        for k in range(depth):
                            largest = larger(int32(ea[s, i, m, k] + eb[t, i, width * k + j]), largest)
                        peak[j] = largest
                    for j in range(c.shape[2]):
                        raised, term = _raise(c[t, m, j], peak[j], places)
                        total, rest = int32(0), int32(0)
                        for k in range(lower):
                            both = int32(ea[s, i, m, k] + eb[t, i, width * k + j])
                            total = int32(total + _aligned(a[s, i, m, k] * b[t, i, width * k + j], both, raised))
                        for k in range(lower, depth):
                            both = int32(ea[s, i, m, k] + eb[t, i, width * k + j])
                            rest = int32(rest + _aligned(a[s, i, m, k] * b[t, i, width * k + j], both, raised))
                        c[t, m, j] = _wide_result(c[t, m, j], total, rest, term, raised)

    sweep.__qualname__ = f"wide_fused_sums_of_{depth}_on_{width}_lanes"  # what is said while it compiles
    return njit(cache=True, nogil=True, error_model="numpy")(sweep)


@njit(cache=True, nogil=True, error_model="numpy")
def specials(a, b, c, share, i, width, fixed):  # type: ignore[no-untyped-def]
    """fixed[t, m, j] = the pattern of sum i of a and b, from c, where it is infinite or NaN, else 0.

    a (tiles / share, sums, rows, depth) and b (tiles, sums, depth * width) come from `pack_special`.
    """
    whole_vectors()
    total = np.empty(width, np.float32)
    for t in range(c.shape[0]):
        s = t // share
        for m in range(c.shape[1]):
            for j in range(c.shape[2]):
                bits = c[t, m, j]
                total[j] = from_bits32(bits) if int32(bits & INFINITY) == INFINITY else float32(0.0)
            for k in range(a.shape[3]):
                x = a[s, i, m, k]
                if x != float32(2.0):
                    for j in range(c.shape[2]):
                        y = b[t, i, width * k + j]
                        total[j] += float32(0.0) if y == float32(2.0) else float32(x * y)
            for j in range(c.shape[2]):
                x = total[j]
                infinite = int32(bits32(x) if abs(x) > float32(100.0) else 0)
                fixed[t, m, j] = int32(QUIET) if x != x else infinite


@njit(cache=True, nogil=True)
def correct(c, fixed):  # type: ignore[no-untyped-def]
    """c = fixed where `specials` found something."""
    whole_vectors()
    for i in range(c.shape[0]):
        c[i] = fixed[i] if fixed[i] != 0 else c[i]
