"""Explorers and questions of the book: they answer in a page without a kernel as they do with one.

The scripts get what the book stores, in an empty page. Skipped without chromium or playwright (tests/lab.py).
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lab import ARGUMENTS, CHROMIUM
from places import ROOT

import tcemu
from tcemu import show
from tcemu.commands.book.build import _SCRIPTS, _answering, _write_scripts
from tcemu.commands.book.frames import frames
from tcemu.errors import TcemuError
from tcemu.show import widgets
from tcemu.show.formulas import evaluate
from tcemu.show.words import neat

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]
MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("scripts") / "answers"
    _write_scripts(folder)
    static = ROOT / "tcemu/commands/book/static"
    return "\n".join(
        (place / name).read_text(encoding="utf-8")
        for name in _SCRIPTS
        for place in (folder, static)
        if (place / name).is_file()
    )


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with sync_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield chromium.new_page()
        chromium.close()


def _open(page: Any, scripts: str, facts: dict[str, Any]) -> Any:
    """The view of an explorer or a question, in a page that has only what the book stores."""
    page.goto("about:blank")
    page.set_content(f"<!DOCTYPE html><title>book</title>{_answering('<p>stored</p>', facts, set())}")
    page.add_script_tag(content=scripts)
    page.wait_for_selector("html[data-tcemu-answers=ready]", state="attached")
    return page.locator(".tcemu-view")


def _title(view: Any) -> Any:
    return view.locator("figcaption").text_content()


def test_an_explorer_answers_the_keyboard_and_the_list_with_the_pictures_of_a_kernel(page: Any, scripts: str) -> None:
    explorer = widgets.fragment_by_target("wmma.load.c.sync.aligned.row.m8n32k16.s32", target="sm_75", lane=5)
    view = _open(page, scripts, frames(explorer))
    assert page.locator("body").inner_text().find("stored") < 0
    assert _title(view) == explorer.picture.title
    slider = view.get_by_role("slider", name="lane, slider")
    for key, lane in (("ArrowRight", 6), ("End", 31), ("PageDown", 21), ("Home", 0)):
        slider.press(key)
        assert _title(view) == explorer.at(lane=lane).picture.title
    view.get_by_label("target").select_option("sm_90a")
    wanted = explorer.at(lane=0, target="sm_90a")
    assert _title(view) == wanted.picture.title
    assert view.locator("details p").text_content() == wanted.picture.description
    page.wait_for_function("said => document.querySelector('.tcemu-said').textContent === said", arg=wanted.said)


def test_a_slider_ends_where_the_other_controls_let_it(page: Any, scripts: str) -> None:
    registers = [np.zeros((32, fragment.registers), np.uint32) for _, fragment in sorted(MMA.fragments.items())[:3]]
    explorer = widgets.flip_one_bit(MMA, *registers, operand="a", lane=13, register=3)
    view = _open(page, scripts, frames(explorer))
    assert "moving bit takes the other controls back" in view.locator(".tcemu-note").text_content()
    view.get_by_label("lane", exact=True).fill("20")
    view.get_by_label("lane", exact=True).press("Enter")
    assert _title(view) == explorer.at(lane=20).picture.title
    view.get_by_role("slider", name="bit, slider").press("ArrowRight")
    assert _title(view) == explorer.at(bit=1).picture.title
    assert view.get_by_label("lane", exact=True).input_value() == "13"


def test_a_slider_with_many_positions_keeps_some_and_says_so(page: Any, scripts: str) -> None:
    explorer = widgets.rounding_of_a_number("e4m3", 1.3)
    view = _open(page, scripts, frames(explorer))
    assert "number moves in steps of 0.05" in view.locator(".tcemu-note").text_content()
    view.get_by_role("slider").press("ArrowRight")
    assert _title(view) == explorer.at(number=1.35).picture.title
    view.get_by_label("format").select_option("e2m1")
    assert _title(view) == explorer.at(form="e2m1").picture.title
    view.get_by_label("format").select_option("e4m3")
    assert _title(view) == explorer.picture.title


def test_two_explorers_of_a_page_share_their_states_and_start_where_each_starts(page: Any, scripts: str) -> None:
    first = widgets.fragment_by_target("wmma.load.c.sync.aligned.row.m8n32k16.s32", target="sm_75", lane=5)
    second, shared = first.at(target="sm_90a", lane=7), set[str]()
    outputs = [_answering(f"<p>{each}</p>", frames(each), shared) for each in (first, second)]
    assert len(outputs[1]) < 1000 < len(outputs[0])
    page.goto("about:blank")
    page.set_content("".join(outputs))
    page.add_script_tag(content=scripts)
    page.wait_for_selector("html[data-tcemu-answers=ready]", state="attached")
    assert page.locator("figcaption").all_text_contents() == [each.picture.title for each in (first, second)]
    page.get_by_role("slider").nth(1).press("ArrowRight")
    wanted = [first.picture.title, first.at(target="sm_90a", lane=8).picture.title]
    assert page.locator("figcaption").all_text_contents() == wanted


def test_a_picture_that_cannot_be_drawn_is_left_out() -> None:
    def draw(size: int) -> show.Picture:
        if size == 2:
            raise tcemu.errors.OperandError("no picture")
        return show.number_bits("e4m3", size)

    kept = frames(widgets.Explorer(draw, {"size": widgets.Range("size", 3)}))
    assert [state["values"] for state in kept["states"]] == [(0,), (1,), (3,)]


# ------------------------------------------------------------------------------------------------ questions

#: A question of each kind, and what readers say: right, nearly, wrong, and what is no answer.
QUESTIONS = [
    (show.predict("How many lanes?", 32),
     ["32", "16", "64.5", "2^5", "2⁵", "0x20", "1e400", "", "lane 3", "x", "32 lanes"]),
    (show.predict("Which lane?", 14, among=range(32)), ["14", "lane 14", "13", "32", "-1", "13.5"]),
    (show.predict("Which N?", 24, among=[8, 16, 24]), ["24", "8", "12"]),
    (show.predict("How large?", 2**-13),
     ["2^-13", "2⁻¹³", "1/8192", "0.000122070312", "0.0001", "-2⁻¹³", "inf", "nan"]),
    (show.predict("Is it a number?", float("nan")), ["nan", "NaN", "0"]),
    (show.predict("Rounded?", 1 / 3), ["0.333333333", "1/3", "0.3"]),
    (show.predict("How many?", {"a": 73, "b": -61}), [("73", "-61"), ("73", "−60"), ("73", "")]),
    (show.predict("Which?", 8, choices={"a `row`": 8, "all": 128}), ["a `row`", "all"]),
    (show.predict("Write 448.", 0x7E, bits="e4m3"),
     ["0x7e", "7E", "01111110", "0b111_1110", "0x7f", "0x77", "0x1ff", "8x", ""]),
    (show.predict("Which bits?", 0xDEADBEEF, bits=32), ["0xdeadbeef", "DEADBEEE", "0", "-1"]),
    (show.predict("A formula?", [lane // 4 for lane in range(32)], over={"lane": range(32)}),
     ["lane // 4", "lane >> 2", "lane/4", "(lane - lane % 4) / 4", "lane % 4", "lane ^ 1",
      "row", "lane +", "1 << lane"]),
    (show.predict("Two?", "(row % 8) * 4 + k // 2", over={"row": range(16), "k": range(4)}),
     ["row%8*4 + k//2", "row * 4", "row & 7 | k", "-row % 8", "~row"]),
]  # fmt: skip


@pytest.mark.parametrize(("question", "given"), QUESTIONS, ids=lambda each: str(each)[9:30])
def test_a_question_says_what_it_says_with_a_kernel(page: Any, scripts: str, question: Any, given: list[Any]) -> None:
    facts = question.page()
    page.goto("about:blank")
    page.add_script_tag(content=scripts)
    judged = """([parts, all]) => all.map((texts) => {
        try { return tcemu.judge(parts, texts).map((each) => each.told).join("\\n"); }
        catch (error) { return error.message; }
    })"""
    answers = [each if isinstance(each, tuple) else (each,) for each in given]
    for answer, told in zip(answers, page.evaluate(judged, [facts["parts"], answers]), strict=True):
        try:
            wanted = question.say(*answer)
        except TcemuError as error:
            wanted = str(error)
        assert told == wanted


def test_a_question_is_judged_wrong_and_right_and_then_shows_its_picture(page: Any, scripts: str) -> None:
    question = show.predict("Which lane holds `D[1][1]`?", 4, among=range(32), reveal=show.number_bits("f16", 4))
    view = _open(page, scripts, question.page())
    assert view.locator("code").text_content() == "D[1][1]"
    box, button = view.get_by_label("Your prediction"), view.get_by_role("button")
    button.click()
    assert "predict first: type or choose an answer" in view.locator(".tcemu-answer").inner_text()
    assert view.locator("figure").count() == 0
    box.fill("5")
    box.press("Enter")
    assert "The answer is 4. You said 5, which is 1 too large." in view.inner_text()
    assert view.locator(".tcemu-wrong, .tcemu-right").get_attribute("class") == "tcemu-wrong"
    assert view.locator("figure").count() == 1
    assert button.text_content() == "Compare again"
    box.fill("lane 4")
    button.press("Enter")
    assert "Right, 4." in view.inner_text()
    assert view.locator(".tcemu-wrong, .tcemu-right").get_attribute("class") == "tcemu-right"
    page.wait_for_function("() => document.querySelector('.tcemu-said').textContent === 'Right, 4.'")


#: Formulas, with the values of x and y.
FORMULAS = [
    "1 + 2 * 3 ** 2", "-2 ** 2", "2 ** 3 ** 2", "-7 // 2", "-7 % 3", "7.5 // 2", "-7.5 % 2", "7 / 2", "1_000", "1e3",
    "0b101 | 2", "0o17", "x << 2 >> 1", "x ^ y", "~x & 15", "(x + y) * -1", "2 ** -3", "+x", "x % 0", "1 / 0",
    "2 ** 9999", "1.5 & 1", "(1", "1 2", "x y", "", "012", "-x % 5", "1e-5", "1.", ".5", "X + Y", "9" * 30, "x == y",
    "INF", "3 − 1", "2·3", "6 ÷ 4", "2⁻¹", "True + 1", "x * (2 - None)", "true + 1", "False",
]  # fmt: skip
#: Messages whose end Python words itself, another way in each version.
OWN_WORDS = ("x == y", "1 / 0", "x % 0", "2 ** 9999")


def test_formulas_have_the_values_that_python_gives_them(page: Any, scripts: str) -> None:
    page.goto("about:blank")
    page.add_script_tag(content=scripts)
    asked = """(all) => all.map((text) => {
        try { return [tcemu.written(tcemu.evaluate(text, { x: 6n, y: 3n })), ""]; }
        catch (error) { return ["", error.message]; }
    })"""
    for text, (value, error) in zip(FORMULAS, page.evaluate(asked, FORMULAS), strict=True):
        try:
            wanted, message = neat(evaluate(text, {"x": 6, "y": 3})), ""
        except TcemuError as raised:
            wanted, message = "", str(raised)
        assert (text, value) == (text, wanted)
        assert bool(error) == bool(message)
        assert text in OWN_WORDS or (text, error) == (text, message)


#: Ties in the tenth digit, powers of two, ends of the range, exponents of both signs.
NUMBERS = [
    0.0, -0.0, 1.0, -1.5, 1 / 3, 2 / 3, 0.001220703125, 1.220703125, 3 * 2.0**-13, 2.0**-24, -(2.0**-24), 2.0**20,
    2.0**24, 1e22, 1e-5, 0.0001, 0.00012345, 123456789.0, 1234567890.0, 999999999.5, 0.1 + 0.2, 65504.0, 448.0,
    float("inf"), float("-inf"), float("nan"), 5e-324, 1.7976931348623157e308, 2.0**1023, 100000.0, 12345678.9,
]  # fmt: skip


def test_numbers_are_written_as_the_pictures_write_them(page: Any, scripts: str) -> None:
    page.goto("about:blank")
    page.add_script_tag(content=scripts)
    told = page.evaluate(
        "(all) => all.map((text) => tcemu.written(tcemu.parsed(text)))", [repr(each) for each in NUMBERS]
    )
    assert dict(zip(map(repr, NUMBERS), told, strict=True)) == {repr(each): neat(each) for each in NUMBERS}
    whole = [0, 7, -32, 2**24, 2**53 + 1, -(2**31), 10**30]
    told = page.evaluate(
        "(all) => all.map((text) => tcemu.written(tcemu.parsed(text)))", [repr(each) for each in whole]
    )
    assert told == [neat(each) for each in whole]


def test_the_facts_of_a_question_can_be_stored() -> None:
    for question, _ in QUESTIONS:
        assert json.loads(json.dumps(question.page()))["controls"]
