"""Operations of the executor itself: calls, indirect branches, clocks, trap, and hints that do nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tcemu.assembly import Arguments, Immediate, Instruction, Label, Operand, Register, Sink, Symbol, Variable
from tcemu.assembly.names import demangle
from tcemu.errors import LaunchError
from tcemu.machine.masks import LANES, bits_of, lanes_of
from tcemu.simt import library, values
from tcemu.simt.errors import Unsupported
from tcemu.simt.events import Act, Jumps
from tcemu.simt.frames import Frame, distinct
from tcemu.simt.register_file import Slot, Source

if TYPE_CHECKING:
    from tcemu.simt.program import Program

Array = npt.NDArray[Any]


#: What a call passes or gets: bytes of the lanes' local memory, from where the frame's part starts; or a register, and
#: of what is passed, a number. None: nobody wants it.
Passed: TypeAlias = int | Source | None


class Call:
    """A call: what it passes and what it gets."""

    def __init__(self, program: Program, returns: Sequence[Operand], arguments: Sequence[Operand], back: int) -> None:
        self.program, self.back = program, back
        self.arguments: list[Passed] = [self._passed(each) for each in arguments]
        self.returns: list[Passed] = [self._passed(each) for each in returns]

    def _passed(self, operand: Operand) -> Passed:
        if isinstance(operand, Symbol) and operand.name in self.program.lowering.local:
            return self.program.lowering.local[operand.name] + operand.offset
        if isinstance(operand, Sink):
            return None
        if isinstance(operand, Register | Immediate):
            return self.program.lowering.source(operand, 64)
        raise Unsupported(f"{operand}: a call passes .param variables, registers and numbers")

    def in_memory(self) -> tuple[list[int], list[int]]:
        """The same for a function of the library, which takes .param variables."""
        arguments, returns = (
            [each for each in several if isinstance(each, int)] for several in (self.arguments, self.returns)
        )
        if len(arguments) < len(self.arguments) or len(returns) < len(self.returns):
            raise Unsupported("CUDA's own functions take .param variables")
        return arguments, returns

    def enter(self, caller: Frame, callee: Program) -> Jumps:
        """The active lanes enter a function."""
        run = caller.run
        base = caller.base + self.program.local_bytes
        try:
            moved = run.local.grow(base + callee.local_bytes)
        except LaunchError as error:
            raise LaunchError(f"{error} ({run.core.by()})") from None
        if moved:
            run.context.local_moved()
        formal = callee.function.parameters
        if len(formal) != len(self.arguments) or len(callee.function.returns) != len(self.returns):
            name, count = callee.function.short, len(self.arguments)
            raise LaunchError(f"{name} takes {len(formal)} arguments; the call passes {count}")
        frame = Frame(run, callee, caller, self.back, base, self)
        for variable, argument in zip(formal, self.arguments, strict=True):
            _put(frame, _formal(callee, variable), _value(caller, argument, variable.size))
        return [(frame, 0, run.bits)]

    def returned(self, frame: Frame) -> None:
        """The active lanes return."""
        if frame.caller is None:
            return
        for variable, wanted in zip(frame.program.function.returns, self.returns, strict=True):
            _put(frame.caller, wanted, _value(frame, _formal(frame.program, variable), variable.size))
        frame.declare()  # who still has a pointer to a variable finds no value there


def _formal(program: Program, variable: Variable) -> Passed:
    """Where a function's parameter or result lies: in local memory or, with .reg, in a register."""
    if variable.space == "reg":
        return program.slots.by_name[variable.name]
    return program.lowering.local[variable.name]


def _value(frame: Frame, passed: Passed, size: int) -> Array:
    """The bytes (32, size) of what is passed."""
    if isinstance(passed, int):
        start = frame.base + passed
        return frame.run.local.bytes[:, start : start + size]
    source = cast("Source", passed)
    if source.bits == 1:
        return lanes_of(frame.mask(source)).astype(np.uint8)[:, None]  # type: ignore[arg-type]
    return values.value(frame, source).astype(f"u{size}").view(np.uint8).reshape(len(LANES), size)


