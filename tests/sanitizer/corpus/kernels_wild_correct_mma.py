"""Correct kernels in the wild, up to Ampere: wmma, mma.sync, ldmatrix, cp.async."""

import numpy as np
from kernels_wild_table import correct, floats, leader, matrices, product, small, words

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
LDMATRIX_T = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
IMMA = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"


@correct(matrices(32, 32, 64), product, block=128, shared=8192, target="sm_70")
def wmma_on_volta_with_prefetched_registers(warp, a, b, d):
    """The next tile is loaded into registers while this one is multiplied, then stored into the other buffer."""
    t, row, column = warp.threads, 16 * (warp.warpid // 2), 16 * (warp.warpid % 2)

    def fetch(k):
        return [warp.ld_global(m.at(t // 4, k + 4 * (t % 4)), "v2.b32") for m in (a, b)]

    def put(buffer, held):
        for part, registers in enumerate(held):
            warp.st_shared(4096 * buffer + 2048 * part + 64 * (t // 4) + 8 * (t % 4), registers, "v2.b32")

    c = warp.registers(8, fill=0)
    put(0, fetch(0))
    warp.bar_sync()
    for step in range(4):
        held = fetch(16 * (step + 1)) if step < 3 else None
        tile = 4096 * (step % 2)
        left = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", tile + 64 * row, 32)
        right = warp.run("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16", tile + 2048 + 64 * column, 32)
        c = warp.run("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", left, right, c)
        if held:
            put((step + 1) % 2, held)
        warp.bar_sync()
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.global.f32", d.at(row, column), c, 32)


@correct(matrices(16, 16, 16, out=np.float16), product, block=32, shared=1024, target="sm_80")
def wmma_whose_result_is_narrowed_through_shared_memory(warp, a, b, d):
    """store_matrix_sync, __syncwarp, then lanes read back what others stored, as conversions do."""
    left = warp.run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16", a + 0, 16)
    right = warp.run("wmma.load.b.sync.aligned.col.m16n16k16.global.f16", b + 0, 16)
    c = warp.run("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", left, right, warp.registers(8, fill=0))
    warp.run("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32", 0, c, 16)
    warp.bar_warp_sync()
    for part in range(2):
        held = floats(warp.ld_shared(512 * part + 16 * warp.laneid, "v4.b32")).astype(np.float16)
        row, column = 8 * part + warp.laneid // 4, 4 * (warp.laneid % 4)
        warp.st_global(d.at(row, column), held.view(np.uint32), "v2.b32")


def _swizzled(row, unit):
    """The place of a 16-byte unit in a tile with rows of 64 bytes."""
    return 64 * row + 16 * (unit ^ row // 2 % 4)


def _copy(warp, to, a, b, k):
    """cp.async of tiles of A and B, 64 rows of 32 elements each; no commit."""
    for half in range(2):
        unit = warp.threads + 128 * half
        row, part = unit // 4, unit % 4
        warp.cp_async(to + _swizzled(row, part), a.at(row, k + 8 * part), 16, cache="cg")
        warp.cp_async(to + 4096 + _swizzled(row, part), b.at(row, k + 8 * part), 16, cache="cg")


def _fragments(warp, tile, k, rows):
    """ldmatrix of 16 rows of a tile from `rows` on, 16 elements along k: registers of A, or of two Bs."""
    return warp.run(LDMATRIX, tile + _swizzled(rows + warp.laneid % 16, k // 8 + warp.laneid // 16))


def _multiply(warp, a, b, c):
    """16 x 16 of C in two accumulators, from registers of A and of 16 rows of B."""
    for n in range(2):
        c[n] = warp.run(MMA, a, np.asarray(b)[:, n::2], c[n])


def _store(warp, d, row, column, c):
    """16 x 16 of C, from two accumulators."""
    for n in range(2):
        for half in range(2):
            where = d.at(row + 8 * half + warp.laneid // 4, column + 8 * n + 2 * (warp.laneid % 4))
            warp.st_global(where, c[n][:, 2 * half : 2 * half + 2], "v2.b32")


@correct(matrices(64, 64, 160), product, shared=3 * 8192, target="sm_80")
def multistage_with_one_barrier_a_step(warp, a, b, d):
    """CUTLASS on Ampere: wait for the oldest stage, barrier, then refill the stage that was read one step ago.

    Groups are committed even where there is nothing left to copy, so that the count of wait_group stays the same.
    """
    steps, stages = 5, 3
    c = [[warp.registers(4, fill=0) for _ in range(2)] for _ in range(4)]
    for stage in range(stages - 1):
        _copy(warp, 8192 * stage, a, b, 32 * stage)
        warp.cp_async_commit_group()
    for step in range(steps):
        warp.cp_async_wait_group(stages - 2)
        warp.bar_sync()
        ahead = step + stages - 1
        if ahead < steps:
            _copy(warp, 8192 * (ahead % stages), a, b, 32 * ahead)
        warp.cp_async_commit_group()
        tile = 8192 * (step % stages)
        for k in (0, 16):
            held = _fragments(warp, tile, k, 16 * warp.warpid)
            for n in range(4):
                _multiply(warp, held, _fragments(warp, tile + 4096, k, 16 * n), c[n])
    for n in range(4):
        _store(warp, d, 16 * warp.warpid, 16 * n, c[n])


@correct(matrices(64, 64, 96), product, shared=2 * 8192, target="sm_80")
def fragments_are_loaded_one_step_ahead(warp, a, b, d):
    """Registers are double-buffered too: while k is multiplied, ldmatrix brings k + 16, across the tiles' border."""
    steps = 3
    c = [[warp.registers(4, fill=0) for _ in range(2)] for _ in range(4)]

    def fragments(place):
        tile, k = 8192 * (place // 2 % 2), 16 * (place % 2)
        left = _fragments(warp, tile, k, 16 * warp.warpid)
        return left, [_fragments(warp, tile + 4096, k, 16 * n) for n in range(4)]

    for stage in range(2):
        _copy(warp, 8192 * stage, a, b, 32 * stage)
        warp.cp_async_commit_group()
    warp.cp_async_wait_group(1)
    warp.bar_sync()
    held = fragments(0)
    for place in range(2 * steps):
        left, right = held
        if place % 2 and place + 1 < 2 * steps:  # the last fragments of this tile are in registers
            warp.cp_async_wait_group(0)
            warp.bar_sync()
            if place // 2 + 2 < steps:
                _copy(warp, 8192 * (place // 2 % 2), a, b, 32 * (place // 2 + 2))
            warp.cp_async_commit_group()
        if place + 1 < 2 * steps:
            held = fragments(place + 1)
        for n in range(4):
            _multiply(warp, left, right[n], c[n])
    for n in range(4):
        _store(warp, d, 16 * warp.warpid, 16 * n, c[n])


@correct(
    lambda: (small(50, 40, seed=1), small(64, 40, seed=2), np.zeros((50, 64), np.float32)),
    product,
    shared=8192,
    target="sm_80",
)
def edges_are_filled_with_zeros(warp, a, b, d):
    """Predicated cp.async: src-size is 0 outside of the matrix, the address is one that exists."""
    c = [[warp.registers(4, fill=0) for _ in range(2)] for _ in range(4)]
    for k in (0, 32):
        for to, matrix, rows in ((0, a, 50), (4096, b, 64)):
            for half in range(2):
                unit = warp.threads + 128 * half
                row, part = unit // 4, unit % 4
                inside = (row < rows) & (k + 8 * part < 40)
                source = matrix.at(np.where(inside, row, 0), np.where(inside, k + 8 * part, 0))
                warp.cp_async(to + _swizzled(row, part), source, 16, np.where(inside, 16, 0), cache="cg")
        warp.cp_async_wait_all()
        warp.bar_sync()
        for deep in (0, 16):
            held = _fragments(warp, 0, deep, 16 * warp.warpid)
            for n in range(4):
                _multiply(warp, held, _fragments(warp, 4096, deep, 16 * n), c[n])
        warp.bar_sync()
    for n in range(4):
        for part in range(2):
            for half in range(2):
                row, column = 16 * warp.warpid + 8 * half + warp.laneid // 4, 16 * n + 8 * part + 2 * (warp.laneid % 4)
                with warp.only(row < 50):
                    warp.st_global(d.at(row, column), c[n][part][:, 2 * half : 2 * half + 2], "v2.b32")


@correct(matrices(16, 16, 128), product, shared=4 * 1024, target="sm_80")
def sliced_k_is_reduced_in_shared_memory(warp, a, b, d):
    """Each warp takes a quarter of K from global memory; the parts are added at the end."""
    row, column = warp.laneid // 4, 2 * (warp.laneid % 4)
    c = [warp.registers(4, fill=0) for _ in range(2)]
    for k in range(32 * warp.warpid, 32 * warp.warpid + 32, 16):
        left = [warp.ld_global(a.at(row + 8 * (r % 2), k + 8 * (r // 2) + column)) for r in range(4)]
        left = np.concatenate(left, axis=1)
        for n in range(2):
            right = [warp.ld_global(b.at(8 * n + row, k + 8 * r + column)) for r in range(2)]
            c[n] = warp.run(MMA, left, np.concatenate(right, axis=1), c[n])
    for n in range(2):
        for half in range(2):
            where = 1024 * warp.warpid + 64 * (row + 8 * half) + 4 * (column + 8 * n)
            warp.st_shared(where, c[n][:, 2 * half : 2 * half + 2], "v2.b32")
    warp.bar_sync()
    total = sum(floats(warp.ld_shared(1024 * part + 8 * warp.threads, "v2.b32")) for part in range(4))
    warp.st_global(d + 8 * warp.threads, total, "v2.b32")


@correct(matrices(64, 64, 32), product, shared=64 * 68 * 4, target="sm_80")
def the_epilogue_goes_through_padded_rows(warp, a, b, d):
    """Accumulators are staged where the tiles were, behind a barrier, and leave in whole rows of 16 bytes a lane."""
    _copy(warp, 0, a, b, 0)
    warp.cp_async_wait_all()
    warp.bar_sync()
    c = [[warp.registers(4, fill=0) for _ in range(2)] for _ in range(4)]
    for k in (0, 16):
        held = _fragments(warp, 0, k, 16 * warp.warpid)
        for n in range(4):
            _multiply(warp, held, _fragments(warp, 4096, k, 16 * n), c[n])
    warp.bar_sync()
    for n in range(4):
        for part in range(2):
            for half in range(2):
                row, column = 16 * warp.warpid + 8 * half + warp.laneid // 4, 16 * n + 8 * part + 2 * (warp.laneid % 4)
                warp.st_shared(4 * (68 * row + column), c[n][part][:, 2 * half : 2 * half + 2], "v2.b32")
    warp.bar_warp_sync()  # the rows are this warp's own
    for step in range(8):
        row, column = 16 * warp.warpid + 2 * step + warp.laneid // 16, 4 * (warp.laneid % 16)
        warp.st_global(d.at(row, column), warp.ld_shared(4 * (68 * row + column), "v4.b32"), "v4.b32")


def _attention(q, k, v):
    scores = (q.astype(np.int64) @ k.astype(np.int64).T > 0).astype(np.int64)
    return (scores @ v.astype(np.int64)).astype(np.float32)


@correct(
    lambda: (small(64, 32, seed=1), small(128, 32, seed=2), small(128, 32, seed=3), np.zeros((64, 32), np.float32)),
    _attention,
    shared=4096 + 2 * 8192,
    target="sm_80",
)
def attention_keeps_k_and_v_under_way(warp, q, k, v, o):
    """FlashAttention-2: Q is loaded once, K of the next block flies while V of this one is waited for.

    Instead of an exponential the scores are compared with zero, so that the sums are exact.
    """
    t = warp.threads

    def copy(to, matrix, block):
        for half in range(2):
            row, part = (t + 128 * half) // 4, t % 4
            warp.cp_async(to + _swizzled(row, part), matrix.at(64 * block + row, 8 * part), 16, cache="cg")
        warp.cp_async_commit_group()

    copy(0, q, 0)
    copy(4096, k, 0)
    warp.cp_async_wait_group(1)
    warp.bar_sync()
    held_q = [_fragments(warp, 0, deep, 16 * warp.warpid) for deep in (0, 16)]
    out = [[warp.registers(4, fill=0) for _ in range(2)] for _ in range(2)]
    for block in range(2):
        warp.cp_async_wait_group(0)
        warp.bar_sync()
        copy(8192, v, block)
        scores = [[warp.registers(4, fill=0) for _ in range(2)] for _ in range(4)]
        for n in range(4):
            for deep in range(2):
                _multiply(warp, held_q[deep], _fragments(warp, 4096, 16 * deep, 16 * n), scores[n])
        warp.bar_sync()  # everybody has read K
        if block == 0:
            copy(4096, k, 1)
            warp.cp_async_wait_group(1)
        else:
            warp.cp_async_wait_group(0)
        warp.bar_sync()
        for n in range(4):  # the accumulator of the scores is A of the next product
            p = np.concatenate([(floats(c) > 0).astype(np.float16).view(np.uint32) for c in scores[n]], axis=1)
            for column in range(2):
                unit = 2 * column + warp.laneid // 16
                held_v = warp.run(LDMATRIX_T, 8192 + _swizzled(16 * n + warp.laneid % 16, unit))
                for half in range(2):
                    c = warp.run(MMA, p, held_v[:, 2 * half : 2 * half + 2], out[column][half])
                    out[column][half] = c
    for column in range(2):
        _store(warp, o, 16 * warp.warpid, 16 * column, out[column])


def _integers():
    return small(32, 32, seed=1, dtype=np.int8), small(8, 32, seed=2, dtype=np.int8), np.zeros((32, 8), np.int32)


@correct(_integers, product, block=64, shared=2048, target="sm_80")
def integers_with_one_matrix_load_for_each_operand(warp, a, b, d):
    """s8 tiles are moved by ldmatrix as if they were of 16-bit elements; each warp stages its own rows."""
    base = 1024 * warp.warpid
    row, part = warp.laneid // 2, warp.laneid % 2
    mine = warp.ld_global(a.at(16 * warp.warpid + row, 16 * part), "v4.b32")
    warp.st_shared(base + 32 * row + 16 * part, mine, "v4.b32")
    with warp.only(warp.laneid < 16):
        row, part = warp.laneid % 16 // 2, warp.laneid % 2
        warp.st_shared(base + 512 + 32 * row + 16 * part, warp.ld_global(b.at(row, 16 * part), "v4.b32"), "v4.b32")
    warp.bar_warp_sync()
    held_a = warp.run(LDMATRIX, base + 32 * (warp.laneid % 16) + 16 * (warp.laneid // 16))
    held_b = warp.run(
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16", base + 512 + 32 * (warp.laneid % 8) + 16 * (warp.laneid // 8 % 2)
    )
    c = warp.run(IMMA, held_a, held_b, warp.registers(4, fill=0))
    for half in range(2):
        where = d.at(16 * warp.warpid + 8 * half + warp.laneid // 4, 2 * (warp.laneid % 4))
        warp.st_global(where, c[:, 2 * half : 2 * half + 2], "v2.b32")


@correct(words(1024, 1024), lambda a: a + 7, block=128, shared=4096)
def each_thread_copies_for_itself(warp, a, d):
    """A pipeline of one thread: four cp.async groups in flight, waited for one after the other, without a barrier."""
    mine = 16 * warp.threads
    for part in range(2):
        warp.cp_async(2048 * part + mine, a + 2048 * part + mine, 16)
        warp.cp_async_commit_group()
    for part in range(2):
        warp.cp_async_wait_group(1 - part)
        warp.st_global(d + 2048 * part + mine, warp.ld_shared(2048 * part + mine, "v4.b32") + 7, "v4.b32")


@correct(words(512, 512), lambda a: a.reshape(4, 128)[:, ::-1].ravel(), block=160, shared=2048 + 32)
def copies_that_arrive_at_an_mbarrier(warp, a, d):
    """cp.async.mbarrier.arrive.noinc of a producer warp, whose lanes are all counted; consumers only wait."""
    full = 2048
    with leader(warp, 128):
        for stage in range(4):
            warp.mbarrier_init(full + 8 * stage, 32)
    warp.bar_sync()
    if warp.warpid == 4:
        for stage in range(4):
            warp.cp_async(512 * stage + 16 * warp.laneid, a + 512 * stage + 16 * warp.laneid, 16, cache="cg")
            warp.cp_async_mbarrier_arrive(full + 8 * stage, noinc=True)
        return
    for stage in range(4):
        warp.mbarrier_wait(full + 8 * stage, 0)
        warp.st_global(d.at(128 * stage + warp.threads), warp.ld_shared(512 * stage + 4 * (127 - warp.threads)))
