"""A real JupyterLab in a real browser, for the tests in tests/browser.

It needs chromium (Debian: apt-get install chromium) and playwright. Screenshots are kept where TCEMU_SCREENSHOTS names
a folder.
"""

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TOKEN = "first-light"  # noqa: S105 - of a server that lives for one test on this machine
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
#: Width and height of the window, in pixels.
WINDOW = 1400, 1000
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


#: Elements of outputs whose content is wider than they are, outside everything that scrolls.
_CUT_OFF = """() => {
    const scrolls = (each) => ["auto", "scroll"].includes(getComputedStyle(each).overflowX);
    const reached = (each) => scrolls(each) || (!each.matches(".jp-OutputArea-output") && reached(each.parentElement));
    const wide = [...document.querySelectorAll(".jp-OutputArea-output, .jp-OutputArea-output *")].filter(
        (each) => each instanceof HTMLElement && each.clientWidth > 1 && each.scrollWidth > each.clientWidth + 1
            && getComputedStyle(each).display !== "inline" && !reached(each));
    return wide.map((each) => each.outerHTML.slice(0, 160));
}"""
#: Text of pictures that is beyond their edge, or on top of other text: its beginning.
_ILLEGIBLE = """() => [...document.querySelectorAll("figure svg")].flatMap((drawing) => {
    const {width, height} = drawing.viewBox.baseVal;
    const texts = [...drawing.querySelectorAll("text")].filter((each) => each.textContent.trim());
    const boxes = texts.map((each) => each.getBBox());
    const outside = (box) => box.x < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 3;
    const shared = (start, long, one, other) =>
        Math.min(one[start] + one[long], other[start] + other[long]) - Math.max(one[start], other[start]);
    const covered = (box, other) => shared("x", "width", box, other) > 2 && shared("y", "height", box, other) > 4;
    return texts.filter((_, at) => outside(boxes[at]) || boxes.some((box, to) => to < at && covered(boxes[at], box)))
        .map((each) => each.textContent.slice(0, 60));
})"""
#: The width of the notebook.
_COLUMN = "() => document.querySelector('.jp-NotebookPanel').clientWidth"
#: anywidget gives a widget two seconds to load its script. A busy machine takes longer.
_PATIENT = """const wait = AbortSignal.timeout.bind(AbortSignal);
AbortSignal.timeout = (milliseconds) => wait(30 * milliseconds);"""
#: Opens a notebook, and waits for its kernel.
_OPEN = """async (name) => {
    const opened = await window.jupyterapp.commands.execute("docmanager:open", {path: name});
    await opened.revealed;
    await opened.context.sessionContext.ready;
}"""
#: Ends the kernel, and closes the notebook without asking whether to save it.
_CLOSE = """async () => {
    const opened = window.jupyterapp.shell.currentWidget;
    await opened.context.sessionContext.shutdown();
    opened.dispose();
}"""
#: Asks the kernel something, and waits for its answer: it answers in order. Three times, because a widget keeps back
#: what it asks next until its last question is answered.
_SETTLE = """async () => {
    const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
    for (let number = 0; number < 3; number++) await kernel.requestKernelInfo();
}"""
#: Whether every widget is drawn.
_DRAWN = """() => [...document.querySelectorAll("[data-mime-type='application/vnd.jupyter.widget-view+json']")]
    .every((each) => each.querySelector(".tcemu-figure"))"""


@contextmanager
def jupyterlab(home: Path) -> Iterator[str]:
    """A JupyterLab of its own with copies of the notebooks, in the light theme; its address."""
    shutil.copytree(ROOT / "notebooks", home / "work", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": THEMES["light"]}))
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
        "JUPYTER_CONFIG_PATH": str(ROOT / "tcemu" / "course" / "jupyter"),  # as tcemu lab starts it
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "spaces"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--allow-root", "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={home / 'work'}"]
    command += ["--LabApp.expose_app_in_browser=True"]  # the tests open and close notebooks and change the theme
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=os.environ | environment, stdout=log, stderr=log)
        try:
            _wait_for_server(f"http://127.0.0.1:{port}/api?token={TOKEN}", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)


def trusted(name: str, home: Path) -> str:
    """The path of a copy of a notebook that JupyterLab trusts; what it does not trust shows no SVG before it is run."""
    import nbformat
    from nbformat.sign import NotebookNotary

    notebook = nbformat.read(home / "work" / name, 4)
    notebook.metadata["copy"] = True  # otherwise the signature were that of the other one, too
    (home / "work" / "trusted").mkdir(exist_ok=True)
    nbformat.write(notebook, home / "work" / "trusted" / name)
    notary = NotebookNotary(data_dir=str(home / "data"))
    notary.sign(notebook)
    notary.store.close()
    return f"trusted/{name}"


