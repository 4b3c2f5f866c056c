"""Tensor Memory: 128 lanes and 512 columns of 32 bits in each SM, whose columns blocks allocate (PTX ISA 9.1, 9.7.16).

The columns of an SM are shared by the blocks that run there at a time; their content is not, because a block reaches
only the columns that it has allocated. Here the blocks in flight fill SMs: as many share one as its shared memory and
its threads permit, and blocks of one cluster never do. tcgen05_alloc.py has the instructions that allocate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, LaunchError, span
from tcemu.instructions import Instruction
from tcemu.layouts.tensor_memory import COLUMNS, LANES
from tcemu.machine.events import Area, By, Faulted
from tcemu.machine.registers import POISON

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: Of an SM: blocks, threads and bytes of shared memory; and the bytes that the system takes of these for each block.
_BLOCKS, _THREADS, _SHARED, _SYSTEM = 32, 2048, 233472, 1024
#: Cells: their numbers, 512 for each lane, or lanes and columns.
Index = Array | tuple[Any, Any]
#: Every bit of a cell.
WHOLE = 0xFFFFFFFF


@dataclass(frozen=True)
class Allocation:
    """Columns of Tensor Memory that a warp allocated: the first, how many, and the instruction."""

    start: int
    columns: int
    by: By
    instruction: Instruction

    @property
    def group(self) -> str:
        """Its .cta_group."""
        return self.instruction.words["cta_group"]

    def __str__(self) -> str:
        return f"columns {span(self.start, self.start + self.columns - 1)}"


class Multiprocessor:
    """An SM: the blocks that run there, and the block that has each column."""

    def __init__(self, rank: int) -> None:
        #: the rank, in their clusters, of its blocks
        self.rank = rank
        self.blocks: list[Block] = []
        self.owners: list[Block | None] = [None] * COLUMNS

    def has_room(self, block: Block) -> bool:
        """Whether a block fits beside those that are there."""
        shape = block.shape
        self.blocks = [each for each in self.blocks if not each.gone]
        most = min(_BLOCKS, _THREADS // (32 * shape.warps), _SHARED // (shape.shared + _SYSTEM))
        return len(self.blocks) < max(1, most)

    def free(self, count: int) -> set[int]:
        """The columns at which so many free ones begin, multiples of their number."""
        starts = range(0, COLUMNS, count)
        return {start for start in starts if not any(self.owners[start : start + count])}


def multiprocessor_of(block: Block) -> Multiprocessor:
    """The SM that a block runs on."""
    multiprocessors = block.grid.multiprocessors
    multiprocessor = next((each for each in multiprocessors if each.rank == block.rank and each.has_room(block)), None)
    if multiprocessor is None:
        multiprocessor = Multiprocessor(block.rank)
        multiprocessors.append(multiprocessor)
    multiprocessor.blocks.append(block)
    return multiprocessor


class TensorMemory:
    """The Tensor Memory that a block can reach: its columns, and their content."""

    def __init__(self, block: Block) -> None:
        self.block, self.multiprocessor = block, multiprocessor_of(block)
        self.words = np.full((LANES, COLUMNS), POISON, np.uint32)
        #: the bits of each cell that something has written since the cell was allocated
        self.defined = np.zeros((LANES, COLUMNS), np.uint32)
        #: the same, lane by lane
        self._words, self._defined = self.words.reshape(-1), self.defined.reshape(-1)
        #: what the block has allocated, by first column; and whether it has each column
        self.allocations: dict[int, Allocation] = {}
        self.held = np.zeros(COLUMNS, bool)
        #: the latest allocation, than which the next one must not be larger, and whether it may not allocate any more
        self.latest: Allocation | None = None
        self.relinquished = False
        #: the .cta_group of all its instructions, and the first of them
        self._group: tuple[str, By] | None = None

    # ------------------------------------------------------------------------------------------ columns

    def take(self, allocation: Allocation) -> None:
        """The block gets columns; what they contain is undefined."""
        columns = slice(allocation.start, allocation.start + allocation.columns)
        self.multiprocessor.owners[columns] = [self.block] * allocation.columns
        self.allocations[allocation.start] = self.latest = allocation
        self.held[columns] = True
        self.words[:, columns], self.defined[:, columns] = POISON, 0

    def give_back(self, allocation: Allocation) -> None:
        """The block frees columns."""
        columns = slice(allocation.start, allocation.start + allocation.columns)
        self.multiprocessor.owners[columns] = [None] * allocation.columns
        del self.allocations[allocation.start]
        self.held[columns] = False

    def exits(self, by: By) -> None:
        """The last warp of the block has exited. Ends the launch if the block still has columns."""
        for left in self.allocations.values():
            message = (
                f"block {self.block.number} exits with {left} of Tensor Memory, which {left.by} allocated. Free what "
                f"was allocated with tcgen05.dealloc before the block exits (PTX ISA {left.instruction.section})"
            )
            self.block.grid.tell(Faulted, left.by, left.instruction, "allocation", "tensor", message)
            self.block.grid.fail(LaunchError(message))

    # ------------------------------------------------------------------------------------------ checks

    def grouped(self, core: Core, by: By, instruction: Instruction) -> None:
        """End the launch if the block has executed instructions with another .cta_group."""
        group = instruction.words["cta_group"]
        if self._group is None:
            self._group = group, by
        before, first = self._group
        if group != before:
            message = (
                f"{instruction}: all tcgen05 instructions of a kernel must have the same .cta_group; {first} executed "
                f"one with .{before} (PTX ISA {instruction.section})"
            )
            core.fault(by, instruction, "tensor", AddressError(message, "pair", "tensor"))

    def check(self, core: Core, by: By, instruction: Instruction, area: Area, what: str = "") -> None:
        """End the launch unless the block has allocated all columns of an area of its Tensor Memory."""
        columns = area.columns
        if int(columns[-1]) < COLUMNS and int(area.lanes[-1]) < LANES and self.held[columns].all():
            return
        kind: Literal["bounds", "columns"]
        of = f"{what}, " if what else ""
        if int(area.lanes[-1]) >= LANES or int(columns[-1]) >= COLUMNS:
            error = f"{of}{area} lie outside Tensor Memory, which has {LANES} lanes and {COLUMNS} columns"
            kind = "bounds"
        else:
            missing = columns[~self.held[columns]]
            error = (
                f"{of}{area}: column {int(missing[0])} is not allocated; block {self.block.number} has {self.holders}"
            )
            kind = "columns"
        message = f"{instruction}: {error} (PTX ISA {instruction.section})"
        core.fault(by, instruction, "tensor", AddressError(message, kind, "tensor"))

    @property
    def holders(self) -> str:
        """The allocated columns, in words."""
        return " and ".join(str(each) for each in self.allocations.values()) or "none"

    # ------------------------------------------------------------------------------------------ content

    def seen(self, cells: Index) -> tuple[Array, Array]:
        """The words of cells, with poison in bits that are undefined, and the bits that are defined.

        Cells are an array of their numbers, lane by lane, or (lanes, columns).
        """
        held, known = self._of(cells)
        words, defined = held[cells], known[cells]
        if not (defined == WHOLE).all():
            words = (words & defined) | (np.uint32(POISON) & ~defined)
        return words, defined

    def _of(self, cells: Index) -> tuple[Array, Array]:
        """The words and the bits that are defined, in the shape that cells are an index of."""
        return (self.words, self.defined) if isinstance(cells, tuple) else (self._words, self._defined)

    def write(self, cells: Index, words: Array, bits: int) -> None:
        """Write some bits of cells."""
        held, defined = self._of(cells)
        if bits == WHOLE:
            held[cells], defined[cells] = words, WHOLE
            return
        mask = np.uint32(bits)
        held[cells] = (held[cells] & ~mask) | (words & mask)
        defined[cells] |= mask
