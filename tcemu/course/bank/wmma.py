"""Exercises of notebook 03: pointers, strides, fragments and kernels of wmma."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Kernel, Values, where_map
from tcemu.course.mistakes import Map
from tcemu.course.record import Exercise, Given
from tcemu.instructions import TARGETS, parse, run
from tcemu.instructions.matmul import matmul
from tcemu.sanitizer.rules import RULES

Array = npt.NDArray[Any]

_WMMA = "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32"
_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_SUM = "wmma.load.c.sync.aligned.row.m8n32k16.s32"
#: Rows of B in tile_pointer, and its columns.
_K, _N = 48, 64


def wide_numbers(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers that use all 11 bits of f16 and have different exponents, so that sums of their products are rounded."""
    numbers: Array = (rng.integers(-2047, 2048, shape) * 2.0 ** rng.integers(-12, 0, shape)).astype(np.float16)
    return numbers


def whole_numbers(rng: np.random.Generator, *shape: int) -> Array:
    """Odd whole numbers whose products have exact sums in f32, but not in f16: the steps may go in any order."""
    return (2 * rng.integers(-32, 32, shape) + 1).astype(np.float16)


def _product(a: Array, b: Array) -> Array:
    """A B as wmma computes it: in steps of 16 along K, on matrices padded to whole tiles."""
    (m, depth), n = a.shape, b.shape[1]
    down, across, along = -m % 16, -n % 16, -depth % 16
    whole = np.pad(a, [(0, down), (0, along)]), np.pad(b, [(0, along), (0, across)])
    return matmul(*whole, instruction=_WMMA)[:m, :n]


# ---------------------------------------------------------------------------------------------- pointers and strides


def _pair(first: Any, second: Any) -> Array:
    return np.stack(np.broadcast_arrays(first, second), axis=-1)


