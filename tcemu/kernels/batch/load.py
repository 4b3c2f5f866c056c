"""Elements of tiles from words, and results back into words, as a plan says; the words of the next tiles in advance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, types, uint64
from numba.core import cgutils
from numba.extending import intrinsic

from tcemu.kernels.batch.abi import WORK, Fields
from tcemu.kernels.emit.code import Code, Strided, Variable, call, vector_code
from tcemu.kernels.emit.lanes import SIGN, WIDTH, WORD, WORDS, Lanes, whole_vectors_of_words
from tcemu.kernels.host.compiling import merged, njit
from tcemu.kernels.sums import ABSENT, INFINITY, QUIET
from tcemu.kernels.sums.pack import pack_words
from tcemu.kernels.sums.rounding import clean

#: Kinds of accumulators and results; those of the last kind stay as they are.
FLOAT32, FLOAT16, UNCHANGED = range(3)
#: Rows that `spread` makes at once from the same two vectors of stored words, and the numbers that say it: the vector
#: of codes of each of the two, the two, and the rows.
SPREAD_ROWS, SPREADS = 4, 8
#: The entries of a table that `look_up` takes.
ENTRIES = WIDTH

#: Four times the exponent of an element that a sparse A does not store.
_ABSENT = np.int64((ABSENT & 0xFF) * 0x01010101)
#: The word of an element that a sparse A does not store.
_PRUNED = np.int64(-1)


#: Bytes of a line of the processor's caches, and lines that are fetched without a loop.
LINE, RUN = 64, 4


@merged
def expect(prefetch, t, count, starts, steps, to_d, step_d, blocks):  # type: ignore[no-untyped-def]
    """Note in a record AHEAD what blocks fetch for the tiles from tile t on, while products need no memory.

    given and steps: see `addresses`; to_d and step_d: the same of the results. blocks: of a tile. Each block fetches a
    few lines: a processor that is asked for more than it can note at a time waits. It is worth a third of the time.
    """
    most = _note(prefetch.d, to_d + uint64(t * step_d), step_d, blocks)
    most = max(most, _note(prefetch.x, starts[0] + uint64(t * steps[0]), steps[0], blocks))
    most = max(most, _note(prefetch.y, starts[1] + uint64(t * steps[1]), steps[1], blocks))
    most = max(most, _note(prefetch.c, starts[2] + uint64(t * steps[2]), steps[2], blocks))
    most = max(most, _note(prefetch.e, starts[3] + uint64(t * steps[3]), steps[3], blocks))
    prefetch.runs = (most + RUN - 1) // RUN if t < count else 0


@merged
def _note(stream, words, step, blocks):  # type: ignore[no-untyped-def]
    """Note an address, and how many lines from there on belong to each block; returns how many."""
    stream.words = words
    stream.lines = (step + blocks * LINE - 1) // (blocks * LINE)
    return stream.lines


def fetch_lines(code: Code, prefetch: Fields, block: Lanes) -> None:
    """Emit `fetch`. A branch that depends on an argument alone would make LLVM copy the loops around it."""
    runs = prefetch.runs

    def fetched() -> None:
        streams = [(each.words, each.lines) for each in (getattr(prefetch, name) for name in "xyced")]
        # One loop for all: some lines of the shorter ones are fetched twice, which costs less than more loops.
        with code.loop(0, runs) as run:
            for words, lines in streams:
                begin = words + (block * lines + run * RUN) * LINE

                def some(begin: Lanes = begin) -> None:
                    for i in range(RUN):
                        code.prefetch(begin.value, code.long(i), unit=LINE)

                code.branch(lines, some)

    code.branch(runs, fetched)


@intrinsic
def fetch(typingctx, work, block):  # type: ignore[no-untyped-def]
    """Let the processor fetch, while it goes on, what a block of products has to fetch, if anything; see `expect`."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        fetch_lines(code, Fields(code, args[0], WORK).prefetch, code.number(args[1]))
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64), codegen


