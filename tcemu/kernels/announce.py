"""Why users wait for numba: reports when it begins and ends a compilation, and prepares it for the first kernel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

#: How often `prepare` tries: if it gives up, the first kernel waits.
_ATTEMPTS = 3


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


def prepare() -> None:
    """Load numba's tables of types and functions, so that a process does not wait 0.1 s when it needs a kernel."""
    for _ in range(_ATTEMPTS):
        # numba goes through Python's builtins, to which IPython adds names while a cell runs in another thread.
        with suppress(RuntimeError):
            _refresh()
            return


def _refresh() -> None:
    # A context is made under a lock of its own and then takes the compiler's: with the compiler's held first, a thread
    # that imports kernels meanwhile could wait for this one, and this one for it.
    contexts = cpu_target.typing_context, cpu_target.target_context
    with global_compiler_lock:
        for each in contexts:
            each.refresh()
