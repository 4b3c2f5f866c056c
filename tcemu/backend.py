"""Which twin computes: the numba kernels, or the plain-Python reference. Neither is imported before it is chosen.

The environment variable TCEMU_KERNELS asks for "numba" or "reference"; empty takes the faster one that is installed.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

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
        from tcemu.kernels.announce import announce_compilation

        announce_compilation()
    return chosen
