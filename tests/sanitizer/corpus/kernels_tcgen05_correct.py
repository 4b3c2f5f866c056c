"""Correct kernels on Tensor Memory in the styles that people write them in: nothing is to be reported, in no order.

Tiles come from the upper half of g, which nothing writes; results go to the lower half.
"""

import numpy as np
from kernels_table import barrier, correct
from kernels_tcgen05 import BLACKWELL, DONE, SECOND, meet
from kernels_tcgen05_pairs import AGAIN, FULL, PAIR
from kernels_tcgen05_pairs import IDESC as OF_PAIR
from kernels_tcgen05_pairs import begin as begin_pair
from kernels_tcgen05_pairs import free as free_pair
from kernels_tcgen05_pairs import store as store_half
from kernels_tcgen05_scales import BYTES_A, BYTES_B, HELD, KIND, SCALED, SCALES, SFA, SFB
from kernels_tcgen05_scales import store as store_and_free

from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.sanitizer.rules.tcgen05 import BAR, IDESC, SLOT, A, B, commit, free, load, mma, ready, wait

#: An mbarrier at which both blocks say that their tiles are there, and one for the last commit.
BOTH, LAST = 4416, 4424
#: Where the tiles begin in g.
SOURCE = 16384
#: Two stages of A (4096 bytes) and B (256), mbarriers for each, for two accumulators, and the address of the columns.
STAGE, STAGES = 4608, 2
FULL_AT, EMPTY_AT, SUMMED_AT, STORED_AT, PLACE = 9216, 9232, 9248, 9264, 9280


def one(warp):
    return warp.only(warp.elect_sync())


def rows_of(warp, d):
    return d + (32 * (warp.warpid % 4) << 16)


def tiles_of(stage):
    """Descriptors of A and B of a stage."""
    a = Descriptor.for_tile("f16", 128, 16, swizzle=0, start=STAGE * stage)
    b = Descriptor.for_tile("f16", 8, 16, swizzle=0, start=STAGE * stage + 4096)
    return tcgen05_descriptor(a), tcgen05_descriptor(b)


def ring(warp, stored):
    """Mbarriers of a ring of stages and of two accumulators, and the address of 32 columns."""
    if warp.warpid == 0:
        with one(warp):
            for number in range(2):
                for at, count in ((FULL_AT, 1), (EMPTY_AT, 1), (SUMMED_AT, 1), (STORED_AT, stored)):
                    warp.mbarrier_init(at + 8 * number, count)
            warp.fence_mbarrier_init()
    if warp.warpid == 1:
        warp.tcgen05_alloc(PLACE, 32)
        warp.tcgen05_relinquish_alloc_permit()
    meet(warp)
    return int(warp.ld_shared(PLACE)[0, 0])


def copier(warp, g, steps):
    """One lane copies the stages."""
    with one(warp):
        for step in range(steps):
            stage, turn = step % STAGES, step // STAGES
            warp.mbarrier_wait(EMPTY_AT + 8 * stage, (turn + 1) % 2)
            warp.mbarrier_arrive_expect_tx(FULL_AT + 8 * stage, 4352)
            warp.cp_async_bulk_shared_global(STAGE * stage, g + SOURCE, 4352, FULL_AT + 8 * stage)


def multiplier(warp, d, tiles, steps):
    """One lane multiplies: `steps` for each tile, accumulators in turn."""
    with one(warp):
        for tile in range(tiles):
            accumulator, use = tile % 2, tile // 2
            warp.mbarrier_wait(STORED_AT + 8 * accumulator, (use + 1) % 2)
            warp.tcgen05_fence_after_thread_sync()
            for step in range(steps):
                number = tile * steps + step
                stage, turn = number % STAGES, number // STAGES
                warp.mbarrier_wait(FULL_AT + 8 * stage, turn % 2)
                warp.tcgen05_fence_after_thread_sync()
                warp.tcgen05_mma("f16", d + 8 * accumulator, *tiles_of(stage), IDESC, step > 0)
                warp.tcgen05_commit(EMPTY_AT + 8 * stage)
            warp.tcgen05_commit(SUMMED_AT + 8 * accumulator)


