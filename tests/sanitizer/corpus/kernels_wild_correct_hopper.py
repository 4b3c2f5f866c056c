"""Correct kernels in the wild, on Hopper: producers and consumers."""

import numpy as np
from kernels_wild_correct_wgmma import STMATRIX, TILE, WGMMA, box, init, multiply, store, swizzled
from kernels_wild_table import bits, correct, floats, leader, matrices, one, product, small

from tcemu.layouts import Descriptor

# ------------------------------------------------------------------------------------------------ producers, consumers


@correct(matrices(256, 64, 192), product, grid=2, block=384, shared=6 * TILE + 48)
def cooperative_and_persistent(warp, a, b, d):
    """CUTLASS cooperative: a producer warpgroup, two consumers that share each tile of 128 rows, two stages.

    A block walks over its tiles; the stages' count goes on from tile to tile. A group stays under way; the stage of the
    group before is released by one thread of each consumer warp.
    """
    stage_bytes, full = 3 * TILE, 6 * TILE
    empty = full + 16
    init(warp, {full: 1, full + 8: 1, empty: 8, empty + 8: 8})
    step = 0
    tiles = range(warp.ctaid[0], 2, warp.nctaid[0])
    if warp.warpgroup == 0:
        warp.setmaxnreg("dec", 24)
        with leader(warp):
            for number in tiles:
                for k in range(3):
                    stage, turn = step % 2, step // 2
                    step += 1
                    warp.mbarrier_wait(empty + 8 * stage, (turn + 1) % 2)
                    warp.mbarrier_arrive_expect_tx(full + 8 * stage, stage_bytes)
                    to = stage_bytes * stage
                    warp.cp_async_bulk_tensor_shared_global(to, box(a, 128), (64 * k, 128 * number), full + 8 * stage)
                    warp.cp_async_bulk_tensor_shared_global(to + 2 * TILE, box(b), (64 * k, 0), full + 8 * stage)
        return
    warp.setmaxnreg("inc", 240)
    mine = warp.warpgroup - 1
    c = warp.registers(32)
    for number in tiles:
        for k in range(3):
            stage, turn = step % 2, step // 2
            step += 1
            warp.mbarrier_wait(full + 8 * stage, turn % 2)
            warp.wgmma_fence()
            first = stage_bytes * stage
            multiply(warp, c, first + TILE * mine, first + 2 * TILE, first=k == 0)
            warp.wgmma_commit_group()
            if k:
                warp.wgmma_wait_group(1)
                with one(warp):
                    warp.mbarrier_arrive(empty + 8 * (1 - stage))
        warp.wgmma_wait_group(0)
        with one(warp):
            warp.mbarrier_arrive(empty + 8 * stage)
        store(warp, d, 128 * number + 64 * mine, 0, c)


