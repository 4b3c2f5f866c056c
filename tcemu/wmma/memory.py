"""load_matrix_sync and store_matrix_sync: move fragments from memory and back."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing
from tcemu.instructions import Instruction, run
from tcemu.wmma.fragment import expect, fragment
from tcemu.wmma.kind import GUIDE, Kind
from tcemu.wmma.names import LAYOUTS, MEMORY_LAYOUTS, Tag, accumulator, mem_row_major, named, tag
from tcemu.wmma.pointer import expect_pointer, pointer

Array = npt.NDArray[Any]
#: The guide requires a pointer aligned to 256 bits and an ldm that is a multiple of 16 bytes.
_POINTER, _LDM = 32, 16


def load_matrix_sync(frag: fragment, ptr: pointer, ldm: int, layout: Tag | str | None = None) -> None:
    """Load the tile whose first element `ptr` points to; rows (or columns) start `ldm` elements apart.

    The layout is that of the fragment's type; accumulators have none in their type and need mem_row_major or
    mem_col_major. `ptr` must be aligned to 32 bytes and `ldm` a multiple of 16 bytes, or both multiples of the size of
    the fragment in bytes, which PTX accepts too.

    Raises OperandError if the pointer has another type or is not aligned, or if part of the tile is outside the array.
    (CUDA C++ Programming Guide, Warp Matrix Functions; PTX ISA 9.7.14.4.3)

    >>> from tcemu import wmma
    >>> A = np.arange(32 * 48).reshape(32, 48).astype(np.float16)
    >>> a = wmma.fragment(wmma.matrix_a, 16, 16, 16, wmma.half, wmma.row_major)
    >>> wmma.load_matrix_sync(a, wmma.pointer(A) + (16 * 48 + 16), 48)  # the tile at row 16, column 16
    >>> a.x[0, 0] == A[16, 16]
    np.True_
    """
    kind = expect(frag, "the first argument of load_matrix_sync").kind
    if kind.use != accumulator and layout is not None:
        raise OperandError(
            f"load_matrix_sync of {kind} takes no layout, which is in the fragment's type. Write "
            f"load_matrix_sync(frag, ptr, ldm) ({GUIDE})"
        )
    memory = (
        _memory_layout("load_matrix_sync(frag, ptr, ldm, layout)", kind, layout) if kind.use == accumulator else None
    )
    tile = _Tile(
        "load_matrix_sync", kind.load(memory), kind, expect_pointer(ptr, "the second argument of load_matrix_sync"), ldm
    )
    frag.write(tile.load())


def store_matrix_sync(ptr: pointer, frag: fragment, ldm: int, layout: Tag | str | None = None) -> None:
    """Store an accumulator at `ptr`, with rows (columns, for mem_col_major) `ldm` elements apart.

    Pointer and ldm as for :func:`load_matrix_sync`. Raises OperandError. (PTX ISA 9.7.14.4.4)

    >>> from tcemu import wmma
    >>> acc, C = wmma.fragment(wmma.accumulator, 16, 16, 16, float), np.zeros((16, 32), np.float32)
    >>> wmma.fill_fragment(acc, 1)
    >>> wmma.store_matrix_sync(wmma.pointer(C) + 16, acc, 32, wmma.mem_row_major)  # into the right half
    >>> C[0, 14:18]
    array([0., 0., 1., 1.], dtype=float32)
    """
    if isinstance(ptr, fragment):
        raise OperandError(
            f"store_matrix_sync takes the pointer first: store_matrix_sync(ptr, frag, ldm, layout) ({GUIDE})"
        )
    kind = expect(frag, "the second argument of store_matrix_sync").kind
    if kind.use != accumulator:
        raise OperandError(
            f"store_matrix_sync stores accumulators; {kind} is not one, and no instruction stores it ({GUIDE})"
        )
    memory = _memory_layout("store_matrix_sync(ptr, frag, ldm, layout)", kind, layout)
    registers = frag.read()
    tile = _Tile(
        "store_matrix_sync",
        kind.store(memory),
        kind,
        expect_pointer(ptr, "the first argument of store_matrix_sync"),
        ldm,
    )
    tile.store(registers)


def _memory_layout(call: str, kind: Kind, layout: Any) -> Tag:
    if layout is None:
        raise OperandError(
            f"{call}: the layout is missing. The type of an accumulator, {kind}, has none, so pass its layout in "
            f"memory: {listing(map(repr, MEMORY_LAYOUTS))} ({GUIDE})"
        )
    if named(layout, LAYOUTS):
        raise OperandError(
            f"{call}: the layout of an accumulator in memory is {listing(map(repr, MEMORY_LAYOUTS))} (layout_t); "
            f"row_major and col_major are for the types of matrix_a and matrix_b ({GUIDE})"
        )
    return tag(layout, MEMORY_LAYOUTS, f"{call}: layout")


class _Tile:
    """Where the lines (rows or columns) of a tile are in memory, checked."""

    def __init__(self, call: str, instruction: Instruction, kind: Kind, ptr: pointer, ldm: Any) -> None:
        self.instruction, self.target, self.ptr = instruction, kind.target, ptr
        self.what = f"{call} of {kind}"
        fragment = kind.fragment
        self.by_rows = instruction.words["layout"] == mem_row_major.word
        rows, columns = fragment.shape
        self.count, self.length = (rows, columns) if self.by_rows else (columns, rows)
        self.bits = fragment.container.width
        self.size = fragment.registers * fragment.container.register_bits // 8
        self.line = "row" if self.by_rows else "column"
        self._check_type(kind)
        self.ldm = self._check_ldm(ldm)
        self.step, self.bytes = self.ldm * self.bits // 8, self.length * self.bits // 8
        self._check_address()

    def _check_type(self, kind: Kind) -> None:
        element = kind.type
        if element.packed or (self.ptr.type and self.ptr.type.pointee == element.pointee):
            return
        raise OperandError(
            f"{self.what} takes a {element.pointee}*, an array of {element.dtype}; got a {self.ptr.pointee}*. Convert "
            f"the array, or use wmma.pointer(array, type={element.pointee!r}) if its bytes are already "
            f"{element.pointee}"
        )

    def _check_ldm(self, value: Any) -> int:
        try:
            ldm = operator.index(value)
        except TypeError:
            raise OperandError(
                f"{self.what}: ldm must be a whole number of elements; got an object of type {type(value).__name__}"
            ) from None
        if not self.length <= ldm < 1 << 32:
            raise OperandError(
                f"{self.what}: ldm is the distance from one {self.line} to the next in elements, which is the length "
                f"of a {self.line} of the whole matrix, so at least {self.length}; "
                + (f"got {ldm}" if abs(ldm) < 1 << 40 else "this one does not fit 32 bits")
            )
        unit = min(_LDM, self.size) * 8 // self.bits
        if ldm % unit:
            raise OperandError(
                f"{self.what}: with ldm {ldm}, {self.line}s are {ldm * self.bits / 8:g} bytes apart; ldm must be a "
                f"multiple of {unit} elements ({unit * self.bits // 8} bytes). Pad the {self.line}s to "
                f"{-(-ldm // unit) * unit} ({GUIDE})"
            )
        return ldm

    def _check_address(self) -> None:
        address, unit = self.ptr.address, min(_POINTER, self.size)
        first, last = address, address + (self.count - 1) * self.step + self.bytes
        wrong = address % unit != 0
        if wrong.any():
            element = self._place(first, wrong)
            need = "256 bits" if unit == _POINTER else f"the {unit} bytes that a lane holds of it"
            raise OperandError(
                f"{self.what}: the pointer, {element}, is at byte {int(address[wrong].flat[0])}; it must be aligned "
                f"to {need}, so at a multiple of {unit * 8 // self.bits} elements ({GUIDE}; PTX ISA 9.7.14.4.2)"
            )
        end = self.ptr.bytes.size
        wrong = (first < 0) | (last > end)
        if wrong.any():
            at = int(first[wrong].flat[0])
            inside = max(0, (end - at - self.bytes) // self.step + 1) if at >= 0 else 0
            which = f"{self.line} {min(inside, self.count)}" if at >= 0 else f"{self.line} 0"
            raise OperandError(
                f"{self.what}: {self._place(first, wrong)}: {which} of the tile's {self.count} reaches outside the "
                f"array of {end * 8 // self.bits} elements. A GPU would access whatever is there. At an edge, pad the "
                f"matrix to whole tiles or copy the part into a tile of zeros ({GUIDE})"
            )

    def _place(self, first: Array, wrong: Array) -> str:
        """The element of the first wrong pointer, and its warp."""
        element = int(first[wrong].flat[0]) * 8 // self.bits
        warp = f" of warp {tuple(int(each) for each in np.argwhere(wrong)[0])}" if wrong.ndim else ""
        return f"element {element}{warp}"

    @property
    def _direct(self) -> bool:
        """Whether the tile follows PTX's rule that every line is aligned to the size of the fragment.

        The guide also allows lines 16 bytes apart. Such tiles go through a copy whose lines PTX accepts.
        """
        return self.step % self.size == 0

    def _copy(self) -> tuple[Array, Array, int]:
        """Zeros for the copy (..., lines, bytes), the places of its bytes in the array, and its ldm."""
        room = -(-self.bytes // self.size) * self.size
        lines = self.ptr.address[..., None, None] + (np.arange(self.count, dtype=np.int64) * self.step)[:, None]
        copy = np.zeros((*self.ptr.address.shape, self.count, room), np.uint8)
        return copy, lines + np.arange(self.bytes, dtype=np.int64), room * 8 // self.bits

    def load(self) -> Array:
        """Registers of the tile."""
        if self._direct:
            return self._run(self.ptr.address, self.ldm, memory=self.ptr.bytes)
        copy, places, ldm = self._copy()
        copy[..., : self.bytes] = self.ptr.bytes[places]
        return self._run(0, ldm, memory=copy.reshape(*copy.shape[:-2], prod(copy.shape[-2:])))

    def store(self, registers: Array) -> None:
        """Write the tile in the registers to the array."""
        if not self.ptr.array.flags.writeable:
            raise OperandError(f"{self.what}: the array behind the pointer is read-only")
        if self._direct:
            self._run(self.ptr.address, registers, self.ldm, memory=self.ptr.bytes)
            return
        copy, places, ldm = self._copy()
        self._run(0, registers, ldm, memory=copy.reshape(*copy.shape[:-2], prod(copy.shape[-2:])))
        self.ptr.bytes[places] = copy[..., : self.bytes]

    def _run(self, *operands: npt.ArrayLike, memory: Array) -> Array:
        result: Array = run(self.instruction, *operands, target=self.target, memory=memory)
        return result
