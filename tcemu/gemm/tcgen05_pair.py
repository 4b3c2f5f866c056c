"""tcgen05.mma of a pair: two blocks copy half of the tiles each, and one thread multiplies for both.

With .cta_group::2, a product has up to 256 rows. Each block of the pair has 128 of them in its own Tensor Memory, and
in its shared memory its rows of A and half of the columns of B; the tensor cores read both halves of B. So each block
copies half as much of B as it would alone. The leader, the block with the even rank, counts what arrives in both and
issues the products; its commits tell both. The plan is that of tcgen05_tma, where all else is explained.

No Blackwell GPU was asked, and how the sums of a pair are rounded is inferred from those of one block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.gemm.operands import check
from tcemu.gemm.tcgen05_tma import (
    COPIER,
    DEFAULT,
    KINDS,
    LINE,
    MULTIPLIER,
    ROWS,
    STEP,
    STORERS,
    THREADS,
    Plan,
    store_tile,
)
from tcemu.launcher import launch
from tcemu.layouts import Descriptor, tcgen05_descriptor
from tcemu.layouts.canonical import element_bits
from tcemu.layouts.instruction_descriptor import InstructionDescriptor
from tcemu.machine.launch import Launch
from tcemu.machine.memory import Pointer
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: Blocks of a pair, the mask of both, and who leads.
PAIR, BOTH, LEADER = 2, 0b11, 0
_LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2"


def copy_tiles(warp: Warp, plan: Plan, a: TensorMap, b: TensorMap, tiles: list[tuple[int, int]], steps: int) -> None:
    """One lane of each block copies its halves of all stages; the leader's mbarrier counts the bytes of both."""
    rank, half = warp.cluster_ctarank, plan.columns // PAIR
    size = (ROWS + half) * LINE
    with warp.only(warp.elect_sync()):
        for number in range(len(tiles) * steps):
            (y, x), k = tiles[number // steps], plan.depth * (number % steps)
            stage, turn = number % plan.stages, number // plan.stages
            to, full = stage * plan.stage_bytes, warp.mapa(plan.full(stage), LEADER)
            warp.mbarrier_wait(plan.empty(stage), (turn + 1) % 2)
            if rank == LEADER:
                warp.mbarrier_arrive_expect_tx(plan.full(stage), PAIR * size)
            warp.run(_LOAD, to, a, (k, ROWS * (PAIR * y + rank)), full)
            warp.run(_LOAD, to + ROWS * LINE, b, (k, plan.columns * x + half * rank), full)
        for number in range(len(tiles) * steps, len(tiles) * steps + plan.stages):
            # commits arrive in both blocks, so that neither may exit before the last ones have
            warp.mbarrier_wait(plan.empty(number % plan.stages), (number // plan.stages + 1) % 2)


def multiply_tiles(warp: Warp, plan: Plan, taddr: int, tiles: list[tuple[int, int]], steps: int) -> None:
    """One lane of the leader issues the products of both blocks; its commits arrive in both."""
    kind, d_type = KINDS[plan.element]
    bits = InstructionDescriptor(kind, PAIR * ROWS, plan.columns, d_type, plan.element, plan.element).encode()
    with warp.only(warp.elect_sync()):
        for tile in range(len(tiles)):
            accumulator, use = tile % plan.accumulators, tile // plan.accumulators
            d = taddr + accumulator * plan.columns
            warp.mbarrier_wait(plan.stored(accumulator), (use + 1) % 2)
            warp.tcgen05_fence_after_thread_sync()
            for step in range(steps):
                number = tile * steps + step
                stage, turn = number % plan.stages, number // plan.stages
                warp.mbarrier_wait(plan.full(stage), turn % 2)
                warp.tcgen05_fence_after_thread_sync()
                start = stage * plan.stage_bytes
                a = Descriptor.for_tile(plan.element, ROWS, plan.depth, swizzle=LINE, start=start)
                b = Descriptor.for_tile(
                    plan.element, plan.columns // PAIR, plan.depth, swizzle=LINE, start=start + ROWS * LINE
                )
                for at in range(0, LINE, STEP):
                    left, right = tcgen05_descriptor(a.step(at)), tcgen05_descriptor(b.step(at))
                    warp.tcgen05_mma(kind, d, left, right, bits, step > 0 or at > 0, cta_group=PAIR)
                warp.tcgen05_commit(plan.empty(stage), BOTH, cta_group=PAIR)
            warp.tcgen05_commit(plan.summed(accumulator), BOTH, cta_group=PAIR)


def store_tiles(warp: Warp, plan: Plan, taddr: int, d: Pointer, tiles: list[tuple[int, int]]) -> None:
    """A warp stores its 32 rows of all tiles, and tells the leader that it has loaded them."""
    for tile, (y, x) in enumerate(tiles):
        accumulator, use = tile % plan.accumulators, tile // plan.accumulators
        warp.mbarrier_wait(plan.summed(accumulator), use % 2)
        store_tile(warp, plan, taddr + accumulator * plan.columns, d, PAIR * y + warp.cluster_ctarank, x)
        with warp.only(warp.elect_sync()):
            warp.mbarrier_arrive_shared_cluster(warp.mapa(plan.stored(accumulator), LEADER))


def meet(warp: Warp) -> None:
    """All threads of both blocks meet; what tcgen05 did before and does after is ordered."""
    warp.tcgen05_fence_before_thread_sync()
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
    warp.tcgen05_fence_after_thread_sync()


def begin(warp: Warp, plan: Plan) -> int:
    """Initialise the mbarriers, and allocate the same columns in both blocks; return their address."""
    if warp.warpid == COPIER:
        with warp.only(warp.elect_sync()):
            for stage in range(plan.stages):
                warp.mbarrier_init(plan.full(stage), 1)
                warp.mbarrier_init(plan.empty(stage), 1)
            for accumulator in range(plan.accumulators):
                warp.mbarrier_init(plan.summed(accumulator), 1)
                warp.mbarrier_init(plan.stored(accumulator), PAIR * STORERS)
            warp.fence_mbarrier_init()
    meet(warp)  # the peer has to run before columns are allocated in both
    if warp.warpid == MULTIPLIER:
        warp.tcgen05_alloc(plan.slot, plan.tensor_columns, cta_group=PAIR)
        warp.tcgen05_relinquish_alloc_permit(cta_group=PAIR)
    meet(warp)
    return int(warp.ld_shared(plan.slot)[0, 0])


def kernel(warp: Warp, plan: Plan, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B^T: A (m, k) and B (n, k), both with K innermost; D (m, n). Pair i does tiles i, i + pairs, ..."""
    down, across = -(-d.shape[0] // (PAIR * ROWS)), -(-d.shape[1] // plan.columns)
    pair, pairs = warp.ctaid[0] // PAIR, warp.nctaid[0] // PAIR
    tiles = [divmod(tile, across) for tile in range(pair, down * across, pairs)]
    steps = -(-a.shape[1] // plan.depth)
    taddr = begin(warp, plan)
    if warp.warpid == COPIER:
        box_a = TensorMap.of(a, (plan.depth, ROWS), swizzle=LINE)
        box_b = TensorMap.of(b, (plan.depth, plan.columns // PAIR), swizzle=LINE)
        copy_tiles(warp, plan, box_a, box_b, tiles, steps)
    elif warp.warpid == MULTIPLIER and warp.cluster_ctarank == LEADER:
        multiply_tiles(warp, plan, taddr, tiles, steps)
    elif warp.warpid < STORERS:
        store_tiles(warp, plan, taddr, d, tiles)
    meet(warp)
    if warp.warpid == MULTIPLIER:
        warp.tcgen05_dealloc(taddr, plan.tensor_columns, cta_group=PAIR)


@explained
def multiply(
    a: npt.NDArray[Any], b: npt.NDArray[Any], plan: Plan = DEFAULT, *, pairs: int = 0, **options: Any
) -> tuple[npt.NDArray[Any], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch. D is f32, or s32 for s8.

    `pairs` of blocks share the tiles of D, of 256 rows each; 0 means a pair for each. The plan has an even number of
    units of 16 columns. All else is as in tcgen05_tma.multiply.

    >>> from tcemu.gemm import tcgen05_pair
    >>> A, B = np.ones((256, 64), np.float16), np.ones((64, 128), np.float16)
    >>> D, _ = tcgen05_pair.multiply(A, B, sanitizer="off")
    >>> D.shape, D[255, 127]
    ((256, 128), np.float32(64.0))
    """
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    tiles = -(-d.shape[0] // (PAIR * ROWS)) * -(-d.shape[1] // plan.columns)
    given = [np.ascontiguousarray(matrix) for matrix in (a, b.T)]
    options = {"target": "sm_100a", "cluster": PAIR, **options}
    grid = PAIR * min(pairs or tiles, tiles)
    return d, launch(kernel, grid, THREADS, (plan, *given, d), shared=plan.shared, **options)
