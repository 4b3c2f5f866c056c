"""The codec on arrays: values to patterns and back, for every format from its fields. No format is named here.

exact.py does the same in plain integers, one element at a time, for a learner to step through; tests check that both
agree.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache, partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import FormatError, OperandError, briefly, did_you_mean, listing, shown
from tcemu.formats.arrays import as_array

if TYPE_CHECKING:
    from tcemu.formats.format import Format

Array = npt.NDArray[Any]

#: Elements converted at a time: so few that the temporary arrays fit the processor's caches.
_PART = 1 << 14
#: PTX's rounding modifiers: nearest even, toward zero, down, up, nearest with ties away from zero.
ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")


def storage(bits: int) -> np.dtype[Any]:
    """The smallest unsigned dtype of at least `bits` bits."""
    return np.dtype(next(f"uint{size}" for size in (8, 16, 32, 64) if size >= bits))


@cache
def value_dtype(name: str) -> np.dtype[Any]:
    """The dtype that numpy, or else ml_dtypes, calls `name`; ml_dtypes is imported only if it is needed."""
    if hasattr(np, name):
        return np.dtype(name)
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def as_pattern(form: Format, pattern: Any) -> int:
    """One pattern as a Python int. Raises FormatError if it is not an unsigned integer."""
    try:
        number = operator.index(pattern)
    except TypeError:
        number = -1
    if number < 0:
        raise FormatError(
            f"a pattern of {form.name} must be an unsigned integer of {form.container} bits; got {_briefly(pattern)}"
        )
    return number


def _briefly(value: object) -> str:
    return str(value) if isinstance(value, Real) else shown(value)


def as_patterns(form: Format, patterns: npt.ArrayLike) -> Array:
    """`patterns` as uint64. Raises FormatError if they are not unsigned integers."""
    start = f"patterns of {form.name} must be unsigned integers of {form.container} bits; got"
    array = as_array(patterns, start, FormatError)
    if array.dtype.kind not in "iub":
        raise FormatError(f"{start} dtype {array.dtype}")
    if array.dtype.kind == "i" and (array < 0).any():
        raise FormatError(f"{start} a negative one, {array.min()}")
    return array.astype(np.uint64)


def _in_parts(convert: Callable[[Array], Array], array: Array) -> Array:
    """An array converted part by part, if it is large."""
    if array.size <= _PART:
        return convert(array)
    flat = array.reshape(-1)
    parts = [convert(flat[first : first + _PART]) for first in range(0, flat.size, _PART)]
    return np.concatenate(parts).reshape(array.shape)


def decode(form: Format, patterns: Array) -> Array:
    """Exact values of uint64 `patterns`: float64, or int64 for integers and b1."""
    return _in_parts(partial(_decode, form), patterns)


def _decode(form: Format, patterns: Array) -> Array:
    code = (patterns & np.uint64(form.code_mask)) >> np.uint64(form.padding)
    if form.kind != "float":
        signed = code.astype(np.int64)
        return signed - ((signed >> form.mantissa) << (form.mantissa + 1)) if form.signed else signed
    if form.container == 64:
        return code.view(np.float64)
    magnitude = (code & np.uint64((1 << (form.exponent + form.mantissa)) - 1)).astype(np.int64)
    exponent, mantissa = magnitude >> form.mantissa, magnitude & ((1 << form.mantissa) - 1)
    normal = (exponent > 0) | (not form.zero)
    significand = mantissa + (normal.astype(np.int64) << form.mantissa)
    power = np.where(normal, exponent - form.bias, form.emin) - form.mantissa
    values = np.ldexp(significand.astype(np.float64), power)
    if form.has_nan:
        values = np.where(magnitude > form.largest_pattern >> form.padding, np.nan, values)
    if form.infinity_bits is not None:
        values = np.where(magnitude == form.infinity_bits >> form.padding, np.inf, values)
    negative = (code >> np.uint64(form.bits - 1)).astype(bool) if form.signed else np.zeros(code.shape, bool)
    signed_values: Array = np.where(negative, -values, values)
    return signed_values


def encode(form: Format, values: npt.ArrayLike, rounding: str, satfinite: bool) -> Array:
    """Patterns of `values`, rounded once; see Format.encode."""
    if not isinstance(rounding, str) or rounding not in ROUNDINGS:
        raise FormatError(
            f"no rounding is called {shown(rounding)}.{did_you_mean(str(rounding), ROUNDINGS)} PTX has "
            f"{listing(ROUNDINGS, 'and')}."
        )
    if not isinstance(satfinite, bool | np.bool_):
        raise FormatError(f"satfinite must be True or False; got {shown(satfinite)}")
    start = f"values for {form.name} must be real numbers; got"
    array = as_array(values, start, FormatError)
    try:
        numbers = _as_numbers(form, array)
    except Exception as error:  # noqa: BLE001 - an object that claims to be a real number may raise anything
        raise FormatError(f"{start} {error}") from None
    if form.kind != "float":
        return _encode_integers(form, numbers, satfinite)
    if form.container == 64:
        numbers = np.clip(numbers, -form.largest, form.largest) if satfinite else numbers
        return np.where(np.isnan(numbers), np.uint64(form.nan_bits or 0), numbers.view(np.uint64))
    return _in_parts(lambda some: _encode_floats(form, some, rounding, satfinite), numbers)


def _as_numbers(form: Format, array: Array) -> Array:
    """`array` as float64, which must be exact, so that encoding rounds once; integers for an integer format stay."""
    if form.kind != "float" and array.dtype.kind in "iub":
        return array
    if array.dtype.kind not in "iubfVO" or (
        array.dtype.kind == "O" and not all(isinstance(x, Real) for x in array.flat)
    ):
        raise TypeError(f"dtype {array.dtype}")
    numbers = array.astype(np.float64)
    if array.dtype.itemsize >= 8 and array.dtype != np.float64:
        inexact = (numbers.astype(object) != array.astype(object)) & ~np.isnan(numbers)
        if inexact.any():
            raise ValueError(f"{array[inexact].flat[0]}, which float64 cannot hold exactly")
    return numbers


def _encode_integers(form: Format, numbers: Array, satfinite: bool) -> Array:
    low, high = (-(1 << form.mantissa) if form.signed else 0), (1 << form.mantissa) - 1
    if satfinite and numbers.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN
            numbers = np.nan_to_num(np.rint(numbers))
    if satfinite:  # before 2.2, numpy clips only to what the type itself holds
        wide = {"b": np.int64, "i": np.int64, "u": np.uint64}.get(numbers.dtype.kind, np.float64)
        numbers = np.clip(numbers.astype(wide), max(low, 0) if wide is np.uint64 else low, high)
    with np.errstate(invalid="ignore"):
        wrong = ~((numbers >= low) & (numbers <= high) & (numbers == np.floor(numbers)))
    if wrong.any():
        offender = numbers[wrong].flat[0]
        raise FormatError(
            f"{form.name} holds whole numbers from {low} to {high}, not {offender}; satfinite=True clamps"
        )
    mask = np.int64((1 << form.bits) - 1)
    return (numbers.astype(np.int64) & mask).astype(form.storage)


def _encode_floats(form: Format, numbers: Array, rounding: str, satfinite: bool) -> Array:
    nan, negative = np.isnan(numbers), np.signbit(numbers) & ~np.isnan(numbers)
    if (nan.any() and not form.has_nan and not satfinite) or (not form.signed and (negative & (numbers != 0)).any()):
        what = "a NaN" if nan.any() and not form.has_nan else "a negative number"
        raise FormatError(f"{form.name} has no pattern for {what}: {form!r}")
    finite = np.where(np.isfinite(numbers), np.abs(numbers), 0.0)
    magnitude = _round_magnitude(form, finite, negative, rounding)
    largest = form.largest_pattern >> form.padding
    infinite = np.isinf(numbers)
    over = (magnitude > largest) | infinite
    # A directed rounding never leaves the finite numbers on the side it rounds away from; infinity itself stays.
    stops = {"rz": np.ones_like(over), "rm": ~negative, "rp": negative}.get(rounding, np.zeros_like(over)) & ~infinite
    beyond = largest if satfinite or not form.has_nan else (form.infinity_bits or form.nan_bits or 0) >> form.padding
    magnitude = np.where(over, np.where(stops, largest, beyond), magnitude)
    not_a_number = form.nan_bits if form.nan_bits is not None else form.largest_pattern
    magnitude = np.where(nan, not_a_number >> form.padding, magnitude)
    sign = np.where(negative & form.signed, form.sign_bit >> form.padding, 0)
    return ((magnitude | sign).astype(np.uint64) << np.uint64(form.padding)).astype(form.storage)


def _round_magnitude(form: Format, finite: Array, negative: Array, rounding: str) -> Array:
    """Magnitude codes (no sign, no padding) of non-negative numbers, as if the exponent were unbounded."""
    fraction, power = np.frexp(finite)  # finite = fraction * 2^power, fraction in [0.5, 1)
    exponent = np.where(finite > 0, np.maximum(power.astype(np.int64) - 1, form.emin), form.emin)
    # The significand as an integer of 53 bits, and how many of its low bits the format drops.
    whole = np.ldexp(fraction, 53).astype(np.int64)
    drop = np.clip(exponent - form.mantissa - (power.astype(np.int64) - 53), 0, 62)
    kept, rest = whole >> drop, whole & ((np.int64(1) << drop) - 1)
    half = (np.int64(1) << drop) >> 1
    up = {
        "rn": (rest > half) | ((rest == half) & (kept & 1 == 1) & (rest > 0)),
        "rna": (rest >= half) & (rest > 0),
        "rz": np.zeros(whole.shape, bool),
        "rm": (rest > 0) & negative,
        "rp": (rest > 0) & ~negative,
    }[rounding]
    # the exponent field and the significand overlap in the hidden bit, so a carry out of the significand is right
    code = ((exponent - form.emin) << form.mantissa) + kept + up
    # in a format without a zero, field 0 is the smallest power of two
    magnitude: Array = code if form.zero else np.maximum(code - 1, 0)
    return magnitude


def patterns_of(form: Format, matrix: npt.ArrayLike, what: str) -> Array:
    """The patterns of an array that is already in the format; see Format.patterns."""
    array = as_array(matrix, f"{what}: not an array")
    if form.kind != "float" and array.dtype.kind in "iub":
        return encode(form, array, "rn", False) if array.dtype != form.dtype else _bits_of(form, array)
    if array.dtype == form.dtype:
        return _bits_of(form, array)
    if array.dtype == form.storage:
        return array
    library = "numpy" if hasattr(np, form.dtype_name) else "ml_dtypes"
    how = f".astype({library}.{form.dtype_name})" if form.dtype_name else "Format.encode"
    raise OperandError(
        f"{what}: expected an array of dtype {form.dtype} (or its bits as {form.storage}), got dtype {array.dtype}. "
        f"Nothing is rounded silently; to round, use {how}."
    )


def _bits_of(form: Format, array: Array) -> Array:
    bits: Array = array.view(form.storage)
    if form.kind != "float" and not _fills(form):
        bits = bits & form.storage.type(form.code_mask)  # ml_dtypes keeps a 4-bit integer sign-extended in its byte
    return bits


def _fills(form: Format) -> bool:
    """Whether an element's bits are all those of `storage`."""
    return form.bits == 8 * form.storage.itemsize


def matrix_of(form: Format, patterns: Array) -> Array:
    """The array in the format's dtype; see Format.matrix."""
    if getattr(patterns, "dtype", None) != form.storage:
        patterns = _stored(form, patterns)
    if form.kind == "float" or _fills(form):
        return np.asarray(patterns, order="C").view(form.dtype)
    return decode(form, patterns.astype(np.uint64)).astype(form.dtype)


def _stored(form: Format, patterns: object) -> Array:
    """Patterns that came in another dtype as `storage`. Raises OperandError if they are not patterns."""
    array = as_array(patterns, f"{form.name}: not an array of patterns")
    most = (1 << 8 * form.storage.itemsize) - 1
    if array.dtype.kind not in "ui" or (array.size and not 0 <= int(array.min()) <= int(array.max()) <= most):
        raise OperandError(
            f"{form.name}: patterns must be whole numbers from 0 to {most:#x}; got {briefly(patterns)}. "
            "Format.encode makes patterns of numbers."
        )
    return array.astype(form.storage)
