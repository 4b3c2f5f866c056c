"""Sums of products that need no alignment, for a block of outputs as in `tcemu.kernels.blocks`: integers, and bits.

Small integers are float32 values here: a sum of so few of their products is exact, and a processor multiplies and adds
floats faster.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from tcemu.kernels.lanes import LONG, REAL, REALS, WORD, WORDS, Lanes
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Slot, vector_code

#: Products that are summed in float32: 256 products of bytes are below 2^24.
EXACT = 256


@intrinsic
def integers(typingctx, patterns, form, vectors, values):  # type: ignore[no-untyped-def]
    """values[v] = the patterns[v], small integers whose sign bit (or 0) is at `form`, as float32; pruned ones are 0."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        patterns, form, vectors, values = args
        code = vector_code(builder)
        sign = code.short(code.load(form, 0, LONG, unit=8)).everywhere()
        with code.each(vectors) as v:
            pattern = code.load(patterns, v, WORDS, unit=64)
            value = (pattern ^ sign) - sign
            value = pattern.compare("==", -1).choose(code.lanes(0), value)
            code.store(value.converted(), values, v, unit=64)
        return context.get_dummy_value()

    return types.none(types.uint64, types.uint64, types.int64, types.uint64), codegen


@intrinsic
def integer_block(typingctx, x, y, c, depth, clamp):  # type: ignore[no-untyped-def]
    """c[row, lane] += the sum of x[k, lane] * y[k, row] in 32 bits, wrapping, or with `clamp` clamped once at the end.

    x (depth, 16) and y (depth, 4): addresses of values as `integers` gives them; c (4, 16): of int32.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, y, c, depth, clamp = args
        code = vector_code(builder)
        depth = code.number(depth)
        totals = [Slot(code.lanes(0)) for _ in range(ROWS)]
        with code.loop(0, (depth + (EXACT - 1)).down(EXACT.bit_length() - 1)) as part:
            first = part * EXACT
            sums = [Slot(code.lanes(0.0, REAL)) for _ in range(ROWS)]
            with code.loop(first, (first + EXACT).smaller(depth)) as k:
                left = code.load(x, k, REALS, unit=64)
                for row, so_far in enumerate(sums):
                    right = code.load(y, k.up(2) + row, REAL, unit=4).everywhere()
                    so_far.set(left.exactly_times_plus(right, so_far.get()))
            for total, so_far in zip(totals, sums, strict=True):
                total.set(total.get() + so_far.get().truncated())
        for row, total in enumerate(totals):
            given, added = code.load(c, row, WORDS, unit=64), total.get()
            found = Slot(given + added)

            def clamped(given: Lanes = given, added: Lanes = added, found: Slot = found) -> None:
                found.set(_clamped(given, added, found.get()))

            code.branch(clamp, clamped)
            code.store(found.get(), c, row, unit=64)
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, types.int64, types.int64), codegen


def _clamped(x: Lanes, y: Lanes, wrapped: Lanes) -> Lanes:
    """x + y without overflow, from the sum that may have wrapped."""
    overflow = ((x ^ wrapped) & (y ^ wrapped)).compare("<", 0)
    return overflow.choose(x.sign() ^ 0x7FFFFFFF, wrapped)


@intrinsic
def bit_block(typingctx, x, y, c, depth, exclusive):  # type: ignore[no-untyped-def]
    """c[row, lane] += the number of ones in x[k, lane] xor (or and) y[k, row] over words k, wrapping; addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, y, c, depth, exclusive = args
        code = vector_code(builder)

        def count(join: Any) -> None:
            for row in range(ROWS):
                total = Slot(code.load(c, row, WORDS, unit=64))
                with code.loop(0, code.number(depth)) as k:
                    right = code.load(y, k.up(2) + row, WORD, unit=4).everywhere()
                    both = join(code.load(x, k, WORDS, unit=64), right)
                    total.set(total.get() + both.ones())
                code.store(total.get(), c, row, unit=64)

        code.branch(exclusive, lambda: count(lambda x, y: x ^ y), lambda: count(lambda x, y: x & y))
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, types.int64, types.int64), codegen
