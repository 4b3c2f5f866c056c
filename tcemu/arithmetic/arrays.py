"""The sums of the reference for whole arrays at once, in plain numpy: what computes where numba cannot be installed.

Element by element, the reference takes a tenth of a millisecond for a product in a browser; here numpy does the same
steps to every element of a matrix, in integers of 64 bits. Tests keep the two equal, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, singledispatch
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.fused import ROUNDING
from tcemu.arithmetic.ieee import CANONICAL_NAN
from tcemu.arithmetic.model import ADDEND, BitDot, FmaGroups, FusedSums, IntegerDot, Model, ScaledSums
from tcemu.arithmetic.operation import Operation, conversion, narrow
from tcemu.formats import Format, lookup, unpack

Array = npt.NDArray[Any]
#: The exponent of a zero, which takes no part in the search for the largest.
_NONE = -(1 << 20)
#: The elements that are worked on at once: 8 MB of intermediate results for each of a dozen arrays.
_AT_ONCE = 1 << 20


def computed(
    operation: Operation,
    a: Array,
    b: Array,
    c: Array,
    d: Array,
    stored_k: Array | None,
    scales: tuple[Array, Array] | None = None,
) -> bool:
    """Fill d (w, m, n) from a (w, m, k), b (w, k, n) and c (w, m, n), if this room knows the model.

    `scales` are those of A (w, m, s) and of B (w, s, n).
    """
    if isinstance(operation.model, BitDot) and stored_k is not None:
        return False
    for tiles in _parts(a.shape, b.shape[2]):
        opposite = b[tiles[0]].swapaxes(1, 2)[:, None] if stored_k is None else _opposite(b, stored_k, tiles)
        more = () if scales is None else (scales[0][tiles][:, :, None], scales[1][tiles[0]].swapaxes(1, 2)[:, None])
        sums = _sums(operation.model, operation, a[tiles][:, :, None], opposite, c[tiles], *more)
        if sums is None:
            return False
        d[tiles] = sums
    return True


def _parts(shape: tuple[int, ...], columns: int) -> Iterator[tuple[slice, slice]]:
    """Some tiles and some of their rows at a time."""
    w, m, k = shape
    rows = max(1, min(m, _AT_ONCE // max(columns * k, 1)))
    tiles = max(1, _AT_ONCE // max(rows * columns * k, 1)) if rows == m else 1
    for start in range(0, w, tiles):
        for row in range(0, m, rows):
            yield slice(start, start + tiles), slice(row, row + rows)


def _opposite(b: Array, stored_k: Array, tiles: tuple[slice, slice]) -> Array:
    """The elements of B (w, m, n, k) that the stored elements of a sparse A are multiplied by."""
    some = stored_k[tiles]
    return b[tiles[0]][np.arange(len(some), dtype=np.int64)[:, None, None], some].swapaxes(2, 3)


@singledispatch
def _sums(model: Model, operation: Operation, a: Array, b: Array, c: Array, *scales: Array) -> Array | None:
    """d (w, m, n) of a (w, m, 1, k), b (w, 1 or m, n, k) and c (w, m, n); None for a model that is not known here.

    Scales are shaped as A and B are.
    """
    return None


# ------------------------------------------------------------------------------------------------ fused sums


class _Numbers(NamedTuple):
    """What patterns mean: significands with their signs, exponents, and which of them are infinite and NaN."""

    significand: Array
    exponent: Array
    infinite: Array
    nan: Array


def _unpack(patterns: Array, form: Format) -> _Numbers:
    code = patterns.astype(np.int64) >> form.padding
    ones, mantissa = (1 << form.exponent) - 1, code & (1 << form.mantissa) - 1
    field = code >> form.mantissa & ones
    top = field == ones
    infinite = top & (mantissa == 0) if form.infinities else np.zeros(code.shape, bool)
    nan = np.zeros(code.shape, bool)
    if form.nan == "ieee":
        nan = top & (mantissa != 0)
    elif form.nan == "all ones":
        nan = top & (mantissa == (1 << form.mantissa) - 1)
    size = mantissa | (field > 0).astype(np.int64) << form.mantissa
    negative = code >> form.exponent + form.mantissa & 1
    return _Numbers(np.where(negative == 1, -size, size), np.maximum(field, 1) - form.bias, infinite, nan)


@_sums.register
def _(model: FusedSums, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    result = lookup(model.via) if model.via else operation.formats["d"]
    form, addend = (operation.formats["c"], c) if not model.widen else (result, _widened(operation.c, result.name, c))
    left, right = (_through(model, operation.formats[role], each) for role, each in (("a", a), ("b", b)))
    running, of = (np.zeros_like(addend), result) if model.addend == "last" else (addend, form)
    for ks in model.sums(a.shape[-1]):
        x, y = (_Numbers(*(each[..., ks] for each in numbers)) for numbers, _ in (left, right))
        running, of = _fused(model, x, y, left[1] + right[1], _unpack(running, of), of, result), result
    if model.addend == "last":
        running = _added(running, addend, result)
    return narrow(np.ascontiguousarray(running, np.uint32)) if model.via else running


def _through(model: FusedSums, form: Format, patterns: Array) -> tuple[_Numbers, int]:
    """The operand as the multiplier sees it, and its fraction bits."""
    if model.through is None:
        return _unpack(patterns, form), form.mantissa
    wider = lookup(model.through)
    return _unpack(conversion(form.name, wider.name)[patterns & (1 << form.container) - 1], wider), wider.mantissa


def _widened(source: str, target: str, patterns: Array) -> Array:
    return patterns if source == target else conversion(source, target)[patterns]


def _fused(model: FusedSums, a: _Numbers, b: _Numbers, point: int, c: _Numbers, form: Format, result: Format) -> Array:
    """One fused sum for every element: patterns (w, m, n)."""
    products = a.significand * b.significand
    exponents = np.where(products == 0, _NONE, a.exponent + b.exponent)
    total, unit = _aligned(model, products, exponents - point, exponents, c, form)
    return _special(_rounded(total, unit, result, model.keep), a, b, c, result)


def _aligned(
    model: FusedSums | ScaledSums, terms: Array, powers: Array, exponents: Array, c: _Numbers, form: Format
) -> tuple[Array, Array]:
    """The sums of terms * 2 ** powers and c, cut off below the largest of the exponents; and the exponent of a unit."""
    addends = np.where(c.significand == 0, _NONE, c.exponent)
    largest = np.maximum(exponents.max(axis=-1), addends)
    largest = np.where(largest == _NONE, 0, largest) if model.floor is None else np.maximum(largest, model.floor)
    total = _shifted(terms, model.fraction + powers - largest[..., None]).sum(axis=-1, dtype=np.int64)
    total += _shifted(c.significand, model.fraction - form.mantissa + addends - largest)
    return total, largest - model.fraction


def _special(sums: Array, a: _Numbers, b: _Numbers, c: _Numbers, result: Format) -> Array:
    """The results, where an operand is infinite or NaN those that this decides."""
    if not any(each.any() for number in (a, b, c) for each in (number.infinite, number.nan)):
        return sums
    infinite = a.infinite | b.infinite
    zero = ((a.significand == 0) & ~a.nan) | ((b.significand == 0) & ~b.nan)
    bad = (a.nan | b.nan | (infinite & zero)).any(axis=-1) | c.nan
    negative = (a.significand < 0) != (b.significand < 0)
    minus = (infinite & negative).any(axis=-1) | (c.infinite & (c.significand < 0))
    plus = (infinite & ~negative).any(axis=-1) | (c.infinite & (c.significand > 0))
    infinity = result.infinity_bits or 0
    sums = np.where(plus, infinity, np.where(minus, infinity | result.sign_bit, sums))
    return np.asarray(np.where(bad | (plus & minus), CANONICAL_NAN[result.name], sums))


def _shifted(numbers: Array, shifts: Array) -> Array:
    """numbers * 2 ** shifts, toward zero."""
    up, down = np.clip(shifts, 0, 62), np.clip(-shifts, 0, 63)
    return np.asarray(np.sign(numbers) * (np.abs(numbers) << up >> down))


def _rounded(totals: Array, exponent: Array, form: Format, keep: int | None) -> Array:
    """Patterns of totals * 2 ** exponent, rounded once as fused sums are; totals are below 2 ** 53."""
    keep = form.mantissa if keep is None else keep
    size = np.abs(totals)
    top = np.maximum(np.frexp(size.astype(np.float64))[1] - 1 + exponent, form.emin)
    drop = top - keep - exponent
    down = np.clip(drop, 0, 62)
    kept = size << np.clip(-drop, 0, 62) >> down
    if ROUNDING[form.name] == "rn":
        rest, half = size - (kept << down), np.int64(1) << np.maximum(down - 1, 0)
        kept = kept + ((down > 0) & ((rest > half) | ((rest == half) & (kept & 1 == 1))))
    code = np.minimum((top - form.emin << form.mantissa) + (kept << form.mantissa - keep), form.infinity_bits or 0)
    code = np.where(size == 0, 0, code)
    return np.where((totals < 0) & (code != 0), code | form.sign_bit, code)


# ------------------------------------------------------------------------------------------------- block scaling


@_sums.register
def _(model: ScaledSums, operation: Operation, a: Array, b: Array, c: Array, *scales: Array) -> Array | None:
    form_a, form_b, result = (operation.formats[role] for role in "abd")
    forms, depth = (form_a, form_b), a.shape[-1]
    if model.group > 1 and any(form.has_nan or form.infinities or form.emax > 8 for form in forms):
        return None  # the exact sum of a group may not fit 64 bits
    left, right, lowest = _unpack(a, form_a), _unpack(b, form_b), form_a.emin + form_b.emin
    point = form_a.mantissa + form_b.mantissa + 2 * operation.formats["scale"].mantissa
    cover, block = depth // scales[0].shape[-1], model.block or depth
    for start in range(0, depth, block):
        x, y = (_Numbers(*(each[..., start : start + block] for each in numbers)) for numbers in (left, right))
        shared = np.arange(start, start + block, model.group, dtype=np.int64) // cover
        size, scaled, nan = _both(operation.formats["scale"], *(each[..., shared] for each in scales))
        terms, powers = x.significand * y.significand, x.exponent + y.exponent
        counts = _grouped(terms != 0, model.group).any(axis=-1) & (size != 0)
        if model.group > 1:  # the exponent of a group is that of its scales alone
            exponents, terms = scaled, _grouped(terms << powers - lowest, model.group).sum(axis=-1, dtype=np.int64)
            powers = scaled + lowest
        else:
            exponents = powers = scaled + powers
        addend = _unpack(c, result)
        total, unit = _aligned(model, terms * size, powers - point, np.where(counts, exponents, _NONE), addend, result)
        sums = _special(_rounded(total, unit, result, None), x, y, addend, result)
        c = np.where(nan.any(axis=-1), CANONICAL_NAN[result.name], sums)
    return c


def _grouped(each: Array, group: int) -> Array:
    return each.reshape(*each.shape[:-1], -1, group)


def _both(form: Format, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """The significands and the exponents of products of scales, and which of them have a NaN."""
    significand, exponent, nan = _scales(form)
    return significand[a] * significand[b], exponent[a] + exponent[b], nan[a] | nan[b]


@cache
def _scales(form: Format) -> tuple[Array, Array, Array]:
    """For every pattern of a scale, which has no sign: its significand, its exponent, and whether it is NaN."""
    held = [unpack(form, pattern) for pattern in range(1 << form.container)]
    numbers = ([each.significand for each in held], [each.exponent for each in held])
    significand, exponent = (np.array(each, np.int64) for each in numbers)
    return significand, exponent, np.array([each.kind == "nan" for each in held], bool)


# ------------------------------------------------------------------------------------- float32, IEEE's operations


def _added(x: Array, y: Array, form: Format) -> Array:
    """The sums of patterns of f16 or f32, to nearest even; NaN is the canonical one."""
    kind: Any = np.float16 if form.name == "f16" else np.float32
    left, right = (each.astype(form.storage).view(kind) for each in (x, y))
    with np.errstate(all="ignore"):
        sums = left + right
    return np.asarray(np.where(np.isnan(sums), form.storage.type(CANONICAL_NAN[form.name]), sums.view(form.storage)))


def fma32(x: Array, y: Array, z: Array) -> Array:
    """x * y + z of patterns of f32, rounded once to nearest even; NaN is the canonical one.

    The product is exact in f64. Its sum with z is rounded to odd there, so that rounding it again to f32 is right.

    >>> from tcemu.arithmetic.arrays import fma32
    >>> one, two = (np.array([value], np.float32).view(np.uint32) for value in (1, 2))
    >>> fma32(two, two, one).view(np.float32)
    array([5.], dtype=float32)
    """
    with np.errstate(all="ignore"):
        a, b, c = (np.asarray(each, np.uint32).view(np.float32).astype(np.float64) for each in (x, y, z))
        product = a * b
        total = product + c
        back = total - product
        lost = (product - (total - back)) + (c - back)
        bits = np.ascontiguousarray(total).view(np.int64)
        odd = bits + np.where((lost > 0) == (total > 0), 1, -1)
        exact = ~np.isfinite(total) | (lost == 0) | (bits & 1 == 1)
        sums = np.where(exact, bits, odd).view(np.float64).astype(np.float32)
    return np.where(np.isnan(sums), np.uint32(CANONICAL_NAN["f32"]), sums.view(np.uint32))


@_sums.register
def _(model: FmaGroups, operation: Operation, a: Array, b: Array, c: Array) -> Array | None:
    if not model.from_zero or operation.a != "f16" or operation.b != "f16":
        return None
    left, right = (conversion("f16", "f32")[each] for each in (a, b))
    sums = {ADDEND: _widened(operation.c, "f32", c)}
    for index, ks in enumerate(model.groups):
        running = np.zeros(c.shape, np.uint32)
        for k in ks:
            running = fma32(left[..., k], right[..., k], running)
        sums[index] = running
    total = sums[model.order[0]]
    for index in model.order[1:]:
        total = _added(total, sums[index], lookup("f32"))
    return total if operation.d == "f32" else narrow(np.ascontiguousarray(total, np.uint32))


# ------------------------------------------------------------------------------------------------- integers


@_sums.register
def _(model: IntegerDot, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    left, right, addend = (
        _integers(each, operation.formats[role]) for role, each in (("a", a), ("b", b), ("c", c))
    )  # fmt: skip
    total = (left * right).sum(axis=-1, dtype=np.int64) + addend
    if dict(operation.qualifiers).get("satfinite"):
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return np.asarray(total & 0xFFFFFFFF)


def _integers(patterns: Array, form: Format) -> Array:
    value = patterns.astype(np.int64) & form.code_mask
    return np.asarray(value - ((value & form.sign_bit) << 1))


@_sums.register
def _(model: BitDot, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    both = (np.bitwise_xor if dict(operation.qualifiers)["op"] == "xor" else np.bitwise_and)(a, b)
    return np.asarray((np.bitwise_count(both).sum(axis=-1, dtype=np.int64) + c) & 0xFFFFFFFF)
