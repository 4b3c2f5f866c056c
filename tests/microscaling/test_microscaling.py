"""tcemu.microscaling: scales and elements of MXFP8, MXFP6, MXFP4 and NVFP4, against ml_dtypes and exact fractions."""

import math
from fractions import Fraction

import assembler
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from quick import examples

from tcemu import FormatError, IllegalInstruction, OperandError, parse, run
from tcemu.microscaling import KINDS, Kind, dequantise, quantise, scale_registers, tensor_scale

DTYPES = {
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn, "mxfp8_e5m2": ml_dtypes.float8_e5m2, "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn, "mxfp4": ml_dtypes.float4_e2m1fn, "nvfp4": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
#: Exponent of the largest element, and the largest element: the specification's tables.
LARGEST = {
    "mxfp8_e4m3": (8, 448),
    "mxfp8_e5m2": (15, 57344),
    "mxfp6_e3m2": (4, 28),
    "mxfp6_e2m3": (2, 7.5),
    "mxfp4": (2, 6),
    "nvfp4": (2, 6),
}
MX = [name for name in KINDS if name != "nvfp4"]
MXF8 = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"
MXF4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"
NVF4 = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"


@pytest.mark.parametrize("name", KINDS)
def test_shapes_and_dtypes(name):
    kind = KINDS[name]
    x = np.random.default_rng(1).standard_normal((3, 64, 96)).astype(np.float32)
    for axis in (-1, 1, 2, -2):
        elements, scales = quantise(x, name, axis)
        assert elements.shape == x.shape
        assert elements.dtype == DTYPES[name]
        shape = list(x.shape)
        shape[axis] //= kind.block
        assert list(scales.shape) == shape
        assert scales.dtype == (ml_dtypes.float8_e4m3fn if name == "nvfp4" else ml_dtypes.float8_e8m0fnu)
        assert dequantise(elements, scales, name, axis).shape == x.shape
    turned = [np.swapaxes(array, 1, 2) for array in quantise(np.swapaxes(x, 1, 2), name)]
    for one, two in zip(quantise(x, name, 1), turned, strict=True):
        assert np.array_equal(one.view(np.uint8), two.view(np.uint8))
    assert kind.elements.largest == LARGEST[name][1]
    assert kind.elements.emax == LARGEST[name][0]


# The specification, in fractions --------------------------------------------------------------------------------------


def all_values(name):
    """Every finite value of an element format, from ml_dtypes."""
    bits = {"mxfp8_e4m3": 8, "mxfp8_e5m2": 8, "mxfp6_e3m2": 6, "mxfp6_e2m3": 6}.get(name, 4)
    values = np.arange(1 << bits, dtype=np.uint8).view(DTYPES[name]).astype(np.float64)
    return sorted({Fraction(v) for v in values.tolist() if math.isfinite(v)})


VALUES = {name: all_values(name) for name in KINDS}
SCALES = [
    Fraction(v) for v in np.arange(1, 127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float64).tolist()
]


def nearest(values, x):
    """The nearest of `values`, the two ends included, ties to the one with an even code: every other one from 0."""
    above = next((i for i, v in enumerate(values) if v >= x), len(values) - 1)
    candidates = values[max(above - 1, 0) : above + 1]
    gap = [abs(v - x) for v in candidates]
    if len(candidates) == 2 and gap[0] == gap[1]:
        zero = values.index(Fraction(0)) if Fraction(0) in values else -1  # ue4m3 from its smallest: code 1
        index = max(above - 1, 0)
        return candidates[0] if (index - zero) % 2 == 0 else candidates[1]
    return candidates[gap.index(min(gap))]


def by_specification(name, block, shared=1.0):
    """(scale, elements) of one block of finite floats."""
    values = [Fraction(float(x)) / Fraction(shared) for x in block]
    largest = max(abs(v) for v in values)
    if name == "nvfp4":
        scale = nearest(SCALES, max(largest / 6, SCALES[0])) if largest else Fraction(0)
    else:
        power = -127
        if largest:
            while power < 127 and Fraction(2) ** (power + 1 + LARGEST[name][0]) <= largest:
                power += 1
        scale = Fraction(2) ** power
    return scale, [nearest(VALUES[name], v / scale) if scale else Fraction(0) for v in values]


FLOATS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(-8, 8, width=32),
    st.sampled_from(
        [0.0, -0.0, 2.0**-149, -(2.0**-126), 3.4028234663852886e38, 448.0, 464.0, 480.0, 6.0, 5.0, 7.0, 2.5]
    ),
)
SPANS = st.sampled_from([0, 1, 1, 1, 2.0**-130, 2.0**-20, 2.0**100])


