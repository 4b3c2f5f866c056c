"""One element in plain Python integers: take a pattern apart, and round an exact number once.

codec.py does the same on arrays. This is the version to step through; the reference arithmetic is built on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcemu.arguments import explained
from tcemu.formats.format import Class, Format

Rounding = Literal["rn", "rz", "rm", "rp", "rna"]


@dataclass(frozen=True)
class Unpacked:
    """A pattern taken apart. Its value is (-1)^negative * significand * 2^(exponent - fraction).

    >>> one_and_a_half = tcemu.formats.unpack(tcemu.formats.lookup("f16"), 0x3E00)
    >>> one_and_a_half.significand, one_and_a_half.exponent, one_and_a_half.fraction  # 1536 * 2^(0 - 10)
    (1536, 0, 10)
    """

    kind: Class
    negative: bool
    #: Whole number below 2^(fraction + 1); that of a subnormal has no leading one.
    significand: int
    #: Exponent at the binary point; subnormals keep the format's smallest exponent and are not normalised.
    exponent: int
    #: Bits of the significand after the binary point.
    fraction: int

    @property
    def is_zero(self) -> bool:
        """Whether the value is zero."""
        return self.kind == "zero"


@explained
def unpack(form: Format, pattern: int) -> Unpacked:
    """Take one pattern of a float format apart.

    >>> tcemu.formats.unpack(tcemu.formats.lookup("e4m3"), 0xB8)  # -1
    Unpacked(kind='normal', negative=True, significand=8, exponent=0, fraction=3)
    """
    sign, exponent, mantissa = form.fields(pattern)
    hidden = int(exponent > 0 or not form.zero)
    return Unpacked(
        kind=form.classify(pattern),
        negative=bool(sign),
        significand=mantissa + (hidden << form.mantissa),
        exponent=exponent - form.bias if hidden else form.emin,
        fraction=form.mantissa,
    )


@explained
def round_exact(
    form: Format, number: int, exponent: int, rounding: Rounding, *, keep: int | None = None, overflow: str = "ieee"
) -> int:
    """The pattern of number * 2^exponent in `form`, rounded once; a zero result is +0.

    `keep` is the number of bits kept after the binary point, if fewer than the format's mantissa has; the subnormal
    grid becomes coarser by as much. With `overflow` "infinity" every overflow gives infinity, whatever the rounding:
    that is what tensor cores do.

    >>> f16 = tcemu.formats.lookup("f16")
    >>> [hex(tcemu.formats.round_exact(f16, 2**11 + 1, -11, rounding)) for rounding in ("rn", "rz", "rp")]  # 1 + 2^-11
    ['0x3c00', '0x3c00', '0x3c01']
    """
    keep = form.mantissa if keep is None else keep
    magnitude, negative = abs(int(number)), number < 0  # numpy's integers have no bit_length
    if not magnitude:
        return 0
    top = max(magnitude.bit_length() - 1 + exponent, form.emin)
    quantum = top - keep  # the exponent of the last bit that is kept
    kept = _round_shift(magnitude, quantum - exponent, negative, rounding)
    # The exponent field and the hidden bit overlap, so a carry out of the significand is right.
    code = ((top - form.emin) << form.mantissa) + (kept << (form.mantissa - keep))
    if not form.zero:
        code = max(code - 1, 0)
    largest = form.largest_pattern >> form.padding
    if code > largest:
        stops = rounding == "rz" or rounding == ("rp" if negative else "rm")
        beyond = form.infinity_bits if form.infinity_bits is not None else form.nan_bits
        finite = beyond is None or (stops and overflow == "ieee")
        code = largest if finite or beyond is None else beyond >> form.padding
    pattern = code << form.padding
    return pattern | form.sign_bit if negative and code else pattern


def _round_shift(magnitude: int, shift: int, negative: bool, rounding: Rounding) -> int:
    """magnitude / 2^shift, rounded to a whole number."""
    if shift <= 0:
        return magnitude << -shift
    kept, rest, half = magnitude >> shift, magnitude & ((1 << shift) - 1), 1 << (shift - 1)
    if rounding == "rn":
        return kept + (rest > half or (rest == half and kept & 1))
    if rounding == "rna":
        return kept + (rest >= half)
    away = {"rz": False, "rm": negative, "rp": not negative}[rounding]
    return kept + (away and rest > 0)
