"""Which cell of Tensor Memory each register of tcgen05.ld and tcgen05.st holds (PTX ISA 9.1, 9.7.16.2.3).

Lanes and columns of Tensor Memory are on the left, thread and register on the right. They count from the address of the
instruction. g is a thread's group of eight, q its place in a group of four, and r, s the repetitions of .num.

Known from CuTe's copy atoms, expanded at every coordinate; Triton's layouts of the same shapes are equal.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.layouts.layout import Layout

Array = npt.NDArray[Any]

#: By shape: the pattern, the sizes of its digits and the digit that counts .num. h is the half of a warp that
#: .16x32bx2 gives columns of its own; its weight is the instruction's immediate, here the number of columns of a half.
_SHAPES: dict[str, tuple[str, dict[str, int], str]] = {
    "32x32b": ("t r -> t r", {"t": 32}, "r"),
    "16x64b": ("(v g) (r u) -> (g u v) r", {"g": 8, "u": 2, "v": 2}, "r"),
    "16x128b": ("(v g) (s q) -> (g q) (s v)", {"g": 8, "q": 4, "v": 2}, "s"),
    "16x256b": ("(v g) (s q w) -> (g q) (s v w)", {"g": 8, "q": 4, "v": 2, "w": 2}, "s"),
    "16x32bx2": ("t (h r) -> (h t) r", {"t": 16, "h": 2}, "r"),
}


@cache
def layout_of(shape: str, num: int) -> Layout:
    """(lane, column) of each (thread, register) of .shape.xnum."""
    pattern, sizes, digit = _SHAPES[shape]
    return Layout(pattern, **sizes, **{digit: num})


@cache
def cells(shape: str, num: int, packed: bool = False, split: int | None = None) -> tuple[Array, Array]:
    """The lanes and columns, from the address on, of each register: (32, n), or (32, n, 2) where a register is packed.

    A packed register holds the low halves of two neighbouring columns. `split` is the immediate of .16x32bx2.
    """
    layout = layout_of(shape, num)
    lanes, columns = np.divmod(layout.gather, layout.shape[1])
    half = np.zeros_like(columns) if split is None else columns // num
    columns = columns - num * half
    if packed:
        lanes = np.repeat(lanes[..., None], 2, axis=2)
        half, columns = half[..., None], 2 * columns[..., None] + np.arange(2, dtype=np.int64)
    columns = columns + half * (split or 0)
    for each in (lanes, columns):
        each.flags.writeable = False
    return lanes, columns
