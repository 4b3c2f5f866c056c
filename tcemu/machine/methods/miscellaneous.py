"""Miscellaneous: setmaxnreg and nanosleep (PTX ISA 9.1, 9.7.19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy.typing as npt

from tcemu.machine.methods.opcodes import form, text

if TYPE_CHECKING:
    from tcemu.machine.warp import Warp


def setmaxnreg(self: Warp, action: str, count: int) -> None:
    """setmaxnreg.{inc,dec}.sync.aligned.u32 (9.7.19.5): set how many registers a thread of this warp may use.

    "inc" waits until other warps have given back enough. A warp starts with as many as the launch has room for;
    because a kernel may be compiled for fewer, its first "inc" may name fewer. Raises OperandError for a count that
    is not a multiple of 8 from 24 to 256. A count that contradicts `action` is undefined: it changes nothing here.
    """
    self.core.execute(form("setmaxnreg", text("setmaxnreg", "action", action), "sync.aligned.u32"), count)


def nanosleep(self: Warp, duration: npt.ArrayLike) -> None:
    """nanosleep (9.7.19.2): sleep for about `duration` nanoseconds. Here time does not pass; other warps run first."""
    self.core.execute("nanosleep.u32", duration)
