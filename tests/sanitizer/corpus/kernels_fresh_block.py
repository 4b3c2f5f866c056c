"""Pairs from bug trackers: compilers that drop a barrier, cp.async, named barriers, fragments, persistent kernels."""

import numpy as np
from kernels_pairs import leader, pair

TWO_WARPS = {"block": 64, "shared": 1024}


@pair("shared-race", **TWO_WARPS)
def a_barrier_dropped_from_a_branch_of_48_threads(warp, right):
    """tilelang 2556: if (tx < 48) { S[tx] = 1; acc += S[47 - tx]; }, whose barrier cannot count 48 threads."""
    some = warp.threads < 48
    with warp.only(some):
        warp.st_shared(4 * warp.threads, 1)  # <- reported
    if right:
        warp.bar_sync()
    with warp.only(some):
        warp.ld_shared(4 * np.maximum(47 - warp.threads, 0))  # <- reported


@pair("shared-race", **TWO_WARPS)
def a_barrier_hoisted_out_of_a_loop(warp, right):
    """tilelang 2612: every fourth thread stores and reads in a loop; the only barrier is before the branch."""
    warp.bar_sync()
    for step in range(2):
        with warp.only(warp.threads % 4 == 0):
            warp.st_shared(warp.threads + 64 * step, step)  # <- reported
        if right:
            warp.bar_sync()
        with warp.only(warp.threads % 4 == 0):
            warp.ld_shared(60 - warp.threads + 64 * step)  # <- reported


@pair("cp-async-unwaited", 64, **TWO_WARPS)
def a_barrier_that_does_not_wait_for_the_bias(warp, right, x):
    """nvFuser 3428: the first warp copies a vector once, and only __syncthreads is before the loop."""
    if warp.warpid == 0:
        warp.cp_async(4 * warp.laneid, x.at(warp.laneid), 4)
        if right:
            warp.cp_async_wait_all()
    warp.bar_sync()
    for _ in range(2):
        warp.cp_async(256 + 4 * warp.threads, x.at(warp.threads), 4)
        warp.cp_async_commit_group()
        warp.ld_shared(4 * warp.laneid)  # <- reported
        warp.cp_async_wait_group(0)


@pair(("cp-async-unwaited", "overwritten-early", "shared-race"), 64, **TWO_WARPS)
def a_fill_over_what_is_still_copied_in(warp, right, x):
    """tilelang 2698: T.copy, then T.clear of a part of it, by other threads."""
    warp.cp_async(4 * warp.threads, x.at(warp.threads), 4)  # <- reported
    warp.cp_async_commit_group()
    if right:
        warp.cp_async_wait_group(0)
        warp.bar_sync()
    with warp.only(warp.threads < 6):
        warp.st_shared(40 + 128 - 4 * warp.threads, 1)  # <- reported
    warp.cp_async_wait_group(0)


@pair("shared-race", **TWO_WARPS)
def scratch_of_a_maximum_used_for_the_next_one(warp, right):
    """CUTLASS 3597: two block reductions share four words; a slow warp still reads those of the first."""
    for _ in range(2):
        with warp.only(warp.laneid == 0):
            warp.st_shared(4 * warp.warpid, warp.warpid)  # <- reported
        warp.bar_sync()
        warp.ld_shared(4 * (warp.laneid % 2))  # <- reported
        if right:
            warp.bar_sync()


@pair("shared-race", 64, **TWO_WARPS)
def rows_of_an_expert_read_before_they_are_listed(warp, right, x):
    """llama.cpp 13294: the destination rows are filled by all threads and read behind no barrier."""
    warp.st_shared(4 * warp.threads, warp.ld_global(x.at(63 - warp.threads)))  # <- reported
    if right:
        warp.bar_sync()
    for row in range(0, 64, 16):
        warp.ld_shared(4 * (row + warp.threads % 16))  # <- reported


@pair("cp-async-unwaited", 256, block=32, shared=512)
def the_last_stages_of_a_pipeline_without_empty_groups(warp, right, x):
    """wait_group(STAGES - 2) covers the oldest group only while each step commits one."""
    for step in range(6):
        if step < 4:
            warp.cp_async(128 * (step % 3) + 4 * warp.laneid, x.at(32 * step + warp.laneid), 4)
        if right or step < 4:
            warp.cp_async_commit_group()
        if step >= 2:
            warp.cp_async_wait_group(2)
            warp.ld_shared(128 * ((step - 2) % 3) + 4 * warp.laneid)  # <- reported


@pair(("barrier-threads", "shared-race"), block=128, shared=1024)
def two_pairs_of_warps_at_one_named_barrier(warp, right):
    """Each pair hands on its own half through bar.sync 1, 64: a warp of the other pair may be the second to come."""
    half = warp.warpid // 2
    own = 256 * half + 4 * (warp.threads % 64)
    warp.st_shared(own, 1)  # <- reported
    warp.bar_sync(1 + half if right else 1, 64)  # <- reported
    warp.ld_shared(256 * half + 4 * (63 - warp.threads % 64))  # <- reported


@pair("shared-race", **TWO_WARPS)
def a_barrier_that_counts_one_warp(warp, right):
    """bar.sync 1, 32: each warp completes it alone, so it is legal, and orders nothing between the warps."""
    warp.st_shared(4 * warp.threads, 1)  # <- reported
    warp.bar_sync(1, 32)
    if right:
        warp.bar_sync()
    warp.ld_shared(4 * (63 - warp.threads))  # <- reported


