"""A tile's rows in shared memory, in 16-byte units, and which of them one part of an ldmatrix reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, briefly, counted
from tcemu.formats.arrays import as_array
from tcemu.show.picture import Picture, picture
from tcemu.show.shared_lines import SharedLines
from tcemu.show.sheet import Cell, notes
from tcemu.timing.wavefronts import Wavefronts, wavefronts

Array = npt.NDArray[Any]

_LOAD = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"
#: The rows of a matrix, and 128-byte lines that fit into a picture.
_ROWS, _LINES = 8, 36


@explained
def shared_rows(addresses: npt.ArrayLike, unit: int = 0, first: int = 0) -> Picture:
    """Where a tile's rows are, and what it costs to read one 16-byte unit of each of 8 rows with ldmatrix.

    `addresses` (rows, units) are the byte addresses of a tile's 16-byte units, multiples of 16. The picture marks
    `unit` of the rows `first` to `first` + 7, which are the rows of one 8 x 8 matrix. Raises OperandError for other
    addresses, for two units at one address, and for a unit or row that the tile does not have.

    >>> row, unit = np.indices((8, 8))
    >>> tcemu.show.shared_rows(128 * row + 16 * unit).title
    'Unit 0 of rows 0 to 7: 8 wavefronts where 1 would do'
    """
    where = as_array(addresses, "addresses")
    if where.ndim != 2 or where.dtype.kind not in "iu" or len(where) < _ROWS or not where.shape[1]:
        raise OperandError(f"addresses must be integers (rows, units), 8 rows or more; got {where.dtype} {where.shape}")
    rows, units = where.shape
    if not 0 <= unit < units or not 0 <= first <= rows - _ROWS:
        got = f"unit {briefly(unit)} of the rows from {briefly(first)} on"
        raise OperandError(f"the tile has {counted(rows, 'row')} of {counted(units, 'unit')}; got {got}")
    numbers, stored = np.unique(where, return_inverse=True)
    if (where < 0).any() or (where % 16).any():
        raise OperandError("a 16-byte unit is at a multiple of 16 in shared memory (PTX ISA 9.7.14.5.15)")
    if len(numbers) < where.size:
        row, column = (int(each) for each in np.argwhere(_repeated(stored.reshape(where.shape)))[0])
        raise OperandError(f"unit {column} of row {row} is at the address of another unit: {int(where[row, column])}")
    touched = sorted(set((where // 128).ravel().tolist()))
    lines = SharedLines(touched[:_LINES], 0, margin=16)
    asked = where[first : first + _ROWS, unit]
    cost = wavefronts(np.resize(asked, 32), _LOAD)
    held = {int(address): place for place, address in np.ndenumerate(where)}

    def unit_at(number: int) -> Cell:
        row, column = held.get(16 * number, (0, -1))
        label = "·" if column < 0 else f"row {row}, {column}"
        return Cell(label, "pf"[row % 2], 16 * number in asked)

    body = lines.drawn(unit_at) + notes(lines.grid.left, lines.grid.bottom + 20, _legend(cost, touched))
    told = counted(int(cost.count), "wavefront")
    ideal = "no conflict" if cost.count == cost.least else f"{told} where {cost.least} would do"
    which = f"Unit {unit} of rows {first} to {first + _ROWS - 1}"
    title = f"{which}: {ideal if cost.count > cost.least else f'{told}, {ideal}'}"
    return picture(title, _words(where, unit, first), lines.grid.right + lines.margin, lines.grid.bottom + 48, body)


def _repeated(stored: Array) -> Array:
    """Which units are at an address that an earlier one has."""
    flat = stored.ravel()
    seen = np.ones(flat.size, bool)
    seen[np.unique(flat, return_index=True)[1]] = False
    return seen.reshape(stored.shape)


def _legend(cost: Wavefronts, touched: list[int]) -> tuple[str, str]:
    (part,) = cost.parts
    more = f" {counted(len(touched) - _LINES, 'more line')} below." if len(touched) > _LINES else ""
    told = "Framed and hatched: the units that ldmatrix reads for one 8 × 8 matrix. “row 3, 1”: row 3, unit 1."
    busiest = f"Banks {part.bank}–{part.bank + 3} have to deliver {counted(part.wavefronts, 'unit')}, one after the"
    return told, (f"{busiest} other." if part.wavefronts > 1 else "No two of them share a bank.") + more


def _words(where: Array, unit: int, first: int) -> str:
    """The text alternative: the address and the banks of each row's unit."""
    told = [
        f"row {first + row} at {address:#x}, banks {address // 4 % 32} to {address // 4 % 32 + 3}"
        for row, address in enumerate(where[first : first + _ROWS, unit].tolist())
    ]
    return f"The unit of each row: {'; '.join(told)}."
