"""The smallest kernel that breaks each rule, after the first advice of its report has been followed.

`mends` names the rule and the words of the fix that the kernel follows. Where the broken kernel leaves nothing behind,
this one stores what it found, so that a result that depends on the order would show.
"""

from dataclasses import dataclass, field

import numpy as np

from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import words_of
from tcemu.sanitizer.rules.copies import LDMATRIX
from tcemu.sanitizer.rules.fragments import WMMA, WMMA_LOAD
from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, barrier, fill, finish, ready
from tcemu.sanitizer.rules.wgmma import OTHER


@dataclass(frozen=True)
class Mended:
    """A kernel, the words of the fix that it follows, and how it is launched if not as the broken one."""

    kernel: object
    advice: str
    options: dict = field(default_factory=dict)


MENDED: dict[str, Mended] = {}


def mends(rule, advice, **options):
    """Put a kernel into the table."""

    def add(kernel):
        MENDED[rule] = Mended(kernel, advice, options)
        return kernel

    return add


def stored(warp, g, d):
    """The accumulator goes to global memory."""
    warp.st_global(g + 16 * warp.threads, d, "v4.b32")


def started(warp):
    """The tiles, and an accumulator of zeros behind a fence."""
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    return d


# ------------------------------------------------------------------------------------------------ copies


@mends("overwritten-early", "with wgmma.wait_group for the mma_async's group; then notify the writer with a barrier")
def the_tile_is_stored_after_the_wait(warp, g):
    d = started(warp)
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)
    warp.bar_sync()
    warp.st_shared(16 * warp.threads, 1, "v4.b32")
    stored(warp, g, d)


@mends("tma-unwaited", "Wait on the mbarrier with the parity of the copy's phase")
def all_lanes_wait(warp, g):
    barrier(warp, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_expect_tx(1024, 512)
        warp.cp_async_bulk_shared_global(0, g, 512, 1024)
    warp.mbarrier_wait(1024, 0)
    warp.st_global(g + 512 + 16 * warp.laneid, warp.ld_shared(16 * warp.laneid, "v4.b32"), "v4.b32")


@mends("expect-tx", "Expect the sum of the bytes of all copies")
def as_many_bytes_as_are_copied(warp, g):
    barrier(warp, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_expect_tx(1024, 512)
        warp.cp_async_bulk_shared_global(0, g, 512, 1024)
    warp.mbarrier_wait(1024, 0)


@mends("cp-async-unwaited", "Before the barrier, execute cp.async.wait_all in the threads that copy")
def rows_of_all_warps_behind_the_wait(warp, g):
    warp.cp_async(16 * warp.threads, g + 16 * warp.threads, 16)
    warp.cp_async_wait_all()
    warp.bar_sync()
    x = warp.run(LDMATRIX, 64 * warp.laneid + 16 * warp.warpid)
    warp.st_global(g + 4096 + 16 * warp.threads, x, "v4.b32")


@mends("not-a-tensor-map", "Copy a whole map to this place before the first copy uses it", shared=8192)
def a_map_of_the_group(warp, g):
    barrier(warp, 1024)
    warp.st_global(g + 4 * warp.laneid, words_of(TensorMap(int(g) + 1024, "u32", (32,), (), (32,))))
    warp.run("fence.proxy.tensormap::generic.release.gpu")
    warp.bar_warp_sync()
    with warp.only(warp.laneid == 0):
        warp.run("fence.proxy.tensormap::generic.acquire.gpu", g, 128)
        warp.mbarrier_arrive_expect_tx(1024, 128)
        warp.cp_async_bulk_tensor_shared_global(0, g, (0,), 1024)
    warp.mbarrier_wait(1024, 0)


@mends("cp-async-src-size", "Limit src-size to cp-size")
def as_much_of_the_source_as_fits(warp, g):
    left = 20
    warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16, np.clip(left - 16 * warp.laneid, 0, 16))
    warp.cp_async_wait_all()


# ------------------------------------------------------------------------------------------------ divergence


@mends("aligned-divergent", "Move the instruction out of the branch")
def a_barrier_of_the_whole_warp(warp, g):
    warp.bar_sync()


@mends("absent-lanes", "Execute shfl.sync in all lanes")
def all_lanes_shuffle(warp, g):
    x = warp.shfl_sync("down", warp.laneid, 16)
    with warp.only(warp.laneid < 16):
        warp.st_global(g + 4 * warp.laneid, x)


@mends("warpgroup-divergent", "independent of the warp's number")
def all_warps_commit(warp, g):
    d = started(warp)
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)
    stored(warp, g, d)


@mends("barrier-threads", "Give each barrier the same number everywhere")
def a_barrier_with_one_count(warp, g):
    warp.bar_sync(1, 128)


@mends("barriers-parted", "arrive at the same barriers in the same order")
def both_halves_at_both_barriers(warp, g):
    warp.run("barrier.arrive", 1, 32)
    warp.run("barrier.arrive", 2, 32)


