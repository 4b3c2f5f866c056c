"""Predict, then reveal: what counts as right, what is said about the rest, and what a page without a kernel shows."""

import json
import re
from typing import Any

import numpy as np
import pytest

from tcemu import show
from tcemu.errors import TcemuError
from tcemu.show import Prediction, predict
from tcemu.show.formulas import evaluate

LANES = {"lane": range(32)}
ROWS = [lane // 4 for lane in range(32)]
FIRST = "0, 0, 0, 0, 1, 1, 1, 1, 2, 2, … for lane = 0, 1, …"


def ask(answer: Any, **how: Any) -> Prediction:
    """A question that has not been answered yet."""
    ask.number = getattr(ask, "number", 0) + 1  # type: ignore[attr-defined]
    return predict(f"Question {ask.number}?", answer, **how)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12), ("-3", -3), ("−3", -3), ("0x3d", 61), ("0b101", 5), ("1/8", 0.125), ("2^-13", 2**-13),
        ("2**-13", 2**-13), ("2⁻¹³", 2**-13), ("1.5 · 2⁶", 96), ("1e-3", 0.001), ("∞", float("inf")),
        ("-inf", float("-inf")), ("4,096", 4096), ("(1 + 2) * 3", 9), ("7 // 2 % 2", 1), ("1 << 4 | 1", 17),
    ],
)  # fmt: skip
def test_numbers_may_be_typed_as_one_writes_them(text: str, value: float) -> None:
    assert evaluate(text) == value


def test_with_variables_a_caret_is_xor() -> None:
    assert evaluate("lane ^ 1", {"lane": 5}) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a number or a formula"), ("1 +", "not a number or a formula"), ("lane", "'lane' is not a number"),
        ("2 lane", "not a number or a formula"), ("lane + 1", "'lane' in 'lane + 1' is unknown"),
        ("1 / 0", "no value: division by zero"), ("9**9**9", "too large"), ("1 << 10**9", "too large"),
        ("1.5 | 1", "for whole numbers"), ("__import__('os')", "not arithmetic"), ("(lambda: 1)()", "not arithmetic"),
        ("'a'", "not arithmetic"), ("[1]", "not arithmetic"), ("True", "not arithmetic"),
        ("x" * 5000, "... is not a number"),
    ],
)  # fmt: skip
def test_what_is_not_arithmetic_is_refused(text: str, words: str) -> None:
    with pytest.raises(TcemuError, match=re.escape(words)):
        evaluate(text)


@pytest.mark.parametrize(
    ("answer", "how", "given", "verdict"),
    [
        (73, {}, "73", "Right, 73."),
        (np.int64(73), {}, 64, "The answer is 73. You said 64, which is 9 too small."),
        (0.25, {}, "1/2", "The answer is 0.25. You said 1/2, which is 0.25 too large."),
        (np.float32(2**-13), {}, "2^-13", "Right, 2⁻¹³."),
        (float("nan"), {}, "NaN", "Right, NaN."),
        (448.0, {}, "inf", "The answer is 448. You said inf."),
        (1 + 2.0**-23, {}, "1.00000012", "Right, ≈ 1.00000012."),  # as it is shown
        (1 + 2.0**-23, {}, "1", "The answer is ≈ 1.00000012. You said 1, which is 2⁻²³ too small."),
        (31, {"among": range(32)}, "30", "The answer is 31. You said 30, which is 1 too small."),
        ("up", {"choices": ["up", "down"]}, "up", "Right, “up”."),
        (8, {"choices": {"one": 1, "a row": 8}}, "one", "The answer is “a row”. You said “one”."),
        (np.True_, {"choices": {"yes": True, "no": False}}, "yes", "Right, “yes”."),
        (0x7E, {"bits": "e4m3"}, "7e", "Right, 0x7e, which is 448."),
        (0x7E, {"bits": "e4m3"}, "0b0111_1110", "Right, 0x7e, which is 448."),
        (
            0x7E,
            {"bits": "e4m3"},
            "01110111",
            "The answer is 0x7e, which is 448. You said 0x77, which is 240: bits 0, 3 differ.",
        ),
        (5, {"bits": 4}, "4", "The answer is 0x5. You said 0x4: bit 0 differs."),
        ("lane // 4", {"over": LANES}, "lane >> 2", "Right, lane // 4."),
        (
            ROWS,
            {"over": LANES},
            "lane % 4",
            f"The answer is {FIRST}. You said lane % 4: for lane = 1 it gives 1, not 0; 28 of 32 values differ.",
        ),
    ],
)
def test_a_verdict_says_right_or_what_differs(answer: Any, how: Any, given: Any, verdict: str) -> None:
    assert ask(answer, **how).say(given) == verdict


