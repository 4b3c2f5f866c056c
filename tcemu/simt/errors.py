"""The errors of PTX functions that the executor runs."""

from __future__ import annotations

from tcemu.errors import LaunchError, TcemuError, Unending


class Unsupported(TcemuError):  # noqa: N818 - what it says of an instruction
    """A kernel contains something that tcemu does not execute; the module's other kernels can be used."""


class KernelAssertion(LaunchError):  # noqa: N818 - what CUDA calls it
    """An assert in a kernel failed."""


def unending(warp: int, block: int, at: object) -> Unending:
    """What to raise for a loop at `at` that nothing leads out of."""
    return Unending(
        f"warp {warp} of block {block} is in a loop that never ends, at {at}: nothing leads out of it. A compiler may "
        "read what a loop waits for once, before the loop; let it read a volatile variable or an atomic"
    )


#: Why a segment ended: an operation is next; lanes disagree about a branch; lanes return or exit; the place of another
#: group is reached; the fuel is spent; an access needs the executor.
OPERATION, SPLIT, LEFT, JOINED, SPENT, FAULT = range(6)
