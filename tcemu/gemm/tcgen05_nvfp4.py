"""NVFP4 with tcgen05.mma: e2m1 with a ue4m3 scale for each 16 elements along K, scales copied to Tensor Memory.

The kernel of tcgen05_tma, for one block, with two changes. The copier also copies the scales of a stage, which lie in
global memory in the order of cuBLAS (tcemu.layouts.to_blocked): 512 bytes are the scales of 128 rows for one product,
K = 64. The multiplier copies them on to Tensor Memory by tcgen05.cp before it multiplies:

    .32x128b.warpx4     32 rows of 16 bytes; row r goes to lane r of all four quarters
                        byte 4 c + b of row r is scale b (of 4) of row r + 32 c of the matrix: column c, byte b

tcgen05.cp and tcgen05.mma of one thread are pipelined: the product waits for the copy, and the next copy for the
product, without a word of the kernel. The commit that frees a stage covers the copies too.

No Blackwell GPU was asked. Sums are as MMA-Sim's authors measured them on a B200; everything else is the manual's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly, listing
from tcemu.formats import lookup
from tcemu.gemm import tcgen05_tma
from tcemu.gemm.operands import check
from tcemu.gemm.tcgen05_tma import (
    COPIER,
    LINE,
    MULTIPLIER,
    ROWS,
    STEP,
    STORERS,
    THREADS,
    begin,
    end,
    grid_of,
    store_tiles,
)
from tcemu.launcher import launch
from tcemu.layouts import Descriptor, tcgen05_descriptor, to_blocked
from tcemu.layouts.instruction_descriptor import InstructionDescriptor
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

KIND = "mxf4nvf4.block_scale.scale_vec::4X"
#: Elements that share a scale, elements of a line, and products along a line.
BLOCK, DEPTH, PRODUCTS = 16, 8 * LINE // 4, LINE // STEP
#: The scales of 128 rows for one product: bytes of shared memory, columns of Tensor Memory; bytes for a stage.
TILE, TILE_COLUMNS = 512, 4
SCALES = PRODUCTS * TILE


@dataclass(frozen=True)
class Plan(tcgen05_tma.Plan):
    """The parameters of the kernel: columns of a tile (128 or 256), stages, accumulators."""

    element: str = "e2m1"

    @cached_property
    def idesc(self) -> int:
        """The instruction descriptor: shape, types, and that scales are ue4m3."""
        return InstructionDescriptor("mxf4nvf4", ROWS, self.columns, "f32", "e2m1", "e2m1", scale_type="ue4m3").encode()

    @property
    def known(self) -> str:
        """How the sums of its products are known, for whoever shows them."""
        return tcgen05_tma.how_known(KIND, self.idesc)

    @cached_property
    def depth(self) -> int:
        """Elements of a tile's row: a stage's part of K."""
        return DEPTH

    @cached_property
    def blocks(self) -> int:
        """Blocks of 128 rows whose scales a stage has: one of A, then those of B."""
        return 1 + self.columns // ROWS

    @cached_property
    def scales(self) -> int:
        """Where a stage has its scales: behind the tiles of A and B."""
        return (ROWS + self.columns) * LINE

    @cached_property
    def stage_bytes(self) -> int:
        """Bytes of a stage: A's tile, B's, and the scales of both."""
        return self.scales + self.blocks * SCALES

    @cached_property
    def scale_columns(self) -> int:
        """The first column of the scales: behind the accumulators."""
        return self.accumulators * self.columns

    @cached_property
    def tensor_columns(self) -> int:
        """Columns of Tensor Memory that a block allocates: accumulators, and the scales of a product."""
        return max(32, 1 << (self.scale_columns + self.blocks * TILE_COLUMNS - 1).bit_length())


DEFAULT = Plan()


def copy_tiles(
    warp: Warp,
    plan: Plan,
    boxes: tuple[TensorMap, TensorMap],
    scales: tuple[Pointer, Pointer],
    tiles: list[tuple[int, int]],
    steps: int,
) -> None:
    """One lane copies the stages of all tiles: two boxes, and the scales of each 128 rows."""
    (box_a, box_b), (of_a, of_b), wide = boxes, scales, plan.blocks - 1
    with warp.only(warp.elect_sync()):
        for number in range(len(tiles) * steps):
            (y, x), step = tiles[number // steps], number % steps
            stage, turn = number % plan.stages, number // plan.stages
            to, full = stage * plan.stage_bytes, plan.full(stage)
            warp.mbarrier_wait(plan.empty(stage), (turn + 1) % 2)
            warp.mbarrier_arrive_expect_tx(full, plan.stage_bytes)
            warp.cp_async_bulk_tensor_shared_global(to, box_a, (LINE * step, ROWS * y), full)
            warp.cp_async_bulk_tensor_shared_global(to + ROWS * LINE, box_b, (LINE * step, plan.columns * x), full)
            places = [of_a.at(y, step, 0), *(of_b.at(wide * x + i, step, 0) for i in range(wide))]
            for i, place in enumerate(places):
                warp.cp_async_bulk_shared_global(to + plan.scales + i * SCALES, place, SCALES, full)


def multiply_stage(warp: Warp, plan: Plan, stage: int, taddr: int, d: int, first: bool) -> None:
    """Issue the products of a stage, each after the copies of its scales."""
    start, to = stage * plan.stage_bytes, taddr + plan.scale_columns
    a = Descriptor.for_tile("u8", ROWS, LINE, swizzle=LINE, start=start)
    b = Descriptor.for_tile("u8", plan.columns, LINE, swizzle=LINE, start=start + ROWS * LINE)
    for product in range(PRODUCTS):
        for i in range(plan.blocks):
            tile = Descriptor(start + plan.scales + i * SCALES + product * TILE, lbo=TILE, sbo=128)
            warp.tcgen05_cp(to + i * TILE_COLUMNS, tcgen05_descriptor(tile), "32x128b.warpx4")
        left, right = (tcgen05_descriptor(each.step(STEP * product)) for each in (a, b))
        adds = not first or product > 0
        warp.tcgen05_mma(KIND, d, left, right, plan.idesc, to, to + TILE_COLUMNS, adds)


def multiply_tiles(warp: Warp, plan: Plan, taddr: int, tiles: list[tuple[int, int]], steps: int) -> None:
    """One lane issues the products of all tiles: the accumulators take turns."""
    with warp.only(warp.elect_sync()):
        for tile in range(len(tiles)):
            accumulator, use = tile % plan.accumulators, tile // plan.accumulators
            warp.mbarrier_wait(plan.stored(accumulator), (use + 1) % 2)
            warp.tcgen05_fence_after_thread_sync()
            for step in range(steps):
                number = tile * steps + step
                stage, turn = number % plan.stages, number // plan.stages
                warp.mbarrier_wait(plan.full(stage), turn % 2)
                warp.tcgen05_fence_after_thread_sync()
                multiply_stage(warp, plan, stage, taddr, taddr + accumulator * plan.columns, step == 0)
                warp.tcgen05_commit(plan.empty(stage))
            warp.tcgen05_commit(plan.summed(accumulator))


def kernel(
    warp: Warp, plan: Plan, a: Pointer, scales_a: Pointer, b: Pointer, scales_b: Pointer, d: Pointer, steps: int
) -> None:
    """D = A B^T: A (m, bytes) and B (n, bytes), two elements in a byte; scales (blocks of 128 rows, steps, SCALES)."""
    down, across = -(-d.shape[0] // ROWS), -(-d.shape[1] // plan.columns)
    tiles = [divmod(tile, across) for tile in range(warp.ctaid[0], down * across, warp.nctaid[0])]
    taddr = begin(warp, plan)
    if warp.warpid == COPIER:
        boxes = (TensorMap.of(a, (LINE, ROWS), swizzle=LINE), TensorMap.of(b, (LINE, plan.columns), swizzle=LINE))
        copy_tiles(warp, plan, boxes, (scales_a, scales_b), tiles, steps)
    elif warp.warpid == MULTIPLIER:
        multiply_tiles(warp, plan, taddr, tiles, steps)
    elif warp.warpid < STORERS:
        store_tiles(warp, plan, taddr, d, tiles)
    end(warp, plan, taddr)


@explained
def multiply(
    a: npt.NDArray[Any],
    scales_a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    scales_b: npt.NDArray[Any],
    plan: Plan = DEFAULT,
    *,
    blocks: int = 0,
    **options: Any,
) -> tuple[npt.NDArray[np.float32], Launch]:
    """D (m, n), f32, of A (m, k) and B (k, n) with their scales (m, k / 16) and (k / 16, n), and the launch.

    A and B are float4_e2m1fn and the scales float8_e4m3fn, as tcemu.microscaling.quantise(..., "nvfp4") makes them; k
    is a multiple of 32. `blocks` share the tiles of D; 0 means a block for each. `options` are passed to tcemu.launch:
    seed, policy, sanitizer. Raises OperandError for other shapes, dtypes and plans.

    >>> from tcemu.gemm import tcgen05_nvfp4
    >>> A, scales_a = tcemu.microscaling.quantise(np.full((128, 64), 3.0), "nvfp4")
    >>> B, scales_b = tcemu.microscaling.quantise(np.full((64, 128), 0.75), "nvfp4", axis=-2)
    >>> D, result = tcgen05_nvfp4.multiply(A, scales_a, B, scales_b)
    >>> D.shape, D[0, 0], result.reports
    ((128, 128), np.float32(144.0), [])
    """
    check_scaled(a, scales_a, b, scales_b, plan)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    steps = -(-len(b) // DEPTH)
    arguments = (
        packed(a),
        blocked(scales_a, ROWS, steps),
        packed(b.T),
        blocked(scales_b.T, plan.columns, steps),
        d,
        steps,
    )
    grid = grid_of(plan, d, blocks)
    return d, launch(kernel, grid, THREADS, (plan, *arguments), shared=plan.shared, **{"target": "sm_100a", **options})


def packed(matrix: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Two elements in a byte, the first in the low half."""
    patterns = np.ascontiguousarray(matrix).view(np.uint8)
    return np.ascontiguousarray(patterns[:, 0::2] | patterns[:, 1::2] << 4)


