"""Ported kernels whose blocks work together through global memory: semaphores, look-back, grid barriers, rings."""

import numpy as np
from kernels_ported_table import ported
from kernels_wild_table import floats, leader, one, product, small

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x{}.shared.b16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def numbers(count):
    return np.arange(count, dtype=np.uint32) % 7


def zeros(*shape, dtype=np.uint32):
    return np.zeros(shape, dtype)


def narrowed(values):
    """f32 as f16, the two of each lane in one register."""
    return values.astype(np.float16).view(np.uint32)


# ------------------------------------------------------------------------------------------------ semaphores


@ported(
    "IST-DASLab/marlin marlin/marlin_cuda_kernel.cu",
    lambda: (small(16, 48, seed=1), small(16, 48, seed=2), zeros(1), zeros(16, 16, dtype=np.float16)),
    lambda a, b, *_: product(a, b),
    {
        "relaxed acquire": "global-race",
        "no fence": "global-race",
        "no barrier": "global-race",
        "copy not awaited": "cp-async-unwaited",
        "no reset": "flag-never-set",
    },
    launches=2,
    grid=3,
    block=64,
    shared=1536,
)
def marlin_reduces_slices_in_the_output(warp, fault, a, b, lock, c):
    """Blocks take a slice of K each; one after the other, under a lock, they add to the f16 output in global memory."""
    mine, last = warp.ctaid[0], warp.ctaid[0] == 2
    row, unit = warp.laneid // 2, warp.laneid % 2
    matrix = (a, b)[warp.warpid]
    warp.cp_async(512 * warp.warpid + 32 * row + 16 * unit, matrix.at(row, 16 * mine + 8 * unit), 16, cache="cg")
    warp.cp_async_commit_group()
    warp.cp_async_wait_group(0)
    warp.bar_sync()
    left = warp.run(LDMATRIX.format(4), 32 * (warp.laneid % 16) + 16 * (warp.laneid // 16))
    right = warp.run(LDMATRIX.format(2), 512 + 32 * (8 * warp.warpid + warp.laneid % 8) + 16 * (warp.laneid // 8 % 2))
    d = floats(warp.run(MMA, left, right, warp.registers(4, fill=0)))
    # barrier_acquire
    if warp.warpid == 0:
        with one(warp):
            order = "relaxed.gpu" if fault == "relaxed acquire" else "acquire.gpu"
            while warp.ld_global(lock, order=order)[0, 0] != mine:  # <- no reset
                pass
    warp.bar_sync()
    # global_reduce
    row, column = warp.laneid // 4, 8 * warp.warpid + 2 * (warp.laneid % 4)
    if mine > 0:
        for half in range(2):
            place = 1024 + 4 * (warp.threads + 64 * half)
            warp.cp_async(place, c.at(row + 8 * half, column), 4)  # <- relaxed acquire; no fence; no barrier
        warp.cp_async_commit_group()
        if fault != "copy not awaited":
            warp.cp_async_wait_group(0)
        for half in range(2):
            held = warp.ld_shared(1024 + 4 * (warp.threads + 64 * half))  # <- copy not awaited
            d[:, 2 * half : 2 * half + 2] += held.view(np.float16).astype(np.float32)
    for half in range(2):
        warp.st_global(c.at(row + 8 * half, column), narrowed(d[:, 2 * half : 2 * half + 2]))
    # barrier_release
    if fault != "no barrier":
        warp.bar_sync()
    with leader(warp):
        if last and fault != "no reset":
            warp.st_global(lock, 0)
        else:
            if fault != "no fence":
                warp.fence("acq_rel", "gpu")
            warp.red_global("add.s32", lock, 1, order="relaxed.gpu")


@ported(
    "NVIDIA/cutlass include/cutlass/semaphore.h",
    lambda: (numbers(384), zeros(1), zeros(128)),
    lambda a, *_: a.reshape(3, 128).sum(axis=0),
    {"plain release": "global-race", "no barrier": "global-race", "no wait": "global-race"},
    grid=3,
    block=128,
)
def cutlass_serial_split_k(warp, fault, a, lock, d):
    """All threads ask, with __syncthreads_and, until thread 0 has seen the number of the slice."""
    mine, state = warp.ctaid[0], np.full(32, -1)
    while fault != "no wait" and warp.bar_red("and", state != mine):
        with leader(warp):
            loaded = warp.ld_global(lock, "s32", order="acquire.gpu")[:, 0]
            state = np.where(warp.threads == 0, loaded, state)
    warp.bar_sync()
    held = warp.ld_global(a.at(128 * mine + warp.threads))
    if mine:
        held = held + warp.ld_global(d.at(warp.threads))  # <- plain release; no barrier; no wait
    warp.st_global(d.at(warp.threads), held)  # <- no wait
    if fault != "no barrier":
        warp.bar_sync()
    with leader(warp):
        order = "relaxed.gpu" if fault == "plain release" else "release.gpu"
        warp.st_global(lock, (mine + 1) % 3, order=order)


# ------------------------------------------------------------------------------------------------ look-back


def scanned(warp, x):
    """The inclusive sums over a warp."""
    for step in (1, 2, 4, 8, 16):
        x = x + np.where(warp.laneid >= step, warp.shfl_sync("up", x, step), 0)
    return x


PARTIAL, INCLUSIVE = 1, 2


@ported(
    "b0nes164/GPUPrefixSums GPUPrefixSumsCUDA/ChainedScanDecoupledLookback.cuh",
    lambda: (zeros(4), zeros(1), numbers(1000)),
    lambda parts, bump, a: np.cumsum(a),
    {
        "plain loads": "global-race",
        "broadcast at once": ("shared-race", "lane-race"),
        "tail not guarded": "out-of-range",
        "scratch read at once": "shared-race",
    },
    grid=4,
    block=64,
    shared=12,
)
def chained_scan_with_decoupled_look_back(warp, fault, parts, bump, a):
    """A counter gives out tiles of 256; a warp looks back over 32 tiles at once; flag and sum share a word."""
    with leader(warp):
        warp.st_shared(8, warp.atom_global("add.u32", bump, 1))
    warp.bar_sync()
    tile = int(warp.ld_shared(8)[0, 0])
    place = 256 * tile + 128 * warp.warpid + 4 * warp.laneid
    inside = place < (1024 if fault == "tail not guarded" else 1000)
    held = np.zeros((32, 4), np.uint32)
    with warp.only(inside):
        loaded = warp.ld_global(a + 4 * place, "v4.b32")  # <- tail not guarded
    held = np.cumsum(np.where(inside[:, None], loaded, held), axis=1, dtype=np.uint32)
    sums = scanned(warp, held[:, 3])
    with warp.only(warp.laneid == 31):
        warp.st_shared(4 * warp.warpid, sums)
    if fault != "scratch read at once":
        warp.bar_sync()
    if warp.warpid == 0:
        with warp.only(warp.laneid < 2):
            # <- scratch read at once
            both = np.cumsum(np.asarray(warp.ld_shared(4 * np.minimum(warp.laneid, 1))[:2, 0]))
            warp.st_shared(4 * np.minimum(warp.laneid, 1), np.pad(both, (0, 30)))
    warp.bar_sync()
    total = warp.ld_shared(4)
    with leader(warp):
        warp.atom_global("exch.b32", parts.at(tile), (PARTIAL if tile else INCLUSIVE) | total << 2)  # <- plain loads
    warp.fence()
    if tile and warp.warpid == 0:
        before, index = 0, tile - 1 - warp.laneid
        while True:
            order = "" if fault == "plain loads" else "volatile"
            with warp.only(index >= 0):
                found = warp.ld_global(parts.at(np.maximum(index, 0)), order=order)[:, 0]  # <- plain loads
            found = np.where(index >= 0, found, INCLUSIVE)
            if warp.vote_sync("all", found & 3 > 0):
                ends = warp.vote_sync("ballot", found & 3 == INCLUSIVE)
                first = (ends & -ends).bit_length() - 1
                before += int(warp.redux_sync("add.u32", np.where(warp.laneid <= first, found >> 2, 0))[0, 0])
                with leader(warp):
                    warp.st_shared(8, before)
                    warp.atom_global("exch.b32", parts.at(tile), INCLUSIVE | before + total << 2)
                break
    if fault != "broadcast at once":
        warp.bar_sync()
    previous = warp.ld_shared(8) if tile else np.zeros((32, 1), np.uint32)  # <- broadcast at once
    if warp.warpid:
        previous = previous + warp.ld_shared(0)
    with warp.only(inside):
        warp.st_global(a + 4 * place, held + (sums - held[:, 3])[:, None] + previous, "v4.b32")


@ported(
    "after NVIDIA/cccl cub/cub/agent/single_pass_scan_operators.cuh",
    lambda: (numbers(128), zeros(4, dtype=np.uint64), zeros(4), zeros(4), zeros(4)),
    lambda a, *_: np.cumsum(a.reshape(4, 32).sum(axis=1)),
    {"value apart": "global-race", "status before value": "global-race"},
    grid=4,
    block=32,
)
def cub_tile_descriptors(warp, fault, a, tiles, values, status, d):
    """Status and value of a tile are one relaxed word of 64 bits; for wide values they are apart, with fences."""
    mine = warp.ctaid[0]
    total = warp.redux_sync("add.u32", warp.ld_global(a.at(32 * mine + warp.laneid)))[:, 0]
    apart = fault is not None
    with leader(warp):
        if fault == "value apart":
            warp.st_global(values.at(mine), total)
            warp.st_global(status.at(mine), PARTIAL, order="relaxed.gpu")
        elif fault == "status before value":
            warp.fence()
            warp.st_global(status.at(mine), PARTIAL, order="relaxed.gpu")
            warp.st_global(values.at(mine), total)  # <- status before value
        else:
            word = total.astype(np.uint64) << np.uint64(32) | np.uint64(PARTIAL)
            warp.st_global(tiles.at(mine), word, "b64", order="relaxed")
        for other in range(mine):
            if apart:
                while not warp.ld_global(status.at(other), order="relaxed.gpu")[0, 0]:
                    pass
                warp.fence()
                total = total + warp.ld_global(values.at(other))[:, 0]  # <- value apart; status before value
                continue
            while not (word := int(warp.ld_global(tiles.at(other), "b64", order="relaxed")[0, 0])) & 3:
                pass
            total = total + np.uint32(word >> 32)
        warp.st_global(d.at(mine), total)
