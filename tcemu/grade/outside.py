"""What judges get for the answers of a box: functions whose calls are messages, and kernels that the machine runs here.

A kernel's warps run on the real machine, under the sanitizer, in this process. Only the kernel's own code is in the box:
each warp asks it for the next operation. So what a kernel costs, which rules it breaks and what it computes is found out
here, whatever has been patched in there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import LaunchError, OperandError, TcemuError
from tcemu.grade.inside.wire import Malformed, Reads, record, recorded
from tcemu.machine.events import Site
from tcemu.machine.lanes import Lanes
from tcemu.machine.masks import FULL
from tcemu.machine.memory import Pointer
from tcemu.machine.registers import Registers
from tcemu.machine.sites import UNKNOWN
from tcemu.machine.warp import Warp

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: Asks the box to do something; returns its answer. Raises BoxEnded.
Ask = Callable[..., list[Any]]

#: Control characters except the end of a line, what turns the direction of writing round, and halves of characters.
_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: Registers of one warp that may be alive at a time, in banks and in bytes of all of them.
_BANKS, _BYTES = 50_000, 256 << 20
#: Characters of a name and of a message from the box.
_NAME, _TEXT = 60, 400


class Raised(Exception):  # noqa: N818 - it stands for another one
    """An error that was raised in the box; its class is made with that error's name."""

    @staticmethod
    def of(name: object, text: object) -> Exception:
        """The error: `described` shows it as if it had been raised here."""
        known = name if isinstance(name, str) and name.isidentifier() else "Exception"
        return type(known[:_NAME], (Raised,), {})(plain(text))  # type: ignore[no-any-return]


def plain(text: object, most: int = _TEXT) -> str:
    """Text without control characters, surrogates and what turns the direction of writing round.

    >>> from tcemu.grade.outside import plain
    >>> plain("one\\x1b[31m two")
    'one[31m two'
    """
    return _UNSEEN.sub("", str(text))[:most]


class Remote:
    """The functions of one box, and their calls."""

    def __init__(self, ask: Ask, files: Sequence[str]) -> None:
        self._ask = ask
        #: the cells' names, which are the only files whose lines a report may quote
        self._files = frozenset(files)
        self._token = 0
        #: warps whose launch is over
        self.dropped: list[int] = []
        #: what the box may call: the boxes that a Probe hands out
        self._callbacks: list[Callable[..., Any]] = []

    # ------------------------------------------------------------------------------------------ values

    @property
    def known(self) -> dict[str, Reads]:
        """How values of the box are read that are not plain."""
        return {"function": self._function, "record": recorded, "registers": Reference}

    def special(self, value: Any) -> list[Any] | None:
        """How values for the box are written that are not plain."""
        if type(value) is Pointer:
            return ["pointer", int(value), value.dtype.name, ["tuple", *value.shape]]
        if callable(value) and not isinstance(value, np.ndarray | np.generic | Lanes):
            self._callbacks.append(value)
            return ["function", len(self._callbacks) - 1]
        return record(value)

    def callback(self, number: int, arguments: Sequence[Any]) -> Any:
        """Call something that was handed to the box. Raises TcemuError or Malformed."""
        if type(number) is not int or not 0 <= number < len(self._callbacks) or type(arguments) is not tuple:
            raise Malformed("there is no such function")
        return self._callbacks[number](*arguments)

    def _function(self, number: int, name: str, parameters: Any) -> Callable[..., Any]:
        """A function of the box."""

        def function(*arguments: Any) -> Any:
            if arguments and type(arguments[0]) is Warp:
                return self._kernel(number, arguments[0], arguments[1:])
            return self._called(number, arguments)

        named = name if isinstance(name, str) and name.replace(".<locals>", "").replace(".", "").isidentifier() else ""
        function.__qualname__ = plain(named or "function", _NAME)
        function.__name__ = function.__qualname__.rpartition(".")[2]
        if parameters is not None:
            function.__signature__ = _signature(parameters)  # type: ignore[attr-defined]
        return function

    def _called(self, number: int, arguments: tuple[Any, ...]) -> Any:
        kind, *rest = self._ask("call", number, arguments)
        if kind == "raised":
            raise Raised.of(*rest)
        awaited, result = rest
        return _stand_in(awaited) or result

    # ------------------------------------------------------------------------------------------ kernels

    def _kernel(self, number: int, warp: Warp, arguments: tuple[Any, ...]) -> Any:
        """Run a warp: the box says which operation is next, until the kernel ends."""
        self._token += 1
        token, work = self._token, Work(warp, self._files)
        try:
            kind, operations, *rest = self._ask("start", token, number, work.place(), arguments)
            while kind == "operations":
                kind, operations, *rest = self._ask("resume", token, *work.perform(operations))
            token = 0  # the kernel has ended by itself
        finally:
            if token:
                self.dropped.append(token)
            warp.core.at = None
        work.perform(operations)
        if kind == "raised at":
            raise work.error(*rest)
        return _stand_in(rest[0])


