"""Kernels on Tensor Memory: mistakes that were made in well-known libraries, in our own words, each with its twin.

The numbers are those of the mistakes in the issues of those projects; the twin of `name` is `name_mended`.
"""

from kernels_table import correct, faulty

from tcemu.layouts import instruction_descriptor
from tcemu.sanitizer.rules.tcgen05 import BAR, IDESC, SLOT, A, B, commit, free, load, mma, ready, wait

BLACKWELL = {"target": "sm_100a"}
#: An mbarrier for the readers, and one for further commits.
DONE, SECOND = 4400, 4408
#: Products of another shape: 64 x 8.
SMALLER = instruction_descriptor(64, 8)


def both(rule, **options):
    """Put kernel(warp, g, right) into both tables: with right=False it breaks `rule`."""

    def add(kernel):
        def broken(warp, g):
            kernel(warp, g, False)

        def mended(warp, g):
            kernel(warp, g, True)

        for made, name in ((broken, kernel.__name__), (mended, f"{kernel.__name__}_mended")):
            made.__name__, made.__wrapped__ = name, kernel
        faulty(rule, **BLACKWELL, **options)(broken)
        correct(**BLACKWELL, **options)(mended)
        return kernel

    return add


def barriers(warp, count):
    """One more mbarrier for commits, and one for `count` arrivals."""
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(DONE, count)
            warp.mbarrier_init(SECOND, 1)
            warp.fence_mbarrier_init()
    warp.bar_sync()


def meet(warp):
    """A barrier between operations of tcgen05."""
    warp.tcgen05_fence_before_thread_sync()
    warp.bar_sync()
    warp.tcgen05_fence_after_thread_sync()


def store(warp, g, found):
    """Four columns of each row."""
    warp.st_global(g + 16 * warp.threads, found[:, :4], "v4.b32")


def relaxed(warp):
    """Wait for the products, without acquiring anything."""
    while not warp.run("mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64", BAR, 0).all():
        pass


def summed(warp):
    """The columns, with one sum that every warp may load."""
    d = ready(warp)
    mma(warp, d)
    commit(warp)
    wait(warp)
    return d


# ------------------------------------------------------------------------------------------------ waits of ld and st


@both("tcgen05-wait")
def columns_are_freed_while_unused_lanes_load(warp, g, right):
    """3: the loads of lanes whose results nobody needs are operations, too."""
    d = summed(warp)
    load(warp, d)
    if right or warp.warpid:
        warp.tcgen05_wait_ld()
    warp.tcgen05_fence_before_thread_sync()
    warp.bar_sync()
    if warp.warpid == 0:
        warp.tcgen05_dealloc(d, 32)  # <- reported


@both("tcgen05-wait")
def an_accumulator_is_released_before_the_wait(warp, g, right):
    """4 and 5: the arrival says that the columns are free, but the loads are still under way."""
    d = ready(warp)
    barriers(warp, 4)
    mma(warp, d)
    commit(warp)
    wait(warp)
    found = load(warp, d)
    if right:
        warp.tcgen05_wait_ld()
    warp.tcgen05_fence_before_thread_sync()
    with warp.only(warp.elect_sync()):
        warp.mbarrier_arrive(DONE)
    if warp.warpid == 0:
        warp.mbarrier_wait(DONE, 0)
        warp.tcgen05_fence_after_thread_sync()
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 0)  # <- reported
            warp.tcgen05_commit(SECOND)
    warp.tcgen05_wait_ld()
    store(warp, g, found)
    warp.mbarrier_wait(SECOND, 0)
    free(warp, d)


@both("tcgen05-wait")
def only_the_first_of_two_loads_is_awaited(warp, g, right):
    """18: the wait comes before the second load."""
    d = summed(warp)
    row = d + (32 * warp.warpid << 16)
    warp.tcgen05_ld(row, "32x32b.x4")
    if not right:
        warp.tcgen05_wait_ld()
    second = warp.tcgen05_ld(row + 4, "32x32b.x4")
    if right:
        warp.tcgen05_wait_ld()
    warp.st_global(g + 16 * warp.threads, second, "v4.b32")  # <- reported
    warp.tcgen05_wait_ld()
    free(warp, d)


