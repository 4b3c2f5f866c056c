"""Events: what the machine reports to its observers, as it happens.

An observer is a callable that takes one event. The machine reports what happened, in which warp and on which line of
the kernel; observers (the sanitizer, a recorder, a timeline) judge whether it was right. Every event knows its `block`;
events of a warp carry a `by`: block, warp, active lanes and site. Addresses are in bytes: in shared memory from the
start of the block's shared memory, in global memory within the launch's address space. Observers must not change
events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.tracebacks import place

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.instructions.facts import Space
    from tcemu.machine.allocation import Shared
    from tcemu.machine.registers import Registers

Addresses = npt.NDArray[np.int64]
#: The memory order of a strong access; empty for a weak access, which orders nothing.
Order = Literal["", "volatile", "relaxed", "acquire", "release", "acq_rel"]
#: cp.async (groups of a thread), cp.async.bulk and cp.async.bulk.tensor (mbarrier or bulk groups), st.async (mbarrier).
CopyKind = Literal["cp.async", "bulk", "st.async"]
#: Those that go in groups.
GroupKind = Literal["cp.async", "bulk"]

#: Every lane of a warp.
FULL = 0xFFFFFFFF


class Site(NamedTuple):
    """A line of the kernel and, if a front end inlined it, the lines that call it, innermost first."""

    file: str
    line: int
    function: str
    inlined: tuple[Site, ...] = ()

    def __str__(self) -> str:
        return place(self.file, self.line) if self.line else "a line that is not known"


class By(NamedTuple):
    """The origin of an event: the block's and the warp's number, the active lanes as bits, and the line."""

    block: int
    warp: int
    active: int
    site: Site

    def __str__(self) -> str:
        return f"warp {self.warp} of block {self.block} at {self.site}"


class Event:
    """Anything that happened in a block."""

    #: the block's number
    block: int

    @property
    def name(self) -> str:
        """The kind of event."""
        return type(self).__name__


@dataclass(eq=False)
class BlockEvent(Event):
    """Something that happened in a block, but not to one warp alone."""

    block: int


@dataclass(eq=False)
class WarpEvent(Event):
    """Something that a warp did, or that was done for it."""

    by: By

    @property
    def block(self) -> int:  # type: ignore[override]
        """The warp's block."""
        return self.by.block


@dataclass(eq=False)
class WarpsEvent(Event):
    """Something that several warps of a block did together."""

    bys: tuple[By, ...]

    @property
    def block(self) -> int:  # type: ignore[override]
        """The warps' block."""
        return self.bys[0].block


# ------------------------------------------------------------------------------------------------ blocks and warps


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


@dataclass(eq=False)
class Disagreed(WarpsEvent):
    """Two warps of a warpgroup reached different instructions, but all four must execute the same one."""

    instructions: tuple[Instruction, ...]
    #: in what they disagree, if they reached the same instruction: an operand and its values
    operands: str = ""


@dataclass(eq=False)
class DescriptorsDisagreed(WarpsEvent):
    """Two warps of a warpgroup pass different matrix descriptors: the launch ends after this event."""

    bys: tuple[By, By]
    instruction: Instruction
    descriptors: tuple[tuple[int, ...], tuple[int, ...]]


#: What a warp waits for.
WaitKind = Literal["barrier", "cluster", "mbarrier", "warpgroup", "registers", "memory"]


@dataclass(eq=False)
class Waiting:
    """What a blocked warp waits for: a description and, if there is one, a number or an address."""

    by: By
    what: str
    kind: WaitKind
    #: the barrier's number, the address of the mbarrier or of the memory, or the warpgroup's index
    key: int = 0
    #: whether a block that has not started yet could end the wait
    elsewhere: bool = False


@dataclass(eq=False)
class Stuck(Event):
    """No warp of a block can go on, and nothing could wake one: the launch ends after the event of each such block."""

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
    #: names a number of registers that no thread can have
    kind: Literal["bounds", "alignment", "operands", "arrivals", "bytes", "lanes", "cluster", "registers"]
    space: Space
    message: str
    #: the mbarrier's address
    address: int = -1


# ------------------------------------------------------------------------------------------------ memory


@dataclass(eq=False)
class Accessed(WarpEvent):
    """Bytes read or written synchronously through the generic proxy: `size` bytes at each of `addresses` (n,).

    `lanes` (n,) says which lane gave each address. A `collective` access (ldmatrix, stmatrix, wmma) exchanges the bytes
    among all lanes. A strong access has an `order`; atom and red make a reading access, then a writing one. `owner` is
    the number of the block whose shared memory it is, if that is another block of the cluster.
    """

    instruction: Instruction
    space: Space
    writes: bool
    addresses: Addresses
    size: int
    lanes: npt.NDArray[Any]
    collective: bool = False
    order: Order = ""
    #: what st is about to write, uint8 (n, size)
    data: npt.NDArray[np.uint8] | None = None
    owner: int = -1

    @property
    def opcode(self) -> str:
        """The opcode, as tcemu.parse prints it."""
        return self.instruction.opcode


@dataclass(eq=False)
class ProxyFenced(WarpEvent):
    """The active lanes executed fence.proxy.async for these state spaces."""

    spaces: tuple[Space, ...]


@dataclass(eq=False)
class TensorMapFenced(WarpEvent):
    """The active lanes executed fence.proxy.tensormap::generic, or tensormap.cp_fenceproxy, which contains one.

    An acquiring fence is about the tensor map at `place` in global memory.
    """

    semantics: Literal["acquire", "release", "acq_rel"]
    scope: str
    place: int = -1


