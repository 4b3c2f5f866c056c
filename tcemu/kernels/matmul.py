"""Whole matrix products on all cores, as computed by a kernel that loops over K with one instruction.

    fused     floats: fused sums, chained or joined
    integer   8-bit and smaller integers into 32 bits
    bits      one-bit matrices in words of 32
    f64       chains of fused multiply-adds
    groups    chains of float32 multiply-adds, and their sum

The work is cut into tiles; every thread takes the next one, packs its operands into its own scratch memory and runs a
compiled kernel without the interpreter lock. The memory for packed operands does not grow with the matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.kernels import f64 as chains64
from tcemu.kernels import matmul_fused, matmul_plain
from tcemu.kernels.groups import FROM_PRODUCT, FROM_ZERO
from tcemu.kernels.lanes import WIDTH as BLOCK_COLUMNS
from tcemu.kernels.lanes import permutes_words
from tcemu.kernels.matmul_exact import ALL_ONES, QUIET, QUIET_HALF, WIDTH
from tcemu.kernels.matmul_fused import CHUNK, Corner
from tcemu.kernels.matmul_groups import group_products
from tcemu.kernels.rooms import Kept
from tcemu.kernels.rule import ROWS as BLOCK_ROWS
from tcemu.kernels.sums import LOWEST
from tcemu.kernels.threads import cores, share

Array = npt.NDArray[Any]

ROWS, COLUMNS = 256, WIDTH
#: If a call has fewer products than this, a second thread costs more than it gains.
SERIAL = 1 << 21
_KEPT = Kept()


def fused(
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
    _check_shapes(a, b, c)
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
    rule = matmul_fused.Rule(fraction, floor, keep, half)
    formats = np.asarray(format_a, np.int64), np.asarray(format_b, np.int64)
    fast = fast and _suits(formats, block, rule)
    if any(normal) and not (fast and all(form[0] <= 5 for form in formats)):
        raise ValueError("only the fast path normalises subnormals, and only those of small formats")
    # The places of each sum's products; -1 for places that stay empty.
    places = np.full((len(sums), block), -1, np.int64)
    for row, ks in zip(places, sums, strict=True):
        row[: len(ks)] = ks
    product = matmul_fused.Product(rule, formats, normal, join, places)
    a, b, c = (np.ascontiguousarray(each) for each in (a, b, c))
    d = np.empty_like(c)
    a, rows = _without_nan(a, formats[0], along=1) if fast else (a, None)
    b, columns = _without_nan(b, formats[1], along=0) if fast else (b, None)

    _share(lambda tile: product.tile(a, b, c, d, tile, fast=fast), a.shape[0], b.shape[1], a.shape[1], threads)
    nan = np.asarray(QUIET_HALF if half else QUIET, d.dtype)
    if rows is not None:
        d[rows] = nan
    if columns is not None:
        d[:, columns] = nan
    return d


def integer(
    a: Array, b: Array, c: Array, *, step: int, saturate: bool = False, threads: int | None = None
) -> npt.NDArray[np.int32]:
    """a @ b + c of small integers: a (M, K), b (K, N) int8 or uint8 values, c (M, N) int32.

    Wraps to 32 bits, or with `saturate` is clamped after every `step` products; K is a multiple of `step`.
    """
    _check_shapes(a, b, c)
    if step < 1 or a.shape[1] % step:
        raise ValueError(f"K = {a.shape[1]} in instructions of {step} products")
    if a.dtype not in (np.int8, np.uint8) or b.dtype not in (np.int8, np.uint8) or c.dtype != np.int32:
        raise ValueError(f"int8 or uint8 values and int32 accumulators, not {a.dtype}, {b.dtype}, {c.dtype}")
    block = matmul_plain.BLOCK
    padded = -(-step // block) * block
    steps = max(1, CHUNK // padded)
    d = np.empty(c.shape, np.int32)

    def work(tile: Corner) -> None:
        m0, m1, n0, n1 = tile
        running = np.zeros((m1 - m0, COLUMNS), np.int32)
        running[:, : n1 - n0] = c[m0:m1, n0:n1]
        for k0 in range(0, a.shape[1], steps * step):
            many = min(steps, (a.shape[1] - k0) // step)
            k1 = k0 + many * step
            part_a = _KEPT.take("a", (m1 - m0) * many * padded, np.float32).reshape(m1 - m0, many, padded)
            part_b = _KEPT.take("b", many * padded * COLUMNS, np.float32).reshape(many, padded, COLUMNS)
            part_a[:, :, :step] = a[m0:m1, k0:k1].reshape(m1 - m0, many, step)
            part_b[:, :step, : n1 - n0] = b[k0:k1, n0:n1].reshape(many, step, n1 - n0)
            part_a[:, :, step:], part_b[:, step:], part_b[:, :, n1 - n0 :] = 0, 0, 0
            blocks = part_a.reshape(m1 - m0, -1, block).transpose(1, 0, 2)
            matmul_plain.integer(
                np.ascontiguousarray(blocks),
                part_b.reshape(-1, block * COLUMNS),
                running,
                padded // block,
                saturate,
            )
        d[m0:m1, n0:n1] = running[:, : n1 - n0]

    _share(work, a.shape[0], b.shape[1], a.shape[1], threads)
    return d


def bits(a: Array, b: Array, c: Array, *, xor: bool, threads: int | None = None) -> npt.NDArray[np.int32]:
    """c plus the number of ones in a xor b (or a and b): a (M, K / 32), b (K / 32, N) uint32 words, c (M, N) int32."""
    _check_shapes(a, b, c)
    if a.dtype != np.uint32 or b.dtype != np.uint32 or c.dtype != np.int32:
        raise ValueError(f"uint32 words and int32 accumulators, not {a.dtype}, {b.dtype}, {c.dtype}")
    d = np.array(c, np.int32, order="C")

    def work(corner: Corner) -> None:
        m0, m1, n0, n1 = corner
        tile = _whole(d[m0:m1, n0:n1])
        matmul_plain.bits(_whole(a[m0:m1]), _whole(b[:, n0:n1]), tile, xor)
        d[m0:m1, n0:n1] = tile

    _share(work, a.shape[0], b.shape[1], a.shape[1] * 8, threads)
    return d


def f64(a: Array, b: Array, c: Array, *, mode: int = 0, threads: int | None = None) -> npt.NDArray[np.uint64]:
    """c, then a fused multiply-add for each ascending k; all uint64 patterns. mode: 0 rn, 1 rz, 2 rm, 3 rp.

    a (M, K), b (K, N), c (M, N). NaN as in `tcemu.kernels.f64`.
    """
    _check_shapes(a, b, c)
    if any(x.dtype != np.uint64 for x in (a, b, c)):
        raise ValueError(f"uint64 patterns, not {a.dtype}, {b.dtype}, {c.dtype}")
    d = np.array(c, np.uint64, order="C")

    def work(corner: Corner) -> None:
        m0, m1, n0, n1 = corner
        for k0 in range(0, a.shape[1], CHUNK):
            left, right = a[m0:m1, k0 : k0 + CHUNK], b[k0 : k0 + CHUNK, n0:n1]
            d[m0:m1, n0:n1] = chains64.multiply(left, right, d[m0:m1, n0:n1], mode)

    _share(work, a.shape[0], b.shape[1], a.shape[1] * 4, threads)
    return d


def groups(
    a: Array, b: Array, c: Array, *, order: Array, from_zero: bool, half: bool, threads: int | None = None
) -> npt.NDArray[np.float32] | None:
    """The values of a @ b + c by chains of float32 multiply-adds, whose results are added; all are float32 values.

    None if this processor lacks the vectors for it.

    a (M, K), b (K, N), c (M, N); K is a multiple of the products of one instruction. order (chains, products): the k of
    each chain, in the order in which their results are added to c. from_zero: whether they start from +0, or from their
    first products. half: whether every instruction rounds its results to float16.
    """
    _check_shapes(a, b, c)
    if order.size == 0 or a.shape[1] % order.size:
        raise ValueError(f"K = {a.shape[1]} in instructions of {order.size} products")
    if not permutes_words():
        return None
    rows, columns = -(-a.shape[0] // BLOCK_ROWS) * BLOCK_ROWS, -(-b.shape[1] // BLOCK_COLUMNS) * BLOCK_COLUMNS
    left, right, running = (
        np.zeros(shape, np.float32) for shape in ((rows, a.shape[1]), (b.shape[0], columns), (rows, columns))
    )
    for whole, given in ((left, a), (right, b), (running, c)):
        whole[: given.shape[0], : given.shape[1]] = given
    words, start = np.ascontiguousarray(order, np.uint32), FROM_ZERO if from_zero else FROM_PRODUCT

    def work(corner: Corner) -> None:
        group_products(left, right, running, words, start, half, corner)

    _share(work, rows, columns, a.shape[1], threads)
    return running[: c.shape[0], : c.shape[1]]


# ------------------------------------------------------------------------------------------------------------ the parts


def _check_shapes(a: Array, b: Array, c: Array) -> None:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or c.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"shapes {a.shape} @ {b.shape} + {c.shape}")


def _whole(part: Array) -> Array:
    """A part of a matrix, without gaps: a kernel that is given gaps is compiled once more."""
    return np.ascontiguousarray(part)


def _suits(formats: tuple[Array, Array], block: int, rule: matmul_fused.Rule) -> bool:
    """Whether the fast path is exact for these numbers; `tcemu.kernels.sums` explains why."""
    narrow = all(form[0] <= 8 and form[1] <= 10 for form in formats)
    # The sum of 32 products and c must fit in 32 bits without its sign.
    largest = math.prod(2.0 - 2.0 ** -int(form[1]) for form in formats)
    room = block <= 16 or (32 * largest + 2) * 2.0**rule.fraction < 2.0**32
    # An accumulator that passes must pass with all its bits.
    emin, floor = (-14, 0) if rule.half else (-126, LOWEST)
    whole = rule.keep <= rule.fraction <= 25 and rule.floor - rule.fraction <= emin - rule.keep
    return narrow and room and whole and rule.floor <= floor


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


def _share(work: Callable[[Corner], None], rows: int, columns: int, depth: int, threads: int | None) -> None:
    """Run `work` for all tiles of a (rows, columns) matrix, in as many threads as the size justifies."""
    most = min(cores(), threads or cores()) if rows * columns * depth > SERIAL else 1
    across = -(-columns // COLUMNS)
    height = ROWS
    while most > 1 and height > 16 and across * -(-rows // height) < 4 * most:
        height //= 2
    tiles = [
        (m, min(m + height, rows), n, min(n + COLUMNS, columns))
        for m in range(0, rows, height)
        for n in range(0, columns, COLUMNS)
    ]
    share(work, tiles, most)
