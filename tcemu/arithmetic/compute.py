"""Computes whole arrays of one operation: with the kernels if they are available, otherwise with the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache, singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import arrays, reference
from tcemu.arithmetic.fused import ROUNDING
from tcemu.arithmetic.ieee import CANONICAL_NAN
from tcemu.arithmetic.model import FmaGroups, FusedSums, Model, ScaledSums
from tcemu.arithmetic.operation import Operation, conversion, narrow, numbers
from tcemu.arithmetic.plans import InWords, Operands, Plan, plan, stretched
from tcemu.backend import backend, computed
from tcemu.formats import lookup

Array = npt.NDArray[Any]
#: Fills d (w, m, n) from a (w, m, k), b (w, k, n) and c (w, m, n).
Kernel = Callable[[Array, Array, Array, Array], None]
#: The pattern of an element that a sparse A does not store, for the kernels.
PRUNED = 0xFFFFFFFF


def compute(operation: Operation, a: Array, b: Array, c: Array, stored_k: Array | None = None) -> Array:
    """Patterns d (w, m, n) of patterns a (w, m, k) times b (w, k, n) plus c (w, m, n); b1 comes in words.

    `stored_k` (w, m, k) makes A sparse: its elements are multiplied by those rows of a B that has more than k rows.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> a, b = np.full((1, 16, 16), 0x3C00, np.uint16), np.full((1, 16, 8), 0x4000, np.uint16)  # patterns of 1 and 2
    >>> d = tcemu.arithmetic.compute(operation, a, b, np.zeros((1, 16, 8), np.uint32))
    >>> d.shape, d.view(np.float32)[0, 0, 0]
    ((1, 16, 8), np.float32(32.0))
    """
    d = np.empty(c.shape, operation.formats["d"].storage)
    products = d.size * operation.depth
    chosen = backend(products)
    if chosen != "numba":
        if chosen == "reference" or not arrays.computed(operation, a, b, c, d, stored_k):
            _by_reference(operation, a, b, c, d, stored_k)
        computed(products)
    elif (kernel := _kernel(operation)) is None:
        _by_plan(operation, a, b, c, d, stored_k)
    else:
        kernel(a, b, c, d)
    return d


def _opposite(b: Array, stored_k: Array | None, w: int, m: int, n: int) -> list[int]:
    """The elements of a column of B that the elements of a row of A are multiplied by."""
    column = b[w, :, n] if stored_k is None else b[w, stored_k[w, m], n]
    places_of_column: list[int] = column.tolist()
    return places_of_column


def compute_scaled(
    operation: Operation, a: Array, b: Array, c: Array, scale_a: Array, scale_b: Array, stored_k: Array | None = None
) -> Array:
    """Like compute, with scales (w, m, s) of A and (w, s, n) of B, each for an equal share of A's elements.

    >>> opcode = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    >>> operation = tcemu.parse(opcode).operation(tcemu.instructions.target_named("sm_120a"))
    >>> a, b = np.full((1, 16, 64), 2, np.uint8), np.full((1, 64, 8), 2, np.uint8)  # patterns of 1
    >>> two, one = np.full((1, 16, 2), 128, np.uint8), np.full((1, 2, 8), 127, np.uint8)  # scales of 2 and of 1
    >>> d = tcemu.arithmetic.compute_scaled(operation, a, b, np.zeros((1, 16, 8), np.uint32), two, one)
    >>> d.view(np.float32)[0, 0, 0]  # 64 products of 1 * 2 and 1
    np.float32(128.0)
    """
    d = np.empty(c.shape, operation.formats["d"].storage)
    products, model = d.size * operation.depth, operation.model
    chosen = backend(products)
    if chosen == "numba":
        _by_plan(operation, a, b, c, d, stored_k, (scale_a, scale_b))
        return d
    if chosen == "arrays" and arrays.computed(operation, a, b, c, d, stored_k, (scale_a, scale_b)):
        return d
    if not isinstance(model, ScaledSums):
        raise TypeError(model)
    for w, m, n in np.ndindex(d.shape):
        scales = scale_a[w, m].tolist(), scale_b[w, :, n].tolist()
        row, column = a[w, m].tolist(), _opposite(b, stored_k, w, m, n)
        d[w, m, n] = reference.dot_scaled(model, row, column, int(c[w, m, n]), scales, operation.formats)
    computed(products)
    return d


def _by_reference(operation: Operation, a: Array, b: Array, c: Array, d: Array, stored_k: Array | None) -> None:
    qualifiers = dict(operation.qualifiers)
    for w, m, n in np.ndindex(d.shape):
        row, column = a[w, m].tolist(), _opposite(b, stored_k, w, m, n)
        d[w, m, n] = reference.dot(operation.model, row, column, int(c[w, m, n]), operation.formats, qualifiers)


# ---------------------------------------------------------------------------------------------------- plans


def _by_plan(
    operation: Operation,
    a: Array,
    b: Array,
    c: Array,
    d: Array,
    stored_k: Array | None,
    scales: tuple[Array, Array] | None = None,
) -> None:
    shape = (*c.shape[1:], a.shape[2])
    if stored_k is not None:
        a = _with_pruned(operation, a, stored_k)
    words = [_in_words(operation, each) for each in (a, b, c)]
    widths = tuple(width for _, width in words)
    more = {} if scales is None else {"scales": scales}
    result: Any = _patterns_plan(operation, shape, stored_k is not None, widths)(*(each for each, _ in words), **more)
    d[...] = result.view(d.dtype).reshape(d.shape) if _shared(operation, d.shape) else result.reshape(d.shape)


def _with_pruned(operation: Operation, a: Array, stored_k: Array) -> Array:
    """A sparse A (w, m, k) with the elements that it does not store, as uint32 (w, m, 2 k)."""
    longer = np.full((*a.shape[:2], 2 * a.shape[2]), PRUNED, np.uint32)
    np.put_along_axis(
        longer, stored_k.astype(np.intp), (a & operation.formats["a"].code_mask).astype(np.uint32), axis=2
    )
    return longer


def _in_words(operation: Operation, patterns: Array) -> tuple[Array, int]:
    """Matrices (w, rows, columns) as words (w, words) of 32 or 64 bits, and the bits that an element takes there."""
    flat = np.ascontiguousarray(patterns).reshape(len(patterns), -1)
    size = flat.dtype.itemsize
    if operation.formats["d"].storage.itemsize == 8:
        return flat, 64
    if flat.shape[1] * size % 4:
        return flat.astype(np.uint32), 32
    return flat.view(np.uint32), 8 * size


def _shared(operation: Operation, shape: tuple[int, ...]) -> bool:
    """Whether the elements of D (w, m, n) fill words."""
    return shape[1] * shape[2] * operation.formats["d"].storage.itemsize % 4 == 0


@lru_cache(maxsize=256)
def _patterns_plan(operation: Operation, shape: tuple[int, int, int], sparse: bool, widths: tuple[int, ...]) -> Plan:
    """How the kernels compute an operation on matrices of patterns in C order; `widths` are their bits."""
    m, n, k = shape
    counts = m * k * (1 + sparse), k * n * (1 + sparse), m * n
    a, b, c = (InWords.packed(count, width) for count, width in zip(counts, widths, strict=True))
    size = operation.formats["d"].storage.itemsize
    per = max(1, 4 // size) if _shared(operation, (1, m, n)) else 1
    operands = Operands(a, b, c, np.arange(m * n, dtype=np.int64).reshape(-1, per), 32 // per)
    patterns_plan = plan(operation, shape, operands)
    if patterns_plan is None:
        raise TypeError(operation)
    return stretched(patterns_plan) if sparse else patterns_plan


# ---------------------------------------------------------------------------------------------------- other kernels


@cache
def _kernel(operation: Operation) -> Kernel | None:
    """The kernel of an operation that has no plan."""
    return _build(operation.model, operation)


@singledispatch
def _build(model: Model, operation: Operation) -> Kernel | None:
    return None


@_build.register
def _(model: FusedSums, operation: Operation) -> Kernel | None:
    return _with_own_exponents(model, operation) if operation.keeps_addend else None


def _with_own_exponents(model: FusedSums, operation: Operation) -> Kernel:
    """The sums of a chip that does not widen C: a subnormal C keeps the exponent that its own format gives it."""
    from tcemu.kernels.exact import chain

    through = {role: lookup(model.through or getattr(operation, role)) for role in "ab"}
    result = lookup(model.via) if model.via else operation.formats["d"]
    order = np.array([k for ks in model.sums(operation.depth) for k in ks], dtype=np.int64)
    tables = tuple(numbers(form) for form in (through["a"], through["b"], operation.formats["c"], result))
    floor = model.floor if model.floor is not None else -(1 << 19)
    keep = model.keep if model.keep is not None else result.mantissa
    nearest, nan = ROUNDING[result.name] == "rn", CANONICAL_NAN[result.name]
    block = len(model.sums(operation.depth)[0])

    def run(a: Array, b: Array, c: Array, d: Array) -> None:
        if model.through is not None:
            a, b = conversion(operation.a, model.through)[a], conversion(operation.b, model.through)[b]
        sums = d if model.via is None else np.empty(d.shape, result.storage)
        chain(a, b, c, sums, *tables, order, block, model.fraction, floor, keep, nearest, nan)
        if model.via is not None:
            d[...] = narrow(sums)

    return run


@_build.register
def _(model: FmaGroups, operation: Operation) -> Kernel:
    from tcemu.kernels.chains import add_groups

    tables = tuple(numbers(lookup(name)) for name in (operation.a, operation.b, operation.c, operation.d, "f32"))
    groups = [next(g for g, ks in enumerate(model.groups) if k in ks) for k in range(operation.depth)]
    group = np.array(groups, np.int64)
    order, nan = np.array(model.order), CANONICAL_NAN[operation.d]
    return lambda a, b, c, d: add_groups(a, b, c, d, *tables, group, order, model.from_zero, nan)
