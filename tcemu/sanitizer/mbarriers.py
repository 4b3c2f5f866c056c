"""Rules about mbarriers: initialised before use, alive until the last use, no wait for a wrong phase.

arrivals.py has the rules about arrivals, mbarrier_bytes.py those about bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tcemu.machine.events import (
    FULL,
    BlockEnded,
    By,
    CopyIssued,
    Faulted,
    MbarrierArrived,
    MbarrierCompleted,
    MbarrierInitialised,
    MbarrierInvalidated,
    MbarriersFenced,
    MbarrierWaited,
    ProxyFenced,
    Tcgen05Commit,
    Tcgen05Committed,
)
from tcemu.machine.sites import called
from tcemu.sanitizer.arrivals import Arrivals, in_words
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import THREAD, Array, lanes_in
from tcemu.sanitizer.mbarrier_bytes import Bytes
from tcemu.sanitizer.mbarrier_state import Mbarrier, Phase, Wait
from tcemu.sanitizer.report import Earlier, Report, lanes_of, many
from tcemu.sanitizer.shared import SharedMemory

#: Bytes of an mbarrier object.
BYTES = 8
#: The fix where an mbarrier is destroyed too early.
_LAST = "Execute mbarrier.inval after a barrier that all threads reach after their last operation on the mbarrier."
#: The fix where a copy outlives its block.
_AWAIT = "Wait for the phase of every copy before the block ends, or do not start copies that no thread uses."
_IN_VAIN = "is .relaxed, so it releases nothing"
#: Number of completed phases whose clocks are kept; no wait asks for an older phase.
_KEPT = 4
#: Number of commits whose arrivals may still come, of a block.
_COMMITS = 256


class Mbarriers:
    """The mbarriers of a block, by address."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks, self._shared = block, block.clocks, block.section(SharedMemory)
        self.live: dict[int, Mbarrier] = {}
        #: the first repeated wait for a phase: who waited, the mbarrier's address, the phase's number, its copy
        self._again: tuple[By, int, int, Earlier] | None = None
        self._shared.unexpected = self._unexpected
        self.arrivals, self.bytes = Arrivals(block), Bytes(block)
        block.ways["mbarrier"] = self._way
        #: mbarriers that mbarrier.inval has destroyed, by address
        self.destroyed: dict[int, Earlier] = {}
        #: cp.async.mbarrier.arrive instructions, by identity, whose arrival is still to come
        self.attached: list[By] = []
        #: warps that issue bulk copies into shared memory
        self._producers: set[int] = set()
        #: what the threads knew that have executed tcgen05.commit, until its arrivals come
        self._committed: list[tuple[By, Array]] = []
        #: adds to what a commit will hand on which operations have ended by then
        self.covering: Callable[[Tcgen05Commit, Array], Array] = lambda _, row: row
        #: by warp: what it knew at its last tcgen05.fence::before_thread_sync, which relaxed arrivals hand on
        self.before: dict[int, Array] = {}
        self.handlers: Handlers = {
            MbarrierInitialised: self._init,
            MbarrierInvalidated: self._inval,
            MbarrierArrived: self._arrive,
            MbarrierCompleted: self._complete,
            MbarrierWaited: self._wait,
            CopyIssued: self._issue,
            BlockEnded: self._end,
            Faulted: self._fault,
            MbarriersFenced: self._fenced,
            ProxyFenced: self._fenced,
            Tcgen05Committed: self._commit,
        }

    # ---------------------------------------------------------------------------------------- the object

    def _init(self, event: MbarrierInitialised) -> None:
        by = event.by
        if by.active & by.active - 1:
            what = self._block.mbarrier(event.address)
            message = f"{by.active.bit_count()} lanes execute mbarrier.init on {what}, and only one may"
            remedy = "Let one lane initialise it: with warp.only(warp.elect_sync())."
            self._block.report("mbarrier-object", by, message, what=what, remedy=remedy)
        cells, _ = self._block.shadow.cells(np.array([event.address], np.int64), BYTES)
        self._shared.objects(by, "mbarrier.init", cells)
        thread = THREAD + 32 * by.warp + int(lanes_in(by.active)[0])
        clock, agent = self._clocks.time[by.warp], self._clocks.agent()
        nothing = np.zeros_like(self._clocks.rows[by.warp])
        self.live[event.address] = Mbarrier(agent, called(by), thread, clock, nothing, nothing, event.count)

    def _inval(self, event: MbarrierInvalidated) -> None:
        by, here = event.by, self.live.pop(event.address, None)
        if here is not None:
            self._check_unused(by, here, event.address)
        cells, _ = self._block.shadow.cells(np.array([event.address], np.int64), BYTES)
        self._shared.bytes_again(by, "mbarrier.inval", cells)
        self.destroyed[event.address] = Earlier(by, "mbarrier.inval")

    def _check_unused(self, by: By, here: Mbarrier, address: int) -> None:
        """Report the end of an mbarrier that others may still use, or on which a copy may still complete."""
        row, what = self._clocks.view(by.warp, by.active), self._block.mbarrier(address)
        for (warp, lanes), (time, user, opcode) in here.uses.items():
            if not self._clocks.passed(row, warp, lanes, time):
                earlier = Earlier(user, opcode)
                message = f"mbarrier.inval destroys {what}, and nothing orders it after {earlier.what} of warp {warp}"
                self._block.report("mbarrier-object", by, message, what=what, earlier=earlier, remedy=_LAST)
                return
        for number, account in here.phases.items():
            if account.copy and row[here.column] <= number:
                message = f"mbarrier.inval destroys {what}, but nothing shows that its phase {number} is complete"
                self._block.report("mbarrier-object", by, message, what=what, earlier=account.copy, remedy=_LAST)
                return

    def used(self, by: By, address: int, opcode: str) -> Mbarrier | None:
        """The mbarrier that lanes use, if any; report the use if they may not see its mbarrier.init yet."""
        here = self.live.get(address)
        if here is None:
            return None
        if not here.known_to(by, self._clocks, self._block.announced.get(by.warp)):
            message = (
                f"{opcode} uses {self._block.mbarrier(address)}, which warp {here.init.warp} initialised, with no "
                f"barrier after mbarrier.init"
            )
            what, earlier = self._block.mbarrier(address), Earlier(here.init, "mbarrier.init")
            self._block.report("mbarrier-init", by, message, what=what, earlier=earlier)
        here.uses[by.warp, by.active] = self._clocks.time[by.warp], by, opcode
        self._clocks.use(by.warp, by.active)
        return here

    def _fenced(self, event: MbarriersFenced | ProxyFenced) -> None:
        """Bulk copies will see the mbarriers that these lanes initialised."""
        by, covers = event.by, isinstance(event, MbarriersFenced) or "shared" in event.spaces
        for here in self.live.values() if covers else ():
            if by.warp == here.init.warp and by.active >> (here.thread - THREAD) % 32 & 1:
                here.fenced = True

    def _check_fenced(self, here: Mbarrier, by: By, address: int, opcode: str) -> None:
        if not here.fenced:
            what, earlier = self._block.mbarrier(address), Earlier(here.init, "mbarrier.init")
            message = f"{opcode} completes on {what}, but the thread that initialised it has executed no fence since"
            self._block.report("mbarrier-init-fence", by, message, what=what, earlier=earlier)

    def _fault(self, event: Faulted) -> None:
        """A phase got more bytes or arrivals than it can take. If a missed wait explains the arrivals, report that."""
        here, by, what = self.live.get(event.address), event.by, self._block.mbarrier(event.address)
        if event.kind == "operands":
            self._missing(by, event.address, event.message)
        if event.kind == "bytes":
            self._block.report("expect-tx", by, event.message, what=what)
        if event.kind != "arrivals" or here is None:
            return
        copy = here.phase(here.count).copy
        prepares = "expect_tx" in event.instruction.opcode or bool(here.announced)
        if copy and copy.by.warp == by.warp and prepares:
            message = f"the warp prepares {what} for the next copy before the copy of phase {here.count} has ended"
            self._block.report("overwritten-early", by, message, what=what, earlier=copy)
        elif not self.check_again() and not self._block.flush():
            self._block.report("mbarrier-arrivals", by, event.message, what=what)

    def _missing(self, by: By, address: int, without: str) -> None:
        """There is no mbarrier at the address: not yet, or no longer."""
        gone, what = self.destroyed.get(address), self._block.mbarrier(address)
        if gone is None:
            self._block.report("mbarrier-init", by, without, what="shared memory")
        else:
            message = f"warp {by.warp} uses {what} after mbarrier.inval of warp {gone.by.warp} has destroyed it"
            self._block.report("mbarrier-object", by, message, what=what, earlier=gone, remedy=_LAST)

    # ---------------------------------------------------------------------------------------- phases

    def _arrive(self, event: MbarrierArrived) -> None:
        by = event.by
        if self.attached and any(by is each for each in self.attached):
            self.attached = [each for each in self.attached if each is not by]
            return
        opcode = "arrive" if event.count else "expect_tx" if event.transaction >= 0 else "complete_tx"
        here = self.used(by, event.address, f"mbarrier.{opcode}")
        if here is None:
            return
        self.arrivals.arrive(event, here)
        if event.count:
            here.relaxed |= event.order == "relaxed"
            remote = event.owner not in (-1, by.block)
            short = event.scope == "cta" and remote
            row = next((known for who, known in self._committed if who is by), None)
            if row is None:
                row = self._block.fences.handed_on(by.warp, by.active, "relaxed" if short else event.order)
            row = self.before.get(by.warp) if row is None else row
            if row is not None:
                here.hear(row, remote=remote)
            if row is None:
                why = "has the scope .cta, so it releases nothing to another block" if short else _IN_VAIN
                self._block.in_vain[by.warp] = f"the arrival at {by.site} {why}"
            here.completed_by[event.phase] = by
        if event.transaction:
            here.expect(event.phase, event.transaction, called(by))

    def _commit(self, event: Tcgen05Committed) -> None:
        """The arrival will say that the thread's products have ended, and so that what they waited for had.

        It hands on all that the thread knows now. That is more than the manual says: ordinary stores of this thread are
        ordered for others by a release only.
        """
        by = event.commit.by
        row = self.covering(event.commit, self._clocks.release(by.warp, by.active))
        self._committed = [*self._committed[1 - _COMMITS :], (by, row)]

    def _complete(self, event: MbarrierCompleted) -> None:
        here = self.live.get(event.address)
        if here is None:
            return
        here.completed[event.phase], here.completed_near[event.phase] = here.arrived, here.near
        here.count = event.phase + 1
        self.bytes.check(here, event.address, event.phase)
        self.arrivals.check_once(here, event.address, event.phase)
        self.arrivals.check_seen(here, event.address, event.phase)
        self.arrivals.check_announced(here, event.address, event.phase)
        here.completed.pop(event.phase - _KEPT, None)
        here.completed_near.pop(event.phase - _KEPT, None)
        here.completed_by.pop(event.phase - _KEPT, None)
        here.phases.pop(event.phase - _KEPT, None)

    def _wait(self, event: MbarrierWaited) -> None:
        by = event.by
        here = self.used(by, event.address, "mbarrier.try_wait")
        if here is None:
            return
        here.waits[by.warp] = Wait(event.phase, by.active, called(by), self._clocks.time[by.warp])
        account, seen = here.phases.get(event.phase), self._clocks.reached(by.warp, by.active, here.column)
        if event.phase - seen >= 2:
            here.skipped.setdefault(by.warp, seen)
        if account and account.copy and seen > event.phase:
            self._again = self._again or (called(by), event.address, event.phase, account.copy)
        row = here.completed.get(event.phase, here.arrived)
        if event.scope == "cta" and (near := here.completed_near.get(event.phase, here.near)) is not row:
            row = near
            why = "has the scope .cta, so it acquires nothing from another block"
            self._block.in_vain[by.warp] = f"the wait at {by.site} {why}"
        row = row.copy()
        if len(row) <= here.column:
            row = np.pad(row, (0, here.column + 1 - len(row)))
        row[here.column] = event.phase + 1
        if event.order == "relaxed":
            here.relaxed = True
            self._block.in_vain[by.warp] = f"the wait at {by.site} is .relaxed, so it acquires nothing"
        self._block.fences.sees(by.warp, by.active, event.order, row)

    def _way(self, record: int, user: int) -> str:
        """The phase that shows that a bulk copy has ended, and the one for which its user has waited."""
        records = self._block.records
        for address, here in self.live.items():
            if records.column[record] == here.column:
                phase, warp = int(records.clock[record]), records.by[user].warp
                last = here.waits.get(warp)
                completes = f"the copy completes phase {phase} of {self._block.mbarrier(address)}"
                if last is None:
                    return f"{completes}; warp {warp} has waited for none of its phases"
                every, some = f"warp {warp}", many("lane", lanes_of(last.lanes))
                who = every if last.lanes == FULL else f"only {some} of {every}"
                return f"{completes}; {who} has waited, last for phase {last.phase}, at {last.by.site}"
        return ""

    # ---------------------------------------------------------------------------------------- bytes

    def _issue(self, event: CopyIssued) -> None:
        copy = event.copy
        if copy.mbarrier < 0:
            return
        here = self.used(copy.by, copy.mbarrier, copy.instruction.opcode)
        if here is not None:
            self._check_fenced(here, copy.by, copy.mbarrier, copy.instruction.opcode)
            self._producers.add(copy.by.warp)
            account = here.phase(copy.phase)
            account.issued += copy.bytes
            if copy.tensor_map is not None:
                account.boxes[copy.tensor_map.box, copy.tensor_map.element, copy.bytes] += 1
            account.copy = account.copy or Earlier(called(copy.by), copy.instruction.opcode)
            origin = copy.by.warp, copy.by.site
            if origin in account.origins:
                account.again = Earlier(copy.by, copy.instruction.opcode)
            self.bytes.check_refill(copy, account, account.origins.setdefault(origin, {}))
            # a thread that waits for the copy then knows that it was issued, and what its issuer knew
            here.hear(self._clocks.view(copy.by.warp, copy.by.active))

    def check_missed(self, by: By, address: int) -> bool:
        """Report a warp that waits forever because it missed a phase that copies filled; return whether one does."""
        here = self.live.get(address)
        if here is None:
            return False
        seen = self._clocks.reached(by.warp, by.active, here.column)
        missed, what = here.count - seen, self._block.mbarrier(address)
        accounts = [here.phases.get(number, Phase()) for number in (seen, seen + 1)]
        if missed >= 2 and accounts[1].copy:
            message = f"the copy refills its stage before warp {by.warp} has seen phase {seen} of {what} complete"
            self._block.report(
                "overwritten-early", accounts[1].copy.by, message, what=what, earlier=Earlier(by, "mbarrier.try_wait")
            )
        elif missed == 1 and accounts[0].copy:
            message = f"phase {seen} of {what}, which a copy filled, is complete, but the wait has the other parity"
            self._block.report("tma-unwaited", by, message, what=what, earlier=accounts[0].copy)
        elif missed == 1 and by.warp in self._producers:
            message = f"phase {seen} of {what} is complete, but the producer waits with the other parity"
            self._block.report("overwritten-early", by, message, what=what)
            return True
        return any(account.copy for account in accounts[:missed])

    def check_lost(self, by: By, address: int) -> bool:
        """Report a warp that missed a phase without copies; return whether it did."""
        here = self.live.get(address)
        if here is None:
            return False
        seen = self._clocks.reached(by.warp, by.active, here.column)
        late = here.count - 1
        if late - seen < 1:
            if by.warp not in here.skipped:
                return False
            seen, late = here.skipped[by.warp], here.skipped[by.warp] + 1
        what, last = self._block.mbarrier(address), here.completed_by.get(late)
        message = f"phase {late} of {what} completed before warp {by.warp} had seen phase {seen}"
        message, remedy = in_words(here, message)
        earlier = Earlier(last, "the last arrival") if last else None
        self._block.report("mbarrier-arrivals", by, message, what=what, earlier=earlier, remedy=remedy)
        return True

    def check_again(self) -> bool:
        """Report the repeated wait for an old phase, which explains a deadlock; return whether there was one."""
        if self._again is None:
            return False
        by, address, number, copy = self._again
        what = self._block.mbarrier(address)
        message = f"the wait finds phase {number} of {what}, which the warp has already seen complete: wrong parity"
        self._block.report("tma-unwaited", by, message, what=what, earlier=copy)
        return True

    def _unexpected(self, column: int, number: int) -> bool:
        """Report the phase of a copy if no expect_tx announced any bytes for it; return whether it was reported."""
        for address, here in self.live.items():
            account = here.phases.get(number)
            if here.column == column and account is not None and not account.expected:
                return self.bytes.check(here, address, number)
        return False

    def _end(self, event: BlockEnded) -> None:
        for address, here in self.live.items():
            if not self.bytes.check_all(here, address, ended=True):
                self._check_awaited(here, address)

    def _check_awaited(self, here: Mbarrier, address: int) -> None:
        """Warn of a copy that no thread has waited for when the block ends."""
        seen = max(int(row[here.column]) for row in self._all_rows())
        for number, account in here.phases.items():
            if account.copy and number >= seen:
                what = self._block.mbarrier(address)
                message = (
                    f"the block ends before a thread waits for phase {number} of {what}: the copy may still write to "
                    f"its shared memory when the next block has it"
                )
                report = Report("tma-unwaited", message, account.copy.by, what, remedy=_AWAIT, weight="warning")
                self._block.later(report)
                return

    def _all_rows(self) -> list[Array]:
        """The knowledge of lanes of the block."""
        partial = [row for known in self._clocks.partial for row in known.values()]
        return [*self._clocks.rows, *partial]
