"""Rules about which threads execute an instruction: all lanes, all four warps of a warpgroup, the same barrier."""

from __future__ import annotations

from tcemu.machine.events import (
    Accessed,
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
from tcemu.sanitizer.block import Block, ForAccesses, ForInstructions, Handlers, exchanges, together
from tcemu.sanitizer.report import Earlier, lanes_of, many


class Divergence:
    """Checks which threads of a block execute an instruction together."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self.handlers: Handlers = {
            Issued: ForInstructions(self._issued, together),
            Accessed: ForAccesses(self._exchanged, exchanges),
            WgmmaFenced: self._exchanged,
            WgmmaIssued: self._multiplied,
            WgmmaCommitted: self._together,
            WgmmaWaited: self._together,
            Disagreed: self._disagreed,
            BarrierDisagreed: self._counts,
            BarriersParted: self._parted,
        }

    def _issued(self, event: Issued) -> None:
        by = event.by
        there = self._clocks.there[by.warp]
        instruction = event.instruction
        if by.active == there:
            if instruction.sync and self._clocks.loads[by.warp]:
                self._clocks.meet(by.warp)
        elif instruction.aligned:
            missing = lanes_of(there & ~by.active)
            message = f"warp {by.warp} executes {instruction} without {many('lane', missing)}"
            self._block.report("aligned-divergent", by, message, what=many("lane", missing))

    def _exchanged(self, event: Accessed | WgmmaFenced) -> None:
        by, clocks = event.by, self._clocks
        if clocks.loads[by.warp] and by.active == clocks.there[by.warp]:
            clocks.meet(by.warp)

    def _multiplied(self, event: WgmmaIssued) -> None:
        self._meet(event.wgmma.bys)

    def _together(self, event: WgmmaCommitted | WgmmaWaited) -> None:
        self._meet(event.bys)

    def _meet(self, bys: tuple[By, ...]) -> None:
        clocks = self._clocks
        for by in bys:
            if clocks.loads[by.warp] and by.active == clocks.there[by.warp]:
                clocks.meet(by.warp)

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
        (one, wanted), (other, given) = first, second
        message = (
            f"at barrier {event.barrier}, warp {other.warp} gives {given} threads, but warp {one.warp} gives {wanted}"
        )
        earlier = Earlier(one, f"bar for {wanted} threads")
        self._block.report("barrier-threads", other, message, what=f"barrier {event.barrier}", earlier=earlier)

    def _parted(self, event: BarriersParted) -> None:
        (one, other), (first, second) = event.bys, event.barriers
        there, here = many("lane", lanes_of(one.active)), many("lane", lanes_of(other.active))
        message = f"warp {one.warp}: {here} arrive at barrier {second}, but {there} wait at barrier {first}"
        what, earlier = f"barriers {first} and {second}", Earlier(one, f"the arrival at barrier {first}")
        self._block.report("barriers-parted", other, message, what=what, earlier=earlier)
