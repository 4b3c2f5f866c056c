"""Schedules: an order of a launch in one line of text, which can be repeated, and the strategy that follows it.

    late 0.1@12 0.2~3

starts from a policy, "late" or "early", in the order of seed 0 (or "late backwards": the last block, warp and lane
first), and departs from it at the places listed. Before operation 12 of warp 1 of block 0, counted from 1, that warp
stands
aside until no other warp can continue, or for 4096 operations of others (@). The asynchronous work that operation 3 of
warp 2 begins ends at once where the policy would let it end late, and late where it would end at once (~).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, get_args

from tcemu.errors import LaunchError, briefly
from tcemu.machine.events import Site
from tcemu.machine.sites import site
from tcemu.machine.strategy import InOrder

if TYPE_CHECKING:
    from tcemu.instructions import Instruction
    from tcemu.machine.pending import Task
    from tcemu.machine.scheduler import Strand

Item = TypeVar("Item")

#: @: the warp is delayed before the operation. ~: work that it starts ends late instead of early, or the reverse.
Mark = Literal["@", "~"]
#: After this many consecutive loads that return nothing new, a warp counts as polling.
_POLLS = 16
#: A warp is delayed for at most this many operations of others: a loop that polls and stores would run forever.
_LONGEST = 4096
#: The policy that a schedule starts from.
_POLICIES: tuple[Literal["late", "early"], ...] = ("late", "early")
_DELAY = re.compile(r"(\d{1,9})\.(\d{1,4})([@~])(\d{1,9})")
_FORM = (
    'a schedule is a policy, "late" or "early", perhaps "backwards", and then delays, BLOCK.WARP@OPERATION or '
    'BLOCK.WARP~OPERATION: "late 0.1@12"'
)


class Delay(NamedTuple):
    """One departure from the order: before, or in what is begun by, an operation of a warp, counted from 1.

    >>> from tcemu.schedules import Delay
    >>> str(Delay(block=0, warp=1, mark="@", operation=12))
    '0.1@12'
    """

    block: int
    warp: int
    mark: Mark
    operation: int

    def __str__(self) -> str:
        return f"{self.block}.{self.warp}{self.mark}{self.operation}"


@dataclass(frozen=True)
class Schedule:
    """An order of a launch: a policy, the direction, and delays.

    >>> from tcemu.machine.schedule import Schedule
    >>> schedule = Schedule.parse("late backwards 0.1@12")
    >>> schedule.policy, schedule.backwards, schedule.delays[0].operation, str(schedule)
    ('late', True, 12, 'late backwards 0.1@12')
    >>> fewer = schedule.without(schedule.delays[0])
    >>> str(fewer), fewer.also(*schedule.delays) == schedule
    ('late backwards', True)
    >>> strategy = schedule.strategy()  # what the machine asks during a launch
    >>> strategy.policy, list(strategy.lanes(4))
    ('late', [3, 2, 1, 0])
    """

    policy: Literal["late", "early"] = "late"
    backwards: bool = False
    delays: tuple[Delay, ...] = ()

    @classmethod
    def parse(cls, text: object) -> Schedule:
        """The schedule that a string describes. Raises LaunchError for any other string."""
        words = text.split() if isinstance(text, str) else []
        policy = next((each for each in _POLICIES if words[:1] == [each]), None)
        if policy is None:
            raise LaunchError(f"{_FORM}; got {briefly(text)}")
        backwards = words[1:2] == ["backwards"]
        return cls(policy, backwards, tuple(sorted(set(map(_delay, words[1 + backwards :])))))

    def __str__(self) -> str:
        return " ".join([self.policy, *(["backwards"] * self.backwards), *map(str, self.delays)])

    def also(self, *delays: Delay) -> Schedule:
        """The schedule with more delays, in one order, so that equal schedules are spelt alike."""
        return replace(self, delays=tuple(sorted({*self.delays, *delays})))

    def without(self, delay: Delay) -> Schedule:
        """The schedule with one delay fewer."""
        return replace(self, delays=tuple(each for each in self.delays if each != delay))

    def strategy(self) -> Delaying:
        """The strategy that follows it in one launch."""
        return Delaying(self)


class Delaying(InOrder):
    """Follows a schedule.

    `begun` lists the operations that began asynchronous work, as (block, warp, operation), and `stopped` where warps
    were held back.
    """

    preempts, together = True, 4

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.policy)
        self._step = -1 if schedule.backwards else 1
        self._delays = frozenset(schedule.delays)
        #: delayed warps, the first one first, and the operations of others since a warp was last released or delayed
        self._aside: list[Strand] = []
        self._others = 0
        self._running: Strand
        self.begun: dict[tuple[int, int, int], None] = {}
        self.stopped: dict[Delay, tuple[str, Site]] = {}

    def blocks(self, order: list[Item]) -> list[Item]:
        """In order or backwards."""
        return order[:: self._step]

    def warps(self, strands: list[Strand]) -> list[Strand]:
        """Likewise."""
        return strands[:: self._step]

    def lanes(self, count: int) -> Sequence[int]:
        """Likewise."""
        return range(count)[:: self._step]

    def interrupts(self, strand: Strand, instruction: Instruction) -> bool:
        """Whether the warp is delayed here, or polls and lets others run first."""
        here = Delay(strand.block, strand.warp, "@", strand.operations)
        if here in self._delays:
            self._aside.append(strand)
            self._others = 0
            self.stopped[here] = instruction.opcode, site()
            return True
        self._others += 1
        if self._aside and self._others > _LONGEST:
            self._others = 0
            del self._aside[0]
            return True
        return strand.repeats > _POLLS

    def runs(self, able: Sequence[Strand], busy: Sequence[Strand]) -> Strand:
        """The first warp that is not delayed; if all are delayed or poll, the one delayed longest."""
        going = (each for each in busy if each not in self._aside and each.repeats <= _POLLS)
        self._running = next(going, None) or self._back(able) or (busy or able)[0]
        return self._running

    def _back(self, able: Sequence[Strand]) -> Strand | None:
        strand = next((each for each in self._aside if each in able), None)
        if strand is not None:
            self._aside.remove(strand)
        return strand

    def at_once(self, task: Task) -> bool:
        """As the policy says, except for the delays of work that begins here."""
        strand = self._running
        here = strand.block, strand.warp, strand.operations
        self.begun[here] = None
        block, warp, operation = here
        return (self.policy == "early") != ((block, warp, "~", operation) in self._delays)


def _delay(word: str) -> Delay:
    match = _DELAY.fullmatch(word)
    if match is None:
        raise LaunchError(f"{_FORM}; got {briefly(word)}")
    block, warp, mark, operation = match.groups()
    return Delay(int(block), int(warp), next(each for each in get_args(Mark) if each == mark), int(operation))
