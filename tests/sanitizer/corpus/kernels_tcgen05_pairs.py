"""Kernels of two blocks on Tensor Memory: mistakes of well-known libraries in our own words, each with its twin.

The numbers are those of the mistakes in the issues of those projects.
"""

from kernels_tcgen05 import both

from tcemu.layouts import instruction_descriptor
from tcemu.machine.tensor_map import TensorMap
from tcemu.sanitizer.rules.tcgen05 import BAR, SLOT, A, B
from tcemu.sanitizer.rules.tensor_memory import both_run

PAIR = {"grid": 2, "cluster": 2}
ONE_WARP = {**PAIR, "block": 32}
#: More mbarriers: two at which bytes arrive, and one for the commit of another block.
FULL, AGAIN, OTHER = 4400, 4408, 4416
#: The product of a pair: 256 x 16. Each block has 128 rows of A and 8 of B.
IDESC = instruction_descriptor(256, 16)
OF_ONE = instruction_descriptor(128, 8)
MULTICAST = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
LOAD = "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2"


def fill(warp, count=1):
    """Both tiles and two mbarriers in each block; both run."""
    for half in (0, 2048):
        warp.st_shared(16 * warp.threads + half, 0, "v4.b32")
    with warp.only(warp.threads < 16):
        warp.st_shared(4096 + 16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(BAR, count)
        for at in (FULL, AGAIN):
            warp.mbarrier_init(at, 1)
        warp.fence_mbarrier_init()
    both_run(warp)


def begin(warp, *, group=2, count=1):
    """Both tiles and two mbarriers in each block, and the address of 32 columns of both."""
    fill(warp, count)
    if warp.warpid == 0:
        warp.tcgen05_alloc(SLOT, 32, cta_group=group)
    both_run(warp)
    return int(warp.ld_shared(SLOT)[0, 0])


def multiply(warp, d, *, bits=IDESC, mask=3):
    """A thread of the leader multiplies for both blocks, and tells those of the mask."""
    with warp.only((warp.threads == 0) & (warp.cluster_ctarank == 0)):
        warp.tcgen05_mma("f16", d, A, B, bits, 0, cta_group=2)
        warp.tcgen05_commit(BAR, mask, cta_group=2)


def wait(warp, at=BAR):
    warp.mbarrier_wait(at, 0)
    warp.tcgen05_fence_after_thread_sync()


def store(warp, g, d, columns=16):
    """Each block stores its half of D."""
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), f"32x32b.x{columns}")
    warp.tcgen05_wait_ld()
    at = g + 128 * columns * 4 * warp.cluster_ctarank + 4 * columns * warp.threads
    for column in range(0, columns, 4):
        warp.st_global(at + 4 * column, found[:, column : column + 4], "v4.b32")


def free(warp, d, group=2):
    both_run(warp)
    if warp.warpid == 0:
        warp.tcgen05_dealloc(d, 32, cta_group=group)


# ------------------------------------------------------------------------------------------------ columns of both


@both("tcgen05-pair", **ONE_WARP)
def the_pair_is_freed_before_the_peer_has_allocated(warp, g, right):
    """1: a kernel that turns out to have nothing to do. On a B300 every launch failed."""
    both_run(warp)
    warp.tcgen05_alloc(SLOT, 32, cta_group=2)
    if right:
        both_run(warp)
    else:
        warp.bar_warp_sync()
    warp.tcgen05_dealloc(int(warp.ld_shared(SLOT)[0, 0]), 32, cta_group=2)  # <- reported


@both("tcgen05-pair", **ONE_WARP)
def columns_of_a_peer_that_may_not_run_yet(warp, g, right):
    """2: no cluster barrier before the allocation."""
    if right:
        both_run(warp)
    warp.tcgen05_alloc(SLOT, 32, cta_group=2)  # <- reported
    both_run(warp)
    warp.tcgen05_dealloc(int(warp.ld_shared(SLOT)[0, 0]), 32, cta_group=2)


@both("tcgen05-pair", **PAIR)
def the_leader_multiplies_before_the_follower_has_columns(warp, g, right):
    """As 1, the other way round: a barrier of the block where one of the cluster is needed."""
    fill(warp)
    if warp.warpid == 0:
        warp.tcgen05_alloc(SLOT, 32, cta_group=2)
    if right:
        both_run(warp)
    warp.bar_sync()
    d = int(warp.ld_shared(SLOT)[0, 0])
    with warp.only((warp.threads == 0) & (warp.cluster_ctarank == 0)):
        warp.tcgen05_mma("f16", d, A, B, IDESC, 0, cta_group=2)  # <- reported
        warp.tcgen05_commit(BAR, 3, cta_group=2)
    wait(warp)
    free(warp, d)


@both("tcgen05-unwaited", **PAIR)
def the_follower_stores_before_the_commit(warp, g, right):
    """The follower's half of D is an operation of the leader, too: its own threads must wait for it."""
    d = begin(warp)
    multiply(warp, d)
    both_run(warp)
    if right or warp.cluster_ctarank == 0:
        wait(warp)
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    warp.st_global(g + 4096 * warp.cluster_ctarank + 16 * warp.threads, found[:, :4], "v4.b32")
    wait(warp)
    free(warp, d)


