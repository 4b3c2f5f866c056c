"""What judges get for the answers of a box: functions whose calls are messages, and kernels that the machine runs here.

A kernel's warps run on the real machine, under the sanitizer, in this process. Only the kernel's own code is in the
box: each warp asks it for the next operations. So what a kernel costs, which rules it breaks and what it computes is
found out here, whatever has been patched in there.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import LaunchError, OperandError, TcemuError
from tcemu.grade.inside.wire import Malformed, Reads, record, recorded
from tcemu.grade.plain import visible
from tcemu.machine.events import Site
from tcemu.machine.lanes import Lanes
from tcemu.machine.masks import FULL
from tcemu.machine.memory import Pointer
from tcemu.machine.registers import Registers
from tcemu.machine.sites import UNKNOWN
from tcemu.machine.warp import Warp

if TYPE_CHECKING:
    pass

Array = npt.NDArray[Any]
#: Asks the box to do something; returns its answer. Raises BoxEnded.
Ask = Callable[..., list[Any]]

#: Registers that may be alive at a time, in banks and in bytes of all of them.
_BANKS, _BYTES = 50_000, 256 << 20
#: Operations and calls in one message.
_OPERATIONS_AT_ONCE = 2000
_CASES = 512
#: Characters of a name and of a message from the box.
_NAME, _TEXT = 60, 400


class Raised(Exception):  # noqa: N818 - it stands for another one
    """An error that was raised in the box; its class is made with that error's name."""

    @staticmethod
    def of(name: object, text: object) -> Exception:
        """The error: `described` shows it as if it had been raised here."""
        known = name if isinstance(name, str) and name.isidentifier() else "Exception"
        return type(known[:_NAME], (Raised,), {})(legible(text))  # type: ignore[no-any-return]


def legible(text: object, most: int = _TEXT) -> str:
    r"""Text of the box as people may see it.

    >>> from tcemu.grade.outside import legible
    >>> legible("one\x1b[31m two")
    'one⟨U+001B⟩[31m two'
    """
    return visible(str(text)[:most], lines=True)


class Remote:
    """The functions of one box, and their calls."""

    def __init__(self, ask: Ask, files: Sequence[str]) -> None:
        self._ask = ask
        #: the cells' names, which are the only files whose lines a report may quote
        self._files = frozenset(files)
        self._token = 0
        #: registers of all warps that are alive: banks and bytes
        self.held = [0, 0]
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

    def _function(self, number: int, name: str, parameters: Any) -> Function:
        return Function(self, number, name, parameters)

    def called(self, number: int, every: Sequence[Sequence[Any]]) -> Iterator[Callable[[], Any]]:
        """Call a function of the box in several cases: for each case what gives its result, or raises its error."""
        returned, error = self._ask("call", number, [tuple(case) for case in every])[1:]
        if type(returned) is not list or len(returned) + (error is not None) > len(every):
            raise Malformed("more results than calls")
        yield from (partial(_result, *each) for each in returned)
        if error is not None:
            yield partial(_raise, *error)

    # ------------------------------------------------------------------------------------------ kernels

    def kernel(self, number: int, warp: Warp, arguments: tuple[Any, ...]) -> Any:
        """Run a warp: the box says which operation is next, until the kernel ends."""
        self._token += 1
        token, work = self._token, Work(warp, self._files, self.held)
        try:
            kind, operations, *rest = self._ask("start", token, number, work.place(), arguments)
            while kind == "operations":
                kind, operations, *rest = self._ask("resume", token, *work.perform(operations))
            token = 0  # the kernel has ended by itself
        finally:
            if token:
                self.dropped.append(token)
                work.release()
        outcome, *said = work.perform(operations)
        work.release()
        warp.core.at = None
        if outcome == "error":  # of an operation that the kernel did not wait for
            raise work.error(said[-1])
        if kind == "raised at":
            raise work.error(*rest)
        return _stand_in(rest[0])


class Function:
    """A function of the box. As a kernel it runs on the machine here."""

    def __init__(self, remote: Remote, number: int, name: str, parameters: Any) -> None:
        self._remote, self._number = remote, number
        #: results that came before anybody asked, and the cases that they belong to
        self._known: deque[tuple[tuple[Any, ...], Callable[[], Any]]] = deque()
        known = isinstance(name, str) and name.replace(".<locals>", "").replace(".", "").isidentifier()
        self.__qualname__ = legible(name, _NAME) if known else "<lambda>"
        self.__name__ = self.__qualname__.rpartition(".")[2]
        if parameters is not None:
            self.__signature__ = _signature(parameters)

    def __call__(self, *arguments: Any) -> Any:
        """Call it in the box, or run it for a warp."""
        if arguments and type(arguments[0]) is Warp:
            return self._remote.kernel(self._number, arguments[0], arguments[1:])
        if self._known:
            case, result = self._known.popleft()
            if case == arguments:
                return result()
            self._known.clear()
        (result,) = self._remote.called(self._number, [arguments])
        return result()

    def ahead(self, cases: Sequence[Sequence[Any]]) -> None:
        """Call it in several cases at once: the next calls will be these. The first error ends them."""
        self._known.clear()
        for first in range(0, len(cases), _CASES):
            some = [tuple(case) for case in cases[first : first + _CASES]]
            results = list(self._remote.called(self._number, some))
            self._known.extend(zip(some, results, strict=False))
            if len(results) < len(some) or not results:
                break


def _result(awaited: Any, value: Any) -> Any:
    return _stand_in(awaited) or value


