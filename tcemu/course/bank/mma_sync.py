"""Exercises of notebook 04: the fragments of mma.sync, and kernels that feed them by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Kernel, Values, registers_of, where_map
from tcemu.course.judges.slips import beyond, slips
from tcemu.course.record import Exercise, Given
from tcemu.instructions import parse, run
from tcemu.instructions.matmul import matmul
from tcemu.machine.launch import Launch

Array = npt.NDArray[Any]
Wrong = Iterable[tuple[str, npt.ArrayLike]]
_MMA = parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
_INT8 = parse("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")


def _normal(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers that f16 holds exactly: sums of different orders then mostly differ in f32, products do not overflow."""
    return (rng.integers(-2048, 2049, shape) / 512).astype(np.float16)


# ---------------------------------------------------------------------------------------------- B


def _where_of_int8_b() -> Function:
    """The map of B, with the mistakes of those who know another layout."""

    def places(lane: Array, register: Array, byte: Array) -> Array:
        return np.stack(np.broadcast_arrays(lane, register, byte), -1)

    judge = where_map(str(_INT8), "b", element=True)
    known: tuple[tuple[str, Callable[..., Array]], ...] = (
        (
            "This is the map of B with f16 elements: a register has four 8-bit elements, not two.",
            lambda row, column: places(4 * column + row % 8 // 2, row // 8, row % 2),
        ),
        (
            "You gave each lane eight consecutive rows. It has four of them, and four more 16 rows further down.",
            lambda row, column: places(4 * column + row // 8, row % 8 // 4, row % 4),
        ),
        (
            "This is A's rule: in A lane // 4 is the row, in B it is the column.",
            lambda row, column: places(4 * (row % 8) + column // 4, row // 8, column % 4),
        ),
    )
    return replace(judge, mistakes=(*known, *judge.mistakes))


_COLUMNS_OF_B = np.arange(32)[:, None] // 4
_ROWS_OF_B = 2 * (np.arange(32)[:, None] % 4) + np.array([0, 8])


def _fill_b() -> Values:
    judge = registers_of(str(_MMA), "b", lambda given: given.B)

    def mistakes(given: Given) -> Wrong:
        right = _MMA.fragments["b"].pack(given.B)
        yield "b0 and b1 are swapped: b1 is 8 rows further down.", right[:, ::-1]
        whole = given.B.astype(np.int64).astype(np.uint32)  # a minus sign then covers the other half, too
        low, high = (whole[_ROWS_OF_B + half, _COLUMNS_OF_B] for half in range(2))
        yield "You stored whole numbers: a register holds bits, so use .view, not astype.", low | high << 16
        words = given.B.view(np.uint32)  # two neighbours in a row
        yield (
            "You took neighbours in a row of B. A register of B holds neighbours in a column, k and k + 1.",
            (words[np.arange(16).reshape(2, 8), :][:, np.arange(32) // 4, np.arange(32) % 4].T),
        )
        yield from judge.mistakes(given)

    return replace(judge, mistakes=mistakes)


# ---------------------------------------------------------------------------------------------- D as A


def _accumulators(rng: np.random.Generator) -> Mapping[str, Any]:
    left, right = (_normal(rng, 32, 4).astype(np.float32) + np.float32(2**-14) for _ in range(2))
    return {"left": left, "right": right}


def _d_as_a(given: Given) -> Array:
    d, a = _MMA.fragments["d"], _MMA.fragments["a"]
    tiles = [d.unpack(each.view(np.uint32)) for each in (given.left, given.right)]
    return a.pack(np.hstack(tiles).astype(np.float16))


def _d_as_a_mistakes(given: Given) -> Wrong:
    right = _d_as_a(given)
    both = np.hstack([given.left, given.right])
    bits = both.view(np.uint32)
    halves = right >> 16 | right << 16
    yield "a1 and a2 are swapped: a1 is 8 rows down, and a2 is 8 columns to the right.", right[:, [0, 2, 1, 3]]
    yield "The two halves of each register are swapped: the lower column is in the low half.", halves
    yield "The tiles are swapped: left is columns 0 to 7 of the next A.", right[:, [2, 3, 0, 1]]
    yield (
        "You kept the upper half of each f32. That is a bf16, not an f16: convert, then pack.",
        (bits[:, ::2] >> 16 | bits[:, 1::2] & 0xFFFF0000),
    )
    low = both.astype(np.float16).view(np.uint16).astype(np.uint32)
    cut = low - (np.abs(both.astype(np.float16).astype(np.float32)) > np.abs(both))
    yield "The numbers are truncated; round to the nearest.", (cut[:, ::2] | cut[:, 1::2] << 16).astype(np.uint32)
    yield (
        "You paired the same element of both tiles. The halves of a register are neighbours in a row: d0 and d1.",
        (low[:, :4] | low[:, 4:] << 16),
    )
    yield (
        "You packed elements from different rows: d0 and d1 are neighbours in a row, and so are d2 and d3.",
        (low[:, [0, 1, 4, 5]] | low[:, [2, 3, 6, 7]] << 16),
    )


def _register(index: tuple[int, ...]) -> str:
    lane, register = index
    (row, first), (_, second) = (_MMA.fragments["a"].position(lane, register, each) for each in range(2))
    return f"Lane {lane}, register a{register}, which holds A[{row}][{first}] and A[{row}][{second}],"


# ---------------------------------------------------------------------------------------------- kernels


def _bytes(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


def _operands(m: int, n: int, k: int) -> Callable[[np.random.Generator], Mapping[str, Any]]:
    return lambda rng: {"A": _normal(rng, m, k), "B": _normal(rng, k, n)}


#: What D holds before: no sum of an exercise gives it.
_UNTOUCHED = -1_000_000_000


def _kernel_arguments(given: Given) -> Mapping[str, Any]:
    """B lies in memory by columns, and d is filled with what no sum gives."""
    shape, kind = (given.A.shape[0], given.B.shape[1]), np.int32 if given.A.dtype == np.int8 else np.float32
    return {"a": given.A, "b": np.ascontiguousarray(given.B.T), "d": np.full(shape, _UNTOUCHED, kind)}


def _product(given: Given) -> Array:
    return matmul(given.A, given.B, instruction=_INT8)


def _chained(given: Given, exchanged: Mapping[str, Sequence[int]], steps: Sequence[int]) -> Array:
    """The product with registers swapped, over some steps of 32 along k."""
    total = np.zeros((32, 4), np.uint32)
    for step in steps:
        here = slice(32 * step, 32 * step + 32)
        parts = {"a": given.A[:, here], "b": given.B[here]}
        held = {role: _INT8.fragments[role].pack(np.ascontiguousarray(each)) for role, each in parts.items()}
        held = {role: each[:, exchanged.get(role, slice(None))] for role, each in held.items()}
        total = run(_INT8, held["a"], held["b"], total)
    return _INT8.fragments["d"].unpack(total)


def _product_mistakes(given: Given) -> Wrong:
    right, steps = _product(given), range(given.A.shape[1] // 32)
    yield "Each step starts from zero: pass the D of one step as the C of the next.", _chained(given, {}, steps[-1:])
    yield "Only the first 32 columns of A are multiplied.", _chained(given, {}, steps[:1])
    yield (
        "a1 and a2 are swapped: a1 is 8 rows further down, and a2 is 16 further along k.",
        (_chained(given, {"a": (0, 2, 1, 3)}, steps)),
    )
    yield "b0 and b1 are swapped: b1 is 16 further along k.", _chained(given, {"b": (1, 0)}, steps)
    untouched, same = right.copy(), right.copy()
    untouched[8:], same[:8], same[8:] = _UNTOUCHED, right[8:], _UNTOUCHED
    yield "Rows 8 to 15 are never stored: d2 and d3 are 8 rows below d0 and d1.", untouched
    yield "d2 and d3 overwrite d0 and d1: they are 8 rows further down.", same


def _every_product_mistake(given: Given) -> Wrong:
    return beyond(_product_mistakes(given), slips(str(_INT8), given.A, given.B))


def _narrow(given: Given) -> Array:
    """D (8, 16), computed as its transpose: D' = B' A'."""
    return np.ascontiguousarray(matmul(given.B.T, given.A.T, instruction=_MMA).T)


def _narrow_mistakes(given: Given) -> Wrong:
    right = _narrow(given)
    yield (
        "This is the transpose, stored as if it were D: d0 is in row n and column m of what was computed.",
        (right.T.reshape(8, 16)),
    )
    yield (
        "The accumulator holds the transpose of D: its row is the column of D, and its column the row.",
        (np.hstack([right[:, :8].T, right[:, 8:].T])),
    )
    other = matmul(given.B, given.A.T, instruction=_MMA).T
    yield "B is transposed once too often: row n of the new A is column n of B.", other
    half = right.copy()
    half[:, 8:] = _UNTOUCHED
    yield "Columns 8 to 15 are missing: d2 and d3 hold them.", half


def _every_narrow_mistake(given: Given) -> Wrong:
    """The instruction's A is the transpose of B, and its D that of D."""
    left, right = (np.ascontiguousarray(each.T) for each in (given.B, given.A))
    more = slips(str(_MMA), left, right, lambda D: np.ascontiguousarray(D.T))
    return beyond(_narrow_mistakes(given), more)


def _multiplications(result: Launch, _: Sequence[Any]) -> Mapping[str, int]:
    return {"mma.sync": sum(count for opcode, count in result.counts.items() if opcode.startswith("mma.sync"))}


EXERCISES = [
    Exercise(
        "where_of_int8_b",
        "Where is B[row][column] of 8-bit integers?",
        "Write `where_of_int8_b(row, column)`, which returns the lane, the register and the byte (0 is the lowest) "
        "that hold element B[row][column] of `mma.sync` m16n8k32 with s8 operands.",
        _where_of_int8_b(),
        minutes=5,
        only=(),
        know="the layout lines of notebook 04",
        section="9.7.14.5.10",
        hints=(
            "The column alone decides which four lanes have it: lane // 4 is the column.",
            "A register holds four neighbours along k. So row % 4 is the byte, and row // 4 counts registers' worth.",
            "Of row // 4, 0 to 7, the lower two bits are the lane's place in its group; the upper bit is the register.",
        ),
    ),
    Exercise(
        "fill_b",
        "Fill the registers of B",
        "Write `fill_b(B)`, which returns the registers of operand b of `mma.sync` m16n8k16 with f16 operands: an "
        "array uint32 (32, 2). `B` is the matrix, float16 (16, 8), row-major as in numpy. Use numpy only: "
        "indexing, `.view` and shifts.",
        _fill_b(),
        minutes=10,
        only=(),
        know="the layout line of B, and how two f16 share a register",
        section="9.7.14.5.8",
        hints=(
            "B.view(np.uint16) has the bits. Choose rows and columns with arrays of lane numbers.",
            "Lane 4 g + t has column g. Its register 0 has row 2 t and the row below.",
            "The row that comes first is in the low half: low | high << 16, computed in uint32.",
        ),
        draw=lambda rng: {"B": _normal(rng, 16, 8)},
    ),
    Exercise(
        "d_as_a",
        "Reuse D as the next A",
        "Attention multiplies twice: the result of the first product is the A of the second. `left` and `right` are "
        "the accumulators of two m16n8k16, float32 (32, 4): columns 0 to 7 and 8 to 15 of a 16 × 16 matrix. Write "
        "`d_as_a(left, right)`, which returns the registers a0 to a3 of that matrix, rounded to f16, for the next "
        "m16n8k16: uint32 (32, 4). No number changes its lane.",
        Values(
            _d_as_a,
            np.uint32,
            _d_as_a_mistakes,
            _register,
            "The fragment",
            axes=("lane", "register"),
            how="every register of every lane",
        ),
        minutes=15,
        only=(),
        know="the layouts of A and D",
        section="9.7.14.5.8",
        hints=(
            "Compare the two lines: D is (h g) (t p) -> (g t) (h p), A is (h g) (c t p) -> (g t) (c h p).",
            "The tile is the digit c. Which two accumulators of `left` are neighbours in a row?",
            "astype(np.float16) rounds to nearest even, as cvt.rn does. The lower column of a pair is in the low half.",
        ),
        points=2,
        draw=_accumulators,
    ),
    Exercise(
        "product_of_64",
        "A product of 16 × 8 × 64 in 8-bit integers",
        "Write a kernel `product_of_64(warp, a, b, d)` for one warp: D = A B with A (16, 64) and B (64, 8) in s8, and "
        "D (16, 8) in s32, in two steps of `mma.sync` m16n8k32. `a` points to A, row-major; `b` to an array (8, 64) "
        "with the columns of B; `d` to D. The notebook's kernel does it for f16: four elements share a register now. "
        "You may also write it in CUDA C++, with inline PTX: "
        "`__global__ void product_of_64(const signed char* a, const signed char* b, int* d)`.",
        Kernel(
            _kernel_arguments,
            "d",
            _product,
            {},
            _every_product_mistake,
            needed=("mma.sync.aligned.m16n8k32",),
            scores=_multiplications,
            languages=("Python", "CUDA C++"),
            kernel="product_of_64",
        ),
        minutes=20,
        know="the fragments of m16n8k16, warp.ld_global, warp.st_global and accumulators",
        section="9.7.14.5.14",
        hints=(
            "Accumulators are registers too, and start at zero: warp.registers has an argument for that.",
            "A register of A holds four neighbours of a row, 32 bits at a.at(row, k): one load gets them all.",
            "Store d0 and d1 with 'v2.b32' at d.at(row, column); d2 and d3 are 8 rows further down.",
        ),
        points=3,
        draw=lambda rng: {"A": _bytes(rng, 16, 64), "B": _bytes(rng, 64, 8)},
        best={"mma.sync": 2},
    ),
    Exercise(
        "eight_rows",
        "Eight rows with one instruction",
        "A decoder multiplies few rows: A is (8, 16), B is (16, 16), D is (8, 16). m16n8k16 takes 16 rows of A, so the "
        "obvious kernel pads A with zeros and needs two instructions. Write a kernel `eight_rows(warp, a, b, d)` that "
        "needs one: swap the operands and compute the transpose of D. `a` points to A, row-major; `b` to an array "
        "(16, 16) with the columns of B; `d` to D, row-major. You may also write it in CUDA C++, with inline PTX: "
        "`__global__ void eight_rows(const half* a, const half* b, float* d)`.",
        Kernel(
            _kernel_arguments,
            "d",
            _narrow,
            {},
            _every_narrow_mistake,
            needed=("mma.sync.aligned.m16n8k16",),
            scores=_multiplications,
            limits={"mma.sync": 1},
            languages=("Python", "CUDA C++"),
            kernel="eight_rows",
        ),
        minutes=25,
        know="product_of_64",
        section="9.7.14.5.14",
        hints=(
            "(A B) transposed is B transposed times A transposed, a product of 16 × 8 × 16.",
            "Row n of the new A is column n of B, which is contiguous in memory. And the columns of the new B?",
            "What the instruction calls row is a column of D: d0 and d1 go to two rows of D, so store them one by one.",
        ),
        points=3,
        draw=_operands(8, 16, 16),
        best={"mma.sync": 1},
    ),
]
