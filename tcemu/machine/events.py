"""Events: what the machine reports to its observers, as it happens.

An observer is a callable that takes one event. The machine reports what happened, in which warp and on which line of
the kernel; observers (the sanitizer, a recorder, a timeline) judge whether it was right. Events of a warp carry a `by`:
block, warp, active lanes and site. Addresses are in bytes: in shared memory from the start of the block's shared
memory, in global memory within the launch's address space. Observers must not change events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.machine.registers import Registers

Addresses = npt.NDArray[np.int64]
Space = Literal["shared", "global"]
#: The memory order of a strong access; empty for a weak access, which orders nothing.
Order = Literal["", "volatile", "relaxed", "acquire", "release", "acq_rel"]
#: cp.async (groups of a thread), cp.async.bulk and cp.async.bulk.tensor (mbarrier or bulk groups).
CopyKind = Literal["cp.async", "bulk"]

#: Every lane of a warp.
FULL = 0xFFFFFFFF


class Site(NamedTuple):
    """A line of the kernel and, if a front end inlined it, the lines that call it, innermost first."""

    file: str
    line: int
    function: str
    inlined: tuple[Site, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else "a line that is not known"


class By(NamedTuple):
    """The origin of an event: the numbers of block and warp, the active lanes as bits, and the line."""

    block: int
    warp: int
    active: int
    site: Site

    def __str__(self) -> str:
        return f"warp {self.warp} of block {self.block} at {self.site}"


@dataclass(eq=False)
class Event:
    """Anything that happened in a block."""

    @property
    def name(self) -> str:
        """The kind of event."""
        return type(self).__name__


# ------------------------------------------------------------------------------------------------ blocks and warps


@dataclass(eq=False)
class BlockStarted(Event):
    """A block of `warps` warps with `shared` bytes begins; `threads` is the number of its threads."""

    block: int
    threads: int
    shared: int
    target: str

    @property
    def warps(self) -> int:
        """Its warps; the last one may be only partly full."""
        return -(-self.threads // 32)


@dataclass(eq=False)
class BlockEnded(Event):
    """All warps of a block have exited, and all their asynchronous work has ended."""

    block: int


@dataclass(eq=False)
class Exited(Event):
    """The lanes that are active in `by` have exited; `whole` says whether that was the end of the warp."""

    by: By
    whole: bool = True


@dataclass(eq=False)
class Issued(Event):
    """A warp begins to execute an instruction; the events of what it does follow.

    `operands` are the operands that are registers, by role.
    """

    by: By
    instruction: Instruction
    operands: tuple[tuple[str, Registers], ...] = ()

    @property
    def opcode(self) -> str:
        """The opcode, as tcemu.parse prints it."""
        return self.instruction.opcode


@dataclass(eq=False)
class Disagreed(Event):
    """Two warps of a warpgroup reached different instructions, but all four must execute the same."""

    bys: tuple[By, ...]
    instructions: tuple[Instruction, ...]


@dataclass(eq=False)
class DescriptorsDisagreed(Event):
    """Two warps of a warpgroup give different matrix descriptors: the launch ends after this event."""

    bys: tuple[By, By]
    instruction: Instruction
    descriptors: tuple[tuple[int, ...], tuple[int, ...]]


#: What a warp waits for.
WaitKind = Literal["barrier", "mbarrier", "warpgroup", "registers", "memory"]


@dataclass(eq=False)
class Waiting:
    """What a blocked warp waits for: a description and, if there is one, a number or an address."""

    by: By
    what: str
    kind: WaitKind
    #: barrier number, address of the mbarrier or the memory, or the warpgroup's index
    key: int = 0


@dataclass(eq=False)
class Stuck(Event):
    """No warp can go on, and no asynchronous work could wake one: the launch ends after this event."""

    waiting: tuple[Waiting, ...]


@dataclass(eq=False)
class Faulted(Event):
    """An access for which the hardware would raise an exception: the launch ends after this event."""

    by: By
    instruction: Instruction
    #: operands: the bytes hold no mbarrier; arrivals: the mbarrier's phase expects no more of them
    kind: Literal["bounds", "alignment", "operands", "arrivals"]
    space: Space
    message: str
    #: the mbarrier's address
    address: int = -1


# ------------------------------------------------------------------------------------------------ memory


@dataclass(eq=False)
class Accessed(Event):
    """Bytes read or written through the generic proxy, at once: `size` bytes from each of `addresses` (n,).

    `lanes` (n,) says which lane gave each address. A `collective` access (ldmatrix, stmatrix, wmma) exchanges the bytes
    among all lanes. A strong access has an `order`; atom and red make a reading access, then a writing one.
    """

    by: By
    instruction: Instruction
    space: Space
    writes: bool
    addresses: Addresses
    size: int
    lanes: npt.NDArray[Any]
    collective: bool = False
    order: Order = ""

    @property
    def opcode(self) -> str:
        """The opcode, as tcemu.parse prints it."""
        return self.instruction.opcode


@dataclass(eq=False)
class ProxyFenced(Event):
    """fence.proxy.async by the active lanes, for these state spaces."""

    by: By
    spaces: tuple[Space, ...]


@dataclass(eq=False)
class Fenced(Event):
    """fence or membar by the active lanes: it orders their strong accesses before and after it."""

    by: By
    semantics: Literal["acq_rel", "sc", "acquire", "release"]
    scope: str


# ------------------------------------------------------------------------------------------------ registers


@dataclass(eq=False)
class Touched(Event):
    """Registers read or written by the kernel itself or by an instruction that is not a wgmma.

    `which` are the numbers of the registers within `registers.bank`. `unwritten` are those of them that an active lane
    read before anything had been written to them in that lane.
    """

    by: By
    registers: Registers
    writes: bool
    which: tuple[int, ...]
    unwritten: tuple[int, ...] = ()


# ------------------------------------------------------------------------------------------------ barriers


@dataclass(eq=False)
class WarpSynced(Event):
    """bar.warp.sync: the active lanes have met, and each sees what the others wrote."""

    by: By


@dataclass(eq=False)
class BarrierArrived(Event):
    """A warp arrives at a barrier of the block (bar.sync waits, bar.arrive does not); `threads` is what it expects."""

    by: By
    barrier: int
    threads: int
    waits: bool


@dataclass(eq=False)
class BarrierCompleted(Event):
    """As many threads have arrived as the barrier expects; `exited` counts those that count because they exited."""

    block: int
    barrier: int
    arrived: tuple[By, ...]
    #: warps that waited and go on
    released: tuple[int, ...]
    exited: int = 0


@dataclass(eq=False)
class BarrierDisagreed(Event):
    """A warp arrives at a barrier with another number of threads than the first warp gave: the launch ends."""

    bys: tuple[By, By]
    barrier: int
    threads: tuple[int, int]


@dataclass(eq=False)
class MbarrierInitialised(Event):
    """mbarrier.init: the object at `address` expects `count` arrivals per phase; visible after a barrier."""

    by: By
    address: int
    count: int


@dataclass(eq=False)
class MbarriersFenced(Event):
    """fence.mbarrier_init by the active lanes: bulk copies see the mbarriers that these lanes initialised."""

    by: By


@dataclass(eq=False)
class MbarrierInvalidated(Event):
    """mbarrier.inval: the bytes at `address` are ordinary memory again."""

    by: By
    address: int


@dataclass(eq=False)
class MbarrierArrived(Event):
    """`count` arrivals in phase `phase` (0, 1, 2...), after an expect_tx of `transaction` more bytes."""

    by: By
    address: int
    phase: int
    count: int
    transaction: int = 0


@dataclass(eq=False)
class MbarrierCompleted(Event):
    """Phase `phase` has all its arrivals and bytes."""

    block: int
    address: int
    phase: int


@dataclass(eq=False)
class MbarrierWaited(Event):
    """A wait or test found phase `phase` complete: the warp sees the copies and what happened before the arrivals."""

    by: By
    address: int
    phase: int


# ------------------------------------------------------------------------------------------------ asynchronous copies


@dataclass(eq=False)
class Copy:
    """An asynchronous copy. `reads` and `writes` are (space, addresses (n,), size) of its source and destination.

    cp.async belongs to `group` of its warp and goes through the generic proxy; bulk copies go through the async proxy
    and end on the mbarrier at `mbarrier` (phase `phase` when it was issued) or in `group` of bulk copies of its warp.
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
    #: the lane that gave each address, for cp.async
    lanes: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def opcode(self) -> str:
        """The opcode, as tcemu.parse prints it."""
        return self.instruction.opcode


