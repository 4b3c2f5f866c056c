"""How late work was handed in, and what the course's rule would take. It is shown, and never taken from the points."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tcemu.course.manifests import Entry, Late, Manifest
from tcemu.grade.output.sheet import number
from tcemu.grade.records import Grade, Submission

#: Times as nbgrader and Gradescope write them; times in other zones are not guessed.
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\.\d+)? ?(Z|UTC|[+-]\d\d:?\d\d)")
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Lateness:
    """One submission beside the deadlines of its notebooks."""

    #: Minutes that the latest of its notebooks is late, None if that is unknown; and the points that the rule leaves.
    minutes: int | None
    points: float
    #: A sentence for each notebook that is late, or whose time is unknown.
    says: tuple[str, ...] = ()


def lateness(grade: Grade, submission: Submission | None, course: Manifest) -> Lateness | None:
    """How late a submission is; None if no notebook that was handed in has a deadline."""
    stems = {entry.file.removesuffix(".ipynb"): entry for entry in course.notebooks if entry.due}
    handed = [(stem, stems[stem]) for stem in sorted(submission.files if submission else ()) if stem in stems]
    if not handed or submission is None:
        return None
    says, minutes, unknown, taken = [], 0, False, 0.0
    for stem, entry in handed:
        points = sum(mark.points for mark in grade.marks if mark.notebook == stem)
        said = submission.handed_in.get(stem, "")
        when = time_of(said)
        if when is None:
            unknown = True
            how = f"is late, says the website ({said})" if said else "has a deadline, but nothing says when"
            says.append(f"{entry.label} {how}{'' if said else ' it was handed in'}; due {_shown(entry)}.")
            continue
        late, percent = by_rule(when, entry, course.late)
        minutes = max(minutes, late)
        taken += points * percent / 100
        if late:
            says.append(_in_words(entry, late, percent, points))
    return Lateness(None if unknown and not minutes else minutes, grade.points - taken, tuple(says))


def time_of(text: str) -> datetime | None:
    """The time in a string, if it says in which zone.

    >>> from tcemu.grade.output.lateness import time_of
    >>> time_of("2026-10-10 20:45:35.236513000 Z").isoformat(), time_of("2026-10-10 20:45 CET")
    ('2026-10-10T20:45:35+00:00', None)
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    zone = "+00:00" if match[3] in ("Z", "UTC") else match[3]
    try:
        return datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}")
    except ValueError:
        return None


def by_rule(when: datetime, entry: Entry, rule: Late) -> tuple[int, int]:
    """Minutes after the deadline, and the percentage that the rule takes; (0, 0) within the minutes of grace.

    >>> from datetime import UTC, datetime
    >>> from tcemu.course.manifests import Entry, Late
    >>> from tcemu.grade.output.lateness import by_rule
    >>> entry = Entry("02.ipynb", "Fragments", 45, due=datetime(2026, 10, 12, tzinfo=UTC))
    >>> by_rule(datetime(2026, 10, 13, 1, tzinfo=UTC), entry, Late(per_day=10))
    (1500, 20)
    """
    over = when.astimezone(UTC) - entry.due.astimezone(UTC) if entry.due else timedelta(0)
    if over <= timedelta(minutes=rule.grace):
        return 0, 0
    days = -(-over // _DAY)
    return max(1, over // timedelta(minutes=1)), min(rule.most, rule.per_day * days)


def _in_words(entry: Entry, late: int, percent: int, points: float) -> str:
    said = f"{entry.label} was handed in {span(late)} after the deadline, {_shown(entry)}."
    if not percent:
        return said
    left = points * (100 - percent) / 100
    takes = f"The course's rule takes {percent} %: {number(points)} points would become {number(left)}."
    return f"{said} {takes} It is not applied here."


def _shown(entry: Entry) -> str:
    return entry.due.isoformat(" ", "minutes") if entry.due else ""


def span(minutes: int) -> str:
    """A time in words.

    >>> from tcemu.grade.output.lateness import span
    >>> span(1500), span(59)
    ('1 d 1 h', '59 min')
    """
    days, rest = divmod(minutes, 24 * 60)
    hours, left = divmod(rest, 60)
    parts = ((days, "d"), (hours, "h"), (left, "min"))
    return " ".join([f"{value} {unit}" for value, unit in parts if value][:2])


def of_class(grades: Sequence[Grade], submissions: Sequence[Submission], course: Manifest) -> Mapping[str, Lateness]:
    """The lateness of each student's submission, by student, where there is a deadline."""
    handed = {each.student: each for each in submissions}
    lateness_of = {grade.student: lateness(grade, handed.get(grade.student), course) for grade in grades}
    return {student: late for student, late in lateness_of.items() if late}
