"""Chains of ordinary float32 multiply-adds, as GPUs compute instructions for which they have no tensor cores.

The results of some chains are added to C, one after the other, or in another given order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int64, types, uint32, uint64
from numba.extending import intrinsic

from tcemu.kernels.batch.abi import Packed
from tcemu.kernels.emit.code import Code, Variable, bits32, multiply_add, value32, vector_code
from tcemu.kernels.emit.lanes import HALVES, REAL, REALS, WIDTH, WORD, WORDS, Lanes
from tcemu.kernels.exact import converted
from tcemu.kernels.host.compiling import njit
from tcemu.kernels.host.threads import Corner, check_shapes, share_matrix
from tcemu.kernels.sums import QUIET, ROWS

Array = npt.NDArray[Any]
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
    """c[row, lane] += chains of `per` multiply-adds of x[k, lane] and y[k, half, row], one after the other, to nearest.

    x (k, 16), y (k, 2, 4) and c (4, 16): addresses of float32. Each half of the lanes belongs to a product of its own.
    start: the pattern from which every chain starts.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, y, c, per, chains, start = args
        code = vector_code(builder)
        per, first = code.number(per), code.short(code.number(start)).everywhere().floats()
        operands = Packed(code, x, None, None, y, None, None, c, pairs=True)
        totals = [Variable(each.floats()) for each in operands.initial()]
        with code.each(chains) as chain:
            running = [Variable(first) for _ in range(ROWS)]
            with code.each(per) as i:
                k = chain * per + i
                for row, so_far in enumerate(running):
                    so_far.set(operands.x(k).times_plus(operands.y(k, row), so_far.get()))
            for total, so_far in zip(totals, running, strict=True):
                total.set(total.get() + so_far.get())
        sums = [total.get() for total in totals]
        operands.put([each.compare("==", each).choose(each.bits(), QUIET) for each in sums])
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, *[types.int64] * 3), codegen


class _Chains:
    """The loop over instructions for four rows of sixteen columns, while it is emitted."""

    def __init__(self, code: Code, operands: tuple[Any, ...], sizes: tuple[Any, ...], chains: tuple[Any, ...]) -> None:
        self.code, (self.a, self.b, self.c) = code, operands
        self.k, self.n = (code.number(each) for each in sizes)
        self.order, *counts, start, half = chains
        self.chains, self.per = (code.number(each) for each in counts)
        self.depth = self.chains * self.per
        self.start, self.half = code.short(code.number(start)).everywhere().floats(), code.number(half)

    def emit(self, m: Lanes, n: Lanes, steps: Lanes) -> None:
        """All instructions, for rows from m and columns from n on."""
        code, places = self.code, [(m + row) * self.n + n for row in range(ROWS)]
        running = [Variable(code.load(self.c, place, REALS, unit=4)) for place in places]
        with code.each(steps) as step:
            with code.each(self.chains) as chain:
                sums = [Variable(self.start) for _ in range(ROWS)]
                with code.each(self.per) as i:
                    k = step * self.depth + code.wide(code.load(self.order, chain * self.per + i, WORD, unit=4))
                    x = code.load(self.b, k * self.n + n, REALS, unit=4)
                    for row, so_far in enumerate(sums):
                        y = code.load(self.a, (m + row) * self.k + k, REAL, unit=4).everywhere()
                        so_far.set(x.times_plus(y, so_far.get()))
                for total, so_far in zip(running, sums, strict=True):
                    total.set(total.get() + so_far.get())
            code.branch(self.half, lambda: self._round(running))
        for place, total in zip(places, running, strict=True):
            code.store(total.get(), self.c, place, unit=4)

    @staticmethod
    def _round(running: list[Variable]) -> None:
        for each in running:
            each.set(each.get().as_halves().as_wide_reals())


@intrinsic
def _block(typingctx, a, b, c, k, n, order, chains, per, start, half, row, column, steps):  # type: ignore[no-untyped-def]
    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code, operands, sizes, chains = vector_code(builder), args[:3], args[3:5], args[5:10]
        row, column, steps = (code.number(each) for each in args[10:])
        _Chains(code, tuple(operands), tuple(sizes), tuple(chains)).emit(row, column, steps)
        return context.get_dummy_value()

    address, long = types.uint64, types.int64
    return types.none(*[address] * 3, long, long, address, *[long] * 7), codegen


