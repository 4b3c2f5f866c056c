"""wgmma fed by TMA: a producer warp copies tiles, consumer warpgroups multiply them, mbarriers synchronise the two.

Each stage of shared memory has a tile of A and one of B. A row of a tile has 128 bytes, whatever the type: one line of
the 128-byte swizzle, copied by one box for all rows, and consumed by four wgmma of 32 bytes along K. The mbarrier
`full` tells the consumers that the bytes of a stage have arrived; `empty` tells the producer that they have been read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.gemm.operands import check
from tcemu.gemm.store import store
from tcemu.instructions import Instruction, parse
from tcemu.launcher import launch
from tcemu.layouts import Descriptor
from tcemu.layouts.canonical import element_bits
from tcemu.machine import scalar
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: Bytes of a tile's row, and of the part that one wgmma multiplies.
LINE, STEP = 128, 32
#: Rows of A that one warpgroup multiplies, and its threads.
ROWS, WARPGROUP = 64, 128
#: The immediates of a wgmma after scale_d: A and B are not negated and, where the type has a choice, K-major.
IMMEDIATES = {"f16": (1, 1, 0, 0), "bf16": (1, 1, 0, 0), "tf32": (1, 1), "e4m3": (1, 1), "e5m2": (1, 1), "s8": ()}


@dataclass(frozen=True)
class Plan:
    """The parameters of a kernel. In CUTLASS: TileShape is (64 * consumers, columns, depth), StageCount is `stages`.

    `consumers` warpgroups share a tile (1: KernelTmaWarpSpecialized, 2: its Cooperative form). `promote` adds each
    stage's sums in f32, outside the tensor core, whose sums of fp8 keep only 13 fraction bits. Otherwise, `in_flight`
    groups are still running while the next one is issued; there must be more stages than that.
    """

    element: str = "f16"
    columns: int = 128
    consumers: int = 1
    stages: int = 3
    promote: bool = False
    in_flight: int = 1

    @cached_property
    def mma(self) -> Instruction:
        """The instruction."""
        accumulator = "s32" if self.element == "s8" else "f32"
        k = STEP * self.depth // LINE
        types = f"{accumulator}.{self.element}.{self.element}"
        return parse(f"wgmma.mma_async.sync.aligned.m{ROWS}n{self.columns}k{k}.{types}")

    @cached_property
    def rows(self) -> int:
        """Rows of a block's tile."""
        return ROWS * self.consumers

    @cached_property
    def depth(self) -> int:
        """Elements of a tile's row: a stage's part of K."""
        return 8 * LINE // element_bits(self.element)

    @cached_property
    def a_bytes(self) -> int:
        """Bytes of A in a stage; B's follow."""
        return self.rows * LINE

    @cached_property
    def boxes(self) -> int:
        """Boxes of B in a stage."""
        return 1

    @cached_property
    def box_bytes(self) -> int:
        """Bytes of a box of B."""
        return self.columns * LINE

    @cached_property
    def stage_bytes(self) -> int:
        """Bytes of a stage."""
        return self.a_bytes + self.boxes * self.box_bytes

    def full(self, stage: int) -> int:
        """The address of the mbarrier that completes when a stage's bytes have arrived; they follow the stages."""
        return self.stages * self.stage_bytes + 8 * stage

    def empty(self, stage: int) -> int:
        """The address of the mbarrier that completes when all consumers have read a stage."""
        return self.full(self.stages + stage)

    @cached_property
    def shared(self) -> int:
        """Bytes of shared memory that a block needs."""
        return self.empty(self.stages)


#: f16 and three stages: a tile of 64 x 128 and, for matrices of at least _MANY rows and columns, one of 128 x 256.
DEFAULT, LARGE = Plan(), Plan(columns=256, consumers=2)
_MANY = 512


