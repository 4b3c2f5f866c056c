"""How whole matrices and batches of instructions compute fused sums; `tcemu.kernels.blocks` has the code.

All ways give the same bits.

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

import numpy as np
from numba import float32, int32

from tcemu.kernels.compiling import njit
from tcemu.kernels.vectors import bits32, from_bits32, inlined, larger, smaller, whole_vectors

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


@inlined
def _to_half(size):  # type: ignore[no-untyped-def]
    """A float32 that is not negative, rounded to float16, nearest even."""
    # Adding 2^(e + 13) pushes all but ten fraction bits out of float32; e stops at -14, where subnormals begin.
    field = larger(int32(bits32(size) >> 23), int32(127 - 14))
    field = smaller(field, int32(240))
    magic = from_bits32(int32(field + 13) << 23)
    size = float32(float32(size + magic) - magic)
    return float32(np.inf) if size > float32(65504.0) else size


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
