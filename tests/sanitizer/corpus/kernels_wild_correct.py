"""Correct kernels in the wild: loads and stores, shuffles, barriers, mbarriers."""

import numpy as np
from kernels_wild_table import bits, correct, floats, leader, small, words

# ------------------------------------------------------------------------------------------------ loads and stores


@correct(lambda: (small(32, 32, dtype=np.uint32), np.zeros((32, 32), np.uint32)), lambda a: a.T, shared=32 * 33 * 4)
def a_transpose_with_a_padded_tile(warp, a, d):
    """CUDA samples: rows of 33 words, so that a column lies in 32 banks; four warps, eight rows each."""
    for row in range(warp.warpid, 32, 4):
        warp.st_shared(4 * (33 * row + warp.laneid), warp.ld_global(a.at(row, warp.laneid)))
    warp.bar_sync()
    for row in range(warp.warpid, 32, 4):
        warp.st_global(d.at(row, warp.laneid), warp.ld_shared(4 * (33 * warp.laneid + row)))


@correct(words(1024, 1), lambda a: a.sum(keepdims=True), shared=512)
def a_reduction_whose_last_warp_synchronises_itself(warp, a, d):
    """The classic tree, the last steps unrolled with __syncwarp between load and store."""
    t = warp.threads
    total = sum(np.asarray(warp.ld_global(a.at(t + 128 * part)))[:, 0] for part in range(8))
    warp.st_shared(4 * t, total)
    warp.bar_sync()
    with warp.only(t < 64):
        total = total + warp.ld_shared(4 * (t + 64))[:, 0]
        warp.st_shared(4 * t, total)
    warp.bar_sync()
    if warp.warpid == 0:
        total = total + warp.ld_shared(4 * (t + 32))[:, 0]
        for width in (16, 8, 4, 2, 1):
            warp.st_shared(4 * t, total)
            warp.bar_warp_sync()
            with warp.only(t < width):
                total = total + warp.ld_shared(4 * (t + width))[:, 0]
            warp.bar_warp_sync()
        with leader(warp):
            warp.st_global(d, total)


@correct(words(128, 128), np.cumsum, shared=1024)
def a_scan_in_two_buffers(warp, a, d):
    """Hillis and Steele: each step reads one buffer and writes the other, one barrier a step."""
    t, near = warp.threads, 0
    warp.st_shared(4 * t, warp.ld_global(a.at(t)))
    for step in (1, 2, 4, 8, 16, 32, 64):
        warp.bar_sync()
        value = warp.ld_shared(near + 4 * t)[:, 0]
        before = warp.ld_shared(near + 4 * np.maximum(t - step, 0))[:, 0]
        near = 512 - near
        warp.st_shared(near + 4 * t, np.where(t >= step, value + before, value))
    warp.st_global(d.at(t), warp.ld_shared(near + 4 * t))


@correct(words(128, 128), np.cumsum, shared=16)
def a_scan_of_warps(warp, a, d):
    """CUB: shuffles inside a warp, the sums of the warps through shared memory."""
    x = warp.ld_global(a.at(warp.threads))[:, 0]
    for step in (1, 2, 4, 8, 16):
        other = warp.shfl_sync("up", x, step)
        x = np.where(warp.laneid >= step, x + other, x)
    with warp.only(warp.laneid == 31):
        warp.st_shared(4 * warp.warpid, x)
    warp.bar_sync()
    for before in range(warp.warpid):
        x = x + warp.ld_shared(4 * before)[:, 0]
    warp.st_global(d.at(warp.threads), x)