@mends("setmaxnreg-count", "Use .inc if the new number is greater")
def the_right_word_for_more_registers(warp, g):
    warp.setmaxnreg("dec", 40)
    warp.setmaxnreg("inc", 232)


@mends("exited-threads", "Keep all threads running until the last barrier")
def no_warp_leaves_its_warpgroup(warp, g):
    d = started(warp)
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)


@mends("flag-never-set", "Store the value that the loop waits for, in a thread that does not wait")
def a_flag_that_the_other_warp_sets(warp, g):
    if warp.warpid == 1:
        while (warp.ld_global(g, order="acquire")[:, 0] == 0).all():
            warp.nanosleep(20)
    else:
        with warp.only(warp.laneid == 0):
            warp.st_global(g, 1, order="release")


@mends("deadlock", "Compare the expected counts with the threads that arrive")
def an_mbarrier_for_as_many_as_arrive(warp, g):
    barrier(warp, 0, count=32)
    warp.mbarrier_arrive(0)
    warp.mbarrier_wait(0, 0)


# ------------------------------------------------------------------------------------------------ memory


@mends("wmma-mixed", "Load the fragment with the wmma.load that matches")
def a_fragment_of_each(warp, g):
    a = warp.run(WMMA_LOAD, g, 16)
    b = warp.run(WMMA_LOAD.replace("load.a", "load.b").replace("row", "col"), g, 16)
    c = warp.run(WMMA, a, b, warp.registers(8, fill=0))
    warp.st_global(g + 4096 + 4 * warp.laneid, c[:, 0])


@mends("shared-race", "give each bytes of its own: compute the address from the number of the warp")
def each_warp_writes_its_own(warp, g):
    warp.st_shared(128 * warp.warpid + 4 * warp.laneid, warp.warpid)
    warp.bar_sync()


@mends("stale-load", "Execute a fence (__threadfence) between the two stores and another between the two loads")
def fences_between_data_and_flag(warp, g):
    with warp.only(warp.laneid == 0):
        if warp.ctaid[0] == 0:
            for step in range(3):
                warp.st_global(g + 4, step, order="volatile")
                warp.fence()
                warp.st_global(g, step, order="volatile")
        else:
            for step in range(3):
                while warp.ld_global(g, order="volatile")[0, 0] < step:
                    warp.nanosleep(20)
            warp.fence()
            warp.st_global(g + 8, warp.ld_global(g + 4, order="volatile"))


@mends("global-race", "then set a flag or a counter; in the other thread, wait for that in a loop")
def a_block_waits_for_what_the_other_one_writes(warp, g):
    if warp.ctaid[0] == 0:
        warp.st_global(g + 4 * warp.laneid, 1)
        warp.fence()
        warp.red_global("add.u32", g + 256, 1)
    else:
        while warp.ld_global(g + 256, order="relaxed.gpu")[0, 0] < 32:
            warp.nanosleep(20)
        warp.fence()
        warp.st_global(g + 512 + 4 * warp.laneid, warp.ld_global(g + 4 * warp.laneid))


@mends("lane-race", "Put bar.warp.sync between the two accesses")
def lanes_swap_behind_a_sync(warp, g):
    warp.st_shared(4 * warp.laneid, warp.laneid)
    warp.bar_warp_sync()
    warp.st_global(g + 4 * warp.laneid, warp.ld_shared(4 * (31 - warp.laneid)))


@mends("ldmatrix-unsynced", "bar.warp.sync if only the warp's own lanes stored the bytes")
def ldmatrix_behind_a_sync(warp, g):
    warp.st_shared(16 * warp.laneid, 1, "v4.b32")
    warp.bar_warp_sync()
    warp.st_global(g + 16 * warp.laneid, warp.run(LDMATRIX, 16 * warp.laneid), "v4.b32")


@mends("uninitialised-shared", "Write all of the bytes before reading them")
def a_load_after_a_store(warp, g):
    warp.st_shared(4 * warp.laneid, 7)
    warp.st_global(g + 4 * warp.laneid, warp.ld_shared(4 * warp.laneid))


@mends("uninitialised-registers", "Write the registers first")
def registers_written_first(warp, g):
    x = warp.registers(2)
    x[...] = 5
    warp.st_global(g + 4 * warp.laneid, x[:, 0])


@mends("out-of-range", "At an edge, disable the lanes that are outside")
def up_to_the_end_of_an_array(warp, g):
    with warp.only(g.nbytes - 64 + 4 * warp.laneid < g.nbytes):
        warp.ld_global(g + g.nbytes - 64 + 4 * warp.laneid)


@mends("misaligned", "Align the address")
def a_wide_store_at_wide_steps(warp, g):
    warp.st_shared(16 * warp.laneid, 0, "v4.b32")


