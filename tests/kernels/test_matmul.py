"""Whole products by the compiled kernels against plain Python integers, written here from the rules alone."""

from fractions import Fraction
from functools import cache
from itertools import product as product_of
from math import inf, isnan

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published import published
from quick import examples, some

matrix = pytest.importorskip("tcemu.kernels.matrix", reason="numba is not installed", exc_type=ImportError)
chains, f64, integers = (pytest.importorskip(f"tcemu.kernels.{name}") for name in ("chains", "f64", "integers"))

binary64 = pytest.importorskip("binary64")

# exponent bits, mantissa bits, bias, padding, infinities, NaN kind; and the container
FORMATS = {
    "f16": (5, 10, 15, 0, 1, 1),
    "bf16": (8, 7, 127, 0, 1, 1),
    "tf32": (8, 10, 127, 13, 1, 1),
    "e5m2": (5, 2, 15, 0, 1, 1),
    "e4m3": (4, 3, 7, 0, 0, 2),
    "e3m2": (3, 2, 3, 0, 0, 0),
    "e2m3": (2, 3, 1, 0, 0, 0),
    "e2m1": (2, 1, 1, 0, 0, 0),
    "f32": (8, 23, 127, 0, 1, 1),
}
STORAGE = {"f16": np.uint16, "bf16": np.uint16, "tf32": np.uint32, "f32": np.uint32}


def chained(depth, block):
    return [list(range(start, min(start + block, depth))) for start in range(0, depth, block)]


def paired(depth):
    return [[k for k in range(depth) if k % 4 < 2], [k for k in range(depth) if k % 4 >= 2]]


def rule(a, b, acc, sums, fraction, floor, keep=None, join=False):
    return {
        "a": a, "b": b, "acc": acc, "sums": sums, "fraction": fraction, "floor": floor, "join": join,
        "keep": keep or FORMATS[acc][1],
    }  # fmt: skip


RULES = {
    "sm_70 f16": rule("f16", "f16", "f32", chained(4, 4), 23, None),
    "sm_70 f16 into f16": rule("f16", "f16", "f16", chained(4, 4), 23, -19),
    "sm_80 f16 k16": rule("f16", "f16", "f32", chained(16, 8), 24, -132),
    "sm_80 f16 into f16": rule("f16", "f16", "f16", chained(16, 8), 24, -20),
    "sm_80 bf16": rule("bf16", "bf16", "f32", chained(16, 8), 24, -132),
    "sm_80 tf32": rule("tf32", "tf32", "f32", chained(8, 4), 24, -132),
    "sm_89 e4m3 e5m2": rule("e4m3", "e5m2", "f32", chained(32, 16), 13, None, keep=13),
    "sm_89 e5m2 into f16": rule("e5m2", "e5m2", "f16", chained(32, 16), 13, None),
    "sm_90 f16": rule("f16", "f16", "f32", chained(16, 16), 25, -133),
    "sm_90 f16 k8": rule("f16", "f16", "f32", chained(8, 16), 25, -133),
    "sm_90 f16 into f16": rule("f16", "f16", "f16", chained(16, 16), 25, -21),
    "sm_90 bf16": rule("bf16", "bf16", "f32", chained(16, 16), 25, -133),
    "sm_90 tf32": rule("tf32", "tf32", "f32", chained(8, 8), 25, -133),
    "sm_90 tf32 k4": rule("tf32", "tf32", "f32", chained(4, 4), 25, -133),
    "sm_90 fp8": rule("f16", "f16", "f32", paired(32), 25, -133, join=True),
    "sm_90 fp8 into f16": rule("f16", "f16", "f16", paired(16), 25, -21, join=True),
    "sm_90 e4m3": rule("e4m3", "e4m3", "f32", chained(32, 16), 25, -133),
    "sm_90 e5m2 wgmma": rule("e5m2", "e4m3", "f32", chained(32, 32), 13, None, keep=13),
    "sm_120 e4m3 e2m1": rule("e4m3", "e2m1", "f32", chained(32, 32), 25, -133),
    "sm_120 e3m2 e2m3 into f16": rule("e3m2", "e2m3", "f16", chained(32, 32), 25, -21),
    "odd": rule("f16", "bf16", "f32", [[4, 0, 2], [1], [3, 5, 6, 7, 8]], 25, -133),
    "f16 32 at once": rule("f16", "f16", "f32", chained(32, 32), 25, -133),
}


# ------------------------------------------------------------------------------------------------------- the reference


