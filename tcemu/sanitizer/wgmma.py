"""Rules about wgmma: its fences, groups, registers and descriptors, and the shared memory that it reads."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tcemu.errors import ranges
from tcemu.machine.events import (
    BlockEnded,
    By,
    DescriptorsDisagreed,
    Exited,
    OperandChanged,
    Site,
    Touched,
    Wgmma,
    WgmmaCommitted,
    WgmmaFenced,
    WgmmaIssued,
    WgmmaWaited,
)
from tcemu.machine.registers import Bank, Registers
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.records import Kind
from tcemu.sanitizer.report import Earlier
from tcemu.sanitizer.shared import SharedMemory


@dataclass(slots=True)
class History:
    """The accesses to one bank of registers of a warp."""

    #: drops the entry when the bank dies, since Python may then give its id to another object
    alive: weakref.ref[Bank]
    #: the last access by anything but wgmma, the warp's number of fences before it, and "read" or "write"
    touched: By | None = None
    fences: int = -1
    what: str = ""
    #: the last mma_async with this bank as accumulator, and the warp's number of fences before it
    used: Wgmma | None = None
    used_fences: int = -1


@dataclass(slots=True)
class UnderWay:
    """An mma_async that a warp has not waited for."""

    wgmma: Wgmma
    by: By
    committed: bool = False
    #: a later wait_group that did not cover it
    waited: By | None = None
    #: the number of groups that this wait left under way, and of groups committed after the mma_async's
    left: int = 0
    younger: int = 0
    #: the registers that it reads and writes, by their numbers in the bank
    numbers: set[int] = field(default_factory=set)

    def meets(self, which: tuple[int, ...]) -> bool:
        """Whether it reads or writes one of these registers."""
        return not self.numbers.isdisjoint(which)


@dataclass(slots=True)
class Warp:
    """The state of one warp: its fences and its mma_asyncs."""

    fences: int = 0
    fence: By | None = None
    #: whether an mma_async followed the last fence, and whether one preceded the fence in the same group
    followed: bool = False
    inside: bool = False
    #: whether the last fence ordered anything
    needed: bool = False
    history: dict[int, History] = field(default_factory=dict)
    #: mma_asyncs under way that write or read registers of a bank, by the bank's id
    pending: dict[int, list[UnderWay]] = field(default_factory=dict)
    open: list[UnderWay] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """A warpgroup: the column of its wgmma groups, and how many it has committed."""

    column: int
    committed: int = 0
    #: the times of its four warps when they issued the last mma_async of a group, by group
    met: dict[int, list[int]] = field(default_factory=dict)


class Wgmmas:
    """The warpgroups of a block."""

    def __init__(self, block: Block, shared: SharedMemory) -> None:
        self._block, self._clocks, self._shared = block, block.clocks, shared
        self._warps = [Warp() for _ in range(block.warps)]
        self._groups: dict[int, Group] = {}
        #: the mma_async of each record of a read, until a wait covers it
        self._reads: dict[int, UnderWay] = {}
        shared.uncommitted = self._uncommitted
        #: lines with a fence that ordered nothing, and lines with a fence that ordered something
        self._idle: dict[Site, By] = {}
        self._needed: set[Site] = set()
        self.handlers: Handlers = {
            Touched: self._touch,
            WgmmaFenced: self._fence,
            DescriptorsDisagreed: self._descriptors,
            OperandChanged: self._changed,
            WgmmaIssued: self._issue,
            WgmmaCommitted: self._commit,
            WgmmaWaited: self._wait,
            Exited: self._exit,
            BlockEnded: self._end,
        }

    def _group(self, number: int) -> Group:
        if number not in self._groups:
            self._groups[number] = Group(self._clocks.agent())
        return self._groups[number]

    # ---------------------------------------------------------------------------------------- registers

    def _touch(self, event: Touched) -> None:
        warp, by = self._warps[event.by.warp], event.by
        history = self._history(warp, event.registers)
        history.touched, history.fences = by, warp.fences
        history.what = "write" if event.writes else "read"
        under_way = [each for each in warp.pending.get(id(event.registers.bank), ()) if each.meets(event.which)]
        if event.unwritten and not under_way:  # an mma_async under way may be about to write them
            numbers = ranges(event.unwritten)
            message = f"the kernel reads registers {numbers}, which nothing has written"
            self._block.report("uninitialised-registers", by, message, what=f"registers {numbers}")
        for each in under_way:
            self._touch_pending(event, each)

    @staticmethod
    def _history(warp: Warp, registers: Registers) -> History:
        key = id(registers.bank)
        found = warp.history.get(key)
        if found is None:
            table = warp.history
            found = table[key] = History(weakref.ref(registers.bank, lambda _: table.pop(key, None)))
        return found

    def _touch_pending(self, event: Touched, under_way: UnderWay) -> None:
        wgmma, by = under_way.wgmma, event.by
        role = "accumulator" if any(event.registers.bank is each.bank for each in wgmma.d) else "A"
        what = f"registers {ranges(event.which)} of the {role}"
        does = "writes" if event.writes else "reads"
        message = f"the kernel {does} {what} of {wgmma.instruction}, "
        if under_way.waited is None:
            rule, message = "wgmma-unwaited", message + "which no wgmma.wait_group has covered yet"
        elif not under_way.committed:
            rule = "wgmma-uncommitted"
            message += f"which is in no group, so the wait at {under_way.waited.site} did not cover it"
        else:
            rule = "wgmma-wait-weak"
            message += (
                f"whose group wgmma.wait_group {under_way.left} at {under_way.waited.site} may leave under way; "
                f"wgmma.wait_group {under_way.younger} would cover it"
            )
        self._block.report(rule, by, message, what=what, earlier=Earlier(under_way.by, str(wgmma.instruction)))

    # ---------------------------------------------------------------------------------------- fences

    def _fence(self, event: WgmmaFenced) -> None:
        warp = self._warps[event.by.warp]
        self._judge_fence(warp)
        warp.fences += 1
        warp.fence, warp.followed, warp.needed = event.by, False, warp.fences == 1
        warp.inside = bool(warp.open)

    def _judge_fence(self, warp: Warp) -> None:
        """Decide whether the last fence ordered anything, at the next fence or at the end of the block."""
        if warp.fence is None:
            return
        idle = not warp.followed or (warp.inside and not warp.needed)
        if idle:
            self._idle.setdefault(warp.fence.site, warp.fence)
        else:
            self._needed.add(warp.fence.site)

    def _end(self, event: BlockEnded) -> None:
        for warp in self._warps:
            self._judge_fence(warp)
        for site, by in self._idle.items():
            if site not in self._needed:
                message = "no mma_async follows this fence, or it stands within a group and orders no register access"
                self._block.report("wgmma-fence-unneeded", by, message)

    # ---------------------------------------------------------------------------------------- mma_async

    def _issue(self, event: WgmmaIssued) -> None:
        wgmma = event.wgmma
        group = self._group(wgmma.warpgroup)
        for place, by in enumerate(wgmma.bys):
            warp = self._warps[by.warp]
            self._check_fence(warp, wgmma, place)
            under_way = UnderWay(wgmma, by)
            warp.open.append(under_way)
            for registers in self._registers(wgmma, place):
                under_way.numbers.update(registers.which())
                warp.pending.setdefault(id(registers.bank), []).append(under_way)
            warp.followed = True
        group.met[group.committed] = [self._clocks.time[by.warp] for by in wgmma.bys]
        self._read(wgmma, group)

    @staticmethod
    def _registers(wgmma: Wgmma, place: int) -> Iterator[Registers]:
        yield wgmma.d[place]
        yield from wgmma.a[place : place + 1]

    def _descriptors(self, event: DescriptorsDisagreed) -> None:
        told = [" and ".join(f"{each:#018x}" for each in descriptors) for descriptors in event.descriptors]
        (first, by), opcode = event.bys, event.instruction.opcode
        message = f"{opcode}: warp {first.warp} passes {told[0]}, but warp {by.warp} passes {told[1]}"
        self._block.report("wgmma-descriptors", by, message, what="matrix descriptors", earlier=Earlier(first, opcode))

    def _changed(self, event: OperandChanged) -> None:
        opcode = event.wgmma.instruction.opcode
        message = f"the kernel changed the array that is {event.role.upper()} of {opcode} while {opcode} was under way"
        self._block.report("wgmma-unwaited", event.by, message, what=f"the array of {event.role.upper()}")

    def _check_fence(self, warp: Warp, wgmma: Wgmma, place: int) -> None:
        by = wgmma.bys[place]
        if not warp.fences:
            message = f"warp {by.warp} executes {wgmma.instruction}, its first mma_async, with no wgmma.fence before"
            self._block.report("wgmma-fence-first", by, message)
        for role, registers in zip(("accumulator", "A"), self._registers(wgmma, place), strict=False):
            history = self._history(warp, registers)
            if history.touched is not None and history.fences == warp.fences:
                self._report_touched(warp, wgmma, by, role, history)
            warp.needed |= history.fences == warp.fences - 1
            if role == "accumulator":
                if wgmma.adds and history.used is None:
                    self._check_written(wgmma, by, registers, role)
                self._check_shape(warp, wgmma, by, history)
            else:
                self._check_chained(warp, wgmma, by, registers)
                self._check_written(wgmma, by, registers, role)

    def _report_touched(self, warp: Warp, wgmma: Wgmma, by: By, role: str, history: History) -> None:
        if not warp.fences or history.touched is None:
            return  # wgmma-fence-first already reports that there is no fence at all
        message = f"the kernel accessed the {role} registers of {wgmma.instruction} after the warp's last wgmma.fence"
        earlier = Earlier(history.touched, f"{history.what} of registers")
        self._block.report("wgmma-fence-touched", by, message, what=f"{role} registers", earlier=earlier)

    def _check_shape(self, warp: Warp, wgmma: Wgmma, by: By, history: History) -> None:
        before = history.used
        if before is not None and before.instruction.shape != wgmma.instruction.shape:
            if history.used_fences == warp.fences and warp.fences:
                message = (
                    f"{wgmma.instruction} adds to the accumulator of an mma_async of shape {before.instruction.shape}"
                )
                earlier = Earlier(next(each for each in before.bys if each.warp == by.warp), str(before.instruction))
                self._block.report("wgmma-fence-shape", by, message, what="accumulator registers", earlier=earlier)
            warp.needed = True
        history.used, history.used_fences = wgmma, warp.fences

    def _check_chained(self, warp: Warp, wgmma: Wgmma, by: By, a: Registers) -> None:
        """Report A registers that are also the accumulator of an mma_async under way."""
        for under_way in warp.pending.get(id(a.bank), ()):
            if any(a.bank is each.bank for each in under_way.wgmma.d):
                message = f"A of {wgmma.instruction} is the accumulator of an mma_async that is still under way"
                earlier = Earlier(under_way.by, str(under_way.wgmma.instruction))
                self._block.report("wgmma-unwaited", by, message, what="A registers", earlier=earlier)

    def _check_written(self, wgmma: Wgmma, by: By, registers: Registers, role: str) -> None:
        numbers = registers.unwritten()
        if numbers:
            what = f"registers {ranges(numbers)} of {role}"
            message = f"{wgmma.instruction} reads {what}, which nothing has written"
            self._block.report("uninitialised-registers", by, message, what=what)

    def _read(self, wgmma: Wgmma, group: Group) -> None:
        """Record the shared memory that an mma_async reads until a wait covers its group."""
        warps = tuple(by.warp for by in wgmma.bys)
        rows = [self._clocks.view(warp, self._clocks.there[warp]) for warp in warps]
        opcode, reader = str(wgmma.instruction), ("wgmma", wgmma.warpgroup)
        for role, addresses, size in wgmma.reads:
            record = self._block.records.agent(
                wgmma.bys[0], f"{opcode} ({role.upper()})", Kind.WGMMA, group.column, group.committed, warps
            )
            self._reads[record] = self._warps[warps[0]].open[-1]
            self._shared.read_async(record, self._block.shadow.tile(addresses, size), rows, reader)

    def _uncommitted(self, record: int, write: Earlier) -> bool:
        """Report the mma_async of a read if a wait missed it because it is in no group; return whether it was."""
        under_way = self._reads.get(record)
        if under_way is None or under_way.committed or under_way.waited is None:
            return False
        message = (
            f"{under_way.wgmma.instruction} is in no group, so the wait at {under_way.waited.site} did not cover it, "
            f"and the kernel overwrites bytes that it reads"
        )
        self._block.report("wgmma-uncommitted", under_way.by, message, earlier=write)
        return True

    # ---------------------------------------------------------------------------------------- groups

    def _commit(self, event: WgmmaCommitted) -> None:
        group = self._group(event.warpgroup)
        group.committed = event.group + 1
        for by in event.bys:
            warp = self._warps[by.warp]
            for under_way in warp.open:
                under_way.committed = True
            warp.open.clear()
            for under_way in self._under_way(warp):
                under_way.younger = event.group - under_way.wgmma.group

    def _wait(self, event: WgmmaWaited) -> None:
        group = self._group(event.warpgroup)
        covered = [number for number in group.met if number < event.below]
        met = np.max([group.met.pop(number) for number in covered], axis=0) if covered else None
        self._reads = {record: each for record, each in self._reads.items() if not _covers(event, each)}
        for by in event.bys:
            warp = self._warps[by.warp]
            self._end_pending(warp, by, event, group.committed)
            mask = self._clocks.there[by.warp]
            row = np.zeros_like(self._clocks.rows[by.warp])
            row[group.column] = event.below
            if met is not None:  # each of the four warps has at least issued the mma_asyncs that have ended
                row[[self._clocks.met_base + each.warp for each in event.bys]] = met
            self._clocks.acquire(by.warp, mask, row)

    @staticmethod
    def _under_way(warp: Warp) -> Iterator[UnderWay]:
        for several in warp.pending.values():
            yield from several

    @staticmethod
    def _end_pending(warp: Warp, by: By, event: WgmmaWaited, committed: int) -> None:
        for key in list(warp.pending):
            left = [each for each in warp.pending[key] if not _covers(event, each)]
            for each in left:
                each.waited, each.left = by, committed - event.below
            if left:
                warp.pending[key] = left
            else:
                del warp.pending[key]

    def _exit(self, event: Exited) -> None:
        for under_way in self._warps[event.by.warp].open if event.whole else ():
            message = f"{under_way.wgmma.instruction} is in no group when its warp exits"
            self._block.report("wgmma-uncommitted", under_way.by, message)


def _covers(wait: WgmmaWaited, under_way: UnderWay) -> bool:
    """Whether a wait covers an mma_async."""
    wgmma = under_way.wgmma
    return under_way.committed and wgmma.warpgroup == wait.warpgroup and wgmma.group < wait.below
