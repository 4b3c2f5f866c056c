"""The judge of functions that find something out about black boxes."""

from collections.abc import Callable
from typing import Any

import pytest

from tcemu.course import Given, exercise, judged
from tcemu.course.judges.probe import Probe

BOXES: dict[str, tuple[Callable[..., Any], int]] = {"chip 1": (lambda: 3, 3), "chip 2": (lambda: 5, 5)}
JUDGE = Probe("box", "number", lambda given: BOXES, lambda given: {"One too many.": [4, 6]})


def judged_by(answer: Any) -> Any:
    """The judge's verdict."""
    return JUDGE.mark(JUDGE.collect(answer, Given()), Given())


def test_every_box_is_tried() -> None:
    finding = judged_by(lambda box: box())
    assert (finding.right, finding.says, finding.share) == (True, "Right for all 2 of them.", 1.0)


def test_the_first_wrong_number_is_told_and_the_mistake_is_named() -> None:
    finding = judged_by(lambda box: box() + 1)
    assert finding.says == "For chip 1 your function gives 4, which is wrong; 2 numbers of 2 are wrong."
    assert finding.mistake == "One too many."
    assert judged_by(lambda box: 3).share == 0, "one number for both"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda box: "many", "It should return one whole number: number."),
        (lambda box: 1 // 0, "raises ZeroDivisionError"),
        (lambda: 3, "The function is called with box"),
        (3, "The answer must be a function of box"),
    ],
)
def test_what_cannot_be_an_answer_is_refused(answer: Any, words: str) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        judged_by(answer)
    assert words in str(caught.value)


@pytest.mark.parametrize("seed", ["", "ada", "grace", "linus"])
def test_chips_of_a_real_kind_are_among_the_boxes(seed: str) -> None:
    kept = exercise("bits_kept").given(seed).kept
    assert {23, 24, 25} < set(kept)  # a V100, an A100, an H100
    assert len(set(kept)) == len(kept) == 6


def test_a_box_is_one_fused_sum() -> None:
    """The black boxes show what Fasi et al. 2021 found with their probes."""
    found = []

    def bits_kept(add: Callable[..., float]) -> int:
        found.append([add(1, 2.0**-n, -1) != 0 for n in range(1, 40)].count(True))
        return found[-1]

    assert judged(exercise("bits_kept"), bits_kept, "ada")
    assert tuple(found) == exercise("bits_kept").given("ada").kept
