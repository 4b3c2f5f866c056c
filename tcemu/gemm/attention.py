"""Fused attention, forward: O = softmax(Q K^T / sqrt(64)) V, without ever writing the scores to memory.

A block of four warps handles 64 queries, 16 for each warp. It visits the keys in tiles of 64. A tile's scores are the
accumulator of the first product and, rounded to f16, the A operand of the second: both layouts hold the same elements
in the same lanes, so nothing moves. The softmax is online: each row keeps its largest score so far and the sum of its
exponentials, and when a larger score comes, the sums so far are scaled down.

2^x is a polynomial in fma.rn.f32, not ex2.approx, whose bits the manual does not specify. Every step is therefore
defined to the last bit, and the output is the same on every machine.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm.mma_pipeline import LOAD, LOAD_TRANSPOSED, MMA, copy, place_b
from tcemu.launcher import launch
from tcemu.machine import scalar
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.warp import Warp

F32 = npt.NDArray[np.float32]

#: Elements of a head; queries of a block; keys of a tile. Rows of all tiles have 128 bytes.
DIM, QUERIES, KEYS = 64, 64, 64
TILE_BYTES = 2 * 64 * DIM
#: Q, then K and V of the tile in turn.
Q, K, V = 0, TILE_BYTES, 2 * TILE_BYTES
SHARED = 3 * TILE_BYTES
#: exp(x / sqrt(DIM)) = 2 ** (x * SCALE).
SCALE = np.float32(np.log2(math.e) / np.sqrt(DIM))

#: Coefficients of 2 ** x for x from -0.5 to 0.5, highest power first; the relative error is below 2^-22.
POLYNOMIAL = [np.float32(each) for each in (0.0013266971, 0.00967546, 0.055507425, 0.24022122, 0.69314694, 1.0)]
#: Added to a number of at most 22 bits, this rounds it to an integer, which ends up in the low bits.
ROUND = np.float32(1.5 * 2**23)
#: Smaller arguments count as this one: the kernel needs no smaller power.
LEAST = np.float32(-126)


def exp2(x: F32) -> F32:
    """2 ** x for x <= 0: the exponent field takes the integer part, the polynomial the rest."""
    x = scalar.maximum(x, LEAST)
    shifted = scalar.add(x, ROUND)
    rest = scalar.add(x, -scalar.add(shifted, -ROUND))
    power = np.broadcast_to(POLYNOMIAL[0], rest.shape)
    for coefficient in POLYNOMIAL[1:]:
        power = scalar.fma(power, rest, coefficient)
    return scalar.shift_add(shifted, 23, power)


def copy_tile(warp: Warp, to: int, matrix: Pointer, first: int) -> None:
    """Start copying 64 rows of 128 bytes from row `first`: four units of 16 bytes for each thread."""
    for part in range(4):
        unit = warp.threads + 128 * part
        copy(warp, to + place_b(unit // 8, unit % 8), matrix, first + unit // 8, 8 * (unit % 8))


def load_queries(warp: Warp) -> list[Registers]:
    """This warp's 16 queries, as A operands of four steps along the head."""
    row, unit = 16 * warp.warpid + warp.laneid % 16, warp.laneid // 16
    return [warp.run(LOAD, Q + place_b(row, 2 * step + unit)) for step in range(DIM // 16)]


def scores(warp: Warp, q: list[Registers], first: int, keys: int) -> list[F32]:
    """Q K^T of a tile: eight accumulators (32, 4) of 16 queries by 8 keys; -inf where there is no key."""
    masked = []
    for n in range(KEYS // 8):
        c = warp.registers(4, fill=0)
        for half in range(2):  # K is (keys, head): its rows are B's columns, so nothing is transposed
            held = warp.run(LOAD, K + place_b(8 * n + warp.laneid % 8, 4 * half + warp.laneid // 8))
            c = warp.run(MMA, q[2 * half], held[:, :2], c)
            c = warp.run(MMA, q[2 * half + 1], held[:, 2:], c)
        column = first + 8 * n + 2 * (warp.laneid % 4)[:, None] + np.array([0, 1, 0, 1])
        masked.append(scalar.select(column < keys, c.view(np.float32), np.float32(-np.inf)))
    return masked


def over_row(warp: Warp, combine: Any, values: F32) -> F32:
    """Combine what the four lanes of a row hold, (32, 2); each lane gets the result."""
    for distance in (1, 2):
        other = [warp.shfl_sync("bfly", values[:, i].view(np.uint32), distance) for i in range(2)]
        values = combine(values, np.stack([np.asarray(each).reshape(32) for each in other], 1).view(np.float32))
    return values


def softmax(warp: Warp, s: list[F32], largest: F32, total: F32) -> tuple[list[npt.NDArray[np.uint32]], F32, F32, F32]:
    """The exponentials of a tile as A operands, the new largest scores and totals, and the factor for older sums.

    `largest` and `total` are (32, 2): a lane has elements of two rows, 8 apart.
    """
    before, rows = largest, [each.reshape(32, 2, 2) for each in s]
    for each in rows:
        largest = scalar.maximum(largest, scalar.maximum(each[:, :, 0], each[:, :, 1]))
    largest = over_row(warp, scalar.maximum, largest)
    offset = scalar.mul(largest, -SCALE)
    factor = exp2(scalar.fma(before, SCALE, offset))
    here = np.zeros((32, 2), np.float32)
    powers = []
    for each in rows:
        power = exp2(scalar.fma(each, SCALE, offset[:, :, None]))
        powers.append(power)
        here = scalar.add(scalar.add(here, power[:, :, 0]), power[:, :, 1])
    total = scalar.fma(total, factor, over_row(warp, scalar.add, here))
    halves = [scalar.cvt_f16x2(each[:, :, 0], each[:, :, 1]) for each in powers]
    operands = [np.concatenate(halves[2 * step : 2 * step + 2], axis=1) for step in range(KEYS // 16)]
    return operands, largest, total, factor


def add_values(warp: Warp, p: list[npt.NDArray[np.uint32]], o: list[Registers], factor: F32) -> None:
    """O = O * factor + P V."""
    scale = np.repeat(factor, 2, axis=1)
    for n in range(DIM // 8):
        o[n][:] = scalar.mul(o[n].view(np.float32), scale).view(np.uint32)
        for half in range(2):
            held = warp.run(LOAD_TRANSPOSED, V + place_b(32 * half + warp.laneid, np.full(32, n)))
            o[n] = warp.run(MMA, p[2 * half], held[:, :2], o[n])
            o[n] = warp.run(MMA, p[2 * half + 1], held[:, 2:], o[n])


def kernel(warp: Warp, q: Pointer, k: Pointer, v: Pointer, out: Pointer) -> None:
    """One block for each 64 queries: q, out (queries, 64) and k, v (keys, 64); out is f32, the others are f16."""
    first = QUERIES * warp.ctaid[0]
    copy_tile(warp, Q, q, first)
    o = [warp.registers(4, fill=0) for _ in range(DIM // 8)]
    largest, total = np.full((32, 2), -np.inf, np.float32), np.zeros((32, 2), np.float32)
    queries = None
    for tile in range(0, k.shape[0], KEYS):
        copy_tile(warp, K, k, tile)
        copy_tile(warp, V, v, tile)
        warp.cp_async_wait_all()
        warp.bar_sync()  # the copies of all warps have arrived
        queries = queries or load_queries(warp)
        p, largest, total, factor = softmax(warp, scores(warp, queries, tile, k.shape[0]), largest, total)
        add_values(warp, p, o, factor)
        warp.bar_sync()  # all warps have read them: the tiles may be overwritten
    store(warp, out, o, total, first)


def store(warp: Warp, out: Pointer, o: list[Registers], total: F32, first: int) -> None:
    """Write O, each row divided by its total."""
    row, column = first + 16 * warp.warpid + warp.laneid // 4, 2 * (warp.laneid % 4)
    for n in range(DIM // 8):
        quotient = scalar.div(o[n].view(np.float32), np.repeat(total, 2, axis=1)).view(np.uint32)
        for half in range(2):
            with warp.only(row + 8 * half < out.shape[0]):
                warp.st_global(out.at(row + 8 * half, 8 * n + column), quotient[:, 2 * half : 2 * half + 2], "v2.b32")


@explained
def attend(
    q: npt.NDArray[np.float16], k: npt.NDArray[np.float16], v: npt.NDArray[np.float16], **options: Any
) -> tuple[npt.NDArray[np.float32], Launch]:
    """O (queries, 64) float32 of q (queries, 64) and k, v (keys, 64), all float16, and the launch.

    `options` are passed to tcemu.launch: target, seed, policy, sanitizer. Raises OperandError for other shapes.

    >>> from tcemu.gemm import attention
    >>> q, k, v = (np.ones((64, 64), np.float16) for _ in range(3))
    >>> out, result = attention.attend(q, k, v)
    >>> out.shape, out[0, 0]  # a mean of ones
    ((64, 64), np.float32(1.0))
    """
    check(q, k, v)
    out = np.zeros(q.shape, np.float32)
    return out, launch(kernel, -(-len(q) // QUERIES), 128, (q, k, v, out), shared=SHARED, **options)


def check(*matrices: Any) -> None:
    """Raise OperandError unless q is (queries, 64), and k and v (keys, 64), of float16."""
    right = all(isinstance(each, np.ndarray) and each.dtype == np.float16 and each.ndim == 2 for each in matrices)
    if (
        not right
        or any(each.shape[1] != DIM or not len(each) for each in matrices)
        or len(matrices[1]) != len(matrices[2])
    ):
        got = [f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else briefly(each) for each in matrices]
        raise OperandError(f"q must be float16 (queries, {DIM}), k and v (keys, {DIM}); got {', '.join(got)}")
