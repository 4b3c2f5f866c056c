"""Arrays of numpy as the values of a meaning: the reference backend, and the oracle of the native one.

A value is an array of unsigned integers of the operand's width, or of bool for a mask. Its operators are numpy's; what
numpy lacks is here. The methods are those of `tcemu.native.warp.WarpCode`, which explains them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tcemu.alu import fused

Array: TypeAlias = Any

_ROUNDED = {"roundeven": np.rint, "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil}
_COMPARED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def unsigned(bits: int) -> Any:
    """The type of unsigned integers of a width; of masks for 1 bit."""
    return np.dtype(f"u{bits // 8}") if bits > 1 else np.dtype(bool)


def width(x: Array) -> int:
    """The bits of a value: 1 of a mask."""
    return 1 if x.dtype == bool else 8 * x.dtype.itemsize


def _as_signed(x: Array) -> Array:
    return x.view(f"i{x.dtype.itemsize}")


def real(x: Array) -> Array:
    """The same bits as floats."""
    return x.view(f"f{x.dtype.itemsize}")


def bits_of(x: Array) -> Array:
    """The bits of floats or signed integers."""
    return x.view(f"u{x.dtype.itemsize}")


def _like(x: Array, y: Array | int) -> Array:
    """The second operand as an array of the first one's type."""
    return y if isinstance(y, np.ndarray) else np.asarray(y & ((1 << width(x)) - 1), x.dtype)