def _raise(name: Any, text: Any) -> Any:
    raise Raised.of(name, text)


class Reference:
    """Registers, as the box names them: the number of a bank and, unless all are meant, which of it."""

    def __init__(self, number: Any, columns: Any) -> None:
        self.number, self.columns = number, columns


class Work:
    """What one warp does: the operations that the box asks for, on the warp's core here."""

    def __init__(self, warp: Warp, files: frozenset[str], held: list[int]) -> None:
        self._warp, self._core, self._files, self._held = warp, warp.core, files, held
        self._banks: dict[int, Registers] = {}
        self._numbers: dict[int, int] = {}
        self._made = 0
        #: registers whose content the box does not have
        self._untold: list[int] = []
        #: errors that were handed to the box, which may come back, and the lines that caused them
        self._errors: list[tuple[Exception, Site | None]] = []

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
            if len(operations) > _OPERATIONS_AT_ONCE:
                raise Malformed("more operations at once than anybody waits for")
            for active, where, name, *rest in operations:
                self._core.bits = _whole(active) & self._core.there
                self._core.at = self._site(where)
                outcome = _OPERATIONS[name](self, *rest)
        except (TcemuError, ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            if isinstance(error, Malformed):
                raise LaunchError(f"the kernel sends {error}") from None
            self._errors.append((error, self._core.at))
            return ["error", self._news(), type(error).__name__, str(error), len(self._errors) - 1]
        return ["value", self._news(), outcome]

    def _news(self) -> list[Any]:
        """The content of the registers that were made since the last outcome."""
        made, self._untold = self._untold, []
        held = ((number, self._banks.get(number)) for number in made)
        return [(number, each.bank.bits) for number, each in held if each is not None and not each.bank.pending]

    def error(self, number: Any, name: str = "", text: str = "") -> BaseException:
        """The error that ended the kernel: one from here if it is a launch's, else as it was described in there."""
        if type(number) is not int or not 0 <= number < len(self._errors):
            return Raised.of(name, text)
        error, where = self._errors[number]
        if isinstance(error, LaunchError):
            return error
        line = f" (line {where.line} of {where.function})" if where else ""
        return Raised.of(type(error).__name__, f"{str(error)[: _TEXT - 120]}{line}")

    def _site(self, where: Any) -> Site:
        """The line of the notebook."""
        match where:
            case [str() as file, int() as line, str() as function] if file in self._files and 0 < line < 1 << 20:
                return Site(file, line, legible(function, _NAME))
        return UNKNOWN

    # ------------------------------------------------------------------------------------------ operations

    def execute(self, opcode: str, operands: Any, both: bool, number: Any) -> Any:
        """An instruction; if its result has a `number` already, the box does not wait for it."""
        if type(opcode) is not str or type(operands) is not tuple:
            raise Malformed("no instruction")
        given = [self._registers(each) if type(each) is Reference else _sound(each) for each in operands]
        result = self._core.execute(opcode, *given, both=both is True)
        if number is None:
            return self._result(result)
        if not isinstance(result, Registers):
            raise Malformed("registers that the instruction does not give")
        return self._keep(number, result)

    def made(self, count: int, fill: int | None, dtype: str, number: Any) -> None:
        """New registers."""
        self._keep(number, self._warp.registers(count, fill, {"uint32": np.uint32, "uint64": np.uint64}[dtype]))

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
                self._count(-1, registers)
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
        """The number of a bank, a new one below 0 if it has none."""
        number = self._numbers.get(id(registers.bank))
        if number is None:
            self._made += 1
            number = -self._made
            whole = registers.shape[1] == registers.bank.bits.shape[1]
            self._add(number, registers if whole else Registers(registers.bank))
        return number

    def _keep(self, number: Any, registers: Registers) -> None:
        """Registers under a number that the box has chosen."""
        if type(number) is not int or number <= 0 or number in self._banks:
            raise Malformed("a number of registers that is taken")
        self._add(number, registers)
        self._untold.append(number)

    def _add(self, number: int, registers: Registers) -> None:
        self._count(1, registers)
        self._banks[number], self._numbers[id(registers.bank)] = registers, number
        if self._held[0] > _BANKS or self._held[1] > _BYTES:
            raise LaunchError("the kernel keeps more registers than a grader has memory for")

    def _count(self, sign: int, registers: Registers) -> None:
        self._held[0] += sign
        self._held[1] += sign * registers.bank.bits.nbytes

    def release(self) -> None:
        """The warp's registers are no longer needed."""
        for registers in self._banks.values():
            self._count(-1, registers)


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
        return (each for each in "")
    if kind == "coroutine":
        return _never()
    return None


async def _never() -> None:
    """Nobody waits for this."""


_PLAIN = inspect.Parameter
#: The kinds of parameters, by their numbers.
_KINDS = (_PLAIN.POSITIONAL_ONLY, _PLAIN.POSITIONAL_OR_KEYWORD, _PLAIN.VAR_POSITIONAL, _PLAIN.KEYWORD_ONLY,
          _PLAIN.VAR_KEYWORD)  # fmt: skip


def _signature(parameters: Any) -> inspect.Signature:
    """The signature that a function of the box has. Raises Malformed."""
    try:
        return inspect.Signature([
            inspect.Parameter(name, _KINDS[kind], default=None if optional else inspect.Parameter.empty)
            for name, kind, optional in parameters[:64]
        ])  # fmt: skip
    except (ValueError, TypeError, IndexError):
        raise Malformed("not a signature") from None
