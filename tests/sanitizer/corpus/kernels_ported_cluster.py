"""Ported kernels of clusters: reductions by st.async, tiles shared between blocks, multicast in two directions."""

import numpy as np
from kernels_ported_grid import zeros
from kernels_ported_table import ported
from kernels_wild_correct_wgmma import TILE, box, multiply, store, swizzled
from kernels_wild_table import bits, floats, leader, one, product, small

from tcemu.machine.tensor_map import TensorMap


def meet(warp, order="release"):
    warp.barrier_cluster_arrive(order)
    warp.barrier_cluster_wait()


@ported(
    "after Dao-AILab/quack quack/reduce.py",
    lambda: (small(2, 4, 64, dtype=np.float32), np.zeros((2, 4, 64), np.float32)),
    lambda x, _: np.broadcast_to(x.sum(axis=(1, 2), keepdims=True) + (x * x).sum(axis=(1, 2), keepdims=True), x.shape),
    {
        "bytes of one block": "expect-tx",
        "no barrier of the cluster": "mbarrier-init",
        "one buffer for both": ("shared-race", "overwritten-early"),
        "one mbarrier for both": "expect-tx",
        "bytes read at once": "tma-unwaited",
    },
    grid=8,
    block=64,
    cluster=4,
    shared=80,
)
def a_row_is_reduced_by_a_cluster(warp, fault, x, d):
    """Each warp sends its sum to all blocks of its row by st.async; one lane arms for the bytes of all warps."""
    rank, row = warp.cluster_ctarank, warp.ctaid[0] // 4
    with leader(warp):
        warp.mbarrier_init(64, 1)
        warp.mbarrier_init(72, 1)
        warp.fence_mbarrier_init()
    if fault == "no barrier of the cluster":
        warp.bar_sync()
    else:
        meet(warp, "relaxed")

    def reduce(values, turn):
        for step in (16, 8, 4, 2, 1):
            values = values + warp.shfl_sync("bfly", values, step)
        buffer = 0 if fault == "one buffer for both" else 32 * turn
        bar, phase = (64, turn) if fault == "one mbarrier for both" else (64 + 8 * turn, 0)
        with leader(warp):
            count = 2 * (1 if fault == "bytes of one block" else 4)
            warp.mbarrier_arrive_expect_tx(bar, 4 * count)  # <- bytes of one block; one mbarrier for both
        with warp.only(warp.laneid < 4):
            peer = np.minimum(warp.laneid, 3)
            there = warp.mapa(buffer + 4 * (2 * rank + warp.warpid), peer)
            # <- one mbarrier for both; no barrier of the cluster; bytes of one block; one buffer for both
            warp.st_async(there, bits(values), warp.mapa(bar, peer))
        if fault != "bytes read at once":
            warp.mbarrier_wait(bar, phase)  # <- bytes of one block
        with warp.only(warp.laneid < 8):
            # <- bytes of one block; bytes read at once; one buffer for both
            parts = floats(warp.ld_shared(buffer + 4 * (warp.laneid % 8)))[:, 0]
        parts = np.where(warp.laneid < 8, parts, np.float32(0))
        for step in (16, 8, 4, 2, 1):
            parts = parts + warp.shfl_sync("bfly", parts, step)
        return parts

    held = floats(warp.ld_global(x.at(row, rank, warp.threads)))[:, 0]
    total = reduce(held, 0) + reduce(held * held, 1)
    warp.st_global(d.at(row, rank, warp.threads), bits(total))
    meet(warp)


def _shared_keys(q, k, _):
    return product(q, k.reshape(3, 64, 64).sum(axis=0))


Q, K = 0, TILE
BARS = 3 * TILE


