"""The registers of a wgmma.mma_async until a wait covers it, and the instructions that read or write them meanwhile.

Observers hear of it, as Touched, whether the mma_async has ended or not: nothing but a wait guarantees that. The steps
and operations that name such a register are found once, so a function without any pays nothing. A native segment tells
by its counts which blocks it has executed. Which lanes a guard let through is only known if the segment has not written
its predicate since; otherwise the step is left out. So are reads of A: they see the same values before and after, and
compilers move them across the wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.assembly import Memory, Operand, Register, Vector
from tcemu.instructions import Instruction
from tcemu.machine.meeting import WARPGROUP
from tcemu.simt import operations
from tcemu.simt.reference import guarded
from tcemu.simt.register_file import Slot
from tcemu.simt.steps import Compute, Guard, Step

if TYPE_CHECKING:
    from tcemu.machine.registers import Registers
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
    #: its guard, and the other blocks that write the predicate
    guard: Guard | None = None
    writers: tuple[int, ...] = ()


class Touches:
    """What a function does, beside its wgmmas, with their registers."""

    def __init__(self, program: Program) -> None:
        self._program = program
        #: the rows that it may not read meanwhile, and those that it may not write
        self._rows = frozenset(_named(program, results=True)), frozenset(_named(program, results=False))
        by_block = [(number, tuple(self._of(number))) for number in range(len(program.blocks) if self._rows[1] else 0)]
        self._of_block = {number: touches for number, touches in by_block if touches}
        self._native = np.array([n for n in self._of_block if program.blocks[n].operation is None], np.intp)

    def __bool__(self) -> bool:
        return bool(self._of_block)

    def before(self, frame: Frame) -> Array | None:
        """What `after` needs to know about a segment that begins; None: nobody wants to hear of it."""
        run = frame.run
        if not run.core.warpgroup.issued or not len(self._native) or not run.core.heard:
            return None
        return run.together.executed(self._program).copy()

    def after(self, frame: Frame, mask: int, before: Array) -> None:
        """Tell what a segment of the lanes of `mask` has touched."""
        run = frame.run
        executed = run.together.executed(self._program) > before
        for block in self._native[executed[self._native]].tolist():
            run.context.flush()
            self.tell(frame, block, mask, executed)
            run.activate(mask)

    def tell(self, frame: Frame, block: int, mask: int, executed: Array | None = None) -> None:
        """Tell what a block touches, in the lanes of `mask`; a segment has `executed` it and others."""
        core, bank = frame.run.core, frame.bank
        touches = self._of_block.get(block, ()) if core.warpgroup.issued and core.heard else ()
        held = _held(frame) if touches else ()
        for number, rows, writes, guard, writers in touches:
            which = tuple(row for row in rows if row in held[writes])
            known = executed is None or not executed[list(writers)].any()
            lanes = guarded(frame, guard, mask) if which and known else 0
            if lanes:
                frame.run.activate(lanes)
                core.at = self._program.sites[number]
                core.touched(bank.view(which), writes, which, ())

    # ------------------------------------------------------------------------------------------ found once

    def _of(self, place: int) -> Iterator[Touch]:
        """The touches of a block."""
        block = self._program.blocks[place]
        if block.operation is None:
            for at, step in enumerate(block.steps):
                touches = self._both(step.number, *registers_of(step))
                if step.guard is None:
                    yield from touches
                elif not any(_writes(later, step.guard.slot) for later in block.steps[at:]):
                    yield from (self._guarded(each, step.guard, place) for each in touches)
            return
        program, number = self._program, block.first
        text = program.function.body[number]
        instruction, steps = program.instruction(text), program.lowering.steps(number, text)
        for step in steps or ():
            yield from self._both(number, *registers_of(step))
        if steps is None and instruction is not None and not _is_wgmma(instruction):
            _, _, written, read = operations.matched(instruction, text.operands)
            yield from self._both(number, slots_of(program, read), slots_of(program, written))

    def _guarded(self, touch: Touch, guard: Guard, own: int) -> Touch:
        """A touch of a guarded step of block `own`."""
        others = ((at, block) for at, block in enumerate(self._program.blocks) if at != own)
        writers = tuple(at for at, block in others if any(_writes(step, guard.slot) for step in block.steps))
        return touch._replace(guard=guard, writers=writers)

    def _both(self, number: int, read: Iterable[Any], written: Iterable[Any]) -> Iterator[Touch]:
        """What an instruction reads and writes of the registers of wgmmas."""
        for slots, writes in ((read, False), (written, True)):
            rows = dict.fromkeys(each.row for each in slots if isinstance(each, Slot) and each.bits == _BITS)
            touched = tuple(row for row in rows if row in self._rows[writes])
            if touched:
                yield Touch(number, touched, writes)


def _held(frame: Frame) -> tuple[frozenset[int], frozenset[int]]:
    """The rows of a frame that its warp may not read until a wait, and those that it may not write."""
    core = frame.run.core
    place, issued = core.index % WARPGROUP, [each.wgmma for each in core.warpgroup.issued]

    def rows(operands: Iterable[tuple[Registers, ...]]) -> frozenset[int]:
        own = [each[place] for each in operands if each]
        return frozenset(row for each in own if each.bank is frame.bank for row in each.which())

    results = rows(each.d for each in issued)
    return results, results | rows(each.a for each in issued)


def _named(program: Program, *, results: bool) -> Iterator[int]:
    """The rows of the registers of wgmmas; `results`: of their accumulators only."""
    for block in program.blocks:
        text = program.function.body[block.first] if block.operation is not None else None
        instruction = None if text is None else program.instruction(text)
        if text is not None and instruction is not None and _is_wgmma(instruction):
            outs, ins, *arguments = operations.matched(instruction, text.operands)
            pairs = zip([*outs, *ins], [*arguments[0], *arguments[1]], strict=True)
            taken = [each for record, each in pairs if record.direction == "in out" or not results]
            yield from (slot.row for slot in slots_of(program, taken) if slot.bits == _BITS)


def _is_wgmma(instruction: Instruction) -> bool:
    return instruction.family == "wgmma"


def _writes(step: Step, slot: Slot) -> bool:
    """Whether a step writes a register."""
    return slot in registers_of(step)[1]


def registers_of(step: Step) -> tuple[Sequence[Any], Sequence[Any]]:
    """What a step reads, and what it writes."""
    if isinstance(step, Compute):
        return step.sources, step.results
    return ((step.address, *step.registers), ()) if step.writes else ((step.address,), step.registers)


def slots_of(program: Program, operands: Iterable[Operand]) -> Iterator[Slot]:
    """The registers that operands name."""
    for each in operands:
        if isinstance(each, Vector):
            yield from slots_of(program, each.items)
        elif isinstance(each, Memory):
            yield from slots_of(program, (each.base,))
        elif isinstance(each, Register):
            yield from program.lowering.halves(each)
