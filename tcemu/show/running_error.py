"""How far a sum is off while it grows along k: one line for each way of adding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, pairwise

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Scale
from tcemu.show.words import compact

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
    body = _axes(along, up)
    ends: list[float] = []
    for (name, line), (look, dash) in zip(sizes.items(), _LOOKS, strict=False):
        points = [(along.at(k), up.at(error)) for k, error in zip(ks, line, strict=True)]
        body += [svg.line(*start, *end, look, dash=dash) for start, end in pairwise(points)]
        ends.append(_free(points[-1][1], ends))
        body.append(svg.text(_RIGHT + 8, ends[-1] + 4, f"{name}: {_part(line[-1])}"))
    says = "; ".join(f"{name} is off by {_part(line[-1])}, at most {_part(max(line))}" for name, line in sizes.items())
    words = f"After k = {ks[-1]}: {says}."
    return picture(title or "Error of a sum along k", words, _RIGHT + 250, _BOTTOM + 44, body)


def _free(y: float, taken: Sequence[float]) -> float:
    """The place of a label at y, or the first one above it that leaves room for those that are there."""
    return next(place for place in (y - 16 * step for step in count()) if all(abs(place - each) > 15 for each in taken))


def _part(error: float) -> str:
    """A relative error: 1.2 %, or 0."""
    return compact(error, 8) if error else "0"


def _axes(along: Scale, up: Scale) -> list[str]:
    elements = [
        svg.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "k"),
        svg.line(_LEFT, _TOP, _LEFT, _BOTTOM, "k"),
        svg.text(16, 22, "error, as a part of the exact sum", "s"),
        svg.text((_LEFT + _RIGHT) / 2, _BOTTOM + 34, "k", "s", "middle"),
    ]
    for share in (0.0, 0.5, 1.0):
        y = up.at(share * up.high)
        elements.append(svg.line(_LEFT - 4, y, _LEFT, y, "k"))
        elements.append(svg.text(_LEFT - 8, y + 4, _part(share * up.high), "s", "end"))
    labels = {share * along.high: round(share * along.high) for share in (0.25, 0.5, 0.75, 1.0)}
    return elements + along.ticks(_BOTTOM, labels, size=4, down=18)
