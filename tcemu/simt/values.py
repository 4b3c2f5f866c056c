"""Registers, constants and parameters as arrays: what Python reads and writes of a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.machine.masks import FULL, bits_of, lanes_of
from tcemu.simt.register_file import LANES, Constant, Slot, Source, Uniform

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame

Array = npt.NDArray[Any]


def value(frame: Frame, source: Source) -> Array:
    """A source as an array (32,), of bool for a predicate: a copy, because its register may be written meanwhile."""
    if isinstance(source, Slot):
        if source.bits == 1:
            return lanes_of(frame.mask(source)).copy()
        return frame.lanes(source).copy()
    if isinstance(source, Constant):
        kind = np.dtype(bool) if source.bits == 1 else np.dtype(f"u{source.bits // 8}")
        return np.full(LANES, source.value, kind)
    return np.full(LANES, uniform(frame, source))


def uniform(frame: Frame, source: Uniform) -> Any:
    """Bytes of the parameters as a number."""
    size = source.bits // 8
    return frame.run.parameters[source.at : source.at + size].view(f"u{size}")[0]


def put(frame: Frame, slot: Slot, result: Array, active: int) -> None:
    """Write a register in the lanes of a mask."""
    if slot.bits == 1:
        held, bits = frame.mask(slot), bits_of(np.broadcast_to(result, LANES))
        frame.masks[slot.row] = held & ~active | bits & active
    elif active == FULL:
        frame.lanes(slot)[:] = result
    else:
        np.copyto(frame.lanes(slot), result, where=lanes_of(active))
