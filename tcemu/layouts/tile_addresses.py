"""Where the elements of a tile are: a function, strides or an array, as an array of addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import LayoutError, whole
from tcemu.formats.arrays import as_array

Array = npt.NDArray[Any]
#: The byte of element (mn, k), the strides (bytes along mn, bytes along k), or an array (mn, k) of bytes.
TileAddresses = Callable[[int, int], int] | Sequence[int] | npt.ArrayLike

#: More elements, of one bit each, than fit into the 256 KiB that a descriptor reaches.
MOST = 8 << 18


def addresses_of(tile: Any, bits: int, mn: Any = None, k: Any = None, start: Any = 0) -> Array:
    """The addresses (mn, k) of a tile, or (mn, k / 8) of the bytes of elements of one bit."""
    per, first = max(8 // bits, 1), whole(start, "start", LayoutError)
    numbers = None if callable(tile) else as_array(tile, "a tile must be a function, two strides or an array (mn, k)")
    if numbers is not None and numbers.ndim == 2:
        mn, k = (size if indices is None else indices for size, indices in zip(numbers.shape, (mn, k), strict=True))
    rows, columns = whole(mn, "mn", LayoutError), whole(k, "k", LayoutError)
    if min(rows, columns) < 1 or rows * columns > MOST:
        raise LayoutError(f"a tile has at least one element and at most 256 KiB; got {rows} by {columns} elements")
    if columns % per:
        raise LayoutError(f"a row of {columns} elements of {bits} bit ends inside a byte")
    if numbers is None:
        try:
            held = [[tile(row, column) for column in range(0, columns, per)] for row in range(rows)]
        except TypeError as error:
            raise LayoutError(f"the function of a tile takes mn and k and returns a byte: {error}") from error
        numbers = as_array(held, "the function of a tile must return bytes, as whole numbers")
    elif numbers.shape == (2,):
        down, across = (np.arange(count, dtype=np.int64) for count in (rows, columns // per))
        numbers = np.add.outer(down * numbers[0], across * numbers[1])
    elif numbers.shape == (rows, columns):
        numbers = numbers[:, ::per]
    if numbers.shape != (rows, columns // per) or numbers.dtype.kind not in "iu":
        raise LayoutError(
            f"a tile of {rows} by {columns} elements needs whole numbers: two strides, or an array of that shape; got "
            f"shape {numbers.shape}, dtype {numbers.dtype}"
        )
    where = numbers.astype(np.int64) + first
    if where.min() < 0:
        row, column = (int(index) for index in np.argwhere(where < 0)[0])
        raise LayoutError(f"element ({row}, {column * per}) would be at byte {int(where[row, column])}")
    _check_distinct(where, max(bits // 8, 1), per)
    return where


def _check_distinct(where: Array, size: int, per: int) -> None:
    order = np.argsort(where, axis=None, kind="stable")
    close = np.flatnonzero(np.diff(where.ravel()[order]) < size)
    if close.size:
        one, other = (divmod(int(order[close[0] + step]), where.shape[1]) for step in (0, 1))
        at = [f"({row}, {column * per}) at byte {int(where[row, column])}" for row, column in (one, other)]
        raise LayoutError(f"two elements of {size} byte{'s' * (size > 1)} overlap: {at[0]} and {at[1]}")