@cache
def value(pattern, name):
    """(significand, exponent of its last bit, exponent) of a finite number, else nan or +-inf as a float."""
    exponent, mantissa, bias, padding, infinities, nan = FORMATS[name]
    code = pattern >> padding
    low, field = code % 2**mantissa, code >> mantissa & 2**exponent - 1
    sign = -1 if code >> exponent + mantissa & 1 else 1
    if field == 2**exponent - 1:
        if nan == 1 and low:
            return float("nan")
        if infinities and not low:
            return sign * inf
        if nan == 2 and low == 2**mantissa - 1:
            return float("nan")
    power = max(field, 1) - bias
    return sign * (low + (field > 0) * 2**mantissa), power - mantissa, power


def moved(number, places):
    """number * 2^places, toward zero."""
    size = abs(number) << places if places >= 0 else abs(number) >> -places
    return -size if number < 0 else size


def encode(number, last, acc, keep, nearest):
    """The pattern of number * 2^last, rounded to `keep` fraction bits."""
    exponent, mantissa, bias, *_ = FORMATS[acc]
    power = max(abs(number).bit_length() - 1 + last, 1 - bias)
    shift = last - power + keep
    # Python rounds a Fraction half to even
    steps = round(abs(number) * Fraction(2) ** shift) if nearest else abs(moved(number, shift))
    code = (power + bias - 1) * 2**mantissa + steps * 2 ** (mantissa - keep)
    code = min(code, (2**exponent - 1) << mantissa)
    return code | (number < 0) << exponent + mantissa if code else 0


def infinite(sign, acc):
    exponent, mantissa, *_ = FORMATS[acc]
    return (2**exponent - 1) << mantissa | (sign < 0) << exponent + mantissa


def fused_sum(c, pairs, one):
    """One fused sum: pattern c plus the products of pairs of patterns."""
    acc, fraction = one["acc"], one["fraction"]
    nan = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}[acc]
    infinities, terms = set(), []
    addend = value(c, acc)
    if isinstance(addend, float):
        if isnan(addend):
            return nan
        infinities.add(addend)
    elif addend[0]:
        terms.append(addend)
    for pattern_a, pattern_b in pairs:
        x, y = value(pattern_a, one["a"]), value(pattern_b, one["b"])
        if isinstance(x, float) or isinstance(y, float):
            sizes = [z if isinstance(z, float) else float(z[0]) for z in (x, y)]
            if any(isnan(z) for z in sizes) or 0 in sizes:
                return nan
            infinities.add(inf if (sizes[0] > 0) == (sizes[1] > 0) else -inf)
        elif x[0] and y[0]:
            terms.append((x[0] * y[0], x[1] + y[1], x[2] + y[2]))
    if len(infinities) == 2:
        return nan
    if infinities:
        return infinite(infinities.pop(), acc)
    if not terms:
        return 0
    largest = max(power for _, _, power in terms)
    if one["floor"] is not None:
        largest = max(largest, one["floor"])
    total = sum(moved(significand, last - largest + fraction) for significand, last, _ in terms)
    return encode(total, largest - fraction, acc, one["keep"], acc == "f16") if total else 0


def add(x, y, acc):
    """The ordinary sum of two patterns, to nearest even, with the one NaN."""
    nan = {"f32": 0x7FFFFFFF, "f16": 0x7FFF}[acc]
    a, b = value(x, acc), value(y, acc)
    if isinstance(a, float) or isinstance(b, float):
        sizes = [z if isinstance(z, float) else 0.0 for z in (a, b)]
        total = sizes[0] + sizes[1]
        return nan if isnan(total) else infinite(total, acc)
    last = min(a[1], b[1])
    total = sum(moved(significand, bit - last) for significand, bit, _ in (a, b))
    return encode(total, last, acc, FORMATS[acc][1], True) if total else 0


def product(a, b, c, one):
    depth = sum(map(len, one["sums"]))
    d = np.empty_like(c)
    a, b = a.tolist(), b.T.tolist()
    for m, n in np.ndindex(c.shape):
        running = int(c[m, n])
        for start in range(0, len(a[m]), depth):
            kept, running = running, 0 if one["join"] else running
            for ks in one["sums"]:
                running = fused_sum(running, [(a[m][start + k], b[n][start + k]) for k in ks], one)
            running = add(running, kept, one["acc"]) if one["join"] else running
        d[m, n] = running
    return d


