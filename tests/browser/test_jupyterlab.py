"""The notebooks in a real JupyterLab in a real browser: they run, the sliders move by mouse and keyboard, both themes.

Needs chromium (Debian: apt-get install chromium) and playwright (pip install playwright); skips without. Screenshots
are kept where TCEMU_SCREENSHOTS names a folder.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TOKEN = "first-light"  # noqa: S105 - of a server that lives for one test on this machine
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]


@pytest.fixture(scope="module", params=THEMES)
def theme(request: pytest.FixtureRequest) -> str:
    """The theme's name."""
    return str(request.param)


@pytest.fixture(scope="module")
def lab(theme: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A JupyterLab of its own with copies of the notebooks; its address."""
    home = tmp_path_factory.mktemp(f"lab-{theme}")
    shutil.copytree(ROOT / "notebooks", home / "work", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": THEMES[theme]}))
    (settings / "notification.jupyterlab-settings").write_text(json.dumps({"fetchNews": "false"}))
    tracker = home / "settings" / "@jupyterlab" / "notebook-extension"
    tracker.mkdir()
    # Otherwise cells outside the window count as invisible, and which these are depends on how fast the page scrolls.
    (tracker / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folders = {"CONFIG": home / "config", "DATA": home / "data", "RUNTIME": home / "runtime"}
    environment = {f"JUPYTER_{name}_DIR": str(folder) for name, folder in folders.items()}
    environment |= {
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "spaces"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={home / 'work'}"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=log)
        try:
            _wait_for_server(f"http://127.0.0.1:{port}/api?token={TOKEN}", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)


def _wait_for_server(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(480):
        assert server.poll() is None, "JupyterLab ended at once"
        try:
            with urllib.request.urlopen(address, timeout=2):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail("JupyterLab did not answer within four minutes")


class Lab:
    """A page with one notebook open."""

    def __init__(self, page: Any, name: str) -> None:
        self.page, self.name, self.errors = page, name, list[str]()
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def run_all(self) -> None:
        """Run every cell from the menu, and wait until the kernel is idle."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_text("Run All Cells", exact=True).first.click()
        self.page.wait_for_selector(".widget-slider .noUi-handle", timeout=90_000)
        self.page.wait_for_timeout(1500)
        self.idle()

    def idle(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', timeout=90_000)

    def explorer(self, words: str) -> Any:
        """The box of controls and picture whose picture says `words`."""
        return self.page.locator(".widget-vbox", has_text=words).first

    def shot(self, name: str, element: Any = None) -> None:
        """Keep a screenshot, where a folder for them is named."""
        folder = os.environ.get("TCEMU_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (element or self.page).screenshot(path=str(Path(folder) / f"{self.name}-{name}.png"))


@pytest.fixture(scope="module")
def opened(lab: str, theme: str) -> Iterator[Callable[[str], Lab]]:
    """Open a notebook in a fresh page."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)

        def open_notebook(name: str) -> Lab:
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            view = Lab(page, f"{name.split('_', maxsplit=1)[0]}-{theme}")
            page.goto(f"{lab}/lab/tree/{name}?token={TOKEN}&reset")
            page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
            view.idle()
            return view

        yield open_notebook
        browser.close()


@pytest.fixture(scope="module")
def first_light(opened: Callable[[str], Lab]) -> Lab:
    """Notebook 00, opened and not yet run."""
    return opened("00_first_light.ipynb")


@pytest.fixture(scope="module")
def numbers(opened: Callable[[str], Lab]) -> Lab:
    """Notebook 01, all cells run."""
    view = opened("01_numbers.ipynb")
    view.run_all()
    return view


def _visible(view: Lab, selector: str) -> int:
    return sum(element.is_visible() for element in view.page.locator(selector).all())


def test_a_fresh_copy_shows_its_pictures_before_anything_has_run(first_light: Lab) -> None:
    """JupyterLab does not trust it yet, and throws SVG away: the images stand in, and no stray text."""
    figure = first_light.page.locator("figure", has_text="lane and register of each element").first
    figure.scroll_into_view_if_needed()
    assert figure.locator("img").is_visible()
    assert figure.locator("svg").count() == 0
    assert "lane and register of each element" in figure.inner_text()
    assert "13 a0" not in figure.inner_text()
    first_light.shot("untrusted", figure)


def test_all_cells_run_and_the_live_drawing_takes_over(first_light: Lab) -> None:
    first_light.run_all()
    assert (
        first_light.page.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']").count() == 0
    )
    figure = first_light.page.locator("figure", has_text="Register 0xbdad3c24").first
    figure.scroll_into_view_if_needed()
    assert figure.locator("svg").is_visible()
    assert not figure.locator("img").is_visible()
    first_light.shot("register", figure)


def test_the_slider_is_dragged_and_the_picture_follows(first_light: Lab) -> None:
    explorer = first_light.explorer("lane and register of each element")
    assert "lane 0 holds the marked cells" in explorer.inner_html()  # the next cell has set it
    handle, track = explorer.locator(".noUi-handle").first, explorer.locator(".noUi-target").first
    track.evaluate("element => element.scrollIntoView({block: 'center'})")
    first_light.page.wait_for_timeout(500)
    box, rail = handle.bounding_box(), track.bounding_box()
    mouse = first_light.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    mouse.down()
    mouse.move(rail["x"] + rail["width"] / 2, box["y"] + box["height"] / 2, steps=10)
    mouse.up()
    first_light.page.wait_for_timeout(1500)
    lane = int(handle.get_attribute("aria-valuenow").split(".")[0])
    assert 10 <= lane <= 20
    assert f"lane {lane} holds the marked cells" in explorer.inner_html()


def test_arrow_keys_move_the_slider(first_light: Lab) -> None:
    explorer = first_light.explorer("lane and register of each element")
    handle = explorer.locator(".noUi-handle").first
    before = int(handle.get_attribute("aria-valuenow").split(".")[0])
    handle.focus()
    for _ in range(3):
        first_light.page.keyboard.press("ArrowRight")
        first_light.page.wait_for_timeout(300)
    first_light.page.wait_for_timeout(1000)
    assert f"lane {before + 3} holds the marked cells" in explorer.inner_html()


def test_the_number_box_has_a_name_and_takes_keys(first_light: Lab) -> None:
    """What the slider's handle lacks for a screen reader, the box beside it has."""
    explorer = first_light.explorer("lane and register of each element")
    box = explorer.get_by_label("lane", exact=True)
    box.fill("21")
    box.press("Enter")
    first_light.page.wait_for_timeout(1500)
    assert "lane 21 holds the marked cells" in explorer.inner_html()
    box.press("ArrowUp")
    first_light.page.wait_for_timeout(1500)
    assert "lane 22 holds the marked cells" in explorer.inner_html()
    first_light.shot("who-holds-what", explorer)


def test_the_picture_has_a_name_and_a_description(first_light: Lab) -> None:
    picture = first_light.explorer("lane and register of each element").get_by_role("img")
    named = first_light.page.evaluate(
        """svg => [svg.getAttribute("aria-labelledby"), svg.getAttribute("aria-describedby")]
            .map(id => document.getElementById(id).textContent)""",
        picture.element_handle(),
    )
    assert named[0] == "mma m16n8k16 f16: lane and register of each element"
    assert named[1].startswith("Lane 22 holds a0 = row 5 columns 4–5")


def test_a_flipped_bit_moves_a_column(first_light: Lab) -> None:
    explorer = first_light.explorer("elements of D changed")
    explorer.scroll_into_view_if_needed()
    explorer.get_by_label("operand").select_option("b")
    first_light.page.wait_for_timeout(1500)
    assert "16 of 128 elements of D changed: bit 14 of register b0 in lane 13" in explorer.inner_text()
    first_light.shot("one-bit", explorer)


def test_the_pictures_are_drawn_in_the_colours_of_the_theme(first_light: Lab, theme: str) -> None:
    svg = first_light.explorer("lane and register of each element").locator("svg").first
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


def test_a_number_is_built_from_its_fields(numbers: Lab) -> None:
    explorer = numbers.explorer("pattern 0x")
    explorer.scroll_into_view_if_needed()
    explorer.get_by_label("format").select_option("e5m2")
    numbers.page.wait_for_timeout(1000)
    for name, value in (("exponent", "16"), ("mantissa", "1")):
        box = explorer.get_by_label(name, exact=True)
        box.fill(value)
        box.press("Enter")
        numbers.page.wait_for_timeout(800)
    assert "e5m2 pattern 0x41 is 2.5" in explorer.inner_text()
    numbers.shot("bits", explorer)


def test_screenshots_of_the_whole_course(first_light: Lab, numbers: Lab) -> None:
    """Walk through both notebooks, as a reader does; nothing on the pages went wrong."""
    for view in (first_light, numbers):
        for number, output in enumerate(view.page.locator("figure").all()):
            if output.is_visible():
                output.scroll_into_view_if_needed()
                view.shot(f"figure-{number:02d}", output)
        view.shot("page")
        assert view.errors == []
