"""Batches of binary64 chains, from registers into registers: a fused multiply-add for each k, in ascending order.

    eight lanes                         eight columns of B, of C and of D, side by side
    four rows                           of A: an element of each for every k, taken by all lanes

Index tables, which the layouts make once, say which register holds each element. Rows and vectors of B are in an order
that is easy to make from the registers; A's elements are read where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int64, types, uint64
from numba.extending import intrinsic

from tcemu.kernels.binary64 import NEAREST, link
from tcemu.kernels.calls import call
from tcemu.kernels.compiling import njit
from tcemu.kernels.lanes import DOUBLE, LONG, WORD, Lanes
from tcemu.kernels.moves import pick_at
from tcemu.kernels.picks import picks
from tcemu.kernels.raised64 import (
    BITS,
    DOUBLES,
    LANES,
    LEAST,
    LONGS,
    RAISE,
    in_units,
    largest,
    lower,
    raise_to,
    size,
    subnormal,
)
from tcemu.kernels.registers import check_words, reach
from tcemu.kernels.rooms import Parts, aligned
from tcemu.kernels.sharing import PART, finish_some, share_tiles, take, wait_for_all
from tcemu.kernels.simd import Slot, vector_code

Array = npt.NDArray[Any]

#: Rows of columns that are computed at once, LANES of them.
ROWS = 4

_INVALID, _QUIET_BIT = 0xFFF8 << 48, 1 << 51
#: The exponent fields of A and B, both together, and of C may be so large that nothing overflows at the other scale.
_MOST, _MOST_TOGETHER, _MOST_ADDEND = 1800, 2500, 1500
#: In the type in which numba computes.
_ZERO, _EIGHT = np.uint64(0), np.uint64(8)

#: The places of the numbers that `run` reads: where the tables of a, b, c and d begin, or -1 if everything is in order;
#: where room begins for what is picked of a, b, c and d, and for a, b and c at the scale of RAISE, and all its words;
#: vectors of a, b and c; groups of columns, rows and products of a chain; where the tables begin that say where each
#: element of a is, and each vector of b.
TABLES, ROOMS, HIGH, ROOM, VECTORS, SIZES, INDICES, NUMBERS = 0, 4, 8, 11, 12, 15, 18, 20
#: Tiles whose registers are picked together.
TOGETHER = 8


class _Chains:
    """The chains of one group of columns, while they are emitted."""

    def __init__(self, builder: Any, places: Any, d: Any) -> None:
        self.code = vector_code(builder)
        (self.a, self.b, self.c, self.of_a, self.of_b, rows, depth), self.d = places, d
        self.rows, self.depth = self.code.number(rows), self.code.number(depth)
        self.found = Slot(self.code.lanes(0, LONG, LANES))

    def emit(self, step: Any) -> Any:
        """All chains by a step; returns whether something was noted, or there is a NaN: not 0."""
        self.found.set(self.code.lanes(0, LONG, LANES))
        with self.code.loop(0, self.rows.down(ROWS.bit_length() - 1)) as block:
            self._block(block * ROWS, step)
        return self.code.number_of_any(self.found.get().compare("!=", 0))

    def _block(self, first: Lanes, step: Any) -> None:
        """Rows from `first` on: they share the loads of B, and none waits for another."""
        code, unit = self.code, 8 * LANES
        running = [Slot(code.load(self.c, first + row, DOUBLES, unit=unit)) for row in range(ROWS)]
        with code.loop(0, self.depth) as k:
            y = code.load(self.b, self._index(self.of_b, k), DOUBLES, unit=unit)
            places = (self._index(self.of_a, (first + row) * self.depth + k) for row in range(ROWS))
            factors = [code.load(self.a, place, DOUBLE, unit=8).everywhere(LANES) for place in places]
            step(factors, y, running)
        for row, so_far in enumerate(running):
            code.store(so_far.get(), self.d, first + row, unit=unit)
            self._note(so_far.get().compare("!=", so_far.get(), unordered=True))

    def _index(self, table: Any, place: Lanes) -> Lanes:
        return self.code.wide(self.code.load(table, place, WORD, unit=4))

    def _note(self, where: Lanes) -> None:
        self.found.set(where.choose(self.code.lanes(1, LONG, LANES), self.found.get()))

    def in_units(self, factors: list[Lanes], y: Lanes, running: list[Slot]) -> None:
        """A step at the scale of RAISE, rounded as it is at the usual one; notes where that does not succeed."""
        addends = [each.get() for each in running]
        found = [x.times_plus(y, addend) for x, addend in zip(factors, addends, strict=True)]
        tiny = [size(near).compare("<", LEAST) for near in found]
        for so_far, near in zip(running, found, strict=True):
            so_far.set(near)

        def round_again() -> None:
            for so_far, x, addend, near, where in zip(running, factors, addends, found, tiny, strict=True):
                self._note(where.both(size(addend).compare(">=", LEAST * 2.0**BITS)))
                so_far.set(where.choose(in_units(x, y, addend, near.seen_as(LONGS)), near))

        self.code.branch(self.code.any_set(reduce(Lanes.either, tiny)), round_again)


@intrinsic
def chains(typingctx, a, b, c, of_a, of_b, rows, depth, raised, d):  # type: ignore[no-untyped-def]
    """d[m, lane] = fma(a[m, k], b[k, lane], c[m, lane]) for ascending k, to nearest even; NaN as in `binary64`.

    a, b, c and d (rows, 8): addresses of patterns; rows are a multiple of ROWS. of_a (rows, depth): the number of each
    element of a; of_b (depth): that of each vector of b. With `raised`, they are at the scale of RAISE, and finite;
    returns whether a chain could not be computed there: not 0.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        *places, raised, d = args
        emitted = _Chains(builder, places, d)
        lost = Slot(emitted.code.long(0))

        def usual() -> None:
            # A NaN stays a NaN to the end of its chain; only then does it matter which one it is.
            nan = emitted.emit(_each(Lanes.times_plus))
            emitted.code.branch(nan, lambda: emitted.emit(_each(_careful)))

        emitted.code.branch(raised, lambda: lost.set(emitted.code.number(emitted.emit(emitted.in_units))), usual)
        return lost.get().value

    return types.int64(*[types.uint64] * 5, *[types.int64] * 3, types.uint64), codegen


