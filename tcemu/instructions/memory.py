"""The bytes that instructions load and store, and the rules for addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.backend import backend_of_move
from tcemu.errors import AddressError, OperandError, listing
from tcemu.formats.arrays import as_array
from tcemu.instructions.instruction import Instruction

Array = npt.NDArray[Any]

#: State spaces (the .ss qualifier) and the arguments of tcemu.run that hold their bytes; "" is generic addressing.
SPACES = {"global": ("memory",), "shared": ("shared",), "shared::cta": ("shared",), "": ("shared", "memory")}


class Observed(NamedTuple):
    """Memory that reports reads and writes to its owner: `tell(writes, addresses (warps, n), bytes each)`.

    It reports an access after its addresses were checked and before it happens.
    """

    bytes: Array
    tell: Callable[[bool, Array, int], None]


class Memory:
    """An array (..., bytes) of uint8, as the instruction sees it. The leading axes are independent memories."""

    def __init__(
        self, instruction: Instruction, memories: Mapping[str, Any], generic: tuple[str, ...] | None = None
    ) -> None:
        names = SPACES[instruction.words.get("ss", "")] if generic is None or instruction.words.get("ss") else generic
        passed = [name for name in memories if memories[name] is not None]
        usable = [name for name in passed if name in names]
        if len(usable) != 1:
            problem = (
                "both are given, and a generic address could lie in either"
                if len(usable) > 1
                else f"got {listing(passed)}"
            )
            raise OperandError(
                f"{instruction} needs the bytes it addresses: {listing([f'{name}=' for name in names])}; {problem}"
            )
        self.instruction, self.name = instruction, usable[0]
        asked = memories[self.name]
        self._tell = asked.tell if isinstance(asked, Observed) else None
        self.bytes = self._check(asked.bytes if isinstance(asked, Observed) else asked)
        self.own = self.bytes.shape[:-1]
        self.size = self.bytes.shape[-1]

    @property
    def numbers(self) -> Array:
        """An array of shape `own` with the number of each memory, which selects the memory that a warp sees."""
        return np.arange(prod(self.own), dtype=np.int64).reshape(self.own)

    def _check(self, memory: object) -> Array:
        if not isinstance(memory, np.ndarray) or memory.dtype != np.uint8 or memory.ndim < 1:
            what = (
                f"{type(memory).__name__}"
                if not isinstance(memory, np.ndarray)
                else f"dtype {memory.dtype}, shape {memory.shape}"
            )
            raise OperandError(f"{self.instruction}: {self.name}= must be a uint8 array (..., bytes); got {what}")
        return memory

    def check(self, addresses: Array, count: int, align: int, who: str, rule: str, first: int = 0) -> None:
        """Raise AddressError if one of `addresses` (warps from `first` on, who) is not aligned or not inside."""
        if backend_of_move(addresses.size) == "numba":
            from tcemu.kernels.host.memory import misplaced

            if not misplaced(addresses, count, align, self.size):
                return
        wrongs: tuple[tuple[Literal["alignment", "bounds"], Array, str], ...] = (
            ("alignment", addresses % align != 0, f"is not a multiple of {align}: {rule}"),
            (
                "bounds",
                (addresses < 0) | (addresses > self.size - count),
                f"lies outside {self.name}= ({self.size} bytes, {count} needed)",
            ),
        )
        for kind, wrong, why in wrongs:
            if wrong.any():
                warp, which = (int(x) for x in np.argwhere(wrong)[0])
                whose = (f"{who} {which}" if addresses.shape[1] > 1 else who) + (
                    f" of warp {first + warp}" if first + len(addresses) > 1 else ""
                )
                raise AddressError(
                    f"{self.instruction}: {whose}: address {int(addresses[warp, which])} {why} (PTX ISA "
                    f"{self.instruction.section})",
                    kind,
                )

    def load(self, addresses: Array, count: int, which: Array | None) -> Array:
        """Bytes (warps, n, count) from checked addresses (warps, n); `which` memory each warp sees (None: one)."""
        if self._tell:
            self._tell(False, addresses, count)
        if backend_of_move(addresses.size * count) == "numba":
            from tcemu.kernels.host.memory import load

            lines = np.empty((*addresses.shape, count), np.uint8)
            load(self._flat, addresses, which, lines)
            return lines
        index = addresses[..., None] + np.arange(count, dtype=np.int64)
        return np.asarray(self._flat[0][index] if which is None else self._flat[which[:, None, None], index])

    @cached_property
    def _flat(self) -> Array:
        """(memories, bytes): a view of the bytes if they are contiguous, otherwise a copy."""
        return np.ascontiguousarray(self.bytes).reshape(prod(self.own), self.size)

    def elements(self, addresses: Array, size: int, which: Array | None) -> Array:
        """Elements (warps, n) of `size` bytes at aligned addresses (warps, n), as unsigned integers."""
        whole = self.size // size * size
        flat = np.ascontiguousarray(self.bytes[..., :whole]).reshape(prod(self.own), whole).view(f"u{size}")
        index = addresses // size
        return np.asarray(flat[0][index] if which is None else flat[which[:, None], index])

    def store(self, addresses: Array, lines: Array, which: Array | None) -> None:
        """Store bytes (warps, n, count) at checked addresses (warps, n)."""
        if not self.bytes.flags.writeable:
            raise OperandError(f"{self.instruction} stores to {self.name}=, but that array is read-only")
        if self._tell:
            self._tell(True, addresses, lines.shape[-1])
        if backend_of_move(lines.size) == "numba":
            from tcemu.kernels.host.memory import store

            store(self._flat, addresses, which, np.ascontiguousarray(lines))
        else:
            index = addresses[..., None] + np.arange(lines.shape[-1], dtype=np.int64)
            self._flat[np.zeros((1, 1, 1), np.intp) if which is None else which[:, None, None], index] = lines
        if not self.bytes.flags.c_contiguous:
            self.bytes[...] = self._flat.reshape(self.bytes.shape)

    def repeated(self, addresses: Array, unit: int) -> Array:
        """(warps,): whether two of a warp's checked addresses (warps, n), all multiples of `unit`, are equal."""
        if backend_of_move(addresses.size) == "numba":
            from tcemu.kernels.host.memory import repeated

            flags = np.empty(len(addresses), np.bool_)
            repeated(addresses, self.size, unit, flags)
            return flags
        ordered = np.sort(addresses, axis=1)
        return np.asarray((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))


