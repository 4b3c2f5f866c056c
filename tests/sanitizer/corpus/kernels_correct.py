"""Kernels that are correct, in the ways that real ones are written: the sanitizer has nothing to say about them."""

import numpy as np
from kernels_faulty_copies import EMPTY, FULL, LDMATRIX, STAGES, consume, pipeline, produce, release
from kernels_faulty_wgmma import OTHER
from kernels_table import IMMEDIATES, MMA, barrier, correct, fill, finish, load, mma, one, ready, tiles

from tcemu.machine.tensor_map import TensorMap

# ------------------------------------------------------------------------------------------------ wgmma, stores


@correct()
def stores_fence_barrier_wgmma(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")


@correct()
def all_registers_in_one_bank(warp, g):
    """As a front end for PTX text has them: registers that an mma_async does not use may change at any time."""
    bank = warp.registers(12).bank
    d, a, other, scratch = (bank.view(range(first, first + count)) for first, count in ((0, 4), (4, 4), (8, 4), (8, 1)))
    ready(warp)
    d[...] = a[...] = 0
    warp.wgmma_fence()
    scratch[...] = 5
    warp.run(MMA, d, *tiles(), 1, *IMMEDIATES)
    warp.st_global(g + 4 * warp.threads, scratch)
    warp.run(MMA, d, a, tiles()[1], 1, 1, 1, 0)
    scratch[...] = 6
    finish(warp)
    other[...] = 0
    warp.wgmma_fence()
    warp.run(OTHER, other, *tiles(), 1, 1, 1)
    warp.run(MMA, d, *tiles(), 1, *IMMEDIATES)
    finish(warp)
    warp.st_global(g + 512 + 16 * warp.threads, d, "v4.b32")


@correct()
def one_buffer_in_a_loop(warp, g):
    d = warp.registers(4, fill=0)
    for _ in range(3):
        ready(warp)
        warp.wgmma_fence()
        mma(warp, d)
        finish(warp)
        warp.bar_sync()


@correct()
def two_buffers_and_a_group_under_way(warp, g):
    """The barrier in front of a step's wgmma shows that everybody has waited for the step before the last."""
    d = warp.registers(4, fill=0)
    for step in range(5):
        ready(warp, step % 2)
        warp.wgmma_fence()
        mma(warp, d, step % 2)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(0)
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")


@correct()
def a_fence_before_every_batch(warp, g):
    """As CUTLASS does, though the accumulator is not touched."""
    for stage in range(2):
        fill(warp, stage)
    warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    warp.wgmma_commit_group()
    for step in range(4):
        warp.wgmma_fence()
        for _ in range(2):
            mma(warp, d, step % 2)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
    warp.wgmma_wait_group(0)
    d[...] = d.copy()


@correct()
def the_first_mma_does_not_read_d(warp, g):
    ready(warp)
    d = warp.registers(4)
    warp.wgmma_fence()
    for step in range(2):
        warp.run(MMA, d, *tiles(), step, *IMMEDIATES)
    finish(warp)
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")


@correct()
def accumulator_scaled_between_groups(warp, g):
    """As in attention: wait, scale, fence, continue."""
    ready(warp)
    d = warp.registers(4, fill=0)
    for _ in range(3):
        warp.wgmma_fence()
        mma(warp, d)
        finish(warp)
        d[...] = (d.view(np.float32) * np.float32(0.5)).view(np.uint32)


@correct()
def a_in_registers_two_at_a_time(warp, g):
    """While one mma_async is pending, A of the next is loaded into other registers."""
    ready(warp)
    d, b = warp.registers(4, fill=0), tiles()[1]
    row = 16 * (warp.threads % 128)
    held = [warp.ld_shared(row, "v4.b32"), None]
    for step in range(4):
        warp.wgmma_fence()
        warp.run(MMA, d, held[step % 2], b, 1, 1, 1, 0)
        warp.wgmma_commit_group()
        held[(step + 1) % 2] = warp.ld_shared(row, "v4.b32")
        warp.wgmma_wait_group(0)


@correct()
def two_accumulators_the_older_is_read(warp, g):
    ready(warp)
    both = [warp.registers(4, fill=0) for _ in range(2)]
    warp.wgmma_fence()
    for d in both:
        mma(warp, d)
        warp.wgmma_commit_group()
    warp.wgmma_wait_group(1)
    warp.st_global(g + 16 * warp.threads, both[0], "v4.b32")
    warp.wgmma_wait_group(0)
    warp.st_global(g + 2048 + 16 * warp.threads, both[1], "v4.b32")


@correct(block=256)
def two_warpgroups_with_a_tile_each(warp, g):
    if warp.warpid < 4:
        fill(warp)
    else:
        warp.st_shared(4096 + 16 * (warp.threads - 128), 0, "v4.b32")
        with warp.only(warp.threads < 144):
            warp.st_shared(6144 + 16 * (warp.threads - 128), 0, "v4.b32")
    warp.fence_proxy_async()
    warp.bar_sync(1 + warp.warpgroup, 128)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d, warp.warpgroup)
    finish(warp)


