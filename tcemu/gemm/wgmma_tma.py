"""wgmma fed by TMA: a producer warp copies tiles, a consumer warpgroup multiplies them, mbarriers synchronise the two.

A block computes a tile of 64 x 128. Each stage has a tile of A, 64 x 64 in one box, and one of B, 64 x 128 in two boxes
of 64 columns, all with the 128-byte swizzle. The mbarrier `full` tells the consumer that the bytes of a stage have
arrived; `empty` tells the producer that they have been read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.gemm.wmma_global import check
from tcemu.launcher import launch
from tcemu.layouts import Descriptor
from tcemu.machine.launch import Launch
from tcemu.machine.memory import Pointer
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: A block's tile, its step along K, and the stages.
M, N, K = 64, 128, 64
STAGES = 3
#: Elements of f16 in one line of the swizzle.
LINE = 64
A_BYTES, B_BYTES = 2 * M * K, 2 * K * N
STAGE_BYTES = A_BYTES + B_BYTES
#: The mbarriers follow the stages: first the full ones, then the empty ones.
FULL = STAGES * STAGE_BYTES
EMPTY = FULL + 8 * STAGES
SHARED = EMPTY + 8 * STAGES

MMA = "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"
CONSUMERS = 128
PRODUCER = 4


def produce(warp: Warp, a: TensorMap, b: TensorMap, steps: int) -> None:
    """One lane copies the tiles of all steps, each as soon as its stage is empty."""
    x, y, _ = warp.ctaid
    with warp.only(warp.elect_sync()):
        for step in range(steps):
            stage, turn = step % STAGES, step // STAGES
            full = FULL + 8 * stage
            warp.mbarrier_wait(EMPTY + 8 * stage, (turn + 1) % 2)
            warp.mbarrier_arrive_expect_tx(full, STAGE_BYTES)
            first = stage * STAGE_BYTES
            warp.cp_async_bulk_tensor_shared_global(first, a, (K * step, M * y), full)
            for part in range(N // LINE):
                to = first + A_BYTES + part * (B_BYTES * LINE // N)
                warp.cp_async_bulk_tensor_shared_global(to, b, (N * x + LINE * part, K * step), full)


def consume(warp: Warp, d: Pointer, steps: int) -> None:
    """The warpgroup multiplies the tiles of all steps. One group is still running while the next is issued."""
    c = warp.registers(N // 2, fill=0)
    for step in range(steps):
        stage, turn = step % STAGES, step // STAGES
        warp.mbarrier_wait(FULL + 8 * stage, turn % 2)
        first = stage * STAGE_BYTES
        tile_a = Descriptor.for_tile("f16", M, K, swizzle=128, start=first)
        tile_b = Descriptor.for_tile("f16", N, K, major="MN", swizzle=128, start=first + A_BYTES, first="K")
        warp.wgmma_fence()
        for k in range(0, K, 16):
            here_a, here_b = tile_a.advance("f16", k=k), tile_b.advance("f16", k=k, major="MN")
            warp.run(MMA, c, here_a, here_b, step + k > 0, 1, 1, 0, 1)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
        if step:  # the previous group is complete: its stage may be filled again
            release(warp, (step - 1) % STAGES)
    warp.wgmma_wait_group(0)
    store(warp, d, c)


def release(warp: Warp, stage: int) -> None:
    """One lane signals that this warp no longer needs the stage."""
    with warp.only(warp.elect_sync()):
        warp.mbarrier_arrive(EMPTY + 8 * stage)


def store(warp: Warp, d: Pointer, c: Any) -> None:
    """Write the accumulator: each lane holds pairs of neighbouring elements, 8 columns apart, in two rows."""
    x, y, _ = warp.ctaid
    row = M * y + 16 * warp.warpid + warp.laneid // 4
    column = N * x + 2 * (warp.laneid % 4)
    for pair in range(N // 4):
        half, step = pair % 2, pair // 2
        warp.st_global(d.at(row + 8 * half, column + 8 * step), c[:, 2 * pair : 2 * pair + 2], "v2.b32")


def kernel(warp: Warp, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B, all row-major: A (m, k) and B (k, n) of f16, D (m, n) of f32."""
    steps = b.shape[0] // K
    if warp.warpid == PRODUCER:
        with warp.only(warp.elect_sync()):
            for stage in range(STAGES):
                warp.mbarrier_init(FULL + 8 * stage, 1)
                warp.mbarrier_init(EMPTY + 8 * stage, CONSUMERS // 32)
            warp.fence_mbarrier_init()
    warp.bar_sync()
    if warp.warpid == PRODUCER:
        box_a, box_b = TensorMap.of(a, (K, M), swizzle=128), TensorMap.of(b, (LINE, K), swizzle=128)
        produce(warp, box_a, box_b, steps)
    else:
        consume(warp, d, steps)


def multiply(
    a: npt.NDArray[np.float16], b: npt.NDArray[np.float16], **options: Any
) -> tuple[npt.NDArray[np.float32], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch; m and k are multiples of 64, n of 128.

    `options` are passed to tcemu.launch: seed, policy, sanitizer. Raises OperandError for other shapes.
    """
    check(a, b, M, N, K)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    grid = b.shape[1] // N, len(a) // M
    return d, launch(kernel, grid, CONSUMERS + 32, (a, b, d), shared=SHARED, **options)
