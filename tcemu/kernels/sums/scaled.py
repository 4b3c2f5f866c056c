"""Sums whose products have scales.

If a scale is a power of two for all of a sum, as in MX formats, it moves all products alike: most such sums take the
products as on the fast path, and the rest as on the wide one. A short sum takes one operation for each product:

    the products are added exactly, as floats, before the scale moves them
    the accumulator is moved the other way, cut off where E says, and added, rounded toward zero
    the scale moves the result

No product may be cut off: E must not be so large, because of the accumulator or of a product, that the last bit of the
smallest possible product is below those that are kept. And E must not be below that of the smallest possible product,
as it could be if all products are zero.

Other scales belong to groups of products:

    group     its products are added exactly, in float32, and multiplied by the significands of two scales
    sum       groups and the accumulator are aligned, cut off, and added in float64, which has room for all their bits

`tcemu.arithmetic.model.ScaledSums` says what is computed. A scale that is NaN makes all its results NaN: `put_nan`, and
for groups `_Grouped`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.batch.abi import RULE, Fields
from tcemu.kernels.emit.code import Variable, vector_code
from tcemu.kernels.emit.lanes import DOUBLES, LONGS, REAL, REALS, SIGN, WORD, WORDS, Lanes
from tcemu.kernels.host.compiling import njit
from tcemu.kernels.sums import CENTRE, INFINITY, NOWHERE, QUIET, ROWS, SCALE_NAN
from tcemu.kernels.sums import wide as wide_sums
from tcemu.kernels.sums.rounding import added_toward_zero, clean
from tcemu.kernels.sums.short import EXACT_BITS, added, is_bounded

if TYPE_CHECKING:
    from tcemu.kernels.sums.block import Chain


#: Bounds of the powers of two that scale products: outside them, all products are below one, and zeros stay zero.
_LEAST_POWER, _MOST_POWER = 1, 126
#: Short sums take scales from 2^-48 to 2^48. E is at least -34 with formats of so few bits: a subnormal accumulator is
#: cut off whole, even after it has been moved, and all results are in the normal range of float32.
_FAR = 48


def add_scales(chain: Chain, of_x: Any, of_y: Any) -> None:
    """Note the exponents of the scales, for each row."""
    lanes = chain.code.load(of_x, 0, WORDS, unit=64)
    for row, both in enumerate(chain.scales):
        both.set(lanes + chain.code.load(of_y, row, WORD, unit=4).everywhere())


def add_sum(chain: Chain, first: Lanes) -> None:
    """Compute any sum."""
    most = []
    for field, scale in zip(chain.peaks(first), chain.scales, strict=True):
        exponent = field.down(23) - 127 + scale.get()
        most.append(field.compare("==", 0).choose(chain.floor, exponent).larger(chain.floor))
    raised, terms, tiny = chain.addends(most)
    # Outside these bounds all products vanish, or are zero.
    powers = (up + scale.get() + chain.base + 2 * CENTRE for up, scale in zip(raised, chain.scales, strict=True))
    addends = [power.larger(_LEAST_POWER).smaller(_MOST_POWER).up(23) for power in powers]
    totals = chain.halves(first, lambda x, y, _, row: ((x * y).bits() + addends[row]).floats().truncated(), terms)
    wide_sums.round_sum(chain, totals, raised, tiny)


def put_nan(chain: Chain) -> None:
    """A NaN scale makes all its results NaN."""
    for running, scale in zip(chain.running, chain.scales, strict=True):
        running.set(scale.get().compare(">", SCALE_NAN // 2).choose(chain.code.lanes(QUIET), running.get()))


def add_short(chain: Chain, below: Lanes) -> Lanes:
    """Compute a chain of a single sum if it is short. Returns 1 if it is not, else 0.

    Instead of specials, there are results of `short.squares`. below: the bits that products may have below the
    start of the window.
    """
    code, left = chain.code, Variable(chain.code.long(1))
    x, y = (code.load(at, 0, REAL, unit=4) for at in (chain.operands.specials_x, chain.operands.specials_y))
    below = code.short(below)

    def try_it() -> None:
        least, reach = (chain.base + 127).up(23), chain.unit - below.up(23).everywhere()
        peaks, exponents, outside = chain.peaks(code.long(0)), [], []
        for bits, peak, scale in zip(chain.accumulators(), peaks, chain.scales, strict=True):
            own = (bits & INFINITY) - scale.get().up(23)
            own = (bits & ~SIGN).compare("==", 0).choose(least, own)
            # Modulo 2^32: an exponent below 0 counts as far above all.
            e = peak.larger(own, unsigned=True)
            exponents.append(e)
            outside.append((e - least).compare(">", reach, unsigned=True))
            outside.append((scale.get() + _FAR).compare(">", 2 * _FAR, unsigned=True))

        def add() -> None:
            _add_short(chain, exponents)
            left.set(code.long(0))

        code.branch(code.number_of_any(reduce(Lanes.either, outside)), lambda: None, add)

    code.branch(is_bounded(x, y, code.word(EXACT_BITS) - below), try_it)
    return left.get()


def _add_short(chain: Chain, exponents: list[Lanes]) -> None:
    """Compute the sum. exponents: E of each row, in float32's exponent field, before the scale moves it."""
    code = chain.code
    products = added(code, chain.operands, code.long(0), chain.depth)
    for running, scale, e, product in zip(chain.running, chain.scales, exponents, products, strict=True):
        bits, moved = running.get(), scale.get().up(23)
        addend = (bits & ~SIGN).compare("==", 0).choose(code.lanes(0), bits - moved)
        term = (addend.floats() * (chain.scale - e).floats()).truncated().converted()
        total = added_toward_zero(product * (chain.top + (127 << 23) - e).floats(), term)
        result = (total * (e - chain.unit).floats()).bits()
        running.set(result.compare("==", 0).choose(result, result + moved))


