"""Elements of tiles from words, and results back into words, as a plan says; the words of the next tiles in advance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.emit.code import Strided, Variable, call, number, vector_code
from tcemu.kernels.emit.lanes import SIGN, WIDTH, WORD, WORDS, Lanes, whole_vectors_of_words
from tcemu.kernels.host.compiling import merged, njit
from tcemu.kernels.sums import INFINITY, QUIET
from tcemu.kernels.sums.rounding import clean

#: Kinds of accumulators and results; those of the last kind stay as they are.
FLOAT32, FLOAT16, UNCHANGED = range(3)
#: Rows that `spread` makes at once from the same two vectors of stored words, and the numbers that say it: the vector
#: of codes of each of the two, the two, and the rows.
SPREAD_ROWS, SPREADS = 4, 8
#: The entries of a table that `look_up` takes.
ENTRIES = WIDTH

#: The places of the numbers that the kernels read besides the rule, which is first: the formats of x and y; for each of
#: x, y, c and the metadata, how it is loaded (where three tables begin, vectors, mask, bits to flip, see `extract`; if
#: mask is 0, elements are the words that are picked); what `store` takes (where its tables begin, their size, results
#: of a word, bits of a result, words, kind); the kind of addends; what else an arithmetic takes; the codes of metadata
#: that are not legal; what `spread` takes (where its table begins, groups); the vectors of x, y and c as the blocks
#: take them; whether `pack_words` is tried, or `look_up`, whether both formats have few bits, where the tables of
#: `pack_words` for x and y begin, and the starts of their windows; the address of `pick`; how many tiles are computed
#: together, and the bytes of a tile in the rooms of words that are picked; where room begins for results, for picked
#: words of x and of y, stored elements, codes, x, y, c, packed elements and what is fetched ahead, and all its words;
#: the blocks of products of a tile.
FORMAT_X, FORMAT_Y, FORMATS_END, STORE, ADDENDS, OPTION, ILLEGAL, SPREAD, VECTORS = map(
    np.int64, (8, 15, 22, 46, 52, 53, 54, 55, 57)
)
QUICK, FEW, UPS_X, UPS_Y, START_X, START_Y, PICK, TOGETHER, PICKED = map(np.int64, range(60, 69))
HELD, WORDS_X, WORDS_Y, STORED, CODES, IN_X, IN_Y, IN_C, PACKED, AHEAD, ROOM = map(np.int64, range(69, 80))
BLOCKS, NUMBERS = map(np.int64, range(80, 82))
#: The numbers of an operand, in the order of FORMATS_END.
X, Y, C, E = (np.int64(FORMATS_END + 6 * operand) for operand in range(4))
#: The word of an element that a sparse A does not store.
_PRUNED = np.int64(-1)


@njit(cache=True, nogil=True)
def within(room, numbers, place):  # type: ignore[no-untyped-def]
    """The address of what begins at the word that is the number at a place; room and numbers are addresses."""
    return room + uint64(number(numbers, place)) * uint64(4)


@merged
def picked(tiles, words, step, table, numbers, into, apart):  # type: ignore[no-untyped-def]
    """`pick` by its address."""
    call(uint64(number(numbers, PICK)), (tiles, words, step, table, into, apart))


@njit(cache=True, nogil=True)
def _load_operand(tiles, words, step, tables, numbers, room, first, through, into):  # type: ignore[no-untyped-def]
    """The elements of an operand of some tiles; `through`: room for the words that are picked."""
    vectors, mask, apart = number(numbers, first + 3), number(numbers, first + 4), number(numbers, PICKED)
    if mask:
        picked(tiles, words, step, within(tables, numbers, first), numbers, through, apart)
        source, bits = within(tables, numbers, first + 1), within(tables, numbers, first + 2)
        extract(tiles, through, apart, source, bits, vectors, mask, number(numbers, first + 5), into)
    else:
        picked(tiles, words, step, within(tables, numbers, first), numbers, into, 64 * vectors)


@merged
def spread_stored(tiles, stored, tables, numbers, room, nothing, into):  # type: ignore[no-untyped-def]
    """The vectors of a sparse A from those of its stored words, of some kinds; its codes are loaded. See `spread`."""
    groups, table, codes = number(numbers, SPREAD + 1), within(tables, numbers, SPREAD), within(room, numbers, CODES)
    of_x, of_e, rows = number(numbers, X + 3), number(numbers, E + 3), number(numbers, VECTORS)
    spread(tiles, stored, 64 * of_x, codes, 64 * of_e, table, groups, rows, nothing, into)


@merged
def load_codes(tiles, e, step, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Load the metadata of some tiles; whether all of it is legal. There is none if A is dense."""
    if not number(numbers, SPREAD + 1):
        return True
    codes = within(room, numbers, CODES)
    _load_operand(tiles, e, step, tables, numbers, room, int64(E), within(room, numbers, WORDS_Y), codes)
    return not mark(codes, tiles * number(numbers, E + 3), number(numbers, ILLEGAL))


