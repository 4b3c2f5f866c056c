"""A row of numbers before and after it was pruned or quantised: what became of each, block by block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted
from tcemu.formats.arrays import as_array
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.words import compact

_LEFT, _TOP, _HIGH, _MOST, _WIDTH = 60, 58, 160, 64, 800
_LISTED = 8


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
    wide = min(_WIDTH / len(old), 48)
    scale = _Scale.of(old, new)
    gone, moved = (old != 0) & (new == 0), (old != new) & (new != 0)
    body = _axis(scale, len(old) * wide)
    for place in range(len(old)):
        body += _bar(place * wide, wide, scale, (float(old[place]), float(new[place])), bool(gone[place]))
    body += _blocks(len(old), wide, block, captions)
    body += _key(len(old) * wide, bool(gone.any()))
    told = _told(int(gone.sum()), int(moved.sum()), len(old))
    words = "; ".join(f"{place}: {_short(old[place])} became {_short(new[place])}"
                      for place in np.flatnonzero(old != new)[:_LISTED])  # fmt: skip
    more = int((old != new).sum()) - _LISTED
    says = f"{words}{f'; and {more} more' if more > 0 else ''}." if words else "Every number is unchanged."
    blocks = f" Blocks: {'; '.join(captions)}." if captions else ""
    width = _LEFT + max(len(old) * wide, 460) + 24
    return picture(title or told, says + blocks, width, _TOP + _HIGH + 56, body)


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


@dataclass(frozen=True)
class _Scale:
    """The largest number above 0, and the largest magnitude below it; a side that has numbers is wide enough to see."""

    top: float
    bottom: float

    @classmethod
    def of(cls, *rows: npt.NDArray[Any]) -> _Scale:
        both = np.concatenate(rows)
        top, bottom = (float(max((sign * both).max(), 0)) for sign in (1, -1))
        most = max(top, bottom) or 1.0
        return cls(*(max(side, 0.2 * most) if side else 0.0 for side in (top or most * (not bottom), bottom)))

    def y(self, number: float) -> float:
        return _TOP + _HIGH * (self.top - number) / (self.top + self.bottom)


def _axis(scale: _Scale, length: float) -> list[str]:
    labels = {number: scale.y(number) for number in (scale.top, 0.0, -scale.bottom)}
    return [
        *(svg.text(_LEFT - 8, y + 4, _short(number), "s", "end") for number, y in labels.items()),
        svg.line(_LEFT, scale.y(0), _LEFT + length, scale.y(0), "k"),
    ]


def _bar(x: float, wide: float, scale: _Scale, numbers: tuple[float, float], gone: bool) -> list[str]:
    left, inner = _LEFT + x + 0.15 * wide, 0.7 * wide
    (y, high), (new_y, new_high) = (
        (scale.y(max(number, 0)), abs(scale.y(number) - scale.y(0))) for number in numbers
    )
    elements = [svg.rect(left, new_y, inner, new_high, "fb")] if numbers[1] else []
    if gone and high > 1:
        elements.append(svg.hatch(left, y, inner, high, "g", step=4))
    if numbers[0]:
        elements.append(svg.rect(left, y, inner, high, "k"))
    return elements


def _blocks(size: int, wide: float, block: int, captions: Sequence[str]) -> list[str]:
    elements = []
    for number, start in enumerate(range(0, size, block)):
        end = min(start + block, size)
        if start:
            x = _LEFT + start * wide
            elements.append(svg.line(x, _TOP - 6, x, _TOP + _HIGH + 6, "l", dash="4 3"))
        elements.append(svg.bracket(_LEFT + start * wide + 2, _LEFT + end * wide - 2, _TOP + _HIGH + 14))
        if number < len(captions):
            middle = _LEFT + (start + end) / 2 * wide
            elements.append(svg.text(middle, _TOP + _HIGH + 38, captions[number], "n", "middle"))
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