@ported(
    "deepseek-ai/FlashMLA csrc/sm90/decode/sparse_fp8/splitkv_mla.cuh",
    lambda: (small(128, 64, seed=1), small(192, 64, seed=2), np.zeros((128, 64), np.float32)),
    _shared_keys,
    {
        "no proxy fence": "proxy-fence-missing",
        "only the own keys awaited": "tma-unwaited",
        "freed for the own block": ("overwritten-early", "deadlock"),
        "bytes of a whole tile": "expect-tx",
        "no cluster barrier at the end": ("exited-threads", "out-of-range"),
        "own half not awaited": ("shared-race", "proxy-fence-barrier"),
    },
    grid=2,
    block=256,
    cluster=2,
    shared=BARS + 72,
)
def each_block_prepares_half_of_the_keys_for_both(warp, fault, q, k, d):
    """A producer warpgroup stores its half of a tile here and, by st.async, in the peer; both multiply all of it."""
    rank, t = warp.cluster_ctarank, warp.threads % 128
    bar_q, local, remote, free = BARS, BARS + 8, BARS + 24, BARS + 40
    with leader(warp):
        warp.mbarrier_init(bar_q, 1)
        for buffer in range(2):
            warp.mbarrier_init(local + 8 * buffer, 128)
            warp.mbarrier_init(remote + 8 * buffer, 1)
            warp.mbarrier_init(free + 8 * buffer, 2 if fault != "freed for the own block" else 1)
        warp.fence_mbarrier_init()
    meet(warp)
    if warp.warpgroup == 1:
        for step in range(3):
            buffer, phase = step % 2, step // 2
            warp.mbarrier_wait(free + 8 * buffer, 1 - phase)  # <- freed for the own block
            peer_ready = warp.mapa(remote + 8 * buffer, 1 - rank)
            with leader(warp, 128):
                size = TILE if fault == "bytes of a whole tile" else TILE // 2
                warp.mbarrier_arrive_expect_tx(remote + 8 * buffer, size)  # <- bytes of a whole tile
            for part in range(2):
                row, unit = 32 * rank + t // 4, 2 * (t % 4) + part
                to = K + TILE * buffer + swizzled(row, unit)
                held = warp.ld_global(k.at(64 * step + row, 8 * unit), "v4.b32")
                warp.st_shared(to, held, "v4.b32")  # <- freed for the own block; own half not awaited
                # <- no cluster barrier at the end; freed for the own block; bytes of a whole tile
                warp.st_async(warp.mapa(to, 1 - rank), held, peer_ready, "v4.b32")
            if fault != "no proxy fence":
                warp.fence_proxy_async("shared::cta")
            warp.mbarrier_arrive(local + 8 * buffer)
    else:
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(bar_q, TILE)
            warp.cp_async_bulk_tensor_shared_global(Q, box(q), (0, 64 * rank), bar_q)
        warp.mbarrier_wait(bar_q, 0)
        c = warp.registers(32, fill=0)
        for step in range(3):
            buffer, phase = step % 2, step // 2
            if fault != "own half not awaited":
                warp.mbarrier_wait(local + 8 * buffer, phase)
            if fault != "only the own keys awaited":
                warp.mbarrier_wait(remote + 8 * buffer, phase)  # <- bytes of a whole tile
            warp.wgmma_fence()
            # <- no proxy fence; only the own keys awaited; own half not awaited
            multiply(warp, c, Q, K + TILE * buffer)
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(0)
            for there in range(2):
                with leader(warp, 32 * (there + 1)):
                    if there == rank or fault != "freed for the own block":
                        # <- no cluster barrier at the end
                        warp.mbarrier_arrive_shared_cluster(warp.mapa(free + 8 * buffer, there))
        store(warp, d, 64 * rank, 0, c)
    if fault != "no cluster barrier at the end":
        meet(warp)


SIDE = 1024  # bytes of 8 rows of 32 f32