@correct(block=256)
def ordinary_stores_by_a_producer_warpgroup(warp, g):
    """Full and empty as named barriers: the producer arrives at one and waits at the other."""
    if warp.warpgroup == 1:
        for step in range(3):
            if step:
                warp.bar_sync(2, 256)
            at = 16 * (warp.threads - 128)
            warp.st_shared(at, step, "v4.b32")
            with warp.only(at < 256):
                warp.st_shared(2048 + at, step, "v4.b32")
            warp.fence_proxy_async()
            warp.bar_arrive(1, 256)
        return
    d = warp.registers(4, fill=0)
    for step in range(3):
        warp.bar_sync(1, 256)
        warp.wgmma_fence()
        mma(warp, d)
        finish(warp)
        if step < 2:
            warp.bar_arrive(2, 256)


@correct(block=256, shared=4112)
def ordinary_stores_announced_by_an_mbarrier(warp, g):
    barrier(warp, 4096, 4104, count=128)
    if warp.warpgroup == 1:
        at = 16 * (warp.threads - 128)
        for step in range(3):
            warp.mbarrier_wait(4104, (step + 1) % 2)
            warp.st_shared(at, step, "v4.b32")
            with warp.only(at < 256):
                warp.st_shared(2048 + at, step, "v4.b32")
            warp.fence_proxy_async()
            warp.mbarrier_arrive(4096)
        return
    d = warp.registers(4, fill=0)
    for step in range(3):
        warp.mbarrier_wait(4096, step % 2)
        warp.wgmma_fence()
        mma(warp, d)
        finish(warp)
        warp.mbarrier_arrive(4104)


# ------------------------------------------------------------------------------------------------ bulk copies


@correct(shared=4112)
def one_tile_by_tma(warp, g):
    barrier(warp, 4096)
    if warp.warpid == 0:
        load(warp, 0, g, 2304, 4096)
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)


@correct(block=160, **STAGES)
def a_producer_warp_and_a_consumer_warpgroup(warp, g):
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 6)
    else:
        consume(warp, 6)


