"""CUDA's compiler in a box of its own, and the processor time that judging takes with it."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from tcemu.child import Child
from tcemu.grade.scales import processor_time
from tcemu.grade.syscalls import opened

if TYPE_CHECKING:
    from tcemu.grade.box import Seat

#: The compilers that may still run, and the seconds of processor time that each has taken.
_running: dict[Child, float] = {}
#: The seconds of those that have ended, together.
_ended = [0.0]


def compiler(seat: Seat, library: str) -> Child:
    """NVRTC in a box of its own: a source may include files, crash the compiler or keep it busy without end."""
    seccomp = -1 if seat.trusted else opened()
    try:
        child = Child(
            "", seat.command(seccomp, library), env=seat.environment, cwd="/", stderr=subprocess.DEVNULL,
            pass_fds=[seccomp] if seccomp >= 0 else [],
        )  # fmt: skip
    finally:
        if seccomp >= 0:
            os.close(seccomp)
    judging()
    for each in [each for each in _running if not each.alive]:
        _ended[0] += _running.pop(each)
    _running[child] = 0.0
    return child


def judging() -> float:
    """Seconds of processor time that judging has taken: this process's, and that of its compilers.

    >>> from tcemu.grade.compilers import judging
    >>> 0 < judging() <= judging()
    True
    """
    for child, seen in _running.items():
        if child.alive:  # the number of one that has ended may be another process's
            _running[child] = max(seen, processor_time(child.process.pid))
    return time.process_time() + _ended[0] + sum(_running.values())
