"""The words for states, on every page and in every file."""

from __future__ import annotations

from collections.abc import Mapping

from tcemu.grade.records import Grade, GradeState, MarkState

#: What became of an exercise, and the sign beside it.
WORDS: Mapping[MarkState, str] = {
    "right": "Right", "wrong": "Not right yet", "open": "Not answered yet", "failed": "Not reached, or stopped",
}  # fmt: skip
SIGNS: Mapping[MarkState, str] = {"right": "✓", "wrong": "✗", "open": "–", "failed": "!"}

#: What became of a submission; nothing need be said about one that was graded.
_STATES: Mapping[GradeState, str] = {
    "graded": "",
    "refused": "Nothing in this submission can be marked.",
    "quarantined": "Several attempts to mark this submission failed.",
}


def about_grade(grade: Grade) -> list[str]:
    """What has to be said about a submission as a whole, a sentence each.

    >>> from tcemu.grade.output.words import about_grade
    >>> from tcemu.grade.records import Grade
    >>> about_grade(Grade("ada", "0", state="refused", says="work.zip is damaged."))
    ['Nothing in this submission can be marked.', 'work.zip is damaged.']
    """
    return [line for line in (_STATES[grade.state], *grade.says.split("\n")) if line.strip()]
