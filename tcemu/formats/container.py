"""How elements share a register: each gets a fixed number of bits, with its pattern at a fixed place in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, TableError, briefly, counted, is_whole
from tcemu.formats import codec
from tcemu.formats.format import Format

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Container:
    """`width` bits of a register for each element of `form`, whose pattern starts at bit `shift` of them.

    Element 0 is in the lowest bits. (width, shift) is (16, 0) for f16 and (4, 0) for packed e2m1; in the bytes of
    kind::f8f6f4, e2m1 is (8, 2): bits 5:2, with two zero bits on each side (PTX ISA 9.1, 9.7.14.5.14).

    >>> half = tcemu.formats.Container(tcemu.formats.lookup("f16"), 16)
    >>> half.elements, half.register_bits
    (2, 32)
    >>> registers = half.pack(np.array([0x3C00, 0x4000], np.uint16))  # 1 in the low half, 2 in the high half
    >>> hex(registers[0]), [hex(pattern) for pattern in half.unpack(registers)]
    ('0x40003c00', ['0x3c00', '0x4000'])
    """

    form: Format
    width: int
    shift: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.form, Format):
            raise OperandError(f"a container must have a format, tcemu.formats.lookup(...); got {briefly(self.form)}")
        if not is_whole(self.width) or not 1 <= self.width <= 64 or not is_whole(self.shift) or self.shift < 0:
            raise OperandError(
                f"a container must have a width of 1 to 64 bits and a shift of at least 0; got "
                f"{briefly(self.width)} and {briefly(self.shift)}"
            )
        if self.register_bits % self.width or self.shift + self.form.bits + self.form.padding > self.width:
            raise TableError(f"{self.form.name} at bit {self.shift} does not fit containers of {self.width} bits")

    @property
    def register_bits(self) -> int:
        """Bits of one register: 64 for f64, 32 for everything else."""
        return 64 if self.width == 64 else 32

    @cached_property
    def register_dtype(self) -> np.dtype[Any]:
        """dtype of an array of registers: uint32, or uint64 for f64."""
        return np.dtype(f"uint{self.register_bits}")

    @property
    def elements(self) -> int:
        """Elements in one register."""
        return self.register_bits // self.width

    @property
    def storage(self) -> np.dtype[Any]:
        """The smallest unsigned dtype of one element's pattern."""
        return codec.storage(self.width)

    def pack(self, patterns: Array) -> Array:
        """Patterns (..., n), unsigned, to registers (..., n / elements), uint32 or uint64. Raises OperandError.

        n must be a multiple of `elements`.
        """
        dtype = self.register_dtype
        _check(patterns, f"patterns of {self.form.name}", "unsigned integers")
        if patterns.shape[-1] % self.elements:
            raise OperandError(
                f"{counted(patterns.shape[-1], 'pattern')} of {self.form.name} do not fill registers of {self.elements}"
            )
        grouped = patterns.astype(dtype).reshape(
            *patterns.shape[:-1], patterns.shape[-1] // self.elements, self.elements
        )
        grouped &= self._mask
        places = np.arange(self.elements, dtype=dtype) * dtype.type(self.width) + dtype.type(self.shift)
        return np.ascontiguousarray(np.bitwise_or.reduce(grouped << places, axis=-1))

    def unpack(self, registers: Array) -> Array:
        """Registers (..., n) to patterns (..., n * elements); bits around a pattern are dropped."""
        dtype = self.register_dtype
        _check(registers, f"registers of {self.form.name}", str(dtype))
        places = np.arange(self.elements, dtype=dtype) * dtype.type(self.width) + dtype.type(self.shift)
        spread = (registers[..., None] >> places) & self._mask
        patterns: Array = spread.reshape(*registers.shape[:-1], registers.shape[-1] * self.elements).astype(
            self.storage
        )
        return patterns

    @cached_property
    def _mask(self) -> Any:
        """A pattern's own bits, including padding: what is moved into a register and out of it."""
        return self.register_dtype.type((1 << (self.form.bits + self.form.padding)) - 1)


def _check(array: Array, what: str, wanted: str) -> None:
    """Raise OperandError unless it is an array, of at least one axis, of `wanted`: a dtype, or unsigned integers."""
    fits = isinstance(array, np.ndarray) and array.ndim and array.dtype.kind == "u"
    if not fits or wanted not in ("unsigned integers", array.dtype.name):
        got = f"dtype {array.dtype}, shape {array.shape}" if isinstance(array, np.ndarray) else briefly(array)
        raise OperandError(f"{what} must be an array (..., n) of {wanted}; got {got}")
