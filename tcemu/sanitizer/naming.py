"""Names the rule that two unordered accesses break, and the cause.

The verdict does not depend on which of the two happened to come first. It depends on what the warps know about each
other, what the same warp did before, and how the bytes were accessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.sanitizer.clocks import Clocks
from tcemu.sanitizer.fences import ALIKE, WEAK, guessed, summed
from tcemu.sanitizer.records import ASYNC, Kind, Records
from tcemu.sanitizer.report import many
from tcemu.sanitizer.rules import Severity

Array = npt.NDArray[Any]


#: What orders two accesses to shared memory.
_BETWEEN = {"shared-race": "bar.sync", "lane-race": "bar.warp.sync"}
#: How a writer can know that the bytes are free, by the kind of access that uses them; and how a copy into them can.
_FREE = {
    Kind.WGMMA: "Wait until the reader has ended, with wgmma.wait_group for the mma_async's group; then notify the "
    "writer with a barrier, or with an arrive on the stage's empty mbarrier.",
    Kind.TCGEN05: "Wait until the reader has ended: its thread executes tcgen05.commit on the stage's empty mbarrier, "
    "and the writer waits for that phase.",
    Kind.CP_ASYNC: "Wait until the copy has ended, with cp.async.wait_group in the threads that copy; then a barrier, "
    "before the bytes are written again.",
    Kind.BULK: "Wait until the reader has ended: the thread that issued the copy must wait for it, with "
    "cp.async.bulk.wait_group.read or, for a copy into shared memory, on its mbarrier; then notify the writer with a "
    "barrier.",
}
_REFILL = {
    Kind.BULK: "Wait until the reader has ended: readers must arrive on the stage's empty mbarrier after their last "
    "load, and the producer must wait for that phase before the copy. A lane that arrives for its warp does so after "
    "bar.warp.sync; mbarrier.init counts all that arrive.",
}
#: The fix where the reader has waited for its own end, but the writer does not know of it.
_HEARD = (
    "The reader has waited, but the writer has not heard of it: after its wait, the reader must arrive on the stage's "
    "empty mbarrier, or at a barrier, and the writer must wait there before it writes."
)
#: The fix for a copy over bytes that another copy fills.
_TURN = (
    "Before the new copy, wait on the mbarrier of the copy before, and for its readers: they must arrive on the "
    "stage's empty mbarrier, or at a barrier, after their last use."
)
#: The fix where another block of the cluster uses the bytes.
_PEERS = (
    "Every block that uses the bytes must say when it has: after its last use, its readers arrive on the empty "
    "mbarrier of the block that fills them (mapa, mbarrier.arrive.shared::cluster), and mbarrier.init counts the "
    "arrivals of all blocks; the thread that issues the next copy waits for that phase. Or let the blocks meet at "
    "barrier.cluster."
)
#: The fix for two stores to the same bytes.
_BOTH = (
    "Ask first whether the two {who} share these addresses on purpose. If they do not, give each bytes of its own: "
    "compute the address from the number of the {one}, too. If they do, {then}."
)
#: The fix for a race between two blocks of a cluster.
_MEET = (
    "Let the blocks of the cluster wait at barrier.cluster between the two accesses, or let one release and the other "
    "acquire with the scope .cluster: by an mbarrier's arrive and wait, or by a flag."
)
#: What orders the accesses of cp.async, which an mbarrier tracks only after cp.async.mbarrier.arrive.
_ORDER = {
    "shared-race": "Execute cp.async.wait_group in the threads that copy, then bar.sync. Before a new cp.async into "
    "bytes that others read, put bar.sync after the reads.",
    "lane-race": "Execute cp.async.wait_group, then bar.warp.sync, between the copy and the access of another lane.",
}
#: The fix for a cp.async that an mbarrier tracks, as that of a cuda::pipeline or cuda::barrier.
_TRACKED = (
    "Wait on the mbarrier with the parity of the copy's phase before using the bytes. With cuda::pipeline, each "
    "consumer_wait() needs its consumer_release(): else the next one waits for the same stage again."
)


#: Why fences of all threads between the barrier and the use are only a hint: what the memory model says of them.
_LATE = (
    "all threads that use the bytes execute fence.proxy.async after the barrier, but the writers not before it. The "
    "manual does not say whether that is enough: a proxy fence takes effect within a single thread, and chapter 8.9.5 "
    "has a rule only for alias fences, which may be anywhere between the two accesses. Triton's kernels rely on it"
)
_EARLIER = "If you follow Triton, none. If you follow the manual: move fence.proxy.async before the barrier."


@dataclass(frozen=True)
class Side:
    """One of two accesses: its record, and the lane that touched the byte."""

    record: int
    lane: int


def side_of(mark: Any) -> Side:
    """The side whose mark this is."""
    return Side(int(mark) >> 5, int(mark) & 31)


@dataclass(frozen=True)
class Known:
    """The knowledge of the warps that make an access: what all of them know, and what each of them knows."""

    all: Array
    rows: Sequence[Array]

    @property
    def any(self) -> Array:
        """What any of them knows, which only reports need."""
        return np.asarray(reduce(np.maximum, self.rows))


@dataclass(frozen=True)
class Verdict:
    """The broken rule and the cause, in words that can follow a colon."""

    rule: str
    cause: str
    #: a cp.async that was not waited for yet: if its warp still waits, this rule is right, otherwise cp-async-unwaited
    until: int = 0
    #: its severity, if it differs from the rule's
    weight: Severity | None = None
    #: the fix, if it is not the usual one
    remedy: str = ""


class Naming:
    """Names the rule for two accesses of one block."""

    def __init__(self, clocks: Clocks, records: Records) -> None:
        self._clocks, self._records = clocks, records

    # ---------------------------------------------------------------------------------------- reads

    def came_early(self, write: Side, read: Side, seen: int, known: Known) -> bool:
        """Whether a write should have waited for the read that found it unordered.

        It should if the reader knows an older write to the bytes and has not read them since (`seen` is its last read),
        unless it knows that this one has been issued: then it reads to get what this one writes.
        """
        records = self._records
        if records.knows_began(known.any, write.record, write.lane):
            return False
        older = records.previous[write.record]
        while older and not records.knows(known.all, older, write.lane):
            older = records.previous[older]
        return bool(older) and seen < older and not self._records.same_warps(write.record, read.record)

    def came_late(self, read: Side, write_known: Known, written: int) -> bool:
        """Whether a read should have waited for the write that found it unordered.

        It should if it found nothing written, or if the reader had already read the bytes' earlier contents (`written`)
        in an access that the writer knows to have ended, and then read once more.
        """
        records = self._records
        if read.record in records.blind:
            return True
        if records.knows_began(write_known.any, read.record, read.lane):
            return False  # the reader released the bytes before its read ended, so the writer is early
        older = records.previous[read.record]
        while older > written:
            if records.knows(write_known.all, older, read.lane):
                return True
            older = records.previous[older]
        return False

    def read(self, read: Side, write: Side, known: Known | None) -> Verdict:
        """The rule for a read that nothing orders after the write to the same bytes.

        `known` is what the reader knows; None if the read came first and so knows nothing about the write.
        """
        kind = Kind(self._records.kind[write.record])
        if kind == Kind.BULK:
            return Verdict("tma-unwaited", "nothing shows the reader that the phase of its mbarrier is complete")
        return self._cp_async(read, write, known) if kind == Kind.CP_ASYNC else self._stored(read, write, known)

    def _stored(self, read: Side, write: Side, known: Known | None) -> Verdict:
        """The rule for bytes that a lane stored, or copied and waited for."""
        how, own = Kind(self._records.kind[read.record]), self._records.same_warps(write.record, read.record)
        if how in ASYNC:
            return self._proxies(write, known, own, read.record)
        if how == Kind.COLLECTIVE:
            between = "neither bar.warp.sync nor a barrier" if own else "no barrier"
            return Verdict("ldmatrix-unsynced", f"{between} is between the store and the load")
        return self._race(own, read, write)

    def _cp_async(self, read: Side, write: Side, known: Known | None) -> Verdict:
        """The rule for bytes of a cp.async. After a wait for them, they count as stored by its lanes."""
        records, own = self._records, self._records.same_warps(write.record, read.record)
        waited = bool(records.lanewise[write.record])
        began = known is not None and records.knows_began(known.any, write.record, write.lane)
        ended = known is not None and records.knows(known.all, write.record, write.lane)
        if ended or (waited and (own or not began)):
            return self._stored(read, write, known)
        if own or began or records.attached(write.record):
            remedy = _TRACKED if records.attached(write.record) else ""
            return Verdict("cp-async-unwaited", "nothing shows the reader that the copy has ended", remedy=remedy)
        return replace(self._stored(read, write, known), until=write.record)

    def _proxies(self, write: Side, known: Known | None, own: bool, user: int) -> Verdict:
        """The rule for bytes written through the generic proxy and used through the async proxy."""
        records, clocks = self._records, self._clocks
        began = known is not None and records.knows(known.all, write.record, write.lane)
        if known is None or not (own or began):
            return Verdict("proxy-fence-barrier", "there is no barrier between the write and this use in another warp")
        if began and self._all_fence_late(write, user):
            return Verdict("proxy-fence-barrier", _LATE, weight="hint", remedy=_EARLIER)
        (warp,) = records.warps[write.record]
        lane = 32 * warp + write.lane
        if own and records.lanewise[write.record] and clocks.fenced[lane] > records.clock[write.record]:
            where = "the barrier comes before it" if began else "no barrier follows it"
            return Verdict("proxy-fence-barrier", f"the writer executed fence.proxy.async, but {where}")
        too_early = 0 < clocks.fenced[lane] <= records.began(write.record, warp)
        if self._fenced_elsewhere(write, known, warp) and not (too_early and not self._fenced_behind(write)):
            return Verdict("proxy-fence-thread", "a thread other than the writer executed fence.proxy.async")
        return Verdict(
            "proxy-fence-missing",
            "the writer executed no fence.proxy.async between the write and the synchronisation with this use",
        )

    def _all_fence_late(self, write: Side, user: int) -> bool:
        """Whether all lanes of the user's warps fenced after they knew of the write.

        And one of these warps runs the writer's code, too: the fence is one that all threads execute.
        """
        records, clocks, line = self._records, self._clocks, self._records.by[write.record].site
        users = records.warps[user]
        for warp in users:
            view = clocks.fence_views[warp]
            if view is None or not clocks.fence_whole[warp] or not records.knows(view, write.record, write.lane):
                return False
        return any(by.warp in users and by.site == line for by in records.by)

    def _fenced_elsewhere(self, write: Side, known: Known, warp: int) -> bool:
        """Whether `known` shows that a thread other than the writer executed fence.proxy.async after the write."""
        records, clocks = self._records, self._clocks
        first, last = clocks.fenced_base, clocks.fenced_base + clocks.lanes
        before = records.row[write.record][first:last].copy()
        before[32 * warp : 32 * warp + 32] = records.began(write.record, warp)
        later = known.any[first:last] > before
        later[32 * warp + write.lane] = False
        return bool(later.any())

    def _fenced_behind(self, write: Side) -> bool:
        """Whether another warp executed a fence.proxy.async and knew of the write by then."""
        views = enumerate(self._clocks.fence_views)
        others = [view for warp, view in views if view is not None and warp not in self._records.warps[write.record]]
        return any(self._records.knows(view, write.record, write.lane) for view in others)

    def _race(self, own: bool, side: Side, other: Side) -> Verdict:
        if own:
            return Verdict("lane-race", "two lanes of the warp made the accesses, with no bar.warp.sync between them")
        why = self._records.why_not_together(side.record, other.record)
        cause = f"nothing orders them; {why}" if why else "nothing orders the accesses of the two warps"
        return Verdict("shared-race", cause)

    # ---------------------------------------------------------------------------------------- writes

    def overwrite(self, write: Side, read: Side) -> Verdict:
        """The rule for a write that nothing orders after the read of the same bytes."""
        how = Kind(self._records.kind[read.record])
        if how in ASYNC or self._records.kind[write.record] == Kind.BULK:
            return Verdict("overwritten-early", "nothing shows the writer that the reader has ended")
        return self._race(self._records.same_warps(write.record, read.record), write, read)

    def rewrite(self, write: Side, other: Side, known: Known) -> Verdict:
        """The rule for two writes to the same bytes that are unordered or go through different proxies."""
        records = self._records
        kind, before = Kind(records.kind[write.record]), Kind(records.kind[other.record])
        own = records.same_warps(write.record, other.record)
        pending = before == Kind.CP_ASYNC and not records.lanewise[other.record]
        if before == Kind.BULK or (pending and (own or records.knows_began(known.any, other.record, other.lane))):
            remedy = "" if pending else _PEERS if self._apart(write, other) else _TURN
            cause = f"nothing shows the writer that {self._what(other)} has ended"
            return Verdict("overwritten-early", cause, remedy=remedy)
        if kind != Kind.BULK:
            verdict = self._race(own, write, other)
            return verdict if own or kind != before else replace(verdict, remedy=self._two_writers(write, other))
        if own or records.knows(known.all, other.record, other.lane):
            return self._proxies(other, known, own, write.record)
        return Verdict("overwritten-early", f"nothing orders the copy with {self._what(other)}")

    # ---------------------------------------------------------------------------------------- words

    def remedy(self, rule: str, side: Side, other: Side) -> str:
        """The fix for these two kinds of access; empty if the rule's own fits."""
        records = self._records
        kinds = [Kind(records.kind[each.record]) for each in (side, other)]
        if rule == "overwritten-early":
            if self._apart(side, other):
                return _PEERS
            if kinds[1] == Kind.WGMMA and self._over(other):
                return _HEARD
            return _FREE.get(kinds[1], "") or _REFILL.get(kinds[0], "")
        if rule == "shared-race" and records.why_not_together(side.record, other.record):
            return ALIKE
        if rule == "shared-race" and self._apart(side, other):
            return _MEET
        if Kind.CP_ASYNC in kinds:
            return _ORDER.get(rule, "")
        numbers = side.record, other.record
        one, two = ((records.opcode[each], records.strong.get(each, WEAK).order) for each in numbers)
        if rule not in _BETWEEN:
            return ""
        way = f"put {_BETWEEN[rule]} between them"
        sites = [records.by[each].site for each in numbers]
        return guessed(one, two, way) or summed((one[0], sites[0]), (two[0], sites[1]), way)

    def _two_writers(self, side: Side, other: Side) -> str:
        """The fix for two stores, or two copies by lanes, that nothing orders."""
        records = self._records
        if records.why_not_together(side.record, other.record):
            return ALIKE
        who = "block" if self._apart(side, other) else "warp"
        then = "let the blocks wait at barrier.cluster in between" if who == "block" else "put bar.sync in between"
        if records.kind[side.record] == Kind.CP_ASYNC:
            then = f"wait for the first copy with cp.async.wait_group, and {then}"
        return _BOTH.format(who=f"{who}s", one=who, then=f"{then}, or let one {who} write")

    def _apart(self, side: Side, other: Side) -> bool:
        """Whether two blocks of a cluster made the accesses, or use what a multicast brings."""
        records = self._records
        blocks = {records.by[each.record].block for each in (side, other)}
        return len(blocks) > 1 or any("multicast" in records.opcode[each.record] for each in (side, other))

    def _over(self, side: Side) -> bool:
        """Whether the warps that made an asynchronous access know that it has ended."""
        records = self._records
        rows = [self._clocks.rows[warp] for warp in records.warps[side.record]]
        return all(records.knows(row, side.record, side.lane) for row in rows)

    def _what(self, side: Side) -> str:
        """A description of the access."""
        return f"{self._records.opcode[side.record]} of {self.who(side)}"

    def who(self, side: Side) -> str:
        """The warp that made an access, and the lane if it is known."""
        warps = self._records.warps[side.record]
        if len(warps) > 1:
            return many("warp", tuple(warps))
        lane = f", lane {side.lane}" if self._records.lanewise[side.record] else ""
        return f"warp {warps[0]}{lane}"


def whole(rows: list[Array]) -> Known:
    """The knowledge of several warps that make an access together."""
    return Known(reduce(np.minimum, rows), rows)
