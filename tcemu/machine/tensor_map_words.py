"""A tensor map in memory: 32 words, which a kernel fills or changes field by field with tensormap.replace.

The real 128 bytes are opaque: only the driver and tensormap.replace know them. Kernels treat them as opaque, so any
other order of the fields serves as well. Values are encoded as tensormap.replace takes them (PTX ISA 9.1, 9.7.9.28).

    word   0-1  global_address    5  swizzle_mode        8-12  global_dim        24-31  global_stride, 64 bits each
           2    rank, minus 1     6  fill_mode          13-17  box_dim
           3    elemtype          7  swizzle_atomicity  18-22  element_stride
           4    interleave_layout
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing
from tcemu.machine.tensor_map import ELEMENTS, TensorMap

Words = npt.NDArray[np.uint32]

#: Bytes of a tensor map, and what its address is a multiple of.
BYTES, ALIGN = 128, 64
_SECTION = "PTX ISA 9.7.9.28"


class Field(NamedTuple):
    """Where a field is: its first word, how many entries it has, and whether each has 64 bits."""

    word: int
    entries: int = 1
    wide: bool = False

    def place(self, ordinal: int) -> slice:
        """The words of one entry."""
        first = self.word + ordinal * (1 + self.wide)
        return slice(first, first + 1 + self.wide)


#: By the words of tensormap.replace.
FIELDS = {
    "global_address": Field(0, wide=True),
    "rank": Field(2),
    "elemtype": Field(3),
    "interleave_layout": Field(4),
    "swizzle_mode": Field(5),
    "fill_mode": Field(6),
    "swizzle_atomicity": Field(7),
    "global_dim": Field(8, 5),
    "box_dim": Field(13, 5),
    "element_stride": Field(18, 5),
    "global_stride": Field(24, 4, wide=True),
}
#: What the numbers of a field stand for, in order.
_ELEMTYPES = (
    *("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz"),
    *("b4x16", "b4x16_p64", "b6x16_p32"),
)
_SWIZZLES, _FILLS = (0, 32, 64, 128), ("zeros", "nan")


def words_of(tensor_map: TensorMap) -> Words:
    """The words (32,) of a tensor map, uint32: lane i of a warp stores word i.

    >>> from tcemu.machine.tensor_map import TensorMap
    >>> from tcemu.machine.tensor_map_words import map_of, words_of
    >>> box = TensorMap(4096, "f16", (64, 32), (128,), (16, 8))
    >>> map_of(words_of(box).tobytes()) == box
    True

    Raises OperandError for maps of im2col mode, which tensormap.replace.tile does not make: pass them as they are.
    """
    if tensor_map.mode != "tile":
        raise OperandError(
            f"only tensor maps of tile mode have words; got one of {tensor_map.encoder}. Pass it to the copy as it is, "
            f"as a constant of the launch ({_SECTION})"
        )
    words = np.zeros(32, np.uint32)
    put(words, "global_address", 0, tensor_map.address)
    put(words, "rank", 0, tensor_map.rank - 1)
    put(words, "elemtype", 0, _ELEMTYPES.index(tensor_map.element))
    put(words, "swizzle_mode", 0, _SWIZZLES.index(tensor_map.swizzle))
    put(words, "fill_mode", 0, _FILLS.index(tensor_map.fill))
    lists = {"global_dim": tensor_map.sizes, "box_dim": tensor_map.box, "global_stride": tensor_map.strides}
    for name, values in {**lists, "element_stride": tensor_map.element_strides}.items():
        for ordinal, value in enumerate(values):
            put(words, name, ordinal, value)
    return words


def put(words: Words, name: str, ordinal: int, value: int) -> None:
    """Set an entry of a field in the words (32,)."""
    field = FIELDS[name]
    bits = value & (1 << 64 if field.wide else 1 << 32) - 1
    words[field.place(ordinal)] = [bits & 0xFFFFFFFF, bits >> 32][: 1 + field.wide]


@lru_cache(maxsize=256)
def map_of(data: bytes) -> TensorMap:
    """The tensor map that 128 bytes of memory hold. Raises OperandError for one that tensor copies cannot use."""
    words = np.frombuffer(data, np.uint32)

    def got(name: str, count: int = 1) -> tuple[int, ...]:
        field = FIELDS[name]
        return tuple(int(words[field.place(each)].view(f"<u{4 + 4 * field.wide}")[0]) for each in range(count))

    (rank,) = got("rank")
    if rank > 4:
        raise OperandError(f"tensor map: rank is the number of dimensions minus 1, 0 to 4; got {rank} ({_SECTION})")
    if any(got("interleave_layout")) or any(got("swizzle_atomicity")):
        raise OperandError(
            f"tensor map: the machine has no interleaved layouts and no swizzle atomicity but the first; both fields "
            f"must be 0 ({_SECTION})"
        )
    element = _named("elemtype", _ELEMTYPES, got("elemtype")[0])
    if element not in ELEMENTS:
        message = f"tensor map: the machine copies elements of {listing(ELEMENTS)}; got {element}"
        raise OperandError(f"{message} ({_SECTION})")
    return TensorMap(
        got("global_address")[0],
        element,
        got("global_dim", rank + 1),
        got("global_stride", rank),
        got("box_dim", rank + 1),
        _named("swizzle_mode", _SWIZZLES, got("swizzle_mode")[0]),
        _named("fill_mode", _FILLS, got("fill_mode")[0]),
        got("element_stride", rank + 1),
    )


def _named(name: str, values: Any, number: int) -> Any:
    if number >= len(values):
        meanings = listing([f"{place} {value}" for place, value in enumerate(values)])
        raise OperandError(f"tensor map: {name} is {meanings}; got {number} ({_SECTION})")
    return values[number]
