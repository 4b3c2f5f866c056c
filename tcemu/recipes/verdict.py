"""The result of a search: recipes, the share of D that they give, and how they differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.recipes.apart import bits_of, separate, sums_of
from tcemu.recipes.epilogue import Epilogue
from tcemu.recipes.evidence import APART, Certainty
from tcemu.recipes.operands import matrix
from tcemu.recipes.product import product
from tcemu.recipes.recipe import Recipe
from tcemu.show import Picture, element_sums

Array = npt.NDArray[Any]


#: Recipes that are listed, and bits of evidence that are called few.
_LISTED, _FEW_BITS = 4, 64.0
#: Rows that show whether D is transposed, and the shares of close elements from which it is, and is not.
_ROWS, _CLOSE, _NOT_CLOSE = 16, 0.9, 0.5


@dataclass(frozen=True)
class Match:
    """A recipe, the share of the compared elements whose bits it gives, and the first whose bits it does not give.

    >>> A = np.ones((8, 16), np.float32)
    >>> tcemu.whose_bits(A, A.T, A @ A.T).matches[0].share
    1.0
    """

    recipe: Recipe
    share: float
    #: (row, column) of that element, and what the recipe gives there; None if it gives all of D.
    first: tuple[int, ...] | None
    value: Any
    #: The elements that were compared: all of D if the recipe gives them, else those of the first rows.
    compared: int


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whose bits D has: recipes that give all of D, or the two that come nearest.

    >>> from tcemu.recipes import Recipe, multiply, whose_bits
    >>> A, B = (np.random.default_rng(seed).standard_normal((64, 64)).astype(np.float16) for seed in range(2))
    >>> recipe = Recipe("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_80")
    >>> print(whose_bits(A, B, multiply(recipe, A, B)))
    All 4,096 elements are those of
      mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 sm_80
      mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 sm_75
    These are names of the same sums: none of 64 random inputs tells them apart.
    None of the others of 3,087 recipes gives these bits.
    """

    matches: list[Match]
    #: Recipes that give the same bits at the elements at which they were tried.
    others: list[Recipe]
    a: Array = field(repr=False)
    b: Array = field(repr=False)
    d: Array = field(repr=False)
    plus: Epilogue | None = field(default=None, repr=False)
    #: Whether all recipes of the table were tried.
    complete: bool = True
    #: What D says about the recipe.
    evidence: Certainty = field(default_factory=Certainty)

    @property
    def exact(self) -> bool:
        """Whether a recipe gives all of D."""
        return self.matches[0].share == 1

    @property
    def recipes(self) -> list[Recipe]:
        """The recipes that give all of D; none if no recipe does."""
        return [match.recipe for match in self.matches if match.share == 1]

    @property
    def certain(self) -> bool:
        """Whether a recipe gives all of D, and nothing else that was tried does, nor would by chance."""
        return self.exact and self.evidence.certain

    def __str__(self) -> str:
        if not self.exact:
            return "\n".join(self._nearest())
        listed = [f"  {recipe}" for recipe in self.recipes[:_LISTED]]
        more = len(self.recipes) + len(self.others) - len(listed)
        if more:
            listed.append(f"  and {more:,} more")
        return "\n".join([self._head(), *listed, *self._tail()])

    def _head(self) -> str:
        size, evidence = self.d.size, self.evidence
        elements = f"All {size:,} elements are" if size > 1 else "The element is"
        if evidence.distinct > 1:
            what = f"all {size:,} elements" if size > 1 else "the element"
            more = f", and {len(self.others):,} more agree wherever they were tried" if self.others else ""
            return f"Several, undecided: {len(self.recipes):,} recipes give {what}{more}:"
        if not evidence.certain:
            return f"Undecided. {elements} those of this recipe, but that proves little:"
        return f"{elements} those of"

    def _tail(self) -> list[str]:
        evidence, lines = self.evidence, []
        if evidence.distinct > 1:
            lines.append("`apart` and `separate` make an input that tells them apart.")
        elif len(self.recipes) + len(self.others) > 1:
            lines.append(f"These are names of the same sums: none of {APART} random inputs tells them apart.")
        if not evidence.certain and evidence.bits < _FEW_BITS:
            lines.append(
                f"D tells {evidence.bits:.1f} bits, and {evidence.tried:,} recipes were tried: "
                f"{_expected(evidence.by_chance)} by chance. Give more elements, a wider D, a larger K, or factors of "
                "many magnitudes."
            )
        elif evidence.certain and evidence.tried > 1:
            lines.append(f"None of the others of {evidence.tried:,} recipes gives these bits.")
        if not self.complete:
            lines.append("The rest of the table was not tried: K is long, and what is left is rare.")
        return lines

    def _nearest(self) -> list[str]:
        lines = ["No recipe gives these bits. The nearest:"]
        if not self.complete:
            lines[0] = "No recipe that was tried gives these bits; `effort` stopped the search. The nearest:"
        for match in self.matches:
            lines.append(f"  {match.share:.2%} of {counted(match.compared, 'element')}: {match.recipe}")
            if match.first is not None:
                at = match.first
                lines.append(
                    f"    first differs at D[{at[0]}][{at[1]}]: {match.value} ({bits_of(match.value)}), not "
                    f"{self.d[at]} ({bits_of(self.d[at])})"
                )
        if self._turned():
            lines.append("D.T is close to the product of A and B, and D is not: is D stored by columns? Pass D.T.")
        return lines

    def _turned(self) -> bool:
        """Whether D is the product's transpose, as its first rows say."""
        if self.d.shape[0] != self.d.shape[1]:
            return False
        rows = np.arange(min(_ROWS, len(self.d)), dtype=np.int64)
        result = product(self.matches[0].recipe, self.a[rows], self.b, self.plus and self.plus.of_rows(rows))
        return _close(result, self.d[rows]) < _NOT_CLOSE and _close(result, self.d.T[rows]) > _CLOSE

    def apart(self) -> tuple[Recipe, Recipe, Array, Array] | None:
        """Two recipes that give all of D, and A (1, K) and B (K, 1) to which they give different products.

        These have the types of the matrices here. None if only one gives all of D, or if no such input was found: the
        recipes may well compute the same.

        >>> A, B = np.ones((4, 64), np.float16), np.ones((64, 4), np.float16)
        >>> D = tcemu.matmul(A[:1].repeat(16, 0), B.repeat(2, 1), instruction=
        ...     "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
        >>> tcemu.whose_bits(A[:1].repeat(16, 0), B.repeat(2, 1), D).apart() is None  # ones show no order
        False
        """
        (_, of_a), (_, of_b) = matrix(self.a, "A"), matrix(self.b, "B")
        for one, other in combinations(self.recipes, 2):
            inputs = separate(one, other, self.a.shape[1], tries=4, types=(of_a, of_b))
            if inputs is not None:
                return one, other, *inputs
        return None

    @explained
    def picture(self, row: int | None = None, column: int | None = None) -> Picture:
        """An element's sums under the recipes: by default the first that tells them apart, else D[0][0].

        Raises OperandError for a position that does not exist.

        >>> A = np.ones((8, 16), np.float32)
        >>> tcemu.whose_bits(A, A.T, A @ A.T).picture().title
        'The sums of D[0][0]'
        """
        first = next((match.first for match in self.matches if match.first is not None), (0, 0))
        at = first[0] if row is None else row, first[1] if column is None else column
        if not all(0 <= i < size for i, size in zip(at, self.d.shape, strict=True)):
            raise OperandError(f"D is {self.d.shape[0]} x {self.d.shape[1]} and has no element {at}")
        plus = self.plus and self.plus.at(np.array([[at[0]]], np.int64), np.array([[at[1]]], np.int64))
        element = self.d[at]
        shown = self.matches[: 1 if self.exact and self.evidence.distinct == 1 else 2]
        bands = [sums_of(match.recipe, self.a[at[0]], self.b[:, at[1]], element, plus) for match in shown]
        return element_sums(bands, f"The sums of D[{at[0]}][{at[1]}]", f"{float(element):.9g}, {bits_of(element)}")


def _expected(count: float) -> str:
    if count >= 1:
        return f"about {count:,.0f} of them give all of D"
    return f"one of them gives all of D in {1 / count:,.0f} cases"


def _close(one: Array, other: Array) -> float:
    """The share of elements that differ by less than the narrowest type rounds, where the sum does not cancel."""
    with np.errstate(invalid="ignore", over="ignore"):
        one, other = (each.astype(np.float64) for each in (one, other))
        return float((np.abs(one - other) <= 0.125 * np.abs(one) + 1e-3 * np.sqrt(np.mean(one**2))).mean())
