"""Number formats against ml_dtypes, numpy and a list of values to search: every pattern of every small format."""

import math
import re
import warnings
from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import some
from rows import rows

from tcemu import FormatError, OperandError, formats
from tcemu.errors import TableError
from tcemu.formats import Container, Format, round_exact, unpack
from tcemu.instructions import FAMILIES

ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
SMALL = [form for form in formats.FORMATS.values() if form.container <= 16]
FLOATS = [form for form in formats.FORMATS.values() if form.kind == "float"]
SMALL_FLOATS = [form for form in SMALL if form.kind == "float"]
WHOLE = [form for form in formats.FORMATS.values() if form.kind != "float"]
by_name = {"ids": lambda form: form.name}

#: The dtype of another library that is the judge of each format.
ORACLES = {
    "f64": np.float64, "f32": np.float32, "tf32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "e5m2": ml_dtypes.float8_e5m2, "e4m3": ml_dtypes.float8_e4m3fn, "ue4m3": ml_dtypes.float8_e4m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu, "s32": np.int32, "s8": np.int8, "u8": np.uint8, "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4, "b1": np.bool_,
}  # fmt: skip


def oracle(form):
    """The judge's dtype; of a format that is newer than this test, the one that its record names."""
    return np.dtype(ORACLES.get(form.name, form.dtype))


def judged_values(form):
    """The value of every pattern of a small format, by the judge."""
    codes = np.arange(1 << form.bits, dtype=f"u{oracle(form).itemsize}")
    if form.kind == "integer" and form.signed:
        return ((codes.astype(np.int64) + (1 << (form.bits - 1))) % (1 << form.bits)) - (1 << (form.bits - 1))
    with np.errstate(invalid="ignore"):  # a signalling NaN says so
        return codes.astype(np.int64) if form.kind != "float" else codes.view(oracle(form)).astype(np.float64)


def same(one, other):
    """Equal values, NaN equal to NaN, -0 not equal to +0."""
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    signs = [np.signbit(values[~np.isnan(values)]) for values in (one, other)]
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(*signs)


def magnitudes(form):
    """Every finite value that is not negative, ascending, and one beyond; the patterns of all but that one."""
    values = judged_values(form)
    patterns = np.flatnonzero(np.isfinite(values) & ~np.signbit(values))
    order = np.argsort(values[patterns], kind="stable")
    values, patterns = values[patterns][order], patterns[order]
    beyond = 2 * values[-1] if form.mantissa == 0 else 2 * values[-1] - values[-2]
    return np.append(values, beyond), patterns


def telling_values(form):
    """Values at, between and just beside neighbours, far outside, both zeros and infinities."""
    grid, _ = magnitudes(form)
    with np.errstate(over="ignore"):
        between = (grid[1:] + grid[:-1]) / 2
        points = np.concatenate([grid, between, grid / 3, [grid[-1] * 2, grid[-1] * 1000, 5e-324, np.inf]])
        points = np.concatenate([points, np.nextafter(points, 0), np.nextafter(points, np.inf)])
    points = np.unique(np.abs(points))
    return np.concatenate([points, -points]) if form.signed else points


