"""The twins in CUDA C++ of the kernels that people ship: they run as those of tcemu.gemm.twins do.

    d = shipped.wgmma_persistent(a, b, "ping-pong")     # as wgmma_persistent.multiply, answered by the GPU
    with twins.emulated():
        d = shipped.wgmma_persistent(a, b)              # the same CUDA C++ on the emulator

On a machine without a GPU, only the second form works.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.gemm import attention as fused
from tcemu.gemm import attention_wgmma as flash
from tcemu.gemm import grouped_fp8 as experts
from tcemu.gemm import paged_decode as paged
from tcemu.gemm import tcgen05_attention as flash4
from tcemu.gemm import tcgen05_nvfp4 as fourth
from tcemu.gemm import tcgen05_tma as blackwell
from tcemu.gemm import w4a16 as quantised
from tcemu.gemm import wgmma_persistent as persistent
from tcemu.gemm.mma_pipeline import MMA
from tcemu.gemm.operands import check
from tcemu.gemm.twins import blackwell_source, boxes, hopper_source, inline, run, sizes_of, softmax_constants, source
from tcemu.gemm.wgmma_tma import LINE, WARPGROUP
from tcemu.instructions import parse
from tcemu.layouts.canonical import element_bits
from tcemu.live import tensor_map

Array = npt.NDArray[Any]


def persistent_source(plan: persistent.PersistentPlan) -> tuple[str, dict[str, str | int]]:
    """The CUDA C++ of wgmma_persistent for a plan, and the macros to compile it with."""
    text, defined = hopper_source(plan, "wgmma_persistent")
    few, many = persistent.REGISTERS[plan.warpgroups]
    return text, {**defined, "TEAMS": plan.teams, "GROUP": plan.group, "FEW": few, "MANY": many}


def wgmma_persistent(
    a: Array,
    b: Array,
    schedule: str | persistent.PersistentPlan = "cooperative",
    blocks: int = persistent.BLOCKS,
) -> Array:
    """As wgmma_persistent.multiply."""
    plan = persistent.plan_of(schedule)
    check(a, b, plan.element, k=128 // element_bits(plan.element))
    d = np.zeros((len(a), b.shape[1]), np.int32 if plan.element == "s8" else np.float32)
    text, defined = persistent_source(plan)
    grid, threads = persistent.grid_of(plan, *d.shape, blocks), WARPGROUP * (plan.warpgroups + 1)
    arguments = *boxes(a, b, plan), d, *sizes_of(a, b)
    run(text, "persistent", (grid,), threads, *arguments, shared=plan.shared + 1024, define=defined)
    return d


#: softmax's constant, to the bit.
_SOFTMAX = f"#define SCALE {float(flash.SCALE).hex()}f\n"


def attention_source() -> tuple[str, dict[str, str | int]]:
    """The CUDA C++ of attention_wgmma, and the macros to compile it with."""
    few, many = persistent.REGISTERS[flash.CONSUMERS]
    functions = inline(flash.MMA, "multiply", (1, 1, 0, 0), described=True)
    functions += inline(flash.MMA, "multiply_held", (1, 1, 1))
    return source("attention_wgmma", _SOFTMAX + functions), {"FEW": few, "MANY": many}


def attention_wgmma(q: Array, k: Array, v: Array, causal: bool = False) -> Array:
    """As attention_wgmma.attend."""
    flash.check(q, k, v, causal)
    out = np.zeros(q.shape, np.float16)
    box = flash.DIM // flash.BOXES, 128, 1
    maps = [tensor_map(np.ascontiguousarray(each), box, swizzle=LINE) for each in (q, k, v)]
    sizes = [np.int32(each) for each in (q.shape[1], k.shape[1], len(k), causal)]
    threads, shared = WARPGROUP * (flash.CONSUMERS + 1), flash.SHARED + 1024
    text, defined = attention_source()
    run(text, "kernel", flash.grid_of(q), threads, *maps, out, *sizes, shared=shared, define=defined)
    return out


def grouped_fp8(a: Array, scales_a: Array, b: Array, scales_b: Array, sizes: npt.ArrayLike) -> Array:
    """As grouped_fp8.multiply."""
    experts.check(a, scales_a, b, scales_b, sizes)
    plan, d = experts.PLAN, np.zeros((len(a), b.shape[1]), np.float32)
    rows, of_rows, columns, of_blocks, tiles = experts.arranged(a, scales_a, b, scales_b, sizes)
    box_a, box_b = boxes(rows, columns.T, plan)
    text, defined = hopper_source(plan, "grouped_fp8")
    grid, threads = experts.grid_of(b, sizes), WARPGROUP * plan.consumers + 32
    arguments = box_a, of_rows, box_b, of_blocks, tiles, d, *(np.int32(each) for each in (*d.shape, a.shape[1]))
    run(text, "grouped", grid, threads, *arguments, shared=plan.shared + 1024, define=defined)
    return d


def paged_decode(q: Array, k: Array, v: Array, table: Array, lengths: Array, splits: int = paged.WARPS) -> Array:
    """As paged_decode.attend."""
    paged.check(q, k, v, table, lengths, splits)
    parts, sums, out = paged.buffers(q, splits)
    text, defined = source("paged_decode", _SOFTMAX + inline(parse(MMA), "mma")), {"SPLITS": splits}
    grid, sizes = (k.shape[2], len(q), splits // paged.WARPS), map(np.int32, (q.shape[1] // k.shape[2], table.shape[1]))
    arguments = *(np.ascontiguousarray(each) for each in (q, k, v, table, lengths)), parts, sums, *sizes
    run(text, "kernel", grid, 32 * paged.WARPS, *arguments, shared=paged.SHARED, define=defined)
    run(text, "combine", (q.shape[1], len(q)), paged.DIM, parts, sums, out, define=defined)
    return out


def tcgen05_attention(q: Array, k: Array, v: Array) -> Array:
    """As tcgen05_attention.attend; it needs a GPU of sm_100a, and was tried on the emulator only."""
    fused.check(q, k, v)
    out = np.zeros(q.shape, np.float32)
    box = fused.DIM, flash4.KEYS
    maps = [tensor_map(np.ascontiguousarray(each), box, swizzle=LINE) for each in (q, k, v)]
    text, defined = blackwell_attention_source()
    grid, sizes = (-(-len(q) // flash4.QUERIES),), map(np.int32, (len(q), len(k)))
    run(text, "kernel", grid, flash4.THREADS, *maps, out, *sizes, shared=flash4.SHARED.nbytes + 1024, define=defined)
    return out


def blackwell_attention_source() -> tuple[str, dict[str, str | int]]:
    """The CUDA C++ of tcgen05_attention, and the macros to compile it with."""
    text = source("tcgen05_attention", softmax_constants())
    return text, {"IDESC_S": flash4.IDESC_S, "IDESC_O": flash4.IDESC_O}


def tcgen05_nvfp4(
    a: Array, scales_a: Array, b: Array, scales_b: Array, plan: fourth.Plan = fourth.DEFAULT, *, blocks: int = 0
) -> Array:
    """As tcgen05_nvfp4.multiply; it needs a GPU of sm_100a, and was tried on the emulator only."""
    fourth.check_scaled(a, scales_a, b, scales_b, plan)
    d = np.zeros((len(a), b.shape[1]), np.float32)
    steps = -(-len(b) // fourth.DEPTH)
    sides = (a, scales_a, blackwell.ROWS), (b.T, scales_b.T, plan.columns)
    arguments = [
        each
        for matrix, scales, rows in sides
        for each in (tensor_map(fourth.packed(matrix), (LINE, rows), swizzle=LINE), fourth.blocked(scales, rows, steps))
    ]
    text, defined = blackwell_source(plan, "tcgen05_nvfp4")
    grid, sizes = (blackwell.grid_of(plan, d, blocks),), map(np.int32, (*d.shape, steps))
    run(text, "scaled", grid, blackwell.THREADS, *arguments, d, *sizes, shared=plan.shared + 1024, define=defined)
    return d


def w4a16(a: Array, weights: Array, scales: Array) -> Array:
    """As w4a16.multiply."""
    quantised.check(a, weights, scales)
    d = np.zeros((len(a), weights.shape[1]), np.float32)
    arguments = (
        np.ascontiguousarray(a),
        quantised.packed(weights),
        np.ascontiguousarray(scales),
        d,
        *sizes_of(a, weights),
    )
    shared = quantised.STAGES * quantised.STAGE_BYTES
    run(source("w4a16", inline(parse(MMA), "mma")), "kernel", quantised.grid_of(d), 128, *arguments, shared=shared)
    return d