def integers(instruction: Instruction, value: npt.ArrayLike, what: str) -> Array:
    """Addresses or strides as int64. Raises OperandError for anything but integers."""
    return as_int64(integral(instruction, value, what))


def integral(instruction: Instruction, value: npt.ArrayLike, what: str) -> Array:
    """Addresses or strides in the integer type in which they are given. Raises OperandError for other types."""
    expected = f"{instruction}: {what} must be integers; got"
    array = as_array(value, expected)
    if array.dtype.kind not in "iu":
        raise OperandError(f"{expected} dtype {array.dtype}")
    return array


def as_int64(values: Array) -> Array:
    """Integers of any type as int64: no memory is so large that clipping makes an invalid address valid."""
    held = np.minimum(values, np.iinfo(np.int64).max) if values.dtype == np.uint64 else values
    return held.astype(np.int64)


def uniform(instruction: Instruction, what: str, value: npt.ArrayLike) -> Array:
    """The value, int64 (), of `what` ("the pointer", "the stride") that all lanes of a warp give, from () or (32,).

    For callers that have a value for each lane, such as a kernel; tcemu.run takes one value per warp. Raises
    OperandError for another shape, and for the first lane that differs from lane 0, because the behaviour of wmma.load
    and wmma.store is then undefined (PTX ISA 9.7.14.4.3 and 9.7.14.4.4).
    """
    values = integers(instruction, value, what)
    if values.shape not in ((), (32,)):
        raise OperandError(f"{instruction}: {what} must be one integer, or one for each lane; got {values.shape}")
    if values.ndim and (values != values[0]).any():
        lane = int((values != values[0]).argmax())
        kind = "address" if "pointer" in what else "value"
        raise OperandError(
            f"{instruction}: lane {lane} gives a different {what.removeprefix('the ')} from lane 0: {kind} "
            f"{int(values[lane])}, not {int(values[0])}. All lanes of a warp must give the same one; otherwise the "
            f"behaviour is undefined (PTX ISA {instruction.section})"
        )
    return values[0] if values.ndim else values
