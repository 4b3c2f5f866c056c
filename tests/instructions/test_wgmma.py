"""wgmma.mma_async through tcemu.run: whole numbers, descriptors, operands, errors."""

import numpy as np
import pytest

import tcemu
from tcemu.errors import IllegalInstruction, LayoutError, OperandError
from tcemu.layouts.descriptor import Descriptor, addresses

F16 = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16"


# ------------------------------------------------------------------------------------------------ whole numbers


def tile(matrix, start, shared, *, mn_major=False):
    """Lay a matrix (mn, k) of f16 out without a swizzle, as cores of 8 rows by 16 bytes; return its descriptor."""
    mn, k = matrix.shape
    # a core is 8 mn by 8 k; SBO steps along mn and LBO along k, in both majors where nothing is swizzled
    lbo, sbo = (128, 16 * k) if not mn_major else (16 * mn, 128)
    for i, j in np.ndindex(mn, k):
        outer, inner = (j, i) if mn_major else (i, j)
        core = i // 8 * sbo + j // 8 * lbo
        where = start + core + outer % 8 * 16 + inner % 8 * 2
        shared[where : where + 2] = np.frombuffer(np.float16(matrix[i, j]).tobytes(), np.uint8)
    return np.uint64(Descriptor(start, lbo, sbo).encode())


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize(("scale_d", "scale_a", "scale_b"), [(True, 1, 1), (False, 1, 1), (True, -1, 1), (True, 1, -1)])
def test_small_whole_numbers_are_exact(trans_a, trans_b, scale_d, scale_a, scale_b):
    numbers = np.random.default_rng(5)
    a, b = numbers.integers(-8, 9, (64, 16)), numbers.integers(-8, 9, (8, 16))
    c = numbers.integers(-99, 99, (64, 8)).astype(np.float32)
    instruction, shared = tcemu.parse(F16), np.zeros(8192, np.uint8)
    at = tile(a, 0, shared, mn_major=bool(trans_a)), tile(b, 4096, shared, mn_major=bool(trans_b))
    d = instruction.fragments["d"].pack(c)
    got = tcemu.run(F16, d, *at, scale_d, scale_a, scale_b, trans_a, trans_b, shared=shared)
    expected = scale_a * scale_b * a @ b.T + scale_d * c
    assert np.array_equal(instruction.fragments["d"].unpack(got), expected)
    if not trans_a:
        registers = instruction.fragments["a"].pack(a.astype(np.float16))
        same = tcemu.run(F16, d, registers, at[1], scale_d, scale_a, scale_b, trans_b, shared=shared)
        assert np.array_equal(got, same)


# ------------------------------------------------------------------------------------------------ descriptors


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_a_descriptor_encodes_what_it_decodes(swizzle):
    descriptor = Descriptor(start=4096, lbo=256, sbo=1024, swizzle=swizzle, base_offset=3)
    assert Descriptor.decode(descriptor.encode()) == descriptor
    bits = descriptor.encode()
    assert (bits & 0x3FFF, bits >> 16 & 0x3FFF, bits >> 32 & 0x3FFF) == (256, 16, 64)
    assert bits >> 62 == {0: 0, 128: 1, 64: 2, 32: 3}[swizzle]


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_swizzled_tile_is_a_permutation_of_its_bytes(swizzle):
    """Eight rows of the swizzle's width, K-major: every 16 bytes of the pattern are used once."""
    found = addresses(
        np.array(Descriptor(0, 0, 8 * swizzle, swizzle).encode(), np.uint64),
        np.arange(8),
        np.arange(swizzle // 2),
        2,
        False,
    )
    assert sorted(found.ravel()) == list(range(0, 8 * swizzle, 2))


def test_the_swizzle_exchanges_units_of_16_bytes():
    descriptor = Descriptor(0, 0, 1024, 128)
    assert [descriptor.address(row, 0, 16) for row in range(8)] == [row * 128 + row * 16 for row in range(8)]
    assert descriptor.address(8, 0, 16) == 1024


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"start": 8}, "multiple of 16"),
        ({"start": 0, "sbo": 1 << 18}, "below 262144"),
        ({"start": 0, "swizzle": 16}, "0, 32, 64 or 128"),
        ({"start": 0, "base_offset": 8}, "0 to 7"),
    ],
)
def test_a_descriptor_says_what_is_wrong(fields, says):
    with pytest.raises(LayoutError, match=says):
        Descriptor(**fields)


# ------------------------------------------------------------------------------------------------ bad input

D, A, B = np.zeros((128, 4), np.uint32), np.zeros((128, 4), np.uint32), np.uint64(0)
SHARED_BYTES = np.zeros(4096, np.uint8)


@pytest.mark.parametrize(
    ("operands", "says"),
    [
        ((D, A), "takes d, a, b, scale_d"),
        ((D, A, B, True, 1, 1), "imm_trans_b"),
        ((D, A, B, True, 1, 1, 0, 0), "with A in registers ends with"),
        ((D, B, B, True, 1, 1, 0), "with A in a descriptor ends with"),
        ((D, A, B, 2, 1, 1, 0), "scale_d is a predicate"),
        ((D, A, B, True, 0, 1, 0), "imm_scale_a is an immediate, -1 or 1"),
        ((D, A, B, True, 1, 1, 2), "imm_trans_b is an immediate, 0 or 1"),
        ((D[:32], A, B, True, 1, 1, 0), "a warpgroup has 128 lanes, and every lane takes part"),
        ((D, A, np.uint32(0), True, 1, 1, 0), "matrix descriptor"),
        ((D, A, np.uint64(4095), True, 1, 1, 0), "lies outside shared="),
    ],
)
def test_operands_are_explained(operands, says):
    with pytest.raises(OperandError, match=says):
        tcemu.run(F16, *operands, shared=SHARED_BYTES)


def test_sparse_forms_take_metadata_and_a_selector():
    metadata = np.full(128, 0x44444444, np.uint32)
    got = tcemu.run(SPARSE, D, A, B, metadata, 1, True, 1, 1, 0, shared=SHARED_BYTES)
    assert not got.any()
    with pytest.raises(OperandError, match="lane 0, bits 3:0"):
        tcemu.run(SPARSE, D, A, B, metadata * 0, 0, True, 1, 1, 0, shared=SHARED_BYTES)
    with pytest.raises(OperandError, match="selector is an immediate, 0 or 1"):
        tcemu.run(SPARSE, D, A, B, metadata, 2, True, 1, 1, 0, shared=SHARED_BYTES)


def test_it_needs_sm_90a_itself():
    for target in ("sm_90", "sm_100a", "sm_120a"):
        with pytest.raises(IllegalInstruction, match="it needs sm_90a"):
            tcemu.parse(F16, target=target)
