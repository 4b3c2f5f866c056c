"""x: the elements of a fragment that each lane holds, and the operations on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from tcemu.errors import OperandError, briefly, listing
from tcemu.formats.arrays import as_array
from tcemu.wmma.kind import GUIDE, Kind

Array = npt.NDArray[Any]
_BY_HAND = "numpy.asarray(x) returns the numbers without this check."


class Elements(NDArrayOperatorsMixin):
    """x of a fragment: (..., 32, num_storage_elements), lane by lane, in each lane's own order.

    It computes like a numpy array and remembers the fragment's type: results can be assigned to fragments of the same
    type only. `x[lane, i]` is element i of a lane; `x[:, i]` is C++'s `x[i]` in all lanes.

    >>> from tcemu import wmma
    >>> acc = wmma.fragment(wmma.accumulator, 16, 16, 16, float)
    >>> wmma.fill_fragment(acc, 3)
    >>> acc.x = np.maximum(2 * acc.x - 1, 0)  # in all lanes at once
    >>> acc.x[0, 0], acc.x.astype(np.float64).dtype
    (np.float32(5.0), dtype('float64'))
    """

    def __init__(self, kind: Kind, values: Array, written: Array) -> None:
        self.kind = kind
        self._values = values
        self._written = written

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., 32, num_storage_elements)."""
        return self._values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """dtype of a storage element."""
        return self._values.dtype

    @property
    def ndim(self) -> int:
        """Number of axes; 2 for one warp."""
        return self._values.ndim

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self._check_written(...)
        return np.array(self._values, dtype=dtype)

    def __getitem__(self, index: Any) -> Any:
        try:
            values = self._values[index]
        except (IndexError, TypeError, ValueError) as error:
            raise OperandError(f"x of {self.kind} has shape {self.shape}, lanes and then elements: {error}") from None
        self._check_written(index)
        return values.copy() if isinstance(values, np.ndarray) else values

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, Elements):
            fits(self.kind, value.kind)
        if isinstance(value, Elements | np.ndarray | list | tuple):
            array = of_dtype(self.kind, value)
        else:
            array = self.kind.type.number(value, f"x of {self.kind}")
        try:
            self._values[index] = array
            self._written[index] = True
        except (IndexError, TypeError, ValueError) as error:
            raise OperandError(f"x of {self.kind} has shape {self.shape}, lanes and then elements: {error}") from None

    def astype(self, dtype: npt.DTypeLike) -> Elements:
        """The same elements in another dtype; they still belong to this type of fragment."""
        try:
            values = np.asarray(self).astype(dtype)
        except (TypeError, ValueError) as error:
            raise OperandError(f"x of {self.kind} cannot become {briefly(dtype)}: {error}") from None
        return Elements(self.kind, values, np.ones(values.shape, bool))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **more: Any) -> Any:
        for other in (*inputs, *out):
            if isinstance(other, Elements):
                fits(self.kind, other.kind)
        plain = [np.asarray(each) if isinstance(each, Elements) else each for each in inputs]
        result = getattr(ufunc, method)(*plain, **more)
        if out:
            out[0][...] = result
            return out[0]
        several = isinstance(result, tuple)
        wrapped = tuple(self._like(each) for each in (result if several else (result,)))
        return wrapped if several else wrapped[0]

    def _like(self, result: Any) -> Any:
        """`result` as Elements if it has the same shape, else unchanged."""
        return Elements(self.kind, result, np.ones(result.shape, bool)) if np.shape(result) == self.shape else result

    def _check_written(self, index: Any) -> None:
        written = self._written[index]
        if not np.all(written):
            raise unwritten(self.kind, self._written)

    def __repr__(self) -> str:
        if not self._written.all():
            return f"<x of {self.kind}: {self._written.sum()} of {self._written.size} elements written>"
        return f"<x of {self.kind}:\n{self._values!r}>"


def of_dtype(kind: Kind, value: Any) -> Array:
    """`value` as an array in the dtype of x. Raises OperandError for any other dtype: nothing is rounded silently."""
    array = as_array(value, f"x of {kind}: not an array")
    if array.dtype != kind.type.dtype:
        raise OperandError(
            f"x of {kind} holds {kind.type.dtype}; got {array.dtype}. Nothing is rounded silently: use .astype if "
            "rounding is what you want."
        )
    return array


def unwritten(kind: Kind, written: Array) -> OperandError:
    """The error for reading an element that was never written."""
    place = [int(each) for each in np.argwhere(~written)[0]] if written.size else [0, 0]
    which = "" if not written.any() else f" The first of them is element {place[-1]} of lane {place[-2]}."
    return OperandError(
        f"{'some elements of ' if which else ''}{kind}{'' if which else ' is read but'} never got a value: a fragment "
        f"starts with whatever its registers held before.{which} Set it with fill_fragment (0 for a sum), "
        f"load_matrix_sync or mma_sync, or write to x ({GUIDE})"
    )


def fits(kind: Kind, other: Kind) -> None:
    """Raise OperandError unless x of a fragment `other` can be used as x of `kind`."""
    if kind == other:
        return
    if kind.target != other.target:
        raise OperandError(
            f"x of a fragment for {other.target} cannot be used for {kind.target}: which lane holds which element "
            f"differs between architectures. Store the one to memory and load the other from there ({GUIDE})"
        )
    said = f"x of {other} cannot be combined with x of {kind}: "
    if kind.use == other.use and kind.shape == other.shape and {kind.type.format, other.type.format} == {"f16", "f32"}:
        why = (
            "conversion between f16 and f32 accumulators is not supported in either direction, "
            "even if the order of the elements is the same (PTX ISA 9.7.14.4.1)"
        )
    else:
        why = (
            "only fragments of the same type hold the same elements in the same places, and the places are "
            f"unspecified ({GUIDE})"
        )
    raise OperandError(f"{said}{why}. {_in_fact(kind, other)} Store, convert in memory, and load. {_BY_HAND}")


def _in_fact(kind: Kind, other: Kind) -> str:
    """What is known about the two layouts."""
    same, different = kind.lies_as(other) if kind.shape == other.shape else ([], [])
    if different:
        also = f", but not on {listing(same, 'and')}" if same else ""
        return f"On {listing(different, 'and')} their layouts differ{also}."
    return (
        "Their layouts are the same wherever they are known, but no manual guarantees that."
        if same
        else "They hold different elements."
    )
