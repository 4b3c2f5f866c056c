"""Rules about who arrives at an mbarrier, and when: once a phase, for a phase that the thread knows to have begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tcemu.machine.events import By, MbarrierArrived
from tcemu.machine.sites import called
from tcemu.sanitizer.clocks import THREAD, Array, lanes_in
from tcemu.sanitizer.report import Earlier, Report, lanes_of, many

if TYPE_CHECKING:
    from tcemu.sanitizer.block import Block
    from tcemu.sanitizer.mbarrier_state import Mbarrier, Wait

_ONCE = "Each thread that mbarrier.init counts must arrive once in each phase."
_KNOW = (
    "Before a thread arrives for the next phase, it must wait for this one, or synchronise with a thread that has "
    "waited."
)

_FIRST = (
    "Let the thread that expects the bytes arrive after that, in one instruction with mbarrier.arrive.expect_tx, or "
    "synchronise with it before the last arrival."
)

#: The fix for a phase that a warp may miss.
_SEEN = (
    "After their wait, the waiting threads must notify the arriving ones: by an arrive on an empty mbarrier, or at a "
    "barrier."
)


#: The fix if more threads arrive at the mbarrier than it counts.
_COUNT = (
    "If each of the {came} threads arrives in each phase, mbarrier.init must count {came}. If they take turns: {seen}"
)


def in_words(here: Mbarrier, missed: str) -> tuple[str, str]:
    """A message that says that a warp may miss a phase, with its cause if the count is too small; and the fix."""
    if not here.miscounts:
        return missed, _SEEN
    return f"{missed}: it {here.miscounts}", _COUNT.format(came=here.came(), seen=_SEEN[0].lower() + _SEEN[1:])


class Arrivals:
    """The arrivals at the mbarriers of one block. Other rules may explain what it finds, so it reports later."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks

    def arrive(self, event: MbarrierArrived, here: Mbarrier) -> None:
        """Threads arrive, or announce bytes."""
        if event.transaction >= 0 and self._clocks.rows[event.by.warp][here.column] < event.phase:
            self._check_known(event, here)
        if event.count and not event.transaction:
            here.arrivals.append(called(event.by))
            here.crew[event.by.warp] = here.crew.get(event.by.warp, 0) | event.by.active
        if event.count and here.announced:
            row = self._clocks.view(event.by.warp, event.by.active)
            here.announced = [(by, time) for by, time in here.announced if not _knows(row, by, time)]
        elif event.transaction > 0 and not event.count:
            here.announced.append((called(event.by), self._clocks.time[event.by.warp]))

    # ---------------------------------------------------------------------------------------- the phase is known

    def _check_known(self, event: MbarrierArrived, here: Mbarrier) -> None:
        by, number = event.by, event.phase - 1
        blind = sum(lanes for lanes in self._strangers(by, here, number))
        if blind:
            what = self._block.mbarrier(event.address)
            message = (
                f"{many('lane', lanes_of(blind))} of warp {by.warp} arrive{'s' * (blind.bit_count() == 1)} in phase "
                f"{event.phase} of {what} without knowing that phase {number} is complete: in another order of the "
                f"warps, the arrival counts in phase {number}"
            )
            last = here.completed_by.get(number)
            earlier = Earlier(last, "the last arrival of that phase") if last else None
            self._block.later(Report("mbarrier-arrivals", message, by, what, earlier, lanes_of(blind), remedy=_KNOW))

    def _strangers(self, by: By, here: Mbarrier, number: int) -> list[int]:
        """The lanes, as masks, that cannot know that a phase is complete."""
        if here.relaxed:
            return []  # the order of relaxed arrivals is not known
        column, strangers = here.column, []
        for lanes, row in self._clocks.common(by.warp, by.active):
            if row[column] <= number and not self._knows_arrivals(by, lanes, here, number):
                strangers.append(lanes)
        return strangers

    def _knows_arrivals(self, by: By, lanes: int, here: Mbarrier, number: int) -> bool:
        """Whether these lanes know about each arrival of a phase that waited only for arrivals."""
        row, account = here.completed.get(number), here.phases.get(number)
        if row is None:
            return True  # too long ago to tell
        if account is not None and (account.copy or account.attached):
            return False
        known = self._clocks.view(by.warp, lanes)[THREAD : THREAD + self._clocks.lanes]
        return bool((known >= row[THREAD : THREAD + self._clocks.lanes]).all())

    # ---------------------------------------------------------------------------------------- once each

    def check_once(self, here: Mbarrier, address: int, number: int) -> None:
        """Report a thread that arrived twice in a phase, unless every thread that arrived did."""
        arrivals, here.arrivals = here.arrivals, []
        if not _meet(arrivals):
            return
        counts = np.zeros(self._clocks.lanes, np.int64)
        for by in arrivals:
            counts[lanes_in(by.active) + 32 * by.warp] += 1
        came = counts[counts > 0]
        if came.max() < 2 or (len(came) > 1 and (came == came[0]).all()):
            return
        thread = int(counts.argmax())
        first, again = [by for by in arrivals if by.warp == thread // 32 and by.active >> thread % 32 & 1][:2]
        what = self._block.mbarrier(address)
        message = f"warp {again.warp}, lane {thread % 32} arrives twice in phase {number} of {what}"
        earlier = Earlier(first, "mbarrier.arrive")
        report = Report("mbarrier-arrivals", message, again, what, earlier, (thread % 32,), remedy=_ONCE)
        report.weight = "warning"  # the count may be intended
        self._block.later(report)

    # ---------------------------------------------------------------------------------------- bytes come in time

    def check_announced(self, here: Mbarrier, address: int, number: int) -> None:
        """Report an expect_tx that no arrival of its phase waits for: the phase may complete before it."""
        announced, here.announced = here.announced, []
        if not announced or here.relaxed or here.phase(number).attached:
            return  # the order of relaxed arrivals is not known, nor that of arrivals by cp.async
        by, _ = announced[0]
        what = self._block.mbarrier(address)
        message = (
            f"nothing orders this expect_tx before an arrival of phase {number} of {what}: in another order of the "
            f"threads, the phase completes without these bytes"
        )
        last = here.completed_by.get(number)
        earlier = Earlier(last, "the last arrival of that phase") if last else None
        self._block.later(Report("expect-tx", message, by, what, earlier, remedy=_FIRST))

    # ---------------------------------------------------------------------------------------- nobody misses it

    def check_seen(self, here: Mbarrier, address: int, number: int) -> None:
        """Report a phase that can complete before a warp has seen the one before it: parity then misleads it."""
        row = here.completed.get(number)
        if row is None or here.relaxed:
            return
        for warp, wait in here.waits.items():
            if wait.phase != number - 1 or self._knows_wait(row, warp, wait):
                continue
            what = self._block.mbarrier(address)
            message = (
                f"phase {number} of {what} can complete before warp {warp} has seen phase {number - 1}: nothing orders "
                f"its arrivals after this wait, and a wait that comes too late waits for the next phase with its parity"
            )
            message, remedy = in_words(here, message)
            earlier = Earlier(here.completed_by[number], "the last arrival") if number in here.completed_by else None
            self._block.later(Report("mbarrier-arrivals", message, wait.by, what, earlier, remedy=remedy))

    def _knows_wait(self, row: Array, warp: int, wait: Wait) -> bool:
        """Whether the threads that arrived knew that a warp had waited."""
        lanes = THREAD + 32 * warp + lanes_in(wait.lanes)
        return bool(row[self._clocks.issued_base + warp] > wait.time or (row[lanes] > wait.time).any())


def _meet(arrivals: list[By]) -> bool:
    """Whether a thread is in two of them."""
    came: dict[int, int] = {}
    for by in arrivals:
        before = came.get(by.warp, 0)
        if before & by.active:
            return True
        came[by.warp] = before | by.active
    return False


def _knows(row: Array, by: By, time: int) -> bool:
    """Whether all lanes of an instruction are known to have executed it, at this time of their warp."""
    return bool((row[THREAD + 32 * by.warp + lanes_in(by.active)] > time).all())
