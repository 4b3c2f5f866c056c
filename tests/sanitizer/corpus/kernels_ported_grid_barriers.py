"""Ported kernels with grid barriers, last blocks and rings between blocks."""

import numpy as np
from kernels_ported_grid import numbers, zeros
from kernels_ported_table import ported
from kernels_wild_table import bits, floats, leader, one, small

SIGN = 1 << 31


def reduced(warp, x):
    """The sum over a warp, in every lane."""
    return warp.redux_sync("add.u32", x)[:, 0]


def grid_sync(warp, arrived, fault=None):
    """cooperative_groups: block 0 adds what makes the sum of all arrivals flip the highest bit."""
    if fault != "no barrier before":
        warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            if fault != "no fence before":
                warp.membar("gl")
            step = 1 if warp.ctaid[0] else SIGN - (warp.nctaid[0] - 1)
            old = warp.atom_global("add.u32", arrived, step)[0, 0]
            while not (old ^ warp.ld_global(arrived, order="volatile")[0, 0]) & SIGN:
                pass
            if fault != "no fence behind":
                warp.membar("gl")
    if fault != "no barrier behind":
        warp.bar_sync()


def _sums(a):
    """The sums of the blocks, all of them in the first place."""
    parts = np.pad(a, (0, 76)).reshape(3, 3, 64).sum(axis=(0, 2))
    return np.array([a.sum(), *parts[1:]])


@ported(
    "NVIDIA/cuda-samples Samples/2_Concepts_and_Techniques/reductionMultiBlockCG/reductionMultiBlockCG.cu",
    lambda: (numbers(500), zeros(1), zeros(3)),
    lambda a, *_: _sums(a),
    {
        "no barrier before": "global-race",
        "no fence before": "global-race",
        "no fence behind": "global-race",
        "no barrier behind": "global-race",
        "no sum before": "shared-race",
    },
    grid=3,
    block=64,
    shared=256,
)
def reduce_in_one_pass_of_cooperative_groups(warp, fault, a, arrived, out):
    mine = 4 * warp.threads
    warp.st_shared(mine, 0)
    for first in range(0, 500, 192):
        index = first + 64 * warp.ctaid[0] + warp.threads
        with warp.only(index < 500):
            warp.st_shared(mine, warp.ld_shared(mine) + warp.ld_global(a.at(np.minimum(index, 499))))
    warp.bar_sync()
    warp.st_shared(mine, reduced(warp, warp.ld_shared(mine)[:, 0]))  # <- no sum before
    if fault != "no sum before":
        warp.bar_sync()
    with leader(warp):
        warp.st_shared(0, warp.ld_shared(0) + warp.ld_shared(128))  # <- no sum before
    warp.bar_sync()
    with leader(warp, 0 if fault != "no barrier before" else 32):
        warp.st_global(out.at(warp.ctaid[0]), warp.ld_shared(0))  # <- no barrier behind
    grid_sync(warp, arrived, fault)
    with leader(warp, 0 if fault != "no barrier behind" else 32):
        if warp.ctaid[0] == 0:
            for block in range(1, 3):
                # <- no barrier before; no fence before; no fence behind; no barrier behind
                partial = warp.ld_global(out.at(block))
                warp.st_global(out, warp.ld_global(out) + partial)


