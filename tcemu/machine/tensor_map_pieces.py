"""The bytes of one box of a tensor map: where they are in global and in shared memory, and how they move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError
from tcemu.formats import lookup
from tcemu.layouts.swizzle import swizzled

Array = npt.NDArray[Any]

#: A box starts in shared memory at a multiple of this, and in global memory at a multiple of UNIT.
ALIGN, UNIT = 128, 16


@dataclass(frozen=True, eq=False)
class Pieces:
    """Where one copy reads and writes: pieces of `size` bytes each, in the order of the box, innermost dimension first.

    `inside` (n,) says which pieces lie in the tensor; of the others only the address in shared memory has a meaning.
    """

    size: int
    global_addresses: Array
    shared_addresses: Array
    inside: npt.NDArray[np.bool_]
    #: whether all of them are
    whole: bool = False

    @property
    def copied(self) -> Array:
        """The addresses in global memory of the pieces that are copied."""
        return self.global_addresses if self.whole else self.global_addresses[self.inside]

    @property
    def stored(self) -> Array:
        """The addresses in shared memory of the pieces that a store copies; a load writes all of them."""
        return self.shared_addresses if self.whole else self.shared_addresses[self.inside]


@lru_cache(maxsize=256)
def far_units(line: int, lines: tuple[tuple[int, int, int], ...]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The units of a box inside its tensor, as byte offsets from its first element, and True for each: all inside."""
    starts = np.zeros(1, np.int64)
    for count, step, stride in reversed(lines):
        starts = (starts[:, None] + step * stride * np.arange(count, dtype=np.int64)).ravel()
    units = (starts[:, None] + np.arange(0, line, UNIT, dtype=np.int64)).ravel()
    return units, np.ones(len(units), bool)


@lru_cache(maxsize=256)
def near_units(line: int, pitch: int, lines: int, swizzle: int, address: int) -> Array:
    """The same units in shared memory, for a box at `address`. Kernels use few addresses, again and again."""
    first = address + pitch * np.arange(lines, dtype=np.int64)
    return swizzled((first[:, None] + np.arange(0, line, UNIT, dtype=np.int64)).ravel(), swizzle)


def read_pieces(memory: Array, addresses: Array, size: int) -> Array:
    """Pieces (n, size) at `addresses`, which are multiples of 16 if `size` is 16."""
    if size == UNIT and len(memory) % UNIT == 0:
        units = (addresses // UNIT).astype(np.intp, copy=False)
        return memory.view(_WHOLE).take(units).view(np.uint8).reshape(-1, UNIT)
    return np.asarray(memory[addresses[:, None] + np.arange(size, dtype=np.int64)])


def write_pieces(memory: Array, addresses: Array, data: Array) -> None:
    """Write pieces (n, size) to `addresses`."""
    size = data.shape[1]
    if size == UNIT and len(memory) % UNIT == 0:
        memory.view(_WHOLE)[addresses // UNIT] = np.ascontiguousarray(data).view(_WHOLE).reshape(-1)
    else:
        memory[addresses[:, None] + np.arange(size, dtype=np.int64)] = data


#: A unit that numpy copies as one element.
_WHOLE = np.dtype("V16")


def read_units(memory: Array, addresses: Array) -> Array:
    """Units (n, UNIT) at `addresses`; bytes after the end of memory are zeros."""
    places = addresses[:, None] + np.arange(UNIT, dtype=np.int64)
    present = places < len(memory)
    data = np.zeros(places.shape, np.uint8)
    data[present] = memory[places[present]]
    return data


def write_units(memory: Array, addresses: Array, data: Array) -> None:
    """Write units (n, UNIT) to `addresses`, as far as there is memory."""
    places = addresses[:, None] + np.arange(UNIT, dtype=np.int64)
    present = places < len(memory)
    memory[places[present]] = data[present]


def distinct(addresses: Array) -> Iterator[Array]:
    """The numbers of all addresses, in rounds; no address comes twice in a round."""
    left = np.arange(len(addresses), dtype=np.int64)
    while len(left):
        _, first = np.unique(addresses[left], return_index=True)
        yield left[first]
        left = np.delete(left, first)


def check_pieces(addresses: Array, size: int, memory: Array, space: str) -> None:
    """Raise AddressError if `size` bytes at one of `addresses` lie outside `memory`."""
    outside = (addresses < 0) | (addresses + size > len(memory))
    if outside.any():
        at = int(addresses[int(outside.argmax())])
        raise AddressError(
            f"a tensor copy accesses address {at}, {size} bytes, but {space} memory has {len(memory)} bytes", "bounds"
        )


def rounded(data: Array) -> Array:
    """Pieces (n, bytes) of f32, rounded to tf32."""
    values = np.ascontiguousarray(data).view("<f4")
    with np.errstate(invalid="ignore"):  # signalling NaNs are legal here
        patterns = np.where(np.isnan(values), 0x7FFFE000, lookup("tf32").encode(values))
    return patterns.astype("<u4").view(np.uint8)