def expected_patterns(form, values, rounding, satfinite):
    """What encode must answer, found by searching the sorted values: a definition that does no arithmetic on bits."""
    grid, patterns = magnitudes(form)
    negative, size = np.signbit(values), np.abs(values)
    above = np.searchsorted(grid, size, side="left").clip(0, len(grid) - 1)  # first value that is not below
    exact = grid[above] == size
    below = np.where(exact, above, np.maximum(above - 1, 0))
    # between the largest value and nothing lies one virtual value: what is rounded to it has overflowed
    middle = (grid[below] + grid[above]) / 2
    even = below % 2 == 0 if form.mantissa else np.zeros(len(size), bool)  # without mantissa bits ties go up
    up = {
        "rn": (size > middle) | ((size == middle) & ~even),
        "rna": size >= middle,
        "rz": np.zeros(len(size), bool),
        "rm": negative,
        "rp": ~negative,
    }[rounding] & ~exact
    index = np.where(size > grid[-1], len(grid) - 1, np.where(up, above, below))
    over = index == len(grid) - 1
    stops = {"rz": ~np.isinf(size), "rm": ~negative & ~np.isinf(size), "rp": negative & ~np.isinf(size)}.get(
        rounding, over & False
    )
    judge = judged_values(form)
    infinite, nan = np.flatnonzero(judge == np.inf), np.flatnonzero(np.isnan(judge))
    largest = patterns[-1]
    beyond = (
        largest
        if satfinite
        else infinite[0]
        if infinite.size
        else nan[-1] & (form.nan_bits or 0)
        if nan.size
        else largest
    )
    magnitude = np.where(over, np.where(stops, largest, beyond), patterns[np.minimum(index, len(patterns) - 1)])
    # "stops" speaks of what lies beyond the largest value as well
    return magnitude + np.where(negative & form.signed, 1 << (form.bits - 1), 0)


# Every pattern --------------------------------------------------------------------------------------------------------


def test_every_format_of_the_issue_is_there():
    assert set(ORACLES) <= set(formats.FORMATS)


@pytest.mark.parametrize("form", FLOATS + WHOLE, **by_name)
def test_matrices_have_the_dtype_of_numpy_or_ml_dtypes(form):
    assert form.dtype == oracle(form)


@pytest.mark.parametrize("form", SMALL, **by_name)
def test_every_pattern_decodes_to_the_judges_value(form):
    codes = form.codes()
    assert codes.tolist() == list(range(1 << form.bits))
    assert same(form.decode(codes), judged_values(form))


@pytest.mark.parametrize("form", SMALL, **by_name)
def test_every_value_encodes_to_its_own_pattern(form):
    codes, values = form.codes(), judged_values(form)
    number = ~np.isnan(values)
    for rounding in ROUNDINGS:
        assert np.array_equal(form.encode(values[number], rounding), codes[number])


def test_tf32_is_an_f32_whose_low_bits_are_ignored():
    tf32 = formats.lookup("tf32")
    codes = tf32.codes()
    assert len(codes) == 1 << 19
    assert not (codes & 0x1FFF).any()
    with np.errstate(invalid="ignore"):
        expected = codes.view(np.float32).astype(np.float64)
    assert same(tf32.decode(codes), expected)
    # a NaN whose payload stands in the low bits alone becomes an infinity
    low = np.arange(len(codes), dtype=np.uint32) * np.uint32(2654435761) & np.uint32(0x1FFF)
    assert same(tf32.decode(codes | low), expected)
    numbers = ~np.isnan(expected)
    assert np.array_equal(tf32.encode(expected[numbers]), codes[numbers])


@pytest.mark.parametrize("form", FLOATS, **by_name)
def test_nan_becomes_the_canonical_nan(form):
    if form.has_nan:
        pattern = form.encode([np.nan, -np.nan])
        assert np.isnan(form.decode(pattern)).all()
        assert pattern.tolist() == [form.nan_bits] * 2
        assert form.encode(np.nan, satfinite=True) == form.nan_bits
    else:
        with pytest.raises(FormatError, match=f"{form.name} has no pattern for a NaN"):
            form.encode([1.0, np.nan])
        assert form.decode(form.encode(np.nan, satfinite=True)) == form.largest


@pytest.mark.parametrize("form", [form for form in SMALL_FLOATS if form.has_nan], **by_name)
def test_the_canonical_nan_is_the_one_of_the_hardwares_conversions(form):
    expected = {"f16": 0x7E00, "bf16": 0x7FC0, "e5m2": 0x7E, "e4m3": 0x7F, "ue4m3": 0x7F, "ue8m0": 0xFF}
    if form.name in expected:
        assert form.nan_bits == expected[form.name]
    assert np.isnan(np.array(form.nan_bits, form.storage).view(oracle(form)).astype(float))


