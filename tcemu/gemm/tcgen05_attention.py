"""Attention forward in the manner of FlashAttention-4: scores, their powers and the output are in Tensor Memory.

A block handles 128 queries and visits the keys in tiles of 128. Its warps have four tasks:

    0 to 3   softmax    a thread has a whole row: it loads S from Tensor Memory, and stores P over it, in f16
    4 to 7   correct    rescale O when a row's largest score has grown, and at the end divide and store it
    8        copy       Q, and K and V in the order in which they are used: K0 K1 V0 K2 V1 ...
    9        multiply   S = Q K^T, and O += P V with P, the A operand, from Tensor Memory

There are two S, so the tensor core computes the scores of the next tile while softmax works on this one. O stays in
Tensor Memory from the first tile to the last. Rescaling it there costs a round trip through registers, so a row keeps
its old largest score until a new one would make powers of more than 2^8: f16 has room for them, and the division by
the total, at the end, makes up for it. All powers are attention.py's polynomial, in which FlashAttention-4 computes a
part of them; ex2.approx would leave bits open that nobody has recorded on Blackwell.

No Blackwell GPU was asked. Sums are as MMA-Sim's authors measured them on a B200; everything else is the manual's.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.gemm.attention import DIM, F32, SCALE, check, exp2
from tcemu.launcher import launch
from tcemu.layouts import Descriptor, instruction_descriptor
from tcemu.layouts.instruction_descriptor import InstructionDescriptor
from tcemu.machine import scalar
from tcemu.machine.allocation import Shared
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: Queries of a block, keys of a tile; a tile of Q, K or V has as many rows of one line of the swizzle.
QUERIES = KEYS = 128
LINE = 2 * DIM
TILE = KEYS * LINE
#: The warps that correct, the one that copies and the one that multiplies; the first four compute softmax.
CORRECTORS, COPIER, MULTIPLIER = 4, 8, 9
THREADS = 32 * (MULTIPLIER + 1)
#: A ring of tiles of K and V, Q, a number for each row, mbarriers, and where tcgen05.alloc writes.
STAGES = 4
SHARED = Shared(
    ring=((STAGES, KEYS, DIM), np.float16, LINE),
    q=((QUERIES, DIM), np.float16, LINE),
    rows=(QUERIES, np.float32),
    full=(STAGES, np.uint64),  # a tile has arrived
    empty=(STAGES, np.uint64),  # the tensor core has read it
    q_full=(1, np.uint64),
    scored=(2, np.uint64),  # an S has its scores
    powered=(2, np.uint64),  # a P has its powers
    summed=(1, np.uint64),  # O has the values of a tile
    factored=(1, np.uint64),  # `rows` has factors, or totals
    corrected=(1, np.uint64),  # O may get the next values, and `rows` other numbers
    slot=(1, np.uint64),
)
#: Columns of Tensor Memory: two S, each with P over its first half, and O; all that are allocated.
OUTPUT, TENSOR_COLUMNS = 2 * KEYS, 512
#: Columns that a warp loads or stores at a time.
WIDE = 16
#: The largest exponent of a power before a row's largest score is renewed.
GROWTH = np.float32(8)

#: S is 128 queries by 128 keys. O is 128 queries by 64 of a head; V's rows are keys, so B is MN-major.
IDESC_S = instruction_descriptor(QUERIES, KEYS)
IDESC_O = InstructionDescriptor("f16", QUERIES, DIM, "f32", "f16", "f16", transpose_b=True).encode()


def begin(warp: Warp) -> int:
    """Initialise the mbarriers and allocate the columns; return their address."""
    if warp.warpid == COPIER:
        with warp.only(warp.elect_sync()):
            for bars, arrivals in (
                (SHARED.full, 1), (SHARED.empty, 1), (SHARED.q_full, 1), (SHARED.scored, 1), (SHARED.summed, 1),
                (SHARED.powered, CORRECTORS), (SHARED.factored, CORRECTORS), (SHARED.corrected, CORRECTORS),
            ):  # fmt: skip
                for number in range(bars.shape[0]):
                    warp.mbarrier_init(bars.at(number), arrivals)
            warp.fence_mbarrier_init()
    if warp.warpid == MULTIPLIER:
        warp.tcgen05_alloc(SHARED.slot, TENSOR_COLUMNS)
        warp.tcgen05_relinquish_alloc_permit()
    meet(warp)
    return int(warp.ld_shared(SHARED.slot)[0, 0])


def meet(warp: Warp) -> None:
    """All threads of the block meet; what tcgen05 did before and does after is ordered."""
    warp.tcgen05_fence_before_thread_sync()
    warp.bar_sync()
    warp.tcgen05_fence_after_thread_sync()


def arrive(warp: Warp, bar: int) -> None:
    """One arrival for what all lanes of this warp did, in shared and Tensor Memory."""
    warp.tcgen05_fence_before_thread_sync()
    warp.bar_warp_sync()
    with warp.only(warp.elect_sync()):
        warp.mbarrier_arrive(bar)


def wait(warp: Warp, bar: int, parity: int) -> None:
    """Wait for a phase, before tcgen05 uses what it tells of."""
    warp.mbarrier_wait(bar, parity)
    warp.tcgen05_fence_after_thread_sync()


# ---------------------------------------------------------------------------------------------------- copy, multiply


def copy_tiles(warp: Warp, boxes: list[TensorMap], tiles: int) -> None:
    """One lane copies Q, and K and V of all tiles in the order in which they are used."""
    q, k, v = boxes
    order = [(k, 0)]
    for tile in range(1, tiles + 1):
        order += [(k, tile)] * (tile < tiles) + [(v, tile - 1)]
    with warp.only(warp.elect_sync()):
        copy(warp, SHARED.q, q, QUERIES * warp.ctaid[0], SHARED.q_full)
        for number, (box, tile) in enumerate(order):
            turn, stage = divmod(number, STAGES)
            warp.mbarrier_wait(SHARED.empty.at(stage), (turn + 1) % 2)
            copy(warp, SHARED.ring.at(stage, 0, 0), box, KEYS * tile, SHARED.full.at(stage))


def copy(warp: Warp, to: int, box: TensorMap, row: int, bar: int) -> None:
    """Copy 128 rows; beyond the matrix, zeros."""
    warp.mbarrier_arrive_expect_tx(bar, TILE)
    warp.cp_async_bulk_tensor_shared_global(to, box, (0, row), bar)


def multiply_tiles(warp: Warp, taddr: int, tiles: int) -> None:
    """One lane issues all products: the scores of the next tile, then the values of this one."""
    ring = count()
    with warp.only(warp.elect_sync()):
        warp.mbarrier_wait(SHARED.q_full, 0)
        scores(warp, taddr, 0, next(ring))
        for tile in range(tiles):
            if tile + 1 < tiles:
                scores(warp, taddr, tile + 1, next(ring))
            if tile > 0:
                wait(warp, SHARED.corrected, (tile - 1) % 2)
            wait(warp, SHARED.powered.at(tile % 2), tile // 2 % 2)
            add_values(warp, taddr, tile, next(ring))


def scores(warp: Warp, taddr: int, tile: int, number: int) -> None:
    """S = Q K^T of a tile. S may be overwritten: this thread has issued the product that reads P there."""
    turn, stage = divmod(number, STAGES)
    wait(warp, SHARED.full.at(stage), turn % 2)
    a = Descriptor.for_tile("f16", QUERIES, DIM, swizzle=LINE, start=int(SHARED.q))
    b = Descriptor.for_tile("f16", KEYS, DIM, swizzle=LINE, start=SHARED.ring.at(stage, 0, 0))
    for step in range(DIM // 16):
        at = 32 * step
        warp.tcgen05_mma("f16", taddr + s_columns(tile), a.step(at), b.step(at), IDESC_S, step > 0)
    warp.tcgen05_commit(SHARED.empty.at(stage))
    warp.tcgen05_commit(SHARED.scored.at(tile % 2))


def add_values(warp: Warp, taddr: int, tile: int, number: int) -> None:
    """O += P V of a tile: A is in Tensor Memory, two elements in a column."""
    turn, stage = divmod(number, STAGES)
    wait(warp, SHARED.full.at(stage), turn % 2)
    b = Descriptor.for_tile("f16", DIM, KEYS, major="MN", swizzle=LINE, start=SHARED.ring.at(stage, 0, 0))
    for step in range(KEYS // 16):
        p = taddr + s_columns(tile) + 8 * step
        warp.tcgen05_mma("f16", taddr + OUTPUT, p, b.step(16 * LINE * step), IDESC_O, tile > 0 or step > 0)
    warp.tcgen05_commit(SHARED.empty.at(stage))
    warp.tcgen05_commit(SHARED.summed)


def s_columns(tile: int) -> int:
    """The first column of S of a tile, and of P."""
    return KEYS * (tile % 2)


# ---------------------------------------------------------------------------------------------------- softmax


def softmax_tiles(warp: Warp, taddr: int, tiles: int, keys: int) -> None:
    """A warp makes P of S for its 32 rows, one for each thread, and tells by which factor older values shrink."""
    lanes, row = 32 * warp.warpid << 16, SHARED.rows.at(warp.threads)
    largest, total = np.full(32, -np.inf, np.float32), np.zeros(32, np.float32)
    for tile in range(tiles):
        at = taddr + lanes + s_columns(tile)
        wait(warp, SHARED.scored.at(tile % 2), tile // 2 % 2)
        s = load(warp, at, KEYS)
        there = KEYS * tile + np.arange(KEYS) < keys
        powers, largest, total, factor = softmax(scalar.select(there, s, np.float32(-np.inf)), largest, total)
        if tile > 0:
            tell(warp, row, factor, tile)
        store(warp, at, scalar.cvt_f16x2(powers[:, 0::2], powers[:, 1::2]))
        arrive(warp, SHARED.powered.at(tile % 2))
    tell(warp, row, total, tiles)


def softmax(s: F32, largest: F32, total: F32) -> tuple[F32, F32, F32, F32]:
    """The powers of a tile's scores (32, 128), the rows' largest scores and totals, and the factor for older values."""
    before, peak = largest, largest
    for n in range(KEYS):
        peak = scalar.maximum(peak, s[:, n])
    growth = scalar.mul(scalar.add(peak, -before), SCALE)
    largest = scalar.select(growth > GROWTH, peak, before)
    factor = exp2(scalar.mul(scalar.add(before, -largest), SCALE))
    offset = scalar.mul(largest, -SCALE)
    powers = exp2(scalar.fma(s, SCALE, offset[:, None]))
    here = np.zeros(32, np.float32)
    for n in range(KEYS):
        here = scalar.add(here, powers[:, n])
    return powers, largest, scalar.fma(total, factor, here), factor


def tell(warp: Warp, row: Any, number: F32, tile: int) -> None:
    """Pass a number for each row to the warps that correct, when they have done with the one before."""
    if tile > 1:
        warp.mbarrier_wait(SHARED.corrected, tile % 2)
    warp.st_shared(row, number)
    arrive(warp, SHARED.factored)


def load(warp: Warp, at: int, columns: int) -> F32:
    """Columns of this warp's rows, (32, columns)."""
    parts = [warp.tcgen05_ld(at + n, f"32x32b.x{WIDE}") for n in range(0, columns, WIDE)]
    warp.tcgen05_wait_ld()
    return np.concatenate([part.view(np.float32) for part in parts], axis=1)


