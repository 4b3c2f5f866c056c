"""tcgen05.mma of one CTA or a pair: D = A B + D in Tensor Memory (PTX ISA 9.1, 9.7.16.10).

Each active lane executes it for itself. It reads its operands and writes D when it ends: see tcgen05_operations.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Area, By, Tcgen05
from tcemu.machine.masks import LANES
from tcemu.machine.pair import blocks_of
from tcemu.machine.tcgen05_copy import check_tile
from tcemu.machine.tcgen05_operations import Operations
from tcemu.machine.tcgen05_product import product_of
from tcemu.machine.tcgen05_tiles import Part, Tile, accumulator, area_of, descriptor_of, tile_of
from tcemu.machine.tensor_memory import WHOLE, TensorMemory

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: Descriptors have bit 46 set; addresses in Tensor Memory have 32 bits.
_ADDRESSES = 1 << 32


@executes("tcgen05.mma")
def mma(instruction: Instruction) -> Act:
    """tcgen05.mma (9.7.16.10.9.1): adds a product to D, or writes it there."""
    roles = [operand.role for operand in instruction.sources]

    def act(core: Core, *given: Any) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        operands = _named(roles, given)
        core.block.state(TensorMemory).grouped(core, by, instruction)
        for lane in LANES[core.active].tolist():
            _Mma(core, by._replace(active=1 << lane), instruction, operands).begin()

    return act


def _named(roles: list[str], given: tuple[Any, ...]) -> dict[str, Any]:
    """The operands by role: the mask of lanes is a sequence of registers, and may be left out."""
    left, found = list(given), dict[str, Any]()
    for role in roles:
        if not left or (role == "disable_output_lane" and not isinstance(left[0], list | tuple)):
            continue
        found[role] = left.pop(0)
    return found


class _Mma:
    """One tcgen05.mma of a thread, checked and decoded when it is issued."""

    def __init__(self, core: Core, by: By, instruction: Instruction, given: dict[str, Any]) -> None:
        self.core, self.by, self.instruction, self.given = core, by, instruction, given
        self.blocks = blocks_of(core, by, instruction)
        self.idesc = self._number("idesc")
        self.product = product_of(instruction, self.idesc, core.target)
        self.adds = bool(self._number("enable_input_d"))
        self.d = self._number("d")
        self.memories = [block.state(TensorMemory) for block in self.blocks]

    def begin(self) -> None:
        """Check it and begin."""
        product, pair = self.product, len(self.blocks) == 2
        self.tiles: list[tuple[Block, Tile]] = []
        self.descriptors: dict[str, int] = {}
        self.a_parts: list[tuple[Part, Area]] = []
        self._find_a(pair)
        self._find_b()
        self.d_parts = self._parts("d", accumulator(product.m, product.n, pair), self.d, product.n, product.d_bits)
        written = tuple(area for _, area in self.d_parts)
        reads = (*(area for _, area in self.a_parts), *(written if self.adds else ()))
        operation = Tcgen05(
            "mma", self.instruction, self.by, reads, written,
            tuple((tile.role, block.number, tile.where.ravel(), tile.size) for block, tile in self.tiles),
            idesc=self.idesc, adds=self.adds, descriptors=self.descriptors,
        )  # fmt: skip
        key = self.d, product.m, product.n, product.k
        self.core.block.state(Operations).begin(self.core, operation, self._end, key)

    # ------------------------------------------------------------------------------------------ where

    def _find_a(self, pair: bool) -> None:
        product, a = self.product, self.given["a"]
        number = descriptor_of(self.instruction, "a", a)
        if number >= _ADDRESSES:
            self._find("a", number, product.m, product.k, product.a_bits, product.mn_major_a)
            return
        width = product.k * max(product.a_bits, 8) // 32
        self.a_parts = self._parts("a", accumulator(product.m, width, pair), number, width, WHOLE)

    def _find_b(self) -> None:
        product, number = self.product, descriptor_of(self.instruction, "b", self.given["b"])
        self._find("b", number, product.n, product.k, product.b_bits, product.mn_major_b)

    def _find(self, role: str, descriptor: int, rows: int, depth: int, bits: int, mn_major: bool) -> None:
        """The tile of an operand in shared memory, half of its rows in each of several blocks."""
        self.descriptors[role] = descriptor
        tile = tile_of(role, descriptor, rows // len(self.blocks), depth, bits, mn_major)
        for block in self.blocks:
            check_tile(self.core, self.by, self.instruction, block, tile)
            self.tiles.append((block, tile))

    def _parts(
        self, role: str, parts: tuple[Part, ...], address: int, width: int, bits: int
    ) -> list[tuple[Part, Area]]:
        """The parts of a matrix in Tensor Memory, with their cells."""
        lane, column, found = address >> 16, address & 0xFFFF, []
        for part in parts:
            columns = part.columns.stop - part.columns.start
            area = area_of(self.blocks[part.rank], part, lane, column, columns, role, bits)
            self.memories[part.rank].check(self.core, self.by, self.instruction, area, role)
            found.append((part, area))
        return found

    # ------------------------------------------------------------------------------------------ what

    def _end(self) -> None:
        """Read everything as it is now, and write D."""
        product = self.product
        a = self._a_in_tensor_memory() if self.a_parts else self._matrix("a")
        c = self._accumulator() if self.adds else np.zeros((product.m, product.n), product.d_storage)
        d = product.compute(a, self._matrix("b").T, c)
        for part, area in self.d_parts:
            self._write(part, area, d[part.rows, part.columns])

    def _matrix(self, role: str) -> Array:
        """The patterns (mn, k) of an operand in shared memory."""
        halves = [tile.read(block.shared.units) for block, tile in self.tiles if tile.role == role]
        return halves[0] if len(halves) == 1 else np.concatenate(halves)

    def _accumulator(self) -> Array:
        """D as it is now, (m, n)."""
        product = self.product
        found = np.empty((product.m, product.n), np.uint32)
        for part, area in self.d_parts:
            found[part.rows, part.columns] = self._seen(part, area)
        return found.astype(product.d_storage)

    def _a_in_tensor_memory(self) -> Array:
        """A (m, k), of which a cell holds two elements of 16 bits or four of 8."""
        product = self.product
        found = np.empty((product.m, product.k * max(product.a_bits, 8) // 32), np.uint32)
        for part, area in self.a_parts:
            found[part.rows, part.columns] = self._seen(part, area)
        return found.view(f"u{max(product.a_bits // 8, 1)}")

    def _seen(self, part: Part, area: Area) -> Array:
        words, _ = self.memories[part.rank].seen(*_index(part, area))
        return words

    def _write(self, part: Part, area: Area, words: Array) -> None:
        lanes, columns = _index(part, area)
        self.memories[part.rank].put(lanes, columns, words.astype(np.uint32), area.bits)

    # ------------------------------------------------------------------------------------------ operands

    def _number(self, role: str) -> int:
        given = self.given[role]
        if isinstance(given, int | np.integer | np.bool_):
            return int(given)
        raise OperandError(f"{self.instruction}: {role} must be one integer; got {briefly(given)}")


def _index(part: Part, area: Area) -> tuple[Any, Any]:
    """The cells of an area as an index of an array (lanes, columns)."""
    columns = slice(int(area.columns[0]), int(area.columns[-1]) + 1)
    lanes = area.lanes
    if int(lanes[-1]) - int(lanes[0]) == len(lanes) - 1:
        return slice(int(lanes[0]), int(lanes[-1]) + 1), columns
    return lanes, columns