@ported(
    "after NVIDIA/cutlass include/cutlass/pipeline/sm90_pipeline.hpp",
    lambda: (*(small(32, 96, seed=n, dtype=np.float32) for n in (1, 2)), zeros(2, 2, 512, dtype=np.float32)),
    lambda a, b, _: _crossed(a, b),
    {
        "released to the own block": ("overwritten-early", "deadlock", "mbarrier-arrivals"),
        "released to the row": ("overwritten-early", "deadlock"),
        "bytes of the own copies": ("expect-tx", "mbarrier-arrivals", "tma-unwaited"),
        "the producer does not drain": ("exited-threads", "out-of-range"),
        "mask of the other direction": ("expect-tx", "overwritten-early", "deadlock", "mbarrier-arrivals"),
    },
    grid=(2, 2),
    block=96,
    cluster=(2, 2),
    shared=8 * SIDE + 32,
)
def a_cluster_of_two_by_two_multicasts_in_both_directions(warp, fault, a, b, d):
    """Blocks of a row share A, blocks of a column B; each brings half for two, and releases to all who write to it."""
    x, y = warp.cluster_ctaid[:2]
    full, empty = 8 * SIDE, 8 * SIDE + 16
    with leader(warp):
        for stage in range(2):
            warp.mbarrier_init(full + 8 * stage, 1)
            count = {"released to the own block": 2, "released to the row": 4}.get(fault, 6)
            warp.mbarrier_init(empty + 8 * stage, count)
        warp.fence_mbarrier_init()
    meet(warp, "relaxed")
    tiles = [TensorMap.of(matrix, (32, 8)) for matrix in (a, b)]
    row_mask, column_mask = 0b11 << 2 * y, 0b101 << x
    if fault == "mask of the other direction":
        row_mask, column_mask = column_mask, row_mask
    if warp.warpid == 2:
        with one(warp):
            for step in range(3):
                stage, turn = step % 2, step // 2
                bar, to = full + 8 * stage, 4 * SIDE * stage
                # <- released to the own block; released to the row; mask of the other direction
                warp.mbarrier_wait(empty + 8 * stage, (turn + 1) % 2)
                size = 2 * SIDE if fault == "bytes of the own copies" else 4 * SIDE
                warp.mbarrier_arrive_expect_tx(bar, size)  # <- bytes of the own copies; mask of the other direction
                place = to + SIDE * x, (32 * step, 16 * y + 8 * x)
                # <- released to the own block; released to the row; bytes of the own copies
                # <- the producer does not drain; mask of the other direction
                warp.cp_async_bulk_tensor_shared_global(place[0], tiles[0], place[1], bar, cta_mask=row_mask)
                place = to + SIDE * (2 + y), (32 * step, 16 * x + 8 * y)
                # <- released to the own block; released to the row; bytes of the own copies
                # <- the producer does not drain; mask of the other direction
                warp.cp_async_bulk_tensor_shared_global(place[0], tiles[1], place[1], bar, cta_mask=column_mask)
            if fault != "the producer does not drain":
                for step in range(3, 5):
                    # <- mask of the other direction; released to the own block; released to the row
                    warp.mbarrier_wait(empty + 8 * (step % 2), (step // 2 + 1) % 2)
        return
    total = np.zeros((32, 8), np.float32)
    targets = {"released to the own block": [2 * y + x], "released to the row": [2 * y, 2 * y + 1]}
    targets = targets.get(fault, sorted({2 * y, 2 * y + 1, x, 2 + x}))
    for step in range(3):
        stage, turn = step % 2, step // 2
        warp.mbarrier_wait(full + 8 * stage, turn)  # <- mask of the other direction; bytes of the own copies
        for part in range(8):
            place = 4 * SIDE * stage + 256 * part + 4 * warp.threads
            left = floats(warp.ld_shared(place))[:, 0]  # <- bytes of the own copies; mask of the other direction
            total[:, part] += left * floats(warp.ld_shared(place + 2 * SIDE))[:, 0]
        warp.bar_warp_sync()
        with warp.only(warp.laneid < len(targets)):
            rank = np.array([*targets, *[targets[0]] * 32])[:32]
            warp.mbarrier_arrive_shared_cluster(warp.mapa(empty + 8 * stage, rank))  # <- the producer does not drain
    for part in range(8):
        warp.st_global(d.at(y, x, 64 * part + warp.threads), bits(total[:, part]))


def _crossed(a, b):
    """For each block, elementwise products of its 16 rows of A and its 16 rows of B, summed over the three steps."""
    left, right = (m.reshape(2, 16, 3, 32).transpose(0, 2, 1, 3).reshape(2, 3, 512) for m in (a, b))
    return np.einsum("ysi,xsi->yxi", left, right)
