"""What a class's grades say together: which exercises stop people, which mistakes they make, how points are spread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tcemu.grade.records import Grade, MarkState

#: Parts into which the spread of points is divided.
_PARTS = 10


@dataclass(frozen=True)
class Row:
    """One exercise in a class.

    >>> from tcemu.grade.output.statistics import Row
    >>> Row("where_of_a", "02_fragments", right=3, wrong=1, failed=0, open=6, earned=0.35).stopped
    0.25
    """

    exercise: str
    notebook: str
    right: int
    wrong: int
    failed: int
    open: int
    #: The mean part of the points, from 0 to 1, over everybody who has the exercise.
    earned: float

    @property
    def tried(self) -> int:
        """How many students answered it."""
        return self.right + self.wrong + self.failed

    @property
    def stopped(self) -> float:
        """The part of those who answered it whose answer is not right."""
        return (self.tried - self.right) / self.tried if self.tried else 0.0


def rows(grades: Sequence[Grade]) -> list[Row]:
    """A row for each exercise; first those that stop most of the people who try them."""
    marks = [mark for grade in grades for mark in grade.marks]
    counts = Counter((mark.notebook, mark.exercise, mark.state) for mark in marks)
    earned: defaultdict[tuple[str, str], float] = defaultdict(float)
    for mark in marks:
        earned[mark.notebook, mark.exercise] += mark.points / max(mark.of, 1)

    def row(notebook: str, exercise: str) -> Row:
        def having(state: MarkState) -> int:
            return counts[notebook, exercise, state]

        right, wrong, failed, unanswered = having("right"), having("wrong"), having("failed"), having("open")
        everybody = right + wrong + failed + unanswered
        mean = earned[notebook, exercise] / everybody
        return Row(exercise, notebook, right, wrong, failed, unanswered, mean)

    made = [row(*key) for key in sorted({(mark.notebook, mark.exercise) for mark in marks})]
    return sorted(made, key=lambda each: (-each.stopped, each.right - each.tried))


def mistakes(grades: Sequence[Grade]) -> list[tuple[int, str, str]]:
    """How many students made which mistake in which exercise: (number, exercise, mistake), the most frequent first."""
    counts = Counter((mark.exercise, mark.mistake) for grade in grades for mark in grade.marks if mark.mistake)
    return sorted(((number, *which) for which, number in counts.items()), key=lambda each: (-each[0], *each[1:]))


def spread(grades: Sequence[Grade]) -> list[tuple[str, int]]:
    """How many students have which part of the points they could have: ("0 to 10 %", 3), ...

    >>> from tcemu.grade.output.statistics import spread
    >>> from tcemu.grade.records import Grade, Mark
    >>> spread([Grade("ada", "0", (Mark("where_of_a", "02_fragments", "right", 2.0, 2),))])[-1]
    ('90 to 100 %', 1)
    """
    parts = Counter(min(int(_PARTS * grade.points / grade.of), _PARTS - 1) for grade in grades if grade.of)
    step = 100 // _PARTS
    return [(f"{step * part} to {step * (part + 1)} %", parts[part]) for part in range(_PARTS)]


def unsolved(every: Sequence[Row]) -> list[Row]:
    """The exercises that no student solved."""
    return [row for row in every if not row.right]
