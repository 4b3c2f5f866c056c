"""Exercises of notebook 17, and one of 16 in CUDA C++: a GEMM with tcgen05, its pairs, its scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.in_cuda import halves, in_cuda_alone, product, unswizzled
from tcemu.course.judges import Function
from tcemu.course.record import Exercise, Given
from tcemu.instructions import parse

Array = npt.NDArray[Any]
_FRAGMENT = parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32").fragments["d"]


def _power(needed: Array) -> Array:
    power: Array = 1 << np.ceil(np.log2(np.maximum(needed, 32))).astype(np.int64)
    return power


def _fragment(given: Given) -> Array:
    return np.asarray(_FRAGMENT.pack(given.x[:16].view(np.float32)))


def _wrong_fragments(given: Given) -> Iterator[tuple[str, Array]]:
    yield "That is each thread's own row: .32x32b again.", given.x[:, :4]
    yield (
        "That is rows 16 to 31: the second half of the lanes.",
        np.asarray(_FRAGMENT.pack(given.x[16:].view(np.float32))),
    )


def _words(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)


def _wrong_scales(given: Given) -> Iterator[tuple[str, Array]]:
    thread = np.arange(128)
    yield "Every warp has the scales of rows 0 to 31: column 0.", given.scales[thread % 32]
    yield (
        "The scales lie row after row in shared memory; there, rows r, r + 32, r + 64 and r + 96 are neighbours.",
        given.scales[4 * (thread % 32) + thread // 32],
    )


def _matrices(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"a": halves(rng, 128, 64), "b": halves(rng, 32, 64)}


def _parts(given: Given) -> Iterator[tuple[str, Array]]:
    a, b = given.a.astype(np.float32), given.b.astype(np.float32)
    yield "Only the last 16 columns along K are in D: enable-input-d is 0 for every product.", a[:, 48:] @ b[:, 48:].T
    yield "Only the first 16 columns along K are in D.", a[:, :16] @ b[:, :16].T
    yield "All four products are of the first 16 columns along K: the descriptors stay.", 4 * a[:, :16] @ b[:, :16].T
    yield (
        "The tiles are stored without the swizzle that the descriptors name.",
        unswizzled(a) @ unswizzled(b).T,
    )
    yield "Every warp stores the rows of warp 0.", np.tile((a @ b.T)[:32], (4, 1))


EXERCISES = [
    Exercise(
        "parity_of_stored",
        "Which phase of an accumulator",
        "`accumulators` tiles of sums take turns, and an mbarrier for each, `stored`, completes a phase when the sums "
        "of a tile have been loaded. Write `parity_of_stored(tile, accumulators)`, which returns the parity that the "
        "thread that multiplies waits for before the first product of its tile number `tile` (0, 1, ...). The first "
        "tile in an accumulator has nobody to wait for, so its wait must return at once.",
        Function(
            {"tile": range(12), "accumulators": (1, 2, 3)},
            ("parity",),
            lambda tile, accumulators: (tile // accumulators + 1) % 2,
            (
                (
                    "Then the first tile waits for a phase that nobody completes: the kernel hangs.",
                    lambda tile, accumulators: tile // accumulators % 2,
                ),
                (
                    "An mbarrier's phase ends once for each use of its accumulator, not once for each tile.",
                    lambda tile, accumulators: (tile + 1 + 0 * accumulators) % 2,
                ),
                (
                    "tile % accumulators says which accumulator it is. How often was it used before?",
                    lambda tile, accumulators: (tile % accumulators + 1) % 2,
                ),
                (
                    "You return the turn plus 1. A parity is that mod 2.",
                    lambda tile, accumulators: tile // accumulators + 1,
                ),
            ),
        ),
        minutes=8,
        only=(),
        know="phases of an mbarrier, from notebook 11",
        section="9.7.13.15",
        hints=(
            "How often has this accumulator been used before?",
            "A wait for parity 1 of a new mbarrier returns at once.",
        ),
    ),
    Exercise(
        "bytes_of_a_pair",
        "What the leader expects",
        "A pair of blocks multiplies a tile of 256 × `columns`; a stage has 128 bytes along K. Both blocks' copies "
        "complete on the leader's mbarrier. Write `bytes_of_a_pair(columns)`: the bytes that the leader passes to "
        "`mbarrier.arrive.expect_tx` for a stage.",
        Function(
            {"columns": range(32, 257, 32)},
            ("number of bytes",),
            lambda columns: 128 * (256 + columns),
            (
                ("That is what one of the blocks copies.", lambda columns: 128 * (128 + columns // 2)),
                (
                    "Each block copies half of B: the tensor cores read both halves.",
                    lambda columns: 128 * (256 + 2 * columns),
                ),
                ("That is a block alone: it has 128 rows, and all of B.", lambda columns: 128 * (128 + columns)),
                ("You counted lines of 128 bytes.", lambda columns: 256 + columns),
                (
                    "You counted 128 elements of f16 in a row; a row of a stage has 128 bytes.",
                    lambda columns: 2 * 128 * (256 + columns),
                ),
            ),
        ),
        minutes=5,
        only=(),
        know="TMA and expect_tx, from notebook 11",
        section="9.7.13.15, 9.7.16.2.1",
        hints=("Which rows of A, and which of B, does each block copy?", "A row of a stage has 128 bytes."),
    ),
    Exercise(
        "columns_with_scales",
        "Columns for scales",
        "An NVFP4 kernel keeps `accumulators` tiles of 128 × `n` sums in Tensor Memory, and the scales of one product, "
        "K = 64: four for each of A's 128 rows and of B's `n` columns. Write `columns_with_scales(n, accumulators)`: "
        "how many columns does it allocate?",
        Function(
            {"n": range(8, 249, 8), "accumulators": (1, 2)},
            ("number of columns",),
            lambda n, accumulators: _power(n * accumulators + 4 + (n + 31) // 32),
            (
                ("The scales need columns, too.", lambda n, accumulators: _power(n * accumulators)),
                ("That is without the scales of B.", lambda n, accumulators: _power(n * accumulators + 4)),
                (
                    "tcgen05.alloc takes a power of two.",
                    lambda n, accumulators: np.maximum(32, n * accumulators + 4 + (n + 31) // 32),
                ),
                ("tcgen05.alloc takes a power of two.", lambda n, accumulators: n * accumulators + 4 + (n + 31) // 32),
                (
                    "A column holds four scales of 32 rows, not of 128: they are repeated in all four quarters.",
                    lambda n, accumulators: _power(n * accumulators + 1 + (n + 127) // 128),
                ),
                (
                    "The four scales of a row are the four bytes of one cell.",
                    lambda n, accumulators: _power(n * accumulators + 16 + (n + 7) // 8),
                ),
            ),
        ),
        minutes=8,
        only=(),
        know="NVFP4, from notebook 09; Tensor Memory, from notebook 16",
        section="9.7.16.1.2, 9.7.16.10.7",
        hints=(
            "Row r has its scales in lane r % 32. In which column?",
            "tcgen05.alloc takes powers of two, from 32.",
        ),
    ),
    in_cuda_alone(
        "rows_to_fragment",
        "Rows become a fragment",
        "`x` has 32 rows of 8 words. Thread i stores row i to lane i of Tensor Memory, with one `tcgen05.st` "
        "`.32x32b.x8`. Then the warp loads lanes 0 to 15 with one `tcgen05.ld` `.16x256b.x1`: thread i gets four "
        "registers, those of the accumulator of `mma.sync` m16n8, and writes them to `out[4 * i]` to "
        "`out[4 * i + 3]`. Allocate 32 columns, and free them.",
        "__global__ void rows_to_fragment(const unsigned* x, unsigned* out)",
        {"out": ((32, 4), np.uint32)},
        _fragment,
        lambda rng: {"x": _words(rng, 32, 8)},
        "tcgen05.alloc writes the address to shared memory: read it when all threads can see it.",
        "A store is followed by tcgen05.wait::st, a load by tcgen05.wait::ld; both are .sync.aligned.",
        mistakes=_wrong_fragments,
        needed=("tcgen05.st", "tcgen05.ld"),
        know="tcgen05.st and tcgen05.ld, from notebook 16",
        minutes=20,
        section="9.7.16.7.1, 9.7.16.8",
    ),
    in_cuda_alone(
        "scales_by_cp",
        "Scales to Tensor Memory",
        "`scales` has a word for each of 128 rows: the four scales of a product. Put them into shared memory in the "
        "order that `tcgen05.cp.cta_group::1.32x128b.warpx4` expects, word `4 * (row % 32) + row / 32`, and let one "
        "thread copy these 512 bytes to Tensor Memory and commit. Then thread i loads the word of row i, from its own "
        "warp's quarter, and writes it to `out[i]`. The descriptor has no swizzle, SBO 128 bytes, and 1 in bits "
        "48 to 46.",
        "__global__ void scales_by_cp(const unsigned* scales, unsigned* out)",
        {"out": ((128,), np.uint32)},
        lambda given: np.asarray(given.scales),
        lambda rng: {"scales": _words(rng, 128)},
        "The copy reads shared memory through the async proxy: fence.proxy.async, and then the barrier.",
        "Lane r % 32 of each quarter has the word of row r in column r / 32; bits 31 to 16 of an address are the lane.",
        mistakes=_wrong_scales,
        needed=("tcgen05.cp", "tcgen05.commit"),
        block=128,
        know="scales in Tensor Memory, from notebook 17",
        minutes=35,
        section="9.7.16.9.2, 9.7.16.12.1",
    ),
    in_cuda_alone(
        "tcgen05_in_ptx",
        "A product with tcgen05",
        "D = A Bᵀ for A of 128 × 64 and B of 32 × 64, both f16 and row-major; D is f32 and row-major. Store both "
        "tiles to shared memory with the 128-byte swizzle, allocate 32 columns, and let one thread issue four "
        "`tcgen05.mma` of `kind::f16` and commit; each warp then loads its 32 rows. Fences and waits are up to you. "
        "The instruction descriptor is `0x08080010`.",
        "__global__ void tcgen05_in_ptx(const half* a, const half* b, float* d)",
        {"d": ((128, 32), np.float32)},
        product,
        _matrices,
        "Tiles begin at multiples of 1024. Descriptors have SBO 1024 bytes, 1 in bits 48 to 46, and 2 in 63 to 61.",
        "Store, fence.proxy.async, barrier; mma four times (the first with enable-input-d 0), commit; everybody waits "
        "for the mbarrier, tcgen05.fence::after_thread_sync, and loads.",
        mistakes=_parts,
        block=128,
        needed=("tcgen05.mma", "tcgen05.commit"),
        know="the first kernel of notebook 17",
        minutes=45,
        section="9.7.16.4, 9.7.16.6, 9.7.16.10, 9.7.16.12.1",
    ),
]
