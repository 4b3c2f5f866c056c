"""A number format is one record; everything else about it is derived.

A *pattern* is one element as it stands in a register, right-aligned in its container: 16 bits for f16, the whole
32-bit register for tf32 (whose low 13 bits are padding), 4 bits for e2m1, the low 6 bits of a byte for e3m2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.errors import FormatError, TableError
from tcemu.formats import codec

Kind = Literal["float", "integer", "bit"]
Nan = Literal["none", "ieee", "all ones"]
Class = Literal["zero", "subnormal", "normal", "infinity", "nan"]


class Fields(NamedTuple):
    """The bit fields of a pattern, as unsigned integers. A format without the field has 0 there."""

    sign: int
    exponent: int
    mantissa: int


@dataclass(frozen=True)
class Format:
    """One number format.

    Integers have `mantissa` magnitude bits and, where signed, a sign bit in two's complement.
    """

    name: str
    #: "float", "integer" (two's complement where signed) or "bit".
    kind: Kind = "float"
    signed: bool = True
    #: Bits of the exponent field.
    exponent: int = 0
    #: Bits of the mantissa field; for integers the bits of the magnitude.
    mantissa: int = 0
    bias: int = 0
    #: Whether the exponent of all ones with a mantissa of zero is an infinity.
    infinities: bool = False
    #: "ieee": exponent all ones, mantissa not zero. "all ones": only the pattern of all ones (e4m3). "none": no NaN.
    nan: Nan = "none"
    #: Whether exponent field 0 means zero and subnormals; where not (ue8m0), it is one more power of two.
    zero: bool = True
    #: Low bits of the container that the hardware ignores: tf32 is an f32 register with the low 13 bits ignored.
    padding: int = 0
    #: Bits that one element takes in memory or in a register when it stands alone; 0 means just its own bits.
    container: int = 0
    #: What it is for, in one line.
    note: str = ""

    def __post_init__(self) -> None:
        if not self.container:
            object.__setattr__(self, "container", self.bits + self.padding)
        wrong = [text for text, holds in self._contradictions() if holds]
        if wrong:
            raise TableError(f"format {self.name!r} contradicts itself: {'; '.join(wrong)}")

    def _contradictions(self) -> list[tuple[str, bool]]:
        return [
            ("an element wider than its container", self.bits + self.padding > self.container),
            ("an integer with an exponent", self.kind != "float" and self.exponent != 0),
            ("a float without an exponent", self.kind == "float" and self.exponent == 0),
            ("an infinity without a place for its mantissa of zero", self.infinities and self.nan != "ieee"),
            ("a NaN that is not an infinity needs mantissa bits", self.nan == "ieee" and self.mantissa == 0),
            ("64 bits at most", self.container > 64),
        ]

    # ------------------------------------------------------------------------------------------ derived

    @property
    def bits(self) -> int:
        """Bits that carry the value: sign, exponent and mantissa."""
        return self.signed + self.exponent + self.mantissa

    @property
    def code_mask(self) -> int:
        """The bits of a pattern that are looked at."""
        return ((1 << self.bits) - 1) << self.padding

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number; subnormals have it too. Integers: 0."""
        return 0 if self.kind != "float" else (1 - self.bias if self.zero else -self.bias)

    @property
    def emax(self) -> int:
        """Exponent of the largest finite number."""
        return (self.largest_pattern >> self.padding >> self.mantissa) - self.bias if self.kind == "float" else 0

    @cached_property
    def largest_pattern(self) -> int:
        """Pattern of the largest finite number."""
        ones = (1 << (self.exponent + self.mantissa)) - 1
        below = {"none": 0, "all ones": 1, "ieee": (1 << self.mantissa)}[self.nan]
        return (ones - below) << self.padding

    @cached_property
    def infinity_bits(self) -> int | None:
        """Pattern of positive infinity, or None."""
        return ((1 << self.exponent) - 1) << (self.mantissa + self.padding) if self.infinities else None

    @property
    def has_nan(self) -> bool:
        """Whether any pattern is a NaN."""
        return self.nan != "none"

    @cached_property
    def nan_bits(self) -> int | None:
        """The NaN that :meth:`encode` writes: positive, quiet (all ones where that is the only one); or None."""
        if not self.has_nan:
            return None
        ones = (1 << (self.exponent + self.mantissa)) - 1
        quiet = ones & ~((1 << (self.mantissa - 1)) - 1) if self.nan == "ieee" else ones
        return quiet << self.padding

    @property
    def sign_bit(self) -> int:
        """Mask of the sign bit, 0 for an unsigned format."""
        return (1 << (self.bits - 1)) << self.padding if self.signed else 0

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return float(self.decode(self.largest_pattern))

    @property
    def lowest(self) -> float:
        """The most negative finite value (0 or the smallest value where the format has no sign)."""
        if self.kind != "float":
            return float(-(1 << self.mantissa)) if self.signed else 0.0
        return -self.largest if self.signed else float(self.decode(0))

    @property
    def smallest_normal(self) -> float:
        """The smallest positive value with a full significand; 1 for integers."""
        return math.ldexp(1.0, self.emin)

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive value; 1 for integers."""
        return (
            math.ldexp(1.0, self.emin - self.mantissa) if self.kind == "float" and self.zero else self.smallest_normal
        )

    @property
    def storage(self) -> np.dtype[Any]:
        """The unsigned numpy dtype that holds one pattern."""
        return codec.storage(self.container)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of matrices of this format: numpy's own, else ml_dtypes's; bool for b1.

        ue4m3 has no dtype of its own and is held in float8_e4m3fn with the sign bit clear.
        """
        return codec.value_dtype(self.name)

    # ------------------------------------------------------------------------------------------ codec

    def codes(self) -> npt.NDArray[Any]:
        """Every pattern of the format with its padding clear, ascending. Formats of at most 16 bits (and tf32's 19)."""
        if self.bits > 19:
            raise FormatError(f"{self.name} has 2^{self.bits} patterns, too many to list; codes() lists up to 2^19")
        return (np.arange(1 << self.bits, dtype=np.uint64) << np.uint64(self.padding)).astype(self.storage)

    def decode(self, patterns: npt.ArrayLike) -> npt.NDArray[Any]:
        """The values of `patterns` (unsigned integers, any shape), exactly: float64, or int64 for integers and b1.

        Bits above the format's own and the padding are ignored, as the hardware ignores them.
        """
        return codec.decode(self, codec.as_patterns(self, patterns))

    def encode(self, values: npt.ArrayLike, rounding: str = "rn", satfinite: bool = False) -> npt.NDArray[Any]:
        """The patterns of `values` (any shape) in this format, rounded once.

        `rounding` is PTX's word: rn (nearest, ties to even), rz (toward zero), rm (down), rp (up), rna (nearest, ties
        away). Overflow gives infinity, else NaN, else the largest value; with `satfinite` always the largest value.
        NaN becomes the canonical NaN. Integers must be whole and in range, or `satfinite` clamps them.

        Raises FormatError for an unknown rounding, and where a value has no pattern at all.
        """
        return codec.encode(self, values, rounding, satfinite)

    def patterns(self, matrix: npt.ArrayLike, what: str = "") -> npt.NDArray[Any]:
        """The patterns of an array that is in this format already: of dtype `dtype`, or unsigned patterns.

        Integer formats also take any integers in range. Raises OperandError for anything else: nothing is rounded.
        """
        return codec.patterns_of(self, matrix, what or self.name)

    def matrix(self, patterns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array of dtype `dtype` whose patterns (dtype `storage`) are given; the inverse of :meth:`patterns`."""
        return codec.matrix_of(self, patterns)

    def fields(self, pattern: int) -> Fields:
        """The sign, exponent and mantissa fields of one pattern."""
        code = (codec.as_pattern(self, pattern) & self.code_mask) >> self.padding
        sign = code >> (self.bits - 1) if self.signed else 0
        return Fields(sign, code >> self.mantissa & ((1 << self.exponent) - 1), code & ((1 << self.mantissa) - 1))

    def classify(self, pattern: int) -> Class:
        """What one pattern is: zero, subnormal, normal, infinity or nan."""
        code = codec.as_pattern(self, pattern) & self.code_mask
        if self.kind != "float":
            return "normal" if code else "zero"
        _, exponent, mantissa = self.fields(code)
        magnitude = code & ~self.sign_bit
        if magnitude > self.largest_pattern:
            return "infinity" if magnitude == self.infinity_bits else "nan"
        if exponent or not self.zero:
            return "normal"
        return "subnormal" if mantissa else "zero"

    def __repr__(self) -> str:
        if self.kind != "float":
            return f"<{self.name}: {'signed ' if self.signed else ''}{self.kind}, {self.bits} bits>"
        parts = f"{self.signed:d} sign, {self.exponent} exponent, {self.mantissa} mantissa bits"
        return f"<{self.name}: {parts}, bias {self.bias}, largest {self.largest:g}>"
