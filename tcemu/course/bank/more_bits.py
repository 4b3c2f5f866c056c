"""Exercises of notebook 06 about more bits than an instruction keeps: promotion, and three products of tf32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Values
from tcemu.course.record import Exercise, Given
from tcemu.formats import lookup
from tcemu.instructions import matmul, parse

Array = npt.NDArray[Any]

TF32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"
MANUAL, WARPGROUP = "9.7.14.5.14", "9.7.15.5.2"

# ---------------------------------------------------------------------------------------------- promotion


def _draw_fp8(rng: np.random.Generator) -> Mapping[str, Any]:
    instruction = parse(WGMMA)
    a, b = rng.uniform(0, 2, (64, 512)), rng.uniform(0, 2, (512, 8))
    return {"A": a.astype(instruction.types["a"].dtype), "B": b.astype(instruction.types["b"].dtype)}


def _promoted(given: Given, every: int = 128, instruction: str = WGMMA) -> Array:
    total = np.zeros((64, 8), np.float32)
    for k in range(0, given.A.shape[1], every):
        total = total + matmul(given.A[:, k : k + every], given.B[k : k + every], instruction=instruction)
    return total


def _wrong_promotions(given: Given) -> Iterator[tuple[str, Array]]:
    yield "Nothing is promoted: this is the accumulator after all of k.", _promoted(given, 512)
    yield "You promote after every instruction, 32 of k; here it is every 128.", _promoted(given, 32)
    yield "You promote every 64 of k; here it is every 128.", _promoted(given, 64)
    yield "You promote every 256 of k; here it is every 128.", _promoted(given, 256)
    chained = _promoted(given, 512)
    for k in range(0, 384, 128):
        chained = chained + matmul(given.A[:, : k + 128], given.B[: k + 128], instruction=WGMMA)
    yield "You do not clear the accumulator after promoting it: it is counted several times.", chained
    for every in (512, 128):
        yield (
            "You multiplied with mma.sync, which turns fp8 into f16 and keeps 25 bits; use wgmma.",
            (_promoted(given, every, FP8)),
        )
    exact = (given.A.astype(np.float64) @ given.B.astype(np.float64)).astype(np.float32)
    yield "This is the exact product, which no tensor core computed.", exact
    plain = given.A.astype(np.float32) @ given.B.astype(np.float32)
    yield "This is numpy's product, and not the tensor core's.", plain


# ---------------------------------------------------------------------------------------------- three products of tf32


def _draw_products(rng: np.random.Generator) -> Mapping[str, Any]:
    """Matrices with which the order of the two small products of `three_tf32` does not matter, as it rarely does."""
    while True:
        drawn = {"A": rng.normal(size=(16, 64)).astype(np.float32), "B": rng.normal(size=(64, 8)).astype(np.float32)}
        if np.array_equal(_three(Given(drawn)), _three(Given(drawn), "hl lh hh")):
            return drawn


def _tf32(numbers: Array, rounding: str = "rna") -> Array:
    rounded: Array = lookup("tf32").encode(numbers, rounding=rounding).view(np.float32)
    return rounded


def _three(given: Given, order: str = "lh hl hh", first: str = "rna", second: str = "rna") -> Array:
    """A chain of products of high (h) and low (l) parts of A and B, in some order."""
    parts = {}
    for name in "AB":
        high = _tf32(given[name], first)
        parts[name] = {"h": high, "l": _tf32(given[name] - high, second)}
    total = np.zeros((16, 8), np.float32)
    for pair in order.split():
        total = matmul(parts["A"][pair[0]], parts["B"][pair[1]], total, instruction=TF32)
    return total


def _wrong_threes(given: Given) -> Iterator[tuple[str, Array]]:
    apart = [_three(given, pair) for pair in ("lh", "hl", "hh")]
    wrong = {
        "This is a single tf32 product: the low parts are missing.": _three(given, "hh"),
        "This is a single tf32 product, whose operands the hardware truncates: split the numbers first.": (
            matmul(given.A, given.B, instruction=TF32)
        ),
        "You truncated to get the high parts: round to the nearest, so that the low parts are small.": (
            _three(given, first="rz")
        ),
        "You left the low parts to the hardware, which truncates them: round them, too.": _three(given, second="rz"),
        "You truncated the high and the low parts: round both to the nearest.": _three(given, first="rz", second="rz"),
        "You sent ties to the even number, as .rn does; .rna sends them away from zero.": (
            _three(given, first="rn", second="rn")
        ),
        "The large product comes last here, so that the small ones are not cut off against it.": (
            _three(given, "hh hl lh")
        ),
        "You added the product of the two low parts: here there are three products.": _three(given, "ll lh hl hh"),
        "You multiplied the two low parts in place of A's low parts times B's high ones.": _three(given, "ll hl hh"),
        "You multiplied the two low parts in place of A's high parts times B's low ones.": _three(given, "ll lh hh"),
        "One of the two products of a low and a high part is missing: B's low parts.": _three(given, "lh hh"),
        "One of the two products of a low and a high part is missing: A's low parts.": _three(given, "hl hh"),
        "You added the three products afterwards; each one is the C of the next here.": apart[0] + apart[1] + apart[2],
        "This is the exact product, which no tensor core computed.": (
            (given.A.astype(np.float64) @ given.B.astype(np.float64)).astype(np.float32)
        ),
    }
    yield from wrong.items()


EXERCISES = [
    Exercise(
        "promoted",
        "Promote every 128 of k",
        "Write `promoted(A, B)`, which multiplies two e4m3 matrices, (64, 512) and (512, 8), as fp8 kernels on "
        "Hopper do: `tcemu.matmul` with the `wgmma` of this notebook computes 128 of k from zero, and the result is "
        "added to a float32 sum by ordinary additions, k ascending.",
        Values(_promoted, np.float32, _wrong_promotions, what="D"),
        minutes=8,
        only=("tcemu.matmul", "tcemu.parse"),
        know="that wgmma keeps 13 bits of an fp8 accumulator (notebook 06)",
        section=WARPGROUP,
        hints=(
            "tcemu.matmul starts from zero if you give it no C.",
            "A[:, k : k + 128] and B[k : k + 128] are one part of k. How many parts are there?",
            "Start with a float32 matrix of zeros, and add each part to it.",
        ),
        draw=_draw_fp8,
    ),
    Exercise(
        "three_tf32",
        "Three tf32 products for one float32 product",
        "No tensor core multiplies float32. Write `three_tf32(A, B)`, which comes close: split each number x of the "
        "float32 matrices A (16, 64) and B (64, 8) into a high part, x rounded to tf32, and a low part, the rest, "
        "rounded to tf32 as well, both to the nearest with ties away from zero, as `cvt.rna.tf32.f32` does. Return "
        "the chain of three products, each the C of the next: A low times B high, then A high times B low, then A "
        "high times B high, all with the tf32 `mma.sync` m16n8k8. Compare its error with a single product's.",
        Values(_three, np.float32, _wrong_threes, what="D"),
        minutes=20,
        only=(
            "tcemu.matmul",
            "tcemu.parse",
            "tcemu.formats.lookup",
            "tcemu.formats.Format.decode",
            "tcemu.formats.Format.encode",
        ),
        know="how to round to tf32 (notebook 01), and what a cut does to small terms (notebook 06)",
        section="9.7.14.5.7",
        hints=(
            (
                "formats.lookup makes tf32 patterns from numbers, with the rounding that you ask for; a view makes "
                "them floats."
            ),
            "x − high is exact in float32. How many of its bits does a tf32 keep?",
            "tcemu.matmul takes the result of one product as the third argument of the next.",
        ),
        draw=_draw_products,
        points=2,
    ),
]
