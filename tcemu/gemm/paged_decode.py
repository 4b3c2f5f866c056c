"""Paged decode attention: each sequence has one new query, and its keys and values lie in pages all over the cache.

The cache has pages of 16 keys, as vLLM's; a sequence's row of the block table lists its pages. Decoding reads every key
for one query, so memory decides how long it takes, and the tensor core would have 15 of 16 rows empty. With
grouped-query attention it has not: the heads of Q that share a head of K are the rows of one mma.sync (up to 16).

Every warp works alone, on every `splits`-th page (FlashDecoding: split-KV): it copies its pages with cp.async, three
stages deep, and keeps its own largest score, total and sums. A second kernel, `combine`, puts the parts together. The
warps of a block share nothing, so nothing waits for a barrier of the block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm.attention import F32, over_row
from tcemu.gemm.attention_wgmma import SCALE, softmax
from tcemu.gemm.mma_pipeline import LOAD, LOAD_TRANSPOSED, MMA, Lanes
from tcemu.launcher import launch
from tcemu.machine import scalar
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.warp import Warp

#: Elements of a head, keys of a page, warps of a block; the most heads of Q that share a head of K.
DIM, PAGE, WARPS, HEADS = 128, 16, 4, 16
#: Pages that are under way, or being read, in a warp's shared memory: K's tile of 4 KiB, then V's.
STAGES = 3
TILE = 2 * PAGE * DIM
SHARED = WARPS * STAGES * 2 * TILE

F16 = npt.NDArray[np.float16]
I32 = npt.NDArray[np.int32]


def place(row: Lanes, unit: Lanes) -> Lanes:
    """The address of a 16-byte unit in a tile whose rows have 16 units; 8 rows of a column are in different banks."""
    return row * 256 + ((unit ^ row % 8) * 16)


def copy_page(warp: Warp, to: int, k: Pointer, v: Pointer, page: int, keys: int) -> None:
    """Start copying a page's keys and values, one line of a head for each half of the warp; zeros behind `keys`."""
    row, unit = warp.laneid // 16, warp.laneid % 16
    for cache, tile in ((k, to), (v, to + TILE)):
        for first in range(0, PAGE, 2):
            source = cache.at(page, first + row, warp.ctaid[0], 8 * unit)
            inside = np.where(first + row < keys, 16, 0)
            warp.cp_async(tile + place(first + row, unit), source, 16, inside, cache="cg")


