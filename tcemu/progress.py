"""A bar for work of many runs: it appears after two seconds, in a terminal or a notebook, and disappears at the end.

It estimates how long the rest takes. Nothing appears where the output goes to a file, or if TCEMU_QUIET=1.
"""

from __future__ import annotations

import os
import sys
import time
from html import escape
from types import TracebackType
from typing import Any, Self

from tcemu.tracebacks import shell

#: Seconds before the bar appears, and between its updates.
_PATIENCE, _PAUSE = 2.0, 0.2
#: Words for a duration: up to how many of a unit, the unit, and its seconds.
_UNITS = ((90, "s", 1), (90, "min", 60), (48, "h", 3600), (float("inf"), "days", 86_400))


class Progress:
    """Shows how many of `total` runs are done.

    >>> from tcemu.progress import Progress
    >>> with Progress("seeds of kernel", 100) as progress:
    ...     for done in range(1, 101):
    ...         progress.show(done)
    """

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total = what, total
        self._began = time.monotonic()
        self._next = self._began + _PATIENCE
        #: seconds that the rest takes at the pace so far
        self._left = 0.0
        #: draws what is done; None before the bar appears
        self._draw: Any = None
        self._end: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end is not None:
            self._end()

    def show(self, done: int) -> None:
        """Show that `done` runs are complete."""
        now = time.monotonic()
        if now < self._next or os.environ.get("TCEMU_QUIET"):
            return
        self._next = now + _PAUSE
        if self._draw is None:
            self._begin()
        self._left = (now - self._began) / done * (self.total - done) if done else 0.0
        self._draw(done)

    def _begin(self) -> None:
        if hasattr(shell(), "kernel"):
            self._in_notebook()
        elif sys.stderr.isatty():
            self._in_terminal()
        else:
            self._draw = lambda _: None

    def _in_notebook(self) -> None:
        from IPython.display import display

        shown: Any = display({"text/plain": ""}, raw=True, display_id=True)

        def draw(done: int) -> None:
            left = f", about {rest(self._left)} left" if 0 < done < self.total else ""
            text = f"{self.what}: {done:,} of {self.total:,}{left}"
            bar = f'<progress value="{done}" max="{self.total}"></progress>'
            shown.update({"text/plain": text, "text/html": f"<label>{escape(text)} {bar}</label>"}, raw=True)

        self._draw, self._end = draw, lambda: shown.update({"text/plain": "", "text/html": ""}, raw=True)

    def _in_terminal(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = [TextColumn("{task.description}"), BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn()]
        columns += [TextColumn("about"), TimeRemainingColumn(), TextColumn("left")]
        bar = Bar(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task(self.what, total=self.total)
        bar.start()
        self._draw, self._end = lambda done: bar.update(task, completed=done), bar.stop


def rest(seconds: float) -> str:
    """A duration in one unit, rounded: ``90 s``, ``2 min``.

    >>> from tcemu.progress import rest
    >>> rest(7000)
    '2 h'
    """
    return next(f"{round(seconds / each)} {unit}" for most, unit, each in _UNITS if round(seconds / each) <= most)