def run(a, b, c, one, **more):
    return matrix.multiply(
        a, b, c, format_a=FORMATS[one["a"]], format_b=FORMATS[one["b"]],
        **{key: one[key] for key in ("sums", "fraction", "floor", "keep", "join")}, **more,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- the inputs


CLASSES = ("near", "middle", "wide", "small", "edge", "cancel", "largest", "bits", "sprinkled", "rare")


def draw(rng, name, kind, shape):
    """Patterns of a class of inputs."""
    exponent, mantissa, bias, padding, *_ = FORMATS[name]
    top = 2**exponent - 2
    low, high = {
        "near": (bias - 2, bias + 2),
        "middle": (bias - 14, bias + 14),
        "wide": (0, top),
        "small": (0, 2),
        # products around the floors of E: -133 for f32, -21 for f16
        "edge": (bias - 80, bias - 58) if exponent == 8 and name != "f32" else (0, 12),
        "cancel": (bias - 13, bias + 3),
        "largest": (top - 1, top),
    }.get(kind, (bias - 6, bias + 6))
    if kind == "bits":
        return rng.integers(0, 1 << (1 + exponent + mantissa + padding), shape, dtype=np.uint64).astype(
            STORAGE.get(name, np.uint8)
        )
    field = rng.integers(max(low, 0), min(high, top) + 1, shape)
    code = field << mantissa | rng.integers(0, 1 << mantissa, shape)
    if kind == "largest":
        code |= (1 << mantissa) - 1 - rng.integers(0, 2, shape)
    code = code | rng.integers(0, 2, shape) << exponent + mantissa
    zeros = rng.random(shape) < (0.3 if kind in ("edge", "sprinkled") else 0.03)
    code = np.where(zeros, code & 1 << exponent + mantissa, code)
    if kind in ("sprinkled", "rare"):
        special = np.array(
            [(top + 1) << mantissa, (top + 1) << mantissa | 1, (top + 2 << mantissa) - 1, 1, top << mantissa]
        )
        chosen = rng.choice(special, shape) | rng.integers(0, 2, shape) << exponent + mantissa
        code = np.where(rng.random(shape) < (0.03 if kind == "sprinkled" else 0.002), chosen, code)
    noise = rng.integers(0, 1 << padding, shape) if padding else 0
    return (code << padding | noise).astype(STORAGE.get(name, np.uint8))


def operands(rng, one, kind, m, n, steps):
    k = steps * sum(map(len, one["sums"]))
    a, b = draw(rng, one["a"], kind, (m, k)), draw(rng, one["b"], kind, (k, n))
    if kind == "cancel" and k > 1:  # neighbours along k cancel, some but for their last bit
        sign = np.array(1 << sum(FORMATS[one["a"]][i] for i in (0, 1, 3)), a.dtype)
        half = k // 2 * 2
        a[:, 1:half:2] = a[:, 0:half:2] ^ sign
        b[1:half:2] = b[0:half:2] ^ (rng.random((half // 2, n)) < 0.1).astype(b.dtype)
    c = draw(rng, one["acc"], kind, (m, n))
    return a, b, c


def assert_same(got, want):
    assert got.dtype == want.dtype
    wrong = np.argwhere(got != want)
    if wrong.size:
        first = tuple(wrong[0])
        pytest.fail(f"{len(wrong)} of {got.size} differ, first {first}: {got[first]:#x}, not {want[first]:#x}")


# ------------------------------------------------------------------------------------------------------------ the tests


@pytest.mark.parametrize("name", some(RULES, 7))
def test_fused_sums_are_those_of_plain_integers(row, name):
    one = RULES[name]
    for kind in CLASSES:
        rng = np.random.default_rng([CLASSES.index(kind), list(RULES).index(name)])
        with row(kind):
            for m, n, steps in ((1, 1, 1), (3, 7, 2), (2, 66, 1)):
                a, b, c = operands(rng, one, kind, m, n, steps)
                want = product(a, b, c, one)
                assert_same(run(a, b, c, one), want)
                assert_same(run(a, b, c, one, fast=False), want)


@pytest.mark.parametrize("kind", some(CLASSES, 4))
def test_the_fast_way_equals_the_plain_one(row, kind):
    for name, one in RULES.items():
        rng = np.random.default_rng([7, CLASSES.index(kind), list(RULES).index(name)])
        with row(name):
            a, b, c = operands(rng, one, kind, 33, 130, 6)
            assert_same(run(a, b, c, one), run(a, b, c, one, fast=False))


@pytest.mark.parametrize("name", ["sm_90 f16", "sm_80 tf32", "sm_90 fp8", "sm_120 e4m3 e2m1"])
@pytest.mark.parametrize("shape", some([(257, 261, 5), (1, 513, 40), (300, 1, 40), (520, 300, 2)], 1))
def test_tiles_threads_and_depths_change_nothing(name, shape):
    one = RULES[name]
    a, b, c = operands(np.random.default_rng(shape), one, "rare", *shape)
    want = run(a, b, c, one, fast=False, threads=1)
    assert_same(run(a, b, c, one), want)
    assert_same(run(a, b, c, one, threads=3), want)
    assert_same(run(np.asfortranarray(a), b[::1, ::-1], c[:, ::-1], one)[:, ::-1], want)


@given(data=st.data())
@examples(150)
@pytest.mark.slow
def test_any_rule_and_any_bits(data):
    narrow = st.sampled_from(["f16", "bf16", "tf32", "e5m2", "e4m3", "e3m2", "e2m3", "e2m1"])
    acc = data.draw(st.sampled_from(["f16", "f32"]))
    fraction = data.draw(st.integers(13, 27))
    ks = data.draw(st.permutations(range(data.draw(st.integers(1, 12)))))
    cut = data.draw(st.integers(0, len(ks)))
    one = rule(
        data.draw(narrow), data.draw(narrow), acc, [part for part in (ks[:cut], ks[cut:]) if part], fraction,
        data.draw(st.sampled_from([None, -133, -132, -21, -19, -3, 0, 5])),
        keep=data.draw(st.integers(4, FORMATS[acc][1])) if acc == "f32" else None, join=data.draw(st.booleans()),
    )  # fmt: skip
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    kind = data.draw(st.sampled_from(CLASSES))
    a, b, c = operands(
        rng, one, kind, data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    )
    assert_same(run(a, b, c, one), product(a, b, c, one))


def test_accumulators_far_above_below_and_beside_the_products():
    """E may come from c, from the products, from the floor; c may be any pattern of its exponents."""
    for name in ("sm_90 f16", "sm_90 f16 into f16", "sm_70 f16", "sm_89 e4m3 e5m2", "sm_90 tf32"):
        one = RULES[name]
        rng = np.random.default_rng(3)
        exponent, mantissa, *_ = FORMATS[one["acc"]]
        every = np.repeat(np.arange(2 ** (exponent + 1)) << mantissa, 3).reshape(1, -1)
        every |= rng.integers(0, 2**mantissa, every.shape)
        a, b, _ = operands(rng, one, "near", 1, every.size, 1)
        a[:, 1:] = np.where(rng.random(a[:, 1:].shape) < 0.5, 0, a[:, 1:])
        b[:, ::5] = 0
        c = every.astype(STORAGE[one["acc"]])
        assert_same(run(a, b, c, one), product(a, b, c, one))


def test_zeros_beside_accumulators_of_every_exponent():
    """Zeros take part in sums in which all products are far below c, for windows of elements that begin anywhere."""
    for name, top in product_of(("sm_90 bf16", "sm_80 tf32", "sm_90 f16"), (-3, -2, -1, 0, 1, 2, 12)):
        one, rng = RULES[name], np.random.default_rng(5)
        _, mantissa, bias, padding, *_ = FORMATS[one["a"]]
        depth, c = sum(map(len, one["sums"])), (np.arange(255) << 23 | 0x4C097E).astype(np.uint32).reshape(1, -1)
        ones = np.full((1, depth), (bias + top) << mantissa + padding).astype(STORAGE[one["a"]])
        a, b = ones.copy(), np.repeat(ones.T, c.size, axis=1)
        a[0, 1::2], b[0, ::3], b[2, rng.random(c.size) < 0.5] = 0, 0, 0
        assert_same(run(a, b, c, one), product(a, b, c, one))


def test_a_subnormal_that_loses_its_last_bit_loses_its_sign():
    one = RULES["sm_89 e4m3 e5m2"]
    c = np.array([[0x80000001, 0x800003FF, 0x80000400]], np.uint32)
    zeros = np.zeros((1, 32), np.uint8), np.zeros((32, 3), np.uint8)
    for fast in (True, False):
        assert run(*zeros, c, one, fast=fast).tolist() == [[0, 0, 0x80000400]]


def test_every_sum_of_large_terms_of_one_sign():
    """Sixteen products near 4 * 2^E and c beside them are more than 31 bits, those of e4m3 almost as many."""
    for name in ("sm_90 f16", "sm_90 f16 into f16", "sm_90 e4m3", "sm_120 e4m3 e2m1", "f16 32 at once"):
        one = RULES[name]
        depth = sum(map(len, one["sums"]))
        for fmt in ("a", "b"):
            assert one[fmt] in FORMATS
        ones = [FORMATS[one[f]][2] << FORMATS[one[f]][1] | 2 ** FORMATS[one[f]][1] - 1 for f in "ab"]
        signs = [1 << FORMATS[one[f]][0] + FORMATS[one[f]][1] for f in "ab"]
        a = np.full((2, depth), ones[0]).astype(STORAGE.get(one["a"], np.uint8))
        a[1] |= np.array(signs[0], a.dtype)
        b = np.full((depth, 3), ones[1]).astype(STORAGE.get(one["b"], np.uint8))
        exponent, mantissa, bias, *_ = FORMATS[one["acc"]]
        c = np.array([(bias + 1 << mantissa) - 1, 0, (bias + 1 << mantissa) - 1 | 1 << exponent + mantissa])
        c = np.tile(c, (2, 1)).astype(STORAGE[one["acc"]])
        assert_same(run(a, b, c, one), product(a, b, c, one))


def test_sums_just_below_and_above_31_bits_beside_ordinary_ones():
    """Sixteen of the largest products leave 2,096,640 places of 2^-25 to 2^31; c takes some more or less than these."""
    one, past = RULES["sm_90 f16"], np.arange(-4, 5)
    largest = np.full((4, 16), 0x3FFF, np.uint16)
    largest[1], largest[2, 15], largest[3, 15] = 0xBFFF, 0x3C00, 0
    c = np.concatenate([(2096640 + past) * 2.0**-25, -(2096640 + past) * 2.0**-25, [1.9, -1.9, 2.0**-30, 0]])
    b = np.full((16, c.size), 0x3FFF, np.uint16)
    b[:, ::5] = draw(np.random.default_rng(1), "f16", "near", b[:, ::5].shape)
    c = np.tile(c.astype(np.float32).view(np.uint32), (4, 1))
    assert_same(run(largest, b, c, one), product(largest, b, c, one))
    # the opposite products, and sums of few products that leave more room
    for rule_of in (one, RULES["sm_90 f16 k8"], RULES["sm_80 f16 k16"]):
        assert_same(run(largest ^ 0x8000, b, c, rule_of), product(largest ^ 0x8000, b, c, rule_of))


@pytest.mark.parametrize("name", ["sm_90 bf16", "sm_80 tf32", "sm_90 tf32"])
def test_sums_of_products_of_every_size(row, name):
    """Products far apart around every power of two, and accumulators beside them, of any size, or subnormal."""
    one, rng = RULES[name], np.random.default_rng(8)
    depth, (_, mantissa, bias, padding, *_) = sum(map(len, one["sums"])), FORMATS[one["a"]]
    for power in range(-150, 135, 6):
        own = int(rng.integers(-100, 100))  # about the power of two of A's elements
        fields = own + rng.integers(-9, 9, (16, 2 * depth)), power - own + rng.integers(-9, 9, (2 * depth, 48))
        a, b = (
            draw(rng, one[role], "wide", field.shape).astype(np.int64) & ~(255 << mantissa + padding)
            | np.clip(field + bias, 0, 254) << mantissa + padding
            for role, field in zip("ab", fields, strict=True)
        )
        a, b = a.astype(STORAGE[one["a"]]), b.astype(STORAGE[one["b"]])
        c = draw(rng, "f32", "bits", (16, 48)) & 0x807FFFFF
        c |= np.clip(power + 127 + rng.integers(-30, 30, c.shape), 0, 255).astype(np.uint32) << 23
        c[:, ::3] = draw(rng, "f32", "bits", c[:, ::3].shape)
        c[:, 1::3] &= 0x807FFFFF
        with row(power):
            assert_same(run(a, b, c, one), run(a, b, c, one, fast=False))


@pytest.mark.parametrize("name", ["sm_90 bf16", "sm_80 tf32", "sm_90 tf32"])
def test_subnormal_accumulators_beside_products_of_one_size(row, name):
    """What stays of them, from where all their bits do to where they vanish."""
    one, rng = RULES[name], np.random.default_rng(9)
    depth, (_, mantissa, bias, padding, *_) = sum(map(len, one["sums"])), FORMATS[one["a"]]
    c = np.concatenate([1 << np.arange(23), rng.integers(1, 1 << 24, 41), rng.integers(1, 1 << 10, 16)])
    c = np.stack([c, c | 1 << 31, c ^ 5, c[::-1]]).astype(np.uint32)  # whole blocks, without zeros
    for power in range(-140, -90):
        a, b = (
            np.full(shape, (bias + part) << mantissa + padding, STORAGE[one["a"]])
            for shape, part in (((4, depth), -60), ((depth, c.shape[1]), power + 60))
        )
        a[:, 1::2] |= 1 << 8 + mantissa + padding  # the products cancel
        with row(power):
            assert_same(run(a, b, c, one), run(a, b, c, one, fast=False))


def as_f16(values):
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float16).view(np.uint16)


@pytest.mark.parametrize("fraction", [23, 24, 25])
@pytest.mark.parametrize("block", [4, 16, 32])
def test_sums_of_small_formats_as_long_as_float32_and_longer(row, fraction, block):
    """Elements of four bits, from sums that lose nothing to sums that lose much; the plain rule reads them as f16."""
    depth, rng = 32, np.random.default_rng([fraction, block])
    one = rule("f16", "f16", "f32", chained(depth, block), fraction, -108 - fraction, join=True)
    c = draw(rng, "f32", "rare", (20, 40))
    c[:, ::2] = 0
    c[:, 1::8] = rng.standard_normal(c[:, 1::8].shape).astype(np.float32).view(np.uint32)
    for name, dtype in (("e4m3", ml_dtypes.float8_e4m3fn), ("e2m3", ml_dtypes.float6_e2m3fn)):
        for size in (2.0**-8, 0.5, 1, 1.25, 1.5, 1.75, 2, 4, 60):
            a, b = (rng.standard_normal(shape) * size for shape in ((20, 2 * depth), (2 * depth, 40)))
            # some rows and columns of one value, whose sum is their bound, and some last bits beside them
            a[::4], b[:, ::3] = size, rng.choice([1, 1.5, 1.75, 1.875], b[:, ::3].shape[1]) * size
            a[:, ::depth], b[::depth] = 2.0**-9, 2.0**-9 * rng.choice([-1, 1], b[::depth].shape)
            with np.errstate(invalid="ignore"):
                a, b = a.astype(dtype), b.astype(dtype)
            with row((name, size)):
                got = matrix.multiply(
                    a.view(np.uint8), b.view(np.uint8), c, format_a=FORMATS[name], format_b=FORMATS[name],
                    normal=(True, True), **{key: one[key] for key in ("sums", "fraction", "floor", "keep", "join")},
                )  # fmt: skip
                assert_same(got, run(as_f16(a), as_f16(b), c, one, fast=False))


def test_without_products_c_comes_back():
    one = RULES["sm_90 f16"]
    c = np.array([[0x80000000, 0x7FC00001]], np.uint32)
    assert_same(run(np.empty((1, 0), np.uint16), np.empty((0, 2), np.uint16), c, one), c)
    assert run(np.empty((0, 16), np.uint16), np.empty((16, 2), np.uint16), c[:0], one).shape == (0, 2)


@pytest.mark.parametrize("signed", [(np.int8, np.int8), (np.uint8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)])
def test_integers(row, signed):
    for shape, step in product_of([(1, 1, 1), (3, 300, 5), (260, 9, 40)], [16, 32, 64, 3]):
        for saturate in (False, True):
            with row(f"{shape} in steps of {step}, saturate={saturate}"):
                check_integers(signed, saturate, shape, step)


def check_integers(signed, saturate, shape, step):
    rng = np.random.default_rng([*shape, step])
    m, n, steps = shape
    a, b = (
        rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, size).astype(kind)
        for kind, size in zip(signed, ((m, steps * step), (steps * step, n)), strict=True)
    )
    a[0], b[:, 0] = np.iinfo(signed[0]).max, np.iinfo(signed[1]).max
    c = rng.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    c[0], c[-1, -1] = 2**31 - 1 - rng.integers(0, 2**20, n), -(2**31) + 5
    want = c.astype(np.int64)
    for k in range(0, steps * step, step):
        want += a[:, k : k + step].astype(np.int64) @ b[k : k + step].astype(np.int64)
        want = np.clip(want, -(2**31), 2**31 - 1) if saturate else want
    assert_same(integers.multiply(a, b, c, step=step, saturate=saturate), want.astype(np.int32))


@pytest.mark.parametrize("xor", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 4), (5, 300, 8), (300, 70, 33)])
def test_bits(xor, shape):
    m, n, words = shape
    rng = np.random.default_rng(shape)
    a, b = (rng.integers(0, 2**32, size, dtype=np.uint64).astype(np.uint32) for size in ((m, words), (words, n)))
    c = rng.integers(-(2**31), 2**31, (m, n)).astype(np.int32)
    c[0] = 2**31 - 1
    both = a[:, :, None] ^ b if xor else a[:, :, None] & b
    want = (c.astype(np.int64) + np.bitwise_count(both).sum(axis=1, dtype=np.int64)).astype(np.int32)
    assert_same(integers.multiply_bits(a, b, c, xor=xor), want)


