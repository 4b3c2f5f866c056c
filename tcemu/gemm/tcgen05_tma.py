"""tcgen05.mma fed by TMA: a warp copies tiles, another multiplies them, four store sums from Tensor Memory.

A block works through a list of tiles of D. Stages of shared memory are filled and emptied as in wgmma_tma. What is
new is where the sums are: in columns of Tensor Memory, of which a block here has two accumulators. While four warps
store one, the tensor core already adds up the next tile in the other. One thread issues all products, and learns by
tcgen05.commit, on an mbarrier, that the tensor core has read a stage or finished a tile.

With Plan(group=2), two blocks work on a tile of 256 rows (.cta_group::2). Each has 128 of them in its own Tensor
Memory, and in its shared memory its rows of A and half of the columns of B; the tensor cores read both halves of B. So
each block copies half as much of B as it would alone. The leader, the block with the even rank, counts what arrives in
both and issues the products; its commits tell both. A block alone leads itself: rank 0, the whole of B.

No Blackwell GPU was asked. Sums are as MMA-Sim's authors measured them on a B200, those of a pair are inferred from
them, and everything else is the manual's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.gemm.operands import check
from tcemu.instructions import parse
from tcemu.instructions.tcgen05_product import Product
from tcemu.launcher import launch
from tcemu.layouts import Descriptor, tcgen05_descriptor
from tcemu.layouts.canonical import element_bits
from tcemu.layouts.instruction_descriptor import InstructionDescriptor
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: Bytes of a tile's row, and of the part that one tcgen05.mma multiplies.
LINE, STEP = 128, 32
#: A block's rows of a tile, which are the lanes of its Tensor Memory.
ROWS = 128
#: The rank of the block that multiplies for its pair.
LEADER = 0
#: The warps: 0 to 3 store, each the quarter of the lanes that it may read; 4 copies, 5 multiplies.
STORERS, COPIER, MULTIPLIER = 4, 4, 5
THREADS = 32 * (MULTIPLIER + 1)
#: Columns that a warp loads at a time.
LOADED = 16
#: The kind of tcgen05.mma for a type, and the type of D.
KINDS = {"f16": ("f16", "f32"), "bf16": ("f16", "f32"), "tf32": ("tf32", "f32"), "e4m3": ("f8f6f4", "f32"),
         "e5m2": ("f8f6f4", "f32"), "s8": ("i8", "s32")}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """The parameters of a kernel: the type, columns of a tile, stages of shared memory, accumulators (1 or 2).

    `group` is the number of blocks that work on a tile together: 1, or 2 for a pair.
    """

    element: str = "f16"
    columns: int = 128
    stages: int = 3
    accumulators: int = 2
    group: int = 1

    @cached_property
    def idesc(self) -> int:
        """The instruction descriptor: shape and types."""
        kind, d = KINDS[self.element]
        return InstructionDescriptor(kind, self.rows, self.columns, d, self.element, self.element).encode()

    @cached_property
    def rows(self) -> int:
        """Rows of a tile of D: those of all blocks that work on it."""
        return self.group * ROWS

    @cached_property
    def part(self) -> int:
        """Columns of B that a block copies."""
        return self.columns // self.group

    @cached_property
    def everyone(self) -> int | None:
        """The mask of the blocks that a commit tells; a block alone needs none."""
        return 0b11 if self.group == 2 else None

    @cached_property
    def depth(self) -> int:
        """Elements of a tile's row: a stage's part of K."""
        return 8 * LINE // element_bits(self.element)

    @cached_property
    def stage_bytes(self) -> int:
        """Bytes of a block's stage: A's tile, then B's."""
        return (ROWS + self.part) * LINE

    @cached_property
    def tensor_columns(self) -> int:
        """Columns of Tensor Memory that a block allocates: a power of two, at least 32."""
        return max(32, 1 << (self.accumulators * self.columns - 1).bit_length())

    def full(self, stage: int) -> int:
        """The address of the mbarrier that completes when a stage's bytes have arrived; they follow the stages."""
        return self.stages * self.stage_bytes + 8 * stage

    def empty(self, stage: int) -> int:
        """The address of the mbarrier that completes when the tensor core has read a stage."""
        return self.full(self.stages + stage)

    def summed(self, accumulator: int) -> int:
        """The address of the mbarrier that completes when an accumulator has a tile's sums."""
        return self.empty(self.stages + accumulator)

    def stored(self, accumulator: int) -> int:
        """The address of the mbarrier that completes when all warps have loaded an accumulator."""
        return self.summed(self.accumulators + accumulator)

    @cached_property
    def slot(self) -> int:
        """Where tcgen05.alloc writes the address of the columns."""
        return self.stored(self.accumulators)

    @cached_property
    def shared(self) -> int:
        """Bytes of shared memory that a block needs."""
        return self.slot + 16

    @property
    def known(self) -> str:
        """How the sums of its products are known, for whoever shows them."""
        return how_known(KINDS[self.element][0], self.idesc, self.group)


