"""Every notebook of the course in a real JupyterLab: it runs, every control answers, and nothing stands in the way.

Each is run once, in the light theme, and then looked at in the dark one, too. Skipped without chromium or playwright.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab import CHROMIUM, Lab, browser, jupyterlab
from places import ROOT

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]

NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Lab]]:
    """Open a notebook in a fresh page."""
    with jupyterlab("light", tmp_path_factory.mktemp("course")) as address, browser(address, "light") as opens:
        yield opens


def _dragged(view: Lab, slider: Any) -> None:
    """Drag a slider from where it is to the other side."""
    slider.evaluate("element => element.scrollIntoView({block: 'center'})")
    view.page.wait_for_timeout(100)
    box, mouse = slider.bounding_box(), view.page.mouse
    low, high, now = (float(slider.get_attribute(name) or 0) for name in ("min", "max", "value"))
    now = float(slider.input_value())
    at = min(max((now - low) / max(high - low, 1), 0.03), 0.97)  # a handle at the end is inside the track
    height = box["y"] + box["height"] / 2
    mouse.move(box["x"] + box["width"] * at, height)
    mouse.down()
    mouse.move(box["x"] + box["width"] * (0.2 if at > 0.5 else 0.8), height, steps=4)
    mouse.up()


def _answered(view: Lab, explorer: Any, before: str, tenths: int = 100) -> bool:
    """Whether the kernel draws another picture within this many tenths of a second."""
    for _ in range(tenths):
        if explorer.locator("figure").first.inner_html() != before:
            return True
        view.page.wait_for_timeout(100)
    return False


def _moved_by_mouse_and_keyboard(view: Lab, explorer: Any) -> int:
    """Move every control of an explorer that can be seen, and return how many there were."""
    count = 0
    for slider in explorer.locator("input[type=range]").all():
        if not slider.is_visible():
            continue
        name = slider.get_attribute("aria-label") or ""
        assert name, "a control has a name"
        before = explorer.locator("figure").first.inner_html()
        _dragged(view, slider)
        assert _answered(view, explorer, before), f"{name}, dragged: the picture did not change"
        before = explorer.locator("figure").first.inner_html()
        slider.focus()
        keys = ["ArrowLeft", "ArrowRight"] if float(slider.input_value()) > 0 else ["ArrowRight", "ArrowLeft"]
        view.page.keyboard.press(keys[0])
        if not _answered(view, explorer, before, 30):  # the key led back to what a slow drag showed on its way
            view.page.keyboard.press(keys[1])
            assert _answered(view, explorer, before), f"{name}, by arrow key: the picture did not change"
        count += 1
    return count


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs_its_controls_answer_and_nothing_is_in_the_way(opened: Callable[[str], Lab], name: str) -> None:
    view = opened(name)
    try:
        view.theme("light")  # the server remembers the one in which the last page ended
        view.run_all()
        errors = view.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']")
        assert errors.all_inner_texts() == []
        moved = [_moved_by_mouse_and_keyboard(view, each) for each in view.page.locator(".tcemu-view").all()]
        assert sum(moved) >= 2
        assert view.barriers() == []
        view.shot("page-light")
        view.theme("dark")
        assert view.barriers("color-contrast") == [], "dark: nothing but the colours is different"
        view.shot("page-dark")
        assert view.cut_off() == [], "at 200 % zoom"
        assert view.errors == []
    finally:
        view.page.close()
