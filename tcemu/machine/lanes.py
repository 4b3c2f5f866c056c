"""Per-lane values of a warp: an array that cannot be a condition, because each lane has its own value."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError


class Lanes(np.ndarray[Any, np.dtype[Any]]):
    """A numpy array (32,) or (32, n). As the condition of an if or while it raises OperandError, with a remedy."""

    def __bool__(self) -> bool:
        if self.size == 1:
            return bool(self.view(np.ndarray))
        raise differing()


def differing() -> OperandError:
    """The error for a condition that is an array: its lanes may differ."""
    return OperandError(
        "a kernel runs once for a whole warp, so a condition may differ from lane to lane: write `with "
        "warp.only(condition):` for what some lanes do, or warp.vote_sync('any', condition) for what all of them do"
    )


def fixed(array: npt.NDArray[Any]) -> Lanes:
    """The same array as read-only values of lanes."""
    array.flags.writeable = False
    return array.view(Lanes)


def lanes(array: npt.NDArray[Any]) -> Lanes:
    """The same array as values of lanes."""
    return array.view(Lanes)
