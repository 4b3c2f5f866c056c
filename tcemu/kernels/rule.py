"""The numbers of a rule, which kernels take to compute blocks of outputs, and the rows of a block."""

from __future__ import annotations

#: Kinds of arithmetic.
FUSED, GROUPED, INTEGERS, BITS, CHAINS = range(5)
#: Rows of a block.
ROWS = 4
#: The numbers of a rule, in this order: fraction bits F, the floor of E, fraction bits kept, whether results are
#: float16, whether chains start from zero and c is added last, products of a sum, sums of a chain, and how much
#: of a sum fits in 32 bits, see `sums.space`.
FRACTION, FLOOR, KEEP, HALF, JOIN, DEPTH, SUMS, SPACE = range(8)
#: How many numbers a rule has.
RULE = SPACE + 1
#: A sum of this many products always fits in 32 bits; one of twice as many does so without its sign. Longer sums
#: include the zeros of a sparse A; `tiles` orders them so that each half has at most this many other products.
SAFE = 16
#: The exponent of a scale that is NaN.
SCALE_NAN = 1 << 14
