"""The rule about strong loads that may be stale, although the thread has seen a later store of the same thread.

Strong accesses do not race, and they are not ordered by being strong: a thread that finds a flag may still load what
was in another location before the flag's thread stored there (PTX ISA 8.9.5). This is about flags that publish nothing,
neither by a release nor by a fence between the two stores, and that a loop waits for, or that an acquire or an atomic
operation finds. Other loads may be content with an old value, as of a statistic, and a loop loads again.

If only the reader lacks its fence, a flag that a loop has waited for gives a hint, and one that an atomic operation has
found gives nothing: NVIDIA's own samples read volatile results that way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tcemu.machine.events import Accessed, BlockEnded, By, Faulted, Site, Stuck
from tcemu.machine.labels import Labelled
from tcemu.machine.sites import FrontSite, called
from tcemu.sanitizer.block import Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import THREAD, Array, lanes_in
from tcemu.sanitizer.fences import ATOMIC, RELEASES
from tcemu.sanitizer.grid import StrongWrite
from tcemu.sanitizer.report import Earlier, Report

#: How many of the writes that have added to a value count.
_MOST = 128
#: The fix where the flag's thread has released it.
_ACQUIRE = "Load the flag with .acquire, or put fence.acq_rel between the loop that waits for it and this load."


class _Seen(NamedTuple):
    """The latest write of a warp that this block has found: where, by which warp, and at which time of it.

    It is meant to find more than a value if it is atomic or an acquire.
    """

    write: StrongWrite
    address: int
    by: By
    time: int
    meant: bool


class StaleLoads:
    """The strong loads of one block, or of one cluster."""

    def __init__(self, block: Block) -> None:
        grid = block.grid
        self._block, self._clocks, self._neighbour = block, block.clocks, block.neighbour
        self._numbers = grid.numbers
        self._written: dict[str, dict[int, list[StrongWrite]]] = {"global": grid.strong, "shared": {}}
        #: by block and warp that wrote
        self._seen: dict[tuple[int, int], _Seen] = {}
        #: lines where a warp loads the same again, and those where it does so without synchronising
        self._again, self._polls = grid.again, grid.polls
        #: each warp's last load, and all loads by warp and line
        self._last: dict[int, tuple[Site, int, bytes]] = {}
        self._loaded: dict[tuple[int, tuple[Site, bool]], set[bytes]] = {}
        #: reports, each with what has found the later store
        self._held_back: list[tuple[_Seen, Report]] = []
        self.handlers: Handlers = {
            Accessed: ForAccesses(self._accessed, lambda access: bool(access.order)),
            **dict.fromkeys((BlockEnded, Stuck, Faulted), self._end),
        }

    def _accessed(self, event: Accessed) -> None:
        written = self._written.get(event.space)
        if written is None:
            return
        family = event.instruction.family
        if event.writes:
            self._write(event, written, family in ATOMIC)
        elif family != "red":  # which tells the thread nothing
            self._load(event, written, family in ATOMIC)

    def _write(self, event: Accessed, written: dict[int, list[StrongWrite]], atomic: bool) -> None:
        by, time = event.by, self._clocks.time[event.by.warp]
        releases, fences = event.order in RELEASES, self._block.fences
        published = self._clocks.view(by.warp, by.active) if releases else fences.handed_on(by.warp, by.active, "")
        number, mine, addresses = next(self._numbers), self._neighbour.number, event.addresses.copy()
        this = StrongWrite(number, mine, called(by), event.opcode, time, published, addresses, event.lanes)
        for address in event.addresses.tolist():
            latest = written.get(address)
            if latest is None or not (atomic or latest[-1] is this):
                latest = written[address] = []  # a deque would take some 700 bytes more
            if not latest or latest[-1] is not this:
                latest.append(this)
                del latest[:-_MOST]

    def _load(self, event: Accessed, written: dict[int, list[StrongWrite]], atomic: bool) -> None:
        by = event.by
        if not atomic:
            self._note(by, event.addresses.tobytes())
        for address in set(event.addresses.tolist()):
            writes = written.get(address, ())
            if not atomic and event.order in ("relaxed", "volatile"):
                for write in writes:
                    if self._stale(event, write, address):
                        return
            for write in reversed(writes):
                before = self._seen.get((write.block, write.by.warp))
                if before is not None and before.write.number >= write.number:
                    break  # the others have been found before
                time = self._clocks.time[by.warp]
                meant = atomic or event.order == "acquire"
                self._seen[write.block, write.by.warp] = _Seen(write, address, by, time, meant)

    def _note(self, by: By, addresses: bytes) -> None:
        """Note a load, for loops that load the same again."""
        this = by.site, self._clocks.time[by.warp], addresses
        load = _load_of(by.site)
        _, waits = load  # even if it finds the value at once
        if waits or self._last.get(by.warp) == this:
            self._polls.add(load)
        self._last[by.warp] = this
        before = self._loaded.setdefault((by.warp, load), set())
        if addresses in before:
            self._again.add(load)
        before.add(addresses)

    def _stale(self, event: Accessed, write: StrongWrite, address: int) -> bool:
        """Report a load that may miss this write though its thread's later write was seen; return whether it may."""
        by, seen = event.by, self._seen.get((write.block, write.by.warp))
        if seen is None or seen.write.number <= write.number or seen.address == address:
            return False
        both = np.intersect1d(write.writers(address), seen.write.writers(seen.address))
        own = write.block == self._neighbour.number and write.by.warp == by.warp
        if own or not len(both) or not self._comes_after(event, address, seen):
            return False
        columns, published = THREAD + 32 * write.by.warp + both, seen.write.published
        released = published is not None and (published[columns] > write.time).all()
        if (released and seen.meant) or self._knows(event, address, write, columns):
            return False
        who = write.by._replace(warp=Labelled(write.by.warp, f"{write.by.warp} of block {write.by.block}"))
        missing, accesses = ("acquire", "loads") if released else ("release", "stores")
        message = (
            f"{event.opcode} may not find what {write.opcode} of warp {who.warp}, lane {both[0]} stored, although the "
            f"load at {seen.by.site} has found a later store of the same thread: no "
            f"{missing} and no fence is between the two {accesses}"
        )
        report = Report("stale-load", message, by, f"{event.space} memory", Earlier(who, write.opcode))
        if released:
            report.weight, report.remedy = "hint", _ACQUIRE
        self._held_back.append((seen, report))
        return True

    def _comes_after(self, event: Accessed, address: int, seen: _Seen) -> bool:
        """Whether these loads come after those that have seen the later write."""
        lanes = _mask(event.lanes[event.addresses == address])
        columns = THREAD + 32 * seen.by.warp + lanes_in(seen.by.active)
        return bool((self._clocks.view(event.by.warp, lanes)[columns] > seen.time).any())

    def _knows(self, event: Accessed, address: int, write: StrongWrite, columns: Array) -> bool:
        """Whether the threads that load have acquired the write."""
        lanes = _mask(event.lanes[event.addresses == address])
        for _, row in self._clocks.common(event.by.warp, lanes):
            known = self._neighbour.known(row).get(write.block)
            if known is None or not (known[columns] > write.time).all():
                return False
        return True

    def _end(self, _: object) -> None:
        """Report what was found. Whether a line loads again shows only when it has been executed often enough."""
        held, self._held_back = self._held_back, []
        for seen, report in held:
            repeated = self._again if seen.meant else self._polls
            found = seen.meant or _load_of(seen.by.site) in self._polls
            if found and _load_of(report.by.site) not in repeated:
                self._block.tell(report)


def _load_of(site: Site) -> tuple[Site, bool]:
    """A line, and whether the load is that of a loop that waits: there may be others on the line."""
    return site, isinstance(site, FrontSite) and site.spins


def _mask(lanes: Array) -> int:
    return int(np.bitwise_or.reduce(1 << lanes))
