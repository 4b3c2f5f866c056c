"""Fused sums of many small tiles at once, from registers into registers: batches of instructions, or one large one.

Index tables, which the layouts make once, say where each element is: its word, and its first bit there. The kernel
reads the elements of a tile by one such table, in the order in which the blocks take them, and writes the results to
registers by another. Matrices count as registers too, with a layout of their own: C order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int64, uint64

from tcemu.kernels import sums as fast
from tcemu.kernels.blocks import ROWS, block
from tcemu.kernels.compiling import njit
from tcemu.kernels.moves import load, store, widen
from tcemu.kernels.packing import pack, pack_special, pack_wide, window
from tcemu.kernels.simd import WIDTH

Array = npt.NDArray[Any]


# ------------------------------------------------------------------------------------------------------ in and out


@njit(cache=True, nogil=True)
def spread(stored, places, t, of_places, depth, patterns):  # type: ignore[no-untyped-def]
    """Put each element that a sparse operand stores where it belongs; the others are pruned.

    stored: rows of 16 lanes, depth / 2 rows for each sum; patterns: `depth` rows. of_places: for each stored element,
    its number in places[t]; for each k of the longer operand, its slot in its sum.
    """
    patterns[:] = fast.PRUNED
    half = uint64(depth // 2)
    for row in range(uint64(stored.shape[0] // WIDTH)):
        first = row // half * uint64(depth)
        for j in range(uint64(WIDTH)):
            i = row * uint64(WIDTH) + j
            slot = uint64(of_places[1, uint64(places[t, uint64(of_places[0, i])])])
            patterns[(first + slot) * uint64(WIDTH) + j] = stored[i]


# ------------------------------------------------------------------------------------------------------ many tiles

#: The places of the numbers that the kernels read besides the rule.
_FORMAT_X, _FORMAT_Y, _MASKS, _FLIPS, _HALVES, _COUNTS = 7, 14, 21, 24, 26, 30


@njit(cache=True, nogil=True, error_model="numpy")
def multiply(  # type: ignore[no-untyped-def]
    x, vectors_x, y, vectors_y, steps, numbers, numbers_at, room, c, scale_x, scale_y, scaled
):
    """c = `steps` chains that start from c, one after the other; returns what `pack` found.

    All but counts are addresses. x (groups, steps, sums, depth, 16) has the elements in vectors, and y (groups, steps,
    sums, depth, 4) those taken one at a time; vectors_x and vectors_y count both in vectors of 16. c (groups of x,
    groups of y, 4, 16): float32 patterns. numbers: the rule as `block` reads it, and both formats as `pack` reads them.
    room: three words for each pattern. With `scaled`, scale_x and scale_y are what `block` takes, for all groups. If an
    exponent is outside the window, only float32 results with all their bits are computed; for others nothing is.
    """
    size_x, size_y = uint64(64 * vectors_x), uint64(64 * vectors_y)
    value_x, word_x, sign_x = room, room + size_x, room + uint64(2) * size_x
    value_y = room + uint64(3) * size_x
    word_y, sign_y = value_y + size_y, value_y + uint64(2) * size_y
    form_x, form_y = numbers_at + uint64(8 * _FORMAT_X), numbers_at + uint64(8 * _FORMAT_Y)
    start_x, start_y = window(x, form_x, vectors_x), window(y, form_y, vectors_y)
    found = pack(x, form_x, vectors_x, start_x, value_x, word_x, int64(1))
    found |= pack(y, form_y, vectors_y, start_y, value_y, word_y, int64(0))
    wide, special = int64(found & fast.OUTSIDE), int64(found & fast.SPECIAL)
    if wide:
        if numbers[2] != 23 or numbers[3]:
            return found
        pack_wide(x, form_x, vectors_x, value_x, word_x)
        pack_wide(y, form_y, vectors_y, value_y, word_y)
    if special:
        pack_special(x, form_x, vectors_x, sign_x)
        pack_special(y, form_y, vectors_y, sign_y)
    at, size, unit = c, uint64(4), uint64(4 if wide else 1)
    chain = numbers[5] * numbers[6]
    for i in range(vectors_x // (chain * steps)):
        for j in range(vectors_y * WIDTH // (chain * steps * ROWS)):
            for step in range(steps):
                at_x = uint64((i * steps + step) * chain * WIDTH) * size
                at_y = uint64((j * steps + step) * chain * ROWS)
                block(
                    value_x + at_x, word_x + at_x, value_y + at_y * size, word_y + at_y * unit, sign_x + at_x,
                    sign_y + at_y * size, scale_x + uint64(64 * i) * scaled, scale_y + uint64(16 * j) * scaled, at,
                    numbers_at, start_x + start_y, wide, special, int64(scaled),
                )  # fmt: skip
            at += uint64(ROWS * WIDTH) * size
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def run(x, y, c, places, scale_x, scale_y, tables, of_places, numbers, d):  # type: ignore[no-untyped-def]
    """d[t] = the results of tile t, for words x, y and c (tiles, words) of registers.

    x is the operand whose elements are in vectors, y the one whose elements are taken one at a time. scale_x and
    scale_y (tiles, scales): as `multiply` takes them, or empty. tables: what `load` takes for x, y and c, then what
    `store` takes. of_places: what `spread` takes. numbers: those of `multiply`; the masks of x, y and c; the bits of x
    and y to flip; whether accumulators and results are float16; the bits of a result, and how many results a word has;
    then how many words `load` picks and how many vectors it makes for x, y and c; and the words of a result.
    """
    mask_x, mask_y, mask_c = numbers[_MASKS], numbers[_MASKS + 1], numbers[_MASKS + 2]
    flip_x, flip_y = numbers[_FLIPS], numbers[_FLIPS + 1]
    half_c, half_d, width, per = numbers[_HALVES], numbers[_HALVES + 1], numbers[_HALVES + 2], numbers[_HALVES + 3]
    pick_x, count_x = numbers[_COUNTS], numbers[_COUNTS + 1]
    pick_y, count_y = numbers[_COUNTS + 2], numbers[_COUNTS + 3]
    pick_c, count_c, words_d = numbers[_COUNTS + 4], numbers[_COUNTS + 5], numbers[_COUNTS + 6]
    size, table = uint64(4), uint64(tables.ctypes.data)
    # for each operand: words to pick, the source of each vector, bits
    x_1 = table + uint64(pick_x) * size
    x_2 = x_1 + uint64(count_x) * size
    y_0 = x_2 + uint64(count_x) * uint64(64)
    y_1 = y_0 + uint64(pick_y) * size
    y_2 = y_1 + uint64(count_y) * size
    c_0 = y_2 + uint64(count_y) * uint64(64)
    c_1 = c_0 + uint64(pick_c) * size
    c_2 = c_1 + uint64(count_c) * size
    out = c_2 + uint64(count_c) * uint64(64)
    sparse = of_places.shape[1] > 0
    stored = np.empty(count_x * WIDTH if sparse else 0, np.uint32)
    packed_x = count_x * 2 if sparse else count_x
    patterns_x, patterns_y = np.empty(packed_x * WIDTH, np.uint32), np.empty(count_y * WIDTH, np.uint32)
    packed = np.empty((packed_x + count_y) * 3 * WIDTH, np.int32)
    held, running = np.empty(max(pick_x, pick_y, pick_c), np.uint32), np.empty(count_c * WIDTH, np.int32)
    # addresses, taken once: each access to one changes the array's reference count
    all_x, all_y, at_c = uint64(patterns_x.ctypes.data), uint64(patterns_y.ctypes.data), uint64(running.ctypes.data)
    at_x = uint64(stored.ctypes.data) if sparse else all_x
    room, pack_room, numbers_at = uint64(held.ctypes.data), uint64(packed.ctypes.data), uint64(numbers.ctypes.data)
    from_x, from_y, from_c = uint64(x.ctypes.data), uint64(y.ctypes.data), uint64(c.ctypes.data)
    step_x, step_y, step_c = uint64(x.shape[1]) * size, uint64(y.shape[1]) * size, uint64(c.shape[1]) * size
    to_d, scaled = uint64(d.ctypes.data), uint64(1 if scale_x.shape[0] else 0)
    scales_x, scales_y = uint64(scale_x.ctypes.data), uint64(scale_y.ctypes.data)
    step_scale_x, step_scale_y = uint64(scale_x.shape[1]) * size, uint64(scale_y.shape[1]) * size
    for t in range(c.shape[0]):
        load(from_x, table, pick_x, x_1, x_2, count_x, mask_x, flip_x, room, at_x)
        if sparse:
            spread(stored, places, t, of_places, numbers[5], patterns_x)
        load(from_y, y_0, pick_y, y_1, y_2, count_y, mask_y, flip_y, room, all_y)
        load(from_c, c_0, pick_c, c_1, c_2, count_c, mask_c, int64(0), room, at_c)
        widen(at_c, half_c, count_c, at_c)
        multiply(all_x, packed_x, all_y, count_y, 1, numbers, numbers_at, pack_room, at_c, scales_x, scales_y, scaled)
        store(at_c, count_c, half_d, out, per, width, words_d, to_d)
        scales_x, scales_y = scales_x + step_scale_x, scales_y + step_scale_y
        from_x, from_y, from_c, to_d = from_x + step_x, from_y + step_y, from_c + step_c, to_d + uint64(words_d) * size


_NONE, _NO_SCALES = np.empty((0, 0), np.int16), np.empty((0, 0), np.int32)


@dataclass(frozen=True)
class Place:
    """Where the elements of a matrix are in registers: the word and first bit of each, in C order, and its mask."""

    word: Array
    bit: Array
    mask: int
    #: the bits of each element to flip
    flip: int = 0

    def tables(self, elements: Array) -> tuple[Array, Array, Array]:
        """What `load` takes for elements, a multiple of 16; it picks each vector of words only once."""
        words = self.word.ravel()[elements.ravel()].reshape(-1, WIDTH)
        picked, source = np.unique(words, axis=0, return_inverse=True)
        bits = self.bit.ravel()[elements.ravel()]
        return picked.ravel(), source.ravel(), bits


@dataclass(frozen=True)
class Results:
    """Where the results go: `elements` (words, per) are their numbers in C order, `width` bits each."""

    elements: Array
    width: int


@dataclass(frozen=True, eq=False)
class Tiles:
    """A batched product D = A B + C by fused sums, with everything known in advance: formats, rule and index tables.

    shape: (m, n, k) of a tile; k counts the stored elements of a sparse A. formats: six numbers of A's and of B's
    elements, as for `matmul.fused`; normal: whether their subnormals are normalised, as in a wider format. sums: the k
    of each fused sum. half: whether sums and accumulators are float16; half_c and half_d: whether C and D hold float16
    (float32 is rounded to float16 at the end).
    """

    shape: tuple[int, int, int]
    formats: tuple[Array, Array]
    normal: tuple[bool, bool]
    sums: tuple[tuple[int, ...], ...]
    fraction: int
    floor: int | None
    keep: int
    join: bool
    half: bool
    half_c: bool
    half_d: bool
    sparse: bool
    a: Place
    b: Place
    c: Place
    d: Results

    @property
    def depth(self) -> int:
        """Products of a fused sum; if A is sparse, every second one is pruned."""
        return len(self.sums[0]) * (2 if self.sparse else 1)

    @cached_property
    def along_n(self) -> bool:
        """Whether vectors run along n; otherwise along m."""
        m, n, _ = self.shape
        return not self.sparse and m % WIDTH != 0 and n > m

    def _elements(self) -> tuple[Array, Array, Array, Array]:
        """Element numbers, C order, in the order of the blocks: for x, y, accumulators, and where each result is.

        Lanes and rows after the last one repeat others; nothing reads their results.
        """
        m, n, k = self.shape
        stored = np.array([sorted(ks, key=self._bits_of) for ks in self.sums])  # (sums, products)
        longer = np.array([self._longer(ks) for ks in self.sums]) if self.sparse else stored
        across, along = (n, m) if self.along_n else (m, n)
        lanes = (np.arange(-(-across // WIDTH) * WIDTH) % across).reshape(-1, 1, 1, WIDTH)
        rows = (np.arange(-(-along // ROWS) * ROWS) % along).reshape(-1, 1, 1, ROWS)
        if self.along_n:
            x, y = stored[None, :, :, None] * n + lanes, rows * k + stored[None, :, :, None]
            c = rows.reshape(1, -1, ROWS, 1) * n + lanes
        else:
            x, y = lanes * k + stored[None, :, :, None], longer[None, :, :, None] * n + rows
            c = lanes * n + rows.reshape(1, -1, ROWS, 1)
        where = np.empty(m * n, np.int64)
        where[c.ravel()[::-1]] = np.arange(c.size)[::-1]
        return x, y, c, where

    def _bits_of(self, k: int) -> int:
        """The sort key of a sum's products, whose order does not matter: the first bit of an element of B in its word.

        Elements of one word are then at the same place of different vectors, which are made from the same words.
        """
        return 0 if self.sparse else int(self.b.bit.ravel()[k * self.shape[1]])

    def _longer(self, ks: Sequence[int]) -> list[int]:
        """The k of the longer operand that the stored elements `ks` may meet: two stored ones stand for four."""
        return [4 * pair + i for pair in sorted({k // 2 for k in ks}) for i in range(4)]

    @cached_property
    def tables(self) -> tuple[Array, ...]:
        """Everything that `run` takes besides operands and results, and that does not change."""
        x, y, c, where = self._elements()
        sides = (self.b, self.a) if self.along_n else (self.a, self.b)
        formats, normal = self.formats, self.normal
        if self.along_n:
            formats, normal = formats[::-1], normal[::-1]

        of_places = np.empty((2, 0), np.int32)
        if self.sparse:
            of_places = np.zeros((2, max(x.size, 2 * self.shape[2])), np.int32)
            of_places[0, : x.size] = x.ravel()
            for ks in self.sums:
                longer = self._longer(ks)
                of_places[1, longer] = np.arange(len(longer))
        floor = -(1 << 19) if self.floor is None else self.floor
        numbers: list[Any] = [self.fraction, floor, self.keep, self.half, self.join, self.depth, len(self.sums)]
        numbers += [*formats[0], normal[0], *formats[1], normal[1], sides[0].mask, sides[1].mask, self.c.mask]
        numbers += [sides[0].flip, sides[1].flip]
        out = where[self.d.elements].T
        numbers += [self.half_c, self.half_d, self.d.width, len(out)]
        loads = [side.tables(elements) for side, elements in zip((*sides, self.c), (x, y, c), strict=True)]
        for picked, source, _ in loads:
            numbers += [picked.size, source.size]
        numbers.append(out.shape[1])
        tables = np.concatenate([each.ravel() for each in (*(one for load in loads for one in load), out)])
        return tables.astype(np.uint32), of_places, np.array(numbers, np.int64)

    def __call__(
        self,
        a: Array,
        b: Array,
        c: Array,
        places: Array | None = None,
        out: Array | None = None,
        scales: tuple[Array, Array] | None = None,
    ) -> Array:
        """D as uint32 words (tiles, words), from contiguous words (tiles, words) of A, B and C; `out` or a new array.

        places (tiles, m, k): for each stored element of a sparse A, the row of B that it meets. scales (tiles, m) and
        (tiles, n), int32: the exponent of the scale of each row of A and column of B, or `blocks.SCALE_NAN`.
        """
        x, y = (b, a) if self.along_n else (a, b)
        tables, of_places, numbers = self.tables
        d = np.empty((len(c), numbers[-1]), np.uint32) if out is None else out
        of_x, of_y = (_NO_SCALES, _NO_SCALES) if scales is None else scales
        met = _NONE if places is None else places.reshape(len(c), -1)
        run(x, y, c, met, of_x, of_y, tables, of_places, numbers, d)
        return d
