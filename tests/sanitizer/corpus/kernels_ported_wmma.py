"""Ported kernels with wmma: tiles of the samples, the output staged where the operands were, predicates at the edge."""

import numpy as np
from kernels_ported_grid import zeros
from kernels_ported_table import ported
from kernels_wild_table import small

WMMA = "wmma.{}.sync.aligned.{}"
#: Bytes of a row of shared memory: 32 bytes of operands and 16 of padding; of a row of C.
ROW, C_ROW = 48, 128


def _imma():
    a = np.random.default_rng(1).integers(0, 5, (32, 64)).astype(np.uint8)
    return a, a[::-1].copy(), small(32, 32, dtype=np.int32), zeros(32, 32, dtype=np.int32)


@ported(
    "NVIDIA/cuda-samples Samples/3_CUDA_Features/immaTensorCoreGemm/immaTensorCoreGemm.cu",
    _imma,
    lambda a, b, c, _: 2 * (a.astype(np.int32) @ b.astype(np.int32).T + 3 * c),
    {
        "C read at once": "ldmatrix-unsynced",
        "operands over C": ("shared-race", "overwritten-early"),
        "no barrier behind the products": ("shared-race", "overwritten-early"),
        "D read at once": "shared-race",
    },
    grid=1,
    block=128,
    shared=4096,
)
def imma_streams_c_through_the_operands(warp, fault, a, b, c, d):
    """C comes into shared memory by rows, is read as fragments, gives way to A and B, and takes their place as D."""
    left, right = divmod(warp.warpid, 2)
    stream = C_ROW * (8 * warp.warpid + warp.laneid // 8) + 16 * (warp.laneid % 8)
    tile = C_ROW * 16 * left + 64 * right
    for _ in range(2):  # the same tile twice, as a block of a smaller grid takes the next one
        for part in range(2):
            row = 8 * warp.warpid + warp.laneid // 8 + 4 * part
            held = warp.ld_global(c.at(row, 4 * (warp.laneid % 8)), "v4.b32")
            warp.st_shared(stream + 4 * C_ROW * part, held, "v4.b32")
        if fault != "C read at once":
            warp.bar_sync()
        total = warp.run(WMMA.format("load.c", "row.m16n16k16.shared.s32"), tile, 32)  # <- C read at once
        if fault != "operands over C":
            warp.bar_sync()
        total = (3 * total.view(np.int32)).view(np.uint32)
        for k in range(0, 64, 32):
            row, unit = warp.threads % 64 // 2, warp.threads % 2
            matrix = a if warp.warpid < 2 else b
            held = warp.ld_global(matrix.at(row, k + 16 * unit), "v4.b32")
            # <- operands over C; no barrier behind the products
            warp.st_shared(ROW * (warp.threads // 2) + 16 * unit, held, "v4.b32")
            warp.bar_sync()
            for step in range(2):
                at_a, at_b = ROW * 16 * left + 16 * step, ROW * (32 + 16 * right) + 16 * step
                x = warp.run(WMMA.format("load.a", "row.m16n16k16.shared.u8"), at_a, ROW)
                y = warp.run(WMMA.format("load.b", "col.m16n16k16.shared.u8"), at_b, ROW)
                total = warp.run(WMMA.format("mma", "row.col.m16n16k16.s32.u8.u8.s32"), x, y, total)
            if fault != "no barrier behind the products" or k == 0:
                warp.bar_sync()
        total = (2 * total.view(np.int32)).view(np.uint32)
        # <- no barrier behind the products
        warp.run(WMMA.format("store.d", "row.m16n16k16.shared.s32"), tile, total, 32)
        if fault != "D read at once":
            warp.bar_sync()
        for part in range(2):
            row = 8 * warp.warpid + warp.laneid // 8 + 4 * part
            held = warp.ld_shared(stream + 4 * C_ROW * part, "v4.b32")  # <- D read at once
            warp.st_global(d.at(row, 4 * (warp.laneid % 8)), held, "v4.b32")
        warp.bar_sync()


@ported(
    "NVIDIA/cuda-samples Samples/3_CUDA_Features/cudaTensorCoreGemm/cudaTensorCoreGemm.cu",
    lambda: (*(small(32, 48, seed=n) for n in (1, 2)), np.ones((32, 32), np.float32), np.zeros((32, 32), np.float32)),
    lambda a, b, c, _: 2 * (a.astype(np.float32) @ b.T.astype(np.float32)) + c,
    {
        "no guard": "out-of-range",
        "guard of the wrong dimension": "out-of-range",
        "stride of A": "out-of-range",
    },
    grid=(1, 2),
    block=(128, 2),
)
def simple_wmma_with_a_guard(warp, fault, a, b, c, d):
    """simple_wmma_gemm: a warp for each tile, more warps than tiles, so that each checks whether its tile exists."""
    column = int(warp.tid[0][0]) // 32 + 4 * warp.ctaid[0]
    row = int(warp.tid[1][0]) + 2 * warp.ctaid[1]
    total = warp.registers(8, fill=0)
    inside = 16 * row < 32 and 16 * column < 32
    if fault == "guard of the wrong dimension":
        inside = 16 * row < 48 and 16 * column < 32
    for k in range(0, 48, 16):
        if inside or fault == "no guard":
            # <- no guard; guard of the wrong dimension
            x = warp.run(WMMA.format("load.a", "row.m16n16k16.global.f16"), a.at(0, k) + 96 * 16 * row, 48)
            # <- no guard
            y = warp.run(WMMA.format("load.b", "col.m16n16k16.global.f16"), b.at(0, k) + 96 * 16 * column, 48)
            total = warp.run(WMMA.format("mma", "row.col.m16n16k16.f32.f32"), x, y, total)
    if inside or fault == "no guard":
        place = 128 * 16 * row + 64 * column
        stride = 48 if fault == "stride of A" else 32
        held = warp.run(WMMA.format("load.c", "row.m16n16k16.global.f32"), c + place, stride)  # <- stride of A
        total = 2 * total.view(np.float32) + held.view(np.float32)
        warp.run(WMMA.format("store.d", "row.m16n16k16.global.f32"), d + place, total.view(np.uint32), 32)


EMPTY = 0xFFFFFFFF


def _pairs():
    keys = np.random.default_rng(3).permutation(1 << 12)[:64].astype(np.uint32)
    return keys, np.full((128, 2), EMPTY, np.uint32), zeros(64)


@ported(
    "after NVIDIA/cuCollections include/cuco/detail/open_addressing/open_addressing_ref_impl.cuh",
    _pairs,
    lambda keys, *_: keys * 3,
    {"value stored apart": "global-race", "looked up by plain loads": "global-race"},
    grid=2,
    block=32,
)
def a_hash_table_filled_and_asked_at_once(warp, fault, keys, slots, d):
    """Key and value are one word of 64 bits, put there by atom.cas.b64; a thread asks for what another block puts."""
    index = 32 * warp.ctaid[0] + warp.threads
    key = warp.ld_global(keys.at(index))[:, 0]
    pair = key.astype(np.uint64) | (key * 3).astype(np.uint64) << np.uint64(32)
    todo, slot = np.ones(32, bool), key % 128
    while todo.any():
        place = slots + 8 * slot.astype(np.int64)
        with warp.only(todo):
            if fault == "value stored apart":
                old = warp.atom_global("cas.b32", place, EMPTY, key)[:, 0]
                won = todo & (old == EMPTY)
                with warp.only(won):
                    warp.st_global(place + 4, key * 3)  # <- value stored apart
            else:
                # <- looked up by plain loads
                old = warp.atom_global("cas.b64", place, np.uint64(2**64 - 1), pair)[:, 0]
                won = todo & (old == np.uint64(2**64 - 1))
        todo, slot = todo & ~won, np.where(todo & ~won, (slot + 1) % 128, slot)
    key = warp.ld_global(keys.at(63 - index))[:, 0]
    todo, slot, found = np.ones(32, bool), key % 128, np.zeros(32, np.uint32)
    order = "" if fault == "looked up by plain loads" else "relaxed"
    while todo.any():
        with warp.only(todo):
            if fault == "value stored apart":
                there = warp.ld_global(slots + 8 * slot.astype(np.int64), order=order)[:, 0]
                value = warp.ld_global(slots + 8 * slot.astype(np.int64) + 4)[:, 0]  # <- value stored apart
            else:
                # <- looked up by plain loads
                word = warp.ld_global(slots + 8 * slot.astype(np.int64), "b64", order=order)[:, 0]
                there, value = word.astype(np.uint32), (word >> np.uint64(32)).astype(np.uint32)
        hit = todo & (there == key)
        found = np.where(hit, value, found)
        slot = np.where(todo & ~hit & (there != EMPTY), (slot + 1) % 128, slot)
        todo &= ~hit
    warp.st_global(d.at(63 - index), found)
