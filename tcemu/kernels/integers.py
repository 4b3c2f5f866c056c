"""Sums of products that need no alignment: small integers, and bits.

    integer_block    s8, u8, s4 and u4 of some tiles: four rows of sixteen lanes
    multiply         the same for whole matrices
    bit_block, multiply_bits    b1, likewise

Small integers are float32 values here: a sum of so few of their products is exact, and a processor multiplies and adds
floats faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float32, int32, int64, types, uint32, uint64
from numba.extending import intrinsic

from tcemu.kernels.emit.code import Variable, bits32, vector_code, whole_vectors, words_at
from tcemu.kernels.emit.lanes import REAL, REALS, WORD, WORDS, Lanes
from tcemu.kernels.host.compiling import njit
from tcemu.kernels.host.memory import Kept
from tcemu.kernels.host.threads import COLUMNS, Corner, check_shapes, share_matrix
from tcemu.kernels.sums import ROWS

Array = npt.NDArray[Any]
_KEPT = Kept()
#: Products that are summed in float32: 256 products of bytes are below 2^24.
EXACT = 256
#: Products packed at a time for each output of a matrix, and those that are summed at once.
CHUNK, BLOCK = 256, 16
_LOWEST, _HIGHEST = -(1 << 31), (1 << 31) - 1


@njit(cache=True, nogil=True)
def integers(patterns, sign, count, values):  # type: ignore[no-untyped-def]
    """`count` patterns, small integers whose sign bit (or 0) is `sign`, as float32; pruned ones are 0. Addresses."""
    whole_vectors()
    source, into = words_at(patterns, count), words_at(values, count)
    for i in range(uint64(count)):  # in 32 bits: numba widens sums, which halves the lanes
        value = int32(int32(source[i] ^ sign) - sign)
        into[i] = bits32(float32(value if source[i] != int32(-1) else int32(0)))


@intrinsic
def integer_block(typingctx, x, y, c, depth, clamp):  # type: ignore[no-untyped-def]
    """c[row, lane] += the sum of x[k, lane] * y[k, row] in 32 bits, wrapping, or with `clamp` clamped once at the end.

    x (depth, 16) and y (depth, 4): addresses of values as `integers` gives them; c (4, 16): of int32.
    """

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, y, c, depth, clamp = args
        code = vector_code(builder)
        depth = code.number(depth)
        totals = [Variable(code.lanes(0)) for _ in range(ROWS)]
        with code.loop(0, (depth + (EXACT - 1)).down(EXACT.bit_length() - 1)) as part:
            first = part * EXACT
            sums = [Variable(code.lanes(0.0, REAL)) for _ in range(ROWS)]
            with code.loop(first, (first + EXACT).smaller(depth)) as k:
                left = code.load(x, k, REALS, unit=64)
                for row, so_far in enumerate(sums):
                    right = code.load(y, k.up(2) + row, REAL, unit=4).everywhere()
                    so_far.set(left.exactly_times_plus(right, so_far.get()))
            for total, so_far in zip(totals, sums, strict=True):
                total.set(total.get() + so_far.get().truncated())
        for row, so_far in enumerate(totals):
            addend, added = code.load(c, row, WORDS, unit=64), so_far.get()
            total = Variable(addend + added)

            def clamped(addend: Lanes = addend, added: Lanes = added, wrapped: Variable = total) -> None:
                wrapped.set(_clamped(addend, added, wrapped.get()))

            code.branch(clamp, clamped)
            code.store(total.get(), c, row, unit=64)
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, types.int64, types.int64), codegen


def _clamped(x: Lanes, y: Lanes, wrapped: Lanes) -> Lanes:
    """x + y without overflow, from the sum that may have wrapped."""
    overflow = ((x ^ wrapped) & (y ^ wrapped)).compare("<", 0)
    return overflow.choose(x.sign() ^ 0x7FFFFFFF, wrapped)


@intrinsic
def bit_block(typingctx, x, y, c, depth, exclusive):  # type: ignore[no-untyped-def]
    """c[row, lane] += the number of ones in x[k, lane] xor (or and) y[k, row] over words k, wrapping; addresses."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        x, y, c, depth, exclusive = args
        code = vector_code(builder)

        def count(join: Any) -> None:
            for row in range(ROWS):
                total = Variable(code.load(c, row, WORDS, unit=64))
                with code.loop(0, code.number(depth)) as k:
                    right = code.load(y, k.up(2) + row, WORD, unit=4).everywhere()
                    both = join(code.load(x, k, WORDS, unit=64), right)
                    total.set(total.get() + both.ones())
                code.store(total.get(), c, row, unit=64)

        code.branch(exclusive, lambda: count(lambda x, y: x ^ y), lambda: count(lambda x, y: x & y))
        return context.get_dummy_value()

    return types.none(*[types.uint64] * 3, types.int64, types.int64), codegen


# ------------------------------------------------------------------------------------------------------ whole matrices


