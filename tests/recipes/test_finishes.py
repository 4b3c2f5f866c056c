"""What comes after the sums: alpha, C, scales, conversions to narrow types; against numpy, ml_dtypes and by hand."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from places import ROOT
from quick import spread, turn

import tcemu
from tcemu import microscaling
from tcemu.errors import OperandError
from tcemu.formats import lookup
from tcemu.recipes import Recipe, multiply, whose_bits
from tcemu.recipes.outputs import rounded

S8 = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"
BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
TF32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
E4M3 = "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3"
bf16, e4m3, e5m2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def whole(seed, shape, dtype=np.int8):
    form = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(form.min, form.max, shape, endpoint=True).astype(dtype)


def drawn(seed, shape, dtype, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


@pytest.mark.parametrize(
    ("alpha", "c", "beta", "right"),
    [
        (0.5, None, 1.0, 16),
        (1.0, 0.75, 2.0, 34),  # 33.5, to even
        (1.0, 0.25, 2.0, 32),  # 32.5, to even
        (-0.25, 3, 1.0, -5),
        (1e9, None, 1.0, 2**31 - 1),  # cvt.rni.s32.f32 clamps
    ],
)
def test_alpha_beta_and_c_of_integer_sums_are_f32(alpha, c, beta, right):
    one = np.ones((16, 32), np.int8)
    c = None if c is None else np.full(16, c, np.float32)
    d = multiply(Recipe(S8), one, one.T.copy(), c, alpha=alpha, beta=beta)
    assert (d.dtype, d.tolist()) == (np.int32, [[right] * 16] * 16)


@pytest.mark.parametrize("kinds", [*itertools.product([np.int8, np.uint8], repeat=3)])
@pytest.mark.parametrize("alpha", [1.0, 0.0015])
def test_integers_saturate_and_the_search_finds_it(kinds, alpha):
    a, b = whole(0, (32, 64), kinds[0]), whole(1, (64, 32), kinds[1])
    form = np.iinfo(kinds[2])
    sums = a.astype(np.int64) @ b.astype(np.int64)
    d = np.clip(np.rint(np.float32(alpha) * sums.astype(np.float32)), form.min, form.max).astype(kinds[2])
    found = whose_bits(a, b, d, alpha=alpha)
    assert found.recipes, str(found)
    assert np.array_equal(multiply(found.recipes[0], a, b, alpha=alpha), d)


@pytest.mark.parametrize(
    ("rounding", "overflow", "by_hand"),
    [
        ("", "", [-128, -2, 0, 2, 2, 3, 4, 127]),
        ("rz", "", [-128, -2, 0, 1, 2, 3, 3, 127]),
        ("rna", "", [-128, -3, -1, 2, 3, 3, 4, 127]),
        ("", "wrap", [56, -2, 0, 2, 2, 3, 4, 44]),
    ],
)
def test_f32_to_s8(rounding, overflow, by_hand):
    values = np.float32([-200, -2.5, -0.5, 1.5, 2.5, 3, 3.75, 300])
    assert rounded(values, "f32", "s8", rounding, overflow).tolist() == by_hand


def test_a_nan_is_0_as_an_integer():
    assert rounded(np.float32([np.nan, np.inf, -np.inf]), "f32", "u8").tolist() == [0, 255, 0]


@pytest.mark.parametrize(("kind", "dtype", "largest"), [("e4m3", e4m3, 448), ("e5m2", e5m2, 57344)])
def test_fp8_saturates_by_default_and_not_where_a_framework_does_the_conversion(kind, dtype, largest):
    values = np.float32(np.linspace(-3, 3, 4001) * largest)
    clipped = np.clip(values, -largest, largest).astype(dtype)
    assert np.array_equal(rounded(values, "f32", kind).view(np.uint8), clipped.view(np.uint8))
    plain = rounded(values, "f32", kind, overflow="special").astype(np.float32)
    assert np.array_equal(plain, values.astype(dtype).astype(np.float32), equal_nan=True)


#: D from exact f32 sums, and what the recipe must say about it.
CONVERSIONS = {
    "e4m3 saturates": (lambda x: np.clip(x, -448, 448).astype(e4m3), ""),
    "e4m3 becomes NaN": (lambda x: x.astype(e4m3), "overflow=special"),
    "e5m2 saturates": (lambda x: np.clip(100 * x, -57344, 57344).astype(e5m2), ""),
    "e5m2 becomes infinite": (lambda x: (100 * x).astype(e5m2), "overflow=special"),
    "f16 becomes infinite": (lambda x: (100 * x).astype(np.float16), ""),
    "f16 saturates": (lambda x: np.clip(100 * x, -65504, 65504).astype(np.float16), "overflow=saturate"),
    "bf16 is cut off": (lambda x: (x.view(np.uint32) & 0xFFFF0000).view(np.float32).astype(bf16), "rounding=rz"),
    "s8 saturates": (lambda x: np.clip(np.rint(x), -128, 127).astype(np.int8), ""),
    "s8 is cut off": (lambda x: np.clip(np.trunc(x), -128, 127).astype(np.int8), "rounding=rz"),
    "s8 wraps": (lambda x: np.rint(x).astype(np.int64).astype(np.int8), "overflow=wrap"),
    "u8 saturates": (lambda x: np.clip(np.rint(x), 0, 255).astype(np.uint8), ""),
    "bf16 after relu": (lambda x: np.maximum(x, 0).astype(bf16), "activation=relu"),
}


@pytest.mark.parametrize("name", spread(CONVERSIONS, 6, turn(6)))
@pytest.mark.slow
def test_the_search_says_how_d_was_rounded(name):
    convert, says = CONVERSIONS[name]
    a, b = drawn(0, (24, 64), np.float16, 10), drawn(1, (64, 24), np.float16, 5)
    alpha = 100.0 if "100" in name or "e5m2" in name or "f16" in name else 1.0
    alpha = 1.0 if name.startswith("bf16") else alpha
    with np.errstate(over="ignore"):
        d = convert(multiply(Recipe(F16), a, b))
    found = whose_bits(a, b, d, alpha=alpha)
    assert found.recipes, str(found)
    assert all(says in str(each) for each in found.recipes)
    assert says or "overflow" not in str(found.recipes[0])


@pytest.mark.slow
def test_roundings_of_partial_sums_are_told_apart():
    """As cuBLASLt's OUTPUT_TYPE and as bf16 atomic additions; not as its COMPUTE_TYPE."""
    a, b = drawn(0, (16, 96), bf16), drawn(1, (96, 16), bf16)
    parts = [multiply(Recipe(BF16), a[:, k : k + 32], b[k : k + 32]) for k in (0, 32, 64)]
    p = [part.astype(bf16).astype(np.float32) for part in parts]
    made = {
        "partial=bf16 output": (p[0] + p[1] + p[2]).astype(bf16),
        "partial=bf16 total=bf16 output": ((p[0] + p[1]).astype(bf16).astype(np.float32) + p[2]).astype(bf16),
        "partial=bf16 total=bf16 output ": ((p[2] + p[1]).astype(bf16).astype(np.float32) + p[0]).astype(bf16),
        "total=bf16": ((p[0] + parts[1]).astype(bf16).astype(np.float32) + parts[2]).astype(bf16),
    }
    for says, d in made.items():
        found = whose_bits(a, b, d)
        assert any(each.splits == 3 for each in found.recipes), f"{says}: {found}"
        for each in found.recipes:
            assert (bool(each.partial), bool(each.total)) == ("partial" in says, "total" in says)


