"""The blocks of a cluster as one block with all their warps, shared memory, barriers and mbarriers.

The rules are about one block. In a cluster, a warp may also reach the shared memory and the mbarriers of the other
blocks, and barrier.cluster orders the accesses of all threads. Here each event of a cluster is passed on as if one
block had all of it: warps, warpgroups, barriers and shared memory of the block with rank 1 follow those of rank 0, and
so on. Numbers keep the text by which the kernel knows them, for the reports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tcemu.machine import events
from tcemu.machine.events import BlockStarted, By, Event, Waiting
from tcemu.machine.labels import Labelled
from tcemu.sanitizer.block import Block
from tcemu.sanitizer.report import Report
from tcemu.sanitizer.shadow import Shadow

Array = npt.NDArray[Any]
T = TypeVar("T")
#: Returns a field of an event as that of one block, of the cluster, the event and the field.
Move = Callable[[Any, Any, Any], Any]
#: By(...), which goes through a function of Python, takes twice as long.
_by = tuple.__new__

#: Barriers of a block; warps of a warpgroup; bytes that the shared memory of a block is rounded up to.
_BARRIERS, _WARPGROUP, _UNIT = 16, 4, 128
#: How many arrays of addresses are kept moved: a pipeline passes the same ones again and again.
_KEPT = 256


class ClusterShadow(Shadow):
    """The shared memory of all blocks of a cluster, `size` bytes for each."""

    def __init__(self, size: int, numbers: tuple[int, ...], tiles: Any) -> None:
        super().__init__(size * len(numbers), tiles)
        self._size, self._numbers = size, numbers

    def place(self, address: int, size: int) -> str:
        """``bytes 16 to 31``, in the block that has them."""
        return super().place(address % self._size, size)

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
        #: the warps of each block, with their numbers in the cluster
        self._numbered = {
            number: [Labelled(rank * self._warps + warp, f"{warp} of block {number}") for warp in range(started.warps)]
            for rank, number in enumerate(numbers)
        }
        self._tell = tell
        size = self._bytes * len(numbers)
        threads, nothing = 32 * self._warps * len(numbers), np.zeros(0, np.uint8)
        whole = replace(started, threads=threads, shared=size, content=nothing, names=None)
        self.block = Block(whole, self._report, tiles)
        self.block.numbers = numbers
        self.block.shadow = ClusterShadow(self._bytes, numbers, tiles)
        absent = [0] * (self._warps - started.warps)
        present = [(1 << min(32, started.threads - 32 * warp)) - 1 for warp in range(started.warps)]
        self.block.clocks.present = (present + absent) * len(numbers)
        #: addresses, wgmmas and origins that have been moved, by identity; each keeps the original alive
        self._arrays: dict[tuple[int, int], tuple[Array, Array]] = {}
        #: addresses of mbarriers, by those in their block and its rank
        self._placings: dict[tuple[int, int], Labelled] = {}
        self._wgmmas: dict[int, tuple[events.Wgmma, events.Wgmma]] = {}
        self._operations: dict[int, tuple[events.Tcgen05, events.Tcgen05]] = {}
        self._origins: dict[int, tuple[By, By]] = {}
        #: the origins of the latest commits of tcgen05, whose arrivals come later with the same origin
        self._commits: dict[int, tuple[By, By]] = {}

    def __call__(self, event: Event) -> Event | None:
        """The event as that of one block; None for the end of a block that is not the last."""
        if isinstance(event, events.BlockEnded):
            self._running.discard(event.block)
            return None if self._running else event
        kind: Any = type(event)
        fields = vars(event)
        moved = _changed(event, {name: move(self, event, fields[name]) for name, move in _moves(kind)})
        if isinstance(event, events.WgmmaEnded):
            self._wgmmas.pop(id(event.wgmma), None)
        if isinstance(event, events.Tcgen05Ended) and event.operation.group:
            self._operations.pop(id(event.operation), None)
        if isinstance(event, events.Tcgen05Waited):  # what ld and st have in place of a commit
            for each in event.operations:
                self._operations.pop(id(each), None)
        return moved

    def placing(self, number: int) -> tuple[int, Callable[[int], int]]:
        """Where a block's shared memory begins, and a function that gives the number of a warp of the block."""
        return self._bytes * self._ranks[number], self._numbered[number].__getitem__

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
        if self._origins and (kept := self._origins.pop(id(by), None)) is not None:
            return kept[1]
        if self._commits and (kept := self._commits.get(id(by))) is not None:
            return kept[1]
        moved = _by(By, (by.block, self._numbered[by.block][by.warp], by.active, by.site))
        if isinstance(event, events.CopiesArrive):  # whose arrival comes later, with the same origin
            self._origins[id(by)] = by, moved
        return moved

    def moved_bys(self, event: Any, bys: tuple[By, ...]) -> tuple[By, ...]:
        """Several origins."""
        return tuple([self.moved_by(event, by) for by in bys])

    def moved_numbered(self, event: Any, warps: tuple[int, ...]) -> tuple[int, ...]:
        """The numbers of warps."""
        numbered = self._numbered[event.block]
        return tuple([numbered[warp] for warp in warps])

    def moved_address(self, event: Any, address: int) -> int:
        """The address of an mbarrier."""
        return self._placed(address, self._rank(event))

    def _placed(self, address: int, rank: int) -> int:
        if address < 0:
            return address
        placed = self._placings.get((address, rank))
        if placed is None:
            text = f"{address} of block {self.block.numbers[rank]}"
            placed = self._placings[address, rank] = Labelled(address + self._bytes * rank, text)
        return placed

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

    def moved_copy(self, event: Any, copy: events.Copy) -> events.Copy:
        """A copy."""
        rank = self._ranks[copy.by.block if copy.owner < 0 else copy.owner]
        owner = copy.owner if copy.counter is None else copy.counter
        moved = {
            "by": self.moved_by(event, copy.by),
            "mbarrier": self._placed(copy.mbarrier, self._ranks[copy.by.block if owner < 0 else owner]),
            "reads": self._region(copy.reads, self._ranks[copy.by.block]),
            "writes": self._region(copy.writes, rank),
        }
        return _changed(copy, moved)

    def _region(self, region: tuple[Any, Array, int], rank: int) -> tuple[Any, Array, int]:
        space, addresses, size = region
        return space, self._moved(addresses, rank) if space == "shared" else addresses, size

    def moved_commit(self, event: Any, commit: events.Tcgen05Commit) -> events.Tcgen05Commit:
        """A commit of tcgen05."""
        moved = self.moved_by(event, commit.by)
        if len(self._commits) == _KEPT:
            del self._commits[next(iter(self._commits))]
        self._commits[id(commit.by)] = commit.by, moved
        return _changed(commit, {"by": moved})

    def moved_operation(self, event: Any, operation: events.Tcgen05) -> events.Tcgen05:
        """An operation of tcgen05, always the same object for the same one; it may use the memories of two blocks."""
        kept = self._operations.get(id(operation))
        if kept is None:
            shared = tuple(
                (role, block, self._moved(addresses, self._ranks[block]), size)
                for role, block, addresses, size in operation.shared
            )
            moved = {"by": self.moved_by(event, operation.by), "shared": shared}
            kept = self._operations[id(operation)] = operation, _changed(operation, moved)
        return kept[1]

    def moved_operations(self, event: Any, operations: tuple[events.Tcgen05, ...]) -> tuple[events.Tcgen05, ...]:
        """Several of them."""
        return tuple([self.moved_operation(event, each) for each in operations])

    def moved_wgmma(self, event: Any, wgmma: events.Wgmma) -> events.Wgmma:
        """An mma_async, always the same object for the same one."""
        kept = self._wgmmas.get(id(wgmma))
        if kept is None:
            rank = self._ranks[wgmma.bys[0].block]
            reads = tuple((role, self._moved(addresses, rank), size) for role, addresses, size in wgmma.reads)
            warpgroup = wgmma.warpgroup + self._warps // _WARPGROUP * rank
            moved = {"bys": self.moved_bys(event, wgmma.bys), "reads": reads, "warpgroup": warpgroup}
            kept = self._wgmmas[id(wgmma)] = wgmma, _changed(wgmma, moved)
        return kept[1]

    def moved_waiting(self, event: Any, waiting: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
        """What warps of one block wait for."""
        return tuple(replace(each, by=self.moved_by(event, each.by), key=self._key(each)) for each in waiting)


def _changed(record: T, values: dict[str, Any]) -> T:
    """A copy of an object with other values of some fields. dataclasses.replace takes ten times as long."""
    made = object.__new__(type(record))
    made.__dict__ = {**record.__dict__, **values}
    return made


@cache
def _moves(kind: type[Event]) -> tuple[tuple[str, Move], ...]:
    """The fields of a kind of event that move, and how."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # every kind is a dataclass
    return tuple((name, move) for name, move in _FIELDS.items() if name in names)


#: How the fields of events move, by name.
_FIELDS: dict[str, Move] = {
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
    "commit": Cluster.moved_commit,
    "operation": Cluster.moved_operation,
    "operations": Cluster.moved_operations,
    "waiting": Cluster.moved_waiting,
}