class Reference:
    """Registers, as the box names them: the number of a bank and, unless all are meant, which of it."""

    def __init__(self, number: Any, columns: Any) -> None:
        self.number, self.columns = number, columns


class Work:
    """What one warp does: the operations that the box asks for, on the warp's core here."""

    def __init__(self, warp: Warp, files: frozenset[str]) -> None:
        self._warp, self._core, self._files = warp, warp.core, files
        self._banks: dict[int, Registers] = {}
        self._numbers: dict[int, int] = {}
        self._made = self._bytes = 0
        #: errors that were handed to the box, which may come back
        self._errors: list[BaseException] = []

    def place(self) -> dict[str, Any]:
        """What a warp knows about itself."""
        core, shape = self._core, self._core.block.shape
        return {
            "ctaid": core.block.index, "grid": shape.grid, "block": shape.block, "warps": core.block.warps,
            "rank": core.block.rank, "index": core.index, "there": core.there, "target": core.target,
        }  # fmt: skip

    def perform(self, operations: Any) -> list[Any]:
        """Perform operations in order; the outcome is that of the last one, or the first error."""
        outcome: Any = None
        try:
            for active, where, name, *rest in operations:
                self._core.bits = _whole(active) & self._core.there
                self._core.at = self._site(where)
                outcome = _OPERATIONS[name](self, *rest)
        except (TcemuError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            if isinstance(error, Malformed):
                raise LaunchError(f"the kernel sends {error}") from None
            self._errors.append(error)
            return ["error", type(error).__name__, str(error), len(self._errors) - 1]
        return ["value", outcome]

    def error(self, number: Any, name: str, text: str) -> BaseException:
        """The error that ended the kernel: one from here if it is a launch's, else as it was described in there."""
        known = self._errors[number] if type(number) is int and 0 <= number < len(self._errors) else None
        return known if isinstance(known, LaunchError) else Raised.of(name, text)

    def _site(self, where: Any) -> Site:
        """The line of the notebook."""
        match where:
            case [str() as file, int() as line, str() as function] if file in self._files and 0 < line < 1 << 20:
                return Site(file, line, plain(function, _NAME))
        return UNKNOWN

    # ------------------------------------------------------------------------------------------ operations

    def execute(self, opcode: str, operands: Any, both: bool) -> Any:
        """An instruction."""
        if type(opcode) is not str or type(operands) is not tuple:
            raise Malformed("no instruction")
        given = [self._registers(each) if type(each) is Reference else _sound(each) for each in operands]
        return self._result(self._core.execute(opcode, *given, both=both is True))

    def made(self, count: int, fill: int | None, dtype: str) -> Any:
        """New registers."""
        return self._result(self._warp.registers(count, fill, {"uint32": np.uint32, "uint64": np.uint64}[dtype]))

    def touch(self, number: int, columns: Any, key: Any, moves: bool) -> None:
        """The kernel reads registers whose content it knows."""
        self._registers(Reference(number, columns)).touch(False, key, moves=moves is True)

    def read(self, number: int, columns: Any, key: Any, moves: bool) -> list[Any]:
        """The content of registers, and whether it stays."""
        registers = self._registers(Reference(number, columns))
        registers.touch(False, key, moves=moves is True)
        return [registers.seen().copy(), not registers.bank.pending]

    def peek(self, number: int, columns: Any, key: Any, moves: bool) -> list[Any]:
        """The same, read without an observer."""
        registers = self._registers(Reference(number, columns))
        return [registers.bits.copy(), not registers.bank.pending]

    def write(self, number: int, columns: Any, key: Any, value: Any) -> None:
        """The kernel writes registers."""
        self._registers(Reference(number, columns))[key] = value

    def exit(self) -> int:
        """The active lanes exit; the answer is those that are left."""
        self._warp.exit()
        return self._core.there

    def gone(self, numbers: Any) -> None:
        """The kernel cannot reach these banks any more."""
        for number in numbers:
            registers = self._banks.pop(number, None)
            if registers is not None:
                self._bytes -= registers.bank.bits.nbytes
                del self._numbers[id(registers.bank)]

    def nothing(self) -> None:
        """Nothing but what came before it."""

    # ------------------------------------------------------------------------------------------ registers

    def _registers(self, reference: Reference) -> Registers:
        registers = self._banks.get(reference.number) if type(reference.number) is int else None
        if registers is None:
            raise Malformed("registers that there are not")
        if reference.columns is None:
            return registers
        count = registers.shape[1]
        columns = reference.columns
        if type(columns) is not list or not all(type(each) is int and 0 <= each < count for each in columns):
            raise Malformed("registers that there are not")
        return Registers(registers.bank, np.asarray(columns, np.intp))

    def _result(self, result: Any) -> Any:
        """A result for the box: registers by their number, with their content unless it may change under way."""
        if isinstance(result, Registers):
            bank = result.bank
            content = None if bank.pending else bank.bits
            columns = None if result.shape[1] == bank.bits.shape[1] else list(result.which())
            return ("registers", self._number(result), columns, bank.bits.shape[1], bank.bits.dtype.name, content)
        if isinstance(result, tuple):
            return ("several", *map(self._result, result))
        return ("lanes", result) if isinstance(result, Lanes) else result

    def _number(self, registers: Registers) -> int:
        number = self._numbers.get(id(registers.bank))
        if number is None:
            self._made += 1
            self._bytes += registers.bank.bits.nbytes
            if len(self._banks) >= _BANKS or self._bytes > _BYTES:
                raise LaunchError("the kernel keeps more registers than a grader has memory for")
            number = self._numbers[id(registers.bank)] = self._made
            whole = registers.shape[1] == registers.bank.bits.shape[1]
            self._banks[number] = registers if whole else Registers(registers.bank)
        return number


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "execute": Work.execute, "registers": Work.made, "touch": Work.touch, "read": Work.read, "peek": Work.peek,
    "write": Work.write, "exit": Work.exit, "gone": Work.gone, "nothing": Work.nothing,
}  # fmt: skip


def _sound(operand: Any) -> Any:
    """An operand without registers hidden in lists. Raises OperandError."""
    if type(operand) in (list, tuple) and any(isinstance(part, Reference) for part in operand):
        raise OperandError("an operand is one array of registers, and not a list of several; join them with np.hstack")
    return operand


def _whole(bits: Any) -> int:
    if type(bits) is not int or not 0 <= bits <= FULL:
        raise Malformed("no lanes")
    return bits


def _stand_in(kind: Any) -> Any:
    """A generator or coroutine in place of the box's: who gets it sees what the kernel or function is."""
    if kind in ("generator", "asyncgen"):
        return (each for each in ())
    if kind == "coroutine":
        made = _never()
        return made
    return None


async def _never() -> None:
    """Nobody waits for this."""


def _signature(parameters: Any) -> inspect.Signature:
    """The signature that a function of the box has. Raises Malformed."""
    try:
        kinds = list(inspect._ParameterKind)
        return inspect.Signature([
            inspect.Parameter(name, kinds[kind], default=None if optional else inspect.Parameter.empty)
            for name, kind, optional in parameters[:64]
        ])  # fmt: skip
    except (ValueError, TypeError, IndexError):
        raise Malformed("not a signature") from None
