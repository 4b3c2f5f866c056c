"""Series of numbers: how they are spread, how an error grows, and how each has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly, counted, span
from tcemu.formats.arrays import as_array
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box, Grid, Scale, notes
from tcemu.show.svg import Drawing
from tcemu.show.words import compact

_BARS, _WIDTH, _HIGH, _GAP = 150, 540, 72, 22


@explained
def histograms(
    rows: Mapping[str, npt.ArrayLike], low: float, high: float, bins: int = 60, title: str = "", axis: str = ""
) -> Picture:
    """A histogram of each array, by name, of its numbers from `low` to `high`; what lies outside is counted beside it.

    The heights of a histogram are relative to its own largest bin. At most six arrays, `bins` from 2 to 120. Raises
    OperandError otherwise, and for arrays without numbers.

    >>> print(tcemu.show.histograms({"errors": [0.0, 0.1, 0.1, 0.9]}, 0, 0.5, 5).description)
    errors: 4 numbers, mean 0.275, 1 outside; most are from 0.1 to 0.2.
    """
    if not 1 <= len(rows) <= 6 or not 2 <= bins <= 120 or not low < high:
        raise OperandError("histograms draws one to six arrays, in 2 to 120 bins, from a number to a larger one")
    arrays = {name: as_array(numbers, name).astype(np.float64).ravel() for name, numbers in rows.items()}
    empty = [name for name, array in arrays.items() if not np.isfinite(array).any()]
    if empty:
        raise OperandError(f"there is no finite number in {empty[0]!r}")
    edges = np.linspace(low, high, bins + 1)
    body, words = list[Drawing](), list[str]()
    for number, (name, array) in enumerate(arrays.items()):
        counts = np.histogram(array, edges)[0]
        most, says = int(np.argmax(counts)), [f"mean {_short(array[np.isfinite(array)].mean())}"]
        says.append(f"{int(array.size - counts.sum()):,} outside")
        box = Box(_BARS, 24 + number * (_HIGH + _GAP), _WIDTH, _HIGH)
        body.append(_histogram(box, name, counts.tolist(), says))
        where = f"most are from {_short(edges[most])} to {_short(edges[most + 1])}"
        words.append(f"{name}: {array.size:,} numbers, {', '.join(says)}; {where}.")
    bottom = box.y + _HIGH
    body.append(svg.text(box.middle, bottom + 40, axis, "s", "middle") if axis else "")
    labels = (low + share * (high - low) for share in (0, 0.25, 0.5, 0.75, 1))
    body.append(Scale(low, high, box.x, box.x + _WIDTH).ticks(bottom, {label: _short(label) for label in labels}))
    return picture(title or "Histograms", " ".join(words), _BARS + _WIDTH + 140, bottom + 54, body)


def _histogram(box: Box, name: str, counts: list[int], says: list[str]) -> Iterator[Drawing]:
    wide, most = box.wide / len(counts), max(*counts, 1)
    right, bottom = box.x + box.wide, box.y + box.high
    yield svg.text(box.x - 10, box.base, name, "b", "end")
    for place, number in enumerate(counts):
        high = box.high * number / most
        yield svg.rect(box.x + place * wide, bottom - high, wide, high, "fb") if number else ""
    yield svg.line(box.x, bottom, right, bottom, "k"), notes(right + 10, box.base - 8, says)


def _short(number: float) -> str:
    return compact(float(number), 7)


_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 590, 44, 264
#: The look of each line; dashes and the label at its end tell them apart without colour.
_LOOKS = (("ko", ""), ("kb", "7 4"), ("kg", "2 3"))


@explained
def running_error(ks: Sequence[int], errors: Mapping[str, Sequence[float]], title: str = "") -> Picture:
    """Errors, as parts of the exact sum, after each of `ks`: at most three lines, by name, from 0 upwards.

    Raises OperandError if a line does not have as many points as `ks`, or if there are none or too many.

    >>> tcemu.show.running_error([32, 64], {"one accumulator": [0.0, 0.01], "promoted": [0.0, 0.0]}).description
    'After k = 64: one accumulator is off by 0.01, at most 0.01; promoted is off by 0, at most 0.'
    """
    if not 1 <= len(errors) <= len(_LOOKS) or not len(ks) or any(len(line) != len(ks) for line in errors.values()):
        raise OperandError(f"there are 1 to {len(_LOOKS)} lines, with one error for each of {len(ks)} values of k")
    if ks[-1] <= 0:
        raise OperandError(f"the last k must be positive: it is at the right end of the picture; got {briefly(ks)}")
    sizes = {name: [abs(float(error)) for error in line] for name, line in errors.items()}
    top = max(max(line) for line in sizes.values()) or 1.0
    along, up = Scale(0, ks[-1], _LEFT, _RIGHT), Scale(0, top, _BOTTOM, _TOP)
    body, ends = [_axes(along, up)], list[float]()
    for (name, line), (look, dash) in zip(sizes.items(), _LOOKS, strict=False):
        points = [(along.at(k), up.at(error)) for k, error in zip(ks, line, strict=True)]
        # the label of a line is at its end, or at the next place that leaves room for those that are there
        places = (points[-1][1] + sign * 16 * step for step in count() for sign in (-1, 1))
        ends.append(next(y for y in places if y >= _TOP - 20 and all(abs(y - each) > 15 for each in ends)))
        body.append([svg.line(*start, *end, look, dash=dash) for start, end in pairwise(points)])
        body.append(svg.text(_RIGHT + 8, ends[-1] + 4, f"{name}: {_part(line[-1])}"))
    says = "; ".join(f"{name} is off by {_part(line[-1])}, at most {_part(max(line))}" for name, line in sizes.items())
    words = f"After k = {ks[-1]}: {says}."
    return picture(title or "Error of a sum along k", words, _RIGHT + 250, _BOTTOM + 44, body)


def _part(error: float) -> str:
    """A relative error: 1.2 %, or 0."""
    return compact(error, 8) if error else "0"


def _axes(along: Scale, up: Scale) -> Drawing:
    lines = svg.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "k"), svg.line(_LEFT, _TOP, _LEFT, _BOTTOM, "k")
    names = (svg.text(16, 22, "error, as a part of the exact sum", "s"),
             svg.text((_LEFT + _RIGHT) / 2, _BOTTOM + 34, "k", "s", "middle"))  # fmt: skip
    left = list[str]()
    for share in (0.0, 0.5, 1.0):
        y = up.at(share * up.high)
        left += [svg.line(_LEFT - 4, y, _LEFT, y, "k"), svg.text(_LEFT - 8, y + 4, _part(share * up.high), "s", "end")]
    labels = {share * along.high: round(share * along.high) for share in (0.25, 0.5, 0.75, 1.0)}
    return lines, names, left, along.ticks(_BOTTOM, labels, size=4, down=18)


_MOST, _LISTED = 64, 8


@explained
def before_and_after(
    before: npt.ArrayLike, after: npt.ArrayLike, block: int, captions: Sequence[str] = (), title: str = ""
) -> Picture:
    """A bar for each number: an outline up to what it was, and filled up to what it is now.

    `before` and `after` are (numbers,), at most 64; lines separate blocks of `block` numbers, and each block has a
    caption, or else says which numbers are in it. A number that became zero is hatched. Raises OperandError for other
    shapes, and for NaN or infinity.

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
    axis = [svg.text(grid.left - 8, scale.at(end) + 4, _short(end), "s", "end") for end in ends]
    zero = svg.line(grid.left, scale.at(0), grid.right, scale.at(0), "k")
    pairs = enumerate(zip(old.tolist(), new.tolist(), gone.tolist(), strict=True))
    bars = [_bar(grid.at(0, place), scale, *each) for place, each in pairs]
    body = axis, zero, bars, _blocks(grid, block, captions), _key(grid.left, bool(gone.any()))
    others = f"{int(moved.sum()) or 'none'} of the others"
    summary = f"{int(gone.sum()) or 'None'} of {counted(len(old), 'number')} became zero, {others} changed"
    words = "; ".join(f"{place}: {_short(old[place])} became {_short(new[place])}"
                      for place in np.flatnonzero(old != new)[:_LISTED])  # fmt: skip
    more = int((old != new).sum()) - _LISTED
    says = f"{words}{f'; and {more} more' if more > 0 else ''}." if words else "Every number is unchanged."
    blocks = f" Blocks: {'; '.join(captions)}." if captions else ""
    return picture(title or summary, says + blocks, max(grid.right, grid.left + 460) + 24, grid.bottom + 56, body)


