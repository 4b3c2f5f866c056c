"""Correct kernels in the wild, on Hopper: epilogues, TMA and bulk copies."""

import numpy as np
from kernels_wild_correct_wgmma import LDMATRIX, TILE, box, init, multiply, swizzled
from kernels_wild_table import correct, floats, leader, matrices, one, product, small, words

from tcemu.machine.tensor_map import TensorMap

STMATRIX_T = "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"

# ------------------------------------------------------------------------------------------------ epilogues


def _plus(a, b, bias):
    return (a.astype(np.float64) @ b.astype(np.float64).T + bias).astype(np.float16)


@correct(
    lambda: (small(64, 64, seed=1), small(64, 64, seed=2), small(64, 64, seed=3), np.zeros((64, 64), np.float16)),
    _plus,
    shared=2 * TILE + 16,
)
def the_source_of_the_epilogue_takes_the_place_of_a_tile(warp, a, b, bias, d):
    """D = A B + C: C is loaded over A once everybody has waited for the wgmma, and D written in place.

    The bulk load over bytes that wgmma read needs no fence; D, written by stores, does.
    """
    init(warp, {2 * TILE: 1, 2 * TILE + 8: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(2 * TILE, 2 * TILE)
        for part, matrix in enumerate((a, b)):
            warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (0, 0), 2 * TILE)
    warp.mbarrier_wait(2 * TILE, 0)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    multiply(warp, c, 0, TILE)
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)
    warp.bar_sync()
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(2 * TILE + 8, TILE)
        warp.cp_async_bulk_tensor_shared_global(0, box(bias), (0, 0), 2 * TILE + 8)
    warp.mbarrier_wait(2 * TILE + 8, 0)
    for pair in range(16):
        row = 16 * warp.warpid + warp.laneid // 4 + 8 * (pair % 2)
        where = swizzled(row, pair // 2) + 4 * (warp.laneid % 4)
        held = warp.ld_shared(where).view(np.float16).astype(np.float32)
        total = floats(c[:, 2 * pair : 2 * pair + 2]) + held
        warp.st_shared(where, total.astype(np.float16).view(np.uint32))
    warp.fence_proxy_async()
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_tensor_global_shared(box(d), (0, 0), 0)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0, read=True)


@correct(words(4096, 4096), lambda a: a + 1, shared=4096)
def stores_leave_through_two_buffers(warp, a, d):
    """CUTLASS's store pipeline: before a buffer is used again wait_group.read leaves one group, then a barrier."""
    for step in range(8):
        buffer = 2048 * (step % 2)
        held = warp.ld_global(a + 2048 * step + 16 * warp.threads, "v4.b32")
        if step >= 2:
            with leader(warp):
                warp.cp_async_bulk_wait_group(1, read=True)
            warp.bar_sync()
        warp.st_shared(buffer + 16 * warp.threads, held + 1, "v4.b32")
        warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_global_shared(d + 2048 * step, buffer, 2048)
            warp.cp_async_bulk_commit_group()
    with leader(warp):
        warp.cp_async_bulk_wait_group(0)


