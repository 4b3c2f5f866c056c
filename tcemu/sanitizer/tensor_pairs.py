"""Pairs of blocks that allocate and free columns together: each must know that the other runs, and has its columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tcemu.errors import span
from tcemu.instructions import Instruction
from tcemu.machine.events import By, Tcgen05, TensorAllocated, TensorFreed
from tcemu.machine.pair import follows_pair
from tcemu.sanitizer.block import Block
from tcemu.sanitizer.clocks import THREAD, Array, joined
from tcemu.sanitizer.cluster_barrier import ClusterBarriers
from tcemu.sanitizer.report import Earlier, name_of

_MEET = "Let both blocks meet at barrier.cluster (arrive and wait) before {}."


class _Columns(NamedTuple):
    """Columns of a block: who allocated them, and when."""

    by: By
    time: int
    start: int
    end: int


class Pairs:
    """What a warp that allocates, frees or uses columns of a pair (.cta_group::2) knows of the peer block."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self._barriers = block.section(ClusterBarriers)
        #: by block; until they are allocated again
        self._held: dict[int, list[_Columns]] = {number: [] for number in block.numbers}

    def allocate(self, event: TensorAllocated) -> None:
        """Report a warp that does not know that the peer block has started."""
        by, start, end = event.by, event.start, event.start + event.columns
        others = [each for each in self._held[event.block] if each.end <= start or end <= each.start]
        self._held[event.block] = [*others, _Columns(by, self._clocks.time[by.warp], start, end)]
        if not follows_pair(event.instruction):
            return
        peer, row = self._peer(event.block), self._known(by)
        if not row[self._threads(peer)].any():
            what = f"columns {span(start, end - 1)} of the pair"
            message = f"{event.instruction} allocates {what}, and nothing shows warp {by.warp} that block {peer} runs"
            self._block.report("tcgen05-pair", by, message, what=what, remedy=_MEET.format("tcgen05.alloc"))

    def free(self, event: TensorFreed) -> None:
        """Report a warp that does not know that the peer has the columns that both free."""
        if follows_pair(event.instruction):
            last = event.start + event.columns - 1
            self._check(event.by, event.instruction, self._peer(event.block), (event.start, last))

    def use(self, operation: Tcgen05) -> None:
        """Report an operation of the leader that does not know that the peer has the columns that it uses."""
        for area in operation.writes:
            if area.block != operation.by.block:
                columns = int(area.columns[0]), int(area.columns[-1])
                self._check(operation.by, operation.instruction, area.block, columns)

    def _known(self, by: By) -> Array:
        """What the lanes know has been done: from barrier.cluster, too, if its arrivals are .relaxed."""
        row, passed = self._clocks.view(by.warp, by.active), self._barriers.passed.get(by.block)
        return row if passed is None else joined(row, passed)

    def _check(self, by: By, instruction: Instruction, peer: int, columns: tuple[int, int]) -> None:
        held = next((each for each in self._held[peer] if each.start <= columns[0] < each.end), None)
        if held and self._clocks.passed(self._known(by), held.by.warp, held.by.active, held.time):
            return
        frees = instruction.family == "tcgen05.dealloc"
        what = f"columns {span(*columns)} of block {peer}"
        message = (
            f"{instruction} {'frees' if frees else 'uses'} {what}, and nothing shows that its tcgen05.alloc has ended"
        )
        earlier = Earlier(held.by, "tcgen05.alloc") if held else None
        remedy = _MEET.format(f"{name_of(instruction.opcode)}, after both have allocated")
        self._block.report("tcgen05-pair", by, message, what=what, earlier=earlier, remedy=remedy)

    def _peer(self, number: int) -> int:
        numbers = self._block.numbers
        return numbers[numbers.index(number) ^ 1]

    def _threads(self, number: int) -> Array:
        """The columns of clocks of a block's threads."""
        each = self._block.warps // len(self._block.numbers)
        first = THREAD + 32 * each * self._block.numbers.index(number)
        return np.arange(first, first + 32 * each, dtype=np.int64)
