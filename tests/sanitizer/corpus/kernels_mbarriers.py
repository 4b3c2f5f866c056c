"""mbarriers: memory orders, arrivals, and their end. Each faulty kernel precedes its mended twin."""

from kernels_table import barrier, correct, faulty, one

ARRIVE = "mbarrier.arrive.{}.cta.shared::cta.b64"
WAIT = "mbarrier.try_wait.parity.{}.cta.shared::cta.b64"
BAR = 1024


def store_and_announce(warp, order, *, fence=False):
    """Warp 0 stores a row and arrives."""
    warp.st_shared(4 * warp.laneid, warp.laneid)
    if fence:
        warp.fence("acq_rel", "cta")
    warp.run(ARRIVE.format(order), BAR)


def wait(warp, order, phase=0):
    warp.run(WAIT.format(order), BAR, phase)


# ------------------------------------------------------------------------------------------------ memory orders


@faulty("shared-race", block=64)
def a_relaxed_arrival_publishes_nothing(warp, g):
    barrier(warp, BAR, count=32)
    if warp.warpid == 0:
        store_and_announce(warp, "relaxed")
    else:
        wait(warp, "acquire")
        warp.ld_shared(4 * warp.laneid)  # <- reported


@faulty("shared-race", block=64)
def a_relaxed_wait_learns_nothing(warp, g):
    barrier(warp, BAR, count=32)
    if warp.warpid == 0:
        store_and_announce(warp, "release")
    else:
        wait(warp, "relaxed")
        warp.ld_shared(4 * warp.laneid)  # <- reported


@correct(block=64)
def released_and_acquired(warp, g):
    barrier(warp, BAR, count=32)
    if warp.warpid == 0:
        store_and_announce(warp, "release")
    else:
        wait(warp, "acquire")
        warp.ld_shared(4 * warp.laneid)


@correct(block=64)
def relaxed_between_fences(warp, g):
    barrier(warp, BAR, count=32)
    if warp.warpid == 0:
        store_and_announce(warp, "relaxed", fence=True)
    else:
        wait(warp, "relaxed")
        warp.fence("acq_rel", "cta")
        warp.ld_shared(4 * warp.laneid)


@faulty("tma-unwaited", block=32)
def a_relaxed_wait_for_a_copy(warp, g):
    barrier(warp, BAR)
    with one(warp):
        warp.mbarrier_arrive_expect_tx(BAR, 128)
        warp.cp_async_bulk_shared_global(0, g, 128, BAR)
    wait(warp, "relaxed")
    warp.ld_shared(4 * warp.laneid)  # <- reported


@correct(block=32)
def an_acquiring_wait_for_a_copy(warp, g):
    barrier(warp, BAR)
    with one(warp):
        warp.mbarrier_arrive_expect_tx(BAR, 128)
        warp.cp_async_bulk_shared_global(0, g, 128, BAR)
    wait(warp, "acquire")
    warp.ld_shared(4 * warp.laneid)


# ------------------------------------------------------------------------------------------------ arrivals


@faulty("mbarrier-arrivals", block=96)
def one_warp_arrives_for_two(warp, g):
    """The count is right, and warp 1's arrival is forgotten: warp 0 arrives in its place."""
    barrier(warp, BAR, count=2)
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_arrive(BAR)
            warp.mbarrier_arrive(BAR)  # <- reported
    warp.mbarrier_wait(BAR, 0)


@correct(block=96)
def two_warps_arrive_once_each(warp, g):
    barrier(warp, BAR, count=2)
    if warp.warpid < 2:
        with one(warp):
            warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)


@correct(block=96)
def each_arrives_once_for_each_operand(warp, g):
    barrier(warp, BAR, count=2 * 64)
    if warp.warpid < 2:
        warp.mbarrier_arrive(BAR)
        warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)


