"""Named arrays in the shared memory of a block: how many bytes they take, and which element a byte belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, UnknownName, briefly, byte_span, did_you_mean, is_whole, ranges
from tcemu.machine.global_memory import Pointer

Array = npt.NDArray[Any]

#: The widest swizzle repeats after this many bytes, so every tile may start at a multiple of it.
ALIGN = 1024
#: By the width of a swizzle in bytes: the mask of the address bits that are added to bits 4 to 6.
_SWIZZLES = {0: 0, 32: 0x80, 64: 0x180, 128: 0x380}
#: The name of shared memory in which CUDA's headers order the warps of a group themselves, by atomics and shuffles that
#: no rule about races sees through; it is zero at first, and no kernel can name it.
RESERVED = "shared memory reserved for cooperative groups"
#: The name of the global memory that malloc in a kernel gives out.
HEAP = "heap of malloc"


class Shared:
    """Arrays in shared memory by name, one after the other: give it to `tcemu.launch(..., shared=...)`.

    Each array is (shape, dtype), or (shape, dtype, swizzle) for rows as TMA and wgmma swizzle them: 32, 64 or 128
    bytes. It starts at a multiple of `align` bytes, by default 1024; arrays of 8-byte words, such as mbarriers, need
    only 8. A kernel gets an array's address from its name, and an element's from `at`, as with pointers to global
    memory. The first of three axes is called the stage. Reports of the sanitizer name the arrays.

    Raises OperandError for an invalid shape, dtype, swizzle or alignment.

    >>> from tcemu.machine.allocation import Shared
    >>> shared = Shared(A=((2, 64, 32), np.float16), full=(2, np.uint64))
    >>> int(shared.A), shared.A.at(1, 5, 8), shared.full.at(1), shared.nbytes
    (0, 4432, 8200, 8208)
    >>> shared.describe(4432, 4448)
    'stage 1 of A, row 5, columns 8 to 15'
    >>> def unordered(warp, shared):
    ...     warp.st_shared(shared.A.at(0, warp.threads, 0), 0)
    ...     warp.ld_shared(shared.A.at(0, 63 - warp.threads, 0))
    >>> result = tcemu.launch(unordered, block=64, args=(shared,), shared=shared, sanitizer="collect")
    >>> result.reports[0].what
    'bytes 2048 to 4035 of shared memory (stage 0 of A, rows 32 to 63, columns 0 to 1)'
    """

    def __init__(self, *, align: int = ALIGN, **arrays: tuple[Any, ...]) -> None:
        if not is_whole(align) or align < 16 or align & align - 1:
            raise OperandError(f"align must be a power of two, at least 16 bytes; got {briefly(align)}")
        self._arrays: dict[str, Pointer] = {}
        self._swizzles: dict[str, int] = {}
        at = 0
        for name, specification in arrays.items():
            shape, dtype, self._swizzles[name] = _checked(name, specification)
            step = 8 if dtype.itemsize == 8 and not self._swizzles[name] else align
            at = -(-at // step) * step
            self._arrays[name] = Pointer(at, dtype, shape)
            at += self._arrays[name].nbytes
        #: the bytes that all arrays take
        self.nbytes = at

    @classmethod
    def placed(cls, nbytes: int, arrays: Mapping[str, tuple[int, Any, Any]]) -> Self:
        """Shared memory of `nbytes` bytes whose arrays a compiler has placed: (address, shape, dtype) by their names.

        >>> from tcemu.machine.allocation import Shared
        >>> shared = Shared.placed(1040, {"tile": (0, 1024, np.uint8), "full": (1024, 2, np.uint64)})
        >>> shared.describe(16, 20), shared.describe(1032, 1040), shared.beside(1044)
        ('bytes 16 to 19 of tile', 'full[1]', '4 bytes after the end of full')
        """
        self = cls()
        for name, (address, *specification) in arrays.items():
            shape, dtype, self._swizzles[name] = _checked(name, tuple(specification))
            self._arrays[name] = Pointer(address, dtype, shape)
        self.nbytes = nbytes
        return self

    def beside(self, address: int) -> str:
        """Where an address outside the memory lies, from the array before it; empty if there is none."""
        name, pointer = max(self._arrays.items(), key=lambda each: int(each[1]), default=("", None))
        if pointer is None or address < int(pointer) + pointer.nbytes:
            return ""
        return f"{address - int(pointer) - pointer.nbytes} bytes after the end of {name}"

    def __getattr__(self, name: str) -> Pointer:
        arrays = self.__dict__.get("_arrays", {})
        if name not in arrays:
            raise UnknownName(f"no array in shared memory is called {name}.{did_you_mean(name, arrays)}")
        pointer: Pointer = arrays[name]
        return pointer

    def describe(self, first: int, end: int) -> str:
        """The elements that bytes `first` to `end` - 1 belong to, in words; empty if they are in no array."""
        return self.elements(np.arange(first, end, max(1, min(16, end - first)), dtype=np.int64), min(16, end - first))

    def elements(self, addresses: Array, size: int) -> str:
        """The same for `size` bytes at each of `addresses` (n,); only the array of the first one is named."""
        first = int(addresses.min())
        for name, pointer in self._arrays.items():
            if int(pointer) <= first < int(pointer) + pointer.nbytes:
                inside = addresses[(addresses >= int(pointer)) & (addresses < int(pointer) + pointer.nbytes)]
                places = inside ^ (inside & _SWIZZLES[self._swizzles[name]]) >> 3
                starts = (places - int(pointer)) // pointer.dtype.itemsize
                count = max(1, size // pointer.dtype.itemsize)
                if pointer.dtype == np.uint8 and len(pointer.shape) == 1:  # all that a compiler may know of a variable
                    return f"{byte_span(int(starts.min()), int(starts.max()) + count - 1)} of {name}"
                return _place_in(name, pointer.shape, (starts[:, None] + np.arange(count, dtype=np.int64)).reshape(-1))
        return ""

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {each.dtype} {each.shape} at {int(each)}" for name, each in self._arrays.items())
        return f"<shared memory of {self.nbytes} bytes: {arrays}>"


def _place_in(name: str, shape: tuple[int, ...], numbers: Array) -> str:
    """Elements of an array, by their numbers in it."""
    axes = np.unravel_index(np.clip(numbers, 0, int(np.prod(shape)) - 1), shape)
    if len(shape) == 1:
        return f"{name}[{ranges(_numbers(axes[0]))}]"
    kinds = ("stage", "row", "column")[-len(shape) :]
    named = [(kind, _numbers(axis)) for kind, axis in zip(kinds, axes, strict=True)]
    parts = [f"{kind}{'s' * (len(numbers) > 1)} {ranges(numbers)}" for kind, numbers in named]
    if len(shape) == 2:
        return f"{name}, {', '.join(parts)}"
    return f"{parts[0]} of {name}, {', '.join(parts[1:])}"


def _numbers(axis: Array) -> tuple[int, ...]:
    return tuple(np.unique(axis).tolist())


def _checked(name: str, specification: Any) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """The shape, dtype and swizzle of an array."""
    if not isinstance(specification, tuple) or len(specification) not in (2, 3):
        raise OperandError(f"{name} must be (shape, dtype) or (shape, dtype, swizzle); got {briefly(specification)}")
    shape, dtype, swizzle = (*specification, 0)[:3]
    shape = (shape,) if is_whole(shape) else shape
    if not isinstance(shape, tuple) or not 1 <= len(shape) <= 3 or not all(is_whole(n) and n > 0 for n in shape):
        raise OperandError(f"{name}: a shape must be one to three positive numbers; got {briefly(specification[0])}")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise OperandError(f"{name}: {briefly(dtype)} is not a dtype") from None
    if swizzle not in _SWIZZLES or (swizzle and shape[-1] * kind.itemsize != swizzle):
        raise OperandError(
            f"{name}: a swizzle (32, 64 or 128 bytes) must be as wide as a row, {shape[-1] * kind.itemsize} bytes; got "
            f"{briefly(swizzle)}"
        )
    return tuple(int(n) for n in shape), kind, int(swizzle)
