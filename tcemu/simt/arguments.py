"""What a kernel is called with: numpy arrays, numbers, structs and tensor maps, as the bytes of its parameters."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tcemu.assembly import Function, Variable
from tcemu.errors import LaunchError, briefly, counted, is_whole
from tcemu.machine.mapped import Mapped

Array = npt.NDArray[Any]


@runtime_checkable
class Packed(Protocol):
    """An argument that makes its own bytes, such as a struct.

    >>> from tcemu.simt import Packed
    >>> class Pair:
    ...     buffers = (np.zeros(4, np.float32),)
    ...
    ...     def pack(self, pointers):
    ...         return int(next(pointers)).to_bytes(8, "little") + (7).to_bytes(4, "little")
    >>> pair = Pair()
    >>> isinstance(pair, Packed), pair.pack(iter([4096])).hex()
    (True, '001000000000000007000000')
    """

    @property
    def buffers(self) -> Sequence[Array]:
        """The arrays that it points to."""

    def pack(self, pointers: Iterator[int]) -> bytes:
        """Its bytes; it takes a pointer for each of its arrays."""


class Behind(NamedTuple):
    """An argument that is a pointer to something which makes its own bytes, of this size: a struct, a tensor map."""

    packed: Packed
    size: int


class Bound(NamedTuple):
    """The arrays that a launch passes, by what they are for, and how the parameters are packed from their pointers."""

    #: (what it is called, the array)
    buffers: list[tuple[str, Array]]
    #: the arrays that hold what is behind a pointer, by the number of the argument
    behind: dict[int, Array]


def bind(kernel: Function, arguments: Sequence[Any], names: Sequence[str]) -> Bound:
    """Check arguments against a kernel's parameters."""
    wanted = kernel.parameters
    if len(arguments) != len(wanted):
        listed = ", ".join(names)
        raise LaunchError(f"{kernel.short} takes {counted(len(wanted), 'argument')} ({listed}); got {len(arguments)}")
    buffers: list[tuple[str, Array]] = []
    behind: dict[int, Array] = {}
    for number, (argument, parameter, name) in enumerate(
        zip(behind_pointers(kernel, arguments), wanted, names, strict=True)
    ):
        if isinstance(argument, np.ndarray):
            _pointer(kernel, parameter, name)
            buffers.append((name, argument))
        elif isinstance(argument, Behind):
            _pointer(kernel, parameter, name)
            buffers += _named(argument.packed, name)
            behind[number] = np.zeros(argument.size, np.uint8)
        elif isinstance(argument, Packed):
            buffers += _named(argument, name)
        else:
            number_bytes(kernel, parameter, name, argument)
    return Bound([*buffers, *((f"what {names[number]} points to", each) for number, each in behind.items())], behind)


def _named(argument: Packed, name: str) -> list[tuple[str, Array]]:
    """The arrays of an argument, with the names that it gives them, if it does."""
    names = getattr(argument, "names", [name] * len(argument.buffers))
    return list(zip(names, argument.buffers, strict=True))


def behind_pointers(kernel: Function, arguments: Sequence[Any]) -> list[Any]:
    """The arguments; a tensor map for a pointer is behind it."""
    return [
        Behind(each, Mapped.size) if isinstance(each, Mapped) and parameter.size == 8 else each
        for each, parameter in zip(arguments, kernel.parameters, strict=True)
    ]


def pack(
    kernel: Function,
    arguments: Sequence[Any],
    names: Sequence[str],
    pointers: Sequence[Any],
    at: dict[str, int],
    size: int,
) -> bytes:
    """The bytes of the parameters; `pointers` are those of the arrays of `bind`, and `at` says where parameters lie."""
    arguments = behind_pointers(kernel, arguments)
    count = sum(isinstance(argument, Behind) for argument in arguments)
    left, addresses = iter(pointers), iter(pointers[len(pointers) - count :])
    raw_bytes = bytearray(size)
    for argument, parameter, name in zip(arguments, kernel.parameters, names, strict=True):
        if isinstance(argument, np.ndarray):
            raw = int(next(left)).to_bytes(8, "little")
        elif isinstance(argument, Behind):
            argument.packed.pack(left)
            raw = int(next(addresses)).to_bytes(8, "little")
        elif isinstance(argument, Packed):
            raw = argument.pack(left)
        else:
            raw = number_bytes(kernel, parameter, name, argument)
        if len(raw) != parameter.size:
            raise LaunchError(
                f"{kernel.short}: {name} has {counted(parameter.size, 'byte')}; the argument has {len(raw)}"
            )
        start = at[parameter.name]
        raw_bytes[start : start + len(raw)] = raw
    return bytes(raw_bytes)


def _pointer(kernel: Function, parameter: Variable, name: str) -> None:
    if parameter.size != 8 or parameter.type not in ("u64", "b64", "s64", "b8"):
        raise LaunchError(
            f"{kernel.short}: {name} is a number of {counted(parameter.size, 'byte')} (.{parameter.type}), no pointer; "
            "got an array"
        )


def number_bytes(kernel: Function, parameter: Variable, name: str, argument: Any) -> bytes:
    """The bytes of a number, or bytes as they are, for a parameter."""
    if isinstance(argument, bytes | bytearray):
        return bytes(argument)
    kind, size = parameter.type, parameter.size
    if isinstance(argument, np.void) or (isinstance(argument, np.generic) and argument.dtype.kind not in "biuf"):
        return argument.tobytes()
    whole = is_whole(argument) or isinstance(argument, bool | np.bool_)
    real = isinstance(argument, float | np.floating)
    if not whole and not real:
        raise LaunchError(f"{kernel.short}: {name} takes a number, an array or bytes; got {briefly(argument)}")
    if kind[0] == "f" or (kind[0] == "b" and real):
        return _float(argument, size)
    if real:
        raise LaunchError(f"{kernel.short}: {name} is an integer (.{kind}); got {briefly(argument)}")
    value = int(argument)
    low, high = -(1 << 8 * size - 1), 1 << 8 * size
    if not low <= value < high:
        raise LaunchError(f"{kernel.short}: {name} has {8 * size} bits; {value} does not fit")
    return (value & (high - 1)).to_bytes(size, "little")


def _float(number: Any, size: int) -> bytes:
    if isinstance(number, np.floating) and number.dtype.itemsize == size:
        return number.tobytes()
    with np.errstate(over="ignore"):
        return np.asarray(number, f"<f{size}").tobytes() if size in (2, 4, 8) else struct.pack("<d", number)
