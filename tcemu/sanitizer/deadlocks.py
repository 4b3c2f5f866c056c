"""The reason for a deadlock: what the threads of a block wait for, and why it never comes."""

from __future__ import annotations

from collections import Counter

from tcemu.machine.events import Site, Stuck, Waiting
from tcemu.machine.meeting import WARPGROUP
from tcemu.sanitizer.barriers import Barriers
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.mbarrier_state import Mbarrier
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.report import Earlier, Report, lanes_of, many
from tcemu.sanitizer.shared import SharedMemory
from tcemu.timing.counters import brief

#: The fix for a loop that no lane executes.
_EMPTY = (
    "A GPU skips a loop that no lane executes; Python does not. Let only warps with an active lane run it: `while "
    "warp.active.any() and ...`."
)
#: The fix for a count that is never reached.
_COUNT = "Give the barrier the number of threads that arrive at it: 32 for each warp."
#: The fix for columns of Tensor Memory that never become free.
_COLUMNS = (
    "Allocate at most the 512 columns of an SM at a time: round each size up to a power of two, add them up, and "
    "multiply by the blocks that share an SM. Free columns before others need them; of a pair, a warp of each block "
    "executes tcgen05.alloc and tcgen05.dealloc."
)
#: The fix where a warp reads what other threads have not written yet.
_FIRST = (
    "Wait on the mbarrier at which the writers arrive, for its first phase with parity 0: with parity 1, that wait "
    "returns at once."
)