def test_each_part_has_its_verdict() -> None:
    question = ask({"lane": 31, "register": 3}, among=range(32))
    assert question.say(31, 2) == "lane: Right, 31.\nregister: The answer is 3. You said 2, which is 1 too small."
    with pytest.raises(TcemuError, match="asks for 2 answers; got 1"):
        question.say(31)


def test_each_part_may_have_its_own_numbers() -> None:
    question = ask({"lane": 31, "register": 3}, among={"lane": range(32), "register": range(4)})
    with pytest.raises(TcemuError, match="4 is not among 0 to 3"):
        question.say(31, 4)
    assert question.say(31, 3) == "lane: Right, 31.\nregister: Right, 3."
    with pytest.raises(TcemuError, match="`among` names 'row', but the answer has 'lane'"):
        ask({"lane": 31}, among={"row": range(8)})


@pytest.mark.parametrize(
    ("answer", "how", "given", "words"),
    [
        (1, {}, " ", "predict first"),
        (1, {}, "one", "'one' is not a number"),
        (1, {"among": range(32)}, "32", "32 is not among 0 to 31"),
        (24, {"among": range(24, 257, 8)}, "25", "25 is not among 24 to 256 in steps of 8"),
        ("up", {"choices": ["up", "down"]}, "left", "choose 'up' or 'down'"),
        (1, {"bits": 8}, "0x100", "does not fit into 8 bits"),
        (1, {"bits": 8}, "xyz", "is not a pattern, such as 0x3d"),
        (ROWS, {"over": LANES}, "row", "the variables are lane"),
    ],
)
def test_what_is_not_an_answer_is_told_and_reveals_nothing(answer: Any, how: Any, given: str, words: str) -> None:
    question = ask(answer, **how)
    with pytest.raises(TcemuError, match=words):
        question.say(given)
    page = question._shown()
    page.asked = {"values": {"0": given}, "count": 1}
    assert "The answer" not in page.html
    assert "Right" not in page.html
    assert words.partition("'")[0] in page.said
    assert question.predicted == {}


@pytest.mark.parametrize(
    ("answer", "how", "words"),
    [
        ("up", {}, "an answer must be a number"),
        (np.zeros(3), {}, "an answer must be a number"),
        (7, {"choices": {"one": 1}}, "is not one of the choices"),
        (1, {"choices": {"one": 1, "also one": 1}}, "is not one of the choices"),
        (256, {"bits": "e4m3"}, "does not fit into 8 bits"),
        (1, {"bits": "e4m4"}, "e4m4"),
        ([1, 2], {"over": LANES}, "`over` has 32 cases, the answer 2 values"),
        (40, {"among": range(32)}, "is not among 0 to 31"),
        ({}, {}, "has no answer"),
    ],
)
def test_a_question_that_cannot_be_right_is_refused(answer: Any, how: Any, words: str) -> None:
    with pytest.raises(TcemuError, match=words):
        ask(answer, **how)


# ---------------------------------------------------------------------------------------------- in a page


