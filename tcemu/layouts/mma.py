"""The fragments of mma.sync (PTX ISA 9.1, 9.7.14.5.1 to 9.7.14.5.13), one line each.

g is the lane's group (lane div 4), t its place in the group (lane mod 4), p the element inside a register; h selects
the lower or upper half of the rows, c the chunk of k. One line serves every dense shape, except m8n8k4 of f16, which
is four independent products.
"""

from __future__ import annotations

from functools import cache

from tcemu.errors import TableError
from tcemu.layouts.layout import Layout

_A = "(h g) (c t p) -> (g t) (c h p)"
_B = "(c t p) g -> (g t) (c p)"
_CD = "(h g) (t p) -> (g t) (h p)"


@cache
def ordinary(role: str, shape: tuple[int, int, int], elements: int) -> Layout:
    """The layout of operand `role` ("a", "b", "c", "d") for registers that hold `elements` elements."""
    m, n, k = shape
    if n != 8 or m % 8 or k % (4 * elements):
        raise TableError(
            f"the ordinary layout of mma.sync does not cover m{m}n{n}k{k} with {elements} elements to a register"
        )
    chunks = k // (4 * elements)
    if role == "a":
        return Layout(_A, h=m // 8, g=8, c=chunks, t=4, p=elements)
    if role == "b":
        return Layout(_B, c=chunks, t=4, p=elements, g=8)
    return Layout(_CD, h=m // 8, g=8, t=4, p=2)


# Quad pair q is lanes 4q..4q+3 (x = 0) and 16+4q..16+4q+3 (x = 1); it computes one of four products, number q.
# In an f32 accumulator digits change places between lane and register: u and v are register bits, b and w lane bits.
_QUAD_PAIRS = {
    ("a", "row"): "q (x p) i -> (x q p) i",
    ("a", "col"): "q (x i) p -> (x q p) i",
    ("b", "col"): "q i (x p) -> (x q p) i",
    ("b", "row"): "q p (x i) -> (x q p) i",
    ("accumulator", "f16"): "q (x p) i -> (x q p) i",
    ("accumulator", "f32"): "q (x u b) (v w s) -> (x q w b) (v u s)",
}


@cache
def quad_pairs(role: str, word: str) -> Layout:
    """The layout of m8n8k4 of f16; `word` is "row" or "col" for a and b, the type for c and d.

    The quad pair comes before row and column: there are four independent 8x8x4 products.
    """
    pattern = _QUAD_PAIRS["accumulator" if role in "cd" else role, word]
    if word == "f32":
        return Layout(pattern, q=4, x=2, u=2, b=2, v=2, w=2, s=2)
    return Layout(pattern, q=4, x=2, p=4, i=8 if role in "cd" else 4)
