"""Scale factors in Tensor Memory: which byte of which cell scales which row of A, or column of B."""

from __future__ import annotations

from tcemu.arguments import explained
from tcemu.errors import LayoutError, counted, listing, span
from tcemu.layouts.tcgen05 import QUARTERS, scale_factors
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Cell, Grid, cells, notes

#: Bytes of a cell, lanes of a quarter, and the width of a byte and the height of a lane in the picture.
_BYTES, _LANES, _WIDE, _HIGH = 4, 32, 34, 15


@explained
def scale_factors_in_tensor_memory(rows: int = 128, scales: int = 1, row: int = 0, scale_id: int = 0) -> Picture:
    """Where tcgen05.mma has the scales of `rows` rows (of A, or columns of B), `scales` for each; `row` is marked.

    The first byte is that of the scale ID. Raises LayoutError for a row, or bytes, that there are not.

    >>> tcemu.show.scale_factors_in_tensor_memory(128, 2, row=70, scale_id=2).title
    'Scales of row 70: lane 6, column 2, bytes 2 to 3, and again in lanes 38, 70 and 102'
    """
    if rows not in range(8, 257) or scales not in (1, 2, 4) or scale_id not in range(_BYTES - scales + 1):
        raise LayoutError(
            f"scales: 8 to 256 rows have 1, 2 or 4 bytes each, from byte {scale_id} of 4 on; got {rows} and {scales}"
        )
    if row not in range(rows):
        raise LayoutError(f"the row must be one of {counted(rows, 'row')}, 0 to {rows - 1}; got {row}")
    lanes, columns, bits = scale_factors(rows, scales).cells()
    grid = Grid(84, 64, _WIDE, _HIGH, _LANES, _BYTES * (int(columns.max()) + 1))
    held = {}
    for each in range(rows):
        for number in range(scales):
            column, byte = int(columns[each, number]), int(bits[each, number]) // 8 + scale_id
            held[int(lanes[each, number]), _BYTES * column + byte] = Cell(each, "pf"[column % 2], each == row)
    words_of = [grid.block(0, n, _LANES, _BYTES) for n in range(0, grid.columns, _BYTES)]
    body = [cells(grid, held, frame=True), [svg.line(box.x, grid.top, box.x, grid.bottom, "k") for box in words_of]]
    body += [grid.above([f"byte {n % _BYTES}" for n in range(grid.columns)])]
    body += [[box.above(f"column {column}", "b", up=26) for column, box in enumerate(words_of)]]
    body += [grid.beside([f"lane {n}" if n % 4 == 0 else "" for n in range(_LANES)])]
    lane, column = int(lanes[row, 0]), int(columns[row, 0])
    where = f"byte{'s' * (scales > 1)} {span(scale_id, scale_id + scales - 1)}"
    others = listing([str(lane + quarter) for quarter in QUARTERS[1:]], "and")
    legend = (
        f"A number is the row that the byte scales. Marked: row {row}.",
        "All four quarters of the lanes have the same: 32 more each.",
    )
    body += [notes(grid.left, grid.bottom + 24, legend)]
    title = f"Scales of row {row}: lane {lane}, column {column}, {where}, and again in lanes {others}"
    words = f"Row m is in lane m mod 32, column m div 32; its scale s is byte {scale_id} + s. {' '.join(legend)}"
    return picture(title, words, max(grid.right + 16, 420), grid.bottom + 52, body)
