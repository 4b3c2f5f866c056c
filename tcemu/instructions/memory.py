"""The bytes that instructions load from and store to, and the rules that addresses must keep."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing
from tcemu.instructions.instruction import Instruction

Array = npt.NDArray[Any]

#: State spaces (the .ss qualifier) and the arguments of tcemu.run that hold their bytes; "" is generic addressing.
SPACES = {"global": ("memory",), "shared": ("shared",), "shared::cta": ("shared",), "": ("shared", "memory")}
#: Bytes that are moved at a time; every rule of alignment is a multiple of it.
_WORD = 4


class Memory:
    """An array (..., bytes) of uint8, as the instruction sees it. The axes in front are independent memories."""

    def __init__(
        self, instruction: Instruction, memories: Mapping[str, Any], generic: tuple[str, ...] | None = None
    ) -> None:
        names = SPACES[instruction.words.get("ss", "")] if generic is None or instruction.words.get("ss") else generic
        given = [name for name in memories if memories[name] is not None]
        usable = [name for name in given if name in names]
        if len(usable) != 1:
            told = (
                "both are given, and a generic address could lie in either"
                if len(usable) > 1
                else f"got {listing(given)}"
            )
            raise OperandError(
                f"{instruction} needs the bytes it addresses: {listing([f'{name}=' for name in names])}; {told}"
            )
        self.instruction, self.name = instruction, usable[0]
        self.bytes = self._check(memories[self.name])
        self.own = self.bytes.shape[:-1]
        self.size = self.bytes.shape[-1]

    def _check(self, given: object) -> Array:
        if not isinstance(given, np.ndarray) or given.dtype != np.uint8 or given.ndim < 1:
            what = (
                f"{type(given).__name__}"
                if not isinstance(given, np.ndarray)
                else f"dtype {given.dtype}, shape {given.shape}"
            )
            raise OperandError(f"{self.instruction}: {self.name}= is a numpy array of uint8 (..., bytes); got {what}")
        return given

    def check(self, addresses: Array, count: int, align: int, who: str, rule: str) -> None:
        """Raise OperandError for the first of `addresses` (warps, who) that is not aligned or not inside."""
        for wrong, why in (
            (addresses % align != 0, f"is no multiple of {align}: {rule}"),
            (
                (addresses < 0) | (addresses + count > self.size),
                f"lies outside {self.name}= ({self.size} bytes, {count} needed)",
            ),
        ):
            if wrong.any():
                warp, which = (int(x) for x in np.argwhere(wrong)[0])
                told = f"{who} {which}" + (f" of warp {warp}" if len(addresses) > 1 else "")
                raise OperandError(
                    f"{self.instruction}: {told}: address {int(addresses[warp, which])} {why} (PTX ISA "
                    f"{self.instruction.section})"
                )

    def load(self, addresses: Array, count: int, which: Array | None) -> Array:
        """Bytes (warps, n, count) from aligned addresses (warps, n); `which` memory a warp sees (None: the one)."""
        words = self._words()
        index = addresses[..., None] // _WORD + np.arange(count // _WORD)
        found = words[0][index] if which is None else words[which[:, None, None], index]
        return found.view(np.uint8).reshape(*addresses.shape, count)

    def store(self, addresses: Array, lines: Array, which: Array | None) -> None:
        """Put bytes (warps, n, count) at aligned addresses (warps, n)."""
        if not self.bytes.flags.writeable:
            raise OperandError(f"{self.instruction} stores to {self.name}=, but that array is read-only")
        count = lines.shape[-1]
        flat = self.bytes.reshape(prod(self.own), self.size) if self.bytes.flags.c_contiguous else None
        index = addresses[..., None] + np.arange(count)
        row = np.zeros((1, 1, 1), np.intp) if which is None else which[:, None, None]
        if flat is not None:
            flat[row, index] = lines
        else:
            copy = np.ascontiguousarray(self.bytes).reshape(prod(self.own), self.size)
            copy[row, index] = lines
            self.bytes[...] = copy.reshape(self.bytes.shape)

    def _words(self) -> Array:
        whole = self.size // _WORD * _WORD
        flat = np.ascontiguousarray(self.bytes[..., :whole]).reshape(prod(self.own), whole)
        return flat.view(np.dtype(f"uint{8 * _WORD}"))


def integers(instruction: Instruction, given: npt.ArrayLike, what: str) -> Array:
    """Addresses or strides as int64. Raises OperandError for anything but integers."""
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "iu":
            raise TypeError(f"dtype {array.dtype}")
        return array.astype(np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise OperandError(f"{instruction}: {what} must be integers; got {error}") from None
