"""What is said about a wrong answer is true: of maps, told digit by digit, and of arrays."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, strategies
from quick import examples

from tcemu.course.accidents import about_array
from tcemu.course.observe import about_map, about_part, about_values, digits, where

SIZES = {"row": 16, "column": 12}
CASES = np.array(list(product(*(range(size) for size in SIZES.values()))))


def value(digit, cases):
    """A digit's value in each case, by its definition."""
    return cases[:, list(SIZES).index(digit.argument)] // digit.low % digit.count


def test_the_digits_of_an_argument_make_it_up():
    for name, size in SIZES.items():
        own = [digit for digit in digits(SIZES) if digit.argument == name]
        assert np.prod([digit.count for digit in own]) == size
        total = sum(value(digit, CASES) * digit.low for digit in own)
        assert np.array_equal(total, CASES[:, list(SIZES).index(name)])


DIGITS = digits(SIZES)
FACTORS = strategies.lists(strategies.integers(-9, 9), min_size=len(DIGITS), max_size=len(DIGITS))


def total(factors, start=0):
    return start + sum(factor * value(digit, CASES) for factor, digit in zip(factors, DIGITS, strict=True))


@examples(200)
@given(FACTORS, FACTORS, strategies.integers(-3, 3))
def test_what_is_said_about_a_sum_names_only_digits_that_differ(has, should, start):
    """Arguments whose digits all have the right factors are not mentioned."""
    got, right = total(has, start), total(should)
    assume(not np.array_equal(got, right))
    says = about_part(SIZES, "lane", got, right)
    assert says
    for name in SIZES:
        same = all(a == b for a, b, digit in zip(has, should, DIGITS, strict=True) if digit.argument == name)
        if same and "wrong exactly" not in says and "wrong only" not in says:
            assert name not in says


@examples(100)
@given(FACTORS, strategies.integers(0, len(DIGITS) - 1), strategies.integers(1, 9))
def test_a_forgotten_digit_is_named(factors, at, factor):
    should = [*factors[:at], factor, *factors[at + 1 :]]
    has = [*factors[:at], 0, *factors[at + 1 :]]
    got = total(has)
    assume((got != got[0]).any())
    assert about_part(SIZES, "lane", got, total(should)) == f"The lane does not depend on {DIGITS[at]}, but it should."


@examples(100)
@given(FACTORS, strategies.integers(1, 9))
def test_an_offset_is_named(factors, by):
    assume(any(factors))
    assert about_part(SIZES, "lane", total(factors, by), total(factors)) == f"Every lane is {by} too large."


@examples(100)
@given(strategies.data())
def test_where_something_is_wrong_is_told_by_digits(data):
    """Wrong is what has the drawn values in the drawn digits, and nothing else."""
    chosen = data.draw(strategies.sets(strategies.integers(0, len(DIGITS) - 1), min_size=1))
    wanted = {at: data.draw(strategies.integers(0, DIGITS[at].count - 1)) for at in chosen}
    wrong = np.logical_and.reduce([value(DIGITS[at], CASES) == number for at, number in wanted.items()])
    says = where(SIZES, wrong.reshape(16, 12))
    if wrong.sum() < 3:  # any two places have something in common
        assert says == ""
        return
    assert says.startswith("Elements are wrong exactly where ")
    terms = says.removeprefix("Elements are wrong exactly where ").removesuffix(".").split(" and ")
    row, column = CASES.T
    told = [eval(term.replace(" = ", " == "), {"row": row, "column": column}) for term in terms]  # noqa: S307
    assert np.array_equal(np.logical_and.reduce(told), wrong)


def test_what_is_everywhere_or_nowhere_wrong_has_no_place():
    assert where(SIZES, np.ones((16, 12), bool)) == where(SIZES, np.zeros((16, 12), bool)) == ""


