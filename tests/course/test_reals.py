"""The judge of functions that return a number: NaN is NaN, zeros have signs, and text is not a number."""

import numpy as np
import pytest

from tcemu.course import AnswerError, Given
from tcemu.course.judges.reals import Reals

RIGHT = np.array([0.0, -0.0, np.nan, np.inf])
JUDGE = Reals("n", range(4), lambda: RIGHT, lambda: [("The sign is missing.", np.abs(RIGHT))], name="value")


def marked(answer):
    return JUDGE.mark(JUDGE.collect(answer, Given()), Given())


def test_the_right_values_are_right():
    assert marked(lambda n: RIGHT[n]).right
    assert marked(lambda n: -RIGHT[n] if n == 2 else float(RIGHT[n])).right  # a NaN has no sign that counts


def test_minus_zero_is_not_zero():
    finding = marked(lambda n: abs(float(RIGHT[n])))
    assert not finding.right
    assert finding.mistake == "The sign is missing."
    assert finding.says.startswith("value(1) is 0.0, which is wrong.")
    assert finding.share == pytest.approx(2 / 3), "one of the four would be right if all were the same"


@pytest.mark.parametrize("answer", ["1.5", b"1", [1, 2], {"value": 1}])
def test_what_is_not_a_number_is_refused(answer):
    with pytest.raises(AnswerError, match=r"value\(0\) returns .*\. It should return a number\."):
        marked(lambda n: answer)
