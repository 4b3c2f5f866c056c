"""Packs the factors of `tcemu.kernels.direct`: B in vectors of columns, each twice, and A in the order of registers.

Each tile has its own room, and what is packed has its places there. With `care`, NaN counts as zero, and marks say
where it is: a word that is not 0 for each column in the lanes of a block, and for each pair of rows, which `fold_marks`
joins over all k.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.lanes import BYTES, REAL, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.packing_words import Exponents, PackedVector, Packer
from tcemu.kernels.rooms import Tiles
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Code, Slot, vector_code
from tcemu.kernels.sums import CENTRE

#: What the kernels that pack return.
MISFIT, MARKED = 1, 2
#: Lanes of the first and of the second eight columns of a vector, each twice.
_TWICE = [[start + lane // 2 for lane in range(WIDTH)] for start in (0, WIDTH // 2)]
_SWAPPED = [lane ^ WIDTH // 2 for lane in range(WIDTH)]
#: Lanes of a pair, and of two.
_PAIRS, _QUARTERS = 2, 4
#: Elements of a word in formats of few bits.
BYTES_OF_WORD = 4
#: A way of packing: takes words, and what marks NaN.
Pack = Callable[[Lanes, Callable[[Lanes], None]], PackedVector]
#: Distances of the lanes that hold the same row of a pair, the largest first.
_DISTANCES = 8, 4, 2


class _Loops:
    """The loops that pack, while they are emitted: one for formats with few bits, and one for all."""

    def __init__(self, code: Code, form: Any, start: Any, care: Any) -> None:
        self.code, self.packer, self.found = code, Packer(code, form, start, care), Slot(code.long(0))

    def emit(self, few: Any, loop: Callable[[Pack, bool], None]) -> Any:
        """Emit `loop` twice, with the way of packing that it uses, and whether it finds squares.

        Returns MISFIT, MARKED, or both, or 0.
        """
        packer = self.packer

        def few_bits() -> None:
            loop(lambda word, _: packer.few_bits(word), True)
            packer.tops.set(packer.tops.get().up(1))

        self.code.branch(few, few_bits, lambda: loop(packer.any_bits_of, False))
        misfit = packer.misfits().compare("!=", 0).choose(self.code.long(MISFIT), 0)
        return (misfit | self.found.get()).value

    def marks(self, address: Lanes, spread: Callable[[Lanes], Lanes]) -> Callable[[Lanes], None]:
        """Code that adds the mask of NaN, after `spread`, to a vector of marks."""

        def add(nan: Lanes) -> None:
            code = self.code
            words = spread(nan.choose(code.lanes(-1), 0)) | code.load(address.value, 0, WORDS, unit=64)
            code.store(words, address.value, 0, unit=64)
            self.found.set(code.long(MARKED))

        return add

    def zeros(self, count: int) -> list[Slot]:
        """Sums of squares that begin."""
        return [Slot(self.code.lanes(0.0, REAL)) for _ in range(count)]

    def store_most(self, most: Slot, address: Lanes) -> None:
        """Store the largest sum of squares; its unit is that of `short_sums.squares`."""
        self.code.store(self.code.largest(most.get()) * 2.0 ** (2 * CENTRE), address.value, 0, unit=4)


@intrinsic
def pack_columns(  # type: ignore[no-untyped-def]
    typingctx, tiles, words, step, source, ups, runs, of_run, groups, form, start, few, care, bare, room, apart, to,
):
    """x from words[source[v]] << ups[v], for the vectors v of a tile, with eight columns for each of two k.

    A tile has `groups` groups of columns: a chain of `runs` sums with `of_run` vectors each. words, source, ups, form,
    start: as for `pack_words`. few: whether the format has few bits, and there is no care. room: the first tile's;
    apart: the bytes from a tile's room to the next. to: the bytes from there to

        values       (vectors, 2) vectors, with each column twice
        exponents    the same of bytes, each four times; left out if `bare`
        marks        (groups) vectors
        squares      (groups) the largest sum of squares of a column in any sum, if `few`
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, source, ups, runs, of_run, groups, form, start, few, care, bare, room, apart, to = args
        words, rooms = Tiles(words, code.number(step)), Tiles(room, code.number(apart))
        to, of_run = [code.number(each) for each in cgutils.unpack_tuple(builder, to)], code.number(of_run)
        loops, of_group = _Loops(code, form, start, care), code.number(runs) * of_run

        def loop(packed: Pack, squared: bool) -> None:
            with code.each(tiles) as t, code.each(groups) as group:
                value, exponent, marks, squares = (code.number(rooms.of(t)) + each for each in to)
                mark, [most] = loops.marks(marks + group * 64, _of_both), loops.zeros(1)
                with code.each(runs if squared else code.long(1)) as run:
                    first, [total] = group * of_group + run * of_run, loops.zeros(1)
                    with code.loop(first, first + (of_run if squared else of_group), unrolled=False) as v:
                        picked, up = code.wide(code.load(source, v, WORD, unit=4)), code.load(ups, v, WORDS, unit=64)
                        found = packed(code.load(words.of(t), picked, WORDS, unit=64).up(up), mark)
                        for place, lanes in enumerate(_TWICE):
                            code.store(found.value.shuffled(lanes), value.value, v.up(1) + place, unit=64)
                        if squared:
                            total.set(_plus_square(total.get(), found.value))

                        def store(found: PackedVector = found, v: Lanes = v, exponent: Lanes = exponent) -> None:
                            exponents = found.exponents()
                            tops = exponents.counted(exponents.words.seen_as(BYTES))
                            for place, lanes in enumerate(_TWICE):
                                fourfold = tops.shuffled([4 * lane + 3 for lane in lanes for _ in range(4)])
                                code.store(fourfold, exponent.value, v.up(1) + place, unit=64)

                        code.branch(bare, lambda: None, store)
                    if squared:
                        most.set(most.get().larger(total.get() + total.get().shuffled(_SWAPPED)))
                if squared:
                    loops.store_most(most, squares + group * 4)

        return loops.emit(few, loop)

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.uint64, *[types.int64] * 3, types.uint64]
    return types.int64(*kinds, *[types.int64] * 4, types.uint64, types.int64, types.UniTuple(types.int64, 4)), codegen