@merged
def load_addends(tiles, c, step, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Load the accumulators of some tiles."""
    into, through = within(room, numbers, IN_C), within(room, numbers, WORDS_Y)
    _load_operand(tiles, c, step, tables, numbers, room, int64(C), through, into)


@merged
def widen_addends(tiles, numbers, room):  # type: ignore[no-untyped-def]
    """Accumulators as float32 patterns."""
    if number(numbers, ADDENDS) == FLOAT16:
        c = within(room, numbers, IN_C)
        widen(c, int64(1), tiles * number(numbers, VECTORS + 2), c)


@merged
def load_factors(tiles, x, y, steps, tables, numbers, room):  # type: ignore[no-untyped-def]
    """Load the elements of x and y of some tiles; the metadata is loaded. x, y: addresses of words."""
    in_x, in_y, stored = within(room, numbers, IN_X), within(room, numbers, IN_Y), within(room, numbers, STORED)
    of_x, of_y, sparse = within(room, numbers, WORDS_X), within(room, numbers, WORDS_Y), number(numbers, SPREAD + 1)
    _load_operand(tiles, x, steps[0], tables, numbers, room, int64(X), of_x, stored if sparse else in_x)
    if sparse:
        spread_stored(tiles, (stored,), tables, numbers, room, (_PRUNED,), (in_x,))
    _load_operand(tiles, y, steps[1], tables, numbers, room, int64(Y), of_y, in_y)


@merged
def store_results(tiles, tables, numbers, room, words, step):  # type: ignore[no-untyped-def]
    """Store the results of some tiles into words."""
    c, at, held = within(room, numbers, IN_C), within(tables, numbers, STORE), within(room, numbers, HELD)
    size, per, width = number(numbers, STORE + 1), number(numbers, STORE + 2), number(numbers, STORE + 3)
    count, vectors, apart = number(numbers, STORE + 4), number(numbers, VECTORS + 2), number(numbers, PICKED)
    finish(c, tiles * vectors, number(numbers, STORE + 5))
    picked(tiles, c, 64 * vectors, at, numbers, words, step)
    for e in range(1, per):
        picked(tiles, c, 64 * vectors, at + uint64(4 * e * size), numbers, held, apart)
        for t in range(tiles):
            join_words(held + uint64(t * apart), count, e * width, words + uint64(t * step))


@merged
def addresses(x, y, c, e):  # type: ignore[no-untyped-def]
    """The addresses of the words of x, y, c and e (tiles, words), and the bytes of a tile."""
    given = uint64(x.ctypes.data), uint64(y.ctypes.data), uint64(c.ctypes.data), uint64(e.ctypes.data)
    return given, (4 * x.shape[1], 4 * y.shape[1], 4 * c.shape[1], 4 * e.shape[1])


@intrinsic
def extract(  # type: ignore[no-untyped-def]
    typingctx, tiles, picked, step, source, bits, vectors, mask, flip, patterns
):
    """patterns[t, v, j] = picked[t, source[v], j] >> bits[v, j] & mask ^ flip, for `vectors` vectors v of 16 lanes j.

    picked, source, bits and patterns are addresses of 32-bit words; step: the bytes from a tile's `picked` to the next.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, picked, step, source, bits, vectors, mask, flip, patterns = args
        code = vector_code(builder)
        picked, vectors = Strided(picked, code.number(step)), code.number(vectors)
        mask, flip = (code.short(code.number(each)).everywhere() for each in (mask, flip))
        with code.each(vectors) as v:
            held, places = code.wide(code.load(source, v, WORD, unit=4)), code.load(bits, v, WORDS, unit=64)
            with code.loop(0, code.number(tiles)) as t:
                word = code.load(picked.of(t), held, WORDS, unit=64)
                code.store(word.down(places) & mask ^ flip, patterns, t * vectors + v, unit=64)
        return context.get_dummy_value()

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.uint64, *[types.int64] * 3, types.uint64]
    return types.none(*kinds), codegen