class Deadlocks:
    """Explains why no warp of a block can continue."""

    def __init__(self, block: Block) -> None:
        self._block, self._grid = block, block.grid
        self._shared, self._mbarriers = block.section(SharedMemory), block.section(Mbarriers)
        self._barriers = block.section(Barriers)
        #: what the warps of the cluster wait for, and mbarriers for whose bytes a warp of another block is late
        self._stopped: dict[int, Waiting] = {}
        self._late: list[tuple[int, set[int]]] = []
        #: whether the bytes of the block do not come because its own warp is held up, and reports of such blocks
        self._waits = False
        self._postponed: list[Report] = []
        self.handlers: Handlers = {Stuck: self._stuck}

    def _stuck(self, event: Stuck) -> None:
        """Report only the first reason that applies: the others follow from it."""
        if any(each.kind == "registers" for each in event.waiting):
            return  # register_budget.py explains it
        self._stopped.update((each.by.warp, each) for each in event.waiting)
        self._waits = False
        if self._explained_late() or self._explained(event):
            if not self._late:
                self._postponed.clear()  # this explains the other blocks of the cluster, too
            return
        one, who = next(filter(_for_columns, event.waiting), event.waiting[0]), dict[str, list[Waiting]]()
        groups = Counter(each.by.warp for each in event.waiting)
        reasons = [
            f"warp {by.warp}, {many('lane', lanes_of(by.active))}{_at(by.site)}: waiting for {each.what}"
            for each in event.waiting
            if groups[(by := each.by).warp] > 1
        ]
        for each in event.waiting:
            if groups[each.by.warp] == 1:
                who.setdefault(each.what, []).append(each)
        reasons += [
            f"{many('warp', tuple(each.by.warp for each in waiting))}{_elsewhere(waiting, one)}: waiting for {what}"
            for what, waiting in who.items()
        ]
        reasons += [event.full] if event.full else []
        remedy = _COLUMNS if _for_columns(one) else ""
        self._postponed.append(Report("deadlock", "; ".join(reasons), one.by, what=one.what, remedy=remedy))
        others = {warp for warp, lanes in enumerate(self._block.clocks.present) if lanes and warp not in self._stopped}
        if self._waits and not others <= set(self._block.exited):
            return  # another block of the cluster may show why
        for report in self._postponed:
            self._block.tell(report)
        self._postponed.clear()

    def _explained(self, event: Stuck) -> bool:
        """Report the first particular reason; return whether there is one."""
        for explains in (
            self._empty,
            self._bytes,
            self._missed,
            self._block.flush,
            self._spins,
            self._start_apart,
            self._exited,
            self._apart,
        ):
            if not (event.full and explains == self._spins) and explains(event.waiting):
                return True
        return False

    def _empty(self, waiting: tuple[Waiting, ...]) -> bool:
        """Report a loop that no lane executes, and that does not end; return whether there was one."""
        waits = [each for each in waiting if each.kind == "lanes"]
        for each in waits[:1]:
            message = f"{many('warp', tuple(one.by.warp for one in waits))}: waiting for {each.what}"
            self._block.report("deadlock", each.by, message, what=each.what, remedy=_EMPTY)
        return bool(waits)

    def _bytes(self, waiting: tuple[Waiting, ...]) -> bool:
        """Report a wait for bytes that never come; return whether there was one."""
        for each in waiting:
            here = self._mbarriers.live.get(each.key) if each.kind == "mbarrier" else None
            if here is None:
                continue
            late = here.late() - set(self._block.exited) - {each.by.warp}
            if late - set(self._stopped):  # the event of their block is still to come
                self._late.append((each.key, late))
                return True
            if self._held_up(late, here):
                self._waits = True
            elif self._mbarriers.bytes.check_all(here, each.key):
                return True
        return False

    def _held_up(self, warps: set[int], full: Mbarrier) -> bool:
        """Whether one of these warps waits for a flag, or for its stage: for a phase before the full mbarrier's."""
        waits, mbarriers = [self._stopped[warp] for warp in warps & set(self._stopped)], self._mbarriers.live
        stages = [mbarriers[each.key] for each in waits if each.kind == "mbarrier" and each.key in mbarriers]
        return any(each.kind == "memory" for each in waits) or any(stage.count < full.count for stage in stages)

    def _explained_late(self) -> bool:
        """Report bytes that do not come, unless a warp that is to bring them is held up; return whether it did."""
        ready = [each for each in self._late if not each[1] - set(self._stopped)]
        self._late = [each for each in self._late if each not in ready]
        due = [(self._mbarriers.live[key], key) for key, _ in ready]
        free = [each for each, (_, late) in zip(due, ready, strict=True) if not self._held_up(late, each[0])]
        reported = [self._mbarriers.bytes.check_all(here, key) for here, key in free]
        return any(reported)

    def _missed(self, waiting: tuple[Waiting, ...]) -> bool:
        """Report a wait for a phase by a warp that missed an earlier phase; return whether there was one."""
        waits = [each for each in waiting if each.kind == "mbarrier"]
        missed = any(self._mbarriers.check_missed(each.by, each.key) for each in waits)
        if missed or not waits or self._blind(waits) or self._mbarriers.check_again():
            return missed or bool(waits)
        return any(self._mbarriers.check_lost(each.by, each.key) for each in waits)

    def _blind(self, waiting: list[Waiting]) -> bool:
        """Report reads of unwritten bytes by a warp that has not waited on all mbarriers; return whether any exist."""
        reported, clocks, mbarriers = False, self._block.clocks, self._mbarriers.live
        now = {each.by.warp: each.key for each in waiting}
        for warp in range(self._block.warps):
            row = clocks.view(warp, clocks.present[warp])
            unseen = [address for address, here in mbarriers.items() if not row[here.column]]
            address = now.get(warp, -1)
            if address in unseen and not any(each.copy for each in mbarriers[address].phases.values()):
                why = f"and this warp has seen no phase of {self._block.mbarrier(address)} complete"
                reported |= self._shared.tell_blind(warp, "uninitialised-shared", why, _FIRST)
            elif unseen:
                reported |= self._shared.tell_blind(
                    warp, "tma-unwaited", "and this warp has not waited on the mbarrier"
                )
        return reported

    def _spins(self, waiting: tuple[Waiting, ...]) -> bool:
        """Report a loop that waits for a value that is never written; return whether there was one."""
        spinning = [each for each in waiting if each.kind == "memory"]
        if not spinning:
            return False
        one, others = spinning[0], [each for each in waiting if each.kind != "memory"]
        reasons = [f"{many('warp', tuple(sorted(each.by.warp for each in spinning)))}: waiting for {one.what}"]
        reasons += [f"warp {each.by.warp}: waiting for {each.what}" for each in others]
        reasons += [f"{many('warp', tuple(sorted(self._block.exited)))}: exited"] if self._block.exited else []
        last = self._grid.strong.get(one.key) if one.elsewhere else None
        if last:
            by = last[-1].by
            who = f"warp {by.warp} of block {by.block} at {by.site}"
            reasons.append(f"the last value there is from {last[-1].opcode} of {who}")
        self._block.report("flag-never-set", one.by, "; ".join(reasons), what=one.what)
        return True

    def _start_apart(self, waiting: tuple[Waiting, ...]) -> bool:
        """Report four consecutive warps that act as a warpgroup but start elsewhere; return whether there were any."""
        here = [each for each in waiting if each.kind == "warpgroup"]
        numbers = [each.by.warp for each in here]
        row = len(numbers) == WARPGROUP and numbers[-1] - numbers[0] == WARPGROUP - 1
        if not row or numbers[0] % WARPGROUP == 0:
            return False
        message = f"{many('warp', tuple(numbers))} execute wgmma together, but warpgroups start at warps 0, 4, 8, ..."
        self._block.report("warpgroup-start", here[0].by, message, what=many("warp", tuple(numbers)))
        return True

    def _exited(self, waiting: tuple[Waiting, ...]) -> bool:
        """Report a wait for warps that have exited; return whether there was one."""
        for each in waiting:
            gone = self._gone(each)
            if gone and not self._counted(each, gone):
                has = "has" if len(gone) == 1 else "have"
                message = f"warp {each.by.warp} waits for {each.what}, but {many('warp', gone)} {has} exited"
                earlier = Earlier(self._block.exited[gone[0]], "exit")
                self._block.report("exited-threads", each.by, message, what=many("warp", gone), earlier=earlier)
                return True
        return False

    def _counted(self, waiting: Waiting, gone: tuple[int, ...]) -> bool:
        """Report a barrier that counts threads which never use it; return whether it does."""
        if waiting.kind != "barrier":
            return False
        wanted, arrived, ever = self._barriers.counts(waiting.key)
        if ever & set(gone) or 32 * len({*arrived, *gone}) == wanted:
            return False  # they would complete it
        by, what, who = waiting.by, f"barrier {waiting.key}", many("warp", tuple(sorted(arrived)))
        message = (
            f"{what} waits for {wanted} threads, but only {who} ({32 * len(arrived)} threads) "
            f"arrive{'s' * (len(arrived) == 1)}; {many('warp', gone)}, which never arrived at it, "
            f"{'has' if len(gone) == 1 else 'have'} exited"
        )
        self._block.report("barrier-threads", by, message, what=what, remedy=_COUNT)
        return True

    def _gone(self, waiting: Waiting) -> tuple[int, ...]:
        """The exited warps that a warp may be waiting for."""
        exited = sorted(self._block.exited)
        if waiting.kind == "warpgroup":
            return tuple(warp for warp in exited if warp // WARPGROUP == waiting.key)
        if waiting.kind != "barrier":
            return ()
        block = self._block.number_of(waiting.by.warp)  # a barrier belongs to one block of a cluster
        return tuple(warp for warp in exited if self._block.number_of(warp) == block)

    def _apart(self, waiting: tuple[Waiting, ...]) -> bool:
        """Report part of a warpgroup that waits for warps which wait elsewhere; return whether there was one."""
        for each in waiting:
            others = [other for other in waiting if other.by.warp // WARPGROUP == each.by.warp // WARPGROUP]
            elsewhere = [other for other in others if other.kind != "warpgroup"]
            if each.kind == "warpgroup" and elsewhere:
                other = elsewhere[0]
                message = f"warp {each.by.warp} waits for {each.what}, but warp {other.by.warp} waits for {other.what}"
                self._block.report("warpgroup-divergent", each.by, message, earlier=Earlier(other.by, "wait"))
                return True
        return False


def _for_columns(waiting: Waiting) -> bool:
    return waiting.kind == "columns"


def _elsewhere(waiting: list[Waiting], one: Waiting) -> str:
    """Where warps wait, if it is not where `one` does, whose line the report begins with."""
    site = waiting[0].by.site
    return "" if site == one.by.site else _at(site)


def _at(site: Site) -> str:
    """A line, and the one that calls it; of a file, the name is enough beside the report's first line."""
    lines = [brief(each) for each in (site, *site.inlined[:1])]
    return f" at {', called at '.join(lines)}"
