"""Ported kernels whose blocks exchange data: protocols of communication libraries, split-K, bulk copies to partners."""

import numpy as np
from kernels_ported_grid import numbers, zeros
from kernels_ported_table import ported
from kernels_wild_table import bits, floats, leader, one, small

ADD = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.{}"


@ported(
    "after NVIDIA/nccl src/device/prims_ll.h",
    lambda: (numbers(128), zeros(32, 4), zeros(128)),
    lambda a, *_: np.concatenate([a[64:] + a[:64], a[64:] + a[:64]]),
    {"flag apart": "global-race", "plain stores": "global-race", "plain loads": "global-race"},
    grid=2,
    block=32,
)
def nccl_low_latency_lines(warp, fault, a, buffer, d):
    """Each line of 16 bytes has two words of data and a flag beside each: the line is there when both flags are."""
    index = 2 * warp.laneid
    if warp.ctaid[0] == 0:
        data = warp.ld_global(a.at(index), "v2.b32")
        flag = np.ones(32, np.uint32)
        line = np.stack([data[:, 0], flag, data[:, 1], flag], axis=1)
        if fault == "flag apart":
            warp.st_global(buffer.at(warp.laneid, 0), data, "v2.b32")  # <- flag apart
            warp.st_global(buffer.at(warp.laneid, 2), np.stack([flag, flag], axis=1), "v2.b32", order="volatile")
        else:
            order = "" if fault == "plain stores" else "volatile"
            warp.st_global(buffer.at(warp.laneid, 0), line, "v4.b32", order=order)  # <- plain stores; plain loads
        return
    while True:
        order = "" if fault == "plain loads" else "volatile"
        if fault == "flag apart":
            line = warp.ld_global(buffer.at(warp.laneid, 2), "v2.b32", order=order)
            there, line = np.array(line), warp.ld_global(buffer.at(warp.laneid, 0), "v2.b32")  # <- flag apart
            line = np.stack([line[:, 0], there[:, 0], line[:, 1], there[:, 1]], axis=1)
        else:
            line = warp.ld_global(buffer.at(warp.laneid, 0), "v4.b32", order=order)  # <- plain stores; plain loads
        if warp.vote_sync("all", (line[:, 1] == 1) & (line[:, 3] == 1)):
            break
    total = line[:, ::2] + warp.ld_global(a.at(64 + index), "v2.b32")
    warp.st_global(d.at(index), total, "v2.b32")
    warp.st_global(d.at(64 + index), total, "v2.b32")


