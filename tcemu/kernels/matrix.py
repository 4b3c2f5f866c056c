"""Whole matrix products by fused sums, as a kernel computes them that loops over K with one instruction.

The work is cut into tiles of some hundred rows and columns; every thread takes the next one, packs its operands into
memory of its own, and runs a compiled kernel without the interpreter lock. The memory for packed operands does not
grow with the matrices. `tcemu.kernels.sums` has the sums; `tcemu.kernels.exact` computes what they cannot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import int64, uint32, uint64

from tcemu.kernels.batch.abi import PLAN, WORK
from tcemu.kernels.batch.load import FLOAT16, FLOAT32, finish, widen
from tcemu.kernels.batch.run import with_functions
from tcemu.kernels.emit.code import call, whole_vectors
from tcemu.kernels.emit.lanes import WIDTH
from tcemu.kernels.exact import ALL_ONES, plain
from tcemu.kernels.host.compiling import njit
from tcemu.kernels.host.memory import Kept
from tcemu.kernels.host.threads import Corner, check_shapes, share_matrix
from tcemu.kernels.sums import LOWEST, OUTSIDE, QUIET, QUIET_HALF, ROWS, space

Array = npt.NDArray[Any]
_KEPT = Kept()
#: Products packed at a time for each output.
CHUNK = 256


def multiply(
    a: Array,
    b: Array,
    c: Array,
    *,
    format_a: Array,
    format_b: Array,
    sums: Sequence[Sequence[int]],
    fraction: int,
    floor: int | None,
    keep: int,
    normal: tuple[bool, bool] = (False, False),
    join: bool = False,
    threads: int | None = None,
    fast: bool = True,
) -> Array:
    """The patterns of a @ b + c by fused sums.

    a (M, K), b (K, N): unsigned patterns. c (M, N): uint32 patterns of float32, whose results are rounded toward zero,
    or uint16 patterns of float16, rounded to nearest even; the result has c's dtype. K is a multiple of the products of
    one instruction.

    format_a, format_b: exponent bits, mantissa bits, bias, padding bits below, infinities (0 or 1), NaN kind (0 none,
    1 IEEE, 2 all ones). sums: for one instruction, the k of each fused sum, in the order of the chain. fraction: bits
    kept behind the point of the largest exponent E. floor: E is never below it. keep: fraction bits of the result.
    normal: whether subnormals of A and of B are normalised, as in a wider format; only the fast path can do that. join:
    the chain of each instruction starts from +0 and c is added to its result, to nearest even. threads: the maximum;
    None for one for each core. fast: False computes every element by the plain integer rule.
    """
    check_shapes(a, b, c)
    depth = sum(len(ks) for ks in sums)
    if depth == 0 or a.shape[1] % depth or sorted(k for ks in sums for k in ks) != list(range(depth)):
        raise ValueError(f"K = {a.shape[1]} in instructions of {depth} products: {sums}")
    block = next((size for size in (4, 8, 16, 32) if size >= max(map(len, sums))), 0)
    if not block:
        raise ValueError(f"a fused sum has at most 32 products, not {max(map(len, sums))}")
    if c.dtype not in (np.uint32, np.uint16):
        raise ValueError(f"accumulators are uint32 or uint16 patterns, not {c.dtype}")
    half = c.dtype == np.uint16
    if not 0 < keep <= (10 if half else 23) or (half and keep != 10):
        raise ValueError(f"{keep} fraction bits in results of {c.dtype.itemsize * 8} bits")
    if a.shape[1] == 0 or c.size == 0:
        return c.copy()
    floor = -(1 << 19) if floor is None else floor
    rule = Rule(fraction, floor, keep, half)
    formats = np.asarray(format_a, np.int64), np.asarray(format_b, np.int64)
    fast = fast and _suits(formats, block, rule)
    if any(normal) and not (fast and all(form[0] <= 5 for form in formats)):
        raise ValueError("only the fast path normalises subnormals, and only those of small formats")
    # The k of each sum's products; -1 behind those of a shorter sum.
    chain = np.full((len(sums), block), -1, np.int64)
    for row, ks in zip(chain, sums, strict=True):
        row[: len(ks)] = ks
    product = _Product(rule, formats, normal, join, chain)
    a, b, c = (np.ascontiguousarray(each) for each in (a, b, c))
    d = np.empty_like(c)
    a, rows = _without_nan(a, formats[0], along=1) if fast else (a, None)
    b, columns = _without_nan(b, formats[1], along=0) if fast else (b, None)

    share_matrix(lambda tile: product.tile(a, b, c, d, tile, fast=fast), a.shape[0], b.shape[1], a.shape[1], threads)
    nan = np.asarray(QUIET_HALF if half else QUIET, d.dtype)
    if rows is not None:
        d[rows] = nan
    if columns is not None:
        d[:, columns] = nan
    return d


def _suits(formats: tuple[Array, Array], block: int, rule: Rule) -> bool:
    """Whether the fast path is exact for these numbers; `tcemu.kernels.sums` explains why."""
    narrow = all(form[0] <= 8 and form[1] <= 10 for form in formats)
    # The sum of 32 products and c must fit in 32 bits without its sign.
    largest = math.prod(2.0 - 2.0 ** -int(form[1]) for form in formats)
    scratch = block <= 16 or (32 * largest + 2) * 2.0**rule.fraction < 2.0**32
    # An accumulator that passes must pass with all its bits.
    emin, floor = (-14, 0) if rule.half else (-126, LOWEST)
    whole = rule.keep <= rule.fraction <= 25 and rule.floor - rule.fraction <= emin - rule.keep
    return narrow and scratch and whole and rule.floor <= floor


def _without_nan(x: Array, form: Array, *, along: int) -> tuple[Array, Array | None]:
    """x with +0 for each NaN, and which rows or columns have one; or x and None.

    A NaN makes all results of its row or column NaN, whatever else is there. Without it, the elements of a format that
    has no infinities can take the shortest path.
    """
    exponent, mantissa, _, padding, infinities, nans = form.tolist()
    if infinities or nans != ALL_ONES:
        return x, None
    ones = np.asarray(((1 << exponent + mantissa) - 1) << padding, x.dtype)
    if not x.size or (x & ones).max() != ones:
        return x, None
    nan = (x & ones) == ones
    return np.where(nan, x.dtype.type(0), x), nan.any(axis=along)


@njit(cache=True, nogil=True, error_model="numpy")
def _load_x(b, k0, ks, n0, n1, mask, patterns):  # type: ignore[no-untyped-def]
    """patterns[g, q, j] = b[k0 + ks[q], n0 + 16 g + j], flat; zeros after column n1, and where ks[q] is -1."""
    whole_vectors()
    lanes, depth, columns = uint64(WIDTH), uint64(ks.shape[0]), uint64(n1 - n0)
    for q in range(depth):
        k, first = uint64(k0 + ks[q]), uint64(n0)
        present = columns if ks[q] >= 0 else uint64(0)
        for g in range(present // lanes):
            at = (g * depth + q) * lanes
            for j in range(lanes):
                patterns[at + j] = uint32(b[k, first + g * lanes + j]) & mask
        for g in range(present // lanes, (columns + lanes - uint64(1)) // lanes):
            at = (g * depth + q) * lanes
            for j in range(lanes):
                n = g * lanes + j
                patterns[at + j] = uint32(b[k, first + n]) & mask if n < present else uint32(0)


@njit(cache=True, nogil=True, error_model="numpy")
def _load_y(a, k0, ks, straight, m0, m1, mask, patterns):  # type: ignore[no-untyped-def]
    """patterns[r, q, i] = a[m0 + 4 r + i, k0 + ks[q]], flat; zeros after row m1, and where ks[q] is -1.

    straight: whether ks[q] is q.
    """
    four, depth, rows = uint64(ROWS), uint64(ks.shape[0]), uint64(m1 - m0)
    for r in range((rows + four - uint64(1)) // four):
        first, at = uint64(m0) + r * four, r * depth * four
        if straight and r * four + four <= rows:
            for q in range(depth):
                for i in range(four):
                    patterns[at + q * four + i] = uint32(a[first + i, uint64(k0) + q]) & mask
            continue
        for q in range(depth):
            for i in range(four):
                present = r * four + i < rows and ks[q] >= 0
                patterns[at + q * four + i] = uint32(a[first + i, uint64(k0 + ks[q])]) & mask if present else uint32(0)


@njit(cache=True, nogil=True, error_model="numpy")
def _open(c, corner, running):  # type: ignore[no-untyped-def]
    """running[g, r, i, j] = c[m0 + 4 r + i, n0 + 16 g + j] as float32, flat; zeros after row m1 and column n1."""
    whole_vectors()
    m0, m1, n0, n1 = corner
    lanes, columns, rows = uint64(WIDTH), uint64(n1 - n0), uint64(m1 - m0)
    padded = uint64(-(-(m1 - m0) // ROWS) * ROWS)
    for m in range(padded):
        present = columns if m < rows else uint64(0)
        for g in range(present // lanes):
            at, first = (g * padded + m) * lanes, uint64(n0) + g * lanes
            for j in range(lanes):
                running[at + j] = c[uint64(m0) + m, first + j]
        for g in range(present // lanes, (columns + lanes - uint64(1)) // lanes):
            at, first = (g * padded + m) * lanes, g * lanes
            for j in range(lanes):
                running[at + j] = c[uint64(m0) + m, uint64(n0) + first + j] if first + j < present else 0
    of_c = uint64(running.ctypes.data)
    widen(of_c, int64(c.itemsize == 2), int64(running.shape[0] // WIDTH), of_c)


@njit(cache=True, nogil=True, error_model="numpy")
def _close(running, corner, d):  # type: ignore[no-untyped-def]
    """d[m0 + 4 r + i, n0 + 16 g + j] = the result running[g, r, i, j], flat, as a pattern of d's format."""
    whole_vectors()
    kind = int64(FLOAT16 if d.itemsize == 2 else FLOAT32)
    finish(uint64(running.ctypes.data), int64(running.shape[0] // WIDTH), kind)
    m0, m1, n0, n1 = corner
    lanes, columns, padded = uint64(WIDTH), uint64(n1 - n0), uint64(-(-(m1 - m0) // ROWS) * ROWS)
    for m in range(uint64(m1 - m0)):
        for g in range(columns // lanes):
            at, first = (g * padded + m) * lanes, uint64(n0) + g * lanes
            for j in range(lanes):
                d[uint64(m0) + m, first + j] = running[at + j]
        for n in range(columns // lanes * lanes, columns):
            d[uint64(m0) + m, uint64(n0) + n] = running[(n // lanes * padded + m) * lanes + n % lanes]


# --------------------------------------------------------------------------------------------------------- the products


@njit(cache=True, nogil=True, error_model="numpy")
def _add(a, b, k, corner, ks, straight, counts, masks, plans, works, buffers, running):  # type: ignore[no-untyped-def]
    """running += a @ b of a tile, from k on; returns the k at which the fast path fails, or else their number.

    ks: what `_load_x` takes, for some instructions. counts: these instructions, and the products of each. masks: of the
    bits of an element of B and of A. plans, works: a PLAN and a WORK. buffers: for x, y and what is packed.
    """
    x, y, scratch = buffers
    (m0, m1, n0, n1), (steps, deep), plan, work = corner, counts, plans[0], works[0]
    per, sums = ks.shape[0] // steps, plan.rule.sums
    work.tiles, work.x, work.y, work.packed = 1, x.ctypes.data, y.ctypes.data, scratch.ctypes.data
    work.c = running.ctypes.data
    while k < a.shape[1]:
        many = min(steps, (a.shape[1] - k) // deep)
        some = ks[: many * per]
        _load_x(b, k, some, n0, n1, masks[0], x)
        _load_y(a, k, some, straight, m0, m1, masks[1], y)
        chains = many if plan.rule.join else 1
        work.tiles, work.steps, plan.rule.sums = 1, chains, sums * (many // chains)
        plan.x.vectors = -(-(n1 - n0) // WIDTH) * len(some)
        plan.y.vectors = -(-(m1 - m0) // ROWS) * len(some) * ROWS // WIDTH
        call(plan.multiply_tiles, (uint64(plans.ctypes.data), uint64(works.ctypes.data)))
        if work.seen & OUTSIDE and (plan.rule.keep != 23 or plan.rule.half):
            return k
        k += many * deep
    return k


class Rule(NamedTuple):
    """Fraction bits F, the floor of E, fraction bits kept, and whether results are float16 rounded to nearest."""

    fraction: int
    floor: int
    keep: int
    half: bool


class _Product:
    """A product with everything that its tiles share.

    chain: for one instruction, the k of each fused sum, (sums, depth), with -1 behind those of a shorter sum. formats,
    normal and join: see `multiply`.
    """

    def __init__(self, rule: Rule, formats: Sequence[Array], normal: Sequence[bool], join: bool, chain: Array):
        self._rule, self._formats, self._join = np.array(rule), formats, join
        self._sums = [ks[ks >= 0] for ks in chain]
        held = space(rule.fraction, chain.shape[1], [form.tolist() for form in formats])
        self._plan = np.zeros(1, PLAN)
        self._plan["rule"] = (*rule, join, chain.shape[1], len(chain), held)
        self._plan["x"]["format"], self._plan["y"]["format"] = (*formats[1], normal[1]), (*formats[0], normal[0])
        with_functions(self._plan, scaled=False, careful=True)
        self._deep = sum(map(len, self._sums))
        self._steps = max(1, CHUNK // chain.size)  # instructions at a time
        ks = np.arange(self._steps)[:, None, None] * self._deep + chain
        self._ks = np.where(chain < 0, -1, ks).reshape(-1)
        self._straight = np.array_equal(self._ks, np.arange(self._ks.size))
        self._masks = tuple(np.uint32(-1 << int(form[3]) & 0xFFFFFFFF) for form in (formats[1], formats[0]))

    def tile(self, a: Array, b: Array, c: Array, d: Array, corner: Corner, *, fast: bool) -> None:
        """A tile of d = a @ b + c, k in the order of the sums; all are matrices of patterns in C order.

        Without `fast`, the plain rule computes everything.
        """
        m0, m1, n0, n1 = corner
        rows, columns = -(-(m1 - m0) // ROWS) * ROWS, -(-(n1 - n0) // WIDTH) * WIDTH
        running = _KEPT.take("running", rows * columns, np.int32)
        _open(c, corner, running)
        k = 0
        while k < a.shape[1]:
            if fast:
                k = self._add(a, b, k, corner, rows, columns, running)
            if k < a.shape[1]:
                stop = min(k + self._steps * self._deep, a.shape[1])
                tile = running.reshape(-1, rows, WIDTH).transpose(1, 0, 2).reshape(rows, -1)[: m1 - m0, : n1 - n0]
                sums = self._added(a[m0:m1, k:stop], b[k:stop, n0:n1], np.ascontiguousarray(tile))
                blocks = np.pad(sums, ((0, rows - len(sums)), (0, columns - sums.shape[1])))
                running[...] = blocks.reshape(rows, -1, WIDTH).transpose(1, 0, 2).reshape(-1)
                k = stop
        _close(running, corner, d)

    def _add(self, a: Array, b: Array, k: int, corner: Corner, rows: int, columns: int, running: Array) -> int:
        size_x, size_y = columns * self._ks.size, rows * self._ks.size
        x, y = _KEPT.take("x", size_x, np.uint32), _KEPT.take("y", size_y, np.uint32)
        buffers = x, y, _KEPT.take("packed", 3 * (size_x + size_y), np.int32)
        # What a tile needs of its own: the number of sums changes, and nothing is fetched ahead.
        counts, plans, works = (self._steps, self._deep), self._plan.copy(), np.zeros(1, WORK)
        reached: int = _add(
            a, b, k, corner, self._ks, self._straight, counts, self._masks, plans, works, buffers, running
        )
        return reached

    def _added(self, a: Array, b: Array, c: Array) -> Array:
        """a @ b + c by the plain rule; c are float32 patterns."""
        for first in range(0, len(b), self._deep):
            part = np.zeros_like(c) if self._join else c
            for ks in self._sums:
                right, left = (
                    each.astype(np.uint32) & mask
                    for each, mask in zip((b[first + ks], a[:, first + ks]), self._masks, strict=True)
                )
                plain(np.ascontiguousarray(left), right, part, *self._formats, self._rule)
            if self._join:
                c = _joined(part, c, bool(self._rule[3]))
        return c


def _joined(one: Array, other: Array, half: bool) -> Array:
    """The sums of float32 patterns, to nearest even; if `half`, of float16."""
    with np.errstate(all="ignore"):
        total = one.view(np.float32) + other.view(np.float32)
        # float32 has more than twice the bits of float16, so rounding twice equals rounding once.
        total = total.astype(np.float16).astype(np.float32) if half else total
    return np.where(np.isnan(total), np.int32(QUIET), total.view(np.int32))
