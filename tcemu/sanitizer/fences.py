"""What strong operations publish and acquire, by themselves or through the fences around them (PTX ISA 8.8).

A releasing operation publishes what its lanes know now; a relaxed one publishes what they knew at their last fence.
An acquiring operation takes effect at once; what a relaxed one found is acquired at the next fence. Operations and
fences have a scope: synchronisation between blocks counts only if both scopes include both threads.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tcemu.errors import counted
from tcemu.instructions import Instruction
from tcemu.instructions.elements import elements_of, order_of
from tcemu.machine.events import Fenced, Order, Site
from tcemu.sanitizer.clocks import THREAD, Array, Clocks, joined, lanes_in

#: How far a scope reaches: to the threads of the block, of the cluster, of the grid.
REACH = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 2}
RELEASES: tuple[Order, ...] = ("release", "acq_rel")
#: The fix if both accesses are strong and nevertheless race.
ALIKE = (
    "Let both accesses move scalars of the same size, with scopes that reach both threads; or order them by a release "
    "and an acquire at another place."
)
#: The fix where a plain load reads what a compare-and-swap updates: most often, it only gives a loop its first guess.
_GUESS = (
    "If the load gives the compare-and-swap the value that it expects, make the load strong, and nothing need order "
    "the two, because the swap checks the value: ld.relaxed; in CUDA C++, "
    "cuda::atomic_ref<T, cuda::thread_scope_device>(x)"
    ".load(cuda::memory_order_relaxed), or a load through a pointer to volatile. (ld.cg, __ldcg, is as weak as ld.) If "
    "the load is for something else, order the two: {way}."
)
#: The cause and the fix where a thread has found what another one released, but by a relaxed operation.
UNACQUIRED = (
    "the thread has found what the other one released, but by a relaxed operation, which acquires nothing, and has "
    "executed no fence since"
)
ACQUIRE = (
    "Execute a fence (__threadfence) after the operation that finds the lock free or the flag set, as before the one "
    "that releases; or let that operation itself acquire: atom.acquire, ld.acquire."
)
#: The fix for a line that reads and writes: the other thread may do so in between.
_SUMMED = (
    "If each thread adds its part to the same value (+=, ++), make that one operation: atomicAdd. If the line reads "
    "what other threads write, {way}."
)
#: Families whose reading and writing are one atomic operation.
ATOMIC = ("atom", "red", "red.async")
#: How many of a warp's findings are kept for the fences of others.
_KEPT = 8
_ACQUIRES: tuple[Order, ...] = ("acquire", "acq_rel")


def summed(one: tuple[str, Site], other: tuple[str, Site], way: str) -> str:
    """The fix for a plain load and store of one line, as (opcode, site) each; empty for others."""
    heads = {opcode.partition(".")[0] for opcode, _ in (one, other)}
    return _SUMMED.format(way=way) if heads == {"ld", "st"} and one[1][:2] == other[1][:2] else ""


def guessed(one: tuple[str, str], other: tuple[str, str], way: str) -> str:
    """The fix for a plain load and a compare-and-swap, as (opcode, order) each; `way` orders them. Empty for others."""
    for (load, order), (swap, _) in ((one, other), (other, one)):
        if not order and load.startswith("ld.") and "cas" in swap.split("."):
            return _GUESS.format(way=way)
    return ""


class Strength(NamedTuple):
    """How strong an access is: its order, its scope's reach, the bytes of a scalar, and whether it is atomic."""

    order: str = ""
    reach: int = -1
    scalar: int = 0
    atomic: bool = False

    def together(self, other: Strength, away: int) -> bool:
        """Whether two accesses, by threads that a scope must reach so far, are strong and so do not race."""
        return min(self.reach, other.reach) >= away and not self._partly(other)

    def _partly(self, other: Strength) -> bool:
        """Whether the scalars of two strong accesses overlap only in part, so that they race (PTX ISA 8.7.1).

        Atomic operations are atomic for each other nevertheless. Scalars are aligned, so those of one size overlap
        completely.
        """
        sizes = self.scalar, other.scalar
        return 0 not in sizes and sizes[0] != sizes[1] and not (self.atomic and other.atomic)

    def why(self, other: Strength, away: int) -> str:
        """Why two strong accesses by threads `away` from each other nevertheless race; empty if one is weak."""
        if not (self.order and other.order):
            return ""
        if self._partly(other):
            return f"both are strong, but one moves {counted(self.scalar, 'byte')} and the other {other.scalar}"
        return "" if self.together(other, away) else "both are strong, but a scope does not reach the other thread"


