"""Whole matrix products, as computed by a kernel that loops over K with one instruction."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic.compute import compute
from tcemu.arithmetic.ieee import CANONICAL_NAN
from tcemu.arithmetic.model import BitDot, FmaChain, FmaGroups, FusedSums, IntegerDot, Model
from tcemu.arithmetic.operation import MODES, Operation, conversion, narrow, normalised, numbers
from tcemu.arithmetic.plans import takes_groups
from tcemu.backend import backend
from tcemu.formats import Format, lookup

Array = npt.NDArray[Any]


def matmul(operation: Operation, a: Array, b: Array, c: Array) -> Array:
    """Patterns d (M, N) of a (M, K) times b (K, N) plus c (M, N), all patterns; b1 comes in uint32 words along K.

    K is a multiple of the operation's depth. Each step's result is the next step's addend, in the type of D.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> operation = mma.operation(tcemu.instructions.target_named("sm_90a"))
    >>> a, b = np.full((16, 32), 0x3C00, np.uint16), np.full((32, 8), 0x3C00, np.uint16)  # patterns of 1
    >>> d = tcemu.arithmetic.matmul(operation, a, b, np.zeros((16, 8), np.uint32))
    >>> d.view(np.float32)[0, 0]
    np.float32(32.0)
    """
    if backend(c.size * a.shape[1] * (32 if operation.packed else 1)) == "numba":
        return _whole(operation.model, operation, a, b, c)
    return _step_by_step(operation, a, b, c)


def _step_by_step(operation: Operation, a: Array, b: Array, c: Array) -> Array:
    """The definition: one instruction after another, with the whole matrix as one tile."""
    step = operation.depth // 32 if operation.packed else operation.depth
    for k in range(0, a.shape[1], step):
        c = compute(operation, a[None, :, k : k + step], b[None, k : k + step], c[None])[0]
    return c


@singledispatch
def _whole(model: Model, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    raise TypeError(model)


@_whole.register
def _(model: FusedSums, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    from tcemu.kernels import matrix

    if operation.keeps_addend:
        return _step_by_step(operation, a, b, c)  # one step: its D cannot be the C of another
    forms = [operation.formats["a"], operation.formats["b"]]
    result = lookup(model.via or operation.d)
    if operation.c != result.name:
        c = conversion(operation.c, result.name)[c]
    sums = matrix.multiply(
        a,
        b,
        c,
        format_a=numbers(forms[0]),
        format_b=numbers(forms[1]),
        sums=model.sums(operation.depth),
        fraction=model.fraction,
        floor=model.floor,
        keep=model.keep if model.keep is not None else result.mantissa,
        normal=normalised(operation),
        join=model.addend == "last",
    )
    return sums if model.via is None else narrow(sums)


@_whole.register
def _(model: FmaGroups, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    from tcemu.kernels import chains

    if model.added_to_c is None or not takes_groups(operation):
        return _step_by_step(operation, a, b, c)
    half, order = operation.d == "f16", np.array(model.added_to_c)
    left, right = (each.view(np.float16).astype(np.float32) for each in (a, b))
    addend = c.view(np.float16 if half else np.float32).astype(np.float32)
    sums = chains.multiply(left, right, addend, order=order, from_zero=model.from_zero, half=half)
    result = operation.formats["d"]
    bits = sums.astype(np.float16 if half else np.float32).view(result.storage)
    return np.where(np.isnan(sums), result.storage.type(CANONICAL_NAN[result.name]), bits)


@_whole.register
def _(model: FmaChain, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    from tcemu.kernels import f64

    return f64.multiply(a, b, c, mode=MODES[dict(operation.qualifiers).get("rounding") or "rn"])


@_whole.register
def _(model: IntegerDot, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    from tcemu.kernels import integers

    left, right = _values(operation.formats["a"], a), _values(operation.formats["b"], b)
    saturate = "satfinite" in dict(operation.qualifiers)
    sums = integers.multiply(left, right, c.view(np.int32), step=operation.depth, saturate=saturate)
    return sums.view(np.uint32)


def _values(form: Format, patterns: Array) -> Array:
    """Patterns of at most 8 bits as int8 or uint8: shifted up and down again, a sign bit fills the bits above it."""
    if not form.signed:
        return patterns
    up = np.uint8(8 - form.bits)
    if not up:
        return patterns.view(np.int8)
    values: Array = (patterns << up).view(np.int8)
    values >>= up.astype(np.int8)
    return values


@_whole.register
def _(model: BitDot, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    from tcemu.kernels import integers

    return integers.multiply_bits(a, b, c.view(np.int32), xor=dict(operation.qualifiers)["op"] == "xor").view(np.uint32)
