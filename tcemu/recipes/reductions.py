"""The trees in which compilers add up the sums of splits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: The most splits whose trees are tried: there are 5,040 for 128.
_MOST = 128


def trees(sums: list[Array]) -> Iterator[tuple[str, Array]]:
    """Every order of pairwise additions, one binary digit of the split's number after the other, and its total.

    >>> from tcemu.recipes.reductions import trees
    >>> [stages for stages, _ in trees([np.ones(1, np.float32)] * 4)]
    ['2:2,1:2', '1:2,2:2']
    """
    digits = len(sums).bit_length() - 1
    if len(sums) != 1 << digits or len(sums) > _MOST:
        return
    grid = np.stack(sums).reshape([2] * digits + [len(sums[0])])
    for order, total in _added(grid, list(range(digits - 1, -1, -1))):
        yield ",".join(f"{1 << digit}:2" for digit in order), total


def _added(grid: Array, digits: list[int]) -> Iterator[tuple[list[int], Array]]:
    """Every order of the digits, the axes of the grid, with the total in that order."""
    if not digits:
        yield [], grid
        return
    for axis, digit in enumerate(digits):
        halves = grid.take(0, axis) + grid.take(1, axis)
        for order, total in _added(halves, digits[:axis] + digits[axis + 1 :]):
            yield [digit, *order], total
