"""docs/card.html in print: one page that can be read on a wall.

Skipped without chromium or playwright (tests/lab.py).
"""

import re

import pytest
from lab import ARGUMENTS, CHROMIUM
from places import ROOT

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]

#: The smallest type of the page in pixels, and how far its content reaches beyond the window.
_LOOK = """() => [
    Math.min(...[...document.querySelectorAll("body *")].map((each) => parseFloat(getComputedStyle(each).fontSize))),
    document.documentElement.scrollWidth - document.documentElement.clientWidth,
]"""
MILLIMETRES = {"A4": (297, 210), "Letter": (279.4, 215.9)}


def test_the_card_is_one_page_in_legible_type() -> None:
    with sync_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        page = chromium.new_page()
        page.goto((ROOT / "docs" / "card.html").as_uri())
        margins = dict.fromkeys(("top", "right", "bottom", "left"), "10mm")  # more than the page asks for
        for paper, size in MILLIMETRES.items():
            printed = page.pdf(format=paper, landscape=True, margin=margins)
            assert len(re.findall(rb"/Type */Page\b", printed)) == 1, paper
            width, height = (int((length - 20) * 96 / 25.4) for length in size)
            page.set_viewport_size({"width": width, "height": height})
            smallest, beyond = page.evaluate(_LOOK)
            assert smallest * 72 / 96 >= 7  # points
            assert beyond <= 0, paper
        chromium.close()
