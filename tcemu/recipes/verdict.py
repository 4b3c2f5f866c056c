"""What the search found: recipes, how much of D they give, and what tells them apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError
from tcemu.recipes.apart import bits_of, separate, sums_of
from tcemu.recipes.epilogue import Addend
from tcemu.recipes.operands import matrix
from tcemu.recipes.recipe import Recipe
from tcemu.show import Picture, element_sums

Array = npt.NDArray[Any]


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
    given: Any
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
    """

    matches: list[Match]
    #: Recipes that give the same bits at the elements at which they were tried.
    others: list[Recipe]
    a: Array = field(repr=False)
    b: Array = field(repr=False)
    d: Array = field(repr=False)
    plus: Addend | None = field(default=None, repr=False)
    #: Whether all recipes were tried, if none was found.
    complete: bool = True

    @property
    def exact(self) -> bool:
        """Whether a recipe gives all of D."""
        return self.matches[0].share == 1

    @property
    def recipes(self) -> list[Recipe]:
        """The recipes that give all of D; none if no recipe does."""
        return [match.recipe for match in self.matches if match.share == 1]

    def __str__(self) -> str:
        if not self.exact:
            return "\n".join(self._nearest())
        lines = [f"All {self.d.size:,} elements are those of", *(f"  {recipe}" for recipe in self.recipes)]
        if len(self.recipes) > 1:
            lines.append("These recipes give the same bits; `separate` makes an input that tells them apart.")
        if self.others:
            lines.append(f"{len(self.others)} more agree at the elements where they were tried.")
        return "\n".join(lines)

    def _nearest(self) -> list[str]:
        lines = ["No recipe gives these bits. The nearest:"]
        if not self.complete:
            lines[0] = "No recipe that was tried gives these bits; `effort` stopped the search. The nearest:"
        for match in self.matches:
            lines.append(f"  {match.share:.2%} of {match.compared:,} elements: {match.recipe}")
            if match.first is not None:
                at = match.first
                lines.append(
                    f"    first differs at D[{at[0]}][{at[1]}]: {match.given} ({bits_of(match.given)}), not "
                    f"{self.d[at]} ({bits_of(self.d[at])})"
                )
        return lines

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
            found = separate(one, other, self.a.shape[1], tries=4, types=(of_a, of_b))
            if found is not None:
                return one, other, *found
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
        plus = self.plus and self.plus.at(np.array([[at[0]]]), np.array([[at[1]]]))
        given = self.d[at]
        bands = [sums_of(match.recipe, self.a[at[0]], self.b[:, at[1]], given, plus) for match in self.matches[:2]]
        return element_sums(bands, f"The sums of D[{at[0]}][{at[1]}]", f"{float(given):.9g}, {bits_of(given)}")
