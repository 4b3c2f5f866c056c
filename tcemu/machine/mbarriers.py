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

    def find(self, core: Core, by: By, instruction: Instruction, place: int) -> Mbarrier:
        """The object at `place`. Ends the launch if there is no mbarrier there."""
        before, held = self._written.get(place, _NOTHING)
        if held is not None and self._words.item(place // BYTES) == before:
            return held
        self._check_place(core, by, instruction, place)
        try:
            return self._at(place)
        except OperandError as error:
            self._misused(core, by, instruction, place, "operands", error)

    def _at(self, place: int) -> Mbarrier:
        """The object whose 64 bits lie at `place`. Raises OperandError if there is none."""
        bits, (before, held) = self._words.item(place // BYTES), self._written.get(place, _NOTHING)
        return held if held is not None and bits == before else Mbarrier.decode(bits, held.phase if held else 0)

    def put(self, place: int, held: Mbarrier) -> None:
        """Write the object back."""
        bits = held.encode()
        self._words[place // BYTES] = bits
        self._written[place] = bits, held

    def initialise(self, core: Core, by: By, instruction: Instruction, place: int, count: int) -> None:
        """mbarrier.init at `place`."""
        self._check_place(core, by, instruction, place)
        self.put(place, Mbarrier(count))
        core.tell(MbarrierInitialised, by, place, count)

    def invalidate(self, core: Core, by: By, instruction: Instruction, place: int) -> None:
        """mbarrier.inval at `place`."""
        self.find(core, by, instruction, place)
        self.block.shared.bytes[place : place + BYTES] = 0
        core.tell(MbarrierInvalidated, by, place)

    def arrive(
        self,
        core: Core,
        by: By,
        instruction: Instruction,
        place: int,
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
        held = self.find(core, by, instruction, place)
        phase = held.phase
        state: int = self._words.item(place // BYTES)
        if transaction:
            held.expect_tx(transaction)
        if count:
            try:
                (held.drop if drop else held.arrive)(count, complete=complete)
            except OperandError as error:
                self._misused(core, by, instruction, place, "arrivals", error)
        self.put(place, held)
        if core.grid.observers:
            order = order or _order(instruction) or "release"
            owner, scope = core.owner(self.block), instruction.words.get("scope", "")
            core.tell(MbarrierArrived, by, place, phase, count, transaction, order, owner, scope)
        if held.phase > phase:
            core.tell(MbarrierCompleted, self.block.number, place, phase)
        return state

    def complete_tx(
        self, core: Core, by: By, instruction: Instruction, place: int, count: int, *, copied: bool = True
    ) -> None:
        """A copy of `count` bytes has landed, or a thread says so. Ends the launch if the tx-count overflows."""
        held = self.find(core, by, instruction, place)
        phase = held.phase
        try:
            held.complete_tx(count)
        except OperandError as error:
            message = f"{instruction} completes {count} bytes on the mbarrier at {place}: {error}"
            self._misused(core, by, instruction, place, "bytes", OperandError(message))
        self.put(place, held)
        if not copied and core.watched:
            scope = instruction.words.get("scope", "")
            core.tell(MbarrierArrived, by, place, phase, 0, -count, "relaxed", core.owner(self.block), scope)
        if held.phase > phase:
            core.tell(MbarrierCompleted, self.block.number, place, phase)

    def expect_more(self, core: Core, by: By, instruction: Instruction, place: int, count: int) -> int:
        """Make the phase wait for `count` more arrivals; return its number."""
        held = self.find(core, by, instruction, place)
        if count:
            held.add_pending(count)
            self.put(place, held)
        return held.phase

    def seen(self, core: Core, by: By, instruction: Instruction, place: int, parity: int) -> None:
        """Report that a wait found the last complete phase with this parity; more may complete before the warp runs."""
        phase = self.find(core, by, instruction, place).phase - 1
        phase -= phase & 1 != parity
        if phase >= 0:
            core.tell(MbarrierWaited, by, place, phase, _order(instruction))

    def describe(self, place: int) -> str:
        """A description of what an mbarrier waits for, even if something has overwritten it."""
        try:
            return f"the mbarrier at {place}, whose {self._at(place)}"
        except OperandError:
            return f"the mbarrier at {place}, which something has overwritten"

    def _check_place(self, core: Core, by: By, instruction: Instruction, place: int) -> None:
        if not place % BYTES and self.block.shared.holds(place, place + BYTES):
            return
        try:
            self.block.shared.check(instruction, np.array([place], np.int64), BYTES, BYTES)
        except AddressError as error:
            core.fault(by, instruction, "shared", error)

    def _misused(
        self,
        core: Core,
        by: By,
        instruction: Instruction,
        place: int,
        kind: Literal["operands", "arrivals", "bytes"],
        error: OperandError,
    ) -> NoReturn:
        core.tell(Faulted, by, instruction, kind, "shared", str(error), place)
        self.block.grid.fail(MbarrierMisused(f"{error} ({by})"))


def _order(instruction: Instruction) -> Order:
    """The memory order of an arrival or a wait."""
    order: Any = order_of(instruction).order
    return order  # type: ignore[no-any-return]
