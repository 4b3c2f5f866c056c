"""The numbers of a tensor map and of a copy's coordinates, as they are given."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import numpy as np

from tcemu.errors import OperandError, briefly


def all_within(numbers: Sequence[int], low: int, high: int) -> bool:
    """Whether all of them are `low` to `high`."""
    return all(low <= number <= high for number in numbers)


def whole(name: str, value: object) -> int:
    """`value` as an int; `name` is what an error calls it."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return index(value)  # type: ignore[arg-type]
    except TypeError:  # arrays of several numbers have an __index__ too, which raises it
        raise OperandError(f"tensor map: {name}: not a whole number: {briefly(value)}") from None


def whole_numbers(name: str, values: object) -> tuple[int, ...]:
    """`values` as a tuple of int; a single number stands for one dimension."""
    sequence = values if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str) else (values,)
    if isinstance(sequence, np.ndarray):
        sequence = np.atleast_1d(sequence)
    return tuple(whole(name, value) for value in sequence)
