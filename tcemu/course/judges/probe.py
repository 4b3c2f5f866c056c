"""Judges a function that finds one number about black boxes, which it can only call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tcemu.course.answers import called, function, wholes
from tcemu.course.judges.credit import credit
from tcemu.course.mistakes import Mistake, diagnosis
from tcemu.course.record import Evidence, Finding, Given
from tcemu.errors import counted


@dataclass(frozen=True)
class Probe:
    """Judges a function of one argument, a black box, that returns one whole number about it.

    `boxes` makes the boxes of a variant, by name, each with what is right for it. `mistakes` makes the numbers that
    each mistake gives, in the same order.

    >>> from tcemu.course import Given
    >>> from tcemu.course.judges.probe import Probe
    >>> boxes = {"the first": (lambda: 3, 3), "the second": (lambda: 5, 5)}
    >>> judge = Probe("box", "number", lambda given: boxes, lambda given: {"One too many.": [4, 6]})
    >>> judge.mark(judge.collect(lambda box: box() + 1, Given()), Given()).mistake
    'One too many.'
    """

    argument: str
    returns: str
    boxes: Callable[[Given], Mapping[str, tuple[Callable[..., Any], int]]]
    mistakes: Callable[[Given], Mapping[str, list[int]]]
    how: str = "what your function finds out about each of several boxes"

    def collect(self, answer: Any, given: Given) -> Evidence:
        """Call the function with every box."""
        learner = function(answer, (self.argument,))
        numbers = []
        for name, (box, _) in self.boxes(given).items():
            (number,) = wholes(called(learner, (self.argument,), (box,)), (self.returns,), f"For {name} your function")
            numbers.append(max(-(1 << 62), min(number, 1 << 62)))
        return {"values": np.array(numbers, np.int64)}

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Compare the numbers."""
        boxes = self.boxes(given)
        right = np.array([number for _, number in boxes.values()], np.int64)
        got = evidence["values"]
        wrong = got != right
        if not wrong.any():
            return Finding(True, f"Right for all {len(right)} of them.", share=1.0)
        first = int(np.argmax(wrong))
        says = f"For {list(boxes)[first]} your function gives {got[first]}, which is wrong; "
        says += f"{counted(int(wrong.sum()), 'number')} of {len(right)} {'is' if wrong.sum() == 1 else 'are'} wrong."
        mistakes = (Mistake(name, np.array(gives, np.int64)) for name, gives in self.mistakes(given).items())
        return Finding(False, says, diagnosis(got, right, mistakes), credit(wrong, right))
