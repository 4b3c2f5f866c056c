"""Stream-K: every block gets the same number of steps, even if that splits a tile, so that none waits for a last wave.

The steps of all tiles, one tile after the other, are cut into as many runs as there are blocks. A block whose run
begins inside a tile continues where the block before it stopped: that block leaves its accumulator in global memory and
sets a flag. Each block therefore does the last part of its run first, since the next block waits for it.

Elsewhere the parts of a tile are added up at the end, which is one addition more and gives other bits. Here an
accumulator is handed on, so the sums are those of a single block, in the same order, to the bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm.operands import check
from tcemu.gemm.store import store
from tcemu.gemm.wgmma_tma import DEFAULT, LINE, WARPGROUP, Plan, begin, multiply_stage, release
from tcemu.launcher import launch
from tcemu.layouts.canonical import element_bits
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp


class Part(NamedTuple):
    """Steps `first` to `end` - 1 of a tile."""

    tile: int
    first: int
    end: int


def parts(block: int, blocks: int, tiles: int, steps: int) -> list[Part]:
    """The work of one block, in its order: the last tile of its run first.

    >>> from tcemu.gemm import wgmma_stream
    >>> wgmma_stream.parts(1, 3, tiles=4, steps=5)  # steps 6 to 12 of 20
    [Part(tile=2, first=0, end=3), Part(tile=1, first=1, end=5)]
    """
    at, end = (tiles * steps * each // blocks for each in (block, block + 1))
    shares = []
    while at < end:
        tile, first = divmod(at, steps)
        shares.append(Part(tile, first, min(steps, first + end - at)))
        at += shares[-1].end - first
    return shares[::-1]


def place(plan: Plan, tile: int, columns: int) -> tuple[int, int]:
    """The first row and column of a tile in D, which has that many columns."""
    y, x = divmod(tile, -(-columns // plan.columns))
    return plan.rows * y, plan.columns * x


def produce(warp: Warp, plan: Plan, work: list[Part], a: Pointer, b: Pointer) -> None:
    """One lane copies the tiles of all steps of all parts, each as soon as its stage is empty."""
    box_a = TensorMap.of(a, (plan.depth, plan.rows), swizzle=LINE)
    box_b = TensorMap.of(b, (plan.depth, plan.columns), swizzle=LINE)
    count = 0
    with warp.only(warp.elect_sync()):
        for part in work:
            row, column = place(plan, part.tile, b.shape[0])
            for step in range(part.first, part.end):
                stage, turn = count % plan.stages, count // plan.stages
                tile, full = stage * plan.stage_bytes, plan.full(stage)
                warp.mbarrier_wait(plan.empty(stage), (turn + 1) % 2)
                warp.mbarrier_arrive_expect_tx(full, plan.stage_bytes)
                warp.cp_async_bulk_tensor_shared_global(tile, box_a, (plan.depth * step, row), full)
                warp.cp_async_bulk_tensor_shared_global(tile + plan.a_bytes, box_b, (plan.depth * step, column), full)
                count += 1


def consume(warp: Warp, plan: Plan, c: Registers, part: Part, count: int) -> None:
    """Add the products of a part to C; `count` steps came before in this block."""
    for number in range(part.end - part.first):
        stage, turn = (count + number) % plan.stages, (count + number) // plan.stages
        warp.mbarrier_wait(plan.full(stage), turn % 2)
        multiply_stage(warp, plan, stage, c, begin=part.first + number == 0)
        warp.wgmma_wait_group(0)
        release(warp, plan, stage)


def hand_on(warp: Warp, plan: Plan, c: Registers, kept: Pointer, flags: Pointer) -> None:
    """Leave C in global memory, and set this block's flag."""
    block = warp.ctaid[0]
    for at in range(0, c.shape[1], 4):
        warp.st_global(kept.at(block, at // 4, warp.threads, 0), c[:, at : at + 4], "v4.b32")
    warp.bar_sync(1, WARPGROUP * plan.consumers)
    with warp.only(warp.threads == 0):
        warp.st_global(flags.at(block), 1, order="release")


def take_over(warp: Warp, plan: Plan, c: Registers, kept: Pointer, flags: Pointer) -> None:
    """Wait for the flag of the block before, and load its C."""
    block = warp.ctaid[0] - 1
    with warp.only(warp.threads == 0):
        while warp.warpid == 0 and not warp.ld_global(flags.at(block), order="acquire")[0, 0]:
            pass
    warp.bar_sync(1, WARPGROUP * plan.consumers)
    for at in range(0, c.shape[1], 4):
        c[:, at : at + 4] = warp.ld_global(kept.at(block, at // 4, warp.threads, 0), "v4.b32")


def kernel(warp: Warp, plan: Plan, a: Pointer, b: Pointer, d: Pointer, kept: Pointer, flags: Pointer) -> None:
    """D = A B^T: A (m, k) and B (n, k), D (m, n); `kept` (blocks, columns / 8, threads, 4) has what is handed on."""
    steps = -(-a.shape[1] // plan.depth)
    tiles = -(-d.shape[0] // plan.rows) * -(-d.shape[1] // plan.columns)
    work = parts(warp.ctaid[0], warp.nctaid[0], tiles, steps)
    begin(warp, plan)
    if warp.warpid == 4 * plan.consumers:
        produce(warp, plan, work, a, b)
        return
    count = 0
    for part in work:
        c = warp.registers(plan.columns // 2, fill=0)
        if part.first:
            take_over(warp, plan, c, kept, flags)
        consume(warp, plan, c, part, count)
        count += part.end - part.first
        if part.end < steps:
            hand_on(warp, plan, c, kept, flags)
            continue
        row, column = place(plan, part.tile, d.shape[1])
        store(warp, d, c, row + 16 * warp.warpid + warp.laneid // 4, column)


def sizes(a: npt.NDArray[Any], b: npt.NDArray[Any], plan: Plan, blocks: int) -> tuple[int, tuple[int, int, int, int]]:
    """The number of blocks, at most one for each step, and the shape of `kept`. Raises OperandError."""
    if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1:
        raise OperandError(f"blocks= must be at least 1; got {briefly(blocks)}")
    tiles = -(-len(a) // plan.rows) * -(-b.shape[1] // plan.columns)
    count = min(blocks, tiles * -(-len(b) // plan.depth))
    return count, (count, plan.columns // 8, WARPGROUP * plan.consumers, 4)


@explained
def multiply(
    a: npt.NDArray[Any], b: npt.NDArray[Any], blocks: int = 4, plan: Plan = DEFAULT, **options: Any
) -> tuple[npt.NDArray[Any], Launch]:
    """D (m, n) of A (m, k) and B (k, n), and the launch: the same bits as wgmma_tma.multiply, with the same operands.

    On a GPU, `blocks` is the number of its multiprocessors; more than there are steps are not launched. `promote` has
    no effect. Raises OperandError for other shapes, dtypes and numbers of blocks.

    >>> from tcemu.gemm import wgmma_stream
    >>> A, B = np.ones((192, 128), np.float16), np.ones((128, 128), np.float16)
    >>> D, result = wgmma_stream.multiply(A, B, blocks=2)  # three tiles, of two steps each, for two blocks
    >>> D[0, 0], result.blocks, result.reports
    (np.float32(128.0), 2, [])
    """
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    count, shape = sizes(a, b, plan, blocks)
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    kept, flags = np.zeros(shape, np.uint32), np.zeros(count, np.uint32)
    threads = WARPGROUP * plan.consumers + 32
    arguments = plan, *(np.ascontiguousarray(matrix) for matrix in (a, b.T)), d, kept, flags
    return d, launch(kernel, count, threads, arguments, shared=plan.shared, **options)
