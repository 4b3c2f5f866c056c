"""Matrices from any library as numpy arrays, and the names of their types."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, listing
from tcemu.formats import FORMATS
from tcemu.formats.arrays import as_array

Array = npt.NDArray[Any]
#: Types that A, B and D may have.
TYPES = ("f16", "bf16", "f32", "f64", "e4m3", "e5m2", "s8", "u8", "s32", "s4", "u4", "e2m1", "e3m2", "e2m3")


def matrix(operand: object, what: str) -> tuple[Array, str]:
    """An array with two axes, and the name of its type. Raises OperandError for anything else.

    Takes numpy and ml_dtypes arrays, arrays of JAX and CuPy, and torch tensors.

    >>> from tcemu.recipes.operands import matrix
    >>> matrix(np.ones((2, 3), np.float16), "A")[1]
    'f16'
    """
    if isinstance(operand, list | tuple):
        raise OperandError(
            f"{what} is a list, whose numbers have no type, and the bits depend on it. Give an array: "
            f"np.array({what}, np.float16), or of another type"
        )
    array = values(operand, what)
    names = [name for name in TYPES if FORMATS[name].dtype == array.dtype]
    if array.ndim != 2 or not names:
        raise OperandError(
            f"{what} is a matrix with two axes of {listing([str(FORMATS[name].dtype) for name in TYPES])}; got dtype "
            f"{array.dtype} and shape {array.shape}"
        )
    return np.ascontiguousarray(array), names[0]


def values(operand: object, what: str) -> Array:
    """A numpy array from another library's: of torch, JAX or CuPy, or with `__array__`, `__dlpack__` or `get`.

    Raises OperandError for what cannot be converted.

    >>> from tcemu.recipes.operands import values
    >>> values([1.0, 2.0], "C").shape
    (2,)
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(operand, torch.Tensor):
        return _of_torch(operand, torch)
    if hasattr(operand, "__cuda_array_interface__") and hasattr(operand, "get"):  # CuPy
        operand = operand.get()
    if hasattr(operand, "__dlpack__") and not hasattr(operand, "__array__"):
        operand = _of_dlpack(operand, what)
    return as_array(operand, f"{what}: not an array")


def _of_torch(tensor: Any, torch: ModuleType) -> Array:
    """A torch tensor, whose types numpy does not all have, by way of its bits."""
    name = str(tensor.dtype).partition(".")[2]
    kinds = {str(FORMATS[kind].dtype): FORMATS[kind] for kind in TYPES}
    if name not in kinds:
        raise OperandError(f"expected a matrix of {listing(kinds)}; got a torch tensor of {name}")
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    array: Array = plain.reshape(-1).view(torch.uint8).numpy().view(kinds[name].dtype).reshape(tuple(tensor.shape))
    return array


def _of_dlpack(operand: Any, what: str) -> Array:
    """An array that has only DLPack, which numpy takes from the CPU and in its own types."""
    try:
        array: Array = np.from_dlpack(operand)
    except Exception as wrong:  # noqa: BLE001 - anybody's object may raise anything
        raise OperandError(
            f"{what}: numpy cannot read this array: {wrong}. Copy it to the CPU, as a torch tensor or a numpy or "
            "ml_dtypes array"
        ) from None
    return array