def _softmax(a):
    e = np.exp2(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@correct(lambda: (small(3, 128, dtype=np.float32), np.zeros((3, 128), np.float32)), _softmax, shared=32)
def a_softmax_of_rows_that_reuses_its_scratch(warp, a, d):
    """Maximum and sum of the block through the same words: a barrier before each reuse, none is left out."""

    def of_block(x, join):
        for step in (16, 8, 4, 2, 1):
            x = join(x, warp.shfl_sync("bfly", x, step))
        with warp.only(warp.laneid == 0):
            warp.st_shared(4 * warp.warpid, bits(x))
        warp.bar_sync()
        found = floats(warp.ld_shared(4 * (warp.laneid % 4)))[:, 0]
        for step in (2, 1):
            found = join(found, warp.shfl_sync("bfly", found, step))
        warp.bar_sync()
        return found

    for row in range(3):
        x = floats(warp.ld_global(a.at(row, warp.threads)))[:, 0]
        e = np.exp2(x - of_block(x, np.maximum))
        warp.st_global(d.at(row, warp.threads), e / of_block(e, np.add))


@correct(words(64, 64), lambda a: a[::-1], block=32, shared=256)
def a_bitonic_sort_of_one_warp(warp, a, d):
    """64 keys in shared memory, __syncwarp between the steps: descending."""
    t = warp.laneid
    for half in (0, 32):
        warp.st_shared(4 * (t + half), warp.ld_global(a.at(t + half)))
    warp.bar_warp_sync()
    size = 2
    while size <= 64:
        stride = size // 2
        while stride:
            low = 2 * t - (t & (stride - 1))
            x, y = warp.ld_shared(4 * low)[:, 0], warp.ld_shared(4 * (low + stride))[:, 0]
            swap = (x < y) == ((low & size) == 0)
            warp.st_shared(4 * low, np.where(swap, y, x))
            warp.st_shared(4 * (low + stride), np.where(swap, x, y))
            warp.bar_warp_sync()
            stride //= 2
        size *= 2
    for half in (0, 32):
        warp.st_global(d.at(t + half), warp.ld_shared(4 * (t + half)))


def _stencil(a):
    wide = np.pad(a.astype(np.int64), 2)
    return sum(wide[shift : shift + len(a)] for shift in range(5)).astype(np.uint32)


@correct(words(200, 200), _stencil, grid=2, block=100, shared=4 * 104)
def a_stencil_with_a_halo(warp, a, d):
    """100 threads: the last warp is not full; the first threads load the halo, zeros beyond the ends."""
    t, start = warp.threads, 100 * warp.ctaid[0]
    there = t < 100
    with warp.only(there):
        warp.st_shared(4 * (t + 2), warp.ld_global(a.at(start + t)))
    with warp.only(t < 4):
        place = np.where(t < 2, start - 2 + t, start + 98 + t)
        inside = (place >= 0) & (place < 200)
        found = warp.registers(1, fill=0)
        with warp.only(inside):
            found[inside] = np.asarray(warp.ld_global(a.at(place)))[inside]
        warp.st_shared(4 * np.where(t < 2, t, 100 + t), found)
    warp.bar_sync()
    with warp.only(there):
        total = sum(np.asarray(warp.ld_shared(4 * (t + shift)))[:, 0] for shift in range(5))
        warp.st_global(d.at(start + t), total)


def _counts(a):
    return np.bincount(a % 16, minlength=16).astype(np.uint32)


@correct(words(1024, 16), _counts, shared=4 * 16 * 128)
def a_histogram_with_counters_for_each_thread(warp, a, d):
    """No atomics: every thread has its own bins, which the first 16 threads add after a barrier."""
    t = warp.threads
    for digit in range(16):
        warp.st_shared(4 * (128 * digit + t), 0)
    for part in range(8):
        digit = warp.ld_global(a.at(t + 128 * part))[:, 0].astype(np.int64) % 16
        mine = 4 * (128 * digit + t)
        warp.st_shared(mine, warp.ld_shared(mine) + 1)
    warp.bar_sync()
    if warp.warpid == 0:
        with warp.only(t < 16):
            total = np.zeros(32, np.uint32)
            for thread in range(128):
                total += np.asarray(warp.ld_shared(4 * (128 * (t % 16) + thread)))[:, 0]
            warp.st_global(d.at(t % 16), total)


@correct(
    lambda: (small(16, 32, dtype=np.float32), small(32, 16, dtype=np.float32), np.zeros((16, 16), np.float32)),
    lambda a, b: a @ b,
    block=(16, 16),
    shared=2048,
)
def the_tiled_product_of_the_programming_guide(warp, a, b, d):
    """A thread for each element, two barriers a tile."""
    x, y, _ = warp.tid
    total = np.zeros(32, np.float32)
    for k in range(0, 32, 16):
        warp.st_shared(4 * (16 * y + x), warp.ld_global(a.at(y, k + x)))
        warp.st_shared(1024 + 4 * (16 * y + x), warp.ld_global(b.at(k + y, x)))
        warp.bar_sync()
        for i in range(16):
            one, two = warp.ld_shared(4 * (16 * y + i)), warp.ld_shared(1024 + 4 * (16 * i + x))
            total += (floats(one) * floats(two))[:, 0]
        warp.bar_sync()
    warp.st_global(d.at(y, x), total)


@correct(words(128, 128), lambda a: a[np.arange(128) ^ 31], shared=512)
def warps_that_exchange_in_their_own_part(warp, a, d):
    """Each warp stages in 128 bytes of its own: bar.warp.sync is all it needs, twice in a loop."""
    base = 128 * warp.warpid
    value = warp.ld_global(a.at(warp.threads))
    for _ in range(3):
        warp.st_shared(base + 4 * warp.laneid, value)
        warp.bar_warp_sync()
        value = warp.ld_shared(base + 4 * (31 - warp.laneid))
        warp.bar_warp_sync()
    warp.st_global(d.at(warp.threads), value)


@correct(words(128, 128), lambda a: a.reshape(16, 8).sum(axis=1).repeat(8).astype(np.uint32))
def groups_of_eight_lanes(warp, a, d):
    """Cooperative groups: sums of tiles of eight lanes."""
    x = warp.ld_global(a.at(warp.threads))[:, 0]
    for step in (4, 2, 1):
        x = x + warp.shfl_sync("down", x, step, width=8)
    warp.st_global(d.at(warp.threads), warp.shfl_sync("idx", x, 0, width=8))


@correct(words(128, 128), lambda a: np.where(a < 100, a // 2**4 + 1, a), shared=4)
def a_loop_that_all_leave_together(warp, a, d):
    """The block continues while a flag in shared memory says so: cleared, barrier, set by any thread, barrier, read."""
    x = warp.ld_global(a.at(warp.threads))[:, 0]
    small_ones, rounds = x < 100, 0
    while True:
        if warp.warpid == 0:
            with leader(warp):
                warp.st_shared(0, 0)
        warp.bar_sync()
        if rounds < 4 and warp.vote_sync("any", small_ones) and warp.warpid == 1:
            with warp.only(warp.laneid == 0):
                warp.st_shared(0, 1)
        warp.bar_sync()
        again = int(warp.ld_shared(0)[0, 0])
        warp.bar_sync()
        if not again:
            break
        x, rounds = np.where(small_ones, x // 2, x), rounds + 1
    warp.st_global(d.at(warp.threads), np.where(small_ones, x + 1, x))


@correct(words(512, 512), lambda a: a + 1, block=128, shared=1024)
def a_ring_between_warps_with_named_barriers(warp, a, d):
    """Warps 0 and 1 fill two buffers in turn, warps 2 and 3 empty them: full and empty are bar.sync and bar.arrive."""
    t = warp.threads % 64
    for step in range(8):
        buffer = step % 2
        full, empty = 1 + buffer, 3 + buffer
        if warp.warpid < 2:
            if step >= 2:
                warp.bar_sync(empty, 128)
            warp.st_shared(512 * buffer + 4 * t, warp.ld_global(a.at(64 * step + t)))
            warp.bar_arrive(full, 128)
        else:
            warp.bar_sync(full, 128)
            held = warp.ld_shared(512 * buffer + 4 * t)
            if step < 6:
                warp.bar_arrive(empty, 128)
            warp.st_global(d.at(64 * step + t), held + 1)


@correct(words(256, 256), lambda a: a[::-1], shared=1032)
def an_mbarrier_split_into_arriving_and_waiting(warp, a, d):
    """CUDA programming guide: arrive, do something else, wait."""
    t = warp.threads
    with leader(warp):
        warp.mbarrier_init(1024, 128)
    warp.bar_sync()
    for half in (0, 128):
        warp.st_shared(4 * (t + half), warp.ld_global(a.at(t + half)))
    warp.mbarrier_arrive(1024)
    other = 255 - t
    warp.mbarrier_wait(1024, 0)
    for half in (0, 128):
        warp.st_global(d.at(t + half), warp.ld_shared(4 * (other - half)))


@correct(words(512, 512), lambda a: a * 3, block=128, shared=1056, target="sm_80")
def producers_and_consumers_of_the_programming_guide(warp, a, d):
    """Two buffers with a ready and a filled mbarrier each, of all 128 threads: everybody arrives, one side waits.

    sm_80 has no try_wait, so test_wait in a loop.
    """
    t = warp.threads % 64
    ready, filled = 1024, 1040
    with leader(warp):
        for buffer in range(2):
            warp.mbarrier_init(ready + 8 * buffer, 128)
            warp.mbarrier_init(filled + 8 * buffer, 128)
    warp.bar_sync()
    if warp.warpid >= 2:
        for buffer in range(2):
            warp.mbarrier_arrive(ready + 8 * buffer)  # both buffers are free at first
    for step in range(8):
        buffer, parity = step % 2, step // 2 % 2
        if warp.warpid < 2:
            warp.mbarrier_arrive(ready + 8 * buffer)
            while not warp.mbarrier_test_wait(ready + 8 * buffer, parity):
                pass
            warp.st_shared(512 * buffer + 4 * t, warp.ld_global(a.at(64 * step + t)))
            warp.mbarrier_arrive(filled + 8 * buffer)
        else:
            warp.mbarrier_arrive(filled + 8 * buffer)
            while not warp.mbarrier_test_wait(filled + 8 * buffer, parity):
                pass
            held = warp.ld_shared(512 * buffer + 4 * t)
            if step < 6:
                warp.mbarrier_arrive(ready + 8 * buffer)
            warp.st_global(d.at(64 * step + t), held * 3)


@correct(words(256, 256), lambda a: a.reshape(2, 4, 32)[::-1].ravel(), block=256, shared=1024)
def two_halves_of_a_block_meet_separately_and_then_together(warp, a, d):
    """Named barriers of 128 threads for each half, barrier 0 for all."""
    group, t = warp.warpid // 4, warp.threads % 128
    for _ in range(2):
        warp.st_shared(512 * group + 4 * t, warp.ld_global(a.at(128 * group + 127 - t)))
        warp.bar_sync(1 + group, 128)
        held = warp.ld_shared(512 * group + 4 * (127 - t))
        warp.bar_sync(1 + group, 128)
    warp.st_shared(512 * group + 4 * t, held)
    warp.bar_sync()
    warp.st_global(d.at(128 * group + t), warp.ld_shared(512 * (1 - group) + 4 * t))
