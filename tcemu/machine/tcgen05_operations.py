"""The asynchronous operations that tcgen05.commit covers: mma, cp and shift, and what the manual calls pipelined.

An operation may rely on an earlier one of the same warp only in the pairs of `_PIPELINED` (PTX ISA 9.1, 9.7.16.6.2).
Everything else ends in any order: D may even be read before an earlier mma with another shape has written it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcemu.machine.events import Area, Tcgen05, Tcgen05Ended, Tcgen05Issued, Tcgen05Kind
from tcemu.machine.pending import Task

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core


class Begun(NamedTuple):
    """An operation with its task."""

    operation: Tcgen05
    task: Task


def _same(before: Tcgen05, after: Tcgen05) -> bool:
    """Two mmas with the same D and shape, or one that overwrites what the other has read."""
    return before.key == after.key or _overwrites(before, after)


def _overwrites(before: Tcgen05, after: Tcgen05) -> bool:
    """Whether one writes cells that the other reads as A, metadata or scales."""
    reads = [area for area in before.reads if area.role != "d"]
    return bool(reads) and any(meet(one, other) for one in reads for other in after.writes)


def _copied(before: Tcgen05, after: Tcgen05) -> bool:
    """A copy before an mma: any, but of .4x256b only at the same address."""
    if before.instruction.words["shape"] != "4x256b":
        return True
    return any(meet(one, other) for one in before.writes for other in after.reads)


def _refreshes(before: Tcgen05, after: Tcgen05) -> bool:
    return after.instruction.words["shape"] == "4x256b"


def _always(before: Tcgen05, after: Tcgen05) -> bool:
    return True


#: Whether the second operation of a warp begins after the first has ended.
_PIPELINED: dict[tuple[Tcgen05Kind, Tcgen05Kind], Callable[[Tcgen05, Tcgen05], bool]] = {
    ("mma", "mma"): _same,
    ("mma", "cp"): _overwrites,
    ("mma", "shift"): _overwrites,
    ("cp", "mma"): _copied,
    ("shift", "mma"): _always,
    ("shift", "cp"): _refreshes,
}


class Operations:
    """Those of a block that have not ended, by warp, and those that no commit of their thread has covered."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._running: dict[int, list[Begun]] = {}
        self._open: dict[tuple[int, int, str], list[Begun]] = {}

    def begin(self, core: Core, operation: Tcgen05, effect: Callable[[], None], key: object = None) -> None:
        """Begin an operation of one thread."""
        before = [each for each in self._running.get(core.index, ()) if not each.task.done]
        operation.key = key
        made = Begun(operation, Task(operation, effect))
        after = _predecessors(before, made)
        operation.after = tuple([each.operation for each in after])

        def end() -> None:
            effect()
            core.tell(Tcgen05Ended, operation)

        made = made._replace(task=Task(operation, end, [each.task for each in after]))
        self._running[core.index] = [*before, made]
        self._open.setdefault((core.index, operation.by.active, operation.group), []).append(made)
        core.tell(Tcgen05Issued, operation)
        self._block.pending.add(made.task)

    def commit(self, core: Core, lane: int, group: str) -> Sequence[Begun]:
        """The operations of a thread, given as the mask of its lane, that no commit has covered yet or that still run.

        An earlier commit covers its operations too, so they are left out once they have ended.
        """
        begun = self._open.get((core.index, lane, group), [])
        self._open[core.index, lane, group] = [each for each in begun if not each.task.done]
        return begun


def _predecessors(before: Sequence[Begun], made: Begun) -> list[Begun]:
    """Those of a warp's operations that end first; of mmas with the same D and shape, the latest has all before it."""
    predecessors, chained = list[Begun](), False
    for each in reversed(before):
        alike = made.operation.key is not None and each.operation.key == made.operation.key
        if (alike and not chained) or (not alike and pipelined(each.operation, made.operation)):
            predecessors.append(each)
        chained = chained or alike
    return predecessors


def pipelined(before: Tcgen05, after: Tcgen05) -> bool:
    """Whether the second of two operations of one warp begins after the first has ended."""
    test = _PIPELINED.get((before.kind, after.kind))
    return test is not None and test(before, after)


def meet(one: Area, other: Area) -> bool:
    """Whether two areas have a cell in common."""
    if one.block != other.block or not one.bits & other.bits:
        return False
    return bool(np.isin(one.columns, other.columns).any() and np.isin(one.lanes, other.lanes).any())