MAPS = {
    "row * 4 + column": "",
    "column * 4 + row":
        "In the sum, row has the factor 1, which is wrong. In the sum, column has the factor 4, which is wrong.",
    "row * 4": "The sum does not depend on column, but it should.",
    "(15 - row) * 4 + column": "The sum counts row backwards.",
    "row * 4 + column + 1": "Every sum is 1 too large.",
    "row * 4 + column - 3": "Every sum is 3 too small.",
    "row * 4 + column % 4": "The sum does not depend on column // 4, but it should.",
    "row // 4 * 4 + column":
        "In the sum, row // 4 has the factor 4, which is wrong. The sum does not depend on row % 4, but it should.",
    "row * 0": "The sum is always 0.",
    "row * 4 + column + (row > 7) * 100": "In the sum, row // 8 has the factor 132, which is wrong.",
    "row * 4 + column + (row > 7) * (column > 7)":
        "Where row // 8 = 1 and column // 4 = 2: every sum is 1 too large.",
    "np.where(column % 2, row * 4, row * 8) + column":
        "Where column % 2 = 0: in the sum, row has the factor 8, which is wrong.",
    "row * 4 | column": "",  # "only where column >= 4" would be true, and would not help
    "np.where(column >= 3, 0, row * 4 + column)": "The sum is wrong exactly where column >= 3.",
}  # fmt: skip


@pytest.mark.parametrize("formula", MAPS)
def test_a_wrong_formula_is_told_apart(formula):
    row, column = CASES.T
    got = eval(formula, {"row": row, "column": column, "np": np})  # noqa: S307
    says = about_map(SIZES, ("sum",), got[:, np.newaxis], (row * 4 + column)[:, np.newaxis])
    assert says == MAPS[formula]


