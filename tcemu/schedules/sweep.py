"""One launch under several seeds, each on the same input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from tcemu.errors import Interrupted, LaunchError, TcemuError, briefly, is_whole
from tcemu.machine.arguments import fresh
from tcemu.machine.global_memory import is_buffer
from tcemu.machine.launch import Kernel, Launch, partings
from tcemu.machine.launch import launch as run
from tcemu.progress import PATIENCE, Progress

#: More seeds would take hours, even of the shortest kernel.
MOST = 1_000_000


def sweep(
    kernel: Kernel,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    seeds: int | Iterable[int],
    failed: Callable[[], bool],
    **more: Any,
) -> Launch:
    """Run a kernel under each seed; the arrays get the results under the first, and `parted` says which differ.

    The result is that of the first seed; its `failing` is the first seed after which `failed` returned True. Raises the
    first error, with a note of its seed; the arrays are then unchanged.
    """
    numbers = seeds_of(seeds)
    before = fresh(args)
    result: Launch | None = None
    failing: int | None = None
    with Progress("seeds", len(numbers), patience=PATIENCE) as progress:
        for done, seed in enumerate(numbers):
            arguments = fresh(before) if done else args
            try:
                one = run(kernel, grid, block, arguments, seed=seed, **more)
            except (Exception, Interrupted) as error:
                restore(args, before)
                error.add_note(f"It occurred after {done} of {len(numbers)} seeds; to reproduce it: seed={seed}")
                if isinstance(error, TcemuError | Interrupted) and error.launch is not None:
                    error.launch.failing = seed
                raise
            if failing is None and failed():
                failing = seed
            if result is None:
                result = one
            else:
                _compare(kernel, result, (numbers[0], args), (seed, arguments))
            progress.show(done + 1)
    assert result is not None  # noqa: S101 - there is at least one seed
    result.failing = failing
    return result


def seeds_of(seeds: object) -> Sequence[int]:
    """The seeds: those before a number, or those that are given. Raises LaunchError if there is none."""
    numbers: list[object] = []
    if is_whole(seeds) and 0 < seeds <= MOST:
        return range(int(seeds))
    if isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes) and getattr(seeds, "shape", None) != ():
        numbers = list(islice(seeds, MOST + 1))  # it may have no end
    if len(numbers) > MOST or (is_whole(seeds) and seeds > MOST):
        raise LaunchError(
            f"a launch takes at most {MOST:,} seeds; got {briefly(seeds)}. Try a part of them, such as seeds=1000; "
            "tcemu.search_schedules looks for rare orders in fewer runs"
        )
    wrong = [each for each in numbers if not is_whole(each) or each < 0]
    if not numbers or wrong:
        raise LaunchError(
            f"seeds must be a number, at least 1, or a sequence of seeds: seeds=20, seeds=range(100, 200) or "
            f"seeds=[3, 17]; got {briefly(seeds)}"
        )
    return [int(each) for each in numbers]  # type: ignore[call-overload] # they are


def _compare(kernel: object, result: Launch, one: tuple[int, Sequence[Any]], other: tuple[int, Sequence[Any]]) -> None:
    """Note the arrays that differ between two seeds, if no earlier seed has shown it."""
    places = [number for number, argument in enumerate(one[1]) if is_buffer(argument)]
    contents = [[args[place] for place in places] for _, args in (one, other)]
    known = {parting.argument for parting in result.parted}
    parted = partings(places, [f"seed {seed}" for seed, _ in (one, other)], contents, "seed", kernel)
    result.parted += [parting for parting in parted if parting.argument not in known]


def restore(args: Sequence[Any], before: Sequence[Any]) -> None:
    """Let arrays hold again what their copies hold."""
    for array, old in zip(args, before, strict=True):
        if is_buffer(array) and array.flags.writeable:
            array[...] = old
