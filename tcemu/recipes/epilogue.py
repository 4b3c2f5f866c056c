"""The epilogue after the sums: alpha, and beta C or a bias, in f32 (f64 for f64)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Addend:
    """alpha and beta, and C with D's shape."""

    alpha: float
    beta: float
    c: Array

    def at(self, rows: Array, columns: Array) -> Addend:
        """The same for some elements of D."""
        return Addend(self.alpha, self.beta, self.c[rows, columns])


def addend(c: npt.ArrayLike | None, shape: tuple[int, ...], alpha: float, beta: float) -> Addend | None:
    """The epilogue for sums of this shape; None if there is none. Raises OperandError if C does not fit."""
    if c is None and alpha == 1:
        return None
    given = np.zeros(shape, np.float32) if c is None else np.asarray(c)
    if given.shape not in (shape, shape[1:]):
        raise OperandError(f"C must be {shape}, or a bias of {shape[1:]}; got shape {given.shape}")
    return Addend(alpha, beta, np.broadcast_to(given, shape))


def joined(total: Array, plus: Addend, fused: str) -> Array:
    """alpha total + beta C; `fused` says which product is not rounded before the addition.

    >>> from tcemu.recipes.epilogue import Addend, joined
    >>> joined(np.full(1, 3, np.float32), Addend(0.5, 2.0, np.full(1, 4, np.float16)), "c")
    array([9.5], dtype=float32)
    """
    kind = total.dtype.type
    alpha, beta, c = kind(plus.alpha), kind(plus.beta), plus.c.astype(kind)
    with np.errstate(all="ignore"):
        if fused == "none" or kind is not np.float32:
            result: Array = alpha * total + beta * c
            return result
        return _fma(beta, c, alpha * total) if fused == "c" else _fma(alpha, total, beta * c)


def _fma(x: Any, y: Array, z: Array) -> Array:
    """x y + z of float32, rounded once: a sum of binary64 that is rounded to odd can be rounded again."""
    product, wide = np.float64(x) * y.astype(np.float64), z.astype(np.float64)
    total = product + wide
    part = total - product
    error = (product - (total - part)) + (wide - part)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    beside = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even & np.isfinite(total), beside, total).astype(np.float32)