@faulty("mbarrier-arrivals", block=64)
def arrivals_that_know_of_no_phase(warp, g):
    """Warp 0 arrives for two phases and waits for neither: its second arrival may count in the first phase."""
    barrier(warp, BAR, count=2)
    with one(warp):
        warp.mbarrier_arrive(BAR)
    if warp.warpid == 1:
        warp.mbarrier_wait(BAR, 0)
    else:
        warp.nanosleep(100)
    with one(warp):
        warp.mbarrier_arrive(BAR)  # <- reported


@correct(block=64)
def arrivals_after_a_wait(warp, g):
    barrier(warp, BAR, count=2)
    with one(warp):
        warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)
    with one(warp):
        warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 1)


@correct(block=64)
def arrivals_after_a_barrier_that_follows_all(warp, g):
    barrier(warp, BAR, count=2)
    for _ in range(3):
        with one(warp):
            warp.mbarrier_arrive(BAR)
        warp.bar_sync()


@correct(block=32)
def the_only_thread_that_arrives(warp, g):
    barrier(warp, BAR)
    with warp.only(warp.laneid == 0):
        for phase in range(3):
            warp.mbarrier_arrive(BAR)
            warp.mbarrier_wait(BAR, phase & 1)


# ------------------------------------------------------------------------------------------------ the end


@faulty("mbarrier-object", block=64)
def destroyed_while_others_wait(warp, g):
    barrier(warp, BAR)
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_arrive(BAR)
            warp.mbarrier_inval(BAR)  # <- reported
    else:
        warp.mbarrier_wait(BAR, 0)  # <- reported


@faulty("mbarrier-object", block=64)
def destroyed_after_a_wait_of_ones_own(warp, g):
    barrier(warp, BAR, count=2)
    with one(warp):
        warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)  # <- reported
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_inval(BAR)  # <- reported


@correct(block=64)
def destroyed_after_a_barrier(warp, g):
    barrier(warp, BAR, count=2)
    with one(warp):
        warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)
    warp.bar_sync()
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_inval(BAR)
            warp.st_shared(BAR, 1)


def last_of(warp, counter, threads):
    """As in the destructor of cuda::pipeline: one lane counts its warp, and the last one to come is elected."""
    warp.run("match.any.sync.b64", warp.laneid * 0, 0xFFFFFFFF)
    with one(warp):
        warp.fence("sc", "cta")
        before = warp.run("atom.acquire.cta.shared.add.u32", counter, 32)
        with warp.only(before[:, 0] == threads - 32):
            warp.mbarrier_inval(BAR)


@correct(block=96)
def destroyed_by_the_last_warp_to_leave(warp, g):
    barrier(warp, BAR, count=96)
    if warp.warpid == 0:
        with one(warp):
            warp.st_shared(0, 0)
    warp.bar_sync()
    warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)
    last_of(warp, 0, 96)


@faulty("mbarrier-object", block=96)
def destroyed_by_a_warp_that_takes_itself_for_the_last(warp, g):
    barrier(warp, BAR, count=96)
    if warp.warpid == 0:
        with one(warp):
            warp.st_shared(0, 0)
    warp.bar_sync()
    warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)  # <- reported
    last_of(warp, 0, 64)  # <- reported


@faulty("mbarrier-object", block=96)
def used_after_the_count(warp, g):
    barrier(warp, BAR, count=96)
    if warp.warpid == 0:
        with one(warp):
            warp.st_shared(0, 0)
    warp.bar_sync()
    warp.mbarrier_arrive(BAR)
    last_of(warp, 0, 96)  # <- reported
    warp.mbarrier_wait(BAR, 0)  # <- reported


@faulty("mbarrier-object", block=64)
def used_after_its_end(warp, g):
    barrier(warp, BAR)
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_inval(BAR)
    warp.bar_sync()
    if warp.warpid == 1:
        with one(warp):
            warp.mbarrier_arrive(BAR)  # <- reported