@ported(
    "vllm-project/vllm csrc/custom_all_reduce.cuh",
    lambda: (numbers(192).reshape(3, 64), zeros(2, 3, 3), zeros(3, 64), zeros(3, 64)),
    lambda a, *_: np.tile(a.sum(axis=0), (3, 1)),
    {
        "volatile between the stages": "global-race",
        "no barrier behind the flags": "global-race",
        "no barrier in front of the flags": "global-race",
        "flag of the first barrier": "global-race",
    },
    grid=3,
    block=64,
)
def all_reduce_in_two_stages(warp, fault, a, flags, parts, d):
    """Three ranks, here blocks: each reduces a third for all, and gathers the others' thirds behind a barrier."""
    rank, ranks = warp.ctaid[0], 3

    def barrier(number, store, load):
        """Thread i sets its flag at rank i, and waits for the flag of rank i."""
        if fault != "no barrier in front of the flags":
            warp.bar_sync()
        if warp.warpid == 1:
            with warp.only(warp.laneid < ranks):
                peer = np.minimum(warp.laneid, ranks - 1)
                warp.st_global(flags.at(number, peer, rank), 1, order=store)
                while not warp.ld_global(flags.at(number, rank, peer), order=load)[:ranks, 0].all():
                    pass
        if fault != "no barrier behind the flags":
            warp.bar_sync()

    barrier(0, "volatile", "volatile")
    with warp.only(warp.threads < 22):
        index = np.minimum(22 * rank + warp.threads, 63)
        with warp.only(22 * rank + warp.threads < 64):
            total = sum(np.asarray(warp.ld_global(a.at((rank + i) % 3, index))) for i in range(ranks))
            warp.st_global(parts.at(rank, index), total)  # <- no barrier behind the flags; flag of the first barrier
    order = "volatile", "volatile"
    if fault != "volatile between the stages":
        order = "release.sys", "acquire.sys"
    barrier(0 if fault == "flag of the first barrier" else 1, *order)
    owner = np.minimum(warp.threads // 22, 2)
    # <- volatile between the stages; no barrier behind the flags; no barrier in front of the flags
    # <- flag of the first barrier
    gathered = warp.ld_global(parts.at(owner, warp.threads))
    warp.st_global(d.at(rank, warp.threads), gathered)


@ported(
    "turboderp-org/exllamav2 exllamav2/exllamav2_ext/cuda/q_gemm_kernel_gptq.cuh",
    lambda: (small(3, 64), zeros(64, dtype=np.float16)),
    lambda a, _: a.sum(axis=0),
    {"as published": "global-race", "plain sum": "global-race"},
    grid=(1, 1, 3),
    block=32,
)
def gptq_adds_halves_of_all_slices(warp, fault, a, c):
    """atomicAdd of half2 by each slice of K. As published, slice 0 clears the output, and nothing says when."""
    z = warp.ctaid[2]
    if fault == "as published" and z == 0:
        warp.st_global(c.at(2 * warp.laneid), 0)  # <- as published
    warp.bar_sync()
    held = warp.ld_global(a.at(z, 2 * warp.laneid))
    if fault == "plain sum":
        before = warp.ld_global(c.at(2 * warp.laneid))  # <- plain sum
        total = before.view(np.float16) + held.view(np.float16)
        warp.st_global(c.at(2 * warp.laneid), total.view(np.uint32))  # <- plain sum
    else:
        warp.red_global("add.noftz.f16x2", c.at(2 * warp.laneid), held)  # <- as published


@ported(
    "after flashinfer-ai/flashinfer include/flashinfer/gemm/dual_bf16_weight/kernel_splitk.cuh",
    lambda: (small(4, 64, dtype=np.float32), zeros(4, 64, dtype=np.float32), zeros(2), zeros(2, 64, dtype=np.float32)),
    lambda a, *_: a.reshape(2, 2, 64).sum(axis=0),
    {
        "no fence": "global-race",
        "waited for the reads": "global-race",
        "proxy fence after the barrier": ("proxy-fence-barrier", "proxy-fence-thread", "proxy-fence-missing"),
        "the counter of the other tile": ("global-race", "flag-never-set"),
    },
    grid=4,
    block=64,
    shared=256,
)
def partial_tiles_leave_by_tma_and_a_counter_tells(warp, fault, a, parts, counters, d):
    """Two slices of K for each of two tiles: stores by TMA, complete, a fence, a counter; the second slice adds up."""
    tile, slice_ = warp.ctaid[0] % 2, warp.ctaid[0] // 2
    warp.st_shared(4 * warp.threads, warp.ld_global(a.at(warp.ctaid[0], warp.threads)))
    if fault != "proxy fence after the barrier":
        warp.fence_proxy_async("shared::cta")
    warp.bar_sync()
    with leader(warp):
        if fault == "proxy fence after the barrier":
            warp.fence_proxy_async("shared::cta")
        warp.cp_async_bulk_global_shared(parts.at(warp.ctaid[0], 0), 0, 256)  # <- proxy fence after the barrier
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0, read=fault == "waited for the reads")
        if fault != "no fence":
            warp.fence()
        counter = counters.at(1 - tile if fault == "the counter of the other tile" else tile)
        warp.red_global("add.u32", counter, 1)
    if slice_ == 0:
        return
    if warp.warpid == 0:
        with one(warp):
            while warp.ld_global(counters.at(tile), order="acquire.gpu")[0, 0] < 2:
                pass
    warp.bar_sync()
    # <- no fence; waited for the reads; the counter of the other tile
    both = [warp.ld_global(parts.at(tile + 2 * k, warp.threads)) for k in range(2)]
    warp.st_global(d.at(tile, warp.threads), bits(floats(both[0]) + floats(both[1])))