@both("tcgen05-unwaited", **PAIR)
def the_follower_frees_what_the_leader_multiplies(warp, g, right):
    """The columns of both are in use until the product has ended."""
    d = begin(warp)
    multiply(warp, d)
    if right:
        wait(warp)
    both_run(warp)
    if warp.warpid == 0:
        warp.tcgen05_dealloc(d, 32, cta_group=2)  # <- reported
    wait(warp)
    both_run(warp)


# ------------------------------------------------------------------------------------------------ commits and bytes


@both("deadlock", **PAIR)
def the_mask_of_the_commit_is_dropped(warp, g, right):
    """25: the commit tells the leader only, and the follower waits for ever."""
    d = begin(warp)
    multiply(warp, d, mask=3 if right else 1)
    wait(warp)  # <- reported
    store(warp, g, d)
    free(warp, d)


@both("expect-tx", **PAIR)
def bytes_of_the_follower_at_its_own_mbarrier(warp, g, right):
    """15: the leader waits for the bytes of both, and the follower's arrive at the follower's mbarrier."""
    d = begin(warp)
    with warp.only(warp.threads == 0):
        if warp.cluster_ctarank == 0:
            warp.mbarrier_arrive_expect_tx(FULL, 512)  # <- reported
        box = TensorMap.of(g, (256,))
        counted = warp.mapa(FULL, 0 if right else warp.cluster_ctarank)
        warp.run(LOAD, 4096, box, (256 * warp.cluster_ctarank,), counted)  # <- reported
    if warp.cluster_ctarank == 0:
        wait(warp, FULL)
    multiply(warp, d)
    wait(warp)
    store(warp, g, d)
    free(warp, d)


@both("expect-tx", **PAIR)
def each_block_expects_the_bytes_of_the_cluster(warp, g, right):
    """25: the number of bytes is multiplied by the size of the cluster, but each mbarrier counts one block's."""
    d = begin(warp)
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(FULL, 256 if right else 512)  # <- reported
        warp.cp_async_bulk_shared_global(4096, g, 256, FULL)
    wait(warp, FULL)
    both_run(warp)
    multiply(warp, d)
    wait(warp)
    free(warp, d)


@both("tcgen05-descriptor", **PAIR)
def m_is_doubled_twice(warp, g, right):
    """15: M of the pair is 256; a second factor of two overflows the field."""
    d = begin(warp)
    bits = IDESC if right else IDESC & ~(31 << 24)
    with warp.only((warp.threads == 0) & (warp.cluster_ctarank == 0)):
        warp.tcgen05_mma("f16", d, A, B, bits, 0, cta_group=2)  # <- reported
        warp.tcgen05_commit(BAR, 3, cta_group=2)
    wait(warp)
    free(warp, d)


@both("uninitialised-registers", **PAIR)
def m_is_that_of_one_block(warp, g, right):
    """With M = 128, the pair has 64 rows in each block, and half as many columns hold something."""
    d = begin(warp)
    multiply(warp, d, bits=IDESC if right else instruction_descriptor(128, 16))
    wait(warp)
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x16")
    warp.tcgen05_wait_ld()
    at = g + 8192 * warp.cluster_ctarank + 16 * warp.threads
    warp.st_global(at, found[:, 12:], "v4.b32")  # <- reported
    free(warp, d)


@both("deadlock", **PAIR)
def the_mbarriers_expect_a_commit_of_each_block(warp, g, right):
    """16: one thread commits for the pair, and each mbarrier gets one arrival, not two."""
    d = begin(warp, count=1 if right else 2)
    multiply(warp, d)
    wait(warp)  # <- reported
    store(warp, g, d)
    free(warp, d)


@both("overwritten-early", **PAIR)
def one_arrival_is_expected_of_two_blocks(warp, g, right):
    """16, the other way round: both blocks read what one of them copies to both, and one commit lets it copy again.

    The other block commits to an mbarrier of its own here, so that no order passes a phase that is still waited for.
    """
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(OTHER, 1)
    d = begin(warp, group=1, count=2 if right else 1)
    with warp.only(warp.threads == 0):
        for at in (FULL, AGAIN):
            warp.mbarrier_arrive_expect_tx(at, 256)
        if warp.cluster_ctarank == 0:
            warp.run(MULTICAST, 4096, TensorMap.of(g, (256,)), (16384,), FULL, 3)
        warp.mbarrier_wait(FULL, 0)
        warp.tcgen05_mma("f16", d, A, B, OF_ONE, 0)
        warp.tcgen05_commit(BAR if right or warp.cluster_ctarank == 0 else OTHER, 3)
    if warp.cluster_ctarank == 0:
        with warp.only(warp.threads == 32):
            warp.mbarrier_wait(BAR, 0)
            warp.run(MULTICAST, 4096, TensorMap.of(g, (256,)), (16640,), AGAIN, 3)  # <- reported
    wait(warp, AGAIN)
    store(warp, g, d, 8)
    free(warp, d, 1)
