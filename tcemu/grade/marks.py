"""Verdicts as marks: plain text of limited length, and points within bounds."""

from __future__ import annotations

from tcemu.course.record import Exercise
from tcemu.course.verdict import Verdict
from tcemu.grade.records import Mark
from tcemu.grade.warps import legible

#: Characters of a mark's message, and decimals of its points.
_SAYS, _DECIMALS = 4000, 4


def failed(stem: str, exercise: Exercise, says: str) -> Mark:
    """The mark of an exercise that could not be checked."""
    return Mark(exercise.name, stem, "failed", 0.0, exercise.points, says)


def mark_of(stem: str, verdict: Verdict) -> Mark:
    """A verdict as a mark."""
    finding = verdict.finding
    points = round(min(max(verdict.points, 0.0), verdict.exercise.points), _DECIMALS)
    return Mark(
        verdict.exercise.name, stem, verdict.state, points, verdict.exercise.points, legible(finding.says, _SAYS),
        legible(finding.mistake, _SAYS), dict(finding.scores), tuple(picture.svg for picture in finding.pictures),
    )  # fmt: skip
