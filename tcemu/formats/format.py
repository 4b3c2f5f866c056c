"""A number format is one record; everything else about it is derived.

A *pattern* is the bits of one element, right-aligned in its container: 16 bits for f16, the whole 32-bit register for
tf32 (whose low 13 bits are padding), 4 bits for e2m1, the low 6 bits of a byte for e3m2.
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
    """The bit fields of a pattern, as unsigned integers; 0 for a field that the format does not have.

    >>> tcemu.formats.lookup("f16").fields(0xC000)  # -2
    Fields(sign=1, exponent=16, mantissa=0)
    """

    sign: int
    exponent: int
    mantissa: int


@dataclass(frozen=True)
class Format:
    """One number format.

    Integers have `mantissa` magnitude bits and, if signed, a sign bit in two's complement.

    >>> e4m3 = tcemu.formats.lookup("e4m3")
    >>> e4m3.bits, e4m3.bias, e4m3.largest, e4m3.smallest_subnormal, str(e4m3.dtype)
    (8, 7, 448.0, 0.001953125, 'float8_e4m3fn')
    >>> codes = e4m3.encode([1.0, 1.0625, 500.0], satfinite=True)  # to nearest, ties to even; 448 is the largest
    >>> [hex(code) for code in codes], e4m3.decode(codes)
    (['0x38', '0x38', '0x7e'], array([  1.,   1., 448.]))
    >>> e4m3.fields(0x38), e4m3.classify(0x01), e4m3.classify(0x7F)
    (Fields(sign=0, exponent=7, mantissa=0), 'subnormal', 'nan')
    >>> len(e4m3.codes())  # every pattern
    256
    >>> str(e4m3.matrix(codes).dtype), e4m3.patterns(e4m3.matrix(codes))
    ('float8_e4m3fn', array([ 56,  56, 126], dtype=uint8))
    """

    name: str
    #: The dtype of matrices, by numpy's name or else ml_dtypes's; "" if neither has one: matrices are then patterns.
    dtype_name: str = ""
    #: "float", "integer" (two's complement if signed) or "bit".
    kind: Kind = "float"
    signed: bool = True
    #: Bits of the exponent field.
    exponent: int = 0
    #: Bits of the mantissa field; for integers, bits of the magnitude.
    mantissa: int = 0
    bias: int = 0
    #: Whether an exponent field of all ones with a mantissa of zero is an infinity.
    infinities: bool = False
    #: "ieee": exponent all ones, mantissa not zero. "all ones": only the pattern of all ones (e4m3). "none": no NaN.
    nan: Nan = "none"
    #: Whether exponent field 0 means zero and subnormals; otherwise (ue8m0) it is one more power of two.
    zero: bool = True
    #: Low bits of the container that the hardware ignores: tf32 is an f32 register whose low 13 bits are ignored.
    padding: int = 0
    #: Bits that one element takes in memory or in a register on its own; 0 means its own bits only.
    container: int = 0
    #: Roundings of PTX's cvt from a wider float, apart from stochastic .rs; for fp8, fp6 and fp4 only with .satfinite.
    cvt: str = ""
    #: What the format is for, in one line.
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
            ("an infinity whose pattern is not reserved for it", self.infinities and self.nan != "ieee"),
            ("an IEEE NaN without mantissa bits", self.nan == "ieee" and self.mantissa == 0),
            ("a container of more than 64 bits", self.container > 64),
            ("a rounding that PTX does not have", not set(self.cvt.split()) <= set(codec.ROUNDINGS)),
        ]

    # ------------------------------------------------------------------------------------------ derived

    @property
    def bits(self) -> int:
        """Bits that carry the value: sign, exponent and mantissa."""
        return self.signed + self.exponent + self.mantissa

    @property
    def code_mask(self) -> int:
        """The bits of a pattern that count; the rest is ignored."""
        return ((1 << self.bits) - 1) << self.padding

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number, which subnormals share; 0 for integers."""
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
        """The NaN that :meth:`encode` writes, positive and quiet (or all ones, if that is the only one); or None."""
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
        """The lowest finite value: negative, or for a format without a sign 0 or the smallest value."""
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

    @cached_property
    def storage(self) -> np.dtype[Any]:
        """The unsigned numpy dtype that holds one pattern."""
        return codec.storage(self.container)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of matrices of this format: numpy's or ml_dtypes's; bool for b1.

        ue4m3 has no dtype of its own: its matrices are float8_e4m3fn with the sign bit clear.
        """
        return codec.value_dtype(self.dtype_name) if self.dtype_name else self.storage

    # ------------------------------------------------------------------------------------------ codec

    def codes(self) -> npt.NDArray[Any]:
        """Every pattern, (2^bits,), ascending, with padding bits 0. Raises FormatError for more than 2^19."""
        if self.bits > 19:
            raise FormatError(f"{self.name} has 2^{self.bits} patterns, too many to list; codes() lists up to 2^19")
        return (np.arange(1 << self.bits, dtype=np.uint64) << np.uint64(self.padding)).astype(self.storage)

    def decode(self, patterns: npt.ArrayLike) -> npt.NDArray[Any]:
        """The exact values of `patterns` (unsigned integers, any shape): float64, or int64 for integers and b1.

        Padding and bits above the format's own are ignored, as the hardware ignores them.
        """
        return codec.decode(self, codec.as_patterns(self, patterns))

    def encode(self, values: npt.ArrayLike, rounding: str = "rn", satfinite: bool = False) -> npt.NDArray[Any]:
        """The patterns of `values` (any shape) in this format, rounded once.

        `rounding` is PTX's word: rn (nearest, ties to even), rz (toward zero), rm (down), rp (up), rna (nearest, ties
        away from zero). Every format takes all five; PTX's conversions to a format offer only some. Overflow gives
        infinity, or NaN if the format has no infinity, or the largest value if it has neither; with `satfinite` always
        the largest value. NaN becomes the canonical NaN. Values for integer formats must be whole and in range, unless
        `satfinite` rounds and clamps them.

        Raises FormatError for an unknown rounding, and for a value that has no pattern.
        """
        return codec.encode(self, values, rounding, satfinite)

    def patterns(self, matrix: npt.ArrayLike, what: str = "") -> npt.NDArray[Any]:
        """The patterns of an array that is already in this format: of dtype `dtype`, or unsigned patterns.

        Integer formats also take any integers in range. Raises OperandError for any other dtype: nothing is rounded.
        """
        return codec.patterns_of(self, matrix, what or self.name)

    def matrix(self, patterns: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array of dtype `dtype` with the given patterns (dtype `storage`); the inverse of :meth:`patterns`."""
        return codec.matrix_of(self, patterns)

    def fields(self, pattern: int) -> Fields:
        """The sign, exponent and mantissa fields of one pattern."""
        code = (codec.as_pattern(self, pattern) & self.code_mask) >> self.padding
        sign = code >> (self.bits - 1) if self.signed else 0
        return Fields(sign, code >> self.mantissa & ((1 << self.exponent) - 1), code & ((1 << self.mantissa) - 1))

    def classify(self, pattern: int) -> Class:
        """The class of one pattern: zero, subnormal, normal, infinity or nan."""
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