@examples(200)
@given(st.sampled_from(sorted(KINDS)), arrays.arrays(np.float32, 32, elements=FLOATS), SPANS)
def test_finite_blocks_are_what_the_specification_says(name, block, span):
    size = KINDS[name].block
    with np.errstate(all="ignore"):
        scaled = (block * np.float32(span))[:size]
    block = np.where(np.isfinite(scaled), scaled, block[:size])
    elements, scales = quantise(block, name)
    scale, expected = by_specification(name, block)
    assert Fraction(float(scales[0])) == scale
    assert [Fraction(float(x)) for x in elements] == expected
    assert np.array_equal(np.signbit(elements.astype(np.float64)), np.signbit(block))  # of zeros too
    exact = dequantise(elements, scales, name)
    assert [Fraction(x) for x in exact.tolist()] == [e * scale for e in expected]


@pytest.mark.parametrize("name", MX)
def test_elements_are_what_ml_dtypes_casts(name):
    """Where nothing saturates: the quotient is exact, and so is the cast of ml_dtypes."""
    rng = np.random.default_rng(2)
    x = (rng.standard_normal((200, 64)) * np.exp2(rng.integers(-40, 40, (200, 1)))).astype(np.float32)
    elements, scales = quantise(x, name)
    quotient = x / np.repeat(scales.astype(np.float64), 32, axis=-1)
    fits = np.abs(quotient) <= LARGEST[name][1]
    assert fits.mean() > 0.9
    cast = quotient.astype(np.float32).astype(DTYPES[name])
    assert np.array_equal(elements[fits].view(np.uint8), cast[fits].view(np.uint8))
    assert (np.abs(elements[~fits].astype(np.float64)) == LARGEST[name][1]).all()
    assert np.array_equal(
        np.exp2(np.floor(np.log2(np.abs(x).reshape(200, 2, 32).max(-1))) - LARGEST[name][0]), scales.astype(np.float64)
    )


def test_nvfp4_scales_are_what_ml_dtypes_casts():
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((400, 32)) * np.exp2(rng.integers(-4, 6, (400, 1)))).astype(np.float32)
    elements, scales = quantise(x, "nvfp4")
    expected = (
        (np.abs(x).reshape(400, 2, 16).max(-1).astype(np.float64) / 6)
        .astype(np.float32)
        .astype(ml_dtypes.float8_e4m3fn)
    )
    assert np.array_equal(scales.view(np.uint8), expected.view(np.uint8))
    quotient = np.clip(x / np.repeat(scales.astype(np.float64), 16, axis=-1), -6, 6)
    assert np.array_equal(elements.view(np.uint8), quotient.astype(ml_dtypes.float4_e2m1fn).view(np.uint8))


# Edges ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_a_block_of_zeros_is_zeros(name):
    x = np.zeros((2, 32), np.float32)
    x[1] = -0.0
    elements, scales = quantise(x, name)
    assert (scales.astype(np.float64) == (0 if name == "nvfp4" else 2.0**-127)).all()
    assert (elements.astype(np.float64) == 0).all()
    assert np.signbit(elements[1].astype(np.float64)).all()
    assert (dequantise(elements, scales, name) == 0).all()


