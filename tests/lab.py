"""A real JupyterLab in a real browser, for the tests in tests/browser.

It needs chromium (Debian: apt-get install chromium) and playwright. Screenshots are kept where TCEMU_SCREENSHOTS names
a folder.
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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TOKEN = "first-light"  # noqa: S105 - of a server that lives for one test on this machine
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
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


@contextmanager
def jupyterlab(theme: str, home: Path) -> Iterator[str]:
    """A JupyterLab of its own with copies of the notebooks; its address."""
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
    command += ["--LabApp.expose_app_in_browser=True"]  # the tests change the theme of an open page
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
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=90_000)
        self.page.wait_for_timeout(1500)  # or JupyterLab asks for a kernel
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_text("Run All Cells", exact=True).first.click()
        self.page.wait_for_selector(".tcemu-view", timeout=90_000)
        prompts = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]"
        self.page.wait_for_function(f"() => {prompts}.every(each => !each.textContent.includes('*'))", timeout=90_000)
        self.page.wait_for_timeout(1500)
        self.idle()

    def idle(self) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', timeout=90_000)

    def view(self, words: str) -> Any:
        """The explorer or prediction that says `words`."""
        return self.page.locator(".tcemu-view").filter(has_text=words).first

    def settle(self) -> None:
        """Wait for an answer of the kernel, and until it has been announced."""
        self.page.wait_for_timeout(1500)

    def barriers(self, *rules: str) -> list[str]:
        """What axe-core finds in the outputs, by all of its rules or by some.

        For each violation that is at least serious: rule and element.
        """
        from axe_playwright_python.sync_playwright import Axe

        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        # What is inside an image is not in the tree of accessible elements; looking at it takes most of the time.
        outputs = {"include": [[".jp-OutputArea-output"]], "exclude": [["svg[role=img] *"]]}
        found = Axe().run(self.page, context=outputs, options=only).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        return [f"{each['id']}: {node['html'][:200]}" for each in serious for node in each["nodes"]]

    def cut_off(self) -> list[str]:
        """What is wider than its place in an output and cannot be scrolled to, as on a page at 200 % zoom."""
        self.page.set_viewport_size({"width": 700, "height": 500})
        self.page.wait_for_timeout(500)
        found: list[str] = self.page.evaluate(_CUT_OFF)
        self.shot("zoomed")
        self.page.set_viewport_size({"width": 1400, "height": 1000})
        return found

    def shot(self, name: str, element: Any = None) -> None:
        """Keep a screenshot, where a folder for them is named."""
        folder = os.environ.get("TCEMU_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (element or self.page).screenshot(path=str(Path(folder) / f"{self.name}-{name}.png"))

    def theme(self, name: str) -> None:
        """Change the theme of the open page."""
        script = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
        self.page.evaluate(script, THEMES[name])
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=THEMES[name])


@contextmanager
def browser(address: str, theme: str) -> Iterator[Callable[[str], Lab]]:
    """A function that opens a notebook of the JupyterLab at `address` in a fresh page."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)

        def open_notebook(name: str) -> Lab:
            page = chromium.new_page(viewport={"width": 1400, "height": 1000})
            view = Lab(page, f"{name.split('_', maxsplit=1)[0]}-{theme}")
            page.goto(f"{address}/lab/tree/{name}?token={TOKEN}&reset")
            page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
            view.idle()
            return view

        yield open_notebook
        chromium.close()
