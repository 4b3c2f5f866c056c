"""Scales of A and B: one for a matrix, one for each row of A or column of B, or one for each block of k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing

Array = npt.NDArray[Any]
#: k of a block that cuBLASLt, CUTLASS, DeepGEMM and the OCP's formats share a scale among.
_BLOCKS = (128, 32, 16, 64, 256)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Scales for each block of k: a (M, blocks) and b (N, blocks), or both (elements, blocks) of some elements."""

    a: Array
    b: Array
    #: k of a block.
    size: int
    #: Whether a and b belong to the same elements of D, instead of to rows and columns.
    paired: bool = False

    def at(self, rows: Array, columns: Array) -> Blocks:
        """The scales of some elements of D."""
        return Blocks(self.a[rows], self.b[columns], self.size, paired=True)

    def of_rows(self, rows: Array) -> Blocks:
        """The scales of some rows of D."""
        return Blocks(self.a[rows], self.b, self.size)

    def pair(self, block: int) -> tuple[Array, Array]:
        """A's and B's scales of a block, which broadcast to D's shape."""
        a, b = self.a[..., block], self.b[..., block]
        return (a, b) if self.paired else (a[..., None], b)

    def spread(self, a: Array, b: Array) -> tuple[Array, Array]:
        """A (M, K) and B (N, K), or the factors of some elements (elements, K), times their scales, in float64."""
        at = np.arange(a.shape[-1], dtype=np.int64) // self.size
        return a.astype(float) * self.a[..., at], b.astype(float) * self.b[..., at]


def scales_of(
    scale_a: Any, scale_b: Any, shape: tuple[int, int], depth: int
) -> tuple[tuple[Array, Array] | None, Blocks | None]:
    """The scales as arrays of D's shape, or those of blocks. Raises OperandError for shapes that fit neither.

    >>> from tcemu.recipes.scales import scales_of
    >>> _, blocks = scales_of(np.ones((4, 2)), np.ones((2, 1)), (4, 128), 256)  # 1 x 128 and 128 x 128
    >>> blocks.size, blocks.a.shape, blocks.b.shape
    (128, (4, 2), (128, 2))
    """
    if scale_a is None and scale_b is None:
        return None, None
    a, b = (np.asarray(1.0 if each is None else each).astype(np.float32) for each in (scale_a, scale_b))
    of_a, of_b = _outer(a, shape[0]), _outer(b.T, shape[1])
    if of_a is not None and of_b is not None:
        return (np.broadcast_to(of_a[:, None], shape), np.broadcast_to(of_b, shape)), None
    counts = {each.shape[-1] for each, whole in ((a, of_a), (b.T, of_b)) if whole is None and each.ndim == 2}
    size = _size(counts, depth)
    if size is None:
        raise OperandError(_unfit(a, b, shape, depth))
    blocks = -(-depth // size)
    parts = [_expanded(each, whole, many, blocks) for each, whole, many in ((a, of_a, shape[0]), (b.T, of_b, shape[1]))]
    if parts[0] is None or parts[1] is None:
        raise OperandError(_unfit(a, b, shape, depth))
    return None, Blocks(parts[0], parts[1], size)


def _outer(scale: Array, many: int) -> Array | None:
    """One scale for each row of a matrix with so many; None for scales of blocks."""
    if scale.size == 1:
        return np.broadcast_to(scale.reshape(1), many)
    return scale.reshape(many) if scale.shape in ((many,), (many, 1)) else None


def _size(counts: set[int], depth: int) -> int | None:
    if len(counts) != 1:
        return None
    count = counts.pop()
    known = [size for size in _BLOCKS if -(-depth // size) == count]
    exact = [depth // count] if count and depth % count == 0 else []
    both = [size for size in known if size in exact]
    return next(iter(both + exact + known), None)


def _expanded(scale: Array, whole: Array | None, many: int, blocks: int) -> Array | None:
    """(many, blocks) from one row of scales for every few rows."""
    if whole is not None:
        return np.broadcast_to(whole[:, None], (many, blocks))
    if scale.ndim != 2 or scale.shape[1] != blocks or not 1 <= len(scale) <= many:
        return None
    if len(scale) == many:
        return scale
    size = next((size for size in _BLOCKS if -(-many // size) == len(scale)), -(-many // len(scale)))
    return scale[np.arange(many, dtype=np.int64) // size] if -(-many // size) == len(scale) else None


def _unfit(a: Array, b: Array, shape: tuple[int, int], depth: int) -> str:
    (m, n), k = shape, depth
    ways = [
        "one number",
        f"one for each row of A ({m}, 1) and column of B (1, {n})",
        f"one for each block of k, such as ({m}, {-(-k // 128)}) and ({-(-k // 128)}, {-(-n // 128)})",
    ]
    return f"scales are {listing(ways)}; got shapes {a.shape} of A and {b.shape} of B for M {m}, N {n} and K {k}"
