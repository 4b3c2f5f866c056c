"""Exercises of notebook 11 about the order of operations, and about the phases of mbarriers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.judges import Function, Values
from tcemu.course.record import Exercise, Given

Array = npt.NDArray[Any]

# ---------------------------------------------------------------------------------------------- orders and phases

#: What a warpgroup does to multiply a tile that it writes itself, in the only order that is right.
_ORDER = (
    "st.shared: the tiles",
    "fence.proxy.async",
    "bar.sync",
    "wgmma.fence, just before the mma_async",
    "wgmma.mma_async",
    "wgmma.commit_group",
    "wgmma.wait_group 0",
    "st.global: the accumulator",
)
_EXCHANGED = (
    (1, 2, "The barrier is before fence.proxy.async. Every writer fences its own stores before it arrives."),
    (0, 1, "fence.proxy.async orders what was stored before it, so it comes after the stores."),
    (3, 4, "wgmma.fence comes before the mma_async: it orders earlier accesses to registers with it."),
    (4, 5, "wgmma.commit_group closes a group of the mma_asyncs before it."),
    (5, 6, "wgmma.wait_group waits for committed groups only: commit first."),
    (6, 7, "The accumulator is read before the wait."),
)


def _shuffled(rng: np.random.Generator) -> Mapping[str, Any]:
    return {"lines": tuple(_ORDER[i] for i in rng.permutation(len(_ORDER)))}


def _numbers(given: Given, order: Sequence[str] = _ORDER) -> list[int]:
    return [given.lines.index(line) for line in order]


def _exchanges(given: Given) -> Iterator[tuple[str, list[int]]]:
    for first, second, says in _EXCHANGED:
        order = list(_ORDER)
        order[first], order[second] = order[second], order[first]
        yield says, _numbers(given, order)
    moved = [line for line in _ORDER if line != "wgmma.fence, just before the mma_async"]
    yield "wgmma.fence comes just before the mma_async.", _numbers(given, [_ORDER[3], *moved])
    late = [line for line in _ORDER if line != "fence.proxy.async"]
    yield (
        "The async proxy reads the tiles in the mma_async: fence.proxy.async is too late there.",
        _numbers(given, [*late[:4], "fence.proxy.async", *late[4:]]),
    )


def _phases(step: Array, stages: Array) -> Array:
    turn = step // stages
    return np.stack([step % stages, turn % 2, (turn + 1) % 2], axis=-1)


def _other_phases(full: Callable[..., Array], empty: Callable[..., Array]) -> Callable[..., Array]:
    def way(step: Array, stages: Array) -> Array:
        return np.stack([step % stages, full(step, stages) % 2, empty(step, stages) % 2], axis=-1)

    return way


_PHASE_MISTAKES = (
    ("The phase bits never flip: both waits pass on an old phase from the second turn on.",
     _other_phases(lambda i, _: 0 * i, lambda i, _: 0 * i + 1)),
    ("The phase bits flip with every step. An mbarrier completes one phase in each turn through all the stages.",
     _other_phases(lambda i, _: i, lambda i, _: i + 1)),
    (("The producer waits for the same parity as the consumer. In the first turn no warp has released a stage, so "
      "that wait never ends."), _other_phases(lambda i, n: i // n, lambda i, n: i // n)),
    ("Full and empty are swapped: the consumer waits for parity 0 first, the producer for parity 1.",
     _other_phases(lambda i, n: i // n + 1, lambda i, n: i // n)),
    ("Stage and turn are swapped: the stage is step mod stages, and the turn is what step // stages gives.",
     lambda step, stages: np.stack([step // stages, step % stages % 2, (step % stages + 1) % 2], axis=-1)),
)  # fmt: skip

EXERCISES = [
    Exercise(
        "order_of_wgmma",
        "Put eight instructions in order",
        'A warpgroup writes two tiles and multiplies them. `given("order_of_wgmma").lines` are its instructions, '
        "shuffled and numbered from 0. Set `order_of_wgmma` to the list of their numbers in the right order.",
        Values(_numbers, np.int64, _exchanges, lambda index: f"Place {index[0]}", how="the whole order"),
        minutes=5,
        know="proxies, fences and groups",
        section="9.7.13.4, 9.7.15.7.1, 9.7.15.7.2, 9.7.15.7.3",
        hints=(
            "What makes a thread's stores visible to the async proxy, and what makes other threads wait for that?",
            "An mma_async belongs to a group only when the group is closed after it.",
        ),
        draw=_shuffled,
    ),
    Exercise(
        "phases_of_a_stage",
        "Stage and phase bits",
        "A ring of `stages` stages has two mbarriers for each: full and empty. Write `phases_of_a_stage(step, "
        "stages)`, which returns three numbers for step 0, 1, 2, ...: the stage, the parity that the consumer waits "
        "for on full, and the parity that the producer waits for on empty.",
        Function(
            {"step": range(16), "stages": range(1, 5)},
            ("stage", "full", "empty"),
            _phases,
            _PHASE_MISTAKES,
            how="16 steps with 1 to 4 stages",
            wider={"step": range(16, 500), "stages": range(1, 12)},
            device="phases_of_a_stage",
        ),
        minutes=8,
        only=(),
        know="mbarriers and phases",
        section="9.7.13.15, 9.7.13.15.16",
        hints=(
            "A stage is used once in every turn through all the stages. How many turns are complete at `step`?",
            "The first phase of an mbarrier has the parity 0. What does a wait for parity 1 do before it completes?",
        ),
    ),
]
