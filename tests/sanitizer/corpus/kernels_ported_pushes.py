"""Ported kernels that hand on: tiles to a block that adds them up, tiles to a warp that stores, items to a queue."""

import numpy as np
from kernels_ported_grid import numbers, zeros
from kernels_ported_table import ported
from kernels_wild_table import leader, one


@ported(
    "after NVIDIA/cutlass examples/cute and split-K through distributed shared memory",
    lambda: (np.arange(576, dtype=np.uint32).reshape(3, 3, 64), zeros(3, 64)),
    lambda a, _: a.sum(axis=1),
    {
        "no credit": ("overwritten-early", "shared-race", "expect-tx"),
        "the buffer is not awaited": "overwritten-early",
        "no proxy fence": "proxy-fence-missing",
        "the sender does not wait at the end": "out-of-range",
        "credit before the sums": ("overwritten-early", "shared-race"),
    },
    grid=3,
    block=64,
    cluster=3,
    shared=784,
)
def partial_tiles_are_pushed_to_rank_0(warp, fault, a, d):
    """Ranks 1 and 2 send their tile by cp.async.bulk when rank 0 gives credit, which says that the last one is used."""
    rank, full, credit = warp.cluster_ctarank, 768, 776
    with leader(warp):
        warp.mbarrier_init(full, 1)
        warp.mbarrier_init(credit, 1)
        warp.fence_mbarrier_init()
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
    for tile in range(3):
        held = warp.ld_global(a.at(tile, rank, warp.threads))
        if rank:
            warp.st_shared(4 * warp.threads, held)  # <- the buffer is not awaited; no credit
            if fault != "no proxy fence":
                warp.fence_proxy_async("shared::cta")
            warp.bar_sync()
            with leader(warp):
                if fault != "no credit":
                    warp.mbarrier_wait(credit, tile % 2)
                # <- no credit; no proxy fence; the sender does not wait at the end; credit before the sums
                warp.cp_async_bulk_shared_cluster(warp.mapa(256 * rank, 0), 0, 256, warp.mapa(full, 0))
                if tile < 2 and fault not in ("the buffer is not awaited", "no credit"):
                    warp.mbarrier_wait(credit, (tile + 1) % 2)
            warp.bar_sync()
            continue
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(full, 512)  # <- no credit
        with warp.only((warp.threads == 1) | (warp.threads == 2)):
            # <- credit before the sums
            warp.mbarrier_arrive_shared_cluster(warp.mapa(credit, np.maximum(warp.threads % 3, 1)))
        warp.mbarrier_wait(full, tile % 2)
        # <- no credit; credit before the sums
        total = held + warp.ld_shared(256 + 4 * warp.threads) + warp.ld_shared(512 + 4 * warp.threads)
        warp.st_global(d.at(tile, warp.threads), total)
        if fault != "credit before the sums":
            warp.bar_sync()
    warp.barrier_cluster_arrive()
    if rank == 0 or fault != "the sender does not wait at the end":
        warp.barrier_cluster_wait()


@ported(
    "after NVIDIA/cutlass include/cutlass/epilogue/collective/sm90_epilogue_tma_warpspecialized.hpp",
    lambda: (np.arange(320, dtype=np.uint32).reshape(5, 64), zeros(5, 64)),
    lambda a, _: a * 2,
    {
        "no wait for the read": "overwritten-early",
        "one group too many": "overwritten-early",
        "no proxy fence": "proxy-fence-missing",
        "one warp is counted": ("mbarrier-arrivals", "shared-race", "proxy-fence-missing", "proxy-fence-barrier"),
        "no wait at the end": "overwritten-early",
    },
    grid=1,
    block=96,
    shared=544,
)
def an_epilogue_with_a_warp_that_stores(warp, fault, a, d):
    """Two warps fill a buffer; the third sends it off, and frees the other one when its copy has been read."""
    full, empty = 512, 528
    with leader(warp):
        for stage in range(2):
            warp.mbarrier_init(full + 8 * stage, 32 if fault == "one warp is counted" else 64)
            warp.mbarrier_init(empty + 8 * stage, 1)
    warp.bar_sync()
    if warp.warpid == 2:
        with one(warp):
            for step in range(5):
                stage, turn = step % 2, step // 2
                warp.mbarrier_wait(full + 8 * stage, turn % 2)  # <- one warp is counted
                # <- no proxy fence; one warp is counted; no wait at the end
                warp.cp_async_bulk_global_shared(d.at(step, 0), 256 * stage, 256)
                warp.cp_async_bulk_commit_group()
                if step:
                    if fault != "no wait for the read":
                        warp.cp_async_bulk_wait_group(2 if fault == "one group too many" else 1, read=True)
                    warp.mbarrier_arrive(empty + 8 * (1 - stage))
            if fault != "no wait at the end":
                warp.cp_async_bulk_wait_group(0)
        return
    for step in range(5):
        stage, turn = step % 2, step // 2
        held = warp.ld_global(a.at(step, warp.threads)) * 2
        warp.mbarrier_wait(empty + 8 * stage, (turn + 1) % 2)
        warp.st_shared(256 * stage + 4 * warp.threads, held)  # <- no wait for the read; one group too many
        if fault != "no proxy fence":
            warp.fence_proxy_async("shared::cta")
        warp.mbarrier_arrive(full + 8 * stage)  # <- one warp is counted


@ported(
    "after Vyukov's bounded queue, as persistent kernels use it",
    lambda: (numbers(6), zeros(1), zeros(2), zeros(2), zeros(1)),
    lambda a, *_: [a.sum()],
    {
        "taken without a look": ("global-race", "flag-never-set"),
        "the slot is not awaited": "global-race",
        "number before data": "global-race",
        "relaxed number": "global-race",
        "freed without a release": "global-race",
    },
    grid=3,
    block=32,
)
def a_bounded_queue_with_a_number_for_each_slot(warp, fault, a, tail, turns, slots, d):
    """Two blocks take a ticket for each item; the number of a slot says whose turn it is, and if it is full."""
    with leader(warp):
        total = np.zeros(32, np.uint32)
        for n in range(3 if warp.ctaid[0] else 6):
            ticket = int(warp.atom_global("add.u32", tail, 1)[0, 0]) if warp.ctaid[0] else n
            number, slot, turn = turns.at(ticket % 2), slots.at(ticket % 2), 2 * (ticket // 2)
            if warp.ctaid[0]:
                waits, order = fault != "the slot is not awaited", "relaxed" if fault == "relaxed number" else "release"
                # <- taken without a look
                while waits and warp.ld_global(number, order="acquire")[0, 0] != turn:
                    warp.nanosleep(20)
                if fault == "number before data":
                    warp.st_global(number, turn + 1, order=order)
                item = warp.ld_global(a.at(ticket))
                # <- the slot is not awaited; number before data; freed without a release; taken without a look
                warp.st_global(slot, item)
                if fault != "number before data":
                    warp.st_global(number, turn + 1, order=order)
            else:
                while fault != "taken without a look" and warp.ld_global(number, order="acquire")[0, 0] != turn + 1:
                    warp.nanosleep(20)
                # <- number before data; relaxed number; taken without a look; the slot is not awaited
                total = total + warp.ld_global(slot)[:, 0]
                warp.st_global(number, turn + 2, order="relaxed" if fault == "freed without a release" else "release")
        if warp.ctaid[0] == 0:
            warp.st_global(d, total)
