"""Exercises of notebook 06 about the order of k: who computed a product, and what a probe and an input show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Crafted, Values
from tcemu.course.record import REGISTERS, Exercise, Given
from tcemu.instructions import matmul
from tcemu.recipes import Recipe, multiply, probe

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------- what a probe shows

_DEPTH = 64
#: Pairs of parts and run; a pair with its numbers swapped is none of the other pairs.
_PARTS = [(2, 4), (8, 4), (2, 8), (4, 8), (2, 16), (4, 16), (2, 32)]


def _probed(parts: int, run: int) -> tuple[Array, Array, Array]:
    """A and B of a probe, all of whose rows and columns are marked, and the product of somebody's f32 kernel."""
    a, b = probe("f32", 2 * _DEPTH, 2 * _DEPTH, _DEPTH)
    a, b = a[:_DEPTH], b[:, :_DEPTH]
    return a, b, multiply(Recipe("fma.rn.f32", tile=run, slices=parts), a, b)


def _draw_parts(rng: np.random.Generator) -> Mapping[str, Any]:
    a, b, d = _probed(*_PARTS[int(rng.integers(len(_PARTS)))])
    return {"A": a, "B": b, "D": d}


def _parts(given: Given) -> list[int]:
    return next([*way] for way in _PARTS if np.array_equal(_probed(*way)[2], given.D))


