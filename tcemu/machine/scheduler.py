"""Which warp runs next. Warps are greenlets: each runs until it waits, and under some seeds until something else does.

Seed 0 switches where warps must wait, in a fixed order. Any other seed switches before any operation, as a chip could,
in an order that the seed alone decides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from greenlet import GreenletExit, getcurrent, greenlet

from tcemu.errors import LaunchError
from tcemu.machine.events import Waiting
from tcemu.machine.pending import Pending

#: How often a warp is interrupted before an operation, where the seed asks for it.
_SWITCH = 0.3
#: Operations after which a warp makes room for others in any case: it may be looking at memory in a loop.
_TURN = 256
#: Looks that all warps may take in vain, with nothing under way, before the block counts as stuck.
_LOOKS = 1024
#: Different loads of a loop that looks at memory, at most, and how many in a row find what they found before.
_WINDOW, _REPEATS = 16, 256


@dataclass
class _Strand:
    """A warp as the scheduler sees it."""

    number: int
    fiber: greenlet
    #: None where it can go on.
    ready: Callable[[], bool] | None = None
    waiting: Callable[[], Waiting] | None = None
    #: What it last looked for in vain, and has not found since.
    looks: Callable[[], Waiting] | None = None
    operations: int = 0
    #: its latest loads, and how many of them in a row brought nothing new
    loads: deque[Hashable] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    repeats: int = 0


class Scheduler:
    """The warps of a block, and what is under way for them."""

    def __init__(self, seed: int, pending: Pending) -> None:
        self.random = Random(seed)  # noqa: S311 - an order, not a secret
        self._fixed = seed == 0
        self._pending = pending
        self._strands: list[_Strand] = []
        self._current: _Strand | None = None
        self._hub = getcurrent()
        #: turns that brought nothing, one after the other
        self._in_vain = 0

    def add(self, number: int, body: Callable[[], None]) -> None:
        """A warp that will run `body`."""
        self._strands.append(_Strand(number, greenlet(body)))

    # ------------------------------------------------------------------------------------------ from a warp

    def pause(self, number: int, *, changes: bool) -> None:
        """Before an operation of warp `number`: let others go first, where the seed says so.

        `changes` says whether the operation can make a difference to others, or to the warp's own memory.
        """
        strand = self._strand(number)
        strand.operations += 1
        if changes:
            strand.looks, strand.repeats, self._in_vain = None, 0, 0
        if strand.operations % _TURN == 0 or (not self._fixed and self.random.random() < _SWITCH):
            self._hub.switch()

    def wait(self, number: int, ready: Callable[[], bool], waiting: Callable[[], Waiting]) -> None:
        """Go on once `ready` answers True; `waiting` says what for, should that never be."""
        strand = self._strand(number)
        if not ready():
            strand.ready, strand.waiting = ready, waiting
            self._hub.switch()
            strand.ready = strand.waiting = None
        strand.looks = None

    def looked(self, number: int, found: bool, waiting: Callable[[], Waiting]) -> None:
        """The warp looked for something; where it found nothing, others go first."""
        strand = self._strand(number)
        strand.looks = None if found else waiting
        if not found:
            self._hub.switch()

    def loaded(self, number: int, what: Hashable, waiting: Callable[[], Waiting]) -> None:
        """The warp loaded `what` (places and content). The same again and again: it looks at memory in a loop."""
        strand = self._strand(number)
        if what not in strand.loads:
            strand.loads.append(what)
            strand.looks, strand.repeats = None, 0
            return
        strand.repeats += 1
        if strand.repeats > _REPEATS:
            self.looked(number, False, waiting)

    def changed(self, number: int) -> None:
        """The warp has changed something after all, by an operation that often does not."""
        strand = self._strand(number)
        strand.looks, strand.repeats, self._in_vain = None, 0, 0

    def rest(self, number: int) -> None:
        """The warp lets all others go first."""
        strand = self._strand(number)
        self._strands.remove(strand)
        self._strands.append(strand)
        self._hub.switch()

    def _strand(self, number: int) -> _Strand:
        """The warp that runs, which must be that one."""
        strand = self._current
        if strand is not None and strand.number == number and strand.fiber is getcurrent():
            return strand
        raise LaunchError(
            f"warp {number} is no longer running, or it is not the one that runs: a warp's operations are for its own "
            f"kernel, between its first line and its last"
        )

    # ------------------------------------------------------------------------------------------ the loop

    def run(self) -> tuple[Waiting, ...]:
        """Run all warps to their end; what the others wait for, where some cannot come to theirs."""
        try:
            while self._strands:
                able = [strand for strand in self._strands if strand.ready is None or strand.ready()]
                busy = [strand for strand in able if strand.looks is None]
                self._in_vain = 0 if busy else self._in_vain + 1
                if not busy and self._in_vain > len(able):  # all have looked since something last happened
                    if self._pending.step():
                        self._in_vain = 0
                        continue
                    if self._in_vain > _LOOKS * (len(able) + 1):
                        return self._waiting()
                if able:
                    self._pending.perhaps(self.random)
                    self._resume(self._choose(able, busy))
        finally:
            self._kill()
        return ()

    def _choose(self, able: list[_Strand], busy: list[_Strand]) -> _Strand:
        if not self._fixed:
            return self.random.choice(able)
        chosen = (busy or able)[0]
        if not busy or chosen.operations % _TURN == 0:  # it had its turn: to the end of the queue
            self._strands.remove(chosen)
            self._strands.append(chosen)
        return chosen

    def _resume(self, strand: _Strand) -> None:
        self._current = strand
        strand.fiber.switch()
        self._current = None
        if strand.fiber.dead:
            self._strands.remove(strand)

    def _waiting(self) -> tuple[Waiting, ...]:
        found = [strand.waiting or strand.looks for strand in sorted(self._strands, key=lambda each: each.number)]
        return tuple(waiting() for waiting in found if waiting is not None)

    def _kill(self) -> None:
        """End what has not ended: the launch is over."""
        self._current = None
        for strand in self._strands:
            if strand.fiber and not strand.fiber.dead:
                with suppress(Exception):  # what ended the launch is on its way; a warp's last words are not
                    strand.fiber.throw(GreenletExit)
        self._strands.clear()
