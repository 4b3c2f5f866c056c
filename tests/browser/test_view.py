"""The page's half of an explorer, without JupyterLab: a picture that changes keeps what has not changed.

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
#: Shows a view of one model, which `show` gives another picture.
_SETUP = """async ([source, html]) => {
    const module = await import(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
    const held = { html, controls: [], head: '', button: '', said: '' }, heard = {};
    const model = { get: (name) => held[name], set() {}, save_changes() {}, on: (name, act) => { heard[name] = act; } };
    module.default.render({ model, el: document.getElementById('view') });
    window.figure = document.querySelector('.tcemu-figure');
    window.show = (html) => { held.html = html; heard['change:html'](); };
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


def _view(page: Any, html: str) -> None:
    """Let the page show a fresh view of a picture."""
    page.set_content('<div id="view"></div>')
    page.evaluate(_SETUP, [(ROOT / "tcemu/show/view.js").read_text(encoding="utf-8"), html])


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
