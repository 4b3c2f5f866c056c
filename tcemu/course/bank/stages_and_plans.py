"""Exercises of notebook 12 about counts: the bytes of a tile, the parities of a pipeline, the cycles of a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import AnswerError, answered
from tcemu.course.judges import Function
from tcemu.course.record import Evidence, Exercise, Finding, Given
from tcemu.gemm import wgmma_tma
from tcemu.gemm.wgmma_tma import Plan
from tcemu.timing import Timeline

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------- counts


def _up(number: Array, unit: Array) -> Array:
    return -(-number // unit)


_COPIED_BYTES = Function(
    {"m": (64, 128, 200), "n": (64, 96, 256), "k": (64, 200), "rows": (64, 128), "columns": (32, 64, 128)},
    ("number of bytes",),
    lambda m, n, k, rows, columns: 2 * k * (m * _up(n, columns) + n * _up(m, rows)),
    (
        ("You count elements. An f16 element has two bytes.",
         lambda m, n, k, rows, columns: k * (m * _up(n, columns) + n * _up(m, rows))),
        ("Each matrix is counted once. A is copied by every column of blocks, B by every row of them.",
         lambda m, n, k, *_: 2 * k * (m + n)),
        ("At an edge you count whole tiles. Only elements that exist are copied.",
         lambda m, n, k, rows, columns: 2 * k * (rows + columns) * _up(m, rows) * _up(n, columns)),
        ("You count whole blocks only: round the number of blocks up.",
         lambda m, n, k, rows, columns: 2 * k * (m * (n // columns) + n * (m // rows))),
        ("You swapped the factors: A is copied once for each column of blocks, B once for each row of blocks.",
         lambda m, n, k, rows, columns: 2 * k * (m * _up(m, rows) + n * _up(n, columns))),
        ("Rows and columns of the tile are swapped: columns of blocks are n / columns, rows of blocks m / rows.",
         lambda m, n, k, rows, columns: 2 * k * (m * _up(n, rows) + n * _up(m, columns))),
        ("You count all of A and B for each block. It copies the rows of A and the columns of B that its tile needs.",
         lambda m, n, k, rows, columns: 2 * k * (m + n) * _up(m, rows) * _up(n, columns)),
        ("D is not copied to shared memory: it stays in registers until it is stored.",
         lambda m, n, k, rows, columns: 2 * k * (m * _up(n, columns) + n * _up(m, rows)) + 4 * m * n),
        ("B is missing.", lambda m, n, k, _, columns: 2 * k * m * _up(n, columns)),
    ),
    how="sizes with and without ragged edges",
    wider={"m": range(1, 3000), "n": range(1, 3000), "k": range(1, 3000)},
)  # fmt: skip


def _three(stage: Any, full: Any, empty: Any) -> Array:
    return np.stack(np.broadcast_arrays(stage, full, empty), axis=-1)


def _of_a_ring(step: Array, stages: Array, consumer: int = 0, producer: int = 1) -> Array:
    """The stage, and the parities that the two wait for; `step` counts the steps of all tiles."""
    turn = step // stages
    return _three(step % stages, (turn + consumer) % 2, (turn + producer) % 2)


#: One answer for the ring that goes on, from the tile, the step in it, the steps of a tile and the stages.
_STAGE_AND_PARITIES = Function(
    {"tile": range(4), "step": range(4), "steps": range(4, 8), "stages": range(2, 6)},
    ("stage", "consumer's parity", "producer's parity"),
    lambda tile, step, steps, stages: _of_a_ring(tile * steps + step, stages),
    (
        ("You begin again with stage 0 and phase 0 in each tile. The ring and its mbarriers go on where they are.",
         lambda _, step, __, stages: _of_a_ring(step, stages)),
        ("The stage is right, but you count the turns from the beginning of the tile; the mbarriers go on.",
         lambda tile, step, steps, stages: _three((tile * steps + step) % stages, step // stages % 2,
                                                  (step // stages + 1) % 2)),
        ("The turns are right, but the stage begins again with 0 in each tile.",
         lambda tile, step, steps, stages: _three(step % stages, (tile * steps + step) // stages % 2,
                                                  ((tile * steps + step) // stages + 1) % 2)),
        ("A tile has `steps` steps, not one for each stage: it may end in the middle of the ring.",
         lambda tile, step, _, stages: _of_a_ring(tile * stages + step, stages)),
        ("The parities follow the step. They follow the turn: how often the stage has been used before.",
         lambda tile, step, steps, stages: _three((tile * steps + step) % stages, (tile * steps + step) % 2,
                                                  (tile * steps + step + 1) % 2)),
        ("The parities never flip. Each use of a stage is the next phase of its mbarriers.",
         lambda tile, step, steps, stages: _three((tile * steps + step) % stages, 0, 1)),
        ("The parities flip from tile to tile. They follow the turn: how often the stage has been used before.",
         lambda tile, step, steps, stages: _three((tile * steps + step) % stages, tile % 2, (tile + 1) % 2)),
        (("The producer waits for the same parity as the consumer, so in its first turn it waits for a consumer that "
         "waits for it. The producer is one phase behind."),
         lambda tile, step, steps, stages: _of_a_ring(tile * steps + step, stages, 0, 0)),
        ("The two parities are swapped.",
         lambda tile, step, steps, stages: _of_a_ring(tile * steps + step, stages, 1, 0)),
        ("You return the turn. A parity is the turn mod 2.",
         lambda tile, step, steps, stages: _three((tile * steps + step) % stages, (tile * steps + step) // stages,
                                                  (tile * steps + step) // stages + 1)),
    ),
    how="four tiles of 4 to 7 steps, with 2 to 5 stages",
    wider={"tile": range(4, 60), "step": range(8), "steps": range(8, 30), "stages": range(2, 12)},
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- a schedule


@dataclass(frozen=True)
class _Schedule:
    """Judges a Plan of wgmma_tma by the part of its timeline in which the tensor cores are busy."""

    #: Bytes of shared memory that it may use, and the part of the cycles that the tensor cores must be busy.
    shared: int = 100_000
    busy: float = 0.8
    how: str = "how busy the tensor cores are in the timeline, and bytes of shared memory"

    def collect(self, answer: Any, given: Given) -> Evidence:
        """The numbers of the plan."""
        plan = answered(answer)
        if not isinstance(plan, Plan):
            raise AnswerError("The answer is a Plan, such as Plan(columns=64, stages=2, in_flight=1).")
        return {"plan": np.array([plan.columns, plan.consumers, plan.stages, plan.in_flight, plan.promote], np.int64)}

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Run the plan, unless it cannot work, and see how busy it keeps the tensor cores."""
        columns, consumers, stages, in_flight, promote = (int(each) for each in evidence["plan"])
        plan = Plan("f16", columns, consumers, stages, bool(promote), in_flight)
        if not 0 <= in_flight < stages:
            says = f"in_flight={in_flight} with stages={stages} cannot work."
            return Finding(False, says, "Each group in flight occupies a stage: there must be more stages than groups.")
        if plan.shared > self.shared:
            says = f"The plan needs {plan.shared:,} bytes of shared memory; {self.shared:,} are allowed."
            return Finding(False, says, "That is stages times the tile's bytes: use fewer stages, or a smaller tile.")
        cycles, busy = _cycles(plan)
        scores = {"cycles": round(cycles)}
        measured = f"The tensor cores are busy for {busy:.0%} of {cycles:,.0f} cycles"
        if busy >= self.busy:
            return Finding(True, f"{measured}.", share=1.0, scores=scores)
        says = f"{measured}; at least {self.busy:.0%} are needed."
        return Finding(False, says, _slow(plan, busy, self.shared), scores=scores)


