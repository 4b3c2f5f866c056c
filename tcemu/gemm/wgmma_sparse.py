"""Sparse wgmma fed by TMA: A is pruned and stored at half its width, so a stage is twice as deep as wgmma_tma's.

In a stage, a row of A has 128 bytes of stored values, which stand for 256 bytes of K; a row of B has 256 bytes, in two
boxes of 128. The metadata goes from global memory straight into registers: each lane loads what its wgmma needs.

Half the products do not make it twice as fast, because B's bytes stay: for 256 of K, a tile of 64 x 128 needs 42 KiB
where wgmma_tma's needs 48. Cycles for K = 8,192 on one multiprocessor (benchmarks/timeline.md):

    64 x 128     25,568    each group awaited at once, metadata loaded when it is needed; H200
                 18,886    a group in flight, metadata loaded a step ahead; H200
                 19,239    the same, two steps ahead, as now; H100
                 17,465    wgmma_tma; H100
    128 x 128    24,499    two consumers, which share the tile of B: `LARGE`; H100
                 33,874    wgmma_tma; H100

With one consumer it is still a tenth slower than the dense kernel. The metadata's latency is not the reason, since
loading it earlier changed nothing; what the reason is has not been found. With two, it is 1.4 times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError
from tcemu.gemm.operands import check
from tcemu.gemm.store import store
from tcemu.gemm.wgmma_tma import IMMEDIATES, LINE, ROWS, STEP, WARPGROUP, Plan, begin, produce_all, release
from tcemu.instructions import Instruction, parse
from tcemu.launcher import launch
from tcemu.layouts import Descriptor
from tcemu.layouts.canonical import element_bits
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.warp import Warp
from tcemu.sparse import compress, tiles

#: Which lanes hold the metadata, if there is a choice.
SELECTOR = 0
#: wgmma instructions in one stage.
INSTRUCTIONS = LINE // STEP
#: So many steps before it is needed, a thread loads its metadata.
AHEAD = 2


@dataclass(frozen=True)
class SparsePlan(Plan):
    """The parameters of a sparse kernel. `depth` counts stored values, which stand for twice as many elements of K.

    `in_flight` is 0 or 1.
    """

    @cached_property
    def mma(self) -> Instruction:
        """The instruction."""
        accumulator = "s32" if self.element == "s8" else "f32"
        types = f"{accumulator}.{self.element}.{self.element}"
        return parse(f"wgmma.mma_async.sp.sync.aligned.m{ROWS}n{self.columns}k{self.k}.{types}")

    @cached_property
    def k(self) -> int:
        """Elements along K that one instruction multiplies: B's rows of 64 bytes."""
        return 2 * STEP * self.depth // LINE

    @cached_property
    def boxes(self) -> int:
        """Boxes of B in a stage: its rows have 256 bytes."""
        return 2


DEFAULT, LARGE = SparsePlan(), SparsePlan(consumers=2)


