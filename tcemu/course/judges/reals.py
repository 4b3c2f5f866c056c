"""Judges a function of one whole number that returns a number, such as the value of a pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import AnswerError, all_called, function
from tcemu.course.judges.values import Values
from tcemu.course.record import Evidence, Finding, Given
from tcemu.errors import briefly

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Reals:
    """Judges a function of one whole number by all of its values, which are floats.

    `over` are the arguments, `argument` their name and `written` how one is written. `right` are the values, float64
    with one for each argument; `mistakes` the same for each mistake. NaN is equal to NaN, and −0 differs from +0.

    >>> from tcemu.course import Given
    >>> from tcemu.course.judges.reals import Reals
    >>> judge = Reals("n", range(3), lambda: np.array([1.0, 0.5, 0.25]))
    >>> judge.mark(judge.collect(lambda n: 2.0**n, Given()), Given()).says
    'f(1) is 2.0, which is wrong. 2 of 3 values are wrong.'
    """

    argument: str
    over: Sequence[int]
    right: Callable[[], Array]
    mistakes: Callable[[], Iterable[tuple[str, Array]]] = tuple
    written: Callable[[int], str] = str
    name: str = "f"
    how: str = "all of its values"

    @property
    def cases_in_all(self) -> int:
        """How many results the function has, all of which are looked at."""
        return len(self.over)

    def collect(self, answer: Any, given: Given) -> Evidence:
        """Call the function for every argument."""
        learner = function(answer, [self.argument])
        results = all_called(learner, [self.argument], ([each] for each in self.over))
        numbers = [self._number(result, each) for result, each in zip(results, self.over, strict=True)]
        return {"values": np.array(numbers, np.float64)}

    def _number(self, result: Any, argument: int) -> float:
        try:
            if isinstance(result, str | bytes):
                raise TypeError
            return float(result)
        except (TypeError, ValueError, OverflowError):
            call = f"{self.name}({self.written(argument)})"
            raise AnswerError(f"{call} returns {briefly(result)}. It should return a number.") from None

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Compare every value."""
        compared = Values(
            lambda _: _plain(self.right()),
            np.float64,
            lambda _: ((says, _plain(gives)) for says, gives in self.mistakes()),
            lambda index: f"{self.name}({self.written(self.over[index[0]])})",
        )
        return compared.mark({"values": _plain(evidence["values"])}, given)


def _plain(values: Array) -> Array:
    """The values with one pattern for NaN."""
    return np.where(np.isnan(values), np.nan, np.asarray(values, np.float64))
