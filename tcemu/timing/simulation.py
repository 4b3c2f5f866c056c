"""Lays the operations of blocks out in cycles on one SM: a discrete-event simulation in the order of time.

Each warp issues in program order: an operation waits until the results that it reads are there, until its unit is free,
and for the tokens that it waits for. The units are those of an SM:

    issue           one instruction per cycle in each of the four sub-partitions; warp w is in sub-partition w mod 4
    tensor core     one in each sub-partition; a wgmma occupies all four
    path            from a sub-partition to the memories: shared memory, and the copies of cp.async
    banks           of shared memory: a wavefront per cycle
    L2              what the SM moves to and from it
    copy engine     bulk and tensor copies

Nothing is computed here; what an operation costs is in `prices`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Literal, NamedTuple

from tcemu.machine.events import Site
from tcemu.timing.prices import ASSUMED, Prices
from tcemu.timing.recording import BlockTrace, Op, Token

#: Sub-partitions of an SM, and warps of a warpgroup.
PARTITIONS = 4
#: What an SM of sm_90 holds: bytes of shared memory for its blocks (each takes 1,024 more), threads, blocks.
SHARED, RESERVED, THREADS, BLOCKS = 228 << 10, 1 << 10, 2048, 32
#: How far a warp's accesses may run ahead of its path to the memories before it waits, in cycles.
AHEAD = 32

#: What a warp, and so a tensor core, can wait for.
Cause = Literal[
    "copy", "barrier", "mbarrier", "product", "shared memory", "global memory", "tensor core", "issue", "epilogue"
]
#: What it means that a result is not there yet, by the kind of operation that makes it.
_LATE: dict[str, Cause] = {
    "mma": "product",
    "wgmma": "product",
    "shared": "shared memory",
    "global": "global memory",
    "copy": "copy",
    "bulk": "copy",
    "arithmetic": "issue",
    "plain": "issue",
}
#: The same by the kind of token.
_TOKENS: dict[str, Cause] = {
    "barrier": "barrier",
    "mbarrier": "mbarrier",
    "cp.async": "copy",
    "bulk": "copy",
    "wgmma": "product",
}


class Span(NamedTuple):
    """Something that took time: an operation of a warp or a unit, or a wait.

    `unit` is "warp", "tensor core" or "copy engine"; `number` the warp's, the sub-partition's or 0. `what` is the kind
    of operation, or what was waited for, and then `waits` is true. Times are in cycles since the launch began.
    """

    unit: str
    number: int
    start: float
    end: float
    what: str
    opcode: str
    site: Site
    block: int
    #: The warp that issued it.
    warp: int
    waits: bool = False
    bytes: int = 0


class Group(NamedTuple):
    """A group of asynchronous work: when it began, was committed, completed, and when a wait for it returned."""

    kind: str
    #: The warp, or for wgmma the warpgroup, or the address of the mbarrier.
    owner: int
    number: int
    block: int
    issued: float
    committed: float
    completed: float
    waited: float


@dataclass
class Laid:
    """What one SM did."""

    spans: list[Span] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    #: Start and end of each block, by its number.
    blocks: dict[int, tuple[float, float]] = field(default_factory=dict)
    end: float = 0.0


@dataclass(slots=True, eq=False)
class _Pending:
    """A token on its way: contributions that are missing, when the last one came, and who waits."""

    missing: int
    when: float = 0.0
    cause: Cause = "barrier"
    done: bool = False
    waiters: list[_Warp] = field(default_factory=list)
    begun: float = -1.0
    committed: float = -1.0
    waited: float = -1.0


@dataclass(slots=True, eq=False)
class _Warp:
    """A warp that runs."""

    block: _Resident
    index: int
    ops: list[Op]
    #: The next operation, and whether it has issued and now waits.
    at: int = 0
    issued: bool = False
    #: When each operation's result is there.
    ready: list[float] = field(default_factory=list)
    #: Since when it waits and for what.
    since: float = -1.0
    cause: Cause = "issue"
    last_copy: float = 0.0
    #: Until when the operands of a bulk copy must stay.
    held: float = 0.0

    @property
    def partition(self) -> int:
        return self.index % PARTITIONS


@dataclass(slots=True, eq=False)
class _Resident:
    """A block on the SM."""

    trace: BlockTrace
    tokens: dict[Token, _Pending]
    start: float
    running: int
    #: The warps that have issued a product, by warpgroup and number.
    products: dict[tuple[int, int], int] = field(default_factory=dict)


def resident(trace: BlockTrace) -> int:
    """How many blocks like this one an SM holds at a time, as far as threads and shared memory decide."""
    return max(1, min(BLOCKS, THREADS // trace.threads, SHARED // (trace.shared + RESERVED)))


class Multiprocessor:
    """One SM and its clock."""

    def __init__(self, prices: Prices) -> None:
        self.prices = prices
        self.laid = Laid()
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._issue = [0.0] * PARTITIONS
        self._tensor = [0.0] * PARTITIONS
        self._path = [0.0] * PARTITIONS
        self._banks = self._l2 = self._engine = 0.0
        #: the warpgroup whose product the tensor cores computed last
        self._last: tuple[int, int] | None = None
        self._queue: deque[BlockTrace] = deque()

    def run(self, traces: Sequence[BlockTrace]) -> Laid:
        """Lay out these blocks, as many at a time as fit."""
        self._queue = deque(traces)
        for _ in range(min(len(traces), resident(traces[0]) if traces else 0)):
            self._begin(0.0)
        while self._heap:
            now, _, act = heappop(self._heap)
            act(now)
        return self.laid

    # ------------------------------------------------------------------------------------------ blocks, warps

    def _begin(self, now: float) -> None:
        """The next block starts."""
        if not self._queue:
            return
        trace = self._queue.popleft()
        tokens = {token: _Pending(missing) for token, missing in trace.expected.items()}
        block = _Resident(trace, tokens, now, len(trace.warps))
        for index, ops in enumerate(trace.warps):
            self._wake(_Warp(block, index, ops, ready=[0.0] * len(ops)), now)

    def _wake(self, warp: _Warp, when: float) -> None:
        heappush(self._heap, (when, next(self._order), lambda now: self._step(warp, now)))

    def _wait(self, warp: _Warp, now: float, cause: Cause) -> None:
        """The warp waits from now on; a wait for the same thing goes on."""
        if warp.since < 0:
            warp.since = now
        warp.cause = cause

    def _waited(self, warp: _Warp, now: float) -> None:
        """The wait is over."""
        if 0 <= warp.since < now:
            op = warp.ops[warp.at]
            self.laid.spans.append(
                Span(
                    "warp", warp.index, warp.since, now, warp.cause, op.opcode, op.site,
                    warp.block.trace.number, warp.index, True,
                )
            )  # fmt: skip
        warp.since = -1.0

    def _step(self, warp: _Warp, now: float) -> None:
        """Let a warp do what it can at this time."""
        if warp.at == len(warp.ops):
            self._end(warp, now)
            return
        op = warp.ops[warp.at]
        if not warp.issued:
            when, cause = self._earliest(warp, op, now)
            if when > now:
                self._wait(warp, now, cause)
                self._wake(warp, when)
                return
            self._waited(warp, now)
            then = self._perform(warp, op, now)
            self._span(warp, op, now, then)
            warp.issued = True
            if then > now and op.waits:
                self._wake(warp, then)
                return
            now_or_later = then
        else:
            now_or_later = now
        if op.waits and not self._complete(warp, op, now):
            return
        self._waited(warp, now)
        warp.issued = False
        warp.at += 1
        self._wake(warp, now_or_later)

    def _complete(self, warp: _Warp, op: Op, now: float) -> bool:
        """Whether all tokens are complete; if not, the warp will be woken."""
        for token in op.waits:
            pending = warp.block.tokens[token]
            if not pending.done:
                self._wait(warp, now, _TOKENS[token.kind])
                pending.waiters.append(warp)
                return False
            late = pending.when + (ASSUMED["wake"] if token.kind == "mbarrier" and warp.since >= 0 else 0)
            if late > now:
                self._wait(warp, now, pending.cause)
                self._wake(warp, late if token.kind != "mbarrier" else pending.when + ASSUMED["wake"])
                return False
            if pending.waited < 0:
                pending.waited = now
        return True

    def _end(self, warp: _Warp, now: float) -> None:
        block = warp.block
        block.running -= 1
        self.laid.end = max(self.laid.end, now)
        if block.running == 0:
            number = block.trace.number
            self.laid.blocks[number] = block.start, now
            self.laid.groups += [
                Group(
                    token.kind, int(token.key[0]), int(token.key[-1]), number,  # type: ignore[call-overload]
                    each.begun, each.committed, each.when, each.waited,
                )
                for token, each in block.tokens.items()
                if each.begun >= 0
            ]  # fmt: skip
            self._begin(now)

    def _span(self, warp: _Warp, op: Op, start: float, end: float) -> None:
        block = warp.block.trace.number
        self.laid.spans.append(
            Span("warp", warp.index, start, max(end, start + 1), op.kind, op.opcode, op.site, block, warp.index)
        )

    def _unit(self, unit: str, number: int, start: float, end: float, warp: _Warp, op: Op, size: int = 0) -> None:
        block = warp.block.trace.number
        self.laid.spans.append(
            Span(unit, number, start, end, op.kind, op.opcode, op.site, block, warp.index, bytes=size)
        )

    # ------------------------------------------------------------------------------------------ operations

    def _earliest(self, warp: _Warp, op: Op, now: float) -> tuple[float, Cause]:
        """When the operation can issue, and what it waits for until then."""
        when, cause = now, "issue"
        for number in op.reads:
            if warp.ready[number] > when:
                when, cause = warp.ready[number], _LATE[warp.ops[number].kind]
        if op.kind != "bulk" and warp.held > when:
            when, cause = warp.held, "issue"
        if when > now:
            return when, cause  # type: ignore[return-value]
        part = warp.partition
        if op.kind == "mma" and self._tensor[part] > now:
            return self._tensor[part], "tensor core"
        if op.kind in ("shared", "copy", "global") and self._path[part] > now + AHEAD:
            return self._path[part] - AHEAD, "shared memory" if op.kind == "shared" else "copy"
        return self._issue[part], "issue"

    def _perform(self, warp: _Warp, op: Op, now: float) -> float:
        """Issue an operation; return when its warp can issue the next one."""
        self._issue[warp.partition] = now + 1
        return _PERFORM[op.kind](self, warp, op, now)

    def _plain(self, warp: _Warp, op: Op, now: float) -> float:
        assert op.instruction is not None  # noqa: S101 - only arithmetic has none
        price = self.prices.plain(op.instruction)
        warp.ready[warp.at] = now + price.latency
        if op.commits is not None and op.commits in warp.block.tokens:
            warp.block.tokens[op.commits].committed = now
        for token in op.gives:
            after = self.prices.barrier(self._arrivals(warp, token)) if token.kind == "barrier" else ASSUMED["arrive"]
            when = max(now, warp.last_copy) if op.follows_copies else now
            self._give(warp, token, when + after, "copy" if op.follows_copies else _TOKENS[token.kind])
        barrier = any(token.kind == "barrier" for token in op.gives)
        return now + (1 if barrier else price.interval)

    @staticmethod
    def _arrivals(warp: _Warp, token: Token) -> int:
        return warp.block.trace.expected[token]

    def _arithmetic(self, warp: _Warp, op: Op, now: float) -> float:
        end = now + ASSUMED["arithmetic"] * op.number
        self._issue[warp.partition] = end
        warp.ready[warp.at] = end + ASSUMED["result"]
        return end

    def _shared(self, warp: _Warp, op: Op, now: float) -> float:
        assert op.instruction is not None  # noqa: S101
        price, part = self.prices.shared(op.instruction, max(op.wavefronts, 1)), warp.partition
        start = max(now + ASSUMED["addresses"], self._path[part], self._banks)
        self._path[part] = max(now, self._path[part]) + price.interval
        self._banks = max(self._banks, now) + op.wavefronts
        warp.ready[warp.at] = start + price.latency
        return self._hold(warp, now)

    def _global(self, warp: _Warp, op: Op, now: float) -> float:
        self._l2 = max(self._l2, now) + op.sectors / ASSUMED["sectors"]
        warp.ready[warp.at] = self._l2 + (0 if op.writes else ASSUMED["global"])
        return self._hold(warp, now)

    def _hold(self, warp: _Warp, now: float) -> float:
        """The ordinary instructions around an access take issue slots too."""
        slots = ASSUMED["issue"] + ASSUMED["addresses"]
        self._issue[warp.partition] = now + slots
        return now + slots

    def _copy(self, warp: _Warp, op: Op, now: float) -> float:
        assert op.instruction is not None  # noqa: S101
        price, part = self.prices.copy(op.instruction, op.bytes), warp.partition
        start = max(now, self._path[part], self._l2)
        self._path[part] = max(now, self._path[part]) + price.interval
        self._l2 = max(now, self._l2) + op.sectors / ASSUMED["sectors"]
        landed = start + price.latency
        warp.last_copy = max(warp.last_copy, landed)
        self._unit("copy engine", 0, now, landed, warp, op, op.bytes)
        heappush(self._heap, (landed, next(self._order), lambda when: self._write(when, op.wavefronts)))
        for token in op.gives:
            self._give(warp, token, landed, "copy", now)
        self._issue[part] = now + ASSUMED["copy slots"]
        return now + ASSUMED["copy addresses"]

    def _write(self, now: float, wavefronts: int) -> None:
        """A copy writes to shared memory: the banks are busy."""
        self._banks = max(self._banks, now) + wavefronts

    def _bulk(self, warp: _Warp, op: Op, now: float) -> float:
        assert op.instruction is not None  # noqa: S101
        for size, token in zip(op.copies, op.gives, strict=True):
            price = self.prices.bulk(op.instruction, size, writes=op.writes)
            start = max(now, self._engine)
            self._engine = start + price.interval
            landed = start + price.latency - ASSUMED["wake"]
            self._unit("copy engine", 0, now, landed, warp, op, size)
            self._give(warp, token, landed, "copy", now)
        warp.held = now + ASSUMED["bulk operands"]
        return now + ASSUMED["bulk"]

    def _mma(self, warp: _Warp, op: Op, now: float) -> float:
        assert op.instruction is not None  # noqa: S101
        price, part = self.prices.mma(op.instruction), warp.partition
        self._tensor[part] = now + price.interval
        warp.ready[warp.at] = now + price.latency
        self._unit("tensor core", part, now, now + price.interval, warp, op)
        return now + ASSUMED["issue"]

    def _wgmma(self, warp: _Warp, op: Op, now: float) -> float:
        """The product starts when the warpgroup's last warp has issued it; the warps do not wait for it."""
        assert op.instruction is not None  # noqa: S101
        block, group = warp.block, warp.index // PARTITIONS
        key = group, op.number
        block.products[key] = block.products.get(key, 0) + 1
        if block.products[key] == PARTITIONS:
            del block.products[key]
            price = self.prices.wgmma(op.instruction, op.a)
            who = block.trace.number, group
            switch = ASSUMED["switch"] if self._last not in (None, who) and max(self._tensor) > now else 0
            start = max(now, *self._tensor) + switch
            self._last = who
            self._tensor = [start + price.interval] * PARTITIONS
            for part in range(PARTITIONS):
                self._unit("tensor core", part, start, start + price.interval, warp, op)
            for token in op.gives:
                self._give(warp, token, start + price.latency, "product", now)
        return now + ASSUMED["descriptors"]

    def _give(self, warp: _Warp, token: Token, when: float, cause: Cause, begun: float = -1.0) -> None:
        """Contribute to a token; the last contribution completes it."""
        pending = warp.block.tokens[token]
        if begun >= 0 and pending.begun < 0:
            pending.begun = begun
        pending.missing -= 1
        if when >= pending.when:
            pending.when, pending.cause = when, cause
        if pending.missing == 0:
            pending.done = True
            for waiter in pending.waiters:
                waiter.cause = pending.cause
                self._wake(waiter, max(pending.when, self._now(waiter)))
            pending.waiters = []

    @staticmethod
    def _now(warp: _Warp) -> float:
        return warp.since


_PERFORM: dict[str, Callable[[Multiprocessor, _Warp, Op, float], float]] = {
    "mma": Multiprocessor._mma,
    "wgmma": Multiprocessor._wgmma,
    "shared": Multiprocessor._shared,
    "global": Multiprocessor._global,
    "copy": Multiprocessor._copy,
    "bulk": Multiprocessor._bulk,
    "arithmetic": Multiprocessor._arithmetic,
    "plain": Multiprocessor._plain,
}
