"""Correct kernels in the wild, on Hopper: wgmma by one warpgroup; what all of them share."""

import numpy as np
from kernels_wild_table import bits, correct, floats, leader, matrices, product, small

from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap

WGMMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"
NARROW = "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16"
FP8 = "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
STMATRIX = "stmatrix.sync.aligned.m8n8.x4.shared.b16"
STMATRIX_T = "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
#: Bytes of a tile of 64 rows of 128 bytes, a box with the 128-byte swizzle.
TILE = 8192


def tile(start, rows=64):
    """The descriptor of a tile of `rows` rows of 64 f16, K-major."""
    return Descriptor.for_tile("f16", rows, 64, swizzle=128, start=start)


def box(pointer, rows=64):
    """The tensor map of such tiles."""
    return TensorMap.of(pointer, (64, rows), swizzle=128)


def multiply(warp, d, a, b, *, first=False, opcode=WGMMA, start_b=None):
    """Four wgmmas along K, on tiles that start at `a` and `b`."""
    for k in range(4):
        warp.run(opcode, d, tile(a).step(32 * k), tile(b).step(32 * k), not (first and k == 0), 1, 1, 0, 0)


def store(warp, d, row, column, c):
    """The accumulator of a warpgroup to global memory, its first element at (row, column)."""
    c = np.asarray(c)
    for pair in range(c.shape[1] // 2):
        down = row + 16 * (warp.warpid % 4) + warp.laneid // 4 + 8 * (pair % 2)
        warp.st_global(
            d.at(down, column + 2 * (warp.laneid % 4) + 8 * (pair // 2)), c[:, 2 * pair : 2 * pair + 2], "v2.b32"
        )


def swizzled(row, unit):
    """The place of a 16-byte unit in a tile with the 128-byte swizzle."""
    return 128 * row + 16 * (unit ^ row % 8)


def init(warp, counts, thread=0):
    """One thread initialises mbarriers, from {address: count}; everybody may use them."""
    with leader(warp, thread):
        for address, count in counts.items():
            warp.mbarrier_init(address, count)
        warp.fence_mbarrier_init()
    warp.bar_sync()


# ------------------------------------------------------------------------------------------------ one warpgroup


@correct(matrices(64, 64, 192), product, shared=2 * TILE + 16)
def the_first_kernel_of_a_worklog(warp, a, b, d):
    """fast.cu: one stage, thread 0 loads, all threads wait for two mbarriers, multiply, wait, barrier, again."""
    init(warp, {2 * TILE: 1, 2 * TILE + 8: 1})
    c = warp.registers(32, fill=0)
    for step in range(3):
        with leader(warp):
            for part, matrix in enumerate((a, b)):
                warp.mbarrier_arrive_expect_tx(2 * TILE + 8 * part, TILE)
                warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (64 * step, 0), 2 * TILE + 8 * part)
        for part in range(2):
            warp.mbarrier_wait(2 * TILE + 8 * part, step % 2)
        warp.wgmma_fence()
        multiply(warp, c, 0, TILE)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        warp.bar_sync()
    store(warp, d, 0, 0, c)


@correct(matrices(64, 64, 256), product, shared=6 * TILE + 24)
def prefetched_by_the_same_threads(warp, a, b, d):
    """CuTe's sm90 tutorial: the thread that multiplies also refills, one stage behind the pending group."""
    full = 6 * TILE
    init(warp, {full + 8 * stage: 1 for stage in range(3)})
    steps = 4

    def fill(step):
        stage = step % 3
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(full + 8 * stage, 2 * TILE)
            for part, matrix in enumerate((a, b)):
                to = TILE * (2 * stage + part)
                warp.cp_async_bulk_tensor_shared_global(to, box(matrix), (64 * step, 0), full + 8 * stage)

    for step in range(2):
        fill(step)
    c = warp.registers(32)
    for step in range(steps):
        stage = step % 3
        warp.mbarrier_wait(full + 8 * stage, step // 3 % 2)
        warp.wgmma_fence()
        multiply(warp, c, 2 * TILE * stage, 2 * TILE * stage + TILE, first=step == 0)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
        warp.bar_sync()  # all warps know that the group of the step before has ended
        if step + 2 < steps:
            fill(step + 2)
    warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)


@correct(matrices(64, 64, 128), product, shared=4 * TILE)
def cp_async_feeds_wgmma(warp, a, b, d):
    """Without TMA: wait_group, fence.proxy.async by the threads that copied, barrier, wgmma."""
    for step in range(2):
        for part, matrix in enumerate((a, b)):
            for quarter in range(4):
                unit = warp.threads + 128 * quarter
                row, column = unit // 8, unit % 8
                to = TILE * (2 * step + part) + swizzled(row, column)
                warp.cp_async(to, matrix.at(row, 64 * step + 8 * column), 16, cache="cg")
        warp.cp_async_commit_group()
    c = warp.registers(32, fill=0)
    for step in range(2):
        warp.cp_async_wait_group(1 - step)
        warp.fence_proxy_async("shared::cta")
        warp.bar_sync()
        warp.wgmma_fence()
        multiply(warp, c, 2 * TILE * step, 2 * TILE * step + TILE)
        warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)


def _dequantised(a, scale, b):
    return ((a.astype(np.float64) * scale) @ b.astype(np.float64).T).astype(np.float32)


@correct(
    lambda: (small(64, 64, seed=1), np.float16([[2]]), small(64, 64, seed=2), np.zeros((64, 64), np.float32)),
    _dequantised,
    shared=2 * TILE + 8,
)
def a_is_converted_in_registers(warp, a, scale, b, d):
    """Mixed-input GEMM: ldmatrix, scale in registers, wgmma.fence, wgmma with A from registers, one k step pending."""
    init(warp, {2 * TILE: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(2 * TILE, 2 * TILE)
        for part, matrix in enumerate((a, b)):
            warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (0, 0), 2 * TILE)
    warp.mbarrier_wait(2 * TILE, 0)
    factor = np.asarray(warp.ld_global(scale + 0, "u16"))[0, 0].astype(np.uint16).view(np.float16)
    c = warp.registers(32, fill=0)

    def converted(k):
        row = 16 * warp.warpid + warp.laneid % 16
        held = warp.run(LDMATRIX, swizzled(row, 2 * k + warp.laneid // 16))
        made = warp.registers(4, fill=0)
        made[...] = (held.view(np.float16) * factor).view(np.uint32)
        return made

    held = converted(0)
    for k in range(4):
        warp.wgmma_fence()
        warp.run(WGMMA, c, held, tile(TILE).step(32 * k), True, 1, 1, 0)
        warp.wgmma_commit_group()
        if k < 3:
            held = converted(k + 1)  # other registers than those under way
        warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)


@correct(matrices(64, 64, 64), product, shared=2 * TILE + 8)
def the_accumulator_in_two_halves(warp, a, b, d):
    """Two groups on two accumulators: the first half is stored while the second is still multiplied."""
    init(warp, {2 * TILE: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(2 * TILE, 2 * TILE)
        for part, matrix in enumerate((a, b)):
            warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (0, 0), 2 * TILE)
    warp.mbarrier_wait(2 * TILE, 0)
    halves = [warp.registers(16) for _ in range(2)]
    warp.wgmma_fence()
    for half in range(2):
        for k in range(4):
            there = tile(TILE + 4096 * half, 32).step(32 * k)
            warp.run(NARROW, halves[half], tile(0).step(32 * k), there, k > 0, 1, 1, 0, 0)
        warp.wgmma_commit_group()
    for half in range(2):
        warp.wgmma_wait_group(1 - half)
        store(warp, d, 0, 32 * half, halves[half])


def _scaled(a, b, sa):
    steps = [a[:, k : k + 128].astype(np.float64) @ b[:, k : k + 128].astype(np.float64).T for k in (0, 128)]
    return sum(step * sa[:, i : i + 1] for i, step in enumerate(steps)).astype(np.float32)


def _fp8():
    import ml_dtypes

    a, b = (small(64, 256, seed=seed).astype(ml_dtypes.float8_e4m3fn) for seed in (1, 2))
    return a.view(np.uint8), b.view(np.uint8), small(64, 2, seed=3, dtype=np.float32), np.zeros((64, 64), np.float32)


def _of_fp8(a, b, sa):
    import ml_dtypes

    return _scaled(a.view(ml_dtypes.float8_e4m3fn), b.view(ml_dtypes.float8_e4m3fn), sa)


@correct(_fp8, _of_fp8, block=256, shared=4 * TILE + 32)
def fp8_is_promoted_block_by_block(warp, a, b, sa, d):
    """DeepGEMM: each block of K has an accumulator of its own, which is scaled and added to f32 registers.

    Stages are released by lane 0 of each warp once the wgmma has ended; scales come from global memory.
    """
    full, empty = 4 * TILE, 4 * TILE + 16
    init(warp, {full: 1, full + 8: 1, empty: 4, empty + 8: 4})
    if warp.warpgroup == 0:
        warp.setmaxnreg("dec", 40)
        with leader(warp):
            for step in range(2):
                warp.mbarrier_wait(empty + 8 * step, 1)
                for part, matrix in enumerate((a, b)):
                    described = TensorMap.of(matrix, (128, 64), swizzle=128)
                    to = TILE * (2 * step + part)
                    warp.cp_async_bulk_tensor_shared_global(to, described, (128 * step, 0), full + 8 * step)
                warp.mbarrier_arrive_expect_tx(full + 8 * step, 2 * TILE)
        return
    warp.setmaxnreg("inc", 232)
    total = np.zeros((32, 32), np.float32)
    c = warp.registers(32)
    row = 16 * (warp.warpid % 4) + warp.laneid // 4
    for step in range(2):
        scales = [floats(warp.ld_global(sa.at(row + 8 * half, step))) for half in range(2)]
        warp.mbarrier_wait(full + 8 * step, 0)
        warp.wgmma_fence()
        for k in range(4):
            there = [
                Descriptor.for_tile("e4m3", 64, 128, swizzle=128, start=TILE * (2 * step + part)) for part in (0, 1)
            ]
            warp.run(FP8, c, there[0].step(32 * k), there[1].step(32 * k), k > 0, 1, 1)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        with warp.only(warp.laneid == 0):
            warp.mbarrier_arrive(empty + 8 * step)
        block = floats(c)
        for register in range(32):
            total[:, register] += (scales[register // 2 % 2] * block[:, register : register + 1])[:, 0]
    store(warp, d, 0, 0, bits(total))
