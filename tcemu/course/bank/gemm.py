"""Exercises of notebook 12: what a tile costs, pipelines and their parities, complete kernels, split-K."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function
from tcemu.course.record import Exercise

Array = npt.NDArray[Any]


# ---------------------------------------------------------------------------------------------- counts


def _up(number: Array, unit: Array) -> Array:
    return -(-number // unit)


_COPIED_BYTES = Function(
    {"m": (64, 128, 200), "n": (64, 96, 256), "k": (64, 200), "rows": (64, 128), "columns": (32, 64, 128)},
    ("bytes",),
    lambda m, n, k, rows, columns: 2 * k * (m * _up(n, columns) + n * _up(m, rows)),
    (
        ("You count elements. An element of f16 has two bytes.",
         lambda m, n, k, rows, columns: k * (m * _up(n, columns) + n * _up(m, rows))),
        ("Each matrix is counted once. A is copied by every column of blocks, B by every row of them.",
         lambda m, n, k, rows, columns: 2 * k * (m + n)),
        ("At an edge you count whole tiles. Only what exists is copied.",
         lambda m, n, k, rows, columns: 2 * k * (rows + columns) * _up(m, rows) * _up(n, columns)),
        ("You count whole blocks only: round the number of blocks up.",
         lambda m, n, k, rows, columns: 2 * k * (m * (n // columns) + n * (m // rows))),
        ("You exchanged the factors: A is copied once for each column of blocks, B once for each row of blocks.",
         lambda m, n, k, rows, columns: 2 * k * (m * _up(m, rows) + n * _up(n, columns))),
        ("B is missing.", lambda m, n, k, rows, columns: 2 * k * m * _up(n, columns)),
    ),
    how="sizes with and without ragged edges",
)  # fmt: skip


def _three(stage: Any, full: Any, empty: Any) -> Array:
    return np.stack(np.broadcast_arrays(stage, full, empty), axis=-1)


_STAGE_AND_PARITIES = Function(
    {"step": range(24), "stages": range(2, 6)},
    ("stage", "the consumer's parity", "the producer's parity"),
    lambda step, stages: _three(step % stages, step // stages % 2, (step // stages + 1) % 2),
    (
        ("The parities follow the step. They follow the turn: how often the stage has been used before.",
         lambda step, stages: _three(step % stages, step % 2, (step + 1) % 2)),
        ("The parities never flip. Each use of a stage is the next phase of its mbarriers.",
         lambda step, stages: _three(step % stages, 0, 1)),
        ("The producer waits for the same parity as the consumer, so in its first turn it waits for a consumer that "
         "waits for it. The producer is one phase behind.",
         lambda step, stages: _three(step % stages, step // stages % 2, step // stages % 2)),
        ("The two parities are exchanged.",
         lambda step, stages: _three(step % stages, (step // stages + 1) % 2, step // stages % 2)),
        ("You return the turn. A parity is the turn mod 2.",
         lambda step, stages: _three(step % stages, step // stages, step // stages + 1)),
    ),
    how="24 steps with 2 to 5 stages",
)  # fmt: skip


EXERCISES = [
    Exercise(
        "copied_bytes",
        "What a tile costs",
        "Write `copied_bytes(m, n, k, rows, columns)`: how many bytes a GEMM of f16 copies from global to shared "
        "memory, if each block copies, for its tile of `rows` × `columns`, all it needs of A (m × k) and B (k × n). At "
        "an edge a block copies only what exists.",
        _COPIED_BYTES,
        minutes=5,
        know="the section on tiles of notebook 12",
        hints=(
            "Take A first: how many blocks need the same rows of A?",
            "All blocks of one column of blocks together copy A once.",
        ),
    ),
    Exercise(
        "stage_and_parities",
        "Stage and parities",
        "A pipeline has `stages` stages, each with the mbarriers `full` and `empty`. Write "
        "`stage_and_parities(step, stages)`, which returns the stage that a step uses, the parity that the consumer "
        "waits for on `full`, and the parity that the producer waits for on `empty` before it copies for this step. "
        "The producer's first wait on each stage must not block.",
        _STAGE_AND_PARITIES,
        minutes=8,
        know="producer and consumer, notebook 12",
        section="9.7.13.15.4",
        hints=(
            "How often has the stage been used before? Call it the turn.",
            "Turn t of the consumer is phase t of `full`. What has the producer to wait for in turn 1? And in turn 0?",
        ),
    ),
]
