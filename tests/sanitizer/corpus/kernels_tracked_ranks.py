"""Pairs from bug trackers, between blocks and in clusters: counters of barriers, calls in a row, maps, masks."""

from kernels_clusters import FULL, begin, meet, peer
from kernels_pairs import leader, pair
from kernels_tensor_maps import ACQUIRE, RELEASE, REPLACE

from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import words_of

ONE = {"grid": 2, "block": 32}
TWO = {"grid": 2, "block": 64}
CLUSTER = {"cluster": 2, "shared": 2112, **TWO}


def poll(warp, word, least):
    """Thread 0 waits for a count; a barrier tells the others."""
    with leader(warp):
        while warp.warpid == 0 and warp.ld_global(word, order="acquire")[0, 0] < least:
            warp.nanosleep(20)
    warp.bar_sync()


@pair("flag-never-set", 2, **TWO)
def a_counter_cleared_under_a_late_poll(warp, right, counts):
    """flashinfer 3615: behind the last barrier, the first block clears the counter that another may still poll."""
    with leader(warp):
        warp.atom_global("add.u32", counts.at(0), 1, order="acq_rel")
    poll(warp, counts.at(0), 2)  # <- reported
    with leader(warp):
        last = right and warp.atom_global("add.u32", counts.at(1), 1, order="acq_rel")[0, 0] == 1
        if last or (not right and warp.ctaid[0] == 0):
            warp.st_global(counts.at(0), 0, order="relaxed")


@pair("global-race", 64, 1, **TWO)
def thread_0_arrives_before_its_block_has_added(warp, right, bins, count):
    """flashinfer 4131 and 5251: the release of thread 0 comes directly behind the additions of all threads."""
    warp.red_global("add.u32", bins.at(warp.threads), 1)  # <- reported
    if right:
        warp.bar_sync()
    with leader(warp):
        warp.red_global("add.u32", count, 1, order="release")
    poll(warp, count, 2)
    warp.ld_global(bins.at(warp.threads))  # <- reported


@pair("global-race", 1, **ONE)
def a_counter_initialised_by_the_first_block(warp, right, count):
    """vLLM 41444: block 0 stores 0 into the counter; the others add to it at once."""
    with leader(warp):
        if warp.ctaid[0] == 0 and not right:
            warp.st_global(count, 0)  # <- reported
        warp.red_global("add.u32", count, 1, order="release")  # <- reported


@pair("global-race", (2, 32), 1, **ONE)
def the_value_of_the_last_call_opens_this_one(warp, right, data, lock):
    """iris 465: each call sets the lock to 1, and the second finds the 1 of the first."""
    for call in range(2):
        value = call + 1 if right else 1
        if warp.ctaid[0] == 0:
            warp.st_global(data.at(call, warp.laneid), call)  # <- reported
            warp.bar_warp_sync()
            with leader(warp):
                warp.atom_global("exch.b32", lock, value, order="release")
        else:
            poll(warp, lock, value)
            warp.ld_global(data.at(call, warp.laneid))  # <- reported


@pair("global-race", (2, 32), 2, **ONE)
def a_barrier_that_each_rank_passes_alone(warp, right, data, signals):
    """DeepEP's barrier_block adds 1 to the own signal and takes 1 from the peer's; here, from the own one."""
    mine = warp.ctaid[0]
    warp.st_global(data.at(mine, warp.laneid), 1)  # <- reported
    warp.bar_warp_sync()
    with leader(warp):
        warp.atom_global("add.u32", signals.at(mine), 1)
        warp.atom_global("add.u32", signals.at(1 - mine if right else mine), 0xFFFFFFFF, order="release")
        while warp.ld_global(signals.at(mine), order="acquire")[0, 0] not in (0, 0xFFFFFFFF):
            warp.nanosleep(20)
    warp.bar_warp_sync()
    warp.ld_global(data.at(1 - mine, warp.laneid))  # <- reported


@pair("global-race", 64, 2, **TWO)
def an_epoch_of_one_bit(warp, right, data, words):
    """torchfx 96: the tag of a tile wraps, so that the status of two calls ago looks like this one's."""
    for epoch in range(3):
        tag = epoch + 1 if right else 1 + epoch % 2
        if warp.ctaid[0] == 0:
            warp.st_global(data.at(warp.threads), epoch)  # <- reported
            warp.bar_sync()
            with leader(warp):
                warp.st_global(words.at(0), tag, order="release")
            poll(warp, words.at(1), epoch + 1)
        else:
            poll(warp, words.at(0), tag)
            warp.ld_global(data.at(warp.threads))  # <- reported
            warp.bar_sync()
            with leader(warp):
                warp.red_global("add.u32", words.at(1), 1, order="release")


@pair("global-race", 64, 1, shared=256, **TWO)
def a_stored_tile_counted_without_a_fence(warp, right, tile, count):
    """flashinfer 4742: the bulk store is waited for, and the addition that tells of it is relaxed."""
    if warp.ctaid[0] == 0:
        warp.st_shared(4 * warp.threads, 7)
        warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_global_shared(tile, 0, 256)  # <- reported
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)
            if right:
                warp.fence()
            warp.atom_global("add.u32", count, 1)
    else:
        poll(warp, count, 1)
        warp.ld_global(tile.at(warp.threads))  # <- reported


