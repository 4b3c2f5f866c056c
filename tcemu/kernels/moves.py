"""Elements between registers and vectors: words in, patterns of sixteen elements; results out, as words again."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

from numba import types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.calls import address_of
from tcemu.kernels.compiling import merged, njit
from tcemu.kernels.lanes import SIGN, WIDTH, WORD, WORDS, Lanes, whole_vectors_of_words
from tcemu.kernels.picks import HEADER, TOGETHER
from tcemu.kernels.rooms import Tiles
from tcemu.kernels.rounding import clean
from tcemu.kernels.simd import Code, Slot, vector_code
from tcemu.kernels.sums import INFINITY, QUIET

#: Kinds of accumulators and results; those of the last kind stay as they are.
FLOATS, HALVES, SAME = range(3)
#: Rows that `spread` makes at once from the same two vectors of stored words, and the numbers that say it: the vector
#: of codes of each of the two, the two, and the rows.
SPREAD_ROWS, SPREADS = 4, 8
#: The entries of a table that `look_up` takes.
ENTRIES = WIDTH

@intrinsic
def _picks(typingctx, tiles, words, step, picks, into, apart):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        tiles, words, step, picks, into, apart = args
        code = vector_code(builder)
        words, into = Tiles(words, code.number(step)), Tiles(into, code.number(apart))
        _pick(code, code.number(tiles), words, picks, into)
        return context.get_dummy_value()

    return types.none(types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64), codegen


@njit(cache=True, nogil=True, no_cpython_wrapper=True)
def pick(tiles, words, step, picks, into, apart):  # type: ignore[no-untyped-def]
    """into[i] = the words that a table of `tcemu.kernels.picks` picks, for so many tiles.

    words, picks and into are addresses of 32-bit words. step and apart: the bytes from a tile's `words` and `into` to
    those of the next.
    """
    _picks(tiles, words, step, picks, into, apart)


@cache
def pick_at() -> int:
    """The address of the compiled `pick`, which kernels call."""
    kinds = types.int64, types.uint64, types.int64, types.uint64, types.uint64, types.int64
    return address_of(pick, *kinds)


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
        picked, vectors = Tiles(picked, code.number(step)), code.number(vectors)
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
        picked, vectors = Tiles(picked, code.number(step)), code.number(vectors)
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
        stored = [Tiles(each, code.number(step)) for each in stored]
        rows, codes = code.number(rows), Tiles(codes, code.number(between))
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
        found = Slot(code.lanes(0))
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
        code.branch(kind, lambda: code.branch(kind - SAME, lambda: finish(_narrowed)), lambda: finish(clean))
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64), codegen


@intrinsic
def join(typingctx, more, count, shift, words):  # type: ignore[no-untyped-def]
    """words[i] |= more[i] << shift for `count` words at two addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        more, count, shift, words = args
        code = vector_code(builder)
        count, shift = code.number(count), code.short(code.number(shift))

        def join(at: Lanes, kind: Any) -> None:
            places = shift if kind == WORD else shift.everywhere()
            value = code.load(words, at, kind, unit=4) | code.load(more, at, kind, unit=4).up(places)
            code.store(value, words, at, unit=4)

        vectors = count.down(4)
        with code.each(vectors) as v:
            join(v.up(4), WORDS)
        with code.loop(vectors.up(4), count, unrolled=False) as i:
            join(i, WORD)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64, types.uint64), codegen


