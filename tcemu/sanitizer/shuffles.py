"""shfl.sync that reads from lanes that do not execute it: their values are undefined.

A reduction by shfl.down may leave undefined values in the last lanes, and a scan by shfl.up in the first ones, as long
as no result depends on them. So undefined values are tracked from one step of a reduction to the next; and of the lines
of PTX the front end has found out whether all lanes store what they get (FrontSite.stores).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcemu.machine.events import Shuffled
from tcemu.machine.sites import FrontSite
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.clocks import Array, lanes_in
from tcemu.sanitizer.report import many

_FIX = "Execute shfl.sync in all lanes, with a neutral value in those that have none, or read only lanes that do."


@dataclass
class Step:
    """One step of a reduction: its lanes, how far they read, and which lanes are undefined before and after it."""

    active: int
    distance: int
    before: Array
    after: Array


class Shuffles:
    """The shfl.sync of one block that only some lanes of a warp execute."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._steps: dict[int, Step] = {}
        self.handlers: Handlers = {Shuffled: self._shuffled}

    def _shuffled(self, event: Shuffled) -> None:
        by, sources = event.by, event.sources
        lanes = lanes_in(by.active)
        missing = np.zeros(32, bool)
        missing[lanes] = (by.active >> sources[lanes] & 1) == 0
        mode = event.instruction.words["mode"]
        if mode == "down":
            undefined = self._reduced(by.warp, by.active, lanes, sources, missing)
            wrong = lanes[:1] if undefined[lanes[0]] else lanes[:0]
        elif mode == "up":
            distance = int((lanes - sources[lanes]).max())
            wrong = lanes[distance:][missing[lanes[distance:]]]  # a scan does not use what its first lanes get
        else:
            wrong = np.flatnonzero(missing)
        store = by.site.stores if isinstance(by.site, FrontSite) else None
        if store is not None and missing.any():
            self._report(event, tuple(np.flatnonzero(missing).tolist()), missing, f", and {store} stores it")
        elif len(wrong):
            self._report(event, tuple(wrong.tolist()), missing)

    def _reduced(self, warp: int, active: int, lanes: Array, sources: Array, missing: Array) -> Array:
        """The lanes that are undefined after a step of a reduction, bool (32,)."""
        distance, last = int((sources[lanes] - lanes).max()), self._steps.get(warp)
        before = np.zeros(32, bool)
        if last is not None and last.active == active and distance <= last.distance:
            before = last.before if distance == last.distance else last.after
        after = before.copy()
        after[lanes] |= missing[lanes] | before[sources[lanes]]
        self._steps[warp] = Step(active, distance, before, after)
        return after

    def _report(self, event: Shuffled, lanes: tuple[int, ...], missing: Array, more: str = "") -> None:
        by, readers = event.by, [lane for lane in lanes if missing[lane]]
        if readers:
            absent = tuple(sorted({int(event.sources[lane]) for lane in readers}))
            does = "s" if len(readers) == 1 else ""
            message = (
                f"{many('lane', tuple(readers))} read{does} {many('lane', absent)}, which "
                f"{'does' if len(absent) == 1 else 'do'} not execute {event.instruction.opcode}"
            )
        else:
            source = int(event.sources[lanes[0]])
            message = (
                f"lane {lanes[0]} reads lane {source}, which got its value in an earlier step from a lane that does "
                f"not execute {event.instruction.opcode}"
            )
        self._block.report(
            "absent-lanes", by, f"{message}: the value is undefined{more}", what="values", lanes=lanes, remedy=_FIX
        )
