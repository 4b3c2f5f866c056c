"""A row of numbers before and after pruning or quantisation: how each has changed, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.formats.arrays import as_array
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box, Grid, Scale
from tcemu.show.words import compact

_MOST, _LISTED = 64, 8


@explained
def before_and_after(
    before: npt.ArrayLike, after: npt.ArrayLike, block: int, captions: Sequence[str] = (), title: str = ""
) -> Picture:
    """A bar for each number: an outline up to what it was, and filled up to what it is now.

    `before` and `after` are (numbers,), at most 64; lines separate blocks of `block` numbers, and each block may have a
    caption. A number that became zero is hatched. Raises OperandError for other shapes, and for NaN or infinity.

    >>> picture = tcemu.show.before_and_after([3.0, -1.0, 0.5, -4.0], [3.0, 0.0, 0.0, -4.0], 4)
    >>> picture.title
    '2 of 4 numbers became zero, none of the others changed'
    """
    old, new = (_numbers(each, name) for each, name in ((before, "before"), (after, "after")))
    if old.shape != new.shape or old.ndim != 1 or not 1 <= len(old) <= _MOST or not 1 <= block <= len(old):
        raise OperandError(
            f"before_and_after takes two rows of at most {_MOST} numbers, in blocks of at most as many; got shapes "
            f"{old.shape} and {new.shape}, and blocks of {block}"
        )
    grid = Grid(60, 58, min(800 / len(old), 48), 160, 1, len(old))
    scale = _scale(grid, np.concatenate([old, new]))
    gone, moved = (old != 0) & (new == 0), (old != new) & (new != 0)
    ends = dict.fromkeys((scale.low, 0.0, scale.high))  # one of them may be 0
    body = [svg.text(grid.left - 8, scale.at(end) + 4, _short(end), "s", "end") for end in ends]
    body.append(svg.line(grid.left, scale.at(0), grid.right, scale.at(0), "k"))
    for place in range(len(old)):
        body += _bar(grid.at(0, place), scale, (float(old[place]), float(new[place])), bool(gone[place]))
    body += [*_blocks(grid, block, captions), *_key(grid.left, bool(gone.any()))]
    told = _told(int(gone.sum()), int(moved.sum()), len(old))
    words = "; ".join(f"{place}: {_short(old[place])} became {_short(new[place])}"
                      for place in np.flatnonzero(old != new)[:_LISTED])  # fmt: skip
    more = int((old != new).sum()) - _LISTED
    says = f"{words}{f'; and {more} more' if more > 0 else ''}." if words else "Every number is unchanged."
    blocks = f" Blocks: {'; '.join(captions)}." if captions else ""
    return picture(title or told, says + blocks, max(grid.right, grid.left + 460) + 24, grid.bottom + 56, body)


def _numbers(given: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    array = as_array(given, name)
    if array.dtype.kind == "c":
        raise OperandError(f"before_and_after draws real numbers; `{name}` has dtype {array.dtype}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise OperandError(f"before_and_after draws only finite numbers; `{name}` has others")
    return array


def _told(gone: int, moved: int, size: int) -> str:
    others = f"{moved} of the others" if moved else "none of the others"
    return f"{gone or 'None'} of {counted(size, 'number')} became zero, {others} changed"


def _short(number: float) -> str:
    return compact(float(number), 7)


def _scale(grid: Grid, numbers: npt.NDArray[Any]) -> Scale:
    """From the largest number down to the smallest; a side of 0 that has numbers is wide enough to see."""
    top, bottom = (float(max((sign * numbers).max(), 0)) for sign in (1, -1))
    most = max(top, bottom) or 1.0
    above, below = (max(side, 0.2 * most) if side else 0.0 for side in (top or most * (not bottom), bottom))
    return Scale(above, -below, grid.top, grid.bottom)


def _bar(box: Box, scale: Scale, numbers: tuple[float, float], gone: bool) -> list[str]:
    """The outline of what a number was, filled up to what it is."""
    old, new = (
        Box(box.x + 0.15 * box.wide, scale.at(max(number, 0)), 0.7 * box.wide, abs(scale.at(number) - scale.at(0)))
        for number in numbers
    )
    elements = [new.rect("fb")] if numbers[1] else []
    elements += [old.hatch(step=4)] if gone and old.high > 1 else []
    return elements + ([old.rect("k")] if numbers[0] else [])


def _blocks(grid: Grid, block: int, captions: Sequence[str]) -> list[str]:
    elements = []
    for number, start in enumerate(range(0, grid.columns, block)):
        box = grid.block(0, start, 1, min(block, grid.columns - start))
        if start:
            elements.append(svg.line(box.x, grid.top - 6, box.x, grid.bottom + 6, "l", dash="4 3"))
        elements.append(box.bracket(2, 14))
        elements += [box.below(captions[number], "n", 38)] if number < len(captions) else []
    return elements


def _key(x: float, gone: bool) -> list[str]:
    """What outlines, fillings and hatching mean."""
    elements = []
    for style, says in [("k", "before"), ("fb", "after"), *([("k", "now zero")] if gone else [])]:
        box = Box(x, 18, 18, 14)
        elements += [box.hatch(step=4)] if says == "now zero" else []
        elements += [box.rect(style), svg.text(x + 26, 30, says, "s")]
        x += 90
    return elements
