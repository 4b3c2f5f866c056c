"""A call of a function by lanes of a warp: its registers, its part of their local memory, and where it returns."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.machine.masks import bits_of, lanes_of
from tcemu.simt.register_file import ALIGN, LANES, Slot

if TYPE_CHECKING:
    from tcemu.simt.program import Program
    from tcemu.simt.run import Run

Array = npt.NDArray[Any]
_KINDS = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}


class File:
    """The memory of a function's registers, as arrays by width: a row (32,) for each."""

    __slots__ = ("address", "bytes", "masks", "rows")

    def __init__(self, size: int) -> None:
        self.bytes = aligned(size)
        self.address = address_of(self.bytes)
        self.rows: dict[int, Array] = {bits: self.bytes.view(kind).reshape(-1, LANES) for bits, kind in _KINDS.items()}
        #: the predicates, a word each
        self.masks: Array = self.bytes.view(np.uint32)


class Frame:
    """The registers of a function that runs, in a file."""

    __slots__ = (
        "address", "back", "bank", "base", "beside", "blocks", "call", "caller", "file", "masks", "operating", "order",
        "program", "rows", "run", "runner",
    )  # fmt: skip

    def __init__(
        self, run: Run, program: Program, caller: Frame | None = None, back: int = 0, base: int = 0, call: Any = None
    ) -> None:
        self.run, self.program = run, program
        #: the frame and the block where its lanes go on when they return, and what the call passes
        self.caller, self.back, self.call = caller, back, call
        #: where its local variables start
        self.base = base
        #: the places of the calls that led here, outermost first
        self.order: tuple[int, ...] = () if caller is None else (*caller.order, back - 1)
        #: what looks for mistakes beside it, if observers want to know; by block, who follows its operation; and the
        #: blocks with the steps for that
        self.beside = program.beside if run.core.watched else ()
        self.operating = program.operating if self.beside else {}
        self.blocks = program.watched_blocks if self.beside else program.blocks
        #: runs a segment of it
        self.runner = program.watched_runner if self.beside else program.runner
        self.file = file = run.together.file(program)
        self.address, self.rows, self.masks = file.address, file.rows, file.masks
        #: the registers of 32 bits as the machine takes them: (32, n)
        self.bank = run.core.adopted(self.rows[32].T).bank
        program.fill(self)
        self.declare()
        for each in self.beside:
            each.begin(self)

    def declare(self) -> None:
        """Let the function's variables in local memory lack their values, in the active lanes, for observers."""
        run, program = self.run, self.program
        if run.core.watched and program.code.keeps_variables:
            run.local.begin(self.base, program.local_bytes, program.variables_kept, lanes_of(run.bits))

    def behind(self, block: int) -> Iterator[tuple[Frame, int]]:
        """What is behind a block: the blocks as bits, in this frame and in those that it was called from."""
        frame = self
        yield frame, frame.program.ways.behind(block)
        while frame.caller is not None:
            frame, block = frame.caller, frame.back - 1
            yield frame, frame.program.ways.behind(block)

    def lanes(self, slot: Slot) -> Array:
        """A register: (32,), its own memory."""
        values: Array = self.rows[slot.bits][slot.row]
        return values

    def mask(self, slot: Slot) -> int:
        """A predicate, a bit for each lane."""
        return int(self.masks[slot.row])

    def one(self, slot: Slot) -> int:
        """A register in the first of the active lanes."""
        if slot.bits == 1:
            return self.mask(slot) >> self.run.first & 1
        return int(self.rows[slot.bits][slot.row, self.run.first])

    def put(self, slot: Slot, values: Any) -> None:
        """Write a register in the active lanes: a number, or one for each lane; a mask for a predicate."""
        active = self.run.active
        if slot.bits == 1:
            mask, now = self.run.bits, self.mask(slot)
            self.masks[slot.row] = now & ~mask | values & mask
        elif active is None:
            self.rows[slot.bits][slot.row] = values
        else:
            np.copyto(self.rows[slot.bits][slot.row], values, where=active, casting="unsafe")


def aligned(size: int) -> Array:
    """So many bytes of zeros, at least, that start at a multiple of `ALIGN`."""
    size += -size % ALIGN
    raw = np.zeros(size + ALIGN, np.uint8)
    start = -address_of(raw) % ALIGN
    array: Array = raw[start : start + size]
    return array


def address_of(array: Array) -> int:
    """Where an array lies that may be written to: numpy's own answer takes four times as long."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data))


def distinct(frame: Frame, slot: Slot) -> list[tuple[int, int]]:
    """The values of a register in the active lanes, and the lanes that have each."""
    values, held = frame.lanes(slot), lanes_of(frame.run.bits)
    return [(int(value), bits_of(held & (values == value))) for value in np.unique(values[held])]
