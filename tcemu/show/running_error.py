"""How far a sum is off while it grows along k: one line for each way of adding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, pairwise

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.words import compact

_LEFT, _TOP, _WIDTH, _HEIGHT, _LABELS = 70, 44, 520, 220, 250
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
    body = _axes(ks, top)
    ends: list[float] = []
    for (name, line), (look, dash) in zip(sizes.items(), _LOOKS, strict=False):
        points = [(_x(k, ks), _y(error, top)) for k, error in zip(ks, line, strict=True)]
        body += [
            svg.line(x1, y1, x2, y2, look, dash=dash)
            for (x1, y1), (x2, y2) in pairwise(points)
        ]
        ends.append(_free(points[-1][1], ends))
        body.append(svg.text(_LEFT + _WIDTH + 8, ends[-1] + 4, f"{name}: {_part(line[-1])}"))
    says = "; ".join(f"{name} is off by {_part(line[-1])}, at most {_part(max(line))}" for name, line in sizes.items())
    words = f"After k = {ks[-1]}: {says}."
    return picture(title or "Error of a sum along k", words, _LEFT + _WIDTH + _LABELS, _TOP + _HEIGHT + 44, body)


def _free(y: float, taken: Sequence[float]) -> float:
    """The place of a label at y, or the first one above it that leaves room for those that are there."""
    return next(place for place in (y - 16 * step for step in count()) if all(abs(place - each) > 15 for each in taken))


def _part(error: float) -> str:
    """A relative error: 1.2 %, or 0."""
    return compact(error, 8) if error else "0"


def _x(k: int, ks: Sequence[int]) -> float:
    return _LEFT + _WIDTH * k / ks[-1]


def _y(error: float, top: float) -> float:
    return _TOP + _HEIGHT * (1 - error / top)


def _axes(ks: Sequence[int], top: float) -> list[str]:
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    elements = [
        svg.line(_LEFT, bottom, right, bottom, "k"),
        svg.line(_LEFT, _TOP, _LEFT, bottom, "k"),
        svg.text(16, 22, "error, as a part of the exact sum", "s"),
        svg.text((_LEFT + right) / 2, bottom + 34, "k", "s", "middle"),
    ]
    for share in (0.0, 0.5, 1.0):
        y = _y(share * top, top)
        elements.append(svg.line(_LEFT - 4, y, _LEFT, y, "k"))
        elements.append(svg.text(_LEFT - 8, y + 4, _part(share * top), "s", "end"))
    for share in (0.25, 0.5, 0.75, 1.0):
        x = _LEFT + share * _WIDTH
        elements.append(svg.line(x, bottom, x, bottom + 4, "k"))
        elements.append(svg.text(x, bottom + 18, f"{round(share * ks[-1])}", "s", "middle"))
    return elements
