"""Measures how far a pipeline copies ahead of its work, in the order in which a launch executes it."""

from __future__ import annotations

from typing import Any

from tcemu.machine.events import CopiesWaited, CopyIssued, WgmmaCommitted, WgmmaIssued, WgmmaWaited


class CopiesAhead:
    """Counts the bytes of tensor copies that begin while a whole step has been copied and not been multiplied yet.

    A step is `step` bytes of copies and `products` mma_asyncs; these count when the warpgroup has waited for them. How
    the warps synchronise does not matter, nor in which order they take the steps, nor how many boxes a step has.

    >>> from tcemu.course.judges.overlap import CopiesAhead
    >>> CopiesAhead(step=9216, products=4).ahead
    0
    """

    def __init__(self, step: int, products: int) -> None:
        self._step, self._products = step, products
        self.copied = self.ahead = 0
        #: mma_asyncs: of the group that is open, of the groups that are closed, and of those that were waited for
        self._open, self._closed, self._done = 0, list[int](), 0

    def __call__(self, event: Any) -> None:
        """Receive an event."""
        match event:
            case CopyIssued(copy=copy):
                if self.copied - self._done * self._step // self._products >= self._step:
                    self.ahead += copy.bytes
                self.copied += copy.bytes
            case WgmmaIssued():
                self._open += 1
            case WgmmaCommitted():
                self._closed.append(self._open)
                self._open = 0
            case WgmmaWaited(below=below):
                self._done = sum(self._closed[:below])


class FullWaits:
    """Counts waits of one warp for cp.async that leave no copy pending; without a copy in between they count once.

    >>> from tcemu.course.judges.overlap import FullWaits
    >>> FullWaits().full
    0
    """

    def __init__(self) -> None:
        self.full = 0
        #: The group of the last copy that is pending; -1 if none is.
        self._pending = -1

    def __call__(self, event: Any) -> None:
        """Receive an event."""
        match event:
            case CopyIssued(copy=copy) if copy.kind == "cp.async":
                self._pending = copy.group
            case CopiesWaited(kind="cp.async", below=below) if 0 <= self._pending < below:
                self.full += 1
                self._pending = -1