@pytest.mark.parametrize("mode", range(4))
def test_f64_chains(mode):
    rng = np.random.default_rng(mode)
    near = rng.standard_normal((2, 40, 40)).view(np.uint64)
    anything = rng.integers(0, 2**64, (2, 40, 40), dtype=np.uint64)
    sprinkled = np.where(rng.random(near.shape) < 0.002, anything | np.uint64(0x7FF << 52), near)
    for a, b in (near, anything, sprinkled):
        c = np.where(rng.random((40, 40)) < 0.1, anything[0], near[1])
        c[0], c[1] = np.uint64(1 << 63), np.uint64(0x7FF0000000000001)
        a[0] = 0
        want = np.empty_like(c)
        binary64.chain64(a[None], b[None], c[None], want[None], mode)
        assert_same(f64.multiply(a, b, c, mode=mode), want)


@pytest.mark.parametrize("mode", range(4))
def test_f64_specials_in_long_chains(mode):
    """Several chunks, and so few NaN and infinities that each of them decides some outputs."""
    rng = np.random.default_rng(64 + mode)
    nan = np.uint64(0x7FF << 52) | rng.integers(0, 2**64, 1000, dtype=np.uint64)
    infinity = np.array([0x7FF << 52, 0xFFF << 52], np.uint64)
    for many_nan, many_infinite, many_zeros in ((1e-3, 0, 0), (0, 2e-3, 0.2), (5e-4, 5e-4, 0.1), (0.2, 0.1, 0.1)):
        operands = []
        for shape in ((24, 600), (600, 20), (24, 20)):
            x = rng.standard_normal(shape).view(np.uint64)
            x[rng.random(shape) < many_zeros] = 0
            for special, share in ((infinity, many_infinite), (nan, many_nan)):
                where = rng.random(shape) < share
                x[where] = rng.choice(special, where.sum())
            operands.append(x)
        a, b, c = operands
        want = np.empty_like(c)
        binary64.chain64(a[None], b[None], c[None], want[None], mode)
        assert_same(f64.multiply(a, b, c, mode=mode), want)


