"""The mbarriers in the shared memory of a block (PTX ISA 9.1, 9.7.13.15).

mbarrier.py holds the state of one object, mbarrier_operations.py the instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from tcemu.errors import AddressError, MbarrierMisused, OperandError
from tcemu.instructions import Instruction
from tcemu.instructions.elements import order_of
from tcemu.machine.events import (
    By,
    Faulted,
    MbarrierArrived,
    MbarrierCompleted,
    MbarrierInitialised,
    MbarrierInvalidated,
    MbarrierWaited,
    Order,
)
from tcemu.machine.mbarrier import BYTES, Mbarrier

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core


#: What was written at an address where nothing was.
_NOTHING: tuple[int, Mbarrier | None] = 0, None


class Mbarriers:
    """A block's mbarriers. Their 64 bits in shared memory are authoritative; they hold only the parity of the phase."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self._words = block.shared.units[BYTES]
        #: what was last written at each address: the 64 bits, and the object that they stand for
        self._written: dict[int, tuple[int, Mbarrier]] = {}

    def find(self, core: Core, by: By, instruction: Instruction, address: int) -> Mbarrier:
        """The object at `address`. Ends the launch if there is no mbarrier there."""
        before, held = self._written.get(address, _NOTHING)
        if held is not None and self._words.item(address // BYTES) == before:
            return held
        self._check_address(core, by, instruction, address)
        try:
            return self._at(address)
        except OperandError as error:
            self._misused(core, by, instruction, address, "operands", error)

    def _at(self, address: int) -> Mbarrier:
        """The object whose 64 bits lie at `address`. Raises OperandError if there is none."""
        bits, (before, held) = self._words.item(address // BYTES), self._written.get(address, _NOTHING)
        return held if held is not None and bits == before else Mbarrier.decode(bits, held.phase if held else 0)

    def put(self, address: int, held: Mbarrier) -> None:
        """Write the object back."""
        bits = held.encode()
        self._words[address // BYTES] = bits
        self._written[address] = bits, held

    def initialise(self, core: Core, by: By, instruction: Instruction, address: int, count: int) -> None:
        """mbarrier.init at `address`."""
        self._check_address(core, by, instruction, address)
        self.put(address, Mbarrier(count))
        core.tell(MbarrierInitialised, by, address, count)

    def invalidate(self, core: Core, by: By, instruction: Instruction, address: int) -> None:
        """mbarrier.inval at `address`."""
        self.find(core, by, instruction, address)
        self.block.shared.bytes[address : address + BYTES] = 0
        core.tell(MbarrierInvalidated, by, address)

    def arrive(
        self,
        core: Core,
        by: By,
        instruction: Instruction,
        address: int,
        count: int,
        transaction: int = 0,
        *,
        drop: bool = False,
        complete: bool = True,
        order: Order | None = None,
    ) -> int:
        """Expect `transaction` more bytes, then arrive `count` times; return the state before the arrivals.

        With `drop`, later phases expect that many fewer; without `complete`, the arrivals must not complete the phase.
        `order` stands for that of the instruction.
        """
        held = self.find(core, by, instruction, address)
        phase = held.phase
        state: int = self._words.item(address // BYTES)
        if transaction:
            held.expect_tx(transaction)
        if count:
            try:
                (held.drop if drop else held.arrive)(count, complete=complete)
            except OperandError as error:
                self._misused(core, by, instruction, address, "arrivals", error)
        self.put(address, held)
        if core.grid.observers:
            order = order or _order(instruction) or "release"
            owner, scope = core.owner(self.block), instruction.words.get("scope", "")
            core.tell(MbarrierArrived, by, address, phase, count, transaction, order, owner, scope)
        if held.phase > phase:
            core.tell(MbarrierCompleted, self.block.number, address, phase)
        return state

    def complete_tx(
        self, core: Core, by: By, instruction: Instruction, address: int, count: int, *, copied: bool = True
    ) -> None:
        """A copy of `count` bytes has landed, or a thread says so. Ends the launch if the tx-count overflows."""
        held = self.find(core, by, instruction, address)
        phase = held.phase
        try:
            held.complete_tx(count)
        except OperandError as error:
            message = f"{instruction} completes {count} bytes on the mbarrier at {address}: {error}"
            self._misused(core, by, instruction, address, "bytes", OperandError(message))
        self.put(address, held)
        if not copied and core.watched:
            scope = instruction.words.get("scope", "")
            core.tell(MbarrierArrived, by, address, phase, 0, -count, "relaxed", core.owner(self.block), scope)
        if held.phase > phase:
            core.tell(MbarrierCompleted, self.block.number, address, phase)

    def expect_more(self, core: Core, by: By, instruction: Instruction, address: int, count: int) -> int:
        """Make the phase wait for `count` more arrivals; return its number."""
        held = self.find(core, by, instruction, address)
        if count:
            held.add_pending(count)
            self.put(address, held)
        return held.phase

    def seen(self, core: Core, by: By, instruction: Instruction, address: int, parity: int) -> None:
        """Report that a wait found the last complete phase with this parity; more may complete before the warp runs."""
        phase = self.find(core, by, instruction, address).phase - 1
        phase -= phase & 1 != parity
        if phase >= 0:
            core.tell(MbarrierWaited, by, address, phase, _order(instruction), instruction.words.get("scope", ""))

    def describe(self, address: int) -> str:
        """A description of what an mbarrier waits for, even if something has overwritten it."""
        try:
            return f"the mbarrier at {address}, whose {self._at(address)}"
        except OperandError:
            return f"the mbarrier at {address}, which something has overwritten"

    def _check_address(self, core: Core, by: By, instruction: Instruction, address: int) -> None:
        if not address % BYTES and self.block.shared.holds(address, address + BYTES):
            return
        try:
            self.block.shared.check(instruction, np.array([address], np.int64), BYTES, BYTES)
        except AddressError as error:
            core.fault(by, instruction, "shared", error)

    def _misused(
        self,
        core: Core,
        by: By,
        instruction: Instruction,
        address: int,
        kind: Literal["operands", "arrivals", "bytes"],
        error: OperandError,
    ) -> NoReturn:
        core.tell(Faulted, by, instruction, kind, "shared", str(error), address)
        self.block.grid.fail(MbarrierMisused(f"{error} ({by})"))


def _order(instruction: Instruction) -> Order:
    """The memory order of an arrival or a wait."""
    order: Any = order_of(instruction).order
    return order  # type: ignore[no-any-return]
