"""A kernel in the box: each operation of its warps is sent outside, where the machine runs it.

A kernel gets the package's own Warp over a core that performs nothing. Operations wait here until the kernel needs to
know something: a predicate, or the content of registers that came from outside. Their order stays, so outside nobody
can tell. Registers of a warp change by its own operations alone, so what is known stays true; the exception are results
of wgmma, which are read outside every time while they are pending.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import lru_cache
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from greenlet import GreenletExit, getcurrent, greenlet

from tcemu.errors import LaunchError
from tcemu.grade.inside.outcomes import raised, unawaited
from tcemu.instructions import Instruction, parse
from tcemu.instructions.elements import elements_of
from tcemu.instructions.table import family_of
from tcemu.machine.block import Shape
from tcemu.machine.core import Core
from tcemu.machine.dispatch import bind
from tcemu.machine.lanes import lanes
from tcemu.machine.masks import FULL
from tcemu.machine.registers import POISON, WARP, Bank, Registers
from tcemu.machine.sites import site
from tcemu.machine.warp import Warp

if TYPE_CHECKING:
    from tcemu.grade.inside.session import Session

Array = npt.NDArray[Any]
#: What %clock64 shows: a counter of its readings, because the launch's own is outside.
_CLOCK = count()
#: Operations that may wait.
_WAITING = 500


class Gives(NamedTuple):
    """What an instruction gives the kernel: nothing, its accumulator, new registers, or something else."""

    kind: str
    registers: int = 0
    dtype: Any = None


@lru_cache(maxsize=4096)
def _gives(instruction: str | Instruction, target: str) -> Gives:
    """What an instruction gives. Raises what tcemu.parse raises."""
    parsed = parse(instruction, target)
    written = [each for each in parsed.operands if each.written]
    if not written:
        return Gives("nothing")
    if len(written) == 1 and written[0].read:
        return Gives("accumulator")
    if len(written) == 1 and written[0].fragment is not None:
        return Gives("registers", written[0].registers, written[0].fragment.container.register_dtype)
    if family_of(parsed).name == "ld":
        moved = elements_of(parsed)
        return Gives("registers", moved.registers, moved.register)
    return Gives("something")


class RemoteBank(Bank):
    """Registers whose authoritative content is outside, where they have a number."""

    __slots__ = ("core", "known", "number", "time")

    def __init__(self, core: RemoteCore, number: int, shape: tuple[int, int], dtype: npt.DTypeLike) -> None:
        super().__init__(np.zeros(shape, dtype), core)
        self.core, self.number = core, number
        #: whether the content here is that outside; and when it last was
        self.known, self.time = False, -1

    def view(self, numbers: Any) -> Registers:
        """Some of its registers."""
        return RemoteRegisters(self, np.asarray(numbers, np.intp))


class RemoteRegisters(Registers):
    """A view of such a bank."""

    __slots__ = ()
    bank: RemoteBank

    @property
    def bits(self) -> Array:
        """The content, read without an observer."""
        if not self.bank.known and self.bank.time != self.bank.core.time:
            self.bank.core.fetch(self, "peek")
        return super().bits

    def touch(self, writes: bool, key: Any = ..., *, only_moved: bool = False) -> None:
        """Report that the kernel reads `registers[key]`; writes are reported with what they write."""
        if writes:  # with what is written, in __setitem__
            return
        if self.bank.known:
            self.bank.core.later("touch", self.bank.number, self.columns, key, only_moved)
        else:
            self.bank.core.fetch(self, "read", key, only_moved)

    def __setitem__(self, key: Any, value: Any) -> None:
        patterns = self._patterns(value)
        super().__setitem__(key, patterns)
        self.bank.core.later("write", self.bank.number, self.columns, key, patterns)
        self.bank.time = -1

    @property
    def columns(self) -> list[int] | None:
        """Which registers of the bank these are; None for all of them."""
        return None if self._columns is None else self._columns.tolist()


class RemoteCore(Core):
    """The core of a warp that runs outside."""

    def __init__(self, session: Session, place: SimpleNamespace) -> None:
        launched = place.grid, place.block, place.shared, place.target
        shape = Shape(*launched, policy="late", seed=0, registers=0, cluster=place.cluster)  # nothing uses the policy
        grid: Any = SimpleNamespace(resident=place.resident, launch=place.launch, clock=_CLOCK.__next__)
        self.block: Any = SimpleNamespace(
            index=place.ctaid, shape=shape, warps=place.warps, rank=place.rank, number=place.number, grid=grid,
            cluster=SimpleNamespace(index=place.clusterid), cluster_ctaid=place.cluster_ctaid,
        )  # fmt: skip
        self.grid = grid
        self.index, self.present, self.bits, self.at = place.index, place.present, place.present, None
        self.target, self.watched = shape.target, True
        #: counts the operations that let other warps run
        self.time = 0
        self._session = session
        self._waiting: list[list[Any]] = []
        #: banks that were made here, which have the numbers from 1 on
        self._made = 0
        self._banks: weakref.WeakValueDictionary[int, RemoteBank] = weakref.WeakValueDictionary()
        #: banks that no kernel can reach any more
        self._gone: list[int] = []
        self.fiber: greenlet

    def by(self) -> Any:
        """Nothing: the outside knows which warp it is."""

    def execute(self, instruction: str | Instruction, *operands: Any, both: bool = False) -> Any:
        """Have an instruction executed outside; do not wait for effects that the kernel cannot see."""
        if not isinstance(instruction, str | Instruction):
            bind(instruction, self.target)  # which rejects it
        opcode = instruction if isinstance(instruction, str) else instruction.opcode
        gives = _gives(instruction, self.target)
        now = tuple(np.array(each) if isinstance(each, np.ndarray) else each for each in operands)
        if gives.kind == "something" or both:
            return self._now("execute", opcode, now, bool(both), None)
        self.time += 1
        if gives.kind == "accumulator" and operands and type(operands[0]) is RemoteRegisters:
            operands[0].bank.known = False
            self.later("execute", opcode, now, False, None)
            return operands[0]
        if gives.kind == "accumulator":
            return self._now("execute", opcode, now, False, None)
        if gives.kind == "nothing":
            return self.later("execute", opcode, now, False, None)
        made = self._promised(gives.registers, gives.dtype)
        self.later("execute", opcode, now, False, made.bank.number)
        return made

    def blank(self, count: int, dtype: npt.DTypeLike = np.uint32) -> Registers:
        """Registers that count as unwritten."""
        return self._filled(count, dtype, None, POISON)

    def made(self, bits: Array, written: int, origin: Any = None) -> Registers:
        """Registers that all hold the same value."""
        fill = int(bits[0, 0])
        return self._filled(bits.shape[1], bits.dtype, fill, fill)

    def _filled(self, count: int, dtype: npt.DTypeLike, fill: int | None, content: int) -> Registers:
        made = self._promised(count, dtype)
        made.bank.bits[...] = content
        made.bank.known = True
        self.later("registers", count, fill, np.dtype(dtype).name, made.bank.number)
        return made

    def _promised(self, count: int, dtype: npt.DTypeLike) -> RemoteRegisters:
        """Registers that an operation will make outside."""
        self._made += 1
        return RemoteRegisters(self._bank(self._made, count, dtype))

    def exit(self) -> None:
        """The active lanes exit."""
        self.present = self._now("exit") & FULL
        self.bits = 0

    # ------------------------------------------------------------------------------------------ to the outside

    def later(self, *operation: Any) -> None:
        """Send an operation with the next one that has a result."""
        self._waiting.append([self.bits, self._site(), *operation])
        if len(self._waiting) > _WAITING:
            self._now("nothing")

    def fetch(self, registers: RemoteRegisters, how: str, key: Any = ..., only_moved: bool = False) -> None:
        """Get the content of registers."""
        bank = registers.bank
        content, bank.known = self._send(how, bank.number, registers.columns, key, only_moved)
        columns: Any = slice(None) if registers.columns is None else registers.columns
        bank.known = bank.known and registers.columns is None
        bank.bits[:, columns], bank.time = content, self.time

    def _now(self, *operation: Any) -> Any:
        self.time += 1
        return self._send(*operation)

    def _send(self, *operation: Any) -> Any:
        if getcurrent() is not self.fiber:
            raise LaunchError(
                f"warp {self.index} of block {self.block.index} is not the one that runs here: only a warp's own "
                "kernel may use it, and only while that kernel runs"
            )
        hub = self.fiber.parent
        assert hub is not None  # noqa: S101 - for the types: whoever resumes a warp is its parent
        # The outcome is that of the last operation, whose registers are still in use.
        operations = [*self.taken(), [self.bits, self._site(), *operation]]
        return self._outcome(hub.switch(["operations", operations]))

    def taken(self) -> list[Any]:
        """The operations that wait, and then the banks that are gone by now."""
        waiting, self._waiting = self._waiting, []
        gone, self._gone[:] = self._gone[:], []
        return [*waiting, [self.bits, None, "gone", gone]] if gone else waiting

    def _outcome(self, outcome: tuple[Any, ...]) -> Any:
        kind, news, *rest = outcome
        for number, content in news:
            bank = self._banks.get(number)
            if bank is not None:
                bank.bits[...] = content
                bank.known = True
        if kind == "error":
            raise self._session.error(*rest)
        return self._result(rest[0])

    def _site(self) -> list[Any]:
        return list((self.at or site())[:3])

    # ------------------------------------------------------------------------------------------ results

    def _result(self, value: Any) -> Any:
        """A result as the kernel gets it: registers and lanes in their own types."""
        if type(value) is not tuple or not value:
            return value
        kind, *rest = value
        return _RESULTS[kind](self, *rest)

    def registers_of(self, number: int, columns: list[int] | None, n: int, dtype: str, content: Array | None) -> Any:
        """Registers by their number; without content, they may change at any time."""
        bank = self._banks.get(number) or self._bank(number, n, dtype)
        bank.known = content is not None
        if content is not None:
            bank.bits[...] = content
        return RemoteRegisters(bank, None if columns is None else np.asarray(columns, np.intp))

    def _bank(self, number: int, count: int, dtype: npt.DTypeLike) -> RemoteBank:
        bank = self._banks[number] = RemoteBank(self, number, (WARP, count), dtype)
        weakref.finalize(bank, self._gone.append, number)
        return bank

    def several(self, *parts: Any) -> Any:
        """Several results, such as d and p."""
        return tuple(self._result(part) for part in parts)


_RESULTS: dict[str, Callable[..., Any]] = {
    "registers": RemoteCore.registers_of,
    "lanes": lambda _, array: lanes(array),
    "several": RemoteCore.several,
}


def reference(value: Any) -> list[Any] | None:
    """Registers of a running kernel as JSON; None for anything else."""
    if type(value) is not RemoteRegisters:
        return None
    columns = value.columns
    return ["registers", value.bank.number, columns if columns is None else ["list", *columns]]


class Running:
    """A warp whose kernel has begun."""

    def __init__(self, session: Session, token: int, body: Callable[[], Any]) -> None:
        self._session, self._token = session, token
        self._fiber = greenlet(body)

    @property
    def fiber(self) -> greenlet:
        """The greenlet that runs the kernel."""
        return self._fiber

    def resume(self, *outcome: Any) -> Any:
        """Run up to the next operation, or to the end."""
        self._fiber.parent = getcurrent()
        answer = self._fiber.switch(*outcome)
        if self._fiber.dead:
            self._session.warps.pop(self._token, None)
        return answer

    def end(self) -> None:
        """End a kernel whose launch is over."""
        if self._fiber and not self._fiber.dead:
            self._fiber.parent = getcurrent()
            self._fiber.throw(GreenletExit)


def begin(session: Session, token: int, kernel: Callable[..., Any], place: Any, arguments: tuple[Any, ...]) -> Any:
    """Begin a kernel for one warp; the answer is its first operations."""
    core = RemoteCore(session, place)

    def body() -> Any:
        try:
            came = kernel(Warp(core), *arguments)
        except GreenletExit:
            return ["dropped"]
        except BaseException as error:  # noqa: BLE001 - a learner's kernel may raise anything
            return ["raised at", core.taken(), session.errors.get(id(error)), *raised(error)]
        kind = unawaited(came)
        if kind == "coroutine":
            came.close()
        return ["end", core.taken(), kind]

    running = session.warps[token] = Running(session, token, body)
    core.fiber = running.fiber
    return running.resume()
