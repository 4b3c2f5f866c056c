"""An exercise of notebook 12 about blocks that meet in global memory: the last one adds what the others have stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Kernel
from tcemu.course.record import Exercise, Given

Array = npt.NDArray[Any]

_BLOCKS = 4


def _draw(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"x": rng.integers(1, 1 << 20, (_BLOCKS, 32), np.uint32)}


def _sums(given: Given) -> Array:
    return np.asarray(3 * given.x.sum(axis=0, dtype=np.uint32))


def _not_sums(given: Given) -> Iterable[tuple[str, npt.ArrayLike]]:
    yield "The parts are added without the factor 3.", given.x.sum(axis=0, dtype=np.uint32)
    for block in range(_BLOCKS):
        yield f"Only the part of block {block} is there.", 3 * given.x[block]


EXERCISES = [
    Exercise(
        "repair_last_block",
        "The last block adds",
        "Four blocks of one warp each store three times their row of x in parts, and count. The block that counts last "
        "adds the four rows of parts and stores the sum in out, as split-K kernels do to save a second launch. Repair "
        "`repair_last_block`: delete the line `return ...`, check, read what the sanitizer reports, and fix it "
        "until nothing is reported and out is right. The counter stays an `atom`.",
        Kernel(
            lambda given: {
                "x": given.x, "parts": np.zeros((_BLOCKS, 32), np.uint32), "count": np.zeros(1, np.uint32),
                "out": np.zeros(32, np.uint32),
            },
            "out",
            _sums,
            {"grid": _BLOCKS, "block": 32},
            _not_sums,
            needed=("atom",),
            partial=False,
        ),
        minutes=20,
        know="split-K of notebook 12, and that blocks run in any order",
        section="8.7",
        hints=(
            "An atom that names no order is relaxed: it counts, but it orders no other access.",
            "Lane 0 counts for 32 lanes. What makes their stores come before what lane 0 does next?",
            "A fence orders what its thread knows of: first the lanes meet, then lane 0 executes the fence and counts.",
            "The block that adds needs the same in reverse: count, fence, and then the lanes meet.",
        ),
        points=3,
        draw=_draw,
    ),
]  # fmt: skip
