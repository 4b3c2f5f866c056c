"""Judges an input that the learner made by what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import AnswerError, answered, array, called, function, parts_of
from tcemu.course.record import Evidence, Finding, Given
from tcemu.errors import TcemuError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Crafted:
    """Judges an input that the learner made by what it does.

    `shapes` are the arrays that make up the answer, by name: (shape, dtype). `test` gets them and the given numbers,
    and returns an empty string if they do what they should, or else says what they do instead.

    >>> from tcemu.course import Given, judges
    >>> def test(arrays, given):
    ...     total = arrays["A"].sum()
    ...     return "" if total == 7 else f"The sum is {total}."
    >>> judge = judges.Crafted({"A": ((3,), np.int32)}, test)
    >>> judge.mark(judge.collect([1, 2, 3], Given()), Given()).says
    'The sum is 6.'
    """

    shapes: Mapping[str, tuple[tuple[int, ...], npt.DTypeLike]]
    test: Callable[[Mapping[str, Array], Given], str]
    right: str = "It does what was asked."
    how: str = "what your input does"

    def collect(self, answer: Any, given: Given) -> Evidence:
        """The arrays, in the order of `shapes` or by name."""
        answered(answer)
        names = list(self.shapes)
        if callable(answer) and not isinstance(answer, np.ndarray | np.generic):
            answer = called(function(answer, tuple(given)), tuple(given), tuple(given.values()))
        parts = answer if type(answer) is dict else dict(zip(names, _parts(answer, names), strict=True))
        missing = [name for name in names if name not in parts]
        if missing:
            raise AnswerError(f"The answer lacks {', '.join(missing)}.")
        return {name: array(parts[name], *self.shapes[name], name) for name in names}

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Try the input."""
        try:
            wrong = self.test(evidence, given)
        except TcemuError as error:
            wrong = f"The emulator rejects it: {error}"
        return Finding(not wrong, wrong or self.right, share=float(not wrong))


def _parts(answer: Any, names: Sequence[str]) -> Sequence[Any]:
    if len(names) == 1:
        return [answer]
    parts = list(parts_of(answer))
    if len(parts) != len(names):
        raise AnswerError(f"The answer has {len(names)} parts: {', '.join(names)}.")
    return parts