@dataclass(eq=False)
class CopyIssued(Event):
    """A copy is under way."""

    copy: Copy


@dataclass(eq=False)
class CopyLanded(Event):
    """A copy has read its source and written its destination; kernels may rely on it only after a wait."""

    copy: Copy


@dataclass(eq=False)
class CopiesCommitted(Event):
    """commit_group: the warp's copies so far that are in no group yet become group `group` (0, 1, 2...)."""

    by: By
    kind: CopyKind
    group: int


@dataclass(eq=False)
class CopiesWaited(Event):
    """wait_group: groups before `below` have ended; with `read`, they have only read their sources."""

    by: By
    kind: CopyKind
    below: int
    read: bool = False


@dataclass(eq=False)
class CopiesArrive(Event):
    """cp.async.mbarrier.arrive: the mbarrier at `address` gets arrivals once the warp's cp.async so far have ended."""

    by: By
    address: int
    phase: int


# ------------------------------------------------------------------------------------------------ wgmma


@dataclass(eq=False)
class Wgmma:
    """One mma_async of a warpgroup: the warps that issued it, their registers, and the bytes that it reads.

    `reads` has, for each operand in shared memory, its role and the addresses (n,) of its elements, `size` bytes each.
    `group` is the group that it will be committed in. `adds` says whether it reads D, which a false scale_d prevents.
    """

    instruction: Instruction
    bys: tuple[By, ...]
    warpgroup: int
    group: int
    d: tuple[Registers, ...]
    a: tuple[Registers, ...]
    reads: tuple[tuple[str, Addresses, int], ...]
    adds: bool = True