@njit(cache=True, nogil=True, error_model="numpy")
def group_products(a, b, c, order, start, half, corner):  # type: ignore[no-untyped-def]
    """c = the results of a @ b + c, in place, for the rows and columns (first, last, first, last) of a corner.

    a (M, K), b (K, N), c (M, N): float32 in C order; M is a multiple of ROWS, N of WIDTH, and so are the corner's.
    order (chains, products): the k of each chain of an instruction, in the order in which their results are added to c,
    which `half` rounds to float16 each time. start: the float32 pattern from which they start.
    """
    at_a, at_b, at_c = uint64(a.ctypes.data), uint64(b.ctypes.data), uint64(c.ctypes.data)
    k, n, in_order, chains, per = a.shape[1], b.shape[1], uint64(order.ctypes.data), order.shape[0], order.shape[1]
    for column in range(corner[2], corner[3], WIDTH):
        for row in range(corner[0], corner[1], ROWS):
            steps = k // (chains * per)
            _block(
                at_a, at_b, at_c, k, n, in_order, chains, per, int64(start), int64(half), int64(row), int64(column),
                steps,
            )  # fmt: skip


def multiply(
    a: Array, b: Array, c: Array, *, order: Array, from_zero: bool, half: bool, threads: int | None = None
) -> npt.NDArray[np.float32]:
    """The values of a @ b + c by chains of float32 multiply-adds, whose results are added; all are float32 values.

    a (M, K), b (K, N), c (M, N); K is a multiple of the products of one instruction. order (chains, products): the k of
    each chain, in the order in which their results are added to c. from_zero: whether they start from +0, or from their
    first products. half: whether every instruction rounds its results to float16.
    """
    check_shapes(a, b, c)
    if order.size == 0 or a.shape[1] % order.size:
        raise ValueError(f"K = {a.shape[1]} in instructions of {order.size} products")
    rows, columns = -(-a.shape[0] // ROWS) * ROWS, -(-b.shape[1] // WIDTH) * WIDTH
    left, right, running = (
        np.zeros(shape, np.float32) for shape in ((rows, a.shape[1]), (b.shape[0], columns), (rows, columns))
    )
    for whole, matrix in ((left, a), (right, b), (running, c)):
        whole[: matrix.shape[0], : matrix.shape[1]] = matrix
    words, start = np.ascontiguousarray(order, np.uint32), FROM_ZERO if from_zero else FROM_PRODUCT

    def work(corner: Corner) -> None:
        group_products(left, right, running, words, start, half, corner)

    share_matrix(work, rows, columns, a.shape[1], threads)
    return running[: c.shape[0], : c.shape[1]]


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
                left[m, k] = value32(converted(a[w, m, k], fmt_a, single))
            for n in range(columns):
                right[n, k] = value32(converted(b[w, k, n], fmt_b, single))
        for m in range(rows):
            for n in range(columns):
                sums[:] = 0.0
                started.fill(from_zero)
                for k in range(depth):
                    x, y, g = left[m, k], right[n, k], group[k]
                    sums[g] = multiply_add(x, y, sums[g]) if started[g] else x * y
                    started[g] = True
                addend = value32(converted(c[w, m, n], fmt_c, single))
                total = addend if order[0] < 0 else sums[order[0]]
                for i in range(1, order.size):
                    total = total + (addend if order[i] < 0 else sums[order[i]])
                pattern = converted(bits32(total), single, fmt_d)
                d[w, m, n] = nan if total != total else pattern


@njit(cache=True, nogil=True, error_model="numpy")
def chains32(a, b, c):  # type: ignore[no-untyped-def]
    """c[m, n] = fma(a[m, k], b[k, n], c[m, n]) for ascending k, to nearest; uint32 patterns, NaN is 0x7FFFFFFF."""
    running = np.empty(c.shape[1], np.float32)
    right = b.view(np.float32)
    for m in range(a.shape[0]):
        for n in range(c.shape[1]):
            running[n] = value32(c[m, n])
        for k in range(a.shape[1]):
            x = value32(a[m, k])
            for n in range(c.shape[1]):
                running[n] = multiply_add(x, right[k, n], running[n])
        for n in range(c.shape[1]):
            c[m, n] = uint32(QUIET) if running[n] != running[n] else bits32(running[n])


@njit(cache=True, nogil=True, error_model="numpy")
def fma_tree(a, b, ks, parents, sums, first):  # type: ignore[no-untyped-def]
    """`exact.fused_tree` with a fused multiply-add for each product, to nearest; a and b are patterns of float32."""
    for node in range(first, ks.shape[0]):
        for e in range(a.shape[0]):
            running = value32(sums[parents[node], e]) if parents[node] >= 0 else np.float32(0.0)
            for i in range(ks.shape[1]):
                running = multiply_add(value32(a[e, ks[node, i]]), value32(b[e, ks[node, i]]), running)
            sums[node, e] = uint32(QUIET) if running != running else bits32(running)
