"""The fragments of wgmma (PTX ISA 9.1, 9.7.15.5.1): those of mma.sync, with the rows of four warps one below the other.

w is the warp of the warpgroup, g the lane's group and t its place in the group; h selects the lower or upper half of a
warp's rows, n the group of eight columns, c the chunk of k, p the element inside a register.
"""

from __future__ import annotations

from functools import cache

from tcemu.layouts.layout import Layout

_SPARSE = {
    "wide": ("f (w h g) (s k) -> (w g f s) (h k)", {"f": 2, "k": 4}),
    "narrow": ("f (w h g) (s k) -> (w g s h) (f k)", {"f": 1, "k": 8}),
}


@cache
def accumulator(n: int) -> Layout:
    """D of m64nN."""
    return Layout("(w h g) (n t p) -> (w g t) (n h p)", w=4, h=2, g=8, n=n // 8, t=4, p=2)


@cache
def registers(k: int, elements: int) -> Layout:
    """A with k columns, in registers that hold `elements` elements."""
    return Layout("(w h g) (c t p) -> (w g t) (c h p)", w=4, h=2, g=8, c=k // (4 * elements), t=4, p=elements)


@cache
def metadata(bits: int) -> Layout:
    """(selector, row, chunk) of a sparse A whose elements have `bits` bits; four bits for each chunk."""
    pattern, sizes = _SPARSE["wide" if bits >= 16 else "narrow"]
    return Layout(pattern, w=4, h=2, g=8, s=2, **sizes)
