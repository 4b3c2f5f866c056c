"""mma.sp on a pruned matrix: half of A is stored, and metadata says which half.

A block of four warps computes a tile of 64 x 64, each warp 16 rows of it. The stored values of A and its metadata come
from global memory straight into registers, as tcemu.sparse packed them; B goes through shared memory, because all four
warps need it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.gemm.mma_pipeline import LOAD_TRANSPOSED, copy, place_b
from tcemu.gemm.operands import check
from tcemu.gemm.store import store
from tcemu.instructions import parse
from tcemu.launcher import launch
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.warp import Warp
from tcemu.sparse import compress, tiles

#: A block's tile, and its step along K: one instruction's.
M, N, K = 64, 64, 32
#: Rows of A that one warp multiplies, and columns of B in one instruction.
ROWS, COLUMNS = 16, 8

MMA = parse("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
#: Which lanes of each four hold the metadata: the first two.
SELECTOR = 0


def kernel(warp: Warp, values: Pointer, metadata: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B: packed A (tiles down, steps, 32, 4), its metadata (tiles down, steps, 32), B (k, n) of f16."""
    x, y, _ = warp.ctaid
    tile = M // ROWS * y + warp.warpid
    c = [warp.registers(4, fill=0) for _ in range(N // COLUMNS)]
    for step in range(values.shape[1]):
        copy_tile(warp, b, K * step, N * x)
        held = warp.ld_global(values.at(tile, step, warp.laneid, 0), "v4.b32")
        codes = warp.ld_global(metadata.at(tile, step, warp.laneid))
        warp.cp_async_wait_all()
        warp.bar_sync()  # the copies of all warps have arrived
        for n in range(N // COLUMNS):
            lower = warp.run(LOAD_TRANSPOSED, place_b(warp.laneid, np.full(32, n)))
            c[n] = warp.run(MMA, held, lower, c[n], codes[:, 0], SELECTOR)
        warp.bar_sync()  # all warps have read them: the tile may be overwritten
    store(warp, d, np.hstack(c), M * y + ROWS * warp.warpid + warp.laneid // 4, N * x)


def copy_tile(warp: Warp, b: Pointer, k: int, n: int) -> None:
    """Start copying a tile of B, 32 rows of 128 bytes: two units of 16 bytes for each thread."""
    for half in range(2):
        unit = warp.threads + 128 * half
        row, column = unit // 8, unit % 8
        copy(warp, place_b(row, column), b, k + row, n + 8 * column)


def packed(a: npt.NDArray[np.float16]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """The registers of a pruned matrix: values (tiles down, steps, 32, 4) and metadata (tiles down, steps, 32)."""
    rows, depth = (-(-size // tile) * tile for size, tile in zip(a.shape, (M, K), strict=True))
    whole = np.zeros((rows, depth), np.float16)
    whole[: len(a), : a.shape[1]] = a
    stored, metadata = compress(tiles(whole, MMA), MMA, SELECTOR)
    return MMA.fragments["a"].pack(stored), metadata


@explained
def multiply(
    a: npt.NDArray[np.float16], b: npt.NDArray[np.float16], **options: Any
) -> tuple[npt.NDArray[np.float32], Launch]:
    """D (m, n) of A (m, k), in which two of every four elements of a row are zero, and B (k, n), and the launch.

    tcemu.sparse.prune makes such a matrix. n is a multiple of 8 and k of 4. `options` are passed to tcemu.launch:
    target, seed, policy, sanitizer. Raises OperandError for other shapes, and if more than two of four are nonzero.

    >>> from tcemu.gemm import mma_sparse
    >>> A = tcemu.sparse.prune(np.ones((32, 64), np.float16), "2:4")
    >>> D, result = mma_sparse.multiply(A, np.ones((64, 32), np.float16))
    >>> D[0, 0]  # half of 64
    np.float32(32.0)
    """
    check(a, b, n=8, k=4)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    grid = -(-b.shape[1] // N), -(-len(a) // M)
    return d, launch(kernel, grid, 128, (*packed(a), b, d), shared=2 * K * N, **options)
