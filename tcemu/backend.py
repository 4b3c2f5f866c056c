"""Which twin computes: the numba kernels, or the plain-Python reference. Neither is imported here.

The environment variable TCEMU_KERNELS asks for "numba" or "reference"; empty takes the faster one that is installed.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

from tcemu.errors import KernelsUnavailable, did_you_mean, listing

BACKENDS = ("numba", "reference")


@cache
def backend() -> str:
    """The twin that computes: "numba" or "reference". The environment is read once. Raises KernelsUnavailable."""
    asked = os.environ.get("TCEMU_KERNELS", "")
    if asked and asked not in BACKENDS:
        raise KernelsUnavailable(
            f"TCEMU_KERNELS={asked!r}: it is {listing(BACKENDS)}, or empty.{did_you_mean(asked, BACKENDS)}"
        )
    installed = find_spec("numba") is not None
    if asked == "numba" and not installed:
        raise KernelsUnavailable("TCEMU_KERNELS=numba, but numba is not installed: pip install numba")
    chosen = asked or ("numba" if installed else "reference")
    if chosen == "numba":
        _announce_compilation()
    return chosen


def _announce_compilation() -> None:
    """Say on stderr what is being compiled, so that nobody waits without knowing why. TCEMU_QUIET=1 keeps silent."""
    from numba.core import event

    class Announcer(event.Listener):  # type: ignore[misc]
        """Prints one line for each kernel, not for the functions inside it."""

        def __init__(self) -> None:
            self.said: set[str] = set()

        def on_start(self, compilation: Any) -> None:
            function = compilation.data["dispatcher"].py_func
            name = f"{function.__module__}.{function.__qualname__}"
            private = function.__qualname__.startswith("_")
            if private or name in self.said or not name.startswith("tcemu.kernels.") or os.environ.get("TCEMU_QUIET"):
                return
            self.said.add(name)
            print(f"tcemu: compiling {name} for this processor; the next start finds it compiled", file=sys.stderr)

        def on_end(self, compilation: Any) -> None:
            """Nothing: the line was printed at the start."""

    event.register("numba:compile", Announcer())
