"""Tell when numba compiles and when it has compiled, so that somebody can say why the user waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import event


class _Announcer(event.Listener):  # type: ignore[misc] # numba is untyped here
    """Calls `begin` with a kernel's name and `end` without, once for a kernel and not for the functions inside it."""

    def __init__(self, begin: Callable[[str], None], end: Callable[[], None]) -> None:
        self.begin, self.end = begin, end
        self.within: list[bool] = []

    def on_start(self, event: Any) -> None:
        """Tell, where it is a function of these kernels that is not compiled as a part of another."""
        function = event.data["dispatcher"].py_func
        own = function.__module__.startswith("tcemu.kernels.") and not any(self.within)
        self.within.append(own)
        if own:
            self.begin(function.__qualname__)

    def on_end(self, event: Any) -> None:
        """Tell the end of what was told."""
        if self.within.pop():
            self.end()


def announce_compilation(begin: Callable[[str], None], end: Callable[[], None]) -> None:
    """Call `begin` with the name of every kernel that is compiled from now on, and `end` when it is compiled."""
    event.register("numba:compile", _Announcer(begin, end))
