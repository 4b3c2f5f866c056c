"""Chains of binary64: a fused multiply-add for each k, in ascending order, in any of the four roundings.

The processor's own instruction does what the silicon does, subnormal numbers included, except where there is a NaN. A
multiply-add returns the NaN of b; if b is not one, that of its running sum; otherwise that of a. So each NaN of a
column of B replaces what came before it, and without one the first NaN stays: that of C, what an invalid operation
makes, or the first NaN of the row of A. The processor computes up to there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types, uint64
from numba.extending import intrinsic

from tcemu.kernels.batch.sharing import finish_some, share_tiles, take, wait_for_all
from tcemu.kernels.emit.code import Variable, multiply_add, round_as, vector_code
from tcemu.kernels.emit.lanes import DOUBLE, vector_of
from tcemu.kernels.host.compiling import merged, njit
from tcemu.kernels.host.memory import check_words, reach
from tcemu.kernels.host.threads import Corner, check_shapes, share_matrix

Array = npt.NDArray[Any]
#: The rounding of programs; the others are 1 toward zero, 2 down, 3 up.
NEAREST = 0
_ROWS, _LANES = 4, 8
_DOUBLES = vector_of(DOUBLE, _LANES)
#: Products of a chain that are computed at a time.
CHUNK = 256
#: Tiles that a thread takes at a time.
PART = 256
_SIGN, _INFINITY, _QUIET = np.uint64(1 << 63), np.uint64(0x7FF << 52), np.uint64(1 << 51)
#: What an invalid operation returns, such as 0 * infinity.
_INVALID = np.uint64(0xFFF8 << 48)


@njit(cache=True, nogil=True, inline="always")
def _is_nan(pattern):  # type: ignore[no-untyped-def]
    return pattern & ~_SIGN > _INFINITY


@intrinsic
def _multiply(typingctx, a, b, c, rows, columns, depth):  # type: ignore[no-untyped-def]
    """c = the chains of a tile, as the processor rounds now; not 0 if there is a NaN among them. Addresses and sizes.

    Emitted, four rows of eight columns at a time, which stay in registers: numba takes three times as long.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        code = vector_code(builder)
        a, b, c = args[:3]
        rows, columns, depth = (code.number(each) for each in args[3:])
        nan = Variable(code.long(0))
        with code.each(columns.down(3)) as group, code.each(rows.down(2)) as four:
            begin = [(four.up(2) + row) * columns + group.up(3) for row in range(_ROWS)]
            running = [Variable(code.load(c, place, _DOUBLES, unit=8)) for place in begin]
            with code.each(depth) as k:
                y = code.load(b, k * columns + group.up(3), _DOUBLES, unit=8)
                for row, so_far in enumerate(running):
                    x = code.load(a, (four.up(2) + row) * depth + k, DOUBLE, unit=8).everywhere(_LANES)
                    so_far.set(x.times_plus(y, so_far.get()))
            for place, so_far in zip(begin, running, strict=True):
                total = so_far.get()
                code.store(total, c, place, unit=8)
                nan.set(nan.get() | code.number(code.number_of_any(total.compare("!=", total, unordered=True))))
        return nan.get().value

    return types.int64(*[types.uint64] * 3, *[types.int64] * 3), codegen


@merged
def _copy(source, into):  # type: ignore[no-untyped-def]
    """Every element; of `into[...] = source`, numba compiles the message for other shapes, too: 4 seconds."""
    for m in range(into.shape[0]):
        for n in range(into.shape[1]):
            into[m, n] = source[m, n]


@njit(cache=True, nogil=True, error_model="numpy")
def _with_nan(a, b, c):  # type: ignore[no-untyped-def]
    """The chains of a tile in which there is a NaN somewhere."""
    last, running = np.zeros(c.shape[1], np.uint64), np.empty(c.shape[1], np.float64)
    for k in range(b.shape[0]):  # the last NaN of each column of B, quiet; 0 for a column without
        for n in range(b.shape[1]):
            last[n] = b[k, n] | _QUIET if _is_nan(b[k, n]) else last[n]
    left, right, results = a.view(np.float64), b.view(np.float64), c.view(np.float64)
    for m in range(a.shape[0]):
        depth = 0
        while depth < a.shape[1] and not _is_nan(a[m, depth]):
            depth += 1
        for n in range(running.size):
            running[n] = results[m, n]
        for k in range(depth):
            for n in range(running.size):
                running[n] = multiply_add(left[m, k], right[k, n], running[n])
        for n in range(running.size):
            if last[n]:
                c[m, n] = last[n]
            elif _is_nan(c[m, n]):
                c[m, n] |= _QUIET
            elif running[n] != running[n]:
                c[m, n] = _INVALID
            elif depth < a.shape[1]:
                c[m, n] = a[m, depth] | _QUIET
            else:
                results[m, n] = running[n]


@njit(cache=True, nogil=True, error_model="numpy")
def _chain(a, b, c, before):  # type: ignore[no-untyped-def]
    """`_tile` as the processor rounds now. before: room for another C."""
    _copy(c, before)
    at_a, at_b, at_c = uint64(a.ctypes.data), uint64(b.ctypes.data), uint64(c.ctypes.data)
    if _multiply(at_a, at_b, at_c, c.shape[0], c.shape[1], a.shape[1]):
        _copy(before, c)
        _with_nan(a, b, c)


@njit(cache=True, nogil=True, error_model="numpy")
def _tile(a, b, c, mode):  # type: ignore[no-untyped-def]
    """`_padded` where rows are a multiple of 4, and columns of 8; C in place."""
    before = np.empty(c.shape, np.uint64)
    round_as(mode)
    _chain(a, b, c, before)
    round_as(NEAREST)


