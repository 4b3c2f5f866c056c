"""The way of data through an SM, which stores, bulk copies and the operands of wgmma share.

Each of the three goes one after the other. A store to global memory fills the way: beside it, products that read shared
memory and copies that write there take longer, and so does the store; all of them in the proportion of what they need
together. Products and copies without stores do not slow each other down. Both were measured on an H200, in
wgmma_persistent with its products, copies and stores each on or off (benchmarks/timeline.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

Lane = Literal["stores", "copies", "products"]
#: What happens once a piece of work has ended: it gets the times at which that began and ended.
Ended = Callable[[float, float], None]


class Work(NamedTuple):
    """Cycles if nothing else is on the way, the part of the way that it needs meanwhile, and what comes after it."""

    cycles: float
    need: float
    ended: Ended | None = None


@dataclass(slots=True)
class _Queue:
    """The work of a lane; the first piece is in progress."""

    works: deque[Work] = field(default_factory=deque)
    #: When the first piece began, and when it ends if nothing changes.
    began: float = 0.0
    ends: float = 0.0
    #: When the last piece ends if nothing changes.
    last: float = 0.0
    #: How often the end has been set: an event for an earlier one means nothing.
    version: int = 0


class DataPath:
    """The lanes of an SM. `at` calls a function at a time."""

    def __init__(self, at: Callable[[float, Callable[[float], None]], None]) -> None:
        self._at = at
        self._lanes: dict[Lane, _Queue] = {"stores": _Queue(), "copies": _Queue(), "products": _Queue()}
        #: How much longer everything takes at present.
        self._slower = 1.0

    def put(self, lane: Lane, now: float, work: Work) -> None:
        """Add a piece of work at the end of a lane."""
        queue = self._lanes[lane]
        queue.works.append(work)
        queue.last = max(now, queue.last) + work.cycles * self._slower
        if len(queue.works) == 1:
            self._begin(queue, now)

    def until(self, lane: Lane, now: float) -> float:
        """When all of a lane's work will have ended if nothing else comes."""
        return max(now, self._lanes[lane].last)

    def _begin(self, queue: _Queue, now: float) -> None:
        queue.began, queue.ends = now, now + queue.works[0].cycles * self._slower
        self._expect(queue)
        self._weigh(now)

    def _expect(self, queue: _Queue) -> None:
        queue.version += 1
        self._at(queue.ends, partial(self._end, queue, queue.version))

    def _weigh(self, now: float) -> None:
        """What is needed together has changed."""
        needs = sum(queue.works[0].need for queue in self._lanes.values() if queue.works)
        slower = max(needs, 1.0) if self._lanes["stores"].works else 1.0
        if slower == self._slower:
            return
        for queue in self._lanes.values():
            if queue.works:
                queue.ends = now + (queue.ends - now) * slower / self._slower
                queue.last = now + (queue.last - now) * slower / self._slower
                self._expect(queue)
        self._slower = slower

    def _end(self, queue: _Queue, version: int, now: float) -> None:
        if version != queue.version:
            return
        work, began = queue.works.popleft(), queue.began
        if queue.works:
            self._begin(queue, now)
        else:
            self._weigh(now)
        if work.ended:
            work.ended(began, now)
