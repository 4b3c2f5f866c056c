"""Exercises of notebook 00: how a tensor core adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.compute import compute
from tcemu.arithmetic.model import FusedSums
from tcemu.course.judges import Function, Values
from tcemu.course.record import Exercise, Given
from tcemu.instructions import parse, target_named

Array = npt.NDArray[Any]

_MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#: Cases of one_fused_sum.
_CASES = 64
#: An exponent below all others.
_FAR = 1000


# ---------------------------------------------------------------------------------------------- what is cut off


def _survives(power: Array) -> Array:
    """The smallest n with 2^p 2^p - 2^p 2^p + 2^n not zero, found by trying them all."""
    below = np.arange(-40, 0)
    p, n = np.broadcast_arrays(power[:, None], 2 * power[:, None] + below)
    a, b = np.zeros((2, *n.shape, 16), np.float16)
    a[..., 0], a[..., 1], b[..., 0], b[..., 1] = 2.0**p, -(2.0**p), 2.0**p, 2.0**p
    a[..., 2], b[..., 2] = 2.0 ** (n // 2), 2.0 ** (n - n // 2)
    sums = _sums(a.reshape(-1, 16), b.reshape(-1, 16), np.zeros(n.size, np.float32)).reshape(n.shape)
    smallest: Array = np.where(sums != 0, n, n.max()).min(axis=1)
    return smallest


_SURVIVOR = Function(
    {"power": range(5, 16)},
    ("exponent",),
    _survives,
    (
        ("You count from the exponent of one factor. The exponent of a product is the sum of both.",
         lambda power: power - 25),
        ("A float32 has 23 bits behind the point; the fused sum on sm_90 keeps two more.",
         lambda power: 2 * power - 23),
        ("sm_80 keeps 24 bits below the largest exponent, sm_90 one more.", lambda power: 2 * power - 24),
        ("That bit is the first that is cut off.", lambda power: 2 * power - 26),
        ("You subtracted the other way round.", lambda power: 25 - 2 * power),
    ),
    how="all p from 5 to 15",
    wider={"power": range(-4, 5)},
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- one fused sum


def _terms(rng: np.random.Generator) -> Mapping[str, Any]:
    """Factors with many different exponents, all exact in f16, and addends."""
    shape = (_CASES, 16)
    a, b = (rng.integers(-2047, 2048, shape) * 2.0 ** rng.integers(-14, 4, shape) for _ in range(2))
    a[rng.integers(0, 4, shape) == 0] = 0
    c = rng.integers(-(2**20), 2**20, _CASES) * 2.0 ** rng.integers(-20, 4, _CASES)
    return {"a": a.astype(np.float16), "b": b.astype(np.float16), "c": c.astype(np.float32)}


def _sums(a: Array, b: Array, c: Array, **changes: Any) -> Array:
    """Each case as sm_90 computes it, or with another number of bits or products in a sum."""
    operation = parse(_MMA).operation(target_named("sm_90a"))
    model = operation.model
    if not isinstance(model, FusedSums):
        raise TypeError(model)
    rows, columns, addends = a.view(np.uint16)[:, None], b.view(np.uint16)[..., None], c.view(np.uint32)
    patterns = compute(replace(operation, model=replace(model, **changes)), rows, columns, addends[:, None, None])
    return np.ascontiguousarray(patterns).reshape(-1).astype(np.uint32).view(np.float32)


def _by_factors(x: float, y: float) -> int:
    return _exponent(x) + _exponent(y)


@dataclass(frozen=True)
class _Rule:
    """The rule of a fused sum, or what somebody takes for it."""

    fraction: int = 25
    block: int = 16
    cut: Callable[[float], int] = int
    exponent: Callable[[float, float], int] = _by_factors
    #: Binary digits of the sum that stay; None if it is rounded to the nearest float32.
    digits: int | None = 24
    #: Whether a negative sum is cut toward minus infinity.
    down: bool = False
    #: How c is added to the sum of the products; None if it is one of the terms.
    late: Callable[[float, float], float] | None = None

    def __call__(self, given: Given) -> Array:
        """The sum of each case."""
        cases = zip(given.a.tolist(), given.b.tolist(), given.c.tolist(), strict=True)
        sums = [self._chain([*zip(a, b, strict=True)], c) for a, b, c in cases]
        return np.array(sums, np.float32)

    def _chain(self, factors: list[tuple[float, float]], c: float) -> float:
        """c is the term with a whole number as its second factor."""
        total = 0.0 if self.late else c
        for first in range(0, len(factors), self.block):
            total = self._sum([*factors[first : first + self.block], (total, 1)])
        return self.late(total, c) if self.late else total

    def _sum(self, factors: list[tuple[float, float]]) -> float:
        last = max((self.exponent(x, y) for x, y in factors if x and y), default=0) - self.fraction
        total = sum(self.cut(math.ldexp(x * y, -last)) for x, y in factors)
        if self.digits is None:
            return float(np.float32(math.ldexp(total, last)))
        lost = max(abs(total).bit_length() - self.digits, 0)
        if self.down:
            return math.ldexp(total >> lost << lost, last)
        return math.ldexp(math.copysign(abs(total) >> lost << lost, total), last)


def _exponent(number: float) -> int:
    return math.frexp(number)[1] - 1


#: What somebody does otherwise, by its name; two that change different things can come together.
_OTHER_RULES: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("You kept 24 bits below the largest exponent, as sm_80 does. sm_90 keeps 25.", {"fraction": 24}),
    ("You kept 23 bits below the largest exponent, as a float32 has. sm_90 keeps 25.", {"fraction": 23}),
    ("You kept 26 bits below the largest exponent; 25 are kept.", {"fraction": 26}),
    ("You made two sums of 8, as sm_80 does. On sm_90 all 16 products are in one.", {"block": 8}),
    *(("You added c at the end. It is one of the terms that are aligned.", changed) for changed in (
        {"late": lambda total, c: float(np.float32(total) + np.float32(c))},
        {"late": lambda total, c: total + c}, {"late": lambda total, c: total + c, "digits": 64},
    )),
    ("The exponent of a product is the sum of its factors' exponents, whatever the size of the product.",
     {"exponent": lambda x, y: _exponent(x * y)}),
    ("math.frexp gives 0.5 ≤ m < 1, so its exponent is one more than the one that counts here.",
     {"exponent": lambda x, y: math.frexp(x)[1] + (math.frexp(y)[1] if isinstance(y, float) else 0)}),
    ("c takes part in the search for the largest exponent, too.",
     {"exponent": lambda x, y: _by_factors(x, y) if isinstance(y, float) else -_FAR}),
    ("The magnitude of the sum is cut. >> and // of a negative sum go down, away from zero.", {"down": True}),
    ("Terms are cut toward zero. // and >> and floor go down, so negative terms come out one too low.",
     {"cut": math.floor}),
    ("Terms are cut off, not rounded.", {"cut": round}),
    ("The sum is cut to 24 bits, toward zero. Converting it to float32 rounds to the nearest.", {"digits": None}),
    ("You kept 23 binary digits of the sum. A float32 has 24: its 23 mantissa bits and the implicit leading 1.",
     {"digits": 23}),
    ("You kept 22 binary digits of the sum. A float32 has 24.", {"digits": 22}),
)  # fmt: skip


def _sums_mistakes(given: Given) -> Iterable[tuple[str, Array]]:
    a, b, c = given.a.astype(np.float64), given.b.astype(np.float64), given.c
    known = {_Rule()(given).tobytes()}
    pairs = combinations(_OTHER_RULES, 2)
    both = [(f"{one} {two}", {**first, **second}) for (one, first), (two, second) in pairs
            if not first.keys() & second.keys()]  # fmt: skip
    for says, changed in (*_OTHER_RULES, *both):
        gives = _Rule(**changed)(given)
        if gives.tobytes() not in known:
            known.add(gives.tobytes())
            yield says, gives
    exact = [math.fsum([*(x * y), z]) for x, y, z in zip(a, b, c.astype(np.float64), strict=True)]
    yield (
        "This is the exact sum, rounded to the nearest float32. Bits are cut off before and after the addition.",
        (np.array(exact, np.float32)),
    )
    in_order = c
    for k in range(16):
        in_order = in_order + (a[:, k] * b[:, k]).astype(np.float32)
    yield "You added one product after the other in float32, which rounds each time.", in_order


EXERCISES = [
    Exercise(
        "smallest_survivor",
        "The smallest term that survives",
        "A fused sum of f16 products on sm_90 has three terms: 2ᵖ · 2ᵖ, −2ᵖ · 2ᵖ, and a third product, 2ⁿ. Write "
        "`smallest_survivor(power)`, which takes p and returns the smallest n for which the result is not zero.",
        _SURVIVOR,
        minutes=5,
        only=(),
        know="how a tensor core adds, notebook 00",
        hints=(
            "What is the largest exponent among the terms?",
            "How many bits below it are kept on sm_90? The picture of the fused sum shows it.",
        ),
    ),
    Exercise(
        "one_fused_sum",
        "The rule in Python",
        "Write `one_fused_sum(a, b, c)` from the five steps of notebook 00, without any tensor-core instruction: `a` "
        "and `b` are (64, 16) f16 arrays, `c` has 64 f32 numbers; for each of the 64 cases return, as float32, what "
        "one fused sum of 16 products on sm_90 gives. All numbers are finite.",
        Values(
            lambda given: _sums(given.a, given.b, given.c), np.float32, _sums_mistakes,
            lambda index: f"The sum of case {index[0]}", how="every bit of 64 sums",
        ),
        minutes=45,
        only=(),
        know="how a tensor core adds, notebook 00, and np.frexp or math.frexp",
        hints=(
            "math.frexp(x) gives x as m · 2^e with 0.5 ≤ |m| < 1, so the exponent of the notebook is e − 1.",
            "Work with whole numbers: a term divided by the last bit that is kept, cut with int(), which truncates.",
            "The exact sum is a whole number times that bit. Keep its highest 24 binary digits, and cut off the rest.",
        ),
        points=4,
        draw=_terms,
    ),
]  # fmt: skip
