"""Fused sums of tiles whose exponents spread too far for `matmul_fused`: bf16 and tf32 over all of their range.

Significands and exponents stand apart here. The product of two significands is exact in float32 and below 4; the power
of two that aligns it is made for each product, in some ten vector operations where the window needs four. The results
may be subnormal.
"""

from __future__ import annotations

from typing import Any

from numba import float32, int32, njit, uint32

from tcemu.kernels.matmul_exact import WIDTH, _bits32, _from_bits32, _larger, _smaller

#: Exponent of a zero: a sum with it is far below any other.
ABSENT = -10000
#: Below every exponent of a product of two float32.
BOTTOM = -300


@njit(cache=True, nogil=True, error_model="numpy")
def pack_wide(patterns, fmt, value, exponent, odd):  # type: ignore[no-untyped-def]
    """Fill value (signed significands, float32), exponent (int32) and odd (bytes, 1 for NaN and infinity); all flat.

    The format has IEEE's NaN.
    """
    shift, mantissa = uint32(fmt[3]), uint32(fmt[1])
    ones = uint32((1 << fmt[0]) - 1)
    align, sign = uint32(23 - fmt[1]), uint32(31 - fmt[0] - fmt[1])
    bias = int32(fmt[2])
    for i in range(patterns.shape[0]):
        code = uint32(patterns[i] >> shift)
        field = uint32((code >> mantissa) & ones)
        low = uint32(uint32(code << align) & uint32(0x7FFFFF))
        x = _from_bits32(uint32(low | uint32(0x3F800000)))  # 1.f
        x = float32(x - float32(1.0)) if field == 0 else x
        strange = field == ones
        x = float32(0.0) if strange else x
        value[i] = _from_bits32(_bits32(x) | int32(uint32(code << sign) & uint32(0x80000000)))
        power = int32(_larger(int32(field), int32(1)) - bias)
        exponent[i] = int32(ABSENT) if x == float32(0.0) else power
        odd[i] = strange


def _sweep_of(depth: int) -> Any:
    """One fused sum of `depth` products for every element of a tile; the loops over k are unrolled."""

    def sweep(a, ea, b, eb, c, peak, fraction, floor):  # type: ignore[no-untyped-def]
        """c[m, j] = the fused sum of c[m, j] and a[m, k] * b[k, j].

        a, ea (rows, depth); b, eb flat, WIDTH to a row; c (rows, columns) float32 patterns, results toward zero; peak
        (columns,) int32 is scratch.
        """
        places, least = int32(fraction), int32(max(floor, BOTTOM))
        for m in range(a.shape[0]):
            for j in range(c.shape[1]):
                largest = least
                for k in range(depth):
                    largest = _larger(int32(ea[m, k] + eb[WIDTH * k + j]), largest)
                peak[j] = largest
            for j in range(c.shape[1]):
                bits = c[m, j]
                field = int32(uint32(uint32(bits) << uint32(1)) >> uint32(24))
                e_c = int32(_larger(field, int32(1)) - 127)
                e = peak[j] if int32(bits & 0x7FFFFFFF) == 0 else _larger(peak[j], e_c)
                up = int32(places - e)
                # Powers beyond float32's range are taken in two halves. Where up is above 151, c is zero.
                half = int32(_smaller(up, int32(151)) >> 1)
                rest = int32(_smaller(up, int32(151)) - half)
                term = int32(
                    float32(
                        float32(_from_bits32(bits) * _from_bits32(int32(half + 127) << 23))
                        * _from_bits32(int32(rest + 127) << 23)
                    )
                )
                total = int32(0)
                for k in range(depth):
                    # 2^-100 takes every product below one, and no further than float32's normal range.
                    power = _larger(int32(int32(ea[m, k] + eb[WIDTH * k + j]) + up), int32(-100))
                    aligned = float32(
                        float32(a[m, k] * b[WIDTH * k + j]) * _from_bits32(int32(int32(power + 127) << 23))
                    )
                    total = int32(total + int32(aligned))
                whole = int32(total + term)
                negative = int32(int32((total & term) | ((total | term) & whole)) >> 31)
                magnitude = uint32(uint32(whole ^ negative) - uint32(negative))
                # What lies below the last place of a subnormal is cut first, then all but 24 bits (see `matmul_fused`).
                drop = _larger(int32(-149 + up), int32(0))
                cut = uint32(magnitude >> uint32(_smaller(drop, int32(31))))
                magnitude = uint32(0) if drop > 31 else cut
                x = float32(uint32(magnitude & ~uint32(magnitude >> uint32(24))))
                unit = int32(drop - up)
                half = int32(unit >> 1)
                rest = int32(unit - half)
                x = float32(x * _from_bits32(int32(half + 127) << 23))
                x = float32(x * _from_bits32(int32(rest + 127) << 23))
                result = int32(_bits32(x) | int32(negative & int32(-0x80000000)))
                result = int32(0) if magnitude == 0 else result
                c[m, j] = bits if field == 255 else result

    sweep.__qualname__ = f"wide_fused_sums_of_{depth}"  # what is said while it compiles
    return njit(cache=True, nogil=True, error_model="numpy")(sweep)


_sweep4, _sweep8, _sweep16 = _sweep_of(4), _sweep_of(8), _sweep_of(16)


@njit(cache=True, nogil=True, error_model="numpy")
def sweep_wide(a, ea, b, eb, c, peak, fraction, floor):  # type: ignore[no-untyped-def]
    """The sweep for the depth of a: 4, 8 or 16."""
    if a.shape[1] == 16:
        _sweep16(a, ea, b, eb, c, peak, fraction, floor)
    elif a.shape[1] == 8:
        _sweep8(a, ea, b, eb, c, peak, fraction, floor)
    else:
        _sweep4(a, ea, b, eb, c, peak, fraction, floor)
