"""A segment in plain Python: the meanings of tcemu.alu on arrays of numpy. It defines what native code computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tcemu.alu.arrays import ARRAYS
from tcemu.native.context import WORDS
from tcemu.simt.errors import JOINED, LEFT, OPERATION, SPENT, SPLIT
from tcemu.simt.memory import carry_out
from tcemu.simt.steps import Access, Compute, Guard, Leave
from tcemu.simt.values import put, value

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.run import Run


def run(run: Run, frame: Frame, block: int, mask: int, limit: int) -> int:
    """Run lanes from a block on until something happens: a reason, and in the higher bits the block or instruction."""
    blocks, reason = frame.blocks, None
    while reason is None:
        here = blocks[block]
        if here.operation is not None:
            return OPERATION | block << 4
        run.together.executed(frame.program)[block] += 1
        for step in here.steps:
            if isinstance(step, Compute):
                compute(frame, step, mask)
            else:
                _access(frame, step, mask)
        block, reason = _ended(run, frame, block, mask)
        if reason is None and block >= limit:
            reason = JOINED
    return reason | block << 4


def _ended(run: Run, frame: Frame, block: int, mask: int) -> tuple[int, int | None]:
    """How a block ends: the block that follows, and the reason if the segment ends here."""
    ending, words = frame.program.blocks[block].ending, run.context.words
    taken = 0 if ending is None else guarded(frame, ending.guard, mask)
    if ending is None or not taken:
        return block + 1, None
    words[WORDS["taken"]] = taken
    if isinstance(ending, Leave):
        words[WORDS["exits"]] = ending.exits
        return block + 1, LEFT
    if taken != mask:
        words[WORDS["target"]] = ending.target
        return block + 1, SPLIT
    if ending.target <= block:
        words[WORDS["fuel"]] -= np.uint64(1)
        if not words[WORDS["fuel"]]:
            return ending.target, SPENT
    return ending.target, None


def guarded(frame: Frame, guard: Guard | None, mask: int) -> int:
    """Of the lanes of a mask, those that a guard lets through."""
    if guard is None:
        return mask
    held = frame.mask(guard.slot)
    return (~held if guard.negated else held) & mask


def compute(frame: Frame, step: Compute, mask: int) -> None:
    """Carry out a step that computes."""
    active = guarded(frame, step.guard, mask)
    if not active:
        return
    outcome = step.meaning(ARRAYS, *(value(frame, each) for each in step.sources))
    for slot, result in zip(step.results, outcome if isinstance(outcome, tuple) else (outcome,), strict=True):
        if slot is not None:
            put(frame, slot, result, active)


def _access(frame: Frame, step: Access, mask: int) -> None:
    """A load or store of local memory, or of parameters at a computed address."""
    active = guarded(frame, step.guard, mask)
    if active:
        frame.run.activate(active)
        carry_out(frame, step)