def test_c_and_a_bias_must_fit():
    one = np.ones((4, 32), np.int8)
    with pytest.raises(OperandError, match=r"C must be \(4, 4\), or a bias of \(4,\) for the columns or \(4, 1\) for"):
        multiply(Recipe(S8), one, one.T.copy(), np.ones(5))


def test_the_default_of_every_output_is_what_ptx_has():
    """fp8: only .satfinite exists; integers: .sat; the others have infinity."""
    for kind in ("f16", "bf16", "e4m3", "e5m2", "s8", "u8"):
        d = rounded(np.float64([1e300, -1e300]), "f64", kind).astype(float)
        form = lookup(kind)
        assert d.tolist() == ([np.inf, -np.inf] if kind in ("f16", "bf16") else [form.largest, form.lowest])


def fused(x, y, z):
    """x y + z of f32, rounded once: exact in f64 here, because the factors are short."""
    return (np.float64(x) * np.float64(y) + z).astype(np.float32)


def short(rng, shape):
    """Scales of 8 bits, so that their product with a sum of 24 bits, and one addition, are exact in f64."""
    return (rng.integers(128, 256, shape) * 2.0 ** rng.integers(-12, -6, shape)).astype(np.float32)


def scaled_products():
    """D and the scales of each mode, computed by numpy from the sums of blocks."""
    rng = np.random.default_rng(3)
    a, b = drawn(0, (16, 256), e4m3), drawn(1, (256, 16), e4m3)
    blocks = [multiply(Recipe(E4M3), a[:, k : k + 128], b[k : k + 128]) for k in (0, 128)]
    whole = multiply(Recipe(E4M3), a, b)
    one_a, one_b = short(rng, (2,))
    of_a, of_b = short(rng, (16, 1)), short(rng, (1, 16))
    in_a, in_b = short(rng, (16, 2)), short(rng, (2, 1))
    in_b128 = in_b * np.ones((1, 16), np.float32)
    first, second = (in_a[:, i : i + 1] * in_b128[i] for i in (0, 1))
    yield "one each", whole * (one_a * one_b), one_a, one_b, ""
    yield "outer vectors, as CUTLASS's visitor tree", of_a * (of_b * whole), of_a, of_b, "scales=b"
    yield "outer vectors, the other way", of_b * (of_a * whole), of_a, of_b, "scales=a"
    yield "DeepGEMM", fused(second, blocks[1], blocks[0] * first), in_a, in_b, "every=128"
    unfused = blocks[0] * in_a[:, :1] * in_b128[0] + blocks[1] * in_a[:, 1:] * in_b128[1]
    yield "numpy, block by block", unfused, in_a, in_b, "every=128 scales=a promotion=add"
    triton = fused(blocks[1] * in_a[:, 1:], in_b128[1], blocks[0] * in_a[:, :1] * in_b128[0])
    yield "Triton: tl.dot(a, b) * a_s * b_s", triton, in_a, in_b, "every=128 scales=a"


