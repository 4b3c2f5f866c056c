"""Elements between registers and vectors: words in, patterns of sixteen elements; results out, as words again."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.simd import SIGN, WORD, WORDS, Code, Lanes, Slot, vector_code
from tcemu.kernels.sums import INFINITY, QUIET


@intrinsic
def load(typingctx, words, picked, count, source, bits, vectors, mask, flip, held, patterns):  # type: ignore[no-untyped-def]
    """patterns[v, j] = words[picked[source[v], j]] >> bits[v, j] & mask ^ flip, for `vectors` vectors v of 16 lanes j.

    All but counts, mask and flip are addresses of 32-bit words. `count` words are picked; `held` has room for them.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        words, picked, count, source, bits, vectors, mask, flip, held, patterns = args
        code = vector_code(builder)
        _pick(code, words, picked, code.number(count), held)
        mask, flip = (code.short(code.number(each)).everywhere() for each in (mask, flip))
        with code.loop(0, code.number(vectors)) as v:
            word = code.load(held, code.wide(code.load(source, v, WORD, unit=4)), WORDS, unit=64)
            code.store(word.down(code.load(bits, v, WORDS, unit=64)) & mask ^ flip, patterns, v, unit=64)
        return context.get_dummy_value()

    kinds = [types.uint64, types.uint64, types.int64, types.uint64, types.uint64, *[types.int64] * 3]
    return types.none(*kinds, types.uint64, types.uint64), codegen


@intrinsic
def store(typingctx, running, vectors, half, out, per, width, count, words):  # type: ignore[no-untyped-def]
    """words[i] = the results out[e, i] for e < per, `width` bits each; changes `running`, `vectors` times 16 patterns.

    A float16 is converted from a float32, exactly or rounded to nearest. All but counts are addresses.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        running, vectors, half, out, per, width, count, words = args
        code = vector_code(builder)

        def finish(v: Lanes, found: Any) -> None:
            bits = code.load(running, v, WORDS, unit=64)
            code.store(found(bits), running, v, unit=64)

        def narrow() -> None:
            with code.loop(0, code.number(vectors)) as v:
                finish(v, _narrowed)

        def plain() -> None:
            with code.loop(0, code.number(vectors)) as v:
                finish(v, _one_nan)

        code.branch(half, narrow, plain)
        number, bits = code.number(count), code.short(code.number(width))
        _pick(code, running, out, number, words)
        with code.loop(1, code.number(per)) as e, code.loop(0, number) as i:
            one = code.load(running, code.wide(code.load(out, e * number + i, WORD, unit=4)), WORD, unit=4)
            so_far = code.load(words, i, WORD, unit=4)
            code.store(so_far | one.up(code.short(e) * bits), words, i, unit=4)
        return context.get_dummy_value()

    kinds = [types.uint64, types.int64, types.int64, types.uint64, types.int64, types.int64, types.int64]
    return types.none(*kinds, types.uint64), codegen


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


def _pick(code: Code, words: Any, picked: Any, count: Lanes, into: Any) -> None:
    """into[i] = words[picked[i]]."""
    vectors = count.down(4)
    with code.loop(0, vectors) as v:
        code.store(code.gather(words, code.load(picked, v, WORDS, unit=64)), into, v, unit=64)
    with code.loop(vectors.up(4), count) as i:
        at = code.wide(code.load(picked, i, WORD, unit=4))
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
