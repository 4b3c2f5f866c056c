"""Batches of binary64 chains, from registers into registers: a fused multiply-add for each k, in ascending order.

    eight lanes                         eight columns of B, of C and of D, side by side
    four rows                           of A: an element of each for every k, taken by all lanes

Index tables, which the layouts make once, say which register holds each element. Rows and vectors of B are in an order
that is easy to make from the registers; A's elements are read where they are. If registers have other vectors of C,
these may stay as they are, see `tcemu.kernels.pairs64`; otherwise C and D are put in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int64, uint64

from tcemu.kernels import raised64
from tcemu.kernels.ahead import NOTES, expect
from tcemu.kernels.binary64 import NEAREST, TOWARD_ZERO
from tcemu.kernels.blocks64 import CUT, INDICES, PAIRED, RAISED, ROWS, SIGNS, SIZES, chains
from tcemu.kernels.calls import call, number
from tcemu.kernels.compiling import njit
from tcemu.kernels.directed import round_as, round_to_nearest
from tcemu.kernels.lanes import whole_vectors_of_words
from tcemu.kernels.moves import pick_at
from tcemu.kernels.pairs64 import Paired, paired, twice
from tcemu.kernels.picks import picks
from tcemu.kernels.raised64 import LANES, RAISE, largest, lower, raise_to, signs_of, subnormal
from tcemu.kernels.registers import check_words, reach
from tcemu.kernels.rooms import Parts, aligned, whole
from tcemu.kernels.sharing import PART, finish_some, share_tiles, take, wait_for_all

Array = npt.NDArray[Any]

#: The exponent fields of A and B, both together, and of C may be so large that nothing overflows at the other scale.
_MOST, _MOST_TOGETHER, _MOST_ADDEND = 1800, 2500, 1500
#: If those of A and B are together at most this, a product is below 2^-1075, half of the smallest distance of
#: two numbers: to nearest, it changes none, but gives a zero its sign. In other roundings, only its sign counts; at the
#: scale of RAISE, 2^_TINY for both factors is below that distance too.
_VANISHING, _TINY = 969, -400
#: Whether chains can be rounded toward zero at the scale of RAISE.
_CUTS = whole_vectors_of_words()
#: In the type in which numba computes.
_ZERO, _EIGHT = np.uint64(0), np.uint64(8)

#: The places of the numbers that `run` reads besides those of `tcemu.kernels.blocks64`: where the tables of a, b, c and
#: d begin, or -1 if everything is in order; where room begins for what is picked of a, b, c and d, and for a, b and c
#: at the scale of RAISE, for b with each column twice, for what is fetched ahead, and all its words; vectors of a, b
#: and c.
TABLES, ROOMS, HIGH, DOUBLED, AHEAD, ROOM, VECTORS, NUMBERS = 9, 13, 17, 20, 21, 22, 23, 26
#: Tiles whose registers are picked together.
TOGETHER = 8


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
def _chained(a, b, c, table, numbers, raised, ahead, first, d):  # type: ignore[no-untyped-def]
    """`chains` as a function of its own."""
    return chains(a, b, c, table, numbers, raised, ahead, first, d) != 0


@njit(cache=True, nogil=True)
def high(a, b, c, table, numbers, room, mode, ahead, first, d):  # type: ignore[no-untyped-def]
    """The same at the scale of RAISE, if there are subnormal numbers; returns whether it has succeeded.

    mode: how the processor rounds.
    """
    of_a, of_c = number(numbers, VECTORS), number(numbers, VECTORS + 2)
    of_b = number(numbers, VECTORS + 1) << number(numbers, PAIRED)
    if (mode == TOWARD_ZERO and not _CUTS) or not subnormal(a, b, c, of_a, of_b, of_c):
        return False
    largest_a, largest_b, most = largest(a, of_a), largest(b, of_b), largest(c, of_c)
    into_a, into_b = _at(room, number(numbers, HIGH)), _at(room, number(numbers, HIGH + 1))
    vanishing = max(largest_a, 1) + max(largest_b, 1) <= _VANISHING
    if most > _MOST_ADDEND:
        return False
    if vanishing and mode == NEAREST:
        signs_of(a, of_a, int64(0), into_a)
        signs_of(b, of_b, int64(0), into_b)
        _chained(into_a, into_b, c, table, numbers, int64(SIGNS), ahead, first, d)
        return True
    if vanishing:
        signs_of(a, of_a, int64(_TINY), into_a)
        signs_of(b, of_b, int64(_TINY), into_b)
    elif max(largest_a, largest_b) <= _MOST and largest_a + largest_b <= _MOST_TOGETHER:
        raise_to(a, of_a, int64(RAISE), into_a)
        raise_to(b, of_b, int64(RAISE), into_b)
    else:
        return False
    into_c = _at(room, number(numbers, HIGH + 2))
    raise_to(c, of_c, int64(2 * RAISE), into_c)
    raised = int64(CUT if mode == TOWARD_ZERO else RAISED)
    if _chained(into_a, into_b, into_c, table, numbers, raised, ahead, first, d):
        return False
    lower(d, of_c)
    return True


@njit(cache=True, nogil=True)
def _at(base, number):  # type: ignore[no-untyped-def]
    """The address `number` 32-bit words after `base`; 0 if `number` is negative."""
    return base + uint64(number) * uint64(4) if number >= 0 else _ZERO


@njit(cache=True, nogil=True)
def run(a, b, c, tables, numbers, scratch, mode, raises, d, pick, sharing, wait):  # type: ignore[no-untyped-def]
    """d[t] = the results, rounded by a mode, of tiles t that nobody else has taken, for registers (tiles, words).

    tables: for a, b and c, which registers are picked, in the order of `chains`, for all groups of eight columns; for
    d, which results its registers hold; see `tcemu.kernels.picks`. numbers: see TABLES. scratch: numbers[ROOM] words of
    32 bits; the caller makes them, because numba frees an array after its last use, and does not count the uses of its
    address. raises: whether to try tiles with subnormal numbers at the scale of RAISE. pick: the address of
    `moves.pick`. sharing: from `share_tiles`. With `wait`, all tiles are done when it returns.
    """
    table, room = uint64(tables.ctypes.data), uint64(scratch.ctypes.data)
    table_a, table_b = _at(table, numbers[TABLES]), _at(table, numbers[TABLES + 1])
    table_c, table_d = _at(table, numbers[TABLES + 2]), _at(table, numbers[TABLES + 3])
    in_a, in_b, in_c = _at(room, numbers[ROOMS]), _at(room, numbers[ROOMS + 1]), _at(room, numbers[ROOMS + 2])
    in_d, doubled, paired = _at(room, numbers[ROOMS + 3]), _at(room, numbers[DOUBLED]), numbers[PAIRED]
    of_a, of_b, of_c = numbers[VECTORS], numbers[VECTORS + 1], numbers[VECTORS + 2]
    told, blocks = uint64(numbers.ctypes.data), numbers[SIZES] * numbers[SIZES + 1] // ROWS
    from_a, from_b, from_c = uint64(a.ctypes.data), uint64(b.ctypes.data), uint64(c.ctypes.data)
    step_a, step_b, step_c = uint64(8 * a.shape[1]), uint64(8 * b.shape[1]), uint64(8 * c.shape[1])
    to_d, step_d, count = uint64(d.ctypes.data), uint64(8 * d.shape[1]), d.shape[0]
    given, steps = (from_a, from_b, from_c, from_c), (int64(step_a), int64(step_b), int64(step_c), int64(0))
    note = _at(room, numbers[AHEAD])
    shares, size = uint64(sharing.ctypes.data), int64(PART * TOGETHER)
    if mode != NEAREST:
        round_as(mode)
    part = take(shares, size)
    while part < count:
        stop = min(part + size, count)
        for first in range(part, stop, TOGETHER):
            tiles, begin = min(TOGETHER, stop - first), uint64(first)
            x, of_x = _picked(tiles, from_a + begin * step_a, step_a, table_a, of_a, in_a, pick)
            y, of_y = _picked(tiles, from_b + begin * step_b, step_b, table_b, of_b, in_b, pick)
            if paired:
                twice(tiles, y, int64(of_y), of_b, doubled)
                y, of_y = doubled, uint64(2 * of_b * 8 * LANES)
            addend, apart = _picked(tiles, from_c + begin * step_c, step_c, table_c, of_c, in_c, pick)
            into, bytes_of_d = to_d + begin * step_d, uint64(8 * LANES * of_c)
            results, of_d = (in_d, bytes_of_d) if table_d else (into, step_d)
            ahead = expect(note, first + tiles, stop, given, steps, to_d, int64(step_d), blocks)
            for tile in range(tiles):
                t, block = uint64(tile), tile * blocks
                left, right, start, found = x + t * of_x, y + t * of_y, addend + t * apart, results + t * of_d
                done = raises and high(left, right, start, table, told, room, mode, ahead, block, found)
                if not done:
                    _chained(left, right, start, table, told, int64(0), ahead, block, found)
            if table_d:
                call(pick, (tiles, results, int64(of_d), table_d, into, int64(step_d)))
        finish_some(shares, stop - part)
        part = take(shares, size)
    if mode != NEAREST:
        round_to_nearest()
    if wait:
        wait_for_all(shares, count)


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
        found = paired(self.shape, self.a, self.b, self.c, self.d)
        return self._in_order() if found is None else self._paired(found)

    def _paired(self, found: Paired) -> tuple[Array, Array]:
        """The same with C and D as the registers have them."""
        parts, numbers = Parts(), np.zeros(NUMBERS, np.int64)
        groups, rows = found.of_c.shape
        numbers[TABLES:ROOMS] = -1, parts.add(_table(found.picked.ravel())), -1, -1
        vectors = [each.size // LANES for each in (self.a, found.picked, self.c)]
        numbers[:INDICES] = groups, rows, self.shape[2]
        orders = [np.stack([order, 0 * order], axis=1) for order in (found.lanes, np.argsort(found.lanes))]
        tables = found.of_a, np.argsort(found.ks), found.of_c, *orders
        numbers[INDICES:PAIRED], numbers[PAIRED] = [parts.add(each) for each in tables], 1
        return self._with_room(parts, numbers, [*vectors, 0])

    def _in_order(self) -> tuple[Array, Array]:
        """The same with C and D in the order of columns."""
        _, n, k = self.shape
        parts, orders = Parts(), list(self._orders)
        of_a = np.arange(orders[0].size)
        if self.a.size % LANES == 0 and np.array_equal(np.sort(self.a, axis=None), np.arange(self.a.size)):
            of_a, orders[0] = orders[0], np.arange(self.a.size)
        ks = np.argsort(self.b.reshape(k, n)[:, 0])
        orders[1] = orders[1].reshape(-1, k, LANES)[:, ks].ravel()
        found, numbers = [_table(order) for order in orders], np.zeros(NUMBERS, np.int64)
        numbers[TABLES:ROOMS] = [parts.add(table) if table.size else -1 for table in found]
        groups, lanes = -(-n // LANES), np.stack([np.arange(LANES), np.zeros(LANES, np.int64)], axis=1)
        numbers[:INDICES] = groups, self._rows, k
        of_c = np.arange(groups * self._rows)
        numbers[INDICES:PAIRED] = [parts.add(each) for each in (of_a, np.argsort(ks), of_c, lanes, lanes)]
        vectors = [-(-order.size // LANES) for order in orders]
        vectors[3] = vectors[2]  # results, also of rows and columns that repeat others
        return self._with_room(parts, numbers, vectors)

    def _with_room(self, parts: Parts, numbers: Array, vectors: list[int]) -> tuple[Array, Array]:
        """Also with room for so many vectors of a, b, c and d of a tile."""
        of_tile = 2 * LANES * np.array(vectors)
        of_b = of_tile[1] * 2
        sizes = [*(TOGETHER * of_tile), of_tile[0], of_b, of_tile[2], TOGETHER * of_b, whole(2 * NOTES)]
        numbers[ROOMS:VECTORS] = np.cumsum([0, *sizes])
        numbers[VECTORS:] = vectors[:3]
        return parts.together(), numbers

    def __call__(self, a: Array, b: Array, c: Array, *, out: Array | None = None, known: bool = False) -> Array:
        """D as uint64 words (tiles, words), from contiguous words of A, B and C; into `out` or a new array.

        known: arrays like these, contiguous and with these dtypes and shapes, have been checked by an earlier call.
        """
        d = np.empty((len(c), self.d.size), np.uint64) if out is None else out
        if not known:
            check_words(np.uint64, self._reach, (a, b, c, d))
        tables, numbers = self.tables

        def compute(sharing: Array, wait: bool) -> None:
            room, raises = aligned(numbers[ROOM], np.uint32), raised64.subnormals_are_slow()
            run(a, b, c, tables, numbers, room, self.mode, raises, d, pick_at(), sharing, wait)

        share_tiles(len(d), compute)
        return d

    @property
    def shares(self) -> bool:
        """Whether many tiles, in one call, are computed on all cores."""
        return True


def _table(order: Array) -> Array:
    """The table that picks 64-bit words in an order; empty if they are in that order."""
    if order.size % LANES == 0 and np.array_equal(order, np.arange(order.size)):
        return np.empty(0, np.int64)
    return picks((2 * order[:, None] + np.arange(2)).ravel())
