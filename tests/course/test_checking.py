"""check, hint and given: what a learner calls, and their messages for a learner's slips."""

import numpy as np
import pytest

from tcemu.course import Finding, check, exercise, given, hint, judged
from tcemu.course.checking import Verdict, verdicts_of
from tcemu.errors import CourseError


def where_of_a(row, column):
    return 4 * (row % 8) + column % 8 // 2, column // 8 * 2 + row // 8


def test_a_function_or_a_name_says_which_exercise_it_is():
    assert check(where_of_a)
    assert check(where_of_a=where_of_a)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (check, r"check\(where_of_a\), or check\(first_sum=0x4b00\)"),
        (lambda: check(where_of_a, where_of_a), "check one answer at a time"),
        (lambda: check(3), r"what is 3 an answer to\? Name the exercise"),
        (lambda: check(lambda row, column: 0), "Name the exercise: check"),
        (lambda: check(where_of_aa=1), "there is no exercise called 'where_of_aa'; did you mean where_of_a"),
        (lambda: hint("where_of_a", 9), "where_of_a has hints 1 to 3"),
        (lambda: hint("where_of_x"), "there is no exercise called"),
        (lambda: given("nothing"), "there is no exercise called 'nothing'"),
    ],
)
def test_a_slip_is_told_how_to_call(call, says):
    with pytest.raises(CourseError, match=says):
        call()


@pytest.mark.parametrize("says", ["Right.", "Right in 4 cases.", "Right, and the sanitizer reports nothing."])
def test_right_is_said_once(says):
    verdict = Verdict(exercise("where_of_a"), "right", Finding(True, says))
    assert str(verdict) == f"where_of_a: r{says[1:]}"
    assert f"<strong>Right</strong>{says[5:]}</p>" in verdict._repr_mimebundle_()["text/html"]


def test_hints_come_one_after_the_other_and_the_last_stays():
    count = len(exercise("where_of_a").hints)
    told = [hint("where_of_a") for _ in range(count + 1)]
    assert [text.split(":")[0] for text in told[:count]] == [f"Hint {n} of {count}" for n in range(1, count + 1)]
    assert told[-1] == told[-2] == hint(where_of_a, count)


def test_the_page_holds_no_markup_of_the_learner_s():
    def raising(row, column):
        raise ValueError("<script>alert(1)</script>")

    page = judged(exercise("where_of_a"), raising)._repr_mimebundle_()["text/html"]
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_the_page_folds_each_hint_into_the_one_before():
    page = judged(exercise("where_of_a"), lambda row, column: (0, 0))._repr_mimebundle_()["text/html"]
    assert page.count(">Hint ") == page.count("<details><summary data-lm-suppress-shortcuts=") == 3
    assert page.index("Hint 1 of 3") < page.index("Hint 2 of 3") < page.index("Hint 3 of 3")
    assert 'role="status"' in page
    assert "Hint" not in check(where_of_a)._repr_mimebundle_()["text/html"]


def test_collected_verdicts_are_for_the_named_learner():
    with verdicts_of("ada") as verdicts:
        check(where_of_a)
        with verdicts_of() as inner:
            check(where_of_a=...)
    assert [verdict.state for verdict in verdicts] == ["right"]
    assert [verdict.state for verdict in inner] == ["open"]


def test_a_part_says_what_it_earns_and_what_a_grader_may_make_of_it():
    def quantise_rows(numbers):
        right = np.rint(numbers / (np.abs(numbers).max(axis=1, keepdims=True) / np.float32(127))).astype(np.int8)
        right[6:] = 0
        return right

    verdict = judged(exercise("quantise_rows"), quantise_rows, "ada")
    assert verdict.worth == (
        f"So far it earns {round(verdict.points, 2):g} of 1 point. The grader also tries other numbers, which nobody "
        "has seen: the least that it earns for any of them counts, and nothing if that is less than half of this."
    )
    assert verdict.worth in str(verdict)
    assert verdict.worth in verdict._repr_mimebundle_()["text/html"]
    half = judged(exercise("where_of_b"), lambda row, column: (4 * column + row // 2 % 4, 0))
    assert half.worth == f"So far it earns {round(half.points, 2):g} of 1 point.", "there are no other numbers"
    assert judged(exercise("where_of_b"), lambda row, column: (0, 99)).worth == ""
    assert judged(exercise("where_of_b"), ...).worth == ""
