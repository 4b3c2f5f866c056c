"""Exercises of notebook 02: the first kernels, and some to repair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Kernel
from tcemu.course.judges.slips import beyond, slips
from tcemu.course.record import Exercise, Given
from tcemu.sanitizer.rules import RULES

Array = npt.NDArray[Any]

_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


# ---------------------------------------------------------------------------------------------- the numbers


def _split(rng: np.random.Generator) -> Mapping[str, Any]:
    """A (16, 64) and the columns of B (8, 64), small whole numbers, so that every sum is exact."""
    return {name: rng.integers(-4, 5, (rows, 64)).astype(np.float16) for name, rows in (("A", 16), ("B_columns", 8))}


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
