"""Exercises of notebook 12: complete kernels, clusters, split-K."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.bank.wmma import whole_numbers, wide_numbers
from tcemu.course.judges import Kernel, Values
from tcemu.course.record import REGISTERS, Exercise, Given
from tcemu.gemm import scalar
from tcemu.gemm.mma_pipeline import MMA
from tcemu.gemm.wgmma_tma import Plan
from tcemu.instructions import parse, run
from tcemu.instructions.matmul import matmul
from tcemu.layouts import Descriptor, copy_tile

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------- kernels

#: A stage of the kernel to repair: 128 numbers of 32 bits.
_ROW = 128


def _small(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"A": whole_numbers(rng, 32, 48), "B": whole_numbers(rng, 48, 32)}


def _in_blocks(b: Array) -> Array:
    """B with every 8 by 8 matrix transposed in its place."""
    k, n = b.shape
    return b.reshape(k // 8, 8, n // 8, 8).transpose(0, 3, 2, 1).reshape(k, n)


def _one_step(instruction: Any, a: Array, b: Array) -> Iterable[tuple[str, Array]]:
    """What is left if the other steps are missing."""
    step = parse(instruction).shape[2]
    yield "Only the first step along K is there.", matmul(a[:, :step], b[:step], instruction=instruction)
    yield (
        "Only the last step along K is there: pass the sum so far as C.",
        (matmul(a[:, -step:], b[-step:], instruction=instruction)),
    )


def _added(parts: Iterable[Array]) -> Array:
    """The parts, added in their order in f32."""
    first, *others = parts
    for part in others:
        first = scalar.add(first, part)
    return first


def _small_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, given.B
    right = matmul(a, b, instruction=MMA)
    yield (
        "B is loaded without .trans: every 8 × 8 matrix of it is transposed.",
        (matmul(a, np.ascontiguousarray(_in_blocks(b)), instruction=MMA)),
    )
    crossed = b.reshape(3, 2, 8, 2, 2, 8).transpose(0, 4, 2, 3, 1, 5).reshape(48, 32)
    yield (
        "The four registers of B are paired wrongly: 0 and 1 belong to columns 0 to 7, 2 and 3 to columns 8 to 15.",
        (matmul(a, np.ascontiguousarray(crossed), instruction=MMA)),
    )
    halves = right.reshape(32, 2, 2, 8)
    yield (
        "The two products of a warp are swapped: columns 0 to 7 need the first two registers of B.",
        (halves[:, :, ::-1].reshape(32, 32)),
    )
    yield (
        "The four warps have each other's tiles: rows and columns are swapped.",
        (right.reshape(2, 16, 2, 16).transpose(2, 1, 0, 3).reshape(32, 32)),
    )
    yield (
        "The two pairs of an accumulator are swapped: elements 2 and 3 are 8 rows below 0 and 1.",
        (right.reshape(2, 2, 8, 32)[:, ::-1].reshape(32, 32)),
    )
    yield from _one_step(MMA, a, b)


def _rows(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"x": rng.integers(0, 1 << 20, (7, _ROW)).astype(np.uint32)}


def _rows_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    x = given.x[:, :32].astype(np.uint32)
    yield "The last row is missing.", x[:-1].sum(axis=0, dtype=np.uint32)
    yield "The first row is missing.", x[1:].sum(axis=0, dtype=np.uint32)
    yield (
        "Only the first two rows are there, again and again: the stage is read before it is filled again.",
        (x[np.arange(len(x)) % 2].sum(axis=0, dtype=np.uint32)),
    )


def _hopper(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"A": whole_numbers(rng, 64, 320), "B": whole_numbers(rng, 64, 320)}


_WGMMA = Plan(columns=64).mma


def _hopper_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, np.ascontiguousarray(given.B.T)
    yield "A and B are swapped, so D is transposed.", matmul(a, b, instruction=_WGMMA).T
    first = [k + i for k in range(0, 320, 64) for i in (*range(16),) * 4]
    yield (
        "All four wgmma of a stage read the same 16 of k: step the descriptors by 32 bytes.",
        (matmul(np.ascontiguousarray(a[:, first]), np.ascontiguousarray(b[first]), instruction=_WGMMA)),
    )
    last = matmul(a[:, 256:], b[256:], instruction=_WGMMA)
    yield "The sum starts anew with each stage: scale-d is 0 only for the very first wgmma.", last
    yield from _transposed(given.A, given.B)
    yield from _one_step(_WGMMA, a, b)


def _transposed(a: Array, b: Array) -> Iterable[tuple[str, Array]]:
    """D = A Bᵀ with transpose bits that do not fit, computed by blocks with 64 rows of B each."""
    for name, bits in (("A", (1, 0)), ("B", (0, 1)), ("A and B", (1, 1))):
        yield (
            (
                f"The transpose bit of {name} is set, so lines of 64 k are read as lines of 64 rows. Both matrices are "
                "K-major here, which takes the bits 0; a matrix stored k by n, MN-major, takes 1."
            ),
            np.hstack([_with_bits(a, rows, bits) for rows in np.split(b, len(b) // 64)]),
        )


def _with_bits(a: Array, b: Array, bits: tuple[int, int]) -> Array:
    """D with these transpose bits of A and B, from tiles of 64 columns with the 128-byte swizzle."""
    tiles = [Descriptor.for_tile("f16", 64, 64, swizzle=128, start=start) for start in (0, 8192)]
    c: Array = np.zeros((128, 32), np.uint32)
    for stage in range(0, a.shape[1], 64):
        shared = np.zeros(1 << 15, np.uint8)  # MN-major, the last instructions would read beyond the tiles
        for tile, matrix in zip(tiles, (a, b), strict=True):
            copy_tile(np.ascontiguousarray(matrix[:, stage : stage + 64]), shared, tile)
        for step in range(0, 128, 32):
            c = run(_WGMMA, c, *(tile.step(step) for tile in tiles), 1, 1, 1, *bits, shared=shared)
    return np.asarray(parse(_WGMMA).fragments["d"].unpack(c))


# ---------------------------------------------------------------------------------------------- clusters


def _pair(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"A": whole_numbers(rng, 64, 320), "B": whole_numbers(rng, 128, 320)}


def _pair_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, np.ascontiguousarray(given.B.T)
    whole = matmul(a, b, instruction=_WGMMA)
    yield "Both blocks multiply the same rows of B: the second one begins at row 64.", np.tile(whole[:, :64], 2)
    halves = a.reshape(2, 32, -1)
    for rank in (0, 1):
        yield (
            f"A's tile has rows {32 * rank} to {32 * rank + 31} twice: each block copies its own half.",
            (matmul(np.concatenate([halves[rank]] * 2), b, instruction=_WGMMA)),
        )
    yield from _transposed(a, given.B)
    yield from _one_step(_WGMMA, a, b)


# ---------------------------------------------------------------------------------------------- split-K

_SPLITS = 4


def _long(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"A": wide_numbers(rng, 16, 256), "B": wide_numbers(rng, 256, 8)}


def _split(given: Given, parts: int = _SPLITS) -> list[Array]:
    """The parts of the product, four of them."""
    size = len(given.B) // parts
    cuts = [slice(first, first + size) for first in range(0, len(given.B), size)]
    return [matmul(given.A[:, cut], given.B[cut], instruction=MMA) for cut in cuts]


def _split_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    one, two, three, four = parts = _split(given)
    yield "This is the product without splits.", matmul(given.A, given.B, instruction=MMA)
    each_step = [matmul(given.A[:, k : k + 16], given.B[k : k + 16], instruction=MMA) for k in range(0, 256, 16)]
    yield (
        "Every step of 16 is a part of its own. Within a part, the D of a step is the C of the next.",
        _added(each_step),
    )
    for number, size in ((2, "a half"), (8, "an eighth")):
        yield f"There are {number} parts, each {size} of K. Four splits are four parts.", _added(_split(given, number))
    yield "The parts are added in reverse order.", _added(parts[::-1])
    yield (
        "The parts are added in pairs. They are added one after the other.",
        (scalar.add(scalar.add(one, two), scalar.add(three, four))),
    )
    yield (
        "The parts are added exactly and rounded once. Each addition rounds.",
        (np.sum([part.astype(np.float64) for part in parts], axis=0).astype(np.float32)),
    )
    every = [matmul(given.A[:, k::_SPLITS], np.ascontiguousarray(given.B[k::_SPLITS]), instruction=MMA)
             for k in range(_SPLITS)]  # fmt: skip
    yield "The parts are interleaved. Each part is a contiguous quarter of K.", _added(every)
    k = np.arange(len(given.B)).reshape(-1, _SPLITS, 16)
    dealt = [k[:, part].ravel() for part in range(_SPLITS)]
    yield (
        "You distributed the steps of 16 in turn. Each part is a contiguous quarter of K.",
        (_added([matmul(given.A[:, part], given.B[part], instruction=MMA) for part in dealt])),
    )
    yield "Only the first part is there.", one
    yield "This is numpy's product, not a tensor core's.", given.A.astype(np.float32) @ given.B.astype(np.float32)


EXERCISES = [
    Exercise(
        "split_sums",
        "The bits of split-K",
        "Write `split_sums(A, B)` for f16 matrices 16 × 256 and 256 × 8. It returns A B, float32, with the bits of a "
        "kernel with four splits: each part is a contiguous quarter of K, computed by `mma.sync` m16n8k16 with sums "
        "in f32; then the parts are added in order, each addition rounded to nearest in f32.",
        Values(
            lambda given: _added(_split(given)),
            np.float32,
            _split_mistakes,
            lambda index: f"D[{index[0]}][{index[1]}]",
            how="every bit of the sum",
        ),
        minutes=15,
        only=("tcemu.matmul", "tcemu.gemm.scalar", *REGISTERS),
        know="split-K, notebook 12",
        section="9.7.14.5.14",
        hints=(
            "tcemu.matmul(A, B, instruction=...) gives the bits of one part.",
            "numpy adds two float32 arrays as add.rn.f32 does. np.sum of several may add in another order.",
        ),
        points=2,
        draw=_long,
    ),
    Exercise(
        "mma_gemm",
        "A GEMM with ldmatrix and mma.sync",
        "Write the kernel `mma_gemm(warp, a, b, d)`: D (32 × 32, f32) is A (32 × 48, f16) times B (48 × 32, f16), all "
        "row-major. One block of four warps; each computes 16 × 16. There are 8192 bytes of shared memory: copy A and "
        "B there, load with `ldmatrix`, multiply with `mma.sync` m16n8k16, and store with st.global.v2. The fewer "
        "wavefronts, the better.",
        Kernel(
            lambda given: {"a": given.A, "b": given.B, "d": np.zeros((32, 32), np.float32)},
            "d",
            lambda given: matmul(given.A, given.B, instruction=MMA),
            {"block": 128, "shared": 8192},
            _small_mistakes,
            needed=("ldmatrix", "mma.sync"),
            warps={"mma.sync": 4},
            counts=("wavefronts",),
        ),
        minutes=45,
        know="ldmatrix of notebook 05, the mma.sync pipeline of notebook 12",
        section="9.7.14.5.15",
        hints=(
            "Each of A and B is 192 units of 16 bytes: one and a half for each thread. warp.only disables the others.",
            "After the copies: cp_async_wait_all for your own, then a barrier for those of the other warps.",
            "A row of A has 96 bytes, one of B 64. Pad them to an odd number of units, and no ldmatrix has conflicts.",
        ),
        points=5,
        draw=_small,
        best={"wavefronts": 96},
    ),
    Exercise(
        "mended_stages",
        "Two wrong parities",
        "The kernel `broken_stages` (see the cell above) adds the rows of x (7 × 128, uint32), the first 32 numbers of "
        "each, and stores the sums in out. Warp 1 copies rows into two stages, warp 0 adds. It does not finish: two "
        "things are wrong with its phases. Write it as `mended_stages(warp, x, out)` without the mistakes; keep the "
        "two stages and the two warps.",
        Kernel(
            lambda given: {"x": given.x, "out": np.zeros(32, np.uint32)},
            "out",
            lambda given: given.x[:, :32].sum(axis=0, dtype=np.uint32),
            {"block": 64, "shared": 4096},
            _rows_mistakes,
            needed=("cp.async.bulk", "mbarrier"),
            partial=False,
        ),
        minutes=20,
        know="stage_and_parities of notebook 12",
        section="9.7.13.15.4",
        hints=(
            "Launch it with sanitizer='collect', and read who waits for which phase at the end.",
            "Write down stage, turn and both parities for steps 0 to 4.",
            "In turn 0 the producer must not wait for anything. In turn 1, the consumer waits for another parity.",
        ),
        points=3,
        draw=_rows,
    ),
    Exercise(
        "wgmma_gemm",
        "A Hopper GEMM fed by TMA",
        "Write the kernel `wgmma_gemm(warp, a, b, d)`: D (64 × 64, f32) is A Bᵀ, where A and B are both 64 × 320, f16, "
        "row-major, so both are K-major operands. A block has 160 threads: warps 0 to 3 multiply, warp 4 copies. There "
        "are 33,000 bytes of shared memory: two stages of 64 rows of A and of B with 64 elements each, swizzled by 128 "
        "bytes, and mbarriers behind them.",
        Kernel(
            lambda given: {"a": given.A, "b": given.B, "d": np.zeros((64, 64), np.float32)},
            "d",
            lambda given: matmul(given.A, np.ascontiguousarray(given.B.T), instruction=_WGMMA),
            {"block": 160, "shared": 33_000},
            _hopper_mistakes,
            needed=("wgmma.mma_async", "cp.async.bulk.tensor", "mbarrier"),
            counts=("instructions",),
        ),
        minutes=60,
        know="notebooks 10 and 11, and the Hopper pipeline of notebook 12",
        section="9.7.15.5.2, 9.7.9.27.1.2",
        hints=(
            "Read tcemu/gemm/wgmma_tma.py: begin, produce, multiply_stage, consume. Yours has fixed sizes.",
            "TensorMap.of(a, (64, 64), swizzle=128) is the map; Descriptor.for_tile(...) and .step(32) the operands.",
            "Five steps with two stages: the parities flip twice. Wait for each group before you release its stage.",
        ),
        points=8,
        only=("tcemu.gemm.store", "tcemu.gemm.wgmma_tma.Plan"),
        draw=_hopper,
    ),
    Exercise(
        "cluster_gemm",
        "Two blocks share A",
        "Write the kernel `cluster_gemm(warp, a, b, d)`: D (64 × 128, f32) is A Bᵀ, where A is 64 × 320 and B 128 × "
        "320, f16, row-major. Two blocks in one cluster each compute 64 columns of D, as in `wgmma_gemm`: 160 threads, "
        "33,000 bytes of shared memory, two stages. Each block copies only 32 rows of A in each step, and a multicast "
        "brings them to both.",
        Kernel(
            lambda given: {"a": given.A, "b": given.B, "d": np.zeros((64, 128), np.float32)},
            "d",
            lambda given: matmul(given.A, np.ascontiguousarray(given.B.T), instruction=_WGMMA),
            {"grid": 2, "cluster": 2, "block": 160, "shared": 33_000},
            _pair_mistakes,
            needed=("wgmma.mma_async", "cp.async.bulk.tensor", ".multicast::cluster", "barrier.cluster"),
            counts=("instructions",),
        ),
        minutes=45,
        know="wgmma_gemm, and clusters in tcemu/gemm/wgmma_cluster.py",
        section="9.7.9.27.1.2, 9.7.13.3, 9.7.13.15.13",
        hints=(
            "Start from wgmma_gemm. What does a block do that the other one must know or wait for?",
            "A stage is empty after 8 warps arrived: warp.mbarrier_arrive_shared_cluster(warp.mapa(address, rank)).",
            "The threads of both blocks meet after mbarrier.init, and once more before they exit.",
        ),
        points=6,
        only=("tcemu.gemm.store", "tcemu.gemm.wgmma_tma.Plan"),
        draw=_pair,
    ),
]
