"""How whole matrices and batches of instructions compute fused sums.

All paths give the same bits.

The fast path (`fast`): in float32, the product of two significands of at most 12 bits is exact, and so is its product
with a power of two while both stay in range. With E known, a term is therefore

    int32(a * b * 2^(F - E))         the conversion truncates toward zero, as the silicon does

and the power of two is an integer addition to the exponent field of a * b. E itself is a maximum over bytes: the
exponents of a tile's elements, relative to the start of its *window*, fit in 0..SPAN. The window stays where no
result can leave the normal range of float32. Most sums are simple (`block`), and leave out what they do not need.

The wide path (`wide`): if an element is outside the window, as may happen with bf16 and tf32, each product needs its
own power of two to align it. That takes some eight vector operations; with the window it takes four.

The short path (`short`): if all elements of a chain have so few bits that nothing is cut off, products are added as
they are, in one operation each.

The first two paths leave out NaN and infinities. Another pass decides them (`specials`): with +-1 for every finite
number, the sum of the products in the processor's own arithmetic is infinite or NaN exactly where the result is.

`scaled` has products with scales, `block` what all sums of a block share, `rounding` how they are rounded, and `pack`
how elements become floats and exponents. Accumulators are float32 patterns throughout; a float16 accumulator is the
float32 of the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

__all__ = ["block", "fast", "pack", "rounding", "scaled", "short", "specials", "wide"]

#: Kinds of arithmetic.
FUSED, GROUPED, INTEGERS, BITS, CHAINS = range(5)
#: Rows of a block.
ROWS = 4
#: A sum of this many products always fits in 32 bits; one of twice as many does so without its sign. Longer sums
#: include the zeros of a sparse A; `tiles` orders them so that each half has at most this many other products.
SAFE = 16
#: The exponent of a scale that is NaN.
SCALE_NAN = 1 << 14

#: The only NaN of results, as float32 and as float16.
QUIET, QUIET_HALF = 0x7FFFFFFF, 0x7FFF
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

    0: it does so with an accumulator, which is below 2 * 2^E; 1: without; 2: not always. formats: see `FORMAT`.
    """
    most, limit = products * prod(2 - 2.0 ** -int(form[1]) for form in formats), 2.0 ** (31 - fraction)
    return (most + 2 >= limit) + (most >= limit)


#: Fraction bits of a small format, at most, and where the window of large ones begins if their numbers are near 1.
_FEW, _START = 3, -40


def above(form: Sequence[int]) -> int:
    """The bits above the sign of a format's element that is lowest in its word."""
    return 31 - sum(form[i] for i in (0, 1, 3))


def start_of_window(form: Sequence[int]) -> int:
    """Where the window of a format's numbers begins, if those of a large one are near 1."""
    return 1 - form[2] - form[1] * form[6] if form[0] <= SMALL else _START


def of_few_bits(form: Sequence[int]) -> bool:
    """Whether it is a small format with few bits."""
    return form[0] <= SMALL and form[1] <= _FEW