class Arrays:
    """The operations that Python has no operator for, on arrays."""

    # ------------------------------------------------------------------------------------------------ integers

    def constant(self, value: int, bits: int) -> Array:
        """A number for all lanes."""
        return np.asarray([value & ((1 << bits) - 1)], unsigned(bits))

    def number(self, x: Array) -> int | None:
        """The number that all lanes are; None if they differ."""
        return int(x.flat[0]) if x.size and (x == x.flat[0]).all() else None

    def select(self, mask: Array, yes: Array | int, no: Array | int, bits: int = 0) -> Array:
        """One or the other, lane by lane; `bits` is their width if both are numbers."""
        like = yes if isinstance(yes, np.ndarray) else no if isinstance(no, np.ndarray) else self.constant(0, bits)
        return np.where(mask, _like(like, yes), _like(like, no))

    def unsigned(self, x: Array, bits: int) -> Array:
        """Widened with zeros, or the low bits. A mask becomes 0 and 1."""
        return x.astype(unsigned(bits))

    def signed(self, x: Array, bits: int) -> Array:
        """Widened with copies of the sign, or the low bits. A mask becomes 0 and -1."""
        if x.dtype == bool:
            return -x.astype(unsigned(bits))
        return bits_of(_as_signed(x).astype(f"i{bits // 8}"))

    def less(self, x: Array, y: Array | int) -> Array:
        """Whether signed x < y."""
        return _as_signed(x) < _as_signed(_like(x, y))

    def less_equal(self, x: Array, y: Array | int) -> Array:
        """Whether signed x <= y."""
        return _as_signed(x) <= _as_signed(_like(x, y))

    def shift_signed(self, x: Array, amount: Array | int) -> Array:
        """Shifted right by less than its width, filled with copies of the sign."""
        return bits_of(_as_signed(x) >> _as_signed(_like(x, amount)))

    def divide(self, x: Array, y: Array | int) -> Array:
        """The unsigned quotient by what is 0 in no lane."""
        return x // y

    def remainder(self, x: Array, y: Array | int) -> Array:
        """The unsigned remainder by what is 0 in no lane."""
        return x % y

    def ones(self, x: Array) -> Array:
        """How many bits are set."""
        return np.bitwise_count(x).astype(x.dtype)

    def leading_zeros(self, x: Array) -> Array:
        """How many zeros precede the first one: all bits for 0."""
        for step in (1 << k for k in range(width(x).bit_length() - 1)):
            x = x | x >> step
        return self.ones(~x)

    def bits_reversed(self, x: Array) -> Array:
        """The bits from the last to the first."""
        whole = x.astype(">u8" if x.dtype.itemsize == 8 else f">u{x.dtype.itemsize}")
        turned = np.packbits(np.unpackbits(whole[..., None].view(np.uint8), axis=-1)[..., ::-1], axis=-1)
        return turned.view(whole.dtype)[..., 0].astype(x.dtype)

    def smaller(self, x: Array, y: Array | int) -> Array:
        """The unsigned minimum."""
        return np.minimum(x, _like(x, y))

    def larger(self, x: Array, y: Array | int) -> Array:
        """The unsigned maximum."""
        return np.maximum(x, _like(x, y))

    def smaller_signed(self, x: Array, y: Array | int) -> Array:
        """The signed minimum."""
        return bits_of(np.minimum(_as_signed(x), _as_signed(_like(x, y))))

    def larger_signed(self, x: Array, y: Array | int) -> Array:
        """The signed maximum."""
        return bits_of(np.maximum(_as_signed(x), _as_signed(_like(x, y))))

    def high_product(self, x: Array, y: Array) -> Array:
        """The high half of the unsigned product."""
        bits = width(x)
        if bits < 64:
            return ((x.astype(np.uint64) * y.astype(np.uint64)) >> bits).astype(x.dtype)
        low = 0xFFFFFFFF
        middle = (x >> 32) * (y & low) + ((x & low) * (y & low) >> 32)  # cannot overflow
        other = (x & low) * (y >> 32) + (middle & low)
        return (x >> 32) * (y >> 32) + (middle >> 32) + (other >> 32)

    def high_product_signed(self, x: Array, y: Array) -> Array:
        """The high half of the signed product."""
        minus = self.select(self.less(x, 0), y, 0) + self.select(self.less(y, 0), x, 0)
        return self.high_product(x, y) - minus

    def parts(self, x: Array, bits: int) -> Array:
        """Every lane as several of fewer bits, the low ones first."""
        return np.ascontiguousarray(x).view(unsigned(bits))

    def joined(self, x: Array, bits: int) -> Array:
        """Several lanes as one of more bits: `parts` undone."""
        return self.parts(x, bits)

    def table(self, x: Array, name: str, entries: Sequence[int], bits: int) -> Array:
        """The entry at each lane's index, of a table of this name, whose width is `bits`."""
        return np.asarray(entries, unsigned(bits))[x]

    def once(self, name: str, compute: Callable[[Arrays, Array], Array], x: Array) -> Array:
        """What is computed of a value."""
        return compute(self, x)

    # ------------------------------------------------------------------------------------------------ floats

    def _real(self, operation: Any, x: Array, y: Array | int) -> Array:
        with np.errstate(all="ignore"):
            return bits_of(operation(real(x), real(_like(x, y))))

    def fadd(self, x: Array, y: Array | int) -> Array:
        """The sum of floats of 32 or 64 bits, rounded to nearest. Which NaN is open, here and below."""
        return self._real(np.add, x, y)

    def fsub(self, x: Array, y: Array | int) -> Array:
        """The difference."""
        return self._real(np.subtract, x, y)

    def fmul(self, x: Array, y: Array | int) -> Array:
        """The product."""
        return self._real(np.multiply, x, y)

    def fdiv(self, x: Array, y: Array | int) -> Array:
        """The quotient."""
        return self._real(np.divide, x, y)

    def fma(self, x: Array, y: Array | int, z: Array | int) -> Array:
        """The product plus z, rounded once."""
        with np.errstate(all="ignore"):
            return bits_of(fused.multiply_add(*np.broadcast_arrays(real(x), real(_like(x, y)), real(_like(x, z)))))

    def fsqrt(self, x: Array) -> Array:
        """The square root."""
        with np.errstate(all="ignore"):
            return bits_of(np.sqrt(real(x)))

    def fround(self, x: Array, how: str) -> Array:
        """A whole number: "roundeven", "trunc", "floor" or "ceil"."""
        with np.errstate(all="ignore"):
            return bits_of(_ROUNDED[how](real(x)))

    def fcompare(self, how: str, x: Array, y: Array | int) -> Array:
        """A mask, by PTX's comparisons: "lt" is false for NaNs, "ltu" is true; "num" and "nan" look for them."""
        one, other = real(x), real(_like(x, y))
        with np.errstate(all="ignore"):
            unordered = np.isnan(one) | np.isnan(other)
            if how in ("num", "nan"):
                return unordered if how == "nan" else ~unordered
            holds = _COMPARED[how[:2]](one, other)
        return holds | unordered if how[2:] else holds & ~unordered

    def fwiden(self, x: Array, bits: int) -> Array:
        """A float of 16 or 32 bits as one of 32 or 64; not from 16 to 64."""
        with np.errstate(all="ignore"):
            return bits_of(real(x).astype(f"f{bits // 8}"))

    def fnarrow(self, x: Array, bits: int) -> Array:
        """A float of 64 or 32 bits as one of 32 or 16, rounded to nearest; not from 64 to 16."""
        return self.fwiden(x, bits)

    def from_signed(self, x: Array, bits: int) -> Array:
        """A signed integer as a float of 32 or 64 bits, rounded to nearest."""
        return bits_of(_as_signed(x).astype(f"f{bits // 8}"))

    def from_unsigned(self, x: Array, bits: int) -> Array:
        """An unsigned integer as a float of 32 or 64 bits, rounded to nearest."""
        return bits_of(x.astype(f"f{bits // 8}"))

    def to_signed(self, x: Array, bits: int) -> Array:
        """A float as a signed integer, toward zero: the nearest one that there is; 0 for a NaN."""
        return bits_of(self._to(x, np.dtype(f"i{bits // 8}")))

    def to_unsigned(self, x: Array, bits: int) -> Array:
        """A float as an unsigned integer, toward zero: the nearest one that there is; 0 for a NaN."""
        return self._to(x, unsigned(bits))

    def _to(self, x: Array, kind: Any) -> Array:
        limits, value = np.iinfo(kind), real(x)
        with np.errstate(all="ignore"):
            whole = np.trunc(value)
            low, high = value.dtype.type(limits.min), value.dtype.type(2.0 ** (limits.bits - (kind.kind == "i")))
            inside = (whole >= low) & (whole < high)
            inner = np.where(inside, whole, 0).astype(kind)
        return np.where(whole >= high, limits.max, np.where(whole < low, limits.min, inner)).astype(kind)


#: The only one.
ARRAYS = Arrays()
