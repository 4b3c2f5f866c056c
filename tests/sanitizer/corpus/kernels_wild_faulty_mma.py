"""Faulty kernels in the wild, up to Ampere: cp.async, wmma, mma.sync, ldmatrix."""

from kernels_wild_correct_mma import IMMA, LDMATRIX, MMA, _copy, _fragments, _multiply, _swizzled
from kernels_wild_table import bits, faulty, floats, leader, matrices, words

# ------------------------------------------------------------------------------------------------ cp.async


@faulty("cp-async-unwaited", matrices(64, 64, 160), shared=3 * 8192, target="sm_80")
def multistage_that_leaves_one_group_too_many(warp, a, b, d):
    """wait_group(stages - 1) where stages - 2 is meant."""
    steps, stages = 5, 3
    c = [warp.registers(4, fill=0) for _ in range(2)]
    for stage in range(stages - 1):
        _copy(warp, 8192 * stage, a, b, 32 * stage)
        warp.cp_async_commit_group()
    for step in range(steps):
        warp.cp_async_wait_group(stages - 1)
        warp.bar_sync()
        tile = 8192 * (step % stages) + _swizzled(warp.laneid % 16, warp.laneid // 16)
        held = [warp.run(LDMATRIX, tile + 4096 * part) for part in range(2)]  # <- reported
        _multiply(warp, *held, c)
        warp.cp_async_commit_group()


@faulty("cp-async-unwaited", words(4096), shared=4096, target="sm_80")
def the_commit_comes_behind_the_wait(warp, a):
    """nvFuser's circular buffers: wait_group counts groups, and the newest copies were in none."""
    mine = 16 * warp.threads
    warp.cp_async(mine, a + mine, 16)
    warp.cp_async_commit_group()
    for step in range(1, 3):
        warp.cp_async(2048 * (step % 2) + mine, a + mine, 16)
        warp.cp_async_wait_group(0)
        warp.cp_async_commit_group()
        warp.bar_sync()
        warp.ld_shared(2048 * (step % 2) + 16 * (127 - warp.threads), "v4.b32")  # <- reported
        warp.bar_sync()


@faulty("cp-async-unwaited", words(4096), shared=4096, target="sm_80")
def the_last_step_keeps_the_wait_of_the_others(warp, a):
    """wait_group(1) in every step; in the last one it leaves the group that is needed pending."""
    mine = 16 * warp.threads
    warp.cp_async(mine, a + mine, 16)
    warp.cp_async_commit_group()
    for step in range(3):
        if step < 2:
            warp.cp_async(2048 * ((step + 1) % 2) + mine, a + mine, 16)
            warp.cp_async_commit_group()
        warp.cp_async_wait_group(1)
        warp.bar_sync()
        warp.ld_shared(2048 * (step % 2) + 16 * (127 - warp.threads), "v4.b32")  # <- reported
        warp.bar_sync()


@faulty("cp-async-unwaited", words(4096), shared=2048, target="sm_80")
def a_barrier_is_taken_for_a_wait(warp, a):
    """__syncthreads does not wait for cp.async."""
    mine = 16 * warp.threads
    warp.cp_async(mine, a + mine, 16)
    warp.cp_async_commit_group()
    warp.bar_sync()
    warp.ld_shared(mine, "v4.b32")  # <- reported


@faulty(("overwritten-early", "shared-race"), matrices(64, 64, 160), shared=2 * 8192, target="sm_80")
def the_refill_comes_before_the_barrier(warp, a, b, d):
    """Two stages and one barrier a step: the stage that is refilled is the one slow warps still read."""
    c = [warp.registers(4, fill=0) for _ in range(2)]
    _copy(warp, 0, a, b, 0)
    warp.cp_async_commit_group()
    for step in range(4):
        to, t = 8192 * ((step + 1) % 2), warp.threads
        for half in range(2):
            source = a.at(t // 4 + 32 * half, 32 * (step + 1) + 8 * (t % 4))
            warp.cp_async(to + _swizzled(t // 4 + 32 * half, t % 4), source, 16)  # <- reported
        warp.cp_async_commit_group()
        warp.cp_async_wait_group(1)
        warp.bar_sync()
        tile = 8192 * (step % 2)
        _multiply(warp, _fragments(warp, tile, 0, 16 * warp.warpid), _fragments(warp, tile, 0, 0), c)


@faulty(("overwritten-early", "shared-race"), words(4096), shared=2048, target="sm_80")
def the_next_tile_of_a_grouped_gemm(warp, a):
    """CUTLASS's grouped GEMM: between two problems of a persistent block the barrier was missing."""
    mine = 16 * warp.threads
    for problem in range(2):
        warp.cp_async(mine, a + 2048 * problem + mine, 16)  # <- reported
        warp.cp_async_wait_all()
        warp.bar_sync()
        warp.ld_shared(16 * (127 - warp.threads), "v4.b32")


@faulty("deadlock", words(4096), block=64, shared=1032)
def copies_that_arrive_in_addition(warp, a):
    """cp.async.mbarrier.arrive without .noinc adds the arrivals it makes: those of init are still waited for."""
    with leader(warp):
        warp.mbarrier_init(1024, 32)
    warp.bar_sync()
    if warp.warpid == 0:
        warp.cp_async(16 * warp.laneid, a + 16 * warp.laneid, 16)
        warp.cp_async_mbarrier_arrive(1024)
    else:
        warp.mbarrier_wait(1024, 0)  # <- reported
        warp.ld_shared(16 * warp.laneid, "v4.b32")


@faulty("misaligned", words(4096), shared=4096, target="sm_80")
def sixteen_bytes_from_an_odd_row(warp, a):
    """Rows of 30 elements: cp.async of 16 bytes starts at any multiple of 4."""
    warp.cp_async(16 * warp.threads, a + 60 * warp.threads, 16)  # <- reported


# ------------------------------------------------------------------------------------------------ mma


@faulty(("ldmatrix-unsynced", "shared-race"), matrices(64, 64, 32), shared=8192, target="sm_80")
def ldmatrix_right_behind_the_stores(warp, a, b, d):
    t = warp.threads
    for part in range(2):
        row, unit = t // 4 + 32 * part, t % 4
        warp.st_shared(64 * row + 16 * unit, warp.ld_global(a.at(row, 8 * unit), "v4.b32"), "v4.b32")
    row = 16 * (3 - warp.warpid) + warp.laneid % 16
    warp.run(LDMATRIX, 64 * row + 16 * (warp.laneid // 16))  # <- reported


@faulty(("lane-race", "ldmatrix-unsynced"), matrices(16, 16, 16), block=32, shared=1024, target="sm_80")
def a_wmma_tile_read_by_other_lanes(warp, a, b, d):
    """Colibri's quantised experts: of three places that store a tile and read it back one lacks its __syncwarp."""
    left = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", a + 0, 16)
    right = warp.run("wmma.load.b.sync.aligned.col.m16n16k16.global.f16", b + 0, 16)
    c = warp.run("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", left, right, warp.registers(8, fill=0))
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32", 0, c, 16)
    for part in range(2):
        at = 512 * part + 16 * warp.laneid
        warp.st_global(d + at, warp.ld_shared(at, "v4.b32"), "v4.b32")  # <- reported


@faulty("wmma-mixed", matrices(16, 16, 16), block=32)
def a_fragment_of_b_by_rows_in_an_mma_by_columns(warp, a, b, d):
    left = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", a + 0, 16)
    right = warp.run("wmma.load.b.sync.aligned.row.m16n16k16.global.f16", b + 0, 16)
    c = warp.registers(8, fill=0)
    c = warp.run("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", left, right, c)  # <- reported
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", d + 0, c, 16)


@faulty("uninitialised-registers", matrices(16, 16, 16), block=32)
def an_accumulator_nobody_cleared(warp, a, b, d):
    """fill_fragment was forgotten."""
    left = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", a + 0, 16)
    right = warp.run("wmma.load.b.sync.aligned.col.m16n16k16.global.f16", b + 0, 16)
    warp.run("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", left, right, warp.registers(8))  # <- reported


@faulty("aligned-divergent", matrices(16, 16, 16), block=32)
def an_mma_for_the_rows_that_exist(warp, a, b, d):
    """The guard of the edge is around the mma and not around the store."""
    held = warp.registers(4, fill=0)
    with warp.only(warp.laneid // 4 < 5):
        warp.run(MMA, held, held[:, :2], warp.registers(4, fill=0))  # <- reported


@faulty("misaligned", words(4096), block=32, shared=4096, target="sm_80")
def rows_padded_by_four_bytes(warp, a):
    """Padding that is good for ld.shared and bad for ldmatrix, whose rows start at multiples of 16."""
    for part in range(4):
        warp.st_shared(68 * (warp.laneid % 16) + 16 * (warp.laneid // 16) + 4 * part, part)
    warp.bar_warp_sync()
    warp.run(LDMATRIX, 68 * (warp.laneid % 16) + 16 * (warp.laneid // 16))  # <- reported


@faulty("uninitialised-shared", words(4096), block=32, shared=4096, target="sm_80")
def the_second_half_of_k_was_not_staged(warp, a):
    """16 rows of 16 bytes are there, ldmatrix.x4 takes 16 rows of 32."""
    with warp.only(warp.laneid < 16):
        warp.st_shared(32 * warp.laneid, 0, "v4.b32")
    warp.bar_warp_sync()
    held = warp.run(LDMATRIX, 32 * (warp.laneid % 16) + 16 * (warp.laneid // 16))  # <- reported
    warp.run(IMMA, held, held[:, :2], warp.registers(4, fill=0))


@faulty("shared-race", matrices(64, 64, 32), shared=64 * 68 * 4, target="sm_80")
def an_epilogue_over_tiles_that_are_still_read(warp, a, b, d):
    """Results are staged where A and B are, and a slow warp is not through with B."""
    _copy(warp, 0, a, b, 0)
    warp.cp_async_wait_all()
    warp.bar_sync()
    c = [warp.registers(4, fill=0) for _ in range(2)]
    for n in range(4):
        _multiply(warp, _fragments(warp, 0, 0, 16 * warp.warpid), _fragments(warp, 4096, 0, 16 * n), c)
    row = 16 * warp.warpid + warp.laneid // 4
    warp.st_shared(4 * (68 * row + 2 * (warp.laneid % 4)), c[0][:, :2], "v2.b32")  # <- reported


@faulty("shared-race", words(4096, 4096), shared=2048)
def an_output_tile_that_is_read_across_warps(warp, a, d):
    """TileOPs: accumulators through a swizzled buffer, in rows out, no barrier around the round trip."""
    t = warp.threads
    for part in range(4):
        warp.st_shared(16 * t + 4 * (part ^ t % 4), bits(floats(warp.ld_global(a.at(t)))))
    warp.st_global(d + 16 * t, warp.ld_shared(16 * (t ^ 64), "v4.b32"), "v4.b32")  # <- reported
