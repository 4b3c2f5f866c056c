"""A progress bar that appears with the first step, and only if the output is a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class Bar:
    """Draws on `console`, if that is a terminal."""

    def __init__(self, text: str, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(24), TimeElapsedColumn(), TextColumn(text)]
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task: Any = None

    def show(self, what: str, done: float, total: float, **fields: Any) -> None:
        """Show the current step and how much is done; `fields` are the names that the bar's text refers to."""
        if self.task is None:
            self.task = self.progress.add_task(what, total=total, **fields)
            self.progress.start()
        self.progress.update(self.task, description=what, completed=done, total=total, **fields)


@contextmanager
def bar(text: str, console: Console | None = None) -> Iterator[Bar]:
    """A bar on standard error, removed at the end; `text` follows it, in rich's format."""
    if console is None:
        from rich.console import Console

        console = Console(stderr=True)
    found = Bar(text, console)
    try:
        yield found
    finally:
        if found.task is not None:
            found.progress.stop()
