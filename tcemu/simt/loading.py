"""Registers of a tcgen05.ld that are used before tcgen05.wait::ld (PTX ISA 9.1, 9.7.16.8.3; see shadows.py).

Compilers move what computes with them before the wait, of which they know nothing; ptxas then lets it wait by itself.
They do not move stores, conditions, or what goes to other lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tcemu.machine.tcgen05_move import Unwaited
from tcemu.simt.effects import Effect, Use
from tcemu.simt.register_file import Slot
from tcemu.simt.shadows import Shadows

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame

#: The bits of the registers that a bank has.
_BITS = 32


class Loading(Shadows):
    """The registers of a tcgen05.ld that no tcgen05.wait::ld has covered."""

    harmless = frozenset({"kept"})

    def taken_by(self, effect: Effect) -> Sequence[Slot]:
        """The registers of a tcgen05.ld."""
        return effect.results if self.program.opcode(effect.number).startswith("tcgen05.ld.") else ()

    def ends(self, effect: Effect) -> bool:
        """The wait covers all of them."""
        return self.program.opcode(effect.number).startswith("tcgen05.wait::ld")

    def report(self, frame: Frame, number: int, use: Use | None) -> None:
        """As a read of the registers themselves: if others have been computed from them, of all."""
        core = frame.run.core
        loads = [each.registers for _, each in core.block.state(Unwaited).open.get((core.index, "ld"), ())]
        rows = [row for each in loads if each is not None and each.bank is frame.bank for row in each.which()]
        own = [each.row for each in use.slots if each.bits == _BITS and each.row in rows] if use is not None else []
        if rows:
            core.touched(frame.bank.view(own or rows), False, tuple(own or rows), ())
