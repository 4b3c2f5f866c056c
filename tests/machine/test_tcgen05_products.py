"""tcgen05.mma of every kind in a kernel: what Product.compute says of the same matrices, wherever the operands lie."""

import numpy as np
import pytest
from rows import rows
from tensor_kernels import ORDERS, Placed

import tcemu
from tcemu.errors import ArithmeticUnknown, LaunchError
from tcemu.layouts import instruction_descriptor
from tcemu.layouts.zero_column_mask import ZeroColumnMask

#: kind, types of A, B and D, m, n, number of blocks
_KINDS = [
    ("f16", "bf16", "bf16", "f32", 128, 32, 1),
    ("f16", "f16", "f16", "f16", 64, 16, 1),
    ("f16", "f16", "f16", "f32", 256, 32, 2),
    ("f16", "f16", "f16", "f32", 128, 32, 2),
    ("tf32", "tf32", "tf32", "f32", 128, 8, 1),
    ("f8f6f4", "e4m3", "e2m1", "f32", 64, 32, 1),
    ("f8f6f4", "e2m3", "e3m2", "f16", 128, 16, 1),
    ("f8f6f4", "e5m2", "e4m3", "f32", 256, 64, 2),
    ("i8", "u8", "s8", "s32", 128, 16, 1),
]


def _bits(rng, form, shape):
    from tcemu.formats import lookup

    found = lookup(form)
    return rng.integers(0, found.code_mask + 1, shape).astype(found.storage)


def _placed(kind, a, b, d, m, n, group, *, negate=False, ws=False, **more):
    rng = np.random.default_rng(n)
    idesc = instruction_descriptor(m, n, kind=kind, a=a, b=b, d=d, negate_a=negate)
    k = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}[kind]
    given = _bits(rng, a, (m, k)), _bits(rng, b, (n, k)), _bits(rng, d if d != "s32" else "f32", (m, n))
    return Placed(f"tcgen05.mma{'.ws' * ws}.cta_group::{group}.kind::{kind}", idesc, *given, group=group, **more)


def _wanted(placed, **more):
    storage = placed.product.operation.formats["d"].storage
    left, right = placed.a[None], np.ascontiguousarray(placed.b.T)[None]
    return placed.product.compute(left, right, placed.d.astype(storage)[None], **more)[0]


@rows("kind a b d m n group", _KINDS)
def test_products_of_every_kind(kind, a, b, d, m, n, group):
    for adds in (True, False):
        for negate in (False, True) if kind != "i8" else (False,):
            placed = _placed(kind, a, b, d, m, n, group, negate=negate)
            mask = 0xFFFF if d == "f16" else 0xFFFFFFFF
            wanted = _wanted(placed, enable_d=adds)
            assert np.array_equal(placed.run(adds=adds) & mask, wanted & mask)


@rows("kind a b d m n group", [_KINDS[0], _KINDS[1], _KINDS[2], _KINDS[3], _KINDS[4], (*_KINDS[7][:4], 128, 32, 1)])
def test_a_in_tensor_memory(kind, a, b, d, m, n, group):
    placed = _placed(kind, a, b, d, m, n, group, held=True)
    mask = 0xFFFF if d == "f16" else 0xFFFFFFFF
    assert np.array_equal(placed.run() & mask, _wanted(placed) & mask)


@rows("kind form m held", [("f16", "f16", 32, False), ("tf32", "tf32", 64, False), ("f8f6f4", "e4m3", 128, True)])
def test_weights_that_stay(kind, form, m, held):
    placed = _placed(kind, form, form, "f32", m, 64, 1, held=held, ws=True)
    assert np.array_equal(placed.run(), _wanted(placed))


@pytest.mark.parametrize(("policy", "seed"), ORDERS)
def test_a_pair_under_every_policy(policy, seed):
    placed = _placed("f16", "f16", "f16", "f32", 256, 32, 2)
    assert np.array_equal(placed.run(policy=policy, seed=seed), _wanted(placed))


def test_lanes_that_are_not_written():
    placed = _placed("f16", "f16", "f16", "f32", 128, 8, 1)
    found, wanted = placed.run(mask=(1, 0, 0, 0x80000000)), _wanted(placed)
    wanted[[0, 127]] = placed.d[[0, 127]]
    assert np.array_equal(found, wanted)


#: opcode's kind, types, scale type, scales of a row, IDs
_SCALED = [
    ("mxf8f6f4.block_scale.block32", "e4m3", "e2m1", "ue8m0", 1, 32, (3, 1), 1),
    ("mxf4.block_scale.block32", "e2m1", "e2m1", "ue8m0", 2, 64, (2, 0), 1),
    ("mxf4nvf4.block_scale.block16", "e2m1", "e2m1", "ue4m3", 4, 64, (0, 0), 1),
    ("mxf4nvf4.block_scale.block16", "e2m1", "e2m1", "ue4m3", 4, 64, (0, 0), 2),
]


