"""Vectors of C that have eight columns of two rows: as the registers have them, or made from two of these.

Sixteen elements of C and D that are side by side in the registers are a vector. Where it has four columns of four rows,
two vectors with other columns of the same rows are exchanged for two of the kind that blocks take:

    registers     rows a b c d, columns 0 to 3              rows a b c d, columns 4 to 7
    blocks        rows a b, columns 0 to 7                  rows c d, columns 0 to 7
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tcemu.kernels.lanes import WIDTH

Array = npt.NDArray[np.int64]
#: Rows of C in a vector, and its columns.
PAIR, COLUMNS = 2, WIDTH // 2
#: The ways to take four rows two by two.
_SPLITS = ((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))


class Vectors(NamedTuple):
    """C or D in vectors of sixteen elements: the row and column of each lane, (vectors, 16)."""

    rows: Array
    columns: Array

    @property
    def turned(self) -> Vectors:
        """The same of the transposed matrix."""
        return Vectors(self.columns, self.rows)


class Exchange(NamedTuple):
    """How vectors for the blocks are made from those of the registers.

    lanes: for two vectors of a block, which lanes of two of the registers they take, (32). vectors: those that are
    exchanged with each other, or each one alone, (units, 1 or 2). rows: of the vectors that they become, (units, 1 or
    2, 2). columns: theirs, (units, 8).
    """

    lanes: Array
    vectors: Array
    rows: Array
    columns: Array


def exchanges(given: Vectors) -> Iterator[Exchange]:
    """All ways to make vectors for the blocks."""
    alone = np.arange(len(given.rows))[:, None]
    order = np.lexsort((given.rows[0], given.columns[0]))
    if len(set(given.rows[0])) == PAIR:
        yield from _alike(given, alone, order)
        return
    for apart in (1 << bit for bit in range(10)):
        first = np.flatnonzero(np.arange(len(alone)) & apart == 0)
        if len(alone) % (2 * apart):
            return
        pairs = np.stack([first, first + apart], axis=1)
        rows, columns = (each[pairs[0]].ravel() for each in given)
        every = np.unique(rows)
        if len(every) != 2 * PAIR or len(np.unique(columns)) != COLUMNS:
            continue
        for split in _SPLITS:
            which = np.array([next(i for i, two in enumerate(split) if row in every[list(two)]) for row in rows])
            yield from _alike(given, pairs, np.lexsort((rows, columns, which)))


def _alike(given: Vectors, units: Array, lanes: Array) -> Iterator[Exchange]:
    """The exchange by an order of lanes, if it makes all vectors into what blocks take."""
    shape = len(units), units.shape[1], COLUMNS, PAIR
    rows, columns = (each[units].reshape(len(units), -1)[:, lanes].reshape(shape) for each in given)
    of_rows, of_columns = rows[:, :, :1], columns[:, :1, :, :1]
    alike = (rows == of_rows).all() and (columns == of_columns).all()
    if alike and (rows[..., 0] != rows[..., 1]).all():
        both = lanes if units.shape[1] == PAIR else np.concatenate([lanes, lanes + WIDTH])
        yield Exchange(both, units, of_rows[:, :, 0], of_columns[:, 0, :, 0])
