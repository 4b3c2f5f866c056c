"""The part of an answer that counts if it is not all right: what somebody without an idea would have does not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def credit(wrong: npt.NDArray[np.bool_], right: Array, idle: Iterable[Any] = ()) -> float:
    """The share of right values beyond that of one value everywhere, or of an array that was there before.

    `wrong` says which values are wrong, `right` are the right ones, with further axes for their parts. `idle` are
    arrays that the answer could hold without any work; those of another shape do not count.

    >>> import numpy as np
    >>> from tcemu.course.judges.credit import credit
    >>> right = np.array([0, 0, 1, 2])
    >>> credit(np.zeros(4, np.int64) != right, right), credit(np.array([0, 0, 1, 1]) != right, right)
    (0.0, 0.5)
    """
    parts = np.ascontiguousarray(right).reshape(wrong.size, -1)
    if not wrong.any():
        return 1.0
    if not wrong.size:
        return 0.0
    base = float(np.unique(parts, axis=0, return_counts=True)[1].max()) / wrong.size
    for array in idle:
        if np.shape(array) == np.shape(right):
            base = max(base, float((np.asarray(array).reshape(wrong.size, -1) == parts).all(axis=1).mean()))
    return 0.0 if base >= 1 else max(0.0, (1 - float(wrong.mean()) - base) / (1 - base))
