"""How blocks round: sums without their signs, as float32 toward zero or as float16 to nearest."""

from __future__ import annotations

from typing import NamedTuple

from tcemu.kernels.emit.lanes import SIGN, Lanes, whole_vectors_of_words
from tcemu.kernels.sums import INFINITY, QUIET


class SignedSum(NamedTuple):
    """Sums of 32 bits without their signs: `whole` is each modulo 2^32, and the top bit of `signed` is its sign."""

    whole: Lanes
    signed: Lanes

    @property
    def negative(self) -> Lanes:
        """-1 where the sum is negative, else 0."""
        return self.signed.sign()

    @property
    def magnitude(self) -> Lanes:
        """The sums without their signs, unsigned."""
        return (self.whole ^ self.negative) - self.negative

    @property
    def overflows(self) -> Lanes:
        """Negative where `whole` is not the sum itself."""
        return self.whole ^ self.signed

    def toward_zero(self) -> Lanes:
        """The sums as floats, toward zero."""
        return self._signed(cut(self.magnitude))

    def to_odd(self) -> Lanes:
        """The sums as floats whose last bit is 1 if bits were lost: rounding them once more is as good as once."""
        magnitude = self.magnitude
        # Of more than 24 bits, one replaces the lower eight.
        sticky = (magnitude & ~0xFF) | (((magnitude & 0xFF) + 0xFF) & 0x100)
        small = magnitude.down(24).compare("==", 0)
        return self._signed(small.choose(magnitude, sticky).converted_unsigned())

    def _signed(self, size: Lanes) -> Lanes:
        return (size.bits() | (self.negative & SIGN)).floats()


def cut(magnitude: Lanes) -> Lanes:
    """Magnitudes of 32 bits as floats, toward zero.

    If a magnitude has n > 24 bits, the top bit of magnitude >> 24 is just below the 24 bits that stay. Clearing its
    bits leaves a number that the conversion, which rounds to nearest, rounds down.
    """
    return (magnitude & ~magnitude.down(24)).converted_unsigned()


def clean(bits: Lanes) -> Lanes:
    """Float32 patterns with a single NaN, and +0 for -0: no sum keeps -0, nor a subnormal that lost all its bits."""
    bits = (bits & QUIET).compare(">", INFINITY).choose(bits & 0 | QUIET, bits)
    return bits.compare("==", SIGN).choose(bits & 0, bits)


def converted_to_odd(whole: Lanes) -> Lanes:
    """Integers as floats, like `SignedSum.to_odd`. AVX-512 only."""
    rounded = whole.converted_toward_zero()
    return rounded.truncated().compare("!=", whole).choose(rounded.bits() | 1, rounded.bits()).floats()


def to_float16(x: Lanes) -> Lanes:
    """Floats, rounded to float16, to nearest even."""
    return x.as_halves().as_wide_reals()


def subnormal_term(bits: Lanes, raised: Lanes) -> Lanes:
    """Subnormal float32 patterns times 2^raised, as integers, toward zero: a subnormal float would be slow."""
    count, negative = bits & 0x7FFFFF, bits.sign()
    power = (raised - 149 + 127).larger(27).smaller(254).up(23).floats()
    size = (count.converted() * power).truncated()
    return (size ^ negative) - negative


def moved_down(x: Lanes, places: Lanes, *, subnormal: bool) -> Lanes:
    """The patterns of x * 2^-places, toward zero, for floats x that are integers; they may be infinite.

    subnormal: whether they may also be subnormal. If not, `places` is at most 126.
    """
    if not subnormal and whole_vectors_of_words():
        return x.times_power(-places).bits()
    bits = x.bits()
    size = bits & QUIET
    field = size.down(23)
    normal = (field - places).compare(">", 254).choose(bits & 0 | INFINITY, size - places.up(23))
    if not subnormal:
        return field.compare(">", 0).choose(normal | (bits & SIGN), bits)
    # A subnormal number's pattern counts units of 2^-149. The bounds only matter where there is no such number.
    power = ((bits & 0 | 149 + 127) - places).larger(27).smaller(254)
    units = (size.floats() * power.up(23).floats()).truncated()
    return field.compare(">", places.larger(0)).choose(normal, units) | (bits & SIGN)


def added_toward_zero(x: Lanes, y: Lanes) -> Lanes:
    """The sums of finite floats, rounded toward zero."""
    if whole_vectors_of_words():
        return x.plus_toward_zero(y)
    total = x + y
    of_y = total - x  # Knuth's two-sum: `lost` is exactly what rounding to nearest has lost
    lost = (x - (total - of_y)) + (y - of_y)
    # What was lost has the other sign: the sum was rounded away from zero.
    away = lost.compare("!=", 0.0).choose((lost.bits() ^ total.bits()).sign(), 0)
    return (total.bits() + away).floats()
