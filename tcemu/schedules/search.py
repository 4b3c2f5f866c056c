"""The search: runs a kernel under schedules with few delays, and shrinks the first one that fails.

Delay-bounded scheduling (Emmi, Qadeer and Rakamaric, POPL 2011): an order is a fixed one with a few delays, and most
bugs of order need one or two. The search goes through the numbers of delays from below. While a number's schedules fit
the budget, all of them run, those that delay the first or the last pass over a line before the others; when they no
longer do, schedules are drawn at random until the budget is spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tcemu.errors import LaunchError, briefly, whole
from tcemu.machine.launch import Kernel
from tcemu.machine.schedule import Schedule
from tcemu.progress import PATIENCE, Progress
from tcemu.schedules.result import Failure, Level, ScheduleSearch, failures_of
from tcemu.schedules.run import Case, Run, attempt
from tcemu.schedules.trace import Point

#: The schedules without a delay.
BASES = (Schedule(), Schedule("early"), Schedule(backwards=True), Schedule("early", backwards=True))
#: The other arguments of tcemu.launch that concern blocks.
_SHAPE = ("resident", "cluster", "non_portable_cluster", "operations")
#: What a warp may execute in the first run, unless the caller sets it. Later runs allow `_TIMES` the operations of all
#: warps in the first one, and some more: a warp that polls memory while another is held back executes more than usual,
#: but not that many.
OPERATIONS, _TIMES, _MORE = 1_000_000, 10, 50_000
#: The operations of all warps in all runs together, about a minute's: a budget of time would find less on a busy
#: machine.
WORK = 2_000_000
#: The share of the budget for the most promising schedules, if it is too small for all with a number of delays.
_SHARE = 0.5
#: The most delays of a schedule that is drawn at random, above those of the parent.
_DEEPER = 3
#: The sampling ends after this many consecutive draws that were tried before.
_VAIN = 100


def search_schedules(
    kernel: Kernel,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    args: Sequence[Any] = (),
    *,
    shared: int = 0,
    target: str = "sm_90a",
    delays: int = 2,
    runs: int = 400,
    work: int = WORK,
    check: Callable[..., object] | None = None,
    **more: Any,
) -> ScheduleSearch:
    """Look for an order of warps and asynchronous work under which a kernel fails.

    The arguments up to `target` are those of tcemu.launch; the arrays in `args` do not change. The kernel runs under
    the policies "late" and "early", forwards and backwards (the last block, warp and lane first), and then with delays:
    a warp is held back at one operation until no other warp can run (or others have done a few thousand operations), or
    a copy ends early where it would end late, or late where it would end early. All orders with one delay are tried,
    then all with two, up to `delays`, within a budget of `runs`, and of `work`: the operations that all warps execute
    in all runs together. What does not fit is sampled. Orders that no warp can tell apart count as one
    (tcemu.schedules.trace says which); the result says what was tried and what was not.

    A run fails if the sanitizer reports an error, if the launch does not finish, or if the arrays hold other results
    than after the first run; kernels that use atom or red may give different results, unless `check`, which is called
    with the arguments after each run, raises AssertionError. A launch does not finish if a warp executes more than
    `operations`: unless you set it, a million in the first run, and later many more than that run took. The search ends
    with the first failure, reduced to the delays that it needs. Raises LaunchError for what no GPU would launch.

    >>> def one_of_two_arrives(warp, out):  # the flag is set before the data
    ...     if warp.warpid == 0:
    ...         with warp.only(warp.laneid == 0):
    ...             warp.st_global(out.at(1), 1, order="relaxed")
    ...             warp.st_global(out.at(0), 7, order="relaxed")
    ...     else:
    ...         while (warp.ld_global(out.at(1), order="relaxed") == 0).any():
    ...             warp.nanosleep(20)
    ...         warp.st_global(out.at(2), warp.ld_global(out.at(0), order="relaxed"))
    >>> result = tcemu.search_schedules(one_of_two_arrives, block=64, args=(np.zeros(3, np.uint32),))
    >>> print(result.failures[0].replay)
    schedule="late 0.0@2"
    """
    wrong = [name for name in more if name not in _SHAPE]
    if wrong:
        raise LaunchError(
            f"a search has no {wrong[0]}=: it decides on the order itself, and collects what the sanitizer reports. "
            f"It takes only what defines the blocks: grid, block, shared, target, {', '.join(_SHAPE)}"
        )
    options = {"grid": grid, "block": block, "shared": shared, "target": target, **more}
    limited = options.get("operations") is not None
    options["operations"] = options["operations"] if limited else OPERATIONS
    delays, runs = whole(delays, "delays", LaunchError), whole(runs, "runs", LaunchError)
    work = whole(work, "work", LaunchError)
    if min(delays, runs, work) < 0:
        raise LaunchError(
            f"delays, runs and work of a search must be numbers of at least 0; got delays={briefly(delays)}, "
            f"runs={briefly(runs)}, work={briefly(work)}"
        )
    case = Case(kernel, args, options, check)
    with Progress(f"schedules of {case.name}", max(runs, len(BASES)), patience=PATIENCE) as bar:
        return _Search(case, delays, runs, work, bar, ScheduleSearch(case.name), limited).search()


@dataclass
class _Search:
    """A running search."""

    case: Case
    delays: int
    runs: int
    work: int
    bar: Progress
    outcome: ScheduleSearch
    #: whether the caller limits the operations of a warp
    limited: bool = False
    first: Run | None = None
    #: the runs without failure at the current number of delays, whose points the next number adds to
    parents: list[Run] = field(default_factory=list)
    tried: set[Schedule] = field(default_factory=set)
    failed: Run | None = None
    #: the operations executed so far
    executed: int = 0
    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - a sample, not a secret

    def search(self) -> ScheduleSearch:
        """Run schedules until one fails, all have run or the budget is spent."""
        continues = self._all(0, BASES[: max(self.runs, 1)], len(BASES))
        for count in range(1, self.delays + 1):
            if not continues or not self._left:
                break
            continues = self._deepen(count)
        self.outcome.runs = len(self.tried)
        if self.failed:
            self.outcome.failures = self._shrunk(self.failed)
        return self.outcome

    @property
    def _left(self) -> int:
        """The number of runs left in the budget."""
        return 0 if self.executed >= self.work else max(0, self.runs - len(self.tried))

    def _deepen(self, count: int) -> bool:
        """Run the schedules with `count` delays; return whether all of them ran."""
        parents, self.parents = self.parents, []
        candidates = list(dict.fromkeys(_extended(parents)))
        if not candidates:
            self._all(count, (), 0)
            return False  # nor is there any with more delays
        if len(candidates) <= self._left:
            return self._all(count, candidates, len(candidates))
        chosen = candidates[: int(self._left * _SHARE)]
        self._all(count, chosen, len(candidates))
        if not self.failed:
            self._sample(parents)
        return False

    def _all(self, count: int, schedules: Iterable[Schedule], total: int) -> bool:
        """Run schedules with `count` delays (there are `total`); return whether all ran, and none failed."""
        ran = 0
        for schedule in schedules:
            if ran and not self._left:
                break
            ran += 1
            if not self._try(schedule):
                break
        self.outcome.levels.append(Level(count, ran, total))
        return ran == total and not self.failed

    def _sample(self, parents: Sequence[Run]) -> None:
        """Draw schedules with more delays than the parents, until the budget is spent or no new ones are found."""
        drawn: Counter[int] = Counter()
        vain = 0
        while self._left and not self.failed and vain < _VAIN:
            base = self.random.choice(parents)
            points = self.random.sample(base.points, min(len(base.points), self.random.randint(1, _DEEPER)))
            schedule = base.schedule.also(*(point.delay for point in points))
            if schedule in self.tried:
                vain += 1
                continue
            vain = 0
            drawn[len(schedule.delays)] += 1
            self._try(schedule)
        levels = {level.delays: level for level in self.outcome.levels}
        for delays, many in drawn.items():
            before = levels.get(delays, Level(delays, 0, None))
            levels[delays] = replace(before, ran=before.ran + many)
        self.outcome.levels = [levels[delays] for delays in sorted(levels)]

    def _try(self, schedule: Schedule) -> bool:
        """Run one schedule; return whether the search continues."""
        self.tried.add(schedule)
        run = attempt(self.case, schedule, self.first)
        self.executed += run.launch.counts.total() if run.launch else 0
        self.bar.show(len(self.tried))
        if self.first is None:
            self.first, self.outcome.result = run, run.launch
            self._limit(run)
        self.outcome.parted = self.outcome.parted or run.parted
        if run.findings:
            self.failed = run
            return False
        self.parents.append(run)
        return True

    def _limit(self, first: Run) -> None:
        """Limit the operations of further runs, which may loop forever."""
        if first.launch is not None and not self.limited:
            operations = _TIMES * first.launch.counts.total() + _MORE
            self.case = replace(self.case, options={**self.case.options, "operations": operations})

    # ------------------------------------------------------------------------------------------ shrinking

    def _shrunk(self, failed: Run) -> list[Failure]:
        """The failures of the simplest schedule that fails in the same way."""
        wanted = failed.findings[0].key
        simpler: Schedule | None = failed.schedule
        while simpler is not None:
            simpler = None
            for schedule in _simpler(failed.schedule):
                run = attempt(self.case, schedule, self.first)
                if wanted in run.keys:
                    failed, simpler = run, schedule
                    break
        return failures_of(failed)


def _simpler(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules with one delay fewer, then the same delays on a simpler base."""
    yield from map(schedule.without, schedule.delays)
    for base in BASES:
        if (base.backwards, base.policy != "late") < (schedule.backwards, schedule.policy != "late"):
            yield base.also(*schedule.delays)


def _extended(parents: Sequence[Run]) -> Iterator[Schedule]:
    """The schedules with one delay more: first those at the first pass over a line, then the last, and so on.

    Delays of different warps come before several of one.
    """
    rounds: dict[int, list[Schedule]] = {}
    for parent in parents:
        held = set(parent.schedule.delays)
        warps = {delay[:2] for delay in held}
        for number, point in _rounds(parent.points):
            if point.delay not in held:
                again = point.delay[:2] in warps
                rounds.setdefault(number + again, []).append(parent.schedule.also(point.delay))
    for number in sorted(rounds):
        yield from rounds[number]


def _rounds(points: Sequence[Point]) -> Iterator[tuple[int, Point]]:
    """Each point with its round: 0 for a warp's first pass over a line, 1 for its last, 2 for its second..."""
    lines: dict[object, list[Point]] = {}
    for point in points:
        lines.setdefault((point.delay[:3], point.site), []).append(point)
    for passes in lines.values():
        for number, point in enumerate(passes):
            yield (0 if number == 0 else 1 if number == len(passes) - 1 else number + 1), point
