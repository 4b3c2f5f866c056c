"""The smallest kernel that breaks each rule, for the book and for readers of a report.

Every kernel is called as kernel(warp, g), where g points to BYTES bytes of global memory; the line that the sanitizer
reports ends in "<- reported".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcemu.layouts import Descriptor
from tcemu.machine import sites
from tcemu.sanitizer.example_parts import (
    BYTES,
    EXAMPLES,
    MMA,
    ORDINARY,
    TILES,
    Example,
    barrier,
    breaks,
    fill,
    finish,
    ready,
)

__all__ = ["BYTES", "EXAMPLES", "Example"]

# The lines of this file are lines of kernels, which reports name.
sites.KERNELS.append(__file__)

OTHER = "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
WMMA_LOAD = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"


@breaks("wgmma-fence-first")
def no_fence_at_all(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("wgmma-fence-touched")
def accumulator_zeroed_after_the_fence(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    d[...] = 0
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("wgmma-fence-shape")
def another_shape_on_the_same_accumulator(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    warp.run(OTHER, d, *TILES, 1, 1, 1)  # <- reported
    finish(warp)


@breaks("wgmma-fence-unneeded")
def two_fences_in_a_row(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()  # <- reported
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)


@breaks("wgmma-unwaited")
def accumulator_written_before_the_commit(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    d[:, 0] = 0  # <- reported
    finish(warp)


@breaks("wgmma-wait-weak")
def wait_group_leaves_the_only_group(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(1)
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")  # <- reported
    warp.wgmma_wait_group(0)


@breaks("wgmma-uncommitted")
def exits_without_a_commit(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported


@breaks("wgmma-descriptors")
def each_warp_its_own_tile_of_b(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    b = Descriptor.for_tile("f16", 8, 16, swizzle=0, start=256 * warp.warpid)
    warp.wgmma_fence()
    warp.run(MMA, d, TILES[0], b, *ORDINARY)  # <- reported
    finish(warp)


@breaks("warpgroup-start", block=64)
def two_warps_are_no_warpgroup(warp: Any, g: Any) -> None:
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()  # <- reported
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)


@breaks("proxy-fence-missing")
def stores_a_barrier_and_wgmma(warp: Any, g: Any) -> None:
    fill(warp)
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("proxy-fence-thread")
def warp_0_fences_for_all(warp: Any, g: Any) -> None:
    fill(warp)
    if warp.warpid == 0:
        warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("proxy-fence-barrier")
def a_fence_and_no_barrier(warp: Any, g: Any) -> None:
    fill(warp)
    warp.fence_proxy_async()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)  # <- reported
    finish(warp)


@breaks("overwritten-early")
def the_tile_is_stored_before_the_wait(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    warp.wgmma_commit_group()
    warp.st_shared(16 * warp.threads, 1, "v4.b32")  # <- reported
    warp.wgmma_wait_group(0)


@breaks("tma-unwaited", block=32)
def one_lane_waits_for_its_warp(warp: Any, g: Any) -> None:
    barrier(warp, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_expect_tx(1024, 512)
        warp.cp_async_bulk_shared_global(0, g, 512, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_wait(1024, 0)
    warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported


@breaks("expect-tx", block=32)
def too_many_bytes_expected(warp: Any, g: Any) -> None:
    barrier(warp, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_expect_tx(1024, 1024)  # <- reported
        warp.cp_async_bulk_shared_global(0, g, 512, 1024)
    warp.mbarrier_wait(1024, 0)


@breaks("cp-async-unwaited")
def rows_of_all_warps_behind_a_late_wait(warp: Any, g: Any) -> None:
    warp.cp_async(16 * warp.threads, g + 16 * warp.threads, 16)
    warp.bar_sync()
    warp.cp_async_wait_all()
    warp.run(LDMATRIX, 64 * warp.laneid + 16 * warp.warpid)  # <- reported


@breaks("cp-async-src-size", block=32)
def more_of_the_source_than_is_copied(warp: Any, g: Any) -> None:
    left = 20  # bytes to the end of the row
    warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16, left - 16 * warp.laneid)  # <- reported
    warp.cp_async_wait_all()


@breaks("shared-race", block=64)
def two_warps_write_the_same(warp: Any, g: Any) -> None:
    warp.st_shared(4 * warp.laneid, warp.warpid)  # <- reported
    warp.bar_sync()


@breaks("global-race", grid=2, block=32)
def a_block_reads_what_the_other_one_writes(warp: Any, g: Any) -> None:
    if warp.ctaid[0] == 0:
        warp.st_global(g + 4 * warp.laneid, 1)  # <- reported
    else:
        warp.ld_global(g + 4 * warp.laneid)  # <- reported


@breaks("lane-race", block=32)
def lanes_swap_without_a_sync(warp: Any, g: Any) -> None:
    warp.st_shared(4 * warp.laneid, warp.laneid)
    x = warp.ld_shared(4 * (31 - warp.laneid))  # <- reported
    warp.st_global(g + 4 * warp.laneid, x)


@breaks("ldmatrix-unsynced", block=32)
def ldmatrix_behind_a_store(warp: Any, g: Any) -> None:
    warp.st_shared(16 * warp.laneid, 1, "v4.b32")
    warp.run(LDMATRIX, 16 * warp.laneid)  # <- reported


@breaks("uninitialised-shared", block=32)
def a_load_before_any_store(warp: Any, g: Any) -> None:
    x = warp.ld_shared(4 * warp.laneid)  # <- reported
    warp.st_global(g + 4 * warp.laneid, x)


@breaks("uninitialised-registers", block=32)
def registers_never_written(warp: Any, g: Any) -> None:
    x = warp.registers(2)
    warp.st_global(g + 4 * warp.laneid, x[:, 0])  # <- reported


@breaks("out-of-range", block=32)
def past_the_end_of_an_array(warp: Any, g: Any) -> None:
    warp.ld_global(g + g.nbytes - 64 + 4 * warp.laneid)  # <- reported


@breaks("misaligned", block=32)
def a_wide_store_at_narrow_steps(warp: Any, g: Any) -> None:
    warp.st_shared(8 * warp.laneid, 0, "v4.b32")  # <- reported


@breaks("mbarrier-init", block=32)
def other_lanes_wait_on_a_new_mbarrier(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid == 0):
        warp.mbarrier_init(0, 1)
        warp.mbarrier_arrive(0)
    warp.mbarrier_wait(0, 0)  # <- reported


@breaks("mbarrier-init-fence", block=64)
def an_init_that_copies_may_not_see(warp: Any, g: Any) -> None:
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(1024, 1)
    warp.bar_sync()
    if warp.warpid == 1:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_arrive_expect_tx(1024, 512)
            warp.cp_async_bulk_shared_global(0, g, 512, 1024)  # <- reported
    warp.mbarrier_wait(1024, 0)


@breaks("mbarrier-arrivals", block=64)
def more_lanes_arrive_than_are_counted(warp: Any, g: Any) -> None:
    barrier(warp, 0, count=2)
    warp.mbarrier_arrive(0)  # <- reported


@breaks("mbarrier-object", block=32)
def a_store_over_an_mbarrier(warp: Any, g: Any) -> None:
    barrier(warp, 64)
    warp.st_shared(4 * warp.laneid, np.uint32(0))  # <- reported


@breaks("aligned-divergent", block=32)
def a_barrier_in_half_a_warp(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid < 16):
        warp.bar_sync()  # <- reported


@breaks("absent-lanes", block=32)
def half_a_warp_reads_the_other_half(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid < 16):
        x = warp.shfl_sync("down", warp.laneid, 16)  # <- reported
        warp.st_global(g + 4 * warp.laneid, x)


@breaks("warpgroup-divergent")
def one_warp_leaves_the_commit_out(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    if warp.warpid != 1:
        warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)  # <- reported


@breaks("barrier-threads")
def a_barrier_with_two_counts(warp: Any, g: Any) -> None:
    warp.bar_sync(1, 96 if warp.warpid == 3 else 128)  # <- reported


@breaks("barriers-parted", block=32)
def half_a_warp_at_each_barrier(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid < 16):
        warp.run("barrier.arrive", 1, 32)
    with warp.only(warp.laneid >= 16):
        warp.run("barrier.arrive", 2, 32)  # <- reported


@breaks("setmaxnreg-count")
def the_wrong_word_for_more_registers(warp: Any, g: Any) -> None:
    warp.setmaxnreg("dec", 40)
    warp.setmaxnreg("dec", 232)  # <- reported


@breaks("exited-threads")
def a_warp_leaves_its_warpgroup(warp: Any, g: Any) -> None:
    if warp.warpid == 3:
        return
    warp.wgmma_fence()  # <- reported


@breaks("flag-never-set", block=64)
def a_flag_that_nobody_sets(warp: Any, g: Any) -> None:
    if warp.warpid == 1:
        while (warp.ld_global(g, order="acquire")[:, 0] == 0).all():  # <- reported
            warp.nanosleep(20)


@breaks("deadlock", block=32)
def an_mbarrier_for_more_than_arrive(warp: Any, g: Any) -> None:
    barrier(warp, 0, count=33)
    warp.mbarrier_arrive(0)
    warp.mbarrier_wait(0, 0)  # <- reported


@breaks("wmma-mixed", block=32, target="sm_80")
def a_fragment_of_a_as_b(warp: Any, g: Any) -> None:
    a = warp.run(WMMA_LOAD, g, 16)
    c = warp.registers(8, fill=0)
    warp.run(WMMA, a, a, c)  # <- reported
