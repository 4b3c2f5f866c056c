"""Rules about the bytes of a phase: as many as it expects, and none twice before those that came first are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcemu.machine.events import Copy
from tcemu.sanitizer.report import Earlier

if TYPE_CHECKING:
    from tcemu.sanitizer.block import Block
    from tcemu.sanitizer.mbarrier_state import Mbarrier, Phase

#: The fix where a phase gets more bytes than it expects, some of them by the same instruction of the same warp.
_TOO_MANY = (
    "Expect the sum of the bytes of all copies of the phase. If this copy belongs to the next phase, its thread must "
    "first wait until this phase is complete and its bytes have been used: on an empty mbarrier, for example."
)
#: The fix where a phase expects bytes when the block ends, and no copy brings any.
_SPARE = "Expect bytes only for copies that come. No thread waits for this phase, so the block has ended all the same."
#: The fix where tensor copies bring other bytes than the kernel expects.
_BOXES = (
    "Expect the sum of the bytes of all copies of the phase: {boxes} (the innermost dimension first). If the kernel "
    "means another box, make the tensor map with that one."
)
#: The fix where an st.async fills a stage too early.
_REFILL = (
    "Before a thread refills a stage of another block, it must wait on its own empty mbarrier, at which the readers in "
    "that block arrive after their last use, with mapa and mbarrier.arrive.shared::cluster."
)


class Bytes:
    """The bytes that copies bring to the mbarriers of one block."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def check_refill(self, copy: Copy, account: Phase, filled: dict[int, Earlier]) -> None:
        """Report an st.async to bytes that the same instruction of its warp has filled in this phase."""
        if copy.kind != "st.async" or copy.instruction.family != "st.async":
            return  # bulk copies of the same bytes collide anyway; reductions may meet
        first, opcode = int(copy.writes[1][0]), copy.instruction.opcode
        before = filled.setdefault(first, Earlier(copy.by, opcode))
        if before.by is not copy.by and not account.reported:
            account.reported = True
            _, addresses, size = copy.writes
            what = self._block.shadow.extent(self._block.shadow.tile(addresses, size))
            message = (
                f"{opcode} fills {what} a second time in phase {copy.phase} of {self._block.mbarrier(copy.mbarrier)}: "
                "nothing shows the writer that the first bytes have arrived and been used"
            )
            self._block.report("overwritten-early", copy.by, message, what=what, earlier=before, remedy=_REFILL)

    def check(self, here: Mbarrier, address: int, number: int, *, ended: bool = False) -> bool:
        """Report a phase whose copies bring more or fewer bytes than it expects; return whether it was reported."""
        account = here.phases.get(number)
        if account is None or account.expected == account.issued or account.reported:
            return account is not None and account.reported
        account.reported = True
        again = account.again if account.issued > account.expected > 0 else None
        copy = again or account.copy
        by = here.expecting or (copy.by if copy else here.init)
        message = (
            f"phase {number} of {self._block.mbarrier(address)} expects {account.expected} bytes, but its copies "
            f"deliver {account.issued}"
        )
        earlier = copy if here.expecting else None
        spare = ended and not account.issued  # a stage that is prepared for a copy that the last turn does not make
        remedy = _SPARE if spare else _TOO_MANY if again else _boxes(account) if account.boxes else ""
        weight, what = "warning" if spare else None, self._block.mbarrier(address)
        self._block.report("expect-tx", by, message, what=what, earlier=earlier, remedy=remedy, weight=weight)
        return True

    def check_all(self, here: Mbarrier, address: int, *, ended: bool = False) -> bool:
        """Do the same for all phases; return whether any was reported."""
        reported = [self.check(here, address, number, ended=ended) for number in here.phases]
        return any(reported)


def _boxes(account: Phase) -> str:
    """The fix where tensor copies bring other boxes than the kernel expects."""
    found = []
    for (box, element, size), count in account.boxes.items():
        boxes, each = ("a box", "") if count == 1 else (f"{count} boxes", " each")
        found.append(f"{boxes} of {' × '.join(map(str, box))} {element}, {size} bytes{each}")
    return _BOXES.format(boxes="; ".join(found))
