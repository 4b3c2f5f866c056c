"""A classroom on loopback, and the people in it, each in a separate browser."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from lab import ARGUMENTS, CHROMIUM
from places import ROOT

#: What all learners log in with.
PASSWORD = "tensor-core"  # noqa: S105 - of a hub that lives for one test on this machine
#: How long a person waits for a page, in milliseconds: the machine may be busy.
PATIENCE = 120_000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class School:
    """A running hub, its folder and address, and the teacher's password."""

    def __init__(self, folder: Path, url: str, teacher_password: str) -> None:
        self.folder, self.url, self.teacher_password = folder, url, teacher_password

    def log(self) -> str:
        logs = [self.folder.parent / "log", *sorted((self.folder / "hub" / "logs").glob("*"))]
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in logs if path.exists())


def started(folder: Path, *options: str) -> "subprocess.Popen[bytes]":
    """The documented command, in a group of processes of its own, as a terminal starts it; it writes to `log`."""
    command = [sys.executable, "-m", "tcemu", "classroom", str(folder), "--no-warm", *options]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with (folder.parent / "log").open("w") as out:
        return subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)


@contextmanager
def classroom(folder: Path, *options: str) -> Iterator[School]:
    """A classroom that runs."""
    port, log = free_port(), folder.parent / "log"
    with started(folder, f"--password={PASSWORD}", "--address=127.0.0.1", f"--port={port}", *options) as hub:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/services/classroom/static/classroom.css", hub, log)
            password = re.search(r"as teacher with the password +(\w+)", log.read_text())
            yield School(folder, url, password[1] if password else "")
        finally:
            hub.send_signal(signal.SIGINT)
            hub.wait(600)


def wait_for(address: str, hub: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(6000):
        assert hub.poll() is None, log.read_text(encoding="utf-8")
        with suppress(OSError), urllib.request.urlopen(address, timeout=2):  # noqa: S310 - our own server
            return
        time.sleep(0.1)
    pytest.fail(f"the hub did not answer within ten minutes\n{log.read_text(encoding='utf-8')}")


class Person:
    """A person with a separate browser, logged in."""

    def __init__(self, chromium: Any, school: School, name: str, password: str = PASSWORD) -> None:
        self.school, self.name = school, name
        self.page = chromium.new_context(viewport={"width": 1300, "height": 900}).new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.goto(f"{school.url}/hub/login")
        self.page.fill("#username_input", name)
        self.page.fill("#password_input", password)
        self.page.click("#login_submit")

    def open(self, path: str) -> Any:
        """A page of the school."""
        return self.page.goto(f"{self.school.url}/{path}")

    def open_notebook(self, path: str) -> None:
        """Open a notebook from JupyterLab's list of files, and wait for its kernel."""
        for name in path.split("/"):
            self.page.locator(".jp-DirListing-item", has_text=name).dblclick()
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()

    def leave_jupyterlab_open(self) -> "Person":
        """The same person in another tab."""
        other = copy(self)
        other.page = self.page.context.new_page()
        other.page.set_default_timeout(PATIENCE)
        return other

    def run(self, cell: str, source: str = "") -> str:
        """Run the cell that contains the text `cell`, with another `source` if one is given; what it shows."""
        found = self.page.locator(".jp-CodeCell").filter(has_text=cell).first
        found.locator(".cm-content").click()
        if source:
            self.page.keyboard.press("Control+A")
            self.page.keyboard.insert_text(source)
        found = self.page.locator(".jp-CodeCell.jp-mod-active, .jp-Cell.jp-mod-selected").first
        prompt = found.locator(".jp-InputPrompt")
        before = prompt.inner_text()
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(
            "([cell, before]) => /\\[\\d+\\]/.test(cell.textContent) && cell.textContent.trim() !== before.trim()",
            arg=[prompt.element_handle(), before],
            polling=100,
        )
        # the number may come before what the cell shows: that is there once the kernel has nothing left to say; a bar
        # that has ended shows nothing
        self.page.wait_for_function(
            """cell => document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'
                && [...cell.querySelectorAll('.jp-OutputArea-output')].at(-1)?.childNodes.length !== 0""",
            arg=found.element_handle(),
            polling=100,
        )
        return "\n".join(found.locator(".jp-OutputArea-output").all_inner_texts())

    def save(self) -> None:
        with self.page.expect_response(lambda answer: answer.request.method == "PUT" and answer.ok):
            self.page.keyboard.press("Control+S")

    def shot(self, name: str) -> None:
        """Keep a screenshot, where a folder for them is named."""
        folder = os.environ.get("TCEMU_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(folder) / f"classroom-{name}.png"), full_page=True)

    def barriers(self) -> list[str]:
        """What axe-core finds in the page: rule and element of each violation."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, in which each person gets a context."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, headless=True, args=ARGUMENTS)
        yield chromium
        chromium.close()
