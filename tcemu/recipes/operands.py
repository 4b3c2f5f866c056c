"""Matrices from any library as numpy arrays, and the names of their types."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing
from tcemu.formats import FORMATS
from tcemu.formats.arrays import as_array

Array = npt.NDArray[Any]
#: Types that A, B and D may have.
TYPES = ("f16", "bf16", "f32", "f64", "e4m3", "e5m2", "s8", "u8", "s32")


def matrix(given: object, what: str) -> tuple[Array, str]:
    """An array with two axes, and the name of its type. Raises OperandError for anything else.

    Takes numpy and ml_dtypes arrays, arrays of JAX and CuPy, and torch tensors.

    >>> from tcemu.recipes.operands import matrix
    >>> matrix(np.ones((2, 3), np.float16), "A")[1]
    'f16'
    """
    found = values(given, what)
    names = [name for name in TYPES if FORMATS[name].dtype == found.dtype]
    if found.ndim != 2 or not names:
        raise OperandError(
            f"{what} is a matrix with two axes of {listing([str(FORMATS[name].dtype) for name in TYPES])}; got dtype "
            f"{found.dtype} and shape {found.shape}"
        )
    return np.ascontiguousarray(found), names[0]


def values(given: object, what: str) -> Array:
    """A numpy array of anybody's array.

    >>> from tcemu.recipes.operands import values
    >>> values([1.0, 2.0], "C").shape
    (2,)
    """
    if type(given).__module__.partition(".")[0] == "torch":
        return _of_torch(given)
    if hasattr(given, "__cuda_array_interface__") and hasattr(given, "get"):  # CuPy
        given = given.get()
    return as_array(given, f"{what}: not an array")


def _of_torch(tensor: Any) -> Array:
    """A torch tensor, whose types numpy does not all have, by way of its bits."""
    torch = sys.modules["torch"]
    name = str(tensor.dtype).partition(".")[2]
    kinds = {str(FORMATS[kind].dtype): FORMATS[kind] for kind in TYPES}
    if name not in kinds:
        raise OperandError(f"a matrix of {listing(kinds)} is needed; got a torch tensor of {name}")
    bits = tensor.detach().cpu().contiguous().view(torch.uint8).numpy()
    found: Array = bits.view(kinds[name].dtype)
    return found
