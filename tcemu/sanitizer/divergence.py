"""Rules about which threads execute an instruction: all lanes, all four warps of a warpgroup, the same barrier."""

from __future__ import annotations

from functools import partial

from tcemu.instructions import Instruction
from tcemu.machine.events import (
    Accessed,
    BarrierArrived,
    BarrierDisagreed,
    BarriersParted,
    By,
    Disagreed,
    Issued,
    WgmmaCommitted,
    WgmmaFenced,
    WgmmaIssued,
    WgmmaWaited,
)
from tcemu.machine.masks import FULL
from tcemu.sanitizer.block import Block, ForAccesses, ForInstructions, Handlers, exchanges, together
from tcemu.sanitizer.membermasks import Membermasks
from tcemu.sanitizer.report import Earlier, lanes_of, many

_INCOMPLETE = (
    "Keep all 32 lanes of the warp until its last product: launch blocks of whole warps, and put what "
    "only some lanes do into a condition, rather than return."
)


class Divergence:
    """Checks which threads of a block execute an instruction together."""

    def __init__(self, block: Block) -> None:
        membermasks = block.section(Membermasks)
        self._block, self._clocks, self._membermasks = block, block.clocks, membermasks
        self._waiting, self._loads, self._present = membermasks.waiting, block.clocks.loads, block.clocks.present
        self.handlers: Handlers = {
            Issued: ForInstructions(self._issued, together),
            BarrierArrived: self._arrived,
            Accessed: ForAccesses(self._exchanged, exchanges),
            WgmmaFenced: self._fenced,
            WgmmaIssued: self._multiplied,
            WgmmaCommitted: partial(self._together, "wgmma.commit_group.sync.aligned"),
            WgmmaWaited: partial(self._together, "wgmma.wait_group.sync.aligned"),
            Disagreed: self._disagreed,
            BarrierDisagreed: self._counts,
            BarriersParted: self._parted,
        }

    @property
    def calm(self) -> bool:
        """Whether a whole warp that arrives at a barrier shows nothing but that its loads have been issued."""
        return not any(self._waiting.values()) and not any(self._clocks.apart.values())

    def _arrived(self, event: BarrierArrived) -> None:
        """A whole warp arrives at a barrier. Of a part of one, Issued tells; one that does not wait may be in parts."""
        if event.by.active == self._present[event.by.warp] and (event.waits or event.instruction.aligned):
            self._issued(event)

    def _issued(self, event: Issued | BarrierArrived) -> None:
        by, instruction = event.by, event.instruction
        _, warp, active, _ = by
        present = self._present[warp]
        if active == present:
            if active != FULL:
                self._incomplete(by, instruction)
            if self._loads[warp] and instruction.sync:
                self._clocks.meet(warp)
        elif instruction.aligned:
            missing = lanes_of(present & ~by.active)
            message = f"warp {by.warp} executes {instruction} without {many('lane', missing)}"
            self._block.report("aligned-divergent", by, message, what=many("lane", missing))
        if self._waiting:
            self._membermasks.meet(by, instruction.opcode)
        if self._clocks.apart:
            self._clocks.gather(warp, active)

    def _incomplete(self, by: By, instruction: Instruction) -> None:
        """All lanes that the warp still has execute an instruction: a product of matrices needs the others, too."""
        if {"a", "b", "d"} <= set(instruction.fragments):
            missing = lanes_of(FULL & ~by.active)
            message = (
                f"warp {by.warp} executes {instruction} without {many('lane', missing)}, which have exited, or which "
                f"the block does not have: the matrices lie in the registers of all 32 lanes"
            )
            what = many("lane", missing)
            self._block.report("aligned-divergent", by, message, what=what, remedy=_INCOMPLETE)

    def _exchanged(self, event: Accessed) -> None:
        self._meet(event.by, event.instruction.opcode)

    def _fenced(self, event: WgmmaFenced) -> None:
        self._meet(event.by, "wgmma.fence.sync.aligned")

    def _multiplied(self, event: WgmmaIssued) -> None:
        for by in event.wgmma.bys:
            self._meet(by, event.wgmma.instruction.opcode)

    def _together(self, opcode: str, event: WgmmaCommitted | WgmmaWaited) -> None:
        for by in event.bys:
            self._meet(by, opcode)

    def _meet(self, by: By, opcode: str) -> None:
        """Lanes of a warp execute an instruction together; if all do, it shows that their loads have been issued."""
        if self._waiting:
            self._membermasks.meet(by, opcode)
        if self._clocks.apart:
            self._clocks.gather(by.warp, by.active)
        if self._loads[by.warp] and by.active == self._present[by.warp]:
            self._clocks.meet(by.warp)

    def _disagreed(self, event: Disagreed) -> None:
        (one, other), (first, second) = event.bys[-2:], [str(each) for each in event.instructions[-2:]]
        if one.site.line > other.site.line:  # the report is the same whichever warp came first
            one, other, first, second = other, one, second, first
        message = f"warp {other.warp} executes {second}, but warp {one.warp} of the same warpgroup executes {first}"
        if event.operands:
            who = f"warps {one.warp} and {other.warp} of a warpgroup"
            message = f"{who} execute {first} with different values of {event.operands}"
        self._block.report("warpgroup-divergent", other, message, earlier=Earlier(one, first))

    def _counts(self, event: BarrierDisagreed) -> None:
        first, second = sorted(zip(event.bys, event.threads, strict=True), key=lambda each: each[0].site.line)
        (one, wanted), (other, count) = first, second
        message = (
            f"at barrier {event.barrier}, warp {other.warp} gives {count} threads, but warp {one.warp} gives {wanted}"
        )
        earlier = Earlier(one, f"bar for {wanted} threads")
        self._block.report("barrier-threads", other, message, what=f"barrier {event.barrier}", earlier=earlier)

    def _parted(self, event: BarriersParted) -> None:
        (one, other), (first, second) = event.bys, event.barriers
        waiting, here = many("lane", lanes_of(one.active)), many("lane", lanes_of(other.active))
        message = f"warp {one.warp}: {here} arrive at barrier {second}, but {waiting} wait at barrier {first}"
        what, earlier = f"barriers {first} and {second}", Earlier(one, f"the arrival at barrier {first}")
        self._block.report("barriers-parted", other, message, what=what, earlier=earlier)