@correct(block=160, **STAGES)
def one_lane_of_the_producer_waits_too(warp, g):
    pipeline(warp)
    if warp.warpid < 4:
        consume(warp, 6)
        return
    with one(warp):
        for step in range(6):
            stage = step % 2
            warp.mbarrier_wait(EMPTY + 8 * stage, (step // 2 + 1) % 2)
            warp.mbarrier_expect_tx(FULL + 8 * stage, 2304)
            warp.cp_async_bulk_shared_global(4096 * stage, g, 2048, FULL + 8 * stage)
            warp.cp_async_bulk_shared_global(4096 * stage + 2048, g, 256, FULL + 8 * stage)
            warp.mbarrier_arrive(FULL + 8 * stage)


@correct(block=160, **STAGES)
def the_stage_before_is_released(warp, g):
    """One group stays pending, so the released stage is that of the previous step."""
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 6)
        return
    d = warp.registers(4, fill=0)
    for step in range(6):
        warp.mbarrier_wait(FULL + 8 * (step % 2), step // 2 % 2)
        warp.wgmma_fence()
        mma(warp, d, step % 2)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
        if step:
            release(warp, (step - 1) % 2)
    warp.wgmma_wait_group(0)


@correct(block=160, **STAGES)
def a_consumer_that_loads_with_ldmatrix(warp, g):
    """Every warp reads the stage with ldmatrix and multiplies; then one of its lanes releases it."""
    pipeline(warp)
    if warp.warpid == 4:
        produce(warp, g, 6)
        return
    d = warp.registers(4, fill=0)
    for step in range(6):
        stage = step % 2
        warp.mbarrier_wait(FULL + 8 * stage, step // 2 % 2)
        a = warp.run(LDMATRIX, 4096 * stage + 16 * warp.threads)
        b = warp.ld_shared(4096 * stage + 2048 + 8 * warp.laneid, "v2.b32")
        d = warp.run("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, d)
        release(warp, stage)


@correct(block=160, **STAGES)
def one_warp_waits_and_the_barrier_tells_the_others(warp, g):
    barrier(warp, FULL)
    for step in range(2):
        if warp.warpid == 4:
            load(warp, 0, g, 2304, FULL)
            warp.mbarrier_wait(FULL, step)
        warp.bar_sync()
        if warp.warpid < 4:
            warp.ld_shared(16 * warp.threads, "v4.b32")
        warp.bar_sync()


@correct()
def results_leave_by_a_bulk_store(warp, g):
    """Store, fence, barrier, one lane copies and waits for the reading, barrier, and again."""
    for step in range(3):
        warp.st_shared(16 * warp.threads, step, "v4.b32")
        warp.fence_proxy_async()
        warp.bar_sync()
        if warp.warpid == 0:
            with one(warp):
                warp.cp_async_bulk_global_shared(g + 2048 * step, 0, 2048)
                warp.cp_async_bulk_commit_group()
                warp.cp_async_bulk_wait_group(0, read=True)
        warp.bar_sync()


@correct()
def two_buffers_leave_by_bulk_stores(warp, g):
    for step in range(5):
        if warp.warpid == 0:
            warp.cp_async_bulk_wait_group(1, read=True)
        warp.bar_sync()
        warp.st_shared(2048 * (step % 2) + 16 * warp.threads, step, "v4.b32")
        warp.fence_proxy_async()
        warp.bar_sync()
        if warp.warpid == 0:
            with one(warp):
                warp.cp_async_bulk_global_shared(g + 2048 * step, 2048 * (step % 2), 2048)
            warp.cp_async_bulk_commit_group()
    warp.cp_async_bulk_wait_group(0)


@correct(block=64, shared=4112)
def boxes_of_a_tensor_in_and_out(warp, g):
    """A box at the edge: elements outside are filled with zeros, and their bytes are counted all the same."""
    g = type(g)(int(g), np.dtype(np.float16), (16, 16))
    barrier(warp, 4096)
    box = TensorMap.of(g, (16, 16))
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(4096, box.bytes)
            warp.cp_async_bulk_tensor_shared_global(0, box, (8, 8), 4096)
    warp.mbarrier_wait(4096, 0)
    x = warp.ld_shared(8 * warp.threads, "v2.b32")
    warp.st_shared(1024 + 8 * warp.threads, x, "v2.b32")
    warp.fence_proxy_async()
    warp.bar_sync()
    if warp.warpid == 1:
        with one(warp):
            warp.cp_async_bulk_tensor_global_shared(box, (8, 8), 1024)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)


# ------------------------------------------------------------------------------------------------ cp.async


@correct()
def cp_async_in_two_stages(warp, g):
    for step in range(5):
        if step < 4:
            warp.cp_async(2048 * (step % 2) + 16 * warp.threads, g + 16 * warp.threads, 16)
        warp.cp_async_commit_group()
        if step:
            warp.cp_async_wait_group(1)
            warp.bar_sync()
            warp.run(LDMATRIX, 2048 * ((step - 1) % 2) + 16 * warp.threads)
            warp.bar_sync()


@correct(shared=16384)
def cp_async_in_four_stages_with_one_barrier(warp, g):
    """The barrier of a step shows too that the stage, which is filled next, has been read."""
    for stage in range(3):
        warp.cp_async(2048 * stage + 16 * warp.threads, g + 16 * warp.threads, 16)
        warp.cp_async_commit_group()
    for step in range(8):
        warp.cp_async_wait_group(2)
        warp.bar_sync()
        warp.run(LDMATRIX, 2048 * (step % 4) + 16 * (warp.threads ^ 96))
        if step < 5:
            warp.cp_async(2048 * ((step + 3) % 4) + 16 * warp.threads, g + 16 * warp.threads, 16)
        warp.cp_async_commit_group()


@correct()
def cp_async_feeds_wgmma(warp, g):
    warp.cp_async(16 * warp.threads, g + 16 * warp.threads, 16)
    with warp.only(warp.threads < 16):
        warp.cp_async(2048 + 16 * warp.threads, g + 16 * warp.threads, 16)
    warp.cp_async_wait_all()
    warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)


@correct(block=64)
def cp_async_announced_by_an_mbarrier(warp, g):
    barrier(warp, 1024, 1032, count=32)
    for step in range(4):
        if warp.warpid == 0:
            warp.mbarrier_wait(1032, (step + 1) % 2)
            warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16)
            warp.cp_async_mbarrier_arrive(1024, noinc=True)
        else:
            warp.mbarrier_wait(1024, step % 2)
            warp.ld_shared(496 - 16 * warp.laneid, "v4.b32")
            warp.mbarrier_arrive(1032)


@correct(block=32)
def each_lane_reads_what_it_copied(warp, g):
    for step in range(3):
        warp.cp_async(16 * warp.laneid, g + 512 * step + 16 * warp.laneid, 16)
        warp.cp_async_wait_all()
        warp.ld_shared(16 * warp.laneid, "v4.b32")


# ------------------------------------------------------------------------------------------------ loads and stores


@correct(block=64)
def a_sum_in_a_tree(warp, g):
    warp.st_shared(4 * warp.threads, warp.threads)
    warp.bar_sync()
    width = 32
    while width:
        with warp.only(warp.threads < width):
            x = warp.ld_shared(4 * warp.threads)
            y = warp.ld_shared(4 * (warp.threads + width))
            warp.st_shared(4 * warp.threads, x + y)
        warp.bar_sync()
        width //= 2
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.st_global(g, warp.ld_shared(0))


@correct(block=64)
def each_warp_transposes_its_own(warp, g):
    base = 4096 * warp.warpid
    for step in range(2):
        for row in range(4):
            warp.st_shared(base + 128 * row + 4 * warp.laneid, step)
        warp.bar_warp_sync()
        warp.ld_shared(base + 128 * (warp.laneid % 4) + 4 * (warp.laneid // 4))
        warp.bar_warp_sync()


@correct(block=32)
def ldmatrix_and_stmatrix(warp, g):
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")
    warp.bar_warp_sync()
    a = warp.run(LDMATRIX, 16 * warp.laneid)
    warp.run("stmatrix.sync.aligned.m8n8.x4.shared.b16", 16 * warp.laneid, a)
    warp.bar_warp_sync()
    warp.st_global(g + 16 * warp.laneid, warp.ld_shared(16 * warp.laneid, "v4.b32"), "v4.b32")


@correct(block=32)
def wmma_from_shared_memory(warp, g):
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")
    warp.bar_warp_sync()
    a = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", 0, 16)
    b = warp.run("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16", 0, 16)
    c = warp.registers(8, fill=0)
    for _ in range(2):
        c = warp.run("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", a, b, c)
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32", 1024, c, 16)
    warp.bar_warp_sync()
    warp.ld_shared(1024 + 32 * warp.laneid, "v4.b32")


@correct(block=96)
def three_warps_hand_on_with_named_barriers(warp, g):
    for step in range(3):
        if step == warp.warpid:
            if step:
                warp.bar_sync(step, 64)
                warp.ld_shared(4 * (31 - warp.laneid))
                warp.bar_warp_sync()
            warp.st_shared(4 * warp.laneid, step)
            if step < 2:
                warp.bar_arrive(step + 1, 64)


@correct(block=48)
def a_warp_that_is_not_full(warp, g):
    warp.st_shared(4 * warp.threads, warp.threads)
    warp.bar_sync()
    warp.st_global(g + 4 * warp.threads, warp.ld_shared(4 * (47 - warp.threads)))


@correct(block=32)
def an_mbarrier_gives_its_bytes_back(warp, g):
    barrier(warp, 0)
    with one(warp):
        warp.mbarrier_arrive(0)
    warp.mbarrier_wait(0, 0)
    warp.bar_warp_sync()
    with one(warp):
        warp.mbarrier_inval(0)
    warp.bar_warp_sync()
    warp.st_shared(4 * warp.laneid, 1)
