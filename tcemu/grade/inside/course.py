"""The tcemu.course that a notebook gets in the box: check, given and hint send requests to the outside.

The rows of the exercises and their judges are not in the box.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tcemu.errors import CourseError

if TYPE_CHECKING:
    from tcemu.grade.inside.session import Session


class Noted:
    """The result of a check in the box: the answer is recorded; whether it is right is not known here."""

    state, says, mistake, points = "noted", "The answer is noted.", "", 0.0

    def __repr__(self) -> str:
        return self.says


class Given(Mapping[str, Any]):
    """The numbers of an exercise: `given.A` or `given["A"]`."""

    def __init__(self, numbers: dict[str, Any]) -> None:
        self._numbers = numbers

    def __getitem__(self, name: str) -> Any:
        return self._numbers[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_numbers"][name]
        except KeyError:
            raise AttributeError(f"the exercise does not give {name}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def module(session: Session) -> ModuleType:
    """The module for a session."""

    def check(*function: Any, **answer: Any) -> Noted:
        """Send an answer to the outside."""
        if len(function) + len(answer) != 1:
            raise CourseError("check one answer at a time: check(where_of_a), or check(first_sum=0x4b00)")
        name, held = next(iter(answer.items())) if answer else (getattr(function[0], "__name__", ""), function[0])
        session.ask("check", name, held)
        return Noted()

    def given(name: str) -> Given:
        """The numbers of an exercise."""
        return Given(session.ask("given", name))

    def hint(name: Any, number: int | None = None) -> str:
        """Nothing: hints are for learners."""
        return ""

    made = ModuleType("tcemu.course", __doc__)
    made.__path__ = []
    made.__dict__.update(check=check, given=given, hint=hint)
    return made