def _not_parts(given: Given) -> Iterable[tuple[str, npt.ArrayLike]]:
    parts, run = _parts(given)
    yield "You swapped them: `parts` counts sums, and `run` the neighbouring k that go to one of them.", [run, parts]
    if parts * run < _DEPTH:
        yield "You counted runs, but several runs go to the same part.", [_DEPTH // run, run]
        yield "The parts are right. Their k are not all neighbours: the parts take turns.", [parts, _DEPTH // parts]
    for other in (1, 2, 4, 8, 16, 32, 64):
        yield "The parts are right. Where does row 0 of D fall by more than 1 for the first time?", [parts, other]
        yield "The run is right. How many products do part 0 and part 1 have together?", [other, run]


# ---------------------------------------------------------------------------------------------- an input that tells

_F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_LONG = 256


def _draw_splits(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"splits": int(rng.choice([2, 4, 8]))}


def _only_split_is_exact(arrays: Mapping[str, Array], given: Given) -> str:
    """What is wrong with two vectors whose product should be exact only with splits; empty if nothing is."""
    a, b = arrays["a"][None], arrays["b"][:, None]
    products = a[0].astype(float) * b[:, 0].astype(float)
    if not np.isfinite(products).all():
        return "A product is infinite or NaN: then no order matters."
    if (products < 0).any():
        return f"Product {int(np.argmin(products))} is negative, but none may be."
    exact = float(products.sum())  # exact: products of f16 are multiples of 2^-48, and the judge compares f32
    chain, parts = (float(multiply(Recipe(_F16, splits=n), a, b)[0, 0]) for n in (1, given.splits))
    sums = f"The exact sum is {exact:.10g}; one chain gives {chain:.10g}, {given.splits} parts give {parts:.10g}."
    if chain == parts == exact:
        return f"{sums} Nothing is lost: a sum has to grow beyond the 24 bits that a float32 has."
    if chain == parts:
        return f"{sums} The parts lose as much: put the small products and the large one into different parts."
    if parts != exact:
        return f"{sums} They differ, but the parts are not exact: is a sum too long for a float32?"
    return ""


# ---------------------------------------------------------------------------------------------- a chip, and parts of k

_WAYS = [(target, splits) for target in (80, 90) for splits in (1, 2, 4)]


def _split(a: Array, b: Array, target: int, splits: int) -> Array:
    """A product of which each of `splits` equal shares of k is computed by itself; float32 additions join them."""
    part = a.shape[1] // splits
    total: Array = matmul(a[:, :part], b[:part], instruction=_F16, target=f"sm_{target}")
    for k in range(part, a.shape[1], part):
        total = total + matmul(a[:, k : k + part], b[k : k + part], instruction=_F16, target=f"sm_{target}")
    return total


def _draw_whose(rng: np.random.Generator) -> Mapping[str, Any]:
    a, b = rng.normal(size=(16, 256)).astype(np.float16), rng.normal(size=(256, 8)).astype(np.float16)
    return {"A": a, "B": b, "D": _split(a, b, *_WAYS[int(rng.integers(len(_WAYS)))])}


def _whose(given: Given) -> list[int]:
    return next([*way] for way in _WAYS if np.array_equal(_split(given.A, given.B, *way), given.D))


def _not_whose(given: Given) -> Iterable[tuple[str, npt.ArrayLike]]:
    right = _whose(given)
    for target, splits in _WAYS:
        if [target, splits] != right:
            other = int((_split(given.A, given.B, target, splits) != given.D).sum())
            near = "The target is right. " * (target == right[0]) + "The splits are right. " * (splits == right[1])
            way = f"With target sm_{target} and splits = {splits}"
            yield f"{near}{way}, {other} of {given.D.size} outputs have different bits.", [target, splits]


EXERCISES = [
    Exercise(
        "whose_bits",
        "Whose bits are these?",
        "Write `whose_bits(A, B, D)`. A (16, 256) and B (256, 8) are float16, and D is their float32 product, computed "
        "with `mma.sync` m16n8k16: on an A100 or an H100 (target 80 or 90), with k in 1, 2 or 4 equal parts "
        "(splits), each part a chain from zero, and the parts joined by float32 additions in ascending order. Which "
        'was it? Return `{"target": 80, "splits": 1}` or the like, without `tcemu.recipes`. '
        '`given("whose_bits")` has an A, B and D to try it with.',
        Values(_whose, np.int64, _not_whose, names=("target", "splits")),
        minutes=20,
        only=("tcemu.matmul", *REGISTERS),
        know="tcemu.matmul, and split-K (notebook 06)",
        section="9.7.14.5.14",
        hints=(
            "There are six possibilities: compute them all, and compare bits, not with allclose.",
            'tcemu.matmul(A[:, :64], B[:64], instruction=..., target="sm_80") is the first of four parts.',
            "Add the parts with +, in float32, from the lowest k up, and count the outputs that equal D.",
        ),
        draw=_draw_whose,
        points=2,
    ),
    Exercise(
        "parts_of_k",
        "What a probe shows",
        "A float32 kernel adds 64 products with fused multiply-adds. It distributes k: `run` neighbouring k go to "
        "part 0, the next `run` to part 1 and so on, and after the last part to part 0 again. Each part is a chain "
        "from zero, and the parts are added from left to right. D (64, 64) is the product of a probe: row i of A is "
        "ones and 2⁶⁰ at k = i, column j of B is ones and −2⁶⁰ at k = j. Write `parts_of_k(A, B, D)`, which reads D "
        'and returns `{"parts": 2, "run": 32}` or the like. `given("parts_of_k")` has an A, B and D to look at.',
        Values(_parts, np.int64, _not_parts, names=("parts", "run")),
        minutes=15,
        only=(),
        know="what a probe is (notebook 06)",
        section="9.7.14.5.14",
        hints=(
            "64 − D[0][j] is how many products are in the smallest sum that has both k = 0 and k = j. Print D[0].",
            "As long as j is in the first run, each sum has one product more than the one before.",
            "As soon as j is in part 1, the smallest sum with both is the sum of two whole parts.",
        ),
        draw=_draw_parts,
        points=2,
    ),
    Exercise(
        "only_split_is_exact",
        "Where split-K is right",
        "An H100 adds 256 products of float16 with `mma.sync` m16n8k16, in one chain or in "
        '`given("only_split_is_exact").splits` equal parts of neighbouring k, each a chain from zero, whose float32 '
        "sums are added from left to right. Find `a` and `b`, 256 float16 numbers each, none of whose products is "
        "negative, for which the parts give the exact sum and one chain does not. The answer, `only_split_is_exact`, "
        "is the pair a, b.",
        Crafted(
            {"a": ((_LONG,), np.float16), "b": ((_LONG,), np.float16)},
            _only_split_is_exact,
            "The parts give the exact sum, and one chain does not.",
            "the bits of both sums on sm_90a",
        ),
        minutes=15,
        know="that a chain is rounded toward zero after each instruction, and split-K (notebook 06)",
        section="9.7.14.5.14",
        hints=(
            "A float32 has 24 bits: 2²⁴ + 1 does not fit, and 2²⁴ + 2 does.",
            "Put 2²⁴ at the start of k. What must be in a separate instruction to be lost in one chain?",
            "Two ones in two instructions of the second part are lost one by one in a chain; in the part they are 2.",
        ),
        draw=_draw_splits,
        points=2,
    ),
]
