"""How the sums of splits and of slices are added; the trees that compilers make."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.recipes.recipe import DOWN, HALVES, levels

Array = npt.NDArray[Any]
#: The most splits for which all trees are tried: there are 720 for 64.
_MOST = 64
#: The lanes of a warp, and the tree in which they exchange their sums.
WARP = 32
BUTTERFLY = "16:2,8:2,4:2,2:2,1:2"


def reduced(sums: Sequence[Array], way: str) -> Array:
    """Sums added to nearest in their own type; `way` is a recipe's `reduce` or `join`.

    >>> from tcemu.recipes.reductions import reduced
    >>> sums = np.float32([[2**24], [1], [1], [1]])
    >>> float(reduced(sums, "")[0]), float(reduced(sums, "2:2,1:2")[0])
    (16777216.0, 16777218.0)
    """
    if not way or len(sums) == 1:
        return _added(sums)
    if way == DOWN:
        return _added(sums[::-1])
    if way == HALVES:
        return _added(_last_first(sums))
    left = list(sums)
    for stride, count in levels(way):
        left = _level(left, stride, count)
    return left[0]


def _added(sums: Sequence[Array]) -> Array:
    """The sums added from left to right."""
    total = sums[0]
    for each in sums[1:]:
        total = total + each
    return total


def _level(sums: list[Array], stride: int, count: int) -> list[Array]:
    """The list with the sums of one level at the place of the first of each, the others as they were."""
    result = list(sums)
    for first in range(len(sums)):
        if first // stride % count == 0:
            result[first] = _added(sums[first : first + stride * count : stride])
    return result


def _last_first(sums: Sequence[Array]) -> list[Array]:
    """The last sum, and what the others left in half as many places."""
    half = -(-len(sums) // 2)
    others = sums[:-1]
    return [sums[-1], *(_added(others[i::half]) for i in range(half))]


def trees(sums: list[Array]) -> Iterator[tuple[str, Array]]:
    """Every order of pairwise additions, one binary digit of the split's number after the other, and its total.

    Of more sums, only the tree in which a warp adds them: each lane every 32nd, then the lanes.

    >>> from tcemu.recipes.reductions import trees
    >>> [levels for levels, _ in trees([np.ones(1, np.float32)] * 4)]
    ['2:2,1:2', '1:2,2:2']
    >>> [levels for levels, _ in trees([np.ones(1, np.float32)] * 128)]
    ['32:4,16:2,8:2,4:2,2:2,1:2']
    """
    if len(sums) > _MOST and len(sums) % WARP == 0:
        way = f"{WARP}:{len(sums) // WARP},{BUTTERFLY}"
        yield way, reduced(sums, way)
        return
    digits = len(sums).bit_length() - 1
    if len(sums) != 1 << digits or len(sums) > _MOST:
        return
    grid = np.stack(sums).reshape([2] * digits + [len(sums[0])])
    for order, total in _halved(grid, list(range(digits - 1, -1, -1))):
        yield ",".join(f"{1 << digit}:2" for digit in order), total


def _halved(grid: Array, digits: list[int]) -> Iterator[tuple[list[int], Array]]:
    """Every order of the digits, the axes of the grid, with the total in that order."""
    if not digits:
        yield [], grid
        return
    for axis, digit in enumerate(digits):
        halves = grid.take(0, axis) + grid.take(1, axis)
        for order, total in _halved(halves, digits[:axis] + digits[axis + 1 :]):
            yield [digit, *order], total