def _of_both(words: Lanes) -> Lanes:
    """Marks of eight columns for two k, each twice."""
    low, high = (words.shuffled(lanes) for lanes in _TWICE)
    return low | high


def _plus_square(total: Lanes, bits: Lanes) -> Lanes:
    x = bits.floats()
    return x.exactly_times_plus(x, total)


@intrinsic
def pack_rows(  # type: ignore[no-untyped-def]
    typingctx, tiles, words, step, ups, per, runs, vectors, parts, form, start, few, care, bare, room, apart, to,
):
    """y from `vectors` vectors of words of a tile: words[v] << ups[p], where p counts the `per` elements of a word.

    Each of `parts` parts of a vector has rows of its own. runs: 2 if a chain has two sums, one with either half of the
    p; else 1. Otherwise as `pack_columns`, with

        values       (vectors, p) vectors
        exponents    (vectors / 4, p) vectors of words, with a byte of each of four vectors
        marks        (vectors) vectors
        squares      the largest sum of squares of a row in either run, if `few`, which takes four elements in a word
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, ups, per, runs, vectors, parts, form, start, few, care, bare, room, apart, to = args
        words, rooms = Tiles(words, code.number(step)), Tiles(room, code.number(apart))
        to, per = [code.number(each) for each in cgutils.unpack_tuple(builder, to)], code.number(per)
        loops, fours = _Loops(code, form, start, care), code.number(vectors).down(2)

        def loop(packed: Pack, squared: bool) -> None:
            with code.each(tiles) as t:
                value, exponent, marks, squares = (code.number(rooms.of(t)) + each for each in to)
                [most] = loops.zeros(1)
                with code.each(fours) as four:
                    numbers = [four.up(2) + row for row in range(ROWS)]
                    given = [code.load(words.of(t), v, WORDS, unit=64) for v in numbers]

                    def place(p: Any, given: list[Lanes] = given, numbers: list[Lanes] = numbers) -> list[Lanes]:
                        """Pack these elements of the words."""
                        up, found = code.load(ups, p, WORD, unit=4).everywhere(), []
                        for word, v in zip(given, numbers, strict=True):
                            found.append(packed(word.up(up), loops.marks(marks + v * 64, lambda words: words)))
                            code.store(found[-1].value, value.value, v * per + p, unit=64)

                        def store(at: Lanes = four * per + p) -> None:
                            words = _in_words([each.exponents() for each in found])
                            code.store(words, exponent.value, at, unit=64)

                        code.branch(bare, lambda: None, store)
                        return [each.value for each in found]

                    if squared:
                        found = _of_rows(code, [place(p) for p in range(BYTES_OF_WORD)], runs, parts)
                        most.set(most.get().larger(found))
                    else:
                        with code.each(per) as p:
                            place(p)
                if squared:
                    loops.store_most(most, squares)

        return loops.emit(few, loop)

    kinds = [types.int64, types.uint64, types.int64, types.uint64, *[types.int64] * 4, types.uint64]
    return types.int64(*kinds, *[types.int64] * 4, types.uint64, types.int64, types.UniTuple(types.int64, 4)), codegen


def _in_words(rows: list[Exponents]) -> Lanes:
    """Words of the exponents of four vectors."""
    words = rows[0].words.down(24)
    for row, each in enumerate(rows[1:], 1):
        words = words | (each.words.down(24 - 8 * row) & (0xFF << 8 * row))
    return rows[0].counted(words.seen_as(BYTES))


def _of_rows(code: Code, found: list[list[Lanes]], runs: Any, parts: Any) -> Lanes:
    """The largest sums of squares of four vectors for each p, in each part: those of all rows are in some lanes."""
    halves = []
    for half in found[: BYTES_OF_WORD // 2], found[BYTES_OF_WORD // 2 :]:
        rows = [reduce(_plus_square, of_row, code.lanes(0.0, REAL)) for of_row in zip(*half, strict=True)]
        halves.append((_joined(*rows[:2], _PAIRS), _joined(*rows[2:], _PAIRS)))
    two = code.number(runs).compare("==", 2)
    pairs = [two.choose(low.larger(high), low + high) for low, high in zip(*halves, strict=True)]
    most = Slot(pairs[0].larger(pairs[1]))

    def of_more() -> None:
        sums = [_joined(*half, _QUARTERS) for half in halves]
        whole = [each + each.shuffled([lane ^ _QUARTERS for lane in range(WIDTH)]) for each in sums]
        one = code.number(parts).compare("==", 1)
        low, high = (one.choose(every, some) for every, some in zip(whole, sums, strict=True))
        most.set(two.choose(low.larger(high), low + high))

    code.branch(code.number(parts).compare("<=", 2), of_more)
    return most.get()


def _joined(one: Lanes, other: Lanes, units: int) -> Lanes:
    """The sums of neighbours, so many lanes each, of one vector and of another."""
    low, high = (
        one.joined(other, [lane for lane in range(2 * WIDTH) if lane // units % 2 == odd]) for odd in range(2)
    )
    return low + high


@intrinsic
def fold_marks(typingctx, tiles, marks, apart, vectors, parts):  # type: ignore[no-untyped-def]
    """Join the marks of rows over all k: `vectors` vectors of each tile, whose parts have rows of their own.

    marks: the address of the first tile's; apart: the bytes from a tile's to the next.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, marks, apart, vectors, parts = args
        code = vector_code(builder)
        marks = Tiles(marks, code.number(apart))
        with code.each(tiles) as t, code.each(vectors) as v:
            found = Slot(code.load(marks.of(t), v, WORDS, unit=64))
            for count, distance in enumerate(_DISTANCES, 1):

                def join(distance: int = distance, found: Slot = found) -> None:
                    found.set(found.get() | found.get().shuffled([lane ^ distance for lane in range(WIDTH)]))

                # In one part of eight pairs, in two of four, in four of two.
                code.branch(code.number(parts).compare("<=", 1 << (count - 1)), join)
            code.store(found.get(), marks.of(t), v, unit=64)
        return context.get_dummy_value()

    return types.none(types.int64, types.uint64, types.int64, types.int64, types.int64), codegen


@intrinsic
def clear(typingctx, tiles, words, apart, vectors):  # type: ignore[no-untyped-def]
    """Fill `vectors` vectors of words of each tile with zeros. words: the address of the first tile's."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, words, apart, vectors = args
        code = vector_code(builder)
        words = Tiles(words, code.number(apart))
        with code.each(tiles) as t, code.each(vectors) as v:
            code.store(code.lanes(0), words.of(t), v, unit=64)
        return context.get_dummy_value()

    return types.none(types.int64, types.uint64, types.int64, types.int64), codegen