def store(warp: Warp, at: int, values: npt.NDArray[Any]) -> None:
    """The same, written; other operations may use it after the arrival that follows."""
    for n in range(0, values.shape[1], WIDE):
        warp.tcgen05_st(at + n, np.ascontiguousarray(values[:, n : n + WIDE]).view(np.uint32), f"32x32b.x{WIDE}")
    warp.tcgen05_wait_st()


# ---------------------------------------------------------------------------------------------------- correct


def correct_tiles(warp: Warp, taddr: int, tiles: int, out: Pointer) -> None:
    """A warp multiplies its 32 rows of O by a tile's factors, if one is not 1; then it divides by totals and stores."""
    quarter = 32 * (warp.warpid - CORRECTORS)
    row, at = quarter + warp.laneid, taddr + (quarter << 16) + OUTPUT
    for tile in range(1, tiles):
        warp.mbarrier_wait(SHARED.factored, (tile - 1) % 2)
        factor = warp.ld_shared(SHARED.rows.at(row)).view(np.float32)
        wait(warp, SHARED.summed, (tile - 1) % 2)
        if warp.vote_sync("any", factor[:, 0] < 1):
            store(warp, at, scalar.mul(load(warp, at, DIM), factor))
        arrive(warp, SHARED.corrected)
    warp.mbarrier_wait(SHARED.factored, (tiles - 1) % 2)
    total = warp.ld_shared(SHARED.rows.at(row)).view(np.float32)
    wait(warp, SHARED.summed, (tiles - 1) % 2)
    o, place = scalar.div(load(warp, at, DIM), total).view(np.uint32), QUERIES * warp.ctaid[0] + row
    with warp.only(place < out.shape[0]):
        for n in range(0, DIM, 4):
            warp.st_global(out.at(place, n), o[:, n : n + 4], "v4.b32")