def test_arguments_that_do_not_count_from_0_are_told_by_their_values():
    over = {"address": list(range(0, 256, 16)), "swizzle": [0, 32, 64, 128]}
    address, swizzle = np.array(list(product(*over.values()))).T
    right = (address ^ address // 32 * 16 % 64 * (swizzle > 0))[:, np.newaxis]
    says = about_map(over, ("place",), np.where(swizzle == 64, 0, right[:, 0])[:, np.newaxis], right)
    assert says == "The place is wrong only where swizzle = 64."
    says = about_map(over, ("place",), address[:, np.newaxis], right)
    assert says == "The place does not depend on swizzle, but it should."
    says = about_map(over, ("unit",), (address // 32)[:, np.newaxis], (address // 16)[:, np.newaxis])
    assert says == "The unit does not depend on address // 16 % 2, but it should."


def test_values_in_the_wrong_order_are_seen():
    right = CASES @ [[1, 0], [0, 2]]
    says = about_map(SIZES, ("lane", "register"), right[:, ::-1], right)
    assert says == "You return lane and register in the wrong order."


def test_exchanged_arguments_are_seen():
    square = {"row": 8, "column": 8}
    row, column = np.indices((8, 8)).reshape(2, -1)
    says = about_map(square, ("sum",), (row + 3 * column)[:, np.newaxis], (3 * row + column)[:, np.newaxis])
    assert says == "You swapped row and column."


WORDS = np.array([[0x1234, 0xABCD, 0x00FF], [0x8001, 0x7FFE, 0x0F0F]], np.uint32)
ARRAYS = {
    "The rows are in reverse order.": WORDS[::-1],
    "The columns are in reverse order.": WORDS[:, ::-1],
    "The columns are shifted by one, around the end.": np.roll(WORDS, 1, axis=1),
    "The values are in column-major order: those of the transposed matrix, in the right shape.": WORDS.T.reshape(2, 3),
    "The bytes of each value are in reverse order.": WORDS.byteswap(),
    "The two halves of each value are swapped.": WORDS << 16 | WORDS >> 16,
    "Every value is shifted left by 4 bits.": WORDS << 4,
    "Every value is shifted right by 2 bits.": WORDS >> 2,
    "Every bit is inverted.": ~WORDS,
    "Every value is 1 too large.": WORDS + 1,
    "Elements are wrong exactly where row = 1. Every wrong value is 0.": WORDS * np.array([[1], [0]], np.uint32),
    "Only bits 0 to 2, 9 of the values are wrong.": WORDS ^ 0x207,
    "Only bit 31 of the values is wrong.": WORDS ^ [[0, 1 << 31, 0]] * 2,
    "Every wrong value is 1 too large or too small.": WORDS + np.array([[1, -1, 1], [1, 1, -1]]),
}


@pytest.mark.parametrize("says", ARRAYS)
def test_an_accident_of_an_array_is_named(says):
    assert about_array(np.ascontiguousarray(ARRAYS[says]).astype(np.uint32), WORDS) == says


FLOATS = np.array([1.5, -2.25, 3.0, 1000.0], np.float32)
OTHERS = {
    "Every value has the wrong sign.": -FLOATS,
    "Every wrong value is 0.125 times the right one.": FLOATS / 8,
    "Every wrong value is close to the right one, as if something were rounded at another place.": FLOATS * 1.0001,
    "The wrong values belong in other places: [0] holds what belongs at [2].": FLOATS[[2, 3, 0, 1]],
    "Every wrong value is nan.": np.full(4, np.nan, np.float32),
    "": np.array([9, 8, 7, 6], np.float32),
}


@pytest.mark.parametrize("says", OTHERS)
def test_what_floats_have_in_common_is_said(says):
    assert about_array(OTHERS[says].astype(np.float32), FLOATS) == says


NUMBERS = {
    "Every n is 3 too large.": lambda n: n + 3,
    "Every n is 1 too small.": lambda n: n - 1,
    "Every n has the wrong sign.": lambda n: -n,
    "Every n is 4 times as large as it should be.": lambda n: 4 * n,
    "Every n should be 2 times as large.": lambda n: n // 2,
    "The n is always 7.": lambda n: 0 * n + 7,
    "": lambda n: n * n,
}


@pytest.mark.parametrize("says", NUMBERS)
def test_what_numbers_have_in_common_is_said(says):
    n = np.arange(10, 20, 2)
    assert about_values("n", NUMBERS[says](n), n) == says


def test_a_neighbouring_float_is_told_and_not_why():
    """Thirds in float32, cut off and rounded up. Which of the two is right, only an exercise knows."""
    exact = np.array([1, 2, 5, 7]) / 3
    below = np.nextafter(exact.astype(np.float32), np.float32(0))
    cut = np.where(exact.astype(np.float32) > exact, below, exact.astype(np.float32))
    up = np.nextafter(cut, np.float32(9))
    assert about_array(up, cut) == "Every wrong value is the next float32 away from zero."
    assert about_array(cut, up) == "Every wrong value is the next float32 toward zero."


def test_lost_bits_are_not_called_truncated():
    """A sum of which 23 binary digits are kept is truncated as the right one is, only one bit higher."""
    right = np.array([1.9999999, -1.9999999, 3.0000002, 0.5], np.float32)
    got = (right.view(np.uint32) & ~np.uint32(1)).view(np.float32)
    says = "Your values are the right ones without their last bit: one more is kept."
    assert about_array(got, right) == says


def test_values_that_are_right_elsewhere_need_not_be_displaced():
    """e5m2 read with other rules gives numbers that e5m2 has, too."""
    right = np.float32(2) ** np.arange(16)
    assert about_array(right[[3, 1, 4, *range(3, 16)]], right) == ""
    assert about_array(right[[1, 0, *range(2, 16)]], right).startswith("The wrong values belong in other places")


def test_a_right_answer_is_told_nothing():
    assert about_array(WORDS, WORDS) == ""


def test_all_numbers_too_small_by_a_factor_are_told_although_zero_is_right():
    right = np.array([0, 2048, 0, 64])
    assert about_values("start", right // 2, right) == "Every start should be 2 times as large."


def test_the_index_of_a_list_is_not_told():
    """The places of wrong numbers in a list depend on the drawn inputs, and explain nothing."""
    right = np.arange(100.0, 116)
    got = np.where(np.arange(16) >= 8, np.arange(16) ** 2.0, right)
    assert about_array(got, right) == ""
    assert about_array(got, right, ("lane",)) == "Elements are wrong exactly where lane // 8 = 1."


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda word: word & 0xFFFF, "The upper half of each value is 0."),
        (lambda word: word & 0xFFFF0000, "The lower half of each value is 0."),
        (lambda word: word ^ 0x01010101 * np.arange(1, 9) % 7**9, ""),
    ],
)
def test_halves_that_are_lost_are_told_and_scattered_bits_are_not(change, says):
    words = np.arange(1, 9, dtype=np.int64) * 0x12345679 % (1 << 32)
    assert about_array((change(words) & 0xFFFFFFFF).astype(np.uint32), words.astype(np.uint32)) == says


def test_a_sign_of_zero_is_no_rounding():
    got, right = np.array([1.0, 0.0, 0.0]), np.array([1.0, -0.0, -0.0])
    assert about_array(got, right) == "Every wrong value is 0."
