"""The first notebooks in a real JupyterLab in a real browser: by mouse, by keyboard alone, at 200 %, in both themes.

axe-core looks for barriers. Skipped without chromium or playwright (tests/lab.py).
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import CHROMIUM, THEMES, WINDOW, Lab

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright").expect
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]


each_theme = pytest.mark.parametrize("theme", THEMES)


@pytest.fixture(scope="module")
def first_light(fresh: Callable[[], Lab]) -> Iterator[Lab]:
    """Notebook 00, opened and not yet run."""
    view = fresh()
    view.open("00_first_light.ipynb")
    yield view
    view.page.close()


@pytest.fixture(scope="module")
def second(fresh: Callable[[], Lab]) -> Iterator[Lab]:
    """Another page."""
    view = fresh()
    yield view
    view.page.close()


@pytest.fixture(scope="module")
def numbers(second: Lab) -> Lab:
    """Notebook 01, all cells run."""
    second.open("01_numbers.ipynb")
    second.run_all()
    return second


def _visible(view: Lab, selector: str) -> int:
    return sum(element.is_visible() for element in view.page.locator(selector).all())


def test_a_fresh_copy_shows_its_pictures_before_anything_has_run(first_light: Lab) -> None:
    """JupyterLab does not trust it yet and removes SVG: images replace it, and no stray text appears."""
    figure = first_light.page.locator("figure:visible", has_text="lane and register of each element").first
    figure.scroll_into_view_if_needed()
    assert figure.locator("img").is_visible()
    assert figure.locator("svg").count() == 0
    assert "lane and register of each element" in figure.inner_text()
    assert "13 a0" not in figure.inner_text()
    first_light.shot("untrusted", figure)


#: A question of notebook 00 with two numbers to type.
TWO_PARTS = "Which lane holds the last element of D"


def test_a_fresh_copy_folds_the_answers_away(first_light: Lab) -> None:
    question = first_light.page.locator(".jp-OutputArea-output", has_text=TWO_PARTS).first
    question.scroll_into_view_if_needed()
    assert "lane: 31" not in question.inner_text()
    question.locator("summary").first.click()
    assert "lane: 31" in question.inner_text()
    question.locator("summary").first.click()


def test_all_cells_run_and_the_live_drawing_takes_over(first_light: Lab) -> None:
    first_light.run_all_from_the_menu()
    assert (
        first_light.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0
    )
    figure = first_light.page.locator("figure:visible", has_text="One fused sum: 3 terms").first
    figure.scroll_into_view_if_needed()
    assert figure.locator("svg").is_visible()
    assert not figure.locator("img").is_visible()
    first_light.shot("fused-sum", figure)


MAP = "lane and register of each element"


def test_the_slider_is_dragged_and_the_picture_follows(first_light: Lab) -> None:
    explorer = first_light.view(MAP)
    assert "lane 13 holds the marked cells" in explorer.inner_html()  # a later cell did not move it
    slider = explorer.get_by_label("lane, slider")
    slider.evaluate("element => element.scrollIntoView({block: 'center', behavior: 'instant'})")
    box, mouse = slider.bounding_box(), first_light.page.mouse
    height = box["y"] + box["height"] / 2
    mouse.move(box["x"] + box["width"] * 13.5 / 32, height)
    mouse.down()
    mouse.move(box["x"] + box["width"] * 0.8, height, steps=10)
    mouse.up()
    first_light.settle()
    lane = int(slider.input_value())
    assert 22 <= lane <= 28
    assert f"lane {lane} holds the marked cells" in explorer.inner_html()


def test_arrow_keys_move_the_slider_and_nothing_else(first_light: Lab) -> None:
    explorer = first_light.view(MAP)
    slider = explorer.get_by_label("lane, slider")
    slider.focus()
    for key in ("Home", "ArrowRight", "ArrowUp", "ArrowRight", "ArrowLeft"):
        first_light.page.keyboard.press(key)
        first_light.settle()
    assert "lane 2 holds the marked cells" in explorer.inner_html()
    assert slider.evaluate("element => element === document.activeElement")


def test_letters_are_no_commands_in_a_control(first_light: Lab) -> None:
    cells = first_light.page.locator(".jp-Cell").count()
    explorer = first_light.view(MAP)
    controls = [explorer.get_by_label("lane, slider"), explorer.locator(".tcemu-scroll").first]
    controls.append(first_light.view("bit 0 of register a0 in lane 13").get_by_label("operand"))
    controls.append(first_light.view("Which elements of D change?").get_by_label("one", exact=True))
    others = (".tcemu-check summary", "figure summary", ".jp-RenderedMarkdown summary", ".jp-RenderedMarkdown a")
    controls += [first_light.page.locator(f"{each}:visible").first for each in others]
    for control in controls:
        control.focus()
        for key in "xmyba":  # JupyterLab: cut the cell, make it Markdown, make it code, insert cells
            first_light.page.keyboard.press(key)
            assert first_light.page.locator(".jp-Cell").count() == cells, (control, key)


def test_the_number_box_has_a_name_and_takes_keys(first_light: Lab) -> None:
    explorer = first_light.view(MAP)
    box = explorer.get_by_label("lane", exact=True)
    box.fill("21")
    box.press("Enter")
    first_light.settle()
    assert "lane 21 holds the marked cells" in explorer.inner_html()
    box.fill("99")
    box.press("Tab")
    first_light.settle()
    assert "lane 31 holds the marked cells" in explorer.inner_html()
    box.fill("22")
    box.press("Tab")
    first_light.settle()
    first_light.shot("who-holds-what", explorer)


def test_a_clicked_cell_chooses_its_lane(first_light: Lab) -> None:
    explorer = first_light.view(MAP)
    explorer.locator(".zd .i3.j4").click()
    first_light.settle()
    assert "lane 14 holds the marked cells" in explorer.inner_html()
    assert explorer.get_by_label("lane", exact=True).input_value() == "14"
    box = explorer.get_by_label("lane", exact=True)
    box.fill("22")
    box.press("Enter")
    first_light.settle()


def test_the_code_of_a_question_is_folded_and_can_be_unfolded(first_light: Lab) -> None:
    cell = first_light.page.locator(".jp-CodeCell", has_text="Which elements of D change?").first
    assert not cell.locator(".cm-content").is_visible()
    assert "flipped" not in cell.inner_text(), "not even its first line"
    cell.locator(".jp-InputPlaceholder .jp-Placeholder-content").click()
    assert cell.locator(".cm-content").is_visible()


def test_what_is_open_stays_open_and_what_changes_is_announced(first_light: Lab) -> None:
    explorer = first_light.view(MAP)
    explorer.locator("summary").first.click()
    slider = explorer.get_by_label("lane, slider")
    slider.focus()
    first_light.page.keyboard.press("ArrowLeft")
    first_light.settle()
    assert explorer.locator("details").first.evaluate("element => element.open")
    said = explorer.locator(":scope > [aria-live=polite]")
    expect(said).to_contain_text(f"mma m16n8k16 f16: {MAP}. Lane 21 holds a0 = row 5 columns 2–3")
    slider.focus()
    first_light.page.keyboard.press("ArrowRight")
    first_light.settle()


def test_the_picture_has_a_name_and_a_description(first_light: Lab) -> None:
    picture = first_light.view(MAP).get_by_role("img")
    named = first_light.page.evaluate(
        """svg => [svg.getAttribute("aria-labelledby"), svg.getAttribute("aria-describedby")]
            .map(id => document.getElementById(id).textContent)""",
        picture.element_handle(),
    )
    assert named[0] == "mma m16n8k16 f16: lane and register of each element"
    assert named[1].startswith("Lane 22 holds a0 = row 5 columns 4–5")


def _lit(view: Any) -> list[str]:
    """The bands that one sees."""
    script = "all => all.filter(each => getComputedStyle(each).opacity > 0).map(each => each.getAttribute('class'))"
    return sorted(view.locator(".y path").evaluate_all(script))


def test_pointing_at_an_element_lights_what_it_is_made_of(first_light: Lab) -> None:
    explorer = first_light.view(MAP)
    made_of = {".zd .i3.j4": ["ai3", "bj4"], ".za .i3.k4": ["bk4 bk5", "di3"], ".zb .k4.j2": ["ak4 ak5", "dj2"]}
    for cell, bands in made_of.items():
        explorer.locator(cell).first.scroll_into_view_if_needed()
        explorer.locator(cell).first.hover()
        assert _lit(explorer) == bands
    first_light.shot("lit", explorer)
    first_light.page.mouse.move(5, 5)
    assert _lit(explorer) == []


def test_arrow_keys_walk_through_the_map(first_light: Lab) -> None:
    explorer = first_light.view(MAP)
    explorer.locator(".tcemu-scroll").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        first_light.page.keyboard.press(key)
    said = explorer.locator(".tcemu-scroll [role=status]").first
    assert said.text_content() == "D[1, 1]: d1 of lane 4"
    assert _lit(explorer) == ["ai1", "bj1"]
    for _ in range(2):
        first_light.page.keyboard.press("ArrowLeft")
    assert said.text_content() == "A[1, 14–15]: a2 of lane 7"
    assert explorer.locator(".tcemu-scroll").first.evaluate("element => element === document.activeElement")
    first_light.page.keyboard.press("Escape")
    assert _lit(explorer) == []


def test_a_prediction_is_typed_first_and_then_compared(first_light: Lab) -> None:
    question = first_light.view(TWO_PARTS)
    assert "answer is 31" not in question.inner_text()
    question.get_by_label("lane", exact=True).fill("22")
    question.get_by_label("register d", exact=True).fill("three")
    question.get_by_label("register d", exact=True).press("Enter")
    first_light.settle()
    assert "'three' is not a number" in question.inner_text()
    assert "answer is 31" not in question.inner_text()
    question.get_by_label("register d", exact=True).fill("3")
    question.get_by_label("register d", exact=True).press("Enter")
    first_light.settle()
    assert "lane: The answer is 31. You said 22, which is 9 too small." in question.inner_text()
    expect(question.locator("[aria-live=polite]").last).to_have_text(re.compile(r"register d: Right, 3\.$"))
    first_light.shot("predicted", question)


def test_a_prediction_is_chosen_with_the_keyboard_alone(first_light: Lab) -> None:
    question, keyboard = first_light.view("Which elements of D change?"), first_light.page.keyboard
    question.get_by_label("one", exact=True).focus()
    around = ["ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"]
    back = ["ArrowUp", "ArrowLeft", "ArrowLeft", "ArrowLeft"]
    for key in (*around, *back):
        keyboard.press(key)
    keyboard.press("ArrowDown")
    keyboard.press("Tab")
    assert first_light.page.evaluate("document.activeElement.textContent") == "Compare"
    keyboard.press("Enter")
    first_light.settle()
    assert "Right, “those of one row”." in question.inner_text()
    assert question.get_by_label("those of one row").is_checked(), "what is judged is shown"
    assert question.locator("figure svg").is_visible()
    first_light.shot("chosen", question)


def test_a_flipped_bit_moves_a_column(first_light: Lab) -> None:
    explorer = first_light.view("bit 0 of register a0 in lane 13")
    explorer.scroll_into_view_if_needed()
    explorer.get_by_label("operand").focus()
    first_light.page.keyboard.press("ArrowDown")
    first_light.settle()
    flipped = first_light.view("16 of 128 elements of D changed: bit 0 of register b0 in lane 13")
    assert flipped.is_visible()
    first_light.shot("one-bit", flipped)


def test_at_200_percent_maps_scroll_and_stay_readable(first_light: Lab) -> None:
    first_light.resize(700, 500)
    try:
        box = first_light.view(MAP).locator(".tcemu-scroll").first
        wide, room = box.evaluate("element => [element.scrollWidth, element.clientWidth]")
        assert wide > room
        text = box.locator("svg .n text").first.evaluate("element => element.getBoundingClientRect().height")
        assert text >= 8  # pixels of the page, twice as many on the screen
        first_light.shot("zoomed")
    finally:
        first_light.resize(*WINDOW)


#: The letters of ordinary text that the widest paragraph of a notebook has room for in a line.
_LONGEST = """() => {
    const textContent = "What the tensor core computes is the sum of the products and of one more number. ".repeat(9);
    const all = [...document.querySelectorAll(".jp-RenderedMarkdown p")];
    const one = Object.assign(document.createElement("span"), { textContent });
    one.style.whiteSpace = "nowrap";
    all[0].append(one);
    const letter = one.getBoundingClientRect().width / textContent.length;
    one.remove();
    return Math.max(...all.map((each) => each.clientWidth)) / letter;
}"""


def test_cells_have_line_numbers_and_text_has_lines_of_a_readable_length(first_light: Lab) -> None:
    page = first_light.page
    cells = page.locator(".jp-CodeCell .jp-InputArea-prompt")  # what is folded has none
    assert page.locator(".jp-CodeCell .cm-lineNumbers").count() == cells.count() > 20
    assert 75 < page.evaluate(_LONGEST) < 92


def test_the_first_page_follows_what_is_written_into_it(second: Lab, home: Path) -> None:
    start = home / "work" / "START.md"
    start.write_text("# 0 of 2 solved\n", encoding="utf-8")
    page = second.page
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:open', {path: 'START.md'})")
    shown = page.locator(".jp-MarkdownViewer h1")
    expect(shown).to_contain_text("0 of 2 solved", timeout=60_000)
    start.write_text("# 1 of 2 solved\n", encoding="utf-8")
    expect(shown).to_contain_text("1 of 2 solved", timeout=60_000)
    page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")


@each_theme
def test_lists_are_legible(numbers: Lab, theme: str) -> None:
    numbers.theme(theme)
    colours = (
        numbers.view("pattern 0x")
        .get_by_label("format")
        .evaluate("element => [getComputedStyle(element).color, getComputedStyle(element).backgroundColor]")
    )
    ink, paper = (sum(_channels(colour)) for colour in colours)
    assert abs(paper - ink) > 450
    assert (paper > ink) == (theme == "light")


def test_an_error_shows_the_readers_line(numbers: Lab) -> None:
    page = numbers.page
    page.locator(".jp-CodeCell .cm-content").last.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("\ntcemu.parse('mma.sync.aligned.m16n8k17')")
    page.keyboard.press("Control+Enter")
    output = page.locator("[data-mime-type='application/vnd.jupyter.error'], [data-mime-type*='stderr']").last
    output.wait_for(timeout=600_000)
    lines = output.inner_text().splitlines()
    assert lines[0] == "IllegalInstruction"
    assert "Cell In[" in lines[1]
    assert any("----> " in line and "m16n8k17" in line for line in lines)
    assert "/tcemu/" not in output.inner_text()
    assert "ipykernel" not in output.inner_text()
    numbers.shot("error", output)


@each_theme
def test_the_pictures_are_drawn_in_the_colours_of_the_theme(first_light: Lab, theme: str) -> None:
    first_light.theme(theme)
    svg = first_light.view(MAP).locator("svg").first
    paper = svg.evaluate("element => getComputedStyle(element).backgroundColor")
    ink = svg.evaluate("element => getComputedStyle(element).fill")
    assert (paper == "rgb(255, 255, 255)") == (theme == "light")
    assert (sum(_channels(ink)) < 300) == (theme == "light")
    mark = svg.locator("rect.x").first.evaluate("element => getComputedStyle(element).fill")
    assert mark == {"light": "rgb(255, 230, 128)", "dark": "rgb(87, 71, 0)"}[theme]


def _channels(colour: str) -> list[float]:
    return [float(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]]


def test_every_picture_fits_its_column(first_light: Lab, numbers: Lab) -> None:
    for view in (first_light, numbers):
        for svg in view.page.locator("figure svg").all():
            if svg.is_visible():
                wide = svg.evaluate(
                    "element => element.scrollWidth <= element.closest('.jp-OutputArea-output').clientWidth"
                )
                assert wide, svg.text_content()


def test_a_number_keeps_its_value_in_another_format(numbers: Lab) -> None:
    explorer = numbers.view("pattern 0x")
    explorer.scroll_into_view_if_needed()
    explorer.get_by_label("format").select_option("e5m2")
    numbers.settle()
    assert "e5m2 pattern 0x38 is 0.5" in explorer.inner_text()
    for name, value in (("exponent", "16"), ("mantissa", "1")):
        box = explorer.get_by_label(name, exact=True)
        box.fill(value)
        box.press("Tab")
        numbers.settle()
    assert "e5m2 pattern 0x41 is 2.5" in explorer.inner_text()
    explorer.get_by_label("format").select_option("ue8m0")
    numbers.settle()
    assert not explorer.get_by_label("sign", exact=True).is_visible()
    assert not explorer.get_by_label("mantissa", exact=True).is_visible()
    numbers.shot("bits", explorer)


def test_screenshots_of_the_whole_course(first_light: Lab, numbers: Lab) -> None:
    """Walk through both notebooks, as a reader does; nothing on the pages goes wrong."""
    for view in (first_light, numbers):
        view.page.bring_to_front()  # a page behind another one draws once in a second
        for number, output in enumerate(view.page.locator("figure").all()):
            if output.is_visible():
                output.evaluate("element => element.scrollIntoView({block: 'center', behavior: 'instant'})")
                view.shot(f"figure-{number:02d}", output)
        view.shot("page")
        assert view.errors == []
