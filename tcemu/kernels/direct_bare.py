"""Packs the factors of short sums for `tcemu.kernels.direct`: no exponents, as `tcemu.kernels.short_sums` needs none.

The elements are bytes with the sign on top. As the upper byte of a float16, and moved to its fields, a byte is the
element times a power of two, subnormal numbers included, and the processor converts it to float32:

    e4m3         s eeee mmm
    float16      s 0eeee mmm0000000      2^(bias - 15) times as much

Sums of squares say whether the sums are short.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.direct_packing import MISFIT
from tcemu.kernels.lanes import BYTES, HALVES, REAL, SHORTS, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.packing import Elements
from tcemu.kernels.rooms import Tiles
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Code, Slot, vector_code

#: Elements of a word.
PER = 4
#: Fraction bits and bias of a float16.
FRACTION, BIAS = 10, 15
#: Lanes of a pair, and of two.
_PAIRS, _QUARTERS = 2, 4


class _Bytes(Elements):
    """Bytes of a format as floats, while that is emitted; notes the largest."""

    def __init__(self, code: Code, form: Any) -> None:
        super().__init__(code, None, form)
        down = self.code.halfword(self.fraction - (FRACTION - 8))
        kept = (code.word(0x7F00).down(self.fraction - (FRACTION - 8))) | 0x8000
        self.down, self.kept = down.everywhere(2 * WIDTH), code.halfword(kept).everywhere(2 * WIDTH)
        self.top = Slot(code.lanes(0).seen_as(BYTES))
        self.unit = code.word(2 * (BIAS - 1) + 127)

    def note(self, word: Lanes) -> None:
        """Note the largest magnitude among the bytes of words."""
        self.top.set((word & 0x7F7F7F7F).seen_as(BYTES).larger(self.top.get(), unsigned=True))

    def floats(self, word: Lanes, places: list[int]) -> list[Lanes]:
        """The floats of 32 of the bytes, in two vectors."""
        shorts = word.seen_as(BYTES).shuffled([place for place in places for _ in range(2)]).seen_as(SHORTS)
        moved = shorts.signed_down(self.down) & self.kept
        halves = (moved.shuffled(list(range(first, first + WIDTH))) for first in (0, WIDTH))
        return [each.seen_as(HALVES).as_wide_reals() for each in halves]

    def misfit(self) -> Any:
        """MISFIT if there was an element that is not finite, or 0."""
        limit = self.code.byte(self.code.first(self.limit)).everywhere(4 * WIDTH)
        outside = self.top.get().compare(">=", limit, unsigned=True)
        return self.code.number(self.code.number_of_any(outside)).compare("!=", 0).choose(self.code.long(MISFIT), 0)

    def store_most(self, most: Lanes, address: Lanes) -> None:
        """Store the largest sum of squares; its unit is that of `short_sums.squares`."""
        unit = (self.unit + self.fraction.up(1)).up(23).seen_as(REAL)
        self.code.store(self.code.largest(most) * unit, address.value, 0, unit=4)


def _of_sums(code: Code, runs: Any, low: Lanes, high: Lanes) -> Lanes:
    """Sums of squares: of both halves of the elements of words together, or with two runs the larger."""
    return code.number(runs).compare("==", 2).choose(low.larger(high), low + high)


def _plus_squares(total: Lanes, values: list[Lanes]) -> Lanes:
    return reduce(lambda so_far, x: x.exactly_times_plus(x, so_far), values, total)


@intrinsic
def bare_columns(typingctx, tiles, words, step, order, vectors, runs, form, room, apart, to):  # type: ignore[no-untyped-def]
    """x from `vectors` vectors of words of a tile: as `direct_packing.pack_columns`, without exponents and marks.

    order: for each vector of words, the numbers of its PER vectors among those that `pack_columns` makes. Only one
    group of columns. runs: as for `bare_rows`.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, order, vectors, runs, form, room, apart, to = args
        words, rooms, of_bytes = Tiles(words, code.number(step)), Tiles(room, code.number(apart)), _Bytes(code, form)
        value_at, _, _, squares_at = (code.number(each) for each in cgutils.unpack_tuple(builder, to))
        with code.each(tiles) as t:
            at = code.number(rooms.of(t))
            value, totals = (at + value_at).value, [Slot(code.lanes(0.0, REAL)) for _ in range(2)]
            with code.each(vectors) as v:
                word = code.load(words.of(t), v, WORDS, unit=64)
                of_bytes.note(word)
                for p in range(PER):
                    number = code.wide(code.load(order, v.up(2) + p, WORD, unit=4))
                    found = of_bytes.floats(word, [4 * (lane // 2) + p for lane in range(2 * WIDTH)])
                    for place, each in enumerate(found):
                        code.store(each, value, number.up(1) + place, unit=64)
                    total = totals[2 * p // PER]
                    total.set(_plus_squares(total.get(), found))
            of_bytes.store_most(_of_sums(code, runs, *(total.get() for total in totals)), at + squares_at)
        return of_bytes.misfit().value

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.int64, types.int64, types.uint64, types.uint64]
    return types.int64(*kinds, types.int64, types.UniTuple(types.int64, 4)), codegen


@intrinsic
def bare_rows(typingctx, tiles, words, step, vectors, runs, parts, form, room, apart, to):  # type: ignore[no-untyped-def]
    """y from `vectors` vectors of words of a tile: as `direct_packing.pack_rows`, without exponents and marks.

    Each of `parts` parts of a vector has rows of its own. runs: 2 if a chain has two sums, one with either half of the
    elements of a word; else 1.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, vectors, runs, parts, form, room, apart, to = args
        words, rooms, of_bytes = Tiles(words, code.number(step)), Tiles(room, code.number(apart)), _Bytes(code, form)
        value_at, _, _, squares_at = (code.number(each) for each in cgutils.unpack_tuple(builder, to))
        with code.each(tiles) as t:
            at, most = code.number(rooms.of(t)), Slot(code.lanes(0.0, REAL))
            value = (at + value_at).value
            with code.each(code.number(vectors).down(2)) as four:
                rows = []
                for row in range(ROWS):
                    v = four.up(2) + row
                    word, halves = code.load(words.of(t), v, WORDS, unit=64), []
                    of_bytes.note(word)
                    for first in range(0, PER, 2):
                        found = of_bytes.floats(word, [4 * (lane % WIDTH) + first + lane // WIDTH for lane in _BOTH])
                        for place, each in enumerate(found):
                            code.store(each, value, v.up(2) + (first + place), unit=64)
                        halves.append(_plus_squares(code.lanes(0.0, REAL), found))
                    rows.append(halves)
                most.set(most.get().larger(_of_rows(code, rows, runs, parts)))
            of_bytes.store_most(most.get(), at + squares_at)
        return of_bytes.misfit().value

    kinds = [types.int64, types.uint64, *[types.int64] * 4, types.uint64, types.uint64, types.int64]
    return types.int64(*kinds, types.UniTuple(types.int64, 4)), codegen


_BOTH = range(2 * WIDTH)


def _of_rows(code: Code, rows: list[list[Lanes]], runs: Any, parts: Any) -> Lanes:
    """The largest sums of squares of four rows, from those of each lane for both halves; all rows are in some lanes."""
    halves = [(_joined(_PAIRS, *of_half[:2]), _joined(_PAIRS, *of_half[2:])) for of_half in zip(*rows, strict=True)]
    pairs = [_of_sums(code, runs, low, high) for low, high in zip(*halves, strict=True)]
    most = Slot(pairs[0].larger(pairs[1]))

    def of_more() -> None:
        sums = [_joined(_QUARTERS, *half) for half in halves]
        whole = [each + each.shuffled([lane ^ _QUARTERS for lane in range(WIDTH)]) for each in sums]
        one = code.number(parts).compare("==", 1)
        most.set(_of_sums(code, runs, *(one.choose(every, some) for every, some in zip(whole, sums, strict=True))))

    code.branch(code.number(parts).compare("<=", 2), of_more)
    return most.get()


def _joined(units: int, one: Lanes, other: Lanes) -> Lanes:
    """The sums of neighbours, so many lanes each, of one vector and of another."""
    low, high = (
        one.joined(other, [lane for lane in range(2 * WIDTH) if lane // units % 2 == odd]) for odd in range(2)
    )
    return low + high
