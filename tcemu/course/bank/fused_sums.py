"""Exercises of notebook 06: one fused sum by hand, and a chain of them in numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import FusedSum, FusedSums, compute, fused_sum
from tcemu.course.judges import Values
from tcemu.course.record import Exercise, Given
from tcemu.errors import TableError
from tcemu.formats import lookup, round_exact, unpack
from tcemu.instructions import matmul, parse, target_named

Array = npt.NDArray[Any]

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
_f16, _f32 = lookup("f16"), lookup("f32")
MANUAL = "9.7.14.5.14"

# ---------------------------------------------------------------------------------------------- dots, and wrong ones

#: Turns one fused sum into the pattern of its result: what the chip does, or what somebody thinks it does.
Rounding = Callable[[FusedSum], int]


def _dot(model: FusedSums, a: Array, b: Array, c: float, rounding: Rounding) -> np.float32:
    """The chain of `model` over f16 factors, whose fused sums are rounded in this way."""
    left, right = ([unpack(_f16, int(pattern)) for pattern in _f16.encode(x)] for x in (a, b))
    pattern = int(_f32.encode(c))
    for ks in model.sums(len(left)):
        pattern = rounding(fused_sum(model, [(k, left[k], right[k]) for k in ks], unpack(_f32, pattern), _f32))
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


def _counted_from_the_top_bit(model: FusedSums) -> Rounding:
    """As somebody cuts who takes a product of 2 or more to have the next exponent."""

    def rounding(steps: FusedSum) -> int:
        tops = [abs(t.significand).bit_length() - 1 - t.point + t.exponent for t in steps.terms if t.significand]
        fewer = model.fraction - (max(tops) - steps.largest)
        total = sum(_cut(t.significand, fewer + t.exponent - steps.largest - t.point) for t in steps.terms)
        return round_exact(_f32, total, steps.largest - fewer, "rz")

    return rounding


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
    ways: dict[str, tuple[float, FusedSums, Rounding]] = {
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
    wrong = {says: _dot(chain, a, b, addend, rounding) for says, (addend, chain, rounding) in ways.items()}
    return (wrong | {loop: _one_after_the_other(a, b, c)}).items()


def _by_hand(given: Given) -> np.float32:
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16)
    c = np.zeros((16, 8), np.float32)
    a[0, : len(given.a)], b[: len(given.b), 0], c[0, 0] = given.a, given.b, given.c
    total: np.float32 = matmul(a, b, c, instruction=F16)[0, 0]
    return total


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
    ways: dict[str, tuple[FusedSums, Rounding]] = {
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
    wrong = {says: [_dot(model, *case, rounding) for case in cases] for says, (model, rounding) in ways.items()}
    orders = {
        "The second eight products come first: add the first eight first.": np.roll(np.arange(16), 8),
        "You added every second product first. The first sum has the products 0 to 7.": np.arange(16).reshape(8, 2).T,
    }
    for says, order in orders.items():
        ks = order.ravel()
        wrong[says] = [_dot(ampere, a[ks], b[ks], c, _as_it_is) for a, b, c in cases]
    wrong["You added c after both sums. It is a term of the first one."] = [
        _dot(ampere, a, b, 0.0, _as_it_is) + np.float32(c) for a, b, c in cases
    ]
    wrong |= {
        "This is float32 arithmetic, one addition after the other.": [_one_after_the_other(*case) for case in cases],
        "This is the exact sum, rounded once.": [_exact(*case) for case in cases],
    }
    return ((says, np.array(sums, np.float32)) for says, sums in wrong.items())


EXERCISES = [
    Exercise(
        "fused_sum_by_hand",
        "A fused sum by hand",
        '`given("fused_sum_by_hand")` has four factors `a` and `b` (float16) and `c`. What is a₀b₀ + a₁b₁ + a₂b₂ + '
        "a₃b₃ + c on an H100, as one fused sum of `mma.sync` m16n8k16 with an f32 result? Work it out with pencil and "
        "paper, or with whole numbers in Python. The answer, `fused_sum_by_hand`, is a number; write it exactly, for "
        "example as 3 * 2**-4.",
        Values(_by_hand, np.float32, _wrong_sums, what="The sum"),
        minutes=15,
        know="the five steps of a fused sum (notebooks 00 and 06)",
        section=MANUAL,
        hints=(
            (
                "Write every product as a whole number times a power of two, and find its exponent: the exponents "
                "of a and b, added."
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
        "chain_of_an_a100",
        "An A100 in numpy",
        "Write `chain_of_an_a100(a, b, c)` without calling tcemu: `a` and `b` are float16 arrays (24, 16), `c` is "
        "float32 (24). Return, as float32 (24), what an A100 computes for each of the 24 dot products a[i] · b[i] + "
        "c[i] with `mma.sync` m16n8k16, bit for bit: two fused sums of 8 products, 24 bits kept. All numbers are "
        "finite, and no sum is so small that the floor matters. `np.frexp` and whole numbers in Python are enough.",
        Values(_on_a100, np.float32, _wrong_chains, place=lambda index: f"Dot product {index[0]}"),
        minutes=45,
        only=(),
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