@correct(matrices(256, 64, 128, out=np.float16), product, block=384, shared=8 * TILE + 64)
def ping_pong_with_a_tensor_store(warp, a, b, d):
    """CUTLASS ping-pong: consumers take tiles in turn, and in turn the tensor cores and the epilogue: named barriers.

    Each has a buffer for its tile: stmatrix, fence.proxy.async, a barrier of the warpgroup, one thread stores by TMA
    and waits with .read before the buffer is written again.
    """
    full, empty, out = 8 * TILE, 8 * TILE + 16, 4 * TILE
    init(warp, {full: 1, full + 8: 1, empty: 1, empty + 8: 1})
    if warp.warpgroup == 0:
        with leader(warp):
            for step in range(8):
                stage, turn = step % 2, step // 2
                warp.mbarrier_wait(empty + 8 * stage, (turn + 1) % 2)
                warp.mbarrier_arrive_expect_tx(full + 8 * stage, 2 * TILE)
                for part, (matrix, row) in enumerate(((a, 64 * (step // 2)), (b, 0))):
                    to = TILE * (2 * stage + part)
                    warp.cp_async_bulk_tensor_shared_global(to, box(matrix), (64 * (step % 2), row), full + 8 * stage)
        return
    mine = warp.warpgroup - 1
    order, group = 1, 5  # named barriers 1 and 2 give the order of the mainloops, 3 and 4 of the epilogues
    c, buffer = warp.registers(32), out + TILE * mine
    if mine:  # the first consumer begins, in both
        warp.bar_arrive(order, 256)
        warp.bar_arrive(order + 2, 256)
    for number in range(mine, 4, 2):
        warp.bar_sync(order + mine, 256)
        for k in range(2):
            step = 2 * number + k
            stage, turn = step % 2, step // 2
            warp.mbarrier_wait(full + 8 * stage, turn % 2)
            warp.wgmma_fence()
            multiply(warp, c, 2 * TILE * stage, 2 * TILE * stage + TILE, first=k == 0)
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(0)
            with leader(warp, 128 * warp.warpgroup):
                warp.mbarrier_arrive(empty + 8 * stage)
        if number != 3:
            warp.bar_arrive(order + 1 - mine, 256)
        warp.bar_sync(order + 2 + mine, 256)
        with leader(warp, 128 * warp.warpgroup):
            warp.cp_async_bulk_wait_group(0, read=True)
        warp.bar_sync(group + mine, 128)
        packed = floats(c).astype(np.float16).view(np.uint32)
        for part in range(4):  # 16 columns: two pairs of registers, each one matrix of 8 x 8
            row = 16 * (warp.warpid % 4) + warp.laneid % 16
            warp.run(STMATRIX, buffer + swizzled(row, 2 * part + warp.laneid // 16), packed[:, 4 * part : 4 * part + 4])
        warp.fence_proxy_async("shared::cta")
        warp.bar_sync(group + mine, 128)
        with leader(warp, 128 * warp.warpgroup):
            warp.cp_async_bulk_tensor_global_shared(box(d), (0, 64 * number), buffer)
            warp.cp_async_bulk_commit_group()
        if number != 3:
            warp.bar_arrive(order + 2 + 1 - mine, 256)
    with leader(warp, 128 * warp.warpgroup):
        warp.cp_async_bulk_wait_group(0)


@correct(matrices(128, 64, 256), product, block=384, shared=6 * TILE + 32)
def everybody_arrives_at_full_and_empty(warp, a, b, d):
    """fast.cu with cuda::barrier: waiting is arriving and waiting, so the counts have the waiters in them too."""
    full, empty = 6 * TILE, 6 * TILE + 16
    init(warp, {full: 257, full + 8: 257, empty: 257, empty + 8: 257})
    if warp.warpgroup == 0:
        with leader(warp):
            for step in range(4):
                stage, parity = step % 2, step // 2 % 2
                warp.mbarrier_arrive(empty + 8 * stage)
                warp.mbarrier_wait(empty + 8 * stage, parity)
                for part, matrix in enumerate((a, b)):
                    rows = 64 * (2 - part)
                    to = TILE * (3 * stage + 2 * part)
                    warp.cp_async_bulk_tensor_shared_global(to, box(matrix, rows), (64 * step, 0), full + 8 * stage)
                warp.mbarrier_arrive_expect_tx(full + 8 * stage, 3 * TILE)
        return
    for stage in range(2):
        warp.mbarrier_arrive(empty + 8 * stage)
    mine = warp.warpgroup - 1
    c = warp.registers(32, fill=0)
    for step in range(4):
        stage, parity = step % 2, step // 2 % 2
        warp.mbarrier_arrive(full + 8 * stage)
        warp.mbarrier_wait(full + 8 * stage, parity)
        warp.wgmma_fence()
        multiply(warp, c, TILE * (3 * stage + mine), TILE * (3 * stage + 2))
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        warp.mbarrier_arrive(empty + 8 * stage)
    store(warp, d, 64 * mine, 0, c)


@correct(matrices(64, 64, 256), product, block=256, shared=4 * TILE + 32)
def one_producer_warp_of_four_and_two_armed_barriers(warp, a, b, d):
    """ThunderKittens: warps 1 to 3 of the producer's warpgroup leave at once; A and B have an mbarrier each."""
    full, empty = 4 * TILE, 4 * TILE + 16
    init(warp, {full: 1, full + 8: 1, empty: 1}, thread=128)
    if warp.warpgroup == 0:
        if warp.warpid == 0:
            with one(warp):
                for step in range(4):
                    if step:
                        warp.mbarrier_wait(empty, (step - 1) % 2)
                    for part, matrix in enumerate((a, b)):
                        warp.mbarrier_expect_tx(full + 8 * part, TILE)
                        warp.mbarrier_arrive(full + 8 * part)
                        to = TILE * (2 * (step % 2) + part)
                        warp.cp_async_bulk_tensor_shared_global(to, box(matrix), (64 * step, 0), full + 8 * part)
        return
    c = warp.registers(32, fill=0)
    for step in range(4):
        warp.mbarrier_wait(full, step % 2)
        warp.mbarrier_wait(full + 8, step % 2)
        warp.wgmma_fence()
        multiply(warp, c, 2 * TILE * (step % 2), 2 * TILE * (step % 2) + TILE)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        with leader(warp, 128):
            warp.mbarrier_arrive(empty)
    store(warp, d, 0, 0, c)


@correct(matrices(64, 64, 256), product, block=192, shared=4 * TILE + 32)
def a_producer_warp_for_each_operand(warp, a, b, d):
    """Two warps arm the same mbarrier of two arrivals, each with the bytes of its own copy."""
    full, empty = 4 * TILE, 4 * TILE + 16
    init(warp, {full: 2, full + 8: 2, empty: 4, empty + 8: 4})
    if warp.warpid >= 4:
        part = warp.warpid - 4
        with one(warp):
            for step in range(4):
                stage, turn = step % 2, step // 2
                warp.mbarrier_wait(empty + 8 * stage, (turn + 1) % 2)
                warp.mbarrier_arrive_expect_tx(full + 8 * stage, TILE)
                to = TILE * (2 * stage + part)
                warp.cp_async_bulk_tensor_shared_global(to, box((a, b)[part]), (64 * step, 0), full + 8 * stage)
        return
    c = warp.registers(32, fill=0)
    for step in range(4):
        stage, turn = step % 2, step // 2
        while not warp.mbarrier_test_wait(full + 8 * stage, turn % 2):
            pass
        warp.wgmma_fence()
        multiply(warp, c, 2 * TILE * stage, 2 * TILE * stage + TILE)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        with warp.only(warp.laneid == 0):
            warp.mbarrier_arrive(empty + 8 * stage)
    store(warp, d, 0, 0, c)


def _ternary(q, k, v):
    scores = np.sign(q.astype(np.int64) @ k.astype(np.int64).T)
    return (scores @ v.astype(np.int64)).astype(np.float32)


@correct(
    lambda: (small(64, 64, seed=1), small(192, 64, seed=2), small(192, 64, seed=3), np.zeros((64, 64), np.float32)),
    _ternary,
    block=160,
    shared=5 * TILE + 80,
)
def attention_overlaps_the_next_scores(warp, q, k, v, o):
    """FlashAttention-3: the scores of the next block are multiplied while those of this one meet V.

    Signs take the place of the softmax, so that the sums are exact. K and V have two stages and mbarriers of their own;
    V is MN-major.
    """
    base = 5 * TILE
    full_q, full_k, full_v, empty_k, empty_v = base, base + 8, base + 24, base + 40, base + 56
    counts = {full_q: 1, **{full + 8 * stage: 1 for full in (full_k, full_v) for stage in range(2)}}
    init(warp, {**counts, **{empty + 8 * stage: 4 for empty in (empty_k, empty_v) for stage in range(2)}})
    if warp.warpid == 4:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(full_q, TILE)
            warp.cp_async_bulk_tensor_shared_global(0, box(q), (0, 0), full_q)
            for step in range(3):
                stage, turn = step % 2, step // 2
                for matrix, first, full, empty in ((k, TILE, full_k, empty_k), (v, 3 * TILE, full_v, empty_v)):
                    warp.mbarrier_wait(empty + 8 * stage, (turn + 1) % 2)
                    warp.mbarrier_arrive_expect_tx(full + 8 * stage, TILE)
                    to = first + TILE * stage
                    warp.cp_async_bulk_tensor_shared_global(to, box(matrix), (0, 64 * step), full + 8 * stage)
        return

    def scores_of(step):
        s = warp.registers(32)
        warp.mbarrier_wait(full_k + 8 * (step % 2), step // 2 % 2)
        warp.wgmma_fence()
        multiply(warp, s, 0, TILE * (1 + step % 2), first=True)
        warp.wgmma_commit_group()
        return s

    def signs(s):
        """The accumulator as A of four k-steps, in separate registers."""
        p = [warp.registers(4) for _ in range(4)]
        packed = np.sign(floats(s)).astype(np.float16).view(np.uint32)
        for part in range(4):
            p[part][...] = packed[:, 4 * part : 4 * part + 4]
        return p

    def release(empty, step):
        with one(warp):
            warp.mbarrier_arrive(empty + 8 * (step % 2))

    warp.mbarrier_wait(full_q, 0)
    s = scores_of(0)
    warp.wgmma_wait_group(0)
    release(empty_k, 0)
    p = signs(s)
    out = warp.registers(32, fill=0)
    for step in range(3):
        if step < 2:
            s = scores_of(step + 1)
        warp.mbarrier_wait(full_v + 8 * (step % 2), step // 2 % 2)
        there = Descriptor.for_tile("f16", 64, 64, major="MN", swizzle=128, start=TILE * (3 + step % 2))
        warp.wgmma_fence()
        for part in range(4):
            warp.run(WGMMA, out, p[part], there.advance("f16", k=16 * part, major="MN"), True, 1, 1, 1)
        warp.wgmma_commit_group()
        if step < 2:
            warp.wgmma_wait_group(1)  # the scores are there, P V is under way
            release(empty_k, step + 1)
            ahead = signs(s)
        warp.wgmma_wait_group(0)
        release(empty_v, step)
        if step < 2:
            p = ahead
    store(warp, o, 0, 0, out)


@correct(matrices(64, 64, 512), product, block=256, shared=4 * TILE)
def two_warpgroups_split_k(warp, a, b, d):
    """Each takes half of K with stages of its own; one hands its sum over through shared memory where tiles were."""
    t, mine = warp.threads % 128, warp.warpgroup
    first = 2 * TILE * mine
    c = warp.registers(32, fill=0)
    for step in range(4):
        for part, matrix in enumerate((a, b)):
            for quarter in range(4):
                unit = t + 128 * quarter
                row, column = unit // 8, unit % 8
                value = warp.ld_global(matrix.at(row, 64 * (4 * mine + step) + 8 * column), "v4.b32")
                warp.st_shared(first + TILE * part + swizzled(row, column), value, "v4.b32")
        warp.fence_proxy_async()
        warp.bar_sync(1 + mine, 128)
        warp.wgmma_fence()
        multiply(warp, c, first, first + TILE)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
        warp.bar_sync(1 + mine, 128)
    if mine == 1:
        for part in range(8):
            warp.st_shared(2 * TILE + 2048 * part + 16 * t, c[:, 4 * part : 4 * part + 4], "v4.b32")
        warp.bar_arrive(3, 256)
        return
    warp.bar_sync(3, 256)
    total = floats(c)
    for part in range(8):
        total[:, 4 * part : 4 * part + 4] += floats(warp.ld_shared(2 * TILE + 2048 * part + 16 * t, "v4.b32"))
    store(warp, d, 0, 0, bits(total))