@correct(lambda: (small(64, 64, seed=1), np.zeros((64, 64), np.float16)), lambda a: a.T, shared=2 * TILE + 8)
def a_tile_is_transposed_on_its_way_out(warp, a, d):
    """TMA load with the swizzle, ldmatrix, stmatrix.trans into another tile, TMA store."""
    init(warp, {2 * TILE: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(2 * TILE, TILE)
        warp.cp_async_bulk_tensor_shared_global(0, box(a), (0, 0), 2 * TILE)
    warp.mbarrier_wait(2 * TILE, 0)
    for part in range(4):
        row, unit = 16 * warp.warpid + warp.laneid % 16, 2 * part + warp.laneid // 16
        held = warp.run(LDMATRIX, swizzled(row, unit))
        across, down = 2 * warp.warpid + warp.laneid // 8 % 2, 16 * part + 8 * (warp.laneid // 16) + warp.laneid % 8
        warp.run(STMATRIX_T, TILE + swizzled(down, across), held)
    warp.fence_proxy_async()
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_tensor_global_shared(box(d), (0, 0), TILE)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@correct(matrices(64, 64, 64), product, block=160, shared=16384 + 16)
def the_last_bulk_store_is_waited_for_by_its_own_warp(warp, a, b, d):
    """A warp for stores only: consumers arrive at an mbarrier behind their fence, it waits, stores and waits .read."""
    init(warp, {16384: 128})
    if warp.warpid == 4:
        warp.mbarrier_wait(16384, 0)
        with one(warp):
            warp.cp_async_bulk_global_shared(d + 0, 0, 16384)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0, read=True)
        return
    total = np.zeros((32, 32), np.float32)
    row, column = warp.threads // 2, 32 * (warp.threads % 2)
    held = np.stack([np.asarray(warp.ld_global(a.at(row, k), "u16"))[:, 0] for k in range(64)], 1)
    held = held.astype(np.uint16).view(np.float16).astype(np.float32)
    for n in range(32):
        for k in range(0, 64, 8):
            other = warp.ld_global(b.at(column + n, k), "v4.b32").view(np.float16).astype(np.float32)
            total[:, n] += (held[:, k : k + 8] * other).sum(axis=1)
    for part in range(8):
        warp.st_shared(256 * row + 4 * column + 16 * part, total[:, 4 * part : 4 * part + 4], "v4.b32")
    warp.fence_proxy_async()
    warp.mbarrier_arrive(16384)


# ------------------------------------------------------------------------------------------------ bulk copies


@correct(words(1024, 1024), lambda a: a + 1, grid=2, block=128, shared=2048 + 8)
def one_dimension_there_and_back(warp, a, d):
    """CUDA programming guide: a bulk load, one is added, the fence, a barrier, a bulk store, wait_group.read."""
    start = 2048 * warp.ctaid[0]
    with leader(warp):
        warp.mbarrier_init(2048, 128)
        warp.fence_proxy_async()
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_shared_global(0, a + start, 2048, 2048)
        warp.mbarrier_arrive_expect_tx(2048, 2048)
    with warp.only(warp.threads != 0):
        warp.mbarrier_arrive(2048)
    warp.mbarrier_wait(2048, 0)
    for part in range(4):
        where = 512 * part + 4 * warp.threads
        warp.st_shared(where, warp.ld_shared(where) + 1)
    warp.fence_proxy_async()
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_global_shared(d + start, 0, 2048)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0, read=True)


