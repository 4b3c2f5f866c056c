"""Elements between registers and vectors: words in, patterns of sixteen elements; results out, as words again."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.picks import HEADER
from tcemu.kernels.simd import SIGN, WORD, WORDS, Code, Lanes, Slot, vector_code, whole_vectors_of_words
from tcemu.kernels.sums import INFINITY, QUIET

#: Kinds of accumulators and results.
FLOATS, HALVES, INTEGERS = range(3)
_PRUNED = -1


@intrinsic
def pick(typingctx, words, picks, held, into):  # type: ignore[no-untyped-def]
    """into[i] = the words that a table of `tcemu.kernels.picks` picks; all are addresses of 32-bit words.

    `held` has room for as many words as the table has.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        _pick(vector_code(builder), *args)
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 4), codegen


@intrinsic
def extract(typingctx, picked, source, bits, vectors, mask, flip, patterns):  # type: ignore[no-untyped-def]
    """patterns[v, j] = picked[source[v], j] >> bits[v, j] & mask ^ flip, for `vectors` vectors v of 16 lanes j.

    All but `vectors`, mask and flip are addresses of 32-bit words.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        picked, source, bits, vectors, mask, flip, patterns = args
        code = vector_code(builder)
        mask, flip = (code.short(code.number(each)).everywhere() for each in (mask, flip))
        with code.loop(0, code.number(vectors)) as v:
            word = code.load(picked, code.wide(code.load(source, v, WORD, unit=4)), WORDS, unit=64)
            code.store(word.down(code.load(bits, v, WORDS, unit=64)) & mask ^ flip, patterns, v, unit=64)
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, *[types.int64] * 3, types.uint64), codegen


@intrinsic
def spread(typingctx, stored, codes, table, rows, per, patterns):  # type: ignore[no-untyped-def]
    """patterns[r] = the stored elements that belong there, by the codes of their chunks; lanes without one are pruned.

    All but `rows` and `per` are addresses. stored and codes: vectors of 16 words. table (rows, 1 + 2 * per): the vector
    of codes, then the vectors of stored elements, each with a word whose bit `code` says whether it belongs to row r.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        stored, codes, table, rows, per, patterns = args
        code, count = vector_code(builder), vector_code(builder).number(per)
        with code.loop(0, code.number(rows)) as r:
            first = r * (count.up(1) + 1)

            def entry(at: Lanes) -> Lanes:
                return code.load(table, at, WORD, unit=4)

            chunk = code.load(codes, code.wide(entry(first)), WORDS, unit=64)
            found = Slot(code.lanes(_PRUNED))
            with code.loop(0, count) as i:
                at = first + i.up(1)
                own = entry(at + 2).everywhere().down(chunk) & 1
                element = code.load(stored, code.wide(entry(at + 1)), WORDS, unit=64)
                found.set(own.compare("!=", 0).choose(element, found.get()))
            code.store(found.get(), patterns, r, unit=64)
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, types.int64, types.int64, types.uint64), codegen


@intrinsic
def illegal(typingctx, codes, vectors, bad):  # type: ignore[no-untyped-def]
    """Whether any of the codes, `vectors` times 16 words at an address, is one whose bit is set in `bad`: not 0."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        codes, vectors, bad = args
        code = vector_code(builder)
        found, bits = Slot(code.lanes(0)), code.short(code.number(bad)).everywhere()
        with code.loop(0, code.number(vectors)) as v:
            found.set(found.get() | (bits.down(code.load(codes, v, WORDS, unit=64)) & 1))
        return code.any_bits(found.get())

    return types.int64(types.uint64, types.int64, types.int64), codegen


@intrinsic
def store(typingctx, running, vectors, kind, picks, size, per, width, count, held, words):  # type: ignore[no-untyped-def]
    """words[i] = the results that a word holds, `per` of them, `width` bits each; changes `running`.

    running: `vectors` times 16 patterns. `kind`: 0 float32 patterns with one NaN, 1 float16 ones, converted from a
    float32, exactly or rounded to nearest, 2 integers. picks: for each result of a word a table of
    `tcemu.kernels.picks`, `size` words apart; it picks `count` words. held: see `pick`. All but `vectors`, `kind` and
    sizes are addresses.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        running, vectors, kind, picks, size, per, width, count, held, words = args
        code = vector_code(builder)

        def finish(found: Any) -> None:
            with code.loop(0, code.number(vectors)) as v:
                bits = code.load(running, v, WORDS, unit=64)
                code.store(found(bits), running, v, unit=64)

        kind = code.number(kind)
        code.branch(kind, lambda: code.branch(kind - INTEGERS, lambda: finish(_narrowed)), lambda: finish(_one_nan))
        _pick(code, running, picks, held, words)
        with code.loop(1, code.number(per)) as e:
            more = _pick(code, running, (code.number(picks) + e * code.number(size) * 4).value, held)
            _join(code, more, code.number(count), code.short(e * code.number(width)), words)
        return context.get_dummy_value()

    kinds = [types.uint64, types.int64, types.int64, types.uint64, *[types.int64] * 4]
    return types.none(*kinds, types.uint64, types.uint64), codegen


