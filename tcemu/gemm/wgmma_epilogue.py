"""The Hopper kernel with an epilogue: D = max(A B + bias, 0) in f16, through stmatrix and a TMA store.

The main loop is that of wgmma_tma. Then each warp adds the bias in f32, rounds to f16, and writes its 16 rows to shared
memory with stmatrix, four 8 x 8 matrices at a time. A row of 64 columns is one line of the 128-byte swizzle, so the
stores have no bank conflicts, and the tensor map puts everything back in order. The copy also leaves out what lies
beyond D's edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError
from tcemu.gemm.operands import check
from tcemu.gemm.wgmma_tma import DEFAULT, LINE, WARPGROUP, Plan, begin, consume, produce_all
from tcemu.launcher import launch
from tcemu.machine import scalar
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

STMATRIX = "stmatrix.sync.aligned.m8n8.x4.shared.b16"
#: Columns of f16 in one line of the swizzle: the width of a box of D.
COLUMNS = LINE // 2
#: Rows of a warpgroup's tile, and bytes of one box of it.
ROWS = 64
BOX = ROWS * LINE
#: The barrier of the first warpgroup; that of the whole block is 0.
BARRIER = 1


def tile(plan: Plan) -> int:
    """The address of D's tile, behind the mbarriers, at a multiple of the swizzle's 1,024 bytes."""
    return -(-plan.shared // 1024) * 1024


def shared(plan: Plan) -> int:
    """Bytes of shared memory that a block needs."""
    return tile(plan) + plan.consumers * (plan.columns // COLUMNS) * BOX


def activated(warp: Warp, plan: Plan, c: Registers, bias: Pointer) -> npt.NDArray[np.uint32]:
    """max(C + bias, 0) in f16, two elements in each register (32, columns / 4)."""
    left = plan.columns * warp.ctaid[0] + 2 * (warp.laneid % 4)
    packed = np.zeros((32, plan.columns // 4), np.uint32)
    for pair in range(plan.columns // 4):
        column = np.minimum(left + 8 * (pair // 2), bias.shape[0] - 2)  # beyond the edge, nothing is stored
        added = warp.ld_global(bias.at(column), "v2.b32").view(np.float32)
        total = scalar.add(c[:, 2 * pair : 2 * pair + 2].view(np.float32), added)
        packed[:, pair] = scalar.cvt_f16x2(*np.where(total > 0, total, np.float32(0)).T)
    return packed


def write_tile(warp: Warp, plan: Plan, held: npt.NDArray[np.uint32]) -> None:
    """Write this warp's 16 rows to shared memory, 16 columns with each stmatrix."""
    matrix, line = warp.laneid // 8, warp.laneid % 8
    row = 16 * (warp.warpid % 4) + 8 * (matrix % 2) + line
    first = tile(plan) + warp.warpgroup * (plan.columns // COLUMNS) * BOX
    for column in range(0, plan.columns, 16):
        unit = column % COLUMNS // 8 + matrix // 2
        to = first + column // COLUMNS * BOX + row * LINE + ((unit ^ line) * 16)
        warp.run(STMATRIX, to, held[:, column // 4 : column // 4 + 4])


def copy_tile(warp: Warp, plan: Plan, d: TensorMap) -> None:
    """Once the warpgroup has written its tile, one thread copies it to global memory, box by box."""
    x, y, _ = warp.ctaid
    warp.fence_proxy_async("shared::cta")  # the copy must see what stmatrix wrote
    warp.bar_sync(BARRIER + warp.warpgroup, WARPGROUP)
    if warp.warpid % 4 == 0:
        first = tile(plan) + warp.warpgroup * (plan.columns // COLUMNS) * BOX
        with warp.only(warp.elect_sync()):
            for box in range(plan.columns // COLUMNS):
                at = plan.columns * x + COLUMNS * box, plan.rows * y + ROWS * warp.warpgroup
                warp.cp_async_bulk_tensor_global_shared(d, at, first + BOX * box)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)  # shared memory must stay until it has been read


def kernel(warp: Warp, plan: Plan, a: Pointer, b: Pointer, bias: Pointer, d: Pointer) -> None:
    """D = max(A B^T + bias, 0): A (m, k) and B (n, k) of plan.element, bias (n) of f32, D (m, n) of f16."""
    steps = -(-a.shape[1] // plan.depth)
    begin(warp, plan)
    if warp.warpid == 4 * plan.consumers:
        produce_all(warp, plan, a, b, steps)
        return
    write_tile(warp, plan, activated(warp, plan, consume(warp, plan, steps), bias))
    copy_tile(warp, plan, TensorMap.of(d, (COLUMNS, ROWS), swizzle=LINE))


@explained
def multiply(
    a: npt.NDArray[Any], b: npt.NDArray[Any], bias: npt.NDArray[np.float32], plan: Plan = DEFAULT, **options: Any
) -> tuple[npt.NDArray[np.float16], Launch]:
    """D (m, n) of A (m, k), B (k, n) and bias (n), and the launch; n and k are multiples of 8.

    A and B are f16 or bf16, as the plan says; the plan has a multiple of 64 columns. `options` are passed to
    tcemu.launch: seed, policy, sanitizer. Raises OperandError for other shapes, dtypes and plans.

    >>> from tcemu.gemm import wgmma_epilogue
    >>> A, B = np.ones((64, 64), np.float16), np.ones((64, 128), np.float16)
    >>> D, result = wgmma_epilogue.multiply(A, B, np.full(128, -65, np.float32))
    >>> D[0, 0], D.dtype  # 64 - 65, activated
    (np.float16(0.0), dtype('float16'))
    """
    if plan.element not in ("f16", "bf16") or plan.columns % COLUMNS or plan.promote:
        raise OperandError(f"the plan must have f16 or bf16, a multiple of {COLUMNS} columns, no promotion; got {plan}")
    check(a, b, plan.element, n=8, k=8)
    if not isinstance(bias, np.ndarray) or bias.dtype != np.float32 or bias.shape != b.shape[1:]:
        raise OperandError(f"bias must be float32 ({b.shape[1]},), one number for each column of D")
    d = np.zeros((len(a), b.shape[1]), np.float16)
    grid = -(-d.shape[1] // plan.columns), -(-d.shape[0] // plan.rows)
    arguments = plan, np.ascontiguousarray(a), np.ascontiguousarray(b.T), bias, d
    return d, launch(kernel, grid, WARPGROUP * plan.consumers + 32, arguments, shared=shared(plan), **options)
