"""The global memory of a launch: its arrays, and the pointers that a kernel has to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tcemu.errors import LaunchError, OperandError, briefly, listing, shown
from tcemu.machine.memory import Bytes

Array = npt.NDArray[Any]

#: Arrays in global memory start at multiples of this, as with cudaMalloc, with a gap of at least as many bytes.
ALIGN = 256


def _integers(index: Any) -> Any:
    """An index as an int or an array of int64. Raises OperandError for anything but integers."""
    if type(index) is int and -(1 << 63) <= index < 1 << 63:
        return index
    try:
        array = np.asarray(index)
    except LaunchError:  # the sanitizer's, about registers that are read here
        raise
    except Exception:  # noqa: BLE001 - whatever an object's __array__ raises
        array = np.empty((), object)
    if array.dtype.kind not in "iu":
        raise OperandError(f"an index must be an integer or an array of integers; got {briefly(index)}")
    return array.astype(np.int64) if array.ndim else int(array)


class Pointer(int):
    """The byte address in global memory of an array with this dtype and shape. Arithmetic is in bytes."""

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

        It checks no bounds: a wrong index gives a wrong address, which the machine reports when a kernel uses it.
        """
        if len(index) != len(self.shape):
            raise OperandError(f"the array has {len(self.shape)} axes; got {len(index)} indices")
        numbers = [_integers(number) for number in index]
        offset: Any = numbers[0] if numbers else 0
        try:
            for number, size in zip(numbers[1:], self.shape[1:], strict=True):
                offset = offset * size + number
            offset = offset * self.dtype.itemsize + int(self)
        except (ValueError, OverflowError):
            shapes = listing([np.shape(number) for number in numbers], "and")
            raise OperandError(f"indices must be numbers, or arrays that broadcast; got shapes {shapes}") from None
        return offset

    def __setitem__(self, index: Any, value: Any) -> None:
        raise OperandError(
            "a kernel writes global memory with instructions: warp.st_global(pointer.at(index), value, 'b32'), one "
            "address for each lane (PTX ISA 9.7.9.11)"
        )

    def __getitem__(self, index: Any) -> Any:
        raise OperandError(
            "a kernel reads global memory with instructions: warp.ld_global(pointer.at(index), 'b32'), one address for "
            "each lane (PTX ISA 9.7.9.8)"
        )

    def __repr__(self) -> str:
        return f"<pointer {int(self)} to {self.dtype} {self.shape}>"


class GlobalMemory(Bytes):
    """The arrays of a launch, one after the other in one address space with gaps; no array is at address 0."""

    def __init__(self, arrays: Sequence[tuple[str, Array]]) -> None:
        """`arrays` are (name, array), copied in here and out by `copy_back`. An array given twice has one address."""
        ranges: list[tuple[int, int, str]] = []
        at = ALIGN
        self.pointers: list[Pointer] = []
        self._buffers: dict[Any, tuple[str, Array, Pointer]] = {}
        for name, array in arrays:
            same = array.__array_interface__["data"], array.strides, array.shape, array.dtype
            if same not in self._buffers:
                ranges.append((at, at + array.nbytes, name))
                self._buffers[same] = name, array, Pointer(at, array.dtype, array.shape)
                at = -(-(at + array.nbytes + ALIGN) // ALIGN) * ALIGN
            self.pointers.append(self._buffers[same][2])
        super().__init__("global", at, ranges)
        for _, array, pointer in self._buffers.values():
            self._bytes_of(pointer)[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def _bytes_of(self, pointer: Pointer) -> Array:
        return self.bytes[int(pointer) : int(pointer) + pointer.nbytes]

    def _content(self, pointer: Pointer) -> Array:
        return self._bytes_of(pointer).view(pointer.dtype).reshape(pointer.shape)

    def contents(self) -> list[Array]:
        """Copies of the arrays as they are now, one for each pointer."""
        return [self._content(pointer).copy() for pointer in self.pointers]

    def changed(self) -> list[bool]:
        """For each pointer, whether its array has changed."""
        changed = {id(pointer): self._changed(array, pointer) for _, array, pointer in self._buffers.values()}
        return [changed[id(pointer)] for pointer in self.pointers]

    def copy_back(self) -> None:
        """Copy what the kernel wrote into the arrays. Raises LaunchError, and changes none, if one cannot take it."""
        written = [each for each in self._buffers.values() if self._changed(each[1], each[2])]
        for name, array, _ in written:
            if not array.flags.writeable:
                raise LaunchError(
                    f"the kernel wrote to {name}, which is read-only: pass a numpy array that can be written; for a "
                    "struct, one whose dtype has its members"
                )
            for other, view, _ in self._buffers.values():
                if view is not array and np.may_share_memory(view, array) and np.shares_memory(view, array):
                    raise LaunchError(
                        f"the kernel wrote to {name}, but {other} is another view of the same memory, and the machine "
                        f"keeps the two apart. Pass one array to the kernel, or copies"
                    )
        for _, array, pointer in written:
            array[...] = self._content(pointer)

    def _changed(self, array: Array, pointer: Pointer) -> bool:
        before = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return not np.array_equal(before, self._bytes_of(pointer))


def is_buffer(argument: object) -> bool:
    """Whether an argument is a numpy array, which lives in global memory. Raises OperandError if it cannot."""
    if not isinstance(argument, np.ndarray):
        return False
    if argument.dtype.hasobject or argument.nbytes == 0 or not argument.dtype.isnative:
        raise OperandError(
            f"an array in global memory has at least one element and a plain little-endian dtype; got "
            f"{shown(str(argument.dtype))}, shape {argument.shape}"
        )
    return True
