"""What a segment needs besides registers: a table of words that native code reads, one for each warp.

`WORDS` names them; tcemu.kernels.emit.access has the code that uses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.kernels.emit.context import SCRATCH, TOTAL, WORDS
from tcemu.machine.addresses import BLOCK, SHARED

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.run import Run

Array = npt.NDArray[Any]
#: How often a group may go round loops before others get a turn.
FUEL = 1 << 16


class Context:
    """The words of a warp's context, and what a segment has left there when it ends."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.words = np.zeros(TOTAL, np.uint64)
        self.address = self.words.ctypes.data
        core = run.core
        shared, memory = core.block.shared, core.grid.memory
        self._kept = ranges = np.array([(first, end) for first, end, _ in memory.ranges] or [(0, 0)], np.int64)
        self.set(
            parameters=run.parameters.ctypes.data,
            parameter_bytes=run.program.layout.parameter_bytes,
            shared=shared.bytes.ctypes.data,
            shared_bytes=core.block.shape.shared,
            memory=memory.bytes.ctypes.data,
            ranges=ranges.ctypes.data,
            range_count=len(memory.ranges),
            window=SHARED + core.block.rank * BLOCK,
            fuel=FUEL,
        )
        self.local_moved()

    def set(self, **words: int) -> None:
        """Set words by name."""
        for name, value in words.items():
            self.words[WORDS[name]] = value

    def enter(self, frame: Frame) -> None:
        """The next segment runs in this frame."""
        self.words[WORDS["registers"]] = frame.address

    def local_moved(self) -> None:
        """The lanes' local memory is at a new place, or larger."""
        local = self.run.local
        self.set(local=local.bytes.ctypes.data, local_bytes=local.size)

    # ------------------------------------------------------------------------------------------ what is left

    @property
    def taken(self) -> int:
        """The lanes that branch or leave."""
        return int(self.words[WORDS["taken"]])

    @property
    def target(self) -> int:
        """The block that they branch to."""
        return int(self.words[WORDS["target"]])

    @property
    def exits(self) -> bool:
        """Whether the lanes that leave exit, and do not return."""
        return bool(self.words[WORDS["exits"]])

    def refuel(self) -> int:
        """Fill up the fuel; how much was used."""
        used = FUEL - int(self.words[WORDS["fuel"]].astype(np.int64))
        self.set(fuel=FUEL)
        return used

    @property
    def scratch(self) -> Array:
        """The addresses of the access that failed, int64 (32,)."""
        return self.words[SCRATCH : SCRATCH + 32].view(np.int64)

    # ------------------------------------------------------------------------------------------ the log

    @property
    def logged(self) -> bool:
        """Whether accesses wait to be reported."""
        return False

    def flush(self) -> None:
        """Report the accesses of native code to the observers."""
