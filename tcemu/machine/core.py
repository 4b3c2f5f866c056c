"""A warp inside the machine: its place in the grid, its active lanes, its registers, and how an operation begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from tcemu.arguments import flag
from tcemu.errors import AddressError, Disagreement, LaunchError, MemoryFault, OperandError, briefly, is_whole
from tcemu.instructions import Instruction
from tcemu.instructions.facts import Space
from tcemu.instructions.instruction import placed
from tcemu.machine.addresses import BLOCK, rank_of
from tcemu.machine.dispatch import Bound, bind
from tcemu.machine.events import (
    Accesses,
    AccessTable,
    By,
    Computed,
    Faulted,
    Issued,
    Site,
    Sourced,
    Touched,
    Waiting,
    WaitKind,
)
from tcemu.machine.masks import FULL, LANES, lanes_of
from tcemu.machine.meeting import WARPGROUP
from tcemu.machine.memory import Bytes
from tcemu.machine.pending import Groups
from tcemu.machine.registers import POISON, WARP, Bank, Origin, Registers
from tcemu.machine.sites import UNKNOWN, site
from tcemu.machine.waits import Parked, Wait, nothing

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.scheduler import Strand

Array = npt.NDArray[Any]
_INT64, _LANES = np.dtype(np.int64), (WARP,)

#: After this many operations in a row without an active lane, a warp counts as one that has no way out of a loop.
_IDLE = 1 << 16

#: By(...), which calls a Python function, takes twice as long.
_by = tuple.__new__

#: The warp whose kernel runs here, for what it computes outside the machine.
RUNNING: ContextVar[Core | None] = ContextVar("RUNNING", default=None)


class Core:
    """One warp. Lanes take part in an operation where their bit of `bits` is set."""

    def __init__(self, block: Block, index: int) -> None:
        self.block, self.grid, self.index = block, block.grid, index
        #: the target that the launch runs on, "sm_90a", and whether the launch has observers
        self.target, self.watched = block.shape.target, bool(block.grid.observers)
        self.warpgroup = block.warpgroups[index // WARPGROUP]
        #: lanes that exist and have not exited; `bits`: the lanes that are active now; both as bits
        self.present = FULL >> max(0, WARP * (index + 1) - block.shape.threads)
        self.bits = self.present
        #: the site that a front end has set; None: the innermost Python line that belongs to a kernel
        self.at: Site | None = None
        #: whether a front end runs the lanes of this warp in groups now, and there are several: see waits.py
        self.split = False
        #: what the lanes have looked for in vain in the latest operation of a split warp
        self.sought: Wait | None = None
        #: the registers of a front end that get the result of the next operation, when it ends
        self.into: Registers | None = None
        #: where the latest tcgen05.ld found cells that nothing had written, bool (32, n) by lane and register
        self.blind: Array | None = None
        #: the site of the latest operation
        self.latest = UNKNOWN
        #: the next register's number
        self._next = 0
        #: the groups of this warp's cp.async and bulk copies
        self.copies = {"cp.async": Groups(), "bulk": Groups()}
        #: the operations in a row in which no lane was active, and how many others there had been before
        self._idle, self._done = 0, 0
        #: set by the launch, once the warp can run
        self.strand: Strand

    # ---------------------------------------------------------------------------------------- who and where

    @property
    def active(self) -> Array:
        """The lanes that take part in operations now, bool (32,), read-only."""
        return lanes_of(self.bits)

    @property
    def heard(self) -> bool:
        """Whether an observer needs to know about each read and write of registers."""
        grid = self.grid
        return bool(grid.observers) and grid.hears(Touched)

    def by(self) -> By:
        """The block, warp, active lanes and site of an operation that begins now."""
        self.latest = where = self.at or site()
        return _by(By, (self.block.number, self.index, self.bits, where))

    # ---------------------------------------------------------------------------------------- operations

    def execute(self, instruction: str | Instruction, *operands: Any, both: bool = False) -> Any:
        """Execute an instruction on operands in PTX's order. `both` requests both destinations of a d|p."""
        try:
            bound = self.grid.bound[instruction]
        except (KeyError, TypeError):  # the first time in this launch, or an unhashable instruction
            bound = self.bound(instruction)
            self.grid.bound[instruction] = bound
        parsed, act, least, most, pair = bound
        if not least <= len(operands) <= most:
            raise bound.miscounted(len(operands))
        if both is not False and flag(both, "both"):
            if pair is None:
                raise OperandError(f"{parsed} does not have two destinations d|p (PTX ISA {parsed.section})")
            act = pair
        try:
            return act(self, *operands)
        except OperandError as error:
            if isinstance(error, LaunchError):
                raise
            raise placed(error, parsed) from None

    def bound(self, instruction: str | Instruction) -> Bound:
        """The instruction on this warp's target, with the function that executes it."""
        return bind(instruction, self.block.shape.target)

    def begin(self, instruction: Instruction, roles: Sequence[str] = (), operands: Sequence[Any] = ()) -> By | None:
        """Begin an operation: other warps may run first, and observers receive Issued. None if no lane is active.

        Issued names the registers among the operands, which have these roles.
        """
        grid = self.grid
        if not self.bits:
            grid.scheduler.check(self.strand)
            self._idled()
            return None
        grid.scheduler.pause(self.strand, instruction)
        if grid.failure is not None:
            raise grid.failure
        grid.counts[instruction.opcode] += 1
        if self.split:
            self.sought = None
        self.latest = where = self.at or site()
        by = _by(By, (self.block.number, self.index, self.bits, where))
        if grid.observers:
            followed = grid.followed.get(instruction.opcode) or grid.follows(instruction)
            if followed[self.bits == self.present]:
                pairs = zip(roles, operands, strict=False)
                registers = [(role, each) for role, each in pairs if isinstance(each, Registers)]
                grid.tell(Issued, by, instruction, tuple(registers))
        return by

    def _idled(self) -> None:
        """No lane is active, so operations return the same forever: a loop that waits for another value never ends."""
        if self._done != self.strand.operations:
            self._idle, self._done = 0, self.strand.operations
        self._idle += 1
        if self._idle > _IDLE:
            by = By(self.block.number, self.index, self.present, self.at or site())
            self.wait(by, "lanes", 0, lambda: False, lambda: "an active lane, without which its loop does not end")

    def wait(
        self,
        by: By,
        kind: WaitKind,
        key: int,
        ready: Callable[[], bool],
        what: Callable[[], str],
        finish: Callable[[], Any] = nothing,
    ) -> Any:
        """Wait until `ready` returns True, then return what `finish` returns; `what` says what the lanes wait for.

        Raises Parked if the lanes of a split warp have to wait.
        """
        if self.split and not ready():
            raise Parked(Wait(by, kind, key, what, ready, finish))
        self.grid.scheduler.wait(self.strand, ready, lambda: Waiting(by, what(), kind, key))
        return finish()

    def look(
        self, by: By, kind: WaitKind, key: int, what: Callable[[], str], ready: Callable[[], bool] | None = None,
        *, elsewhere: bool = False,
    ) -> None:  # fmt: skip
        """The lanes tested for something that was not there, as `ready` would show: others run first.

        `elsewhere`: a block that has not started yet could make it so.
        """
        if self.split:
            self.sought = Wait(by, kind, key, what, ready, elsewhere=elsewhere)
            return
        waiting = partial(Waiting, by, kind=kind, key=key, elsewhere=elsewhere)
        self.grid.scheduler.looked(self.strand, False, lambda: waiting(what=what()), elsewhere)

    def idle(self, waits: Sequence[Wait]) -> None:
        """No group of a split warp can continue: let other warps run until what one of the `waits` is about may be so.

        If it never is, the launch ends with a Deadlock that lists all of them.
        """
        descriptions, scheduler = lambda: [each.described() for each in waits], self.grid.scheduler
        tests = [each.ready for each in waits if each.ready is not None]
        if len(tests) < len(waits):  # some must look again
            scheduler.looked(self.strand, False, descriptions, any(each.elsewhere for each in waits))
        else:
            scheduler.wait(self.strand, lambda: any(ready() for ready in tests), descriptions)

    def ran(self, operations: int, *, stored: bool) -> None:
        """A front end's native code has done the work of so many instructions; `stored`: it has written to memory.

        Others run if the warp's turn is over. A loop that stores nothing may be waiting for another warp.
        """
        self.grid.scheduler.ran(self.strand, operations, stored)

    def accessed(self, table: AccessTable, log: Array) -> None:
        """A front end's native code has made the loads and stores of this log, which Accesses describes."""
        if self.watched:
            self.grid.access(Accesses(self.block.number, self.index, table, log, self.block.slot))

    def tell(self, kind: Callable[..., Any], *fields: Any) -> None:
        """Report an event to the observers; without observers it is not even created."""
        grid = self.grid
        if grid.observers:
            grid.tell(kind, *fields)

    def computed(self, opcode: str, count: int) -> None:
        """The kernel itself has done the work of `count` instructions."""
        grid = self.grid
        if grid.observers and grid.hears(Computed):
            grid.tell(Computed, self.by(), opcode, count)

    def sourced(self, event: Sourced) -> None:
        """A front end tells whose results the next instruction reads."""
        for observer in self.grid.sourced:
            observer(event)

    def memory(self, space: Space) -> Bytes:
        """The memory of a state space."""
        return self.block.shared if space == "shared" else self.grid.memory

    def shared_at(self, by: By, instruction: Instruction, address: int) -> tuple[Block, int]:
        """The block of the cluster, and the address there, that an address in .shared::cluster means."""
        rank, own = rank_of(address, self.block.rank), self.block
        if rank == own.rank:
            return own, address if address < 0 else address % BLOCK
        return own.cluster.block(self, by, instruction, rank), address % BLOCK

    def owner(self, block: Block) -> int:
        """The number of a block in an event: -1 for the warp's own."""
        return -1 if block is self.block else block.number

    def fault(self, by: By, instruction: Instruction, space: Space, error: AddressError) -> NoReturn:
        """Report an access that the hardware would not make, and end the launch."""
        self.tell(Faulted, by, instruction, error.kind, space, str(error))
        self.grid.fail(MemoryFault(f"{error} ({by})"))

    def exit(self) -> None:
        """The active lanes exit; the warp exits with its last lane."""
        grid = self.grid
        grid.scheduler.check(self.strand)
        if not self.bits:
            return
        if grid.failure is not None:
            raise grid.failure
        by = By(self.block.number, self.index, self.bits, self.at or self.latest)
        self.present &= ~self.bits
        self.bits = 0
        self.block.left(by, self.present)

    # ---------------------------------------------------------------------------------------- operands

    def values(self, operand: Any) -> Array:
        """The content of an operand at this moment."""
        if isinstance(operand, Registers):
            return operand.used()
        if isinstance(operand, np.ndarray):
            return operand
        try:
            return np.asarray(operand)
        except LaunchError:  # the sanitizer's, about registers that are read here
            raise
        except Exception as error:  # noqa: BLE001 - whatever an object's __array__ raises
            raise OperandError(f"not an array: {error}") from None

    def integers(self, instruction: Instruction, role: str, operand: Any) -> Array:
        """One integer for each lane, int64 (32,), from one for all lanes or one for each."""
        if isinstance(operand, int) and not isinstance(operand, bool) and -(1 << 63) <= operand < 1 << 63:
            return _same(int(operand))
        if isinstance(operand, np.ndarray) and operand.dtype is _INT64 and operand.shape == _LANES:
            return np.asarray(operand)  # the usual form of addresses
        array = self.values(operand)
        if array.dtype.kind not in "iu" or array.shape not in ((), (WARP,), (WARP, 1)):
            raise OperandError(
                f"{instruction}: {role} must be one integer for all lanes, or (32,), one for each; got {array.dtype} "
                f"{array.shape} (PTX ISA {instruction.section})"
            )
        if array.ndim != 1:
            array = array[:, 0] if array.ndim else array.repeat(WARP)
        return np.asarray(array, np.int64)

    def own(self, values: Array) -> Array:
        """The rows of the active lanes, of rows (32, ...) for all."""
        return values if self.bits == FULL else values[lanes_of(self.bits)]

    def distinct(self, instruction: Instruction, role: str, operand: Any) -> list[tuple[int, int]]:
        """(value, mask of the active lanes that give it), in the order of lanes."""
        if isinstance(operand, int) and not isinstance(operand, bool) and -(1 << 63) <= operand < 1 << 63:
            return [(int(operand), self.bits)]
        values = self.integers(instruction, role, operand).tolist()
        masks: dict[int, int] = {}
        for lane in LANES[self.active].tolist():
            masks[values[lane]] = masks.get(values[lane], 0) | 1 << lane
        return list(masks.items())

    def predicate(self, instruction: Instruction, operand: Any) -> Array:
        """One predicate for each lane, bool (32,), from one for all lanes or one for each."""
        array = self.values(operand)
        if array.dtype.kind != "b" or array.shape not in ((), _LANES):
            raise OperandError(
                f"{instruction}: a predicate must be bool (32,); got dtype {array.dtype}, shape {array.shape} (PTX ISA "
                f"{instruction.section})"
            )
        return np.asarray(array) if array.ndim else lanes_of(FULL * bool(array))

    def check_membermask(self, instruction: Instruction, *masks: Any, elsewhere: bool = False) -> None:
        """End the launch unless a membermask names the lanes that execute the instruction.

        It must name no others but those that have exited and, with `elsewhere`, those that may execute it elsewhere.
        """
        for mask in masks:
            whole = is_whole(mask) and -1 <= mask <= FULL
            named = int(mask) & FULL if whole else 0
            if whole and (named & self.present == self.bits or (elsewhere and not self.bits & ~named)):
                continue
            message = (
                f"{instruction}: the membermask must name the lanes that execute it, {self.bits:#010x}; got "
                f"{f'{named:#010x}' if whole else briefly(mask)} (PTX ISA {instruction.section})"
            )
            if not whole:
                raise OperandError(message)
            self.tell(Faulted, self.by(), instruction, "lanes", None, message)
            raise Disagreement(message)

    # ---------------------------------------------------------------------------------------- registers

    def adopted(self, bits: Array) -> Registers:
        """New registers that hold `bits` (32, n), without any access to them."""
        bank = Bank(bits, self, self._next)
        self._next += bits.shape[1]
        return Registers(bank)

    def made(self, bits: Array, written: int, origin: Origin | None = None) -> Registers:
        """New registers with this content; only the lanes of the mask `written` count as written."""
        bank = Bank(bits, self, self._next)
        self._next += bits.shape[1]
        made = Registers(bank, None, origin)
        blind = self.present & ~written
        if blind:
            bank.unwritten = np.repeat(lanes_of(blind)[:, None], bits.shape[1], axis=1)
        if written and self.grid.observers and self.heard:
            made.touch(True)
        return made

    def blank(self, count: int, dtype: npt.DTypeLike = np.uint32) -> Registers:
        """Registers (32, count) that count as unwritten."""
        return self.made(np.full((WARP, count), POISON, dtype), 0)

    def touched(self, registers: Registers, writes: bool, which: tuple[int, ...], unwritten: tuple[int, ...]) -> None:
        """Report that the kernel reads or writes registers of this warp."""
        grid = self.grid
        self.latest = where = self.at or site()
        if grid.once and not unwritten:
            access, did = (registers.bank, where, writes), (which, self.bits)
            if grid.touched.get(access) == did:
                return
            grid.touched[access] = did
        by = _by(By, (self.block.number, self.index, self.bits, where))
        grid.tell(Touched, by, registers, writes, which, unwritten)


@lru_cache(maxsize=1024)
def _same(number: int) -> Array:
    """One number for all lanes, int64 (32,), read-only: kernels use the same ones again and again."""
    lanes = np.full(WARP, number, np.int64)
    lanes.flags.writeable = False
    return lanes