#: What holds a plan back, by the change that helps: in columns, stages and groups in flight.
_HELPS = {
    (0, 1, 0): "The producer cannot copy ahead: there are too few stages for that.",
    (0, 0, -1): "The producer cannot copy ahead: too many stages belong to groups in flight.",
    (0, 0, 1): "The tensor cores are idle after each group: let one run while the next one is issued.",
    (1, 0, 0): "The tile is small: each step multiplies little, compared with what it copies and issues.",
    (-1, 0, 0): "The tile is large: there are few tiles, whose first copies and last stores nothing overlaps.",
}
#: By so much another plan has to be better.
_BETTER = 0.02


def _slow(plan: Plan, busy: float, shared: int) -> str:
    """What holds a plan back: the change by one step that helps most, by the timeline of the changed plan."""
    busiest = {}
    for (columns, stages, groups), says in _HELPS.items():
        width, depth, waiting = int(plan.columns * 2.0**columns), plan.stages + stages, plan.in_flight + groups
        if not (8 <= width <= 256 and 0 <= waiting < depth):
            continue
        other = replace(plan, columns=width, stages=depth, in_flight=waiting)
        if other.shared <= shared:
            busiest[says] = _cycles(other)[1]
    best = max(busiest, key=lambda says: busiest[says], default="")
    return best if best and busiest[best] > busy + _BETTER else ""


