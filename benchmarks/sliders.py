"""How fast the sliders of the course answer: python benchmarks/sliders.py [notebooks/NAME.ipynb ...].

The code of every notebook is run, and its explorers are shown, which loads the kernels. Then each control of each
explorer is moved to several positions, and the time until the new picture is drawn is taken, in the process that draws
it: by the clock, and as time of the processor, which other programs disturb less. The bound is 5 ms. Compile the
kernels first: `tcemu warm`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from tcemu.errors import OperandError

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
BOUND = 0.005
POSITIONS = 8


def explorers(path: Path) -> Iterator[tuple[str, Any]]:
    """The explorers that a notebook shows or keeps, with the number of the cell they are in."""
    from IPython.core.interactiveshell import InteractiveShell

    from tcemu.show.widgets import Explorer

    shell = InteractiveShell.instance()
    shell.display_formatter.active_types = []
    seen: set[int] = set()
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        with redirect_stdout(StringIO()):
            result = shell.run_cell("".join(cell["source"]), store_history=False)  # if silent, it has no result
        result.raise_error()
        for found in (*shell.user_ns.values(), result.result):
            if isinstance(found, Explorer) and id(found) not in seen:
                seen.add(id(found))
                yield f"cell {number}", found


def moves(explorer: Any) -> Iterator[tuple[str, float, float]]:
    """Every control, moved through positions of its range: the seconds of each picture by the clock, and of work."""
    for control in explorer._standing():
        name = control["name"]
        low, high, step = (control.get(each, 0) for each in ("low", "high", "step"))
        places = control.get("options") or [low + step * round((high - low) * i / POSITIONS / step) for i in range(9)]
        for place in places[:9]:
            start, worked = time.perf_counter(), time.process_time()
            try:
                explorer.set(**{name: place})
            except OperandError:  # another control forbids this position
                continue
            yield name, time.perf_counter() - start, time.process_time() - worked


def measure(path: Path) -> None:
    """Print one line for each control of a notebook."""
    found = list(explorers(path))
    for _, explorer in found:
        explorer._shown()
    for thread in threading.enumerate():
        if thread.name == "tcemu-load":  # the kernels are being loaded in the background
            thread.join()
    for where, explorer in found:
        times: dict[str, list[tuple[float, float]]] = {}
        for name, *seconds in moves(explorer):
            times.setdefault(name, []).append((seconds[0], seconds[1]))
        for name, each in times.items():
            clock, work = zip(*each, strict=True)
            late = "  LATE" if statistics.median(work) > BOUND else ""
            print(f"{path.stem:22} {where:8} {name:14} {_told(clock)}; work {_told(work)}{late}", flush=True)


def _told(seconds: tuple[float, ...]) -> str:
    return f"median {statistics.median(seconds) * 1000:6.1f} ms, at most {max(seconds) * 1000:6.1f} ms"


if __name__ == "__main__":
    options = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("notebooks", type=Path, nargs="*", help="all notebooks if none")
    wanted = options.parse_args().notebooks
    if missing := [path for path in wanted if not path.exists()]:
        options.error(f"there is no notebook {missing[0]}")
    if os.environ.get("TCEMU_SLIDERS"):
        measure(wanted[0])
    else:
        # a process for each notebook, as a kernel is
        for name in wanted or sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
            more = {"TCEMU_SLIDERS": "1", "TCEMU_LIVE": "recorded", "TCEMU_QUIET": "1"}
            subprocess.run([sys.executable, __file__, name], env=os.environ | more, check=True)
