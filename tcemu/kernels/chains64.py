"""Batches of binary64 chains, from registers into registers: a fused multiply-add for each k, in ascending order.

    eight lanes                         eight columns of B, of C and of D, side by side
    one row of A                        its elements for each k, each taken by all lanes

Index tables, which the layouts make once, say which register holds each element.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import int64, types, uint64
from numba.extending import intrinsic

from tcemu.kernels.binary64 import NEAREST, link
from tcemu.kernels.compiling import njit
from tcemu.kernels.registers import check_words, reach
from tcemu.kernels.simd import DOUBLE, LONG, Lanes, Slot, vector_code

Array = npt.NDArray[Any]

#: Columns that are computed at once.
LANES = 8

_INVALID, _QUIET, _QUIET_BIT = 0xFFF8 << 48, 0x7FFF << 48, 1 << 51
#: Patterns, in the type in which numba computes; the field of NaN and infinity.
_ZERO, _INFINITY, _MAGNITUDE, _FRACTION = np.uint64(0), np.uint64(0x7FF << 52), np.uint64((1 << 63) - 1), np.uint64(52)
_SPECIAL = 0x7FF
#: How much the sum of two exponent fields may exceed that of an addend which their products do not change.
_NEGLIGIBLE = 2 * 1022 - 1077
_DOUBLES, _LONGS = ir.VectorType(DOUBLE, LANES), ir.VectorType(LONG, LANES)


@intrinsic
def chains(typingctx, a, b, c, rows, depth, d):  # type: ignore[no-untyped-def]
    """d[m, lane] = fma(a[m, k], b[k, lane], c[m, lane]) for ascending k, to nearest even; NaN as in `binary64`.

    a (rows, depth), b (depth, 8), c and d (rows, 8): addresses of patterns.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        a, b, c, rows, depth, d = args
        code = vector_code(builder)
        depth = code.number(depth)

        def chain(m: Lanes, step: Any) -> Slot:
            running = Slot(code.load(c, m, _DOUBLES, unit=8 * LANES))
            with code.loop(0, depth) as k:
                x = code.load(a, m * depth + k, DOUBLE, unit=8).everywhere(LANES)
                running.set(step(x, code.load(b, k, _DOUBLES, unit=8 * LANES), running.get()))
            return running

        with code.loop(0, code.number(rows)) as m:
            running = chain(m, Lanes.times_plus)
            found = running.get()
            # A NaN stays a NaN to the end of its chain; only then does it matter which one it is.
            nan = code.any_set(found.compare("!=", found, unordered=True))

            def again(m: Lanes = m, running: Slot = running) -> None:
                running.set(chain(m, _careful).get())

            code.branch(nan, again)
            code.store(running.get(), d, m, unit=8 * LANES)
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, types.int64, types.int64, types.uint64), codegen


def _careful(x: Lanes, y: Lanes, addend: Lanes) -> Lanes:
    """x * y + addend with the silicon's choice of NaN: that of y, of the addend, of x, or of an invalid operation."""
    result = x.times_plus(y, addend)
    chosen = result.seen_as(_LONGS) & 0 | _INVALID
    for one in (x, addend, y):
        chosen = one.compare("!=", one, unordered=True).choose(one.seen_as(_LONGS) | _QUIET_BIT, chosen)
    return result.compare("==", result).choose(result, chosen.seen_as(_DOUBLES))


@njit(cache=True, nogil=True)
def _gathered(words, t, taken, room):  # type: ignore[no-untyped-def]
    """room[i] = words[t, taken[i]]."""
    for i in range(uint64(taken.size)):
        room[i] = words[t, uint64(taken[i])]


@njit(cache=True, nogil=True)
def _directed(a, b, c, rows, depth, mode, d):  # type: ignore[no-untyped-def]
    """`chains`, in a directed rounding."""
    for m in range(rows):
        for j in range(LANES):
            running = c[m * LANES + j]
            for k in range(depth):
                running = link(a[m * depth + k], b[k * LANES + j], running, mode)
            d[m * LANES + j] = running


@njit(cache=True, nogil=True)
def _largest(words, t):  # type: ignore[no-untyped-def]
    """The largest exponent field among the elements of tile t: each is less than 2^(field - 1022)."""
    found = _ZERO
    for i in range(uint64(words.shape[1])):
        found = max(found, words[t, i] & _INFINITY)
    return int64(found >> _FRACTION)


@njit(cache=True, nogil=True)
def _keeps(a, b, c, t):  # type: ignore[no-untyped-def]
    """Whether D is C in tile t, because each product is less than half the distance of an element of C to the next.

    An element with exponent field e >= 2 has a distance of at least 2^(e - 1076), those below it 2^-1074. A zero may
    change its sign, and a NaN its pattern. To multiply subnormal numbers takes a processor many times longer than this.
    """
    largest_a, largest_b = _largest(a, t), _largest(b, t)
    if max(largest_a, largest_b) == _SPECIAL or largest_a + largest_b > _SPECIAL + _NEGLIGIBLE:
        return False
    smallest = _INFINITY
    for i in range(uint64(c.shape[1])):
        magnitude = c[t, i] & _MAGNITUDE
        if magnitude == _ZERO or magnitude > _INFINITY:
            return False
        smallest = min(smallest, magnitude)
    least = int64(smallest >> _FRACTION)
    return largest_a + largest_b <= max(int64(2), least) + _NEGLIGIBLE


