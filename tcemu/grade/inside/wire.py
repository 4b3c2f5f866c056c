"""Messages between the box and the marking: plain values, as JSON and the bytes of arrays, with strict limits.

    message    = length of the header, length of the body (two little-endian uint32), header, body
    header     = JSON: [value, [bytes of the first array, bytes of the second, ...]]
    body       = the arrays' bytes in C order, little-endian as every machine that runs the kernels is

A value in JSON is null, a bool, a string or a number that JSON can hold; everything else is a list that begins with its
kind: ["tuple", ...], ["array", which, dtype, shape]. Decoding makes these values and nothing else: it imports nothing,
calls nothing by a name from the message, and raises Malformed for any other text.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from itertools import accumulate
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tcemu.errors import TcemuError

Array = npt.NDArray[Any]
#: Turns a value into JSON that `Reader.known` understands; None if it does not know the value.
Writes = Callable[[Any], list[Any] | None]
#: Makes the value of one kind from the rest of its list.
Reads = Callable[..., Any]

#: Bytes of a header and of a body at most.
HEADER, BODY = 2 << 20, 64 << 20
#: Lists in lists at most, and characters of the text that stands for an object that cannot be sent.
_DEEP, _SAID = 40, 300
#: Bits of an integer.
_BITS = 4096
#: Elements of an array of objects that is sent as a list, and of a range; keys of a dict.
_OBJECTS, _ENTRIES = 1 << 16, 1 << 12
#: Elements of all ranges of a message: who reads them makes numbers of a few bytes in a message.
_SPANNED = 1 << 20
_LENGTHS = struct.Struct("<II")
#: Exceptions from reading something that is not a message.
_NONSENSE = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, OverflowError, MemoryError,
    struct.error,
)  # fmt: skip

_NATIVE = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128"
_ML = (
    "bfloat16 float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu float6_e2m3fn float6_e3m2fn float4_e2m1fn int2 int4 uint2 uint4"
)
#: The dtypes of arrays that can be sent, by name.
DTYPES: Mapping[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in _NATIVE.split()},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in _ML.split() if hasattr(ml_dtypes, name)},
}


_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Malformed(ValueError):  # noqa: N818 - what the message is
    """A message that breaks the rules of the protocol."""


class Other:
    """Stands for an object that cannot be sent: its type's name, and its repr shortened.

    >>> from tcemu.grade.inside.wire import Other
    >>> Other("Thing", "<a thing>")
    <a thing>
    """

    def __init__(self, kind: str, said: str) -> None:
        self.kind, self.said = kind, said

    def __repr__(self) -> str:
        return self.said or f"<{self.kind}>"


def _nobody(_: Any) -> None:
    """The hook that knows no other values."""


@dataclass
class Writer:
    """Writes one value. `special` is asked first about what is not plain.

    >>> from tcemu.grade.inside.wire import Reader, Writer, framed
    >>> import numpy as np
    >>> message = framed({"a": (1, 2.5), "b": np.arange(3)})
    >>> header, body = message[8:-24], message[-24:]
    >>> Reader().read(header, body)
    {'a': (1, 2.5), 'b': array([0, 1, 2])}
    """

    special: Writes = _nobody
    parts: list[bytes] = field(default_factory=list)

    def write(self, value: Any, depth: int = 0) -> Any:
        """The value as JSON; arrays go to `parts`."""
        if value is None or value is True or value is False:
            return value
        kind = type(value)
        if kind is str:
            return value
        if kind is int and -(1 << 53) < value < 1 << 53:
            return value
        if kind is float and math.isfinite(value):
            return value
        if depth > _DEEP:
            return self._other(value)
        try:
            return self.special(value) or self._plain(value, depth)
        except Exception:  # noqa: BLE001 - an object that lies about what it is
            return self._other(value)

    def _plain(self, value: Any, depth: int) -> Any:
        """A value of one of Python's and numpy's types, whatever its subclass claims."""
        if isinstance(value, np.ndarray):
            return self._array("array", value)
        if isinstance(value, np.generic):
            return self._array("number", np.asarray(value))
        if isinstance(value, bool | int):
            number = int.__add__(value, 0)
            if number.bit_length() <= 53:
                return number
            return ["int", hex(number)] if number.bit_length() <= _BITS else self._other("a long integer")
        if isinstance(value, float):
            return ["float", struct.pack("<d", value).hex()]
        if isinstance(value, complex):
            return ["complex", struct.pack("<dd", value.real, value.imag).hex()]
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, bytes | bytearray):
            return ["bytes", self._part(bytes(value))]
        if isinstance(value, tuple):
            return ["tuple", *(self.write(part, depth + 1) for part in tuple.__iter__(value))]
        if isinstance(value, list):
            return ["list", *(self.write(part, depth + 1) for part in list.__iter__(value))]
        if isinstance(value, dict) and dict.__len__(value) <= _ENTRIES:
            pairs = dict.items(value)
            return ["dict", *([self.write(key, depth + 1), self.write(held, depth + 1)] for key, held in pairs)]
        if type(value) is slice or (type(value) is range and not value[_OBJECTS:]):
            return [type(value).__name__, *(self.write(part) for part in (value.start, value.stop, value.step))]
        return ["dots"] if value is ... else self._converted(value)

    def _array(self, kind: str, array: Array) -> Any:
        plain = np.asarray(array)
        if not plain.dtype.isnative:
            plain = plain.astype(plain.dtype.newbyteorder("="))
        name = _NAMES.get(plain.dtype)
        if name is not None:
            return [kind, self._part(plain.tobytes()), name, list(plain.shape)]
        if plain.dtype == object and plain.size <= _OBJECTS:
            return self.write(plain.tolist(), 1)
        return self._other(array)

    def _part(self, content: bytes) -> int:
        self.parts.append(content)
        return len(self.parts) - 1

    def _converted(self, value: Any) -> Any:
        """What says that it is an array, as one; anything else by its repr."""
        if hasattr(type(value), "__array__"):
            return self._array("array", np.asarray(value))
        return self._other(value)

    @staticmethod
    def _other(value: Any) -> list[Any]:
        try:
            said = repr(value)[:_SAID]
        except Exception:  # noqa: BLE001 - an object may raise anything
            said = ""
        return ["other", type(value).__name__[:_SAID], said]


def framed(value: Any, special: Writes = _nobody) -> bytes:
    """The message with one value. Raises Malformed if it is too large."""
    writer = Writer(special)
    held = writer.write(value)
    header = json.dumps([held, [len(part) for part in writer.parts]], separators=(",", ":")).encode()
    body = b"".join(writer.parts)
    if len(header) > HEADER or len(body) > BODY:
        raise Malformed(f"a message has at most {HEADER:,} and {BODY:,} bytes; got {len(header):,} and {len(body):,}")
    return _LENGTHS.pack(len(header), len(body)) + header + body


@dataclass
class Reader:
    """Reads one value. `known` has a function for each kind that is not plain."""

    known: Mapping[str, Reads] = field(default_factory=dict)
    #: The bytes of the arrays by their numbers; each is for one of them, or a short message could fill the memory.
    parts: dict[int, bytes] = field(default_factory=dict)
    #: how many elements the ranges of this message have
    _spanned: int = 0

    def read(self, header: bytes, body: bytes) -> Any:
        """The value of a message. Raises Malformed."""
        try:
            held, sizes = json.loads(header)
            if not all(type(size) is int and 0 <= size <= len(body) for size in sizes) or sum(sizes) != len(body):
                raise Malformed("the sizes of the arrays are not those of the body")
            ends = enumerate(zip(accumulate(sizes), sizes, strict=True))
            self._spanned = 0
            self.parts = {number: body[end - size : end] for number, (end, size) in ends}
            return self.value(held)
        except Malformed:
            raise
        except _NONSENSE as error:
            raise Malformed(f"not a message: {type(error).__name__}") from None

    def value(self, held: Any, depth: int = 0) -> Any:
        """The value of a piece of JSON."""
        if type(held) is not list:
            if type(held) is dict:
                raise Malformed("a JSON object")
            return held
        if depth > _DEEP + 2:
            raise Malformed("lists too deep")
        kind, *rest = held
        if kind in ("list", "tuple"):
            parts = [self.value(part, depth + 1) for part in rest]
            return parts if kind == "list" else tuple(parts)
        if kind == "dict":
            if len(rest) > _ENTRIES:  # keys can be chosen so that a dict takes quadratic time
                raise Malformed("a dict with too many keys")
            return {self.value(key, depth + 1): self.value(content, depth + 1) for key, content in rest}
        if kind in self.known:
            return self.known[kind](*(self.value(part, depth + 1) for part in rest))
        return _PLAIN[kind](self, *rest)

    def array(self, which: Any, name: Any, shape: Any) -> Array:
        """An array that owns its content."""
        dtype = DTYPES[name]
        sizes = tuple(_whole(size) for size in shape)
        if math.prod(size or 1 for size in sizes) > BODY:  # empty, but iterating over its rows would take forever
            raise Malformed("an array with too many rows of nothing")
        held = self.bytes(which)
        if len(sizes) > 16 or math.prod(sizes) * dtype.itemsize != len(held):
            raise Malformed("the array's bytes are not those of its shape")
        content = np.frombuffer(held, dtype).reshape(sizes)
        if dtype.kind == "b" and content.view(np.uint8).max(initial=0) > 1:
            raise Malformed("a bool is 0 or 1")
        return content.copy()

    def number(self, which: Any, name: Any, shape: Any) -> Any:
        """A scalar of numpy."""
        return self.array(which, name, shape)[()]

    def range(self, *parts: Any) -> Any:
        """A range."""
        made = _span(range, *parts)
        self._spanned += min(len(made), _SPANNED)
        if len(made) > _OBJECTS or self._spanned > _SPANNED:
            raise Malformed("ranges that are too long")
        return made

    def bytes(self, which: Any) -> Any:
        """The bytes of a part, which no other value has."""
        return self.parts.pop(_whole(which))


def _whole(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise Malformed("not a size")
    return number


def _integer(digits: Any) -> int:
    if len(digits) > _BITS // 4 + 3:
        raise Malformed("an integer that is too long")
    return int(digits, 16)


def _span(kind: Callable[..., Any], *parts: Any) -> Any:
    if len(parts) != 3 or not all(part is None or type(part) is int for part in parts):
        raise Malformed("not a range")
    return kind(*parts)


def _other(_: Reader, kind: str, said: str) -> Other:
    return Other(str(kind)[:_SAID], str(said)[:_SAID])


_PLAIN: Mapping[str, Reads] = {
    "array": Reader.array,
    "number": Reader.number,
    "bytes": Reader.bytes,
    "int": lambda _, digits: _integer(digits),
    "float": lambda _, digits: struct.unpack("<d", bytes.fromhex(digits))[0],
    "complex": lambda _, digits: complex(*struct.unpack("<dd", bytes.fromhex(digits))),
    "range": Reader.range,
    "slice": lambda _, *parts: _span(slice, *parts),
    "dots": lambda _: ...,
    "other": _other,
}


def lengths(prefix: bytes) -> tuple[int, int]:
    """The lengths of header and body. Raises Malformed if they are beyond the limits."""
    header, body = _LENGTHS.unpack(prefix)
    if header > HEADER or body > BODY:
        raise Malformed("a message beyond the limits")
    return header, body


#: Bytes in front of a message.
PREFIX = _LENGTHS.size
#: The first message of a box.
READY = "ready"

# ---------------------------------------------------------------------------------------------- records

#: The package's own records that may be answers or operands, and their modules. All of their fields are plain.
RECORDS = {
    "Descriptor": "tcemu.layouts.descriptor",
    "Im2colMap": "tcemu.machine.im2col",
    "Plan": "tcemu.gemm.wgmma_tma",
    "TensorMap": "tcemu.machine.tensor_map",
}


def record(value: Any) -> list[Any] | None:
    """One of RECORDS as JSON; None for anything else."""
    name, kind = type(value).__name__, type(value)
    if RECORDS.get(name) != kind.__module__:
        return None
    writer = Writer()
    held = ["record", name, *(writer.write(getattr(value, each.name)) for each in fields(value))]
    return None if writer.parts else held


def recorded(name: str, *values: Any) -> Any:
    """One of RECORDS from its fields. Raises Malformed."""
    try:
        return getattr(import_module(RECORDS[name]), name)(*values)
    except (KeyError, TypeError, ValueError, TcemuError):
        raise Malformed("not one of the package's records") from None