def _join(code: Code, more: Any, count: Lanes, shift: Lanes, words: Any) -> None:
    """words[i] |= more[i] << shift."""

    def join(at: Lanes, kind: Any) -> None:
        places = shift if kind == WORD else shift.everywhere()
        value = code.load(words, at, kind, unit=4) | code.load(more, at, kind, unit=4).up(places)
        code.store(value, words, at, unit=4)

    vectors = count.down(4)
    with code.loop(0, vectors) as v:
        join(v.up(4), WORDS)
    with code.loop(vectors.up(4), count) as i:
        join(i, WORD)


@intrinsic
def widen(typingctx, patterns, half, vectors, running):  # type: ignore[no-untyped-def]
    """Accumulators as float32 patterns: every NaN becomes the same, and -0 becomes +0, since no sum keeps it."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        patterns, half, vectors, running = args
        code = vector_code(builder)
        with code.loop(0, code.number(vectors)) as v:
            bits = Slot(code.load(patterns, v, WORDS, unit=64))
            code.branch(half, lambda: bits.set(_widened(bits.get())))
            found = bits.get()
            found = (found & QUIET).compare(">", INFINITY).choose(code.lanes(QUIET), found)
            code.store(found.compare("==", SIGN).choose(code.lanes(0), found), running, v, unit=64)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64, types.uint64), codegen


def _pick(code: Code, words: Any, picks: Any, held: Any, into: Any = None) -> Any:
    """Pick words as a table of `tcemu.kernels.picks` says; returns their address: `into`, or somewhere in `held`."""
    count, first, steps = (code.wide(code.load(picks, i, WORD, unit=4)) for i in range(3))
    if not whole_vectors_of_words():
        _gather(code, words, picks, count, held if into is None else into)
        return held if into is None else into
    last = steps.compare("==", 0).choose(steps, steps - count.down(4))
    into = (code.number(held) + last.up(6)).value if into is None else into

    def network() -> None:
        """The last steps leave their vectors in `into`, the others in `held`."""
        starts, rest = steps.up(4) + HEADER, (code.number(into) - last.up(6)).value
        _steps(code, picks, starts, words, held, code.long(0), first.smaller(last))
        _steps(code, picks, starts, words, rest, first.smaller(last), first)
        _steps(code, picks, starts, held, held, first, first.larger(last))
        _steps(code, picks, starts, held, rest, first.larger(last), steps)

    code.branch(steps, network, lambda: _gather(code, words, picks, count, into))
    return into


def _steps(code: Code, picks: Any, starts: Lanes, words: Any, into: Any, first: Lanes, stop: Lanes) -> None:
    """Steps of a network: each permutes two vectors into one."""
    with code.loop(first, stop) as i:
        low, high = (code.wide(code.load(picks, starts + i.up(1) + side, WORD, unit=4)) for side in (0, 1))
        low, high = (code.load(words, start, WORDS, unit=4) for start in (low, high))
        indices = code.load(picks, i.up(4) + HEADER, WORDS, unit=4)
        code.store(code.picked(low, high, indices), into, i, unit=64)


def _gather(code: Code, words: Any, picks: Any, count: Lanes, into: Any) -> None:
    """into[i] = words[picks[HEADER + i]]."""
    vectors = count.down(4)
    with code.loop(0, vectors) as v:
        picked = code.load(picks, v.up(4) + HEADER, WORDS, unit=4)
        code.store(code.gather(words, picked), into, v, unit=64)
    with code.loop(vectors.up(4), count) as i:
        at = code.wide(code.load(picks, i + HEADER, WORD, unit=4))
        code.store(code.load(words, at, WORD, unit=4), into, i, unit=4)


def _widened(bits: Lanes) -> Lanes:
    """The float32 patterns of float16 patterns."""
    size = bits & 0x7FFF
    normal = size.up(13) + 0x38000000
    normal = size.compare("<", 0x7C00).choose(normal, size.compare("==", 0x7C00).choose(size & 0 | INFINITY, QUIET))
    tiny = (size.converted() * 2.0**-24).bits()
    return size.compare("<", 0x400).choose(tiny, normal) | (bits.up(16) & SIGN)


def _one_nan(bits: Lanes) -> Lanes:
    """Results with a single NaN, and +0 for the -0 of a subnormal that passed and lost all its fraction bits."""
    bits = bits.compare("==", SIGN).choose(bits & 0, bits)
    return (bits & QUIET).compare(">", INFINITY).choose(bits & 0 | QUIET, bits)


def _narrowed(bits: Lanes) -> Lanes:
    """The float16 patterns of float32 patterns, to nearest even."""
    size = bits & QUIET
    normal = size - 0x38000000
    normal = (normal + 0xFFF + (normal.down(13) & 1)).down(13).smaller(0x7C00)
    # Adding 0.5, whose last place is that of a subnormal float16, turns the number into that subnormal.
    tiny = (size.floats() + 0.5).bits() - 0x3F000000
    found = size.compare("<", 0x38800000).choose(tiny, normal) | (bits.down(16) & 0x8000)
    return size.compare(">", INFINITY).choose(bits & 0 | 0x7FFF, found)