# ------------------------------------------------------------------------------------------------------------ groups

#: A scale is one word: its exponent above, its significand, an integer, in this many bits below.
SIGNIFICAND = 8
#: Bits of a group's sum and of the two significands; they must be exact in float32.
EXACT = 24


class _Grouped:
    """One block, while it is emitted."""

    def __init__(self, builder: Any, operands: Any) -> None:
        self.code = vector_code(builder)
        self.x, self.y, self.scale_x, self.scale_y, self.c, self.scratch, rule, depth, groups, unit = operands
        self.depth, self.groups = self.code.number(depth), self.code.number(groups)
        held = Fields(self.code, rule, RULE)
        fraction, floor = self.code.short(held.fraction), self.code.short(held.floor)
        self.fraction, self.floor = fraction.everywhere(), floor.everywhere()
        self.unit = self.code.short(self.code.number(unit)).everywhere()

    def emit(self) -> None:
        """The groups first, then the sum of each row."""
        with self.code.loop(0, self.groups) as group:
            self._group(group)
        with self.code.loop(0, ROWS) as row:
            self._sum(row)

    def _at(self, group: Lanes, part: int, row: Lanes | int) -> Lanes:
        """The number of a row's vector in the room; part 0 has a group's sums, part 1 its exponents."""
        return group * (2 * ROWS) + part * ROWS + row

    def _group(self, group: Lanes) -> None:
        """Leave a group's sums, times the significands of its scales, and its exponents in the room."""
        code, first = self.code, group * self.depth
        sums, products = ([Variable(code.lanes(0, kind)) for _ in range(ROWS)] for kind in (REAL, WORD))
        with code.loop(first, first + self.depth) as k:
            x = code.load(self.x, k, REALS, unit=64)
            for row in range(ROWS):
                product = x * code.load(self.y, k.up(2) + row, REAL, unit=4).everywhere()
                sums[row].set(sums[row].get() + product)
                products[row].set(products[row].get() | product.bits())
        lanes = code.load(self.scale_x, group, WORDS, unit=64)
        for row in range(ROWS):
            other = code.load(self.scale_y, group.up(2) + row, WORD, unit=4).everywhere()
            low = (1 << SIGNIFICAND) - 1
            significands = (lanes & low).converted() * (other & low).converted()
            both = lanes.signed_down(SIGNIFICAND) + other.signed_down(SIGNIFICAND)
            # A group counts if any of its products does, even if they cancel. A scale that is NaN always counts.
            lives = (products[row].get() & QUIET).compare("!=", 0).both(significands.compare(">", 0.0))
            lives = lives.either(both.compare(">", SCALE_NAN // 2))
            code.store(sums[row].get() * significands, self.scratch, self._at(group, 0, row), unit=64)
            code.store(lives.choose(both, NOWHERE), self.scratch, self._at(group, 1, row), unit=64)

    def _sum(self, row: Lanes) -> None:
        """The sum of a row's groups and its accumulators, rounded toward zero."""
        code, bits = self.code, clean(self.code.load(self.c, row, WORDS, unit=64))
        own = bits.up(1).down(24).larger(1) - 127
        largest = Variable((bits & QUIET).compare("==", 0).choose(self.floor, self.floor.larger(own)))
        with code.loop(0, self.groups) as group:
            largest.set(largest.get().larger(code.load(self.scratch, self._at(group, 1, row), WORDS, unit=64)))
        raised = self.fraction - largest.get()
        total = Variable(_moved(_significand(bits).as_doubles(), own + raised - 23))
        with code.loop(0, self.groups) as group:
            value = code.load(self.scratch, self._at(group, 0, row), REALS, unit=64)
            exponent = code.load(self.scratch, self._at(group, 1, row), WORDS, unit=64)
            total.set(total.get() + _moved(value.as_doubles(), exponent + raised + self.unit))
        result = _cut_off(total.get() * _power(code.lanes(0) - raised))
        result = (bits & INFINITY).compare("==", INFINITY).choose(bits, result)
        result = largest.get().compare(">", SCALE_NAN // 2).choose(code.lanes(QUIET), result)
        code.store(result, self.c, row, unit=64)


def _significand(bits: Lanes) -> Lanes:
    """The significands of float32 patterns as integers with their sign."""
    hidden = (bits & INFINITY).compare("==", 0).choose(bits & 0, bits & 0 | 0x800000)
    size, negative = bits & 0x7FFFFF | hidden, bits.sign()
    return (size ^ negative) - negative


def _power(exponent: Lanes) -> Lanes:
    """2.0**exponent as float64. What is far too small becomes 2^-1000, which leaves nothing of any term either."""
    return (exponent.larger(-1000) + 1023).widened().up(52).seen_as(DOUBLES)


def _moved(value: Lanes, exponent: Lanes) -> Lanes:
    """value * 2^exponent, toward zero to a whole number."""
    return (value * _power(exponent)).whole()


def _cut_off(value: Lanes) -> Lanes:
    """The float32 patterns of float64 values, toward zero; a zero is +0."""
    size = value.seen_as(LONGS) & ((1 << 63) - 1)
    # 24 bits stay, all others are zero: the conversion is exact, or infinite.
    kept = (size & -(1 << 29)).seen_as(DOUBLES)
    tiny = kept.compare("<", 2.0**-126)
    normal = tiny.choose(kept.seen_as(LONGS) & 0, kept.seen_as(LONGS)).seen_as(DOUBLES).as_reals().bits()
    # A subnormal's pattern counts its last places.
    places = tiny.choose(size, size & 0).seen_as(DOUBLES) * 2.0**149
    cut = normal | places.truncated()
    negative = value.compare("<", 0.0).choose(cut & 0 | SIGN, cut & 0)
    return cut.compare("==", 0).choose(cut, cut | negative)


@intrinsic
def grouped_block(  # type: ignore[no-untyped-def]
    typingctx, x, y, scale_x, scale_y, c, scratch, rule, depth, groups, unit
):
    """c[row, lane] = the sum of c[row, lane] and of groups of scaled products; all but the last three are addresses.

    x (groups * depth, 16) and y (groups * depth, 4): values from `pack`; scale_x (groups, 16) and scale_y (groups, 4):
    see SIGNIFICAND, and SCALE_NAN for the exponent of a NaN; c (4, 16): float32 patterns. room: 128 words for each
    group. rule: RULE. unit: the exponent of a sum of 1 times two significands of 1.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        _Grouped(builder, args).emit()
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 6, rule, *[types.int64] * 3), codegen


@njit(cache=True, nogil=True)
def looked_up(patterns, order, table):  # type: ignore[no-untyped-def]
    """Scales (tiles, scales) of patterns in an order: entries of a table, which has one for each pattern."""
    values = np.empty((patterns.shape[0], order.size), table.dtype)
    # unsigned: a negative index would count from the end, and checking for one costs more than the entry
    for t in range(np.uint64(patterns.shape[0])):
        for i in range(np.uint64(order.size)):
            values[t, i] = table[patterns[t, np.uint64(order[i])]]
    return values
