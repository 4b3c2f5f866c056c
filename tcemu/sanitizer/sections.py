"""The sections of a block, each made when it is first needed: most blocks use few of the chapters of the manual."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tcemu.machine.events import Accessed
from tcemu.sanitizer.barriers import Barriers
from tcemu.sanitizer.block import SECTIONS, Block, Section
from tcemu.sanitizer.cluster_barrier import ClusterBarriers
from tcemu.sanitizer.cluster_exit import ClusterExits
from tcemu.sanitizer.copies import Copies
from tcemu.sanitizer.deadlocks import Deadlocks
from tcemu.sanitizer.dependencies import Dependencies
from tcemu.sanitizer.divergence import Divergence
from tcemu.sanitizer.faults import Faults
from tcemu.sanitizer.flags import Flags
from tcemu.sanitizer.global_copies import GlobalCopies
from tcemu.sanitizer.global_fences import GlobalFences
from tcemu.sanitizer.global_memory import GlobalMemory
from tcemu.sanitizer.global_races import GlobalRaces
from tcemu.sanitizer.grid import Grid, Neighbour
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.membermasks import Membermasks
from tcemu.sanitizer.register_budget import RegisterBudget
from tcemu.sanitizer.shared import SharedMemory
from tcemu.sanitizer.shuffles import Shuffles
from tcemu.sanitizer.stale_loads import StaleLoads
from tcemu.sanitizer.tensor_map_reads import TensorMapReads
from tcemu.sanitizer.tensor_maps import TensorMaps
from tcemu.sanitizer.wgmma import Wgmmas


class Sections:
    """The sections of one block, or of one cluster.

    A section of this package that has not been made has received no events. It then has nothing to do when a warp exits
    and when the block ends; only barriers count the warps, and the rules about clusters, too.
    """

    def __init__(self, block: Block, grid: Grid) -> None:
        self.block, self.grid, self.neighbour = block, grid, Neighbour(grid, block.clocks)
        #: those made so far, by their numbers, which are in the order in which they receive events
        self._made: dict[int, Section] = {}
        for name in _NUMBERS if len(block.numbers) > 1 else ("barriers",):
            getattr(self, name)

    def __getattr__(self, name: str) -> Any:
        """A section that has not been needed so far."""
        number = _NUMBERS.get(name)
        if number is None:
            raise AttributeError(name)
        found = vars(self)[name] = self._made[number] = _MAKES[name](self)
        return found

    def compare_copies(self, event: Accessed) -> None:
        """Compare a load or store with the bulk and tensor copies before it."""
        self.global_copies.accessed(event)

    def __len__(self) -> int:
        return len(_NAMES) + len(SECTIONS)

    def __getitem__(self, number: int) -> Section:
        found = self._made.get(number)
        if found is None:
            if number < len(_NAMES):
                found = getattr(self, _NAMES[number])
            else:
                found = self._made[number] = SECTIONS[number - len(_NAMES)](self.block)
        return found

    def last(self, numbers: Iterable[int]) -> list[int]:
        """Those of the sections with these numbers that may have something to do at the end."""
        return [number for number in numbers if number in self._made or number >= len(_NAMES)]

    def close(self) -> None:
        """Forget the sections. They refer to each other: only a collection of garbage would free their memory later."""
        for section in self._made.values():
            vars(section).clear()
        vars(self).clear()


#: How to make each section of a block. Sections that explain the reports of others come first.
_MAKES: dict[str, Callable[[Sections], Section]] = {
    "divergence": lambda its: Divergence(its.block, its.membermasks),
    "faults": lambda its: Faults(its.block),
    "deadlocks": lambda its: Deadlocks(its.block, its.shared, its.mbarriers, its.barriers, its.grid),
    "barriers": lambda its: Barriers(its.block),
    "meetings": lambda its: ClusterBarriers(its.block),
    "mbarriers": lambda its: Mbarriers(its.block, its.shared),
    "exits": lambda its: ClusterExits(its.block, its.meetings, its.mbarriers),
    "copies": lambda its: Copies(its.block, its.shared, its.mbarriers),
    "wgmmas": lambda its: Wgmmas(its.block, its.shared),
    "shared": lambda its: SharedMemory(its.block),
    "races": lambda its: GlobalRaces(its.block, its.grid, its.neighbour, its.compare_copies),
    "fences": lambda its: GlobalFences(its.block, its.grid, its.neighbour),
    "global_copies": lambda its: GlobalCopies(
        its.block, its.grid, its.neighbour, its.races, its.fences, its.mbarriers
    ),
    "tensor_maps": lambda its: TensorMaps(its.block, its.grid, its.neighbour, its.races),
    "tensor_map_reads": lambda its: TensorMapReads(its.block, its.grid, its.neighbour, its.races, its),
    "flags": lambda its: Flags(its.block, its.neighbour),
    "stale_loads": lambda its: StaleLoads(its.block, its.grid, its.neighbour),
    "global_memory": lambda its: GlobalMemory(its.block),
    "shuffles": lambda its: Shuffles(its.block),
    "membermasks": lambda its: Membermasks(its.block),
    "dependencies": lambda its: Dependencies(its.block, its.grid, its.neighbour),
    "register_budget": lambda its: RegisterBudget(its.block),
}
_NAMES = tuple(_MAKES)
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