# Rounding -------------------------------------------------------------------------------------------------------------


@rows("form, rounding, satfinite", some(product(SMALL_FLOATS, ROUNDINGS, (False, True)), 12))
@pytest.mark.slow
def test_encode_agrees_with_a_search_among_the_values(form, rounding, satfinite):
    values = telling_values(form)
    got, expected = form.encode(values, rounding, satfinite), expected_patterns(form, values, rounding, satfinite)
    wrong = np.flatnonzero(got != expected)
    assert not wrong.size, (
        f"{values[wrong[0]].hex()} ({rounding}): {got[wrong[0]]:#x}, not {expected[wrong[0]]:#x}; {wrong.size} such"
    )


@pytest.mark.parametrize("form", SMALL_FLOATS, **by_name)
def test_rn_agrees_with_the_judges_own_conversion(form):
    with np.errstate(over="ignore"):
        values = telling_values(form).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    if not form.zero:
        # ml_dtypes makes 0 a NaN, and rounds what lies just above 2^-127 away from it; the search above judges those
        values = values[values >= 2 * form.smallest_normal]
    with np.errstate(all="ignore"):
        expected = values.astype(oracle(form)).view(f"u{oracle(form).itemsize}")
    got = form.encode(values.astype(np.float64))
    finite = np.abs(values) <= form.largest  # ml_dtypes' NaN has a sign
    assert np.array_equal(got[finite], expected[finite])


def test_a_scale_without_a_zero_holds_its_smallest_power_instead():
    ue8m0 = formats.lookup("ue8m0")
    assert ue8m0.encode([0.0, -0.0, 2.0**-200], "rz").tolist() == [0, 0, 0]
    assert ue8m0.decode(0) == 2.0**-127


@given(st.floats(width=64))
def test_f32_is_numpys_conversion(value):
    with np.errstate(all="ignore"):
        expected = np.float64(value).astype(np.float32)
    got = formats.lookup("f32").encode(value)
    assert got == (0x7FC00000 if math.isnan(value) else expected.view(np.uint32))


@given(st.integers(0, 2**32 - 1))
def test_f32_patterns_have_numpys_values(pattern):
    form = formats.lookup("f32")
    with np.errstate(invalid="ignore"):
        value = np.array(pattern, np.uint32).view(np.float32).astype(np.float64)
    assert same(form.decode(pattern), value)
    if not np.isnan(value):
        assert form.encode(value) == pattern


@given(st.integers(0, 2**64 - 1), st.sampled_from(ROUNDINGS))
def test_f64_comes_through_unchanged(pattern, rounding):
    form = formats.lookup("f64")
    value = np.array(pattern, np.uint64).view(np.float64)
    assert same(form.decode(np.array(pattern, np.uint64)), value)
    assert form.encode(value, rounding) == (0x7FF8 << 48 if np.isnan(value) else pattern)


@given(st.floats(-(2.0**128), 2.0**128, exclude_min=True, exclude_max=True), st.sampled_from(ROUNDINGS))
def test_wide_formats_round_to_one_of_the_two_neighbours_and_to_the_right_one(value, rounding):
    for name in ("f32", "tf32"):
        form = formats.lookup(name)
        pattern = int(form.encode(value, rounding))
        got = float(form.decode(pattern))
        if math.isinf(got):
            assert abs(value) > form.largest
            continue
        step = 1 << form.padding
        towards = Fraction(value) - Fraction(got)
        if not towards:
            continue
        outwards = (towards > 0) == (not pattern & form.sign_bit)
        next_pattern = pattern + step if outwards else pattern - step
        other = float(form.decode(next_pattern)) if next_pattern >= 0 else math.nan
        gap = abs(Fraction(other) - Fraction(got)) if math.isfinite(other) else Fraction(2) ** (127 - form.mantissa)
        assert abs(towards) < gap
        toward_zero = abs(Fraction(got)) <= abs(Fraction(value))
        if rounding == "rz":
            assert toward_zero
        elif rounding == "rm":
            assert got <= value
        elif rounding == "rp":
            assert got >= value
        else:
            assert abs(towards) * 2 <= gap
            if abs(towards) * 2 == gap:
                assert not toward_zero if rounding == "rna" else not pattern >> form.padding & 1


