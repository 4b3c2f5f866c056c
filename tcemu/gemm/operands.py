"""Checks the matrices that the kernels of this package take; the error says what they accept."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, briefly, listing
from tcemu.formats import lookup


def check(a: npt.NDArray[Any], b: npt.NDArray[Any], element: str = "f16", m: int = 1, n: int = 1, k: int = 1) -> None:
    """Raise OperandError unless A (rows, depth) and B (depth, columns) hold `element` in multiples of m, n and k."""
    dtype = lookup(element).dtype
    units = [f"{name} of {unit}" for name, unit in (("m", m), ("n", n), ("k", k)) if unit > 1]
    whole = f", with {listing(units, 'and')}".replace(" of", " a multiple of", 1) if units else ""
    wanted = f"A must be (m, k) and B (k, n), both {dtype}{whole}"
    typed = all(isinstance(each, np.ndarray) and each.dtype == dtype for each in (a, b))
    shapes = (a.shape, b.shape) if typed else ((), ())
    fit = all(len(shape) == 2 and min(shape) > 0 for shape in shapes) and shapes[0][1] == shapes[1][0]
    if not typed or not fit or shapes[0][0] % m or shapes[1][1] % n or shapes[1][0] % k:
        got = [f"{each.dtype} {each.shape}" if isinstance(each, np.ndarray) else briefly(each) for each in (a, b)]
        raise OperandError(f"{wanted}; got {got[0]} and {got[1]}")
