"""Judges an array, or a few numbers, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.course.accidents import about_array, accident
from tcemu.course.answers import AnswerError, array, called, function
from tcemu.course.judges.credit import credit
from tcemu.course.mistakes import Mistake, diagnosis
from tcemu.course.record import Evidence, Finding, Given
from tcemu.errors import counted, listing
from tcemu.show.matrices import marked

Array = npt.NDArray[Any]
#: Values that a picture shows at most: more are neither quick to draw nor easy to read.
_DRAWN = 1024
#: A mistake is named if it explains this share of the wrong values.
CLOSE = 0.9
#: Other answers by the name of the mistake that gives them.
Mistakes = Callable[[Given], Iterable[tuple[str, npt.ArrayLike]]]


def none(given: Given) -> Iterable[tuple[str, npt.ArrayLike]]:
    """No known mistakes."""
    return ()


def nothing(given: Given) -> Iterable[Array]:
    """No arrays."""
    return ()


@dataclass(frozen=True)
class Values:
    """Judges an array, or a few numbers, bit for bit.

    `right` returns what is right for the given numbers; `mistakes` what each mistake gives. `place` names an element
    by its index; `reveals` says whether the right value of the first wrong element may be shown.

    >>> from tcemu.course import Given, judges
    >>> judge = judges.Values(lambda given: [1, 2], np.uint32, lambda given: [("They are swapped.", [2, 1])])
    >>> finding = judge.mark(judge.collect([2, 1], Given()), Given())
    >>> finding.says, finding.mistake
    ('The answer at [0] is 0x2, which is wrong. 2 of 2 values are wrong.', 'They are swapped.')
    >>> judge.mistakes(Given()), judge.idle(Given())
    ([('They are swapped.', [2, 1])], ())
    """

    right: Callable[[Given], npt.ArrayLike]
    dtype: npt.DTypeLike
    mistakes: Mistakes = none
    place: Callable[[tuple[int, ...]], str] | None = None
    what: str = "The answer"
    #: Names of the numbers, if the answer is a few of them.
    names: tuple[str, ...] = ()
    reveals: bool = False
    #: What the axes of the array count: ("lane", "register").
    axes: tuple[str, ...] = ()
    #: What else can be said about a wrong answer, from what was got and what was given.
    observed: Callable[[Array, Given], str] | None = None
    how: str = "every bit"
    #: Arrays, beside the given ones, that the answer could hold without any work.
    idle: Callable[[Given], Iterable[Array]] = nothing

    def collect(self, answer: Any, given: Given) -> Evidence:
        """The answer as an array of the right shape and dtype; a function is called with the given numbers."""
        if callable(answer) and not isinstance(answer, np.ndarray | np.generic):
            answer = called(function(answer, tuple(given)), tuple(given), tuple(given.values()))
        if self.names:
            return {"values": array(self._by_name(answer), (len(self.names),), self.dtype, self.what)}
        return {"values": array(answer, self._right(given).shape, self.dtype, self.what)}

    def _by_name(self, answer: Any) -> list[Any]:
        """The numbers of a dict, or of a list in their order. Raises AnswerError for what is not a number."""
        numbers = self._of_dict(answer) if type(answer) is dict else answer
        if isinstance(numbers, list) and all(part is not ... for part in numbers):
            for name, number in zip(self.names, numbers, strict=False):
                array(number, (), self.dtype, name)
        return numbers

    def _of_dict(self, answer: dict[Any, Any]) -> list[Any]:
        """The numbers in their order; the dots of an exercise may stand for all of them."""
        missing = [name for name in self.names if name not in answer]
        if missing and len(missing) < len(self.names):
            has = listing(self.names, "and")
            raise AnswerError(f"The answer has no {missing[0]!r}. It is a dict with the keys {has}.")
        return [answer.get(name, ...) for name in self.names]

    def _right(self, given: Given) -> Array:
        return np.asarray(self.right(given), self.dtype)

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Compare every bit; all NaN patterns differ."""
        got, right = evidence["values"], self._right(given)
        wrong = bits(got) != bits(right)
        if not wrong.any():
            return Finding(True, f"Right: {counted(got.size, 'value')}." if got.ndim else "Right.", share=1.0)
        index = tuple(int(i) for i in np.argwhere(wrong)[0]) if got.ndim else ()
        says = f"{self._place(index)} is {_shown(got[index])}"
        says += f", not {_shown(right[index])}." if self.reveals else ", which is wrong."
        if got.size > 1:
            count = int(wrong.sum())
            says += f" {count:,} of {counted(got.size, 'value')} {'is' if count == 1 else 'are'} wrong."
        mistakes = (Mistake(name, bits(np.asarray(gives, self.dtype))) for name, gives in self.mistakes(given))
        mistake = diagnosis(bits(got), bits(right), mistakes, CLOSE) or self._observed(got, right, given)
        idle = [bits(array) for array in self._idle(given, right)]
        return Finding(False, says, mistake, credit(np.asarray(wrong), bits(right), idle), self._pictures(got, wrong))

    def _idle(self, given: Given, right: Array) -> Iterator[Array]:
        """The arrays that were there before, as answers."""
        for each in [*given.values(), *self.idle(given)]:
            if isinstance(each, np.ndarray) and each.shape == right.shape:
                with np.errstate(all="ignore"):
                    yield each.astype(right.dtype)

    def _observed(self, got: Array, right: Array, given: Given) -> str:
        says = accident(got, right, self.axes) or (self.observed(got, given) if self.observed else "")
        return says or about_array(got, right, self.axes)

    def _place(self, index: tuple[int, ...]) -> str:
        if self.place is not None:
            return self.place(index)
        if self.names and len(index) == 1:
            return self.names[index[0]]
        return f"{self.what} at [{', '.join(map(str, index))}]" if index else self.what

    @staticmethod
    def _pictures(got: Array, wrong: npt.NDArray[np.bool_]) -> tuple[Any, ...]:
        if got.ndim != 2 or max(got.shape) > 64 or min(got.shape) < 2 or got.size > _DRAWN:
            return ()
        # Numpy's shortest digits, which identify the number: all exact ones of a float32 make eight columns too wide.
        labels = [[str(value) if got.dtype.kind == "f" else _shown(value) for value in row] for row in got]
        return (marked(labels, wrong, "Your values"),)


def bits(values: Array) -> Array:
    """The bits of an array as unsigned integers: NaNs and signed zeros count as what they are."""
    if values.dtype.kind in "biu":
        return values
    return np.array(values, order="C").view(f"u{values.dtype.itemsize}").reshape(values.shape)


def _shown(value: Any) -> str:
    if isinstance(value, np.unsignedinteger):
        return f"{int(value):#x}"
    return f"{value.item()!r}" if hasattr(value, "item") else repr(value)