@pytest.mark.slow
def test_every_scale_mode_is_found(row):
    a, b = drawn(0, (16, 256), e4m3), drawn(1, (256, 16), e4m3)
    for name, d, scale_a, scale_b, says in scaled_products():
        with row(name):
            found = whose_bits(a, b, np.ascontiguousarray(d, np.float32), scale_a=scale_a, scale_b=scale_b)
            assert any(f"sm_90a {says}".strip() == str(each).partition(" ")[2] for each in found.recipes), str(found)


MX = "mma.sync.aligned.{}.block_scale.scale_vec::{}.f32.{}.f32.{}"


@pytest.mark.parametrize(
    ("kind", "opcode"),
    [
        ("mxfp8_e4m3", MX.format("m16n8k32.row.col.kind::mxf8f6f4", "1X", "e4m3.e4m3", "ue8m0")),
        ("mxfp6_e2m3", MX.format("m16n8k32.row.col.kind::mxf8f6f4", "1X", "e2m3.e2m3", "ue8m0")),
        ("mxfp4", MX.format("m16n8k64.row.col.kind::mxf4", "2X", "e2m1.e2m1", "ue8m0")),
        ("nvfp4", MX.format("m16n8k64.row.col.kind::mxf4nvf4", "4X", "e2m1.e2m1", "ue4m3")),
    ],
)
def test_a_product_with_scales_in_the_instruction_is_that_of_the_instruction(kind, opcode):
    """Against `tcemu.run`, fragment by fragment. Short factors are exact in several ways: the verdict may name more."""
    rng, depth = np.random.default_rng(0), 128
    a, of_a = microscaling.quantise(rng.standard_normal((16, depth)), kind)
    b, of_b = microscaling.quantise(rng.standard_normal((depth, 8)), kind, axis=-2)
    parsed = tcemu.parse(opcode, "sm_120a")
    fragments, step = parsed.fragments, parsed.shape.k
    shares = step * of_a.shape[1] // depth
    d = fragments["c"].pack(np.zeros((16, 8), np.float32))
    for i, k in enumerate(range(0, depth, step)):
        at = slice(i * shares, (i + 1) * shares)
        scales = [microscaling.scale_registers(s, opcode, role) for s, role in ((of_a[:, at], "a"), (of_b[at], "b"))]
        left, right = fragments["a"].pack(a[:, k : k + step]), fragments["b"].pack(b[k : k + step])
        d = tcemu.run(opcode, left, right, d, scales[0], (0, 0), scales[1], (0, 0), target="sm_120a")
    d = fragments["d"].unpack(d)
    recipe = Recipe(opcode, "sm_120a")
    assert np.array_equal(multiply(recipe, a, b, scale_a=of_a, scale_b=of_b), d)
    found = whose_bits(a, b, d, scale_a=of_a, scale_b=of_b)
    assert recipe in [*found.recipes, *found.others]
    with pytest.raises(OperandError, match="this instruction takes a scale for each"):
        multiply(recipe, a, b, scale_a=np.ones((16, 2)))


def test_scales_that_fit_nothing_say_what_would():
    one = np.ones((4, 256), e4m3)
    with pytest.raises(OperandError, match=r"such as \(4, 2\) and \(2, 1\); got shapes \(3, 2\) of A and \(\) of B"):
        multiply(Recipe(E4M3, every=128), one, one.T, scale_a=np.ones((3, 2)))
    with pytest.raises(OperandError, match=r"scales change every 128 k, .* such as every=128"):
        multiply(Recipe(E4M3), one, one.T, scale_a=np.ones((4, 2)))


