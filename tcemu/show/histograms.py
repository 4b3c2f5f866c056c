"""Histograms one below the other on one axis: how numbers, or their errors, are spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError
from tcemu.formats.arrays import as_array
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.words import compact

_LEFT, _TOP, _WIDTH, _HIGH, _GAP, _LABELS = 150, 24, 540, 72, 22, 140


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
    arrays = {name: as_array(given, name).astype(np.float64).ravel() for name, given in rows.items()}
    empty = [name for name, array in arrays.items() if not np.isfinite(array).any()]
    if empty:
        raise OperandError(f"there is no finite number in {empty[0]!r}")
    edges = np.linspace(low, high, bins + 1)
    body, words = [], []
    for number, (name, array) in enumerate(arrays.items()):
        y = _TOP + number * (_HIGH + _GAP)
        counts, outside = _counts(array, edges)
        body += _one(y, name, counts, f"mean {_short(array[np.isfinite(array)].mean())}", outside)
        words.append(_words(name, array, counts, edges, outside))
    bottom = _TOP + len(arrays) * (_HIGH + _GAP) - _GAP
    body += _axis(bottom, low, high, axis)
    return picture(title or "Histograms", " ".join(words), _LEFT + _WIDTH + _LABELS, bottom + 54, body)


def _counts(array: npt.NDArray[Any], edges: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    counts = np.histogram(array, edges)[0]
    return counts, int(array.size - counts.sum())


def _one(y: float, name: str, counts: npt.NDArray[Any], told: str, outside: int) -> list[str]:
    wide, top = _WIDTH / len(counts), max(int(counts.max()), 1)
    elements = [svg.text(_LEFT - 10, y + _HIGH / 2 + 4, name, "b", "end")]
    for place, count in enumerate(counts.tolist()):
        high = _HIGH * count / top
        if count:
            elements.append(svg.rect(_LEFT + place * wide, y + _HIGH - high, wide, high, "fb"))
    elements.append(svg.line(_LEFT, y + _HIGH, _LEFT + _WIDTH, y + _HIGH, "k"))
    elements.append(svg.text(_LEFT + _WIDTH + 10, y + _HIGH / 2 - 4, told, "s"))
    elements.append(svg.text(_LEFT + _WIDTH + 10, y + _HIGH / 2 + 14, f"{outside:,} outside", "s"))
    return elements


def _words(name: str, array: npt.NDArray[Any], counts: npt.NDArray[Any], edges: npt.NDArray[Any], outside: int) -> str:
    most = int(np.argmax(counts))
    mean = _short(array[np.isfinite(array)].mean())
    where = f"from {_short(edges[most])} to {_short(edges[most + 1])}"
    return f"{name}: {array.size:,} numbers, mean {mean}, {outside:,} outside; most are {where}."


def _axis(bottom: float, low: float, high: float, axis: str) -> list[str]:
    elements = [svg.text(_LEFT + _WIDTH / 2, bottom + 40, axis, "s", "middle")] if axis else []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = _LEFT + share * _WIDTH
        elements.append(svg.line(x, bottom, x, bottom + 5, "k"))
        elements.append(svg.text(x, bottom + 20, _short(low + share * (high - low)), "s", "middle"))
    return elements


def _short(number: float) -> str:
    return compact(float(number), 7)
