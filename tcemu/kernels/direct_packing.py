"""Packs the factors of `tcemu.kernels.direct`: B in vectors of columns, each twice, and A in the order of registers.

NaN counts as zero. With `care`, marks say where it is: a word that is not 0 for each column in the lanes of a block,
and for each pair of rows, which `fold_marks` joins over all k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.lanes import BYTES, REAL, REALS, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.packing_words import Exponents, PackedVector, Packer
from tcemu.kernels.rooms import Tiles
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Code, Slot, vector_code
from tcemu.kernels.sums import CENTRE

#: What the kernels that pack return.
MISFIT, MARKED = 1, 2
#: Lanes of the first and of the second eight columns of a vector, each twice.
_TWICE = [[start + lane // 2 for lane in range(WIDTH)] for start in (0, WIDTH // 2)]
#: Distances of the lanes that hold the same row of a pair, the largest first.
_DISTANCES = 8, 4, 2


class _Loops:
    """The loops that pack, while they are emitted: one for formats with few bits, and one for all."""

    def __init__(self, code: Code, form: Any, start: Any, care: Any) -> None:
        self.code, self.packer, self.found = code, Packer(code, form, start, care), Slot(code.long(0))

    def emit(self, few: Any, loop: Callable[..., None]) -> Any:
        """Emit `loop` twice, with the way of packing that it uses; returns MISFIT, MARKED, or both, or 0."""
        packer = self.packer

        def few_bits() -> None:
            loop(lambda word, _: packer.few_bits(word))
            packer.tops.set(packer.tops.get().up(1))

        self.code.branch(few, few_bits, lambda: loop(packer.any_bits_of))
        misfit = packer.misfits().compare("!=", 0).choose(self.code.long(MISFIT), 0)
        return (misfit | self.found.get()).value

    def marks(self, address: Any, at: Lanes, spread: Callable[[Lanes], Lanes]) -> Callable[[Lanes], None]:
        """Code that adds the mask of NaN to a vector of marks, after `spread`."""

        def add(nan: Lanes) -> None:
            code = self.code
            words = spread(nan.choose(code.lanes(-1), 0)) | code.load(address, at, WORDS, unit=64)
            code.store(words, address, at, unit=64)
            self.found.set(code.long(MARKED))

        return add


@intrinsic
def pack_columns(  # type: ignore[no-untyped-def]
    typingctx, tiles, words, step, source, ups, of_group, groups, form, start, few, care, bare, value, exponent, marks,
):
    """x from words[source[v]] << ups[v], for the vectors v of a tile, with eight columns for each of two k.

    A tile has `groups` groups of columns, with `of_group` vectors and a vector of marks each. words, source, ups, form,
    start: as for `pack_words`. value and exponent: addresses of (tiles, vectors, 2) vectors, with each column twice;
    exponents are bytes, each four times, and left out if `bare`. few: whether the format has few bits, and there is no
    care.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, source, ups, of_group, groups, form, start, few, care, bare, value, exponent, marks = args
        words, of_group, groups = Tiles(words, code.number(step)), code.number(of_group), code.number(groups)
        loops, vectors = _Loops(code, form, start, care), of_group * groups

        def loop(packed: Callable[..., PackedVector]) -> None:
            with code.each(groups) as group, code.loop(group * of_group, (group + 1) * of_group, unrolled=False) as v:
                picked, up = code.wide(code.load(source, v, WORD, unit=4)), code.load(ups, v, WORDS, unit=64)
                with code.each(tiles) as t:
                    word = code.load(words.of(t), picked, WORDS, unit=64).up(up)
                    mark = loops.marks(marks, t * groups + group, _of_both)
                    found, at = packed(word, mark), (t * vectors + v).up(1)
                    for place, lanes in enumerate(_TWICE):
                        code.store(found.value.shuffled(lanes), value, at + place, unit=64)

                    def store(found: PackedVector = found, at: Lanes = at) -> None:
                        exponents = found.exponents()
                        for place, lanes in enumerate(_TWICE):
                            twice = exponents._replace(words=exponents.words.shuffled(lanes))
                            code.store(twice.fourfold(), exponent, at + place, unit=64)

                    code.branch(bare, lambda: None, store)

        return loops.emit(few, loop)

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64, types.int64, types.uint64]
    return types.int64(*kinds, *[types.int64] * 4, *[types.uint64] * 3), codegen


def _of_both(words: Lanes) -> Lanes:
    """Marks of eight columns for two k, each twice."""
    low, high = (words.shuffled(lanes) for lanes in _TWICE)
    return low | high


