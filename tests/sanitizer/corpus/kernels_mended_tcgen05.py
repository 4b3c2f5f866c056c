"""The smallest kernels that break the rules of tcgen05, mended; the sums go to global memory."""

from kernels_mended import mends

from tcemu.sanitizer.rules.tcgen05 import BAR, IDESC, SLOT, A, B, commit, free, load, mma, ready, wait
from tcemu.sanitizer.rules.tensor_memory import both_run


def one_product(warp, g, *, before=lambda warp, d: None, a=A, at=0):
    """The whole kernel: a product, committed, awaited, loaded, stored."""
    d = ready(warp)
    before(warp, d)
    if warp.warpid == 0:
        with warp.only(warp.elect_sync()):
            warp.tcgen05_mma("f16", d + at, d if a is None else a, B, IDESC, 0)
    commit(warp)
    wait(warp)
    found = load(warp, d + at)
    warp.tcgen05_wait_ld()
    warp.st_global(g + 32 * warp.threads, found[:, :4], "v4.b32")
    free(warp, d)


@mends("tcgen05-unwaited", "wait for the mbarrier's phase before the use; then tcgen05.fence::after_thread_sync")
def the_phase_is_awaited(warp, g):
    one_product(warp, g)


@mends("tcgen05-commit", "in the thread that issued the operations")
def the_same_lane_commits(warp, g):
    d = ready(warp)
    mma(warp, d)
    warp.bar_warp_sync()
    commit(warp)
    wait(warp)
    found = load(warp, d)
    warp.tcgen05_wait_ld()
    warp.st_global(g + 32 * warp.threads, found[:, :4], "v4.b32")
    free(warp, d)


@mends("tcgen05-wait", "Execute tcgen05.wait::ld after the last tcgen05.ld")
def the_load_is_awaited(warp, g):
    one_product(warp, g)


@mends("tcgen05-fence", "tcgen05.fence::after_thread_sync after the wait in the thread that goes on")
def a_fence_after_the_mbarrier(warp, g):
    one_product(warp, g)


@mends("tcgen05-race", "after tcgen05.wait at a barrier")
def zeros_are_stored_before_a_barrier(warp, g):
    def zeros(warp, d):
        if warp.warpid == 1:
            warp.tcgen05_st(d + (32 << 16), 0, "32x32b.x8")
            warp.tcgen05_wait_st()
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_sync()
        warp.tcgen05_fence_after_thread_sync()

    one_product(warp, g, before=zeros)


@mends("tcgen05-elect", "with warp.only(warp.elect_sync())")
def one_lane_multiplies(warp, g):
    d = ready(warp)
    mma(warp, d)
    commit(warp)
    warp.mbarrier_wait(BAR, 0)
    free(warp, d)


@mends("tcgen05-undefined", "Pass enable_input_d = 0 to the first tcgen05.mma")
def the_first_product_does_not_add(warp, g):
    one_product(warp, g)


@mends("tcgen05-alias", "Give each operand columns of its own")
def a_lies_beside_d(warp, g):
    def zeros(warp, d):
        warp.tcgen05_st(d + (32 * warp.warpid << 16), 0, "32x32b.x8")
        warp.tcgen05_wait_st()
        warp.tcgen05_fence_before_thread_sync()
        warp.bar_sync()
        warp.tcgen05_fence_after_thread_sync()

    one_product(warp, g, before=zeros, a=None, at=16)


@mends("tcgen05-collector", "the first product of each A with .collector::a::fill")
def the_first_product_fills_the_collector(warp, g):
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.elect_sync()):
            warp.tcgen05_mma("f16.collector::a::fill", d, A, B, IDESC, 0)
            warp.tcgen05_mma("f16.collector::a::lastuse", d, A, B, IDESC, 1)
    commit(warp)
    wait(warp)
    found = load(warp, d)
    warp.tcgen05_wait_ld()
    warp.st_global(g + 16 * warp.threads, found[:, :4], "v4.b32")
    free(warp, d)


# ---------------------------------------------------------------------------------------- what the hardware refuses


def a_row_of_columns(warp, g, count):
    """One warp stores to its columns, loads, and stores what it finds to global memory."""
    warp.tcgen05_alloc(SLOT, count)
    warp.bar_warp_sync()
    d = int(warp.ld_shared(SLOT)[0, 0])
    warp.tcgen05_st(d + count - 8, 7, "32x32b.x8")
    warp.tcgen05_wait_st()
    found = warp.tcgen05_ld(d + count - 8, "32x32b.x8")
    warp.tcgen05_wait_ld()
    warp.st_global(g + 16 * warp.threads, found[:, :4], "v4.b32")
    warp.tcgen05_dealloc(d, count)


@mends("tcgen05-allocation", "up to a power of two from 32 to 512")
def sixty_four_columns(warp, g):
    a_row_of_columns(warp, g, 64)


@mends("tcgen05-columns", "Allocate columns for all operands")
def columns_for_the_load_too(warp, g):
    a_row_of_columns(warp, g, 32)


@mends("tcgen05-lanes", "Add (32 * (warp % 4)) << 16 to the address")
def each_warp_stores_to_its_quarter(warp, g):
    d = ready(warp)
    warp.tcgen05_st(d + (32 * warp.warpid << 16), 0, "32x32b.x8")
    warp.tcgen05_wait_st()
    found = load(warp, d)
    warp.tcgen05_wait_ld()
    warp.st_global(g + 16 * warp.threads, found[:, :4], "v4.b32")
    free(warp, d)


@mends("tcgen05-descriptor", "tcemu.layouts.tcgen05_descriptor")
def a_descriptor_of_tcgen05(warp, g):
    one_product(warp, g)


@mends("tcgen05-pair", "let only the leader issue the operations")
def the_leader_copies(warp, g):
    with warp.only(warp.laneid == 0):
        warp.mbarrier_init(BAR, 1)
        warp.fence_mbarrier_init()
    for at in range(0, 4096, 512):
        warp.st_shared(at + 16 * warp.threads, 3, "v4.b32")
    warp.fence_proxy_async()
    both_run(warp)
    warp.tcgen05_alloc(SLOT, 32, cta_group=2)
    both_run(warp)
    d = int(warp.ld_shared(SLOT)[0, 0])
    with warp.only((warp.laneid == 0) & (warp.cluster_ctarank == 0)):
        warp.tcgen05_cp(d, A, "128x256b", cta_group=2)
        warp.tcgen05_commit(BAR, 3, cta_group=2)
    warp.mbarrier_wait(BAR, 0)
    warp.tcgen05_fence_after_thread_sync()
    found = warp.tcgen05_ld(d, "32x32b.x4")
    warp.tcgen05_wait_ld()
    warp.st_global(g + 512 * warp.cluster_ctarank + 16 * warp.threads, found, "v4.b32")
    both_run(warp)
    warp.tcgen05_dealloc(d, 32, cta_group=2)