def _padded(a: Array, b: Array, c: Array, mode: int) -> Array:
    """C after c[m, n] = fma(a[m, k], b[k, n], c[m, n]) for ascending k; matrices of uint64 patterns."""
    more = -len(c) % _ROWS, -c.shape[1] % _LANES
    left, right, results = (
        np.ascontiguousarray(np.pad(each, ((0, rows), (0, columns))))  # np.pad keeps the order of columns first
        for each, rows, columns in ((a, more[0], 0), (b, 0, more[1]), (c, more[0], more[1]))
    )
    _tile(left, right, results, mode)
    return results[: len(c), : c.shape[1]]


def multiply(a: Array, b: Array, c: Array, *, mode: int = 0, threads: int | None = None) -> npt.NDArray[np.uint64]:
    """c, then a fused multiply-add for each ascending k; all uint64 patterns. mode: 0 rn, 1 rz, 2 rm, 3 rp.

    a (M, K), b (K, N), c (M, N).
    """
    check_shapes(a, b, c)
    if any(x.dtype != np.uint64 for x in (a, b, c)):
        raise ValueError(f"uint64 patterns, not {a.dtype}, {b.dtype}, {c.dtype}")
    d = np.array(c, np.uint64, order="C")

    def work(corner: Corner) -> None:
        m0, m1, n0, n1 = corner
        for k0 in range(0, a.shape[1], CHUNK):
            left, right = a[m0:m1, k0 : k0 + CHUNK], b[k0 : k0 + CHUNK, n0:n1]
            d[m0:m1, n0:n1] = _padded(left, right, d[m0:m1, n0:n1], mode)

    share_matrix(work, a.shape[0], b.shape[1], a.shape[1] * 4, threads)
    return d


@njit(cache=True, nogil=True)
def _take(words, indices, into):  # type: ignore[no-untyped-def]
    """into[i] = words[indices[i]]."""
    # unsigned: a negative index would count from the end, and checking for one costs more than the word
    for i in range(uint64(indices.size)):
        into[i] = words[uint64(indices[i])]


@njit(cache=True, nogil=True, error_model="numpy")
def _chains(a, b, c, of_a, of_b, of_c, of_d, mode, d, sharing, wait):  # type: ignore[no-untyped-def]
    """d[t] = the results of tiles t that nobody else has taken, for registers (tiles, words).

    of_a (m, k), of_b (k, n) and of_c (m, n): the register of each element; of_d: the element in each register.
    sharing: from `share_tiles`. With `wait`, all tiles are done when it returns.
    """
    x, y, z = np.empty(of_a.size, np.uint64), np.empty(of_b.size, np.uint64), np.empty(of_c.size, np.uint64)
    left, right, results = x.reshape(of_a.shape), y.reshape(of_b.shape), z.reshape(of_c.shape)
    before = np.empty(of_c.shape, np.uint64)
    in_a, in_b, in_c = of_a.reshape(-1), of_b.reshape(-1), of_c.reshape(-1)
    shares, count = uint64(sharing.ctypes.data), d.shape[0]
    round_as(mode)
    part = take(shares, PART)
    while part < count:
        stop = min(part + PART, count)
        for t in range(part, stop):
            _take(a[t], in_a, x)
            _take(b[t], in_b, y)
            _take(c[t], in_c, z)
            _chain(left, right, results, before)
            _take(z, of_d, d[t])
        finish_some(shares, stop - part)
        part = take(shares, PART)
    round_as(NEAREST)
    if wait:
        wait_for_all(shares, count)


@dataclass(frozen=True, eq=False)
class Chains:
    """A batched product D = A B + C of tiles (m, n, k), with the place of every element known in advance.

    a, b, c: the register of each element, in C order; d: the element in each register.
    """

    shape: tuple[int, int, int]
    mode: int
    a: Array
    b: Array
    c: Array
    d: Array

    @cached_property
    def _indices(self) -> tuple[Array, ...]:
        """What `_chains` takes, all int64: one compilation. Rows and columns after the last one repeat others."""
        m, n, k = self.shape
        rows, columns = np.arange(-(-m // _ROWS) * _ROWS) % m, np.arange(-(-n // _LANES) * _LANES) % n
        a, b, c = self.a.reshape(m, k)[rows], self.b.reshape(k, n)[:, columns], self.c.reshape(m, n)[rows][:, columns]
        row, column = np.divmod(self.d.ravel(), n)
        places = a, b, c, row * len(columns) + column
        return tuple(np.ascontiguousarray(each, np.int64) for each in places)

    @cached_property
    def _reach(self) -> list[int]:
        return [*map(reach, (self.a, self.b, self.c)), self.d.size]

    def __call__(self, a: Array, b: Array, c: Array, *, out: Array | None = None, known: bool = False) -> Array:
        """D as uint64 words (tiles, words), from contiguous words of A, B and C; into `out` or a new array.

        known: arrays like these, contiguous and with these dtypes and shapes, have been checked by an earlier call.
        """
        d = np.empty((len(c), self.d.size), np.uint64) if out is None else out
        if not known:
            check_words(np.uint64, self._reach, (a, b, c, d))
        share_tiles(len(d), lambda sharing, wait: _chains(a, b, c, *self._indices, self.mode, d, sharing, wait))
        return d

    @property
    def shares(self) -> bool:
        """Whether many tiles, in one call, are computed on all cores."""
        return True
