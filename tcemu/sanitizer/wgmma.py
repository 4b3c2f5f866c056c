"""Rules about wgmma: its fences, groups, registers and descriptors, and the shared memory that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from tcemu.instructions import Instruction
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
from tcemu.machine.registers import Registers
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.naming import Known
from tcemu.sanitizer.records import Kind
from tcemu.sanitizer.report import Earlier, many
from tcemu.sanitizer.shared import SharedMemory
from tcemu.sanitizer.wgmma_state import State, Step, UnderWay, Use, Warp, Warpgroup, numbers_of

#: The fix for registers that were loaded from unwritten cells of Tensor Memory.
_LOADED = (
    "Load cells that an mma, a cp or a tcgen05.st has written. Which lanes and columns an accumulator has depends on "
    "its shape: of M = 64, lanes 0 to 15 of each quarter, for example. And zero it where a sum has no steps."
)


class Wgmmas:
    """The warpgroups of a block."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks, self._shared = block, block.clocks, block.section(SharedMemory)
        self._warps = [Warp() for _ in range(block.warps)]
        self._warpgroups: dict[int, Warpgroup] = {}
        #: the mma_async of each record of a read, until a wait covers it
        self._reads: dict[int, UnderWay] = {}
        self._shared.uncommitted = self._uncommitted
        block.ways["wgmma"] = self._way
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

    def _warpgroup(self, number: int) -> Warpgroup:
        if number not in self._warpgroups:
            self._warpgroups[number] = Warpgroup(self._clocks.agent())
        return self._warpgroups[number]

    # ---------------------------------------------------------------------------------------- registers

    def _touch(self, event: Touched) -> None:
        by = event.by
        warp = self._warps[by.warp]
        if warp.fences:  # before the first fence all accesses are alike, since they follow no fence
            warp.touch(event.registers.bank.first, event.which, by, event.writes)
        if not (warp.pending or event.unwritten):
            return
        under_way = warp.users(event)
        if event.unwritten and not under_way:  # a pending mma_async may be about to write them
            what, source = many("register", tuple(event.unwritten)), event.registers.bank.source
            why = f"{source}, where nothing has been written" if source else "nothing has written"
            remedy = _LOADED if source else ""
            message = f"the kernel reads {what}, which {why}"
            self._block.report("uninitialised-registers", by, message, what=what, remedy=remedy)
        for each in under_way:
            self._touch_pending(event, each)

    def _touch_pending(self, event: Touched, under_way: UnderWay) -> None:
        wgmma, by = under_way.wgmma, event.by
        what = _registers(event, under_way)
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
                f"whose group wgmma.wait_group {under_way.left} at {under_way.waited.site} may leave pending; "
                f"wgmma.wait_group {under_way.younger} would cover it"
            )
        self._block.report(rule, by, message, what=what, earlier=Earlier(under_way.by, str(wgmma.instruction)))

    # ---------------------------------------------------------------------------------------- fences

    def _fence(self, event: WgmmaFenced) -> None:
        warp = self._warps[event.by.warp]
        self._judge_fence(warp)
        warp.fences += 1
        warp.fence_touched()
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
                message = "no mma_async follows this fence, or it is within a group and orders no register access"
                self._block.report("wgmma-fence-unneeded", by, message)

    # ---------------------------------------------------------------------------------------- mma_async

    def _issue(self, event: WgmmaIssued) -> None:
        wgmma = event.wgmma
        warpgroup = self._warpgroup(wgmma.warpgroup)
        step, state = warpgroup.latest, self._state(wgmma, warpgroup)
        if step is None or not step.repeats(wgmma, state):
            self._begin(wgmma)
            warpgroup.issued[warpgroup.committed] = [self._clocks.time[by.warp] for by in wgmma.bys]
            step = warpgroup.latest = Step(wgmma, state, self._known(wgmma, warpgroup), self._records(wgmma, warpgroup))
        self._read(wgmma, step)

    def _state(self, wgmma: Wgmma, warpgroup: Warpgroup) -> State:
        """What shows whether anything has happened since the latest mma_async."""
        state, time = [len(self._clocks.rows[0]), warpgroup.committed], self._clocks.time
        for by in wgmma.bys:
            warp = self._warps[by.warp]
            state += time[by.warp], warp.fences, warp.accesses
        return state

    def _begin(self, wgmma: Wgmma) -> None:
        """Check the registers and fences of an mma_async, which is pending from now on."""
        for place, by in enumerate(wgmma.bys):
            warp, d = self._warps[by.warp], wgmma.d[place]
            a = wgmma.a[place] if wgmma.a else None
            read = (wgmma.a or wgmma.e) and (*wgmma.a[place : place + 1], *wgmma.e[place : place + 1])
            banks = (d.bank.first, *[each.bank.first for each in read]) if read else (d.bank.first,)
            under_way = UnderWay(wgmma, by, warp.accumulates(d), numbers_of(read), banks)
            self._check_fence(warp, under_way, d, a)
            warp.begin(under_way)

    def _descriptors(self, event: DescriptorsDisagreed) -> None:
        shown = [" and ".join(f"{each:#018x}" for each in descriptors) for descriptors in event.descriptors]
        (first, by), opcode = event.bys, event.instruction.opcode
        message = f"{opcode}: warp {first.warp} passes {shown[0]}, but warp {by.warp} passes {shown[1]}"
        self._block.report("wgmma-descriptors", by, message, what="matrix descriptors", earlier=Earlier(first, opcode))

    def _changed(self, event: OperandChanged) -> None:
        opcode = event.wgmma.instruction.opcode
        message = f"the kernel changed the array that is {event.role.upper()} of {opcode} while {opcode} was pending"
        self._block.report("wgmma-unwaited", event.by, message, what=f"the array of {event.role.upper()}")

    def _check_fence(self, warp: Warp, new: UnderWay, d: Registers, a: Registers | None) -> None:
        wgmma, by = new.wgmma, new.by
        if not warp.fences:
            message = f"warp {by.warp} executes {wgmma.instruction}, its first mma_async, with no wgmma.fence before it"
            self._block.report("wgmma-fence-first", by, message)
        elif a is None and warp.repeats(d, wgmma):
            return
        self._check_touched(warp, new, "accumulator", new.accumulator)
        if wgmma.adds:
            self._check_written(new, d, "accumulator", warp.used)
        self._check_shape(warp, new, d)
        if a is not None:
            self._check_touched(warp, new, "A", new.a)
            self._check_chained(warp, new)
            self._check_written(new, a, "A")

    def _check_touched(self, warp: Warp, new: UnderWay, role: str, numbers: frozenset[int]) -> None:
        """Report registers that were accessed after the last fence."""
        warp.needed |= not warp.fenced.isdisjoint(numbers)
        latest = warp.latest_touch(numbers, new.banks)
        if latest is not None:
            by, writes = latest
            opcode = new.wgmma.instruction.opcode
            message = f"the kernel accessed the {role} registers of {opcode} after the warp's last wgmma.fence"
            earlier = Earlier(by, f"{'write' if writes else 'read'} of registers")
            self._block.report("wgmma-fence-touched", new.by, message, what=f"{role} registers", earlier=earlier)

    def _check_shape(self, warp: Warp, new: UnderWay, d: Registers) -> None:
        """Report an accumulator that an mma_async of another shape used after the last fence."""
        wgmma, by = new.wgmma, new.by
        for use in warp.uses(new.accumulator):
            if use is None or use.wgmma.instruction.shape == wgmma.instruction.shape:
                continue
            warp.needed, before = True, use.wgmma
            if use.fences == warp.fences and warp.fences:
                message = (
                    f"{wgmma.instruction} adds to the accumulator of an mma_async of shape {before.instruction.shape}"
                )
                earlier = Earlier(next(each for each in before.bys if each.warp == by.warp), str(before.instruction))
                self._block.report("wgmma-fence-shape", by, message, what="accumulator registers", earlier=earlier)
        warp.use(new.accumulator, d, wgmma)

    def _check_chained(self, warp: Warp, new: UnderWay) -> None:
        """Report A registers that are also the accumulator of a pending mma_async."""
        opcode = new.wgmma.instruction.opcode
        for before in warp.pending:
            if not before.accumulator.isdisjoint(new.a):
                message = f"A of {opcode} is the accumulator of an mma_async that is still pending"
                earlier = Earlier(before.by, before.wgmma.instruction.opcode)
                self._block.report("wgmma-unwaited", new.by, message, what="A registers", earlier=earlier)

    def _check_written(
        self, new: UnderWay, registers: Registers, role: str, used: Mapping[int, Use] = MappingProxyType({})
    ) -> None:
        """Report registers that nothing has written, and no mma_async is about to write."""
        first = registers.bank.first
        numbers = tuple(number for number in registers.unwritten() if first + number not in used)
        if numbers:
            what = f"{many('register', numbers)} of {role}"
            message = f"{new.wgmma.instruction} reads {what}, which nothing has written"
            self._block.report("uninitialised-registers", new.by, message, what=what)

    def _known(self, wgmma: Wgmma, warpgroup: Warpgroup) -> Known:
        """What the four warps know together."""
        return warpgroup.knows([self._clocks.view(by.warp, self._clocks.present[by.warp]) for by in wgmma.bys])

    def _records(self, wgmma: Wgmma, warpgroup: Warpgroup) -> list[int]:
        """A record for each operand in shared memory, which is read until a wait covers the group."""
        instruction, by, warps = wgmma.instruction, wgmma.bys[0], tuple(by.warp for by in wgmma.bys)
        records = []
        for role, _, _ in wgmma.reads:
            opcode, end = _operand(instruction, role), (warpgroup.column, warpgroup.committed)
            records.append(self._block.records.agent(by, opcode, Kind.WGMMA, *end, warps))
            self._reads[records[-1]] = self._warps[by.warp].open[-1]
        return records

    def _read(self, wgmma: Wgmma, step: Step) -> None:
        """Read the operands in shared memory."""
        reader = "wgmma", wgmma.warpgroup
        for record, (_, addresses, size) in zip(step.records, wgmma.reads, strict=True):
            self._shared.read_async(record, self._block.shadow.tile(addresses, size), step.known, reader)

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

    def _way(self, record: int, user: int) -> str:
        """Why an mma_async still reads, in words; empty if it does not."""
        under_way = self._reads.get(record)
        if under_way is None or record > user:
            return ""
        if under_way.waited is None:
            done = "has executed no wgmma.wait_group since" if under_way.committed else "has not committed its group"
            return f"its warpgroup {done}"
        pending = f"wgmma.wait_group {under_way.left} at {under_way.waited.site} may leave its group pending"
        warps, other = self._block.records.warps[record], self._block.records.by[user].warp
        if other not in warps:
            whose = many("warp", warps)
            return f"{pending}, and no wait of {whose} tells warp {other} anything without a barrier after it"
        return f"{pending}; wgmma.wait_group {under_way.younger} would cover it"

    # ---------------------------------------------------------------------------------------- groups

    def _commit(self, event: WgmmaCommitted) -> None:
        warpgroup = self._warpgroup(event.warpgroup)
        warpgroup.committed = event.group + 1
        for by in event.bys:
            warp = self._warps[by.warp]
            for under_way in warp.open:
                under_way.committed = True
            warp.open.clear()
            for under_way in warp.pending:
                under_way.younger = event.group - under_way.wgmma.group

    def _wait(self, event: WgmmaWaited) -> None:
        warpgroup = self._warpgroup(event.warpgroup)
        covered = [warpgroup.issued.pop(number) for number in list(warpgroup.issued) if number < event.below]
        self._reads = {record: each for record, each in self._reads.items() if not each.covered(event)}
        row = np.zeros_like(self._clocks.rows[0])
        row[warpgroup.column] = event.below
        for by, *times in zip(event.bys, *covered, strict=True):
            if times:  # each of the four warps has at least issued the mma_asyncs that have ended
                row[self._clocks.issued_base + by.warp] = max(times)
        for by in event.bys:
            self._end_pending(self._warps[by.warp], by, event, warpgroup.committed)
            self._clocks.acquire(by.warp, self._clocks.present[by.warp], row)

    @staticmethod
    def _end_pending(warp: Warp, by: By, event: WgmmaWaited, committed: int) -> None:
        warp.end(event)
        for each in warp.pending:
            each.waited, each.left = by, committed - event.below

    def _exit(self, event: Exited) -> None:
        for under_way in self._warps[event.by.warp].open if event.whole else ():
            message = f"{under_way.wgmma.instruction} is in no group when its warp exits"
            self._block.report("wgmma-uncommitted", under_way.by, message)


def _registers(event: Touched, under_way: UnderWay) -> str:
    """``register 3 of the accumulator``: as the mma_async numbers what has been touched."""
    wgmma, role = under_way.wgmma, "accumulator"
    place = wgmma.bys.index(under_way.by)
    numbers = wgmma.d[place].numbers
    if under_way.accumulator.isdisjoint(event.numbers):
        role, numbers = "A", wgmma.a[place].numbers if wgmma.a else ()
    which = [numbers.index(each) for each in event.numbers if each in numbers]
    return f"{many('register', tuple(which or event.which))} of the {role}"


@lru_cache(maxsize=256)
def _operand(instruction: Instruction, role: str) -> str:
    """``wgmma.mma_async... (B)``: an operand in shared memory, as reports name it."""
    return f"{instruction} ({role.upper()})"
