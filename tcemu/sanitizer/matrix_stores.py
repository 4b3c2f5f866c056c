"""Matrices that stmatrix writes, and readers in another layout.

stmatrix writes 8 rows of 16 bytes, which are the same 8 columns of 8 lines of some tile. Where the values come from
does not matter: what a reader (the box of a tensor copy, the descriptor of wgmma, the rows of ldmatrix) takes for the
same 8 columns of 8 lines should be the 8 rows of one matrix. It is reported if it begins with row 0 of a matrix and

    goes on with rows of other matrices in the same lines of 128 bytes: one of the two has another swizzle
    is in rows of 128 bytes, of which the reader takes 2, 4 or 8 pieces for lines: they mean different layouts

Any other order may be on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tcemu.machine.events import Accessed, By, CopyIssued, WgmmaIssued
from tcemu.sanitizer.block import Access, Block, ForAccesses, Handlers
from tcemu.sanitizer.clocks import Array
from tcemu.sanitizer.report import Earlier
from tcemu.sanitizer.stored_tiles import swizzled

#: The first reads of each line are looked at, and the latest stores: the others do the same.
_READS, _STORES = 8, 1024
#: Bytes of a row, the rows of a matrix, and the bytes of a line of all banks, within which a swizzle permutes.
_UNIT, _ROWS, _LINE = 16, 8, 128


class Misread(NamedTuple):
    """A rule, the rows (8,) that a reader takes, those of the matrix that it begins with, and the first wrong row."""

    rule: str
    taken: Array
    matrix: Array
    row: int


def misread(rows: Array, matrices: dict[int, Array]) -> Misread | None:
    """What is wrong, for certain, with rows (8,) that are taken for the same columns of 8 lines.

    `matrices` has the addresses (8,) of the rows of each matrix that is there, by that of its first row.
    """
    matrix = matrices.get(int(rows[0]))
    if matrix is None or (matrix == rows).all():
        return None
    row = int((rows != matrix).argmax())
    lines, written = matrix // _LINE, {int(each) for each in np.concatenate(list(matrices.values()))}
    if (lines == rows // _LINE).all():
        other = any(_turned(each % _LINE // _UNIT) for each in (rows, matrix))
        return Misread("swizzle-mismatch", rows, matrix, row) if other and written.issuperset(rows.tolist()) else None
    # a tile in rows of 128 bytes, 2, 4 or all 8 lines of the reader in each
    in_rows = (np.diff(lines) == 1).all() and swizzled(matrix % _LINE // _UNIT)
    numbers = np.arange(_ROWS, dtype=np.int64)
    shared = any(np.array_equal(rows // _LINE - lines[0], numbers // each) for each in (2, 4, 8))
    other = in_rows and shared and written.issuperset(rows.tolist())
    return Misread("tile-layout", rows, matrix, row) if other else None


def _turned(units: Array) -> bool:
    steps = np.diff(units)
    return bool((steps != steps[0]).any()) and swizzled(units)


def _together(access: Access) -> bool:
    return access.collective and access.space == "shared"


class MatrixStores:
    """The matrices that the warps of a block have written with stmatrix, and their readers."""

    def __init__(self, block: Block) -> None:
        self._block = block
        #: by record: the addresses (n, 8) of the rows of matrices
        self._stored: dict[int, list[Array]] = {}
        #: by line and what it reads there: how many reads have been looked at
        self._reads: dict[object, int] = {}
        self.handlers: Handlers = {
            Accessed: ForAccesses(self._accessed, _together),
            CopyIssued: self._copied,
            WgmmaIssued: self._issued,
        }

    def _accessed(self, event: Accessed) -> None:
        family, (number, left) = event.instruction.family, divmod(len(event.addresses), _ROWS)
        if event.size != _UNIT or left or not number:
            return
        rows = event.addresses.reshape(number, _ROWS)
        if family == "stmatrix":
            self._stored.setdefault(self._block.shadow.writer(int(rows[0, 0])), []).append(rows.copy())
            if len(self._stored) > _STORES:
                del self._stored[next(iter(self._stored))]
        elif family == "ldmatrix":
            self._look(event.by, event.opcode, "a tile", rows.T, "the addresses of ldmatrix have", -1)

    def _copied(self, event: CopyIssued) -> None:
        """A tensor copy out of shared memory reads its box, line by line."""
        copy = event.copy
        space, addresses, size = copy.reads
        if space != "shared" or copy.tensor_map is None or not len(addresses):
            return
        line, swizzle = copy.tensor_map.line, copy.tensor_map.swizzle
        if not (line % _UNIT or _UNIT % size or size * len(addresses) % line):
            heads = addresses[:: _UNIT // size].reshape(-1, line // _UNIT)
            self._look(copy.by, copy.opcode, "its box", heads, "the tensor map has", swizzle)

    def _issued(self, event: WgmmaIssued) -> None:
        wgmma = event.wgmma
        for (role, addresses, size), (descriptor, major) in zip(wgmma.reads, wgmma.tiles, strict=True):
            tile = addresses.reshape(wgmma.instruction.shape[1 if role == "b" else 0], -1)
            heads = (tile.T if major == "MN" else tile)[:, :: _UNIT // size]
            opcode, operand = str(wgmma.instruction), role.upper()
            self._look(wgmma.bys[0], opcode, operand, heads, "the descriptor has", descriptor.swizzle)

    # ------------------------------------------------------------------------------------------------ the look

    def _look(self, by: By, opcode: str, tile: str, heads: Array, whose: str, swizzle: int) -> None:
        """Compare a tile, whose units begin at `heads` (line, unit), with the matrices that are there."""
        key = by.site, tile
        if not self._stored or self._reads.get(key, 0) == _READS:
            return
        matrices, records = self._matrices(heads)
        if not matrices:
            return
        self._reads[key] = self._reads.get(key, 0) + 1
        mistake = next((each for rows in _groups(heads) if (each := misread(rows, matrices))), None)
        if mistake is not None:
            remedy = f"{whose[0].upper()}{whose[1:]} {_swizzled(swizzle)}: {_XOR[swizzle]}" if swizzle >= 0 else _SAME
            self._report(by, opcode, tile, mistake, records[int(mistake.matrix[0])], remedy)

    def _matrices(self, heads: Array) -> tuple[dict[int, Array], dict[int, int]]:
        """The matrices of which a row is in a tile, if they are still there as a whole, and their records."""
        shadow = self._block.shadow
        owners = np.unique(shadow.written[heads // shadow.cell] >> 5)
        matrices, records = {}, {}
        for record in owners.tolist():
            for stored in self._stored.get(record, ()):
                whole = (shadow.written[stored // shadow.cell] >> 5 == record).all(axis=1)
                for matrix in stored[whole]:
                    matrices[int(matrix[0])], records[int(matrix[0])] = matrix, record
        return matrices, records

    def _report(self, by: By, opcode: str, tile: str, mistake: Misread, record: int, remedy: str) -> None:
        place, records, row = self._block.shadow.place, self._block.records, mistake.row
        first, taken, right = (
            place(int(at), _UNIT) for at in (mistake.taken[0], mistake.taken[row], mistake.matrix[row])
        )
        how = "with another swizzle" if mistake.rule == "swizzle-mismatch" else "in another layout"
        message = (
            f"{opcode} reads {tile} {how} than {records.opcode[record]} wrote it: of the matrix whose row 0 is at "
            f"{first}, it takes row {row} from {taken}, but stmatrix wrote that row to {right}"
        )
        earlier = Earlier(records.by[record], records.opcode[record], records.callers[record])
        self._block.report(mistake.rule, by, message, what="shared memory", earlier=earlier, remedy=remedy)


def _groups(heads: Array) -> Iterator[Array]:
    """The units of each column of a tile, 8 lines at a time."""
    for first in range(0, len(heads) - _ROWS + 1, _ROWS):
        yield from heads[first : first + _ROWS].T


def _swizzled(swizzle: int) -> str:
    return f"a swizzle of {swizzle} bytes" if swizzle else "no swizzle"


_SAME = "Compute the addresses of stmatrix and of ldmatrix in the same way."
#: What to do about it, by the swizzle of the reader.
_XOR = {
    0: "give it the swizzle that the addresses of stmatrix have, or store the tile without one, as it reads it.",
    **{
        width: f"let stmatrix store unit u of a line at its unit u ^ (line's address >> 7 & {width // 16 - 1})."
        for width in (32, 64, 128)
    },
}
