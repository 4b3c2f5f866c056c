"""The rule about global memory and the async proxy: ordinary writes that bulk and tensor copies use need a proxy fence.

Most kernels never copy what they have stored, so a store is only noted; the notes are put in order when a copy comes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tcemu.instructions import Instruction
from tcemu.machine.events import Accessed, By, Copy, CopyIssued, ProxyFenced
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import THREAD, Array, lanes_in
from tcemu.sanitizer.report import Earlier, Report

#: Notes are merged into one when there are more than this.
_MANY = 32
_FIX = {
    "proxy-fence-missing": "Execute fence.proxy.async (or fence.proxy.async.global) in the threads that wrote, then a "
    "barrier, then the copy.",
    "proxy-fence-barrier": "Put a barrier between fence.proxy.async and the copy: stores, fence, barrier, copy.",
    "proxy-fence-thread": "Execute fence.proxy.async in every thread that wrote, then a barrier, then the copy.",
}


@dataclass(eq=False, slots=True)
class Store:
    """The writes of a line by lanes of a warp at one time of the warp, and the time of each lane's next proxy fence."""

    by: By
    opcode: str
    size: int
    time: int
    #: of each write
    addresses: list[Array] = field(default_factory=list)
    lanes: list[Array] = field(default_factory=list)
    #: (32,)
    fenced: Array | None = None

    def continues(self, by: By, opcode: str, size: int, time: int) -> bool:
        """Whether a write is one more of these: kernels store a tile line by line."""
        _, _, active, site = by
        _, _, own, line = self.by
        same = self.time == time and line is site and own == active and self.fenced is None
        return same and self.size == size and self.opcode == opcode


@dataclass(eq=False, slots=True)
class Notes:
    """Several stores, byte for byte: their first bytes in order (n,), and for each the store and the lane."""

    first: Array
    store: Array
    lane: Array
    #: the most bytes that one lane wrote
    size: int


class GlobalMemory:
    """The ordinary writes of one block to global memory."""

    def __init__(self, block: Block) -> None:
        self._block, self._clocks = block, block.clocks
        self._stores: list[Store] = []
        #: how many stores are in the notes
        self._noted = 0
        self._notes: list[Notes] = []
        #: the time of each warp's last fence.proxy.async for global memory
        self._fences: dict[int, int] = {}
        #: the latest of each warp, unless it is in the notes
        self._latest: dict[int, Store] = {}
        #: each warp's stores that it has not fenced
        self._open: list[list[Store]] = [[] for _ in range(block.warps)]
        self.handlers: Handlers = {
            Accessed: ForAccesses(self._accessed, lambda access: access.writes and access.space != "shared"),
            ProxyFenced: self._fence,
            CopyIssued: self._copy,
        }

    def _accessed(self, event: Accessed) -> None:
        self.keep(event.by, event.instruction, event.size, event.addresses, event.lanes)

    def keep(self, by: By, instruction: Instruction, size: int, addresses: Array, lanes: Array) -> None:
        """Keep a write of `size` bytes by each of the lanes (n,)."""
        time = self._clocks.time[by.warp]
        store = self._latest.get(by.warp)
        if store is None or not store.continues(by, instruction.opcode, size, time):
            store = self._latest[by.warp] = Store(by, instruction.opcode, size, time)
            self._stores.append(store)
            self._open[by.warp].append(store)
        store.addresses.append(addresses)
        store.lanes.append(lanes)

    def _fence(self, event: ProxyFenced) -> None:
        if "global" not in event.spaces:
            return
        warp, active = event.by.warp, event.by.active
        self._fences[warp] = self._clocks.time[warp]
        still = []
        for store in self._open[warp]:
            if store.fenced is None:
                store.fenced = np.zeros(32, np.int64)
            new = lanes_in(active)[store.fenced[lanes_in(active)] == 0]
            store.fenced[new] = self._clocks.time[warp]
            if not store.fenced[lanes_in(store.by.active)].all():
                still.append(store)
        self._open[warp] = still

    # ---------------------------------------------------------------------------------------- copies

    def _copy(self, event: CopyIssued) -> None:
        copy = event.copy
        if copy.kind != "bulk" or not self._stores:
            return
        space, addresses, size = copy.writes if copy.instruction.family.startswith("cp.reduce") else copy.reads
        if space == "global" and len(addresses):
            self._note()
            for notes in self._notes:
                self._compare(copy, notes, addresses, size)

    def _note(self) -> None:
        """Put the new stores in order."""
        if self._noted == len(self._stores):
            return
        if len(self._notes) > _MANY:
            self._noted, self._notes = 0, []
        self._latest = {}
        new = self._stores[self._noted :]
        counts = [sum(map(len, store.addresses)) for store in new]
        first = np.concatenate([each for store in new for each in store.addresses])
        order = np.argsort(first, kind="stable")
        numbers = np.repeat(np.arange(self._noted, len(self._stores), dtype=np.int64), counts)
        lanes = np.concatenate([each for store in new for each in store.lanes])
        self._notes.append(Notes(first[order], numbers[order], lanes[order], max(store.size for store in new)))
        self._noted = len(self._stores)

    def _compare(self, copy: Copy, notes: Notes, addresses: Array, size: int) -> None:
        low, high = int(addresses.min()), int(addresses.max()) + size
        if notes.first[-1] + notes.size <= low or notes.first[0] >= high:
            return
        begin, end = np.searchsorted(notes.first, [low - notes.size + 1, high])
        used = np.sort(addresses)
        for place in range(int(begin), int(end)):
            first, store = int(notes.first[place]), self._stores[int(notes.store[place])]
            after = int(np.searchsorted(used, first + store.size))
            if after and used[after - 1] + size > first and self._check(copy, store, int(notes.lane[place])):
                return

    def _check(self, copy: Copy, store: Store, lane: int) -> bool:
        """Report a store that the copy may not see; return whether it is reported."""
        by, row = copy.by, self._clocks.view(copy.by.warp, copy.by.active)
        known = int(row[THREAD + 32 * store.by.warp + lane])
        own = by.warp == store.by.warp and bool(by.active >> lane & 1)
        fenced = 0 if store.fenced is None else int(store.fenced[lane])
        if fenced and (own or known > fenced):
            return False
        if fenced or not (own or known > store.time):
            rule, cause = "proxy-fence-barrier", "there is no barrier between the writer's fence and the copy"
            if not fenced:
                cause = "there is no barrier between the write and the copy"
        elif self._fences.get(by.warp, 0) > (store.time if by.warp == store.by.warp else 0):
            rule, cause = "proxy-fence-thread", "a thread other than the writer executed fence.proxy.async"
        else:
            rule, cause = "proxy-fence-missing", "the writer executed no fence.proxy.async for global memory since"
        opcode, writer = copy.instruction.opcode, f"warp {store.by.warp}, lane {lane}"
        message = f"{opcode} reads global memory that {store.opcode} of {writer} wrote: {cause}"
        earlier, lanes = Earlier(store.by, store.opcode), ()
        self._block.tell(Report(rule, message, by, "global memory", earlier, lanes, remedy=_FIX[rule]))
        return True
