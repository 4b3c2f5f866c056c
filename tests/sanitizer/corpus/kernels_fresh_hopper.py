"""Pairs from bug trackers, on Hopper: pipelines of TMA and wgmma, their phases, bytes and epilogues."""

from kernels_pairs import leader, pair
from kernels_table import fill, finish, mma
from kernels_wild_table import one

from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap

#: Two stages of 128 bytes or of a tile of 4096, and mbarriers behind them.
FULL, EMPTY = 512, 528
SMALL = {"block": 64, "shared": 576}


def begin(warp, counts, fence=True):
    """Thread 0 initialises mbarriers, from {address: count}; everybody may use them."""
    with leader(warp):
        for address, count in counts.items():
            warp.mbarrier_init(address, count)
        if fence:
            warp.fence_mbarrier_init()
    warp.bar_sync()


def stages(full=1, empty=32):
    return {FULL: full, FULL + 8: full, EMPTY: empty, EMPTY + 8: empty}


def load(warp, x, step, size=128):
    """Arm the stage of a step and fill it."""
    stage = step % 2
    warp.mbarrier_arrive_expect_tx(FULL + 8 * stage, size)
    warp.cp_async_bulk_shared_global(128 * stage, x + 128 * step, 128, FULL + 8 * stage)


@pair(("tma-unwaited", "deadlock", "overwritten-early"), 256, **SMALL)
def the_phase_flips_with_each_step(warp, right, x):
    """phase ^= 1 in each step, not each time the stages begin again."""
    begin(warp, stages())
    for step in range(4):
        stage, phase = step % 2, step // 2 % 2
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_wait(EMPTY + 8 * stage, 1 - phase)  # <- reported
                load(warp, x, step)
        else:
            warp.mbarrier_wait(FULL + 8 * stage, phase if right else step % 2)  # <- reported
            warp.ld_shared(128 * stage + 4 * warp.laneid)  # <- reported
            warp.mbarrier_arrive(EMPTY + 8 * stage)  # <- reported


@pair(("deadlock", "mbarrier-arrivals"), 256, **SMALL)
def the_producer_starts_with_the_phase_of_the_consumers(warp, right, x):
    """An empty mbarrier that has not been released yet: the first wait must be for the phase before the first."""
    begin(warp, stages())
    for step in range(2):
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_wait(EMPTY + 8 * step, 1 if right else 0)  # <- reported
                load(warp, x, step)
        else:
            warp.mbarrier_wait(FULL + 8 * step, 0)
            warp.ld_shared(128 * step + 4 * warp.laneid)
            warp.mbarrier_arrive(EMPTY + 8 * step)


@pair(("mbarrier-arrivals", "overwritten-early"), 256, **SMALL)
def every_lane_releases_but_warps_are_counted(warp, right, x):
    """The empty mbarrier expects one arrival of each consumer warp."""
    begin(warp, stages(empty=1))
    for step in range(4):
        stage, phase = step % 2, step // 2
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_wait(EMPTY + 8 * stage, 1 - phase)
                load(warp, x, step)
        else:
            warp.mbarrier_wait(FULL + 8 * stage, phase)
            warp.ld_shared(128 * stage + 4 * warp.laneid)
            warp.bar_warp_sync()
            with warp.only((warp.laneid == 0) | (not right)):
                warp.mbarrier_arrive(EMPTY + 8 * stage)  # <- reported


@pair(("expect-tx", "mbarrier-arrivals"), 64, **SMALL)
def all_lanes_of_the_producer_expect(warp, right, x):
    """if (warp == 0) in place of one elected lane: 32 lanes arrive and expect, one copies."""
    begin(warp, {FULL: 1})
    if warp.warpid == 0:
        with warp.only((warp.laneid == 0) | (not right)):
            warp.mbarrier_arrive_expect_tx(FULL, 128)  # <- reported
        with one(warp):
            warp.cp_async_bulk_shared_global(0, x, 128, FULL)
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.laneid)


