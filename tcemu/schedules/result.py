"""The result of a search over schedules: its failures, and what it covered."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

from tcemu.errors import Unending, counted, listing
from tcemu.machine.launch import Launch, Parting
from tcemu.machine.schedule import Delay, Schedule
from tcemu.sanitizer.report import Report
from tcemu.schedules.run import Finding, Run


@dataclass(frozen=True)
class Level:
    """The schedules with a number of delays: how many ran, and how many there are.

    >>> from tcemu.schedules import Level
    >>> print(Level(1, 12, 12))
    all 12 orders with 1 delay
    >>> print(Level(2, 50, 66))
    50 of 66 orders with 2 delays
    """

    delays: int
    ran: int
    #: None if they were not counted: more than could be tried
    total: int | None

    def __str__(self) -> str:
        kind = f"with {counted(self.delays, 'delay')}" if self.delays else "without a delay"
        if self.total == self.ran:
            return f"all {counted(self.ran, 'order')} {kind}" if self.ran else f"no order {kind}: there is none"
        if self.total is None:
            return f"{counted(self.ran, 'order')} {kind}"
        return f"{self.ran:,} of {counted(self.total, 'order')} {kind}"


@dataclass(frozen=True)
class Failure:
    """A schedule under which a kernel fails, with as few delays as possible, and the reason.

    >>> def last_wins(warp, out):
    ...     warp.st_global(out.at(warp.laneid), warp.warpid, order="relaxed")
    >>> failure = tcemu.search_schedules(last_wins, block=64, args=(np.zeros(32, np.uint32),)).failures[0]
    >>> failure.replay, failure.what.cause, failure.steps
    ('schedule="late backwards"', 'schedule', ())
    """

    schedule: Schedule
    what: Report | Exception | Parting
    #: For each delay: the warp that is held back, and where.
    steps: tuple[str, ...]

    @property
    def title(self) -> str:
        """The mistake in one line."""
        return Finding(self.what).title

    @property
    def replay(self) -> str:
        """The argument of tcemu.launch that repeats it."""
        limit = f", operations={self.what.operations}" if isinstance(self.what, Unending) else ""
        return f'schedule="{self.schedule}"{limit}'

    def __str__(self) -> str:
        how = [f"  {step}" for step in self.steps]
        start = f"under {self.schedule.policy}{' backwards' * self.schedule.backwards}"
        head = f"{start}, without a delay" if not how else f"{start}, with {counted(len(how), 'delay')}:"
        return "\n".join([str(self.what), head, *how, f"to reproduce it: tcemu.launch(..., {self.replay})"])

    def __repr__(self) -> str:
        return f"<{self.title}; {self.replay}>"


@dataclass
class ScheduleSearch:
    """The result of tcemu.search_schedules: its failures, and what it covered.

    >>> def meet(warp):
    ...     warp.bar_sync()
    >>> result = tcemu.search_schedules(meet, block=64, delays=1)
    >>> result.failures, result.covered
    ([], 'all 4 orders without a delay; all 8 orders with 1 delay; in 12 runs')
    """

    kernel: str
    #: Schedules that ran before a failure was found, or all of them, without those that shrank it.
    runs: int = 0
    levels: list[Level] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    #: The launch under the first schedule.
    result: Launch | None = None
    #: Where results differ in a kernel that may give different ones, because it uses atomic operations.
    parted: Parting | None = None

    @property
    def covered(self) -> str:
        """What was tried."""
        return f"{'; '.join(map(str, self.levels))}; in {counted(self.runs, 'run')}"

    @property
    def left(self) -> str:
        """What was not tried."""
        whole = [level.delays for level in self.levels if level.ran == level.total]
        rest = [
            f"{counted(level.total - level.ran, 'order')} with {counted(level.delays, 'delay')}"
            for level in self.levels
            if level.total is not None and level.total > level.ran
        ]
        most = max(whole, default=0) + len(rest)
        more = f"orders with more than {counted(most, 'delay')}" if most else "orders with a delay"
        return f"{listing([*rest, more], 'and')}; asynchronous work that ends neither at once nor as late as it can"

    def __str__(self) -> str:
        if not self.failures:
            lines = [f"{self.kernel}: no failure found.", f"Tried: {self.covered}.", f"Not tried: {self.left}."]
            if self.parted is not None:
                lines.append(f"The result depends on the order, as it may with atomic operations: {self.parted}")
            return "\n".join(lines)
        heads = [f"{self.kernel} fails. Tried: {self.covered}."]
        return "\n\n".join([*heads, *map(str, self.failures)])

    def __repr__(self) -> str:
        failures = counted(len(self.failures), "failure") if self.failures else "no failure"
        return f"<schedules of {self.kernel}: {failures} in {counted(self.runs, 'run')}>"

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{escape(self.kernel)}</b>: {escape(self.covered)}.</p>"]
        for each in self.failures:
            parts.append(f"<p><b>{escape(each.title)}</b><br><code>tcemu.launch(..., {escape(each.replay)})</code></p>")
            parts.append(f'<pre style="white-space:pre-wrap">{escape(str(each))}</pre>')
        if not self.failures:
            parts.append(f"<p>No failure found. Not tried: {escape(self.left)}.</p>")
        return "".join(parts)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def failures_of(run: Run) -> list[Failure]:
    """The failures of a run."""
    return [Failure(run.schedule, finding.what, steps_of(run)) for finding in run.findings]


def steps_of(run: Run) -> tuple[str, ...]:
    """The run's delays in words."""
    end = "at once" if run.schedule.policy == "late" else "late"
    return tuple(_step(delay, end, *run.reached[delay]) for delay in run.schedule.delays if delay in run.reached)


def _step(delay: Delay, end: str, opcode: str, site: object) -> str:
    who = f"warp {delay.warp} of block {delay.block}"
    if delay.mark == "@":
        return f"{who} is held back before its operation {delay.operation}, {opcode} at {site}"
    return f"what {who} starts with its operation {delay.operation}, {opcode} at {site}, ends {end}"
