"""The errors of PTX functions that the executor runs."""

from __future__ import annotations

from tcemu.errors import LaunchError, TcemuError


class Unsupported(TcemuError):  # noqa: N818 - what it says of an instruction
    """A kernel contains something that tcemu does not execute; the module's other kernels can be used."""


class KernelAssertion(LaunchError):  # noqa: N818 - what CUDA calls it
    """An assert in a kernel failed."""


#: Why a segment ended: an operation is next; lanes disagree about a branch; lanes return or exit; the place of another
#: group is reached; the fuel is spent; an access needs the executor.
OPERATION, SPLIT, LEFT, JOINED, SPENT, FAULT = range(6)
