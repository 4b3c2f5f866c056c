"""The cost of a kernel: wavefronts of shared memory, instructions that its warps issue, and narrow stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from tcemu.machine.events import Accessed, Event, Issued
from tcemu.timing.accesses import shared_wavefronts


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
        if isinstance(event, Accessed) and event.space == "shared":
            self.total += shared_wavefronts(event)[0]


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


class NarrowStores:
    """Counts the stores to global memory in which a lane writes fewer than 16 bytes.

    >>> from tcemu.course.judges.costs import NarrowStores
    >>> meter = NarrowStores()
    >>> result = tcemu.launch(lambda warp, x: warp.st_global(x, 0), args=(np.zeros(32),), observers=[meter])
    >>> meter.total
    1
    """

    def __init__(self) -> None:
        self.total = 0

    def __call__(self, event: Any) -> None:
        """Receive an event."""
        if isinstance(event, Accessed) and event.space == "global" and event.writes:
            self.total += event.size < 16


#: The meters, by what they count.
METERS: Mapping[str, Callable[[], Meter]] = MappingProxyType({"wavefronts": WavefrontMeter, "instructions": IssueMeter})
