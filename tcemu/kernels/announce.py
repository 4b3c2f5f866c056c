"""Say on stderr what numba compiles, so that nobody waits without knowing why."""

from __future__ import annotations

import os
import sys
from typing import Any

from numba.core import event


class _Announcer(event.Listener):  # type: ignore[misc] # numba is untyped here
    """Writes one line for each kernel, not for the functions inside it."""

    def __init__(self) -> None:
        self.said: set[str] = set()

    def on_start(self, event: Any) -> None:
        """Write the line, unless the function is a part of a kernel or was announced before."""
        function = event.data["dispatcher"].py_func
        name = f"{function.__module__}.{function.__qualname__}"
        private = function.__qualname__.startswith("_") or function.__module__ == "tcemu.kernels.vectors"
        if private or name in self.said or not name.startswith("tcemu.kernels.") or os.environ.get("TCEMU_QUIET"):
            return
        self.said.add(name)
        sys.stderr.write(f"tcemu: compiling {name} for this processor; the next start finds it compiled\n")

    def on_end(self, event: Any) -> None:
        """Nothing: the line was written at the start."""


def announce_compilation() -> None:
    """Announce every kernel that is compiled from now on; the environment variable TCEMU_QUIET=1 keeps silent."""
    event.register("numba:compile", _Announcer())