@intrinsic
def pack_rows(  # type: ignore[no-untyped-def]
    typingctx, tiles, words, step, ups, per, vectors, form, start, few, care, bare, value, exponent, marks
):
    """y from `vectors` vectors of words of a tile, with `per` elements in each word: words[v] << ups[p].

    value: address of (tiles, vectors, per) vectors. exponent: of (tiles, vectors / 4, per) vectors of words, with a
    byte of each of four vectors. marks: a vector for each of words. Otherwise as `pack_columns`.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        tiles, words, step, ups, per, vectors, form, start, few, care, bare, value, exponent, marks = args
        words, vectors, per = Tiles(words, code.number(step)), code.number(vectors), code.number(per)
        loops, fours = _Loops(code, form, start, care), vectors.down(2)

        def loop(packed: Callable[..., PackedVector]) -> None:
            with code.each(per) as p, code.each(fours) as four:
                up = code.load(ups, p, WORD, unit=4).everywhere()
                with code.each(tiles) as t:
                    found = []
                    for row in range(ROWS):
                        v = four.up(2) + row
                        word = code.load(words.of(t), v, WORDS, unit=64).up(up)
                        at = t * vectors + v
                        found.append(packed(word, loops.marks(marks, at, lambda words: words)))
                        code.store(found[-1].value, value, at * per + p, unit=64)

                    def store(found: list[PackedVector] = found, at: Lanes = (t * fours + four) * per + p) -> None:
                        code.store(_in_words([each.exponents() for each in found]), exponent, at, unit=64)

                    code.branch(bare, lambda: None, store)

        return loops.emit(few, loop)

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.int64, types.int64, types.uint64]
    return types.int64(*kinds, *[types.int64] * 4, *[types.uint64] * 3), codegen


def _in_words(rows: list[Exponents]) -> Lanes:
    """Words of the exponents of four vectors."""
    words = rows[0].words.down(24)
    for row, each in enumerate(rows[1:], 1):
        words = words | (each.words.down(24 - 8 * row) & (0xFF << 8 * row))
    return rows[0].counted(words.seen_as(BYTES))


def _folded(code: Code, found: Lanes, parts: Any, join: Callable[[Lanes, Lanes], Lanes]) -> Lanes:
    """Join the lanes of the same row of a pair, of all pairs in each of so many parts of a vector."""
    slot = Slot(found)
    for count, distance in enumerate(_DISTANCES, 1):

        def once(distance: int = distance) -> None:
            slot.set(join(slot.get(), slot.get().shuffled([lane ^ distance for lane in range(WIDTH)])))

        # In one part of eight pairs, in two of four, in four of two.
        code.branch(code.number(parts).compare("<=", 1 << (count - 1)), once)
    return slot.get()


@intrinsic
def fold_marks(typingctx, marks, vectors, parts):  # type: ignore[no-untyped-def]
    """Join the marks of rows, `vectors` vectors at an address, over all k: those of each of `parts` parts."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        marks, vectors, parts = args
        code = vector_code(builder)
        with code.each(vectors) as v:
            found = _folded(code, code.load(marks, v, WORDS, unit=64), parts, lambda one, other: one | other)
            code.store(found, marks, v, unit=64)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64), codegen


@intrinsic
def clear(typingctx, words, vectors):  # type: ignore[no-untyped-def]
    """Fill `vectors` vectors of words at an address with zeros."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        with code.each(args[1]) as v:
            code.store(code.lanes(0), args[0], v, unit=64)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64), codegen


@intrinsic
def squares_of_rows(typingctx, values, fours, of_run, runs, parts, into):  # type: ignore[no-untyped-def]
    """For each of `fours` four vectors of y, packed by `pack_rows`: the largest sum of squares of a row, in each part.

    runs: the sums of a chain, if each has its own elements of a word, `of_run` of them; or 1. Results are vectors:
    those of a part are in its lanes. Their unit is that of `short_sums.squares`.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        values, fours, of_run, runs, parts, into = args
        code = vector_code(builder)
        of_run, runs = code.number(of_run), code.number(runs)
        with code.each(fours) as four:
            most = Slot(code.lanes(0.0, REAL))
            for row in range(ROWS):
                first = (four.up(2) + row) * of_run * runs
                with code.each(runs) as run:
                    total = Slot(code.lanes(0.0, REAL))
                    with code.loop(run * of_run, (run + 1) * of_run, unrolled=False) as p:
                        x = code.load(values, first + p, REALS, unit=64)
                        total.set(x.exactly_times_plus(x, total.get()))
                    found = _folded(code, total.get(), parts, lambda one, other: one + other)
                    most.set(most.get().larger(found))
            found = most.get().larger(most.get().shuffled([lane ^ 1 for lane in range(WIDTH)]))
            code.store(found * 2.0 ** (2 * CENTRE), into, four, unit=64)
        return context.get_dummy_value()

    kinds = [types.uint64, *[types.int64] * 4, types.uint64]
    return types.none(*kinds), codegen
