"""What one warp of a kernel in the box does: its operations, on the real machine here."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import LaunchError, OperandError, TcemuError
from tcemu.grade.inside.wire import Malformed
from tcemu.grade.plain import visible
from tcemu.machine.events import Site
from tcemu.machine.lanes import Lanes
from tcemu.machine.masks import FULL
from tcemu.machine.registers import Registers
from tcemu.machine.sites import UNKNOWN
from tcemu.machine.warp import Warp

Array = npt.NDArray[Any]
#: Registers that may be alive at a time, in banks and in bytes of all of them; operations in one message.
_BANKS, _BYTES, _OPERATIONS_AT_ONCE = 50_000, 256 << 20, 2000
#: Elements of an array in an operation: 1024 registers of 32 lanes.
_ELEMENTS = 1 << 15
#: Characters of a name and of a message from the box, and where an object is in memory.
NAME, _TEXT, _ADDRESS = 60, 400, re.compile(" at 0x[0-9A-Fa-f]+")


class Raised(Exception):  # noqa: N818 - it stands for another one
    """An error that was raised in the box; its class is made with that error's name."""

    @staticmethod
    def of(name: object, text: object) -> Exception:
        """The error: `described` shows it as if it had been raised here."""
        known = name if isinstance(name, str) and name.isidentifier() else "Exception"
        return type(known[:NAME], (Raised,), {})(legible(text))  # type: ignore[no-any-return]


def legible(text: object, most: int = _TEXT) -> str:
    r"""Text of the box as people may see it. Addresses are left out: they differ when it is graded again.

    >>> from tcemu.grade.warps import legible
    >>> legible("one\x1b[31m <Two object at 0x7f00>")
    'one⟨U+001B⟩[31m <Two object at 0x…>'
    """
    return visible(_ADDRESS.sub(" at 0x…", str(text)[:most]), lines=True)


class Reference:
    """Registers, as the box names them: the number of a bank and, unless all are meant, an index into it."""

    def __init__(self, number: Any, columns: Any) -> None:
        self.number, self.columns = number, columns

    def __repr__(self) -> str:
        return "<registers of a kernel>"


class Work:
    """What one warp does: the operations that the box asks for, on the warp's core here."""

    def __init__(self, warp: Warp, files: frozenset[str], held: list[int]) -> None:
        self._warp, self._core, self._files, self._held = warp, warp.core, files, held
        self._banks: dict[int, Registers] = {}
        self._numbers: dict[int, int] = {}
        self._made = 0
        #: registers whose content the box does not have
        self._untold: list[int] = []
        #: errors that were passed to the box, which may return them, and the lines that caused them
        self._errors: list[tuple[Exception, Site | None]] = []

    def place(self) -> dict[str, Any]:
        """The properties of a warp that its kernel can read."""
        core, block, shape = self._core, self._core.block, self._core.block.shape
        return {
            "number": block.number, "shared": shape.shared, "resident": block.grid.resident,
            "launch": block.grid.launch,
            "cluster": shape.cluster, "clusterid": block.cluster.index, "cluster_ctaid": block.cluster_ctaid,
            "ctaid": core.block.index, "grid": shape.grid, "block": shape.block, "warps": core.block.warps,
            "rank": core.block.rank, "index": core.index, "present": core.present, "target": core.target,
        }  # fmt: skip

    def perform(self, operations: Any) -> list[Any]:
        """Perform operations in order; the outcome is that of the last one, or the first error."""
        outcome: Any = None
        try:
            if len(operations) > _OPERATIONS_AT_ONCE:
                raise Malformed("more operations at once than there are warps waiting")
            for active, where, name, *rest in operations:
                self._core.bits = _whole(active) & self._core.present
                self._core.at = self._site(where)
                _small(rest)
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
                return Site(file, line, legible(function, NAME))
        return UNKNOWN

    # ------------------------------------------------------------------------------------------ operations

    def execute(self, opcode: str, operands: Any, both: bool, number: Any) -> Any:
        """An instruction; if its result has a `number` already, the box does not wait for it."""
        if type(opcode) is not str or type(operands) is not tuple:
            raise Malformed("no instruction")
        sound = [self._registers(each) if type(each) is Reference else _sound(each) for each in operands]
        result = self._core.execute(opcode, *sound, both=both is True)
        if number is None:
            return self._result(result)
        if not isinstance(result, Registers):
            raise Malformed("registers that the instruction does not give")
        return self._keep(number, result)

    def made(self, count: int, fill: int | None, dtype: str, number: Any) -> None:
        """New registers."""
        self._keep(number, self._warp.registers(count, fill, {"uint32": np.uint32, "uint64": np.uint64}[dtype]))

    def touch(self, number: int, columns: Any, key: Any, only_moved: bool) -> None:
        """The kernel reads registers whose content it knows."""
        self._registers(Reference(number, columns)).touch(False, _key(key), only_moved=only_moved is True)

    def read(self, number: int, columns: Any, key: Any, only_moved: bool) -> list[Any]:
        """The content of registers, and whether it stays."""
        registers = self._registers(Reference(number, columns))
        registers.touch(False, _key(key), only_moved=only_moved is True)
        return [registers.seen().copy(), not registers.bank.pending]

    def peek(self, number: int, columns: Any, key: Any, only_moved: bool) -> list[Any]:
        """The same, read without an observer."""
        registers = self._registers(Reference(number, columns))
        return [registers.bits.copy(), not registers.bank.pending]

    def write(self, number: int, columns: Any, key: Any, value: Any) -> None:
        """The kernel writes registers."""
        self._registers(Reference(number, columns))[_key(key)] = value

    def exit(self) -> int:
        """The active lanes exit; returns those that are left."""
        self._warp.exit()
        return self._core.present

    def gone(self, numbers: Any) -> None:
        """The kernel no longer refers to these banks."""
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
        """A result for the box: registers by their number, with their content unless a pending result may change it."""
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


def _small(operands: Any) -> None:
    """Refuse arrays that no kernel needs. Raises Malformed."""
    for each in operands:
        if isinstance(each, np.ndarray) and each.size > _ELEMENTS:
            raise Malformed("an array that is larger than all registers of a warp")
        if type(each) is tuple:
            _small(each)


def _key(key: Any) -> Any:
    """A key, unless it names registers many times: a short one may stand for more than fits into memory.

    Raises Malformed.
    """
    parts = [np.asarray(part) for part in (key if type(key) is tuple else (key,)) if type(part) in (list, np.ndarray)]
    shapes = [part.nonzero()[0].shape if part.dtype == bool else part.shape for part in parts]
    if math.prod(np.broadcast_shapes(*shapes)) > _ELEMENTS:
        raise Malformed("a key that names registers without end")
    return key


def _sound(operand: Any) -> Any:
    """An operand without registers hidden in lists. Raises OperandError."""
    if type(operand) in (list, tuple) and any(isinstance(part, Reference) for part in operand):
        raise OperandError("an operand must be one array of registers, not a list of several; join them with np.hstack")
    return operand


def _whole(bits: Any) -> int:
    if type(bits) is not int or not 0 <= bits <= FULL:
        raise Malformed("no lanes")
    return bits