@njit(cache=True, nogil=True, error_model="numpy")
def _sum16(a, b, c):  # type: ignore[no-untyped-def]
    """c[m, j] += a[m, k] * b[k, j] over 16 k, wrapping; b is flat, with rows of COLUMNS."""
    for m in range(a.shape[0]):
        for j in range(COLUMNS):
            total = float32(0.0)
            for k in range(16):
                total += float32(a[m, k] * b[COLUMNS * k + j])
            c[m, j] = int32(c[m, j] + int32(total))


@njit(cache=True, nogil=True, error_model="numpy")
def _clamp_into(part, c):  # type: ignore[no-untyped-def]
    """c += part, clamped; part becomes zero."""
    for m in range(c.shape[0]):
        for j in range(COLUMNS):
            total = int64(c[m, j]) + int64(part[m, j])
            c[m, j] = int32(min(max(total, int64(_LOWEST)), int64(_HIGHEST)))
            part[m, j] = 0


@njit(cache=True, nogil=True, error_model="numpy")
def _integers(a, b, c, chain, saturate):  # type: ignore[no-untyped-def]
    """c = a @ b + c in place: a (blocks, rows, 16), b (blocks, 16 * COLUMNS) float32 of bytes; c (rows, COLUMNS) int32.

    Wraps, or is clamped after every `chain` blocks.
    """
    part = np.zeros(c.shape if saturate else (1, 1), np.int32)
    for i in range(a.shape[0]):
        _sum16(a[i], b[i], part if saturate else c)
        if saturate and i % chain == chain - 1:
            _clamp_into(part, c)


@njit(cache=True, nogil=True)
def _ones(x):  # type: ignore[no-untyped-def]
    """The number of ones in a uint32, by adding neighbours; LLVM replaces this code by the processor's instruction."""
    x = uint32(x - uint32((x >> uint32(1)) & uint32(0x55555555)))
    x = uint32(uint32(x & uint32(0x33333333)) + uint32((x >> uint32(2)) & uint32(0x33333333)))
    x = uint32(uint32(x + uint32(x >> uint32(4))) & uint32(0x0F0F0F0F))
    return int32(uint32(x * uint32(0x01010101)) >> uint32(24))


@njit(cache=True, nogil=True, error_model="numpy")
def _bits(a, b, c, exclusive):  # type: ignore[no-untyped-def]
    """c[m, n] += the number of ones in a[m, w] xor b[w, n] (or a and b) over all words w, wrapping."""
    for m in range(a.shape[0]):
        for w in range(a.shape[1]):
            word = a[m, w]
            if exclusive:
                for n in range(c.shape[1]):
                    c[m, n] = int32(c[m, n] + _ones(uint32(word ^ b[w, n])))
            else:
                for n in range(c.shape[1]):
                    c[m, n] = int32(c[m, n] + _ones(uint32(word & b[w, n])))


def multiply(
    a: Array, b: Array, c: Array, *, step: int, saturate: bool = False, threads: int | None = None
) -> npt.NDArray[np.int32]:
    """a @ b + c of small integers: a (M, K), b (K, N) int8 or uint8 values, c (M, N) int32.

    Wraps to 32 bits, or with `saturate` is clamped after every `step` products; K is a multiple of `step`.
    """
    check_shapes(a, b, c)
    if step < 1 or a.shape[1] % step:
        raise ValueError(f"K = {a.shape[1]} in instructions of {step} products")
    if a.dtype not in (np.int8, np.uint8) or b.dtype not in (np.int8, np.uint8) or c.dtype != np.int32:
        raise ValueError(f"int8 or uint8 values and int32 accumulators, not {a.dtype}, {b.dtype}, {c.dtype}")
    padded = -(-step // BLOCK) * BLOCK
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
            blocks = part_a.reshape(m1 - m0, -1, BLOCK).transpose(1, 0, 2)
            _integers(
                np.ascontiguousarray(blocks),
                part_b.reshape(-1, BLOCK * COLUMNS),
                running,
                padded // BLOCK,
                saturate,
            )
        d[m0:m1, n0:n1] = running[:, : n1 - n0]

    share_matrix(work, a.shape[0], b.shape[1], a.shape[1], threads)
    return d


def multiply_bits(a: Array, b: Array, c: Array, *, xor: bool, threads: int | None = None) -> npt.NDArray[np.int32]:
    """c plus the number of ones in a xor b (or a and b): a (M, K / 32), b (K / 32, N) uint32 words, c (M, N) int32."""
    check_shapes(a, b, c)
    if a.dtype != np.uint32 or b.dtype != np.uint32 or c.dtype != np.int32:
        raise ValueError(f"uint32 words and int32 accumulators, not {a.dtype}, {b.dtype}, {c.dtype}")
    d = np.array(c, np.int32, order="C")

    def work(corner: Corner) -> None:
        m0, m1, n0, n1 = corner
        tile = np.ascontiguousarray(d[m0:m1, n0:n1])
        _bits(np.ascontiguousarray(a[m0:m1]), np.ascontiguousarray(b[:, n0:n1]), tile, xor)
        d[m0:m1, n0:n1] = tile

    share_matrix(work, a.shape[0], b.shape[1], a.shape[1] * 8, threads)
    return d
