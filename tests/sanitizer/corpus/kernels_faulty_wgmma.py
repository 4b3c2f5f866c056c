"""Kernels that use wgmma wrongly."""

import numpy as np
from kernels_table import IMMEDIATES, MMA, barrier, faulty, fill, finish, mma, one, ready, tiles

from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap

OTHER = "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32"
LONG = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"


# ------------------------------------------------------------------------------------------------ fences


@faulty("wgmma-fence-first")
def the_fence_comes_after_the_first_mma(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    for step in range(2):
        warp.run(MMA, d, *tiles(), step, *IMMEDIATES)  # <- reported
        warp.wgmma_fence()
    finish(warp)


@faulty("wgmma-fence-first", block=256, shared=4096)
def only_the_first_warpgroup_fences(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    if warp.warpgroup == 0:
        warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, *IMMEDIATES)  # <- reported
    finish(warp)


@faulty("wgmma-fence-touched")
def accumulator_scaled_between_two_groups(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)
    d[...] = (d.view(np.float32) * 2).view(np.uint32)
    warp.run(MMA, d, *tiles(), 1, *IMMEDIATES)  # <- reported
    finish(warp)


@faulty("wgmma-fence-touched")
def accumulator_read_between_two_groups(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")
    warp.run(MMA, d, *tiles(), 1, *IMMEDIATES)  # <- reported
    finish(warp)


@faulty("wgmma-fence-touched")
def a_registers_loaded_after_the_fence(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    a = warp.ld_shared(16 * warp.threads, "v4.b32")
    warp.run(MMA, d, a, tiles()[1], 1, 1, 1, 0)  # <- reported
    finish(warp)


@faulty("wgmma-fence-touched")
def one_register_of_a_bank_after_the_fence(warp, g):
    """All registers are one bank, as a front end for PTX text has them: only those of the instruction count."""
    bank = warp.registers(8, fill=0).bank
    ready(warp)
    warp.wgmma_fence()
    bank.view([5, 2])[...] = 1
    warp.run(MMA, bank.view(range(4)), *tiles(), 1, *IMMEDIATES)  # <- reported
    finish(warp)


@faulty("wgmma-unwaited")
def a_is_an_accumulator_of_the_same_bank(warp, g):
    bank = warp.registers(8, fill=0).bank
    ready(warp)
    warp.wgmma_fence()
    warp.run(MMA, bank.view(range(4)), *tiles(), 1, *IMMEDIATES)
    warp.run(MMA, bank.view([4, 5, 6, 7]), bank.view([0, 1, 2, 3]), tiles()[1], 1, 1, 1, 0)  # <- reported
    finish(warp)


@faulty("wgmma-fence-shape")
def another_shape_after_the_wait(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)
    warp.run(LONG, d, *tiles(), 1, 1, 1)  # <- reported
    finish(warp)


# ------------------------------------------------------------------------------------------------ waits


@faulty("wgmma-unwaited")
def accumulator_read_without_a_wait(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    warp.wgmma_commit_group()
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")  # <- reported
    warp.wgmma_wait_group(0)


@faulty("wgmma-unwaited")
def a_registers_overwritten_before_the_wait(warp, g):
    ready(warp)
    d, a = warp.registers(4, fill=0), warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, a, tiles()[1], 1, 1, 1, 0)
    warp.wgmma_commit_group()
    a[...] = 1  # <- reported
    warp.wgmma_wait_group(0)


@faulty("wgmma-unwaited")
def accumulator_becomes_a_too_early(warp, g):
    ready(warp)
    d, p = warp.registers(4, fill=0), warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, p)
    warp.wgmma_commit_group()
    warp.run(MMA, d, p, tiles()[1], 1, 1, 1, 0)  # <- reported
    finish(warp)


@faulty("wgmma-wait-weak")
def two_accumulators_and_the_younger_is_read(warp, g):
    ready(warp)
    first, second = warp.registers(4, fill=0), warp.registers(4, fill=0)
    warp.wgmma_fence()
    for d in (first, second):
        mma(warp, d)
        warp.wgmma_commit_group()
    warp.wgmma_wait_group(1)
    total = first + second  # <- reported
    warp.wgmma_wait_group(0)
    warp.st_global(g + 16 * warp.threads, total, "v4.b32")


@faulty("wgmma-wait-weak")
def a_loop_that_always_waits_for_the_group_before(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    for _ in range(3):
        warp.wgmma_fence()
        mma(warp, d)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
    d[...] = 0  # <- reported
    warp.wgmma_wait_group(0)


@faulty("wgmma-uncommitted")
def waited_without_a_commit(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    warp.wgmma_wait_group(0)
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")  # <- reported


@faulty("wgmma-uncommitted")
def commit_in_front_of_the_mma(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.wgmma_commit_group()
    mma(warp, d)
    warp.wgmma_wait_group(0)
    d[...] = 0  # <- reported


# ------------------------------------------------------------------------------------------------ the warpgroup


@faulty("wgmma-descriptors")
def each_warp_its_own_rows_of_a(warp, g):
    fill(warp)
    fill(warp, 1)
    warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    a = Descriptor.for_tile("f16", 64, 16, swizzle=0, start=4096 if warp.warpid == 3 else 0)
    warp.wgmma_fence()
    warp.run(MMA, d, a, tiles()[1], 1, *IMMEDIATES)  # <- reported
    finish(warp)


@faulty("warpgroup-start", block=256)
def warps_2_to_5_as_a_warpgroup(warp, g):
    fill(warp)
    warp.fence_proxy_async()
    warp.bar_sync()
    if 2 <= warp.warpid < 6:
        d = warp.registers(4, fill=0)
        warp.wgmma_fence()  # <- reported
        mma(warp, d)
        finish(warp)


@faulty("warpgroup-start", block=160)
def a_producer_in_front_of_the_consumers(warp, g):
    if warp.warpid == 0:
        for part in range(4):
            warp.st_shared(512 * part + 16 * warp.laneid, 0, "v4.b32")
        warp.st_shared(2048 + 8 * warp.laneid, 0, "v2.b32")
        warp.fence_proxy_async()
    warp.bar_sync()
    if warp.warpid > 0:
        d = warp.registers(4, fill=0)
        warp.wgmma_fence()  # <- reported
        mma(warp, d)
        finish(warp)


@faulty("warpgroup-divergent")
def one_warp_multiplies_something_else(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    opcode = OTHER if warp.warpid == 2 else MMA
    warp.run(opcode, d, *tiles(), 1, *(IMMEDIATES if opcode == MMA else (1, 1)))  # <- reported
    finish(warp)


@faulty("warpgroup-divergent", block=256)
def one_warp_waits_at_a_barrier_instead(warp, g):
    ready(warp)
    if warp.warpgroup == 1:
        warp.bar_sync(1, 160)
    elif warp.warpid == 1:
        warp.bar_sync(2, 64)
    else:
        warp.wgmma_fence()  # <- reported


@faulty("uninitialised-registers")
def a_registers_never_written(warp, g):
    ready(warp)
    d, a = warp.registers(4, fill=0), warp.registers(4)
    warp.wgmma_fence()
    warp.run(MMA, d, a, tiles()[1], 1, 1, 1, 0)  # <- reported
    finish(warp)


@faulty("uninitialised-registers")
def an_accumulator_never_written(warp, g):
    ready(warp)
    d = warp.registers(4)
    warp.wgmma_fence()
    warp.run(MMA, d, *tiles(), 1, *IMMEDIATES)  # <- reported
    finish(warp)


@faulty("aligned-divergent")
def a_fence_by_one_lane(warp, g):
    ready(warp)
    with one(warp):
        warp.wgmma_fence()  # <- reported
    finish(warp)


# ------------------------------------------------------------------------------------------------ swizzles


@faulty("swizzle-mismatch")
def a_tensor_map_whose_swizzle_was_forgotten(warp, g):
    """The descriptor says 32 bytes; the box lies in shared memory row by row."""
    barrier(warp, 4096)
    box = TensorMap(int(g), "f16", (16, 64), (32,), (16, 64))
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(4096, box.bytes)
        warp.cp_async_bulk_tensor_shared_global(0, box, (0, 0), 4096)
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    a, b = (Descriptor.for_tile("f16", rows, 16, swizzle=32) for rows in (64, 8))
    warp.wgmma_fence()
    warp.run(MMA, d, a, b, 1, *IMMEDIATES)  # <- reported
    finish(warp)


@faulty("tile-layout", shared=16384)
def lbo_and_sbo_exchanged(warp, g):
    """Boxes of 16 bytes in width, side by side: LBO leads to the next box, SBO to the next 8 rows."""
    barrier(warp, 8192)
    box = TensorMap(int(g), "f16", (64, 64), (128,), (8, 64))
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(8192, 8 * box.bytes)
        for number in range(8):
            warp.cp_async_bulk_tensor_shared_global(1024 * number, box, (8 * number, 0), 8192)
    warp.mbarrier_wait(8192, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, Descriptor(0, lbo=128, sbo=1024), Descriptor(0, lbo=1024, sbo=128), 1, *IMMEDIATES)  # <- reported
    finish(warp)