def test_without_a_kernel_the_answer_is_folded_away() -> None:
    bundle = predict("How many `lanes`?", 73, reveal=show.number_bits("e4m3", 0x3D))._repr_mimebundle_()
    before, inside = bundle["text/html"].split("Answer</summary>")
    assert "<code>lanes</code>" in before
    assert "73" not in before
    assert inside.startswith("<p>73</p>")
    assert 'alt="Bits from the highest' in inside
    assert bundle["text/plain"] == "Predict. How many `lanes`?"


def test_with_a_kernel_the_page_knows_no_answer_until_one_is_given() -> None:
    question = ask(73, reveal=show.number_bits("e4m3", 0x3D))
    page = question._shown()
    assert "73" not in json.dumps(page.get_state(["controls", "html", "said", "head", "button"]))
    page.asked = {"values": {"0": "64"}, "count": 1}
    assert "</span> The answer is 73. You said 64, which is 9 too small.</p><figure" in page.html
    assert page.said == "The answer is 73. You said 64, which is 9 too small."


def test_a_sentence_that_is_revealed_is_prose_and_lines_stay_lines() -> None:
    def revealed(shown_then: str) -> str:
        return str(predict("How many?", 73, reveal=shown_then)._repr_mimebundle_()["text/html"])

    assert "<p>It is a &lt; b.</p>" in revealed("It is a < b.")
    assert "<pre>a b\n1 2</pre>" in revealed("a b\n1 2")


def test_what_is_compared_stays_in_the_controls_right_or_wrong_or_no_answer() -> None:
    question = ask({"which": 8, "how many": 3}, among={"how many": range(9)})
    page = question._shown()
    for count, (values, texts, rejected) in enumerate(
        [
            ({"0": "8"}, ["8", ""], True),  # the second is missing
            ({"1": "many"}, ["8", "many"], True),
            ({"1": "2"}, ["8", "2"], False),
            ({"1": "3"}, ["8", "3"], False),
        ],
        1,
    ):
        page.asked = {"values": values, "count": count}
        assert [control["value"] for control in page.controls] == texts
        assert page.button == ("Compare" if rejected else "Compare again")
    question.say(1, 2)
    assert [control["value"] for control in page.controls] == ["1", "2"]


def test_right_and_wrong_differ_in_more_than_colour() -> None:
    question = ask({"lane": 31, "register": 3})
    page = question._shown()
    page.asked = {"values": {"0": "31", "1": "2"}, "count": 1}
    assert re.findall("(tcemu-right|tcemu-wrong).*?>(.)</span> (lane: Right|register: The answer)", page.html) == [
        ("tcemu-right", "✓", "lane: Right"), ("tcemu-wrong", "✗", "register: The answer"),
    ]  # fmt: skip
    assert page.said.startswith("lane: Right")


@pytest.mark.parametrize(
    ("given", "right"),
    [("3", True), ("d3", True), ("D3", True), (" register 3", True), ("d 3", True), ("d2", False)],
)
def test_a_register_may_be_named_as_the_question_names_it(given: str, right: bool) -> None:
    question = predict("In which register, d0 to d3?", {"register d": 3}, among=range(4))
    assert question.say(given).startswith("register d: Right") == right
    with pytest.raises(TcemuError, match="'a3' is not a number"):
        question.say("a3")
    with pytest.raises(TcemuError, match="d4 is not among 0 to 3"):
        question.say("d4")


def test_a_prediction_is_there_again_when_the_cell_is_run_again() -> None:
    predict("Twice?", 2).say(1)
    page = predict("Twice?", 3)._shown()
    assert page.controls[0]["value"] == "1"
    assert page.said == "The answer is 3. You said 1, which is 2 too small."


def test_a_pattern_is_revealed_with_its_bits() -> None:
    assert show.number_bits("e4m3", 0x7E).portable_html in ask(0x7E, bits="e4m3")._repr_mimebundle_()["text/html"]


def test_what_a_reader_types_is_text_in_the_page() -> None:
    question = ask(ROWS, over=LANES)
    page = question._shown()
    page.asked = {"values": {"0": "<b>lane</b>"}, "count": 1}
    assert "<b>" not in page.html