@dataclass(eq=False)
class WgmmaFenced(Event):
    """wgmma.fence by one warp."""

    by: By


@dataclass(eq=False)
class WgmmaIssued(Event):
    """All four warps have issued an mma_async."""

    wgmma: Wgmma


@dataclass(eq=False)
class WgmmaCommitted(Event):
    """wgmma.commit_group: all mma_asyncs of the warpgroup that are in no group become group `group` (0, 1, 2...)."""

    bys: tuple[By, ...]
    warpgroup: int
    group: int


@dataclass(eq=False)
class WgmmaWaited(Event):
    """wgmma.wait_group: groups before `below` have ended, and the four warps know it."""

    bys: tuple[By, ...]
    warpgroup: int
    below: int


@dataclass(eq=False)
class OperandChanged(Event):
    """The kernel changed a plain array that `by` gave as operand `role` while the mma_async was under way."""

    by: By
    wgmma: Wgmma
    role: str


@dataclass(eq=False)
class WgmmaEnded(Event):
    """An mma_async has read its operands and written its accumulator; kernels may rely on it only after a wait."""

    wgmma: Wgmma


@dataclass(eq=False)
class RegistersMoved(Event):
    """setmaxnreg: the warp may use `count` registers per thread from now on, after .inc or .dec."""

    by: By
    action: Literal["inc", "dec"]
    count: int


Observer = Callable[[Event], None]
