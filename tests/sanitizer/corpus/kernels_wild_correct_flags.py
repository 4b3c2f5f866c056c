"""Correct kernels in the wild: atomics, flags, locks, fences, barriers that reduce, tokens of mbarriers."""

import numpy as np
from kernels_wild_table import correct, floats, leader, small, words

from tcemu.machine.tensor_map import TensorMap


def _counts(a):
    return np.bincount(a % 16, minlength=16).astype(np.uint32)


@correct(words(1024, 16), _counts, grid=2, shared=64)
def a_histogram_with_shared_atomics(warp, a, d):
    """CUDA samples: bins cleared, barrier, red.shared, barrier, red.global by a thread for each bin."""
    with warp.only(warp.threads < 16):
        warp.st_shared(4 * warp.threads, 0)
    warp.bar_sync()
    for part in range(4):
        held = warp.ld_global(a.at(512 * warp.ctaid[0] + 128 * part + warp.threads))[:, 0]
        warp.red_shared("add.u32", 4 * (held.astype(np.int64) % 16), 1)
    warp.bar_sync()
    with warp.only(warp.threads < 16):
        warp.red_global("add.u32", d.at(warp.threads % 16), warp.ld_shared(4 * (warp.threads % 16)))


def _tiles():
    return np.arange(640, dtype=np.uint32), np.zeros(1, np.uint32), np.zeros(640, np.uint32)


@correct(_tiles, lambda a, _: a + 3, grid=2, shared=4)
def a_block_fetches_its_next_tile(warp, a, next_tile, d):
    """A dynamic persistent kernel: one thread counts with atomicAdd, all read its answer between two barriers."""
    while True:
        with leader(warp):
            warp.st_shared(0, warp.atom_global("add.u32", next_tile, 1))
        warp.bar_sync()
        tile = int(warp.ld_shared(0)[0, 0])
        warp.bar_sync()
        if tile >= 5:
            return
        place = 128 * tile + warp.threads
        warp.st_global(d.at(place), warp.ld_global(a.at(place)) + 3)


def _partial():
    return np.arange(512, dtype=np.uint32), np.zeros(4, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)


@correct(_partial, lambda a, *_: a.sum(keepdims=True), grid=4, shared=20)
def the_last_block_adds_up(warp, a, parts, count, d):
    """threadFenceReduction: a partial sum, __threadfence, atomicInc; the block with the last number sums them."""
    x = warp.ld_global(a.at(128 * warp.ctaid[0] + warp.threads))[:, 0]
    for step in (16, 8, 4, 2, 1):
        x = x + warp.shfl_sync("bfly", x, step)
    with warp.only(warp.laneid == 0):
        warp.st_shared(4 * warp.warpid, x)
    warp.bar_sync()
    with leader(warp):
        total = sum(np.asarray(warp.ld_shared(4 * part)) for part in range(4))
        warp.st_global(parts.at(warp.ctaid[0]), total)
        warp.fence()
        warp.st_shared(16, (warp.atom_global("inc.u32", count, 3) == 3).astype(np.uint32))
    warp.bar_sync()
    if warp.ld_shared(16)[0, 0]:
        with leader(warp):
            warp.fence()
            warp.st_global(d, sum(np.asarray(warp.ld_global(parts.at(part), order="volatile")) for part in range(4)))


@correct(words(64, 32), lambda a: a[31::-1], block=64, shared=132)
def a_volatile_flag_between_fences(warp, a, d):
    """Data, __threadfence_block, the flag; a loop on the flag, __threadfence_block, data."""
    with leader(warp):
        warp.st_shared(128, 0)
    warp.bar_sync()
    if warp.warpid == 0:
        warp.st_shared(4 * warp.laneid, warp.ld_global(a.at(warp.laneid)))
        warp.bar_warp_sync()
        with leader(warp):
            warp.membar("cta")
            warp.st_shared(128, 1, order="volatile")
    else:
        while not warp.ld_shared(128, order="volatile")[0, 0]:
            pass
        warp.membar("cta")
        warp.st_global(d.at(warp.laneid), warp.ld_shared(4 * (31 - warp.laneid)))


