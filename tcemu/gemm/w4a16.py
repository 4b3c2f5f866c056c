"""W4A16: f16 activations times weights of 4 bits with a scale for each 128 along K, as GPTQ, AWQ and Marlin run them.

The weights are packed once, offline, so that the 16 bytes a lane copies are the B operands of its next 8 products. They
become f16 in registers, without a conversion instruction, by the magic number 0x6400, which is 1024 in f16: the last
bits of an f16 from 1024 to 2047 count units, so putting four bits there (one lop3) makes the number 1024 + bits.

    (q & 0x000f000f) | 0x64006400    1024 + v, twice; less 1032 it is v - 8, the weight
    (q & 0x00f000f0) | 0x64006400    1024 + 16 v, twice; times 1/16, less 72: an fma

Then it is multiplied by its scale and rounded to f16: the product is that of A and of this rounded matrix, to the bit.
The main loop is mma_pipeline's, but each warp has 16 columns of all 64 rows, so that no weight is converted twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm.mma_pipeline import LOAD, MMA, copy, place_b
from tcemu.gemm.store import store
from tcemu.launcher import launch
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.warp import Warp

#: A block's tile and its step along K; columns of a warp; elements along K that share a scale; stages.
M, N, K, COLUMNS, GROUP, STAGES = 64, 64, 64, 16, 128, 4
#: Bytes of a stage: A (64 rows of 128 bytes), the weights (16 for each thread), a scale for each column.
A_BYTES, W_BYTES = 2 * M * K, N * K // 2
STAGE_BYTES = A_BYTES + W_BYTES + 2 * N
#: Where a word's eight weights go: bits 0 and 16 hold a register's two elements, and so on, 4 bits further each time.
SHIFTS = (0, 16, 4, 20, 8, 24, 12, 28)
#: The lowest four bits of each half, the next four, and 1024 in both.
LOW, HIGH, MAGIC = np.uint32(0x000F000F), np.uint32(0x00F000F0), np.uint32(0x64006400)

F16 = npt.NDArray[np.float16]
Words = npt.NDArray[np.uint32]


def packed(weights: npt.NDArray[np.int8]) -> Words:
    """Weights (k, n) from -8 to 7 as words (k / 64, n / 16, 32, 4): for each lane, those of four steps along K.

    A step's word has two tiles of 16 x 8. Lane 4 g + t has column g of each, rows 2 t, 2 t + 1, 2 t + 8 and 2 t + 9.

    >>> from tcemu.gemm import w4a16
    >>> hex(w4a16.packed(np.eye(64, 16, dtype=np.int8))[0, 0, 0, 0])  # a weight of 0 is stored as 8
    '0x88889889'
    """
    k, n = weights.shape
    lane = np.arange(32)
    rows = 2 * (lane % 4)[:, None] + np.array([0, 1, 8, 9])
    # each 64 of K, steps of 16, rows, strips of 16 columns, tiles, columns
    tiles = (weights + 8).astype(np.uint32).reshape(k // K, 4, 16, n // COLUMNS, 2, 8)
    held = tiles[:, :, rows, :, :, (lane // 4)[:, None]]  # lanes, rows, then the others
    elements = held.transpose(2, 4, 0, 3, 5, 1).reshape(k // K, n // COLUMNS, 32, 4, 8)
    words: Words = np.bitwise_or.reduce(elements << np.array(SHIFTS, np.uint32), axis=-1)
    return words


def copy_stage(warp: Warp, a: Pointer, weights: Pointer, scales: Pointer, step: int) -> None:
    """Start copying a step's tile of A, this thread's weights, and the scales."""
    x, y, _ = warp.ctaid
    first = step % STAGES * STAGE_BYTES
    for part in range(4):
        unit = warp.threads + 128 * part
        copy(warp, first + place_b(unit // 8, unit % 8), a, M * y + unit // 8, K * step + 8 * (unit % 8))
    of_thread = weights.at(step, N // COLUMNS * x + warp.warpid, warp.laneid, 0)
    warp.cp_async(first + A_BYTES + 16 * warp.threads, of_thread, 16, cache="cg")
    with warp.only(warp.threads < 2 * N // 16):
        of_columns = scales.at(K * step // GROUP, N * x + 8 * (warp.threads % (2 * N // 16)))
        warp.cp_async(first + A_BYTES + W_BYTES + 16 * warp.threads, of_columns, 16, cache="cg")


def dequantise(warp: Warp, word: Words, scale: Registers) -> Registers:
    """The B operand of one tile: the four lowest weights of a word, times the scale of this lane's column."""
    b = warp.registers(2)
    b[:] = np.stack([word & LOW, word & HIGH], axis=1) | MAGIC  # lop3: 1024 + v, and 1024 + 16 v
    lower, upper = b.view(np.float16).reshape(32, 2, 2).transpose(1, 0, 2)
    b[:] = np.hstack([lower - np.float16(1032), upper * np.float16(1 / 16) - np.float16(72)]).view(np.uint32)
    with np.errstate(all="ignore"):
        b[:] = (b.view(np.float16) * scale[:].astype(np.uint16).view(np.float16)).view(np.uint32)
    return b