@pair("expect-tx", 64, **SMALL)
def bytes_of_one_operand_of_two(warp, right, x):
    """A and B complete on the same mbarrier, which is told of A."""
    begin(warp, {FULL: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256 if right else 128)  # <- reported
        for part in range(2):
            warp.cp_async_bulk_shared_global(128 * part, x, 128, FULL)
    warp.mbarrier_wait(FULL, 0)


@pair("tma-unwaited", 64, **SMALL)
def only_the_mbarrier_of_b_is_waited_for(warp, right, x):
    """CUTracer's test: the wait for A is after the use of both."""
    begin(warp, {FULL: 1, FULL + 8: 1})
    with leader(warp):
        load(warp, x, 0)
        load(warp, x, 1)
    if right:
        warp.mbarrier_wait(FULL, 0)
    warp.mbarrier_wait(FULL + 8, 0)
    warp.ld_shared(4 * warp.laneid)  # <- reported
    warp.ld_shared(128 + 4 * warp.laneid)
    if not right:
        warp.mbarrier_wait(FULL, 0)


@pair("mbarrier-init", 64, **SMALL)
def a_barrier_only_of_the_warp_that_initialises(warp, right, x):
    """elect_one initialises and __syncwarp follows; the other warp waits at once."""
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_init(FULL, 1)
            warp.fence_mbarrier_init()
        warp.bar_warp_sync()
    if right:
        warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            load(warp, x, 0)
    warp.mbarrier_wait(FULL, 0)  # <- reported


@pair("overwritten-early", 64, **SMALL)
def the_next_tile_is_stored_into_what_leaves(warp, right, out):
    """An epilogue with one buffer: it waits for the store before the last one, not for the last."""
    for step in range(2):
        with warp.only(warp.threads < 32):
            warp.st_shared(4 * warp.laneid, step)  # <- reported
        warp.fence_proxy_async("shared::cta")
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_global_shared(out + 128 * step, 0, 128)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0 if right else 1, read=True)
        warp.bar_sync()


@pair("overwritten-early", 64, **SMALL)
def another_thread_commits_the_store(warp, right, out):
    """elect_one in two places may elect two lanes; groups belong to threads."""
    with warp.only(warp.threads < 32):
        warp.st_shared(4 * warp.laneid, 1)
    warp.fence_proxy_async("shared::cta")
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_global_shared(out, 0, 128)  # <- reported
    with warp.only(warp.threads == (0 if right else 1)):
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)
    warp.bar_sync()
    with warp.only(warp.threads < 32):
        warp.st_shared(4 * warp.laneid, 2)  # <- reported


@pair(("proxy-fence-missing", "uninitialised-shared"), 64, **SMALL)
def the_fence_stands_in_a_loop_that_does_not_run(warp, right, out):
    """FlashKDA 24: zeros are stored before the loop; an empty sequence skips the loop and its fence."""
    with warp.only(warp.threads < 32):
        warp.st_shared(4 * warp.laneid, 0)
    for _ in range(1 if right else 0):
        warp.fence_proxy_async("shared::cta")
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_global_shared(out, 0, 128)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@pair("proxy-fence-missing", 64, 64, **SMALL)
def a_copy_of_what_the_block_has_just_stored_in_global_memory(warp, right, x, y):
    """A fused kernel writes an intermediate result and loads it back by TMA behind __syncthreads."""
    begin(warp, {FULL: 1})
    with warp.only(warp.threads < 32):
        warp.st_global(y.at(warp.laneid), 3)
    if right:
        warp.fence_proxy_async()
    warp.bar_sync()
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 128)
        warp.cp_async_bulk_shared_global(0, y, 128, FULL)  # <- reported
    warp.mbarrier_wait(FULL, 0)


@pair("mbarrier-object", **SMALL)
def mbarriers_initialised_again_for_the_next_tile(warp, right):
    """A persistent kernel sets its mbarriers up for each tile, while a slow warp still waits for the last phase."""
    begin(warp, {FULL: 64})
    warp.mbarrier_arrive(FULL)
    warp.mbarrier_wait(FULL, 0)
    if right:
        warp.bar_sync()
        with leader(warp):
            warp.mbarrier_inval(FULL)
    with leader(warp):
        warp.mbarrier_init(FULL, 64)  # <- reported
    warp.bar_sync()


