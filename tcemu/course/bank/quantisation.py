"""Exercises of notebook 07 about quantisation: scales, zero points, sums that are clamped, and a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Crafted, Kernel, Values
from tcemu.course.judges.slips import beyond, slips
from tcemu.course.record import Exercise, Given
from tcemu.instructions import matmul

Array = npt.NDArray[Any]
S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
CLAMPED = "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32"
U8 = "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32"

# ---------------------------------------------------------------------------------------------- one output, exactly


def _too_early(evidence: Mapping[str, Array], given: Given) -> str:
    a, b, c = evidence["A"], evidence["B"], evidence["C"]
    exact = int(c[0, 0]) + int(a[0].astype(np.int64) @ b[:, 0].astype(np.int64))
    first = int(c[0, 0]) + int(a[0, :32].astype(np.int64) @ b[:32, 0].astype(np.int64))
    low, high = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    said = f"D[0][0] should be {exact}."
    if not low <= exact <= high:
        return f"{said} That does not fit into s32: let the second instruction bring the sum back."
    if low <= first <= high:
        return f"{said} After the first 32 products the sum is {first}, which fits, so nothing is clamped."
    wraps, clamps = (int(matmul(a, b, c, instruction=op)[0, 0]) for op in (S8, CLAMPED))
    return "" if wraps == exact != clamps else f"{said} The instructions give {wraps} and {clamps}."


def _draw_zero_point(rng: np.random.Generator) -> Mapping[str, Any]:
    """A is not among them: whoever has it can multiply again."""
    zero = int(rng.integers(90, 165))
    a = rng.integers(0, 256, (16, 64)).astype(np.uint8)
    b = rng.integers(-128, 128, (64, 8)).astype(np.int8)
    c = rng.integers(-20_000, 20_000, (16, 8)).astype(np.int32)
    return {"B": b, "zero": zero, "D": matmul(a, b, c, instruction=U8)}


def _without_zero(given: Given) -> Array:
    """D less what the zero point, one in each element of A, added to it: a matrix of zero points times B."""
    zeros = np.full((16, 64), given.zero, np.int64)
    corrected: Array = given.D.astype(np.int64) - zeros @ given.B.astype(np.int64)
    return corrected


def _wrong_corrections(given: Given) -> Iterator[tuple[str, Array]]:
    d, b, zero = given.D.astype(np.int64), given.B.astype(np.int64), given.zero
    yield "You subtracted the zero point from D; it is in each element of A, which is multiplied by one of B.", d - zero
    yield "You subtracted K times the zero point; its factors from B are missing.", d - zero * len(b)
    yield "The sign is wrong: the zero point was added to A, so subtract its share.", d + zero * b.sum(axis=0)
    yield "You took the sum of all of B; each column of D needs the sum of its own column.", d - zero * b.sum()
    yield "You subtracted the sums of B's columns; each is multiplied by the zero point.", d - b.sum(axis=0)
    yield "The magnitudes of B do not count: add up B with its signs.", d - zero * abs(b).sum(axis=0)
    yield (
        "You took the mean of each column of B: the zero point is multiplied by the sum.",
        np.rint(d - zero * b.mean(axis=0)).astype(np.int64),
    )
    yield "This is D unchanged: nothing is corrected.", d
    sums = b.sum(axis=0).astype(np.int8).astype(np.int64)
    for share in (zero * sums, (zero * sums).astype(np.int8)):  # the product, too, if numpy keeps to 8 bits
        yield "A sum of 64 elements of B does not fit into 8 bits: add them up in wider integers.", d - share


# ---------------------------------------------------------------------------------------------- quantising


def _draw_rows(rng: np.random.Generator) -> Mapping[str, Any]:
    """Rows of different sizes. The scale of the last two is a power of two, so that they can have ties."""
    sizes = np.exp(rng.normal(size=(8, 1)))
    numbers = rng.normal(size=(8, 32)) * sizes
    powers = 2.0 ** rng.integers(-9, 1, (2, 1))
    numbers[6:] = (rng.integers(-100, 100, (2, 32)) + rng.choice([0.25, 0.5], (2, 32))) * powers
    numbers[6:, 5] = 127 * powers[:, 0]
    return {"numbers": numbers.astype(np.float32)}


def _quantised(numbers: Array, scale: Array, least: int = -127) -> Array:
    quantised: Array = np.clip(np.rint(numbers / scale), least, 127).astype(np.int8)
    return quantised


def _scale(numbers: Array, axis: int | None = 1, most: float = 127) -> Array:
    scale: Array = np.abs(numbers).max(axis=axis, keepdims=True) / np.float32(most)
    return scale


def _wrong_quantisations(given: Given) -> Iterator[tuple[str, Array]]:
    x = given.numbers
    right = _scale(x)
    yield "You truncated the numbers toward zero: round to the nearest.", (x / right).astype(np.int8)
    yield "You used one scale for the whole matrix: each row has its own.", _quantised(x, _scale(x, None))
    yield "You used one scale for each column: each row has its own.", _quantised(x, _scale(x, 0))
    for least in (-127, -128):
        yield (
            "You divided by 128, so that the largest number lands at ±128, which s8 has on one side only.",
            (_quantised(x, _scale(x, 1, 128), least)),
        )
    largest = x.max(axis=1, keepdims=True) / np.float32(127)
    wrapped = np.rint(x / largest).astype(np.int64).astype(np.int8)
    for numbers in (_quantised(x, largest), _quantised(x, largest, -128), wrapped):
        yield "This is the scale for the largest number; but the largest magnitude may be negative.", numbers
    for axis, most, says in (
        (1, 128, "You divided by 128, so 128 wrapped around to −128. Divide by 127."),
        (0, 127, "You used one scale for each column: each row has its own."),
    ):
        yield says, np.rint(x / _scale(x, axis, most)).astype(np.int64).astype(np.int8)
    span = (x.max(axis=1, keepdims=True) - x.min(axis=1, keepdims=True)) / np.float32(255)
    yield "You divided the range, largest minus smallest, by 255: that needs a zero point.", _quantised(x, span, -128)
    yield "You multiplied by the scale: the numbers are divided by it.", _quantised(x, 1 / right)
    yield "You rounded down: round to the nearest.", np.clip(np.floor(x / right), -128, 127).astype(np.int8)
    wrapped = np.rint(x / _scale(x, 1, 255)).astype(np.int64).astype(np.int8)
    yield "You divided the whole range by 255, and what is beyond 127 wrapped around.", wrapped
    yield (
        "Ties go to the even number; you rounded them away from zero.",
        (np.trunc(x / right + np.copysign(np.float32(0.5), x)).astype(np.int8)),
    )
    yield "Ties go to the even number; you rounded them up.", np.floor(x / right + np.float32(0.5)).astype(np.int8)


# ---------------------------------------------------------------------------------------------- kernels


def _draw_layer(rng: np.random.Generator) -> Mapping[str, Any]:
    return {
        "x": rng.integers(-127, 128, (16, 96)).astype(np.int8),
        "w": rng.integers(-127, 128, (8, 96)).astype(np.int8),
        "scale_x": rng.uniform(0.001, 0.01, 16).astype(np.float32),
        "scale_w": rng.uniform(0.001, 0.01, 8).astype(np.float32),
    }


def _layer_arguments(given: Given) -> Mapping[str, Any]:
    return {**given, "out": np.zeros((16, 8), np.float32)}


def _products(given: Given, x: Array | None = None, w: Array | None = None) -> Array:
    left, right = given.x if x is None else x, given.w if w is None else w
    products: Array = left.astype(np.int64) @ right.astype(np.int64).T
    return products


def _scaled(sums: Array, given: Given) -> Array:
    scaled: Array = sums.astype(np.float32) * given.scale_x[:, None] * given.scale_w
    return scaled


def _layer(given: Given) -> Array:
    return _scaled(matmul(given.x, np.ascontiguousarray(given.w.T), instruction=S8), given)


def _wrong_layers(given: Given) -> Iterator[tuple[str, Array]]:
    sums = _products(given)
    yield "The scales are missing: this is the integer product.", sums.astype(np.float32)
    yield "The scale of the rows is missing.", sums.astype(np.float32) * given.scale_w
    yield "The scale of the columns is missing.", sums.astype(np.float32) * given.scale_x[:, None]
    yield (
        "You multiplied the two scales first; here each product is rounded, rows first.",
        (sums.astype(np.float32) * (given.scale_x[:, None] * given.scale_w)),
    )
    yield (
        "You scaled the columns first; here it is rows first, and each product is rounded.",
        (sums.astype(np.float32) * given.scale_w * given.scale_x[:, None]),
    )
    yield (
        "Only the first 32 columns of A are multiplied: loop over k.",
        (_scaled(_products(given, given.x[:, :32], given.w[:, :32]), given)),
    )
    yield (
        "Only the first 64 columns of A are multiplied: there are three steps along k.",
        (_scaled(_products(given, given.x[:, :64], given.w[:, :64]), given)),
    )
    with np.errstate(invalid="ignore"):
        yield (
            "You read the bits of the sums as floats: they are whole numbers, so convert them with astype.",
            _scaled(sums.astype(np.int32).view(np.float32), given),
        )
    yield (
        "Only the last 32 columns of A are in the result: pass each D on as the next C.",
        (_scaled(_products(given, given.x[:, -32:], given.w[:, -32:]), given)),
    )
    yield (
        "You multiplied as u8: the bytes of negative numbers count as 128 to 255.",
        (_scaled(_products(given, given.x.view(np.uint8), given.w.view(np.uint8)), given)),
    )
    upper = np.concatenate([given.x[:8], given.x[:8]])
    yield (
        "Rows 8 to 15 repeat rows 0 to 7: registers 1 and 3 of A hold the rows 8 below.",
        (_scaled(_products(given, upper), given)),
    )
    yield (
        "You read the registers as uint32: negative sums became large positive ones.",
        (_scaled((sums & 0xFFFFFFFF).astype(np.float64), given)),
    )
    swapped = given.x.reshape(16, 3, 2, 16)[:, :, ::-1].reshape(16, 96)
    yield (
        "The two halves of A along k are swapped: registers 2 and 3 hold k + 16.",
        (_scaled(_products(given, swapped), given)),
    )


def _every_wrong_layer(given: Given) -> Iterator[tuple[str, Array]]:
    more = slips(S8, given.x, np.ascontiguousarray(given.w.T), lambda sums: _scaled(sums, given))
    return beyond(_wrong_layers(given), more)


# ---------------------------------------------------------------------------------------------- the rows

MANUAL = "9.7.14.5.14"

EXERCISES = [
    Exercise(
        "clamped_too_early",
        "Clamped too early",
        "`.satfinite` clamps the result of every instruction, not the result of the whole sum. Make A (16, 64) and B "
        "(64, 8) of int8 and C (16, 8) of int32, for which `D[0][0]`, computed by two `mma.sync` m16n8k32, is exact "
        "without `.satfinite` and wrong with it. The answer, `clamped_too_early`, is A, B, C.",
        Crafted(
            {"A": ((16, 64), np.int8), "B": ((64, 8), np.int8), "C": ((16, 8), np.int32)},
            _too_early,
            "Wrapping around is exact here, and clamping is not.",
            "both results of D[0][0]",
        ),
        minutes=10,
        know="what .satfinite does (notebook 07)",
        section=MANUAL,
        hints=(
            "The exact result must fit into s32. Must every partial sum?",
            "Make C almost as large as possible, so that the first 32 products go beyond the end.",
            "Then choose the other 32 products so that they bring the sum back.",
        ),
    ),
    Exercise(
        "without_zero_point",
        "Remove the zero point",
        "Activations are often stored as u8 with a zero point: the number is A − zero. `mma.sync` with u8 and s8 has "
        "computed D = A B + C from A (16, 64) in uint8, B (64, 8) in int8, and C, which the accumulator held before. "
        "Write `without_zero_point(B, zero, D)`, which returns (A − zero) B + C as an integer matrix. A and C are "
        'gone, and you do without them, as a kernel does. `given("without_zero_point")` has a B, a zero point and a '
        "D to try it with.",
        Values(_without_zero, np.int64, _wrong_corrections, what="D"),
        minutes=15,
        only=(),
        know="matrix products; why A − zero does not fit into s8 (notebook 07)",
        section=MANUAL,
        hints=(
            "Multiply (A − zero) B out, by hand, for one output.",
            "The part with the zero point does not depend on A. What does it depend on?",
            "Each column of D needs the sum of the same column of B.",
        ),
        draw=_draw_zero_point,
        points=2,
    ),
    Exercise(
        "quantise_rows",
        "Quantise the rows of a matrix",
        "Write `quantise_rows(numbers)`, which takes a float32 matrix (8, 32) and returns an int8 matrix. Each row has "
        "the scale that brings its largest magnitude to 127; divide by it in float32, and round to the nearest, ties "
        "to even.",
        Values(
            lambda given: _quantised(given.numbers, _scale(given.numbers)),
            np.int8,
            _wrong_quantisations,
            place=lambda index: f"Row {index[0]}, column {index[1]}",
        ),
        minutes=12,
        only=(),
        know="numpy; rounding (notebook 01)",
        section="",
        hints=(
            "The scale of a row is its largest magnitude divided by 127. keepdims=True helps.",
            "Which numpy function rounds to the nearest with ties to even?",
            "astype(np.int8) by itself truncates; round first.",
        ),
        draw=_draw_rows,
    ),
    Exercise(
        "quantised_layer",
        "A quantised layer",
        "Write a kernel `quantised_layer(warp, x, w, scale_x, scale_w, out)` for one warp. `x` (16, 96) and `w` (8, "
        "96) are s8, `scale_x` (16) and `scale_w` (8) float32, `out` (16, 8) float32. It stores out[i][j] = the exact "
        "integer sum over k of x[i][k] w[j][k], converted to float32, times scale_x[i], times scale_w[j], each "
        "product rounded. Use the s8 `mma.sync` m16n8k32. A row of `w` is a column of B, so four of its neighbours "
        "make up a register. `warp.ld_global(x.at(row, column))` loads four bytes for each lane.",
        Kernel(
            _layer_arguments, "out", _layer, {"block": 32}, _every_wrong_layer, needed=("mma.sync.aligned.m16n8k32",)
        ),
        minutes=40,
        know="a kernel with tcemu.launch (notebook 02), the fragments of m16n8k32 (notebook 04)",
        section="9.7.14.5.10",
        hints=(
            (
                "g, t = warp.laneid // 4, warp.laneid % 4. Register r of A holds row g + 8 (r mod 2), and k from 4 t + "
                "16 (r // 2)."
            ),
            "Register r of B holds column g, and k from 4 t + 16 r: that is row g of w.",
            "np.hstack joins registers of shape (32, 1) to (32, 4). Three steps of 32 cover the 96 columns.",
            "Register i of D is row g + 8 (i // 2) and column 2 t + i mod 2. View it as int32 before you convert it.",
        ),
        draw=_draw_layer,
        points=4,
    ),
]
