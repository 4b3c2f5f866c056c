"""An array and the tensor map through which a kernel in CUDA C++ or PTX copies boxes of it: a CUtensorMap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly
from tcemu.machine.global_memory import Pointer
from tcemu.machine.im2col import Im2colMap
from tcemu.machine.tensor_map import TensorMap
from tcemu.machine.tensor_map_words import words_of


@dataclass(frozen=True, eq=False, repr=False)
class Mapped:
    """An array and its tensor map, whose address counts from the array's first byte. `tensor_map` makes it.

    >>> mapped = tcemu.tensor_map(np.zeros((64, 64), np.float16), (64, 8), swizzle=128)
    >>> mapped.array.shape, mapped.tensor_map.box
    ((64, 64), (64, 8))
    >>> len(mapped.words(4096)), mapped.pack(iter([4096])) == mapped.words(4096)
    (128, True)
    """

    array: npt.NDArray[Any]
    tensor_map: TensorMap

    #: bytes of a CUtensorMap, and what its address is a multiple of
    size: ClassVar[int] = 128
    align: ClassVar[int] = 64

    @property
    def buffers(self) -> tuple[npt.NDArray[Any], ...]:
        """The array."""
        return (self.array,)

    def words(self, pointer: Any) -> bytes:
        """The 128 bytes of the map, if the array is at this address."""
        return words_of(replace(self.tensor_map, address=int(pointer))).tobytes()

    def pack(self, pointers: Iterator[Any]) -> bytes:
        """The same as a part of a struct, which takes a pointer for each of its arrays."""
        return self.words(next(pointers))

    def __repr__(self) -> str:
        return f"<tensor map of {self.array.dtype} {self.array.shape}: {self.tensor_map}>"


def tensor_map(array: npt.NDArray[Any], box: Sequence[int], **options: Any) -> Mapped:
    """An argument for a kernel in CUDA C++ or PTX that copies boxes of `array` with cp.async.bulk.tensor.

    `box` and `options` (swizzle, fill, element, element_strides) are those of tcemu.machine.tensor_map.TensorMap.of:
    the last axis of the array, without gaps, is dimension 0 and comes first. With `lower` and `upper`, the corners of a
    bounding box, it is a map of im2col mode (tcemu.machine.im2col.Im2colMap.of). A kernel takes it as `const
    __grid_constant__ CUtensorMap`, or as a pointer to the map in global memory. Raises OperandError for what the driver
    would not accept.

        kernel[grid, block](tcemu.tensor_map(a, (64, 64), swizzle=128), out)

    >>> mapped = tcemu.tensor_map(np.zeros((64, 128), np.float16), (64, 8), swizzle=128)
    >>> mapped.tensor_map.sizes, mapped.tensor_map.strides  # the innermost dimension first; strides in bytes
    ((128, 64), (256,))
    """
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous:
        raise OperandError(f"a tensor map describes a numpy array in C order; got {briefly(array)}")
    kind = Im2colMap if {"lower", "upper"} & options.keys() else TensorMap
    return Mapped(array, kind.of(Pointer(0, array.dtype, array.shape), box, **options))
