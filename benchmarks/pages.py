"""How long a reader waits for a slider in JupyterLab: python benchmarks/pages.py [NAME.ipynb ...].

Each notebook is run in a real JupyterLab in headless Chromium. Then each slider gets an arrow key, again and again, and
the page's own clock takes the time from the key until the new picture is in the page: the way to the kernel, the
drawing, and the way back. The bound is 100 ms. Needs chromium and playwright, as tests/browser does.
"""

from __future__ import annotations

import statistics
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests"), str(ROOT)]
BOUND, KEYS = 100, 6
#: Presses a key on a slider, and resolves with the milliseconds until the picture beside it changes.
_TIMED = """([slider, key]) => new Promise(resolve => {
    const view = slider.closest('.tcemu-view'), start = performance.now();
    const seen = new MutationObserver(() => { seen.disconnect(); resolve(performance.now() - start); });
    const all = { childList: true, subtree: true, characterData: true, attributes: true };
    seen.observe(view.querySelector('figure').parentElement, all);
    slider.focus();
    slider.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    setTimeout(() => { seen.disconnect(); resolve(-1); }, 3000);
})"""


def measure(view: Any) -> None:
    """Print one line for each slider of a notebook that has been run."""
    for explorer in view.page.locator(".tcemu-view").all():
        for slider in explorer.locator("input[type=range]").all():
            if not slider.is_visible():
                continue
            times = []
            for press in range(KEYS):
                key = "ArrowLeft" if float(slider.input_value()) > 0 and press % 2 == 0 else "ArrowRight"
                times.append(view.page.evaluate(_TIMED, [slider.element_handle(), key]))
                view.page.wait_for_timeout(150)
            answered = [each for each in times if each >= 0]
            middle = statistics.median(answered) if answered else float("nan")
            late = "" if middle <= BOUND else "  LATE"
            name = f"{view.name:10} {slider.get_attribute('aria-label'):28}"
            print(f"{name} median {middle:6.1f} ms of {len(answered)} answers{late}", flush=True)


def main(names: list[str]) -> None:
    """Measure these notebooks, by default all."""
    from lab import browser, jupyterlab

    wanted = names or sorted(path.name for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    with TemporaryDirectory() as home, jupyterlab(Path(home)) as address, browser(address) as opens:
        for name in wanted:
            view = opens()
            view.open(name)
            view.run_all()
            measure(view)
            view.page.close()


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("notebooks", type=Path, nargs="*", help="all notebooks if none")
    names = [path.name for path in options.parse_args().notebooks]
    if missing := [name for name in names if not (ROOT / "notebooks" / name).exists()]:
        options.error(f"there is no notebook {missing[0]}")
    main(names)