@pytest.mark.parametrize("kind", ["all", "half", "tiny", "cancel", "vanish", "with NaN"])
@pytest.mark.parametrize("mode", range(4))
def test_f64_with_subnormal_numbers(kind, mode):
    rng = np.random.default_rng(len(kind))
    operands = []
    for shape in ((37, 600), (600, 43), (37, 43)):
        x = rng.standard_normal(shape)
        if kind == "tiny":  # products and sums around the smallest normal number
            x *= 2.0 ** (rng.integers(-520, -504, shape) if shape != (37, 43) else rng.integers(-1040, -1010, shape))
        if kind == "cancel":
            x = rng.integers(-4, 5, shape) * 2.0 ** (-536 if shape != (37, 43) else -1072)
        x = x.view(np.uint64)
        subnormal = rng.integers(0, 1 << 52, shape, dtype=np.uint64) >> rng.integers(0, 52, shape).astype(np.uint64)
        subnormal |= rng.integers(0, 2, shape).astype(np.uint64) << np.uint64(63)
        share = {"all": 1, "half": 0.5, "vanish": 1, "with NaN": 0.1}.get(kind, 0.01)
        x = np.where(rng.random(shape) < share, subnormal, x)
        operands.append(np.where(rng.random(shape) < 1e-3, np.uint64(0x7FF4 << 48), x) if kind == "with NaN" else x)
    a, b, c = operands
    if kind == "vanish":
        c = np.where(rng.random(c.shape) < 0.5, c & np.uint64(1 << 63), c)
    want = np.empty_like(c)
    binary64.chain64(a[None], b[None], c[None], want[None], mode)
    assert_same(f64.multiply(a, b, c, mode=mode), want)


