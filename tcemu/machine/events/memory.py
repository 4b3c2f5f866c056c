"""Events of memory and registers: accesses, and the fences that order them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tcemu.machine.events.origins import WarpEvent

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.instructions.facts import Space
    from tcemu.machine.memory import Extent
    from tcemu.machine.registers import Registers

__all__ = [
    "SELECTED_SOURCE",
    "Accessed",
    "Addresses",
    "Computed",
    "Fenced",
    "GivenAgain",
    "Order",
    "ProxyFenced",
    "Strayed",
    "TensorMapFenced",
    "TensorMapRead",
    "Touched",
    "Undefined",
    "UseOf",
]

Addresses = npt.NDArray[np.int64]
#: The memory order of a strong access; empty for a weak access, which orders nothing.
Order = Literal["", "volatile", "relaxed", "acquire", "release", "acq_rel"]


@dataclass(eq=False)
class Accessed(WarpEvent):
    """Bytes read or written synchronously through the generic proxy: `size` bytes at each of `addresses` (n,).

    `extent` is the first byte and the one after the last, (0, 0) if no lane takes part; `lanes` (n,) says which lane
    gave each address. A `collective` access (ldmatrix, stmatrix, wmma) exchanges the bytes among all lanes. A strong
    access has an `order`; atom and red make a reading access, then a writing one. `owner` is the number of the block
    whose shared memory it is, if that is another block of the cluster.
    """

    instruction: Instruction
    space: Space
    writes: bool
    addresses: Addresses
    size: int
    extent: Extent
    lanes: npt.NDArray[Any]
    collective: bool = False
    order: Order = ""
    #: what st is about to write, uint8 (n, size)
    data: npt.NDArray[np.uint8] | None = None
    owner: int = -1
    #: what was there before, likewise, if the store has been made already; None: the memory still has it
    before: npt.NDArray[np.uint8] | None = None
    #: the function that accesses, if it is not the instruction
    function: str = ""

    @property
    def opcode(self) -> str:
        """The opcode, as tcemu.parse prints it, or the function."""
        return self.function or self.instruction.opcode


@dataclass(eq=False)
class GivenAgain(WarpEvent):
    """Bytes `first` to `end` - 1 of global memory, which were free, have been given out: they are new ones now."""

    first: int
    end: int


@dataclass(eq=False)
class ProxyFenced(WarpEvent):
    """The active lanes executed fence.proxy.async for these state spaces."""

    spaces: tuple[Space, ...]


@dataclass(eq=False)
class TensorMapFenced(WarpEvent):
    """The active lanes executed fence.proxy.tensormap::generic, or tensormap.cp_fenceproxy, which contains one.

    An acquiring fence is about the tensor map at address `tensor_map` of global memory.
    """

    semantics: Literal["acquire", "release", "acq_rel"]
    scope: str
    tensor_map: int = -1


@dataclass(eq=False)
class TensorMapRead(WarpEvent):
    """A tensor copy reads the tensor map at address `tensor_map` of global memory, through a separate proxy."""

    instruction: Instruction
    tensor_map: int


@dataclass(eq=False)
class Fenced(WarpEvent):
    """The active lanes executed fence or membar, which orders their strong accesses before it with those after it."""

    semantics: Literal["acq_rel", "sc", "acquire", "release"]
    scope: str


#: How an instruction uses a register so that nobody undoes it: its value, perhaps as a mere copy, and so on. What lanes
#: get from others, they may leave out, and so may the thread what it keeps in its local memory.
UseOf = Literal["value", "copied", "address", "condition", "exchanged", "kept"]


@dataclass(eq=False)
class Undefined(WarpEvent):
    """An instruction of a front end uses what comes from registers that nothing had written in these lanes.

    With `cells`, it may be what a tcgen05.ld has found in Tensor Memory, where nothing had written, either.
    """

    opcode: str
    use: UseOf
    cells: bool


@dataclass(eq=False)
class Strayed(WarpEvent):
    """An access of a front end to shared memory leaves the variable from whose address its own was computed.

    `variable` is its name; it has the bytes of shared memory from `first` to before `end`.
    """

    opcode: str
    variable: str
    first: int
    end: int


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


#: How Computed, and a Stretch, call the choice of a copy's source: it costs more than selp.b64.
SELECTED_SOURCE = "selp.b64 of a source"


@dataclass(eq=False)
class Computed(WarpEvent):
    """The kernel itself, with tcemu.gemm.scalar, did the work of `count` ordinary instructions of this opcode."""

    opcode: str
    count: int
