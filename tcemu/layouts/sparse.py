"""Which lanes hold the metadata of a sparse A (PTX ISA 9.1, 9.7.14.6): four bits for each chunk of a row of A.

The registers of a warp hold more metadata than one instruction needs; the selector f picks the lanes that count, so f
comes first, as a batch. g is a lane's group, and (f, s) or (f, h) its place in the group; h selects the lower or upper
half of the rows, k the chunk inside the lane's register, s the lower or upper half of the chunks. All of these layouts
were read from an H200.
"""

from __future__ import annotations

from functools import cache

from tcemu.layouts.layout import Layout

#: By the width of an element of A and the number of chunks in a row.
_PATTERNS = {
    ("wide", "short"): ("f (h g) k -> (g f) (h k)", {"f": 4, "h": 2, "g": 8, "k": 4}),
    ("wide", "long"): ("f (h g) (s k) -> (g f s) (h k)", {"f": 2, "h": 2, "g": 8, "s": 2, "k": 4}),
    ("narrow", "short"): ("f (h g) k -> (g f h) k", {"f": 2, "h": 2, "g": 8, "k": 8}),
    ("narrow", "long"): ("f (h g) (s k) -> (g s h) (f k)", {"f": 1, "h": 2, "g": 8, "s": 2, "k": 8}),
}


@cache
def metadata(bits: int, chunks: int) -> Layout:
    """The layout of the metadata of 16 rows of `chunks` chunks, for elements of A of `bits` bits.

    Its positions are (selector, row, chunk), its slots the groups of four bits of a register, lowest first.
    """
    width = "wide" if bits >= 16 else "narrow"
    pattern, sizes = _PATTERNS[width, "short" if chunks == (4 if width == "wide" else 8) else "long"]
    return Layout(pattern, **sizes)
