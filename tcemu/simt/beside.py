"""Steps beside those of a function, for observers: they find out in which lanes something is wrong.

Native code executes them like the others. What they have found is told once a segment has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.simt.effects import Use
from tcemu.simt.register_file import Slot, Source
from tcemu.simt.steps import Block, Compute, Guard, Step

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.program import Program

Array = npt.NDArray[Any]


class Beside:
    """The steps of one function that look for one sort of mistake."""

    def __init__(self, program: Program) -> None:
        self.program = program
        #: by an instruction, and what is wrong with it: the lanes in which it was
        self.found: dict[tuple[int, Use | None], Slot] = {}
        #: by block, and the place of a step in it: the steps before that one
        self.further: list[dict[int, list[Step]]] = [{} for _ in program.blocks]
        #: the blocks of operations that it follows
        self.operations: set[int] = set()
        #: the lanes in which anything has been found, if anything can be: to ask for these takes a tenth of the time of
        #: asking for all; and their row
        self._anything, self._row = Slot(0, 1), -1

    def __bool__(self) -> bool:
        return bool(self.found)

    def finds(self, number: int, use: Use | None) -> None:
        """Something may be wrong with an instruction. There can be no more of it once the function runs."""
        if not self.found:
            self._anything = self.program.slots.further()
            self._row = self._anything.row
        self.found[number, use] = self.program.slots.further()

    def compared(
        self, number: int, use: Use | None, meaning: Callable[..., Any], sources: Sequence[Source], guard: Guard | None
    ) -> Step:
        """The step that finds the lanes in which something is wrong, as `meaning` says of these sources."""
        taken = self.found[number, use], self._anything
        return Compute(number, partial(_either, meaning), (*taken, *sources), taken, guard)

    def note(self, frame: Frame, number: int, use: Use | None, lanes: int) -> None:
        """Something is wrong in these lanes."""
        frame.masks[self.found[number, use].row] |= lanes
        frame.masks[self._row] |= lanes

    def report(self, frame: Frame, number: int, use: Use | None) -> None:
        """Tell observers what is wrong in the lanes that are active."""
        raise NotImplementedError

    def begin(self, frame: Frame) -> None:
        """A call begins: nothing has been found yet."""
        frame.masks[self._rows] = 0

    def operate(self, frame: Frame, block: int, lanes: int) -> None:
        """An operation is about to be carried out, for some lanes."""

    def done(self, frame: Frame, block: int, lanes: int) -> None:
        """An operation has been carried out."""

    @cached_property
    def _rows(self) -> Array:
        """The rows of what has been found."""
        slots = (self._anything, *self.found.values()) if self.found else ()
        return np.array([each.row for each in slots], np.intp)

    def tell(self, frame: Frame) -> None:
        """Tell observers what has been found."""
        if self._row < 0 or not frame.masks.item(self._row):
            return
        frame.masks[self._row] = 0
        run, core = frame.run, frame.run.core
        bits = run.bits
        run.context.flush()
        for (number, use), slot in self.found.items():
            lanes = frame.mask(slot)
            if lanes:
                frame.masks[slot.row] = 0
                run.activate(lanes)
                core.at = self.program.sites[number]
                self.report(frame, number, use)
        run.activate(bits)


def blocks_with(program: Program, beside: Sequence[Beside]) -> tuple[Block, ...]:
    """The blocks of a function with further steps, each before the step that it is about."""
    blocks = []
    for number, block in enumerate(program.blocks):
        steps: list[Step] = []
        for at in range(len(block.steps) + 1):
            steps += [step for each in beside for step in each.further[number].get(at, ())]
            steps += block.steps[at : at + 1]
        blocks.append(replace(block, steps=tuple(steps)))
    return tuple(blocks)


def _either(meaning: Callable[..., Any], ops: Any, found: Any, anything: Any, *sources: Any) -> tuple[Any, Any]:
    """The lanes in which something was wrong before, and those in which it is now."""
    wrong = meaning(ops, *sources)
    return found | wrong, anything | wrong