def how_known(kind: str, idesc: int, group: int = 1) -> str:
    """That no GPU was asked, and how the sums of tcgen05.mma are known: from the row of the arithmetic table.

    >>> from tcemu.gemm import tcgen05_tma
    >>> tcgen05_tma.how_known("f16", tcgen05_tma.DEFAULT.idesc)
    'No GPU was asked. Sums: MMA-Sim 2.1.1, whose authors compared it with a B200, floors too. All else: the manual.'
    """
    row = Product.of(parse(f"tcgen05.mma.cta_group::{group}.kind::{kind}", "sm_100a"), idesc, "sm_100a").row
    of_blocks, _, of_pairs = row.statement.partition("; ")
    sums = f"{of_blocks}; {of_pairs}" if group == 2 and of_pairs else of_blocks
    return f"No GPU was asked. Sums: {sums}. All else: the manual."


DEFAULT = Plan()
_LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def copy_tiles(warp: Warp, plan: Plan, a: TensorMap, b: TensorMap, tiles: list[tuple[int, int]], steps: int) -> None:
    """One lane copies the stages of all tiles, each as soon as the tensor core has read what was there.

    The leader's mbarrier counts the bytes of all blocks. Commits arrive in all, so none may exit before the last have.
    """
    load, rank = f"{_LOAD}.cta_group::{plan.group}", warp.cluster_ctarank
    with warp.only(warp.elect_sync()):
        for number in range(len(tiles) * steps):
            (y, x), k = tiles[number // steps], plan.depth * (number % steps)
            stage, turn = number % plan.stages, number // plan.stages
            to, full = stage * plan.stage_bytes, warp.mapa(plan.full(stage), LEADER)
            warp.mbarrier_wait(plan.empty(stage), (turn + 1) % 2)
            if rank == LEADER:
                warp.mbarrier_arrive_expect_tx(plan.full(stage), plan.group * plan.stage_bytes)
            warp.run(load, to, a, (k, plan.rows * y + ROWS * rank), full)
            warp.run(load, to + ROWS * LINE, b, (k, plan.columns * x + plan.part * rank), full)
        for number in range(len(tiles) * steps, len(tiles) * steps + plan.stages):
            warp.mbarrier_wait(plan.empty(number % plan.stages), (number // plan.stages + 1) % 2)


def multiply_tiles(warp: Warp, plan: Plan, taddr: int, tiles: list[tuple[int, int]], steps: int) -> None:
    """One lane of the leader issues the products of all tiles: the accumulators take turns."""
    kind, _ = KINDS[plan.element]
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
                b = Descriptor.for_tile(plan.element, plan.part, plan.depth, swizzle=LINE, start=start + ROWS * LINE)
                for at in range(0, LINE, STEP):
                    left, right = tcgen05_descriptor(a.step(at)), tcgen05_descriptor(b.step(at))
                    warp.tcgen05_mma(kind, d, left, right, plan.idesc, step > 0 or at > 0, cta_group=plan.group)
                warp.tcgen05_commit(plan.empty(stage), plan.everyone, cta_group=plan.group)
            warp.tcgen05_commit(plan.summed(accumulator), plan.everyone, cta_group=plan.group)


def store_tiles(warp: Warp, plan: Plan, taddr: int, d: Pointer, tiles: list[tuple[int, int]]) -> None:
    """A warp stores its 32 rows of all tiles, and tells the leader that it has loaded them."""
    for tile, (y, x) in enumerate(tiles):
        accumulator, use = tile % plan.accumulators, tile // plan.accumulators
        warp.mbarrier_wait(plan.summed(accumulator), use % 2)
        store_tile(warp, plan, taddr + accumulator * plan.columns, d, plan.rows * y, plan.columns * x)
        with warp.only(warp.elect_sync()):
            warp.mbarrier_arrive_shared_cluster(warp.mapa(plan.stored(accumulator), LEADER))


def store_tile(warp: Warp, plan: Plan, taddr: int, d: Pointer, down: int, right: int) -> None:
    """A warp stores its 32 rows of the tile that begins at (down, right): row i is in lane i of Tensor Memory."""
    m, n = d.shape
    quarter = 32 * warp.warpid
    row = down + ROWS * warp.cluster_ctarank + quarter + warp.laneid
    warp.tcgen05_fence_after_thread_sync()
    for at in range(0, plan.columns, LOADED):
        c = warp.tcgen05_ld(taddr + (quarter << 16) + at, f"32x32b.x{LOADED}")
        warp.tcgen05_wait_ld()
        for i in range(LOADED):
            column = right + at + i
            if column < n:
                with warp.only(row < m):
                    warp.st_global(d.at(row, column), c[:, i])
    warp.tcgen05_fence_before_thread_sync()


def meet(warp: Warp, plan: Plan) -> None:
    """All threads of the group meet; what tcgen05 did before and does after is ordered."""
    warp.tcgen05_fence_before_thread_sync()
    if plan.group == 1:
        warp.bar_sync()
    else:
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
    warp.tcgen05_fence_after_thread_sync()


def begin(warp: Warp, plan: Plan) -> int:
    """Initialise the mbarriers, and allocate the same columns in each block; return their address."""
    if warp.warpid == COPIER:
        with warp.only(warp.elect_sync()):
            for stage in range(plan.stages):
                warp.mbarrier_init(plan.full(stage), 1)
                warp.mbarrier_init(plan.empty(stage), 1)
            for accumulator in range(plan.accumulators):
                warp.mbarrier_init(plan.summed(accumulator), 1)
                warp.mbarrier_init(plan.stored(accumulator), plan.group * STORERS)
            warp.fence_mbarrier_init()
    meet(warp, plan)  # the peer has to run before columns are allocated in both
    if warp.warpid == MULTIPLIER:
        warp.tcgen05_alloc(plan.slot, plan.tensor_columns, cta_group=plan.group)
        warp.tcgen05_relinquish_alloc_permit(cta_group=plan.group)
    meet(warp, plan)
    return int(warp.ld_shared(plan.slot)[0, 0])


def end(warp: Warp, plan: Plan, taddr: int) -> None:
    """Free the columns when everybody has done with them."""
    meet(warp, plan)
    if warp.warpid == MULTIPLIER:
        warp.tcgen05_dealloc(taddr, plan.tensor_columns, cta_group=plan.group)


def kernel(warp: Warp, plan: Plan, a: Pointer, b: Pointer, d: Pointer) -> None:
    """D = A B^T: A (m, k) and B (n, k), both with K innermost; D (m, n). Group i does tiles i, i + groups, ..."""
    down, across = -(-d.shape[0] // plan.rows), -(-d.shape[1] // plan.columns)
    mine, groups = warp.ctaid[0] // plan.group, warp.nctaid[0] // plan.group
    tiles = [divmod(tile, across) for tile in range(mine, down * across, groups)]
    steps = -(-a.shape[1] // plan.depth)
    taddr = begin(warp, plan)
    if warp.warpid == COPIER:
        box_a = TensorMap.of(a, (plan.depth, ROWS), swizzle=LINE)
        box_b = TensorMap.of(b, (plan.depth, plan.part), swizzle=LINE)
        copy_tiles(warp, plan, box_a, box_b, tiles, steps)
    elif warp.warpid == MULTIPLIER and warp.cluster_ctarank == LEADER:
        multiply_tiles(warp, plan, taddr, tiles, steps)
    elif warp.warpid < STORERS:
        store_tiles(warp, plan, taddr, d, tiles)
    end(warp, plan, taddr)


@explained
def multiply(
    a: npt.NDArray[Any], b: npt.NDArray[Any], plan: Plan = DEFAULT, *, blocks: int = 0, **options: Any
) -> tuple[npt.NDArray[Any], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch. D is f32, or s32 for s8.

    `blocks`, or as many pairs, share the tiles of D; 0 means one for each. Rows of A and columns of B must be whole
    units of 16 bytes, as a tensor map requires; m and n may be any size. `options` are passed to tcemu.launch: seed,
    policy, sanitizer.
    Raises OperandError for other shapes and dtypes.

    >>> from tcemu.gemm import tcgen05_tma
    >>> A, B = np.ones((128, 64), np.float16), np.ones((64, 128), np.float16)
    >>> D, result = tcgen05_tma.multiply(A, B)
    >>> D.shape, D[0, 0], result.reports
    ((128, 128), np.float32(64.0), [])
    """
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    matrices = [np.ascontiguousarray(matrix) for matrix in (a, b.T)]
    options = {"target": "sm_100a", "cluster": plan.group, **options}
    return d, launch(kernel, grid_of(plan, d, blocks), THREADS, (plan, *matrices, d), shared=plan.shared, **options)


def grid_of(plan: Plan, d: npt.NDArray[Any], blocks: int) -> int:
    """Blocks of a launch: no more than tiles, or twice as many if pairs work on them."""
    tiles: int = -(-d.shape[0] // plan.rows) * -(-d.shape[1] // plan.columns)
    return plan.group * min(blocks or tiles, tiles)
