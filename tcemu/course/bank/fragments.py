"""Exercises of notebook 02: which lane holds which element, and first kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Kernel, Values, registers_of, what_map, where_map
from tcemu.course.judges.slips import beyond, slips
from tcemu.course.record import REGISTERS, Exercise, Given
from tcemu.instructions import parse
from tcemu.layouts import Fragment
from tcemu.sanitizer.rules import RULES

Array = npt.NDArray[Any]

_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
_TF32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"


# ---------------------------------------------------------------------------------------------- the numbers


def _split(rng: np.random.Generator) -> Mapping[str, Any]:
    """A (16, 64) and the columns of B (8, 64), small whole numbers, so that every sum is exact."""
    return {name: rng.integers(-4, 5, (rows, 64)).astype(np.float16) for name, rows in (("A", 16), ("B_columns", 8))}


def _matrix(rng: np.random.Generator) -> Mapping[str, Any]:
    """A (16, 16) of f16 whose elements differ, so that each place is recognised by its value."""
    return {"A": rng.permutation(np.arange(1, 257)).reshape(16, 16).astype(np.float16)}


def _row_major(rng: np.random.Generator) -> Mapping[str, Any]:
    """A (16, 32) and B (32, 8), both row-major."""
    return {"A": rng.integers(-4, 5, (16, 32)).astype(np.float16), "B": rng.integers(-4, 5, (32, 8)).astype(np.float16)}


def _product(a: Array, b: Array) -> Array:
    """A B, exact for small whole numbers."""
    product: Array = a.astype(np.float32) @ b.astype(np.float32)
    return product


# ---------------------------------------------------------------------------------------------- what goes wrong


def _split_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, given.B_columns.T
    parts = [_product(a[:, k : k + 16], b[k : k + 16]) for k in range(0, 64, 16)]
    yield "Only one warp's part is there: warp 0 must add all four.", parts[0]
    yield "Only the last part is there: the warps overwrite each other's parts.", parts[3]
    yield "Every warp computed the same 16 columns: k has to depend on warp.warpid.", 4 * parts[0]
    for missing in range(4):
        others = parts[:missing] + parts[missing + 1 :]
        yield f"The part of warp {missing} is missing.", sum(others, start=np.zeros_like(parts[0]))


def _row_major_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, given.B
    yield (
        "Only the first 16 columns of A are there: the last step must continue from the accumulator so far.",
        (_product(a[:, :16], b[:16])),
    )
    yield (
        "Only the last 16 columns of A are there: pass the accumulator so far as C of the next step.",
        (_product(a[:, 16:], b[16:])),
    )
    pairs = b.reshape(16, 2, 8)[:, ::-1].reshape(32, 8)
    yield "The two halves of each register of B are swapped: the lower k is in the low half.", _product(a, pairs)
    yield (
        "You loaded B as if it were column-major: two neighbours in memory are in one row of B, not in one column.",
        (_product(a, _as_columns(b))),
    )
    beside = np.append(b.reshape(-1)[1:], b.dtype.type(0)).reshape(b.shape)  # the next element of the same row
    aligned = np.arange(8) // 2 * 2
    for low, high in ((b, beside), (b[:, aligned], b[:, aligned + 1])):
        pairs = np.stack([low[::2], high[::2]], axis=1).reshape(b.shape)
        yield (
            "A load of 32 bits takes two neighbours in a row of B; a register needs two in a column.",
            (_product(a, pairs)),
        )
    for step in (0, 1):
        only = np.repeat(b[step::2], 2, axis=0)
        yield (
            "Both halves of each register of B hold the same element: the other one is in the next row.",
            (_product(a, only)),
        )
    low_only = np.where(np.arange(32)[:, None] % 2, b.dtype.type(0), b)
    yield "The upper halves of B's registers are 0: the odd rows of B are missing.", _product(a, low_only)


def _as_columns(b: Array) -> Array:
    """What a kernel gets that takes rows of B (32, 8) in memory for columns of 32."""
    return b.reshape(-1).reshape(8, 32).T


def _probes(rng: np.random.Generator) -> Mapping[str, Any]:
    """Registers of A for 16 probes: two elements in each of four rows, which cancel in two of the rows."""
    matrices = np.zeros((16, 16, 16), np.float16)
    for matrix in matrices:
        for place, row in enumerate(rng.permutation(16)[:4]):
            size, one, other = rng.integers(1, 5), *rng.permutation(16)[:2]
            matrix[row, one], matrix[row, other] = size, -size if place < 2 else 3
    return {"probes": np.stack([_fragment("a").pack(matrix) for matrix in matrices])}


def _who_answers(given: Given) -> Array:
    """Lane and register of D's first sum that is not zero, for each probe."""
    return _first(np.stack([_fragment("a").unpack(probe).sum(axis=1) != 0 for probe in given.probes]))


