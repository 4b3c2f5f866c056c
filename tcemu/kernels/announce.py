"""Report when numba begins and ends a compilation, so that a notice can tell users why they wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import event


class _Announcer(event.Listener):  # type: ignore[misc] # numba is untyped here
    """Calls `begin` with a kernel's name, and `end`, once for each kernel but not for the functions inside it."""

    def __init__(self, begin: Callable[[str], None], end: Callable[[], None]) -> None:
        self.begin, self.end = begin, end
        self.within: list[bool] = []

    def on_start(self, event: Any) -> None:
        """Call `begin` for a function of this package, unless it is compiled as a part of another."""
        function = event.data["dispatcher"].py_func
        own = function.__module__.startswith("tcemu.kernels.") and not any(self.within)
        self.within.append(own)
        if own:
            self.begin(function.__qualname__)

    def on_end(self, event: Any) -> None:
        """Call `end` if `begin` was called."""
        if self.within.pop():
            self.end()


def announce_compilation(begin: Callable[[str], None], end: Callable[[], None]) -> None:
    """Call `begin` with the name of every kernel that is compiled from now on, and `end` when it is compiled."""
    event.register("numba:compile", _Announcer(begin, end))