@both("tcgen05-wait")
def a_stored_operand_is_multiplied_before_the_wait(warp, g, right):
    """As 4, the other way round: P of attention goes to Tensor Memory by tcgen05.st."""
    d = ready(warp)
    warp.tcgen05_st(d + 16 + (32 * warp.warpid << 16), 0, "32x32b.x8")
    if right:
        warp.tcgen05_wait_st()
    meet(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, d + 16, B, IDESC, 0)  # <- reported
    warp.tcgen05_wait_st()
    commit(warp)
    wait(warp)
    free(warp, d)


# ------------------------------------------------------------------------------------------------ fences


@both("tcgen05-fence")
def no_fence_before_the_arrival(warp, g, right):
    """6: the readers arrive without a fence."""
    d = ready(warp)
    barriers(warp, 4)
    mma(warp, d)
    commit(warp)
    wait(warp)
    found = load(warp, d)
    warp.tcgen05_wait_ld()
    if right:
        warp.tcgen05_fence_before_thread_sync()
    with warp.only(warp.elect_sync()):
        warp.mbarrier_arrive(DONE)
    if warp.warpid == 0:
        warp.mbarrier_wait(DONE, 0)
        warp.tcgen05_fence_after_thread_sync()
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 0)  # <- reported
            warp.tcgen05_commit(SECOND)
    store(warp, g, found)
    warp.mbarrier_wait(SECOND, 0)
    free(warp, d)


@both("tcgen05-fence")
def a_relaxed_wait_without_a_fence(warp, g, right):
    """The manual's own pattern has a relaxed wait, and the fence after it."""
    d = ready(warp)
    mma(warp, d)
    commit(warp)
    relaxed(warp)
    if right:
        warp.tcgen05_fence_after_thread_sync()
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    store(warp, g, found)
    free(warp, d)


@both("proxy-fence-missing")
def tiles_stored_without_a_proxy_fence(warp, g, right):
    """7: the tensor core reads shared memory through the async proxy."""
    d = ready(warp)
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    if right:
        warp.fence_proxy_async()
    warp.bar_sync()
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 0)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@both("proxy-fence-barrier", shared=12288)
def no_barrier_before_the_copy(warp, g, right):
    """14: another warp has stored the scale factors that cp copies."""
    d = ready(warp)
    for half in (8192, 10240):
        warp.st_shared(16 * warp.threads + half, 1, "v4.b32")
    warp.fence_proxy_async()
    if right:
        warp.bar_sync()
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_cp(d, A + (8192 >> 4), "128x256b")  # <- reported
    commit(warp)
    warp.bar_sync()
    wait(warp)
    free(warp, d)


# ------------------------------------------------------------------------------------------------ what has not ended


@both("overwritten-early")
def a_tile_is_refilled_before_the_phase(warp, g, right):
    """The tensor core still reads the tile."""
    d = ready(warp)
    mma(warp, d)
    commit(warp)
    if right:
        wait(warp)
    warp.bar_sync()
    warp.st_shared(16 * warp.threads, 2, "v4.b32")  # <- reported
    wait(warp)
    free(warp, d)


@both("tcgen05-unwaited")
def scale_factors_land_on_the_accumulator(warp, g, right):
    """12: aliased columns; the copy writes where the product has not been read yet."""
    d = ready(warp)
    mma(warp, d)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_cp(d + (16 if right else 0), A, "128x256b")  # <- reported
    commit(warp)
    wait(warp)
    store(warp, g, load_now(warp, d))
    free(warp, d)


def load_now(warp, d):
    """The values of a load."""
    found = load(warp, d)
    warp.tcgen05_wait_ld()
    return found


@both("tcgen05-unwaited")
def a_product_of_another_shape_adds(warp, g, right):
    """Only products of the same shape into the same D come in order."""
    d = ready(warp)
    mma(warp, d)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            shape = IDESC if right else SMALLER
            warp.tcgen05_mma("f16", d, A, B, shape, 1)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@both("tcgen05-unwaited")
