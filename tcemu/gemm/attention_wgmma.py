"""Attention forward as FlashAttention-3 computes it: wgmma, P as the A operand in registers, softmax under products.

A block handles 128 queries of a head, 64 for each of two consumer warpgroups, and visits the keys in tiles of 128. The
scores of a tile are an accumulator of wgmma; rounded to f16, they are the registers of the next product's A operand, so
P never goes to shared memory. Three things run at the same time:

    within a warpgroup    the softmax of tile j, while the tensor core multiplies P and V of tile j - 1
    between the two       a warpgroup issues its products while the other computes its softmax; named barriers pass
                          the turn on (FlashAttention-3: warp_scheduler_barrier)
    in the copy engine    the boxes of K and V, in the order in which they are used: K0 K1 V0 K2 V1 ... through one ring

2^x is ex2.approx.ftz.f32, one instruction. The manual leaves its bits open; these are an H100's, from recordings. A
multiprocessor makes only 16 a clock, which is why FlashAttention-4 computes a part of its powers with a polynomial, as
attention.py does: there are eight times as many fma.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm.attention import F32, over_row
from tcemu.gemm.wgmma_persistent import REGISTERS
from tcemu.gemm.wgmma_tma import LINE, WARPGROUP
from tcemu.instructions import parse
from tcemu.launcher import launch
from tcemu.layouts import Descriptor
from tcemu.machine import scalar
from tcemu.machine.global_memory import Pointer
from tcemu.machine.launch import Launch
from tcemu.machine.registers import Registers
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.warp import Warp

#: Elements of a head; queries of a warpgroup, and the consumer warpgroups; keys of a tile.
DIM, ROWS, CONSUMERS, KEYS = 128, 64, 2, 128
QUERIES = ROWS * CONSUMERS
#: A box: 128 rows of one line of the swizzle, half a head. A tile of Q, K or V has two.
BOX, BOXES = 128 * LINE, 2 * DIM // LINE
TILE = BOXES * BOX
#: The ring has room for four tiles, K's and V's; then come Q and the mbarriers.
STAGES = 4
Q = STAGES * TILE
SHARED = Q + TILE + 8 * (2 * STAGES + 1)
#: exp(x / sqrt(DIM)) = 2 ** (x * SCALE).
SCALE = np.float32(np.log2(math.e) / np.sqrt(DIM))

#: Scores: 64 queries by 128 keys; B is K, with K innermost. Values: 64 queries by 128 of a head; V's rows are keys, so
#: the other direction is innermost, and the last immediate transposes it.
MMA = parse(f"wgmma.mma_async.sync.aligned.m{ROWS}n128k16.f32.f16.f16")


def full(stage: int) -> int:
    """The address of the mbarrier that completes when a tile has arrived; that of Q is the last."""
    return Q + TILE + 8 * stage


def empty(stage: int) -> int:
    """The address of the mbarrier that completes when both warpgroups have read a tile."""
    return full(STAGES + stage)


Q_FULL = full(2 * STAGES)


def begin(warp: Warp) -> None:
    """One lane of the producer initialises the mbarriers; then all threads may use them."""
    if warp.warpid == 4 * CONSUMERS:
        with warp.only(warp.elect_sync()):
            for stage in range(STAGES):
                warp.mbarrier_init(full(stage), 1)
                warp.mbarrier_init(empty(stage), 4 * CONSUMERS)
            warp.mbarrier_init(Q_FULL, 1)
            warp.fence_mbarrier_init()
    warp.bar_sync()


def load_tile(warp: Warp, to: int, box: TensorMap, row: int, head: int, bar: int) -> None:
    """Copy both halves of 128 rows of a head."""
    warp.mbarrier_arrive_expect_tx(bar, TILE)
    for half in range(BOXES):
        warp.cp_async_bulk_tensor_shared_global(to + BOX * half, box, (DIM // BOXES * half, row, head), bar)


def produce(warp: Warp, q: Pointer, k: Pointer, v: Pointer, tiles: int) -> None:
    """One lane copies Q, and K and V of all tiles in the order in which they are used."""
    x, head, _ = warp.ctaid
    shared_by = q.shape[0] // k.shape[0]  # so many heads of Q have the same K and V (GQA)
    maps = [TensorMap.of(each, (DIM // BOXES, 128, 1), swizzle=LINE) for each in (q, k, v)]
    order = [(maps[1], 0)]
    for tile in range(1, tiles + 1):
        order += [(maps[1], tile)] * (tile < tiles) + [(maps[2], tile - 1)]
    with warp.only(warp.elect_sync()):
        load_tile(warp, Q, maps[0], QUERIES * x, head, Q_FULL)
        for number, (box, tile) in enumerate(order):
            turn, stage = divmod(number, STAGES)
            warp.mbarrier_wait(empty(stage), (turn + 1) % 2)
            load_tile(warp, TILE * stage, box, KEYS * tile, head // shared_by, full(stage))


def release(warp: Warp, stage: int) -> None:
    """One lane signals that this warp no longer needs the tile."""
    with warp.only(warp.elect_sync()):
        warp.mbarrier_arrive(empty(stage))


def scores(warp: Warp, s: Registers, stage: int) -> None:
    """Issue S = Q K^T of a tile, as a group."""
    warp.wgmma_fence()
    for step in range(DIM // 16):
        box, at = BOX * (step // 4), 32 * (step % 4)
        a = Descriptor.for_tile("f16", ROWS, 64, swizzle=LINE, start=Q + box + LINE * ROWS * warp.warpgroup)
        b = Descriptor.for_tile("f16", KEYS, 64, swizzle=LINE, start=TILE * stage + box)
        warp.run(MMA, s, a.step(at), b.step(at), step > 0, 1, 1, 0, 0)
    warp.wgmma_commit_group()


def add_values(warp: Warp, o: Registers, p: list[Registers], stage: int, first: bool) -> None:
    """Issue O += P V of a tile, as a group; with `first`, O starts at zero."""
    b = Descriptor.for_tile("f16", DIM, KEYS, major="MN", swizzle=LINE, start=TILE * stage, atoms_along="K")
    warp.wgmma_fence()
    for step in range(KEYS // 16):
        warp.run(MMA, o, p[step], b.step(16 * LINE * step), step > 0 or not first, 1, 1, 1)
    warp.wgmma_commit_group()


def mask(warp: Warp, s: Registers, first: int, keys: int, seen: npt.NDArray[np.int64]) -> F32:
    """The scores (32, KEYS / 8, 2, 2); -inf where there is no key, or a row sees only keys before `seen` (32, 2)."""
    scores = s.view(np.float32).reshape(32, KEYS // 8, 2, 2)
    lane = 2 * (warp.laneid % 4)[:, None, None, None]
    column = first + 8 * np.arange(KEYS // 8)[:, None, None] + lane + np.array([0, 1])
    limit = np.minimum(seen, keys)
    if (limit >= first + KEYS).all():  # true of all tiles but the last ones
        return scores
    return scalar.select(column < limit[:, None, :, None], scores, np.float32(-np.inf))


def softmax(warp: Warp, s: F32, largest: F32, total: F32) -> tuple[F32, F32, F32, F32]:
    """The powers of a tile's scores (32, keys / 8, 2, 2), the new largest scores and totals, the factor for older sums.

    A lane has elements of two rows, so the others are (32, 2). A total is a lane's own until the end.
    """
    before, columns = largest, s.shape[1]
    for n in range(columns):
        largest = scalar.maximum(largest, scalar.maximum(s[:, n, :, 0], s[:, n, :, 1]))
    largest = over_row(warp, scalar.maximum, largest)
    factor = scalar.ex2(scalar.mul(scalar.add(before, -largest), SCALE))
    offset = scalar.mul(largest, -SCALE)
    powers = scalar.ex2(scalar.fma(s, SCALE, offset[:, None, :, None]))
    here = np.zeros((32, 2), np.float32)
    for n in range(columns):
        here = scalar.add(here, scalar.add(powers[:, n, :, 0], powers[:, n, :, 1]))
    return powers, largest, scalar.fma(total, factor, here), factor


def rescale(o: Registers, factor: F32) -> None:
    """O *= factor, row by row."""
    held = o.view(np.float32).reshape(32, DIM // 8, 2, 2)
    o[:] = scalar.mul(held, factor[:, None, :, None]).reshape(32, DIM // 2).view(np.uint32)


def pack(p: list[Registers], powers: F32) -> None:
    """The powers in f16, as A operands: the accumulator's layout is A's, so nothing moves."""
    halves = scalar.cvt_f16x2(powers[..., 0], powers[..., 1]).reshape(32, KEYS // 16, 4)
    for step, held in enumerate(p):
        held[:] = halves[:, step]


def await_tile(warp: Warp, number: int) -> None:
    """Wait for a tile in the ring: 0 is the first one of K, 2 t - 1 and 2 t are K of tile t and V of the one before."""
    warp.mbarrier_wait(full(number % STAGES), number // STAGES % 2)


def await_turn(warp: Warp, tile: int) -> None:
    """Wait until the other warpgroup has issued its products; the first one begins."""
    if warp.warpgroup or tile:
        warp.bar_sync(1 + warp.warpgroup, WARPGROUP * CONSUMERS)


def pass_turn(warp: Warp, tile: int, tiles: int) -> None:
    """The other warpgroup may issue its products; after the last ones, nobody waits."""
    if warp.warpgroup == 0 or tile + 1 < tiles:
        warp.bar_arrive(2 - warp.warpgroup, WARPGROUP * CONSUMERS)


def consume(warp: Warp, tiles: int, keys: int, seen: npt.NDArray[np.int64]) -> tuple[Registers, F32]:
    """The warpgroup's 64 queries over all tiles: O, and the totals that divide it."""
    s, o = warp.registers(KEYS // 2, fill=0), warp.registers(DIM // 2, fill=0)
    p = [warp.registers(4, fill=0) for _ in range(KEYS // 16)]
    largest, total = np.full((32, 2), -np.inf, np.float32), np.zeros((32, 2), np.float32)
    warp.mbarrier_wait(Q_FULL, 0)
    await_tile(warp, 0)  # the first tile: there are no values to add yet
    await_turn(warp, 0)
    scores(warp, s, 0)
    pass_turn(warp, 0, tiles)
    warp.wgmma_wait_group(0)
    release(warp, 0)
    powers, largest, total, factor = softmax(warp, mask(warp, s, 0, keys, seen), largest, total)
    pack(p, powers)
    await_tile(warp, 1)
    for tile in range(1, tiles):
        of_k, of_v = (2 * tile - 1) % STAGES, 2 * tile % STAGES
        await_turn(warp, tile)
        scores(warp, s, of_k)
        await_tile(warp, 2 * tile)
        add_values(warp, o, p, of_v, first=tile == 1)
        pass_turn(warp, tile, tiles)
        warp.wgmma_wait_group(1)  # the scores are there; the other product may still run
        release(warp, of_k)
        powers, largest, total, factor = softmax(warp, mask(warp, s, KEYS * tile, keys, seen), largest, total)
        await_tile(warp, 2 * tile + 1)  # before the other wait, or ptxas puts that before the softmax
        warp.wgmma_wait_group(0)
        release(warp, of_v)
        rescale(o, factor)
        pack(p, powers)
    add_values(warp, o, p, (2 * tiles - 1) % STAGES, first=tiles == 1)
    warp.wgmma_wait_group(0)
    return o, over_row(warp, scalar.add, total)


def kernel(warp: Warp, q: Pointer, k: Pointer, v: Pointer, out: Pointer, causal: bool) -> None:
    """Block (x, head): 128 queries of a head. q, out (heads, queries, 128); k, v (heads of k, keys, 128); all f16."""
    x, head, _ = warp.ctaid
    (_, queries, _), keys = q.shape, k.shape[1]
    end = min(keys, QUERIES * (x + 1) + keys - queries) if causal else keys  # the first key that nobody here sees
    tiles = -(-end // KEYS)
    few, many = REGISTERS[CONSUMERS]
    begin(warp)
    if warp.warpgroup == CONSUMERS:
        warp.setmaxnreg("dec", few)
        if warp.warpid % 4 == 0:
            produce(warp, q, k, v, tiles)
        return
    warp.setmaxnreg("inc", many)
    row = QUERIES * x + 16 * warp.warpid + warp.laneid[:, None] // 4 + np.array([0, 8])
    o, total = consume(warp, tiles, keys, row + keys - queries + 1 if causal else np.full((32, 2), keys))
    store(warp, out, o, total, row, head)


def store(warp: Warp, out: Pointer, o: Registers, total: F32, row: npt.NDArray[np.int64], head: int) -> None:
    """Write O, each row divided by its total, in f16."""
    by = scalar.div(np.float32(1), total)[:, None, :, None]
    held = scalar.mul(o.view(np.float32).reshape(32, DIM // 8, 2, 2), by)
    pairs = scalar.cvt_f16x2(held[..., 0], held[..., 1])
    for n in range(DIM // 8):
        for half in range(2):
            with warp.only(row[:, half] < out.shape[1]):
                warp.st_global(out.at(head, row[:, half], 8 * n + 2 * (warp.laneid % 4)), pairs[:, n, half])


@explained
def attend(
    q: npt.NDArray[np.float16],
    k: npt.NDArray[np.float16],
    v: npt.NDArray[np.float16],
    causal: bool = False,
    **options: Any,
) -> tuple[npt.NDArray[np.float16], Launch]:
    """O (heads, queries, 128) of q (heads, queries, 128) and k, v (heads of k, keys, 128), and the launch; all float16.

    The heads of q are a multiple of those of k, which several of q share (grouped-query attention). With `causal`, the
    last query sees all keys, and each query before it one key less. `options` are passed to tcemu.launch: seed, policy,
    sanitizer. Raises OperandError for other shapes.

    >>> from tcemu.gemm import attention_wgmma
    >>> q, k, v = (np.ones((1, 128, 128), np.float16) for _ in range(3))
    >>> out, result = attention_wgmma.attend(q, k, v, causal=True)
    >>> out.shape, out[0, 0, 0], result.reports  # a mean of ones
    ((1, 128, 128), np.float16(1.0), [])
    """
    check(q, k, v, causal)
    out = np.zeros(q.shape, np.float16)
    arguments, threads = (q, k, v, out, causal), WARPGROUP * (CONSUMERS + 1)
    return out, launch(kernel, grid_of(q), threads, arguments, shared=SHARED, **options)


def grid_of(q: npt.NDArray[Any]) -> tuple[int, int]:
    """Blocks: of queries, and heads."""
    return -(-q.shape[1] // QUERIES), len(q)


def check(q: Any, k: Any, v: Any, causal: bool) -> None:
    """Raise OperandError unless q is (heads, queries, 128), and k and v (heads of k, keys, 128), of float16."""
    tensors = q, k, v
    right = all(isinstance(each, np.ndarray) and each.dtype == np.float16 and each.ndim == 3 for each in tensors)
    sized = right and all(each.shape[2] == DIM and each.size for each in tensors)
    if not sized or k.shape != v.shape or len(q) % len(k):
        got = [f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else briefly(each) for each in tensors]
        raise OperandError(
            f"q must be float16 (heads, queries, {DIM}), k and v (heads of k, keys, {DIM}), with a multiple of k's "
            f"heads in q; got {', '.join(got)}"
        )
    if causal and k.shape[1] < q.shape[1]:
        raise OperandError(
            f"causal attention aligns the last query with the last key, so there must be at least as many keys as "
            f"queries; got {k.shape[1]} keys and {q.shape[1]} queries, of which the first would see none"
        )
