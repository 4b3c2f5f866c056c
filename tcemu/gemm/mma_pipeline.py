"""mma.sync with ldmatrix, fed by cp.async in stages: while one tile is multiplied, the next ones are being copied.

A block of four warps computes a tile of 64 x 64, each warp 32 x 32 of it. In shared memory, the row's number permutes
the 16-byte units of each row, so that the eight rows of a matrix are in different banks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm.operands import check
from tcemu.gemm.store import store
from tcemu.launcher import launch
from tcemu.machine import scalar
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.warp import Warp

#: A block's tile, and its step along K.
M, N, K = 64, 64, 32
#: Stages that a kernel may have: with one stage, nothing would overlap.
STAGES = range(2, 6)
#: Bytes of the tiles of A (64 rows of 64 bytes) and B (32 rows of 128 bytes) in one stage.
A_BYTES, B_BYTES = 2 * M * K, 2 * K * N
STAGE_BYTES = A_BYTES + B_BYTES

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
LOAD_TRANSPOSED = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"

Lanes = npt.NDArray[np.int64]


def place_a(row: Lanes, unit: Lanes) -> Lanes:
    """The address of a 16-byte unit in a tile of A, whose rows have 4 units."""
    return row * 64 + ((unit ^ row // 2 % 4) * 16)


def place_b(row: Lanes, unit: Lanes) -> Lanes:
    """The address of a 16-byte unit in a tile of B, whose rows have 8 units."""
    return row * 128 + ((unit ^ row % 8) * 16)


def copy(warp: Warp, to: Lanes, matrix: Pointer, row: Lanes, column: Lanes) -> None:
    """Start copying 16 bytes from (row, column) of each lane; beyond the edges of the matrix, zeros."""
    rows, columns = matrix.shape
    inside = (row < rows) & (column < columns)
    here = matrix.at(np.where(inside, row, 0), np.where(inside, column, 0))
    source = scalar.select_source(inside, here, matrix.at(0, 0))
    warp.cp_async(to, source, 16, np.where(inside, 16, 0), cache="cg")


def copy_stage(warp: Warp, a: Pointer, b: Pointer, k: int, stage: int) -> None:
    """Start copying the tiles of A and B at `k`: 256 units of 16 bytes from each, two for each thread."""
    x, y, _ = warp.ctaid
    first_a, first_b = stage * STAGE_BYTES, stage * STAGE_BYTES + A_BYTES
    for half in range(2):
        unit = warp.threads + 128 * half
        row, column = unit // 4, unit % 4
        copy(warp, first_a + place_a(row, column), a, M * y + row, k + 8 * column)
        row, column = unit // 8, unit % 8
        copy(warp, first_b + place_b(row, column), b, k + row, N * x + 8 * column)


def multiply_stage(warp: Warp, stage: int, c: list[list[Registers]]) -> None:
    """Multiply the tiles of a stage: this warp's 32 x 32, in steps of 16 along K."""
    first_a, first_b = stage * STAGE_BYTES, stage * STAGE_BYTES + A_BYTES
    row, column = 32 * (warp.warpid // 2), 32 * (warp.warpid % 2)
    for k in range(0, K, 16):
        # 8 neighbouring lanes give the row addresses of one 8 x 8 matrix: down first, then along
        down, along = warp.laneid % 16, warp.laneid // 16
        held_a = [warp.run(LOAD, first_a + place_a(row + 16 * m + down, k // 8 + along)) for m in range(2)]
        held_b = [warp.run(LOAD_TRANSPOSED, first_b + place_b(k + down, column // 8 + 2 * n + along)) for n in range(2)]
        for m in range(2):
            for n in range(4):
                pair = held_b[n // 2][:, 2 * (n % 2) : 2 * (n % 2) + 2]
                c[m][n] = warp.run(MMA, held_a[m], pair, c[m][n])


def accumulate(warp: Warp, stages: int, a: Pointer, b: Pointer, steps: range) -> list[list[Registers]]:
    """This warp's 32 x 32 of the products of some steps along K, as 2 x 4 accumulators."""
    c = [[warp.registers(4, fill=0) for _ in range(4)] for _ in range(2)]
    for step in range(steps.start, steps.start + stages - 1):
        if step in steps:
            copy_stage(warp, a, b, K * step, step % stages)
        warp.cp_async_commit_group()
    for step in steps:
        warp.cp_async_wait_group(stages - 2)  # this thread's copies for this step have arrived
        warp.bar_sync()  # all threads' copies have, and all have read the previous stage, to be refilled
        if step + stages - 1 in steps:
            copy_stage(warp, a, b, K * (step + stages - 1), (step + stages - 1) % stages)
        warp.cp_async_commit_group()  # an empty group too, so that the number to wait for stays the same
        multiply_stage(warp, step % stages, c)
    return c


def store_all(warp: Warp, d: Pointer, c: list[list[Registers]]) -> None:
    """Write this warp's 32 x 32."""
    x, y, _ = warp.ctaid
    row, column = M * y + 32 * (warp.warpid // 2), N * x + 32 * (warp.warpid % 2)
    for m in range(2):
        store(warp, d, np.hstack(c[m]), row + 16 * m + warp.laneid // 4, column)


def kernel(warp: Warp, stages: int, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B, all row-major: A (m, k) and B (k, n) of f16, D (m, n) of f32."""
    store_all(warp, d, accumulate(warp, stages, a, b, range(-(-b.shape[0] // K))))


@explained
def multiply(
    a: npt.NDArray[np.float16], b: npt.NDArray[np.float16], stages: int = 3, **options: Any
) -> tuple[npt.NDArray[np.float32], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch; n and k are multiples of 8: rows are whole units of 16 bytes.

    `stages` is 2 to 5. `options` are passed to tcemu.launch: target, seed, policy, sanitizer. Raises OperandError for
    other shapes and stages.

    >>> from tcemu.gemm import mma_pipeline
    >>> A, B = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    >>> D, result = mma_pipeline.multiply(A, B)
    >>> D[0, 0], result.reports
    (np.float32(64.0), [])
    """
    check(a, b, n=8, k=8)
    if stages not in STAGES:
        raise OperandError(f"stages= must be {STAGES[0]} to {STAGES[-1]}; got {briefly(stages)}")
    d = np.zeros((len(a), b.shape[1]), np.float32)
    grid = -(-b.shape[1] // N), -(-len(a) // M)
    return d, launch(kernel, grid, 128, (stages, a, b, d), shared=stages * STAGE_BYTES, **options)