def epilogue(warp, g, d, tiles, arrive):
    """A warp stores its rows of each tile."""
    for tile in range(tiles):
        accumulator, use = tile % 2, tile // 2
        warp.mbarrier_wait(SUMMED_AT + 8 * accumulator, use % 2)
        warp.tcgen05_fence_after_thread_sync()
        found = warp.tcgen05_ld(rows_of(warp, d) + 8 * accumulator, "32x32b.x8")
        warp.tcgen05_wait_ld()
        warp.tcgen05_fence_before_thread_sync()
        arrive(warp, STORED_AT + 8 * accumulator)
        rows = 32 * (warp.warpid % 4) + warp.laneid
        warp.st_global(g + 2048 * tile + 16 * rows, found[:, :4], "v4.b32")


def by_one_lane(warp, at):
    with one(warp):
        warp.mbarrier_arrive(at)


def by_every_lane(warp, at):
    warp.mbarrier_arrive(at)


def specialised(warp, g, stored, arrive):
    """A warp copies, one multiplies, four store: three tiles of two steps."""
    d = ring(warp, stored)
    if warp.warpid == 4:
        copier(warp, g, 6)
    elif warp.warpid == 5:
        multiplier(warp, d, 3, 2)
    elif warp.warpid < 4:
        epilogue(warp, g, d, 3, arrive)
    meet(warp)
    if warp.warpid == 1:
        warp.tcgen05_dealloc(d, 32)


RING = {**BLACKWELL, "shared": 9344, "block": 192}


@correct(**RING)
def copier_multiplier_and_four_that_store(warp, g):
    specialised(warp, g, 4, by_one_lane)


@correct(**RING)
def every_lane_says_that_it_has_loaded(warp, g):
    specialised(warp, g, 128, by_every_lane)


@correct(**BLACKWELL, block=32)
def one_warp_does_everything(warp, g):
    """It loads its own quarter; the other rows nobody needs."""
    for at in range(0, 4096 + 256, 512):
        with warp.only(at + 16 * warp.laneid < 4096 + 256):
            warp.st_shared(at + 16 * warp.laneid, 0x3C003C00, "v4.b32")
    warp.fence_proxy_async()
    warp.tcgen05_alloc(SLOT, 32)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_init(BAR, 1)
        warp.fence_mbarrier_init()
    warp.bar_warp_sync()
    d = int(warp.ld_shared(SLOT)[0, 0])
    for turn in range(2):
        with one(warp):
            warp.tcgen05_mma("f16", d, A, B, IDESC, turn)
            warp.tcgen05_commit(BAR)
        warp.mbarrier_wait(BAR, turn)
        warp.tcgen05_fence_after_thread_sync()
        found = warp.tcgen05_ld(d, "32x32b.x8")
        warp.tcgen05_wait_ld()
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_warp_sync()
        warp.tcgen05_fence_after_thread_sync()
        warp.st_global(g + 512 * turn + 16 * warp.laneid, found[:, :4], "v4.b32")
    warp.tcgen05_dealloc(d, 32)


