"""The units of an SM: when an operation can use one, and how long it keeps it busy.

Each of the four sub-partitions has its own issue slots, tensor core and path; warp w is in sub-partition w mod 4.

    issue           an instruction in a cycle
    pipe            of ordinary instructions: those of one opcode follow each other
    tensor core     a product at a time; a wgmma occupies all four
    path            from a sub-partition to the memories: for shared memory, and for cp.async
    banks           of shared memory: a wavefront in a cycle
    L2              what the SM loads from it
    way             of data through the SM: what it stores to the L2, bulk copies, and the operands of wgmma
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tcemu.timing.data_path import Work
from tcemu.timing.operations import Kind, Op, Token
from tcemu.timing.prices import ASSUMED, PARTITIONS
from tcemu.timing.spans import Cause

if TYPE_CHECKING:
    from tcemu.timing.simulation import Multiprocessor, Warp

#: How far a warp's accesses may be ahead of its path to the memories, in cycles, before it waits.
AHEAD = 32

#: The cause of a wait for a result, by the kind of the operation that makes it.
_LATE: Mapping[Kind, Cause] = {
    "mma": "product",
    "wgmma": "product",
    "shared": "shared memory",
    "global": "global memory",
    "copy": "copy",
    "bulk": "copy",
    "arithmetic": "issue",
    "plain": "issue",
    "void": "issue",
}
#: The kinds that use the path to the memories, and the cause of a wait for it.
_PATHS: Mapping[Kind, Cause] = {"shared": "shared memory", "global": "global memory", "copy": "copy"}


def earliest(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> tuple[float, Cause]:
    """When the operation can issue (now or later), and what it waits for until then."""
    part = warp.index % PARTITIONS
    when, cause = max(now, sm.issue[part]), "issue"
    for number in op.reads:
        if warp.ready[number] > when:
            when, cause = warp.ready[number], _LATE[warp.ops[number].kind]
    if op.kind != "bulk" and warp.held > when:
        when, cause = warp.held, "issue"
    if op.kind == "mma" and sm.tensor[part] > when:
        when, cause = sm.tensor[part], "tensor core"
    if op.kind == "arithmetic":
        for pipe in sm.prices.work(op).pipes:
            if sm.pipes[part, pipe] > when:
                when, cause = sm.pipes[part, pipe], "issue"
    if op.kind == "global" and op.writes and sm.way.until("stores", now) - AHEAD > when:
        when, cause = sm.way.until("stores", now) - AHEAD, "global memory"
    if op.kind in _PATHS and sm.path[part] - AHEAD > when:
        when, cause = sm.path[part] - AHEAD, _PATHS[op.kind]
    return when, cause  # type: ignore[return-value]


# ---------------------------------------------------------------------------------------------- by kind


def _plain(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> float:
    """Barriers, mbarriers, fences, commits, waits, and everything that only takes time."""
    price = sm.prices.plain(op.known)
    _issue(sm, warp, now, 1)
    warp.ready[warp.number] = now + price.latency
    if op.commits in sm.clock.tokens:
        sm.clock.tokens[op.commits].committed = now
    for token in op.gives:
        if op.follows_copies:
            sm.give(warp, token, max(now, warp.landed), "copy")
        else:
            sm.give(warp, token, now + _until(sm, warp, token, price.interval))
    at_barrier = any(token.kind in _BARRIERS for token in op.gives)
    return now + (1 if at_barrier else price.interval)  # the cost of a barrier comes after the last arrival


#: The tokens of barriers.
_BARRIERS = ("barrier", "cluster")


def _until(sm: Multiprocessor, warp: Warp, token: Token, interval: float) -> float:
    """From an arrival until what it arrives at may be complete."""
    if token.kind == "barrier":
        return sm.prices.barrier(sm.clock.expected[token])
    if token.kind == "cluster":
        return sm.prices.cluster(len(warp.block.trace.cluster))
    if token.block != warp.block.trace.number:
        return sm.prices.remote - ASSUMED["wake"]
    return interval + ASSUMED["phase"]


def _arithmetic(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> float:
    """The kernel's own arithmetic: the next operation needs the result, since most of them do."""
    work, part = sm.prices.work(op), warp.index % PARTITIONS
    _issue(sm, warp, now, work.slots)
    for pipe, clocks in work.pipes.items():
        sm.pipes[part, pipe] = now + clocks
    warp.ready[warp.number] = now + work.until
    return now + work.until


