"""The fragments of ldmatrix, stmatrix and movmatrix (PTX ISA 9.1, 9.7.14.5.15 to 9.7.14.5.17).

x is the number of the matrix within the instruction and comes before row and column. A row of a matrix is a row of 16
bytes in shared memory. g is a lane's group and t its place in the group; p (or j) is the element inside a register.
"""

from __future__ import annotations

from functools import cache

from tcemu.errors import TableError
from tcemu.layouts.layout import Layout

_PATTERNS = {
    # 8x8 of 16 bits: a register holds two neighbours in a row, or with .trans in a column
    ("m8n8", ""): ("x g (t p) -> (g t) (x p)", {"g": 8, "t": 4, "p": 2}),
    ("m8n8", "trans"): ("x (t p) g -> (g t) (x p)", {"g": 8, "t": 4, "p": 2}),
    # 16x16 of 8 bits, transposed: a lane holds four rows of one column, twice
    ("m16n16", "trans"): ("x (t j) (r g) -> (g t) (x r j)", {"g": 8, "t": 4, "j": 4, "r": 2}),
    # 8x16 of 8 bits, padded from 6 or 4: a lane holds four neighbours in a row
    ("m8n16", ""): ("x g (t j) -> (g t) (x j)", {"g": 8, "t": 4, "j": 4}),
    # 16x8 of 8 bits in accumulator order, stored by columns: a row in memory is a column of the fragment
    ("m16n8", "trans"): ("x (t p) (h g) -> (g t) (x h p)", {"g": 8, "t": 4, "p": 2, "h": 2}),
}


@cache
def matrix(shape: str, trans: str, count: int) -> Layout:
    """The layout of `count` matrices; rows and columns are those of shared memory."""
    if (shape, trans) not in _PATTERNS:
        raise TableError(f"there is no layout for {shape} {trans}")
    pattern, sizes = _PATTERNS[shape, trans]
    return Layout(pattern, x=count, **sizes)
