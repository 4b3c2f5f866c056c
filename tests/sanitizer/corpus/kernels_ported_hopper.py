"""Ported kernels of Hopper: a tile scheduler, tensor maps changed on the way, multicast, stores by TMA."""

import numpy as np
from kernels_ported_grid import zeros
from kernels_ported_table import ported
from kernels_wild_correct_wgmma import TILE, multiply, store
from kernels_wild_table import leader, matrices, one, product, small

from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import words_of

REPLACE = "tensormap.replace.tile.{}.shared::cta.b1024.{}"
PROXY = "fence.proxy.tensormap::generic.{}.gpu"


def columns(count):
    return np.arange(count, dtype=np.uint32)


@ported(
    "after Dao-AILab/flash-attention hopper/tile_scheduler.hpp",
    lambda: (columns(640), zeros(1), zeros(640)),
    lambda a, *_: a + 3,
    {
        "nobody waits for empty": ("shared-race", "barrier-threads"),
        "consumers do not arrive at empty": ("deadlock", "exited-threads"),
        "full counts the consumers alone": ("barrier-threads", "deadlock", "exited-threads"),
        "arrives in front of the store": "shared-race",
    },
    grid=2,
    block=96,
    shared=4,
)
def a_dynamic_persistent_tile_scheduler(warp, fault, a, counter, d):
    """The producer warp counts tiles; it hands each number to two consumer warps by two named barriers."""
    full, empty, threads = 1, 2, 64 if fault == "full counts the consumers alone" else 96
    tile = warp.ctaid[0]
    if warp.warpid == 0:
        while True:
            with one(warp):
                new = warp.atom_global("add.u32", counter, 1)
            new = int(warp.shfl_sync("idx", new, 0)[0, 0]) + 2
            if fault != "nobody waits for empty":
                warp.bar_sync(empty, 96)  # <- consumers do not arrive at empty
            if fault == "arrives in front of the store":
                warp.bar_arrive(full, 96)
            with one(warp):
                warp.st_shared(0, new)  # <- nobody waits for empty; arrives in front of the store
            if fault != "arrives in front of the store":
                warp.bar_arrive(full, threads)  # <- full counts the consumers alone; nobody waits for empty
            if new >= 10:
                return
    warp.bar_arrive(empty, 96)
    while tile < 10:
        place = 64 * tile + warp.threads - 32
        warp.st_global(d.at(place), warp.ld_global(a.at(place)) + 3)
        # <- full counts the consumers alone; consumers do not arrive at empty; nobody waits for empty
        warp.bar_sync(full, 96)
        tile = int(warp.ld_shared(0)[0, 0])  # <- nobody waits for empty; arrives in front of the store
        if tile < 10 and fault != "consumers do not arrive at empty":
            warp.bar_arrive(empty, 96)


def _grouped(a, *_):
    return a.reshape(2, 3, 8, 32).sum(axis=1).astype(np.float32)


@ported(
    "deepseek-ai/DeepGEMM deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d1d.cuh",
    lambda: (small(48, 32, dtype=np.float32), np.zeros(64, np.uint32), np.zeros((2, 8, 32), np.float32)),
    _grouped,
    {
        "no release": "proxy-fence-missing",
        "no acquire": "proxy-fence-missing",
        "acquired for the first group alone": "proxy-fence-missing",
    },
    grid=1,
    block=64,
    shared=2048 + 160,
)
def groups_by_a_tensor_map_that_is_changed(warp, fault, a, maps, d):
    """For each group one thread changes the map in shared memory, copies it to global memory, and loads through it."""
    at_map, full, empty = 2048, 2048 + 128, 2048 + 144
    with leader(warp):
        for stage in range(2):
            warp.mbarrier_init(full + 8 * stage, 1)
            warp.mbarrier_init(empty + 8 * stage, 1)
        warp.fence_mbarrier_init()
    if warp.warpid == 0:
        base = words_of(TensorMap.of(a, (32, 8)))
        warp.st_shared(at_map + 4 * warp.laneid, base)
    warp.bar_sync()
    if warp.warpid == 0:
        with one(warp):
            for step in range(6):
                stage, turn, group = step % 2, step // 2, step // 3
                here = maps + 128 * group
                if step % 3 == 0:
                    warp.run(REPLACE.format("global_address", "b64"), at_map, int(a) + 3072 * group)
                    warp.run(REPLACE.format("global_dim", "b32"), at_map, 1, 24)
                    for part in range(8):
                        words = warp.ld_shared(at_map + 16 * part, "v4.b32")
                        warp.st_global(here + 16 * part, words, "v4.b32")
                    if fault != "no release":
                        warp.run(PROXY.format("release"))
                    if fault != "no acquire" and (group == 0 or fault != "acquired for the first group alone"):
                        warp.run(PROXY.format("acquire"), here, 128)
                warp.mbarrier_wait(empty + 8 * stage, (turn + 1) % 2)
                warp.mbarrier_arrive_expect_tx(full + 8 * stage, 1024)
                coordinates = 0, 8 * (step % 3)
                # <- no release; no acquire; acquired for the first group alone
                warp.cp_async_bulk_tensor_shared_global(1024 * stage, here, coordinates, full + 8 * stage)
        return
    for group in range(2):
        total = np.zeros((32, 8), np.float32)
        for step in range(3 * group, 3 * group + 3):
            stage, turn = step % 2, step // 2
            warp.mbarrier_wait(full + 8 * stage, turn % 2)
            for row in range(8):
                total[:, row] += warp.ld_shared(1024 * stage + 128 * row + 4 * warp.laneid).view(np.float32)[:, 0]
            warp.bar_warp_sync()
            with one(warp):
                warp.mbarrier_arrive(empty + 8 * stage)
        for row in range(8):
            warp.st_global(d.at(group, row, warp.laneid), total[:, row].view(np.uint32))


