"""What the warps of a block do on their way to a barrier or to their end, noted together once something else happens.

One call of a kernel for all of them takes less time than one for each. So the batch of a warp waits, with the warp's
arrival at the barrier or its exit, and with what others do after it, until another event comes. No rule can tell the
difference: until the barrier has completed, an arrival changes nothing that other warps know, and nor does an exit.
Everything is passed on in its order, so the reports are the same, and come in the same order.

A leg is the way from one barrier to the next. Where all warps of the block have met, the next leg may wait as well:
what they know when it begins follows from what they knew before the first, and from which of them have loaded anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tcemu.machine.events import Accesses, AccessTable, BarrierArrived, BarrierCompleted, By, Event, Exited, Issued
from tcemu.machine.sites import FrontSite
from tcemu.sanitizer.barriers import Barriers
from tcemu.sanitizer.batches import Batches
from tcemu.sanitizer.block import Block, Handler
from tcemu.sanitizer.divergence import Divergence
from tcemu.sanitizer.plans import Logs

#: The longest log of a warp that waits, in words of 64 bits: noting more takes longer than the call of the kernel.
_LONG = 1 << 13
#: Who receives the events that wait; if others do, they do not wait.
_KNOWN = frozenset({Barriers, Divergence, Block})
_NONE = AccessTable({})
#: With a table: how often in a row batches that had passed barriers could not be noted together.
_STOPPED = "stopped"
#: The most barriers that waiting batches pass.
_LEGS = 15
#: How many batches of a program wait before it is clear that it has no barriers.
_TRIES = 8


class Round:
    """The events that wait: the batches of several warps of one block, and what these warps have done after them.

    `pass_on` receives those whose handlers are not known before.
    """

    def __init__(self, pass_on: Callable[[type[Event], Event], object]) -> None:
        self._pass_on = pass_on
        self._words = np.zeros(16 * _LONG, np.int64)
        self._begin()

    def _begin(self) -> None:
        """Nothing waits."""
        #: the block, its batches, and the table of its logs; None if nothing waits
        self.batches: Batches | None = None
        self._block, self._table, self._used = -1, _NONE, 0
        #: the logs that wait: their warps, the words where they begin, and their legs; the first log of the latest leg,
        #: how many warps have come to its end, whether they do nothing else, and whether the latest warp has arrived
        self._warps: list[int] = []
        self._begins: list[int] = []
        self._legs: list[int] = []
        self._leg = self._since = self._came = 0
        self._plain = self._arrived = True
        #: the latest handlers of each kind of event that may wait
        self._handlers: dict[type[Event], Sequence[Handler]] = {}
        #: the other events with their handlers, if they are known, each with the number of logs before it
        self._events: list[tuple[int, Any, Sequence[Handler] | None]] = []
        #: the places, among these, of the barriers at which a leg ends
        self._meetings: list[int] = []

    def add(self, batches: Batches, event: Accesses) -> None:
        """A warp has made the accesses of a log, which is used again: let it wait, or note it now."""
        words, warps = event.log.view(np.int64), self._warps
        end = self._used + len(words)
        if self.batches is not None and (
            batches is not self.batches
            or event.table is not self._table
            or not self._arrived
            or end > len(self._words)
            or event.warp in warps[self._since :]
        ):
            self.end()
            end, warps = len(words), self._warps
        if self.batches is None:
            if not batches.waits or len(words) > _LONG or not self._worthwhile(event.table):
                batches(event)
                return
            self.batches, self._block, self._table = batches, event.block, event.table
        self._words[self._used : end] = words
        warps.append(event.warp)
        self._begins.append(self._used)
        self._legs.append(self._leg)
        self._used, self._arrived = end, False

    @staticmethod
    def _worthwhile(table: AccessTable) -> bool:
        """Whether a batch of a program should wait: something has waited behind one, or few have been tried."""
        tries: int = table.kept.get(Round, 0)
        if tries < _TRIES:
            table.kept[Round] = tries + 1
        return tries != _TRIES

    def waits(self, kind: type[Event], event: Any, handlers: Sequence[Handler] | None) -> bool:
        """Whether another event, which has these handlers, waits too; if not, nothing waits any more."""
        if (
            (kind is BarrierArrived or kind is Issued)
            and handlers is not None
            and event.by.block == self._block
            and type(event.by.site) is FrontSite
            and (handlers is self._handlers.get(kind) or self._known(kind, handlers))
        ):
            self._events.append((len(self._warps), event, handlers))
            self._arrived = arrived = kind is BarrierArrived
            self._plain &= arrived and event.waits and event.instruction.sync and self._whole(event.by)
            self._came += 1
            return True
        if kind is BarrierCompleted and handlers is not None and self._goes_on(event, handlers):
            self._meetings.append(len(self._events))
            self._events.append((len(self._warps), event, handlers))
            self._leg, self._since, self._came = self._leg + 1, len(self._warps), 0
            return True
        if kind is Exited and event.whole and event.by.block == self._block and type(event.by.site) is FrontSite:
            self._events.append((len(self._warps), event, None))
            self._arrived, self._plain = True, False
            self._table.kept[Round] = _TRIES + 1
            return True
        self.end()
        return False

    def _whole(self, by: By) -> bool:
        """Whether these are all lanes that a warp has left."""
        return self.batches is not None and by.active == self.batches.block.clocks.present[by.warp]

    def _goes_on(self, event: BarrierCompleted, handlers: Sequence[Handler]) -> bool:
        """Whether what comes after a barrier may wait as well: all warps have met there, and there is room for more."""
        batches = self.batches
        return (
            batches is not None
            and event.block == self._block
            and self._plain
            and self._came == len(event.released) == batches.block.clocks.warps
            and self._leg < _LEGS
            and 2 * self._used < len(self._words)
            and batches.tiles is None
            and self._table.kept.get(_STOPPED, 0) < _TRIES
            and (handlers is self._handlers.get(BarrierCompleted) or self._known(BarrierCompleted, handlers))
        )

    def _known(self, kind: type[Event], handlers: Sequence[Handler]) -> bool:
        """Whether these handlers allow that events of a kind wait."""
        if any(type(getattr(each, "__self__", None)) not in _KNOWN for each in handlers):
            return False
        self._handlers[kind] = handlers
        self._table.kept[Round] = _TRIES + 1
        return True

    def end(self) -> None:
        """Note and pass on everything that waits."""
        batches, events, meetings, passed = self.batches, self._events, self._meetings, 0
        if batches is None:
            return
        words = self._words[: self._used]
        logs = Logs(self._block, 0, self._table, self._warps, self._begins, words, self._legs)
        self._begin()

        def pass_on(log: int, more: int = 0) -> None:
            """What came before a log, or before the one that is so many more behind it."""
            nonlocal passed
            for before, event, handlers in events[passed:]:
                if before > log + more:
                    break
                passed += 1  # before it is handled: an error must not come twice
                if handlers is None:
                    self._pass_on(type(event), event)
                    continue
                for handle in handlers:
                    handle(event)

        log = word = 0
        if logs.legs[-1]:
            log, word = batches.onwards(logs, [events[each][1] for each in meetings])
            logs.table.kept[_STOPPED] = 0 if log == len(logs.warps) else logs.table.kept.get(_STOPPED, 0) + 1
            leg = logs.legs[min(log, len(logs.legs) - 1)]
            passed = meetings[leg - 1] + 1 if leg else 0
        while log < len(logs.warps):  # leg by leg
            pass_on(log)
            rest, first = logs.leg(log, word), log
            log += len(rest.warps)
            word = logs.begins[log] if log < len(logs.warps) else 0
            if len(rest.warps) > 1 and batches.several(rest, partial(pass_on, first)):
                continue
            for number in range(len(rest.warps)):
                pass_on(first, number)
                batches(rest.event(number))
        pass_on(len(logs.warps))
