"""Rules about Tensor Memory and tcgen05: what has ended, by a commit or a wait, before its cells are used again.

The blocks of a cluster are checked together: with .cta_group::2, an operation uses the Tensor Memory of two of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcemu.errors import span
from tcemu.layouts.tensor_memory import COLUMNS, LANES
from tcemu.machine.events import (
    By,
    Tcgen05Commit,
    Tcgen05Fenced,
    Tcgen05Issued,
    Tcgen05Waited,
    TensorAllocated,
    TensorFreed,
    Touched,
)
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import Array, joined, lanes_in
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.naming import Known
from tcemu.sanitizer.records import Kind
from tcemu.sanitizer.report import Earlier, lanes_of, many
from tcemu.sanitizer.rules import Severity
from tcemu.sanitizer.shared import SharedMemory
from tcemu.sanitizer.tensor_collectors import Collectors
from tcemu.sanitizer.tensor_pairs import Pairs
from tcemu.sanitizer.tensor_state import Op, Use, Warp

#: The words for an operand of tcgen05.mma in Tensor Memory.
_ROLES = {"d": "D", "a": "A", "scale_a": "the scale factors of A", "scale_b": "the scale factors of B",
          "sp_meta": "the metadata"}  # fmt: skip
#: The fix where an operand other than D was never written.
_WRITE = (
    "Write {role} first: with tcgen05.cp in the thread that multiplies, or with tcgen05.st and tcgen05.wait::st, and a "
    "barrier. All lanes that the operand has must be written: scale factors stand in each quarter."
)


@dataclass(frozen=True)
class _Finding:
    """The rule that two uses break, and why."""

    rule: str
    why: str
    remedy: str = ""
    weight: Severity | None = None


class TensorMemories:
    """The Tensor Memory of one block, or of the blocks of a cluster."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self._warps = [Warp() for _ in range(block.warps)]
        self._uses: list[Use] = []
        #: of each block, the cells that something has written since they were allocated
        self._written = {number: np.zeros((LANES, COLUMNS), bool) for number in block.numbers}
        #: by warp, lanes and .cta_group: the agent of a thread that issues, and how often it has committed
        self._agents: dict[tuple[int, int, str], int] = {}
        self._commits: dict[int, int] = {}
        #: the last commit of anybody
        self._committed: By | None = None
        self._mbarriers, self._shared = block.section(Mbarriers), block.section(SharedMemory)
        self._pairs, self._collectors = Pairs(block), Collectors(block)
        self.handlers: Handlers = {
            Tcgen05Issued: self._issue,
            Tcgen05Waited: self._wait,
            Tcgen05Fenced: self._fence,
            TensorAllocated: self._allocate,
            TensorFreed: self._free,
            Touched: self._touch,
        }
        self._mbarriers.covering = self._commit

    # ---------------------------------------------------------------------------------------- operations

    def _issue(self, event: Tcgen05Issued) -> None:
        operation, by = event.operation, event.operation.by
        op = Op(operation, self._clocks.time[by.warp])
        if op.is_ld_st:
            self._warps[by.warp].unwaited[id(operation)] = op
            self._check_lane(op)
        else:
            op.agent = self._agent(by.warp, by.active, operation.group)
            op.commits = self._commits[op.agent]
            self._check_elected(op)
            self._collectors.use(operation)
            self._pairs.use(operation)
            op.follows({use.op for use in self._uses if use.op.warp == by.warp})
            self._read_shared(op)
            self._check_aliases(op)
            self._check_written(op)
        written = {id(area) for area in operation.writes}
        for area in operation.reads:
            if id(area) not in written:
                self._use(Use.of(op, area, False))
        for area in operation.writes:
            self._use(Use.of(op, area, True))
            self._written[area.block][np.ix_(area.lanes, area.columns)] = True

    def _agent(self, warp: int, lanes: int, group: str) -> int:
        key = warp, lanes, group
        if key not in self._agents:
            self._agents[key] = self._clocks.agent()
            self._commits[self._agents[key]] = 0
        return self._agents[key]

    def _commit(self, commit: Tcgen05Commit, row: Array) -> Array:
        """The arrival of a commit will say that what its thread has issued so far has ended."""
        by = commit.by
        agent = self._agent(by.warp, by.active, commit.instruction.words["cta_group"])
        self._commits[agent] += 1
        self._committed = by
        for op in self._warps[by.warp].unfenced:  # a commit implies the fence
            op.before = self._clocks.time[by.warp] - 1
        self._warps[by.warp].unfenced.clear()
        known = row.copy() if agent < len(row) else np.pad(row, (0, agent + 1 - len(row)))
        known[agent] = self._commits[agent]
        return known

    def _wait(self, event: Tcgen05Waited) -> None:
        warp, now = self._warps[event.by.warp], self._clocks.time[event.by.warp]
        for each in event.operations:
            op = warp.unwaited.pop(id(each), None)
            if op is not None:
                op.waited = now
                warp.unfenced.append(op)

    def _fence(self, event: Tcgen05Fenced) -> None:
        by = event.by
        warp, time = self._warps[by.warp], self._clocks.time[by.warp]
        if event.which == "before_thread_sync":
            for op in warp.unfenced:
                op.before = time
            warp.unfenced.clear()
            self._mbarriers.before[by.warp] = self._clocks.release(by.warp, by.active)
            return
        for row in self._unacquired(by):  # by relaxed waits, which the fence completes
            self._clocks.acquire(by.warp, by.active, row)
        view = self._clocks.view(by.warp, by.active)
        warp.after = view if warp.after is None else joined(warp.after, view)

    def _unacquired(self, by: By) -> list[Array]:
        """What the lanes have found by relaxed operations."""
        fences = self._block.fences
        return [row for lane in lanes_in(by.active).tolist() for row in fences.unacquired(by.warp, lane)]

    # ---------------------------------------------------------------------------------------- cells

    def _use(self, new: Use) -> None:
        """Compare a use with those of the same cells before it, and remember it."""
        kept, reported = list[Use](), False
        for old in self._uses:
            if old.op is not new.op and (old.writes or new.writes) and not reported and old.meets(new):
                finding = self._compare(old.op, new.op)
                if finding is not None:
                    self._tell(finding, old, new)
                    reported = True
            if old.op is new.op or not new.stands_for(old):
                kept.append(old)
        self._uses = [*kept, new]

    def _compare(self, old: Op, new: Op) -> _Finding | None:
        """What is wrong with an operation that uses cells which an earlier one uses, too."""
        by = new.operation.by
        if old in new.after:
            return None
        if old.is_ld_st and old.warp == by.warp:
            return None if new.is_ld_st or old.waited is not None else self._unwaited(old)
        row = self._clocks.view(by.warp, by.active)
        if not old.ended(row):
            return self._unordered(old, by, row)
        after = self._warps[by.warp].after
        missing = [
            *([] if old.fenced(row) else [f"before_thread_sync in warp {old.warp} after its wait"]),
            *([] if after is not None and old.ended(after) else [f"after_thread_sync in warp {by.warp} after that"]),
        ]
        if not missing:
            return None
        why = f"a barrier orders them, but there is no tcgen05.fence::{' and no tcgen05.fence::'.join(missing)}"
        return _Finding("tcgen05-fence", why)

    def _unwaited(self, old: Op) -> _Finding:
        return _Finding("tcgen05-wait", f"no tcgen05.wait::{old.operation.kind} of warp {old.warp} has covered it")

    def _unordered(self, old: Op, by: By, row: Array) -> _Finding:
        """Why an operation may still be under way, for lanes that know `row`."""
        for acquired in self._unacquired(by):
            if old.ended(joined(row, acquired)):
                why = "the wait on the mbarrier is .relaxed, and no tcgen05.fence::after_thread_sync follows it"
                return _Finding("tcgen05-fence", why, weight="error")
        if not old.begun(row):
            return _Finding("tcgen05-race", f"nothing orders warp {by.warp} and warp {old.warp}")
        if old.is_ld_st:
            return self._unwaited(old)
        thread = f"lane {lanes_of(old.operation.by.active)[0]} of warp {old.warp}"
        last = self._committed
        if self._commits[old.agent] > old.commits:
            why = f"warp {by.warp} has not waited for the phase of the mbarrier at which tcgen05.commit arrives for it"
            return _Finding("tcgen05-unwaited", why)
        if last is not None and (last.warp, last.active) != (old.warp, old.operation.by.active):
            where = f"warp {last.warp}, {many('lane', lanes_of(last.active))}, at {last.site}"
            why = f"{thread} issued it and has not committed it; the tcgen05.commit of {where}, covers only its own"
            return _Finding("tcgen05-commit", why)
        return _Finding("tcgen05-unwaited", f"{thread} has executed no tcgen05.commit since")

    def _of(self, block: int) -> str:
        """``Tensor Memory``, in a cluster ``Tensor Memory of block 3``."""
        return "Tensor Memory" + (f" of block {block}" if len(self._block.numbers) > 1 else "")

    def _tell(self, finding: _Finding, old: Use, new: Use) -> None:
        by, did = new.op.operation.by, old.op
        lanes, columns = _span(old.lanes & new.lanes), _span(old.columns & new.columns)
        what = f"lanes {lanes} and columns {columns} of {self._of(new.block)}"
        does = "writes" if new.writes else "reads"
        before = "writes" if old.writes else "reads"
        message = f"{new.op.name} {does} {what}, which {did.name} of warp {did.warp} {before}: {finding.why}"
        self._block.report(
            finding.rule, by, message, what=what, earlier=Earlier(did.operation.by, did.name), remedy=finding.remedy,
            weight=finding.weight,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------- one operation

    def _check_elected(self, op: Op) -> None:
        """Report an instruction that several lanes execute: each of them issues it."""
        warp, by = self._warps[op.warp], op.operation.by
        last, warp.latest = warp.latest, op
        if last is None or last.operation.by.site is not by.site or last.operation.by.active == by.active:
            return
        if last.issued == op.issued and last.operation.instruction is op.operation.instruction:
            message = f"more than one lane executes {op.name}, and each of them issues the operation"
            self._block.report("tcgen05-elect", by._replace(active=last.operation.by.active | by.active), message)

    def _check_lane(self, op: Op) -> None:
        """Say in a hint that an address leaves out the lane, which the manual requires."""
        if op.operation.laneless:
            lanes = op.operation.reads[0].lanes if op.operation.reads else op.operation.writes[0].lanes
            message = (
                f"the address of {op.name} has a lane of the first quarter, and warp {op.operation.by.warp} reaches "
                f"lanes from {lanes[0] // 32 * 32} on: here it uses those, as kernels that ran on a B200 rely on"
            )
            self._block.report("tcgen05-lanes", op.operation.by, message, what="lanes", weight="hint")

    def _check_aliases(self, op: Op) -> None:
        """Report D in cells that the same mma reads as another operand."""
        written = [Use.of(op, each, True) for each in op.operation.writes]
        for area in op.operation.reads:
            read = Use.of(op, area, False)
            for each in written if area.role != "d" else ():
                if read.meets(each) and op.operation.kind == "mma":
                    what = f"columns {_span(read.columns & each.columns)} of {self._of(read.block)}"
                    message = f"{op.name} has {_ROLES.get(area.role, area.role)} and D in the same cells: {what}"
                    self._block.report("tcgen05-alias", op.operation.by, message, what=what)

    def _check_written(self, op: Op) -> None:
        """Report operands in cells that nothing has written."""
        for area in op.operation.reads:
            missing = ~self._written[area.block][np.ix_(area.lanes, area.columns)]
            if missing.any():
                columns = area.columns[missing.any(axis=0)]
                first, last, role = int(columns[0]), int(columns[-1]), _ROLES[area.role]
                what = f"{'columns' if last > first else 'column'} {span(first, last)} of {self._of(area.block)}"
                adds = ", as enable-input-d says," if area.role == "d" else ""
                message = f"{op.name} reads {role}{adds} in {what}, which nothing has written"
                remedy = "" if area.role == "d" else _WRITE.format(role=role)
                self._block.report("tcgen05-undefined", op.operation.by, message, what=what, remedy=remedy)

    def _read_shared(self, op: Op) -> None:
        """Read the operands in shared memory, through the async proxy."""
        by = op.operation.by
        row = self._clocks.view(by.warp, by.active)
        for role, _, addresses, size in op.operation.shared:
            what = f"{op.name} ({role.upper()})"
            record = self._block.records.agent(by, what, Kind.TCGEN05, op.agent, op.commits)
            cells = self._block.shadow.tile(addresses, size)
            self._shared.read_async(record, cells, Known(row, (row,)), ("tcgen05", op.agent))

    def _touch(self, event: Touched) -> None:
        """Report registers of a pending tcgen05.ld."""
        for op in self._warps[event.by.warp].unwaited.values():
            registers = op.operation.registers
            if op.operation.kind != "ld" or registers is None or registers.bank is not event.registers.bank:
                continue
            if not set(registers.numbers).isdisjoint(event.numbers):
                does = "writes" if event.writes else "reads"
                message = f"the kernel {does} registers of {op.name} before tcgen05.wait::ld"
                self._block.report(
                    "tcgen05-wait", event.by, message, what="registers", earlier=Earlier(op.operation.by, op.name)
                )

    # ---------------------------------------------------------------------------------------- columns

    def _allocate(self, event: TensorAllocated) -> None:
        self._written[event.block][:, event.start : event.start + event.columns] = False
        self._pairs.allocate(event)

    def _free(self, event: TensorFreed) -> None:
        """Compare the end of columns with what uses them, and forget that."""
        by, first, last = event.by, event.start, event.start + event.columns
        columns = (1 << last) - (1 << first)
        row = self._clocks.view(by.warp, by.active)
        users = [old for old in self._uses if old.block == event.block and old.columns & columns]
        for op in [old.op for old in users]:
            own = op.is_ld_st and op.warp == by.warp
            if op.ended(row) or (own and op.waited is not None):
                continue
            finding = self._unwaited(op) if own else self._unordered(op, by, row)
            what = f"columns {span(first, last - 1)} of {self._of(event.block)}"
            message = f"{event.instruction} frees {what}, which {op.name} of warp {op.warp} uses: {finding.why}"
            self._block.report(finding.rule, by, message, what=what, earlier=Earlier(op.operation.by, op.name))
            break
        self._uses = [old for old in self._uses if old not in users]
        self._pairs.free(event)


def _span(bits: int) -> str:
    """``0 to 31``: from the first to the last of the set bits."""
    return span((bits & -bits).bit_length() - 1, bits.bit_length() - 1)
