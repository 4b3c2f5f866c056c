"""Structs by value: fields at C's alignment, numpy arrays as pointers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly

__all__ = ["Struct", "struct"]

Array = npt.NDArray[Any]
_POINTER = 8


class Struct:
    """A struct that a kernel takes by value. `struct` makes it.

    `size` and `align` are those of C; `offsets` says where each field starts.

    >>> pair = tcemu.cuda.struct("Pair", n=np.int8(1), x=np.float64(2))
    >>> pair.size, pair.align, pair.offsets
    (16, 8, {'n': 0, 'x': 8})
    >>> pair.pack(iter(()))[0]
    1
    """

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self.name, self.fields = name, {key: _field(name, key, value) for key, value in fields.items()}
        self.offsets: dict[str, int] = {}
        at, self.align = 0, 1
        for key, value in self.fields.items():
            size, align = _extent(value)
            at += -at % align
            self.offsets[key] = at
            at += size
            self.align = max(self.align, align)
        self.size = max(at + -at % self.align, 1)

    @property
    def buffers(self) -> tuple[Array, ...]:
        """The arrays that its pointers point to, in order."""
        return tuple(_arrays(self.fields.values()))

    def pack(self, pointers: Iterator[Any]) -> bytes:
        """Its bytes; it takes a pointer for each of `buffers`."""
        out = bytearray(self.size)
        for key, value in self.fields.items():
            raw = b"".join(_bytes(each, pointers) for each in (value if isinstance(value, tuple) else (value,)))
            out[self.offsets[key] : self.offsets[key] + len(raw)] = raw
        return bytes(out)

    def __repr__(self) -> str:
        places = ", ".join(f"{key} at {at}" for key, at in self.offsets.items())
        return f"<struct {self.name}: {self.size} bytes, {places}>"


def struct(_name: str = "struct", /, **fields: Any) -> Struct:
    """A struct for a kernel that takes one by value: its fields in order, at C's alignment.

    A field is a number of numpy (np.int32(4) is an int, np.float32(1) a float), a numpy array (a pointer to it), None
    (a null pointer), another struct, a list or tuple of these (an array inside the struct), or bytes. Python's numbers
    have no C type: write np.int32(n).

    >>> params = tcemu.cuda.struct("Params", n=np.int32(4), a=np.zeros(8, np.float32), scale=[np.float32(1)] * 2)
    >>> params
    <struct Params: 24 bytes, n at 0, a at 8, scale at 16>
    """
    return Struct(_name, fields)


def _field(struct_name: str, key: str, value: Any) -> Any:
    """A field as it is kept; arrays inside the struct are tuples. Raises OperandError for what has no C type."""
    if isinstance(value, list | tuple):
        if not value:
            raise OperandError(f"struct {struct_name}: {key} is an array without elements, which C does not have")
        return tuple(_field(struct_name, f"{key}[{n}]", each) for n, each in enumerate(value))
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous or value.dtype.hasobject or not value.dtype.isnative:
            raise OperandError(
                f"struct {struct_name}: {key} points to an array of {value.dtype} that has no C layout; pass "
                f"np.ascontiguousarray({key})"
            )
        return value
    if value is None or isinstance(value, bytes | np.generic | Struct) or hasattr(value, "pack"):
        return value
    if isinstance(value, bool | int | float):
        kind = "np.float32" if isinstance(value, float) else "np.bool_" if isinstance(value, bool) else "np.int32"
        raise OperandError(
            f"struct {struct_name}: {key}={value!r} does not say its C type; write {kind}({value!r}) or another type "
            "of numpy"
        )
    raise OperandError(
        f"struct {struct_name}: {key} must be a number of numpy, an array, a struct or a list of these; got "
        f"{briefly(value)}"
    )


def _extent(value: Any) -> tuple[int, int]:
    """Size and alignment of a field."""
    if isinstance(value, tuple):
        extents = [_extent(each) for each in value]
        if len(set(extents)) != 1:
            raise OperandError("an array inside a struct has elements of one type; got several")
        return extents[0][0] * len(value), extents[0][1]
    if value is None or isinstance(value, np.ndarray):
        return _POINTER, _POINTER
    if isinstance(value, bytes):
        return len(value), 1
    if isinstance(value, np.generic):
        return value.dtype.itemsize, value.dtype.alignment
    return value.size, value.align


def _arrays(values: Any) -> Iterator[Array]:
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)
        elif hasattr(value, "buffers"):
            yield from value.buffers


def _bytes(value: Any, pointers: Iterator[Any]) -> bytes:
    if isinstance(value, tuple):
        return b"".join(_bytes(each, pointers) for each in value)
    if value is None:
        return bytes(_POINTER)
    if isinstance(value, np.ndarray):
        return int(next(pointers)).to_bytes(_POINTER, "little")
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, bytes):
        return value
    packed: bytes = value.pack(pointers)
    return packed