@pair("global-race", 128, 2, grid=6, block=64, cluster=2)
def one_rank_raises_the_flag_for_both(warp, right, parts, flags):
    """Stream-K over clusters: rank 0 tells of the parts of both ranks behind a barrier of its own block."""
    cluster, rank = warp.ctaid[0] // 2, warp.cluster_ctarank
    if cluster < 2:
        if warp.warpid == 0:
            warp.st_global(parts.at(32 * (2 * cluster + rank) + warp.laneid), 1)  # <- reported
        if right:
            meet(warp)
        else:
            warp.bar_sync()
        with leader(warp):
            if rank == 0:
                warp.st_global(flags.at(cluster), 1, order="release")
    else:
        for number in range(2):
            poll(warp, flags.at(number), 1)
        for part in range(4):
            warp.ld_global(parts.at(32 * part + warp.laneid))  # <- reported


@pair(("global-race", "proxy-fence-missing"), 64, 32, **CLUSTER)
def a_map_changed_while_the_peer_loads_with_it(warp, right, x, described):
    """CUTLASS 3165: two ranks share a tensor map in global memory, and rank 0 goes on to the next group."""
    begin(warp, FULL)
    if warp.cluster_ctarank == 0:
        with warp.only(warp.threads < 32):
            warp.st_global(described + 4 * warp.laneid, words_of(TensorMap.of(x, (16,))))
            warp.run(RELEASE)
    meet(warp)
    with leader(warp):
        warp.run(ACQUIRE, described, 128)
        warp.mbarrier_arrive_expect_tx(FULL, 64)
        warp.cp_async_bulk_tensor_shared_global(0, described, (0,), FULL)  # <- reported
    warp.mbarrier_wait(FULL, 0)
    if right:
        meet(warp)
    with leader(warp):
        if warp.cluster_ctarank == 0:
            warp.run(REPLACE.format("global_address", "global", "b64"), described, x + 128)  # <- reported
            warp.run(RELEASE)
    meet(warp)


@pair("proxy-fence-missing", 64, 64, block=32, shared=1024)
def the_second_of_two_maps_is_not_acquired(warp, right, x, described):
    """cudnn-frontend 898: the acquiring fence covers 128 bytes, and the second map lies behind them."""
    bars, maps = (512, 520), (described, described + 128)
    with leader(warp):
        for bar in bars:
            warp.mbarrier_init(bar, 1)
        warp.fence_mbarrier_init()
    for place in maps:
        warp.st_global(place + 4 * warp.laneid, words_of(TensorMap.of(x, (16,))))
    warp.run(RELEASE)
    warp.bar_warp_sync()
    with leader(warp):
        for place in maps if right else maps[:1]:
            warp.run(ACQUIRE, place, 128)
        for bar, place in zip(bars, maps, strict=True):
            warp.mbarrier_arrive_expect_tx(bar, 64)
            warp.cp_async_bulk_tensor_shared_global(16 * (bar - 512), place, (0,), bar)  # <- reported
        for bar in bars:
            warp.mbarrier_wait(bar, 0)


@pair("overwritten-early", **CLUSTER)
def a_source_refilled_under_a_copy_to_the_peer(warp, right):
    """The end of cp.async.bulk.shared::cluster is known to the mbarrier of the peer alone, not to the sender."""
    begin(warp, FULL)
    for turn in range(2):
        if turn and right:
            meet(warp)
        if warp.cluster_ctarank == 0:
            warp.st_shared(4 * warp.threads, turn)  # <- reported
            warp.fence_proxy_async()
            warp.bar_sync()
            with leader(warp):
                to = peer(warp, 256 + 256 * turn)
                warp.cp_async_bulk_shared_cluster(to, 0, 256, peer(warp, FULL))  # <- reported
        else:
            with leader(warp):
                warp.mbarrier_arrive_expect_tx(FULL, 256)
            warp.mbarrier_wait(FULL, turn)
    meet(warp)


@pair(("overwritten-early", "expect-tx", "shared-race"), 64, grid=4, block=64, cluster=4, shared=2112)
def masks_of_rows_and_columns_exchanged(warp, right, x):
    """Four ranks in two rows: A goes to the blocks of a row, and B to those of a column."""
    row, column = divmod(warp.cluster_ctarank, 2)
    across, down = 0b11 << 2 * row, 0b101 << column
    begin(warp, FULL)
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(FULL, 256)
        for at, mask in ((64 * column, across if right else down), (256 + 64 * row, down if right else across)):
            warp.cp_async_bulk_shared_global(at, x, 64, FULL, cta_mask=mask)  # <- reported
    warp.mbarrier_wait(FULL, 0)
    warp.ld_shared(4 * warp.laneid)  # <- reported
    warp.ld_shared(256 + 4 * warp.laneid)  # <- reported
    meet(warp)