def multiply_stage(warp: Warp, plan: SparsePlan, stage: int, c: Registers, codes: list[Registers], start: bool) -> None:
    """Issue the products of a stage as one group; with `start`, C starts at zero."""
    tile = stage * plan.stage_bytes
    a = Descriptor.for_tile(plan.element, ROWS, plan.depth, swizzle=LINE, start=tile + LINE * ROWS * warp.warpgroup)
    first = tile + plan.a_bytes
    boxes = [
        Descriptor.for_tile(plan.element, plan.columns, plan.depth, swizzle=LINE, start=first + box * plan.box_bytes)
        for box in range(plan.boxes)
    ]
    warp.wgmma_fence()
    for index in range(INSTRUCTIONS):
        b = boxes[index // 2].step(2 * STEP * (index % 2))
        more = index > 0 or not start
        warp.run(plan.mma, c, a.step(STEP * index), b, codes[index], SELECTOR, more, *IMMEDIATES[plan.element])
    warp.wgmma_commit_group()


def load_codes(warp: Warp, plan: SparsePlan, metadata: Pointer, step: int) -> list[Registers]:
    """Load this thread's metadata for the products of a step, if there is such a step."""
    if INSTRUCTIONS * step >= metadata.shape[1]:
        return []
    tile, thread = plan.consumers * warp.ctaid[1] + warp.warpgroup, warp.threads % WARPGROUP
    return [warp.ld_global(metadata.at(tile, INSTRUCTIONS * step + i, thread)) for i in range(INSTRUCTIONS)]


def consume(warp: Warp, plan: SparsePlan, metadata: Pointer, steps: int) -> Registers:
    """The warpgroup multiplies the tiles of all steps. The metadata of the next two steps is on its way meanwhile."""
    c = warp.registers(plan.columns // 2, fill=0)
    codes = [load_codes(warp, plan, metadata, step) for step in range(AHEAD)]
    for step in range(steps):
        turn, stage = divmod(step, plan.stages)
        codes.append(load_codes(warp, plan, metadata, step + AHEAD))
        warp.mbarrier_wait(plan.full(stage), turn % 2)
        multiply_stage(warp, plan, stage, c, codes.pop(0), start=step == 0)
        warp.wgmma_wait_group(plan.in_flight)
        if step >= plan.in_flight:
            release(warp, plan, (step - plan.in_flight) % plan.stages)
    warp.wgmma_wait_group(0)
    return c


def kernel(warp: Warp, plan: SparsePlan, a: Pointer, metadata: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B^T: stored A (m, k / 2), metadata (m / 64, k / plan.k, 128), B (n, k), D (m, n)."""
    x, y, _ = warp.ctaid
    steps = metadata.shape[1] // INSTRUCTIONS
    begin(warp, plan)
    if warp.warpid == 4 * plan.consumers:
        produce_all(warp, plan, a, b, steps)
        return
    c = consume(warp, plan, metadata, steps)
    store(warp, d, c, plan.rows * y + 16 * warp.warpid + warp.laneid // 4, plan.columns * x)


def packed(a: npt.NDArray[Any], plan: SparsePlan) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint32]]:
    """The stored values (m, k / 2) and metadata (m / 64, k / plan.k, 128) of a pruned matrix, padded with zeros."""
    rows, depth = (-(-size // tile) * tile for size, tile in zip(a.shape, (plan.rows, 2 * plan.depth), strict=True))
    whole = np.zeros((rows, depth), a.dtype)
    whole[: len(a), : a.shape[1]] = a
    values, metadata = compress(tiles(whole, plan.mma), plan.mma, SELECTOR)
    return np.ascontiguousarray(values.swapaxes(1, 2)).reshape(rows, depth // 2), metadata


@explained
def multiply(
    a: npt.NDArray[Any], b: npt.NDArray[Any], plan: SparsePlan = DEFAULT, **options: Any
) -> tuple[npt.NDArray[Any], Launch]:
    """D (m, n) of A (m, k), pruned to half by tcemu.sparse.prune, and B (k, n), and the launch.

    D is f32, or s32 for s8. k must be whole units of 16 bytes; m and n may be any size. `options` are passed to
    tcemu.launch: seed, policy, sanitizer. Raises OperandError for other shapes and dtypes, and for chunks of A with too
    many nonzero elements.

    >>> from tcemu.gemm import wgmma_sparse
    >>> A = tcemu.sparse.prune(np.ones((64, 128), np.float16), "2:4")
    >>> D, result = wgmma_sparse.multiply(A, np.ones((128, 64), np.float16))
    >>> D.shape, D[0, 0]  # half of 128
    ((64, 64), np.float32(64.0))
    """
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    if plan.in_flight > 1:
        raise OperandError(
            f"in_flight must be 0 or 1; got {plan.in_flight}: products in flight still read their metadata, and a "
            f"thread has registers for that of {AHEAD + 2} steps, of which {AHEAD} are being loaded"
        )
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    grid = -(-d.shape[1] // plan.columns), -(-d.shape[0] // plan.rows)
    arguments = plan, *packed(a, plan), np.ascontiguousarray(b.T), d
    return d, launch(kernel, grid, WARPGROUP * plan.consumers + 32, arguments, shared=plan.shared, **options)