@ported(
    "pranjalssh/fast.cu examples/matmul/matmul_9.cuh",
    matrices(128, 64, 256),
    lambda a, b, _: product(a, b),
    {
        "as published": ("exited-threads", "out-of-range"),
        "free for the own consumers": "overwritten-early",
        "free in both": "mbarrier-arrivals",
        "bytes of A alone": "expect-tx",
        "parity not flipped": ("tma-unwaited", "deadlock", "overwritten-early"),
        "no barrier of the cluster at the start": ("mbarrier-init", "out-of-range"),
    },
    grid=2,
    block=256,
    cluster=2,
    shared=4 * TILE + 32,
)
def two_blocks_share_b_by_multicast(warp, fault, a, b, d):
    """Block 0 brings B for both, and so waits for the consumers of both. As published, nobody waits at the end.

    There the consumers of block 0 free block 1's stages, too, which they cannot know to be in the same turn.
    """
    rank, full, empty = warp.cluster_ctarank, 4 * TILE, 4 * TILE + 16
    alone = fault == "free for the own consumers" or (rank == 1 and fault != "free in both")
    with leader(warp):
        for stage in range(2):
            warp.mbarrier_init(full + 8 * stage, 1)
            warp.mbarrier_init(empty + 8 * stage, 1 if alone else 2)
        warp.fence_mbarrier_init()
    if fault == "no barrier of the cluster at the start":
        warp.bar_sync()
    else:
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()
    rows = TensorMap.of(a, (64, 64), swizzle=128)
    other = TensorMap.of(b, (64, 64), swizzle=128)

    def free(stage):
        there = {"free for the own consumers": [rank], "free in both": [0, 1]}.get(fault, [0, 1] if rank else [0])
        with warp.only((warp.laneid < len(there)) & (warp.warpid == 4)):
            to = warp.mapa(empty + 8 * stage, np.resize(there, 32))
            # <- no barrier of the cluster at the start; as published; free in both
            warp.mbarrier_arrive_shared_cluster(to)

    if warp.warpgroup == 0:
        with leader(warp):
            for step in range(4):
                stage, phase = step % 2, step // 2
                # <- no barrier of the cluster at the start; as published
                warp.mbarrier_wait(empty + 8 * stage, 0 if fault == "parity not flipped" else phase)
                size = TILE if fault == "bytes of A alone" else 2 * TILE
                warp.mbarrier_arrive_expect_tx(full + 8 * stage, size)  # <- bytes of A alone; parity not flipped
                to = 2 * TILE * stage
                # <- parity not flipped; free for the own consumers
                warp.cp_async_bulk_tensor_shared_global(to, rows, (64 * step, 64 * rank), full + 8 * stage)
                if rank == 0:
                    place = 64 * step, 0
                    # <- as published; no barrier of the cluster at the start; free for the own consumers
                    # <- parity not flipped; bytes of A alone
                    warp.cp_async_bulk_tensor_shared_global(to + TILE, other, place, full + 8 * stage, cta_mask=3)
    else:
        c = warp.registers(32, fill=0)
        for stage in range(2):
            free(stage)
        for step in range(4):
            stage, phase = step % 2, step // 2
            # <- parity not flipped; no barrier of the cluster at the start; bytes of A alone
            warp.mbarrier_wait(full + 8 * stage, phase)
            warp.wgmma_fence()
            multiply(warp, c, 2 * TILE * stage, 2 * TILE * stage + TILE)  # <- bytes of A alone
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(0)
            free(stage)
        store(warp, d, 64 * rank, 0, c)
    if fault != "as published":
        warp.barrier_cluster_arrive()
        warp.barrier_cluster_wait()


@ported(
    "ColfaxResearch/cfx-article-src transpose-cute/include/transpose_tmastore_vectorized.h",
    lambda: (columns(64 * 64).reshape(64, 64), zeros(64, 64)),
    lambda a, _: a.T,
    {
        "as published": ("out-of-range", "overwritten-early", "tma-unwaited", "exited-threads"),
        "no fence": "proxy-fence-missing",
        "fence by the storing thread": "proxy-fence-thread",
        "no barrier": ("proxy-fence-barrier", "shared-race"),
        "all warps store": ("global-race",),
    },
    grid=(2, 2),
    block=256,
    shared=4096,
)
def a_tile_is_transposed_and_leaves_by_tma(warp, fault, a, d):
    """A thread reads four in a row and stores them in a column. As published, tma_store_wait follows no commit."""
    x, y = warp.ctaid[:2]
    row, column = warp.threads // 8, 4 * (warp.threads % 8)
    held = warp.ld_global(a.at(32 * x + row, 32 * y + column), "v4.b32")
    for i in range(4):
        warp.st_shared(128 * (column + i) + 4 * row, held[:, i])
    if fault not in ("no fence", "fence by the storing thread"):
        warp.fence_proxy_async("shared::cta")
    if fault != "no barrier":
        warp.bar_sync()
    if warp.warpid == 0 or fault == "all warps store":
        with one(warp):
            if fault == "fence by the storing thread":
                warp.fence_proxy_async("shared::cta")
            # <- as published; no fence; fence by the storing thread; no barrier; all warps store
            warp.cp_async_bulk_tensor_global_shared(TensorMap.of(d, (32, 32)), (32 * x, 32 * y), 0)
            if fault != "as published":
                warp.cp_async_bulk_commit_group()
    warp.cp_async_bulk_wait_group(0)