@rows("kind a b scale many k ids group", _SCALED)
def test_products_with_scales(kind, a, b, scale, many, k, ids, group):
    rng = np.random.default_rng(many)
    m, n = 128 * group, 48
    name = kind.split(".")[0]
    idesc = instruction_descriptor(m, n, kind=name, a=a, b=b, scale_type=scale, sfa_id=ids[0], sfb_id=ids[1])
    given = _bits(rng, a, (m, k)), _bits(rng, b, (n, k)), _bits(rng, "f32", (m, n))
    words = [rng.integers(100, 150, (rows, 4)).astype(np.uint8) for rows in (m, n)]  # all bytes of a word
    placed = Placed(f"tcgen05.mma.cta_group::{group}.kind::{kind}", idesc, *given, scales=words, group=group)
    left, right = (each[:, first : first + many] for each, first in zip(words, ids, strict=True))
    wanted = _wanted(placed, scale_a=left[None], scale_b=np.ascontiguousarray(right.T)[None])
    assert np.array_equal(placed.run(), wanted)


@rows("kind form k codes", [("f16", "f16", 32, 8), ("f8f6f4", "e4m3", 64, 16)])
def test_a_sparse_product(kind, form, k, codes):
    rng = np.random.default_rng(k)
    idesc = instruction_descriptor(128, 16, kind=kind, sparse=True)
    given = _bits(rng, form, (128, k // 2)), _bits(rng, form, (16, k)), _bits(rng, "f32", (128, 16))
    legal = np.array([0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110])
    chosen = rng.choice(legal, (128, codes))
    placed = Placed(f"tcgen05.mma.sp.cta_group::1.kind::{kind}", idesc, *given, codes=chosen)
    places = np.stack([chosen & 3, chosen >> 2], axis=2) + 4 * np.arange(codes)[:, None]
    wanted = _wanted(placed, stored_k=places.reshape(1, 128, -1))
    assert np.array_equal(placed.run(), wanted)


@rows(
    "change says",
    [
        (lambda p: setattr(p, "idesc", p.idesc | 4), "it has the bit of a sparse A (bit 2), but the opcode lacks .sp"),
        (lambda p: setattr(p, "idesc", p.idesc & ~(31 << 24)), "M is 0; with .cta_group::1 it must be 64 or 128"),
        (lambda p: p.beside.update(d=16 << 16), "the lane of d, bits 31:16 of its address, must be a multiple of 128"),
        (lambda p: p.beside.update(d=508), "d, lanes 0 to 127 and columns 508 to 515 lie outside Tensor Memory"),
        (lambda p: p.beside.update(b=1 << 12), "element of b: address 132096, 2 bytes, lies outside"),
        (lambda p: p.beside.update(b=1 << 47), "bits 48:46 must be 0b001, and are 0b011"),
    ],
    ids=lambda change, says: says,
)
def test_what_a_product_does_not_take(change, says):
    placed = _placed("f16", "f16", "f16", "f32", 128, 8, 1)
    change(placed)
    with pytest.raises(LaunchError) as caught:
        placed.run()
    assert says in str(caught.value)


@pytest.mark.parametrize("m", [32, 64, 128])
def test_columns_that_count_as_zeros(m):
    """A mask of .ws: as if B had zeros there, with infinities in A, too. 3 zeros, 4 of B, from the second on."""
    placed = _placed("f16", "f16", "f16", "f32", m, 64, 1, ws=True)
    placed.a[0, 0] = 0x7C00
    mask = ZeroColumnMask(3, 4, (1, 0, 1, 0), (1, 1, 2, 3))
    found = placed.run(zeros=mask.encode())
    zeroed = (np.arange(64 * m // 128)[None] + np.array(mask.start[: 128 // m])[:, None]) % 7
    zeroed = np.where(np.array(mask.first[: 128 // m])[:, None], zeroed < 3, zeroed >= 4).reshape(-1)
    placed.b[zeroed] = 0
    assert np.array_equal(found, _wanted(placed))


def test_a_shift_of_b_is_refused():
    placed = _placed("f16", "f16", "f16", "f32", 128, 64, 1, ws=True)
    with pytest.raises(ArithmeticUnknown, match="how far a shift of B reaches"):
        placed.run(zeros=ZeroColumnMask(shift=2).encode())
    with pytest.raises(LaunchError, match="of which 38:36 and 63:62 must be 0"):
        placed.run(zeros=1 << 36)


def test_rows_that_are_shifted_are_refused():
    """Where .ashift moves the rows at the boundaries of 32 lanes has not been published."""
    placed = _placed("f16", "f16", "f16", "f32", 128, 8, 1, held=True)
    placed.instruction = tcemu.parse(f"{placed.instruction}.ashift", "sm_100a")
    with pytest.raises(ArithmeticUnknown, match="which rows"):
        placed.run()
