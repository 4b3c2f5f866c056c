"""What the warps of one launch share: the log of native accesses, counters, and who receives what they print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.simt.frames import File
from tcemu.simt.hidden import Heap
from tcemu.simt.printed import Listener

if TYPE_CHECKING:
    from tcemu.machine.grid import Grid
    from tcemu.simt.frames import Frame
    from tcemu.simt.program import Program

Array = npt.NDArray[Any]


class Together:
    """The state of one run of a kernel."""

    #: Each byte of a register before an instruction writes it.
    unset = 0

    def __init__(self, grid: Grid, says: Listener, program: Program) -> None:
        self.grid, self.says, self.program = grid, says, program
        #: how often each block of each function was executed
        self._executed: dict[Program, Array] = {}
        self._log = np.zeros(0, np.uint8)
        self._heap: Heap | None = None
        #: the files of functions that have returned, which others may use
        self._files: dict[Program, list[File]] = {}
        #: what the contexts of all warps begin with; None before the first
        self.words: Array | None = None
        self.ranges: Array | None = None
        #: special registers that are the same in the same warp of every block, by name and warp
        self.special: dict[tuple[str, int], Any] = {}

    def executed(self, program: Program) -> Array:
        """How often each block of a function was executed: native code counts here."""
        counts = self._executed.get(program)
        if counts is None:
            counts = self._executed[program] = np.zeros(len(program.blocks), np.int64)
        return counts

    def file(self, program: Program) -> File:
        """A file for the registers of a function: zeros, or what `unset_registers` says."""
        free = self._files.get(program)
        file = free.pop() if free else File(program.slots.size)
        file.bytes.fill(self.unset)
        return file

    def free(self, frame: Frame) -> None:
        """A function has returned: others may use its file, unless something will still write to it."""
        if not frame.bank.pending:
            self._files.setdefault(frame.program, []).append(frame.file)

    def heap(self, first: int) -> Heap:
        """The heap of malloc, which begins at this address."""
        if self._heap is None:
            self._heap = Heap(first)
            self.grid.memory.keep(self._heap)
        return self._heap

    def log(self, size: int) -> Array:
        """Room for records, of at least so many bytes. It is empty whenever another warp runs."""
        if len(self._log) < size:
            self._log = np.zeros(size, np.uint8)
        return self._log

    @property
    def counts(self) -> Counter[str]:
        """How often warps have executed each ordinary instruction, by opcode."""
        total: Counter[str] = Counter()
        for program, executed in self._executed.items():
            for opcodes, count in zip(program.counted, executed.tolist(), strict=True):
                if count:
                    for opcode in opcodes:
                        total[opcode] += count
        return total


@contextmanager
def unset_registers(byte: int) -> Iterator[None]:
    """Let registers hold this in each byte before an instruction writes them: on a GPU, they hold anything.

    >>> from tcemu.simt.together import unset_registers
    >>> with unset_registers(0x4B):
    ...     pass  # launches here show who reads what no instruction has written
    """
    before, Together.unset = Together.unset, byte
    try:
        yield
    finally:
        Together.unset = before
