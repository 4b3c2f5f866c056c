"""Wrong answers of notebook 12 that people give, with words that the diagnosis contains."""

import numpy as np

import tcemu
from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap

LOAD = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
LOAD_T = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16"

# ---------------------------------------------------------------------------------------------- split-K


def parts(A, B, size=64):
    """The parts, four of them."""
    return [tcemu.matmul(A[:, k : k + size], B[k : k + size], instruction=MMA) for k in range(0, 256, size)]


def unsplit(A, B):
    """One sum."""
    return tcemu.matmul(A, B, instruction=MMA)


def in_reverse(A, B):
    """The last part first."""
    first, second, third, fourth = parts(A, B)
    return fourth + third + second + first


def in_pairs(A, B):
    """As a tree."""
    first, second, third, fourth = parts(A, B)
    return (first + second) + (third + fourth)


def two_parts(A, B):
    """Halves of K."""
    first, second = parts(A, B, 128)
    return first + second


def steps_in_turn(A, B):
    """Steps of 16, distributed in turn."""
    total = 0
    for part in range(4):
        k = np.arange(256).reshape(4, 4, 16)[:, part].ravel()
        total = total + tcemu.matmul(A[:, k], B[k], instruction=MMA)
    return total


def interleaved(A, B):
    """Every fourth k."""
    total = 0
    for k in range(4):
        total = total + tcemu.matmul(A[:, k::4], np.ascontiguousarray(B[k::4]), instruction=MMA)
    return total


# ---------------------------------------------------------------------------------------------- mma.sync


