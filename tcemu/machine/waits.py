"""What lanes wait for, where a front end runs the lanes of a warp in groups, each with its own place in the program.

The machine itself puts a whole warp to sleep. While a front end has set `core.split`, other groups of the warp may run
meanwhile, so an operation that would make them wait raises `Parked` instead, with what its lanes wait for; one that
only looks, and finds nothing, returns and leaves that in `core.sought`. When no group of the warp can continue, the
front end calls `core.idle` with the waits of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tcemu.machine.events import By, Waiting, WaitKind

__all__ = ["Parked", "Wait", "nothing"]


def nothing() -> None:
    """What remains to be done after most waits."""


@dataclass(eq=False, slots=True)
class Wait:
    """What lanes of a warp wait for. `by` has the lanes and their line."""

    by: By
    kind: WaitKind
    #: the barrier's number, the address of the mbarrier or of the memory
    key: int
    #: says what they wait for, in words
    what: Callable[[], str]
    #: whether they can continue; None: only looking again shows that
    ready: Callable[[], bool] | None = None
    #: Completes the operation and returns its result. Call it once, when they are ready, with `core.bits` as before.
    finish: Callable[[], Any] = nothing
    #: whether a block that has not started yet could end the wait
    elsewhere: bool = False

    def described(self) -> Waiting:
        """The same for a report."""
        return Waiting(self.by, self.what(), self.kind, self.key, self.elsewhere)


class Parked(Exception):  # noqa: N818 - no error: the front end lets other lanes run
    """The active lanes have executed an operation as far as they can alone, and wait."""

    def __init__(self, wait: Wait) -> None:
        super().__init__(wait)
        self.wait = wait