def load_queries(warp: Warp, q: Pointer, group: int) -> list[npt.NDArray[np.uint32]]:
    """The heads that share this block's K, as A operands of eight steps; rows that have no head repeat the last one."""
    x, sequence, _ = warp.ctaid
    row, column = warp.laneid // 4, 2 * (warp.laneid % 4)
    heads = [group * x + np.minimum(row + 8 * half, group - 1) for half in range(2)]
    parts = [
        warp.ld_global(q.at(sequence, heads[i % 2], 16 * step + column + 8 * (i // 2)))
        for step in range(DIM // 16)
        for i in range(4)
    ]
    return [np.hstack(parts[4 * step : 4 * step + 4]) for step in range(DIM // 16)]


def scores(warp: Warp, q: list[npt.NDArray[np.uint32]], tile: int) -> F32:
    """Q K^T of a page: (32, 2, 2, 2), for a lane 8 keys further, 8 rows further, and the next key."""
    c = [warp.registers(4, fill=0) for _ in range(PAGE // 8)]
    for quarter in range(4):
        for n in range(PAGE // 8):  # K is (keys, head): its rows are B's columns, so nothing is transposed
            held = warp.run(LOAD, tile + place(8 * n + warp.laneid % 8, 4 * quarter + warp.laneid // 8))
            c[n] = warp.run(MMA, q[2 * quarter], held[:, :2], c[n])
            c[n] = warp.run(MMA, q[2 * quarter + 1], held[:, 2:], c[n])
    return np.stack([each.view(np.float32).reshape(32, 2, 2) for each in c], axis=1)


def mask(warp: Warp, s: F32, keys: int) -> F32:
    """-inf behind the last key, which only the last page has."""
    if keys >= PAGE:
        return s
    column = 8 * np.arange(2)[:, None, None] + 2 * (warp.laneid % 4)[:, None, None, None] + np.array([0, 1])
    return scalar.select(column < keys, s, np.float32(-np.inf))


def add_values(warp: Warp, o: list[Registers], powers: F32, factor: F32, tile: int) -> None:
    """O = O * factor + P V: the scores' layout is that of an A operand, so nothing moves."""
    p = scalar.cvt_f16x2(powers[..., 0], powers[..., 1]).reshape(32, 4)
    scale = np.repeat(factor, 2, axis=1)
    for n in range(0, DIM // 8, 2):
        held = warp.run(LOAD_TRANSPOSED, tile + place(warp.laneid % 16, n + warp.laneid // 16))
        for i in range(2):
            o[n + i][:] = scalar.mul(o[n + i].view(np.float32), scale).view(np.uint32)
            o[n + i] = warp.run(MMA, p, held[:, 2 * i : 2 * i + 2], o[n + i])


def kernel(
    warp: Warp, q: Pointer, k: Pointer, v: Pointer, table: Pointer, lengths: Pointer, parts: Pointer, sums: Pointer
) -> None:
    """Block (x, sequence, z): a head of K, 4 of the splits. q (sequences, heads, 128), k, v (pages, 16, heads, 128)."""
    _, sequence, z = warp.ctaid
    group, split, splits = q.shape[1] // k.shape[2], WARPS * z + warp.warpid, parts.shape[0]
    length = int(warp.ld_global(lengths.at(sequence))[0, 0])
    pages, first = range(split, -(-length // PAGE), splits), 2 * TILE * STAGES * warp.warpid

    def entry(number: int) -> Registers:
        """The block table's entry of this warp's page `number`; behind the last one, any."""
        return warp.ld_global(table.at(sequence, min(split + splits * number, table.shape[1] - 1)))

    def start(number: int, page: Registers) -> Registers:
        """Start copying a page; its entry was loaded before, and the next one is loaded now."""
        if number < len(pages):
            to, keys = first + 2 * TILE * (number % STAGES), length - PAGE * pages[number]
            copy_page(warp, to, k, v, int(page[0, 0]), keys)
        warp.cp_async_commit_group()  # an empty group too, so that the number to wait for stays the same
        return entry(number + 1)

    upcoming = entry(0)
    for number in range(STAGES - 1):
        upcoming = start(number, upcoming)
    held = load_queries(warp, q, group)
    o = [warp.registers(4, fill=0) for _ in range(DIM // 8)]
    largest, total = np.full((32, 2), -np.inf, np.float32), np.zeros((32, 2), np.float32)
    for number, page in enumerate(pages):
        warp.cp_async_wait_group(STAGES - 2)  # this lane's copies of the page have arrived
        warp.bar_warp_sync()  # all lanes' have, and all have read the page before, to be overwritten
        upcoming = start(number + STAGES - 1, upcoming)
        tile = first + 2 * TILE * (number % STAGES)
        s = mask(warp, scores(warp, held, tile), length - PAGE * page)
        powers, largest, total, factor = softmax(warp, s, largest, total)
        add_values(warp, o, powers, factor, tile + TILE)
    write_part(warp, o, largest, over_row(warp, scalar.add, total), parts, sums, split, group)


def write_part(
    warp: Warp, o: list[Registers], largest: F32, total: F32, parts: Pointer, sums: Pointer, split: int, group: int
) -> None:
    """Write the sums of a split, and the largest score and total of each head."""
    x, sequence, _ = warp.ctaid
    for half in range(2):
        row, column = warp.laneid // 4 + 8 * half, 2 * (warp.laneid % 4)
        head = group * x + row
        with warp.only(row < group):
            for n in range(DIM // 8):
                pair = o[n][:, 2 * half : 2 * half + 2]
                warp.st_global(parts.at(split, sequence, head, 8 * n + column), pair, "v2.b32")
        with warp.only((row < group) & (column == 0)):
            both = np.stack([largest[:, half], total[:, half]], axis=1).view(np.uint32)
            warp.st_global(sums.at(split, sequence, head, 0), both, "v2.b32")


def combine(warp: Warp, parts: Pointer, sums: Pointer, out: Pointer) -> None:
    """Block (head, sequence), a thread for each element: the parts, scaled to the largest score of all, and divided."""
    head, sequence, _ = warp.ctaid
    held = [
        warp.ld_global(sums.at(split, sequence, np.full(32, head), 0), "v2.b32").view(np.float32)
        for split in range(parts.shape[0])
    ]
    largest = held[0][:, 0]
    for each in held[1:]:
        largest = scalar.maximum(largest, each[:, 0])
    total, o = np.zeros(32, np.float32), np.zeros(32, np.float32)
    for split, each in enumerate(held):
        factor = scalar.ex2(scalar.mul(scalar.add(each[:, 0], -largest), SCALE))
        part = warp.ld_global(parts.at(split, sequence, head, warp.threads)).view(np.float32)[:, 0]
        total, o = scalar.fma(each[:, 1], factor, total), scalar.fma(part, factor, o)
    quotient = scalar.cvt_f16x2(scalar.div(o, total), np.float32(0)).astype(np.uint16)
    warp.st_global(out.at(sequence, head, warp.threads), quotient[:, None], "b16")


@explained
def attend(
    q: F16, k: F16, v: F16, table: I32, lengths: I32, splits: int = WARPS, **options: Any
) -> tuple[F16, tuple[Launch, Launch]]:
    """O (sequences, heads, 128) of q (sequences, heads, 128), and the two launches.

    k and v, the cache, are (pages, 16, heads of k, 128). Key i of a sequence is in page table[sequence, i // 16], and
    the sequence has lengths[sequence] keys. q, k, v and O are float16, table and lengths int32. Up to 16 heads of q
    share a head of k. `splits`, a multiple of 4, is the number of warps that share a sequence's keys. `options` are
    passed to tcemu.launch: target, seed, policy, sanitizer. Raises OperandError for anything else.

    >>> from tcemu.gemm import paged_decode
    >>> q, cache = np.ones((1, 8, 128), np.float16), np.ones((5, 16, 2, 128), np.float16)
    >>> table, lengths = np.array([[4, 0, 2]], np.int32), np.array([40], np.int32)
    >>> out, launches = paged_decode.attend(q, cache, cache, table, lengths)
    >>> out.shape, out[0, 0, 0], len(launches)  # a mean of ones
    ((1, 8, 128), np.float16(1.0), 2)
    """
    check(q, k, v, table, lengths, splits)
    parts, sums, out = buffers(q, splits)
    grid = k.shape[2], len(q), splits // WARPS
    arguments = q, k, v, table, lengths, parts, sums
    first = launch(kernel, grid, 32 * WARPS, arguments, shared=SHARED, **options)
    return out, (first, launch(combine, (q.shape[1], len(q)), DIM, (parts, sums, out), **options))


def buffers(q: F16, splits: int) -> tuple[F32, F32, F16]:
    """The parts' sums, their largest scores and totals, and O."""
    return np.zeros((splits, *q.shape), np.float32), np.zeros((splits, *q.shape[:2], 2), np.float32), np.zeros_like(q)


def check(q: Any, k: Any, v: Any, table: Any, lengths: Any, splits: Any) -> None:
    """Raise OperandError for other shapes, dtypes, pages and splits than `attend` takes."""
    wanted = (
        (q, np.float16, 3, f"q must be float16 (sequences, heads, {DIM})"),
        (k, np.float16, 4, f"k must be float16 (pages, {PAGE}, heads of k, {DIM})"),
        (v, np.float16, 4, f"v must be float16 (pages, {PAGE}, heads of k, {DIM})"),
        (table, np.int32, 2, "table must be int32 (sequences, pages of the longest)"),
        (lengths, np.int32, 1, "lengths must be int32 (sequences,)"),
    )
    for each, dtype, rank, words in wanted:
        sized = isinstance(each, np.ndarray) and each.dtype == dtype and each.ndim == rank and each.size
        if not sized or (rank > 2 and each.shape[-1] != DIM) or (rank == 4 and each.shape[1] != PAGE):
            got = f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else briefly(each)
            raise OperandError(f"{words}; got {got}")
    heads, fewer = q.shape[1], k.shape[2]
    if k.shape != v.shape or heads % fewer or heads // fewer > HEADS:
        raise OperandError(
            f"1 to {HEADS} heads of q share a head of k, because they are the rows of one mma.sync, and v is like k; "
            f"got {heads} heads of q, k {k.shape} and v {v.shape}"
        )
    if isinstance(splits, bool) or not isinstance(splits, int) or splits < 1 or splits % WARPS:
        raise OperandError(f"splits= must be a multiple of {WARPS}, the warps of a block; got {briefly(splits)}")
    if not len(q) == len(table) == len(lengths):
        raise OperandError(f"q, table and lengths have {len(q)}, {len(table)} and {len(lengths)} sequences")
    for sequence, length in enumerate(lengths.tolist()):
        used = table[sequence, : -(-length // PAGE)]
        if not 1 <= length <= PAGE * table.shape[1] or ((used < 0) | (used >= len(k))).any():
            raise OperandError(
                f"sequence {sequence} has {length} keys: it needs at least one, and table[{sequence}] must list their "
                f"{-(-length // PAGE)} pages, numbers from 0 to {len(k) - 1}; got {briefly(table[sequence].tolist())}"
            )
