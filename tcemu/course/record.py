"""An exercise is a row: what to do, how long it takes, who judges it, and hints. The rows are in `bank/`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tcemu.course.cards import card
from tcemu.errors import TableError, briefly, listing
from tcemu.show.picture import Picture

Array = npt.NDArray[Any]
#: What an answer came to: plain arrays by name, without any object of the learner's.
Evidence = Mapping[str, Array]
#: What the name of a mistake begins with that is a broken rule of the sanitizer.
BROKEN = "Broken rule: "
#: What an answer may call that executes one instruction on registers of its own.
REGISTERS = ("tcemu.run", "tcemu.parse", "tcemu.layouts.Fragment.pack", "tcemu.layouts.Fragment.unpack")


@dataclass(frozen=True)
class Finding:
    """What a judge found.

    >>> from tcemu.course import Finding
    >>> Finding(False, "A[8][0] is not in lane 0, register 0.", mistake="The row's half is forgotten.").share
    0.0
    """

    right: bool
    #: What is right, or the first thing that is wrong: lane, register, bit, row and column.
    says: str
    #: The mistake by its name, if it is known.
    mistake: str = ""
    #: How much of the answer is right, from 0 to 1.
    share: float = 0.0
    pictures: tuple[Picture, ...] = ()
    #: Figures beyond right and wrong, by what they count: {"wavefronts": 32}; less is better.
    scores: Mapping[str, int] = field(default_factory=dict)


class Judge(Protocol):
    """Judges answers in two steps, so that the second never touches an object that the learner made.

    >>> from tcemu import course
    >>> exercise = course.exercise("where_of_a")
    >>> evidence = exercise.judge.collect(lambda row, column: (0, 0), exercise.given())
    >>> evidence["values"].shape
    (256, 2)
    >>> exercise.judge.mark(evidence, exercise.given()).right
    False
    """

    @property
    def how(self) -> str:
        """How it judges, for the learner: "every element, bit for bit"."""
        ...

    def collect(self, answer: Any, given: Given) -> Evidence:
        """Run or read the answer. Raises AnswerError for what cannot be one."""
        ...

    def mark(self, evidence: Evidence, given: Given) -> Finding:
        """Compare what the answer came to with what is right."""
        ...


class Given(Mapping[str, Any]):
    """The numbers of an exercise, which follow from a seed: `given.A` or `given["A"]`.

    >>> from tcemu.course import Given
    >>> numbers = Given({"row": 3, "column": 5})
    >>> numbers.row, numbers
    (3, row = 3, column = 5)
    """

    def __init__(self, numbers: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._numbers = dict(numbers)

    def __getitem__(self, name: str) -> Any:
        return self._numbers[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_numbers"][name]
        except KeyError:
            has = listing(self.__dict__.get("_numbers", ()), "and")
            raise AttributeError(f"the exercise gives {has}, but not {name}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._numbers]

    def __repr__(self) -> str:
        return ", ".join(f"{name} = {_short(value)}" for name, value in self._numbers.items()) or "nothing is given"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"an array {value.shape} of {value.dtype}"
    return briefly(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)


def _nothing(rng: np.random.Generator) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Exercise:
    """One exercise. Raises TableError if the row contradicts itself.

    >>> from tcemu import course
    >>> exercise = course.exercise("where_of_a")
    >>> exercise.title, exercise.minutes, exercise.how
    ('Where is A[row][column]?', 10, 'every element of the matrix')
    >>> exercise.given("ada")  # the numbers of ada's variant, from exercise.draw(a random generator)
    nothing is given
    >>> course.exercise("nearest_tf32").unseen("a seed that nobody knows").name
    'nearest_tf32'
    """

    #: What the learner's function or answer is called; unique in the course.
    name: str
    title: str
    #: The task, in Markdown: what to write, what it takes and what it returns.
    task: str
    judge: Judge
    #: Minutes that it takes somebody who has read the notebook.
    minutes: int
    #: What is needed to solve it, for a learner who comes from elsewhere.
    know: str
    #: The section of the PTX manual, or "" for what the manual does not describe.
    section: str = ""
    #: Each says a little more than the one before; none is the answer.
    hints: tuple[str, ...] = ()
    points: int = 1
    #: Makes the numbers of a variant from a random generator.
    draw: Callable[[np.random.Generator], Mapping[str, Any]] = field(default=_nothing, repr=False)
    #: The best known scores, by what they count.
    best: Mapping[str, int] = field(default_factory=dict)
    #: All of tcemu that the answer may call, by public names: functions, and classes and modules with all that is in
    #: them; None is everything, and for kernels the machine. What the answer enters while it is judged counts, not what
    #: its text says.
    only: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise TableError(f"the name of an exercise must be a legal name of a function; got {self.name!r}")
        if not (self.title and self.task and self.know and self.minutes > 0 and self.points > 0):
            raise TableError(f"{self.name}: an exercise must say what to do, what to know, its minutes and its points")
        if not self.hints or isinstance(self.hints, str):
            raise TableError(f"{self.name}: hints must be a tuple of at least one string")

    @property
    def how(self) -> str:
        """How it is judged."""
        return self.judge.how

    @property
    def calls(self) -> bool:
        """Whether the answer is a function: the task then shows how it is called."""
        return f"`{self.name}(" in self.task

    def unseen(self, seed: str) -> Exercise | None:
        """The same exercise as a grader judges it once more, on numbers from a seed that nobody else knows.

        None if the answer is no function, or there are no other numbers. The numbers are `given(seed)`.
        """
        rng = np.random.Generator(np.random.PCG64(_number(f"{self.name}/{seed}/unseen")))
        other = getattr(self.judge, "unseen", None)
        judge = self.judge if other is None else other(rng)
        alike = judge is None or (other is None and not self.varies)
        return None if alike or not (self.calls or other) else replace(self, judge=judge)

    @cached_property
    def varies(self) -> bool:
        """Whether its numbers depend on the seed."""
        return self.draw is not _nothing

    def _repr_markdown_(self) -> str:
        return card(self)

    def given(self, seed: str = "") -> Given:
        """The numbers of one variant. The same seed gives the same bytes on every machine."""
        # PCG64 and the methods of Generator used here are the same on every platform (NEP 19).
        return Given(self.draw(np.random.Generator(np.random.PCG64(_number(f"{self.name}/{seed}")))))


def _number(text: str) -> int:
    """A number of 128 bits that stands for a text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
