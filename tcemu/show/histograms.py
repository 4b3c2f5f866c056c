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
from tcemu.show.sheet import Box, Scale, notes
from tcemu.show.words import compact

_LEFT, _WIDTH, _HIGH, _GAP = 150, 540, 72, 22


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
        counts, outside = _counts(array, edges)
        box = Box(_LEFT, 24 + number * (_HIGH + _GAP), _WIDTH, _HIGH)
        body += _one(box, name, counts, f"mean {_short(array[np.isfinite(array)].mean())}", outside)
        words.append(_words(name, array, counts, edges, outside))
    bottom = box.y + _HIGH
    body += [svg.text(box.middle, bottom + 40, axis, "s", "middle")] if axis else []
    labels = (low + share * (high - low) for share in (0, 0.25, 0.5, 0.75, 1))
    body += Scale(low, high, box.x, box.x + _WIDTH).ticks(bottom, {label: _short(label) for label in labels})
    return picture(title or "Histograms", " ".join(words), _LEFT + _WIDTH + 140, bottom + 54, body)


def _counts(array: npt.NDArray[Any], edges: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    counts = np.histogram(array, edges)[0]
    return counts, int(array.size - counts.sum())


def _one(box: Box, name: str, counts: npt.NDArray[Any], told: str, outside: int) -> list[str]:
    wide, most = box.wide / len(counts), max(int(counts.max()), 1)
    right, bottom = box.x + box.wide, box.y + box.high
    elements = [svg.text(box.x - 10, box.base, name, "b", "end")]
    for place, count in enumerate(counts.tolist()):
        high = box.high * count / most
        elements += [svg.rect(box.x + place * wide, bottom - high, wide, high, "fb")] if count else []
    elements.append(svg.line(box.x, bottom, right, bottom, "k"))
    return elements + notes(right + 10, box.base - 8, [told, f"{outside:,} outside"])


def _words(name: str, array: npt.NDArray[Any], counts: npt.NDArray[Any], edges: npt.NDArray[Any], outside: int) -> str:
    most = int(np.argmax(counts))
    mean = _short(array[np.isfinite(array)].mean())
    where = f"from {_short(edges[most])} to {_short(edges[most + 1])}"
    return f"{name}: {array.size:,} numbers, mean {mean}, {outside:,} outside; most are {where}."


def _short(number: float) -> str:
    return compact(float(number), 7)
