"""A segment in plain Python: the meanings of tcemu.alu on arrays of numpy. It defines what native code computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.alu.arrays import ARRAYS
from tcemu.kernels.emit.context import WORDS
from tcemu.machine.masks import FULL, bits_of, lanes_of
from tcemu.simt.errors import JOINED, LEFT, OPERATION, SPENT, SPLIT
from tcemu.simt.places import LANES, Constant, Place, Source, Uniform
from tcemu.simt.steps import Access, Compute, Guard, Leave

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.run import Run

Array = npt.NDArray[Any]


def run(run: Run, frame: Frame, block: int, mask: int, limit: int) -> int:
    """Run lanes from a block on until something happens: a reason, and in the higher bits the block or instruction."""
    blocks, found = frame.program.blocks, None
    while found is None:
        here = blocks[block]
        if here.operation is not None:
            return OPERATION | block << 4
        run.together.executed(frame.program)[block] += 1
        for step in here.steps:
            if isinstance(step, Compute):
                compute(frame, step, mask)
            else:
                _access(frame, step, mask)
        block, found = _ended(run, frame, block, mask)
        if found is None and block >= limit:
            found = JOINED
    return found | block << 4


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
    held = frame.mask(guard.place)
    return (~held if guard.negated else held) & mask


def compute(frame: Frame, step: Compute, mask: int) -> None:
    """Carry out a step that computes."""
    active = guarded(frame, step.guard, mask)
    if not active:
        return
    found = step.meaning(ARRAYS, *(value(frame, each) for each in step.sources))
    for place, result in zip(step.results, found if isinstance(found, tuple) else (found,), strict=True):
        if place is not None:
            put(frame, place, result, active)


def value(frame: Frame, source: Source) -> Array:
    """A source as an array (32,), of bool for a predicate: a copy, because its register may be written meanwhile."""
    if isinstance(source, Place):
        if source.bits == 1:
            return lanes_of(frame.mask(source)).copy()
        return frame.lanes(source).copy()
    if isinstance(source, Constant):
        kind = np.dtype(bool) if source.bits == 1 else np.dtype(f"u{source.bits // 8}")
        return np.full(LANES, source.value, kind)
    return np.full(LANES, uniform(frame, source))


def uniform(frame: Frame, source: Uniform) -> Any:
    """Bytes of the parameters as a number."""
    size = source.bits // 8
    return frame.run.parameters[source.at : source.at + size].view(f"u{size}")[0]


def put(frame: Frame, place: Place, result: Array, active: int) -> None:
    """Write a register in the lanes of a mask."""
    if place.bits == 1:
        held, found = frame.mask(place), bits_of(np.broadcast_to(result, LANES))
        frame.masks[place.row] = held & ~active | found & active
    elif active == FULL:
        frame.lanes(place)[:] = result
    else:
        np.copyto(frame.lanes(place), result, where=lanes_of(active))


def _access(frame: Frame, step: Access, mask: int) -> None:
    """A load or store of local memory, or of parameters at a computed address."""
    active = guarded(frame, step.guard, mask)
    if active:
        from tcemu.simt.memory import carry_out

        frame.run.activate(active)
        carry_out(frame, step)