@pytest.mark.parametrize("name", ["f32", "tf32", "f64"])
def test_overflow_of_wide_formats(name):
    form = formats.lookup(name)
    assert form.encode([np.inf, -np.inf]).tolist() == [form.infinity_bits, form.infinity_bits | form.sign_bit]
    for rounding in ROUNDINGS:
        assert same(
            form.decode(form.encode([np.inf, -np.inf], rounding, satfinite=True)), [form.largest, -form.largest]
        )
    if name != "f64":
        assert same(form.decode(form.encode([1e300, -1e300], "rm")), [form.largest, -np.inf])
        assert same(form.decode(form.encode([1e300, -1e300], "rp")), [np.inf, -form.largest])
        assert same(form.decode(form.encode([1e300, -1e300], "rz")), [form.largest, -form.largest])


# The scalar twin ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SMALL_FLOATS, **by_name)
def test_unpack_is_the_twin_of_decode(form):
    for pattern, value in some(enumerate(judged_values(form)), 4099):
        number = unpack(form, pattern)
        assert number.negative == (bool(pattern >> (form.bits - 1)) if form.signed else False)
        if np.isnan(value):
            assert number.kind == "nan"
        elif np.isinf(value):
            assert number.kind == "infinity"
        else:
            assert number.kind in ("zero", "subnormal", "normal")
            size = math.ldexp(number.significand, number.exponent - number.fraction)
            assert size == abs(value)
            assert number.is_zero == (value == 0)
            assert number.significand < 2 << number.fraction