@correct(words(512, 512), lambda a: a * 2, block=32, shared=1024 + 16)
def one_warp_streams_through_two_buffers(warp, a, d):
    """Each buffer has an mbarrier; the next load is begun as soon as the buffer was read, behind bar.warp.sync."""
    with one(warp):
        for buffer in range(2):
            warp.mbarrier_init(1024 + 8 * buffer, 1)
        warp.fence_mbarrier_init()
    warp.bar_warp_sync()

    def begin(step):
        with one(warp):
            warp.mbarrier_arrive_expect_tx(1024 + 8 * (step % 2), 512)
            warp.cp_async_bulk_shared_global(512 * (step % 2), a + 512 * step, 512, 1024 + 8 * (step % 2))

    begin(0)
    for step in range(4):
        if step < 3:
            begin(step + 1)
        warp.mbarrier_wait(1024 + 8 * (step % 2), step // 2 % 2)
        held = warp.ld_shared(512 * (step % 2) + 16 * warp.laneid, "v4.b32")
        warp.bar_warp_sync()
        warp.st_global(d + 512 * step + 16 * warp.laneid, held * 2, "v4.b32")


@correct(words(1024, 1024), lambda a: a.reshape(4, 16, 16).transpose(0, 2, 1).ravel(), block=64, shared=4096 + 8)
def every_lane_arms_for_its_own_row(warp, a, d):
    """64 threads each expect and copy one row of 64 bytes; the mbarrier counts 64 arrivals."""
    with leader(warp):
        warp.mbarrier_init(4096, 64)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    warp.mbarrier_arrive_expect_tx(4096, 64)
    warp.cp_async_bulk_shared_global(64 * warp.threads, a + 64 * warp.threads, 64, 4096)
    warp.mbarrier_wait(4096, 0)
    for column in range(16):
        where = 64 * (16 * (warp.threads // 16) + column) + 4 * (warp.threads % 16)
        warp.st_global(d.at(16 * warp.threads + column), warp.ld_shared(where))


@correct(
    lambda: (small(4, 20, 24, dtype=np.float32), np.zeros((4, 8, 8), np.float32)),
    lambda a: np.pad(a, ((0, 0), (0, 4), (0, 4)))[:, 16:24, 20:28],
    block=64,
    shared=1024 + 8,
)
def boxes_of_three_dimensions_at_the_edge(warp, a, d):
    """A box that hangs over two edges: zeros fill the part outside, and the box's bytes are counted in full."""
    with leader(warp):
        warp.mbarrier_init(1024, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    described = TensorMap.of(a, (8, 8, 4))
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(1024, described.bytes)
        warp.cp_async_bulk_tensor_shared_global(0, described, (20, 16, 0), 1024)
    warp.mbarrier_wait(1024, 0)
    warp.st_global(d + 16 * warp.threads, warp.ld_shared(16 * warp.threads, "v4.b32"), "v4.b32")


@correct(words(256, 128), lambda a: a[:128] + a[128:], shared=1024 + 8)
def an_mbarrier_that_is_made_anew_for_another_count(warp, a, d):
    """inval behind a barrier, init with another count, fence and barrier again."""
    for half, count in enumerate((1, 128)):
        init(warp, {1024: count})
        with leader(warp):
            warp.mbarrier_expect_tx(1024, 512)
            warp.cp_async_bulk_shared_global(512 * half, a + 512 * half, 512, 1024)
            if count == 1:
                warp.mbarrier_arrive(1024)
        if count == 128:
            warp.mbarrier_arrive(1024)
        warp.mbarrier_wait(1024, 0)
        warp.bar_sync()
        with leader(warp):
            warp.mbarrier_inval(1024)
        warp.bar_sync()
    total = warp.ld_shared(4 * warp.threads) + warp.ld_shared(512 + 4 * warp.threads)
    warp.st_global(d.at(warp.threads), total)


@correct(words(2048, 2048), lambda a: a[::-1], block=96, shared=4 * 2048 + 64)
def two_streams_of_a_producer_to_consumers_of_their_own(warp, a, d):
    """A producer warp serves two consumer warps, each with its ring of two buffers; neither waits for the other."""
    full, empty = 8192, 8224
    init(warp, {full + 8 * ring: 1 for ring in range(4)} | {empty + 8 * ring: 32 for ring in range(4)})
    if warp.warpid == 2:
        with one(warp):
            for step in range(4):
                for who in range(2):
                    slot = 2 * who + step % 2
                    warp.mbarrier_wait(empty + 8 * slot, (step // 2 + 1) % 2)
                    warp.mbarrier_arrive_expect_tx(full + 8 * slot, 1024)
                    warp.cp_async_bulk_shared_global(2048 * slot, a + 1024 * (2 * step + who), 1024, full + 8 * slot)
        return
    for step in range(4):
        slot = 2 * warp.warpid + step % 2
        warp.mbarrier_wait(full + 8 * slot, step // 2 % 2)
        held = [warp.ld_shared(2048 * slot + 128 * part + 4 * warp.laneid) for part in range(8)]
        warp.mbarrier_arrive(empty + 8 * slot)
        for part in range(8):
            place = 256 * (2 * step + warp.warpid) + 32 * part + warp.laneid
            warp.st_global(d.at(2047 - place), held[part])
