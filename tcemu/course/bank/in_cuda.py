"""Exercises that are answered in CUDA C++ alone, of several notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import sparse
from tcemu.course.in_cuda import halves, in_cuda_alone, product, unswizzled
from tcemu.course.judges.overlap import FullWaits
from tcemu.course.record import Given
from tcemu.formats import lookup
from tcemu.instructions import parse
from tcemu.layouts import Descriptor

Array = npt.NDArray[Any]
_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#: The bits of a descriptor's swizzle field, by the bytes of the swizzle.
_SWIZZLES = (0, 32, 64, 128)


# ---------------------------------------------------------------------------------------------- moving, converting


def _b_of(given: Given) -> Array:
    return np.asarray(parse(_MMA).fragments["b"].pack(given.b))


def _b_untransposed(given: Given) -> Iterator[tuple[str, Array]]:
    whole = given.b.reshape(2, 8, 4, 2)
    yield (
        "The 8 x 8 matrices are not transposed: the load has no .trans, and B is row-major.",
        np.ascontiguousarray(whole.reshape(2, 32, 2).transpose(1, 0, 2)).view(np.uint32)[..., 0],
    )


def _totals(given: Given) -> Array:
    return np.asarray(given.x.sum(axis=0, dtype=np.int32))


def _some_rows(given: Given) -> Iterator[tuple[str, Array]]:
    yield "The last row is missing.", given.x[:-1].sum(axis=0, dtype=np.int32)
    yield "The first row is missing.", given.x[1:].sum(axis=0, dtype=np.int32)


def _packed(given: Given, low: int = 0, form: str = "e4m3") -> Array:
    codes = lookup(form).encode(given.x, satfinite=True).astype(np.uint16).reshape(-1, 2)
    return np.asarray(codes[:, low] | codes[:, 1 - low] << 8, np.uint16)


def _swapped_bytes(given: Given) -> Iterator[tuple[str, Array]]:
    yield "The bytes of each pair are swapped: cvt puts its first source into the upper half.", _packed(given, 1)
    yield "These are patterns of e5m2, the other fp8 format.", _packed(given, form="e5m2")


def _nibbles(given: Given) -> Array:
    return np.asarray(given.packed[:, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15)


def _weights(given: Given) -> Array:
    codes = _nibbles(given).astype(np.int64)
    return np.asarray(np.where(codes > 7, codes - 16, codes).astype(np.float16))


def _wrong_weights(given: Given) -> Iterator[tuple[str, Array]]:
    codes = _nibbles(given).astype(np.int64)
    yield "The weights are read as unsigned: 15 is -1.", codes.astype(np.float16)
    yield "The weights are read with an offset of 8; these are in two's complement.", (codes - 8).astype(np.float16)
    yield "All weights are 8 too large: the XOR added 8, so subtract 1032.", _weights(given) + np.float16(8)
    yield "The order of the eight weights is reversed: the first is in the lowest bits.", _weights(given)[:, ::-1]


def _signs(given: Given) -> Array:
    differ = np.bitwise_count(given.a ^ given.b).sum(axis=1).astype(np.int32)
    return np.asarray(32 * given.a.shape[1] - 2 * differ, np.int32)


def _wrong_signs(given: Given) -> Iterator[tuple[str, Array]]:
    k, right = 32 * given.a.shape[1], _signs(given)
    both, either, last = (
        k - 2 * np.bitwise_count(words).sum(axis=1).astype(np.int32)
        for words in (given.a & given.b, given.a | given.b, (given.a ^ given.b)[:, -1:])
    )
    yield "You used & where ^ belongs: & finds the places where both are +1, ^ those where the signs differ.", both
    yield "That is the number of signs that differ.", (k - right) // 2
    yield "That is the number of signs that agree.", (k + right) // 2
    yield "Every product has the wrong sign: signs that agree give +1, signs that differ −1.", -right
    yield "That is half of it: each bit that differs takes away the +1 of its product and adds a −1.", right // 2
    yield "You used | where ^ belongs: ^ finds the places where the signs differ.", either
    yield "Of each row, only the last word counts.", last


def _metadata(given: Given) -> Array:
    pairs = np.flatnonzero(given.row).reshape(8, 2) % 4
    codes = (pairs[:, 0] | pairs[:, 1] << 2).astype(np.uint32)
    return np.asarray([np.bitwise_or.reduce(codes << np.arange(0, 32, 4, dtype=np.uint32))], np.uint32)


def _swapped_indices(given: Given) -> Iterator[tuple[str, Array]]:
    right = _metadata(given)
    yield "The two indices of each chunk are swapped.", (right & 0x33333333) << 2 | right >> 2 & 0x33333333
    backwards = sum((right >> 4 * chunk & 15) << 28 - 4 * chunk for chunk in range(8))
    yield "Chunk 0 is in the lowest four bits; you put it in the highest.", np.asarray(backwards, np.uint32)


def _pruned(rng: np.random.Generator) -> Mapping[str, Any]:
    row = sparse.prune((rng.integers(1, 50, 32) * rng.choice((-1, 1), 32)).astype(np.float16), "2:4")
    return {"row": row}


# ---------------------------------------------------------------------------------------------- descriptors


def _tiles(rng: np.random.Generator) -> Mapping[str, Any]:
    return {
        "start": (16 * rng.integers(0, 1 << 14, 32)).astype(np.uint32),
        "lbo": (16 * rng.integers(1, 1 << 10, 32)).astype(np.uint32),
        "sbo": (16 * rng.integers(1, 1 << 10, 32)).astype(np.uint32),
        "swizzle": rng.choice(_SWIZZLES, 32).astype(np.uint32),
    }


def _descriptors(given: Given) -> Array:
    rows = zip(given.start, given.lbo, given.sbo, given.swizzle, strict=True)
    return np.array([int(Descriptor(*map(int, each))) for each in rows], np.uint64)


def _wrong_descriptors(given: Given) -> Iterator[tuple[str, Array]]:
    fields = [given[name].astype(np.uint64) for name in ("start", "lbo", "sbo")]
    code = _descriptors(given) >> np.uint64(62) << np.uint64(62)
    start, lbo, sbo = (each >> np.uint64(4) for each in fields)
    whole = fields[0] | fields[1] << np.uint64(16) | fields[2] << np.uint64(32) | code
    yield "The fields hold bytes; they should hold bytes >> 4.", whole
    yield "LBO and SBO are swapped.", start | sbo << np.uint64(16) | lbo << np.uint64(32) | code
    yield "The swizzle field counts up: its codes are 1 for 128 bytes, 2 for 64, 3 for 32.", (
        start | lbo << np.uint64(16) | sbo << np.uint64(32)
        | np.searchsorted(_SWIZZLES, given.swizzle).astype(np.uint64) << np.uint64(62)
    )  # fmt: skip


def _swizzled(given: Given) -> Array:
    return np.asarray(given.offset ^ (given.offset >> 7 & 7) << 4, np.uint32)


def _wrong_swizzles(given: Given) -> Iterator[tuple[str, Array]]:
    yield "The number of the line is XORed into bits 6 to 4: shift it left by 4.", given.offset ^ given.offset >> 7 & 7
    yield "That is the swizzle of 64 bytes.", given.offset ^ (given.offset >> 7 & 3) << 4
    yield "The bits of the line are not masked: only three of them take part.", given.offset ^ given.offset >> 7 << 4


# ---------------------------------------------------------------------------------------------- products


def _a_and_b(rng: np.random.Generator) -> Mapping[str, Any]:
    """A (16, 16), row-major, and B (16, 8), column-major: as its transpose."""
    return {"a": halves(rng, 16, 16), "b": halves(rng, 8, 16)}


def _wrong_products(given: Given) -> Iterator[tuple[str, Array]]:
    a, b = given.a.astype(np.float32), given.b.astype(np.float32)
    yield "Only columns 0 to 7 of A are in D: registers a2 and a3, or b1, are zero.", a[:, :8] @ b[:, :8].T
    swapped = np.block([[a[:8, :8], a[8:, :8]], [a[:8, 8:], a[8:, 8:]]])
    crossed = a[:, :8] @ b[:, 8:].T + a[:, 8:] @ b[:, :8].T
    yield "b0 and b1 are swapped, or the left half of A with the right one: b1 is 8 rows further down.", crossed
    yield "a1 and a2 are swapped: a1 is eight rows further down, a2 eight columns to the right.", swapped @ b.T


def _tall(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"a": halves(rng, 64, 64), "b": halves(rng, 8, 64)}


def _parts(given: Given) -> Iterator[tuple[str, Array]]:
    a, b = given.a.astype(np.float32), given.b.astype(np.float32)
    yield "Only the last 16 columns along K are in D: scale_d is 0 for every instruction.", a[:, 48:] @ b[:, 48:].T
    yield "Only the first 16 columns along K are in D.", a[:, :16] @ b[:, :16].T
    yield (
        "The tiles are stored without the swizzle that the descriptors name: unit u of row r belongs at u ^ r % 8.",
        unswizzled(a) @ unswizzled(b).T,
    )


def _maxima(given: Given) -> Array:
    whole = parse(_MMA).fragments["d"].unpack(given.c.view(np.uint32))
    return np.asarray(np.asarray(whole, np.float32).max(axis=1))


def _wrong_maxima(given: Given) -> Iterator[tuple[str, Array]]:
    d = np.asarray(parse(_MMA).fragments["d"].unpack(given.c.view(np.uint32)), np.float32)
    yield "Only two columns of each row take part: lane 4 g alone.", d[:, :2].max(axis=1)
    yield "Only half of the columns of each row take part: one shuffle is missing.", d[:, :4].max(axis=1)
    even, odd = (np.maximum(d[:8, first::2].max(axis=1), d[8:, first::2].max(axis=1)) for first in range(2))
    yield (
        "You paired registers 0 and 2, and 1 and 3. 0 and 1 are neighbours in a row, 2 and 3 are 8 rows further down.",
        np.concatenate([even, odd]),
    )
    yield "Rows g and g + 8 are mixed.", np.tile(np.maximum(d[:8].max(axis=1), d[8:].max(axis=1)), 2)
    pairs = d[:, :2].max(axis=1).reshape(2, 2, 2, 2)  # row g + 8 h at [h], and the three bits of g
    for distances, mixed in {"4 and 8": (2, 3), "8 and 16": (1, 2), "4, 8 and 16": (1, 2, 3)}.items():
        yield (
            f"With distances {distances} you compare lanes of different rows. The four lanes of a row are neighbours.",
            np.broadcast_to(pairs.max(axis=mixed, keepdims=True), pairs.shape).ravel(),
        )
    yield (
        "You compared all 32 lanes, which hold eight rows. Only the four lanes of a row belong together.",
        np.repeat(d.reshape(2, 64).max(axis=1), 8),
    )


EXERCISES = [
    in_cuda_alone(
        "ldmatrix_of_b",
        "ldmatrix for a row-major B",
        "`b` is row-major, 16 × 8. Copy it to shared memory and load its fragment for m16n8k16 with one "
        "`ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16`, in inline PTX; lane i stores its two registers to "
        "`out[2 * i]` and `out[2 * i + 1]`.",
        "__global__ void ldmatrix_of_b(const half* b, unsigned* out)",
        {"out": ((32, 2), np.uint32)},
        _b_of,
        lambda rng: {"b": halves(rng, 16, 8)},
        "Lanes 0 to 15 give the addresses of rows 0 to 15. What do the other lanes give?",
        "The address is 32 bits: __cvta_generic_to_shared. And a lane reads what others have stored.",
        mistakes=_b_untransposed,
        know="ldmatrix, from notebook 05",
        needed=("ldmatrix",),
        section="9.7.14.5.15",
    ),
    in_cuda_alone(
        "sum_in_two_stages",
        "cp.async in two stages",
        "Add the 8 rows of `x`, 32 ints each, so that the copy of the next row is under way while a row is added. "
        "There are two stages of shared memory; lane i copies and adds column i, with `__pipeline_memcpy_async` or "
        "`cp.async`. A wait that leaves no copy pending is a full wait: there may be two of them at most.",
        "__global__ void sum_in_two_stages(const int* x, int* total)",
        {"total": ((32,), np.int32)},
        _totals,
        lambda rng: {"x": rng.integers(-99, 100, (8, 32)).astype(np.int32)},
        "Commit once in each step, also when there is nothing left to copy.",
        "With one group for the next row, __pipeline_wait_prior(1) leaves that one pending.",
        mistakes=_some_rows,
        know="cp.async, from notebook 05",
        needed=("cp.async",),
        observers=lambda: (FullWaits(),),
        scores=lambda _, watching: {"full waits": watching[0].full},
        limits={"full waits": 2},
        section="9.7.9.25.3",
        minutes=20,
    ),
    in_cuda_alone(
        "weights_of_s4",
        "Eight weights in a word",
        "Each of 32 words has eight s4 in two's complement, the first in the lowest bits. Thread i converts word i to "
        "eight f16, `weights[8 * i]` to `weights[8 * i + 7]`. Try it without a conversion from integer to float.",
        "__global__ void weights_of_s4(const unsigned* packed, half* weights)",
        {"weights": ((32, 8), np.float16)},
        _weights,
        lambda rng: {"packed": rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32)},
        "XOR with 8 turns two's complement into a number with 8 added.",
        "0x6400 | n is 1024 + n in f16, for n from 0 to 15.",
        mistakes=_wrong_weights,
        know="4-bit weights, from notebook 07",
        section="9.7.8.6",
    ),
    in_cuda_alone(
        "dot_of_signs",
        "The dot product of signs",
        "Bits are signs: 1 is +1, 0 is −1. Thread i computes the dot product of row i of `a` and row i of `b`, four "
        "words each.",
        "__global__ void dot_of_signs(const unsigned* a, const unsigned* b, int* dots)",
        {"dots": ((32,), np.int32)},
        _signs,
        lambda rng: {name: rng.integers(0, 1 << 32, (32, 4), dtype=np.uint64).astype(np.uint32) for name in ("a", "b")},
        "Which operation has a 1 where two signs differ?",
        "k signs, of which n differ: k - n agree.",
        mistakes=_wrong_signs,
        know="single bits, from notebook 07",
        minutes=10,
        section="9.7.14.5.14",
    ),
    in_cuda_alone(
        "metadata_of_row",
        "The metadata of a sparse row",
        "`row` has 32 f16, two of them other than zero in each chunk of four. Thread 0 packs its metadata into one "
        "word: chunk c in bits 4 c to 4 c + 3, the index of the first element in the low two.",
        "__global__ void metadata_of_row(const half* row, unsigned* metadata)",
        {"metadata": ((1,), np.uint32)},
        _metadata,
        _pruned,
        "Eight chunks of four bits are one word.",
        "Collect the indices of the elements that are not zero.",
        mistakes=_swapped_indices,
        know="metadata, from notebook 08",
        section="9.7.14.6.1",
    ),
    in_cuda_alone(
        "pairs_of_e4m3",
        "Two floats into two bytes",
        "Convert 64 floats to e4m3, rounded to nearest and saturated: thread i makes `pairs[i]` of `x[2 * i]` (the low "
        "byte) and `x[2 * i + 1]`, with one `cvt.rn.satfinite.e4m3x2.f32`.",
        "__global__ void pairs_of_e4m3(const float* x, unsigned short* pairs)",
        {"pairs": ((32,), np.uint16)},
        _packed,
        lambda rng: {"x": (rng.normal(size=64) * 2.0 ** rng.integers(-8, 10, 64)).astype(np.float32)},
        'The result is a 16-bit register: constraint "h".',
        "Which of its two sources does cvt put into the upper half?",
        mistakes=_swapped_bytes,
        know="e4m3 and saturation, from notebook 01",
        minutes=10,
        section="9.7.9.21",
    ),
    in_cuda_alone(
        "descriptors_of_tiles",
        "A matrix descriptor in C++",
        "Thread i makes the matrix descriptor of `wgmma` for tile i: start address, LBO and SBO are in bytes; the "
        "swizzle is 0, 32, 64 or 128 bytes. The base offset is 0.",
        "__global__ void descriptors_of_tiles(const unsigned* start, const unsigned* lbo, const unsigned* sbo, "
        "const unsigned* swizzle, unsigned long long* out)",
        {"out": ((32,), np.uint64)},
        _descriptors,
        _tiles,
        "Three fields are stored without their low four bits; shifts beyond 31 need 64 bits.",
        "The codes of the swizzle: 128 bytes is 1, 64 is 2, 32 is 3.",
        mistakes=_wrong_descriptors,
        know="matrix descriptors, from notebook 10",
        section="9.7.15.5.1.2.2",
    ),
    in_cuda_alone(
        "swizzle_of_128",
        "The swizzle in C++",
        "Thread i computes where the byte at `offset[i]` of a tile lies with the 128-byte swizzle.",
        "__global__ void swizzle_of_128(const unsigned* offset, unsigned* place)",
        {"place": ((32,), np.uint32)},
        _swizzled,
        lambda rng: {"offset": rng.integers(0, 1 << 16, 32).astype(np.uint32)},
        "Bits 6:4 are XORed with others.",
        "Bits 9:7, and no more.",
        mistakes=_wrong_swizzles,
        know="swizzles, from notebook 10",
        minutes=10,
        section="9.7.15.5.1.2",
    ),
    in_cuda_alone(
        "mma_in_ptx",
        "mma.sync from memory",
        "D = A B for A of 16 × 16, row-major, and B of 16 × 8, column-major (`b` has 8 rows of 16), both f16: load the "
        "registers of each lane from global memory, and multiply with one `mma.sync.m16n8k16` in inline PTX. D is "
        "row-major, in f32.",
        "__global__ void mma_in_ptx(const half* a, const half* b, float* d)",
        {"d": ((16, 8), np.float32)},
        product,
        _a_and_b,
        "Lane 4 g + t: a0 is row g, columns 2 t and 2 t + 1; a1 is 8 rows further down, a2 8 columns to the right.",
        "b0 is column g of B, rows 2 t and 2 t + 1. One 32-bit load has both halves of a register.",
        mistakes=_wrong_products,
        know="the fragments of m16n8k16, from notebook 02",
        needed=("mma.sync",),
        minutes=25,
        section="9.7.14.5.8, 9.7.14.5.14",
    ),
    in_cuda_alone(
        "wgmma_in_ptx",
        "wgmma in order",
        "D = A Bᵀ for A of 64 × 64 and B of 8 × 64, both f16 and row-major. Store both tiles to shared memory with the "
        "128-byte swizzle, and multiply with four `wgmma.mma_async` m64n8k16 in inline PTX: fences, commit and wait "
        "are up to you. D is row-major, in f32.",
        "__global__ void wgmma_in_ptx(const half* a, const half* b, float* d)",
        {"d": ((64, 8), np.float32)},
        product,
        _tall,
        "Who stores with ordinary instructions executes fence.proxy.async, and then comes the barrier.",
        "wgmma.fence, four mma_async (the first with scale_d = 0), commit_group, wait_group 0.",
        mistakes=_parts,
        know="the order of wgmma, from notebook 11",
        block=128,
        needed=("wgmma.mma_async",),
        minutes=40,
        section="9.7.15.5.2, 9.7.15.7.1, 9.7.15.7.2, 9.7.15.7.3",
    ),
    in_cuda_alone(
        "row_maxima",
        "The maximum of a row, by shuffles",
        "`c` has the accumulator of a warp: lane i holds `c[4 * i]` to `c[4 * i + 3]`, as D of m16n8k16. Store the "
        "maximum of each of the 16 rows to `maxima`, with shuffles and without shared memory.",
        "__global__ void row_maxima(const float* c, float* maxima)",
        {"maxima": ((16,), np.float32)},
        _maxima,
        lambda rng: {"c": rng.normal(size=(32, 4)).astype(np.float32)},
        "A lane has two rows: c0 and c1 are of row g, c2 and c3 of row g + 8.",
        "Four lanes share a row: __shfl_xor_sync with distances 1 and 2.",
        mistakes=_wrong_maxima,
        know="the accumulator's map and shuffles, from notebook 13",
        needed=("shfl",),
        section="9.7.9.6",
    ),
]
