"""The teacher's view of a class: where learners are, which exercises stop them, which mistakes they make.

It comes from files that learners may edit, so only what has the right form counts: names of exercises that exist, and
strings of limited length. A damaged file is shown as such, and does not hide the other learners.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from tcemu.classroom.settings import course
from tcemu.course import exercises

#: Tries after which an exercise that is not solved counts as one that stops a learner.
STUCK = 3
#: What the board says about a file that cannot be read, and about a server that gives none.
DAMAGED, SILENT = "the progress file is damaged", "the server does not answer"
#: Mistakes of one exercise that count, and letters of each.
MISTAKES, LETTERS = 20, 300


@dataclass(frozen=True)
class Seen:
    """One learner.

    >>> from tcemu.classroom.seen import read
    >>> read("ada", '{"exercises": {"where_of_a": {"tries": 4}}}').stuck
    ('where_of_a',)
    """

    name: str
    solved: frozenset[str] = frozenset()
    tries: Mapping[str, int] = field(default_factory=dict)
    #: How often each mistake was made, by exercise.
    mistakes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: The exercise tried last, and when.
    latest: str = ""
    at: datetime | None = None
    #: The notebook in use, as the course calls it.
    notebook: str = ""
    here: bool = True
    #: Why there is no more to see; "" if there is.
    trouble: str = ""

    @property
    def stuck(self) -> tuple[str, ...]:
        """The exercises that the learner has tried several times without success."""
        return tuple(name for name, tries in self.tries.items() if tries >= STUCK and name not in self.solved)


def read(name: str, text: str, sessions: Sequence[Any] = ()) -> Seen:
    """The state in a learner's progress file and open notebooks; only a word for a damaged file.

    >>> from tcemu.classroom.seen import read
    >>> read("ada", "{").trouble
    'the progress file is damaged'
    """
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        return Seen(name, notebook=_notebook(sessions), trouble=DAMAGED)
    entries = _mapping(held.get("exercises"))
    entries = {known: _mapping(entries[known]) for known in exercises() if known in entries}
    latest = _mapping(held.get("latest"))
    return Seen(
        name,
        frozenset(known for known, entry in entries.items() if entry.get("solved")),
        {known: _count(entry.get("tries")) for known, entry in entries.items()},
        {known: _mistakes(entry.get("mistakes")) for known, entry in entries.items()},
        next((known for known in entries if known == latest.get("exercise")), ""),
        _time(latest.get("at")),
        _notebook(sessions),
    )


def _mapping(held: object) -> Mapping[str, Any]:
    return held if isinstance(held, dict) else {}


def _count(held: object) -> int:
    return min(held, 10**6) if isinstance(held, int) and held > 0 else 0


def _mistakes(held: object) -> dict[str, int]:
    mistakes = [(_text(says), _count(times)) for says, times in islice(_mapping(held).items(), MISTAKES)]
    return dict(mistakes)


def _text(held: object) -> str:
    """A text that can be shown: half a character of UTF-16 becomes a question mark."""
    return held[:LETTERS].encode(errors="replace").decode() if isinstance(held, str) else ""


def _time(held: object) -> datetime | None:
    try:
        time = datetime.fromisoformat(held) if isinstance(held, str) else None
    except ValueError:
        return None
    return time if time and time.tzinfo else None


def _notebook(sessions: Sequence[Any]) -> str:
    """The notebook whose kernel was used last, as the course calls it; "" if it is not one of the course's."""
    labels = {entry.file: entry.label for entry in course().notebooks}
    used = [
        (_text(_mapping(each.get("kernel")).get("last_activity")), _text(each.get("path")).rsplit("/", 1)[-1])
        for each in map(_mapping, sessions)
    ]
    return next((labels[file] for _, file in sorted(used, reverse=True) if file in labels), "")


@dataclass(frozen=True)
class Hurdle:
    """One exercise, and how far a class has come with it."""

    name: str
    title: str
    tried: int
    solved: int
    #: Who has tried it several times without success.
    stuck: tuple[str, ...]
    tries: int


def hurdles(learners: Iterable[Seen]) -> list[Hurdle]:
    """The exercises that somebody has tried; those that stop most learners first.

    >>> from tcemu.classroom.seen import hurdles, read
    >>> [each.stuck for each in hurdles([read("ada", '{"exercises": {"where_of_a": {"tries": 4}}}')])]
    [('ada',)]
    """
    learners = list(learners)
    hurdles = []
    for name, exercise in exercises().items():
        trying = [each for each in learners if each.tries.get(name)]
        if trying:
            solved = sum(name in each.solved for each in trying)
            stuck = tuple(each.name for each in trying if name in each.stuck)
            tries = sum(each.tries[name] for each in trying)
            hurdles.append(Hurdle(name, exercise.title, len(trying), solved, stuck, tries))
    return sorted(hurdles, key=lambda each: (-len(each.stuck), each.solved - each.tried, -each.tries))


@dataclass(frozen=True)
class Slip:
    """One mistake, which the course recognised."""

    exercise: str
    title: str
    says: str
    learners: int
    times: int


def slips(learners: Iterable[Seen]) -> list[Slip]:
    """The mistakes that were made; the most frequent first."""
    people, times = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for learner in learners:
        for name, held in learner.mistakes.items():
            people.update((name, says) for says in held)
            times.update({(name, says): count for says, count in held.items()})
    known = exercises()
    slips = [Slip(name, known[name].title, says, count, times[name, says]) for (name, says), count in people.items()]
    return sorted(slips, key=lambda each: (-each.learners, -each.times, each.exercise, each.says))