def _put(frame: Frame, passed: Passed, data: Array) -> None:
    """Put bytes (32, size) there, in the active lanes."""
    active = frame.run.active
    rows = LANES if active is None else LANES[active]
    if isinstance(passed, int):
        start = frame.base + passed
        frame.run.local.bytes[rows, start : start + data.shape[1]] = data[rows]
    elif isinstance(passed, Slot):
        if passed.bits == 1:
            frame.put(passed, bits_of(data[:, 0] != 0))
        else:
            frame.put(passed, np.ascontiguousarray(data).view(f"u{data.shape[1]}")[:, 0])


def call(program: Program, number: int, text: Instruction) -> Act:
    """call (9.7.12.5): of a function, of one of the library's, or by address."""
    operands = list(text.operands)
    returns = _listed(operands)
    target = operands.pop(0)
    arguments = _listed(operands)
    if isinstance(target, Symbol):
        known = library.FUNCTIONS.get(target.name)
        if known is not None:
            takes, gives = Call(program, returns, arguments, 0).in_memory()
            return lambda frame: known(frame, takes, gives)
        name = program.code.module.aliases.get(target.name, target.name)
        if name not in program.layout.functions:
            called = demangle(target.name)
            raise Unsupported(f"the module only declares {called}: nothing defines it, and tcemu has no such function")
    return _Calling(program, returns, arguments, number, target)


def _listed(operands: list[Operand]) -> Sequence[Operand]:
    """The list that comes next, if one does."""
    first = operands[0] if operands else None
    if isinstance(first, Arguments):
        operands.pop(0)
        return first.items
    return ()


class _Calling:
    """A call that looks its function up when it is carried out: programs are made in any order."""

    def __init__(
        self, program: Program, returns: Sequence[Operand], arguments: Sequence[Operand], number: int, target: Operand
    ) -> None:
        self.program, self.number, self.target = program, number, target
        self.call = Call(program, returns, arguments, 0)

    def __call__(self, frame: Frame) -> Jumps:
        self.call.back = self.program.block_of[self.number] + 1
        code = self.program.code
        if isinstance(self.target, Symbol):
            return self.call.enter(frame, code.find(self.target.name))
        jumps: Jumps = []
        run, slot = frame.run, self.program.slots.by_name[str(self.target)]
        for value, lanes in distinct(frame, slot):
            callee = code.by_pointer.get(value)
            if callee is None:
                raise LaunchError(f"call: {value:#x} is the address of no function")
            run.activate(lanes)
            jumps += self.call.enter(frame, callee)
        return jumps


def brx(program: Program, number: int, text: Instruction) -> Act:
    """brx.idx (9.7.12.4): to one of several labels, by a number."""
    index, table = text.operands[:2]
    if not isinstance(index, Register) or not isinstance(table, Label):
        raise Unsupported("it takes a register and a list of labels")
    function = program.function
    targets = [function.labels[name] for name in function.branch_targets[table.name]]
    slot = program.slots.by_name[index.name]

    def act(frame: Frame) -> Jumps:
        jumps: Jumps = []
        for value, lanes in distinct(frame, slot):
            if value >= len(targets):
                raise LaunchError(f"brx.idx: {value} is not the number of one of {len(targets)} labels")
            jumps.append((frame, program.block_of[targets[value]], lanes))
        return jumps

    return act


def clock(program: Program, number: int, text: Instruction) -> Act:
    """mov of a clock: it grows from reading to reading."""
    to, of = text.operands
    slot, name = program.lowering.slot(to), str(of).removeprefix("%")

    def act(frame: Frame) -> None:
        value = getattr(frame.run.warp, name)
        if slot is not None:
            frame.put(slot, value & (1 << slot.bits) - 1)

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
    slot = program.lowering.slot(text.operands[0])
    return lambda frame: None if slot is None else frame.put(slot, 0)


#: By the first word of an opcode: makes the operation's function.
BINDERS: dict[str, Callable[[Program, int, Instruction], Act]] = {
    "call": call, "brx": brx, "mov": clock, "trap": trap, "brkpt": trap, "createpolicy": policy,
    "pmevent": nothing, "discard": nothing, "applypriority": nothing,
}  # fmt: skip
