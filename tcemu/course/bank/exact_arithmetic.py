"""Exercises of notebook 06: how many bits a tensor core keeps, and inputs that show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import FusedSums, fused_sum
from tcemu.course.judges import Crafted
from tcemu.course.judges.probe import Probe
from tcemu.course.record import Exercise, Given
from tcemu.errors import TableError
from tcemu.formats import lookup, unpack
from tcemu.instructions import matmul, parse

Array = npt.NDArray[Any]

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"
_f32, _e4m3 = lookup("f32"), lookup("e4m3")
MANUAL, WARPGROUP = "9.7.14.5.14", "9.7.15.5.2"

# ---------------------------------------------------------------------------------------------- black boxes

_KEPT = (23, 24, 25)


def _chip(fraction: int) -> Callable[..., float]:
    """A chip that adds floats in one fused sum: each is a product of an f32 and 1."""
    one, zero = unpack(_f32, 0x3F800000), unpack(_f32, 0)
    model = FusedSums(fraction, None, None)

    def add(*terms: float) -> float:
        numbers = [unpack(_f32, int(np.float32(term).view(np.uint32))) for term in terms]
        steps = fused_sum(model, [(k, number, one) for k, number in enumerate(numbers)], zero, _f32)
        return float(np.uint32(steps.result).view(np.float32))

    return add


def _boxes(given: Given) -> Mapping[str, tuple[Callable[..., Any], int]]:
    return {f"chip {number}": (_chip(kept), kept) for number, kept in enumerate(given.kept, 1)}


def _miscounted(given: Given) -> Mapping[str, list[int]]:
    kept = list(map(int, given.kept))
    return {
        "One too many: this is the first bit that is lost, not the last one that is kept.": [k + 1 for k in kept],
        "One too few: the bit at 2⁻ⁿ below the largest exponent is still kept.": [k - 1 for k in kept],
        "You did not cancel the large term: the f32 result then hides all but 23 bits.": [min(k, 23) for k in kept],
        "You subtracted the large term in a second sum: the f32 result of the first had already lost the bits.": [
            min(k, 23) for k in kept
        ],
        "This is the number of the H100, 25, for every chip: probe the one you are given.": [25] * len(kept),
    }


def _draw_boxes(rng: np.random.Generator) -> Mapping[str, Any]:
    others = rng.choice([9, 10, 13, 14, 17, 20, 27, 30], 3, replace=False)
    return {"kept": tuple(int(k) for k in rng.permutation([*_KEPT, *others]))}


# ---------------------------------------------------------------------------------------------- two chips


#: Products of D[0][0] that are not 0: random numbers tell the chips apart, too, but nobody anything.
_FEW = 4


def _two_generations(evidence: Mapping[str, Array], given: Given) -> str:
    a, b = evidence["A"], evidence["B"]
    products = a[0].astype(np.float64) * b[:, 0].astype(np.float64)
    if not np.isfinite(products).all():
        return "A factor of D[0][0] is infinite or NaN, which decides the result on every chip: use finite numbers."
    if not products.any():
        return "All products of D[0][0] are zero: row 0 of A has to meet something in column 0 of B."
    old, new = (matmul(a, b, instruction=F16, target=name)[0, 0] for name in ("sm_80", "sm_90a"))
    if old.view(np.uint32) != new.view(np.uint32):
        count = np.count_nonzero(products)
        few = "With four you can say which bit only the H100 keeps, and why it is in the result."
        return "" if count <= _FEW else f"They differ, but {count} products of D[0][0] are not 0. {few}"
    sizes = np.abs(products[products != 0])
    both = f"An A100 and an H100 both give {float(new):g}."
    if sizes.max() / sizes.min() < 2.0**23:
        times = f"{sizes.max() / sizes.min():g} times"
        return f"{both} The largest product is only {times} the smallest: nothing is cut off."
    if abs(float(products.sum())) >= sizes.max() / 2:
        return f"{both} The result is as large as the largest product, so the f32 hides the low bits: cancel it."
    return f"{both} Either both cut your small product off, or both keep it: an A100 keeps 24 bits, an H100 25."


# ---------------------------------------------------------------------------------------------- two instructions


def _fp8_two_ways(evidence: Mapping[str, Array], given: Given) -> str:
    numbers = [evidence["a"], evidence["b"]]
    for name, values in zip("ab", numbers, strict=True):
        kept = _e4m3.decode(_e4m3.encode(values))
        if not np.array_equal(kept, values):
            first = int(np.argmax(kept != values))
            return f"{name}[{first}] = {values[first]:g} is not an e4m3 number: the nearest one is {kept[first]:g}."
    exact = float(np.sum(numbers[0] * numbers[1]))
    if not exact:
        return "The exact sum is zero, so nothing can be off by a part of it."
    warp, group = (_fp8(name, *numbers) for name in (FP8, WGMMA))
    said = f"mma.sync gives {warp:g}, wgmma gives {group:g}, and the exact sum is {exact:g}."
    if warp == group:
        sizes = np.abs(numbers[0] * numbers[1])
        span = sizes.max() / sizes[sizes > 0].min()
        return f"{said} wgmma keeps 13 bits below the largest exponent; your products differ by a factor of {span:g}."
    if warp != exact:
        return f"{said} mma.sync is not exact either: are your small products too small even for 25 bits?"
    if abs(group - exact) < abs(exact) / given.part:
        return f"{said} They differ, but by less than 1 part in {given.part}: let many small products be lost."
    return ""


def _fp8(opcode: str, a: Array, b: Array) -> float:
    instruction = parse(opcode)
    left = np.zeros((instruction.shape.m, 32), instruction.types["a"].dtype)
    right = np.zeros((32, instruction.shape.n), instruction.types["b"].dtype)
    left[0], right[:, 0] = a, b
    return float(matmul(left, right, instruction=instruction)[0, 0])


# ---------------------------------------------------------------------------------------------- an order of k


def _order_of_k(evidence: Mapping[str, Array], given: Given) -> str:
    order, terms = evidence["order"], given.terms
    if sorted(order.tolist()) != list(range(len(terms))):
        return f"An order holds each number from 0 to {len(terms) - 1} once."
    got, exact = _in_order(terms[order]), float(terms.astype(np.float64).sum())
    if got == exact:
        return ""
    large = np.abs(terms[order]) >= 2**11
    said = f"In your order an A100 gives {got:g}, and the exact sum is {exact:g}."
    if np.array_equal(order, np.arange(len(terms))):
        return f"{said} This is the order in which they came."
    if large[-8:].any() and not large[:8].any():
        return f"{said} The small terms come first, but their sum is then c of a sum with large terms, and is cut off."
    mixed = [part for part in range(4) if 0 < large[8 * part : 8 * part + 8].sum() < 8]
    if mixed:
        products = f"Products {8 * mixed[0]} to {8 * mixed[0] + 7}"
        return f"{said} {products} are one fused sum, with large and small terms in it."
    return f"{said} Are the large terms gone before the small ones come?"


def _in_order(terms: Array) -> float:
    a, b = np.zeros((16, 32), np.float16), np.ones((32, 8), np.float16)
    a[0] = terms
    return float(matmul(a, b, instruction=F16, target="sm_80")[0, 0])


def _draw_terms(rng: np.random.Generator) -> Mapping[str, Any]:
    """Eight large terms that cancel, and 24 small ones above 0: what an A100 loses of these cannot cancel."""
    for _ in range(1000):
        large = (1024 + rng.choice(1024, 4, replace=False)) * 2.0 ** rng.integers(2, 6, 4)
        small = (2 * rng.integers(1, 80, 24) + 1) * 2.0**-15
        terms = rng.permutation(np.concatenate([large, -large, small])).astype(np.float16)
        obvious = terms, np.sort(terms), terms[np.argsort(np.abs(terms), kind="stable")]
        if all(_in_order(each) != float(terms.astype(np.float64).sum()) for each in obvious):
            return {"terms": terms}
    raise TableError("an A100 loses nothing of these terms")


EXERCISES = [
    Exercise(
        "bits_kept",
        "How many bits does this chip keep?",
        "Write `bits_kept(add)`. `add(x, y, ...)` is a chip as a black box: it adds up to 16 numbers in one "
        "fused sum, and returns a float32. Return how many bits it keeps below the largest exponent: the largest n for "
        "which a term that is 2ⁿ times smaller than the largest one still counts.",
        Probe("add", "bits", _boxes, _miscounted),
        minutes=8,
        only=("tcemu.course.bank.exact_arithmetic._chip",),
        know="how a fused sum cuts its terms off (notebook 00, and the first section of notebook 06)",
        section=MANUAL,
        hints=(
            "Add 1 and a small power of two, and watch when the small one disappears.",
            "The result has only 24 bits. What do you have to add so that the small term alone is left?",
            "Try add(1, 2**-n, -1) for n = 1, 2, 3 and so on: which is the last n for which it is not 0?",
        ),
        draw=_draw_boxes,
    ),
    Exercise(
        "tell_a100_from_h100",
        "Tell an A100 from an H100",
        "Make matrices A (16, 16) and B (16, 8) of float16, for which `D[0][0]` of `mma.sync` m16n8k16 with f32 "
        "results and C = 0 has different bits on an A100 (sm_80) and on an H100 (sm_90a), and of whose 16 products at "
        "most four are not 0. The answer, `tell_a100_from_h100`, is the pair A, B.",
        Crafted(
            {"A": ((16, 16), np.float16), "B": ((16, 8), np.float16)},
            _two_generations,
            "The two chips give different bits.",
            "the bits of D[0][0] on sm_80 and on sm_90a",
        ),
        minutes=8,
        know="chains of fused sums, and how many bits each chip keeps (notebook 06)",
        section=MANUAL,
        hints=(
            "An A100 keeps 24 bits and an H100 25: put something where only one of them looks.",
            "The result has only 24 bits, so the large term must not stay in it: cancel it.",
            (
                "You need three products: x, −x and one that is 2⁻²⁵ of x. float16 reaches 65504, so let A and B "
                "share the large power of two."
            ),
        ),
    ),
    Exercise(
        "fp8_two_ways",
        "Where mma.sync and wgmma disagree",
        "On one H100, `mma.sync` m16n8k32 and `wgmma` m64n8k32 multiply the same e4m3 numbers. Find 32 numbers `a` "
        "and 32 numbers `b` for which `mma.sync` gives the exact sum a₀b₀ + … + a₃₁b₃₁, and `wgmma` is off by at "
        'least one part in `given("fp8_two_ways").part`. The answer, `fp8_two_ways`, is the pair a, b: two float64 '
        "arrays of numbers that e4m3 has.",
        Crafted(
            {"a": ((32,), np.float64), "b": ((32,), np.float64)},
            _fp8_two_ways,
            "mma.sync is exact, and wgmma is off by enough.",
            "what the two instructions give on sm_90a",
        ),
        minutes=15,
        know="both ways in which an H100 multiplies fp8 (notebook 06)",
        section=WARPGROUP,
        hints=(
            "wgmma cuts 13 bits below the largest exponent, mma.sync 25: put products between the two.",
            "One large product sets the cut; all others can be small. How small is too small for 13 bits?",
            "31 small products, each just below the cut, are together almost 31 times the cut.",
        ),
        draw=lambda rng: {"part": int(rng.integers(500, 700))},
        points=2,
    ),
    Exercise(
        "order_of_k",
        "An order in which nothing is lost",
        '`given("order_of_k").terms` are 32 float16 numbers. An A100 adds them with two `mma.sync` m16n8k16, k '
        "ascending: they are row 0 of A, and B is all ones. In the order in which they come, the result is wrong. The "
        "exact sum stays the same if you reorder the columns of A and the rows of B in the same way. The answer, "
        "`order_of_k`, is an order, the numbers 0 to 31 once each, in which the A100 gives the exact sum of the terms.",
        Crafted(
            {"order": ((32,), np.int64)},
            _order_of_k,
            "In this order the sum is exact.",
            "the result on sm_80 in your order",
        ),
        minutes=15,
        know="how an A100 chains its fused sums (notebook 06)",
        section=MANUAL,
        hints=(
            "An A100 adds 8 products in one fused sum. How many large terms are there?",
            "The result of one sum is a term of the next. Where must the large terms go so that it is small?",
            "Let the eight large terms be the first fused sum: they cancel, and c of the next sum is zero.",
        ),
        draw=_draw_terms,
        points=2,
    ),
]