def test_f64_is_compiled_once_whatever_integers_the_places_are():
    places = (
        np.arange(4 * 8).reshape(4, 8),
        np.arange(8 * 8).reshape(8, 8),
        np.arange(4 * 8).reshape(4, 8),
        np.arange(32),
    )
    kinds = set()
    for integers_of in (np.int32, np.int64):
        chains_of = f64.Chains((4, 8, 8), 0, *(each.astype(integers_of) for each in places))
        kinds.add(tuple(each.dtype for each in chains_of._indices))
    assert len(kinds) == 1


def test_f64_takes_matrices_in_any_order_of_memory():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(shape).view(np.uint64) for shape in ((14, 64), (64, 15), (14, 15)))
    want = f64.multiply(a, b, c)
    for order in (np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2], lambda x: np.flip(np.flip(x).copy())):
        for operands in ((order(a), b, c), (a, order(b), c), (a, b, order(c))):
            assert_same(f64.multiply(*operands), want)


def test_f64_rounds_once():
    a, b = np.array([[1 + 2.0**-30, 3.0]]), np.array([[1 + 2.0**-30], [2.0**-60]])
    got = f64.multiply(a.view(np.uint64), b.view(np.uint64), np.array([[-1.0]]).view(np.uint64))
    exact = float(Fraction(a[0, 0]) ** 2 - 1)
    assert got.view(np.float64)[0, 0] == float(Fraction(exact) + 3 * Fraction(2) ** -60)


