"""Scale factors over their blocks: for each block of A or B, the lane, register and byte with its scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import LayoutError, OperandError, counted, ranges, span, whole
from tcemu.formats import lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, parse
from tcemu.instructions.mma_block_scale import byte_and_thread, role_of_scales
from tcemu.layouts import Fragment
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid, cell, notes
from tcemu.show.svg import Drawing
from tcemu.show.words import neat

_LEFT, _TOP, _HIGH = 62, 76, 24
#: The number of a lane, and a byte of its register.
_LANE, _BYTE = 28, 31


@dataclass(frozen=True)
class _Operand:
    """What is drawn: the operand, its ids, and the marked block, `block` of row or column `line`."""

    instruction: Instruction
    fragment: Fragment
    role: str
    byte: int
    thread: int
    line: int
    block: int
    #: (lanes,) uint32, if there are values to show.
    registers: npt.NDArray[Any] | None

    @property
    def count(self) -> int:
        """Scales of a row or column."""
        return self.instruction.facts.scales

    @property
    def noun(self) -> str:
        """What has these scales."""
        return "row" if self.role == "a" else "column"

    @property
    def lines(self) -> int:
        """Rows of A or columns of B."""
        return self.instruction.shape.m if self.role == "a" else self.instruction.shape.n

    @property
    def grid(self) -> Grid:
        """The matrix: a box for each block."""
        if self.role == "a":
            return Grid(_LEFT, _TOP, 280 / self.count, _HIGH, self.lines, self.count)
        return Grid(_LEFT, _TOP, 44, 2 * _HIGH, self.count, self.lines)

    def holder(self, line: int, block: int) -> tuple[int, int]:
        """The lane and the byte that hold the scale of a block."""
        byte = self.byte + block
        where = (self.thread, line, byte) if self.role == "a" else (self.thread, byte, line)
        return self.fragment.layout.holders(*where)[0]

    def scaled(self, lane: int, byte: int) -> tuple[int, int] | None:
        """The row or column and the block that a byte scales; None if the ids do not select it."""
        thread, first, second = self.fragment.layout.position(lane, byte)
        line, place = (first, second) if self.role == "a" else (second, first)
        block = place - self.byte
        return (line, block) if thread == self.thread and 0 <= block < self.count else None

    def ks(self, block: int, to: str = "–") -> str:
        """The k of a block."""
        size = self.instruction.shape.k // self.count
        return span(block * size, (block + 1) * size - 1, to)

    def value(self, lane: int, byte: int) -> str:
        """A scale as pattern and number; empty without registers."""
        if self.registers is None:
            return ""
        code = int(self.registers[lane]) >> 8 * byte & 255
        return f"{code:#04x} = {neat(lookup(self.fragment.type).decode(code).item(), 5)}"


@explained
def scales(
    instruction: str | Instruction,
    role: str = "a",
    byte_id: int = 0,
    thread_id: int = 0,
    line: int = 0,
    block: int = 0,
    registers: npt.NDArray[Any] | None = None,
) -> Picture:
    """The blocks of A (`role` "a") or B ("b") that share a scale, and the lane and byte that hold each block's scale.

    `byte_id` and `thread_id` are the instruction's for this operand. `line` (a row of A, a column of B) and `block` (of
    k, counted from 0) select what is marked. With `registers` (32,) of uint32, as tcemu.microscaling.scale_registers
    returns them, the marked scale is also shown as a number.
    Raises IllegalInstruction for an instruction without scales, LayoutError for a line or block that does not exist,
    OperandError for another role, for ids that the instruction does not take, and for other registers.

    >>> opcode = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    >>> tcemu.show.scales(opcode, "a", byte_id=2, thread_id=1, line=11, block=1).title
    'Scales of A, 2 for each row: row 11, k = 32 to 63 has its scale in byte 3 of lane 15'
    """
    operand = _operand(parse(instruction), role, (byte_id, thread_id), (line, block), registers)
    lane, byte = operand.holder(operand.line, operand.block)
    grid = operand.grid
    left, low = grid.right + 44, max(grid.bottom, _TOP + 8 * _HIGH) + 24
    body = _matrix(operand, grid), _lanes(operand, left), notes(_LEFT, low, _legend(operand))
    name, where = operand.role.upper(), f"byte {byte} of lane {lane}"
    marked = f"{operand.noun} {operand.line}, k = {operand.ks(operand.block, ' to ')}"
    title = f"Scales of {name}, {operand.count} for each {operand.noun}: {marked} has its scale in {where}"
    return picture(title, _in_words(operand), left + 4 * (_LANE + 4 * _BYTE) + 16, low + 40, body)


def _operand(
    instruction: Instruction, role: object, ids: tuple[int, int], at: tuple[int, int], registers: npt.ArrayLike | None
) -> _Operand:
    role = role_of_scales(instruction, role)
    byte, thread = byte_and_thread(instruction, f"scale_{role}", ids)
    fragment = instruction.fragments[f"scale_{role}"]
    held = None
    if registers is not None:
        held = as_array(registers, f"scale_{role}")
        if held.shape != (fragment.lanes,):
            raise OperandError(f"scale_{role}: one uint32 register per lane, ({fragment.lanes},); got {held.shape}")
        fragment.check(held[:, None])
    line, block = (whole(each, what, LayoutError) for each, what in zip(at, ("a line", "a block"), strict=True))
    operand = _Operand(instruction, fragment, role, byte, thread, line, block, held)
    for what, each, size in ((operand.noun, line, operand.lines), ("block", block, operand.count)):
        if not 0 <= each < size:
            blocks = f"{what}{'s' * (size > 1)} {span(0, size - 1)}"
            raise LayoutError(f"{what} {each}: {role.upper()} of {instruction} has {blocks}")
    return operand


# ---------------------------------------------------------------------------------------------- the matrix, the lanes


def _matrix(operand: _Operand, grid: Grid) -> Drawing:
    """A or B in blocks, with the lane and byte of the scale in each; rows of A and columns of B are lines."""
    (m, n, k), is_a = operand.instruction.shape, operand.role == "a"
    ids = f"byte-id {operand.byte}, thread-id {operand.thread}"
    form = operand.instruction.types[operand.role].name
    size = f"{m} × {k}" if is_a else f"{k} × {n}"
    head = svg.text(_LEFT, 20, f"{operand.role.upper()}  {size}  {form}", "b"), svg.text(_LEFT, 38, ids, "s")
    quiet, loud = list[Drawing](), list[Drawing]()  # the marked one is over its neighbours
    for line, block in np.ndindex(operand.lines, operand.count):
        mine, (lane, byte) = (line, block) == (operand.line, operand.block), operand.holder(line, block)
        box = grid.at(line, block) if is_a else grid.at(block, line)
        drawn = cell(box, f"{lane}.{byte}", "fb" if (line + block) % 2 else "p", "n c", mine)
        (loud if mine else quiet).append(drawn)
    lines = [f"{'m' if is_a else 'n'}=0", *map(str, range(1, operand.lines))]
    blocks = [f"k={operand.ks(0)}", *map(operand.ks, range(1, operand.count))]
    down, across = (lines, blocks) if is_a else (blocks, lines)
    return head, quiet, loud, grid.beside(down), grid.above(across, up=6)


def _lanes(operand: _Operand, left: float) -> Drawing:
    """Four bytes of each lane; those that the ids select hold the number of a row or column, and of a block."""
    chosen = operand.holder(operand.line, operand.block)
    heading = f"scale_{operand.role}: four bytes of each lane, {operand.fragment.type}"
    quiet, loud = list[Drawing](), list[Drawing]()
    grids = [Grid(left + each * (_LANE + 4 * _BYTE) + _LANE, _TOP, _BYTE, _HIGH, 8, 4) for each in range(4)]
    for lane in range(operand.fragment.lanes):
        row, grid = lane // 4, grids[lane % 4]
        quiet.append(svg.text(grid.left - 5, grid.at(row, 0).base, lane, "n b" if lane == chosen[0] else "n q", "end"))
        for byte in range(4):
            box, scaled, mine = grid.at(row, 3 - byte), operand.scaled(lane, byte), (lane, byte) == chosen
            label = ".".join(map(str, scaled)) if scaled else ""
            drawn = box.marked() if mine else box.rect("fb" if scaled else "p")
            look = "n b c t halo" if mine else "n c t"
            (loud if mine else quiet).append([drawn, box.label(label, look) if scaled else ""])
    heads = list[str]()
    for grid in grids:
        heads.append(svg.text(grid.left - 5, _TOP - 6, "lane", "s t", "end"))
        heads += [grid.at(0, 3 - byte).above(byte, "s t c") for byte in range(4)]
    return svg.text(left + _LANE, 20, heading, "b"), quiet, heads, loud


# ---------------------------------------------------------------------------------------------- words


def _legend(operand: _Operand) -> list[str]:
    lane, byte = operand.holder(operand.line, operand.block)
    shown = operand.value(lane, byte)
    left = f"In {operand.role.upper()}, {lane}.{byte} means: byte {byte} of lane {lane}"
    right = f"In a lane, {operand.line}.{operand.block} means: {operand.noun} {operand.line}, block {operand.block}"
    note = f"Marked: the scale is {shown}." if shown else "Marked: the same scale on both sides."
    return [f"{left}. {right}.", f"{note} Empty bytes are not read with these ids."]


def _in_words(operand: _Operand) -> str:
    """The text alternative: the marked scale, the lanes and bytes that are read, the layout."""
    lane, byte = operand.holder(operand.line, operand.block)
    shown = operand.value(lane, byte)
    lanes = sorted({operand.holder(line, block)[0] for line in range(operand.lines) for block in range(operand.count)})
    last = operand.byte + operand.count - 1
    bytes_ = f"byte{'s' * (operand.count > 1)} {span(operand.byte, last)}"
    number = f", which is {shown}," if shown else ""
    return (
        f"Byte {byte} of lane {lane}{number} scales {operand.noun} {operand.line} of {operand.role.upper()} at "
        f"k = {operand.ks(operand.block, ' to ')}. With byte-id {operand.byte} and thread-id {operand.thread} the "
        f"instruction reads {bytes_} of {counted(len(lanes), 'lane')}: {ranges(lanes)}. "
        f"Layout: {operand.fragment.layout}."
    )