@ported(
    "after Dao-AILab/flash-attention hopper/mainloop_bwd_sm90_tma_gmma_ws.hpp",
    lambda: (small(3, 64, dtype=np.float32), zeros(1), zeros(64, dtype=np.float32), zeros(64, dtype=np.float32)),
    lambda a, *_: a.sum(axis=0),
    {"waited for the reads": "global-race", "refilled at once": "overwritten-early", "no release": "global-race"},
    grid=3,
    block=96,
    shared=256,
)
def dq_is_added_in_a_fixed_order(warp, fault, a, semaphore, dq, d):
    """Two warps fill a tile, a third adds it to dQ by a bulk reduction when it is its block's turn; the last copies."""
    mine = warp.ctaid[0]
    if warp.warpid < 2:
        for part in range(2):
            if part and fault != "refilled at once":
                warp.bar_sync(2, 96)
            held = floats(warp.ld_global(a.at(mine, warp.threads)))
            whole = held if part == 0 else np.zeros_like(held)
            warp.st_shared(4 * warp.threads, bits(whole))  # <- refilled at once
            warp.fence_proxy_async("shared::cta")
            warp.bar_sync(1, 96)
        return
    for part in range(2):
        warp.bar_sync(1, 96)
        with one(warp):
            while part == 0 and warp.ld_global(semaphore, order="acquire.gpu")[0, 0] != mine:
                pass
            warp.run(ADD.format("f32"), dq, 0, 256)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0, read=fault == "waited for the reads")
            if part and mine < 2:
                warp.fence("acq_rel", "cta" if fault == "no release" else "gpu")
                warp.red_global("add.s32", semaphore, 1, order="relaxed.gpu")
        if part == 0 and fault != "refilled at once":
            warp.bar_sync(2, 96)
    if mine == 2:
        warp.bar_warp_sync()
        for half in range(2):
            total = warp.ld_global(dq.at(32 * half + warp.laneid))  # <- waited for the reads; no release
            warp.st_global(d.at(32 * half + warp.laneid), total)


@ported(
    "deepseek-ai/DeepEP csrc/kernels/legacy/intranode.cu",
    lambda: (numbers(12 * 32), zeros(4 * 32), zeros(1), zeros(1), zeros(12 * 32)),
    lambda a, *_: a,
    {
        "relaxed tail": "global-race",
        "tail before the barrier": "global-race",
        "head before the barrier": "global-race",
        "head as published": "global-race",
        "no room asked for": "global-race",
    },
    grid=2,
    block=64,
    shared=4,
)
def tokens_through_a_ring_of_another_rank(warp, fault, x, ring, head, tail, d):
    """A ring of four tokens between two ranks, here blocks: two warps copy tokens in, two copy them out.

    As published, the receiver moves the head by a relaxed store, and the sender reads it by volatile loads.
    """
    relaxed = fault == "head as published"
    if warp.ctaid[0] == 0:
        sent = 0
        while sent < 12:
            with one(warp):
                order = "volatile" if relaxed else "acquire.sys"
                while fault != "no room asked for" and sent - int(warp.ld_global(head, order=order)[0, 0]) > 2:
                    pass
            warp.bar_warp_sync()
            for token in range(sent, sent + 2):
                if token % 2 == warp.warpid:
                    held = warp.ld_global(x.at(32 * token + warp.laneid))
                    # <- head as published; no room asked for; head before the barrier
                    warp.st_global(ring.at(32 * (token % 4) + warp.laneid), held)
            sent += 2
            if fault != "tail before the barrier":
                warp.bar_sync()
            with leader(warp):
                warp.st_global(tail, sent, order="relaxed.sys" if fault == "relaxed tail" else "release.sys")
        return
    received = 0
    while received < 12:
        if warp.warpid == 0:
            with one(warp):
                while (end := warp.ld_global(tail, order="acquire.sys"))[0, 0] == received:
                    pass
                warp.st_shared(0, end)
        warp.bar_sync()
        end = int(warp.ld_shared(0)[0, 0])
        for token in range(received + warp.warpid, end, 2):
            # <- relaxed tail; tail before the barrier; no room asked for
            held = warp.ld_global(ring.at(32 * (token % 4) + warp.laneid))
            warp.st_global(d.at(32 * token + warp.laneid), held)
        received = end
        if fault != "head before the barrier":
            warp.bar_sync()
        with leader(warp, 32):
            warp.st_global(head, received, order="relaxed.sys" if relaxed else "release.sys")
        if fault == "head before the barrier":
            warp.bar_sync()
