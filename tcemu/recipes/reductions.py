"""The trees in which compilers add up the sums of splits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.recipes.product import finished
from tcemu.recipes.recipe import Recipe

Array = npt.NDArray[Any]
#: The most splits whose trees are tried: there are 5,040 for 128.
_MOST = 128


def trees(recipe: Recipe, sums: list[Array], kind: str) -> Iterator[tuple[Recipe, Array]]:
    """The recipe with every order of pairwise additions, one binary digit of the split's number after the other; D."""
    digits = len(sums).bit_length() - 1
    if len(sums) != 1 << digits or len(sums) > _MOST or kind not in ("f32", "f64"):
        return
    grid = np.stack(sums).reshape([2] * digits + [len(sums[0])])
    for order, total in _added(grid, list(range(digits - 1, -1, -1))):
        stages = ",".join(f"{1 << digit}:2" for digit in order)
        yield replace(recipe, reduce=stages), finished(replace(recipe, splits=1), [total], kind)


def _added(grid: Array, digits: list[int]) -> Iterator[tuple[list[int], Array]]:
    """Every order of the digits, the axes of the grid, with the total in that order."""
    if not digits:
        yield [], grid
        return
    for axis, digit in enumerate(digits):
        halves = np.moveaxis(grid, axis, 0)
        rest = digits[:axis] + digits[axis + 1 :]
        for order, total in _added(halves[0] + halves[1], rest):
            yield [digit, *order], total
