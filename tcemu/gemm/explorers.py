"""Sliders over runs of these kernels: each position is a run of the emulator, and the picture shows it.

A run takes too long for a slider, so all positions are run when the sliders are made, in a few seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm import mma_pipeline, wgmma_tma
from tcemu.machine import scalar
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.timeline import timeline
from tcemu.show.widgets import Choice, Explorer, Range
from tcemu.timing import Timeline

__all__ = ["error_of_a_polynomial", "online_softmax", "schedule_of_mma", "schedule_of_wgmma"]

Array = npt.NDArray[Any]


def schedule_of_mma(a: Array, b: Array, stages: int = 3) -> Explorer:
    """Block 0 of mma_pipeline.multiply in clock cycles: a list for the number of stages.

    A (m, k) and B (k, n) are float16. Raises OperandError for what mma_pipeline.multiply does not take.

    >>> from tcemu.gemm import explorers
    >>> explorers.schedule_of_mma(np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)).values
    {'stages': '3'}
    """
    def drawn(stages: int) -> Picture:
        run = Timeline()
        mma_pipeline.multiply(a, b, stages, sanitizer="off", observers=[run])
        return timeline(run)

    pictures = {str(each): drawn(each) for each in mma_pipeline.STAGES}
    return Explorer(lambda stages: pictures[stages], {"stages": Choice("stages", tuple(pictures), str(stages))})


#: Stages and columns that a Hopper kernel's lists offer; five stages of 256 columns would not fit into shared memory.
_STAGES, _COLUMNS = ("2", "3", "4"), ("32", "64", "128", "256")


def schedule_of_wgmma(a: Array, b: Array, stages: int = 3, in_flight: int = 1, columns: int = 128) -> Explorer:
    """Block 0 of wgmma_tma.multiply in clock cycles: lists for the stages and the tile's columns, a slider for groups.

    A (m, k) and B (k, n) are float16. `in_flight` groups of products still run while the next one is issued; it is less
    than `stages`. Raises OperandError for what wgmma_tma.multiply does not take.

    >>> from tcemu.gemm import explorers
    >>> explorers.schedule_of_wgmma(np.ones((64, 64), np.float16), np.ones((64, 64), np.float16), columns=64).values
    {'stages': '3', 'columns': '64', 'in_flight': 1}
    """
    def drawn(stages: int, columns: int, in_flight: int) -> Picture:
        run = Timeline()
        plan = wgmma_tma.Plan(columns=columns, stages=stages, in_flight=in_flight)
        wgmma_tma.multiply(a, b, plan, sanitizer="off", observers=[run])
        return timeline(run)

    pictures = {
        (each, wide, flying): drawn(int(each), int(wide), flying)
        for each, wide in product(_STAGES, _COLUMNS)
        for flying in range(int(each))
    }
    controls: dict[str, Range | Choice] = {
        "stages": Choice("stages", _STAGES, str(stages)),
        "columns": Choice("columns of the tile", _COLUMNS, str(columns)),
        "in_flight": Range("groups in flight", 3, in_flight),
    }
    return Explorer(
        lambda stages, columns, in_flight: pictures[stages, columns, in_flight],
        controls,
        lambda stages, **_: {"in_flight": int(stages) - 1},
    )


# ---------------------------------------------------------------------------------------------- softmax


@explained
def online_softmax(scores: npt.ArrayLike, keys: int = 4) -> Explorer:
    """What a row's online softmax holds after each tile: sliders for the keys of a tile and for where the largest is.

    `scores` are 2 to 32 numbers; the second slider moves the largest of them to another place. Powers are of 2. Raises
    OperandError for other scores.

    >>> from tcemu.gemm import explorers
    >>> print(explorers.online_softmax([1, 3, 0, 2], keys=2).picture.title)
    Tiles of 2 keys: the sum at the end is 1.875
    """
    given = np.asarray(scores, np.float32)
    if given.ndim != 1 or not 2 <= len(given) <= 32 or not np.isfinite(given).all():
        raise OperandError(f"scores must be 2 to 32 finite numbers; got {briefly(scores)}")
    others, top = np.delete(given, given.argmax()), given.max()

    def draw(tile: int, place: int) -> Picture:
        return _online(np.insert(others, place, top), max(tile, 1))

    high = len(given) - 1
    controls: dict[str, Range | Choice] = {
        "tile": Range("keys in a tile", len(given), keys),
        "place": Range("place of the largest score", high, int(given.argmax())),
    }
    return Explorer(draw, controls)


def _online(scores: Array, keys: int) -> Picture:
    """A row for each tile: the largest score, the factor for older sums, and the sum; factors below 1 are marked."""
    largest, total = np.float32(-np.inf), np.float32(0)
    rows, rescaled = [], []
    for first in range(0, len(scores), keys):
        tile = scores[first : first + keys]
        before, largest = largest, np.float32(max(largest, tile.max()))
        factor = np.exp2(before - largest)
        total = np.float32(total * factor + np.exp2(tile - largest).sum(dtype=np.float32))
        held = " ".join(f"{score:g}" for score in tile)
        rows.append([held, f"{largest:g}", f"{factor:.4g}", f"{total:.5g}"])
        rescaled.append(bool(0 < factor < 1))
    title = f"Tiles of {keys} {'key' if keys == 1 else 'keys'}: the sum at the end is {total:.5g}"
    return _grid(title, ("scores of the tile", "largest so far", "factor for older sums", "sum so far"), rows, rescaled)


# ---------------------------------------------------------------------------------------------- the exponential


def error_of_a_polynomial(degree: int = 5) -> Explorer:
    """How far 2 ** x by a polynomial in fma.rn.f32 is from 2 ** x, for x from -0.5 to 0.5: a slider for the degree.

    The polynomial is Taylor's, and the errors are in units in the last place of f32; those above 1 are marked.

    >>> from tcemu.gemm import explorers
    >>> explorers.error_of_a_polynomial(5).values
    {'degree': 5}
    """
    return Explorer(_errors, {"degree": Range("degree", 8, degree)})


def _errors(degree: int) -> Picture:
    x = np.arange(-8, 9, dtype=np.float32) / np.float32(16)
    power = np.zeros_like(x)
    for n in range(degree, -1, -1):
        power = scalar.fma(power, x, np.float32(math.log(2) ** n / math.factorial(n)))
    exact = np.exp2(x.astype(np.float64))
    units = np.abs(power - exact) / np.spacing(exact.astype(np.float32))
    rows = [[f"{each:g}", f"{found:.7f}", f"{off:.0f}"] for each, found, off in zip(x, power, units, strict=True)]
    title = f"Degree {degree}: the largest error is {units.max():.0f} units in the last place"
    marks = [row[2] not in ("0", "1") for row in rows]
    return _grid(title, ("x", "polynomial", "units in the last place"), rows, marks)


# ---------------------------------------------------------------------------------------------- drawing

_TOP, _HIGH, _WIDE = 30, 24, 190


def _grid(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], marks: Sequence[bool]) -> Picture:
    """A grid of texts under headings; the marked rows are hatched."""
    body = [svg.text((i + 0.5) * _WIDE, 20, head, "s t", "middle") for i, head in enumerate(heads)]
    for number, (row, mark) in enumerate(zip(rows, marks, strict=True)):
        y = _TOP + number * _HIGH
        body.append(svg.rect(0, y, len(heads) * _WIDE, _HIGH, "x" if mark else "p"))
        if mark:
            body.append(svg.hatch(1, y + 1, len(heads) * _WIDE - 2, _HIGH - 2))
        look = "n b halo" if mark else "n q"
        body += [svg.text((i + 0.5) * _WIDE, y + 16, text, look, "middle") for i, text in enumerate(row)]
    words = [", ".join(f"{head} {text}" for head, text in zip(heads, row, strict=True)) for row in rows]
    return picture(title, f"{'; '.join(words)}.", len(heads) * _WIDE, _TOP + len(rows) * _HIGH + 8, body)
