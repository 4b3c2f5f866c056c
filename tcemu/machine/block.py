"""A thread block: its warps, its shared memory, its barriers and its asynchronous work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from tcemu.machine.addresses import slot_of
from tcemu.machine.barriers import Barriers
from tcemu.machine.events import BlockEnded, BlockStarted, By, Exited
from tcemu.machine.mbarriers import Mbarriers
from tcemu.machine.meeting import WARPGROUP
from tcemu.machine.memory import Bytes
from tcemu.machine.pending import Pending, Policy
from tcemu.machine.registers import WARP
from tcemu.machine.scheduler import Strand
from tcemu.machine.warpgroup_matrix import Warpgroup

if TYPE_CHECKING:
    from tcemu.machine.allocation import Shared
    from tcemu.machine.cluster import Cluster
    from tcemu.machine.core import Core
    from tcemu.machine.grid import Grid

Index3 = tuple[int, int, int]
State = TypeVar("State")


@dataclass(frozen=True)
class Shape:
    """The properties that all blocks of a launch share."""

    grid: Index3
    block: Index3
    shared: int
    target: str
    policy: Policy
    seed: int
    #: registers per thread at the start, for setmaxnreg
    registers: int
    #: blocks of a cluster; None if the launch has no clusters: then each block is a cluster by itself
    cluster: Index3 | None = None
    #: the names of the arrays in shared memory, if the launch gives them
    names: Shared | None = None

    @cached_property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    @cached_property
    def clusters(self) -> Index3:
        """Clusters of the grid."""
        x, y, z = (whole // part for whole, part in zip(self.grid, self.cluster or (1, 1, 1), strict=True))
        return x, y, z

    @cached_property
    def ranks(self) -> int:
        """Blocks of a cluster."""
        x, y, z = self.cluster or (1, 1, 1)
        return x * y * z

    @cached_property
    def warps(self) -> int:
        """Warps of a block; the last one may be only partly full."""
        return -(-self.threads // WARP)


@dataclass(eq=False)
class Block:
    """A thread block in flight, with its %cluster_ctarank and %cluster_ctaid."""

    grid: Grid
    number: int
    index: Index3
    cluster: Cluster
    rank: int
    cluster_ctaid: Index3
    #: warps that have exited, in that order
    exited: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shape = self.grid.shape
        self.warps = self.shape.warps
        size, names = self.shape.shared, self.shape.names
        beside = {} if names is None else {"beside": names.beside}
        self.shared = Bytes("shared", size, [(0, size, "shared memory")], **beside)
        self.barriers = Barriers(self)
        self.mbarriers = Mbarriers(self)
        self.pending = Pending(self.shape.policy, self.grid.scheduler.strategy)
        self.warpgroups = [Warpgroup(self, number) for number in range(-(-self.warps // WARPGROUP))]
        self._states: dict[Callable[[Block], Any], Any] = {}

    @cached_property
    def slot(self) -> int:
        """Its slot in the window of generic addresses in shared memory."""
        return slot_of(self.cluster.numbers[0], self.rank)

    def state(self, kind: Callable[[Block], State]) -> State:
        """The state that the module of a chapter keeps for each block: `kind(block)`, created at the first call.

        If it has a method `exits(by)`, that is called when the last lanes of the block have exited.
        """
        state: State | None = self._states.get(kind)
        if state is None:
            state = self._states[kind] = kind(self)
        return state

    def start(self, bodies: Sequence[tuple[Core, Callable[[], None]]]) -> None:
        """Add the block to the scheduler: each warp will run its body."""
        shape, memory = self.shape, self.grid.memory
        launched = shape.threads, shape.shared, shape.target, self.shared.seen, shape.names
        cluster, grid = self.cluster.numbers if shape.cluster else (), self.grid
        grid.tell(
            BlockStarted, self.number, *launched, cluster, memory.seen, memory.ranges,
            grid.launch, grid.kernel, grid.ended_before, tuple(memory.pointers),
        )  # fmt: skip
        strands = []
        for core, body in bodies:
            core.strand = Strand(self.number, core.index, body)
            strands.append(core.strand)
        self.grid.scheduler.add(self.number, self.pending, strands, self._end)

    @property
    def gone(self) -> bool:
        """Whether all its warps have exited, so that its shared memory may belong to another block."""
        return len(self.exited) == self.warps

    def left(self, by: By, remaining: int) -> None:
        """Lanes of a warp have exited; `remaining` is the mask of the others."""
        whole = not remaining
        if whole:
            self.exited.append(by.warp)
        self.grid.tell(Exited, by, whole)
        if self.gone:
            for state in self._states.values():
                exits = getattr(state, "exits", None)
                if exits is not None:
                    exits(by)
        self.cluster.barrier.exited(by)
        if whole:
            self.barriers.warp_exited()
        else:
            self.barriers.lanes_exited(by.warp, remaining)

    def _end(self) -> None:
        self.pending.finish_all()
        self.grid.tell(BlockEnded, self.number)
        self.grid.ended(self)
