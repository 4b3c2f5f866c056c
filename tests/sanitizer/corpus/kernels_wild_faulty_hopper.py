"""Faulty kernels in the wild, on Hopper: bugs in wgmma, TMA and mbarriers from the trackers of well-known libraries."""

from kernels_wild_correct_wgmma import TILE, WGMMA, box, init, multiply, swizzled, tile
from kernels_wild_table import faulty, leader, matrices, one

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16"
#: A ring of two stages of A and B, and its mbarriers; a producer warp behind a warpgroup.
FULL, EMPTY = 4 * TILE, 4 * TILE + 16
RING = {"block": 160, "shared": 4 * TILE + 32}
GEMM = matrices(64, 64, 256)


def ring(warp, empty=4):
    """The mbarriers of the ring."""
    init(warp, {FULL: 1, FULL + 8: 1, EMPTY: empty, EMPTY + 8: empty})


def produce(warp, a, b, steps=4, *, parity=1, expect=2 * TILE):
    """One lane fills the ring."""
    with one(warp):
        for step in range(steps):
            stage, turn = step % 2, step // 2
            warp.mbarrier_wait(EMPTY + 8 * stage, (turn + parity) % 2)
            warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, expect)
            for part, matrix in enumerate((a, b)):
                to = TILE * (2 * stage + part)
                warp.cp_async_bulk_tensor_shared_global(to, box(matrix), (64 * step, 0), FULL + 8 * stage)


def release(warp, stage):
    """One lane of each warp arrives at empty."""
    with one(warp):
        warp.mbarrier_arrive(EMPTY + 8 * stage)


def loaded(warp, a, b, bar=2 * TILE):
    """Tiles of A and B at 0 and TILE, waited for."""
    init(warp, {bar: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(bar, 2 * TILE)
        for part, matrix in enumerate((a, b)):
            warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (0, 0), bar)
    warp.mbarrier_wait(bar, 0)


def end(warp):
    """Commit, and wait for everything."""
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)


# ------------------------------------------------------------------------------------------------ full and empty


@faulty("tma-unwaited", GEMM, **RING)
def wgmma_before_the_wait_for_a(warp, a, b, d):
    """CUTracer's first pattern: A and B have an mbarrier each, and the wait for A is after the wgmma."""
    init(warp, {FULL: 1, FULL + 8: 1})
    if warp.warpid == 4:
        with one(warp):
            for part, matrix in enumerate((a, b)):
                warp.mbarrier_arrive_expect_tx(FULL + 8 * part, TILE)
                warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (0, 0), FULL + 8 * part)
        return
    c = warp.registers(32, fill=0)
    warp.mbarrier_wait(FULL + 8, 0)
    warp.wgmma_fence()
    warp.run(WGMMA, c, tile(0), tile(TILE), 1, 1, 1, 0, 0)  # <- reported
    end(warp)
    warp.mbarrier_wait(FULL, 0)


