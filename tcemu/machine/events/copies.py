"""Events of asynchronous copies, from the issue to the wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tcemu.machine.events.memory import Addresses
from tcemu.machine.events.origins import By, Event, WarpEvent

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.instructions.facts import Space
    from tcemu.machine.tensor_map import TensorMap

__all__ = [
    "CopiesArrive",
    "CopiesCommitted",
    "CopiesWaited",
    "Copy",
    "CopyEvent",
    "CopyIssued",
    "CopyKind",
    "CopyLanded",
    "GroupKind",
]

#: cp.async (groups of a thread), cp.async.bulk and cp.async.bulk.tensor (mbarrier or bulk groups), st.async (mbarrier).
CopyKind = Literal["cp.async", "bulk", "st.async"]
#: Those that complete in groups.
GroupKind = Literal["cp.async", "bulk"]


@dataclass(eq=False)
class Copy:
    """An asynchronous copy. `reads` and `writes` are (space, addresses (n,), size) of its source and destination.

    cp.async belongs to `group` of its warp and goes through the generic proxy; bulk copies go through the async proxy
    and end on the mbarrier at `mbarrier` (phase `phase` when it was issued) or in `group` of bulk copies of its warp.
    st.async and red.async end on an mbarrier too, but go through the generic proxy. `owner` is the number of the block
    that has the destination and the mbarrier, if that is another block of the cluster; a multicast is one copy for each
    destination.
    """

    kind: CopyKind
    instruction: Instruction
    by: By
    reads: tuple[Space, Addresses, int]
    writes: tuple[Space, Addresses, int]
    bytes: int
    group: int = -1
    mbarrier: int = -1
    phase: int = -1
    #: the lane that gave each address, for cp.async and st.async
    lanes: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64))
    owner: int = -1
    #: the number of the block that has the mbarrier, -1 for the warp's own; None: the one with the destination. Only
    #: copies of a pair (.cta_group::2) have them in different blocks
    counter: int | None = None
    #: which destination of a multicast it has; the first one's copy reads for all
    number: int = 0
    #: the tensor map of a tensor copy, and the coordinates of its box
    tensor_map: TensorMap | None = None
    coordinates: tuple[int, ...] = ()
    #: the src-size that each of these lanes gave, for cp.async; None if they gave none
    src_size: npt.NDArray[Any] | None = None

    @property
    def opcode(self) -> str:
        """The opcode, as tcemu.parse prints it."""
        return self.instruction.opcode


@dataclass(eq=False)
class CopyEvent(Event):
    """Something happened to a copy."""

    copy: Copy

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block of the copy's warp."""
        return self.copy.by.block


class CopyIssued(CopyEvent):
    """A copy begins."""


class CopyLanded(CopyEvent):
    """A copy has read its source and written its destination; kernels may rely on it only after a wait."""


@dataclass(eq=False)
class CopiesCommitted(WarpEvent):
    """commit_group: the warp's copies that are not in a group yet become group `group` (0, 1, 2...)."""

    kind: GroupKind
    group: int


@dataclass(eq=False)
class CopiesWaited(WarpEvent):
    """wait_group: groups before `below` have ended or, with `read`, have read their sources."""

    kind: GroupKind
    below: int
    read: bool = False


@dataclass(eq=False)
class CopiesArrive(WarpEvent):
    """cp.async.mbarrier.arrive: the mbarrier at `address` gets arrivals once the warp's cp.async so far have ended."""

    address: int
    phase: int
