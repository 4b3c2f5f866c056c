"""Chains of ordinary f32 fused multiply-adds on tiles, their results added in a given order."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from tcemu.kernels.compiling import njit
from tcemu.kernels.fused import FINITE, _round, _unpack
from tcemu.kernels.lanes import HALVES, REAL, REALS, WORDS
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Slot, vector_code
from tcemu.kernels.sums import QUIET

#: The float32 patterns of +0, and of -0: a product added to it is the product itself, its sign of zero included.
FROM_ZERO, FROM_PRODUCT = 0, 1 << 31


@intrinsic
def widen_halves(typingctx, patterns, vectors, values):  # type: ignore[no-untyped-def]
    """values[v] = the float16 in the lower halves of the words patterns[v], as float32; both are addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        patterns, vectors, values = args
        code = vector_code(builder)
        with code.each(vectors) as v:
            halves = code.load(patterns, v, WORDS, unit=64).shorts().seen_as(HALVES)
            code.store(halves.as_wide_reals(), values, v, unit=64)
        return context.get_dummy_value()

    return types.none(types.uint64, types.int64, types.uint64), codegen


@intrinsic
def chain_block(typingctx, x, y, c, per, chains, start):  # type: ignore[no-untyped-def]
    """c[row, lane] += chains of `per` multiply-adds of x[k, lane] and y[k, row], one after the other, to nearest.

    x (k, 16), y (k, 4) and c (4, 16): addresses of float32. start: the pattern from which every chain starts.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, y, c, per, chains, start = args
        code = vector_code(builder)
        per, first = code.number(per), code.short(code.number(start)).everywhere().floats()
        totals = [Slot(code.load(c, row, REALS, unit=64)) for row in range(ROWS)]
        with code.each(chains) as chain:
            running = [Slot(first) for _ in range(ROWS)]
            with code.each(per) as i:
                k = chain * per + i
                left = code.load(x, k, REALS, unit=64)
                for row, so_far in enumerate(running):
                    right = code.load(y, k.up(2) + row, REAL, unit=4).everywhere()
                    so_far.set(left.times_plus(right, so_far.get()))
            for total, so_far in zip(totals, running, strict=True):
                total.set(total.get() + so_far.get())
        for row, total in enumerate(totals):
            found = total.get()
            code.store(found.compare("==", found).choose(found.bits(), QUIET), c, row, unit=64)
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, *[types.int64] * 3), codegen


@intrinsic
def _fma32(typingctx, a, b, c):  # type: ignore[no-untyped-def]
    """a * b + c of three float32, rounded once to nearest: LLVM's llvm.fma.f32."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.fma(*args)

    return types.float32(types.float32, types.float32, types.float32), codegen


@intrinsic
def _value32(typingctx, x):  # type: ignore[no-untyped-def]
    """The float32 of a uint32 pattern."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.uint32), codegen


@intrinsic
def _bits32(typingctx, x):  # type: ignore[no-untyped-def]
    """The pattern of a float32 as uint32."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.bitcast(args[0], ir.IntType(32))

    return types.uint32(types.float32), codegen


@njit(cache=True, nogil=True)
def _convert(pattern, source, target):  # type: ignore[no-untyped-def]
    """The pattern of a number in another format, to nearest even; a NaN has all mantissa bits."""
    significand, exponent, kind = _unpack(pattern, source)
    sign = ((np.int64(pattern) >> (source[0] + source[1])) & 1) << (target[0] + target[1])
    infinity = ((np.int64(1) << target[0]) - 1) << target[1]
    if kind != FINITE:
        return sign | infinity if kind == 1 else infinity | ((np.int64(1) << target[1]) - 1)
    return sign | _round(abs(significand), exponent - source[1], target, target[1], True)


@njit(cache=True, nogil=True)
def add_groups(a, b, c, d, fmt_a, fmt_b, fmt_c, fmt_d, single, group, order, from_zero, nan):  # type: ignore[no-untyped-def]
    """d[w] = a[w] @ b[w] + c[w]: k belongs to chain group[k]; `order` lists the chains to add, and -1 for c.

    `single` is the f32 format; `nan` is the result's only NaN.
    """
    tiles, rows, depth = a.shape
    columns = b.shape[2]
    sums = np.empty(order.size - 1, np.float32)
    started = np.empty(order.size - 1, np.bool_)
    left, right = np.empty((rows, depth), np.float32), np.empty((columns, depth), np.float32)
    for w in range(tiles):
        for k in range(depth):
            for m in range(rows):
                left[m, k] = _value32(np.uint32(_convert(a[w, m, k], fmt_a, single)))
            for n in range(columns):
                right[n, k] = _value32(np.uint32(_convert(b[w, k, n], fmt_b, single)))
        for m in range(rows):
            for n in range(columns):
                sums[:] = 0.0
                started[:] = from_zero
                for k in range(depth):
                    x, y, g = left[m, k], right[n, k], group[k]
                    sums[g] = _fma32(x, y, sums[g]) if started[g] else x * y
                    started[g] = True
                addend = _value32(np.uint32(_convert(c[w, m, n], fmt_c, single)))
                total = addend if order[0] < 0 else sums[order[0]]
                for i in range(1, order.size):
                    total = total + (addend if order[i] < 0 else sums[order[i]])
                pattern = _convert(np.int64(_bits32(total)), single, fmt_d)
                d[w, m, n] = nan if total != total else pattern