@faulty("tma-unwaited", GEMM, **RING)
def b_is_waited_for_by_time_alone(warp, a, b, d):
    """CUTracer's second: instead of a wait something long is computed."""
    init(warp, {FULL: 1, FULL + 8: 1})
    if warp.warpid == 4:
        with one(warp):
            for part, matrix in enumerate((a, b)):
                warp.mbarrier_arrive_expect_tx(FULL + 8 * part, TILE)
                warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (0, 0), FULL + 8 * part)
        return
    warp.mbarrier_wait(FULL, 0)
    for _ in range(50):
        warp.ld_global(a + 4 * warp.laneid)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    warp.run(WGMMA, c, tile(0), tile(TILE), 1, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty("tma-unwaited", GEMM, **RING)
def the_mbarrier_of_the_first_stage_for_all(warp, a, b, d):
    """TinyGEMM: the address of full is computed once, although the stage changes."""
    ring(warp)
    if warp.warpid == 4:
        produce(warp, a, b, 2)
        return
    for step in range(2):
        warp.mbarrier_wait(FULL, 0)
        rows = swizzled(16 * warp.warpid + warp.laneid % 16, warp.laneid // 16)
        warp.run(LDMATRIX, 2 * TILE * step + rows)  # <- reported
        warp.bar_warp_sync()
        release(warp, step)


@faulty(("tma-unwaited", "overwritten-early"), GEMM, block=160, shared=2 * TILE + 16)
def a_parity_by_stages_for_an_mbarrier_of_one(warp, a, b, d):
    """TileLang: step // 2 is the turn of a ring of two, and this mbarrier turns in every step."""
    init(warp, {2 * TILE: 1, 2 * TILE + 8: 4})
    if warp.warpid == 4:
        with one(warp):
            for step in range(4):
                warp.mbarrier_wait(2 * TILE + 8, (step + 1) % 2)
                warp.mbarrier_arrive_expect_tx(2 * TILE, TILE)
                warp.cp_async_bulk_tensor_shared_global(0, box(a), (64 * step, 0), 2 * TILE)  # <- reported
        return
    for step in range(4):
        warp.mbarrier_wait(2 * TILE, step // 2 % 2)  # <- reported
        warp.ld_shared(16 * warp.threads, "v4.b32")  # <- reported
        warp.bar_warp_sync()
        with one(warp):
            warp.mbarrier_arrive(2 * TILE + 8)


@faulty("overwritten-early", GEMM, **RING)
def released_while_wgmma_reads(warp, a, b, d):
    """nvFuser: commit and wait were missing in front of the arrival that frees the stage."""
    ring(warp)
    if warp.warpid == 4:
        with one(warp):
            for step in range(4):
                stage = step % 2
                warp.mbarrier_wait(EMPTY + 8 * stage, (step // 2 + 1) % 2)
                warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, 2 * TILE)
                for part, matrix in enumerate((box(a), box(b))):
                    to, full = TILE * (2 * stage + part), FULL + 8 * stage
                    warp.cp_async_bulk_tensor_shared_global(to, matrix, (64 * step, 0), full)  # <- reported
        return
    c = warp.registers(32, fill=0)
    for step in range(4):
        warp.mbarrier_wait(FULL + 8 * (step % 2), step // 2)
        warp.wgmma_fence()
        multiply(warp, c, 2 * TILE * (step % 2), 2 * TILE * (step % 2) + TILE)
        release(warp, step % 2)
    end(warp)


@faulty("overwritten-early", GEMM, **RING)
def the_stage_under_way_is_released(warp, a, b, d):
    """wait_group(1) leaves this step's group: the stage to release is that of the step before."""
    ring(warp)
    if warp.warpid == 4:
        with one(warp):
            for step in range(4):
                stage = step % 2
                warp.mbarrier_wait(EMPTY + 8 * stage, (step // 2 + 1) % 2)
                warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, 2 * TILE)
                for part, matrix in enumerate((box(a), box(b))):
                    to, full = TILE * (2 * stage + part), FULL + 8 * stage
                    warp.cp_async_bulk_tensor_shared_global(to, matrix, (64 * step, 0), full)  # <- reported
        return
    c = warp.registers(32, fill=0)
    for step in range(4):
        warp.mbarrier_wait(FULL + 8 * (step % 2), step // 2)
        warp.wgmma_fence()
        multiply(warp, c, 2 * TILE * (step % 2), 2 * TILE * (step % 2) + TILE)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
        release(warp, step % 2)
    warp.wgmma_wait_group(0)


@faulty("overwritten-early", GEMM, block=256, shared=4 * TILE + 32)
def one_consumer_releases_for_two(warp, a, b, d):
    """Two warpgroups read the stage, and empty counts the first one's arrivals only."""
    ring(warp, empty=1)
    if warp.warpid == 0:
        warp.bar_warp_sync()
    c = warp.registers(32, fill=0)
    for step in range(3):
        stage = step % 2
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_wait(EMPTY + 8 * stage, (step // 2 + 1) % 2)
                warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, 2 * TILE)
                for part, matrix in enumerate((box(a), box(b))):
                    to, full = TILE * (2 * stage + part), FULL + 8 * stage
                    warp.cp_async_bulk_tensor_shared_global(to, matrix, (64 * step, 0), full)  # <- reported
        warp.mbarrier_wait(FULL + 8 * stage, step // 2 % 2)
        warp.wgmma_fence()
        multiply(warp, c, 2 * TILE * stage, 2 * TILE * stage + TILE)
        end(warp)
        with leader(warp):
            warp.mbarrier_arrive(EMPTY + 8 * stage)


@faulty("overwritten-early", GEMM, block=256, shared=3 * TILE)
def the_other_warpgroup_still_reads_a(warp, a, b, d):
    """TileLang and Triton: both warpgroups multiply with A; after the wait for its own wgmma, one refills it."""
    group, t = warp.warpgroup, warp.threads % 128
    for part in range(2):
        warp.st_shared(TILE * (1 + group) + 16 * t + 2048 * part, 0, "v4.b32")
    for part in range(2, 4):
        warp.st_shared(TILE * (1 + group) + 16 * t + 2048 * part, 0, "v4.b32")
    c = warp.registers(32, fill=0)
    for step in range(2):
        for part in range(2):
            unit = warp.threads + 256 * part
            row, column = unit // 8, unit % 8
            held = warp.ld_global(a.at(row, 64 * step + 8 * column), "v4.b32")
            warp.st_shared(swizzled(row, column), held, "v4.b32")  # <- reported
        warp.fence_proxy_async()
        warp.bar_sync()
        warp.wgmma_fence()
        multiply(warp, c, 0, TILE * (1 + group))
        end(warp)


@faulty(("expect-tx", "tma-unwaited"), GEMM, **RING)
def elements_are_expected_instead_of_bytes(warp, a, b, d):
    ring(warp)
    if warp.warpid == 4:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(FULL, 64 * 64 * 2)  # <- reported
            for part, matrix in enumerate((a, b)):
                warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (0, 0), FULL)  # <- reported
        return
    warp.mbarrier_wait(FULL, 0)  # <- reported
    warp.ld_shared(TILE + 16 * warp.threads, "v4.b32")  # <- reported


@faulty("expect-tx", GEMM, **RING)
def the_bytes_inside_of_a_box_at_the_edge(warp, a, b, d):
    """The box hangs over the edge by half; all of it is counted, zeros included."""
    ring(warp)
    if warp.warpid == 4:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(FULL, TILE // 2)  # <- reported
            warp.cp_async_bulk_tensor_shared_global(0, box(a), (0, 32), FULL)  # <- reported
        return
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(16 * warp.threads, "v4.b32")


@faulty(("expect-tx", "deadlock"), GEMM, **RING)
def a_bias_that_is_not_copied_this_time(warp, a, b, d):
    """The bytes of an optional operand are expected always, and it is copied sometimes."""
    ring(warp)
    if warp.warpid == 4:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(FULL, TILE + 256)  # <- reported
            warp.cp_async_bulk_tensor_shared_global(0, box(a), (0, 0), FULL)
        return
    warp.mbarrier_wait(FULL, 0)  # <- reported


@faulty(("mbarrier-arrivals", "expect-tx"), GEMM, **RING)
def the_whole_producer_warp_arms(warp, a, b, d):
    """elect_one is around the copies and not around arrive.expect_tx."""
    ring(warp)
    if warp.warpid == 4:
        warp.mbarrier_arrive_expect_tx(FULL, 2 * TILE)  # <- reported
        with one(warp):
            for part, matrix in enumerate((a, b)):
                warp.cp_async_bulk_tensor_shared_global(TILE * part, box(matrix), (0, 0), FULL)
        return
    warp.mbarrier_wait(FULL, 0)


@faulty(("expect-tx", "shared-race", "overwritten-early", "mbarrier-arrivals"), GEMM, **RING)
def the_whole_producer_warp_copies(warp, a, b, d):
    """elect_one is around arrive.expect_tx and not around the copies: 32 copies of the same box."""
    ring(warp)
    if warp.warpid == 4:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(FULL, TILE)
        warp.cp_async_bulk_tensor_shared_global(0, box(a), (0, 0), FULL)  # <- reported
        return
    warp.mbarrier_wait(FULL, 0)


@faulty("deadlock", GEMM, **RING)
def an_empty_mbarrier_of_all_threads(warp, a, b, d):
    """empty counts 128 threads, one lane of each of four warps arrives."""
    ring(warp, empty=128)
    if warp.warpid == 4:
        with one(warp):
            for step in range(4):
                warp.mbarrier_wait(EMPTY + 8 * (step % 2), (step // 2 + 1) % 2)  # <- reported
                warp.mbarrier_arrive_expect_tx(FULL + 8 * (step % 2), TILE)
                to, full = 2 * TILE * (step % 2), FULL + 8 * (step % 2)
                warp.cp_async_bulk_tensor_shared_global(to, box(a), (64 * step, 0), full)
        return
    for step in range(4):
        warp.mbarrier_wait(FULL + 8 * (step % 2), step // 2)  # <- reported
        warp.ld_shared(2 * TILE * (step % 2) + 16 * warp.threads, "v4.b32")
        warp.bar_warp_sync()
        release(warp, step % 2)


@faulty(("tma-unwaited", "deadlock"), GEMM, **RING)
def a_consumer_that_skips_a_masked_block(warp, a, b, d):
    """TileLang's block-sparse matmul: the consumer steps over a block that the producer has loaded."""
    ring(warp)
    if warp.warpid == 4:
        with one(warp):
            for step in range(4):
                warp.mbarrier_wait(EMPTY + 8 * (step % 2), (step // 2 + 1) % 2)  # <- reported
                warp.mbarrier_arrive_expect_tx(FULL + 8 * (step % 2), TILE)
                to, full = 2 * TILE * (step % 2), FULL + 8 * (step % 2)
                warp.cp_async_bulk_tensor_shared_global(to, box(a), (64 * step, 0), full)
        return
    for step in range(4):
        if step == 1:
            continue
        warp.mbarrier_wait(FULL + 8 * (step % 2), step // 2)  # <- reported
        warp.ld_shared(2 * TILE * (step % 2) + 16 * warp.threads, "v4.b32")
        warp.bar_warp_sync()
        release(warp, step % 2)


@faulty(("overwritten-early", "deadlock"), GEMM, **RING)
def a_producer_whose_first_parity_is_right_for_ever(warp, a, b, d):
    """The producer waits with parity 1 in every turn: true at once, or never, as the consumer happens to be fast."""
    ring(warp)
    if warp.warpid == 4:
        with one(warp):
            for step in range(4):
                stage = step % 2
                warp.mbarrier_wait(EMPTY + 8 * stage, 1)  # <- reported
                warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, TILE)  # <- reported
                to, full = 2 * TILE * stage, FULL + 8 * stage
                warp.cp_async_bulk_tensor_shared_global(to, box(a), (64 * step, 0), full)  # <- reported
        return
    for step in range(4):
        warp.mbarrier_wait(FULL + 8 * (step % 2), step // 2)  # <- reported
        warp.ld_shared(2 * TILE * (step % 2) + 16 * warp.threads, "v4.b32")
        warp.bar_warp_sync()
        release(warp, step % 2)


@faulty("mbarrier-init", GEMM, **RING)
def consumers_start_before_the_mbarriers_are_there(warp, a, b, d):
    """init by the producer, whose fence is not a barrier for the others."""
    if warp.warpid == 4:
        with one(warp):
            warp.mbarrier_init(FULL, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(FULL, TILE)
            warp.cp_async_bulk_tensor_shared_global(0, box(a), (0, 0), FULL)
        return
    warp.mbarrier_wait(FULL, 0)  # <- reported


@faulty("mbarrier-init-fence", GEMM, **RING)
def an_init_that_tma_cannot_see(warp, a, b, d):
    """FlashKDA: neither fence.mbarrier_init nor fence.proxy.async behind the init of an mbarrier that TMA completes."""
    with leader(warp):
        warp.mbarrier_init(FULL, 1)
    warp.bar_sync()
    if warp.warpid == 4:
        with one(warp):
            warp.mbarrier_arrive_expect_tx(FULL, TILE)
            warp.cp_async_bulk_tensor_shared_global(0, box(a), (0, 0), FULL)  # <- reported
    warp.mbarrier_wait(FULL, 0)