def multiply_stage(warp: Warp, stage: int, c: list[list[Registers]]) -> None:
    """Multiply the tiles of a stage: this warp's 64 x 16, in steps of 16 along K."""
    first = stage * STAGE_BYTES
    words = warp.ld_shared(first + A_BYTES + 16 * warp.threads, "v4.b32")
    columns = COLUMNS * warp.warpid + warp.laneid // 4
    scales = [warp.ld_shared(first + A_BYTES + W_BYTES + 2 * (columns + 8 * i), "b16") for i in range(2)]
    for k in range(K // 16):
        down, along = warp.laneid % 16, warp.laneid // 16
        a = [warp.run(LOAD, first + place_b(16 * m + down, 2 * k + along)) for m in range(4)]
        for i in range(2):
            b = dequantise(warp, words[:, k] >> np.uint32(8 * i), scales[i])
            for m in range(4):
                c[m][i] = warp.run(MMA, a[m], b, c[m][i])


def kernel(warp: Warp, a: Pointer, weights: Pointer, scales: Pointer, d: Pointer) -> None:
    """D = A W: A (m, k) of f16, weights as `packed` makes them, scales (k / 128, n) of f16, D (m, n) of f32."""
    x, y, _ = warp.ctaid
    steps = a.shape[1] // K
    c = [[warp.registers(4, fill=0) for _ in range(2)] for _ in range(4)]
    for step in range(STAGES - 1):
        if step < steps:
            copy_stage(warp, a, weights, scales, step)
        warp.cp_async_commit_group()
    for step in range(steps):
        warp.cp_async_wait_group(STAGES - 2)  # this thread's copies for this step have arrived
        warp.bar_sync()  # all threads' copies have, and all have read the previous stage, to be refilled
        if step + STAGES - 1 < steps:
            copy_stage(warp, a, weights, scales, step + STAGES - 1)
        warp.cp_async_commit_group()  # an empty group too, so that the number to wait for stays the same
        multiply_stage(warp, step % STAGES, c)
    for m in range(4):
        store(warp, d, np.hstack(c[m]), M * y + 16 * m + warp.laneid // 4, N * x + COLUMNS * warp.warpid)


@explained
def multiply(
    a: F16, weights: npt.NDArray[np.int8], scales: F16, **options: Any
) -> tuple[npt.NDArray[np.float32], Launch]:
    """D (m, n) float32 of A (m, k) float16 and weights (k, n), and the launch; weights are int8 from -8 to 7.

    scales (k / 128, n) are float16. The weights that A multiplies are weights * scale, rounded to f16. k is a multiple
    of 128 and n of 64; m may be any size. `options` are passed to tcemu.launch: target, seed, policy, sanitizer. Raises
    OperandError for other shapes, dtypes and weights.

    >>> from tcemu.gemm import w4a16
    >>> A, W = np.ones((4, 128), np.float16), np.full((128, 64), -3, np.int8)
    >>> D, result = w4a16.multiply(A, W, np.full((1, 64), 0.5, np.float16))
    >>> D[0, 0], result.reports  # 128 * -3 * 0.5
    (np.float32(-192.0), [])
    """
    check(a, weights, scales)
    d = np.zeros((len(a), weights.shape[1]), np.float32)
    arguments = a, packed(weights), scales, d
    return d, launch(kernel, grid_of(d), 128, arguments, shared=STAGES * STAGE_BYTES, **options)


def grid_of(d: npt.NDArray[Any]) -> tuple[int, int]:
    """Blocks, across and down."""
    return d.shape[1] // N, -(-len(d) // M)


def check(a: Any, weights: Any, scales: Any) -> None:
    """Raise OperandError for other shapes, dtypes and weights than `multiply` takes."""
    matrices = a, weights, scales
    typed = all(
        isinstance(each, np.ndarray) and each.dtype == dtype and each.ndim == 2 and each.size
        for each, dtype in zip(matrices, (np.float16, np.int8, np.float16), strict=True)
    )
    if not typed or a.shape[1] != len(weights) or len(weights) % GROUP or weights.shape[1] % N:
        got = [f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else briefly(each) for each in matrices[:2]]
        raise OperandError(
            f"A must be float16 (m, k) and the weights int8 (k, n), with k a multiple of {GROUP}, the elements that "
            f"share a scale, and n of {N}, the columns of a block; the scales are float16; got {got[0]} and {got[1]}"
        )
    shape = len(weights) // GROUP, weights.shape[1]
    if scales.shape != shape:
        raise OperandError(f"scales must be {shape}, one for each {GROUP} rows of a column; got {scales.shape}")
    if weights.min() < -8 or weights.max() > 7:
        raise OperandError(f"weights have 4 bits, from -8 to 7; got {weights.min()} to {weights.max()}")
