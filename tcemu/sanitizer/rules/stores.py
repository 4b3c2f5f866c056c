"""The rule about a store in which lanes disagree: several of them write to the same bytes, and not the same values.

The rule, the smallest kernel that breaks it, and the section that checks it.
"""

from __future__ import annotations

from typing import Any

from tcemu.machine.events import Accessed
from tcemu.sanitizer.block import Access, Block, ForAccesses, Handlers, section
from tcemu.sanitizer.marks import fastest
from tcemu.sanitizer.report import Report
from tcemu.sanitizer.rules import Rule, breaks, rules

rules(
    Rule(
        "lanes-disagree",
        "lanes of one store write different values to the same bytes",
        "8.7",
        "Where several lanes of a store give the same address, one of them writes last, and nothing says which. They "
        "must store the same value, unless the store is strong and any of the values will do. An H200 keeps the lowest "
        "lane's, of 8 bytes for each lane that of the last half of the warp, of 16 that of the last quarter: so does "
        "the emulator.",
        "Let one lane store: with warp.only(...). Or give each lane bytes of its own, or use atom or red.",
    ),
)


@breaks("lanes-disagree", block=32)
def every_lane_stores_the_result_of_one(warp: Any, g: Any) -> None:
    warp.st_global(g, warp.laneid)  # <- reported


def _weak(access: Access) -> bool:
    return access.writes and not access.order and not access.collective


@section
class Stores:
    """The stores of a block's lanes."""

    def __init__(self, block: Block) -> None:
        self._block, self._distinct = block, fastest().distinct
        self.handlers: Handlers = {Accessed: ForAccesses(self._accessed, _weak)}

    def _accessed(self, event: Accessed) -> None:
        if event.data is None or self._distinct(event.addresses):
            return
        data, lanes = event.data, event.lanes.tolist()
        first: dict[int, int] = {}
        for place, address in enumerate(event.addresses.tolist()):
            one = first.setdefault(address, place)
            if (data[place] != data[one]).any():
                message = (
                    f"{event.opcode} of lanes {lanes[one]} and {lanes[place]} stores different values at address "
                    f"{address} of {event.space} memory: nothing says whose value stays"
                )
                self._block.later(Report("lanes-disagree", message, event.by, f"{event.space} memory"))
                return