@pair("misaligned", (8, 32), **SMALL)
def a_stage_of_a_box_that_starts_at_64(warp, right, x):
    """A box must start at a multiple of 128, whatever its size."""
    begin(warp, {FULL: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 64)
        to = 128 if right else 64
        warp.cp_async_bulk_tensor_shared_global(to, TensorMap.of(x, (16, 1)), (0, 0), FULL)  # <- reported
    warp.mbarrier_wait(FULL, 0)


# ------------------------------------------------------------------------------------------------ wgmma

GROUPS = {"block": 128, "shared": 8192 + 64}


@pair("overwritten-early", block=256, shared=8192)
def one_group_refills_what_both_multiply(warp, right):
    """tilelang 2613: each warpgroup waits for its own wgmma; the next step's stores race with the other's."""
    d = warp.registers(4, fill=0)
    for _ in range(2):
        fill(warp)  # <- reported
        warp.fence_proxy_async()
        warp.bar_sync()
        warp.wgmma_fence()
        mma(warp, d)
        finish(warp)
        if right:
            warp.bar_sync()


@pair(("wgmma-unwaited", "wgmma-wait-weak"), **GROUPS)
def the_last_group_is_left_under_way(warp, right):
    """wait_group 1 in the loop keeps one group pending, also after the loop."""
    d = warp.registers(4, fill=0)
    fill(warp)
    warp.fence_proxy_async()
    warp.bar_sync()
    for _ in range(3):
        warp.wgmma_fence()
        mma(warp, d)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
    if right:
        warp.wgmma_wait_group(0)
    warp.shfl_sync("idx", d[:, 0], 0)  # <- reported


@pair("wgmma-fence-touched", **GROUPS)
def the_accumulator_is_scaled_between_steps(warp, right):
    """Attention scales O in registers and continues without another fence."""
    d = warp.registers(4, fill=0)
    fill(warp)
    warp.fence_proxy_async()
    warp.bar_sync()
    warp.wgmma_fence()
    mma(warp, d)
    finish(warp)
    d[:, 0] = d[:, 0] * 2
    if right:
        warp.wgmma_fence()
    mma(warp, d)  # <- reported
    finish(warp)


@pair("overwritten-early", 4096, block=160, shared=8192 + 64)
def a_stage_released_before_its_wgmma_has_ended(warp, right, x):
    """The consumers arrive at empty behind the commit, not behind the wait."""
    full, empty = 8192, 8200
    begin(warp, {full: 1, empty: 128})
    d = warp.registers(4, fill=0)
    for step in range(2):
        if warp.warpid == 4:
            with one(warp):
                warp.mbarrier_wait(empty, 1 - step)
                warp.mbarrier_arrive_expect_tx(full, 4096)
                warp.cp_async_bulk_shared_global(0, x, 4096, full)  # <- reported
            continue
        warp.mbarrier_wait(full, step)
        warp.wgmma_fence()
        mma(warp, d)
        warp.wgmma_commit_group()
        if right:
            warp.wgmma_wait_group(0)
        warp.mbarrier_arrive(empty)
        if not right:
            warp.wgmma_wait_group(0)


@pair("uninitialised-shared", (64, 64), **GROUPS)
def a_descriptor_of_more_rows_than_the_box(warp, right, x):
    """The tile has 32 rows; the descriptor's next 8 rows lie beyond it."""
    full = 8192
    begin(warp, {full: 1})
    with leader(warp):
        rows = 64 if right else 32
        made = TensorMap.of(x, (8, rows), element="tf32")
        warp.mbarrier_arrive_expect_tx(full, made.bytes)
        warp.cp_async_bulk_tensor_shared_global(0, made, (0, 0), full)
    warp.mbarrier_wait(full, 0)
    a = Descriptor.for_tile("tf32", 64, 8, swizzle=0, start=0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    opcode = "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32"
    warp.run(opcode, d, a, Descriptor.for_tile("tf32", 8, 8, swizzle=0, start=0), 0, 1, 1)  # <- reported
    finish(warp)
