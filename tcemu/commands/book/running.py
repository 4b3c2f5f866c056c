"""Runs a notebook for the book, in a process of its own, and keeps what its explorers and questions answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tcemu.commands.book.frames import frames

#: What a notebook's cells answer, by the cell's place; and the errors that it had.
Answers = tuple[dict[int, dict[str, Any]], list[str]]


def answers(notebooks: Iterable[Path]) -> Iterator[Answers]:
    """What the explorers and questions of each notebook answer; several notebooks run at once."""
    # a fresh process for each, as Jupyter starts a kernel
    with ProcessPoolExecutor(min(4, os.cpu_count() or 1), get_context("spawn"), max_tasks_per_child=1) as pool:
        yield from pool.map(_answers, notebooks)


def _answers(path: Path) -> Answers:
    os.environ.update(TCEMU_LIVE="recorded", TCEMU_QUIET="1")  # as the stored outputs were made
    os.chdir(path.parent)
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    from tcemu.show.prediction import Prediction
    from tcemu.show.widgets import Explorer

    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    kept, errors = {}, []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        with capture_output():
            done = shell.run_cell("".join(cell["source"]), store_history=True)
        error = done.error_before_exec or done.error_in_exec
        if error and "raises-exception" not in cell["metadata"].get("tags", []):
            errors.append(f"{path.name}, cell {number}: {type(error).__name__}: {error}")
        if isinstance(done.result, Explorer):
            kept[number] = frames(done.result)
        elif isinstance(done.result, Prediction):
            kept[number] = done.result.page()
    return kept, errors