@mends("mbarrier-init", "then bar.sync in all threads")
def other_lanes_wait_behind_a_barrier(warp, g):
    with warp.only(warp.laneid == 0):
        warp.mbarrier_init(0, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive(0)
    warp.mbarrier_wait(0, 0)


@mends("mbarrier-init-fence", "execute fence.mbarrier_init in the same thread")
def an_init_that_copies_see(warp, g):
    barrier(warp, 1024)
    if warp.warpid == 1:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_arrive_expect_tx(1024, 512)
            warp.cp_async_bulk_shared_global(0, g, 512, 1024)
    warp.mbarrier_wait(1024, 0)


@mends("mbarrier-arrivals", "Compare the count of mbarrier.init with the threads that arrive")
def as_many_lanes_arrive_as_are_counted(warp, g):
    barrier(warp, 0, count=64)
    warp.mbarrier_arrive(0)


@mends("mbarrier-object", "Give the mbarrier its own bytes")
def a_store_beside_an_mbarrier(warp, g):
    barrier(warp, 128)
    warp.st_shared(4 * warp.laneid, np.uint32(0))


# ------------------------------------------------------------------------------------------------ proxies and tiles


@mends("proxy-fence-missing", "Execute fence.proxy.async in the writing threads after their stores, then a barrier")
@mends("proxy-fence-thread", "Execute fence.proxy.async in every thread that stores, then a barrier")
@mends("proxy-fence-barrier", "Put the barrier after fence.proxy.async: stores, fence, barrier, use")
def stores_a_fence_a_barrier_and_wgmma(warp, g):
    fill(warp)
    warp.fence_proxy_async()
    warp.bar_sync()
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)
    stored(warp, g, d)


@mends("lanes-disagree", "Let one lane store")
def one_lane_stores_the_result(warp, g):
    with warp.only(warp.laneid == 0):
        warp.st_global(g, warp.laneid)


def multiplied(warp, g, box, descriptor):
    """The box is A, and its first rows are B."""
    barrier(warp, 4096)
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(4096, box.bytes)
        warp.cp_async_bulk_tensor_shared_global(0, box, (0, 0), 4096)
    warp.mbarrier_wait(4096, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, descriptor, descriptor, *ORDINARY)
    finish(warp)
    stored(warp, g + 8192, d)


@mends("swizzle-mismatch", "Give the tensor map and the descriptor the same swizzle")
@mends("tile-layout", "Give the tensor map and the descriptor a swizzle of 32 bytes")
def a_box_and_a_descriptor_with_one_swizzle(warp, g):
    box = TensorMap(int(g), "f16", (16, 64), (32,), (16, 64), swizzle=32)
    multiplied(warp, g, box, Descriptor.for_tile("f16", 64, 16, swizzle=32))


# ------------------------------------------------------------------------------------------------ wgmma


@mends("wgmma-fence-first", "Execute wgmma.fence in all four warps before the first mma_async")
@mends("wgmma-fence-touched", "Move the access before the wgmma.fence")
@mends("wgmma-fence-unneeded", "Remove the fence")
@mends("wgmma-unwaited", "Execute wgmma.commit_group and wgmma.wait_group before the access")
@mends("wgmma-wait-weak", "Give wgmma.wait_group a smaller N before the access")
@mends("wgmma-uncommitted", "Execute wgmma.commit_group after the last mma_async of the group, and wait after that")
@mends("wgmma-descriptors", "Compute the descriptors only from values that the four warps share")
def one_product_as_it_should_be(warp, g):
    d = started(warp)
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)
    stored(warp, g, d)


@mends("wgmma-fence-shape", "Wait for the first mma_async, then execute wgmma.fence before the second")
def another_shape_after_the_wait(warp, g):
    d = started(warp)
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)
    warp.wgmma_fence()
    warp.run(OTHER, d, *TILES, 1, 1, 1)
    finish(warp)
    stored(warp, g, d)


@mends("warpgroup-start", "round the number of warps up to a multiple of four", block=128)
def four_warps_are_a_warpgroup(warp, g):
    d = started(warp)
    warp.run(MMA, d, *TILES, *ORDINARY)
    finish(warp)


# ------------------------------------------------------------------------------------------------ launch control

CANCEL = "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
QUERY = "clusterlaunchcontrol.query_cancel"


def asked(warp):
    """The response to a request, once the phase of its mbarrier has completed."""
    barrier(warp, 64)
    with warp.only(warp.elect_sync()):
        warp.mbarrier_arrive_expect_tx(64, 16)
        warp.run(CANCEL, 0, 64)
    warp.mbarrier_wait(64, 0)
    return warp.run("ld.shared.b128", 0)


@mends("cancel-after-failure", "Leave the loop when query_cancel.is_canceled is false")
def it_stops_when_a_request_has_failed(warp, g):
    if not warp.run(f"{QUERY}.is_canceled.pred.b128", asked(warp)).all():
        return
    with warp.only(warp.elect_sync()):
        warp.run(CANCEL, 16, 64)


@mends("cancel-response", "ask for the first ctaid only if is_canceled is true")
def it_asks_only_if_a_cluster_was_cancelled(warp, g):
    response = asked(warp)
    if warp.run(f"{QUERY}.is_canceled.pred.b128", response).all():
        warp.run(f"{QUERY}.get_first_ctaid::x.b32.b128", response)