def test_a_bias_beside_c_is_added_first_where_cs_product_is_fused():
    """CUTLASS: fma(beta, C, fma(alpha, sums, bias)); else the bias comes last."""
    a = np.ones((1, 16), np.float16)
    c, bias = np.full((1, 1), 1 / 3, np.float32), np.float32([2.0**-20])
    one, both = np.float32(16), {"bias": bias, "alpha": 0.1, "beta": 0.7}
    alpha, beta = np.float64(np.float32(0.1)), np.float64(np.float32(0.7))
    inner = np.float32(alpha * one + bias)
    assert multiply(Recipe(F16), a, a.T, c, **both) == np.float32(beta * c + inner)
    plain = np.float32(np.float32(alpha) * one + np.float32(beta) * c) + bias
    assert multiply(Recipe(F16, fused="none"), a, a.T, c, **both) == plain


@pytest.mark.slow
def test_few_elements_or_narrow_ones_are_no_proof():
    """Of a true recipe: one element, many of a narrow type, and many of a wide one."""
    a, b = drawn(0, (32, 64), bf16), drawn(1, (64, 32), bf16)
    wide, narrow = multiply(Recipe(BF16), a, b), multiply(Recipe(BF16, output="bf16"), a, b)
    assert whose_bits(a, b, wide).certain
    for found in (whose_bits(a[:2], b[:, :2], narrow[:2, :2]), whose_bits(a[:1], b[:, :1], wide[:1, :1])):
        assert found.exact
        assert not found.certain
        assert "undecided" in str(found).lower()


@pytest.mark.slow
def test_a_wrong_recipe_is_not_called_certain():
    """Bits of nobody, exact sums rounded to a narrow type: some recipe gives them all, and the verdict knows better."""
    for seed in range(2):
        a, b = drawn(seed, (6, 48), bf16), drawn(seed + 9, (48, 6), bf16)
        found = whose_bits(a, b, (a.astype(float) @ b.astype(float)).astype(bf16))
        assert not found.certain, str(found)


def test_zeros_prove_nothing():
    a = drawn(0, (8, 64), np.int8, 30)
    found = whose_bits(a, a.T, np.zeros((8, 8), np.int8), alpha=1e-9)
    assert found.exact
    assert not found.certain


def tf32x3():
    """f32 from two tf32 parts, both by cvt.rna, in numpy: (a + 0x1000) without the low 13 bits."""
    a, b = drawn(0, (16, 96), np.float32), drawn(1, (96, 16), np.float32)

    def parts(x):
        big = ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)
        small = x - big
        return big, ((small.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)

    def dot(x, y, c=None):
        return tcemu.matmul(x, y, c, instruction=TF32, target="sm_90a")

    (a0, a1), (b0, b1) = parts(a), parts(b)
    yield "chained along all of k", a, b, dot(a0, b0, dot(a0, b1, dot(a1, b0)))
    yield "large parts first", a, b, dot(a1, b0, dot(a0, b1, dot(a0, b0)))
    yield "three products", a, b, dot(a1, b0) + dot(a0, b1) + dot(a0, b0)
    for tile in (8, 32):
        chained, fresh = None, np.zeros((16, 16), np.float32)
        for k in range(0, 96, tile):
            at = slice(k, k + tile)
            chained = dot(a0[:, at], b0[at], dot(a0[:, at], b1[at], dot(a1[:, at], b0[at], chained)))
            fresh = fresh + dot(a0[:, at], b0[at], dot(a0[:, at], b1[at], dot(a1[:, at], b0[at])))
        yield f"tiles of {tile}", a, b, chained
        yield f"tiles of {tile} from zero", a, b, fresh


@pytest.mark.slow
def test_tf32x3_with_both_parts_by_cvt_rna_is_found(row):
    for name, a, b, d in tf32x3():
        with row(name):
            found = whose_bits(a, b, d)
            assert found.recipes, str(found)
            assert all(each.inputs.startswith("tf32") for each in found.recipes)


def test_integers_are_scaled_as_cublaslt_scales_them_on_an_h100():
    """Recorded: tests/golden/README.md says how."""
    with np.load(ROOT / "tests" / "golden" / "sm_90a-int8-scales.npz") as held:
        recorded = dict(held)
    for number in range(4):
        alpha, beta = map(float, recorded[f"scales{number}"])
        c = recorded.get(f"c{number}")
        more = {} if c is None else {"c": c, "beta": beta}
        d = multiply(Recipe(S8, output="s8"), recorded["a"], recorded["b"], alpha=alpha, **more)
        assert np.array_equal(d, recorded[f"d{number}"])