def _each(step: Callable[[Lanes, Lanes, Lanes], Lanes]) -> Callable[[list[Lanes], Lanes, list[Slot]], None]:
    """A step for all rows from that of one."""

    def steps(factors: list[Lanes], y: Lanes, running: list[Slot]) -> None:
        for x, so_far in zip(factors, running, strict=True):
            so_far.set(step(x, y, so_far.get()))

    return steps


def _careful(x: Lanes, y: Lanes, addend: Lanes) -> Lanes:
    """x * y + addend with the silicon's choice of NaN: that of y, of the addend, of x, or of an invalid operation."""
    result = x.times_plus(y, addend)
    chosen = result.seen_as(LONGS) & 0 | _INVALID
    for one in (x, addend, y):
        chosen = one.compare("!=", one, unordered=True).choose(one.seen_as(LONGS) | _QUIET_BIT, chosen)
    return result.compare("==", result).choose(result, chosen.seen_as(DOUBLES))


# ------------------------------------------------------------------------------------------------ many tiles


@njit(cache=True, nogil=True)
def _picked(tiles, words, step, table, vectors, room, pick):  # type: ignore[no-untyped-def]
    """What a table picks from some tiles, which is put in `room`, or without a table the tiles themselves.

    Returns its address, and the bytes from a tile to the next.
    """
    if not table:
        return words, step
    apart = 8 * LANES * vectors
    call(pick, (tiles, words, int64(step), table, room, apart))
    return room, uint64(apart)


@njit(cache=True, nogil=True)
def _chained(a, b, c, of, groups, rows, depth, raised, d):  # type: ignore[no-untyped-def]
    """`chains` for all groups of eight columns; of: the addresses of its two tables."""
    lost, columns, outputs = int64(0), uint64(depth * LANES) * _EIGHT, uint64(rows * LANES) * _EIGHT
    for group in range(uint64(groups)):
        here = group * outputs
        lost |= chains(a, b + group * columns, c + here, of[0], of[1], rows, depth, raised, d + here)
    return lost != 0


@njit(cache=True, nogil=True)
def _high(a, b, c, of, of_a, of_b, of_c, into_a, into_b, into_c, groups, rows, depth, d):  # type: ignore[no-untyped-def]
    """The same at the scale of RAISE if there are subnormal numbers and that succeeds.

    of_a, of_b, of_c: vectors of each; into_a, into_b, into_c: room for them at that scale.
    """
    if not subnormal(a, b, c, of_a, of_b, of_c):
        return False
    largest_a, largest_b = largest(a, of_a), largest(b, of_b)
    if max(largest_a, largest_b) > _MOST or largest_a + largest_b > _MOST_TOGETHER or largest(c, of_c) > _MOST_ADDEND:
        return False
    raise_to(a, of_a, int64(RAISE), into_a)
    raise_to(b, of_b, int64(RAISE), into_b)
    raise_to(c, of_c, int64(2 * RAISE), into_c)
    if _chained(into_a, into_b, into_c, of, groups, rows, depth, int64(1), d):
        return False
    lower(d, of_c)
    return True


