"""Events of barriers: lanes of a warp, warps of a block, blocks of a cluster, mbarriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from tcemu.machine.events.memory import Order
from tcemu.machine.events.origins import BlockEvent, By, WarpEvent, WarpsEvent

if TYPE_CHECKING:
    from tcemu.instructions import Instruction

__all__ = [
    "BarrierArrived",
    "BarrierCompleted",
    "BarrierDisagreed",
    "BarriersParted",
    "ClusterArrived",
    "ClusterWaited",
    "LanesMissed",
    "MbarrierArrived",
    "MbarrierCompleted",
    "MbarrierInitialised",
    "MbarrierInvalidated",
    "MbarrierWaited",
    "MbarriersFenced",
    "Shuffled",
    "WarpSynced",
]


@dataclass(eq=False)
class Shuffled(WarpEvent):
    """Some lanes of a warp, but not all, executed shfl.sync: `sources` (32,) says from which lane each one reads.

    `membermask` has one bit for each lane that it names.
    """

    instruction: Instruction
    sources: npt.NDArray[Any]
    membermask: int


@dataclass(eq=False)
class LanesMissed(WarpEvent):
    """Lanes exit while those of `by` wait at an instruction; of the exiting ones its membermask names `exited`."""

    opcode: str
    membermask: int
    exited: int


@dataclass(eq=False)
class WarpSynced(WarpEvent):
    """The active lanes have met at bar.warp.sync, and each sees what the others wrote."""


@dataclass(eq=False)
class BarrierArrived(WarpEvent):
    """A warp arrives at a barrier of the block, which expects `threads`; bar.sync waits, bar.arrive does not.

    If its lanes arrive one after the other, the instruction is that of the last ones.
    """

    instruction: Instruction
    barrier: int
    threads: int
    waits: bool


@dataclass(eq=False)
class BarrierCompleted(BlockEvent):
    """As many threads have arrived as the barrier expects; `exited` of them count only because they exited."""

    barrier: int
    arrived: tuple[By, ...]
    #: the warps that waited and may now continue
    released: tuple[int, ...]
    exited: int = 0


@dataclass(eq=False)
class BarrierDisagreed(WarpsEvent):
    """A warp gives a barrier a different number of threads from the first warp: the launch ends after this event."""

    bys: tuple[By, By]
    barrier: int
    threads: tuple[int, int]


@dataclass(eq=False)
class BarriersParted(WarpsEvent):
    """Lanes of a warp arrive at one barrier while others wait at another: the launch ends after this event."""

    bys: tuple[By, By]
    barriers: tuple[int, int]


@dataclass(eq=False)
class ClusterArrived(WarpEvent):
    """The active lanes arrive at the barrier of the cluster, in its phase `phase`; .relaxed publishes nothing."""

    phase: int
    order: Literal["release", "relaxed"]


@dataclass(eq=False)
class ClusterWaited(WarpEvent):
    """All threads of the cluster have arrived in phase `phase`, for which the active lanes have waited."""

    phase: int


@dataclass(eq=False)
class MbarrierInitialised(WarpEvent):
    """mbarrier.init: the object at `address` expects `count` arrivals per phase; others see it after a barrier."""

    address: int
    count: int


class MbarriersFenced(WarpEvent):
    """The active lanes executed fence.mbarrier_init: bulk copies see the mbarriers that these lanes initialised."""


@dataclass(eq=False)
class MbarrierInvalidated(WarpEvent):
    """mbarrier.inval: the bytes at `address` are ordinary memory again."""

    address: int


@dataclass(eq=False)
class MbarrierArrived(WarpEvent):
    """`count` arrivals in phase `phase` (0, 1, 2...), after an expect_tx of `transaction` more bytes.

    If `transaction` is negative, mbarrier.complete_tx has counted so many bytes as copied.
    `owner` is the number of the mbarrier's block, if that is another block of the cluster.
    """

    address: int
    phase: int
    count: int
    transaction: int = 0
    #: release, or relaxed: then the arrival publishes nothing
    order: Order = "release"
    owner: int = -1
    #: the scope, if the opcode names one
    scope: str = ""


@dataclass(eq=False)
class MbarrierCompleted(BlockEvent):
    """Phase `phase` has all its arrivals and bytes."""

    address: int
    phase: int


@dataclass(eq=False)
class MbarrierWaited(WarpEvent):
    """A wait or test found phase `phase` complete: the warp sees the copies and what happened before the arrivals.

    With the `order` relaxed, it sees none of these until it executes a fence.
    """

    address: int
    phase: int
    order: Order = "acquire"
    #: the scope, if the opcode names one
    scope: str = ""