def two_warps_add_in_turn(warp, g, right):
    """Products of two warps are not pipelined, even behind a barrier."""
    d = ready(warp)
    barriers(warp, 1)
    mma(warp, d)
    commit(warp)
    if right:
        wait(warp)
    meet(warp)
    if warp.warpid == 1:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 1)  # <- reported
            warp.tcgen05_commit(SECOND)
    wait(warp)
    warp.mbarrier_wait(SECOND, 0)
    free(warp, d)


@both("tcgen05-unwaited")
def nothing_is_committed(warp, g, right):
    """A barrier of threads does not wait for the tensor core."""
    d = ready(warp)
    mma(warp, d)
    if right:
        commit(warp)
        wait(warp)
    meet(warp)
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    store(warp, g, found)
    free(warp, d)


@both("uninitialised-registers")
def no_tile_of_k(warp, g, right):
    """19: with no k tiles, nothing has written the accumulator that is stored."""
    d = ready(warp)
    if right:
        mma(warp, d)
    commit(warp)
    wait(warp)
    found = load_now(warp, d)
    warp.st_global(g + 16 * warp.threads, found[:, :4], "v4.b32")  # <- reported
    free(warp, d)


@both("proxy-fence-missing")
def the_slot_of_the_allocation_lies_in_a_tile(warp, g, right):
    """13: the address of the columns is read after the tile has overwritten it."""
    slot = SLOT if right else 1024
    if warp.warpid == 0:
        warp.tcgen05_alloc(slot, 32)
    warp.bar_sync()
    d = int(warp.ld_shared(slot)[0, 0])
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(BAR, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(BAR, 4096)
            warp.cp_async_bulk_shared_global(0, g, 4096, BAR)  # <- reported
    warp.bar_sync()
    warp.mbarrier_wait(BAR, 0)
    warp.bar_sync()
    if warp.warpid == 0:
        warp.tcgen05_dealloc(d, 32)


# ------------------------------------------------------------------------------------------------ who issues what


@both("tcgen05-commit")
def another_warp_commits(warp, g, right):
    """A commit covers only what its own thread has issued."""
    d = ready(warp)
    mma(warp, d)
    meet(warp)
    if warp.warpid == (0 if right else 1):
        with warp.only(warp.laneid == 0):
            warp.tcgen05_commit(BAR)
    wait(warp)
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    store(warp, g, found)
    free(warp, d)


@both("tcgen05-elect")
def every_lane_copies(warp, g, right):
    """A copy without elect.sync: 32 copies."""
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only((warp.laneid == 0) | (not right)):
            warp.tcgen05_cp(d, A, "128x256b")  # <- reported
    meet(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_cp(d + 16, A, "128x256b")
            warp.tcgen05_commit(BAR)
    wait(warp)
    free(warp, d)


@both("tcgen05-undefined")
def the_second_accumulator_is_never_zeroed(warp, g, right):
    """Two accumulators, and only the first sum of the first one begins anew."""
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            for step in range(4):
                warp.tcgen05_mma("f16", d + 8 * (step % 2), A, B, IDESC, step >= (2 if right else 1))  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@both("tcgen05-alias")
def a_begins_in_the_last_columns_of_d(warp, g, right):
    """12: columns counted in elements instead of words."""
    d = ready(warp)
    a = d + (8 if right else 4)
    warp.tcgen05_st(d + (32 * warp.warpid << 16), 0, "32x32b.x32")
    warp.tcgen05_wait_st()
    meet(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, a, B, IDESC, 0)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@both("tcgen05-race")
def the_next_sum_does_not_wait_for_the_readers(warp, g, right):
    """17: a phase is missing between those who load the accumulator and the thread that uses it again."""
    d = ready(warp)
    barriers(warp, 4)
    mma(warp, d)
    commit(warp)
    wait(warp)
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    warp.tcgen05_fence_before_thread_sync()
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive(DONE)
    if warp.warpid == 0:
        if right:
            warp.mbarrier_wait(DONE, 0)
            warp.tcgen05_fence_after_thread_sync()
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 0)  # <- reported
            warp.tcgen05_commit(SECOND)
    store(warp, g, found)
    warp.mbarrier_wait(SECOND, 0)
    free(warp, d)