@correct(words(64, 32), lambda a: a[31::-1], block=96, shared=132)
def a_flag_that_releases_and_acquires(warp, a, d):
    """cuda::atomic: st.release behind the data, ld.acquire in a loop with nanosleep; a third warp only looks on."""
    if warp.warpid == 2:
        with warp.only(warp.laneid == 0):
            warp.st_shared(128, 0)
    warp.bar_sync()
    if warp.warpid == 0:
        warp.st_shared(4 * warp.laneid, warp.ld_global(a.at(warp.laneid)))
        warp.bar_warp_sync()
        with leader(warp):
            warp.run("st.release.cta.shared.b32", 128, 1)
    elif warp.warpid == 1:
        with warp.only(warp.laneid == 0):
            while not warp.run("ld.acquire.cta.shared.b32", 128)[0, 0]:
                warp.nanosleep(32)
        warp.bar_warp_sync()
        warp.st_global(d.at(warp.laneid), warp.ld_shared(4 * (31 - warp.laneid)))


@correct(words(4, 1), lambda _: np.array([4 * 8 * 3]), shared=8)
def a_lock_around_a_plain_counter(warp, a, d):
    """atomicCAS to take it, a fence, ordinary loads and stores, a fence, atomicExch to give it back."""
    with leader(warp):
        warp.st_shared(0, 0, "b64")
    warp.bar_sync()
    with warp.only(warp.laneid == 0):
        for _ in range(8):
            while warp.atom_shared("cas.b32", 0, 0, 1)[0, 0]:
                pass
            warp.fence("acq_rel", "cta")
            warp.st_shared(4, warp.ld_shared(4) + 3)
            warp.fence("acq_rel", "cta")
            warp.atom_shared("exch.b32", 0, 0)
    warp.bar_sync()
    with leader(warp):
        warp.st_global(d, warp.ld_shared(4))


@correct(words(128, 1), lambda a: a.sum(keepdims=True), shared=20)
def the_last_warp_adds_up(warp, a, d):
    """Without a barrier: each warp stores its sum and counts with acq_rel; the last one has seen all of them."""
    with leader(warp):
        warp.st_shared(16, 0)
    warp.bar_sync()
    x = warp.ld_global(a.at(warp.threads))[:, 0]
    for step in (16, 8, 4, 2, 1):
        x = x + warp.shfl_sync("bfly", x, step)
    with warp.only(warp.laneid == 0):
        warp.st_shared(4 * warp.warpid, x)
        if warp.atom_shared("add.u32", 16, 1, order="acq_rel.cta")[0, 0] == 3:
            warp.st_global(d, sum(np.asarray(warp.ld_shared(4 * part)) for part in range(4)))


