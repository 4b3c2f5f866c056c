"""What happened in a block, in order: the steps of its warps and the asynchronous work between them.

It is read from the events of a launch. Warps that do the same share a column; a line that a warp repeats is one step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeGuard

from tcemu.errors import counted, ranges
from tcemu.machine import events
from tcemu.machine.events import By, Copy, Event, Site, Tcgen05, Wgmma

#: What the bars stand for.
_Started = Wgmma | Copy | Tcgen05
_Committed = events.WgmmaCommitted | events.CopiesCommitted
_Waited = events.WgmmaWaited | events.CopiesWaited


@dataclass(eq=False)
class Step:
    """A row: what a warp does on a line of the kernel; without a warp, what all of them notice."""

    warp: int
    site: Site | None
    #: the opcode in short, or what happens to which registers
    label: str
    #: what is known of the operands: the number of a group, how many a wait leaves
    detail: str = ""
    count: int = 1
    bys: list[By] = field(default_factory=list)


@dataclass(eq=False)
class Work:
    """Asynchronous work: from the row that issues it to the row whose wait covers it, if there is one."""

    column: str
    label: str
    detail: str
    first: Step
    last: Step | None = None
    count: int = 1
    bys: list[By] = field(default_factory=list)


@dataclass(frozen=True)
class Order:
    """The rows of a block from the top, its asynchronous work, and the warps that are drawn with those alike."""

    steps: tuple[Step, ...]
    work: tuple[Work, ...]
    warps: dict[int, tuple[int, ...]]

    def step(self, by: By) -> Step | None:
        """The row of an operation; None if it is not among them."""
        own = next((step for step in self.steps if any(each is by for each in step.bys)), None)
        alike = (step for step in reversed(self.steps) if (step.warp, step.site) == (by.warp, by.site))
        return own or next(alike, None)

    def with_refused(self, operations: Iterable[By]) -> Order:
        """The order with a row for each operation that the machine did not begin, and so has no event."""
        missing = [by for by in operations if self.step(by) is None]
        steps = (Step(by.warp, by.site, "does not begin", bys=[by]) for by in missing)
        warps = {by.warp: (by.warp,) for by in missing} | self.warps
        return replace(self, steps=(*self.steps, *steps), warps=dict(sorted(warps.items())))

    def under_way(self, by: By) -> Work | None:
        """The asynchronous work that an operation started; None if it started none."""
        return next((work for work in self.work if any(each is by for each in work.bys)), None)


def order(happened: Sequence[Event], block: int, wanted: Iterable[int]) -> Order:
    """The order of a block's events; each of the warps in `wanted` gets its own column."""
    mine = [event for event in happened if event.block == block]
    warps = _columns(mine, set(wanted))
    reader = _Reader(warps)
    for event in mine:
        reader.read(event)
    return Order(tuple(reader.steps), tuple(reader.work), warps)


def _columns(happened: Sequence[Event], wanted: set[int]) -> dict[int, tuple[int, ...]]:
    """The warps that are drawn, each with those that do the same."""
    done: dict[int, list[tuple[str, Site]]] = defaultdict(list)
    for event in happened:
        if isinstance(event, events.Issued):
            did = (event.opcode, event.by.site)
            if done[event.by.warp][-1:] != [did]:
                done[event.by.warp].append(did)
        elif isinstance(event, events.Touched):
            done.setdefault(event.by.warp, [])
    alike: dict[tuple[tuple[str, Site], ...], list[int]] = defaultdict(list)
    for warp in sorted(done):
        alike[tuple(done[warp])].append(warp)
    columns: dict[int, tuple[int, ...]] = {}
    for same in alike.values():
        drawn = [warp for warp in same if warp in wanted] or same[:1]
        columns |= {warp: (warp,) for warp in drawn} if len(drawn) > 1 else {drawn[0]: tuple(same)}
    return dict(sorted(columns.items()))


#: The detail of work that no commit_group has put into a group.
_IN_NO_GROUP = "in no group"
_NO_COMMIT = "no commit"
#: The detail of work of tcgen05 that a wait of its own covers, by its kind.
_UNTIL = {"ld": "wait::ld", "st": "wait::st"}


