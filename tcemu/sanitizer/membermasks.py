"""The rule about lanes that the membermask of a shfl.sync names but that do not execute it.

shfl.sync waits until all lanes of its membermask that have not exited have executed it, with the same qualifiers and
the same membermask (PTX ISA 9.7.9.6). Lanes may do so on different lines of the kernel. If those that have executed it
and those that have not meet at another instruction of the warp, both would wait forever.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcemu.machine.events import By, Exited, LanesMissed, Shuffled, Site
from tcemu.machine.sites import callers_of
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.report import Earlier, Report, lanes_of, many

_FIX = (
    "Name only the lanes that execute {0} in its membermask (in CUDA, call __ballot_sync before the branch), or "
    "move it out of the branch, so that all lanes execute it."
)


@dataclass
class Incomplete:
    """A shfl.sync that some of the lanes in its membermask have executed."""

    by: By
    opcode: str
    membermask: int
    executed: int
    callers: tuple[Site, ...]


class Membermasks:
    """The shfl.sync of one block that wait for lanes, by warp."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self.waiting: dict[int, list[Incomplete]] = {}
        self.handlers: Handlers = {Shuffled: self._shuffled, Exited: self._exited, LanesMissed: self._missed}

    def _shuffled(self, event: Shuffled) -> None:
        """Some lanes execute a shfl.sync: one that others have executed before, or another."""
        by, opcode, mask = event.by, event.instruction.opcode, event.membermask
        waiting = self.waiting.setdefault(by.warp, [])
        for each in waiting:
            if (each.opcode, each.membermask) == (opcode, mask) and not each.executed & by.active:
                each.executed |= by.active
                break
        else:
            waiting.append(Incomplete(by, opcode, mask, by.active, callers_of(by)))
        self.waiting[by.warp] = [each for each in waiting if self._missing(each)]

    def _missing(self, each: Incomplete) -> int:
        """The lanes that have neither executed it nor exited."""
        return each.membermask & self._clocks.present[each.by.warp] & ~each.executed

    def meet(self, by: By, opcode: str) -> None:
        """Lanes execute an instruction of the warp together, perhaps some that wait and some that they wait for."""
        for each in self.waiting.get(by.warp, ()):
            missing = self._missing(each) & by.active
            if missing and each.executed & by.active:
                self._report(each, missing, by, opcode)
                self.waiting[by.warp].remove(each)
                return

    def _report(self, each: Incomplete, missing: int, by: By, opcode: str) -> None:
        lanes, others = many("lane", lanes_of(missing)), many("lane", lanes_of(each.executed))
        message = (
            f"{each.opcode} names {lanes} in its membermask {each.membermask:#010x}, but they reach {opcode} without "
            f"executing it: {others} would wait for them forever"
        )
        report = Report(
            "absent-lanes",
            message,
            each.by,
            "the membermask",
            Earlier(by, opcode),
            remedy=_FIX.format(_named(each.opcode)),
        )
        report.callers = each.callers
        self._block.tell(report)

    def _exited(self, event: Exited) -> None:
        """Lanes exit: lanes that wait for them may continue, but late."""
        by = event.by
        for each in self.waiting.get(by.warp, []):
            missing = each.membermask & by.active & ~each.executed
            if missing:
                self._hint(each.by, each.opcode, each.membermask, missing, each.callers)
        if event.whole:
            self.waiting.pop(by.warp, None)

    def _missed(self, event: LanesMissed) -> None:
        if event.exited:
            self._hint(event.by, event.opcode, event.membermask, event.exited, callers_of(event.by))

    def _hint(self, by: By, opcode: str, mask: int, missing: int, callers: tuple[Site, ...]) -> None:
        """Lanes continue only because those that they wait for have exited."""
        lanes, has = lanes_of(missing), "it exits" if missing.bit_count() == 1 else "they exit"
        message = (
            f"{opcode} names {many('lane', lanes)} in its membermask {mask:#010x}, which never "
            f"execute{'s' * (len(lanes) == 1)} it: the others wait until {has}"
        )
        report = Report(
            "absent-lanes", message, by, "the membermask", remedy=_FIX.format(_named(opcode)), weight="hint"
        )
        report.callers = callers
        self._block.hint(report)


def _named(opcode: str) -> str:
    """``shfl.sync`` of ``shfl.sync.down.b32``."""
    return f"{opcode.partition('.sync')[0]}.sync"
