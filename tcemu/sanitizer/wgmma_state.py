"""What the sanitizer knows about wgmma: the fences and registers of each warp, and the pending mma_asyncs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import is_, is_not, itemgetter

from tcemu.machine.events import By, Touched, Wgmma, WgmmaWaited
from tcemu.machine.registers import Registers
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.naming import Known, whole


def numbers_of(read: tuple[Registers, ...]) -> frozenset[int]:
    """The numbers of registers that an mma_async reads; none if its A is in shared memory."""
    return frozenset().union(*(each.numbers for each in read)) if read else _NONE


_NONE: frozenset[int] = frozenset()


#: The length of a row of clocks, which grows with new agents; the number of groups that a warpgroup has committed; and
#: for each of its warps the time and the numbers of fences and accesses.
State = list[int]
#: The number of an access to registers, who accessed them, and whether it was a write.
Touch = tuple[int, By, bool]


def shifted(first: int, which: tuple[int, ...]) -> list[int]:
    """The numbers, within the warp, of registers `which` of the bank that begins with register `first`."""
    return [first + number for number in which]


@dataclass(eq=False, slots=True)
class Use:
    """An mma_async with a register in its accumulator, and the warp's number of fences before it."""

    wgmma: Wgmma
    fences: int


@dataclass(slots=True)
class UnderWay:
    """An mma_async that a warp has not waited for."""

    wgmma: Wgmma
    by: By
    #: the registers of its accumulator and of A, by their numbers in the warp
    accumulator: frozenset[int]
    a: frozenset[int]
    #: the first registers of their banks
    banks: tuple[int, ...]
    committed: bool = False
    #: a later wait_group that did not cover it
    waited: By | None = None
    #: the number of groups that this wait left pending, and of groups committed after the mma_async's
    left: int = 0
    younger: int = 0

    def covered(self, wait: WgmmaWaited) -> bool:
        """Whether a wait covers it."""
        return self.committed and self.wgmma.group < wait.below and self.wgmma.warpgroup == wait.warpgroup

    def meets(self, numbers: Iterable[int]) -> bool:
        """Whether it reads or writes one of these registers."""
        return not (self.accumulator.isdisjoint(numbers) and self.a.isdisjoint(numbers))


