"""The fragments of wmma on each architecture; the manual leaves them unspecified (PTX ISA 9.1, 9.7.14.4.1).

g is a lane's group and t its place in the group; u and h count groups of eight rows (or columns), c groups of k, p the
elements inside a register; r is a broadcast: the element is held r times.

From sm_75 on the layouts come from the load instructions that the assembler emits and from an H200's registers. A shape
with 8 rows is the mirror image of one with 8 columns: the hardware computes C^T = B^T A^T. On sm_70 two lanes hold
every element of A and B; others read that from hardware (wmma_extension, MIT).
"""

from __future__ import annotations

from functools import cache

from tcemu.layouts.layout import Layout

# An operand with more than 8 rows (A) or columns (B), and one with 8.
_TALL = "(u h g) (c t p) -> (g t) (r u c h p)"
_FLAT = "(h g) (c t p) -> (g t) (r h c p)"
_ACCUMULATOR = "(u h g) (c t p) -> (g t) (u c h p)"


def _mirror(pattern: str) -> str:
    """The layout of the transposed matrix."""
    left, right = pattern.split(" -> ")
    rows, columns = left.split(") (")
    return f"({columns} {rows}) -> {right}".replace("))", ")").replace("((", "(")


@cache
def modern(role: str, shape: tuple[int, int, int], elements: int, repeat: int) -> Layout:
    """Operand `role` from sm_75 on, `elements` to a register; each element of A and B is held `repeat` times."""
    m, n, k = shape
    if m < n:  # the mirror image
        swapped = modern({"a": "b", "b": "a"}.get(role, role), (n, m, k), elements, repeat)
        return Layout(_mirror(swapped.pattern), **swapped.sizes)
    if role in "cd":
        return _layout(_ACCUMULATOR, m, c=n // 8, t=4, p=2)
    pattern = _TALL if role == "a" else _mirror(_FLAT)
    return _layout(pattern, m if role == "a" else n, r=repeat, c=k // (4 * elements), t=4, p=elements)


def _layout(pattern: str, extent: int, **sizes: int) -> Layout:
    """The pattern for `extent` rows (or columns): h counts eights, u sixteens."""
    used = {"g": 8, "h": min(extent // 8, 2), "u": max(extent // 16, 1), **sizes}
    return Layout(pattern, **{digit: size for digit, size in used.items() if digit in pattern.replace("->", " ")})


#: m8n32k16 with s32 accumulators on sm_75 is not mirrored.
TURING_S32_M8N32 = Layout("g (c t p) -> (g t) (c p)", g=8, c=4, t=4, p=2)

# sm_70: bits 4, 3 and 2 of the lane are x, j and i; A does not depend on j, nor B on i.
_VOLTA = {
    ("a", "row"): "(i x p) k -> (x j i p) k",
    ("a", "col"): "(i x e) (f p) -> (x j i p) (f e)",
    ("b", "col"): "k (j x p) -> (x j i p) k",
    ("b", "row"): "(f p) (j x e) -> (x j i p) (f e)",
    ("accumulator", "f16"): "(i x p) (j e) -> (x j i p) e",
    ("accumulator", "f32"): "(i x v b) (j w y e) -> (x j i y b) (w v e)",
}
_VOLTA_SIZES = {"x": 2, "j": 2, "i": 2, "p": 4, "k": 16, "e": 4, "f": 4, "v": 2, "b": 2, "w": 2, "y": 2}


@cache
def volta(role: str, word: str) -> Layout:
    """Operand `role` of m16n16k16 on sm_70; `word` is "row" or "col" for a and b, the type for c and d."""
    pattern = _VOLTA["accumulator" if role in "cd" else role, word]
    sizes = _VOLTA_SIZES | ({"e": 8} if word == "f16" else {"e": 2} if word == "f32" else {})
    return Layout(
        pattern,
        **{
            digit: sizes[digit]
            for digit in sizes
            if digit in set(pattern.replace("->", "").replace("(", " ").replace(")", " ").split())
        },
    )