@merged
def _gather(tiles, words, step, table, plan, into, apart):  # type: ignore[no-untyped-def]
    """`gather_words` by its address, so that it is compiled once."""
    call(plan.gather_words, (tiles, words, step, table, into, apart))


@njit(cache=True, nogil=True)
def _load_operand(tiles, words, step, operand, plan, through, into):  # type: ignore[no-untyped-def]
    """The elements of an operand of some tiles; `through`: room for the words that are gathered."""
    vectors = operand.loaded
    if operand.mask:
        _gather(tiles, words, step, operand.gather, plan, through, plan.gathered)
        extract(tiles, through, plan.gathered, operand.source, operand.bits, vectors, operand.mask, operand.flip, into)
    else:
        _gather(tiles, words, step, operand.gather, plan, into, 64 * vectors)


@merged
def spread_stored(tiles, stored, plan, scratch, nothing, into):  # type: ignore[no-untyped-def]
    """The vectors of a sparse A from those of its stored words, of some kinds; its codes are loaded. See `spread`."""
    codes, of_x, of_e = scratch + uint64(plan.scratch.codes), 64 * plan.x.loaded, 64 * plan.e.loaded
    spread(tiles, stored, of_x, codes, of_e, plan.spread, plan.spread_groups, plan.x.vectors, nothing, into)


@merged
def load_codes(tiles, e, step, plan, scratch):  # type: ignore[no-untyped-def]
    """Load the metadata of some tiles; whether all of it is legal. There is none if A is dense."""
    if not plan.spread_groups:
        return True
    codes = scratch + uint64(plan.scratch.codes)
    _load_operand(tiles, e, step, plan.e, plan, scratch + uint64(plan.scratch.words_y), codes)
    return not mark(codes, tiles * plan.e.loaded, plan.illegal)


@merged
def load_addends(tiles, c, step, plan, scratch):  # type: ignore[no-untyped-def]
    """Load the accumulators of some tiles."""
    through, into = scratch + uint64(plan.scratch.words_y), scratch + uint64(plan.scratch.c)
    _load_operand(tiles, c, step, plan.c, plan, through, into)


@merged
def widen_addends(tiles, plan, scratch):  # type: ignore[no-untyped-def]
    """Accumulators as float32 patterns."""
    if plan.addends == FLOAT16:
        c = scratch + uint64(plan.scratch.c)
        widen(c, int64(1), tiles * plan.c.vectors, c)


@merged
def load_factors(tiles, x, y, steps, plan, scratch):  # type: ignore[no-untyped-def]
    """Load the elements of x and y of some tiles; the metadata is loaded. x, y: addresses of words."""
    in_x, in_y = scratch + uint64(plan.scratch.x), scratch + uint64(plan.scratch.y)
    stored = scratch + uint64(plan.scratch.stored)
    to_x = stored if plan.spread_groups else in_x
    _load_operand(tiles, x, steps[0], plan.x, plan, scratch + uint64(plan.scratch.words_x), to_x)
    if plan.spread_groups:
        spread_stored(tiles, (stored,), plan, scratch, (_PRUNED,), (in_x,))
    _load_operand(tiles, y, steps[1], plan.y, plan, scratch + uint64(plan.scratch.words_y), in_y)


@merged
def packed_vectors(scratch, vectors_x, vectors_y):  # type: ignore[no-untyped-def]
    """Where values, exponents and signs of packed elements go, of x and then of y, for so many vectors of all tiles."""
    size_x, size_y = uint64(64 * vectors_x), uint64(64 * vectors_y)
    other = scratch + uint64(3) * size_x
    return scratch, scratch + size_x, scratch + uint64(2) * size_x, other, other + size_y, other + uint64(2) * size_y


