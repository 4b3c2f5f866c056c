"""The sections of the sanitizer that depend on each other, or on an order.

One that has not been made has received no events. It then has nothing to do when a warp exits and when the block ends;
only barriers count the warps, and the rules about clusters, too.
"""

from __future__ import annotations

from tcemu.sanitizer.barriers import Barriers
from tcemu.sanitizer.block import SECTIONS, Section
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
from tcemu.sanitizer.heap import HeapBytes
from tcemu.sanitizer.matrix_stores import MatrixStores
from tcemu.sanitizer.mbarriers import Mbarriers
from tcemu.sanitizer.membermasks import Membermasks
from tcemu.sanitizer.register_budget import RegisterBudget
from tcemu.sanitizer.shared import SharedMemory
from tcemu.sanitizer.shuffles import Shuffles
from tcemu.sanitizer.stale_loads import StaleLoads
from tcemu.sanitizer.stored_tiles import StoredTiles
from tcemu.sanitizer.tensor_map_reads import TensorMapReads
from tcemu.sanitizer.tensor_maps import TensorMaps
from tcemu.sanitizer.tensor_memory import TensorMemories
from tcemu.sanitizer.undefined import Variables
from tcemu.sanitizer.wgmma import Wgmmas

#: In the order in which they receive events: those that explain the reports of others come first.
ORDERED: tuple[type[Section], ...] = (
    Divergence,
    Faults,
    Deadlocks,
    Barriers,
    ClusterBarriers,
    Mbarriers,
    ClusterExits,
    Copies,
    Wgmmas,
    TensorMemories,
    SharedMemory,
    GlobalRaces,
    HeapBytes,
    GlobalFences,
    GlobalCopies,
    TensorMaps,
    TensorMapReads,
    Flags,
    StaleLoads,
    GlobalMemory,
    Shuffles,
    Membermasks,
    Dependencies,
    Variables,
    StoredTiles,
    MatrixStores,
    RegisterBudget,
)
SECTIONS[:0] = ORDERED