class _Reader:
    """Reads events one by one."""

    def __init__(self, warps: Iterable[int]) -> None:
        self._warps = set(warps)
        self.steps: list[Step] = []
        self.work: list[Work] = []
        #: the latest step of each warp
        self._latest: dict[int, Step] = {}
        #: work that no wait has covered, with what it waits for
        self._open: list[tuple[Work, _Started]] = []
        #: groups committed so far, by kind and by warpgroup or warp
        self._groups: dict[tuple[str, int], int] = defaultdict(int)
        #: the mbarriers and phases that cp.async.mbarrier.arrive ties copies to
        self._tied: dict[Work, tuple[int, int]] = {}
        #: the same for each commit of an operation of tcgen05
        self._commits: dict[Tcgen05, list[tuple[int, int]]] = defaultdict(list)

    def read(self, event: Event) -> None:  # noqa: PLR0912 # a case for each kind of event
        """Take one event into account."""
        match event:
            case events.Issued():
                self._step(event.by, _short(event.opcode))
            case events.Touched():
                self._touched(event)
            case events.BarrierCompleted():
                self.steps.append(Step(-1, None, f"barrier {event.barrier} completes"))
            case events.MbarrierCompleted():
                self.steps.append(Step(-1, None, f"mbarrier {event.address:#x}: phase {event.phase} completes"))
            case events.WgmmaIssued(wgmma=wgmma):
                self._start(wgmma, wgmma.bys, "wgmma", str(wgmma.instruction.shape), _IN_NO_GROUP)
            case events.CopyIssued(copy=copy):
                column = "cp.async" if copy.kind == "cp.async" else "bulk copies"
                detail = f"mbarrier {copy.mbarrier:#x}" if copy.mbarrier >= 0 else _IN_NO_GROUP
                self._start(copy, (copy.by,), column, counted(copy.bytes, "byte"), detail)
            case events.Tcgen05Issued(operation=operation):
                label = f"{operation.kind} {operation.instruction.words.get('shape', '')}".strip()
                self._start(operation, (operation.by,), "tcgen05", label, _UNTIL.get(operation.kind, _NO_COMMIT))
            case events.WgmmaCommitted() | events.CopiesCommitted():
                self._committed(event)
            case events.WgmmaWaited() | events.CopiesWaited():
                self._waited(event)
            case events.CopiesArrive():
                for work, what in self._open:
                    if isinstance(what, Copy) and what.kind == "cp.async" and what.by.warp == event.by.warp:
                        self._tied.setdefault(work, (event.address, event.phase))
            case events.MbarrierWaited():
                self._phase_waited(event)
            case events.Tcgen05Waited():
                self._end(lambda _, what: isinstance(what, Tcgen05) and what in event.operations, (event.by,))
            case events.Tcgen05Committed() if type(event) is events.Tcgen05Committed:  # not its arrival
                self._tcgen05_committed(event)

    # ------------------------------------------------------------------------------------------ steps

    def _touched(self, event: events.Touched) -> None:
        latest = self._latest.get(event.by.warp)
        if latest is not None and latest.site == event.by.site and " " not in latest.label:
            latest.bys.append(event.by)  # an instruction of this line did it
            return
        many, does = "s" * (len(event.numbers) > 1), "writes" if event.writes else "reads"
        self._step(event.by, f"{does} register{many} {ranges(event.numbers, '–')}")

    def _step(self, by: By, label: str) -> None:
        """A new row, unless the warp repeats its latest line."""
        if by.warp not in self._warps:
            return
        latest = self._latest.get(by.warp)
        again = latest is not None and (latest.site, latest.label) == (by.site, label)
        polls = label.startswith(("mbarrier.try_wait", "mbarrier.test_wait"))
        if latest is not None and again and (polls or self._alone(latest)):
            latest.count += 1
            latest.bys.append(by)
            if polls and self.steps[-1] is not latest:  # a loop that waits: it counts where it ends
                self.steps.remove(latest)
                self.steps.append(latest)
            return
        self._latest[by.warp] = Step(by.warp, by.site, label, bys=[by])
        self.steps.append(self._latest[by.warp])

    def _alone(self, step: Step) -> bool:
        """Whether nothing has happened since a step but the same line of other warps."""
        since = next(place for place in reversed(range(len(self.steps))) if self.steps[place] is step)
        return all((each.site, each.label) == (step.site, step.label) for each in self.steps[since:])

    # ------------------------------------------------------------------------------------------ asynchronous work

    def _of(self, bys: Sequence[By]) -> Step | None:
        """The row that issued something; None if its warps are not drawn."""
        return next((self._latest[by.warp] for by in bys if by.warp in self._warps), None)

    def _start(self, what: _Started, bys: Sequence[By], column: str, label: str, detail: str) -> None:
        """Begin asynchronous work, or count it with work of the same line."""
        step = self._of(bys)
        if step is None:
            return
        alike = (old for old, _ in reversed(self._open) if (old.first, old.label) == (step, label))
        work = next(alike, None)
        if work is not None:
            work.count += 1
            work.bys += bys
        else:
            work = Work(column, label, detail, step, bys=list(bys))
            self.work.append(work)
        self._open.append((work, what))

    def _committed(self, event: _Committed) -> None:
        """Name the group of the work that is not in a group yet."""
        for work, what in self._open:
            if _same_queue(what, event) and what.group == event.group:
                work.detail = f"group {event.group}"
        self._groups[_queue(event)] = event.group + 1
        self._say(event, f"group {event.group}")

    def _waited(self, event: _Waited) -> None:
        self._say(event, f"{self._groups[_queue(event)] - event.below} left")
        self._end(
            lambda work, what: _same_queue(what, event) and work.detail != _IN_NO_GROUP and what.group < event.below,
            _bys(event),
        )

    def _say(self, event: _Committed | _Waited, detail: str) -> None:
        """Add to the row of an operation what its event says."""
        step = self._of(_bys(event))
        if step is not None:
            step.detail = detail

    def _tcgen05_committed(self, event: events.Tcgen05Committed) -> None:
        mine = [(address, phase) for block, address, phase in event.commit.mbarriers if block == event.block]
        for work, what in self._open:
            if isinstance(what, Tcgen05) and what in event.commit.operations and mine:
                self._commits[what] += mine
                if work.detail == _NO_COMMIT:
                    work.detail = f"mbarrier {mine[0][0]:#x}"

    def _phase_waited(self, event: events.MbarrierWaited) -> None:
        def covered(work: Work, what: _Started) -> bool:
            if isinstance(what, Wgmma):
                return False
            phases = self._commits[what] if isinstance(what, Tcgen05) else [(what.mbarrier, what.phase)]
            phases = [self._tied[work]] if work in self._tied else phases
            return any(address == event.address and phase <= event.phase for address, phase in phases)

        self._end(covered)

    def _end(self, covered: Callable[[Work, _Started], bool], bys: Sequence[By] = ()) -> None:
        """End the work that a wait covers: in the row of the warps that waited, or in the latest one."""
        left = []
        for work, what in self._open:
            if covered(work, what):
                work.last = self._of(bys) or self.steps[-1]
            else:
                left.append((work, what))
        self._open = left


