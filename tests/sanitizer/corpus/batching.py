"""An observer that gives one sanitizer the weak loads and stores of a launch in batches, and another one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tcemu.machine.addresses import BLOCK, SHARED
from tcemu.machine.events import Accessed, Accesses, AccessRow, AccessTable, BarrierArrived, BlockStarted, Issued
from tcemu.machine.sites import FrontSite, callers_of
from tcemu.sanitizer import Sanitizer


def _front(by):
    """The line of an event, as a front end gives it."""
    return FrontSite(by.site.file, by.site.line, by.site.function, callers_of(by))


class Batching:
    """`together` gets batches of at most `most` accesses, `apart` gets the same accesses by themselves.

    Some addresses become generic ones. Instructions and arrivals at barriers have a front end's sites, so that batches
    wait for those of other warps. `noted` says how many accesses were in batches of more than one.
    """

    def __init__(self, mode="collect", most=64):
        self.together, self.apart = Sanitizer(mode), Sanitizer(mode)
        self.follows, self.hears, self.once = self.together.follows, self.together.hears, self.together.once
        self.most, self.noted = most, 0
        self._run, self._who, self._started, self._ranks = [], None, {}, {}

    def __call__(self, event):
        if isinstance(event, Accessed) and not (event.order or event.collective) and event.owner < 0:
            who = event.by.block, event.by.warp
            if event.instruction.family in ("ld", "st") and len(event.addresses):
                if who != self._who or len(self._run) == self.most:
                    self.flush()
                self._who = who
                self._run.append(self._noted(event))
                return
        self.flush()
        if isinstance(event, BlockStarted):
            self._started[event.block] = event
            self._ranks[event.block] = event.cluster.index(event.block) if event.cluster else 0
        if isinstance(event, Issued | BarrierArrived):
            event = replace(event, by=event.by._replace(site=_front(event.by)))
        self.together(event)
        self.apart(event)

    def _noted(self, event):
        """The row of an access, and its record."""
        where, started = _front(event.by), self._started[event.by.block]
        memory = started.content if event.space == "shared" else started.memory
        addresses, space = event.addresses, event.space
        if (where.line + len(self._run)) % 3 == 0:
            window = SHARED + BLOCK * self._ranks[event.by.block] if space == "shared" else 0
            addresses, space = addresses + window, "generic"
        head = np.zeros(2, np.uint32)
        head[1] = sum(1 << lane for lane in event.lanes.tolist())
        places, values = np.full(32, -1, np.int64), np.zeros((2, 32, event.size), np.uint8)
        places[event.lanes] = addresses
        if event.writes:
            values[0, event.lanes] = event.data
            values[1, event.lanes] = memory[event.addresses[:, None] + np.arange(event.size)]
        row = AccessRow(where, event.instruction, space, event.writes, event.size)
        return row, [head, places, *([values] if event.writes else [])]

    def flush(self):
        """Pass on what has come."""
        run, self._run = self._run, []
        if not run:
            return
        numbers = {row: number for number, row in enumerate(dict.fromkeys(row for row, _ in run))}
        for row, (head, *_) in run:
            head[0] = numbers[row]
        raw = b"".join(part.tobytes() for _, parts in run for part in parts)
        log = np.frombuffer(raw, np.uint8).copy()
        block, warp = self._who
        event = Accesses(block, warp, AccessTable({n: row for row, n in numbers.items()}), log, self._ranks[block])
        assert [mask != 0 for _, mask, _ in event.records()] == [True] * len(run)
        self.noted += len(run) * (len(run) > 1)
        self.together(event)
        for single in event.singles():
            self.apart(single)

    def settle(self):
        """No further event comes."""
        self.flush()
        self.together.settle()

    def check(self):
        """The reports of both, which are equal."""
        self.settle()
        reports = [[str(each) for each in one.reports] for one in (self.together, self.apart)]
        assert reports[0] == reports[1]
        return reports[0]
