"""Convert whatever a caller passes to an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, TcemuError


def as_array(value: object, what: str, error: type[TcemuError] = OperandError) -> npt.NDArray[Any]:
    """`value` as a numpy array, without a copy if it is one already.

    Raises `error`, whose message starts with `what`, if it cannot be converted: nested lists may be ragged, and an
    object's own `__array__` may raise anything.
    """
    try:
        return np.asarray(value)
    except TcemuError:  # one of our own objects, whose message is better
        raise
    except Exception as wrong:  # noqa: BLE001 - see above
        raise error(f"{what}: {wrong}") from None
