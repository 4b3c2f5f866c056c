"""Binary64 at another scale, where numbers are normal that are subnormal otherwise; eight lanes, explicit vectors."""

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_name
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.lanes import DOUBLE, DOWN, LONG, UP, Lanes, whole_vectors_of_words
from tcemu.kernels.simd import Code, Slot, vector_code

#: Lanes of a vector of 64-bit numbers.
LANES = 8
DOUBLES, LONGS = ir.VectorType(DOUBLE, LANES), ir.VectorType(LONG, LANES)
_NEGATIVE, _POSITIVE = -(1 << 63), (1 << 63) - 1
#: Bits of the significand that a pattern holds.
BITS = 52

# Subnormal numbers take some processors a hundred times as long. There, a tile with some is computed at another scale,
# where they are normal: A and B times 2^RAISE each, C and the chains times 2^(2 RAISE). Only the rounding does not
# move: what is subnormal in the end is rounded to multiples of the smallest subnormal number, the unit.
RAISE = 200
#: The least normal number at the other scale. Numbers from here to its double have the unit as their last place.
LEAST = 2.0 ** (2 * RAISE - 1022)


def subnormals_are_slow() -> bool:
    """Whether this processor takes long for subnormal numbers. Intel's do, AMD's do not (measured: Xeon and Zen 4)."""
    return not _processor().startswith("znver")


@cache
def _processor() -> str:
    """LLVM's name for it."""
    return str(get_host_cpu_name())


def in_units(x: Lanes, y: Lanes, addend: Lanes, near: Lanes, cut: Lanes) -> Lanes:
    """x * y + addend at the scale of RAISE, rounded to units if it is tiny; `near`: the pattern of what it is about.

    A sum between LEAST and its double is rounded to units. To get there, a tiny result is added to another number:
    LEAST if the result and the addend differ in sign, else 2 LEAST. It has the sign that the addend has not, so that
    its sum with the addend is exact. Where the processor rounds toward zero (`cut`), a total with the other sign than
    the result would be rounded the wrong way; so it is rounded down or up, by the sign of the result.
    """
    held = addend.seen_as(LONGS)
    alike = ~(near ^ held) & _NEGATIVE
    other = (((~held & _NEGATIVE) | _pattern(LEAST)) + alike.down(63 - BITS)).seen_as(DOUBLES)
    code, both = Code(x.builder), addend + other
    total = Slot(x.times_plus(y, both))
    if whole_vectors_of_words():

        def toward_zero() -> None:
            up, down = (x.times_plus_rounded(y, both, rounding) for rounding in (UP, DOWN))
            total.set(near.compare("<", 0).choose(up, down))

        code.branch(cut, toward_zero)
    # Rounded down, the difference of equal numbers is -0.
    return (size(total.get() - other).seen_as(LONGS) | (near & _NEGATIVE)).seen_as(DOUBLES)


def size(value: Lanes) -> Lanes:
    """Numbers without their sign."""
    return (value.seen_as(LONGS) & _POSITIVE).seen_as(DOUBLES)


def _pattern(value: float) -> int:
    return int(np.float64(value).view(np.int64))


@intrinsic
def subnormal(typingctx, a, b, c, vectors_a, vectors_b, vectors_c):  # type: ignore[no-untyped-def]
    """Not 0 if any of so many vectors at these three addresses has a subnormal number, or the least normal one."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        lows = Slot(code.lanes(-1, LONG, LANES))
        for words, vectors in zip(args[:3], args[3:], strict=True):
            with code.loop(0, code.number(vectors)) as i:
                size = code.load(words, i, LONGS, unit=8 * LANES) & _POSITIVE
                # One less than a zero is, unsigned, above everything.
                lows.set((size - 1).smaller(lows.get(), unsigned=True))
        return code.number_of_any(lows.get().compare("<", 1 << BITS, unsigned=True))

    return types.int64(*[types.uint64] * 3, *[types.int64] * 3), codegen


@intrinsic
def largest(typingctx, words, vectors):  # type: ignore[no-untyped-def]
    """The largest exponent field in so many vectors at an address."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        words, vectors = args
        code = vector_code(builder)
        tops = Slot(code.lanes(0, LONG, LANES))
        with code.loop(0, code.number(vectors)) as i:
            tops.set((code.load(words, i, LONGS, unit=8 * LANES) & _POSITIVE).larger(tops.get()))
        return code.largest(tops.get()).down(BITS).value

    return types.int64(types.uint64, types.int64), codegen


@intrinsic
def raise_to(typingctx, words, vectors, places, into):  # type: ignore[no-untyped-def]
    """into = words * 2^places for so many vectors of eight finite numbers; words and into are addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        words, vectors, places, into = args
        code = vector_code(builder)
        more = code.number(places).up(BITS).everywhere(LANES)
        unit = (more - ((1074 - 1023) << BITS)).seen_as(DOUBLES)
        with code.loop(0, code.number(vectors)) as i:
            x = code.load(words, i, LONGS, unit=8 * LANES)
            size = x & _POSITIVE
            # A subnormal number's pattern counts its units.
            counted = ((size | _pattern(2.0**BITS)).seen_as(DOUBLES) - 2.0**BITS) * unit
            # Rounded down, the difference of equal numbers is -0.
            found = size.compare("<", 1 << BITS).choose(counted.seen_as(LONGS) & _POSITIVE, size + more)
            code.store(found | (x & _NEGATIVE), into, i, unit=8 * LANES)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64, types.uint64), codegen


@intrinsic
def signs_of(typingctx, words, vectors, power, into):  # type: ignore[no-untyped-def]
    """into = 2^power with the sign of each number; zeros stay. For so many vectors of eight; words, into: addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        words, vectors, power, into = args
        code = vector_code(builder)
        some = (code.number(power) + 1023).up(BITS).everywhere(LANES)
        with code.loop(0, code.number(vectors)) as i:
            x = code.load(words, i, LONGS, unit=8 * LANES)
            one = (x & _POSITIVE).compare("==", 0).choose(code.lanes(0, LONG, LANES), some)
            code.store(one | (x & _NEGATIVE), into, i, unit=8 * LANES)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.int64, types.uint64), codegen


@intrinsic
def lower(typingctx, words, vectors):  # type: ignore[no-untyped-def]
    """Bring so many vectors of results at the scale of RAISE, at an address, back to the usual one."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        words, vectors = args
        code = vector_code(builder)
        with code.loop(0, code.number(vectors)) as i:
            x = code.load(words, i, LONGS, unit=8 * LANES)
            size = x & _POSITIVE
            counted = (size.seen_as(DOUBLES) + LEAST).seen_as(LONGS) - _pattern(LEAST)
            found = size.compare("<", _pattern(LEAST)).choose(counted, size - (2 * RAISE << BITS))
            code.store(found | (x & _NEGATIVE), words, i, unit=8 * LANES)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64), codegen
