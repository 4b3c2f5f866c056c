"""Many loads and stores of warps at once, which a front end's native code has made: Accesses.

Almost all of them break no rule, and are noted by a kernel, in the order of the log. The first one that the kernel
cannot note, because somebody must look closer, is passed on as a single event. So the
reports are the same, and come in the same order. Sections that must see each access for themselves get it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tcemu.backend import backend
from tcemu.machine.events import Accessed, Accesses, AccessTable, BarrierCompleted
from tcemu.machine.events.batches import HEAD
from tcemu.sanitizer.barriers import Barriers
from tcemu.sanitizer.batch import NOTHING_FAR, NOTHING_NEAR, ONE, Batch, Passes, Room
from tcemu.sanitizer.block import Block
from tcemu.sanitizer.clocks import THREAD, Array
from tcemu.sanitizer.divergence import Divergence
from tcemu.sanitizer.global_memory import GlobalMemory
from tcemu.sanitizer.global_races import GlobalRaces
from tcemu.sanitizer.global_shadow import Line
from tcemu.sanitizer.grid import thread_of
from tcemu.sanitizer.heap import HeapBytes
from tcemu.sanitizer.plans import Logs, Plan
from tcemu.sanitizer.rules.stores import Stores
from tcemu.sanitizer.shared import SharedMemory
from tcemu.sanitizer.stored_tiles import StoredTiles
from tcemu.sanitizer.tensor_map_reads import TensorMapReads
from tcemu.sanitizer.watch import Watch

if TYPE_CHECKING:
    from types import ModuleType

#: The sections whose work on weak accesses is done here, or which have none: the machine does what is in the heap. If
#: others receive them, each is passed on by itself.
_KNOWN = frozenset({SharedMemory, GlobalRaces, GlobalMemory, HeapBytes, StoredTiles, Stores, TensorMapReads})


class _Kind(NamedTuple):
    """A kind of access, as watch.py tells them apart."""

    space: str
    writes: bool
    order: str = ""
    collective: bool = False
    owner: int = -1


class Batches:
    """The batches of one block.

    `single` receives an event by itself. In a cluster, `place` is where the block's shared memory begins there, and
    `label` gives a warp's number there. `rooms` holds the one room of all blocks, once there is one.
    """

    def __init__(
        self, block: Block, watch: Watch, single: Callable[[Accessed], None], place: int, label: Callable[[int], int],
        rooms: list[Room],
    ) -> None:  # fmt: skip
        from tcemu.native import batches as kernels

        self.kernels: ModuleType = kernels
        self.block, self._watch, self.single, self.place, self.label = block, watch, single, place, label
        if not rooms:
            rooms.append(Room(kernels))
        self.room = rooms[0]
        self._known: dict[tuple[str, bool], bool] = {}
        #: what the kernel needs to know of warps, by plan
        self._warps: dict[tuple[Plan, tuple[int, ...], tuple[int, ...]], Array] = {}
        #: lines of loads from global memory, by table, warp, instruction, mask, and whether all lanes load the same
        self.lines: dict[tuple[AccessTable, int, int, int, int], Line] = {}

    def __call__(self, event: Accesses) -> None:
        """Note all accesses of a log."""
        self.room.reserve(len(event.log) // (8 * HEAD) + 1)
        words, start = event.log.view(np.int64), 0
        while start < len(words):
            logs = Logs(event.block, event.slot, event.table, (event.warp,), (0,), words[start:], (0,))
            start += Batch(self, logs).run()

    def several(self, logs: Logs, passes: Passes) -> bool:
        """Note all accesses of the logs of several warps, unless they must be noted log by log; return whether it did.

        Before an access in a log is passed on by itself, `passes` is called with the number of the log, for what has
        happened before it.
        """
        batch = self._joint(logs, logs.warps)
        if batch is None:
            return False
        batch.run(passes)
        return True

    def onwards(self, logs: Logs, meetings: Sequence[BarrierCompleted]) -> tuple[int, int]:
        """Note the accesses of logs in several legs, until one must be passed on by itself, and where all warps met.

        Returns the log and the word where what is left begins; the legs before this log's are over.
        """
        batch, section = self._joint(logs, range(self.block.clocks.warps)), self.block.section
        if batch is None or not (section(Divergence).calm and section(Barriers).simple(meetings) and batch.far_reads):
            return 0, 0
        return batch.onwards(meetings)

    def _joint(self, logs: Logs, warps: Sequence[int]) -> Batch | None:
        """The logs as one batch, unless they must be noted log by log; these warps must know the same."""
        if not self.block.clocks.alike(warps):
            return None
        self.room.reserve(len(logs.words) // HEAD + 1)
        batch = Batch(self, logs)
        return batch if batch.joint else None

    @property
    def waits(self) -> bool:
        """Whether a log may be noted later, with those of other warps: the block is in no cluster."""
        return len(self.block.numbers) == 1

    @property
    def tiles(self) -> StoredTiles | None:
        """What follows tiles from global memory, as long as it does: barrier by barrier."""
        tiles = self.block.made.get(StoredTiles)
        return tiles if isinstance(tiles, StoredTiles) and tiles.follows else None

    def warps(self, plan: Plan, warps: tuple[int, ...], legs: tuple[int, ...]) -> Array:
        """What the kernel needs to know of the warp of each log."""
        found = self._warps.get((plan, warps, legs))
        if found is None:
            kernels, block = self.kernels, self.block
            found = self._warps[plan, warps, legs] = np.zeros((len(warps), kernels.WARP), np.int64)
            found[:, kernels.LEG], found[:, kernels.OWN] = legs, warps
            found[:, kernels.FAR_OWN] = found[:, kernels.OWN] + thread_of(block.neighbour.number, 0)
            found[:, kernels.OWN] = THREAD + 32 * found[:, kernels.OWN]
            for log in plan.loads:
                found[log, kernels.READER] = block.shadow.row_of(warps[log])
        return found

    def knows(self, space: str, writes: bool) -> bool:
        """Whether all sections that receive such accesses are known here; the first one has come."""
        known = self._known.get((space, writes))
        if known is None:
            handlers = self._watch.of(Accessed, _Kind(space, writes))
            known = all(type(getattr(each, "__self__", None)) in _KNOWN for each in handlers)
            self._known[space, writes] = known
        return known


def compile_all() -> None:
    """Compile the kernels, if they compute, before a launch needs them."""
    if backend(0) != "numba":
        return
    from tcemu.native import batches as kernels

    room, nothing, warps = Room(kernels), np.zeros(0, np.int64), np.zeros((1, kernels.WARP), np.int64)
    kernels.heads(
        nothing.view(np.uint32),
        nothing,
        nothing,
        ONE,
        np.zeros((1, 5), np.int64),
        ONE.copy(),
        0,
        1,
        0,
        room.ats,
        room.sorts,
        room.fields,
    )
    kernels.runs(nothing, room.ats, room.sorts, room.fields, room.listed, room.runs, room.addresses)
    kernels.advance(
        nothing, room.ats, room.sorts, 0, 0, room.fields, warps, room.scalars, *NOTHING_NEAR, *NOTHING_FAR,
        room.listed,
    )  # fmt: skip