@dataclass(slots=True)
class Warp:
    """The state of one warp: its fences, its registers by their numbers, and its mma_asyncs."""

    fences: int = 0
    fence: By | None = None
    #: whether an mma_async followed the last fence, and whether one preceded the fence in the same group
    followed: bool = False
    inside: bool = False
    #: whether the last fence ordered anything
    needed: bool = False
    #: the number of accesses to registers by anything but wgmma
    accesses: int = 0
    #: those since the last fence, by the first register of a bank and the registers within it: the latest to the same
    #: ones, as (its number, by, whether it was a write), in the order in which they happened
    touched: dict[int, dict[tuple[int, ...], Touch]] = field(default_factory=dict)
    #: the registers accessed between the two last fences
    fenced: frozenset[int] = frozenset()
    #: the last mma_async that had each register in its accumulator
    used: dict[int, Use] = field(default_factory=dict)
    #: pending mma_asyncs, and those of them that are not in a group yet
    pending: list[UnderWay] = field(default_factory=list)
    open: list[UnderWay] = field(default_factory=list)
    #: the first registers of the banks that those use
    held: set[int] = field(default_factory=set)
    #: the registers of its latest mma_async's accumulator, their numbers, and that use of them
    latest: tuple[Registers | None, frozenset[int], Use | None] = (None, frozenset(), None)

    def accumulates(self, registers: Registers) -> frozenset[int]:
        """The numbers of an accumulator. A loop uses the same one again and again."""
        known, numbers, _ = self.latest
        return numbers if registers is known else frozenset(registers.numbers)

    def uses(self, accumulator: frozenset[int]) -> Iterable[Use | None]:
        """The last mma_asyncs that had registers of this accumulator in theirs, each once; None for none."""
        _, numbers, use = self.latest
        return (use,) if numbers is accumulator else dict.fromkeys(map(self.used.get, accumulator))

    def use(self, accumulator: frozenset[int], registers: Registers, wgmma: Wgmma) -> None:
        """An mma_async has this accumulator."""
        _, numbers, use = self.latest
        if numbers is accumulator and use is not None:  # which no other has used since
            use.wgmma, use.fences = wgmma, self.fences
            return
        use = Use(wgmma, self.fences)
        self.used.update(dict.fromkeys(accumulator, use))
        self.latest = registers, accumulator, use

    def repeats(self, registers: Registers, wgmma: Wgmma) -> bool:
        """Whether an mma_async adds to what the latest one did, as the next step of k does, with no access in between.

        There is then nothing to report, and this is the last use of the accumulator.
        """
        known, _, use = self.latest
        if registers is not known or use is None or self.touched or self.fenced:
            return False
        if use.wgmma.instruction is not wgmma.instruction:
            return False
        use.wgmma, use.fences = wgmma, self.fences
        return True

    def touch(self, first: int, which: tuple[int, ...], by: By, writes: bool) -> None:
        """Remember an access to registers `which` of the bank that begins with register `first`."""
        self.accesses += 1
        bank = self.touched.get(first)
        if bank is None:
            bank = self.touched[first] = {}
        else:
            bank.pop(which, None)  # so that it comes last
        bank[which] = self.accesses, by, writes

    def fence_touched(self) -> None:
        """A fence orders the accesses before it."""
        self.fenced = frozenset(
            chain.from_iterable(shifted(first, which) for first, bank in self.touched.items() for which in bank)
        )
        self.touched = {}

    def latest_touch(self, numbers: frozenset[int], banks: Iterable[int]) -> tuple[By, bool] | None:
        """The last access since the last fence to one of these registers of these banks, and whether it was a write."""
        touches: list[Touch] = []
        for first in banks:
            latest = reversed(self.touched.get(first, {}).items())
            touches += islice((touch for which, touch in latest if not numbers.isdisjoint(shifted(first, which))), 1)
        return max(touches, key=itemgetter(0))[1:] if touches else None

    def begin(self, new: UnderWay) -> None:
        """An mma_async begins."""
        self.open.append(new)
        self.pending.append(new)
        self.held.update(new.banks)
        self.followed = True

    def end(self, wait: WgmmaWaited) -> None:
        """A wait may cover some of the pending ones."""
        self.pending = [each for each in self.pending if not each.covered(wait)]
        self.held = {bank for each in self.pending for bank in each.banks}

    def users(self, event: Touched) -> list[UnderWay]:
        """The pending mma_asyncs that read or write one of the registers."""
        if event.registers.bank.first not in self.held:
            return []
        return [each for each in self.pending if each.meets(event.numbers)]


@dataclass(eq=False, slots=True)
class Step:
    """An mma_async of a warpgroup: what its warps had done before and knew, and the records of the bytes it reads."""

    wgmma: Wgmma
    state: State
    known: Known
    records: list[int]

    def repeats(self, wgmma: Wgmma, state: State) -> bool:
        """Whether `wgmma` is the next step of k on the same line, with nothing in between but this one.

        There is then nothing to report about its registers, and it ends with this one: both are in one group.
        """
        latest = self.wgmma
        if self.state != state or latest.instruction is not wgmma.instruction or wgmma.a or wgmma.e:
            return False
        return all(map(is_, latest.d, wgmma.d)) and all(map(_on_one_line, latest.bys, wgmma.bys))


def _on_one_line(one: By, other: By) -> bool:
    return one.site is other.site


@dataclass(slots=True)
class Warpgroup:
    """A warpgroup: the column of its wgmma groups, and how many it has committed."""

    column: int
    committed: int = 0
    #: the latest mma_async that does not repeat the one before it
    latest: Step | None = None
    #: the times of its four warps when they issued the last mma_async of a group, by group
    issued: dict[int, list[int]] = field(default_factory=dict)
    #: what each of its warps knew when it issued the last mma_async, and what they knew together
    rows: list[Array] = field(default_factory=list)
    known: Known | None = None

    def knows(self, rows: list[Array]) -> Known:
        """What the four warps know together."""
        if self.known is None or any(map(is_not, rows, self.rows)):
            self.rows, self.known = rows, whole(rows)
        return self.known
