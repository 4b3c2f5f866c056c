"""Values of the lanes of a warp, an array whose truth nobody should ask for: each lane has its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError


class Lanes(np.ndarray[Any, np.dtype[Any]]):
    """A numpy array (32,) or (32, n). As a condition of if or while it raises OperandError that says what to write."""

    def __bool__(self) -> bool:
        if self.size == 1:
            return bool(self.view(np.ndarray))
        raise differing()


def differing() -> OperandError:
    """The error of a condition that is an array: lanes may differ."""
    return OperandError(
        "a kernel runs once for a whole warp, so a condition differs from lane to lane: write `with "
        "warp.only(condition):` for what some lanes do, or warp.vote_sync('any', condition) for what all of them do"
    )


def fixed(array: npt.NDArray[Any]) -> Lanes:
    """Lanes' values that nobody can change."""
    array.flags.writeable = False
    return array.view(Lanes)


def lanes(array: npt.NDArray[Any]) -> Lanes:
    """The same numbers as lanes' values."""
    return array.view(Lanes)