def _shared(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> float:
    price, part = sm.prices.shared(op.known, max(op.wavefronts, 1)), warp.index % PARTITIONS
    start = max(now + ASSUMED["addresses"], sm.path[part], sm.banks)
    sm.path[part] = max(now, sm.path[part]) + price.interval
    sm.banks = max(now, sm.banks) + op.wavefronts
    warp.ready[warp.number] = start + price.latency
    return _addressed(sm, warp, now)


def _global(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> float:
    if op.writes:
        sm.way.put("stores", now, Work(sm.prices.store(op.bytes, op.sectors, op.lines), 1))
        warp.ready[warp.number] = now
    else:
        sm.l2 = max(now, sm.l2) + op.sectors / ASSUMED["sectors"]
        warp.ready[warp.number] = sm.l2 + sm.prices.load
    for token in op.gives:
        sm.give(warp, token, now + sm.prices.handed_on(op.known))
    return _addressed(sm, warp, now)


def _copy(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> float:
    """cp.async; when it lands, its bytes go through the banks."""
    price, part = sm.prices.copy(op.bytes), warp.index % PARTITIONS
    start = max(now, sm.path[part], sm.l2)
    sm.path[part] = max(now, sm.path[part]) + price.interval
    sm.l2 = max(now, sm.l2) + op.sectors / ASSUMED["sectors"]
    landed = start + price.latency
    warp.landed = max(warp.landed, landed)
    sm.span("copy engine", 0, now, landed, warp, op)
    sm.at(landed, partial(_write, sm, op.wavefronts))
    for token in op.gives:
        sm.give(warp, token, landed, "copy", now)
    _issue(sm, warp, now, ASSUMED["copy slots"])
    return now + ASSUMED["copy addresses"]


def _write(sm: Multiprocessor, wavefronts: int, now: float) -> None:
    sm.banks = max(now, sm.banks) + wavefronts


def _bulk(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> float:
    """Bulk and tensor copies, usually one; the measured latency includes that of the wait."""
    ends: list[tuple[int, list[Token]]] = []
    for size, token in zip(op.copies, op.gives, strict=True):
        if size or not ends:
            ends.append((size, []))
        ends[-1][1].append(token)  # without a size, it is another destination of the same copy
    for size, tokens in ends:
        price, need = sm.prices.bulk(op.known, size, writes=op.writes), sm.prices.copied
        late = price.latency - price.interval - ASSUMED["wake"] + sm.map_of(op)
        ended = partial(_landed, sm, warp, op, tokens, now, late)
        sm.way.put("copies", now, Work(price.interval, need, ended))
    _issue(sm, warp, now, 1)
    warp.held = now + ASSUMED["bulk operands"]
    return now + ASSUMED["bulk"]


def _landed(
    sm: Multiprocessor, warp: Warp, op: Op, tokens: list[Token], issued: float, late: float, _: float, now: float
) -> None:
    """The copy engine has done a copy, which lands `late` cycles later."""
    when = now + max(late, 0)
    sm.span("copy engine", 0, issued, when, warp, op)
    for token in tokens:
        sm.give(warp, token, when, "copy", issued)


def _mma(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> float:
    price, part = sm.prices.mma(op.known), warp.index % PARTITIONS
    _issue(sm, warp, now, 1)
    sm.tensor[part] = now + price.interval
    warp.ready[warp.number] = now + price.latency
    sm.span("tensor core", part, now, now + price.interval, warp, op)
    return now + ASSUMED["issue"]


def _wgmma(sm: Multiprocessor, warp: Warp, op: Op, now: float) -> float:
    """The product starts when the last of the four warps has issued it; the warps continue at once."""
    block, key = warp.block, (warp.index // PARTITIONS, op.number)
    _issue(sm, warp, now, ASSUMED["descriptor slots"])
    block.products[key] = block.products.get(key, 0) + 1
    if block.products[key] == PARTITIONS:
        del block.products[key]
        price, who = sm.prices.wgmma(op.known, op.a), (block.trace.number, key[0])
        sm.multiplying.add(who)
        start = max(now, *sm.tensor, sm.way.until("products", now))
        before = 0.0 if sm.way.until("products", now) > now else start - now
        if start > now and sm.latest != who:
            before += sm.prices.switch(op.known, len(sm.multiplying))
        sm.latest = who
        sm.tensor = [start + price.interval] * PARTITIONS
        ended = partial(_multiplied, sm, warp, op, now, before)
        sm.way.put("products", now, Work(before + price.interval, sm.prices.reads(op.known, op.a), ended))
    return now + ASSUMED["descriptors"]


def _multiplied(sm: Multiprocessor, warp: Warp, op: Op, issued: float, before: float, began: float, now: float) -> None:
    """The tensor cores have done a product."""
    price = sm.prices.wgmma(op.known, op.a)
    for part in range(PARTITIONS):
        sm.span("tensor core", part, began + before, now, warp, op)
    for token in op.gives:
        sm.give(warp, token, now + price.latency - price.interval, "product", issued)


def _addressed(sm: Multiprocessor, warp: Warp, now: float) -> float:
    """An access with the instructions that compute its addresses."""
    slots = ASSUMED["issue"] + ASSUMED["addresses"]
    _issue(sm, warp, now, slots)
    return now + slots


def _issue(sm: Multiprocessor, warp: Warp, now: float, slots: float) -> None:
    sm.issue[warp.index % PARTITIONS] = now + slots


#: What an operation does, by its kind ("void" takes no time and does nothing); each returns when its warp can continue.
PERFORM: Mapping[Kind, Callable[[Multiprocessor, Warp, Op, float], float]] = {
    "plain": _plain,
    "arithmetic": _arithmetic,
    "shared": _shared,
    "global": _global,
    "copy": _copy,
    "bulk": _bulk,
    "mma": _mma,
    "wgmma": _wgmma,
}
