"""Batches of fused sums: few tiles and many give the plain-Python reference's results, for every class."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

import tcemu
from tcemu.arithmetic import ROWS, FusedSums, Operation, compute, find, reference
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


def about(rng, name, exponent, shape):
    """Patterns of a format with an exponent or the next, if there are such."""
    form = lookup(name)
    field = np.clip(form.bias + exponent + rng.integers(0, 2, shape), 0, (1 << form.exponent) - 1)
    sign = rng.integers(0, 2, shape) << (form.exponent + form.mantissa)
    mantissa = rng.integers(0, 1 << form.mantissa, shape)
    return ((sign | field << form.mantissa | mantissa) << form.padding).astype(form.storage)


@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[7]], ids=lambda case: "-".join(map(str, case)))
def test_tiles_of_other_classes_side_by_side(case):
    """Exponents at the edges of the window that is tried first, inside and outside it, zeros and NaN between others."""
    operation, depth = operation_of(*case), case[-1]
    rng = np.random.default_rng(depth)
    edges = [-41, -40, 0, 7, 8] if lookup(operation.a).exponent == 8 else [-16, -15, -14, 14, 15]
    kinds = [*edges, "near", "bits", "zeros", "small", "near"]

    def tiles(order, shape):
        return np.stack([(draw if isinstance(kind, str) else about)(rng, operation.a, kind, shape) for kind in order])

    a, b = tiles(2 * kinds, (16, depth)), tiles(kinds + kinds[3:] + kinds[:3], (depth, 8))
    c = draw(rng, operation.c, "near", (len(a), 16, 8))
    together = compute(operation, a, b, c)
    for t, d in enumerate(together):
        assert np.array_equal(d, compute(operation, a[t : t + 1], b[t : t + 1], c[t : t + 1])[0]), (2 * kinds)[t]
        assert np.array_equal(d[:2], plain(operation, a[t, :2], b[t], c[t, :2])), (2 * kinds)[t]


def test_short_chains_beside_others():
    """Chains whose sums lose no bit, for which no exponents are packed, beside others in tiles computed together."""
    operation, depth = operation_of(*CASES[3]), CASES[3][-1]
    rng = np.random.default_rng(depth)
    kinds = ["small", "near", "zeros", "large", "small", "zeros", "near", "small"]
    a = np.stack([draw(rng, operation.a, kind, (16, depth)) for kind in 2 * kinds])
    b = np.stack([draw(rng, operation.b, kind, (depth, 8)) for kind in kinds + kinds[::-1]])
    b[::3, :, 4:] = draw(rng, operation.b, "small", (depth, 4))
    c = draw(rng, operation.c, "near", (len(a), 16, 8))
    for t, d in enumerate(compute(operation, a, b, c)):
        assert np.array_equal(d[:3], plain(operation, a[t, :3], b[t], c[t, :3])), (t, kinds[t % len(kinds)])


def test_short_sums_of_a_chain_that_is_cut_off():
    """Two sums of 24 bits each, in units of the smallest product, make one of 25 bits: it is rounded toward zero."""
    operation, depth = operation_of(*CASES[3]), CASES[3][-1]
    form, rng = lookup(operation.a), np.random.default_rng(5)
    signs = rng.choice([-1.0, 1.0], (2, 16, 2)).repeat(depth // 2, axis=2)
    a, b = 1.875 * signs, np.full((2, depth, 8), 2.0)
    # an odd number of the smallest units, in one of the sums
    a[:, :, 3], b[:, 3] = 2.0**-9 * rng.choice([-3, -1, 1, 3], (2, 16)), 2.0**-9 * rng.choice([1, 3, 5], (2, 8))
    c = rng.choice([0.0, 2.0**-18, -100.0], (2, 16, 8))
    patterns = form.encode(a), form.encode(b), lookup("f32").encode(c)
    found = compute(operation, *patterns)
    for d, *tile in zip(found, *patterns, strict=True):
        assert np.array_equal(d, plain(operation, *tile))


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


def every_operation():
    """An operation for each model of fused sums in the table and each of its types."""
    found = {}
    for row in ROWS:
        if not isinstance(row.model, FusedSums):
            continue
        for a, b, d in product(sorted(row.a), sorted(row.b), sorted(row.d)):
            depth = {"f16": 16, "bf16": 16, "tf32": 8}.get(a, 32)
            for c in sorted(row.c) or [d]:
                found[row.model, a, b, c, d] = Operation(row.model, a, b, c, d, depth)
    return list(found.values())


OPERATIONS = every_operation()


@examples(300)
@given(st.data())
def test_every_model_on_every_class_of_inputs(data):
    operation = data.draw(st.sampled_from(OPERATIONS))
    kinds = [data.draw(st.sampled_from(CLASSES)) for _ in range(3)]
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    shapes = (2, 16, operation.depth), (2, operation.depth, 8), (2, 16, 8)
    a, b, c = (
        draw(rng, name, kind, shape)
        for name, kind, shape in zip((operation.a, operation.b, operation.c), kinds, shapes, strict=True)
    )
    d = compute(operation, a, b, c)
    rows, columns = rng.integers(0, 16, 2), rng.integers(0, 8, 2)
    corners = np.ix_(rows, columns)
    want = plain(operation, a[1, rows], b[1][:, columns], c[1][corners])
    assert np.array_equal(d[1][corners], want), (operation, kinds)


def one_scale(a, b):
    """The block-scaled form with one scale, a power of two, for all of k."""
    return f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.{a}.{b}.f32.ue8m0"


@examples(100)
@given(st.data())
def test_scales_of_any_size(data):
    types = st.sampled_from(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"))
    instruction = tcemu.parse(one_scale(data.draw(types), data.draw(types)), target="sm_120a")
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    fragments, forms = instruction.fragments, instruction.types
    low, high = data.draw(st.sampled_from([(120, 134), (0, 256), (0, 20), (240, 255)]))
    scales = [rng.integers(low, high, size).astype(np.uint8) for size in (16, 8)]
    patterns = {
        role: draw(rng, forms[role].name, data.draw(st.sampled_from(CLASSES)), fragments[role].shape) for role in "abc"
    }
    if data.draw(st.booleans()):  # an addend of the size of the products, which the scales move
        size = np.clip(scales[0][:, None].astype(int) + scales[1] - 127, 1, 254).astype(np.uint32)
        patterns["c"] = size << np.uint32(23) | patterns["c"] & np.uint32(0x807FFFFF)
    a, b, c = (fragments[role].pack(patterns[role]) for role in "abc")
    held = [
        fragments[role].pack(np.broadcast_to(given, fragments[role].shape).copy())[..., 0]
        for role, given in (("scale_a", scales[0][:, None]), ("scale_b", scales[1]))
    ]
    found = tcemu.run(instruction, a, b, c, held[0], (0, 0), held[1], (0, 0), target="sm_120a")
    d = fragments["d"].unpack_patterns(found)
    model = find(120, "mma.block_scale", "m16n8k32", forms["a"].name, forms["b"].name, "f32", "f32").model
    known = {role: forms[role] for role in "abcd"} | {"scale": lookup("ue8m0")}
    for m, n in zip(rng.integers(0, 16, 6).tolist(), rng.integers(0, 8, 6).tolist(), strict=True):
        row, column, addend = patterns["a"][m].tolist(), patterns["b"][:, n].tolist(), int(patterns["c"][m, n])
        own = [int(scales[0][m])], [int(scales[1][n])]
        assert int(d[m, n]) == reference.dot_scaled(model, row, column, addend, own, known), (m, n)