def _first(rows: Array) -> Array:
    """Lane and register of the first place of D in one of these rows, for each probe: groups come before halves."""
    group, half = np.divmod(np.argmax(rows.reshape(16, 2, 8).swapaxes(1, 2).reshape(16, 16), axis=1), 2)
    return np.stack([4 * group, 2 * half], axis=-1)


def _probe_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    lane, register = _who_answers(given).T
    filled = np.stack([_fragment("a").unpack(probe).any(axis=1) for probe in given.probes])
    own, word = np.divmod(np.argmax(given.probes.reshape(16, 128) != 0, axis=1), 4)

    def answers(*parts: Array) -> Array:
        return np.stack(parts, axis=-1)

    yield "Elements of a row may cancel: then its sum is zero, and its registers do not answer.", _first(filled)
    yield "You name the first register of A that is not zero: the sums are in D.", answers(own, word)
    yield (
        "You name the lane of the first element of A. A row's first output is in the lowest lane of its group.",
        answers(own, word % 2 * 2),
    )
    yield "a1 and a3 are in the lower half of the rows, which d2 and d3 hold.", answers(lane, 0 * register)
    yield "You return the row instead of the lane.", answers(lane // 4 + 4 * register, register)
    yield "That is the group g, lane // 4; its first lane is 4 g.", answers(lane // 4, register)
    yield "Lane and register are swapped.", answers(register, lane)


def _fragment(role: str) -> Fragment:
    return parse(_MMA).fragments[role]


#: Four elements in a register, with the mistake of still thinking of two.
_BYTES = replace(
    where_map(_S8, "a", element=True),
    mistakes=(
        ("A register holds four elements here, not two as with f16.",
         lambda row, column: np.stack([4 * (row % 8) + column // 2 % 4, 2 * (column // 8) + row // 8, column % 2], -1)),
        *where_map(_S8, "a", element=True).mistakes,
    ),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- kernels to repair


def _numbers(size: int) -> Callable[[np.random.Generator], Mapping[str, Any]]:
    return lambda rng: {"x": rng.integers(1, 1000, size, np.uint32)}


def _repair(
    name: str,
    rule: str,
    title: str,
    story: str,
    right: Callable[[Array], Array],
    mistakes: Callable[[Array], Iterable[tuple[str, Array]]],
    *hints: str,
    size: int = 32,
    options: Mapping[str, Any],
) -> Exercise:
    """A small kernel that breaks `rule`; x has `size` numbers, and `right` gives what out should hold."""
    return Exercise(
        name,
        title,
        f"{story} Repair `{name}`: delete the line `return ...`, check, read what the sanitizer reports, and fix the "
        "kernel until nothing is reported and the output is right.",
        Kernel(
            lambda given: {"x": given.x, "out": np.zeros(len(right(given.x)), np.uint32)},
            "out",
            lambda given: right(given.x),
            options,
            lambda given: mistakes(given.x),
            partial=False,
        ),
        minutes=6,
        know="the kernels of notebook 02",
        section=RULES[rule].section,
        hints=hints,
        draw=_numbers(size),
    )


def _padded(x: Array) -> Array:
    return np.concatenate([x, np.zeros(32 - len(x), x.dtype)])


_REPAIRS = [
    _repair(
        "repair_swap", "lane-race", "Lanes that swap",
        "One warp reverses 32 numbers through shared memory: out[i] = x[31 - i].",
        lambda x: x[::-1],
        lambda x: [("Nothing is swapped: each lane reads what it has stored.", x)],
        "The lanes of a warp need not execute in step: a lane may load before another one has stored.",
        "bar.warp.sync waits for the lanes of one warp, and orders their accesses: warp.bar_warp_sync().",
        options={"block": 32, "shared": 128},
    ),
    _repair(
        "repair_padding", "uninitialised-shared", "A row that is too short",
        "x has 24 numbers. The kernel puts them into a row of 32, whose last 8 are to be 0, and computes "
        "out[i] = row[i] + row[31 - i].",
        lambda x: _padded(x) + _padded(x)[::-1],
        lambda x: [
            ("Only 24 numbers are written; the last 8 sums are missing.", np.concatenate(
                [(_padded(x) + _padded(x)[::-1])[:24], np.zeros(8, x.dtype)])),
            ("The last 8 numbers of the row are not 0: they repeat the first ones.",
             np.concatenate([x, x[:8]]) + np.concatenate([x, x[:8]])[::-1]),
        ],
        "Which bytes of shared memory are still unwritten when the second load reads them?",
        "Let the other lanes write their zeros, before the barrier.",
        size=24, options={"block": 32, "shared": 128},
    ),
    _repair(
        "repair_edge", "out-of-range", "Past the end",
        "Two warps double 48 numbers: out[i] = 2 x[i]. A warp has 32 lanes, and 48 is not 64.",
        lambda x: 2 * x,
        lambda x: [("The numbers of the second warp are missing.", np.where(np.arange(48) < 32, 2 * x, 0))],
        "Which lanes have an element?",
        "with warp.only(mask): executes what is inside for the lanes of the mask; warp.threads numbers the threads.",
        size=48, options={"block": 64},
    ),
    _repair(
        "repair_counts", "barrier-threads", "A barrier with two counts",
        "Four warps reverse 128 numbers through shared memory: out[i] = x[127 - i]. They meet at barrier 1.",
        lambda x: x[::-1],
        lambda x: [("Nothing is reversed: each thread reads what it has stored.", x)],
        "How many threads does each warp announce?",
        "All four warps meet there, 128 threads.",
        size=128, options={"block": 128, "shared": 512},
    ),
]  # fmt: skip

EXERCISES = [
    Exercise(
        "where_of_a",
        "Where is A[row][column]?",
        "Write `where_of_a(row, column)`, which returns the lane and the register that hold element A[row][column] of "
        "`mma.sync` m16n8k16 with f16 operands.",
        where_map(_MMA, "a"),
        minutes=10,
        only=(),
        know="the layout line of notebook 02",
        section="9.7.14.5.8",
        hints=(
            'Print mma.fragments["a"].layout, and read which digits make up the lane.',
            "The lane is 4 g + t. Which part of the row is g, and which part of the column is t?",
            "A register holds two neighbours of a row. Which two questions about row and column does it answer?",
        ),
    ),
    Exercise(
        "what_is_in_a",
        "What is in register a of a lane?",
        "Write `what_is_in_a(lane, register)`, which returns row and column of the element of A in the low half of "
        "that register, for `mma.sync` m16n8k16 with f16 operands.",
        what_map(_MMA, "a"),
        minutes=10,
        only=(),
        know="the layout line of notebook 02",
        section="9.7.14.5.8",
        hints=(
            "g is lane // 4 and t is lane % 4. Which digits of row and column are they?",
            "The register is 2 c + h: h is register % 2, c is register // 2.",
            "The row is 8 h + g, and the column is 8 c + 2 t + p. In the low half p is 0.",
        ),
    ),
    Exercise(
        "summed_by_warps",
        "Fix the race",
        "`summed_by_warps(warp, a, b, out)` is the kernel `four_warps` of notebook 02 without its race: four warps "
        "each multiply 16 of the 64 columns of A (16 × 64) by 16 rows of B, which is column-major, an array (8, 64) of "
        "its columns. Warp 0 adds the four parts, which go through 2048 bytes of shared memory. `out` is 16 × 8, f32. "
        "It is correct if the output is right in every order of the warps and the sanitizer reports nothing.",
        Kernel(
            lambda given: {"a": given.A, "b": given.B_columns, "out": np.zeros((16, 8), np.float32)},
            "out",
            lambda given: _product(given.A, given.B_columns.T),
            {"grid": 1, "block": 128, "shared": 2048},
            _split_mistakes,
            needed=("mma.sync",),
            warps={"mma.sync": 4},
            partial=False,
        ),
        minutes=10,
        know="the kernel four_warps and the report of notebook 02",
        section="9.7.13.1",
        hints=(
            "The report names two lines: a store and a load of shared memory. The barrier belongs between them.",
            "All four warps have to reach the barrier. Is your line inside the if?",
        ),
        draw=_split,
    ),
    Exercise(
        "where_of_b",
        "Where is B[row][column]?",
        "Write `where_of_b(row, column)`, which returns the lane and the register that hold element B[row][column] of "
        "`mma.sync` m16n8k16 with f16 operands. B has 16 rows and 8 columns.",
        where_map(_MMA, "b", others=[("A", _MMA, "a")]),
        minutes=10,
        only=(),
        know="the layout line of notebook 02",
        section="9.7.14.5.8",
        hints=(
            'Print mma.fragments["b"].layout. Which index of B plays the role of the row of A?',
            "The lane is 4 g + t, and g is the column. The row is 8 c + 2 t + p.",
        ),
    ),
    Exercise(
        "where_of_bytes",
        "Four elements in a register",
        "`mma.sync` m16n8k32 with s8 operands has a row-major A of 16 × 32 bytes, four to a register. Write "
        "`where_of_bytes(row, column)`, which returns lane, register and the byte in the register (0 is the lowest).",
        _BYTES,
        minutes=15,
        only=(),
        know="the layout line of notebook 02",
        section="9.7.14.5.10",
        hints=(
            "Print the layout line of this instruction's A. Which digits have other sizes than for f16?",
            "A lane now holds four neighbours of a row in one register: the column is 16 c + 4 t + p.",
        ),
        points=2,
    ),
    Exercise(
        "who_answers",
        "A probe of your own",
        "`probes` (16 × 32 × 4, uint32) has the registers of A for 16 probes. In each A, two elements of four rows are "
        "not zero, and in some rows they cancel. All elements of B are one (f16 `mma.sync` m16n8k16 with an f32 "
        "accumulator). Write `who_answers(probes)`, which returns an array (16, 2): lane and register of the first "
        "register of D that is not zero, in the order of lanes, then registers, for each probe. You may run the probes "
        'inside your function, with `tcemu.run`, or derive a rule from them. `given("who_answers").probes` are some to '
        "try it with.",
        Values(
            _who_answers,
            np.int64,
            _probe_mistakes,
            lambda index: f"The {('lane', 'register')[index[1]]} of probe {index[0]}",
            axes=("probe", "part"),
            how="every probe",
        ),
        minutes=15,
        only=REGISTERS,
        know="the probe of notebook 02",
        section="9.7.14.5.8",
        hints=(
            "np.argwhere(d) lists the places that are not zero, in this order.",
            "A row's sum is in the four lanes of its group. The lowest of them holds columns 0 and 1 of D.",
        ),
        points=2,
        draw=_probes,
    ),
    Exercise(
        "fragment_by_hand",
        "Fill a fragment by hand",
        "Write `fragment_by_hand(A)`, which takes a matrix A (16 × 16, f16) and returns the registers that `mma.sync` "
        "m16n8k16 takes for it, an array (32, 4) of uint32. Do not use `pack`. "
        '`given("fragment_by_hand").A` is a matrix to try it with.',
        registers_of(_MMA, "a", lambda given: given.A),
        minutes=20,
        only=(),
        know="what_is_in_a, and how two f16 share a register (notebook 01)",
        section="9.7.14.5.8",
        hints=(
            "A.view(np.uint16) is the bits of A. In a register, the second element's are shifted left by 16.",
            "Loop over lane and register, and use what_is_in_a for the first element; the second is the next column's.",
            "Shift as np.uint32, or Python's int: a uint16 loses what is shifted out.",
        ),
        points=2,
        draw=_matrix,
    ),
    Exercise(
        "row_major_b",
        "A kernel for row-major B",
        "Write the kernel `row_major_b(warp, a, b, out)` for one warp: out (16 × 8, f32) is A (16 × 32, f16) times B "
        "(32 × 8, f16), all row-major in global memory, with `mma.sync` m16n8k16. The two elements of a register of B "
        "are 8 elements apart in memory, so each has to be loaded by itself, with "
        '`warp.ld_global(address, "b16")`, and the two joined with `|` and `<<`. Do not use wmma or ldmatrix. '
        "You may also write it in CUDA C++, with inline PTX: "
        "`__global__ void row_major_b(const half* a, const half* b, float* out)`.",
        Kernel(
            lambda given: {"a": given.A, "b": given.B, "out": np.zeros((16, 8), np.float32)},
            "out",
            lambda given: _product(given.A, given.B),
            {"grid": 1, "block": 32},
            lambda given: beyond(_row_major_mistakes(given), slips(str(_MMA), given.A, given.B)),
            needed=("mma.sync",),
            forbidden=("wmma", "ldmatrix"),
            languages=("Python", "CUDA C++"),
            kernel="row_major_b",
        ),
        minutes=40,
        know="the kernel one_warp of notebook 02",
        section="9.7.14.5.8",
        hints=(
            "Start from one_warp, with two steps instead of four. Only load_b changes.",
            "Register b of a lane has rows k + 8 r + 2 t (low half) and k + 8 r + 2 t + 1 (high half), column g.",
            'low | high << 16, with low = warp.ld_global(b.at(row, g), "b16") and high from the next row.',
        ),
        points=4,
        draw=_row_major,
    ),
    *_REPAIRS,
]
