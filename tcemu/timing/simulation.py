"""Lays the operations of a launch out in cycles on its SMs: a discrete-event simulation in the order of time.

Each warp issues in program order, except for loads that a compiler moves ahead (`order`). An operation waits until the
results that it reads are there and its unit is free; then it issues, and its warp continues, unless the operation waits
for tokens. What it does to the SM's units is in `units`, what it costs in `prices`. Nothing is computed here.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count

from tcemu.timing import units
from tcemu.timing.banks import LANES
from tcemu.timing.data_path import DataPath
from tcemu.timing.operations import BlockTrace, LaunchTrace, Op, Token
from tcemu.timing.order import issue_order
from tcemu.timing.prices import ASSUMED, PARTITIONS, Prices
from tcemu.timing.spans import Cause, Group, Laid, Span, Unit

#: Limits of an SM of sm_90: bytes of shared memory for its blocks, bytes that each block takes in addition, threads,
#: blocks.
SHARED, RESERVED, THREADS, BLOCKS = 228 << 10, 1 << 10, 2048, 32
#: Its registers; the unit of allocation per thread, 8, and the most for a thread; each sub-partition has a quarter.
REGISTERS, UNIT, MOST = 64 << 10, 8, 255

#: What a wait for a token is a wait for. Of an mbarrier's phase, the last contribution decides.
_TOKENS: dict[str, Cause] = {
    "barrier": "barrier",
    "mbarrier": "mbarrier",
    "cp.async": "copy",
    "bulk": "copy",
    "wgmma": "product",
    "cluster": "cluster",
    "flag": "flag",
}


@dataclass(slots=True, eq=False)
class Pending:
    """A token that is not complete yet."""

    #: Contributions that have not come yet, the time of the latest one, and what it was.
    missing: int
    when: float = 0.0
    cause: Cause = "issue"
    waiters: list[Warp] = field(default_factory=list)
    #: The block and warp of that contribution.
    by: tuple[int, int] = (-1, -1)
    #: When the first operation of a group was issued, when it was committed, and when a wait returned.
    issued: float = -1.0
    committed: float = -1.0
    waited: float = -1.0


@dataclass(slots=True, eq=False)
class Resident:
    """A block on the SM."""

    trace: BlockTrace
    sm: Multiprocessor
    start: float
    #: Warps that have not ended.
    running: int
    #: How many warps have issued a wgmma, by warpgroup and number.
    products: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Warp:
    """A warp on the SM."""

    block: Resident
    index: int
    ops: list[Op]
    #: The numbers of the operations, in issue order.
    order: list[int]
    #: When each operation's result is there.
    ready: list[float]
    #: How many operations have ended, whether the next one has issued, and when the warp can continue.
    at: int = 0
    issued: bool = False
    free: float = 0.0
    #: Since when it waits (-1: it does not), and for what.
    since: float = -1.0
    cause: Cause = "issue"
    #: Who ended the wait: a block and a warp.
    ender: tuple[int, int] | None = None
    #: When its last cp.async lands, and until when the operands of its last bulk copy must stay.
    landed: float = 0.0
    held: float = 0.0

    @property
    def number(self) -> int:
        """The number of the next operation."""
        return self.order[self.at]


def registers(trace: BlockTrace) -> int:
    """How many registers a thread of this block needs: an estimate, from those that hold values at the same time."""
    return min(trace.alive + int(ASSUMED["registers"]), MOST)


def resident(trace: BlockTrace) -> int:
    """How many blocks like this one an SM holds at a time: threads, shared memory and estimated registers decide."""
    warps = REGISTERS // PARTITIONS // (-(-registers(trace) // UNIT) * UNIT * LANES) * PARTITIONS
    return max(1, min(
        BLOCKS, THREADS // trace.threads, SHARED // (trace.shared + RESERVED), warps // len(trace.warps)
    ))  # fmt: skip


class Clock:
    """The time of all SMs, and the tokens that their warps wait for."""

    def __init__(self, launch: LaunchTrace) -> None:
        self.now = 0.0
        self.expected, self.follows = launch.expected, launch.follows
        self.tokens = {token: Pending(missing) for token, missing in launch.expected.items()}
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()

    def at(self, when: float, act: Callable[[float], None]) -> None:
        """Call `act` with the time, once it is `when`."""
        heappush(self._heap, (when, next(self._order), act))

    def run(self) -> None:
        """Run until nothing more happens."""
        while self._heap:
            self.now, _, act = heappop(self._heap)
            act(self.now)

    def give(self, token: Token, when: float, cause: Cause, by: tuple[int, int], issued: float = -1.0) -> None:
        """Contribute to a token at the time `when`; the last contribution completes it."""
        pending = self.tokens[token]
        pending.missing -= 1
        if pending.issued < 0:
            pending.issued = issued
        if when >= pending.when:
            pending.when, pending.by = when, by
            pending.cause = cause if cause != "issue" else _TOKENS[token.kind]
        if pending.missing:
            return
        for waiter in pending.waiters:
            self.at(max(pending.when, waiter.since), partial(waiter.block.sm.step, waiter))
        pending.waiters.clear()
        for later in self.follows.get(token, ()):
            self.give(later, pending.when, cause, pending.by)

    def groups(self) -> list[Group]:
        """The groups of asynchronous work, and the phases that copies end on."""
        return [
            Group(*token[:3], token.block, each.issued, each.committed, each.when, each.waited)
            for token, each in self.tokens.items()
            if each.issued >= 0 and not each.missing
        ]


def lay_out(launch: LaunchTrace, prices: Prices, sms: int) -> tuple[list[Laid], list[Group]]:
    """What each SM with a block did, and all groups: block b runs on SM b mod `sms`.

    If blocks wait for one that does not fit, it is laid out beside them, although a GPU would hang.
    """
    clock, blocks = Clock(launch), [launch.blocks[number] for number in sorted(launch.blocks)]
    shares = [blocks[first::sms] for first in range(min(sms, len(blocks)))]
    multiprocessors = [Multiprocessor(prices, clock, share) for share in shares]
    for sm in multiprocessors:
        sm.start()
    clock.run()
    while any(sm.begin(clock.now) for sm in multiprocessors):
        clock.run()
    return [sm.laid for sm in multiprocessors], clock.groups()


class Multiprocessor:
    """One SM. The times of its units say when each is free."""

    def __init__(self, prices: Prices, clock: Clock, traces: Sequence[BlockTrace]) -> None:
        self.prices, self.clock, self.at = prices, clock, clock.at
        self.laid = Laid()
        #: by sub-partition: issue slots, tensor cores, paths to the memories
        self.issue = [0.0] * PARTITIONS
        self.tensor = [0.0] * PARTITIONS
        self.path = [0.0] * PARTITIONS
        self.banks = self.l2 = 0.0
        #: stores, bulk copies and products of wgmma
        self.way = DataPath(clock.at)
        #: the tensor maps that it has fetched
        self.maps: set[int] = set()
        #: pipes of ordinary instructions, by sub-partition and opcode
        self.pipes: defaultdict[tuple[int, str], float] = defaultdict(float)
        #: block and warpgroup whose product the tensor cores computed last, and all that have products
        self.latest: tuple[int, int] | None = None
        self.multiplying: set[tuple[int, int]] = set()
        self._queue = deque(traces)

    # ------------------------------------------------------------------------------------------ blocks

    def start(self) -> None:
        """As many blocks as fit begin."""
        for _ in range(min(len(self._queue), resident(self._queue[0]))):
            self.begin(0.0)

    def begin(self, now: float) -> bool:
        """The next block starts, if there is one; return whether there was."""
        if not self._queue:
            return False
        trace = self._queue.popleft()
        block = Resident(trace, self, now, len(trace.warps))
        for index, ops in enumerate(trace.warps):
            self.at(now, partial(self.step, Warp(block, index, ops, issue_order(ops), [0.0] * len(ops))))
        return True

    def _end(self, warp: Warp, now: float) -> None:
        """A warp has ended; with its last warp, its block makes room for the next."""
        block, self.laid.end = warp.block, max(self.laid.end, now)
        block.running -= 1
        if block.running == 0:
            self.laid.blocks[block.trace.number] = block.start, now
            self.begin(now)

    # ------------------------------------------------------------------------------------------ warps

    def step(self, warp: Warp, now: float) -> None:
        """Let a warp do what it can at this time."""
        while warp.at < len(warp.ops) and warp.ops[warp.number].kind == "void":
            self._skip(warp, now)
        if warp.at == len(warp.ops):
            self._end(warp, now)
            return
        op = warp.ops[warp.number]
        if not warp.issued:
            when, cause = units.earliest(self, warp, op, now)
            if when > now:
                self._wait(warp, now, cause, when)
                return
            self._waited(warp, now)
            warp.issued, warp.free = True, units.PERFORM[op.kind](self, warp, op, now)
            self.span("warp", warp.index, now, max(warp.free, now + 1), warp, op)
            if op.waits and warp.free > now:
                self.at(warp.free, partial(self.step, warp))
                return
        if not self._complete(warp, op, now):
            return
        self._waited(warp, now)
        warp.issued = False
        warp.at += 1
        self.at(max(warp.free, now), partial(self.step, warp))

    def _skip(self, warp: Warp, now: float) -> None:
        """An operation that takes no time; what others wait for happens at once."""
        for token in warp.ops[warp.number].gives:
            self.give(warp, token, now)
        warp.at += 1

    def _complete(self, warp: Warp, op: Op, now: float) -> bool:
        """Whether all tokens that the operation waits for are complete; if not, the warp will be woken."""
        for token in op.waits:
            pending = self.clock.tokens[token]
            if pending.missing:
                self._wait(warp, now, _TOKENS[token.kind])
                pending.waiters.append(warp)
                return False
            wake = pending.when + (ASSUMED["wake"] if token.kind == "mbarrier" else 0)
            if pending.when > now or (warp.since >= 0 and wake > now):
                self._wait(warp, now, pending.cause, wake)
                return False
            if warp.since >= 0:
                warp.ender = pending.by
            pending.waited = pending.waited if pending.waited >= 0 else now
        return True

    def _wait(self, warp: Warp, now: float, cause: Cause, until: float | None = None) -> None:
        """The warp waits, for something new or still for the same."""
        warp.since, warp.cause = (now if warp.since < 0 else warp.since), cause
        if until is not None:
            self.at(until, partial(self.step, warp))

    def _waited(self, warp: Warp, now: float) -> None:
        """If the warp was waiting, end its wait."""
        if 0 <= warp.since < now:
            self.span("warp", warp.index, warp.since, now, warp, warp.ops[warp.number], warp.cause)
        warp.since, warp.ender = -1.0, None

    # ------------------------------------------------------------------------------------------ for units

    def give(self, warp: Warp, token: Token, when: float, cause: Cause = "issue", issued: float = -1.0) -> None:
        """A warp contributes to a token at the time `when`."""
        self.clock.give(token, when, cause, (warp.block.trace.number, warp.index), issued)

    def map_of(self, op: Op) -> float:
        """How much longer a copy takes because its tensor map has to be fetched first."""
        if op.map < 0 or op.map in self.maps:
            return 0
        self.maps.add(op.map)
        return ASSUMED["tensor map"] + (ASSUMED["first copy"] if len(self.maps) == 1 else 0)

    def span(
        self, unit: Unit, number: int, start: float, end: float, warp: Warp, op: Op, cause: Cause | None = None
    ) -> None:
        """Note what a unit did, or with a `cause` what a warp waited for."""
        block, what = warp.block.trace.number, cause or op.kind
        of = block, warp.index, cause is not None, warp.ender if cause else None
        made = Span(unit, number, start, end, what, op.opcode, op.site, *of)
        self.laid.spans.append(made)