def _numbers(numbers: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    array = as_array(numbers, name)
    if array.dtype.kind == "c":
        raise OperandError(f"before_and_after draws real numbers; `{name}` has dtype {array.dtype}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise OperandError(f"before_and_after draws only finite numbers; `{name}` has others")
    return array


def _scale(grid: Grid, numbers: npt.NDArray[Any]) -> Scale:
    """From the largest number down to the smallest; a side of 0 that has numbers is wide enough to see."""
    top, bottom = (float(max((sign * numbers).max(), 0)) for sign in (1, -1))
    most = max(top, bottom) or 1.0
    above, below = (max(side, 0.2 * most) if side else 0.0 for side in (top or most * (not bottom), bottom))
    return Scale(above, -below, grid.top, grid.bottom)


def _bar(box: Box, scale: Scale, before: float, after: float, gone: bool) -> Iterator[str]:
    """The outline of what a number was, filled up to what it is."""
    old, new = (
        Box(box.x + 0.15 * box.wide, scale.at(max(number, 0)), 0.7 * box.wide, abs(scale.at(number) - scale.at(0)))
        for number in (before, after)
    )
    yield new.rect("fb") if after else ""
    yield old.hatch(step=4) if gone and old.high > 1 else ""
    yield old.rect("k") if before else ""


def _blocks(grid: Grid, block: int, captions: Sequence[str]) -> Iterator[str]:
    for number, start in enumerate(range(0, grid.columns, block)):
        box = grid.block(0, start, 1, min(block, grid.columns - start))
        yield svg.line(box.x, grid.top - 6, box.x, grid.bottom + 6, "l", dash="4 3") if start else ""
        yield box.bracket(2, 14)
        numbers = span(start, min(start + block, grid.columns) - 1, "–")
        caption = captions[number] if number < len(captions) else f"numbers {numbers}" if box.wide > 110 else numbers
        yield box.below(caption, "n", 38)


def _key(x: float, gone: bool) -> Iterator[str]:
    """What outlines, fillings and hatching mean."""
    for style, says in [("k", "before"), ("fb", "after"), ("k", "now zero")][: 2 + gone]:
        box = Box(x, 18, 18, 14)
        yield box.hatch(step=4) if says == "now zero" else ""
        yield box.rect(style) + svg.text(x + 26, 30, says, "s")
        x += 90