def _wait_for_server(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(12000):
        assert server.poll() is None, "JupyterLab ended at once"
        try:
            with urllib.request.urlopen(address, timeout=2):  # noqa: S310 - our own server
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("JupyterLab did not answer within twenty minutes")


class Lab:
    """A page of JupyterLab, with one notebook open at a time; `count` says how many have been opened in it."""

    def __init__(self, page: Any) -> None:
        self.page, self.name, self.count, self.errors = page, "", 0, list[str]()
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, name: str) -> None:
        """Open a notebook, and wait for its kernel."""
        self.name = name.rpartition("/")[2].split("_", maxsplit=1)[0]
        self.count += 1
        self.errors.clear()
        self.page.evaluate(_OPEN, name)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=600_000)
        self.idle()

    def close(self) -> None:
        """Close the notebook, and end its kernel."""
        self.page.evaluate(_CLOSE)

    def run_all(self) -> None:
        """Run every cell, and wait until everything is drawn."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.drawn()

    def run_all_from_the_menu(self) -> None:
        """Run every cell, as a person does, and wait until everything is drawn."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_text("Run All Cells", exact=True).first.click()
        prompts = "[...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')]"  # what is folded has none
        done = f"() => {prompts}.every(each => /\\d/.test(each.textContent))"
        self.page.wait_for_function(done, polling=200, timeout=600_000)
        self.drawn()

    def drawn(self) -> None:
        """Wait until every widget is drawn and the kernel has nothing to do."""
        self.page.wait_for_function(_DRAWN, polling=100, timeout=600_000)
        self.settle()
        self.idle()

    def idle(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', timeout=600_000)

    def view(self, words: str) -> Any:
        """The explorer or prediction that contains `words`."""
        return self.page.locator(".tcemu-view").filter(has_text=words).first

    def settle(self) -> None:
        """Wait until the kernel has answered what the page has asked."""
        self.page.evaluate(_SETTLE)

    def barriers(self, *rules: str) -> list[str]:
        """What axe-core finds in the outputs, by all of its rules or by some.

        For each violation that is at least serious: rule and element.
        """
        from axe_playwright_python.sync_playwright import Axe

        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        # What is inside an image is not in the tree of accessible elements; looking at it takes most of the time.
        outputs = {"include": [[".jp-OutputArea-output"]], "exclude": [["svg[role=img] > *"]]}
        options = {"resultTypes": ["violations"], **only}
        found = Axe().run(self.page, context=outputs, options=options).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        return [f"{each['id']}: {node['html'][:200]}" for each in serious for node in each["nodes"]]

    def cut_off(self) -> list[str]:
        """What is wider than its place in an output and cannot be scrolled to, as on a page at 200 % zoom."""
        self.resize(700, 500)
        found: list[str] = self.page.evaluate(_CUT_OFF)
        self.shot("zoomed")
        self.resize(*WINDOW)
        return found

    def illegible(self) -> list[str]:
        """Text of pictures that their edge cuts off, or that other text covers."""
        found: list[str] = self.page.evaluate(_ILLEGIBLE)
        return found

    def resize(self, width: int, height: int) -> None:
        """Resize the window, and wait until the notebook has followed."""
        before = self.page.evaluate(_COLUMN)
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_function(f"before => ({_COLUMN})() !== before", arg=before, polling=50)

    def shot(self, name: str, element: Any = None) -> None:
        """Keep a screenshot, where a folder for them is named."""
        folder = os.environ.get("TCEMU_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (element or self.page).screenshot(path=str(Path(folder) / f"{self.name}-{name}.png"))

    def theme(self, name: str) -> None:
        """Change the theme of the open page; nothing happens if it is this one."""
        if self.page.evaluate("() => document.body.dataset.jpThemeName") == THEMES[name]:
            return
        script = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
        self.page.evaluate(script, THEMES[name])
        reached = "name => document.body.dataset.jpThemeName === name"
        self.page.wait_for_function(reached, arg=THEMES[name], polling=50)


@contextmanager
def browser(address: str) -> Iterator[Callable[[], Lab]]:
    """A function that opens the JupyterLab at `address` in a fresh page.

    Pages share a cache, and each has a workspace of its own, or JupyterLab would load the second one twice.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        context = chromium.new_context(viewport={"width": WINDOW[0], "height": WINDOW[1]}, reduced_motion="reduce")

        context.add_init_script(_PATIENT)
        numbers = itertools.count()

        def fresh() -> Lab:
            page = context.new_page()
            page.goto(f"{address}/lab/workspaces/{next(numbers)}?token={TOKEN}&reset")
            page.wait_for_function("() => window.jupyterapp?.restored.then(() => true)", polling=200, timeout=600_000)
            return Lab(page)

        yield fresh
        chromium.close()