def _bys(event: _Committed | _Waited) -> Sequence[By]:
    """Who committed or waited: the warps of a warpgroup, or one warp."""
    return event.bys if isinstance(event, events.WgmmaCommitted | events.WgmmaWaited) else (event.by,)


def _queue(event: _Committed | _Waited) -> tuple[str, int]:
    """Whose groups they are, and of what."""
    if isinstance(event, events.WgmmaCommitted | events.WgmmaWaited):
        return "wgmma", event.warpgroup
    return event.kind, event.by.warp


def _same_queue(what: _Started, event: _Committed | _Waited) -> TypeGuard[Wgmma | Copy]:
    """Whether asynchronous work is in groups, and in those of the event."""
    if isinstance(what, Wgmma):
        return ("wgmma", what.warpgroup) == _queue(event)
    return isinstance(what, Copy) and (what.kind, what.by.warp) == _queue(event) and what.mbarrier < 0


@cache
def _short(opcode: str) -> str:
    """The words of an opcode that say what it does: those before the first state space of a cluster, or a shape."""
    words = opcode.replace(".sync.aligned", "").split(".")
    own = words[0] == "tcgen05"  # its own waits and fences are named with ::
    ends = (place for place, word in enumerate(words) if "::" in word and not (own and place == 1))
    size = 3 if words[0] == "wgmma" else next(ends, len(words))
    return ".".join(words[own and words[1].startswith("fence") : size])