@rows("form, rounding", some(product(SMALL_FLOATS, ROUNDINGS), 6))
def test_round_exact_is_the_twin_of_encode(form, rounding):
    values = telling_values(form)
    values = values[np.isfinite(values)]
    values = values[:: max(1, len(values) // 3000)]
    expected = expected_patterns(form, values, rounding, satfinite=False)
    for value, pattern in zip(values.tolist(), expected.tolist(), strict=True):
        top, bottom = value.as_integer_ratio()
        got = round_exact(form, top, 1 - bottom.bit_length(), rounding)
        if not form.zero or got & ~form.sign_bit:
            assert got == pattern, (value, rounding)
        else:  # an exact zero has no sign of its own
            assert not pattern & ~form.sign_bit


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(ROUNDINGS), st.sampled_from(FLOATS))
def test_round_exact_is_the_twin_of_encode_in_every_format(value, rounding, form):
    value = value if form.signed else abs(value)
    top, bottom = value.as_integer_ratio()
    got = round_exact(form, top, 1 - bottom.bit_length(), rounding)
    assert got & ~form.sign_bit == int(form.encode(value, rounding)) & ~form.sign_bit


@given(st.integers(-(2**200), 2**200), st.integers(-400, 200), st.sampled_from(ROUNDINGS))
def test_round_exact_rounds_numbers_that_no_float_holds(number, exponent, rounding):
    form = formats.lookup("f32")
    value, pattern = Fraction(number) * Fraction(2) ** exponent, round_exact(form, number, exponent, rounding)
    got = float(form.decode(pattern))
    if math.isinf(got):
        assert abs(value) > Fraction(form.largest)
        return
    ulp = Fraction(2) ** (max(math.frexp(got)[1] - 1, -126) - 23)
    assert abs(Fraction(got) - value) <= (ulp / 2 if rounding in ("rn", "rna") else ulp) or abs(value) > Fraction(
        form.largest
    )
    assert rounding != "rm" or got <= value
    assert rounding != "rp" or got >= value
    assert rounding != "rz" or abs(got) <= abs(value)


# Fields and derived properties ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SMALL, **by_name)
def test_fields_are_the_bits_as_written(form):
    for pattern in range(1 << form.bits):
        text = format(pattern, f"0{form.bits}b")
        sign, rest = (text[0], text[1:]) if form.signed else ("0", text)
        expected = (int(sign), int(rest[: form.exponent] or "0", 2), int(rest[form.exponent :] or "0", 2))
        assert tuple(form.fields(pattern)) == expected
    assert form.fields(np.uint16(1)).mantissa == min(form.mantissa, 1) if form.kind == "float" else True


@pytest.mark.parametrize("form", SMALL, **by_name)
def test_classes_are_those_of_the_values(form):
    smallest = float(ml_dtypes.finfo(oracle(form)).smallest_normal) if form.kind == "float" else 0.0
    for pattern, value in enumerate(judged_values(form)):
        expected = (
            "nan" if np.isnan(value)
            else "infinity" if np.isinf(value)
            else "zero" if value == 0
            else "subnormal" if abs(value) < smallest and form.zero
            else "normal"
        )  # fmt: skip
        assert form.classify(pattern) == expected


@pytest.mark.parametrize("form", [form for form in FLOATS if form.name not in ("tf32", "ue4m3")], **by_name)
def test_derived_properties_are_those_of_finfo(form):
    info = ml_dtypes.finfo(oracle(form))
    assert form.largest == float(info.max)
    assert form.smallest_normal == float(info.smallest_normal)
    assert form.smallest_subnormal == float(info.smallest_subnormal)
    assert form.lowest == (float(info.min) if form.signed else form.smallest_subnormal if not form.zero else 0.0)
    assert form.bits == info.bits
    assert (form.exponent, form.mantissa) == (info.nexp, info.nmant)
    assert form.emin == math.log2(form.smallest_normal)
    assert form.emax == math.frexp(form.largest)[1] - 1
    assert form.storage.itemsize * 8 == {4: 8, 6: 8}.get(form.bits, form.bits)


def test_derived_properties_of_formats_without_a_finfo():
    tf32, ue4m3 = formats.lookup("tf32"), formats.lookup("ue4m3")
    assert (tf32.bits, tf32.container, tf32.largest) == (19, 32, (2 - 2.0**-10) * 2.0**127)
    assert (tf32.smallest_normal, tf32.smallest_subnormal) == (2.0**-126, 2.0**-136)
    assert (ue4m3.bits, ue4m3.container, ue4m3.largest, ue4m3.lowest, ue4m3.sign_bit) == (7, 8, 448.0, 0.0, 0)


@pytest.mark.parametrize("form", [form for form in WHOLE if form.name != "b1"], **by_name)
def test_integers_span_what_iinfo_says(form):
    info = ml_dtypes.iinfo(oracle(form))
    assert (form.lowest, form.largest) == (float(info.min), float(info.max))
    values = np.array([int(info.min), 0, 1, int(info.max)])
    assert form.decode(form.encode(values)).tolist() == values.tolist()
    outside = [float(info.min) - 1, float(info.max) + 1, -1e300, np.inf, -np.inf, np.nan]
    low, high = int(info.min), int(info.max)
    assert form.decode(form.encode(outside, satfinite=True)).tolist() == [low, high, low, high, low, 0]
    for value in outside:
        with pytest.raises(FormatError, match=f"{form.name} holds whole numbers from {low} to {high}, not"):
            form.encode(value)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int16, np.uint32, np.int64, np.float16])
def test_satfinite_clamps_whole_numbers_of_any_dtype(dtype):
    for name, (low, high) in {"s32": (-(2**31), 2**31 - 1), "u4": (0, 15), "s4": (-8, 7)}.items():
        values = np.array([0, 1, 0 if dtype is bool else 127], dtype)
        form = formats.lookup(name)
        expected = [min(max(int(value), low), high) for value in values]
        assert form.decode(form.encode(values, satfinite=True)).tolist() == expected


