"""Lays the operations of blocks out in cycles on one SM: a discrete-event simulation in the order of time.

Each warp issues in program order. An operation waits until the results that it reads are there and its unit is free;
then it issues, and its warp goes on, unless the operation waits for tokens. What it does to the SM's units is in
`units`, what it costs in `prices`. Nothing is computed here.
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
from tcemu.timing.prices import ASSUMED, Prices
from tcemu.timing.recording import BlockTrace, Op, Token
from tcemu.timing.spans import Cause, Group, Laid, Span, Unit

#: What an SM of sm_90 holds: bytes of shared memory for its blocks, of which each takes some more, threads, blocks.
SHARED, RESERVED, THREADS, BLOCKS = 228 << 10, 1 << 10, 2048, 32
#: Its registers; a warp has them in units of 8 a thread, a thread at most so many; each sub-partition has a quarter.
REGISTERS, UNIT, MOST = 64 << 10, 8, 255

#: What a wait for a token is a wait for. Of an mbarrier's phase, the last contribution decides.
_TOKENS: dict[str, Cause] = {
    "barrier": "barrier",
    "mbarrier": "mbarrier",
    "cp.async": "copy",
    "bulk": "copy",
    "wgmma": "product",
}


@dataclass(slots=True, eq=False)
class Pending:
    """A token on its way."""

    #: Contributions that have not come yet, the time of the latest one, and what it was.
    missing: int
    when: float = 0.0
    cause: Cause = "issue"
    waiters: list[Warp] = field(default_factory=list)
    #: When the first operation of a group was issued, when it was committed, and when a wait returned.
    issued: float = -1.0
    committed: float = -1.0
    waited: float = -1.0


@dataclass(slots=True, eq=False)
class Resident:
    """A block on the SM."""

    trace: BlockTrace
    tokens: dict[Token, Pending]
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
    #: When each operation's result is there.
    ready: list[float]
    #: The number of the next operation, whether it has issued, and when the warp can go on.
    at: int = 0
    issued: bool = False
    free: float = 0.0
    #: Since when it waits (-1: it does not), and for what.
    since: float = -1.0
    cause: Cause = "issue"
    #: When its last cp.async lands, and until when the operands of its last bulk copy must stay.
    landed: float = 0.0
    held: float = 0.0


def registers(trace: BlockTrace) -> int:
    """How many registers a thread of this block needs: an estimate, from those that hold values at the same time."""
    return min(trace.alive + int(ASSUMED["registers"]), MOST)


def resident(trace: BlockTrace) -> int:
    """How many blocks like this one an SM holds at a time: threads, shared memory and estimated registers decide."""
    warps = REGISTERS // units.PARTITIONS // (-(-registers(trace) // UNIT) * UNIT * LANES) * units.PARTITIONS
    return max(1, min(
        BLOCKS, THREADS // trace.threads, SHARED // (trace.shared + RESERVED), warps // len(trace.warps)
    ))  # fmt: skip


class Multiprocessor:
    """One SM and its clock. The times of its units say when each is free."""

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self.laid = Laid()
        #: by sub-partition: issue slots, tensor cores, paths to the memories
        self.issue = [0.0] * units.PARTITIONS
        self.tensor = [0.0] * units.PARTITIONS
        self.path = [0.0] * units.PARTITIONS
        self.banks = self.l2 = self.engine = 0.0
        #: pipes of ordinary instructions, by sub-partition and opcode
        self.pipes: defaultdict[tuple[int, str], float] = defaultdict(float)
        #: block and warpgroup whose product the tensor cores computed last, and all that have products
        self.latest: tuple[int, int] | None = None
        self.multiplying: set[tuple[int, int]] = set()
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._queue: deque[BlockTrace] = deque()

    def run(self, traces: Sequence[BlockTrace]) -> Laid:
        """Lay out these blocks, as many at a time as fit."""
        self._queue = deque(traces)
        for _ in range(min(len(traces), resident(traces[0]))):
            self._begin(0.0)
        while self._heap:
            now, _, act = heappop(self._heap)
            act(now)
        return self.laid

    def at(self, when: float, act: Callable[[float], None]) -> None:
        """Call `act` with the time, once it is `when`."""
        heappush(self._heap, (when, next(self._order), act))

    # ------------------------------------------------------------------------------------------ blocks

    def _begin(self, now: float) -> None:
        """The next block starts, if there is one."""
        if not self._queue:
            return
        trace = self._queue.popleft()
        tokens = {token: Pending(missing) for token, missing in trace.expected.items()}
        block = Resident(trace, tokens, now, len(trace.warps))
        for index, ops in enumerate(trace.warps):
            self.at(now, partial(self._step, Warp(block, index, ops, [0.0] * len(ops))))

    def _end(self, warp: Warp, now: float) -> None:
        """A warp has ended; with its last warp, its block makes room for the next."""
        block, self.laid.end = warp.block, max(self.laid.end, now)
        block.running -= 1
        if block.running == 0:
            number = block.trace.number
            self.laid.blocks[number] = block.start, now
            for token, each in block.tokens.items():
                if each.issued >= 0:
                    times = each.issued, each.committed, each.when, each.waited
                    self.laid.groups.append(Group(token.kind, token.owner, token.number, number, *times))
            self._begin(now)

    # ------------------------------------------------------------------------------------------ warps

    def _step(self, warp: Warp, now: float) -> None:
        """Let a warp do what it can at this time."""
        if warp.at == len(warp.ops):
            self._end(warp, now)
            return
        op = warp.ops[warp.at]
        if not warp.issued:
            when, cause = units.earliest(self, warp, op, now)
            if when > now:
                self._wait(warp, now, cause, when)
                return
            self._waited(warp, now)
            warp.issued, warp.free = True, units.PERFORM[op.kind](self, warp, op, now)
            self.span("warp", warp.index, now, max(warp.free, now + 1), warp, op)
            if op.waits and warp.free > now:
                self.at(warp.free, partial(self._step, warp))
                return
        if not self._complete(warp, op, now):
            return
        self._waited(warp, now)
        warp.issued = False
        warp.at += 1
        self.at(max(warp.free, now), partial(self._step, warp))

    def _complete(self, warp: Warp, op: Op, now: float) -> bool:
        """Whether all tokens that the operation waits for are complete; if not, the warp will be woken."""
        for token in op.waits:
            pending = warp.block.tokens[token]
            if pending.missing:
                self._wait(warp, now, _TOKENS[token.kind])
                pending.waiters.append(warp)
                return False
            wake = pending.when + (ASSUMED["wake"] if token.kind == "mbarrier" else 0)
            if pending.when > now or (warp.since >= 0 and wake > now):
                self._wait(warp, now, pending.cause, wake)
                return False
            pending.waited = pending.waited if pending.waited >= 0 else now
        return True

    def _wait(self, warp: Warp, now: float, cause: Cause, until: float | None = None) -> None:
        """The warp waits, for something new or still for the same."""
        warp.since, warp.cause = (now if warp.since < 0 else warp.since), cause
        if until is not None:
            self.at(until, partial(self._step, warp))

    def _waited(self, warp: Warp, now: float) -> None:
        """If the warp has waited, that is over."""
        if 0 <= warp.since < now:
            self.span("warp", warp.index, warp.since, now, warp, warp.ops[warp.at], warp.cause)
        warp.since = -1.0

    # ------------------------------------------------------------------------------------------ for units

    def give(self, warp: Warp, token: Token, when: float, cause: Cause = "issue", issued: float = -1.0) -> None:
        """Contribute to a token at the time `when`; the last contribution completes it."""
        pending = warp.block.tokens[token]
        pending.missing -= 1
        if pending.issued < 0:
            pending.issued = issued
        if when >= pending.when:
            pending.when, pending.cause = when, cause if cause != "issue" else _TOKENS[token.kind]
        if not pending.missing:
            for waiter in pending.waiters:
                self.at(max(pending.when, waiter.since), partial(self._step, waiter))
            pending.waiters.clear()

    def span(
        self, unit: Unit, number: int, start: float, end: float, warp: Warp, op: Op, cause: Cause | None = None
    ) -> None:
        """Note what a unit did, or with a `cause` what a warp waited for."""
        block, what = warp.block.trace.number, cause or op.kind
        made = Span(unit, number, start, end, what, op.opcode, op.site, block, warp.index, cause is not None)
        self.laid.spans.append(made)