@njit(cache=True, nogil=True)
def _at(base, number):  # type: ignore[no-untyped-def]
    """The address `number` 32-bit words after `base`; 0 if `number` is negative."""
    return base + uint64(number) * uint64(4) if number >= 0 else _ZERO


@njit(cache=True, nogil=True)
def run(a, b, c, tables, numbers, scratch, d, pick, sharing, wait):  # type: ignore[no-untyped-def]
    """d[t] = the results, to nearest, of tiles t that nobody else has taken, for registers (tiles, words).

    tables: for a, b and c, which registers are picked, in the order of `chains`, for all groups of eight columns; for
    d, which results its registers hold; see `tcemu.kernels.picks`. numbers: see TABLES. scratch: numbers[ROOM] words of
    32 bits; the caller makes them, because numba frees an array after its last use, and does not count the uses of its
    address. pick: the address of `moves.pick`. sharing: from `share_tiles`. With `wait`, all tiles are done when it
    returns.
    """
    table, room = uint64(tables.ctypes.data), uint64(scratch.ctypes.data)
    table_a, table_b = _at(table, numbers[TABLES]), _at(table, numbers[TABLES + 1])
    table_c, table_d = _at(table, numbers[TABLES + 2]), _at(table, numbers[TABLES + 3])
    of = _at(table, numbers[INDICES]), _at(table, numbers[INDICES + 1])
    in_a, in_b, in_c = _at(room, numbers[ROOMS]), _at(room, numbers[ROOMS + 1]), _at(room, numbers[ROOMS + 2])
    high_a, high_b, high_c = _at(room, numbers[HIGH]), _at(room, numbers[HIGH + 1]), _at(room, numbers[HIGH + 2])
    in_d = _at(room, numbers[ROOMS + 3])
    of_a, of_b, of_c = numbers[VECTORS], numbers[VECTORS + 1], numbers[VECTORS + 2]
    groups, rows, depth = numbers[SIZES], numbers[SIZES + 1], numbers[SIZES + 2]
    from_a, from_b, from_c = uint64(a.ctypes.data), uint64(b.ctypes.data), uint64(c.ctypes.data)
    step_a, step_b, step_c = uint64(8 * a.shape[1]), uint64(8 * b.shape[1]), uint64(8 * c.shape[1])
    to_d, step_d, count = uint64(d.ctypes.data), uint64(8 * d.shape[1]), d.shape[0]
    shares, size = uint64(sharing.ctypes.data), int64(PART * TOGETHER)
    part = take(shares, size)
    while part < count:
        stop = min(part + size, count)
        for first in range(part, stop, TOGETHER):
            tiles, begin = min(TOGETHER, stop - first), uint64(first)
            x, of_x = _picked(tiles, from_a + begin * step_a, step_a, table_a, of_a, in_a, pick)
            y, of_y = _picked(tiles, from_b + begin * step_b, step_b, table_b, of_b, in_b, pick)
            addend, apart = _picked(tiles, from_c + begin * step_c, step_c, table_c, of_c, in_c, pick)
            into, bytes_of_d = to_d + begin * step_d, uint64(8 * LANES * of_c)
            results, of_d = (in_d, bytes_of_d) if table_d else (into, step_d)
            for tile in range(tiles):
                t = uint64(tile)
                left, right, start, found = x + t * of_x, y + t * of_y, addend + t * apart, results + t * of_d
                if not _high(
                    left, right, start, of, of_a, of_b, of_c, high_a, high_b, high_c, groups, rows, depth, found
                ):
                    _chained(left, right, start, of, groups, rows, depth, int64(0), found)
            if table_d:
                call(pick, (tiles, results, int64(of_d), table_d, into, int64(step_d)))
        finish_some(shares, stop - part)
        part = take(shares, size)
    if wait:
        wait_for_all(shares, count)


