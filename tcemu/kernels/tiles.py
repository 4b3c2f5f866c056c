"""Fused sums of many small tiles at once, out of registers and back: batches of instructions, or one large one.

Where each element stands is told by index tables, which the layouts make once: a word, and the bit from which on it
stands there. The kernels read the elements of a tile by such a table, in the order in which the sweep takes them, and
put the results into registers by another. Matrices are registers too, with a layout of their own: C order.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, int32, uint32

from tcemu.kernels import sums as fast
from tcemu.kernels.compiling import njit
from tcemu.kernels.vectors import bits32, down, from_bits32, inlined, smaller, up, whole_vectors

Array = npt.NDArray[Any]
#: Accumulators at a time: what they need stays in the second cache.
AT_A_TIME = 1 << 16
#: From so many tiles on a vector has a lane for each of them, unless a tile has more accumulators than that.
MANY, SMALL = 16, 1024
#: For so few tiles the memory stays with the thread.
FEW = 8




class _Rooms(threading.local):
    """Memory that a thread keeps: asking the system for it anew costs as much as what is computed in it."""

    def __init__(self) -> None:
        self.held: dict[str, Array] = {}

    def take(self, name: str, shape: tuple[int, ...], kind: Any) -> Array:
        """An array that is not written yet; the next call with this name may give the same memory."""
        bytes_ = math.prod(shape) * np.dtype(kind).itemsize
        if bytes_ > LARGEST:
            return np.empty(shape, kind)
        room = self.held.get(name)
        if room is None or room.size < bytes_:
            room = self.held[name] = np.empty(bytes_, np.uint8)
        found: Array = room[:bytes_].view(kind).reshape(shape)
        return found


rooms = _Rooms()
#: Bytes of a room that a thread keeps.
LARGEST = 1 << 22


# ------------------------------------------------------------------------------------------------------ in and out


@njit(cache=True, nogil=True)
def load(words, table, mask, convert, patterns):  # type: ignore[no-untyped-def]
    """patterns[i] = words[table[0, i]] >> table[1, i] & mask, and where `convert` has entries, that entry of it."""
    whole_vectors()
    for i in range(patterns.shape[0]):
        patterns[i] = uint32(down(words[table[0, i]], table[1, i]) & mask)
    if convert.shape[0]:
        for i in range(patterns.shape[0]):
            patterns[i] = convert[patterns[i]]


@njit(cache=True, nogil=True)
def spread(stored, places, which, slots, patterns):  # type: ignore[no-untyped-def]
    """The elements that a sparse operand stores, each where it belongs; the others are pruned.

    stored and patterns (rows, lanes): a row of stored elements is `depth` long, one of patterns twice that. which: for
    each stored element its number among `places`. slots: for each k of the longer operand its slot in its sum.
    """
    patterns[:] = fast.PRUNED
    depth, lanes = stored.shape[1], stored.shape[2]
    for i in range(stored.shape[0]):
        for k in range(depth):
            for j in range(lanes):
                patterns[i, slots[places[which[(i * depth + k) * lanes + j]]], j] = stored[i, k, j]


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
def store(running, half, per, width, table, words):  # type: ignore[no-untyped-def]
    """words[t, i] = the results table[e, i] of tile t, for e < per, `width` bits each; running is flat for each tile.

    A float16 comes from the float32 of the same value, or is rounded to nearest.
    """
    whole_vectors()
    patterns = np.empty(running.shape[1], np.uint32)
    for t in range(running.shape[0]):
        for i in range(patterns.shape[0]):
            bits = running[t, i]
            nan = int32(bits & int32(0x7FFFFFFF)) > int32(fast.INFINITY)
            if half:
                patterns[i] = uint32(0x7FFF) if nan else _narrowed(bits)
            else:
                # a subnormal that passed and lost all its bits to `keep` left its sign
                bits = int32(0) if bits == int32(-0x80000000) else bits
                patterns[i] = uint32(fast.QUIET) if nan else uint32(bits)
        for i in range(words.shape[1]):
            words[t, i] = patterns[table[0, i]]
        for e in range(1, per):
            for i in range(words.shape[1]):
                words[t, i] |= up(patterns[table[e, i]], uint32(e * width))


@njit(cache=True, nogil=True)
def prepare(  # type: ignore[no-untyped-def]
    x, y, c, table_x, table_y, table_c, convert_x, convert_y, places, which, slots, numbers, bases, flags, patterns_x,
    patterns_y, value_x, exponent_x, value_y, exponent_y, running
):  # fmt: skip
    """Load the operands of all tiles and pack them; flags[t, g] tells what `fast.pack` found.

    x (tiles, words) is the operand whose elements are read one at a time, y the one in vectors, c the accumulators.
    numbers: both formats, the masks of x, y and c, whether accumulators are float16, the stored depth of a sum, lanes.
    """
    fmt_x, fmt_y, mask_x, mask_y, mask_c = numbers[:6], numbers[6:12], numbers[12], numbers[13], numbers[14]
    sparse, groups = which.shape[0] > 0, flags.shape[1]
    depth, lanes, part = numbers[16], numbers[17], value_y.shape[1] // groups
    stored = np.empty((table_y.shape[1] // (depth * lanes), depth, lanes), np.uint32)
    accumulators = np.empty(table_c.shape[1], np.uint32)
    for t in range(x.shape[0]):
        all_x = patterns_x[min(t, patterns_x.shape[0] - 1)]
        all_y = patterns_y[min(t, patterns_y.shape[0] - 1)]
        load(x[t], table_x, uint32(mask_x), convert_x, all_x)
        if sparse:
            load(y[t], table_y, uint32(mask_y), convert_y, stored.reshape(-1))
            spread(stored, places[t], which, slots, all_y.reshape(stored.shape[0], 2 * depth, lanes))
        else:
            load(y[t], table_y, uint32(mask_y), convert_y, all_y)
        load(c[t], table_c, uint32(mask_c), convert_x[:0], accumulators)
        widen(accumulators, numbers[15] != 0, running[t])
        start_x, start_y = fast.window(all_x, fmt_x), fast.window(all_y, fmt_y)
        bases[t] = start_x + start_y
        found = fast.pack(all_x, fmt_x, start_x, value_x[t], exponent_x[t])
        for g in range(groups):
            low, high = g * part, (g + 1) * part
            also = fast.pack(all_y[low:high], fmt_y, start_y, value_y[t, low:high], exponent_y[t, low:high])
            flags[t, g] = found | also


# ------------------------------------------------------------------------------------------------------ many tiles


_NOWHERE = np.empty((1, 1), np.int16)


@dataclass(frozen=True)
class Place:
    """Where the elements of a matrix stand in registers: word and first bit of each in C order, and the bits it has."""

    word: Array
    bit: Array
    mask: int


@dataclass(frozen=True)
class Results:
    """Where the results go: `elements` (words, per) are their numbers in C order, `width` bits each."""

    elements: Array
    width: int


@dataclass(frozen=True)
class _Packed:
    """Operands as `fast.sweep_of` takes them, the patterns they were made of, accumulators, window starts, flags."""

    operands: list[Array]
    patterns: list[Array]
    running: Array
    #: like running, for chains that start from zero
    part: Array
    bases: Array
    flags: Array
    #: all of it as `prepare` takes it
    flat: list[Array]


class _Held(threading.local):
    """What one thread has for few tiles, by their number."""

    def __init__(self) -> None:
        self.few: dict[int, _Packed] = {}


@dataclass(frozen=True, eq=False)
class Tiles:
    """A batched product D = A B + C by fused sums, with everything known before: formats, rule and index tables.

    shape: (m, n, k) of a tile; k counts the stored elements of a sparse A. formats: six numbers of A's and of B's
    elements, as for `matmul.fused`; converts: for each a table from patterns to patterns of that format, or none.
    sums: for each fused sum its k. half: results and accumulators are float16; half_c and half_d: what C and D hold
    (float32 is rounded to float16 at the end).
    """

    shape: tuple[int, int, int]
    formats: tuple[Array, Array]
    converts: tuple[Array, Array]
    source: tuple[Array, Array]
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

    # ---------------------------------------------------------------------------------------------- what is known

    @property
    def depth(self) -> int:
        """Products of a fused sum; of a sparse A every second one is a pruned one."""
        return len(self.sums[0]) * (2 if self.sparse else 1)

    @cached_property
    def along_n(self) -> bool:
        """Whether vectors lie along n; else along m."""
        m, n, _ = self.shape
        return not self.sparse and (n > 64 or (m % 16 != 0 and n >= m))

    @cached_property
    def lanes(self) -> tuple[int, int, int]:
        """Lanes of a vector as it is packed, lanes that count, and how many such groups there are."""
        side = self.shape[1] if self.along_n else self.shape[0]
        return (256, -(-side // 64) * 64, 1) if self.along_n and side > 64 else (16, 16, -(-side // 16))

    @cached_property
    def rows(self) -> int:
        """Rows of the operand that is read an element at a time."""
        return self.shape[0] if self.along_n else self.shape[1]

    def _elements(self) -> tuple[Array, Array, Array, Array]:
        """Element numbers, C order, in the order of the sweep: of x, y, accumulators, and where each result stands."""
        m, n, k = self.shape
        width, lanes, groups = self.lanes
        stored = np.array(self.sums)  # (sums, products)
        dense = np.array([self._longer(ks) for ks in self.sums]) if self.sparse else stored
        side = n if self.along_n else m
        numbers = (np.arange(groups)[:, None] * width + np.arange(width)) % side  # pads compute what nobody reads
        if self.along_n:
            x = np.arange(m)[None, :, None] * k + stored[:, None, :]
            y = stored[None, :, :, None] * n + numbers[:, None, None, :]
            c = np.arange(m)[None, :, None] * n + numbers[:, None, :lanes]
        else:
            x = dense[:, None, :] * n + np.arange(n)[None, :, None]
            y = numbers[:, None, None, :] * k + stored[None, :, :, None]
            c = numbers[:, None, :lanes] * n + np.arange(n)[None, :, None]
        where = np.empty(m * n, np.int64)
        where[c.ravel()[::-1]] = np.arange(c.size)[::-1]
        return x, y, c, where

    def _longer(self, ks: Sequence[int]) -> list[int]:
        """The k of the longer operand that the stored elements `ks` may meet: two stored ones stand for four."""
        return [4 * pair + i for pair in sorted({k // 2 for k in ks}) for i in range(4)]

    @cached_property
    def _tables(self) -> tuple[Any, ...]:
        """Everything that `prepare` and `store` take and that does not change."""
        x, y, c, where = self._elements()
        width = self.lanes[0]
        sides = (self.a, self.b) if self.along_n else (self.b, self.a)
        formats, converts = (pair if self.along_n else pair[::-1] for pair in (self.formats, self.converts))

        def table(place: Place, elements: Array) -> Array:
            return np.array([place.word.ravel()[elements.ravel()], place.bit.ravel()[elements.ravel()]], np.uint32)

        which, slots = np.empty(0, np.int32), np.empty(0, np.int32)
        if self.sparse:
            which = y.ravel().astype(np.int32)
            slots = np.empty(2 * self.shape[2], np.int32)
            for ks in self.sums:
                longer = self._longer(ks)
                slots[longer] = np.arange(len(longer))
        numbers = [*formats[0], *formats[1], sides[0].mask, sides[1].mask, self.c.mask, self.half_c]
        numbers += [y.shape[2], width]
        return (
            table(sides[0], x),
            table(sides[1], y),
            table(self.c, c),
            *converts,
            which,
            slots,
            np.array(numbers, np.int64),
            np.ascontiguousarray(where[self.d.elements].T.astype(np.uint32)),
        )

    @cached_property
    def rule(self) -> Array:
        """Fraction bits, floor and fraction bits kept, as the sweeps take them."""
        floor = -(1 << 19) if self.floor is None else self.floor
        return np.array([self.fraction, floor, self.keep], np.int64)

    # ---------------------------------------------------------------------------------------------- computing

    def __call__(self, a: Array, b: Array, c: Array, places: Array | None = None) -> Array:
        """D as uint32 words (tiles, words), from words (tiles, words) of A, B and C.

        places (tiles, m, k): for each stored element of a sparse A the row of B that it meets.
        """
        size = self.shape[0] * self.shape[1]
        if len(a) >= MANY and size <= SMALL and not self.sparse:
            d = np.empty((len(a), len(self.d.elements)), np.uint32)
            from tcemu.kernels.many import run

            for start in range(0, len(a), AT_A_TIME // size):
                some = slice(start, start + AT_A_TIME // size)
                run(self, a[some], b[some], c[some], d[some])
            return d
        return self._tiled(a, b, c, places)

    def _tiled(self, a: Array, b: Array, c: Array, places: Array | None) -> Array:
        """Tile after tile."""
        x, y = (a, b) if self.along_n else (b, a)
        d = np.empty((len(a), len(self.d.elements)), np.uint32)
        if len(a) == 1:
            self._some(x, y, c, _NOWHERE if places is None else places.reshape(1, -1), d)
            return d
        many = max(1, AT_A_TIME // (self.shape[0] * self.shape[1]))
        for start in range(0, len(a), many):
            some = slice(start, start + many)
            met = _NOWHERE if places is None else places[some].reshape(len(x[some]), -1)
            self._some(x[some], y[some], c[some], met, d[some])
        return d

    def _some(self, x: Array, y: Array, c: Array, places: Array, d: Array) -> None:
        """The results of some tiles, as many as the caches hold."""
        packed = self._packed(x, y, c, places, keep=False)
        running, part = packed.running, packed.part
        chain = len(self.sums) if self.join else 0
        self._sweep(*packed.operands, running, part, packed.bases, self.lanes[2], self.rule, chain, 0, len(self.sums))
        if packed.flags.any():
            self._odd(packed.flags.copy(), x, y, c, places, running)
        flat = running.reshape(len(x), -1)
        store(flat, self.half_d, self.d.elements.shape[1], self.d.width, self._tables[-1], d)

    def _packed(self, x: Array, y: Array, c: Array, places: Array, *, keep: bool) -> _Packed:
        """The operands of some tiles as the sweep takes them; with `keep`, their patterns too."""
        tables, held = self._tables, self._held.few
        packed = None if keep else held.get(len(x))
        if packed is None:
            packed = self._room(len(x), keep=keep)
            if not keep and len(x) <= FEW:
                held[len(x)] = packed
        prepare(x, y, c, *tables[:5], places, *tables[5:8], *packed.flat)
        return packed

    def _room(self, tiles: int, *, keep: bool) -> _Packed:
        """Memory for the operands of so many tiles."""
        (width, lanes, groups), sums = self.lanes, len(self.sums)
        own = "kept " if keep else ""
        shape_x, shape_y = (tiles, sums, self.rows, self.depth), (tiles * groups, sums, self.depth * width)

        def room(name: str, shape: tuple[int, ...], kind: Any) -> Array:
            return np.empty(shape, kind) if tiles <= FEW else rooms.take(own + name, shape, kind)

        sizes = [math.prod(shape) // tiles for shape in (shape_x, shape_y)]
        patterns = [room(f"p{i}", (tiles if keep else 1, size), np.uint32) for i, size in enumerate(sizes)]
        operands = [
            room(f"{i}{kind.__name__}", shape, kind)
            for i, shape in enumerate((shape_x, shape_y))
            for kind in (np.float32, np.int8)
        ]
        bases, flags = np.empty(tiles, np.int64), np.empty((tiles, groups), np.uint8)
        running = room("c", (tiles * groups, self.rows, lanes), np.int32)
        flat: list[Array] = [bases, flags, *patterns]
        flat += [each.reshape(tiles, -1) for each in (*operands, running)]
        part = np.empty_like(running) if self.join else running
        return _Packed(operands, patterns, running, part, bases, flags, flat)

    @cached_property
    def _held(self) -> _Held:
        return _Held()

    def _odd(self, flags: Array, x: Array, y: Array, c: Array, places: Array, running: Array) -> None:
        """Compute again what `prepare` flagged, into `running`: by kind, all tiles of one kind at once."""
        kinds = np.bitwise_or.reduce(flags, axis=1)
        for kind in np.unique(kinds[kinds != 0]).tolist():
            some = np.flatnonzero(kinds == kind)
            met = places if len(places) != len(x) else places[some]
            packed = self._packed(x[some], y[some], c[some], met, keep=True)
            own_x, _, own_y, _ = (each.shape for each in packed.operands)
            wide, special = kind & fast.OUTSIDE, kind & fast.SPECIAL
            signs, aside = [], []
            numbers = self._tables[7]
            for i, (patterns, own) in enumerate(zip(packed.patterns, (own_x, own_y), strict=True)):
                form, flat = numbers[6 * i : 6 * i + 6], patterns.reshape(-1)
                if special:
                    signs.append(np.empty(own, np.float32))
                    fast.pack_special(flat, form, signs[-1].reshape(-1))
                if wide:
                    aside += [np.empty(own, np.float32), np.empty(own, np.int32)]
                    fast.pack_wide(flat, form, aside[-2].reshape(-1), aside[-1].reshape(-1))
            self._one_by_one(packed, signs, aside)
            running.reshape(len(x), -1)[some] = packed.running.reshape(len(some), -1)

    def _one_by_one(self, packed: _Packed, signs: list[Array], aside: list[Array]) -> None:
        """The chain, a fused sum at a time: whatever is infinite or NaN after it is put right."""
        c, (width, _, groups) = packed.running, self.lanes
        part, fixed = np.empty_like(c) if self.join else c, np.empty_like(c)
        for i in range(len(self.sums)):
            if self.join and i == 0:
                part[...] = 0
            if signs:
                fast.specials(*signs, part, groups, i, width, fixed)
            if aside:
                self._wide(*aside, part, groups, self.rule, i, i + 1)
            else:
                self._sweep(*packed.operands, part, part, packed.bases, groups, self.rule, 0, i, i + 1)
            if signs:
                fast.correct(part.reshape(-1), fixed.reshape(-1))
        if self.join:
            fast.join(part.reshape(-1, part.shape[2]), c.reshape(-1, c.shape[2]), self.half)

    @cached_property
    def _wide(self) -> Any:
        if self.half or self.keep != 23:
            raise ValueError(f"no way for exponents of {self.formats} into {self.keep} bits")
        return fast.wide_of(self.depth, self.lanes[0])

    @cached_property
    def _sweep(self) -> Any:
        return fast.sweep_of(self.depth, self.half, self.lanes[0])
