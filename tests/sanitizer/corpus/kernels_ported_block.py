"""Ported kernels of one block: products with double buffers, asynchronous copies, attention, radix sort."""

import numpy as np
from kernels_ported_grid import LDMATRIX, MMA
from kernels_ported_table import ported
from kernels_wild_table import bits, floats, leader, small

TRANSPOSED = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"


def matrices(m, n, k, dtype=np.float32):
    """A (m, k), B (k, n) and C of zeros."""
    return small(m, k, seed=1, dtype=dtype), small(k, n, seed=2, dtype=dtype), np.zeros((m, n), np.float32)


def plain_product(a, b, *_):
    return a.astype(np.float64) @ b.astype(np.float64)


def multiplied(warp, at_a, at_b, rows=16, depth=16):
    """What a thread adds to its 4 elements: rows 4 (t // 16) and so on of A^T, column t % 16 of B, both in f32."""
    row, column = warp.threads // 16, warp.threads % 16
    total = np.zeros((32, 4), np.float32)
    for k in range(depth):
        left = floats(warp.ld_shared(at_a + 4 * (k * rows + 4 * row), "v4.b32"))
        total += left * floats(warp.ld_shared(at_b + 4 * (16 * k + column)))
    return total


def store_rows(warp, c, total):
    for i in range(4):
        warp.st_global(c.at(4 * (warp.threads // 16) + i, warp.threads % 16), bits(total[:, i]))


@ported(
    "siboehm/SGEMM_CUDA src/kernels/12_kernel_double_buffering.cuh",
    lambda: matrices(16, 16, 64),
    plain_product,
    {
        "no barrier in the loop": ("overwritten-early", "shared-race"),
        "the barriers are not swapped": ("cp-async-unwaited", "mbarrier-arrivals"),
        "only arrived": ("cp-async-unwaited", "tma-unwaited"),
    },
    block=64,
    shared=4112,
)
def sgemm_with_a_front_and_a_back_barrier(warp, fault, a, b, c):
    """cuda::memcpy_async on two cuda::barriers: A is transposed by 4-byte copies, B is copied 16 bytes at a time."""
    front, back = 4096, 4104
    with leader(warp):
        for bar in (front, back):
            warp.mbarrier_init(bar, 64)
    warp.bar_sync()
    t = warp.threads

    def load(k, buffer, bar):
        for part in range(4):  # A (16, 16) into (k, row); B (16, 16)
            row, column = t // 4, 4 * (t % 4) + part
            # <- no barrier in the loop
            warp.cp_async(2048 * buffer + 4 * (16 * column + row), a.at(row, k + column), 4)
        warp.cp_async(2048 * buffer + 1024 + 16 * t, b.at(k + t // 4, 4 * (t % 4)), 16)  # <- no barrier in the loop
        warp.cp_async_mbarrier_arrive(bar)

    def arrive_and_wait(bar):
        token = warp.mbarrier_arrive(bar)  # <- the barriers are not swapped
        if fault != "only arrived":
            warp.mbarrier_wait(bar, state=token)

    buffer, total = 0, np.zeros((32, 4), np.float32)
    load(0, buffer, front)
    for k in range(16, 64, 16):
        load(k, 1 - buffer, back)
        arrive_and_wait(front)
        total += multiplied(warp, 2048 * buffer, 2048 * buffer + 1024)  # <- the barriers are not swapped; only arrived
        buffer = 1 - buffer
        if fault != "the barriers are not swapped":
            front, back = back, front
        if fault != "no barrier in the loop":
            warp.bar_sync()
    arrive_and_wait(front)
    store_rows(warp, c, total + multiplied(warp, 2048 * buffer, 2048 * buffer + 1024))


@ported(
    "siboehm/SGEMM_CUDA src/kernels/11_kernel_double_buffering.cuh",
    lambda: matrices(32, 16, 64),
    plain_product,
    {
        "one barrier fewer in a branch": ("shared-race", "exited-threads", "deadlock", "uninitialised-shared"),
        "no barrier at the end": "shared-race",
        "barriers of a half": "shared-race",
    },
    block=128,
    shared=6144,
)
def sgemm_whose_halves_take_turns(warp, fault, a, b, c):
    """Each half of the block loads every second tile, so that loads of one half run beside sums of the other."""
    half, t = warp.warpid // 2, warp.threads % 64

    def meet():
        if fault == "barriers of a half":
            warp.bar_sync(1 + half, 64)
        else:
            warp.bar_sync()

    def load(k, buffer):
        if k >= 64:
            return
        for part in range(2):
            row, column = t // 4 + 16 * part, 4 * (t % 4)
            held = warp.ld_global(a.at(row, k + column), "v4.b32")
            for i in range(4):
                # <- no barrier at the end; barriers of a half; one barrier fewer in a branch
                warp.st_shared(3072 * buffer + 4 * (32 * (column + i) + row), held[:, i])
        held = warp.ld_global(b.at(k + t // 4, 4 * (t % 4)), "v4.b32")
        warp.st_shared(3072 * buffer + 2048 + 16 * t, held, "v4.b32")  # <- no barrier at the end

    def sums(k, buffer):
        if k >= 64:
            return 0
        # <- no barrier at the end; barriers of a half; one barrier fewer in a branch
        return multiplied(warp, 3072 * buffer, 3072 * buffer + 2048, rows=32)

    total = np.zeros((32, 4), np.float32)
    if half == 0:
        load(0, 0)
    meet()
    for k in range(0, 64, 32):
        if half == 0:
            total += sums(k, 0)
            meet()
            total += sums(k + 16, 1)
            if fault != "one barrier fewer in a branch":
                meet()
            load(k + 32, 0)
        else:
            load(k + 16, 1)
            meet()
            total += sums(k, 0)
            meet()
            total += sums(k + 16, 1)
        if fault != "no barrier at the end":
            meet()  # <- one barrier fewer in a branch
    store_rows(warp, c, total)


STAGES = 4


@ported(
    "NVIDIA/cuda-samples Samples/3_CUDA_Features/globalToShmemAsyncCopy/globalToShmemAsyncCopy.cu",
    lambda: matrices(16, 16, 96),
    plain_product,
    {
        "as published": ("overwritten-early", "shared-race"),
        "wait_prior off by one": "cp-async-unwaited",
        "only the copying threads wait": "cp-async-unwaited",
    },
    block=64,
    shared=8192,
)
def matrices_in_four_stages_of_a_thread_pipeline(warp, fault, a, b, c):
    """cuda::pipeline of a thread: as published, the producer is a stage ahead of itself, in front of the barrier."""
    t = warp.threads
    stage = 0
    ahead = STAGES if fault == "as published" else STAGES - 1
    total = np.zeros((32, 4), np.float32)

    def produce(until):
        nonlocal stage
        while stage <= until:
            to = 2048 * (stage % STAGES)
            if stage < 6:
                for part in range(4):
                    row, column = t // 4, 4 * (t % 4) + part
                    warp.cp_async(to + 4 * (16 * column + row), a.at(row, 16 * stage + column), 4)  # <- as published
                warp.cp_async(to + 1024 + 16 * t, b.at(16 * stage + t // 4, 4 * (t % 4)), 16)  # <- as published
            warp.cp_async_commit_group()
            stage += 1

    for step in range(6):
        if fault == "as published":
            produce(step + ahead)
            warp.cp_async_wait_group(STAGES)
            warp.bar_sync()
        else:
            produce(step + ahead - 1)
            behind = STAGES - 1 if fault == "wait_prior off by one" else STAGES - 2
            if fault != "only the copying threads wait" or warp.warpid == 0:
                warp.cp_async_wait_group(behind)
            warp.bar_sync()
            produce(step + ahead)
        at = 2048 * (step % STAGES)
        # <- as published; wait_prior off by one; only the copying threads wait
        total += multiplied(warp, at, at + 1024)
    store_rows(warp, c, total)


def _attention(q, k, v, _):
    scores = np.sign(q.astype(np.int64) @ k.astype(np.int64).T)
    return scores @ v.astype(np.int64)


@ported(
    "gau-nernst/learn-cuda 07_attention/attention_v5.cu",
    lambda: (
        small(64, 16, seed=1),
        small(64, 16, seed=2),
        small(64, 16, seed=3),
        np.zeros((64, 16), np.float32),
    ),
    _attention,
    {
        "no barrier before V": ("overwritten-early", "shared-race"),
        "no barrier behind Q": ("overwritten-early", "shared-race"),
        "wait_group 2": "cp-async-unwaited",
        "no barrier behind the wait": ("cp-async-unwaited", "ldmatrix-unsynced"),
        "no empty group at the end": "cp-async-unwaited",
    },
    block=128,
    shared=2048,
)
def attention_with_two_buffers_of_k_and_one_of_v(warp, fault, q, k, v, o):
    """Q lies where K's first buffer and V will be, in registers from then on. Signs stand for the softmax."""
    t, lane = warp.threads, warp.laneid
    tile_v = 1024

    def copy(to, matrix, first, rows):
        with warp.only(t >= 128 - 2 * rows):
            row, unit = t // 2 % rows, t % 2
            # <- no barrier before V; no barrier behind Q
            warp.cp_async(to + 32 * row + 16 * unit, matrix.at(first + row, 8 * unit), 16)

    def load_k(step):
        if step < 4:
            copy(512 * (step % 2), k, 16 * step, 16)
        if step < 4 or fault != "no empty group at the end":
            warp.cp_async_commit_group()

    copy(0, q, 0, 64)
    warp.cp_async_commit_group()
    warp.cp_async_wait_all()
    warp.bar_sync()
    q_fragment = warp.run(LDMATRIX.format(4), 32 * (16 * warp.warpid + lane % 16) + 16 * (lane // 16))
    if fault != "no barrier behind Q":
        warp.bar_sync()
    load_k(0)
    out = [warp.registers(4, fill=0) for _ in range(2)]
    pending = 2 if fault == "wait_group 2" else 1
    for step in range(4):
        if fault != "no barrier before V":
            warp.bar_sync()
        copy(tile_v, v, 16 * step, 16)
        warp.cp_async_commit_group()
        warp.cp_async_wait_group(pending)
        if fault != "no barrier behind the wait":
            warp.bar_sync()
        rows = 512 * (step % 2) + 32 * (8 * (lane // 16) + lane % 8) + 16 * (lane // 8 % 2)
        keys = warp.run(LDMATRIX.format(4), rows)  # <- wait_group 2; no barrier behind the wait
        scores = [warp.run(MMA, q_fragment, keys[:, 2 * n : 2 * n + 2], warp.registers(4, fill=0)) for n in range(2)]
        load_k(step + 1)
        signs = [np.sign(floats(each)).astype(np.float16).view(np.uint32) for each in scores]
        p = np.concatenate(signs, axis=1)
        warp.cp_async_wait_group(1)
        warp.bar_sync()
        rows = tile_v + 32 * (lane % 16) + 16 * (lane // 16)
        values = warp.run(TRANSPOSED, rows)  # <- no empty group at the end
        out = [warp.run(MMA, p, values[:, 2 * n : 2 * n + 2], out[n]) for n in range(2)]
    for n in range(2):
        for half in range(2):
            place = o.at(16 * warp.warpid + lane // 4 + 8 * half, 8 * n + 2 * (lane % 4))
            warp.st_global(place, out[n][:, 2 * half : 2 * half + 2], "v2.b32")
