"""A static site in a headless browser: Chromium by playwright, Firefox by the protocol WebDriver BiDi.

Both are asked in JavaScript only, so that tests say everything once.
"""

import functools
import http.server
import itertools
import json
import re
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager, suppress

from lab import ARGUMENTS, CHROMIUM

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
#: The first version of Firefox in which WebAssembly can wait, as docs/doors.md says.
_SINCE = 153
#: Seconds that a page may take to start its kernel, and to run a notebook, on a busy machine.
PATIENCE = 600


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@functools.cache
def new_enough():
    """Whether there is a Firefox that can run the laboratory."""
    told = subprocess.run([FIREFOX, "--version"], capture_output=True, text=True, check=False).stdout if FIREFOX else ""
    version = re.search(r"[0-9]+", told)
    return version is not None and int(version[0]) >= _SINCE


@contextmanager
def served(site):
    """The address of a site, from this machine only."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def chromium(_folder):
    from playwright.sync_api import sync_playwright

    # nothing but this machine can be reached, whatever the page asks for
    cut_off = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS[1:], *cut_off])
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        try:
            yield page.goto, page.evaluate
        finally:
            browser.close()


def _preferences():
    """A proxy that nobody answers, so that only this machine can be reached; focus as if the window were in front."""
    wanted = {
        "focusmanager.testmode": True, "network.proxy.type": 1, "network.proxy.http": "127.0.0.1",
        "network.proxy.http_port": 9, "network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": 9,
    }  # fmt: skip
    return "".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in wanted.items())


@contextmanager
def firefox(folder):
    import websocket

    (folder / "user.js").write_text(_preferences())
    asked = [FIREFOX, "--headless", "--no-remote", "--profile", str(folder), "--remote-debugging-port", "0"]
    process = subprocess.Popen(asked, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        told = next(line for line in process.stderr if "WebDriver BiDi listening" in line)
        reader.start()
        socket = websocket.create_connection(f"{told.split()[-1]}/session", suppress_origin=True, timeout=PATIENCE)
        numbers = itertools.count(1)

        def ask(method, **params):
            number = next(numbers)
            socket.send(json.dumps({"id": number, "method": method, "params": params}))
            while True:
                answer = json.loads(socket.recv())
                if answer.get("id") == number:
                    assert answer["type"] == "success", answer
                    return answer["result"]

        ask("session.new", capabilities={})
        context = ask("browsingContext.create", type="tab")["context"]
        ask("browsingContext.activate", context=context)

        def evaluate(code, argument=None):
            called = f"async () => JSON.stringify((await ({code})({json.dumps(argument)})) ?? null)"
            result = ask("script.callFunction", functionDeclaration=called, awaitPromise=True,
                target={"context": context})  # fmt: skip
            assert result["type"] == "success", result
            return json.loads(result["result"]["value"])

        yield lambda url: ask("browsingContext.navigate", context=context, url=url, wait="complete"), evaluate
        socket.close()
    finally:
        process.terminate()
        process.wait()
        if reader.is_alive():
            reader.join()
        process.stderr.close()


_STATUS = """() => {
    const shown = window.jupyterapp?.shell?.currentWidget;
    return shown?.context?.sessionContext?.session?.kernel?.status ?? '';
}"""
_RUN = """() => {
    window.ran = false;
    const run = (name) => window.jupyterapp.commands.execute(name);
    run('notebook:clear-all-cell-outputs')
        .then(() => run('notebook:run-all-cells')).then(() => { window.ran = true; });
}"""
_OUTPUTS = """() => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.cells, found = [];
    for (let at = 0; at < cells.length; at++) {
        const cell = cells.get(at), held = [];
        for (let n = 0; cell.type === 'code' && n < cell.outputs.length; n++) held.push(cell.outputs.get(n).toJSON());
        if (cell.type === 'code') found.push(held);
    }
    return found;
}"""
_EXECUTE = """async (code) => {
    const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
    const future = kernel.requestExecute({code, store_history: false});
    let text = '';
    future.onIOPub = (message) => {
        const told = message.content;
        text += told.text ?? told.data?.['text/plain'] ?? (told.evalue ? `${told.ename}: ${told.evalue}` : '');
    };
    await future.done;
    return text;
}"""
#: Moves the first slider of the page, and returns the milliseconds until a picture has changed.
_SLIDE = """async () => {
    const slider = document.querySelector('input[type=range]');
    const every = () => [...document.querySelectorAll('.jp-OutputArea-output svg')];
    const pictures = () => every().map((picture) => picture.outerHTML).join('|');
    const before = pictures(), start = Date.now();
    slider.value = Number(slider.value) === Number(slider.max) ? Number(slider.min) : Number(slider.value) + 1;
    for (const kind of ['input', 'change']) slider.dispatchEvent(new Event(kind, {bubbles: true}));
    while (pictures() === before && Date.now() - start < 60000) await new Promise((done) => setTimeout(done, 20));
    return Date.now() - start;
}"""
_SHOW_SLIDER = """async () => {
    const shown = window.jupyterapp.shell.currentWidget.content, cells = shown.model.cells;
    for (let at = 0; at < cells.length && !document.querySelector('input[type=range]'); at++) {
        await shown.scrollToItem(at);
        await new Promise((done) => setTimeout(done, 100));
    }
    return document.querySelectorAll('input[type=range]').length;
}"""


class Site:
    """The site's laboratory in one browser."""

    def __init__(self, address, goto, evaluate):
        self.address, self._goto, self.evaluate = address, goto, evaluate
        self._path = None

    def open(self, path):
        """Open a notebook and wait for its kernel; returns the seconds."""
        began = time.monotonic()
        self._path = path
        self._goto(f"{self.address}/live/lab/index.html?path={path}")
        self._wait(lambda: self.evaluate(_STATUS) == "idle", f"the kernel of {path}")
        return time.monotonic() - began

    def visit(self, path):
        """Open a notebook unless it is open already."""
        if path != self._path:
            self.open(path)

    def run_all(self):
        """Run every cell, and return their outputs and the seconds."""
        began = time.monotonic()
        self.evaluate(_RUN)
        self._wait(lambda: self.evaluate("() => window.ran"), "the notebook's end")
        time.sleep(0.5)
        return self.evaluate(_OUTPUTS), time.monotonic() - began

    def execute(self, code):
        """What code prints in the notebook's kernel."""
        return self.evaluate(_EXECUTE, code)

    def slide(self):
        """Milliseconds in which a slider answers, the second time."""
        assert self.evaluate(_SHOW_SLIDER)
        return [self.evaluate(_SLIDE) for _ in range(2)][1]

    def _wait(self, done, what):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(Exception):  # the page may still be loading
                if done():
                    return
            time.sleep(0.5)
        raise TimeoutError(f"{what} did not come within {PATIENCE} s")


#: Addresses, times, numbers of cells, spaces; and the type that numpy leaves out if it is the machine's own integer.
_CHANGES = re.compile(r",\s*dtype=int(32|64)\b|0x[0-9a-f]+|\d+(\.\d+)? ?m?s\b|\bIn ?\[\d+\]|ipython-input-[^>\"]+|\s+")


def comparable(outputs):
    """What a reader sees of a cell's outputs, without what differs from run to run; streams in one piece."""
    found = []
    for output in outputs:
        if output["output_type"] == "stream":
            found.append("".join(output["text"]) if output["name"] == "stdout" else "")
        elif output["output_type"] == "error":
            found.append(f"{output['ename']}: {output['evalue']}")
        else:
            data = output["data"]
            found += ["".join(data[kind]) for kind in sorted(data) if kind.startswith("text/") or "svg" in kind]
    return _CHANGES.sub("", "".join(found))
