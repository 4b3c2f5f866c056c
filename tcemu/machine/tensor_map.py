"""Tensor maps: the tensor in global memory that a CUtensorMap describes, and the bytes of a box in shared memory.

A tensor copy (cp.async.bulk.tensor, tiled mode; PTX ISA 9.1, 5.5 and 9.7.9.27.1) moves one box. The map says where the
tensor lies and how large a box is; the copy gives the coordinates of the first element of the box. As in the driver's
cuTensorMapEncodeTiled, all lists start with the innermost dimension, whose elements are adjacent in memory.

In shared memory the box has no gaps. It starts at a multiple of 128, innermost dimension first. With a swizzle, each
line of the innermost dimension takes as many bytes as the swizzle has, and the units of 16 bytes change places by their
address, as wgmma expects: the copy writes what `Descriptor.for_tile` reads.

A load fills elements outside the tensor, and a store skips them; the mbarrier counts them in either case. But a store
writes units of 16 bytes: if the innermost dimension ends inside one, it overwrites the rest, usually a line's padding.

How this is known: silicon. tests/golden/sm_90a-tensor-copies.json holds what an H200 answered for every swizzle, boxes
narrower than it, edges, both fills, the rounding of tf32, strides in any order, whole units, and what makes it stop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, get_args

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import AddressError, OperandError, briefly, did_you_mean, is_whole, listing
from tcemu.layouts.canonical import SWIZZLES
from tcemu.layouts.swizzle import swizzled
from tcemu.machine.reductions import Combine
from tcemu.machine.tensor_map_numbers import all_within, whole, whole_numbers
from tcemu.machine.tensor_map_pieces import (
    ALIGN,
    UNIT,
    Pieces,
    check_pieces,
    distinct,
    far_units,
    near_units,
    read_pieces,
    read_units,
    rounded,
    write_pieces,
    write_units,
)

Array = npt.NDArray[Any]
Fill = Literal["zeros", "nan"]

#: Every 16 bits of an element outside the tensor, where those are NaN.
NAN = 0x7FF7
_SECTION = "PTX ISA 5.5"


class Element(NamedTuple):
    """An element type of tensor maps: its bytes, whether it is a float, and the dtypes that are copied as it."""

    bytes: int
    float: bool
    dtypes: tuple[str, ...] = ()


#: By their PTX names. All types of 8 bits are copied as u8; elements of 4 and 6 bits belong to later chips.
ELEMENTS = {
    "u8": Element(1, False, ("uint8", "int8", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")),
    "u16": Element(2, False, ("uint16", "int16")),
    "u32": Element(4, False, ("uint32",)),
    "s32": Element(4, False, ("int32",)),
    "u64": Element(8, False, ("uint64",)),
    "s64": Element(8, False, ("int64",)),
    "f16": Element(2, True, ("float16",)),
    "bf16": Element(2, True, ("bfloat16",)),
    "tf32": Element(4, True),
    "f32": Element(4, True, ("float32",)),
    "f64": Element(8, True, ("float64",)),
}
_BY_DTYPE = {dtype: name for name, element in ELEMENTS.items() for dtype in element.dtypes}


class Tensor(Protocol):
    """A C-contiguous array in global memory: a pointer with a dtype and a shape."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __int__(self) -> int: ...


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and the box that one copy moves; all lists start with the innermost dimension.

    `sizes` counts elements and `strides` bytes; there is no stride for the innermost dimension, whose elements are
    adjacent. `box` is how many elements a copy covers in each dimension. If an entry of `element_strides` is n, the
    copy takes every n-th of them (except in the innermost dimension, where the driver ignores it). `swizzle` is 0, 32,
    64 or 128 bytes. `fill` says what a load writes for elements outside the tensor. Interleaved layouts are not
    supported.

    Raises OperandError for what cuTensorMapEncodeTiled would not accept.
    """

    address: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    fill: Fill = "zeros"
    element_strides: tuple[int, ...] = ()

    #: the function of the driver that makes such a map, and the mode of the copies that use it
    encoder: ClassVar[str] = "cuTensorMapEncodeTiled"
    mode: ClassVar[str] = "tile"
    #: the fewest and the most dimensions
    ranks: ClassVar[tuple[int, int]] = (1, 5)

    def __post_init__(self) -> None:
        for name in ("sizes", "strides", "box", "element_strides"):
            object.__setattr__(self, name, whole_numbers(name, getattr(self, name)))
        object.__setattr__(self, "address", whole("address", self.address))
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * len(self.sizes))
        if not isinstance(self.element, str) or self.element not in ELEMENTS:
            raise OperandError(
                f"a tensor map must have elements of {listing(ELEMENTS)}; got {briefly(self.element)}."
                f"{did_you_mean(str(self.element), ELEMENTS)} Other types of 8 bits are copied as u8 ({_SECTION}.1)"
            )
        fault = next(chain(self._unshapely(), self._unsized(), self._unboxed(), self._unaccepted()), None)
        if fault:
            raise OperandError(f"tensor map: {fault} ({self.encoder}, {_SECTION})")

    def _unshapely(self) -> Iterator[str]:
        """Mistakes in the number of sizes, strides and the like."""
        rank = len(self.sizes)
        if not all_within((rank,), *self.ranks):
            yield f"it must have {self.ranks[0]} to {self.ranks[1]} dimensions; got sizes {self.sizes}"
        for name, count in self._counts(rank).items():
            numbers = getattr(self, name)
            if len(numbers) != count:
                why = ", none for the innermost dimension, whose elements are adjacent" if name == "strides" else ""
                yield f"{rank} sizes need {count} {name}{why}; got {numbers}"

    def _counts(self, rank: int) -> dict[str, int]:
        """How many numbers the lists have."""
        return {"strides": rank - 1, "box": rank, "element_strides": rank}

    def _unsized(self) -> Iterator[str]:
        """Numbers out of range."""
        if self.address < 0 or self.address % 16:
            yield f"the tensor must start at a multiple of 16; got address {self.address}"
        for name, low, high in (("sizes", 1, 1 << 32), ("element_strides", 1, 8)):
            if not all_within(getattr(self, name), low, high):
                yield f"{name} must be {low} to {high}; got {getattr(self, name)}"
        if not all_within(self.strides, 0, (1 << 40) - 1) or any(stride % 16 for stride in self.strides):
            yield (
                f"strides must be multiples of 16 bytes, below 2^40; got {self.strides}. Pad rows of other lengths in "
                "memory"
            )

    def _unboxed(self) -> Iterator[str]:
        """A box of another size than a copy takes."""
        if not all_within(self.box, 1, 256):
            yield f"box must be 1 to 256; got {self.box}"

    def _unaccepted(self) -> Iterator[str]:
        """Mistakes in lines, swizzle and fill."""
        if self.line % 16:
            yield f"the innermost dimension of the box must be a multiple of 16 bytes; box {self.box} has {self.line}"
        if not is_whole(self.swizzle) or self.swizzle not in SWIZZLES:
            yield f"a swizzle must be {listing(sorted(SWIZZLES))} bytes; got {briefly(self.swizzle)}"
        if self.swizzle and self.line > self.swizzle:
            yield (
                f"the innermost dimension of the box has {self.line} bytes; with a swizzle of {self.swizzle} bytes it "
                f"has at most {self.swizzle}. Copy {-(-self.line // self.swizzle)} boxes side by side"
            )
        if not isinstance(self.fill, str) or self.fill not in get_args(Fill):
            yield f"fill must be {listing(get_args(Fill))}; got {briefly(self.fill)}"
        if self.fill == "nan" and not ELEMENTS[self.element].float:
            yield f"fill is 'nan' for floats only; {self.element} is not a float"

    @classmethod
    @explained
    def of(
        cls,
        tensor: Tensor,
        box: Sequence[int],
        *,
        swizzle: int = 0,
        fill: Fill = "zeros",
        element: str | None = None,
        element_strides: Sequence[int] = (),
    ) -> Self:
        """The map of a whole array, C-contiguous: its last axis is dimension 0 and comes first in `box`.

        The element follows from the dtype; float32 may be copied as "tf32", which rounds. Raises OperandError for a
        dtype that tensor maps do not know, or of another size than `element`'s, and as the constructor does.
        """
        if isinstance(tensor, np.ndarray) or not hasattr(tensor, "dtype"):
            raise OperandError(
                "a tensor map needs an address in global memory: pass the pointer that the kernel gets; got "
                f"{briefly(tensor)}"
            )
        dtype, shape = np.dtype(tensor.dtype), tuple(tensor.shape)
        named = _BY_DTYPE.get(dtype.name)
        if element is None and named is None:
            raise OperandError(f"a tensor map has dtype {listing(_BY_DTYPE)}; got {dtype} ({_SECTION}.1)")
        chosen = element if element is not None else str(named)
        if chosen in ELEMENTS and ELEMENTS[chosen].bytes != dtype.itemsize:
            raise OperandError(
                f"tensor map: elements of {chosen} have {ELEMENTS[chosen].bytes} bytes, those of {dtype} "
                f"{dtype.itemsize}"
            )
        strides, step = [], dtype.itemsize
        for size in shape[:0:-1]:
            step *= size
            strides.append(step)
        return cls(int(tensor), chosen, shape[::-1], tuple(strides), tuple(box), swizzle, fill, tuple(element_strides))

    # ------------------------------------------------------------------------------------------ derived

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.sizes)

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return ELEMENTS[self.element].bytes

    @property
    def line(self) -> int:
        """Bytes of the box's innermost dimension."""
        return self.box[0] * self.element_bytes

    @cached_property
    def copied(self) -> tuple[int, ...]:
        """Elements that one copy moves in each dimension: the box's, divided by the element strides and rounded up."""
        steps = (1, *self.element_strides[1:])
        return tuple(-(-size // step) for size, step in zip(self.box, steps, strict=True))

    @cached_property
    def bytes(self) -> int:
        """Bytes of one copy, inside the tensor or not: what its mbarrier must expect."""
        return math.prod(self.copied) * self.element_bytes

    @cached_property
    def pitch(self) -> int:
        """Bytes from one line of the box to the next in shared memory."""
        return max(self.line, self.swizzle)

    @cached_property
    def shared_bytes(self) -> int:
        """Bytes that the box takes in shared memory: more than `bytes` if the box is narrower than the swizzle."""
        return math.prod(self.copied[1:]) * self.pitch

    def __str__(self) -> str:
        box = " × ".join(map(str, self.box))
        swizzle = f"{self.swizzle}-byte swizzle" if self.swizzle else "no swizzle"
        return f"box {box} of a tensor {' × '.join(map(str, self.sizes))} of {self.element}, {swizzle}"

    # ------------------------------------------------------------------------------------------ copies

    def pieces(
        self, coordinates: Sequence[int], address: int = 0, *, storing: bool = False, offsets: Sequence[int] = ()
    ) -> Pieces:
        """Where the box at `coordinates` (signed, innermost first) lies in global memory, and in shared from `address`.

        Pieces have 16 bytes; if the edge of the tensor cuts one, those of a load have fewer, and a store (`storing`)
        takes the whole one. Raises what makes an H200 stop: AddressError if `address` is not a multiple of 128, or if
        the box starts inside a unit of 16 bytes of global memory (5.5.3.1); OperandError for coordinates that are not
        `rank` integers of 32 bits, or for negative ones of a store (9.7.9.27.1.1).
        """
        start, moved = self._start(coordinates, storing), self._offsets(offsets)
        if address % ALIGN:
            message = (
                f"a box must start in shared memory at a multiple of {ALIGN}; got {address} (PTX ISA 9.7.9.27.1.2)"
            )
            raise AddressError(message, "alignment", "shared")
        first, end = start[0] * self.element_bytes, self.sizes[0] * self.element_bytes
        if self._holds(start):
            return self._moved(start, address)
        if storing:
            end = -(-end // UNIT) * UNIT
        size = math.gcd(UNIT, end if first < end < first + self.line else 0)
        along = np.arange(0, self.line, size, dtype=np.int64)
        where, inside = self._lines(start, moved)
        bytes_along = first + along
        copied = (where[:, None] + (self.address + bytes_along)).ravel()
        valid = (inside[:, None] & (bytes_along >= 0) & (bytes_along < end)).ravel()
        lines = address + self.pitch * np.arange(len(where), dtype=np.int64)
        return Pieces(size, copied, swizzled((lines[:, None] + along).ravel(), self.swizzle), valid)

    def _lines(self, start: Sequence[int], _: Sequence[int]) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Where the lines of a copy lie in global memory, relative to the first one; which are in the tensor."""
        where, inside = np.zeros(1, np.int64), np.ones(1, bool)
        for at, count, step, limit, stride in reversed(
            tuple(zip(start[1:], self.copied[1:], self.element_strides[1:], self.sizes[1:], self.strides, strict=True))
        ):
            index = at + step * np.arange(count, dtype=np.int64)
            where = (where[:, None] + index * stride).ravel()
            inside = (inside[:, None] & (index >= 0) & (index < limit)).ravel()
        return where, inside

    def _holds(self, start: Sequence[int]) -> bool:
        """Whether the whole box at these coordinates lies inside the tensor."""
        steps = (1, *self.element_strides[1:])
        dimensions = zip(start, self.copied, steps, self.sizes, strict=True)
        return all(at >= 0 and at + step * (count - 1) < size for at, count, step, size in dimensions)

    def _moved(self, start: Sequence[int], address: int) -> Pieces:
        """The pieces of a box inside the tensor: those of the first such box, moved."""
        far = self.address + start[0] * self.element_bytes
        far += sum(at * stride for at, stride in zip(start[1:], self.strides, strict=True))
        lines = tuple(zip(self.copied[1:], self.element_strides[1:], self.strides, strict=True))
        units, inside = far_units(self.line, lines)
        near = near_units(self.line, self.pitch, math.prod(self.copied[1:]), self.swizzle, address)
        return Pieces(UNIT, units + far, near, inside, True)

    def load(
        self, memory: Array, shared: Array, address: int, coordinates: Sequence[int], offsets: Sequence[int] = ()
    ) -> None:
        """Copy a box from `memory` into `shared` from `address` on; both are uint8 (bytes,).

        tf32 is rounded to nearest even, and its NaNs become 0x7fffe000. Raises what `pieces` raises, and AddressError
        if the tensor or the box lies outside its memory.
        """
        pieces = self.pieces(coordinates, address, offsets=offsets)
        check_pieces(pieces.copied, pieces.size, memory, "global")
        check_pieces(pieces.shared_addresses, pieces.size, shared, "shared")
        self.load_at(pieces, memory, shared)

    def load_at(self, pieces: Pieces, memory: Array, shared: Array) -> None:
        """The same for `pieces` that were computed before, and checked."""
        data = read_pieces(memory, pieces.copied, pieces.size)
        if self.element == "tf32":
            data = rounded(data)
        if not pieces.whole:
            copied, data = data, self._filling(len(pieces.inside), pieces.size)
            data[pieces.inside] = copied
        write_pieces(shared, pieces.shared_addresses, data)

    def store(self, memory: Array, shared: Array, address: int, coordinates: Sequence[int]) -> None:
        """Copy the part of a box that lies in the tensor from `shared` into `memory`, both uint8 (bytes,).

        If the edge of the tensor cuts a unit, its rest is copied too, as far as there is memory. Raises what `load`
        raises, and OperandError for negative coordinates.
        """
        own, pieces = self.pieces(coordinates, address), self.pieces(coordinates, address, storing=True)
        check_pieces(own.copied, own.size, memory, "global")
        check_pieces(pieces.stored, UNIT, shared, "shared")
        self.store_at(pieces, memory, shared)

    def store_at(self, pieces: Pieces, memory: Array, shared: Array, combine: Combine | None = None) -> None:
        """The same for `pieces` that were computed before, `storing`, and checked; a reduction combines the bytes."""
        data = read_pieces(shared, pieces.stored, UNIT)
        if combine is None:
            write_units(memory, pieces.copied, data)
            return
        for each in distinct(pieces.copied):  # lines may lie on each other in global memory
            addresses = pieces.copied[each]
            held = read_units(memory, addresses)
            write_units(memory, addresses, combine(held.ravel(), data[each].ravel()).reshape(held.shape))

    def _start(self, coordinates: Sequence[int], storing: bool) -> tuple[int, ...]:
        start = whole_numbers("coordinates", coordinates)
        if len(start) != self.rank or not all_within(start, -(1 << 31), (1 << 31) - 1):
            raise OperandError(
                f"a tensor of {self.rank} dimensions needs {self.rank} coordinates of 32 bits each, innermost first; "
                f"got {briefly(start)} (PTX ISA 9.7.9.27.1.2)"
            )
        if storing and min(start) < 0:
            raise OperandError(
                f"a store cannot have negative coordinates; got {start}. A store may extend only past the end of the "
                "tensor, a load past either end (PTX ISA 9.7.9.27.1.1)"
            )
        past, whole = start[0] * self.element_bytes % UNIT, UNIT // self.element_bytes
        if past:
            near = start[0] // whole * whole
            message = (
                f"a box must start at a multiple of {UNIT} bytes in global memory, its first coordinate at a multiple "
                f"of {whole} elements of {self.element}: {near} or {near + whole}; got {start}. A GPU stops with an "
                "illegal instruction (PTX ISA 5.5.3.1)"
            )
            raise AddressError(message, "alignment", "global")
        return start

    def _offsets(self, offsets: Sequence[int]) -> tuple[int, ...]:
        if not isinstance(offsets, tuple) or offsets:
            raise OperandError(f"a copy in tile mode has no offsets; got {briefly(offsets)} (PTX ISA 9.7.9.27.1.2)")
        return ()

    def _filling(self, count: int, size: int) -> Array:
        if self.fill == "zeros":
            return np.zeros((count, size), np.uint8)
        return np.full((count, size // 2), NAN, "<u2").view(np.uint8)
