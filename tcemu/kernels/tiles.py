"""Fused sums of many small tiles at once, out of registers and back: batches of instructions, or one large one.

Where each element stands is told by index tables, which the layouts make once: a word, and the bit from which on it
stands there. The kernel reads the elements of a tile by such a table, in the order in which the blocks take them, and
puts the results into registers by another. Matrices are registers too, with a layout of their own: C order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, int32, int64, njit, uint8, uint32, uint64

from tcemu.kernels import sums as fast
from tcemu.kernels.blocks import ROWS, block, pack
from tcemu.kernels.simd import WIDTH
from tcemu.kernels.vectors import bits32, down, from_bits32, inlined, smaller, up, whole_vectors

Array = npt.NDArray[Any]


# ------------------------------------------------------------------------------------------------------ in and out


@njit(cache=True, nogil=True)
def load(words, picked, source, bits, mask, held, patterns):  # type: ignore[no-untyped-def]
    """patterns[v, j] = words[picked[source[v], j]] >> bits[v, j] & mask, for vectors v of 16 lanes j."""
    whole_vectors()
    for i in range(picked.shape[0]):
        held[i] = words[picked[i]]
    for v in range(source.shape[0]):
        here, there = uint64(v * WIDTH), uint64(source[v] * WIDTH)
        for j in range(WIDTH):
            patterns[here + uint64(j)] = uint32(down(held[there + uint64(j)], bits[here + uint64(j)]) & mask)


@njit(cache=True, nogil=True)
def spread(stored, places, which, slots, depth, patterns):  # type: ignore[no-untyped-def]
    """The elements that a sparse operand stores, each where it belongs; the others are pruned.

    stored: rows of 16 lanes, half of `depth` rows to a sum; patterns: `depth` rows. which: for each stored element its
    number among `places`. slots: for each k of the longer operand its slot in its sum.
    """
    patterns[:] = fast.PRUNED
    half = depth // 2
    for row in range(stored.shape[0] // WIDTH):
        first = row // half * depth
        for j in range(WIDTH):
            i = row * WIDTH + j
            patterns[(first + slots[places[which[i]]]) * WIDTH + j] = stored[i]


@njit(cache=True, nogil=True)
def widen(patterns, half, running):  # type: ignore[no-untyped-def]
    """Accumulators as float32 patterns with one NaN and, since no sum keeps it, without -0."""
    whole_vectors()
    for i in range(patterns.shape[0]):
        bits = patterns[i]
        if half:
            size = uint32(bits & uint32(0x7FFF))
            normal = uint32(uint32(size << uint32(13)) + uint32(0x38000000))
            normal = uint32(fast.INFINITY) if size == uint32(0x7C00) else normal
            normal = uint32(fast.QUIET) if size > uint32(0x7C00) else normal
            tiny = uint32(bits32(float32(float32(int32(size)) * float32(2.0**-24))))
            bits = uint32(
                uint32(normal if size >= uint32(0x400) else tiny) | uint32(uint32(bits << uint32(16)) & uint32(1 << 31))
            )
        bits = uint32(fast.QUIET) if uint32(bits & uint32(0x7FFFFFFF)) > uint32(fast.INFINITY) else bits
        running[i] = int32(uint32(0) if bits == uint32(1 << 31) else bits)


@inlined
def _narrowed(bits):  # type: ignore[no-untyped-def]
    """The float16 pattern of a float32 pattern, to nearest even."""
    size = int32(bits & int32(0x7FFFFFFF))
    normal = int32(size - int32(0x38000000))
    normal = int32(int32(normal + int32(0xFFF) + int32((normal >> 13) & 1)) >> 13)
    normal = smaller(normal, int32(0x7C00))
    # Added to 0.5, whose last place is that of a subnormal float16, the number becomes that subnormal.
    tiny = int32(bits32(float32(from_bits32(size) + float32(0.5))) - int32(0x3F000000))
    found = normal if size >= int32(0x38800000) else tiny
    return uint32(uint32(found) | uint32(uint32(bits >> 16) & uint32(0x8000)))


@njit(cache=True, nogil=True)
def store(running, half, table, width, words):  # type: ignore[no-untyped-def]
    """words[i] = the results table[e, i] for all e, `width` bits each; `running` changes on the way.

    A float16 comes from the float32 of the same value, or is rounded to nearest.
    """
    whole_vectors()
    for i in range(running.shape[0]):
        bits = running[i]
        nan = int32(bits & int32(0x7FFFFFFF)) > int32(fast.INFINITY)
        if half:
            running[i] = int32(0x7FFF) if nan else int32(_narrowed(bits))
        else:
            # A subnormal that passed and lost all its bits to the fraction bits kept left its sign.
            bits = int32(0) if bits == int32(-0x80000000) else bits
            running[i] = int32(fast.QUIET) if nan else bits
    for i in range(table.shape[1]):
        words[i] = uint32(running[table[0, i]])
    for e in range(1, table.shape[0]):
        for i in range(table.shape[1]):
            words[i] |= up(uint32(running[table[e, i]]), uint32(e * width))


# ------------------------------------------------------------------------------------------------------ many tiles

#: Where the numbers stand that `run` reads beside the rule.
_FORMAT_X, _FORMAT_Y, _MASKS, _HALVES, _BITS = 7, 14, 21, 24, 26


@njit(cache=True, nogil=True, error_model="numpy")
def run(x, y, c, places, of_x, of_y, of_c, which, slots, out, numbers, d):  # type: ignore[no-untyped-def]
    """d[t] = the results of tile t, for words x, y and c (tiles, words) of registers.

    x is the operand whose elements lie in vectors, y the one whose elements are taken one at a time. of_x, of_y, of_c:
    what `load` takes. numbers: the rule as `block` reads it, both formats as `pack` reads them, the masks of x, y and
    c, whether accumulators and results are float16, and the bits of a result.
    """
    fmt_x, fmt_y = numbers[_FORMAT_X : _FORMAT_X + 7], numbers[_FORMAT_Y : _FORMAT_Y + 7]
    mask_x, mask_y, mask_c = uint32(numbers[_MASKS]), uint32(numbers[_MASKS + 1]), uint32(numbers[_MASKS + 2])
    half_c, half_d = numbers[_HALVES] != 0, numbers[_HALVES + 1] != 0
    depth, products, sparse = numbers[5], numbers[5] * numbers[6], which.shape[0] > 0
    count_x, count_y, count_c = of_x[2].shape[0], of_y[2].shape[0], of_c[2].shape[0]
    stored = np.empty(count_x if sparse else 0, np.uint32)
    count_x *= 2 if sparse else 1
    held = np.empty(max(of_x[0].shape[0], of_y[0].shape[0], of_c[0].shape[0]), np.uint32)
    patterns_x, value_x = np.empty(count_x, np.uint32), np.empty(count_x, np.float32)
    patterns_y, value_y = np.empty(count_y, np.uint32), np.empty(count_y, np.float32)
    word_x, word_y = np.empty(count_x, np.int32), np.empty(count_y, np.int32)
    sign_x, sign_y = np.empty(count_x, np.float32), np.empty(count_y, np.float32)
    patterns_c, running = np.empty(count_c, np.uint32), np.empty(count_c, np.int32)
    rule, size = uint64(numbers.ctypes.data), uint64(4)
    form_x, form_y = rule + uint64(8 * _FORMAT_X), rule + uint64(8 * _FORMAT_Y)
    at_x, at_y = uint64(patterns_x.ctypes.data), uint64(patterns_y.ctypes.data)
    values_x, values_y = uint64(value_x.ctypes.data), uint64(value_y.ctypes.data)
    words_x, words_y = uint64(word_x.ctypes.data), uint64(word_y.ctypes.data)
    for t in range(c.shape[0]):
        if sparse:
            load(x[t], of_x[0], of_x[1], of_x[2], mask_x, held, stored)
            spread(stored, places[t], which, slots, depth, patterns_x)
        else:
            load(x[t], of_x[0], of_x[1], of_x[2], mask_x, held, patterns_x)
        load(y[t], of_y[0], of_y[1], of_y[2], mask_y, held, patterns_y)
        load(c[t], of_c[0], of_c[1], of_c[2], mask_c, held, patterns_c)
        widen(patterns_c, half_c, running)
        start_x, start_y = fast.window(patterns_x, fmt_x), fast.window(patterns_y, fmt_y)
        found = pack(at_x, form_x, int64(count_x // WIDTH), int64(start_x), values_x, words_x, int64(1))
        found |= pack(at_y, form_y, int64(count_y // WIDTH), int64(start_y), values_y, words_y, int64(0))
        wide, special = int64(found & fast.OUTSIDE), int64(found & fast.SPECIAL)
        if wide:
            fast.pack_wide(patterns_x, fmt_x, value_x, word_x)
            fast.pack_wide(patterns_y, fmt_y, value_y, word_y)
        if special:
            fast.pack_special(patterns_x, fmt_x, sign_x)
            fast.pack_special(patterns_y, fmt_y, sign_y)
        at = uint64(running.ctypes.data)
        for i in range(count_x // (products * WIDTH)):
            x_at = uint64(i * products * WIDTH) * size
            for j in range(count_y // (products * ROWS)):
                y_at = uint64(j * products * ROWS)
                block(
                    values_x + x_at,
                    words_x + x_at,
                    values_y + y_at * size,
                    words_y + y_at * (size if wide else uint64(1)),
                    uint64(sign_x.ctypes.data) + x_at,
                    uint64(sign_y.ctypes.data) + y_at * size,
                    at,
                    rule,
                    int64(start_x + start_y),
                    wide,
                    special,
                )
                at += uint64(ROWS * WIDTH) * size
        store(running, half_d, out, numbers[_BITS], d[t])


_NONE = np.empty((0, 0), np.int16)


@dataclass(frozen=True)
class Place:
    """Where the elements of a matrix stand in registers: word and first bit of each in C order, and the bits it has."""

    word: Array
    bit: Array
    mask: int

    def tables(self, elements: Array) -> tuple[Array, Array, Array]:
        """What `load` takes for elements, whose number is a multiple of 16; a vector of words is picked only once."""
        words = self.word.ravel()[elements.ravel()].reshape(-1, WIDTH)
        picked, source = np.unique(words, axis=0, return_inverse=True)
        bits = self.bit.ravel()[elements.ravel()]
        return picked.ravel().astype(np.int32), source.ravel().astype(np.int32), bits.astype(np.uint32)


@dataclass(frozen=True)
class Results:
    """Where the results go: `elements` (words, per) are their numbers in C order, `width` bits each."""

    elements: Array
    width: int


@dataclass(frozen=True, eq=False)
class Tiles:
    """A batched product D = A B + C by fused sums, with everything known before: formats, rule and index tables.

    shape: (m, n, k) of a tile; k counts the stored elements of a sparse A. formats: six numbers of A's and of B's
    elements, as for `matmul.fused`; normal: whether their subnormals are normalised, as those of a wider format are.
    sums: for each fused sum its k. half: results and accumulators are float16; half_c and half_d: what C and D hold
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
        """Products of a fused sum; of a sparse A every second one is a pruned one."""
        return len(self.sums[0]) * (2 if self.sparse else 1)

    @cached_property
    def along_n(self) -> bool:
        """Whether vectors lie along n; else along m."""
        m, n, _ = self.shape
        return not self.sparse and m % WIDTH != 0 and n > m

    def _elements(self) -> tuple[Array, Array, Array, Array]:
        """Element numbers, C order, in the order of the blocks: of x, y, accumulators, and where each result stands.

        Lanes and rows behind the last one repeat others: they compute what nobody reads.
        """
        m, n, k = self.shape
        stored = np.array(self.sums)  # (sums, products)
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

    def _longer(self, ks: Sequence[int]) -> list[int]:
        """The k of the longer operand that the stored elements `ks` may meet: two stored ones stand for four."""
        return [4 * pair + i for pair in sorted({k // 2 for k in ks}) for i in range(4)]

    @cached_property
    def tables(self) -> tuple[Array, ...]:
        """Everything that `run` takes between the operands and the results, and that does not change."""
        x, y, c, where = self._elements()
        sides = (self.b, self.a) if self.along_n else (self.a, self.b)
        formats, normal = (pair[::-1] if self.along_n else pair for pair in (self.formats, self.normal))

        which, slots = np.empty(0, np.int32), np.empty(0, np.int32)
        if self.sparse:
            which = x.ravel().astype(np.int32)
            slots = np.empty(2 * self.shape[2], np.int32)
            for ks in self.sums:
                longer = self._longer(ks)
                slots[longer] = np.arange(len(longer))
        floor = -(1 << 19) if self.floor is None else self.floor
        numbers = [self.fraction, floor, self.keep, self.half, self.join, self.depth, len(self.sums)]
        numbers += [*formats[0], normal[0], *formats[1], normal[1], sides[0].mask, sides[1].mask, self.c.mask, self.half_c, self.half_d]
        numbers.append(self.d.width)
        out = np.ascontiguousarray(where[self.d.elements].T.astype(np.uint32))
        tables = sides[0].tables(x), sides[1].tables(y), self.c.tables(c)
        return (*tables, which, slots, out, np.array(numbers, np.int64))

    def __call__(self, a: Array, b: Array, c: Array, places: Array | None = None) -> Array:
        """D as uint32 words (tiles, words), from words (tiles, words) of A, B and C.

        places (tiles, m, k): for each stored element of a sparse A the row of B that it meets.
        """
        x, y = (b, a) if self.along_n else (a, b)
        d = np.empty((len(c), len(self.d.elements)), np.uint32)
        run(x, y, c, _NONE if places is None else places.reshape(len(c), -1), *self.tables, d)
        return d
