"""A row of numbers before and after it was pruned or quantised: what became of each, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, counted
from tcemu.formats.arrays import as_array
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.words import compact

_LEFT, _TOP, _HALF, _MOST, _WIDTH = 60, 58, 84, 64, 800
_LISTED = 8


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
    wide = min(_WIDTH / len(old), 48)
    top = float(max(np.abs(old).max(), np.abs(new).max())) or 1.0
    gone, moved = (old != 0) & (new == 0), (old != new) & (new != 0)
    body = _axis(top, len(old) * wide)
    for place in range(len(old)):
        body += _bar(place * wide, wide, old[place] / top, new[place] / top, bool(gone[place]))
    body += _blocks(len(old), wide, block, captions)
    body += _key(len(old) * wide, bool(gone.any()))
    told = _told(int(gone.sum()), int(moved.sum()), len(old))
    words = "; ".join(f"{place}: {_short(old[place])} became {_short(new[place])}"
                      for place in np.flatnonzero(old != new)[:_LISTED])  # fmt: skip
    more = int((old != new).sum()) - _LISTED
    says = f"{words}{f'; and {more} more' if more > 0 else ''}." if words else "Every number is what it was."
    blocks = f" Blocks: {'; '.join(captions)}." if captions else ""
    width = _LEFT + max(len(old) * wide, 460) + 24
    return picture(title or told, says + blocks, width, _TOP + 2 * _HALF + 62, body)


def _numbers(given: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    array = as_array(given, name).astype(np.float64)
    if not np.isfinite(array).all():
        raise OperandError(f"before_and_after draws finite numbers; there are others in `{name}`")
    return array


def _told(gone: int, moved: int, size: int) -> str:
    others = f"{moved} of the others" if moved else "none of the others"
    return f"{gone or 'None'} of {counted(size, 'number')} became zero, {others} changed"


def _short(number: float) -> str:
    return compact(float(number), 7)


def _axis(top: float, length: float) -> list[str]:
    middle = _TOP + _HALF
    labels = ((top, _TOP), (0.0, middle), (-top, _TOP + 2 * _HALF))
    return [
        *(svg.text(_LEFT - 8, y + 4, _short(value), "s", "end") for value, y in labels),
        svg.line(_LEFT, middle, _LEFT + length, middle, "k"),
    ]


def _bar(x: float, wide: float, old: float, new: float, gone: bool) -> list[str]:
    middle, left, inner = _TOP + _HALF, _LEFT + x + 0.15 * wide, 0.7 * wide
    elements = []
    if new:
        elements.append(svg.rect(left, middle - max(new, 0) * _HALF, inner, abs(new) * _HALF, "fb"))
    if old:
        y, high = middle - max(old, 0) * _HALF, abs(old) * _HALF
        if gone and high > 1:
            elements.append(svg.hatch(left, y, inner, high, "g", step=4))
        elements.append(svg.rect(left, y, inner, high, "k"))
    return elements


def _blocks(size: int, wide: float, block: int, captions: Sequence[str]) -> list[str]:
    elements = []
    for number, start in enumerate(range(0, size, block)):
        end = min(start + block, size)
        if start:
            x = _LEFT + start * wide
            elements.append(svg.line(x, _TOP - 6, x, _TOP + 2 * _HALF + 6, "l", dash="4 3"))
        elements.append(svg.bracket(_LEFT + start * wide + 2, _LEFT + end * wide - 2, _TOP + 2 * _HALF + 14))
        if number < len(captions):
            middle = _LEFT + (start + end) / 2 * wide
            elements.append(svg.text(middle, _TOP + 2 * _HALF + 38, captions[number], "n", "middle"))
    return elements


def _key(length: float, gone: bool) -> list[str]:
    entries = [("k", "before"), ("fb", "after")]
    elements, x = [], float(_LEFT)
    for style, says in entries:
        elements += [svg.rect(x, 18, 18, 14, style), svg.text(x + 26, 30, says, "s")]
        x += 90
    if gone:
        elements += [
            svg.hatch(x, 18, 18, 14, "g", step=4), svg.rect(x, 18, 18, 14, "k"), svg.text(x + 26, 30, "now zero", "s"),
        ]  # fmt: skip
    return elements
