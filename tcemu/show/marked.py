"""A grid of values with the wrong ones marked: a check's picture of an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.show import svg
from tcemu.show.picture import Picture, picture

_LEFT, _TOP, _HIGH = 64, 44, 24
#: The numbers of the rows, and those of the columns.
Numbers = tuple[Sequence[int], Sequence[int]]


@explained
def marked(
    labels: Sequence[Sequence[str]],
    wrong: npt.ArrayLike,
    what: str = "Your values",
    axes: tuple[str, str] = ("row", "column"),
    counted_by: Numbers | None = None,
) -> Picture:
    """A grid of texts, at most 64 by 64, with those marked that are `wrong`, and the first of them framed.

    `wrong` is an array of bool with the grid's shape. `axes` are what rows and columns count, `counted_by` the numbers
    of each, by default from 0. Raises OperandError if `wrong` has another shape.

    >>> tcemu.show.marked([["0 0", "0 1"], ["4 0", "9 9"]], [[False, False], [False, True]]).title
    'Your values: 1 of 4 is wrong'
    """
    bad = np.asarray(wrong, bool)
    rows, columns = len(labels), len(labels[0]) if labels else 0
    if bad.shape != (rows, columns) or not 0 < max(rows, columns) <= 64:
        raise OperandError(f"the grid is {rows} by {columns}, at most 64 by 64; `wrong` has the shape {bad.shape}")
    wide = max(30, 10 + 7 * max(len(label) for row in labels for label in row))
    count = int(bad.sum())
    title = f"{what}: {count or 'none'} of {bad.size} {'is' if count == 1 else 'are'} wrong"
    height = _TOP + rows * _HIGH + 16
    numbers = counted_by or (range(rows), range(columns))
    words = _words(labels, bad, axes, numbers)
    return picture(title, words, _LEFT + columns * wide + 16, height, _drawn(labels, bad, wide, axes, numbers))


def _words(labels: Sequence[Sequence[str]], bad: npt.NDArray[np.bool_], axes: tuple[str, str], numbers: Numbers) -> str:
    places = [(int(row), int(column)) for row, column in np.argwhere(bad)]
    listed = "; ".join(
        f"{axes[0]} {numbers[0][row]}, {axes[1]} {numbers[1][column]}: {labels[row][column]}"
        for row, column in places[:12]
    )
    more = f"; and {counted(len(places) - 12, 'more value')}" if len(places) > 12 else ""
    return f"Wrong: {listed}{more}." if places else "No value is wrong."


def _drawn(
    labels: Sequence[Sequence[str]],
    bad: npt.NDArray[np.bool_],
    wide: float,
    axes: tuple[str, str],
    numbers: Numbers,
) -> list[str]:
    outlines, quiet, marks, loud = [], [], [], []
    for (row, column), is_wrong in np.ndenumerate(bad):
        x, y = _LEFT + column * wide, _TOP + row * _HIGH
        label = svg.text(x + wide / 2, y + _HIGH / 2 + 4, labels[row][column])
        if is_wrong:
            marks += [svg.rect(x, y, wide, _HIGH, "x"), svg.hatch(x + 1, y + 1, wide - 2, _HIGH - 2)]
            loud.append(label)
        else:
            outlines.append(f"M{svg.number(x)} {y}h{svg.number(wide)}v{_HIGH}h-{svg.number(wide)}z")
            quiet.append(label)
    frame = svg.rect(_LEFT, _TOP, bad.shape[1] * wide, bad.shape[0] * _HIGH, "k")
    across = [
        svg.text(_LEFT + (j + 0.5) * wide, _TOP - 8, n if j or wide < 60 else f"{axes[1]} {n}", "s t", "middle")
        for j, n in enumerate(numbers[1])
    ]
    down = [
        svg.text(_LEFT - 6, _TOP + i * _HIGH + 16, n if i else f"{axes[0]} {n}", "s t", "end")
        for i, n in enumerate(numbers[0])
    ]
    if wide < 60:  # the name of the columns has no room above the first one
        across.append(svg.text(_LEFT - 6, _TOP - 8, axes[1], "s t", "end"))
    back = [svg.path("".join(outlines), "p")] if outlines else []
    return [*back, svg.group(quiet, "n q c"), frame, *marks, svg.group(loud, "n b c halo"), *across, *down]
