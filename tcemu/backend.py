"""Which twin computes: the numba kernels, or the plain-Python reference. Neither is imported before it is chosen.

The environment variable TCEMU_KERNELS asks for "numba" or "reference"; empty takes the faster one that is installed.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

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
    if asked == "reference":
        return asked
    obstacle = _obstacle()
    if obstacle and asked:
        raise KernelsUnavailable(
            f"TCEMU_KERNELS=numba, but {obstacle}. Try pip install numba, or TCEMU_KERNELS=reference"
        )
    if obstacle:
        return "reference"
    from tcemu.kernels.announce import announce_compilation

    announce_compilation()
    return "numba"


def _obstacle() -> str:
    """Why numba cannot be used, or nothing. One that is installed may still refuse, for instance this numpy."""
    try:
        import_module("numba")
    except ImportError as error:
        return f"numba is not installed, or does not import: {error}"
    return ""
