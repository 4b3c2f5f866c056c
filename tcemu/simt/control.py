"""Operations of the executor itself: calls, indirect branches, clocks, trap, and hints that do nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from tcemu.assembly import Arguments, Instruction, Label, Operand, Register, Symbol, Variable
from tcemu.errors import LaunchError
from tcemu.machine.masks import LANES
from tcemu.simt import library
from tcemu.simt.errors import Unsupported
from tcemu.simt.events import Act, Moves
from tcemu.simt.frames import Frame, distinct

if TYPE_CHECKING:
    from tcemu.simt.program import Program

Array = npt.NDArray[Any]


class Call:
    """A call: what it passes and what it gets, as bytes of the lanes' local memory."""

    def __init__(self, program: Program, returns: Sequence[Operand], given: Sequence[Operand], back: int) -> None:
        self.program, self.back = program, back
        self.given = [self._offset(each) for each in given]
        self.returns = [self._offset(each) for each in returns]

    def _offset(self, operand: Operand) -> int:
        if isinstance(operand, Symbol) and operand.name in self.program.lowering.local:
            return self.program.lowering.local[operand.name] + operand.offset
        raise Unsupported(f"{operand}: tcemu passes arguments in .param variables only")

    def enter(self, caller: Frame, callee: Program) -> Moves:
        """The active lanes enter a function."""
        run = caller.run
        base = caller.base + self.program.local_bytes
        if run.local.grow(base + callee.local_bytes):
            run.context.local_moved()
        formal = callee.function.parameters
        if len(formal) != len(self.given) or len(callee.function.returns) != len(self.returns):
            name, count = callee.function.short, len(self.given)
            raise LaunchError(f"{name} takes {len(formal)} arguments; the call passes {count}")
        frame = Frame(run, callee, caller, self.back, base, self)
        self._copy(frame, formal, [caller.base + each for each in self.given], into=True)
        return [(frame, 0, run.bits)]

    def returned(self, frame: Frame) -> None:
        """The active lanes return."""
        start = 0 if frame.caller is None else frame.caller.base
        places = [start + each for each in self.returns]
        self._copy(frame, frame.program.function.returns, places, into=False)

    def _copy(self, frame: Frame, formal: Sequence[Variable], outside: Sequence[int], *, into: bool) -> None:
        memory, lanes = frame.run.local.bytes, frame.run.active
        rows = LANES if lanes is None else LANES[lanes]
        for variable, other in zip(formal, outside, strict=True):
            inside = frame.base + frame.program.lowering.local[variable.name]
            to, of = (inside, other) if into else (other, inside)
            memory[rows, to : to + variable.size] = memory[rows, of : of + variable.size]


def call(program: Program, number: int, text: Instruction) -> Act:
    """call (9.7.12.5): of a function, of one of the library's, or by address."""
    operands = list(text.operands)
    returns = _listed(operands)
    target = operands.pop(0)
    given = _listed(operands)
    if isinstance(target, Symbol):
        known = library.FUNCTIONS.get(target.name)
        if known is not None:
            made = Call(program, returns, given, 0)
            return lambda frame: known(frame, made.given, made.returns)
        name = program.code.module.aliases.get(target.name, target.name)
        if name not in program.layout.functions:
            raise Unsupported(f"the module does not define {target.name}, and tcemu has no such function")
    return _Calling(program, returns, given, number, target)


def _listed(operands: list[Operand]) -> Sequence[Operand]:
    """The list that comes next, if one does."""
    found = operands[0] if operands else None
    if isinstance(found, Arguments):
        operands.pop(0)
        return found.items
    return ()


class _Calling:
    """A call that looks its function up when it is carried out: programs are made in any order."""

    def __init__(
        self, program: Program, returns: Sequence[Operand], given: Sequence[Operand], number: int, target: Operand
    ) -> None:
        self.program, self.number, self.target = program, number, target
        self.call = Call(program, returns, given, 0)

    def __call__(self, frame: Frame) -> Moves:
        self.call.back = self.program.block_of[self.number] + 1
        code = self.program.code
        if isinstance(self.target, Symbol):
            return self.call.enter(frame, code.find(self.target.name))
        moves: Moves = []
        run, place = frame.run, self.program.slots.places[str(self.target)]
        for value, lanes in distinct(frame, place):
            callee = code.by_pointer.get(value)
            if callee is None:
                raise LaunchError(f"call: {value:#x} is the address of no function")
            run.activate(lanes)
            moves += self.call.enter(frame, callee)
        return moves


def brx(program: Program, number: int, text: Instruction) -> Act:
    """brx.idx (9.7.12.4): to one of several labels, by a number."""
    index, table = text.operands[:2]
    if not isinstance(index, Register) or not isinstance(table, Label):
        raise Unsupported("it takes a register and a list of labels")
    function = program.function
    targets = [function.labels[name] for name in function.branch_targets[table.name]]
    place = program.slots.places[index.name]

    def act(frame: Frame) -> Moves:
        moves: Moves = []
        for value, lanes in distinct(frame, place):
            if value >= len(targets):
                raise LaunchError(f"brx.idx: {value} is not the number of one of {len(targets)} labels")
            moves.append((frame, program.block_of[targets[value]], lanes))
        return moves

    return act


def clock(program: Program, number: int, text: Instruction) -> Act:
    """mov of a clock: it grows from reading to reading."""
    to, of = text.operands
    place, name = program.lowering.place(to), str(of).removeprefix("%")

    def act(frame: Frame) -> None:
        value = getattr(frame.run.warp, name)
        if place is not None:
            frame.put(place, value & (1 << place.bits) - 1)

    return act


def trap(program: Program, number: int, text: Instruction) -> Act:
    """trap, brkpt (9.7.19): end the launch."""

    def act(frame: Frame) -> None:
        core = frame.run.core
        core.grid.fail(LaunchError(f"{text.opcode}: warp {core.index} of block {core.block.number} at {core.at}"))

    return act


def nothing(program: Program, number: int, text: Instruction) -> Act:
    """A hint to caches and the like, which this machine does not have."""
    return lambda _: None


def policy(program: Program, number: int, text: Instruction) -> Act:
    """createpolicy (9.7.9.19): a number that nothing reads."""
    place = program.lowering.place(text.operands[0])
    return lambda frame: None if place is None else frame.put(place, 0)


#: By the first word of an opcode: makes the operation's function.
BINDERS: dict[str, Callable[[Program, int, Instruction], Act]] = {
    "call": call, "brx": brx, "mov": clock, "trap": trap, "brkpt": trap, "createpolicy": policy,
    "pmevent": nothing, "discard": nothing, "applypriority": nothing,
}  # fmt: skip
