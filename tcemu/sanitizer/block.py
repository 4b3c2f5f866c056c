"""The state of one thread block that the sections of the sanitizer share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tcemu.machine.events import BlockStarted, By, Event
from tcemu.sanitizer.clocks import Clocks
from tcemu.sanitizer.records import Records
from tcemu.sanitizer.report import Earlier, Report
from tcemu.sanitizer.shadow import Shadow, Tiles

Handlers = dict[type[Event], Callable[..., None]]


class Section(Protocol):
    """One group of rules: a handler for each kind of event that concerns it."""

    handlers: Handlers


class Block:
    """A thread block that the sanitizer observes: its clocks, records and shadow memory, and where to report."""

    def __init__(self, started: BlockStarted, tell: Callable[[Report], None], tiles: Tiles) -> None:
        self.threads, self.warps, self.target = started.threads, started.warps, started.target
        self.clocks = Clocks(started.threads)
        self.records = Records(self.clocks)
        self.shadow = Shadow(started.shared, tiles)
        self.exited: dict[int, By] = {}
        #: passes a finished report to the sanitizer
        self.tell = tell

    def report(
        self,
        rule: str,
        by: By,
        message: str,
        *,
        what: str = "",
        earlier: Earlier | None = None,
        lanes: tuple[int, ...] = (),
    ) -> None:
        """Report that the access or instruction of `by` broke a rule."""
        self.tell(Report(rule, message, by, what, earlier, lanes))
