"""tcgen05.mma of one block or a pair: D = A B + D in Tensor Memory (PTX ISA 9.1, 9.7.16.10).

Each active lane executes it for itself. It reads its operands and writes D when it ends: see tcgen05_operations.py. A
pair of blocks has half of A's rows and of B's columns in each shared memory, and half of D's rows, with all of its
columns, in each Tensor Memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import ArithmeticUnknown, LayoutError, OperandError, briefly, listing
from tcemu.formats import lookup
from tcemu.instructions import Instruction
from tcemu.instructions.tcgen05_product import Product
from tcemu.layouts.tcgen05 import a_operand, accumulator, metadata, scale_factors, scales_of_b_in_a_pair
from tcemu.layouts.zero_column_mask import ZeroColumnMask
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Area, By, Tcgen05
from tcemu.machine.masks import LANES
from tcemu.machine.pair import blocks_of
from tcemu.machine.tcgen05_operations import Operations
from tcemu.machine.tcgen05_tiles import Cells, SharedTile, cells_of, check_lane, descriptor_of, refused, tile_of
from tcemu.machine.tensor_memory import TensorMemory

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: Descriptors have bit 46 set; addresses in Tensor Memory have 32 bits.
_ADDRESSES = 1 << 32
#: Bits of an element in shared memory, by format, where it has fewer than its container.
_PADDED = {"e2m3": 6, "e3m2": 6, "e2m1": 4}


@executes("tcgen05.mma", "tcgen05.mma.ws")
def mma(instruction: Instruction) -> Act:
    """tcgen05.mma (9.7.16.10.9.1) and .ws (9.7.16.10.9.3): adds a product to D, or writes it there."""
    roles = [operand.role for operand in instruction.sources]

    def act(core: Core, *arguments: Any) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        operands = _named(roles, arguments)
        core.block.state(TensorMemory).grouped(core, by, instruction)
        for lane in LANES[core.active].tolist():
            _Mma(core, by._replace(active=1 << lane), instruction, operands).begin()

    return act


def _named(roles: list[str], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """The operands by role: the mask of lanes is a sequence of registers, and may be left out."""
    left, operands = list(arguments), dict[str, Any]()
    for role in roles:
        if not left or (role == "disable_output_lane" and not isinstance(left[0], list | tuple)):
            continue
        operands[role] = left.pop(0)
    return operands


@lru_cache(maxsize=1024)
def _product(instruction: Instruction, idesc: int, target: str) -> Product:
    product = Product.of(instruction, idesc, target)
    _ = product.operation  # raises ArithmeticUnknown
    return product


class _Mma:
    """One tcgen05.mma of a thread, checked and decoded when it is issued."""

    def __init__(self, core: Core, by: By, instruction: Instruction, operands: dict[str, Any]) -> None:
        self.core, self.by, self.instruction, self.operands = core, by, instruction, operands
        self.blocks = blocks_of(core, by, instruction)
        self.memories = [block.state(TensorMemory) for block in self.blocks]
        self.idesc, self.adds = self._number("idesc") & 0xFFFFFFFF, bool(self._number("enable_input_d"))
        try:
            self.product = _product(instruction, self.idesc, core.target)
        except LayoutError as error:
            refused(core, by, instruction, error, idesc=True)
        if instruction.words.get("ashift"):
            raise ArithmeticUnknown(
                f"{instruction}: which rows .ashift moves across a boundary of 32 lanes has not been published"
            )
        if self.operands.get("scale_input_d"):
            raise ArithmeticUnknown(
                f"{instruction}: how the hardware rounds a D that scale_input_d has made smaller has not been "
                "published; leave it 0"
            )
        self.zeroed = self._zeroed()
        #: operands in shared memory and in Tensor Memory, by role
        self.tiles: dict[str, SharedTile] = {}
        self.cells: dict[str, Cells] = {}
        self.descriptors: dict[str, int] = {}

    def begin(self) -> None:
        """Find its operands, check them and begin."""
        self._find()
        areas = {role: self._areas(role) for role in self.cells}
        written = areas.pop("d")
        reads = [area for role in areas for area in areas[role]]
        operation = Tcgen05(
            "mma", self.instruction, self.by, (*reads, *(written if self.adds else ())), tuple(written),
            tuple(
                (role, block.number, tile.where.ravel(), tile.size)
                for role, tile in self.tiles.items() for block in self.blocks
            ),
            idesc=self.idesc, adds=self.adds, descriptors=self.descriptors,
        )  # fmt: skip
        self.kept = self._lanes_kept()
        shape = self.product.descriptor
        key = self.operands["d"], shape.m, shape.n, shape.k
        self.core.block.state(Operations).begin(self.core, operation, self._end, key)

    # ------------------------------------------------------------------------------------------ where

    def _find(self) -> None:
        """Where the operands are."""
        product, desc, group = self.product, self.product.descriptor, len(self.blocks)
        forms = product.operation.formats
        self._in_tensor_memory(
            "d", accumulator(desc, group), 16 if desc.d == "f16" else 32, step=16 if desc.m == 64 else 128
        )
        a = descriptor_of(self.instruction, "a", self.operands["a"])
        if a >= _ADDRESSES:
            self._in_shared("a", a, desc.m, product.stored, desc.a, desc.transpose_a)
        elif product.kind.packed or (_PADDED.get(desc.a) and forms["a"].container != 8):
            raise ArithmeticUnknown(f"{self.instruction}: A of {desc.a} in Tensor Memory is not executed")
        else:
            width = forms["a"].container
            self._in_tensor_memory("a", a_operand(desc, group, width), width, step=16 if desc.m == 64 else 128)
        b = descriptor_of(self.instruction, "b", self.operands["b"])
        self._in_shared("b", b, desc.n, desc.k, desc.b, desc.transpose_b)
        if product.scales:
            many, half = product.scales, desc.m // group
            of_b = scales_of_b_in_a_pair if (desc.m, group) == (128, 2) else scale_factors
            self._in_tensor_memory("scale_a", scale_factors(half, many), 8, desc.sfa_id)
            self._in_tensor_memory("scale_b", of_b(desc.n, many), 8, desc.sfb_id)
        if desc.sparse:
            wide = desc.kind in ("f16", "tf32")
            self._in_tensor_memory("sp_meta", metadata(desc, group), 4, further=desc.selector if wide else 0)

    def _in_shared(self, role: str, descriptor: int, rows: int, depth: int, form: str, mn_major: bool) -> None:
        """An operand in shared memory, half of its rows in each of several blocks."""
        shares = self.product.kind.packed == 4
        bits = _PADDED.get(form) or lookup(form).container
        self.descriptors[role] = descriptor
        try:
            tile = tile_of(role, descriptor, rows // len(self.blocks), depth, bits, mn_major, shares)
        except LayoutError as error:
            refused(self.core, self.by, self.instruction, error, idesc=False)
        for block in self.blocks:
            tile.check(self.core, self.by, self.instruction, block)
        self.tiles[role] = tile

    def _in_tensor_memory(
        self, role: str, where: Any, width: int, number: int = 0, *, further: int = 0, step: int = 128
    ) -> None:
        """An operand in Tensor Memory, the same cells in each block: `further` columns on, byte `number` of them."""
        address = self._number(role)
        check_lane(self.core, self.by, self.instruction, role, address, step)
        self.cells[role] = cells_of(where, address + further, width, 8 * number)

    def _areas(self, role: str) -> list[Area]:
        """The cells of an operand in each block, which must be allocated."""
        areas = [self.cells[role].area(block, role) for block in self.blocks]
        for memory, area in zip(self.memories, areas, strict=True):
            memory.check(self.core, self.by, self.instruction, area, role)
        return areas

    def _lanes_kept(self) -> list[Array | None]:
        """Of each block, the lanes that keep D: the bits of disable_output_lane, bool (128,)."""
        masks = self.operands.get("disable_output_lane")
        if masks is None:
            return [None] * len(self.blocks)
        count = 4 * len(self.blocks)
        words = [self._whole("disable_output_lane", each) for each in masks]
        if len(words) != count:
            raise OperandError(
                f"{self.instruction}: disable_output_lane has {count} registers, a bit for each lane; got {len(words)}"
            )
        bits = np.unpackbits(np.array(words, np.uint32).view(np.uint8), bitorder="little").astype(bool)
        return list(bits.reshape(-1, 128))

    def _zeroed(self) -> Array | None:
        """Whether each column of B counts as zeros, bool (n,); None if the instruction has no mask."""
        operand = self.operands.get("zero_column_mask")
        if operand is None:
            return None
        try:
            mask = ZeroColumnMask.decode(self._whole("zero_column_mask", operand))
        except LayoutError as error:
            refused(self.core, self.by, self.instruction, error, idesc=False)
        if mask.enabled and mask.shift:
            raise ArithmeticUnknown(
                f"{self.instruction}: how far a shift of B reaches has not been published; leave bits 61:56 of the "
                "zero-column mask 0"
            )
        return mask.columns(self.product.descriptor.m, self.product.descriptor.n)

    # ------------------------------------------------------------------------------------------ what

    def _end(self) -> None:
        """Read everything as it is now, and write D."""
        product = self.product
        shared = [block.shared.units for block in self.blocks]
        tile_b = self.tiles["b"]
        b = np.concatenate([tile_b.read(units) for units in shared]) if len(shared) > 1 else tile_b.read(shared[0])
        right = np.ascontiguousarray(b.T)[None]
        if self.zeroed is not None:
            right = np.where(self.zeroed, right.dtype.type(0), right)
        storage = {role: form.storage for role, form in product.operation.formats.items()}
        for number, memory in enumerate(self.memories):
            a = self.tiles["a"].read(shared[number]) if "a" in self.tiles else self.cells["a"].read(memory)
            cells = self.cells["d"]
            held = cells.read(memory) if self.adds else np.zeros(cells.numbers.shape, np.uint32)
            more: dict[str, Any] = {}
            if product.scales:
                more["scale_a"] = self._scales("scale_a", memory)
                more["scale_b"] = np.ascontiguousarray(self._scales("scale_b", memory).swapaxes(1, 2))
            if product.descriptor.sparse:
                more["stored_k"] = self._stored_k(memory)
            a = a.astype(storage["a"], copy=False)[None]
            d = product.compute(a, right.astype(storage["b"], copy=False), held.astype(storage["d"])[None], **more)
            cells.write(memory, d[0].astype(np.uint32, copy=False), self.kept[number])

    def _scales(self, role: str, memory: TensorMemory) -> Array:
        """The scales (1, rows, s)."""
        scales = self.cells[role].read(memory).astype(np.uint8)
        rows = self.product.descriptor.n if role == "scale_b" else len(self.cells["d"].numbers)
        return np.ascontiguousarray(scales[:rows])[None]

    def _stored_k(self, memory: TensorMemory) -> Array:
        """The k of each stored element of a sparse A, (1, rows, stored)."""
        pattern = self.product.pattern
        codes = self.cells["sp_meta"].read(memory)
        if pattern is None:
            raise TypeError(self.instruction)
        places = pattern.table[codes[:, : self.product.descriptor.k // pattern.chunk]]
        if places.min() < 0:
            row, chunk = np.argwhere(places[..., 0] < 0)[0].tolist()
            self.core.grid.fail(
                OperandError(
                    f"{self.instruction}: the metadata of row {row}, chunk {chunk}, is {int(codes[row, chunk]):#06b}; "
                    f"{pattern.name} sparsity takes {listing([f'{code:#06b}' for code in sorted(pattern.positions)])} "
                    f"({self.by})"
                )
            )
        places = places + np.arange(0, self.product.descriptor.k, pattern.chunk, dtype=np.int64)[:, None]
        return np.asarray(places.reshape(1, len(places), -1))

    # ------------------------------------------------------------------------------------------ operands

    def _number(self, role: str) -> int:
        return self._whole(role, self.operands[role])

    def _whole(self, role: str, operand: Any) -> int:
        if isinstance(operand, int | np.integer | np.bool_):
            return int(operand)
        values = self.core.values(operand)
        if values.dtype.kind in "iub" and values.size and (values == values.flat[0]).all():
            return int(values.flat[0])
        raise OperandError(f"{self.instruction}: {role} must be one integer for the thread; got {briefly(operand)}")