@pytest.mark.parametrize("name", KINDS)
def test_subnormal_blocks(name):
    x = np.full((1, 32), 2.0**-149, np.float32)
    elements, scales = quantise(x, name)
    assert (scales.astype(np.float64) == (2.0**-9 if name == "nvfp4" else 2.0**-127)).all()
    expected = by_specification(name, x[0, : KINDS[name].block])[1][0]
    assert (elements.astype(np.float64) == float(expected)).all()


@pytest.mark.parametrize("name", KINDS)
def test_what_is_not_finite_stays_so(name):
    """The other elements of its block are the same as without it, unless only the scale can express it."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 96)).astype(np.float32)
    plain, plain_scales = quantise(np.where(np.arange(96) % 40 == 7, 0, x), name)
    x[0, 7], x[0, 47], x[0, 87] = np.nan, np.inf, -np.inf
    elements, scales = quantise(x, name)
    found = dequantise(elements, scales, name)[0]
    assert not np.isfinite(found[[7, 47, 87]]).any()
    block = KINDS[name].block
    if name.startswith("mxfp8"):
        assert np.array_equal(scales.view(np.uint8), plain_scales.view(np.uint8))
        others = np.arange(96) % 40 != 7
        assert np.array_equal(elements[0, others].view(np.uint8), plain[0, others].view(np.uint8))
        assert np.isnan(found[7])
        assert (found[[47, 87]] == [np.inf, -np.inf]).all() == (name == "mxfp8_e5m2")
    else:
        broken = {7 // block, 47 // block, 87 // block}
        assert np.array_equal(np.isnan(scales[0].astype(np.float64)), [i in broken for i in range(96 // block)])
        assert np.isnan(found.reshape(-1, block)[sorted(broken)]).all()
        rest = [i for i in range(96 // block) if i not in broken]
        assert np.isfinite(found.reshape(-1, block)[rest]).all()


@pytest.mark.parametrize("name", KINDS)
def test_blocks_without_a_finite_element(name):
    elements, scales = quantise(np.full(32, np.nan, np.float32), name)
    assert np.isnan(dequantise(elements, scales, name)).all()
    elements, scales = quantise(np.full(32, np.inf, np.float32), name)
    assert not np.isfinite(dequantise(elements, scales, name)).any()


def test_numbers_beyond_float32_saturate():
    elements, scales = quantise(np.full(32, 1e300), "mxfp4")
    assert (dequantise(elements, scales, "mxfp4") == 6 * 2.0**127).all()
    elements, scales = quantise(np.full(16, 1e9, np.float32), "nvfp4")
    assert (dequantise(elements, scales, "nvfp4") == 6 * 448).all()


def test_other_dtypes_of_real_numbers():
    x = np.arange(-32, 32).reshape(2, 32)
    expected = quantise(x.astype(np.float32), "mxfp8_e4m3")
    for array in (x, x.tolist(), x.astype(np.float16), x.astype(ml_dtypes.bfloat16), x.astype(np.float64)):
        for one, two in zip(quantise(array, "mxfp8_e4m3"), expected, strict=True):
            assert np.array_equal(one.view(np.uint8), two.view(np.uint8))


# Tensor scales --------------------------------------------------------------------------------------------------------


def test_a_tensor_scale_puts_the_largest_element_at_the_largest_scale():
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((16, 64)) * 1e6).astype(np.float32)
    shared = tensor_scale(x)
    assert shared == np.float32(np.abs(x).max() / 2688)
    elements, scales = quantise(x, "nvfp4", tensor_scale=shared)
    assert scales.astype(np.float64).max() == 448
    back = dequantise(elements, scales, "nvfp4", tensor_scale=shared)
    assert np.abs(back - x).max() < np.abs(x).max() / 5
    row = x[0, :16]
    scale, expected = by_specification("nvfp4", row, shared)
    assert Fraction(float(scales[0, 0])) == scale
    assert [Fraction(float(e)) for e in elements[0, :16]] == expected
    assert tensor_scale(np.zeros(4)) == 1
    assert tensor_scale(np.array([np.nan, np.inf, 2688])) == 1
    assert tensor_scale(np.zeros(0)) == 1


def test_errors_stay_within_half_a_step():
    """A law of rounding to nearest: relative to the block's largest, half the step of the element format."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((100, 32)).astype(np.float32)
    for name, steps in (("mxfp8_e4m3", 3), ("mxfp8_e5m2", 2), ("mxfp6_e3m2", 2), ("mxfp6_e2m3", 3), ("mxfp4", 1)):
        elements, scales = quantise(x, name)
        top = np.exp2(np.floor(np.log2(np.abs(x).max(-1))))[:, None]
        # what saturates loses more: the largest element is less than the next power of two
        bound = np.maximum(top * 2.0 ** -(steps + 1), np.abs(x) - LARGEST[name][1] * scales.astype(np.float64))
        assert (np.abs(dequantise(elements, scales, name) - x) <= bound).all()


