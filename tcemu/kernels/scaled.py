"""Sums of groups of products with their scales, for a block of outputs as in `tcemu.kernels.blocks`.

    group     its products are added exactly, in float32, and multiplied by the significands of two scales
    sum       groups and the accumulator are aligned, cut off, and added in float64, which has room for all their bits

`tcemu.arithmetic.model.ScaledSums` says what is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.compiling import njit
from tcemu.kernels.lanes import DOUBLE, LONG, REAL, REALS, SIGN, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.rounding import clean
from tcemu.kernels.rule import FLOOR, FRACTION, ROWS, SCALE_NAN
from tcemu.kernels.simd import Slot, vector_code
from tcemu.kernels.sums import INFINITY, NOWHERE, QUIET

#: A scale is one word: its exponent above, its significand, an integer, in this many bits below.
SIGNIFICAND = 8
#: Bits of a group's sum and of the two significands; they must be exact in float32.
EXACT = 24

_DOUBLES, _LONGS = ir.VectorType(DOUBLE, WIDTH), ir.VectorType(LONG, WIDTH)


class _Block:
    """One block, while it is emitted."""

    def __init__(self, builder: Any, places: Any) -> None:
        self.code = vector_code(builder)
        self.x, self.y, self.scale_x, self.scale_y, self.c, self.room, rule, depth, groups, unit = places
        self.depth, self.groups = self.code.number(depth), self.code.number(groups)
        fraction, floor = (self.code.short(self.code.load(rule, i, LONG, unit=8)) for i in (FRACTION, FLOOR))
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
        sums, products = ([Slot(code.lanes(0, kind)) for _ in range(ROWS)] for kind in (REAL, WORD))
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
            code.store(sums[row].get() * significands, self.room, self._at(group, 0, row), unit=64)
            code.store(lives.choose(both, NOWHERE), self.room, self._at(group, 1, row), unit=64)

    def _sum(self, row: Lanes) -> None:
        """The sum of a row's groups and its accumulators, rounded toward zero."""
        code, bits = self.code, clean(self.code.load(self.c, row, WORDS, unit=64))
        own = bits.up(1).down(24).larger(1) - 127
        largest = Slot((bits & QUIET).compare("==", 0).choose(self.floor, self.floor.larger(own)))
        with code.loop(0, self.groups) as group:
            largest.set(largest.get().larger(code.load(self.room, self._at(group, 1, row), WORDS, unit=64)))
        raised = self.fraction - largest.get()
        total = Slot(_aligned(_significand(bits).as_doubles(), own + raised - 23))
        with code.loop(0, self.groups) as group:
            value = code.load(self.room, self._at(group, 0, row), REALS, unit=64)
            exponent = code.load(self.room, self._at(group, 1, row), WORDS, unit=64)
            total.set(total.get() + _aligned(value.as_doubles(), exponent + raised + self.unit))
        result = _toward_zero(total.get() * _power(code.lanes(0) - raised))
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
    return (exponent.larger(-1000) + 1023).widened().up(52).seen_as(_DOUBLES)


def _aligned(value: Lanes, exponent: Lanes) -> Lanes:
    """value * 2^exponent, toward zero to a whole number."""
    return (value * _power(exponent)).whole()


def _toward_zero(value: Lanes) -> Lanes:
    """The float32 patterns of float64 values, toward zero; a zero is +0."""
    size = value.seen_as(_LONGS) & ((1 << 63) - 1)
    # 24 bits stay, all others are zero: the conversion is exact, or infinite.
    kept = (size & -(1 << 29)).seen_as(_DOUBLES)
    tiny = kept.compare("<", 2.0**-126)
    normal = tiny.choose(kept.seen_as(_LONGS) & 0, kept.seen_as(_LONGS)).seen_as(_DOUBLES).as_reals().bits()
    # A subnormal's pattern counts its last places.
    places = tiny.choose(size, size & 0).seen_as(_DOUBLES) * 2.0**149
    found = normal | places.truncated()
    negative = value.compare("<", 0.0).choose(found & 0 | SIGN, found & 0)
    return found.compare("==", 0).choose(found, found | negative)


@intrinsic
def grouped_block(  # type: ignore[no-untyped-def]
    typingctx, x, y, scale_x, scale_y, c, room, rule, depth, groups, unit
):
    """c[row, lane] = the sum of c[row, lane] and of groups of scaled products; all but the last three are addresses.

    x (groups * depth, 16) and y (groups * depth, 4): values from `pack`; scale_x (groups, 16) and scale_y (groups, 4):
    see SIGNIFICAND, and SCALE_NAN for the exponent of a NaN; c (4, 16): float32 patterns. room: 128 words for each
    group. rule: as for `blocks.block`. unit: the exponent of a sum of 1 times two significands of 1.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        _Block(builder, args).emit()
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 7, *[types.int64] * 3), codegen


@njit(cache=True, nogil=True)
def looked_up(patterns, order, table):  # type: ignore[no-untyped-def]
    """Scales (tiles, scales) of patterns in an order: entries of a table, which has one for each pattern."""
    found = np.empty((patterns.shape[0], order.size), table.dtype)
    # unsigned: a negative index would count from the end, and checking for one costs more than the entry
    for t in range(np.uint64(patterns.shape[0])):
        for i in range(np.uint64(order.size)):
            found[t, i] = table[patterns[t, np.uint64(order[i])]]
    return found