@intrinsic
def look_up(typingctx, tiles, picked, step, source, bits, vectors, table, values):  # type: ignore[no-untyped-def]
    """values[t, v, j] = table[picked[t, source[v], j] >> bits[v, j] & 15]: as `extract`, for codes of four bits."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, picked, step, source, bits, vectors, table, values = args
        code = vector_code(builder)
        picked, vectors = Strided(picked, code.number(step)), code.number(vectors)
        entries, whole = code.load(table, 0, WORDS, unit=64), whole_vectors_of_words()
        with code.each(vectors) as v:
            held, places = code.wide(code.load(source, v, WORD, unit=4)), code.load(bits, v, WORDS, unit=64)
            with code.loop(0, code.number(tiles)) as t:
                word = code.load(picked.of(t), held, WORDS, unit=64).down(places)
                # A permutation looks at five bits; with the same words in both vectors, at four.
                value = code.picked(entries, entries, word) if whole else code.gather(table, word & (ENTRIES - 1))
                code.store(value, values, t * vectors + v, unit=64)
        return context.get_dummy_value()

    kinds = [types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64, types.uint64]
    return types.none(*kinds, types.uint64), codegen


@intrinsic
def spread(  # type: ignore[no-untyped-def]
    typingctx, tiles, stored, step, codes, between, table, groups, rows, nothing, patterns
):
    """patterns[i][t, r] = the word of stored[i] that belongs there, for every i; nothing[i] in lanes without one.

    stored, codes, table and patterns are addresses; stored and codes: vectors of 16 words, with the bytes from a tile
    to the next. codes: those of chunks, from `mark`. rows: of a tile. table: a vector whose first words are the codes
    with which words of the first of two vectors belong to each of SPREAD_ROWS rows, then those of the second; and for
    each group of rows SPREADS numbers.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, stored, step, codes, between, table, groups, rows, nothing, patterns = args
        code = vector_code(builder)
        stored, nothing, patterns = (cgutils.unpack_tuple(builder, each) for each in (stored, nothing, patterns))
        stored = [Strided(each, code.number(step)) for each in stored]
        rows, codes = code.number(rows), Strided(codes, code.number(between))
        absent = [code.short(code.number(each)).everywhere() for each in nothing]
        own = [code.load(table, i, WORD, unit=4).everywhere() for i in range(2 * SPREAD_ROWS)]
        # Tile by tile: the vectors of one row of all tiles would compete for the same places of a cache.
        with code.each(tiles) as t, code.each(groups) as group:
            places = (group * SPREADS + (WIDTH + i) for i in range(SPREADS))
            told = [code.wide(code.load(table, place, WORD, unit=4)) for place in places]
            held = [code.load(codes.of(t), each, WORDS, unit=64) for each in told[:2] for _ in range(SPREAD_ROWS)]
            masks = [(met & those).compare("!=", 0) for met, those in zip(held, own, strict=True)]
            for source, none, into in zip(stored, absent, patterns, strict=True):
                one, other = (code.load(source.of(t), each, WORDS, unit=64) for each in told[2:4])
                for row, first, second in zip(told[4:], masks[:SPREAD_ROWS], masks[SPREAD_ROWS:], strict=True):
                    code.store(second.choose(other, first.choose(one, none)), into, t * rows + row, unit=64)
        return context.get_dummy_value()

    long = types.int64
    kinds = [long, stored, long, types.uint64, long, types.uint64, long, long, nothing, patterns]
    return types.none(*kinds), codegen