# Registers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("opcode", "count"), [(MXF8, 1), (MXF4, 2), (NVF4, 4)])
def test_scales_stand_in_their_lanes_and_bytes(opcode, count):
    rng = np.random.default_rng(7)
    for byte in range(0, 4, count):
        for thread in range(4):
            x, y = (
                rng.integers(1, 120, (2, 16, count)).astype(np.uint8),
                rng.integers(1, 120, (2, count, 8)).astype(np.uint8),
            )
            if thread < 2:
                held = scale_registers(x, opcode, "a", byte, thread)
                assert (held.shape, held.dtype) == ((2, 32), np.uint32)
                expected = np.zeros((2, 32, 4), np.uint8)
                for row in range(16):
                    expected[:, 4 * (row % 8) + 2 * thread + row // 8, byte : byte + count] = x[:, row]
                assert np.array_equal(held.view(np.uint8).reshape(2, 32, 4), expected)
            held = scale_registers(y, opcode, "b", byte, thread)
            expected = np.zeros((2, 32, 4), np.uint8)
            for column in range(8):
                expected[:, 4 * column + thread, byte : byte + count] = y[:, :, column]
            assert np.array_equal(held.view(np.uint8).reshape(2, 32, 4), expected)


def test_registers_of_several_scales_are_joined():
    rng = np.random.default_rng(8)
    tiles = [rng.integers(120, 135, (16, 1)).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu) for _ in range(8)]
    picks = [(byte, thread) for byte in range(4) for thread in range(2)]
    joined = np.bitwise_or.reduce([scale_registers(x, MXF8, "a", *pick) for x, pick in zip(tiles, picks, strict=True)])
    fragments = parse(MXF8).fragments
    a, b = (np.full((32, fragments[role].registers), 0x38383838, np.uint32) for role in "ab")
    c, one = np.zeros((32, 4), np.uint32), np.full(32, 127, np.uint32)
    for x, pick in zip(tiles, picks, strict=True):
        d = fragments["d"].unpack(run(MXF8, a, b, c, joined, pick, one, (0, 0), target="sm_120a"))
        assert np.array_equal(d, np.tile(32 * x.astype(np.float32), (1, 8)))


def test_a_sparse_operand_is_compressed_and_then_quantised():
    """A's stored values have a scale for each 32 (64 of k); B gets one for each 64."""
    from tcemu import sparse

    opcode = MXF8.replace("mma.sync", "mma.sp::ordered_metadata.sync").replace("k32", "k64")
    instruction = parse(opcode)
    rng = np.random.default_rng(9)
    left, right = rng.standard_normal((16, 64)).astype(np.float32), rng.standard_normal((64, 8)).astype(np.float32)
    dense, shared = quantise(sparse.prune(left, "2:4"), "mxfp8_e4m3", block=64)
    b, y = quantise(right, "mxfp8_e4m3", axis=-2, block=64)
    values, metadata = sparse.compress(dense, opcode)
    packed = [instruction.fragments[role].pack(x) for role, x in (("a", values), ("b", b))]
    registers = [scale_registers(s, opcode, role) for role, s in (("a", shared), ("b", y))]
    c = np.zeros((32, 4), np.uint32)
    d = run(opcode, *packed, c, metadata, 0, registers[0], (0, 0), registers[1], (0, 0), target="sm_120a")
    exact = dequantise(dense, shared, "mxfp8_e4m3") @ dequantise(b, y, "mxfp8_e4m3", axis=-2)
    assert np.abs(instruction.fragments["d"].unpack(d) - exact).max() < 1e-5


