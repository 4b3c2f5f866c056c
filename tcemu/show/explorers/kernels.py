"""Explorers of launches: results under several schedules, and the order of operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.errors import OperandError, counted
from tcemu.machine.events import Event
from tcemu.machine.pending import POLICIES
from tcemu.show.explorers.explorer import Explorer, controls
from tcemu.show.picture import Picture
from tcemu.show.words import compact


def outcome_of_a_kernel(
    kernel: Callable[..., object],
    args: Sequence[Any],
    right: npt.ArrayLike,
    seed: int = 0,
    **options: Any,
) -> Explorer:
    """The result of a kernel in its last argument, with differences from `right` marked: sliders for seed and policy.

    The kernel is launched afresh, on copies of `args`, each time a control moves; nothing is checked. The last argument
    and `right` are matrices of at most 64 by 64 numbers; `options` are those of tcemu.launch. Raises LaunchError if the
    kernel does not run to its end.
    """
    from tcemu.machine.launch import launch  # the machine is loaded when a kernel is first shown

    wanted = np.asarray(right)

    def draw(seed: int, policy: str) -> Picture:
        fresh = _copied(args)
        launch(kernel, args=fresh, seed=seed, policy=policy, **options)  # type: ignore[arg-type]
        got = fresh[-1]
        labels, right = ([[compact(number) for number in row] for row in each.tolist()] for each in (got, wanted))
        return show.marked(labels, got != wanted, f"The result with seed {seed}, policy {policy}", right=right)

    return Explorer(draw, controls({"seed": seed, "policy": "late"}, seed=31, policy=tuple(POLICIES)))


def order_of_a_kernel(
    launch: Callable[..., Any],
    kernel: Callable[..., Any],
    args: Sequence[Any],
    *,
    right: npt.ArrayLike | None = None,
    first: int | None = None,
    fixes: bool = True,
    **choices: Sequence[Any],
) -> Explorer:
    """Launch a kernel each time a control moves, and see what its block did in which order; see show.hazards.

    `launch` is tcemu.launch with all keywords but args, seed, policy and observers:
    functools.partial(tcemu.launch, block=128, sanitizer="collect"). There are a list of policies and a slider for the
    seed. `choices` are further parameters of the kernel, by name, each with the values of its list: pending=(0, 1). The
    last of `args` is the array that the kernel fills; if `right` says what belongs there, the title counts the elements
    that are right. `first` is the first row that is drawn; `fixes`: whether the notes say how to fix a broken rule.

    Raises OperandError for a list without values, and what `launch` raises.
    """
    lists = {name: {str(value): value for value in values} for name, values in choices.items()}
    empty = [name for name, values in lists.items() if not values]
    if empty:
        raise OperandError(f"{empty[0]} has no values to choose from")

    def draw(policy: str, seed: int, **chosen: str) -> Picture:
        fresh = _copied(args)
        events: list[Event] = []
        ready = partial(kernel, **{name: lists[name][text] for name, text in chosen.items()})
        result = launch(ready, args=fresh, policy=policy, seed=seed, observers=[events.append])
        drawn = show.hazards(events, result.reports, 0, first, fixes=fixes)
        said = [] if right is None else [_kept(fresh[-1], np.asarray(right))]
        said.append(f"policy {policy}, seed {seed}")
        description = " ".join([*(f"{each[0].upper()}{each[1:]}." for each in said), drawn.description])
        return replace(drawn, title="; ".join([drawn.title, *said]), description=description)

    # the policies in the order in which they are worth trying
    return Explorer(draw, controls({}, **{name: tuple(values) for name, values in lists.items()},
                                   policy=("late", "early", "random"), seed=12))  # fmt: skip


def _copied(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments for one launch, which may write into its arrays."""
    return tuple(np.copy(each) if isinstance(each, np.ndarray) else each for each in args)


def _kept(got: npt.NDArray[Any], right: npt.NDArray[Any]) -> str:
    return f"{int((got == right).sum()):,} of {counted(right.size, 'element')} are right"
