"""Events of Tensor Memory and of tcgen05, from the allocation to the arrival at an mbarrier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt

from tcemu.errors import span
from tcemu.machine.events.memory import Addresses
from tcemu.machine.events.origins import FULL, By, Event, WarpEvent

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.machine.registers import Registers

__all__ = [
    "Area",
    "Tcgen05",
    "Tcgen05Arrived",
    "Tcgen05Commit",
    "Tcgen05Committed",
    "Tcgen05Ended",
    "Tcgen05Event",
    "Tcgen05Fenced",
    "Tcgen05Issued",
    "Tcgen05Kind",
    "Tcgen05Waited",
    "TensorAllocated",
    "TensorFreed",
    "TensorRelinquished",
]

#: ld and st end with a wait; mma, cp and shift when an mbarrier says so.
Tcgen05Kind = Literal["ld", "st", "mma", "cp", "shift"]


@dataclass(eq=False)
class Area:
    """Cells of a block's Tensor Memory: all of these lanes in all of these columns, both in ascending order.

    `bits` are the bits of each cell that are meant; `role` is the operand: d, a, scale_a, scale_b, sp_meta or taddr.
    """

    block: int
    lanes: npt.NDArray[Any]
    columns: npt.NDArray[Any]
    role: str = "taddr"
    bits: int = FULL

    def __str__(self) -> str:
        lanes, columns = (span(int(each[0]), int(each[-1])) for each in (self.lanes, self.columns))
        return f"lanes {lanes} and columns {columns}"


@dataclass(eq=False)
class Tcgen05:
    """One asynchronous operation of a warp on Tensor Memory.

    `shared` has, for each operand in shared memory, its role, the number of the block, the addresses (n,) and the bytes
    at each. `after` are the earlier operations of the same warp that have certainly ended when this one begins, because
    the manual calls the two pipelined; so have those that they are after. If several lanes execute it, each of them
    does: `by.active` says which.
    """

    kind: Tcgen05Kind
    instruction: Instruction
    by: By
    reads: tuple[Area, ...] = ()
    writes: tuple[Area, ...] = ()
    shared: tuple[tuple[str, int, Addresses, int], ...] = ()
    #: the registers that ld writes or st reads
    registers: Registers | None = None
    #: the instruction descriptor of mma, and whether it adds to D
    idesc: int = 0
    adds: bool = False
    #: the descriptors of tiles in shared memory, by role
    descriptors: dict[str, int] = field(default_factory=dict)
    after: tuple[Tcgen05, ...] = field(default=(), repr=False)
    #: what must be equal for two mmas to be pipelined: D's address and the shape
    key: object = None
    #: whether the address of ld or st leaves out the lane, which the machine added: that of the warp's own quarter
    laneless: bool = False

    @property
    def group(self) -> str:
        """Its .cta_group; empty for ld and st."""
        return self.instruction.words.get("cta_group", "")


@dataclass(eq=False)
class Tcgen05Event(Event):
    """Something happened to an operation."""

    operation: Tcgen05

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block of the operation's warp."""
        return self.operation.by.block


class Tcgen05Issued(Tcgen05Event):
    """An operation begins."""


class Tcgen05Ended(Tcgen05Event):
    """An operation has read and written everything; kernels may rely on it only after a wait."""


@dataclass(eq=False)
class Tcgen05Waited(WarpEvent):
    """tcgen05.wait: all tcgen05.ld or tcgen05.st of the warp so far have ended; these had not been waited for."""

    kind: Literal["ld", "st"]
    operations: tuple[Tcgen05, ...]


@dataclass(eq=False)
class Tcgen05Commit:
    """A tcgen05.commit of one thread: the operations that it covers, and the mbarriers that get an arrival each.

    An mbarrier is the number of its block, its address there and the phase at the time of the commit.
    """

    instruction: Instruction
    by: By
    operations: tuple[Tcgen05, ...]
    mbarriers: tuple[tuple[int, int, int], ...]


@dataclass(eq=False)
class Tcgen05Committed(Event):
    """A thread executes tcgen05.commit, which implies tcgen05.fence::before_thread_sync."""

    commit: Tcgen05Commit

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block of the thread."""
        return self.commit.by.block


class Tcgen05Arrived(Tcgen05Committed):
    """All operations of a commit have ended, and its mbarriers get their arrivals (MbarrierArrived, relaxed)."""


@dataclass(eq=False)
class Tcgen05Fenced(WarpEvent):
    """tcgen05.fence::before_thread_sync or ::after_thread_sync."""

    which: Literal["before_thread_sync", "after_thread_sync"]


@dataclass(eq=False)
class TensorAllocated(WarpEvent):
    """The block gets `columns` columns from `start` on; the address is written to shared memory at `address`.

    A pair of blocks (.cta_group::2) gets the same columns in both; each block has an event of its own.
    """

    instruction: Instruction
    start: int
    columns: int
    address: int


@dataclass(eq=False)
class TensorFreed(WarpEvent):
    """The block frees columns."""

    instruction: Instruction
    start: int
    columns: int


class TensorRelinquished(WarpEvent):
    """The block gives up the right to allocate."""