@njit(cache=True, nogil=True)
def run_directed(a, b, c, orders, groups, rows, depth, mode, d):  # type: ignore[no-untyped-def]
    """The same in a directed rounding. orders: the registers of a, b and c, and the results in those of d."""
    of_a, of_b, of_c, of_d = orders
    results = np.empty(of_c.size, np.uint64)
    for t in range(d.shape[0]):
        for group in range(groups):
            for m in range(rows):
                for j in range(LANES):
                    at = (group * rows + m) * LANES + j
                    running = c[t, of_c[at]]
                    for k in range(depth):
                        x, y = a[t, of_a[m * depth + k]], b[t, of_b[(group * depth + k) * LANES + j]]
                        running = link(x, y, running, mode)
                    results[at] = running
        for i in range(of_d.size):
            d[t, i] = results[of_d[i]]


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
    def _orders(self) -> tuple[Array, ...]:
        """The registers of a, b and c in the order of `chains`, and the result in each register of d.

        Rows and columns after the last one repeat others.
        """
        m, n, k = self.shape
        lanes = (np.arange(-(-n // LANES) * LANES) % n).reshape(-1, 1, LANES)
        # Rows as the registers have them, so that few vectors of registers give each vector of columns.
        rows = np.argsort(self.c.reshape(m, n)[:, 0])[np.arange(self._rows) % m][:, None]
        outputs = (rows * n + lanes).ravel()
        where = np.empty(m * n, np.int64)
        where[outputs[::-1]] = np.arange(outputs.size)[::-1]
        columns = (np.arange(k)[:, None] * n + lanes).ravel()
        factors = (rows * k + np.arange(k)).ravel()
        return self.a.ravel()[factors], self.b.ravel()[columns], self.c.ravel()[outputs], where[self.d.ravel()]

    @property
    def _rows(self) -> int:
        """The rows, filled up to whole blocks."""
        return -(-self.shape[0] // ROWS) * ROWS

    @cached_property
    def tables(self) -> tuple[Array, Array]:
        """The tables and numbers that `run` takes."""
        _, n, k = self.shape
        parts, orders = Parts(), list(self._orders)
        of_a = np.arange(orders[0].size)
        if self.a.size % LANES == 0 and np.array_equal(np.sort(self.a, axis=None), np.arange(self.a.size)):
            of_a, orders[0] = orders[0], np.arange(self.a.size)
        ks = np.argsort(self.b.reshape(k, n)[:, 0])
        orders[1] = orders[1].reshape(-1, k, LANES)[:, ks].ravel()
        found, numbers = [_table(order) for order in orders], np.zeros(NUMBERS, np.int64)
        numbers[TABLES:ROOMS] = [parts.add(table) if table.size else -1 for table in found]
        numbers[INDICES:] = parts.add(of_a), parts.add(np.argsort(ks))
        vectors = [-(-order.size // LANES) for order in orders]
        vectors[3] = vectors[2]  # results, also of rows and columns that repeat others
        together = TOGETHER * np.array([2 * LANES * count for count in vectors])
        sizes = [*together, *(2 * LANES * count for count in vectors[:3])]
        numbers[ROOMS:VECTORS] = np.cumsum([0, *sizes])
        numbers[VECTORS:SIZES], numbers[SIZES:INDICES] = vectors[:3], (-(-n // LANES), self._rows, k)
        return parts.together(), numbers

    def __call__(self, a: Array, b: Array, c: Array, *, out: Array | None = None, known: bool = False) -> Array:
        """D as uint64 words (tiles, words), from contiguous words of A, B and C; into `out` or a new array.

        known: arrays like these, contiguous and with these dtypes and shapes, have been checked by an earlier call.
        """
        d = np.empty((len(c), self.d.size), np.uint64) if out is None else out
        if not known:
            check_words(np.uint64, self._reach, (a, b, c, d))
        if self.mode == NEAREST:
            self._run_shared(a, b, c, d)
        else:
            _, n, k = self.shape
            run_directed(a, b, c, self._orders, -(-n // LANES), self._rows, k, self.mode, d)
        return d

    def _run_shared(self, a: Array, b: Array, c: Array, d: Array) -> None:
        tables, numbers = self.tables

        def compute(sharing: Array, wait: bool) -> None:
            run(a, b, c, tables, numbers, aligned(numbers[ROOM], np.uint32), d, pick_at(), sharing, wait)

        share_tiles(len(d), compute)

    @property
    def shares(self) -> bool:
        """Whether many tiles, in one call, are computed on all cores."""
        return self.mode == NEAREST


def _table(order: Array) -> Array:
    """The table that picks 64-bit words in an order; empty if they are in that order."""
    if order.size % LANES == 0 and np.array_equal(order, np.arange(order.size)):
        return np.empty(0, np.int64)
    return picks((2 * order[:, None] + np.arange(2)).ravel())