@merged
def _pack(tiles, words, step, operand, plan, scratch, value, exponent, fourfold, bare):  # type: ignore[no-untyped-def]
    """Gather and pack an operand of some tiles; see `pack_words`."""
    through = scratch + uint64(plan.scratch.words_x)
    call(plan.gather_words, (tiles, words, step, operand.gather, through, plan.gathered))
    return pack_words(tiles, through, plan.gathered, operand, plan.few, value, exponent, fourfold, bare)


@merged
def load_quickly(tiles, x, y, steps, plan, scratch, bare):  # type: ignore[no-untyped-def]
    """Load and pack x and y of some tiles if all their elements are zeros or in a window; whether they are.

    bare: without exponents.
    """
    packed = scratch + uint64(plan.scratch.packed)
    value_x, word_x, _, value_y, word_y, _ = packed_vectors(packed, tiles * plan.x.vectors, tiles * plan.y.vectors)
    value, word = value_x, word_x
    if plan.spread_groups:
        value, word = scratch + uint64(plan.scratch.stored), scratch + uint64(plan.scratch.x)
    if _pack(tiles, x, steps[0], plan.x, plan, scratch, value, word, int64(1), bare):
        return False
    if plan.spread_groups and bare:
        spread_stored(tiles, (value,), plan, scratch, (int64(0),), (value_x,))
    elif plan.spread_groups:
        spread_stored(tiles, (value, word), plan, scratch, (int64(0), _ABSENT), (value_x, word_x))
    return not _pack(tiles, y, steps[1], plan.y, plan, scratch, value_y, word_y, int64(0), bare)


@merged
def store_results(tiles, plan, scratch, words, step):  # type: ignore[no-untyped-def]
    """Store the results of some tiles into words."""
    c, held = scratch + uint64(plan.scratch.c), scratch + uint64(plan.scratch.results)
    vectors, results = plan.c.vectors, plan.results
    finish(c, tiles * vectors, results.kind)
    _gather(tiles, c, 64 * vectors, results.gather, plan, words, step)
    for e in range(1, results.per):
        _gather(tiles, c, 64 * vectors, results.gather + uint64(e * results.size), plan, held, plan.gathered)
        for t in range(tiles):
            into = words + uint64(t * step)
            join_words(held + uint64(t * plan.gathered), results.words, e * results.width, into)


@merged
def addresses(x, y, c, e):  # type: ignore[no-untyped-def]
    """The addresses of the words of x, y, c and e (tiles, words), and the bytes of a tile."""
    starts = uint64(x.ctypes.data), uint64(y.ctypes.data), uint64(c.ctypes.data), uint64(e.ctypes.data)
    return starts, (4 * x.shape[1], 4 * y.shape[1], 4 * c.shape[1], 4 * e.shape[1])


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
            numbers = [code.wide(code.load(table, place, WORD, unit=4)) for place in places]
            held = [code.load(codes.of(t), each, WORDS, unit=64) for each in numbers[:2] for _ in range(SPREAD_ROWS)]
            masks = [(metadata & those).compare("!=", 0) for metadata, those in zip(held, own, strict=True)]
            for source, none, into in zip(stored, absent, patterns, strict=True):
                one, other = (code.load(source.of(t), each, WORDS, unit=64) for each in numbers[2:4])
                for row, first, second in zip(numbers[4:], masks[:SPREAD_ROWS], masks[SPREAD_ROWS:], strict=True):
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
        hits = Variable(code.lanes(0))
        with code.each(vectors) as v:
            marked = code.lanes(1).up(code.load(codes, v, WORDS, unit=64))
            hits.set(hits.get() | marked)
            code.store(marked, codes, v, unit=64)
        return code.any_bits(hits.get() & code.short(code.number(bad)).everywhere())

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

        def finish(value_of: Any) -> None:
            with code.each(vectors) as v:
                bits = code.load(running, v, WORDS, unit=64)
                code.store(value_of(bits), running, v, unit=64)

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
    half = size.compare("<", 0x38800000).choose(tiny, normal) | (bits.down(16) & 0x8000)
    return size.compare(">", INFINITY).choose(bits & 0 | 0x7FFF, half)
