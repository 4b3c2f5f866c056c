"""Exercises of notebook 06: how tensor cores add, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import FusedSum, FusedSums, compute, fused_sum
from tcemu.course.judges import Crafted, Values
from tcemu.course.judges.probe import Probe
from tcemu.course.record import Exercise, Given
from tcemu.errors import TableError
from tcemu.formats import lookup, round_exact, unpack
from tcemu.instructions import matmul, parse, target_named

Array = npt.NDArray[Any]

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
TF32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"
_f16, _f32, _e4m3 = (lookup(name) for name in ("f16", "f32", "e4m3"))

# ---------------------------------------------------------------------------------------------- dots, and wrong ones

#: Turns one fused sum into the pattern of its result: what the chip does, or what somebody thinks it does.
Told = Callable[[FusedSum], int]


def _dot(model: FusedSums, a: Array, b: Array, c: float, told: Told) -> np.float32:
    """The chain of `model` over f16 factors, with each fused sum told in another way."""
    left, right = ([unpack(_f16, int(pattern)) for pattern in _f16.encode(x)] for x in (a, b))
    pattern = int(_f32.encode(c))
    for ks in model.sums(len(left)):
        pattern = told(fused_sum(model, [(k, left[k], right[k]) for k in ks], unpack(_f32, pattern), _f32))
    return np.uint32(pattern).view(np.float32)


def _as_it_is(steps: FusedSum) -> int:
    return steps.result


def _to_nearest(steps: FusedSum) -> int:
    return round_exact(_f32, steps.total, steps.largest - steps.fraction, "rn")


def _cut_down(steps: FusedSum) -> int:
    """As somebody cuts who shifts negative numbers to the right: toward minus infinity."""
    total = steps.total - sum(term.cut and term.significand < 0 for term in steps.terms)
    return round_exact(_f32, total, steps.largest - steps.fraction, "rz")


def _rounded_terms(steps: FusedSum) -> int:
    """As somebody adds who rounds each term to the nearest instead of cutting it off."""
    low = min(term.exponent - term.point for term in steps.terms)
    cut = steps.largest - steps.fraction
    if low >= cut:
        return steps.result
    total = sum(round((term.significand << (term.exponent - term.point - low)) / 2 ** (cut - low))
                for term in steps.terms)  # fmt: skip
    return round_exact(_f32, total, cut, "rz")


def _counted_from_the_top_bit(model: FusedSums) -> Told:
    """As somebody cuts who takes a product of 2 or more to have the next exponent."""

    def told(steps: FusedSum) -> int:
        tops = [abs(t.significand).bit_length() - 1 - t.point + t.exponent for t in steps.terms if t.significand]
        fewer = model.fraction - (max(tops) - steps.largest)
        total = sum(_cut(t.significand, fewer + t.exponent - steps.largest - t.point) for t in steps.terms)
        return round_exact(_f32, total, steps.largest - fewer, "rz")

    return told


def _cut(significand: int, shift: int) -> int:
    kept = abs(significand) << shift if shift >= 0 else abs(significand) >> -shift
    return -kept if significand < 0 else kept


def _one_after_the_other(a: Array, b: Array, c: float) -> np.float32:
    """Float32 arithmetic in a loop."""
    total = np.float32(c)
    for x, y in zip(a, b, strict=True):
        total = np.float32(total + np.float32(x) * np.float32(y))
    return total


def _exact(a: Array, b: Array, c: float) -> np.float32:
    return np.float32(np.sum(a.astype(np.float64) * b.astype(np.float64)) + np.float64(c))


# ---------------------------------------------------------------------------------------------- one sum by hand


def _wrong_sums(given: Given) -> Iterable[tuple[str, np.float32]]:
    a, b, c, model = given.a, given.b, given.c, FusedSums(25, None, None)
    ways: dict[str, tuple[float, FusedSums, Told]] = {
        "You added exactly and lost nothing: cut each term off before you add.": (
            c, FusedSums(200, None, None), _as_it_is,
        ),
        # an A100, which keeps 24 bits, gives the same here
        "You cut one bit too high: count 25 bits from the sum of the factors' exponents, whatever the product is.": (
            c, model, _counted_from_the_top_bit(model),
        ),
        "You rounded the terms to the nearest; what is below the cut is dropped.": (c, model, _rounded_terms),
        "You left out c: it is a term like the products.": (0.0, model, _as_it_is),
        "You cut negative terms toward minus infinity; the cut is toward zero.": (c, model, _cut_down),
    }  # fmt: skip
    loop = "This is float32 arithmetic, one addition after the other; a fused sum aligns all terms first."
    wrong = {says: _dot(chain, a, b, addend, told) for says, (addend, chain, told) in ways.items()}
    return (wrong | {loop: _one_after_the_other(a, b, c)}).items()


def _by_hand(given: Given) -> np.float32:
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    c = np.zeros((16, 8), np.float32)
    a[0, : len(given.a)], b[: len(given.b), 0], c[0, 0] = given.a, given.b, given.c
    found: np.float32 = matmul(a, b, c, instruction=F16)[0, 0]
    return found


def _draw_by_hand(rng: np.random.Generator) -> Mapping[str, Any]:
    """Four products and c for which every wrong way of adding gives another answer."""
    for _ in range(1000):
        high = int(rng.integers(10, 14))
        steep, flat = (1.0 + int(rng.integers(2, 4)) / 4 for _ in range(2))
        a = np.array([steep * 2.0**high, -steep * 2.0**high, 0, 0], np.float16)
        b = np.array([flat * 2.0**10, flat * 2.0**10, 0, 0], np.float16)
        for place, negative in ((2, False), (3, True)):
            low = high + 10 - 25 - int(rng.integers(-1, 2))
            a[place] = (-1.0 if negative else 1.0) * (8 + int(rng.integers(1, 8))) / 4
            b[place] = 2.0 ** (low - int(rng.integers(0, 2)))
        c = float((2 * int(rng.integers(4, 8)) + 1) * 2.0 ** (high + 10 - 26))
        numbers = Given({"a": a, "b": b, "c": c})
        answers = [_by_hand(numbers), *(wrong for _, wrong in _wrong_sums(numbers))]
        if len(set(map(float, answers))) == len(answers):
            return numbers
    raise TableError("no numbers tell all ways of adding apart")


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


# ---------------------------------------------------------------------------------------------- crafted inputs


def _two_generations(evidence: Mapping[str, Array], given: Given) -> str:
    a, b = evidence["A"], evidence["B"]
    products = a[0].astype(np.float64) * b[:, 0].astype(np.float64)
    if not np.isfinite(products).all():
        return "A factor of D[0][0] is infinite or NaN, which decides the result on every chip: use finite numbers."
    if not products.any():
        return "All products of D[0][0] are zero: row 0 of A has to meet something in column 0 of B."
    old, new = (matmul(a, b, instruction=F16, target=name)[0, 0] for name in ("sm_80", "sm_90a"))
    if old.view(np.uint32) != new.view(np.uint32):
        return ""
    sizes = np.abs(products[products != 0])
    both = f"An A100 and an H100 both give {float(new):g}."
    if sizes.max() / sizes.min() < 2.0**23:
        times = f"{sizes.max() / sizes.min():g} times"
        return f"{both} The largest product is only {times} the smallest: nothing is cut off."
    if abs(float(products.sum())) >= sizes.max() / 2:
        return f"{both} The result is as large as the largest product, so the f32 hides the low bits: cancel it."
    return f"{both} Either both cut your small product off, or both keep it: an A100 keeps 24 bits, an H100 25."


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
    found = parse(opcode)
    left = np.zeros((found.shape.m, 32), found.types["a"].dtype)
    right = np.zeros((32, found.shape.n), found.types["b"].dtype)
    left[0], right[:, 0] = a, b
    return float(matmul(left, right, instruction=found)[0, 0])


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
    """Eight large terms that cancel, and 24 small ones, of which an A100 loses some."""
    for _ in range(1000):
        large = (1024 + rng.choice(1024, 4, replace=False)) * 2.0 ** rng.integers(2, 6, 4)
        small = (2 * rng.integers(-40, 40, 24) + 1) * 2.0**-15
        terms = rng.permutation(np.concatenate([large, -large, small])).astype(np.float16)
        obvious = terms, np.sort(terms), terms[np.argsort(np.abs(terms), kind="stable")]
        if all(_in_order(each) != float(terms.astype(np.float64).sum()) for each in obvious):
            return {"terms": terms}
    raise TableError("an A100 loses nothing of these terms")


# ---------------------------------------------------------------------------------------------- the chain in numpy

_CASES = 24


def _draw_cases(rng: np.random.Generator) -> Mapping[str, Any]:
    """Dot products whose terms are of all sizes, some of which cancel."""
    a, b = ((rng.normal(size=(_CASES, 16)) * 2.0 ** rng.integers(-6, 7, (_CASES, 16))).astype(np.float16) for _ in "ab")
    a[::2, 5], b[::2, 5] = -a[::2, 2], b[::2, 2]
    a[::3, 12], b[::3, 12] = -a[::3, 9], b[::3, 9]
    c = (rng.normal(size=_CASES) * 2.0 ** rng.integers(-8, 9, _CASES)).astype(np.float32)
    return {"a": a, "b": b, "c": c}


def _on_a100(given: Given) -> Array:
    """What the emulator computes: one output for each case."""
    operation = parse(F16).operation(target_named("sm_80"))
    a, b, c = given.a.view(np.uint16), given.b.view(np.uint16), given.c.view(np.uint32)
    return compute(operation, a[:, None, :], b[:, :, None], c[:, None, None]).view(np.float32).reshape(-1)


def _wrong_chains(given: Given) -> Iterable[tuple[str, Array]]:
    ampere = FusedSums(24, 8, None)
    ways: dict[str, tuple[FusedSums, Told]] = {
        "This is one sum of 16 products: an A100 adds 8, rounds, and adds the other 8 to that.": (
            FusedSums(24, 16, None), _as_it_is,
        ),
        "You keep 25 bits, as an H100 does; an A100 keeps 24.": (FusedSums(25, 8, None), _as_it_is),
        "This is an H100's answer: one sum of 16 products, 25 bits kept.": (FusedSums(25, 16, None), _as_it_is),
        "You round each sum to the nearest f32; the tensor core rounds toward zero.": (ampere, _to_nearest),
        "You shift negative terms to the right, which cuts them toward minus infinity: cut the magnitude.": (
            ampere, _cut_down,
        ),
        "You count the bits from the product's highest bit: its exponent is the sum of its factors' exponents.": (
            ampere, _counted_from_the_top_bit(ampere),
        ),
        "You round the terms to the nearest; what is below the cut is dropped.": (ampere, _rounded_terms),
        "You do not cut the terms off before you add them.": (FusedSums(200, 8, None), _as_it_is),
    }  # fmt: skip
    cases = list(zip(given.a, given.b, given.c, strict=True))
    wrong = {says: [_dot(model, *case, told) for case in cases] for says, (model, told) in ways.items()}
    wrong |= {
        "This is float32 arithmetic, one addition after the other.": [_one_after_the_other(*case) for case in cases],
        "This is the exact sum, rounded once.": [_exact(*case) for case in cases],
    }
    return ((says, np.array(found, np.float32)) for says, found in wrong.items())


# ---------------------------------------------------------------------------------------------- tf32, promotion, split-


def _draw_products(rng: np.random.Generator) -> Mapping[str, Any]:
    """Matrices with which the order of the two small products of `three_tf32` does not matter, as it rarely does."""
    while True:
        drawn = {"A": rng.normal(size=(16, 64)).astype(np.float32), "B": rng.normal(size=(64, 8)).astype(np.float32)}
        if np.array_equal(_three(Given(drawn)), _three(Given(drawn), "hl lh hh")):
            return drawn


def _tf32(numbers: Array, rounding: str = "rna") -> Array:
    found: Array = lookup("tf32").encode(numbers, rounding=rounding).view(np.float32)
    return found


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
        "This is one product of tf32: the low parts are missing.": _three(given, "hh"),
        "This is one product of tf32, whose operands the hardware truncates: split the numbers first.": (
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
        "You put the large product first; the rest is in the right order.": _three(given, "hh lh hl"),
        "You added the product of the two low parts: here there are three products.": _three(given, "ll lh hl hh"),
        "One of the two products of a low and a high part is missing: B's low parts.": _three(given, "lh hh"),
        "One of the two products of a low and a high part is missing: A's low parts.": _three(given, "hl hh"),
        "You added the three products afterwards; each one is the C of the next here.": apart[0] + apart[1] + apart[2],
        "This is the exact product, which no tensor core computed.": (
            (given.A.astype(np.float64) @ given.B.astype(np.float64)).astype(np.float32)
        ),
    }
    yield from wrong.items()


def _draw_fp8(rng: np.random.Generator) -> Mapping[str, Any]:
    found = parse(WGMMA)
    a, b = rng.uniform(0, 2, (64, 512)), rng.uniform(0, 2, (512, 8))
    return {"A": a.astype(found.types["a"].dtype), "B": b.astype(found.types["b"].dtype)}


def _promoted(given: Given, every: int = 128) -> Array:
    total = np.zeros((64, 8), np.float32)
    for k in range(0, given.A.shape[1], every):
        total = total + matmul(given.A[:, k : k + every], given.B[k : k + every], instruction=WGMMA)
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
    yield "You multiplied with mma.sync, which turns fp8 into f16 and keeps 25 bits; use wgmma.", (
        matmul(given.A, given.B, instruction=FP8)
    )
    exact = (given.A.astype(np.float64) @ given.B.astype(np.float64)).astype(np.float32)
    yield "This is the exact product, which no tensor core computed.", exact
    plain = given.A.astype(np.float32) @ given.B.astype(np.float32)
    yield "This is numpy's product, and not the tensor core's.", plain


_WAYS = [(target, splits) for target in (80, 90) for splits in (1, 2, 4)]


def _split(a: Array, b: Array, target: int, splits: int) -> Array:
    """A product of which each of `splits` equal shares of k is computed by itself; float32 additions join them."""
    part = a.shape[1] // splits
    total: Array = matmul(a[:, :part], b[:part], instruction=F16, target=f"sm_{target}")
    for k in range(part, a.shape[1], part):
        total = total + matmul(a[:, k : k + part], b[k : k + part], instruction=F16, target=f"sm_{target}")
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
            yield f"{near}{way}, {other} of {given.D.size} outputs have other bits.", [target, splits]


# ---------------------------------------------------------------------------------------------- the rows

MANUAL, WARPGROUP = "9.7.14.5.14", "9.7.15.5.2"

EXERCISES = [
    Exercise(
        "bits_kept",
        "How many bits does this chip keep?",
        "Write `bits_kept(add)`. `add(x, y, ...)` is a chip that you cannot look into: it adds up to 16 numbers in one "
        "fused sum, and returns a float32. Return how many bits it keeps below the largest exponent: the largest n for "
        "which a term that is 2ⁿ times smaller than the largest one still counts.",
        Probe("add", "bits", _boxes, _miscounted),
        minutes=8,
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
        "results and C = 0 has different bits on an A100 (sm_80) and on an H100 (sm_90a). The answer, "
        "`tell_a100_from_h100`, is the pair A, B.",
        Crafted({"A": ((16, 16), np.float16), "B": ((16, 8), np.float16)}, _two_generations,
                "The two chips give different bits.", "the bits of D[0][0] on sm_80 and on sm_90a"),
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
        "promoted",
        "Promote every 128 of k",
        "Write `promoted(A, B)`, which multiplies two matrices of e4m3, (64, 512) and (512, 8), as fp8 kernels on "
        "Hopper do: `tcemu.matmul` with the `wgmma` of this notebook computes 128 of k from zero, and the result is "
        "added to a float32 sum by ordinary additions, k ascending.",
        Values(_promoted, np.float32, _wrong_promotions, what="D"),
        minutes=8,
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
        "fused_sum_by_hand",
        "A fused sum by hand",
        "`given(\"fused_sum_by_hand\")` has four factors `a` and `b` (float16) and `c`. What is a₀b₀ + a₁b₁ + a₂b₂ + "
        "a₃b₃ + c on an H100, as one fused sum of `mma.sync` m16n8k16 with an f32 result? Work it out with pencil and "
        "paper, or with whole numbers in Python. The answer, `fused_sum_by_hand`, is a number; write it exactly, for "
        "example as 3 * 2**-4.",
        Values(_by_hand, np.float32, _wrong_sums, what="The sum"),
        minutes=15,
        know="the five steps of a fused sum (notebooks 00 and 06)",
        section=MANUAL,
        hints=(
            (
                "Write every product as a whole number times a power of two, and find its exponent: that of a plus "
                "that of b."
            ),
            (
                "c is a term like the products. The exponent of 1.5 · 2³ times 1.5 · 2⁴ is 7, although the product is "
                "2.25 · 2⁷."
            ),
            "25 bits below the largest exponent is where every term is cut off, toward zero; then add what is left.",
        ),
        draw=_draw_by_hand,
        points=2,
    ),
    Exercise(
        "fp8_two_ways",
        "Where mma.sync and wgmma disagree",
        "On one H100, `mma.sync` m16n8k32 and `wgmma` m64n8k32 multiply the same e4m3 numbers. Find 32 numbers `a` "
        "and 32 numbers `b` for which `mma.sync` gives the exact sum a₀b₀ + … + a₃₁b₃₁, and `wgmma` is off by at "
        "least one part in `given(\"fp8_two_ways\").part`. The answer, `fp8_two_ways`, is the pair a, b: two float64 "
        "arrays of numbers that e4m3 has.",
        Crafted({"a": ((32,), np.float64), "b": ((32,), np.float64)}, _fp8_two_ways,
                "mma.sync is exact, and wgmma is off by enough.", "what the two instructions give on sm_90a"),
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
        "`given(\"order_of_k\").terms` are 32 float16 numbers. An A100 adds them with two `mma.sync` m16n8k16, k "
        "ascending: they are row 0 of A, and B is all ones. In the order in which they come, the result is wrong. The "
        "exact sum stays the same if you reorder the columns of A and the rows of B in the same way. The answer, "
        "`order_of_k`, is an order, the numbers 0 to 31 once each, in which the A100 gives the exact sum of the terms.",
        Crafted({"order": ((32,), np.int64)}, _order_of_k, "In this order the sum is exact.",
                "the result on sm_80 in your order"),
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
    Exercise(
        "three_tf32",
        "Three products of tf32 for one of float32",
        "No tensor core multiplies float32. Write `three_tf32(A, B)`, which comes close: split each number x of the "
        "float32 matrices A (16, 64) and B (64, 8) into a high part, x rounded to tf32, and a low part, the rest, "
        "rounded to tf32 as well, both to the nearest with ties away from zero, as `cvt.rna.tf32.f32` does. Return "
        "the chain of three products, each the C of the next: A low times B high, then A high times B low, then A "
        "high times B high, all with `mma.sync` m16n8k8 of tf32. Compare its error with that of a single product.",
        Values(_three, np.float32, _wrong_threes, what="D"),
        minutes=20,
        know="how to round to tf32 (notebook 01), and what a cut does to small terms (notebook 06)",
        section="9.7.14.5.7",
        hints=(
            (
                "formats.lookup makes patterns of tf32 from numbers, with the rounding that you ask for; a view makes "
                "them floats."
            ),
            "x − high is exact in float32. How many of its bits does a tf32 keep?",
            "tcemu.matmul takes the result of one product as the third argument of the next.",
        ),
        draw=_draw_products,
        points=2,
    ),
    Exercise(
        "whose_bits",
        "Whose bits are these?",
        "`given(\"whose_bits\")` has A (16, 256) and B (256, 8) of float16, and a float32 product D that somebody "
        "computed with `mma.sync` m16n8k16: on an A100 or an H100 (target 80 or 90), with k in 1, 2 or 4 equal parts "
        "(splits), each part a chain from zero, and the parts joined by float32 additions in ascending order. Which "
        "was it? Write the answer as `whose_bits = {\"target\": 80, \"splits\": 1}`.",
        Values(_whose, np.int64, _not_whose, names=("target", "splits")),
        minutes=20,
        know="tcemu.matmul, and split-K (notebook 06)",
        section=MANUAL,
        hints=(
            "There are six possibilities: compute them all, and compare bits, not with allclose.",
            "tcemu.matmul(A[:, :64], B[:64], instruction=..., target=\"sm_80\") is the first of four parts.",
            "Add the parts with +, in float32, from the lowest k up, and count the outputs that equal D.",
        ),
        draw=_draw_whose,
        points=2,
    ),
    Exercise(
        "chain_of_an_a100",
        "An A100 in numpy",
        "Write `chain_of_an_a100(a, b, c)` without calling tcemu: `a` and `b` are float16 arrays (24, 16), `c` is "
        "float32 (24). Return, as float32 (24), what an A100 computes for each of the 24 dot products a[i] · b[i] + "
        "c[i] with `mma.sync` m16n8k16, bit for bit: two fused sums of 8 products, 24 bits kept. All numbers are "
        "finite, and no sum is so small that the floor matters. `np.frexp` and whole numbers in Python are enough.",
        Values(_on_a100, np.float32, _wrong_chains, place=lambda index: f"Dot product {index[0]}"),
        minutes=45,
        know="the whole rule of a fused sum, and chains of them (notebooks 00 and 06)",
        section=MANUAL,
        hints=(
            "Write a function for one fused sum first, and test it with the numbers of notebook 00.",
            (
                "A float16 is an integer times 2⁻²⁴, so a product is an integer times 2⁻⁴⁸. Its exponent comes from "
                "the factors: frexp(x)[1] − 1, but never below −14."
            ),
            "Cut the magnitude of each term off at 2 to the power of (largest − 24), and put the sign back afterwards.",
            (
                "Round the sum of the first eight toward zero to 24 bits; it is the addend of the second sum, as a "
                "float32."
            ),
        ),
        draw=_draw_cases,
        points=5,
    ),
]
