"""Judges a function of whole numbers by all of its values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.answers import AnswerError, all_called, function, named, wholes
from tcemu.course.cuda_answers import device_values, is_cuda, signature
from tcemu.course.judges.credit import credit
from tcemu.course.mistakes import Mistake, diagnosis
from tcemu.course.observe import about_map
from tcemu.course.record import Evidence, Finding, Given
from tcemu.errors import counted, listing
from tcemu.show.matrices import marked

Array = npt.NDArray[Any]
#: Larger numbers count as this one, so that no sum overflows.
_LARGEST = 1 << 40
#: Cases that a picture shows at most.
_DRAWN = 1024
#: Values of each argument that a grader draws at most.
_DRAWN_VALUES = 12


@dataclass(frozen=True)
class Function:
    """Judges a function of whole numbers by all of its values.

    `over` are the values of each argument, `returns` the names of what it returns. `right` returns what is right for
    arrays of arguments, as an array (..., len(returns)); `mistakes` the same for each mistake.

    >>> from tcemu.course import Given, judges
    >>> mistakes = (("You rounded up.", lambda n: (n + 1) // 2),)
    >>> judge = judges.Function({"n": range(8)}, ("half",), lambda n: n // 2, mistakes)
    >>> judge.mark(judge.collect(lambda n: n - n // 2, Given()), Given()).mistake
    'You rounded up.'
    >>> judge.unseen(np.random.default_rng(0))  # `over` has all values
    """

    over: Mapping[str, Sequence[int]]
    returns: tuple[str, ...]
    right: Callable[..., Array]
    mistakes: tuple[tuple[str, Callable[..., Array]], ...] = ()
    #: Says what is wrong with one case: (arguments, got) -> text; the default names got and nothing else.
    about: Callable[[tuple[int, ...], tuple[int, ...]], str] | None = None
    how: str = "all of its values"
    #: Values of arguments beyond `over`, where there are more; a grader also tries some of these.
    wider: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: Its name, where it may be written as a __device__ function of CUDA C++, too.
    device: str = ""

    def unseen(self, rng: np.random.Generator) -> Function | None:
        """The same function for other values, which a grader draws; None if `over` has all."""
        if not self.wider:
            return None
        drawn = {name: rng.choice(np.array(values), min(_DRAWN_VALUES, len(values)), replace=False).tolist()
                 for name, values in self.wider.items()}  # fmt: skip
        return replace(self, over={name: drawn.get(name, values) for name, values in self.over.items()})

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages in which it may be written."""
        return ("Python", "CUDA C++") if self.device else ("Python",)

    @property
    def signature(self) -> str:
        """What it is in CUDA C++; empty if it is to be written in Python."""
        return signature(self.device, list(self.over), self.returns) if self.device else ""

    @property
    def cases_in_all(self) -> int:
        """How many results the function has, all of which are looked at."""
        return math.prod(map(len, self.over.values()))

    def collect(self, answer: Any, given: Given) -> Evidence:
        """Call the function in every case."""
        names = list(self.over)
        cases = list(product(*self.over.values()))
        if is_cuda(answer):
            if not self.device:
                raise AnswerError(f"This is to be written in Python: a function of {listing(names, 'and')}.")
            return {"values": device_values(answer, self.device, names, self.returns, cases)}
        learner = function(answer, names)
        values = []
        for case, result in zip(cases, all_called(learner, names, cases), strict=True):
            values.append(wholes(result, self.returns, f"{named(learner)}({', '.join(map(str, case))})"))
        return {"values": np.array([[_clipped(value) for value in row] for row in values], np.int64)}

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Compare every value."""
        cases = np.array(list(product(*self.over.values())), np.int64)
        right = self._all(self.right, cases)
        got = evidence["values"]
        wrong = (got != right).any(axis=1)
        share = credit(wrong, right)
        if not wrong.any():
            return Finding(True, f"Right in {counted(len(cases), 'case')}.", share=1.0)
        first = int(np.argmax(wrong))
        case, value = tuple(cases[first].tolist()), tuple(got[first].tolist())
        says = self.about(case, value) if self.about else self._plain(case, value)
        says += f" {int(wrong.sum()):,} of {counted(len(cases), 'case')} {'is' if wrong.sum() == 1 else 'are'} wrong."
        mistakes = [Mistake(name, self._all(wrong_way, cases)) for name, wrong_way in self.mistakes]
        mistake = diagnosis(got, right, mistakes) or self._observed(got, right)
        return Finding(False, says, mistake, share, self._picture(cases, got, wrong))

    def _observed(self, got: Array, right: Array) -> str:
        """What the values have in common."""
        return about_map({name: list(values) for name, values in self.over.items()}, self.returns, got, right)

    @staticmethod
    def _all(way: Callable[..., Array], cases: Array) -> Array:
        values = np.asarray(way(*cases.T), np.int64)
        return values.reshape(len(cases), -1)

    def _plain(self, case: tuple[int, ...], value: tuple[int, ...]) -> str:
        at = ", ".join(f"{name} = {number}" for name, number in zip(self.over, case, strict=True))
        gives = ", ".join(f"{name} {number}" for name, number in zip(self.returns, value, strict=True))
        return f"For {at} your function gives {gives}, which is wrong."

    def _picture(self, cases: Array, got: Array, wrong: npt.NDArray[np.bool_]) -> tuple[Any, ...]:
        """A grid for functions of two numbers: what was returned, with the wrong values marked."""
        sizes = [len(values) for values in self.over.values()]
        if len(sizes) != 2 or max(sizes) > 64 or len(cases) > _DRAWN:
            return ()
        labels = [[" ".join(map(str, got[row * sizes[1] + column])) for column in range(sizes[1])]
                  for row in range(sizes[0])]  # fmt: skip
        (first, rows), (second, columns) = self.over.items()
        what = f"Your {listing(self.returns, 'and')}"
        return (marked(labels, wrong.reshape(sizes), what, (first, second), (rows, columns)),)


def _clipped(value: int) -> int:
    return max(-_LARGEST, min(value, _LARGEST))
