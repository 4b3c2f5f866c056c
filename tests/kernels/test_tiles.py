"""Batches of fused sums: few tiles and many give what the plain-Python reference gives, for every class of inputs."""

from itertools import product

import numpy as np
import pytest

from tcemu.arithmetic import FusedSums, Operation, compute, find, reference
from tcemu.formats import lookup

pytest.importorskip("numba")

#: architecture, family, a and b, c, d, products of an instruction
CASES = [
    (90, "mma", "f16", "f32", "f32", 16),
    (90, "mma", "f16", "f16", "f16", 16),
    (90, "mma", "bf16", "f32", "f32", 16),
    (90, "mma", "e4m3", "f32", "f32", 32),
    (90, "mma", "e5m2", "f16", "f16", 32),
    (90, "wmma.mma", "f16", "f32", "f16", 16),
    (90, "wgmma", "e4m3", "f32", "f32", 32),
    (80, "mma", "tf32", "f32", "f32", 8),
    (89, "mma", "e5m2", "f32", "f32", 16),
    (120, "mma", "e2m1", "f32", "f32", 32),
]
CLASSES = ("near", "bits", "small", "large", "specials", "zeros")


def draw(rng, name, kind, shape):
    """Patterns of a format: a class of inputs as its exponent fields, with any mantissa and sign."""
    form = lookup(name)
    top = (1 << form.exponent) - 1
    low, high = {
        "near": (form.bias - 2, form.bias + 2),
        "small": (0, 2),
        "large": (top - 2, top - 1),
    }.get(kind, (0, top))
    field = np.clip(rng.integers(low, high + 1, shape), 0, top)
    mantissa = rng.integers(0, 1 << form.mantissa, shape)
    if kind == "specials":
        field = np.where(rng.random(shape) < 0.1, top, form.bias)
        mantissa = np.where(rng.random(shape) < 0.8, 0, mantissa)
    if kind == "zeros":
        zero = rng.random(shape) < 0.9
        field, mantissa = np.where(zero, 0, field), np.where(zero, 0, mantissa)
    sign = rng.integers(0, 2, shape) << (form.exponent + form.mantissa)
    below = rng.integers(0, 1 << form.padding, shape)
    code = (sign | field << form.mantissa | mantissa) << form.padding | below
    return code.astype(form.storage)


def plain(operation, a, b, c, places=None):
    """One tile by the reference."""
    d = np.empty_like(c, operation.formats["d"].storage)
    qualifiers = dict(operation.qualifiers)
    for m, n in np.ndindex(d.shape):
        column = b[:, n] if places is None else b[places[m], n]
        d[m, n] = reference.dot(
            operation.model, a[m].tolist(), column.tolist(), int(c[m, n]), operation.formats, qualifiers
        )
    return d


def operation_of(architecture, family, ab, c, d, depth):
    """The operation of a row of the table."""
    model = find(architecture, family, "m16n8k16", ab, ab, c, d).model
    assert isinstance(model, FusedSums)
    return Operation(model, ab, ab, c, d, depth)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_few_and_many_tiles(case):
    operation, depth = operation_of(*case), case[-1]
    rng = np.random.default_rng(depth)
    for kind, other in product(CLASSES, ("near", "bits")):
        a = draw(rng, operation.a, kind, (40, 16, depth))
        b = draw(rng, operation.b, kind, (40, depth, 8))
        c = draw(rng, operation.c, other, (40, 16, 8))
        many = compute(operation, a, b, c)
        few = np.concatenate([compute(operation, *(x[t : t + 2] for x in (a, b, c))) for t in range(0, 40, 2)])
        assert np.array_equal(many, few), (kind, other)
        assert np.array_equal(many[7, :4], plain(operation, a[7, :4], b[7], c[7, :4])), (kind, other)


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[7]], ids=lambda case: "-".join(map(str, case)))
def test_sparse_tiles(case):
    operation, depth = operation_of(*case), case[-1]
    rng = np.random.default_rng(depth)
    if operation.a == "tf32":  # one of two
        places = 2 * np.arange(depth) + rng.integers(0, 2, (2, 16, depth))
    else:  # two of four
        pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
        chosen = pairs[rng.integers(0, 6, (2, 16, depth // 2))] + 4 * np.arange(depth // 2)[:, None]
        places = chosen.reshape(2, 16, depth)
    for kind in CLASSES:
        a = draw(rng, operation.a, kind, (2, 16, depth))
        b = draw(rng, operation.b, kind, (2, 2 * depth, 8))
        c = draw(rng, operation.c, "near", (2, 16, 8))
        d = compute(operation, a, b, c, places)
        assert np.array_equal(d[1, :4], plain(operation, a[1, :4], b[1], c[1, :4], places[1])), kind


@pytest.mark.parametrize("shape", [(8, 8), (8, 32), (32, 8), (3, 5), (1, 24), (64, 72)], ids=str)
def test_tiles_of_any_shape(shape):
    (m, n), operation = shape, operation_of(*CASES[0])
    rng = np.random.default_rng(m * n)
    a, b = draw(rng, "f16", "near", (1, m, 16)), draw(rng, "f16", "near", (1, 16, n))
    c = draw(rng, "f32", "near", (1, m, n))
    d = compute(operation, a, b, c)[0]
    rows, columns = [0, m - 1], [0, n // 2, n - 1]
    corners = np.ix_(rows, columns)
    assert np.array_equal(d[corners], plain(operation, a[0, rows], b[0][:, columns], c[0][corners]))
