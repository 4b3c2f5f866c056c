"""The state of one thread block that the sections of the sanitizer share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, get_args

from tcemu.instructions import Instruction
from tcemu.instructions.facts import Space
from tcemu.machine.events import BlockStarted, By, Event, Order
from tcemu.sanitizer.clocks import Array, Clocks
from tcemu.sanitizer.fences import Fences
from tcemu.sanitizer.grid import Grid, Neighbour
from tcemu.sanitizer.records import Records
from tcemu.sanitizer.report import Earlier, Report
from tcemu.sanitizer.shadow import Shadow, Tiles

Handler = Callable[..., object]

#: What shows that an access has ended, in the order of explanations.
Way = Literal["mbarrier", "barrier.cluster", "wait", "wgmma"]
WAYS: tuple[Way, ...] = get_args(Way)


class ForInstructions(NamedTuple):
    """A handler of Issued; `needs(instruction, whole)`: whether it needs an instruction of a whole or partial warp."""

    handle: Handler
    needs: Callable[[Instruction, bool], bool]


class Access(NamedTuple):
    """A kind of access: the state space, whether it writes, its memory order, and whether lanes exchange the bytes.

    `remote`: it is to the shared memory of another block.
    """

    space: Space
    writes: bool
    order: Order
    collective: bool
    remote: bool


class ForAccesses(NamedTuple):
    """A handler of Accessed; `needs` tells whether it needs a kind of access."""

    handle: Handler
    needs: Callable[[Access], bool]


#: By kind of event. Most handlers need only some events of the two most frequent kinds.
Handlers = dict[type[Event], Handler | ForInstructions | ForAccesses]


#: Families for which another event reports that a whole warp executes the instruction: its lanes exchange bytes of
#: memory (Accessed), the warps of a warpgroup act together (WgmmaFenced, WgmmaIssued, WgmmaCommitted, WgmmaWaited), or
#: it arrives at a barrier (BarrierArrived).
_REPORTED = frozenset({"ldmatrix", "stmatrix", "wmma.load", "wmma.store"}) | {
    "wgmma", "wgmma.fence", "wgmma.commit_group", "wgmma.wait_group",
    *(f"{name}.{what}" for name in ("bar", "barrier") for what in ("sync", "arrive", "red")),
}  # fmt: skip


def together(instruction: Instruction, whole: bool) -> bool:
    """Whether lanes execute an instruction together, or wait for each other there, and no other event says so."""
    meets = instruction.sync or instruction.aligned or instruction.lanes > 32
    return meets and not (whole and instruction.family in _REPORTED)


def exchanges(access: Access) -> bool:
    """Whether all lanes exchange the bytes."""
    return access.collective


class Section(Protocol):
    """One set of rules: a handler for each kind of event that concerns it."""

    handlers: Handlers

    def __init__(self, block: Block) -> None: ...


#: All sections, in the order in which they receive events. Those of sections.py come first, in the order there.
SECTIONS: list[type[Section]] = []
Kind = TypeVar("Kind", bound=Section)


def section(kind: type[Kind]) -> type[Kind]:
    """Let each block that the sanitizer observes have a section of this kind, made by `kind(block)` when needed."""
    SECTIONS.append(kind)
    return kind


class Block:
    """A thread block that the sanitizer observes: its clocks, records and shadow memory, and where to report."""

    def __init__(self, started: BlockStarted, tell: Callable[[Report], None], tiles: Tiles) -> None:
        self.threads, self.warps, self.target = started.threads, started.warps, started.target
        self.clocks = Clocks(started.threads)
        self._shared = started.shared, tiles, started.names
        self.exited: dict[int, By] = {}
        #: the blocks whose warps it has, in order
        self.numbers: tuple[int, ...] = (started.block,)
        #: by warp: a row that shows which mbarriers of the cluster it knows to have been initialised
        self.announced: dict[int, Array] = {}
        #: the content of its shared memory
        self.content = started.content
        #: explain why an access has not ended, from its record and the one that conflicts with it, if known
        self.ways: dict[Way, Callable[[int, int], str]] = {}
        #: what a warp did that looks like synchronisation but orders nothing, for the reports of others
        self.in_vain: dict[int, str] = {}
        #: passes a finished report to the sanitizer
        self.tell = tell
        #: the sections made so far
        self.made: dict[type[Section], Section] = {}
        #: its launch, and what it exchanges with the other blocks; set by `join`
        self.grid: Grid
        self.neighbour: Neighbour
        #: reports that come after those of the rules that explain them
        self._later: list[Report] = []
        #: hints that come at the end
        self._hints: list[Report] = []

    def join(self, grid: Grid) -> None:
        """The block belongs to this launch."""
        self.grid, self.neighbour = grid, Neighbour(grid, self.clocks)

    def section(self, kind: type[Kind]) -> Kind:
        """Its section of this kind, made when it is first needed: most blocks use few chapters of the manual."""
        section = self.made.get(kind)
        if section is None:
            section = self.made[kind] = kind(self)
        return section  # type: ignore[return-value]

    def close(self) -> None:
        """Forget the sections. They refer to each other: only a collection of garbage would free their memory later."""
        for each in self.made.values():
            vars(each).clear()
        self.made.clear()

    @cached_property
    def fences(self) -> Fences:
        """What its threads know by fences."""
        return Fences(self.clocks)

    @cached_property
    def records(self) -> Records:
        """The records of accesses to its shared memory."""
        return Records(self.clocks)

    @cached_property
    def shadow(self) -> Shadow:
        """The last accesses to its shared memory."""
        return Shadow(*self._shared)

    def explained(self, record: int, other: int) -> list[str]:
        """Why an access has not ended."""
        return [self.ways[way](record, other) for way in WAYS if way in self.ways]

    def mbarrier(self, address: int) -> str:
        """``the mbarrier at 1024 (full[0])``."""
        name = self.shadow.names.describe(address, address + 8) if self.shadow.names else ""
        return f"the mbarrier at {address}" + (f" ({name})" if name else "")

    def number_of(self, warp: int) -> int:
        """The number of the block that a warp belongs to."""
        return self.numbers[warp * len(self.numbers) // self.warps]

    def report(self, rule: str, by: By, message: str, **details: Any) -> None:
        """Report that the access or instruction of `by` broke a rule; `details` are fields of the report."""
        self.tell(Report(rule, message, by, **details))

    def earlier(self, record: int) -> Earlier:
        """The access of a record to shared memory, as the one that a report conflicts with."""
        return Earlier(self.records.by[record], self.records.opcode[record], self.records.callers[record])

    def conflict(self, rule: str, by: By, record: int, message: str, what: str, remedy: str) -> None:
        """Report that the access of `by` conflicts with that of a record of shared memory."""
        self.report(rule, by, message, what=what, earlier=self.earlier(record), remedy=remedy)

    def later(self, report: Report) -> None:
        """Report this when the warps next meet or the block cannot continue: another rule may explain it first."""
        self._later.append(report)

    def hint(self, report: Report) -> None:
        """Report this hint at the end of the block."""
        self._hints.append(report)

    def end(self, _: object = None) -> None:
        """Make all deferred reports."""
        self.flush()
        hints, self._hints = self._hints, []
        for report in hints:
            self.tell(report)

    def flush(self, _: object = None) -> bool:
        """Make the deferred reports; return whether there were any."""
        reports, self._later = self._later, []
        for report in reports:
            self.tell(report)
        return bool(reports)