def test_what_is_refused():
    f16, c = np.zeros((2, 16), np.uint16), np.zeros((2, 2), np.uint32)
    one = RULES["sm_90 f16"]
    with pytest.raises(ValueError, match="shapes"):
        run(f16, f16, c, one)
    with pytest.raises(ValueError, match="instructions of 16 products"):
        run(f16[:, :8], f16.T[:8], c, one)
    with pytest.raises(ValueError, match="at most 32"):
        run(np.zeros((2, 64), np.uint16), np.zeros((64, 2), np.uint16), c, {**one, "sums": chained(64, 64)})
    with pytest.raises(ValueError, match="23 fraction bits in results of 16"):
        run(f16, f16.T, c.astype(np.uint16), one)
    with pytest.raises(ValueError, match="uint32 or uint16"):
        run(f16, f16.T, c.view(np.float32), one)


# --------------------------------------------------------------------------------------------------- published outputs

SM_80 = {
    "fp16|fp32": "sm_80 f16 k8",
    "fp16|fp16": "sm_80 f16 k8 into f16",
    "bf16|fp32": "sm_80 bf16 k8",
    "tf32|fp32": "sm_80 tf32 k4",
}
SM_90 = {
    "fp16|fp32": "sm_90 f16",
    "fp16|fp16": "sm_90 f16 into f16",
    "bf16|fp32": "sm_90 bf16",
    "tf32|fp32": "sm_90 tf32 k4",
}
FP8 = ("E4M3|fp32", "E4M3|fp16", "E5M2|fp32", "E5M2|fp16")
GPUS = {
    "V100": {"fp16|fp32": "sm_70 f16", "fp16|fp16": "sm_70 f16 into f16"},
    "A100": SM_80,
    "A2": SM_80,
    "Ada": SM_80 | dict.fromkeys(FP8, "native"),
    "L40S": SM_80 | {"E4M3|fp32": "native", "E5M2|fp32": "native"},
    "H100": SM_90 | {"E4M3|fp16": "lowered", "E5M2|fp16": "lowered", "E4M3|fp32": "wgmma", "E5M2|fp32": "wgmma"},
    "H200": SM_90 | {"E4M3|fp16": "lowered", "E5M2|fp16": "lowered", "E4M3|fp32": "wgmma", "E5M2|fp32": "wgmma"},
    "B200": SM_90 | dict.fromkeys(FP8, "lowered"),
}
FP8_TYPES = {"E4M3": ml_dtypes.float8_e4m3fn, "E5M2": ml_dtypes.float8_e5m2}
#: C was published in f32; where the instruction takes f16 it was rounded before.
ACCUMULATORS = {"f32": np.float32, "f16": np.float16}
FOR_PUBLISHED = {
    "sm_80 f16 k8": rule("f16", "f16", "f32", chained(8, 8), 24, -132),
    "sm_80 f16 k8 into f16": rule("f16", "f16", "f16", chained(8, 8), 24, -20),
    "sm_80 bf16 k8": rule("bf16", "bf16", "f32", chained(8, 8), 24, -132),
    "sm_80 tf32 k4": rule("tf32", "tf32", "f32", chained(4, 4), 24, -132),
}