WEAK = Strength()


def strength(instruction: Instruction, order: str) -> Strength:
    """The strength of an access; `order` is empty for a weak one."""
    if not order:
        return WEAK
    reach, scalar = REACH[order_of(instruction).scope], elements_of(instruction).scalar
    return Strength(order, reach, scalar, instruction.family in ATOMIC)


@dataclass(eq=False, slots=True)
class _Seen:
    """What a relaxed operation of lanes found at a time of its warp, and by warp the lanes that learned it since."""

    lanes: int
    time: int
    row: Array
    reach: int
    learned: dict[int, int] = field(default_factory=dict)


class Fences:
    """The fences of one block, and what they will publish.

    A fence counts for the whole block, as libraries assume (PyTorch's global_reduce): each thread fences, a barrier
    follows, and one thread sets the flag; or one thread reads it, a barrier follows, and each thread fences.
    """

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        #: by reach, warp and lanes that executed a fence together that reaches so far: what they knew then
        self._fenced: list[dict[int, dict[int, Array]]] = [{} for _ in range(3)]
        #: what lanes of each warp have found and will acquire at their next fence that reaches far enough
        self._unacquired: list[list[tuple[int, Array, int]]] = [[] for _ in range(clocks.warps)]
        #: by warp: the last things that its lanes have found, for the fences of others
        self._recent: dict[int, deque[_Seen]] = {}

    @property
    def executed(self) -> bool:
        """Whether a fence has been executed."""
        return any(self._fenced)

    def handed_on(self, warp: int, lanes: int, order: Order, reach: int = 0) -> Array | None:
        """What an operation of these lanes publishes to threads as far away as `reach`; None if nothing."""
        if order in RELEASES:
            return self._clocks.release(warp, lanes)
        if not self._fenced[reach]:
            return None
        view, row = self._clocks.view(warp, lanes), None
        for other, fences in self._fenced[reach].items():
            for fencing, known in fences.items():
                columns = THREAD + 32 * other + lanes_in(fencing)
                if (view[columns] > known[columns]).any():
                    # of what the fence covers, only what this warp knows is in order
                    handed = np.minimum(known, view[: len(known)])
                    row = handed if row is None else joined(row, handed)
        return row

    def sees(self, warp: int, lanes: int, order: Order, row: Array, reach: int = 0) -> None:
        """Lanes found what others, as far away as `reach`, have published."""
        if order in _ACQUIRES:
            self._clocks.acquire(warp, lanes, row)
            return
        self._unacquired[warp].append((lanes, row, reach))
        recent = self._recent.setdefault(warp, deque(maxlen=_KEPT))
        recent.append(_Seen(lanes, self._clocks.time[warp], row, reach))

    def unacquired(self, warp: int, lane: int) -> list[Array]:
        """What a lane has found by relaxed operations and not acquired by a fence since."""
        return [row for lanes, row, _ in self._unacquired[warp] if lanes >> lane & 1]

    def fence(self, event: Fenced) -> None:
        """Lanes execute fence or membar: they acquire what they found, and publish what they know now."""
        warp, lanes, far = event.by.warp, event.by.active, REACH[event.scope]
        acquired, self._unacquired[warp] = self._unacquired[warp], []
        for having, row, reach in acquired:
            learning = having & lanes if reach <= far else 0
            if learning:
                self._clocks.acquire(warp, learning, row)
            if having & ~learning:
                self._unacquired[warp].append((having & ~learning, row, reach))
        if self._recent:
            self._learn_from_others(warp, lanes, far)
        row = self._clocks.release(warp, lanes)
        for reach in range(far + 1):
            fences = self._fenced[reach].setdefault(warp, {})
            for older in [each for each in fences if not each & ~lanes]:
                del fences[older]
            fences[lanes] = row

    def _learn_from_others(self, warp: int, lanes: int, far: int) -> None:
        """Lanes that fence also acquire what threads found with which they have synchronised since."""
        for other, recent in self._recent.items():
            for each in recent:
                new = lanes & ~(each.learned.get(warp, 0) | (each.lanes if other == warp else 0))
                if each.reach > far or not new:
                    continue
                columns = THREAD + 32 * other + lanes_in(each.lanes)
                for part, row in self._clocks.common(warp, new):
                    if (row[columns] > each.time).any():
                        each.learned[warp] = each.learned.get(warp, 0) | part
                        self._clocks.acquire(warp, part, each.row)