@correct(**BLACKWELL)
def one_accumulator_is_loaded_while_the_other_is_written(warp, g):
    """The second product is under way while all warps load the first."""
    d = ready(warp)
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(SECOND, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    mma(warp, d)
    commit(warp)
    mma(warp, d + 8)
    with warp.only(warp.threads == 0):
        warp.tcgen05_commit(SECOND)
    for at, column in ((BAR, 0), (SECOND, 8)):
        warp.mbarrier_wait(at, 0)
        warp.tcgen05_fence_after_thread_sync()
        found = warp.tcgen05_ld(rows_of(warp, d) + column, "32x32b.x8")
        warp.tcgen05_wait_ld()
        warp.st_global(g + 256 * column + 16 * warp.threads, found[:, :4], "v4.b32")
    free(warp, d)


@correct(**BLACKWELL)
def copies_and_products_in_one_thread_without_waits(warp, g):
    """Copy, product, copy of the next scales to the same columns, product: all pipelined."""
    with warp.only(warp.threads < 32):
        warp.st_shared(HELD + 16 * warp.threads, 0x7F7F7F7F, "v4.b32")
    d = ready(warp)
    with warp.only(warp.threads == 0):
        for step in range(3):
            for place in (SFA, SFB):
                warp.tcgen05_cp(d + place, SCALES, "32x128b.warpx4")
            warp.tcgen05_mma(KIND, d, BYTES_A, BYTES_B, SCALED, d + SFA, d + SFB, step > 0)
    commit(warp)
    wait(warp)
    store_and_free(warp, g, d)


@correct(**BLACKWELL)
def a_comes_from_tensor_memory_as_in_attention(warp, g):
    """S = A B; each warp loads its rows, and stores P, A of the next product, over them."""
    d = ready(warp)
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(SECOND, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    mma(warp, d)
    commit(warp)
    wait(warp)
    scores = load(warp, d)
    warp.tcgen05_wait_ld()
    halves = scores[...].astype(np.uint32) & 0xFFFF
    warp.tcgen05_st(rows_of(warp, d), halves, "32x32b.x8")
    warp.tcgen05_wait_st()
    meet(warp)
    with warp.only(warp.threads == 0):
        warp.tcgen05_mma("f16", d + 8, d, B, IDESC, 0)
        warp.tcgen05_commit(SECOND)
    warp.mbarrier_wait(SECOND, 0)
    warp.tcgen05_fence_after_thread_sync()
    store_and_free(warp, g, d)


@correct(**BLACKWELL)
def a_named_barrier_between_readers_and_the_one_that_multiplies(warp, g):
    """bar.arrive of the readers, bar.sync of the warp that goes on."""
    d = ready(warp)
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(SECOND, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    mma(warp, d)
    commit(warp)
    wait(warp)
    found = load(warp, d)
    warp.tcgen05_wait_ld()
    warp.tcgen05_fence_before_thread_sync()
    if warp.warpid:
        warp.run("barrier.cta.arrive.aligned", 3, 128)
    else:
        warp.run("barrier.cta.sync.aligned", 3, 128)
        warp.tcgen05_fence_after_thread_sync()
        with one(warp):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 0)
            warp.tcgen05_commit(SECOND)
    warp.st_global(g + 16 * warp.threads, found[:, :4], "v4.b32")
    warp.mbarrier_wait(SECOND, 0)
    warp.tcgen05_fence_after_thread_sync()
    free(warp, d)


@correct(**BLACKWELL)
def zeros_are_stored_and_one_commit_covers_four_products(warp, g):
    """The sum begins with what tcgen05.st left; the products alternate between two accumulators."""
    d = ready(warp)
    warp.tcgen05_st(rows_of(warp, d), 0, "32x32b.x16")
    warp.tcgen05_wait_st()
    meet(warp)
    with warp.only(warp.threads == 0):
        for step in range(4):
            warp.tcgen05_mma("f16", d + 8 * (step % 2), A, B, IDESC, 1)
    commit(warp)
    wait(warp)
    store_and_free(warp, g, d)


@correct(**BLACKWELL, block=256)
def two_warpgroups_load_the_same_accumulator(warp, g):
    """Warps 0 and 4 reach the same lanes, and each takes half of the columns; warp 5 frees what warp 0 allocated."""
    warp.st_shared(16 * warp.threads, 0, "v4.b32")
    with warp.only(warp.threads < 16):
        warp.st_shared(4096 + 16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    if warp.warpid == 0:
        warp.tcgen05_alloc(SLOT, 32)
    barrier(warp, BAR)
    d = int(warp.ld_shared(SLOT)[0, 0])
    mma(warp, d)
    commit(warp)
    wait(warp)
    column = 4 * (warp.warpid // 4)
    found = warp.tcgen05_ld(rows_of(warp, d) + column, "32x32b.x4")
    warp.tcgen05_wait_ld()
    warp.st_global(g + 16 * warp.threads, found, "v4.b32")
    warp.tcgen05_fence_before_thread_sync()
    warp.bar_sync()
    if warp.warpid == 5:
        warp.tcgen05_dealloc(d, 32)


@correct(**BLACKWELL)
def columns_are_allocated_and_freed_again_and_again(warp, g):
    """Each product has new columns; what the first allocation gave stays."""
    ready(warp)
    for turn, columns in enumerate((32, 32, 32)):
        if warp.warpid == 2:
            warp.tcgen05_alloc(DONE, columns)
        warp.bar_sync()
        d = int(warp.ld_shared(DONE)[0, 0])
        with warp.only(warp.threads == 0):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 0)
            warp.tcgen05_commit(BAR)
        warp.mbarrier_wait(BAR, turn % 2)
        warp.tcgen05_fence_after_thread_sync()
        found = load(warp, d)
        warp.tcgen05_wait_ld()
        warp.st_global(g + 2048 * turn + 16 * warp.threads, found[:, :4], "v4.b32")
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_sync()
        if warp.warpid == 2:
            warp.tcgen05_dealloc(d, columns)
    if warp.warpid == 0:
        warp.tcgen05_dealloc(int(warp.ld_shared(SLOT)[0, 0]), 32)


@correct(**BLACKWELL)
def m_of_64_twice_in_the_same_columns(warp, g):
    """Layout F: two accumulators of 64 rows, 16 lanes apart, under way together."""
    d, shape = ready(warp), instruction_descriptor(64, 8)
    with warp.only(warp.threads == 0):
        for half in (0, 16):
            warp.tcgen05_mma("f16", d + (half << 16), A, B, shape, 0)
    commit(warp)
    wait(warp)
    for half in (0, 16):
        found = warp.tcgen05_ld(rows_of(warp, d) + (half << 16), "16x256b.x1")
        warp.tcgen05_wait_ld()
        warp.st_global(g + 128 * half + 16 * warp.threads, found, "v4.b32")
    free(warp, d)


@correct(**BLACKWELL, **PAIR)
def a_pair_commits_to_both_in_two_steps(warp, g):
    """Stages are filled twice: the commit of the first product tells both blocks that they may."""
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(BOTH, 2)
        warp.mbarrier_init(LAST, 1)
    d = begin_pair(warp)
    with warp.only(warp.threads == 0):
        for turn, full in enumerate((FULL, AGAIN)):
            if turn:
                warp.mbarrier_wait(BAR, 0)
            warp.mbarrier_arrive_expect_tx(full, 4352)
            warp.cp_async_bulk_shared_global(0, g + SOURCE, 4352, full)
            warp.mbarrier_wait(full, 0)
            here = warp.mapa(BOTH, 0)
            warp.mbarrier_arrive_shared_cluster(here)
            if warp.cluster_ctarank == 0:
                warp.mbarrier_wait(BOTH, turn)
                warp.tcgen05_fence_after_thread_sync()
                warp.tcgen05_mma("f16", d, A, B, OF_PAIR, turn, cta_group=2)
                warp.tcgen05_commit(LAST if turn else BAR, 3, cta_group=2)
    warp.mbarrier_wait(LAST, 0)
    warp.tcgen05_fence_after_thread_sync()
    store_half(warp, g, d)
    free_pair(warp, d)


@correct(**BLACKWELL, block=32, grid=2, cluster=2)
def relaxed_arrivals_at_the_barrier_of_the_cluster(warp, g):
    """Allocation and deallocation need to know that the peer is there, not what it has written."""
    warp.run("barrier.cluster.arrive.relaxed.aligned")
    warp.run("barrier.cluster.wait.aligned")
    warp.tcgen05_alloc(SLOT, 32, cta_group=2)
    warp.run("barrier.cluster.arrive.relaxed.aligned")
    warp.run("barrier.cluster.wait.aligned")
    warp.bar_warp_sync()
    warp.tcgen05_dealloc(int(warp.ld_shared(SLOT)[0, 0]), 32, cta_group=2)
