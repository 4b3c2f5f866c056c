"""Memories of a launch: the shared memory of a block, and the global memory that all blocks see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError, shown
from tcemu.machine.events import Space

Array = npt.NDArray[Any]

#: Where buffers in global memory start: at multiples of this, as cudaMalloc does, with a gap of at least as much.
ALIGN = 256
#: A generic address from here on lies in shared memory. Real chips have such a window too, elsewhere.
SHARED_WINDOW = 1 << 40
#: Units that numpy can copy as one element; their alignment is the address's.
_UNITS: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    2: np.dtype("u2"),
    4: np.dtype("u4"),
    8: np.dtype("u8"),
    16: np.dtype("V16"),
}


class Bytes:
    """Memory of one state space: bytes, of which some ranges may be addressed."""

    def __init__(self, space: Space, size: int, ranges: Sequence[tuple[int, int, str]]) -> None:
        """`ranges` are (first, end, what), in order, without overlap."""
        self.space = space
        self.bytes = np.zeros(-(-size // 16) * 16, np.uint8)
        self._starts = np.array([first for first, _, _ in ranges], np.int64)
        self._ends = np.array([end for _, end, _ in ranges], np.int64)
        self._names = [name for _, _, name in ranges]

    def check(self, who: str, addresses: Array, size: int, align: int, section: str) -> None:
        """Raise AddressError unless every one of `addresses` (n,) is a multiple of `align` with `size` bytes there."""
        wrong = addresses % align != 0
        if wrong.any():
            lane = int(wrong.argmax())
            raise AddressError(
                f"{who}: address {int(addresses[lane])} in {self.space} memory is no multiple of {align}, as an access "
                f"of {align} bytes needs (PTX ISA {section})",
                "alignment",
            )
        wrong = self._outside(addresses, size)
        if wrong.any():
            at = int(addresses[int(wrong.argmax())])
            raise AddressError(f"{who}: {self._where(at, size)} (PTX ISA {section})", "bounds")

    def _outside(self, addresses: Array, size: int) -> Array:
        if len(self._starts) == 1:
            return np.asarray((addresses < self._starts[0]) | (addresses > self._ends[0] - size))
        if not len(self._starts):
            return np.ones(addresses.shape, bool)
        nearest = np.searchsorted(self._starts, addresses, side="right") - 1
        return np.asarray((nearest < 0) | (addresses > self._ends[np.maximum(nearest, 0)] - size))

    def _where(self, at: int, size: int) -> str:
        told = f"address {at}, {size} bytes, lies outside {self.space} memory"
        if self.space == "shared":
            return f"{told}, which has {int(self._ends[0]) if len(self._ends) else 0} bytes in this launch"
        if not len(self._starts):
            return f"{told}: no array was given to the kernel"
        before = max(int(np.searchsorted(self._starts, at, side="right")) - 1, 0)
        name, start, end = self._names[before], int(self._starts[before]), int(self._ends[before])
        where = f"{start - at} bytes before" if at < start else f"{at - end} bytes after the end of"
        where = "across the end of" if start <= at < end else where
        return f"{told}: {where} {name} ({start} to {end})"

    def read(self, addresses: Array, size: int) -> Array:
        """Bytes (n, size) at checked addresses (n,), multiples of `size`."""
        unit = _UNITS[size]
        return np.asarray(self.bytes.view(unit)[addresses // size].view(np.uint8).reshape(-1, size))

    def write(self, addresses: Array, data: Array) -> None:
        """Put bytes (n, size) at checked addresses (n,), multiples of size; the last of equal addresses stays."""
        size = data.shape[1]
        self.bytes.view(_UNITS[size])[addresses // size] = np.ascontiguousarray(data).view(_UNITS[size]).reshape(-1)


class Pointer(int):
    """A byte address in global memory, of an array with this dtype and shape. Arithmetic is in bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __new__(cls, address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Self:
        """The pointer to an array of `dtype` and `shape` at `address`."""
        self = super().__new__(cls, address)
        self.dtype, self.shape = dtype, shape
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def at(self, *index: Any) -> Any:
        """The byte address of the element at `index`, one number or integer array for each axis (they broadcast).

        Nothing is checked: a wrong index is a wrong address, which the machine tells when it is used.
        """
        if len(index) != len(self.shape):
            raise OperandError(f"the array has {len(self.shape)} axes; got {len(index)} indices")
        place: Any = 0
        for number, size in zip(index, self.shape, strict=True):
            place = place * size + np.asarray(number, np.int64)
        found = int(self) + place * self.dtype.itemsize
        return int(found) if np.ndim(found) == 0 else found

    def __repr__(self) -> str:
        return f"<pointer {int(self)} to {self.dtype} {self.shape}>"


class GlobalMemory(Bytes):
    """The arrays of a launch, one after the other in one address space with gaps; 0 is no array's address."""

    def __init__(self, arrays: Sequence[tuple[str, Array]]) -> None:
        """`arrays` are (name, array); they are copied in, and out again by `copy_back`."""
        ranges, at = [], ALIGN
        for name, array in arrays:
            ranges.append((at, at + array.nbytes, name))
            at = -(-(at + array.nbytes + ALIGN) // ALIGN) * ALIGN
        super().__init__("global", at, ranges)
        self._arrays = [array for _, array in arrays]
        self.pointers = [
            Pointer(start, array.dtype, array.shape) for (start, _, _), array in zip(ranges, self._arrays, strict=True)
        ]
        for pointer, array in zip(self.pointers, self._arrays, strict=True):
            self._bytes_of(pointer)[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def _bytes_of(self, pointer: Pointer) -> Array:
        return self.bytes[int(pointer) : int(pointer) + pointer.nbytes]

    def contents(self) -> list[Array]:
        """Copies of the arrays as they are now."""
        return [self._bytes_of(pointer).view(pointer.dtype).reshape(pointer.shape).copy() for pointer in self.pointers]

    def copy_back(self) -> None:
        """Bring what the kernel wrote into the arrays. One that is read-only stays as it is."""
        for array, content in zip(self._arrays, self.contents(), strict=True):
            if array.flags.writeable:
                array[...] = content


def is_buffer(argument: object) -> bool:
    """Whether an argument of a kernel lives in global memory: a numpy array. Raises OperandError for what cannot."""
    if not isinstance(argument, np.ndarray):
        return False
    if argument.dtype.hasobject or argument.nbytes == 0:
        raise OperandError(
            f"an array in global memory has at least one element of a plain dtype; got {shown(str(argument.dtype))}, "
            f"shape {argument.shape}"
        )
    return True
