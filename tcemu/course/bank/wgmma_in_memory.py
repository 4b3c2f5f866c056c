"""Exercises of notebook 10: tiles in shared memory, and the products that wgmma makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Values
from tcemu.course.record import REGISTERS, Exercise, Given
from tcemu.errors import counted
from tcemu.instructions import parse, run
from tcemu.layouts import Descriptor, copy_tile

Array = npt.NDArray[Any]
_SWIZZLES = (0, 32, 64, 128)
_LINE = 128

_NARROW = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"


# ---------------------------------------------------------------------------------------------- addresses


def _next_start(swizzle: Array, step: Array) -> Array:
    starts = [_rows(size).advance("f16", k=16 * i).start for size, i in zip(swizzle, step, strict=True)]
    return np.array(starts, np.int64)


def _rows(swizzle: int) -> Descriptor:
    return Descriptor.for_tile("f16", 64, 64, swizzle=swizzle)


# ---------------------------------------------------------------------------------------------- memory and products


def _numbers(rng: np.random.Generator, rows: int) -> Array:
    """Odd whole numbers: exact in every sum, and never zero."""
    return (2 * rng.integers(-4, 4, (rows, 64)) + 1).astype(np.float16)


def _draw_tile(rng: np.random.Generator) -> Mapping[str, Any]:
    swizzle, gap = int(rng.choice((32, 64))), 1024 * int(rng.integers(0, 3))
    start, packed = 1024 * int(rng.integers(1, 5)), 64 * swizzle
    tile = Descriptor.for_tile("f16", 64, 64, swizzle=swizzle, start=start, pitch=packed + gap)
    return {"A": _numbers(rng, 64), "descriptor": tile}


def _filled(matrix: Array, descriptor: Descriptor, major: Any = "K") -> Array:
    shared = np.zeros(1 << 16, np.uint8)
    copy_tile(matrix, shared, descriptor, major)
    return shared


def _fillings(given: Given) -> Iterator[tuple[str, Array]]:
    tile: Descriptor = given.descriptor
    yield "You left the swizzle out: 16-byte units must be swapped within each line.", _unswizzled(given.A, tile)
    yield (
        "You wrote A row by row, as it is in global memory: a line of the tile is shorter than a row.",
        _row_by_row(given.A, tile),
    )
    yield (
        "The tile begins at byte 0; the descriptor's start address says otherwise.",
        _filled(given.A, replace(tile, start=0)),
    )
    yield "You wrote the transposed matrix.", _filled(np.ascontiguousarray(given.A.T), tile)


def _unswizzled(matrix: Array, tile: Descriptor) -> Array:
    """Every element at the sum that the descriptor gives, without the XOR."""
    row, column = np.indices(matrix.shape)
    line = tile.swizzle
    byte = 2 * column
    at = tile.start + row % 8 * line + row // 8 * tile.sbo + byte % line + byte // line * tile.lbo
    return _scattered(matrix, at)


def _row_by_row(matrix: Array, tile: Descriptor) -> Array:
    row, column = np.indices(matrix.shape)
    return _scattered(matrix, tile.start + _LINE * row + 2 * column)


def _scattered(matrix: Array, at: Any) -> Array:
    shared = np.zeros(1 << 16, np.uint8)
    shared.view(np.uint16)[at // 2] = matrix.view(np.uint16)
    return shared


def _draw_product(rng: np.random.Generator) -> Mapping[str, Any]:
    a, b = _numbers(rng, 64), _numbers(rng, 8)
    shared = np.zeros(1 << 15, np.uint8)
    a_tile, b_tile = _rows(_LINE), Descriptor.for_tile("f16", 8, 64, swizzle=_LINE, start=8192)
    copy_tile(a, shared, a_tile)
    copy_tile(b, shared, b_tile)
    return {"shared": shared, "a": a_tile, "b": b_tile, "d": rng.integers(0, 1 << 30, (128, 4)).astype(np.uint32)}


def _summed(given: Given, step: Any, scale_d: Any, steps: int = 4) -> Array:
    """D after four wgmmas: `step` makes the descriptor of each, `scale_d` says whether it adds to D."""
    d = given.d
    for i in range(steps):
        d = run(_NARROW, d, step(given.a, i), step(given.b, i), scale_d(i), 1, 1, 0, 0, shared=given.shared)
    return np.asarray(parse(_NARROW).fragments["d"].unpack(d))


def _moved(tile: Descriptor, i: int, still: Descriptor | None, by: int) -> Descriptor:
    """As somebody steps who leaves one tile where it is, or steps by another number of bytes."""
    return tile if tile == still else tile.step(by * i)


def _stepped(tile: Descriptor, i: int) -> Descriptor:
    return tile.step(32 * i)


def _sums(given: Given) -> Iterator[tuple[str, Array]]:
    yield "scale_d is never 0, so the sum begins with what was in the registers.", _summed(given, _stepped, lambda _: 1)
    yield "scale_d is always 0, so each product replaces the one before.", _summed(given, _stepped, lambda _: 0)
    yield (
        "The descriptors do not move: all four instructions multiply the same 16 columns.",
        _summed(given, lambda tile, _: tile, lambda i: i > 0),
    )
    for moves, stays in (("A", "B"), ("B", "A")):
        yield (
            f"Only the descriptor of {moves} moves: all four instructions multiply the same 16 columns of {stays}.",
            (_summed(given, partial(_moved, still=given[stays.lower()], by=32), lambda i: i > 0)),
        )
    for by, says in ((16, "16 bytes: an element has two"), (64, "64 bytes: 16 f16 elements are 32"),
                     (128, "128 bytes, a whole line: 16 f16 elements are 32")):  # fmt: skip
        yield (
            f"You moved the descriptors by {says}.",
            _summed(given, partial(_moved, still=None, by=by), lambda i: i > 0),
        )
    for steps in (1, 2, 3):
        yield (
            f"Only {counted(steps, 'step')} of 4 along K {'is' if steps == 1 else 'are'} in the sum.",
            (_summed(given, _stepped, lambda i: i > 0, steps)),
        )
    yield (
        "You moved LBO instead of the start address; inside a swizzled line LBO is not used.",
        _summed(given, lambda tile, i: replace(tile, lbo=tile.lbo + 32 * i), lambda i: i > 0),
    )


EXERCISES = [
    Exercise(
        "start_of_k_step",
        "The start address along K",
        "A tile of 64 × 64 f16, K-major, begins at byte 0, packed, with groups of eight rows one after the other. "
        "Four wgmmas of K = 16 multiply it. Write `start_of_k_step(swizzle, step)`, which returns the start address in "
        "bytes for instruction `step`, 0 to 3, if the tile has a swizzle of 0, 32, 64 or 128 bytes.",
        Function(
            {"swizzle": _SWIZZLES, "step": range(4)},
            ("start",),
            _next_start,
            (
                (
                    (
                        "32 bytes for each step are right only as long as the step stays inside a line. A line has 16, "
                        "32, 64 or 128 bytes."
                    ),
                    lambda _, step: 32 * step,
                ),
                (
                    "A step goes to the next eight rows instead of along K.",
                    lambda swizzle, step: 8 * np.maximum(swizzle, 16) * step,
                ),
                (
                    "You gave the encoded address; the task asks for bytes.",
                    lambda swizzle, step: _next_start(swizzle, step) >> 4,
                ),
                (
                    "Without a swizzle, a step of 16 f16 is two core matrices along K, not one.",
                    lambda swizzle, step: np.where(swizzle == 0, 1024 * step, _next_start(swizzle, step)),
                ),
                (
                    "Inside a line, a step is 32 bytes; only the next line begins after all 64 rows.",
                    lambda swizzle, step: np.where(swizzle == 0, 2048, 64 * swizzle) * step,
                ),
            ),
            how="every swizzle and step",
            device="start_of_k_step",
        ),
        minutes=20,
        only=(),
        know="stepping along K",
        section="9.7.15.5.1.2.1, 9.7.15.5.1.2.2",
        hints=(
            "16 f16 are 32 bytes. How many steps fit into a line of 128, 64 or 32 bytes?",
            "When a line is used up, the next part of K begins after all 64 rows of this one.",
            "Without a swizzle a line has 16 bytes, and a step is two of them.",
        ),
        points=2,
    ),
    Exercise(
        "fill_for_descriptor",
        "Fill shared memory for a descriptor",
        "Write `fill_for_descriptor(A, descriptor)`, which returns 65,536 bytes of shared memory, an array of uint8, "
        "in which `descriptor` finds A, a K-major tile of 64 × 64 f16. All other bytes are 0. The descriptor is a "
        "`Descriptor` with a swizzle, and it may leave gaps. Do not use `copy_tile` or `address`.",
        Values(
            lambda given: _filled(given.A, given.descriptor),
            np.uint8,
            _fillings,
            lambda index: f"Byte {index[0]:,}",
            "Shared memory",
            how="every byte",
        ),
        minutes=30,
        only=("tcemu.layouts.Descriptor.encode",),
        know="canonical layouts and swizzles",
        section="9.7.15.5.1.2.1, 9.7.15.5.1.2.2",
        hints=(
            'descriptor.formula("f16") prints the sum of an element\'s address.',
            "Compute all addresses at once: row, column = np.indices((64, 64)).",
            "Then XOR, and write A into a view of the bytes as 16-bit words, at half the addresses.",
        ),
        draw=_draw_tile,
        points=3,
    ),
    Exercise(
        "sum_over_k",
        "A product over K = 64",
        "Shared memory holds A, 64 × 64, and B, 8 columns, as K-major f16 tiles with the 128-byte swizzle. Write "
        "`sum_over_k(shared, a, b, d)`, which multiplies them with four `wgmma.mma_async` m64n8k16 through `tcemu.run` "
        "and returns D, 64 × 8, as a float32 array. `a` and `b` are the descriptors, and `d` are the registers of "
        "the accumulator, which hold what another kernel left there.",
        Values(
            lambda given: _summed(given, _stepped, lambda i: i > 0),
            np.float32,
            _sums,
            lambda index: f"D[{index[0]}][{index[1]}]",
            "D",
        ),
        minutes=25,
        only=(*REGISTERS, "tcemu.layouts.Descriptor"),
        know="descriptors, stepping along K, scale-d",
        section="9.7.15.5.2",
        hints=(
            "tcemu.run(wgmma, d, a, b, scale_d, 1, 1, 0, 0, shared=shared) returns the new accumulator.",
            "Which of the four may use what is in d, and which may not?",
            "The instruction's fragment d has a method unpack that turns the registers into a matrix.",
        ),
        draw=_draw_product,
        points=3,
    ),
]
