"""Packs the factors of `tcemu.kernels.direct`: B in vectors of columns, each twice, and A in the order of registers.

Each tile has its own room, and what is packed has its places there. With `care`, NaN counts as zero, and marks say
where it is: a word that is not 0 for each column in the lanes of a block, and for each pair of rows, which `fold_marks`
joins over all k. If A is sparse, a column's NaN counts only in the rows that meet it: exponents tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.lanes import BYTES, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.moves import halved
from tcemu.kernels.packing_words import Exponents, PackedVector, Packer
from tcemu.kernels.rooms import Tiles
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Code, Slot, vector_code
from tcemu.kernels.sums import NOT_A_NUMBER

#: What the kernels that pack return.
MISFIT, MARKED = 1, 2
#: Lanes of the first and of the second eight columns of a vector, each twice.
TWICE = [[start + lane // 2 for lane in range(WIDTH)] for start in (0, WIDTH // 2)]
#: A way of packing: takes words, and what marks NaN.
Pack = Callable[[Lanes, Callable[[Lanes], None]], PackedVector]
#: Distances of the lanes that hold the same row of a pair, the largest first.
_DISTANCES = 8, 4, 2


class _Loops:
    """The loops that pack, while they are emitted: one for formats with few bits, and one for all."""

    def __init__(self, code: Code, form: Any, start: Any, care: Any) -> None:
        self.code, self.packer, self.found = code, Packer(code, form, start, care), Slot(code.long(0))
        #: Where the vector that was packed last has NaN, and whether it has any.
        self.nan, self.some = Slot(code.lanes(0)), Slot(code.long(0))

    def emit(self, few: Any, loop: Callable[[Pack], None]) -> Any:
        """Emit `loop` twice, with the way of packing that it uses; returns MISFIT, MARKED, or both, or 0."""
        packer = self.packer

        def few_bits() -> None:
            loop(packer.few_bits)
            packer.tops.set(packer.tops.get().up(1))

        self.code.branch(few, few_bits, lambda: loop(packer.any_bits_of))
        misfit = packer.misfits().compare("!=", 0).choose(self.code.long(MISFIT), 0)
        return (misfit | self.found.get()).value

    def marks(self, address: Lanes, spread: Callable[[Lanes], Lanes]) -> Callable[[Lanes], None]:
        """Code that adds the mask of NaN, after `spread`, to a vector of marks."""

        def add(nan: Lanes) -> None:
            code, where = self.code, nan.choose(self.code.lanes(-1), 0)
            code.store(spread(where) | code.load(address.value, 0, WORDS, unit=64), address.value, 0, unit=64)
            some = code.number(code.number_of_any(nan)).compare("!=", 0).choose(code.long(MARKED), 0)
            self.found.set(self.found.get() | some)
            self.nan.set(where)
            self.some.set(some)

        return add


@intrinsic
def pack_columns(  # type: ignore[no-untyped-def]
    typingctx, tiles, words, step, source, ups, of_group, groups, form, start, few, care, room, apart, to,
):
    """x from words[source[v]] << ups[v], for the vectors v of a tile, with eight columns for each of two k.

    A tile has `groups` groups of columns, with `of_group` vectors each. words, source, ups, form, start: as for
    `pack_words`. few: whether the format has few bits. room: the first tile's; apart: the bytes
    from a tile's room to the next. to: the bytes from there to

        values       (vectors, 2) vectors, with each column twice
        exponents    the same of bytes, each four times; NOT_A_NUMBER for NaN
        marks        (groups) vectors

    and what this kernel does not touch.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, source, ups, of_group, groups, form, start, few, care, room, apart, to = args
        words, rooms = Tiles(words, code.number(step)), Tiles(room, code.number(apart))
        to, of_group = [code.number(each) for each in cgutils.unpack_tuple(builder, to)], code.number(of_group)
        loops = _Loops(code, form, start, care)

        def loop(packed: Pack) -> None:
            with code.each(tiles) as t, code.each(groups) as group:
                value, exponent, marks, _ = (code.number(rooms.of(t)) + each for each in to)
                mark, first = loops.marks(marks + group * 64, _of_both), group * of_group
                with code.loop(first, first + of_group, unrolled=False) as v:
                    picked, up = code.wide(code.load(source, v, WORD, unit=4)), code.load(ups, v, WORDS, unit=64)
                    loops.some.set(code.long(0))
                    found = packed(code.load(words.of(t), picked, WORDS, unit=64).up(up), mark)
                    exponents = found.exponents()
                    tops = exponents.counted(exponents.words.seen_as(BYTES))
                    for place, lanes in enumerate(TWICE):
                        fourfold = tops.shuffled([4 * lane + 3 for lane in lanes for _ in range(4)])
                        code.store(found.value.shuffled(lanes), value.value, v.up(1) + place, unit=64)
                        code.store(fourfold, exponent.value, v.up(1) + place, unit=64)
                    code.branch(loops.some.get(), lambda at=exponent, v=v: tell(at.value, v.up(1)))  # type: ignore[misc]

        def tell(exponent: Any, first: Lanes) -> None:
            for place, lanes in enumerate(TWICE):
                nan = loops.nan.get().shuffled(lanes).seen_as(BYTES)
                held = code.load(exponent, first + place, BYTES, unit=64)
                code.store((held & ~nan) | (nan & NOT_A_NUMBER), exponent, first + place, unit=64)

        return loops.emit(few, loop)

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64, types.int64, types.uint64]
    return types.int64(*kinds, *[types.int64] * 3, types.uint64, types.int64, types.UniTuple(types.int64, 4)), codegen


