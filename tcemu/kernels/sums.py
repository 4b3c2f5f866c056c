"""How whole matrices and batches of instructions compute fused sums; `tcemu.kernels.blocks` has the code.

All paths give the same bits.

The fast path: in float32, the product of two significands of at most 12 bits is exact, and so is its product with a
power of two while both stay in range. With E known, a term is therefore

    int32(a * b * 2^(F - E))         the conversion truncates toward zero, as the silicon does

and the power of two is an integer addition to the exponent field of a * b. E itself is a maximum over bytes: the
exponents of a tile's elements, relative to the start of its *window*, fit in 0..SPAN. The window stays where no
result can leave the normal range of float32.

The wide path: if an element is outside the window, as may happen with bf16 and tf32, each product needs its own power
of two to align it. That takes some eight vector operations; with the window it takes four.
`tcemu.kernels.usual` leaves out what most chains on the fast path do not need.

The short path: if all elements of a chain have so few bits that nothing is cut off, products are added as they are,
in one operation each. `tcemu.kernels.short_sums` says when.

The first two paths leave out NaN and infinities. Another pass decides them: with +-1 for every finite number, the sum
of the products in the processor's own arithmetic is infinite or NaN exactly where the result is.

Accumulators are float32 patterns throughout; a float16 accumulator is the float32 of the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numba import float32, int32

from tcemu.kernels.compiling import njit
from tcemu.kernels.vectors import bits32, from_bits32, inlined, larger, smaller, whole_vectors

QUIET = 0x7FFFFFFF
INFINITY = 0x7F800000

#: Binades in the window of one operand; the sum of two exponents fits in a byte.
SPAN = 48
#: All numbers of a format with so many bits of exponent fit in one window.
SMALL = 5
#: The byte that stands for the exponent of a zero. Added to itself or to any exponent in the window, it gives a
#: negative byte and does not wrap.
ABSENT = -(SPAN + 1)
#: Elements are scaled by 2^-(start + CENTRE), so that every power of two that a term needs is at least 2^1 and below
#: 2^126: adding it to the exponent field of a product never wraps, and leaves a zero below one. (In windows that start
#: at -48, zeros are packed as NaN. They vanish because their exponent field does wrap, which 2^0 would not make it do.)
CENTRE = 50
#: The highest sum of two window starts: above it, an infinite accumulator would not pass unchanged.
HIGHEST = 5
#: The lowest: below it, a result could be subnormal.
LOWEST = -100
#: What `pack` finds: NaN or infinity; something outside the window.
SPECIAL, OUTSIDE = 1, 2
#: Elements that are packed without their exponents, which short chains do not need.
BARE = 4
#: The pattern of an element that takes no part in the sum because a sparse A does not store it.
PRUNED = 0xFFFFFFFF

#: The exponent of a zero on the wide path: a sum with it is far below any other.
NOWHERE = -10000
#: Below every exponent of a product of two float32.
BOTTOM = -300


def space(fraction: int, products: int, formats: Sequence[Sequence[int]]) -> int:
    """Whether a sum of so many products that are not zero always fits in 32 bits, in units of 2^(E - fraction).

    0: it does so with an accumulator, which is below 2 * 2^E; 1: without; 2: not always. formats: see `matmul.fused`.
    """
    most, room = products * prod(2 - 2.0 ** -int(form[1]) for form in formats), 2.0 ** (31 - fraction)
    return (most + 2 >= room) + (most >= room)


@inlined
def _to_half(size):  # type: ignore[no-untyped-def]
    """A non-negative float32, rounded to float16, to nearest even."""
    # Adding 2^(e + 13) pushes all but ten fraction bits out of float32; e stops at -14, where subnormals begin.
    field = larger(int32(bits32(size) >> 23), int32(127 - 14))
    field = smaller(field, int32(240))
    magic = from_bits32(int32(field + 13) << 23)
    size = float32(float32(size + magic) - magic)
    return float32(np.inf) if size > float32(65504.0) else size


@njit(cache=True, nogil=True, error_model="numpy")
def join(part, c, half):  # type: ignore[no-untyped-def]
    """c += part: the format's ordinary addition, rounded to nearest even."""
    whole_vectors()
    for m in range(c.shape[0]):
        for j in range(c.shape[1]):
            x = float32(from_bits32(c[m, j]) + from_bits32(part[m, j]))
            if half:
                # float32 has more than twice the bits of float16, so rounding twice equals rounding once.
                x = from_bits32(bits32(_to_half(abs(x))) | (bits32(x) & int32(-0x80000000)))
            c[m, j] = int32(QUIET) if x != x else bits32(x)