_TILE_POINTER = Function(
    {"i": range(_K // 16), "j": range(_N // 16)},
    ("element", "stride"),
    lambda i, j: _pair(16 * j * _K + 16 * i, _K),
    (
        ("This is the pointer into a row-major B. In a column-major one, neighbours in memory are in one column.",
         lambda i, j: _pair(16 * i * _N + 16 * j, _N)),
        ("The pointer is right, but the stride is the length of a row; columns are 48 elements apart.",
         lambda i, j: _pair(16 * j * _K + 16 * i, _N)),
        ("The pointer is right, but the stride is the tile's. It is the distance from column to column in memory.",
         lambda i, j: _pair(16 * j * _K + 16 * i, 16)),
        ("You swapped i and j: i counts tiles along k, which are neighbours in a column.",
         lambda i, j: _pair(16 * i * _K + 16 * j, _K)),
        ("Tile (i, j) starts at B[16 i][16 j], not at B[i][j].", lambda i, j: _pair(j * _K + i, _K)),
        ("You count bytes. Pointers and strides of wmma count elements.",
         lambda i, j: _pair(2 * (16 * j * _K + 16 * i), 2 * _K)),
    ),
    how="every tile of the matrix",
)  # fmt: skip


def _up(number: Array, unit: Array | int) -> Array:
    return -(-number // unit) * unit


_SMALLEST_STRIDE = Function(
    {"columns": range(16, 65), "bits": (8, 16, 32)},
    ("stride",),
    lambda columns, bits: _up(columns, 128 // bits),
    (
        ("16 bytes are not 16 elements: divide by the size of an element.", lambda columns, _: _up(columns, 16)),
        ("8 elements are 16 bytes only if an element has 16 bits.", lambda columns, _: _up(columns, 8)),
        ("You rounded down, so the stride is shorter than a row.",
         lambda columns, bits: columns // (128 // bits) * (128 // bits)),
        ("You always add 16 bytes: a row that fits exactly needs no padding.",
         lambda columns, bits: (columns // (128 // bits) + 1) * (128 // bits)),
        ("This is the stride in bytes. It is counted in elements.",
         lambda columns, bits: _up(columns, 128 // bits) * bits // 8),
        ("256 bits is the alignment of the pointer; the stride needs 16 bytes.",
         lambda columns, bits: _up(columns, 256 // bits)),
    ),
    how="all widths from 16 to 64, for 8, 16 and 32 bits",
    wider={"columns": range(65, 2049)},
)  # fmt: skip


def _where_of_sum() -> Function:
    """The map of the sum on sm_80 and later; sm_75's is the mistake that breaks kernels."""
    judge = where_map(_SUM, "c", matrix="C")
    older = Map.of(parse(_SUM).on(TARGETS["sm_75"]).fragments["c"])
    says = "This is the map of sm_75. From sm_80 on the hardware computes the transposed product."
    mistakes = (
        (says, lambda row, column: older(row, column)[..., :2]),
        ("The register does not depend on column // 8, but it should.",
         lambda row, column: _pair(4 * (column % 8) + row // 2, row % 2)),
    )  # fmt: skip
    return replace(judge, mistakes=(*mistakes, *judge.mistakes))


# ---------------------------------------------------------------------------------------------- products


def _square(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"A": wide_numbers(rng, 16, 16), "B_columns": wide_numbers(rng, 16, 16)}


def _tile_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, given.B_columns.T
    yield "B is loaded as row_major: this is A times B transposed.", _product(a, b.T)
    yield "A is loaded as col_major: this is A transposed times B.", _product(a.T, b)
    yield "A and B both have the wrong layout.", _product(a.T, b.T)
    yield "The product is stored as mem_col_major, so it is transposed.", _product(a, b).T
    yield "A and B are swapped.", _product(b, a)
    yield (
        "The sums are right up to the order of the additions: this is numpy's product, not a tensor core's.",
        (a.astype(np.float32) @ b.astype(np.float32)),
    )


def _registers(rng: np.random.Generator) -> Mapping[str, Any]:
    fragments = parse(_WMMA).fragments
    matrices = {"a": wide_numbers(rng, 16, 16), "b": wide_numbers(rng, 16, 16)}
    matrices["c"] = wide_numbers(rng, 16, 16).astype(np.float32)
    return {role: fragments[role].pack(matrix) for role, matrix in matrices.items()}


def _halves_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b, c = given.a, given.b, given.c

    def halves(b_of: tuple[Any, Any], c_of: tuple[Any, Any]) -> Array:
        return np.hstack([run(_MMA, a[:, :4], b[:, one], c[:, two]) for one, two in zip(b_of, c_of, strict=True)])

    low, high, even, odd = slice(0, 2), slice(2, 4), slice(0, 4, 2), slice(1, 4, 2)
    sums = slice(0, 4), slice(4, 8)
    yield "The halves of B are swapped: b0 and b1 are columns 0 to 7.", halves((high, low), sums)
    yield "The two halves of the result are swapped.", np.roll(halves((low, high), sums), 4, axis=1)
    yield "Both products use the same half of B. (b4 to b7 repeat b0 to b3.)", halves((low, low), sums)
    yield "You took every second register of B. The two of one half are neighbours.", halves((even, odd), sums)
    nothing = np.zeros_like(given.c)
    yield (
        "C is left out: its registers are the third operand of each half.",
        np.asarray(run(_WMMA, given.a, given.b, nothing), np.uint32),
    )
    yield "C is only added to one half, or the same half of C to both.", halves((low, high), (sums[0], sums[0]))


def _columns(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"A": whole_numbers(rng, 64, 48), "B_columns": whole_numbers(rng, 64, 48)}


def _gemm_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, given.B_columns.T
    right = _product(a, b)
    steps = [_product(a[:, k : k + 16], b[k : k + 16]) for k in (0, 16, 32)]
    yield "You loaded B as row-major: neighbours in the array are in one column of B.", _product(a, _by_tiles(b))
    k, n = np.arange(48)[:, None], np.arange(64)
    elsewhere = given.B_columns.reshape(-1)[48 * (k // 16 * 16 + n % 16) + n // 16 * 16 + k % 16]
    yield (
        "`b` is an array of columns: the tile of B at row k and column n begins at b.at(n, k).",
        _product(a, elsewhere),
    )
    yield "Only the first step along K is there: pass its result as C of the next.", steps[0]
    yield "Only the last step along K is there: pass the accumulator so far as C.", steps[2]
    tiles = right.reshape(2, 2, 16, 2, 2, 16)
    yield (
        "Each block computes the tiles of a different block: ctaid x counts columns of C, y rows.",
        (right.reshape(2, 32, 2, 32).transpose(2, 1, 0, 3).reshape(64, 64)),
    )
    yield (
        "The four warps of a block write to each other's tiles: rows and columns are swapped.",
        (tiles.transpose(0, 4, 2, 3, 1, 5).reshape(64, 64)),
    )
    only = np.zeros_like(tiles)
    only[:, 0, :, :, 0] = tiles[:, 0, :, :, 0]
    yield "Each block computes only one tile: the tile must depend on warp.warpid.", only.reshape(64, 64)


def _by_tiles(b: Array) -> Array:
    """B (48, 64) with every tile of 16 by 16 transposed in its place."""
    k, n = b.shape
    return b.reshape(k // 16, 16, n // 16, 16).transpose(0, 3, 2, 1).reshape(k, n)


def _ragged(rng: np.random.Generator) -> Mapping[str, Any]:
    m, n, k = (int(16 * rng.integers(1, 3) + rng.integers(1, 16)) for _ in range(3))
    return {"A": wide_numbers(rng, m, k), "B": wide_numbers(rng, k, n)}


def _ragged_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, given.B
    (m, depth), n = a.shape, b.shape[1]
    whole = depth // 16 * 16
    yield "The last, incomplete step along K is missing.", _product(a[:, :whole], b[:whole])
    inside = np.zeros((m, n), np.float32)
    inside[: m // 16 * 16, : n // 16 * 16] = _product(a, b)[: m // 16 * 16, : n // 16 * 16]
    yield "The incomplete tiles at the right and at the bottom are missing.", inside
    yield (
        "This is numpy's product. Every bit must be as the tensor core computes it.",
        (a.astype(np.float32) @ b.astype(np.float32)),
    )
    steps = np.zeros((m, n), np.float32)
    for k in range(0, depth, 16):
        steps = steps + _product(a[:, k : k + 16], b[k : k + 16])
    yield "You added the steps with numpy, which rounds. Pass the accumulator so far as C of the next step.", steps


def _on_sm_80(a: Array, b: Array) -> Array:
    """The product as one wmma.mma of sm_80 gives it."""
    instruction = "wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32"
    a, b, zeros = np.ascontiguousarray(a), np.ascontiguousarray(b), np.zeros((16, 16), np.float32)
    return np.asarray(matmul(a, b, zeros, instruction=instruction, target="sm_80"))


EXERCISES = [
    Exercise(
        "tile_pointer",
        "Pointer and stride of a tile",
        "B has 48 rows and 64 columns and is stored column-major: B[k][n] is element 48 n + k. Write "
        "`tile_pointer(i, j)`, which returns the element that the pointer of the tile at B[16 i][16 j] points to, and "
        "the stride, both in elements.",
        _TILE_POINTER,
        minutes=5,
        only=(),
        know="pointer and stride of notebook 03",
        section="9.7.14.4.2",
        hints=(
            "Which element is B[16 i][16 j]? Put k = 16 i and n = 16 j into the formula.",
            "The distance from one column to the next is the number of elements in a column.",
        ),
    ),
    Exercise(
        "wmma_tile",
        "One tile with three functions",
        "Write `wmma_tile(A, B_columns)`: it multiplies A (16 × 16, f16, row-major) by B (16 × 16, f16), which is "
        "given column-major, so row n of the array `B_columns` is column n of B. It returns the product, 16 × 16 of "
        "float32, row-major, computed with `tcemu.wmma`.",
        Values(
            lambda given: _product(given.A, given.B_columns.T), np.float32, _tile_mistakes,
            lambda index: f"C[{index[0]}][{index[1]}]", how="every bit of the product",
        ),
        minutes=10,
        only=("tcemu.wmma",),
        know="the first cells of notebook 03",
        section="9.7.14.4.5",
        hints=(
            "Take the first Python cell that uses wmma. Only one word has to change for a column-major B.",
            "The layout is the last argument of wmma.fragment(wmma.matrix_b, ...).",
        ),
        draw=_square,
    ),
    Exercise(
        "smallest_stride",
        "The smallest stride",
        "A row-major matrix with `columns` columns and elements of `bits` bits is padded at the end of its rows, so "
        "that `load_matrix_sync` accepts its stride: a multiple of 16 bytes. Write `smallest_stride(columns, bits)`, "
        "which returns the smallest such stride in elements.",
        _SMALLEST_STRIDE,
        minutes=10,
        only=(),
        know="what has to be aligned, notebook 03",
        section="9.7.14.4.2",
        hints=(
            "How many elements are 16 bytes?",
            "Round columns up to a multiple of that number: -(-a // b) is a / b rounded up.",
        ),
    ),
    Exercise(
        "where_of_sum",
        "The map of an accumulator, found by probing",
        "The accumulator of the integer wmma m8n32k16 is 8 × 32, with eight s32 in each lane. Its map is unspecified. "
        "Find it for sm_90 with `tcemu.wmma`, in a cell of its own. Then write `where_of_sum(row, column)`, which "
        "returns the lane and the index in its `x`, as a formula: neither tcemu nor a table that it has filled.",
        _where_of_sum(),
        minutes=20,
        only=(),
        know="the section on opaque fragments of notebook 03, and the layout line of notebook 02",
        section="9.7.14.4.1",
        hints=(
            "Load a matrix whose elements are their own numbers, 32 row + column, and look at x of all lanes.",
            "Look at lane 0: do its neighbours share a row or a column?",
            "Four lanes share a column here, and g, the lane // 4, is part of the column.",
        ),
        points=2,
    ),
    Exercise(
        "wmma_by_halves",
        "wmma by two mma.sync",
        "Write `wmma_by_halves(a, b, c)`: the arguments are the registers of an f16 wmma m16n16k16 with an f32 "
        "accumulator on sm_90, 8 for each lane, as `wmma.load` returns them. It returns the 8 registers of the result, "
        "computed with two `mma.sync` m16n8k16 and `tcemu.run`.",
        Values(
            lambda given: run(_WMMA, given.a, given.b, given.c), np.uint32, _halves_mistakes,
            lambda index: f"Lane {index[0]}, register d{index[1]},", how="every register of every lane",
        ),
        minutes=20,
        only=("tcemu.run", "tcemu.parse"),
        know="mma in disguise, notebook 03",
        section="9.7.14.4.1",
        hints=(
            "Print the layouts of a and b of both instructions, and compare the order of the digits in the slot.",
            "a4 to a7 repeat a0 to a3, and b4 to b7 repeat b0 to b3.",
        ),
        points=2,
        draw=_registers,
    ),
    Exercise(
        "wmma_gemm",
        "A GEMM with column-major B",
        "Write the kernel `wmma_gemm(warp, a, b, c)`: C (64 × 64, f32, row-major) is A (64 × 48, f16, row-major) times "
        "B (48 × 64, f16), which is stored column-major, as an array `b` of 64 columns of 48. The grid has 2 × 2 "
        "blocks of 128 threads; each of the four warps of a block computes a 16 × 16 tile. Use the wmma instructions. "
        "You may also write it in CUDA C++, with `nvcuda::wmma`: "
        "`__global__ void wmma_gemm(const half* a, const half* b, float* c)`.",
        Kernel(
            lambda given: {"a": given.A, "b": given.B_columns, "c": np.zeros((64, 64), np.float32)},
            "c",
            lambda given: _product(given.A, given.B_columns.T),
            {"grid": (2, 2), "block": 128},
            _gemm_mistakes,
            needed=("wmma.mma",),
            warps={"wmma.mma": 16},
            languages=("Python", "CUDA C++"), kernel="wmma_gemm",
        ),
        minutes=35,
        know="the kernel of notebook 03",
        section="9.7.14.4.3",
        hints=(
            "Start from `article`: other numbers of warps, and another load of B.",
            "wmma.load.b and wmma.mma both name B's layout: .row.col instead of .row.row.",
            "b.at(n, k) is the address of B[k][n], because b is an array of columns. The stride is their length.",
        ),
        points=4,
        draw=_columns,
    ),
    Exercise(
        "ragged_product",
        "Ragged edges",
        "Write `ragged_product(A, B)` for f16 matrices of any size, M × K and K × N, which returns A B as float32, "
        "with the bits of wmma m16n16k16 on sm_90: steps of 16 along K from the first to the last, with zeros beyond "
        "the edges. Use `tcemu.wmma`, or a kernel of your own and `tcemu.launch`.",
        Values(
            lambda given: _product(given.A, given.B), np.float32, _ragged_mistakes,
            lambda index: f"C[{index[0]}][{index[1]}]", how="every bit of the product",
        ),
        minutes=30,
        only=("tcemu.wmma", "tcemu.launch", "tcemu.machine"),
        know="ragged edges, notebook 03",
        section="9.7.14.4.3",
        hints=(
            "np.pad adds zeros. -M % 16 is the number of rows missing up to the next multiple of 16.",
            "Three loops: over rows and columns of tiles, and along K. Cut the result to M × N at the end.",
        ),
        points=3,
        draw=_ragged,
    ),
    Exercise(
        "repair_fragments",
        "The wrong fragment",
        "One warp multiplies two 16 × 16 f16 matrices, both row-major, on sm_80: d = a b, in f32. Repair "
        "`repair_fragments`: delete the line `return ...`, check, read what the sanitizer reports, and fix the kernel "
        "until nothing is reported and d is right.",
        Kernel(
            lambda given: {"a": given.A, "b": given.B, "d": np.zeros((16, 16), np.float32)},
            "d",
            lambda given: _on_sm_80(given.A, given.B),
            {"block": 32, "target": "sm_80"},
            lambda given: [
                ("B is read column-major: the layout of its load says col.", _on_sm_80(given.A, given.B.T)),
                ("A and B are swapped.", _on_sm_80(given.B, given.A)),
            ],
            partial=False,
        ),
        minutes=6,
        know="opaque fragments, from notebook 03",
        section=RULES["wmma-mixed"].section,
        hints=(
            "Which of the three operands of wmma.mma does each load make a fragment for?",
            "The word after wmma.load says it: .a, .b or .c.",
        ),
        draw=lambda rng: {name: rng.normal(size=(16, 16)).astype(np.float16) for name in "AB"},
    ),
]  # fmt: skip