@cache
def _cycles(plan: Plan) -> tuple[float, float]:
    """Clock cycles of 64 × 2048 by 2048 × 256 on one SM, and the part of them in which the tensor cores are busy."""
    run = Timeline(sms=1)
    a, b = np.ones((64, 2048), np.float16), np.ones((2048, 256), np.float16)
    wgmma_tma.multiply(a, b, plan, sanitizer="off", observers=[run])
    return run.cycles, run.busy


EXERCISES = [
    Exercise(
        "copied_bytes",
        "What a tile costs",
        "Write `copied_bytes(m, n, k, rows, columns)`: how many bytes an f16 GEMM copies from global to shared "
        "memory, if each block copies, for its tile of `rows` × `columns`, all it needs of A (m × k) and B (k × n). At "
        "an edge a block copies only what exists.",
        _COPIED_BYTES,
        minutes=5,
        only=(),
        know="the section on tiles of notebook 12",
        hints=(
            "Take A first: how many blocks need the same rows of A?",
            "All blocks of one column of blocks together copy A once.",
        ),
    ),
    Exercise(
        "stage_and_parities",
        "The ring goes on",
        "A block computes several tiles, one after the other, with `steps` steps along K each. Its `stages` stages "
        "and their mbarriers `full` and `empty` are initialised once, so that the producer can copy for the next tile "
        "before the consumer has finished this one. Write `stage_and_parities(tile, step, steps, stages)`, which "
        "returns for step 0, 1, ... of the block's tile 0, 1, ...: the stage, the parity that the consumer waits for "
        "on `full`, and the parity that the producer waits for on `empty` before it copies. The producer's first wait "
        "on each stage must not block.",
        _STAGE_AND_PARITIES,
        minutes=8,
        only=(),
        know="producer and consumer, notebook 12",
        section="9.7.13.15.4",
        hints=(
            "How many steps has the block done before this one? Which of them used the same stage?",
            "How often has the stage been used before? Call it the turn. Turn t of the consumer is phase t of `full`.",
            "What must the producer wait for in turn 1? And in turn 0?",
        ),
    ),
    Exercise(
        "better_plan",
        "A better schedule",
        "`Plan(columns=64, stages=2, in_flight=1)` keeps the tensor cores busy for 56 % of the cycles that "
        "64 × 2048 by 2048 × 256 takes on one SM, which has the L2 to itself. Find a `better_plan`, an f16 Plan that "
        "keeps them busy for at least 80 %, with at most 100,000 bytes of shared memory, so that two blocks fit into "
        "an SM.",
        _Schedule(),
        minutes=15,
        know="stages and groups in flight, notebook 12",
        hints=(
            "Plan(...).shared says how many bytes a plan needs.",
            "Run it with observers=[Timeline(sms=1)], and look at what the tensor cores waited for.",
            "How many stages does the producer need so that it can copy while a group is in flight?",
        ),
        points=2,
    ),
]
