"""The page's half of an explorer, without JupyterLab: late answers, and pictures that keep what has not changed.

Skipped without chromium or playwright (tests/lab.py).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from lab import ARGUMENTS, CHROMIUM
from places import ROOT

import tcemu
from tcemu import show
from tcemu.layouts import Descriptor

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]

MMA = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
ZEROS = np.zeros((16, 8), np.float32)
#: Pictures of one explorer, as its controls move: other labels, marks that come and go, another size, another style.
MOVES = {
    "map": [show.mma_map(MMA, lane=lane) for lane in (13, 14, 0)],
    "changes": [show.changes(ZEROS, after) for after in (ZEROS, np.eye(16, 8, dtype=np.float32), ZEROS + 1)],
    "descriptor": [show.descriptor(Descriptor(16)), show.descriptor_of_tcgen05(Descriptor(16)), show.descriptor(1)],
}
#: A slider and a list, as Python describes them.
LANE = {"kind": "range", "name": "lane", "label": "lane", "value": 0, "low": 0, "high": 31, "step": 1}
ROLE = {"kind": "select", "name": "role", "label": "operand", "value": "a", "options": ["a", "b"]}
#: Shows a view of one model, to which `show` gives another picture and `answer` what Python answers.
_SETUP = """async ([source, html, controls, button]) => {
    const module = await import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
    const held = { html, controls, head: '', button, said: '', asked: {}, answered: 0 }, heard = {};
    const set = (name, value) => { held[name] = value; };
    const model = { get: (name) => held[name], set, save_changes() {}, on: (name, act) => { heard[name] = act; } };
    module.default.render({ model, el: document.getElementById('view') });
    window.figure = document.querySelector('.tcemu-figure');
    window.show = (html) => { held.html = html; heard['change:html'](); };
    window.answer = (controls, answered) => {
        Object.assign(held, { controls, answered });
        heard['change:controls']();
        heard['change:answered']();
    };
    window.asked = () => held.asked;
}"""
#: Whether the view is what the HTML describes, whose picture has another name.
_AS_FRESH = """([html, key]) => {
    const made = figure.cloneNode();
    made.innerHTML = html.replaceAll(key, figure.querySelector('svg').id);
    return figure.isEqualNode(made);
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    with sync_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield chromium.new_page()
        chromium.close()


def _view(page: Any, html: str, *controls: dict[str, Any], button: str = "") -> None:
    """Let the page show a fresh view of a picture with controls."""
    page.set_content('<div id="view"></div>')
    page.evaluate(_SETUP, [(ROOT / "tcemu/show/view.js").read_text(encoding="utf-8"), html, list(controls), button])


def _answer(page: Any, count: int, *controls: dict[str, Any]) -> None:
    page.evaluate("([controls, count]) => answer(controls, count)", [list(controls), count])


@pytest.mark.parametrize("name", MOVES)
def test_a_picture_that_follows_another_is_the_one_a_fresh_view_shows(page: Any, name: str) -> None:
    for at, picture in enumerate(MOVES[name]):
        _view(page, MOVES[name][at - 1].html)
        page.evaluate("html => show(html)", picture.html)
        assert page.evaluate(_AS_FRESH, [picture.html, picture.key])


def test_what_has_not_changed_stays(page: Any) -> None:
    first, second = (picture.html for picture in MOVES["map"][:2])
    _view(page, first)
    page.evaluate("window.cells = [...figure.querySelectorAll('svg *')]; figure.querySelector('details').open = true")
    page.evaluate("html => show(html)", second)
    kept = page.evaluate("cells.filter(each => each.isConnected).length / cells.length")
    assert kept > 0.9
    assert page.evaluate("figure.querySelector('details').open")


def test_a_late_answer_does_not_set_back_a_slider_that_is_still_moving(page: Any) -> None:
    _view(page, "", LANE)
    slider = page.get_by_role("slider")
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    assert page.evaluate("asked()") == {"values": {"lane": 2}, "count": 2}
    _answer(page, 1, LANE | {"value": 1})
    assert slider.input_value() == "2"
    _answer(page, 2, LANE | {"value": 2})
    assert slider.input_value() == "2"
    _answer(page, 2, LANE | {"value": 20})  # another cell moves it, and nothing is under way
    assert slider.input_value() == "20"


def test_a_request_repeats_what_is_unanswered(page: Any) -> None:
    _view(page, "", LANE, ROLE)
    page.get_by_role("slider").press("End")
    page.get_by_role("combobox").select_option("b")
    assert page.evaluate("asked()") == {"values": {"lane": 31, "role": "b"}, "count": 2}
    _answer(page, 2, LANE | {"value": 31}, ROLE | {"value": "b"})
    page.get_by_role("slider").press("Home")
    assert page.evaluate("asked()") == {"values": {"lane": 0}, "count": 3}


#: What a prediction asks.
CHOICE = {"kind": "radio", "name": "0", "label": "which", "value": "", "options": ["one", "all"]}
NUMBER = {"kind": "text", "name": "1", "label": "how many", "value": "", "hint": "a number"}


def test_compare_keeps_what_is_answered_and_judges_what_is_shown(page: Any) -> None:
    _view(page, "", CHOICE, NUMBER, button="Compare")
    page.get_by_label("all").check()
    page.get_by_label("how many").fill("sixty")
    page.get_by_role("button").click()
    assert page.evaluate("asked()") == {"values": {"0": "all", "1": "sixty"}, "count": 1}
    _answer(page, 1, CHOICE | {"value": "all"}, NUMBER | {"value": "sixty"})
    assert page.get_by_label("all").is_checked()
    assert page.get_by_label("how many").input_value() == "sixty"
    page.get_by_label("how many").fill("60")
    page.get_by_role("button").click()
    page.get_by_label("one").check()  # while Python is still comparing
    _answer(page, 2, CHOICE | {"value": "all"}, NUMBER | {"value": "60"})
    assert page.get_by_label("one").is_checked()
    page.get_by_role("button").click()
    assert page.evaluate("asked()") == {"values": {"0": "one"}, "count": 3}
    _answer(page, 3, CHOICE | {"value": "one"}, NUMBER | {"value": "60"})
    _answer(page, 3, CHOICE | {"value": "all"}, NUMBER | {"value": "7"})  # another cell says so
    assert page.get_by_label("all").is_checked()
    assert page.get_by_label("how many").input_value() == "7"


def test_enter_in_a_number_box_moves_the_slider(page: Any) -> None:
    _view(page, "", LANE)
    box = page.get_by_role("spinbutton")
    box.fill("22")
    # JupyterLab takes the key before the browser does what a number box does
    page.evaluate("document.querySelector('[type=number]').addEventListener('keydown', e => e.preventDefault())")
    box.press("Enter")
    assert page.get_by_role("slider").input_value() == "22"
    assert page.evaluate("asked()") == {"values": {"lane": 22}, "count": 1}
    box.press("ArrowUp")
    box.fill("99")
    box.press("Enter")
    assert (box.input_value(), page.get_by_role("slider").input_value()) == ("31", "31")


REGISTER = LANE | {"name": "register", "label": "register", "high": 3}


def test_a_clicked_cell_chooses_its_lane_and_so_does_enter(page: Any) -> None:
    _view(page, MOVES["map"][0].html, LANE)
    page.locator(".zd .i3.j4").click()
    assert page.evaluate("asked()") == {"values": {"lane": 14}, "count": 1}
    _answer(page, 1, LANE | {"value": 14})
    page.evaluate("html => show(html)", MOVES["map"][1].html)
    page.locator(".tcemu-scroll").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert page.locator("[role=status]").first.text_content() == "D[1, 1]: d1 of lane 4"
    assert page.evaluate("asked()") == {"values": {"lane": 4}, "count": 2}
    page.evaluate("html => show(html)", MOVES["map"][2].html)
    page.keyboard.press("ArrowRight")
    assert page.locator("[role=status]").first.text_content() == "D[1, 2]: d0 of lane 5", "the keys stay where they are"


def test_a_clicked_cell_chooses_what_there_are_controls_for(page: Any) -> None:
    _view(page, show.fragment_map(MMA.fragments["a"]).html, REGISTER, ROLE | {"name": "operand"})
    page.locator(".z path", has_text="A[8, 2–3]: a1 of lane 1").click()
    assert page.evaluate("asked()") == {"values": {"register": 1, "operand": "a"}, "count": 1}
    _view(page, show.number_bits("e4m3", 1).html, LANE)
    page.locator("figure svg").click()
    assert page.evaluate("asked()") == {}


def hasty(warp: Any) -> None:
    warp.st_shared(4 * warp.threads, warp.threads)
    warp.ld_shared(4 * (63 - warp.threads))


def test_a_step_and_its_line_light_each_other(page: Any) -> None:
    events: list[Any] = []
    tcemu.launch(hasty, block=64, shared=256, sanitizer="off", observers=[events.append])
    page.set_content(show.hazards(events).html)
    lit = "all => all.filter(each => getComputedStyle(each).opacity > 0).map(each => each.getAttribute('class'))"
    for name in ("n0", "n1"):
        both = page.locator(f".z .{name}")  # the line, and the step of warps that do the same
        for each in both.all():
            each.hover()
            assert page.locator(".y path").evaluate_all(lit) == [name] * both.count() == [name] * 2


#: Texts of a drawing that reach out of it, as a browser measures them.
_OUTSIDE = """() => { const size = document.querySelector('svg').viewBox.baseVal;
    return [...document.querySelectorAll('text')].filter((text) => { const box = text.getBBox();
        return box.x < -1 || box.x + box.width > size.width + 1; }).map((text) => text.textContent); }"""
LONG = {
    "results of a rounding": lambda: show.rounding("f32", -0.0117),
    "neighbours": lambda: show.rounding("tf32", 0),
    "a legend": lambda: show.fragment_map(tcemu.parse("wmma.load.a.sync.aligned.row.m16n16k16.f16").fragments["a"]),
    "two columns": lambda: show.changes(np.zeros((2, 2), np.float32), np.ones((2, 2), np.float32)),
    "a fault": lambda: show.descriptor(1 << 15 | 1 << 53 | 1 << 60),
    "a wide matrix": lambda: show.changes(np.zeros((4, 32), np.float32), np.eye(4, 32, dtype=np.float32)),
}


@pytest.mark.parametrize("name", LONG)
def test_no_text_is_cut_off(page: Any, name: str) -> None:
    page.set_content(LONG[name]().svg)
    assert page.evaluate(_OUTSIDE) == []