@pytest.mark.parametrize("word", [np.array([True, False]), None, "yes", 1])
def test_satfinite_is_a_truth(word):
    with pytest.raises(FormatError, match="satfinite must be True or False; got"):
        formats.lookup("f16").encode(0.0, satfinite=word)


def test_integers_are_never_rounded():
    with pytest.raises(FormatError, match=r"whole numbers from -128 to 127, not 1\.5; satfinite=True clamps"):
        formats.lookup("s8").encode(1.5)


def test_a_record_that_contradicts_itself_cannot_be_made():
    for wrong, words in [
        ({"exponent": 4, "mantissa": 3, "bias": 7, "container": 4}, "wider than its container"),
        ({"kind": "integer", "exponent": 2, "mantissa": 3}, "an integer with an exponent"),
        ({"mantissa": 3}, "a float without an exponent"),
        ({"exponent": 4, "mantissa": 3, "infinities": True}, "an infinity whose pattern is not reserved"),
        ({"exponent": 8, "nan": "ieee", "infinities": True}, "NaN without mantissa bits"),
        ({"exponent": 20, "mantissa": 60}, "more than 64 bits"),
    ]:
        with pytest.raises(TableError, match=words):
            Format("wrong", **wrong)


@pytest.mark.parametrize("form", formats.FORMATS.values(), **by_name)
def test_names_lead_to_records_and_reprs_show_their_fields(form):
    assert formats.lookup(form.name) is form
    assert formats.lookup(f".{form.name}") is form  # as PTX spells it
    assert form.name in repr(form)
    assert str(form.bits if form.kind != "float" else form.exponent) in repr(form)


# Containers -----------------------------------------------------------------------------------------------------------

CONTAINERS = sorted(
    {
        (fragment.container.form.name, fragment.container.width, fragment.container.shift)
        for family in FAMILIES
        for _, instruction in family.variants
        for fragment in instruction.fragments.values()
    }
    | {("e2m1", 4, 0), ("e2m1", 8, 2), ("e3m2", 8, 0), ("e2m3", 8, 0), ("s4", 4, 0), ("b1", 1, 0)}
)  # fmt: skip


@pytest.mark.parametrize(("name", "width", "shift"), CONTAINERS)
def test_registers_are_patterns_shifted_into_place(name, width, shift):
    container = Container(formats.lookup(name), width, shift)
    bits = container.form.bits + container.form.padding
    rng = np.random.default_rng(1)
    count = 3 * container.elements
    patterns = rng.integers(0, 1 << min(bits, 63), size=(5, count), dtype=np.uint64).astype(container.storage)
    registers = container.pack(patterns)
    assert registers.dtype == f"uint{container.register_bits}"
    assert registers.shape == (5, 3)
    for row, words in zip(patterns.tolist(), registers.tolist(), strict=True):
        for r, word in enumerate(words):
            some = row[r * container.elements : (r + 1) * container.elements]
            assert word == sum(pattern << (width * place + shift) for place, pattern in enumerate(some))
    assert np.array_equal(container.unpack(registers), patterns)
    assert container.pack(patterns[:0]).shape == (0, 3)
    assert container.unpack(registers[:0]).shape == (0, count)


@pytest.mark.parametrize(("name", "width", "shift"), CONTAINERS)
def test_what_stands_around_a_pattern_neither_leaks_out_nor_in(name, width, shift):
    container = Container(formats.lookup(name), width, shift)
    bits = container.form.bits + container.form.padding
    ones = np.full((1, 2), -1 % (1 << container.register_bits), container.register_dtype)
    assert (container.unpack(ones) == (1 << bits) - 1).all()
    single = np.zeros((1, container.elements), container.storage)
    single[0, 0] = np.iinfo(container.storage).max  # more bits than the format has
    assert container.pack(single).tolist() == [[((1 << bits) - 1) << shift]]


