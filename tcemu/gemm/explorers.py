"""Sliders over runs of these kernels: each position is a run of the emulator, and the picture shows it.

A run takes too long for a slider, so all positions are run when the sliders are made, in a few seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly
from tcemu.gemm import mma_pipeline, wgmma_tma
from tcemu.machine import scalar
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Scale
from tcemu.show.timeline import timeline
from tcemu.show.widgets import Choice, Explorer, Range
from tcemu.show.words import superscript
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
    numbers = np.asarray(scores, np.float32)
    if numbers.ndim != 1 or not 2 <= len(numbers) <= 32 or not np.isfinite(numbers).all():
        raise OperandError(f"scores must be 2 to 32 finite numbers; got {briefly(scores)}")
    others, top = np.delete(numbers, numbers.argmax()), numbers.max()

    def draw(tile: int, place: int) -> Picture:
        return _online(np.insert(others, place, top), max(tile, 1))

    high = len(numbers) - 1
    controls: dict[str, Range | Choice] = {
        "tile": Range("keys in a tile", len(numbers), keys),
        "place": Range("place of the largest score", high, int(numbers.argmax())),
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
    heads = ("scores of the tile", "largest so far", "factor for older sums", "sum so far")
    return _grid(
        title,
        heads,
        rows,
        rescaled,
        "hatched: the largest score so far is a new one, so that older sums become smaller",
    )


# ---------------------------------------------------------------------------------------------- the exponential


def error_of_a_polynomial(degree: int = 5) -> Explorer:
    """How far 2 ** x by a polynomial in fma.rn.f32 is from 2 ** x, for x from -0.5 to 0.5: a slider for the degree.

    The polynomial is Taylor's, and the errors are in units in the last place of f32.

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
    title = f"Degree {degree}: the largest error is {units.max():.0f} units in the last place"
    words = "; ".join(f"x {each:g}: off by {off:.3g}" for each, off in zip(x, units, strict=True))
    return picture(title, f"Errors in units in the last place. {words}.", 640, 300, _plot(x.tolist(), units.tolist()))


#: The decades of errors that the plot shows: from a tenth of a unit to 2 ** x itself, which has 2 ** 23 of them.
_DECADES = range(-1, 8)


def _plot(x: Sequence[float], units: Sequence[float]) -> list[str]:
    """Errors along x on a logarithmic axis; what is below the axis stands on it."""
    along, up = Scale(-0.5, 0.5, 80, 600), Scale(_DECADES[0], _DECADES[-1], 250, 40)
    body = [svg.text(16, 20, "error in units in the last place of f32", "s"), svg.line(80, 250, 600, 250, "k"),
            svg.line(80, 40, 80, 250, "k"), svg.text(340, 288, "x", "s", "middle")]  # fmt: skip
    body += along.ticks(250, {each / 4: f"{each / 4:g}".replace("-", "−") for each in range(-2, 3)}, down=18)
    for decade in _DECADES:
        y, label = up.at(decade), f"{10.0**decade:,g}" if decade < 3 else f"10{superscript(decade)}"
        body += [svg.line(76, y, 80, y, "k"), svg.text(72, y + 4, label, "s", "end")]
    body += [svg.line(80, up.at(0), 600, up.at(0), "ko", dash="4 3"), svg.text(606, up.at(0) + 4, "1", "s")]
    logs = [max(math.log10(max(off, 1e-9)), _DECADES[0]) for off in units]
    points = [(along.at(at), up.at(log)) for at, log in zip(x, logs, strict=True)]
    body += [svg.line(*start, *end, "kb") for start, end in pairwise(points)]
    return body + [svg.rect(px - 3, py - 3, 6, 6, "d") for px, py in points]


# ---------------------------------------------------------------------------------------------- drawing

_TOP, _HIGH, _WIDE = 30, 24, 190


def _grid(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], marks: Sequence[bool], legend: str
) -> Picture:
    """A grid of texts under headings; the marked rows are hatched, and `legend` says what that means."""
    body = [svg.text((i + 0.5) * _WIDE, 20, head, "s t", "middle") for i, head in enumerate(heads)]
    for number, (row, mark) in enumerate(zip(rows, marks, strict=True)):
        y = _TOP + number * _HIGH
        body.append(svg.rect(0, y, len(heads) * _WIDE, _HIGH, "x" if mark else "p"))
        if mark:
            body.append(svg.hatch(1, y + 1, len(heads) * _WIDE - 2, _HIGH - 2))
        look = "n b halo" if mark else "n q"
        body += [svg.text((i + 0.5) * _WIDE, y + 16, text, look, "middle") for i, text in enumerate(row)]
    words = [", ".join(f"{head} {text}" for head, text in zip(heads, row, strict=True)) for row in rows]
    low = _TOP + len(rows) * _HIGH
    body += [svg.text(0, low + 20, legend, "s")] if any(marks) else []
    return picture(title, f"{'; '.join(words)}.", len(heads) * _WIDE, low + 28, body)
