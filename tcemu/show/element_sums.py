"""One element of a matrix product under several recipes: the partial sums that make it up, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tcemu.arguments import explained
from tcemu.errors import OperandError
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box

_LEFT, _TOP, _BAND, _BOX, _GAP, _MOST = 24, 40, 132, 118, 10, 7


@dataclass(frozen=True)
class ElementSums:
    """A recipe's sums of one element: the k of each and its value, then the total and the element as it is stored.

    >>> from tcemu.show import ElementSums
    >>> ElementSums("one chain", (("k 0-15", 1.5),), 1.5, 1.5, "0x3fc00000", True).agrees
    True
    """

    name: str
    #: Each part that is summed separately ("k 0-63"), and its sum, in the order of addition.
    parts: tuple[tuple[str, float], ...]
    total: float
    #: The element's value and bits.
    result: float
    bits: str
    #: Whether these are the bits in question.
    agrees: bool


@explained
def element_sums(bands: Sequence[ElementSums], title: str, given: str) -> Picture:
    """A band for each recipe; `given` is the element in question, value and bits.

    Sums that a recipe shares with the first one, to the bit, are plain; the others are marked. Raises OperandError
    without bands.

    >>> from tcemu.show import ElementSums, element_sums
    >>> whole = ElementSums("one chain", (("k 0-15", 1.5),), 1.5, 1.5, "0x3fc00000", True)
    >>> halves = ElementSums("2 splits", (("k 0-7", 1.0), ("k 8-15", 0.25)), 1.25, 1.25, "0x3fa00000", False)
    >>> drawn = element_sums([whole, halves], "D[0][0]", "1.5, 0x3fc00000")
    >>> drawn.description.partition(" 2 splits: ")[2]
    '1 (k 0-7) + 0.25 (k 8-15), in all 1.25, stored as 1.25 (0x3fa00000), which differs.'
    """
    if not bands:
        raise OperandError("a picture of an element's sums needs at least one recipe")
    most = min(_MOST, max(len(band.parts) for band in bands))
    width = 2 * _LEFT + (most + 2) * (_BOX + _GAP) + 20
    known = set(bands[0].parts)
    body = [svg.text(_LEFT, 24, f"given: {given}", "m")]
    for number, band in enumerate(bands):
        body += _drawn(band, _TOP + number * _BAND, known if number else set(band.parts))
    words = " ".join([f"Given: {given}.", *map(_words, bands)])
    return picture(title, words, width, _TOP + len(bands) * _BAND + 8, body)


def _drawn(band: ElementSums, top: float, known: set[tuple[str, float]]) -> list[str]:
    elements = [svg.text(_LEFT, top + 16, band.name, "n")]
    shown = _short(band.parts)
    for place, part in enumerate(shown):
        box = Box(_LEFT + place * (_BOX + _GAP), top + 30, _BOX, 44)
        if part is None:
            elements.append(box.label("…", "m"))
        else:
            elements += _said(box, "p" if part in known else "fo", part[0], f"{part[1]:.9g}", bold=part not in known)
    x, y = _LEFT + len(shown) * (_BOX + _GAP) + 10, top + 30
    elements.append(svg.arrow(x - 12, y + 22, x, y + 22))
    verdict = f"{band.bits} {'agrees' if band.agrees else 'differs'}"
    box = Box(x + 4, y, 2 * _BOX, 44)
    return elements + _said(box, "fg" if band.agrees else "fo", f"in all {band.total:.9g}", verdict, bold=True)


def _said(box: Box, tone: str, first: str, second: str, *, bold: bool) -> list[str]:
    """A box with two lines."""
    look = "n b" if bold else "n"
    return [box.rect(tone), svg.text(box.x + 6, box.y + 16, first, "s"), svg.text(box.x + 6, box.y + 34, second, look)]


def _short(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float] | None]:
    """The parts that fit: if there are many, the first ones and the last."""
    return list(parts) if len(parts) <= _MOST else [*parts[: _MOST - 2], None, parts[-1]]


def _words(band: ElementSums) -> str:
    parts = _short(band.parts)
    terms = " + ".join("..." if part is None else f"{part[1]:.9g} ({part[0]})" for part in parts)
    how = "which agrees" if band.agrees else "which differs"
    return f"{band.name}: {terms}, in all {band.total:.9g}, stored as {band.result:.9g} ({band.bits}), {how}."