@intrinsic
def mark(typingctx, codes, vectors, bad):  # type: ignore[no-untyped-def]
    """Replace codes, `vectors` times 16 words at an address, by words with one bit set: that of the code's number.

    Returns whether any of these bits is set in `bad`: not 0.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        codes, vectors, bad = args
        code = vector_code(builder)
        found = Variable(code.lanes(0))
        with code.each(vectors) as v:
            marked = code.lanes(1).up(code.load(codes, v, WORDS, unit=64))
            found.set(found.get() | marked)
            code.store(marked, codes, v, unit=64)
        return code.any_bits(found.get() & code.short(code.number(bad)).everywhere())

    return types.int64(types.uint64, types.int64, types.int64), codegen


@intrinsic
def finish(typingctx, running, vectors, kind):  # type: ignore[no-untyped-def]
    """Make the results of `vectors` times 16 accumulators at an address, in place.

    `kind`: 0 float32 patterns with one NaN, 1 float16 ones, converted from a float32, exactly or rounded to nearest,
    2 integers.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        running, vectors, kind = args
        code = vector_code(builder)

        def finish(found: Any) -> None:
            with code.each(vectors) as v:
                bits = code.load(running, v, WORDS, unit=64)
                code.store(found(bits), running, v, unit=64)

        kind = code.number(kind)
        code.branch(kind, lambda: code.branch(kind - UNCHANGED, lambda: finish(_narrowed)), lambda: finish(clean))
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64), codegen


@intrinsic
def join_words(typingctx, more, count, shift, words):  # type: ignore[no-untyped-def]
    """words[i] |= more[i] << shift for `count` words at two addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        more, count, shift, words = args
        code = vector_code(builder)
        count, shift = code.number(count), code.short(code.number(shift))

        def join_words(at: Lanes, kind: Any) -> None:
            places = shift if kind == WORD else shift.everywhere()
            value = code.load(words, at, kind, unit=4) | code.load(more, at, kind, unit=4).up(places)
            code.store(value, words, at, unit=4)

        vectors = count.down(4)
        with code.each(vectors) as v:
            join_words(v.up(4), WORDS)
        with code.loop(vectors.up(4), count, unrolled=False) as i:
            join_words(i, WORD)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64, types.uint64), codegen


@intrinsic
def widen(typingctx, patterns, half, vectors, running):  # type: ignore[no-untyped-def]
    """Accumulators as float32 patterns: every NaN becomes the same, and -0 becomes +0, since no sum keeps it."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        patterns, half, vectors, running = args
        code = vector_code(builder)
        with code.each(vectors) as v:
            bits = Variable(code.load(patterns, v, WORDS, unit=64))
            code.branch(half, lambda: bits.set(_widened(bits.get())))
            code.store(clean(bits.get()), running, v, unit=64)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64, types.uint64), codegen


def _widened(bits: Lanes) -> Lanes:
    """The float32 patterns of float16 patterns."""
    size = bits & 0x7FFF
    normal = size.up(13) + 0x38000000
    normal = size.compare("<", 0x7C00).choose(normal, size.compare("==", 0x7C00).choose(size & 0 | INFINITY, QUIET))
    tiny = (size.converted() * 2.0**-24).bits()
    return size.compare("<", 0x400).choose(tiny, normal) | (bits.up(16) & SIGN)


def _narrowed(bits: Lanes) -> Lanes:
    """The float16 patterns of float32 patterns, to nearest even."""
    size = bits & QUIET
    normal = size - 0x38000000
    normal = (normal + 0xFFF + (normal.down(13) & 1)).down(13).smaller(0x7C00)
    # Adding 0.5, whose last place is that of a subnormal float16, turns the number into that subnormal.
    tiny = (size.floats() + 0.5).bits() - 0x3F000000
    found = size.compare("<", 0x38800000).choose(tiny, normal) | (bits.down(16) & 0x8000)
    return size.compare(">", INFINITY).choose(bits & 0 | 0x7FFF, found)