# Errors ---------------------------------------------------------------------------------------------------------------

X = np.zeros((16, 32), np.float32)
E, S = quantise(X, "mxfp8_e4m3")
ERRORS = {
    "a kind that is none": (
        lambda: quantise(X, "mxfp9"),
        FormatError,
        ["no microscaling format is called 'mxfp9'", "mxfp4 and nvfp4"],
    ),
    "capitals": (
        lambda: quantise(X, "NVFP4"),
        FormatError,
        ["no microscaling format is called 'NVFP4'", "Did you mean 'nvfp4'?"],
    ),
    "half a name": (
        lambda: quantise(X, "mxfp8"),
        FormatError,
        ["no microscaling format is called 'mxfp8'. Did you mean 'mxfp8_e4m3' or 'mxfp8_e5m2'?"],
    ),
    "more bits than any": (lambda: quantise(X, "mxfp16"), FormatError, ["is called 'mxfp16'. The formats are mxfp8"]),
    "no kind": (lambda: quantise(X, None), FormatError, ["no microscaling format", "NoneType"]),
    "words": (lambda: quantise(["a"], "mxfp4"), FormatError, ["real numbers"]),
    "complex numbers": (lambda: quantise(np.zeros(32, complex), "mxfp4"), FormatError, ["real numbers", "complex"]),
    "half a block": (
        lambda: quantise(np.zeros((4, 48)), "mxfp4"),
        OperandError,
        ["mxfp4 has a scale for every 32 elements", "axis -1 of shape (4, 48)", "Pad it"],
    ),
    "a block of none": (
        lambda: quantise(X, "mxfp4", block=-4),
        OperandError,
        ["block must be the number of elements that share a scale; got -4"],
    ),
    "an axis that is none": (
        lambda: quantise(X, "mxfp4", 2),
        OperandError,
        ["an array of shape (16, 32) has no axis 2"],
    ),
    "an axis in words": (lambda: quantise(X, "mxfp4", "k"), OperandError, ["has no axis 'k'"]),
    "a number": (lambda: quantise(1.0, "mxfp4"), OperandError, ["an array of shape () has no axis -1"]),
    "a tensor scale of zero": (
        lambda: quantise(X, "nvfp4", tensor_scale=0),
        OperandError,
        ["tensor_scale must be a positive number; got 0"],
    ),
    "a tensor scale of NaN": (
        lambda: quantise(X, "nvfp4", tensor_scale=np.nan),
        OperandError,
        ["tensor_scale must be a positive number; got nan"],
    ),
    "a tensor scale in words": (
        lambda: quantise(X, "nvfp4", tensor_scale="big"),
        OperandError,
        ["tensor_scale must be a positive number; got 'big'"],
    ),
    "scales of another tensor": (
        lambda: dequantise(E, S[:8], "mxfp8_e4m3"),
        OperandError,
        ["scales must have the shape of the elements", "(16, 32)", "(8, 1)"],
    ),
    "no scales": (
        lambda: dequantise(E, S[:, :0], "mxfp8_e4m3"),
        OperandError,
        ["scales must have the shape of the elements"],
    ),
    "scales that do not divide": (
        lambda: dequantise(E, np.tile(S, 3), "mxfp8_e4m3"),
        OperandError,
        ["must be a multiple of theirs"],
    ),
    "elements of another kind": (
        lambda: dequantise(E, S, "mxfp4"),
        OperandError,
        ["elements of mxfp4", "float4_e2m1fn"],
    ),
    "scales of another kind": (
        lambda: dequantise(E, E[:, :1], "mxfp8_e4m3"),
        OperandError,
        ["scales of mxfp8_e4m3", "float8_e8m0fnu"],
    ),
    "an axis that elements lack": (lambda: dequantise(E, S, "mxfp8_e4m3", 5), OperandError, ["has no axis 5"]),
    "an instruction without scales": (
        lambda: scale_registers(S, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "a"),
        IllegalInstruction,
        ["has no scales", ".block_scale"],
    ),
    "a role that is none": (
        lambda: scale_registers(S, MXF8, "c"),
        OperandError,
        ["has scales of 'a' and of 'b'; got 'c'"],
    ),
    "scales of the other operand": (
        lambda: scale_registers(S, MXF8, "b"),
        OperandError,
        ["scale_b takes scales of shape (..., 1, 8); got (16, 1)"],
    ),
    "a byte-id too large": (
        lambda: scale_registers(S, MXF8, "a", 4),
        OperandError,
        ["byte-id is 0, 1, 2 or 3", "got (4, 0)"],
    ),
    "a thread-id too large": (
        lambda: scale_registers(S, MXF8, "a", 0, 2),
        OperandError,
        ["thread-id 0 or 1", "got (0, 2)"],
    ),
    "a block that is a truth": (lambda: quantise(X, "mxfp4", block=True), OperandError, ["got True"]),
    "a block larger than memory": (lambda: quantise(X[:0], "mxfp4", block=2**70), OperandError, ["block must be"]),
    "a tensor scale beyond float32": (lambda: tensor_scale([1e300]), OperandError, ["float32", "3.72024e+296"]),
    "a tensor scale that is an array": (
        lambda: quantise(X, "nvfp4", tensor_scale=np.zeros((9, 99))),
        OperandError,
        ["positive number"],
    ),
    "scales of floats": (
        lambda: scale_registers(X[:, :1], MXF8, "a"),
        OperandError,
        ["float8_e8m0fnu", "got dtype float32"],
    ),
}


