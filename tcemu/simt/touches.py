"""Registers in which a result is pending, that of wgmma.mma_async, and what else reads or writes them meanwhile.

Observers hear of it, as Touched. The steps and operations that name such a register are found once, so a function
without any pays nothing. A native segment tells by its counts which blocks it has executed. Which lanes a guard let
through is not known afterwards, so guarded steps are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.assembly import Memory, Operand, Register, Vector
from tcemu.simt import operations
from tcemu.simt.places import Place
from tcemu.simt.steps import Block, Compute, Step

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.program import Program

Array = npt.NDArray[Any]
#: The bits of the registers that a bank has.
_BITS = 32


class Touch(NamedTuple):
    """An instruction, by its number, that reads or writes registers, by their rows in the file."""

    number: int
    rows: tuple[int, ...]
    writes: bool


class Touches:
    """What a function does, beside its wgmmas, with the registers in which they leave results."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._rows = frozenset(_results(program))
        by_block = [(number, tuple(self._of(block))) for number, block in enumerate(program.blocks) if self._rows]
        self._of_block = {number: touches for number, touches in by_block if touches}
        self._native = np.array([n for n in self._of_block if program.blocks[n].operation is None], np.intp)

    def __bool__(self) -> bool:
        return bool(self._of_block)

    def before(self, frame: Frame) -> Array | None:
        """What `after` needs to know about a segment that begins; None: nobody wants to hear of it."""
        run = frame.run
        if not frame.bank.pending or not len(self._native) or not run.core.heard:
            return None
        counts: Array = run.together.executed(self._program)[self._native]
        return counts

    def after(self, frame: Frame, mask: int, before: Array) -> None:
        """Tell what a segment of the lanes of `mask` has touched."""
        run = frame.run
        executed = self._native[run.together.executed(self._program)[self._native] > before]
        for block in executed.tolist():
            run.context.flush()
            run.activate(mask)
            self.tell(frame, block)

    def tell(self, frame: Frame, block: int) -> None:
        """Tell what a block touches, in the lanes that are active."""
        core, bank = frame.run.core, frame.bank
        for number, rows, writes in self._of_block.get(block, ()) if bank.pending and core.heard else ():
            which = tuple(row for row in rows if bank.view([row]).pending)
            if which:
                core.at = self._program.sites[number]
                core.touched(bank.view(which), writes, which, ())

    # ------------------------------------------------------------------------------------------ found once

    def _of(self, block: Block) -> Iterator[Touch]:
        """The touches of a block."""
        if block.operation is None:
            for step in block.steps:
                if step.guard is None:
                    yield from self._both(step.number, *_registers(step))
            return
        program, number = self._program, block.first
        text = program.function.body[number]
        instruction, steps = program.instruction(text), program.lowering.steps(number, text)
        for step in steps or ():
            yield from self._both(number, *_registers(step))
        if steps is None and instruction is not None and not operations.accumulates(instruction):
            _, _, written, read = operations.matched(instruction, text.operands)
            yield from self._both(number, _places(program, read), _places(program, written))

    def _both(self, number: int, read: Iterable[Any], written: Iterable[Any]) -> Iterator[Touch]:
        """What an instruction reads and writes of the registers with results."""
        for places, writes in ((read, False), (written, True)):
            rows = dict.fromkeys(each.row for each in places if isinstance(each, Place) and each.bits == _BITS)
            touched = tuple(row for row in rows if row in self._rows)
            if touched:
                yield Touch(number, touched, writes)


def _results(program: Program) -> Iterator[int]:
    """The rows of the registers that the machine writes later."""
    for block in program.blocks:
        text = program.function.body[block.first] if block.operation is not None else None
        instruction = None if text is None else program.instruction(text)
        if text is not None and instruction is not None and operations.accumulates(instruction):
            outs, ins, *arguments = operations.matched(instruction, text.operands)
            pairs = zip([*outs, *ins], [*arguments[0], *arguments[1]], strict=True)
            later = [each for record, each in pairs if record.later or record.direction == "in out"]
            yield from (place.row for place in _places(program, later) if place.bits == _BITS)


def _registers(step: Step) -> tuple[Sequence[Any], Sequence[Any]]:
    """What a step reads, and what it writes."""
    if isinstance(step, Compute):
        return step.sources, step.results
    return ((step.address, *step.registers), ()) if step.writes else ((step.address,), step.registers)


def _places(program: Program, operands: Iterable[Operand]) -> Iterator[Place]:
    """The registers that operands name."""
    for each in operands:
        if isinstance(each, Vector):
            yield from _places(program, each.items)
        elif isinstance(each, Memory):
            yield from _places(program, (each.base,))
        elif isinstance(each, Register):
            yield from program.lowering.halves(each)