@ported(
    "NVIDIA/cuda-samples Samples/0_Introduction/simpleAWBarrier/simpleAWBarrier.cu",
    lambda: (numbers(256), numbers(256), zeros(1), zeros(2), zeros(256)),
    lambda a, b, *_: a + (a * b).sum(),
    {
        "no second grid barrier": "global-race",
        "one arrival fewer": ("deadlock", "mbarrier-arrivals"),
        "no wait": "shared-race",
    },
    grid=2,
    block=64,
    shared=24,
)
def a_dot_product_with_tokens_of_a_barrier(warp, fault, a, b, arrived, partial, d):
    """The warps' sums meet at a cuda::barrier: arrive gives a token, wait takes it; once in each block, then in one."""
    with leader(warp):
        warp.mbarrier_init(16, 63 if fault == "one arrival fewer" else 64)
    warp.bar_sync()
    index = 64 * warp.ctaid[0] + warp.threads

    def reduce_block(x, result):
        x = reduced(warp, x)
        with warp.only(warp.laneid == 0):
            warp.st_shared(4 * warp.warpid, x)
        token = warp.mbarrier_arrive(16)  # <- one arrival fewer
        if fault != "no wait":
            warp.mbarrier_wait(16, state=token)  # <- one arrival fewer
        if warp.warpid == 0:
            lanes = np.minimum(warp.laneid, 1)
            with warp.only(warp.laneid < 2):
                beta = warp.ld_shared(4 * lanes)[:, 0]  # <- no wait
            beta = reduced(warp, np.where(warp.laneid < 2, beta, 0))
            with warp.only(warp.laneid == 0):
                warp.st_global(result, beta)  # <- no second grid barrier

    total = 0
    for first in range(0, 256, 128):
        total = total + (warp.ld_global(a.at(first + index)) * warp.ld_global(b.at(first + index)))[:, 0]
    reduce_block(total, partial.at(warp.ctaid[0]))
    grid_sync(warp, arrived)
    if warp.ctaid[0] == 0:
        mine = np.zeros(32, np.uint32)
        with warp.only(warp.threads < 2):
            loaded = warp.ld_global(partial.at(np.minimum(warp.threads, 1)))[:, 0]
        reduce_block(np.where(warp.threads < 2, loaded, mine), partial)
    if fault != "no second grid barrier":
        grid_sync(warp, arrived)
    final = warp.ld_global(partial)  # <- no second grid barrier
    for first in range(0, 256, 128):
        warp.st_global(d.at(first + index), warp.ld_global(a.at(first + index)) + final)


@ported(
    "karpathy/llm.c llmc/layernorm.cuh",
    lambda: (small(12, 128, dtype=np.float32), zeros(1), zeros(3, 128), zeros(128, dtype=np.float32)),
    lambda gradient, *_: gradient.sum(axis=0),
    {
        "as published": "global-race",
        "no fence behind": "global-race",
        "no barrier behind the sums": "shared-race",
        "no barrier in front of the sums": "shared-race",
    },
    grid=3,
    block=64,
    shared=1024,
)
def layernorm_backward_sums_up_in_the_last_block(warp, fault, gradient, flag, scratch, dbias):
    """Warp 0 adds what the others leave in shared memory; the block that counts last adds up all blocks' sums.

    As published, nobody executes __threadfence: neither before atomicInc nor behind it.
    """
    mine = 16 * warp.laneid
    with warp.only(warp.warpid == 0):
        warp.st_shared(mine, 0, "v4.b32")
    warp.bar_sync()
    for first in range(0, 12, 6):
        row = floats(warp.ld_global(gradient.at(first + 2 * warp.ctaid[0] + warp.warpid, 4 * warp.laneid), "v4.b32"))
        if warp.warpid:
            warp.st_shared(512 + mine, bits(row), "v4.b32")  # <- no barrier behind the sums
        if fault != "no barrier in front of the sums":
            warp.bar_sync()
        if warp.warpid == 0:
            # <- no barrier in front of the sums; no barrier behind the sums
            row = row + floats(warp.ld_shared(512 + mine, "v4.b32"))
        if fault != "no barrier behind the sums":
            warp.bar_sync()
        if warp.warpid == 0:
            warp.st_shared(mine, bits(row + floats(warp.ld_shared(mine, "v4.b32"))), "v4.b32")
    warp.bar_sync()
    with warp.only(warp.threads < 32):
        warp.st_global(scratch.at(warp.ctaid[0], 4 * warp.laneid), warp.ld_shared(mine, "v4.b32"), "v4.b32")
        if fault != "as published":
            warp.fence()
    warp.bar_sync()
    with leader(warp):
        warp.st_shared(512, warp.atom_global("inc.u32", flag, 3))
    warp.bar_sync()
    if warp.ld_shared(512)[0, 0] != 2:
        return
    if fault not in ("as published", "no fence behind"):
        warp.fence()
    with warp.only(warp.threads < 32):
        total = np.zeros((32, 4), np.float32)
        for block in range(3):
            part = warp.ld_global(scratch.at(block, 4 * warp.laneid), "v4.b32")  # <- as published; no fence behind
            total = total + floats(part)
        warp.st_global(dbias.at(4 * warp.laneid), bits(total), "v4.b32")
