"""Exercises of notebook 00: the first instruction, and larger products."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.bank.wmma import wide_numbers
from tcemu.course.judges import Function, Values
from tcemu.course.record import REGISTERS, Exercise, Given
from tcemu.instructions import parse
from tcemu.instructions.matmul import matmul

Array = npt.NDArray[Any]

_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


# ---------------------------------------------------------------------------------------------- first products


def _three(rng: np.random.Generator) -> Mapping[str, Any]:
    """A, B and C of one instruction."""
    c = rng.integers(-(2**23), 2**23, (16, 8)).astype(np.float32) / np.float32(2**12)
    return {"A": wide_numbers(rng, 16, 16), "B": wide_numbers(rng, 16, 8), "C": c}


def _three_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b, c = given.A, given.B, given.C
    nothing = np.zeros_like(c)
    yield "C is missing: the instruction adds it, so pass it as the third operand.", matmul(a, b, instruction=_MMA)
    yield (
        "You added C after the instruction. That rounds once more; let the instruction add it.",
        (matmul(a, b, nothing, instruction=_MMA) + c),
    )
    yield "C is added twice: the instruction adds it already.", matmul(a, b, c, instruction=_MMA) + c
    yield (
        "This is numpy's product, not the tensor core's: float32 rounds after every addition.",
        (a.astype(np.float32) @ b.astype(np.float32) + c),
    )
    yield "This is the exact result, rounded once. A tensor core cuts bits off.", _exact(a, b, c)
    with np.errstate(over="ignore", invalid="ignore"):
        yield "You multiplied in float16.", (a @ b).astype(np.float32) + c
    for says, left, right in (("A", a.T, b), ("B", a, b.T)):
        yield (
            f"{says} is transposed: give pack the matrix as it is.",
            (matmul(np.ascontiguousarray(left), np.ascontiguousarray(right).reshape(b.shape), c, instruction=_MMA)),
        )
    yield (
        "This is what sm_80 computes: it makes two sums of 8 products, and keeps a bit less.",
        (matmul(a, b, c, instruction=_MMA, target="sm_80")),
    )
    fragment = parse(_MMA).fragments["d"]
    flat = matmul(a, b, c, instruction=_MMA)
    yield (
        "These are the registers, reshaped. Lane and register are not row and column: use unpack.",
        (fragment.pack(flat).view(np.float32).reshape(16, 8)),
    )


def _exact(a: Array, b: Array, c: Array) -> Array:
    rounded: Array = (a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float32)
    return rounded


# ---------------------------------------------------------------------------------------------- changes


def _row_of_a(lane: Array, register: Array) -> Array:
    fragment = parse(_MMA).fragments["a"]
    row: Array = fragment.layout.gather[lane, 2 * register] // fragment.shape[1]
    return row


_CHANGED_ROW = Function(
    {"lane": range(32), "register": range(4)},
    ("row",),
    _row_of_a,
    (
        ("Eight rows below are missing: a1 and a3 are in the lower half of A.", lambda lane, _: lane // 4),
        ("a0 and a2 share a row, and so do a1 and a3: it is register % 2 that counts.",
         lambda lane, register: lane // 4 + 8 * (register // 2)),
        ("This is the place in the group of four lanes, which selects columns. The row is the number of the group.",
         lambda lane, register: lane % 4 + 8 * (register % 2)),
        ("Four lanes share a row, not eight.", lambda lane, register: lane // 8 + 8 * (register % 2)),
        ("This is the first column of the register. It selects a row of B, not of D.",
         lambda lane, register: 2 * (lane % 4) + 8 * (register // 2)),
    ),
    how="every register of every lane",
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- larger products


def _whole(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"A": wide_numbers(rng, 48, 64), "B": wide_numbers(rng, 64, 24)}


def _whole_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b = given.A, given.B
    steps = [(a[:, k : k + 16], b[k : k + 16]) for k in range(0, 64, 16)]
    parts = [matmul(rows, columns, instruction=_MMA) for rows, columns in steps]
    summed, descending = np.zeros_like(parts[0]), np.zeros_like(parts[0])
    for part, (rows, columns) in zip(parts, reversed(steps), strict=True):
        summed = summed + part
        descending = matmul(rows, columns, descending, instruction=_MMA)
    yield "You added the steps with numpy. Pass the result of one step as c of the next.", summed
    yield "The steps along K are in descending order. Every bit counts, so the order does too.", descending
    for reset, by_rows in product((None, 0, 1), (True, False)):
        yield (
            "Each tile continues from the one before: c must be zero at the beginning of every tile.",
            (_carried(a, b, reset, by_rows)),
        )
    yield "Only the first step along K is there.", parts[0]
    yield "The last step along K is missing.", matmul(a[:, :48], b[:48], instruction=_MMA)
    yield "The first step along K is missing.", matmul(a[:, 16:], b[16:], instruction=_MMA)
    columns = np.tile(b[:, :8], 3)
    yield (
        "All tiles of a row have the same columns of B: they have to move with the tile.",
        (matmul(a, columns, instruction=_MMA)),
    )
    rows = np.tile(a[:16], (3, 1))
    yield (
        "All tiles of a column have the same rows of A: they have to move with the tile.",
        (matmul(rows, b, instruction=_MMA)),
    )
    yield "Only the last step along K is there: each step must continue from the one before.", parts[-1]
    yield "This is numpy's product, not the tensor core's.", a.astype(np.float32) @ b.astype(np.float32)


def _carried(a: Array, b: Array, reset: int | None, by_rows: bool) -> Array:
    """The product if a tile continues from the one before, by rows or by columns.

    If `reset` is 0 or 1, c is zero where the row or the column of the tile is 0.
    """
    tiles, c = np.zeros((48, 24), np.float32), np.zeros((16, 8), np.float32)
    places = list(product(range(0, 48, 16), range(0, 24, 8)))
    for row, column in places if by_rows else sorted(places, key=lambda place: place[::-1]):
        c = c if reset is None or (row, column)[reset] else np.zeros_like(c)
        c = tiles[row : row + 16, column : column + 8] = matmul(
            a[row : row + 16], b[:, column : column + 8], c, instruction=_MMA
        )
    return tiles


EXERCISES = [
    Exercise(
        "first_product",
        "Your first product",
        "Write `first_product(A, B, C)`, which returns the 16 × 8 matrix that `mma.sync` m16n8k16 computes on sm_90 "
        "from A (16 × 16, f16), B (16 × 8, f16) and C (16 × 8, f32). Use `pack`, `tcemu.run` and `unpack`.",
        Values(
            lambda given: matmul(given.A, given.B, given.C, instruction=_MMA), np.float32, _three_mistakes,
            lambda index: f"D[{index[0]}][{index[1]}]", how="every bit of D",
        ),
        minutes=5,
        only=REGISTERS,
        know="the first instruction of notebook 00",
        section="9.7.14.5.8",
        hints=(
            "The cell that begins with a = does it for one A, B and C. Which of its names have to change?",
            "Three times pack, one run, one unpack. Each operand has a fragment of its own.",
        ),
        draw=_three,
    ),
    Exercise(
        "changed_row",
        "Which row changes?",
        "You flip a bit of register a`register` in lane `lane`, before an `mma.sync` m16n8k16 with f16 operands. "
        "Write `changed_row(lane, register)`, which returns the row of D in which outputs can change.",
        _CHANGED_ROW,
        minutes=10,
        only=(),
        know="the map and change one bit, notebook 00",
        section="9.7.14.5.8",
        hints=(
            "An element of A contributes to one row of D: its own.",
            "Look at the map of A. Which lanes share a row, and which registers are eight rows below?",
        ),
    ),
    Exercise(
        "whole_product",
        "A whole matrix, tile by tile",
        "Write `whole_product(A, B)`, which multiplies A (48 × 64, f16) by B (64 × 24, f16) with `mma.sync` m16n8k16 "
        "on sm_90 and returns the 48 × 24 product as float32. Use `tcemu.run` for each tile, from k = 0 upwards; "
        "the D of one step is the C of the next. Do not use `tcemu.matmul`, which does just that.",
        Values(
            lambda given: matmul(given.A, given.B, instruction=_MMA), np.float32, _whole_mistakes,
            lambda index: f"D[{index[0]}][{index[1]}]", how="every bit of D",
        ),
        minutes=20,
        only=REGISTERS,
        know="pack, run and unpack, notebook 00",
        section="9.7.14.5.14",
        hints=(
            "Three loops: over the rows in steps of 16, over the columns in steps of 8, and along k in steps of 16.",
            "Registers of D have the layout of C, so you can pass them on without unpacking them.",
        ),
        points=2,
        draw=_whole,
    ),
]  # fmt: skip
