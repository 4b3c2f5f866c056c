"""What it says that a recipe gives all of D: how many others do, and how many would by chance."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.formats import lookup
from tcemu.recipes.elements import Elements
from tcemu.recipes.epilogue import Epilogue
from tcemu.recipes.recipe import Recipe

Array = npt.NDArray[Any]
#: Recipes of each trial among which chance is measured, and of all; elements of D at which; and recipes that agree.
_OF_TRIAL, _OF_ALL, _ELEMENTS, _AGREEING = 4, 96, 128, 256
#: Pairs of random factors by which recipes are told apart.
APART = 64
#: A verdict is certain if fewer recipes than this are expected to give all of D by chance.
_RARE = 2.0**-10
#: Wrong recipes from which chance cannot be measured; D's own variety says something then.
_FEW_WRONG = 8
#: The roundings of a recipe.
_ROUNDINGS = ("partial", "total", "product", "activation", "rounding", "overflow", "output")


@dataclass(frozen=True)
class Certainty:
    """What the bits of D say.

    >>> from tcemu.recipes.evidence import Certainty
    >>> Certainty(tried=1000, distinct=1, bits=8.0).certain  # one in 256: four recipes of a thousand would
    False
    """

    #: Recipes that were tried.
    tried: int = 0
    #: Recipes that give all of D, or agree wherever they were tried, and that give different bits for other inputs.
    distinct: int = 1
    #: A wrong recipe gives all of D by chance once in 2 to the power of this.
    bits: float = np.inf

    @property
    def by_chance(self) -> float:
        """The recipes that give all of D by chance, as expected for so many."""
        return float(self.tried * 2.0**-self.bits)

    @property
    def certain(self) -> bool:
        """Whether D tells the recipe from all others that were tried."""
        return self.distinct == 1 and self.by_chance < _RARE


class Evidence:
    """Collects what was tried on a product, and measures what D can tell."""

    def __init__(self, a: Array, b: Array, d: Array, plus: Epilogue | None, types: tuple[str, str, str]) -> None:
        self._a, self._b, self._d, self._plus, self._types = a, b, d, plus, types
        self._count, self._sample = 0, list[Recipe]()

    def tried(self, recipes: list[Recipe]) -> None:
        """Count recipes of a trial, and remember some of them."""
        self._count += len(recipes)
        self._sample += recipes[:: max(1, len(recipes) // _OF_TRIAL)][:_OF_TRIAL]

    def of(self, exact: list[Recipe], others: list[Recipe]) -> Certainty:
        """What it says that these recipes give all of D, and that others agree where they were tried."""
        if not exact:
            return Certainty(self._count, 0, 0.0)
        agreeing = [*exact, *others][:_AGREEING]
        names = self._names(agreeing)
        return Certainty(self._count, len(set(names)), self._bits(set(names)))

    def _names(self, recipes: list[Recipe]) -> list[bytes]:
        """What recipes give for random factors, before the last rounding: the same only if they compute the same."""
        rng, depth = np.random.default_rng(0), self._a.shape[1]
        a, b = (_random(kind, (APART, depth), rng) for kind in self._types[:2])
        rows, columns = (rng.integers(0, size, APART) for size in self._d.shape)
        elements = Elements(a, b, self._d[rows, columns], self._plus and self._plus.at(rows, columns))
        # roundings to a narrow type would hide what is different in the sums
        wide = elements.values([replace(each, partial="", total="", product="") for each in recipes])
        ends = [" ".join(getattr(each, name) for name in _ROUNDINGS) for each in recipes]
        return [np.ascontiguousarray(sums).tobytes() + end.encode() for sums, end in zip(wide, ends, strict=True)]

    def _bits(self, agreeing: set[bytes]) -> float:
        """The bits that D's elements tell, from how often recipes that compute something else give them."""
        sample = list(dict.fromkeys(self._sample))
        sample = sample[:: max(1, len(sample) // _OF_ALL)]
        wrong = {name: each for name, each in zip(self._names(sample), sample, strict=True) if name not in agreeing}
        if len(wrong) < _FEW_WRONG:
            return self._d.size * _entropy(self._d)
        at = np.random.default_rng(1).permutation(self._d.size)[:_ELEMENTS]
        rows, columns = np.unravel_index(at, self._d.shape)
        elements = Elements.of(self._a, self._b, self._d, self._plus, rows, columns)
        same = np.array([each.same for each in elements.tried(list(wrong.values()))], np.int64)
        by_chance = (same.sum(axis=0) + 1) / (len(same) + 1)  # one more, for those that were not sampled
        return float(-np.log2(by_chance).mean() * self._d.size)


def _entropy(d: Array) -> float:
    """The bits that an element of D carries: 0 if all are alike."""
    _, counts = np.unique(d.view(f"u{d.dtype.itemsize}"), return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def _random(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Numbers of many magnitudes and lengths, so that some are halfway between two of a narrower type."""
    form = lookup(kind)
    if form.kind != "float":
        return rng.integers(int(form.lowest), int(form.largest), shape, endpoint=True).astype(form.dtype)
    fraction, power = np.frexp(rng.standard_normal(shape))
    unit = 2.0 ** rng.integers(2, form.mantissa + 2, shape)
    values = np.ldexp(np.rint(fraction * unit) / unit, power + rng.integers(-4, 5, shape))
    return form.matrix(form.encode(values, satfinite=True))