@faulty("mbarrier-object", block=32)
def destroyed_under_a_copy(warp, g):
    barrier(warp, BAR)
    with one(warp):
        warp.mbarrier_arrive_expect_tx(BAR, 128)
        warp.cp_async_bulk_shared_global(0, g, 128, BAR)
        warp.mbarrier_inval(BAR)  # <- reported


@faulty("mbarrier-object", block=64)
def made_again_while_in_use(warp, g):
    barrier(warp, BAR, count=2)
    with one(warp):
        warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_init(BAR, 2)  # <- reported


@faulty("mbarrier-init", block=64)
def made_again_and_used_at_once(warp, g):
    """The second mbarrier.init follows a barrier, but the volatile flag orders nothing after it."""
    barrier(warp, BAR, count=2)
    with one(warp):
        warp.mbarrier_arrive(BAR)
    warp.mbarrier_wait(BAR, 0)
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            warp.mbarrier_inval(BAR)
            warp.mbarrier_init(BAR, 2)
            warp.st_shared(0, 1, order="volatile")
            warp.mbarrier_arrive(BAR)
    else:
        while not warp.vote_sync("any", warp.ld_shared(0, order="volatile")[:, 0] == 1):
            pass
        with one(warp):
            warp.mbarrier_arrive(BAR)  # <- reported


@correct(block=64)
def made_again_between_barriers(warp, g):
    for _ in range(2):
        barrier(warp, BAR, count=2)
        with one(warp):
            warp.mbarrier_arrive(BAR)
        warp.mbarrier_wait(BAR, 0)
        warp.bar_sync()
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_inval(BAR)


# ------------------------------------------------------------------------------------------------ phases


@faulty("mbarrier-arrivals", block=64)
def a_phase_that_a_slow_warp_may_miss(warp, g):
    """Warp 0 begins the next phase without knowing that warp 1 has seen this one."""
    barrier(warp, BAR)
    for phase in range(2):
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_arrive(BAR)
                warp.mbarrier_wait(BAR, phase)
        elif not phase:
            warp.mbarrier_wait(BAR, 0)  # <- reported


@correct(block=64)
def a_phase_that_nobody_misses(warp, g):
    barrier(warp, BAR)
    for phase in range(2):
        if warp.warpid == 0:
            with one(warp):
                warp.mbarrier_arrive(BAR)
                warp.mbarrier_wait(BAR, phase)
        else:
            warp.mbarrier_wait(BAR, phase)
        warp.bar_sync()


@faulty("tma-unwaited", block=32)
def a_copy_that_nobody_waits_for(warp, g):
    """A producer that loads one tile too many."""
    barrier(warp, BAR, BAR + 8)
    for stage in range(2):
        with one(warp):
            warp.mbarrier_arrive_expect_tx(BAR + 8 * stage, 128)
            warp.cp_async_bulk_shared_global(128 * stage, g, 128, BAR + 8 * stage)  # <- reported
    warp.mbarrier_wait(BAR, 0)
    warp.ld_shared(4 * warp.laneid)


# ------------------------------------------------------------------------------------------------ fences of the init


def init_and_copy(warp, g, space):
    """One lane initialises an mbarrier, executes fence.proxy.async for a space, and starts a copy."""
    with one(warp):
        warp.mbarrier_init(BAR, 1)
        warp.fence_proxy_async(space)
        warp.mbarrier_arrive_expect_tx(BAR, 512)
        warp.cp_async_bulk_shared_global(0, g, 512, BAR)
    warp.bar_warp_sync()
    warp.mbarrier_wait(BAR, 0)


@faulty("mbarrier-init-fence", block=32)
def a_proxy_fence_of_the_other_memory(warp, g):
    """The mbarrier is in shared memory."""
    init_and_copy(warp, g, "global")  # <- reported


@correct(block=32)
def a_proxy_fence_of_shared_memory(warp, g):
    init_and_copy(warp, g, "shared::cta")
