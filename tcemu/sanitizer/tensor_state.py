"""What the sanitizer remembers of Tensor Memory: who used which cells, and what shows that the use is over."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tcemu.layouts.tensor_memory import COLUMNS, LANES
from tcemu.machine.events import Area, Tcgen05
from tcemu.machine.tcgen05_operations import pipelined
from tcemu.sanitizer.clocks import THREAD, Array, lanes_in

#: tcgen05.ld and tcgen05.st, which a tcgen05.wait of their warp waits for.
LD_ST = ("ld", "st")


@dataclass(eq=False, slots=True)
class Op:
    """An operation: its warp's time when it was issued, and what shows that it has ended.

    An mma, cp or shift has ended for whoever knows the `agent` of its thread to be past `commits`, the number of the
    thread's commits by then. A ld or st has ended at the time `waited` of its warp; `before` is the time of the fence
    after that.
    """

    operation: Tcgen05
    issued: int
    agent: int = -1
    commits: int = 0
    waited: int | None = None
    before: int | None = None
    #: the earlier operations of its warp that have ended when it begins
    after: set[Op] = field(default_factory=set)

    @property
    def warp(self) -> int:
        """Its warp."""
        return self.operation.by.warp

    @property
    def is_ld_st(self) -> bool:
        """Whether it is a ld or st."""
        return self.operation.kind in LD_ST

    @property
    def name(self) -> str:
        """Its opcode."""
        return self.operation.instruction.opcode

    def follows(self, live: set[Op]) -> None:
        """Note which operations of its warp the manual orders before it, directly or by others."""
        for each in live:
            if each is not self and pipelined(each.operation, self.operation):
                self.after |= {each} | (each.after & live)

    def latest(self, row: Array) -> int:
        """Up to which time of its warp `row` knows what its thread has done; any of its lanes, if it is of a warp."""
        first = THREAD + 32 * self.warp
        return int(row[first + lanes_in(self.operation.by.active)].max())

    def begun(self, row: Array) -> bool:
        """Whether `row` knows that it was issued."""
        return self.latest(row) > self.issued

    def ended(self, row: Array) -> bool:
        """Whether `row` knows that it has ended."""
        if self.is_ld_st:
            return self.waited is not None and self.latest(row) > self.waited
        return self.agent < len(row) and int(row[self.agent]) > self.commits

    def fenced(self, row: Array) -> bool:
        """Whether `row` knows of a fence::before_thread_sync after its end; tcgen05.commit is one."""
        return not self.is_ld_st or (self.before is not None and self.latest(row) > self.before)


@dataclass(eq=False, slots=True)
class Use:
    """An operation reads or writes cells of a block: these lanes in these columns, each as the bits of a number."""

    op: Op
    block: int
    writes: bool
    role: str
    lanes: int
    columns: int
    bits: int

    @classmethod
    def of(cls, op: Op, area: Area, writes: bool) -> Use:
        """The use of an area."""
        # where numpy's index type has 32 bits, lanes that were found by search have them too
        numbers = (area.lanes, LANES), (area.columns, COLUMNS)
        lanes, columns = (mask_of(each.astype(np.int64, copy=False).tobytes(), most) for each, most in numbers)
        return cls(op, area.block, writes, area.role, lanes, columns, area.bits)

    def meets(self, other: Use) -> bool:
        """Whether they have a bit in common."""
        if self.block != other.block:
            return False
        return bool(self.lanes & other.lanes and self.columns & other.columns and self.bits & other.bits)

    def covers(self, other: Use) -> bool:
        """Whether it has all bits of the other."""
        if self.block != other.block:
            return False
        return not (other.lanes & ~self.lanes or other.columns & ~self.columns or other.bits & ~self.bits)

    def stands_for(self, other: Use) -> bool:
        """Whether all that comes after this use also comes after an earlier one, which can then be forgotten."""
        if not self.covers(other):
            return False
        if self.writes:
            return True
        one, two = self.op, other.op
        return not other.writes and one.is_ld_st == two.is_ld_st and (one.agent, one.warp) == (two.agent, two.warp)


@lru_cache(maxsize=4096)
def mask_of(numbers: bytes, count: int) -> int:
    """Numbers, as the bytes of int64, as the bits of one."""
    present = np.zeros(count, bool)
    present[np.frombuffer(numbers, np.int64)] = True
    return int.from_bytes(np.packbits(present, bitorder="little").tobytes(), "little")


@dataclass(slots=True)
class Warp:
    """What a warp has done: its ld and st that no wait has covered, its fences, and its latest mma or cp."""

    unwaited: dict[int, Op] = field(default_factory=dict)
    #: its waited ld and st that no fence::before_thread_sync has followed
    unfenced: list[Op] = field(default_factory=list)
    #: what it knew at its fences::after_thread_sync
    after: Array | None = None
    latest: Op | None = None
