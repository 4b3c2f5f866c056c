"""Matrix products by chains of float32 multiply-adds whose results are added, one instruction after another."""

from __future__ import annotations

from typing import Any

from numba import int64, types, uint64
from numba.extending import intrinsic

from tcemu.kernels.compiling import njit
from tcemu.kernels.lanes import REAL, REALS, WIDTH, WORD, Lanes
from tcemu.kernels.rule import ROWS
from tcemu.kernels.simd import Code, Slot, vector_code


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
        running = [Slot(code.load(self.c, place, REALS, unit=4)) for place in places]
        with code.each(steps) as step:
            with code.each(self.chains) as chain:
                sums = [Slot(self.start) for _ in range(ROWS)]
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
    def _round(running: list[Slot]) -> None:
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
