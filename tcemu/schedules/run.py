"""One run of a kernel under one schedule, on a copy of its input, and what went wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from tcemu.errors import LaunchError
from tcemu.machine.arguments import check_arguments, fresh
from tcemu.machine.global_memory import is_buffer
from tcemu.machine.launch import Kernel, Launch, Parting, partings
from tcemu.machine.launch import launch as run
from tcemu.machine.schedule import Delay, Schedule
from tcemu.sanitizer.report import Report
from tcemu.sanitizer.sanitizer import Sanitizer
from tcemu.schedules.trace import Point, Trace

Array = npt.NDArray[Any]
#: Instructions whose results may depend on the order even in a correct kernel.
_FIRST_COME = ("atom.", "red.")


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments, how it is launched, and what its arrays must hold afterwards.

    `options` are those of tcemu.machine.launch.launch; `check` gets the arguments after a run, and raises
    AssertionError if they are wrong.
    """

    kernel: Kernel
    args: Sequence[Any]
    options: Mapping[str, Any]
    check: Callable[..., object] | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return getattr(self.kernel, "__qualname__", type(self.kernel).__name__)


@dataclass(frozen=True)
class Finding:
    """What is wrong with a run: a report of the sanitizer, an error that ended it, or a result that differs."""

    what: Report | Exception | Parting

    @property
    def key(self) -> tuple[object, ...]:
        """The same for the same mistake under any schedule."""
        what = self.what
        if isinstance(what, Report):
            return "report", *what.key
        return ("result",) if isinstance(what, Parting) else ("error", type(what))

    @property
    def title(self) -> str:
        """The mistake in one line."""
        what = self.what
        if isinstance(what, Report):
            return f"{what.severity} {what.rule}: {what.about.title}, at {what.site}"
        if isinstance(what, Parting):
            return f"another result: {what}"
        return f"{type(what).__name__}: {str(what).splitlines()[0] if str(what) else ''}"


@dataclass
class Run:
    """A run: its mistakes, its points, and what its arrays hold afterwards."""

    schedule: Schedule
    findings: list[Finding] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    contents: list[Array] = field(default_factory=list)
    #: The launch's result so far.
    launch: Launch | None = None
    #: Each delay that the run reached, with the operation that it concerns.
    reached: dict[Delay, tuple[str, Any]] = field(default_factory=dict)
    #: Where the result differs from the first run's, if that need not be a mistake of the kernel.
    parted: Parting | None = None

    @property
    def keys(self) -> set[tuple[object, ...]]:
        """The keys of the mistakes."""
        return {finding.key for finding in self.findings}


def attempt(case: Case, schedule: Schedule, first: Run | None = None) -> Run:
    """Run a case under a schedule; `first` is the run whose results are compared with these."""
    check_arguments(case.kernel, case.args, case.options.get("grid", 1), case.options.get("block", 32))
    done, trace, watch, strategy = Run(schedule), Trace(), Sanitizer("collect"), schedule.strategy()
    args = fresh(case.args)
    try:
        done.launch = run(
            case.kernel, args=args, **case.options, policy=schedule.policy, observers=(trace, watch), strategy=strategy
        )
        if case.check is not None:
            case.check(*args)
        done.contents = [each for each in args if is_buffer(each)]
    except Exception as error:
        done.launch = getattr(error, "launch", None)
        if first is None and not watch.errors and not _of_the_machine(error):
            raise  # not caused by the schedule: the kernel has never worked
        if not watch.errors:
            done.findings.append(Finding(error))
    done.findings[:0] = map(Finding, watch.errors)
    done.points = trace.points(strategy.begun)
    steps = ((delay, trace.at(delay)) for delay in schedule.delays)
    done.reached = {delay: (step.opcode, step.site) for delay, step in steps if step is not None} | strategy.stopped
    if case.check is None and first is not None and first.contents and done.contents and not done.findings:
        _compare(case, done, first)
    if first is not None:
        done.contents = []  # they may be large, and have been compared
    return done


def _of_the_machine(error: Exception) -> bool:
    """Whether an error says how a kernel ended or what it computed, rather than that it cannot run at all."""
    ended = isinstance(error, LaunchError) and error.launch is not None
    return ended or isinstance(error, AssertionError)


def _compare(case: Case, done: Run, first: Run) -> None:
    """Note where the results differ; unless the kernel is free to give different ones, that is a mistake."""
    places = [number for number, each in enumerate(case.args) if is_buffer(each)]
    names = str(first.schedule), str(done.schedule)
    parted = partings(places, names, [first.contents, done.contents], "schedule", case.kernel)
    if parted and done.launch is not None:
        if any(opcode.startswith(_FIRST_COME) for opcode in done.launch.counts):
            done.parted = parted[0]
        else:
            done.findings.append(Finding(parted[0]))
