"""Events of blocks and warps: their beginning and end, what they issue, wait for and cannot do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.machine.events.origins import BlockEvent, By, Event, WarpEvent, WarpsEvent

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.instructions.facts import Space
    from tcemu.machine.allocation import Shared
    from tcemu.machine.global_memory import Pointer
    from tcemu.machine.registers import Registers

__all__ = [
    "BlockEnded",
    "BlockStarted",
    "DescriptorsDisagreed",
    "Disagreed",
    "Exited",
    "Faulted",
    "Issued",
    "Ordinary",
    "RegistersMoved",
    "Sourced",
    "Stretch",
    "Stuck",
    "WaitKind",
    "Waiting",
]


@dataclass(eq=False)
class BlockStarted(BlockEvent):
    """A block of `threads` threads with `shared` bytes of shared memory begins.

    `cluster` has the numbers of the blocks of its cluster, by rank; it is empty if the launch has no clusters.
    """

    threads: int
    shared: int
    target: str
    #: the bytes of its shared memory as they are now, read-only
    content: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8), repr=False)
    #: the names of what lies there, if the launch named it
    names: Shared | None = None
    cluster: tuple[int, ...] = ()
    #: the bytes of global memory as they are now, read-only, the same object for all blocks of a run
    memory: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8), repr=False)
    #: the arrays of global memory as (first, end, name)
    arrays: tuple[tuple[int, int, str], ...] = ()
    #: the number of its launch in the stream, the kernel's name, and the launches that had ended before this one began
    launch: int = 0
    kernel: str = ""
    ended: tuple[int, ...] = ()
    #: the pointers to the arrays, which know their shapes; an array that was given twice has two
    pointers: tuple[Pointer, ...] = ()

    @property
    def warps(self) -> int:
        """The number of its warps; the last one may be only partly full."""
        return -(-self.threads // 32)


class BlockEnded(BlockEvent):
    """All warps of a block have exited, and all their asynchronous work has ended."""


@dataclass(eq=False)
class Exited(WarpEvent):
    """The active lanes of `by` have exited; `whole` says whether this ended the warp."""

    whole: bool = True


@dataclass(eq=False)
class Issued(WarpEvent):
    """A warp begins to execute an instruction; events for its effects follow.

    `operands` are the operands in registers, by role.
    """

    instruction: Instruction
    operands: tuple[tuple[str, Registers], ...] = ()

    @property
    def opcode(self) -> str:
        """The opcode, as tcemu.parse prints it."""
        return self.instruction.opcode


class Ordinary(NamedTuple):
    """An ordinary instruction of a stretch; `reads` are those before it there whose results it reads, from 0."""

    opcode: str
    reads: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Stretch:
    """The ordinary instructions between two events of a warp, and what they read from before: see Sourced.

    `again` is whether the warp has gone back to an earlier place of the program on the way, as in a loop.
    """

    instructions: tuple[Ordinary, ...]
    sources: tuple[tuple[int, int], ...]
    again: bool


@dataclass(eq=False)
class Sourced(WarpEvent):
    """Whose results the instruction reads that the warp issues next: a front end that runs a program knows.

    `number` is the instruction's number in the program. `sources` are earlier instructions of the program, each with
    how often it has been executed since: 0 if its latest result is read. If ways meet, those of all ways are there.
    `since(last)` are the ordinary instructions that a warp has executed since it began the one with the number `last`
    (-1: since the program's start). Only observers get the event whose attribute `also` contains it.
    """

    program: str
    number: int
    sources: tuple[tuple[int, int], ...]
    since: Callable[[int], Stretch]


@dataclass(eq=False)
class Disagreed(WarpsEvent):
    """Two warps of a warpgroup reached different instructions, but all four must execute the same one."""

    instructions: tuple[Instruction, ...]
    #: where they disagree, if they reached the same instruction: an operand and its values
    operands: str = ""


@dataclass(eq=False)
class DescriptorsDisagreed(WarpsEvent):
    """Two warps of a warpgroup pass different matrix descriptors: the launch ends after this event."""

    bys: tuple[By, By]
    instruction: Instruction
    descriptors: tuple[tuple[int, ...], tuple[int, ...]]


#: What lanes wait for. columns: free ones of Tensor Memory; lanes: an active lane, in a loop that none executes;
#: membermask: other lanes of the warp, or of a membermask.
WaitKind = Literal[
    "barrier", "cluster", "mbarrier", "warpgroup", "registers", "memory", "lanes", "membermask", "grid", "columns",
]  # fmt: skip


@dataclass(eq=False)
class Waiting:
    """What a blocked warp, or a group of its lanes, waits for: a description and, if there is one, a number."""

    by: By
    what: str
    kind: WaitKind
    #: the barrier's number, the address of the mbarrier or of the memory, or the warpgroup's index
    key: int = 0
    #: whether a block that has not started yet could end the wait
    elsewhere: bool = False


@dataclass(eq=False)
class Stuck(Event):
    """No warp of a block can continue, and nothing can wake one: the launch ends after the event of each such block."""

    waiting: tuple[Waiting, ...]
    #: why no further block starts, if one could end a wait
    full: str = ""

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block whose warps wait."""
        return self.waiting[0].by.block


@dataclass(eq=False)
class Faulted(WarpEvent):
    """An instruction that the hardware, or the assembler, does not execute: the launch ends after this event."""

    instruction: Instruction
    #: operands: there is no mbarrier at the address; arrivals: its phase expects fewer arrivals; bytes: its tx-count
    #: overflows; lanes: the membermask leaves out a lane that executes the instruction, or names one that does not;
    #: cluster: a thread arrives twice at the barrier of the cluster, or waits without an arrival; registers: setmaxnreg
    #: names a number of registers that no thread can have; exited: the block whose shared memory it uses is gone; rank:
    #: the cluster has no such block; apart: data and mbarrier are in different blocks; overlap: lanes of one stmatrix
    #: store different rows at one address; warpgroup: the block has too few warps for the warpgroup; map: a tensor copy
    #: uses bytes that are not a tensor map; quarter: a warp uses lanes of Tensor Memory that another warp reaches;
    #: columns: the block has not allocated columns that it uses; allocation: columns are allocated or freed against the
    #: rules; idesc, descriptor: an instruction descriptor or a matrix descriptor contradicts its instruction; pair: the
    #: block has no peer, is not the leader, or has executed an instruction with another .cta_group
    kind: Literal[
        "bounds", "exited", "rank", "apart", "overlap", "alignment", "operands", "arrivals", "bytes", "lanes",
        "cluster", "registers", "warpgroup", "map", "quarter", "columns", "allocation", "idesc",
        "descriptor", "pair",
    ]  # fmt: skip
    #: the memory that it accesses; None if the fault is about something else
    space: Space | None
    message: str
    #: the address of the mbarrier or of the tensor map
    address: int = -1


@dataclass(eq=False)
class RegistersMoved(WarpEvent):
    """setmaxnreg requests `count` registers per thread; the warp has `held`.

    An .inc to fewer or a .dec to more is undefined: the warp keeps those that it has.
    """

    action: Literal["inc", "dec"]
    count: int
    held: int