@correct(words(256, 256), lambda _: np.where(np.arange(256) < 86, np.arange(256) * 3, 0), shared=4 * 260)
def slots_are_given_out_by_a_counter(warp, a, d):
    """Stream compaction: the lanes that want something count at once, each warp once; sorted by one thread's warp."""
    with leader(warp):
        warp.st_shared(1024, 0)
    warp.bar_sync()
    for part in range(2):
        held = warp.ld_global(a.at(128 * part + warp.threads))[:, 0]
        chosen = warp.vote_sync("ballot", held % 3 == 0)
        with warp.only(warp.laneid == 0):
            first = warp.atom_shared("add.u32", 1024, chosen.bit_count())
        first = warp.shfl_sync("idx", first, 0)[:, 0]
        before = np.array([(chosen & (1 << lane) - 1).bit_count() for lane in range(32)])
        with warp.only(held % 3 == 0):
            warp.st_shared(4 * (first.astype(np.int64) + before), held)
    warp.bar_sync()
    if warp.warpid == 0:
        count = int(warp.ld_shared(1024)[0, 0])
        for part in range(8):
            place = 32 * part + warp.laneid
            with warp.only(place < count):
                mine = warp.ld_shared(4 * place)[:, 0]
                warp.st_global(d.at(np.where(place < count, mine.astype(np.int64) // 3, 0)), mine)


@correct(words(128, 128), lambda a: np.where(a % 2, a, (a > 0) * 64), shared=512)
def a_block_that_votes(warp, a, d):
    """__syncthreads_or ends a loop, __syncthreads_count and __syncthreads_and decide; they are barriers, too."""
    x = warp.ld_global(a.at(warp.threads))[:, 0]
    warp.st_shared(4 * (127 - warp.threads), x)
    count = warp.bar_red("popc", x % 2 == 0)
    assert warp.ld_shared(4 * warp.threads)[0, 0] == 127 - 32 * warp.warpid
    rounds = 0
    while warp.bar_red("or", (x > 0) & (x % 2 == 0) & (rounds < 3)):
        rounds += 1
    assert warp.bar_red("and", rounds == np.full(32, 3))
    warp.st_global(d.at(warp.threads), np.where(x % 2, x, (x > 0) * np.uint32(count)))


@correct(lambda: (small(4, 128, dtype=np.float32), np.zeros(4, np.float32)), lambda a: a.max(axis=1), shared=16)
def maxima_of_floats_as_integers(warp, a, d):
    """Floats of one sign are ordered as their bits: atom.max for the positive ones, min for the negative ones."""
    with warp.only(warp.threads < 4):
        warp.st_shared(4 * (warp.threads % 4), np.float32(-1e9))
    warp.bar_sync()
    for row in range(4):
        held = warp.ld_global(a.at(row, warp.threads))
        positive = floats(held)[:, 0] >= 0
        with warp.only(positive):
            warp.red_shared("max.s32", 4 * row, held)
        with warp.only(~positive):
            warp.red_shared("min.u32", 4 * row, held)
    warp.bar_sync()
    with warp.only(warp.threads < 4):
        warp.st_global(d.at(warp.threads % 4), warp.ld_shared(4 * (warp.threads % 4)))


@correct(lambda: (small(8, 128, dtype=np.float32), np.zeros(128, np.float32)), lambda a: a.sum(axis=0), grid=8)
def split_k_by_atomics(warp, a, d):
    """Every block adds its part to the output, which began as zeros."""
    warp.prefetch_global("L2", a.at(warp.ctaid[0], warp.threads))
    held = warp.run("ld.global.nc.L1::no_allocate.L2::128B.b32", a.at(warp.ctaid[0], warp.threads))
    warp.red_global("add.f32", d.at(warp.threads), held, order="relaxed.gpu")


@correct(words(512, 512), lambda a: a * 5, shared=1024 + 16)
def tokens_of_a_cuda_barrier(warp, a, d):
    """cuda::barrier: arrive gives a token, wait takes it; the tensor map is prefetched, the grid before waited for."""
    warp.griddepcontrol("wait")
    described = TensorMap.of(a, (128,))
    warp.prefetch_tensormap(described)
    with leader(warp):
        for buffer in range(2):
            warp.mbarrier_init(1024 + 8 * buffer, 128)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    tokens = {}

    def begin(step):
        bar = 1024 + 8 * (step % 2)
        with leader(warp):
            warp.cp_async_bulk_tensor_shared_global(512 * (step % 2), described, (128 * step,), bar)
            warp.mbarrier_expect_tx(bar, 512)
        tokens[step % 2] = warp.mbarrier_arrive(bar)

    begin(0)
    for step in range(4):
        if step < 3:
            begin(step + 1)
        while not warp.run("mbarrier.test_wait.shared::cta.b64", 1024 + 8 * (step % 2), tokens[step % 2]).all():
            pass
        held = warp.ld_shared(512 * (step % 2) + 4 * warp.threads)
        warp.bar_sync()
        warp.st_global(d.at(128 * step + warp.threads), held * 5)
