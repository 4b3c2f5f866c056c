"""What the search found: recipes, how much of D they give, and what tells them apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.recipes.recipe import Recipe

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Match:
    """A recipe, the share of D's elements whose bits it gives, and the first element whose bits it does not give."""

    recipe: Recipe
    share: float
    #: (row, column) of that element, and what the recipe gives there; None if it gives all of D.
    first: tuple[int, ...] | None
    given: Any


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whose bits D has. `matches` give all of D, or come nearest; `others` give the same bits wherever they were tried."""

    matches: list[Match]
    others: list[Recipe]
    a: Array = field(repr=False)
    b: Array = field(repr=False)
    d: Array = field(repr=False)

    @property
    def exact(self) -> bool:
        """Whether a recipe gives all of D."""
        return self.matches[0].share == 1

    @property
    def recipes(self) -> list[Recipe]:
        """The recipes that give all of D; none if no recipe does."""
        return [match.recipe for match in self.matches if match.share == 1]
