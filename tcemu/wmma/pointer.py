"""A pointer into an array, for load_matrix_sync and store_matrix_sync."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, shown
from tcemu.wmma.names import TYPES, Type, type_of

Array = npt.NDArray[Any]
#: The largest distance of a pointer from its array in elements: enough for any array, without overflow.
_FAR = 1 << 40


class pointer:  # noqa: N801 - a type of the language here
    """half* and the like: points to element `index` of an array; `pointer + n` points n elements further.

    The array counts as an allocation of its own: it is contiguous, and its first element is aligned as by cudaMalloc.
    Stores change it. With `type` the array's bytes are reinterpreted as elements of that type, as by reinterpret_cast.
    `index` may be an array (...) with one place for each of many warps.

    Raises OperandError for anything but a contiguous array of numbers and whole numbers of elements.

    >>> from tcemu import wmma
    >>> array = np.zeros((4, 8), np.float16)
    >>> p = wmma.pointer(array) + 8  # row 1
    >>> int(p.address), p.pointee  # the address in bytes
    (16, 'half')
    """

    def __init__(self, array: npt.NDArray[Any], index: int | npt.ArrayLike = 0, type: Type | Any = None) -> None:  # noqa: A002
        if isinstance(array, pointer):
            raise OperandError("a pointer is made from an array; this is already a pointer: add to it")
        if not isinstance(array, np.ndarray):
            raise OperandError(
                f"a pointer is made from a numpy array, so that stores can change it; got {_named(array)}"
            )
        if not array.flags.c_contiguous or array.ndim == 0:
            raise OperandError(
                "a pointer needs an array that is contiguous in memory; this one is "
                + ("a single number" if array.ndim == 0 else "a part or transpose; numpy.ascontiguousarray copies it")
            )
        if array.dtype.kind == "O":
            raise OperandError("a pointer needs an array of numbers; got dtype object")
        self.array = array
        self.type = _element(array.dtype) if type is None else type_of(type)
        self.dtype = self.type.dtype if self.type and type is not None else array.dtype
        self.index = _index(index)

    @property
    def pointee(self) -> str:
        """The C++ type that it points to."""
        return self.type.pointee if self.type else str(self.dtype)

    @property
    def bytes(self) -> Array:
        """The array's bytes (bytes,)."""
        return self.array.reshape(-1).view(np.uint8)

    @property
    def address(self) -> Array:
        """Where it points, in bytes from the start of the array, int64 (...)."""
        return np.asarray(self.index * self.dtype.itemsize)

    def __add__(self, elements: int | npt.ArrayLike) -> pointer:
        moved = object.__new__(pointer)
        moved.array, moved.type, moved.dtype = self.array, self.type, self.dtype
        try:
            moved.index = _index(self.index + _index(elements))
        except ValueError as error:
            raise OperandError(
                f"the shapes of the pointers and of the numbers of elements do not match: {error}"
            ) from None
        return moved

    __radd__ = __add__

    def __sub__(self, elements: int | npt.ArrayLike) -> pointer:
        return self + -_index(elements)

    def __repr__(self) -> str:
        where = self.index.tolist()
        return f"<{self.pointee}* to element {where} of {self.array.nbytes // self.dtype.itemsize}>"


def expect_pointer(value: object, what: str) -> pointer:
    """`value` if it is a pointer. Raises OperandError for anything else."""
    if isinstance(value, pointer):
        return value
    if isinstance(value, np.ndarray):
        raise OperandError(
            f"{what} must be a pointer, not an array: array + 8 would add 8 to its numbers. Write "
            "wmma.pointer(array), and wmma.pointer(array) + 8 for its element 8"
        )
    raise OperandError(f"{what} must be a pointer into an array, wmma.pointer(array); got {_named(value)}")


def _named(value: object) -> str:
    return shown(value) if isinstance(value, str) else f"an object of type {type(value).__name__}"


def _element(dtype: np.dtype[Any]) -> Type | None:
    """The type of an array's elements; None if fragments have no such type, so that only void* can be used."""
    if dtype.name in ("int4", "uint4", "bool"):
        raise OperandError(
            f"an array of {dtype.name} holds one element per byte, but in memory they are packed, the first in the "
            "lowest bits: "
            + (
                "numpy.packbits(array, axis=-1, bitorder='little')"
                if dtype.name == "bool"
                else "(a[..., ::2] & 15 | a[..., 1::2] << 4) of an array of uint8"
            )
        )
    return next(
        (each for each in TYPES if not each.packed and not each.values and each.also and _same(each, dtype)), None
    )


def _same(element: Type, dtype: np.dtype[Any]) -> bool:
    # compared by name, so that ml_dtypes is not imported to recognise bfloat16
    return dtype.name in element.also and dtype.isnative


def _index(index: Any) -> Array:
    array = np.asarray(_whole(index))
    if array.size and (array.max() > _FAR or array.min() < -_FAR):
        raise OperandError(f"a pointer is at most {_FAR} elements away from its array")
    return array.astype(np.int64)


def _whole(index: Any) -> Any:
    try:
        if isinstance(index, np.ndarray) and index.dtype.kind in "iu":
            return index
        if isinstance(index, list | tuple):
            return np.asarray(index, dtype=object).astype(np.int64) if index else index
        return operator.index(index)
    except Exception:  # noqa: BLE001 - an object may raise anything when asked for an index
        raise OperandError(f"a pointer moves by whole numbers of elements; got {_named(index)}") from None