def test_a_pattern_that_does_not_fit_its_container_is_refused():
    for form, width, shift in [("f16", 8, 0), ("e2m1", 8, 5), ("e3m2", 5, 0), ("tf32", 19, 0)]:
        with pytest.raises(TableError, match="does not fit containers"):
            Container(formats.lookup(form), width, shift)


# Matrices in a format's own dtype -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", SMALL, **by_name)
def test_matrices_and_patterns_are_two_views_of_the_same(form):
    codes = form.codes()
    matrix = form.matrix(codes)
    assert matrix.dtype == oracle(form)
    assert np.array_equal(form.patterns(matrix), codes)
    if form.kind == "float":
        assert np.array_equal(form.patterns(codes), codes)
    else:
        assert np.array_equal(form.patterns(judged_values(form)), codes)  # any integers that fit


@pytest.mark.parametrize("form", SMALL, **by_name)
def test_matrices_keep_their_shape(form):
    code = form.codes()[1]
    for shape in ((), (1,), (2, 0), (3, 2)):
        patterns = np.full(shape, code, form.storage)
        for each in (patterns, patterns.T):  # the second is not contiguous
            matrix = form.matrix(each)
            assert matrix.shape == each.shape
            assert np.array_equal(form.patterns(matrix), each)


@pytest.mark.parametrize("name", ["f16", "e4m3", "e2m1", "s8"])
def test_large_arrays_are_converted_like_small_ones(name):
    form = formats.lookup(name)
    small = [form.decode(some) for some in np.array_split(form.codes(), 16)]
    values, patterns = np.concatenate(small), np.concatenate([form.encode(some) for some in small])
    places = np.resize(np.arange(len(values)), (5, 7, 2001))  # no whole number of parts
    for each in (places, places[:, ::-1].T):
        assert np.array_equal(form.decode(form.codes()[each]), values[each], equal_nan=True)
        assert np.array_equal(form.encode(values[each]), patterns[each])


@pytest.mark.parametrize(("name", "advice"), [("f16", "numpy.float16"), ("bf16", "ml_dtypes.bfloat16")])
def test_nothing_is_rounded_silently(name, advice):
    with pytest.raises(OperandError) as error:
        formats.lookup(name).patterns(np.ones((2, 2)), "A")
    dtype = advice.split(".")[1]
    for words in ("A:", dtype, "uint16", "got dtype float64", "Nothing is rounded silently", f".astype({advice})"):
        assert words in str(error.value)


def test_a_format_without_a_dtype_is_held_as_patterns():
    e3m4 = Format("e3m4", exponent=3, mantissa=4, bias=3, infinities=True, nan="ieee")
    codes = e3m4.codes()
    assert e3m4.dtype == np.uint8
    assert np.array_equal(e3m4.patterns(codes), codes)
    assert np.array_equal(e3m4.matrix(codes), codes)
    with pytest.raises(OperandError, match=r"expected an array of dtype uint8 .* use Format.encode"):
        e3m4.patterns(np.ones(2))


# Errors ---------------------------------------------------------------------------------------------------------------