@intrinsic
def widen(typingctx, patterns, half, vectors, running):  # type: ignore[no-untyped-def]
    """Accumulators as float32 patterns: every NaN becomes the same, and -0 becomes +0, since no sum keeps it."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        patterns, half, vectors, running = args
        code = vector_code(builder)
        with code.each(vectors) as v:
            bits = Slot(code.load(patterns, v, WORDS, unit=64))
            code.branch(half, lambda: bits.set(_widened(bits.get())))
            code.store(clean(bits.get()), running, v, unit=64)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64, types.uint64), codegen


def _pick(code: Code, tiles: Lanes, words: Tiles, picks: Any, into: Tiles) -> None:
    """Pick words as a table of `tcemu.kernels.picks` says."""
    count, together, *more = (code.wide(code.load(picks, i, WORD, unit=4)) for i in range(5))
    if not whole_vectors_of_words():
        _gather(code, tiles, words, picks, count, into)
        return

    def network() -> None:
        for size in TOGETHER:
            fits = code.wide(together.compare("==", size))
            code.branch(fits, lambda size=size: _merge(code, tiles, size, more, words, picks, into))  # type: ignore[misc]

    code.branch(together, network, lambda: _gather(code, tiles, words, picks, count, into))


def _merge(
    code: Code, tiles: Lanes, together: int, numbers: list[Lanes], words: Tiles, picks: Any, into: Tiles
) -> None:
    """Pick by a network that merges so many vectors at once: they stay in registers until that is done.

    numbers: the others of the table's header.
    """
    units, half, twice = numbers
    stages = together.bit_length() - 1
    taken, *indices = (code.load(picks, HEADER // WIDTH + i, WORDS, unit=64) for i in range(1 + 2 * stages))
    starts = HEADER + (1 + 2 * stages) * WIDTH

    def loaded(source: Any, place: Lanes) -> Lanes:
        return halved(code, code.load(source, place, WORDS, unit=4), source, place + WIDTH, half, taken)

    with code.loop(0, units) as unit, code.loop(0, tiles) as t:
        source, target, first = words.of(t), into.of(t), unit * together + starts
        places = [code.wide(code.load(picks, first + i, WORD, unit=4)) for i in range(together)]
        targets = [code.wide(code.load(picks, first + (units * together + i), WORD, unit=4)) for i in range(together)]
        vectors = [loaded(source, place) for place in places]
        for stage in range(stages):
            apart, merged = 1 << stage, []
            for v in range(together):
                pair = v // (2 * apart) * 2 * apart + v % (2 * apart) // 2
                merged.append(code.picked(vectors[pair], vectors[pair + apart], indices[2 * stage + v % 2]))
            vectors = merged

        def once(targets: Any = targets, target: Any = target, vectors: list[Lanes] = vectors) -> None:
            for place, vector in zip(targets, vectors, strict=True):
                code.store(vector, target, place, unit=64)

        def two(targets: Any = targets, target: Any = target, vectors: list[Lanes] = vectors) -> None:
            for (place, vector), part in product(zip(targets, vectors, strict=True), range(2)):
                both = vector.shuffled([(part * WIDTH + lane) // 2 for lane in range(WIDTH)])
                code.store(both, target, place.up(1) + part, unit=64)

        code.branch(twice, two, once)


def halved(code: Code, words: Lanes, source: Any, place: Lanes, half: Lanes, taken: Lanes) -> Lanes:
    """Words, or if `half` is not 0, those that are taken of them and of the next vector, which is at a place."""
    found = Slot(words)
    code.branch(half, lambda: found.set(code.picked(words, code.load(source, place, WORDS, unit=4), taken)))
    return found.get()


def _gather(code: Code, tiles: Lanes, words: Tiles, picks: Any, count: Lanes, into: Tiles) -> None:
    """into[i] = words[picks[HEADER + i]]."""
    vectors = count.down(4)
    with code.loop(0, tiles) as t:
        source, target = words.of(t), into.of(t)
        with code.each(vectors) as v:
            picked = code.load(picks, v.up(4) + HEADER, WORDS, unit=4)
            code.store(code.gather(source, picked), target, v, unit=64)
        with code.loop(vectors.up(4), count, unrolled=False) as i:
            at = code.wide(code.load(picks, i + HEADER, WORD, unit=4))
            code.store(code.load(source, at, WORD, unit=4), target, i, unit=4)


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