def mma(warp, a, b, d, load_b=LOAD_T, order=(0, 1), steps=(0, 16, 32), barrier=True, tiles=1):
    """The kernel, with mistakes to choose from."""
    for first in (0, 128):
        unit = warp.threads + first
        with warp.only(unit < 192):
            warp.cp_async(112 * (unit // 6) + 16 * (unit % 6), a.at(unit // 6, 8 * (unit % 6)), 16)
            warp.cp_async(4096 + 80 * (unit // 4) + 16 * (unit % 4), b.at(unit // 4, 8 * (unit % 4)), 16)
    warp.cp_async_wait_all()
    if barrier:
        warp.bar_sync()
    row, column = 16 * (warp.warpid // 2), 16 * (warp.warpid % 2)
    down, along = warp.laneid % 16, warp.laneid // 16
    if load_b == LOAD:  # somebody who leaves out .trans also gives the addresses in the other order of matrices
        down, along = warp.laneid % 16, warp.laneid // 16
    c = [warp.registers(4, fill=0) for _ in range(2)]
    for k in steps:
        held_a = warp.run(LOAD, 112 * (row + down) + 2 * k + 16 * along)
        held_b = warp.run(load_b, 4096 + 80 * (k + down) + 2 * column + 16 * along)
        for n in range(2):
            c[n] = warp.run(MMA, held_a, held_b[:, 2 * n : 2 * n + 2], c[n])
    if tiles == 2:
        row, column = column, row
    for n in range(2):
        for half in range(2):
            to = d.at(row + warp.laneid // 4 + 8 * half, column + 8 * order[n] + 2 * (warp.laneid % 4))
            warp.st_global(to, c[n][:, 2 * half : 2 * half + 2], "v2.b32")


def without_trans(warp, a, b, d):
    """B as it is in memory."""
    mma(warp, a, b, d, load_b=LOAD)


def halves_exchanged(warp, a, b, d):
    """Columns 8 to 15 first."""
    mma(warp, a, b, d, order=(1, 0))


def one_step(warp, a, b, d):
    """No loop along K."""
    mma(warp, a, b, d, steps=(0,))


def without_barrier(warp, a, b, d):
    """Waits only for its own copies."""
    mma(warp, a, b, d, barrier=False)


def tiles_exchanged(warp, a, b, d):
    """Rows for columns."""
    mma(warp, a, b, d, tiles=2)


# ---------------------------------------------------------------------------------------------- mbarriers


def stages(warp, x, out, producer, consumer, arrive=True):
    """The kernel with parities of the step to choose."""
    full, empty = (2048, 2056), (2064, 2072)
    if warp.warpid == 1:
        with warp.only(warp.elect_sync()):
            for stage in range(2):
                warp.mbarrier_init(full[stage], 1)
                warp.mbarrier_init(empty[stage], 32)
            warp.fence_mbarrier_init()
    warp.bar_sync()
    if warp.warpid == 1:
        with warp.only(warp.elect_sync()):
            for step in range(x.shape[0]):
                stage = step % 2
                warp.mbarrier_wait(empty[stage], producer(step))
                warp.mbarrier_arrive_expect_tx(full[stage], 512)
                warp.cp_async_bulk_shared_global(512 * stage, x.at(step, 0), 512, full[stage])
        return
    total = 0
    for step in range(x.shape[0]):
        stage = step % 2
        warp.mbarrier_wait(full[stage], consumer(step))
        total = total + warp.ld_shared(512 * stage + 4 * warp.laneid)
        if arrive:
            warp.mbarrier_arrive(empty[stage])
    warp.st_global(out.at(warp.laneid), total)


def as_given(warp, x, out):
    """Unchanged."""
    stages(warp, x, out, lambda step: step // 2 % 2, lambda step: step % 2)


def only_the_consumer(warp, x, out):
    """One of the two mistakes is left."""
    stages(warp, x, out, lambda step: step // 2 % 2, lambda step: step // 2 % 2)


def only_the_producer(warp, x, out):
    """The other one is left."""
    stages(warp, x, out, lambda step: (step // 2 + 1) % 2, lambda step: step % 2)


def no_arrival(warp, x, out):
    """The consumer never says that it has read a stage."""
    stages(warp, x, out, lambda step: (step // 2 + 1) % 2, lambda step: step // 2 % 2, arrive=False)


# ---------------------------------------------------------------------------------------------- wgmma


def hopper(warp, a, b, d, advance=32, clear=False, flips=True, fence=True, wait=True, order=(0, 1), bits=(0, 0)):
    """The kernel, with mistakes to choose from."""
    steps = a.shape[1] // 64
    full, empty = (32768, 32776), (32784, 32792)
    if warp.warpid == 4:
        with warp.only(warp.elect_sync()):
            for stage in range(2):
                warp.mbarrier_init(full[stage], 1)
                warp.mbarrier_init(empty[stage], 4)
            warp.fence_mbarrier_init()
    warp.bar_sync()
    if warp.warpid == 4:
        maps = [TensorMap.of(each, (64, 64), swizzle=128) for each in (a, b)]
        with warp.only(warp.elect_sync()):
            for step in range(steps):
                stage, turn = step % 2, step // 2
                warp.mbarrier_wait(empty[stage], (turn + 1) % 2)
                warp.mbarrier_arrive_expect_tx(full[stage], 16384)
                for i in range(2):
                    to = 16384 * stage + 8192 * i
                    warp.cp_async_bulk_tensor_shared_global(to, maps[order[i]], (64 * step, 0), full[stage])
        return
    c = warp.registers(32, fill=0)
    for step in range(steps):
        stage, turn = step % 2, step // 2
        warp.mbarrier_wait(full[stage], turn % 2 if flips else 0)
        of_a, of_b = (Descriptor.for_tile("f16", 64, 64, swizzle=128, start=16384 * stage + 8192 * i) for i in range(2))
        if fence:
            warp.wgmma_fence()
        for at in range(4):
            more = at > 0 or (step > 0 and not clear)
            warp.run(WGMMA, c, of_a.step(advance * at), of_b.step(advance * at), more, 1, 1, *bits)
        warp.wgmma_commit_group()
        if wait:
            warp.wgmma_wait_group(0)
        with warp.only(warp.elect_sync()):
            warp.mbarrier_arrive(empty[stage])
    warp.wgmma_wait_group(0)
    row = 16 * warp.warpid + warp.laneid // 4
    for pair in range(16):
        to = d.at(row + 8 * (pair % 2), 8 * (pair // 2) + 2 * (warp.laneid % 4))
        warp.st_global(to, c[:, 2 * pair : 2 * pair + 2], "v2.b32")


def b_transposed(warp, a, b, d):
    """As for a matrix that is stored k by n."""
    hopper(warp, a, b, d, bits=(0, 1))


def same_k(warp, a, b, d):
    """The descriptors stay where they are."""
    hopper(warp, a, b, d, advance=0)


def cleared_each_time(warp, a, b, d):
    """scale-d is 0 at the start of each stage."""
    hopper(warp, a, b, d, clear=True)


def parity_stays(warp, a, b, d):
    """The consumer always waits for parity 0."""
    hopper(warp, a, b, d, flips=False)


def without_fence(warp, a, b, d):
    """No wgmma.fence."""
    hopper(warp, a, b, d, fence=False)


def released_early(warp, a, b, d):
    """The stage is released while the group runs."""
    hopper(warp, a, b, d, wait=False)


def exchanged(warp, a, b, d):
    """B's tile first."""
    hopper(warp, a, b, d, order=(1, 0))


def paired(warp, a, b, d, readers=8, rows=None, columns=None, mask=3, expected=16384):
    """The kernel of two blocks, with mistakes to choose from."""
    steps, rank = a.shape[1] // 64, warp.cluster_ctarank
    rows, columns = rank if rows is None else rows, rank if columns is None else columns
    full, empty = (32768, 32776), (32784, 32792)
    if warp.warpid == 4:
        with warp.only(warp.elect_sync()):
            for stage in range(2):
                warp.mbarrier_init(full[stage], 1)
                warp.mbarrier_init(empty[stage], readers)
            warp.fence_mbarrier_init()
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
    if warp.warpid == 4:
        half, tile = TensorMap.of(a, (64, 32), swizzle=128), TensorMap.of(b, (64, 64), swizzle=128)
        with warp.only(warp.elect_sync()):
            for step in range(steps):
                stage, turn = step % 2, step // 2
                warp.mbarrier_wait(empty[stage], (turn + 1) % 2)
                warp.mbarrier_arrive_expect_tx(full[stage], expected)
                to, at = 16384 * stage, (64 * step, 32 * rows)
                more = {} if mask is None else {"cta_mask": mask}
                warp.cp_async_bulk_tensor_shared_global(to + 4096 * rank, half, at, full[stage], **more)
                warp.cp_async_bulk_tensor_shared_global(to + 8192, tile, (64 * step, 64 * columns), full[stage])
    else:
        c = warp.registers(32, fill=0)
        for step in range(steps):
            stage, turn = step % 2, step // 2
            warp.mbarrier_wait(full[stage], turn % 2)
            of_a, of_b = (
                Descriptor.for_tile("f16", 64, 64, swizzle=128, start=16384 * stage + 8192 * i) for i in range(2)
            )
            warp.wgmma_fence()
            for at in range(0, 128, 32):
                warp.run(WGMMA, c, of_a.step(at), of_b.step(at), step > 0 or at > 0, 1, 1, 0, 0)
            warp.wgmma_commit_group()
            warp.wgmma_wait_group(0)
            with warp.only(warp.elect_sync()):
                for block in range(2) if readers == 8 else [rank]:
                    warp.mbarrier_arrive_shared_cluster(warp.mapa(empty[stage], block))
        row = 16 * warp.warpid + warp.laneid // 4
        for pair in range(16):
            to = d.at(row + 8 * (pair % 2), 64 * rank + 8 * (pair // 2) + 2 * (warp.laneid % 4))
            warp.st_global(to, c[:, 2 * pair : 2 * pair + 2], "v2.b32")
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()


def same_columns(warp, a, b, d):
    """Both blocks copy the first 64 rows of B."""
    paired(warp, a, b, d, columns=0)


def same_half(warp, a, b, d):
    """Both blocks copy the first 32 rows of A."""
    paired(warp, a, b, d, rows=0)


def own_readers(warp, a, b, d):
    """A producer waits for the consumers of its own block only."""
    paired(warp, a, b, d, readers=4)


def own_bytes(warp, a, b, d):
    """expect_tx announces only the bytes that the block copies itself."""
    paired(warp, a, b, d, expected=4096 + 8192)


def not_shared(warp, a, b, d):
    """Without a mask, the halves stay where they are copied."""
    paired(warp, a, b, d, mask=None)


WRONG = {
    "split_sums": [
        (unsplit, "without splits"),
        (in_reverse, "reverse"),
        (in_pairs, "in pairs"),
        (interleaved, "interleaved"),
        (two_parts, "There are 2 parts"),
        (steps_in_turn, "You distributed the steps of 16"),
    ],
    "mma_gemm": [
        (without_trans, "trans"),
        (halves_exchanged, "swapped"),
        (one_step, "first step"),
        (without_barrier, "cp.async"),
        (tiles_exchanged, "rows and columns"),
    ],
    "mended_stages": [
        (as_given, "phase"),
        (only_the_consumer, "phase"),
        (only_the_producer, "phase"),
        (no_arrival, "phase"),
    ],
    "wgmma_gemm": [
        (same_k, "32 bytes"),
        (cleared_each_time, "starts anew"),
        (parity_stays, "TMA"),
        (without_fence, "fence"),
        (released_early, "overwritten"),
        (exchanged, "swapped"),
        (b_transposed, "The transpose bit of B is set"),
    ],
    "cluster_gemm": [
        (same_columns, "second one begins"),
        (same_half, "its own half"),
        (own_readers, "overwritten"),
        (own_bytes, "expect"),
        (not_shared, "expect"),
    ],
}
