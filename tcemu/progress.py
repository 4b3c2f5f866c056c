"""A bar that shows how much of the work is done, in a terminal or a notebook, and disappears at the end.

It estimates how long the rest takes. Nothing appears where the output goes to a file, or if TCEMU_QUIET=1.
"""

from __future__ import annotations

import os
import sys
import time
from html import escape
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

from tcemu.tracebacks import shell

#: Seconds before the bar of a launch appears, and between its updates in a notebook.
PATIENCE, _PAUSE = 2.0, 0.2
#: Words for a duration: up to how many of a unit, the unit, and its seconds.
_UNITS = ((90, "s", 1), (90, "min", 60), (48, "h", 3600), (float("inf"), "days", 86_400))


def place() -> Literal["notebook", "terminal", "log", "quiet"]:
    """Where the user looks; there is no bar in a log."""
    if os.environ.get("TCEMU_QUIET"):
        return "quiet"
    if hasattr(shell(), "kernel"):
        return "notebook"
    return "terminal" if sys.stderr.isatty() else "log"


class Progress:
    """Shows how much of `total` is done; without a total, that something goes on. It waits `patience` seconds first.

    >>> from tcemu.progress import Progress
    >>> with Progress("seeds of kernel", 100) as progress:
    ...     for done in range(1, 101):
    ...         progress.show(done)
    """

    #: the one that has a bar, for which there is room: work inside other work shows nothing
    _shown: ClassVar[Progress | None] = None

    def __init__(self, what: str, total: float | None = None, unit: str = "", *, patience: float = 0.0) -> None:
        self.what, self.total, self.unit = what, total, f" {unit}" if unit else ""
        self._began = time.monotonic()
        self._next = self._began + patience
        #: rich's bar, or the output in the notebook and the number of its cell
        self._bar: Any = None
        self._output: Any = None
        self._cell = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def show(self, done: float = 0, total: float | None = None, what: str = "", note: str = "") -> None:
        """Show how much is done. `total` and `what` replace those given before; `note` is added to this update."""
        self.what, self.total = what or self.what, self.total if total is None else total
        now = time.monotonic()
        if now < self._next or Progress._shown not in (None, self):
            return
        where = place()
        if where not in ("notebook", "terminal"):
            return
        words = ""
        if self.total is not None:
            left = (now - self._began) / done * (self.total - done) if done else 0.0
            words = f"{done:,.0f} of {self.total:,.0f}{self.unit}{f', about {rest(left)} left' if left > 0 else ''}"
        words += f"  {note}" if note else ""
        if where == "notebook":
            self._next = now + _PAUSE
            self._in_notebook(done, f"{self.what}: {words}" if words else self.what)
        else:
            self._in_terminal(done, words)

    def end(self) -> None:
        """Take the bar away."""
        self._next = 0.0
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        if Progress._shown is self:
            Progress._shown = None
        if self._output is not None:
            self._output.update({"text/plain": "", "text/html": ""}, raw=True)

    def _in_notebook(self, done: float, text: str) -> None:
        from IPython.display import display

        # a bar without a value moves by itself, even while the kernel is busy
        value = "" if self.total is None else f' value="{done:.0f}" max="{self.total:.0f}"'
        line = {"text/plain": text, "text/html": f"<label>{escape(text)} <progress{value}></progress></label>"}
        cell = getattr(shell(), "execution_count", 0)
        if self._cell == cell:
            self._output.update(line, raw=True)
        else:
            self._output, self._cell = display(line, raw=True, display_id=True), cell
            Progress._shown = self

    def _in_terminal(self, done: float, words: str) -> None:
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            what = TextColumn("{task.description}", markup=False)
            text = TextColumn("{task.fields[words]}", markup=False)
            columns = what, BarColumn(24), TimeElapsedColumn(), text
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._bar.add_task(self.what, total=self.total, words=words)
            self._bar.start()
            Progress._shown = self
        self._bar.update(0, description=self.what, completed=done, total=self.total, words=words)


def rest(seconds: float) -> str:
    """A duration in one unit, rounded: ``90 s``, ``2 min``.

    >>> from tcemu.progress import rest
    >>> rest(7000)
    '2 h'
    """
    return next(f"{round(seconds / each)} {unit}" for most, unit, each in _UNITS if round(seconds / each) <= most)
