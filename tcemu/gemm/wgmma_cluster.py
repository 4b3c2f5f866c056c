"""The kernel of wgmma_tma in clusters: blocks side by side share their rows of A, which multicast copies bring.

The blocks of a cluster multiply the same rows of A with different columns of B. Each of them copies its part of A's
tile, and the copy engine delivers it to all: A is read once for the cluster, not once for each block. A stage may
therefore be filled again only when the consumers of every block have read it, so they arrive at the `empty` mbarriers
of all blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm.operands import check
from tcemu.gemm.store import store
from tcemu.gemm.wgmma_tma import LINE, WARPGROUP, Plan, multiply_stage
from tcemu.launcher import launch
from tcemu.layouts.canonical import element_bits
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp


@dataclass(frozen=True)
class ClusterPlan(Plan):
    """The parameters of a kernel in clusters of `blocks` blocks; each copies as many rows of A as the others."""

    blocks: int = 2

    @property
    def part(self) -> int:
        """Rows of A that one block copies."""
        return self.rows // self.blocks

    @property
    def everyone(self) -> int:
        """The mask of all blocks of the cluster."""
        return (1 << self.blocks) - 1


#: f16, tiles of 64 x 128 in pairs, three stages.
DEFAULT = ClusterPlan()


def meet(warp: Warp) -> None:
    """All threads of the cluster wait for each other."""
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()


def begin(warp: Warp, plan: ClusterPlan) -> None:
    """One lane of the producer initialises the mbarriers; then all threads of the cluster may use them."""
    if warp.warpid == 4 * plan.consumers:
        with warp.only(warp.elect_sync()):
            for stage in range(plan.stages):
                warp.mbarrier_init(plan.full(stage), 1)
                warp.mbarrier_init(plan.empty(stage), 4 * plan.consumers * plan.blocks)
            warp.fence_mbarrier_init()
    meet(warp)


def produce(warp: Warp, plan: ClusterPlan, a: TensorMap, b: TensorMap, steps: int) -> None:
    """One lane copies this block's part of A to all blocks, and B to this one, as soon as a stage is empty in all."""
    x, y, _ = warp.ctaid
    first = plan.part * warp.cluster_ctarank
    with warp.only(warp.elect_sync()):
        for step in range(steps):
            stage, turn = step % plan.stages, step // plan.stages
            tile, full = stage * plan.stage_bytes, plan.full(stage)
            warp.mbarrier_wait(plan.empty(stage), (turn + 1) % 2)
            warp.mbarrier_arrive_expect_tx(full, plan.stage_bytes)  # the other blocks bring some of them
            at = plan.depth * step, plan.rows * y + first
            warp.cp_async_bulk_tensor_shared_global(tile + LINE * first, a, at, full, cta_mask=plan.everyone)
            at = plan.depth * step, plan.columns * x
            warp.cp_async_bulk_tensor_shared_global(tile + plan.a_bytes, b, at, full)


def release(warp: Warp, plan: ClusterPlan, stage: int) -> None:
    """One lane signals to the producers of all blocks that this warp no longer needs the stage."""
    with warp.only(warp.elect_sync()):
        for rank in range(plan.blocks):
            warp.mbarrier_arrive_shared_cluster(warp.mapa(plan.empty(stage), rank))


def consume(warp: Warp, plan: ClusterPlan, steps: int) -> Registers:
    """The warpgroup multiplies the tiles of all steps. Groups are still running while the next one is issued."""
    c = warp.registers(plan.columns // 2, fill=0)
    for step in range(steps):
        stage, turn = step % plan.stages, step // plan.stages
        warp.mbarrier_wait(plan.full(stage), turn % 2)
        multiply_stage(warp, plan, stage, c, begin=step == 0)
        warp.wgmma_wait_group(plan.in_flight)
        if step >= plan.in_flight:
            release(warp, plan, (step - plan.in_flight) % plan.stages)
    warp.wgmma_wait_group(0)
    return c


def kernel(warp: Warp, plan: ClusterPlan, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B^T: A (m, k) and B (n, k), both with K innermost; D (m, n)."""
    x, y, _ = warp.ctaid
    steps = -(-a.shape[1] // plan.depth)
    begin(warp, plan)
    if warp.warpid == 4 * plan.consumers:
        box_a = TensorMap.of(a, (plan.depth, plan.part), swizzle=LINE)
        box_b = TensorMap.of(b, (plan.depth, plan.columns), swizzle=LINE)
        produce(warp, plan, box_a, box_b, steps)
    else:
        c = consume(warp, plan, steps)
        row = plan.rows * y + 16 * warp.warpid + warp.laneid // 4
        store(warp, d, c, row, plan.columns * x)
    meet(warp)  # until then, others signal this block's mbarriers and copy into its memory


def grid_of(plan: ClusterPlan, m: int, n: int) -> tuple[int, int]:
    """Blocks for D (m, n): whole clusters along n. Raises OperandError if they cannot share a tile of A equally."""
    if plan.blocks not in (2, 4, 8):
        raise OperandError(f"clusters of this kernel must have 2, 4 or 8 blocks; got {briefly(plan.blocks)}")
    across = -(-n // plan.columns)
    return -(-across // plan.blocks) * plan.blocks, -(-m // plan.rows)


@explained
def multiply(
    a: npt.NDArray[Any], b: npt.NDArray[Any], plan: ClusterPlan = DEFAULT, **options: Any
) -> tuple[npt.NDArray[Any], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch: the same bits as wgmma_tma.multiply, with the same operands.

    `plan.blocks` is 2, 4 or 8; `promote` has no effect. Raises OperandError for other shapes, dtypes and clusters.

    >>> from tcemu.gemm import wgmma_cluster
    >>> A, B = np.ones((64, 64), np.float16), np.ones((64, 256), np.float16)
    >>> D, result = wgmma_cluster.multiply(A, B)
    >>> D.shape, D[0, 0], result.blocks, result.reports  # two blocks, one cluster
    ((64, 256), np.float32(64.0), 2, [])
    """
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    grid, threads = grid_of(plan, *d.shape), WARPGROUP * plan.consumers + 32
    arguments = plan, *(np.ascontiguousarray(matrix) for matrix in (a, b.T)), d
    return d, launch(kernel, grid, threads, arguments, cluster=plan.blocks, shared=plan.shared, **options)
