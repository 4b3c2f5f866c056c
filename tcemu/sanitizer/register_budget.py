"""setmaxnreg: in the right direction, alike in all four warps of a warpgroup, and within the block's registers."""

from __future__ import annotations

from itertools import pairwise

from tcemu.errors import counted
from tcemu.machine.events import BlockEnded, By, RegistersMoved, Stuck, Waiting
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.report import Earlier

_SAME = "Execute setmaxnreg in all four warps of the warpgroup, with the same number."
_SUM = "Release at least as many registers with setmaxnreg.dec as the other warps request with setmaxnreg.inc."


class RegisterBudget:
    """The setmaxnreg of one block."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._executed: list[list[tuple[str, int, By]]] = [[] for _ in range(block.warps)]
        self.handlers: Handlers = {RegistersMoved: self._moved, Stuck: self._stuck, BlockEnded: self._compare}

    def _moved(self, event: RegistersMoved) -> None:
        self._executed[event.by.warp].append((event.action, event.count, event.by))
        if (event.count > event.held) != (event.action == "inc") and event.count != event.held:
            self._turned(event)

    def _turned(self, event: RegistersMoved) -> None:
        """Report a .dec to more registers, or an .inc to fewer."""
        message = (
            f"setmaxnreg.{event.action} to {event.count} registers per thread in warp {event.by.warp}, which has "
            f"{event.held}"
        )
        self._block.report("setmaxnreg-count", event.by, message, what="registers")

    def _stuck(self, event: Stuck) -> None:
        waiting = [each for each in event.waiting if each.kind == "registers"]
        if waiting and not self._compare(event, tuple(waiting)):
            self._short(waiting)

    def _compare(self, _: object, waiting: tuple[Waiting, ...] = ()) -> bool:
        """Report a warpgroup whose warps differ; return whether there was one. Waiting warps count, too."""
        if not waiting and not any(self._executed):  # as in most kernels
            return False
        asked = {each.by.warp: each.by for each in waiting}
        present = self._block.clocks.present  # in a cluster, each block is padded with warps that do not exist
        for first in range(0, self._block.warps, 4):
            members = [warp for warp in range(first, min(first + 4, self._block.warps)) if present[warp]]
            for one, other in pairwise(members):
                counts = [len(self._executed[warp]) + (warp in asked) for warp in (one, other)]
                moves = [[move[:2] for move in self._executed[warp]] for warp in (one, other)]
                shared = min(map(len, moves))
                if counts[0] != counts[1] or moves[0][:shared] != moves[1][:shared]:
                    more = one if counts[0] > counts[1] else other
                    return self._differ(more, other if more == one else one, asked)
        return False

    def _differ(self, warp: int, other: int, asked: dict[int, By]) -> bool:
        moves = self._executed[warp]
        by = asked.get(warp) or moves[-1][2]
        earlier = Earlier(self._executed[other][-1][2], "setmaxnreg") if self._executed[other] else None
        message = f"warp {warp} executes setmaxnreg, but warp {other} of the same warpgroup does not execute the same"
        self._block.report("warpgroup-divergent", by, message, what="registers", earlier=earlier, remedy=_SAME)
        return True

    def _short(self, waiting: list[Waiting]) -> None:
        by = waiting[0].by
        released = sum(action == "dec" for moves in self._executed for action, _, _ in moves)
        message = (
            f"{counted(len(waiting), 'warp')} {'waits' if len(waiting) == 1 else 'wait'} for {waiting[0].what}; "
            f"{released} warps have released registers, but not enough"
        )
        self._block.report("deadlock", by, message, what="registers", remedy=_SUM)