def blocked(scales: npt.NDArray[Any], rows: int, steps: int) -> npt.NDArray[np.uint8]:
    """The scales in cuBLAS's order, (blocks of 128 rows, steps, bytes), with zeros up to whole tiles and steps."""
    per_step = DEPTH // BLOCK
    padding = (0, -len(scales) % rows), (0, per_step * steps - scales.shape[1])
    patterns = np.pad(np.ascontiguousarray(scales).view(np.uint8), padding)
    return to_blocked(patterns).reshape(-1, steps, SCALES)


def check_scaled(a: Any, scales_a: Any, b: Any, scales_b: Any, plan: Plan) -> None:
    """Raise OperandError for other shapes, dtypes and plans than `multiply` takes."""
    fits = plan.element == "e2m1" and plan.columns in (128, 256) and plan.group == 1 and plan.tensor_columns <= 512
    if not fits:
        raise OperandError(
            "the plan must have e2m1, 128 or 256 columns, group=1, and room for accumulators and scales in 512 columns "
            f"of Tensor Memory; got {plan}"
        )
    check(a, b, "e2m1", k=2 * BLOCK)
    dtype, wanted = lookup("ue4m3").dtype, ((len(a), len(b) // BLOCK), (len(b) // BLOCK, b.shape[1]))
    scales = (scales_a, scales_b)
    if not all(isinstance(each, np.ndarray) and each.dtype == dtype for each in scales) or wanted != tuple(
        each.shape for each in scales
    ):
        got = [f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else briefly(each) for each in scales]
        raise OperandError(
            f"scales must be {dtype}, {listing(list(map(str, wanted)), 'and')}, one for each {BLOCK} elements along k; "
            f"got {' and '.join(got)}"
        )