def published_rule(label, name):
    form, acc = label.split("|")
    form, acc = form.lower(), {"fp32": "f32", "fp16": "f16"}[acc]
    if name == "lowered":
        return rule("f16", "f16", acc, paired(32), 25, -133 if acc == "f32" else -21, join=True)
    if name == "wgmma":
        return rule(form, form, acc, chained(32, 32), 13, None, keep=13)
    if name == "native":
        return rule(form, form, acc, chained(32, 16), 13, None, keep=13 if acc == "f32" else None)
    return (RULES | FOR_PUBLISHED)[name]


@pytest.mark.parametrize(("gpu", "label"), [(gpu, label) for gpu, labels in GPUS.items() for label in labels])
def test_published_outputs_of_gpus(gpu, label):
    one = published_rule(label, GPUS[gpu][label])
    form, result = label.split("|")
    a, b, c, want = published(gpu, form, result)
    if GPUS[gpu][label] == "lowered":  # the hardware converts fp8 to f16, which is exact, and multiplies that
        a, b = (x.view(FP8_TYPES[form]).astype(np.float16).view(np.uint16) for x in (a, b))
    c = np.zeros_like(c) if GPUS[gpu][label] == "wgmma" else c.view(np.float32).astype(ACCUMULATORS[one["acc"]])
    c = c.view(STORAGE[one["acc"]])
    for start in range(0, len(a), 100):  # the diagonals of products of a hundred rows and columns
        part = slice(start, start + 100)
        got = run(a[part], b[part].T, np.tile(c[part], (len(c[part]), 1)), one)
        assert_same(np.diagonal(got)[None], want[part][None])