@pytest.mark.parametrize("shape", [(0, 32), (3, 0), (0, 0, 64)])
def test_no_matrix_has_no_scales(shape):
    elements, scales = quantise(np.zeros(shape), "mxfp4")
    assert elements.shape == shape
    assert scales.shape == (*shape[:-1], shape[-1] // 32)


@pytest.mark.parametrize("mistake", ERRORS)
def test_what_cannot_be_quantised_is_explained(mistake):
    call, error, words = ERRORS[mistake]
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_a_kind_of_your_own():
    wide = Kind("e4m3 in eights", "e4m3", "ue8m0", 8)
    elements, scales = quantise(X, wide)
    assert scales.shape == (16, 4)
    assert dequantise(elements, scales, wide).shape == X.shape


ANYTHING = st.one_of(
    st.none(), st.integers(), st.text(), st.just(X), st.just(E), st.just(S), st.just([[1], [1, 2]]), st.just(object()),
    st.just(MXF8), st.just("nvfp4"), st.just("mxfp6_e3m2"), st.just({}), st.just(np.zeros((0, 32))),
    st.just(np.array("NaT", "M8[s]")),
)  # fmt: skip


@given(st.lists(ANYTHING, min_size=5, max_size=5))
def test_anything_works_or_is_explained(odd):
    assembler.only_tcemu_errors(quantise, *odd[:3], tensor_scale=odd[3])
    assembler.only_tcemu_errors(quantise, odd[0], "nvfp4", odd[1], tensor_scale=odd[3], block=odd[4])
    assembler.only_tcemu_errors(dequantise, *odd[:4])
    assembler.only_tcemu_errors(dequantise, odd[0], odd[1], "mxfp8_e4m3", odd[2])
    assembler.only_tcemu_errors(tensor_scale, odd[0])
    assembler.only_tcemu_errors(scale_registers, *odd)
    assembler.only_tcemu_errors(scale_registers, odd[0], MXF8, "a", *odd[:2])