def kernel(warp: Warp, q: Pointer, k: Pointer, v: Pointer, out: Pointer) -> None:
    """A block for each 128 queries: q, out (queries, 64) and k, v (keys, 64); out is f32, the others are f16."""
    keys = k.shape[0]
    tiles = -(-keys // KEYS)
    taddr = begin(warp)
    if warp.warpid == COPIER:
        boxes = [TensorMap.of(each, (DIM, KEYS), swizzle=LINE) for each in (q, k, v)]
        copy_tiles(warp, boxes, tiles)
    elif warp.warpid == MULTIPLIER:
        multiply_tiles(warp, taddr, tiles)
    elif warp.warpid < CORRECTORS:
        softmax_tiles(warp, taddr, tiles, keys)
    else:
        correct_tiles(warp, taddr, tiles, out)
    meet(warp)
    if warp.warpid == MULTIPLIER:
        warp.tcgen05_dealloc(taddr, TENSOR_COLUMNS)


@explained
def attend(
    q: npt.NDArray[np.float16], k: npt.NDArray[np.float16], v: npt.NDArray[np.float16], **options: Any
) -> tuple[npt.NDArray[np.float32], Launch]:
    """O (queries, 64) float32 of q (queries, 64) and k, v (keys, 64), all float16, and the launch.

    `options` are passed to tcemu.launch: seed, policy, sanitizer. Raises OperandError for other shapes.

    >>> from tcemu.gemm import tcgen05_attention
    >>> q, k, v = (np.ones((128, 64), np.float16) for _ in range(3))
    >>> out, result = tcgen05_attention.attend(q, k, v)
    >>> out.shape, out[0, 0], result.reports  # a mean of ones
    ((128, 64), np.float32(1.0), [])
    """
    check(q, k, v)
    out = np.zeros(q.shape, np.float32)
    options = {"target": "sm_100a", **options}
    return out, launch(kernel, -(-len(q) // QUERIES), THREADS, (q, k, v, out), shared=SHARED, **options)