@pair(("barrier-threads", "deadlock", "exited-threads"), block=160, shared=64)
def a_named_barrier_that_counts_the_producer_too(warp, right):
    """FlashAttention: 128 consumers arrive at a barrier for all threads, but the producer's warp does not."""
    if warp.warpid == 4:
        return
    warp.bar_sync(2, 128 if right else 160)  # <- reported


@pair(("deadlock", "barrier-threads"), block=256, shared=64)
def ping_pong_without_the_first_arrival(warp, right):
    """FlashAttention-3: warpgroup 0 goes first only if somebody has arrived for it at its barrier."""
    mine, other = 1 + warp.warpgroup, 2 - warp.warpgroup
    if right and warp.warpgroup == 1:
        warp.bar_arrive(1, 256)
    for _ in range(2):
        warp.bar_sync(mine, 256)  # <- reported
        warp.bar_arrive(other, 256)
    if right and warp.warpgroup == 0:
        warp.bar_sync(1, 256)


@pair("lane-race", block=32, shared=256)
def a_row_sum_handed_to_the_neighbours_lane(warp, right):
    """The lanes of a warp exchange through shared memory as if they ran in step."""
    warp.st_shared(4 * warp.laneid, warp.laneid)  # <- reported
    if right:
        warp.bar_warp_sync()
    warp.ld_shared(4 * (31 - warp.laneid))  # <- reported


@pair("ldmatrix-unsynced", block=64, shared=1024)
def p_stored_by_one_warp_and_loaded_by_the_other(warp, right):
    """Attention keeps P in shared memory: stmatrix by one warp, ldmatrix by another."""
    rows = 128 * warp.warpid + 16 * (warp.laneid % 8)
    warp.run("stmatrix.sync.aligned.m8n8.x1.shared.b16", rows, np.zeros((32, 1), np.uint32))
    if right:
        warp.bar_sync()
    other = 128 - 128 * warp.warpid + 16 * (warp.laneid % 8)
    warp.run("ldmatrix.sync.aligned.m8n8.x1.shared.b16", other)  # <- reported


@pair("shared-race", 1, **TWO_WARPS)
def the_next_tile_overwrites_the_number_of_this_one(warp, right, queue):
    """A persistent kernel without the second barrier of each round."""
    for _ in range(2):
        with leader(warp):
            warp.st_shared(0, warp.atom_global("add.u32", queue, 1))  # <- reported
        warp.bar_sync()
        warp.ld_shared(0)  # <- reported
        if right:
            warp.bar_sync()


@pair(("overwritten-early", "shared-race"), 256, block=64, shared=512)
def the_epilogue_reuses_the_stage_of_a_copy_that_nobody_needs(warp, right, x):
    """The prefetch past the last step is still pending when the stage becomes the output's."""
    for step in range(2):
        warp.cp_async(256 * step + 4 * warp.threads, x.at(64 * step + warp.threads), 4)  # <- reported
        warp.cp_async_commit_group()
    warp.cp_async_wait_group(0 if right else 1)
    warp.bar_sync()
    warp.st_shared(256 + 4 * (63 - warp.threads), 7)  # <- reported


@pair("absent-lanes", **TWO_WARPS)
def a_warp_sum_in_a_branch_that_names_all_lanes(warp, right):
    """__shfl_down_sync(0xffffffff) under if (tid < 16), then __syncthreads."""
    with warp.only(warp.laneid < 16):
        mask = 0xFFFF if right else 0xFFFFFFFF
        warp.run("shfl.sync.bfly.b32", warp.laneid, 8, 0x1F, mask)  # <- reported
    warp.bar_sync()


@pair("uninitialised-registers", block=32, shared=1024)
def an_accumulator_that_the_first_step_does_not_clear(warp, right):
    """if (k == 0) clears it, in a kernel whose first step is 1."""
    c = warp.registers(4, fill=0 if right else None)
    a, b = (np.zeros((32, each), np.uint32) for each in (4, 2))
    warp.run("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", a, b, c)  # <- reported


@pair("misaligned", 64, block=32, shared=512)
def a_vector_load_of_a_row_with_an_odd_pitch(warp, right, x):
    """v4 loads need rows of multiples of 16 bytes; a pad of one word breaks every other row."""
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")
    warp.bar_warp_sync()
    warp.ld_shared((48 if right else 36) * (warp.laneid % 4), "v4.b32")  # <- reported


@pair("out-of-range", 60, **TWO_WARPS)
def the_last_tile_is_not_guarded(warp, right, x):
    with warp.only((warp.threads < 60) | (not right)):
        warp.ld_global(x.at(warp.threads))  # <- reported


@pair("lanes-disagree", block=32, shared=512)
def rows_of_stmatrix_at_one_address(warp, right):
    """The lane is divided by two: each address has two rows, and nothing says which one stays."""
    held = np.arange(128, dtype=np.uint32).reshape(32, 4)
    row = warp.laneid if right else warp.laneid // 2
    warp.run("stmatrix.sync.aligned.m8n8.x4.shared.b16", 16 * row, held)  # <- reported
