"""Chains of sums so short that nothing is ever cut off: a fused multiply-add for each product, and no alignment.

All products of two elements of a small format are multiples of one unit, the product of the smallest subnormal numbers.
By Cauchy and Schwarz, no part of a sum is larger, in units, than the root of (the sum of squares of x) * (the sum of
squares of y). If that is at most 2^24, and 2^F with F fraction bits,

    no product has a bit below the last one that is kept
    each sum has at most 24 bits, so that float32 holds it, and it may be added up in any order

A chain of two sums is then their float32 sum, rounded toward zero: the first is an accumulator of the second, and not
so large that a bit of the products would be lost beside it. The sums of squares are of 16 columns or 4 rows and take
one operation for each vector of elements: the check is cheap. Chains that start from c are left out: c has bits of its
own. (With scales, they are not: see `tcemu.kernels.sums.scaled`.)
"""

from __future__ import annotations

from typing import Any

from numba import int64, types
from numba.extending import intrinsic

from tcemu.kernels.emit.code import Code, Variable, vector_code
from tcemu.kernels.emit.lanes import REAL, REALS, WIDTH, Lanes
from tcemu.kernels.host.compiling import merged
from tcemu.kernels.sums import CENTRE, ROWS, SMALL

#: Bits of a float32's significand, fraction bits of a small format, and a floor of E that no unit comes near.
EXACT_BITS, FEW_BITS, LOW = 24, 3, -96
#: Sums of squares are rounded: the bound is lower by more than that may hide.
ROUNDED = 1 - 2.0**-10
#: The most sums of a chain: the accumulator of a third, itself two sums, could be too large.
SUMS_AT_MOST = 2
#: A fused multiply-add takes several cycles: as many parts of a row's sum, of products in turn, are on their way.
TURNS = 2


@merged
def bits_below(form):  # type: ignore[no-untyped-def]
    """The bits that the elements of a small format may have below the start of their window."""
    return int64(0) if form.normalised else form.mantissa


@merged
def may_be_short(plan, scaled):  # type: ignore[no-untyped-def]
    """Whether results have all float32 bits, formats are small, and chains are as they have to be.

    That is: a few sums that start from zero, of normalised formats, or with scales a single sum.
    """
    rule, x, y = plan.rule, plan.x.format, plan.y.format
    plain = not rule.half and rule.keep == EXACT_BITS - 1 and rule.floor <= LOW
    small = x.mantissa <= FEW_BITS and y.mantissa <= FEW_BITS and x.exponent <= SMALL and y.exponent <= SMALL
    if not plain or not small or rule.depth % (WIDTH // ROWS):
        return False
    if scaled:
        return rule.join == 0 and rule.sums == 1
    return bits_below(x) + bits_below(y) == 0 and rule.join != 0 and rule.sums <= SUMS_AT_MOST


def _of_squares(code: Code, values: Any, first: Lanes, count: Lanes, rows: Any) -> Lanes:
    """The sum of the squares of `count` vectors in each lane, or with `rows` in all lanes of a row."""
    # Four at a time: a fused multiply-add takes several cycles.
    totals, some = [Variable(code.lanes(0.0, REAL)) for _ in range(4)], count.down(2)

    def add(total: Variable, k: Lanes) -> None:
        x = code.load(values, first + k, REALS, unit=64)
        total.set(x.exactly_times_plus(x, total.get()))

    with code.each(some) as four:
        for place, each in enumerate(totals):
            add(each, four.up(2) + place)
    with code.loop(some.up(2), count, unrolled=False) as k:
        add(totals[0], k)
    one, two, three, four = (each.get() for each in totals)
    total = Variable((one + two) + (three + four))

    def of_rows() -> None:
        for distance in (8, ROWS):  # a vector has four k of four rows
            each = total.get()
            total.set(each + each.shuffled([(lane + distance) % WIDTH for lane in range(WIDTH)]))

    code.branch(rows, of_rows)
    return total.get()


@intrinsic
def squares(typingctx, values, chains, sums, vectors, rows, into):  # type: ignore[no-untyped-def]
    """For each of `chains`: the largest sum of squares of a column, or with `rows` of a row, in any of its sums.

    A chain has `sums` sums of `vectors` vectors. values: from `pack`, of a format that `may_be_short` takes. The
    unit of the results is the square of the window's start: of the smallest subnormal number, if those are normalised.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code, (values, chains, sums, vectors, rows, into) = vector_code(builder), args
        count, sums = code.number(vectors), code.number(sums)
        with code.each(chains) as chain:
            most = Variable(code.lanes(0.0, REAL))
            with code.loop(chain * sums, (chain + 1) * sums, unrolled=False) as i:
                most.set(most.get().larger(_of_squares(code, values, i * count, count, rows)))
            code.store(code.largest(most.get()) * 2.0 ** (2 * CENTRE), into, chain, unit=4)
        return context.get_dummy_value()

    kinds = [types.uint64, *[types.int64] * 4, types.uint64]
    return types.none(*kinds), codegen


def is_bounded(x: Lanes, y: Lanes, bits: Lanes) -> Lanes:
    """Whether no part of a sum is larger than 2^bits, for results of `squares`."""
    return (x * y).compare("<=", (bits.up(1) + 127).up(23).seen_as(REAL) * ROUNDED)


@intrinsic
def is_short(typingctx, squares_x, squares_y, fraction):  # type: ignore[no-untyped-def]
    """Whether two of the results of `squares`, at addresses, leave sums so short; `fraction`: see RULE."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        x, y = (code.load(at, 0, REAL, unit=4) for at in args[:2])
        return is_bounded(x, y, code.short(code.number(args[2])).smaller(EXACT_BITS)).value

    return types.boolean(types.uint64, types.uint64, types.int64), codegen


def added(code: Code, operands: Any, first: Lanes, count: Lanes) -> list[Lanes]:
    """The sum of `count` products from the first k on, an even number, for each row; see `Packed`."""
    parts = [[Variable(code.lanes(0.0, REAL)) for _ in range(ROWS)] for _ in range(TURNS)]
    with code.each(count.down(TURNS.bit_length() - 1)) as turn:
        for place, part in enumerate(parts):
            k = first + (turn * TURNS + place)
            lanes = operands.x(k)
            for row, total in enumerate(part):
                total.set(lanes.exactly_times_plus(operands.y(k, row), total.get()))
    return [even.get() + odd.get() for even, odd in zip(*parts, strict=True)]