def _of_both(words: Lanes) -> Lanes:
    """Marks of eight columns for two k, each twice."""
    low, high = (words.shuffled(lanes) for lanes in TWICE)
    return low | high


@intrinsic
def pack_rows(  # type: ignore[no-untyped-def]
    typingctx, tiles, words, step, half, taken, ups, per, rows, long, form, start, few, care, room, apart, to,
):
    """y from the words of the rows of a tile: words[v] << ups[p], where p counts the `per` elements of a word.

    A row is a vector of words, or two if it is `long`, 1 instead of 0. half: 1 if a vector is those words of two
    vectors that are `taken`, else 0. Otherwise as `pack_columns`, with

        values       (rows, vectors, p) vectors
        exponents    (rows / 4, vectors, p) vectors of words, with a byte of each of four rows
        marks        (rows) vectors
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, half, taken, ups, per, rows, long, form, start, few, care, room, apart, to = args
        words, rooms = Tiles(words, code.number(step)), Tiles(room, code.number(apart))
        to, per = [code.number(each) for each in cgutils.unpack_tuple(builder, to)], code.number(per)
        loops, half, long = _Loops(code, form, start, care), code.number(half), code.number(long)
        fours = code.number(rows).down(2).up(long)
        taken = code.load(taken, 0, WORDS, unit=64)

        def loaded(source: Any, v: Lanes) -> Lanes:
            place = v.up(half) * WIDTH
            return halved(code, code.load(source, place, WORDS, unit=4), source, place + WIDTH, half, taken)

        def loop(packed: Pack) -> None:
            with code.each(tiles) as t, code.each(fours) as four:
                value, exponent, marks, _ = (code.number(rooms.of(t)) + each for each in to)
                rows = [four.down(long).up(2) + row for row in range(ROWS)]
                numbers = [row.up(long) + (four & long) for row in rows]
                given = [loaded(words.of(t), v) for v in numbers]
                with code.each(per) as p:
                    up, found = code.load(ups, p, WORDS, unit=64), []
                    for word, v, row in zip(given, numbers, rows, strict=True):
                        found.append(packed(word.up(up), loops.marks(marks + row * 64, lambda words: words)))
                        code.store(found[-1].value, value.value, v * per + p, unit=64)
                    words_of_rows = _in_words([each.exponents() for each in found])
                    code.store(words_of_rows, exponent.value, four * per + p, unit=64)

        return loops.emit(few, loop)

    kinds = [types.int64, types.uint64, types.int64, types.int64, *[types.uint64] * 2, *[types.int64] * 3]
    kinds.append(types.uint64)
    return types.int64(*kinds, *[types.int64] * 3, types.uint64, types.int64, types.UniTuple(types.int64, 4)), codegen


def _in_words(rows: list[Exponents]) -> Lanes:
    """Words of the exponents of four vectors."""
    words = rows[0].words.down(24)
    for row, each in enumerate(rows[1:], 1):
        words = words | (each.words.down(24 - 8 * row) & (0xFF << 8 * row))
    return rows[0].counted(words.seen_as(BYTES))


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
