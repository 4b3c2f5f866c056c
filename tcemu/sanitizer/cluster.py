"""The blocks of a cluster as one block with all their warps, shared memory, barriers and mbarriers.

The rules are about one block. In a cluster, a warp may also reach the shared memory and the mbarriers of the other
blocks, and barrier.cluster orders the accesses of all threads. Here each event of a cluster is passed on as if one
block had all of it: warps, warpgroups, barriers and shared memory of the block with rank 1 follow those of rank 0, and
so on. Numbers keep the text by which the kernel knows them, for the reports.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.machine import events
from tcemu.machine.events import BlockStarted, By, Event, Waiting
from tcemu.sanitizer.block import Block
from tcemu.sanitizer.labels import Labelled
from tcemu.sanitizer.report import Report
from tcemu.sanitizer.shadow import Shadow

Array = npt.NDArray[Any]

#: Barriers of a block; warps of a warpgroup; bytes that the shared memory of a block is rounded up to.
_BARRIERS, _WARPGROUP, _UNIT = 16, 4, 128
#: How many arrays of addresses are kept moved: a pipeline passes the same ones again and again.
_KEPT = 256


class ClusterShadow(Shadow):
    """The shared memory of all blocks of a cluster, `size` bytes for each."""

    def __init__(self, size: int, numbers: tuple[int, ...], tiles: Any) -> None:
        super().__init__(size * len(numbers), tiles)
        self._size, self._numbers = size, numbers

    def extent(self, cells: Array) -> str:
        """``bytes 0 to 63 of shared memory of block 3``."""
        rank = int(cells.min()) * self.cell // self._size
        first = rank * self._size // self.cell
        return f"{super().extent(cells - first)} of block {self._numbers[rank]}"


class Cluster:
    """Tells the events of a cluster as those of one block; `block` is its state."""

    def __init__(self, started: BlockStarted, tell: Callable[[Report], None], tiles: Any) -> None:
        numbers = started.cluster
        self._ranks = {number: rank for rank, number in enumerate(numbers)}
        self._running = set(numbers)
        self._warps = -(-started.warps // _WARPGROUP) * _WARPGROUP
        self._bytes = -(-started.shared // _UNIT) * _UNIT
        self._tell = tell
        size = self._bytes * len(numbers)
        threads, nothing = 32 * self._warps * len(numbers), np.zeros(0, np.uint8)
        whole = replace(started, threads=threads, shared=size, content=nothing, names=None)
        self.block = Block(whole, self._report, tiles)
        self.block.numbers = numbers
        self.block.shadow = ClusterShadow(self._bytes, numbers, tiles)
        absent = [0] * (self._warps - started.warps)
        there = [(1 << min(32, started.threads - 32 * warp)) - 1 for warp in range(started.warps)]
        self.block.clocks.there = (there + absent) * len(numbers)
        #: addresses, wgmmas and origins that have been moved, by identity; each keeps the original alive
        self._arrays: dict[tuple[int, int], tuple[Array, Array]] = {}
        self._wgmmas: dict[int, tuple[events.Wgmma, events.Wgmma]] = {}
        self._origins: dict[int, tuple[By, By]] = {}

    def __call__(self, event: Event) -> Event | None:
        """The event as that of one block; None for the end of a block that is not the last."""
        if isinstance(event, events.BlockEnded):
            self._running.discard(event.block)
            return None if self._running else event
        told = copy(event)
        for name, move in _FIELDS.items():
            if name in vars(event):
                setattr(told, name, move(self, event, getattr(event, name)))
        if isinstance(event, events.WgmmaEnded):
            self._wgmmas.pop(id(event.wgmma), None)
        return told

    def _report(self, report: Report) -> None:
        """Pass on a report; its own warp is known by its number in its block."""
        report.by = report.by._replace(warp=int(report.by.warp) % self._warps)
        self._tell(report)

    # ---------------------------------------------------------------------------------------- fields of events

    def _key(self, waiting: Waiting) -> int:
        move = {"barrier": self.moved_barrier, "mbarrier": self.moved_address, "warpgroup": self.moved_warpgroup}
        return move[waiting.kind](waiting.by, waiting.key) if waiting.kind in move else waiting.key

    def _rank(self, event: Any) -> int:
        """The rank of the block whose memory or barriers an event is about."""
        owner = getattr(event, "owner", -1)
        return self._ranks[event.block if owner < 0 else owner]

    def moved_by(self, event: Any, by: By) -> By:
        """The origin, with the number of the warp in the cluster."""
        found = self._origins.pop(id(by), None)
        if found is not None:
            return found[1]
        warp = Labelled(by.warp + self._warps * self._ranks[by.block], f"{by.warp} of block {by.block}")
        moved = by._replace(warp=warp)
        if isinstance(event, events.CopiesArrive):  # whose arrival comes later, with the same origin
            self._origins[id(by)] = by, moved
        return moved

    def moved_bys(self, event: Any, bys: tuple[By, ...]) -> tuple[By, ...]:
        """Several origins."""
        return tuple(self.moved_by(event, by) for by in bys)

    def moved_numbered(self, event: Any, warps: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of warps."""
        first = self._warps * self._ranks[event.block]
        return tuple(Labelled(first + warp, f"{warp} of block {event.block}") for warp in warps)

    def moved_address(self, event: Any, address: int) -> int:
        """The address of an mbarrier."""
        return self._placed(address, self._rank(event))

    def _placed(self, address: int, rank: int) -> int:
        number = next(number for number, each in self._ranks.items() if each == rank)
        return address if address < 0 else Labelled(address + self._bytes * rank, f"{address} of block {number}")

    def moved_addresses(self, event: Any, addresses: Array) -> Array:
        """The addresses of an access."""
        return self._moved(addresses, self._rank(event)) if event.space == "shared" else addresses

    def _moved(self, addresses: Array, rank: int) -> Array:
        if not rank:
            return addresses
        kept = self._arrays.get((id(addresses), rank))
        if kept is None:
            if len(self._arrays) == _KEPT:
                self._arrays.clear()
            kept = self._arrays[id(addresses), rank] = addresses, addresses + self._bytes * rank
        return kept[1]

    def moved_barrier(self, event: Any, barrier: int) -> int:
        """The number of a barrier."""
        return Labelled(barrier + _BARRIERS * self._ranks[event.block], f"{barrier}")

    def moved_warpgroup(self, event: Any, warpgroup: int) -> int:
        """The number of a warpgroup."""
        return warpgroup + self._warps // _WARPGROUP * self._ranks[event.block]

    def moved_copy(self, event: Any, given: events.Copy) -> events.Copy:
        """A copy."""
        rank = self._ranks[given.by.block if given.owner < 0 else given.owner]
        return replace(
            given,
            by=self.moved_by(event, given.by),
            mbarrier=self._placed(given.mbarrier, rank),
            reads=self._side(given.reads, self._ranks[given.by.block]),
            writes=self._side(given.writes, rank),
        )

    def _side(self, side: tuple[Any, Array, int], rank: int) -> tuple[Any, Array, int]:
        space, addresses, size = side
        return space, self._moved(addresses, rank) if space == "shared" else addresses, size

    def moved_wgmma(self, event: Any, given: events.Wgmma) -> events.Wgmma:
        """An mma_async, always the same object for the same one."""
        kept = self._wgmmas.get(id(given))
        if kept is None:
            rank = self._ranks[given.bys[0].block]
            reads = tuple((role, self._moved(addresses, rank), size) for role, addresses, size in given.reads)
            warpgroup = given.warpgroup + self._warps // _WARPGROUP * rank
            moved = replace(given, bys=self.moved_bys(event, given.bys), reads=reads, warpgroup=warpgroup)
            kept = self._wgmmas[id(given)] = given, moved
        return kept[1]

    def moved_waiting(self, event: Any, waiting: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
        """What warps of one block wait for."""
        return tuple(
            replace(each, by=self.moved_by(event, each.by), key=self._key(each))
            for each in waiting
        )


#: How the fields of events move, by name.
_FIELDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "by": Cluster.moved_by,
    "bys": Cluster.moved_bys,
    "arrived": Cluster.moved_bys,
    "released": Cluster.moved_numbered,
    "address": Cluster.moved_address,
    "addresses": Cluster.moved_addresses,
    "barrier": Cluster.moved_barrier,
    "warpgroup": Cluster.moved_warpgroup,
    "copy": Cluster.moved_copy,
    "wgmma": Cluster.moved_wgmma,
    "waiting": Cluster.moved_waiting,
}