@njit(cache=True, nogil=True)
def _keep(c, t, of_c, of_d, d):  # type: ignore[no-untyped-def]
    """D = C in tile t; the tables are those of `run`."""
    for i in range(uint64(d.shape[1])):
        result = uint64(of_d[i]) if of_d.size else i
        d[t, i] = c[t, uint64(of_c[result]) if of_c.size else result]


@njit(cache=True, nogil=True)
def run(a, b, c, of_a, of_b, of_c, of_d, rooms, groups, rows, depth, mode, d):  # type: ignore[no-untyped-def]
    """d[t] = the results of tile t, for registers a, b, c and d (tiles, words).

    of_a, of_b, of_c: the register of each element, in the order of `chains`, for all groups of eight columns; of_d: for
    each register, the number of the result. To nearest, one of them may be empty: the registers are in that order.
    rooms: words for what is gathered by each of them. The caller makes them, because numba frees an array after its
    last use, and does not count the uses of its address.
    """
    room_a, room_b, room_c, room_d = rooms
    size = uint64(8)
    held_a, held_b, held_c, held_d = (
        uint64(room_a.ctypes.data), uint64(room_b.ctypes.data), uint64(room_c.ctypes.data), uint64(room_d.ctypes.data)
    )  # fmt: skip
    from_a, from_b, from_c, to_d = (
        uint64(a.ctypes.data), uint64(b.ctypes.data), uint64(c.ctypes.data), uint64(d.ctypes.data)
    )  # fmt: skip
    step_a, step_b, step_c = uint64(a.shape[1]) * size, uint64(b.shape[1]) * size, uint64(c.shape[1]) * size
    step_d = uint64(d.shape[1]) * size
    for t in range(d.shape[0]):
        if mode == NEAREST and _keeps(a, b, c, t):
            _keep(c, t, of_c, of_d, d)
            continue
        _gathered(a, t, of_a, room_a)
        _gathered(b, t, of_b, room_b)
        _gathered(c, t, of_c, room_c)
        at = uint64(t)
        at_a = held_a if of_a.size else from_a + at * step_a
        at_b = held_b if of_b.size else from_b + at * step_b
        at_c = held_c if of_c.size else from_c + at * step_c
        at_d = held_d if of_d.size else to_d + at * step_d
        for group in range(groups):
            g = uint64(group)
            if mode == NEAREST:
                chains(
                    at_a, at_b + g * uint64(depth * LANES) * size, at_c + g * uint64(rows * LANES) * size, rows, depth,
                    at_d + g * uint64(rows * LANES) * size,
                )  # fmt: skip
            else:
                columns, outputs = group * depth * LANES, group * rows * LANES
                _directed(room_a, room_b[columns:], room_c[outputs:], rows, depth, mode, room_d[outputs:])
        for i in range(uint64(of_d.size)):
            d[t, i] = room_d[uint64(of_d[i])]


@dataclass(frozen=True, eq=False)
class Chains64:
    """A batched product D = A B + C by chains of multiply-adds, with the place of every element known in advance.

    shape: (m, n, k) of a tile. a, b, c: the register of each element, in C order; d: the element in each register.
    """

    shape: tuple[int, int, int]
    mode: int
    a: Array
    b: Array
    c: Array
    d: Array

    @cached_property
    def _reach(self) -> list[int]:
        return [*(reach(each) for each in (self.a, self.b, self.c)), self.d.size]

    @cached_property
    def tables(self) -> tuple[Array, ...]:
        """What `run` takes as of_a, of_b, of_c and of_d. Columns after the last one repeat others."""
        m, n, k = self.shape
        lanes = (np.arange(-(-n // LANES) * LANES) % n).reshape(-1, 1, LANES)
        outputs = (np.arange(m)[:, None] * n + lanes).ravel()
        where = np.empty(m * n, np.int64)
        where[outputs[::-1]] = np.arange(outputs.size)[::-1]
        columns = (np.arange(k)[:, None] * n + lanes).ravel()
        found = self.a.ravel(), self.b.ravel()[columns], self.c.ravel()[outputs], where[self.d.ravel()]
        sizes = m * k, columns.size, outputs.size, outputs.size
        return tuple(self._unless_ascending(each, size) for each, size in zip(found, sizes, strict=True))

    def _unless_ascending(self, taken: Array, size: int) -> Array:
        """A table; empty if it says what is so without it, for all the numbers that `chains` reads or writes."""
        needless = self.mode == NEAREST and np.array_equal(taken, np.arange(size))
        return np.empty(0, np.uint32) if needless else taken.astype(np.uint32)

    def __call__(self, a: Array, b: Array, c: Array, *, out: Array | None = None) -> Array:
        """D as uint64 words (tiles, words), from contiguous words of A, B and C; into `out` or a new array."""
        d = np.empty((len(c), self.d.size), np.uint64) if out is None else out
        check_words(np.uint64, self._reach, (a, b, c, d))
        m, n, k = self.shape
        groups, tables = -(-n // LANES), self.tables
        sizes = *(table.size for table in tables[:3]), groups * m * LANES
        rooms = tuple(np.empty(size, np.uint64) for size in sizes)
        run(a, b, c, *tables, rooms, groups, m, k, self.mode, d)
        return d
