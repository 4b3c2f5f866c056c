"""Whatever a caller gives, as an array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError, TcemuError


def as_array(given: object, what: str, error: type[TcemuError] = OperandError) -> npt.NDArray[Any]:
    """`given` as a numpy array, uncopied where it is one. Raises `error`, which starts with `what`, where it is none.

    Nested lists may be ragged, and an object's own `__array__` may raise whatever it likes: all of that is told.
    """
    try:
        return np.asarray(given)
    except TcemuError:  # one of our own objects, which says it better
        raise
    except Exception as wrong:  # noqa: BLE001 - see above
        raise error(f"{what}: {wrong}") from None
