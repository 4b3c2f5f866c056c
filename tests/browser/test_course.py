"""Every notebook of the course in a real JupyterLab: nothing stands in the way, and it runs, and every control answers.

Every day another one is run, and looked at in both themes; with --thorough all are. nbval runs them all, and tests/show
asks the controls without a page.
All are opened in one page, one after the other, because loading JupyterLab takes longer than opening a notebook.
Skipped without chromium or playwright.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab import CHROMIUM, THEMES, Lab, trusted
from places import ROOT
from quick import THOROUGH, spread, turn

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]

#: Notebooks that are opened in one page: it does not forget them all.
TOGETHER = 5
NOTEBOOKS = sorted(path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
RUN = spread(NOTEBOOKS, len(NOTEBOOKS), first=turn(len(NOTEBOOKS)))
#: Its readers write whole kernels; it has no slider, and one picture that waits for no prediction.
WORKSHOP = "15"


@pytest.fixture(scope="module")
def labs() -> Iterator[list[Lab]]:
    """The page in which notebooks are opened, if there is one."""
    found: list[Lab] = []
    yield found
    for view in found:
        view.page.close()


@pytest.fixture
def opened(fresh: Callable[[], Lab], home: Path, labs: list[Lab]) -> Callable[[str], Any]:
    """Open a notebook; after a failure the next one gets a page in which nothing has happened."""

    @contextmanager
    def notebook(name: str) -> Iterator[Lab]:
        view = labs.pop() if labs else fresh()
        try:
            view.open(trusted(name, home))
            yield view
            view.close()
        except BaseException:
            view.page.close()
            raise
        if view.count < TOGETHER:
            labs.append(view)
        else:
            view.page.close()

    return notebook


def _dragged(view: Lab, slider: Any) -> None:
    """Drag a slider from where it is to the other side."""
    slider.evaluate("element => element.scrollIntoView({block: 'center', behavior: 'instant'})")
    box, mouse = slider.bounding_box(), view.page.mouse
    low, high = (float(slider.get_attribute(name) or 0) for name in ("min", "max"))
    now = float(slider.input_value())
    at = min(max((now - low) / max(high - low, 1), 0.03), 0.97)  # a handle at the end is inside the track
    height = box["y"] + box["height"] / 2
    mouse.move(box["x"] + box["width"] * at, height)
    mouse.down()
    mouse.move(box["x"] + box["width"] * (0.2 if at > 0.5 else 0.8), height, steps=2)
    mouse.up()


def _at_its_start(slider: Any) -> bool:
    return float(slider.input_value()) == float(slider.get_attribute("min") or 0)


def _moved_by_mouse_and_keyboard(view: Lab, explorer: Any) -> int:
    """Move every slider of an explorer that can be seen, the first one by mouse and arrow keys; how many there were."""
    figure, count = explorer.locator("figure").first, 0
    for slider in explorer.locator("input[type=range]").all():
        if not slider.is_visible():
            continue
        name = slider.get_attribute("aria-label") or ""
        assert name, "a control has a name"
        before = figure.inner_html()
        if count:
            slider.focus()
            view.page.keyboard.press("End" if _at_its_start(slider) else "Home")
        else:
            _dragged(view, slider)
        view.settle()
        moved = figure.inner_html()
        assert moved != before, f"{name}, moved to the other side: the picture did not change"
        if not count or THOROUGH:  # the keys of all sliders are those of the browser
            slider.focus()
            view.page.keyboard.press("ArrowRight" if _at_its_start(slider) else "ArrowLeft")
            view.settle()
            assert figure.inner_html() != moved, f"{name}, by arrow key: the picture did not change"
        count += 1
    return count


def _run(view: Lab) -> None:
    """Run every cell, and move every control."""
    view.run_all()
    errors = view.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']")
    assert errors.all_inner_texts() == []
    moved = [_moved_by_mouse_and_keyboard(view, each) for each in view.page.locator(".tcemu-view").all()]
    assert sum(moved) >= 2 or view.name == WORKSHOP


@pytest.mark.parametrize(("number", "name"), list(enumerate(RUN)), ids=RUN)
def test_it_runs_its_controls_answer_and_nothing_is_in_the_way(
    opened: Callable[[str], Any], number: int, name: str
) -> None:
    first, second = THEMES if (number + turn(2)) % 2 else reversed(THEMES)
    with opened(name) as view:
        view.theme(first)
        _run(view)
        pictures = view.page.locator(".jp-OutputArea-output svg[role=img]").count()
        assert pictures >= (1 if view.name == WORKSHOP else 2), "outputs are shown as they are"
        assert view.barriers() == []
        view.shot(f"page-{first}")
        view.theme(second)
        assert view.barriers("color-contrast") == [], f"{second}: nothing but the colours is different"
        view.shot(f"page-{second}")
        assert view.illegible() == []
        assert view.cut_off() == [], "at 200 % zoom"
        assert view.errors == []
