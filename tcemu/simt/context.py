"""What a segment needs besides registers: a table of words that native code reads, one for each warp.

`WORDS` names them; tcemu.native.access has the code that uses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.machine.addresses import BLOCK, SHARED
from tcemu.native.context import SCRATCH, TOTAL, WORDS
from tcemu.simt.frames import address_of, aligned
from tcemu.simt.hidden import HEAP

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame
    from tcemu.simt.program import Program
    from tcemu.simt.run import Run

Array = npt.NDArray[Any]
#: How often a group may go round loops before others get a turn.
FUEL = 1 << 16
#: Bytes of records that a launch has room for, beside those of one pass through a function.
_LOG = 1 << 20
#: The word that says where the next record goes.
_END = WORDS["log"]


class Context:
    """The words of a warp's context, and what a segment has left there when it ends."""

    def __init__(self, run: Run) -> None:
        self.run = run
        together, block = run.together, run.core.block
        raw = aligned(8 * TOTAL)
        self.words: Array = raw.view(np.uint64)
        self.address = address_of(raw)
        if together.words is None:
            self._begin()
            together.words = self.words.copy()
        else:
            self.words[:] = together.words
        shared = block.shared.bytes
        self.set(shared=address_of(shared) if len(shared) else 0, window=SHARED + block.slot * BLOCK)
        self.local_moved()
        #: the function that runs, how much fuel there is, and where the log starts; 0: nobody observes
        self._program: Program | None = None
        self._fuel, self._start = FUEL, 0
        self._log: Array

    def _begin(self) -> None:
        """Set what is the same for all warps of a launch."""
        run, memory = self.run, self.run.core.grid.memory
        heap = run.pointers.get(HEAP.name)  # accesses to it are left to the machine, which knows what is allocated
        pairs = [(first, end) for first, end, _ in memory.ranges if first != heap]
        ranges = np.array(pairs or [(0, 0)], np.int64)
        run.together.ranges = ranges  # kept alive
        self.set(
            parameters=run.parameters.ctypes.data,
            parameter_bytes=run.program.layout.parameter_bytes,
            shared_bytes=run.core.block.shape.shared,
            memory=memory.bytes.ctypes.data,
            ranges=ranges.ctypes.data,
            range_count=len(pairs),
            fuel=FUEL,
        )

    def set(self, **words: int) -> None:
        """Set words by name."""
        for name, value in words.items():
            self.words[WORDS[name]] = value

    def enter(self, frame: Frame) -> None:
        """The next segment runs in this frame."""
        self.words[WORDS["registers"]] = frame.address
        if frame.program is not self._program:
            self.flush()
            self._program = frame.program
            self.set(counts=self.run.together.executed(frame.program).ctypes.data)
            if self.run.core.watched:
                self._observe(frame.program)

    def local_moved(self) -> None:
        """The lanes' local memory is at a new place, or larger."""
        local = self.run.local
        self.set(local=address_of(local.bytes), local_bytes=local.size, local_window=int(local.window[0]))

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
        used = self._fuel - int(self.words[WORDS["fuel"]])
        self.set(fuel=self._fuel)
        return used

    @property
    def scratch(self) -> Array:
        """The addresses of the access that failed, int64 (32,)."""
        return self.words[SCRATCH : SCRATCH + 32].view(np.int64)

    def stored(self) -> bool:
        """Whether segments have stored anything since this was asked last."""
        stored = bool(self.words[WORDS["stored"]])
        self.set(stored=0)
        return stored

    # ------------------------------------------------------------------------------------------ the log

    def _observe(self, program: Program) -> None:
        """Make native code keep records: as many as the room for them takes until a segment ends."""
        once = max(program.logs, 1)
        self._fuel = max(1, min(FUEL, _LOG // once))
        log = self.run.together.log(_LOG + 2 * once)
        self._start = log.ctypes.data
        self._log = log
        self.set(log=self._start, observed=1, fuel=self._fuel)

    def flush(self) -> None:
        """Report the accesses of native code to the observers."""
        start = self._start
        if not start or self._program is None:
            return
        end = self.words.item(_END) - start
        if end:
            self.words[_END] = start
            self.run.core.accessed(self._program.table, self._log[:end])
