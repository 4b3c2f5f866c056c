"""Grouped fp8 GEMM with block scales, as DeepGEMM computes the experts of a layer: groups of rows of different sizes.

Each group of rows of A has a matrix B of its own. Along K, 128 elements of a row of A share a scale, and in B blocks of
128 x 128 do. A scale cannot go through the tensor core, so each stage, 128 elements of K, is multiplied into an
accumulator of its own, from zero, and then added to the result in f32, times both scales:

    D = 0;  for each 128 of K:  D = fma(A B of these 128, scale of A's row * scale of B's block, D)

On Hopper, these additions also keep the sums exact enough: inside the tensor core, sums of fp8 have 13 fraction bits.

A tile belongs to one group. The table `tiles_of` says to which, and where its rows begin and end: a tile may read rows
of the next group, but does not store them. The copies and mbarriers are those of wgmma_tma.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.formats import lookup
from tcemu.gemm.store import store
from tcemu.gemm.wgmma_tma import LINE, WARPGROUP, Plan, begin, multiply_stage, release
from tcemu.launcher import launch
from tcemu.machine import scalar
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: Elements along K that share a scale, which are one stage; and along N, in B.
BLOCK = 128
#: Two consumer warpgroups: while one adds its part to the result, the other one's products run.
PLAN = Plan("e4m3", columns=BLOCK, consumers=2, stages=4)

Fp8 = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]


def tiles_of(sizes: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """The tiles down D, (tiles, 4): the group, the first row, the row after its last one, and an unused number.

    >>> from tcemu.gemm import grouped_fp8
    >>> grouped_fp8.tiles_of([130, 0, 5]).tolist()  # two tiles of 128 rows, none, and one of 5 rows
    [[0, 0, 130, 0], [0, 128, 130, 0], [2, 130, 135, 0]]
    """
    ends = np.cumsum(np.asarray(sizes, np.int64))
    tiles = [
        (group, first, end, 0)
        for group, (size, end) in enumerate(zip(np.asarray(sizes), ends, strict=True))
        for first in range(end - size, end, PLAN.rows)
    ]
    return np.array(tiles, np.int32).reshape(-1, 4)


def produce(warp: Warp, a: Pointer, b: Pointer, row: int, column: int, steps: int) -> None:
    """One lane copies the tiles of all steps, each as soon as its stage is empty."""
    box_a = TensorMap.of(a, (PLAN.depth, PLAN.rows), swizzle=LINE)
    box_b = TensorMap.of(b, (PLAN.depth, PLAN.columns), swizzle=LINE)
    with warp.only(warp.elect_sync()):
        for step in range(steps):
            turn, stage = divmod(step, PLAN.stages)
            to, full = stage * PLAN.stage_bytes, PLAN.full(stage)
            warp.mbarrier_wait(PLAN.empty(stage), (turn + 1) % 2)
            warp.mbarrier_arrive_expect_tx(full, PLAN.stage_bytes)
            warp.cp_async_bulk_tensor_shared_global(to, box_a, (BLOCK * step, row), full)
            warp.cp_async_bulk_tensor_shared_global(to + PLAN.a_bytes, box_b, (BLOCK * step, column), full)


def load_scales(
    warp: Warp, a: Pointer, b: Pointer, group: int, rows: npt.NDArray[np.int64], step: int
) -> list[Registers]:
    """Load the scales of a stage: those of this lane's two rows, and that of B's block."""
    of_rows = [warp.ld_global(a.at(step, rows[:, half])) for half in range(2)]
    return [*of_rows, warp.ld_global(b.at(group, warp.ctaid[0], step))]


def promote(c: Registers, part: Registers, scales: list[Registers]) -> None:
    """Add a stage's sums to the result, times both scales: one fma for each element."""
    upper, lower, of_block = (each.view(np.float32) for each in scales)
    by = scalar.mul(np.concatenate([upper, lower], axis=1), of_block)
    by = np.tile(np.repeat(by, 2, axis=1), PLAN.columns // 8)
    c[:] = scalar.fma(part.view(np.float32), by, c.view(np.float32)).view(np.uint32)


def consume(warp: Warp, scales_a: Pointer, scales_b: Pointer, group: int, rows: Any, steps: int) -> Registers:
    """The warpgroup multiplies the tiles of all steps, and adds each stage's sums to the result.

    Scales are loaded a step ahead: ptxas multiplies them before it issues products, which would wait for the loads.
    """
    c = warp.registers(PLAN.columns // 2, fill=0)
    part = warp.registers(PLAN.columns // 2, fill=0)
    scales = load_scales(warp, scales_a, scales_b, group, rows, 0)
    for step in range(steps):
        turn, stage = divmod(step, PLAN.stages)
        ahead = load_scales(warp, scales_a, scales_b, group, rows, min(step + 1, steps - 1))
        warp.mbarrier_wait(PLAN.full(stage), turn % 2)
        multiply_stage(warp, PLAN, stage, part, begin=True)
        warp.wgmma_wait_group(0)
        release(warp, PLAN, stage)
        promote(c, part, scales)
        scales = ahead
    return c


def kernel(
    warp: Warp, a: Pointer, scales_a: Pointer, b: Pointer, scales_b: Pointer, tiles: Pointer, d: Pointer, n: int
) -> None:
    """Block (x, y): 128 columns of tile y. A (rows, k), B (groups * n, k), scales_a (k / 128, rows), D (rows, n)."""
    x, y, _ = warp.ctaid
    group, first, end, _ = (int(each) for each in warp.ld_global(tiles.at(y, 0), "v4.b32")[0])
    steps = -(-a.shape[1] // BLOCK)
    begin(warp, PLAN)
    if warp.warpid == 4 * PLAN.consumers:
        produce(warp, a, b, first, n * group + PLAN.columns * x, steps)
        return
    row = first + 16 * warp.warpid + warp.laneid // 4
    rows = np.minimum(row[:, None] + np.array([0, 8]), end - 1)  # there are no scales for others
    c = consume(warp, scales_a, scales_b, group, rows, steps)
    store(warp, Pointer(d.at(0, 0), d.dtype, (end, n)), c, row, PLAN.columns * x)


@explained
def multiply(a: Fp8, scales_a: F32, b: Fp8, scales_b: F32, sizes: npt.ArrayLike, **options: Any) -> tuple[F32, Launch]:
    """D (rows, n) float32 of A (rows, k) and B (groups, n, k), both float8_e4m3fn, and the launch.

    The first sizes[0] rows of A belong to group 0, the next sizes[1] to group 1, and so on; a size may be 0. scales_a
    is (rows, ceil(k / 128)) and scales_b (groups, ceil(n / 128), ceil(k / 128)), both float32; k is a multiple of 16.
    `options` are passed to tcemu.launch: seed, policy, sanitizer. Raises OperandError for other shapes and dtypes.

    >>> import ml_dtypes
    >>> from tcemu.gemm import grouped_fp8
    >>> A, B = np.ones((40, 128), ml_dtypes.float8_e4m3fn), np.ones((2, 64, 128), ml_dtypes.float8_e4m3fn)
    >>> of_a, of_b = np.full((40, 1), 0.5, np.float32), np.array([1, 3], np.float32).reshape(2, 1, 1)
    >>> D, result = grouped_fp8.multiply(A, of_a, B, of_b, [30, 10])
    >>> D[29, 0], D[30, 0], result.reports  # 128 * 0.5, and three times that
    (np.float32(64.0), np.float32(192.0), [])
    """
    check(a, scales_a, b, scales_b, sizes)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    arguments = *arranged(a, scales_a, b, scales_b, sizes), d, b.shape[1]
    threads = WARPGROUP * PLAN.consumers + 32
    return d, launch(kernel, grid_of(b, sizes), threads, arguments, shared=PLAN.shared, **options)


def arranged(a: Fp8, scales_a: F32, b: Fp8, scales_b: F32, sizes: npt.ArrayLike) -> tuple[npt.NDArray[Any], ...]:
    """The operands as the kernel reads them: neighbouring rows' scales are neighbours in memory, and B is (n, k)."""
    flat = np.ascontiguousarray(b.reshape(-1, b.shape[2]))
    turned = np.ascontiguousarray(scales_a.T)
    return np.ascontiguousarray(a), turned, flat, np.ascontiguousarray(scales_b), tiles_of(sizes)


def grid_of(b: Fp8, sizes: npt.ArrayLike) -> tuple[int, int]:
    """Blocks: 128 columns, and tiles down."""
    return -(-b.shape[1] // PLAN.columns), len(tiles_of(sizes))


def check(a: Any, scales_a: Any, b: Any, scales_b: Any, sizes: Any) -> None:
    """Raise OperandError for other shapes and dtypes than `multiply` takes."""
    fp8 = lookup("e4m3").dtype
    types = [f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else briefly(each) for each in (a, b)]
    arrays = all(isinstance(each, np.ndarray) and each.dtype == fp8 and each.size for each in (a, b))
    if not arrays or a.ndim != 2 or b.ndim != 3 or a.shape[1] != b.shape[2] or a.shape[1] % 16:
        raise OperandError(
            f"A must be (rows, k) and B (groups, n, k), both {fp8}, with k a multiple of 16, whole units of 16 bytes "
            f"for TMA; got {types[0]} and {types[1]}"
        )
    blocks, columns = -(-a.shape[1] // BLOCK), -(-b.shape[1] // BLOCK)
    for name, each, shape, why in (
        ("scales_a", scales_a, (len(a), blocks), f"one for each {BLOCK} elements of a row"),
        ("scales_b", scales_b, (len(b), columns, blocks), f"one for each {BLOCK} x {BLOCK} elements of a group"),
    ):
        if not isinstance(each, np.ndarray) or each.dtype != np.float32 or each.shape != shape:
            got = f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else briefly(each)
            raise OperandError(f"{name} must be float32 {shape}, {why}; got {got}")
    numbers = np.asarray(sizes)
    if numbers.dtype.kind not in "iu" or numbers.shape != (len(b),) or (numbers < 0).any() or numbers.sum() != len(a):
        raise OperandError(
            f"sizes must be {len(b)} whole numbers, the rows of each group, {len(a)} in all; got {briefly(sizes)}"
        )
