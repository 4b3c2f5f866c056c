"""The cost of a kernel: wavefronts of shared memory, and instructions that its warps issue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from tcemu.errors import TcemuError
from tcemu.machine.events import Accessed, Event, Issued
from tcemu.timing import wavefronts


class Meter(Protocol):
    """An observer that counts: `total` after the launch."""

    total: int

    def __call__(self, event: Event) -> None:
        """Receive an event."""
        ...


class WavefrontMeter:
    """Counts the wavefronts of shared memory.

    >>> from tcemu.course.judges.costs import WavefrontMeter
    >>> meter = WavefrontMeter()
    >>> result = tcemu.launch(lambda warp: warp.st_shared(8 * warp.laneid, 0), shared=256, observers=[meter])
    >>> meter.total
    2
    """

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, event: Any) -> None:
        """Receive an event."""
        if isinstance(event, Accessed) and event.space == "shared" and len(event.addresses):
            padded = np.resize(event.addresses, 32)  # inactive lanes repeat the address of an active one
            try:
                self.total += int(wavefronts(padded, event.instruction).count)
            except TcemuError:  # there is no measurement of this kind of access
                self.total += 1


class IssueMeter:
    """Counts the instructions that warps issue.

    >>> from tcemu.course.judges.costs import IssueMeter
    >>> meter = IssueMeter()
    >>> result = tcemu.launch(lambda warp: warp.bar_sync(), block=64, observers=[meter])
    >>> meter.total
    2
    """

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, event: Any) -> None:
        """Receive an event."""
        self.total += isinstance(event, Issued)


#: The meters, by what they count.
METERS: Mapping[str, Callable[[], Meter]] = MappingProxyType(
    {"wavefronts": WavefrontMeter, "instructions": IssueMeter}
)