@dataclass(eq=False)
class TensorMapRead(WarpEvent):
    """A tensor copy reads the tensor map at `place` in global memory, through a proxy of its own."""

    instruction: Instruction
    place: int


@dataclass(eq=False)
class Fenced(WarpEvent):
    """The active lanes executed fence or membar, which orders their strong accesses before it with those after it."""

    semantics: Literal["acq_rel", "sc", "acquire", "release"]
    scope: str


# ------------------------------------------------------------------------------------------------ registers


@dataclass(eq=False)
class Touched(WarpEvent):
    """The kernel itself, or an instruction other than wgmma, read or wrote registers.

    `which` are the numbers of the registers within `registers.bank`. `unwritten` are those that an active lane read
    before anything had written to them in that lane.
    """

    registers: Registers
    writes: bool
    which: tuple[int, ...]
    unwritten: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The registers by their numbers in the warp."""
        first = self.registers.bank.first
        return tuple([first + number for number in self.which]) if first else self.which


# ------------------------------------------------------------------------------------------------ barriers


@dataclass(eq=False)
class Shuffled(WarpEvent):
    """Some lanes of a warp, but not all, executed shfl.sync: `sources` (32,) says from which lane each one reads."""

    instruction: Instruction
    sources: npt.NDArray[Any]


class WarpSynced(WarpEvent):
    """The active lanes have met at bar.warp.sync, and each sees what the others wrote."""


@dataclass(eq=False)
class BarrierArrived(WarpEvent):
    """A warp arrives at a barrier of the block, which expects `threads`; bar.sync waits, bar.arrive does not."""

    barrier: int
    threads: int
    waits: bool


@dataclass(eq=False)
class BarrierCompleted(BlockEvent):
    """As many threads have arrived as the barrier expects; `exited` of them count only because they exited."""

    barrier: int
    arrived: tuple[By, ...]
    #: the warps that waited and now go on
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

    `owner` is the number of the mbarrier's block, if that is another block of the cluster.
    """

    address: int
    phase: int
    count: int
    transaction: int = 0
    #: release, or relaxed: then the arrival publishes nothing
    order: Order = "release"
    owner: int = -1


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


# ------------------------------------------------------------------------------------------------ asynchronous copies


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
    #: the src-size that each of these lanes gave, for cp.async; None if they gave none
    src_size: npt.NDArray[Any] | None = None

    @property
    def opcode(self) -> str:
        """The opcode, as tcemu.parse prints it."""
        return self.instruction.opcode


@dataclass(eq=False)
class CopyIssued(Event):
    """A copy is under way."""

    copy: Copy

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block of the copy's warp."""
        return self.copy.by.block


@dataclass(eq=False)
class CopyLanded(Event):
    """A copy has read its source and written its destination; kernels may rely on it only after a wait."""

    copy: Copy

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block of the copy's warp."""
        return self.copy.by.block


@dataclass(eq=False)
class CopiesCommitted(WarpEvent):
    """commit_group: the warp's copies that are in no group yet become group `group` (0, 1, 2...)."""

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


# ------------------------------------------------------------------------------------------------ wgmma


@dataclass(eq=False)
class Wgmma:
    """One mma_async of a warpgroup: the warps that issued it, their registers, and the bytes that it reads.

    `reads` has, for each operand in shared memory, its role, the addresses (n,) of its elements and their size in
    bytes. `group` is the group that it will be part of. `adds` says whether it reads D: with scale_d = 0 it does not.
    """

    instruction: Instruction
    bys: tuple[By, ...]
    warpgroup: int
    group: int
    d: tuple[Registers, ...]
    a: tuple[Registers, ...]
    reads: tuple[tuple[str, Addresses, int], ...]
    adds: bool = True
    #: the metadata of a sparse one, of each warp
    e: tuple[Registers, ...] = ()


class WgmmaFenced(WarpEvent):
    """A warp executed wgmma.fence."""


@dataclass(eq=False)
class WgmmaIssued(Event):
    """All four warps have issued an mma_async."""

    wgmma: Wgmma

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block of the warpgroup."""
        return self.wgmma.bys[0].block


@dataclass(eq=False)
class WgmmaCommitted(WarpsEvent):
    """wgmma.commit_group: the warpgroup's mma_asyncs that are in no group yet become group `group` (0, 1, 2...)."""

    warpgroup: int
    group: int


@dataclass(eq=False)
class WgmmaWaited(WarpsEvent):
    """wgmma.wait_group: groups before `below` have ended, and the four warps know it."""

    warpgroup: int
    below: int


@dataclass(eq=False)
class OperandChanged(WarpEvent):
    """The kernel changed a plain array that `by` gave as operand `role` while the mma_async was under way."""

    wgmma: Wgmma
    role: str


@dataclass(eq=False)
class WgmmaEnded(Event):
    """An mma_async has read its operands and written its accumulator; kernels may rely on it only after a wait."""

    wgmma: Wgmma

    @property
    def block(self) -> int:  # type: ignore[override]
        """The block of the warpgroup."""
        return self.wgmma.bys[0].block


@dataclass(eq=False)
class RegistersMoved(WarpEvent):
    """setmaxnreg asks for `count` registers per thread, where the warp has `held`.

    An .inc to fewer or a .dec to more is undefined: the warp keeps those that it has.
    """

    action: Literal["inc", "dec"]
    count: int
    held: int


Observer = Callable[[Event], None]
