"""Exercises of notebook 08: pruning, and a sparse product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import sparse
from tcemu.course.bank.sparse_metadata import CODES, MMA_SP, E, halves
from tcemu.course.judges import Kernel, Values
from tcemu.course.record import Evidence, Exercise, Given
from tcemu.instructions import run

Array = npt.NDArray[Any]
Wrong = Iterator[tuple[str, npt.ArrayLike]]

# ---------------------------------------------------------------------------------------------- pruning


def _row(rng: np.random.Generator) -> Mapping[str, Any]:
    """Magnitudes with ties among them, and large negative numbers."""
    row = rng.choice([-3.0, -2.0, -1.0, -0.5, 0.25, 1.0, 2.0, 2.5], (8, 4))
    row[3], row[6] = (-2, 1, 2, 2), (-3, 1, 0.5, 0.25)
    return {"row": row.reshape(32).astype(np.float32)}


def _stays(row: Array, weight: Array, count: int = 2) -> Array:
    """The row with only the largest elements of each chunk, two by default; of equal ones the first stays."""
    order = np.argsort(-weight.reshape(-1, 4), axis=1, kind="stable")[:, :count]
    stays = np.zeros((len(row) // 4, 4), bool)
    np.put_along_axis(stays, order, values=True, axis=1)
    return np.where(stays.reshape(-1), row, np.float32(0))


class _Row(Values):
    """Judges a row in which the sign of a zero does not matter: a product with a mask leaves −0."""

    def collect(self, answer: Any, given: Given) -> Evidence:
        """The row, with +0 for each zero."""
        return {name: array + np.float32(0) for name, array in super().collect(answer, given).items()}


def _prune_mistakes(given: Given) -> Wrong:
    row, size = given.row, np.abs(given.row)
    yield "You compared the values and not their magnitudes: −3 is larger than 1.", _stays(row, row)
    yield "You kept the two smallest elements of each chunk.", _stays(row, -size)
    last = _stays(row.reshape(-1, 4)[:, ::-1].reshape(-1), size.reshape(-1, 4)[:, ::-1].reshape(-1))
    yield (
        "Of two elements of equal magnitude the first one stays; you kept the last one.",
        (last.reshape(-1, 4)[:, ::-1].reshape(-1)),
    )
    second = np.repeat(np.sort(size.reshape(-1, 4), axis=1)[:, 2], 4)
    yield (
        "Where magnitudes are equal, three or four elements of a chunk stay: of equal ones only the first stays.",
        (np.where(size >= second, row, 0)),
    )
    yield (
        "Where magnitudes are equal, fewer than two elements of a chunk stay.",
        np.where(size > np.repeat(np.sort(size.reshape(-1, 4), axis=1)[:, 1], 4), row, 0),
    )
    yield (
        "You kept the largest half of the whole row. Each chunk of four keeps two.",
        (np.where(size >= np.sort(size)[-len(row) // 2], row, 0)),
    )
    largest = np.argsort(-size, kind="stable")[: len(row) // 2]
    yield (
        "You kept the largest half of the whole row. Each chunk of four keeps two.",
        np.where(np.isin(np.arange(len(row)), largest), row, np.float32(0)),
    )
    yield "You pruned pairs, as for 4-bit elements: 2:4 is about single elements.", sparse.prune(row, "4:8")
    yield "You kept one of every two elements, which is what tf32 does.", sparse.prune(row, "1:2")
    yield (
        "These are the elements that have to go: you swapped those that stay with the zeros.",
        (np.where(sparse.prune(row, "2:4") == 0, row, 0)),
    )
    yield (
        "You kept the first two elements of each chunk, whatever their size.",
        (np.where(np.arange(len(row)) % 4 < 2, row, np.float32(0))),
    )
    pairs = size.reshape(-1, 4)[:, [0, 2, 1, 3]].reshape(-1, 2)
    first = np.stack([pairs[:, 0] >= pairs[:, 1], pairs[:, 0] < pairs[:, 1]], axis=1)
    yield (
        "You compared elements 0 with 2 and 1 with 3. The two largest of a chunk stay, wherever they are.",
        (np.where(first.reshape(-1, 4)[:, [0, 2, 1, 3]].reshape(-1), row, np.float32(0))),
    )
    yield "You kept one element of each chunk of four: 2:4 keeps two.", _stays(row, size, 1)


# ---------------------------------------------------------------------------------------------- a kernel


def _layer(rng: np.random.Generator) -> Mapping[str, Any]:
    """A pruned A of 16 × 128, stored; its metadata by rows, a word for 32 columns; and B."""
    codes = rng.choice(CODES, (16, 4, 8))
    words = np.zeros((16, 4), np.uint32)
    for group in range(8):
        words |= (codes[..., group] << 4 * group).astype(np.uint32)
    return {"stored": halves(rng, 16, 64), "words": words, "B": halves(rng, 128, 8)}


def _arguments(given: Given) -> Mapping[str, Any]:
    """B lies in memory by columns, and d is filled with a number that no sum gives."""
    b = np.ascontiguousarray(given.B.T)
    return {"stored": given.stored, "words": given.words, "b": b, "d": np.full((16, 8), -1e9, np.float32)}


def _registers_of_metadata(words: Array, step: int) -> Array:
    """Metadata for one step and selector 0, from words (16, 4)."""
    codes = np.zeros(E.shape, np.uint8)
    codes[0] = words[:, [step]] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    return np.asarray(E.write(codes.reshape(1, -1)).reshape(32))


def _product(
    given: Given,
    metadata: Callable[[Array, int], Array] = _registers_of_metadata,
    steps: tuple[int, ...] = (0, 1, 2, 3),
    a: tuple[int, ...] = (0, 1, 2, 3),
    b: tuple[int, ...] = (0, 1, 2, 3),
    chained: bool = True,
) -> Array:
    """D, or what it becomes with other metadata, steps or registers."""
    total = np.zeros((32, 4), np.uint32)
    for step in steps:
        left = MMA_SP.fragments["a"].pack(np.ascontiguousarray(given.stored[:, 16 * step : 16 * step + 16]))
        right = MMA_SP.fragments["b"].pack(given.B[32 * step : 32 * step + 32])
        start = total if chained else np.zeros_like(total)
        total = run(MMA_SP, left[:, a], right[:, b], start, metadata(given.words, step), 0)
    return np.asarray(MMA_SP.fragments["d"].unpack(total))


def _kernel_mistakes(given: Given) -> Wrong:
    yield "Each step starts from zero: pass the D of one step as the C of the next.", _product(given, chained=False)
    yield "Only the first 32 columns of A are multiplied.", _product(given, steps=(0,))
    yield (
        "All steps use the metadata of the first one.",
        (_product(given, lambda words, _: _registers_of_metadata(words, 0))),
    )
    yield (
        "The metadata of rows g and g + 8 is swapped: row g is in the low 16 bits.",
        (_product(given, lambda words, step: _registers_of_metadata(np.roll(words, 8, axis=0), step))),
    )
    yield (
        "The metadata of chunks 0 to 3 and 4 to 7 is swapped: the even lanes have the first four.",
        (_product(given, lambda words, step: _registers_of_metadata(words << 16 | words >> 16, step))),
    )
    same_a = np.tile(given.stored[:, :16], 4)
    yield (
        "All steps multiply the stored elements of the first one: a step takes 16 stored columns.",
        _product(Given({**given, "stored": same_a})),
    )
    near = np.concatenate([given.B[16 * step : 16 * step + 32] for step in range(4)])
    yield (
        "B moves by 16 along k in each step: 16 stored columns of A are 32 of k.",
        _product(Given({**given, "B": near})),
    )
    lane = np.arange(32)
    yield (
        "Every lane passes the word of row lane // 4. It has four chunks of that row and four of the row 8 below.",
        (_product(given, lambda words, step: words[lane // 4, step])),
    )
    yield (
        "Every lane passes the word of row lane // 4 or lane // 4 + 8: that is the layout for 8-bit elements.",
        (_product(given, lambda words, step: words[lane // 4 + 8 * (lane % 2), step])),
    )
    yield (
        "Even and odd lanes pass the same metadata: odd lanes have chunks 4 to 7, the upper 16 bits of a word.",
        (_product(given, lambda words, step: _registers_of_metadata(words & 0xFFFF | words << 16, step))),
    )
    yield (
        "a1 and a2 are swapped: a1 is 8 rows further down, and a2 is 8 stored columns further on.",
        (_product(given, a=(0, 2, 1, 3))),
    )
    yield (
        "The registers of B are in another order: b1 is 8 further along k, b2 16, b3 24.",
        (_product(given, b=(0, 2, 1, 3))),
    )
    untouched = _product(given)
    untouched[8:] = -1e9
    yield "Rows 8 to 15 are never stored: d2 and d3 are 8 rows below d0 and d1.", untouched


EXERCISES = [
    Exercise(
        "prune_a_row",
        "Prune a row",
        "Write `prune_a_row(row)`, which returns the row with 2:4 sparsity. `row` is a float32 array whose length is a "
        "multiple of 4; of each chunk of four, the two elements of largest magnitude stay, and the others become 0. Of "
        "elements of equal magnitude, the first stays. Use numpy, not `tcemu.sparse`.",
        _Row(
            lambda given: sparse.prune(given.row, "2:4"), np.float32, _prune_mistakes, what="The row", axes=("column",)
        ),
        minutes=5,
        only=(),
        know="the 2:4 pattern of notebook 08",
        section="9.7.14.6.1",
        hints=(
            "Reshape the row to (chunks, 4). Then every chunk is a row of its own.",
            "np.argsort orders each chunk by its magnitudes. With kind='stable', equal ones keep their order.",
            "Sort by the negative magnitude, take two places of each chunk, and set a mask with np.put_along_axis.",
        ),
        draw=_row,
    ),
    Exercise(
        "sparse_tile",
        "A sparse product of 16 × 8 × 128",
        "Write the kernel `sparse_tile(warp, stored, words, b, d)`, which one warp executes: D = A B with `mma.sp` "
        "m16n8k32 (f16), in four steps along k with ascending k. `stored` points to the stored A, float16 (16, 64), "
        "row-major; `b` to B, column-major, float16 (8, 128); `d` to float32 (16, 8). `words` is the metadata, uint32 "
        "(16, 4): `words[row][step]` has the 8 chunks of a row for one step, chunk 0 in its lowest four bits. The "
        "lanes have to put together what the instruction wants.",
        Kernel(
            _arguments,
            "d",
            _product,
            {"block": 32},
            _kernel_mistakes,
            needed=("mma.sp",),
            how="every bit of D, and the sanitizer's reports",
        ),
        minutes=45,
        know="kernels of notebook 04, and the layout of the metadata",
        section="9.7.14.6.3",
        hints=(
            "A has the dense map of a 16 × 16 matrix, at stored columns 16 · step; B the dense map of 32 × 8.",
            "With selector 0, lane 4 g + s has chunks 4 s to 4 s + 3 of rows g and g + 8, row g in the low 16 bits.",
            "Load the words of both rows, shift each right by 16 s, keep 16 bits, and combine them.",
            "Metadata is one register: warp.run(mma_sp, a, b, c, e, 0), where e has a number for each lane.",
        ),
        points=3,
        draw=_layer,
    ),
]