def plan_of(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Plan:
    """A plan for A (m, k) and B (k, n) of f16: with larger tiles, A and B are read less often.

    >>> from tcemu.gemm import wgmma_tma
    >>> A = np.ones((512, 512), np.float16)
    >>> wgmma_tma.plan_of(A, A).columns, wgmma_tma.plan_of(A[:64], A).columns
    (256, 128)
    """
    return LARGE if min(len(a), b.shape[1]) >= _MANY else DEFAULT


def produce(warp: Warp, plan: Plan, a: TensorMap, b: TensorMap, steps: int) -> None:
    """One lane copies the tiles of all steps, each as soon as its stage is empty."""
    x, y, _ = warp.ctaid
    with warp.only(warp.elect_sync()):
        for step in range(steps):
            stage, turn = step % plan.stages, step // plan.stages
            tile, full = stage * plan.stage_bytes, plan.full(stage)
            warp.mbarrier_wait(plan.empty(stage), (turn + 1) % 2)
            warp.mbarrier_arrive_expect_tx(full, plan.stage_bytes)
            warp.cp_async_bulk_tensor_shared_global(tile, a, (plan.depth * step, plan.rows * y), full)
            for box in range(plan.boxes):
                at = plan.depth * (plan.boxes * step + box), plan.columns * x
                warp.cp_async_bulk_tensor_shared_global(tile + plan.a_bytes + box * plan.box_bytes, b, at, full)


def multiply_stage(warp: Warp, plan: Plan, stage: int, c: Registers, begin: bool) -> None:
    """Issue the products of a stage as one group; with `begin`, C starts at zero."""
    tile = stage * plan.stage_bytes
    rows = tile + LINE * ROWS * (warp.warpgroup % plan.consumers)  # of its team, in wgmma_persistent
    a = Descriptor.for_tile(plan.element, ROWS, plan.depth, swizzle=LINE, start=rows)
    b = Descriptor.for_tile(plan.element, plan.columns, plan.depth, swizzle=LINE, start=tile + plan.a_bytes)
    warp.wgmma_fence()
    for at in range(0, LINE, STEP):
        warp.run(plan.mma, c, a.step(at), b.step(at), at > 0 or not begin, *IMMEDIATES[plan.element])
    warp.wgmma_commit_group()


def consume(warp: Warp, plan: Plan, steps: int) -> Registers:
    """The warpgroup multiplies the tiles of all steps. Groups are still running while the next one is issued."""
    c = warp.registers(plan.columns // 2, fill=0)
    for step in range(steps):
        stage, turn = step % plan.stages, step // plan.stages
        warp.mbarrier_wait(plan.full(stage), turn % 2)
        multiply_stage(warp, plan, stage, c, begin=step == 0)
        warp.wgmma_wait_group(plan.in_flight)
        if step >= plan.in_flight:  # that group is complete: its stage may be filled again
            release(warp, plan, (step - plan.in_flight) % plan.stages)
    warp.wgmma_wait_group(0)
    return c


def consume_promoted(warp: Warp, plan: Plan, steps: int) -> Registers:
    """The same, but each stage's sums start from zero and are added in f32, rounded to nearest."""
    c = warp.registers(plan.columns // 2, fill=0)
    part = warp.registers(plan.columns // 2, fill=0)
    for step in range(steps):
        stage, turn = step % plan.stages, step // plan.stages
        warp.mbarrier_wait(plan.full(stage), turn % 2)
        multiply_stage(warp, plan, stage, part, begin=True)
        warp.wgmma_wait_group(0)
        release(warp, plan, stage)
        c[:] = scalar.add(c.view(np.float32), part.view(np.float32)).view(np.uint32)
    return c


def release(warp: Warp, plan: Plan, stage: int) -> None:
    """One lane signals that this warp no longer needs the stage."""
    with warp.only(warp.elect_sync()):
        warp.mbarrier_arrive(plan.empty(stage))


def begin(warp: Warp, plan: Plan) -> None:
    """One lane of the producer initialises the mbarriers; then all threads may use them."""
    if warp.warpid == 4 * plan.consumers:
        with warp.only(warp.elect_sync()):
            for stage in range(plan.stages):
                warp.mbarrier_init(plan.full(stage), 1)
                warp.mbarrier_init(plan.empty(stage), 4 * plan.consumers)
            warp.fence_mbarrier_init()
    warp.bar_sync()


def produce_all(warp: Warp, plan: Plan, a: Pointer, b: Pointer, steps: int) -> None:
    """The producer's whole work: a box is all rows of a tile."""
    box_a = TensorMap.of(a, (plan.depth, plan.rows), swizzle=LINE)
    box_b = TensorMap.of(b, (plan.depth, plan.columns), swizzle=LINE)
    produce(warp, plan, box_a, box_b, steps)


def kernel(warp: Warp, plan: Plan, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B^T: A (m, k) and B (n, k), both with K innermost, which all types of wgmma accept; D (m, n)."""
    x, y, _ = warp.ctaid
    steps = -(-a.shape[1] // plan.depth)
    begin(warp, plan)
    if warp.warpid == 4 * plan.consumers:
        produce_all(warp, plan, a, b, steps)
        return
    c = consume_promoted(warp, plan, steps) if plan.promote else consume(warp, plan, steps)
    row = plan.rows * y + 16 * warp.warpid + warp.laneid // 4
    store(warp, d, c, row, plan.columns * x)


@explained
def multiply(
    a: npt.NDArray[Any], b: npt.NDArray[Any], plan: Plan | None = None, **options: Any
) -> tuple[npt.NDArray[Any], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch. D is f32, or s32 for s8.

    Rows of A and columns of B must be whole units of 16 bytes, as a tensor map requires; m and n may be any size.
    Without a plan, the matrices are f16, and `plan_of` chooses the tile, which does not change the bits of D. `options`
    are passed to tcemu.launch: seed, policy, sanitizer. Raises OperandError for other shapes and dtypes.

    >>> from tcemu.gemm import wgmma_tma
    >>> A, B = np.ones((64, 64), np.float16), np.ones((64, 128), np.float16)
    >>> D, result = wgmma_tma.multiply(A, B)
    >>> D.shape, D[0, 0], result.reports
    ((64, 128), np.float32(64.0), [])
    """
    element = (plan or DEFAULT).element
    check(a, b, element, k=128 // element_bits(element))
    plan = plan or plan_of(a, b)
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    grid = -(-d.shape[1] // plan.columns), -(-d.shape[0] // plan.rows)
    threads = WARPGROUP * plan.consumers + 32
    matrices = [np.ascontiguousarray(matrix) for matrix in (a, b.T)]
    return d, launch(kernel, grid, threads, (plan, *matrices, d), shared=plan.shared, **options)
