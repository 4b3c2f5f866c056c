"""The order in which cuBLAS, CUTLASS and torch keep scale factors in memory: blocks of 128 rows by 4 columns.

    scale (row, column) of (rows, columns) is at
        block * 512 + (row mod 32) * 16 + (row mod 128 div 32) * 4 + column mod 4
        block = (row div 128) * ceil(columns / 4) + column div 4

The rows are those of A (m) or the columns of B (n); a column is a block of k that shares a scale. The matrix is padded
with zeros to whole blocks. This is what `to_blocked` of torchao, `nvte_swizzle_scaling_factors` of Transformer Engine
and cuBLASLt's CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 and VEC32_UE8M0 mean, written from their documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import LayoutError, OperandError, whole
from tcemu.formats.arrays import as_array

Array = npt.NDArray[Any]

#: Rows and columns of a block; the rows that are neighbours in memory are 32 apart.
ROWS, COLUMNS, _APART = 128, 4, 32
_SCALES = "scale factors must be an array (..., rows, columns)"


@explained
def to_blocked(scales: npt.ArrayLike, axis: int = -1) -> Array:
    """Scale factors (..., rows, columns) in the order of the 128x4 blocks, (..., bytes), with zeros as padding.

    `axis` is k, as in tcemu.microscaling.quantise: -1 for scales of A, (m, blocks of k), and -2 for scales of B,
    (blocks of k, n). The dtype stays.

    >>> scales = np.arange(128 * 8).reshape(128, 8)
    >>> blocked = tcemu.layouts.to_blocked(scales)
    >>> blocked[:8]  # rows 0 and 32, columns 0 to 3
    array([  0,   1,   2,   3, 256, 257, 258, 259])
    >>> np.array_equal(tcemu.layouts.from_blocked(blocked, 128, 8), scales)
    True
    """
    matrix = _by_rows(as_array(scales, _SCALES), axis)
    *lead, rows, columns = matrix.shape
    down, across = -(-rows // ROWS), -(-columns // COLUMNS)
    padded = np.zeros((*lead, down * ROWS, across * COLUMNS), matrix.dtype)
    padded[..., :rows, :columns] = matrix
    cut = padded.reshape(*lead, down, ROWS // _APART, _APART, across, COLUMNS)
    return np.moveaxis(cut, (-5, -2, -3, -4, -1), range(-5, 0)).reshape(*lead, -1)


@explained
def from_blocked(blocked: npt.ArrayLike, rows: int, columns: int, axis: int = -1) -> Array:
    """The scale factors (..., rows, columns) of a buffer (..., bytes) in the order of the 128x4 blocks.

    With `axis` -2 they are (..., columns, rows), as for B. A buffer of any other shape is read from its first byte to
    its last; the dtype stays. Raises LayoutError if its size is not that of the padded blocks.

    >>> blocked = tcemu.layouts.to_blocked(np.full((2, 3), 5))
    >>> blocked.shape, tcemu.layouts.from_blocked(blocked, 2, 3)  # a whole block
    ((512,), array([[5, 5, 5],
           [5, 5, 5]]))
    """
    buffer = as_array(blocked, "a buffer of scale factors must be an array (..., bytes)")
    rows, columns = whole(rows, "rows", LayoutError), whole(columns, "columns", LayoutError)
    if min(rows, columns) < 1:
        raise LayoutError(f"scale factors have at least one row and one column; got {rows} and {columns}")
    down, across = -(-rows // ROWS), -(-columns // COLUMNS)
    size = down * across * ROWS * COLUMNS
    if buffer.size == size:
        buffer = buffer.reshape(size)
    if not buffer.ndim or buffer.shape[-1] != size:
        raise LayoutError(
            f"scale factors of {rows} rows and {columns} columns take {down} by {across} blocks of 128 by 4, which are "
            f"{size} numbers; the buffer has shape {buffer.shape}"
            + (f". {rows} by {columns} without padding: is it still in rows?" if buffer.size == rows * columns else "")
        )
    lead = buffer.shape[:-1]
    cut = buffer.reshape(*lead, down, across, _APART, ROWS // _APART, COLUMNS)
    whole_blocks = np.moveaxis(cut, range(-5, 0), (-5, -2, -3, -4, -1))
    matrix = whole_blocks.reshape(*lead, down * ROWS, across * COLUMNS)[..., :rows, :columns]
    return np.ascontiguousarray(_by_rows(matrix, axis))


@explained
def blocked_offset(row: npt.ArrayLike, column: npt.ArrayLike, columns: int) -> Array:
    """Where scale (row, column) is in the order of the 128x4 blocks, for a matrix of `columns` columns; also arrays.

    An int64 offset in scales, in the shape that `row` and `column` broadcast to. Raises LayoutError outside the matrix.

    >>> int(tcemu.layouts.blocked_offset(33, 5, columns=8))  # 512 + 1 * 16 + 1 * 4 + 1
    533
    """
    at, across = (as_array(each, "a row or column must be a whole number") for each in (row, column))
    columns = whole(columns, "columns", LayoutError)
    if at.dtype.kind not in "iu" or across.dtype.kind not in "iu" or np.any(at < 0) or np.any(across < 0):
        raise LayoutError("a row and a column are whole numbers of at least 0")
    if np.any(across >= columns):
        raise LayoutError(f"a matrix of {columns} columns has columns 0 to {columns - 1}; got {int(across.max())}")
    block = at // ROWS * -(-columns // COLUMNS) + across // COLUMNS
    return np.asarray(block * ROWS * COLUMNS + at % _APART * 16 + at % ROWS // _APART * 4 + across % COLUMNS)


#: The orders that kernels expect or that a forgotten step leaves.
_ORDERS: dict[str, Callable[[Array], Array]] = {
    "rows": lambda scales: scales.reshape(-1),
    "columns": lambda scales: scales.T.reshape(-1),
    "blocked": to_blocked,
}


@explained
def order_of_scales(buffer: npt.ArrayLike, scales: npt.ArrayLike, axis: int = -1) -> list[str]:
    """In which orders a buffer holds the scale factors (rows, columns): "rows", "columns", "blocked" (128x4), or none.

    Several are possible where scales repeat. Bytes are compared, so that a NaN equals itself. Raises OperandError
    for scales that are not a matrix, and for a buffer of another dtype.

    >>> scales = np.arange(256 * 8).reshape(256, 8)
    >>> tcemu.layouts.order_of_scales(tcemu.layouts.to_blocked(scales), scales)
    ['blocked']
    """
    held = np.ascontiguousarray(as_array(buffer, "a buffer of scale factors must be an array")).reshape(-1)
    matrix = _by_rows(as_array(scales, _SCALES), axis)
    if matrix.ndim != 2:
        raise OperandError(f"{_SCALES}; here two axes are needed; got shape {matrix.shape}")
    if held.dtype.itemsize != matrix.dtype.itemsize:
        raise OperandError(
            f"the buffer has elements of {held.dtype.itemsize} bytes, the scale factors of {matrix.dtype.itemsize}; "
            "give both in one dtype, or as patterns"
        )
    wanted = {name: np.ascontiguousarray(order(matrix)).tobytes() for name, order in _ORDERS.items()}
    return [name for name, bytes_ in wanted.items() if bytes_ == held.tobytes()]


def _by_rows(scales: Array, axis: int) -> Array:
    """The matrix with k last. Raises for an array without two axes."""
    if scales.ndim < 2:
        raise OperandError(f"{_SCALES}; got shape {scales.shape}")
    if axis not in (-1, -2):
        raise LayoutError(f"axis must be -1 (scales of A) or -2 (scales of B); got {axis!r}")
    return scales if axis == -1 else scales.swapaxes(-1, -2)
