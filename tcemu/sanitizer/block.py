"""What the sections of the sanitizer share about one block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tcemu.machine.events import BlockStarted, By, Event
from tcemu.sanitizer.clocks import Clocks
from tcemu.sanitizer.records import Records
from tcemu.sanitizer.report import Earlier, Report
from tcemu.sanitizer.shadow import Shadow

Handlers = dict[type[Event], Callable[..., None]]


class Section(Protocol):
    """One file of rules: what it does when it hears of an event."""

    handlers: Handlers


class Block:
    """A block under watch: clocks, records, shadow memory, and where to report."""

    def __init__(self, started: BlockStarted, tell: Callable[[Report], None]) -> None:
        self.threads, self.warps, self.target = started.threads, started.warps, started.target
        self.clocks = Clocks(started.threads)
        self.records = Records(self.clocks)
        self.shadow = Shadow(started.shared)
        self.exited: dict[int, By] = {}
        #: reports what is broken, once it is certain
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
        """A rule is broken."""
        self.tell(Report(rule, message, by, what, earlier, lanes))