BAD_CALLS = {
    "an unknown name": (lambda: formats.lookup("e4m4"), ["'e4m4'", "Did you mean 'e4m3'?", "f64, f32, tf32"]),
    "no name": (lambda: formats.lookup(None), ["NoneType", "The formats are"]),
    "an unknown rounding": (
        lambda: formats.lookup("f16").encode(1.0, "rnd"),
        ["'rnd'", "Did you mean 'rn'?", "rn, rz, rm, rp and rna"],
    ),
    "a rounding that is no text": (
        lambda: formats.lookup("f16").encode(1.0, ["rn"]),
        ["list", "rn, rz, rm, rp and rna"],
    ),
    "text for a number": (lambda: formats.lookup("f16").encode("1.5"), ["values for f16 must be real numbers", "<U3"]),
    "a complex number": (
        lambda: formats.lookup("f16").encode(1 + 2j),
        ["values for f16 must be real numbers", "complex128"],
    ),
    "a date": (lambda: formats.lookup("f16").encode(np.datetime64("2020")), ["values for f16 must be real numbers"]),
    "nothing": (lambda: formats.lookup("f16").encode([None]), ["values for f16 must be real numbers", "object"]),
    "a ragged list": (lambda: formats.lookup("f16").encode([[1], [1, 2]]), ["values for f16 must be real numbers"]),
    "too long an integer": (
        lambda: formats.lookup("f32").encode(2**60 + 2**36 + 1),
        ["f32", str(2**60 + 2**36 + 1), "exactly"],
    ),
    "a huge integer": (lambda: formats.lookup("f32").encode(10**400), ["values for f32 must be real numbers"]),
    "a negative scale": (lambda: formats.lookup("ue8m0").encode(-1.0), ["ue8m0 has no pattern for a negative number"]),
    "a NaN without a pattern": (lambda: formats.lookup("e2m1").encode(np.nan), ["e2m1 has no pattern for a NaN"]),
    "a negative pattern": (
        lambda: formats.lookup("f16").decode(-1),
        ["patterns of f16 must be unsigned integers of 16 bits", "-1"],
    ),
    "a pattern with a fraction": (
        lambda: formats.lookup("f16").decode(1.5),
        ["unsigned integers of 16 bits", "float64"],
    ),
    "a pattern of words": (lambda: formats.lookup("f16").decode("0x3c00"), ["unsigned integers of 16 bits"]),
    "a pattern of 100 bits": (
        lambda: formats.lookup("f16").decode(1 << 99),
        ["unsigned integers of 16 bits", "object"],
    ),
    "fields of text": (
        lambda: formats.lookup("f16").fields("x"),
        ["a pattern of f16 must be an unsigned integer of 16 bits", "'x'"],
    ),
    "fields of a float": (lambda: formats.lookup("f16").fields(1.0), ["unsigned integer of 16 bits", "1.0"]),
    "class of a negative number": (lambda: formats.lookup("f16").classify(-5), ["unsigned integer of 16 bits", "-5"]),
    "a list of all f32": (lambda: formats.lookup("f32").codes(), ["f32 has 2^32 patterns", "2^19"]),
}


@pytest.mark.parametrize("mistake", BAD_CALLS)
def test_a_mistake_is_explained(mistake):
    call, words = BAD_CALLS[mistake]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(FormatError) as error:
            call()
    for word in words:
        assert word in str(error.value)


def test_values_that_float64_holds_may_come_in_any_dtype():
    f16 = formats.lookup("f16")
    for one in (
        1,
        1.0,
        np.int8(1),
        np.float32(1),
        ml_dtypes.bfloat16(1),
        ml_dtypes.int4(1),
        np.True_,
        Fraction(1),
        np.longdouble(1),
    ):
        assert f16.encode(one) == 0x3C00
        assert f16.encode([one, one]).tolist() == [0x3C00] * 2
    assert f16.encode(np.ones((2, 0, 3))).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("half", "'f16'"), ("fp16", "'f16'"), ("np.float16", "'f16'"), ("__half", "'f16'"), ("float", "'f32'"),
        ("double", "'f64'"), ("torch.bfloat16", "'bf16'"), ("fp8", "'e4m3' or 'e5m2'"), ("mxfp8", "'e4m3' or 'e5m2'"),
        ("float8_e4m3fn", "'e4m3'"), ("fp4", "'e2m1'"), ("nvfp4", "'e2m1'"), ("int8", "'s8'"), ("bool", "'b1'"),
    ],
)  # fmt: skip
def test_the_name_that_another_library_gives_a_format_leads_to_it(name, meant):
    with pytest.raises(FormatError, match=f"is called '{re.escape(name)}'. Did you mean {meant}\\?"):
        formats.lookup(name)
